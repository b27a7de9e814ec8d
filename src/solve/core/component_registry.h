// SPDX-License-Identifier: Apache-2.0
// The components in the order in which they are listed to people: COMPONENT(name) stands for the object
// ckm_i_component_<name>.
#ifndef CKM_SRC_SOLVE_CORE_COMPONENT_REGISTRY_H
#define CKM_SRC_SOLVE_CORE_COMPONENT_REGISTRY_H

#include "solve/core/component.h"

// clang-format off
#define CKM_I_COMPONENTS(COMPONENT) \
    COMPONENT(presolve)             \
    COMPONENT(presolve_operators)   \
    COMPONENT(quick)                \
    COMPONENT(published)            \
    COMPONENT(pebbling)             \
    COMPONENT(single_cut)           \
    COMPONENT(exact)                \
    COMPONENT(chain)                \
    COMPONENT(chain_blocks)         \
    COMPONENT(local_search)         \
    COMPONENT(recombination)        \
    COMPONENT(crossing)             \
    COMPONENT(neighbourhood)        \
    COMPONENT(rounding)             \
    COMPONENT(runs)                 \
    COMPONENT(leave_out)            \
    COMPONENT(leave_out_singly)     \
    COMPONENT(least_peak)           \
    COMPONENT(transfers)            \
    COMPONENT(recomputing)          \
    COMPONENT(moving_alone)         \
    COMPONENT(first_choices)        \
    COMPONENT(choices)              \
    COMPONENT(moving_bound)         \
    COMPONENT(relaxations)          \
    COMPONENT(branching)            \
    COMPONENT(programs)             \
    COMPONENT(ilp)
// clang-format on

#define CKM_I_DECLARE_COMPONENT(name) extern const ckm_i_component ckm_i_component_##name;
CKM_I_COMPONENTS(CKM_I_DECLARE_COMPONENT)
#undef CKM_I_DECLARE_COMPONENT

#endif
