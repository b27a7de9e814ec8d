// SPDX-License-Identifier: Apache-2.0
// A budget as every command reads it, and the options of commands that plan within one and run.
#ifndef CKM_SRC_CLI_CLI_BUDGET_H
#define CKM_SRC_CLI_CLI_BUDGET_H

#include "cli/cli.h"

// How help says what a budget may be; each command says before it what the bytes count.
#define CLI_BUDGET_FORMS                                                                                             \
    "A size such as 8GB, 4GiB or 8000000000 (4G is 4GB); a percentage of the peak without rematerialization, such "  \
    "as 60%, or of its activations, such as 60%act; the memory of a device that 'checkmate devices' lists, such as " \
    "H100; 'auto', 80 % of the memory available now"

// NULL, or what is wrong with the text, as the end of a sentence "--x ...".
const char *cli_read_budget(const char *text, cli_budget *out);
// Bytes of a budget for `df`, rounded down, which is read for percentages only. Of 'min', which has to be searched for, it knows
// nothing.
ckm_status cli_budget_bytes(const cli_budget *budget, const ckm_dataflow *df, int64_t *bytes,
                            ckm_error *err) CKM_NODISCARD;
// --budget of what runs, into *bytes, *fraction of the run without rematerialization, or *activations, a fraction of these; none
// is touched for "auto". For "min" it is one byte, so that what fits is looked for. Gives -1, or the exit status to return.
int cli_budget_of_run(const cli_command *command, const cli_budget *budget, int64_t *bytes, double *fraction,
                      double *activations);
// What "min" is planned for after that: the least that was tried and fits or, with a warning, what the run takes without
// rematerialization, where nothing less was found (-1: nothing at all).
int64_t cli_budget_least(int64_t least_bytes, int64_t baseline_bytes);

// What `train` and `run` plan within, and how.
typedef struct cli_planning_settings {
    cli_budget budget;  // not given: "auto"
    const char *strategy;
    double time_limit_seconds;
} cli_planning_settings;
#define CLI_PLANNING_DEFAULTS          \
    {                                  \
        {.given = false}, "auto", 20.0 \
    }
enum { CLI_N_PLANNING_OPTIONS = 3 };
extern const cli_option cli_planning_options[CLI_N_PLANNING_OPTIONS];

// What computes, in `train`, `run` and `profile`.
typedef struct cli_kernel_settings {
    int64_t threads;  // 0: not given
    const char *back_end;
} cli_kernel_settings;
#define CLI_KERNEL_DEFAULTS \
    {                       \
        0, NULL             \
    }
enum { CLI_N_KERNEL_OPTIONS = 2 };
extern const cli_option cli_kernel_options[CLI_N_KERNEL_OPTIONS];

#endif
