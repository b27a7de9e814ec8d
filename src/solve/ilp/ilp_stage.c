// SPDX-License-Identifier: Apache-2.0
// One stage of the integer program. Notation: stage t, operator v, tensor x with producer v and users
// u_1 < u_2 < ... ; "presence" is 1 while x is in memory.
#include <string.h>

#include "solve/ilp/ilp_builder.h"

// Affine expressions and the rows made of them.
ckm_i_ilp_term ckm_i_ilp_constant(double value)
{
    return (ckm_i_ilp_term){.constant = value, .col = {-1, -1, -1}};
}

ckm_i_ilp_term ckm_i_ilp_column(int32_t col)
{
    if (col == CKM_I_ILP_ZERO) {
        return ckm_i_ilp_constant(0.0);
    }
    if (col == CKM_I_ILP_ONE) {
        return ckm_i_ilp_constant(1.0);
    }
    return (ckm_i_ilp_term){.constant = 0.0, .col = {col, -1, -1}};
}

ckm_i_ilp_term ckm_i_ilp_fresh(ckm_i_ilp_builder *b, double lower)
{
    return ckm_i_ilp_column(ckm_i_milp_add_col(b->m, 0.0, lower, 1.0, false));
}

ckm_i_ilp_term ckm_i_ilp_sum(ckm_i_ilp_term a, ckm_i_ilp_term b)
{
    ckm_i_ilp_term sum = {.constant = a.constant + b.constant, .col = {-1, -1, -1}};
    int n = 0;
    for (int i = 0; i < CKM_I_ILP_TERM_COLS && a.col[i] >= 0; i++) {
        sum.col[n++] = a.col[i];
    }
    for (int i = 0; i < CKM_I_ILP_TERM_COLS && b.col[i] >= 0 && n < CKM_I_ILP_TERM_COLS; i++) {
        sum.col[n++] = b.col[i];
    }
    return sum;
}

bool ckm_i_ilp_same(ckm_i_ilp_term a, ckm_i_ilp_term b)
{
    return a.constant == b.constant && memcmp(a.col, b.col, sizeof a.col) == 0;
}

bool ckm_i_ilp_is_zero(ckm_i_ilp_term a)
{
    return a.constant == 0.0 && a.col[0] < 0;
}

void ckm_i_ilp_put(ckm_i_ilp_builder *b, ckm_i_ilp_term a, double factor, double *moved)
{
    *moved += a.constant * factor;
    for (int i = 0; i < CKM_I_ILP_TERM_COLS && a.col[i] >= 0; i++) {
        ckm_i_milp_put(b->m, a.col[i], factor);
    }
}

// Row a - b >= 0, unless it holds anyway.
void ckm_i_ilp_require_ge(ckm_i_ilp_builder *b, ckm_i_ilp_term a, ckm_i_ilp_term c)
{
    bool one = a.constant >= 1.0 && a.col[0] < 0;
    bool trivially = ckm_i_ilp_is_zero(c) || ckm_i_ilp_same(a, c) ||
                     (one && c.col[1] < 0 && (c.constant == 0.0 || c.col[0] < 0));
    if (trivially) {
        return;
    }
    int32_t row = ckm_i_milp_add_row(b->m, 0.0, INFINITY);
    double moved = 0.0;
    ckm_i_ilp_put(b, a, 1.0, &moved);
    ckm_i_ilp_put(b, c, -1.0, &moved);
    if (!b->m->failed) {
        b->m->row_lower[row] = -moved;
    }
}

// Row a - c <= d.
void ckm_i_ilp_require_difference_le(ckm_i_ilp_builder *b, ckm_i_ilp_term a, ckm_i_ilp_term c, ckm_i_ilp_term d)
{
    if (ckm_i_ilp_same(a, c)) {
        return;  // d >= 0
    }
    int32_t row = ckm_i_milp_add_row(b->m, -INFINITY, 0.0);
    double moved = 0.0;
    ckm_i_ilp_put(b, a, 1.0, &moved);
    ckm_i_ilp_put(b, c, -1.0, &moved);
    ckm_i_ilp_put(b, d, -1.0, &moved);
    if (!b->m->failed) {
        b->m->row_upper[row] = -moved;
    }
}

// Row a + c <= 1.
void ckm_i_ilp_require_sum_le_one(ckm_i_ilp_builder *b, ckm_i_ilp_term a, ckm_i_ilp_term c)
{
    ckm_i_ilp_require_ge(b, ckm_i_ilp_constant(1.0), ckm_i_ilp_sum(a, c));
}

int32_t ckm_i_ilp_r_at(const ckm_i_ilp_builder *b, int32_t t, int32_t v)
{
    return b->ilp->r_col[(int64_t)t * b->df->n_ops + v];
}

static int32_t s_at(const ckm_i_ilp_builder *b, int32_t t, int32_t x)
{
    return b->ilp->s_col[(int64_t)t * b->df->n_tensors + x];
}

ckm_i_ilp_term ckm_i_ilp_r(const ckm_i_ilp_builder *b, int32_t t, int32_t v)
{
    return ckm_i_ilp_column(ckm_i_ilp_r_at(b, t, v));
}

ckm_i_ilp_term ckm_i_ilp_s(const ckm_i_ilp_builder *b, int32_t t, int32_t x)
{
    return ckm_i_ilp_column(s_at(b, t, x));
}

// Users of x that may run in the current stage.
static int32_t users_in_stage(const ckm_i_ilp_builder *b, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    int32_t k = 0;
    while (k < tensor->n_users && tensor->users[k] < b->n_stage_ops) {
        k++;
    }
    return k;
}

// Presence of x at its producer and its users in stage t, and the rows between them. Fills presence[x].
static void add_presence(ckm_i_ilp_builder *b, int32_t x)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    int32_t t = b->t;
    int32_t v = tensor->producer;
    int32_t k = users_in_stage(b, x);
    bool single = df->ops[v].n_outputs == 1;
    bool runs = v < b->n_stage_ops;
    ckm_i_ilp_term s = ckm_i_ilp_s(b, t, x);
    ckm_i_ilp_term r = runs ? ckm_i_ilp_r(b, t, v) : ckm_i_ilp_constant(0.0);
    ckm_i_ilp_term next = ckm_i_ilp_s(b, t + 1, x);
    ckm_i_ilp_term *p = b->presence[x];
    ckm_i_ilp_term available = ckm_i_ilp_sum(s, r);
    if (single && r.constant == 0.0) {
        p[0] = available;  // R + S <= 1: what is held is not recomputed
        ckm_i_ilp_require_ge(b, ckm_i_ilp_constant(1.0), available);
    } else if (single) {
        p[0] = r;  // the frontier: it runs, and S[t,x] = 0
    } else if (ckm_i_ilp_is_zero(s)) {
        p[0] = r;
    } else if (ckm_i_ilp_is_zero(r)) {
        p[0] = s;
    } else {
        p[0] = ckm_i_ilp_fresh(b, 0.0);
        ckm_i_ilp_require_ge(b, p[0], r);
        ckm_i_ilp_require_ge(b, p[0], s);
        ckm_i_ilp_require_ge(b, available, p[0]);
    }
    // After its users, or at once when it has none here, x lives on only into the next stage.
    p[k + 1] = next;
    ckm_i_ilp_term one = ckm_i_ilp_constant(1.0);
    int32_t certain = 0;  // present at its users up to this one
    for (int32_t i = 1; i <= k; i++) {
        certain = ckm_i_ilp_r_at(b, t, tensor->users[i - 1]) == CKM_I_ILP_ONE ? i : certain;
    }
    certain = ckm_i_ilp_same(next, one) ? k : certain;
    for (int32_t i = 1; i <= k; i++) {
        int32_t user = tensor->users[i - 1];
        // Computed or held for a reason: present until its first user. Of several outputs, one may be of no use.
        bool at_once = i == 1 && (single || ckm_i_ilp_is_zero(r));
        bool dropped = i > 1 && ckm_i_ilp_r_at(b, t, tensor->users[i - 2]) != CKM_I_ILP_ZERO;
        if (i <= certain) {
            p[i] = one;
            if (i == 1) {
                ckm_i_ilp_require_ge(b, available, one);
                ckm_i_ilp_require_ge(b, p[0], one);
            }
            continue;
        }
        if (at_once) {
            p[i] = p[0];
        } else if (i > 1 && !dropped) {
            p[i] = p[i - 1];
        } else {
            p[i] = ckm_i_ilp_fresh(b, 0.0);
        }
        ckm_i_ilp_require_ge(b, p[i], ckm_i_ilp_r(b, t, user));
        if (i == 1 && !at_once) {
            ckm_i_ilp_require_ge(b, p[0], p[1]);
            ckm_i_ilp_require_ge(b, available, p[1]);
            ckm_i_ilp_require_ge(b, p[1], s);
        } else if (dropped) {
            ckm_i_ilp_require_ge(b, p[i - 1], p[i]);
            ckm_i_ilp_require_difference_le(b, p[i - 1], p[i], ckm_i_ilp_r(b, t, tensor->users[i - 2]));
        }
    }
    if (k > 0) {
        ckm_i_ilp_require_ge(b, p[k], next);
        ckm_i_ilp_require_difference_le(b, p[k], next, ckm_i_ilp_r(b, t, tensor->users[k - 1]));
    } else {
        ckm_i_ilp_require_ge(b, available, next);
    }
}

// The same as the paper writes it (equations 4 to 7): one FREE per use, bounded use by use. Integer solutions
// agree with those of add_presence; the relaxation is weaker.
static void add_presence_paper(ckm_i_ilp_builder *b, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    int32_t t = b->t;
    int32_t k = users_in_stage(b, x);
    ckm_i_ilp_term one = ckm_i_ilp_constant(1.0);
    ckm_i_ilp_term r = ckm_i_ilp_r(b, t, tensor->producer);
    ckm_i_ilp_term available = ckm_i_ilp_sum(ckm_i_ilp_s(b, t, x), r);
    ckm_i_ilp_term next = ckm_i_ilp_s(b, t + 1, x);
    ckm_i_ilp_term *p = b->presence[x];
    if (r.constant == 0.0) {
        ckm_i_ilp_require_ge(b, one, available);
    }
    ckm_i_ilp_require_ge(b, available, next);
    p[0] = r.constant == 0.0 ? available : r;
    for (int32_t i = 0; i <= k; i++) {
        // FREE[t,x,i]: x is freed after its producer (i = 0) or its i-th user; p[i+1] is what is left of it.
        ckm_i_ilp_term runs = i == 0 ? r : ckm_i_ilp_r(b, t, tensor->users[i - 1]);
        ckm_i_ilp_term free_now = ckm_i_ilp_fresh(b, 0.0);
        ckm_i_ilp_require_ge(b, runs, free_now);
        ckm_i_ilp_require_sum_le_one(b, free_now, next);
        for (int32_t j = i; j < k; j++) {
            ckm_i_ilp_require_sum_le_one(b, free_now, ckm_i_ilp_r(b, t, tensor->users[j]));
        }
        if (i < k) {
            ckm_i_ilp_require_ge(b, available, ckm_i_ilp_r(b, t, tensor->users[i]));
        }
        p[i + 1] = ckm_i_ilp_fresh(b, 0.0);
        ckm_i_ilp_require_difference_le(b, p[i], p[i + 1], free_now);
    }
}

// Presence of x when operator v runs: held before its producer, then as presence[x] says.
static ckm_i_ilp_term presence_at(const ckm_i_ilp_builder *b, int32_t x, int32_t v)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    if (tensor->producer > v) {
        return ckm_i_ilp_s(b, b->t, x);
    }
    if (tensor->producer == v) {
        return b->presence[x][0];
    }
    return b->presence[x][b->cursor[x] + 1];
}

// Presence of x once operator v has run, before anything else does.
static ckm_i_ilp_term presence_after(const ckm_i_ilp_builder *b, int32_t x, int32_t v)
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
static ckm_i_ilp_term group_presence(ckm_i_ilp_builder *b, int32_t storage, int32_t v)
{
    bool changed = false;
    int32_t nonzero = 0;
    bool certain = false;
    ckm_i_ilp_term only = ckm_i_ilp_constant(0.0);
    int64_t at = b->group_at[storage];
    for (int32_t x = b->group_head[storage]; x >= 0; x = b->group_next[x], at++) {
        ckm_i_ilp_term now = presence_at(b, x, v);
        changed = changed || !ckm_i_ilp_same(now, b->group_key[at]);
        b->group_key[at] = now;
        if (!ckm_i_ilp_is_zero(now)) {
            nonzero++;
            only = certain ? only : now;
            certain = certain || (now.constant >= 1.0 && now.col[0] < 0);
        }
    }
    if (!changed) {
        return b->group_term[storage];
    }
    ckm_i_ilp_term result = only;
    if (nonzero > 1 && !certain) {
        result = ckm_i_ilp_fresh(b, 0.0);
        for (int32_t x = b->group_head[storage]; x >= 0; x = b->group_next[x]) {
            ckm_i_ilp_require_ge(b, result, presence_at(b, x, v));
        }
    }
    b->group_term[storage] = result;
    return result;
}

// Presence of x just before operator v runs, where v may make it: only then can it be held from before. A view of what v
// makes may come from an earlier operator and be gone by now.
static ckm_i_ilp_term presence_before(const ckm_i_ilp_builder *b, int32_t x, int32_t v)
{
    return b->df->tensors[x].producer >= v ? ckm_i_ilp_s(b, b->t, x) : presence_at(b, x, v);
}

// The in-place pairs of operator v in this stage: column I <= R, and I <= 1 - presence of whatever forbids
// it. Fills b->inplace_cols with their columns, or constants where a pair can never or always be used.
static void add_inplace(ckm_i_ilp_builder *b, int32_t v)
{
    int32_t *cols = b->inplace_cols;
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t p = 0; p < op->n_inplace; p++) {
        int32_t in = op->inplace[p][0];
        int32_t out = op->inplace[p][1];
        const ckm_i_dataflow_tensor *from = &df->tensors[in];
        const ckm_i_dataflow_tensor *to = &df->tensors[out];
        cols[p] = CKM_I_ILP_ZERO;
        bool possible = !from->pinned && !to->pinned && to->alias_of < 0 && to->bytes > 0 &&
                        to->bytes <= df->tensors[from->storage].bytes && ckm_i_ilp_r_at(b, b->t, v) != CKM_I_ILP_ZERO;
        for (int32_t i = 0; possible && i < op->n_outputs; i++) {
            possible = df->tensors[op->outputs[i]].storage != from->storage;
        }
        for (int32_t q = 0; possible && q < p; q++) {
            possible = op->inplace[q][0] != in || op->inplace[q][1] != out;
        }
        // What is known beforehand: something is in the way, or nothing is.
        bool free_of_doubt = ckm_i_ilp_r_at(b, b->t, v) == CKM_I_ILP_ONE && op->n_inplace == 1;
        for (int32_t x = b->group_head[from->storage]; x >= 0 && possible; x = b->group_next[x]) {
            ckm_i_ilp_term here = x == in ? presence_after(b, x, v) : presence_at(b, x, v);
            possible = !(here.constant >= 1.0 && here.col[0] < 0);
            free_of_doubt = free_of_doubt && ckm_i_ilp_is_zero(here);
        }
        for (int32_t x = b->group_head[out]; x >= 0 && possible; x = b->group_next[x]) {
            ckm_i_ilp_term here = presence_before(b, x, v);
            possible = !(here.constant >= 1.0 && here.col[0] < 0);
            free_of_doubt = free_of_doubt && ckm_i_ilp_is_zero(here);
        }
        if (!possible) {
            continue;
        }
        if (free_of_doubt) {
            cols[p] = CKM_I_ILP_ONE;
            continue;
        }
        int32_t col = ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false);
        ckm_i_ilp_term use = ckm_i_ilp_column(col);
        cols[p] = col;
        ckm_i_ilp_require_ge(b, ckm_i_ilp_r(b, b->t, v), use);
        for (int32_t x = b->group_head[from->storage]; x >= 0; x = b->group_next[x]) {
            ckm_i_ilp_require_sum_le_one(b, use, x == in ? presence_after(b, x, v) : presence_at(b, x, v));
        }
        for (int32_t x = b->group_head[out]; x >= 0; x = b->group_next[x]) {
            ckm_i_ilp_require_sum_le_one(b, use, presence_before(b, x, v));
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
static void add_memory_row(ckm_i_ilp_builder *b, int32_t v)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    double most = 0.0;
    // Columns for storages with several tensors come first: a row must be contiguous.
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].alias_of < 0 && !df->tensors[x].pinned && b->group_next[x] >= 0) {
            group_presence(b, x, v);
        }
    }
    int64_t first_entry = b->m->n_entries;
    int32_t row = ckm_i_milp_add_row(b->m, -INFINITY, 0.0);
    double moved = 0.0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (tensor->alias_of >= 0 || tensor->pinned || tensor->bytes == 0) {
            continue;
        }
        ckm_i_ilp_term here = b->group_next[x] >= 0 ? b->group_term[x] : presence_at(b, x, v);
        double weight = (double)(tensor->bytes / b->unit_bytes) / b->row_scale;
        ckm_i_ilp_put(b, here, weight, &moved);
        most += ckm_i_ilp_is_zero(here) ? 0.0 : weight;
    }
    double workspace = (double)(op->workspace_bytes / b->unit_bytes) / b->row_scale;
    if (workspace > 0.0) {
        ckm_i_ilp_put(b, ckm_i_ilp_r(b, b->t, v), workspace, &moved);
        most += workspace;
    }
    for (int32_t p = 0; p < op->n_inplace; p++) {
        double weight = (double)(df->tensors[op->inplace[p][1]].bytes / b->unit_bytes) / b->row_scale;
        ckm_i_ilp_put(b, ckm_i_ilp_column(b->inplace_cols[p]), -weight, &moved);
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

void ckm_i_ilp_add_stage(ckm_i_ilp_builder *b, int32_t t)
{
    const ckm_dataflow *df = b->df;
    b->t = t;
    b->n_stage_ops = b->ilp->formulation == CKM_FORMULATION_UNPARTITIONED ? df->n_ops : t + 1;
    memset(b->cursor, 0, (size_t)df->n_tensors * sizeof *b->cursor);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (!df->tensors[x].pinned && df->tensors[x].producer >= 0 && df->tensors[x].producer < b->n_stage_ops) {
            bool paper = b->ilp->formulation == CKM_FORMULATION_PAPER &&
                         df->ops[df->tensors[x].producer].n_outputs == 1;
            (paper ? add_presence_paper : add_presence)(b, x);
        } else {
            b->presence[x][0] = b->presence[x][1] = ckm_i_ilp_constant(0.0);
        }
    }
    for (int32_t v = 0; v < b->n_stage_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        if (ckm_i_ilp_r_at(b, t, v) != CKM_I_ILP_ZERO) {
            add_inplace(b, v);
            add_memory_row(b, v);
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
