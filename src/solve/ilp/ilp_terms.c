// SPDX-License-Identifier: Apache-2.0
// Affine expressions and the rows made of them.
#include <string.h>

#include "solve/ilp/ilp_builder.h"

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
