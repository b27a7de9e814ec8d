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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_one_common_step_must_not_overlap),
        cmocka_unit_test(buffers_put_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
