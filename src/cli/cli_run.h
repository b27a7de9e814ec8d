// SPDX-License-Identifier: Apache-2.0
// What the parts of checkmate run share. A network is run on arrays, on pictures or on a text: a record of functions each,
// in its own file, and cmd_run.c plans and reports for all.
#ifndef CKM_SRC_CLI_CLI_RUN_H
#define CKM_SRC_CLI_CLI_RUN_H

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_costs.h"
#include "cli/cli_generate.h"
#include "cli/cli_model.h"
#include "cli/cli_pictures.h"
#include "cli/cli_solve.h"
#include "cli/cli_values.h"

typedef struct run_settings {
    cli_list inputs, outputs;
    const char *weights;
    cli_planning_settings planning;
    cli_kernel_settings kernels;
    int scaling;  // -1: not given
    int64_t generate, seed;
    const char *prompt, *prompt_tokens;
    double temperature;
    bool strict, json, verbose, quiet;
    cli_model_settings model;
} run_settings;

typedef struct cli_run_way cli_run_way;

// What is run, and by what.
typedef struct run_setup {
    const run_settings *settings;
    const cli_run_way *way;
    const char *model;
    const char *folder;         // of pictures, or NULL
    cli_pictures pictures;      // in it
    cli_generation generation;  // of a text
    ckm_graph *graph;
    ckm_inference *inference;
    ckm_import_options importing;
    cli_costs costs;
} run_setup;

struct cli_run_way {
    // Options that contradict this way; else -1.
    int (*check)(const cli_command *command, const run_settings *s, bool pictures);
    // Loads the network, for the batch and the shapes that there are, into r->graph.
    ckm_status (*load)(run_setup *r, ckm_error *err);
    // Bytes that reading and writing take in addition to the inference's own; NULL: none.
    int64_t (*bytes)(const run_setup *r);
    // Reads, runs and writes. *seconds: computing.
    ckm_status (*execute)(run_setup *r, double *seconds, ckm_error *err);
    // Says on standard error what was done, and the same as further members of the result in JSON; NULL: nothing.
    void (*note)(const run_setup *r);
    void (*facts)(const run_setup *r, cli_json *json);
};

extern const cli_run_way cli_run_arrays, cli_run_pictures, cli_run_text;

// Where a table of pictures or a text goes: the one --output, "-" without.
const char *cli_run_output(const run_settings *s);

#endif
