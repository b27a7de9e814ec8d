// SPDX-License-Identifier: Apache-2.0
// What a program that only plans (-DCKM_RUN=OFF) says where another runs networks.
#include "cli/cli.h"

int cli_plans_only(const char *what)
{
    return cli_usage_error(
        NULL, "this program only plans and has no '%s': 'make' in a clone of the sources builds one that has it", what);
}
