// SPDX-License-Identifier: Apache-2.0
// Packing, shared by its files: placing buffers in an order, the skyline heuristic, annealing.
#ifndef CKM_SRC_PLAN_PACKER_H
#define CKM_SRC_PLAN_PACKER_H

#include "base/rng.h"
#include "plan/plan.h"

typedef enum ckm_i_fit { CKM_I_FIRST_FIT, CKM_I_BEST_FIT } ckm_i_fit;

// A placed buffer, as the scan for gaps needs it; kept in order of offset.
typedef struct ckm_i_placed {
    int64_t offset, top, first, last;
    int32_t buffer;
} ckm_i_placed;

typedef struct ckm_i_packer {
    ckm_i_plan_packing *p;
    const ckm_plan_options *options;
    int32_t n_placed;
    ckm_i_placed *placed;
    int64_t *offsets;       // of the current attempt, by buffer
    int64_t *best_offsets;  // of the best so far
    int64_t best_arena;
    int64_t goal;     // good enough
    double deadline;  // 0: none
} ckm_i_packer;

// Places the first `n` buffers of an order one after the other, each at the lowest offset (first fit) or into the
// tightest gap (best fit) that those before it leave free during its life. Gives the arena; -1, early, when it
// would be larger than `limit`.
int64_t ckm_i_pack_in_order(ckm_i_packer *k, const int32_t *order, int32_t n, ckm_i_fit how, int64_t limit);
// Keeps the current offsets, which are complete, when they are the best so far.
void ckm_i_pack_keep(ckm_i_packer *k, int64_t arena, const char *method);
// Whether to end: good enough, out of time, or stopped.
bool ckm_i_pack_is_over(const ckm_i_packer *k);

// The skyline heuristic (Sekiyama et al. 2018, for memory of neural networks): over time, the tops of what has been
// placed form a skyline; the lowest valley is filled with the buffer of the highest priority that lives within it, or,
// when none does, raised to its lower neighbour. Priorities are life and size to some powers; after a few fixed ones,
// random ones. Each result is then packed once more in order of offset. Runs `attempts` times at most.
ckm_status ckm_i_pack_skyline(ckm_i_packer *k, int64_t attempts, ckm_error *err) CKM_NODISCARD;

// Simulated annealing over the order of the `most` largest buffers, started from the best packing: moves one to another
// place, more often one at the top of the arena to an earlier place, and packs first fit. Small buffers are
// fitted in whenever the large ones do better than the best packing. At first a packing may become worse by `heat` of
// the lower bound, in the end by a thousandth of that.
ckm_status ckm_i_pack_anneal(ckm_i_packer *k, int32_t most, double heat, int64_t attempts,
                             ckm_error *err) CKM_NODISCARD;

#endif
