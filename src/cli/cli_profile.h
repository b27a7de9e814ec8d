// SPDX-License-Identifier: Apache-2.0
// Measured costs: measuring a program within a given memory.
#ifndef CKM_SRC_CLI_CLI_PROFILE_H
#define CKM_SRC_CLI_CLI_PROFILE_H

#include "cli/cli.h"

// Measures all operators of the program, by the schedule without rematerialization where its memory is within
// `memory_bytes` (negative: any), else by one found in a few seconds that is.
ckm_status cli_profile_measure(const ckm_training *training, ckm_program *program, int64_t memory_bytes,
                               const ckm_profile_options *options, ckm_profile **out, ckm_error *err) CKM_NODISCARD;

// Warns, with advice, when the machine was busy while this was measured.
void cli_profile_warn(const ckm_profile_info *info);

#endif
