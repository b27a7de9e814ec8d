// SPDX-License-Identifier: Apache-2.0
// The backward pass: which tensors need a gradient, whether every operator between them and the loss has a rule,
// then the rules in reverse order.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autodiff/grad_rules.h"
#include "base/alloc.h"
#include "base/error.h"

// An operator without a rule counts as passing gradients on: if the loss depends on it, that is an error, found below.
static bool passes_on(const ckm_i_graph_op *op)
{
    return op->op_class->learning != CKM_I_LEARNING_NOTHING;
}

// Outputs of `op` through which it can learn: the first, or all.
static int32_t learning_outputs(const ckm_i_graph_op *op)
{
    return op->op_class->learns_by_any_output ? op->n_outputs : 1;
}

// Tensors of real numbers that a parameter has a part in.
static void mark_dependent(ckm_i_step *s)
{
    const ckm_graph *g = s->graph;
    for (int32_t i = 0; i < s->n_forward_tensors; i++) {
        s->wanted[i] = g->tensors[i].role == CKM_ROLE_PARAMETER && ckm_i_dtype_is_float(g->tensors[i].dtype);
    }
    for (int32_t v = 0; v < s->n_forward_ops; v++) {
        const ckm_i_graph_op *op = &g->ops[v];
        bool any = false;
        for (int32_t i = 0; i < op->n_inputs; i++) {
            any = any || (op->inputs[i] >= 0 && s->wanted[op->inputs[i]]);
        }
        for (int32_t i = 0; any && passes_on(op) && i < op->n_outputs; i++) {
            s->wanted[op->outputs[i]] = ckm_i_dtype_is_float(g->tensors[op->outputs[i]].dtype);
        }
    }
}

// Of these, the ones that the loss learns through: everything else gets no gradient. Lists the operators in between
// that have no rule.
static void mark_reached(ckm_i_step *s, bool *reached, char *list, size_t room, int32_t *n_missing)
{
    const ckm_graph *g = s->graph;
    reached[s->output] = s->wanted[s->output];
    *n_missing = 0;
    list[0] = '\0';
    for (int32_t v = s->n_forward_ops - 1; v >= 0; v--) {
        const ckm_i_graph_op *op = &g->ops[v];
        bool any = false;
        bool beyond = false;  // by an output that no rule reads the gradient of
        for (int32_t i = 0; i < op->n_outputs; i++) {
            any = any || reached[op->outputs[i]];
            beyond = beyond || (i >= learning_outputs(op) && reached[op->outputs[i]]);
        }
        if (!any) {
            continue;
        }
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (op->inputs[i] >= 0 && s->wanted[op->inputs[i]]) {
                reached[op->inputs[i]] = true;
            }
        }
        bool has_rule = op->op_class->learning == CKM_I_LEARNING_RULE ||
                        op->op_class->learning == CKM_I_LEARNING_NOTHING;
        if (!has_rule || beyond) {
            size_t used = strlen(list);
            const char *what = has_rule ? ", further outputs" : "";
            int length = snprintf(list + used, room - used, "%s\"%s\" (%s%s)", *n_missing > 0 ? ", " : "", op->name,
                                  op->op_class->kind, what);
            if (length < 0 || (size_t)length >= room - used) {
                list[used] = '\0';  // no room for this one
            }
            (*n_missing)++;
        }
    }
}

static ckm_status find_wanted(ckm_i_step *s, ckm_error *err)
{
    char list[2000];
    int32_t n_missing;
    size_t n = (size_t)s->n_forward_tensors;
    bool *reached = ckm_i_calloc(n, sizeof *reached);
    s->wanted = ckm_i_calloc(n, sizeof *s->wanted);
    s->gradients = ckm_i_malloc(n, sizeof *s->gradients);
    if (reached == NULL || s->wanted == NULL || s->gradients == NULL) {
        free(reached);
        return ckm_i_error_memory(err);
    }
    mark_dependent(s);
    mark_reached(s, reached, list, sizeof list, &n_missing);
    for (size_t i = 0; i < n; i++) {
        s->gradients[i] = -1;
        s->wanted[i] = reached[i];
    }
    free(reached);
    if (n_missing > 0) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "%d operators have no gradient, but weights before them need one: %s", (int)n_missing, list);
    }
    if (!s->wanted[s->output]) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "network \"%.200s\": its output does not depend on any parameter",
                           s->network->name);
    }
    return CKM_OK;
}

static ckm_status run_rule(ckm_i_step *s, int32_t v, ckm_error *err)
{
    ckm_i_grad g = {.step = s, .forward = s->graph->ops[v]};
    const ckm_i_op_class *c = g.forward.op_class;
    if (c->gradient == NULL) {
        return CKM_OK;
    }
    bool any = false;
    for (int32_t i = 0; i < g.forward.n_inputs; i++) {
        any = any || ckm_i_grad_wants(&g, i);
    }
    bool there = false;
    for (int32_t i = 0; i < (c->learns_by_any_output ? g.forward.n_outputs : 1); i++) {
        there = there || s->gradients[g.forward.outputs[i]] >= 0;
    }
    if (!any || !there) {
        return CKM_OK;
    }
    int32_t *outputs = ckm_i_malloc((size_t)g.forward.n_outputs, sizeof *outputs);
    if (outputs == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < g.forward.n_outputs; i++) {
        outputs[i] = s->gradients[g.forward.outputs[i]];
    }
    g.outputs = outputs;
    g.dy = outputs[0];
    s->now = (ckm_i_step_mark){CKM_I_BACKWARD, s->marks[v].source};
    ckm_status status = c->gradient(&g, err);
    free(outputs);
    return status;
}

// The first operator that reads each parameter: once its gradients are there, the parameter's is complete, and no
// operator reads the parameter any more.
static ckm_status find_first_readers(const ckm_i_step *s, int32_t **out, ckm_error *err)
{
    int32_t *first = ckm_i_malloc((size_t)s->n_forward_tensors, sizeof *first);
    if (first == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < s->n_forward_tensors; i++) {
        first[i] = -1;
    }
    for (int32_t v = s->n_forward_ops - 1; v >= 0; v--) {
        const ckm_i_graph_op *op = &s->graph->ops[v];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (op->inputs[i] >= 0) {
                first[op->inputs[i]] = v;
            }
        }
    }
    *out = first;
    return CKM_OK;
}

// Updates of the parameters whose first reader is operator v, of all where v is -1; or, without an optimizer, the beginning
// of the exchange of their gradients. `n_done` is how many there were.
static ckm_status update_parameters(ckm_i_step *s, const ckm_optimizer *optimizer, const int32_t *first, int32_t v,
                                    int32_t *n_done, ckm_error *err)
{
    *n_done = 0;
    const ckm_i_graph_op *op = v >= 0 ? &s->graph->ops[v] : NULL;
    const int32_t *candidates = op != NULL ? op->inputs : NULL;
    int32_t n = op != NULL ? op->n_inputs : s->n_forward_tensors;
    for (int32_t i = 0; i < n; i++) {
        int32_t t = candidates != NULL ? candidates[i] : i;
        bool seen = false;
        for (int32_t k = 0; candidates != NULL && k < i; k++) {
            seen = seen || candidates[k] == t;
        }
        if (t < 0 || seen || s->graph->tensors[t].role != CKM_ROLE_PARAMETER || s->gradients[t] < 0 ||
            (v >= 0 && first[t] != v)) {
            continue;
        }
        CKM_I_CHECK(optimizer != NULL ? ckm_i_step_update(s, optimizer, t, err) : ckm_i_step_send(s, t, err));
        ++*n_done;
    }
    return CKM_OK;
}

// After operator v of the forward pass has had its turn. What is sent there is updated as late as the next gradients are
// sent, one or more operators further on: until then the backward pass has something to do.
static ckm_status after_operator(ckm_i_step *s, const ckm_autodiff_options *options, const int32_t *first, int32_t v,
                                 int32_t *sent, ckm_error *err)
{
    int32_t n = 0;
    if (s->sharing != CKM_I_SHARING_EXCHANGE) {
        return !options->late_updates ? update_parameters(s, &options->optimizer, first, v, &n, err) : CKM_OK;
    }
    CKM_I_CHECK(update_parameters(s, NULL, first, v, &n, err));
    if (!options->late_updates && n > 0) {
        if (*sent >= 0) {
            CKM_I_CHECK(update_parameters(s, &options->optimizer, first, *sent, &n, err));
        }
        *sent = v;
    }
    return CKM_OK;
}

ckm_status ckm_i_step_backward(ckm_i_step *s, const ckm_autodiff_options *options, ckm_error *err)
{
    bool updates = options->optimizer.kind != CKM_OPTIMIZER_NONE;
    int32_t *first = NULL;
    int32_t sent = -1;
    int32_t n = 0;
    ckm_status status;
    int32_t start = s->graph->n_tensors - 1;
    CKM_I_TRY(find_wanted(s, err));
    CKM_I_TRY(find_first_readers(s, &first, err));
    s->gradients[s->output] = start;
    for (int32_t v = s->n_forward_ops - 1; v >= 0; v--) {
        CKM_I_TRY(run_rule(s, v, err));
        if (updates) {
            CKM_I_TRY(after_operator(s, options, first, v, &sent, err));
        }
    }
    if (updates && (options->late_updates || sent >= 0)) {
        CKM_I_TRY(update_parameters(s, &options->optimizer, first, sent, &n, err));
    }
cleanup:
    free(first);
    return status;
}
