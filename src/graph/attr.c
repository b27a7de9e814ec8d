// SPDX-License-Identifier: Apache-2.0
// Attributes of operators: making and looking them up.
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

ckm_i_attr ckm_i_attr_ints(const char *key, const int64_t *values, int32_t n)
{
    ckm_i_attr attr = {.key = key, .type = CKM_I_ATTR_INTS};
    attr.n = n < CKM_I_ATTR_MAX ? n : CKM_I_ATTR_MAX;
    if (attr.n > 0) {
        memcpy(attr.ints, values, (size_t)attr.n * sizeof *values);
    }
    return attr;
}

ckm_i_attr ckm_i_attr_real(const char *key, double value)
{
    return (ckm_i_attr){.key = key, .type = CKM_I_ATTR_REAL, .n = 1, .real = value};
}

ckm_i_attr ckm_i_attr_word(const char *key, const char *value)
{
    ckm_i_attr attr = {.key = key, .type = CKM_I_ATTR_WORD, .n = 1};
    snprintf(attr.word, sizeof attr.word, "%s", value);
    return attr;
}

const ckm_i_attr *ckm_i_op_attr(const ckm_i_graph_op *op, const char *key)
{
    for (int32_t i = 0; i < op->n_attrs; i++) {
        if (strcmp(op->attrs[i].key, key) == 0) {
            return &op->attrs[i];
        }
    }
    return NULL;
}

int64_t ckm_i_op_attr_int(const ckm_i_graph_op *op, const char *key, int32_t i, int64_t fallback)
{
    const ckm_i_attr *attr = ckm_i_op_attr(op, key);
    return attr != NULL && attr->type == CKM_I_ATTR_INTS && i >= 0 && i < attr->n ? attr->ints[i] : fallback;
}

double ckm_i_op_attr_double(const ckm_i_graph_op *op, const char *key, double fallback)
{
    const ckm_i_attr *attr = ckm_i_op_attr(op, key);
    return attr != NULL && attr->type == CKM_I_ATTR_REAL ? attr->real : fallback;
}

const char *ckm_i_op_attr_text(const ckm_i_graph_op *op, const char *key, const char *fallback)
{
    const ckm_i_attr *attr = ckm_i_op_attr(op, key);
    return attr != NULL && attr->type == CKM_I_ATTR_WORD ? attr->word : fallback;
}
