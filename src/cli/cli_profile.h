// SPDX-License-Identifier: Apache-2.0
// Measured costs: measuring a program within a given memory, and keeping the result for the next time.
#ifndef CKM_SRC_CLI_CLI_PROFILE_H
#define CKM_SRC_CLI_CLI_PROFILE_H

#include "cli/cli.h"

// Measures all operators of the program, by the schedule without rematerialization where its memory is within
// `memory_bytes` (negative: any), else by one found in a few seconds that is.
ckm_status cli_profile_measure(const ckm_training *training, ckm_program *program, int64_t memory_bytes,
                               const ckm_profile_options *options, ckm_profile **out, ckm_error *err) CKM_NODISCARD;

// The file with this program's profile on this machine; measures and writes it first when it is not there. `*measured`:
// it was not.
ckm_status cli_profile_obtain(const ckm_training *training, ckm_program *program, int64_t memory_bytes,
                              const ckm_profile_options *options, char *path, size_t room, bool *measured,
                              ckm_error *err) CKM_NODISCARD;

// Processors of this machine, at least 1.
int cli_processors(void);

#endif
