// SPDX-License-Identifier: Apache-2.0
// checkmate strategies: the registry of solving strategies.
#include <stddef.h>

#include "cli/cli.h"
#include "cli/cli_components.h"

typedef struct strategies_settings {
    bool components;
} strategies_settings;

static const strategies_settings defaults = {false};

static const cli_option options[] = {
    {"components", 0, CLI_FLAG, offsetof(strategies_settings, components), NULL,
     "List the components instead, which strategies are made of: the names that 'solve --without' takes.", NULL, 0, 0,
     NULL},
};

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
};

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    (void)command;
    (void)arguments;
    (void)n_arguments;
    const strategies_settings *s = settings;
    if (s->components) {
        cli_components_list();
        return cli_finish_output();
    }
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
    .usage = "[options]",
    .description = "Lists the names that --strategy takes, with what it does. An option in brackets at the "
                   "end applies to that strategy. Strategies, above all 'auto', are made of components: 'solve "
                   "--verbose' counts what each "
                   "did, and 'solve --without' leaves some out.",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .examples = "checkmate strategies\n"
                "checkmate strategies --components\n",
    .run = run,
};
