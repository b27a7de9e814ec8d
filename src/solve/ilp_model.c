// SPDX-License-Identifier: Apache-2.0
// Building the mixed-integer program. Notation: stage t, operator v, tensor x with producer v and users
// u_1 < u_2 < ... ; "presence" is 1 while x is in memory. Where the paper has one FREE variable per use, this
// has P[t,x,i], the presence of x when its i-th user would run, and FREE is the difference P_i - P_{i+1}:
// the same solutions, but FREE <= 1 - max over later users holds in the relaxation instead of one by one.
#include "solve/ilp_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/solver.h"

// An affine expression: constant + sum of at most three columns, those that are not -1, packed to the front.
#define TERM_COLS 3
typedef struct term {
    double constant;
    int32_t col[TERM_COLS];
} term;

typedef struct builder {
    ckm_i_ilp *ilp;
    const ckm_dataflow *df;
    ckm_i_milp *m;
    int32_t t;                 // current stage
    int32_t n_stage_ops;       // operators 0..n_stage_ops-1 may run in it
    int64_t unit_bytes;        // gcd of all sizes
    double row_scale, budget;  // of memory rows, in units
    term **presence;           // per tensor: [0] at its producer, [i] at its i-th user, last: after all
    term *pool;
    int32_t *cursor;                   // per tensor: index into presence[x] for the operator at hand
    int32_t *group_head, *group_next;  // tensors on one storage, for storages with several
    term *group_term;                  // per storage: its presence, and the members it was made of
    term *group_key;
    int64_t *group_at;  // per storage: where its keys start
    int64_t max_entries;
} builder;

static term constant_term(double value)
{
    return (term){.constant = value, .col = {-1, -1, -1}};
}

static term column_term(int32_t col)
{
    if (col == CKM_I_ILP_ZERO) {
        return constant_term(0.0);
    }
    if (col == CKM_I_ILP_ONE) {
        return constant_term(1.0);
    }
    return (term){.constant = 0.0, .col = {col, -1, -1}};
}

static term sum_terms(term a, term b)
{
    term sum = {.constant = a.constant + b.constant, .col = {-1, -1, -1}};
    int n = 0;
    for (int i = 0; i < TERM_COLS && a.col[i] >= 0; i++) {
        sum.col[n++] = a.col[i];
    }
    for (int i = 0; i < TERM_COLS && b.col[i] >= 0 && n < TERM_COLS; i++) {
        sum.col[n++] = b.col[i];
    }
    return sum;
}

static bool same_term(term a, term b)
{
    return a.constant == b.constant && memcmp(a.col, b.col, sizeof a.col) == 0;
}

static bool is_zero(term a)
{
    return a.constant == 0.0 && a.col[0] < 0;
}

static void put_term(builder *b, term a, double factor, double *moved)
{
    *moved += a.constant * factor;
    for (int i = 0; i < TERM_COLS && a.col[i] >= 0; i++) {
        ckm_i_milp_put(b->m, a.col[i], factor);
    }
}

// Row a - b >= 0, unless it holds anyway.
static void require_ge(builder *b, term a, term c)
{
    bool one = a.constant >= 1.0 && a.col[0] < 0;
    bool trivially = is_zero(c) || same_term(a, c) || (one && c.col[1] < 0 && (c.constant == 0.0 || c.col[0] < 0));
    if (trivially) {
        return;
    }
    int32_t row = ckm_i_milp_add_row(b->m, 0.0, INFINITY);
    double moved = 0.0;
    put_term(b, a, 1.0, &moved);
    put_term(b, c, -1.0, &moved);
    if (!b->m->failed) {
        b->m->row_lower[row] = -moved;
    }
}

// Row a - c <= d.
static void require_difference_le(builder *b, term a, term c, term d)
{
    int32_t row = ckm_i_milp_add_row(b->m, -INFINITY, 0.0);
    double moved = 0.0;
    put_term(b, a, 1.0, &moved);
    put_term(b, c, -1.0, &moved);
    put_term(b, d, -1.0, &moved);
    if (!b->m->failed) {
        b->m->row_upper[row] = -moved;
    }
}

// Row a + c <= 1.
static void require_sum_le_one(builder *b, term a, term c)
{
    require_ge(b, constant_term(1.0), sum_terms(a, c));
}

static int32_t r_at(const builder *b, int32_t t, int32_t v)
{
    return b->ilp->r_col[(int64_t)t * b->df->n_ops + v];
}

static int32_t s_at(const builder *b, int32_t t, int32_t x)
{
    return b->ilp->s_col[(int64_t)t * b->df->n_tensors + x];
}

static term r_term(const builder *b, int32_t t, int32_t v)
{
    return column_term(r_at(b, t, v));
}

static term s_term(const builder *b, int32_t t, int32_t x)
{
    return column_term(s_at(b, t, x));
}

static int64_t gcd64(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Columns for R and S. An operator is useful in stage t only if something at or after t still needs it:
// `last_need` is the largest operator (or n for results) reachable from it.
static void add_columns(builder *b, const int32_t *last_need)
{
    const ckm_dataflow *df = b->df;
    ckm_i_ilp *ilp = b->ilp;
    int32_t n = df->n_ops;
    bool frontier = ilp->formulation == CKM_FORMULATION_FRONTIER;
    for (int32_t t = 0; t < n; t++) {
        for (int32_t v = 0; v < n; v++) {
            int32_t *col = &ilp->r_col[(int64_t)t * n + v];
            *col = CKM_I_ILP_ZERO;
            if (frontier && v == t) {
                *col = CKM_I_ILP_ONE;
            } else if (frontier ? (v < t && df->ops[v].recomputable && last_need[v] >= t) : true) {
                *col = ckm_i_milp_add_col(b->m, (double)df->ops[v].cost / ilp->cost_scale, 0.0, 1.0, true);
            }
        }
    }
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t x = 0; x < df->n_tensors; x++) {
            const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
            int32_t *col = &ilp->s_col[(int64_t)t * df->n_tensors + x];
            *col = CKM_I_ILP_ZERO;
            if (tensor->pinned || tensor->producer < 0 || t == 0) {
                continue;
            }
            if (t == n) {
                *col = tensor->is_result ? CKM_I_ILP_ONE : CKM_I_ILP_ZERO;
            } else if ((!frontier || tensor->producer < t) && (tensor->n_users > 0 || tensor->is_result) &&
                       last_need[tensor->producer] >= t) {
                *col = ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, true);
            }
        }
    }
}

// Users of x that may run in the current stage.
static int32_t users_in_stage(const builder *b, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    int32_t k = 0;
    while (k < tensor->n_users && tensor->users[k] < b->n_stage_ops) {
        k++;
    }
    return k;
}

// Presence of x at its producer and its users in stage t, and the rows between them. Fills presence[x].
static void add_presence(builder *b, int32_t x)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    int32_t t = b->t;
    int32_t v = tensor->producer;
    int32_t k = users_in_stage(b, x);
    bool single = df->ops[v].n_outputs == 1;
    bool runs = v < b->n_stage_ops;
    term s = s_term(b, t, x);
    term r = runs ? r_term(b, t, v) : constant_term(0.0);
    term next = s_term(b, t + 1, x);
    term *p = b->presence[x];
    term available = sum_terms(s, r);
    if (single && r.constant == 0.0) {
        p[0] = available;  // R + S <= 1: nobody recomputes what he holds
        require_ge(b, constant_term(1.0), available);
    } else if (single) {
        p[0] = r;  // the frontier: it runs, and S[t,x] = 0
    } else if (is_zero(s)) {
        p[0] = r;
    } else if (is_zero(r)) {
        p[0] = s;
    } else {
        p[0] = column_term(ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false));
        require_ge(b, p[0], r);
        require_ge(b, p[0], s);
        require_ge(b, available, p[0]);
    }
    // After its users, or at once when it has none here, x lives on only into the next stage.
    p[k + 1] = next;
    for (int32_t i = 1; i <= k; i++) {
        int32_t user = tensor->users[i - 1];
        bool at_once = i == 1 && single;  // computed or held for a reason: present until its first user
        if (at_once) {
            p[i] = p[0];
        } else {
            p[i] = column_term(ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false));
        }
        require_ge(b, p[i], r_term(b, t, user));
        if (i == 1 && !at_once) {
            require_ge(b, p[0], p[1]);
            require_ge(b, available, p[1]);
            require_ge(b, p[1], s);
        } else if (i > 1) {
            require_ge(b, p[i - 1], p[i]);
            require_difference_le(b, p[i - 1], p[i], r_term(b, t, tensor->users[i - 2]));
        }
    }
    if (k > 0) {
        require_ge(b, p[k], next);
        require_difference_le(b, p[k], next, r_term(b, t, tensor->users[k - 1]));
    } else {
        require_ge(b, available, next);
    }
}

// Presence of x when operator v runs: held before its producer, then as presence[x] says.
static term presence_at(const builder *b, int32_t x, int32_t v)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    if (tensor->producer > v) {
        return s_term(b, b->t, x);
    }
    if (tensor->producer == v) {
        return b->presence[x][0];
    }
    return b->presence[x][b->cursor[x] + 1];
}

// Presence of x once operator v has run, before anything else does.
static term presence_after(const builder *b, int32_t x, int32_t v)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    int32_t i = b->cursor[x];
    if (i < tensor->n_users && tensor->users[i] == v) {
        return b->presence[x][i + 2];
    }
    return presence_at(b, x, v);
}

// Presence of a storage with several tensors: the maximum over them. A column is made only when the members'
// terms changed since the last operator.
static term group_presence(builder *b, int32_t storage, int32_t v)
{
    bool changed = false;
    int32_t nonzero = 0;
    term only = constant_term(0.0);
    int64_t at = b->group_at[storage];
    for (int32_t x = b->group_head[storage]; x >= 0; x = b->group_next[x], at++) {
        term now = presence_at(b, x, v);
        changed = changed || !same_term(now, b->group_key[at]);
        b->group_key[at] = now;
        if (!is_zero(now)) {
            nonzero++;
            only = now;
        }
    }
    if (!changed) {
        return b->group_term[storage];
    }
    term result = only;
    if (nonzero > 1) {
        result = column_term(ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false));
        for (int32_t x = b->group_head[storage]; x >= 0; x = b->group_next[x]) {
            require_ge(b, result, presence_at(b, x, v));
        }
    }
    b->group_term[storage] = result;
    return result;
}

// The in-place pairs of operator v in this stage: column I <= R, and I <= 1 - presence of whatever forbids
// it. Fills cols with their columns, -1 where a pair can never be used.
static void add_inplace(builder *b, int32_t v, int32_t *cols)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t p = 0; p < op->n_inplace; p++) {
        int32_t in = op->inplace[p][0];
        int32_t out = op->inplace[p][1];
        const ckm_i_dataflow_tensor *from = &df->tensors[in];
        const ckm_i_dataflow_tensor *to = &df->tensors[out];
        cols[p] = -1;
        bool possible = !from->pinned && !to->pinned && to->alias_of < 0 && to->bytes > 0 &&
                        to->bytes <= df->tensors[from->storage].bytes && r_at(b, b->t, v) != CKM_I_ILP_ZERO;
        for (int32_t i = 0; possible && i < op->n_outputs; i++) {
            possible = df->tensors[op->outputs[i]].storage != from->storage;
        }
        for (int32_t q = 0; possible && q < p; q++) {
            possible = op->inplace[q][0] != in || op->inplace[q][1] != out;
        }
        if (!possible) {
            continue;
        }
        int32_t col = ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false);
        term use = column_term(col);
        cols[p] = col;
        require_ge(b, r_term(b, b->t, v), use);
        for (int32_t x = b->group_head[from->storage]; x >= 0; x = b->group_next[x]) {
            require_sum_le_one(b, use, x == in ? presence_after(b, x, v) : presence_at(b, x, v));
        }
        for (int32_t x = b->group_head[out]; x >= 0; x = b->group_next[x]) {
            require_sum_le_one(b, use, s_term(b, b->t, x));  // before v runs, `out` and its views can only be held
        }
    }
    // Each input and each output in at most one pair.
    for (int32_t p = 0; p < op->n_inplace; p++) {
        for (int side = 0; side < 2; side++) {
            bool first = cols[p] >= 0;
            int32_t n = 0;
            for (int32_t q = 0; q < op->n_inplace; q++) {
                bool shared = cols[q] >= 0 && op->inplace[q][side] == op->inplace[p][side];
                first = first && !(shared && q < p);
                n += shared;
            }
            if (!first || n < 2) {
                continue;
            }
            ckm_i_milp_add_row(b->m, -INFINITY, 1.0);
            for (int32_t q = p; q < op->n_inplace; q++) {
                if (cols[q] >= 0 && op->inplace[q][side] == op->inplace[p][side]) {
                    ckm_i_milp_put(b->m, cols[q], 1.0);
                }
            }
        }
    }
}

// Memory while operator v runs in this stage is within the budget (paper, equation 6 and 7).
static void add_memory_row(builder *b, int32_t v, const int32_t *inplace_cols)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int64_t first_entry = b->m->n_entries;
    int32_t row = -1;
    double most = 0.0;
    // Columns for storages with several tensors come first: a row must be contiguous.
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].alias_of < 0 && !df->tensors[x].pinned && b->group_next[x] >= 0) {
            group_presence(b, x, v);
        }
    }
    first_entry = b->m->n_entries;
    row = ckm_i_milp_add_row(b->m, -INFINITY, 0.0);
    double moved = 0.0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (tensor->alias_of >= 0 || tensor->pinned || tensor->bytes == 0) {
            continue;
        }
        term here = b->group_next[x] >= 0 ? b->group_term[x] : presence_at(b, x, v);
        double weight = (double)(tensor->bytes / b->unit_bytes) / b->row_scale;
        put_term(b, here, weight, &moved);
        most += is_zero(here) ? 0.0 : weight;
    }
    double workspace = (double)(op->workspace_bytes / b->unit_bytes) / b->row_scale;
    if (workspace > 0.0) {
        put_term(b, r_term(b, b->t, v), workspace, &moved);
        most += workspace;
    }
    for (int32_t p = 0; p < op->n_inplace; p++) {
        if (inplace_cols[p] >= 0) {
            double weight = (double)(df->tensors[op->inplace[p][1]].bytes / b->unit_bytes) / b->row_scale;
            ckm_i_milp_put(b->m, inplace_cols[p], -weight);
        }
    }
    if (b->m->failed) {
        return;
    }
    if (most <= b->budget) {  // can never be violated
        b->m->n_rows--;
        b->m->n_entries = first_entry;
        return;
    }
    b->m->row_upper[row] = b->budget - moved;
}

static void reset_groups(builder *b)
{
    for (int32_t x = 0; x < b->df->n_tensors; x++) {
        b->group_term[x] = constant_term(0.0);
        b->cursor[x] = 0;
    }
    for (int32_t i = 0; i < b->df->n_tensors; i++) {
        b->group_key[i] = constant_term(0.0);
    }
}

static void add_stage(builder *b, int32_t t, int32_t *inplace_cols)
{
    const ckm_dataflow *df = b->df;
    b->t = t;
    b->n_stage_ops = b->ilp->formulation == CKM_FORMULATION_FRONTIER ? t + 1 : df->n_ops;
    reset_groups(b);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (!df->tensors[x].pinned && df->tensors[x].producer >= 0 && df->tensors[x].producer < b->n_stage_ops) {
            add_presence(b, x);
        } else {
            b->presence[x][0] = b->presence[x][1] = constant_term(0.0);
        }
    }
    for (int32_t v = 0; v < b->n_stage_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        if (r_at(b, t, v) != CKM_I_ILP_ZERO) {
            add_inplace(b, v, inplace_cols);
            add_memory_row(b, v, inplace_cols);
        }
        int32_t previous = -1;
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t x = op->inputs[i];
            if (b->cursor[x] < df->tensors[x].n_users && df->tensors[x].users[b->cursor[x]] == v && x != previous) {
                b->cursor[x]++;
                previous = x;
            }
        }
    }
}

// The unpartitioned form (paper, appendix A) lets any operator run in any stage; each at least once, and a
// non-recomputable one exactly once.
static void add_completeness(builder *b)
{
    const ckm_dataflow *df = b->df;
    for (int32_t v = 0; v < df->n_ops; v++) {
        ckm_i_milp_add_row(b->m, 1.0, df->ops[v].recomputable ? INFINITY : 1.0);
        for (int32_t t = 0; t < df->n_ops; t++) {
            ckm_i_milp_put(b->m, r_at(b, t, v), 1.0);
        }
    }
}

// A view of a graph's input is always in memory but exists only once its producer has run. Where first
// computations follow the order that goes without saying; in the unpartitioned form it is a row.
static void add_pinned_dependencies(builder *b)
{
    const ckm_dataflow *df = b->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        for (int32_t i = 0; tensor->pinned && tensor->producer >= 0 && i < tensor->n_users; i++) {
            for (int32_t t = 0; t < df->n_ops; t++) {
                ckm_i_milp_add_row(b->m, 0.0, INFINITY);
                for (int32_t earlier = 0; earlier <= t; earlier++) {
                    ckm_i_milp_put(b->m, r_at(b, earlier, tensor->producer), 1.0);
                }
                ckm_i_milp_put(b->m, r_at(b, t, tensor->users[i]), -1.0);
            }
        }
    }
}

static void find_last_need(const ckm_dataflow *df, int32_t *last_need)
{
    for (int32_t v = df->n_ops - 1; v >= 0; v--) {
        last_need[v] = v;
        for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
            const ckm_i_dataflow_tensor *x = &df->tensors[df->ops[v].outputs[i]];
            if (x->is_result) {
                last_need[v] = df->n_ops;
            }
            for (int32_t u = 0; u < x->n_users; u++) {
                int32_t need = last_need[x->users[u]];
                last_need[v] = need > last_need[v] ? need : last_need[v];
            }
        }
    }
}

static void set_scales(builder *b, int64_t budget_bytes)
{
    const ckm_dataflow *df = b->df;
    int64_t cost_gcd = 0;
    int64_t bytes_gcd = 0;
    int64_t largest = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        cost_gcd = gcd64(df->ops[v].cost, cost_gcd);
        bytes_gcd = gcd64(df->ops[v].workspace_bytes, bytes_gcd);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].alias_of < 0 && !df->tensors[x].pinned) {
            bytes_gcd = gcd64(df->tensors[x].bytes, bytes_gcd);
            largest = df->tensors[x].bytes > largest ? df->tensors[x].bytes : largest;
        }
    }
    b->ilp->cost_gcd = cost_gcd > 0 ? cost_gcd : 1;
    b->unit_bytes = bytes_gcd > 0 ? bytes_gcd : 1;
    // Costs that are small integers stay integers: the engine then rounds bounds up by itself.
    double total = (double)(df->total_cost / b->ilp->cost_gcd);
    b->ilp->cost_scale = (double)b->ilp->cost_gcd * (total > 1e7 ? total / 1e7 : 1.0);
    double largest_units = (double)(largest / b->unit_bytes);
    b->row_scale = largest_units > 1e4 ? largest_units / 1e4 : 1.0;
    int64_t room = (budget_bytes - df->resident_bytes) / b->unit_bytes;
    b->budget = (double)room / b->row_scale;
}

static bool index_groups(builder *b)
{
    const ckm_dataflow *df = b->df;
    size_t n = (size_t)df->n_tensors;
    b->group_head = ckm_i_malloc(n, sizeof *b->group_head);
    b->group_next = ckm_i_malloc(n, sizeof *b->group_next);
    b->group_term = ckm_i_malloc(n, sizeof *b->group_term);
    b->group_key = ckm_i_malloc(n, sizeof *b->group_key);
    b->group_at = ckm_i_malloc(n, sizeof *b->group_at);
    b->cursor = ckm_i_calloc(n, sizeof *b->cursor);
    b->presence = ckm_i_malloc(n, sizeof *b->presence);
    size_t terms = 0;
    for (size_t x = 0; x < n; x++) {
        terms += (size_t)df->tensors[x].n_users + 3;
    }
    b->pool = ckm_i_malloc(terms, sizeof *b->pool);
    if (b->group_head == NULL || b->group_next == NULL || b->group_term == NULL || b->group_key == NULL ||
        b->group_at == NULL || b->cursor == NULL || b->presence == NULL || b->pool == NULL) {
        return false;
    }
    term *at = b->pool;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b->group_head[x] = df->tensors[x].alias_of < 0 ? x : -1;
        b->group_next[x] = -1;
        b->presence[x] = at;
        at += df->tensors[x].n_users + 3;
    }
    for (int32_t x = df->n_tensors - 1; x >= 0; x--) {
        int32_t owner = df->tensors[x].alias_of;
        if (owner >= 0) {
            b->group_next[x] = b->group_next[owner];
            b->group_next[owner] = x;
        }
    }
    int64_t keys = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b->group_at[x] = keys;
        for (int32_t y = b->group_head[x]; y >= 0; y = b->group_next[y]) {
            keys++;
        }
    }
    return true;
}

static void free_builder(builder *b)
{
    free(b->group_head);
    free(b->group_next);
    free(b->group_term);
    free(b->group_key);
    free(b->group_at);
    free(b->cursor);
    free(b->presence);
    free(b->pool);
}

ckm_status ckm_i_ilp_build(const ckm_dataflow *df, int64_t budget_bytes, ckm_formulation formulation,
                           int64_t max_entries, ckm_i_ilp **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)df->n_ops;
    int32_t *last_need = NULL;
    int32_t *inplace_cols = NULL;
    int32_t max_pairs = 0;
    builder b = {.df = df, .max_entries = max_entries};
    ckm_i_ilp *ilp = ckm_i_calloc(1, sizeof *ilp);
    if (ilp == NULL) {
        return ckm_i_error_memory(err);
    }
    ilp->df = df;
    ilp->formulation = formulation;
    ckm_i_milp_init(&ilp->milp);
    for (int32_t v = 0; v < df->n_ops; v++) {
        max_pairs = df->ops[v].n_inplace > max_pairs ? df->ops[v].n_inplace : max_pairs;
    }
    ilp->r_col = ckm_i_malloc(n * n, sizeof *ilp->r_col);
    ilp->s_col = ckm_i_malloc((n + 1) * (size_t)df->n_tensors, sizeof *ilp->s_col);
    last_need = ckm_i_malloc(n, sizeof *last_need);
    inplace_cols = ckm_i_malloc((size_t)max_pairs, sizeof *inplace_cols);
    b.ilp = ilp;
    b.m = &ilp->milp;
    if (ilp->r_col == NULL || ilp->s_col == NULL || last_need == NULL || inplace_cols == NULL || !index_groups(&b)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    find_last_need(df, last_need);
    set_scales(&b, budget_bytes);
    add_columns(&b, last_need);
    for (int32_t t = 0; t < df->n_ops; t++) {
        add_stage(&b, t, inplace_cols);
        if (ilp->milp.n_entries > max_entries) {
            status = ckm_i_error(err, CKM_ERR_UNSUPPORTED, "the integer program has more than %lld entries",
                                 (long long)max_entries);
            goto cleanup;
        }
    }
    if (formulation == CKM_FORMULATION_UNPARTITIONED) {
        add_completeness(&b);
        add_pinned_dependencies(&b);
    }
    CKM_I_TRY(ckm_i_milp_check(&ilp->milp, err));
    // The frontier's own computations are constants: they are part of the cost, not of the objective.
    *out = ilp;
    ilp = NULL;
cleanup:
    free(last_need);
    free(inplace_cols);
    free_builder(&b);
    ckm_i_ilp_free(ilp);
    return status;
}

void ckm_i_ilp_free(ckm_i_ilp *ilp)
{
    if (ilp != NULL) {
        ckm_i_milp_dispose(&ilp->milp);
        free(ilp->r_col);
        free(ilp->s_col);
        free(ilp);
    }
}

void ckm_i_ilp_start(const ckm_i_ilp *ilp, const ckm_i_stages *stages, double *x)
{
    memset(x, 0, (size_t)ilp->milp.n_cols * sizeof *x);
    int32_t n = stages->n_ops;
    for (int32_t t = 0; t < n; t++) {
        for (int32_t v = 0; v < n; v++) {
            int32_t col = ilp->r_col[(int64_t)t * n + v];
            if (col >= 0) {
                x[col] = ckm_i_bits_get(ckm_i_stages_r(stages, t), v) ? 1.0 : 0.0;
            }
        }
    }
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t i = 0; i < stages->n_tensors; i++) {
            int32_t col = ilp->s_col[(int64_t)t * stages->n_tensors + i];
            if (col >= 0) {
                x[col] = ckm_i_bits_get(ckm_i_stages_s(stages, t), i) ? 1.0 : 0.0;
            }
        }
    }
}

void ckm_i_ilp_take(const ckm_i_ilp *ilp, const double *x, double threshold, ckm_i_stages *stages)
{
    int32_t n = stages->n_ops;
    memset(stages->s, 0, ((size_t)n + 1) * stages->s_words * sizeof *stages->s);
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t i = 0; i < stages->n_tensors; i++) {
            int32_t col = ilp->s_col[(int64_t)t * stages->n_tensors + i];
            if (col >= 0 && x[col] >= threshold) {
                ckm_i_bits_set(ckm_i_stages_s(stages, t), i);
            }
        }
    }
}

double ckm_i_ilp_cost_bound(const ckm_i_ilp *ilp, double objective_bound)
{
    double constant = ilp->formulation == CKM_FORMULATION_FRONTIER ? (double)ilp->df->total_cost : 0.0;
    return ckm_i_cost_round_up(constant + objective_bound * ilp->cost_scale, ilp->cost_gcd);
}
