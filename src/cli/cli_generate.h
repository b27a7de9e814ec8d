// SPDX-License-Identifier: Apache-2.0
// checkmate run --generate: a text that a network writes, token by token; bytes, or tokens of a tokenizer.
#ifndef CKM_SRC_CLI_CLI_GENERATE_H
#define CKM_SRC_CLI_CLI_GENERATE_H

#include "cli/cli.h"

typedef struct cli_generation {
    int64_t tokens;             // to write
    const char *prompt;         // what to begin with; not empty
    const char *prompt_tokens;  // or an array of tokens; then tokens are written, not bytes
    double temperature;         // 0: always the likeliest
    uint64_t seed;
    double seconds;  // computing
} cli_generation;

// Bytes in addition to the inference's own: the text and the scores of one position.
int64_t cli_generate_bytes(const cli_generation *generation, const ckm_graph *graph);
// Writes the prompt and what follows to `output`; "-" is standard output, where tokens are numbers in a line. A file of tokens is an
// array (.npy). Errors: CKM_ERR_ARGUMENT where the network does not read a text of these and score the next one.
ckm_status cli_generate_run(cli_generation *generation, ckm_inference *f, const char *output,
                            ckm_error *err) CKM_NODISCARD;

#endif
