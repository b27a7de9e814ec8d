// SPDX-License-Identifier: Apache-2.0
// checkmate graph: the training graph of a model, as numbers, as JSON, as a picture.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_model.h"
#include "cli/cli_values.h"

typedef struct graph_settings {
    cli_model_settings model;
    const char *output, *plot, *plot_network;
} graph_settings;

static const graph_settings defaults = {CLI_MODEL_DEFAULTS, NULL, NULL, NULL};

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
};

static void print_row(const char *name, const char *value)
{
    printf("%-22s %s\n", name, cli_text(value));
}

static int print_summary(const cli_model *model)
{
    const ckm_dataflow *df = model->df;
    int kinds[4] = {0, 0, 0, 0};
    int64_t peak = 0;
    int64_t floor_bytes = 0;
    char text[256];
    char number[64];
    ckm_error err = CKM_ERROR_INIT;
    if (cli_baseline_peak(df, &peak, &err) != CKM_OK || ckm_min_budget_floor(df, &floor_bytes, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        kinds[ckm_dataflow_get_op(df, v).kind]++;
    }
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
    snprintf(text, sizeof text, "%d (%d forward, %d loss, %d backward, %d update)", (int)ckm_dataflow_op_count(df),
             kinds[CKM_OP_FORWARD], kinds[CKM_OP_LOSS], kinds[CKM_OP_BACKWARD], kinds[CKM_OP_UPDATE]);
    print_row("operators", text);
    print_row("tensors", cli_show_count(ckm_dataflow_tensor_count(df), text, sizeof text));
    print_row("edges", cli_show_count(ckm_dataflow_edge_count(df), text, sizeof text));
    print_row("cost of one step",
              cli_show_cost((double)ckm_dataflow_total_cost(df), ckm_dataflow_cost_unit(df), text, sizeof text));
    print_row("fixed memory", cli_show_bytes(ckm_dataflow_fixed_bytes(df), text, sizeof text));
    snprintf(text, sizeof text, "%s without rematerialization", cli_show_bytes(peak, number, sizeof number));
    print_row("peak memory", text);
    snprintf(text, sizeof text, "%s, which every schedule needs", cli_show_bytes(floor_bytes, number, sizeof number));
    print_row("memory floor", text);
    return cli_finish_output();
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const graph_settings *s = settings;
    cli_model model = {NULL, NULL, 0};
    ckm_error err = CKM_ERROR_INIT;
    (void)n_arguments;
    int outcome = cli_model_check(command, arguments[0], &s->model);
    if (outcome >= 0) {
        return outcome;
    }
    if (cli_model_load(arguments[0], &s->model, 0, &model, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    outcome = CLI_DONE;
    if (s->output != NULL && ckm_dataflow_write(model.df, s->output, &err) != CKM_OK) {
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
    if (outcome == CLI_DONE) {
        outcome = s->output == NULL ? print_summary(&model) : cli_finish_output();
    }
    cli_model_dispose(&model);
    return outcome;
}

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
    {"Model", cli_model_options, CLI_N_MODEL_OPTIONS, offsetof(graph_settings, model)},
    {"Size of the network", cli_size_options, CLI_N_SIZE_OPTIONS, offsetof(graph_settings, model)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_graph = {
    .name = "graph",
    .summary = "Show, save or draw the training graph of a model.",
    .usage = "MODEL [-o graph.json] [--plot graph.svg] [options]",
    .description = "Derives the graph of one training step, forward and backward, with the cost of every operator "
                   "and the bytes of every tensor. Without -o, it prints a summary: operators, edges, the peak "
                   "without rematerialization, and the memory floor below which no schedule can go. 'solve' and "
                   "'verify' read the JSON file; other programs can write such files for graphs of their own.",
    .examples = "checkmate graph ResNet50 --batch 64\n"
                "checkmate graph vgg_unet --batch 16 -o unet.json --plot unet.svg\n"
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
