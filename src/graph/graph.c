// SPDX-License-Identifier: Apache-2.0
// The network: creating it, adding checked tensors and operators, reading it.
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

ckm_status ckm_i_graph_create(const char *name, ckm_layout layout, int64_t batch, ckm_graph **out, ckm_error *err)
{
    if (batch < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the batch is %lld; it must be at least 1", (long long)batch);
    }
    ckm_graph *g = ckm_i_calloc(1, sizeof *g);
    if (g == NULL) {
        return ckm_i_error_memory(err);
    }
    g->layout = layout;
    g->batch = batch;
    g->name = ckm_i_strdup(name != NULL ? name : "");
    if (g->name == NULL) {
        ckm_graph_free(g);
        return ckm_i_error_memory(err);
    }
    *out = g;
    return CKM_OK;
}

static void op_dispose(ckm_i_graph_op *op)
{
    free(op->name);
    free(op->inputs);
    free(op->outputs);
    free(op->attrs);
}

void ckm_graph_free(ckm_graph *g)
{
    if (g == NULL) {
        return;
    }
    for (int32_t i = 0; i < g->n_tensors; i++) {
        free(g->tensors[i].name);
        free(g->tensors[i].known_as);
    }
    for (int32_t i = 0; i < g->n_ops; i++) {
        op_dispose(&g->ops[i]);
    }
    for (int32_t i = 0; i < g->n_outputs; i++) {
        free(g->outputs[i].name);
    }
    free(g->tensors);
    free(g->ops);
    free(g->outputs);
    free(g->name);
    free(g);
}

ckm_status ckm_i_graph_add_output(ckm_graph *g, const char *name, int32_t tensor, ckm_error *err)
{
    if (!CKM_I_GROW(g->outputs, g->n_outputs, g->cap_outputs)) {
        return ckm_i_error_memory(err);
    }
    char *copy = ckm_i_strdup(name);
    if (copy == NULL) {
        return ckm_i_error_memory(err);
    }
    g->outputs[g->n_outputs++] = (ckm_i_graph_output){copy, tensor};
    return CKM_OK;
}

// Dimensions at least `least`, rank within limits, bytes within 63 bits. `what` and `name` are for messages.
static ckm_status check_shape(const ckm_shape *shape, ckm_dtype dtype, int64_t least, const char *what,
                              const char *name, ckm_error *err)
{
    if (shape->rank < 0 || shape->rank > CKM_MAX_RANK) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "%s \"%.200s\" has %d dimensions; 0 to %d are supported", what, name,
                           (int)shape->rank, CKM_MAX_RANK);
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < least) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "%s \"%.200s\": dimension %d is %lld; it must be at least %lld",
                               what, name, (int)i, (long long)shape->dims[i], (long long)least);
        }
    }
    int64_t element_bytes = ckm_i_dtype_bytes(dtype);
    if (element_bytes <= 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s \"%.200s\" has no known element type", what, name);
    }
    int64_t elements;
    int64_t bytes;
    if (ckm_i_shape_elements(shape, &elements, NULL) != CKM_OK || !ckm_i_mul(elements, element_bytes, &bytes)) {
        char text[256];
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "%s \"%.200s\" of shape %s: its size in bytes does not fit 63 bits",
                           what, name, ckm_i_shape_text(shape, text, sizeof text));
    }
    return CKM_OK;
}

static ckm_status append_tensor(ckm_graph *g, const char *name, ckm_tensor_role role, ckm_dtype dtype,
                                const ckm_shape *shape, int32_t producer, int32_t *index, ckm_error *err)
{
    if (!CKM_I_GROW(g->tensors, g->n_tensors, g->cap_tensors)) {
        return ckm_i_error_memory(err);
    }
    char *copy = ckm_i_strdup(name);
    if (copy == NULL) {
        return ckm_i_error_memory(err);
    }
    g->tensors[g->n_tensors] = (ckm_i_graph_tensor){
        .name = copy, .role = role, .dtype = dtype, .shape = *shape, .producer = producer};
    *index = g->n_tensors++;
    return CKM_OK;
}

ckm_status ckm_i_graph_add_tensor(ckm_graph *g, const char *name, ckm_tensor_role role, ckm_dtype dtype,
                                  const ckm_shape *shape, int32_t *index, ckm_error *err)
{
    const char *label = name != NULL ? name : "";
    if (role == CKM_ROLE_ACTIVATION) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "tensor \"%.200s\": activations come from operators", label);
    }
    // An empty constant is a usual way to leave an operand out.
    int64_t least = role == CKM_ROLE_CONSTANT ? 0 : 1;
    CKM_I_CHECK(check_shape(shape, dtype, least, "tensor", label, err));
    int32_t ignored;
    return append_tensor(g, label, role, dtype, shape, -1, index != NULL ? index : &ignored, err);
}

static ckm_status check_inputs(const ckm_graph *g, const ckm_i_op_class *op_class, const char *name,
                               const int32_t *inputs, int32_t n_inputs, ckm_error *err)
{
    if (n_inputs < op_class->min_inputs || (op_class->max_inputs >= 0 && n_inputs > op_class->max_inputs)) {
        char most[32] = "any number";
        if (op_class->max_inputs >= 0) {
            snprintf(most, sizeof most, "%d", (int)op_class->max_inputs);
        }
        return ckm_i_error(err, CKM_ERR_FORMAT, "operator \"%.200s\" (%s) has %d inputs; it takes %d to %s", name,
                           op_class->kind, (int)n_inputs, (int)op_class->min_inputs, most);
    }
    for (int32_t i = 0; i < n_inputs; i++) {
        if (inputs[i] >= g->n_tensors || inputs[i] < -1) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "operator \"%.200s\" (%s): input %d names tensor %d of %d", name,
                               op_class->kind, (int)i, (int)inputs[i], (int)g->n_tensors);
        }
        if (inputs[i] == -1 && i < op_class->min_inputs) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "operator \"%.200s\" (%s): input %d is missing", name,
                               op_class->kind, (int)i);
        }
    }
    return CKM_OK;
}

static void fill_view(const ckm_graph *g, const ckm_i_graph_op *op, ckm_i_op_view *view)
{
    *view = (ckm_i_op_view){.graph = g, .op = op};
    for (int32_t i = 0; i < op->n_inputs && i < CKM_I_VIEW_INPUTS; i++) {
        view->in[i] = op->inputs[i] >= 0 ? &g->tensors[op->inputs[i]] : NULL;
    }
}

// Copies everything an operator owns. On failure *op is disposed of.
static ckm_status op_init(ckm_i_graph_op *op, const ckm_i_op_class *op_class, const char *name,
                          const ckm_i_new_op *from, ckm_error *err)
{
    *op = (ckm_i_graph_op){
        .op_class = op_class, .n_inputs = from->inputs.n, .n_outputs = from->n_outputs, .n_attrs = from->attrs.n};
    op->name = ckm_i_strdup(name);
    op->inputs = ckm_i_memdup(from->inputs.items, (size_t)from->inputs.n, sizeof *op->inputs);
    op->attrs = ckm_i_memdup(from->attrs.items, (size_t)from->attrs.n, sizeof *op->attrs);
    op->outputs = ckm_i_calloc((size_t)from->n_outputs, sizeof *op->outputs);
    if (op->name == NULL || op->inputs == NULL || op->attrs == NULL || op->outputs == NULL) {
        op_dispose(op);
        *op = (ckm_i_graph_op){0};
        return ckm_i_error_memory(err);
    }
    return CKM_OK;
}

// "name" for the first output, "name:1" and so on for further ones. The caller frees it.
static char *output_name(const char *op_name, int32_t i)
{
    if (i == 0) {
        return ckm_i_strdup(op_name);
    }
    size_t room = strlen(op_name) + 16;
    char *name = ckm_i_malloc(room, 1);
    if (name != NULL) {
        snprintf(name, room, "%s:%d", op_name, (int)i);
    }
    return name;
}

static ckm_status append_outputs(ckm_graph *g, ckm_i_graph_op *op, const ckm_shape *shapes, const ckm_dtype *dtypes,
                                 ckm_error *err)
{
    for (int32_t i = 0; i < op->n_outputs; i++) {
        char *name = output_name(op->name, i);
        if (name == NULL) {
            return ckm_i_error_memory(err);
        }
        ckm_status status = append_tensor(g, name, CKM_ROLE_ACTIVATION, dtypes[i], &shapes[i], g->n_ops,
                                          &op->outputs[i], err);
        free(name);
        CKM_I_CHECK(status);
    }
    return CKM_OK;
}

ckm_status ckm_i_graph_add_op(ckm_graph *g, const ckm_i_new_op *new_op, int32_t *outputs, ckm_error *err)
{
    const char *kind = new_op->kind;
    const char *label = new_op->name != NULL ? new_op->name : "";
    int32_t n_outputs = new_op->n_outputs;
    const ckm_i_op_class *op_class = ckm_i_op_class_find(kind);
    if (op_class == NULL) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "operator \"%.200s\": kind \"%.60s\" is not known", label, kind);
    }
    int32_t least = op_class->max_outputs != 0;  // updates of parameters have no outputs
    if (n_outputs < least || (op_class->max_outputs >= 0 && n_outputs > op_class->max_outputs)) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "operator \"%.200s\" (%s) has %d outputs; it must have %d to %d", label,
                           kind, (int)n_outputs, (int)least, (int)op_class->max_outputs);
    }
    CKM_I_CHECK(check_inputs(g, op_class, label, new_op->inputs.items, new_op->inputs.n, err));
    ckm_status status = CKM_OK;

    int32_t first_output = g->n_tensors;
    ckm_i_graph_op op = {0};
    ckm_dtype *dtypes = ckm_i_calloc((size_t)n_outputs, sizeof *dtypes);
    ckm_shape *shapes = ckm_i_calloc((size_t)n_outputs, sizeof *shapes);
    if (dtypes == NULL || shapes == NULL || !CKM_I_GROW(g->ops, g->n_ops, g->cap_ops)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(op_init(&op, op_class, label, new_op, err));
    ckm_i_op_view view;
    fill_view(g, &op, &view);
    CKM_I_TRY(op_class->infer(&view, shapes, dtypes, err));
    for (int32_t i = 0; i < n_outputs; i++) {
        CKM_I_TRY(check_shape(&shapes[i], dtypes[i], 1, "output of operator", label, err));
    }
    CKM_I_TRY(append_outputs(g, &op, shapes, dtypes, err));
    for (int32_t i = 0; i < n_outputs; i++) {
        outputs[i] = op.outputs[i];
    }
    g->ops[g->n_ops++] = op;
    op = (ckm_i_graph_op){0};
cleanup:
    if (status != CKM_OK) {
        while (g->n_tensors > first_output) {
            free(g->tensors[--g->n_tensors].name);
        }
    }
    op_dispose(&op);
    free(shapes);
    free(dtypes);
    return status;
}

ckm_status ckm_i_op_view_init(const ckm_graph *g, int32_t op, ckm_i_op_view *view, ckm_error *err)
{
    if (op < 0 || op >= g->n_ops) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "operator %d of %d does not exist", (int)op, (int)g->n_ops);
    }
    fill_view(g, &g->ops[op], view);
    return CKM_OK;
}

int32_t ckm_i_channel_axis(const ckm_graph *g, int32_t rank)
{
    return g->layout == CKM_CHANNELS_LAST ? rank - 1 : 1;
}

int32_t ckm_i_spatial_axis(const ckm_graph *g)
{
    return g->layout == CKM_CHANNELS_LAST ? 1 : 2;
}

const char *ckm_graph_name(const ckm_graph *g)
{
    return g != NULL ? g->name : "";
}

ckm_layout ckm_graph_layout(const ckm_graph *g)
{
    return g != NULL ? g->layout : CKM_CHANNELS_LAST;
}

ckm_task ckm_graph_task(const ckm_graph *graph)
{
    return graph != NULL ? graph->task : CKM_TASK_CLASSES;
}

int64_t ckm_graph_batch(const ckm_graph *g)
{
    return g != NULL ? g->batch : 0;
}

int32_t ckm_graph_op_count(const ckm_graph *g)
{
    return g != NULL ? g->n_ops : 0;
}

int32_t ckm_graph_tensor_count(const ckm_graph *g)
{
    return g != NULL ? g->n_tensors : 0;
}

ckm_graph_op_info ckm_graph_get_op(const ckm_graph *g, int32_t op)
{
    if (g == NULL || op < 0 || op >= g->n_ops) {
        return (ckm_graph_op_info){.name = "", .kind = ""};
    }
    const ckm_i_graph_op *o = &g->ops[op];
    return (ckm_graph_op_info){.name = o->name,
                               .kind = o->op_class->kind,
                               .n_inputs = o->n_inputs,
                               .n_outputs = o->n_outputs,
                               .inputs = o->inputs,
                               .outputs = o->outputs};
}

ckm_graph_tensor_info ckm_graph_get_tensor(const ckm_graph *g, int32_t tensor)
{
    if (g == NULL || tensor < 0 || tensor >= g->n_tensors) {
        return (ckm_graph_tensor_info){.name = "", .producer = -1};
    }
    const ckm_i_graph_tensor *t = &g->tensors[tensor];
    return (ckm_graph_tensor_info){
        .name = t->name, .role = t->role, .dtype = t->dtype, .shape = t->shape, .producer = t->producer};
}

int64_t ckm_graph_element_count(const ckm_graph *g, ckm_tensor_role role)
{
    int64_t total = 0;
    for (int32_t i = 0; g != NULL && i < g->n_tensors; i++) {
        int64_t elements;
        if (g->tensors[i].role != role) {
            continue;
        }
        if (ckm_i_shape_elements(&g->tensors[i].shape, &elements, NULL) != CKM_OK ||
            !ckm_i_add(total, elements, &total)) {
            return INT64_MAX;  // no network that fits any machine comes near
        }
    }
    return total;
}
