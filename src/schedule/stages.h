// SPDX-License-Identifier: Apache-2.0
// Frontier-advancing schedules as the matrices of the Checkmate paper (section 4.2), generalised to
// operators with several outputs, views, in-place pairs and workspace.
//
// There is one stage per operator; stage t ends with the first computation of operator t.
//   R[t][v]  operator v is computed in stage t (v <= t; R[t][t] = 1)
//   S[t][x]  tensor x is held from stage t-1 into stage t, t = 0..n; row n holds what is live at the end
// Within a stage operators run in ascending order and a tensor is freed at once when no later operator of
// the stage reads it and S[t+1] does not hold it; that is never worse than freeing it later. In-place pairs
// are used wherever they are allowed. Inputs and tensors on an input's storage are always live and have no
// bits in S.
#ifndef CKM_SRC_SCHEDULE_STAGES_H
#define CKM_SRC_SCHEDULE_STAGES_H

#include <checkmate/schedule.h>

#include "base/bitset.h"
#include "dataflow/dataflow.h"

typedef struct ckm_i_stages {
    const ckm_dataflow *df;
    int32_t n_ops, n_tensors;
    size_t s_words, r_words;  // uint64_t words in a row
    uint64_t *s;              // (n_ops + 1) rows of n_tensors bits
    uint64_t *r;              // n_ops rows of n_ops bits
} ckm_i_stages;

static inline uint64_t *ckm_i_stages_s(const ckm_i_stages *st, int32_t t)
{
    return st->s + (size_t)t * st->s_words;
}

static inline uint64_t *ckm_i_stages_r(const ckm_i_stages *st, int32_t t)
{
    return st->r + (size_t)t * st->r_words;
}

// All zero. Memory: n_ops * (n_tensors + n_ops) / 8 bytes.
ckm_status ckm_i_stages_create(const ckm_dataflow *df, ckm_i_stages **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_stages_free(ckm_i_stages *st);
ckm_status ckm_i_stages_copy(const ckm_i_stages *from, ckm_i_stages *to, ckm_error *err) CKM_NODISCARD;

// Given any S, makes it legal and sets R to its closed form (paper, section 4.7 / appendix: the least
// recomputation for that S): drops bits that cannot be held (x not yet produced by stage t-1), sets row n
// to the results, computes in each stage the frontier and what S newly holds, and what those need, backwards
// over operands that are not held. Outputs of non-recomputable operators are held as long as anything
// computed later reads them. Finally drops bits of S that no computation and no later row uses.
// O(n_ops * edges / 64 + set bits * fan).
ckm_status ckm_i_stages_complete(ckm_i_stages *st, ckm_error *err) CKM_NODISCARD;

// Cost of R: sum of c_v over set bits; saturates at INT64_MAX.
int64_t ckm_i_stages_cost(const ckm_i_stages *st);
// Peak bytes of the schedule that completed matrices stand for; O(sum of operands over computed operators).
ckm_status ckm_i_stages_peak(const ckm_i_stages *st, int64_t *peak_bytes, ckm_error *err) CKM_NODISCARD;
// The list of steps.
ckm_status ckm_i_stages_emit(const ckm_i_stages *st, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

// One stage at a time. Given rows t and t+1 of S, a stage's cost and peak depend on nothing else, which is
// what makes local search on S fast.
typedef struct ckm_i_walk ckm_i_walk;
ckm_status ckm_i_walk_create(const ckm_dataflow *df, ckm_i_walk **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_walk_free(ckm_i_walk *walk);
// Closed form of R for stage t: writes the row `r` and returns its cost (saturating). Operands that only a
// non-recomputable operator of an earlier stage could provide are set in s_t.
int64_t ckm_i_walk_close(ckm_i_walk *walk, int32_t t, uint64_t *s_t, const uint64_t *s_next, uint64_t *r);
// Clears the bits of s_t that neither an operator of stage t nor s_next needs.
void ckm_i_walk_trim(ckm_i_walk *walk, int32_t t, uint64_t *s_t, const uint64_t *s_next, const uint64_t *r);
// Bytes of the storages that row s_t holds.
int64_t ckm_i_walk_held(const ckm_i_walk *walk, const uint64_t *s_t);
// Peak bytes of stage t for closed rows, given what s_t holds: only what the stage computes is looked at.
int64_t ckm_i_walk_peak(ckm_i_walk *walk, int32_t t, int64_t held_bytes, const uint64_t *s_t, const uint64_t *s_next,
                        const uint64_t *r);

#endif
