// SPDX-License-Identifier: Apache-2.0
// The state of the simulator, and its transfers.
#ifndef CKM_SRC_SCHEDULE_SCHEDULE_SIMULATION_H
#define CKM_SRC_SCHEDULE_SCHEDULE_SIMULATION_H

#include "dataflow/dataflow.h"
#include "schedule/schedule.h"

// The second memory and the two links to it; all arrays NULL where the schedule has no transfers. By storage owner, but for `moved`.
typedef struct ckm_i_simulation_links {
    bool *leaving, *coming;  // a transfer is under way that has not been waited for
    bool *stored;            // it can come back: it has been moved out, or is loaded
    bool *moved;             // by tensor: comes back with its storage, as it was live when that was moved out
    int64_t *done_at;        // when the transfer under way is done
    int64_t *last_in;        // the last step that brings it back, or -1: the copy lives until that has been waited for
    int32_t *members_at, *members;  // its tensors: from members_at[x] to members_at[x + 1]
    int64_t out_free_at, in_free_at;
    int64_t in_use, peak;  // bytes of the second memory
} ckm_i_simulation_links;

typedef struct ckm_i_simulation_state {
    bool takes_any_cost;  // INT64_MAX represents costs above 63 bits
    const ckm_dataflow *df;
    const ckm_schedule *s;
    int64_t step;    // the one being run
    int64_t in_use;  // bytes of all live storages plus fixed bytes
    // The peak starts as 0 bytes at step 0: the first step of a legal schedule computes, there is nothing to free yet.
    int64_t cost, peak, peak_step;  // cost: the time so far, where there are transfers
    bool *live;                     // by tensor
    int32_t *tensors_in;            // by storage owner: live tensors in it
    bool *computed;                 // by operator
    int64_t *paired_at;             // by tensor: last step that used it in an in-place pair, or -1
    int64_t *taken_at;              // by storage owner: last step that took the storage over, or -1
    ckm_i_simulation_links links;
    ckm_error *err;
} ckm_i_simulation_state;

// Makes room for transfers; inputs are live already.
ckm_status ckm_i_simulation_start_links(ckm_i_simulation_state *sim) CKM_NODISCARD;
void ckm_i_simulation_end_links(ckm_i_simulation_state *sim);
// Runs a step that begins a transfer or waits for one.
ckm_status ckm_i_simulation_transfer(ckm_i_simulation_state *sim, const ckm_step *step) CKM_NODISCARD;
// A transfer under way forbids that its storage is written or goes. NULL where nothing does, else what is under way.
const char *ckm_i_simulation_busy(const ckm_i_simulation_state *sim, int32_t storage);
// Fails where a transfer has not been waited for in the end.
ckm_status ckm_i_simulation_check_links(const ckm_i_simulation_state *sim) CKM_NODISCARD;

#endif
