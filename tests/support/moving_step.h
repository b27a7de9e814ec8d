// SPDX-License-Identifier: Apache-2.0
// A network of the zoo ready to train by a schedule that moves all that can be to a file and back.
#ifndef CKM_TESTS_MOVING_STEP_H
#define CKM_TESTS_MOVING_STEP_H

#include "zoo_step.h"

typedef struct moving_step {
    zoo_step step;     // without moves
    ckm_dataflow *df;  // with a second memory of 1 GB/s
    ckm_schedule *schedule;
    ckm_plan *plan;
} moving_step;

// Batch 2 of side x side x 3, plain kernels; the file is to be in `folder`. NULL: the program has no second memory.
moving_step moving_step_of(const char *network, int64_t side, const char *folder);
void moving_step_dispose(moving_step *m);

#endif
