// SPDX-License-Identifier: Apache-2.0
// checkmate strategies: the registry of solving strategies.
#include "cli/cli.h"

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    (void)command;
    (void)settings;
    (void)arguments;
    (void)n_arguments;
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        enum { COLUMN = 20 };
        char text[256];
        snprintf(text, sizeof text, "%s%s%s", ckm_solve_strategy_summary(i),
                 ckm_solve_strategy_has(i, CKM_STRATEGY_FORMULATIONS) ? " [--formulation]" : "",
                 ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED) ? " [max-batch --accounting paper]" : "");
        printf("%s%-*s%s ", cli_style(stdout, CLI_BOLD), COLUMN - 1, ckm_solve_strategy_name(i),
               cli_style(stdout, CLI_PLAIN));
        cli_print_wrapped(stdout, text, COLUMN, COLUMN);
    }
    return cli_finish_output();
}

const cli_command cli_command_strategies = {
    .name = "strategies",
    .summary = "List the strategies that 'solve', 'sweep' and 'max-batch' know.",
    .usage = "",
    .description =
        "Lists the names that --strategy takes, with what it does. An option in brackets at the "
        "end applies to that strategy. What 'solve' says found a schedule may also be a part of 'auto', such "
        "as neighbourhood (an integer program around what the search met), recombination, or pebbling (the reverse "
        "pebble "
        "game, for budgets near the least).",
    .examples = "checkmate strategies\n",
    .run = run,
};
