// SPDX-License-Identifier: Apache-2.0
// checkmate help: the overview, or the page of one command.
#include "cli/cli.h"

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    (void)command;
    (void)settings;
    if (n_arguments == 0) {
        cli_print_overview(stdout);
        return cli_finish_output();
    }
    const cli_command *about = cli_command_find(arguments[0]);
    if (about == NULL) {
        return cli_unknown_command(arguments[0]);
    }
    cli_print_help(about);
    return cli_finish_output();
}

const cli_command cli_command_help = {
    .name = "help",
    .summary = "Show the help page of a command.",
    .usage = "[COMMAND]",
    .description = "Shows what a command does, its options with their defaults, examples and exit statuses. Without "
                   "a command, it shows an overview.",
    .examples = "checkmate help solve\n",
    .max_arguments = 1,
    .run = run,
};
