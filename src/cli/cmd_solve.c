// SPDX-License-Identifier: Apache-2.0
// checkmate solve: the cheapest schedule under a memory budget.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_components.h"
#include "cli/cli_model.h"
#include "cli/cli_next_budgets.h"
#include "cli/cli_second_memory.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct solve_settings {
    cli_budget budget;
    const char *strategy, *without;
    int formulation;
    bool reorder;
    const char *output, *plot;
    bool json;
    cli_limit_settings limits;
    cli_model_settings model;
    cli_second_memory second;
} solve_settings;

static const solve_settings defaults = {
    {.given = false},           "auto", NULL, 0, false, NULL, NULL, false, CLI_LIMIT_DEFAULTS(60), CLI_MODEL_DEFAULTS,
    CLI_SECOND_MEMORY_DEFAULTS,
};

static const char *const formulations[] = {"frontier", "unpartitioned", "paper", NULL};

static const cli_option options[] = {
    {"budget", 0, CLI_BUDGET, offsetof(solve_settings, budget), "B",
     "Required without --device. The peak must not exceed this. " CLI_BUDGET_FORMS
     "; or 'min', the smallest budget found within half of the time limit, with a proven bound on how small it can be, "
     "and what the next larger budgets cost. Everything counts, including parameters and their gradients. Activations "
     "are what that peak has beyond parameters, inputs and results.",
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
    const cli_model *model;
    cli_budget budget;
    ckm_min_budget_result least;
    cli_next_budgets next;
} task;

// What a schedule moves to the second memory.
typedef struct moved {
    int64_t n_out, n_in, bytes;  // transfers each way; the bytes of those out
} moved;

static moved count_moved(const ckm_dataflow *df, const ckm_schedule *s)
{
    moved m = {0, 0, 0};
    for (int64_t i = 0; ckm_schedule_transfer_count(s) > 0 && i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        m.n_out += step.kind == CKM_STEP_OUT;
        m.n_in += step.kind == CKM_STEP_IN;
        m.bytes += step.kind == CKM_STEP_OUT ? ckm_dataflow_get_tensor(df, step.index).bytes : 0;
    }
    return m;
}

static void print_moved(const ckm_dataflow *df, const ckm_schedule *s)
{
    char text[64];
    moved m = count_moved(df, s);
    if (m.n_out + m.n_in > 0) {
        cli_line(stdout, 23, "%-22s %-12s %lld out, %lld in\n", "moved", cli_show_bytes(m.bytes, text, sizeof text),
                 (long long)m.n_out, (long long)m.n_in);
    }
}

// The second memory and what is moved there, where the graph has one.
static void moved_json(cli_json *json, const ckm_dataflow *df, const ckm_schedule *s)
{
    cli_second_memory_json(json, df);
    if (s != NULL && ckm_dataflow_get_second_memory(df, NULL)) {
        moved m = count_moved(df, s);
        cli_json_size(json, "moved_bytes", m.bytes);
        cli_json_size(json, "moves_out", m.n_out);
        cli_json_size(json, "moves_in", m.n_in);
    }
}

// The search for the smallest budget may have proven more than the floor that is reported for every graph.
static int64_t floor_of(const task *t, const ckm_solve_result *r)
{
    return t->least.floor_bytes > r->floor_bytes ? t->least.floor_bytes : r->floor_bytes;
}

static void print_json(const task *t, const ckm_solve_result *r)
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
    cli_json_size(&json, "floor_bytes", floor_of(t, r));
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
    moved_json(&json, t->df, r->schedule);
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
    cli_line(stdout, 23, "%-22s %-*s%s\n", name, percent[0] != '\0' ? 13 : 0, cli_show_bytes(bytes, text, sizeof text),
             percent);
}

static const char *const classes[] = {"", "all schedules", "all schedules in the graph's order",
                                      "all frontier-advancing schedules"};

// "4.17 GB   20.1 %        needed by all schedules": a floor, with the schedules that it is proven for.
static void print_floor(int64_t bytes, int64_t baseline_peak, ckm_bound_class covers, const char *more)
{
    char text[64];
    char percent[64];
    cli_show_percent((double)bytes / (double)baseline_peak, percent, sizeof percent);
    cli_line(stdout, 23, "%-22s %-12s %-12s needed by %s%s\n", "memory floor", cli_show_bytes(bytes, text, sizeof text),
             percent, classes[covers], more);
}

// The interval: what is enough, what the schedules that are searched need at least, and where these are not all, what all need.
static void print_least(const ckm_min_budget_result *least, int64_t floor_bytes, int64_t baseline_peak)
{
    print_memory("smallest budget", least->budget_bytes, baseline_peak);
    print_floor(least->lower_bound_bytes, baseline_peak, least->bound_covers,
                least->status == CKM_SOLVE_OPTIMAL ? "; none of them fits less" : "");
    if (least->bound_covers != CKM_BOUND_ANY) {
        print_floor(floor_bytes, baseline_peak, CKM_BOUND_ANY, "");
    }
}

static void print_table(const task *t, const ckm_solve_result *r)
{
    static const cli_style_name styles[] = {CLI_GOOD, CLI_GOOD, CLI_BAD, CLI_WARN};
    ckm_cost_unit unit = ckm_dataflow_cost_unit(t->df);
    char text[64];
    char other[64];
    cli_line(stdout, 23, "%-22s %s\n", "network", cli_text(ckm_dataflow_name(t->df)));
    cli_line(stdout, 23, "%-22s %d\n", "operators", (int)ckm_dataflow_op_count(t->df));
    cli_second_memory_print(t->df);
    cli_line(stdout, 23, "%-22s %s\n", "without remat., peak",
             cli_show_bytes(r->baseline_peak_bytes, text, sizeof text));
    cli_line(stdout, 23, "%-22s %s\n", "without remat., cost",
             cli_show_cost((double)r->baseline_cost, unit, text, sizeof text));
    if (t->least.schedule != NULL) {
        print_least(&t->least, floor_of(t, r), r->baseline_peak_bytes);
    } else {
        print_memory("memory floor", r->floor_bytes, r->baseline_peak_bytes);
        print_memory("budget", r->budget_bytes, r->baseline_peak_bytes);
    }
    cli_line(stdout, 23, "%-22s %s%s%s\n", "status", cli_style(stdout, styles[r->status]),
             cli_outcome_text(r, t->settings->limits.time_limit_seconds), cli_style(stdout, CLI_PLAIN));
    if (r->schedule != NULL) {
        print_memory("peak", r->peak_bytes, r->baseline_peak_bytes);
        cli_line(stdout, 23, "%-22s %-12s overhead %s\n", "cost",
                 cli_show_cost((double)r->cost, unit, text, sizeof text),
                 cli_show_percent(cli_overhead(r->cost, r->baseline_cost), other, sizeof other));
        print_moved(t->df, r->schedule);
    }
    if (!isnan(r->bound_cost)) {
        cli_line(stdout, 23, "%-22s %-12s of %s\n", "bound", cli_show_cost(r->bound_cost, unit, text, sizeof text),
                 classes[r->bound_covers]);
    } else {
        cli_line(stdout, 23, "%-22s none proven\n", "bound");
    }
    cli_line(stdout, 23, "%-22s %s\n", "gap", cli_show_percent(r->gap, text, sizeof text));
    cli_line(stdout, 23, "%-22s %s\n", "strategy", r->strategy);
    cli_line(stdout, 23, "%-22s %.2f\n", "seconds", r->seconds + t->least.seconds + t->next.seconds);
    cli_next_budgets_print(&t->next, r);
}

// Says on standard error why there is no schedule, and what would help.
static void explain_absence(const ckm_solve_result *r, double time_limit_seconds)
{
    char budget[64];
    char floor_text[64];
    char known[320];
    cli_show_bytes(r->budget_bytes, budget, sizeof budget);
    cli_show_bytes(r->floor_bytes, floor_text, sizeof floor_text);
    cli_least_text(r, known, sizeof known);
    if (r->status != CKM_SOLVE_INFEASIBLE) {
        bool ended = strcmp(cli_outcome_text(r, time_limit_seconds), "does not fit") == 0;
        // The open interval: a smaller budget is proven too small, a larger one known to be enough.
        bool open = r->least_peak_bytes > r->budget_bytes && r->budget_bytes >= r->floor_bytes;
        cli_failf("strategy %s %s %s%s; %s %s (%lld bytes)%s%s", r->strategy,
                  ended ? "has no schedule that fits" : "found no schedule within", budget,
                  ended ? "" : " and the limits given", open ? "undecided between" : "proven: at least", floor_text,
                  (long long)r->floor_bytes,
                  open ? ", which every schedule needs, and what is known to fit" : " are needed", known);
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
    ckm_verdict verdict = {.cost = -1, .peak_bytes = -1};
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

static void show_least(const ckm_min_budget_result *so_far, void *user)
{
    char budget[64];
    char floor_text[64];
    char bound[64];
    char of_class[192] = "";
    (void)user;
    if (so_far->bound_covers != CKM_BOUND_ANY) {
        snprintf(of_class, sizeof of_class, ", and %s for %s",
                 cli_show_bytes(so_far->lower_bound_bytes, bound, sizeof bound), classes[so_far->bound_covers]);
    }
    cli_line(stderr, 12, "%s%8.1f s%s  smallest budget %s, proven: at least %s%s\n", cli_style(stderr, CLI_DIM),
             so_far->seconds, cli_style(stderr, CLI_PLAIN), cli_show_bytes(so_far->budget_bytes, budget, sizeof budget),
             cli_show_bytes(so_far->floor_bytes, floor_text, sizeof floor_text), of_class);
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
    if (status == CKM_OK && t->least.status != CKM_SOLVE_OPTIMAL &&
        t->least.budget_bytes >= result->baseline_peak_bytes) {
        (void)cli_budget_least(-1, result->baseline_peak_bytes);  // says so
    }
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
    ckm_solve_options solving = cli_solve_options(&s->limits, s->strategy, progress);
    solving.formulation = (ckm_formulation)s->formulation;
    solving.reorder = s->reorder;
    solving.without = s->without;
    cli_stop_install();
    if (t->budget.is_least) {
        return run_min(t, progress, &solving, result, err);
    }
    ckm_status status = cli_budget_bytes(&t->budget, t->df, &solving.budget_bytes, err);
    return status == CKM_OK ? ckm_solve(t->df, &solving, result, err) : status;
}

static int solve(task *t)
{
    const solve_settings *s = t->settings;
    ckm_error err = CKM_ERROR_INIT;
    cli_progress progress = cli_progress_start(&s->limits, s->strategy, t->df);
    progress.keeps_course = s->plot != NULL;
    ckm_solve_result result;
    char title[512];
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
        (s->plot != NULL && cli_course_draw(&progress, cli_model_title(t->model, title, sizeof title), &result, s->plot,
                                            &err) != CKM_OK)) {
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
        explain_absence(&result, s->limits.time_limit_seconds);
        outcome = cli_exit_of(result.status, false);
    }
    ckm_solve_result_dispose(&result);
    cli_course_dispose(&progress);
    return outcome;
}

// The budget that was given, or the memory of --device. Gives -1, or an exit status.
static int choose_budget(const cli_command *command, const solve_settings *s, cli_budget *out)
{
    *out = s->budget;
    if (s->budget.given) {
        return -1;
    }
    if (s->model.device == NULL) {
        return cli_usage_error(command,
                               "--budget is missing: give bytes, a size such as 8GB, a percentage such as 60%%, "
                               "or 'min'");
    }
    return cli_model_device_memory(command, &s->model, &out->bytes);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const solve_settings *s = settings;
    cli_model model = {NULL, NULL, 0};
    task t = {.settings = s};
    ckm_error err = CKM_ERROR_INIT;
    (void)n_arguments;
    int outcome = choose_budget(command, s, &t.budget);
    if (outcome < 0) {
        outcome = cli_check_strategy(command, s->strategy);
    }
    if (outcome < 0) {
        outcome = cli_components_check(command, s->without);
    }
    if (outcome < 0) {
        outcome = cli_model_check(command, arguments[0], &s->model);
    }
    if (outcome < 0) {
        outcome = cli_second_memory_check(command, &s->second);
    }
    if (outcome >= 0) {
        return outcome;
    }
    if (cli_model_load(arguments[0], &s->model, 0, &model, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    if (cli_second_memory_apply(&s->second, &model.df, &err) != CKM_OK) {
        cli_model_dispose(&model);
        return cli_fail(&err);
    }
    t.df = model.df;
    t.model = &model;
    outcome = solve(&t);
    ckm_min_budget_result_dispose(&t.least);
    cli_model_dispose(&model);
    return outcome;
}

static const cli_group groups[] = {
    {"Solving", options, CLI_COUNT(options), 0},
    {"Search", cli_limit_options, CLI_N_LIMIT_OPTIONS, offsetof(solve_settings, limits)},
    CLI_MODEL_GROUPS(offsetof(solve_settings, model)),
    {"Second memory", cli_second_memory_options, CLI_N_SECOND_MEMORY_OPTIONS, offsetof(solve_settings, second)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_solve = {
    .name = "solve",
    .summary = "Find the cheapest schedule within a memory budget.",
    .usage = "MODEL --budget B [--strategy NAME] [-o schedule.json] [--json] [options]",
    .description = "Plans one training step of MODEL: which tensors to keep, and which to free and compute again, so "
                   "that peak memory stays within the budget at the least extra computation. If possible, the "
                   "result comes with a proven lower bound on the cost of any schedule, and the gap to it. An "
                   "independent verifier checks every schedule before it is written.\n\nCtrl-C ends the search with "
                   "the best schedule so far. If that takes longer than a second, a second Ctrl-C warns of what "
                   "would be lost, and a third quits at once.",
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
                "checkmate solve graph.json --budget 70% --reorder\n"
                "checkmate solve ResNet50 --batch 64 --device V100 --budget 40% --out-speed 12GB\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
