// SPDX-License-Identifier: Apache-2.0
// A network as a picture: operators with the shapes they produce. Parameters are not drawn; what has any is tinted.
#include <checkmate/emit.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "emit/emit_dot.h"

static const char with_parameters[] = "#cfe5f4";
static const char without_parameters[] = "#ffffff";
static const char network_input[] = "#cdeade";

static bool is_parameter(ckm_tensor_role role)
{
    return role == CKM_ROLE_PARAMETER || role == CKM_ROLE_STATE || role == CKM_ROLE_CONSTANT;
}

// "64 x 56 x 56 x 256".
static void put_shape(FILE *to, const ckm_shape *shape)
{
    for (int32_t i = 0; i < shape->rank; i++) {
        fprintf(to, "%s%lld", i > 0 ? " \xc3\x97 " : "", (long long)shape->dims[i]);
    }
}

static void put_op(FILE *to, const ckm_graph *graph, int32_t v)
{
    ckm_graph_op_info op = ckm_graph_get_op(graph, v);
    const char *fill = without_parameters;
    for (int32_t i = 0; i < op.n_inputs; i++) {
        if (op.inputs[i] >= 0 && ckm_graph_get_tensor(graph, op.inputs[i]).role == CKM_ROLE_PARAMETER) {
            fill = with_parameters;
        }
    }
    fprintf(to, "  op%d [label=\"", (int)v);
    ckm_i_dot_quote(to, op.name);
    if (strcmp(op.name, op.kind) != 0) {
        fputs("\\n", to);
        ckm_i_dot_quote(to, op.kind);
    }
    if (op.n_outputs > 0) {
        ckm_graph_tensor_info out = ckm_graph_get_tensor(graph, op.outputs[0]);
        fputs("  ", to);
        put_shape(to, &out.shape);
    }
    fprintf(to, "\", fillcolor=\"%s\"];\n", fill);
}

static void put_network(FILE *to, const void *what)
{
    const ckm_graph *graph = what;
    const ckm_i_dot_legend rows[] = {
        {network_input, "input"}, {with_parameters, "with parameters"}, {without_parameters, "without"}};
    ckm_i_dot_begin(to, ckm_graph_name(graph));
    ckm_i_dot_put_legend(to, ckm_graph_name(graph), rows, 3);
    for (int32_t t = 0; t < ckm_graph_tensor_count(graph); t++) {
        ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, t);
        if (tensor.role == CKM_ROLE_INPUT) {
            fprintf(to, "  t%d [label=\"", (int)t);
            ckm_i_dot_quote(to, tensor.name);
            fputs("\\n", to);
            put_shape(to, &tensor.shape);
            fprintf(to, "\", fillcolor=\"%s\"];\n", network_input);
        }
    }
    for (int32_t v = 0; v < ckm_graph_op_count(graph); v++) {
        ckm_graph_op_info op = ckm_graph_get_op(graph, v);
        put_op(to, graph, v);
        for (int32_t i = 0; i < op.n_inputs; i++) {
            if (op.inputs[i] < 0) {
                continue;
            }
            ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, op.inputs[i]);
            if (tensor.producer >= 0) {
                fprintf(to, "  op%d -> op%d;\n", (int)tensor.producer, (int)v);
            } else if (!is_parameter(tensor.role)) {
                fprintf(to, "  t%d -> op%d;\n", (int)op.inputs[i], (int)v);
            }
        }
    }
    fputs("}\n", to);
}

ckm_status ckm_emit_network_figure(const ckm_graph *graph, const char *path, ckm_error *err)
{
    CKM_I_NEED(graph, err);
    CKM_I_NEED(path, err);
    return ckm_i_dot_draw(put_network, graph, path, err);
}
