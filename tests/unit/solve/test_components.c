// SPDX-License-Identifier: Apache-2.0
// Components of a solve: whatever is left out, what is claimed holds; what is left out is not called; what the counts say agrees with
// the result.
#include <checkmate/solve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "layer_graph.h"

static ckm_solve_result solve(const ckm_dataflow *df, const char *strategy, const char *without, int64_t budget)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget;
    options.strategy = strategy;
    options.without = without;
    options.time_limit_seconds = 0.5;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("without %s: %s", without != NULL ? without : "nothing", err.message);
    }
    return result;
}

static const ckm_component_use *use_of(const ckm_solve_result *result, const char *name)
{
    for (int32_t i = 0; i < result->n_components; i++) {
        if (strcmp(result->components[i].name, name) == 0) {
            return &result->components[i];
        }
    }
    fail_msg("no component is called %s", name);
    return NULL;
}

// Gains add up to the result: bounds rise from what every schedule costs to the one reported, if that is not capped by the cost.
static void check_counts(const ckm_dataflow *df, const ckm_solve_result *r)
{
    double bound = (double)ckm_dataflow_total_cost(df);
    int64_t schedules = 0;
    for (int32_t i = 0; i < r->n_components; i++) {
        const ckm_component_use *use = &r->components[i];
        assert_string_equal(use->name, ckm_solve_component_name(i));
        assert_true(use->calls >= 0 && use->seconds >= 0.0 && use->cost_gained >= 0.0 && use->bound_gained >= 0.0);
        if (use->calls == 0) {
            assert_true(use->schedules == 0 && use->bounds == 0);
        }
        bound += use->bound_gained;
        schedules += use->schedules;
    }
    assert_true(bound >= r->bound_cost * (1.0 - 1e-12));
    assert_int_equal(r->schedule != NULL, schedules > 0);
    assert_int_equal(r->found_by != NULL, r->schedule != NULL);
    if (r->found_by != NULL) {
        assert_true(use_of(r, r->found_by)->schedules > 0);
    }
    if (r->proven_by != NULL) {
        assert_true(use_of(r, r->proven_by)->bounds > 0);
    }
}

static void each_can_be_left_out(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(12);
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_result whole = solve(df, "auto", NULL, 6);
    assert_int_equal(whole.status, CKM_SOLVE_OPTIMAL);
    check_counts(df, &whole);
    for (int32_t i = 0; i < ckm_solve_component_count(); i++) {
        const char *name = ckm_solve_component_name(i);
        ckm_verdict verdict;
        ckm_solve_result r = solve(df, "auto", name, 6);
        assert_int_equal(use_of(&r, name)->calls, 0);
        check_counts(df, &r);
        assert_non_null(r.schedule);
        assert_int_equal(ckm_schedule_verify(df, r.schedule, 6, &verdict, &err), CKM_OK);
        assert_true(verdict.ok && verdict.cost == r.cost && r.cost >= whole.cost);
        assert_true(r.bound_cost <= (double)whole.cost);
        ckm_solve_result_dispose(&r);
    }
    ckm_solve_result_dispose(&whole);
    ckm_dataflow_free(df);
}

static void several_and_none(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(12);
    ckm_solve_result plain = solve(df, "auto", NULL, 100);
    assert_null(plain.found_by);  // no component found the schedule without rematerialization
    ckm_solve_result_dispose(&plain);
    ckm_solve_result r = solve(df, "auto", "quick,relaxations,programs,ilp,single-cut,chain", 6);
    assert_int_equal(use_of(&r, "quick")->calls + use_of(&r, "relaxations")->calls + use_of(&r, "programs")->calls +
                         use_of(&r, "ilp")->calls + use_of(&r, "single-cut")->calls + use_of(&r, "chain")->calls,
                     0);
    ckm_solve_result_dispose(&r);
    // A strategy whose components are left out finds nothing.
    ckm_solve_result none = solve(df, "ilp", "ilp,local-search,quick", 6);
    assert_int_equal(use_of(&none, "ilp")->calls, 0);
    assert_null(none.schedule);
    ckm_solve_result_dispose(&none);
    ckm_dataflow_free(df);
}

static void wrong_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {"quik", "", "quick,", "quick,,ilp", "quick, ilp", "QUICK"};
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = 8;
        options.without = wrong[i];
        assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_ERR_NOT_FOUND);
        assert_non_null(strstr(err.message, "no component is called"));
    }
    assert_null(ckm_solve_component_name(-1));
    assert_null(ckm_solve_component_name(ckm_solve_component_count()));
    assert_null(ckm_solve_component_summary(ckm_solve_component_count()));
    assert_int_equal(ckm_solve_component_kind(0), CKM_COMPONENT_REDUCES);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_can_be_left_out),
        cmocka_unit_test(several_and_none),
        cmocka_unit_test(wrong_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
