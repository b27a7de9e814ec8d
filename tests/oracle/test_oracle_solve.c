// SPDX-License-Identifier: Apache-2.0
// Every strategy of the registry against brute force: schedules are legal and never cheaper than possible,
// bounds never above the optimum of the class they cover, infeasibility is never claimed wrongly, "optimal"
// is true, and the exact strategies find the optimum.
#include <checkmate/solve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_brute.h"

// How a strategy is tested. Those not listed are cheap and make no promise beyond being right.
typedef struct expectation {
    const char *test, *strategy;
    int64_t n_graphs;
    int32_t max_ops, max_produced;
    bool exact;       // proves the frontier optimum or infeasibility
    bool cost_limit;  // asked for a schedule that costs at most so much, about the optimum
    ckm_formulation formulation;
    int threads;  // 0: one
    bool near_ties;
} expectation;

static const expectation expectations[] = {
    {.test = "ilp", .strategy = "ilp", .n_graphs = 2000, .max_ops = 6, .max_produced = 8, .exact = true},
    {.test = "ilp with a cost limit",
     .strategy = "ilp",
     .n_graphs = 500,
     .max_ops = 6,
     .max_produced = 8,
     .exact = true,
     .cost_limit = true},
    {.test = "ilp unpartitioned",
     .strategy = "ilp",
     .n_graphs = 100,
     .max_ops = 4,
     .max_produced = 5,
     .formulation = CKM_FORMULATION_UNPARTITIONED},
    {.test = "lp-bound unpartitioned",
     .strategy = "lp-bound",
     .n_graphs = 200,
     .max_ops = 5,
     .max_produced = 6,
     .formulation = CKM_FORMULATION_UNPARTITIONED},
    {.test = "auto", .strategy = "auto", .n_graphs = 200, .max_ops = 6, .max_produced = 8},
    {.test = "auto, two threads", .strategy = "auto", .n_graphs = 100, .max_ops = 6, .max_produced = 8, .threads = 2},
    {.test = "auto with a cost limit",
     .strategy = "auto",
     .n_graphs = 200,
     .max_ops = 6,
     .max_produced = 8,
     .cost_limit = true},
    {.test = "lp-bound", .strategy = "lp-bound", .n_graphs = 500, .max_ops = 6, .max_produced = 8},
    {.test = "lp-round", .strategy = "lp-round", .n_graphs = 200, .max_ops = 6, .max_produced = 8},
    {.test = "lp-random", .strategy = "lp-random", .n_graphs = 200, .max_ops = 6, .max_produced = 8},
    {.test = "local-search", .strategy = "local-search", .n_graphs = 500, .max_ops = 6, .max_produced = 8},
    // Sizes that differ by single bytes, which the tolerances of engines do not see.
    {.test = "near ties: ilp", .strategy = "ilp", .n_graphs = 300, .max_ops = 6, .max_produced = 8, .near_ties = true},
    {.test = "near ties: ilp with a cost limit",
     .strategy = "ilp",
     .n_graphs = 100,
     .max_ops = 6,
     .max_produced = 8,
     .cost_limit = true,
     .near_ties = true},
    {.test = "near ties: lp-bound",
     .strategy = "lp-bound",
     .n_graphs = 100,
     .max_ops = 6,
     .max_produced = 8,
     .near_ties = true},
    {.test = "near ties: stage-bound",
     .strategy = "stage-bound",
     .n_graphs = 100,
     .max_ops = 6,
     .max_produced = 8,
     .near_ties = true},
    {.test = "near ties: stage-program",
     .strategy = "stage-program",
     .n_graphs = 300,
     .max_ops = 6,
     .max_produced = 8,
     .near_ties = true},
    {.test = "near ties: auto", .strategy = "auto", .n_graphs = 30, .max_ops = 6, .max_produced = 8, .near_ties = true},
    {.test = "near ties: chain",
     .strategy = "chain",
     .n_graphs = 100,
     .max_ops = 6,
     .max_produced = 8,
     .near_ties = true},
    {.test = "near ties: local-search",
     .strategy = "local-search",
     .n_graphs = 50,
     .max_ops = 6,
     .max_produced = 8,
     .near_ties = true},
};
static const size_t n_expectations = sizeof expectations / sizeof expectations[0];

static bool is_listed(const char *strategy)
{
    for (size_t i = 0; i < n_expectations; i++) {
        if (strcmp(expectations[i].strategy, strategy) == 0 && !expectations[i].near_ties) {
            return true;
        }
    }
    return false;
}

// Optima of one graph at one budget, by class; -1 infeasible.
typedef struct truth {
    const oracle_graph *g;
    int64_t budget;
    int64_t cost_limit;  // -1, 0: none
    int64_t optimum[4];
} truth;

static oracle_class class_of(ckm_bound_class covers)
{
    return covers == CKM_BOUND_ANY ? ORACLE_ANY : covers == CKM_BOUND_ORDER ? ORACLE_ORDER : ORACLE_FRONTIER;
}

// Whether the class has a schedule that was asked for.
static bool is_possible(const truth *t, oracle_class which)
{
    return t->optimum[which] >= 0 && (t->cost_limit <= 0 || t->optimum[which] <= t->cost_limit);
}

static void complain(const truth *t, const char *strategy, const ckm_solve_result *r, const char *what)
{
    static const char *const statuses[] = {"optimal", "feasible", "infeasible", "unknown"};
    fail_msg("%s at budget %lld, cost limit %lld: %s. Status %s, cost %lld, peak %lld, bound %.6f covering class %d.\n"
             "True optima: once %lld, frontier %lld, order %lld, any %lld\n%s",
             strategy, (long long)t->budget, (long long)t->cost_limit, what, statuses[r->status], (long long)r->cost,
             (long long)r->peak_bytes, r->bound_cost, (int)r->bound_covers, (long long)t->optimum[ORACLE_ONCE],
             (long long)t->optimum[ORACLE_FRONTIER], (long long)t->optimum[ORACLE_ORDER],
             (long long)t->optimum[ORACLE_ANY], oracle_describe(t->g, r->schedule));
}

static void check_schedule(const truth *t, const char *strategy, const ckm_solve_result *r)
{
    int64_t cost = -1;
    int64_t peak = -1;
    oracle_class which = ORACLE_ANY;
    if (!oracle_replay(t->g, r->schedule, &cost, &peak, &which)) {
        complain(t, strategy, r, "the schedule is illegal");
    }
    if (cost != r->cost || peak != r->peak_bytes) {
        complain(t, strategy, r, "cost or peak are not the schedule's");
    }
    if (peak > t->budget) {
        complain(t, strategy, r, "the budget is exceeded");
    }
    if (t->optimum[which] < 0 || cost < t->optimum[which]) {
        complain(t, strategy, r, "brute force missed this schedule");
    }
    const ckm_schedule_info *info = ckm_schedule_get_info(r->schedule);
    if (info->cost != cost || info->peak_bytes != peak || info->budget_bytes != t->budget ||
        info->optimal != (r->status == CKM_SOLVE_OPTIMAL)) {
        complain(t, strategy, r, "the schedule's own record differs from the result");
    }
}

static void check_claims(const truth *t, const char *strategy, const ckm_solve_result *r)
{
    bool claims = r->bound_covers != CKM_BOUND_NONE;
    int64_t optimum = claims ? t->optimum[class_of(r->bound_covers)] : -1;
    if (!isnan(r->bound_cost)) {
        if (!claims) {
            complain(t, strategy, r, "a bound without a class");
        }
        if (optimum >= 0 && r->bound_cost > (double)optimum) {
            complain(t, strategy, r, "the bound is above the optimum of its class");
        }
        if (r->cost >= 0 && r->bound_cost > (double)r->cost) {
            complain(t, strategy, r, "the bound is above the cost");
        }
    }
    if (r->status == CKM_SOLVE_INFEASIBLE && (!claims || is_possible(t, class_of(r->bound_covers)))) {
        complain(t, strategy, r, "infeasibility is claimed wrongly");
    }
    // A schedule from a wider class may be found where the class of the bound has none.
    if (r->status == CKM_SOLVE_OPTIMAL && (!claims || (optimum >= 0 && r->cost > optimum))) {
        complain(t, strategy, r, "not optimal in the class it covers");
    }
    if ((r->schedule != NULL) != (r->status == CKM_SOLVE_OPTIMAL || r->status == CKM_SOLVE_FEASIBLE)) {
        complain(t, strategy, r, "status and schedule do not go together");
    }
}

static void check_exact(const truth *t, const char *strategy, const ckm_solve_result *r)
{
    if (!is_possible(t, ORACLE_FRONTIER)) {
        if (r->status != CKM_SOLVE_INFEASIBLE) {
            complain(t, strategy, r, "infeasibility is not proven");
        }
    } else if (t->cost_limit > 0) {
        if (r->schedule == NULL || r->cost > t->cost_limit) {
            complain(t, strategy, r, "nothing within the cost limit is found");
        }
    } else if (r->status != CKM_SOLVE_OPTIMAL || r->cost != t->optimum[ORACLE_FRONTIER]) {
        complain(t, strategy, r, "the optimum is not found or not proven");
    }
}

static void solve_and_check(const truth *t, const ckm_dataflow *df, const expectation *expected, const int64_t *least,
                            int64_t counts[4])
{
    const char *strategy = expected->strategy;
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_result r;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = t->budget;
    options.strategy = strategy;
    options.time_limit_seconds = expected->exact ? 60.0 : 1.0;
    options.formulation = expected->formulation;
    options.cost_limit = t->cost_limit;
    options.threads = expected->threads > 0 ? expected->threads : 1;
    options.seed = 7;
    options.iteration_limit = 2000;  // plenty for graphs of this size, and the same on every machine
    if (ckm_solve(df, &options, &r, &err) != CKM_OK) {
        fail_msg("%s fails: %s\n%s", strategy, err.message, oracle_describe(t->g, NULL));
    }
    if (r.schedule != NULL) {
        check_schedule(t, strategy, &r);
    }
    check_claims(t, strategy, &r);
    if (expected->exact) {
        check_exact(t, strategy, &r);
    }
    if (r.floor_bytes > least[ORACLE_ANY] || (r.least_peak_bytes >= 0 && r.least_peak_bytes < least[ORACLE_ANY])) {
        complain(t, strategy, &r, "the memory floor or the least peak met is impossible");
    }
    counts[r.status]++;
    ckm_solve_result_dispose(&r);
}

// Budgets worth trying: both sides of where the frontier class becomes feasible, something between, and
// where nothing needs to be recomputed.
static int32_t choose_budgets(ckm_i_rng *rng, const int64_t *least, int64_t budgets[3])
{
    int64_t low = least[ORACLE_FRONTIER];
    int64_t high = least[ORACLE_ONCE];
    int32_t n = 0;
    budgets[n++] = low + (int64_t)ckm_i_rng_below(rng, (uint32_t)(high - low + 1));
    if (ckm_i_rng_below(rng, 2) == 0) {
        budgets[n++] = low;
    }
    if (ckm_i_rng_below(rng, 4) == 0 && low > 0) {
        budgets[n++] = ckm_i_rng_below(rng, 2) == 0 ? low - 1 : high;
    }
    return n;
}

// The least peak of a class, that of some schedule, or anything between two of them, to the byte or one off.
static int32_t choose_tight_budgets(ckm_i_rng *rng, const oracle_graph *g, const int64_t *least, int64_t budgets[3])
{
    ckm_schedule *s = oracle_random_schedule(rng, g);
    int64_t peak = 0;
    assert_true(oracle_replay(g, s, NULL, &peak, NULL));
    ckm_schedule_free(s);
    int64_t between = least[ORACLE_FRONTIER] + (int64_t)(ckm_i_rng_unit(rng) * (double)(peak - least[ORACLE_FRONTIER]));
    budgets[0] = least[ckm_i_rng_below(rng, 4)];
    budgets[1] = peak < least[ORACLE_ONCE] ? peak : least[ORACLE_ONCE];
    budgets[2] = between;
    for (int32_t b = 0; b < 3; b++) {
        budgets[b] += (int64_t)ckm_i_rng_below(rng, 3) - 1;
        budgets[b] = budgets[b] < 0 ? 0 : budgets[b];
    }
    return 3;
}

// About the optimum, on either side.
static int64_t choose_cost_limit(ckm_i_rng *rng, int64_t optimum)
{
    int64_t limit = optimum - 1 + (int64_t)ckm_i_rng_below(rng, 3);
    return optimum < 0 ? 10 : limit < 0 ? 0 : limit;
}

static void strategy_agrees_with_brute_force(void **state)
{
    const expectation *expected = *state;
    const char *seed = getenv("CKM_ORACLE_SEED");
    ckm_i_rng rng = {.state = seed != NULL ? strtoull(seed, NULL, 10) : 31};
    int64_t counts[4] = {0};
    for (int64_t round = oracle_scaled(expected->n_graphs); round > 0; round--) {
        oracle_graph g;
        int64_t least[4];
        int64_t budgets[3];
        oracle_random_graph(&rng, 2, expected->max_ops, expected->max_produced, &g);
        if (expected->near_ties) {
            oracle_near_ties(&rng, &g);
        }
        ckm_dataflow *df = oracle_build(&g);
        for (int c = ORACLE_ONCE; c <= ORACLE_ANY; c++) {
            least[c] = oracle_least_peak(&g, (oracle_class)c);
        }
        int32_t n_budgets = expected->near_ties ? choose_tight_budgets(&rng, &g, least, budgets)
                                                : choose_budgets(&rng, least, budgets);
        for (int32_t b = 0; b < n_budgets; b++) {
            truth t = {.g = &g, .budget = budgets[b], .cost_limit = -1};
            for (int c = ORACLE_ONCE; c <= ORACLE_ANY; c++) {
                t.optimum[c] = oracle_optimum(&g, (oracle_class)c, budgets[b]);
            }
            if (expected->cost_limit) {
                t.cost_limit = choose_cost_limit(&rng, t.optimum[ORACLE_FRONTIER]);
            }
            solve_and_check(&t, df, expected, least, counts);
        }
        ckm_dataflow_free(df);
    }
    printf("%s: %lld optimal, %lld feasible, %lld infeasible, %lld unknown\n", expected->test,
           (long long)counts[CKM_SOLVE_OPTIMAL], (long long)counts[CKM_SOLVE_FEASIBLE],
           (long long)counts[CKM_SOLVE_INFEASIBLE], (long long)counts[CKM_SOLVE_UNKNOWN]);
}

// CKM_ORACLE_STRATEGY, when set, names the only strategy to test; CKM_ORACLE_SEED draws other graphs.
int main(void)
{
    const char *chosen = getenv("CKM_ORACLE_STRATEGY");
    size_t room = n_expectations + (size_t)ckm_solve_strategy_count();
    expectation *all = calloc(room, sizeof *all);
    struct CMUnitTest *tests = calloc(room, sizeof *tests);
    size_t n = 0;
    int failed = 1;
    if (tests == NULL || all == NULL) {
        goto cleanup;
    }
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        const char *name = ckm_solve_strategy_name(i);
        if (chosen != NULL && strcmp(chosen, name) != 0) {
            continue;
        }
        if (!is_listed(name)) {
            all[n++] = (expectation){.test = name, .strategy = name, .n_graphs = 2000, .max_ops = 7, .max_produced = 9};
        }
        for (size_t k = 0; k < n_expectations; k++) {
            if (strcmp(expectations[k].strategy, name) == 0) {
                all[n++] = expectations[k];
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        tests[i] = (struct CMUnitTest){all[i].test, strategy_agrees_with_brute_force, NULL, NULL, &all[i]};
    }
    if (n == 0) {
        fprintf(stderr, "no strategy is called \"%s\"\n", chosen != NULL ? chosen : "");
        goto cleanup;
    }
    failed = _cmocka_run_group_tests("strategies", tests, n, NULL, NULL) != 0;
cleanup:
    free(tests);
    free(all);
    return failed;
}
