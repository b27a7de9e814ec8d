// SPDX-License-Identifier: Apache-2.0
// Sums of products in Einstein's notation: "bhid,bhjd->bhij". Every letter is an axis; letters that the
// result does not have are summed over.
#include <string.h>

#include "base/checked.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

// Size of every letter's axis, 0 for letters not met.
typedef struct letters {
    int64_t size[128];
} letters;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Binds one operand's letters to the dimensions of its tensor. *at moves behind them.
static ckm_status bind_operand(const ckm_i_op_view *v, int32_t i, const char **at, letters *bound, ckm_error *err)
{
    const ckm_shape *shape = &v->in[i]->shape;
    int32_t axis = 0;
    for (; is_letter(**at); (*at)++, axis++) {
        int64_t *size = &bound->size[(unsigned char)**at];
        if (axis >= shape->rank || shape->dims[axis] < 1 ||
            (*size > 1 && shape->dims[axis] > 1 && *size != shape->dims[axis])) {
            break;
        }
        *size = shape->dims[axis] > *size ? shape->dims[axis] : *size;
    }
    if (axis != shape->rank || is_letter(**at)) {
        char text[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "operand %d of shape %s does not fit the equation", (int)i,
                              ckm_i_shape_text(shape, text, sizeof text));
    }
    return CKM_OK;
}

// Reads the equation up to what follows the arrow.
static ckm_status read_equation(const ckm_i_op_view *v, letters *bound, const char **result, ckm_error *err)
{
    const char *at = ckm_i_op_attr_text(v->op, "equation", "");
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        if (v->in[i] == NULL || (i > 0 && *at++ != ',')) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the equation does not have %d operands",
                                  (int)v->op->n_inputs);
        }
        CKM_I_CHECK(bind_operand(v, i, &at, bound, err));
    }
    if (strncmp(at, "->", 2) != 0) {
        return ckm_i_op_error(v, err, CKM_ERR_UNSUPPORTED,
                              "only equations of letters, commas and an arrow are supported");
    }
    *result = at + 2;
    return CKM_OK;
}

static ckm_status infer_einsum(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    letters bound = {{0}};
    const char *at;
    ckm_shape out = {0};
    CKM_I_CHECK(read_equation(v, &bound, &at, err));
    for (; *at != '\0'; at++) {
        if (!is_letter(*at) || bound.size[(unsigned char)*at] == 0 || out.rank == CKM_MAX_RANK) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the result of the equation is not made of its operands");
        }
        out.dims[out.rank++] = bound.size[(unsigned char)*at];
    }
    out_shapes[0] = out;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// One for every combination of all letters.
static ckm_status count_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    letters bound = {{0}};
    const char *at;
    int64_t total = 1;
    CKM_I_CHECK(read_equation(v, &bound, &at, err));
    for (int32_t c = 0; c < 128; c++) {
        if (bound.size[c] > 0 && !ckm_i_mul(total, bound.size[c], &total)) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
        }
    }
    *macs = total;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_einsum[] = {
    {CKM_I_OP(einsum, 1, 8, 1, infer_einsum, count_macs), CKM_I_OP_TRAITS(PRODUCT, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .every = CKM_I_INIT_GLOROT}, CKM_I_OP_LEARNS(ckm_i_grad_of_einsum)},
    {0},
};
