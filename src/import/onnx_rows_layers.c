// SPDX-License-Identifier: Apache-2.0
// Conversion of layers: convolutions, pooling, normalization, matrix products, activations, dropout.
#include <string.h>

#include "base/error.h"
#include "import/onnx_geometry.h"

// The attributes of one operator while they are collected.
typedef struct attr_list {
    int32_t n;
    ckm_i_attr items[8];
} attr_list;

static void put_int(attr_list *list, const char *key, int64_t value)
{
    list->items[list->n++] = ckm_i_attr_ints(key, &value, 1);
}

static void put_real(attr_list *list, const char *key, double value)
{
    list->items[list->n++] = ckm_i_attr_real(key, value);
}

static void put_word(attr_list *list, const char *key, const char *value)
{
    list->items[list->n++] = ckm_i_attr_word(key, value);
}

// Copies a list of integers when the node has it.
static ckm_status put_list(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const char *name, const char *key,
                           attr_list *list, ckm_error *err)
{
    int64_t values[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, name, -1, values, &n, err));
    if (n >= 0) {
        list->items[list->n++] = ckm_i_attr_ints(key, values, n);
    }
    return CKM_OK;
}

// Kernel, strides, dilation and padding of a sliding window.
static ckm_status put_window(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, attr_list *list, ckm_error *err)
{
    char mode[16];
    CKM_I_CHECK(put_list(c, node, "kernel_shape", "kernel", list, err));
    CKM_I_CHECK(put_list(c, node, "strides", "strides", list, err));
    CKM_I_CHECK(put_list(c, node, "dilations", "dilation", list, err));
    ckm_status status = CKM_OK;
    ckm_i_onnx_attr_text(node, "auto_pad", "NOTSET", mode, sizeof mode);
    if (strcmp(mode, "SAME_UPPER") == 0) {
        put_word(list, "padding", "same_upper");
    } else if (strcmp(mode, "SAME_LOWER") == 0) {
        put_word(list, "padding", "same_lower");
    } else if (strcmp(mode, "NOTSET") == 0) {
        status = put_list(c, node, "pads", "padding", list, err);
    } else if (strcmp(mode, "VALID") != 0) {
        status = ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "auto_pad is \"%.15s\"", mode);
    }
    return status;
}

static ckm_status convert_conv(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    attr_list list = {0};
    CKM_I_CHECK(put_window(c, node, &list, err));
    if (strcmp(row->kind, "conv_transpose") == 0) {
        CKM_I_CHECK(put_list(c, node, "output_padding", "output_padding", &list, err));
        CKM_I_CHECK(put_list(c, node, "output_shape", "output_size", &list, err));
    }
    put_int(&list, "groups", ckm_i_onnx_attr_int(node, "group", 1));
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 3), .attrs = {list.items, list.n}}, err);
}

static ckm_status convert_pool(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    attr_list list = {0};
    CKM_I_CHECK(put_window(c, node, &list, err));
    put_int(&list, "ceil_mode", ckm_i_onnx_attr_int(node, "ceil_mode", 0));
    bool largest = strcmp(row->kind, "max_pool") == 0;
    if (strcmp(row->kind, "lp_pool") == 0) {
        put_int(&list, "p", ckm_i_onnx_attr_int(node, "p", 2));
    } else if (!largest) {
        put_int(&list, "count_include_pad", ckm_i_onnx_attr_int(node, "count_include_pad", 0));
    }
    return ckm_i_onnx_emit(c, node,
                           &(ckm_i_onnx_op){.kind = row->kind,
                                            .inputs = ckm_i_onnx_inputs(node, 1),
                                            .attrs = {list.items, list.n},
                                            .max_outputs = largest ? 2 : 1},
                           err);
}

static ckm_status convert_global_pool(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                      ckm_error *err)
{
    attr_list list = {0};
    put_int(&list, "keepdims", 1);
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}}, err);
}

// One window as large as the image.
static ckm_status convert_global_norm_pool(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node,
                                           const ckm_i_onnx_row *row, ckm_error *err)
{
    attr_list list = {0};
    ckm_i_onnx_value *x;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &x, err));
    if (x->shape.rank < 3) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "its input has no spatial dimensions");
    }
    list.items[list.n++] = ckm_i_attr_ints("kernel", x->shape.dims + 2, x->shape.rank - 2);
    put_int(&list, "p", ckm_i_onnx_attr_int(node, "p", 2));
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}}, err);
}

static ckm_status convert_batch_norm(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                     ckm_error *err)
{
    attr_list list = {0};
    put_real(&list, "epsilon", ckm_i_onnx_attr_real(node, "epsilon", 1e-5));
    put_real(&list, "momentum", ckm_i_onnx_attr_real(node, "momentum", 0.9));
    // Before opset 14 the training form is the one with more than one output.
    bool training = c->model->opset >= 14 ? ckm_i_onnx_attr_int(node, "training_mode", 0) != 0 : node->n_out > 1;
    put_int(&list, "training", training);
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){
            .kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 5), .attrs = {list.items, list.n}, .max_outputs = 5},
        err);
}

static ckm_status convert_norm(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    attr_list list = {0};
    bool layer = strcmp(row->kind, "layer_norm") == 0;
    put_real(&list, "epsilon", ckm_i_onnx_attr_real(node, "epsilon", 1e-5));
    if (layer) {
        put_int(&list, "axis", ckm_i_onnx_attr_int(node, "axis", -1));
    } else if (strcmp(row->kind, "group_norm") == 0) {
        put_int(&list, "groups", ckm_i_onnx_attr_int(node, "num_groups", 1));
    }
    return ckm_i_onnx_emit(c, node,
                           &(ckm_i_onnx_op){.kind = row->kind,
                                            .inputs = ckm_i_onnx_inputs(node, 3),
                                            .attrs = {list.items, list.n},
                                            .max_outputs = layer ? 3 : 1},
                           err);
}

static ckm_status convert_response_norm(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                        ckm_error *err)
{
    attr_list list = {0};
    put_int(&list, "size", ckm_i_onnx_attr_int(node, "size", 1));
    put_real(&list, "alpha", ckm_i_onnx_attr_real(node, "alpha", 1e-4));
    put_real(&list, "beta", ckm_i_onnx_attr_real(node, "beta", 0.75));
    put_real(&list, "bias", ckm_i_onnx_attr_real(node, "bias", 1.0));
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}}, err);
}

static ckm_status convert_norm_division(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                        ckm_error *err)
{
    attr_list list = {0};
    put_int(&list, "axis", ckm_i_onnx_attr_int(node, "axis", -1));
    put_int(&list, "p", ckm_i_onnx_attr_int(node, "p", 2));
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}}, err);
}

// A weight that a transpose lies in front of: the parameter itself, and *transposed turned around.
static int32_t weight_behind(const ckm_i_onnx_convert *c, int32_t value, bool *transposed)
{
    if (value >= 0 && c->model->values[value].transposed_of >= 0) {
        *transposed = !*transposed;
        return c->model->values[value].transposed_of;
    }
    return value;
}

static bool is_static(const ckm_i_onnx_value *value)
{
    return value->role == CKM_ROLE_PARAMETER || value->role == CKM_ROLE_CONSTANT;
}

// A dense layer when the second operand is a weight and the bias, if any, is one number a column; otherwise
// the general product.
static ckm_status convert_gemm(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    attr_list list = {0};
    ckm_i_onnx_value *a;
    ckm_i_onnx_value *b;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &a, err));
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 1, &b, err));
    // No kernel scales. Without a bias there is nothing for beta to scale.
    if (ckm_i_onnx_attr_real(node, "alpha", 1.0) != 1.0 ||
        (ckm_i_onnx_input(c, node, 2) != NULL && ckm_i_onnx_attr_real(node, "beta", 1.0) != 1.0)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "alpha and beta other than 1 are not supported");
    }
    bool trans_a = ckm_i_onnx_attr_int(node, "transA", 0) != 0;
    bool trans_b = ckm_i_onnx_attr_int(node, "transB", 0) != 0;
    int32_t inputs[3] = {node->in[0], weight_behind(c, node->in[1], &trans_b), node->n_in > 2 ? node->in[2] : -1};
    const ckm_i_onnx_value *bias = ckm_i_onnx_input(c, node, 2);
    bool plain_bias = bias == NULL || (bias->typed && bias->shape.rank == 1 && is_static(bias) && b->shape.rank == 2 &&
                                       bias->shape.dims[0] == c->model->values[inputs[1]].shape.dims[trans_b ? 0 : 1]);
    if (!trans_a && b->role == CKM_ROLE_PARAMETER && plain_bias && a->shape.rank == 2 && b->shape.rank == 2) {
        put_int(&list, "transposed", trans_b);
        return ckm_i_onnx_emit(
            c, node,
            &(ckm_i_onnx_op){.kind = "dense", .inputs = {inputs, bias != NULL ? 3 : 2}, .attrs = {list.items, list.n}},
            err);
    }
    put_int(&list, "trans_a", trans_a);
    put_int(&list, "trans_b", trans_b);
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = {inputs, bias != NULL ? 3 : 2}, .attrs = {list.items, list.n}},
        err);
}

static ckm_status convert_matmul(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 ckm_error *err)
{
    attr_list list = {0};
    ckm_i_onnx_value *a;
    ckm_i_onnx_value *b;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &a, err));
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 1, &b, err));
    bool transposed = false;
    int32_t inputs[2] = {node->in[0], weight_behind(c, node->in[1], &transposed)};
    if (b->role == CKM_ROLE_PARAMETER && b->shape.rank == 2 && a->shape.rank >= 2) {
        put_int(&list, "transposed", transposed);
        return ckm_i_onnx_emit(
            c, node, &(ckm_i_onnx_op){.kind = "dense", .inputs = {inputs, 2}, .attrs = {list.items, list.n}}, err);
    }
    put_int(&list, "trans_b", transposed);
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {inputs, 2}, .attrs = {list.items, list.n}}, err);
}

static ckm_status convert_einsum(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 ckm_error *err)
{
    attr_list list = {0};
    char equation[sizeof list.items[0].word];
    size_t n = 0;
    const CkmOnnx__Attribute *given = ckm_i_onnx_attr(node, "equation");
    for (size_t i = 0; given != NULL && i < given->s.len; i++) {
        if (given->s.data[i] == ' ') {
            continue;
        }
        if (n + 1 == sizeof equation) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "its equation \"%.*s\" is too long",
                                         (int)(given->s.len < 200 ? given->s.len : 200), (const char *)given->s.data);
        }
        equation[n++] = (char)given->s.data[i];
    }
    equation[n] = '\0';
    put_word(&list, "equation", equation);
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, node->n_in}, .attrs = {list.items, list.n}},
        err);
}

static ckm_status convert_gelu(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    attr_list list = {0};
    char word[32];
    if (ckm_i_onnx_attr(node, "approximate") != NULL) {
        put_word(&list, "approximate", ckm_i_onnx_attr_text(node, "approximate", "none", word, sizeof word));
    }
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}}, err);
}

static ckm_status convert_prelu(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                ckm_error *err)
{
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 2)}, err);
}

// Before opset 13, all dimensions from the axis on are one: along which one of them, where the others have one element.
static ckm_status convert_softmax(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                  ckm_error *err)
{
    attr_list list = {0};
    bool joined = c->model->opset < 13;
    int64_t along = ckm_i_onnx_attr_int(node, "axis", joined ? 1 : -1);
    if (joined) {
        ckm_i_onnx_value *x;
        int32_t first;
        CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &x, err));
        CKM_I_CHECK(ckm_i_onnx_axis(node, along, x->shape.rank, &first, err));
        along = first;
        for (int32_t i = first + 1; i < x->shape.rank; i++) {
            if (x->shape.dims[i] == 1) {
                continue;
            }
            if (x->shape.dims[along] != 1) {
                return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                             "before opset 13 it is over all dimensions from axis %d on, which is not "
                                             "supported where more than one of them has several elements",
                                             (int)first);
            }
            along = i;
        }
    }
    put_int(&list, "axis", along);
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}}, err);
}

// Limits are attributes up to opset 10, then inputs; constant ones become attributes either way.
static ckm_status convert_clip(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    static const char *const names[2] = {"min", "max"};
    attr_list list = {0};
    int32_t inputs[3] = {node->n_in > 0 ? node->in[0] : -1, -1, -1};
    int32_t n_inputs = 1;
    for (int32_t i = 0; i < 2; i++) {
        const ckm_i_onnx_value *limit = ckm_i_onnx_input(c, node, i + 1);
        if (ckm_i_onnx_attr(node, names[i]) != NULL) {
            put_real(&list, names[i], ckm_i_onnx_attr_real(node, names[i], 0.0));
        } else if (limit != NULL && limit->data != NULL) {
            double values[CKM_I_ATTR_MAX];
            int32_t n;
            CKM_I_CHECK(ckm_i_onnx_reals(c, node, names[i], i + 1, values, &n, err));
            if (n != 1) {
                return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "%s must be one number", names[i]);
            }
            put_real(&list, names[i], values[0]);
        } else if (limit != NULL) {
            inputs[i + 1] = node->in[i + 1];
            n_inputs = i + 2;
        }
    }
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {inputs, n_inputs}, .attrs = {list.items, list.n}}, err);
}

// The ratio is an attribute up to opset 11, then an input.
static ckm_status convert_dropout(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                  ckm_error *err)
{
    attr_list list = {0};
    double ratio[CKM_I_ATTR_MAX] = {0.5};
    const ckm_i_onnx_value *given = ckm_i_onnx_input(c, node, 1);
    int32_t n;
    if (ckm_i_onnx_attr(node, "ratio") != NULL) {
        ratio[0] = ckm_i_onnx_attr_real(node, "ratio", 0.5);
    } else if (given != NULL) {
        CKM_I_CHECK(ckm_i_onnx_reals(c, node, "ratio", 1, ratio, &n, err));
    }
    put_real(&list, "rate", ratio[0]);
    // Without the input it is off.
    const ckm_i_onnx_value *mode = ckm_i_onnx_input(c, node, 2);
    if (mode != NULL && (mode->data == NULL || mode->data[0].i != 0)) {
        put_int(&list, "training", 1);
    }
    return ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){
            .kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {list.items, list.n}, .max_outputs = 2},
        err);
}

const ckm_i_onnx_row ckm_i_onnx_rows_layers[] = {
    {"Conv", "conv", convert_conv},
    {"ConvTranspose", "conv_transpose", convert_conv},
    {"MaxPool", "max_pool", convert_pool},
    {"AveragePool", "average_pool", convert_pool},
    {"LpPool", "lp_pool", convert_pool},
    {"GlobalAveragePool", "global_average_pool", convert_global_pool},
    {"GlobalMaxPool", "global_max_pool", convert_global_pool},
    {"GlobalLpPool", "lp_pool", convert_global_norm_pool},
    {"BatchNormalization", "batch_norm", convert_batch_norm},
    {"LayerNormalization", "layer_norm", convert_norm},
    {"InstanceNormalization", "instance_norm", convert_norm},
    {"GroupNormalization", "group_norm", convert_norm},
    {"LRN", "local_response_norm", convert_response_norm},
    {"LpNormalization", "lp_norm", convert_norm_division},
    {"Gemm", "gemm", convert_gemm},
    {"MatMul", "matmul", convert_matmul},
    {"Einsum", "einsum", convert_einsum},
    {"PRelu", "prelu", convert_prelu},
    {"Gelu", "gelu", convert_gelu},
    {"Softmax", "softmax", convert_softmax},
    {"LogSoftmax", "log_softmax", convert_softmax},
    {"Clip", "clip", convert_clip},
    {"Dropout", "dropout", convert_dropout},
    {NULL, NULL, NULL},
};
