// SPDX-License-Identifier: Apache-2.0
// What the checkpointing heuristics choose from and choose: the forward part of a graph, articulation points,
// and the two rules of Chen et al., on graphs small enough to be done by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "solve/checkpoints/checkpoints.h"

typedef struct fixture {
    ckm_dataflow *df;
    ckm_i_forward *fw;
} fixture;

static fixture open_graph(ckm_dataflow *df)
{
    fixture f = {.df = df};
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_forward_create(df, &f.fw, &err), CKM_OK);
    return f;
}

static void close_graph(fixture *f)
{
    ckm_i_forward_free(f->fw);
    ckm_dataflow_free(f->df);
}

static void expect_positions(const ckm_i_positions *set, const int32_t *expected, int32_t n)
{
    assert_int_equal(set->n, n);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(set->at[i], expected[i]);
    }
}

static void expect_candidates(const ckm_i_forward *fw, ckm_i_candidates which, const int32_t *expected, int32_t n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_positions found = {0};
    assert_int_equal(ckm_i_candidates_find(fw, which, &found, &err), CKM_OK);
    expect_positions(&found, expected, n);
    ckm_i_positions_dispose(&found);
}

static void layer_graph_is_split_at_its_loss(void **state)
{
    (void)state;
    fixture f = open_graph(layer_graph_unit_chain(4));
    assert_int_equal(f.fw->n, 4);
    assert_int_equal(f.fw->turn, 4);
    assert_true(f.fw->unwinds);
    const int32_t layer[9] = {0, 1, 2, 3, 4, 3, 2, 1, 0};
    for (int32_t v = 0; v < 9; v++) {
        assert_int_equal(f.fw->layer[v], layer[v]);
        assert_int_equal(f.fw->position[v], v < 4 ? v : -1);
    }
    assert_int_equal(ckm_i_forward_first_stage(f.fw, 4), 4);
    assert_int_equal(ckm_i_forward_first_stage(f.fw, 2), 6);
    assert_int_equal(ckm_i_forward_last_stage(f.fw, 4), 4);
    assert_int_equal(ckm_i_forward_last_stage(f.fw, 1), 7);
    close_graph(&f);
}

static void shape_tells_when_kinds_do_not(void **state)
{
    (void)state;
    const layer_spec layers[3] = {{1, 1, 0, {0}}, {1, 1, 1, {0}}, {1, 1, 1, {1}}};
    fixture f = open_graph(layer_graph_build(layers, 3, 0, 1, false));
    assert_int_equal(f.fw->n, 3);
    assert_int_equal(f.fw->turn, 3);
    assert_int_equal(f.fw->layer[3], 3);
    assert_int_equal(f.fw->layer[6], 0);
    close_graph(&f);
}

// A chain of operators that all claim to be of one kind.
static ckm_dataflow *plain_chain(int32_t n, ckm_op_kind kind)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("plain", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < n; v++) {
        ckm_dataflow_tensor tensor = {.bytes = 1, .alias_of = -1};
        int32_t in = v - 1;
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        ckm_dataflow_op op = {.kind = kind, .cost = 1, .n_inputs = v > 0, .n_outputs = 1, .inputs = &in, .outputs = &v};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

static void graphs_without_a_backward_part_are_all_forward(void **state)
{
    (void)state;
    fixture f = open_graph(plain_chain(5, CKM_OP_FORWARD));
    assert_int_equal(f.fw->n, 5);
    assert_int_equal(f.fw->turn, 5);
    assert_false(f.fw->unwinds);
    assert_int_equal(ckm_i_forward_first_stage(f.fw, 0), 5);
    assert_int_equal(ckm_i_forward_last_stage(f.fw, 0), -1);
    close_graph(&f);
    f = open_graph(plain_chain(5, CKM_OP_BACKWARD));
    assert_int_equal(f.fw->n, 0);
    expect_candidates(f.fw, CKM_I_CANDIDATES_ALL, NULL, 0);
    expect_candidates(f.fw, CKM_I_CANDIDATES_ARTICULATION, NULL, 0);
    close_graph(&f);
}

static void chain_is_all_articulation_points(void **state)
{
    (void)state;
    const int32_t all[5] = {0, 1, 2, 3, 4};
    fixture f = open_graph(layer_graph_unit_chain(5));
    expect_candidates(f.fw, CKM_I_CANDIDATES_ALL, all, 5);
    expect_candidates(f.fw, CKM_I_CANDIDATES_ARTICULATION, all, 5);
    close_graph(&f);
}

static void branches_are_no_articulation_points(void **state)
{
    (void)state;
    // 0 - 1 - (2 - 3 | 4) - 5 - 6, and 6 - (7 |) 8: a diamond and a skip connection.
    const layer_spec layers[9] = {{1, 1, 0, {0}},    {1, 1, 1, {0}}, {1, 1, 1, {1}}, {1, 1, 1, {2}},   {1, 1, 1, {1}},
                                  {1, 1, 2, {3, 4}}, {1, 1, 1, {5}}, {1, 1, 1, {6}}, {1, 1, 2, {7, 6}}};
    const int32_t all[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const int32_t points[5] = {0, 1, 5, 6, 8};
    fixture f = open_graph(layer_graph_build(layers, 9, 0, 1, true));
    expect_candidates(f.fw, CKM_I_CANDIDATES_ALL, all, 9);
    expect_candidates(f.fw, CKM_I_CANDIDATES_ARTICULATION, points, 5);
    close_graph(&f);
}

static void two_entries_share_one_source(void **state)
{
    (void)state;
    // 0 and 1 both read the network's input and meet in 2.
    const layer_spec layers[4] = {{1, 1, 0, {0}}, {1, 1, 0, {0}}, {1, 1, 2, {0, 1}}, {1, 1, 1, {2}}};
    const int32_t points[2] = {2, 3};
    fixture f = open_graph(layer_graph_build(layers, 4, 0, 1, true));
    expect_candidates(f.fw, CKM_I_CANDIDATES_ARTICULATION, points, 2);
    close_graph(&f);
}

static void sqrt_takes_every_root_of_n_th(void **state)
{
    (void)state;
    const struct {
        int32_t n, stride;
    } cases[] = {{0, 0}, {1, 1}, {3, 1}, {4, 2}, {8, 2}, {9, 3}, {24, 4}, {25, 5}, {35, 5}, {36, 6}};
    int32_t from[36];
    int32_t to[36];
    for (int32_t i = 0; i < 36; i++) {
        from[i] = 2 * i + 1;
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        ckm_i_positions candidates = {.n = cases[c].n, .at = from};
        ckm_i_positions chosen = {.n = 99, .at = to};
        ckm_i_checkpoints_sqrt(&candidates, &chosen);
        assert_int_equal(chosen.n, cases[c].n == 0 ? 0 : cases[c].n / cases[c].stride);
        for (int32_t i = 0; i < chosen.n; i++) {
            assert_int_equal(to[i], from[(i + 1) * cases[c].stride - 1]);
        }
    }
}

static void greedy_closes_a_segment_beyond_the_limit(void **state)
{
    (void)state;
    const layer_spec layers[6] = {{1, 5, 0, {0}}, {1, 3, 1, {0}}, {1, 4, 1, {1}},
                                  {1, 1, 1, {2}}, {1, 9, 1, {3}}, {1, 2, 1, {4}}};
    fixture f = open_graph(layer_graph_build(layers, 6, 0, 1, true));
    int32_t all[6] = {0, 1, 2, 3, 4, 5};
    int32_t some[3] = {1, 3, 4};
    int32_t at[6];
    ckm_i_positions chosen = {.at = at};
    const ckm_i_positions every = {.n = 6, .at = all};
    const ckm_i_positions few = {.n = 3, .at = some};
    ckm_i_checkpoints_greedy(f.fw, &every, 0, &chosen);
    expect_positions(&chosen, all, 6);
    ckm_i_checkpoints_greedy(f.fw, &every, 7, &chosen);  // 5+3 | 4+1+9 | 2
    expect_positions(&chosen, (const int32_t[]){1, 4}, 2);
    ckm_i_checkpoints_greedy(f.fw, &every, 8, &chosen);  // the sum must pass the limit: 5+3+4 | 1+9 | 2
    expect_positions(&chosen, (const int32_t[]){2, 4}, 2);
    ckm_i_checkpoints_greedy(f.fw, &few, 4, &chosen);  // 5+3 | 4+1 | 9 | 2
    expect_positions(&chosen, some, 3);
    ckm_i_checkpoints_greedy(f.fw, &few, 8, &chosen);  // 5+3+4+1 | 9 | 2
    expect_positions(&chosen, (const int32_t[]){3, 4}, 2);
    ckm_i_checkpoints_greedy(f.fw, &every, 24, &chosen);
    expect_positions(&chosen, NULL, 0);
    close_graph(&f);
}

static void limits_are_twentieths(void **state)
{
    (void)state;
    assert_int_equal(ckm_i_checkpoints_greedy_limit(84733184, 0), 0);
    assert_int_equal(ckm_i_checkpoints_greedy_limit(84733184, 1), 4236659);
    assert_int_equal(ckm_i_checkpoints_greedy_limit(84733184, 20), 84733184);
    assert_int_equal(ckm_i_checkpoints_greedy_limit(39, 59), 115);
    assert_true(ckm_i_checkpoints_greedy_limit(INT64_MAX, 19) < INT64_MAX / 20 * 20);
    assert_true(ckm_i_checkpoints_greedy_limit(INT64_MAX, 59) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layer_graph_is_split_at_its_loss),
        cmocka_unit_test(shape_tells_when_kinds_do_not),
        cmocka_unit_test(graphs_without_a_backward_part_are_all_forward),
        cmocka_unit_test(chain_is_all_articulation_points),
        cmocka_unit_test(branches_are_no_articulation_points),
        cmocka_unit_test(two_entries_share_one_source),
        cmocka_unit_test(sqrt_takes_every_root_of_n_th),
        cmocka_unit_test(greedy_closes_a_segment_beyond_the_limit),
        cmocka_unit_test(limits_are_twentieths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
