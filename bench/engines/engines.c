// SPDX-License-Identifier: Apache-2.0
// The library's calls of an engine, one program at a time and in this process, with the engines it is linked to:
//
//     engines relaxation GRAPH.json BUDGET_PERCENT ROWS SECONDS
//         the stage relaxation with evenly spread cuts that give about ROWS rows, cutting planes added as it is solved; on
//         standard output a line for each round: processor seconds since the start, and the bound proven by then
//     engines solve GRAPH.json BUDGET_PERCENT STRATEGY SECONDS
//         one line: seconds on the clock, cost or "none", bound or "none", and of the components that use an engine what
//         they did
#include <checkmate/schedule.h>
#include <checkmate/solve.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dataflow/dataflow.h"
#include "solve/bounds/window_run.h"
#include "solve/bounds/cut_points.h"
#include "solve/bounds/sepa.h"

typedef struct watched {
    const ckm_i_window_model *model;
    const ckm_i_milp_answer *answer;
    double start;
} watched;

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static _Noreturn void give_up(const char *what, const ckm_error *err)
{
    fprintf(stderr, "engines: %s: %s\n", what, err->message);
    exit(1);
}

static void separate(const void *context, const double *x, ckm_i_milp *m)
{
    const watched *w = context;
    printf("%.3f %.9g\n", processor_seconds() - w->start, w->answer->proven);
    ckm_i_sepa_all(w->model, x, m);
}

static int32_t cuts_for(const ckm_dataflow *df, int64_t rows)
{
    int32_t n = 1;
    while (n < df->n_ops && ckm_i_window_rows(df, n + 1) <= rows) {
        n++;
    }
    return n;
}

static void build_stages(const ckm_dataflow *df, int64_t budget_bytes, int64_t rows, ckm_i_window_model *model)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_cut_points places = {0};
    int32_t *cuts = calloc((size_t)df->n_ops + 1, sizeof *cuts);
    if (cuts == NULL || ckm_i_cut_points_init(df, budget_bytes, ckm_i_window_first(df), &places, &err) != CKM_OK) {
        give_up("cuts", &err);
    }
    int32_t n = ckm_i_cut_points_choose(&places, cuts_for(df, rows), cuts);
    if (ckm_i_window_model_build(df, budget_bytes, false, cuts, n, model, &err) != CKM_OK) {
        give_up("stages", &err);
    }
    ckm_i_cut_points_dispose(&places);
    free(cuts);
}

static void relax(const ckm_dataflow *df, int64_t budget_bytes, int64_t rows, double seconds)
{
    ckm_i_window_model model = {0};
    build_stages(df, budget_bytes, rows, &model);
    ckm_i_milp_answer answer = {.objective = NAN, .proven = -INFINITY};
    watched w = {&model, &answer, processor_seconds()};
    ckm_i_milp_options options = {.relax = true,
                                  .seconds = seconds,
                                  .cutoff = INFINITY,
                                  .enough = INFINITY,
                                  .threads = 1,
                                  .separate = separate,
                                  .context = &w};
    double *x = calloc((size_t)model.milp.n_cols + 1, sizeof *x);
    double *row_dual = calloc((size_t)model.milp.n_rows + 1, sizeof *row_dual);
    if (x == NULL || row_dual == NULL) {
        fputs("engines: out of memory\n", stderr);
        exit(1);
    }
    ckm_i_milp_run_clp(&model.milp, &options, &answer, x, row_dual);
    printf("%.3f %.9g\n", processor_seconds() - w.start, answer.proven);
    free(x);
    free(row_dual);
    ckm_i_window_model_dispose(&model);
}

static void print_number(double value, bool known)
{
    printf(known ? " %.0f" : " none", value);
}

static void solve(const ckm_dataflow *df, int64_t budget_bytes, const char *strategy, double seconds)
{
    static const char *const names[] = {"relaxations", "branching", "programs", "neighbourhood", "ilp"};
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result = {0};
    options.budget_bytes = budget_bytes;
    options.strategy = strategy;
    options.time_limit_seconds = seconds;
    options.gap = 1e-6;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        give_up(strategy, &err);
    }
    printf("%.2f", result.seconds);
    print_number((double)result.cost, result.cost >= 0);
    print_number(result.bound_cost, !isnan(result.bound_cost));
    for (int32_t i = 0; i < result.n_components; i++) {
        const ckm_component_use *use = &result.components[i];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(use->name, names[k]) == 0) {
                printf(" %s:%lld:%.1fs", use->name, (long long)use->calls, use->seconds);
            }
        }
    }
    putchar('\n');
    ckm_solve_result_dispose(&result);
}

int main(int argc, char **argv)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    bool relaxation = argc == 6 && strcmp(argv[1], "relaxation") == 0;
    if (!relaxation && !(argc == 6 && strcmp(argv[1], "solve") == 0)) {
        fputs("usage: engines relaxation|solve GRAPH.json BUDGET_PERCENT ROWS|STRATEGY SECONDS\n", stderr);
        return 2;
    }
    if (ckm_dataflow_read(argv[2], &df, &err) != CKM_OK) {
        give_up(argv[2], &err);
    }
    ckm_schedule *baseline = NULL;
    ckm_simulation plain = {0};
    if (ckm_schedule_baseline(df, &baseline, &err) != CKM_OK ||
        ckm_schedule_simulate(df, baseline, NULL, &plain, &err) != CKM_OK) {
        give_up("the schedule without rematerialization", &err);
    }
    int64_t budget = (int64_t)((double)plain.peak_bytes * atof(argv[3]) / 100.0);
    if (relaxation) {
        relax(df, budget, atoll(argv[4]), atof(argv[5]));
    } else {
        solve(df, budget, argv[4], atof(argv[5]));
    }
    ckm_schedule_free(baseline);
    ckm_dataflow_free(df);
    return 0;
}
