// SPDX-License-Identifier: Apache-2.0
// What is held as a list of spans gives the schedule that completed matrices give: on chains and on random graphs the same
// cost, and no larger peak.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "layer_graph.h"
#include "oracle_random.h"
#include "schedule/stages.h"
#include "solve/checkpoints/checkpoints.h"

static void check(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static ckm_simulation schedule_of(ckm_i_holds *holds)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *schedule = NULL;
    ckm_verdict verdict;
    check(ckm_i_holds_schedule(holds, NULL, NULL, &schedule, &err), &err);
    assert_non_null(schedule);
    check(ckm_schedule_verify(holds->df, schedule, -1, &verdict, &err), &err);
    assert_string_equal(verdict.why, "");
    ckm_schedule_free(schedule);
    ckm_i_holds_dispose(holds);
    return (ckm_simulation){.cost = verdict.cost, .peak_bytes = verdict.peak_bytes};
}

static ckm_i_stages *create(const ckm_dataflow *df)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *stages = NULL;
    check(ckm_i_stages_create(df, &stages, &err), &err);
    return stages;
}

// Completed, since what nothing uses is not in the list's schedule either.
static void compare(ckm_i_stages *stages, ckm_simulation list)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t peak = -1;
    check(ckm_i_stages_complete(stages, &err), &err);
    check(ckm_i_stages_peak(stages, &peak, &err), &err);
    assert_int_equal(list.cost, ckm_i_stages_cost(stages));
    assert_true(list.peak_bytes <= peak);
    ckm_i_stages_free(stages);
}

static void checkpoints_of_chains(void **state)
{
    (void)state;
    for (int32_t n = 1; n <= 40; n++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = layer_graph_unit_chain(n);
        ckm_i_forward *fw = NULL;
        ckm_i_positions all = {0};
        ckm_i_positions chosen = {0};
        check(ckm_i_forward_create(df, &fw, &err), &err);
        check(ckm_i_candidates_find(fw, CKM_I_CANDIDATES_ALL, &all, &err), &err);
        check(ckm_i_positions_create(fw, &chosen, &err), &err);
        ckm_i_checkpoints_sqrt(&all, &chosen);
        ckm_i_stages *stages = create(df);
        check(ckm_i_checkpoints_stages(fw, &chosen, stages, &err), &err);
        ckm_i_holds holds = {.df = df};
        ckm_i_checkpoints_hold_set(fw, &chosen, &holds);
        compare(stages, schedule_of(&holds));
        ckm_i_griewank *gw = NULL;
        check(ckm_i_griewank_create(fw, &gw, &err), &err);
        for (int32_t slots = 2; slots <= ckm_i_griewank_states(gw); slots += 3) {
            stages = create(df);
            check(ckm_i_griewank_stages(gw, slots, stages, &err), &err);
            check(ckm_i_griewank_hold(gw, slots, &holds, &err), &err);
            compare(stages, schedule_of(&holds));
        }
        ckm_i_griewank_free(gw);
        ckm_i_positions_dispose(&all);
        ckm_i_positions_dispose(&chosen);
        ckm_i_forward_free(fw);
        ckm_dataflow_free(df);
    }
}

// Random spans on random graphs, with operators that run once, views and in-place pairs: legal, and no cheaper than the
// completed matrices, which drop what is held in vain.
static void random_spans(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 5};
    int64_t listed = 0;
    for (int64_t round = oracle_scaled(3000); round > 0; round--) {
        ckm_error err = CKM_ERROR_INIT;
        oracle_graph g;
        oracle_random_graph(&rng, 2, 8, 10, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_stages *stages = create(df);
        ckm_i_holds holds = {.df = df};
        ckm_i_holds bits = {.df = df, .stages = stages};
        for (int i = 0; i < 6; i++) {
            int32_t x = (int32_t)ckm_i_rng_below(&rng, (uint32_t)g.n_tensors);
            int32_t first = (int32_t)ckm_i_rng_below(&rng, (uint32_t)g.n_ops);
            int32_t last = first + (int32_t)ckm_i_rng_below(&rng, 4);
            ckm_i_holds_add(&holds, x, first, last);
            ckm_i_holds_add(&bits, x, first, last);
        }
        check(ckm_i_stages_complete(stages, &err), &err);
        ckm_schedule *schedule = NULL;
        check(ckm_i_holds_schedule(&holds, NULL, NULL, &schedule, &err), &err);
        if (schedule != NULL) {  // it may compute too much: what is held in vain is computed, too
            ckm_verdict verdict;
            check(ckm_schedule_verify(df, schedule, -1, &verdict, &err), &err);
            assert_string_equal(verdict.why, "");
            assert_true(verdict.cost >= ckm_i_stages_cost(stages));
            listed++;
        }
        ckm_schedule_free(schedule);
        ckm_i_holds_dispose(&holds);
        ckm_i_stages_free(stages);
        ckm_dataflow_free(df);
    }
    assert_true(listed > 0);
}

static bool stop_at_once(void *user)
{
    (void)user;
    return true;
}

// Layers and a backward operator for each, which reads it and the gradient before.
static ckm_dataflow *long_chain(int32_t layers)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    check(ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, &err), &err);
    for (int32_t v = 0; v < 2 * layers; v++) {
        int32_t inputs[2] = {v - 1, 2 * layers - 1 - v};
        int32_t output = 0;
        ckm_dataflow_tensor tensor = {.bytes = 1, .alias_of = -1};
        check(ckm_dataflow_add_tensor(df, &tensor, &output, &err), &err);
        ckm_dataflow_op op = {.kind = v < layers ? CKM_OP_FORWARD : CKM_OP_BACKWARD,
                              .cost = 1,
                              .n_inputs = v == 0        ? 0
                                          : v <= layers ? 1
                                                        : 2,
                              .inputs = inputs,
                              .n_outputs = 1,
                              .outputs = &output};
        check(ckm_dataflow_add_op(df, &op, NULL, &err), &err);
    }
    check(ckm_dataflow_finish(df, &err), &err);
    return df;
}

static void hopeless_ones_are_given_up(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    // Some n * n / 2 computations: fifty an operator are few where that is 20,000, and too many where it is 4,500,000.
    static const int layers[] = {200, 3000};
    for (int i = 0; i < 2; i++) {
        ckm_dataflow *df = long_chain(layers[i]);
        ckm_i_holds holds = {.df = df};
        ckm_schedule *schedule = NULL;
        ckm_i_checkpoints_hold_last(&holds);
        check(ckm_i_holds_schedule(&holds, NULL, NULL, &schedule, &err), &err);
        assert_int_equal(schedule == NULL, i == 1);
        ckm_schedule_free(schedule);
        schedule = NULL;
        if (i == 1) {
            check(ckm_i_holds_schedule(&holds, stop_at_once, NULL, &schedule, &err), &err);
            assert_null(schedule);
        }
        ckm_i_holds_dispose(&holds);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_of_chains),
        cmocka_unit_test(random_spans),
        cmocka_unit_test(hopeless_ones_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
