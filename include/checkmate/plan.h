// SPDX-License-Identifier: Apache-2.0
// Memory plans: where in one arena every buffer of a schedule lives, so that no two buffers in use at the same
// moment overlap. A plan turns the peak that a schedule promises into one block of memory of known size.
#ifndef CHECKMATE_PLAN_H
#define CHECKMATE_PLAN_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_plan ckm_plan;

typedef struct ckm_plan_options {
    size_t size;                // set by CKM_PLAN_OPTIONS_INIT
    int64_t alignment;          // a power of two; offsets and sizes are multiples of it; 0: 64
    int64_t target_bytes;       // stop improving once the arena is no larger; 0: at the lower bound
    int64_t iteration_limit;    // of the improvement; 0: a default that depends on the number of buffers
    double time_limit_seconds;  // wall time for improving; 0: no limit. With one, results may differ from run to run
    uint64_t seed;
    ckm_stop_fn stop;  // may be NULL; ends the improvement with the best plan so far
    void *user;        // passed to `stop`
} ckm_plan_options;
#define CKM_PLAN_OPTIONS_INIT CKM_SIZED(ckm_plan_options)

// One use of arena memory: a storage from its allocation to its death (a storage that is freed and computed
// again has several), or the workspace of one compute step. It occupies bytes offset .. offset + bytes - 1
// during steps first .. last of the schedule, both included. When a compute step hands a storage over in place,
// the output's instance begins in the step in which the input's ends, at the same offset and with the same
// buffer number; during that step the two are one. Instances of inputs, and of views of inputs, do not exist:
// inputs are resident.
typedef struct ckm_plan_instance {
    int32_t tensor;  // owner of the storage; -1 for workspace
    int32_t op;      // operator whose step allocates it; -1: a step that begins to bring it back from a second memory
    int32_t buffer;  // instances linked by in-place hand-over share a number
    int64_t first, last;
    int64_t bytes;   // as in the graph, not rounded
    int64_t offset;  // in the arena
} ckm_plan_instance;

typedef struct ckm_plan_info {
    int64_t arena_bytes;
    int64_t bound_bytes;      // the most that is in use at one step, sizes rounded up: no arena is smaller
    int64_t peak_bytes;       // of the schedule, resident bytes included, sizes as in the graph
    int64_t resident_bytes;   // inputs and fixed bytes: in use all the time, outside the arena
    int64_t workspace_bytes;  // the largest workspace of any step
    double fragmentation;     // arena_bytes / bound_bytes - 1
    char method[64];          // ordering and fit that gave the offsets
    int64_t iterations;       // of the improvement
    double seconds;
} ckm_plan_info;

// Lays out the buffers of a legal schedule. Several orders (by size, by life, by both, by start, by end) are placed first
// fit and best fit; what does not reach the lower bound is improved by the skyline heuristic with random priorities and
// by annealing (src/plan/packer.h). Same input, seed and iteration limit give the same plan. Placing n buffers once
// costs O(n * live buffers). Errors: CKM_ERR_FORMAT for an illegal schedule, CKM_ERR_ARGUMENT, CKM_ERR_OVERFLOW,
// CKM_ERR_MEMORY. The plan does not refer to graph or schedule afterwards.
CKM_API ckm_status ckm_plan_create(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan_options *options,
                                   ckm_plan **out, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_plan_free(ckm_plan *plan);

CKM_API const ckm_plan_info *ckm_plan_get_info(const ckm_plan *plan);
CKM_API int32_t ckm_plan_instance_count(const ckm_plan *plan);
CKM_API ckm_plan_instance ckm_plan_get_instance(const ckm_plan *plan, int32_t i);

// The instances that a compute step's operands live in: inputs and outputs in the operator's order, and its
// workspace; -1 for a resident operand and for no workspace. `step` is a position in the schedule. Each array
// may be NULL, else it has room for the operator's inputs or outputs. A step that begins a transfer has one operand, its storage: an
// input on the way out, an output on the way in. Other steps have none.
CKM_API void ckm_plan_get_step(const ckm_plan *plan, int64_t step, int32_t *inputs, int32_t *outputs,
                               int32_t *workspace);

// Checks a plan against graph and schedule, sharing no code with the planner: every storage has an instance for
// exactly the steps in which the schedule keeps it, operands are bound to those, hand-overs stay in place,
// offsets are aligned and within the arena, and no two buffers overlap in time and space. `alignment` as the plan
// was made with. A bad plan is a verdict, not an error. O(instances * live instances).
typedef struct ckm_plan_verdict {
    bool ok;
    int64_t arena_bytes;  // what the instances really reach up to; -1 when the plan is bad
    char why[512];        // "" when ok
} ckm_plan_verdict;
CKM_API ckm_status ckm_plan_verify(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan *plan,
                                   int64_t alignment, ckm_plan_verdict *out, ckm_error *err) CKM_NODISCARD;

// Writes the instances, one a row or object: JSON ("checkmate-plan", version 1) or, when the name ends in .csv, CSV.
// "-" is JSON on standard output.
CKM_API ckm_status ckm_plan_write(const ckm_dataflow *df, const ckm_plan *plan, const char *path,
                                  ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
