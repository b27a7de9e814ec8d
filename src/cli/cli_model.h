// SPDX-License-Identifier: Apache-2.0
// MODEL: from what the user names to a dataflow graph.
#ifndef CKM_SRC_CLI_CLI_MODEL_H
#define CKM_SRC_CLI_CLI_MODEL_H

#include "cli/cli.h"

// What an operator of the training graph is; the first two in the order of the option's words.
enum { CLI_GRANULARITY_LAYER, CLI_GRANULARITY_OP, CLI_GRANULARITY_DEFAULT };

typedef struct cli_model_settings {
    int64_t batch;  // 0: not given
    cli_shape input_shape;
    int granularity;             // CLI_GRANULARITY_...
    const char *costs, *device;  // one of them; `device` is NULL where it was not given
    int64_t sequence_length, width, depth, heads, vocabulary, classes;  // 0: not given
} cli_model_settings;
#define CLI_MODEL_DEFAULTS                                                    \
    {                                                                         \
        0, {0, {0}}, CLI_GRANULARITY_DEFAULT, "flops", NULL, 0, 0, 0, 0, 0, 0 \
    }

// Options of every command with a MODEL, over a cli_model_settings: the batch, the shape of the input,
// and sizes that make networks of the zoo smaller or larger than published.
enum { CLI_N_NETWORK_OPTIONS = 8 };
extern const cli_option cli_network_options[CLI_N_NETWORK_OPTIONS];
// Additional options of the commands that plan: the detail of the graph and its costs.
enum { CLI_N_GRAPH_OPTIONS = 3 };
extern const cli_option cli_graph_options[CLI_N_GRAPH_OPTIONS];
// Both, with their settings at `base` of those of the command.
#define CLI_MODEL_GROUPS(base)                                            \
    {"Network", cli_network_options, CLI_N_NETWORK_OPTIONS, (base)},      \
    {                                                                     \
        "Graph and costs", cli_graph_options, CLI_N_GRAPH_OPTIONS, (base) \
    }

typedef struct cli_model {
    ckm_graph *graph;  // NULL when the file was a dataflow graph already
    ckm_dataflow *df;
    int64_t batch;  // samples, 0 when unknown
} cli_model;

// The network alone, from the zoo or a file, for `batch` samples (0: the model's own).
ckm_status cli_model_load_network(const char *name, const cli_model_settings *settings, int64_t batch, ckm_graph **out,
                                  ckm_error *err) CKM_NODISCARD;
// Whether MODEL is a file that networks are imported from, and how it is to be read.
bool cli_model_is_file(const char *name);
// Classes of the head of a network of the zoo as published; 0: MODEL has no such head.
int64_t cli_model_published_classes(const char *name);
// Tokens that a network of the zoo knows as published; 0: it reads no text.
int64_t cli_model_published_vocabulary(const char *name);
ckm_import_options cli_model_import_options(const cli_model_settings *settings, int64_t batch);
// The sizes that were given, as text: "width=128 depth=4". And back: sizes in `text` that `settings` does not give are set.
void cli_model_write_sizes(const cli_model_settings *settings, char *text, size_t size);
void cli_model_read_sizes(const char *text, cli_model_settings *settings);
// The name of the first size that both give and that differs, with the wanted one as text; or NULL. And: sizes and the shape of the
// input that `settings` does not give are those of `from`.
const char *cli_model_other_size(const cli_model_settings *given, const cli_model_settings *wanted, char *text,
                                 size_t size);
void cli_model_adopt_sizes(const cli_model_settings *from, cli_model_settings *settings);
// Whether MODEL is a checkmate-graph file (or standard input), whose batch and costs are fixed.
bool cli_model_is_dataflow(const char *name);
// Wrong usage of the model options with this MODEL: reports and gives the exit status, else -1.
int cli_model_check(const cli_command *command, const char *name, const cli_model_settings *settings);
// Builds the model for `batch` samples; 0 takes --batch, or else the model's own.
ckm_status cli_model_load(const char *name, const cli_model_settings *settings, int64_t batch, cli_model *out,
                          ckm_error *err) CKM_NODISCARD;
void cli_model_dispose(cli_model *model);
// "VGG16, batch 64": what a figure is titled. Writes to buf and returns it.
const char *cli_model_title(const cli_model *model, char *buf, size_t size);
// The memory for tensors of the device that --device names. Gives -1, or an exit status after having reported why not.
int cli_model_device_memory(const cli_command *command, const cli_model_settings *settings, int64_t *bytes);

// The peak of running without rematerialization.
ckm_status cli_baseline_peak(const ckm_dataflow *df, int64_t *peak_bytes, ckm_error *err) CKM_NODISCARD;

#endif
