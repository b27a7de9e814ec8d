// SPDX-License-Identifier: Apache-2.0
// The loss and the gradient it starts from.
#include "autodiff/step.h"
#include "base/error.h"

static ckm_status cross_entropy(ckm_i_step *s, ckm_error *err)
{
    ckm_shape logits = ckm_i_step_shape(s, s->output);
    if (logits.rank < 2) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "network \"%.200s\" ends in a tensor of %d dimensions: the cross-entropy loss needs one for "
                           "samples and one for classes; the mean squared error does not",
                           s->network->name, (int)logits.rank);
    }
    ckm_shape labels = {.rank = logits.rank - 1};
    for (int32_t i = 0; i < labels.rank; i++) {
        labels.dims[i] = logits.dims[i < s->class_axis ? i : i + 1];
    }
    CKM_I_CHECK(ckm_i_graph_add_tensor(s->graph, "labels", CKM_ROLE_INPUT, CKM_I32, &labels, &s->labels, err));
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_int(&attrs, "axis", s->class_axis);
    int32_t inputs[2] = {s->output, s->labels};
    int32_t outputs[2];
    CKM_I_CHECK(ckm_i_step_add(
        s,
        &(ckm_i_step_op){
            .kind = "softmax_cross_entropy", .name = "loss", .inputs = {inputs, 2}, .attrs = &attrs, .n_outputs = 2},
        outputs, err));
    s->loss = outputs[0];
    s->correct = outputs[1];
    s->n_forward_ops = s->graph->n_ops;
    s->n_forward_tensors = s->graph->n_tensors;
    if (s->judges) {
        return CKM_OK;
    }
    s->now.phase = CKM_I_BACKWARD;
    return ckm_i_step_add(s,
                          &(ckm_i_step_op){.kind = "softmax_cross_entropy_backward",
                                           .name = "loss",
                                           .suffix = ":grad_logits",
                                           .inputs = {inputs, 2},
                                           .attrs = &attrs,
                                           .n_outputs = 1},
                          outputs, err);
}

static ckm_status squared_error(ckm_i_step *s, ckm_error *err)
{
    ckm_shape shape = ckm_i_step_shape(s, s->output);
    CKM_I_CHECK(ckm_i_graph_add_tensor(s->graph, "target", CKM_ROLE_INPUT, s->graph->tensors[s->output].dtype, &shape,
                                       &s->labels, err));
    int32_t inputs[2] = {s->output, s->labels};
    int32_t gradient;
    CKM_I_CHECK(ckm_i_step_add(
        s, &(ckm_i_step_op){.kind = "mse", .name = "loss", .inputs = {inputs, 2}, .n_outputs = 1}, &s->loss, err));
    s->n_forward_ops = s->graph->n_ops;
    s->n_forward_tensors = s->graph->n_tensors;
    if (s->judges) {
        return CKM_OK;
    }
    s->now.phase = CKM_I_BACKWARD;
    return ckm_i_step_add(s,
                          &(ckm_i_step_op){.kind = "mse_backward",
                                           .name = "loss",
                                           .suffix = ":grad_prediction",
                                           .inputs = {inputs, 2},
                                           .n_outputs = 1},
                          &gradient, err);
}

// The gradient of the output is the last tensor of the step graph afterwards; a step that judges has none.
ckm_status ckm_i_step_loss(ckm_i_step *s, ckm_loss_kind loss, ckm_error *err)
{
    s->now = (ckm_i_step_mark){CKM_I_LOSS, -1};
    switch (loss) {
    case CKM_LOSS_SOFTMAX_CROSS_ENTROPY:
        return cross_entropy(s, err);
    case CKM_LOSS_MSE:
        return squared_error(s, err);
    case CKM_LOSS_OF_TASK:  // resolved by the caller
        break;
    }
    return ckm_i_error(err, CKM_ERR_ARGUMENT, "loss %d does not exist", (int)loss);
}
