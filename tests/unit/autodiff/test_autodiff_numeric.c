// SPDX-License-Identifier: Apache-2.0
// Gradients of whole networks against differences of the loss: rules and kernels together. Networks are small chains
// written as text, one operator after the other; parameters are moved along random directions.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/plan.h>
#include <checkmate/run.h>
#include <checkmate/schedule.h>

#include "base/rng.h"
#include "graph/training.h"
#include "network_text.h"

// A network as text: see network_text.h.
typedef struct network_case {
    ckm_layout layout;
    const char *shape;  // of the data
    const char *text;
} network_case;

#define LAST CKM_CHANNELS_LAST
#define FIRST CKM_CHANNELS_FIRST

static const network_case cases[] = {
    // Layers.
    {LAST, "2x5x5x3", "conv x p3x3x3x4 p4 padding=same activation=tanh | conv x p2x2x4x5 strides=2,2"},
    {FIRST, "2x3x6x5", "conv x p4x3x3x2 p4 padding=1,0,2,1 dilation=1,2 strides=2,1"},
    {LAST, "2x5x5x4", "conv x p3x3x1x8 groups=4 padding=same strides=2,2 | sigmoid x"},
    {FIRST, "2x4x5x5", "conv x p6x2x3x3 p6 groups=2"},
    {LAST, "2x3x4x3", "conv_transpose x p3x3x2x3 p2 strides=2,2 padding=same activation=tanh"},
    {FIRST, "2x4x3x4", "conv_transpose x p4x3x3x2 p6 groups=2 strides=2,1 padding=1,0,1,1 output_padding=1,0"},
    {LAST, "2x5x5x3", "separable_conv x p3x3x1x6 p1x1x6x4 p4 padding=same activation=sigmoid"},
    {LAST, "3x4", "dense x p4x5 p5 activation=tanh | dense x p2x5 transposed=1"},
    {LAST, "2x3x4", "dense x p4x5 p5"},
    {LAST, "2x3x4", "matmul x p2x4x5 | matmul p6x3 x trans_b=0"},
    {LAST, "2x3x4", "matmul x p5x4 trans_b=1 | matmul x p2x3x2 trans_a=1"},
    {LAST, "2x3x4", "matmul x p4"},
    {LAST, "3x4", "gemm x p5x3 p4x1 trans_a=1 trans_b=1 alpha=0.5 beta=2.0"},
    {LAST, "3x4", "gemm p5x3 x p4 alpha=1.5"},
    {LAST, "2x3x4", "einsum x p2x5x4 equation=bid,bjd->bij | einsum x p5x3 equation=bij,ji->bi"},
    {LAST, "2x3x4", "einsum x p2x3 equation=bid,bi->b"},
    // Normalizations.
    {LAST, "3x4x4x2", "batch_norm x p2 p2 s2 s2 | tanh x"},
    {FIRST, "3x2x4x4", "batch_norm x p2 p2 epsilon=0.1"},
    {LAST, "2x3x5", "layer_norm x p5 p5 | mul x y"},
    {LAST, "2x3x4", "layer_norm x p3x4 axis=1"},
    {FIRST, "2x6x3", "group_norm x p6 p6 groups=3"},
    {FIRST, "2x6x3", "group_norm x p3 p3 groups=3"},
    {FIRST, "2x4x3x3", "instance_norm x p4 p4"},
    {LAST, "2x3x5", "rms_norm x p5 | tanh x | rms_norm x"},
    {LAST, "2x3x5", "lp_norm x | mul x y | lp_norm x axis=1 p=1"},
    {FIRST, "2x4x3x2", "lp_norm x axis=1 | mul x y"},
    // Attention.
    {LAST, "2x2x3x4", "rotary x base=50.0 | mul x y"},
    {LAST, "2x3x3", "masked_softmax x mask=causal | mul x y"},
    {LAST, "4x2x4x4",
     "window_bias p9x2 window=2,2 | add x y | masked_softmax x mask=windows grid=4,4 window=2,2 "
     "shift=1,1"},
    {LAST, "2x3x4", "roll x shifts=0,1,-1 | mul x y"},
    {LAST, "3x6", "time_embedding f3 dim=6 | mul x y"},
    // Functions of one operand.
    {LAST, "3x7", "relu x | relu x max_value=1.0 | add x y"},
    {LAST, "3x7", "relu x max_value=0.9 threshold=0.2 negative_slope=0.3"},
    {LAST, "3x7", "leaky_relu x alpha=0.2 | mul x y"},
    {LAST, "3x7", "elu x | selu x | celu x alpha=0.7"},
    {LAST, "3x7", "sigmoid x | tanh x | softplus x | softsign x"},
    {LAST, "3x7", "hard_sigmoid x | hard_swish x | mish x"},
    {LAST, "3x7", "gelu x | swish x | gelu x approximate=tanh"},
    {LAST, "3x7", "softmax x | mul x y"},
    {FIRST, "2x3x4", "log_softmax x axis=1"},
    {FIRST, "2x3x2x2", "prelu x p3 | prelu x p1x2x2"},
    {LAST, "3x7", "clip x min=-0.7 max=0.6"},
    {LAST, "3x7", "thresholded_relu x alpha=0.1"},
    {LAST, "3x7", "softplus x | sqrt x | log x | exp x | reciprocal x"},
    {LAST, "3x7", "erf x | sin x | cos x | tan x | atan x | abs x | neg x"},
    {LAST, "4x50", "dropout x rate=0.4 | tanh x"},
    // Arithmetic.
    {LAST, "2x3x4", "add x p4 p3x1 | sub x p2x1x4 | mul x p3x1 | sub p3x4 x"},
    {LAST, "2x3x4", "softplus x | div x y | div p4 x | softplus x | pow x p4"},
    {LAST, "2x3x4", "maximum x p4 p3x1 | minimum x f2x3x4"},
    {LAST, "2x3x4", "greater f2x3x1 f4 | where x p4 p2x3x1"},
    {LAST, "2x3x4", "sum x p4 p3x1 | mean x y p4"},
    // More operands than a kernel takes.
    {LAST, "2x4", "sum x p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p2x1 y"},
    {LAST, "2x4", "mean x p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p2x1 y | mul x y"},
    {LAST, "2x4", "add x p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 p4 | mul x y"},
    {LAST, "2x4", "maximum x y y y y y y y y y y y y y y y y p4 p2x1"},
    {LAST, "2x4", "minimum x y y y y y y y y y y y y y y y y p4 p2x1"},
    // Pooling and resampling.
    {LAST, "2x6x6x2", "max_pool x kernel=2,2 strides=2,2"},
    {FIRST, "2x2x6x5", "max_pool x kernel=3,3 strides=2,2 padding=1,1,1,1 | average_pool x kernel=2,2"},
    {LAST, "2x6x5x2", "average_pool x kernel=3,3 strides=2,2 padding=same"},
    {FIRST, "2x2x6x5", "average_pool x kernel=3,2 padding=1,1,1,0 count_include_pad=1 ceil_mode=1 strides=2,2"},
    {LAST, "2x6x5x2", "lp_pool x kernel=3,2 strides=2,2 padding=same p=3 | tanh x"},
    {FIRST, "2x2x6x5", "lp_pool x kernel=2,2 padding=1,0,0,1 ceil_mode=1 strides=2,2 | lp_pool x kernel=2,1 p=1"},
    {LAST, "2x4x5x3", "global_average_pool x"},
    {FIRST, "2x3x4x5", "global_max_pool x keepdims=1"},
    {LAST, "2x3x4x2", "zero_padding x pads=1,0,2,1 | tanh x | cropping x pads=1,1,1,0"},
    {LAST, "2x3x4x2", "up_sampling x size=2,3 mode=nearest | tanh x | interp x size=5,7"},
    {FIRST, "2x2x3x4", "resize x size=2,2,5,6 mode=linear"},
    {FIRST, "2x2x5x4", "resize x size=2,2,3,7 mode=nearest | tanh x | resize x size=2,2,6,6 mode=cubic"},
    // Movement.
    {LAST, "2x3x4", "concat x p2x3x2 y | tanh x | concat x p2x1x10 axis=1"},
    {LAST, "2x6x4", "slice x starts=0,1,3 steps=1,2,-1 sizes=2,2,3 | tanh x"},
    {LAST, "2x6x4", "slice x starts=0,1,1 steps=1,1,1 sizes=2,3,2"},
    {LAST, "2x6x4", "split x axis=1 sizes=2,3,1 | tanh x"},
    {LAST, "2x3x4", "transpose x perm=1,2,0 | tanh x | reshape x shape=3,-1 | identity x | flatten x"},
    {LAST, "2x1x4", "expand x shape=2,3,4 | tanh x | tile x repeats=1,2,2"},
    {LAST, "2x5x4", "pad x pads=0,1,2,0,1,-1 mode=constant | tanh x | pad x pads=0,1,1,0,2,1 mode=reflect"},
    {LAST, "2x3", "gather p7x4 i2x3 | tanh x"},
    {FIRST, "2x8x2x3", "depth_to_space x block=2 | tanh x"},
    {FIRST, "2x2x4x6", "space_to_depth x block=2 | tanh x"},
    {LAST, "2x4x4", "triangle x upper=0 | cumulative_sum x axis=1"},
    {LAST, "2x6", "top_k x k=3 | tanh x"},
    // Reductions.
    {LAST, "2x3x4", "reduce_mean x axes=1,2 keepdims=0"},
    {LAST, "2x3x4", "reduce_sum x axes=1 keepdims=1 | mul x y"},
    {LAST, "2x3x4", "reduce_max x axes=2 keepdims=0 | reduce_min x axes=-1"},
    {LAST, "2x3x4", "reduce_l2 x axes=1 | mul x y | reduce_l1 x axes=2"},
    {LAST, "2x3x4", "reduce_sum_square x axes=1 | reduce_log_sum x axes=2"},
    {LAST, "2x3x4", "reduce_log_sum_exp x axes=1 keepdims=0 | reduce_prod x axes=1"},
};

// ---- running it

typedef struct running {
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_schedule *schedule;
    ckm_plan *plan;
    ckm_session *session;
} running;

static void begin(const ckm_graph *g, running *r, const char *what)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options program = CKM_PROGRAM_OPTIONS_INIT;
    ckm_session_options session = CKM_SESSION_OPTIONS_INIT;
    ckm_cost_model costs = CKM_COST_MODEL_INIT;
    ckm_plan_options plan = CKM_PLAN_OPTIONS_INIT;
    *r = (running){0};
    options.loss = CKM_LOSS_MSE;
    program.backend = "reference";
    if (ckm_autodiff_op_graph(g, &options, &r->training, &err) != CKM_OK ||
        ckm_program_create(r->training, &program, &r->program, &err) != CKM_OK ||
        ckm_cost_apply(r->training, &costs, &r->df, &err) != CKM_OK ||
        ckm_schedule_baseline(r->df, &r->schedule, &err) != CKM_OK ||
        ckm_plan_create(r->df, r->schedule, &plan, &r->plan, &err) != CKM_OK ||
        ckm_session_create(r->program, r->df, r->schedule, r->plan, &session, &r->session, &err) != CKM_OK) {
        fail_msg("%s: %s", what, err.message);
    }
}

static void end(running *r)
{
    ckm_session_free(r->session);
    ckm_plan_free(r->plan);
    ckm_schedule_free(r->schedule);
    ckm_dataflow_free(r->df);
    ckm_program_free(r->program);
    ckm_training_free(r->training);
}

static double loss_of(running *r, const char *what)
{
    ckm_step_result result;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_session_step(r->session, 0, 0.0, &result, &err) != CKM_OK) {
        fail_msg("%s: %s", what, err.message);
    }
    return result.loss;
}

static int32_t tensor_called(const running *r, const char *name)
{
    int32_t at = ckm_session_find_tensor(r->session, name);
    if (at < 0) {
        fail_msg("the session has no tensor %s", name);
    }
    return at;
}

static int64_t elements(const ckm_session_tensor *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->shape.rank; i++) {
        n *= t->shape.dims[i];
    }
    return n;
}

// On the heap.
static float *values_of(const running *r, int32_t tensor)
{
    ckm_session_tensor t = ckm_session_get_tensor(r->session, tensor);
    float *values = malloc((size_t)t.bytes);
    assert_non_null(values);
    assert_int_equal(ckm_session_read(r->session, tensor, 0, t.bytes, values, NULL), CKM_OK);
    return values;
}

static void set_values(running *r, int32_t tensor, const float *values)
{
    ckm_session_tensor t = ckm_session_get_tensor(r->session, tensor);
    assert_int_equal(ckm_session_write(r->session, tensor, 0, t.bytes, values, NULL), CKM_OK);
}

static float uniform(ckm_i_rng *rng)
{
    return (float)(2.0 * ckm_i_rng_unit(rng) - 1.0);
}

// The slope of the loss along a random direction of one parameter, by its gradient and by differences.
static void check_parameter(running *r, const char *what, int32_t parameter, const float *gradient, ckm_i_rng *rng)
{
    const double step = 4e-3;
    ckm_session_tensor p = ckm_session_get_tensor(r->session, parameter);
    int64_t n = elements(&p);
    float *values = values_of(r, parameter);
    float *kept = values_of(r, parameter);
    float *direction = malloc((size_t)n * sizeof *direction);
    assert_non_null(direction);
    double expected = 0.0;
    double size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        direction[i] = uniform(rng);
        expected += (double)direction[i] * (double)gradient[i];
        size += fabs((double)gradient[i]);
    }
    double side[2];
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n; i++) {
            values[i] = kept[i] + (float)((k == 0 ? step : -step) * (double)direction[i]);
        }
        set_values(r, parameter, values);
        side[k] = loss_of(r, what);
    }
    set_values(r, parameter, kept);
    double found = (side[0] - side[1]) / (2.0 * step);
    double slack = 4e-3 * fabs(expected) + 1e-3 * size + 4e-5 * (1.0 + fabs(side[0]));
    if (!(fabs(found - expected) <= slack)) {
        fail_msg("%s: parameter %s: the gradient says %.6g, differences say %.6g", what, p.name, expected, found);
    }
    free(direction);
    free(kept);
    free(values);
}

static void fill(running *r, ckm_i_rng *rng)
{
    assert_int_equal(ckm_session_fill(r->session, 3, 0, NULL), CKM_OK);
    for (int32_t i = 0; i < ckm_session_tensor_count(r->session); i++) {
        ckm_session_tensor t = ckm_session_get_tensor(r->session, i);
        for (int64_t k = 0; t.role == CKM_ROLE_PARAMETER && k < elements(&t); k++) {
            float value = 0.8F * uniform(rng);
            assert_int_equal(ckm_session_write(r->session, i, k * (int64_t)sizeof value, sizeof value, &value, NULL),
                             CKM_OK);
        }
    }
}

// Results come in the order of the parameters they are gradients of, behind the loss.
static void check_case(const network_case *c)
{
    network_text network;
    running r;
    ckm_i_rng rng = {11};
    network_text_read(&network, c->layout, c->shape, c->text);
    begin(network.g, &r, c->text);
    fill(&r, &rng);
    const ckm_training *t = r.training;
    int32_t next = 1;
    for (int32_t i = 0; i < t->n_values; i++) {
        if (t->step->tensors[i].role != CKM_ROLE_PARAMETER) {
            continue;
        }
        assert_true(next < t->n_results);
        (void)loss_of(&r, c->text);
        int32_t parameter = tensor_called(&r, t->values[i].name);
        int32_t result = tensor_called(&r, t->values[t->results[next++]].name);
        assert_int_equal(ckm_session_get_tensor(r.session, parameter).bytes,
                         ckm_session_get_tensor(r.session, result).bytes);
        float *gradient = values_of(&r, result);
        check_parameter(&r, c->text, parameter, gradient, &rng);
        free(gradient);
    }
    assert_int_equal(next, t->n_results);
    end(&r);
    ckm_graph_free(network.g);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_case(&cases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
