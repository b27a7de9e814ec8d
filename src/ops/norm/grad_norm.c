// SPDX-License-Identifier: Apache-2.0
// Gradients of normalizations. They read the statistics that the forward operator saved, where there are any.
#include <stdio.h>

#include "ops/gradients.h"

enum { X = 0, SCALE = 1, BIAS = 2 };

static ckm_status give_weights(ckm_i_grad *g, int32_t i, const char *what, int32_t tensor, ckm_error *err)
{
    if (!ckm_i_grad_wants(g, i)) {
        return CKM_OK;
    }
    ckm_shape have = ckm_i_step_shape(g->step, tensor);
    ckm_shape want = ckm_i_step_shape(g->step, ckm_i_grad_in(g, i));
    // group_norm with one scale a group: channels of a group are neighbours.
    if (want.rank == 1 && have.rank == 1 && want.dims[0] != have.dims[0] && want.dims[0] != 1) {
        ckm_shape split = {2, {want.dims[0], have.dims[0] / want.dims[0]}};
        ckm_shape column = {2, {want.dims[0], 1}};
        CKM_I_CHECK(ckm_i_grad_reshape(g, what, tensor, &split, &tensor, err));
        CKM_I_CHECK(ckm_i_grad_sum_to(g, what, tensor, &column, &tensor, err));
        CKM_I_CHECK(ckm_i_grad_reshape(g, what, tensor, &want, &tensor, err));
    } else if (want.rank > have.rank) {  // leading ones
        ckm_shape padded = {.rank = want.rank};
        for (int32_t k = 0; k < want.rank; k++) {
            int32_t from = k - (want.rank - have.rank);
            padded.dims[k] = from < 0 ? 1 : have.dims[from];
        }
        CKM_I_CHECK(ckm_i_grad_reshape(g, what, tensor, &padded, &tensor, err));
    }
    return ckm_i_grad_give(g, i, what, tensor, err);
}

// Forward: x, [scale], [bias], … -> y, mean, inverse deviation.
static ckm_status normalization(ckm_i_grad *g, const char *kind, ckm_error *err)
{
    char suffix[] = ":grad_x";
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[5] = {g->dy, ckm_i_grad_in(g, X), ckm_i_grad_in(g, SCALE), g->forward.outputs[1],
                         g->forward.outputs[2]};
    int32_t outputs[3];
    CKM_I_CHECK(ckm_i_step_add(g->step,
                               &(ckm_i_step_op){.kind = kind,
                                                .name = g->forward.name,
                                                .suffix = suffix,
                                                .inputs = {inputs, 5},
                                                .attrs = &attrs,
                                                .n_outputs = 3},
                               outputs, err));
    CKM_I_CHECK(give_weights(g, SCALE, "scale", outputs[1], err));
    CKM_I_CHECK(give_weights(g, BIAS, "bias", outputs[2], err));
    return ckm_i_grad_wants(g, X) ? ckm_i_grad_give(g, X, "x", outputs[0], err) : CKM_OK;
}

ckm_status ckm_i_grad_of_batch_norm(ckm_i_grad *g, ckm_error *err)
{
    return normalization(g, "batch_norm_backward", err);
}

ckm_status ckm_i_grad_of_layer_norm(ckm_i_grad *g, ckm_error *err)
{
    return normalization(g, "layer_norm_backward", err);
}

ckm_status ckm_i_grad_of_group_norm(ckm_i_grad *g, ckm_error *err)
{
    return normalization(g, "group_norm_backward", err);
}

// Forward: x, [scale] -> y, inverse root mean square.
ckm_status ckm_i_grad_of_rms_norm(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[4] = {g->dy, ckm_i_grad_in(g, X), ckm_i_grad_in(g, SCALE), g->forward.outputs[1]};
    int32_t outputs[2];
    CKM_I_CHECK(ckm_i_step_add(g->step,
                               &(ckm_i_step_op){.kind = "rms_norm_backward",
                                                .name = g->forward.name,
                                                .suffix = ":grad_x",
                                                .inputs = {inputs, 4},
                                                .attrs = &attrs,
                                                .n_outputs = 2},
                               outputs, err));
    CKM_I_CHECK(give_weights(g, SCALE, "scale", outputs[1], err));
    return ckm_i_grad_wants(g, X) ? ckm_i_grad_give(g, X, "x", outputs[0], err) : CKM_OK;
}

// Forward: x -> y, nothing saved.
static ckm_status without_statistics(ckm_i_grad *g, const char *kind, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, X)};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, 2, &attrs, &out, err));
    return ckm_i_grad_give(g, X, "x", out, err);
}

ckm_status ckm_i_grad_of_local_response_norm(ckm_i_grad *g, ckm_error *err)
{
    return without_statistics(g, "local_response_norm_backward", err);
}

ckm_status ckm_i_grad_of_lp_norm(ckm_i_grad *g, ckm_error *err)
{
    return without_statistics(g, "lp_norm_backward", err);
}
