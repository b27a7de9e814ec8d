// SPDX-License-Identifier: Apache-2.0
// Rounds a point of the stage relaxation.
//
// Where it is fractional, a relaxation of many equal blocks holds 60 % of w and computes it again for the other 40 %,
// for which it holds 40 % of w's operand v: a mixture of two patterns. A threshold tau in (0, 1] picks one of them: an
// operator runs again for tau in (1 - r, 1], an output is held for the s below that, so that whatever runs finds its
// operands. Averaged over tau, cost and bytes at the cuts are those of the point. Operators joined by
// fractional values share a threshold; each such component has one of a sequence that fills (0, 1] evenly, so that many
// components together come close to the average.
#include "solve/bounds/window_run.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct rounding {
    const ckm_i_window_model *model;
    const double *x;
    int32_t *leader;        // per operator: towards the first of its component
    double *threshold;      // of components, at their first operator
    int32_t *first, *last;  // per tensor: stages of the window in which it is read first and last; n_ops: at the end
    ckm_i_spans *spans;
} rounding;

static int32_t find_leader(const rounding *r, int32_t v)
{
    while (r->leader[v] != v) {
        r->leader[v] = r->leader[r->leader[v]];
        v = r->leader[v];
    }
    return v;
}

static bool is_fractional(double value)
{
    return value > 1e-6 && value < 1.0 - 1e-6;
}

// Joins operators that run again in part with those whose output they read that is not there as a whole.
static void join(const rounding *r, int32_t k)
{
    const ckm_dataflow *df = r->model->df;
    const int32_t *s = r->model->s_col + (int64_t)k * df->n_tensors;
    const int32_t *runs = ckm_i_window_r(r->model, k);
    for (int32_t w = 0; w <= r->model->cuts[k]; w++) {
        for (int32_t i = 0; is_fractional(ckm_i_window_value(r->x, runs[w])) && i < df->ops[w].n_inputs; i++) {
            int32_t x = df->ops[w].inputs[i];
            int32_t p = df->tensors[x].producer;
            if (p >= 0 &&
                (is_fractional(ckm_i_window_value(r->x, s[x])) || is_fractional(ckm_i_window_value(r->x, runs[p])))) {
                int32_t a = find_leader(r, p);
                int32_t b = find_leader(r, w);
                r->leader[a > b ? a : b] = a < b ? a : b;
            }
        }
    }
}

// Multiples of the golden ratio, modulo one: away from halves, thirds and the like, at which an engine's values, each a
// little off, would fall on either side.
static void draw_thresholds(const rounding *r)
{
    const double step = 0.6180339887498949;
    double next = step;
    for (int32_t v = 0; v < r->model->df->n_ops; v++) {
        if (r->leader[v] == v) {
            r->threshold[v] = next;
            next = next + step >= 1.0 ? next + step - 1.0 : next + step;
        }
    }
}

static double threshold_of(const rounding *r, int32_t v, double s, double again)
{
    return is_fractional(s) || is_fractional(again) ? r->threshold[find_leader(r, v)] : 0.5;
}

static double again_in(const rounding *r, int32_t k, int32_t v)
{
    return ckm_i_window_value(r->x, ckm_i_window_r(r->model, k)[v]);
}

static bool is_live(const rounding *r, int32_t k, int32_t tensor)
{
    const ckm_dataflow *df = r->model->df;
    int32_t v = df->tensors[tensor].producer;
    double s = ckm_i_window_value(r->x, r->model->s_col[(int64_t)k * df->n_tensors + tensor]);
    double again = again_in(r, k, v);
    double tau = threshold_of(r, v, s, again);
    double absent = fmax(1.0 - s - again, 0.0);
    return tau > absent && tau <= absent + s;
}

static bool is_followed(const rounding *r, int32_t tensor)
{
    return !r->model->df->tensors[tensor].pinned && r->model->df->tensors[tensor].producer >= 0;
}

static void note_read(const rounding *r, int32_t tensor, int32_t stage)
{
    r->first[tensor] = stage < r->first[tensor] ? stage : r->first[tensor];
    r->last[tensor] = stage > r->last[tensor] ? stage : r->last[tensor];
}

// When window k reads what: in its first computations, in what runs again when its outputs are read first, and, for
// what the next window begins with, at the end.
static void read_window(const rounding *r, int32_t k, int32_t from, int32_t to)
{
    const ckm_dataflow *df = r->model->df;
    bool last = k + 1 == r->model->n_cuts;
    for (int32_t i = 0; i < df->n_tensors; i++) {
        r->first[i] = df->n_ops + 1;
        r->last[i] = -1;
        if (is_followed(r, i) && (last ? df->tensors[i].is_result : is_live(r, k + 1, i))) {
            note_read(r, i, to + 1);
        }
    }
    for (int32_t v = from + 1; v <= to; v++) {
        for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
            note_read(r, df->ops[v].inputs[i], v);
        }
    }
    for (int32_t v = from; v >= 0; v--) {
        double again = again_in(r, k, v);
        int32_t stage = df->n_ops + 1;
        for (int32_t i = 0; again > 0.0 && i < df->ops[v].n_outputs; i++) {
            int32_t x = df->ops[v].outputs[i];
            stage = is_live(r, k, x) || r->first[x] > stage ? stage : r->first[x];
        }
        for (int32_t i = 0; stage <= df->n_ops && i < df->ops[v].n_outputs; i++) {
            int32_t x = df->ops[v].outputs[i];
            r->first[x] = r->last[x] >= 0 ? stage : r->first[x];  // it is made with the first of them
        }
        for (int32_t i = 0; stage <= df->n_ops && i < df->ops[v].n_inputs; i++) {
            note_read(r, df->ops[v].inputs[i], stage <= to ? stage : to);
        }
    }
}

// Holds from the cut on, or from where it is made or first read, to the last stage of the window that reads it. The row
// right after the cut has been appended with the window before.
static bool hold_window(const rounding *r, int32_t k, int32_t from, int32_t to)
{
    const ckm_dataflow *df = r->model->df;
    bool ok = true;
    for (int32_t i = 0; i < df->n_tensors && ok; i++) {
        int32_t p = df->tensors[i].producer;
        if (is_followed(r, i) && p <= to && r->last[i] >= 0) {
            int32_t read = r->first[i] <= to ? r->first[i] : to;
            int32_t begin = p > from ? p : is_live(r, k, i) ? from + 1 : read;
            ok = begin >= r->last[i] || ckm_i_spans_append(&r->spans[i], begin + 1, r->last[i]);
        }
    }
    return ok;
}

// Up to the first cut everything is held as long as it is read.
static bool hold_before(const rounding *r)
{
    const ckm_dataflow *df = r->model->df;
    int32_t cut = r->model->cuts[0];
    bool ok = true;
    for (int32_t i = 0; i < df->n_tensors && ok; i++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[i];
        if (!is_followed(r, i) || t->producer > cut) {
            continue;
        }
        int32_t end = t->producer;
        for (int32_t u = 0; u < t->n_users && t->users[u] <= cut; u++) {
            end = t->users[u] > end ? t->users[u] : end;
        }
        end = is_live(r, 0, i) ? cut + 1 : end;
        ok = end <= t->producer || ckm_i_spans_append(&r->spans[i], t->producer + 1, end);
    }
    return ok;
}

static bool allocate(rounding *r)
{
    size_t n = (size_t)r->model->df->n_ops;
    size_t n_tensors = (size_t)r->model->df->n_tensors;
    r->leader = ckm_i_malloc(n, sizeof *r->leader);
    r->threshold = ckm_i_malloc(n, sizeof *r->threshold);
    r->first = ckm_i_malloc(n_tensors, sizeof *r->first);
    r->last = ckm_i_malloc(n_tensors, sizeof *r->last);
    r->spans = ckm_i_calloc(n_tensors, sizeof *r->spans);
    for (int32_t v = 0; r->leader != NULL && v < r->model->df->n_ops; v++) {
        r->leader[v] = v;
    }
    return r->leader != NULL && r->threshold != NULL && r->first != NULL && r->last != NULL && r->spans != NULL;
}

ckm_status ckm_i_stage_round(const ckm_i_window_model *model, const double *x, ckm_i_spans **out, ckm_error *err)
{
    const ckm_dataflow *df = model->df;
    rounding r = {.model = model, .x = x};
    bool ok = allocate(&r);
    for (int32_t k = 0; k < model->n_cuts && ok; k++) {
        join(&r, k);
    }
    if (ok) {
        draw_thresholds(&r);
        ok = hold_before(&r);
    }
    for (int32_t k = 0; k < model->n_cuts && ok; k++) {
        int32_t to = k + 1 < model->n_cuts ? model->cuts[k + 1] : df->n_ops - 1;
        read_window(&r, k, model->cuts[k], to);
        ok = hold_window(&r, k, model->cuts[k], to);
    }
    free(r.leader);
    free(r.threshold);
    free(r.first);
    free(r.last);
    if (!ok) {
        ckm_i_spans_free(r.spans, df->n_tensors);
        return ckm_i_error_memory(err);
    }
    *out = r.spans;
    return CKM_OK;
}
