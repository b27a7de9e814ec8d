// SPDX-License-Identifier: Apache-2.0
// Peak cuts: memory between the cuts. Let x be made by p before operator u, and let window k, in which u first runs, not
// compute p again. If an operator of the window reads x after u, or x is live at the end of the window, x is there while
// u runs. So what is there of x at u is at least
//   h[x] = 1 - r[k,p]  where the window reads x after u (the last one, where x is a result), else  s[k+1,x] - r[k,p],
// and for any set X of tensors made before u, one a storage, none on a storage that u touches,
//   sum over X of m_x h[x]  <=  B - working set of u.
// Where v is computed again in window k, it is not known when. But what was made before the window and is live at its end,
// or read by the operator t that ends it, is there all the time unless its producer runs. For any X of such tensors off
// v's storages, and U = the most that X can take at t,
//   sum over X of m_x h[x]  +  (working set of v - B + U) r[k,v]  <=  U:
// if v runs, its working set and X are in memory together; if not, X is what it has on storages that t touches, and what
// t leaves for others. All of this holds for every X, also where some h[x] is negative; the rows take those that are
// positive. A tensor stands for its views: where one is live, it is.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/bounds/sepa.h"
#include "solve/core/structure.h"

// Rows of either kind added for one window in one round, and the violation worth a row, of the budget.
enum { rows_a_window = 4 };
static const double min_violation = 1e-3;

typedef struct separator {
    const ckm_i_window_model *model;
    const ckm_dataflow *df;
    const double *x;
    int32_t *owner;       // per tensor: the tensor that stands for it, -1: none does
    int32_t *last_use;    // per tensor: the last operator of the window that reads it or a view of it; n_ops: the end
    double *change;       // per operator of the window: what h adds up to, as differences
    bool *touched;        // per storage
    bool *at_end;         // per storage: whether the operator that ends the window touches it
    int32_t k, cut, end;  // the window, the operator before it (-1: none), the one that ends it (n_ops: the end)
} separator;

static int32_t r_of(const separator *sp, int32_t x)
{
    return ckm_i_window_r(sp->model, sp->k)[sp->df->tensors[x].producer];
}

// Column of x at the window's end, -1 where zero or where there is none.
static int32_t s_of(const separator *sp, int32_t x)
{
    bool last = sp->k + 1 == sp->model->n_cuts;
    return last ? -1 : sp->model->s_col[(int64_t)(sp->k + 1) * sp->df->n_tensors + x];
}

// h[x] while u runs.
static double held(const separator *sp, int32_t x, int32_t u)
{
    return (sp->last_use[x] > u ? 1.0 : ckm_i_window_value(sp->x, s_of(sp, x))) -
           ckm_i_window_value(sp->x, r_of(sp, x));
}

static bool stands(const separator *sp, int32_t x)
{
    return sp->owner[x] == x && sp->df->tensors[x].bytes > 0;
}

static void mark(const separator *sp, int32_t v, bool *storages, bool to)
{
    const ckm_i_dataflow_op *op = &sp->df->ops[v];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        storages[sp->df->tensors[x].storage] = to;
    }
}

static void find_owners(separator *sp)
{
    for (int32_t x = 0; x < sp->df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &sp->df->tensors[x];
        int32_t y = x;
        while (sp->model->view_of[y] >= 0) {
            y = sp->model->view_of[y];
        }
        bool owned = !tensor->pinned && y == tensor->storage && sp->df->tensors[y].producer >= 0;
        sp->owner[x] = owned ? y : -1;
    }
}

static void find_uses(separator *sp)
{
    const ckm_dataflow *df = sp->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        sp->last_use[x] = -1;
    }
    for (int32_t u = sp->cut + 1; u <= sp->end && u < df->n_ops; u++) {
        for (int32_t i = 0; i < df->ops[u].n_inputs; i++) {
            int32_t x = sp->owner[df->ops[u].inputs[i]];
            if (x >= 0) {
                sp->last_use[x] = u;
            }
        }
    }
    for (int32_t i = 0; sp->end == df->n_ops && i < df->n_results; i++) {
        int32_t x = sp->owner[df->results[i]];
        if (x >= 0) {
            sp->last_use[x] = df->n_ops;
        }
    }
}

// The row for X = all with positive h at u that are made before `before`, and `more` times r[k,again] if again >= 0.
static void add_row(separator *sp, int32_t u, int32_t before, int64_t side, int32_t again, int64_t more, ckm_i_milp *m)
{
    const ckm_dataflow *df = sp->df;
    double scale = sp->model->byte_scale;
    int32_t row = ckm_i_milp_add_row(m, -INFINITY, 0.0);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (!stands(sp, x) || df->tensors[x].producer >= before || sp->touched[x] || held(sp, x, u) <= 1e-6) {
            continue;
        }
        if (sp->last_use[x] > u) {
            side -= df->tensors[x].bytes;
        } else {
            ckm_i_milp_put(m, s_of(sp, x), (double)df->tensors[x].bytes / scale);
        }
        if (r_of(sp, x) >= 0) {
            ckm_i_milp_put(m, r_of(sp, x), -(double)df->tensors[x].bytes / scale);
        }
    }
    if (again >= 0) {
        ckm_i_milp_put(m, ckm_i_window_r(sp->model, sp->k)[again], (double)more / scale);
    }
    if (!m->failed) {
        m->row_upper[row] = (double)side / scale;
        ckm_i_milp_set_slope(m, row, 1.0 / scale);  // every side is the budget less something
    }
}

// What h adds up to over everything made before u and not touched by it, as `change` has it up to u.
static double others(const separator *sp, int32_t u, double sum)
{
    const ckm_i_dataflow_op *op = &sp->df->ops[u];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        int32_t storage = sp->df->tensors[x].storage;
        if (!sp->touched[storage] && stands(sp, storage) && sp->df->tensors[storage].producer < u) {
            sum -= (double)sp->df->tensors[storage].bytes * fmax(held(sp, storage, u), 0.0);
        }
        sp->touched[storage] = true;
    }
    mark(sp, u, sp->touched, false);
    return sum;
}

// First computations of the window, but for the one that ends it: the memory row of its cut says more.
static void cut_first(separator *sp, ckm_i_milp *m)
{
    const ckm_dataflow *df = sp->df;
    int32_t from = sp->cut + 1;
    int32_t n = sp->end - from;
    for (int32_t i = 0; i <= n; i++) {
        sp->change[i] = 0.0;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t begin = df->tensors[x].producer < from ? 0 : df->tensors[x].producer + 1 - from;
        if (!stands(sp, x) || begin >= n) {
            continue;
        }
        // Until its last use in the window one h, then another.
        int32_t use = sp->last_use[x] - from;
        int32_t turn = use < begin ? begin : use < n ? use : n;
        double bytes = (double)df->tensors[x].bytes;
        double early = turn > begin ? bytes * fmax(held(sp, x, from + begin), 0.0) : 0.0;
        double late = turn < n ? bytes * fmax(held(sp, x, sp->end - 1), 0.0) : 0.0;
        sp->change[begin] += early;
        sp->change[turn] += late - early;
        sp->change[n] -= late;
    }
    double sum = 0.0;
    double worst = 0.0;
    int32_t best = -1;
    int32_t part = 0;
    double room = fmax((double)sp->model->room_bytes, 1.0);
    for (int32_t i = 0; i < n; i++) {
        sum += sp->change[i];
        int64_t side = sp->model->room_bytes - ckm_i_working_set(df, from + i);
        double violation = (others(sp, from + i, sum) - (double)side) / room;
        if (violation > min_violation && violation > worst) {
            worst = violation;
            best = from + i;
        }
        bool ends = (int64_t)(i + 1) * rows_a_window >= (int64_t)n * (part + 1);
        if (ends && best >= 0) {
            mark(sp, best, sp->touched, true);
            add_row(sp, best, best, sp->model->room_bytes - ckm_i_working_set(df, best), -1, 0, m);
            mark(sp, best, sp->touched, false);
        }
        if (ends) {
            part++;
            best = -1;
            worst = 0.0;
        }
    }
}

// U for the X that leaves out what v touches, and through *total the sum of m_x h[x] over it: less than over all.
static int64_t most_together(const separator *sp, int32_t v, double *total, const int64_t *most)
{
    const ckm_dataflow *df = sp->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int64_t at_t = most[0];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = df->tensors[i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs]].storage;
        bool in = !sp->touched[x] && stands(sp, x) && df->tensors[x].producer <= sp->cut;
        double h = in ? held(sp, x, sp->end - 1) : 0.0;
        if (h > 1e-6) {
            *total -= (double)df->tensors[x].bytes * h;
            at_t -= sp->at_end[x] ? df->tensors[x].bytes : 0;
        }
        sp->touched[x] = true;
    }
    mark(sp, v, sp->touched, false);
    int64_t upper = sp->end < df->n_ops ? most[1] + at_t : sp->model->room_bytes;
    return upper < sp->model->room_bytes ? upper : sp->model->room_bytes;
}

// Operators computed again in the window: those whose rows are violated most.
static void cut_again(separator *sp, ckm_i_milp *m)
{
    const ckm_dataflow *df = sp->df;
    int32_t best[rows_a_window];
    double by[rows_a_window];
    int64_t upper[rows_a_window];
    int n = 0;
    double room = fmax((double)sp->model->room_bytes, 1.0);
    // What t touches of X, and what it leaves for the rest.
    int64_t most[2] = {0, sp->end < df->n_ops ? sp->model->room_bytes - ckm_i_working_set(df, sp->end) : 0};
    double sum = 0.0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        double h = stands(sp, x) && df->tensors[x].producer <= sp->cut ? held(sp, x, sp->end - 1) : 0.0;
        if (h > 1e-6) {
            sum += (double)df->tensors[x].bytes * h;
            most[0] += sp->at_end[x] ? df->tensors[x].bytes : 0;
        }
    }
    for (int32_t v = 0; v <= sp->cut; v++) {
        double again = ckm_i_window_value(sp->x, ckm_i_window_r(sp->model, sp->k)[v]);
        if (again < 1e-6) {
            continue;
        }
        double total = sum;
        int64_t u = most_together(sp, v, &total, most);
        int64_t more = ckm_i_working_set(df, v) - sp->model->room_bytes + u;
        double violation = (total + (double)more * again - (double)u) / room;
        if (more <= 0 || violation < min_violation || (n == rows_a_window && by[n - 1] >= violation)) {
            continue;
        }
        int at = n < rows_a_window ? n++ : n - 1;
        for (; at > 0 && by[at - 1] < violation; at--) {
            best[at] = best[at - 1];
            by[at] = by[at - 1];
            upper[at] = upper[at - 1];
        }
        best[at] = v;
        by[at] = violation;
        upper[at] = u;
    }
    for (int i = 0; i < n; i++) {
        int64_t more = ckm_i_working_set(df, best[i]) - sp->model->room_bytes + upper[i];
        mark(sp, best[i], sp->touched, true);
        add_row(sp, sp->end - 1, sp->cut + 1, upper[i], best[i], more, m);
        mark(sp, best[i], sp->touched, false);
    }
}

void ckm_i_sepa_peaks(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_window_model *model = context;
    const ckm_dataflow *df = model->df;
    size_t n = (size_t)df->n_tensors;
    separator sp = {.model = model, .df = df, .x = x};
    sp.owner = ckm_i_malloc(n, sizeof *sp.owner);
    sp.last_use = ckm_i_malloc(n, sizeof *sp.last_use);
    sp.change = ckm_i_malloc((size_t)df->n_ops + 1, sizeof *sp.change);
    sp.touched = ckm_i_calloc(n, sizeof *sp.touched);
    sp.at_end = ckm_i_calloc(n, sizeof *sp.at_end);
    bool ok = sp.owner != NULL && sp.last_use != NULL && sp.change != NULL && sp.touched != NULL && sp.at_end != NULL;
    if (ok) {
        find_owners(&sp);
    }
    for (int32_t k = -1; k < model->n_cuts && ok; k++) {
        sp.k = k;
        sp.cut = k >= 0 ? model->cuts[k] : -1;
        sp.end = k + 1 < model->n_cuts ? model->cuts[k + 1] : df->n_ops;
        find_uses(&sp);
        cut_first(&sp, m);
        if (sp.end < df->n_ops) {
            mark(&sp, sp.end, sp.at_end, true);
        }
        cut_again(&sp, m);
        if (sp.end < df->n_ops) {
            mark(&sp, sp.end, sp.at_end, false);
        }
    }
    free(sp.owner);
    free(sp.last_use);
    free(sp.change);
    free(sp.touched);
    free(sp.at_end);
}
