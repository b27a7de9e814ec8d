// SPDX-License-Identifier: Apache-2.0
// The parts the integer program is put together from: affine expressions in a few columns, rows over them, and
// the state of the builder. For ilp_*.c and search/neighbourhood_model.c.
#ifndef CKM_SRC_SOLVE_ILP_ILP_BUILDER_H
#define CKM_SRC_SOLVE_ILP_ILP_BUILDER_H

#include "solve/ilp/ilp.h"

// An affine expression: constant + sum of at most three columns, those that are not -1, packed to the front.
#define CKM_I_ILP_TERM_COLS 3
typedef struct ckm_i_ilp_term {
    double constant;
    int32_t col[CKM_I_ILP_TERM_COLS];
} ckm_i_ilp_term;

typedef struct ckm_i_ilp_builder {
    ckm_i_ilp *ilp;
    const ckm_dataflow *df;
    ckm_i_milp *m;
    int32_t t;                  // current stage
    int32_t n_stage_ops;        // operators 0..n_stage_ops-1 may run in it
    int64_t unit_bytes;         // gcd of all sizes
    double row_scale, budget;   // of memory rows, in units
    ckm_i_ilp_term **presence;  // per tensor: [0] at its producer, [i] at its i-th user, last: after all
    ckm_i_ilp_term *pool;
    int32_t *cursor;                   // per tensor: index into presence[x] for the operator at hand
    int32_t *group_head, *group_next;  // tensors on one storage, for storages with several
    ckm_i_ilp_term *group_term;        // per storage: its presence, and the members it was made of
    ckm_i_ilp_term *group_key;
    int64_t *group_at;      // per storage: where its keys start
    int32_t *inplace_cols;  // of an operator's pairs: columns or constants
} ckm_i_ilp_builder;

// An empty program with its scales. The caller sets r_col and s_col, adds stages (and whatever rows of his own) and
// closes the builder; the program, b->ilp, is his from then on.
ckm_status ckm_i_ilp_open(const ckm_dataflow *df, int64_t budget_bytes, ckm_formulation formulation,
                          ckm_i_ilp_builder *b, ckm_error *err) CKM_NODISCARD;
void ckm_i_ilp_close(ckm_i_ilp_builder *b);

ckm_i_ilp_term ckm_i_ilp_constant(double value);
// A column, or the constant it stands for (CKM_I_ILP_ZERO, CKM_I_ILP_ONE).
ckm_i_ilp_term ckm_i_ilp_column(int32_t col);
// A new continuous column in [lower, 1].
ckm_i_ilp_term ckm_i_ilp_fresh(ckm_i_ilp_builder *b, double lower);
ckm_i_ilp_term ckm_i_ilp_sum(ckm_i_ilp_term a, ckm_i_ilp_term b);
bool ckm_i_ilp_same(ckm_i_ilp_term a, ckm_i_ilp_term b);
bool ckm_i_ilp_is_zero(ckm_i_ilp_term a);
// Adds factor * a to the last row; the constant part goes to *moved.
void ckm_i_ilp_put(ckm_i_ilp_builder *b, ckm_i_ilp_term a, double factor, double *moved);
// Rows a >= c, a - c <= d, a + c <= 1, unless they hold anyway.
void ckm_i_ilp_require_ge(ckm_i_ilp_builder *b, ckm_i_ilp_term a, ckm_i_ilp_term c);
void ckm_i_ilp_require_difference_le(ckm_i_ilp_builder *b, ckm_i_ilp_term a, ckm_i_ilp_term c, ckm_i_ilp_term d);
void ckm_i_ilp_require_sum_le_one(ckm_i_ilp_builder *b, ckm_i_ilp_term a, ckm_i_ilp_term c);
// R[t,v] and S[t,x].
int32_t ckm_i_ilp_r_at(const ckm_i_ilp_builder *b, int32_t t, int32_t v);
ckm_i_ilp_term ckm_i_ilp_r(const ckm_i_ilp_builder *b, int32_t t, int32_t v);
ckm_i_ilp_term ckm_i_ilp_s(const ckm_i_ilp_builder *b, int32_t t, int32_t x);

// All rows of stage t (ilp_stage.c).
void ckm_i_ilp_add_stage(ckm_i_ilp_builder *b, int32_t t);

#endif
