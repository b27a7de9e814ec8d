// SPDX-License-Identifier: Apache-2.0
// Whether a set of tensors fits a budget, by depth-first search over the moves of the reverse pebble game.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/floor/pebbling.h"

// Room for states, in slots: 128 MiB. A search that would need more stays open.
static const int64_t max_arena = INT64_C(1) << 25;

// Each state looked at costs this many units of work in addition to its slots.
enum { WORK_PER_STATE = 8 };

typedef enum outcome { FITS, REFUTED, PUSHED } outcome;

static void load(ckm_i_pebbling *p, const int32_t *slots, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        ckm_i_pebbling_add(p, slots[i]);
    }
}

static void unload(ckm_i_pebbling *p, const int32_t *slots, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (p->is_in[slots[i]]) {
            ckm_i_pebbling_remove(p, slots[i]);
        }
    }
}

// The next slot of another operator.
static int32_t end_of_group(const ckm_i_pebbling *p, const int32_t *slots, int32_t n, int32_t i)
{
    int32_t v = p->op_of[slots[i]];
    while (i < n && p->op_of[slots[i]] == v) {
        i++;
    }
    return i;
}

static bool runs_once_below(const ckm_i_pebbling *p, int32_t v)
{
    return p->ancestors != NULL && ckm_i_pebbling_shares_single_run(p, v, v);
}

// Whether v can be computed from nothing while the rest of the set at hand stays: what it takes alone fits with it,
// and no operator that runs only once would have to run for both.
static bool fits_alone(const ckm_i_pebbling *p, int32_t v, const int32_t *slots, int32_t n, int64_t budget_bytes)
{
    if (p->high_bytes[v] > budget_bytes - p->bytes) {
        return false;
    }
    if (!runs_once_below(p, v)) {
        return true;
    }
    for (int32_t i = 0; i < n; i++) {
        if (p->is_in[slots[i]] && ckm_i_pebbling_shares_single_run(p, v, p->op_of[slots[i]])) {
            return false;
        }
    }
    return true;
}

// Drops from the set at hand whatever can be computed last, from nothing, while the rest is held. Dropping members never makes
// a set harder, so what is refuted of the rest is refuted of the whole.
int32_t ckm_i_pebbling_drop(ckm_i_pebbling *p, int32_t *slots, int32_t n, int64_t budget_bytes)
{
    bool changed = true;
    while (changed && n > 0) {
        changed = false;
        int32_t kept = 0;
        for (int32_t i = 0; i < n;) {
            int32_t end = end_of_group(p, slots, n, i);
            int32_t v = p->op_of[slots[i]];
            for (int32_t k = i; k < end; k++) {
                ckm_i_pebbling_remove(p, slots[k]);
            }
            bool drop = fits_alone(p, v, slots, n, budget_bytes);
            changed = changed || drop;
            for (int32_t k = i; k < end && !drop; k++) {
                ckm_i_pebbling_add(p, slots[k]);
            }
            i = end;
        }
        for (int32_t i = 0; i < n; i++) {
            if (p->is_in[slots[i]]) {
                slots[kept++] = slots[i];
            }
        }
        p->work += n;
        n = kept;
    }
    return n;
}

// Whether going back over v, which nothing in the set depends on, is a step that can only help: all that v needs takes
// no more room than those of its outputs that are in the set and share their storage with nothing else
// (docs/THEORY.md has the argument).
static bool shrinks(const ckm_i_pebbling *p, int32_t v)
{
    const ckm_dataflow *df = p->df;
    int64_t needed = 0;
    int64_t given = 0;
    for (int32_t i = p->needs_at[v]; i < p->needs_at[v + 1]; i++) {
        const ckm_i_dataflow_tensor *x = &df->tensors[p->tensor_of[p->needs[i]]];
        // A result that is made once stays for as long as v's outputs do.
        const bool stays = x->is_result && p->ancestors != NULL && !df->ops[x->producer].recomputable;
        needed += x->pinned || stays ? 0 : df->tensors[x->storage].bytes;
    }
    for (int32_t s = p->first_slot[v]; s < p->first_slot[v + 1]; s++) {
        int32_t x = p->tensor_of[s];
        given += p->is_in[s] && !p->shares_storage[x] ? df->tensors[x].bytes : 0;
    }
    return needed <= given;
}

static bool push_move(ckm_i_pebbling *p, int32_t op, int64_t peak_bytes, int64_t after_bytes)
{
    if (!CKM_I_GROW(p->moves, p->n_moves, p->cap_moves)) {
        return false;
    }
    p->moves[p->n_moves++] = (ckm_i_pebbling_move){op, peak_bytes, after_bytes};
    return true;
}

// Those that leave least in memory first; among equals, late operators first. There are few: insertion.
static void sort_by_size(ckm_i_pebbling_move *moves, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        ckm_i_pebbling_move move = moves[i];
        int32_t k = i;
        for (; k > 0 && moves[k - 1].after_bytes > move.after_bytes; k--) {
            moves[k] = moves[k - 1];
        }
        moves[k] = move;
    }
}

static int compare_groups(const void *a, const void *b)
{
    const ckm_i_pebbling_group *x = a;
    const ckm_i_pebbling_group *y = b;
    return (x->extra_bytes < y->extra_bytes) - (x->extra_bytes > y->extra_bytes);
}

// What v takes in addition to the set at hand, and at least in addition to any part of it: more of a part may be overwritten, which is
// room that the part does not have either, but for outputs whose storage others of the set share.
static int64_t extra_bytes_of(ckm_i_pebbling *p, int32_t v, const int32_t *slots, int32_t n)
{
    const ckm_i_dataflow_op *op = &p->df->ops[v];
    const int64_t peak = ckm_i_pebbling_go_back(p, v, slots, n);
    ckm_i_pebbling_undo(p);
    int64_t extra = peak == INT64_MAX ? 0 : peak - p->df->resident_bytes - p->bytes;
    for (int32_t k = 0; k < op->n_inplace && extra > 0; k++) {
        const int32_t to = op->inplace[k][1];
        extra -= p->shares_storage[to] ? p->df->tensors[to].bytes : 0;
    }
    return extra > 0 ? extra : 0;
}

int64_t ckm_i_pebbling_held(ckm_i_pebbling *p, const int32_t *slots, int32_t n)
{
    int32_t n_groups = 0;
    int64_t most = 0;
    load(p, slots, n);
    for (int32_t i = 0; i < n;) {
        const int32_t first = i;
        const int32_t v = p->op_of[slots[i]];
        i = end_of_group(p, slots, n, i);
        p->groups[n_groups++] = (ckm_i_pebbling_group){extra_bytes_of(p, v, slots, n), first, i};
    }
    unload(p, slots, n);
    qsort(p->groups, (size_t)n_groups, sizeof *p->groups, compare_groups);
    for (int32_t g = 0; g < n_groups; g++) {
        load(p, slots + p->groups[g].first, p->groups[g].end - p->groups[g].first);
        const int64_t least = p->df->resident_bytes + p->bytes + p->groups[g].extra_bytes;
        most = least > most ? least : most;
    }
    unload(p, slots, n);
    p->work += n;
    return most;
}

// The moves from the set at hand within the budget, those of late operators first, or those that leave least in memory.
// One that can only help is the only.
static bool push_moves(ckm_i_pebbling *p, const int32_t *slots, int32_t n, int64_t budget_bytes,
                       ckm_i_pebbling_frame *frame)
{
    int32_t last = n > 0 ? p->op_of[slots[n - 1]] : -1;
    for (int32_t i = n; i > 0;) {
        int32_t v = p->op_of[slots[i - 1]];
        int64_t peak = ckm_i_pebbling_go_back(p, v, slots, n);
        bool grows = p->n_added > 0;
        int64_t after_bytes = p->bytes;
        p->work += p->n_added + p->n_removed;
        ckm_i_pebbling_undo(p);
        while (i > 0 && p->op_of[slots[i - 1]] == v) {
            i--;
        }
        if (peak > budget_bytes) {
            frame->key_bytes = peak < frame->key_bytes ? peak : frame->key_bytes;
            continue;
        }
        frame->forced = !grows || (v == last && shrinks(p, v));
        if (frame->forced) {
            p->n_moves = frame->first_move;
            frame->key_bytes = INT64_MAX;
        }
        if (!push_move(p, v, peak, after_bytes)) {
            return false;
        }
        if (frame->forced) {
            break;
        }
    }
    frame->n_moves = (int32_t)(p->n_moves - frame->first_move);
    if (p->small_first && frame->n_moves > 1) {
        sort_by_size(p->moves + frame->first_move, frame->n_moves);
    }
    return true;
}

// Looks at a state: decided at once, or its moves are pushed.
static ckm_status visit(ckm_i_pebbling *p, int32_t state, int64_t budget_bytes, outcome *out, int64_t *key_bytes,
                        ckm_error *err)
{
    const ckm_i_pebbling_state *s = &p->states[state];
    int32_t n = s->n;
    *key_bytes = s->low_bytes;
    if (s->low_bytes > budget_bytes || s->high_bytes <= budget_bytes) {
        *out = s->low_bytes > budget_bytes ? REFUTED : FITS;
        return CKM_OK;
    }
    int32_t *slots = p->slots;
    if (n > 0) {
        memcpy(slots, p->arena + s->at, (size_t)n * sizeof *slots);
    }
    p->work += n + WORK_PER_STATE;
    for (int32_t i = 0; i < n; i++) {
        int64_t low = p->low_bytes[p->op_of[slots[i]]];
        *key_bytes = low > *key_bytes ? low : *key_bytes;
    }
    if (*key_bytes > budget_bytes) {
        p->states[state].low_bytes = *key_bytes;
        *out = REFUTED;
        return CKM_OK;
    }
    load(p, slots, n);
    n = ckm_i_pebbling_drop(p, slots, n, budget_bytes);
    if (n == 0) {
        ckm_i_pebbling_note(p, state, budget_bytes, -1, -1);
        *out = FITS;
        return CKM_OK;
    }
    ckm_status status = CKM_OK;
    ckm_i_pebbling_frame frame = {.from = state, .first_move = p->n_moves, .key_bytes = INT64_MAX};
    CKM_I_TRY(ckm_i_pebbling_intern(p, slots, n, &frame.state, err));
    if (!CKM_I_GROW(p->frames, p->n_frames, p->cap_frames) || !push_moves(p, slots, n, budget_bytes, &frame)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    p->frames[p->n_frames++] = frame;
    *out = PUSHED;
cleanup:
    unload(p, slots, n);
    return status;
}

// A frame that was just pushed may be of a state that is decided already.
static outcome recall(ckm_i_pebbling *p, int64_t budget_bytes, int64_t *key_bytes)
{
    const ckm_i_pebbling_frame *frame = &p->frames[p->n_frames - 1];
    const ckm_i_pebbling_state *s = &p->states[frame->state];
    if (s->high_bytes <= budget_bytes) {
        return FITS;
    }
    if (s->low_bytes > budget_bytes) {
        *key_bytes = s->low_bytes;
        p->n_moves = frame->first_move;
        p->n_frames--;
        return REFUTED;
    }
    return PUSHED;
}

// The state that the frame's next move leads to.
static ckm_status take_move(ckm_i_pebbling *p, ckm_i_pebbling_frame *frame, int32_t *to, ckm_error *err)
{
    const ckm_i_pebbling_state *s = &p->states[frame->state];
    const int32_t *slots = p->arena + s->at;
    int32_t n = s->n;
    load(p, slots, n);
    (void)ckm_i_pebbling_go_back(p, p->moves[frame->first_move + frame->next].op, slots, n);
    int32_t count = ckm_i_pebbling_members(p, slots, n, p->child);
    ckm_i_pebbling_undo(p);
    unload(p, slots, n);
    p->work += n + count;
    frame->next++;
    return ckm_i_pebbling_intern(p, p->child, count, to, err);
}

// The frame's last move was refuted: it needs at least key_bytes, and its own peak.
static void note_refuted(ckm_i_pebbling *p, int64_t key_bytes)
{
    ckm_i_pebbling_frame *frame = &p->frames[p->n_frames - 1];
    int64_t peak = p->moves[frame->first_move + frame->next - 1].peak_bytes;
    // A forced move leads to a set that the frame's own cannot do better than; its peak says nothing of other moves.
    int64_t key = frame->forced || key_bytes > peak ? key_bytes : peak;
    frame->key_bytes = key < frame->key_bytes ? key : frame->key_bytes;
}

void ckm_i_pebbling_note(ckm_i_pebbling *p, int32_t state, int64_t budget_bytes, int32_t via, int32_t to)
{
    ckm_i_pebbling_state *s = &p->states[state];
    if (budget_bytes < s->high_bytes) {
        s->high_bytes = budget_bytes;
        s->via = via;
        s->to = to;
    }
}

// What the frames have come by fits. A frame that was just pushed is of a state that is known to fit.
static void note_path(ckm_i_pebbling *p, int64_t budget_bytes)
{
    for (int64_t i = 0; i < p->n_frames; i++) {
        const ckm_i_pebbling_frame *frame = &p->frames[i];
        if (frame->next > 0) {
            int32_t op = p->moves[frame->first_move + frame->next - 1].op;
            ckm_i_pebbling_note(p, frame->state, budget_bytes, op, frame->to);
        }
        if (frame->from != frame->state) {
            ckm_i_pebbling_note(p, frame->from, budget_bytes, -1, frame->state);
        }
    }
}

// One depth-first search.
static ckm_status decide(ckm_i_pebbling *p, int32_t state, int64_t budget_bytes, int64_t limit,
                         ckm_i_pebbling_answer *answer, int64_t *key_bytes, ckm_error *err)
{
    int64_t end = p->work + limit;
    outcome last = PUSHED;
    p->n_frames = 0;
    p->n_moves = 0;
    CKM_I_CHECK(visit(p, state, budget_bytes, &last, key_bytes, err));
    while (p->n_frames > 0 && last != FITS) {
        if (p->work > end || p->n_arena > max_arena) {
            *answer = CKM_I_PEBBLING_OPEN;
            return CKM_OK;
        }
        if (last == PUSHED) {
            last = recall(p, budget_bytes, key_bytes);
            if (last != PUSHED) {
                continue;
            }
        } else if (p->frames[p->n_frames - 1].next > 0) {
            note_refuted(p, *key_bytes);
        }
        ckm_i_pebbling_frame *frame = &p->frames[p->n_frames - 1];
        if (frame->next == frame->n_moves) {
            p->states[frame->state].low_bytes = frame->key_bytes;
            *key_bytes = frame->key_bytes;
            p->n_moves = frame->first_move;
            p->n_frames--;
            last = REFUTED;
            continue;
        }
        int32_t to = -1;
        CKM_I_CHECK(take_move(p, frame, &to, err));
        frame->to = to;
        CKM_I_CHECK(visit(p, to, budget_bytes, &last, key_bytes, err));
    }
    if (last == FITS) {
        note_path(p, budget_bytes);
    }
    if (last == REFUTED && *key_bytes > p->states[state].low_bytes) {
        p->states[state].low_bytes = *key_bytes;
    }
    *answer = last == FITS ? CKM_I_PEBBLING_FITS : CKM_I_PEBBLING_REFUTED;
    return CKM_OK;
}

// Neither order of the moves finds what the other does: where the first gives up, the second goes on from what it learnt.
ckm_status ckm_i_pebbling_decide(ckm_i_pebbling *p, int32_t state, int64_t budget_bytes, int64_t limit,
                                 ckm_i_pebbling_answer *answer, int64_t *key_bytes, ckm_error *err)
{
    p->small_first = true;
    CKM_I_CHECK(decide(p, state, budget_bytes, limit / 2, answer, key_bytes, err));
    if (*answer == CKM_I_PEBBLING_OPEN) {
        p->small_first = false;
        CKM_I_CHECK(decide(p, state, budget_bytes, limit - limit / 2, answer, key_bytes, err));
    }
    return CKM_OK;
}
