// SPDX-License-Identifier: Apache-2.0
// Optimal checkpointing of a chain with a given number of slots: Griewank & Walther, "Algorithm 799: Revolve",
// ACM TOMS 26(1), 2000, on the articulation points of the forward graph.
//
// The chain: state -1 is the graph's inputs, always there; state k >= 0 is the output of cut k. Unit k is cut
// k and the forward operators up to the next cut; unit -1 those before cut 0. Unwinding unit k takes state k
// and one more run of what follows it in the unit. With l = n + 1 steps (states -1 .. n-1) and s slots, state
// -1 being in one of them, the least number of steps forward is t(l, s) = r l - beta(s+1, r-1), where
// beta(s, r) = C(s+r, s) and r is the number with beta(s, r-1) < l <= beta(s, r) (there, proposition 1).
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

struct ckm_i_griewank {
    const ckm_i_forward *fw;
    int32_t n;                           // states that take a slot
    int32_t *cut;                        // n + 1: their positions, then fw->n
    int32_t *unwind_start, *unwind_end;  // n + 1 each: first and last stage that unwinds unit k, at k + 1
};

// beta(s, r) = C(s+r, s) for s >= 0, or `cap` when it is more.
static int64_t beta(int32_t s, int32_t r, int64_t cap)
{
    int64_t value = 1;
    if (r < 0) {
        return 0;
    }
    int32_t few = s < r ? s : r;
    int32_t many = s < r ? r : s;
    for (int32_t i = 1; i <= few && value < cap; i++) {
        value = value * (many + i) / i;  // exact: C(many+i, i); below 2^63 as value < cap < 2^31
    }
    return value < cap ? value : cap;
}

// How far to advance before the next checkpoint when `l` >= 2 steps are to be reversed with s >= 2 slots, the
// current state being in one: both parts then need no more repetitions than the whole.
static int32_t split(int32_t l, int32_t s)
{
    int32_t r = 0;
    while (beta(s, r, l) < l) {
        r++;
    }
    int64_t most = beta(s, r - 1, l);
    int64_t rest = l - beta(s - 1, r - 1, l);
    int64_t k = most < rest ? most : rest;
    return k < 1 ? 1 : (int32_t)k;
}

// Keeps the candidates that no edge of the chain passes by.
static void keep_cuts(const ckm_i_forward *fw, const ckm_i_positions *candidates, ckm_i_griewank *gw)
{
    int32_t next = 0;
    int32_t reach = -1;  // last position that something before p is read at
    for (int32_t p = 0; p < fw->n; p++) {
        if (next < candidates->n && candidates->at[next] == p) {
            next++;
            if (reach <= p) {
                gw->cut[gw->n++] = p;
            }
        }
        const ckm_i_dataflow_op *op = &fw->df->ops[fw->ops[p]];
        for (int32_t i = 0; i < op->n_outputs; i++) {
            const ckm_i_dataflow_tensor *tensor = &fw->df->tensors[op->outputs[i]];
            for (int32_t k = tensor->n_users - 1; k >= 0; k--) {
                int32_t user = fw->position[tensor->users[k]];
                reach = user > reach ? user : reach;
            }
        }
    }
    gw->cut[gw->n] = fw->n;
}

// Position at which unit k starts, k = -1 .. n (n: behind the last).
static int32_t unit_start(const ckm_i_griewank *gw, int32_t k)
{
    return k < 0 ? 0 : gw->cut[k];
}

ckm_status ckm_i_griewank_create(const ckm_i_forward *fw, ckm_i_griewank **out, ckm_error *err)
{
    ckm_i_positions candidates = {0};
    ckm_i_griewank *gw = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_candidates_find(fw, CKM_I_CANDIDATES_ARTICULATION, &candidates, err));
    gw = ckm_i_calloc(1, sizeof *gw);
    if (gw == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    size_t room = (size_t)candidates.n + 1;
    gw->fw = fw;
    gw->cut = ckm_i_calloc(room, sizeof *gw->cut);
    gw->unwind_start = ckm_i_calloc(room, sizeof *gw->unwind_start);
    gw->unwind_end = ckm_i_calloc(room, sizeof *gw->unwind_end);
    if (gw->cut == NULL || gw->unwind_start == NULL || gw->unwind_end == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    keep_cuts(fw, &candidates, gw);
    for (int32_t k = -1; k < gw->n; k++) {
        int32_t last = k == gw->n - 1 ? fw->n : unit_start(gw, k + 1) - 1;
        gw->unwind_start[k + 1] = ckm_i_forward_first_stage(fw, last);
        gw->unwind_end[k + 1] = ckm_i_forward_last_stage(fw, unit_start(gw, k));
    }
    *out = gw;
    gw = NULL;
cleanup:
    ckm_i_griewank_free(gw);
    ckm_i_positions_dispose(&candidates);
    return status;
}

void ckm_i_griewank_free(ckm_i_griewank *gw)
{
    if (gw != NULL) {
        free(gw->cut);
        free(gw->unwind_start);
        free(gw->unwind_end);
        free(gw);
    }
}

int32_t ckm_i_griewank_states(const ckm_i_griewank *gw)
{
    return gw->n;
}

// State k stays until unit k - 1, which feeds it, is unwound.
static void hold_state(const ckm_i_griewank *gw, int32_t k, int32_t from, ckm_i_holds *holds)
{
    int32_t to = gw->unwind_end[k];
    if (gw->unwind_end[k + 1] >= 0) {
        to = to > gw->unwind_end[k + 1] + 1 ? to : gw->unwind_end[k + 1] + 1;
    }
    ckm_i_checkpoints_hold(holds, gw->fw->ops[gw->cut[k]], from, to);
}

// All of unit k is there while it is unwound; the last one since it was first computed.
static void hold_unit(const ckm_i_griewank *gw, int32_t k, ckm_i_holds *holds)
{
    int32_t from = k == gw->n - 1 ? 0 : gw->unwind_start[k + 1] + 1;
    if (k >= 0) {
        hold_state(gw, k, from, holds);
    }
    for (int32_t p = unit_start(gw, k) + (k >= 0); p < unit_start(gw, k + 1); p++) {
        ckm_i_checkpoints_hold(holds, gw->fw->ops[p], from, gw->unwind_end[k + 1] + 1);
    }
}

// The walk of Revolve: from stored state `low`, reach and unwind the states above it, last first.
static void unwind(const ckm_i_griewank *gw, int32_t slots, int32_t *stack, ckm_i_holds *holds)
{
    int32_t low = -1;
    int32_t high = gw->n - 1;
    int32_t depth = 0;  // stored states below `low`, in stack[]
    while (high >= 0 && !holds->too_many && !holds->failed) {
        if (high == low) {
            hold_unit(gw, high--, holds);
            low = stack[--depth];
        } else if (depth >= slots) {
            hold_unit(gw, high--, holds);
        } else {
            int32_t advance = split(high - low + 1, slots - depth + 1);
            stack[depth++] = low;
            low += advance;
            // On the first way up a state is kept from when it is first computed, later on from the stage in
            // which the next unit to be unwound needs it passed.
            hold_state(gw, low, high == gw->n - 1 ? 0 : gw->unwind_start[high + 1] + 1, holds);
        }
    }
    hold_unit(gw, -1, holds);
}

// The way forward keeps the unit being computed, and the units keep what feeds them.
static void hold_on_way_up(const ckm_i_griewank *gw, ckm_i_holds *holds)
{
    const ckm_i_forward *fw = gw->fw;
    for (int32_t k = -1; k < gw->n; k++) {
        int32_t end = unit_start(gw, k + 1);
        int32_t until = end < fw->n ? fw->ops[end] : fw->turn;
        for (int32_t p = unit_start(gw, k); p < end; p++) {
            ckm_i_checkpoints_hold(holds, fw->ops[p], 0, until);
        }
    }
}

ckm_status ckm_i_griewank_hold(const ckm_i_griewank *gw, int32_t slots, ckm_i_holds *holds, ckm_error *err)
{
    slots = slots < gw->n ? slots : gw->n;
    int32_t *stack = ckm_i_calloc((size_t)slots + 1, sizeof *stack);
    if (stack == NULL) {
        return ckm_i_error_memory(err);
    }
    hold_on_way_up(gw, holds);
    unwind(gw, slots, stack, holds);
    for (int32_t v = 0; v < holds->df->n_ops; v++) {
        if (gw->fw->position[v] < 0) {
            ckm_i_checkpoints_hold_while_used(holds, v);
        }
    }
    ckm_i_checkpoints_hold_results(holds);
    free(stack);
    return CKM_OK;
}

ckm_status ckm_i_griewank_stages(const ckm_i_griewank *gw, int32_t slots, ckm_i_stages *stages, ckm_error *err)
{
    ckm_i_holds holds = {.df = gw->fw->df, .stages = stages};
    return ckm_i_griewank_hold(gw, slots, &holds, err);
}
