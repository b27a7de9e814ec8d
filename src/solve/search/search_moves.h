// SPDX-License-Identifier: Apache-2.0
// The moves of local search on a search state: single gaps, gaps with operands, and ejection chains.
#ifndef CKM_SRC_SOLVE_SEARCH_SEARCH_MOVES_H
#define CKM_SRC_SOLVE_SEARCH_SEARCH_MOVES_H

#include "base/rng.h"
#include "solve/search/search_state.h"

typedef struct ckm_i_mover {
    ckm_i_search *s;
    ckm_i_rng rng;
    int32_t *candidates;  // tensors that can be held
    int32_t n_candidates;
    int32_t *life_end;   // per tensor: the last stage of the first run that needs it
    double penalty;      // cost per byte of excess
    double temperature;  // of the acceptance test; 0: improvements only
    int64_t tried;       // states looked at so far: what the work is counted in
} ckm_i_mover;

ckm_status ckm_i_mover_create(ckm_i_search *s, uint64_t seed, ckm_i_mover *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_mover_dispose(ckm_i_mover *mover);
// Tries one random move, or one ejection chain, and keeps or takes back what it did.
void ckm_i_mover_step(ckm_i_mover *mover);

// Lets go of tensors at the highest stages, cheap ones first, until the budget is kept or nothing helps any more, or
// until a moment on ckm_i_clock_seconds, INFINITY for none.
void ckm_i_mover_repair(ckm_i_mover *mover, double deadline_seconds);
// What memory costs to begin with: the median, over a few gaps at stages over the budget, of the cost per byte of
// excess less when one is let go of. 0 when nothing exceeds the budget or nothing drawn helps.
double ckm_i_mover_price(ckm_i_mover *mover);

#endif
