// SPDX-License-Identifier: Apache-2.0
// Dataflow graphs as pictures, through graphviz.
#include <checkmate/emit.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "emit/emit_run.h"

// Colours by kind: forward, loss, backward, update.
static const char *const kind_fill[] = {"#d6e6f5", "#fff2b3", "#f9dcd2", "#dff0d8"};

// A string inside double quotes; names come from files and may hold anything.
static void put_quoted(FILE *to, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', to);
            fputc(*c, to);
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            fputc(' ', to);
        } else {
            fputc(*c, to);
        }
    }
}

// "3.21 MB", in powers of 1000.
static void put_bytes(FILE *to, int64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 999.5 && unit < 6) {
        value /= 1000;
        unit++;
    }
    fprintf(to, unit == 0 ? "%.0f %s" : "%.3g %s", value, units[unit]);
}

static void put_op(FILE *to, const ckm_dataflow *df, int32_t v)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
    int64_t bytes = 0;
    for (int32_t i = 0; i < op.n_outputs; i++) {
        ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, op.outputs[i]);
        bytes += tensor.alias_of < 0 ? tensor.bytes : 0;
    }
    fprintf(to, "  op%d [label=\"", (int)v);
    put_quoted(to, op.name);
    fputs("\\n", to);
    put_bytes(to, bytes);
    fprintf(to, "\", fillcolor=\"%s\", tooltip=\"cost %lld", kind_fill[op.kind], (long long)op.cost);
    if (op.workspace_bytes > 0) {
        fputs(", workspace ", to);
        put_bytes(to, op.workspace_bytes);
    }
    fprintf(to, "\"%s];\n", op.recomputable ? "" : ", peripheries=2");
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
        if (producer < 0) {
            fprintf(to, "  t%d -> op%d;\n", (int)op.inputs[i], (int)v);
            continue;
        }
        // What a backward operator reads of the forward pass is what rematerialization is about.
        bool saved = ckm_dataflow_get_op(df, producer).kind == CKM_OP_FORWARD && op.kind == CKM_OP_BACKWARD;
        fprintf(to, "  op%d -> op%d%s;\n", (int)producer, (int)v,
                saved ? " [color=\"#c0504d\", style=dashed, constraint=false]" : "");
    }
}

static void put_graph(FILE *to, const ckm_dataflow *df)
{
    fputs("digraph \"", to);
    put_quoted(to, ckm_dataflow_name(df));
    fputs("\" {\n"
          "  graph [rankdir=TB, nodesep=0.2, ranksep=0.25, fontname=\"Helvetica\"];\n"
          "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=10, margin=\"0.08,0.04\", "
          "height=0.3, color=\"#777777\"];\n"
          "  edge [color=\"#777777\", arrowsize=0.6];\n",
          to);
    for (int32_t t = 0; t < ckm_dataflow_tensor_count(df); t++) {
        if (ckm_dataflow_producer(df, t) < 0) {
            ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, t);
            fprintf(to, "  t%d [shape=plaintext, style=\"\", label=\"", (int)t);
            put_quoted(to, tensor.name);
            fputs("\\n", to);
            put_bytes(to, tensor.bytes);
            fputs("\"];\n", to);
        }
    }
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
    ckm_i_writer writer;
    ckm_status status = ckm_i_writer_open(&writer, path, err);
    if (status != CKM_OK) {
        return status;
    }
    put_graph(writer.stream, df);
    return ckm_i_writer_commit(&writer, err);
}

ckm_status ckm_emit_graph_figure(const ckm_dataflow *df, const char *path, ckm_error *err)
{
    static const char *const format_arguments[] = {"-Tsvg", "-Tpdf", "-Tpng"};
    ckm_i_figure_format format;
    ckm_status status = ckm_i_figure_format_of(path, &format, err);
    if (status != CKM_OK) {
        return status;
    }
    FILE *script = tmpfile();
    if (script == NULL) {
        return ckm_i_error(err, CKM_ERR_IO, "cannot create a temporary file: %s", strerror(errno));
    }
    put_graph(script, df);
    const char *argv[] = {"dot", format_arguments[format], NULL};
    status = ckm_i_emit_run(argv, script, path, "graphviz", err);
    fclose(script);
    return status;
}
