// SPDX-License-Identifier: Apache-2.0
// sigmoid, tanh, swish, softmax, and their derivatives on oneDNN. Other functions are our own loops (cpu_elementwise.c):
// oneDNN's exp, elu, mish and gelu take NaN for a number, or large numbers for infinite ones, and its log is 1e-6 off near 1.
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

// One primitive whose arguments all have the format `plain`: forward SRC -> DST, backward DIFF_DST, SRC or DST ->
// DIFF_SRC.
static ckm_status build(const ckm_i_cpu *cpu, const_dnnl_primitive_desc_t pd, const ckm_i_dnnl_tensor *plain,
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

typedef dnnl_status_t describe_fn(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map *map,
                                  const_dnnl_primitive_desc_t hint);

// The forward primitive is described in any case: it is a hint for the backward one.
static ckm_status prepare_map(const ckm_i_cpu *cpu, describe_fn *describe, const ckm_i_dnnl_map *map, bool backward,
                              bool from_output, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_primitive_desc_t pd = NULL;
    CKM_I_TRY(ckm_i_dnnl_asked(describe(&forward, cpu->engine, map, NULL), err));
    if (backward && forward != NULL) {
        CKM_I_TRY(ckm_i_dnnl_asked(describe(&pd, cpu->engine, map, forward), err));
    }
    const_dnnl_primitive_desc_t chosen = backward ? pd : forward;
    if (chosen != NULL) {
        CKM_I_TRY(build(cpu, chosen, &map->plain, backward, from_output, kernel, err));
    }

cleanup:
    ckm_i_dnnl_description_free(pd);
    ckm_i_dnnl_description_free(forward);
    return status;
}

static ckm_status prepare_eltwise(const ckm_i_cpu *cpu, const ckm_i_op_view *v, dnnl_alg_kind_t algorithm, float alpha,
                                  bool backward, ckm_i_kernel *kernel, ckm_error *err)
{
    if (!operands_alike(v, backward ? 2 : 1)) {
        return CKM_OK;
    }
    // The whole tensor as one axis: element-wise primitives ignore its shape.
    int64_t n = ckm_i_elements(&v->in[0]->shape);
    ckm_i_dnnl_map map = {.algorithm = algorithm, .alpha = alpha, .plain = ckm_i_dnnl_plain(1, &n, NULL)};
    return prepare_map(cpu, ckm_i_guard_eltwise, &map, backward, false, kernel, err);
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

static ckm_status prepare_softmax_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                           ckm_error *err)
{
    const ckm_shape *shape = &v->in[0]->shape;
    if (!operands_alike(v, 2) || shape->rank < 1) {
        return CKM_OK;
    }
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, -1);
    axis = axis < 0 ? axis + shape->rank : axis;
    ckm_i_cpu_around around = ckm_i_cpu_view_around(shape, axis);
    const int64_t dims[] = {around.outer, around.axis, around.inner};
    bool logarithm = v->op->op_class->id == CKM_I_OP_log_softmax_backward;
    ckm_i_dnnl_map map = {.algorithm = logarithm ? dnnl_softmax_log : dnnl_softmax_accurate,
                          .axis = 1,
                          .plain = ckm_i_dnnl_plain(around.inner == 1 ? 2 : 3, dims, NULL)};
    return prepare_map(cpu, ckm_i_guard_softmax, &map, true, true, kernel, err);
}

// clang-format off
const ckm_i_cpu_row ckm_i_cpu_eltwise[] = {
    {CKM_I_OP_sigmoid, prepare_sigmoid},
    {CKM_I_OP_tanh, prepare_tanh},
    {CKM_I_OP_swish, prepare_swish},
    {CKM_I_OP_swish_backward, prepare_swish},
    {CKM_I_OP_softmax_backward, prepare_softmax_backward},
    {CKM_I_OP_log_softmax_backward, prepare_softmax_backward},
    {0},
};
// clang-format on
