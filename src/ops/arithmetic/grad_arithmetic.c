// SPDX-License-Identifier: Apache-2.0
// Gradients of arithmetic with broadcasting, and of choices. What broadcasting repeats is summed when the gradient
// is given to its operand.
#include "ops/gradients.h"

ckm_status ckm_i_grad_of_add(ckm_i_grad *g, ckm_error *err)
{
    for (int32_t i = 0; i < g->forward.n_inputs; i++) {
        if (ckm_i_grad_wants(g, i)) {
            CKM_I_CHECK(ckm_i_grad_give(g, i, "operand", g->dy, err));
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_grad_of_sub(ckm_i_grad *g, ckm_error *err)
{
    if (ckm_i_grad_wants(g, 1)) {
        ckm_shape b = ckm_i_step_shape(g->step, ckm_i_grad_in(g, 1));
        int32_t db;
        CKM_I_CHECK(ckm_i_grad_sum_to(g, "b", g->dy, &b, &db, err));
        CKM_I_CHECK(ckm_i_grad_emit(g, "neg", "b", &db, 1, NULL, &db, err));
        CKM_I_CHECK(ckm_i_grad_give(g, 1, "b", db, err));
    }
    return ckm_i_grad_wants(g, 0) ? ckm_i_grad_give(g, 0, "a", g->dy, err) : CKM_OK;
}

static ckm_status give_of(ckm_i_grad *g, int32_t i, const char *kind, const char *what, const int32_t *inputs,
                          int32_t n_inputs, const ckm_i_attrs *attrs, ckm_error *err)
{
    int32_t out;
    if (!ckm_i_grad_wants(g, i)) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, what, inputs, n_inputs, attrs, &out, err));
    return ckm_i_grad_give(g, i, what, out, err);
}

ckm_status ckm_i_grad_of_mul(ckm_i_grad *g, ckm_error *err)
{
    int32_t for_a[2] = {g->dy, ckm_i_grad_in(g, 1)};
    int32_t for_b[2] = {g->dy, ckm_i_grad_in(g, 0)};
    CKM_I_CHECK(give_of(g, 1, "mul", "b", for_b, 2, NULL, err));
    return give_of(g, 0, "mul", "a", for_a, 2, NULL, err);
}

ckm_status ckm_i_grad_of_div(ckm_i_grad *g, ckm_error *err)
{
    int32_t for_a[2] = {g->dy, ckm_i_grad_in(g, 1)};
    int32_t for_b[3] = {g->dy, g->forward.outputs[0], ckm_i_grad_in(g, 1)};
    CKM_I_CHECK(give_of(g, 1, "div_backward_b", "b", for_b, 3, NULL, err));
    return give_of(g, 0, "div", "a", for_a, 2, NULL, err);
}

ckm_status ckm_i_grad_of_pow(ckm_i_grad *g, ckm_error *err)
{
    int32_t for_a[3] = {g->dy, ckm_i_grad_in(g, 0), ckm_i_grad_in(g, 1)};
    int32_t for_b[3] = {g->dy, ckm_i_grad_in(g, 0), g->forward.outputs[0]};
    CKM_I_CHECK(give_of(g, 1, "pow_backward_b", "b", for_b, 3, NULL, err));
    return give_of(g, 0, "pow_backward_a", "a", for_a, 3, NULL, err);
}

// The remainder moves with the dividend.
ckm_status ckm_i_grad_of_mod(ckm_i_grad *g, ckm_error *err)
{
    if (ckm_i_grad_wants(g, 1)) {
        return ckm_i_grad_unsupported(g, "divisor", err);
    }
    return ckm_i_grad_give(g, 0, "a", g->dy, err);
}

static ckm_status extreme(ckm_i_grad *g, bool largest, ckm_error *err)
{
    enum { ROOM = 64 };
    int32_t n = g->forward.n_inputs;
    int32_t inputs[ROOM] = {g->dy};
    if (n >= ROOM) {
        return ckm_i_grad_unsupported(g, "operands: there are too many", err);
    }
    for (int32_t i = 0; i < n; i++) {
        inputs[i + 1] = g->forward.inputs[i];
    }
    for (int32_t i = 0; i < n; i++) {
        if (n == 1) {
            return ckm_i_grad_give(g, 0, "operand", g->dy, err);
        }
        ckm_i_attrs attrs = {0};
        ckm_i_attrs_put_int(&attrs, "operand", i);
        ckm_i_attrs_put_int(&attrs, "largest", largest);
        CKM_I_CHECK(give_of(g, i, "extreme_backward", "operand", inputs, n + 1, &attrs, err));
    }
    return CKM_OK;
}

ckm_status ckm_i_grad_of_maximum(ckm_i_grad *g, ckm_error *err)
{
    return extreme(g, true, err);
}

ckm_status ckm_i_grad_of_minimum(ckm_i_grad *g, ckm_error *err)
{
    return extreme(g, false, err);
}

// condition, a, b
ckm_status ckm_i_grad_of_where(ckm_i_grad *g, ckm_error *err)
{
    int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, 0)};
    for (int32_t i = 1; i < 3; i++) {
        ckm_i_attrs attrs = {0};
        ckm_i_attrs_put_int(&attrs, "value", i == 1);
        CKM_I_CHECK(give_of(g, i, "select_backward", i == 1 ? "a" : "b", inputs, 2, &attrs, err));
    }
    return CKM_OK;
}

ckm_status ckm_i_grad_of_cast(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_int(&attrs, "dtype", (int64_t)g->step->graph->tensors[ckm_i_grad_in(g, 0)].dtype);
    return give_of(g, 0, "cast", "x", &g->dy, 1, &attrs, err);
}
