// SPDX-License-Identifier: Apache-2.0
// Several processes, internal view: what all of them do together, and the exchange of gradients within a step.
#ifndef CKM_SRC_RUN_RANKS_RANKS_H
#define CKM_SRC_RUN_RANKS_RANKS_H

#include <checkmate/ranks.h>

#include "run/backend/backend.h"

enum { CKM_I_CHANNEL_CONTROL, CKM_I_CHANNEL_PARTIAL, CKM_I_CHANNEL_TOTAL, CKM_I_CHANNEL_STATE };

// Yields the processor, for longer with each call in a row; `waited` counts these, from 0.
void ckm_i_ranks_pause(int64_t *waited);
// `bytes` bytes of every rank, one after the other, on all of them.
ckm_status ckm_i_ranks_gather(const ckm_ranks *ranks, const void *mine, int64_t bytes, void *all,
                              ckm_error *err) CKM_NODISCARD;
// What rank 0 has, on all.
ckm_status ckm_i_ranks_broadcast(const ckm_ranks *ranks, void *data, int64_t bytes, ckm_error *err) CKM_NODISCARD;
// The largest of all.
ckm_status ckm_i_ranks_most(const ckm_ranks *ranks, int64_t *value, ckm_error *err) CKM_NODISCARD;
// Fails on every rank, naming the first whose value is not that of rank 0: "rank 2 <what> than rank 0".
ckm_status ckm_i_ranks_same(const ckm_ranks *ranks, uint64_t value, const char *what, ckm_error *err) CKM_NODISCARD;

// For steps that exchange `n_gradients` gradients of at most `most` elements; `ranks` must outlive it.
ckm_status ckm_i_exchange_create(const ckm_ranks *ranks, int32_t n_gradients, int64_t most, ckm_i_exchange **out,
                                 ckm_error *err) CKM_NODISCARD;
void ckm_i_exchange_free(ckm_i_exchange *x);
// Bytes that it takes.
int64_t ckm_i_exchange_bytes(int32_t n_gradients, int64_t most);

#endif
