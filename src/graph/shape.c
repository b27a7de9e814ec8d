// SPDX-License-Identifier: Apache-2.0
// Element types and shapes.
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "graph/graph.h"

int64_t ckm_i_dtype_bytes(ckm_dtype dtype)
{
    switch (dtype) {
    case CKM_F64:
    case CKM_I64:
        return 8;
    case CKM_F32:
    case CKM_I32:
        return 4;
    case CKM_F16:
    case CKM_BF16:
    case CKM_I16:
        return 2;
    case CKM_I8:
    case CKM_U8:
    case CKM_BOOL:
        return 1;
    }
    return 0;
}

ckm_status ckm_i_shape_elements(const ckm_shape *shape, int64_t *elements, ckm_error *err)
{
    int64_t product = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (!ckm_i_mul(product, shape->dims[i], &product)) {
            char text[256];
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "the elements of shape %s do not fit 63 bits",
                               ckm_i_shape_text(shape, text, sizeof text));
        }
    }
    *elements = product;
    return CKM_OK;
}

int64_t ckm_i_elements(const ckm_shape *shape)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        elements *= shape->dims[i];
    }
    return elements;
}

bool ckm_i_shapes_equal(const ckm_shape *a, const ckm_shape *b)
{
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

const char *ckm_i_shape_text(const ckm_shape *shape, char *buf, size_t size)
{
    if (size == 0) {
        return buf;
    }
    snprintf(buf, size, shape->rank == 0 ? "scalar" : "");
    size_t used = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        int written = snprintf(buf + used, size - used, "%s%lld", i > 0 ? "x" : "", (long long)shape->dims[i]);
        if (written < 0 || (size_t)written >= size - used) {
            break;  // cut short: it is only for messages
        }
        used += (size_t)written;
    }
    return buf;
}
