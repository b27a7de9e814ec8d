// SPDX-License-Identifier: Apache-2.0
// The components of a solve: their names on the command line, and what they did.
#ifndef CKM_SRC_CLI_CLI_COMPONENTS_H
#define CKM_SRC_CLI_CLI_COMPONENTS_H

#include <checkmate/checkmate.h>

#include "cli/cli.h"
#include "cli/cli_values.h"

// A wrong name among `names`, separated by commas, is wrong usage: reports it and gives the exit status, else -1. NULL is fine.
int cli_components_check(const cli_command *command, const char *names);
// A line for each of them, on standard output.
void cli_components_list(void);
// Those that were called: a table on standard error, a member of the object.
void cli_components_print(const ckm_solve_result *result, ckm_cost_unit unit);
void cli_components_json(cli_json *json, const ckm_solve_result *result);

#endif
