// SPDX-License-Identifier: Apache-2.0
// Schedules of the reverse pebble game against brute force: where every operator may run again there is one within the
// least peak of all, however it is played; whatever comes out is legal and within the budget it was made for.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "solve/floor/memory_floor.h"
#include "solve/floor/pebbling_schedule.h"

static const int64_t no_limit = INT64_C(1) << 40;

static bool all_run_again(const oracle_graph *g)
{
    for (int32_t v = 0; v < g->n_ops; v++) {
        if (!g->ops[v].recomputable) {
            return false;
        }
    }
    return true;
}

// Whether there is a schedule for the budget in this manner; fails where it breaks a rule or the budget.
static bool writes(const oracle_graph *g, ckm_i_pebbling *p, ckm_i_play_manner manner, int64_t budget_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    int64_t cost = 0;
    int64_t peak = 0;
    if (ckm_i_pebbling_schedule(p, manner, budget_bytes, no_limit, NULL, NULL, &s, &err) != CKM_OK) {
        fail_msg("%s\n%s", err.message, oracle_describe(g, NULL));
    }
    if (s != NULL && (!oracle_replay(g, s, &cost, &peak, NULL) || peak > budget_bytes)) {
        fail_msg("manner %d, budget %lld: illegal, or its peak %lld is too much\n%s", (int)manner,
                 (long long)budget_bytes, (long long)peak, oracle_describe(g, s));
    }
    bool found = s != NULL;
    ckm_schedule_free(s);
    return found;
}

static int64_t enough_for(const oracle_graph *g, ckm_i_pebbling *p, int64_t work)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_memory_floor_options options = {work, INT64_MAX};
    ckm_i_memory_floor_result found;
    if (ckm_i_memory_floor_find(p, &options, &found, &err) != CKM_OK) {
        fail_msg("%s\n%s", err.message, oracle_describe(g, NULL));
    }
    return found.enough_bytes;
}

// With as much work as it takes, and with hardly any: then more memory is said to be enough, and it is.
static void what_is_enough_is_shown(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 511};
    int64_t n_again = 0;
    int64_t n_once = 0;
    int64_t n_once_found = 0;
    for (int64_t round = oracle_scaled(3000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_ANY);
        bool again = all_run_again(&g);
        for (int little = 0; little < 2; little++) {
            ckm_i_pebbling p;
            ckm_error err = CKM_ERROR_INIT;
            assert_int_equal(ckm_i_pebbling_init_again(&p, df, &err), CKM_OK);
            int64_t enough = enough_for(&g, &p, little ? 40 : no_limit);
            if (again && !little && enough != least) {
                fail_msg("enough %lld, the least peak is %lld\n%s", (long long)enough, (long long)least,
                         oracle_describe(&g, NULL));
            }
            for (int manner = 0; manner < CKM_I_PLAY_MANNERS; manner++) {
                int64_t budget = enough + (int64_t)(ckm_i_rng_next(&rng) % 3) * enough / 4;
                bool found = writes(&g, &p, (ckm_i_play_manner)manner, budget);
                if (again && !found) {
                    fail_msg("manner %d: no schedule within %lld, and %lld are enough\n%s", manner, (long long)budget,
                             (long long)enough, oracle_describe(&g, NULL));
                }
                n_again += again;
                n_once += !again;
                n_once_found += !again && found;
            }
            ckm_i_pebbling_dispose(&p);
        }
        ckm_dataflow_free(df);
    }
    printf("%lld schedules where operators may run again, and %lld of %lld others\n", (long long)n_again,
           (long long)n_once_found, (long long)n_once);
    assert_true(n_again > 0);
    assert_true(n_once_found > n_once / 2);
}

// Aimed at a budget, the game says that it fits only where it does, and then writes it down.
static void aim_is_met(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 512};
    int64_t n_fit = 0;
    for (int64_t round = oracle_scaled(2000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 3, 7, 9, &g);
        if (!all_run_again(&g)) {
            continue;
        }
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_ANY);
        for (int64_t budget = least > 1 ? least - 1 : 0; budget <= least + 1; budget++) {
            ckm_i_pebbling p;
            ckm_error err = CKM_ERROR_INIT;
            bool fits = false;
            assert_int_equal(ckm_i_pebbling_init_again(&p, df, &err), CKM_OK);
            (void)enough_for(&g, &p, 0);
            assert_int_equal(ckm_i_memory_floor_aim(&p, budget, no_limit, &fits, &err), CKM_OK);
            if (fits != (budget >= least)) {
                fail_msg("%lld bytes %s, and the least peak is %lld\n%s", (long long)budget, fits ? "fit" : "do not",
                         (long long)least, oracle_describe(&g, NULL));
            }
            n_fit += fits;
            assert_true(!fits || writes(&g, &p, CKM_I_PLAY_KNOWN, budget));
            ckm_i_pebbling_dispose(&p);
        }
        ckm_dataflow_free(df);
    }
    assert_true(n_fit > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_enough_is_shown),
        cmocka_unit_test(aim_is_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
