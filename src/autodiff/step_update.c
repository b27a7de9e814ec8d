// SPDX-License-Identifier: Apache-2.0
// Updates of parameters, and the state that an optimizer keeps for each.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autodiff/step.h"
#include "base/alloc.h"
#include "base/error.h"

// A tensor of the parameter's shape that is kept across steps, named <parameter>:<what>.
static ckm_status add_state(ckm_i_step *s, int32_t parameter, const char *what, int32_t *out, ckm_error *err)
{
    const ckm_i_graph_tensor *p = &s->graph->tensors[parameter];
    ckm_shape shape = p->shape;
    ckm_dtype dtype = p->dtype;
    size_t room = strlen(p->name) + strlen(what) + 2;
    char *name = ckm_i_malloc(room, 1);
    if (name == NULL) {
        return ckm_i_error_memory(err);
    }
    snprintf(name, room, "%s:%s", p->name, what);
    ckm_status status = ckm_i_graph_add_tensor(s->graph, name, CKM_ROLE_STATE, dtype, &shape, out, err);
    free(name);
    return status;
}

static ckm_status add_update(ckm_i_step *s, const char *kind, const int32_t *inputs, int32_t n,
                             const ckm_i_attrs *attrs, ckm_error *err)
{
    int32_t none;
    ckm_i_step_mark kept = s->now;
    s->now = (ckm_i_step_mark){CKM_I_UPDATE, -1};
    ckm_status status = ckm_i_step_add(s,
                                       &(ckm_i_step_op){.kind = kind,
                                                        .name = s->graph->tensors[inputs[0]].name,
                                                        .suffix = ":update",
                                                        .inputs = {inputs, n},
                                                        .attrs = attrs},
                                       &none, err);
    s->now = kept;
    return status;
}

static ckm_status sgd(ckm_i_step *s, const ckm_optimizer *o, int32_t parameter, ckm_i_attrs *attrs, ckm_error *err)
{
    int32_t inputs[3] = {parameter, s->gradients[parameter], -1};
    if (o->momentum != 0.0) {
        CKM_I_CHECK(add_state(s, parameter, "momentum", &inputs[2], err));
    }
    ckm_i_attrs_put(attrs, ckm_i_attr_real("momentum", o->momentum));
    ckm_i_attrs_put_int(attrs, "nesterov", o->nesterov);
    return add_update(s, "update_sgd", inputs, o->momentum != 0.0 ? 3 : 2, attrs, err);
}

static ckm_status adam(ckm_i_step *s, const ckm_optimizer *o, const char *kind, int32_t parameter, ckm_i_attrs *attrs,
                       ckm_error *err)
{
    int32_t inputs[4] = {parameter, s->gradients[parameter], -1, -1};
    CKM_I_CHECK(add_state(s, parameter, "m", &inputs[2], err));
    CKM_I_CHECK(add_state(s, parameter, "v", &inputs[3], err));
    ckm_i_attrs_put(attrs, ckm_i_attr_real("beta1", o->beta1));
    ckm_i_attrs_put(attrs, ckm_i_attr_real("beta2", o->beta2));
    ckm_i_attrs_put(attrs, ckm_i_attr_real("epsilon", o->epsilon));
    return add_update(s, kind, inputs, 4, attrs, err);
}

// Replaces the parameter's gradient by the result of an operator on it, and on `other` unless that is negative.
static ckm_status replace_gradient(ckm_i_step *s, int32_t parameter, const char *kind, const char *suffix,
                                   int32_t other, ckm_error *err)
{
    const int32_t inputs[2] = {s->gradients[parameter], other};
    ckm_i_step_mark kept = s->now;
    s->now = (ckm_i_step_mark){CKM_I_BACKWARD, -1};
    ckm_status status = ckm_i_step_add(s,
                                       &(ckm_i_step_op){.kind = kind,
                                                        .name = s->graph->tensors[parameter].name,
                                                        .suffix = suffix,
                                                        .inputs = {inputs, other >= 0 ? 2 : 1},
                                                        .n_outputs = 1},
                                       &s->gradients[parameter], err);
    s->now = kept;
    return status;
}

ckm_status ckm_i_step_send(ckm_i_step *s, int32_t parameter, ckm_error *err)
{
    return replace_gradient(s, parameter, "gradient_send", ":send", -1, err);
}

static ckm_status take_share(ckm_i_step *s, int32_t parameter, ckm_error *err)
{
    int32_t sum = -1;
    switch (s->sharing) {
    case CKM_I_SHARING_SUM:
        CKM_I_CHECK(add_state(s, parameter, "sum", &sum, err));
        return replace_gradient(s, parameter, "gradient_sum", ":accumulate", sum, err);
    case CKM_I_SHARING_EXCHANGE:
        return replace_gradient(s, parameter, "gradient_receive", ":receive", -1, err);
    case CKM_I_SHARING_NONE:
        break;
    }
    return CKM_OK;
}

ckm_status ckm_i_step_update(ckm_i_step *s, const ckm_optimizer *optimizer, int32_t parameter, ckm_error *err)
{
    ckm_i_attrs attrs = {0};
    CKM_I_CHECK(take_share(s, parameter, err));
    ckm_i_attrs_put(&attrs, ckm_i_attr_real("weight_decay", optimizer->weight_decay));
    switch (optimizer->kind) {
    case CKM_OPTIMIZER_SGD:
        return sgd(s, optimizer, parameter, &attrs, err);
    case CKM_OPTIMIZER_ADAM:
        return adam(s, optimizer, "update_adam", parameter, &attrs, err);
    case CKM_OPTIMIZER_ADAMW:
        return adam(s, optimizer, "update_adamw", parameter, &attrs, err);
    case CKM_OPTIMIZER_NONE:
        break;
    }
    return ckm_i_error(err, CKM_ERR_ARGUMENT, "optimizer %d does not exist", (int)optimizer->kind);
}
