// SPDX-License-Identifier: Apache-2.0
// checkmate graph: the training graph of a model, as numbers, as JSON, as a picture.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_model.h"
#include "cli/cli_second_memory.h"
#include "cli/cli_values.h"

typedef struct graph_settings {
    cli_model_settings model;
    const char *output, *plot, *plot_network;
    bool json;
    cli_second_memory second;
} graph_settings;

static const graph_settings defaults = {CLI_MODEL_DEFAULTS, NULL, NULL, NULL, false, CLI_SECOND_MEMORY_DEFAULTS};

static const cli_option options[] = {
    {"output", 'o', CLI_OUTPUT, offsetof(graph_settings, output), "FILE",
     "Write the graph in checkmate-graph JSON to FILE, '-' for standard output.", NULL, 0, 0, NULL},
    {"plot", 0, CLI_FIGURE, offsetof(graph_settings, plot), "FILE",
     "Draw the graph with graphviz, on a page: a row for every block of operators, forward and backward. FILE ends in "
     ".svg, .pdf or .png.",
     NULL, 0, 0, NULL},
    {"plot-network", 0, CLI_FIGURE, offsetof(graph_settings, plot_network), "FILE",
     "Draw the network itself, on a page: a row for every block of layers, with the shape of its output.", NULL, 0, 0,
     NULL},
    {"json", 0, CLI_FLAG, offsetof(graph_settings, json), NULL, "Print the summary as one JSON object.", NULL, 0, 0,
     NULL},
};

static void print_row(const char *name, const char *value)
{
    cli_line(stdout, 23, "%-22s %s\n", name, cli_text(value));
}

// What the summary has in addition to the model.
typedef struct graph_facts {
    int kinds[CKM_OP_LOAD + 1];
    int64_t peak_bytes, floor_bytes;
    int64_t input_bytes;  // of tensors that no operator produces: parameters, data
    int32_t inputs;
} graph_facts;

static ckm_status gather(const ckm_dataflow *df, graph_facts *f, ckm_error *err)
{
    *f = (graph_facts){{0}, 0, 0, 0, 0};
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        f->kinds[ckm_dataflow_get_op(df, v).kind]++;
    }
    for (int32_t t = 0; t < ckm_dataflow_tensor_count(df); t++) {
        ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, t);
        if (ckm_dataflow_producer(df, t) < 0 && tensor.alias_of < 0) {
            f->inputs++;
            f->input_bytes += tensor.bytes;
        }
    }
    ckm_status status = cli_baseline_peak(df, &f->peak_bytes, err);
    return status == CKM_OK ? ckm_min_budget_floor(df, &f->floor_bytes, err) : status;
}

static int print_json(const cli_model *model, const graph_facts *f)
{
    static const char *const kinds[] = {"forward", "loss", "backward", "update", "load"};
    static const char *const units[] = {"flops", "ns", "us"};
    const ckm_dataflow *df = model->df;
    cli_json json;
    cli_json_begin(&json);
    cli_json_text(&json, "network", ckm_dataflow_name(df));
    cli_json_size(&json, "batch", model->batch > 0 ? model->batch : -1);
    cli_json_size(&json, "layers", model->graph != NULL ? ckm_graph_op_count(model->graph) : -1);
    cli_json_size(&json, "parameters",
                  model->graph != NULL ? ckm_graph_element_count(model->graph, CKM_ROLE_PARAMETER) : -1);
    cli_json_size(&json, "other_values",
                  model->graph != NULL ? ckm_graph_element_count(model->graph, CKM_ROLE_STATE) : -1);
    cli_json_size(&json, "operators", ckm_dataflow_op_count(df));
    for (int k = 0; k < CLI_COUNT(kinds); k++) {
        cli_json_size(&json, kinds[k], f->kinds[k]);
    }
    cli_json_size(&json, "tensors", ckm_dataflow_tensor_count(df));
    cli_json_size(&json, "edges", ckm_dataflow_edge_count(df));
    cli_json_size(&json, "cost", ckm_dataflow_total_cost(df));
    cli_json_text(&json, "cost_unit", units[ckm_dataflow_cost_unit(df)]);
    cli_json_size(&json, "fixed_bytes", ckm_dataflow_fixed_bytes(df));
    cli_json_size(&json, "inputs", f->inputs);
    cli_json_size(&json, "input_bytes", f->input_bytes);
    cli_json_size(&json, "baseline_peak_bytes", f->peak_bytes);
    cli_json_size(&json, "floor_bytes", f->floor_bytes);
    cli_second_memory_json(&json, df);
    cli_json_end(&json);
    return cli_finish_output();
}

static int print_summary(const cli_model *model, const graph_facts *f)
{
    const ckm_dataflow *df = model->df;
    char text[256];
    char number[64];
    print_row("network", ckm_dataflow_name(df));
    if (model->graph != NULL) {
        print_row("batch", cli_show_count(model->batch, text, sizeof text));
        print_row("layers", cli_show_count(ckm_graph_op_count(model->graph), text, sizeof text));
        snprintf(text, sizeof text, "%s trained",
                 cli_show_count(ckm_graph_element_count(model->graph, CKM_ROLE_PARAMETER), number, sizeof number));
        int64_t state = ckm_graph_element_count(model->graph, CKM_ROLE_STATE);
        if (state > 0) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, ", %s other", cli_show_count(state, number, sizeof number));
        }
        print_row("parameters", text);
    }
    size_t length = (size_t)snprintf(text, sizeof text, "%d (%d forward, %d loss, %d backward, %d update",
                                     (int)ckm_dataflow_op_count(df), f->kinds[CKM_OP_FORWARD], f->kinds[CKM_OP_LOSS],
                                     f->kinds[CKM_OP_BACKWARD], f->kinds[CKM_OP_UPDATE]);
    if (f->kinds[CKM_OP_LOAD] > 0) {
        length += (size_t)snprintf(text + length, sizeof text - length, ", %d load", f->kinds[CKM_OP_LOAD]);
    }
    snprintf(text + length, sizeof text - length, ")");
    print_row("operators", text);
    print_row("tensors", cli_show_count(ckm_dataflow_tensor_count(df), text, sizeof text));
    print_row("edges", cli_show_count(ckm_dataflow_edge_count(df), text, sizeof text));
    print_row("cost of one step",
              cli_show_cost((double)ckm_dataflow_total_cost(df), ckm_dataflow_cost_unit(df), text, sizeof text));
    print_row("fixed memory", cli_show_bytes(ckm_dataflow_fixed_bytes(df), text, sizeof text));
    snprintf(text, sizeof text, "%s in %d tensors: parameters and data, there all the time",
             cli_show_bytes(f->input_bytes, number, sizeof number), (int)f->inputs);
    print_row("inputs", text);
    snprintf(text, sizeof text, "%s without rematerialization", cli_show_bytes(f->peak_bytes, number, sizeof number));
    print_row("peak memory", text);
    snprintf(text, sizeof text, "%s, which every schedule needs",
             cli_show_bytes(f->floor_bytes, number, sizeof number));
    print_row("memory floor", text);
    cli_second_memory_print(df);
    return cli_finish_output();
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const graph_settings *s = settings;
    cli_model model = {NULL, NULL, 0};
    ckm_error err = CKM_ERROR_INIT;
    (void)n_arguments;
    int outcome = cli_model_check(command, arguments[0], &s->model);
    if (outcome < 0) {
        outcome = cli_second_memory_check(command, &s->second);
    }
    if (outcome >= 0) {
        return outcome;
    }
    if (cli_model_load(arguments[0], &s->model, 0, &model, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    outcome = cli_second_memory_apply(&s->second, &model.df, &err) == CKM_OK ? CLI_DONE : cli_fail(&err);
    if (outcome == CLI_DONE && s->output != NULL && ckm_dataflow_write(model.df, s->output, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    }
    if (outcome == CLI_DONE && s->plot != NULL && ckm_emit_graph_figure(model.df, s->plot, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    }
    if (outcome == CLI_DONE && s->plot_network != NULL) {
        if (model.graph == NULL) {
            outcome = cli_failf("%s: holds a training graph only, no network to draw", arguments[0]);
        } else if (ckm_emit_network_figure(model.graph, s->plot_network, &err) != CKM_OK) {
            outcome = cli_fail(&err);
        }
    }
    if (outcome == CLI_DONE && (s->json || s->output == NULL)) {
        graph_facts facts;
        outcome = gather(model.df, &facts, &err) != CKM_OK ? cli_fail(&err)
                  : s->json                                ? print_json(&model, &facts)
                                                           : print_summary(&model, &facts);
    } else if (outcome == CLI_DONE) {
        outcome = cli_finish_output();
    }
    cli_model_dispose(&model);
    return outcome;
}

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
    CLI_MODEL_GROUPS(offsetof(graph_settings, model)),
    {"Second memory", cli_second_memory_options, CLI_N_SECOND_MEMORY_OPTIONS, offsetof(graph_settings, second)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_graph = {
    .name = "graph",
    .summary = "Show, save or draw the training graph of a model.",
    .usage = "MODEL [-o graph.json] [--plot graph.svg] [--json] [options]",
    .description = "Derives the graph of one training step, forward and backward, with the cost of every operator "
                   "and the bytes of every tensor. Without -o, it prints a summary: operators, edges, the peak "
                   "without rematerialization, and the memory floor below which no schedule can go. 'solve' and "
                   "'verify' read the JSON file; other programs can write such files for their own graphs.",
    .examples = "checkmate graph ResNet50 --batch 64\n"
                "checkmate graph vgg_unet --batch 16 -o unet.json --plot unet.svg\n"
                "checkmate graph ResNet50 --batch 64 --device V100 --out-speed 12GB -o moving.json\n"
                "checkmate graph model.onnx --batch 32 -o - | checkmate solve - --budget 60%\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
