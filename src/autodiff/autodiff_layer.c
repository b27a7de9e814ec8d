// SPDX-License-Identifier: Apache-2.0
// The layer-level training graph: one operator a layer, the loss, one backward operator a layer in reverse.
//
// With n operators in the network, value i is the output of operator i, value n the loss and value 2n-i the
// gradient of operator i; training operators have the same numbers. An operator of the network that nothing
// reads is a result of the network: the loss reads it, and its gradient starts from the loss. In a network of
// the zoo that is the last layer and no other.
#include <checkmate/autodiff.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "graph/training.h"

// Operands and users of every operator, each once: those of `op` are list[start[op]..start[op + 1]).
typedef struct adjacency {
    int64_t *operand_start, *user_start;
    int32_t *operands, *users;
} adjacency;

static void adjacency_dispose(adjacency *a)
{
    free(a->operand_start);
    free(a->user_start);
    free(a->operands);
    free(a->users);
    *a = (adjacency){0};
}

// Operators whose outputs `op` reads, in the order of its inputs, without repetitions. `seen[p] == op + 1`
// marks p as already there.
static int64_t collect_operands(const ckm_graph *g, int32_t op, int32_t *seen, int32_t *out)
{
    int64_t n = 0;
    const ckm_i_graph_op *o = &g->ops[op];
    for (int32_t i = 0; i < o->n_inputs; i++) {
        int32_t from = o->inputs[i] >= 0 ? g->tensors[o->inputs[i]].producer : -1;
        if (from >= 0 && seen[from] != op + 1) {
            seen[from] = op + 1;
            out[n++] = from;
        }
    }
    return n;
}

// Users from operands: counting sort, so users come in ascending order.
static void fill_users(adjacency *a, int32_t n_ops, int64_t *next)
{
    for (int64_t e = 0; e < a->operand_start[n_ops]; e++) {
        a->user_start[a->operands[e] + 1]++;
    }
    for (int32_t op = 0; op < n_ops; op++) {
        a->user_start[op + 1] += a->user_start[op];
        next[op] = a->user_start[op];
    }
    for (int32_t op = 0; op < n_ops; op++) {
        for (int64_t e = a->operand_start[op]; e < a->operand_start[op + 1]; e++) {
            a->users[next[a->operands[e]]++] = op;
        }
    }
}

static ckm_status adjacency_init(const ckm_graph *g, adjacency *a, ckm_error *err)
{
    *a = (adjacency){0};
    size_t n = (size_t)g->n_ops;
    size_t n_inputs = 0;
    for (int32_t op = 0; op < g->n_ops; op++) {
        n_inputs += (size_t)g->ops[op].n_inputs;
    }
    a->operand_start = ckm_i_calloc(n + 1, sizeof *a->operand_start);
    a->user_start = ckm_i_calloc(n + 1, sizeof *a->user_start);
    a->operands = ckm_i_calloc(n_inputs, sizeof *a->operands);
    a->users = ckm_i_calloc(n_inputs, sizeof *a->users);
    int32_t *seen = ckm_i_calloc(n, sizeof *seen);
    int64_t *next = ckm_i_calloc(n, sizeof *next);
    ckm_status status = CKM_OK;
    if (a->operand_start == NULL || a->user_start == NULL || a->operands == NULL || a->users == NULL || seen == NULL ||
        next == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t op = 0; op < g->n_ops; op++) {
        int64_t start = a->operand_start[op];
        a->operand_start[op + 1] = start + collect_operands(g, op, seen, &a->operands[start]);
    }
    fill_users(a, g->n_ops, next);
cleanup:
    free(next);
    free(seen);
    if (status != CKM_OK) {
        adjacency_dispose(a);
    }
    return status;
}

static ckm_status error_bytes(const ckm_graph *g, const char *what, ckm_error *err)
{
    return ckm_i_error(err, CKM_ERR_OVERFLOW, "%.200s: %.200s: the bytes do not fit 63 bits", g->name, what);
}

// Two copies of everything that is kept across steps: the parameters and their gradients.
static ckm_status fixed_bytes(const ckm_graph *g, int64_t *out, ckm_error *err)
{
    int64_t total = 0;
    for (int32_t i = 0; i < g->n_tensors; i++) {
        const ckm_i_graph_tensor *t = &g->tensors[i];
        if (t->role != CKM_ROLE_PARAMETER && t->role != CKM_ROLE_STATE) {
            continue;
        }
        int64_t bytes;
        if (ckm_i_shape_elements(&t->shape, &bytes, NULL) != CKM_OK ||
            !ckm_i_mul(bytes, 2 * ckm_i_dtype_bytes(t->dtype), &bytes) || !ckm_i_add(total, bytes, &total)) {
            return error_bytes(g, "parameters", err);
        }
    }
    *out = total;
    return CKM_OK;
}

// What operator `op` leaves behind: all its outputs.
static ckm_status output_bytes(const ckm_graph *g, int32_t op, int64_t *out, ckm_error *err)
{
    int64_t total = 0;
    for (int32_t i = 0; i < g->ops[op].n_outputs; i++) {
        const ckm_i_graph_tensor *t = &g->tensors[g->ops[op].outputs[i]];
        int64_t bytes;
        if (ckm_i_shape_elements(&t->shape, &bytes, NULL) != CKM_OK ||
            !ckm_i_mul(bytes, ckm_i_dtype_bytes(t->dtype), &bytes) || !ckm_i_add(total, bytes, &total)) {
            return error_bytes(g, g->ops[op].name, err);
        }
    }
    *out = total;
    return CKM_OK;
}

// "<layer>_grad" in a buffer that grows; NULL without memory.
static const char *gradient_name(const char *layer, char **buffer, size_t *room)
{
    size_t wanted = strlen(layer) + sizeof "_grad";
    if (wanted > *room) {
        char *grown = ckm_i_realloc(*buffer, wanted, 1);
        if (grown == NULL) {
            return NULL;
        }
        *buffer = grown;
        *room = wanted;
    }
    snprintf(*buffer, *room, "%s_grad", layer);
    return *buffer;
}

static ckm_status add_forward(ckm_training *t, const adjacency *a, int32_t op, ckm_error *err)
{
    const char *name = t->graph->ops[op].name;
    int64_t bytes = 0;
    int32_t value = -1;
    CKM_I_CHECK(output_bytes(t->graph, op, &bytes, err));
    CKM_I_CHECK(ckm_i_training_add_value(t, name, bytes, -1, &value, err));
    int64_t start = a->operand_start[op];
    return ckm_i_training_add_op(
        t,
        &(ckm_i_new_training_op){.name = name,
                                 .phase = CKM_I_FORWARD,
                                 .source = op,
                                 .inputs = {&a->operands[start], (int32_t)(a->operand_start[op + 1] - start)},
                                 .outputs = {&value, 1}},
        err);
}

static bool is_result(const adjacency *a, int32_t op)
{
    return a->user_start[op] == a->user_start[op + 1];
}

// `inputs` is scratch with room for one value an operator.
static ckm_status add_loss(ckm_training *t, const adjacency *a, int32_t *inputs, ckm_error *err)
{
    int32_t n = 0;
    for (int32_t op = 0; op < t->graph->n_ops; op++) {
        if (is_result(a, op)) {
            inputs[n++] = op;
        }
    }
    int64_t bytes;
    if (!ckm_i_mul(t->graph->batch, 4, &bytes)) {
        return error_bytes(t->graph, "loss", err);
    }
    int32_t value = -1;
    CKM_I_CHECK(ckm_i_training_add_value(t, "loss", bytes, -1, &value, err));
    return ckm_i_training_add_op(
        t,
        &(ckm_i_new_training_op){
            .name = "loss", .phase = CKM_I_LOSS, .source = -1, .inputs = {inputs, n}, .outputs = {&value, 1}},
        err);
}

// The backward operator of `op` reads the operator's own output, every user's output and gradient, or the
// loss: in ascending order of values. `inputs` is scratch with room for 2n+1 values.
static ckm_status add_backward(ckm_training *t, const adjacency *a, int32_t op, const char *name, int32_t *inputs,
                               ckm_error *err)
{
    int32_t n_ops = t->graph->n_ops;
    int32_t n = 0;
    inputs[n++] = op;
    for (int64_t e = a->user_start[op]; e < a->user_start[op + 1]; e++) {
        inputs[n++] = a->users[e];
    }
    if (is_result(a, op)) {
        inputs[n++] = n_ops;
    }
    for (int64_t e = a->user_start[op + 1]; e-- > a->user_start[op];) {
        inputs[n++] = 2 * n_ops - a->users[e];
    }
    int32_t value = -1;
    CKM_I_CHECK(ckm_i_training_add_value(t, name, t->values[op].bytes, -1, &value, err));
    return ckm_i_training_add_op(
        t,
        &(ckm_i_new_training_op){
            .name = name, .phase = CKM_I_BACKWARD, .source = op, .inputs = {inputs, n}, .outputs = {&value, 1}},
        err);
}

ckm_status ckm_autodiff_layer_graph(const ckm_graph *graph, ckm_training **out, ckm_error *err)
{
    CKM_I_NEED(graph, err);
    CKM_I_NEED(out, err);
    int32_t n = graph->n_ops;
    if (n < 1) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "network \"%.200s\" has no operators", graph->name);
    }
    if (n > (INT32_MAX - 1) / 2) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "network \"%.200s\" has too many operators", graph->name);
    }
    ckm_status status = CKM_OK;
    adjacency a = {0};
    ckm_training *t = NULL;
    char *buffer = NULL;
    size_t room = 0;
    int32_t *inputs = ckm_i_malloc(2 * (size_t)n + 1, sizeof *inputs);
    if (inputs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(adjacency_init(graph, &a, err));
    CKM_I_TRY(ckm_i_training_create(graph, graph->name, &t, err));
    CKM_I_TRY(fixed_bytes(graph, &t->fixed_bytes, err));
    for (int32_t op = 0; op < n; op++) {
        CKM_I_TRY(add_forward(t, &a, op, err));
    }
    CKM_I_TRY(add_loss(t, &a, inputs, err));
    for (int32_t op = n - 1; op >= 0; op--) {
        const char *name = gradient_name(graph->ops[op].name, &buffer, &room);
        if (name == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        CKM_I_TRY(add_backward(t, &a, op, name, inputs, err));
    }
    *out = t;
    t = NULL;
cleanup:
    ckm_training_free(t);
    adjacency_dispose(&a);
    free(inputs);
    free(buffer);
    return status;
}
