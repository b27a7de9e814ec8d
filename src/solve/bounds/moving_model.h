// SPDX-License-Identifier: Apache-2.0
// The stage relaxation of graphs with a second memory: a linear program that every schedule satisfies which keeps the graph's
// first-execution order, recomputing and moving anything any number of times. docs/THEORY.md derives it row by row.
#ifndef CKM_SRC_SOLVE_BOUNDS_MOVING_MODEL_H
#define CKM_SRC_SOLVE_BOUNDS_MOVING_MODEL_H

#include "dataflow/dataflow.h"
#include "milp/milp.h"
#include "solve/core/solver.h"

// Cuts and windows, s and r are those of the stage relaxation (window_model.h). For a storage g that is no graph input's and is not loaded,
//   out[k,g] = 1  its way out is waited for in window k
//   back[k,g] = 1 it comes back in window k, having left before cut k
//   leaving[k,g], coming[k,g] = 1: a way out, a way back is under way at cut k
// and T[k] is how long window k takes. Tensors of loads are left out: they may be there at any time.
typedef struct ckm_i_moving_model {
    const ckm_dataflow *df;
    ckm_i_milp milp;
    int32_t n_cuts;
    int32_t *cuts;      // ascending operators, no loads
    int32_t *s_col;     // [k * n_tensors + x]: column, -1 where zero
    int32_t *r_col;     // [(k + 1) * n_ops + v]
    int32_t *out_col;   // [(k + 1) * n_tensors + g]
    int32_t *back_col;  // [k * n_tensors + g]
    int32_t *
        present_col;  // [k * n_tensors + g]: presence of a storage, -1 where the operator before the cut touches it, or nothing is there
    int32_t *view_of;   // by tensor: what it is a view of, or -1 (ckm_i_find_views)
    int32_t *n_on;      // by storage: tensors on it
    int32_t *time_col;  // [k + 1]
    double cost_scale;  // objective 1 is this much cost
} ckm_i_moving_model;

// Of schedules that take no longer than `longest`. O(cuts * (operators + edges) + cuts^2 * storages) entries.
ckm_status ckm_i_moving_model_build(const ckm_dataflow *df, int64_t budget_bytes, const int32_t *cuts, int32_t n_cuts,
                                    double longest, ckm_i_moving_model *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_moving_model_dispose(ckm_i_moving_model *model);
// What x is a view of in the end; x where it is none. Its s counts as 1 where only a view of it is live.
int32_t ckm_i_moving_base(const ckm_i_moving_model *model, int32_t x);

// Lower bounds where tensors can be moved to a second memory.

// Relaxations with ever more cuts, until a point in time on ckm_i_clock_seconds; hands in what they prove, for schedules that keep the
// order.
ckm_status ckm_i_moving_bound(ckm_i_solver *solver, double until, ckm_error *err) CKM_NODISCARD;

#endif
