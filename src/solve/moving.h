// SPDX-License-Identifier: Apache-2.0
// Solving where tensors can also be moved to a second memory.
#ifndef CKM_SRC_SOLVE_MOVING_H
#define CKM_SRC_SOLVE_MOVING_H

#include "solve/core/solver.h"

// What graphs with a second memory are solved with, whatever strategy is asked for: that one solves its stand-ins.
extern const ckm_i_strategy ckm_i_strategy_moving;

// A lower bound for every schedule: each operator that does not load is computed once.
double ckm_i_moving_least_cost(const ckm_dataflow *df);

#endif
