// SPDX-License-Identifier: Apache-2.0
// --costs: from what the user names to a cost model.
#ifndef CKM_SRC_CLI_CLI_COSTS_H
#define CKM_SRC_CLI_CLI_COSTS_H

#include "cli/cli.h"

typedef struct cli_costs {
    ckm_cost_model model;  // refers to `device`: do not copy
    ckm_device device;
} cli_costs;

// "flops", "device:NAME", "device:this", "device:FILE" or a checkmate-profile file, whose name `out` borrows.
ckm_status cli_costs_choose(const char *costs, cli_costs *out, ckm_error *err) CKM_NODISCARD;

// Where the measured model of this machine is kept; makes the folder.
ckm_status cli_device_path(char *path, size_t room, ckm_error *err) CKM_NODISCARD;
// Runs two small networks on this machine and fits a device to how long their operators take.
ckm_status cli_device_measure(int threads, ckm_device *out, ckm_error *err) CKM_NODISCARD;

#endif
