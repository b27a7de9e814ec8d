// SPDX-License-Identifier: Apache-2.0
// A network as a picture: its inputs and layers as the operators of a graph that has no backward pass, drawn by blocks.
// Parameters are not drawn; what has any is tinted.
#include <checkmate/emit.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "emit/emit_lanes.h"

// "64 × 56 × 56 × 256".
static void write_shape(const ckm_shape *shape, char text[CKM_I_LANES_TEXT])
{
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < shape->rank && used < CKM_I_LANES_TEXT; i++) {
        used += (size_t)snprintf(text + used, CKM_I_LANES_TEXT - used, "%s%lld", i > 0 ? " \xc3\x97 " : "",
                                 (long long)shape->dims[i]);
    }
}

static ckm_status add(ckm_dataflow *df, const ckm_dataflow_op *op, int32_t *of_tensor, const int32_t *outputs,
                      ckm_error *err)
{
    ckm_dataflow_op added = *op;
    int32_t *made = ckm_i_malloc((size_t)op->n_outputs + 1, sizeof *made);
    ckm_status status = CKM_OK;
    if (made == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_dataflow_tensor tensor = {.name = op->name};
        CKM_I_TRY(ckm_dataflow_add_tensor(df, &tensor, &made[i], err));
        of_tensor[outputs[i]] = made[i];
    }
    added.outputs = made;
    CKM_I_TRY(ckm_dataflow_add_op(df, &added, NULL, err));
cleanup:
    free(made);
    return status;
}

static ckm_status add_input(ckm_dataflow *df, const ckm_graph *graph, int32_t t, int32_t *of_tensor,
                            ckm_i_lanes_layer *layer, ckm_error *err)
{
    ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, t);
    const ckm_dataflow_op op = {.name = tensor.name, .n_outputs = 1};
    *layer = (ckm_i_lanes_layer){.is_input = true, .kind = "input"};
    write_shape(&tensor.shape, layer->shape);
    return add(df, &op, of_tensor, &t, err);
}

static ckm_status add_layer(ckm_dataflow *df, const ckm_graph *graph, int32_t v, int32_t *of_tensor,
                            ckm_i_lanes_layer *layer, ckm_error *err)
{
    ckm_graph_op_info info = ckm_graph_get_op(graph, v);
    *layer = (ckm_i_lanes_layer){.kind = info.kind};
    if (info.n_outputs > 0) {
        ckm_graph_tensor_info out = ckm_graph_get_tensor(graph, info.outputs[0]);
        write_shape(&out.shape, layer->shape);
    }
    int32_t *reads = ckm_i_malloc((size_t)info.n_inputs + 1, sizeof *reads);
    if (reads == NULL) {
        return ckm_i_error_memory(err);
    }
    int32_t n_reads = 0;
    for (int32_t i = 0; i < info.n_inputs; i++) {
        int32_t t = info.inputs[i];
        if (t < 0) {
            continue;
        }
        layer->has_parameters |= ckm_graph_get_tensor(graph, t).role == CKM_ROLE_PARAMETER;
        if (of_tensor[t] >= 0) {
            reads[n_reads++] = of_tensor[t];
        }
    }
    const ckm_dataflow_op op = {.name = info.name, .n_inputs = n_reads, .inputs = reads, .n_outputs = info.n_outputs};
    ckm_status status = add(df, &op, of_tensor, info.outputs, err);
    free(reads);
    return status;
}

ckm_status ckm_emit_network_figure(const ckm_graph *graph, const char *path, ckm_error *err)
{
    CKM_I_NEED(graph, err);
    CKM_I_NEED(path, err);
    int32_t n_tensors = ckm_graph_tensor_count(graph);
    int32_t n_ops = ckm_graph_op_count(graph);
    int32_t n = 0;
    ckm_dataflow *df = NULL;
    ckm_status status = CKM_OK;
    int32_t *of_tensor = ckm_i_malloc((size_t)n_tensors + 1, sizeof *of_tensor);
    ckm_i_lanes_layer *layers = ckm_i_malloc((size_t)n_tensors + (size_t)n_ops + 1, sizeof *layers);
    if (of_tensor == NULL || layers == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_dataflow_create(ckm_graph_name(graph), CKM_COST_FLOPS, 0, &df, err));
    for (int32_t t = 0; t < n_tensors; t++) {
        of_tensor[t] = -1;
        if (ckm_graph_get_tensor(graph, t).role == CKM_ROLE_INPUT) {
            CKM_I_TRY(add_input(df, graph, t, of_tensor, &layers[n++], err));
        }
    }
    for (int32_t v = 0; v < n_ops; v++) {
        CKM_I_TRY(add_layer(df, graph, v, of_tensor, &layers[n++], err));
    }
    CKM_I_TRY(ckm_dataflow_finish(df, err));
    CKM_I_TRY(ckm_i_lanes_draw_network(df, layers, path, err));
cleanup:
    ckm_dataflow_free(df);
    free(layers);
    free(of_tensor);
    return status;
}
