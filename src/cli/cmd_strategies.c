// SPDX-License-Identifier: Apache-2.0
// checkmate strategies: the registry of solving strategies.
#include <stddef.h>

#include "cli/cli.h"
#include "cli/cli_components.h"
#include "cli/cli_values.h"

typedef struct strategies_settings {
    bool components, json;
} strategies_settings;

static const strategies_settings defaults = {false, false};

static const cli_option options[] = {
    {"components", 0, CLI_FLAG, offsetof(strategies_settings, components), NULL,
     "List the components instead, which strategies are made of: the names that 'solve --without' takes.", NULL, 0, 0,
     NULL},
    {"json", 0, CLI_FLAG, offsetof(strategies_settings, json), NULL, "Print the list as one JSON object.", NULL, 0, 0,
     NULL},
};

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
};

static int print_json(bool components)
{
    cli_json json;
    cli_json_begin(&json);
    cli_json_list(&json, components ? "components" : "strategies");
    int32_t n = components ? ckm_solve_component_count() : ckm_solve_strategy_count();
    for (int32_t i = 0; i < n; i++) {
        cli_json_item(&json);
        cli_json_text(&json, "name", components ? ckm_solve_component_name(i) : ckm_solve_strategy_name(i));
        cli_json_text(&json, "summary", components ? ckm_solve_component_summary(i) : ckm_solve_strategy_summary(i));
        if (!components) {
            cli_json_bool(&json, "formulations", ckm_solve_strategy_has(i, CKM_STRATEGY_FORMULATIONS));
            cli_json_bool(&json, "accounting_paper", ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED));
        }
        cli_json_close(&json);
    }
    cli_json_list_close(&json);
    cli_json_end(&json);
    return cli_finish_output();
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    (void)command;
    (void)arguments;
    (void)n_arguments;
    const strategies_settings *s = settings;
    if (s->json) {
        return print_json(s->components);
    }
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
