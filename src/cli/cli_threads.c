// SPDX-License-Identifier: Apache-2.0
// The warning when a program got fewer threads than it asked for.
#include <string.h>

#include "cli/cli.h"

void cli_note_threads(const ckm_program *program, int wanted)
{
    int threads = ckm_program_threads(program);
    // The reference back end always computes with one thread.
    if (threads < wanted && strcmp(ckm_program_backend(program), "reference") != 0) {
        cli_warnf("only %d of %d threads could be started; continuing with %s", threads, wanted,
                  threads == 1 ? "one" : "these");
    }
}
