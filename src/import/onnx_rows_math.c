// SPDX-License-Identifier: Apache-2.0
// Conversion of arithmetic: element by element, comparisons, reductions, change of type.
#include <string.h>

#include "base/error.h"
#include "import/onnx_geometry.h"

// All inputs, no attributes, one output.
static ckm_status convert_elements(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                   ckm_error *err)
{
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, node->n_in}}, err);
}

// The sign of the divisor for integers, which fmod = 1 would make the dividend's; that of the dividend for reals, which must have
// fmod = 1.
static ckm_status convert_mod(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                              ckm_error *err)
{
    ckm_i_onnx_value *in;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    bool real = ckm_i_onnx_dtype_is_real(in->dtype);
    if ((ckm_i_onnx_attr_int(node, "fmod", 0) != 0) != real) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "fmod must be %d for %s", real ? 1 : 0,
                                     real ? "real numbers" : "integers");
    }
    return convert_elements(c, node, row, err);
}

static ckm_status convert_cast(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    ckm_i_onnx_value *in;
    ckm_dtype to;
    const ckm_i_onnx_value *like = ckm_i_onnx_input(c, node, 1);
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    if (like != NULL && like->typed) {
        to = like->dtype;
    } else if (!ckm_i_onnx_dtype(ckm_i_onnx_attr_int(node, "to", 0), &to)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "the element type it casts to is not supported");
    }
    if (to == in->dtype && in->role != CKM_ROLE_ACTIVATION) {
        return ckm_i_onnx_forward(c, node, err);
    }
    int64_t number = (int64_t)to;
    ckm_i_attr attr = ckm_i_attr_ints("dtype", &number, 1);
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {&attr, 1}},
                           err);
}

static ckm_status emit_reduction(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 const int64_t *axes, int32_t n, ckm_error *err)
{
    int64_t keep = ckm_i_onnx_attr_int(node, "keepdims", 1) != 0;
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("keepdims", &keep, 1)};
    if (n >= 0) {
        attrs[1] = ckm_i_attr_ints("axes", axes, n);
    }
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {attrs, n >= 0 ? 2 : 1}}, err);
}

static ckm_status convert_reduce(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 ckm_error *err)
{
    ckm_i_onnx_value *in;
    int64_t axes[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_reduced(c, node, in->shape.rank, axes, &n, err));
    return emit_reduction(c, node, row, axes, n, err);
}

static ckm_status convert_position(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                   ckm_error *err)
{
    ckm_i_onnx_value *in;
    int64_t axis = ckm_i_onnx_attr_int(node, "axis", 0);
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    return emit_reduction(c, node, row, &axis, 1, err);
}

static ckm_status convert_top_k(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                ckm_error *err)
{
    ckm_i_onnx_value *in;
    int64_t k[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    if (c->model->opset < 10) {
        k[0] = ckm_i_onnx_attr_int(node, "k", 0);
        n = 1;
    } else {
        CKM_I_CHECK(ckm_i_onnx_ints(c, node, "K", 1, k, &n, err));
    }
    if (n != 1) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "k must be one number");
    }
    int64_t axis = ckm_i_onnx_attr_int(node, "axis", -1);
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("axis", &axis, 1), ckm_i_attr_ints("k", k, 1)};
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {attrs, 2}, .max_outputs = 2},
        err);
}

// The axis is an input.
static ckm_status convert_cumulative(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                     ckm_error *err)
{
    int64_t axis[CKM_I_ATTR_MAX] = {0};
    int32_t n = -1;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axis", 1, axis, &n, err));
    if (n != 1) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "axis must be one number");
    }
    int64_t exclusive = ckm_i_onnx_attr_int(node, "exclusive", 0) != 0;
    int64_t reverse = ckm_i_onnx_attr_int(node, "reverse", 0) != 0;
    ckm_i_attr attrs[3] = {ckm_i_attr_ints("axis", axis, 1), ckm_i_attr_ints("exclusive", &exclusive, 1),
                           ckm_i_attr_ints("reverse", &reverse, 1)};
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {attrs, 3}}, err);
}

const ckm_i_onnx_row ckm_i_onnx_rows_math[] = {
    {"Add", "add", convert_elements},
    {"Sub", "sub", convert_elements},
    {"Mul", "mul", convert_elements},
    {"Div", "div", convert_elements},
    {"Pow", "pow", convert_elements},
    {"Mod", "mod", convert_mod},
    {"Min", "minimum", convert_elements},
    {"Max", "maximum", convert_elements},
    {"Sum", "sum", convert_elements},
    {"Mean", "mean", convert_elements},
    {"Equal", "equal", convert_elements},
    {"Less", "less", convert_elements},
    {"LessOrEqual", "less_or_equal", convert_elements},
    {"Greater", "greater", convert_elements},
    {"GreaterOrEqual", "greater_or_equal", convert_elements},
    {"And", "and", convert_elements},
    {"Or", "or", convert_elements},
    {"Xor", "xor", convert_elements},
    {"Not", "not", convert_elements},
    {"IsNaN", "is_nan", convert_elements},
    {"Where", "where", convert_elements},
    {"Sqrt", "sqrt", convert_elements},
    {"Erf", "erf", convert_elements},
    {"Neg", "neg", convert_elements},
    {"Exp", "exp", convert_elements},
    {"Log", "log", convert_elements},
    {"Abs", "abs", convert_elements},
    {"Reciprocal", "reciprocal", convert_elements},
    {"Floor", "floor", convert_elements},
    {"Ceil", "ceil", convert_elements},
    {"Round", "round", convert_elements},
    {"Sign", "sign", convert_elements},
    {"Sin", "sin", convert_elements},
    {"Cos", "cos", convert_elements},
    {"Tan", "tan", convert_elements},
    {"Atan", "atan", convert_elements},
    {"Cast", "cast", convert_cast},
    {"CastLike", "cast", convert_cast},
    {"ReduceMean", "reduce_mean", convert_reduce},
    {"ReduceSum", "reduce_sum", convert_reduce},
    {"ReduceMax", "reduce_max", convert_reduce},
    {"ReduceMin", "reduce_min", convert_reduce},
    {"ReduceProd", "reduce_prod", convert_reduce},
    {"ReduceL1", "reduce_l1", convert_reduce},
    {"ReduceL2", "reduce_l2", convert_reduce},
    {"ReduceSumSquare", "reduce_sum_square", convert_reduce},
    {"ReduceLogSum", "reduce_log_sum", convert_reduce},
    {"ReduceLogSumExp", "reduce_log_sum_exp", convert_reduce},
    {"ArgMax", "arg_max", convert_position},
    {"ArgMin", "arg_min", convert_position},
    {"TopK", "top_k", convert_top_k},
    {"CumSum", "cumulative_sum", convert_cumulative},
    {NULL, NULL, NULL},
};
