// SPDX-License-Identifier: Apache-2.0
// checkmate solve: the cheapest schedule under a memory budget.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_model.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct solve_settings {
    cli_budget budget;
    const char *strategy;
    int formulation;
    bool reorder;
    const char *output;
    bool json;
    cli_limit_settings limits;
    cli_model_settings model;
} solve_settings;

static const solve_settings defaults = {
    {false, false, 0, 0}, "auto", 0, false, NULL, false, CLI_LIMIT_DEFAULTS(60), CLI_MODEL_DEFAULTS,
};

static const char *const formulations[] = {"frontier", "unpartitioned", "paper", NULL};

static const cli_option options[] = {
    {"budget", 0, CLI_BUDGET, offsetof(solve_settings, budget), "B",
     "Required. The peak must not exceed this: a size such as 8GB, 4GiB or 8000000000, or a percentage of the peak "
     "without rematerialization, such as 60%. It counts everything, parameters and their gradients included.",
     NULL, 0, 0, NULL},
    {"strategy", 's', CLI_TEXT, offsetof(solve_settings, strategy), "NAME",
     "How to solve; 'checkmate strategies' lists the names.", "auto", 0, 0, NULL},
    {"formulation", 0, CLI_CHOICE, offsetof(solve_settings, formulation), "F",
     "For strategies ilp and lp-bound: 'frontier', the paper's frontier-advancing stages in a tightened form; 'paper', "
     "the same exactly as published, with a weaker relaxation; or 'unpartitioned', without stages, which the paper "
     "compares with.",
     "frontier", 0, 0, formulations},
    {"reorder", 0, CLI_FLAG, offsetof(solve_settings, reorder), NULL,
     "Let operators run for the first time in another order than the graph's, where that saves memory. Bounds are then "
     "those that cover every order, which are weaker.",
     NULL, 0, 0, NULL},
    {"time-limit", 't', CLI_REAL, offsetof(solve_settings, limits.time_limit_seconds), "S",
     "Seconds of wall time, after which the best schedule found is the result; 0 for no limit.", "60", 0, 0, NULL},
    {"output", 'o', CLI_TEXT, offsetof(solve_settings, output), "FILE",
     "Write the schedule in checkmate-schedule JSON to FILE, '-' for standard output.", NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, offsetof(solve_settings, json), NULL,
     "Print the result as one JSON object instead of a table.", NULL, 0, 0, NULL},
};

static void print_json(const ckm_solve_result *r)
{
    cli_json json;
    cli_json_begin(&json);
    cli_json_text(&json, "status", cli_status_text(r->status));
    cli_json_size(&json, "cost", r->cost);
    cli_json_size(&json, "baseline_cost", r->baseline_cost);
    cli_json_real(&json, "overhead", cli_overhead(r->cost, r->baseline_cost));
    cli_json_size(&json, "peak_bytes", r->peak_bytes);
    cli_json_size(&json, "budget_bytes", r->budget_bytes);
    cli_json_size(&json, "baseline_peak_bytes", r->baseline_peak_bytes);
    cli_json_size(&json, "floor_bytes", r->floor_bytes);
    cli_json_real(&json, "bound_cost", r->bound_cost);
    cli_json_text(&json, "bound_covers", cli_covers_text(r->bound_covers));
    cli_json_real(&json, "gap", r->gap);
    cli_json_real(&json, "seconds", round(r->seconds * 1e6) / 1e6);
    cli_json_text(&json, "strategy", r->strategy[0] != '\0' ? r->strategy : NULL);
    cli_json_end(&json);
}

// "8.00 GB   60.0 % of the peak without rematerialization".
static void print_memory(const char *name, int64_t bytes, int64_t whole)
{
    char text[64];
    char percent[64] = "";
    if (whole > 0 && bytes != whole) {
        cli_show_percent((double)bytes / (double)whole, percent, sizeof percent);
    }
    printf("%-22s %-*s%s\n", name, percent[0] != '\0' ? 13 : 0, cli_show_bytes(bytes, text, sizeof text), percent);
}

static void print_table(const cli_model *model, const ckm_solve_result *r)
{
    static const cli_style_name styles[] = {CLI_GOOD, CLI_GOOD, CLI_BAD, CLI_WARN};
    ckm_cost_unit unit = ckm_dataflow_cost_unit(model->df);
    char text[64];
    char other[64];
    printf("%-22s %s\n", "network", ckm_dataflow_name(model->df));
    printf("%-22s %d\n", "operators", (int)ckm_dataflow_op_count(model->df));
    printf("%-22s %s\n", "without remat., peak", cli_show_bytes(r->baseline_peak_bytes, text, sizeof text));
    printf("%-22s %s\n", "without remat., cost", cli_show_cost((double)r->baseline_cost, unit, text, sizeof text));
    print_memory("memory floor", r->floor_bytes, r->baseline_peak_bytes);
    print_memory("budget", r->budget_bytes, r->baseline_peak_bytes);
    printf("%-22s %s%s%s\n", "status", cli_style(stdout, styles[r->status]), cli_status_text(r->status),
           cli_style(stdout, CLI_PLAIN));
    if (r->schedule != NULL) {
        print_memory("peak", r->peak_bytes, r->baseline_peak_bytes);
        printf("%-22s %-12s overhead %s\n", "cost", cli_show_cost((double)r->cost, unit, text, sizeof text),
               cli_show_percent(cli_overhead(r->cost, r->baseline_cost), other, sizeof other));
    }
    if (!isnan(r->bound_cost)) {
        static const char *const classes[] = {"", "of all schedules", "of all schedules in the graph's order",
                                              "of all frontier-advancing schedules"};
        printf("%-22s %-12s %s\n", "bound", cli_show_cost(r->bound_cost, unit, text, sizeof text),
               classes[r->bound_covers]);
    } else {
        printf("%-22s none proven\n", "bound");
    }
    printf("%-22s %s\n", "gap", cli_show_percent(r->gap, text, sizeof text));
    printf("%-22s %s\n", "strategy", r->strategy);
    printf("%-22s %.2f\n", "seconds", r->seconds);
}

// Says on standard error why there is no schedule, and what would help.
static void explain_absence(const ckm_solve_result *r)
{
    char budget[64];
    char floor_text[64];
    char known[64];
    cli_show_bytes(r->budget_bytes, budget, sizeof budget);
    cli_show_bytes(r->floor_bytes, floor_text, sizeof floor_text);
    cli_show_bytes(r->least_peak_bytes, known, sizeof known);
    if (r->status != CKM_SOLVE_INFEASIBLE) {
        cli_failf("strategy %s found no schedule within %s and the limits given; proven: at least %s (%lld bytes) are "
                  "needed; smallest budget known to fit: %s (%lld bytes)",
                  r->strategy, budget, floor_text, (long long)r->floor_bytes, known, (long long)r->least_peak_bytes);
    } else if (r->budget_bytes < r->floor_bytes) {
        cli_failf("no schedule fits %s: every schedule needs at least %s (%lld bytes); smallest budget known to fit: "
                  "%s (%lld bytes)",
                  budget, floor_text, (long long)r->floor_bytes, known, (long long)r->least_peak_bytes);
    } else {
        cli_failf("no schedule%s fits %s; smallest budget known to fit: %s (%lld bytes)",
                  r->bound_covers == CKM_BOUND_FRONTIER ? " that advances by stages"
                  : r->bound_covers == CKM_BOUND_ORDER  ? " in the graph's order"
                                                        : "",
                  budget, known, (long long)r->least_peak_bytes);
    }
}

// Checks the schedule once more, independently of what solved, and writes it.
static ckm_status hand_out(const ckm_dataflow *df, const ckm_solve_result *r, const char *output, ckm_error *err)
{
    ckm_verdict verdict = {false, -1, -1, ""};
    ckm_status status = ckm_schedule_verify(df, r->schedule, r->budget_bytes, &verdict, err);
    if (status != CKM_OK) {
        return status;
    }
    if (!verdict.ok || verdict.cost != r->cost || verdict.peak_bytes != r->peak_bytes) {
        return cli_error(err, CKM_ERR_INTERNAL, NULL, "the verifier refuses the schedule, which is a bug: %s",
                         verdict.ok ? "cost or peak is not what was reported" : verdict.why);
    }
    return output != NULL ? ckm_schedule_write(r->schedule, output, err) : CKM_OK;
}

static int solve(const solve_settings *s, const cli_model *model)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t baseline_peak = 0;
    cli_progress progress = cli_progress_start(&s->limits, s->strategy, model->df);
    ckm_solve_options solving = cli_solve_options(&s->limits, s->strategy, &progress);
    ckm_solve_result result;
    bool table_goes_out = !s->json && (s->output == NULL || strcmp(s->output, "-") != 0);
    if (cli_baseline_peak(model->df, &baseline_peak, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    solving.budget_bytes = cli_budget_bytes(&s->budget, baseline_peak);
    solving.formulation = (ckm_formulation)s->formulation;
    solving.reorder = s->reorder;
    cli_stop_install();
    if (ckm_solve(model->df, &solving, &result, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    int outcome = CLI_DONE;
    if (result.schedule != NULL && hand_out(model->df, &result, s->output, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    } else {
        if (s->json) {
            print_json(&result);
        } else if (table_goes_out) {
            print_table(model, &result);
        }
        outcome = cli_finish_output();
    }
    if (outcome == CLI_DONE && result.schedule == NULL) {
        explain_absence(&result);
        outcome = cli_exit_of(result.status, false);
    }
    ckm_solve_result_dispose(&result);
    return outcome;
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const solve_settings *s = settings;
    cli_model model = {NULL, NULL, 0};
    ckm_error err = CKM_ERROR_INIT;
    (void)n_arguments;
    if (!s->budget.given) {
        return cli_usage_error(command,
                               "--budget is missing: give bytes, a size such as 8GB, or a percentage such as 60%%");
    }
    if (s->json && s->output != NULL && strcmp(s->output, "-") == 0) {
        return cli_usage_error(command, "--json and '-o -' both want standard output");
    }
    int outcome = cli_check_strategy(command, s->strategy);
    if (outcome < 0) {
        outcome = cli_model_check(command, arguments[0], &s->model);
    }
    if (outcome >= 0) {
        return outcome;
    }
    if (cli_model_load(arguments[0], &s->model, 0, &model, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    outcome = solve(s, &model);
    cli_model_dispose(&model);
    return outcome;
}

static const cli_group groups[] = {
    {"Solving", options, CLI_COUNT(options), 0},
    {"Search", cli_limit_options, CLI_N_LIMIT_OPTIONS, offsetof(solve_settings, limits)},
    {"Model", cli_model_options, CLI_N_MODEL_OPTIONS, offsetof(solve_settings, model)},
    {"Size of the network", cli_size_options, CLI_N_SIZE_OPTIONS, offsetof(solve_settings, model)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_solve = {
    .name = "solve",
    .summary = "Find the cheapest schedule within a memory budget.",
    .usage = "MODEL --budget B [--strategy NAME] [-o schedule.json] [--json] [options]",
    .description = "Plans one training step of MODEL: which tensors to keep, which to free and compute again, so that "
                   "the peak of memory stays within the budget at the least extra computation. The result comes with "
                   "a proven bound on what any schedule must cost, where there is one, and with the gap to it. Every "
                   "schedule is checked by an independent verifier before it is written.\n\n"
                   "Ctrl-C ends the search with the best schedule so far; a second one quits at once.",
    .exit_statuses = "0  a schedule was found\n"
                     "1  failed: bad input, input or output error, out of memory\n"
                     "2  wrong usage\n"
                     "3  proven: no schedule fits the budget\n"
                     "4  none found within the limits\n",
    .examples = "checkmate solve ResNet50 --batch 64 --budget 60%\n"
                "checkmate solve ResNet50 --batch 128 --budget 8GiB --time-limit 120 -o schedule.json\n"
                "checkmate solve model.onnx --batch 32 --budget 4GB --strategy chen-sqrt --json\n"
                "checkmate solve graph.json --budget 11GB --strategy ilp --gap 1%\n"
                "checkmate solve graph.json --budget 70% --reorder\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
