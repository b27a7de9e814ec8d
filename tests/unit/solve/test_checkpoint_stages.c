// SPDX-License-Identifier: Apache-2.0
// The matrices of a set of checkpoints: bit by bit on a chain of four layers, and cost and peak on linear8
// and VGG19 as the Checkmate paper's artifact has them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "layer_graph.h"
#include "solve/checkpoints/checkpoints.h"

static void check(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static ckm_i_stages *create(const ckm_dataflow *df)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *stages = NULL;
    check(ckm_i_stages_create(df, &stages, &err), &err);
    return stages;
}

static void expect_figures(const ckm_i_stages *stages, int64_t cost, int64_t peak_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t peak = -1;
    check(ckm_i_stages_peak(stages, &peak, &err), &err);
    assert_int_equal(ckm_i_stages_cost(stages), cost);
    assert_int_equal(peak, peak_bytes);
}

// The schedule that the matrices stand for is legal and has their figures.
static void expect_legal(const ckm_dataflow *df, const ckm_i_stages *stages, int64_t cost, int64_t peak_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *schedule = NULL;
    ckm_verdict verdict;
    check(ckm_i_stages_emit(stages, &schedule, &err), &err);
    check(ckm_schedule_verify(df, schedule, -1, &verdict, &err), &err);
    ckm_schedule_free(schedule);
    assert_string_equal(verdict.why, "");
    assert_int_equal(verdict.cost, cost);
    assert_int_equal(verdict.peak_bytes, peak_bytes);
}

static void one_checkpoint_in_four_layers(void **state)
{
    (void)state;
    // Operators: layers 0..3, loss 4, backward of 3, 2, 1, 0 as 5..8. Layer 1 is the checkpoint.
    static const char *const s_rows[10] = {
        ".........", "0........", ".1.......", ".12......", ".123.....",
        ".1234....",               // after the turn the last segment and the gradients made in it stay ...
        ".12345...", ".123456..",  // ... until backward of layer 2, the segment's first, is done
        "01.....7.",               // layer 0 is recomputed in the stage before the one that needs it
        ".........",
    };
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    ckm_i_forward *fw = NULL;
    check(ckm_i_forward_create(df, &fw, &err), &err);
    ckm_i_stages *stages = create(df);
    int32_t at[1] = {1};
    const ckm_i_positions checkpoints = {.n = 1, .at = at};
    check(ckm_i_checkpoints_stages(fw, &checkpoints, stages, &err), &err);
    for (int32_t t = 0; t <= 9; t++) {
        for (int32_t x = 0; x < 9; x++) {
            assert_int_equal(ckm_i_bits_get(ckm_i_stages_s(stages, t), x), s_rows[t][x] != '.');
        }
    }
    for (int32_t t = 0; t < 9; t++) {
        for (int32_t v = 0; v < 9; v++) {
            assert_int_equal(ckm_i_bits_get(ckm_i_stages_r(stages, t), v), v == t || (t == 7 && v == 0));
        }
    }
    // Six tensors while backward of layer 2 runs; five without loss and gradients held in vain.
    expect_figures(stages, 10, 6);
    expect_legal(df, stages, 10, 6);
    check(ckm_i_stages_complete(stages, &err), &err);
    expect_figures(stages, 10, 5);
    ckm_i_stages_free(stages);
    ckm_i_forward_free(fw);
    ckm_dataflow_free(df);
}

static void last_keeps_one_operator(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = layer_graph_unit_chain(3);
    ckm_i_stages *stages = create(df);
    check(ckm_i_checkpoints_last_stages(df, stages, &err), &err);
    // Layers 0 1 2, loss 3, backward 4 5 6. Stage 4 needs layer 2: 3 more. Stage 5 needs layers 1 and 2: 3
    // more. Stage 6 needs layers 0 and 1: 2 more. In stage 5 backward of 2, both layers and the result: 4.
    expect_figures(stages, 7 + 3 + 3 + 2, 4);
    expect_legal(df, stages, 15, 4);
    ckm_i_stages_free(stages);
    ckm_dataflow_free(df);
}

typedef struct reference {
    int32_t n;  // -1: nothing but the last operator is kept
    int32_t checkpoints[10];
    int64_t cost, activation_bytes;
} reference;

static void expect_references(ckm_dataflow *df, int64_t fixed_bytes, const reference *rows, size_t n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_forward *fw = NULL;
    check(ckm_i_forward_create(df, &fw, &err), &err);
    for (size_t i = 0; i < n; i++) {
        int32_t at[10];
        for (int32_t k = 0; k < rows[i].n; k++) {
            at[k] = rows[i].checkpoints[k];
        }
        const ckm_i_positions checkpoints = {.n = rows[i].n, .at = at};
        ckm_i_stages *stages = create(df);
        if (rows[i].n < 0) {
            check(ckm_i_checkpoints_last_stages(df, stages, &err), &err);
        } else {
            check(ckm_i_checkpoints_stages(fw, &checkpoints, stages, &err), &err);
        }
        expect_figures(stages, rows[i].cost, fixed_bytes + rows[i].activation_bytes);
        expect_legal(df, stages, rows[i].cost, fixed_bytes + rows[i].activation_bytes);
        ckm_i_stages_free(stages);
    }
    ckm_i_forward_free(fw);
    ckm_dataflow_free(df);
}

static void linear8_figures(void **state)
{
    (void)state;
    static const reference rows[] = {
        {-1, {0}, 120207941888, 50014208},
        {10, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 35720765184, 119272608},
        {8, {0, 1, 2, 3, 4, 5, 6, 7}, 35720765184, 119268352},
        {3, {2, 5, 8}, 44218882560, 84733184},
        {4, {1, 3, 5, 7}, 40871778816, 96254976},
        {2, {2, 5}, 40998296064, 84732928},
        {2, {3, 7}, 44312812032, 95584256},
        {1, {3}, 39342070272, 103141700},
        {1, {7}, 46032738816, 165731328},
        {0, {0}, 35720765184, 176815428},
    };
    expect_references(layer_graph_linear8(), 2598208, rows, sizeof rows / sizeof rows[0]);
}

static void vgg19_figures(void **state)
{
    (void)state;
    static const reference rows[] = {
        {-1, {0}, 389852987392, 51380224},
        {5, {4, 9, 14, 19, 24}, 72512667648, 69447584},
        {9, {0, 1, 3, 4, 6, 8, 10, 13, 19}, 68607049728, 67035136},
        {5, {0, 1, 4, 8, 14}, 69069471744, 59408384},
        {3, {1, 4, 9}, 64531955712, 54591488},
        {2, {1, 6}, 61757423616, 54263620},
        {1, {4}, 61757423616, 64225280},
        {1, {8}, 66381643776, 89915392},
        {0, {0}, 58896187392, 118488900},
    };
    expect_references(layer_graph_vgg19(), 1149337920, rows, sizeof rows / sizeof rows[0]);
}

// The first stage that unwinds a position or an earlier one, the last that unwinds it or a later one, by looking at every operator.
static void stages_of_positions(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 3};
    for (int round = 0; round < 300; round++) {
        layer_spec layers[12];
        int32_t n = 1 + (int32_t)ckm_i_rng_below(&rng, 12);
        for (int32_t j = 0; j < n; j++) {
            layers[j] = (layer_spec){.cost = 1, .bytes = 1, .n_operands = j > 0, .operands = {j - 1}};
            if (j > 1 && ckm_i_rng_below(&rng, 3) == 0) {
                layers[j].operands[layers[j].n_operands++] = (int32_t)ckm_i_rng_below(&rng, (uint32_t)j - 1);
            }
        }
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = layer_graph_build(layers, n, 0, 1, true);
        ckm_i_forward *fw = NULL;
        check(ckm_i_forward_create(df, &fw, &err), &err);
        assert_int_equal(fw->n, n);
        for (int32_t p = 0; p <= n; p++) {
            int32_t first = df->n_ops;
            int32_t last = -1;
            for (int32_t v = 0; v < df->n_ops; v++) {
                if (fw->position[v] < 0) {
                    first = fw->layer[v] <= p && v < first ? v : first;
                    last = fw->layer[v] >= p ? v : last;
                }
            }
            assert_int_equal(ckm_i_forward_first_stage(fw, p), first);
            assert_int_equal(ckm_i_forward_last_stage(fw, p), last);
        }
        ckm_i_forward_free(fw);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_checkpoint_in_four_layers),
        cmocka_unit_test(last_keeps_one_operator),
        cmocka_unit_test(stages_of_positions),
        cmocka_unit_test(linear8_figures),
        cmocka_unit_test(vgg19_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
