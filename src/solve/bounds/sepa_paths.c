// SPDX-License-Identifier: Apache-2.0
// Path cuts. Let x0 be needed after cut i, at the latest by cut j, and let v0, v1, ... be operators such that v0 makes
// x0 and each makes an operand x of the one before. If none of x0, x1, ..., xn is live at cut i, each of v0 ... vn must
// run between the cuts i and j: x0 has to be made again, that needs x1, and so on. Hence for every vn
//   sum over windows i <= k < j of r[k,vn]  +  sum of s[i,xl] over the path  >=  1,
// or >= s[j,x0] where x0 is not read but handed on. The relaxation does not know this of more than one window: it
// lets every window recompute a part of vn from the same half of an operand.
// Where the order is open, x0 may be an operand of any w that runs between the cuts, and the right side is r[k,w] for each of the windows,
// or what w does for the first time between the cuts, d at j less d at i.
// The most violated path from x0 to each vn is a shortest path in an acyclic graph, with s[i,.] as lengths.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "solve/bounds/sepa.h"
#include "solve/core/structure.h"

// Rows added in one round: at most this many, or one for this many columns if that is less, but some; many say nearly the same
// in a small program. This many where the order is open. And the violation worth a row.
enum { max_rows = 4000, min_rows = 500, columns_a_row = 8, max_open_rows = 2000 };
static const double min_violation = 0.02;

// The path that ends at operator v, between the cuts i and j.
typedef struct candidate {
    double score;
    int32_t i, j, v;
} candidate;

typedef struct separator {
    const ckm_i_window_model *model;
    const ckm_dataflow *df;
    const double *x;
    double *again;  // per operator: sum of r over the windows from i to j
    double *need;  // per operator: the right side less the shortest path, or how much of it runs anyway; 0: not reached
    int32_t *via;  // per operator: the tensor by which it is reached; -1: it begins its path
    int32_t *from;  // per operator: the operator that reads that tensor on the path; -1: the tensor begins it
    candidate *found;
    int64_t most, n_found, cap_found;
} separator;

static double live(const separator *sp, int32_t k, int32_t x)
{
    return ckm_i_window_value(sp->x, ckm_i_window_s(sp->model, k)[x]);
}

static double run(const separator *sp, int32_t k, int32_t v)
{
    return ckm_i_window_value(sp->x, ckm_i_window_r(sp->model, k)[v]);
}

// Column of d, of which all is done at the end.
static int32_t done_at(const separator *sp, int32_t k, int32_t v)
{
    return k < sp->model->n_cuts ? ckm_i_window_d(sp->model, k)[v] : CKM_I_DONE;
}

static double done(const separator *sp, int32_t k, int32_t v)
{
    int32_t col = done_at(sp, k, v);
    return col == CKM_I_DONE ? 1.0 : ckm_i_window_value(sp->x, col);
}

// Paths from cut i on lead over operators below this.
static int32_t n_ops_from(const separator *sp, int32_t i)
{
    return sp->model->is_open ? sp->df->n_ops : sp->model->cuts[i] + 1;
}

// Reaches the maker of x with `need` left of the right side, if that is more than by other ways.
static void reach(separator *sp, int32_t i, int32_t x, double need, int32_t from)
{
    const ckm_i_dataflow_tensor *tensor = &sp->df->tensors[x];
    int32_t p = tensor->producer;
    if (tensor->pinned || p < 0 || p >= n_ops_from(sp, i)) {
        return;
    }
    // Where a view is live, what it is a view of is as well: the one covers the other.
    bool covers = from >= 0 && sp->via[from] >= 0 && sp->model->view_of[sp->via[from]] == x;
    double left = need - live(sp, i, x) + (covers ? live(sp, i, sp->via[from]) : 0.0);
    if (left > sp->need[p] + 1e-9) {
        sp->need[p] = left;
        sp->via[p] = x;
        sp->from[p] = from;
    }
}

// The window in which most of v runs, -1 where more runs for the first time between the cuts.
static int32_t busiest(const separator *sp, int32_t i, int32_t j, int32_t v, double *share)
{
    int32_t best = -1;
    *share = done(sp, j, v) - done(sp, i, v);
    for (int32_t k = i; k < j; k++) {
        if (run(sp, k, v) > *share + 1e-9) {
            *share = run(sp, k, v);
            best = k;
        }
    }
    return best;
}

// Shortest paths from all targets of (i, j) at once: each operator learns the target that asks most of it.
static void find_paths(separator *sp, int32_t i, int32_t j)
{
    const ckm_i_window_model *model = sp->model;
    const ckm_dataflow *df = sp->df;
    int32_t n = n_ops_from(sp, i);
    for (int32_t v = 0; v < n; v++) {
        sp->need[v] = 0.0;
        sp->via[v] = -1;
        sp->from[v] = -1;
        if (model->is_open) {
            busiest(sp, i, j, v, &sp->need[v]);
        }
    }
    for (int32_t e = model->need_start[j - 1]; e < model->need_start[j]; e++) {
        reach(sp, i, model->needs[e], 1.0, -1);
    }
    for (int32_t x = 0; j < model->n_cuts && x < df->n_tensors; x++) {
        double held = live(sp, j, x);
        if (held > min_violation) {
            reach(sp, i, x, held, -1);
        }
    }
    for (int32_t v = n - 1; v >= 0; v--) {
        for (int32_t e = 0; sp->need[v] > min_violation && e < df->ops[v].n_inputs; e++) {
            reach(sp, i, df->ops[v].inputs[e], sp->need[v], v);
        }
    }
}

static int by_place(const void *a, const void *b)
{
    const candidate *p = a;
    const candidate *q = b;
    return p->i != q->i ? p->i - q->i : p->j != q->j ? p->j - q->j : p->v - q->v;
}

static int by_score(const void *a, const void *b)
{
    const candidate *p = a;
    const candidate *q = b;
    return p->score != q->score ? (p->score < q->score ? 1 : -1) : by_place(a, b);
}

static void keep_best(separator *sp)
{
    if (sp->n_found > 0) {
        qsort(sp->found, (size_t)sp->n_found, sizeof *sp->found, by_score);
    }
    sp->n_found = sp->n_found < sp->most ? sp->n_found : sp->most;
}

// False if there is no memory. Now and then what cannot be among the best goes, so that memory is O(most).
static bool collect(separator *sp, int32_t i, int32_t j)
{
    find_paths(sp, i, j);
    for (int32_t v = 0; v < n_ops_from(sp, i); v++) {
        double violation = sp->need[v] - sp->again[v];
        double cost = (double)sp->df->ops[v].cost;
        if (violation < min_violation || cost == 0.0 || sp->via[v] < 0) {
            continue;
        }
        if (sp->n_found >= 32 * sp->most) {
            keep_best(sp);
        }
        if (!CKM_I_GROW(sp->found, sp->n_found, sp->cap_found)) {
            return false;
        }
        sp->found[sp->n_found++] = (candidate){violation * cost, i, j, v};
    }
    return true;
}

// Whether x is read in the window that ends at cut j (else it is a target because cut j holds it).
static bool is_read(const separator *sp, int32_t j, int32_t x)
{
    const ckm_i_window_model *model = sp->model;
    bool read = false;
    for (int32_t e = model->need_start[j - 1]; e < model->need_start[j] && !read; e++) {
        read = model->needs[e] == x;
    }
    return read;
}

static void put(ckm_i_milp *m, int32_t col, double factor)
{
    if (col >= 0) {
        ckm_i_milp_put(m, col, factor);
    } else if (col == CKM_I_DONE && !m->failed) {
        m->row_lower[m->n_rows - 1] -= factor;
    }
}

// Less what the path begins with: w computed, or x0 read or live.
static void put_target(separator *sp, int32_t i, int32_t j, int32_t w, int32_t x0, ckm_i_milp *m)
{
    double share;
    if (w < 0) {
        put(m, is_read(sp, j, x0) ? CKM_I_DONE : ckm_i_window_s(sp->model, j)[x0], -1.0);
        return;
    }
    int32_t k = busiest(sp, i, j, w, &share);
    if (k >= 0) {
        put(m, ckm_i_window_r(sp->model, k)[w], -1.0);
    } else {
        put(m, done_at(sp, j, w), -1.0);
        put(m, done_at(sp, i, w), 1.0);
    }
}

static void add_row(separator *sp, const candidate *c, ckm_i_milp *m)
{
    ckm_i_milp_add_row(m, 0.0, INFINITY);
    for (int32_t k = c->i; k < c->j; k++) {
        put(m, ckm_i_window_r(sp->model, k)[c->v], 1.0);
    }
    int32_t x0 = -1;
    int32_t before = -1;
    int32_t v = c->v;
    for (; v >= 0 && sp->via[v] >= 0; v = sp->from[v]) {
        x0 = sp->via[v];
        if (before < 0 || sp->model->view_of[x0] != before) {
            put(m, ckm_i_window_s(sp->model, c->i)[x0], 1.0);
        }
        before = x0;
    }
    put_target(sp, c->i, c->j, v, x0, m);
}

static void add_rows(separator *sp, ckm_i_milp *m)
{
    keep_best(sp);
    if (sp->n_found > 0) {
        qsort(sp->found, (size_t)sp->n_found, sizeof *sp->found, by_place);
    }
    for (int64_t e = 0; e < sp->n_found && !m->failed; e++) {
        const candidate *next = &sp->found[e];
        if (e == 0 || next->i != next[-1].i || next->j != next[-1].j) {
            find_paths(sp, next->i, next->j);
        }
        add_row(sp, next, m);
    }
}

static int64_t most_rows(const ckm_i_window_model *model)
{
    int64_t most = model->milp.n_cols / columns_a_row;
    return model->is_open ? max_open_rows : most < min_rows ? min_rows : most < max_rows ? most : max_rows;
}

void ckm_i_sepa_paths(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_window_model *model = context;
    size_t n = (size_t)model->df->n_ops;
    separator sp = {.model = model, .df = model->df, .x = x, .most = most_rows(model)};
    sp.again = ckm_i_malloc(n, sizeof *sp.again);
    sp.need = ckm_i_malloc(n, sizeof *sp.need);
    sp.via = ckm_i_malloc(n, sizeof *sp.via);
    sp.from = ckm_i_malloc(n, sizeof *sp.from);
    bool ok = sp.again != NULL && sp.need != NULL && sp.via != NULL && sp.from != NULL;
    bool views = ckm_i_has_views(model->df);
    for (int32_t i = 0; i < model->n_cuts && ok; i++) {
        memset(sp.again, 0, n * sizeof *sp.again);
        for (int32_t j = i + 1; j <= model->n_cuts && ok; j++) {
            for (int32_t v = 0; v < n_ops_from(&sp, i); v++) {
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
    free(sp.found);
}

void ckm_i_sepa_all(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_window_model *model = context;
    ckm_i_sepa_paths(context, x, m);
    if (!model->is_open) {
        ckm_i_sepa_peaks(context, x, m);
    }
    ckm_i_sepa_covers(context, x, m);
    if (!model->is_open) {
        ckm_i_sepa_roundings(context, x, m);
    }
}
