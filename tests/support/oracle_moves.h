// SPDX-License-Identifier: Apache-2.0
// Schedules that move tensors to a second memory and back: the rules once more, over sets of tensors, as plainly as possible; random
// schedules; and exact optima of very small graphs by searching all states.
#ifndef CKM_TESTS_ORACLE_MOVES_H
#define CKM_TESTS_ORACLE_MOVES_H

#include "oracle_brute.h"

// What is where, between two steps. Sets are of tensors; of `stored` to `coming`, of storages' owners.
typedef struct oracle_place {
    oracle_set live, travels, stored, leaving, coming;
    uint32_t computed;  // operators
    int64_t now, out_link, in_link, done[ORACLE_MAX_TENSORS];
} oracle_place;

// Nothing has run.
oracle_place oracle_moves_start(const oracle_graph *g);
// Runs a step; false when it is illegal. *bytes: in use while it runs. What the second memory holds is not looked at.
bool oracle_moves_step(const oracle_graph *g, const ckm_second_memory *second, oracle_place *place,
                       const ckm_step *step, int64_t *bytes);
bool oracle_moves_is_end(const oracle_graph *g, const oracle_place *place);
// Goes through a schedule. False when it is illegal; otherwise its figures.
bool oracle_moves_replay(const oracle_graph *g, const ckm_second_memory *second, const ckm_schedule *s,
                         ckm_simulation *figures);
// Loads, where operators allow, in a part of the graphs.
void oracle_moves_add_loads(ckm_i_rng *rng, oracle_graph *g);
// A legal schedule with transfers, or NULL where its walk came to no end. The caller frees it.
ckm_schedule *oracle_moves_random_schedule(ckm_i_rng *rng, const oracle_graph *g, const ckm_second_memory *second);
// The least time of any schedule within the budget, or of those whose first computations follow the graph's order, but for loads, with a
// second memory without limit; -1 when none fits, -2 when there are too many states to tell.
int64_t oracle_moves_optimum(const oracle_graph *g, const ckm_second_memory *second, int64_t budget_bytes,
                             bool keeps_order);

#endif
