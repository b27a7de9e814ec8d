// SPDX-License-Identifier: Apache-2.0
// What happens to the scores of a tile between products: scale, masks, bias, exponentials, dropout. Online softmax
// (Milakov and Gimelshein 2018; Dao et al. 2022, "FlashAttention", algorithm 1) on the way forward; on the way back
// probabilities from the row's kept number (Dao et al. 2022, algorithm 4).
#include <math.h>

#include "ops/attention/cpu_attention.h"
#include "run/cpu/cpu_math.h"
#include "run/cpu/cpu_support.h"
#include "ops/training/ref_dropout.h"

enum { LANES = CKM_I_ATTENTION_PANEL };

// Always inlined: part of a function that is compiled for several instruction sets.
#define PART static inline __attribute__((always_inline))

PART int64_t spread_at(const ckm_i_attention_spread *s, const ckm_i_cpu_attention_tile *t, int64_t row)
{
    return t->batch * s->strides[0] + t->head * s->strides[1] + (t->query + row) * s->strides[2] +
           t->key * s->strides[3];
}

// The window's kind: whether it holds two parts along each axis.
PART const float *parts_of(const ckm_i_cpu_attention_plan *p, int64_t batch)
{
    const ckm_i_attention_form *f = &p->f;
    int64_t down = f->grid[0] / f->window[0];
    int64_t across = f->grid[1] / f->window[1];
    int64_t window = batch % (down * across);
    int64_t kind = 2 * (window / across == down - 1) + (window % across == across - 1);
    return p->parts + kind * f->keys;
}

PART bool fills(const ckm_i_attention_form *f, uint8_t mask)
{
    return (mask != 0) == f->mask_hides;
}

// Scores of a row, minus infinity where the query does not see and behind the last key.
PART void finish_row(const ckm_i_cpu_attention_tile *t, int64_t row, int64_t room, float *s)
{
    const ckm_i_cpu_attention_plan *p = t->c->p;
    const ckm_i_attention_form *f = &p->f;
    const float scale = (float)f->scale;
    const int64_t n = t->keys;
    CKM_I_CPU_SIMD
    for (int64_t k = 0; k < n; k++) {
        s[k] *= scale;
    }
    if (t->c->mask != NULL) {
        const uint8_t *mask = t->c->mask + spread_at(&f->mask, t, row);
        const int64_t step = f->mask.strides[3];
        const float fill = (float)f->fill;
        for (int64_t k = 0; k < n; k++) {
            s[k] = fills(f, mask[k * step]) ? fill : s[k];
        }
    }
    if (t->c->bias != NULL) {
        const float *bias = t->c->bias + spread_at(&f->bias, t, row);
        if (f->bias.strides[3] == 0) {
            for (int64_t k = 0; k < n; k++) {
                s[k] += bias[0];
            }
        } else {
            CKM_I_CPU_SIMD
            for (int64_t k = 0; k < n; k++) {
                s[k] += bias[k];
            }
        }
    }
    if (p->parts != NULL) {
        const float *parts = parts_of(p, t->batch);
        const float own = parts[t->query + row];
        CKM_I_CPU_SIMD
        for (int64_t k = 0; k < n; k++) {
            s[k] = parts[t->key + k] == own ? s[k] : -INFINITY;
        }
    }
    int64_t seen = ckm_i_cpu_attention_seen(f, t->query + row + 1, t->key, n);
    for (int64_t k = seen; k < room; k++) {
        s[k] = -INFINITY;
    }
}

// What dropout multiplies each probability of the row by.
PART void draw_row(const ckm_i_cpu_attention_tile *t, int64_t row, float *kept)
{
    const ckm_i_attention_form *f = &t->c->p->f;
    const uint64_t stream = t->c->stream;
    const uint64_t threshold = t->c->threshold;
    const float keep = t->c->keep;
    const int64_t element = ((t->batch * f->heads + t->head) * f->queries + t->query + row) * f->keys + t->key;
    for (int64_t k = 0; k < t->keys; k++) {
        kept[k] = ckm_i_ref_dropout_keeps(stream, threshold, element + k) ? keep : 0.0F;
    }
}

// Halves are added, so that there are four additions one after the other and not sixteen.
PART float add_lanes(float *lane)
{
    CKM_I_CPU_SIMD
    for (int i = 0; i < 8; i++) {
        lane[i] += lane[i + 8];
    }
    CKM_I_CPU_SIMD
    for (int i = 0; i < 4; i++) {
        lane[i] += lane[i + 4];
    }
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

PART float larger(float a, float b)
{
    return a > b ? a : b;
}

// The largest number of the row; those that are none are passed over.
PART float largest(const float *s, int64_t room)
{
    float lane[LANES];
    for (int i = 0; i < LANES; i++) {
        lane[i] = -INFINITY;
    }
    for (int64_t k = 0; k < room; k += LANES) {
        CKM_I_CPU_SIMD
        for (int i = 0; i < LANES; i++) {
            lane[i] = larger(s[k + i], lane[i]);
        }
    }
    CKM_I_CPU_SIMD
    for (int i = 0; i < 8; i++) {
        lane[i] = larger(lane[i], lane[i + 8]);
    }
    CKM_I_CPU_SIMD
    for (int i = 0; i < 4; i++) {
        lane[i] = larger(lane[i], lane[i + 4]);
    }
    return larger(larger(lane[0], lane[2]), larger(lane[1], lane[3]));
}

// Exponentials of the row in place; returns their sum.
PART float exponentials(float *s, float best, int64_t room)
{
    float lane[LANES] = {0};
    for (int64_t k = 0; k < room; k += LANES) {
        CKM_I_CPU_SIMD
        for (int i = 0; i < LANES; i++) {
            s[k + i] = ckm_i_cpu_exp_negative(s[k + i] - best);
            lane[i] += s[k + i];
        }
    }
    return add_lanes(lane);
}

// Before the first key the sum is 0, so any factor will do.
PART void forward_row(const ckm_i_cpu_attention_tile *t, int64_t row, int64_t room)
{
    const ckm_i_cpu_attention_plan *p = t->c->p;
    float *s = t->scores + row * p->score_row;
    finish_row(t, row, room, s);
    float before = t->begins ? -INFINITY : t->best[row];
    float best = larger(largest(s, room), before);
    float sum = exponentials(s, best == -INFINITY ? 0.0F : best, room);
    if (t->begins) {
        t->sum[row] = sum;
    } else {
        float factor = before == -INFINITY ? 1.0F : ckm_i_cpu_exp_negative(before - best);
        float *y = t->y + row * p->value_room;
        t->sum[row] = t->sum[row] * factor + sum;
        CKM_I_CPU_SIMD
        for (int64_t d = 0; d < p->value_room; d++) {
            y[d] *= factor;
        }
    }
    t->best[row] = best;
    if (p->f.rate > 0.0) {
        draw_row(t, row, t->kept);
        CKM_I_CPU_SIMD
        for (int64_t k = 0; k < t->keys; k++) {
            s[k] *= t->kept[k];
        }
    }
}

CKM_I_CPU_CLONES static void attention_forward_rows(const ckm_i_cpu_attention_tile *t)
{
    int64_t room = ckm_i_cpu_attention_panels(t->keys) * LANES;
    for (int64_t row = 0; row < t->rows; row++) {
        forward_row(t, row, room);
    }
}

void ckm_i_cpu_attention_forward_rows(const ckm_i_cpu_attention_tile *t)
{
    attention_forward_rows(t);
}

// ---- gradient

PART float product_of(const float *a, const float *b, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int k = 0; k < LANES; k++) {
            lane[k] += a[i + k] * b[i + k];
        }
    }
    for (int k = 0; i < n; i++, k++) {
        lane[k] += a[i] * b[i];
    }
    return add_lanes(lane);
}

PART float row_sum(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        lane[i % LANES] += x[i];
    }
    return add_lanes(lane);
}

PART void add_bias_gradient(const ckm_i_cpu_attention_tile *t, int64_t row, const float *gradient)
{
    const ckm_i_attention_spread *bias = &t->c->p->f.bias;
    float *out = t->bias_gradient + (bias->dims[2] == 1 ? 0 : (t->query + row) * bias->dims[3]);
    if (bias->dims[3] == 1) {
        out[0] += row_sum(gradient, t->keys);
        return;
    }
    CKM_I_CPU_SIMD
    for (int64_t k = 0; k < t->keys; k++) {
        out[t->key + k] += gradient[k];
    }
}

PART void backward_row(const ckm_i_cpu_attention_tile *t, int64_t row, int64_t room)
{
    const ckm_i_cpu_attention_plan *p = t->c->p;
    const ckm_i_attention_form *f = &p->f;
    float *s = t->scores + row * p->score_row;
    float *gradient = t->gradient + row * p->score_row;
    int64_t at = ckm_i_cpu_attention_at(&f->y, t->batch, t->head, t->query + row);
    const float delta = product_of(t->c->dy + at, t->c->y_kept + at, f->value_size);
    const float lse = t->c->lse_kept[(t->batch * f->heads + t->head) * f->queries + t->query + row];
    finish_row(t, row, room, s);
    if (f->rate > 0.0) {
        float *kept = t->kept;
        draw_row(t, row, kept);
        for (int64_t k = t->keys; k < room; k++) {
            kept[k] = 0.0F;
        }
        CKM_I_CPU_SIMD
        for (int64_t k = 0; k < room; k++) {
            float probability = ckm_i_cpu_exp_negative(s[k] - lse);
            gradient[k] = probability * (gradient[k] * kept[k] - delta);
            s[k] = probability * kept[k];
        }
    } else {
        CKM_I_CPU_SIMD
        for (int64_t k = 0; k < room; k++) {
            s[k] = ckm_i_cpu_exp_negative(s[k] - lse);
            gradient[k] = s[k] * (gradient[k] - delta);
        }
    }
    if (t->bias_gradient != NULL) {
        add_bias_gradient(t, row, gradient);
    }
    if (t->c->mask != NULL) {
        const uint8_t *mask = t->c->mask + spread_at(&f->mask, t, row);
        for (int64_t k = 0; k < t->keys; k++) {
            gradient[k] = fills(f, mask[k * f->mask.strides[3]]) ? 0.0F : gradient[k];
        }
    }
    const float scale = (float)f->scale;
    CKM_I_CPU_SIMD
    for (int64_t k = 0; k < room; k++) {
        gradient[k] *= scale;
    }
}

CKM_I_CPU_CLONES static void attention_backward_rows(const ckm_i_cpu_attention_tile *t)
{
    int64_t room = ckm_i_cpu_attention_panels(t->keys) * LANES;
    for (int64_t row = 0; row < t->rows; row++) {
        backward_row(t, row, room);
    }
}

void ckm_i_cpu_attention_backward_rows(const ckm_i_cpu_attention_tile *t)
{
    attention_backward_rows(t);
}
