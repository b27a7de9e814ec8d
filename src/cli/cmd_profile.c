// SPDX-License-Identifier: Apache-2.0
// checkmate profile: what the operators of a training step cost on this machine.
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_model.h"
#include "cli/cli_profile.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

enum { MOST_BATCHES = 8, SHOWN = 10 };

typedef struct profile_settings {
    const char *output, *fit, *offload;
    int64_t steps, memory;
    double time_limit_seconds;
    int optimizer;
    bool json;
    cli_kernel_settings kernels;
    cli_model_settings model;
} profile_settings;

static const profile_settings defaults = {
    .steps = 15, .memory = -1, .time_limit_seconds = 60, .optimizer = 1, .model = CLI_MODEL_DEFAULTS};

static const char *const optimizers[] = {"none", "sgd", "adam", "adamw", NULL};

#define AT(member) offsetof(profile_settings, member)
static const cli_option options[] = {
    {"output", 'o', CLI_OUTPUT, AT(output), "FILE",
     "Write the profile (checkmate-profile JSON) to FILE, '-' for standard output. Without this option, the profile "
     "is kept where 'train' looks for it.",
     NULL, 0, 0, NULL},
    {"fit", 0, CLI_TEXT, AT(fit), "N,N,...",
     "Measure at these batches too, up to seven, and fit every operator's time as a line over the batch. The profile "
     "then has costs for other batches.",
     NULL, 0, 0, NULL},
    {"offload", 0, CLI_TEXT, AT(offload), "DIR",
     "Measure also how fast a file in DIR is written and read, as 'train --offload DIR' does. The profile then has a "
     "link, which --link FILE takes elsewhere.",
     NULL, 0, 0, NULL},
    {"steps", 0, CLI_INTEGER, AT(steps), "N", "Training steps to measure, after two that warm up.", "15", 3, 100000,
     NULL},
    {"time-limit", 't', CLI_REAL, AT(time_limit_seconds), "S",
     "Seconds for measuring each batch; at least three "
     "steps are measured.",
     "60", 0, 0, NULL},
    {"memory", 'm', CLI_BYTES, AT(memory), "B",
     "Measure within this memory, with a schedule that recomputes where it has to.", "what it takes", 0, 0, NULL},
    {"optimizer", 0, CLI_CHOICE, AT(optimizer), "NAME",
     "The optimizer whose updates are measured: none, sgd, adam "
     "or adamw.",
     "sgd", 0, 0, optimizers},
    {"json", 0, CLI_FLAG, AT(json), NULL, "Print the result as one JSON object on standard output.", NULL, 0, 0, NULL},
};

// "4,8,16" behind the batch itself.
static const char *read_batches(const char *text, int64_t *batches, int *n)
{
    while (*text != '\0') {
        char number[32];
        size_t length = strcspn(text, ",");
        if (length == 0 || length >= sizeof number || *n == MOST_BATCHES) {
            return "must be up to seven numbers separated by commas";
        }
        memcpy(number, text, length);
        number[length] = '\0';
        const char *problem = cli_read_integer(number, &batches[*n]);
        if (problem != NULL || batches[*n] < 1) {
            return "must be batch sizes, whole numbers from 1";
        }
        (*n)++;
        text += length + (text[length] == ',');
    }
    return NULL;
}

// One batch: network, training graph, kernels, measurement. `cached`: where train looks for it. `link`, where it is not NULL, receives
// how fast --offload is.
static ckm_status measure(const profile_settings *s, const char *model, int64_t batch, ckm_profile **out, char *cached,
                          size_t room, ckm_second_memory *link, ckm_error *err)
{
    static const ckm_optimizer_kind kinds[] = {CKM_OPTIMIZER_NONE, CKM_OPTIMIZER_SGD, CKM_OPTIMIZER_ADAM,
                                               CKM_OPTIMIZER_ADAMW};
    ckm_graph *graph = NULL;
    ckm_training *training = NULL;
    ckm_program *program = NULL;
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_profile_options how = CKM_PROFILE_OPTIONS_INIT;
    derivation.optimizer.kind = kinds[s->optimizer];
    derivation.optimizer.momentum = 0.9;
    kernels.backend = s->kernels.back_end;
    kernels.threads = s->kernels.threads > 0 ? (int)s->kernels.threads : cli_processors();
    kernels.second_memory = s->offload;
    how.steps = (int32_t)s->steps;
    how.time_limit_seconds = cli_exactly(s->time_limit_seconds);
    ckm_status status = cli_model_load_network(model, &s->model, batch, &graph, err);
    if (status == CKM_OK) {
        status = ckm_autodiff_op_graph(graph, &derivation, &training, err);
    }
    if (status == CKM_OK) {
        status = ckm_program_create(training, &kernels, &program, err);
    }
    if (status == CKM_OK) {
        cli_note_threads(program, kernels.threads);
    }
    if (status == CKM_OK && cached != NULL) {
        status = ckm_profile_cache_path(program, cached, room, err);
    }
    if (status == CKM_OK) {
        status = cli_profile_measure(training, program, s->memory, &how, out, err);
    }
    if (status == CKM_OK && link != NULL) {
        status = ckm_program_measure_second_memory(program, link, err);
        link->name = s->offload;
        status = status == CKM_OK ? ckm_profile_set_link(*out, link, err) : status;
    }
    if (status == CKM_OK) {
        const ckm_profile_info *info = ckm_profile_get_info(*out);
        if (info->steps < s->steps) {
            cli_warnf("%lld of %lld steps were measured within --time-limit", (long long)info->steps,
                      (long long)s->steps);
        }
        cli_profile_warn(info);
    }
    ckm_program_free(program);
    ckm_training_free(training);
    ckm_graph_free(graph);
    return status;
}

static int by_total(const void *left, const void *right)
{
    const ckm_profile_op *a = left;
    const ckm_profile_op *b = right;
    return a->median_ns > b->median_ns ? -1 : a->median_ns < b->median_ns;
}

static int print_summary(const ckm_profile *p, const ckm_second_memory *link, const char *written, double fit_error)
{
    const ckm_profile_info *info = ckm_profile_get_info(p);
    int32_t n = ckm_profile_op_count(p);
    char text[64];
    ckm_profile_op *sorted = malloc((size_t)(n > 0 ? n : 1) * sizeof *sorted);
    if (sorted == NULL) {
        return cli_failf("out of memory");
    }
    for (int32_t i = 0; i < n; i++) {
        sorted[i] = ckm_profile_get_op(p, i);
    }
    qsort(sorted, (size_t)n, sizeof *sorted, by_total);
    cli_line(stdout, 23, "%-22s %s\n", "network", cli_text(info->graph));
    cli_line(stdout, 23, "%-22s %s, %d thread%s, back end %s\n", "machine", info->platform, info->threads,
             info->threads == 1 ? "" : "s", info->backend);
    cli_line(stdout, 23, "%-22s %lld\n", "batch", (long long)info->batch);
    cli_line(stdout, 23, "%-22s %d\n", "operators", (int)n);
    cli_line(stdout, 23, "%-22s %s, median of %lld\n", "one step",
             cli_show_cost((double)info->step_ns, CKM_COST_NS, text, sizeof text), (long long)info->steps);
    cli_line(stdout, 23, "%-22s %s\n", "sum of its operators",
             cli_show_cost((double)info->predicted_ns, CKM_COST_NS, text, sizeof text));
    if (link->out_bytes_per_second > 0) {
        char in[64];
        cli_line(stdout, 23, "%-22s %s/s out, %s/s in, latency %.0f us\n", "offload",
                 cli_show_bytes(link->out_bytes_per_second, text, sizeof text),
                 cli_show_bytes(link->in_bytes_per_second, in, sizeof in), 1e-3 * (double)link->latency_ns);
    }
    if (fit_error >= 0) {
        cli_line(stdout, 23, "%-22s %s off at the worst batch, median\n", "fit over the batch",
                 cli_show_percent(fit_error, text, sizeof text));
    }
    cli_line(stdout, 23, "%-22s %s\n", "written to", cli_text(written));
    printf("\n%12s %12s %12s  %s\n", "median", "10 %", "90 %", "slowest operators");
    for (int32_t i = 0; i < n && i < SHOWN; i++) {
        char low[64];
        char high[64];
        cli_line(stdout, 14, "%12s %12s %12s  %s\n",
                 cli_show_cost((double)sorted[i].median_ns, CKM_COST_NS, text, sizeof text),
                 cli_show_cost((double)sorted[i].p10_ns, CKM_COST_NS, low, sizeof low),
                 cli_show_cost((double)sorted[i].p90_ns, CKM_COST_NS, high, sizeof high), cli_text(sorted[i].name));
    }
    free(sorted);
    return cli_finish_output();
}

static int print_json(const ckm_profile *p, const ckm_second_memory *link, const char *written, double fit_error)
{
    const ckm_profile_info *info = ckm_profile_get_info(p);
    cli_json json;
    cli_json_begin(&json);
    cli_json_text(&json, "graph", info->graph);
    cli_json_text(&json, "platform", info->platform);
    cli_json_text(&json, "backend", info->backend);
    cli_json_size(&json, "threads", info->threads);
    cli_json_size(&json, "batch", info->batch);
    cli_json_size(&json, "operators", ckm_profile_op_count(p));
    cli_json_size(&json, "steps", info->steps);
    cli_json_size(&json, "step_ns", info->step_ns);
    cli_json_size(&json, "predicted_ns", info->predicted_ns);
    cli_json_real(&json, "fit_error", fit_error >= 0 ? fit_error : (double)NAN);
    if (link->out_bytes_per_second > 0) {
        cli_json_open(&json, "link");
        cli_json_text(&json, "name", link->name);
        cli_json_size(&json, "out_bytes_per_second", link->out_bytes_per_second);
        cli_json_size(&json, "in_bytes_per_second", link->in_bytes_per_second);
        cli_json_size(&json, "latency_ns", link->latency_ns);
        cli_json_close(&json);
    }
    cli_json_text(&json, "file", written);
    cli_json_end(&json);
    return cli_finish_output();
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const profile_settings *s = settings;
    ckm_error err = CKM_ERROR_INIT;
    ckm_profile *profiles[MOST_BATCHES] = {NULL};
    int64_t batches[MOST_BATCHES] = {s->model.batch};
    int n = 1;
    char cached[2048] = "";
    double fit_error = -1.0;
    ckm_second_memory link = {.out_bytes_per_second = 0};
    int outcome = CLI_DONE;
    if (s->offload != NULL && s->offload[0] == '\0') {
        return cli_usage_error(command, "--offload: the name of the folder is empty");
    }
    (void)n_arguments;
    if (cli_model_is_dataflow(arguments[0])) {
        return cli_usage_error(command, "a checkmate-graph file does not say how to run its operators: give a network");
    }
    const char *problem = s->fit != NULL ? read_batches(s->fit, batches, &n) : NULL;
    if (problem != NULL) {
        return cli_usage_error(command, "--fit %s, got '%s'", problem, s->fit);
    }
    cli_stop_at_once();
    ckm_status status = CKM_OK;
    for (int i = 0; i < n && status == CKM_OK; i++) {
        bool keep = i == 0 && s->output == NULL;
        status = measure(s, arguments[0], batches[i], &profiles[i], keep ? cached : NULL, sizeof cached,
                         i == 0 && s->offload != NULL ? &link : NULL, &err);
    }
    if (status == CKM_OK && n > 1) {
        status = ckm_profile_fit(profiles, n, &fit_error, &err);
    }
    const char *written = s->output != NULL ? s->output : cached;
    cli_stop_install();  // what is measured is kept
    if (status == CKM_OK) {
        status = ckm_profile_write(profiles[0], written, &err);
    }
    if (status != CKM_OK) {
        outcome = cli_fail(&err);
    } else if (s->json) {
        outcome = print_json(profiles[0], &link, written, fit_error);
    } else if (strcmp(written, "-") != 0) {
        outcome = print_summary(profiles[0], &link, written, fit_error);
    } else {
        outcome = cli_finish_output();
    }
    for (int i = 0; i < n; i++) {
        ckm_profile_free(profiles[i]);
    }
    return outcome;
}

static const cli_group groups[] = {
    {"Measuring", options, CLI_COUNT(options), 0},
    {NULL, cli_kernel_options, CLI_N_KERNEL_OPTIONS, AT(kernels)},
    {"Network", cli_network_options, CLI_N_NETWORK_OPTIONS, AT(model)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_profile = {
    .name = "profile",
    .summary = "Measure what the operators of a training step cost on this machine.",
    .usage = "MODEL --batch N [-o profile.json] [--fit N,N,...] [options]",
    .description =
        "Runs training steps of MODEL on synthetic data and times every operator in its place in the step, so that "
        "its operands are in the caches as they are in training. For every operator the profile has the median, the "
        "10th and 90th percentiles and the number of runs. Pass it to other commands with --costs FILE. Without "
        "--fit, a profile is valid for its own batch only.",
    .examples = "checkmate profile MobileNet --batch 16 -o mobilenet.json\n"
                "checkmate solve MobileNet --batch 16 --costs mobilenet.json --budget 50%\n"
                "checkmate profile ResNet50 --batch 8 --fit 2,4,16 --threads 1 -o resnet.json\n"
                "checkmate profile ResNet50 --batch 8 --offload /fast/disk -o r.json\n"
                "checkmate solve ResNet50 --batch 8 --costs r.json --link r.json --budget 30%\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
