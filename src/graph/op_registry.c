// SPDX-License-Identifier: Apache-2.0
// Operator classes by kind.
#include "graph/op_registry.h"

#include <string.h>

#define GROUP_TABLE(group) ckm_i_ops_##group,
static const ckm_i_op_class *const groups[] = {CKM_I_OP_GROUPS(GROUP_TABLE)};

const ckm_i_op_class *ckm_i_op_class_find(const char *kind)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (const ckm_i_op_class *c = groups[i]; c->kind != NULL; c++) {
            if (strcmp(c->kind, kind) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

const ckm_i_op_class *ckm_i_op_class_find_onnx(const char *op_type)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (const ckm_i_op_class *c = groups[i]; c->kind != NULL; c++) {
            if (c->onnx.op_type != NULL && strcmp(c->onnx.op_type, op_type) == 0) {
                return c;
            }
        }
    }
    return NULL;
}
