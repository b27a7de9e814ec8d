// SPDX-License-Identifier: Apache-2.0
// Schedule, internal view.
#ifndef CKM_SRC_SCHEDULE_SCHEDULE_H
#define CKM_SRC_SCHEDULE_SCHEDULE_H

#include <checkmate/schedule.h>

typedef struct ckm_i_step {
    int32_t index;
    int32_t n_inplace;
    int64_t inplace_at;  // first pair in the pool
    ckm_step_kind kind;
} ckm_i_step;

struct ckm_schedule {
    ckm_schedule_info info;
    int64_t n_steps, cap_steps, n_pairs, cap_pairs, n_transfers;
    ckm_i_step *steps;
    int32_t (*pairs)[2];
};

// A copy of the steps, without what is said about them.
ckm_status ckm_i_schedule_copy(const ckm_schedule *s, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

// ckm_schedule_simulate for candidates whose cost may exceed 63 bits: it is then INT64_MAX, which no solver accepts.
ckm_status ckm_i_schedule_try(const ckm_dataflow *df, const ckm_schedule *s, int64_t *timeline_bytes,
                              ckm_simulation *out, ckm_error *err) CKM_NODISCARD;

#endif
