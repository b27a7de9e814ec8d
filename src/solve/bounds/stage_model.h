// SPDX-License-Identifier: Apache-2.0
// The stage relaxation: a linear program that every schedule satisfies which keeps the graph's first-execution
// order, recomputing any number of times anywhere. docs/FORMULATION.md derives it row by row.
#ifndef CKM_SRC_SOLVE_BOUNDS_STAGE_MODEL_H
#define CKM_SRC_SOLVE_BOUNDS_STAGE_MODEL_H

#include <math.h>

#include "dataflow/dataflow.h"
#include "milp/milp.h"

// A schedule is cut right after the first computations of the operators `cuts`. Window k is what happens from cut
// k to cut k + 1; the last one goes on to the end. Window -1 is what comes before the first cut.
//   s[k,x] = 1  x is live at cut k
//   r[k,v] = 1  v is computed in window k, beside its first computation if that is there
typedef struct ckm_i_stage_model {
    const ckm_dataflow *df;
    ckm_i_milp milp;
    int32_t n_cuts;
    int32_t *cuts;        // ascending operators
    int32_t *s_col;       // [k * n_tensors + x]: column, -1 where zero
    int32_t *r_col;       // [(k + 1) * n_ops + v]
    int32_t *need_start;  // per window: first of its needs; n_cuts + 1 entries
    int32_t *needs;       // tensors made by operators that first computations of the window, or the end, read
    int32_t *view_of;     // per tensor: the operand of its operator on whose storage it lies, -1: none
    int32_t *memory_row;  // per cut
    int32_t first_whole;  // rows that ckm_i_stage_add_whole has added
    int32_t n_whole;
    int64_t room_bytes;  // budget less what is always there
    double byte_scale;   // memory rows count in this many bytes
    double cost_scale;   // objective 1 is this much cost
    int64_t cost_gcd;
} ckm_i_stage_model;

// O(cuts * (operators + edges)) rows and columns.
ckm_status ckm_i_stage_model_build(const ckm_dataflow *df, int64_t budget_bytes, const int32_t *cuts, int32_t n_cuts,
                                   ckm_i_stage_model *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_stage_model_dispose(ckm_i_stage_model *model);

// Adds the row of memory at a cut, that right after the first computation of operator `cut`, and what it needs: what is live there and
// no operand or output of the operator fits beside its working set. `live` is the cut's row of s, `group_col` room for a
// number a tensor. Returns the row.
int32_t ckm_i_add_cut_memory(ckm_i_milp *m, const ckm_dataflow *df, int32_t cut, const int32_t *live,
                             const int32_t *view_of, int64_t room_bytes, double byte_scale, int32_t *group_col);

// Appends free rows whose activity is a whole number in every schedule, to branch on: how often an operator is computed
// again, in all windows, and how often the operators of a class are; with `held`, also how many tensors of a class are held
// at a cut. O(cuts * (operators * log operators + tensors * log tensors)) entries.
ckm_status ckm_i_stage_add_whole(ckm_i_stage_model *model, bool held, ckm_error *err) CKM_NODISCARD;

// Columns of r for window k, -1 where zero.
static inline const int32_t *ckm_i_stage_r(const ckm_i_stage_model *model, int32_t k)
{
    return model->r_col + ((int64_t)k + 1) * model->df->n_ops;
}

// A column of a point, 0 where there is none. Engines leave columns a little outside their bounds; this does not.
static inline double ckm_i_stage_value(const double *x, int32_t col)
{
    return col >= 0 ? fmin(fmax(x[col], 0.0), 1.0) : 0.0;
}

// Cutting planes, each for ckm_i_milp_options: `context` is the model. Path cuts (stage_paths.c) tie windows together,
// peak cuts (stage_peaks.c) know of memory inside them, cover cuts (stage_covers.c) of tensors that do not fit together,
// rounding cuts (stage_rounding.c) of what sizes add up to; separate adds all of them.
void ckm_i_stage_paths(const void *context, const double *x, ckm_i_milp *m);
void ckm_i_stage_peaks(const void *context, const double *x, ckm_i_milp *m);
void ckm_i_stage_covers(const void *context, const double *x, ckm_i_milp *m);
void ckm_i_stage_roundings(const void *context, const double *x, ckm_i_milp *m);
void ckm_i_stage_separate(const void *context, const double *x, ckm_i_milp *m);

// Cover cuts for any rows of sizes times columns that are 0 or 1, each of at most n_tensors of them.
void ckm_i_cover_cuts(const int32_t *rows, int32_t n_rows, int32_t n_tensors, const double *x, ckm_i_milp *m);

#endif
