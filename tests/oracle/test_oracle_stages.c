// SPDX-License-Identifier: Apache-2.0
// The matrices of the paper against the brute force: what they say of a schedule is what the schedule is, and
// all S together contain an optimal frontier-advancing schedule.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "schedule/stages.h"

static ckm_i_stages *create(const ckm_dataflow *df)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *st = NULL;
    if (ckm_i_stages_create(df, &st, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return st;
}

// Completes S and checks cost, peak and steps against the brute force's reading of the steps.
static void check_stages(const oracle_graph *g, const ckm_dataflow *df, ckm_i_stages *st, int64_t *cost, int64_t *peak)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    ckm_verdict verdict;
    oracle_class which = ORACLE_ANY;
    int64_t said_peak = -1;
    if (ckm_i_stages_complete(st, &err) != CKM_OK || ckm_i_stages_emit(st, &s, &err) != CKM_OK ||
        ckm_i_stages_peak(st, &said_peak, &err) != CKM_OK || ckm_schedule_verify(df, s, -1, &verdict, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    int64_t said_cost = ckm_i_stages_cost(st);
    bool legal = oracle_replay(g, s, cost, peak, &which);
    if (!legal || !verdict.ok || said_cost != *cost || said_peak != *peak || which > ORACLE_FRONTIER) {
        fail_msg("legal %d (%s), class %d, cost %lld and peak %lld; the matrices say %lld and %lld\n%s", legal,
                 verdict.why, (int)which, (long long)*cost, (long long)*peak, (long long)said_cost,
                 (long long)said_peak, oracle_describe(g, s));
    }
    ckm_schedule_free(s);
}

static void hold_some(ckm_i_rng *rng, ckm_i_stages *st, const oracle_graph *g, uint32_t percent)
{
    for (int32_t t = 0; t <= g->n_ops; t++) {
        for (int32_t x = 0; x < g->n_tensors; x++) {
            if (ckm_i_rng_below(rng, 100) < percent) {
                ckm_i_bits_set(ckm_i_stages_s(st, t), x);
            }
        }
    }
}

static void matrices_describe_their_schedule(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 21};
    for (int64_t round = oracle_scaled(3000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, 7, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        for (int k = 0; k < 4; k++) {
            ckm_i_stages *st = create(df);
            uint32_t percent = 10 + ckm_i_rng_below(&rng, 90);
            int64_t cost = -1;
            int64_t peak = -1;
            hold_some(&rng, st, &g, percent);
            check_stages(&g, df, st, &cost, &peak);
            // Completing is a projection: once more changes nothing.
            ckm_i_stages *again = create(df);
            ckm_error err = CKM_ERROR_INIT;
            assert_int_equal(ckm_i_stages_copy(st, again, &err), CKM_OK);
            assert_int_equal(ckm_i_stages_complete(again, &err), CKM_OK);
            for (int32_t t = 0; t <= g.n_ops; t++) {
                assert_memory_equal(ckm_i_stages_s(st, t), ckm_i_stages_s(again, t), st->s_words * sizeof *st->s);
            }
            ckm_i_stages_free(again);
            ckm_i_stages_free(st);
        }
        ckm_dataflow_free(df);
    }
}

// A place in S that may be set: tensor x held into stage t.
typedef struct held_bit {
    int32_t t, x;
} held_bit;

static void all_matrices_together_are_optimal(void **state)
{
    (void)state;
    enum { MAX_BITS = 12 };
    ckm_i_rng rng = {.state = 22};
    int64_t n_enumerated = 0;
    int64_t n_infeasible = 0;
    int64_t n_remat = 0;
    int64_t wanted = oracle_scaled(250);
    while (n_enumerated < wanted) {
        oracle_graph g;
        held_bit bits[ORACLE_MAX_OPS * ORACLE_MAX_TENSORS];
        int32_t n_bits = 0;
        oracle_random_graph(&rng, 3, 5, 7, &g);
        ckm_dataflow *df = oracle_build(&g);
        for (int32_t t = 1; t < g.n_ops; t++) {
            for (int32_t x = 0; x < g.n_tensors; x++) {
                int32_t producer = ckm_dataflow_producer(df, x);
                if (producer >= 0 && producer < t) {
                    bits[n_bits++] = (held_bit){t, x};
                }
            }
        }
        if (n_bits > MAX_BITS) {
            ckm_dataflow_free(df);
            continue;
        }
        n_enumerated++;
        // Cheapest cost per peak over all S.
        int64_t cheapest[512];
        for (int32_t p = 0; p < 512; p++) {
            cheapest[p] = -1;
        }
        ckm_i_stages *st = create(df);
        for (uint32_t choice = 0; choice < UINT32_C(1) << n_bits; choice++) {
            int64_t cost = 0;
            int64_t peak = 0;
            for (int32_t t = 0; t <= g.n_ops; t++) {
                memset(ckm_i_stages_s(st, t), 0, st->s_words * sizeof *st->s);
            }
            for (int32_t k = 0; k < n_bits; k++) {
                if ((choice >> k) & 1U) {
                    ckm_i_bits_set(ckm_i_stages_s(st, bits[k].t), bits[k].x);
                }
            }
            check_stages(&g, df, st, &cost, &peak);
            assert_true(peak < 512);
            cheapest[peak] = cheapest[peak] < 0 || cost < cheapest[peak] ? cost : cheapest[peak];
        }
        int64_t best = -1;
        for (int64_t budget = 0; budget < 120; budget++) {
            if (cheapest[budget] >= 0 && (best < 0 || cheapest[budget] < best)) {
                best = cheapest[budget];
            }
            int64_t optimum = oracle_optimum(&g, ORACLE_FRONTIER, budget);
            if (optimum != best) {
                fail_msg("budget %lld: the cheapest S costs %lld, brute force %lld\n%s", (long long)budget,
                         (long long)best, (long long)optimum, oracle_describe(&g, NULL));
            }
            n_infeasible += optimum < 0;
            n_remat += optimum > ckm_dataflow_total_cost(df);
            if (optimum == ckm_dataflow_total_cost(df)) {
                break;
            }
        }
        ckm_i_stages_free(st);
        ckm_dataflow_free(df);
    }
    assert_true(n_infeasible > 0);
    assert_true(n_remat > 0);
}

// The largest graphs that the brute force takes, where all states are looked at, too: no S is cheaper, what fits in no stages does not
// fit, and the narrower the class, the dearer.
static void the_largest_graphs_have_their_optimum(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 23};
    int64_t n_remat = 0;
    for (int64_t round = oracle_scaled(200); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, ORACLE_MAX_OPS, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_FRONTIER);
        int64_t optimum = oracle_optimum(&g, ORACLE_FRONTIER, least);
        assert_int_equal(oracle_optimum(&g, ORACLE_FRONTIER, least - 1), -1);
        assert_int_equal(oracle_optimum(&g, ORACLE_FRONTIER, oracle_least_peak(&g, ORACLE_ONCE)),
                         ckm_dataflow_total_cost(df));
        assert_in_range(oracle_optimum(&g, ORACLE_ORDER, least), ckm_dataflow_total_cost(df), optimum);
        n_remat += optimum > ckm_dataflow_total_cost(df);
        for (uint32_t percent = 0; percent <= 100; percent += 10) {
            ckm_i_stages *st = create(df);
            int64_t cost = -1;
            int64_t peak = -1;
            hold_some(&rng, st, &g, percent);
            check_stages(&g, df, st, &cost, &peak);
            assert_in_range(oracle_optimum(&g, ORACLE_FRONTIER, peak), ckm_dataflow_total_cost(df), cost);
            ckm_i_stages_free(st);
        }
        ckm_dataflow_free(df);
    }
    assert_true(n_remat > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_describe_their_schedule),
        cmocka_unit_test(all_matrices_together_are_optimal),
        cmocka_unit_test(the_largest_graphs_have_their_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
