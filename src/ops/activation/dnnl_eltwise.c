// SPDX-License-Identifier: Apache-2.0
// Activations with exponentials, softmax, and their derivatives on oneDNN.
#include <string.h>

#include "base/error.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/dnnl_support.h"

typedef struct function {
    ckm_i_op_kind kind, gradient;  // NO_KIND: goes backward elsewhere
    double alpha;                  // when absent
    dnnl_alg_kind_t forward;
    dnnl_alg_kind_t backward;  // from the output where the kind reads it
    bool from_output;
    bool has_alpha;
} function;

// sigmoid and tanh go backward in our own loops, exp and log by products.
static const function functions[] = {
    {CKM_I_OP_sigmoid, CKM_I_OP_NO_KIND, 0.0, dnnl_eltwise_logistic, dnnl_eltwise_logistic_use_dst_for_bwd, true,
     false},
    {CKM_I_OP_tanh, CKM_I_OP_NO_KIND, 0.0, dnnl_eltwise_tanh, dnnl_eltwise_tanh_use_dst_for_bwd, true, false},
    {CKM_I_OP_elu, CKM_I_OP_elu_backward, 1.0, dnnl_eltwise_elu, dnnl_eltwise_elu_use_dst_for_bwd, true, true},
    {CKM_I_OP_swish, CKM_I_OP_swish_backward, 1.0, dnnl_eltwise_swish, dnnl_eltwise_swish, false, true},
    {CKM_I_OP_mish, CKM_I_OP_mish_backward, 0.0, dnnl_eltwise_mish, dnnl_eltwise_mish, false, false},
    {CKM_I_OP_exp, CKM_I_OP_NO_KIND, 0.0, dnnl_eltwise_exp, dnnl_eltwise_exp_use_dst_for_bwd, true, false},
    {CKM_I_OP_log, CKM_I_OP_NO_KIND, 0.0, dnnl_eltwise_log, dnnl_eltwise_log, false, false},
};

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
                                  bool backward, bool from_output, ckm_i_kernel *kernel, ckm_error *err)
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
        CKM_I_TRY(build(cpu, chosen, &plain, backward, from_output, kernel, err));
    }

cleanup:
    ckm_i_dnnl_description_free(pd);
    ckm_i_dnnl_description_free(forward);
    return status;
}

static ckm_status prepare_function(const ckm_i_cpu *cpu, const ckm_i_op_view *v, bool backward, ckm_i_kernel *kernel,
                                   ckm_error *err)
{
    ckm_i_op_kind kind = v->op->op_class->id;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const function *f = &functions[i];
        if (kind == (backward ? f->gradient : f->kind)) {
            float alpha = f->has_alpha ? (float)ckm_i_op_attr_double(v->op, "alpha", f->alpha) : 0.0F;
            // With a negative alpha, the output of elu does not tell the slope: the gradient reads the input.
            bool from_output = f->from_output && !(alpha < 0.0F);
            return prepare_eltwise(cpu, v, backward && from_output ? f->backward : f->forward, alpha, backward,
                                   from_output, kernel, err);
        }
    }
    return CKM_OK;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    return prepare_function(cpu, v, false, kernel, err);
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    return prepare_function(cpu, v, true, kernel, err);
}

static dnnl_alg_kind_t gelu_algorithm(const ckm_i_op_view *v)
{
    bool by_tanh = strcmp(ckm_i_op_attr_text(v->op, "approximate", "none"), "tanh") == 0;
    return by_tanh ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf;
}

static ckm_status prepare_gelu(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    return prepare_eltwise(cpu, v, gelu_algorithm(v), 0.0F, false, false, kernel, err);
}

static ckm_status prepare_gelu_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                        ckm_error *err)
{
    return prepare_eltwise(cpu, v, gelu_algorithm(v), 0.0F, true, false, kernel, err);
}

// ---- softmax

static ckm_status prepare_softmax(const ckm_i_cpu *cpu, const ckm_i_op_view *v, bool backward, ckm_i_kernel *kernel,
                                  ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_memory_desc_t plain;
    dnnl_softmax_v2_desc_t desc;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_desc_t pd = NULL;
    const ckm_shape *shape = &v->in[0]->shape;
    if (!operands_alike(v, backward ? 2 : 1) || shape->rank < 1) {
        return CKM_OK;
    }
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, -1);
    axis = axis < 0 ? axis + shape->rank : axis;
    ckm_i_cpu_around around = ckm_i_cpu_view_around(shape, axis);
    const int64_t dims[] = {around.outer, around.axis, around.inner};
    int32_t rank = around.inner == 1 ? 2 : 3;
    ckm_i_op_kind kind = v->op->op_class->id;
    bool logarithm = kind == CKM_I_OP_log_softmax || kind == CKM_I_OP_log_softmax_backward;
    dnnl_alg_kind_t algorithm = logarithm ? dnnl_softmax_log : dnnl_softmax_accurate;
    CKM_I_TRY(ckm_i_dnnl_plain(rank, dims, NULL, &plain, err));
    CKM_I_DNNL_TRY(dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_training, algorithm, &plain, &plain, 1),
                   "softmax");
    CKM_I_TRY(ckm_i_dnnl_describe(cpu, &desc, NULL, &forward, err));
    if (backward && forward != NULL) {
        CKM_I_DNNL_TRY(dnnl_softmax_v2_backward_desc_init(&desc, algorithm, &plain, &plain, &plain, 1), "softmax");
        CKM_I_TRY(ckm_i_dnnl_describe(cpu, &desc, forward, &pd, err));
    }
    const_dnnl_primitive_desc_t chosen = backward ? pd : forward;
    if (chosen != NULL) {
        CKM_I_TRY(build(cpu, chosen, &plain, backward, true, kernel, err));
    }

cleanup:
    ckm_i_dnnl_description_free(pd);
    ckm_i_dnnl_description_free(forward);
    return status;
}

static ckm_status prepare_softmax_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                          ckm_error *err)
{
    return prepare_softmax(cpu, v, false, kernel, err);
}

static ckm_status prepare_softmax_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                           ckm_error *err)
{
    return prepare_softmax(cpu, v, true, kernel, err);
}

// clang-format off
const ckm_i_cpu_row ckm_i_cpu_eltwise[] = {
    {CKM_I_OP_sigmoid, prepare_forward},
    {CKM_I_OP_tanh, prepare_forward},
    {CKM_I_OP_elu, prepare_forward},
    {CKM_I_OP_elu_backward, prepare_backward},
    {CKM_I_OP_swish, prepare_forward},
    {CKM_I_OP_swish_backward, prepare_backward},
    {CKM_I_OP_mish, prepare_forward},
    {CKM_I_OP_mish_backward, prepare_backward},
    {CKM_I_OP_exp, prepare_forward},
    {CKM_I_OP_log, prepare_forward},
    {CKM_I_OP_gelu, prepare_gelu},
    {CKM_I_OP_gelu_backward, prepare_gelu_backward},
    {CKM_I_OP_softmax, prepare_softmax_forward},
    {CKM_I_OP_log_softmax, prepare_softmax_forward},
    {CKM_I_OP_softmax_backward, prepare_softmax_backward},
    {CKM_I_OP_log_softmax_backward, prepare_softmax_backward},
    {0},
};
// clang-format on
