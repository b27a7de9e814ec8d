// SPDX-License-Identifier: Apache-2.0
// The builder: what it refuses, what it derives, and the memory floor on graphs worked by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataflow/dataflow.h"
#include "quoted.h"

static ckm_dataflow *empty(int32_t n_tensors)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("g", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t i = 0; i < n_tensors; i++) {
        ckm_dataflow_tensor tensor = {.bytes = 1};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    }
    return df;
}

static void add_op(ckm_dataflow *df, int32_t input, int32_t output)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow_op op = {.cost = 1, .n_inputs = 1, .inputs = &input, .n_outputs = 1, .outputs = &output};
    op.n_inputs = input == INT32_MIN ? 0 : 1;
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
}

static void assert_refused(ckm_dataflow *df, ckm_status code, const char *fragment)
{
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_dataflow_finish(df, &err), code);
    assert_error(&err, code, fragment);
    ckm_dataflow_free(df);
}

static void finish_refuses_what_is_not_a_graph(void **state)
{
    (void)state;
    assert_refused(empty(0), CKM_ERR_FORMAT, "no operators");

    ckm_dataflow *df = empty(2);
    add_op(df, 1, 0);
    add_op(df, INT32_MIN, 1);
    assert_refused(df, CKM_ERR_FORMAT, "ops[0] (op0) reads tensors[1] (t1), which ops[1] (op1) produces later");

    df = empty(2);
    add_op(df, 0, 1);
    add_op(df, 1, 0);
    assert_refused(df, CKM_ERR_FORMAT, "cycle");

    df = empty(1);
    add_op(df, 0, 0);
    assert_refused(df, CKM_ERR_FORMAT, "cycle");

    df = empty(2);
    add_op(df, 0, 1);
    add_op(df, 0, 1);
    assert_refused(df, CKM_ERR_FORMAT, "two producers: ops[0] (op0) and ops[1] (op1)");

    df = empty(2);
    add_op(df, 2, 1);
    assert_refused(df, CKM_ERR_FORMAT, "inputs[0] is 2");

    df = empty(2);
    add_op(df, -1, 1);
    assert_refused(df, CKM_ERR_FORMAT, "inputs[0] is -1");

    df = empty(2);
    add_op(df, 0, 2);
    assert_refused(df, CKM_ERR_FORMAT, "outputs[0] is 2");
}

static void finish_refuses_bad_views_results_and_pairs(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    const int32_t aliases[][3] = {{-1, 0, 1}, {0, -1, -1}, {3, -1, -1}};
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        ckm_dataflow *df = empty(0);
        for (int k = 0; k < 3; k++) {
            ckm_dataflow_tensor tensor = {NULL, 1, aliases[i][k], aliases[i][k] >= 0};
            assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        }
        add_op(df, INT32_MIN, 0);
        assert_refused(df, CKM_ERR_FORMAT, "alias_of");
    }
    ckm_dataflow *df = empty(2);
    add_op(df, 0, 1);
    assert_int_equal(ckm_dataflow_add_result(df, 2, &err), CKM_OK);
    assert_refused(df, CKM_ERR_FORMAT, "results[0] is 2");

    const int32_t pairs[][1][2] = {{{1, 1}}, {{2, 1}}, {{0, 2}}, {{0, 0}}};
    const char *fragments[] = {"not one of its inputs", "not one of its inputs", "not one of its outputs",
                               "not one of its outputs"};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const int32_t input = 0;
        const int32_t output = 1;
        ckm_dataflow_op op = {
            .n_inputs = 1, .inputs = &input, .n_outputs = 1, .outputs = &output, .n_inplace = 1, .inplace = pairs[i]};
        df = empty(3);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
        assert_refused(df, CKM_ERR_FORMAT, fragments[i]);
    }
}

static void negative_and_overflowing_amounts_are_refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("g", CKM_COST_FLOPS, -1, &df, &err), CKM_ERR_FORMAT);
    assert_null(df);
    df = empty(0);
    ckm_dataflow_tensor tensor = {.bytes = -1};
    int32_t index = 99;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_ERR_FORMAT);
    assert_error(&err, CKM_ERR_FORMAT, "tensors[0]: bytes is -1");
    ckm_dataflow_op op = {.cost = -1};
    assert_int_equal(ckm_dataflow_add_op(df, &op, &index, &err), CKM_ERR_FORMAT);
    assert_error(&err, CKM_ERR_FORMAT, "cost is -1");
    op = (ckm_dataflow_op){.workspace_bytes = -3};
    assert_int_equal(ckm_dataflow_add_op(df, &op, &index, &err), CKM_ERR_FORMAT);
    assert_error(&err, CKM_ERR_FORMAT, "workspace_bytes is -3");
    assert_int_equal(index, 99);
    // Sizes fit one by one but not with the workspace.
    tensor.bytes = INT64_MAX - 5;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    op = (ckm_dataflow_op){.workspace_bytes = 6};
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    assert_refused(df, CKM_ERR_OVERFLOW, "63 bits");
    // A view adds no bytes, however large it says it is.
    df = empty(1);
    tensor = (ckm_dataflow_tensor){.bytes = INT64_MAX, .is_view = true};
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    add_op(df, 0, 1);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    ckm_dataflow_free(df);
}

// What a caller leaves 0 is the ordinary case: a tensor with storage of its own, an operator that may run again.
static void members_left_0_are_the_ordinary_case(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_schedule *again = NULL;
    ckm_verdict verdict;
    assert_int_equal(ckm_dataflow_create(NULL, CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ckm_dataflow_add_tensor(df, &(ckm_dataflow_tensor){.bytes = 100}, NULL, &err), CKM_OK);
    }
    for (int32_t v = 0; v < 2; v++) {
        const int32_t made = v + 1;
        const ckm_dataflow_op op = {.cost = 1, .n_inputs = 1, .inputs = &v, .n_outputs = 1, .outputs = &made};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    for (int i = 0; i < 3; i++) {
        assert_false(ckm_dataflow_get_tensor(df, i).is_view);
        assert_int_equal(ckm_dataflow_get_tensor(df, i).alias_of, -1);
    }
    assert_int_equal(ckm_dataflow_memory_floor(df), 300);  // the input, which is pinned, and both sides of the second
    assert_int_equal(ckm_schedule_create(&again, &err), CKM_OK);
    const ckm_step steps[] = {{.index = 0}, {.index = 0}, {.index = 1}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ckm_schedule_append(again, &steps[i], &err), CKM_OK);
    }
    assert_int_equal(ckm_schedule_verify(df, again, -1, &verdict, &err), CKM_OK);
    assert_true(verdict.ok);
    assert_int_equal(verdict.cost, 3);
    assert_int_equal(verdict.peak_bytes, 300);
    ckm_schedule_free(again);
    ckm_dataflow_free(df);
}

static void an_owner_is_that_of_a_view(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = empty(2);
    ckm_dataflow_tensor tensor = {.bytes = 1, .alias_of = 1};
    int32_t index = 99;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_ERR_ARGUMENT);
    assert_error(&err, CKM_ERR_ARGUMENT, "tensors[2]: alias_of is 1, but is_view is not set");
    tensor.alias_of = -2;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_ERR_ARGUMENT);
    tensor.is_view = true;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_ERR_ARGUMENT);
    assert_error(&err, CKM_ERR_ARGUMENT, "alias_of -2 is not a tensor");
    assert_int_equal(index, 99);
    tensor.alias_of = 0;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_OK);
    assert_true(ckm_dataflow_get_tensor(df, index).is_view);
    assert_int_equal(ckm_dataflow_get_tensor(df, index).alias_of, 0);
    ckm_dataflow_free(df);
}

static void a_finished_graph_is_closed(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = empty(2);
    ckm_dataflow_tensor tensor = {.bytes = 1};
    ckm_dataflow_op op = {.cost = 1};
    add_op(df, 0, 1);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_dataflow_add_result(df, 0, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    ckm_dataflow_free(df);
    ckm_dataflow_free(NULL);
}

static void a_refused_graph_can_be_completed(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = empty(1);
    add_op(df, INT32_MIN, 1);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_ERR_FORMAT);
    ckm_dataflow_tensor tensor = {.bytes = 1};
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_producer(df, 1), 0);
    ckm_dataflow_free(df);
}

static void facts_are_derived(void **state)
{
    (void)state;
    ckm_dataflow *df = quoted_graph_of(
        "'fixed_bytes': 1000, 'tensors': [{'bytes': 1}, {'bytes': 10}, {'bytes': 7, 'alias_of': 0}, {'bytes': 100}],"
        "'ops': [{'cost': 3, 'inputs': [0, 0], 'outputs': [1, 2]}, {'cost': 4, 'inputs': [2, 1, 2, 0], 'outputs': [3]},"
        "        {'cost': 5, 'inputs': [1, 3], 'outputs': []}], 'results': [3]");
    assert_int_equal(ckm_dataflow_total_cost(df), 12);
    assert_int_equal(ckm_dataflow_edge_count(df), 3);
    assert_int_equal(ckm_dataflow_producer(df, 0), -1);
    assert_int_equal(ckm_dataflow_producer(df, 2), 0);
    assert_int_equal(df->tensors[2].storage, 0);
    assert_true(df->tensors[2].pinned);
    assert_false(df->tensors[1].pinned);
    assert_int_equal(df->tensors[1].n_users, 2);
    assert_int_equal(df->tensors[1].users[0], 1);
    assert_int_equal(df->tensors[1].users[1], 2);
    assert_int_equal(df->tensors[2].n_users, 1);
    assert_int_equal(df->resident_bytes, 1001);
    assert_true(df->tensors[3].is_result);
    ckm_dataflow_free(df);
}

typedef struct floor_case {
    const char *what, *graph;
    int64_t floor;
} floor_case;

static void memory_floor_by_hand(void **state)
{
    (void)state;
    static const floor_case cases[] = {
        {"a chain: two neighbours",
         "'tensors': [{'bytes': 3}, {'bytes': 4}, {'bytes': 5}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [1], 'outputs': [2]}]",
         9},
        {"fixed bytes and inputs count, used or not",
         "'fixed_bytes': 100, 'tensors': [{'bytes': 10}, {'bytes': 1}, {'bytes': 20}],"
         "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]}]",
         131},
        {"workspace",
         "'tensors': [{'bytes': 3}, {'bytes': 4}], 'ops': [{'cost': 1, 'workspace_bytes': 50, 'inputs': [],"
         "'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1]}]",
         53},
        {"in place",
         "'tensors': [{'bytes': 4}, {'bytes': 4}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]}]",
         4},
        {"in place only into what is large enough",
         "'tensors': [{'bytes': 4}, {'bytes': 5}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]}]",
         9},
        {"never over an input of the graph",
         "'tensors': [{'bytes': 4}, {'bytes': 4}], 'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1],"
         "'inplace': [[0, 1]]}]",
         8},
        {"the best of several pairs, each tensor once",
         "'tensors': [{'bytes': 9}, {'bytes': 9}, {'bytes': 5}, {'bytes': 8}], 'ops': [{'cost': 1, 'inputs': [],"
         "'outputs': [0, 1]}, {'cost': 1, 'inputs': [0, 1], 'outputs': [2, 3],"
         "'inplace': [[0, 2], [0, 3], [1, 3]]}]",
         18},
        {"a view adds nothing, and its storage lives with it",
         "'tensors': [{'bytes': 6}, {'bytes': 6, 'alias_of': 0}, {'bytes': 2}], 'ops': [{'cost': 1, 'inputs': [],"
         "'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [1], 'outputs': [2]}]",
         8},
        {"an operand and its view forbid in place",
         "'tensors': [{'bytes': 6}, {'bytes': 6, 'alias_of': 0}, {'bytes': 2}], 'ops': [{'cost': 1, 'inputs': [],"
         "'outputs': [0, 1]}, {'cost': 1, 'inputs': [0, 1], 'outputs': [2], 'inplace': [[0, 2]]}]",
         8},
        {"an output may bring its own view in place",
         "'tensors': [{'bytes': 6}, {'bytes': 6}, {'bytes': 1, 'alias_of': 1}], 'ops': [{'cost': 1, 'inputs': [],"
         "'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1, 2], 'inplace': [[0, 1]]}]",
         6},
        {"results together at the end",
         "'tensors': [{'bytes': 5}, {'bytes': 6}, {'bytes': 7}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [], 'outputs': [1]}, {'cost': 1, 'inputs': [], 'outputs': [2]}],"
         "'results': [0, 1, 2]",
         18},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_dataflow *df = quoted_graph_of(cases[i].graph);
        if (ckm_dataflow_memory_floor(df) != cases[i].floor) {
            fail_msg("%s: floor %lld, expected %lld", cases[i].what, (long long)ckm_dataflow_memory_floor(df),
                     (long long)cases[i].floor);
        }
        ckm_dataflow_free(df);
    }
}

static void standing_bytes_by_hand(void **state)
{
    (void)state;
    static const floor_case cases[] = {
        {"fixed bytes and inputs, used or not; what is computed on the way does not count",
         "'fixed_bytes': 100, 'tensors': [{'bytes': 10}, {'bytes': 1}, {'bytes': 20}],"
         "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]}]",
         130},
        {"results, each storage once: a view of one, and one that is an input",
         "'tensors': [{'bytes': 10}, {'bytes': 7}, {'bytes': 7, 'alias_of': 1}, {'bytes': 5}],"
         "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [1], 'outputs': [2]},"
         "{'cost': 1, 'inputs': [2], 'outputs': [3]}], 'results': [0, 1, 2]",
         17},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_dataflow *df = quoted_graph_of(cases[i].graph);
        if (ckm_dataflow_standing_bytes(df) != cases[i].floor) {
            fail_msg("%s: %lld bytes, expected %lld", cases[i].what, (long long)ckm_dataflow_standing_bytes(df),
                     (long long)cases[i].floor);
        }
        ckm_dataflow_free(df);
    }
}

// More than 16 pairs take another way.
static void many_pairs_are_matched(void **state)
{
    (void)state;
    enum { N = 20 };
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = empty(0);
    int32_t inputs[N];
    int32_t outputs[N];
    int32_t pairs[N][2];
    for (int32_t i = 0; i < 2 * N; i++) {
        ckm_dataflow_tensor tensor = {.bytes = 10};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    }
    for (int32_t i = 0; i < N; i++) {
        inputs[i] = pairs[i][0] = i;
        outputs[i] = pairs[i][1] = N + i;
    }
    ckm_dataflow_op make = {.n_outputs = N, .outputs = inputs};
    ckm_dataflow_op turn = {.n_inputs = N,
                            .inputs = inputs,
                            .n_outputs = N,
                            .outputs = outputs,
                            .n_inplace = N,
                            .inplace = (const int32_t(*)[2])pairs};
    assert_int_equal(ckm_dataflow_add_op(df, &make, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_op(df, &turn, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_memory_floor(df), 200);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finish_refuses_what_is_not_a_graph),
        cmocka_unit_test(finish_refuses_bad_views_results_and_pairs),
        cmocka_unit_test(negative_and_overflowing_amounts_are_refused),
        cmocka_unit_test(members_left_0_are_the_ordinary_case),
        cmocka_unit_test(an_owner_is_that_of_a_view),
        cmocka_unit_test(a_finished_graph_is_closed),
        cmocka_unit_test(a_refused_graph_can_be_completed),
        cmocka_unit_test(facts_are_derived),
        cmocka_unit_test(memory_floor_by_hand),
        cmocka_unit_test(standing_bytes_by_hand),
        cmocka_unit_test(many_pairs_are_matched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
