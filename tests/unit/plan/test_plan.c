// SPDX-License-Identifier: Apache-2.0
// Memory plans: layouts worked by hand, random schedules against exhaustive packing, and what the checker catches.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "base/rng.h"
#include "oracle_random.h"
#include "plan/plan.h"
#include "quoted.h"

static ckm_plan *plan_of(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan_options *options)
{
    ckm_plan *plan = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_plan_create(df, s, options, &plan, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return plan;
}

static void must_be_good(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan *plan, int64_t alignment)
{
    ckm_plan_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_plan_verify(df, s, plan, alignment, &verdict, &err), CKM_OK);
    if (!verdict.ok) {
        fail_msg("%s", verdict.why);
    }
    assert_true(verdict.arena_bytes <= ckm_plan_get_info(plan)->arena_bytes);
}

// Tensor 0 is an input; 1 and 2 are computed, 3 views 2, 4 is written over 3's storage.
static const char *const graph =
    "'name': 'g', 'fixed_bytes': 1000, 'tensors': ["
    "{'bytes': 500}, {'bytes': 100}, {'bytes': 200}, {'bytes': 200, 'alias_of': 2}, {'bytes': 130}],"
    "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1], 'workspace_bytes': 70},"
    "{'cost': 1, 'inputs': [1], 'outputs': [2]}, {'cost': 0, 'inputs': [2], 'outputs': [3]},"
    "{'cost': 1, 'inputs': [3], 'outputs': [4], 'inplace': [[3, 4]]}], 'results': [4]";

static void instances_follow_the_schedule(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_dataflow *df = quoted_graph_of(graph);
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1], ['free', 1], ['compute', 2], ['free', 2],"
                                         "['compute', 3, [[3, 4]]]");
    ckm_plan *plan = plan_of(df, s, &options);
    const ckm_plan_info *info = ckm_plan_get_info(plan);
    const ckm_plan_instance expected[] = {
        {1, 0, 0, 0, 1, 100, 0}, {-1, 0, 1, 0, 0, 70, 0}, {2, 1, 2, 1, 5, 200, 0}, {4, 3, 2, 5, 5, 130, 0}};
    assert_int_equal(ckm_plan_instance_count(plan), 4);
    for (int32_t i = 0; i < 4; i++) {
        ckm_plan_instance instance = ckm_plan_get_instance(plan, i);
        assert_int_equal(instance.tensor, expected[i].tensor);
        assert_int_equal(instance.op, expected[i].op);
        assert_int_equal(instance.buffer, expected[i].buffer);
        assert_int_equal(instance.first, expected[i].first);
        assert_int_equal(instance.last, expected[i].last);
        assert_int_equal(instance.bytes, expected[i].bytes);
        assert_int_equal(instance.offset % 64, 0);
    }
    // Step 1 holds 100 and 200 bytes: 128 + 256 once they are rounded up.
    assert_int_equal(info->bound_bytes, 384);
    assert_int_equal(info->arena_bytes, 384);
    assert_int_equal(info->resident_bytes, 1500);
    assert_int_equal(info->peak_bytes, 1800);
    assert_int_equal(info->workspace_bytes, 70);
    assert_true(info->fragmentation == 0.0);
    must_be_good(df, s, plan, 64);

    int32_t inputs[1] = {7};
    int32_t outputs[1] = {7};
    int32_t workspace = 7;
    ckm_plan_get_step(plan, 0, inputs, outputs, &workspace);
    assert_int_equal(inputs[0], -1);
    assert_int_equal(outputs[0], 0);
    assert_int_equal(workspace, 1);
    ckm_plan_get_step(plan, 5, inputs, outputs, &workspace);
    assert_int_equal(inputs[0], 2);
    assert_int_equal(outputs[0], 3);
    assert_int_equal(workspace, -1);
    // A free step has no operands; what is not asked for is not given.
    inputs[0] = outputs[0] = workspace = 7;
    ckm_plan_get_step(plan, 2, inputs, outputs, &workspace);
    assert_int_equal(inputs[0], 7);
    assert_int_equal(outputs[0], 7);
    assert_int_equal(workspace, -1);
    ckm_plan_get_step(plan, 2, NULL, NULL, NULL);
    ckm_plan_get_step(plan, 0, NULL, NULL, NULL);
    ckm_plan_get_step(plan, 0, NULL, NULL, &workspace);
    assert_int_equal(workspace, 1);
    ckm_plan_free(plan);
    ckm_plan_free(NULL);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// A buffer that shrinks when it is handed over leaves its upper part to what comes later.
static void handed_over_memory_can_be_reused(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_dataflow *df = quoted_graph_of(
        "'name': 'g', 'tensors': [{'bytes': 640}, {'bytes': 64},"
        "{'bytes': 576}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
        "{'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]}, {'cost': 1, 'inputs': [1], 'outputs': [2]}],"
        "'results': [1]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1, [[0, 1]]], ['compute', 2]");
    ckm_plan *plan = plan_of(df, s, &options);
    assert_int_equal(ckm_plan_get_info(plan)->bound_bytes, 640);
    assert_int_equal(ckm_plan_get_info(plan)->arena_bytes, 640);
    assert_int_equal(ckm_plan_get_info(plan)->workspace_bytes, 0);
    must_be_good(df, s, plan, 64);
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// Nothing to place: no bytes, no fragmentation.
static void buffers_of_no_bytes(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_dataflow *df = quoted_graph_of("'tensors': [{'bytes': 500}, {'bytes': 0}],"
                                       "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]}]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0]");
    ckm_plan *plan = plan_of(df, s, &options);
    assert_int_equal(ckm_plan_get_info(plan)->bound_bytes, 0);
    assert_int_equal(ckm_plan_get_info(plan)->arena_bytes, 0);
    assert_true(ckm_plan_get_info(plan)->fragmentation == 0.0);
    assert_int_equal(ckm_plan_get_info(plan)->workspace_bytes, 0);
    must_be_good(df, s, plan, 64);
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// Two buffers that shrink, the second one twice: 64 bytes are left of each, and what comes last takes the rest.
static void memory_handed_over_again_and_again(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_dataflow *df = quoted_graph_of(
        "'tensors': [{'bytes': 640}, {'bytes': 64}, {'bytes': 640}, {'bytes': 320}, {'bytes': 320}, {'bytes': 64},"
        "            {'bytes': 576}],"
        "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'workspace_bytes': 60},"
        "{'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]], 'workspace_bytes': 30},"
        "{'cost': 1, 'inputs': [], 'outputs': [2]},"
        "{'cost': 1, 'inputs': [2], 'outputs': [3], 'inplace': [[2, 3]]},"
        "{'cost': 1, 'inputs': [3], 'outputs': [4], 'inplace': [[3, 4]]},"
        "{'cost': 1, 'inputs': [4], 'outputs': [5], 'inplace': [[4, 5]]},"
        "{'cost': 1, 'inputs': [], 'outputs': [6]}], 'results': [1, 5, 6]");
    ckm_schedule *s = quoted_schedule_of(
        "['compute', 0], ['compute', 1, [[0, 1]]], ['compute', 2], ['compute', 3, [[2, 3]]],"
        "['compute', 4, [[3, 4]]], ['compute', 5, [[4, 5]]], ['compute', 6]");
    ckm_plan *plan = plan_of(df, s, &options);
    assert_int_equal(plan->n_buffers, 5);
    assert_int_equal(ckm_plan_get_info(plan)->workspace_bytes, 60);
    assert_int_equal(ckm_plan_get_info(plan)->bound_bytes, 64 + 640);
    assert_int_equal(ckm_plan_get_info(plan)->arena_bytes, 64 + 640);
    must_be_good(df, s, plan, 64);
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void an_illegal_schedule_is_an_error(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan *plan = NULL;
    ckm_dataflow *df = quoted_graph_of(graph);
    ckm_schedule *s = quoted_schedule_of("['compute', 1]");
    assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_ERR_FORMAT);
    assert_null(plan);
    static const int64_t alignments[] = {48, 3, -1, -64};
    for (size_t i = 0; i < sizeof alignments / sizeof alignments[0]; i++) {
        options.alignment = alignments[i];
        assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_ERR_ARGUMENT);
        assert_error(&err, CKM_ERR_ARGUMENT, "is not a power of two");
    }
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void sizes_that_overflow_are_an_error(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan *plan = NULL;
    ckm_dataflow *df = quoted_graph_of("'name': 'g', 'tensors': ["
                                       "{'bytes': 9223372036854775800}], 'ops': [{'cost': 1, 'inputs': [],"
                                       "'outputs': [0]}]");
    ckm_schedule *s = quoted_schedule_of("['compute', 0]");
    assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_ERR_OVERFLOW);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
    // Each fits, and so do both as they are, but not rounded up.
    df = quoted_graph_of("'name': 'g', 'tensors': [{'bytes': 4611686018427387904}, {'bytes': 4611686018427387903}],"
                         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0, 1]}]");
    s = quoted_schedule_of("['compute', 0]");
    assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_ERR_OVERFLOW);
    assert_error(&err, CKM_ERR_OVERFLOW, "the sizes of all buffers");
    assert_null(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// Exhaustive packing: every arrangement can be pushed down until each buffer rests on the floor or on another, and is
// then what placing the buffers at their lowest offsets, in order of offset, gives. So all orders are tried.
enum { MOST_BUFFERS = 7 };
typedef struct exhaustive {
    const ckm_plan *plan;
    int32_t n_buffers, n_placed;
    int64_t offsets[MOST_BUFFERS];
    bool placed[MOST_BUFFERS];
    int64_t best;
} exhaustive;

// The first step in which an instance needs memory that its buffer's earlier instance does not give it.
static int64_t begin_of(const ckm_plan *plan, int32_t i)
{
    ckm_plan_instance instance = ckm_plan_get_instance(plan, i);
    for (int32_t k = 0; k < i; k++) {
        if (ckm_plan_get_instance(plan, k).buffer == instance.buffer) {
            return instance.first + 1;
        }
    }
    return instance.first;
}

static bool clash(const exhaustive *e, int32_t a, int64_t at_a, int32_t b, int64_t at_b)
{
    for (int32_t i = 0; i < ckm_plan_instance_count(e->plan); i++) {
        ckm_plan_instance x = ckm_plan_get_instance(e->plan, i);
        for (int32_t j = 0; x.buffer == a && j < ckm_plan_instance_count(e->plan); j++) {
            ckm_plan_instance y = ckm_plan_get_instance(e->plan, j);
            if (y.buffer == b && begin_of(e->plan, i) <= y.last && begin_of(e->plan, j) <= x.last &&
                begin_of(e->plan, i) <= x.last && begin_of(e->plan, j) <= y.last && at_a < at_b + y.bytes &&
                at_b < at_a + x.bytes) {
                return true;
            }
        }
    }
    return false;
}

static void try_all_orders(exhaustive *e, int64_t arena)
{
    if (arena >= e->best) {
        return;
    }
    if (e->n_placed == e->n_buffers) {
        e->best = arena;
        return;
    }
    for (int32_t b = 0; b < e->n_buffers; b++) {
        if (e->placed[b]) {
            continue;
        }
        int64_t offset = 0;
        for (bool raised = true; raised;) {
            raised = false;
            for (int32_t o = 0; o < e->n_buffers && !raised; o++) {
                if (e->placed[o] && clash(e, b, offset, o, e->offsets[o])) {
                    offset++;
                    raised = true;
                }
            }
        }
        int64_t top = arena;
        for (int32_t i = 0; i < ckm_plan_instance_count(e->plan); i++) {
            ckm_plan_instance x = ckm_plan_get_instance(e->plan, i);
            if (x.buffer == b && offset + x.bytes > top) {
                top = offset + x.bytes;
            }
        }
        e->placed[b] = true;
        e->offsets[b] = offset;
        e->n_placed++;
        try_all_orders(e, top);
        e->placed[b] = false;
        e->n_placed--;
    }
}

// n buffers with random sizes below 2^size_bits units and lives below 2^life_bits steps.
static ckm_dataflow *random_chain(ckm_i_rng *rng, int32_t n, int64_t unit, uint32_t size_bits, uint32_t life_bits,
                                  ckm_schedule **out)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    int32_t ends[512];
    assert_int_equal(ckm_dataflow_create("random", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_schedule_create(out, &err), CKM_OK);
    for (int32_t i = 0; i < n; i++) {
        uint32_t size = 1 + ckm_i_rng_below(rng, 1U << (1 + ckm_i_rng_below(rng, size_bits)));
        ckm_dataflow_tensor tensor = {.bytes = unit * (int64_t)size};
        ckm_dataflow_op op = {.cost = 1, .n_outputs = 1, .outputs = &i};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
        ends[i] = i + 1 + (int32_t)ckm_i_rng_below(rng, 1U << (1 + ckm_i_rng_below(rng, life_bits)));
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    for (int32_t t = 0; t < n; t++) {
        ckm_step compute = {.kind = CKM_STEP_COMPUTE, .index = t};
        assert_int_equal(ckm_schedule_append(*out, &compute, &err), CKM_OK);
        for (int32_t i = 0; i <= t; i++) {
            ckm_step release = {.kind = CKM_STEP_FREE, .index = i};
            if (ends[i] == t + 1) {
                assert_int_equal(ckm_schedule_append(*out, &release, &err), CKM_OK);
            }
        }
    }
    return df;
}

// Buffers that crowd each other, so that the bound often cannot be reached and a careless order misses the optimum.
static void crowded_buffers_pack_as_well_as_possible(void **state)
{
    (void)state;
    ckm_i_rng rng = {4};
    int64_t above_bound = 0;
    int64_t improved = 0;
    for (int64_t trial = 0; trial < oracle_scaled(150); trial++) {
        ckm_schedule *s = NULL;
        ckm_dataflow *df = random_chain(&rng, MOST_BUFFERS, 1, 3, 2, &s);
        ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
        options.alignment = 1;
        ckm_plan *plan = plan_of(df, s, &options);
        exhaustive e = {.plan = plan, .n_buffers = plan->n_buffers, .best = INT64_MAX};
        try_all_orders(&e, 0);
        must_be_good(df, s, plan, 1);
        assert_int_equal(ckm_plan_get_info(plan)->arena_bytes, e.best);
        above_bound += e.best > ckm_plan_get_info(plan)->bound_bytes;
        improved += ckm_plan_get_info(plan)->iterations > 0;
        ckm_plan_free(plan);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    printf("%lld with no packing at the bound, %lld improved\n", (long long)above_bound, (long long)improved);
}

static void random_schedules_pack_as_well_as_possible(void **state)
{
    (void)state;
    ckm_i_rng rng = {42};
    int64_t compared = 0;
    int64_t tight = 0;
    int64_t with_hand_over = 0;
    for (int64_t trial = 0; trial < oracle_scaled(600); trial++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 8, 10, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_schedule *s = oracle_random_schedule(&rng, &g);
        ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
        options.alignment = 1;
        options.iteration_limit = 2000;
        ckm_plan *plan = plan_of(df, s, &options);
        const ckm_plan_info *info = ckm_plan_get_info(plan);
        must_be_good(df, s, plan, 1);
        assert_int_equal(info->bound_bytes, info->peak_bytes - info->resident_bytes);
        assert_true(info->arena_bytes >= info->bound_bytes);
        if (plan->n_buffers <= MOST_BUFFERS) {
            exhaustive e = {.plan = plan, .n_buffers = plan->n_buffers, .best = INT64_MAX};
            try_all_orders(&e, 0);
            if (info->arena_bytes != e.best) {
                fail_msg("arena of %lld bytes where %lld do\n%s", (long long)info->arena_bytes, (long long)e.best,
                         oracle_describe(&g, s));
            }
            compared++;
            tight += e.best > info->bound_bytes;
        }
        with_hand_over += plan->n_buffers < plan->n_instances;
        // Aligned, the plan is as good and only larger.
        options.alignment = 64;
        ckm_plan *aligned = plan_of(df, s, &options);
        must_be_good(df, s, aligned, 64);
        assert_true(ckm_plan_get_info(aligned)->arena_bytes >= info->arena_bytes);
        ckm_plan_free(aligned);
        ckm_plan_free(plan);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    printf("compared %lld, %lld of them with no packing at the bound; %lld with hand-overs\n", (long long)compared,
           (long long)tight, (long long)with_hand_over);
    assert_true(compared > oracle_scaled(200));
    assert_true(with_hand_over > oracle_scaled(10));
}

// Wrecks one thing in a good plan. False when there is nothing to wreck.
static bool wreck(ckm_plan *plan, ckm_i_rng *rng)
{
    if (plan->n_instances == 0) {
        return false;
    }
    ckm_plan_instance *x = &plan->instances[ckm_i_rng_below(rng, (uint32_t)plan->n_instances)];
    switch (ckm_i_rng_below(rng, 8)) {
    case 0:
        x->first++;
        return true;
    case 1:
        x->last++;
        return true;
    case 2:
        x->last--;
        return true;
    case 3:
        x->bytes++;
        return true;
    case 4:
        x->offset = plan->info.arena_bytes + 64;
        return true;
    case 5:
        x->tensor = x->tensor == 0 ? 1 : 0;
        return true;
    case 6:
        x->offset += 32;
        return true;
    default:
        if (plan->n_bindings == 0) {
            return false;
        }
        plan->bindings[ckm_i_rng_below(rng, (uint32_t)plan->n_bindings)] += 1;
        return true;
    }
}

static void the_checker_sees_what_is_wrong(void **state)
{
    (void)state;
    ckm_i_rng rng = {7};
    ckm_error err = CKM_ERROR_INIT;
    int64_t wrecked = 0;
    for (int64_t trial = 0; trial < oracle_scaled(3000); trial++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 8, 10, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_schedule *s = oracle_random_schedule(&rng, &g);
        ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
        options.iteration_limit = 1;
        ckm_plan *plan = plan_of(df, s, &options);
        if (wreck(plan, &rng)) {
            ckm_plan_verdict verdict;
            assert_int_equal(ckm_plan_verify(df, s, plan, 64, &verdict, &err), CKM_OK);
            if (verdict.ok) {
                fail_msg("a wrecked plan passes\n%s", oracle_describe(&g, s));
            }
            assert_true(verdict.why[0] != '\0');
            assert_int_equal(verdict.arena_bytes, -1);
            wrecked++;
        }
        ckm_plan_free(plan);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(wrecked > oracle_scaled(1000));
}

// Two buffers in use together, moved onto each other.
static void the_checker_sees_overlaps(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_plan_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = quoted_graph_of(graph);
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1], ['compute', 2], ['compute', 3]");
    ckm_plan *plan = plan_of(df, s, &options);
    must_be_good(df, s, plan, 64);
    plan->instances[2].offset = plan->instances[0].offset + 64;
    plan->info.arena_bytes = 4096;
    assert_int_equal(ckm_plan_verify(df, s, plan, 64, &verdict, &err), CKM_OK);
    assert_false(verdict.ok);
    assert_non_null(strstr(verdict.why, "overlap"));
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

static void improving_helps_and_is_repeatable(void **state)
{
    (void)state;
    ckm_i_rng rng = {11};
    double first_sum = 0.0;
    double last_sum = 0.0;
    int64_t iterations = 0;
    for (int trial = 0; trial < 10; trial++) {
        ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
        ckm_schedule *s = NULL;
        ckm_dataflow *df = random_chain(&rng, 300, 64, 5, 6, &s);
        // Anything at or below the target will do.
        options.target_bytes = INT64_MAX;
        ckm_plan *first = plan_of(df, s, &options);
        assert_int_equal(ckm_plan_get_info(first)->iterations, 0);
        options.target_bytes = -1;
        options.iteration_limit = 1000;
        ckm_plan *last = plan_of(df, s, &options);
        ckm_plan *again = plan_of(df, s, &options);
        must_be_good(df, s, last, 64);
        assert_true(ckm_plan_get_info(last)->iterations <= 1000);
        iterations += ckm_plan_get_info(last)->iterations;
        first_sum += ckm_plan_get_info(first)->fragmentation;
        last_sum += ckm_plan_get_info(last)->fragmentation;
        assert_true(ckm_plan_get_info(last)->arena_bytes <= ckm_plan_get_info(first)->arena_bytes);
        for (int32_t i = 0; i < ckm_plan_instance_count(last); i++) {
            assert_int_equal(ckm_plan_get_instance(last, i).offset, ckm_plan_get_instance(again, i).offset);
        }
        ckm_plan_free(again);
        ckm_plan_free(last);
        ckm_plan_free(first);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    printf("mean fragmentation %.4f constructed, %.4f improved\n", first_sum / 10.0, last_sum / 10.0);
    assert_true(iterations > 0);
    assert_true(last_sum < 0.2 * first_sum);
    assert_true(last_sum / 10.0 < 0.03);
}

static void plans_are_written(void **state)
{
    (void)state;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    char path[64];
    snprintf(path, sizeof path, "/tmp/ckm_plan_%ld.csv", (long)getpid());
    ckm_dataflow *df = quoted_graph_of(graph);
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1], ['compute', 2], ['compute', 3]");
    ckm_plan *plan = plan_of(df, s, &options);
    assert_int_equal(ckm_plan_write(df, plan, path, &err), CKM_OK);
    char line[256];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "kind,name,tensor,op,buffer,first,last,bytes,offset\n");
    int rows = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        rows++;
    }
    assert_int_equal(rows, ckm_plan_instance_count(plan));
    fclose(f);
    remove(path);
    assert_int_equal(ckm_plan_write(df, plan, "/nonexistent/folder/plan.json", &err), CKM_ERR_IO);
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instances_follow_the_schedule),
        cmocka_unit_test(handed_over_memory_can_be_reused),
        cmocka_unit_test(buffers_of_no_bytes),
        cmocka_unit_test(memory_handed_over_again_and_again),
        cmocka_unit_test(an_illegal_schedule_is_an_error),
        cmocka_unit_test(sizes_that_overflow_are_an_error),
        cmocka_unit_test(crowded_buffers_pack_as_well_as_possible),
        cmocka_unit_test(random_schedules_pack_as_well_as_possible),
        cmocka_unit_test(the_checker_sees_what_is_wrong),
        cmocka_unit_test(the_checker_sees_overlaps),
        cmocka_unit_test(improving_helps_and_is_repeatable),
        cmocka_unit_test(plans_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
