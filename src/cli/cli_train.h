// SPDX-License-Identifier: Apache-2.0
// checkmate train, shared by its files: the settings, everything that is built before the first step, and reporting.
#ifndef CKM_SRC_CLI_CLI_TRAIN_H
#define CKM_SRC_CLI_CLI_TRAIN_H

#include "cli/cli.h"
#include "cli/cli_model.h"
#include "cli/cli_train_meter.h"
#include "cli/cli_values.h"

typedef struct train_settings {
    // Data.
    const char *data;
    bool resize, keep_order;
    int scaling;
    int64_t samples;
    // Memory and schedule.
    const char *budget, *strategy, *back_end;
    double time_limit_seconds;
    int64_t threads;
    // Training.
    int64_t epochs, steps, seed;
    int optimizer, loss, schedule, on_nan, on_excess;
    bool nesterov, fused;
    double rate, momentum, weight_decay, beta1, beta2, epsilon;
    int64_t warmup, rate_every;
    double rate_factor, rate_least;
    // Files.
    const char *save, *resume, *weights, *export_to, *log;
    int64_t save_every;
    // What to do and to print.
    bool check, json, verbose;
    int64_t compare, memory_limit;
    cli_model_settings model;
} train_settings;

// Everything that stands before the first step.
typedef struct train_setup {
    train_settings adapted;          // what was asked for, with what follows from it filled in
    const train_settings *settings;  // that
    const char *model;
    ckm_graph *graph;
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_data *data;
    ckm_import_values *values;  // of an ONNX file, else NULL
    ckm_session *session;
    ckm_run_fit fit;
    ckm_schedule *baseline;                // without rematerialization
    int64_t baseline_cost, baseline_peak;  // of it, peak without what is outside
    int64_t cost;                          // of the schedule
    int64_t beside_operators;              // nanoseconds a step takes beside its operators, as measured
    bool provisional;                      // the schedule is only to measure by: quickly, please
    int64_t budget_bytes, outside_bytes;
    ckm_solve_result solved;  // the last solve; its schedule is not kept here
    ckm_train_place place;    // where training begins
    bool resumed;
    char weights_from[64];  // what the parameters were set from, for a person
} train_setup;

// From the settings to a schedule that fits; the session is not made yet. Gives -1 to go on, or an exit status after
// having said why.
int cli_train_prepare(const cli_command *command, const train_settings *settings, const char *model, train_setup *out);
void cli_train_dispose(train_setup *setup);
// What training takes beside the session: reading data, kernels and their threads.
int64_t cli_train_beside(const train_setup *setup);
// "adam beta1=0.9 ...": what has to be the same when training goes on.
const char *cli_train_optimizer_text(const train_settings *settings, char *buf, size_t size);
double cli_train_rate(const train_settings *settings);

// A schedule and plan for the budget, by the costs at hand (cli_train_fit.c); none leaves fit.schedule NULL.
ckm_status cli_train_fit(train_setup *setup, ckm_error *err) CKM_NODISCARD;

// Costs (cli_train_costs.c), as cli_costs_choose takes them; sets all that follows from them.
ckm_status cli_train_apply_costs(train_setup *setup, const char *what, ckm_error *err) CKM_NODISCARD;
// --costs measured: the times kept from an earlier run, or new ones.
ckm_status cli_train_measure_costs(train_setup *setup, ckm_error *err) CKM_NODISCARD;
// Of a step at this cost; NaN when costs are FLOPs.
double cli_train_predicted_seconds(const train_setup *setup, int64_t cost);

// The session (cli_train_session.c). Makes it and sets parameters: initial values, then what the model's file holds,
// --weights, --resume.
ckm_status cli_train_open_session(train_setup *setup, ckm_error *err) CKM_NODISCARD;
ckm_status cli_train_set_parameters(train_setup *setup, ckm_session *session, ckm_error *err) CKM_NODISCARD;
// --export FILE.
ckm_status cli_train_export(const train_setup *setup, ckm_error *err) CKM_NODISCARD;

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
    bool exceeded;           // the budget, and training is to end because of it
    int64_t exceeded_step;   // the first, or -1
    int64_t exceeded_bytes;  // growth of anonymous memory by then
    double longest_step;     // seconds, waiting for data included
} train_report;

ckm_status cli_train_report_open(train_report *report, const train_setup *setup, ckm_error *err) CKM_NODISCARD;
// Gives CKM_ERR_IO when the log could not be written in full.
ckm_status cli_train_report_close(train_report *report, ckm_error *err) CKM_NODISCARD;
void cli_train_report_plan(const train_report *report);
void cli_train_report_step(const ckm_train_progress *progress, void *report);
void cli_train_report_event(ckm_train_event event, const char *path, int64_t step, const ckm_error *why, void *report);
int cli_train_report_result(train_report *report, const ckm_train_result *result);
// Address space of this process in bytes, or -1.
int64_t cli_train_address_space(void);
double cli_train_clock(void);

#endif
