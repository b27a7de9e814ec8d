// SPDX-License-Identifier: Apache-2.0
// checkmate run --generate: a text that a network writes, token by token.
#ifndef CKM_SRC_CLI_CLI_GENERATE_H
#define CKM_SRC_CLI_CLI_GENERATE_H

#include "cli/cli.h"

typedef struct cli_generation {
    int64_t tokens;      // to write
    const char *prompt;  // what to begin with; not empty
    double temperature;  // 0: always the likeliest
    uint64_t seed;
    double seconds;  // computing
} cli_generation;

// Bytes beside the inference's own: the text and the scores of one position.
int64_t cli_generate_bytes(const cli_generation *generation, const ckm_graph *graph);
// Writes the prompt and what follows to `output`; "-" is standard output. Errors: CKM_ERR_ARGUMENT where the network does not read a
// text of bytes and score the next one.
ckm_status cli_generate_run(cli_generation *generation, ckm_inference *f, const char *output,
                            ckm_error *err) CKM_NODISCARD;

#endif
