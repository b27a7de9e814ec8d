// SPDX-License-Identifier: Apache-2.0
// Normal form: which operators lowering makes of a network's, with every attribute written out, and where the final
// softmax and the classes are found. Expected values follow from the definitions of the operators, by hand.
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/step.h"
#include "network_text.h"

// The forward operators of the step, one after the other: kind, attributes in their order, shape of the first output.
static void describe(const ckm_graph *g, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int32_t v = 0; v < g->n_ops; v++) {
        const ckm_i_graph_op *op = &g->ops[v];
        if (strcmp(op->name, "start") == 0) {  // adds up the data
            continue;
        }
        used += (size_t)snprintf(text + used, room - used, "%s%s", used > 0 ? " | " : "", op->op_class->kind);
        for (int32_t i = 0; i < op->n_attrs; i++) {
            const ckm_i_attr *a = &op->attrs[i];
            used += (size_t)snprintf(text + used, room - used, " %s=", a->key);
            for (int32_t k = 0; a->type == CKM_I_ATTR_INTS && k < a->n; k++) {
                used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, k > 0 ? "," : "", a->ints[k]);
            }
            if (a->type == CKM_I_ATTR_REAL) {
                used += (size_t)snprintf(text + used, room - used, "%g", a->real);
            } else if (a->type == CKM_I_ATTR_WORD) {
                used += (size_t)snprintf(text + used, room - used, "%s", a->word);
            }
        }
        const ckm_shape *shape = &g->tensors[op->outputs[0]].shape;
        used += (size_t)snprintf(text + used, room - used, " (%d>%d ", (int)op->n_inputs, (int)op->n_outputs);
        for (int32_t k = 0; k < shape->rank; k++) {
            used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, k > 0 ? "x" : "", shape->dims[k]);
        }
        used += (size_t)snprintf(text + used, room - used, ")");
        assert_true(used < room);
    }
}

typedef struct lower_case {
    ckm_layout layout;
    const char *shape, *network, *expected;
} lower_case;

#define LAST CKM_CHANNELS_LAST
#define FIRST CKM_CHANNELS_FIRST

static const lower_case cases[] = {
    // "same" pads half before and half after, the odd one at the end; "same_lower" puts it at the beginning.
    {LAST, "2x5x6x3", "conv x p3x3x3x4 padding=same",
     "conv padding=1,1,1,1 kernel=3,3 strides=1,1 dilation=1,1 groups=1 (2>1 2x5x6x4)"},
    {LAST, "2x5x6x3", "conv x p2x4x3x4 p4 padding=same",
     "conv padding=0,1,1,2 kernel=2,4 strides=1,1 dilation=1,1 groups=1 (3>1 2x5x6x4)"},
    {FIRST, "2x3x5x6", "conv x p4x3x2x4 padding=same_lower",
     "conv padding=1,2,0,1 kernel=2,4 strides=1,1 dilation=1,1 groups=1 (2>1 2x4x5x6)"},
    // 5 by steps of 2 and a window of 3 with holes, 5 wide: 3 steps need 2*2+5 = 9, which is 4 more.
    {LAST, "2x5x5x4", "conv x p3x3x2x4 padding=same strides=2,1 dilation=2,1 groups=2",
     "conv padding=2,1,2,1 strides=2,1 dilation=2,1 groups=2 kernel=3,3 (2>1 2x3x5x4)"},
    // A stride longer than the window needs no padding at all.
    {LAST, "2x6x6x3", "conv x p1x1x3x4 padding=same strides=2,3",
     "conv padding=0,0,0,0 strides=2,3 kernel=1,1 dilation=1,1 groups=1 (2>1 2x3x2x4)"},
    {LAST, "2x6x6x3", "conv x p3x3x3x4",
     "conv kernel=3,3 strides=1,1 dilation=1,1 padding=0,0,0,0 groups=1 (2>1 2x4x4x4)"},
    {FIRST, "2x3x6x5", "conv x p4x3x3x2 padding=1,0,2,1 strides=2,1",
     "conv padding=1,0,2,1 strides=2,1 kernel=3,2 dilation=1,1 groups=1 (2>1 2x4x4x5)"},
    // 3 inputs by steps of 2 and a window of 3: 7 to 6 outputs, one cut off at the end.
    {LAST, "2x3x4x3", "conv_transpose x p3x3x2x3 strides=2,2 padding=same",
     "conv_transpose strides=2,2 padding=0,0,1,1 kernel=3,3 dilation=1,1 groups=1 output_size=6,8 (2>1 2x6x8x2)"},
    {LAST, "2x3x4x3", "conv_transpose x p3x3x2x3 strides=2,2 padding=same output_padding=1,1",
     "conv_transpose strides=2,2 padding=1,1,1,1 kernel=3,3 dilation=1,1 groups=1 output_size=6,8 (2>1 2x6x8x2)"},
    {FIRST, "2x4x3x4", "conv_transpose x p4x3x3x2 groups=2 strides=2,1 padding=1,0,1,1 output_padding=1,0",
     "conv_transpose groups=2 strides=2,1 padding=1,0,1,1 kernel=3,2 dilation=1,1 output_size=6,4 (2>1 2x6x6x4)"},
    {LAST, "2x5x5x3", "separable_conv x p3x3x1x6 p1x1x6x4 p4 padding=same strides=2,2",
     "conv padding=1,1,1,1 strides=2,2 kernel=3,3 dilation=1,1 groups=3 (2>1 2x3x3x6) | "
     "conv padding=0,0,0,0 strides=1,1 kernel=1,1 dilation=1,1 groups=1 (3>1 2x3x3x4)"},
    {LAST, "2x6x6x2", "max_pool x kernel=2,2 strides=2,2 | average_pool x kernel=3,3 padding=same",
     "max_pool_train kernel=2,2 strides=2,2 dilation=1,1 padding=0,0,0,0 ceil_mode=0 (1>2 2x3x3x2) | "
     "average_pool kernel=3,3 padding=1,1,1,1 strides=1,1 dilation=1,1 ceil_mode=0 count_include_pad=0 (1>1 2x3x3x2)"},
    {FIRST, "2x2x6x5", "lp_pool x kernel=2,2 padding=1,0,0,1 ceil_mode=1 count_include_pad=1 strides=2,2 p=3",
     "lp_pool kernel=2,2 padding=1,0,0,1 ceil_mode=1 count_include_pad=1 strides=2,2 p=3 dilation=1,1 (1>1 2x2x4x3)"},
    // Layers with an activation: it stands behind them.
    {LAST, "3x4", "dense x p4x5 p5 activation=relu6 | dense x p2x5 transposed=1 activation=tanh",
     "dense transposed=0 (3>1 3x5) | relu max_value=6 (1>1 3x5) | dense transposed=1 (2>1 3x2) | tanh (1>1 3x2)"},
    {LAST, "2x3x4", "dense x p4x5 activation=softmax | tanh x",
     "dense transposed=0 (2>1 2x3x5) | softmax axis=2 (1>1 2x3x5) | tanh (1>1 2x3x5)"},
    {LAST, "2x3x4", "matmul x p5x4 trans_b=1 | matmul x p2x3x2 trans_a=1",
     "matmul trans_b=1 trans_a=0 (2>1 2x3x5) | matmul trans_a=1 trans_b=0 (2>1 2x5x2)"},
    {LAST, "3x4", "gemm x p5x3 trans_a=1 trans_b=1", "gemm trans_a=1 trans_b=1 (2>1 4x5)"},
    // Normalizations: epsilon, axis and groups have defaults.
    {LAST, "3x4x4x2", "batch_norm x p2 p2 s2 s2", "batch_norm_train axis=3 epsilon=0.001 momentum=0.99 (5>3 3x4x4x2)"},
    {FIRST, "3x2x4x4", "batch_norm x p2 p2 s2 s2 epsilon=0.1 momentum=0.5",
     "batch_norm_train epsilon=0.1 momentum=0.5 axis=1 (5>3 3x2x4x4)"},
    {LAST, "2x3x5", "layer_norm x p5 p5 | layer_norm x p3x5 axis=1 epsilon=0.25",
     "layer_norm axis=2 epsilon=1e-05 (3>3 2x3x5) | layer_norm axis=1 epsilon=0.25 (2>3 2x3x5)"},
    {FIRST, "2x6x3", "group_norm x p6 p6 groups=3 | instance_norm x p6",
     "group_norm groups=3 epsilon=1e-05 (3>3 2x6x3) | group_norm groups=6 epsilon=1e-05 (2>3 2x6x3)"},
    {LAST, "2x3x6", "group_norm x p6 groups=2 epsilon=0.5", "group_norm groups=2 epsilon=0.5 (2>3 2x3x6)"},
    {LAST, "2x3x5", "rms_norm x p5 | rms_norm x epsilon=0.5 | lp_norm x axis=1 p=1 | lp_norm x",
     "rms_norm epsilon=1e-06 (2>2 2x3x5) | rms_norm epsilon=0.5 (1>2 2x3x5) | lp_norm axis=1 p=1 (1>1 2x3x5) | "
     "lp_norm axis=2 (1>1 2x3x5)"},
    {LAST, "2x2x3x4", "rotary x | rotary x base=50.0 inverse=1",
     "rotary base=10000 inverse=0 (1>1 2x2x3x4) | rotary base=50 inverse=1 (1>1 2x2x3x4)"},
    // Borders: top, left, bottom, right of the spatial axes become pads of all axes.
    {LAST, "2x3x4x2", "zero_padding x pads=1,0,2,3 | cropping x pads=1,2,1,0",
     "pad pads=0,1,0,0,0,2,3,0 mode=constant value=0 (1>1 2x6x7x2) | "
     "pad pads=0,-1,-2,0,0,-1,0,0 mode=constant value=0 (1>1 2x4x5x2)"},
    {FIRST, "2x2x3x4", "zero_padding x pads=0,0,0,1 | zero_padding x pads=0,0,0,0 | zero_padding x pads=1,0,0,0",
     "pad pads=0,0,0,0,0,0,0,1 mode=constant value=0 (1>1 2x2x3x5) | identity (1>1 2x2x3x5) | "
     "pad pads=0,0,1,0,0,0,0,0 mode=constant value=0 (1>1 2x2x4x5)"},
    {LAST, "2x5x4", "pad x pads=0,1,2,0,1,-1 | pad x pads=0,1,1,0,2,1 mode=reflect value=2.0",
     "pad pads=0,1,2,0,1,-1 mode=constant value=0 (1>1 2x7x5) | "
     "pad pads=0,1,1,0,2,1 mode=reflect value=2 (1>1 2x10x7)"},
    // Resampling: one kind for all; none where the size stays.
    {LAST, "2x3x4x2",
     "up_sampling x size=2,3 mode=nearest | up_sampling x size=1,1 | up_sampling x size=2,1 mode=bilinear",
     "resize size=2,6,12,2 mode=nearest coordinates=asymmetric rounding=floor cubic_a=-0.75 (1>1 2x6x12x2) | "
     "identity (1>1 2x6x12x2) | "
     "resize size=2,12,12,2 mode=linear coordinates=asymmetric rounding=floor cubic_a=-0.75 (1>1 2x12x12x2)"},
    {LAST, "2x3x4x2", "interp x size=5,7",
     "resize size=2,5,7,2 mode=linear coordinates=align_corners rounding=floor cubic_a=-0.75 (1>1 2x5x7x2)"},
    {FIRST, "2x2x3x4",
     "resize x size=2,2,5,6 | resize x size=2,2,6,6 mode=cubic coordinates=asymmetric rounding=ceil "
     "cubic_a=-0.5",
     "resize size=2,2,5,6 mode=nearest coordinates=half_pixel rounding=round_prefer_floor cubic_a=-0.75 (1>1 2x2x5x6) "
     "| resize size=2,2,6,6 mode=cubic coordinates=asymmetric rounding=ceil cubic_a=-0.5 (1>1 2x2x6x6)"},
    // What does nothing becomes an identity.
    {LAST, "3x7", "dropout x rate=0.25 | dropout x | dropout x rate=0.0",
     "dropout rate=0.25 key=1 (1>1 3x7) | dropout rate=0.5 key=2 (1>1 3x7) | identity (1>1 3x7)"},
    {LAST, "3x7", "clip x | clip x min=-0.5 | clip x max=0.5",
     "identity (1>1 3x7) | clip min=-0.5 (1>1 3x7) | clip max=0.5 (1>1 3x7)"},
    {LAST, "3x7", "cast x dtype=0 | cast x dtype=3 | cast x dtype=3",  // 32 bits stay, 64 are new
     "identity (1>1 3x7) | cast dtype=3 (1>1 3x7) | identity (1>1 3x7)"},
    {LAST, "2x3x4", "sum x | sum x p4 p3x1 | mean x | mean x y p4",
     "identity (1>1 2x3x4) | add (3>1 2x3x4) | identity (1>1 2x3x4) | add (3>1 2x3x4) | "
     "scale alpha=0.333333 (1>1 2x3x4)"},
    // Axes counted from the end, and those that the network leaves out.
    {LAST, "2x3x4", "concat x p2x3x2 | concat x p2x1x6 axis=-2",
     "concat axis=2 (2>1 2x3x6) | concat axis=1 (2>1 2x4x6)"},
    {FIRST, "2x3x4", "concat x p2x5x4", "concat axis=1 (2>1 2x8x4)"},
    {LAST, "7", "concat x p2", "concat axis=0 (2>1 9)"},
    {LAST, "2x3x4", "reduce_mean x", "reduce_mean axes=0,1,2 keepdims=1 (1>1 1x1x1)"},
    {LAST, "2x3x4", "reduce_sum x axes=-1,0 keepdims=0 | reduce_max x axes=0",
     "reduce_sum axes=2,0 keepdims=0 (1>1 3) | reduce_max axes=0 keepdims=1 (1>1 1)"},
    {LAST, "2x6x4", "split x sizes=1,1 | split x axis=-2 sizes=2,3,1",
     "split sizes=1,1 axis=0 (1>2 1x6x4) | split axis=1 sizes=2,3,1 (1>3 1x2x4)"},
    {LAST, "2x6", "top_k x k=3 | top_k x k=2 axis=0", "top_k k=3 axis=1 (1>2 2x3) | top_k k=2 axis=0 (1>2 2x3)"},
    {LAST, "2x3", "gather p7x4 i2x3 | softmax x axis=1 | log_softmax x",
     "gather axis=0 (2>1 2x3x4) | softmax axis=1 (1>1 2x3x4) | log_softmax axis=2 (1>1 2x3x4)"},
    {LAST, "2x3x4", "transpose x | transpose x perm=1,2,0 | reshape x shape=4,-1 | flatten x",
     "transpose perm=2,1,0 (1>1 4x3x2) | transpose perm=1,2,0 (1>1 3x2x4) | reshape shape=4,6 (1>1 4x6) | "
     "reshape shape=4,6 (1>1 4x6)"},
    {FIRST, "2x8x2x3", "depth_to_space x block=2 | space_to_depth x block=2 mode=crd",
     "depth_to_space block=2 mode=dcr (1>1 2x2x4x6) | space_to_depth block=2 mode=crd (1>1 2x8x2x3)"},
    {LAST, "2x4x4", "cumulative_sum x | cumulative_sum x axis=-1 exclusive=1 reverse=1",
     "cumulative_sum axis=0 exclusive=0 reverse=0 (1>1 2x4x4) | "
     "cumulative_sum axis=2 exclusive=1 reverse=1 (1>1 2x4x4)"},
};

static void operators_in_normal_form(void **state)
{
    (void)state;
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        network_text network;
        ckm_i_step step;
        ckm_error err = CKM_ERROR_INIT;
        char text[2000] = "";
        network_text_read(&network, cases[i].layout, cases[i].shape, cases[i].network);
        assert_int_equal(ckm_i_step_init(&step, network.g, &err), CKM_OK);
        if (ckm_i_step_lower(&step, CKM_LOSS_MSE, &err) != CKM_OK) {
            fail_msg("%s: %s", cases[i].network, err.message);
        }
        describe(step.graph, text, sizeof text);
        if (strcmp(text, cases[i].expected) != 0) {
            print_message("%s\n  gives    %s\n  expected %s\n", cases[i].network, text, cases[i].expected);
            failed++;
        }
        ckm_i_step_dispose(&step);
        ckm_graph_free(network.g);
    }
    assert_int_equal(failed, 0);
}

// A softmax at the end is part of the loss, which has to know where its classes went; others stay.
typedef struct softmax_case {
    ckm_layout layout;
    const char *shape, *network, *expected;
    int32_t class_axis;
} softmax_case;

static const softmax_case softmax_cases[] = {
    {LAST, "2x6", "tanh x", "tanh (1>1 2x6)", 1},
    {LAST, "2x4x4x3", "tanh x", "tanh (1>1 2x4x4x3)", 3},
    {FIRST, "2x3x4x4", "tanh x", "tanh (1>1 2x3x4x4)", 1},
    {FIRST, "2x3x4", "tanh x", "tanh (1>1 2x3x4)", 2},
    {LAST, "2x6", "tanh x | softmax x", "tanh (1>1 2x6)", 1},
    {LAST, "2x6", "tanh x | log_softmax x axis=0", "tanh (1>1 2x6)", 0},
    {LAST, "2x5x6", "tanh x | softmax x axis=1", "tanh (1>1 2x5x6)", 1},
    {LAST, "2x5x6", "tanh x | softmax x axis=-2", "tanh (1>1 2x5x6)", 1},
    {LAST, "3x4", "dense x p4x5 activation=softmax", "dense transposed=0 (2>1 3x5)", 1},
    {LAST, "3x4", "dense x p4x5 activation=tanh", "dense transposed=0 (2>1 3x5) | tanh (1>1 3x5)", 1},
    // Reshaped behind the softmax: the axis of as many classes with as much behind it.
    {LAST, "2x3x4x5", "softmax x axis=3 | reshape x shape=2,12,5", "reshape shape=2,12,5 (1>1 2x12x5)", 2},
    {LAST, "2x3x4x5", "softmax x axis=1 | reshape x shape=2,3,20", "reshape shape=2,3,20 (1>1 2x3x20)", 1},
    {LAST, "2x3x4x5", "softmax x axis=1 | reshape x shape=1,2,3,20 | identity x",
     "reshape shape=1,2,3,20 (1>1 1x2x3x20) | identity (1>1 1x2x3x20)", 2},
    {LAST, "2x3x3x1", "softmax x axis=1 | reshape x shape=2,3,3", "reshape shape=2,3,3 (1>1 2x3x3)", 1},
    {LAST, "2x3x3x1", "softmax x axis=2 | reshape x shape=2,3,3", "reshape shape=2,3,3 (1>1 2x3x3)", 2},
    // Nowhere: the classes are split up, so the softmax stays.
    {LAST, "2x3x4", "softmax x axis=2 | reshape x shape=2,3,2,2",
     "softmax axis=2 (1>1 2x3x4) | reshape shape=2,3,2,2 (1>1 2x3x2x2)", 3},
    {LAST, "2x3x4", "softmax x axis=1 | reshape x shape=2,12",
     "softmax axis=1 (1>1 2x3x4) | reshape shape=2,12 (1>1 2x12)", 1},
    // Not at the end.
    {LAST, "2x6", "softmax x | tanh x", "softmax axis=1 (1>1 2x6) | tanh (1>1 2x6)", 1},
    {LAST, "2x6", "reshape x shape=3,4", "reshape shape=3,4 (1>1 3x4)", 1},
};

static void the_last_softmax_is_left_to_the_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof softmax_cases / sizeof softmax_cases[0]; i++) {
        const softmax_case *c = &softmax_cases[i];
        network_text network;
        ckm_i_step step;
        ckm_error err = CKM_ERROR_INIT;
        char text[2000] = "";
        network_text_read(&network, c->layout, c->shape, c->network);
        assert_int_equal(ckm_i_step_init(&step, network.g, &err), CKM_OK);
        assert_int_equal(ckm_i_step_lower(&step, CKM_LOSS_SOFTMAX_CROSS_ENTROPY, &err), CKM_OK);
        describe(step.graph, text, sizeof text);
        if (strcmp(text, c->expected) != 0 || step.class_axis != c->class_axis) {
            fail_msg("%s\n  gives    %s, classes on axis %d\n  expected %s, %d", c->network, text, (int)step.class_axis,
                     c->expected, (int)c->class_axis);
        }
        // The mean squared error wants what the network puts out.
        ckm_i_step_dispose(&step);
        assert_int_equal(ckm_i_step_init(&step, network.g, &err), CKM_OK);
        assert_int_equal(ckm_i_step_lower(&step, CKM_LOSS_MSE, &err), CKM_OK);
        int32_t last = network.g->n_ops - 1;
        const ckm_i_graph_op *end = &step.graph->ops[step.graph->n_ops - 1];
        assert_int_equal(step.output, end->outputs[0]);
        assert_int_equal(step.class_axis, -1);
        assert_true(strcmp(network.g->ops[last].op_class->kind, "softmax") != 0 ||
                    strcmp(end->op_class->kind, "softmax") == 0);
        ckm_i_step_dispose(&step);
        ckm_graph_free(network.g);
    }
}

// The output is the last tensor of real numbers that nothing reads.
static void whole_numbers_are_no_output(void **state)
{
    (void)state;
    network_text network;
    ckm_i_step step;
    ckm_error err = CKM_ERROR_INIT;
    network_text_read(&network, LAST, "2x6", "tanh x | arg_max x axes=1");
    assert_int_equal(ckm_i_step_init(&step, network.g, &err), CKM_OK);
    assert_int_equal(ckm_i_step_lower(&step, CKM_LOSS_MSE, &err), CKM_ERR_FORMAT);
    assert_string_equal(err.message, "network \"case\" has no output of real numbers");
    ckm_i_step_dispose(&step);
    ckm_graph_free(network.g);
    network_text_read(&network, LAST, "2x6", "tanh x | sigmoid y | arg_max x axes=1");
    assert_int_equal(ckm_i_step_init(&step, network.g, &err), CKM_OK);
    assert_int_equal(ckm_i_step_lower(&step, CKM_LOSS_MSE, &err), CKM_OK);
    assert_int_equal(step.graph->n_ops, 2);
    assert_string_equal(step.graph->ops[1].op_class->kind, "tanh");
    assert_int_equal(step.output, step.graph->ops[1].outputs[0]);
    ckm_i_step_dispose(&step);
    ckm_graph_free(network.g);
}

// The positions that a max pooling outputs have another meaning in training: no operator may read them.
static void positions_of_a_pooling_have_no_counterpart(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_i_step step;
    ckm_error err = CKM_ERROR_INIT;
    ckm_shape shape = {4, {2, 4, 4, 3}};
    const int64_t two[2] = {2, 2};
    const int64_t to = CKM_F32;
    const ckm_i_attr kernel = ckm_i_attr_ints("kernel", two, 2);
    const ckm_i_attr dtype = ckm_i_attr_ints("dtype", &to, 1);
    int32_t x = -1;
    int32_t pooled[2];
    int32_t both[2];
    int32_t out = -1;
    assert_int_equal(ckm_i_graph_create("case", LAST, 2, &g, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &shape, &x, &err), CKM_OK);
    if (ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = "max_pool", .name = "pool", .inputs = {&x, 1}, .attrs = {&kernel, 1}, .n_outputs = 2},
            pooled, &err) != CKM_OK ||
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = "cast", .name = "places", .inputs = {&pooled[1], 1}, .attrs = {&dtype, 1}, .n_outputs = 1},
            &both[1], &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    both[0] = pooled[0];
    assert_int_equal(
        ckm_i_graph_add_op(g, &(ckm_i_new_op){.kind = "add", .name = "sum", .inputs = {both, 2}, .n_outputs = 1}, &out,
                           &err),
        CKM_OK);
    assert_int_equal(ckm_i_step_init(&step, g, &err), CKM_OK);
    assert_int_equal(ckm_i_step_lower(&step, CKM_LOSS_MSE, &err), CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "operator \"pool\" (max_pool): an output past the first is read"));
    ckm_i_step_dispose(&step);
    ckm_graph_free(g);
}

// Functions given by name have operators of their own, or none.
static void functions_without_an_operator_are_refused(void **state)
{
    (void)state;
    network_text network;
    ckm_i_step step;
    ckm_error err = CKM_ERROR_INIT;
    network_text_read(&network, LAST, "2x6", "lambda x text=mystery shape=2,6");
    assert_int_equal(ckm_i_step_init(&step, network.g, &err), CKM_OK);
    assert_int_equal(ckm_i_step_lower(&step, CKM_LOSS_MSE, &err), CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "operator \"lambda\" (lambda) does \"mystery\""));
    ckm_i_step_dispose(&step);
    ckm_graph_free(network.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_in_normal_form),
        cmocka_unit_test(the_last_softmax_is_left_to_the_loss),
        cmocka_unit_test(functions_without_an_operator_are_refused),
        cmocka_unit_test(whole_numbers_are_no_output),
        cmocka_unit_test(positions_of_a_pooling_have_no_counterpart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
