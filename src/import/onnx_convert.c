// SPDX-License-Identifier: Apache-2.0
// The walk over the nodes, and what converters share.
#include "import/onnx_convert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// A single number is known to the network, too: some patterns of operators are one operator for certain numbers only.
static void note_value(const ckm_i_onnx_value *value, ckm_i_graph_tensor *tensor)
{
    if (value->role == CKM_ROLE_CONSTANT && value->data != NULL && ckm_i_elements(&value->shape) == 1) {
        tensor->known = true;
        tensor->value = ckm_i_onnx_dtype_is_real(value->dtype) ? value->data[0].r : (double)value->data[0].i;
    }
}

static bool find_row(const ckm_i_onnx_node *node, ckm_i_onnx_row *out);

// A constant that is computed from others and was too large to be held.
static bool is_unknown_constant(const ckm_i_onnx_convert *c, const ckm_i_onnx_value *value)
{
    if (!value->typed || value->role != CKM_ROLE_CONSTANT || value->data != NULL || value->node < 0) {
        return false;
    }
    const char *op_type = c->model->nodes[value->node].op_type;
    return strcmp(op_type, "Constant") != 0 && strcmp(op_type, "ConstantOfShape") != 0;
}

// Its operator becomes one of the network, and so do those before it.
static ckm_status compute_constant(ckm_i_onnx_convert *c, const ckm_i_onnx_value *value, ckm_error *err)
{
    enum { MOST_DEEP = 200 };
    const ckm_i_onnx_node *node = &c->model->nodes[value->node];
    ckm_i_onnx_row row;
    if (!find_row(node, &row) || c->computing == MOST_DEEP) {
        return CKM_OK;  // known by its shape, as a leaf
    }
    c->computing++;
    ckm_status status = row.convert(c, node, &row, err);
    c->computing--;
    return status;
}

// The tensor of a value in the network or the scratch network; leaves are added when first read.
static ckm_status tensor_of(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_graph *graph, int32_t index,
                            int32_t *tensor, ckm_error *err)
{
    ckm_i_onnx_value *value = &c->model->values[index];
    int32_t *slot = graph == c->graph ? &value->tensor : &value->scratch;
    if (*slot < 0 && graph == c->graph && is_unknown_constant(c, value)) {
        CKM_I_CHECK(compute_constant(c, value, err));
    }
    if (*slot < 0) {
        if (!value->typed || value->role == CKM_ROLE_ACTIVATION) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "its input \"%.200s\" is not known",
                                         value->name);
        }
        CKM_I_CHECK(ckm_i_graph_add_tensor(graph, value->name, value->role, value->dtype, &value->shape, slot, err));
        note_value(value, &graph->tensors[*slot]);
    }
    *tensor = *slot;
    return CKM_OK;
}

ckm_status ckm_i_onnx_forward(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err)
{
    ckm_i_onnx_value *in;
    int32_t tensor;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    // A parameter becomes a tensor here, so that both names share it and it counts once.
    if (in->role != CKM_ROLE_CONSTANT || c->computing > 0) {
        CKM_I_CHECK(tensor_of(c, node, c->graph, node->in[0], &tensor, err));
    }
    if (node->n_out > 0 && node->out[0] >= 0) {
        ckm_i_onnx_value *out = &c->model->values[node->out[0]];
        out->typed = true;
        out->dtype = in->dtype;
        out->shape = in->shape;
        out->role = in->role;
        out->tensor = in->tensor;
        out->scratch = in->scratch;
    }
    return CKM_OK;
}

// Outputs to create: up to the last one that something reads.
static int32_t used_outputs(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t max_outputs)
{
    int32_t n = max_outputs < 0 ? -max_outputs : 1;
    for (int32_t k = 0; k < node->n_out && k < max_outputs; k++) {
        if (node->out[k] >= 0 && c->model->values[node->out[k]].needed) {
            n = k + 1;
        }
    }
    return n;
}

ckm_status ckm_i_onnx_emit(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_op *op, ckm_error *err)
{
    const int32_t *inputs = op->inputs.items;
    int32_t n_inputs = op->inputs.n;
    ckm_status status = CKM_OK;
    int32_t n_outputs = used_outputs(c, node, op->max_outputs);
    int32_t *tensors = ckm_i_calloc((size_t)n_inputs + (size_t)n_outputs, sizeof *tensors);
    if (tensors == NULL) {
        return ckm_i_error_memory(err);
    }
    int32_t *results = tensors + n_inputs;
    bool constant = n_inputs > 0;
    for (int32_t i = 0; i < n_inputs; i++) {
        constant = constant && (inputs[i] < 0 || c->model->values[inputs[i]].role == CKM_ROLE_CONSTANT);
    }
    bool apart = constant && c->computing == 0;
    ckm_graph *graph = apart ? c->scratch : c->graph;
    for (int32_t i = 0; i < n_inputs; i++) {
        tensors[i] = -1;
        if (inputs[i] >= 0) {
            CKM_I_TRY(tensor_of(c, node, graph, inputs[i], &tensors[i], err));
        }
    }
    const ckm_i_new_op new_op = {.kind = op->kind,
                                 .name = node->label,
                                 .inputs = {tensors, n_inputs},
                                 .attrs = op->attrs,
                                 .n_outputs = n_outputs};
    CKM_I_TRY(ckm_i_graph_add_op(graph, &new_op, results, err));
    for (int32_t k = 0; k < n_outputs; k++) {
        if (k < node->n_out && node->out[k] >= 0) {
            ckm_i_onnx_value *out = &c->model->values[node->out[k]];
            const ckm_i_graph_tensor *made = &graph->tensors[results[k]];
            out->role = constant ? CKM_ROLE_CONSTANT : CKM_ROLE_ACTIVATION;
            out->typed = true;
            out->dtype = made->dtype;
            out->shape = made->shape;
            *(apart ? &out->scratch : &out->tensor) = results[k];
        }
    }
cleanup:
    free(tensors);
    return status;
}

// An operator that its record describes: operands and real attributes are copied unchanged.
static ckm_status convert_as_recorded(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                      ckm_error *err)
{
    const ckm_i_op_class *kind = ckm_i_op_class_find(row->kind);
    ckm_i_attr attrs[CKM_I_ONNX_REALS];
    int32_t n = 0;
    for (int32_t i = 0; i < CKM_I_ONNX_REALS && kind->onnx.reals[i] != NULL; i++) {
        const char *key = kind->onnx.reals[i];
        if (ckm_i_onnx_attr(node, key) != NULL) {
            attrs[n++] = ckm_i_attr_real(key, ckm_i_onnx_attr_real(node, key, 0.0));
        }
    }
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, kind->max_inputs), .attrs = {attrs, n}},
        err);
}

// How the node is converted, from the tables or from an operator's record.
static bool find_row(const ckm_i_onnx_node *node, ckm_i_onnx_row *out)
{
    static const ckm_i_onnx_row *const tables[] = {ckm_i_onnx_rows_layers, ckm_i_onnx_rows_math,
                                                   ckm_i_onnx_rows_shapes};
    for (size_t t = 0; node->standard && t < sizeof tables / sizeof tables[0]; t++) {
        for (const ckm_i_onnx_row *row = tables[t]; row->op_type != NULL; row++) {
            if (strcmp(row->op_type, node->op_type) == 0) {
                *out = *row;
                return true;
            }
        }
    }
    const ckm_i_op_class *recorded = node->standard ? ckm_i_op_class_find_onnx(node->op_type) : NULL;
    if (recorded == NULL) {
        return false;
    }
    *out = (ckm_i_onnx_row){recorded->onnx.op_type, recorded->kind, convert_as_recorded};
    return true;
}

static bool supported(const ckm_i_onnx_node *node)
{
    ckm_i_onnx_row row;
    return find_row(node, &row) || (node->standard && ckm_i_onnx_can_fold(node->op_type));
}

static bool same_operator(const ckm_i_onnx_node *a, const ckm_i_onnx_node *b)
{
    return strcmp(a->op_type, b->op_type) == 0 && strcmp(a->proto->domain, b->proto->domain) == 0;
}

// Appends to a text of fixed room; what does not fit is cut.
static void append(char *text, size_t room, const char *format, ...) CKM_PRINTF(3, 4);
static void append(char *text, size_t room, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, room - used, format, args);
    va_end(args);
}

// One operator of the list: its type and up to eight of its nodes.
static void describe_unsupported(const ckm_i_onnx_model *model, int32_t first, char *text, size_t room)
{
    const ckm_i_onnx_node *node = &model->nodes[first];
    int32_t count = 0;
    append(text, room, "%s%.40s%s%.60s (", text[0] != '\0' ? "; " : "", node->standard ? "" : node->proto->domain,
           node->standard ? "" : ".", node->op_type);
    for (int32_t i = first; i < model->n_nodes; i++) {
        if (model->nodes[i].needed && same_operator(&model->nodes[i], node)) {
            if (count < 8) {
                append(text, room, "%s%.80s", count > 0 ? ", " : "", model->nodes[i].label);
            }
            count++;
        }
    }
    if (count > 8) {
        append(text, room, " and %d more", (int)(count - 8));
    }
    append(text, room, ")");
}

// All unsupported operators in one error.
static ckm_status check_supported(const ckm_i_onnx_model *model, ckm_error *err)
{
    enum { MAX_LISTED = 64 };
    int32_t listed[MAX_LISTED];
    int32_t n = 0;
    int32_t unlisted = 0;
    char text[3600] = "";
    for (int32_t i = 0; i < model->n_nodes; i++) {
        const ckm_i_onnx_node *node = &model->nodes[i];
        if (!node->needed || supported(node)) {
            continue;
        }
        int32_t k = 0;
        while (k < n && !same_operator(&model->nodes[listed[k]], node)) {
            k++;
        }
        if (k == n && n < MAX_LISTED) {
            listed[n++] = i;
            describe_unsupported(model, i, text, sizeof text);
        } else if (k == n) {
            unlisted++;
        }
    }
    if (n == 0) {
        return CKM_OK;
    }
    if (unlisted > 0) {
        append(text, sizeof text, "; %d more nodes", (int)unlisted);
    }
    return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "operators that are not supported: %s", text);
}

// One node: folded away, or converted by its row.
static ckm_status convert_node(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err)
{
    bool done = false;
    CKM_I_CHECK(ckm_i_onnx_check_attributes(c, node, err));
    if (node->standard && ckm_i_onnx_can_fold(node->op_type)) {
        CKM_I_CHECK(ckm_i_onnx_fold(c, node, &done, err));
        if (done) {
            return CKM_OK;
        }
    }
    ckm_i_onnx_row row;
    if (!find_row(node, &row)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                     "this operator is supported on constants and shapes only, not on data");
    }
    int32_t before = c->graph->n_ops;
    CKM_I_CHECK(row.convert(c, node, &row, err));
    for (int32_t v = before; v < c->graph->n_ops; v++) {
        ckm_i_graph_op *op = &c->graph->ops[v];
        int32_t weight = op->n_inputs > 1 ? op->inputs[1] : -1;
        op->holds_norm = node->holds_norm && weight >= 0 && c->graph->tensors[weight].role == CKM_ROLE_PARAMETER;
    }
    return CKM_OK;
}

// Shapes that do not fit together have a likely reason when the input's shape, or the batch, is not the file's.
static ckm_status hint_shape(const ckm_i_onnx_convert *c, ckm_status status, ckm_error *err)
{
    if (status == CKM_ERR_FORMAT && err != NULL && c->reshaped != NULL) {
        char message[3072];
        char shape[160];
        snprintf(message, sizeof message, "%.2800s", err->message);
        return ckm_i_error(err, status, "%s (by the input shape given, \"%.100s\" is %s)", message, c->reshaped->name,
                           ckm_i_shape_text(&c->reshaped->shape, shape, sizeof shape));
    }
    if (status == CKM_ERR_FORMAT && err != NULL && c->file_batch > 0 && c->batch != c->file_batch) {
        char message[3072];
        snprintf(message, sizeof message, "%.3000s", err->message);
        return ckm_i_error(err, status,
                           "%s (the file was exported for a batch of %lld, not %lld: export it with a symbolic batch)",
                           message, (long long)c->file_batch, (long long)c->batch);
    }
    return status;
}

static ckm_status add_outputs(ckm_i_onnx_convert *c, ckm_error *err)
{
    for (int32_t i = 0; i < c->model->n_outputs; i++) {
        const ckm_i_onnx_value *value = &c->model->values[c->model->outputs[i]];
        CKM_I_CHECK(ckm_i_graph_add_output(c->graph, value->name, value->tensor, err));
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_convert_model(ckm_i_onnx_convert *c, ckm_error *err)
{
    ckm_i_onnx_model *model = c->model;
    const char *name = model->proto->graph->name;
    CKM_I_CHECK(check_supported(model, err));
    CKM_I_CHECK(ckm_i_onnx_assign_roles(model, err));
    CKM_I_CHECK(ckm_i_onnx_type_inputs(c, err));
    CKM_I_CHECK(ckm_i_graph_create(name, CKM_CHANNELS_FIRST, c->batch, &c->graph, err));
    CKM_I_CHECK(ckm_i_graph_create("constants", CKM_CHANNELS_FIRST, 1, &c->scratch, err));
    for (int32_t i = 0; i < model->n_values; i++) {
        ckm_i_onnx_value *value = &model->values[i];
        if (value->needed && value->role == CKM_ROLE_INPUT) {
            CKM_I_CHECK(ckm_i_graph_add_tensor(c->graph, value->name, CKM_ROLE_INPUT, value->dtype, &value->shape,
                                               &value->tensor, err));
        }
    }
    for (int32_t i = 0; i < model->n_nodes; i++) {
        if (model->nodes[i].needed) {
            CKM_I_CHECK(hint_shape(c, convert_node(c, &model->nodes[i], err), err));
        }
    }
    if (c->graph->n_ops == 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "the ONNX model computes nothing from its inputs");
    }
    return add_outputs(c, err);
}
