// SPDX-License-Identifier: Apache-2.0
// Places for cuts: every place is tried once, the search ends at the best of a single hill, and what was tried wins.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <checkmate/dataflow.h>

#include "solve/bounds/cut_points.h"

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
        ckm_dataflow_op op = {.cost = 1, .inputs = &read, .n_inputs = v > 0, .outputs = &made, .n_outputs = 1};
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
        ckm_i_cut_points cuts;
        bool tried[n_ops] = {false};
        assert_int_equal(ckm_i_cut_points_init(df, INT64_MAX, 0, &cuts, NULL), CKM_OK);
        int32_t count = 0;
        for (int32_t v = ckm_i_cut_points_next(&cuts); v >= 0; v = ckm_i_cut_points_next(&cuts)) {
            assert_true(v < n_ops && !tried[v]);
            tried[v] = true;
            count++;
            ckm_i_cut_points_score(&cuts, v, -abs(v - tops[i]));
        }
        assert_true(count < 70);
        assert_int_equal(cuts.best, tops[i]);
        int32_t chosen[4];
        assert_int_equal(ckm_i_cut_points_choose(&cuts, 1, chosen), 1);
        assert_int_equal(chosen[0], tops[i]);
        assert_int_equal(ckm_i_cut_points_choose(&cuts, 4, chosen), 4);
        assert_int_equal(chosen[tops[i] / (n_ops / 4)], tops[i]);
        ckm_i_cut_points_dispose(&cuts);
    }
    ckm_dataflow_free(df);
}

static void ends_without_bounds(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain();
    ckm_i_cut_points cuts;
    assert_int_equal(ckm_i_cut_points_init(df, INT64_MAX, 400, &cuts, NULL), CKM_OK);
    for (int32_t v = ckm_i_cut_points_next(&cuts), n = 0; v >= 0; v = ckm_i_cut_points_next(&cuts)) {
        assert_true(v >= 400 && n++ < n_ops);
    }
    // Where nothing is known, cuts come where most is to hold: here at the beginning of each stretch.
    int32_t chosen[n_ops];
    assert_int_equal(ckm_i_cut_points_choose(&cuts, 4, chosen), 4);
    assert_int_equal(chosen[1], 425);
    assert_int_equal(ckm_i_cut_points_choose(&cuts, n_ops, chosen), 100);
    assert_int_equal(chosen[99], 499);
    ckm_i_cut_points_dispose(&cuts);
    ckm_dataflow_free(df);
}

// The last operator reads a view of the first's 8 bytes: they live while the third makes its 2 bytes.
static void what_a_view_is_on_lives(void **state)
{
    (void)state;
    ckm_dataflow *df = NULL;
    ckm_i_cut_points cuts;
    const ckm_dataflow_tensor tensors[] = {{.bytes = 8}, {.is_view = true}, {.bytes = 2}, {.bytes = 1}};
    const int32_t reads[] = {0, 0, 0, 1};
    assert_int_equal(ckm_dataflow_create("view", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    for (int32_t v = 0; v < 4; v++) {
        int32_t made = -1;
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[v], &made, NULL), CKM_OK);
        ckm_dataflow_op op = {.cost = 1, .inputs = &reads[v], .n_inputs = v % 2, .outputs = &made, .n_outputs = 1};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    assert_int_equal(ckm_i_cut_points_init(df, INT64_MAX, 0, &cuts, NULL), CKM_OK);
    assert_int_equal(cuts.live[2], 10);
    assert_int_equal(cuts.live[3], 9);
    ckm_i_cut_points_dispose(&cuts);
    ckm_dataflow_free(df);
}

static bool has(const ckm_i_cut_points *cuts, int32_t v)
{
    for (int32_t k = 0; k < cuts->n_current; k++) {
        if (cuts->current[k] == v) {
            return true;
        }
    }
    return false;
}

static void level(double *values, double to)
{
    for (int32_t v = 0; v < n_ops; v++) {
        values[v] = to;
    }
}

static void refines_where_asked(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain();
    ckm_i_cut_points cuts;
    double excess[n_ops];
    double slack[n_ops] = {0.0};
    assert_int_equal(ckm_i_cut_points_init(df, INT64_MAX, 100, &cuts, NULL), CKM_OK);
    ckm_i_cut_points_score(&cuts, 300, 1.0);
    ckm_i_cut_points_begin(&cuts, 2);
    assert_int_equal(cuts.n_current, 1);
    assert_int_equal(cuts.current[0], 300);
    // The three largest, but none next to another or to an existing cut, and none too small.
    level(excess, -0.5);
    excess[50] = 9.0;  // before the range
    excess[301] = 8.0;
    excess[200] = 1.0;
    excess[203] = 0.9;
    excess[400] = 0.5;
    excess[450] = 0.2;
    assert_true(ckm_i_cut_points_refine(&cuts, excess, slack));
    assert_int_equal(cuts.n_current, 3);
    assert_true(has(&cuts, 200) && has(&cuts, 300) && has(&cuts, 400));
    int32_t few[n_ops];
    assert_int_equal(ckm_i_cut_points_earliest(&cuts, 2, few), 2);
    assert_true(few[0] == 200 && few[1] == 300);
    assert_int_equal(ckm_i_cut_points_earliest(&cuts, 4, few), 3);
    // What has room to spare goes once. It may come back, and then stays.
    for (int i = 0; i < 2; i++) {
        level(excess, -0.5);
        level(slack, 0.0);
        slack[1] = 0.5;
        excess[300] = 1.0;
        assert_int_equal(cuts.current[1], 300);
        assert_true(ckm_i_cut_points_refine(&cuts, excess, slack));
        assert_true(has(&cuts, 300));
        assert_true(i == 0 || cuts.n_current > 3);  // nothing was asked for: a stretch without a cut has one
    }
    assert_int_equal(ckm_i_cut_points_earliest(&cuts, 2, few), 2);
    assert_true(few[0] == 200 && few[1] == 400);  // the other came again, and later
    ckm_i_cut_points_dispose(&cuts);
    ckm_dataflow_free(df);
}

static void refines_to_the_end(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain();
    ckm_i_cut_points cuts;
    double excess[n_ops];
    double slack[n_ops] = {0.0};
    assert_int_equal(ckm_i_cut_points_init(df, INT64_MAX, 437, &cuts, NULL), CKM_OK);
    ckm_i_cut_points_begin(&cuts, 8);
    assert_int_equal(cuts.n_current, 8);
    int runs = 0;
    bool more = true;
    for (; more && runs < 20; runs++) {
        level(excess, -0.5);
        more = ckm_i_cut_points_refine(&cuts, excess, slack);
        for (int32_t k = 1; k < cuts.n_current; k++) {
            assert_true(cuts.current[k] > cuts.current[k - 1]);
        }
    }
    // In the end there is one after every operator of the range.
    assert_true(!more && cuts.n_current == n_ops - 437 && cuts.current[0] == 437);
    ckm_i_cut_points_dispose(&cuts);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(climbs_to_the_top), cmocka_unit_test(ends_without_bounds),
                                       cmocka_unit_test(what_a_view_is_on_lives), cmocka_unit_test(refines_where_asked),
                                       cmocka_unit_test(refines_to_the_end)};
    return cmocka_run_group_tests_name("stage cuts", tests, NULL, NULL);
}
