// SPDX-License-Identifier: Apache-2.0
// A node of the file as converters see it: its operands, its attributes, its constants, and errors that name it.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "import/onnx_convert.h"

// In parentheses: the function, not the macro around it.
ckm_status(ckm_i_onnx_node_error)(const ckm_i_onnx_node *node, ckm_error *err, ckm_status code, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ckm_i_error(err, code, "node \"%.200s\" (%.60s): %s", node->label, node->op_type, message);
}

ckm_i_onnx_value *ckm_i_onnx_input(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t slot)
{
    return slot >= 0 && slot < node->n_in && node->in[slot] >= 0 ? &c->model->values[node->in[slot]] : NULL;
}

ckm_status ckm_i_onnx_operand(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t slot,
                              ckm_i_onnx_value **out, ckm_error *err)
{
    ckm_i_onnx_value *value = ckm_i_onnx_input(c, node, slot);
    if (value == NULL) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "input %d is missing", (int)slot);
    }
    if (!value->typed) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "the shape of its input \"%.200s\" is not known",
                                     value->name);
    }
    *out = value;
    return CKM_OK;
}

static ckm_status too_many(const ckm_i_onnx_node *node, const char *name, ckm_error *err)
{
    return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "%s has more than %d elements", name, CKM_I_ATTR_MAX);
}

// The constant in a slot as a list; *elements is -1 when the slot is empty.
static ckm_status constant_list(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const char *name,
                                int32_t slot, const ckm_i_onnx_value **out, int64_t *elements, ckm_error *err)
{
    const ckm_i_onnx_value *value = ckm_i_onnx_input(c, node, slot);
    *elements = -1;
    if (value == NULL) {
        return CKM_OK;
    }
    if (!value->typed || value->data == NULL) {
        // An empty list, as Resize has for what it does not use, has nothing to hold.
        if (value->typed && value->shape.rank == 1 && value->shape.dims[0] == 0) {
            return CKM_OK;
        }
        return ckm_i_onnx_node_error(
            node, err, CKM_ERR_UNSUPPORTED,
            "its %s \"%.200s\" must be a constant; it is computed from data, or its values are not in "
            "the file",
            name, value->name);
    }
    CKM_I_CHECK(ckm_i_shape_elements(&value->shape, elements, err));
    if (*elements > CKM_I_ATTR_MAX) {
        return too_many(node, name, err);
    }
    *out = value;
    return CKM_OK;
}

ckm_status ckm_i_onnx_ints(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const char *name, int32_t slot,
                           int64_t *out, int32_t *n, ckm_error *err)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, name);
    *n = -1;
    if (attr != NULL) {
        if (attr->n_ints > CKM_I_ATTR_MAX) {
            return too_many(node, name, err);
        }
        *n = (int32_t)attr->n_ints;
        for (int32_t i = 0; i < *n; i++) {
            out[i] = attr->ints[i];
        }
        return CKM_OK;
    }
    const ckm_i_onnx_value *value = NULL;
    int64_t elements;
    CKM_I_CHECK(constant_list(c, node, name, slot, &value, &elements, err));
    if (elements < 0) {
        return CKM_OK;
    }
    if (ckm_i_onnx_dtype_is_real(value->dtype)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "its %s must be integers", name);
    }
    *n = (int32_t)elements;
    for (int32_t i = 0; i < *n; i++) {
        out[i] = value->data[i].i;
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_reals(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const char *name, int32_t slot,
                            double *out, int32_t *n, ckm_error *err)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, name);
    *n = -1;
    if (attr != NULL) {
        if (attr->n_floats > CKM_I_ATTR_MAX) {
            return too_many(node, name, err);
        }
        *n = (int32_t)attr->n_floats;
        for (int32_t i = 0; i < *n; i++) {
            out[i] = (double)attr->floats[i];
        }
        return CKM_OK;
    }
    const ckm_i_onnx_value *value = NULL;
    int64_t elements;
    CKM_I_CHECK(constant_list(c, node, name, slot, &value, &elements, err));
    if (elements < 0) {
        return CKM_OK;
    }
    *n = (int32_t)elements;
    for (int32_t i = 0; i < *n; i++) {
        out[i] = ckm_i_onnx_dtype_is_real(value->dtype) ? value->data[i].r : (double)value->data[i].i;
    }
    return CKM_OK;
}

void ckm_i_onnx_set_constant(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_dtype dtype,
                             const ckm_shape *shape, ckm_i_onnx_scalar *data)
{
    if (node->n_out < 1 || node->out[0] < 0) {
        free(data);
        return;
    }
    ckm_i_onnx_value *out = &c->model->values[node->out[0]];
    free(out->data);
    out->role = CKM_ROLE_CONSTANT;
    out->typed = true;
    out->dtype = dtype;
    out->shape = *shape;
    out->data = data;
    c->folded += data != NULL ? ckm_i_elements(shape) : 0;
}
