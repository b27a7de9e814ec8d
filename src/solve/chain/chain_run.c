// SPDX-License-Identifier: Apache-2.0
// Bound and schedule of the chain programs, handed in.
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/chain/chain.h"
#include "solve/core/component_registry.h"

// Of the time left, what the bound may take; steps of its program in a second.
static const double bound_share = 0.1, steps_per_second = 1e9;

static int64_t work_of(const ckm_i_solver *solver)
{
    double steps = (solver->deadline_seconds - ckm_i_clock_seconds()) * bound_share * steps_per_second;
    return steps >= (double)CKM_I_CHAIN_WORK ? CKM_I_CHAIN_WORK : steps > 0 ? (int64_t)steps : 0;
}

// The largest double that is not above; costs beyond 2^53 are rounded.
static double at_most(int64_t cost)
{
    double value = (double)cost;
    return cost > (INT64_C(1) << 53) ? nextafter(value, 0.0) : value;
}

// A bound of exact arithmetic for graphs that begin with a chain; silent about all others.
static ckm_status bound(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_spine spine = {0};
    int64_t cost = 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_spine_find(solver->df, &spine, err));
    if (spine.n_visits > 0) {
        ckm_bound_class covers = spine.order_is_free ? CKM_BOUND_ANY : CKM_BOUND_ORDER;
        CKM_I_TRY(ckm_i_chain_bound(solver->df, &spine, solver->budget_bytes, work_of(solver), &cost, err));
        if (cost == INT64_MAX) {
            ckm_i_solver_infeasible(solver, covers, "chain");
        } else {
            ckm_i_solver_bound(solver, at_most(cost), covers, "chain");
        }
    }
cleanup:
    ckm_i_spine_dispose(&spine);
    return status;
}

const ckm_i_component ckm_i_component_chain = {"chain", CKM_COMPONENT_BOUNDS,
                                               "a bound by dynamic programming, for graphs that begin with a chain"};
const ckm_i_component ckm_i_component_chain_blocks = {"chain-blocks", CKM_COMPONENT_CONSTRUCTS,
                                                      "a schedule by dynamic programming over a chain of blocks"};

static ckm_status run(ckm_i_solver *solver, const ckm_i_component *component,
                      ckm_status (*work)(ckm_i_solver *solver, ckm_error *err), ckm_error *err)
{
    if (ckm_i_solver_should_stop(solver) || !ckm_i_component_begin(solver, component)) {
        return CKM_OK;
    }
    ckm_status status = work(solver, err);
    ckm_i_component_end(solver);
    return status;
}

ckm_status ckm_i_chain_run(ckm_i_solver *solver, ckm_error *err)
{
    CKM_I_CHECK(run(solver, &ckm_i_component_chain, bound, err));
    return run(solver, &ckm_i_component_chain_blocks, ckm_i_chain_schedule, err);
}
