// SPDX-License-Identifier: Apache-2.0
// What every strategy keeps, for tests/unit/solve/test_solve_<name>.c: each of these adds what is its own.
#ifndef CKM_TESTS_STRATEGY_CHECK_H
#define CKM_TESTS_STRATEGY_CHECK_H

#include <checkmate/solve.h>

// One solve; the result is the caller's to dispose of. Fails the test on an error. 5 s and 2000 iterations at most.
ckm_solve_result strategy_solve(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes);

// The cost on a budget, and nothing else of it; -1 when there is no schedule.
int64_t strategy_cost(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes);

// What brute force says of the graph and budget of a result that is handed to a strategy's own check.
typedef struct strategy_truth {
    int64_t budget_bytes;
    int64_t frontier_cost, order_cost, any_cost;  // optima of the classes; -1: nothing fits
} strategy_truth;
typedef void strategy_check_fn(const ckm_solve_result *result, const strategy_truth *truth);

// Random graphs of up to six operators with everything the model allows, at budgets from below the memory floor to
// everything. The schedule is legal, within the budget and no cheaper than brute force; a bound is no larger than the
// optimum of its class, and infeasible is said only of a class that has nothing. `check` may be NULL.
void strategy_check_random(const char *strategy, int64_t n_graphs, strategy_check_fn *check);

// Edges: a single operator; a budget of everything, which takes no recomputation unless the strategy `recomputes` all the
// same; a byte less than the memory floor. Strategies that give no schedule give none.
void strategy_check_edges(const char *strategy, bool recomputes);

// For strategies that only prove: there is no schedule; and on a chain of eight at a budget of six the bound, of class
// `covers`, is above the sum of all costs and no larger than the optimum of the paper's program.
void strategy_gives_no_schedule(const ckm_solve_result *result, const strategy_truth *truth);
void strategy_check_bound(const char *strategy, ckm_bound_class covers);

#endif
