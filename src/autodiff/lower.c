// SPDX-License-Identifier: Apache-2.0
// The forward pass of a step: what the loss depends on, in the network's order and in normal form.
#include "autodiff/lower.h"

#include <stdlib.h>
#include <string.h>

#include "autodiff/fuse.h"
#include "base/alloc.h"
#include "base/error.h"

// What lowering knows of the network.
typedef struct plan {
    int32_t *tensor;         // of the step graph for each of the network, -1: none yet
    bool *live;              // operators that the loss depends on
    ckm_i_fuse fuse;         // what replaces several of them
    const int32_t *outputs;  // the network's
    int32_t n_outputs;
    int32_t softmax;  // operator of which the final softmax is left out, or -1
} plan;

static void plan_dispose(plan *p)
{
    free(p->tensor);
    free(p->live);
    ckm_i_fuse_dispose(&p->fuse);
}

static bool is_softmax(const ckm_i_graph_op *op)
{
    return op->op_class->id == CKM_I_OP_softmax || op->op_class->id == CKM_I_OP_log_softmax;
}

static bool ends_in_softmax(const ckm_i_graph_op *op)
{
    return strcmp(ckm_i_op_attr_text(op, "activation", "linear"), "softmax") == 0;
}

// The first output of the last operator that no other reads.
static ckm_status find_output(const ckm_graph *g, int32_t *output, ckm_error *err)
{
    bool *read = ckm_i_calloc((size_t)g->n_tensors, sizeof *read);
    if (read == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t op = 0; op < g->n_ops; op++) {
        for (int32_t i = 0; i < g->ops[op].n_inputs; i++) {
            if (g->ops[op].inputs[i] >= 0) {
                read[g->ops[op].inputs[i]] = true;
            }
        }
    }
    int32_t found = -1;
    for (int32_t op = g->n_ops - 1; op >= 0 && found < 0; op--) {
        int32_t tensor = g->ops[op].outputs[0];
        if (!read[tensor] && ckm_i_dtype_is_float(g->tensors[tensor].dtype)) {
            found = tensor;
        }
    }
    free(read);
    if (found < 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "network \"%.200s\" has no output of real numbers", g->name);
    }
    *output = found;
    return CKM_OK;
}

static void mark_producer(const ckm_graph *g, plan *p, int32_t tensor)
{
    if (tensor >= 0 && g->tensors[tensor].producer >= 0) {
        p->live[g->tensors[tensor].producer] = true;
    }
}

// The replacement of several operators that begins at this one, or NULL.
static const ckm_i_fused *fused_at(const plan *p, int32_t op)
{
    return p->fuse.item_of != NULL && p->fuse.item_of[op] >= 0 ? &p->fuse.items[p->fuse.item_of[op]] : NULL;
}

static void mark_live(const ckm_graph *g, plan *p)
{
    memset(p->live, 0, (size_t)g->n_ops * sizeof *p->live);
    for (int32_t i = 0; i < p->n_outputs; i++) {
        mark_producer(g, p, p->outputs[i]);
    }
    for (int32_t op = g->n_ops - 1; op >= 0; op--) {
        const ckm_i_fused *fused = fused_at(p, op);
        const int32_t *inputs = fused != NULL ? fused->inputs : g->ops[op].inputs;
        int32_t n = fused != NULL ? fused->n_inputs : g->ops[op].n_inputs;
        for (int32_t i = 0; p->live[op] && i < n; i++) {
            mark_producer(g, p, inputs[i]);
        }
    }
}

// The axis of shape b, a reshape of shape a, that is axis `from` of a: the same size and as many elements behind it; -1: none.
static int32_t follow_axis(const ckm_shape *a, int32_t from, const ckm_shape *b)
{
    int64_t behind = 1;
    for (int32_t i = from + 1; i < a->rank; i++) {
        behind *= a->dims[i];
    }
    int64_t passed = 1;
    for (int32_t i = b->rank - 1; i >= 0; i--) {
        if (passed == behind && b->dims[i] == a->dims[from]) {
            return i;
        }
        passed *= b->dims[i];
    }
    return -1;
}

// Where classes stand when no softmax says so.
static int32_t default_class_axis(const ckm_graph *g, const ckm_shape *output)
{
    return g->layout == CKM_CHANNELS_FIRST && output->rank >= 4 ? 1 : output->rank - 1;
}

static int32_t live_readers(const ckm_graph *g, const plan *p, int32_t tensor)
{
    int32_t n = 0;
    for (int32_t op = 0; op < g->n_ops; op++) {
        for (int32_t i = 0; p->live[op] && i < g->ops[op].n_inputs; i++) {
            n += g->ops[op].inputs[i] == tensor;
        }
    }
    return n;
}

// A softmax at the end of the network, perhaps reshaped afterwards, is part of the loss.
static void find_softmax(const ckm_graph *g, plan *p, int32_t *class_axis)
{
    const ckm_shape *output = &g->tensors[p->outputs[0]].shape;
    int32_t tensor = p->outputs[0];
    *class_axis = default_class_axis(g, output);
    const ckm_i_graph_op *op = &g->ops[g->tensors[tensor].producer];
    while (ckm_i_op_class_is_view(op->op_class) && g->tensors[op->inputs[0]].producer >= 0 &&
           live_readers(g, p, op->inputs[0]) == 1) {
        tensor = op->inputs[0];
        op = &g->ops[g->tensors[tensor].producer];
    }
    if (tensor != op->outputs[0] || (!is_softmax(op) && !ends_in_softmax(op))) {
        return;
    }
    const ckm_shape *shape = &g->tensors[tensor].shape;
    int64_t axis = is_softmax(op) ? ckm_i_op_attr_int(op, "axis", 0, -1) : -1;
    int32_t place = follow_axis(shape, (int32_t)(axis < 0 ? axis + shape->rank : axis), output);
    if (place >= 0) {
        *class_axis = place;
        p->softmax = g->tensors[tensor].producer;
    }
}

// The step's tensor for one of the network; leaves are added when they are first read.
static ckm_status tensor_of(ckm_i_step *s, plan *p, int32_t tensor, int32_t *out, ckm_error *err)
{
    if (tensor >= 0 && p->tensor[tensor] < 0) {
        const ckm_i_graph_tensor *t = &s->network->tensors[tensor];
        if (t->producer >= 0) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                               "operator \"%.200s\" (%s): an output past the first is read; it has no counterpart in "
                               "a step",
                               s->network->ops[t->producer].name, s->network->ops[t->producer].op_class->kind);
        }
        CKM_I_CHECK(ckm_i_graph_add_tensor(s->graph, t->name, t->role, t->dtype, &t->shape, &p->tensor[tensor], err));
    }
    *out = tensor >= 0 ? p->tensor[tensor] : -1;
    return CKM_OK;
}

// An activation that the network fuses with a layer becomes a separate operator after it.
static ckm_status add_activation(ckm_i_lower *l, ckm_error *err)
{
    char suffix[40];
    ckm_i_attrs attrs = {0};
    const char *kind = l->activation;
    if (kind == NULL) {
        return CKM_OK;
    }
    suffix[0] = ':';
    suffix[1] = '\0';
    strncat(suffix, kind, sizeof suffix - 2);
    if (strcmp(kind, "relu6") == 0) {
        kind = "relu";
        ckm_i_attrs_put(&attrs, ckm_i_attr_real("max_value", 6.0));
    } else if (strcmp(kind, "softmax") == 0) {
        ckm_i_attrs_put_int(&attrs, "axis", ckm_i_step_shape(l->step, l->outputs[0]).rank - 1);
    }
    int32_t x = l->outputs[0];
    return ckm_i_step_add(
        l->step,
        &(ckm_i_step_op){
            .kind = kind, .name = l->op->name, .suffix = suffix, .inputs = {&x, 1}, .attrs = &attrs, .n_outputs = 1},
        &l->outputs[0], err);
}

static ckm_status lower_op(ckm_i_step *s, plan *p, int32_t op, ckm_error *err)
{
    const ckm_i_graph_op *o = &s->network->ops[op];
    ckm_i_lower l = {.step = s, .op = o, .n_inputs = o->n_inputs, .n_outputs = o->n_outputs, .kind = o->op_class->kind};
    l.inputs = ckm_i_calloc((size_t)o->n_inputs, sizeof *l.inputs);
    l.outputs = ckm_i_calloc((size_t)o->n_outputs, sizeof *l.outputs);
    ckm_status status = CKM_OK;
    const char *fused = ckm_i_op_attr_text(o, "activation", "linear");
    if (l.inputs == NULL || l.outputs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < o->n_inputs; i++) {
        CKM_I_TRY(tensor_of(s, p, o->inputs[i], &l.inputs[i], err));
    }
    for (int32_t i = 0; i < o->n_outputs; i++) {
        l.outputs[i] = -1;
    }
    s->now.source = op;
    CKM_I_TRY(ckm_i_op_view_init(s->network, op, &l.view, err));
    ckm_i_attrs_copy(&l.attrs, o);
    ckm_i_attrs_remove(&l.attrs, "activation");
    if (p->softmax == op && is_softmax(o)) {
        l.outputs[0] = l.inputs[0];
    } else {
        l.activation = strcmp(fused, "linear") != 0 && p->softmax != op ? fused : NULL;
        CKM_I_TRY((o->op_class->lower != NULL ? o->op_class->lower : ckm_i_lower_copy)(&l, err));
        CKM_I_TRY(add_activation(&l, err));
    }
    for (int32_t i = 0; i < o->n_outputs; i++) {
        p->tensor[o->outputs[i]] = l.outputs[i];
    }
cleanup:
    free(l.inputs);
    free(l.outputs);
    return status;
}

// A view of *tensor with that shape, if it has not got it.
static ckm_status reshape_to(ckm_i_step *s, const char *name, const char *suffix, const ckm_shape *shape,
                             int32_t *tensor, ckm_error *err)
{
    ckm_shape have = ckm_i_step_shape(s, *tensor);
    if (ckm_i_shapes_equal(&have, shape)) {
        return CKM_OK;
    }
    ckm_i_attrs attrs = {0};
    int32_t x = *tensor;
    ckm_i_attrs_put_shape(&attrs, "shape", shape);
    return ckm_i_step_add(
        s,
        &(ckm_i_step_op){
            .kind = "reshape", .name = name, .suffix = suffix, .inputs = {&x, 1}, .attrs = &attrs, .n_outputs = 1},
        tensor, err);
}

static ckm_status lower_fused(ckm_i_step *s, plan *p, const ckm_i_fused *fused, ckm_error *err)
{
    const ckm_graph *g = s->network;
    const char *name = g->ops[fused->named].name;
    int32_t inputs[CKM_I_FUSED_INPUTS];
    int32_t outputs[2];
    ckm_i_attrs attrs = fused->attrs;
    s->now.source = fused->named;
    for (int32_t i = 0; i < fused->n_inputs; i++) {
        CKM_I_CHECK(tensor_of(s, p, fused->inputs[i], &inputs[i], err));
        if (inputs[i] >= 0) {
            CKM_I_CHECK(reshape_to(s, name, ":view", &fused->shapes[i], &inputs[i], err));
        }
    }
    if (fused->draws && s->predicts) {
        ckm_i_attrs_put(&attrs, ckm_i_attr_real("rate", 0.0));
    }
    if (fused->draws) {
        ckm_i_attrs_put_int(&attrs, "key", s->graph->n_ops);
    }
    CKM_I_CHECK(ckm_i_step_add(s,
                               &(ckm_i_step_op){.kind = fused->kind,
                                                .name = name,
                                                .inputs = {inputs, fused->n_inputs},
                                                .attrs = &attrs,
                                                .n_outputs = fused->n_outputs},
                               outputs, err));
    int32_t result = g->ops[fused->root].outputs[0];
    CKM_I_CHECK(reshape_to(s, name, ":result", &g->tensors[result].shape, &outputs[0], err));
    p->tensor[result] = outputs[0];
    return CKM_OK;
}

static ckm_status plan_init(plan *p, const ckm_graph *g, const int32_t *outputs, int32_t n_outputs, ckm_error *err)
{
    p->softmax = -1;
    p->outputs = outputs;
    p->n_outputs = n_outputs;
    p->tensor = ckm_i_malloc((size_t)g->n_tensors, sizeof *p->tensor);
    p->live = ckm_i_calloc((size_t)g->n_ops, sizeof *p->live);
    if (p->tensor == NULL || p->live == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < g->n_tensors; i++) {
        p->tensor[i] = -1;
    }
    mark_live(g, p);
    CKM_I_CHECK(ckm_i_fuse_init(&p->fuse, g, p->live, outputs, n_outputs, err));
    mark_live(g, p);
    return CKM_OK;
}

static ckm_status lower_all(ckm_i_step *s, plan *p, ckm_error *err)
{
    s->now.phase = CKM_I_FORWARD;
    for (int32_t op = 0; op < s->network->n_ops; op++) {
        const ckm_i_fused *fused = fused_at(p, op);
        if (p->live[op]) {
            CKM_I_CHECK(fused != NULL ? lower_fused(s, p, fused, err) : lower_op(s, p, op, err));
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_step_lower(ckm_i_step *s, ckm_loss_kind loss, ckm_error *err)
{
    const ckm_graph *g = s->network;
    plan p = {0};
    int32_t output;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(find_output(g, &output, err));
    CKM_I_TRY(plan_init(&p, g, &output, 1, err));
    if (loss == CKM_LOSS_SOFTMAX_CROSS_ENTROPY) {
        find_softmax(g, &p, &s->class_axis);
    }
    CKM_I_TRY(lower_all(s, &p, err));
    s->output = p.tensor[output];
cleanup:
    plan_dispose(&p);
    return status;
}

// The tensors of the network that it gives away.
static ckm_status list_outputs(const ckm_graph *g, int32_t *outputs, ckm_error *err)
{
    if (g->n_outputs == 0) {
        return find_output(g, outputs, err);
    }
    for (int32_t i = 0; i < g->n_outputs; i++) {
        outputs[i] = g->outputs[i].tensor;
        if (outputs[i] < 0) {
            return ckm_i_error(
                err, CKM_ERR_UNSUPPORTED,
                "output \"%.200s\" of network \"%.200s\" depends on no input: it is a constant, which no "
                "operator computes",
                g->outputs[i].name, g->name);
        }
    }
    return CKM_OK;
}

// Result i: the tensor, or a view of it where it is a leaf or another result.
static ckm_status add_result(ckm_i_step *s, int32_t i, int32_t tensor, ckm_error *err)
{
    bool own = s->graph->tensors[tensor].producer >= 0;
    for (int32_t k = 0; k < i; k++) {
        own = own && s->results[k] != tensor;
    }
    s->results[i] = tensor;
    s->n_results = i + 1;
    if (own) {
        return CKM_OK;
    }
    const char *name = s->network->n_outputs > 0 ? s->network->outputs[i].name : s->graph->tensors[tensor].name;
    return ckm_i_step_add(
        s,
        &(ckm_i_step_op){.kind = "identity", .name = name, .suffix = ":result", .inputs = {&tensor, 1}, .n_outputs = 1},
        &s->results[i], err);
}

ckm_status ckm_i_step_lower_outputs(ckm_i_step *s, ckm_error *err)
{
    const ckm_graph *g = s->network;
    plan p = {0};
    int32_t n = g->n_outputs > 0 ? g->n_outputs : 1;
    ckm_status status = CKM_OK;
    int32_t *outputs = ckm_i_malloc((size_t)n, sizeof *outputs);
    s->results = ckm_i_malloc((size_t)n, sizeof *s->results);
    if (outputs == NULL || s->results == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(list_outputs(g, outputs, err));
    CKM_I_TRY(plan_init(&p, g, outputs, n, err));
    CKM_I_TRY(lower_all(s, &p, err));
    for (int32_t i = 0; i < n; i++) {
        int32_t tensor;
        CKM_I_TRY(tensor_of(s, &p, outputs[i], &tensor, err));
        CKM_I_TRY(add_result(s, i, tensor, err));
    }
cleanup:
    plan_dispose(&p);
    free(outputs);
    return status;
}
