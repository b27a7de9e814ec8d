// SPDX-License-Identifier: Apache-2.0
// Gradients of activations, arithmetic, movements, reductions and losses against central differences.
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

// What has nothing to do with channels is checked in both layouts all the same: the layout must not matter.
#define CHECK(cases)                                                            \
    do {                                                                        \
        check((cases), sizeof(cases) / sizeof((cases)[0]), CKM_CHANNELS_LAST);  \
        check((cases), sizeof(cases) / sizeof((cases)[0]), CKM_CHANNELS_FIRST); \
    } while (0)

static void test_activations(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x9;relu 0", MSE, .scale = 2},
        {"in 3x9;relu 0 max_value=0.6", MSE},
        {"in 3x9;relu 0 max_value=1.5 threshold=-0.5 negative_slope=0.2", MSE, .scale = 2},
        {"in 3x9;leaky_relu 0 alpha=0.2", MSE},
        {"in 3x9;leaky_relu 0 alpha=-0.2", MSE},
        {"in 3x9;elu 0 alpha=0.7", MSE, .scale = 2},
        {"in 3x9;selu 0", MSE, .scale = 2},
        {"in 3x9;celu 0 alpha=0.6", MSE, .scale = 2},
        // what is below 0 comes out above it, and the other way round
        {"in 3x9;elu 0 alpha=-0.7", MSE, .scale = 2},
        {"in 3x9;selu 0 alpha=-1.5", MSE, .scale = 2},
        {"in 3x9;selu 0 gamma=-1.1", MSE, .scale = 2},
        {"in 3x9;selu 0 alpha=-0.4 gamma=-1.1", MSE, .scale = 2},
        {"in 3x9;celu 0 alpha=-0.6", MSE, .scale = 2},
        {"in 3x9;thresholded_relu 0 alpha=-0.4", MSE},
        {"in 3x9;relu 0 max_value=-0.5 negative_slope=0.5", MSE, .scale = 2},
        {"in 3x9;sigmoid 0", MSE, .scale = 3},
        {"in 3x9;hard_sigmoid 0", MSE, .scale = 4},
        {"in 3x9;hard_sigmoid 0 alpha=0.4 beta=0.3", MSE, .scale = 2},
        {"in 3x9;tanh 0", MSE, .scale = 2},
        {"in 3x9;softplus 0", MSE, .scale = 3},
        {"in 3x9;softsign 0", MSE, .scale = 2},
        {"in 3x9;gelu 0", MSE, .scale = 3},
        {"in 3x9;gelu 0 approximate=tanh", MSE, .scale = 3},
        {"in 3x9;swish 0", MSE, .scale = 3},
        {"in 3x9;swish 0 alpha=1.7", MSE, .scale = 3},
        {"in 3x9;hard_swish 0", MSE, .scale = 4},
        {"in 3x9;mish 0", MSE, .scale = 3},
        {"in 3x9;thresholded_relu 0 alpha=0.4", MSE},
        {"in 3x9;clip 0 min=-0.5 max=0.4", MSE},
        {"in 3x9;clip 0 max=0.4", MSE},
        {"in 3x9;softmax 0", MSE, .scale = 2},
        {"in 3x4x5;softmax 0 axis=1", MSE, .scale = 2},
        {"in 3x9;log_softmax 0", MSE, .scale = 2},
        {"in 3x4x5;log_softmax 0 axis=0", MSE, .scale = 2},
        {"in 3x4x3;in 4x1;prelu 0 1", MSE},
        {"in 3x9;in 1;prelu 0 1", MSE},
        {"in 3x9;dropout 0 rate=0.4", MSE},
        {"in 3x9;dropout 0 rate=0.0", MSE},
    };
    CHECK(cases);
}

static void test_prelu_a_channel(void **state)
{
    (void)state;
    static const gradient_case last = {"in 2x3x4x5;in 5;prelu 0 1", MSE};
    static const gradient_case first = {"in 2x5x3x4;in 5;prelu 0 1", MSE};
    gradient_check(&last, CKM_CHANNELS_LAST);
    gradient_check(&first, CKM_CHANNELS_FIRST);
}

static void test_functions(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x9:+;sqrt 0", MSE},
        {"in 3x9;erf 0", MSE, .scale = 2},
        {"in 3x9;neg 0", MSE},
        {"in 3x9;exp 0", MSE, .scale = 2},
        {"in 3x9:+;log 0", MSE},
        {"in 3x9;abs 0", MSE},
        {"in 3x9:+;reciprocal 0", MSE},
        {"in 3x9;sin 0", MSE, .scale = 3},
        {"in 3x9;cos 0", MSE, .scale = 3},
        {"in 3x9;tan 0", MSE},
        {"in 3x9;atan 0", MSE, .scale = 3},
        {"in 3x9;cast 0 dtype=0", MSE},
        {"in 3x9;identity 0", MSE},
    };
    CHECK(cases);
}

static void test_arithmetic(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x9;in 3x9;add 0 1", MSE},
        {"in 3x9;in 9;in 3x1;add 0 1 2", MSE},
        {"in 3x9;add 0 0", MSE},
        {"in 2x3x4;in 3x1;sub 0 1", MSE},
        {"in 3x1;in 2x3x4;sub 0 1", MSE},
        {"in 2x3x4;in 2x1x4;mul 0 1", MSE},
        {"in 3x9;mul 0 0", MSE},
        {"in 3x9;in 3x9:+;div 0 1", MSE},
        {"in 9;in 3x9:+;div 0 1", MSE},
        {"in 3x9;in 3x1:+;div 0 1", MSE},
        {"in 3x9:+;in 3x9;pow 0 1", MSE},
        {"in 9:+;in 3x1:+;pow 0 1", MSE},
        {"in 3x9;in 3x9;minimum 0 1", MSE},
        {"in 3x9;in 9;in 3x1;maximum 0 1 2", MSE},
        {"in 3x9;in 9;in 3x1;sum 0 1 2", MSE},
        {"in 3x9;in 9;in 3x1;mean 0 1 2", MSE},
        {"in 3x9;in 9;greater 0 1;in 3x9;in 3x1;where 2 3 4", MSE},
        // one tensor used by several operators: its gradients are added up
        {"in 3x9;tanh 0;sigmoid 0;mul 1 2;add 3 0", MSE},
    };
    CHECK(cases);
}

static void test_movement(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x3x4;reshape 0 shape=6,4", MSE},
        {"in 2x3x4;flatten 0 axis=1", MSE},
        {"in 2x3x4;transpose 0 perm=2,0,1", MSE},
        {"in 2x3x4;transpose 0", MSE},
        {"in 2x3;in 2x4;in 2x1;concat 0 1 2 axis=1", MSE},
        {"in 2x3x4;in 3x3x4;concat 0 1 axis=0", MSE},
        {"in 2x3x4x2;in 2x3x4x2;concat 0 1", MSE},
        {"in 4x7;slice 0 starts=1,2 steps=1,1 sizes=2,4", MSE},
        {"in 4x7;slice 0 starts=0,6 steps=3,-2 sizes=2,4", MSE},
        {"in 2x6;split 0 > 3 axis=1;mul 1 2;add 4 3", MSE},
        {"in 2x6;split 0 > 2 axis=1 sizes=2,4;mul 2 2", MSE},
        {"in 3x4;pad 0 pads=1,0,0,2 mode=constant", MSE},
        {"in 3x4;pad 0 pads=-1,0,2,-2 mode=constant", MSE},
        {"in 3x4;pad 0 pads=1,2,2,1 mode=reflect", MSE},
        {"in 3x4;pad 0 pads=1,0,0,2 mode=edge", MSE},
        {"in 3x4;pad 0 pads=1,0,0,2 mode=wrap", MSE},
        {"in 3x1;expand 0 shape=2,3,4", MSE},
        {"in 2x3;tile 0 repeats=2,3", MSE},
        {"in 5x3;in 4x2:i5;gather 0 1 axis=0", MSE},
        {"in 2x5x3;in 4:i5;gather 0 1 axis=1", MSE},
        {"in 4x3;in 2x3:i4;gather_elements 0 1 axis=0", MSE},
        {"in 3x4;in 3x6:i4;gather_elements 0 1 axis=1", MSE},
        {"in 3x4x2;in 5x2:i3;gather_nd 0 1", MSE},
        {"in 2x3x4;in 2x5x1:i3;gather_nd 0 1 batch_dims=1", MSE},
        {"in 5x3;in 2x1:i1;in 2x3;scatter_nd 0 1 2", MSE, .tolerance = 2e-3},
        {"in 4x3;in 1x3:i4;in 1x3;scatter_elements 0 1 2 axis=0", MSE},
        {"in 3x4x4;triangle 0 upper=1", MSE},
        {"in 4x3;triangle 0 upper=0", MSE},
        {"in 3x5;cumulative_sum 0 axis=1", MSE},
        {"in 3x5;cumulative_sum 0 axis=0", MSE},
    };
    CHECK(cases);
}

static void test_blocks(void **state)
{
    (void)state;
    static const gradient_case last[] = {
        {"in 2x2x3x8;depth_to_space 0 block=2", MSE},
        {"in 2x4x6x2;space_to_depth 0 block=2", MSE},
    };
    static const gradient_case first[] = {
        {"in 2x8x2x3;depth_to_space 0 block=2", MSE},
        {"in 2x8x2x3;depth_to_space 0 block=2 mode=crd", MSE},
        {"in 2x2x4x6;space_to_depth 0 block=2", MSE},
    };
    check(last, sizeof last / sizeof *last, CKM_CHANNELS_LAST);
    check(first, sizeof first / sizeof *first, CKM_CHANNELS_FIRST);
}

static void test_reductions(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 2x3x4;reduce_mean 0 axes=1", MSE},
        {"in 2x3x4;reduce_mean 0 keepdims=0", MSE},
        {"in 2x3x4;reduce_sum 0 axes=0,2 keepdims=0", MSE},
        {"in 2x3x4;reduce_max 0 axes=1,2", MSE},
        {"in 2x3x4;reduce_min 0 axes=0 keepdims=0", MSE},
        {"in 2x3x4:+;reduce_prod 0 axes=1", MSE},
        {"in 2x3x4;reduce_l1 0 axes=2", MSE},
        {"in 2x3x4;reduce_l2 0 axes=1 keepdims=0", MSE},
        {"in 2x3x4;reduce_sum_square 0 axes=1", MSE},
        {"in 2x3x4:+;reduce_log_sum 0 axes=1", MSE},
        {"in 2x3x4;reduce_log_sum_exp 0 axes=0,1 keepdims=0", MSE, .scale = 2},
    };
    CHECK(cases);
}

static void test_losses(void **state)
{
    (void)state;
    // The loss is a single-precision number here: larger steps.
    static const gradient_case cases[] = {
        {"in 5x4;identity 0", .step = 0.02},
        {"in 5x4;softmax 0", .step = 0.02},
        {"in 5x4;in 4x3;dense 0 1 activation=softmax", .step = 0.02},
        {"in 5x4;log_softmax 0", .step = 0.02},
        {"in 2x3x4x3;softmax 0 axis=-1", .step = 0.02},
        {"in 2x3x4x3;softmax 0 axis=1", .step = 0.02},
    };
    CHECK(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations), cmocka_unit_test(test_prelu_a_channel), cmocka_unit_test(test_functions),
        cmocka_unit_test(test_arithmetic),  cmocka_unit_test(test_movement),        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_reductions),  cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
