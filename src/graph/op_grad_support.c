// SPDX-License-Identifier: Apache-2.0
#include "graph/op_grad_support.h"

#include <string.h>

ckm_status ckm_i_grad_shape(const ckm_i_op_view *v, const char *key, ckm_shape *out, ckm_error *err)
{
    const ckm_i_attr *attr = ckm_i_op_attr(v->op, key);
    if (attr == NULL || attr->type != CKM_I_ATTR_INTS || attr->n > CKM_MAX_RANK) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute %s must be a list of up to %d integers", key,
                              CKM_MAX_RANK);
    }
    ckm_shape shape = {.rank = attr->n};
    for (int32_t i = 0; i < attr->n; i++) {
        if (attr->ints[i] < 1) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute %s holds %lld at axis %d", key,
                                  (long long)attr->ints[i], (int)i);
        }
        shape.dims[i] = attr->ints[i];
    }
    *out = shape;
    return CKM_OK;
}

ckm_status ckm_i_grad_check(const ckm_i_op_view *v, int32_t i, const ckm_shape *wanted, ckm_error *err)
{
    if (i >= v->op->n_inputs || v->in[i] == NULL) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input %d is missing", (int)i);
    }
    if (!ckm_i_shapes_equal(&v->in[i]->shape, wanted)) {
        char have[256];
        char want[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input %d is %s; it must be %s", (int)i,
                              ckm_i_shape_text(&v->in[i]->shape, have, sizeof have),
                              ckm_i_shape_text(wanted, want, sizeof want));
    }
    return CKM_OK;
}

ckm_status ckm_i_grad_forward(const ckm_i_op_view *v, const ckm_shape *x, const ckm_shape *second, ckm_shape *out,
                              ckm_error *err)
{
    char kind[64];
    const char *own = v->op->op_class->kind;
    const char *end = strstr(own, "_backward");
    size_t n = end != NULL ? (size_t)(end - own) : strlen(own);
    if (n >= sizeof kind) {
        return ckm_i_op_error(v, err, CKM_ERR_UNSUPPORTED, "it has no forward operator");
    }
    memcpy(kind, own, n);
    kind[n] = '\0';
    const ckm_i_op_class *forward = ckm_i_op_class_find(kind);
    if (forward == NULL) {
        return ckm_i_op_error(v, err, CKM_ERR_UNSUPPORTED, "it has no forward operator");
    }
    // The forward operator as it was: the same attributes on tensors of these shapes.
    ckm_i_graph_tensor operands[2] = {{.shape = *x, .dtype = v->in[0]->dtype}};
    ckm_i_graph_op op = *v->op;
    op.n_inputs = 1;
    op.n_outputs = 1;
    ckm_i_op_view view = {.graph = v->graph, .op = &op, .in = {&operands[0]}};
    if (second != NULL) {
        operands[1] = (ckm_i_graph_tensor){.shape = *second, .dtype = v->in[0]->dtype};
        view.in[1] = &operands[1];
        op.n_inputs = 2;
    }
    ckm_dtype ignored;
    return forward->infer(&view, out, &ignored, err);
}

ckm_status ckm_i_grad_check_forward(const ckm_i_op_view *v, const ckm_shape *x, const ckm_shape *second, ckm_error *err)
{
    ckm_shape y = {0};
    CKM_I_CHECK(ckm_i_grad_forward(v, x, second, &y, err));
    return ckm_i_grad_check(v, 0, &y, err);
}

ckm_status ckm_i_grad_infer_same(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

static ckm_status infer_input(const ckm_i_op_view *v, const ckm_shape *second, ckm_shape *shapes, ckm_dtype *dtypes,
                              ckm_error *err)
{
    ckm_shape x;
    CKM_I_CHECK(ckm_i_grad_shape(v, "input_shape", &x, err));
    CKM_I_CHECK(ckm_i_grad_check_forward(v, &x, second, err));
    shapes[0] = x;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

ckm_status ckm_i_grad_infer_input(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    return infer_input(v, NULL, shapes, dtypes, err);
}

ckm_status ckm_i_grad_infer_input_with(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    return infer_input(v, &v->in[1]->shape, shapes, dtypes, err);
}
