// SPDX-License-Identifier: Apache-2.0
// The operator-level training graph: forward operators in normal form, the loss, gradients, updates.
#include <checkmate/autodiff.h>

#include "autodiff/step.h"
#include "base/error.h"
#include "base/options.h"

static ckm_status check_options(const ckm_autodiff_options *o, ckm_error *err)
{
    const ckm_optimizer *p = &o->optimizer;
    if (!(p->momentum >= 0.0 && p->momentum < 1.0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the momentum is %g; it must be at least 0 and below 1", p->momentum);
    }
    if (!(p->beta1 >= 0.0 && p->beta1 < 1.0 && p->beta2 >= 0.0 && p->beta2 < 1.0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the betas are %g and %g; they must be at least 0 and below 1",
                           p->beta1, p->beta2);
    }
    if (!(p->epsilon > 0.0) || !(p->weight_decay >= 0.0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s is %g; it must %s",
                           !(p->epsilon > 0.0) ? "epsilon" : "the weight decay",
                           !(p->epsilon > 0.0) ? p->epsilon : p->weight_decay,
                           !(p->epsilon > 0.0) ? "be positive" : "not be negative");
    }
    return CKM_OK;
}

ckm_optimizer ckm_i_optimizer_usual(const ckm_optimizer *given)
{
    ckm_optimizer o = *given;
    o.beta1 = ckm_i_usual(o.beta1, 0.9);
    o.beta2 = ckm_i_usual(o.beta2, 0.999);
    o.epsilon = o.epsilon == 0.0 ? 1e-8 : o.epsilon;
    return o;
}

static ckm_loss_kind loss_of(const ckm_graph *graph, ckm_loss_kind loss)
{
    return loss != CKM_LOSS_OF_TASK          ? loss
           : graph->task == CKM_TASK_DENOISE ? CKM_LOSS_MSE
                                             : CKM_LOSS_SOFTMAX_CROSS_ENTROPY;
}

ckm_status ckm_i_autodiff_op_graph(const ckm_graph *graph, const ckm_autodiff_options *options, ckm_i_sharing sharing,
                                   ckm_training **out, ckm_error *err)
{
    CKM_I_NEED(graph, err);
    CKM_I_NEED(out, err);
    ckm_autodiff_options o = CKM_AUTODIFF_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_autodiff_options, &o, optimizer, options, err));
    o.optimizer = ckm_i_optimizer_usual(&o.optimizer);
    if (graph->n_ops < 1) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "network \"%.200s\" has no operators", graph->name);
    }
    o.loss = loss_of(graph, o.loss);
    ckm_i_step step = {0};
    ckm_status status;
    CKM_I_TRY(check_options(&o, err));
    CKM_I_TRY(ckm_i_step_init(&step, graph, err));
    step.sharing = sharing;
    CKM_I_TRY(ckm_i_step_lower(&step, o.loss, err));
    CKM_I_TRY(ckm_i_step_loss(&step, o.loss, err));
    CKM_I_TRY(ckm_i_step_backward(&step, &o, err));
    CKM_I_TRY(ckm_i_step_training(&step, &o, out, err));
cleanup:
    ckm_i_step_dispose(&step);
    return status;
}

ckm_status ckm_i_autodiff_forward_graph(const ckm_graph *graph, bool evaluates, ckm_training **out, ckm_error *err)
{
    const ckm_autodiff_options nothing_learns = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_i_step step = {0};
    ckm_status status;
    if (graph->n_ops < 1) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "network \"%.200s\" has no operators", graph->name);
    }
    CKM_I_TRY(ckm_i_step_init(&step, graph, err));
    step.predicts = true;
    step.evaluates = evaluates;
    CKM_I_TRY(ckm_i_step_lower_outputs(&step, err));
    CKM_I_TRY(ckm_i_step_training(&step, &nothing_learns, out, err));
cleanup:
    ckm_i_step_dispose(&step);
    return status;
}

ckm_status ckm_i_autodiff_validation_graph(const ckm_graph *graph, ckm_loss_kind loss, ckm_training **out,
                                           ckm_error *err)
{
    const ckm_autodiff_options nothing_learns = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_i_step step = {0};
    ckm_status status;
    CKM_I_TRY(ckm_i_step_init(&step, graph, err));
    step.predicts = true;
    step.judges = true;
    step.evaluates = true;
    CKM_I_TRY(ckm_i_step_lower(&step, loss_of(graph, loss), err));
    CKM_I_TRY(ckm_i_step_loss(&step, loss_of(graph, loss), err));
    CKM_I_TRY(ckm_i_step_training(&step, &nothing_learns, out, err));
cleanup:
    ckm_i_step_dispose(&step);
    return status;
}

ckm_status ckm_autodiff_op_graph(const ckm_graph *graph, const ckm_autodiff_options *options, ckm_training **out,
                                 ckm_error *err)
{
    return ckm_i_autodiff_op_graph(graph, options, CKM_I_SHARING_NONE, out, err);
}
