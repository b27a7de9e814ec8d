// SPDX-License-Identifier: Apache-2.0
// ckm_max_batch on chains whose largest batches can be computed by hand or by scanning.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/max_batch.h>

// A chain of `layers` layers in the paper's form: the layers, the loss, backward in reverse order.
typedef struct chain {
    int layers;
    int64_t fixed_bytes, unit_bytes, cost;
    bool grows;                      // bytes follow the batch
    int64_t backward_cost_a_sample;  // 0: backward operators cost as much as the others, whatever the batch
    int builds, fail_at;             // fail_at > 0: that call of the builder fails
} chain;

static ckm_status add_op(ckm_dataflow *df, ckm_op_kind kind, int64_t cost, int64_t bytes, const int32_t *inputs, int n,
                         ckm_error *err)
{
    int32_t tensor = 0;
    ckm_dataflow_tensor output = {.bytes = bytes};
    ckm_status status = ckm_dataflow_add_tensor(df, &output, &tensor, err);
    if (status != CKM_OK) {
        return status;
    }
    ckm_dataflow_op op = {
        .kind = kind, .cost = cost, .n_inputs = n, .inputs = inputs, .n_outputs = 1, .outputs = &tensor};
    return ckm_dataflow_add_op(df, &op, NULL, err);
}

static ckm_status build(int64_t batch, void *user, ckm_dataflow **out, ckm_error *err)
{
    chain *c = user;
    ckm_dataflow *df = NULL;
    c->builds++;
    if (c->builds == c->fail_at) {
        err->code = CKM_ERR_IO;
        return CKM_ERR_IO;
    }
    int64_t bytes = c->grows ? 0 : c->unit_bytes;
    if (c->grows && __builtin_mul_overflow(c->unit_bytes, batch, &bytes)) {
        err->code = CKM_ERR_OVERFLOW;
        return CKM_ERR_OVERFLOW;
    }
    ckm_status status = ckm_dataflow_create("chain", CKM_COST_FLOPS, c->fixed_bytes, &df, err);
    int n = c->layers;
    for (int v = 0; status == CKM_OK && v <= 2 * n; v++) {
        int32_t inputs[3];
        int k = 0;
        ckm_op_kind kind = v < n ? CKM_OP_FORWARD : v == n ? CKM_OP_LOSS : CKM_OP_BACKWARD;
        if (v > 0) {
            inputs[k++] = v - 1;
        }
        if (v > n) {
            int layer = 2 * n - v;  // its own output, and that of its consumer
            inputs[k++] = layer;
            if (layer + 1 < n) {
                inputs[k++] = layer + 1;
            }
        }
        int64_t cost = kind == CKM_OP_LOSS ? 0 : c->cost;
        if (kind == CKM_OP_BACKWARD && c->backward_cost_a_sample > 0) {
            cost = c->backward_cost_a_sample * batch;
        }
        status = add_op(df, kind, cost, bytes, inputs, k, err);
    }
    if (status == CKM_OK) {
        status = ckm_dataflow_finish(df, err);
    }
    if (status != CKM_OK) {
        ckm_dataflow_free(df);
        return status;
    }
    *out = df;
    return CKM_OK;
}

static ckm_max_batch_options options_for(chain *c, int64_t memory_bytes, const char *strategy)
{
    static ckm_solve_options solve = CKM_SOLVE_OPTIONS_INIT;
    ckm_max_batch_options options = CKM_MAX_BATCH_OPTIONS_INIT;
    options.memory_bytes = memory_bytes;
    solve.strategy = strategy;
    solve.time_limit_seconds = 60;
    options.solve = &solve;
    options.user = c;
    return options;
}

static int64_t peak_without_rematerialization(chain *c)
{
    ckm_dataflow *df = NULL;
    ckm_schedule *schedule = NULL;
    ckm_simulation facts;
    ckm_error err;
    assert_int_equal(build(1, c, &df, &err), CKM_OK);
    assert_int_equal(ckm_schedule_baseline(df, &schedule, &err), CKM_OK);
    assert_int_equal(ckm_schedule_simulate(df, schedule, NULL, &facts, &err), CKM_OK);
    ckm_schedule_free(schedule);
    ckm_dataflow_free(df);
    return facts.peak_bytes - c->fixed_bytes;
}

// Keeping everything, the peak is fixed + batch * p, so that the largest batch follows from a division.
static void test_keeping_everything(void **state)
{
    (void)state;
    chain c = {.layers = 6, .fixed_bytes = 1000, .unit_bytes = 7, .cost = 3, .grows = true};
    int64_t p = peak_without_rematerialization(&c);
    for (int64_t memory = 1000 + p; memory < 1000 + 40 * p; memory += 13) {
        ckm_error err;
        ckm_max_batch_result result;
        ckm_max_batch_options options = options_for(&c, memory, "checkpoint-all");
        assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
        assert_int_equal(result.max_batch, (memory - 1000) / p);
        assert_int_equal(result.peak_bytes, 1000 + result.max_batch * p);
        assert_int_equal(result.cost, result.baseline_cost);
        assert_true(result.upper_bound >= result.max_batch);
        assert_int_equal(result.status == CKM_SOLVE_OPTIMAL, result.upper_bound == result.max_batch);
        ckm_max_batch_result_dispose(&result);

        // On a grid: the largest of its batches that is not above that.
        int64_t all = (memory - 1000) / p;
        options.batch_min = 3;
        options.batch_step = 5;
        assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
        assert_int_equal(result.max_batch, all < 3 ? 0 : 3 + (all - 3) / 5 * 5);
        ckm_max_batch_result_dispose(&result);

        // The paper's rule counts the fixed bytes twice for this strategy.
        options.batch_min = options.batch_step = 1;
        options.accounting = CKM_ACCOUNTING_PAPER;
        assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
        assert_int_equal(result.max_batch, memory - 2000 < p ? 0 : (memory - 2000) / p);
        ckm_max_batch_result_dispose(&result);
    }
}

// Every strategy, against solving batch after batch.
static void test_against_scanning(void **state)
{
    static const char *const strategies[] = {"checkpoint-last", "chen-sqrt", "chen-greedy", "griewank", "ilp"};
    (void)state;
    chain c = {.layers = 5, .fixed_bytes = 100, .unit_bytes = 10, .cost = 1, .grows = true};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        for (int factor = 0; factor <= 2; factor++) {
            ckm_error err;
            ckm_max_batch_result result;
            ckm_max_batch_options options = options_for(&c, 430, strategies[i]);
            options.compute_limit = factor == 0 ? 0 : factor == 1 ? 1.0 : 1.25;
            assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
            int64_t largest = 0;
            for (int64_t batch = 1; batch <= 12; batch++) {
                ckm_dataflow *df = NULL;
                assert_int_equal(build(batch, &c, &df, &err), CKM_OK);
                ckm_solve_options solving = CKM_SOLVE_OPTIONS_INIT;
                ckm_solve_result solved;
                solving.strategy = strategies[i];
                solving.budget_bytes = 430;
                // 10 operators of cost 1, 5 of them forward.
                solving.cost_limit = factor == 0 ? 15 : factor == 1 ? 10 : 12;
                assert_int_equal(ckm_solve(df, &solving, &solved, &err), CKM_OK);
                if (solved.schedule != NULL && solved.cost <= solving.cost_limit) {
                    largest = batch;
                }
                ckm_solve_result_dispose(&solved);
                ckm_dataflow_free(df);
            }
            assert_int_equal(result.max_batch, largest);
            if (strcmp(strategies[i], "ilp") == 0) {
                assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
            }
            ckm_max_batch_result_dispose(&result);
        }
    }
}

// Forward operators cost the same whatever the batch, as the launch of a kernel does: the limit, a part of all costs, admits a
// second run of one at large batches only. That a smaller batch costs too much says nothing of these.
static void test_costs_that_do_not_grow_together(void **state)
{
    (void)state;
    chain c = {
        .layers = 6, .fixed_bytes = 0, .unit_bytes = 100, .cost = 100, .grows = true, .backward_cost_a_sample = 10};
    ckm_error err = CKM_ERROR_INIT;
    int64_t p = peak_without_rematerialization(&c);
    int lost = 0;
    for (int64_t memory = 14 * p; memory < 26 * p; memory += p / 2) {
        ckm_max_batch_options options = options_for(&c, memory, "auto");
        options.compute_limit = 1.1;
        ckm_max_batch_result result;
        assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
        int64_t largest = 0;
        for (int64_t batch = 1; batch <= 60; batch++) {
            ckm_dataflow *df = NULL;
            ckm_solve_options solve = *options.solve;
            ckm_solve_result at;
            assert_int_equal(build(batch, &c, &df, &err), CKM_OK);
            solve.budget_bytes = memory;
            solve.cost_limit = ckm_dataflow_total_cost(df) * 11 / 10;
            assert_int_equal(ckm_solve(df, &solve, &at, &err), CKM_OK);
            largest = at.schedule != NULL && at.cost <= solve.cost_limit ? batch : largest;
            ckm_solve_result_dispose(&at);
            ckm_dataflow_free(df);
        }
        assert_true(result.max_batch <= largest && largest <= result.upper_bound);
        lost += result.max_batch < largest;
        ckm_max_batch_result_dispose(&result);
    }
    printf("%d largest batches not found\n", lost);
}

static void test_nothing_fits(void **state)
{
    (void)state;
    chain c = {.layers = 4, .fixed_bytes = 1000, .unit_bytes = 7, .cost = 3, .grows = true};
    ckm_error err;
    ckm_max_batch_result result;
    ckm_max_batch_options options = options_for(&c, 1010, "checkpoint-all");
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
    assert_int_equal(result.status, CKM_SOLVE_INFEASIBLE);
    assert_int_equal(result.max_batch, 0);
    assert_int_equal(result.upper_bound, 0);
    assert_null(result.schedule);
    ckm_max_batch_result_dispose(&result);
    // A floor that fits, but no schedule of this strategy.
    options.memory_bytes = 1000 + 5 * 7;
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
    assert_int_equal(result.status, CKM_SOLVE_UNKNOWN);
    assert_int_equal(result.max_batch, 0);
    assert_int_equal(result.upper_bound, 1);
    assert_int_equal(result.cost, -1);
    ckm_max_batch_result_dispose(&result);
}

static void test_errors(void **state)
{
    (void)state;
    chain c = {.layers = 4, .fixed_bytes = 0, .unit_bytes = 7, .cost = 3, .grows = true};
    ckm_error err = CKM_ERROR_INIT;
    ckm_max_batch_result result;
    ckm_max_batch_options options = options_for(&c, 1000, "no-such-strategy");
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_ERR_NOT_FOUND);
    options = options_for(&c, -1, "checkpoint-all");
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_ERR_ARGUMENT);
    options = options_for(&c, 1000, "checkpoint-all");
    options.compute_limit = 0.5;
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_ERR_ARGUMENT);
    options = options_for(&c, 1000, "checkpoint-all");
    options.batch_step = -1;
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_ERR_ARGUMENT);
    // Bytes that do not depend on the batch would let the search run on for ever.
    options = options_for(&c, 1000, "checkpoint-all");
    c.grows = false;
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "does not grow"));
    // The builder's failure is the search's, whichever call it is.
    c.grows = true;
    c.builds = 0;
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
    ckm_max_batch_result_dispose(&result);
    int calls = c.builds;
    for (int i = 1; i <= calls; i++) {
        c.builds = 0;
        c.fail_at = i;
        assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_ERR_IO);
    }
}

// Memory so large that byte counts overflow on the way: the overflow is a batch that does not fit.
static void test_overflow_bounds(void **state)
{
    (void)state;
    chain c = {.layers = 3, .fixed_bytes = 0, .unit_bytes = INT64_C(1) << 40, .cost = 1, .grows = true};
    ckm_error err;
    ckm_max_batch_result result;
    ckm_max_batch_options options = options_for(&c, INT64_MAX, "checkpoint-all");
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
    // Seven tensors: the graph is valid as long as their sum fits 63 bits.
    assert_int_equal(result.max_batch, INT64_MAX / (7 * (INT64_C(1) << 40)));
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    ckm_max_batch_result_dispose(&result);
}

static bool stop_at_once(void *user)
{
    (void)user;
    return true;
}

static void test_stop(void **state)
{
    (void)state;
    chain c = {.layers = 4, .fixed_bytes = 0, .unit_bytes = 7, .cost = 3, .grows = true};
    ckm_error err;
    ckm_max_batch_result result;
    ckm_max_batch_options options = options_for(&c, 1000, "checkpoint-all");
    ckm_solve_options solve = *options.solve;
    solve.stop = stop_at_once;
    options.solve = &solve;
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
    assert_int_equal(result.status, CKM_SOLVE_UNKNOWN);
    assert_true(result.upper_bound > 0);
    ckm_max_batch_result_dispose(&result);

    // Strategies that take any schedule have one at once: without rematerialization.
    solve.strategy = "auto";
    assert_int_equal(ckm_max_batch(&options, build, &result, &err), CKM_OK);
    assert_int_equal(result.status, CKM_SOLVE_FEASIBLE);
    assert_int_equal(result.max_batch, 1000 / peak_without_rematerialization(&c));
    assert_non_null(result.schedule);
    ckm_max_batch_result_dispose(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeping_everything),
        cmocka_unit_test(test_against_scanning),
        cmocka_unit_test(test_costs_that_do_not_grow_together),
        cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_overflow_bounds),
        cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
