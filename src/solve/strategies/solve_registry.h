// SPDX-License-Identifier: Apache-2.0
// The strategies, in the order in which they are listed to people; the first is the default. A new one is its file and
// its line here: STRATEGY(name) stands for the object ckm_i_strategy_<name>.
#ifndef CKM_SRC_SOLVE_STRATEGIES_SOLVE_REGISTRY_H
#define CKM_SRC_SOLVE_STRATEGIES_SOLVE_REGISTRY_H

#include "solve/core/solver.h"

// clang-format off
#define CKM_I_STRATEGIES(STRATEGY) \
    STRATEGY(auto)                 \
    STRATEGY(ilp)                  \
    STRATEGY(lp_bound)             \
    STRATEGY(stage_bound)          \
    STRATEGY(stage_program)        \
    STRATEGY(lp_round)             \
    STRATEGY(lp_random)            \
    STRATEGY(local_search)         \
    STRATEGY(checkpoint_all)       \
    STRATEGY(checkpoint_all_ap)    \
    STRATEGY(checkpoint_last)      \
    STRATEGY(chen_sqrt)            \
    STRATEGY(chen_sqrt_ap)         \
    STRATEGY(chen_greedy)          \
    STRATEGY(chen_greedy_ap)       \
    STRATEGY(griewank)             \
    STRATEGY(chain)                \
    STRATEGY(dtr)
// clang-format on

#define CKM_I_DECLARE_STRATEGY(name) extern const ckm_i_strategy ckm_i_strategy_##name;
CKM_I_STRATEGIES(CKM_I_DECLARE_STRATEGY)
#undef CKM_I_DECLARE_STRATEGY

#endif
