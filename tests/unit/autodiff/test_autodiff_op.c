// SPDX-License-Identifier: Apache-2.0
// The operator-level training graph: operators, dependencies, views, in-place pairs, costs, on networks small enough
// to write down.
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
#include <checkmate/zoo.h>

#include "graph/training.h"

// ---- reading a training graph

static int32_t find(const ckm_training *t, const char *name)
{
    for (int32_t v = 0; v < t->n_ops; v++) {
        if (strcmp(t->ops[v].name, name) == 0) {
            return v;
        }
    }
    return -1;
}

static bool reads(const ckm_training *t, int32_t op, int32_t value)
{
    for (int32_t i = 0; i < t->ops[op].n_inputs; i++) {
        if (t->ops[op].inputs[i] == value) {
            return true;
        }
    }
    return false;
}

// Operator `name` of `kind` reads the values called `inputs` (comma-separated, in order) and no others.
static void assert_reads(const ckm_training *t, const char *name, const char *kind, const char *inputs)
{
    char text[1000] = "";
    int32_t v = find(t, name);
    if (v < 0) {
        fail_msg("there is no operator %s", name);
    }
    for (int32_t i = 0; i < t->ops[v].n_inputs; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "," : "", t->values[t->ops[v].inputs[i]].name);
    }
    assert_string_equal(text, inputs);
    assert_string_equal(t->step->ops[v].op_class->kind, kind);
}

static bool in_place(const ckm_training *t, const char *name, const char *input)
{
    int32_t v = find(t, name);
    assert_true(v >= 0);
    for (int32_t i = 0; i < t->ops[v].n_inplace; i++) {
        if (strcmp(t->values[t->ops[v].inplace[i][0]].name, input) == 0) {
            return true;
        }
    }
    return false;
}

static ckm_training *derive(const ckm_graph *g, const ckm_autodiff_options *options)
{
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_autodiff_op_graph(g, options, &t, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return t;
}

// ---- making a network

typedef struct sketch {
    ckm_graph *g;
    int32_t n_attrs;
    ckm_i_attr attrs[4];  // of the next operator
} sketch;

static sketch sketch_open(ckm_layout layout)
{
    sketch s = {0};
    assert_int_equal(ckm_i_graph_create("sketch", layout, 2, &s.g, NULL), CKM_OK);
    return s;
}

static int32_t leaf(sketch *s, const char *name, ckm_tensor_role role, ckm_dtype dtype, int32_t rank, int64_t a,
                    int64_t b, int64_t c, int64_t d)
{
    ckm_shape shape = {rank, {a, b, c, d}};
    int32_t tensor = -1;
    assert_int_equal(ckm_i_graph_add_tensor(s->g, name, role, dtype, &shape, &tensor, NULL), CKM_OK);
    return tensor;
}

static void attr_int(sketch *s, const char *key, int64_t value)
{
    s->attrs[s->n_attrs++] = ckm_i_attr_ints(key, &value, 1);
}

// An operator on up to three inputs, -2 where there is none; its first output.
static int32_t op(sketch *s, const char *kind, const char *name, int32_t a, int32_t b, int32_t c)
{
    int32_t inputs[3] = {a, b, c};
    int32_t n = c > -2 ? 3 : b > -2 ? 2 : 1;
    int32_t out = -1;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_i_graph_add_op(
            s->g,
            &(ckm_i_new_op){
                .kind = kind, .name = name, .inputs = {inputs, n}, .attrs = {s->attrs, s->n_attrs}, .n_outputs = 1},
            &out, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    s->n_attrs = 0;
    return out;
}

#define NONE (-2)

// ---- tests

// in_conv, two convolutions on it, their sum, pooled, classified.
static void a_network_with_a_branch(void **state)
{
    (void)state;
    static const char *const names[] = {
        "in_conv",
        "in_conv:relu",
        "conv1",
        "conv1:relu",
        "conv2",
        "conv2:relu",
        "addc1c2",
        "flatten",
        "predictions",
        "loss",
        "loss:grad_logits",
        "predictions:grad_bias",
        "predictions:grad_weight",
        "predictions:grad_x",
        "flatten:grad_mean",
        "flatten:grad_view",
        "flatten:grad_x",
        "conv2:relu:grad_x",
        "conv2:grad_bias",
        "conv2:grad_weight",
        "conv2:grad_x",
        "conv1:relu:grad_x",
        "conv1:grad_bias",
        "conv1:grad_weight",
        "conv1:grad_x",
        "in_conv:relu:grad_sum",
        "in_conv:relu:grad_x",
        "in_conv:grad_bias",
        "in_conv:grad_weight",
    };
    ckm_graph *g = NULL;
    assert_int_equal(ckm_zoo_build("test", 3, NULL, &g, NULL), CKM_OK);
    ckm_training *t = derive(g, NULL);
    // The data's gradient is not among them, nor a softmax: it is part of the loss.
    assert_int_equal(t->n_ops, sizeof names / sizeof names[0]);
    for (int32_t v = 0; v < t->n_ops; v++) {
        assert_string_equal(t->ops[v].name, names[v]);
        assert_string_equal(t->step->ops[v].name, names[v]);
        assert_int_equal(t->ops[v].phase, v < 9 ? CKM_I_FORWARD : v == 9 ? CKM_I_LOSS : CKM_I_BACKWARD);
        assert_false(t->ops[v].once);
    }
    assert_reads(t, "conv1:grad_x", "conv_backward_data", "conv1:relu:grad_x,conv1/kernel");
    assert_reads(t, "conv1:grad_weight", "conv_backward_weights", "conv1:relu:grad_x,in_conv:relu");
    assert_reads(t, "conv1:grad_bias", "bias_grad", "conv1:relu:grad_x");
    assert_reads(t, "conv1:relu:grad_x", "relu_backward", "flatten:grad_x,conv1:relu");
    assert_reads(t, "predictions:grad_x", "dense", "loss:grad_logits,predictions/kernel");
    assert_reads(t, "loss:grad_logits", "softmax_cross_entropy_backward", "predictions,labels");
    // Two convolutions read in_conv:relu: their gradients are added up.
    assert_reads(t, "in_conv:relu:grad_sum", "add", "conv2:grad_x,conv1:grad_x");
    assert_true(in_place(t, "in_conv:relu:grad_sum", "conv2:grad_x"));
    assert_true(in_place(t, "conv1:relu:grad_x", "flatten:grad_x"));
    assert_true(in_place(t, "conv1:relu", "conv1"));
    assert_false(in_place(t, "conv1", "in_conv:relu"));
    // The mean's gradient is a view before it is repeated.
    int32_t view = t->ops[find(t, "flatten:grad_view")].outputs[0];
    assert_string_equal(t->values[t->values[view].alias_of].name, "flatten:grad_mean");
    // Results: loss, samples predicted right, four weights and four biases.
    assert_int_equal(t->n_results, 10);
    assert_string_equal(t->values[t->loss].name, "loss");
    assert_int_equal(t->results[0], t->loss);
    assert_int_equal(t->results[1], t->correct);
    assert_int_equal(t->step->tensors[t->labels].role, CKM_ROLE_INPUT);
    assert_int_equal(t->step->tensors[t->labels].dtype, CKM_I32);
    assert_int_equal(t->fixed_bytes, 0);
    ckm_training_free(t);
    ckm_graph_free(g);
}

// A backward pass does what its operators' classes say: each gradient of a convolution costs what it does.
static void costs_and_bytes(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_dataflow *df = NULL;
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    assert_int_equal(ckm_zoo_build("test", 3, NULL, &g, NULL), CKM_OK);
    ckm_training *t = derive(g, NULL);
    assert_int_equal(ckm_i_training_set_workspace(t, find(t, "conv1"), 1000, NULL), CKM_OK);
    assert_int_equal(ckm_cost_apply(t, &model, &df, NULL), CKM_OK);
    int64_t conv1 = INT64_C(3) * 222 * 222 * 128 * 64;
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "conv1")).cost, conv1);
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "conv1:grad_x")).cost, conv1);
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "conv1:grad_weight")).cost, conv1);
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "conv1:relu:grad_x")).cost, 3 * 222 * 222 * 128);
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "predictions:grad_x")).cost, 3 * 128 * 1000);
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "predictions:grad_weight")).cost, 3 * 128 * 1000);
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "flatten:grad_x")).cost, 0);
    // Buffers are multiples of 64: 128 samples' means of 3 fit, a scalar does not, labels of 3 neither.
    assert_int_equal(ckm_dataflow_get_op(df, find(t, "conv1")).workspace_bytes, 1024);
    assert_int_equal(ckm_dataflow_get_tensor(df, t->loss).bytes, 64);
    assert_int_equal(ckm_dataflow_get_tensor(df, t->labels).bytes, 64);
    assert_int_equal(t->values[t->labels].bytes, 12);
    assert_int_equal(ckm_dataflow_result_count(df), 10);
    assert_int_equal(ckm_dataflow_producer(df, t->labels), -1);
    ckm_dataflow_free(df);
    ckm_training_free(t);
    ckm_graph_free(g);
}

// Normalization and pooling keep what they need and no more.
static void what_the_backward_pass_reads(void **state)
{
    (void)state;
    sketch s = sketch_open(CKM_CHANNELS_LAST);
    int64_t two[2] = {2, 2};
    int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 4, 2, 8, 8, 3);
    int32_t w = leaf(&s, "w", CKM_ROLE_PARAMETER, CKM_F32, 4, 3, 3, 3, 4);
    int32_t beta = leaf(&s, "beta", CKM_ROLE_PARAMETER, CKM_F32, 1, 4, 0, 0, 0);
    s.attrs[s.n_attrs++] = ckm_i_attr_word("padding", "same");
    x = op(&s, "conv", "conv", x, w, NONE);
    x = op(&s, "batch_norm", "norm", x, -1, beta);
    x = op(&s, "gelu", "gelu", x, NONE, NONE);
    s.attrs[s.n_attrs++] = ckm_i_attr_ints("kernel", two, 2);
    s.attrs[s.n_attrs++] = ckm_i_attr_ints("strides", two, 2);
    x = op(&s, "max_pool", "pool", x, NONE, NONE);
    s.attrs[s.n_attrs++] = ckm_i_attr_real("rate", 0.25);
    x = op(&s, "dropout", "drop", x, NONE, NONE);
    x = op(&s, "flatten", "flat", x, NONE, NONE);
    ckm_training *t = derive(s.g, NULL);
    assert_reads(t, "pool:grad_x", "max_pool_backward", "drop:grad_x,pool:1");
    assert_reads(t, "gelu:grad_x", "gelu_backward", "pool:grad_x,norm");
    assert_reads(t, "norm:grad_x", "batch_norm_backward", "gelu:grad_x,conv,norm:1,norm:2");
    assert_reads(t, "drop:grad_x", "dropout", "flat:grad_x");
    // A window of four: one byte each.
    const ckm_i_graph_tensor *offsets = &t->step->tensors[t->step->ops[find(t, "pool")].outputs[1]];
    assert_int_equal(offsets->dtype, CKM_U8);
    assert_int_equal(t->values[t->step->ops[find(t, "pool")].outputs[1]].bytes, 2 * 4 * 4 * 4);
    // Both dropouts draw the mask of the forward one.
    int32_t forward = find(t, "drop");
    int32_t backward = find(t, "drop:grad_x");
    assert_int_equal(ckm_i_op_attr_int(&t->step->ops[forward], "key", 0, -1), forward);
    assert_int_equal(ckm_i_op_attr_int(&t->step->ops[backward], "key", 0, -1), forward);
    // "same" is written out.
    const ckm_i_attr *pads = ckm_i_op_attr(&t->step->ops[find(t, "conv:grad_weight")], "padding");
    assert_int_equal(pads->n, 4);
    assert_int_equal(pads->ints[0], 1);
    assert_int_equal(pads->ints[3], 1);
    int32_t flat = t->ops[find(t, "flat")].outputs[0];
    assert_string_equal(t->values[t->values[flat].alias_of].name, "drop");
    ckm_training_free(t);
    ckm_graph_free(s.g);
}

// Broadcasting is summed back; what does not learn has no gradient; what the loss does not need is left out.
static void arithmetic(void **state)
{
    (void)state;
    sketch s = sketch_open(CKM_CHANNELS_LAST);
    int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 2, 2, 6, 0, 0);
    int32_t w = leaf(&s, "w", CKM_ROLE_PARAMETER, CKM_F32, 2, 6, 5, 0, 0);
    int32_t gain = leaf(&s, "gain", CKM_ROLE_PARAMETER, CKM_F32, 1, 5, 0, 0, 0);
    int32_t scale = leaf(&s, "scale", CKM_ROLE_CONSTANT, CKM_F32, 0, 0, 0, 0, 0);
    int32_t h = op(&s, "dense", "h", x, w, NONE);
    int32_t doubled = op(&s, "add", "doubled", h, h, NONE);
    int32_t dead = op(&s, "tanh", "dead", h, NONE, NONE);
    (void)op(&s, "sigmoid", "dead_too", dead, NONE, NONE);
    int32_t gained = op(&s, "mul", "gained", doubled, gain, NONE);
    int32_t scaled = op(&s, "div", "scaled", gained, scale, NONE);
    int32_t zero = op(&s, "floor", "rounded", scaled, NONE, NONE);
    int32_t y = op(&s, "sub", "y", scaled, zero, NONE);
    (void)y;
    ckm_training *t = derive(s.g, NULL);
    assert_int_equal(find(t, "dead"), -1);
    assert_int_equal(find(t, "dead_too"), -1);
    assert_reads(t, "scaled:grad_a", "div", "loss:grad_logits,scale");
    assert_reads(t, "gained:grad_b", "mul", "scaled:grad_a,doubled");
    assert_reads(t, "gained:grad_b#2", "sum_to", "gained:grad_b");
    assert_reads(t, "gained:grad_a", "mul", "scaled:grad_a,gain");
    assert_reads(t, "h:grad_sum", "add", "gained:grad_a");
    assert_reads(t, "h:grad_weight", "dense_backward_weights", "h:grad_sum,x");
    assert_int_equal(find(t, "rounded:grad_x"), -1);
    assert_int_equal(find(t, "y:grad_b"), -1);
    assert_int_equal(find(t, "h:grad_x"), -1);
    ckm_training_free(t);
    ckm_graph_free(s.g);
}

static void missing_rules_are_all_named(void **state)
{
    (void)state;
    sketch s = sketch_open(CKM_CHANNELS_FIRST);
    int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 4, 2, 3, 8, 8);
    int32_t w = leaf(&s, "w", CKM_ROLE_PARAMETER, CKM_F32, 4, 4, 3, 3, 3);
    // Operators of the backward pass have no gradient themselves.
    x = op(&s, "tanh_backward", "before", x, x, NONE);  // no weights before it: no gradient needed
    x = op(&s, "conv", "conv", x, w, NONE);
    x = op(&s, "erf_backward", "slope", x, x, NONE);
    x = op(&s, "local_response_norm_backward", "norm", x, x, NONE);
    (void)op(&s, "flatten", "flat", x, NONE, NONE);
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_autodiff_op_graph(s.g, NULL, &t, &err), CKM_ERR_UNSUPPORTED);
    assert_null(t);
    assert_non_null(strstr(err.message, "2 operators have no gradient"));
    assert_non_null(strstr(err.message, "\"slope\" (erf_backward)"));
    assert_non_null(strstr(err.message, "\"norm\" (local_response_norm_backward)"));
    assert_null(strstr(err.message, "\"before\""));
    ckm_graph_free(s.g);
}

static void nothing_to_learn(void **state)
{
    (void)state;
    sketch s = sketch_open(CKM_CHANNELS_LAST);
    int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 2, 2, 6, 0, 0);
    (void)op(&s, "tanh", "y", x, NONE, NONE);
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_autodiff_op_graph(s.g, NULL, &t, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "does not depend on any parameter"));
    ckm_graph_free(s.g);
}

// A shared weight; updates with momentum.
static void updates(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        sketch s = sketch_open(CKM_CHANNELS_LAST);
        int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 2, 2, 6, 0, 0);
        int32_t w = leaf(&s, "w", CKM_ROLE_PARAMETER, CKM_F32, 2, 6, 6, 0, 0);
        int32_t last = leaf(&s, "last", CKM_ROLE_PARAMETER, CKM_F32, 2, 6, 5, 0, 0);
        x = op(&s, "dense", "first", x, w, NONE);
        x = op(&s, "tanh", "act", x, NONE, NONE);
        x = op(&s, "dense", "second", x, w, NONE);
        (void)op(&s, "dense", "third", x, last, NONE);
        ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
        options.optimizer.kind = CKM_OPTIMIZER_SGD;
        options.optimizer.momentum = 0.9;
        options.late_updates = fused == 0;
        ckm_training *t = derive(s.g, &options);
        assert_reads(t, "w:update", "update_sgd", "w,w:grad_sum,w:momentum");
        assert_reads(t, "last:update", "update_sgd", "last,third:grad_weight,last:momentum");
        assert_int_equal(t->n_results, 2);
        int32_t update = find(t, "last:update");
        assert_int_equal(t->ops[update].phase, CKM_I_UPDATE);
        assert_int_equal(t->ops[update].n_outputs, 0);
        assert_true(t->ops[update].once);
        // Fused: before the second layer's gradients. Else behind everything.
        assert_int_equal(update < find(t, "second:grad_weight"), fused);
        assert_true(update > find(t, "third:grad_x"));
        assert_int_equal(find(t, "w:update"), fused ? t->n_ops - 1 : find(t, "w:update"));
        assert_true(find(t, "w:update") > find(t, "first:grad_weight"));
        // What reads weights or activations must not run again once weights have moved.
        assert_true(t->ops[find(t, "third:grad_x")].once);
        assert_true(t->ops[find(t, "act:grad_x")].once);
        // The first layer's weight gradient reads the data and a gradient: nothing that an update changes.
        assert_false(t->ops[find(t, "first:grad_weight")].once);
        assert_false(t->ops[find(t, "w:grad_sum")].once);
        assert_false(t->ops[find(t, "act")].once);
        ckm_training_free(t);
        ckm_graph_free(s.g);
    }
}

static void mean_squared_error(void **state)
{
    (void)state;
    sketch s = sketch_open(CKM_CHANNELS_LAST);
    int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 2, 2, 6, 0, 0);
    int32_t w = leaf(&s, "w", CKM_ROLE_PARAMETER, CKM_F32, 2, 6, 5, 0, 0);
    x = op(&s, "dense", "h", x, w, NONE);
    (void)op(&s, "softmax", "y", x, NONE, NONE);
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    options.loss = CKM_LOSS_MSE;
    ckm_training *t = derive(s.g, &options);
    assert_reads(t, "loss", "mse", "y,target");
    assert_reads(t, "y:grad_x", "softmax_backward", "loss:grad_prediction,y");
    assert_int_equal(t->correct, -1);
    assert_int_equal(t->step->tensors[t->labels].dtype, CKM_F32);
    ckm_training_free(t);
    options.optimizer.momentum = 1.5;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_autodiff_op_graph(s.g, &options, &t, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "momentum is 1.5"));
    ckm_graph_free(s.g);
}

// Channels first, classes on axis 1; a softmax in the middle of the network stays.
static void where_classes_stand(void **state)
{
    (void)state;
    sketch s = sketch_open(CKM_CHANNELS_FIRST);
    int32_t x = leaf(&s, "x", CKM_ROLE_INPUT, CKM_F32, 4, 2, 3, 4, 4);
    int32_t w = leaf(&s, "w", CKM_ROLE_PARAMETER, CKM_F32, 4, 5, 3, 1, 1);
    int32_t v = leaf(&s, "v", CKM_ROLE_PARAMETER, CKM_F32, 4, 7, 5, 1, 1);
    x = op(&s, "conv", "conv", x, w, NONE);
    attr_int(&s, "axis", 1);
    x = op(&s, "softmax", "soft", x, NONE, NONE);
    (void)op(&s, "conv", "out", x, v, NONE);
    ckm_training *t = derive(s.g, NULL);
    assert_true(find(t, "soft") >= 0);
    const ckm_shape *labels = &t->step->tensors[t->labels].shape;
    assert_int_equal(labels->rank, 3);
    assert_int_equal(labels->dims[0], 2);
    assert_int_equal(labels->dims[1], 4);
    assert_int_equal(ckm_i_op_attr_int(&t->step->ops[find(t, "loss")], "axis", 0, -1), 1);
    assert_true(reads(t, find(t, "soft:grad_x"), t->ops[find(t, "soft")].outputs[0]));
    ckm_training_free(t);
    ckm_graph_free(s.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_with_a_branch),
        cmocka_unit_test(costs_and_bytes),
        cmocka_unit_test(what_the_backward_pass_reads),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(missing_rules_are_all_named),
        cmocka_unit_test(nothing_to_learn),
        cmocka_unit_test(updates),
        cmocka_unit_test(mean_squared_error),
        cmocka_unit_test(where_classes_stand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
