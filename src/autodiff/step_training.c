// SPDX-License-Identifier: Apache-2.0
// From a step graph to the training graph: bytes, views, in-place pairs, what must not be computed again, results.
#include <stdlib.h>

#include "autodiff/step.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

static ckm_status add_values(const ckm_graph *g, ckm_training *t, ckm_error *err)
{
    for (int32_t i = 0; i < g->n_tensors; i++) {
        const ckm_i_graph_tensor *tensor = &g->tensors[i];
        int64_t elements;
        int64_t bytes;
        int32_t owner = -1;
        if (tensor->producer >= 0 && ckm_i_op_class_is_view(g->ops[tensor->producer].op_class)) {
            int32_t base = g->ops[tensor->producer].inputs[0];
            owner = t->values[base].alias_of >= 0 ? t->values[base].alias_of : base;
        }
        CKM_I_CHECK(ckm_i_shape_elements(&tensor->shape, &elements, err));
        if (!ckm_i_mul(elements, ckm_i_dtype_bytes(tensor->dtype), &bytes)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "tensor \"%.200s\": its bytes do not fit 63 bits", tensor->name);
        }
        CKM_I_CHECK(ckm_i_training_add_value(t, tensor->name, bytes, owner, NULL, err));
    }
    return CKM_OK;
}

// Pairs of equal shape and element type, where the input is computed: leaves keep their content. first[i] says whether
// operand i is none of those before it.
static ckm_status add_pairs(const ckm_graph *g, ckm_training *t, int32_t v, const bool *first, ckm_error *err)
{
    const ckm_i_graph_op *op = &g->ops[v];
    ckm_i_in_place shared = op->op_class->in_place;
    // Updates have no outputs.
    for (int32_t i = 0; i < op->n_inputs && op->n_outputs > 0; i++) {
        bool named = shared == CKM_I_IN_PLACE_EVERY || (i < 30 && ((uint32_t)shared >> i & 1U) != 0);
        int32_t in = op->inputs[i];
        int32_t out = op->outputs[0];
        if (!named || in < 0 || !first[i] || g->tensors[in].dtype != g->tensors[out].dtype ||
            !ckm_i_shapes_equal(&g->tensors[in].shape, &g->tensors[out].shape)) {
            continue;
        }
        int32_t owner = t->values[in].alias_of >= 0 ? t->values[in].alias_of : in;
        if (g->tensors[owner].producer >= 0) {
            CKM_I_CHECK(ckm_i_training_add_inplace(t, v, in, out, err));
        }
    }
    return CKM_OK;
}

// With updates in the step, a backward operator that reads a weight or something that weights gave must not run
// again: weights may have changed. What reads gradients only may. Nor must what gives the step's results, which could
// otherwise be dropped and computed anew after the updates.
static bool is_once(const ckm_i_step *s, int32_t v, bool updates)
{
    const ckm_i_graph_op *op = &s->graph->ops[v];
    bool reads = false;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t t = op->inputs[i];
        reads = reads || (t >= 0 && t < s->n_forward_tensors && s->graph->tensors[t].role != CKM_ROLE_INPUT &&
                          s->graph->tensors[t].role != CKM_ROLE_CONSTANT);
    }
    bool result = false;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        result = result || (op->outputs[i] >= 0 && (op->outputs[i] == s->loss || op->outputs[i] == s->correct));
    }
    return op->op_class->repeat == CKM_I_REPEAT_ONCE ||
           (updates && (result || (s->marks[v].phase == CKM_I_BACKWARD && reads)));
}

// last_reader holds, for every tensor, the last operator that was found to read it.
static ckm_status add_op(const ckm_i_step *s, ckm_training *t, int32_t v, bool updates, int32_t *last_reader,
                         ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_i_graph_op *op = &s->graph->ops[v];
    int32_t n = 0;
    int32_t *inputs = ckm_i_malloc((size_t)op->n_inputs, sizeof *inputs);
    bool *first = ckm_i_calloc((size_t)op->n_inputs, sizeof *first);
    if (inputs == NULL || first == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t in = op->inputs[i];
        if (in >= 0 && last_reader[in] != v) {
            last_reader[in] = v;
            first[i] = true;
            inputs[n++] = in;
        }
    }
    CKM_I_TRY(ckm_i_training_add_op(t,
                                    &(ckm_i_new_training_op){.name = op->name,
                                                             .phase = s->marks[v].phase,
                                                             .source = s->marks[v].source,
                                                             .inputs = {inputs, n},
                                                             .outputs = {op->outputs, op->n_outputs}},
                                    err));
    t->ops[v].once = is_once(s, v, updates);
    status = add_pairs(s->graph, t, v, first, err);
cleanup:
    free(inputs);
    free(first);
    return status;
}

// Gradients of two parameters can be one tensor.
static ckm_status add_gradients(const ckm_i_step *s, ckm_training *t, ckm_error *err)
{
    bool *seen = ckm_i_calloc((size_t)s->graph->n_tensors, sizeof *seen);
    if (seen == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    for (int32_t i = 0; i < s->n_forward_tensors; i++) {
        int32_t gradient = s->gradients[i];
        if (s->graph->tensors[i].role == CKM_ROLE_PARAMETER && gradient >= 0 && !seen[gradient]) {
            seen[gradient] = true;
            CKM_I_TRY(ckm_i_training_add_result(t, gradient, err));
        }
    }
cleanup:
    free(seen);
    return status;
}

// The loss, the samples predicted right, and gradients that nothing is updated by.
static ckm_status add_loss(const ckm_i_step *s, ckm_training *t, bool updates, ckm_error *err)
{
    t->loss = s->loss;
    t->correct = s->correct;
    t->labels = s->labels;
    CKM_I_CHECK(ckm_i_training_add_result(t, s->loss, err));
    if (s->correct >= 0) {
        CKM_I_CHECK(ckm_i_training_add_result(t, s->correct, err));
    }
    return updates || s->judges ? CKM_OK : add_gradients(s, t, err);
}

static ckm_status add_outputs(const ckm_i_step *s, ckm_training *t, ckm_error *err)
{
    for (int32_t i = 0; i < s->n_results; i++) {
        CKM_I_CHECK(ckm_i_training_add_result(t, s->results[i], err));
    }
    return CKM_OK;
}

ckm_status ckm_i_step_training(ckm_i_step *s, const ckm_autodiff_options *options, ckm_training **out, ckm_error *err)
{
    bool updates = options->optimizer.kind != CKM_OPTIMIZER_NONE;
    ckm_training *t = NULL;
    int32_t *last_reader = NULL;
    CKM_I_CHECK(ckm_i_training_create(s->network, s->network->name, &t, err));
    ckm_status status = CKM_OK;
    last_reader = ckm_i_malloc((size_t)s->graph->n_tensors, sizeof *last_reader);
    if (last_reader == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < s->graph->n_tensors; i++) {
        last_reader[i] = -1;
    }
    CKM_I_TRY(add_values(s->graph, t, err));
    for (int32_t v = 0; v < s->graph->n_ops; v++) {
        CKM_I_TRY(add_op(s, t, v, updates, last_reader, err));
    }
    CKM_I_TRY(s->predicts && !s->judges ? add_outputs(s, t, err) : add_loss(s, t, updates, err));
    t->step = s->graph;
    s->graph = NULL;
    *out = t;
    t = NULL;
cleanup:
    free(last_reader);
    ckm_training_free(t);
    return status;
}
