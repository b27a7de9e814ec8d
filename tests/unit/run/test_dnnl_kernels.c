// SPDX-License-Identifier: Apache-2.0
// Every other kernel of the "cpu" back end against the reference kernels.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel_script.h"

typedef struct script_row {
    const char *script;
    ckm_layout layout;
    double tolerance;
} script_row;

#define NHWC CKM_CHANNELS_LAST
#define NCHW CKM_CHANNELS_FIRST

static void check_rows(const script_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!kernel_script_is_own(rows[i].script, rows[i].layout)) {
            fail_msg("%s: runs on the reference kernel", rows[i].script);
        }
        for (int threads = 1; threads <= 3; threads++) {
            kernel_script_check(rows[i].script, rows[i].layout, threads, rows[i].tolerance);
        }
    }
}

#define CHECK(rows) check_rows((rows), sizeof(rows) / sizeof((rows)[0]))

static void test_batch_norm(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 2x5x7x6;in 6;in 6;in 6;in 6:+;batch_norm_train 0 1 2 3 4 > 3 axis=3 epsilon=1e-3 momentum=0.9", NHWC,
         1e-5},
        {"in 2x6x5x7;in 6;in 6;in 6;in 6:+;batch_norm_train 0 1 2 3 4 > 3 axis=1 epsilon=1e-3 momentum=0.9", NCHW,
         1e-5},
        // several chunks of rows, a large mean, no affine part, no running statistics
        {"in 4x16x16x3:+;batch_norm_train 0 - - - - > 3 axis=3 epsilon=1e-5 momentum=0.9", NHWC, 1e-5},
        {"in 3x2x70x50:+;in 2;in 2;batch_norm_train 0 1 2 - - > 3 axis=1 epsilon=1e-5 momentum=0.9", NCHW, 1e-5},
        // one element a channel
        {"in 1x1x1x4;in 4;in 4;in 4;in 4:+;batch_norm_train 0 1 2 3 4 > 3 axis=3 epsilon=1e-1 momentum=0.9", NHWC,
         1e-5},
        {"in 9x5;in 5;in 5;in 5;in 5:+;batch_norm_train 0 1 2 3 4 > 3 axis=1 epsilon=1e-3 momentum=0.9", NHWC, 1e-5},
        {"in 2x5x7x6;in 2x5x7x6;in 6;in 6;in 6:+;batch_norm_backward 0 1 2 3 4 > 3 axis=3 epsilon=1e-3 "
         "inplace=0/0,1/0",
         NHWC, 1e-5},
        {"in 2x6x5x7;in 2x6x5x7;in 6;in 6;in 6:+;batch_norm_backward 0 1 2 3 4 > 3 axis=1 epsilon=1e-3 "
         "inplace=0/0,1/0",
         NCHW, 1e-5},
        {"in 4x16x16x3;in 4x16x16x3;in 3;in 3:+;batch_norm_backward 0 1 - 2 3 > 3 axis=3 epsilon=1e-3 "
         "inplace=0/0,1/0",
         NHWC, 1e-5},
    };
    CHECK(rows);
}

static void test_elementwise(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 3x70x77;relu 0 inplace=0/0", NHWC, 0},
        {"in 3x70x77;relu 0 max_value=0.5 inplace=0/0", NHWC, 0},
        {"in 3x70x77;leaky_relu 0 alpha=0.2 inplace=0/0", NHWC, 1e-7},
        {"in 3x77;hard_sigmoid 0 inplace=0/0", NHWC, 1e-6},
        {"in 3x77;hard_swish 0 inplace=0/0", NHWC, 1e-6},
        {"in 3x77;scale 0 alpha=-0.25 inplace=0/0", NHWC, 0},
        {"in 3x77;neg 0 inplace=0/0", NHWC, 0},
        {"in 3x77;abs 0 inplace=0/0", NHWC, 0},
        {"in 3x77:+;sqrt 0 inplace=0/0", NHWC, 1e-6},
        {"in 3x77:+;reciprocal 0 inplace=0/0", NHWC, 1e-6},
        {"in 3x70x77;in 3x70x77;relu_backward 0 1 inplace=0/0,1/0", NHWC, 0},
        {"in 3x70x77;in 3x70x77;relu_backward 0 1 max_value=0.5 inplace=0/0,1/0", NHWC, 0},
        {"in 3x77;in 3x77;leaky_relu_backward 0 1 alpha=0.2 inplace=0/0,1/0", NHWC, 1e-7},
        {"in 3x77;in 3x77:+;hard_sigmoid_backward 0 1 alpha=0.2 beta=0.5 inplace=0/0,1/0", NHWC, 1e-6},
        {"in 3x77;in 3x77;hard_swish_backward 0 1 inplace=0/0,1/0", NHWC, 1e-6},
        {"in 3x77;in 3x77;sigmoid_backward 0 1 inplace=0/0,1/0", NHWC, 1e-6},
        {"in 3x77;in 3x77;tanh_backward 0 1 inplace=0/0,1/0", NHWC, 1e-6},
        {"in 3x77;in 3x77:+;sqrt_backward 0 1 inplace=0/0,1/0", NHWC, 1e-6},
        {"in 3x77;in 3x77;reciprocal_backward 0 1 inplace=0/0,1/0", NHWC, 1e-6},
        {"in 3x77;clip 0 min=-0.5 max=0.25 inplace=0/0", NHWC, 0},
        {"in 3x77;in 1:+;clip 0 - 1 inplace=0/0", NHWC, 0},
        {"in 3x77;in 3x77;clip_backward 0 1 min=-0.5 max=0.25 inplace=0/0,1/0", NHWC, 0},
        {"in 3x77;in 3x77;in 1;in 1:+;clip_backward 0 1 2 3 inplace=0/0,1/0", NHWC, 0},
        {"in 3x77;scale 0 alpha=4.0;erf 1 inplace=0/0", NHWC, 1e-6},
        {"in 3x77;in 3x77;scale 1 alpha=4.0;erf_backward 0 2 inplace=0/0,1/0", NHWC, 1e-6},
        // on oneDNN
        {"in 3x70x77;sigmoid 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;tanh 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;elu 0 alpha=0.7 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;in 3x77;elu_backward 0 1 alpha=1.5 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 3x77;elu 0 alpha=-0.7 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;in 3x77;elu_backward 0 1 alpha=-1.5 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 3x77;swish 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;in 3x77;swish_backward 0 1 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 3x77;mish 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;in 3x77;mish_backward 0 1 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 3x77;exp 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x77:+;log 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x70x77;gelu 0 inplace=0/0", NHWC, 1e-5},
        {"in 3x77;gelu 0 approximate=tanh inplace=0/0", NHWC, 1e-5},
        {"in 3x70x77;in 3x70x77;gelu_backward 0 1 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 3x77;in 3x77;gelu_backward 0 1 approximate=tanh inplace=0/0,1/0", NHWC, 1e-5},
    };
    CHECK(rows);
}

static void test_softmax(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 5x37;softmax 0 axis=1 inplace=0/0", NHWC, 1e-5},
        {"in 2x7x33x5;softmax 0 axis=2 inplace=0/0", NHWC, 1e-5},
        {"in 5x37;log_softmax 0 axis=1 inplace=0/0", NHWC, 1e-5},
        {"in 5x37;in 5x37:+;softmax_backward 0 1 axis=1 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 2x7x3x5;in 2x7x3x5:+;softmax_backward 0 1 axis=1 inplace=0/0,1/0", NHWC, 1e-5},
        {"in 5x37;in 5x37;log_softmax_backward 0 1 axis=1 inplace=0/0,1/0", NHWC, 1e-5},
    };
    CHECK(rows);
}

static void test_broadcast(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 3x70x77;in 3x70x77;add 0 1 inplace=0/0,1/0", NHWC, 0},
        {"in 3x50x77;in 3x50x77;in 3x50x77;in 3x50x77;add 0 1 2 3 inplace=0/0,1/0,2/0,3/0", NHWC, 1e-6},
        {"in 2x3x4x5;in 5;add 0 1 inplace=0/0", NHWC, 0},
        {"in 2x3x4x5;in 2x1x1x5;mul 0 1 inplace=0/0", NHWC, 0},
        {"in 2x3x4x5;in 3x1x1;mul 0 1 inplace=0/0", NHWC, 0},
        {"in 3x1;in 2x1x4;sub 0 1", NHWC, 0},
        {"in 1;in 2x5:+;div 0 1 inplace=1/0", NHWC, 1e-7},
        {"in 2x5;in 1:+;div 0 1 inplace=0/0", NHWC, 1e-7},
        {"in 1x3x1x5;expand 0 shape=2,3,4,5", NHWC, 0},
        {"in 2x3x1;expand 0 shape=2,3,7", NHWC, 0},
        {"in 1;in 1;sub 0 1", NHWC, 0},
    };
    CHECK(rows);
}

static void test_matmul(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 5x17;in 17x9;in 9;dense 0 1 2 transposed=0", NHWC, 1e-5},
        {"in 2x3x17;in 9x17;dense 0 1 transposed=1", NHWC, 1e-5},
        {"in 2x3x9;in 2x3x17;dense_backward_weights 0 1 transposed=0", NHWC, 1e-5},
        {"in 6x9;in 6x17;dense_backward_weights 0 1 transposed=1", NHWC, 1e-5},
        {"in 5x17;in 17x9;in 9;gemm 0 1 2", NHWC, 1e-5},
        {"in 17x5;in 9x17;gemm 0 1 trans_a=1 trans_b=1 alpha=0.5", NHWC, 1e-5},
        {"in 2x4x5x8;in 2x4x8x3;matmul 0 1", NHWC, 1e-5},
        {"in 2x4x5x8;in 2x4x3x8;matmul 0 1 trans_b=1", NHWC, 1e-5},
        {"in 2x4x8x5;in 2x4x8x3;matmul 0 1 trans_a=1", NHWC, 1e-5},
        {"in 2x4x5x8;in 8x3;matmul 0 1", NHWC, 1e-5},
        {"in 2x1x5x8;in 4x8x3;matmul 0 1", NHWC, 1e-5},
        {"in 5x8;in 3x8x4;matmul 0 1", NHWC, 1e-5},
        {"in 96x130;in 130x70;matmul 0 1", NHWC, 1e-5},
        // sums and columns of several blocks, tiles cut off on both sides, one tile of rows
        {"in 45x900;in 900x300;in 300;gemm 0 1 2", NHWC, 1e-5},
        {"in 900x45;in 300x900;gemm 0 1 trans_a=1 trans_b=1 alpha=0.5", NHWC, 1e-5},
        {"in 3x170;in 170x301;in 301;gemm 0 1 2", NHWC, 1e-5},
        {"in 2x1024;in 30x1024;gemm 0 1 trans_b=1", NHWC, 1e-5},
        {"in 40x1024;in 1024x70;gemm 0 1", NHWC, 1e-5},
        {"in 400x66;in 400x13;dense_backward_weights 0 1 transposed=0", NHWC, 1e-5},
        {"in 2x3x19x40;in 1x3x40x21;matmul 0 1", NHWC, 1e-5},
        {"in 5x40x19;in 5x21x40;matmul 0 1 trans_a=1 trans_b=1", NHWC, 1e-5},
    };
    CHECK(rows);
}

static void test_max_pool(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 2x9x7x5;max_pool_train 0 > 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1;"
         "max_pool_backward 1 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 input_shape=2,9,7,5",
         NHWC, 1e-6},
        {"in 2x5x9x7;max_pool_train 0 > 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1;"
         "max_pool_backward 1 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 input_shape=2,5,9,7",
         NCHW, 1e-6},
        {"in 2x8x8x20;max_pool_train 0 > 2 kernel=2,2 strides=2,2 dilation=1,1 padding=0,0,0,0;"
         "max_pool_backward 1 2 kernel=2,2 strides=2,2 dilation=1,1 padding=0,0,0,0 input_shape=2,8,8,20",
         NHWC, 1e-6},
        // overlapping windows, dilation, a window larger than a byte can count, the last one beyond the input
        {"in 1x20x20x3;max_pool_train 0 > 2 kernel=17,17 strides=1,1 dilation=1,1 padding=0,0,0,0;"
         "max_pool_backward 1 2 kernel=17,17 strides=1,1 dilation=1,1 padding=0,0,0,0 input_shape=1,20,20,3",
         NHWC, 1e-6},
        {"in 1x3x20x20;max_pool_train 0 > 2 kernel=17,17 strides=1,1 dilation=1,1 padding=0,0,0,0;"
         "max_pool_backward 1 2 kernel=17,17 strides=1,1 dilation=1,1 padding=0,0,0,0 input_shape=1,3,20,20",
         NCHW, 1e-6},
        {"in 1x3x8x10;max_pool_train 0 > 2 kernel=2,3 strides=1,2 dilation=2,1 padding=1,0,0,1 ceil_mode=1;"
         "max_pool_backward 1 2 kernel=2,3 strides=1,2 dilation=2,1 padding=1,0,0,1 ceil_mode=1 input_shape=1,3,8,10",
         NCHW, 1e-6},
        // rows of channels-first images that take more than one block of windows, and end within one
        {"in 1x3x9x75;max_pool_train 0 > 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1;"
         "max_pool_backward 1 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 input_shape=1,3,9,75",
         NCHW, 1e-6},
        {"in 1x2x6x41;max_pool_train 0 > 2 kernel=2,5 strides=1,1 dilation=2,2 padding=1,3,0,4;"
         "max_pool_backward 1 2 kernel=2,5 strides=1,1 dilation=2,2 padding=1,3,0,4 input_shape=1,2,6,41",
         NCHW, 1e-6},
        {"in 1x2x4x1700;max_pool_train 0 > 2 kernel=2,2 strides=2,3 dilation=1,1 padding=0,1,0,1;"
         "max_pool_backward 1 2 kernel=2,2 strides=2,3 dilation=1,1 padding=0,1,0,1 input_shape=1,2,4,1700",
         NCHW, 1e-6},
        // ties, and elements that are no number
        {"in 2x5x9x70;relu 0;max_pool_train 1 > 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1;"
         "max_pool_backward 2 3 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 input_shape=2,5,9,70",
         NCHW, 1e-6},
        {"in 2x9x7x5;relu 0;max_pool_train 1 > 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1;"
         "max_pool_backward 2 3 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 input_shape=2,9,7,5",
         NHWC, 1e-6},
        {"in 2x5x9x70;sqrt 0;max_pool_train 1 > 2 kernel=3,3 strides=1,2 dilation=2,1 padding=1,1,1,1;"
         "max_pool_backward 2 3 kernel=3,3 strides=1,2 dilation=2,1 padding=1,1,1,1 input_shape=2,5,9,70",
         NCHW, 1e-6},
        {"in 2x9x7x5;sqrt 0;max_pool_train 1 > 2 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1;"
         "max_pool_backward 2 3 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 input_shape=2,9,7,5",
         NHWC, 1e-6},
        {"in 2x9x4;max_pool_train 0 > 2 kernel=2 strides=2 dilation=1 padding=0,0 ceil_mode=1;"
         "max_pool_backward 1 2 kernel=2 strides=2 dilation=1 padding=0,0 ceil_mode=1 input_shape=2,9,4",
         NHWC, 1e-6},
    };
    CHECK(rows);
}

static void test_reduce(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 2x9x7x5;bias_grad 0 axis=3", NHWC, 1e-5},
        {"in 2x5x9x7;bias_grad 0 axis=1", NCHW, 1e-5},
        {"in 4x40x40x3;bias_grad 0 axis=3", NHWC, 1e-5},
        {"in 3x2x70x80;bias_grad 0 axis=1", NCHW, 1e-5},
        {"in 6x7;bias_grad 0 axis=1", NHWC, 1e-5},
        {"in 2x3x4x5;sum_to 0 shape=5", NHWC, 1e-5},
        {"in 2x3x4x5;sum_to 0 shape=2,1,1,5", NHWC, 1e-5},
        {"in 2x3x4x5;sum_to 0 shape=2,3,1,1", NCHW, 1e-5},
        {"in 2x3x4x5;sum_to 0 shape=1,1,1,1", NHWC, 1e-5},
        {"in 2x3x4x5;reduce_mean 0 axes=1,2 keepdims=1", NHWC, 1e-5},
        {"in 2x3x4x5;reduce_sum 0 axes=0,3 keepdims=0", NHWC, 1e-5},
        {"in 2x9x7x5;global_average_pool 0 keepdims=0", NHWC, 1e-5},
        {"in 2x5x9x7;global_average_pool 0 keepdims=1", NCHW, 1e-5},
    };
    CHECK(rows);
}

static void test_layer_norm(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 3x5x37;in 37;in 37;layer_norm 0 1 2 > 3 axis=2 epsilon=1e-5", NHWC, 1e-5},
        {"in 70x37;layer_norm 0 - - > 3 axis=1 epsilon=1e-5", NHWC, 1e-5},
        {"in 3x4x9:+;in 4x9;in 4x9;layer_norm 0 1 2 > 3 axis=1 epsilon=1e-5", NHWC, 1e-5},
        {"in 3x50x37;in 3x50x37;in 37;in 3x50x1;in 3x50x1:+;layer_norm_backward 0 1 2 3 4 > 3 axis=2 epsilon=1e-5 "
         "inplace=0/0,1/0",
         NHWC, 1e-5},
        {"in 3x5x7;in 3x5x7;in 3x5x1;in 3x5x1:+;layer_norm_backward 0 1 - 2 3 > 3 axis=2 epsilon=1e-5 "
         "inplace=0/0,1/0",
         NHWC, 1e-5},
    };
    CHECK(rows);
}

static void test_update(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 90x101;in 90x101;update_sgd 0 1 > 0 weight_decay=0.01", NHWC, 1e-6},
        {"in 90x101;in 90x101;in 90x101;update_sgd 0 1 2 > 0 momentum=0.9 nesterov=0 weight_decay=0.01", NHWC, 1e-6},
        {"in 7x3;in 7x3;in 7x3;update_sgd 0 1 2 > 0 momentum=0.9 nesterov=1 weight_decay=0.0", NHWC, 1e-6},
        {"in 90x101;in 90x101;in 90x101;in 90x101:+;update_adam 0 1 2 3 > 0 beta1=0.9 beta2=0.99 epsilon=1e-8 "
         "weight_decay=0.1",
         NHWC, 1e-5},
        {"in 7x3;in 7x3;in 7x3;in 7x3:+;update_adamw 0 1 2 3 > 0 beta1=0.9 beta2=0.99 epsilon=1e-8 weight_decay=0.1",
         NHWC, 1e-5},
        {"in 90x101;dropout 0 rate=0.3 key=11 inplace=0/0", NHWC, 0},
        {"in 90x101;dropout 0 rate=0.5 key=12 inplace=0/0", NHWC, 0},
    };
    CHECK(rows);
}

static void test_loss(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 5x37;in 5:i37;softmax_cross_entropy 0 1 > 2 axis=1", NHWC, 1e-5},
        {"in 200x10;in 200:i10;softmax_cross_entropy 0 1 > 2 axis=1", NHWC, 1e-5},
        {"in 2x17x19x5;in 2x17x19:i5;softmax_cross_entropy 0 1 > 2 axis=3", NHWC, 1e-5},
        {"in 2x5x17x19;in 2x17x19:i5;softmax_cross_entropy 0 1 > 2 axis=1", NCHW, 1e-5},
        {"in 5x37;in 5:i37;softmax_cross_entropy_backward 0 1 > 1 axis=1 inplace=0/0", NHWC, 1e-5},
        {"in 2x17x19x21;in 2x17x19:i21;softmax_cross_entropy_backward 0 1 > 1 axis=3 inplace=0/0", NHWC, 1e-5},
        {"in 2x5x17x19;in 2x17x19:i5;softmax_cross_entropy_backward 0 1 > 1 axis=1 inplace=0/0", NCHW, 1e-5},
        // large logits, all labels ignored
        {"in 4x9;scale 0 alpha=300.0;in 4:i9;softmax_cross_entropy_backward 1 2 > 1 axis=1", NHWC, 1e-5},
        {"in 4x9;in 4:i0;softmax_cross_entropy 0 1 > 2 axis=1", NHWC, 1e-5},
        {"in 4x9;in 4:i0;softmax_cross_entropy_backward 0 1 > 1 axis=1", NHWC, 1e-5},
    };
    CHECK(rows);
}

static void test_average_pool(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 2x9x7x5;average_pool 0 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 count_include_pad=0", NHWC,
         1e-6},
        {"in 2x5x9x7;average_pool 0 kernel=3,2 strides=1,2 dilation=1,1 padding=1,0,1,1 count_include_pad=1", NCHW,
         1e-6},
        {"in 2x9x5;average_pool 0 kernel=2 strides=2 dilation=1 padding=0,0 ceil_mode=1", NHWC, 1e-6},
        {"in 2x5x4x5;average_pool_backward 0 kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1 count_include_pad=0 "
         "input_shape=2,9,7,5",
         NHWC, 1e-6},
        {"in 2x5x9x4;average_pool_backward 0 kernel=3,2 strides=1,2 dilation=1,1 padding=1,0,1,1 count_include_pad=1 "
         "input_shape=2,5,9,7",
         NCHW, 1e-6},
    };
    CHECK(rows);
}

static void test_movement(void **state)
{
    (void)state;
    static const script_row rows[] = {
        {"in 2x3x4x5;in 2x3x4x7;in 2x3x4x1;concat 0 1 2 axis=3", NHWC, 0},
        {"in 2x3x4x5;in 2x1x4x5;concat 0 1 axis=1", NCHW, 0},
        {"in 2x9x4;split 0 > 3 axis=1 sizes=2,3,4", NHWC, 0},
        {"in 2x3x4x5;slice 0 starts=0,1,0,2 steps=1,1,1,1 sizes=2,2,4,3", NHWC, 0},
        {"in 9x8;slice 0 starts=8,1 steps=-2,3 sizes=4,3", NHWC, 0},
        {"in 2x3x4x5;pad 0 pads=0,1,2,0,0,1,0,0 mode=constant", NHWC, 0},
        {"in 2x3x4x5;pad 0 pads=0,-1,1,0,0,1,-2,0 mode=constant value=0.5", NHWC, 0},
        {"in 3x4;pad 0 pads=-1,0,-1,-3 mode=constant", NHWC, 0},
        {"in 37x45;transpose 0 perm=1,0", NHWC, 0},
        {"in 2x19x4x33;transpose 0 perm=0,2,1,3", NHWC, 0},
        {"in 2x19x4x33;transpose 0 perm=0,2,3,1", NHWC, 0},
        {"in 2x3x4x5;transpose 0 perm=3,1,0,2", NHWC, 0},
        {"in 2x1x4;transpose 0", NHWC, 0},
        {"in 1x1;transpose 0", NHWC, 0},
    };
    CHECK(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_norm), cmocka_unit_test(test_elementwise),  cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_broadcast),  cmocka_unit_test(test_matmul),       cmocka_unit_test(test_max_pool),
        cmocka_unit_test(test_reduce),     cmocka_unit_test(test_layer_norm),   cmocka_unit_test(test_update),
        cmocka_unit_test(test_loss),       cmocka_unit_test(test_average_pool), cmocka_unit_test(test_movement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
