// SPDX-License-Identifier: Apache-2.0
#include "autodiff/grad_rules.h"

#include <stdio.h>

#include "base/error.h"

int32_t ckm_i_grad_in(const ckm_i_grad *g, int32_t i)
{
    return i < g->forward.n_inputs ? g->forward.inputs[i] : -1;
}

bool ckm_i_grad_wants(const ckm_i_grad *g, int32_t i)
{
    int32_t tensor = ckm_i_grad_in(g, i);
    return tensor >= 0 && g->step->wanted[tensor];
}

ckm_i_attrs ckm_i_grad_attrs(const ckm_i_grad *g)
{
    ckm_i_attrs attrs;
    ckm_i_attrs_copy(&attrs, &g->forward);
    return attrs;
}

ckm_status ckm_i_grad_emit(ckm_i_grad *g, const char *kind, const char *what, const int32_t *inputs, int32_t n_inputs,
                           const ckm_i_attrs *attrs, int32_t *out, ckm_error *err)
{
    char suffix[64];
    snprintf(suffix, sizeof suffix, ":grad_%s", what);
    return ckm_i_step_add(g->step,
                          &(ckm_i_step_op){.kind = kind,
                                           .name = g->forward.name,
                                           .suffix = suffix,
                                           .inputs = {inputs, n_inputs},
                                           .attrs = attrs,
                                           .n_outputs = 1},
                          out, err);
}

// An operator that takes the shape to give as its attribute, unless the tensor has it.
static ckm_status bring_to(ckm_i_grad *g, const char *kind, const char *what, int32_t tensor, const ckm_shape *shape,
                           int32_t *out, ckm_error *err)
{
    ckm_shape have = ckm_i_step_shape(g->step, tensor);
    if (ckm_i_shapes_equal(&have, shape)) {
        *out = tensor;
        return CKM_OK;
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_shape(&attrs, "shape", shape);
    return ckm_i_grad_emit(g, kind, what, &tensor, 1, &attrs, out, err);
}

ckm_status ckm_i_grad_reshape(ckm_i_grad *g, const char *what, int32_t tensor, const ckm_shape *shape, int32_t *out,
                              ckm_error *err)
{
    return bring_to(g, "reshape", what, tensor, shape, out, err);
}

ckm_status ckm_i_grad_expand(ckm_i_grad *g, const char *what, int32_t tensor, const ckm_shape *shape, int32_t *out,
                             ckm_error *err)
{
    return bring_to(g, "expand", what, tensor, shape, out, err);
}

ckm_status ckm_i_grad_sum_to(ckm_i_grad *g, const char *what, int32_t tensor, const ckm_shape *shape, int32_t *out,
                             ckm_error *err)
{
    return bring_to(g, "sum_to", what, tensor, shape, out, err);
}

ckm_status ckm_i_grad_scale(ckm_i_grad *g, const char *what, int32_t tensor, double alpha, int32_t *out, ckm_error *err)
{
    if (alpha == 1.0) {
        *out = tensor;
        return CKM_OK;
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put(&attrs, ckm_i_attr_real("alpha", alpha));
    return ckm_i_grad_emit(g, "scale", what, &tensor, 1, &attrs, out, err);
}

ckm_status ckm_i_grad_give(ckm_i_grad *g, int32_t i, const char *what, int32_t tensor, ckm_error *err)
{
    ckm_i_step *s = g->step;
    int32_t target = ckm_i_grad_in(g, i);
    ckm_shape shape = ckm_i_step_shape(s, target);
    CKM_I_CHECK(ckm_i_grad_sum_to(g, what, tensor, &shape, &tensor, err));
    if (s->gradients[target] < 0) {
        s->gradients[target] = tensor;
        return CKM_OK;
    }
    int32_t operands[2] = {s->gradients[target], tensor};
    ckm_i_step_mark kept = s->now;
    s->now.source = -1;
    ckm_status status = ckm_i_step_add(s,
                                       &(ckm_i_step_op){.kind = "add",
                                                        .name = s->graph->tensors[target].name,
                                                        .suffix = ":grad_sum",
                                                        .inputs = {operands, 2},
                                                        .n_outputs = 1},
                                       &s->gradients[target], err);
    s->now = kept;
    return status;
}

ckm_status ckm_i_grad_unsupported(const ckm_i_grad *g, const char *what, ckm_error *err)
{
    return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "operator \"%.200s\" (%s) has no gradient with respect to its %s",
                       g->forward.name, g->forward.op_class->kind, what);
}

// ---- rules that many kinds share

// Adds <kind>_backward(dy, v).
static ckm_status backward(ckm_i_grad *g, int32_t v, ckm_error *err)
{
    char kind[64];
    int32_t inputs[2] = {g->dy, v};
    int32_t out;
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    snprintf(kind, sizeof kind, "%s_backward", g->forward.op_class->kind);
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, 2, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_reads_output(ckm_i_grad *g, ckm_error *err)
{
    return backward(g, g->forward.outputs[0], err);
}

ckm_status ckm_i_grad_reads_input(ckm_i_grad *g, ckm_error *err)
{
    return backward(g, ckm_i_grad_in(g, 0), err);
}

ckm_status ckm_i_grad_applies_again(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, g->forward.op_class->kind, "x", &g->dy, 1, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}
