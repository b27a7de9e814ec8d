// SPDX-License-Identifier: Apache-2.0
// Places for cuts: every place is tried once, the search ends at the best of a single hill, and what was tried wins.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <checkmate/dataflow.h>

#include "solve/bounds/stage_cuts.h"

enum { n_ops = 500 };

// A chain whose tensors are largest in the middle.
static ckm_dataflow *make_chain(void)
{
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    for (int32_t v = 0; v < n_ops; v++) {
        ckm_dataflow_tensor tensor = {.bytes = 1000 - abs(v - n_ops / 2), .alias_of = -1};
        int32_t made = -1;
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &made, NULL), CKM_OK);
        int32_t read = made - 1;
        ckm_dataflow_op op = {
            .cost = 1, .recomputable = true, .inputs = &read, .n_inputs = v > 0, .outputs = &made, .n_outputs = 1};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    return df;
}

static void climbs_to_the_top(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain();
    const int32_t tops[] = {0, 3, 137, 250, 498, n_ops - 1};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        ckm_i_stage_cuts cuts;
        bool tried[n_ops] = {false};
        assert_int_equal(ckm_i_stage_cuts_init(df, INT64_MAX, 0, &cuts, NULL), CKM_OK);
        int32_t count = 0;
        for (int32_t v = ckm_i_stage_cuts_next(&cuts); v >= 0; v = ckm_i_stage_cuts_next(&cuts)) {
            assert_true(v < n_ops && !tried[v]);
            tried[v] = true;
            count++;
            ckm_i_stage_cuts_score(&cuts, v, -abs(v - tops[i]));
        }
        assert_true(count < 70);
        assert_int_equal(cuts.best, tops[i]);
        int32_t chosen[4];
        assert_int_equal(ckm_i_stage_cuts_choose(&cuts, 1, chosen), 1);
        assert_int_equal(chosen[0], tops[i]);
        assert_int_equal(ckm_i_stage_cuts_choose(&cuts, 4, chosen), 4);
        assert_int_equal(chosen[tops[i] / (n_ops / 4)], tops[i]);
        ckm_i_stage_cuts_dispose(&cuts);
    }
    ckm_dataflow_free(df);
}

static void ends_without_bounds(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain();
    ckm_i_stage_cuts cuts;
    assert_int_equal(ckm_i_stage_cuts_init(df, INT64_MAX, 400, &cuts, NULL), CKM_OK);
    for (int32_t v = ckm_i_stage_cuts_next(&cuts), n = 0; v >= 0; v = ckm_i_stage_cuts_next(&cuts)) {
        assert_true(v >= 400 && n++ < n_ops);
    }
    // Where nothing is known, cuts come where most is to hold: here at the beginning of each stretch.
    int32_t chosen[n_ops];
    assert_int_equal(ckm_i_stage_cuts_choose(&cuts, 4, chosen), 4);
    assert_int_equal(chosen[1], 425);
    assert_int_equal(ckm_i_stage_cuts_choose(&cuts, n_ops, chosen), 100);
    assert_int_equal(chosen[99], 499);
    ckm_i_stage_cuts_dispose(&cuts);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(climbs_to_the_top), cmocka_unit_test(ends_without_bounds)};
    return cmocka_run_group_tests_name("stage cuts", tests, NULL, NULL);
}
