// SPDX-License-Identifier: Apache-2.0
// Schedules: lists of steps that compute, free and move; the simulator, the independent verifier, and JSON.
#ifndef CHECKMATE_SCHEDULE_H
#define CHECKMATE_SCHEDULE_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>

#ifdef __cplusplus
extern "C" {
#endif

// The last four are transfers, of graphs with a second memory (docs/FORMATS.md). They begin a copy of a tensor's storage to that memory
// or back, and wait until it is done. `index` is a tensor with its own storage.
typedef enum ckm_step_kind {
    CKM_STEP_COMPUTE,
    CKM_STEP_FREE,
    CKM_STEP_OUT,
    CKM_STEP_IN,
    CKM_STEP_WAIT_OUT,
    CKM_STEP_WAIT_IN
} ckm_step_kind;

// compute: `index` is an operator; `inplace` the (input, output) pairs used, n_inplace of them.
// All others: `index` is a tensor.
typedef struct ckm_step {
    ckm_step_kind kind;
    int32_t index;
    int32_t n_inplace;
    const int32_t (*inplace)[2];
} ckm_step;

// Which schedules a bound covers (docs/FORMATS.md): nothing, all of them, all that keep the graph's
// first-execution order, or of those the frontier-advancing ones (each operator at most once a stage).
typedef enum ckm_bound_class { CKM_BOUND_NONE, CKM_BOUND_ANY, CKM_BOUND_ORDER, CKM_BOUND_FRONTIER } ckm_bound_class;

typedef struct ckm_schedule ckm_schedule;

// What is known of a schedule in addition to its steps; all of it is written to and read from JSON. Unknown values are -1, an
// unknown bound NaN. Begin with a copy of ckm_schedule_get_info, where nothing is known yet, rather than with zeros, which are values.
typedef struct ckm_schedule_info {
    char graph[128];
    char strategy[64];
    int64_t budget_bytes, cost, baseline_cost, peak_bytes;
    double bound_cost;  // proven lower bound on the cost; NaN when there is none
    ckm_bound_class bound_covers;
    bool optimal;  // status: optimal or feasible
    double seconds;
} ckm_schedule_info;

CKM_API ckm_status ckm_schedule_create(ckm_schedule **out, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_schedule_free(ckm_schedule *s);
// Appends a step; `step->inplace` is copied. Indices are not checked here: the verifier does that.
CKM_API ckm_status ckm_schedule_append(ckm_schedule *s, const ckm_step *step, ckm_error *err) CKM_NODISCARD;
CKM_API int64_t ckm_schedule_step_count(const ckm_schedule *s);
// How many of the steps are transfers or wait for one.
CKM_API int64_t ckm_schedule_transfer_count(const ckm_schedule *s);
CKM_API ckm_step ckm_schedule_get_step(const ckm_schedule *s, int64_t i);
CKM_API const ckm_schedule_info *ckm_schedule_get_info(const ckm_schedule *s);
CKM_API void ckm_schedule_set_info(ckm_schedule *s, const ckm_schedule_info *info);

// The schedule without rematerialization: every operator once in order, each tensor freed after its last
// use (so its peak is the least that order allows). O(operators + edges).
CKM_API ckm_status ckm_schedule_baseline(const ckm_dataflow *df, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

// Simulator. The cost of a schedule with transfers is its makespan: computation overlaps with one transfer each way at a time. Of
// others it is the sum over the operators computed. `timeline_bytes`, when not NULL, has room for one int64_t a step and receives
// the bytes in use while the step runs (after it, for others than compute).
typedef struct ckm_simulation {
    int64_t cost, peak_bytes;
    int64_t peak_step;          // the first step at which the peak is reached
    int64_t end_bytes;          // in use after the last step
    int64_t second_peak_bytes;  // of the second memory: the most that copies take there
} ckm_simulation;
// Fails with CKM_ERR_FORMAT on an illegal schedule, naming the step. O(steps + operands).
CKM_API ckm_status ckm_schedule_simulate(const ckm_dataflow *df, const ckm_schedule *s, int64_t *timeline_bytes,
                                         ckm_simulation *out, ckm_error *err) CKM_NODISCARD;

// Verifier: an independent reading of the rules that shares no code with the simulator or any solver.
// An illegal schedule is a verdict, not an error; `why` is then one line naming step, operator, tensor.
typedef struct ckm_verdict {
    bool ok;                    // legal, and within the budget when one was given
    int64_t cost, peak_bytes;   // valid when the steps are legal, else -1
    int64_t second_peak_bytes;  // likewise
    char why[512];              // "" when ok
} ckm_verdict;
// `budget_bytes` < 0: no budget.
CKM_API ckm_status ckm_schedule_verify(const ckm_dataflow *df, const ckm_schedule *s, int64_t budget_bytes,
                                       ckm_verdict *out, ckm_error *err) CKM_NODISCARD;

// checkmate-schedule JSON, versions 1 and 2; a schedule without transfers is written as version 1.
CKM_API ckm_status ckm_schedule_read(const char *path, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_schedule_parse(const char *text, size_t size_bytes, const char *file_for_errors,
                                      ckm_schedule **out, ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_schedule_write(const ckm_schedule *s, const char *path, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
