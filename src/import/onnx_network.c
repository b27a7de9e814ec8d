// SPDX-License-Identifier: Apache-2.0
#include "import/onnx_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/import.h"

static const struct {
    ckm_i_op_kind kind;
    ckm_i_onnx_rule *rule;
} rules[] = {
    {CKM_I_OP_conv, ckm_i_onnx_put_conv},
    {CKM_I_OP_conv_transpose, ckm_i_onnx_put_conv_transpose},
    {CKM_I_OP_separable_conv, ckm_i_onnx_put_separable_conv},
    {CKM_I_OP_dense, ckm_i_onnx_put_dense},
    {CKM_I_OP_batch_norm, ckm_i_onnx_put_batch_norm},
    {CKM_I_OP_layer_norm, ckm_i_onnx_put_layer_norm},
    {CKM_I_OP_rms_norm, ckm_i_onnx_put_rms_norm},
    {CKM_I_OP_group_norm, ckm_i_onnx_put_group_norm},
    {CKM_I_OP_max_pool, ckm_i_onnx_put_max_pool},
    {CKM_I_OP_average_pool, ckm_i_onnx_put_average_pool},
    {CKM_I_OP_global_average_pool, ckm_i_onnx_put_global_average_pool},
    {CKM_I_OP_relu, ckm_i_onnx_put_relu},
    {CKM_I_OP_leaky_relu, ckm_i_onnx_put_unary},
    {CKM_I_OP_elu, ckm_i_onnx_put_unary},
    {CKM_I_OP_selu, ckm_i_onnx_put_unary},
    {CKM_I_OP_celu, ckm_i_onnx_put_unary},
    {CKM_I_OP_sigmoid, ckm_i_onnx_put_unary},
    {CKM_I_OP_hard_sigmoid, ckm_i_onnx_put_unary},
    {CKM_I_OP_tanh, ckm_i_onnx_put_unary},
    {CKM_I_OP_softplus, ckm_i_onnx_put_unary},
    {CKM_I_OP_softsign, ckm_i_onnx_put_unary},
    {CKM_I_OP_hard_swish, ckm_i_onnx_put_unary},
    {CKM_I_OP_mish, ckm_i_onnx_put_unary},
    {CKM_I_OP_softmax, ckm_i_onnx_put_softmax},
    {CKM_I_OP_gelu, ckm_i_onnx_put_gelu},
    {CKM_I_OP_swish, ckm_i_onnx_put_swish},
    {CKM_I_OP_scale, ckm_i_onnx_put_scale},
    {CKM_I_OP_matmul, ckm_i_onnx_put_matmul},
    {CKM_I_OP_masked_softmax, ckm_i_onnx_put_masked_softmax},
    {CKM_I_OP_rotary, ckm_i_onnx_put_rotary},
    {CKM_I_OP_window_bias, ckm_i_onnx_put_window_bias},
    {CKM_I_OP_time_embedding, ckm_i_onnx_put_time_embedding},
    {CKM_I_OP_add, ckm_i_onnx_put_elementwise},
    {CKM_I_OP_mul, ckm_i_onnx_put_elementwise},
    {CKM_I_OP_concat, ckm_i_onnx_put_concat},
    {CKM_I_OP_zero_padding, ckm_i_onnx_put_border},
    {CKM_I_OP_cropping, ckm_i_onnx_put_border},
    {CKM_I_OP_up_sampling, ckm_i_onnx_put_up_sampling},
    {CKM_I_OP_interp, ckm_i_onnx_put_interp},
    {CKM_I_OP_lambda, ckm_i_onnx_put_lambda},
    {CKM_I_OP_dropout, ckm_i_onnx_put_dropout},
    {CKM_I_OP_flatten, ckm_i_onnx_put_flatten},
    {CKM_I_OP_reshape, ckm_i_onnx_put_reshape},
    {CKM_I_OP_expand, ckm_i_onnx_put_expand},
    {CKM_I_OP_slice, ckm_i_onnx_put_slice},
    {CKM_I_OP_split, ckm_i_onnx_put_split},
    {CKM_I_OP_gather, ckm_i_onnx_put_gather},
    {CKM_I_OP_transpose, ckm_i_onnx_put_transpose},
    {CKM_I_OP_roll, ckm_i_onnx_put_roll},
};

static ckm_i_onnx_rule *rule_of(const ckm_i_graph_op *op)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].kind == op->op_class->id) {
            return rules[i].rule;
        }
    }
    return NULL;
}

// ---- the walk

// The output is the last tensor of real numbers that no operator reads, as for prediction.
static ckm_status find_output(const ckm_graph *g, int32_t *output, ckm_error *err)
{
    bool *read = ckm_i_calloc((size_t)g->n_tensors + 1, sizeof *read);
    if (read == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        for (int32_t i = 0; i < g->ops[v].n_inputs; i++) {
            if (g->ops[v].inputs[i] >= 0) {
                read[g->ops[v].inputs[i]] = true;
            }
        }
    }
    *output = -1;
    for (int32_t v = g->n_ops - 1; v >= 0 && *output < 0; v--) {
        int32_t tensor = g->ops[v].outputs[0];
        *output = !read[tensor] && g->tensors[tensor].dtype == CKM_F32 ? tensor : -1;
    }
    free(read);
    return *output >= 0 ? CKM_OK
                        : ckm_i_error(err, CKM_ERR_FORMAT, "network \"%.200s\" has no output of real numbers", g->name);
}

// Checks that the network is not imported, and that everything it reads has a value or is an input.
static ckm_status check_network(const ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_graph *g = n->graph;
    if (g->layout != CKM_CHANNELS_LAST || g->n_outputs > 0) {
        return ckm_i_error(
            err, CKM_ERR_UNSUPPORTED,
            "network \"%.200s\" is from a file: a copy of that file with new weights is what can be written", g->name);
    }
    for (int32_t i = 0; i < g->n_tensors; i++) {
        const ckm_i_graph_tensor *t = &g->tensors[i];
        bool input = t->role == CKM_ROLE_INPUT;
        if (t->producer < 0 && !input && !n->dry && ckm_i_onnx_values(n, i) == NULL) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "no values are given for \"%.200s\"", t->name);
        }
        if (input && (t->shape.rank < 1 || t->shape.dims[0] != g->batch ||
                      (t->dtype != CKM_F32 && t->dtype != CKM_I32 && t->dtype != CKM_I64))) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "input \"%.200s\" is of a kind that is not exported", t->name);
        }
    }
    return CKM_OK;
}

static ckm_shape shape_in(const ckm_shape *shape, ckm_i_onnx_form form, int64_t batch)
{
    ckm_shape out = *shape;
    out.dims[0] = out.dims[0] == batch ? -1 : out.dims[0];
    if (form == CKM_I_ONNX_FIRST) {
        out.dims[1] = shape->dims[3];
        out.dims[2] = shape->dims[1];
        out.dims[3] = shape->dims[2];
    }
    return out;
}

static void put_inputs(ckm_i_onnx_network *n)
{
    for (int32_t i = 0; i < n->graph->n_tensors; i++) {
        const ckm_i_graph_tensor *t = &n->graph->tensors[i];
        if (t->role == CKM_ROLE_INPUT) {
            ckm_i_onnx_form form = t->shape.rank == 4 && t->dtype == CKM_F32 ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
            n->places[i].name[form] = t->name;
            ckm_i_onnx_put_value(n->put, true, t->name, t->dtype, shape_in(&t->shape, form, n->graph->batch));
        }
    }
}

// Under the name of the operator, or of the layer before it if it passes its operand on.
static void put_output(ckm_i_onnx_network *n, int32_t output)
{
    const ckm_i_graph_tensor *t = &n->graph->tensors[output];
    ckm_i_onnx_form form = t->shape.rank == 4 ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
    ckm_i_onnx_form other = form == CKM_I_ONNX_FIRST ? CKM_I_ONNX_PLAIN : CKM_I_ONNX_FIRST;
    const char *name = n->places[output].name[form];
    if (name == NULL) {
        name = ckm_i_onnx_transposed(n, n->places[output].name[other], form);
    }
    ckm_i_onnx_put_value(n->put, false, name, CKM_F32, shape_in(&t->shape, form, n->graph->batch));
}

static bool name_is_taken(const ckm_i_onnx_network *n, int32_t before)
{
    const char *name = n->graph->ops[before].name;
    for (int32_t v = 0; v < n->graph->n_tensors; v++) {
        const ckm_i_graph_tensor *t = &n->graph->tensors[v];
        if (t->producer < 0 && strcmp(t->name, name) == 0) {
            return true;
        }
    }
    for (int32_t v = 0; v < before; v++) {
        if (strcmp(n->graph->ops[v].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static ckm_status put_network(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_graph *g = n->graph;
    int32_t output = -1;
    CKM_I_CHECK(check_network(n, err));
    CKM_I_CHECK(find_output(g, &output, err));
    put_inputs(n);
    for (int32_t v = 0; v < g->n_ops; v++) {
        ckm_i_onnx_rule *rule = rule_of(&g->ops[v]);
        n->op = &g->ops[v];
        n->name = name_is_taken(n, v) ? ckm_i_onnx_put_name(n->put, "%s#%d", n->op->name, (int)v) : n->op->name;
        if (rule == NULL) {
            return ckm_i_onnx_refuse(n, "there is no rule for its kind", err);
        }
        CKM_I_CHECK(rule(n, err));
    }
    put_output(n, output);
    return CKM_OK;
}

static ckm_status open_network(ckm_i_onnx_network *n, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_onnx_put_create(&n->put, err));
    n->places = ckm_i_calloc((size_t)n->graph->n_tensors + 1, sizeof *n->places);
    return n->places != NULL ? put_network(n, err) : ckm_i_error_memory(err);
}

static void close_network(ckm_i_onnx_network *n)
{
    free(n->places);
    ckm_i_onnx_put_free(n->put);
}

ckm_status ckm_i_check_network(const ckm_graph *graph, ckm_error *err)
{
    ckm_i_onnx_network net = {.graph = graph, .dry = true};
    ckm_status status = open_network(&net, err);
    close_network(&net);
    return status;
}

ckm_status ckm_i_export_network(const ckm_graph *graph, const char *path, const ckm_export_tensor *tensors, int32_t n,
                                const ckm_i_export_note *notes, int32_t n_notes, ckm_error *err)
{
    ckm_i_onnx_network net = {.graph = graph, .tensors = tensors, .n_tensors = n};
    ckm_status status = CKM_OK;
    CKM_I_TRY(open_network(&net, err));
    for (int32_t i = 0; i < n_notes; i++) {
        ckm_i_onnx_put_note(net.put, notes[i].key, notes[i].value);
    }
    CKM_I_TRY(ckm_i_onnx_put_write(net.put, graph->name, path, err));
cleanup:
    close_network(&net);
    return status;
}
