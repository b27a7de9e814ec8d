// SPDX-License-Identifier: Apache-2.0
// What the budgets next to the smallest one cost.
#ifndef CKM_SRC_CLI_CLI_NEXT_BUDGETS_H
#define CKM_SRC_CLI_CLI_NEXT_BUDGETS_H

#include "cli/cli.h"

enum { CLI_N_NEXT_BUDGETS = 4 };

// A little more memory than the least, in ascending order; of `n` of them there are schedules, whose bytes and cost these are.
typedef struct cli_next_budgets {
    int n;
    double seconds;
    int64_t budget_bytes[CLI_N_NEXT_BUDGETS], cost[CLI_N_NEXT_BUDGETS];
} cli_next_budgets;

// Solves them as one search that begins with the schedule of `least`. Of the options, time_limit_seconds is for all.
ckm_status cli_next_budgets_solve(const ckm_dataflow *df, const ckm_solve_options *options,
                                  const ckm_solve_result *least, cli_next_budgets *out, ckm_error *err) CKM_NODISCARD;

// Rows of the table, and a sentence if the last bytes are expensive.
void cli_next_budgets_print(const cli_next_budgets *next, const ckm_solve_result *least);

#endif
