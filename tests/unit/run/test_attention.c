// SPDX-License-Identifier: Apache-2.0
// Attention as one operator: gradients against differences, kernels in tiles against the reference, both against the
// operators that it stands for; scores so large that only a difference of exponents can hold them, rows that see
// nothing, numbers that are none.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gradient_check.h"
#include "kernel_script.h"
#include "run/backend/backend.h"
#include "ops/attention/cpu_attention_tile.h"

// ---- gradients

#define MSE .loss = CKM_LOSS_MSE

static void test_gradients(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x2x3x4;in 2x2x5x4;in 2x2x5x3;attention 0 1 2 scale=0.7", MSE},
        {"in 2x3x2x4;in 2x5x2x4;in 2x5x2x4;attention 0 1 2 by_position=1,1,1,1 scale=2.0", MSE},
        {"in 1x4x2x3;in 1x2x4x3;in 1x4x2x3;attention 0 1 2 by_position=1,0,1,0", MSE},
        {"in 1x4x3x4;in 1x2x5x4;in 1x2x5x4;attention 0 1 2 mask=causal", MSE},
        {"in 2x1x4x3;in 2x1x4x3;in 2x1x4x3;attention 0 1 2 rate=0.4 scale=1.5", MSE},
        {"in 8x1x4x3;in 8x1x4x3;in 8x1x4x3;in 1x4x4;attention 0 1 2 3 mask=windows grid=4,4 window=2,2 shift=1,1", MSE,
         .step = 1e-2, .tolerance = 1e-2},
        // The bias for every score, for heads, keys, samples, all.
        {"in 2x2x3x4;in 2x2x3x4;in 2x2x3x4;in 2x2x3x3;attention 0 1 2 3", MSE},
        {"in 3x2x3x4;in 3x2x3x4;in 3x2x3x4;in 2x1x3;attention 0 1 2 3", MSE},
        {"in 2x2x3x4;in 2x2x3x4;in 2x2x3x4;in 2x1x1x3;attention 0 1 2 3 mask=causal", MSE},
        {"in 2x2x3x4;in 2x2x3x4;in 2x2x3x4;in 2x2x3x4:b;attention 0 1 2 - ", MSE},
        {"in 2x2x3x4;in 2x2x5x4;in 2x2x5x4;in 3x5;in 2x1x1x5:b;attention 0 1 2 3 4 fill=-0.5", MSE},
        {"in 2x2x3x4;in 2x2x5x4;in 2x2x5x4;in 3x5:b;attention 0 1 2 - 3 fill=0.3 mask_hides=1", MSE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gradient_check(&cases[i], CKM_CHANNELS_LAST);
    }
}

// ---- kernels in tiles

// Sizes around those of tiles and panels, few heads and many, every mask.
static const char *const kernels[] = {
    "in 2x2x3x4;in 2x2x5x4;in 2x2x5x3;in 2x2x3x3;attention 0 1 2 > 2 scale=0.7;attention_backward 3 4 5 0 1 2 > 3 "
    "scale=0.7",
    "in 3x64x2x64;in 3x128x2x64;in 3x128x2x64;in 3x64x2x64;attention 0 1 2 > 2 by_position=1,1,1,1 scale=0.125;"
    "attention_backward 3 4 5 0 1 2 > 3 by_position=1,1,1,1 scale=0.125",
    "in 1x1x130x24;in 1x1x259x24;in 1x1x259x40;in 1x1x130x40;attention 0 1 2 > 2 scale=0.3;"
    "attention_backward 3 4 5 0 1 2 > 3 scale=0.3",
    "in 1x4x200x16;in 1x2x200x16;in 1x200x2x16;in 1x4x200x16;attention 0 1 2 > 2 by_position=0,0,1,0 mask=causal;"
    "attention_backward 3 4 5 0 1 2 > 3 by_position=0,0,1,0 mask=causal",
    "in 5x4x65x8;in 5x4x300x8;in 5x4x300x8;in 5x4x65x8;attention 0 1 2 > 2 mask=causal;"
    "attention_backward 3 4 5 0 1 2 > 3 mask=causal",
    "in 1x6x290x33;in 1x3x290x33;in 1x3x290x33;in 1x290x6x33;attention 0 1 2 > 2 by_position=0,0,0,1 rate=0.3;"
    "attention_backward 3 4 5 0 1 2 > 3 by_position=0,0,0,1 rate=0.3",
    // Two images of 2 x 3 windows of 7 x 7, rolled; the bias's gradient is a sum over all windows.
    "in 12x3x49x32;in 12x3x49x32;in 12x3x49x32;in 12x3x49x32;in 3x49x49;attention 0 1 2 4 > 2 mask=windows grid=14,21 "
    "window=7,7 shift=3,3 scale=0.17;attention_backward 3 5 6 0 1 2 4 > 4 mask=windows grid=14,21 window=7,7 "
    "shift=3,3 scale=0.17",
    "in 4x2x49x8;in 4x2x49x8;in 4x2x49x8;in 4x2x49x8;attention 0 1 2 > 2 mask=windows grid=14,14 window=7,7 shift=0,3;"
    "attention_backward 3 4 5 0 1 2 > 3 mask=windows grid=14,14 window=7,7 shift=0,3",
    // Biases and masks of every spread.
    "in 2x3x70x8;in 2x3x70x8;in 2x3x70x8;in 2x3x70x8;in 2x3x70x70;attention 0 1 2 4 > 2;"
    "attention_backward 3 5 6 0 1 2 4 > 4",
    "in 3x4x70x8;in 3x2x140x8;in 3x2x140x8;in 3x4x70x8;in 3x1x1x140;attention 0 1 2 4 > 2;"
    "attention_backward 3 5 6 0 1 2 4 > 4",
    "in 3x2x70x8;in 3x2x140x8;in 3x2x140x8;in 3x2x70x8;in 70x1;attention 0 1 2 4 > 2 rate=0.1;"
    "attention_backward 3 5 6 0 1 2 4 > 3 rate=0.1",
    "in 3x2x70x8;in 3x2x140x8;in 3x2x140x8;in 3x2x70x8;in 3x1x1x140:b;attention 0 1 2 - 4 > 2 fill=-1e30;"
    "attention_backward 3 5 6 0 1 2 - 4 > 3 fill=-1e30",
    "in 3x2x70x8;in 3x2x140x8;in 3x2x140x8;in 3x2x70x8;in 140;in 2x70x1:b;attention 0 1 2 4 5 > 2 fill=0.2 "
    "mask_hides=1;attention_backward 3 6 7 0 1 2 4 5 > 4 fill=0.2 mask_hides=1",
};

static void test_kernels(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        assert_true(kernel_script_is_own(kernels[i], CKM_CHANNELS_LAST));
        for (int threads = 1; threads <= 3; threads++) {
            kernel_script_check(kernels[i], CKM_CHANNELS_LAST, threads, 1e-5);
        }
    }
}

// ---- one attention on a back end, with data of the test's own

enum { BATCH = 2, HEADS = 3, QUERIES = 150, KEYS = 150, SIZE = 20, ELEMENTS = BATCH * HEADS * QUERIES * SIZE };

typedef struct attention {
    ckm_graph *step;
    float *q, *k, *v, *dy, *bias, *y, *lse, *gradients[4];
} attention;

static float *floats(size_t n)
{
    float *x = calloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

static void fill(float *x, size_t n, float scale, uint32_t salt)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = ((uint32_t)i + salt * 7919U) * 2654435761U;
        x[i] = scale * ((float)(bits >> 8) / 8388608.0F - 1.0F);
    }
}

static void open_attention(attention *a, float scale)
{
    const ckm_shape heads = {4, {BATCH, HEADS, QUERIES, SIZE}};
    const ckm_shape scores = {3, {HEADS, QUERIES, KEYS}};
    int32_t in[5];  // q, k, v, bias, dy
    int32_t out[2];
    int32_t gradients[4];
    assert_int_equal(ckm_i_graph_create("attention", CKM_CHANNELS_LAST, BATCH, &a->step, NULL), CKM_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(ckm_i_graph_add_tensor(a->step, "operand", CKM_ROLE_PARAMETER, CKM_F32,
                                                i == 3 ? &scores : &heads, &in[i], NULL),
                         CKM_OK);
    }
    assert_int_equal(
        ckm_i_graph_add_op(a->step,
                           &(ckm_i_new_op){.kind = "attention", .name = "forward", .inputs = {in, 4}, .n_outputs = 2},
                           out, NULL),
        CKM_OK);
    int32_t back[7] = {in[4], out[0], out[1], in[0], in[1], in[2], in[3]};
    assert_int_equal(
        ckm_i_graph_add_op(
            a->step,
            &(ckm_i_new_op){.kind = "attention_backward", .name = "backward", .inputs = {back, 7}, .n_outputs = 4},
            gradients, NULL),
        CKM_OK);
    a->q = floats(ELEMENTS);
    a->k = floats(ELEMENTS);
    a->v = floats(ELEMENTS);
    a->dy = floats(ELEMENTS);
    a->bias = floats(HEADS * QUERIES * KEYS);
    a->y = floats(ELEMENTS);
    a->lse = floats(BATCH * HEADS * QUERIES);
    for (int i = 0; i < 4; i++) {
        a->gradients[i] = floats(i == 3 ? HEADS * QUERIES * KEYS : ELEMENTS);
    }
    fill(a->q, ELEMENTS, scale, 1);
    fill(a->k, ELEMENTS, scale, 2);
    fill(a->v, ELEMENTS, 1.0F, 3);
    fill(a->dy, ELEMENTS, 1.0F, 4);
}

static void close_attention(attention *a)
{
    float *all[] = {a->q, a->k, a->v, a->dy, a->bias, a->y, a->lse};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
    for (int i = 0; i < 4; i++) {
        free(a->gradients[i]);
    }
    ckm_graph_free(a->step);
}

static void run_op(const attention *a, const char *name, int32_t op, const void *const *inputs, void *const *outputs)
{
    ckm_i_backend *backend;
    ckm_i_kernel *kernel;
    int64_t bytes;
    assert_int_equal(ckm_i_backend_create(name, 2, &backend, NULL), CKM_OK);
    assert_int_equal(backend->prepare(backend, a->step, op, &kernel, &bytes, NULL), CKM_OK);
    void *workspace = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    assert_non_null(workspace);
    memset(workspace, 0xff, (size_t)bytes);
    ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs, .workspace = workspace, .op = op};
    assert_int_equal(backend->run(backend, kernel, &call, NULL), CKM_OK);
    backend->free_kernel(backend, kernel);
    ckm_i_backend_destroy(backend);
    free(workspace);
}

static void run_both(attention *a, const char *backend)
{
    const void *in[] = {a->q, a->k, a->v, a->bias};
    void *out[] = {a->y, a->lse};
    run_op(a, backend, 0, in, out);
    const void *back[] = {a->dy, a->y, a->lse, a->q, a->k, a->v, a->bias};
    void *gradients[] = {a->gradients[0], a->gradients[1], a->gradients[2], a->gradients[3]};
    run_op(a, backend, 1, back, gradients);
}

static const char *const backends[] = {"reference", "cpu"};

static double largest_difference(const float *a, const float *b, size_t n, double *largest)
{
    double most = 0.0;
    *largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        most = d > most || isnan(d) ? d : most;
        *largest = fmax(*largest, fabs((double)b[i]));
    }
    return most;
}

// The definition in double precision, without any tricks but the largest score.
static void attend(const attention *a, double *y)
{
    for (int64_t row = 0; row < BATCH * HEADS * QUERIES; row++) {
        double p[KEYS];
        double best = -(double)INFINITY;
        double sum = 0.0;
        int64_t head = row / QUERIES;
        for (int64_t k = 0; k < KEYS; k++) {
            p[k] = (double)a->bias[(head % HEADS * QUERIES + row % QUERIES) * KEYS + k];
            for (int64_t d = 0; d < SIZE; d++) {
                p[k] += (double)a->q[row * SIZE + d] * (double)a->k[(head * KEYS + k) * SIZE + d];
            }
            best = fmax(best, p[k]);
        }
        for (int64_t k = 0; k < KEYS; k++) {
            p[k] = exp(p[k] - best);
            sum += p[k];
        }
        for (int64_t d = 0; d < SIZE; d++) {
            y[row * SIZE + d] = 0.0;
            for (int64_t k = 0; k < KEYS; k++) {
                y[row * SIZE + d] += p[k] / sum * (double)a->v[(head * KEYS + k) * SIZE + d];
            }
        }
    }
}

// Scores from -5000 to 5000: exponentials overflow unless the largest is taken off first, in every block of keys anew.
static void test_large_scores(void **state)
{
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        for (int large = 0; large < 2; large++) {
            attention a;
            open_attention(&a, large ? 30.0F : 1.0F);
            double *wanted = calloc(ELEMENTS, sizeof *wanted);
            assert_non_null(wanted);
            run_both(&a, backends[b]);
            attend(&a, wanted);
            for (size_t i = 0; i < ELEMENTS; i++) {
                // A score of 5000 is rounded to 1 in 2000 where it is held in single precision.
                double tolerance = large ? 4e-3 : 2e-6;
                if (!(fabs((double)a.y[i] - wanted[i]) <= tolerance)) {
                    fail_msg("%s: element %zu is %.9g, not %.9g", backends[b], i, (double)a.y[i], wanted[i]);
                }
            }
            for (int g = 0; g < 4; g++) {
                size_t n = g == 3 ? (size_t)HEADS * QUERIES * KEYS : ELEMENTS;
                for (size_t i = 0; i < n; i++) {
                    assert_true(isfinite(a.gradients[g][i]));
                }
            }
            free(wanted);
            close_attention(&a);
        }
    }
}

// Row 5 of each head sees nothing, row 7 only the last key, row 9 nothing of the first block of keys.
static void test_hidden_rows(void **state)
{
    (void)state;
    attention a[2];
    for (size_t b = 0; b < 2; b++) {
        open_attention(&a[b], 1.0F);
        for (int64_t h = 0; h < HEADS; h++) {
            for (int64_t k = 0; k < KEYS; k++) {
                float *bias = a[b].bias + h * QUERIES * KEYS + k;
                bias[5 * KEYS] = -INFINITY;
                bias[7 * KEYS] = k < KEYS - 1 ? -INFINITY : 0.0F;
                bias[9 * KEYS] = k < 140 ? -INFINITY : 0.0F;
            }
        }
        run_both(&a[b], backends[b]);
        for (int64_t head = 0; head < BATCH * HEADS; head++) {
            for (int64_t d = 0; d < SIZE; d++) {
                assert_true(a[b].y[(head * QUERIES + 5) * SIZE + d] == 0.0F);
                assert_true(a[b].gradients[0][(head * QUERIES + 5) * SIZE + d] == 0.0F);
                float value = a[b].v[(head * KEYS + KEYS - 1) * SIZE + d];
                assert_true(fabsf(a[b].y[(head * QUERIES + 7) * SIZE + d] - value) <= 1e-6F);
            }
        }
    }
    double largest;
    assert_true(largest_difference(a[1].y, a[0].y, ELEMENTS, &largest) <= 1e-5 * largest);
    for (int g = 0; g < 4; g++) {
        size_t n = g == 3 ? (size_t)HEADS * QUERIES * KEYS : ELEMENTS;
        double difference = largest_difference(a[1].gradients[g], a[0].gradients[g], n, &largest);
        if (!(difference <= 5e-5 * largest)) {
            fail_msg("gradient %d is %g apart, the largest %g", g, difference, largest);
        }
    }
    close_attention(&a[0]);
    close_attention(&a[1]);
}

// What is not a number is not lost on the way: training stops for it.
static void test_not_numbers(void **state)
{
    (void)state;
    for (size_t b = 0; b < 2; b++) {
        attention a;
        open_attention(&a, 1.0F);
        a.q[(2 * QUERIES + 11) * SIZE + 3] = NAN;
        run_both(&a, backends[b]);
        for (int64_t row = 0; row < BATCH * HEADS * QUERIES; row++) {
            bool here = row == 2 * QUERIES + 11;
            assert_true((isnan(a.y[row * SIZE]) != 0) == here);
            assert_true((isnan(a.gradients[0][row * SIZE]) != 0) == here);
            assert_true((isnan(a.gradients[1][row * SIZE]) != 0) == (row / QUERIES == 2));
        }
        close_attention(&a);
    }
}

// ---- against the operators it stands for, dropout with the same numbers included

// matmul, scale, masked_softmax, dropout, matmul: y, from q, k, v.
static void run_apart(const attention *a, double rate, float *y)
{
    const size_t pairs = (size_t)BATCH * HEADS * QUERIES * KEYS;
    const ckm_shape heads = {4, {BATCH, HEADS, QUERIES, SIZE}};
    const ckm_i_attr turned = ckm_i_attr_ints("trans_b", &(int64_t){1}, 1);
    const ckm_i_attr alpha = ckm_i_attr_real("alpha", 0.3);
    const ckm_i_attr causal = ckm_i_attr_word("mask", "causal");
    const ckm_i_attr drop[2] = {ckm_i_attr_real("rate", rate), ckm_i_attr_ints("key", &(int64_t){17}, 1)};
    attention apart = *a;
    int32_t in[3];
    int32_t x;
    assert_int_equal(ckm_i_graph_create("apart", CKM_CHANNELS_LAST, BATCH, &apart.step, NULL), CKM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            ckm_i_graph_add_tensor(apart.step, "operand", CKM_ROLE_PARAMETER, CKM_F32, &heads, &in[i], NULL), CKM_OK);
    }
    ckm_graph *g = apart.step;
    assert_int_equal(
        ckm_i_graph_add_op(
            g, &(ckm_i_new_op){.kind = "matmul", .name = "s", .inputs = {in, 2}, .attrs = {&turned, 1}, .n_outputs = 1},
            &x, NULL),
        CKM_OK);
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){.kind = "scale", .name = "scaled", .inputs = {&x, 1}, .attrs = {&alpha, 1}, .n_outputs = 1},
            &x, NULL),
        CKM_OK);
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = "masked_softmax", .name = "p", .inputs = {&x, 1}, .attrs = {&causal, 1}, .n_outputs = 1},
            &x, NULL),
        CKM_OK);
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){.kind = "dropout", .name = "kept", .inputs = {&x, 1}, .attrs = {drop, 2}, .n_outputs = 1},
            &x, NULL),
        CKM_OK);
    assert_int_equal(
        ckm_i_graph_add_op(
            g, &(ckm_i_new_op){.kind = "matmul", .name = "y", .inputs = {(int32_t[]){x, in[2]}, 2}, .n_outputs = 1}, &x,
            NULL),
        CKM_OK);
    float *s = floats(pairs);
    float *p = floats(pairs);
    const void *products[] = {a->q, a->k};
    run_op(&apart, "reference", 0, products, (void *[]){s});
    run_op(&apart, "reference", 1, (const void *[]){s}, (void *[]){p});
    run_op(&apart, "reference", 2, (const void *[]){p}, (void *[]){s});
    run_op(&apart, "reference", 3, (const void *[]){s}, (void *[]){p});
    run_op(&apart, "reference", 4, (const void *[]){p, a->v}, (void *[]){y});
    free(s);
    free(p);
    ckm_graph_free(g);
}

static void test_apart(void **state)
{
    (void)state;
    for (int dropped = 0; dropped < 2; dropped++) {
        attention a;
        const double rate = dropped ? 0.25 : 0.0;
        const ckm_i_attr attrs[] = {ckm_i_attr_real("scale", 0.3), ckm_i_attr_word("mask", "causal"),
                                    ckm_i_attr_real("rate", rate), ckm_i_attr_ints("key", &(int64_t){17}, 1)};
        int32_t out[2];
        float *wanted = floats(ELEMENTS);
        open_attention(&a, 1.0F);
        assert_int_equal(ckm_i_graph_add_op(a.step,
                                            &(ckm_i_new_op){.kind = "attention",
                                                            .name = "causal",
                                                            .inputs = {(int32_t[]){0, 1, 2}, 3},
                                                            .attrs = {attrs, 4},
                                                            .n_outputs = 2},
                                            out, NULL),
                         CKM_OK);
        run_apart(&a, rate, wanted);
        for (size_t b = 0; b < 2; b++) {
            const void *in[] = {a.q, a.k, a.v};
            void *to[] = {a.y, a.lse};
            double largest;
            run_op(&a, backends[b], 2, in, to);
            double difference = largest_difference(a.y, wanted, ELEMENTS, &largest);
            if (!(difference <= 3e-6 * largest)) {
                fail_msg("%s: %g apart, the largest %g", backends[b], difference, largest);
            }
        }
        free(wanted);
        close_attention(&a);
    }
}

// ---- products of tiles, at every level this processor has

static void test_tiles(void **state)
{
    (void)state;
    enum { ROWS = 23, INNER = 37, COLUMNS = 75, ROOM = 80 };
    float a[ROWS * INNER];
    float b[INNER * COLUMNS];
    float panels[ROOM * INNER];
    float c[ROWS * ROOM];
    fill(a, sizeof a / sizeof *a, 1.0F, 5);
    fill(b, sizeof b / sizeof *b, 1.0F, 6);
    for (int level = 0; ckm_i_cpu_attention_multiply_at(level) != NULL; level++) {
        for (int turned = 0; turned < 4; turned++) {
            // Bit 0: a is stored column by column; bit 1: b as its transpose.
            if (turned / 2 == 0) {
                ckm_i_cpu_attention_pack(b, COLUMNS, INNER, COLUMNS, panels);
            } else {
                ckm_i_cpu_attention_pack_transposed(b, INNER, COLUMNS, INNER, panels);
            }
            ckm_i_cpu_attention_product p = {.rows = ROWS,
                                             .inner = INNER,
                                             .panels = ckm_i_cpu_attention_panels(COLUMNS),
                                             .a = a,
                                             .a_row = turned % 2 == 0 ? INNER : 1,
                                             .a_column = turned % 2 == 0 ? 1 : ROWS,
                                             .b = panels,
                                             .panel_stride = INNER * CKM_I_ATTENTION_PANEL,
                                             .c = c,
                                             .c_row = ROOM};
            for (int add = 0; add < 2; add++) {
                p.add = add != 0;
                ckm_i_cpu_attention_multiply_at(level)(&p);
                for (int64_t i = 0; i < ROWS; i++) {
                    for (int64_t j = 0; j < ROOM; j++) {
                        double sum = 0.0;
                        for (int64_t k = 0; j < COLUMNS && k < INNER; k++) {
                            sum += (double)a[i * p.a_row + k * p.a_column] *
                                   (double)b[turned / 2 == 0 ? k * COLUMNS + j : j * INNER + k];
                        }
                        if (!(fabs((double)c[i * ROOM + j] - (add + 1) * sum) <= 1e-5)) {
                            fail_msg("level %d, stored %d: (%d, %d) is %.9g, not %.9g", level, turned, (int)i, (int)j,
                                     (double)c[i * ROOM + j], (add + 1) * sum);
                        }
                    }
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),   cmocka_unit_test(test_kernels),     cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_hidden_rows), cmocka_unit_test(test_not_numbers), cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
