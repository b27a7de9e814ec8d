// SPDX-License-Identifier: Apache-2.0
// Simulator, verifier, baseline and memory floor against the brute force's own reading of the rules.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"

// The three readings of one schedule; true when it is legal.
static bool readings_agree(const oracle_graph *g, const ckm_dataflow *df, const ckm_schedule *s, int64_t *cost,
                           int64_t *peak)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_simulation sim = {.cost = -1, .peak_bytes = -1};
    ckm_verdict verdict;
    bool legal = oracle_replay(g, s, cost, peak, NULL);
    ckm_status simulated = ckm_schedule_simulate(df, s, NULL, &sim, &err);
    if (simulated != CKM_OK && simulated != CKM_ERR_FORMAT) {
        fail_msg("the simulator fails: %s", err.message);
    }
    if (ckm_schedule_verify(df, s, -1, &verdict, &err) != CKM_OK) {
        fail_msg("the verifier fails: %s", err.message);
    }
    bool agree = (simulated == CKM_OK) == legal && verdict.ok == legal;
    if (agree && legal) {
        agree = sim.cost == *cost && sim.peak_bytes == *peak && verdict.cost == *cost && verdict.peak_bytes == *peak;
    }
    if (!agree) {
        fail_msg("legal %d, cost %lld, peak %lld; simulator: %s, %lld, %lld; verifier: %s, %lld, %lld\n%s", legal,
                 (long long)*cost, (long long)*peak, simulated == CKM_OK ? "legal" : err.message, (long long)sim.cost,
                 (long long)sim.peak_bytes, verdict.ok ? "legal" : verdict.why, (long long)verdict.cost,
                 (long long)verdict.peak_bytes, oracle_describe(g, s));
    }
    assert_true(legal ? verdict.why[0] == '\0' : verdict.why[0] != '\0' && verdict.cost == -1);
    return legal;
}

static void random_schedules_are_read_alike(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 11};
    int64_t n_legal = 0;
    int64_t n_illegal = 0;
    int64_t n_inplace = 0;
    for (int64_t round = oracle_scaled(3000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, 7, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        for (int k = 0; k < 3; k++) {
            int64_t cost = -1;
            int64_t peak = -1;
            ckm_schedule *s = oracle_random_schedule(&rng, &g);
            if (!readings_agree(&g, df, s, &cost, &peak)) {
                fail_msg("a random legal schedule is called illegal\n%s", oracle_describe(&g, s));
            }
            for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
                n_inplace += ckm_schedule_get_step(s, i).n_inplace;
            }
            for (int c = 0; c < 4; c++) {
                ckm_schedule *changed = oracle_corrupt_schedule(&rng, &g, s);
                bool legal = readings_agree(&g, df, changed, &cost, &peak);
                n_legal += legal;
                n_illegal += !legal;
                ckm_schedule_free(changed);
            }
            ckm_schedule_free(s);
        }
        ckm_dataflow_free(df);
    }
    // The sample must contain both, and in-place steps, or it shows nothing.
    assert_true(n_legal * 20 > n_illegal);
    assert_true(n_illegal * 20 > n_legal);
    assert_true(n_inplace > oracle_scaled(100));
}

// The budget is part of the verdict, to the byte.
static void verifier_judges_the_budget(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 12};
    for (int64_t round = oracle_scaled(300); round > 0; round--) {
        oracle_graph g;
        ckm_error err = CKM_ERROR_INIT;
        ckm_verdict verdict;
        int64_t cost = 0;
        int64_t peak = 0;
        oracle_random_graph(&rng, 1, 6, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_schedule *s = oracle_random_schedule(&rng, &g);
        assert_true(readings_agree(&g, df, s, &cost, &peak));
        assert_int_equal(ckm_schedule_verify(df, s, peak, &verdict, &err), CKM_OK);
        assert_true(verdict.ok);
        if (peak > 0) {
            assert_int_equal(ckm_schedule_verify(df, s, peak - 1, &verdict, &err), CKM_OK);
            assert_false(verdict.ok);
            assert_int_equal(verdict.peak_bytes, peak);
            assert_int_equal(verdict.cost, cost);
        }
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
}

static void baseline_has_the_least_peak_of_its_order(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 13};
    for (int64_t round = oracle_scaled(2000); round > 0; round--) {
        oracle_graph g;
        ckm_error err = CKM_ERROR_INIT;
        ckm_schedule *s = NULL;
        int64_t cost = -1;
        int64_t peak = -1;
        oracle_random_graph(&rng, 1, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        if (ckm_schedule_baseline(df, &s, &err) != CKM_OK) {
            fail_msg("no baseline: %s\n%s", err.message, oracle_describe(&g, NULL));
        }
        assert_true(readings_agree(&g, df, s, &cost, &peak));
        if (cost != ckm_dataflow_total_cost(df) || peak != oracle_least_peak(&g, ORACLE_ONCE)) {
            fail_msg("cost %lld of %lld, peak %lld, could be %lld\n%s", (long long)cost,
                     (long long)ckm_dataflow_total_cost(df), (long long)peak,
                     (long long)oracle_least_peak(&g, ORACLE_ONCE), oracle_describe(&g, s));
        }
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
}

// Wider classes are never dearer, budgets never help by shrinking, and the floor is below every least peak.
static void classes_and_floor_are_ordered(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 14};
    int64_t n_floor_tight = 0;
    int64_t n_remat = 0;
    int64_t n_narrower = 0;
    for (int64_t round = oracle_scaled(1000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 6, 8, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t floor = ckm_dataflow_memory_floor(df);
        int64_t least[4];
        for (int c = ORACLE_ONCE; c <= ORACLE_ANY; c++) {
            least[c] = oracle_least_peak(&g, (oracle_class)c);
            assert_true(least[c] >= 0);
            if (least[c] < floor || (c > 0 && least[c] > least[c - 1])) {
                fail_msg("class %d: least peak %lld, floor %lld\n%s", c, (long long)least[c], (long long)floor,
                         oracle_describe(&g, NULL));
            }
        }
        n_floor_tight += floor == least[ORACLE_ANY];
        for (int64_t budget = least[ORACLE_ANY]; budget <= least[ORACLE_ONCE]; budget++) {
            int64_t optimum[4];
            for (int c = ORACLE_ONCE; c <= ORACLE_ANY; c++) {
                optimum[c] = oracle_optimum(&g, (oracle_class)c, budget);
                assert_true((optimum[c] >= 0) == (budget >= least[c]));
                assert_true(c == 0 || optimum[c - 1] < 0 || (optimum[c] >= 0 && optimum[c] <= optimum[c - 1]));
            }
            n_remat += optimum[ORACLE_FRONTIER] > ckm_dataflow_total_cost(df);
            n_narrower += optimum[ORACLE_FRONTIER] != optimum[ORACLE_ORDER];
        }
        ckm_dataflow_free(df);
    }
    assert_true(n_floor_tight > oracle_scaled(10));
    assert_true(n_remat > oracle_scaled(10));
    assert_true(n_narrower > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_schedules_are_read_alike),
        cmocka_unit_test(verifier_judges_the_budget),
        cmocka_unit_test(baseline_has_the_least_peak_of_its_order),
        cmocka_unit_test(classes_and_floor_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
