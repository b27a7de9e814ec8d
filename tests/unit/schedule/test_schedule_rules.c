// SPDX-License-Identifier: Apache-2.0
// The rules of a schedule, one by one, as simulator and verifier read them: figures worked by hand, and for
// every rule a schedule that breaks it with the words both must use to say so.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataflow/dataflow.h"
#include "quoted.h"

// The graph most cases use. in (input, 100) -> a: x (8) -> b: y (8), in place over x -> c: z (4), w (2) ->
// d: v, a view of z -> e: r (4), in place over v's storage or over w. s is a view of the input.
static const char graph_text[] =
    "'name': 'rules', 'fixed_bytes': 1000,"
    "'tensors': [{'name': 'in', 'bytes': 100}, {'name': 'x', 'bytes': 8}, {'name': 'y', 'bytes': 8},"
    "            {'name': 'z', 'bytes': 4}, {'name': 'w', 'bytes': 2}, {'name': 'v', 'bytes': 9, 'alias_of': 3},"
    "            {'name': 'r', 'bytes': 4}, {'name': 's', 'bytes': 1, 'alias_of': 0}],"
    "'ops': [{'name': 'a', 'cost': 1, 'inputs': [0], 'outputs': [1, 7]},"
    "        {'name': 'b', 'cost': 2, 'workspace_bytes': 16, 'inputs': [1], 'outputs': [2], 'inplace': [[1, 2]]},"
    "        {'name': 'c', 'cost': 4, 'recomputable': false, 'inputs': [2, 0], 'outputs': [3, 4],"
    "         'inplace': [[2, 3], [2, 4], [0, 4]]},"
    "        {'name': 'd', 'cost': 8, 'inputs': [3], 'outputs': [5]},"
    "        {'name': 'e', 'cost': 16, 'inputs': [5, 4, 7], 'outputs': [6], 'inplace': [[5, 6], [4, 6], [7, 6]]}],"
    "'results': [6]";

typedef struct legal_case {
    const char *steps;
    int64_t cost, peak, peak_step, end;
} legal_case;

static void figures_of_legal_schedules(void **state)
{
    (void)state;
    static const legal_case cases[] = {
        // 1100 are always in use. b: x, y and workspace.
        {"['compute', 0], ['compute', 1], ['compute', 2], ['compute', 3], ['compute', 4]", 31, 1100 + 8 + 8 + 16, 1,
         1100 + 8 + 8 + 4 + 2 + 4},
        // In place, b needs x's storage only.
        {"['compute', 0], ['compute', 1, [[1, 2]]], ['compute', 2], ['compute', 3], ['compute', 4]", 31, 1100 + 8 + 16,
         1, 1100 + 8 + 4 + 2 + 4},
        // z takes over y's 8 bytes and keeps 4 of them.
        {"['compute', 0], ['compute', 1, [[1, 2]]], ['compute', 2, [[2, 3]]], ['compute', 3], ['compute', 4]", 31,
         1100 + 8 + 16, 1, 1100 + 4 + 2 + 4},
        // Freeing z leaves its storage to v; r then takes it over. Freeing s, a view of the input, frees nothing.
        {"['compute', 0], ['compute', 1, [[1, 2]]], ['compute', 2, [[2, 3]]], ['compute', 3], ['free', 3],"
         "['compute', 4, [[5, 6]]], ['free', 4], ['free', 7]",
         31, 1100 + 8 + 16, 1, 1100 + 4},
        // Overwriting what is live takes nothing new; a result may be dead for a while.
        {"['compute', 0], ['compute', 0], ['compute', 1], ['compute', 1], ['free', 2], ['compute', 1],"
         "['compute', 2], ['compute', 3], ['compute', 4], ['free', 6], ['compute', 4]",
         31 + 1 + 2 + 2 + 16, 1100 + 8 + 8 + 16, 2, 1100 + 8 + 8 + 4 + 2 + 4},
    };
    ckm_dataflow *df = quoted_graph_of(graph_text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_schedule *s = quoted_schedule_of(cases[i].steps);
        ckm_simulation sim;
        ckm_verdict verdict;
        if (ckm_schedule_simulate(df, s, NULL, &sim, &err) != CKM_OK) {
            fail_msg("schedule %zu: %s", i, err.message);
        }
        assert_int_equal(sim.cost, cases[i].cost);
        assert_int_equal(sim.peak_bytes, cases[i].peak);
        assert_int_equal(sim.peak_step, cases[i].peak_step);
        assert_int_equal(sim.end_bytes, cases[i].end);
        assert_int_equal(ckm_schedule_verify(df, s, cases[i].peak, &verdict, &err), CKM_OK);
        assert_true(verdict.ok);
        assert_string_equal(verdict.why, "");
        assert_int_equal(verdict.cost, cases[i].cost);
        assert_int_equal(verdict.peak_bytes, cases[i].peak);
        assert_int_equal(ckm_schedule_verify(df, s, cases[i].peak - 1, &verdict, &err), CKM_OK);
        assert_false(verdict.ok);
        char why[200];
        snprintf(why, sizeof why, "the peak of %lld bytes exceeds the budget of %lld bytes by 1",
                 (long long)cases[i].peak, (long long)cases[i].peak - 1);
        assert_string_equal(verdict.why, why);
        assert_int_equal(verdict.peak_bytes, cases[i].peak);
        ckm_schedule_free(s);
    }
    ckm_dataflow_free(df);
}

typedef struct illegal_case {
    const char *steps;
    const char *simulator[3], *verifier[3];  // fragments of the messages
} illegal_case;

#define TO_Y "['compute', 0], ['compute', 1], "
#define TO_Z TO_Y "['compute', 2], "

static void illegal_schedules_are_explained(void **state)
{
    (void)state;
    static const illegal_case cases[] = {
        {"['compute', 5]", {"step 0", "operator 5 of 5"}, {"step 0", "no operator 5"}},
        {"['compute', 0], ['compute', 2147483647]",
         {"step 1", "operator 2147483647"},
         {"step 1", "no operator 2147483647"}},
        {"['free', 8]", {"step 0", "tensor 8 of 8"}, {"step 0", "no tensor 8"}},
        {"['compute', 1]",
         {"step 0", "\"b\"", "\"x\", is not live"},
         {"step 0", "\"b\"", "\"x\" (1), which does not exist"}},
        {"['compute', 0], ['free', 1], ['compute', 1]", {"step 2", "\"b\"", "\"x\""}, {"step 2", "\"b\"", "\"x\""}},
        {"['free', 0]", {"step 0", "\"in\"", "a graph input"}, {"step 0", "\"in\"", "is an input"}},
        {"['free', 1]", {"step 0", "\"x\"", "not live"}, {"step 0", "\"x\"", "does not exist"}},
        {"['compute', 0], ['free', 1], ['free', 1]",
         {"step 2", "\"x\"", "not live"},
         {"step 2", "\"x\"", "does not exist"}},
        {TO_Z "['compute', 2]", {"step 3", "\"c\"", "not recomputable"}, {"step 3", "\"c\"", "not recomputable"}},
        {TO_Z "['compute', 3]",
         {"after the last step, 3: ", "\"e\"", "never computed"},
         {"end, after 4 steps: ", "\"e\"", "has not been computed"}},
        {"", {"after the last step", "\"a\""}, {"end", "\"a\""}},
        {TO_Z "['compute', 3], ['compute', 4], ['free', 6]",
         {"after the last step, 5: ", "result", "\"r\""},
         {"end, after 6 steps: ", "result", "\"r\""}},
        // In-place pairs.
        {"['compute', 0], ['compute', 1, [[1, 3]]]",
         {"step 1", "\"b\"", "does not declare"},
         {"step 1", "\"b\"", "does not declare"}},
        {"['compute', 0], ['compute', 1, [[1, 8]]]",
         {"step 1", "\"b\"", "tensor 8 of 8"},
         {"step 1", "\"b\"", "does not declare"}},
        {"['compute', 0], ['compute', 1, [[1, 2], [1, 2]]]", {"step 1", "earlier pair"}, {"step 1", "in two pairs"}},
        {TO_Y "['compute', 2, [[2, 3], [2, 4]]]",
         {"step 2", "\"y\"", "earlier pair"},
         {"step 2", "\"y\"", "in two pairs"}},
        {TO_Y "['compute', 2, [[0, 4]]]", {"step 2", "\"in\"", "graph input"}, {"step 2", "\"in\"", "a graph input's"}},
        {TO_Z "['compute', 3], ['compute', 4, [[7, 6]]]",
         {"step 4", "\"s\"", "graph input"},
         {"step 4", "\"s\"", "a graph input's"}},
        {TO_Z "['compute', 3], ['compute', 4, [[5, 6]]]",
         {"step 4", "\"v\"", "another live tensor"},
         {"step 4", "\"v\"", "still used by another"}},
        {TO_Z "['compute', 3], ['compute', 4, [[4, 6]]]", {"step 4", "\"r\"", "larger"}, {"step 4", "\"r\"", "larger"}},
        {"['compute', 0], ['compute', 1], ['compute', 1, [[1, 2]]]",
         {"step 2", "\"y\"", "already live"},
         {"step 2", "\"y\"", "already exists"}},
        {"['compute', 0], ['compute', 1, [[1, 2]]], ['compute', 1]", {"step 2", "\"x\""}, {"step 2", "\"x\""}},
    };
    ckm_dataflow *df = quoted_graph_of(graph_text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_schedule *s = quoted_schedule_of(cases[i].steps);
        ckm_simulation sim = {.cost = 77};
        ckm_verdict verdict;
        int64_t timeline[16] = {55};
        if (ckm_schedule_simulate(df, s, timeline, &sim, &err) != CKM_ERR_FORMAT) {
            fail_msg("the simulator accepts: %s", cases[i].steps);
        }
        assert_int_equal(sim.cost, 77);
        assert_int_equal(timeline[0], 55);
        assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
        assert_false(verdict.ok);
        assert_int_equal(verdict.cost, -1);
        assert_int_equal(verdict.peak_bytes, -1);
        for (size_t k = 0; k < 3; k++) {
            if (cases[i].simulator[k] != NULL) {
                assert_error(&err, CKM_ERR_FORMAT, cases[i].simulator[k]);
            }
            if (cases[i].verifier[k] != NULL && strstr(verdict.why, cases[i].verifier[k]) == NULL) {
                fail_msg("expected \"%s\", got: %s", cases[i].verifier[k], verdict.why);
            }
        }
        ckm_schedule_free(s);
    }
    ckm_dataflow_free(df);
}

// Rules that need a graph of their own: {graph, steps, fragment of both messages or NULL when legal, peak}.
typedef struct special_case {
    const char *graph, *steps, *fragment;
    int64_t peak;
} special_case;

static void views_and_pairs_together(void **state)
{
    (void)state;
    static const special_case cases[] = {
        // The output brings its own view along: both live on the storage taken over.
        {"'tensors': [{'bytes': 6}, {'bytes': 5}, {'bytes': 1, 'alias_of': 1}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "        {'cost': 1, 'inputs': [0], 'outputs': [1, 2], 'inplace': [[0, 1]]}], 'results': [2]",
         "['compute', 0], ['compute', 1, [[0, 1]]], ['free', 1]", NULL, 6},
        // A second output is a view of what the first takes over.
        {"'tensors': [{'bytes': 6}, {'bytes': 5}, {'bytes': 1, 'alias_of': 0}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "        {'cost': 1, 'inputs': [0], 'outputs': [1, 2], 'inplace': [[0, 1]]}]",
         "['compute', 0], ['compute', 1, [[0, 1]]]", "a view of", 0},
        // Nothing takes nothing.
        {"'tensors': [{'bytes': 0}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}]", "['compute', 0]", NULL, 0},
        // In the first step there is nothing but inputs to work in place on.
        {"'tensors': [{'bytes': 4}, {'bytes': 4}],"
         "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]}]",
         "['compute', 0, [[0, 1]]]", "a graph input", 0},
        // The output has no storage of its own to put in the input's place, even when its owner is dead.
        {"'tensors': [{'bytes': 9}, {'bytes': 6}, {'bytes': 5, 'alias_of': 0}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [1]}, {'cost': 1, 'inputs': [], 'outputs': [0]},"
         "        {'cost': 1, 'inputs': [1], 'outputs': [2], 'inplace': [[1, 2]]}]",
         "['compute', 0], ['compute', 1], ['free', 0], ['compute', 2, [[1, 2]]]", "the output is a view", 0},
        // The output's storage lives on in an old view of it.
        {"'tensors': [{'bytes': 6}, {'bytes': 5}, {'bytes': 1, 'alias_of': 1}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "        {'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]},"
         "        {'cost': 1, 'inputs': [1], 'outputs': [2]}]",
         "['compute', 0], ['compute', 1], ['compute', 2], ['free', 1], ['compute', 1, [[0, 1]]]", "already", 0},
        // The same once the view is gone.
        {"'tensors': [{'bytes': 6}, {'bytes': 5}, {'bytes': 1, 'alias_of': 1}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "        {'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]},"
         "        {'cost': 1, 'inputs': [1], 'outputs': [2]}]",
         "['compute', 0], ['compute', 1], ['compute', 2], ['free', 1], ['free', 2], ['compute', 1, [[0, 1]]]", NULL,
         11},
        // Recomputing the owner of a storage that a view keeps takes nothing new.
        {"'tensors': [{'bytes': 6}, {'bytes': 1, 'alias_of': 0}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1]}]",
         "['compute', 0], ['compute', 1], ['free', 0], ['compute', 0]", NULL, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = quoted_graph_of(cases[i].graph);
        ckm_schedule *s = quoted_schedule_of(cases[i].steps);
        ckm_simulation sim;
        ckm_verdict verdict;
        ckm_status status = ckm_schedule_simulate(df, s, NULL, &sim, &err);
        assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
        if (cases[i].fragment == NULL) {
            if (status != CKM_OK || !verdict.ok) {
                fail_msg("case %zu: %s / %s", i, status != CKM_OK ? err.message : "", verdict.why);
            }
            assert_int_equal(sim.peak_bytes, cases[i].peak);
            assert_int_equal(verdict.peak_bytes, cases[i].peak);
        } else {
            assert_error(&err, CKM_ERR_FORMAT, cases[i].fragment);
            assert_false(verdict.ok);
            assert_non_null(strstr(verdict.why, cases[i].fragment));
        }
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
}

// Where nothing exceeds what is there from the start, the peak is at the first compute step.
static void a_flat_peak_is_at_the_first_computation(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = quoted_graph_of("'fixed_bytes': 3, 'tensors': [{'bytes': 5}, {'bytes': 0}],"
                                       "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]}]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['free', 1], ['compute', 0]");
    ckm_simulation sim;
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_OK);
    assert_int_equal(sim.peak_bytes, 8);
    assert_int_equal(sim.peak_step, 0);
    assert_int_equal(sim.end_bytes, 8);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void timeline_has_every_step(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = quoted_graph_of(graph_text);
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1, [[1, 2]]], ['compute', 2], ['free', 2],"
                                         "['compute', 3], ['compute', 4], ['free', 3], ['free', 5]");
    static const int64_t expected[] = {1108, 1124, 1114, 1106, 1106, 1110, 1110, 1106};
    int64_t timeline[8];
    ckm_simulation sim;
    assert_int_equal(ckm_schedule_step_count(s), 8);
    assert_int_equal(ckm_schedule_simulate(df, s, timeline, &sim, &err), CKM_OK);
    assert_memory_equal(timeline, expected, sizeof expected);
    assert_int_equal(sim.end_bytes, 1106);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void cost_overflow_is_noticed(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = quoted_graph_of(
        "'tensors': [], 'ops': [{'name': 'dear', 'cost': 5000000000000000000, 'inputs': [], 'outputs': []}]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 0]");
    ckm_simulation sim;
    ckm_verdict verdict;
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_ERR_OVERFLOW);
    assert_error(&err, CKM_ERR_OVERFLOW, "\"dear\"");
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, &err), CKM_OK);
    assert_false(verdict.ok);
    assert_non_null(strstr(verdict.why, "cost exceeds 63 bits"));
    assert_int_equal(verdict.cost, -1);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// Sums that leave 63 bits at one step, be it of storages, of fixed bytes or of workspace, and those that just do not. No
// finished graph has them, but neither reading relies on that: the graph is enlarged after it was checked.
static void bytes_overflow_is_noticed(void **state)
{
    (void)state;
    const int64_t half = INT64_C(1) << 62;
    static const char graph[] = "'tensors': [{'name': 'in', 'bytes': 0}, {'bytes': 1}, {'bytes': 1}, {'bytes': 0}],"
                                "'ops': [{'name': 'a', 'cost': 1, 'inputs': [0], 'outputs': [1]},"
                                "{'name': 'b', 'cost': 1, 'inputs': [], 'outputs': [2, 3]}]";
    static const char keeps[] = "['compute', 0], ['compute', 1]";
    const struct {
        int64_t fixed, in, first, second, third, workspace;
        const char *why;  // NULL: as many bytes as there can be
    } cases[] = {
        {0, 0, half, half - 1, 0, 0, NULL},
        {0, 0, half, half, 0, 0, "step 1: bytes of storages exceed 63 bits"},
        {0, half, half, 0, 0, 0, "bytes of storages exceed 63 bits"},
        {0, 0, 0, half, half, 0, "bytes of storages exceed 63 bits"},
        {half, 0, half - 1, 0, 0, 0, NULL},
        {half, 0, half, 0, 0, 0, "step 0: operator \"a\" (0): bytes in use exceed 63 bits"},
        {half, 0, 0, half, 0, 0, "step 1: operator \"b\" (1): bytes in use exceed 63 bits"},
        {1, 0, half - 2, 0, 0, half, NULL},
        {1, 0, half - 1, 0, 0, half, "step 0: operator \"a\" (0): bytes in use exceed 63 bits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = quoted_graph_of(graph);
        ckm_schedule *s = quoted_schedule_of(keeps);
        ckm_simulation sim;
        ckm_verdict verdict;
        df->fixed_bytes = cases[i].fixed;
        df->tensors[0].bytes = cases[i].in;
        df->tensors[1].bytes = cases[i].first;
        df->tensors[2].bytes = cases[i].second;
        df->tensors[3].bytes = cases[i].third;
        df->ops[0].workspace_bytes = cases[i].workspace;
        ckm_status status = ckm_schedule_simulate(df, s, NULL, &sim, &err);
        assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, &err), CKM_OK);
        if (cases[i].why == NULL) {
            assert_int_equal(status, CKM_OK);
            assert_true(verdict.ok);
            assert_int_equal(sim.peak_bytes, INT64_MAX);
            assert_int_equal(verdict.peak_bytes, INT64_MAX);
        } else {
            assert_int_equal(status, CKM_ERR_OVERFLOW);
            assert_false(verdict.ok);
            if (strstr(verdict.why, cases[i].why) == NULL) {
                fail_msg("case %zu: %s", i, verdict.why);
            }
            assert_int_equal(verdict.cost, -1);
            assert_int_equal(verdict.peak_bytes, -1);
        }
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
}

// A verdict is one line of valid text, with any names.
static void verdicts_survive_hostile_names(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    char name[400];
    for (size_t i = 0; i + 2 < sizeof name; i += 2) {
        memcpy(name + i, "\xc3\xa4", 2);  // two bytes each: a cut in the middle of one would show
    }
    name[sizeof name - 2] = '\0';
    name[1] = '\n';
    ckm_dataflow_tensor tensor = {.name = name, .bytes = 1};
    ckm_dataflow_op op = {.name = name + 1, .n_inputs = 1};
    const int32_t x = 0;
    op.inputs = &x;
    assert_int_equal(ckm_dataflow_create(name, CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    ckm_schedule *s = quoted_schedule_of("['free', 0]");
    ckm_verdict verdict;
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, &err), CKM_OK);
    assert_false(verdict.ok);
    assert_true(strlen(verdict.why) < sizeof verdict.why);
    for (const unsigned char *c = (const unsigned char *)verdict.why; *c != '\0'; c++) {
        assert_true(*c >= 0x20);
        if (*c == 0xc3) {
            assert_true(c[1] == 0xa4);
        }
    }
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_legal_schedules), cmocka_unit_test(illegal_schedules_are_explained),
        cmocka_unit_test(views_and_pairs_together),   cmocka_unit_test(a_flat_peak_is_at_the_first_computation),
        cmocka_unit_test(timeline_has_every_step),    cmocka_unit_test(cost_overflow_is_noticed),
        cmocka_unit_test(bytes_overflow_is_noticed),  cmocka_unit_test(verdicts_survive_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
