// SPDX-License-Identifier: Apache-2.0
// checkmate solve: the cheapest schedule under a memory budget.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_components.h"
#include "cli/cli_model.h"
#include "cli/cli_next_budgets.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct solve_settings {
    const char *budget, *strategy, *without;
    int formulation;
    bool reorder;
    const char *output, *plot;
    bool json;
    cli_limit_settings limits;
    cli_model_settings model;
} solve_settings;

static const solve_settings defaults = {
    NULL, "auto", NULL, 0, false, NULL, NULL, false, CLI_LIMIT_DEFAULTS(60), CLI_MODEL_DEFAULTS,
};

static const char *const formulations[] = {"frontier", "unpartitioned", "paper", NULL};

static const cli_option options[] = {
    {"budget", 0, CLI_TEXT, offsetof(solve_settings, budget), "B",
     "Required. The peak must not exceed this: a size such as 8GB, 4GiB or 8000000000, a percentage of the peak "
     "without rematerialization, such as 60%, of activations, such as 60%act, or 'min', the smallest budget found "
     "within half of the time limit, "
     "with a proven bound on how small it can be, and what the next larger budgets cost. Everything counts, including "
     "parameters and their gradients. Activations are what that peak has beyond parameters, inputs and results.",
     NULL, 0, 0, NULL},
    {"strategy", 's', CLI_TEXT, offsetof(solve_settings, strategy), "NAME",
     "How to solve; 'checkmate strategies' lists the names.", "auto", 0, 0, NULL},
    {"without", 0, CLI_TEXT, offsetof(solve_settings, without), "NAME,...",
     "Leave out components of the strategy, to see what they are worth. 'checkmate strategies --components' lists "
     "them; "
     "--verbose prints what each took and found.",
     NULL, 0, 0, NULL},
    {"formulation", 0, CLI_CHOICE, offsetof(solve_settings, formulation), "F",
     "Form of the integer program, for the strategies that 'checkmate strategies' marks with [--formulation]: "
     "'frontier', the paper's frontier-advancing stages in a tightened form; 'paper', the same stages exactly as "
     "published, with a weaker relaxation; or 'unpartitioned', without stages, the form that the paper compares with.",
     "frontier", 0, 0, formulations},
    {"reorder", 0, CLI_FLAG, offsetof(solve_settings, reorder), NULL,
     "Allow operators to run for the first time in an order other than the graph's, where that saves memory. Bounds "
     "then cover every order, which makes them weaker.",
     NULL, 0, 0, NULL},
    {"time-limit", 't', CLI_REAL, offsetof(solve_settings, limits.time_limit_seconds), "S",
     "Wall time in seconds; when it is over, the best schedule found is the result. 0 means no limit.", "60", 0, 0,
     NULL},
    {"output", 'o', CLI_OUTPUT, offsetof(solve_settings, output), "FILE",
     "Write the schedule in checkmate-schedule JSON to FILE, '-' for standard output.", NULL, 0, 0, NULL},
    {"plot", 0, CLI_FIGURE, offsetof(solve_settings, plot), "FILE",
     "Draw the course of the search with gnuplot: the cost of the best schedule and the bound over time. FILE ends "
     "in .svg, .pdf or .png.",
     NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, offsetof(solve_settings, json), NULL,
     "Print the result as one JSON object instead of a table.", NULL, 0, 0, NULL},
};

// What is to be solved: `least` is filled when the budget is "min", else zero.
typedef struct task {
    const solve_settings *settings;
    const ckm_dataflow *df;
    cli_budget budget;  // not given: "min"
    ckm_min_budget_result least;
    cli_next_budgets next;
} task;

static void print_json(const task *t, const ckm_solve_result *r)
{
    cli_json json;
    // Looking for the smallest budget may have proven more than the floor that is told of every graph.
    bool proves_more = t->least.bound_covers == CKM_BOUND_ANY && t->least.lower_bound_bytes > r->floor_bytes;
    cli_json_begin(&json);
    cli_json_text(&json, "status", cli_status_text(r->status));
    cli_json_size(&json, "cost", r->cost);
    cli_json_size(&json, "baseline_cost", r->baseline_cost);
    cli_json_real(&json, "overhead", cli_overhead(r->cost, r->baseline_cost));
    cli_json_size(&json, "peak_bytes", r->peak_bytes);
    cli_json_size(&json, "budget_bytes", r->budget_bytes);
    cli_json_size(&json, "baseline_peak_bytes", r->baseline_peak_bytes);
    cli_json_size(&json, "floor_bytes", proves_more ? t->least.lower_bound_bytes : r->floor_bytes);
    cli_json_size(&json, "least_peak_bytes", r->least_peak_bytes);
    cli_json_real(&json, "bound_cost", r->bound_cost);
    cli_json_text(&json, "bound_covers", cli_covers_text(r->bound_covers));
    cli_json_real(&json, "gap", r->gap);
    cli_json_real(&json, "seconds", round((r->seconds + t->least.seconds + t->next.seconds) * 1e6) / 1e6);
    cli_json_text(&json, "strategy", r->strategy[0] != '\0' ? r->strategy : NULL);
    if (t->least.schedule != NULL) {
        cli_json_size(&json, "least_budget_bytes", t->least.budget_bytes);
        cli_json_size(&json, "least_budget_bound_bytes", t->least.lower_bound_bytes);
        cli_json_text(&json, "least_budget_bound_covers", cli_covers_text(t->least.bound_covers));
        cli_json_text(&json, "least_budget_status", cli_status_text(t->least.status));
        cli_json_sizes(&json, "next_budget_bytes", t->next.budget_bytes, t->next.n);
        cli_json_sizes(&json, "next_budget_costs", t->next.cost, t->next.n);
    }
    cli_json_text(&json, "found_by", r->found_by);
    cli_json_text(&json, "proven_by", r->proven_by);
    if (t->settings->limits.verbose) {
        cli_components_json(&json, r);
    }
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

static const char *const classes[] = {"", "all schedules", "all schedules in the graph's order",
                                      "all frontier-advancing schedules"};

// "4.17 GB   20.1 %        needed by all schedules": one floor, with the schedules that it is proven for.
static void print_least(const ckm_min_budget_result *least, int64_t baseline_peak)
{
    char text[64];
    char percent[64];
    print_memory("smallest budget", least->budget_bytes, baseline_peak);
    cli_show_percent((double)least->lower_bound_bytes / (double)baseline_peak, percent, sizeof percent);
    printf("%-22s %-12s %-12s needed by %s%s\n", "memory floor",
           cli_show_bytes(least->lower_bound_bytes, text, sizeof text), percent, classes[least->bound_covers],
           least->status == CKM_SOLVE_OPTIMAL ? "; none of them fits less" : "");
}

static void print_table(const task *t, const ckm_solve_result *r)
{
    static const cli_style_name styles[] = {CLI_GOOD, CLI_GOOD, CLI_BAD, CLI_WARN};
    ckm_cost_unit unit = ckm_dataflow_cost_unit(t->df);
    char text[64];
    char other[64];
    printf("%-22s %s\n", "network", cli_text(ckm_dataflow_name(t->df)));
    printf("%-22s %d\n", "operators", (int)ckm_dataflow_op_count(t->df));
    printf("%-22s %s\n", "without remat., peak", cli_show_bytes(r->baseline_peak_bytes, text, sizeof text));
    printf("%-22s %s\n", "without remat., cost", cli_show_cost((double)r->baseline_cost, unit, text, sizeof text));
    if (t->least.schedule != NULL) {
        print_least(&t->least, r->baseline_peak_bytes);
    } else {
        print_memory("memory floor", r->floor_bytes, r->baseline_peak_bytes);
        print_memory("budget", r->budget_bytes, r->baseline_peak_bytes);
    }
    printf("%-22s %s%s%s\n", "status", cli_style(stdout, styles[r->status]), cli_status_text(r->status),
           cli_style(stdout, CLI_PLAIN));
    if (r->schedule != NULL) {
        print_memory("peak", r->peak_bytes, r->baseline_peak_bytes);
        printf("%-22s %-12s overhead %s\n", "cost", cli_show_cost((double)r->cost, unit, text, sizeof text),
               cli_show_percent(cli_overhead(r->cost, r->baseline_cost), other, sizeof other));
    }
    if (!isnan(r->bound_cost)) {
        printf("%-22s %-12s of %s\n", "bound", cli_show_cost(r->bound_cost, unit, text, sizeof text),
               classes[r->bound_covers]);
    } else {
        printf("%-22s none proven\n", "bound");
    }
    printf("%-22s %s\n", "gap", cli_show_percent(r->gap, text, sizeof text));
    printf("%-22s %s\n", "strategy", r->strategy);
    printf("%-22s %.2f\n", "seconds", r->seconds + t->least.seconds + t->next.seconds);
    cli_next_budgets_print(&t->next, r);
}

// Says on standard error why there is no schedule, and what would help.
static void explain_absence(const ckm_solve_result *r)
{
    char budget[64];
    char floor_text[64];
    char known[320];
    cli_show_bytes(r->budget_bytes, budget, sizeof budget);
    cli_show_bytes(r->floor_bytes, floor_text, sizeof floor_text);
    cli_least_text(r, known, sizeof known);
    if (r->status != CKM_SOLVE_INFEASIBLE) {
        cli_failf("strategy %s found no schedule within %s and the limits given; proven: at least %s (%lld bytes) are "
                  "needed%s",
                  r->strategy, budget, floor_text, (long long)r->floor_bytes, known);
    } else if (r->budget_bytes < r->floor_bytes) {
        cli_failf("no schedule fits %s: every schedule needs at least %s (%lld bytes)%s", budget, floor_text,
                  (long long)r->floor_bytes, known);
    } else {
        cli_failf("no schedule%s fits %s%s",
                  r->bound_covers == CKM_BOUND_FRONTIER ? " that advances by stages"
                  : r->bound_covers == CKM_BOUND_ORDER  ? " in the graph's order"
                                                        : "",
                  budget, known);
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

static void show_least(int64_t budget_bytes, int64_t lower_bound_bytes, double seconds, void *user)
{
    char budget[64];
    char bound[64];
    (void)user;
    fprintf(stderr, "%s%8.1f s%s  smallest budget %s, proven: at least %s\n", cli_style(stderr, CLI_DIM), seconds,
            cli_style(stderr, CLI_PLAIN), cli_show_bytes(budget_bytes, budget, sizeof budget),
            cli_show_bytes(lower_bound_bytes, bound, sizeof bound));
}

// For "min": half of the time goes into the budget, of the rest most into its schedule, and some into what the next budgets cost.
static ckm_status run_min(task *t, const cli_progress *progress, ckm_solve_options *solving, ckm_solve_result *result,
                          ckm_error *err)
{
    const double schedule_share = 0.6, next_seconds = 30;
    double limit = solving->time_limit_seconds;
    solving->time_limit_seconds = limit / 2;
    ckm_status status = ckm_min_budget(t->df, solving, progress->enabled ? show_least : NULL, &t->least, err);
    if (status != CKM_OK) {
        return status;
    }
    solving->budget_bytes = t->least.budget_bytes;
    solving->start = t->least.schedule;
    double left = fmax(limit - t->least.seconds, 1e-3);
    solving->time_limit_seconds = limit > 0 ? left * schedule_share : limit;
    status = ckm_solve(t->df, solving, result, err);
    if (status == CKM_OK && result->schedule != NULL && !cli_stop_requested(NULL)) {
        solving->time_limit_seconds = limit > 0 ? fmax(left - result->seconds, 1e-3) : next_seconds;
        status = cli_next_budgets_solve(t->df, solving, result, &t->next, err);
        if (status != CKM_OK) {
            ckm_solve_result_dispose(result);
        }
    }
    return status;
}

static ckm_status run_solver(task *t, cli_progress *progress, ckm_solve_result *result, ckm_error *err)
{
    const solve_settings *s = t->settings;
    int64_t baseline_peak = 0;
    ckm_solve_options solving = cli_solve_options(&s->limits, s->strategy, progress);
    ckm_status status = cli_baseline_peak(t->df, &baseline_peak, err);
    if (status != CKM_OK) {
        return status;
    }
    solving.formulation = (ckm_formulation)s->formulation;
    solving.reorder = s->reorder;
    solving.without = s->without;
    cli_stop_install();
    if (!t->budget.given) {
        return run_min(t, progress, &solving, result, err);
    }
    solving.budget_bytes = cli_budget_bytes(&t->budget, baseline_peak, ckm_dataflow_standing_bytes(t->df));
    return ckm_solve(t->df, &solving, result, err);
}

static int solve(task *t)
{
    const solve_settings *s = t->settings;
    ckm_error err = CKM_ERROR_INIT;
    cli_progress progress = cli_progress_start(&s->limits, s->strategy, t->df);
    progress.keeps_course = s->plot != NULL;
    ckm_solve_result result;
    bool table_goes_out = !s->json && (s->output == NULL || strcmp(s->output, "-") != 0);
    if (run_solver(t, &progress, &result, &err) != CKM_OK) {
        cli_course_dispose(&progress);
        return cli_fail(&err);
    }
    if (s->limits.verbose) {
        cli_components_print(&result, ckm_dataflow_cost_unit(t->df));
    }
    int outcome = CLI_DONE;
    if ((result.schedule != NULL && hand_out(t->df, &result, s->output, &err) != CKM_OK) ||
        (s->plot != NULL && cli_course_draw(&progress, ckm_dataflow_name(t->df), &result, s->plot, &err) != CKM_OK)) {
        outcome = cli_fail(&err);
    } else {
        if (s->json) {
            print_json(t, &result);
        } else if (table_goes_out) {
            print_table(t, &result);
        }
        outcome = cli_finish_output();
    }
    if (outcome == CLI_DONE && result.schedule == NULL) {
        explain_absence(&result);
        outcome = cli_exit_of(result.status, false);
    }
    ckm_solve_result_dispose(&result);
    cli_course_dispose(&progress);
    return outcome;
}

static int read_budget(const cli_command *command, const char *text, cli_budget *out)
{
    if (text == NULL) {
        return cli_usage_error(command,
                               "--budget is missing: give bytes, a size such as 8GB, a percentage such as 60%%, "
                               "or 'min'");
    }
    if (strcmp(text, "min") == 0) {
        return -1;
    }
    const char *problem = cli_read_budget(text, out);
    return problem == NULL ? -1 : cli_usage_error(command, "--budget %s, got '%s'", problem, text);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const solve_settings *s = settings;
    cli_model model = {NULL, NULL, 0};
    task t = {.settings = s};
    ckm_error err = CKM_ERROR_INIT;
    (void)n_arguments;
    int outcome = read_budget(command, s->budget, &t.budget);
    if (outcome < 0) {
        outcome = cli_check_strategy(command, s->strategy);
    }
    if (outcome < 0) {
        outcome = cli_components_check(command, s->without);
    }
    if (outcome < 0) {
        outcome = cli_model_check(command, arguments[0], &s->model);
    }
    if (outcome >= 0) {
        return outcome;
    }
    if (cli_model_load(arguments[0], &s->model, 0, &model, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    t.df = model.df;
    outcome = solve(&t);
    ckm_min_budget_result_dispose(&t.least);
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
    .description = "Plans one training step of MODEL: which tensors to keep, and which to free and compute again, so "
                   "that peak memory stays within the budget at the least extra computation. Where there is one, the "
                   "result comes with a proven bound on what any schedule must cost, and the gap to it. An "
                   "independent verifier checks every schedule before it is written.\n\nCtrl-C ends the search with "
                   "the best schedule so far. Where that takes longer than a second, another one says what would be "
                   "lost, and one more quits at once.",
    .exit_statuses = "0  a schedule was found\n"
                     "1  failed: bad input, input or output error, out of memory\n"
                     "2  wrong usage\n"
                     "3  proven: no schedule of the class named fits the budget\n"
                     "4  none found within the limits\n",
    .examples = "checkmate solve ResNet50 --batch 64 --budget 60%\n"
                "checkmate solve ResNet50 --batch 64 --budget min\n"
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
