// SPDX-License-Identifier: Apache-2.0
// checkmate-schedule JSON: what is written is read back, and every kind of bad file gives one clear error.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "quoted.h"

static void reads_every_member(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = quoted_schedule(
        "{'format': 'checkmate-schedule', 'version': 1, 'graph': 'vgg', 'budget_bytes': 10, 'cost': 123,"
        "'baseline_cost': 120, 'peak_bytes': 9, 'bound_cost': 121.5, 'bound_covers': 'order', 'strategy': 'auto',"
        "'status': 'optimal', 'seconds': 1.25, 'other': null,"
        "'steps': [['compute', 0], ['compute', 1, [[0, 2], [3, 4]]], ['compute', 2, []], ['free', 7]]}",
        &err);
    assert_non_null(s);
    const ckm_schedule_info *info = ckm_schedule_get_info(s);
    assert_string_equal(info->graph, "vgg");
    assert_string_equal(info->strategy, "auto");
    assert_int_equal(info->budget_bytes, 10);
    assert_int_equal(info->cost, 123);
    assert_int_equal(info->baseline_cost, 120);
    assert_int_equal(info->peak_bytes, 9);
    assert_true(info->bound_cost == 121.5);
    assert_int_equal(info->bound_covers, CKM_BOUND_ORDER);
    assert_true(info->optimal);
    assert_true(info->seconds == 1.25);
    assert_int_equal(ckm_schedule_step_count(s), 4);
    ckm_step step = ckm_schedule_get_step(s, 1);
    assert_int_equal(step.kind, CKM_STEP_COMPUTE);
    assert_int_equal(step.index, 1);
    assert_int_equal(step.n_inplace, 2);
    assert_int_equal(step.inplace[1][0], 3);
    assert_int_equal(step.inplace[1][1], 4);
    assert_int_equal(ckm_schedule_get_step(s, 2).n_inplace, 0);
    assert_int_equal(ckm_schedule_get_step(s, 3).kind, CKM_STEP_FREE);
    assert_int_equal(ckm_schedule_get_step(s, 3).index, 7);
    ckm_schedule_free(s);
}

static void optional_members_have_defaults(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{'format': 'checkmate-schedule', 'version': 1, 'steps': []}",
        "{'format': 'checkmate-schedule', 'version': 1, 'steps': [], 'bound_cost': null, 'bound_covers': null,"
        " 'budget_bytes': null, 'cost': null, 'seconds': null, 'status': 'feasible'}"};
    for (size_t i = 0; i < 2; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_schedule *s = quoted_schedule(texts[i], &err);
        assert_non_null(s);
        const ckm_schedule_info *info = ckm_schedule_get_info(s);
        assert_true(isnan(info->bound_cost));
        assert_int_equal(info->bound_covers, CKM_BOUND_NONE);
        assert_int_equal(info->budget_bytes, -1);
        assert_int_equal(info->cost, -1);
        assert_string_equal(info->graph, "");
        assert_false(info->optimal);
        assert_int_equal(ckm_schedule_step_count(s), 0);
        ckm_schedule_free(s);
    }
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = quoted_schedule("{'format': 'checkmate-schedule', 'version': 1, 'steps': [], 'bound_cost': 7,"
                                      " 'bound_covers': 'any'}",
                                      &err);
    assert_non_null(s);
    assert_true(ckm_schedule_get_info(s)->bound_cost == 7.0);
    assert_int_equal(ckm_schedule_get_info(s)->bound_covers, CKM_BOUND_ANY);
    ckm_schedule_free(s);
}

typedef struct bad_file {
    const char *text, *fragment;
} bad_file;

#define HEAD "{'format': 'checkmate-schedule', 'version': 1, "
#define STEPS(text) HEAD "'steps': [['compute', 0], " text "]}"

static void bad_files_give_one_clear_error(void **state)
{
    (void)state;
    static const bad_file bad[] = {
        {"nonsense", "not valid JSON"},
        {"{'format': 'checkmate-graph', 'version': 1}",
         "format is \"checkmate-graph\", expected \"checkmate-schedule\""},
        {"{'format': 'checkmate-schedule', 'steps': []}", "\"version\" is missing"},
        {"{'format': 'checkmate-schedule', 'version': 3, 'steps': []}", "version is 3"},
        {HEAD "'cost': 1}", "\"steps\" is missing"},
        {HEAD "'steps': {}}", "steps: must be an array"},
        {HEAD "'steps': [], 'graph': 1}", "graph: must be a string"},
        {HEAD "'steps': [], 'strategy': null}", "strategy: must be a string"},
        {HEAD "'steps': [], 'budget_bytes': -1}", "budget_bytes: -1 is out of range"},
        {HEAD "'steps': [], 'cost': 1.5}", "cost: must be an integer"},
        {HEAD "'steps': [], 'peak_bytes': '9'}", "peak_bytes: must be an integer"},
        {HEAD "'steps': [], 'bound_cost': '9'}", "bound_cost: must be a number of at least 0, or null"},
        {HEAD "'steps': [], 'bound_covers': 'all'}", "bound_covers: \"all\" is not one of"},
        {HEAD "'steps': [], 'bound_covers': 4}", "bound_covers: must be a string"},
        {HEAD "'steps': [], 'status': 'infeasible'}", "status: \"infeasible\" is not one of"},
        {HEAD "'steps': [], 'seconds': []}", "seconds: must be a number"},
        {STEPS("3"), "steps[1]: must be [\"compute\", operator]"},
        {STEPS("[]"), "steps[1]: must be [\"compute\", operator]"},
        {STEPS("[1, 2]"), "steps[1]: must be [\"compute\", operator]"},
        {STEPS("['run', 2]"), "steps[1]: \"run\" is none of"},
        {STEPS("['compute']"), "steps[1]: a compute step has 2 or 3 elements, not 1"},
        {STEPS("['compute', 1, [], 2]"), "steps[1]: a compute step has 2 or 3 elements, not 4"},
        {STEPS("['free', 1, []]"), "steps[1]: a free step has 2 elements, not 3"},
        {STEPS("['free', 'x']"), "steps[1][1]: must be an integer"},
        {STEPS("['free', -1]"), "steps[1][1]: -1 is out of range"},
        {STEPS("['free', 2147483648]"), "steps[1][1]: 2147483648 is out of range"},
        {STEPS("['compute', 0, 5]"), "steps[1][2]: must be an array of in-place pairs"},
        {STEPS("['compute', 0, [0, 1]]"), "steps[1][2][0]: must be a pair"},
        {STEPS("['compute', 0, [[0, 1], [1]]]"), "steps[1][2][1]: must be a pair"},
        {STEPS("['compute', 0, [[0, 1], [1, 2.0]]]"), "steps[1][2][1][1]: must be an integer"},
        {STEPS("['compute', 0, [[0, -4]]]"), "steps[1][2][0][1]: -4 is out of range"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        if (quoted_schedule(bad[i].text, &err) != NULL) {
            fail_msg("accepted: %s", bad[i].text);
        }
        assert_error(&err, CKM_ERR_FORMAT, bad[i].fragment);
        assert_string_equal(err.file, "test.json");
    }
}

static void assert_same(const ckm_schedule *a, const ckm_schedule *b)
{
    const ckm_schedule_info *left = ckm_schedule_get_info(a);
    const ckm_schedule_info *right = ckm_schedule_get_info(b);
    assert_string_equal(left->graph, right->graph);
    assert_string_equal(left->strategy, right->strategy);
    assert_true(left->budget_bytes == right->budget_bytes && left->cost == right->cost);
    assert_true(left->baseline_cost == right->baseline_cost && left->peak_bytes == right->peak_bytes);
    assert_true(left->bound_cost == right->bound_cost || (isnan(left->bound_cost) && isnan(right->bound_cost)));
    assert_true(left->bound_covers == right->bound_covers && left->optimal == right->optimal);
    assert_true(left->seconds == right->seconds);
    assert_int_equal(ckm_schedule_step_count(a), ckm_schedule_step_count(b));
    for (int64_t i = 0; i < ckm_schedule_step_count(a); i++) {
        ckm_step x = ckm_schedule_get_step(a, i);
        ckm_step y = ckm_schedule_get_step(b, i);
        assert_true(x.kind == y.kind && x.index == y.index && x.n_inplace == y.n_inplace);
        if (x.n_inplace > 0) {
            assert_memory_equal(x.inplace, y.inplace, (size_t)x.n_inplace * sizeof *x.inplace);
        }
    }
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static const double bounds[] = {NAN, 0.0, 121.5, 0.1, 1.0 / 3.0, 9007199254740993.0, 1e300, 123456789012345678.0};
    char path[64];
    snprintf(path, sizeof path, "/tmp/ckm_schedule_%ld.json", (long)getpid());
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_schedule *s = quoted_schedule_of("['compute', 0, [[1, 2], [3, 4]]], ['free', 2147483647], ['compute', 0]");
        ckm_schedule *back = NULL;
        ckm_schedule_info info = {.graph = "q\"uo\\te\n\x02 \xc3\xa4",
                                  .strategy = "s",
                                  .budget_bytes = INT64_MAX,
                                  .cost = INT64_C(9007199254740993),
                                  .baseline_cost = 0,
                                  .peak_bytes = -1,
                                  .bound_cost = bounds[i],
                                  .bound_covers = (ckm_bound_class)(i % 4),
                                  .optimal = i % 2 == 0,
                                  .seconds = bounds[i % 3 + 1]};
        ckm_schedule_set_info(s, &info);
        assert_int_equal(ckm_schedule_write(s, path, &err), CKM_OK);
        if (ckm_schedule_read(path, &back, &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
        assert_same(s, back);
        ckm_schedule_free(s);
        ckm_schedule_free(back);
    }
    unlink(path);
}

static void a_long_graph_name_is_cut_between_characters(void **state)
{
    (void)state;
    char text[1000];
    char name[400] = "";
    for (int i = 0; i < 100; i++) {
        strcat(name, "\xe2\x82\xac");  // three bytes; 127 is not a multiple
    }
    ckm_error err = CKM_ERROR_INIT;
    snprintf(text, sizeof text, HEAD "'graph': '%s', 'steps': []}", name);
    ckm_schedule *s = quoted_schedule(text, &err);
    assert_non_null(s);
    assert_int_equal(strlen(ckm_schedule_get_info(s)->graph), 126);
    ckm_schedule_free(s);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *out = NULL;
    assert_int_equal(ckm_schedule_read("/nonexistent/s.json", &out, &err), CKM_ERR_IO);
    assert_string_equal(err.file, "/nonexistent/s.json");
    assert_null(out);
    assert_int_equal(ckm_schedule_read("/tmp", &out, &err), CKM_ERR_IO);
    ckm_schedule *s = quoted_schedule_of("");
    assert_int_equal(ckm_schedule_write(s, "/nonexistent/s.json", &err), CKM_ERR_IO);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(ckm_schedule_write(s, "/dev/full", &err), CKM_ERR_IO);
        assert_string_equal(err.file, "/dev/full");
    }
    ckm_schedule_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_member),
        cmocka_unit_test(optional_members_have_defaults),
        cmocka_unit_test(bad_files_give_one_clear_error),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(a_long_graph_name_is_cut_between_characters),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
