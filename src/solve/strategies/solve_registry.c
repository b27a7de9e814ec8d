// SPDX-License-Identifier: Apache-2.0
// The strategies, in the order in which they are listed to people. A new one: its file, its extern, its line.
#include <string.h>

#include "solve/core/solver.h"

extern const ckm_i_strategy ckm_i_strategy_auto;
extern const ckm_i_strategy ckm_i_strategy_ilp;
extern const ckm_i_strategy ckm_i_strategy_lp_bound;
extern const ckm_i_strategy ckm_i_strategy_stage_bound;
extern const ckm_i_strategy ckm_i_strategy_stage_program;
extern const ckm_i_strategy ckm_i_strategy_lp_round;
extern const ckm_i_strategy ckm_i_strategy_lp_random;
extern const ckm_i_strategy ckm_i_strategy_local_search;
extern const ckm_i_strategy ckm_i_strategy_checkpoint_all;
extern const ckm_i_strategy ckm_i_strategy_checkpoint_all_ap;
extern const ckm_i_strategy ckm_i_strategy_checkpoint_last;
extern const ckm_i_strategy ckm_i_strategy_chen_sqrt;
extern const ckm_i_strategy ckm_i_strategy_chen_sqrt_ap;
extern const ckm_i_strategy ckm_i_strategy_chen_greedy;
extern const ckm_i_strategy ckm_i_strategy_chen_greedy_ap;
extern const ckm_i_strategy ckm_i_strategy_griewank;
extern const ckm_i_strategy ckm_i_strategy_chain;

static const ckm_i_strategy *const strategies[] = {
    &ckm_i_strategy_auto,
    &ckm_i_strategy_ilp,
    &ckm_i_strategy_lp_bound,
    &ckm_i_strategy_stage_bound,
    &ckm_i_strategy_stage_program,
    &ckm_i_strategy_lp_round,
    &ckm_i_strategy_lp_random,
    &ckm_i_strategy_local_search,
    &ckm_i_strategy_checkpoint_all,
    &ckm_i_strategy_checkpoint_all_ap,
    &ckm_i_strategy_checkpoint_last,
    &ckm_i_strategy_chen_sqrt,
    &ckm_i_strategy_chen_sqrt_ap,
    &ckm_i_strategy_chen_greedy,
    &ckm_i_strategy_chen_greedy_ap,
    &ckm_i_strategy_griewank,
    &ckm_i_strategy_chain,
};

const ckm_i_strategy *const *ckm_i_solve_registry(int32_t *count)
{
    *count = (int32_t)(sizeof strategies / sizeof strategies[0]);
    return strategies;
}

const ckm_i_strategy *ckm_i_strategy_find(const char *name)
{
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            return strategies[i];
        }
    }
    return NULL;
}

int32_t ckm_solve_strategy_count(void)
{
    return (int32_t)(sizeof strategies / sizeof strategies[0]);
}

const char *ckm_solve_strategy_name(int32_t i)
{
    return i >= 0 && i < ckm_solve_strategy_count() ? strategies[i]->name : NULL;
}

const char *ckm_solve_strategy_summary(int32_t i)
{
    return i >= 0 && i < ckm_solve_strategy_count() ? strategies[i]->summary : NULL;
}
