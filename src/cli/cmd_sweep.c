// SPDX-License-Identifier: Apache-2.0
// checkmate sweep: many strategies over a range of budgets, as CSV and as a picture.
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_model.h"
#include "cli/cli_second_memory.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct sweep_settings {
    const char *budgets, *strategies, *output, *plot;
    bool reorder, json;
    cli_limit_settings limits;
    cli_model_settings model;
    cli_second_memory second;
} sweep_settings;

static const sweep_settings defaults = {
    "10", NULL, NULL, NULL, false, false, CLI_LIMIT_DEFAULTS(10), CLI_MODEL_DEFAULTS, CLI_SECOND_MEMORY_DEFAULTS};

static const cli_option options[] = {
    {"budgets", 'n', CLI_TEXT, offsetof(sweep_settings, budgets), "N|B,B,...|near-min",
     "Number of budgets, evenly spaced from the memory floor to the peak without rematerialization, both included; "
     "with 1, the peak alone. The floor is what every schedule is proven to need; 'graph' shows it. Or the budgets "
     "themselves, separated by commas, as 'solve' takes them: 20%,30%,4G,H100,min. Or 'near-min', the least that a "
     "schedule is found for, and 1.01 to 2 times it: what a little more memory saves where there is hardly enough.",
     "10", 0, 0, NULL},
    {"strategies", 's', CLI_TEXT, offsetof(sweep_settings, strategies), "A,B,...",
     "Names separated by commas; 'checkmate strategies' lists them.", "all", 0, 0, NULL},
    {"reorder", 0, CLI_FLAG, offsetof(sweep_settings, reorder), NULL,
     "Allow operators to run for the first time in an order other than the graph's.", NULL, 0, 0, NULL},
    {"time-limit", 't', CLI_REAL, offsetof(sweep_settings, limits.time_limit_seconds), "S",
     "Wall time in seconds for each solve; 0 means no limit. The default strategy, 'auto', plans all budgets as one "
     "search, in about six times as long.",
     "10", 0, 0, NULL},
    {"output", 'o', CLI_OUTPUT, offsetof(sweep_settings, output), "FILE", "Write the table to FILE.", "standard output",
     0, 0, NULL},
    {"plot", 0, CLI_FIGURE, offsetof(sweep_settings, plot), "FILE",
     "Draw overhead over budget with gnuplot. FILE ends in .svg, .pdf or .png.", NULL, 0, 0, NULL},
    {"json", 0, CLI_FLAG, offsetof(sweep_settings, json), NULL,
     "Print the rows as one JSON object; with -o, the table is written as well.", NULL, 0, 0, NULL},
};

enum { MAX_STRATEGIES = 128, MAX_BUDGETS = 10000 };

typedef struct sweep {
    const sweep_settings *settings;
    const ckm_dataflow *df;
    FILE *out;  // standard output, or into `text`; NULL: no table
    bool to_file, evenly, near;
    char *text;
    size_t text_bytes;
    char *names_copy;  // backs `strategies` when they were given
    const char *strategies[MAX_STRATEGIES];
    int n_strategies, n_budgets;
    int64_t *budgets;
    ckm_solve_result *rows;  // [strategy][budget]; the schedule of a strategy's last budget only
    bool *is_solved;         // [strategy][budget]
    int n_rows;              // solved so far
    cli_progress progress;   // of the solve under way
} sweep;

static ckm_solve_result *row_of(const sweep *s, int strategy, int budget)
{
    return &s->rows[strategy * s->n_budgets + budget];
}

static int choose_strategies(const cli_command *command, sweep *s)
{
    if (s->settings->strategies == NULL) {
        for (int32_t i = 0; i < ckm_solve_strategy_count() && i < MAX_STRATEGIES; i++) {
            s->strategies[s->n_strategies++] = ckm_solve_strategy_name(i);
        }
        return -1;
    }
    size_t size = strlen(s->settings->strategies) + 1;
    s->names_copy = malloc(size);
    if (s->names_copy == NULL) {
        return cli_failf("out of memory");
    }
    memcpy(s->names_copy, s->settings->strategies, size);
    char *rest = s->names_copy;
    while (rest != NULL) {
        char *name = rest;
        rest = strchr(name, ',');
        if (rest != NULL) {
            *rest++ = '\0';
        }
        int outcome = cli_check_strategy(command, name);
        if (outcome >= 0) {
            return outcome;
        }
        if (s->n_strategies == MAX_STRATEGIES) {
            return cli_usage_error(command, "--strategies has more than %d names", MAX_STRATEGIES);
        }
        s->strategies[s->n_strategies++] = name;
    }
    return -1;
}

static int by_size(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;
    return (*left > *right) - (*left < *right);
}

// The least budget that a schedule is found for.
static ckm_status find_least(sweep *s, int64_t *bytes, ckm_error *err)
{
    ckm_min_budget_result least;
    cli_progress progress = cli_progress_start(&s->settings->limits, "", s->df);
    ckm_solve_options solving = cli_solve_options(&s->settings->limits, ckm_solve_strategy_name(0), &progress);
    solving.progress = NULL;
    ckm_status status = ckm_min_budget(s->df, &solving, NULL, &least, err);
    if (status == CKM_OK) {
        *bytes = least.budget_bytes;
        ckm_min_budget_result_dispose(&least);
    }
    return status;
}

static ckm_status read_budget(sweep *s, const cli_budget *budget, int64_t *bytes, ckm_error *err)
{
    return budget->is_least ? find_least(s, bytes, err) : cli_budget_bytes(budget, s->df, bytes, err);
}

// Where a little memory more saves the most: the least that a schedule is found for, and what is a little above it.
static const char near_min[] = "near-min";
static const double near_factors[] = {1, 1.01, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 2};

static int budgets_near_least(sweep *s, int64_t *budgets, int *n)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t least = 0;
    int64_t high = 0;
    if (cli_baseline_peak(s->df, &high, &err) != CKM_OK || find_least(s, &least, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    *n = 0;
    for (int i = 0; i < CLI_COUNT(near_factors) && (*n == 0 || budgets[*n - 1] < high); i++) {
        double bytes = (double)least * near_factors[i];
        int64_t budget = bytes < (double)high ? (int64_t)bytes : high;
        if (*n == 0 || budgets[*n - 1] < budget) {
            budgets[(*n)++] = budget;
        }
    }
    return -1;
}

// "20%,30%,4G": each once, in ascending order. `budgets` has room for as many as there are commas, and one.
static int read_budgets(const cli_command *command, sweep *s, int64_t *budgets, int *n)
{
    ckm_error err = CKM_ERROR_INIT;
    char word[64];
    int read = 0;
    for (const char *at = s->settings->budgets; at != NULL; at = strchr(at, ',')) {
        cli_budget budget;
        at += read > 0 ? 1 : 0;
        at += strspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        const char *problem = cli_read_budget(word, &budget);
        if (problem != NULL) {
            return cli_usage_error(command, "--budgets: each %s, got '%s'", problem, word);
        }
        if (read_budget(s, &budget, &budgets[read++], &err) != CKM_OK) {
            return cli_fail(&err);
        }
    }
    qsort(budgets, (size_t)read, sizeof *budgets, by_size);
    *n = 0;
    for (int b = 0; b < read; b++) {
        if (*n == 0 || budgets[*n - 1] < budgets[b]) {
            budgets[(*n)++] = budgets[b];
        }
    }
    return -1;
}

// From the floor to the peak.
static int space_budgets(int64_t count, const ckm_dataflow *df, int64_t *budgets, int *n)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t high = 0;
    int64_t low = 0;
    if (cli_baseline_peak(df, &high, &err) != CKM_OK || ckm_min_budget_floor(df, &low, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    *n = high > low && count > 1 ? (int)count : 1;
    for (int b = 0; b < *n; b++) {
        long double part = *n > 1 ? (long double)b / (long double)(*n - 1) : 1;
        budgets[b] = b == *n - 1 ? high : low + (int64_t)((long double)(high - low) * part);
    }
    return -1;
}

static int choose_budgets(const cli_command *command, sweep *s)
{
    const char *text = s->settings->budgets;
    int64_t count = 1;
    if (s->n_strategies == 0) {
        return cli_failf("the library has no strategies");
    }
    s->evenly = strspn(text, "0123456789") == strlen(text);
    s->near = strcmp(text, near_min) == 0;
    for (const char *c = text; !s->evenly && *c != '\0'; c++) {
        count += *c == ',';
    }
    count = s->near ? CLI_COUNT(near_factors) : count;
    const char *problem = s->evenly ? cli_read_integer(text, &count) : NULL;
    if (problem != NULL || count < 1 || count > MAX_BUDGETS) {
        return cli_usage_error(command, "--budgets must be from 1 to %d, got '%s'", MAX_BUDGETS, text);
    }
    s->budgets = malloc((size_t)count * sizeof *s->budgets);
    if (s->budgets == NULL) {
        return cli_failf("out of memory");
    }
    int n = 0;
    int outcome = s->evenly ? space_budgets(count, s->df, s->budgets, &n)
                  : s->near ? budgets_near_least(s, s->budgets, &n)
                            : read_budgets(command, s, s->budgets, &n);
    if (outcome >= 0) {
        return outcome;
    }
    s->rows = calloc((size_t)n * (size_t)s->n_strategies, sizeof *s->rows);
    s->is_solved = calloc((size_t)n * (size_t)s->n_strategies, sizeof *s->is_solved);
    if (s->rows == NULL || s->is_solved == NULL) {
        return cli_failf("out of memory");
    }
    s->n_budgets = n;
    return -1;
}

// The table is put together in memory and written as a whole, so that an older one is not lost to a sweep that is
// killed.
static int open_output(sweep *s)
{
    const char *path = s->settings->output;
    if (s->settings->json && path == NULL) {
        return -1;
    }
    s->to_file = path != NULL && strcmp(path, "-") != 0;
    s->out = s->to_file ? open_memstream(&s->text, &s->text_bytes) : stdout;
    if (s->out == NULL) {
        return cli_failf("out of memory");
    }
    fputs("network,operators,budget_bytes,strategy,status,cost,baseline_cost,overhead,peak_bytes,bound_cost,"
          "bound_covers,gap,seconds\n",
          s->out);
    return -1;
}

// Rows count only when they have arrived.
static int deliver_output(sweep *s)
{
    ckm_error err = CKM_ERROR_INIT;
    if (s->out == NULL) {
        return -1;
    }
    errno = 0;
    bool failed = fflush(s->out) != 0 || ferror(s->out) != 0;
    if (!s->to_file) {
        return failed ? cli_failf("standard output: cannot write: %s", errno != 0 ? strerror(errno) : "write error")
                      : -1;
    }
    if (failed) {
        return cli_failf("out of memory");
    }
    return ckm_file_replace(s->settings->output, s->text, s->text_bytes, &err) == CKM_OK ? -1 : cli_fail(&err);
}

// Spreadsheets take cells that begin with these for formulas.
static void put_text(FILE *to, const char *name)
{
    char text[2048];
    snprintf(text, sizeof text, "%s%s", name[0] != '\0' && strchr("=+-@", name[0]) != NULL ? "'" : "", cli_text(name));
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, to);
        return;
    }
    fputc('"', to);
    for (const char *c = text; *c != '\0'; c++) {
        fputs(*c == '"' ? "\"\"" : "", to);
        if (*c != '"') {
            fputc(*c, to);
        }
    }
    fputc('"', to);
}

static void put_size(FILE *to, int64_t value)
{
    fputc(',', to);
    if (value >= 0) {
        fprintf(to, "%lld", (long long)value);
    }
}

static void put_real(FILE *to, double value)
{
    fputc(',', to);
    if (isfinite(value)) {
        ckm_json_write_number(to, value);
    }
}

static void put_row(const sweep *s, const char *strategy, const ckm_solve_result *r)
{
    const char *covers = cli_covers_text(r->bound_covers);
    put_text(s->out, ckm_dataflow_name(s->df));
    fprintf(s->out, ",%d,%lld,%s,%s", (int)ckm_dataflow_op_count(s->df), (long long)r->budget_bytes, strategy,
            cli_status_text(r->status));
    put_size(s->out, r->cost);
    put_size(s->out, r->baseline_cost);
    put_real(s->out, cli_overhead(r->cost, r->baseline_cost));
    put_size(s->out, r->peak_bytes);
    put_real(s->out, r->bound_cost);
    fprintf(s->out, ",%s", covers != NULL ? covers : "");
    put_real(s->out, r->gap);
    fprintf(s->out, ",%.3f\n", r->seconds);
}

static void note_solved(sweep *s, int budget, int strategy, bool verbose)
{
    const ckm_solve_result *row = row_of(s, strategy, budget);
    char bytes[64];
    char extra[64];
    s->is_solved[strategy * s->n_budgets + budget] = true;
    s->n_rows++;
    if (verbose) {
        fprintf(stderr, "[%d/%d] budget %-10s %-24s %-10s overhead %-10s %.2f s\n", s->n_rows,
                s->n_budgets * s->n_strategies, cli_show_bytes(row->budget_bytes, bytes, sizeof bytes),
                s->strategies[strategy], cli_outcome_text(row, s->settings->limits.time_limit_seconds),
                cli_show_percent(cli_overhead(row->cost, row->baseline_cost), extra, sizeof extra), row->seconds);
    }
}

// One row. -1 to go on, or an exit status. What a strategy found for less memory fits here, too, and is where it begins.
static int solve_one(sweep *s, int budget, int strategy, bool verbose)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_result *row = row_of(s, strategy, budget);
    ckm_solve_options solving = cli_solve_options(&s->settings->limits, s->strategies[strategy], &s->progress);
    solving.progress = NULL;  // one line a solve is enough here
    solving.budget_bytes = s->budgets[budget];
    solving.reorder = s->settings->reorder;
    solving.start = budget > 0 ? row_of(s, strategy, budget - 1)->schedule : NULL;
    if (ckm_solve(s->df, &solving, row, &err) != CKM_OK) {
        return cli_fail(&err);
    }
    if (budget > 0) {
        ckm_solve_result_dispose(row_of(s, strategy, budget - 1));
    }
    note_solved(s, budget, strategy, verbose);
    return -1;
}

// All rows of a strategy that plans several budgets as one search.
static int solve_as_one(sweep *s, int strategy, bool verbose)
{
    enum { most_times = 6 };
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options solving = cli_solve_options(&s->settings->limits, s->strategies[strategy], &s->progress);
    solving.progress = NULL;
    solving.time_limit_seconds *= s->n_budgets < most_times ? s->n_budgets : most_times;
    if (ckm_solve_frontier(s->df, &solving, s->budgets, s->n_budgets, row_of(s, strategy, 0), &err) != CKM_OK) {
        return cli_fail(&err);
    }
    for (int b = 0; b < s->n_budgets; b++) {
        note_solved(s, b, strategy, verbose);
    }
    return -1;
}

// The default strategy, which goes on from what it knows; others are quick, or say what they do of one budget alone. Near the least
// that fits what is cheap elsewhere fits nowhere: there each budget has its own search, which begins with the schedule for less.
static bool is_one_search(const sweep *s, int strategy)
{
    return !s->settings->reorder && !s->near && strcmp(s->strategies[strategy], ckm_solve_strategy_name(0)) == 0;
}

static int check_interrupted(const sweep *s)
{
    return cli_stop_requested(NULL)
               ? cli_failf("interrupted after %d of %d rows", s->n_rows, s->n_budgets * s->n_strategies)
               : -1;
}

static int solve_all(sweep *s)
{
    cli_progress progress = cli_progress_start(&s->settings->limits, "", s->df);
    cli_stop_install();
    if (progress.enabled && s->n_budgets > 1) {
        char low[64];
        char high[64];
        fprintf(stderr,
                s->evenly ? "%d budgets from %s, which every schedule is proven to need, to %s, the peak without "
                            "rematerialization\n"
                          : "%d budgets from %s to %s\n",
                s->n_budgets, cli_show_bytes(s->budgets[0], low, sizeof low),
                cli_show_bytes(s->budgets[s->n_budgets - 1], high, sizeof high));
    }
    int outcome = -1;
    for (int i = 0; i < s->n_strategies && outcome < 0; i++) {
        if (is_one_search(s, i)) {
            outcome = solve_as_one(s, i, progress.enabled);
            outcome = outcome < 0 ? check_interrupted(s) : outcome;
        }
    }
    for (int k = 0; k < s->n_budgets * s->n_strategies && outcome < 0; k++) {
        if (!is_one_search(s, k % s->n_strategies)) {
            outcome = solve_one(s, k / s->n_strategies, k % s->n_strategies, progress.enabled);
            outcome = outcome < 0 ? check_interrupted(s) : outcome;
        }
    }
    return outcome < 0 ? CLI_DONE : outcome;
}

// What is proven for a budget is proven for every smaller one.
static void hand_down(const ckm_solve_result *larger, ckm_solve_result *smaller)
{
    if (larger->status == CKM_SOLVE_INFEASIBLE && smaller->status == CKM_SOLVE_UNKNOWN) {
        smaller->status = CKM_SOLVE_INFEASIBLE;
        smaller->bound_covers = larger->bound_covers;
        return;
    }
    if (smaller->status == CKM_SOLVE_INFEASIBLE || isnan(larger->bound_cost) ||
        !(isnan(smaller->bound_cost) || larger->bound_cost > smaller->bound_cost)) {
        return;
    }
    smaller->bound_cost = larger->bound_cost;
    smaller->bound_covers = larger->bound_covers;
    if (smaller->cost >= 0) {
        double cost = (double)smaller->cost;
        smaller->gap = cost <= smaller->bound_cost ? 0 : (cost - smaller->bound_cost) / smaller->bound_cost;
        smaller->status = smaller->gap <= 1e-4 ? CKM_SOLVE_OPTIMAL : smaller->status;
    }
}

static void print_json_row(cli_json *json, const char *strategy, const ckm_solve_result *r)
{
    cli_json_item(json);
    cli_json_size(json, "budget_bytes", r->budget_bytes);
    cli_json_text(json, "strategy", strategy);
    cli_json_text(json, "status", cli_status_text(r->status));
    cli_json_size(json, "cost", r->cost);
    cli_json_real(json, "overhead", cli_overhead(r->cost, r->baseline_cost));
    cli_json_size(json, "peak_bytes", r->peak_bytes);
    cli_json_real(json, "bound_cost", r->bound_cost);
    cli_json_text(json, "bound_covers", cli_covers_text(r->bound_covers));
    cli_json_real(json, "gap", r->gap);
    cli_json_real(json, "seconds", round(r->seconds * 1e6) / 1e6);
    cli_json_close(json);
}

static bool is_row(const sweep *s, int row, int *strategy, int *budget)
{
    *strategy = row % s->n_strategies;
    *budget = row / s->n_strategies;
    return s->is_solved != NULL && s->is_solved[*strategy * s->n_budgets + *budget];
}

static int print_json(const sweep *s)
{
    cli_json json;
    int strategy;
    int budget;
    cli_json_begin(&json);
    cli_json_text(&json, "network", ckm_dataflow_name(s->df));
    cli_json_size(&json, "operators", ckm_dataflow_op_count(s->df));
    cli_json_size(&json, "baseline_cost", ckm_dataflow_total_cost(s->df));
    cli_second_memory_json(&json, s->df);
    cli_json_list(&json, "rows");
    for (int row = 0; row < s->n_budgets * s->n_strategies; row++) {
        if (is_row(s, row, &strategy, &budget)) {
            print_json_row(&json, s->strategies[strategy], row_of(s, strategy, budget));
        }
    }
    cli_json_list_close(&json);
    cli_json_end(&json);
    return cli_finish_output();
}

// Writes the rows there are, budget by budget. -1, or an exit status.
static int write_rows(sweep *s)
{
    if (s->is_solved == NULL) {  // nothing was begun
        return deliver_output(s);
    }
    for (int i = 0; i < s->n_strategies; i++) {
        for (int b = s->n_budgets - 2; b >= 0; b--) {
            if (s->is_solved[i * s->n_budgets + b] && s->is_solved[i * s->n_budgets + b + 1]) {
                hand_down(row_of(s, i, b + 1), row_of(s, i, b));
            }
        }
    }
    int strategy;
    int budget;
    for (int row = 0; s->out != NULL && row < s->n_budgets * s->n_strategies; row++) {
        if (is_row(s, row, &strategy, &budget)) {
            put_row(s, s->strategies[strategy], row_of(s, strategy, budget));
        }
    }
    return deliver_output(s);
}

static int draw(const sweep *s, const cli_model *model, const char *path)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_emit_sweep_curve curves[MAX_STRATEGIES];
    ckm_emit_sweep_row *rows = malloc((size_t)s->n_strategies * (size_t)s->n_budgets * sizeof *rows);
    if (rows == NULL) {
        return cli_failf("out of memory");
    }
    for (int i = 0; i < s->n_strategies; i++) {
        ckm_emit_sweep_row *of = rows + (size_t)i * (size_t)s->n_budgets;
        for (int b = 0; b < s->n_budgets; b++) {
            const ckm_solve_result *r = row_of(s, i, b);
            bool has_bound = !isnan(r->bound_cost) && r->baseline_cost > 0;
            of[b] = (ckm_emit_sweep_row){s->budgets[b], cli_overhead(r->cost, r->baseline_cost),
                                         has_bound ? r->bound_cost / (double)r->baseline_cost - 1 : NAN,
                                         has_bound ? r->bound_covers : CKM_BOUND_NONE};
        }
        bool is_default = strcmp(s->strategies[i], ckm_solve_strategy_name(0)) == 0;
        curves[i] = (ckm_emit_sweep_curve){s->strategies[i], is_default, s->n_budgets, of};
    }
    char title[512];
    ckm_status status = ckm_emit_sweep_figure(cli_model_title(model, title, sizeof title), curves, s->n_strategies,
                                              path, &err);
    free(rows);
    return status == CKM_OK ? CLI_DONE : cli_fail(&err);
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    cli_model model = {NULL, NULL, 0};
    ckm_error err = CKM_ERROR_INIT;
    sweep s = {.settings = settings};
    (void)n_arguments;
    int outcome = choose_strategies(command, &s);
    if (outcome < 0) {
        outcome = cli_model_check(command, arguments[0], &s.settings->model);
    }
    if (outcome < 0) {
        outcome = cli_second_memory_check(command, &s.settings->second);
    }
    if (outcome < 0 && (cli_model_load(arguments[0], &s.settings->model, 0, &model, &err) != CKM_OK ||
                        cli_second_memory_apply(&s.settings->second, &model.df, &err) != CKM_OK)) {
        outcome = cli_fail(&err);
    }
    if (outcome < 0) {
        s.df = model.df;
        outcome = choose_budgets(command, &s);
    }
    if (outcome < 0) {
        outcome = open_output(&s);
    }
    if (outcome < 0) {
        outcome = solve_all(&s);
        int written = write_rows(&s);
        outcome = written >= 0 ? written : outcome;
        if (s.settings->json && written < 0) {
            int printed = print_json(&s);
            outcome = printed != CLI_DONE ? printed : outcome;
        }
    }
    if (s.out != NULL && s.to_file) {
        fclose(s.out);
    }
    if (outcome == CLI_DONE && s.n_budgets > 0 && s.settings->plot != NULL) {
        outcome = draw(&s, &model, s.settings->plot);
    }
    free(s.text);
    free(s.names_copy);
    free(s.budgets);
    for (int i = 0; s.rows != NULL && i < s.n_budgets * s.n_strategies; i++) {
        ckm_solve_result_dispose(&s.rows[i]);
    }
    free(s.rows);
    free(s.is_solved);
    cli_model_dispose(&model);
    return outcome;
}

static const cli_group groups[] = {
    {"Sweep", options, CLI_COUNT(options), 0},
    {"Search", cli_limit_options, CLI_N_LIMIT_OPTIONS, offsetof(sweep_settings, limits)},
    CLI_MODEL_GROUPS(offsetof(sweep_settings, model)),
    {"Second memory", cli_second_memory_options, CLI_N_SECOND_MEMORY_OPTIONS, offsetof(sweep_settings, second)},
};
static const char *const argument_names[] = {"MODEL"};

const cli_command cli_command_sweep = {
    .name = "sweep",
    .summary = "Compare strategies over a range of budgets, as CSV and as a figure.",
    .usage = "MODEL [--budgets N|B,B,...] [--strategies a,b,...] [-o sweep.csv] [--plot sweep.svg] [--json] [options]",
    .description = "Solves MODEL with every strategy at every budget and writes one row each: network, operators, "
                   "budget_bytes, strategy, status, cost, baseline_cost, overhead, peak_bytes, bound_cost, "
                   "bound_covers, gap, seconds. Budgets that a strategy cannot meet have a row too, with an empty "
                   "cost. Overhead and gap are fractions.\n\nBudgets are solved in ascending order. Each strategy "
                   "starts from what it found for the budget before, and what it proves for a budget also holds for "
                   "all smaller ones. So neither costs nor bounds ever rise with the budget.\n\nWith a second memory "
                   "every strategy "
                   "plans what is computed again, and what is moved is chosen around it, so that all rows move.",
    .exit_statuses = "0  all rows are written, whether schedules were found or not\n"
                     "1  failed or interrupted; the rows written so far are valid\n"
                     "2  wrong usage\n",
    .examples = "checkmate sweep VGG16 --batch 256 -o vgg16.csv --plot vgg16.svg\n"
                "checkmate sweep ResNet50 --batch 64 --budgets 5 --strategies chen-sqrt,chen-greedy,auto\n"
                "checkmate sweep GPT2 --device H100 --budgets 60%,80%,H100 --strategies auto --json\n"
                "checkmate sweep ResNet50 --batch 64 --device A100 --out-speed 25GB --strategies auto\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 1,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
