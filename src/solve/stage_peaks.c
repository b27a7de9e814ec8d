// SPDX-License-Identifier: Apache-2.0
// Peak cuts: memory while an operator is recomputed inside window k. A tensor x that is live at the end of the window,
// or read by the operator t that ends it, was there all the window long unless its producer p ran in it:
//   h[x] = s[k+1,x] - r[k,p],  or  1 - r[k,p] where t reads x (or the end needs it, in the last window).
// For any set X of such tensors, one a storage, on storages that v does not touch, and U = the most that X can take,
//   sum over X of m_x h[x]  +  (working set of v - B + U) r[k,v]  <=  U.
// If v runs in the window, its working set and X are in memory together; if not, X is no more than U: what X has on
// storages that t touches, plus what t leaves for others. It holds for every X, also where some h[x] is negative, since
// each is at most what is there; the most violated X is that of all positive h[x].
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/stage_model.h"
#include "solve/structure.h"

// Rows added for one window in one round, and the violation worth a row, of the budget.
enum { rows_a_window = 4 };
static const double min_violation = 1e-3;

typedef struct separator {
    const ckm_i_stage_model *model;
    const ckm_dataflow *df;
    const double *x;
    double *held;     // per storage: the largest h of its tensors; 0: not in X
    int32_t *by;      // per storage: the tensor with that
    bool *is_read;    // per tensor: whether t reads it, or the end needs it
    bool *is_t;       // per storage: whether t touches it
    bool *is_v;       // per storage: whether v touches it
    int32_t *chosen;  // storages in X
    int32_t n_chosen;
    int32_t k, t;       // the window, the operator that ends it; -1: the last
    double total;       // sum of m_x h[x]
    int64_t most;       // bytes of X on storages that t touches
    int64_t t_working;  // working set of t, 0 in the last window
} separator;

static double value(const separator *sp, int32_t col)
{
    return col >= 0 ? sp->x[col] : 0.0;
}

static int32_t r_of(const separator *sp, int32_t v)
{
    return sp->model->r_col[(int64_t)sp->k * sp->df->n_ops + v];
}

// Column of x at the window's end, -1 where zero or where there is none.
static int32_t s_of(const separator *sp, int32_t x)
{
    return sp->t >= 0 ? sp->model->s_col[(int64_t)(sp->k + 1) * sp->df->n_tensors + x] : -1;
}

static int32_t operand(const ckm_i_dataflow_op *op, int32_t i)
{
    return i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
}

static void mark(const separator *sp, int32_t v, bool *marks, bool to)
{
    const ckm_i_dataflow_op *op = &sp->df->ops[v];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        marks[sp->df->tensors[operand(op, i)].storage] = to;
    }
}

static void mark_reads(const separator *sp, bool to)
{
    const int32_t *list = sp->t >= 0 ? sp->df->ops[sp->t].inputs : sp->df->results;
    int32_t n = sp->t >= 0 ? sp->df->ops[sp->t].n_inputs : sp->df->n_results;
    for (int32_t i = 0; i < n; i++) {
        sp->is_read[list[i]] = to;
    }
}

// X for window k: every tensor with positive h, the best of each storage.
static void choose(separator *sp)
{
    const ckm_dataflow *df = sp->df;
    int32_t cut = sp->model->cuts[sp->k];
    sp->n_chosen = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (tensor->pinned || tensor->producer < 0 || tensor->producer > cut) {
            continue;
        }
        double h = (sp->is_read[x] ? 1.0 : value(sp, s_of(sp, x))) - value(sp, r_of(sp, tensor->producer));
        int32_t storage = tensor->storage;
        if (h <= 1e-6 || df->tensors[storage].bytes == 0 || h <= sp->held[storage]) {
            continue;
        }
        if (sp->held[storage] == 0.0) {
            sp->chosen[sp->n_chosen++] = storage;
        }
        sp->held[storage] = h;
        sp->by[storage] = x;
    }
    sp->total = 0.0;
    sp->most = 0;
    for (int32_t i = 0; i < sp->n_chosen; i++) {
        int64_t bytes = df->tensors[sp->chosen[i]].bytes;
        sp->total += (double)bytes * sp->held[sp->chosen[i]];
        sp->most += sp->is_t[sp->chosen[i]] ? bytes : 0;
    }
}

// U for the X that leaves out what v touches (marked), and through *total the sum of m_x h[x] over it.
static int64_t upper(const separator *sp, int32_t v, bool *seen, double *total)
{
    const ckm_i_dataflow_op *op = &sp->df->ops[v];
    int64_t most = sp->most;
    *total = sp->total;
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t storage = sp->df->tensors[operand(op, i)].storage;
        if (!seen[storage] && sp->held[storage] > 0.0) {
            int64_t bytes = sp->df->tensors[storage].bytes;
            *total -= (double)bytes * sp->held[storage];
            most -= sp->is_t[storage] ? bytes : 0;
        }
        seen[storage] = true;
    }
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        seen[sp->df->tensors[operand(op, i)].storage] = false;
    }
    int64_t room = sp->model->room_bytes;
    return sp->t >= 0 && room - sp->t_working + most < room ? room - sp->t_working + most : room;
}

static void add_row(separator *sp, int32_t v, ckm_i_milp *m)
{
    const ckm_dataflow *df = sp->df;
    double scale = sp->model->byte_scale;
    double total;
    int64_t most = upper(sp, v, sp->is_v, &total);
    int64_t side = most;
    mark(sp, v, sp->is_v, true);
    int32_t row = ckm_i_milp_add_row(m, -INFINITY, 0.0);
    for (int32_t i = 0; i < sp->n_chosen; i++) {
        int32_t storage = sp->chosen[i];
        if (sp->is_v[storage]) {
            continue;
        }
        int32_t x = sp->by[storage];
        int64_t bytes = df->tensors[storage].bytes;
        int32_t r = r_of(sp, df->tensors[x].producer);
        if (sp->is_read[x]) {
            side -= bytes;
        } else {
            ckm_i_milp_put(m, s_of(sp, x), (double)bytes / scale);
        }
        if (r >= 0) {
            ckm_i_milp_put(m, r, -(double)bytes / scale);
        }
    }
    int64_t more = ckm_i_working_set(df, v) - sp->model->room_bytes + most;
    ckm_i_milp_put(m, r_of(sp, v), (double)more / scale);
    if (!m->failed) {
        m->row_upper[row] = (double)side / scale;
    }
    mark(sp, v, sp->is_v, false);
}

// The operators of the window whose rows are violated most.
static void cut_window(separator *sp, ckm_i_milp *m)
{
    int32_t best[rows_a_window];
    double by[rows_a_window];
    int n = 0;
    double room = fmax((double)sp->model->room_bytes, 1.0);
    for (int32_t v = 0; v <= sp->model->cuts[sp->k]; v++) {
        double again = value(sp, r_of(sp, v));
        if (again < 1e-6) {
            continue;
        }
        double total;
        int64_t most = upper(sp, v, sp->is_v, &total);
        int64_t more = ckm_i_working_set(sp->df, v) - sp->model->room_bytes + most;
        double violation = (total + (double)more * again - (double)most) / room;
        if (more <= 0 || violation < min_violation) {
            continue;
        }
        if (n == rows_a_window && by[n - 1] >= violation) {
            continue;
        }
        int at = n < rows_a_window ? n++ : n - 1;
        while (at > 0 && by[at - 1] < violation) {
            best[at] = best[at - 1];
            by[at] = by[at - 1];
            at--;
        }
        best[at] = v;
        by[at] = violation;
    }
    for (int i = 0; i < n; i++) {
        add_row(sp, best[i], m);
    }
}

void ckm_i_stage_peaks(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_stage_model *model = context;
    const ckm_dataflow *df = model->df;
    size_t n = (size_t)df->n_tensors;
    separator sp = {.model = model, .df = df, .x = x};
    sp.held = ckm_i_calloc(n, sizeof *sp.held);
    sp.by = ckm_i_malloc(n, sizeof *sp.by);
    sp.is_read = ckm_i_calloc(n, sizeof *sp.is_read);
    sp.is_t = ckm_i_calloc(n, sizeof *sp.is_t);
    sp.is_v = ckm_i_calloc(n, sizeof *sp.is_v);
    sp.chosen = ckm_i_malloc(n, sizeof *sp.chosen);
    bool ok = sp.held != NULL && sp.by != NULL && sp.is_read != NULL && sp.is_t != NULL && sp.is_v != NULL &&
              sp.chosen != NULL;
    for (int32_t k = 0; k < model->n_cuts && ok; k++) {
        sp.k = k;
        sp.t = k + 1 < model->n_cuts ? model->cuts[k + 1] : -1;
        sp.t_working = sp.t >= 0 ? ckm_i_working_set(df, sp.t) : 0;
        mark_reads(&sp, true);
        if (sp.t >= 0) {
            mark(&sp, sp.t, sp.is_t, true);
        }
        choose(&sp);
        cut_window(&sp, m);
        for (int32_t i = 0; i < sp.n_chosen; i++) {
            sp.held[sp.chosen[i]] = 0.0;
        }
        mark_reads(&sp, false);
        if (sp.t >= 0) {
            mark(&sp, sp.t, sp.is_t, false);
        }
    }
    free(sp.held);
    free(sp.by);
    free(sp.is_read);
    free(sp.is_t);
    free(sp.is_v);
    free(sp.chosen);
}
