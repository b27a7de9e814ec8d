// SPDX-License-Identifier: Apache-2.0
// checkmate run: a network forward, within a memory budget.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_costs.h"
#include "cli/cli_generate.h"
#include "cli/cli_model.h"
#include "cli/cli_pictures.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct run_settings {
    cli_list inputs, outputs;
    const char *weights, *budget, *strategy, *back_end;
    double time_limit_seconds;
    int64_t threads;
    int scaling;  // -1: not given
    int64_t generate, seed;
    const char *prompt;
    double temperature;
    bool strict, json, verbose;
    cli_model_settings model;
} run_settings;

static const run_settings defaults = {
    .budget = "auto",
    .strategy = "auto",
    .time_limit_seconds = 20,
    .scaling = -1,
    .seed = 1,
    .temperature = 0.8,
    .model = CLI_MODEL_DEFAULTS,
};
_Static_assert(sizeof(run_settings) <= CLI_SETTINGS_MAX, "parsing has room for the settings");

#define AT(member) offsetof(run_settings, member)

static const char *const scalings[] = {"symmetric", "unit", "imagenet", NULL};

static const cli_option file_options[] = {
    {"input", 'i', CLI_INPUTS, AT(inputs), "[NAME=]FILE",
     "Required without pictures. An array (.npy) for the input called NAME; give the option once for each input. "
     "Without NAME= it is "
     "the network's first input. Its first dimension is the batch, and the type must be the input's: nothing is "
     "converted.",
     NULL, 0, 0, NULL},
    {"output", 'o', CLI_OUTPUTS, AT(outputs), "[NAME=]FILE",
     "Write the output called NAME to FILE, as .npy; give the option once for each output that you want. Without NAME= "
     "it is the network's first output. Files are replaced when all of them are complete. On pictures: one FILE, a "
     "table "
     "(CSV) of the five likeliest classes, or an array with a row a picture if its name ends in .npy; otherwise the "
     "table "
     "goes to standard output.",
     NULL, 0, 0, NULL},
    {"weights", 0, CLI_INPUT, AT(weights), "FILE",
     "Weights in a safetensors FILE, as 'checkmate train --export' and --save write them, matched by name. Weights in "
     "an ONNX model's own file are used without this option.",
     NULL, 0, 0, NULL},
    {"pixels", 0, CLI_CHOICE, AT(scaling), "HOW",
     "How the pixel values of pictures are scaled: 'symmetric', from -1 to 1; 'unit', from 0 to 1; 'imagenet', "
     "normalized "
     "by ImageNet's mean and deviation.",
     "as in training, which --weights says, otherwise symmetric", 0, 0, scalings},
    {"strict", 0, CLI_FLAG, AT(strict), NULL,
     "End at the first picture that cannot be read, instead of leaving it out.", NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, AT(json), NULL, "Print the result as one JSON object.", NULL, 0, 0, NULL},
    {"verbose", 'v', CLI_FLAG, AT(verbose), NULL, "Also report on solving.", NULL, 0, 0, NULL},
};

static const cli_option text_options[] = {
    {"generate", 0, CLI_INTEGER, AT(generate), "N",
     "Write N bytes that go on from --prompt, one after the other. The network is one that 'checkmate train' trained "
     "on a "
     "text, and --weights says its size. The text goes to standard output, or to -o FILE.",
     NULL, 1, 1 << 24, NULL},
    {"prompt", 0, CLI_TEXT, AT(prompt), "TEXT", "What to go on from; at least a byte.", "a new line", 0, 0, NULL},
    {"temperature", 0, CLI_REAL, AT(temperature), "T",
     "How freely to choose: 1 draws as the network predicts, less keeps closer to the likeliest, and 0 always takes "
     "it.",
     "0.8", 0, 0, NULL},
    {"seed", 0, CLI_INTEGER, AT(seed), "N", "Seed of the choices: the same gives the same text.", "1", 0, INT64_MAX,
     NULL},
};

static const cli_option memory_options[] = {
    {"budget", 0, CLI_TEXT, AT(budget), "B",
     "Bytes that the run may add to the process's own memory: parameters, inputs, outputs, activations, workspace, and "
     "what kernels and threads take. A size such as 512MB or 4GiB, a percentage of what the run without "
     "rematerialization takes or of its activations, such as 60%act, or 'auto': 80 % of the memory available now.",
     "auto", 0, 0, NULL},
    {"strategy", 's', CLI_TEXT, AT(strategy), "NAME",
     "How to search for the schedule; 'checkmate strategies' lists the names.", "auto", 0, 0, NULL},
    {"time-limit", 't', CLI_REAL, AT(time_limit_seconds), "S", "Seconds for each search; 0 means no limit.", "20", 0, 0,
     NULL},
    {"threads", 'j', CLI_INTEGER, AT(threads), "N", "Number of threads that compute.", "one per processor", 1, 1024,
     NULL},
    {"back-end", 0, CLI_TEXT, AT(back_end), "NAME",
     "'cpu' for fast kernels, or 'reference' for plain ones to "
     "compare with.",
     "cpu", 0, 0, NULL},
};

static const cli_option model_options[] = {
    {"batch", 'b', CLI_INTEGER, AT(model.batch), "N", "Samples per batch.",
     "the input's first dimension; of pictures at most 16", 1, INT64_C(1) << 40, NULL},
    {"input-shape", 0, CLI_SHAPE, AT(model.input_shape), "H,W,C",
     "Shape of the first input without the batch: height, width, channels.",
     "the network's own, the input's, or that of training", 0, 0, NULL},
    {"costs", 0, CLI_INPUT, AT(model.costs), "WHAT",
     "Costs of operators, by which the schedule is chosen: 'flops', multiply-accumulates (MACs), or 'device:NAME', "
     "times that a device model predicts.",
     "flops", 0, 0, NULL},
};

// What is run, and by what.
typedef struct run_setup {
    const run_settings *settings;
    const char *model;
    const char *folder;          // of pictures, or NULL
    cli_pictures *pictures;      // in it
    cli_generation *generation;  // of a text, or NULL
    ckm_graph *graph;
    ckm_inference *inference;
    ckm_import_options importing;
    cli_costs costs;
} run_setup;

// Is the name in "NAME=FILE" this one? Without a name it is that of the first.
static bool is_named(const char *text, const char *name, bool first)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return first;
    }
    return (size_t)(equals - text) == strlen(name) && strncmp(text, name, strlen(name)) == 0;
}

// Where the table or array of pictures goes.
static const char *pictures_output(const run_settings *s)
{
    return s->outputs.n > 0 ? cli_files_path(s->outputs.items[0]) : "-";
}

static int check_pictures(const cli_command *command, const run_settings *s)
{
    if (s->inputs.n > 0) {
        return cli_usage_error(command, "pictures are the network's input: leave out --input");
    }
    if (s->outputs.n > 1) {
        return cli_usage_error(command, "of pictures there is one --output");
    }
    if (s->json && strcmp(pictures_output(s), "-") == 0) {
        return cli_usage_error(
            command, "--json and the table of pictures cannot both go to standard output: give --output FILE");
    }
    return cli_check_strategy(command, s->strategy);
}

// --generate has its input from --prompt.
static int check_generation(const cli_command *command, const run_settings *s, bool pictures)
{
    if (pictures || s->inputs.n > 0) {
        return cli_usage_error(command, "--generate goes on from --prompt: leave out %s",
                               pictures ? "pictures" : "--input");
    }
    if (s->outputs.n > 1) {
        return cli_usage_error(command, "of a text there is one --output");
    }
    if (s->prompt != NULL && s->prompt[0] == '\0') {
        return cli_usage_error(command, "--prompt is empty: give a byte to go on from");
    }
    if (s->scaling >= 0 || s->strict) {
        return cli_usage_error(command, "--pixels and --strict are for pictures");
    }
    if (s->model.batch > 1) {
        return cli_usage_error(command, "--generate writes one text: leave out --batch");
    }
    if (s->json && strcmp(pictures_output(s), "-") == 0) {
        return cli_usage_error(command, "--json and the text cannot both go to standard output: give --output FILE");
    }
    return cli_check_strategy(command, s->strategy);
}

static int check_usage(const cli_command *command, const run_settings *s, const char *model, bool pictures)
{
    if (cli_model_is_dataflow(model)) {
        return cli_usage_error(command, "a checkmate-graph file does not say how to run its operators: give a network");
    }
    if (s->generate > 0) {
        return check_generation(command, s, pictures);
    }
    if (s->prompt != NULL) {
        return cli_usage_error(command, "--prompt goes with --generate N");
    }
    if (pictures) {
        return check_pictures(command, s);
    }
    if (s->scaling >= 0 || s->strict) {
        return cli_usage_error(command,
                               "--pixels and --strict are for pictures: name a folder of them after the MODEL");
    }
    if (s->inputs.n == 0) {
        return cli_usage_error(command, "--input is missing: an array to run the network on, such as --input x.npy");
    }
    return cli_check_strategy(command, s->strategy);
}

// The name of the network's first input, or "".
static const char *first_input(const ckm_graph *graph)
{
    for (int32_t i = 0; i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, i);
        if (t.role == CKM_ROLE_INPUT) {
            return t.name;
        }
    }
    return "";
}

// The sizes of a network of the zoo, as the file of weights says them where they are not given.
static ckm_status adopt_sizes(const run_setup *r, cli_model_settings *model, ckm_error *err)
{
    char text[256];
    bool found = false;
    if (r->settings->weights == NULL || cli_model_is_file(r->model)) {
        return CKM_OK;
    }
    ckm_status status = ckm_train_read_note(r->settings->weights, "network_options", text, sizeof text, &found, err);
    if (status == CKM_OK && found) {
        cli_model_read_sizes(text, model);
    }
    return status;
}

// The network for the batch of the array in `path`; where the file leaves dimensions open, the array says them too.
static ckm_status load_for(run_setup *r, const char *path, ckm_error *err)
{
    const run_settings *s = r->settings;
    cli_model_settings model = s->model;
    ckm_dtype dtype;
    ckm_shape shape;
    ckm_error first = CKM_ERROR_INIT;
    ckm_status status = ckm_npy_describe(path, &dtype, &shape, err);
    if (status == CKM_OK) {
        status = adopt_sizes(r, &model, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 1) {
            return cli_error(err, CKM_ERR_ARGUMENT, path, "the array is empty");
        }
    }
    int64_t batch = model.batch > 0 ? model.batch : shape.rank > 0 ? shape.dims[0] : 0;
    ckm_graph_free(r->graph);
    r->graph = NULL;
    r->importing = cli_model_import_options(&model, batch);
    status = cli_model_load_network(r->model, &model, batch, &r->graph, &first);
    if (status == CKM_ERR_UNSUPPORTED && cli_model_is_file(r->model) && model.input_shape.rank == 0 && shape.rank > 1) {
        r->importing.input_rank = shape.rank - 1;
        memcpy(r->importing.input_dims, shape.dims + 1, (size_t)(shape.rank - 1) * sizeof shape.dims[0]);
        if (ckm_import_file(r->model, &r->importing, &r->graph, NULL) == CKM_OK) {
            return CKM_OK;
        }
    }
    if (status != CKM_OK) {
        *err = first;
    }
    return status;
}

// The array of the network's first input says what batch there is.
static ckm_status load_network(run_setup *r, ckm_error *err)
{
    const cli_list *inputs = &r->settings->inputs;
    ckm_status status = load_for(r, cli_files_path(inputs->items[0]), err);
    for (int i = 1; status == CKM_OK && i < inputs->n; i++) {
        if (is_named(inputs->items[i], first_input(r->graph), true)) {
            status = load_for(r, cli_files_path(inputs->items[i]), err);
            break;
        }
    }
    return status;
}

// The network as it was trained, for one text.
static ckm_status load_for_text(run_setup *r, ckm_error *err)
{
    cli_model_settings model = r->settings->model;
    ckm_status status = adopt_sizes(r, &model, err);
    r->importing = cli_model_import_options(&model, 1);
    return status == CKM_OK ? cli_model_load_network(r->model, &model, 1, &r->graph, err) : status;
}

// The network as it was trained, for a batch of pictures.
static ckm_status load_for_pictures(run_setup *r, ckm_error *err)
{
    enum { USUAL_BATCH = 16 };
    const run_settings *s = r->settings;
    cli_pictures *p = r->pictures;
    cli_model_settings model = s->model;
    ckm_status status = cli_pictures_find(r->folder, s->strict, p, err);
    if (status == CKM_OK) {
        status = cli_pictures_read_notes(s->weights, p, err);
    }
    if (status == CKM_OK) {
        status = adopt_sizes(r, &model, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    int64_t readable = p->n - p->n_bad;
    bool of_zoo = cli_model_published_classes(r->model) > 0;
    model.classes = of_zoo && model.classes == 0 && p->classes > 1 ? p->classes : model.classes;
    model.input_shape = model.input_shape.rank == 0 && p->input.rank == 3 ? p->input : model.input_shape;
    int64_t batch = model.batch > 0 ? model.batch : readable < USUAL_BATCH ? readable : USUAL_BATCH;
    r->importing = cli_model_import_options(&model, batch);
    return cli_model_load_network(r->model, &model, batch, &r->graph, err);
}

static ckm_status plan(run_setup *r, ckm_inference_options options, ckm_error *err)
{
    const run_settings *s = r->settings;
    cli_limit_settings limits = {s->time_limit_seconds, 1e-3, s->threads > 0 ? s->threads : cli_processors(), 1,
                                 s->verbose};
    cli_progress progress = cli_progress_start(&limits, s->strategy, NULL);
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_solve_options solve = cli_solve_options(&limits, s->strategy, &progress);
    ckm_status status = r->pictures != NULL     ? load_for_pictures(r, err)
                        : r->generation != NULL ? load_for_text(r, err)
                                                : load_network(r, err);
    if (status == CKM_OK) {
        status = cli_costs_choose(s->model.costs, &r->costs, err);
    }
    if (status != CKM_OK) {
        return status;
    }
    kernels.backend = s->back_end;
    kernels.threads = (int)limits.threads;
    options.kernels = &kernels;
    options.solve = &solve;
    options.cost_model = &r->costs.model;
    options.weights = s->weights;
    options.reading_bytes = r->pictures != NULL     ? cli_pictures_bytes(r->pictures, r->graph, pictures_output(s))
                            : r->generation != NULL ? cli_generate_bytes(r->generation, r->graph)
                                                    : 0;
    if (cli_model_is_file(r->model)) {
        options.model = r->model;
        options.importing = &r->importing;
    }
    status = ckm_inference_plan(r->graph, &options, &r->inference, err);
    if (status == CKM_OK) {
        cli_note_threads(ckm_inference_program(r->inference), kernels.threads);
    }
    return status;
}

// Says why there is no schedule. Gives the exit status.
static int explain_absence(const ckm_inference_info *info)
{
    char budget[64];
    char floor_text[64];
    char least[64];
    char known[96] = "";
    if (info->least_bytes > 0) {
        snprintf(known, sizeof known, "; a budget of %s (%lld bytes) was tried and fits",
                 cli_show_bytes(info->least_bytes, least, sizeof least), (long long)info->least_bytes);
    }
    const char *which = !info->proven                            ? " was found that"
                        : info->budget_bytes < info->floor_bytes ? ""
                                                                 : " in the network's order";
    cli_failf(
        "no schedule%s fits a budget of %s (%lld bytes), and at least %s (%lld bytes) are proven to be needed, in "
        "any order%s; give a larger budget, or a smaller batch",
        which, cli_show_bytes(info->budget_bytes, budget, sizeof budget), (long long)info->budget_bytes,
        cli_show_bytes(info->floor_bytes, floor_text, sizeof floor_text), (long long)info->floor_bytes, known);
    return info->proven ? CLI_INFEASIBLE : CLI_NONE_FOUND;
}

static ckm_status read_inputs(const run_setup *r, ckm_error *err)
{
    const cli_list *inputs = &r->settings->inputs;
    for (int i = 0; i < inputs->n; i++) {
        char name[512];
        const char *equals = strchr(inputs->items[i], '=');
        if (equals == NULL) {
            snprintf(name, sizeof name, "%s", ckm_inference_input(r->inference, 0).name);
        } else {
            snprintf(name, sizeof name, "%.*s", (int)(equals - inputs->items[i]), inputs->items[i]);
        }
        ckm_status status = ckm_inference_read_npy(r->inference, name, cli_files_path(inputs->items[i]), err);
        if (status != CKM_OK) {
            return status;
        }
    }
    return CKM_OK;
}

// Which outputs are wanted; checked before anything is computed.
static ckm_status find_outputs(const run_setup *r, ckm_inference_file *files, ckm_error *err)
{
    const cli_list *outputs = &r->settings->outputs;
    int32_t n = ckm_inference_output_count(r->inference);
    for (int i = 0; i < outputs->n; i++) {
        char names[1024] = "";
        files[i] = (ckm_inference_file){-1, cli_files_path(outputs->items[i])};
        for (int32_t k = 0; k < n; k++) {
            const char *name = ckm_inference_output(r->inference, k).name;
            size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%.100s", k > 0 ? ", " : "", name);
            files[i].output = files[i].output < 0 && is_named(outputs->items[i], name, k == 0) ? k : files[i].output;
        }
        if (files[i].output < 0) {
            return cli_error(err, CKM_ERR_NOT_FOUND, NULL,
                             "--output: the network has no output called '%.*s'; it has %s",
                             (int)strcspn(outputs->items[i], "="), outputs->items[i], names);
        }
    }
    return CKM_OK;
}

static int report(const run_setup *r, double seconds, int64_t grown)
{
    ckm_inference_info info = ckm_inference_get_info(r->inference);
    double overhead = cli_overhead(info.cost, info.baseline_cost);
    int32_t n = ckm_inference_output_count(r->inference);
    char text[64];
    char other[64];
    char third[64];
    if (r->settings->json) {
        cli_json json;
        cli_json_begin(&json);
        cli_json_text(&json, "network", ckm_graph_name(r->graph));
        cli_json_size(&json, "batch", ckm_graph_batch(r->graph));
        cli_json_size(&json, "outputs", n);
        cli_json_text(&json, "parameters_from", info.parameters_from);
        cli_json_real(&json, "seconds", seconds);
        cli_json_real(&json, "overhead", overhead);
        cli_json_size(&json, "budget_bytes", info.budget_bytes);
        cli_json_size(&json, "used_bytes", info.used_bytes);
        cli_json_size(&json, "region_bytes", info.region_bytes);
        cli_json_size(&json, "arena_bytes", info.arena_bytes);
        cli_json_size(&json, "outside_bytes", info.outside_bytes);
        cli_json_size(&json, "anonymous_growth_bytes", grown);
        cli_json_size(&json, "baseline_bytes", info.baseline_bytes);
        cli_json_text(&json, "strategy", info.strategy);
        cli_json_end(&json);
        return cli_finish_output();
    }
    for (int i = 0; i < r->settings->outputs.n; i++) {
        if (strcmp(cli_files_path(r->settings->outputs.items[i]), "-") == 0) {
            return cli_finish_output();  // the array alone
        }
    }
    for (int32_t i = 0; i < n; i++) {
        ckm_session_tensor t = ckm_inference_output(r->inference, i);
        printf("%-22s %s, ", i == 0 ? "outputs" : "", cli_text(t.name));
        for (int32_t d = 0; d < t.shape.rank; d++) {
            printf("%s%lld", d > 0 ? "x" : "", (long long)t.shape.dims[d]);
        }
        printf("%s\n", t.shape.rank == 0 ? "a number" : "");
    }
    printf("%-22s %s\n", "parameters", cli_text(info.parameters_from));
    printf("%-22s %.1f ms\n", "run", seconds * 1e3);
    printf("%-22s %s of %s; without rematerialization %s\n", "memory",
           cli_show_bytes(info.used_bytes, text, sizeof text), cli_show_bytes(info.budget_bytes, other, sizeof other),
           cli_show_bytes(info.baseline_bytes, third, sizeof third));
    if (grown >= 0) {
        printf("%-22s %s\n", "memory grew by", cli_show_bytes(grown, text, sizeof text));
    }
    printf("%-22s %s\n", "overhead", cli_show_percent(overhead, text, sizeof text));
    return cli_finish_output();
}

static int execute(run_setup *r)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_inference_file files[CLI_LIST_MOST];
    double seconds = 0;
    int64_t before = ckm_run_get_memory(true).anonymous_bytes;
    ckm_status status = ckm_inference_begin(r->inference, &err);
    if (status == CKM_OK) {
        status = find_outputs(r, files, &err);
    }
    if (status == CKM_OK) {
        status = read_inputs(r, &err);
    }
    if (status == CKM_OK) {
        status = ckm_inference_run(r->inference, &seconds, &err);
    }
    int64_t after = ckm_run_get_memory(true).anonymous_bytes;
    cli_stop_install();  // what is computed is written
    if (status == CKM_OK && r->settings->outputs.n > 0) {
        status = ckm_inference_write_npy(r->inference, files, r->settings->outputs.n, &err);
    }
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    return report(r, seconds, before >= 0 && after >= 0 ? (after > before ? after - before : 0) : -1);
}

// How pixels are scaled: as was asked for, as in training, or as `train` does without being asked.
static int scaling_of(const run_setup *r)
{
    return r->settings->scaling >= 0 ? r->settings->scaling : r->pictures->scaling >= 0 ? r->pictures->scaling : 0;
}

// What was done with pictures, on standard error: the table may be on standard output.
static void report_pictures(const run_setup *r)
{
    const cli_pictures *p = r->pictures;
    char text[64];
    ckm_session_tensor input = ckm_inference_input(r->inference, 0);
    bool said = r->settings->scaling < 0 && p->scaling >= 0;
    fprintf(stderr, "pictures  %lld, of which %lld left out; ", (long long)p->n, (long long)p->n_bad);
    for (int32_t d = 1; d < input.shape.rank; d++) {
        fprintf(stderr, "%s%lld", d > 1 ? "x" : "", (long long)input.shape.dims[d]);
    }
    fprintf(stderr, ", pixels '%s'%s\n", scalings[scaling_of(r)], said ? " as in training" : "");
    if (p->judged > 0) {
        fprintf(stderr, "accuracy  %s of %lld, by the names of the folders\n",
                cli_show_percent((double)p->right / (double)p->judged, text, sizeof text), (long long)p->judged);
    }
}

static int execute_on_pictures(run_setup *r)
{
    ckm_error err = CKM_ERROR_INIT;
    const run_settings *s = r->settings;
    int64_t before = ckm_run_get_memory(true).anonymous_bytes;
    ckm_status status = ckm_inference_begin(r->inference, &err);
    if (status == CKM_OK) {
        status = cli_pictures_run(r->pictures, r->inference, ckm_graph_batch(r->graph), (ckm_data_scaling)scaling_of(r),
                                  s->strict, pictures_output(s), &err);
    }
    int64_t after = ckm_run_get_memory(true).anonymous_bytes;
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    report_pictures(r);
    if (strcmp(pictures_output(s), "-") == 0) {
        return cli_finish_output();
    }
    return report(r, r->pictures->seconds, before >= 0 && after >= 0 ? (after > before ? after - before : 0) : -1);
}

static int execute_generation(run_setup *r)
{
    ckm_error err = CKM_ERROR_INIT;
    const char *output = pictures_output(r->settings);
    int64_t before = ckm_run_get_memory(true).anonymous_bytes;
    ckm_status status = ckm_inference_begin(r->inference, &err);
    if (status == CKM_OK) {
        status = cli_generate_run(r->generation, r->inference, output, &err);
    }
    int64_t after = ckm_run_get_memory(true).anonymous_bytes;
    if (status != CKM_OK) {
        return cli_fail(&err);
    }
    if (strcmp(output, "-") == 0) {
        return cli_finish_output();
    }
    return report(r, r->generation->seconds, before >= 0 && after >= 0 ? (after > before ? after - before : 0) : -1);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const run_settings *s = settings;
    ckm_error err = CKM_ERROR_INIT;
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    cli_pictures pictures = {.scaling = -1};
    cli_generation generation = {s->generate, s->prompt != NULL ? s->prompt : "\n", s->temperature, (uint64_t)s->seed,
                                 0};
    run_setup r = {.settings = s, .model = arguments[0], .generation = s->generate > 0 ? &generation : NULL};
    if (n_arguments > 1) {
        r.folder = arguments[1];
        r.pictures = &pictures;
    }
    int outcome = check_usage(command, s, arguments[0], n_arguments > 1);
    if (outcome < 0) {
        outcome = cli_budget_of_run(command, s->budget, &options.budget_bytes, &options.budget_fraction,
                                    &options.activations_fraction);
    }
    if (outcome >= 0) {
        return outcome;
    }
    cli_stop_at_once();
    if (plan(&r, options, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    } else {
        ckm_inference_info info = ckm_inference_get_info(r.inference);
        outcome = !info.fits             ? explain_absence(&info)
                  : r.pictures != NULL   ? execute_on_pictures(&r)
                  : r.generation != NULL ? execute_generation(&r)
                                         : execute(&r);
    }
    ckm_inference_close(r.inference);
    ckm_graph_free(r.graph);
    cli_pictures_dispose(&pictures);
    return outcome;
}

static const cli_group groups[] = {
    {"Files", file_options, CLI_COUNT(file_options), 0},
    {"Text", text_options, CLI_COUNT(text_options), 0},
    {"Memory", memory_options, CLI_COUNT(memory_options), 0},
    {"Model", model_options, CLI_COUNT(model_options), 0},
    {"Size of the network", cli_size_options, CLI_N_SIZE_OPTIONS, AT(model)},
};
static const char *const argument_names[] = {"MODEL", "PICTURES"};

const cli_command cli_command_run = {
    .name = "run",
    .summary = "Run a network forward within a memory budget.",
    .usage = "MODEL PICTURES|--generate N|--input [NAME=]x.npy [-o [NAME=]y.npy] [--weights FILE] [--budget B|auto] "
             "[options]",
    .description =
        "Computes what MODEL, an ONNX file or a network of the zoo, predicts for an input, on the CPU. The forward "
        "pass is planned by the same search as a training step, checked by the same verifier and executed by the same "
        "code, "
        "within --budget: what does not fit is computed again.\n\nBatch normalization takes the running statistics, "
        "dropout does nothing, and a softmax at the end of the network is computed. Every parameter must have a value, "
        "from the model's file, from --weights, or by --input with its name.\n\nPICTURES is a PNG or JPEG file, or a "
        "folder with "
        "such files in it and below. They are resized and scaled as in training. Files that 'checkmate train' wrote "
        "say "
        "how, and how many classes the network has and what they are called; 'checkmate run MODEL PICTURES --weights "
        "FILE' needs nothing else. The table has a row for every picture: its path, then name and probability of the "
        "likeliest classes. If every picture is in a folder called like a class, the accuracy is said, too.\n\nWithout "
        "-o, the outputs and their "
        "shapes are listed and nothing is written.",
    .exit_statuses =
        "0  the outputs have been computed and written\n1  failed: bad input, input or output error, out of "
        "memory\n2  wrong usage\n3  proven: no schedule of the class named fits the budget\n4  no schedule was found "
        "within the limits\n",
    .examples =
        "checkmate run model.onnx --input x.npy -o y.npy\n"
        "checkmate run model.onnx --weights trained.safetensors --input images.npy -o scores.npy --budget 200MB\n"
        "checkmate run MobileNet photos/test --weights best.safetensors -o predictions.csv\n"
        "checkmate run GPT2 --weights gpt.safetensors --generate 500 --prompt 'static int '\n"
        "checkmate run bert.onnx --input input_ids=ids.npy --input attention_mask=mask.npy -o logits=y.npy\n"
        "checkmate run MobileNet --weights run.safetensors --input photos.npy -o classes.npy --budget 60%\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 2,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
