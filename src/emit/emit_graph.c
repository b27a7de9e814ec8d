// SPDX-License-Identifier: Apache-2.0
// The training graph in graphviz' language, a node an operator. Forward operators run downwards; backward operators, drawn with their edges turned
// round, upwards next to the forward operators they belong to.
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/plain.h"
#include "emit/emit_blocks.h"
#include "emit/emit_dot.h"
#include "emit/emit_figures.h"
#include "emit/emit_lanes.h"
#include "emit/emit_style.h"

static const char *const kind_fill[] = {"#cfe5f4", "#f7f1a8", "#cdeade", "#eeeeee", "#e6d7f0"};

static void put_op(FILE *to, const ckm_dataflow *df, int32_t v)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
    char text[CKM_I_STYLE_TEXT];
    fprintf(to, "  op%d [label=\"", (int)v);
    if (op.module[0] != '\0') {
        ckm_i_dot_quote(to, op.module);
        fputs("\\n", to);
    }
    ckm_i_dot_quote(to, op.name);
    fprintf(to, "\\n%s", ckm_i_style_bytes(ckm_i_emit_output_bytes(df, v), text));
    fprintf(to, "\", fillcolor=\"%s\", tooltip=\"cost %s", kind_fill[op.kind],
            ckm_i_style_cost(op.cost, ckm_dataflow_cost_unit(df), text));
    if (op.source[0] != '\0') {
        fputs(", ", to);
        ckm_i_dot_quote(to, op.source);
    }
    if (op.workspace_bytes > 0) {
        fprintf(to, ", workspace %s", ckm_i_style_bytes(op.workspace_bytes, text));
    }
    fprintf(to, "\"%s];\n", op.run_once ? ", peripheries=2" : "");
}

static bool goes_up(ckm_op_kind kind)
{
    return kind == CKM_OP_BACKWARD || kind == CKM_OP_UPDATE;
}

static void put_edge(FILE *to, const ckm_dataflow *df, int32_t from, int32_t into)
{
    bool up = goes_up(ckm_dataflow_get_op(df, into).kind);
    if (!up) {
        // The forward pass is the spine: it should be straight.
        fprintf(to, "  op%d -> op%d [weight=8];\n", (int)from, (int)into);
    } else if (goes_up(ckm_dataflow_get_op(df, from).kind)) {
        fprintf(to, "  op%d -> op%d [dir=back, weight=2];\n", (int)into, (int)from);
    } else {
        // What a backward operator reads of the forward pass is what rematerialization is about.
        fprintf(to, "  op%d -> op%d [color=\"%s\", style=dashed, minlen=0];\n", (int)from, (int)into, CKM_I_VERMILION);
    }
}

// Parameters and whatever else comes from outside would be a node or two at every operator. Drawn is only what operators
// read that read nothing else: what the graph begins with.
static void put_input(FILE *to, const ckm_dataflow *df, int32_t t, int32_t v)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
    for (int32_t i = 0; i < op.n_inputs; i++) {
        if (ckm_dataflow_producer(df, op.inputs[i]) >= 0) {
            return;
        }
    }
    ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, t);
    char text[CKM_I_STYLE_TEXT];
    fprintf(to, "  t%d [shape=plaintext, style=\"\", label=\"", (int)t);
    ckm_i_dot_quote(to, tensor.name);
    fprintf(to, "\\n%s\"];\n  t%d -> op%d;\n", ckm_i_style_bytes(tensor.bytes, text), (int)t, (int)v);
}

// Edges into an operator, one for each distinct operand.
static void put_edges(FILE *to, const ckm_dataflow *df, int32_t v)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
    for (int32_t i = 0; i < op.n_inputs; i++) {
        bool repeated = false;
        for (int32_t j = 0; j < i && !repeated; j++) {
            repeated = op.inputs[j] == op.inputs[i];
        }
        if (repeated) {
            continue;
        }
        int32_t producer = ckm_dataflow_producer(df, op.inputs[i]);
        if (producer >= 0) {
            put_edge(to, df, producer, v);
        } else {
            put_input(to, df, op.inputs[i], v);
        }
    }
}

static void put_graph(FILE *to, const ckm_dataflow *df)
{
    const ckm_i_dot_legend rows[] = {
        {kind_fill[CKM_OP_FORWARD], "forward"},
        {kind_fill[CKM_OP_LOSS], "loss"},
        {kind_fill[CKM_OP_BACKWARD], "backward"},
    };
    ckm_i_dot_begin(to, ckm_dataflow_name(df));
    ckm_i_dot_put_legend(to, ckm_dataflow_name(df), rows, 3);
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        put_op(to, df, v);
    }
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        put_edges(to, df, v);
    }
    fputs("}\n", to);
}

ckm_status ckm_emit_dot(const ckm_dataflow *df, const char *path, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(path, err);
    ckm_i_writer writer;
    ckm_i_plain plain;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(ckm_i_writer_open(&writer, path, err));
    CKM_I_TRY(ckm_i_plain_begin(&plain, err));
    put_graph(writer.stream, df);
    ckm_i_plain_end(&plain);
    CKM_I_TRY(ckm_i_writer_commit(&writer, err));
cleanup:
    ckm_i_writer_abort(&writer);
    return status;
}

ckm_status ckm_emit_graph_figure(const ckm_dataflow *df, const char *path, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(path, err);
    return ckm_i_lanes_draw(df, NULL, path, err);
}

ckm_status ckm_i_figure_graph(const ckm_emit_facts *facts, const char *path, ckm_error *err)
{
    return ckm_i_lanes_draw(facts->df, facts, path, err);
}
