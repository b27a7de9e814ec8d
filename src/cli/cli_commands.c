// SPDX-License-Identifier: Apache-2.0
// The table of commands.
#include "cli/cli.h"

#include <string.h>

extern const cli_command cli_command_models, cli_command_graph, cli_command_solve, cli_command_verify,
    cli_command_report, cli_command_explain, cli_command_sweep, cli_command_max_batch, cli_command_train,
    cli_command_run, cli_command_export, cli_command_profile, cli_command_strategies, cli_command_devices,
    cli_command_help;

// A new command: its file, its extern, its line.
const cli_command *const cli_commands[] = {
    &cli_command_models,     &cli_command_graph,   &cli_command_solve,  &cli_command_verify,
    &cli_command_report,     &cli_command_explain, &cli_command_sweep,  &cli_command_max_batch,
#ifndef CLI_PLANS_ONLY
    &cli_command_train,      &cli_command_run,     &cli_command_export, &cli_command_profile,
#endif
    &cli_command_strategies, &cli_command_devices, &cli_command_help,
};
const int cli_n_commands = CLI_COUNT(cli_commands);

const cli_command *cli_command_find(const char *name)
{
    for (int i = 0; i < cli_n_commands; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
    }
    return NULL;
}

int cli_unknown_command(const char *name)
{
    const char *names[CLI_COUNT(cli_commands)];
    char suggestion[128];
#ifdef CLI_PLANS_ONLY
    if (strcmp(name, "train") == 0 || strcmp(name, "profile") == 0 || strcmp(name, "run") == 0 ||
        strcmp(name, "export") == 0) {
        return cli_plans_only(name);
    }
#endif
    for (int i = 0; i < cli_n_commands; i++) {
        names[i] = cli_commands[i]->name;
    }
    return cli_usage_error(NULL, "unknown command '%s'%s", name,
                           cli_did_you_mean(name, names, cli_n_commands, "", suggestion, sizeof suggestion));
}
