// SPDX-License-Identifier: Apache-2.0
// From a bare sequence of computations to a schedule.
#ifndef CKM_SRC_SCHEDULE_SCHEDULE_ORDER_H
#define CKM_SRC_SCHEDULE_SCHEDULE_ORDER_H

#include <checkmate/schedule.h>

// Completes a sequence of computations with frees and in-place pairs: every tensor is freed at once after its last use
// before it is computed again or the schedule ends, and a pair is used wherever that is allowed, those that save the
// most where they exclude each other. No schedule with this sequence of computations has a lower peak. Legality is the
// verifier's business. O(sum of operands and, per pair, the operator's operands).
ckm_status ckm_i_schedule_from_order(const ckm_dataflow *df, const int32_t *order, int64_t n_computes,
                                     ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

// The narrowest class that a legal schedule belongs to: frontier-advancing, in the graph's order, or neither. O(steps).
ckm_bound_class ckm_i_schedule_class(const ckm_dataflow *df, const ckm_schedule *s);

#endif
