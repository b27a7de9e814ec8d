// SPDX-License-Identifier: Apache-2.0
// Solving: the cheapest schedule under a memory budget, by any strategy of the registry.
#ifndef CHECKMATE_SOLVE_H
#define CHECKMATE_SOLVE_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ckm_solve_status {
    CKM_SOLVE_OPTIMAL,  // cost equals the bound within 0.01 % in the class the bound covers
    CKM_SOLVE_FEASIBLE,
    CKM_SOLVE_INFEASIBLE,  // proven: no schedule of the class `bound_covers` names fits the budget
    CKM_SOLVE_UNKNOWN      // none found within the limits
} ckm_solve_status;

// Forms of the integer program: frontier-advancing stages, tightened (docs/THEORY.md); any operator in
// any stage (paper, appendix A); frontier-advancing exactly as in the paper. The first and the last have the
// same integer solutions and different relaxations.
typedef enum ckm_formulation {
    CKM_FORMULATION_FRONTIER,
    CKM_FORMULATION_UNPARTITIONED,
    CKM_FORMULATION_PAPER
} ckm_formulation;

// One line of progress: the best known at `seconds`.
typedef struct ckm_progress {
    double seconds;
    int64_t incumbent_cost;  // -1: none yet
    double bound_cost;       // NaN: none yet
    double gap;              // (incumbent - bound) / bound, NaN when either is missing
    const char *source;      // what improved: strategy or component
} ckm_progress;
typedef void (*ckm_progress_fn)(const ckm_progress *progress, void *user);

typedef struct ckm_solve_options {
    size_t size;                // set by CKM_SOLVE_OPTIONS_INIT
    int64_t budget_bytes;       // peak allowed, fixed bytes included: to be set
    const char *strategy;       // name in the registry; NULL is its first, "auto"
    double time_limit_seconds;  // wall time of the search; 0: 60; CKM_NONE: no limit
    double gap;                 // stop when (cost - bound) / bound <= gap; 0: 1e-4; CKM_NONE: only at a gap of 0
    int64_t cost_limit;         // > 0: any schedule costing at most this will do; more expensive ones do not count
    int threads;                // 0: 1; solvers that cannot use more ignore it
    uint64_t seed;
    int64_t iteration_limit;      // for randomised strategies, 0: their default; makes runs repeatable
    ckm_formulation formulation;  // strategies with CKM_STRATEGY_FORMULATIONS
    ckm_stop_fn stop;             // may be NULL
    ckm_log_fn log;               // may be NULL
    ckm_progress_fn progress;     // may be NULL
    void *user;                   // passed to the three callbacks
    // The order of first executions is a decision too: solves the graph in several topological orders. A schedule
    // then need not follow the graph's order, and only bounds of class CKM_BOUND_ANY are reported (docs/SOLVER.md).
    bool reorder;
    // A legal schedule to begin with, which counts where it fits; NULL for none. Only read while solving.
    const ckm_schedule *start;
    // Names of components to leave out, separated by commas; NULL for none. For measuring what each is worth.
    const char *without;
} ckm_solve_options;
#define CKM_SOLVE_OPTIONS_INIT CKM_SIZED(ckm_solve_options)

// The components of a solve: what strategies, above all "auto", are made of.
typedef enum ckm_component_kind {
    CKM_COMPONENT_REDUCES,     // makes the problem smaller
    CKM_COMPONENT_CONSTRUCTS,  // makes a schedule from nothing
    CKM_COMPONENT_IMPROVES,    // makes schedules cheaper
    CKM_COMPONENT_BOUNDS,      // proves lower bounds
    CKM_COMPONENT_SOLVES       // schedules and their proofs: integer programs, the exact search
} ckm_component_kind;

// What a component has done in a solve. Concurrent work counts in full, so that the seconds of all may add up to more than
// those of the solve.
typedef struct ckm_component_use {
    const char *name;
    int64_t calls;
    double seconds;             // wall time, without that of the components it has called
    int64_t schedules, bounds;  // new incumbents, new best bounds
    double cost_gained;         // by how much they made the incumbent cheaper; the first one makes nothing cheaper
    double bound_gained;        // by how much they raised the bound
} ckm_component_use;

enum { CKM_MOST_COMPONENTS = 32 };

typedef struct ckm_solve_result {
    ckm_solve_status status;
    ckm_schedule *schedule;    // verified, within the budget; NULL when none was found
    int64_t cost, peak_bytes;  // -1 without a schedule
    int64_t budget_bytes, baseline_cost, baseline_peak_bytes;
    int64_t floor_bytes;           // proven: no schedule needs less; what ckm_min_budget_floor says
    int64_t least_peak_bytes;      // smallest peak of the schedules measured; -1 where none was
    double bound_cost;             // NaN: none
    ckm_bound_class bound_covers;  // also names the class of an infeasibility proof
    double gap;                    // NaN unless both cost and bound exist
    double seconds;
    char strategy[64];  // the strategy that found the schedule
    // Components that found the schedule and proved the bound or that nothing fits; NULL: none of them, as for a schedule that was
    // given. What all of them did, by number.
    const char *found_by, *proven_by;
    int32_t n_components;
    ckm_component_use components[CKM_MOST_COMPONENTS];
} ckm_solve_result;

// Finds a schedule. Floor, verdict and bound are proven for every strategy: a budget below the memory
// floor is infeasible. The floor is computed once for a graph, which remembers it; that time (ckm_min_budget_floor) is
// not part of `seconds` and the time limit. `result` is filled on CKM_OK for every status in it; release with
// ckm_solve_result_dispose. Errors: CKM_ERR_NOT_FOUND (unknown strategy), CKM_ERR_ARGUMENT, memory.
CKM_API ckm_status ckm_solve(const ckm_dataflow *df, const ckm_solve_options *options, ckm_solve_result *result,
                             ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_solve_result_dispose(ckm_solve_result *result);

// Schedules for several budgets as one search: schedules found for one budget are starting points for others, and what is proven
// for one counts for all. `options` as for ckm_solve, but time_limit_seconds is for the whole search, and 0 or CKM_NONE means 360;
// budget_bytes is ignored, and progress is that of the budget being solved. `results` has room for n, in the order
// of `budgets`, and is filled on CKM_OK, also where `stop` ends it early; release each with ckm_solve_result_dispose. Their `seconds`
// are what went into each. Errors are those of ckm_solve.
CKM_API ckm_status ckm_solve_frontier(const ckm_dataflow *df, const ckm_solve_options *options, const int64_t *budgets,
                                      int32_t n, ckm_solve_result *results, ckm_error *err) CKM_NODISCARD;

// The registry, in a fixed order. `summary` is one line for a person.
CKM_API int32_t ckm_solve_strategy_count(void);
CKM_API const char *ckm_solve_strategy_name(int32_t i);
CKM_API const char *ckm_solve_strategy_summary(int32_t i);

// Properties of a strategy, for user interfaces that offer a choice.
typedef enum ckm_strategy_trait {
    CKM_STRATEGY_PUBLISHED,  // a heuristic that the Checkmate paper compares with (CKM_ACCOUNTING_PAPER is about these)
    CKM_STRATEGY_ONLY_BOUNDS,  // proves bounds and gives no schedule
    CKM_STRATEGY_FORMULATIONS  // looks at the option `formulation`
} ckm_strategy_trait;
// False for a number that is not in the registry.
CKM_API bool ckm_solve_strategy_has(int32_t i, ckm_strategy_trait trait);

// The components, in a fixed order; NULL for an unknown number.
CKM_API int32_t ckm_solve_component_count(void);
CKM_API const char *ckm_solve_component_name(int32_t i);
CKM_API const char *ckm_solve_component_summary(int32_t i);
CKM_API ckm_component_kind ckm_solve_component_kind(int32_t i);

#ifdef __cplusplus
}
#endif
#endif
