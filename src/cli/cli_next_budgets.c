// SPDX-License-Identifier: Apache-2.0
#include "cli/cli_next_budgets.h"

#include <math.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/cli_values.h"

// Budgets above the least, in percent of it.
static const int percent_more[CLI_N_NEXT_BUDGETS] = {2, 5, 10, 25};

// The last bytes are expensive if a budget above the least lowers the overhead by `much`, and by the share `most` of the
// difference between the least and the largest budget tried.
static const double much = 0.1, most = 0.8;

ckm_status cli_next_budgets_solve(const ckm_dataflow *df, const ckm_solve_options *options,
                                  const ckm_solve_result *least, cli_next_budgets *out, ckm_error *err)
{
    ckm_solve_options solving = *options;
    ckm_solve_result *results = calloc(CLI_N_NEXT_BUDGETS, sizeof *results);
    int64_t budgets[CLI_N_NEXT_BUDGETS];
    int32_t n = 0;
    *out = (cli_next_budgets){0};
    for (int i = 0; i < CLI_N_NEXT_BUDGETS; i++) {
        long double bytes = ceill((long double)least->budget_bytes * (100 + percent_more[i]) / 100);
        int64_t budget = bytes < (long double)least->baseline_peak_bytes ? (int64_t)bytes : least->baseline_peak_bytes;
        if (budget > (n > 0 ? budgets[n - 1] : least->budget_bytes)) {
            budgets[n++] = budget;
        }
    }
    solving.start = least->schedule;
    solving.progress = NULL;
    ckm_status status = results != NULL ? CKM_OK : cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
    if (status == CKM_OK && n > 0) {
        status = ckm_solve_frontier(df, &solving, budgets, n, results, err);
    }
    for (int i = 0; i < n && status == CKM_OK; i++) {
        out->seconds += results[i].seconds;
        if (results[i].schedule != NULL) {
            out->budget_bytes[out->n] = budgets[i];
            out->cost[out->n++] = results[i].cost;
        }
        ckm_solve_result_dispose(&results[i]);
    }
    free(results);
    return status;
}

// "the last 4.8 % of the memory cost 2332.0 % more: --budget 19.1% has an overhead of 66.4 %"
static void print_knee(const cli_next_budgets *next, const ckm_solve_result *least)
{
    double highest = cli_overhead(least->cost, least->baseline_cost);
    double lowest = cli_overhead(next->cost[next->n - 1], least->baseline_cost);
    char more[64];
    char comes_off[64];
    char overhead[64];
    for (int i = 0; i < next->n; i++) {
        double here = cli_overhead(next->cost[i], least->baseline_cost);
        if (highest - here < much || highest - here < most * (highest - lowest)) {
            continue;
        }
        double above = (double)(next->budget_bytes[i] - least->budget_bytes) / (double)next->budget_bytes[i];
        double percent = ceil(1000.0 * (double)next->budget_bytes[i] / (double)least->baseline_peak_bytes) / 10;
        cli_line(stdout, 23,
                 "%-22s the last %s of the memory cost %s more computation: --budget %.1f%% has an overhead of %s\n",
                 "", cli_show_percent(above, more, sizeof more),
                 cli_show_percent(highest - here, comes_off, sizeof comes_off), percent,
                 cli_show_percent(here, overhead, sizeof overhead));
        return;
    }
}

void cli_next_budgets_print(const cli_next_budgets *next, const ckm_solve_result *least)
{
    char text[64];
    char percent[64];
    char overhead[64];
    for (int i = 0; i < next->n; i++) {
        cli_show_bytes(next->budget_bytes[i], text, sizeof text);
        cli_show_percent((double)next->budget_bytes[i] / (double)least->baseline_peak_bytes, percent, sizeof percent);
        cli_show_percent(cli_overhead(next->cost[i], least->baseline_cost), overhead, sizeof overhead);
        cli_line(stdout, 23, "%-22s %-12s %-12s overhead %s\n", i == 0 ? "next budgets" : "", text, percent, overhead);
    }
    if (next->n > 0) {
        print_knee(next, least);
    }
}
