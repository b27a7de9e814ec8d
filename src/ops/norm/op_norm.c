// SPDX-License-Identifier: Apache-2.0
// Batch normalization.
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"

// x, then any of gamma, beta, moving mean and moving variance, one element a channel each. Outputs past the
// first are statistics of the batch or updated moving ones: one element a channel too.
static ckm_status batch_norm_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    static const char *const roles[] = {"x", "gamma", "beta", "mean", "variance"};
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    const ckm_shape *x = &v->in[0]->shape;
    int64_t wanted;
    int32_t axis;
    CKM_I_CHECK(
        ckm_i_op_int(v, "axis", -CKM_MAX_RANK, CKM_MAX_RANK, ckm_i_channel_axis(v->graph, x->rank), &wanted, err));
    CKM_I_CHECK(ckm_i_op_axis(v, wanted, x->rank, &axis, err));
    ckm_shape per_channel = {.rank = 1, .dims = {x->dims[axis]}};
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        const ckm_i_graph_tensor *t = v->in[i];
        if (t != NULL && (t->shape.rank != 1 || t->shape.dims[0] != per_channel.dims[0])) {
            char text[256];
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%s is %s; it must be one element for each of %lld channels",
                                  roles[i], ckm_i_shape_text(&t->shape, text, sizeof text),
                                  (long long)per_channel.dims[0]);
        }
    }
    shapes[0] = *x;
    dtypes[0] = v->in[0]->dtype;
    for (int32_t i = 1; i < v->op->n_outputs; i++) {
        shapes[i] = per_channel;
        dtypes[i] = v->in[0]->dtype;
    }
    return CKM_OK;
}

static ckm_status batch_norm_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, 4, macs, err);
}

const ckm_i_op_class ckm_i_ops_norm[] = {
    {CKM_I_OP(batch_norm, 1, 5, 5, batch_norm_infer, batch_norm_macs), CKM_I_OP_PLAIN(TWO_PASSES, NONE),
     .lower = ckm_i_lower_batch_norm, CKM_I_OP_REWRITTEN},
    {0},
};
