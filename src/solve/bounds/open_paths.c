// SPDX-License-Identifier: Apache-2.0
// Path cuts of the open relaxation. Let w run between the cuts i and j, x0 be an operand of it, v0 the operator that makes
// x0, x1 an operand of v0, and so on. If none of x0 ... xn is live at cut i, each of v0 ... vn runs between the cuts, for
// the first time or again. Hence for every vn
//   sum over windows i <= k < j of e[k,vn]  +  sum of s[i,xl] over the path  >=  e[k,w] for each of the windows,
// and >= what w does for the first time between the cuts, d at j less d at i. A path may also begin with a tensor that is
// live at cut j, or with a result.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "solve/bounds/open_model.h"
#include "solve/bounds/path_candidates.h"
#include "solve/bounds/stage_model.h"
#include "solve/core/structure.h"

// Rows added at most in one round, and the violation worth a row.
enum { max_rows = 2000 };
static const double min_violation = 0.02;

typedef struct separator {
    const ckm_i_open_model *model;
    const ckm_dataflow *df;
    const double *x;
    double *again;  // per operator: sum of e over the windows from i to j
    double *need;   // per operator: how much of it must run between the cuts
    int32_t *via;   // per operator: the tensor by which it is reached; -1: it begins its path
    int32_t *from;  // per operator: the operator that reads that tensor on the path; -1: the tensor begins it
    ckm_i_path_candidates candidates;
} separator;

static double value(const separator *sp, int32_t col)
{
    return col >= 0 ? sp->x[col] : col == CKM_I_OPEN_DONE ? 1.0 : 0.0;
}

static double live(const separator *sp, int32_t k, int32_t x)
{
    int32_t col = ckm_i_open_s(sp->model, k)[x];
    return col >= 0 ? sp->x[col] : 0.0;
}

static double run(const separator *sp, int32_t k, int32_t v)
{
    int32_t col = ckm_i_open_e(sp->model, k)[v];
    return col >= 0 ? sp->x[col] : 0.0;
}

static int32_t done_at(const separator *sp, int32_t k, int32_t v)
{
    return k < sp->model->n_cuts ? ckm_i_open_d(sp->model, k)[v] : CKM_I_OPEN_DONE;
}

static bool is_made(const separator *sp, int32_t x)
{
    return !sp->df->tensors[x].pinned && sp->df->tensors[x].producer >= 0;
}

// The window in which most of v runs, -1 where more runs for the first time between the cuts.
static int32_t busiest(const separator *sp, int32_t i, int32_t j, int32_t v, double *share)
{
    int32_t best = -1;
    *share = value(sp, done_at(sp, j, v)) - value(sp, done_at(sp, i, v));
    for (int32_t k = i; k < j; k++) {
        if (run(sp, k, v) > *share + 1e-9) {
            *share = run(sp, k, v);
            best = k;
        }
    }
    return best;
}

static void reach(separator *sp, int32_t i, int32_t x, double need, int32_t from)
{
    if (!is_made(sp, x)) {
        return;
    }
    int32_t p = sp->df->tensors[x].producer;
    // Where a view is live, what it is a view of is as well: the one covers the other.
    bool covers = from >= 0 && sp->via[from] >= 0 && sp->model->view_of[sp->via[from]] == x;
    double left = need - live(sp, i, x) + (covers ? live(sp, i, sp->via[from]) : 0.0);
    if (left > sp->need[p] + 1e-9) {
        sp->need[p] = left;
        sp->via[p] = x;
        sp->from[p] = from;
    }
}

static void find_paths(separator *sp, int32_t i, int32_t j)
{
    const ckm_dataflow *df = sp->df;
    bool last = j == sp->model->n_cuts;
    for (int32_t v = 0; v < df->n_ops; v++) {
        busiest(sp, i, j, v, &sp->need[v]);
        sp->via[v] = -1;
        sp->from[v] = -1;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        double held = last ? (df->tensors[x].is_result ? 1.0 : 0.0) : live(sp, j, x);
        if (held > min_violation) {
            reach(sp, i, x, held, -1);
        }
    }
    for (int32_t v = df->n_ops - 1; v >= 0; v--) {
        for (int32_t e = 0; sp->need[v] > min_violation && e < df->ops[v].n_inputs; e++) {
            reach(sp, i, df->ops[v].inputs[e], sp->need[v], v);
        }
    }
}

static bool collect(separator *sp, int32_t i, int32_t j)
{
    find_paths(sp, i, j);
    for (int32_t v = 0; v < sp->df->n_ops; v++) {
        double violation = sp->need[v] - sp->again[v];
        double cost = (double)sp->df->ops[v].cost;
        if (violation < min_violation || cost == 0.0 || sp->via[v] < 0) {
            continue;
        }
        if (!ckm_i_path_add(&sp->candidates, (ckm_i_path_candidate){violation * cost, i, j, v})) {
            return false;
        }
    }
    return true;
}

static void put(ckm_i_milp *m, int32_t col, double factor)
{
    if (col >= 0) {
        ckm_i_milp_put(m, col, factor);
    } else if (col == CKM_I_OPEN_DONE && !m->failed) {
        m->row_lower[m->n_rows - 1] -= factor;
    }
}

// Less what the path begins with: w computed, or x0 live.
static void put_target(separator *sp, int32_t i, int32_t j, int32_t w, int32_t x0, ckm_i_milp *m)
{
    if (w >= 0) {
        double share;
        int32_t k = busiest(sp, i, j, w, &share);
        if (k >= 0) {
            put(m, ckm_i_open_e(sp->model, k)[w], -1.0);
        } else {
            put(m, done_at(sp, j, w), -1.0);
            put(m, done_at(sp, i, w), 1.0);
        }
    } else {
        put(m, j < sp->model->n_cuts ? ckm_i_open_s(sp->model, j)[x0] : CKM_I_OPEN_DONE, -1.0);
    }
}

static void add_row(separator *sp, const ckm_i_path_candidate *c, ckm_i_milp *m)
{
    ckm_i_milp_add_row(m, 0.0, INFINITY);
    for (int32_t k = c->i; k < c->j; k++) {
        put(m, ckm_i_open_e(sp->model, k)[c->v], 1.0);
    }
    const int32_t *s = ckm_i_open_s(sp->model, c->i);
    int32_t x0 = -1;
    int32_t before = -1;
    int32_t v = c->v;
    for (; v >= 0 && sp->via[v] >= 0; v = sp->from[v]) {
        x0 = sp->via[v];
        bool covered = before >= 0 && sp->model->view_of[x0] == before;
        if (!covered) {
            put(m, s[x0], 1.0);
        }
        before = x0;
    }
    put_target(sp, c->i, c->j, v, x0, m);
}

static void add_rows(separator *sp, ckm_i_milp *m)
{
    const ckm_i_path_candidates *c = &sp->candidates;
    ckm_i_path_settle(&sp->candidates);
    for (int64_t e = 0; e < c->n && !m->failed; e++) {
        const ckm_i_path_candidate *next = &c->found[e];
        if (e == 0 || next->i != next[-1].i || next->j != next[-1].j) {
            find_paths(sp, next->i, next->j);
        }
        add_row(sp, next, m);
    }
}

void ckm_i_open_paths(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_open_model *model = context;
    size_t n = (size_t)model->df->n_ops;
    separator sp = {.model = model, .df = model->df, .x = x, .candidates.most = max_rows};
    sp.again = ckm_i_malloc(n, sizeof *sp.again);
    sp.need = ckm_i_malloc(n, sizeof *sp.need);
    sp.via = ckm_i_malloc(n, sizeof *sp.via);
    sp.from = ckm_i_malloc(n, sizeof *sp.from);
    bool ok = sp.again != NULL && sp.need != NULL && sp.via != NULL && sp.from != NULL;
    bool views = ckm_i_has_views(model->df);
    for (int32_t i = 0; i < model->n_cuts && ok; i++) {
        memset(sp.again, 0, n * sizeof *sp.again);
        for (int32_t j = i + 1; j <= model->n_cuts && ok; j++) {
            for (int32_t v = 0; v < model->df->n_ops; v++) {
                sp.again[v] += run(&sp, j - 1, v);
            }
            ok = (j == i + 1 && !views) || collect(&sp, i, j);
        }
    }
    if (ok) {
        add_rows(&sp, m);
    }
    free(sp.again);
    free(sp.need);
    free(sp.via);
    free(sp.from);
    free(sp.candidates.found);
}

void ckm_i_open_separate(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_open_model *model = context;
    ckm_i_open_paths(context, x, m);
    ckm_i_cover_cuts(model->memory_row, model->n_cuts, model->df->n_tensors, x, m);
}
