// SPDX-License-Identifier: Apache-2.0
// checkmate train, shared by its files: the settings, what is trained, and reporting.
#ifndef CKM_SRC_CLI_CLI_TRAIN_H
#define CKM_SRC_CLI_CLI_TRAIN_H

#include "cli/cli.h"
#include "cli/cli_budget.h"
#include "cli/cli_costs.h"
#include "cli/cli_model.h"
#include "cli/cli_ranks.h"
#include "cli/cli_second_memory.h"
#include "cli/cli_solve.h"
#include "cli/cli_train_meter.h"
#include "cli/cli_values.h"

typedef struct train_settings {
    // Data.
    const char *data, *validate, *augment;
    bool resize, keep_order, strict;
    int scaling;
    int64_t samples;
    // Memory and schedule.
    cli_planning_settings planning;
    cli_kernel_settings kernels;
    const char *offload;
    cli_second_memory second;
    // Training.
    int64_t epochs, steps, seed, accumulate;
    int optimizer, loss, schedule, on_nan, on_excess;
    bool nesterov, fused;
    double rate, momentum, weight_decay, beta1, beta2, epsilon;
    int64_t warmup, rate_every;
    double rate_factor, rate_least;
    // Files.
    const char *save, *save_best, *resume, *change, *weights, *export_to, *log;
    int64_t save_every;
    // What to do and to print.
    bool check, json, verbose, quiet;
    int64_t compare, memory_limit;
    cli_model_settings model;
} train_settings;

// Position of 'mse' in the words of --loss.
enum { CLI_TRAIN_MSE = 2 };

// What is trained, and by what.
typedef struct train_setup {
    train_settings adapted;          // what was asked for, with what follows from it filled in
    const train_settings *settings;  // that
    double bytes_per_token;          // of a text that a tokenizer made tokens of; 0: not known
    char sizes[256];                 // of the network, for the files that are saved
    char validation[4096];           // the folder to validate on, or empty
    const char *model;
    ckm_graph *graph;
    ckm_trainer *trainer;
    const ckm_ranks *ranks;  // NULL: one process
    cli_costs costs;
    cli_limit_settings limits;
    cli_progress progress;    // of the search under way
    ckm_run_memory at_start;  // before anything was planned
} train_setup;

// From the settings to a trainer whose schedule fits; it has not begun yet. Gives -1 to continue, or an exit status after
// having said why.
int cli_train_prepare(const cli_command *command, const train_settings *settings, const char *model,
                      const ckm_ranks *ranks, train_setup *out);
// Batches of a step, in all processes.
int64_t cli_train_step_batches(const train_setup *setup);
void cli_train_dispose(train_setup *setup);
// Reads the words of --augment; NULL: none. Gives NULL, or what is wrong.
const char *cli_train_read_augment(const char *text, double *crop, bool *flip);
double cli_train_rate(const train_settings *settings);
// The learning rates of a run that ends behind that step.
ckm_rate_schedule cli_train_rates(const train_settings *settings, int64_t last_step);

// --check and --compare (cli_train_check.c): a few steps with and without rematerialization, compared bit for bit, and
// timed in turns. Gives the exit status.
int cli_train_both_ways(train_setup *setup);

// Reporting (cli_train_report.c): progress on standard error, the log file, memory.
typedef struct train_report {
    const train_setup *setup;
    FILE *log;
    const char *log_path;
    bool live, log_failed, line_open;
    double began, last_line, last_live;
    train_meter meter;
    bool exceeded;                    // the budget, and training is to end because of it
    int64_t exceeded_step;            // the first, or -1
    int64_t exceeded_bytes;           // growth of anonymous memory by then
    ckm_train_validation last, best;  // samples: 0 where there was none
    double longest_step;              // seconds, waiting for data included
    int64_t anonymous_most;           // growth in the end, of all ranks the most
} train_report;

ckm_status cli_train_report_open(train_report *report, const train_setup *setup, ckm_error *err) CKM_NODISCARD;
// Gives CKM_ERR_IO when the log could not be written in full.
ckm_status cli_train_report_close(train_report *report, ckm_error *err) CKM_NODISCARD;
void cli_train_report_plan(const train_report *report);
void cli_train_report_step(const ckm_train_progress *progress, void *report);
void cli_train_report_validation(const ckm_train_validation *validation, void *report);
void cli_train_report_event(ckm_train_event event, const char *path, int64_t step, const ckm_error *why, void *report);
int cli_train_report_result(train_report *report, const ckm_train_result *result);
// Address space of this process in bytes, or -1.
int64_t cli_train_address_space(void);
double cli_train_clock(void);

#endif
