// SPDX-License-Identifier: Apache-2.0
// The trainer, internal view: what its files share.
#ifndef CKM_SRC_TRAINER_TRAINER_H
#define CKM_SRC_TRAINER_TRAINER_H

#include <checkmate/inference.h>
#include <checkmate/min_budget.h>
#include <checkmate/profile.h>
#include <checkmate/trainer.h>

#include "run/backend/backend.h"
#include "run/train/train.h"

// Samples that are not learnt from, and how they are judged (trainer_validate.h).
typedef struct ckm_i_validation ckm_i_validation;

// Metadata of files, in addition to the tensors (trainer_notes.c).
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
    int64_t whole_bytes;       // what a run by them takes: region and outside_bytes
    int64_t step_overhead_ns;  // what a step takes in addition to its operators, as measured
    int64_t budget_bytes;
    int64_t outside_bytes;  // of all that is outside the region, the session's tables included
    int64_t least_bytes;    // where nothing fits: a budget that was tried and does; -1: none
    ckm_train_place place;
    ckm_i_train_settings settings;  // what has to be the same when training continues
    // Where tensors are moved to; name NULL: nowhere. Costs may be pretended until they are measured (cost/cost_models.h).
    ckm_second_memory second;
    bool pretends;
    // Steps of several batches.
    int64_t accumulated;         // in this process, >= 1
    const ckm_ranks *ranks;      // NULL: one process
    ckm_i_exchange *exchange;    // once training has begun
    int64_t outside_fixed_most;  // the maximum of ckm_i_trainer_outside_fixed over all ranks
    bool resumed, rate_compared;
    ckm_i_validation *validation;  // NULL: none
    int64_t validation_bytes;      // what it takes outside the region; 0: none
    double best_loss;              // of validation; infinite: there was none yet
    ckm_i_trainer_notes *notes;    // texts of `settings` (trainer_notes.c)
    char parameters_from[300];
    // A forward pass alone (inference.c): no loss, no data, nothing learns.
    bool predicts;
    bool evaluates;         // nothing is in training mode, even where the model's file says so
    int64_t reading_bytes;  // that the caller takes in addition
    bool *valued;           // by tensor of the session: it has a value from a file or the caller; NULL: not recorded
};

// ckm_trainer_plan, or with `prediction` that of a forward pass: its `evaluates` and `reading_bytes` are read.
ckm_status ckm_i_trainer_plan(const ckm_graph *graph, const ckm_trainer_options *options,
                              const ckm_inference_options *prediction, ckm_trainer **out, ckm_error *err) CKM_NODISCARD;
// Bytes of a file that are in memory at a time.
enum { CKM_I_INFERENCE_PIECE = 64 << 10 };

// The part of outside_bytes that does not depend on the schedule, that is, without the session's tables: kernels, threads,
// reading data, exchange, second memory, validation.
int64_t ckm_i_trainer_outside_fixed(const ckm_trainer *t);

// A schedule and plan for the budget, by the current costs; fit.schedule is NULL if none was found. `quickly`: only for measuring.
ckm_status ckm_i_trainer_fit(ckm_trainer *t, bool quickly, ckm_error *err) CKM_NODISCARD;

// The same by rank 0's schedule, which all ranks get; without ranks, that is ckm_i_trainer_fit (trainer_ranks.c).
ckm_status ckm_i_trainer_fit_together(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Where nothing fits: looks for a budget that does, least_bytes, for some of the time limit (trainer_least.c). One process.
ckm_status ckm_i_trainer_find_least(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// After each rank has built its own parts, with status `built`: checks that all have the same ones, and agrees on their bytes.
ckm_status ckm_i_trainer_meet(ckm_trainer *t, ckm_status built, ckm_error *err) CKM_NODISCARD;
// All ranks begin from the same parameters and states.
ckm_status ckm_i_trainer_compare_parameters(const ckm_trainer *t, ckm_error *err) CKM_NODISCARD;

// The dataflow graph at these costs, and all that follows from it (trainer_costs.c).
ckm_status ckm_i_trainer_apply_costs(ckm_trainer *t, const ckm_cost_model *model, ckm_error *err) CKM_NODISCARD;
// Once there is a program: the second memory, its speeds as given or measured (trainer_offload.c).
ckm_status ckm_i_trainer_find_second_memory(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// The times kept from an earlier run, or new ones.
ckm_status ckm_i_trainer_measure_costs(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Seconds of a step at this cost; NaN when costs are multiply-accumulates.
double ckm_i_trainer_seconds(const ckm_trainer *t, int64_t cost);

// How the data are to be opened for a training graph: `fields` are what it wants, which `options` refers to.
ckm_status ckm_i_trainer_data_options(const ckm_trainer *t, const ckm_training *training, ckm_train_fields *fields,
                                      ckm_data_options *options, ckm_error *err) CKM_NODISCARD;

// Batches of a step, in all processes.
int64_t ckm_i_trainer_step_batches(const ckm_trainer *t);
// The position in training: the beginning, or that of `resume`, if it was trained with the same settings (trainer_settings.c).
ckm_status ckm_i_trainer_find_place(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Once the data are open: notes the settings that have to stay, and compares them with those of `resume`.
ckm_status ckm_i_trainer_keep_settings(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// Once the data are open: metadata of files about them and the network, in addition to the settings.
ckm_status ckm_i_trainer_take_notes(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
void ckm_i_trainer_free_notes(ckm_i_trainer_notes *notes);
// Whether this loss of validation is the least so far; then files say so. `user` is the trainer.
bool ckm_i_trainer_is_best(void *user, double loss);
// The least loss of the run that is resumed.
ckm_status ckm_i_trainer_read_best(ckm_trainer *t, ckm_error *err) CKM_NODISCARD;
// The same of learning rates. NULL: CKM_RATE_SCHEDULE_INIT.
ckm_status ckm_i_trainer_keep_rate(ckm_trainer *t, const ckm_rate_schedule *rate, ckm_error *err) CKM_NODISCARD;

// Initial values, then what the model's file holds, `weights`, `resume` (trainer_parameters.c).
ckm_status ckm_i_trainer_set_parameters(ckm_trainer *t, ckm_session *session, ckm_error *err) CKM_NODISCARD;

// Whether tensor i is a parameter or a running statistic, and not an optimizer's state.
bool ckm_i_trainer_is_the_networks(const ckm_session *session, int32_t i);

// Metadata of a network in a file of weights, by its key there (docs/FORMATS.md); NULL: none.
typedef const char *ckm_i_trainer_fact(const void *user, const char *key);
// Writes the network with the session's parameters and statistics as an ONNX file: a copy of `model`, the file that it was read
// from, or, where that is NULL, in operators of ONNX. The metadata is copied, since users of the file need it.
ckm_status ckm_i_trainer_write_onnx(const ckm_session *session, const ckm_graph *graph, const char *model,
                                    const char *path, ckm_i_trainer_fact *fact, const void *user,
                                    ckm_error *err) CKM_NODISCARD;

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
