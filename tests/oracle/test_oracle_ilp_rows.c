// SPDX-License-Identifier: Apache-2.0
// The integer program row by row: schedules, with all their R and S filled in, satisfy it at their own peak and at no byte
// less. So no row cuts off what is legal, and none is missing.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "schedule/stages.h"
#include "solve/ilp/ilp.h"

static ckm_i_stages *random_stages(ckm_i_rng *rng, const oracle_graph *g, const ckm_dataflow *df)
{
    ckm_i_stages *st = NULL;
    uint32_t percent = ckm_i_rng_below(rng, 100);
    assert_int_equal(ckm_i_stages_create(df, &st, NULL), CKM_OK);
    for (int32_t t = 1; t < g->n_ops; t++) {
        for (int32_t x = 0; x < g->n_tensors; x++) {
            if (ckm_i_rng_below(rng, 100) < percent) {
                ckm_i_bits_set(ckm_i_stages_s(st, t), x);
            }
        }
    }
    assert_int_equal(ckm_i_stages_complete(st, NULL), CKM_OK);
    return st;
}

// Whether the program's constants are the schedule's; its other columns are fixed at what the schedule says.
static bool fix(ckm_i_ilp *ilp, int32_t col, bool value)
{
    if (col < 0) {
        return (col == CKM_I_ILP_ONE) == value;
    }
    ilp->milp.lower[col] = ilp->milp.upper[col] = value ? 1.0 : 0.0;
    return true;
}

static bool fix_all(ckm_i_ilp *ilp, const ckm_i_stages *st)
{
    int64_t n = st->n_ops;
    bool agree = true;
    for (int32_t t = 0; t < n; t++) {
        for (int32_t v = 0; v < n; v++) {
            agree = fix(ilp, ilp->r_col[t * n + v], ckm_i_bits_get(ckm_i_stages_r(st, t), v)) && agree;
        }
    }
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t x = 0; x < st->n_tensors; x++) {
            int32_t col = ilp->s_col[(int64_t)t * st->n_tensors + x];
            agree = fix(ilp, col, ckm_i_bits_get(ckm_i_stages_s(st, t), x)) && agree;
        }
    }
    return agree;
}

// What remains is continuous: presence, pairs. An engine finds it or proves that there is none.
static bool satisfies(const ckm_i_stages *st, int64_t budget, ckm_formulation formulation)
{
    ckm_i_ilp *ilp = NULL;
    ckm_i_milp_result result = {0};
    ckm_i_milp_options options = {.relax = true, .seconds = 60.0, .cutoff = INFINITY, .threads = 1, .enough = INFINITY};
    assert_int_equal(ckm_i_ilp_build(st->df, budget, formulation, 1000000, NULL, NULL, &ilp, NULL), CKM_OK);
    bool possible = fix_all(ilp, st);
    if (possible) {
        assert_int_equal(ckm_i_milp_solve(&ilp->milp, &options, &result, NULL), CKM_OK);
        assert_true(result.status == CKM_I_MILP_OPTIMAL || result.status == CKM_I_MILP_INFEASIBLE);
        possible = result.status == CKM_I_MILP_OPTIMAL;
    }
    ckm_i_milp_result_dispose(&result);
    ckm_i_ilp_free(ilp);
    return possible;
}

static void check(const oracle_graph *g, const ckm_dataflow *df, const ckm_i_stages *st, ckm_formulation formulation)
{
    ckm_schedule *s = NULL;
    int64_t peak = -1;
    assert_int_equal(ckm_i_stages_emit(st, &s, NULL), CKM_OK);
    assert_true(oracle_replay(g, s, NULL, &peak, NULL));
    if (!satisfies(st, peak, formulation)) {
        fail_msg("formulation %d: a row cuts off a schedule of peak %lld\n%s", (int)formulation, (long long)peak,
                 oracle_describe(g, s));
    }
    // No program is built for less than the resident bytes.
    if (peak > df->resident_bytes && satisfies(st, peak - 1, formulation)) {
        fail_msg("formulation %d: the rows allow a schedule of peak %lld one byte less\n%s", (int)formulation,
                 (long long)peak, oracle_describe(g, s));
    }
    ckm_schedule_free(s);
}

static void rows_are_the_schedules_own(void **state)
{
    (void)state;
    static const ckm_formulation forms[] = {CKM_FORMULATION_FRONTIER, CKM_FORMULATION_PAPER};
    const char *seed = getenv("CKM_ORACLE_SEED");
    ckm_i_rng rng = {.state = seed != NULL ? strtoull(seed, NULL, 10) : 61};
    int64_t n_again = 0;
    int64_t rounds = oracle_scaled(1500);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 7, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        for (int k = 0; k < 2; k++) {
            ckm_i_stages *st = random_stages(&rng, &g, df);
            n_again += ckm_i_stages_cost(st) > df->total_cost;
            check(&g, df, st, forms[k]);
            ckm_i_stages_free(st);
        }
        ckm_dataflow_free(df);
    }
    printf("%lld of %lld schedules compute something again\n", (long long)n_again, 2 * (long long)rounds);
    assert_true(n_again * 4 > rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_the_schedules_own)};
    return cmocka_run_group_tests_name("rows of the integer program", tests, NULL, NULL);
}
