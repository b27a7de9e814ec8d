// SPDX-License-Identifier: Apache-2.0
// The training graph as a container: values and operators with checked indices.
#include "graph/training.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_i_training_create(const ckm_graph *graph, const char *name, ckm_training **out, ckm_error *err)
{
    ckm_training *t = ckm_i_calloc(1, sizeof *t);
    if (t == NULL) {
        return ckm_i_error_memory(err);
    }
    t->graph = graph;
    t->loss = -1;
    t->correct = -1;
    t->labels = -1;
    t->name = ckm_i_strdup(name != NULL ? name : "");
    if (t->name == NULL) {
        ckm_training_free(t);
        return ckm_i_error_memory(err);
    }
    *out = t;
    return CKM_OK;
}

static void op_dispose(ckm_i_training_op *op)
{
    free(op->name);
    free(op->inputs);
    free(op->outputs);
    free(op->inplace);
}

void ckm_training_free(ckm_training *t)
{
    if (t == NULL) {
        return;
    }
    for (int32_t i = 0; i < t->n_values; i++) {
        free(t->values[i].name);
    }
    for (int32_t i = 0; i < t->n_ops; i++) {
        op_dispose(&t->ops[i]);
    }
    free(t->values);
    free(t->ops);
    free(t->results);
    free(t->name);
    ckm_graph_free(t->step);
    free(t);
}

ckm_status ckm_i_training_add_value(ckm_training *t, const char *name, int64_t bytes, int32_t alias_of, int32_t *index,
                                    ckm_error *err)
{
    if (bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "value \"%.200s\" has %lld bytes", name, (long long)bytes);
    }
    if (alias_of < -1 || alias_of >= t->n_values) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "value \"%.200s\" views value %d of %d", name, (int)alias_of,
                           (int)t->n_values);
    }
    if (!CKM_I_GROW(t->values, t->n_values, t->cap_values)) {
        return ckm_i_error_memory(err);
    }
    char *copy = ckm_i_strdup(name);
    if (copy == NULL) {
        return ckm_i_error_memory(err);
    }
    t->values[t->n_values] = (ckm_i_training_value){.name = copy, .bytes = bytes, .alias_of = alias_of};
    if (index != NULL) {
        *index = t->n_values;
    }
    t->n_values++;
    return CKM_OK;
}

static ckm_status check_values(const ckm_training *t, const char *name, const int32_t *values, int32_t n,
                               ckm_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        if (values[i] < 0 || values[i] >= t->n_values) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "operator \"%.200s\" names value %d of %d", name, (int)values[i],
                               (int)t->n_values);
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_training_add_op(ckm_training *t, const ckm_i_new_training_op *new_op, ckm_error *err)
{
    const ckm_i_tensor_list *inputs = &new_op->inputs;
    const ckm_i_tensor_list *outputs = &new_op->outputs;
    if (new_op->source < -1 || new_op->source >= t->graph->n_ops) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "operator \"%.200s\" comes from operator %d of %d", new_op->name,
                           (int)new_op->source, (int)t->graph->n_ops);
    }
    CKM_I_CHECK(check_values(t, new_op->name, inputs->items, inputs->n, err));
    CKM_I_CHECK(check_values(t, new_op->name, outputs->items, outputs->n, err));
    if (!CKM_I_GROW(t->ops, t->n_ops, t->cap_ops)) {
        return ckm_i_error_memory(err);
    }
    ckm_i_training_op op = {
        .phase = new_op->phase, .source = new_op->source, .n_inputs = inputs->n, .n_outputs = outputs->n};
    op.name = ckm_i_strdup(new_op->name);
    op.inputs = ckm_i_memdup(inputs->items, (size_t)inputs->n, sizeof *op.inputs);
    op.outputs = ckm_i_memdup(outputs->items, (size_t)outputs->n, sizeof *op.outputs);
    if (op.name == NULL || op.inputs == NULL || op.outputs == NULL) {
        op_dispose(&op);
        return ckm_i_error_memory(err);
    }
    t->ops[t->n_ops++] = op;
    return CKM_OK;
}

static ckm_status check_op(const ckm_training *t, int32_t op, ckm_error *err)
{
    if (op < 0 || op >= t->n_ops) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "training operator %d of %d does not exist", (int)op, (int)t->n_ops);
    }
    return CKM_OK;
}

static bool contains(const int32_t *values, int32_t n, int32_t wanted)
{
    for (int32_t i = 0; i < n; i++) {
        if (values[i] == wanted) {
            return true;
        }
    }
    return false;
}

ckm_status ckm_i_training_add_inplace(ckm_training *t, int32_t op, int32_t in, int32_t out, ckm_error *err)
{
    CKM_I_CHECK(check_op(t, op, err));
    ckm_i_training_op *o = &t->ops[op];
    if (!contains(o->inputs, o->n_inputs, in) || !contains(o->outputs, o->n_outputs, out)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "operator \"%.200s\" has no input %d and output %d", o->name, (int)in,
                           (int)out);
    }
    int32_t(*grown)[2] = ckm_i_realloc(o->inplace, (size_t)o->n_inplace + 1, sizeof *o->inplace);
    if (grown == NULL) {
        return ckm_i_error_memory(err);
    }
    o->inplace = grown;
    o->inplace[o->n_inplace][0] = in;
    o->inplace[o->n_inplace][1] = out;
    o->n_inplace++;
    return CKM_OK;
}

ckm_status ckm_i_training_add_result(ckm_training *t, int32_t value, ckm_error *err)
{
    CKM_I_CHECK(check_values(t, "result", &value, 1, err));
    if (!CKM_I_GROW(t->results, t->n_results, t->cap_results)) {
        return ckm_i_error_memory(err);
    }
    t->results[t->n_results++] = value;
    return CKM_OK;
}

ckm_status ckm_i_training_set_workspace(ckm_training *t, int32_t op, int64_t bytes, ckm_error *err)
{
    CKM_I_CHECK(check_op(t, op, err));
    if (bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "operator \"%.200s\" asks for %lld bytes", t->ops[op].name,
                           (long long)bytes);
    }
    t->ops[op].workspace_bytes = bytes;
    return CKM_OK;
}
