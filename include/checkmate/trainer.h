// SPDX-License-Identifier: Apache-2.0
// Training a network within a memory budget: everything from a network to trained weights, in a few calls.
//
//     ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
//     options.budget_bytes = 2000000000;
//     ckm_trainer_open(network, &options, &trainer, &err);     // derives the step, measures, plans, sets parameters
//     ckm_trainer_run(trainer, &course, &result, &err);        // trains
//     ckm_trainer_export(trainer, "weights.safetensors", &err);
//     ckm_trainer_close(trainer);
//
// The budget holds by construction: what training takes outside its one region of memory (data read ahead, kernels,
// threads, tables) is known before the search for a schedule, and the region gets the rest. Each of the parts
// (checkmate/autodiff.h, run.h, solve.h, data.h, train.h) can be used alone.
#ifndef CHECKMATE_TRAINER_H
#define CHECKMATE_TRAINER_H

#include <checkmate/autodiff.h>
#include <checkmate/base.h>
#include <checkmate/cost.h>
#include <checkmate/data.h>
#include <checkmate/graph.h>
#include <checkmate/import.h>
#include <checkmate/ranks.h>
#include <checkmate/run.h>
#include <checkmate/solve.h>
#include <checkmate/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_trainer ckm_trainer;

typedef enum ckm_trainer_costs {
    CKM_TRAINER_COSTS_MEASURED,  // times of this machine, measured once and kept (ckm_profile_cache_path), where the budget
                                 // asks for rematerialization; multiply-accumulates where that cannot be
    CKM_TRAINER_COSTS_MODEL      // by `cost_model`
} ckm_trainer_costs;

// The structures of options that it points to are read at the call and need not outlive it. Everything else that it or
// they point to (names of files, `source`, `user`, a device) must live as long as the trainer.
typedef struct ckm_trainer_options {
    size_t size;  // set by CKM_TRAINER_OPTIONS_INIT
    // Memory: one of two, or `activations_fraction`. With none, four fifths of what the system has available.
    int64_t budget_bytes;    // > 0: the budget
    double budget_fraction;  // > 0, where budget_bytes is 0: of what keeping everything takes, all included; <= 10
    // What a step does; NULL: all defaults. Where its optimizer is CKM_OPTIMIZER_NONE, it is SGD, and a momentum of 0 then 0.9.
    const ckm_autodiff_options *step;
    const ckm_program_options *kernels;  // NULL: one thread of the processor
    // The search for a schedule. budget_bytes is the trainer's; `stop` ends planning with CKM_ERR_STOPPED, and `user` goes to all
    // callbacks. NULL: all defaults. Here a time limit of 0 is 20 seconds, and a gap of 0 is 1e-3.
    const ckm_solve_options *solve;
    ckm_trainer_costs costs;
    bool measure_always;               // measure even where the budget asks for no rematerialization
    const ckm_cost_model *cost_model;  // for CKM_TRAINER_COSTS_MODEL; NULL: multiply-accumulates
    // Data: a folder or "synthetic" (checkmate/data.h), or the caller's own; with neither, "synthetic".
    const char *data;
    const ckm_data_source *source;
    // Scaling, resize, keep_order, synthetic_samples, crop, flip, skip_damaged; the others are the trainer's. May be NULL.
    const ckm_data_options *reading;
    // Parameters: set from the seed, then from the model's file, then from `weights`; or as `resume` has them.
    uint64_t seed;      // of parameters, dropout and the order of the data; 0: that of `resume`, where there is one
    const char *model;  // the file that the network was imported from: its weights and constants; may be NULL
    const ckm_import_options *importing;  // as it was imported; may be NULL
    const char *weights;                  // a safetensors file (ckm_train_load_weights); may be NULL
    const char *resume;                   // a file of ckm_train_save, to resume from; may be NULL
    // Messages for the user: CKM_LOG_WARN, CKM_LOG_INFO. May be NULL.
    ckm_log_fn note;
    // Before every search for a schedule, with the graph it is for. May be NULL.
    void (*searching)(const ckm_dataflow *df, void *user);
    // Steps of several batches: parameters change by the mean of their gradients, ((g0 + g1) + g2 ...) / n. Either one after
    // the other in this process, or one in each of several, which train together: the bits are the same. Every process of
    // `ranks` makes the same calls with the same options; rank 0 searches for the schedule that all follow.
    int64_t accumulate;      // batches of a step; 0 and 1: one
    const ckm_ranks *ranks;  // NULL, or one rank: this process alone
    // Settings that may differ from those of `resume`, names separated by commas: network, loss, data (its format), samples,
    // classes, pixels, augment, keep-order, lr. NULL: none, and a difference is CKM_ERR_ARGUMENT.
    const char *change;
    // ckm_trainer_export to an ONNX file will follow: what it would refuse is refused now (CKM_ERR_UNSUPPORTED), and
    // operators whose mode in the copy differs from the file's are noted.
    bool exports_model;
    char reserved[7];
    double activations_fraction;  // > 0, where the other two budgets are 0: of activations (ckm_trainer_plan); <= 10
    // Samples that are not trained on. After every epoch a forward pass over all of them gives loss and accuracy
    // (ckm_train_options.validated); its memory is within the budget. Either a folder, or a share of the samples of `data` or
    // `source`: chosen by the seed or, of texts and where the order is kept, the last ones. NULL and 0: none.
    const char *validate;
    double validate_fraction;  // < 1; with `validate`, 0
    // The learning rates that ckm_trainer_run will be given, where they are known: what differs from those of `resume` is then
    // refused before anything is planned. NULL: at ckm_trainer_run, which compares them in any case.
    const ckm_rate_schedule *rate;
    // How `graph` was made, for the files that are saved: a text that their users can read (ckm_train_read_note,
    // "network_options"). NULL: nothing.
    const char *network_options;
    // A folder to whose disk tensors may be moved while operators run, as well as recomputed: budgets may then be lower
    // (ckm_program_options.second_memory of `kernels`, which may also name it). Costs must be times. One process. NULL: none.
    const char *offload;
    // Its speeds in bytes per second, and what a transfer takes besides; 0: as measured before anything is planned. And the bytes of
    // all copies at a time; 0: no limit.
    int64_t out_bytes_per_second, in_bytes_per_second, transfer_latency_ns, offload_bytes;
} ckm_trainer_options;
#define CKM_TRAINER_OPTIONS_INIT CKM_SIZED(ckm_trainer_options)

// What was planned. Times are NaN where costs are multiply-accumulates.
typedef struct ckm_trainer_info {
    bool fits;               // there is a schedule
    bool proven;             // where there is none: none that keeps the order of the step can be
    int64_t budget_bytes;    // what was asked for
    int64_t used_bytes;      // of it, region and all else; -1 before there is a session
    int64_t outside_bytes;   // of these, outside the region: data read ahead, kernels, threads, tables
    int64_t baseline_bytes;  // what training would take without rematerialization
    int64_t floor_bytes;     // proven: no schedule fits less. Set where none fits
    int64_t least_bytes;     // a budget tried up to a session that fits it; -1: none. Set where none fits
    int64_t cost, baseline_cost;
    double step_seconds, baseline_step_seconds;  // predicted
    const char *strategy;                        // that found the schedule
    const char *parameters_from;                 // for a person: "initialised from seed 1"
    bool resumed;
    ckm_train_place place;  // where training is
} ckm_trainer_info;

// Derives the step of `graph`, prepares kernels and data, measures operators, and finds a schedule that fits the budget,
// with addresses for everything in it. Activations are what a step that keeps everything has at its peak beyond
// ckm_dataflow_standing_bytes. That none fits is no error: see `fits` of ckm_trainer_get_info. `graph` must
// outlive the trainer. Errors: CKM_ERR_ARGUMENT for options that contradict each other or the file to resume from;
// CKM_ERR_STOPPED; CKM_ERR_UNSUPPORTED where operators have no gradient or no kernel; those of the data.
CKM_API ckm_status ckm_trainer_plan(const ckm_graph *graph, const ckm_trainer_options *options, ckm_trainer **out,
                                    ckm_error *err) CKM_NODISCARD;
// Allocates the region and sets parameters. Errors: CKM_ERR_ARGUMENT when no schedule fits, saying what would;
// CKM_ERR_MEMORY; those of the files that hold parameters.
CKM_API ckm_status ckm_trainer_begin(ckm_trainer *trainer, ckm_error *err) CKM_NODISCARD;
// ckm_trainer_plan, then ckm_trainer_begin.
CKM_API ckm_status ckm_trainer_open(const ckm_graph *graph, const ckm_trainer_options *options, ckm_trainer **out,
                                    ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_trainer_close(ckm_trainer *trainer);
CKM_API ckm_trainer_info ckm_trainer_get_info(const ckm_trainer *trainer);

// The second memory that was planned with; false, and `out` untouched, where there is none. Its name is the trainer's.
CKM_API bool ckm_trainer_get_second_memory(const ckm_trainer *trainer, ckm_second_memory *out);

// Trains from where training is to step options->last_step; 0: to the end of the epoch. first_step and place are the
// trainer's. May be called again, to continue. Errors: those of ckm_train_run; CKM_ERR_ARGUMENT when last_step is behind.
CKM_API ckm_status ckm_trainer_run(ckm_trainer *trainer, const ckm_train_options *options, ckm_train_result *result,
                                   ckm_error *err) CKM_NODISCARD;
// Writes the state, from which training can be resumed (`resume`).
CKM_API ckm_status ckm_trainer_save(const ckm_trainer *trainer, const char *path, ckm_error *err) CKM_NODISCARD;
// Writes parameters and running statistics: as safetensors, or, where `path` ends in ".onnx", with the network, so that it predicts
// what was trained (docs/ONNX.md says how input and output are described in the file). Where the network came from an ONNX file that
// is a copy of it; batch normalization and dropout that the file has in training mode are in evaluation mode there. Errors:
// CKM_ERR_UNSUPPORTED where the file cannot be written so: something reads the statistics of a batch, an operator has no form in
// ONNX, or the file would be larger than 2 GiB.
CKM_API ckm_status ckm_trainer_export(const ckm_trainer *trainer, const char *path, ckm_error *err) CKM_NODISCARD;

// Trains `steps` steps with and without rematerialization, each from the start, and compares bit for bit
// (ckm_session_compare). For a trainer that has not begun: it takes the memory of one run at a time. Steps have one batch.
CKM_API ckm_status ckm_trainer_check(ckm_trainer *trainer, int64_t steps, double learning_rate, ckm_compare_result *out,
                                     ckm_error *err) CKM_NODISCARD;
// Times steps with and without rematerialization in turns (ckm_session_time): `first` is without. Takes the memory of both.
CKM_API ckm_status ckm_trainer_time(ckm_trainer *trainer, int64_t rounds, ckm_timing *out,
                                    ckm_error *err) CKM_NODISCARD;
// Bytes of the arena and of the region, with rematerialization and without.
typedef struct ckm_trainer_sizes {
    int64_t arena_bytes, region_bytes;
    int64_t baseline_arena_bytes, baseline_region_bytes;
} ckm_trainer_sizes;
CKM_API ckm_status ckm_trainer_get_sizes(ckm_trainer *trainer, ckm_trainer_sizes *out, ckm_error *err) CKM_NODISCARD;

// What validation takes.
typedef struct ckm_trainer_validation {
    bool there;  // there are samples for it
    int64_t samples;
    int64_t bytes;  // outside the region, in outside_bytes of ckm_trainer_info: kernels, tables, the batch read ahead
    int64_t kernel_bytes;  // of these, what kernels were measured to take
} ckm_trainer_validation;
CKM_API ckm_trainer_validation ckm_trainer_get_validation(const ckm_trainer *trainer);

// The parts. They are the trainer's; NULL where there is none yet.
CKM_API ckm_session *ckm_trainer_session(ckm_trainer *trainer);
CKM_API ckm_data *ckm_trainer_data(ckm_trainer *trainer);
CKM_API const ckm_program *ckm_trainer_program(const ckm_trainer *trainer);
CKM_API const ckm_dataflow *ckm_trainer_dataflow(const ckm_trainer *trainer);
CKM_API const ckm_schedule *ckm_trainer_schedule(const ckm_trainer *trainer);

// A schedule and plan within `budget_bytes`, of which `outside_bytes` are not the region's, found by ckm_solve: as
// ckm_run_plan_under_budget, but what fits without rematerialization is not searched for. `result` (may be NULL) is what
// was found at the end, without its schedule. Its status, bound and gap are of schedules within `budget_bytes` -
// `outside_bytes`, its budget_bytes, although less was solved for where packing wasted some.
CKM_API ckm_status ckm_trainer_fit(const ckm_dataflow *df, int64_t budget_bytes, int64_t outside_bytes,
                                   const ckm_solve_options *options, ckm_run_fit *fit, ckm_solve_result *result,
                                   ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
