// SPDX-License-Identifier: Apache-2.0
// Brute force: exact optima of small graphs by searching all states (what has been computed, which tensors
// are live), with every free and every choice of in-place pairs tried. The rules are written down here once
// more, over sets of tensors, as plainly as possible.
#ifndef CKM_TESTS_ORACLE_BRUTE_H
#define CKM_TESTS_ORACLE_BRUTE_H

#include "oracle_random.h"

typedef enum oracle_class {
    ORACLE_ONCE,      // every operator once, in order: no rematerialization
    ORACLE_FRONTIER,  // per stage t a subset of 0..t-1 in ascending order, then t
    ORACLE_ORDER,     // anything whose first executions are in order
    ORACLE_ANY        // anything legal
} oracle_class;

// A set of tensors, inputs included.
typedef uint32_t oracle_set;

oracle_set oracle_inputs(const oracle_graph *g);

// Runs operator v with the pairs in the bit set `pairs` (positions in the operator's list) from `live`.
// False when that is illegal; the number of times v ran before is not looked at.
bool oracle_compute(const oracle_graph *g, oracle_set live, int32_t v, uint32_t pairs, int64_t *during_bytes,
                    oracle_set *after);

// Cost of the cheapest schedule of the class within the budget; -1 when none fits.
int64_t oracle_optimum(const oracle_graph *g, oracle_class which, int64_t budget_bytes);
// The smallest budget for which the class has a schedule.
int64_t oracle_least_peak(const oracle_graph *g, oracle_class which);

// Goes through a schedule by the rules above. False when it is illegal; otherwise its figures, and the
// narrowest class it belongs to. Any of the last three may be NULL.
bool oracle_replay(const oracle_graph *g, const ckm_schedule *s, int64_t *cost, int64_t *peak_bytes,
                   oracle_class *which);

#endif
