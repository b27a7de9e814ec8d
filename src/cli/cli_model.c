// SPDX-License-Identifier: Apache-2.0
// Finding and building models.
#include "cli/cli_model.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli_costs.h"
#include "cli/cli_values.h"

static const char *const granularities[] = {"layer", "op", NULL};

#define SIZE(name, member, help, largest)                                                                       \
    {                                                                                                           \
        name, 0, CLI_INTEGER, offsetof(cli_model_settings, member), "N", help, "as published", 1, largest, NULL \
    }

const cli_option cli_network_options[CLI_N_NETWORK_OPTIONS] = {
    {"batch", 'b', CLI_INTEGER, offsetof(cli_model_settings, batch), "N",
     "Samples per batch. Sets the symbolic batch dimension of an ONNX file.",
     "that of the ONNX file, of the input or of the training to resume, otherwise 1", 1, INT64_C(1) << 40, NULL},
    {"input-shape", 0, CLI_SHAPE, offsetof(cli_model_settings, input_shape), "H,W,C",
     "Shape of the first input without the batch: height, width, channels.",
     "the network's own, or that of a file it was trained or is run with", 0, 0, NULL},
    SIZE("sequence-length", sequence_length, "Tokens per sample, for text networks.", 1 << 24),
    SIZE("width", width, "Features per token between layers; in staged image networks, channels of the first stage.",
         1 << 24),
    SIZE("depth", depth, "Layers; in staged networks, blocks over all stages; in a U-Net, blocks per resolution.",
         1 << 12),
    SIZE("heads", heads, "Attention heads; in staged networks, of the first stage.", 1 << 16),
    SIZE("vocabulary", vocabulary, "Vocabulary size, for text networks.", 1 << 28),
    SIZE("classes", classes, "Number of classes of a classifier or segmenter.", 1 << 24),
};

const cli_option cli_graph_options[CLI_N_GRAPH_OPTIONS] = {
    {"granularity", 0, CLI_CHOICE, offsetof(cli_model_settings, granularity), "layer|op",
     "Detail of the training graph: 'layer', one forward and one backward operator per layer, as in the Checkmate "
     "paper; 'op', what a step really runs: one operator per gradient, views, in-place work.",
     "op", 0, 0, granularities},
    {"costs", 0, CLI_INPUT, offsetof(cli_model_settings, costs), "WHAT",
     "Costs of operators: 'flops', multiply-accumulates (MACs) as the paper counts them; a checkmate-profile FILE of "
     "measured times; or 'device:NAME', times that a device model predicts ('checkmate devices' lists the models).",
     "flops", 0, 0, NULL},
    {"device", 0, CLI_INPUT, offsetof(cli_model_settings, device), "NAME",
     "The same as --costs device:NAME; where a command needs a budget and none is given, also the memory of that "
     "device.",
     NULL, 0, 0, NULL},
};

// The first of the sizes.
enum { SIZES = 2 };

void cli_model_write_sizes(const cli_model_settings *settings, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = SIZES; i < CLI_N_NETWORK_OPTIONS && used < size; i++) {
        int64_t value = *(const int64_t *)(const void *)((const char *)settings + cli_network_options[i].offset);
        if (value > 0) {
            int n = snprintf(text + used, size - used, "%s%s=%lld", used > 0 ? " " : "", cli_network_options[i].name,
                             (long long)value);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

void cli_model_read_sizes(const char *text, cli_model_settings *settings)
{
    for (int i = SIZES; i < CLI_N_NETWORK_OPTIONS; i++) {
        const cli_option *option = &cli_network_options[i];
        int64_t *value = (int64_t *)(void *)((char *)settings + option->offset);
        size_t n = strlen(option->name);
        for (const char *at = text; *value == 0 && at != NULL; at = strchr(at, ' ')) {
            at += *at == ' ';
            if (strncmp(at, option->name, n) == 0 && at[n] == '=') {
                long long read = strtoll(at + n + 1, NULL, 10);
                *value = read > 0 && read <= option->max ? read : 0;
            }
        }
    }
}

static int64_t size_at(const cli_model_settings *settings, int i)
{
    return *(const int64_t *)(const void *)((const char *)settings + cli_network_options[i].offset);
}

const char *cli_model_other_size(const cli_model_settings *given, const cli_model_settings *wanted, char *text,
                                 size_t size)
{
    for (int i = SIZES; i < CLI_N_NETWORK_OPTIONS; i++) {
        int64_t value = size_at(wanted, i);
        if (size_at(given, i) > 0 && value > 0 && size_at(given, i) != value) {
            snprintf(text, size, "%lld", (long long)value);
            return cli_network_options[i].name;
        }
    }
    return NULL;
}

void cli_model_adopt_sizes(const cli_model_settings *from, cli_model_settings *settings)
{
    for (int i = SIZES; i < CLI_N_NETWORK_OPTIONS; i++) {
        int64_t *value = (int64_t *)(void *)((char *)settings + cli_network_options[i].offset);
        *value = *value > 0 ? *value : size_at(from, i);
    }
    if (settings->input_shape.rank == 0) {
        settings->input_shape = from->input_shape;
    }
}

// The first of these options that was given, or NULL.
static const char *given_size(const cli_model_settings *s)
{
    return s->sequence_length > 0 ? "--sequence-length"
           : s->width > 0         ? "--width"
           : s->depth > 0         ? "--depth"
           : s->heads > 0         ? "--heads"
           : s->vocabulary > 0    ? "--vocabulary"
           : s->classes > 0       ? "--classes"
                                  : NULL;
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text);
    size_t m = strlen(suffix);
    return n > m && strcasecmp(text + n - m, suffix) == 0;
}

bool cli_model_is_dataflow(const char *name)
{
    return strcmp(name, "-") == 0 || has_suffix(name, ".json");
}

int cli_model_check(const cli_command *command, const char *name, const cli_model_settings *settings)
{
    if (cli_model_is_dataflow(name)) {
        const char *option = settings->batch > 0                     ? "--batch"
                             : settings->input_shape.rank > 0        ? "--input-shape"
                             : strcmp(settings->costs, "flops") != 0 ? "--costs"
                             : settings->device != NULL              ? "--device"
                                                                     : given_size(settings);
        if (option != NULL) {
            return cli_usage_error(
                command, "%s does not apply to a checkmate-graph file: its sizes and costs are fixed", option);
        }
    }
    if (settings->device != NULL && strcmp(settings->costs, "flops") != 0) {
        return cli_usage_error(command, "--device %s is --costs device:%s: leave out the other --costs",
                               settings->device, settings->device);
    }
    return -1;
}

int cli_model_device_memory(const cli_command *command, const cli_model_settings *settings, int64_t *bytes)
{
    const ckm_device_product *product = ckm_device_product_find(settings->device);
    if (product == NULL || product->memory_bytes <= 0) {
        return cli_usage_error(command, "the memory of --device %s is not known: give a budget", settings->device);
    }
    *bytes = product->memory_bytes;
    return -1;
}

// The zoo's spelling of a name, ignoring case; NULL when the zoo has no such network.
static const char *find_in_zoo(const char *name)
{
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        if (strcasecmp(ckm_zoo_name(i), name) == 0) {
            return ckm_zoo_name(i);
        }
    }
    return NULL;
}

int64_t cli_model_published_classes(const char *name)
{
    return ckm_zoo_classes(find_in_zoo(name));
}

int64_t cli_model_published_vocabulary(const char *name)
{
    return ckm_zoo_vocabulary(find_in_zoo(name));
}

static ckm_status unknown_model(const char *name, ckm_error *err)
{
    const char *names[256];
    int n = 0;
    char suggestion[128];
    for (int32_t i = 0; i < ckm_zoo_count() && n < CLI_COUNT(names); i++) {
        names[n++] = ckm_zoo_name(i);
    }
    return cli_error(err, CKM_ERR_NOT_FOUND, NULL,
                     "there is no network and no file called '%s'%s (a MODEL is a name that 'checkmate models' lists, "
                     "an .onnx file or a .json graph)",
                     name, cli_did_you_mean(name, names, n, "", suggestion, sizeof suggestion));
}

static ckm_status build_from_zoo(const char *name, const cli_model_settings *settings, int64_t batch, ckm_graph **out,
                                 ckm_error *err)
{
    const cli_shape *shape = &settings->input_shape;
    if (shape->rank != 0 && shape->rank != 3) {
        return cli_error(err, CKM_ERR_ARGUMENT, NULL, "%s takes an input shape of three numbers, height,width,channels",
                         name);
    }
    ckm_zoo_size size = CKM_ZOO_SIZE_INIT;
    size.height = shape->dims[0];
    size.width = shape->dims[1];
    size.channels = shape->dims[2];
    size.sequence_length = settings->sequence_length;
    size.model_width = settings->width;
    size.depth = settings->depth;
    size.heads = settings->heads;
    size.vocabulary = settings->vocabulary;
    size.classes = settings->classes;
    ckm_error why = CKM_ERROR_INIT;
    ckm_status status = ckm_zoo_build_sized(name, batch > 0 ? batch : 1, &size, out, &why);
    if (status != CKM_OK) {
        bool channels_first = shape->rank == 3 && shape->dims[0] <= 4 && shape->dims[2] > 4;
        return cli_error(err, status, NULL, "%s%s", why.message,
                         channels_first ? "; an input shape is height,width,channels" : "");
    }
    return CKM_OK;
}

ckm_import_options cli_model_import_options(const cli_model_settings *settings, int64_t batch)
{
    const cli_shape *shape = &settings->input_shape;
    ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
    options.batch = batch;
    options.input_rank = shape->rank;
    memcpy(options.input_dims, shape->dims, sizeof shape->dims);
    if (shape->rank == 3) {
        // The command line says height,width,channels for every model; ONNX keeps channels first.
        options.input_dims[0] = shape->dims[2];
        options.input_dims[1] = shape->dims[0];
        options.input_dims[2] = shape->dims[1];
    }
    return options;
}

// A small file can describe more memory than any machine has. That is no error, since planning allocates none of it.
static void warn_of_size(const char *path, const ckm_graph *graph)
{
    static const double element_bytes[] = {4, 2, 2, 8, 1, 1, 2, 4, 8, 1};  // by ckm_dtype
    static const double odd_bytes = 1e12;
    ckm_graph_tensor_info largest = {.name = NULL};
    double most = 0;
    for (int32_t i = 0; i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, i);
        double bytes = element_bytes[tensor.dtype];
        for (int32_t d = 0; d < tensor.shape.rank; d++) {
            bytes *= (double)tensor.shape.dims[d];
        }
        if (bytes > most) {
            most = bytes;
            largest = tensor;
        }
    }
    if (most / (double)ckm_graph_batch(graph) > odd_bytes) {
        char text[64];
        cli_warnf("%s: tensor \"%.200s\" alone has %s: is its shape what it should be?", path, largest.name,
                  cli_show_bytes(most < 9e18 ? (int64_t)most : INT64_MAX, text, sizeof text));
    }
}

static ckm_status import(const char *path, const cli_model_settings *settings, int64_t batch, ckm_graph **out,
                         ckm_error *err)
{
    ckm_import_options options = cli_model_import_options(settings, batch);
    ckm_graph *graph = NULL;
    if (given_size(settings) != NULL) {
        return cli_error(err, CKM_ERR_ARGUMENT, path, "%s is for networks of the zoo: an ONNX file fixes these sizes",
                         given_size(settings));
    }
    ckm_status status = ckm_import_file(path, &options, &graph, err);
    if (status != CKM_OK) {
        return status;
    }
    if (batch > 0 && ckm_graph_batch(graph) != batch) {
        status = cli_error(err, CKM_ERR_ARGUMENT, path,
                           "the file fixes the batch at %lld, so it cannot be %lld: export the model with a symbolic "
                           "batch dimension",
                           (long long)ckm_graph_batch(graph), (long long)batch);
        ckm_graph_free(graph);
        return status;
    }
    warn_of_size(path, graph);
    *out = graph;
    return CKM_OK;
}

// Network to training graph to costs.
static ckm_status derive(ckm_graph *graph, const cli_model_settings *settings, ckm_dataflow **out, ckm_error *err)
{
    cli_costs costs;
    ckm_training *training = NULL;
    char device[4096];
    snprintf(device, sizeof device, "device:%s", settings->device != NULL ? settings->device : "");
    ckm_status status = cli_costs_choose(settings->device != NULL ? device : settings->costs, &costs, err);
    if (status != CKM_OK) {
        return status;
    }
    status = settings->granularity == CLI_GRANULARITY_LAYER ? ckm_autodiff_layer_graph(graph, &training, err)
                                                            : ckm_autodiff_op_graph(graph, NULL, &training, err);
    if (status == CKM_OK) {
        status = ckm_cost_apply(training, &costs.model, out, err);
    }
    ckm_training_free(training);
    return status;
}

bool cli_model_is_file(const char *name)
{
    return find_in_zoo(name) == NULL &&
           (strchr(name, '/') != NULL || has_suffix(name, ".onnx") || access(name, F_OK) == 0);
}

ckm_status cli_model_load_network(const char *name, const cli_model_settings *settings, int64_t batch, ckm_graph **out,
                                  ckm_error *err)
{
    const char *zoo_name = find_in_zoo(name);
    if (zoo_name != NULL) {
        return build_from_zoo(zoo_name, settings, batch, out, err);
    }
    return cli_model_is_file(name) ? import(name, settings, batch, out, err) : unknown_model(name, err);
}

ckm_status cli_model_load(const char *name, const cli_model_settings *settings, int64_t batch, cli_model *out,
                          ckm_error *err)
{
    cli_model model = {NULL, NULL, batch > 0 ? batch : settings->batch};
    ckm_status status;
    if (cli_model_is_dataflow(name)) {
        status = ckm_dataflow_read(name, &model.df, err);
        if (status == CKM_OK) {
            *out = model;
        }
        return status;
    }
    status = cli_model_load_network(name, settings, model.batch, &model.graph, err);
    if (status == CKM_OK) {
        model.batch = ckm_graph_batch(model.graph);
        status = derive(model.graph, settings, &model.df, err);
    }
    if (status != CKM_OK) {
        cli_model_dispose(&model);
        return status;
    }
    *out = model;
    return CKM_OK;
}

void cli_model_dispose(cli_model *model)
{
    ckm_dataflow_free(model->df);
    ckm_graph_free(model->graph);
    *model = (cli_model){NULL, NULL, 0};
}

const char *cli_model_title(const cli_model *model, char *buf, size_t size)
{
    int n = snprintf(buf, size, "%s", ckm_dataflow_name(model->df));
    if (model->batch > 0 && n > 0 && (size_t)n < size) {
        snprintf(buf + n, size - (size_t)n, ", batch %lld", (long long)model->batch);
    }
    return buf;
}

ckm_status cli_baseline_peak(const ckm_dataflow *df, int64_t *peak_bytes, ckm_error *err)
{
    ckm_schedule *baseline = NULL;
    ckm_simulation facts;
    ckm_status status = ckm_schedule_baseline(df, &baseline, err);
    if (status == CKM_OK) {
        status = ckm_schedule_simulate(df, baseline, NULL, &facts, err);
    }
    if (status == CKM_OK) {
        *peak_bytes = facts.peak_bytes;
    }
    ckm_schedule_free(baseline);
    return status;
}
