// SPDX-License-Identifier: Apache-2.0
// Gradients of layers with weights, normalizations, pooling and resampling against central differences.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gradient_check.h"

#define MSE .loss = CKM_LOSS_MSE

static void check(const gradient_case *cases, size_t n, ckm_layout layout)
{
    for (size_t i = 0; i < n; i++) {
        gradient_check(&cases[i], layout);
    }
}

#define CHECK(cases, layout) check((cases), sizeof(cases) / sizeof((cases)[0]), (layout))

static void test_conv_channels_last(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x5x6x3;in 3x3x3x4;in 4;conv 0 1 2", MSE},
        {"in 2x5x6x3;in 1x1x3x4;in 4;conv 0 1 2", MSE},
        {"in 1x7x6x2;in 3x2x2x3;conv 0 1 padding=same strides=2,2", MSE},
        {"in 1x7x6x2;in 3x3x2x3;conv 0 1 padding=2,1,0,3 dilation=2,1", MSE},
        {"in 2x5x5x4;in 3x3x2x6;in 6;conv 0 1 2 groups=2 padding=same_lower", MSE},
        {"in 2x5x5x4;in 3x3x1x4;in 4;conv 0 1 2 groups=4 padding=same strides=2,1", MSE},
        {"in 1x5x5x3;in 3x2x1x6;conv 0 1 groups=3", MSE},
        {"in 2x9x3;in 3x3x4;conv 0 1 strides=2", MSE},
        {"in 1x3x4x3x2;in 2x2x2x2x3;conv 0 1 padding=same", MSE},
        {"in 1x9x9x2;in 3x3x2x3;conv 0 1 padding=1,1,1,1 activation=sigmoid", MSE},
        {"in 2x5x5x3;in 3x3x1x6;in 1x1x6x4;in 4;separable_conv 0 1 2 3 padding=same", MSE},
        {"in 2x3x4x3;in 3x3x5x3;in 5;conv_transpose 0 1 2 strides=2,2 padding=same", MSE},
        {"in 1x3x4x2;in 4x3x3x2;conv_transpose 0 1 strides=2,1 padding=1,0,1,1", MSE},
        {"in 1x3x3x4;in 2x2x3x4;conv_transpose 0 1 strides=3,2 groups=2 dilation=1,2", MSE},
    };
    CHECK(cases, CKM_CHANNELS_LAST);
}

static void test_conv_channels_first(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x3x5x6;in 4x3x3x3;in 4;conv 0 1 2 groups=1", MSE},
        {"in 2x3x5x6;in 4x3x1x1;in 4;conv 0 1 2 groups=1", MSE},
        {"in 1x2x7x6;in 3x2x3x2;conv 0 1 padding=same_upper strides=2,2", MSE},
        {"in 1x2x7x6;in 3x2x3x3;conv 0 1 padding=2,1,0,3 dilation=2,1", MSE},
        {"in 2x4x5x5;in 6x2x3x3;in 6;conv 0 1 2 groups=2 padding=1,1,1,1", MSE},
        {"in 2x4x5x5;in 4x1x3x3;in 4;conv 0 1 2 groups=4 padding=1,1,1,1 strides=2,1", MSE},
        {"in 1x3x5x5;in 6x1x3x2;conv 0 1 groups=3", MSE},
        {"in 2x3x9;in 4x3x3;conv 0 1 strides=2", MSE},
        {"in 2x3x3x4;in 3x5x3x3;in 5;conv_transpose 0 1 2 strides=2,2 padding=1,1,1,1 output_padding=1,1", MSE},
        {"in 1x4x3x3;in 4x3x2x2;conv_transpose 0 1 strides=3,2 groups=2 dilation=1,2", MSE},
        {"in 1x2x3x3;in 2x3x3x3;conv_transpose 0 1 strides=2,2 output_size=6,7", MSE},
    };
    CHECK(cases, CKM_CHANNELS_FIRST);
}

static void test_products(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x5;in 5x4;in 4;dense 0 1 2", MSE},
        {"in 3x5;in 4x5;in 4;dense 0 1 2 transposed=1 activation=tanh", MSE},
        {"in 2x3x5;in 5x4;dense 0 1", MSE},
        {"in 3x5;in 5x4;matmul 0 1", MSE},
        {"in 2x3x5;in 2x5x4;matmul 0 1", MSE},
        {"in 2x3x5;in 2x4x5;matmul 0 1 trans_b=1", MSE},
        {"in 2x5x3;in 2x5x4;matmul 0 1 trans_a=1", MSE},
        {"in 2x5x3;in 2x4x5;matmul 0 1 trans_a=1 trans_b=1", MSE},
        {"in 2x1x3x5;in 4x5x2;matmul 0 1", MSE},
        {"in 2x3x5;in 5;matmul 0 1", MSE},
        {"in 5;in 2x5x3;matmul 0 1", MSE},
        {"in 3x5;in 5x4;in 4;gemm 0 1 2 alpha=0.5 beta=2.0", MSE},
        {"in 5x3;in 4x5;in 3x1;gemm 0 1 2 trans_a=1 trans_b=1 alpha=1.5", MSE},
        {"in 3x5;in 4x5;gemm 0 1 trans_b=1", MSE},
        {"in 2x3x4;in 2x5x4;einsum 0 1 equation=bid,bjd->bij", MSE},
        {"in 3x4;in 4x2;in 2x5;einsum 0 1 2 equation=ij,jk,kl->il", MSE},
    };
    CHECK(cases, CKM_CHANNELS_LAST);
    CHECK(cases, CKM_CHANNELS_FIRST);
}

static void test_norms_channels_last(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x4x4x3;in 3:+;in 3;in 3;in 3:+;batch_norm 0 1 2 3 4 epsilon=1e-3", MSE},
        {"in 3x4x4x3;batch_norm 0 epsilon=1e-3", MSE},
        {"in 9x4;in 4:+;in 4;in 4;in 4:+;batch_norm 0 1 2 3 4 epsilon=1e-5", MSE},
        {"in 3x4x4x3;in 3;in 3;in 3:+;batch_norm 0 - 1 2 3", MSE},
        {"in 2x3x3x4;in 4:+;in 4;group_norm 0 1 2 groups=2", MSE},
        {"in 2x3x3x4;in 2:+;in 2;group_norm 0 1 2 groups=2", MSE},
        {"in 2x3x3x4;in 4:+;in 4;instance_norm 0 1 2", MSE},
        {"in 2x3x6;in 6:+;in 6;layer_norm 0 1 2", MSE},
        {"in 2x3x6;in 3x6:+;in 3x6;layer_norm 0 1 2 axis=1", MSE},
        {"in 2x3x6;in 6:+;layer_norm 0 1 axis=1", MSE},
        {"in 2x3x6;layer_norm 0", MSE},
        // as many numbers as a row has, but one a sample; a bias for each position; all there can be
        {"in 3x4x3;in 3x1x1:+;in 4x1;layer_norm 0 1 2 axis=2", MSE},
        {"in 2x6x3;in 6x3:+;layer_norm 0 1", MSE},
        {"in 2x3x4;in 2x3x4:+;in 2x3x4;layer_norm 0 1 2 axis=1", MSE},
        {"in 2x6x3;in 1x1x3:+;in 2x1x1;layer_norm 0 1 2", MSE},
        {"in 2x3x6;in 6:+;rms_norm 0 1 epsilon=1e-2", MSE},
        {"in 5x7;rms_norm 0", MSE},
        {"in 2x3x3x6;local_response_norm 0 size=3 alpha=0.5 beta=0.75 bias=1.0", MSE},
        {"in 2x3x5;lp_norm 0", MSE},
        {"in 2x3x5;lp_norm 0 axis=1 p=1", MSE},
    };
    CHECK(cases, CKM_CHANNELS_LAST);
}

static void test_attention(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x3x4x4;masked_softmax 0 mask=causal", MSE},
        {"in 2x3x5;masked_softmax 0 mask=causal", MSE},
        // Two images of 2 x 3 windows of 2 x 2, rolled by 1 and 1; one axis rolled; none.
        {"in 12x2x4x4;masked_softmax 0 mask=windows grid=4,6 window=2,2 shift=1,1", MSE},
        {"in 2x1x6x6;masked_softmax 0 mask=windows grid=2,6 window=2,3 shift=0,2", MSE},
        {"in 2x1x4x4;masked_softmax 0 mask=windows grid=2,2 window=2,2 shift=0,0", MSE},
        {"in 2x3x5x4;rotary 0", MSE},
        {"in 3x6;rotary 0 base=100.0 inverse=1", MSE},
        {"in 2x3x4;roll 0 shifts=0,1,-2", MSE},
        {"in 5;roll 0 shifts=12", MSE},
        {"in 9x2;window_bias 0 window=2,2", MSE},
        {"in 15x3;window_bias 0 window=2,3", MSE},
    };
    CHECK(cases, CKM_CHANNELS_LAST);
    CHECK(cases, CKM_CHANNELS_FIRST);
}

static void test_norms_channels_first(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x3x4x4;in 3:+;in 3;in 3;in 3:+;batch_norm 0 1 2 3 4 epsilon=1e-3", MSE},
        {"in 3x3x4x4;batch_norm 0 epsilon=1e-3", MSE},
        {"in 3x3x7;in 3:+;in 3;in 3;in 3:+;batch_norm 0 1 2 3 4", MSE},
        {"in 2x4x3x3;in 4:+;in 4;group_norm 0 1 2 groups=2", MSE},
        {"in 2x4x3x3;in 2:+;in 2;group_norm 0 1 2 groups=2", MSE},
        {"in 2x4x3x3;in 4:+;in 4;instance_norm 0 1 2", MSE},
        {"in 2x6x3x3;local_response_norm 0 size=4 alpha=0.5 beta=0.75 bias=1.0", MSE},
    };
    CHECK(cases, CKM_CHANNELS_FIRST);
}

static void test_pooling_channels_last(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x5x6x3;max_pool 0 kernel=2,2 strides=2,2", MSE},
        {"in 2x5x6x3;max_pool 0 kernel=3,3 strides=2,2 padding=same", MSE},
        {"in 2x5x6x3;average_pool 0 kernel=2,2 strides=2,2", MSE},
        {"in 2x5x6x3;average_pool 0 kernel=3,3 strides=1,2 padding=same", MSE},
        {"in 2x5x6x3;lp_pool 0 kernel=3,3 strides=1,2 padding=same", MSE},
        {"in 2x5x6x3;lp_pool 0 kernel=2,2 strides=2,2 p=1", MSE},
        {"in 2x5x6x3;global_average_pool 0", MSE},
        {"in 2x5x6x3;global_max_pool 0 keepdims=1", MSE},
        {"in 1x3x4x2;up_sampling 0 size=2,3 mode=nearest", MSE},
        {"in 1x3x4x2;up_sampling 0 size=2,2 mode=bilinear", MSE},
        {"in 1x3x4x2;interp 0 size=5,7", MSE},
        {"in 1x3x4x2;zero_padding 0 pads=1,0,2,1", MSE},
        {"in 1x5x4x2;cropping 0 pads=1,0,2,1", MSE},
        {"in 1x3x4x2;resize 0 size=1,5,3,2 mode=cubic", MSE},
    };
    CHECK(cases, CKM_CHANNELS_LAST);
}

static void test_pooling_channels_first(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x3x5x6;max_pool 0 kernel=2,2 strides=2,2", MSE},
        {"in 2x3x5x6;max_pool 0 kernel=3,3 strides=2,2 padding=1,1,1,1 ceil_mode=1", MSE},
        {"in 1x1x20x20;max_pool 0 kernel=17,17 strides=2,1", MSE},
        {"in 2x3x5x6;average_pool 0 kernel=2,2 strides=2,2 padding=1,0,0,1 count_include_pad=1 ceil_mode=1", MSE},
        {"in 2x3x5x6;average_pool 0 kernel=3,3 padding=1,1,1,1", MSE},
        {"in 2x3x9;average_pool 0 kernel=2 strides=2", MSE},
        {"in 2x3x9;lp_pool 0 kernel=2 strides=2 dilation=2 p=3 ceil_mode=1", MSE},
        {"in 2x3x5x6;global_average_pool 0 keepdims=1", MSE},
        {"in 2x3x5x6;global_max_pool 0 keepdims=1", MSE},
        {"in 1x2x3x4;resize 0 size=1,2,6,8 mode=nearest", MSE},
        {"in 1x2x3x4;resize 0 size=1,2,7,3 mode=linear", MSE},
        {"in 1x2x3x4;resize 0 size=1,2,5,9 mode=cubic", MSE},
    };
    CHECK(cases, CKM_CHANNELS_FIRST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_channels_last),
        cmocka_unit_test(test_conv_channels_first),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_norms_channels_last),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_norms_channels_first),
        cmocka_unit_test(test_pooling_channels_last),
        cmocka_unit_test(test_pooling_channels_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
