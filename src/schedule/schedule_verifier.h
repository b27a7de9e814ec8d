// SPDX-License-Identifier: Apache-2.0
// The verifier's own view of a schedule, shared by its files only.
#ifndef CKM_SRC_SCHEDULE_SCHEDULE_VERIFIER_H
#define CKM_SRC_SCHEDULE_SCHEDULE_VERIFIER_H

#include <checkmate/schedule.h>

#include "base/checked.h"

#define ABSENT INT64_C(-1)

// Tensors of storage `storage` keep it occupied in steps first..last, both included.
typedef struct ckm_i_interval {
    int32_t storage;
    int64_t first, last;
} ckm_i_interval;

// Transfers. By storage owner: the step of its way out, or ABSENT; the step at which that was waited for, or ABSENT; the step of the way
// back that has not been waited for, or ABSENT; the step of the last wait for a way back, or ABSENT. By tensor: it existed when
// its storage was moved out. All NULL without transfers.
typedef struct ckm_i_verify_links {
    int64_t *out_at, *out_over, *in_at, *last_back;
    bool *travels;
    ckm_i_wide *ends;  // by storage owner: when the transfer under way is over; only while times are worked out
} ckm_i_verify_links;

typedef struct ckm_i_verifier {
    const ckm_dataflow *df;
    const ckm_schedule *s;
    int32_t n_ops, n_tensors;
    int64_t n_steps;
    int32_t *owner;       // by tensor: the tensor whose storage it lives in
    bool *is_input;       // by tensor: no operator produces it
    int32_t *members_at;  // by owner: where its tensors start in `members`
    int32_t *members;
    int64_t *since;           // by tensor: the step its memory is occupied from, or ABSENT while it is dead
    int64_t *times_computed;  // by operator
    int64_t n_intervals, cap_intervals;
    ckm_i_interval *intervals;
    int64_t *bytes_at;  // by step
    ckm_i_verify_links links;
    char *why;  // of the verdict; "" as long as nothing is wrong
} ckm_i_verifier;

// Records the complaint; false, for `return ckm_i_verify_complain(...)`.
bool ckm_i_verify_complain(const ckm_i_verifier *vf, const char *format, ...) CKM_PRINTF(2, 3);
const char *ckm_i_verify_name(const ckm_i_verifier *vf, int32_t tensor);
// `storage` is occupied from step `first` to step `last`.
ckm_status ckm_i_verify_occupy(ckm_i_verifier *vf, int32_t storage, int64_t first, int64_t last,
                               ckm_error *err) CKM_NODISCARD;

// The rules of transfers (schedule_verify_links.c). Does nothing where the schedule has none.
ckm_status ckm_i_verify_links_start(ckm_i_verifier *vf, ckm_error *err) CKM_NODISCARD;
void ckm_i_verify_links_dispose(ckm_i_verifier *vf);
// Whether step `at`, which begins a transfer or waits for one, is allowed; and what it does.
bool ckm_i_verify_transfer_is_legal(const ckm_i_verifier *vf, int64_t at, const ckm_step *step);
ckm_status ckm_i_verify_follow_transfer(ckm_i_verifier *vf, int64_t at, const ckm_step *step,
                                        ckm_error *err) CKM_NODISCARD;
// Whether nothing is under way that uses the storage: it may be written and given up.
bool ckm_i_verify_at_rest(const ckm_i_verifier *vf, int32_t storage);
// The time that all steps take, and the most that copies take in the second memory; false with a complaint.
bool ckm_i_verify_makespan(const ckm_i_verifier *vf, int64_t *cost);
bool ckm_i_verify_copies(const ckm_i_verifier *vf, int64_t *bytes_at, int64_t *peak);

#endif
