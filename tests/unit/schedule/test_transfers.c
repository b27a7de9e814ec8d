// SPDX-License-Identifier: Apache-2.0
// Transfers to a second memory and back: figures worked by hand, every rule with a schedule that breaks it, files, and what cannot do
// transfers yet.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/emit.h>
#include <checkmate/solve.h>

#include "dataflow/dataflow.h"
#include "quoted.h"

// in (100) -> a: x (8) and its view v -> b: y (4) -> c: z (2) of y and x -> d: r (1) of z and w, which a load gives. A byte takes 10 ns
// there and 20 ns back, and each transfer 5 ns more.
#define SECOND                                                                                                         \
    "{'name': 'disk', 'bytes': 20, 'out_bytes_per_second': 100000000, 'in_bytes_per_second': 50000000, 'latency_ns': " \
    "5}"
#define GRAPH(unit, second)                                                                                          \
    "{'format': 'checkmate-graph', 'version': 2, 'name': 'g', 'cost_unit': '" unit "', 'fixed_bytes': 1000, " second \
    "'tensors': [{'name': 'in', 'bytes': 100}, {'name': 'x', 'bytes': 8}, {'name': 'v', 'bytes': 8, 'alias_of': 1}," \
    "{'name': 'y', 'bytes': 4}, {'name': 'z', 'bytes': 2}, {'name': 'w', 'bytes': 16}, {'name': 'r', 'bytes': 1}],"  \
    "'ops': [{'name': 'a', 'cost': 100, 'recomputable': false, 'inputs': [0], 'outputs': [1, 2]},"                   \
    "{'name': 'b', 'cost': 200, 'inputs': [2], 'outputs': [3], 'inplace': [[2, 3]]},"                                \
    "{'name': 'load', 'kind': 'load', 'load_bytes': 10, 'cost': 400, 'inputs': [], 'outputs': [5]},"                 \
    "{'name': 'c', 'cost': 50, 'inputs': [3, 1], 'outputs': [4]},"                                                   \
    "{'name': 'd', 'cost': 25, 'inputs': [4, 5], 'outputs': [6]}], 'results': [6]}"
static const char graph_text[] = GRAPH("ns", "'second_memory': " SECOND ", ");

static ckm_schedule *steps_of(const char *steps)
{
    char text[2048];
    ckm_error err = CKM_ERROR_INIT;
    size_t length = strlen(steps);
    bool open = length > 2 && strcmp(steps + length - 2, ", ") == 0;  // as after the macros below
    snprintf(text, sizeof text, "{'format': 'checkmate-schedule', 'version': 2, 'steps': [%.*s]}",
             (int)(open ? length - 2 : length), steps);
    ckm_schedule *s = quoted_schedule(text, &err);
    if (s == NULL) {
        fail_msg("%s", err.message);
    }
    return s;
}

static ckm_dataflow *graph_of(const char *text)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = quoted_graph(text, &err);
    if (df == NULL) {
        fail_msg("%s", err.message);
    }
    return df;
}

#define A "['compute', 0], "
#define B "['compute', 1], "
#define LOAD "['compute', 2], "
#define C "['compute', 3], "
#define D "['compute', 4]"

typedef struct legal_case {
    const char *steps;
    int64_t cost, peak, second_peak, end;
} legal_case;

static void figures_of_legal_schedules(void **state)
{
    (void)state;
    // 1100 are always in use.
    static const legal_case cases[] = {
        {A B LOAD C D, 775, 1100 + 8 + 4 + 16 + 2 + 1, 0, 1100 + 8 + 4 + 16 + 2 + 1},
        // Out from 100 to 185 while b runs, which ends at 300: nothing is waited for. x and v come back from 300 to 465, then c, load, d.
        {A "['out', 1], " B "['wait', 1, 'out'], ['free', 1], ['free', 2], ['in', 1], ['wait', 1, 'in'], " C
           "['free', 1], ['free', 2], ['free', 3], " LOAD D,
         465 + 50 + 400 + 25, 1100 + 2 + 16 + 1, 8, 1100 + 2 + 16 + 1},
        // Waited for at once. The load comes from 0 to 5 + 200 as a transfer, concurrently with a and the way out, and takes its room from the first step on.
        {"['in', 5], " A "['out', 1], ['wait', 1, 'out'], ['wait', 5, 'in'], " B C D, 205 + 200 + 50 + 25,
         1100 + 16 + 8 + 4 + 2 + 1, 8, 1100 + 16 + 8 + 4 + 2 + 1},
        // Two ways back wait for each other: x to 100 + 85 + 165, y to 185 + 45 = 230 out, back from 350 to 435.
        {A B "['out', 1], ['out', 3], ['wait', 1, 'out'], ['free', 1], ['free', 2], ['in', 1], ['wait', 3, 'out'], "
             "['free', 3], ['in', 3], ['wait', 3, 'in'], ['wait', 1, 'in'], " C LOAD D,
         300 + 85 + 165 + 85 + 50 + 400 + 25, 1100 + 8 + 4 + 16 + 2 + 1, 12, 1100 + 8 + 4 + 16 + 2 + 1},
        // The copy of x is read twice and lives until the second time.
        {A "['out', 1], ['wait', 1, 'out'], " B
           "['free', 1], ['free', 2], ['in', 1], ['wait', 1, 'in'], ['free', 2], ['free', 1], "
           "['in', 1], ['wait', 1, 'in'], ['out', 3], ['wait', 3, 'out'], " C LOAD D,
         100 + 85 + 200 + 165 + 165 + 45 + 50 + 400 + 25, 1100 + 8 + 4 + 16 + 2 + 1, 8, 1100 + 8 + 4 + 16 + 2 + 1},
    };
    ckm_dataflow *df = graph_of(graph_text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_schedule *s = steps_of(cases[i].steps);
        ckm_simulation sim;
        ckm_verdict verdict;
        ckm_error err = CKM_ERROR_INIT;
        if (ckm_schedule_simulate(df, s, NULL, &sim, &err) != CKM_OK) {
            fail_msg("schedule %zu: %s", i, err.message);
        }
        assert_int_equal(sim.cost, cases[i].cost);
        assert_int_equal(sim.peak_bytes, cases[i].peak);
        assert_int_equal(sim.second_peak_bytes, cases[i].second_peak);
        assert_int_equal(sim.end_bytes, cases[i].end);
        assert_int_equal(ckm_schedule_verify(df, s, cases[i].peak, &verdict, &err), CKM_OK);
        assert_string_equal(verdict.why, "");
        assert_true(verdict.ok);
        assert_int_equal(verdict.cost, cases[i].cost);
        assert_int_equal(verdict.peak_bytes, cases[i].peak);
        assert_int_equal(verdict.second_peak_bytes, cases[i].second_peak);
        ckm_schedule_free(s);
    }
    ckm_dataflow_free(df);
}

typedef struct illegal_case {
    const char *steps, *simulator, *verifier;
} illegal_case;

static void illegal_schedules_are_explained(void **state)
{
    (void)state;
    static const illegal_case cases[] = {
        {"['out', 7]", "out names tensor 7 of 7", "no tensor 7 to move"},
        {A "['out', 2]", "it is a view", "it is a view"},
        {"['out', 0]", "a graph input", "graph input's"},
        {"['out', 1]", "no tensor of its storage is live", "does not exist then"},
        {A "['out', 1], ['out', 1]", "a copy of it is there already", "a second time"},
        {LOAD "['out', 5]", "a copy of it is there already", "can be loaded"},
        {A "['in', 1]", "there is no copy of it", "was never moved out"},
        {A "['out', 1], ['in', 1]", "its storage is there already", "was never moved out"},
        {A "['out', 1], ['wait', 1, 'out'], ['in', 1]", "its storage is there already", "while it exists"},
        {"['in', 5], ['in', 5]", "on its way back already", "while it is on its way back"},
        {A "['wait', 1, 'out']", "not on its way there", "not on its way out"},
        {"['wait', 5, 'in']", "not on its way back", "not on its way back"},
        {A "['out', 1], ['free', 1], ['free', 2]", "step 3 (free 2 \"v\"): its copy", "freed while a transfer"},
        {A "['out', 1], ['compute', 0]", "not recomputable", "not recomputable"},
        {A "['out', 1], ['free', 1], ['compute', 1, [[2, 3]]]", "has not been waited for",
         "a transfer of the input's memory"},
        {"['in', 5], " LOAD, "on its way back and has not been waited for", "of which a transfer is under way"},
        {"['in', 5], " A B C D, "\"w\", is not live", "\"w\" (5), which does not exist"},
        {A B LOAD C D ", ['out', 1]", "after the last step, 5: tensor 1 \"x\"", "was not waited for"},
        {A B LOAD
         "['out', 1], ['out', 3], ['free', 5], ['in', 5], ['wait', 5, 'in'], ['wait', 3, 'out'], ['wait', 1, 'out'], " C
         "['out', 4], ['wait', 4, 'out'], " D ", ['out', 6], ['wait', 6, 'out']",
         NULL, NULL},
    };
    ckm_dataflow *df = graph_of(graph_text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_schedule *s = steps_of(cases[i].steps);
        ckm_simulation sim;
        ckm_verdict verdict;
        ckm_error err = CKM_ERROR_INIT;
        ckm_status status = ckm_schedule_simulate(df, s, NULL, &sim, &err);
        assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
        if (cases[i].simulator == NULL) {
            assert_int_equal(status, CKM_OK);
            assert_int_equal(sim.second_peak_bytes, 8 + 4 + 2 + 1);
            assert_true(verdict.ok);
        } else {
            assert_int_equal(status, CKM_ERR_FORMAT);
            if (strstr(err.message, cases[i].simulator) == NULL || strstr(verdict.why, cases[i].verifier) == NULL) {
                fail_msg("schedule %zu: simulator: %s; verifier: %s", i, err.message, verdict.why);
            }
            assert_int_equal(verdict.cost, -1);
            assert_int_equal(verdict.second_peak_bytes, -1);
        }
        ckm_schedule_free(s);
    }
    ckm_dataflow_free(df);
}

static void the_second_memory_is_limited(void **state)
{
    (void)state;
    ckm_dataflow *df = graph_of(
        GRAPH("ns", "'second_memory': {'bytes': 11, 'out_bytes_per_second': 1, 'in_bytes_per_second': 1}, "));
    ckm_schedule *s = steps_of(A B "['out', 1], ['out', 3], ['wait', 1, 'out'], ['wait', 3, 'out'], " C LOAD D);
    ckm_simulation sim;
    ckm_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_ERR_FORMAT);
    assert_error(&err, CKM_ERR_FORMAT, "copies of 12 bytes in all exceed the second memory's 11");
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
    assert_non_null(strstr(verdict.why, "step 3: copies of 12 bytes exceed the second memory's 11"));
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// A graph without one, times in microseconds, times beyond 63 bits.
static void other_graphs(void **state)
{
    (void)state;
    ckm_simulation sim;
    ckm_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = steps_of(A "['out', 1], ['wait', 1, 'out'], " B LOAD C D);

    ckm_dataflow *df = graph_of(GRAPH("ns", ""));
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_ERR_FORMAT);
    assert_error(&err, CKM_ERR_FORMAT, "no second memory");
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
    assert_non_null(strstr(verdict.why, "no second memory"));
    ckm_dataflow_free(df);

    // 8 bytes at 100 MB/s and 5 ns: 85 ns, a microsecond.
    df = graph_of(GRAPH("us", "'second_memory': " SECOND ", "));
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_OK);
    assert_int_equal(sim.cost, 776);
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
    assert_int_equal(verdict.cost, 776);
    ckm_dataflow_free(df);

    df = graph_of(GRAPH(
        "ns",
        "'second_memory': {'out_bytes_per_second': 1, 'in_bytes_per_second': 1, 'latency_ns': 9223372036854775807}, "));
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_ERR_OVERFLOW);
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
    assert_non_null(strstr(verdict.why, "exceeds 63 bits"));
    ckm_dataflow_free(df);
    ckm_schedule_free(s);
}

static void files_come_back_the_same(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = graph_of(graph_text);
    ckm_schedule *s = steps_of(
        A "['out', 1], ['wait', 1, 'out'], ['free', 1], ['free', 2], ['in', 1], ['wait', 1, 'in'], " B LOAD C D);
    ckm_dataflow *read = NULL;
    ckm_schedule *again = NULL;
    ckm_second_memory second;
    assert_int_equal(ckm_dataflow_write(df, "transfers-graph.json", &err), CKM_OK);
    assert_int_equal(ckm_dataflow_read("transfers-graph.json", &read, &err), CKM_OK);
    assert_true(ckm_dataflow_get_second_memory(read, &second));
    assert_string_equal(second.name, "disk");
    assert_int_equal(second.bytes, 20);
    assert_int_equal(second.out_bytes_per_second, 100000000);
    assert_int_equal(second.in_bytes_per_second, 50000000);
    assert_int_equal(second.latency_ns, 5);
    assert_int_equal(ckm_dataflow_get_op(read, 2).kind, CKM_OP_LOAD);
    assert_int_equal(ckm_dataflow_get_op(read, 2).load_bytes, 10);
    assert_int_equal(ckm_schedule_write(s, "transfers-schedule.json", &err), CKM_OK);
    assert_int_equal(ckm_schedule_read("transfers-schedule.json", &again, &err), CKM_OK);
    assert_int_equal(ckm_schedule_step_count(again), ckm_schedule_step_count(s));
    assert_int_equal(ckm_schedule_transfer_count(again), 4);
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        assert_int_equal(ckm_schedule_get_step(s, i).kind, ckm_schedule_get_step(again, i).kind);
        assert_int_equal(ckm_schedule_get_step(s, i).index, ckm_schedule_get_step(again, i).index);
    }
    assert_int_equal(remove("transfers-graph.json"), 0);
    assert_int_equal(remove("transfers-schedule.json"), 0);
    ckm_schedule_free(again);
    ckm_schedule_free(s);
    ckm_dataflow_free(read);
    ckm_dataflow_free(df);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *members, *message;
    } graphs[] = {
        {"'version': 1, 'second_memory': " SECOND, "second_memory: is of version 2"},
        {"'version': 3", "version is 3; this program reads versions 1 and 2"},
        {"'version': 2, 'second_memory': 5", "second_memory: must be an object"},
        {"'version': 2, 'second_memory': {'out_bytes_per_second': 0, 'in_bytes_per_second': 1}",
         "second_memory.out_bytes_per_second"},
        {"'version': 2, 'second_memory': {'out_bytes_per_second': 1}", "in_bytes_per_second"},
        {"'version': 2, 'second_memory': {'bytes': -2, 'out_bytes_per_second': 1, 'in_bytes_per_second': 1}",
         "second_memory.bytes"},
        {"'version': 2, 'second_memory': {'latency_ns': -1, 'out_bytes_per_second': 1, 'in_bytes_per_second': 1}",
         "second_memory.latency_ns"},
        {"'version': 2, 'cost_unit': 'flops', 'second_memory': " SECOND, "costs must be times"},
    };
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        char text[1024];
        ckm_error err = CKM_ERROR_INIT;
        snprintf(text, sizeof text,
                 "{'format': 'checkmate-graph', %s, 'tensors': [{'bytes': 1}], 'ops': [{'cost': 1, 'inputs': [], "
                 "'outputs': [0]}]}",
                 graphs[i].members);
        assert_null(quoted_graph(text, &err));
        assert_error(&err, CKM_ERR_FORMAT, graphs[i].message);
    }
    static const struct {
        const char *op, *message;
    } loads[] = {
        {"{'kind': 'load', 'cost': 1, 'inputs': [0], 'outputs': [1]}", "a load reads no tensors"},
        {"{'kind': 'load', 'cost': 1, 'inputs': [], 'outputs': []}", "a load has one output"},
        {"{'kind': 'load', 'cost': 1, 'inputs': [], 'outputs': [2]}", "a load has one output"},
        {"{'kind': 'load', 'cost': 1, 'inputs': [], 'outputs': [1], 'recomputable': false}", "can always be repeated"},
        {"{'kind': 'load', 'cost': 1, 'inputs': [], 'outputs': [1], 'load_bytes': 0}", "load_bytes"},
    };
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++) {
        char text[1024];
        ckm_error err = CKM_ERROR_INIT;
        snprintf(text, sizeof text,
                 "{'format': 'checkmate-graph', 'version': 2, 'tensors': [{'bytes': 1}, {'bytes': 1}, {'bytes': 1, "
                 "'alias_of': 0}], 'ops': [%s]}",
                 loads[i].op);
        assert_null(quoted_graph(text, &err));
        assert_error(&err, CKM_ERR_FORMAT, loads[i].message);
    }
    static const struct {
        const char *rest, *message;
    } schedules[] = {
        {"'version': 1, 'steps': [['out', 1]]", "\"out\" is of version 2"},
        {"'version': 2, 'steps': [['out', 1, 'in']]", "a out step has 2 elements, not 3"},
        {"'version': 2, 'steps': [['wait', 1]]", "must be \"out\" or \"in\""},
        {"'version': 2, 'steps': [['wait', 1, 'up']]", "must be \"out\" or \"in\""},
        {"'version': 2, 'steps': [['in', -1]]", "steps[0][1]"},
        {"'version': 2, 'steps': [['move', 1]]", "\"move\" is none of"},
    };
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        char text[512];
        ckm_error err = CKM_ERROR_INIT;
        snprintf(text, sizeof text, "{'format': 'checkmate-schedule', %s}", schedules[i].rest);
        assert_null(quoted_schedule(text, &err));
        assert_error(&err, CKM_ERR_FORMAT, schedules[i].message);
    }
}

// Case 4 of the figures above, moment by moment: two copies back, of which the second waits for the first.
static void times_of_transfers(void **state)
{
    (void)state;
    static const ckm_emit_transfer expected[] = {
        {.tensor = 1, .out = true, .bytes = 8, .issued = 300, .begin = 300, .end = 385, .stall = 85, .moment = 2},
        {.tensor = 3, .out = true, .bytes = 4, .issued = 300, .begin = 385, .end = 430, .stall = 45, .moment = 2},
        {.tensor = 1, .out = false, .bytes = 8, .issued = 385, .begin = 385, .end = 550, .stall = 0, .moment = 2},
        {.tensor = 3, .out = false, .bytes = 4, .issued = 430, .begin = 550, .end = 635, .stall = 205, .moment = 2},
    };
    static const int64_t begins[] = {0, 100, 635, 685, 1085};
    ckm_dataflow *df = graph_of(graph_text);
    ckm_schedule *s = steps_of(
        A B "['out', 1], ['out', 3], ['wait', 1, 'out'], ['free', 1], ['free', 2], ['in', 1], "
            "['wait', 3, 'out'], ['free', 3], ['in', 3], ['wait', 3, 'in'], ['wait', 1, 'in'], " C LOAD D);
    ckm_emit_facts *facts = NULL;
    ckm_emit_times *times = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_emit_facts_create(df, s, &facts, &err), CKM_OK);
    assert_int_equal(ckm_emit_times_create(facts, &times, &err), CKM_OK);
    assert_int_equal(times->n_transfers, 4);
    assert_memory_equal(times->transfers, expected, sizeof expected);
    assert_memory_equal(times->begin, begins, sizeof begins);
    assert_int_equal(times->total, 1110);
    assert_int_equal(times->stalled, 335);
    assert_int_equal(times->out_bytes, 12);
    assert_int_equal(times->in_bytes, 12);
    assert_int_equal(times->out_time, 130);
    assert_int_equal(times->in_time, 250);
    // x and y are there twice, the second time as what was read back: while c runs and afterwards.
    int n_back = 0;
    for (int32_t i = 0; i < facts->n_lives; i++) {
        const ckm_emit_life *life = &facts->lives[i];
        assert_int_equal(times->read_back[i], life->first == 2 && (life->tensor == 1 || life->tensor == 3));
        if (times->read_back[i]) {
            assert_int_equal(life->op, life->tensor == 1 ? 0 : 1);
            assert_int_equal(life->what, CKM_EMIT_KEPT);
            n_back++;
        }
    }
    assert_int_equal(n_back, 2);
    assert_int_equal(facts->moments[2].class_bytes[CKM_EMIT_KEPT], 12);
    assert_int_equal(facts->ops[0].what, CKM_EMIT_KEPT);
    assert_int_equal(facts->n_recomputes, 0);
    ckm_emit_times_free(times);
    // A step more than the facts have room for.
    const ckm_step more = {.kind = CKM_STEP_COMPUTE};
    assert_int_equal(ckm_schedule_append(s, &more, &err), CKM_OK);
    times = NULL;
    assert_int_equal(ckm_emit_times_create(facts, &times, &err), CKM_ERR_ARGUMENT);
    assert_null(times);
    ckm_emit_facts_free(facts);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void what_cannot_move_says_so(void **state)
{
    (void)state;
    ckm_dataflow *df = graph_of(graph_text);
    ckm_schedule *s = steps_of(A "['out', 1], ['wait', 1, 'out'], " B LOAD C D);
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options solve = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    solve.budget_bytes = 1200;
    solve.reorder = true;
    assert_int_equal(ckm_solve(df, &solve, &result, &err), CKM_ERR_ARGUMENT);
    assert_error(&err, CKM_ERR_ARGUMENT, "the order cannot be open");
    err = (ckm_error)CKM_ERROR_INIT;
    assert_int_equal(ckm_solve_frontier(df, &solve, &solve.budget_bytes, 1, &result, &err), CKM_ERR_ARGUMENT);
    assert_error(&err, CKM_ERR_ARGUMENT, "the order cannot be open");
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_legal_schedules),   cmocka_unit_test(illegal_schedules_are_explained),
        cmocka_unit_test(the_second_memory_is_limited), cmocka_unit_test(other_graphs),
        cmocka_unit_test(files_come_back_the_same),     cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(times_of_transfers),           cmocka_unit_test(what_cannot_move_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
