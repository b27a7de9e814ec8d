// SPDX-License-Identifier: Apache-2.0
// Sums and means over axes: bias_grad, sum_to, reduce_sum, reduce_mean, global_average_pool. Neighbouring axes that
// are both kept or both summed are joined; what remains is, at most, keep, sum, keep, sum:
//     out[k0][k1] = factor * sum over s0, s1 of x[k0][s0][k1][s1]
// Sums of a few hundred numbers run in single precision and are added up in double precision. How s0 is cut into
// chunks depends on the shape alone, so no sum depends on the number of threads.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"

enum { BLOCK = 128, CHUNK = 512, MAX_CHUNKS = 32, LANES = 16, BLOCK_RUN = 2048 };

typedef struct reduction {
    int64_t k0, s0, k1, s1;
    int64_t chunks;  // of s0, where s1 is 1
    float factor;
} reduction;

typedef struct job {
    const reduction *r;
    const float *x;
    float *out;
    double *sums;   // k0 x chunks x k1
    float *blocks;  // the same
} job;

// ---- rows added up: s1 is 1

CKM_I_CPU_CLONES static void add_up_rows(const float *x, int64_t rows, int64_t n, float *sum)
{
    for (int64_t r = 0; r < rows; r++) {
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < n; i++) {
            sum[i] += x[r * n + i];
        }
    }
}

static void sum_chunk(const job *j, int64_t index)
{
    const reduction *r = j->r;
    int64_t n = r->k1;
    int64_t chunk = index % r->chunks;
    int64_t begin = r->s0 * chunk / r->chunks;
    int64_t end = r->s0 * (chunk + 1) / r->chunks;
    const float *x = j->x + index / r->chunks * r->s0 * n;
    double *sums = j->sums + index * n;
    float *block = j->blocks + index * n;
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t s = begin; s < end; s += BLOCK) {
        int64_t rows = end - s < BLOCK ? end - s : BLOCK;
        memset(block, 0, (size_t)n * sizeof *block);
        add_up_rows(x + s * n, rows, n, block);
        for (int64_t i = 0; i < n; i++) {
            sums[i] += (double)block[i];
        }
    }
}

static void sum_chunks(void *context, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        sum_chunk(context, i);
    }
}

static void join_chunks(const job *j)
{
    const reduction *r = j->r;
    for (int64_t k = 0; k < r->k0; k++) {
        double *first = j->sums + k * r->chunks * r->k1;
        for (int64_t i = 0; i < r->k1; i++) {
            double sum = first[i];
            for (int64_t chunk = 1; chunk < r->chunks; chunk++) {
                sum += first[chunk * r->k1 + i];
            }
            j->out[k * r->k1 + i] = (float)(sum * (double)r->factor);
        }
    }
}

// ---- runs summed: s1 is not 1

CKM_I_CPU_CLONES static double sum_run(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    double sum = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int k = 0; k < LANES; k++) {
            lane[k] += x[i + k];
        }
    }
    for (int k = 0; i < n; i++, k++) {
        lane[k] += x[i];
    }
    for (int k = 0; k < LANES; k++) {
        sum += (double)lane[k];
    }
    return sum;
}

static void sum_outputs(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const reduction *r = j->r;
    for (int64_t o = begin; o < end; o++) {
        double sum = 0.0;
        for (int64_t s = 0; s < r->s0; s++) {
            const float *x = j->x + ((o / r->k1 * r->s0 + s) * r->k1 + o % r->k1) * r->s1;
            for (int64_t i = 0; i < r->s1; i += BLOCK_RUN) {
                sum += sum_run(x + i, r->s1 - i < BLOCK_RUN ? r->s1 - i : BLOCK_RUN);
            }
        }
        j->out[o] = (float)(sum * (double)r->factor);
    }
}

static ckm_status run_reduction(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                                ckm_error *err)
{
    (void)err;
    const reduction *r = kernel->data;
    job j = {.r = r, .x = call->inputs[0], .out = call->outputs[0], .sums = call->workspace};
    if (r->s1 > 1) {
        ckm_i_cpu_parallel(cpu->threads, r->k0 * r->k1, CKM_I_CPU_GRAIN / (r->s0 * r->s1) + 1, sum_outputs, &j);
        return CKM_OK;
    }
    j.blocks = (float *)(j.sums + r->k0 * r->chunks * r->k1);
    ckm_i_cpu_parallel(cpu->threads, r->k0 * r->chunks, CKM_I_CPU_GRAIN * r->chunks / (r->s0 * r->k1) + 1, sum_chunks,
                       &j);
    join_chunks(&j);
    return CKM_OK;
}

// False when the axes do not come down to four groups.
static bool join_axes(const ckm_shape *shape, const bool *summed, reduction *r)
{
    int64_t *const groups[4] = {&r->k0, &r->s0, &r->k1, &r->s1};
    int32_t at = 0;
    r->k0 = r->s0 = r->k1 = r->s1 = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == 1) {
            continue;
        }
        if ((at % 2 == 1) != summed[i]) {
            at++;
        }
        if (at > 3) {
            return false;
        }
        *groups[at] *= shape->dims[i];
    }
    // A single sum at the end is one of runs: keep, sum becomes keep, 1, 1, sum.
    if (r->k1 == 1 && r->s1 == 1) {
        r->k1 = r->k0;
        r->s1 = r->s0;
        r->k0 = 1;
        r->s0 = 1;
    }
    return true;
}

static ckm_status take(const ckm_i_op_view *v, const bool *summed, bool mean, ckm_i_kernel *kernel, ckm_error *err)
{
    const ckm_shape *shape = &v->in[0]->shape;
    reduction r;
    if (v->in[0]->dtype != CKM_F32 || !join_axes(shape, summed, &r) || ckm_i_elements(shape) == 0) {
        return CKM_OK;
    }
    r.factor = mean ? (float)(1.0 / ((double)r.s0 * (double)r.s1)) : 1.0F;
    r.chunks = r.s0 / CHUNK < 1 ? 1 : (r.s0 / CHUNK > MAX_CHUNKS ? MAX_CHUNKS : r.s0 / CHUNK);
    reduction *kept = ckm_i_memdup(&r, 1, sizeof r);
    if (kept == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->data = kept;
    kernel->dispose = free;
    kernel->run = run_reduction;
    if (r.s1 == 1) {
        kernel->workspace_bytes = r.k0 * r.chunks * r.k1 * (int64_t)(sizeof(double) + sizeof(float));
    }
    return CKM_OK;
}

static ckm_status prepare_bias_grad(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    int32_t rank = v->in[0]->shape.rank;
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, rank - 1);
    bool summed[CKM_MAX_RANK];
    for (int32_t i = 0; i < CKM_MAX_RANK; i++) {
        summed[i] = i != axis;
    }
    return take(v, summed, false, kernel, err);
}

// The axes along which the output's shape repeats to the input's.
static ckm_status prepare_sum_to(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    const ckm_shape *from = &v->in[0]->shape;
    const ckm_shape *to = &v->graph->tensors[v->op->outputs[0]].shape;
    bool summed[CKM_MAX_RANK] = {false};
    for (int32_t i = 0; i < from->rank; i++) {
        int32_t own = i - (from->rank - to->rank);
        summed[i] = own < 0 || to->dims[own] != from->dims[i];
    }
    return take(v, summed, false, kernel, err);
}

static ckm_status prepare_axes(const ckm_i_op_view *v, bool mean, ckm_i_kernel *kernel, ckm_error *err)
{
    int32_t rank = v->in[0]->shape.rank;
    const ckm_i_attr *axes = ckm_i_op_attr(v->op, "axes");
    bool summed[CKM_MAX_RANK];
    for (int32_t i = 0; i < CKM_MAX_RANK; i++) {
        summed[i] = axes == NULL;
    }
    for (int32_t i = 0; axes != NULL && i < axes->n; i++) {
        summed[axes->ints[i] < 0 ? axes->ints[i] + rank : axes->ints[i]] = true;
    }
    return take(v, summed, mean, kernel, err);
}

static ckm_status prepare_sum(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare_axes(v, false, kernel, err);
}

static ckm_status prepare_mean(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare_axes(v, true, kernel, err);
}

static ckm_status prepare_global(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    int32_t channels = ckm_i_channel_axis(v->graph, v->in[0]->shape.rank);
    bool summed[CKM_MAX_RANK];
    for (int32_t i = 0; i < CKM_MAX_RANK; i++) {
        summed[i] = i != 0 && i != channels;
    }
    return take(v, summed, true, kernel, err);
}

const ckm_i_cpu_row ckm_i_cpu_reduce[] = {
    {CKM_I_OP_bias_grad, prepare_bias_grad},
    {CKM_I_OP_sum_to, prepare_sum_to},
    {CKM_I_OP_reduce_sum, prepare_sum},
    {CKM_I_OP_reduce_mean, prepare_mean},
    {CKM_I_OP_global_average_pool, prepare_global},
    {0},
};
