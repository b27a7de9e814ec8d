// SPDX-License-Identifier: Apache-2.0
// The largest batch that trains in a given memory at a given extra cost (Checkmate paper, section 6.4).
#ifndef CHECKMATE_MAX_BATCH_H
#define CHECKMATE_MAX_BATCH_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>
#include <checkmate/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

// What has to fit into the memory.
typedef enum ckm_accounting {
    CKM_ACCOUNTING_NORMAL,  // peak, fixed bytes included, <= memory
    CKM_ACCOUNTING_PAPER    // the same, but strategies with CKM_STRATEGY_PUBLISHED must have
                            // peak, fixed bytes included, <= memory - fixed bytes: the rule by which the
                            // paper's artifact judged them, kept to reproduce its figures
} ckm_accounting;

// Builds the dataflow graph of the network for `batch` samples. The graph's operators and tensors must be
// the same for every batch; bytes and costs must not shrink as the batch grows. CKM_ERR_OVERFLOW counts as
// "this batch does not fit"; every other error ends the search.
typedef ckm_status (*ckm_max_batch_build_fn)(int64_t batch, void *user, ckm_dataflow **out, ckm_error *err);

// One batch was tried: with what outcome, and what is known since then (best_batch 0: none fits yet).
typedef void (*ckm_max_batch_trial_fn)(int64_t batch, ckm_solve_status outcome, int64_t best_batch, int64_t upper_bound,
                                       double seconds, void *user);

typedef struct ckm_max_batch_options {
    size_t size;           // set by CKM_MAX_BATCH_OPTIONS_INIT
    int64_t memory_bytes;  // to be set
    double compute_limit;  // cost allowed, as a factor of one run without rematerialization (>= 1);
                           // 0: one extra forward pass, all costs + the costs of forward operators
    ckm_accounting accounting;
    int64_t batch_min, batch_step;  // the batches considered: batch_min + k * batch_step; each 0: 1
    // Strategy, limits, callbacks; NULL: all defaults. The time limit is for the whole search, which sets
    // budget_bytes and cost_limit.
    const ckm_solve_options *solve;
    ckm_max_batch_trial_fn trial;  // may be NULL
    void *user;                    // passed to the builder and to `trial`
} ckm_max_batch_options;
#define CKM_MAX_BATCH_OPTIONS_INIT CKM_SIZED(ckm_max_batch_options)

typedef struct ckm_max_batch_result {
    ckm_solve_status status;                  // optimal: max_batch is upper_bound; infeasible: proven that not even
                                              // batch_min has a schedule of the class `bound_covers` that fits memory
                                              // and cost; unknown: none found within the limits
    int64_t max_batch;                        // 0: none found
    int64_t upper_bound;                      // no larger batch has one; 0 when none does
    ckm_bound_class bound_covers;             // the class of schedules that these two are about
    ckm_schedule *schedule;                   // for max_batch, verified; NULL when none was found
    int64_t cost, baseline_cost, peak_bytes;  // of that schedule; -1 without one
    double seconds;
} ckm_max_batch_result;

// Finds the largest batch on the grid for which the strategy gives a schedule that fits memory and cost.
// The memory floor bounds it from above; in between the search bisects, and every schedule found is first
// stretched to the largest batch at which it still fits, because its steps do not depend on the batch.
// When trials ran out of time, further rounds start from the best and give each trial twice the time. When
// none did, the eight batches above the best are tried one by one, so that a heuristic whose choices jump
// with the batch is not cut short. `result` is filled on CKM_OK; release with
// ckm_max_batch_result_dispose. Errors: CKM_ERR_ARGUMENT, CKM_ERR_NOT_FOUND (unknown strategy), the
// builder's.
CKM_API ckm_status ckm_max_batch(const ckm_max_batch_options *options, ckm_max_batch_build_fn build,
                                 ckm_max_batch_result *result, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_max_batch_result_dispose(ckm_max_batch_result *result);

#ifdef __cplusplus
}
#endif
#endif
