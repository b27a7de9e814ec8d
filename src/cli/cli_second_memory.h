// SPDX-License-Identifier: Apache-2.0
// The second memory that the command line gives a graph: options, and how it is shown.
#ifndef CKM_SRC_CLI_CLI_SECOND_MEMORY_H
#define CKM_SRC_CLI_CLI_SECOND_MEMORY_H

#include "cli/cli_values.h"

// Bytes, bytes per second, nanoseconds; -1: not given.
typedef struct cli_second_memory {
    int64_t bytes, out_speed, in_speed, latency_ns;
    const char *link;  // NULL: not given
} cli_second_memory;
#define CLI_SECOND_MEMORY_DEFAULTS \
    {                              \
        -1, -1, -1, -1, NULL       \
    }

enum { CLI_N_SECOND_MEMORY_OPTIONS = 5 };
extern const cli_option cli_second_memory_options[CLI_N_SECOND_MEMORY_OPTIONS];

// Wrong usage of these options: reports and gives the exit status, else -1.
int cli_second_memory_check(const cli_command *command, const cli_second_memory *s);
// The same, and what is not given of speeds and latency is that of --link, where that is given.
ckm_status cli_second_memory_resolve(const cli_second_memory *s, cli_second_memory *out, ckm_error *err) CKM_NODISCARD;
// Replaces *df by the same graph with this second memory; members not given are those that it has. Without any of the options
// nothing changes, nor does it on errors. O(operators + edges).
ckm_status cli_second_memory_apply(const cli_second_memory *s, ckm_dataflow **df, ckm_error *err) CKM_NODISCARD;
// A row of a summary, and an object "second_memory" with the members of the file; nothing where the graph has none.
void cli_second_memory_print(const ckm_dataflow *df);
void cli_second_memory_json(cli_json *json, const ckm_dataflow *df);

#endif
