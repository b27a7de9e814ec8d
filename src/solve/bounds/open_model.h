// SPDX-License-Identifier: Apache-2.0
// The open relaxation: a linear program that every schedule satisfies, whatever the order of its first computations.
// docs/FORMULATION.md derives it row by row.
#ifndef CKM_SRC_SOLVE_BOUNDS_OPEN_MODEL_H
#define CKM_SRC_SOLVE_BOUNDS_OPEN_MODEL_H

#include "dataflow/dataflow.h"
#include "milp/milp.h"

// In place of a column of d.
enum { CKM_I_OPEN_NOT_DONE = -1, CKM_I_OPEN_DONE = -2 };

// A schedule is cut right after the first computations of the operators `cuts`, each of which can be reached from the one
// before, so that all schedules come to them in this order. Window k is what happens from cut k to cut k + 1, the last one
// from its cut to the end.
//   d[k,v] = 1  v has been computed by cut k: surely where cut k can be reached from v, surely not where v from it
//   s[k,x] = 1  x is live at cut k
//   e[k,v] = 1  v is computed in window k, for the first time or again
typedef struct ckm_i_open_model {
    const ckm_dataflow *df;
    ckm_i_milp milp;
    int32_t n_cuts;
    int32_t *cuts;
    int32_t *d_col;       // [k * n_ops + v]: column, or one of the above
    int32_t *s_col;       // [k * n_tensors + x]: column, -1 where zero
    int32_t *e_col;       // [k * n_ops + v]
    int32_t *view_of;     // per tensor: the operand of its operator on whose storage it lies, -1: none
    int32_t *memory_row;  // per cut
    int64_t room_bytes;   // budget less what is always there
    double byte_scale;    // memory rows count in this many bytes
    double cost_scale;    // objective 1 is this much cost
    double cost_before;   // what is surely computed before the first cut, in the objective's unit
    int64_t cost_gcd;
} ckm_i_open_model;

// Per operator: whether `from` can be reached from it, or it from `from`. Either excludes `from` itself. O(edges).
typedef struct ckm_i_open_reach {
    bool *before, *after;
} ckm_i_open_reach;
void ckm_i_open_find_reach(const ckm_dataflow *df, int32_t from, ckm_i_open_reach *out);

// O(cuts * (operators + edges)) rows and columns.
ckm_status ckm_i_open_model_build(const ckm_dataflow *df, int64_t budget_bytes, const int32_t *cuts, int32_t n_cuts,
                                  ckm_i_open_model *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_open_model_dispose(ckm_i_open_model *model);

static inline const int32_t *ckm_i_open_d(const ckm_i_open_model *model, int32_t k)
{
    return model->d_col + (int64_t)k * model->df->n_ops;
}

static inline const int32_t *ckm_i_open_s(const ckm_i_open_model *model, int32_t k)
{
    return model->s_col + (int64_t)k * model->df->n_tensors;
}

static inline const int32_t *ckm_i_open_e(const ckm_i_open_model *model, int32_t k)
{
    return model->e_col + (int64_t)k * model->df->n_ops;
}

// Cutting planes for ckm_i_milp_options, `context` is the model: path cuts (open_paths.c) and cover cuts; separate adds both.
void ckm_i_open_paths(const void *context, const double *x, ckm_i_milp *m);
void ckm_i_open_separate(const void *context, const double *x, ckm_i_milp *m);

#endif
