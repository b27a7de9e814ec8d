// SPDX-License-Identifier: Apache-2.0
// Reference kernels on numbers small enough to be worked by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_script.h"
#include "run/cpu/ref_support.h"

enum { MAX_IN = 5, MAX_OUT = 3, MAX_NUMBERS = 24 };

#define LAST CKM_CHANNELS_LAST
#define FIRST CKM_CHANNELS_FIRST

// One operator (kernel_script.h), the numbers it reads and those it must give, of whatever type its tensors have.
typedef struct value_case {
    const char *script;
    ckm_layout layout;
    double in[MAX_IN][MAX_NUMBERS];
    double out[MAX_OUT][MAX_NUMBERS];
    double after[MAX_IN][MAX_NUMBERS];  // the inputs afterwards, for operators that modify them: `modifies`
    bool modifies;
    int64_t step;
} value_case;

typedef struct bench {
    kernel_script script;
    const ckm_i_graph_op *op;
    const ckm_i_reference_kernel *kernel;
    void *in[MAX_IN], *out[MAX_OUT];
    unsigned char *workspace;
    ckm_i_kernel_call call;
} bench;

static int64_t count(const bench *b, int32_t tensor)
{
    return ckm_i_elements(&b->script.graph->tensors[tensor].shape);
}

static void open_bench(bench *b, const char *script, ckm_layout layout)
{
    memset(b, 0, sizeof *b);
    kernel_script_read(&b->script, script, layout);
    assert_int_equal(b->script.graph->n_ops, 1);
    b->op = &b->script.graph->ops[0];
    b->kernel = ckm_i_reference_find(b->op->op_class->id);
    assert_non_null(b->kernel);
    for (int32_t i = 0; i < b->op->n_inputs; i++) {
        assert_true(i < MAX_IN);
        if (b->op->inputs[i] >= 0) {
            assert_true(count(b, b->op->inputs[i]) <= MAX_NUMBERS);
            b->in[i] = calloc(MAX_NUMBERS, sizeof(double));
            assert_non_null(b->in[i]);
        }
    }
    for (int32_t i = 0; i < b->op->n_outputs; i++) {
        assert_true(i < MAX_OUT && count(b, b->op->outputs[i]) <= MAX_NUMBERS);
        b->out[i] = calloc(MAX_NUMBERS, sizeof(double));
        assert_non_null(b->out[i]);
    }
    ckm_i_op_view view;
    assert_int_equal(ckm_i_op_view_init(b->script.graph, 0, &view, NULL), CKM_OK);
    int64_t bytes = b->kernel->workspace != NULL ? b->kernel->workspace(&view, b->script.graph) : 0;
    b->workspace = malloc((size_t)bytes + 1);
    assert_non_null(b->workspace);
    memset(b->workspace, 0x55, (size_t)bytes + 1);
    b->call = (ckm_i_kernel_call){.inputs = (const void *const *)b->in,
                                  .outputs = b->out,
                                  .workspace = b->workspace,
                                  .seed = 1,
                                  .first = true,
                                  .learning_rate = 0.5};
}

static void close_bench(bench *b)
{
    for (int32_t i = 0; i < MAX_IN; i++) {
        free(b->in[i]);
    }
    for (int32_t i = 0; i < MAX_OUT; i++) {
        free(b->out[i]);
    }
    free(b->workspace);
    kernel_script_free(&b->script);
}

static void put(bench *b, int32_t i, const double *numbers)
{
    ckm_dtype dtype = b->script.graph->tensors[b->op->inputs[i]].dtype;
    for (int64_t k = 0; k < count(b, b->op->inputs[i]); k++) {
        ckm_i_ref_store(b->in[i], dtype, k, numbers[k]);
    }
}

static void expect(const bench *b, int32_t tensor, const void *data, const double *wanted, const char *script)
{
    for (int64_t k = 0; k < count(b, tensor); k++) {
        double got = ckm_i_ref_load(data, b->script.graph->tensors[tensor].dtype, k);
        bool same = isnan(wanted[k]) ? isnan(got) : fabs(got - wanted[k]) <= 2e-6 * (1.0 + fabs(wanted[k]));
        if (!same) {
            fail_msg("%s: element %lld is %.9g, not %.9g", script, (long long)k, got, wanted[k]);
        }
    }
}

static void run(bench *b)
{
    ckm_error err = CKM_ERROR_INIT;
    if (b->kernel->run(b->script.graph, 0, &b->call, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
}

static void check(const value_case *c)
{
    bench b;
    open_bench(&b, c->script, c->layout);
    for (int32_t i = 0; i < b.op->n_inputs; i++) {
        if (b.in[i] != NULL) {
            put(&b, i, c->in[i]);
        }
    }
    b.call.step = c->step;
    run(&b);
    for (int32_t i = 0; i < b.op->n_outputs; i++) {
        expect(&b, b.op->outputs[i], b.out[i], c->out[i], c->script);
    }
    for (int32_t i = 0; i < b.op->n_inputs; i++) {
        if (b.in[i] != NULL) {
            expect(&b, b.op->inputs[i], b.in[i], c->modifies ? c->after[i] : c->in[i], c->script);
        }
    }
    close_bench(&b);
}

#define CHECK(cases)                                                  \
    for (size_t i = 0; i < sizeof(cases) / sizeof((cases)[0]); i++) { \
        check(&(cases)[i]);                                           \
    }

static void test_layers(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 1x3x3x1;in 2x2x1x1;in 1;conv 0 1 2", LAST, .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4}, {0.5}},
         .out = {{37.5, 47.5, 67.5, 77.5}}},
        {"in 1x1x3x3;in 1x1x2x2;in 1;conv 0 1 2", FIRST, .in = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 2, 3, 4}, {0.5}},
         .out = {{37.5, 47.5, 67.5, 77.5}}},
        // one zero is needed, and the word says where
        {"in 1x4x1;in 3x1x1;conv 0 1 strides=2 padding=same", LAST, .in = {{1, 2, 3, 4}, {1, 10, 100}},
         .out = {{321, 43}}},
        {"in 1x4x1;in 3x1x1;conv 0 1 strides=2 padding=same_lower", LAST, .in = {{1, 2, 3, 4}, {1, 10, 100}},
         .out = {{210, 432}}},
        {"in 1x4x1;in 3x1x1;conv 0 1 strides=2 padding=1,0", LAST, .in = {{1, 2, 3, 4}, {1, 10, 100}},
         .out = {{210, 432}}},
        // two groups of one channel; channels of a group stay together
        {"in 1x2x2;in 1x1x4;conv 0 1 groups=2", LAST, .in = {{1, 2, 3, 4}, {1, 10, 100, 1000}},
         .out = {{1, 10, 200, 2000, 3, 30, 400, 4000}}},
        {"in 1x2x2;in 4x1x1;conv 0 1 groups=2", FIRST, .in = {{1, 2, 3, 4}, {1, 10, 100, 1000}},
         .out = {{1, 2, 10, 20, 300, 400, 3000, 4000}}},
        {"in 1x2x1;in 3x1x1;conv_transpose 0 1 strides=2", LAST, .in = {{1, 2}, {1, 10, 100}},
         .out = {{1, 10, 102, 20, 200}}},
        {"in 1x1x2;in 1x1x3;conv_transpose 0 1 strides=2 padding=1,0 output_size=4", FIRST,
         .in = {{1, 2}, {1, 10, 100}}, .out = {{10, 102, 20, 200}}},
        {"in 2x2;in 2x3;in 3;dense 0 1 2", LAST, .in = {{1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}, {0, 0, 1}},
         .out = {{9, 12, 16, 19, 26, 34}}},
        {"in 2x2;in 3x2;dense 0 1 transposed=1", LAST, .in = {{1, 2, 3, 4}, {1, 4, 2, 5, 3, 6}},
         .out = {{9, 12, 15, 19, 26, 33}}},
        {"in 2x2;in 2x2;in 2;gemm 0 1 2 alpha=0.5 beta=2.0 trans_b=1", LAST, .in = {{1, 2, 3, 4}, {1, 0, 1, 1}, {1, 2}},
         .out = {{2.5, 5.5, 3.5, 7.5}}},
        {"in 2x1x2;in 2x2;matmul 0 1", LAST, .in = {{1, 2, 3, 4}, {1, 10, 100, 1000}}, .out = {{201, 2010, 403, 4030}}},
        // as products: with the terms exchanged, with a batch, with two letters summed over
        {"in 2x2;in 2x3;einsum 0 1 equation=ij,jk->ik", LAST, .in = {{1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}},
         .out = {{9, 12, 15, 19, 26, 33}}},
        {"in 2x2;in 2x3;einsum 0 1 equation=ij,jk->ki", LAST, .in = {{1, 2, 3, 4}, {1, 2, 3, 4, 5, 6}},
         .out = {{9, 19, 12, 26, 15, 33}}},
        {"in 2x2;in 2x2;einsum 0 1 equation=bi,bj->bij", LAST, .in = {{1, 2, 3, 4}, {1, 10, 2, 20}},
         .out = {{1, 10, 2, 20, 6, 60, 8, 80}}},
        {"in 2x1x2;in 2x2x1;einsum 0 1 equation=aib,abj->ij", LAST, .in = {{1, 2, 3, 4}, {1, 10, 100, 1000}},
         .out = {{4321}}},
        // and one by one
        {"in 2;in 2;einsum 0 1 equation=i,i->i", LAST, .in = {{2, 3}, {4, 5}}, .out = {{8, 15}}},
        {"in 2;in 3;einsum 0 1 equation=i,j->", LAST, .in = {{1, 2}, {1, 2, 3}}, .out = {{18}}},
        {"in 2x2;einsum 0 equation=ij->ji", LAST, .in = {{1, 2, 3, 4}}, .out = {{1, 3, 2, 4}}},
        {"in 2x2x1x2;bias_grad 0 axis=1", FIRST, .in = {{1, 2, 3, 4, 5, 6, 7, 8}}, .out = {{14, 22}}},
        {"in 2x3;sum_to 0 shape=2,1", FIRST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{6, 15}}},
        {"in 2x3;sum_to 0 shape=3", FIRST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{5, 7, 9}}},
    };
    CHECK(cases);
}

static void test_pooling(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 1x2x4x1;max_pool_train 0 > 2 kernel=2,2 strides=2,2", LAST, .in = {{1, 7, 3, 4, 5, 6, 4, 2}},
         .out = {{7, 4}, {1, 1}}},
        // the padding is no candidate, even among negative numbers
        {"in 1x1x2x2;max_pool_train 0 > 2 kernel=2,2 strides=2,2 padding=1,1,1,1", FIRST, .in = {{-1, -2, -3, -4}},
         .out = {{-1, -2, -3, -4}, {3, 2, 1, 0}}},
        {"in 1x1x3;max_pool_train 0 > 2 kernel=2", FIRST, .in = {{1, NAN, 3}}, .out = {{NAN, NAN}, {1, 0}}},
        {"in 1x1x3;average_pool 0 kernel=2 strides=2 ceil_mode=1", FIRST, .in = {{1, 2, 3}}, .out = {{1.5, 3}}},
        {"in 1x1x3;average_pool 0 kernel=2 strides=2 padding=1,1", FIRST, .in = {{1, 2, 3}}, .out = {{1, 2.5}}},
        {"in 1x1x3;average_pool 0 kernel=2 strides=2 padding=1,1 count_include_pad=1", FIRST, .in = {{1, 2, 3}},
         .out = {{0.5, 2.5}}},
        {"in 1x3x1;lp_pool 0 kernel=2", LAST, .in = {{3, 4, 0}}, .out = {{5, 4}}},
        {"in 1x2x1;lp_pool 0 kernel=2 padding=0,1 p=1", LAST, .in = {{-3, 4}}, .out = {{7, 4}}},
        // dy, x, y: 10 * 3/5; 10 * 4/5 + 20 * 1; nothing where the norm is 0
        {"in 1x3x1;in 1x4x1;in 1x3x1;lp_pool_backward 0 1 2 kernel=2", LAST,
         .in = {{10, 20, 30}, {3, -4, 0, 0}, {5, 4, 0}}, .out = {{6, -28, 0, 0}}},
        {"in 1x2x2;global_average_pool 0", LAST, .in = {{1, 2, 3, 6}}, .out = {{2, 4}}},
        {"in 1x2x2;global_average_pool 0", FIRST, .in = {{1, 2, 3, 6}}, .out = {{1.5, 4.5}}},
        {"in 1x2x2;global_max_pool 0", LAST, .in = {{1, 9, 3, 6}}, .out = {{3, 9}}},
    };
    CHECK(cases);
}

static void test_norms(void **state)
{
    (void)state;
    static const value_case cases[] = {
        // mean 2, variance 1 (unbiased 2) in both channels
        {"in 2x2;in 2;in 2;in 2;in 2;batch_norm_train 0 1 2 3 4 > 3 epsilon=3.0 momentum=0.9", LAST,
         .in = {{1, 1, 3, 3}, {2, 4}, {0, 1}, {10, 0}, {1, 3}}, .out = {{-1, -1, 1, 3}, {2, 2}, {0.5, 0.5}},
         .after = {{1, 1, 3, 3}, {2, 4}, {0, 1}, {9.2, 0.2}, {1.1, 2.9}}, .modifies = true},
        // by the statistics given: slopes 2 / sqrt(1 + 3) and 3 / sqrt(6 + 3)
        {"in 2x2;in 2;in 2;in 2;in 2;batch_norm_apply 0 1 2 3 4 epsilon=3.0", LAST,
         .in = {{1, 2, 3, 5}, {2, 3}, {0, 1}, {1, 2}, {1, 6}}, .out = {{0, 1, 2, 4}}},
        {"in 1x2x2;in 2;in 2;batch_norm_apply 0 - - 1 2 epsilon=0.0", FIRST,
         .in = {{1, 3, 5, 9}, {0}, {0}, {1, 5}, {4, 16}}, .out = {{0, 1, 0, 1}}},
        {"in 1x4;layer_norm 0 > 3 epsilon=0.0", LAST, .in = {{1, 3, 3, 1}}, .out = {{-1, 1, 1, -1}, {2}, {1}}},
        {"in 2x2x1;in 1;in 2x1;layer_norm 0 1 2 > 3 axis=1 epsilon=0.0", LAST, .in = {{1, 3, 0, 4}, {2}, {5, 6}},
         .out = {{3, 8, 3, 8}, {2, 2}, {1, 0.5}}},
        // d = 1 + 2 / 2 * (squares of this channel and the next)
        {"in 1x3x1;local_response_norm 0 size=2 alpha=2.0 beta=1.0 bias=1.0", FIRST, .in = {{1, 2, 3}},
         .out = {{1.0 / 6, 2.0 / 14, 3.0 / 10}}},
        {"in 1x2;lp_norm 0 axis=1", LAST, .in = {{3, 4}}, .out = {{0.6, 0.8}}},
        {"in 2x2;lp_norm 0 axis=0 p=1", LAST, .in = {{3, 0, -1, 0}}, .out = {{0.75, 0, -0.25, 0}}},
        // (dy - 0.6 * 0.6 dy) / 5; no slope at zero
        {"in 2x2;in 2x2;lp_norm_backward 0 1 axis=1", LAST, .in = {{25, 0, 1, 1}, {3, 4, 0, 0}},
         .out = {{3.2, -2.4, 0, 0}}},
        {"in 1x2;in 2;rms_norm 0 1 > 2 epsilon=0.0", LAST, .in = {{1, 7}, {5, 10}}, .out = {{1, 14}, {0.2}}},
    };
    CHECK(cases);
}

static void test_attention(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 2x2;masked_softmax 0 mask=causal", LAST, .in = {{3, 9, 1, 1}}, .out = {{1, 0, 0.5, 0.5}}},
        {"in 1x2;masked_softmax 0 mask=causal", LAST, .in = {{1, 1}}, .out = {{0.5, 0.5}}},
        // A map of one row and two windows of two positions, rolled by one: only the last window holds two parts.
        {"in 2x1x2x2;masked_softmax 0 mask=windows grid=1,4 window=1,2 shift=0,1", LAST,
         .in = {{1, 1, 1, 1, 1, 1, 1, 1}}, .out = {{0.5, 0.5, 0.5, 0.5, 1, 0, 0, 1}}},
        // One radian, then a hundredth of one.
        {"in 2x4;rotary 0 base=1e4", LAST, .in = {{1, 2, 3, 4, 1, 1, 0, 0}},
         .out = {{1, 2, 3, 4, 0.5403023, 0.99995, 0.8414710, 0.00999983}}},
        {"in 2x2;rotary 0 inverse=1", LAST, .in = {{5, 6, 1, 0}}, .out = {{5, 6, 0.5403023, -0.8414710}}},
        {"in 2x3;roll 0 shifts=1,-1", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{5, 6, 4, 2, 3, 1}}},
        {"in 3x1;window_bias 0 window=1,2", LAST, .in = {{7, 8, 9}}, .out = {{8, 7, 9, 8}}},
        {"in 1x2x2;window_bias_backward 0 window=1,2", LAST, .in = {{1, 2, 3, 4}}, .out = {{2, 5, 3}}},
        {"in 1;time_embedding 0 dim=4 period=100.0", LAST, .in = {{1}},
         .out = {{0.8414710, 0.00999983, 0.5403023, 0.99995}}},
    };
    CHECK(cases);
}

static void test_resampling(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 1x2x1;resize 0 size=1,3,1 mode=linear coordinates=align_corners", LAST, .in = {{0, 1}},
         .out = {{0, 0.5, 1}}},
        {"in 1x2x1;resize 0 size=1,4,1 mode=linear coordinates=half_pixel", LAST, .in = {{0, 1}},
         .out = {{0, 0.25, 0.75, 1}}},
        {"in 1x2x1;resize 0 size=1,4,1 mode=linear coordinates=asymmetric", LAST, .in = {{0, 1}},
         .out = {{0, 0.5, 1, 1}}},
        {"in 1x1x2x2;resize 0 size=1,1,3,3 mode=linear coordinates=align_corners", FIRST, .in = {{0, 2, 4, 6}},
         .out = {{0, 1, 2, 2, 3, 4, 4, 5, 6}}},
        {"in 1x3x1;resize 0 size=1,2,1 mode=nearest coordinates=half_pixel", LAST, .in = {{1, 2, 3}}, .out = {{1, 3}}},
        {"in 1x3x1;resize 0 size=1,2,1 mode=nearest coordinates=asymmetric rounding=floor", LAST, .in = {{1, 2, 3}},
         .out = {{1, 2}}},
        // 1.5 lies between: prefer floor, prefer ceil
        {"in 1x3x1;resize 0 size=1,2,1 mode=nearest coordinates=asymmetric rounding=round_prefer_floor", LAST,
         .in = {{1, 2, 3}}, .out = {{1, 2}}},
        {"in 1x3x1;resize 0 size=1,2,1 mode=nearest coordinates=asymmetric rounding=round_prefer_ceil", LAST,
         .in = {{1, 2, 3}}, .out = {{1, 3}}},
        {"in 1x2x2;resize 0 size=1,4,2 mode=nearest", LAST, .in = {{1, 2, 3, 4}}, .out = {{1, 2, 1, 2, 3, 4, 3, 4}}},
        // quarters away from the elements: weights of Keys' kernel with a = -3/4
        {"in 4;resize 0 size=8 mode=cubic", LAST, .in = {{0, 0, 1, 0}},
         .out = {{0, -0.03515625, -0.10546875, 0.26171875, 0.87890625, 0.87890625, 0.26171875, -0.10546875}}},
    };
    CHECK(cases);
}

static void test_movement(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 3;pad 0 pads=2,2 mode=reflect", LAST, .in = {{1, 2, 3}}, .out = {{3, 2, 1, 2, 3, 2, 1}}},
        {"in 3;pad 0 pads=2,2 mode=edge", LAST, .in = {{1, 2, 3}}, .out = {{1, 1, 1, 2, 3, 3, 3}}},
        {"in 3;pad 0 pads=2,2 mode=wrap", LAST, .in = {{1, 2, 3}}, .out = {{2, 3, 1, 2, 3, 1, 2}}},
        {"in 2x2;pad 0 pads=0,1,1,-1 mode=constant value=7.0", LAST, .in = {{1, 2, 3, 4}}, .out = {{7, 1, 7, 3, 7, 7}}},
        {"in 2x3;slice 0 starts=1,2 steps=-1,-2 sizes=2,2", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{6, 4, 3, 1}}},
        {"in 2x2;slice_backward 0 starts=1,2 steps=-1,-2 sizes=2,2 input_shape=2,3", LAST, .in = {{6, 4, 3, 1}},
         .out = {{1, 0, 3, 4, 0, 6}}},
        {"in 2x3;transpose 0", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{1, 4, 2, 5, 3, 6}}},
        {"in 2x1x2;transpose 0 perm=2,0,1", LAST, .in = {{1, 2, 3, 4}}, .out = {{1, 3, 2, 4}}},
        {"in 1x2;in 1x1;concat 0 1 axis=1", LAST, .in = {{1, 2}, {3}}, .out = {{1, 2, 3}}},
        {"in 2x3;split 0 > 2 axis=1 sizes=1,2", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{1, 4}, {2, 3, 5, 6}}},
        {"in 2x1;expand 0 shape=2,2,2", LAST, .in = {{1, 2}}, .out = {{1, 1, 2, 2, 1, 1, 2, 2}}},
        {"in 1x2;tile 0 repeats=2,2", LAST, .in = {{1, 2}}, .out = {{1, 2, 1, 2, 1, 2, 1, 2}}},
        {"in 3x2;in 2:i3;gather 0 1 axis=0", LAST, .in = {{1, 2, 3, 4, 5, 6}, {-1, 0}}, .out = {{5, 6, 1, 2}}},
        {"in 2x2;in 2x2:i2;gather_elements 0 1 axis=1", LAST, .in = {{1, 2, 3, 4}, {0, 0, 1, 0}},
         .out = {{1, 1, 4, 3}}},
        {"in 2x2;in 2x2:i2;gather_nd 0 1", LAST, .in = {{1, 2, 3, 4}, {0, 1, 1, 0}}, .out = {{2, 3}}},
        {"in 3;in 2x1:i3;in 2;scatter_nd 0 1 2", LAST, .in = {{1, 2, 3}, {2, 0}, {8, 9}}, .out = {{9, 2, 8}}},
        {"in 2x2;in 1x2:i2;in 1x2;scatter_elements 0 1 2 axis=0", LAST, .in = {{1, 2, 3, 4}, {1, 0}, {8, 9}},
         .out = {{1, 9, 8, 4}}},
        {"in 2x2;in 1x2:i2;scatter_elements_backward 0 1 axis=0", LAST, .in = {{1, 2, 3, 4}, {1, 0}},
         .out = {{1, 0, 0, 4}}},
        // a position that is read twice
        {"in 2x2;in 2:i3;gather_backward 0 1 axis=0 input_shape=3,2", LAST, .in = {{1, 2, 3, 4}, {1, 1}},
         .out = {{0, 0, 4, 6, 0, 0}}},
        {"in 1x8x1x1;depth_to_space 0 block=2 mode=dcr", FIRST, .in = {{1, 2, 3, 4, 5, 6, 7, 8}},
         .out = {{1, 3, 5, 7, 2, 4, 6, 8}}},
        {"in 1x8x1x1;depth_to_space 0 block=2 mode=crd", FIRST, .in = {{1, 2, 3, 4, 5, 6, 7, 8}},
         .out = {{1, 2, 3, 4, 5, 6, 7, 8}}},
        {"in 1x2x2x2;space_to_depth 0 block=2", LAST, .in = {{1, 2, 3, 4, 5, 6, 7, 8}},
         .out = {{1, 2, 3, 4, 5, 6, 7, 8}}},
        {"in 2x3;triangle 0 upper=1", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{1, 2, 3, 0, 5, 6}}},
        {"in 2x3;triangle 0 upper=0", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{1, 0, 0, 4, 5, 0}}},
    };
    CHECK(cases);
}

static void test_elements(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 4;relu 0", LAST, .in = {{-1, 0, 2, NAN}}, .out = {{0, 0, 2, NAN}}},
        {"in 5;relu 0 max_value=2.0 threshold=1.0 negative_slope=0.5", LAST, .in = {{-1, 0.5, 1, 1.5, 3}},
         .out = {{-1, -0.25, 1, 1.5, 2}}},
        {"in 2;hard_swish 0", LAST, .in = {{-4, 3}}, .out = {{0, 3}}},
        {"in 2;gelu 0", LAST, .in = {{1, -1}}, .out = {{0.8413447461, -0.1586552539}}},
        {"in 1;gelu 0 approximate=tanh", LAST, .in = {{1}}, .out = {{0.8411919906}}},
        {"in 3;sigmoid 0", LAST, .in = {{-200, 0, 200}}, .out = {{0, 0.5, 1}}},
        {"in 2;softplus 0", LAST, .in = {{-100, 100}}, .out = {{0, 100}}},
        {"in 2;mish 0", LAST, .in = {{0, 1}}, .out = {{0, 0.8650983882}}},
        {"in 2;selu 0", LAST, .in = {{1, -1}}, .out = {{1.0507009873554805, -1.1113307378125625}}},
        {"in 1x2;softmax 0 axis=1", LAST, .in = {{1000, 1000}}, .out = {{0.5, 0.5}}},
        {"in 2x1;log_softmax 0 axis=0", LAST, .in = {{0, 0}}, .out = {{-0.6931471806, -0.6931471806}}},
        {"in 4;in 1;add 0 1", LAST, .in = {{1, 2, 3, 4}, {10}}, .out = {{11, 12, 13, 14}}},
        {"in 2:i9;in 2:i9;div 0 1", LAST, .in = {{7, -7}, {2, 2}}, .out = {{3, -3}}},
        {"in 2:i9;in 2:i9;mod 0 1", LAST, .in = {{7, -7}, {3, 3}}, .out = {{1, 2}}},
        {"in 2;in 2;mod 0 1", LAST, .in = {{7.5, -7.5}, {3, 3}}, .out = {{1.5, -1.5}}},
        {"in 3;in 3;less_or_equal 0 1", LAST, .in = {{1, 2, 3}, {2, 2, 2}}, .out = {{1, 1, 0}}},
        {"in 3;round 0", LAST, .in = {{0.5, 1.5, -0.6}}, .out = {{0, 2, -1}}},
        {"in 3;sign 0", LAST, .in = {{-2, 0, 5}}, .out = {{-1, 0, 1}}},
        {"in 3;cast 0 dtype=7", LAST, .in = {{-1.7, 0.2, 2.9}}, .out = {{-1, 0, 2}}},
        {"in 3;cast 0 dtype=9", LAST, .in = {{-1.7, 0, 0.2}}, .out = {{1, 0, 1}}},
        {"in 3;in 1;clip 0 1", LAST, .in = {{-1, 0, 1}, {-0.5}}, .out = {{-0.5, 0, 1}}},
        {"in 2x2x1;in 2;prelu 0 1", FIRST, .in = {{-1, 2, -3, -4}, {0.5, 0.25}}, .out = {{-0.5, 2, -1.5, -1}}},
        {"in 2;scale 0 alpha=-3.0", LAST, .in = {{1, 2}}, .out = {{-3, -6}}},
        // two operands attain the maximum: half of the gradient each
        {"in 2;in 2;in 2;extreme_backward 0 1 2 operand=1 largest=1", LAST, .in = {{1, 1}, {5, 6}, {5, 2}},
         .out = {{0.5, 0}}},
    };
    CHECK(cases);
}

static void test_reductions(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 2x3;reduce_mean 0 axes=0", LAST, .in = {{1, 2, 3, 4, 5, 6}}, .out = {{2.5, 3.5, 4.5}}},
        {"in 2x3;reduce_max 0 axes=1 keepdims=0", LAST, .in = {{1, 2, 3, 9, 5, 6}}, .out = {{3, 9}}},
        {"in 2x3;reduce_min 0", LAST, .in = {{1, 2, -3, 9, 5, 6}}, .out = {{-3}}},
        {"in 2x2;reduce_prod 0 axes=0", LAST, .in = {{1, 2, 3, 4}}, .out = {{3, 8}}},
        {"in 2;reduce_l1 0", LAST, .in = {{-3, 4}}, .out = {{7}}},
        {"in 2;reduce_l2 0", LAST, .in = {{-3, 4}}, .out = {{5}}},
        {"in 2;reduce_log_sum_exp 0", LAST, .in = {{1000, 1000}}, .out = {{1000.6931471806}}},
        // one zero has a gradient, two have none
        {"in 1;in 3;in 1;reduce_prod_backward 0 1 2 axes=0", LAST, .in = {{2}, {0, 3, 4}, {0}}, .out = {{24, 0, 0}}},
        {"in 1;in 3;in 1;reduce_prod_backward 0 1 2 axes=0", LAST, .in = {{2}, {0, 0, 4}, {0}}, .out = {{0, 0, 0}}},
        {"in 1;in 3;in 1;reduce_max_backward 0 1 2 axes=0", LAST, .in = {{2}, {5, 1, 5}, {5}}, .out = {{1, 0, 1}}},
        {"in 1;in 2;in 1;reduce_l2_backward 0 1 2 axes=0", LAST, .in = {{2}, {0, 0}, {0}}, .out = {{0, 0}}},
        {"in 2x3;arg_max 0 axes=1 keepdims=0", LAST, .in = {{1, 7, 7, 9, 5, 6}}, .out = {{1, 0}}},
        {"in 2x3;arg_min 0 axes=0 keepdims=0", LAST, .in = {{1, 7, 7, 9, 5, 6}}, .out = {{0, 1, 1}}},
        {"in 5;top_k 0 > 2 k=3 axis=0", LAST, .in = {{1, 7, 3, 7, 5}}, .out = {{7, 7, 5}, {1, 3, 4}}},
        {"in 3;cumulative_sum 0 axis=0", LAST, .in = {{1, 2, 3}}, .out = {{1, 3, 6}}},
        {"in 3;cumulative_sum 0 axis=0 exclusive=1", LAST, .in = {{1, 2, 3}}, .out = {{0, 1, 3}}},
        {"in 3;cumulative_sum 0 axis=0 exclusive=1 reverse=1", LAST, .in = {{1, 2, 3}}, .out = {{5, 3, 0}}},
    };
    CHECK(cases);
}

static void test_losses(void **state)
{
    (void)state;
    static const value_case cases[] = {
        // ln 2; ignored; ln(1 + 1/e), predicted right
        {"in 3x2;in 3:i2;softmax_cross_entropy 0 1 > 2 axis=1", LAST, .in = {{3, 3, 5, 9, 0, 1}, {1, -1, 1}},
         .out = {{(0.6931471806 + 0.3132616875) / 2}, {1}}},
        {"in 3x2;in 3:i2;softmax_cross_entropy_backward 0 1 axis=1", LAST, .in = {{3, 3, 5, 9, 0, 1}, {1, -1, 1}},
         .out = {{0.25, -0.25, 0, 0, 0.1344707107, -0.1344707107}}},
        {"in 1x2x2;in 1x2:i2;softmax_cross_entropy 0 1 > 2 axis=1", FIRST, .in = {{0, 1, 0, 0}, {0, 0}},
         .out = {{(0.6931471806 + 0.3132616875) / 2}, {2}}},
        {"in 1x2;in 1:i2;softmax_cross_entropy 0 1 > 2 axis=1", LAST, .in = {{1, 2}, {-1}}, .out = {{0}, {0}}},
        {"in 1x2;in 1:i2;softmax_cross_entropy_backward 0 1 axis=1", LAST, .in = {{1, 2}, {-1}}, .out = {{0, 0}}},
        {"in 2x2;in 2x2;mse 0 1", LAST, .in = {{1, 2, 3, 4}, {1, 0, 3, 2}}, .out = {{2}}},
        {"in 2x2;in 2x2;mse_backward 0 1", LAST, .in = {{1, 2, 3, 4}, {1, 0, 3, 2}}, .out = {{0, 1, 0, 1}}},
    };
    CHECK(cases);
}

// The learning rate is 1/2.
static void test_updates(void **state)
{
    (void)state;
    static const value_case cases[] = {
        {"in 2;in 2;update_sgd 0 1 > 0 momentum=0.0 nesterov=0 weight_decay=0.0", LAST, .in = {{1, 2}, {1, -1}},
         .after = {{0.5, 2.5}, {1, -1}}, .modifies = true},
        {"in 1;in 1;update_sgd 0 1 > 0 momentum=0.0 nesterov=0 weight_decay=0.5", LAST, .in = {{2}, {1}},
         .after = {{1}, {1}}, .modifies = true},
        {"in 1;in 1;in 1;update_sgd 0 1 2 > 0 momentum=0.5 nesterov=0 weight_decay=0.0", LAST, .in = {{1}, {1}, {4}},
         .after = {{-0.5}, {1}, {3}}, .modifies = true, .step = 1},
        {"in 1;in 1;in 1;update_sgd 0 1 2 > 0 momentum=0.5 nesterov=1 weight_decay=0.0", LAST, .in = {{1}, {1}, {4}},
         .after = {{-0.25}, {1}, {3}}, .modifies = true, .step = 1},
        {"in 1;in 1;in 1;update_sgd 0 1 2 > 0 momentum=0.5 nesterov=0 weight_decay=0.0", LAST, .in = {{1}, {1}, {0}},
         .after = {{0.5}, {1}, {1}}, .modifies = true, .step = 0},
        // the first step moves by the learning rate whatever the gradient's size
        {"in 1;in 1;in 1;in 1;update_adam 0 1 2 3 > 0 beta1=0.9 beta2=0.99 epsilon=1e-30 weight_decay=0.0", LAST,
         .in = {{1}, {4}, {0}, {0}}, .after = {{0.5}, {4}, {0.4}, {0.16}}, .modifies = true, .step = 0},
        // step 1: m = 0.5 + 1 = 1.5 over 0.75, v = 2 + 8 = 10 over 4375/10000 with g = 2 + 2
        {"in 1;in 1;in 1;in 1;update_adam 0 1 2 3 > 0 beta1=0.5 beta2=0.75 epsilon=1.0 weight_decay=1.0", LAST,
         .in = {{2}, {2}, {1}, {8.0 / 3}},
         .after = {{2 - 0.5 * (2.5 / 0.75) / (3.7032803990902057 + 1.0)}, {2}, {2.5}, {6}}, .modifies = true,
         .step = 1},
        {"in 1;in 1;in 1;in 1;update_adamw 0 1 2 3 > 0 beta1=0.9 beta2=0.99 epsilon=1e-30 weight_decay=0.5", LAST,
         .in = {{4}, {4}, {0}, {0}}, .after = {{2.5}, {4}, {0.4}, {0.16}}, .modifies = true, .step = 0},
    };
    CHECK(cases);
}

static void test_running_statistics_move_once(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "in 2x1;in 1;in 1;in 1;in 1;batch_norm_train 0 1 2 3 4 > 3 epsilon=0.0 momentum=0.5", LAST);
    const double numbers[MAX_IN][2] = {{1, 3}, {1}, {0}, {4}, {8}};
    for (int32_t i = 0; i < 5; i++) {
        put(&b, i, numbers[i]);
    }
    run(&b);
    float once[2] = {((float *)b.in[3])[0], ((float *)b.in[4])[0]};
    assert_true(once[0] == 3.0F && once[1] == 5.0F);
    b.call.first = false;
    run(&b);
    assert_true(((float *)b.in[3])[0] == once[0] && ((float *)b.in[4])[0] == once[1]);
    close_bench(&b);
}

static void test_outputs_nobody_reads(void **state)
{
    (void)state;
    bench b;
    open_bench(&b, "in 2x1;batch_norm_train 0 > 3 epsilon=0.0 momentum=0.5", LAST);
    const double x[2] = {1, 3};
    put(&b, 0, x);
    void *outputs[MAX_OUT] = {b.out[0], NULL, NULL};
    b.call.outputs = outputs;
    run(&b);
    assert_true(((float *)b.out[0])[0] == -1.0F && ((float *)b.out[0])[1] == 1.0F);
    close_bench(&b);
}

static void test_bad_data(void **state)
{
    (void)state;
    bench b;
    ckm_error err = CKM_ERROR_INIT;
    const double label[2] = {0, 2};
    open_bench(&b, "in 2x2;in 2:i2;softmax_cross_entropy 0 1 > 2 axis=1", LAST);
    put(&b, 1, label);
    assert_int_equal(b.kernel->run(b.script.graph, 0, &b.call, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "label 2 at position 1"));
    close_bench(&b);
    open_bench(&b, "in 2x2;in 2:i2;gather 0 1 axis=0", LAST);
    put(&b, 1, label);
    assert_int_equal(b.kernel->run(b.script.graph, 0, &b.call, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "holds 2; the axis has 2 elements"));
    close_bench(&b);
}

// ---- dropout

enum { DROPPED = 20000 };

typedef struct mask {
    uint64_t seed;
    int64_t step, key;
    int32_t op;
} mask;

static void draw(const mask *m, double rate, float *y)
{
    ckm_graph *g = NULL;
    const ckm_shape shape = {1, {DROPPED}};
    int32_t x;
    int32_t out;
    ckm_i_attr attrs[2] = {ckm_i_attr_real("rate", rate), ckm_i_attr_ints("key", &m->key, 1)};
    assert_int_equal(ckm_i_graph_create("dropout", LAST, 1, &g, NULL), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &shape, &x, NULL), CKM_OK);
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = "dropout", .name = "dropout", .inputs = {&x, 1}, .attrs = {attrs, 2}, .n_outputs = 1},
            &out, NULL),
        CKM_OK);
    for (int i = 0; i < DROPPED; i++) {
        y[i] = 1.0F;
    }
    const void *inputs[1] = {y};
    void *outputs[1] = {y};
    ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs, .seed = m->seed, .batch = m->step, .op = m->op};
    assert_int_equal(ckm_i_reference_find(CKM_I_OP_dropout)->run(g, 0, &call, NULL), CKM_OK);
    ckm_graph_free(g);
}

static int differences(const float *a, const float *b)
{
    int n = 0;
    for (int i = 0; i < DROPPED; i++) {
        n += a[i] != b[i];
    }
    return n;
}

static void test_dropout(void **state)
{
    (void)state;
    static float base[DROPPED];
    static float other[DROPPED];
    draw(&(mask){1, 2, 3, 0}, 0.25, base);
    int kept = 0;
    int pairs = 0;
    for (int i = 0; i < DROPPED; i++) {
        assert_true(base[i] == 0.0F || base[i] == (float)(1.0 / 0.75));
        kept += base[i] != 0.0F;
        pairs += i > 0 && base[i] != 0.0F && base[i - 1] != 0.0F;
    }
    // 5 standard deviations
    assert_true(fabs(kept - 0.75 * (double)DROPPED) < 5 * sqrt((double)DROPPED * 0.75 * 0.25));
    assert_true(fabs(pairs - 0.5625 * (double)DROPPED) < 5 * sqrt((double)DROPPED * 0.5));
    draw(&(mask){1, 2, 3, 77}, 0.25, other);  // the operator's number does not matter
    assert_int_equal(differences(base, other), 0);
    // Independent masks differ where one of two keeps and the other does not: 3/8 of all places.
    const mask others[] = {{2, 2, 3, 0}, {1, 3, 3, 0}, {1, 2, 4, 0}, {2, 1, 3, 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        draw(&others[i], 0.25, other);
        assert_true(fabs(differences(base, other) - 0.375 * (double)DROPPED) <
                    5 * sqrt((double)DROPPED * 0.375 * 0.625));
    }
    draw(&(mask){1, 2, 3, 0}, 1.0, other);
    for (int i = 0; i < DROPPED; i++) {
        assert_true(other[i] == 0.0F);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_resampling),
        cmocka_unit_test(test_movement),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_running_statistics_move_once),
        cmocka_unit_test(test_outputs_nobody_reads),
        cmocka_unit_test(test_bad_data),
        cmocka_unit_test(test_dropout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
