// SPDX-License-Identifier: Apache-2.0
// What strategies hand in, and what a solve concludes from it: which schedule counts, which bound, when to stop, what is told.
#include "solve/core/solve_options.h"
#include "solve/core/solver.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "layer_graph.h"
#include "schedule/schedule_order.h"
#include "solve/solve_above.h"

// Four layers: operators 0..3, loss 4, backward 5..8; each costs 1 and puts out a byte.
static const int32_t once[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};                     // cost 9, peak 6
static const int32_t waste[] = {0, 1, 2, 3, 4, 4, 5, 6, 7, 8};                 // cost 10, peak 6
static const int32_t twice[] = {0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 0, 8};           // cost 12, peak 5
static const int32_t early[] = {0, 1, 2, 3, 4, 5, 0, 1, 6, 7, 1, 8};           // cost 12, peak 6
static const int32_t least[] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 6, 0, 1, 7, 0, 8};  // cost 15, peak 4

typedef struct heard {
    int n_progress, n_errors;
    ckm_progress last;
    bool stops;
} heard;

static void hear(const ckm_progress *progress, void *user)
{
    heard *h = user;
    h->n_progress++;
    h->last = *progress;
}

static void hear_line(ckm_log_level level, const char *line, void *user)
{
    heard *h = user;
    (void)line;
    h->n_errors += level == CKM_LOG_ERROR;
}

static bool stops(void *user)
{
    return ((heard *)user)->stops;
}

static ckm_solve_options options_for(heard *h)
{
    return (ckm_solve_options){.cost_limit = -1, .progress = hear, .log = hear_line, .stop = stops, .user = h};
}

static ckm_schedule *steps_of(const ckm_dataflow *df, const int32_t *order, int64_t n)
{
    ckm_schedule *schedule = NULL;
    assert_int_equal(ckm_i_schedule_from_order(df, order, n, &schedule, NULL), CKM_OK);
    return schedule;
}

static void offer(ckm_i_solver *solver, const int32_t *order, int64_t n, const char *source)
{
    ckm_schedule *schedule = steps_of(solver->df, order, n);
    assert_int_equal(ckm_i_solver_offer_schedule(solver, &schedule, source, NULL, NULL), CKM_OK);
    assert_null(schedule);
}

static void the_cheapest_that_fits_counts(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 5);
    assert_int_equal(solver.best_cost, -1);
    assert_int_equal(solver.least_peak_bytes, -1);
    assert_true(isnan(ckm_i_solver_told_bound(&solver)));
    offer(&solver, once, 9, "once");  // over the budget: known to fit 6, and kept as such
    assert_null(solver.best_schedule);
    assert_int_equal(solver.least_peak_bytes, 6);
    assert_int_equal(solver.least_schedule_peak_bytes, 6);
    assert_int_equal(ckm_schedule_step_count(solver.least_schedule) > 9, true);
    assert_int_equal(h.n_progress, 0);
    offer(&solver, waste, 10, "waste");  // as large, so that the first stays
    ckm_verdict verdict;
    assert_int_equal(ckm_schedule_verify(df, solver.least_schedule, 6, &verdict, NULL), CKM_OK);
    assert_true(verdict.ok && verdict.cost == 9);
    offer(&solver, least, 15, "least");
    assert_int_equal(solver.best_cost, 15);
    assert_int_equal(solver.best_peak_bytes, 4);
    assert_int_equal(solver.least_peak_bytes, 4);
    assert_int_equal(h.n_progress, 1);
    assert_int_equal(h.last.incumbent_cost, 15);
    assert_true(isnan(h.last.bound_cost) && isnan(h.last.gap));
    assert_string_equal(h.last.source, "least");
    offer(&solver, twice, 12, "twice");  // cheaper, though it takes more
    assert_int_equal(solver.best_cost, 12);
    assert_int_equal(solver.best_peak_bytes, 5);
    assert_int_equal(solver.least_peak_bytes, 4);
    offer(&solver, least, 15, "dearer");
    offer(&solver, twice, 12, "the same");
    offer(&solver, once, 9, "too large");
    assert_int_equal(solver.best_cost, 12);
    assert_string_equal(solver.best_source, "twice");
    assert_int_equal(h.n_progress, 2);
    assert_int_equal(solver.least_schedule_peak_bytes, 6);  // nothing more is kept once something fits
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void the_smallest_over_the_budget_is_kept(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 3);
    static const int64_t kept[] = {6, 6, 5, 4, 4};
    for (int i = 0; i < 5; i++) {
        ckm_verdict verdict;
        offer(&solver,
              i == 0   ? once
              : i == 1 ? waste
              : i == 3 ? least
                       : twice,
              i == 0   ? 9
              : i == 1 ? 10
              : i == 3 ? 15
                       : 12,
              "");
        assert_int_equal(solver.least_schedule_peak_bytes, kept[i]);
        assert_int_equal(ckm_schedule_verify(df, solver.least_schedule, kept[i], &verdict, NULL), CKM_OK);
        assert_true(verdict.ok && verdict.peak_bytes == kept[i]);
    }
    assert_int_equal(solver.least_peak_bytes, 4);
    ckm_i_solver_note_peak(&solver, 0);
    ckm_i_solver_note_peak(&solver, 1);
    assert_int_equal(solver.least_peak_bytes, 0);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

// Of two that cost the same, the one with the smaller peak: `early` holds layer 0 from its second computation to the end.
static void of_two_as_cheap_the_smaller_counts(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    for (int first = 0; first < 2; first++) {
        ckm_i_solver solver;
        ckm_i_solver_init(&solver, df, &options, 100);
        offer(&solver, first == 0 ? early : twice, 12, "a");
        offer(&solver, first == 0 ? twice : early, 12, "b");
        assert_int_equal(solver.best_cost, 12);
        assert_int_equal(solver.best_peak_bytes, 5);
        assert_string_equal(solver.best_source, first == 0 ? "b" : "a");
        ckm_i_solver_dispose(&solver);
    }
    ckm_dataflow_free(df);
}

static void what_is_only_noted_does_not_count(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 100);
    ckm_schedule *schedule = steps_of(df, twice, 12);
    assert_int_equal(ckm_i_solver_note_least(&solver, schedule, NULL), CKM_OK);
    ckm_schedule_free(schedule);
    assert_null(solver.best_schedule);
    assert_int_equal(solver.least_peak_bytes, 5);
    assert_int_equal(solver.least_schedule_peak_bytes, 5);
    ckm_i_solver_note_peak(&solver, 7);
    assert_int_equal(solver.least_peak_bytes, 5);
    ckm_i_solver_note_peak(&solver, 3);
    assert_int_equal(solver.least_peak_bytes, 3);
    assert_int_equal(ckm_i_solver_offer_plain(&solver, NULL, NULL), CKM_OK);
    assert_int_equal(solver.best_cost, 9);
    assert_string_equal(solver.best_source, "no-rematerialization");
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void the_plain_run_is_handed_in_once(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_simulation facts = {0};
    ckm_i_solver_init(&solver, df, &options, 100);
    assert_int_equal(ckm_i_solver_offer_plain(&solver, &facts, NULL), CKM_OK);
    assert_int_equal(facts.cost, 9);
    assert_int_equal(facts.peak_bytes, solver.best_peak_bytes);
    facts = (ckm_simulation){.cost = -7};
    assert_int_equal(ckm_i_solver_offer_plain(&solver, &facts, NULL), CKM_OK);
    assert_int_equal(facts.cost, -7);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static ckm_status hear_deadline(ckm_i_solver *solver, ckm_error *err)
{
    (void)err;
    assert_true(solver->deadline_seconds == 5.0);
    return CKM_ERR_MEMORY;
}

static void a_deadline_of_its_own_ends_with_the_work(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 100);
    assert_true(ckm_i_solver_end(&solver) == solver.start_seconds + CKM_I_DEFAULT_SECONDS);
    solver.deadline_seconds = 7.0;
    assert_true(ckm_i_solver_end(&solver) == 7.0);
    assert_int_equal(ckm_i_solver_run_until(&solver, 5.0, hear_deadline, NULL), CKM_ERR_MEMORY);
    assert_true(solver.deadline_seconds == 7.0);
    assert_true(ckm_i_slice_is_over(&(ckm_i_slice){&solver, -INFINITY}));
    assert_false(ckm_i_slice_is_over(&(ckm_i_slice){&solver, INFINITY}));
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

// Holds everything; or forgets layer 0 once it has been read, and layer 1 until it is read again.
static void hold(ckm_i_stages *stages, bool forgets)
{
    for (int32_t t = 1; t < 9; t++) {
        for (int32_t x = 0; x < t; x++) {
            if (!forgets || !((x == 0 && t >= 2) || (x == 1 && t >= 3 && t <= 6))) {
                ckm_i_bits_set(ckm_i_stages_s(stages, t), x);
            }
        }
    }
}

static void matrices_count_as_lists_do(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_stages *stages = NULL;
    int64_t cost = -1;
    int64_t peak = -1;
    ckm_i_solver_init(&solver, df, &options, 100);
    offer(&solver, waste, 10, "list");
    assert_null(solver.best_stages);
    assert_int_equal(ckm_i_stages_create(df, &stages, NULL), CKM_OK);
    hold(stages, true);
    assert_int_equal(ckm_i_solver_offer(&solver, stages, "dear", &cost, NULL, NULL), CKM_OK);
    assert_int_equal(cost, 12);
    assert_int_equal(solver.least_peak_bytes, 6);  // the peak of an expensive schedule is not computed
    assert_int_equal(ckm_i_solver_offer(&solver, stages, "dear", NULL, &peak, NULL), CKM_OK);
    assert_int_equal(peak, 5);
    assert_int_equal(solver.least_peak_bytes, 5);
    hold(stages, false);
    assert_int_equal(ckm_i_solver_offer(&solver, stages, "all held", &cost, &peak, NULL), CKM_OK);
    assert_int_equal(cost, 9);
    assert_int_equal(peak, 6);
    assert_int_equal(solver.best_cost, 9);
    assert_non_null(solver.best_stages);
    assert_string_equal(solver.best_source, "all held");
    ckm_i_stages_free(stages);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

// As expensive as the best, and smaller: it counts, although its peak is not requested.
static void matrices_that_are_smaller_count(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_stages *stages = NULL;
    ckm_i_solver_init(&solver, df, &options, 100);
    offer(&solver, early, 12, "list");
    assert_int_equal(solver.best_peak_bytes, 6);
    assert_int_equal(ckm_i_stages_create(df, &stages, NULL), CKM_OK);
    hold(stages, true);
    assert_int_equal(ckm_i_solver_offer(&solver, stages, "matrices", NULL, NULL, NULL), CKM_OK);
    assert_int_equal(solver.best_cost, 12);
    assert_int_equal(solver.best_peak_bytes, 5);
    ckm_i_stages_free(stages);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

// Everything once costs 6 * 2^60; computed again and again it would be more than a number holds.
static void what_no_number_holds_does_not_count(void **state)
{
    (void)state;
    static const layer_spec layers[] = {{.cost = INT64_C(1) << 60, .bytes = 1},
                                        {.cost = INT64_C(1) << 60, .bytes = 1, .n_operands = 1, .operands = {0}}};
    static const int32_t often[] = {0, 0, 0, 1, 2, 3, 4};
    ckm_dataflow *df = layer_graph_build(layers, 2, 0, 1, true);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_stages *stages = NULL;
    int64_t cost = 0;
    ckm_i_solver_init(&solver, df, &options, 100);
    assert_int_equal(ckm_i_stages_create(df, &stages, NULL), CKM_OK);
    assert_int_equal(ckm_i_solver_offer(&solver, stages, "matrices", &cost, NULL, NULL), CKM_OK);
    assert_true(cost == INT64_MAX);
    offer(&solver, often, 7, "list");
    assert_null(solver.best_schedule);
    ckm_schedule *schedule = steps_of(df, often, 7);
    assert_int_equal(ckm_i_solver_note_least(&solver, schedule, NULL), CKM_OK);
    assert_null(solver.least_schedule);
    ckm_schedule_free(schedule);
    offer(&solver, often + 2, 5, "once");
    assert_true(solver.best_cost == 6 * (INT64_C(1) << 60));
    ckm_i_stages_free(stages);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void the_largest_bound_of_the_widest_class_counts(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 100);
    ckm_i_solver_bound(&solver, NAN, CKM_BOUND_ANY, "none");
    assert_int_equal(h.n_progress, 0);
    ckm_i_solver_bound(&solver, 10.0, CKM_BOUND_FRONTIER, "frontier");
    assert_true(solver.bound_cost == 10.0);
    assert_int_equal(h.n_progress, 1);
    assert_int_equal(h.last.incumbent_cost, -1);
    assert_true(h.last.bound_cost == 10.0 && isnan(h.last.gap));
    ckm_i_solver_bound(&solver, 10.0, CKM_BOUND_ANY, "wider");
    assert_int_equal(solver.bound_covers, CKM_BOUND_ANY);
    ckm_i_solver_bound(&solver, 10.0, CKM_BOUND_ORDER, "narrower");
    ckm_i_solver_bound(&solver, 9.5, CKM_BOUND_ANY, "smaller");
    assert_true(solver.bound_cost == 10.0 && solver.bound_covers == CKM_BOUND_ANY);
    assert_int_equal(h.n_progress, 2);
    ckm_i_solver_bound(&solver, 11.0, CKM_BOUND_ORDER, "larger");
    assert_true(solver.bound_cost == 11.0 && solver.bound_covers == CKM_BOUND_ORDER);
    offer(&solver, twice, 12, "twice");
    assert_true(ckm_i_solver_gap(&solver) == 1.0 / 11.0);
    assert_true(h.last.gap == 1.0 / 11.0);
    ckm_i_solver_bound(&solver, 12.0, CKM_BOUND_ORDER, "equal");
    assert_true(ckm_i_solver_gap(&solver) == 0.0);
    assert_int_equal(h.n_errors, 0);
    ckm_i_solver_bound(&solver, 12.5, CKM_BOUND_ORDER, "wrong");
    assert_true(solver.bound_cost == 12.0);
    assert_int_equal(h.n_errors, 1);
    solver.bound_cost = 12.5;
    solver.bound_covers = CKM_BOUND_ORDER;
    offer(&solver, once, 9, "once");  // it shows that the bound is wrong
    assert_true(solver.bound_cost == 9.0 && solver.bound_covers == CKM_BOUND_ANY);
    assert_int_equal(h.n_errors, 2);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

// An operator of a merged problem may stand for several: what is proven for its own stages is not about those of the graph.
static void claims_about_merged_operators_are_ignored(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 100);
    solver.operators_merged = true;
    ckm_i_solver_bound(&solver, 10.0, CKM_BOUND_FRONTIER, "frontier");
    assert_true(isnan(solver.bound_cost));
    ckm_i_solver_infeasible(&solver, CKM_BOUND_FRONTIER, "frontier");
    assert_false(solver.infeasible);
    ckm_i_solver_bound(&solver, 10.0, CKM_BOUND_ORDER, "order");
    assert_true(solver.bound_cost == 10.0);
    ckm_i_solver_infeasible(&solver, CKM_BOUND_ORDER, "order");
    assert_true(solver.infeasible);
    assert_int_equal(solver.infeasible_covers, CKM_BOUND_ORDER);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void gaps(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 100);
    solver.bound_cost = 6.0;
    assert_true(isnan(ckm_i_solver_gap(&solver)));
    assert_true(ckm_i_solver_told_bound(&solver) == 6.0);
    offer(&solver, once, 9, "once");
    assert_true(ckm_i_solver_gap(&solver) == 0.5);
    solver.bound_cost = 0.0;
    assert_true(isinf(ckm_i_solver_gap(&solver)));
    solver.bound_cost = NAN;
    assert_true(isnan(ckm_i_solver_gap(&solver)));
    solver.bound_cost = 20.0;
    assert_true(ckm_i_solver_gap(&solver) == 0.0);
    assert_true(ckm_i_solver_told_bound(&solver) == 9.0);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void when_to_stop(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    heard h = {0};
    ckm_solve_options options = options_for(&h);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, 100);
    ckm_i_solver_bound(&solver, 6.0, CKM_BOUND_ANY, "bound");
    options.cost_limit = 9;
    assert_false(ckm_i_solver_should_stop(&solver));  // nothing is found
    solver.give_up_seconds = -INFINITY;
    assert_true(ckm_i_solver_should_stop(&solver));
    options.cost_limit = -1;
    offer(&solver, once, 9, "once");
    assert_false(ckm_i_solver_should_stop(&solver));  // nothing to give up
    options.cost_limit = 8;
    assert_false(ckm_i_solver_should_stop(&solver));
    options.cost_limit = 9;
    assert_true(ckm_i_solver_should_stop(&solver));
    options.cost_limit = -1;
    options.gap = 0.49;
    assert_false(ckm_i_solver_should_stop(&solver));
    options.gap = 0.5;
    assert_true(ckm_i_solver_should_stop(&solver));
    options.gap = 0.0;
    h.stops = true;
    assert_true(ckm_i_solver_should_stop(&solver));
    h.stops = false;
    solver.infeasible = true;
    assert_true(ckm_i_solver_should_stop(&solver));
    solver.infeasible = false;
    solver.deadline_seconds = -INFINITY;
    assert_true(ckm_i_solver_should_stop(&solver));
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void how_late_is_late(void **state)
{
    (void)state;
    ckm_i_solver solver = {.deadline_seconds = 1e18, .latest_seconds = INFINITY};
    assert_true(ckm_i_solver_late_until(&solver, 5.0) == 1e18);
    double now = ckm_i_clock_seconds();
    solver.deadline_seconds = now - 1000.0;
    assert_true(ckm_i_solver_late_until(&solver, 5.0) == now - 1000.0 + 0.8);
    solver.deadline_seconds = now;
    double until = ckm_i_solver_late_until(&solver, 0.5);
    assert_true(until >= now + 0.5 && until <= now + 0.8);
}

static ckm_solve_result solve(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes, int64_t cost_limit)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget_bytes;
    options.strategy = strategy;
    options.cost_limit = cost_limit;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.budget_bytes, budget_bytes);
    assert_int_equal(result.baseline_cost, 9);
    assert_int_equal(result.baseline_peak_bytes, 6);
    assert_int_equal(result.floor_bytes, 4);
    return result;
}

static void what_a_solve_concludes(void **state)
{
    (void)state;
    static const struct {
        int64_t budget, cost_limit;
        ckm_solve_status status;
        int64_t cost, least_peak;
    } rows[] = {
        {6, -1, CKM_SOLVE_OPTIMAL, 9, 6},   {6, 9, CKM_SOLVE_OPTIMAL, 9, 6},
        {6, 0, CKM_SOLVE_OPTIMAL, 9, 6},    {6, 8, CKM_SOLVE_INFEASIBLE, -1, -1},  // the bound is above the limit
        {5, -1, CKM_SOLVE_UNKNOWN, -1, -1},                                        // checkpoint-all keeps everything
        {5, 9, CKM_SOLVE_UNKNOWN, -1, -1},  {3, -1, CKM_SOLVE_INFEASIBLE, -1, -1}};
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ckm_solve_result result = solve(df, "checkpoint-all", rows[i].budget, rows[i].cost_limit);
        assert_int_equal(result.status, rows[i].status);
        assert_int_equal(result.cost, rows[i].cost);
        assert_int_equal(result.peak_bytes, rows[i].cost < 0 ? -1 : 6);
        assert_int_equal(result.least_peak_bytes, rows[i].least_peak);
        assert_int_equal(result.schedule != NULL, rows[i].cost >= 0);
        assert_true(rows[i].cost < 0 ? isnan(result.gap) : result.gap == 0.0);
        assert_true(result.bound_cost == 9.0);
        assert_int_equal(result.bound_covers, CKM_BOUND_ANY);
        assert_string_equal(result.strategy, "checkpoint-all");
        assert_true(result.seconds >= 0.0);
        if (result.schedule != NULL) {
            const ckm_schedule_info *info = ckm_schedule_get_info(result.schedule);
            assert_int_equal(info->budget_bytes, 6);
            assert_int_equal(info->cost, 9);
            assert_int_equal(info->baseline_cost, 9);
            assert_int_equal(info->peak_bytes, 6);
            assert_true(info->optimal && info->bound_cost == 9.0 && info->bound_covers == CKM_BOUND_ANY);
            assert_string_equal(info->strategy, "checkpoint-all");
            assert_string_equal(info->graph, ckm_dataflow_name(df));
        }
        ckm_solve_result_dispose(&result);
        assert_null(result.schedule);
    }
    ckm_dataflow_free(df);
}

// Below what the graph's own figure allows, nothing is tried, so that nothing is known to fit.
static void without_hope_nothing_is_tried(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (int64_t budget = 3; budget <= 4; budget++) {
        ckm_solve_result result = solve(df, "checkpoint-last", budget, -1);
        assert_int_equal(result.status == CKM_SOLVE_INFEASIBLE, budget == 3);
        assert_int_equal(result.least_peak_bytes, budget == 3 ? -1 : 4);
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

// Nothing is proven of a schedule above its bound; one handed in to start with counts, with its own strategy's name.
static void what_is_known_before(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_solve_result result;
    ckm_schedule *start = steps_of(df, twice, 12);
    ckm_schedule_info info = {.strategy = "mine"};
    options.budget_bytes = 5;
    options.strategy = "checkpoint-all";
    options.start = start;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_SOLVE_FEASIBLE);
    assert_int_equal(result.cost, 12);
    assert_true(result.gap == 3.0 / 9.0);
    assert_string_equal(result.strategy, "start");
    assert_false(ckm_schedule_get_info(result.schedule)->optimal);
    ckm_solve_result_dispose(&result);
    ckm_schedule_set_info(start, &info);
    ckm_i_bound_line line = {.at_bytes = 5, .unit_bytes = 1, .down = 10.5, .up = -INFINITY, .cost_gcd = 1};
    ckm_i_bound_lines lines = {.n = 1, .cap = 1, .at = &line};
    ckm_i_known known = {.bound_cost = NAN, .lines = &lines};
    assert_int_equal(ckm_i_solve_known(df, &options, 4, &known, &result, NULL), CKM_OK);
    assert_string_equal(result.strategy, "mine");
    assert_true(result.bound_cost == 11.0);
    assert_int_equal(result.bound_covers, CKM_BOUND_ORDER);
    ckm_solve_result_dispose(&result);
    known.bound_cost = 12.0;
    known.bound_covers = CKM_BOUND_ANY;
    assert_int_equal(ckm_i_solve_known(df, &options, 4, &known, &result, NULL), CKM_OK);
    assert_true(result.bound_cost == 12.0);
    assert_int_equal(result.bound_covers, CKM_BOUND_ANY);
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    ckm_solve_result_dispose(&result);
    ckm_schedule_free(start);
    ckm_dataflow_free(df);
}

// "optimal": within 0.01 % of the bound, and no further.
static void optimal_is_within_a_ten_thousandth(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (int k = 0; k < 2; k++) {
        ckm_solve_options options = ckm_i_solve_options_usual();
        ckm_solve_result result;
        ckm_schedule *start = steps_of(df, twice, 12);
        ckm_i_known known = {.bound_cost = k == 0 ? 11.9989 : 11.9985, .bound_covers = CKM_BOUND_ANY};
        options.budget_bytes = 5;
        options.strategy = "checkpoint-all";
        options.start = start;
        assert_int_equal(ckm_i_solve_known(df, &options, 4, &known, &result, NULL), CKM_OK);
        assert_int_equal(result.status, k == 0 ? CKM_SOLVE_OPTIMAL : CKM_SOLVE_FEASIBLE);
        ckm_solve_result_dispose(&result);
        ckm_schedule_free(start);
    }
    ckm_dataflow_free(df);
}

// What is done at the end of a solve, such as looking for what would fit, is left out where another one follows, and of many budgets.
static void what_another_solve_does(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (int k = 0; k < 3; k++) {
        ckm_solve_options options = ckm_i_solve_options_usual();
        ckm_solve_result result;
        ckm_i_known known = {.bound_cost = NAN, .comes_back = k == 1, .of_many = k == 2};
        options.budget_bytes = 3;
        assert_int_equal(ckm_i_solve_known(df, &options, 4, &known, &result, NULL), CKM_OK);
        assert_int_equal(result.status, CKM_SOLVE_INFEASIBLE);
        assert_int_equal(result.least_peak_bytes, k == 0 ? 4 : -1);
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

static void what_is_refused(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    ckm_solve_result none;
    assert_int_equal(ckm_solve(df, NULL, &none, NULL), CKM_ERR_ARGUMENT);
    ckm_solve_result_dispose(NULL);
    for (int k = 0; k < 4; k++) {
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = k == 0 ? -1 : 10;
        options.gap = k == 1 ? -0.5 : k == 2 ? NAN : CKM_NONE;
        assert_int_equal(ckm_solve(df, &options, &result, NULL), k < 3 ? CKM_ERR_ARGUMENT : CKM_OK);
        if (k == 3) {
            ckm_solve_result_dispose(&result);
        }
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cheapest_that_fits_counts),
        cmocka_unit_test(the_smallest_over_the_budget_is_kept),
        cmocka_unit_test(of_two_as_cheap_the_smaller_counts),
        cmocka_unit_test(what_is_only_noted_does_not_count),
        cmocka_unit_test(the_plain_run_is_handed_in_once),
        cmocka_unit_test(a_deadline_of_its_own_ends_with_the_work),
        cmocka_unit_test(matrices_count_as_lists_do),
        cmocka_unit_test(matrices_that_are_smaller_count),
        cmocka_unit_test(what_no_number_holds_does_not_count),
        cmocka_unit_test(the_largest_bound_of_the_widest_class_counts),
        cmocka_unit_test(claims_about_merged_operators_are_ignored),
        cmocka_unit_test(gaps),
        cmocka_unit_test(when_to_stop),
        cmocka_unit_test(how_late_is_late),
        cmocka_unit_test(what_a_solve_concludes),
        cmocka_unit_test(without_hope_nothing_is_tried),
        cmocka_unit_test(what_is_known_before),
        cmocka_unit_test(optimal_is_within_a_ten_thousandth),
        cmocka_unit_test(what_another_solve_does),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
