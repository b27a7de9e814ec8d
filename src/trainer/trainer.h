// SPDX-License-Identifier: Apache-2.0
// The trainer, internal view: what its files share.
#ifndef CKM_SRC_TRAINER_TRAINER_H
#define CKM_SRC_TRAINER_TRAINER_H

#include <checkmate/min_budget.h>
#include <checkmate/profile.h>
#include <checkmate/trainer.h>

#include "run/backend/backend.h"
#include "run/train/train.h"

// Samples that are not learnt from, and how they are judged (trainer_validate.h).
typedef struct ckm_i_validation ckm_i_validation;

// Texts that files say beside the tensors (trainer_notes.c).
typedef struct ckm_i_trainer_notes ckm_i_trainer_notes;

struct ckm_trainer {
    ckm_trainer_options options;  // its pointers to options are NULL: these are the copies
    ckm_autodiff_options step;
    ckm_program_options kernels;
    ckm_solve_options solve;
    ckm_cost_model cost_model;
    ckm_data_options reading;
    ckm_import_options importing;
    const ckm_graph *graph;
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_data *data;
    ckm_import_values *values;  // of options.model, else NULL
    ckm_session *session;
    ckm_run_fit fit;
    ckm_solve_result solved;  // the last search; its schedule is not kept here
    ckm_schedule *baseline;   // without rematerialization; its info has the cost, and the peak without what is outside
    ckm_plan *baseline_plan;
    int64_t whole_bytes;       // what a run by them takes: region, tables, and what is beside both
    int64_t beside_operators;  // nanoseconds a step takes beside its operators, as measured
    int64_t budget_bytes, outside_bytes;
    int64_t least_bytes;  // where nothing fits: a budget that was tried and does; -1: none
    ckm_train_place place;
    ckm_i_train_settings settings;  // what has to be the same when training goes on
    // Steps of several batches.
    int64_t accumulated;       // in this process, >= 1
    const ckm_ranks *ranks;    // NULL: one process
    ckm_i_exchange *exchange;  // once training has begun
    int64_t beside_most;       // what ckm_i_trainer_beside gives, of all ranks the most
    bool resumed, rate_compared;
    ckm_i_validation *validation;  // NULL: none
    int64_t validation_bytes;      // what it takes beside the region; 0: none
    double best_loss;              // of validation; infinite: there was none yet
    ckm_i_trainer_notes *notes;    // texts of `settings` (trainer_notes.c)
    char parameters_from[300];
    // A forward pass alone (inference.c): no loss, no data, nothing learns.
    bool predicts;
    int64_t reading_bytes;  // that the caller takes beside
    bool *valued;           // by tensor of the session: it has a value from a file or the caller; NULL: nobody asks
};

// ckm_trainer_plan, or with `prediction` of a forward pass, beside which the caller takes so many bytes.
ckm_status ckm_i_trainer_plan(const ckm_graph *graph, const ckm_trainer_options *options, const int64_t *prediction,
                              ckm_trainer **out, ckm_error *err) CKM_NODISCARD;
// Bytes of a file that are in memory at a time.
enum { CKM_I_INFERENCE_PIECE = 64 << 10 };

// What training takes beside the session: reading data, kernels and their threads.
int64_t ckm_i_trainer_beside(const ckm_trainer *t);

// A schedule and plan for the budget, by the costs at hand; none leaves fit.schedule NULL. `quickly`: only to measure by.
ckm_status ckm_i_trainer_fit(ckm_trainer *t, bool quickly, ckm_error *err) CKM_NODISCARD;

// The same by rank 0's schedule, which all ranks get; without ranks, that is ckm_i_trainer_fit (trainer_ranks.c).
ckm_status ckm_i_trainer_fit_together(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Where nothing fits: looks for a budget that does, least_bytes, for some of the time limit (trainer_least.c). One process.
ckm_status ckm_i_trainer_find_least(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// After each rank has built its own parts, with this status: all have the same ones, and agree on what they take.
ckm_status ckm_i_trainer_meet(ckm_trainer *t, ckm_status built, ckm_error *err) CKM_NODISCARD;
// All ranks begin from the same parameters and states.
ckm_status ckm_i_trainer_compare_parameters(const ckm_trainer *t, ckm_error *err) CKM_NODISCARD;

// The dataflow graph at these costs, and all that follows from it (trainer_costs.c).
ckm_status ckm_i_trainer_apply_costs(ckm_trainer *t, const ckm_cost_model *model, ckm_error *err) CKM_NODISCARD;
// The times kept from an earlier run, or new ones.
ckm_status ckm_i_trainer_measure_costs(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Seconds of a step at this cost; NaN when costs are multiply-accumulates.
double ckm_i_trainer_seconds(const ckm_trainer *t, int64_t cost);

// How the data are to be opened for a training graph: `fields` are what it wants, which `options` refers to.
ckm_status ckm_i_trainer_data_options(const ckm_trainer *t, const ckm_training *training, ckm_train_fields *fields,
                                      ckm_data_options *options, ckm_error *err) CKM_NODISCARD;

// Batches of a step, in all processes.
int64_t ckm_i_trainer_step_batches(const ckm_trainer *t);
// Where training is: at its beginning, or where `resume` says, if that was trained as this run would (trainer_settings.c).
ckm_status ckm_i_trainer_find_place(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Once the data are open: notes the settings that have to stay, and compares them with those of `resume`.
ckm_status ckm_i_trainer_keep_settings(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Once the data are open: what files say of them and of the network, beside the settings.
ckm_status ckm_i_trainer_take_notes(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
void ckm_i_trainer_free_notes(ckm_i_trainer_notes *notes);
// Whether this loss of validation is the least so far; then files say so. `user` is the trainer.
bool ckm_i_trainer_is_best(void *user, double loss);
// The least loss of the run that is gone on from.
ckm_status ckm_i_trainer_read_best(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// The same of learning rates. NULL: CKM_RATE_SCHEDULE_INIT.
ckm_status ckm_i_trainer_keep_rate(ckm_trainer *t, const ckm_rate_schedule *rate, ckm_error *err) CKM_NODISCARD;

// Initial values, then what the model's file holds, `weights`, `resume` (trainer_parameters.c).
ckm_status ckm_i_trainer_set_parameters(ckm_trainer *t, ckm_session *session, ckm_error *err) CKM_NODISCARD;

// What trainer_exports.c refuses or notes. Before anything is planned: running statistics that are something else as well;
// operators that the model's file has in training mode, where a copy of it is to be written (noted, or refused where the copy
// cannot have them in evaluation mode). Afterwards: parameters and statistics that are one tensor because their values are equal
// (the former are only noted), and convolutions that hold a normalization (noted).
ckm_status ckm_i_trainer_check_states(const ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_trainer_check_modes(const ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_trainer_check_merged(const ckm_trainer *t, const ckm_session *session, ckm_error *err) CKM_NODISCARD;

// solve.stop, for calls whose `user` is the trainer.
bool ckm_i_trainer_stops(void *trainer);
// CKM_ERR_STOPPED once it says so.
ckm_status ckm_i_trainer_go_on(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
void ckm_i_trainer_note(const ckm_trainer *t, ckm_log_level level, const char *format, ...) CKM_PRINTF(3, 4);

#endif
