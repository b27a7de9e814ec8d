// SPDX-License-Identifier: Apache-2.0
// What a process that runs engines shares with the one that waits for it; between milp_process.c and milp_helper.c.
#ifndef CKM_SRC_MILP_MILP_SHARED_H
#define CKM_SRC_MILP_MILP_SHARED_H

#include <stdatomic.h>
#include <sys/types.h>

#include "milp/milp.h"

typedef struct ckm_i_milp_shared {
    _Atomic bool complete;  // the answer is all there
    _Atomic bool ended;     // by the helper: the process is gone, with or without an answer
    ckm_i_milp_answer answer;
    double values[];  // x, then row duals
} ckm_i_milp_shared;

// In a new child, before anything else. `parent` is the process that has forked it; the child ends with that, and at once where it is
// gone by now.
void ckm_i_milp_settle_child(pid_t parent);
// In the child: the engines, the answer, the end.
_Noreturn void ckm_i_milp_run_child(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_shared *shared);

// One program at a time. Begin gives 0 or what went wrong, as errno has it, and where the answer will be until release.
int ckm_i_milp_helper_begin(ckm_i_milp_helper *helper, const ckm_i_milp *m, const ckm_i_milp_options *options,
                            ckm_i_milp_shared **shared);
bool ckm_i_milp_helper_is_done(ckm_i_milp_helper *helper);
void ckm_i_milp_helper_signal(ckm_i_milp_helper *helper, int number);
void ckm_i_milp_helper_release(ckm_i_milp_helper *helper);

#endif
