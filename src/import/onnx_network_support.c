// SPDX-License-Identifier: Apache-2.0
// What rules see of the network and of the model.
#include <string.h>

#include "base/error.h"
#include "import/onnx_network.h"

ckm_status ckm_i_onnx_refuse(const ckm_i_onnx_network *n, const char *what, ckm_error *err)
{
    return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                       "operator \"%.200s\" (%s) cannot be written to an ONNX file: %s; export to safetensors instead",
                       n->op->name, n->op->op_class->kind, what);
}

// ---- operands and results

const ckm_shape *ckm_i_onnx_in_shape(const ckm_i_onnx_network *n, int32_t i)
{
    return &n->graph->tensors[n->op->inputs[i]].shape;
}

const ckm_shape *ckm_i_onnx_out_shape(const ckm_i_onnx_network *n, int32_t i)
{
    return &n->graph->tensors[n->op->outputs[i]].shape;
}

bool ckm_i_onnx_has(const ckm_i_onnx_network *n, int32_t i)
{
    return i < n->op->n_inputs && n->op->inputs[i] >= 0;
}

const char *ckm_i_onnx_transposed(ckm_i_onnx_network *n, const char *x, ckm_i_onnx_form to)
{
    static const int64_t perms[CKM_I_ONNX_FORMS][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}};
    const char *name = ckm_i_onnx_put_name(n->put, to == CKM_I_ONNX_FIRST ? "%s/nchw" : "%s/nhwc", x);
    ckm_i_onnx_put_begin(n->put, "Transpose", (const char *[]){x, NULL}, (const char *[]){name, NULL});
    ckm_i_onnx_put_ints(n->put, "perm", perms[to], 4);
    ckm_i_onnx_put_end(n->put);
    return name;
}

const ckm_export_tensor *ckm_i_onnx_values(const ckm_i_onnx_network *n, int32_t tensor)
{
    for (int32_t i = 0; i < n->n_tensors; i++) {
        if (strcmp(n->tensors[i].name, n->graph->tensors[tensor].name) == 0) {
            return &n->tensors[i];
        }
    }
    return NULL;
}

const char *ckm_i_onnx_weight(ckm_i_onnx_network *n, int32_t i, const int64_t *perm, const ckm_shape *shape)
{
    int32_t tensor = n->op->inputs[i];
    const ckm_export_tensor *found = ckm_i_onnx_values(n, tensor);
    if (found == NULL) {  // computed, and used unchanged
        return ckm_i_onnx_in(n, i, CKM_I_ONNX_PLAIN);
    }
    ckm_export_tensor values = *found;
    values.shape = shape != NULL ? *shape : values.shape;
    const char *name = values.name;
    for (int k = 2; ckm_i_onnx_put_has(n->put, name); k++) {
        name = ckm_i_onnx_put_name(n->put, "%s/%d", values.name, k);
    }
    ckm_i_onnx_put_tensor(n->put, name, &values, perm);
    return name;
}

const char *ckm_i_onnx_in(ckm_i_onnx_network *n, int32_t i, ckm_i_onnx_form form)
{
    int32_t tensor = n->op->inputs[i];
    ckm_i_onnx_place *p = &n->places[tensor];
    ckm_i_onnx_form other = form == CKM_I_ONNX_PLAIN ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
    if (p->name[form] != NULL) {
        return p->name[form];
    }
    if (p->name[other] == NULL) {
        const ckm_export_tensor *values = ckm_i_onnx_values(n, tensor);
        p->name[CKM_I_ONNX_PLAIN] = n->graph->tensors[tensor].name;  // a leaf
        if (values != NULL && !ckm_i_onnx_put_has(n->put, values->name)) {
            ckm_i_onnx_put_tensor(n->put, values->name, values, NULL);
        }
        if (form == CKM_I_ONNX_PLAIN) {
            return p->name[form];
        }
    }
    p->name[form] = ckm_i_onnx_transposed(n, p->name[other], form);
    return p->name[form];
}

ckm_i_onnx_form ckm_i_onnx_form_of(const ckm_i_onnx_network *n, int32_t i)
{
    const ckm_i_onnx_place *p = &n->places[n->op->inputs[i]];
    return p->name[CKM_I_ONNX_FIRST] != NULL ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
}

void ckm_i_onnx_out(ckm_i_onnx_network *n, int32_t i, ckm_i_onnx_form form, const char *name)
{
    n->places[n->op->outputs[i]].name[form] = name;
}

const char *ckm_i_onnx_one(ckm_i_onnx_network *n, const char *op_type, const char *a, const char *b, const char *out)
{
    ckm_i_onnx_put_begin(n->put, op_type, (const char *[]){a, b, NULL}, (const char *[]){out, NULL});
    ckm_i_onnx_put_end(n->put);
    return out;
}

const char *ckm_i_onnx_part(ckm_i_onnx_network *n, const char *part)
{
    return ckm_i_onnx_put_name(n->put, "%s/%s", n->name, part);
}

const char *ckm_i_onnx_long_list(ckm_i_onnx_network *n, const char *part, const int64_t *values, int32_t count)
{
    return ckm_i_onnx_put_longs(n->put, ckm_i_onnx_part(n, part), values, (ckm_shape){1, {count}});
}

const char *ckm_i_onnx_number(ckm_i_onnx_network *n, const char *part, double value)
{
    float single = (float)value;
    return ckm_i_onnx_put_floats(n->put, ckm_i_onnx_part(n, part), &single, (ckm_shape){0, {0}});
}
