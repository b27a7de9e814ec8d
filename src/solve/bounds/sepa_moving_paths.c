// SPDX-License-Identifier: Apache-2.0
// Path cuts of the moving relaxation, as in sepa_paths.c. Let x0 be read by a first computation of window j - 1, or be a result for the
// last, and v0, v1, ... be operators such that v0 makes x0 and each makes an operand x of the one before. If none of x0, x1, ... is live
// at cut i, or comes back between the cuts i and j after it left before the cut of its window, each of v0 ... vn runs between them:
//   sum over windows i <= k < j of r[k,vn]  +  sum over the path of s[i,xl] + sum over k of back[k,xl]  >=  1.
// The first xl whose vl does not run was live at cut i or had left before it, or was on its way out there with its storage, which others had
// still. So for each xl the storage's presence at cut i with the sum of out[k,xl] over k < i may stand in place of s[i,xl] with that of back:
// without it half a way out would bring back half in each of two windows.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/bounds/moving_model.h"
#include "solve/bounds/sepa.h"

// The violation worth a row, and the rows of one round and pair of cuts.
static const double least_violation = 0.02;
enum { most_rows = 400 };

typedef struct separator {
    const ckm_i_moving_model *model;
    const double *x;
    ckm_i_milp *m;
    double *need;   // per operator: 1 less the shortest path to it; 0: not reached
    int32_t *via;   // per operator: the tensor by which it is reached
    int32_t *from;  // per operator: the operator that reads that tensor; -1: it is the target
} separator;

static double again(const separator *sp, int32_t i, int32_t j, int32_t v)
{
    double sum = 0.0;
    for (int32_t k = i; k < j; k++) {
        sum += ckm_i_window_value(sp->x, sp->model->r_col[((int64_t)k + 1) * sp->model->df->n_ops + v]);
    }
    return sum;
}

// Two ways to say that x is live at cut i or comes back between the cuts, of which each alone is enough: what comes back; or what has left before
// cut i, where with others on its storage that storage's presence counts, which may be on its way out. INFINITY: not known.
static double came_back(const separator *sp, int32_t i, int32_t j, int32_t x)
{
    const ckm_dataflow *df = sp->model->df;
    double sum = ckm_i_window_value(sp->x, sp->model->s_col[(int64_t)i * df->n_tensors + x]);
    for (int32_t k = i; k < j; k++) {
        sum += ckm_i_window_value(sp->x, sp->model->back_col[(int64_t)k * df->n_tensors + df->tensors[x].storage]);
    }
    return sum;
}

static int32_t presence(const separator *sp, int32_t i, int32_t x)
{
    const ckm_dataflow *df = sp->model->df;
    int32_t g = df->tensors[x].storage;
    return sp->model->n_on[g] > 1 ? sp->model->present_col[(int64_t)i * df->n_tensors + g]
                                  : sp->model->s_col[(int64_t)i * df->n_tensors + x];
}

static double had_left(const separator *sp, int32_t i, int32_t x)
{
    const ckm_dataflow *df = sp->model->df;
    int32_t g = df->tensors[x].storage;
    if (sp->model->n_on[g] > 1 && presence(sp, i, x) < 0) {
        return INFINITY;
    }
    double sum = ckm_i_window_value(sp->x, presence(sp, i, x));
    for (int32_t k = -1; k < i; k++) {
        sum += ckm_i_window_value(sp->x, sp->model->out_col[((int64_t)k + 1) * df->n_tensors + g]);
    }
    return sum;
}

static double length(const separator *sp, int32_t i, int32_t j, int32_t x)
{
    return fmin(came_back(sp, i, j, x), had_left(sp, i, x));
}

// Whether x is made up to cut i by an operator that has to run for it.
static bool is_made(const separator *sp, int32_t i, int32_t x)
{
    const ckm_dataflow *df = sp->model->df;
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    return !tensor->pinned && !ckm_i_is_loaded(df, tensor->storage) && tensor->producer >= 0 &&
           tensor->producer <= sp->model->cuts[i];
}

// Where x is a view, what it is a view of is needed as well, and that is all that counts.
static void reach(const separator *sp, int32_t i, int32_t j, int32_t needed, double need, int32_t from)
{
    int32_t x = ckm_i_moving_base(sp->model, needed);
    int32_t p = sp->model->df->tensors[x].producer;
    double left = need - length(sp, i, j, x);
    if (left > sp->need[p] + 1e-9) {
        sp->need[p] = left;
        sp->via[p] = x;
        sp->from[p] = from;
    }
}

static void find_paths(const separator *sp, int32_t i, int32_t j)
{
    const ckm_i_moving_model *model = sp->model;
    const ckm_dataflow *df = model->df;
    int32_t end = j < model->n_cuts ? model->cuts[j] : df->n_ops - 1;
    for (int32_t v = 0; v <= model->cuts[i]; v++) {
        sp->need[v] = 0.0;
    }
    for (int32_t u = model->cuts[j - 1] + 1; u <= end; u++) {
        for (int32_t k = 0; k < df->ops[u].n_inputs; k++) {
            if (is_made(sp, i, df->ops[u].inputs[k])) {
                reach(sp, i, j, df->ops[u].inputs[k], 1.0, -1);
            }
        }
    }
    for (int32_t k = 0; j == model->n_cuts && k < df->n_results; k++) {
        if (is_made(sp, i, df->results[k])) {
            reach(sp, i, j, df->results[k], 1.0, -1);
        }
    }
    for (int32_t v = model->cuts[i]; v >= 0; v--) {
        for (int32_t k = 0; sp->need[v] > least_violation && k < df->ops[v].n_inputs; k++) {
            if (is_made(sp, i, df->ops[v].inputs[k])) {
                reach(sp, i, j, df->ops[v].inputs[k], sp->need[v], v);
            }
        }
    }
}

static void put(const separator *sp, int32_t col)
{
    if (col >= 0) {
        ckm_i_milp_put(sp->m, col, 1.0);
    }
}

static void add_row(const separator *sp, int32_t i, int32_t j, int32_t target)
{
    const ckm_dataflow *df = sp->model->df;
    ckm_i_milp_add_row(sp->m, 1.0, INFINITY);
    for (int32_t k = i; k < j; k++) {
        put(sp, sp->model->r_col[((int64_t)k + 1) * df->n_ops + target]);
    }
    for (int32_t v = target; v >= 0; v = sp->from[v]) {
        int32_t x = sp->via[v];
        int32_t g = df->tensors[x].storage;
        bool by_left = had_left(sp, i, x) < came_back(sp, i, j, x);
        put(sp, by_left ? presence(sp, i, x) : sp->model->s_col[(int64_t)i * df->n_tensors + x]);
        for (int32_t k = by_left ? -1 : i; k < (by_left ? i : j); k++) {
            put(sp, by_left ? sp->model->out_col[((int64_t)k + 1) * df->n_tensors + g]
                            : sp->model->back_col[(int64_t)k * df->n_tensors + g]);
        }
    }
}

static void add_rows(const separator *sp, int32_t i, int32_t j)
{
    double most = 0.0;
    int32_t cut = sp->model->cuts[i];
    for (int32_t v = 0; v <= cut; v++) {
        double violated = sp->need[v] > 0.0 ? sp->need[v] - again(sp, i, j, v) : 0.0;
        most = violated > most ? violated : most;
    }
    int n_rows = 0;
    for (int32_t v = cut; most > least_violation && v >= 0 && n_rows < most_rows; v--) {
        if (sp->need[v] > 0.0 && sp->need[v] - again(sp, i, j, v) >= 0.5 * most) {
            add_row(sp, i, j, v);
            n_rows++;
        }
    }
}

void ckm_i_sepa_moving_paths(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_moving_model *model = context;
    size_t n = (size_t)model->df->n_ops;
    separator sp = {.model = model, .x = x, .m = m};
    sp.need = ckm_i_malloc(n, sizeof *sp.need);
    sp.via = ckm_i_malloc(n, sizeof *sp.via);
    sp.from = ckm_i_malloc(n, sizeof *sp.from);
    if (sp.need != NULL && sp.via != NULL && sp.from != NULL) {
        for (int32_t i = 0; i < model->n_cuts; i++) {
            for (int32_t j = i + 1; j <= model->n_cuts; j++) {
                find_paths(&sp, i, j);
                add_rows(&sp, i, j);
            }
        }
    }
    free(sp.need);
    free(sp.via);
    free(sp.from);
}
