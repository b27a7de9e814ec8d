// SPDX-License-Identifier: Apache-2.0
// What is said of a schedule for a region is about the room that there was, not about the lesser room that was solved for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

#include "layer_graph.h"

enum { LAYERS = 8, BYTES = 1000001 };  // a tensor takes 63 bytes more in an arena, and the region is in pages

static ckm_dataflow *chain(void)
{
    layer_spec layers[LAYERS];
    for (int32_t i = 0; i < LAYERS; i++) {
        layers[i] = (layer_spec){.cost = 1, .bytes = BYTES, .n_operands = i > 0, .operands = {i - 1}};
    }
    return layer_graph_build(layers, LAYERS, 0, BYTES, true);
}

static ckm_solve_result best_within(const ckm_dataflow *df, int64_t budget_bytes)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 20;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    ckm_solve_result_dispose(&result);
    return result;
}

static void a_bound_is_of_the_room_not_of_what_was_solved_for(void **state)
{
    ckm_dataflow *df = chain();
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_run_fit fit;
    ckm_solve_result result;
    (void)state;
    options.time_limit_seconds = 20;
    for (int64_t outside = 0; outside <= 12345; outside += 12345) {
        int64_t room = 6 * (int64_t)BYTES;  // six tensors fit, but not with what an arena rounds up
        ckm_solve_result roomy = best_within(df, room);
        ckm_solve_result tight = best_within(df, room - BYTES);
        assert_int_equal(roomy.status, CKM_SOLVE_OPTIMAL);
        assert_true(roomy.cost < tight.cost);
        assert_int_equal(ckm_trainer_fit(df, room + outside, outside, &options, &fit, &result, NULL), CKM_OK);
        assert_non_null(fit.schedule);
        assert_true(fit.rounds > 1 && fit.solved_budget_bytes < room && fit.region_bytes <= room);
        assert_true(result.cost >= tight.cost);
        assert_true(result.bound_cost <= (double)roomy.cost);
        assert_int_equal(result.status, CKM_SOLVE_FEASIBLE);
        assert_true(result.gap > 0.0 && result.budget_bytes == room);
        ckm_run_fit_dispose(&fit);
    }
    ckm_dataflow_free(df);
}

static void a_proof_for_less_is_none_for_the_room(void **state)
{
    ckm_dataflow *df = chain();
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_run_fit fit;
    ckm_solve_result result;
    ckm_min_budget_result least;
    (void)state;
    options.time_limit_seconds = 20;
    assert_int_equal(ckm_min_budget(df, &options, NULL, &least, NULL), CKM_OK);
    ckm_schedule_free(least.schedule);
    assert_int_equal(least.status, CKM_SOLVE_OPTIMAL);
    assert_int_equal(ckm_trainer_fit(df, least.budget_bytes, 0, &options, &fit, &result, NULL), CKM_OK);
    assert_null(fit.schedule);
    assert_int_equal(result.status, CKM_SOLVE_UNKNOWN);
    assert_int_equal(ckm_trainer_fit(df, least.budget_bytes - 1, 0, &options, &fit, &result, NULL), CKM_OK);
    assert_null(fit.schedule);
    assert_int_equal(result.status, CKM_SOLVE_INFEASIBLE);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_is_of_the_room_not_of_what_was_solved_for),
        cmocka_unit_test(a_proof_for_less_is_none_for_the_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
