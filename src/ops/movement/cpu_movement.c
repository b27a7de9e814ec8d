// SPDX-License-Identifier: Apache-2.0
// Operators that copy: concat, split, slice, pad with a constant, transpose. All are rows copied between two strided
// tensors; rows are divided among threads. A transpose that moves the last axis is copied in square tiles.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"

enum { TILE = 16 };

// One strided copy of 4-byte elements.
typedef struct copy {
    int32_t rank, input, output;
    int64_t dims[CKM_MAX_RANK], to[CKM_MAX_RANK], from[CKM_MAX_RANK];
    int64_t to_first, from_first;
} copy;

typedef struct movement {
    bool fills;  // the output gets `value` first
    float value;
    int64_t n;  // elements of the output
    int32_t copies;
    copy copy[];
} movement;

typedef struct job {
    const movement *m;
    const copy *c;
    const float *from;
    float *to;
} job;

// ---- running

static void fill_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    for (int64_t i = begin; i < end; i++) {
        j->to[i] = j->m->value;
    }
}

// Offsets of row or tile `index` over the first `axes` axes.
static void locate(const copy *c, int32_t axes, int64_t index, int64_t *to, int64_t *from)
{
    *to = c->to_first;
    *from = c->from_first;
    for (int32_t i = axes; i-- > 0;) {
        int64_t at = index % c->dims[i];
        index /= c->dims[i];
        *to += at * c->to[i];
        *from += at * c->from[i];
    }
}

static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const copy *c = j->c;
    int32_t last = c->rank - 1;
    int64_t n = c->dims[last];
    int64_t step = c->from[last];
    int64_t to_step = c->to[last];
    for (int64_t r = begin; r < end; r++) {
        int64_t to;
        int64_t from;
        locate(c, last, r, &to, &from);
        if (step == 1 && to_step == 1) {
            memcpy(j->to + to, j->from + from, (size_t)n * sizeof *j->to);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            j->to[to + i * to_step] = j->from[from + i * step];
        }
    }
}

// The last two axes are swapped: `from` has step 1 along the one before the last.
CKM_I_CPU_CLONES static void transpose_tiles(const float *from, int64_t from_step, float *to, int64_t to_step,
                                             int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r += TILE) {
        int64_t r_end = rows - r < TILE ? rows : r + TILE;
        for (int64_t k = 0; k < columns; k += TILE) {
            int64_t k_end = columns - k < TILE ? columns : k + TILE;
            for (int64_t i = r; i < r_end; i++) {
                for (int64_t q = k; q < k_end; q++) {
                    to[i * to_step + q] = from[q * from_step + i];
                }
            }
        }
    }
}

static void transpose_planes(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const copy *c = j->c;
    int32_t last = c->rank - 1;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t to;
        int64_t from;
        locate(c, last - 1, plane, &to, &from);
        transpose_tiles(j->from + from, c->from[last], j->to + to, c->to[last - 1], c->dims[last - 1], c->dims[last]);
    }
}

static int64_t product(const copy *c, int32_t axes)
{
    int64_t n = 1;
    for (int32_t i = 0; i < axes; i++) {
        n *= c->dims[i];
    }
    return n;
}

static ckm_status run_movement(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    const movement *m = kernel->data;
    if (m->fills) {
        job j = {.m = m, .to = call->outputs[0]};
        ckm_i_cpu_parallel(cpu->threads, m->n, CKM_I_CPU_GRAIN, fill_part, &j);
    }
    for (int32_t i = 0; i < m->copies; i++) {
        const copy *c = &m->copy[i];
        job j = {.m = m, .c = c, .from = call->inputs[c->input], .to = call->outputs[c->output]};
        int32_t last = c->rank - 1;
        if (j.to == NULL || c->dims[last] <= 0) {
            continue;
        }
        if (last > 0 && c->to[last] == 1 && c->from[last] != 1 && c->from[last - 1] == 1) {
            int64_t plane = c->dims[last] * c->dims[last - 1];
            ckm_i_cpu_parallel(cpu->threads, product(c, last - 1), CKM_I_CPU_GRAIN / plane + 1, transpose_planes, &j);
        } else {
            ckm_i_cpu_parallel(cpu->threads, product(c, last), CKM_I_CPU_GRAIN / c->dims[last] + 1, copy_rows, &j);
        }
    }
    return CKM_OK;
}

// ---- preparation

static void dense_strides(const ckm_shape *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t i = shape->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
}

// Axes of size 1 go, neighbours that both sides walk as one are joined.
static void simplify(copy *c)
{
    copy joined = *c;
    joined.rank = 0;
    for (int32_t i = 0; i < c->rank; i++) {
        int32_t last = joined.rank - 1;
        if (c->dims[i] == 1) {
            continue;
        }
        if (last >= 0 && joined.to[last] == c->to[i] * c->dims[i] && joined.from[last] == c->from[i] * c->dims[i]) {
            joined.dims[last] *= c->dims[i];
        } else {
            last = joined.rank++;
            joined.dims[last] = c->dims[i];
        }
        joined.to[last] = c->to[i];
        joined.from[last] = c->from[i];
    }
    if (joined.rank == 0) {
        joined.rank = 1;
        joined.dims[0] = product(c, c->rank);  // 1, or 0 for nothing
        joined.to[0] = 1;
        joined.from[0] = 1;
    }
    *c = joined;
}

static const ckm_i_graph_tensor *in_tensor(const ckm_i_op_view *v, int32_t i)
{
    return &v->graph->tensors[v->op->inputs[i]];
}

static const ckm_i_graph_tensor *out_tensor(const ckm_i_op_view *v, int32_t i)
{
    return &v->graph->tensors[v->op->outputs[i]];
}

// A movement of `copies` copies for operators whose elements have 4 bytes; NULL in *out: not for us.
static ckm_status open_movement(const ckm_i_op_view *v, int32_t copies, ckm_i_kernel *kernel, movement **out,
                                ckm_error *err)
{
    *out = NULL;
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        if (v->op->inputs[i] < 0 || ckm_i_dtype_bytes(in_tensor(v, i)->dtype) != (int64_t)sizeof(float)) {
            return CKM_OK;
        }
    }
    movement *m = ckm_i_calloc(1, sizeof *m + (size_t)copies * sizeof m->copy[0]);
    if (m == NULL) {
        return ckm_i_error_memory(err);
    }
    m->n = ckm_i_elements(&out_tensor(v, 0)->shape);
    kernel->data = m;
    kernel->dispose = free;
    kernel->run = run_movement;
    m->copies = copies;
    *out = m;
    return CKM_OK;
}

// Part i of the joined tensor, which is output or input 0, starts at `first` along the axis.
static int64_t set_part(copy *c, const ckm_shape *part, const ckm_shape *whole, int64_t axis, int64_t first, bool join)
{
    c->rank = part->rank;
    memcpy(c->dims, part->dims, sizeof c->dims);
    dense_strides(join ? whole : part, c->to);
    dense_strides(join ? part : whole, c->from);
    c->to_first = join ? first * c->to[axis] : 0;
    c->from_first = join ? 0 : first * c->from[axis];
    simplify(c);
    return part->dims[axis];
}

static ckm_status prepare_parts(const ckm_i_op_view *v, bool join, int64_t fallback, ckm_i_kernel *kernel,
                                ckm_error *err)
{
    movement *m;
    int32_t n = join ? v->op->n_inputs : v->op->n_outputs;
    CKM_I_CHECK(open_movement(v, n, kernel, &m, err));
    if (m == NULL) {
        return CKM_OK;
    }
    const ckm_shape *whole = &(join ? out_tensor(v, 0) : in_tensor(v, 0))->shape;
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, fallback);
    axis = axis < 0 ? axis + whole->rank : axis;
    int64_t first = 0;
    for (int32_t i = 0; i < n; i++) {
        const ckm_i_graph_tensor *part = join ? in_tensor(v, i) : out_tensor(v, i);
        m->copy[i].input = join ? i : 0;
        m->copy[i].output = join ? 0 : i;
        first += set_part(&m->copy[i], &part->shape, whole, axis, first, join);
    }
    return CKM_OK;
}

static ckm_status prepare_concat(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    int32_t rank = out_tensor(v, 0)->shape.rank;
    return prepare_parts(v, true, rank >= 2 ? ckm_i_channel_axis(v->graph, rank) : 0, kernel, err);
}

static ckm_status prepare_split(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare_parts(v, false, 0, kernel, err);
}

static ckm_status prepare_slice(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    movement *m;
    CKM_I_CHECK(open_movement(v, 1, kernel, &m, err));
    if (m == NULL) {
        return CKM_OK;
    }
    copy *c = &m->copy[0];
    const ckm_shape *in = &v->in[0]->shape;
    const ckm_shape *out = &out_tensor(v, 0)->shape;
    c->rank = out->rank;
    memcpy(c->dims, out->dims, sizeof c->dims);
    dense_strides(out, c->to);
    dense_strides(in, c->from);
    for (int32_t i = 0; i < in->rank; i++) {
        c->from_first += ckm_i_op_attr_int(v->op, "starts", i, 0) * c->from[i];
        c->from[i] *= ckm_i_op_attr_int(v->op, "steps", i, 1);
    }
    simplify(c);
    return CKM_OK;
}

static ckm_status prepare_pad(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    movement *m;
    if (strcmp(ckm_i_op_attr_text(v->op, "mode", "constant"), "constant") != 0 || v->in[0]->dtype != CKM_F32) {
        return CKM_OK;
    }
    CKM_I_CHECK(open_movement(v, 1, kernel, &m, err));
    if (m == NULL) {
        return CKM_OK;
    }
    copy *c = &m->copy[0];
    const ckm_shape *in = &v->in[0]->shape;
    const ckm_shape *out = &out_tensor(v, 0)->shape;
    c->rank = out->rank;
    dense_strides(out, c->to);
    dense_strides(in, c->from);
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t begin = ckm_i_op_attr_int(v->op, "pads", i, 0);
        int64_t skipped = begin < 0 ? -begin : 0;
        int64_t moved = begin > 0 ? begin : 0;
        int64_t room = out->dims[i] - moved;
        int64_t left = in->dims[i] - skipped;
        c->dims[i] = left < room ? left : room;
        c->dims[i] = c->dims[i] > 0 ? c->dims[i] : 0;
        c->from_first += skipped * c->from[i];
        c->to_first += moved * c->to[i];
        m->fills = m->fills || c->dims[i] != out->dims[i];
    }
    m->value = (float)ckm_i_op_attr_double(v->op, "value", 0.0);
    if (product(c, c->rank) == 0) {
        m->copies = 0;
    } else {
        simplify(c);
    }
    return CKM_OK;
}

static ckm_status prepare_transpose(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    movement *m;
    CKM_I_CHECK(open_movement(v, 1, kernel, &m, err));
    if (m == NULL) {
        return CKM_OK;
    }
    copy *c = &m->copy[0];
    const ckm_shape *in = &v->in[0]->shape;
    const ckm_shape *out = &out_tensor(v, 0)->shape;
    int64_t strides[CKM_MAX_RANK];
    dense_strides(in, strides);
    dense_strides(out, c->to);
    c->rank = out->rank;
    memcpy(c->dims, out->dims, sizeof c->dims);
    for (int32_t i = 0; i < in->rank; i++) {
        c->from[i] = strides[ckm_i_op_attr_int(v->op, "perm", i, in->rank - 1 - i)];
    }
    simplify(c);
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_movement[] = {
    {CKM_I_OP_concat, prepare_concat}, {CKM_I_OP_split, prepare_split},         {CKM_I_OP_slice, prepare_slice},
    {CKM_I_OP_pad, prepare_pad},       {CKM_I_OP_transpose, prepare_transpose}, {0},
};
