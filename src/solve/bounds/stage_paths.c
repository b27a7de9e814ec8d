// SPDX-License-Identifier: Apache-2.0
// Path cuts. Let x0 be needed after cut i, at the latest by cut j, and let v0, v1, ... be operators such that v0 makes
// x0 and each makes an operand x of the one before. If none of x0, x1, ..., xn is live at cut i, each of v0 ... vn must
// run between the cuts i and j: x0 has to be made again, that needs x1, and so on. Hence for every vn
//   sum over windows i <= k < j of r[k,vn]  +  sum of s[i,xl] over the path  >=  1,
// or >= s[j,x0] where x0 is not read but handed on. The relaxation does not know this of more than one window: it
// lets every window recompute a part of vn from the same half of an operand.
// The most violated path from x0 to each vn is a shortest path in an acyclic graph, with s[i,.] as lengths.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "solve/bounds/path_candidates.h"
#include "solve/bounds/stage_model.h"
#include "solve/core/structure.h"

// Rows added in one round: at most so many, or one for so many columns if that is less, but some; many say nearly the same
// in a small program. And the violation worth a row.
enum { max_rows = 4000, min_rows = 500, columns_a_row = 8 };
static const double min_violation = 0.02;

typedef struct separator {
    const ckm_i_stage_model *model;
    const ckm_dataflow *df;
    const double *x;
    double *again;  // per operator: sum of r over the windows from i to j
    double *need;   // per operator: 1 (or s[j]) less the shortest path; 0: not reached
    int32_t *via;   // per operator: the tensor by which it is reached
    int32_t *from;  // per operator: the operator that reads that tensor on the path; -1: it is the target
    ckm_i_path_candidates candidates;
} separator;

static const int32_t *row_of_s(const separator *sp, int32_t k)
{
    return sp->model->s_col + (int64_t)k * sp->df->n_tensors;
}

static const int32_t *row_of_r(const separator *sp, int32_t k)
{
    return ckm_i_stage_r(sp->model, k);
}

static bool is_made_before(const separator *sp, int32_t x, int32_t cut)
{
    const ckm_i_dataflow_tensor *tensor = &sp->df->tensors[x];
    return !tensor->pinned && tensor->producer >= 0 && tensor->producer <= cut;
}

// Reaches the maker of x with `need` left of the target, if that is more than by other ways.
static void reach(separator *sp, const int32_t *s, int32_t x, double need, int32_t from)
{
    int32_t p = sp->df->tensors[x].producer;
    // Where a view is live, what it is a view of is as well: the one covers the other.
    bool covers = from >= 0 && sp->model->view_of[sp->via[from]] == x;
    double left = need - ckm_i_stage_value(sp->x, s[x]) + (covers ? ckm_i_stage_value(sp->x, s[sp->via[from]]) : 0.0);
    if (left > sp->need[p] + 1e-9) {
        sp->need[p] = left;
        sp->via[p] = x;
        sp->from[p] = from;
    }
}

// Shortest paths from all targets of (i, j) at once: each operator learns the target that asks most of it.
static void find_paths(separator *sp, int32_t i, int32_t j)
{
    const ckm_i_stage_model *model = sp->model;
    const ckm_dataflow *df = sp->df;
    int32_t cut = model->cuts[i];
    const int32_t *s = row_of_s(sp, i);
    memset(sp->need, 0, ((size_t)cut + 1) * sizeof *sp->need);
    for (int32_t e = model->need_start[j - 1]; e < model->need_start[j]; e++) {
        if (is_made_before(sp, model->needs[e], cut)) {
            reach(sp, s, model->needs[e], 1.0, -1);
        }
    }
    for (int32_t x = 0; j < model->n_cuts && x < df->n_tensors; x++) {
        double held = ckm_i_stage_value(sp->x, row_of_s(sp, j)[x]);
        if (held > min_violation && is_made_before(sp, x, cut)) {
            reach(sp, s, x, held, -1);
        }
    }
    for (int32_t v = cut; v >= 0; v--) {
        for (int32_t e = 0; sp->need[v] > min_violation && e < df->ops[v].n_inputs; e++) {
            if (is_made_before(sp, df->ops[v].inputs[e], cut)) {
                reach(sp, s, df->ops[v].inputs[e], sp->need[v], v);
            }
        }
    }
}

static bool collect(separator *sp, int32_t i, int32_t j)
{
    find_paths(sp, i, j);
    for (int32_t v = 0; v <= sp->model->cuts[i]; v++) {
        double violation = sp->need[v] - sp->again[v];
        double cost = (double)sp->df->ops[v].cost;
        if (violation < min_violation || cost == 0.0) {
            continue;
        }
        if (!ckm_i_path_add(&sp->candidates, (ckm_i_path_candidate){violation * cost, i, j, v})) {
            return false;
        }
    }
    return true;
}

// Whether x is read in the window that ends at cut j (else it is a target because cut j holds it).
static bool is_read(const separator *sp, int32_t j, int32_t x)
{
    const ckm_i_stage_model *model = sp->model;
    for (int32_t e = model->need_start[j - 1]; e < model->need_start[j]; e++) {
        if (model->needs[e] == x) {
            return true;
        }
    }
    return false;
}

static void add_row(separator *sp, const ckm_i_path_candidate *c, ckm_i_milp *m)
{
    ckm_i_milp_add_row(m, 0.0, INFINITY);
    for (int32_t k = c->i; k < c->j; k++) {
        int32_t col = row_of_r(sp, k)[c->v];
        if (col >= 0) {
            ckm_i_milp_put(m, col, 1.0);
        }
    }
    int32_t x0 = -1;
    int32_t before = -1;
    for (int32_t v = c->v; v >= 0; v = sp->from[v]) {
        x0 = sp->via[v];
        bool covered = before >= 0 && sp->model->view_of[x0] == before;
        if (row_of_s(sp, c->i)[x0] >= 0 && !covered) {
            ckm_i_milp_put(m, row_of_s(sp, c->i)[x0], 1.0);
        }
        before = x0;
    }
    if (is_read(sp, c->j, x0)) {
        m->row_lower[m->n_rows - 1] = 1.0;
    } else {
        ckm_i_milp_put(m, row_of_s(sp, c->j)[x0], -1.0);
    }
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

void ckm_i_stage_paths(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_stage_model *model = context;
    size_t n = (size_t)model->df->n_ops;
    separator sp = {.model = model, .df = model->df, .x = x};
    int64_t most = model->milp.n_cols / columns_a_row;
    sp.candidates.most = most < min_rows ? min_rows : most < max_rows ? most : max_rows;
    sp.again = ckm_i_malloc(n, sizeof *sp.again);
    sp.need = ckm_i_malloc(n, sizeof *sp.need);
    sp.via = ckm_i_malloc(n, sizeof *sp.via);
    sp.from = ckm_i_malloc(n, sizeof *sp.from);
    bool ok = sp.again != NULL && sp.need != NULL && sp.via != NULL && sp.from != NULL;
    bool views = ckm_i_has_views(model->df);
    for (int32_t i = 0; i < model->n_cuts && ok; i++) {
        memset(sp.again, 0, n * sizeof *sp.again);
        for (int32_t j = i + 1; j <= model->n_cuts && ok; j++) {
            for (int32_t v = 0; v <= model->cuts[i]; v++) {
                sp.again[v] += ckm_i_stage_value(sp.x, row_of_r(&sp, j - 1)[v]);
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

void ckm_i_stage_separate(const void *context, const double *x, ckm_i_milp *m)
{
    ckm_i_stage_paths(context, x, m);
    ckm_i_stage_peaks(context, x, m);
    ckm_i_stage_covers(context, x, m);
    ckm_i_stage_roundings(context, x, m);
}
