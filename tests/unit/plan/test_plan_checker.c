// SPDX-License-Identifier: Apache-2.0
// The checker of plans: every rule broken by hand, each with the words that must say so, and buffers put anywhere
// against a comparison of all pairs at all steps.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "oracle_random.h"
#include "plan/plan.h"
#include "quoted.h"

static ckm_plan *plan_of(const ckm_dataflow *df, const ckm_schedule *s, int64_t alignment)
{
    ckm_plan *plan = NULL;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    options.alignment = alignment;
    options.iteration_limit = 1;
    if (ckm_plan_create(df, s, &options, &plan, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return plan;
}

// NULL when the plan is good, else what is wrong, which lives until the next call.
static const char *judge(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan *plan, int64_t alignment,
                         int64_t *arena)
{
    static ckm_plan_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_plan_verify(df, s, plan, alignment, &verdict, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    *arena = verdict.arena_bytes;
    assert_true(verdict.ok ? verdict.why[0] == '\0' : verdict.why[0] != '\0' && verdict.arena_bytes == -1);
    return verdict.ok ? NULL : verdict.why;
}

// ---- overlaps

// A chain of three: 0 is in use in steps 0 and 1, 1 in steps 1 to 3, 2 from step 3 on.
static const char chain[] =
    "'tensors': [{'bytes': 10}, {'bytes': 20}, {'bytes': 30}],"
    "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1]},"
    "        {'cost': 1, 'inputs': [1], 'outputs': [2]}], 'results': [2]";
static const char chain_steps[] = "['compute', 0], ['compute', 1], ['free', 0], ['compute', 2], ['free', 1]";

typedef struct layout {
    int64_t offsets[3];
    int64_t reach;                    // what a good layout takes; 0 when it is not good
    const char *instances, *at_step;  // that the complaint must name
} layout;

static void buffers_of_one_common_step_must_not_overlap(void **state)
{
    (void)state;
    static const layout cases[] = {
        {{20, 0, 20}, 50, NULL, NULL},
        // 0 and 2 never meet and may share their place; neither may share with 1, be it for one step.
        {{0, 30, 0}, 50, NULL, NULL},
        {{25, 30, 0}, 0, "instances 0 and 1", "step 1"},
        {{30, 30, 0}, 0, "instances 0 and 1", "step 1"},
        {{49, 30, 0}, 0, "instances 0 and 1", "step 1"},
        {{50, 30, 0}, 60, NULL, NULL},
        {{20, 30, 0}, 50, NULL, NULL},
        {{21, 30, 0}, 0, "instances 0 and 1", "step 1"},
        {{0, 29, 0}, 0, "instances 1 and 2", "step 3"},
        {{0, 10, 29}, 0, "instances 1 and 2", "step 3"},
        {{0, 10, 30}, 60, NULL, NULL},
        {{0, 35, 25}, 0, "instances 1 and 2", "step 3"},
        {{0, 12, 10}, 0, "instances 1 and 2", "step 3"},
    };
    ckm_dataflow *df = quoted_graph_of(chain);
    ckm_schedule *s = quoted_schedule_of(chain_steps);
    ckm_plan *plan = plan_of(df, s, 1);
    plan->info.arena_bytes = 100;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t arena;
        for (int32_t k = 0; k < 3; k++) {
            plan->instances[k].offset = cases[i].offsets[k];
        }
        const char *why = judge(df, s, plan, 1, &arena);
        if (cases[i].reach > 0) {
            if (why != NULL || arena != cases[i].reach) {
                fail_msg("layout %zu: %s, %lld bytes", i, why != NULL ? why : "good", (long long)arena);
            }
        } else if (why == NULL || strstr(why, cases[i].instances) == NULL || strstr(why, cases[i].at_step) == NULL ||
                   strstr(why, "overlap") == NULL) {
            fail_msg("layout %zu: %s", i, why != NULL ? why : "called good");
        }
    }
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// What is handed over in place has the input's memory, all of it, until the step is over: the workspace of the step must
// keep off, and comes later in the plan.
static void handed_over_memory_is_the_inputs_until_the_step_ends(void **state)
{
    (void)state;
    int64_t arena;
    ckm_dataflow *df = quoted_graph_of(
        "'tensors': [{'bytes': 640}, {'bytes': 64}, {'bytes': 10}],"
        "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
        "        {'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]], 'workspace_bytes': 32},"
        "        {'cost': 1, 'inputs': [1], 'outputs': [2], 'workspace_bytes': 500}], 'results': [1, 2]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1, [[0, 1]]], ['compute', 2]");
    ckm_plan *plan = plan_of(df, s, 1);
    plan->info.arena_bytes = 1000;
    assert_int_equal(plan->n_instances, 5);
    static const int64_t offsets[] = {0, 0, 640, 564, 64};
    for (int32_t i = 0; i < 5; i++) {
        plan->instances[i].offset = offsets[i];
    }
    assert_null(judge(df, s, plan, 1, &arena));
    assert_int_equal(arena, 672);
    for (int64_t offset = 63; offset < 640; offset += 64) {
        plan->instances[2].offset = offset;
        const char *why = judge(df, s, plan, 1, &arena);
        assert_non_null(why);
        assert_non_null(strstr(why, "instances 0 and 2 are in use together at step 1 and overlap"));
    }
    // A step later, only what the output needs is taken.
    plan->instances[2].offset = 640;
    plan->instances[4].offset = 63;
    const char *why = judge(df, s, plan, 1, &arena);
    assert_non_null(why);
    assert_non_null(strstr(why, "instances 1 and 4 are in use together at step 2 and overlap"));
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void free_steps_are_bound_to_nothing(void **state)
{
    (void)state;
    ckm_dataflow *df = quoted_graph_of(chain);
    ckm_schedule *s = quoted_schedule_of(chain_steps);
    ckm_plan *plan = plan_of(df, s, 1);
    int32_t inputs[1] = {7};
    int32_t outputs[1] = {7};
    int32_t workspace = 7;
    ckm_plan_get_step(plan, 2, inputs, outputs, &workspace);
    assert_true(inputs[0] == 7 && outputs[0] == 7 && workspace == -1);
    ckm_plan_get_step(plan, 3, inputs, outputs, &workspace);
    assert_true(inputs[0] == 1 && outputs[0] == 2 && workspace == -1);
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// Whether instance i takes memory of its own at a step: what is handed over takes it once the step is over.
static bool occupies(const ckm_plan *plan, int32_t i, int64_t step)
{
    int64_t first = plan->instances[i].first;
    for (int32_t k = 0; k < i; k++) {
        first = plan->instances[k].buffer == plan->instances[i].buffer ? plan->instances[i].first + 1 : first;
    }
    return plan->instances[i].bytes > 0 && first <= step && step <= plan->instances[i].last;
}

static bool any_two_clash(const ckm_plan *plan)
{
    for (int32_t i = 0; i < plan->n_instances; i++) {
        const ckm_plan_instance *a = &plan->instances[i];
        for (int32_t k = 0; k < i; k++) {
            const ckm_plan_instance *b = &plan->instances[k];
            bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
            for (int64_t step = 0; !apart && step < plan->n_steps; step++) {
                if (occupies(plan, i, step) && occupies(plan, k, step)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void buffers_put_anywhere(void **state)
{
    (void)state;
    ckm_i_rng rng = {31};
    int64_t n_good = 0;
    int64_t n_bad = 0;
    for (int64_t trial = 0; trial < oracle_scaled(1500); trial++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 7, 10, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_schedule *s = oracle_random_schedule(&rng, &g);
        ckm_plan *plan = plan_of(df, s, 1);
        int64_t good_offsets[256];
        assert_true(plan->n_instances < 256);
        for (int32_t i = 0; i < plan->n_instances; i++) {
            good_offsets[i] = plan->instances[i].offset;
        }
        plan->info.arena_bytes += 8;
        for (int variant = 0; variant < 8; variant++) {
            // All buffers anywhere, or one of a good layout moved; buffers handed over stay together.
            int64_t arena;
            int64_t reach = 0;
            int32_t moved = plan->n_buffers > 0 ? (int32_t)ckm_i_rng_below(&rng, (uint32_t)plan->n_buffers) : -1;
            for (int32_t i = 0; i < plan->n_instances; i++) {
                ckm_plan_instance *x = &plan->instances[i];
                bool leads = true;
                x->offset = good_offsets[i];
                for (int32_t k = 0; k < i; k++) {
                    if (plan->instances[k].buffer == x->buffer) {
                        x->offset = plan->instances[k].offset;
                        leads = false;
                    }
                }
                if (leads && (variant < 2 || x->buffer == moved)) {
                    int64_t room = plan->info.arena_bytes - x->bytes + 1;
                    x->offset = (int64_t)ckm_i_rng_below(&rng, (uint32_t)room);
                }
                reach = x->offset + x->bytes > reach ? x->offset + x->bytes : reach;
            }
            bool bad = any_two_clash(plan);
            const char *why = judge(df, s, plan, 1, &arena);
            if (bad != (why != NULL) || (!bad && arena != reach)) {
                fail_msg("%s, but the checker says: %s\n%s", bad ? "two buffers clash" : "no two buffers clash",
                         why != NULL ? why : "good", oracle_describe(&g, s));
            }
            assert_true(!bad || strstr(why, "overlap") != NULL);
            n_good += !bad;
            n_bad += bad;
        }
        ckm_plan_free(plan);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    printf("%lld good layouts, %lld with an overlap\n", (long long)n_good, (long long)n_bad);
    assert_true(n_good > oracle_scaled(500));
    assert_true(n_bad > oracle_scaled(500));
}

// ---- rules, one by one

// Tensor 0 is an input; 1 and 2 are computed, 3 views 2, 4 is written over 3's storage.
static const char mixed[] = "'fixed_bytes': 1000, 'tensors': ["
                            "{'name': 'in', 'bytes': 500}, {'name': 'a', 'bytes': 100}, {'name': 'b', 'bytes': 200},"
                            "{'name': 'v', 'bytes': 200, 'alias_of': 2}, {'name': 'r', 'bytes': 130}],"
                            "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1], 'workspace_bytes': 70},"
                            "{'cost': 1, 'inputs': [1], 'outputs': [2]}, {'cost': 0, 'inputs': [2], 'outputs': [3]},"
                            "{'cost': 1, 'inputs': [3], 'outputs': [4], 'inplace': [[3, 4]]}], 'results': [4]";
static const char mixed_steps[] = "['compute', 0], ['compute', 1], ['free', 1], ['compute', 2], ['free', 2],"
                                  "['compute', 3, [[3, 4]]]";

typedef enum field { TENSOR, OP, FIRST, LAST, BYTES, OFFSET, BUFFER, BINDING, ARENA } field;

// One thing is set to another value: a field of instance `at`, the binding at place `at`, the arena's size.
typedef struct change {
    field what;
    int32_t at;
    int64_t value;
    const char *fragments[3];
} change;

// Bindings in order: step 0 [in] [a] ws, step 1 [a] [b] ws, step 3 [b] [v] ws, step 5 [v] [r] ws.
static const change changes[] = {
    // Instance 0 is a in steps 0 to 1, 1 the workspace of step 0, 2 b and v in steps 1 to 5, 3 r in step 5.
    {TENSOR, 0, 2, {"step 0: instance 0 should be tensor 1", "but is tensor 2", NULL}},
    {TENSOR, 1, 1, {"step 0: instance 1 should be tensor -1", NULL, NULL}},
    {TENSOR, 2, 3, {"step 1: instance 2 should be tensor 2", NULL, NULL}},
    {TENSOR, 3, 2, {"step 5: instance 3 should be tensor 4", NULL, NULL}},
    {OP, 0, 1, {"instance 0 should be tensor 1 by operator 0", "by operator 1", NULL}},
    {OP, 1, -1, {"instance 1 should be tensor -1 by operator 0", NULL, NULL}},
    {OP, 3, 0, {"instance 3 should be tensor 4 by operator 3", NULL, NULL}},
    {FIRST, 0, 1, {"step 0: instance 0 should be", "from step 1", NULL}},
    {FIRST, 1, 1, {"step 0: instance 1 should be", NULL, NULL}},
    {FIRST, 2, 0, {"step 1: instance 2 should be", NULL, NULL}},
    {FIRST, 3, 6, {"step 5: instance 3 should be", NULL, NULL}},
    {LAST, 0, 0, {"instance 0 of tensor \"a\" (1) should end at step 1, but ends at 0", NULL, NULL}},
    {LAST, 0, 2, {"instance 0 of tensor \"a\" (1) should end at step 1, but ends at 2", NULL, NULL}},
    {LAST, 1, 1, {"instance 1: a workspace lives for one step", NULL, NULL}},
    {LAST, 1, -1, {"instance 1: a workspace lives for one step", NULL, NULL}},
    {LAST, 2, 4, {"instance 2 of tensor \"b\" (2) should end at step 5, but ends at 4", NULL, NULL}},
    {LAST, 3, 4, {"instance 3 of tensor \"r\" (4) should end at step 5, but ends at 4", NULL, NULL}},
    {LAST, 3, 6, {"instance 3 of tensor \"r\" (4) should end at step 5, but ends at 6", NULL, NULL}},
    {BYTES, 0, 99, {"instance 0 should be", "100 bytes", "99 bytes"}},
    {BYTES, 1, 71, {"instance 1 should be", "70 bytes", "71 bytes"}},
    {BYTES, 2, 201, {"instance 2 should be", "200 bytes", "201 bytes"}},
    {BYTES, 3, 200, {"instance 3 should be", "130 bytes", "200 bytes"}},
    {OFFSET, 0, -64, {"instance 0: offset -64 is not a multiple of 64", NULL, NULL}},
    {OFFSET, 1, 32, {"instance 1: offset 32 is not a multiple of 64", NULL, NULL}},
    {OFFSET, 3, 320, {"step 5: instance 2 is handed over in place to instance 3", "not in its place", NULL}},
    {OFFSET, 1, INT64_MAX - 63, {"instance 1 reaches beyond the arena of 384 bytes", NULL, NULL}},
    {OFFSET, 1, 320, {"instance 1 reaches beyond the arena of 384 bytes", NULL, NULL}},
    {BUFFER, 3, 0, {"handed over in place", "not in its place", NULL}},
    {BINDING, 0, 0, {"step 0: tensor \"in\" (0) lives in instance -1, but the step is bound to 0", NULL, NULL}},
    {BINDING, 1, 4, {"step 0: instance 4 does not exist, the plan has 4", NULL, NULL}},
    {BINDING, 1, -1, {"step 0: instance -1 does not exist", NULL, NULL}},
    {BINDING, 2, 0, {"step 0: instance 0 is allocated a second time", NULL, NULL}},
    {BINDING, 2, -1, {"step 0: instance -1 does not exist", NULL, NULL}},
    {BINDING, 3, 1, {"step 1: tensor \"a\" (1) lives in instance 0, but the step is bound to 1", NULL, NULL}},
    {BINDING, 4, 0, {"step 1: instance 0 is allocated a second time", NULL, NULL}},
    {BINDING, 5, 1, {"step 1: bound to a workspace it does not need", NULL, NULL}},
    {BINDING, 7, 0, {"step 3: tensor \"v\" (3) lives in instance 2, but the step is bound to 0", NULL, NULL}},
    {BINDING, 9, 3, {"step 5: tensor \"v\" (3) lives in instance 2, but the step is bound to 3", NULL, NULL}},
    {BINDING, 10, 2, {"step 5: instance 2 is allocated a second time", NULL, NULL}},
    {BINDING, 11, 2, {"step 5: bound to a workspace it does not need", NULL, NULL}},
    {ARENA, 0, 383, {"reaches beyond the arena of 383 bytes", NULL, NULL}},
};

static void apply(ckm_plan *plan, const change *c)
{
    ckm_plan_instance *x = &plan->instances[c->at];
    int32_t small = (int32_t)c->value;
    switch (c->what) {
    case TENSOR:
        x->tensor = small;
        break;
    case OP:
        x->op = small;
        break;
    case FIRST:
        x->first = c->value;
        break;
    case LAST:
        x->last = c->value;
        break;
    case BYTES:
        x->bytes = c->value;
        break;
    case OFFSET:
        x->offset = c->value;
        break;
    case BUFFER:
        x->buffer = small;
        break;
    case BINDING:
        plan->bindings[c->at] = small;
        break;
    case ARENA:
        plan->info.arena_bytes = c->value;
        break;
    }
}

static void every_claim_is_checked(void **state)
{
    (void)state;
    static const int64_t offsets[] = {256, 0, 0, 0};
    ckm_dataflow *df = quoted_graph_of(mixed);
    ckm_schedule *s = quoted_schedule_of(mixed_steps);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        int64_t arena;
        ckm_plan *plan = plan_of(df, s, 64);
        assert_int_equal(plan->n_instances, 4);
        assert_int_equal(plan->n_bindings, 12);
        for (int32_t k = 0; k < 4; k++) {
            plan->instances[k].offset = offsets[k];
        }
        assert_int_equal(plan->info.arena_bytes, 384);
        assert_null(judge(df, s, plan, 64, &arena));
        assert_int_equal(arena, 356);
        if (changes[i].what == ARENA) {
            // What ends at the arena's last byte is within it.
            plan->info.arena_bytes = 356;
            assert_null(judge(df, s, plan, 64, &arena));
            plan->instances[0].offset = 320;
        }
        apply(plan, &changes[i]);
        const char *why = judge(df, s, plan, 64, &arena);
        for (size_t k = 0; k < 3 && changes[i].fragments[k] != NULL; k++) {
            if (why == NULL || strstr(why, changes[i].fragments[k]) == NULL) {
                fail_msg("change %zu: expected \"%s\", got: %s", i, changes[i].fragments[k],
                         why != NULL ? why : "good");
            }
        }
        ckm_plan_free(plan);
    }
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// An instance that no step is bound to.
static void instances_of_nothing_are_seen(void **state)
{
    (void)state;
    int64_t arena;
    ckm_dataflow *df = quoted_graph_of(mixed);
    ckm_schedule *s = quoted_schedule_of(mixed_steps);
    ckm_plan *plan = plan_of(df, s, 64);
    plan->instances = realloc(plan->instances, 5 * sizeof *plan->instances);
    assert_non_null(plan->instances);
    plan->instances[4] = plan->instances[3];
    plan->n_instances = 5;
    const char *why = judge(df, s, plan, 64, &arena);
    assert_non_null(why);
    assert_non_null(strstr(why, "instance 4 belongs to nothing"));
    // The same in front.
    for (int32_t i = 4; i > 0; i--) {
        plan->instances[i] = plan->instances[i - 1];
    }
    for (int64_t i = 0; i < plan->n_bindings; i++) {
        plan->bindings[i] += plan->bindings[i] >= 0;
    }
    why = judge(df, s, plan, 64, &arena);
    assert_non_null(why);
    assert_non_null(strstr(why, "instance 0 belongs to nothing"));
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void an_illegal_schedule_has_no_good_plan(void **state)
{
    (void)state;
    ckm_plan_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    int64_t arena;
    ckm_dataflow *df = quoted_graph_of(mixed);
    ckm_schedule *s = quoted_schedule_of(mixed_steps);
    ckm_schedule *illegal = quoted_schedule_of("['compute', 0], ['free', 1], ['compute', 1]");
    ckm_plan *plan = plan_of(df, s, 64);
    const char *why = judge(df, illegal, plan, 64, &arena);
    assert_non_null(why);
    assert_non_null(strstr(why, "reads tensor \"a\" (1), which does not exist then"));
    assert_int_equal(ckm_plan_verify(df, s, plan, 0, &verdict, &err), CKM_ERR_ARGUMENT);
    assert_error(&err, CKM_ERR_ARGUMENT, "alignment 0 is not positive");
    assert_int_equal(ckm_plan_verify(df, s, plan, 1, &verdict, &err), CKM_OK);
    assert_true(verdict.ok);
    ckm_plan_free(plan);
    ckm_schedule_free(illegal);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// A verdict is one line of valid text, with any names.
static void verdicts_survive_hostile_names(void **state)
{
    (void)state;
    int64_t arena;
    ckm_dataflow *df = quoted_graph_of("'tensors': [{'name': 'two\\nlines', 'bytes': 1}],"
                                       "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0]");
    ckm_plan *plan = plan_of(df, s, 64);
    plan->instances[0].last = 7;
    const char *why = judge(df, s, plan, 64, &arena);
    assert_non_null(why);
    assert_non_null(strstr(why, "lines"));
    assert_null(strchr(why, '\n'));
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_one_common_step_must_not_overlap),
        cmocka_unit_test(handed_over_memory_is_the_inputs_until_the_step_ends),
        cmocka_unit_test(free_steps_are_bound_to_nothing),
        cmocka_unit_test(buffers_put_anywhere),
        cmocka_unit_test(every_claim_is_checked),
        cmocka_unit_test(instances_of_nothing_are_seen),
        cmocka_unit_test(an_illegal_schedule_has_no_good_plan),
        cmocka_unit_test(verdicts_survive_hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
