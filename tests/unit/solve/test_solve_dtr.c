// SPDX-License-Identifier: Apache-2.0
// dtr: a chain in memory of the order of the square root of its length takes computations of the order of its length
// (Kirisame et al. 2021, theorem 3.1); and the budget decides, on any graph.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("dtr", 400, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("dtr", false);
}

static void linear_time_in_the_square_root_of_memory(void **state)
{
    (void)state;
    for (int32_t n = 9; n <= 225; n += 24) {
        ckm_dataflow *df = layer_graph_unit_chain(n);
        int64_t cost = strategy_cost(df, "dtr", (int64_t)(2.0 * ceil(sqrt(n))) + 4);
        if (cost < 0 || cost > 3 * (2 * n + 1)) {
            fail_msg("%d layers: %lld computations", (int)n, (long long)cost);
        }
        ckm_dataflow_free(df);
    }
}

static int32_t add(ckm_dataflow *df, int64_t cost, int64_t bytes, const int32_t *inputs, int32_t n_inputs)
{
    int32_t out = -1;
    ckm_dataflow_tensor tensor = {.bytes = bytes, .alias_of = -1};
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &out, NULL), CKM_OK);
    ckm_dataflow_op op = {.cost = cost, .n_inputs = n_inputs, .n_outputs = 1, .inputs = inputs, .outputs = &out};
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
    return out;
}

// No backward operator: the published heuristics have nothing to say. Two tensors of a size wait while a third one is there,
// for which one of them has to go: the one that costs 1, not the one that costs 50.
static void the_cheap_one_goes(void **state)
{
    (void)state;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("waiting", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    int32_t dear = add(df, 50, 10, NULL, 0);
    int32_t cheap = add(df, 1, 10, NULL, 0);
    int32_t wide = add(df, 1, 10, NULL, 0);
    int32_t narrow = add(df, 1, 1, &wide, 1);
    int32_t result = add(df, 1, 1, (const int32_t[]){dear, cheap, narrow}, 3);
    assert_int_equal(ckm_dataflow_add_result(df, result, NULL), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    assert_int_equal(strategy_cost(df, "dtr", 31), 54);
    assert_int_equal(strategy_cost(df, "dtr", 30), 55);
    assert_int_equal(strategy_cost(df, "dtr", 22), 55);
    assert_int_equal(strategy_cost(df, "dtr", 21), -1);
    ckm_dataflow_free(df);
}

// More memory for the same network, and what is dearer never comes out of the bisection by far: costs fall to nothing.
static void follows_the_budget(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_vgg19();
    ckm_solve_result plain = strategy_solve(df, "dtr", INT64_MAX);
    int64_t room = plain.baseline_peak_bytes - plain.floor_bytes;
    for (int32_t tenths = 3; tenths <= 10; tenths++) {
        int64_t budget = plain.floor_bytes + room / 10 * tenths + room % 10;
        int64_t cost = strategy_cost(df, "dtr", budget);
        int64_t best = strategy_cost(df, "auto", budget);
        assert_true(cost >= best && (double)cost <= 1.1 * (double)best);
    }
    ckm_solve_result_dispose(&plain);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(linear_time_in_the_square_root_of_memory),
        cmocka_unit_test(the_cheap_one_goes),
        cmocka_unit_test(follows_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
