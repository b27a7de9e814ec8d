// SPDX-License-Identifier: Apache-2.0
// checkmate max-batch: the largest batch that fits a memory at a bounded extra cost.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_model.h"
#include "cli/cli_second_memory.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct max_batch_settings {
    cli_budget memory;
    int64_t batch_min, batch_step;
    const char *compute_limit, *strategy, *output;
    int accounting;
    bool json;
    cli_limit_settings limits;
    cli_model_settings model;
    cli_second_memory second;
} max_batch_settings;

static const max_batch_settings defaults = {
    {.given = false},
    1,
    1,
    "extra-forward",
    "auto",
    NULL,
    0,
    false,
    CLI_LIMIT_DEFAULTS(120),
    CLI_MODEL_DEFAULTS,
    CLI_SECOND_MEMORY_DEFAULTS,
};

static const char *const accountings[] = {"normal", "paper", NULL};

static const cli_option options[] = {
    {"memory", 'm', CLI_BUDGET, offsetof(max_batch_settings, memory), "B",
     "Required without --device. Memory available: a size such as 16GB, 16GiB or 16000000000 (16G is 16GB); the memory "
     "of a device that 'checkmate devices' lists, such as H100; or 'auto', 80 % of the memory available now.",
     NULL, 0, 0, NULL},
    {"budget", 0, CLI_BUDGET, offsetof(max_batch_settings, memory), "B", "The same as --memory.", NULL, 0, 0, NULL},
    {"compute-limit", 0, CLI_TEXT, offsetof(max_batch_settings, compute_limit), "WHAT",
     "The most a step may cost: 'extra-forward', the step without rematerialization and one more forward pass; or a "
     "number X, X times the step without rematerialization.",
     "extra-forward", 0, 0, NULL},
    {"accounting", 0, CLI_CHOICE, offsetof(max_batch_settings, accounting), "normal|paper",
     "What has to fit: 'normal', the peak with everything in it; 'paper', the rule of the Checkmate paper's "
     "artifact, which counts parameters and gradients twice for the strategies that 'checkmate strategies' marks "
     "with [--accounting paper]. 'paper' uses the paper's graph, --granularity layer.",
     "normal", 0, 0, accountings},
    {"batch-min", 0, CLI_INTEGER, offsetof(max_batch_settings, batch_min), "N", "The smallest batch to consider.", "1",
     1, INT64_C(1) << 40, NULL},
    {"batch-step", 0, CLI_INTEGER, offsetof(max_batch_settings, batch_step), "N",
     "Consider only the batches min, min + N, min + 2N, ...", "1", 1, INT64_C(1) << 40, NULL},
    {"strategy", 's', CLI_TEXT, offsetof(max_batch_settings, strategy), "NAME",
     "How to solve; 'checkmate strategies' lists the names.", "auto", 0, 0, NULL},
    {"time-limit", 't', CLI_REAL, offsetof(max_batch_settings, limits.time_limit_seconds), "S",
     "Wall time in seconds for the whole search; 0 means no limit.", "120", 0, 0, NULL},
    {"output", 'o', CLI_OUTPUT, offsetof(max_batch_settings, output), "FILE",
     "Write the schedule of the largest batch in checkmate-schedule JSON to FILE, '-' for standard output.", NULL, 0, 0,
     NULL},
    {"json", 0, CLI_FLAG, offsetof(max_batch_settings, json), NULL,
     "Print the result as one JSON object instead of a table.", NULL, 0, 0, NULL},
};

typedef struct search {
    const char *name;
    const max_batch_settings *settings;
    bool show_trials;
    int64_t memory_bytes;
    ckm_cost_unit unit;  // of the graphs that were built
} search;

static ckm_status build(int64_t batch, void *user, ckm_dataflow **out, ckm_error *err)
{
    search *s = user;
    cli_model model = {NULL, NULL, 0};
    cli_model_settings settings = s->settings->model;
    if (s->settings->accounting == CKM_ACCOUNTING_PAPER) {
        settings.granularity = CLI_GRANULARITY_LAYER;
    }
    ckm_status status = cli_model_load(s->name, &settings, batch, &model, err);
    if (status == CKM_OK) {
        status = cli_second_memory_apply(&s->settings->second, &model.df, err);
    }
    if (status == CKM_OK) {
        s->unit = ckm_dataflow_cost_unit(model.df);
        *out = model.df;
        model.df = NULL;
    }
    cli_model_dispose(&model);
    return status;
}

static void show_trial(int64_t batch, ckm_solve_status outcome, int64_t best_batch, int64_t upper_bound, double seconds,
                       void *user)
{
    const search *s = user;
    if (s->show_trials) {
        bool fits = outcome == CKM_SOLVE_OPTIMAL || outcome == CKM_SOLVE_FEASIBLE;
        cli_line(stderr, 12, "%s%8.1f s%s  batch %lld: %s; best %lld, upper bound %lld\n", cli_style(stderr, CLI_DIM),
                 seconds, cli_style(stderr, CLI_PLAIN), (long long)batch,
                 fits                              ? "fits"
                 : outcome == CKM_SOLVE_INFEASIBLE ? "proven not to fit"
                                                   : "none found",
                 (long long)best_batch, (long long)upper_bound);
    }
}

// By the predicted time of a step; NaN where costs are multiply-accumulates, or there is none.
static double samples_per_second(const search *s, const ckm_max_batch_result *r)
{
    if (s->unit == CKM_COST_FLOPS || r->schedule == NULL || r->cost <= 0) {
        return NAN;
    }
    return (double)r->max_batch / ((double)r->cost * (s->unit == CKM_COST_NS ? 1e-9 : 1e-6));
}

static void print_json(const search *s, const ckm_max_batch_result *r)
{
    cli_json json;
    cli_json_begin(&json);
    cli_json_size(&json, "max_batch", r->max_batch > 0 ? r->max_batch : -1);
    cli_json_size(&json, "upper_bound", r->upper_bound > 0 ? r->upper_bound : -1);
    bool bounded = r->upper_bound > 0 || r->status == CKM_SOLVE_INFEASIBLE;
    cli_json_text(&json, "bound_covers", bounded ? cli_covers_text(r->bound_covers) : NULL);
    cli_json_real(&json, "overhead", cli_overhead(r->cost, r->baseline_cost));
    cli_json_size(&json, "peak_bytes", r->peak_bytes);
    cli_json_real(&json, "seconds", round(r->seconds * 1e6) / 1e6);
    cli_json_text(&json, "status", cli_status_text(r->status));
    cli_json_size(&json, "memory_bytes", s->memory_bytes);
    cli_json_real(&json, "samples_per_second", samples_per_second(s, r));
    cli_json_end(&json);
}

static void print_table(const search *s, const ckm_max_batch_result *r)
{
    char text[64];
    cli_line(stdout, 15, "%-14s %s\n", "model", cli_text(s->name));
    cli_line(stdout, 15, "%-14s %s\n", "memory", cli_show_bytes(s->memory_bytes, text, sizeof text));
    cli_line(stdout, 15, "%-14s %s\n", "strategy", s->settings->strategy);
    if (r->max_batch > 0) {
        cli_line(stdout, 15, "%-14s %s%lld%s\n", "max batch", cli_style(stdout, CLI_BOLD), (long long)r->max_batch,
                 cli_style(stdout, CLI_PLAIN));
    } else {
        cli_line(stdout, 15, "%-14s none found\n", "max batch");
    }
    if (r->upper_bound > 0) {
        static const char *const classes[] = {"", "all schedules", "those in the graph's order",
                                              "frontier-advancing schedules"};
        cli_line(stdout, 15, "%-14s %lld, for %s within the compute limit\n", "upper bound", (long long)r->upper_bound,
                 classes[r->bound_covers]);
    }
    if (r->schedule != NULL) {
        cli_line(stdout, 15, "%-14s %s\n", "overhead",
                 cli_show_percent(cli_overhead(r->cost, r->baseline_cost), text, sizeof text));
        cli_line(stdout, 15, "%-14s %s\n", "peak", cli_show_bytes(r->peak_bytes, text, sizeof text));
    }
    if (!isnan(samples_per_second(s, r))) {
        cli_line(stdout, 15, "%-14s %s a step, %.4g samples a second, as predicted\n", "time",
                 cli_show_cost((double)r->cost, s->unit, text, sizeof text), samples_per_second(s, r));
    }
    cli_line(stdout, 15, "%-14s %s\n", "status", cli_status_text(r->status));
    cli_line(stdout, 15, "%-14s %.2f\n", "seconds", r->seconds);
}

static int report(const search *s, const ckm_max_batch_result *r)
{
    char text[64];
    const char *output = s->settings->output;
    ckm_error err = CKM_ERROR_INIT;
    if (r->schedule != NULL && output != NULL && ckm_schedule_write(r->schedule, output, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    if (s->settings->json) {
        print_json(s, r);
    } else if (output == NULL || strcmp(output, "-") != 0) {
        print_table(s, r);
    }
    int outcome = cli_finish_output();
    if (outcome != CLI_DONE || r->schedule != NULL) {
        return outcome;
    }
    cli_show_bytes(s->memory_bytes, text, sizeof text);
    if (r->status == CKM_SOLVE_INFEASIBLE) {
        static const char *const classes[] = {"", "", " in the graph's order", " that advances by stages"};
        cli_failf("no schedule%s within the compute limit fits %s, not even for batch %lld", classes[r->bound_covers],
                  text, (long long)s->settings->batch_min);
    } else {
        cli_failf("no schedule was found within %s and the limits given, not even for batch %lld", text,
                  (long long)s->settings->batch_min);
    }
    return cli_exit_of(r->status, false);
}

static int check_usage(const cli_command *command, const char *name, const max_batch_settings *s, double *compute_limit)
{
    if (!s->memory.given && s->model.device == NULL) {
        return cli_usage_error(command, "--memory is missing: give a size such as 16GB or 16GiB, or --device H100");
    }
    if (s->memory.is_percent || s->memory.is_least) {
        return cli_usage_error(command,
                               "--memory must be a size: the peak depends on the batch, which is searched for");
    }
    if (cli_model_is_dataflow(name)) {
        return cli_usage_error(command, "a checkmate-graph file has a fixed batch: give a network or an ONNX file");
    }
    if (s->model.batch > 0) {
        return cli_usage_error(command, "max-batch searches for --batch: leave it out, or say with --batch-min where "
                                        "to start");
    }
    if (s->accounting == CKM_ACCOUNTING_PAPER && s->model.granularity == CLI_GRANULARITY_OP) {
        return cli_usage_error(command,
                               "--accounting paper is a rule for the paper's graph: leave out --granularity op");
    }
    *compute_limit = 0;
    if (strcmp(s->compute_limit, "extra-forward") != 0 &&
        (cli_read_real(s->compute_limit, compute_limit) != NULL || !(*compute_limit >= 1))) {
        return cli_usage_error(command, "--compute-limit must be extra-forward or a number of at least 1, got '%s'",
                               s->compute_limit);
    }
    int outcome = cli_model_check(command, name, &s->model);
    outcome = outcome >= 0 ? outcome : cli_second_memory_check(command, &s->second);
    return outcome >= 0 ? outcome : cli_check_strategy(command, s->strategy);
}

static int choose_memory(const cli_command *command, const max_batch_settings *s, int64_t *bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    if (!s->memory.given) {
        return cli_model_device_memory(command, &s->model, bytes);
    }
    return cli_budget_bytes(&s->memory, NULL, bytes, &err) == CKM_OK ? -1 : cli_fail(&err);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const max_batch_settings *s = settings;
    ckm_error err = CKM_ERROR_INIT;
    ckm_max_batch_result result;
    ckm_max_batch_options searching = CKM_MAX_BATCH_OPTIONS_INIT;
    (void)n_arguments;
    int outcome = check_usage(command, arguments[0], s, &searching.compute_limit);
    if (outcome < 0) {
        outcome = choose_memory(command, s, &searching.memory_bytes);
    }
    if (outcome >= 0) {
        return outcome;
    }
    cli_progress progress = cli_progress_start(&s->limits, s->strategy, NULL);
    search looking = {arguments[0], s, progress.enabled, searching.memory_bytes, CKM_COST_FLOPS};
    searching.accounting = (ckm_accounting)s->accounting;
    searching.batch_min = s->batch_min;
    searching.batch_step = s->batch_step;
    ckm_solve_options solving = cli_solve_options(&s->limits, s->strategy, &progress);
    solving.progress = NULL;  // the trials are the progress
    searching.solve = &solving;
    searching.trial = show_trial;
    searching.user = &looking;
    cli_stop_install();
    if (ckm_max_batch(&searching, build, &result, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    outcome = report(&looking, &result);
    ckm_max_batch_result_dispose(&result);
    return outcome;
}

static const cli_group groups[] = {
    {"Search", options, CLI_COUNT(options), 0},
    {"Solving", cli_limit_options, CLI_N_LIMIT_OPTIONS, offsetof(max_batch_settings, limits)},
    CLI_MODEL_GROUPS(offsetof(max_batch_settings, model)),
    {"Second memory", cli_second_memory_options, CLI_N_SECOND_MEMORY_OPTIONS, offsetof(max_batch_settings, second)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_max_batch = {
    .name = "max-batch",
    .summary = "Find the largest batch that fits in a given memory.",
    .usage =
        "MODEL --memory B|--device NAME [--compute-limit extra-forward|X]\n"
        "[--strategy NAME] [-o schedule.json] [--accounting paper] [--batch-min N] [--batch-step N] [--json] [options]",
    .description =
        "Finds the largest batch for which the strategy finds a schedule that fits in the memory and costs no more "
        "than the compute limit allows. The memory floor and the proofs of some strategies give an upper bound; "
        "'optimal' means that the batch found equals it.\n\nThe search bisects, and stretches every schedule it "
        "finds to the largest batch at which it still fits. Then it tries each of the eight batches above the best. "
        "Ctrl-C ends it with the best so far.\n\nIf costs are times (--device, --costs), the predicted samples per "
        "second of that batch are printed. --device H100 alone uses that device's times and its memory.",
    .exit_statuses = "0  a batch was found\n"
                     "1  failed: bad input, input or output error, out of memory\n"
                     "2  wrong usage\n"
                     "3  proven: no schedule of the class named fits, not even for the smallest batch\n"
                     "4  none found within the limits\n",
    .examples =
        "checkmate max-batch ResNet50 --memory 16GB\n"
        "checkmate max-batch GPT2 --device H100 -o schedule.json\n"
        "checkmate max-batch GPT2 --device H100 --out-speed 50GB --second-memory 200GB\n"
        "checkmate max-batch VGG19 --memory 16GB --accounting paper --strategy chen-greedy\n"
        "checkmate max-batch model.onnx --memory 8GiB --compute-limit 1.2 --batch-step 8 --batch-min 8 --json\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
