// SPDX-License-Identifier: Apache-2.0
// sigmoid, tanh, swish, gelu by the error function, softmax, and their derivatives on oneDNN. Other functions are our own loops
// (cpu_elementwise.c): oneDNN's exp, elu and mish take NaN for a number, or large numbers for infinite ones, and its log is
// 1e-6 off near 1.
#include "base/error.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/dnnl_support.h"

static bool operands_alike(const ckm_i_op_view *v, int32_t inputs)
{
    for (int32_t i = 0; i < inputs; i++) {
        if (!ckm_i_dnnl_has_input(v, i) || !ckm_i_shapes_equal(&v->in[i]->shape, &v->in[0]->shape)) {
            return false;
        }
    }
    return ckm_i_dnnl_floats(v);
}

// The whole tensor as one axis: element-wise primitives do not care about its shape.
static ckm_status flat(const ckm_i_op_view *v, dnnl_memory_desc_t *out, ckm_error *err)
{
    int64_t n = ckm_i_elements(&v->in[0]->shape);
    return ckm_i_dnnl_plain(1, &n, NULL, out, err);
}

// One primitive whose arguments all have the format `plain`: forward SRC -> DST, backward DIFF_DST, SRC or DST ->
// DIFF_SRC.
static ckm_status build(const ckm_i_cpu *cpu, const_dnnl_primitive_desc_t pd, const dnnl_memory_desc_t *plain,
                        bool backward, bool from_output, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_dnnl_sequence *sequence = NULL;
    CKM_I_TRY(ckm_i_dnnl_sequence_create(cpu, &sequence, err));
    ckm_i_dnnl_arg args[] = {
        {.arg = backward ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, .place = CKM_I_DNNL_IN(0), .plain = plain},
        {.arg = backward ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST, .place = CKM_I_DNNL_OUT(0), .plain = plain},
        {.arg = from_output ? DNNL_ARG_DST : DNNL_ARG_SRC, .place = CKM_I_DNNL_IN(1), .plain = plain},
    };
    CKM_I_TRY(ckm_i_dnnl_sequence_add(sequence, pd, args, backward ? 3 : 2, err));
    ckm_i_dnnl_sequence_finish(sequence, kernel);
    sequence = NULL;

cleanup:
    ckm_i_dnnl_sequence_free(sequence);
    return status;
}

static ckm_status prepare_eltwise(const ckm_i_cpu *cpu, const ckm_i_op_view *v, dnnl_alg_kind_t algorithm, float alpha,
                                  bool backward, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_memory_desc_t plain;
    dnnl_eltwise_desc_t desc;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_desc_t pd = NULL;
    if (!operands_alike(v, backward ? 2 : 1)) {
        return CKM_OK;
    }
    CKM_I_TRY(flat(v, &plain, err));
    CKM_I_DNNL_TRY(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training, algorithm, &plain, alpha, 0.0F),
                   "activation");
    CKM_I_TRY(ckm_i_dnnl_describe(cpu, &desc, NULL, &forward, err));
    if (backward && forward != NULL) {
        CKM_I_DNNL_TRY(dnnl_eltwise_backward_desc_init(&desc, algorithm, &plain, &plain, alpha, 0.0F), "activation");
        CKM_I_TRY(ckm_i_dnnl_describe(cpu, &desc, forward, &pd, err));
    }
    const_dnnl_primitive_desc_t chosen = backward ? pd : forward;
    if (chosen != NULL) {
        CKM_I_TRY(build(cpu, chosen, &plain, backward, false, kernel, err));
    }

cleanup:
    ckm_i_dnnl_description_free(pd);
    ckm_i_dnnl_description_free(forward);
    return status;
}

// sigmoid and tanh go backward in our own loops.
static ckm_status prepare_sigmoid(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    return prepare_eltwise(cpu, v, dnnl_eltwise_logistic, 0.0F, false, kernel, err);
}

static ckm_status prepare_tanh(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    return prepare_eltwise(cpu, v, dnnl_eltwise_tanh, 0.0F, false, kernel, err);
}

static ckm_status prepare_swish(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    float alpha = (float)ckm_i_op_attr_double(v->op, "alpha", 1.0);
    return prepare_eltwise(cpu, v, dnnl_eltwise_swish, alpha, v->op->op_class->id == CKM_I_OP_swish_backward, kernel,
                           err);
}

// By tanh it has a loop of our own, which is asked first.
static ckm_status prepare_gelu(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    return prepare_eltwise(cpu, v, dnnl_eltwise_gelu_erf, 0.0F, v->op->op_class->id == CKM_I_OP_gelu_backward, kernel,
                           err);
}

// ---- softmax, backward: the forward primitive is described as a hint

static ckm_status prepare_softmax_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                           ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_memory_desc_t plain;
    dnnl_softmax_v2_desc_t desc;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const ckm_shape *shape = &v->in[0]->shape;
    if (!operands_alike(v, 2) || shape->rank < 1) {
        return CKM_OK;
    }
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, -1);
    axis = axis < 0 ? axis + shape->rank : axis;
    ckm_i_cpu_around around = ckm_i_cpu_view_around(shape, axis);
    const int64_t dims[] = {around.outer, around.axis, around.inner};
    int32_t rank = around.inner == 1 ? 2 : 3;
    bool logarithm = v->op->op_class->id == CKM_I_OP_log_softmax_backward;
    dnnl_alg_kind_t algorithm = logarithm ? dnnl_softmax_log : dnnl_softmax_accurate;
    CKM_I_TRY(ckm_i_dnnl_plain(rank, dims, NULL, &plain, err));
    CKM_I_DNNL_TRY(dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_training, algorithm, &plain, &plain, 1),
                   "softmax");
    CKM_I_TRY(ckm_i_dnnl_describe(cpu, &desc, NULL, &forward, err));
    if (forward != NULL) {
        CKM_I_DNNL_TRY(dnnl_softmax_v2_backward_desc_init(&desc, algorithm, &plain, &plain, &plain, 1), "softmax");
        CKM_I_TRY(ckm_i_dnnl_describe(cpu, &desc, forward, &pd, err));
    }
    if (pd != NULL) {
        CKM_I_TRY(build(cpu, pd, &plain, true, true, kernel, err));
    }

cleanup:
    ckm_i_dnnl_description_free(pd);
    ckm_i_dnnl_description_free(forward);
    return status;
}

// clang-format off
const ckm_i_cpu_row ckm_i_cpu_eltwise[] = {
    {CKM_I_OP_sigmoid, prepare_sigmoid},
    {CKM_I_OP_tanh, prepare_tanh},
    {CKM_I_OP_swish, prepare_swish},
    {CKM_I_OP_swish_backward, prepare_swish},
    {CKM_I_OP_gelu, prepare_gelu},
    {CKM_I_OP_gelu_backward, prepare_gelu},
    {CKM_I_OP_softmax_backward, prepare_softmax_backward},
    {CKM_I_OP_log_softmax_backward, prepare_softmax_backward},
    {0},
};
// clang-format on
