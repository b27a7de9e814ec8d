// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient, row by row of the scores: the definition, in plain loops. A row that sees no key gives
// zeros and has no gradient.
#include "ops/attention/ref_attention.h"

#include <math.h>
#include <string.h>

#include "graph/op_attention.h"
#include "ops/training/ref_dropout.h"
#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

typedef struct attention {
    ckm_i_attention_form f;
    ckm_i_ref_map map;
    const float *q, *k, *v, *bias;
    const uint8_t *mask;
    uint64_t stream, threshold;
    float keep;  // what dropout multiplies by
} attention;

// One row of scores.
typedef struct row {
    int64_t batch, head, query;
} row;

static ckm_status open_attention(const ckm_i_ref_op *r, int32_t op, int32_t first, attention *a, ckm_error *err)
{
    ckm_i_op_view view;
    CKM_I_CHECK(ckm_i_op_view_init(r->graph, op, &view, err));
    CKM_I_CHECK(ckm_i_attention_read(&view, first, &a->f, err));
    const ckm_i_attention_form *f = &a->f;
    a->map = (ckm_i_ref_map){{f->grid[0], f->grid[1]}, {f->window[0], f->window[1]}, {f->shift[0], f->shift[1]}};
    a->q = ckm_i_ref_input(r, first + CKM_I_ATTENTION_Q);
    a->k = ckm_i_ref_input(r, first + CKM_I_ATTENTION_K);
    a->v = ckm_i_ref_input(r, first + CKM_I_ATTENTION_V);
    a->bias = ckm_i_ref_input(r, first + CKM_I_ATTENTION_BIAS);
    a->mask = ckm_i_ref_input(r, first + CKM_I_ATTENTION_MASK);
    a->stream = ckm_i_ref_dropout_stream(r->call->seed, r->call->batch, f->key);
    a->threshold = ckm_i_ref_dropout_threshold(f->rate);
    a->keep = f->rate < 1.0 ? (float)(1.0 / (1.0 - f->rate)) : 0.0F;
    return CKM_OK;
}

static int64_t at(const ckm_i_attention_strides *s, int64_t batch, int64_t head, int64_t position)
{
    return batch * s->batch + head * s->head + position * s->position;
}

static int64_t kv_head(const attention *a, row r)
{
    return r.head / (a->f.heads / a->f.kv_heads);
}

static const float *key_of(const attention *a, row r, int64_t key)
{
    return a->k + at(&a->f.k, r.batch, kv_head(a, r), key);
}

static const float *value_of(const attention *a, row r, int64_t key)
{
    return a->v + at(&a->f.v, r.batch, kv_head(a, r), key);
}

static int64_t spread_at(const ckm_i_attention_spread *s, row r, int64_t key)
{
    return r.batch * s->strides[0] + r.head * s->strides[1] + r.query * s->strides[2] + key * s->strides[3];
}

static bool is_seen(const attention *a, row r, int64_t key)
{
    const ckm_i_attention_form *f = &a->f;
    if (f->hides == CKM_I_ATTENTION_CAUSAL) {
        return key <= r.query + f->keys - f->queries;
    }
    if (f->hides == CKM_I_ATTENTION_WINDOWS) {
        int64_t window = r.batch % ckm_i_ref_map_windows(&a->map);
        return ckm_i_ref_map_part(&a->map, window, r.query) == ckm_i_ref_map_part(&a->map, window, key);
    }
    return true;
}

// The score is the mask's constant there.
static bool is_filled(const attention *a, row r, int64_t key)
{
    return a->mask != NULL && (a->mask[spread_at(&a->f.mask, r, key)] != 0) == a->f.mask_hides;
}

static float score_of(const attention *a, row r, int64_t key)
{
    if (!is_seen(a, r, key)) {
        return -INFINITY;
    }
    const float *q = a->q + at(&a->f.q, r.batch, r.head, r.query);
    double score = is_filled(a, r, key) ? a->f.fill : a->f.scale * ckm_i_ref_dot(q, key_of(a, r, key), a->f.size);
    score += a->bias != NULL ? (double)a->bias[spread_at(&a->f.bias, r, key)] : 0.0;
    return (float)score;
}

// 0, or what dropout multiplies the probability by.
static float kept(const attention *a, row r, int64_t key)
{
    int64_t element = ((r.batch * a->f.heads + r.head) * a->f.queries + r.query) * a->f.keys + key;
    return a->f.rate <= 0.0 || ckm_i_ref_dropout_keeps(a->stream, a->threshold, element)
               ? (a->f.rate > 0.0 ? a->keep : 1.0F)
               : 0.0F;
}

// The row's probabilities before dropout; returns the logarithm of their sum of exponentials, infinity where the row
// sees nothing.
static float softmax_row(const attention *a, row r, float *p)
{
    float best = -INFINITY;
    for (int64_t k = 0; k < a->f.keys; k++) {
        p[k] = score_of(a, r, k);
        best = p[k] > best ? p[k] : best;
    }
    if (best == -INFINITY) {
        bool numbers = true;
        for (int64_t k = 0; k < a->f.keys; k++) {
            numbers = numbers && !isnan(p[k]);
            p[k] = isnan(p[k]) ? p[k] : 0.0F;
        }
        return numbers ? INFINITY : NAN;
    }
    double sum = 0.0;
    for (int64_t k = 0; k < a->f.keys; k++) {
        p[k] = expf(p[k] - best);
        sum += (double)p[k];
    }
    for (int64_t k = 0; k < a->f.keys; k++) {
        p[k] = (float)((double)p[k] / sum);
    }
    return (float)((double)best + log(sum));
}

static int64_t n_rows(const attention *a)
{
    return a->f.batch * a->f.heads * a->f.queries;
}

static row row_of(const attention *a, int64_t i)
{
    return (row){i / (a->f.heads * a->f.queries), i / a->f.queries % a->f.heads, i % a->f.queries};
}

static int64_t forward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_attention_form f;
    (void)step;
    if (ckm_i_attention_read(v, 0, &f, NULL) != CKM_OK) {
        return 0;  // running it says why
    }
    return f.keys * (int64_t)sizeof(float) + f.value_size * (int64_t)sizeof(double);
}

// inputs q, k, v, [bias], [mask]; attributes as of the class
static ckm_status forward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    attention a;
    CKM_I_CHECK(open_attention(&r, op, 0, &a, err));
    float *y = ckm_i_ref_output(&r, 0);
    float *lse = ckm_i_ref_output(&r, 1);
    double *sums = call->workspace;
    float *p = (float *)(sums + a.f.value_size);
    for (int64_t i = 0; i < n_rows(&a); i++) {
        row at_row = row_of(&a, i);
        float logarithm = softmax_row(&a, at_row, p);
        memset(sums, 0, (size_t)a.f.value_size * sizeof *sums);
        for (int64_t k = 0; k < a.f.keys; k++) {
            double factor = (double)p[k] * (double)kept(&a, at_row, k);
            const float *value = value_of(&a, at_row, k);
            for (int64_t d = 0; factor != 0.0 && d < a.f.value_size; d++) {
                sums[d] += factor * (double)value[d];
            }
        }
        float *out = y + at(&a.f.y, at_row.batch, at_row.head, at_row.query);
        for (int64_t d = 0; d < a.f.value_size; d++) {
            out[d] = (float)sums[d];
        }
        if (lse != NULL) {
            lse[i] = logarithm;
        }
    }
    return CKM_OK;
}

// ---- gradient: ds = p (dp - dy y'), with p computed again from the row's kept number

// Sums over rows in double precision, where the output is wanted.
typedef struct gradients {
    double *q, *k, *v, *bias;  // q: of one row
    float *dq;
} gradients;

static float probability(const attention *a, row r, int64_t key, float lse)
{
    float score = score_of(a, r, key);
    return score == -INFINITY ? 0.0F : expf(score - lse);
}

static void backward_row(const attention *a, row r, const float *dy, const float *y, float lse, gradients *g)
{
    const ckm_i_attention_form *f = &a->f;
    const float *q = a->q + at(&f->q, r.batch, r.head, r.query);
    double delta = ckm_i_ref_dot(dy, y, f->value_size);
    memset(g->q, 0, (size_t)f->size * sizeof *g->q);
    for (int64_t key = 0; key < f->keys; key++) {
        double p = (double)probability(a, r, key, lse);
        if (p == 0.0) {
            continue;
        }
        double keep = (double)kept(a, r, key);
        double ds = p * (ckm_i_ref_dot(dy, value_of(a, r, key), f->value_size) * keep - delta);
        double *dv = g->v + at(&f->v, r.batch, kv_head(a, r), key);
        for (int64_t d = 0; d < f->value_size; d++) {
            dv[d] += p * keep * (double)dy[d];
        }
        if (g->bias != NULL) {
            g->bias[spread_at(&f->bias, r, key)] += ds;
        }
        if (is_filled(a, r, key)) {
            continue;
        }
        double *dk = g->k + at(&f->k, r.batch, kv_head(a, r), key);
        const float *k = key_of(a, r, key);
        for (int64_t d = 0; d < f->size; d++) {
            g->q[d] += f->scale * ds * (double)k[d];
            dk[d] += f->scale * ds * (double)q[d];
        }
    }
    for (int64_t d = 0; g->dq != NULL && d < f->size; d++) {
        g->dq[at(&f->q, r.batch, r.head, r.query) + d] = (float)g->q[d];
    }
}

static int64_t k_elements(const ckm_i_attention_form *f)
{
    return f->batch * f->kv_heads * f->keys * f->size;
}

static int64_t v_elements(const ckm_i_attention_form *f)
{
    return f->batch * f->kv_heads * f->keys * f->value_size;
}

static int64_t bias_elements(const ckm_i_attention_form *f)
{
    const int64_t *d = f->bias.dims;
    return f->bias.present ? d[0] * d[1] * d[2] * d[3] : 0;
}

static int64_t sums_of(const ckm_i_attention_form *f)
{
    return f->size + k_elements(f) + v_elements(f) + bias_elements(f);
}

static int64_t backward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_attention_form f;
    (void)step;
    if (ckm_i_attention_read(v, CKM_I_ATTENTION_GRADIENTS, &f, NULL) != CKM_OK) {
        return 0;  // running it says why
    }
    return sums_of(&f) * (int64_t)sizeof(double);
}

static void round_sums(const double *sums, int64_t n, float *out)
{
    for (int64_t i = 0; out != NULL && i < n; i++) {
        out[i] = (float)sums[i];
    }
}

// inputs dy, y, lse, q, k, v, [bias], [mask]; attributes as forward
static ckm_status backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    attention a;
    CKM_I_CHECK(open_attention(&r, op, CKM_I_ATTENTION_GRADIENTS, &a, err));
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *y = ckm_i_ref_input(&r, 1);
    const float *lse = ckm_i_ref_input(&r, 2);
    double *sums = call->workspace;
    gradients g = {.q = sums, .k = sums + a.f.size, .dq = ckm_i_ref_output(&r, 0)};
    g.v = g.k + k_elements(&a.f);
    g.bias = r.op->n_outputs > CKM_I_ATTENTION_BIAS ? g.v + v_elements(&a.f) : NULL;
    memset(sums, 0, (size_t)sums_of(&a.f) * sizeof *sums);
    for (int64_t i = 0; i < n_rows(&a); i++) {
        row at_row = row_of(&a, i);
        int64_t offset = at(&a.f.y, at_row.batch, at_row.head, at_row.query);
        backward_row(&a, at_row, dy + offset, y + offset, lse[i], &g);
    }
    round_sums(g.k, k_elements(&a.f), ckm_i_ref_output(&r, 1));
    round_sums(g.v, v_elements(&a.f), ckm_i_ref_output(&r, 2));
    if (g.bias != NULL) {
        round_sums(g.bias, bias_elements(&a.f), ckm_i_ref_output(&r, CKM_I_ATTENTION_BIAS));
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_attention[] = {
    {CKM_I_OP_attention, forward_workspace, forward},
    {CKM_I_OP_attention_backward, backward_workspace, backward},
    {0},
};
