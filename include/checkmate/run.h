// SPDX-License-Identifier: Apache-2.0
// Running a training step by a schedule, in memory laid out beforehand.
//
// The order of things: ckm_autodiff_op_graph gives the training graph; ckm_program_create prepares its kernels and
// records in it what workspace they need; ckm_cost_apply turns it into a dataflow graph; a schedule is solved and a plan
// made (ckm_run_plan_under_budget does both until they fit); ckm_session_create allocates everything at once;
// ckm_session_step trains.
#ifndef CHECKMATE_RUN_H
#define CHECKMATE_RUN_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/graph.h>
#include <checkmate/plan.h>
#include <checkmate/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

// The kernels of a step graph on a back end. Not bound to memory: several sessions may run the same program, one
// after the other.
typedef struct ckm_program ckm_program;

typedef struct ckm_program_options {
    size_t size;          // set by CKM_PROGRAM_OPTIONS_INIT
    int threads;          // 0: 1
    const char *backend;  // "cpu", "reference", ...: what --back-end takes; NULL is "cpu"
    // A folder: its disk is the second memory of schedules that move tensors. Sessions of such schedules make a file there that has no
    // name, of a size that does not change, which is gone when they are. NULL: there is none.
    const char *second_memory;
} ckm_program_options;
#define CKM_PROGRAM_OPTIONS_INIT CKM_SIZED(ckm_program_options)

// Prepares a kernel for every operator of an op-level training graph that computes something (views do not) and
// writes the workspace it needs into `training`, which must outlive the program. Errors: CKM_ERR_UNSUPPORTED names
// every operator that the back end has no kernel for; CKM_ERR_NOT_FOUND for an unknown back end.
//
// Threads and fork. Threads are those of GNU's OpenMP, which keeps a team for every thread that starts one. Where a thread has run
// a program of several threads and then forks, its child can run one of one thread, or of several from a thread that it starts;
// otherwise CKM_ERR_UNSUPPORTED says so. The same holds after a loop of the caller's own OpenMP, which cannot be seen here.
//
// How threads wait for each other. By default OpenMP lets them spin for milliseconds, which is fast on a quiet machine and tens of
// times too slow on a busy one. While threads are seen to lose their processors to others, the library therefore keeps a second,
// sleeping team, which makes all OpenMP threads of the process spin for microseconds only. There is none if the caller's
// environment has OMP_WAIT_POLICY or GOMP_SPINCOUNT (1000 suits both kinds of machine) when the program is created.
CKM_API ckm_status ckm_program_create(ckm_training *training, const ckm_program_options *options, ckm_program **out,
                                      ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_program_free(ckm_program *program);
CKM_API const char *ckm_program_backend(const ckm_program *program);
CKM_API int ckm_program_threads(const ckm_program *program);
// Bytes that can be had of the memory that the program's sessions live in; -1: not known. The host's memory counts what is
// available without swapping, within the limit of the process's control group.
CKM_API int64_t ckm_program_free_bytes(const ckm_program *program);

// What a program takes outside the regions of its sessions: a step takes nothing more. To be counted within a budget (part
// of `outside_bytes` below).
typedef struct ckm_program_memory {
    int64_t kernel_bytes;  // kernels: generated code, descriptions, tables
    int64_t thread_bytes;  // stacks of the threads that compute
    int64_t margin_bytes;  // for what the C library takes at a time and the system rounds up: a bound
    bool measured;         // kernels and stacks: as the process's anonymous memory grew; else they are estimates
} ckm_program_memory;
CKM_API ckm_program_memory ckm_program_get_memory(const ckm_program *program);

// Memory that this process has resident, in bytes; -1: the system does not say.
typedef struct ckm_run_memory {
    int64_t anonymous_bytes;  // what it took for itself
    int64_t resident_bytes;   // with pages of program and library files, and shared memory
} ckm_run_memory;
// `exactly`: anonymous memory counted page by page (/proc/self/smaps_rollup), some milliseconds a gigabyte; else, or where
// that cannot be had, the system's running count (RssAnon of /proc/self/status), which on kernels before 6.16 lags
// behind by up to 64 pages a thread. Allocates nothing.
CKM_API ckm_run_memory ckm_run_get_memory(bool exactly);

// What the second memory takes of this one while a session has it open: buffers and stacks of its threads. 0: there is none.
CKM_API int64_t ckm_program_second_memory_bytes(const ckm_program *program);
// Speeds of it, measured by writing and reading some megabytes; `bytes` is -1, `name` the program's. Takes about a second. Errors:
// CKM_ERR_ARGUMENT where there is none; CKM_ERR_IO.
CKM_API ckm_status ckm_program_measure_second_memory(ckm_program *program, ckm_second_memory *out,
                                                     ckm_error *err) CKM_NODISCARD;

// Gives a schedule whose peak is within the budget; *out stays NULL when none is found, which is no error.
typedef ckm_status (*ckm_run_solve_fn)(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err);

typedef struct ckm_run_fit {
    ckm_schedule *schedule;       // NULL: no schedule was found that fits
    ckm_plan *plan;               // NULL when there is no schedule
    int64_t region_bytes;         // what a session will allocate for them, outside_bytes not included
    int64_t solved_budget_bytes;  // what the schedule was solved for: the room, less what packing wasted
    int32_t rounds;               // how often it was solved
} ckm_run_fit;

// Schedule and plan whose region and `outside_bytes` together are within `budget_bytes`, by construction: solves for
// what is left of the budget, packs, and when the packing exceeds that, packs harder and then solves again for
// a budget that is smaller by the excess. `fit` belongs to the caller (ckm_run_fit_dispose). Errors: the callback's
// and the planner's.
CKM_API ckm_status ckm_run_plan_under_budget(const ckm_dataflow *df, int64_t budget_bytes, int64_t outside_bytes,
                                             const ckm_plan_options *options, ckm_run_solve_fn solve, void *user,
                                             ckm_run_fit *fit, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_run_fit_dispose(ckm_run_fit *fit);
// Bytes of the region that a session allocates for this graph and plan.
CKM_API ckm_status ckm_run_region_bytes(const ckm_dataflow *df, const ckm_plan *plan, int64_t *out,
                                        ckm_error *err) CKM_NODISCARD;

// A training run: parameters, states, data buffers and arena in one region of memory, and the steps of a schedule bound
// to it. A step allocates nothing but the back end's short-lived lists of arguments, some hundred bytes each.
typedef struct ckm_session ckm_session;

typedef struct ckm_session_options {
    size_t size;    // set by CKM_SESSION_OPTIONS_INIT
    bool prefault;  // touch every page at creation, so that a region that cannot be had fails there and not later
    bool trace;     // keep a fingerprint of every operator's outputs and compare recomputations with it (slow)
    uint64_t seed;  // of parameters and of dropout
} ckm_session_options;
#define CKM_SESSION_OPTIONS_INIT CKM_SIZED(ckm_session_options)

// Checks that schedule and plan are those of the dataflow graph (ckm_plan_verify) and it that of the program's training
// graph, allocates the region, binds every step, and initialises parameters and states
// (ckm_session_initialize). Keeps nothing but `program`. Errors: CKM_ERR_MEMORY names the region's size when it
// cannot be allocated; CKM_ERR_ARGUMENT when the parts do not belong together.
CKM_API ckm_status ckm_session_create(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                                      const ckm_plan *plan, const ckm_session_options *options, ckm_session **out,
                                      ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_session_free(ckm_session *session);

// Where every byte of a session goes. Rounding to the alignment of buffers is part of each figure.
typedef struct ckm_session_memory {
    int64_t parameter_bytes;
    int64_t optimizer_bytes;  // states that only updates touch
    int64_t state_bytes;      // other states: running statistics
    int64_t constant_bytes;
    int64_t data_bytes;       // inputs and labels
    int64_t arena_bytes;      // activations, gradients, workspace
    int64_t workspace_bytes;  // of the arena: the largest workspace of any operator
    int64_t padding_bytes;    // the region's last page
    int64_t region_bytes;     // the sum of all but workspace
    int64_t table_bytes;      // outside the region: bound steps, names
} ckm_session_memory;
CKM_API ckm_session_memory ckm_session_get_memory(const ckm_session *session);

// What a session moves to its second memory and back; zeros where its schedule moves nothing. Buffers for that are in no figure of
// ckm_session_memory but table_bytes; ckm_program_second_memory_bytes says what else is taken.
typedef struct ckm_session_transfers {
    int64_t moves_out, moves_in;  // of a step
    int64_t out_bytes, in_bytes;  // of a step
    int64_t file_bytes;           // of the second memory: copies rounded up, packed
    double waited_seconds;        // that steps stood still for transfers, all so far
    bool direct;                  // around the system's page cache
    bool concurrent;              // there are threads for it; else operators stand still meanwhile
    bool in_memory;               // the folder lies in memory, so nothing is saved
} ckm_session_transfers;
CKM_API ckm_session_transfers ckm_session_get_transfers(const ckm_session *session);

// A tensor that lives outside the arena, or a result of the step.
typedef struct ckm_session_tensor {
    const char *name;
    ckm_tensor_role role;  // CKM_ROLE_ACTIVATION for a result
    ckm_dtype dtype;
    ckm_shape shape;
    int64_t bytes;
    int64_t limit;  // integer inputs: values are below it (classes, rows of a table); 0: not known
} ckm_session_tensor;

// Inputs, parameters, states, constants in the order of the step graph; then the results.
CKM_API int32_t ckm_session_tensor_count(const ckm_session *session);
CKM_API ckm_session_tensor ckm_session_get_tensor(const ckm_session *session, int32_t i);
// Position of the tensor called `name`, or -1.
CKM_API int32_t ckm_session_find_tensor(const ckm_session *session, const char *name);
// Copies `bytes` bytes from byte `at` of tensor `tensor` on to the host, or the other way. Where the tensor lives is the back
// end's business. Results can be read after a step and until the next. Errors: CKM_ERR_ARGUMENT when they are not within
// the tensor; the back end's, those of work done late among them.
CKM_API ckm_status ckm_session_read(const ckm_session *session, int32_t tensor, int64_t at, int64_t bytes, void *out,
                                    ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_session_write(ckm_session *session, int32_t tensor, int64_t at, int64_t bytes, const void *data,
                                     ckm_error *err) CKM_NODISCARD;
// Positions of what the loss compares with, of the loss, and of the number of samples predicted right; -1 when there
// is none.
CKM_API int32_t ckm_session_labels(const ckm_session *session);
CKM_API int32_t ckm_session_loss(const ckm_session *session);
CKM_API int32_t ckm_session_correct(const ckm_session *session);

// Sets parameters and states for a new run. Random numbers depend on seed, tensor name and element only.
//   weight of a convolution                uniform, variance 2 / fan-in (He et al. 2015)
//   weight of dense, gemm, matmul, einsum, transposed convolution
//                                          uniform, variance 2 / (fan-in + fan-out) (Glorot and Bengio 2010)
//   table of a gather                      uniform, deviation 0.02
//   scale of a normalization, factor of a product    1
//   slope of a prelu                       0.25
//   running variance                       1
//   added to other than a bias (positions) uniform, deviation 0.02 when it has more than one axis longer than 1
//   everything else: biases, running means, optimizer states    0
// Constants are not touched. Errors: the back end's.
CKM_API ckm_status ckm_session_initialize(ckm_session *session, uint64_t seed, ckm_error *err) CKM_NODISCARD;

// Fills inputs and labels with made-up numbers that depend on seed, step and element only: reals uniform in [-1, 1),
// integers below the tensor's limit. Errors: the back end's.
CKM_API ckm_status ckm_session_fill(ckm_session *session, uint64_t seed, int64_t step, ckm_error *err) CKM_NODISCARD;

typedef struct ckm_step_result {
    double loss;         // NaN when the step has none
    int64_t correct;     // samples predicted right; -1 when the step does not count them
    double seconds;      // wall time
    int64_t mismatches;  // with trace: recomputations whose outputs differed from the first computation's
} ckm_step_result;

// Runs one step on what the data buffers hold. `step` counts from 0: random numbers and Adam's correction depend on it.
// Errors: the back end's.
CKM_API ckm_status ckm_session_step(ckm_session *session, int64_t step, double learning_rate, ckm_step_result *out,
                                    ckm_error *err) CKM_NODISCARD;

// Called before every step; may write inputs and labels. NULL stands for ckm_session_fill with seed 1.
typedef ckm_status (*ckm_session_fill_fn)(ckm_session *session, int64_t step, void *user, ckm_error *err);

// What is compared or timed with another: a schedule, and a plan of it. Frozen.
typedef struct ckm_session_side {
    const ckm_schedule *schedule;
    const ckm_plan *plan;
} ckm_session_side;

typedef struct ckm_compare_options {
    size_t size;           // set by CKM_COMPARE_OPTIONS_INIT
    int64_t steps;         // 0: 3
    double learning_rate;  // 0: 0.01; CKM_NONE: 0, parameters do not change
    uint64_t seed;
    ckm_session_fill_fn fill;  // may be NULL
    void *user;                // passed to it
} ckm_compare_options;
#define CKM_COMPARE_OPTIONS_INIT CKM_SIZED(ckm_compare_options)

typedef struct ckm_compare_result {
    bool equal;
    int64_t steps;
    int64_t operators;       // whose outputs were compared
    int64_t recomputations;  // per step of the second session, compared with the first computation
    double first_loss, last_loss;
    char why[512];  // the first difference: step, operator or tensor; "" when equal
} ckm_compare_result;

// Runs options->steps steps by two schedules from the same state, data and seed, and compares bit for bit: the outputs of
// every operator (by 64-bit fingerprints), recomputations with first computations, losses, and afterwards all parameters
// and states. Holds one session's region at a time.
CKM_API ckm_status ckm_session_compare(ckm_program *program, const ckm_dataflow *df, const ckm_session_side *first,
                                       const ckm_session_side *second, const ckm_compare_options *options,
                                       ckm_compare_result *out, ckm_error *err) CKM_NODISCARD;

typedef struct ckm_timing_options {
    size_t size;     // set by CKM_TIMING_OPTIONS_INIT
    int64_t rounds;  // in each both schedules have a turn of a few steps; 0: 15
    double
        time_limit_seconds;  // no further round is begun after it, but for the first three; 0: 60; CKM_NONE: no limit
    double learning_rate;
    uint64_t seed;
    ckm_session_fill_fn fill;  // as in ckm_compare_options
    ckm_stop_fn stop;          // may be NULL; ends the timing after the round under way
    void *user;                // passed to both
} ckm_timing_options;
#define CKM_TIMING_OPTIONS_INIT CKM_SIZED(ckm_timing_options)

typedef struct ckm_timing_side {
    double median_seconds, p10_seconds, p90_seconds;  // of a step
} ckm_timing_side;

typedef struct ckm_timing {
    int64_t rounds;
    ckm_timing_side first, second;
    double ratio, ratio_p25, ratio_p75;  // second over first, of the two turns of one round: median and quartiles
    double second_predicted_seconds;     // of a step, by the operator times of the first schedule's steps alone
} ckm_timing;

// Times steps by two schedules in turns, both in one process and on the same data, and compares turn with turn, so that
// a machine that is slow for a while does not favour either. Holds both sessions' regions at once. Errors: those of
// ckm_session_create and of the back end.
CKM_API ckm_status ckm_session_time(ckm_program *program, const ckm_dataflow *df, const ckm_session_side *first,
                                    const ckm_session_side *second, const ckm_timing_options *options, ckm_timing *out,
                                    ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
