// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy, for a label a sample or a label a pixel. Lines of logits are cut into chunks by their number
// alone; each chunk has its sums in the workspace and they are added up in order.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_lines.h"
#include "run/cpu/cpu_support.h"

enum { CHUNKS = 64 };

typedef struct lines {
    ckm_i_cpu_around a;
    int64_t classes, inner;  // those of a
    int64_t count, chunks;
} lines;

// What a chunk found.
typedef struct findings {
    double loss;
    int64_t counted, correct;
    int64_t bad;  // first line whose label is out of range, or -1
} findings;

typedef struct job {
    const lines *l;
    const float *logits;
    const int32_t *labels;
    findings *found;  // a chunk each
    float *out;       // backward
    float factor;     // 1 / labels that are not ignored
} job;

static void look_at_labels(const job *j, int64_t begin, int64_t end, findings *f)
{
    for (int64_t i = begin; i < end; i++) {
        if (j->labels[i] < -1 || j->labels[i] >= j->l->classes) {
            f->bad = i;
            return;
        }
        f->counted += j->labels[i] >= 0;
    }
}

static void label_chunks(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        findings f = {.bad = -1};
        int64_t n = j->l->count;
        look_at_labels(j, n * chunk / j->l->chunks, n * (chunk + 1) / j->l->chunks, &f);
        j->found[chunk] = f;
    }
}

static void loss_chunks(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const lines *l = j->l;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        findings *f = &j->found[chunk];
        int64_t last = l->count * (chunk + 1) / l->chunks;
        int64_t n;
        for (int64_t line = l->count * chunk / l->chunks; line < last; line += n) {
            int64_t at;
            ckm_i_cpu_lines t;
            n = ckm_i_cpu_next_lines(&l->a, line, last, &at);
            ckm_i_cpu_measure_lines(&l->a, j->logits + at, n, NULL, &t);
            for (int64_t i = 0; i < n; i++) {
                int64_t label = j->labels[line + i];
                if (label >= 0) {
                    int64_t where = at + (l->inner > 1 ? i + label * l->inner : i * l->classes + label);
                    f->loss += (double)t.top[i] + log(t.sum[i]) - (double)j->logits[where];
                    f->correct += t.place[i] == label;
                }
            }
        }
    }
}

static void gradient_chunks(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const lines *l = j->l;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t last = l->count * (chunk + 1) / l->chunks;
        int64_t n;
        for (int64_t line = l->count * chunk / l->chunks; line < last; line += n) {
            int64_t at;
            ckm_i_cpu_lines t;
            float factor[CKM_I_CPU_LINES];
            n = ckm_i_cpu_next_lines(&l->a, line, last, &at);
            ckm_i_cpu_measure_lines(&l->a, j->logits + at, n, j->out + at, &t);
            int64_t class_step = l->inner > 1 ? l->inner : 1;
            int64_t line_step = l->inner > 1 ? 1 : l->classes;
            for (int64_t i = 0; i < n; i++) {
                factor[i] = j->labels[line + i] >= 0 ? (float)((double)j->factor / t.sum[i]) : 0.0F;
            }
            for (int64_t k = 0; l->inner > 1 && k < l->classes; k++) {
                float *row = j->out + at + k * class_step;
                for (int64_t i = 0; i < n; i++) {
                    row[i] *= factor[i];
                }
            }
            for (int64_t i = 0; i < n; i++) {
                float *row = j->out + at + i * line_step;
                for (int64_t k = 0; l->inner == 1 && k < l->classes; k++) {
                    row[k] *= factor[i];
                }
                if (j->labels[line + i] >= 0) {
                    row[j->labels[line + i] * class_step] -= j->factor;
                    continue;
                }
                for (int64_t k = 0; k < l->classes; k++) {  // overwrites: 0 times NaN would stay NaN
                    row[k * class_step] = 0.0F;
                }
            }
        }
    }
}

static ckm_status check_labels(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const job *j, int64_t *counted,
                               ckm_error *err)
{
    const lines *l = j->l;
    job copy = *j;
    ckm_i_cpu_parallel(cpu->threads, l->chunks, 1, label_chunks, &copy);
    *counted = 0;
    for (int64_t chunk = 0; chunk < l->chunks; chunk++) {
        int64_t bad = j->found[chunk].bad;
        if (bad >= 0) {
            const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
            return ckm_i_error(err, CKM_ERR_FORMAT,
                               "operator \"%.200s\" (%s): label %d at position %lld of the batch; it must be from 0 "
                               "to %lld, or -1 to be ignored",
                               op->name, op->op_class->kind, (int)j->labels[bad], (long long)bad,
                               (long long)l->classes - 1);
        }
        *counted += j->found[chunk].counted;
    }
    return CKM_OK;
}

static ckm_status run_loss(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                           ckm_error *err)
{
    const lines *l = kernel->data;
    job j = {.l = l, .logits = call->inputs[0], .labels = call->inputs[1], .found = call->workspace};
    float *loss = call->outputs[0];
    int32_t *correct = call->outputs[1];
    int64_t counted;
    CKM_I_CHECK(check_labels(cpu, kernel, &j, &counted, err));
    ckm_i_cpu_parallel(cpu->threads, l->chunks, 1, loss_chunks, &j);
    double sum = 0.0;
    int64_t hits = 0;
    for (int64_t chunk = 0; chunk < l->chunks; chunk++) {
        sum += j.found[chunk].loss;
        hits += j.found[chunk].correct;
    }
    if (loss != NULL) {
        *loss = counted > 0 ? (float)(sum / (double)counted) : 0.0F;
    }
    if (correct != NULL) {
        *correct = (int32_t)hits;
    }
    return CKM_OK;
}

static ckm_status run_gradient(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    const lines *l = kernel->data;
    job j = {.l = l,
             .logits = call->inputs[0],
             .labels = call->inputs[1],
             .found = call->workspace,
             .out = call->outputs[0]};
    int64_t counted;
    CKM_I_CHECK(check_labels(cpu, kernel, &j, &counted, err));
    j.factor = counted > 0 ? (float)(1.0 / (double)counted) : 0.0F;
    ckm_i_cpu_parallel(cpu->threads, l->chunks, 1, gradient_chunks, &j);
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_op_view *v, bool backward, ckm_i_kernel *kernel, ckm_error *err)
{
    const ckm_shape *shape = &v->in[0]->shape;
    if (v->in[0]->dtype != CKM_F32 || v->in[1]->dtype != CKM_I32 || ckm_i_elements(shape) == 0) {
        return CKM_OK;
    }
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, -1);
    lines *l = ckm_i_calloc(1, sizeof *l);
    if (l == NULL) {
        return ckm_i_error_memory(err);
    }
    l->a = ckm_i_cpu_view_around(shape, axis < 0 ? axis + shape->rank : axis);
    l->classes = l->a.axis;
    l->inner = l->a.inner;
    l->count = l->a.outer * l->a.inner;
    l->chunks = l->count < CHUNKS ? 1 : CHUNKS;
    kernel->data = l;
    kernel->dispose = free;
    kernel->run = backward ? run_gradient : run_loss;
    kernel->workspace_bytes = l->chunks * (int64_t)sizeof(findings);
    return CKM_OK;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare(v, false, kernel, err);
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare(v, true, kernel, err);
}

const ckm_i_cpu_row ckm_i_cpu_loss[] = {
    {CKM_I_OP_softmax_cross_entropy, prepare_forward},
    {CKM_I_OP_softmax_cross_entropy_backward, prepare_backward},
    {0},
};
