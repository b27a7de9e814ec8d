// SPDX-License-Identifier: Apache-2.0
// checkmate export: what was trained, as a file for other programs.
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_model.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"
#include "cli/cli_weights.h"

typedef struct export_settings {
    const char *weights, *output;
    cli_model_settings model;
} export_settings;

static const export_settings defaults = {NULL, NULL, CLI_MODEL_DEFAULTS};
_Static_assert(sizeof(export_settings) <= CLI_SETTINGS_MAX, "parsing has room for the settings");

#define AT(member) offsetof(export_settings, member)

static const cli_option file_options[] = {
    {"weights", 0, CLI_INPUT, AT(weights), "FILE",
     "Required except for an ONNX file, which has its own weights. Trained weights in a safetensors FILE, as "
     "'checkmate train --save', --save-best and --export write them, or of torchvision or transformers where the "
     "network is theirs. Files that training wrote contain the number of classes and the size of the input.",
     NULL, 0, 0, NULL},
    {"output", 'o', CLI_OUTPUT, AT(output), "FILE",
     "Required. Where to write: a name that ends in .onnx, for the network with its weights, or in .safetensors, for "
     "weights alone.",
     NULL, 0, 0, NULL},
};

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

static int check_usage(const cli_command *command, const export_settings *s, const char *model)
{
    if (cli_model_is_dataflow(model)) {
        return cli_usage_error(command,
                               "a checkmate-graph file holds no network: give the network that it was made from");
    }
    if (s->output == NULL) {
        return cli_usage_error(command, "--output is missing: a name that ends in .onnx or .safetensors");
    }
    if (!ends_with(s->output, ".onnx") && !ends_with(s->output, ".safetensors")) {
        return cli_usage_error(
            command, "--output %s: the name must end in .onnx or .safetensors, which says what to write", s->output);
    }
    if (s->model.batch > 0) {
        return cli_usage_error(command, "the batch stays open: leave out --batch");
    }
    if (s->weights == NULL && !cli_model_is_file(model)) {
        return cli_usage_error(command,
                               "--weights is missing: a file that 'checkmate train %s' wrote with --save or "
                               "--export",
                               model);
    }
    return -1;
}

static void note(ckm_log_level level, const char *line, void *user)
{
    (void)user;
    if (level <= CKM_LOG_WARN) {
        cli_note(line);
    }
}

// Nothing is computed: the inference holds the network with its parameters.
static ckm_status open_network(const char *name, const export_settings *s, ckm_graph **graph, ckm_inference **out,
                               ckm_error *err)
{
    cli_model_settings model = s->model;
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    ckm_import_options importing;
    ckm_status status = cli_weights_check_network(s->weights, name, err);
    if (status == CKM_OK) {
        status = cli_weights_adopt(s->weights, name, &model, err);
    }
    if (status == CKM_OK) {
        importing = cli_model_import_options(&model, 1);
        status = cli_model_load_network(name, &model, 1, graph, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    options.weights = s->weights;
    options.budget_fraction = 1.0;
    options.evaluates = true;
    options.note = note;
    if (cli_model_is_file(name)) {
        options.model = name;
        options.importing = &importing;
    }
    return ckm_inference_open(*graph, &options, out, err);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const export_settings *s = settings;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    ckm_inference *inference = NULL;
    (void)n_arguments;
    int outcome = check_usage(command, s, arguments[0]);
    if (outcome >= 0) {
        return outcome;
    }
    cli_stop_at_once();
    ckm_status status = open_network(arguments[0], s, &graph, &inference, &err);
    cli_stop_install();  // what is written is written whole
    if (status == CKM_OK) {
        status = ckm_inference_export(inference, s->output, &err);
    }
    if (status != CKM_OK) {
        outcome = cli_fail(&err);
    } else {
        cli_line(stdout, 23, "%-22s %s\n", "network", cli_text(ckm_graph_name(graph)));
        cli_line(stdout, 23, "%-22s %s\n", "weights", cli_text(ckm_inference_get_info(inference).parameters_from));
        cli_line(stdout, 23, "%-22s %s\n", "written to", cli_text(s->output));
        outcome = cli_finish_output();
    }
    ckm_inference_close(inference);
    ckm_graph_free(graph);
    return outcome;
}

static const cli_group groups[] = {
    {"Files", file_options, CLI_COUNT(file_options), 0},
    {"Network", cli_network_options, CLI_N_NETWORK_OPTIONS, AT(model)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_export = {
    .name = "export",
    .summary = "Write a trained network to a file for other programs.",
    .usage = "MODEL --weights FILE -o model.onnx [options]",
    .description =
        "Writes MODEL, a network of the zoo or an ONNX file, with trained weights: as an ONNX model that predicts what "
        "'checkmate run' predicts, or as safetensors.\n\nAn ONNX model is in inference form: batch normalization takes "
        "the running statistics, and dropout is left out. The batch is open. An image goes in with its channels first "
        "(batch, channels, height, width), tokens as int32. What ONNX Runtime shows as the model's metadata says how "
        "pixels are prepared (input.height, input.width, input.mean, input.std), whether probabilities or logits come "
        "out (output), and what the classes are called (class_names, a list in JSON). Of a MODEL that is an ONNX file, "
        "the result is a copy with other weights.",
    .exit_statuses =
        "0  the file has been written\n1  failed: bad input, input or output error, out of memory\n2  wrong "
        "usage\n",
    .examples = "checkmate export MobileNet --weights best.safetensors -o model.onnx\n"
                "checkmate export GPT2 --weights gpt.safetensors -o gpt.onnx\n"
                "checkmate export model.onnx --weights trained.safetensors -o trained.onnx\n"
                "checkmate export ResNet18 --weights run.safetensors -o resnet18.safetensors\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
