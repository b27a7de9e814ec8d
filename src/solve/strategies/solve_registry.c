// SPDX-License-Identifier: Apache-2.0
// Strategies by name and by number.
#include "solve/strategies/solve_registry.h"

#include <string.h>

static const ckm_i_strategy *const strategies[] = {
#define LIST(name) &ckm_i_strategy_##name,
    CKM_I_STRATEGIES(LIST)
#undef LIST
};

const ckm_i_strategy *ckm_i_strategy_find(const char *name)
{
    if (name == NULL) {
        return strategies[0];
    }
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            return strategies[i];
        }
    }
    return NULL;
}

static const ckm_i_strategy *strategy_at(int32_t i)
{
    return i >= 0 && i < ckm_solve_strategy_count() ? strategies[i] : NULL;
}

int32_t ckm_solve_strategy_count(void)
{
    return (int32_t)(sizeof strategies / sizeof strategies[0]);
}

const char *ckm_solve_strategy_name(int32_t i)
{
    const ckm_i_strategy *strategy = strategy_at(i);
    return strategy != NULL ? strategy->name : NULL;
}

const char *ckm_solve_strategy_summary(int32_t i)
{
    const ckm_i_strategy *strategy = strategy_at(i);
    return strategy != NULL ? strategy->summary : NULL;
}

bool ckm_solve_strategy_has(int32_t i, ckm_strategy_trait trait)
{
    const ckm_i_strategy *strategy = strategy_at(i);
    if (strategy == NULL) {
        return false;
    }
    switch (trait) {
    case CKM_STRATEGY_PUBLISHED:
        return strategy->is_published;
    case CKM_STRATEGY_ONLY_BOUNDS:
        return strategy->only_bounds;
    case CKM_STRATEGY_FORMULATIONS:
        return strategy->has_formulations;
    }
    return false;
}
