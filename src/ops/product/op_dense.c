// SPDX-License-Identifier: Apache-2.0
// Fully connected layers, on the last axis.
#include "base/checked.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status dense_units(const ckm_i_op_view *v, int64_t *in, int64_t *units, ckm_error *err)
{
    int64_t transposed;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_check_rank(v, 1, 2, 2, err));
    CKM_I_CHECK(ckm_i_op_int(v, "transposed", 0, 1, 0, &transposed, err));
    const ckm_shape *x = &v->in[0]->shape;
    const ckm_shape *weight = &v->in[1]->shape;
    int64_t features = x->dims[x->rank - 1];
    if (weight->dims[transposed] != features) {
        char text[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%lld features do not fit a weight of %s%s", (long long)features,
                              ckm_i_shape_text(weight, text, sizeof text), transposed ? " (transposed)" : "");
    }
    *in = features;
    *units = weight->dims[1 - transposed];
    return CKM_OK;
}

static ckm_status dense_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t in;
    int64_t units;
    CKM_I_CHECK(dense_units(v, &in, &units, err));
    ckm_shape out = v->in[0]->shape;
    out.dims[out.rank - 1] = units;
    if (v->op->n_inputs > 2 && v->in[2] != NULL) {
        ckm_shape sum;
        CKM_I_CHECK(ckm_i_op_broadcast(v, &v->in[2]->shape, &out, &sum, err));
        for (int32_t i = 0; i < sum.rank; i++) {
            if (sum.rank != out.rank || sum.dims[i] != out.dims[i]) {
                char text[256];
                return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "a bias of %s is larger than the output",
                                      ckm_i_shape_text(&v->in[2]->shape, text, sizeof text));
            }
        }
    }
    shapes[0] = out;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status dense_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    int64_t in;
    int64_t units;
    CKM_I_CHECK(dense_units(v, &in, &units, err));
    return ckm_i_op_macs_per_output(v, in, macs, err);
}

const ckm_i_op_class ckm_i_ops_dense[] = {
    {CKM_I_OP(dense, 2, 3, 1, dense_infer, dense_macs), CKM_I_OP_TRAITS(PRODUCT, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_MATRIX, .of[1] = CKM_I_INIT_GLOROT}, .lower = ckm_i_lower_dense,
     CKM_I_OP_LEARNS(ckm_i_grad_of_dense)},
    {0},
};
