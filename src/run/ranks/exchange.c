// SPDX-License-Identifier: Apache-2.0
// Gradients of all ranks added up in the order of the ranks, ((g0 + g1) + g2) + ..., piece by piece around a ring:
//
//     rank 0 sends its piece to rank 1, which adds its own and sends the sum on, up to the last rank, which divides by the
//     number of ranks; the result goes from there to rank 0, 1, ... and the last but one.
//
// A rank's part in this is a row of up to four stages. Each takes the pieces in their order, and a piece may enter a stage
// when it has left the one before. Several pieces are in a stage at once, so all ranks and both directions work at the same
// time. Transfers progress between any two operators; there is no separate thread.
#include "run/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// Pieces that may be in a stage at once, elements of one, stages, and the slots before those of the stages.
enum { WINDOW = 4, PIECE = 32768, MOST_STAGES = 4, STATE_SLOT = 0, FIRST_SLOT = 1 };

typedef struct entry {
    float *values;
    int64_t n;
    int64_t end;  // pieces up to the end of this one
} entry;

// Where the next piece is.
typedef struct cursor {
    int32_t entry;
    int64_t at;     // in its values
    int64_t count;  // pieces before it
} cursor;

typedef struct stage {
    bool receives, adds;  // adds: into a buffer first, whose values are then added to those that are there
    int32_t peer, channel;
    cursor begun, done;
} stage;

typedef struct ring {
    ckm_i_exchange hooks;  // first: hooks are given this as their own
    const ckm_ranks *ranks;
    int32_t n_stages;
    stage stages[MOST_STAGES];
    int32_t n_entries, cap_entries;
    entry *entries;
    int64_t piece;
    float factor;  // of the last rank's sums
    float *buffer;
} ring;

static int64_t piece_of(int64_t most)
{
    return most < PIECE ? most : PIECE;
}

int64_t ckm_i_exchange_bytes(int32_t n_gradients, int64_t most)
{
    return (int64_t)sizeof(ring) + n_gradients * (int64_t)sizeof(entry) +
           WINDOW * piece_of(most) * (int64_t)sizeof(float);
}

static int64_t piece_length(const ring *r, const cursor *c)
{
    int64_t left = r->entries[c->entry].n - c->at;
    return left < r->piece ? left : r->piece;
}

static void step_on(const ring *r, cursor *c)
{
    c->at += piece_length(r, c);
    c->count++;
    if (c->at == r->entries[c->entry].n) {
        c->entry++;
        c->at = 0;
    }
}

static int32_t slot_of(int32_t s, const cursor *c)
{
    return FIRST_SLOT + s * WINDOW + (int32_t)(c->count % WINDOW);
}

static float *buffer_of(const ring *r, const cursor *c)
{
    return r->buffer + c->count % WINDOW * r->piece;
}

static ckm_status begin_piece(ring *r, int32_t s, ckm_error *err)
{
    stage *st = &r->stages[s];
    const ckm_ranks *ranks = r->ranks;
    const cursor c = st->begun;
    float *values = r->entries[c.entry].values + c.at;
    int64_t bytes = piece_length(r, &c) * (int64_t)sizeof(float);
    step_on(r, &st->begun);
    if (st->receives) {
        return ranks->receive(ranks->user, slot_of(s, &c), st->peer, st->channel, st->adds ? buffer_of(r, &c) : values,
                              bytes, err);
    }
    return ranks->send(ranks->user, slot_of(s, &c), st->peer, st->channel, values, bytes, err);
}

// The sum is that of the ranks before, then this one's: as one process would have it that sees the batches in turn.
static void add_piece(const ring *r, const cursor *c)
{
    const float *before = buffer_of(r, c);
    float *values = r->entries[c->entry].values + c->at;
    int64_t n = piece_length(r, c);
    if (r->ranks->rank < r->ranks->count - 1) {
        for (int64_t i = 0; i < n; i++) {
            values[i] = before[i] + values[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float total = before[i] + values[i];
        values[i] = total * r->factor;
    }
}

static ckm_status advance_stage(ring *r, int32_t s, ckm_error *err)
{
    stage *st = &r->stages[s];
    bool done = true;
    while (st->done.count < st->begun.count && done) {
        CKM_I_CHECK(r->ranks->test(r->ranks->user, slot_of(s, &st->done), &done, err));
        if (done) {
            if (st->adds) {
                add_piece(r, &st->done);
            }
            step_on(r, &st->done);
        }
    }
    int64_t ready = s > 0 ? r->stages[s - 1].done.count : r->n_entries > 0 ? r->entries[r->n_entries - 1].end : 0;
    while (st->begun.count < ready && st->begun.count - st->done.count < WINDOW) {
        CKM_I_CHECK(begin_piece(r, s, err));
    }
    return CKM_OK;
}

static ckm_status advance(ckm_i_exchange *x, ckm_error *err)
{
    ring *r = (ring *)x;
    for (int32_t s = 0; s < r->n_stages; s++) {
        CKM_I_CHECK(advance_stage(r, s, err));
    }
    return CKM_OK;
}

static ckm_status begin(ckm_i_exchange *x, float *values, int64_t n, ckm_error *err)
{
    ring *r = (ring *)x;
    if (r->n_entries == r->cap_entries) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "a step exchanges more than its %d gradients", (int)r->cap_entries);
    }
    int64_t before = r->n_entries > 0 ? r->entries[r->n_entries - 1].end : 0;
    int64_t pieces = n / r->piece + (n % r->piece != 0);
    r->entries[r->n_entries++] = (entry){values, n, before + pieces};
    return advance(x, err);
}

// Until `pieces` pieces have left the last stage.
static ckm_status await_pieces(ring *r, int64_t pieces, ckm_error *err)
{
    int64_t waited = 0;
    CKM_I_CHECK(advance(&r->hooks, err));
    while (r->stages[r->n_stages - 1].done.count < pieces) {
        int64_t before = 0;
        int64_t after = 0;
        for (int32_t s = 0; s < r->n_stages; s++) {
            before += r->stages[s].done.count;
        }
        CKM_I_CHECK(advance(&r->hooks, err));
        for (int32_t s = 0; s < r->n_stages; s++) {
            after += r->stages[s].done.count;
        }
        if (after > before) {
            waited = 0;
        } else {
            ckm_i_ranks_pause(&waited);
        }
    }
    return CKM_OK;
}

static ckm_status end(ckm_i_exchange *x, const float *values, ckm_error *err)
{
    ring *r = (ring *)x;
    for (int32_t i = r->n_entries - 1; i >= 0; i--) {
        if (r->entries[i].values == values) {
            return await_pieces(r, r->entries[i].end, err);
        }
    }
    return ckm_i_error(err, CKM_ERR_INTERNAL, "a gradient is to be received that was not sent");
}

static ckm_status finish(ckm_i_exchange *x, ckm_error *err)
{
    ring *r = (ring *)x;
    if (r->n_entries > 0) {
        CKM_I_CHECK(await_pieces(r, r->entries[r->n_entries - 1].end, err));
    }
    r->n_entries = 0;
    for (int32_t s = 0; s < r->n_stages; s++) {
        r->stages[s].begun = r->stages[s].done = (cursor){0};
    }
    return CKM_OK;
}

// ---- states

static ckm_status await_state(ring *r, ckm_error *err)
{
    int64_t waited = 0;
    for (;;) {
        bool done = false;
        CKM_I_CHECK(r->ranks->test(r->ranks->user, STATE_SLOT, &done, err));
        if (done) {
            return CKM_OK;
        }
        CKM_I_CHECK(advance(&r->hooks, err));
        ckm_i_ranks_pause(&waited);
    }
}

static ckm_status send_state(ring *r, int32_t to, const void *state, int64_t bytes, ckm_error *err)
{
    CKM_I_CHECK(r->ranks->send(r->ranks->user, STATE_SLOT, to, CKM_I_CHANNEL_STATE, state, bytes, err));
    return await_state(r, err);
}

static ckm_status receive_state(ring *r, int32_t from, void *state, int64_t bytes, ckm_error *err)
{
    CKM_I_CHECK(r->ranks->receive(r->ranks->user, STATE_SLOT, from, CKM_I_CHANNEL_STATE, state, bytes, err));
    return await_state(r, err);
}

static ckm_status take_state(ckm_i_exchange *x, void *state, int64_t bytes, ckm_error *err)
{
    ring *r = (ring *)x;
    return r->ranks->rank > 0 ? receive_state(r, r->ranks->rank - 1, state, bytes, err) : CKM_OK;
}

static ckm_status give_state(ckm_i_exchange *x, const void *state, int64_t bytes, ckm_error *err)
{
    ring *r = (ring *)x;
    return r->ranks->rank + 1 < r->ranks->count ? send_state(r, r->ranks->rank + 1, state, bytes, err) : CKM_OK;
}

static ckm_status share_state(ckm_i_exchange *x, void *state, int64_t bytes, ckm_error *err)
{
    ring *r = (ring *)x;
    int32_t last = r->ranks->count - 1;
    if (r->ranks->rank != last) {
        return receive_state(r, last, state, bytes, err);
    }
    for (int32_t to = 0; to < last; to++) {
        CKM_I_CHECK(send_state(r, to, state, bytes, err));
    }
    return CKM_OK;
}

// ---- making one

static void add_stage(ring *r, bool receives, bool adds, int32_t peer, int32_t channel)
{
    r->stages[r->n_stages++] = (stage){.receives = receives, .adds = adds, .peer = peer, .channel = channel};
}

static void lay_out(ring *r)
{
    int32_t rank = r->ranks->rank;
    int32_t last = r->ranks->count - 1;
    int32_t before = rank > 0 ? rank - 1 : last;
    int32_t after = rank < last ? rank + 1 : 0;
    if (rank > 0) {
        add_stage(r, true, true, before, CKM_I_CHANNEL_PARTIAL);
    }
    if (rank < last) {
        add_stage(r, false, false, after, CKM_I_CHANNEL_PARTIAL);
        add_stage(r, true, false, before, CKM_I_CHANNEL_TOTAL);
    }
    if (rank != last - 1) {
        add_stage(r, false, false, after, CKM_I_CHANNEL_TOTAL);
    }
}

ckm_status ckm_i_exchange_create(const ckm_ranks *ranks, int32_t n_gradients, int64_t most, ckm_i_exchange **out,
                                 ckm_error *err)
{
    ring *r = ckm_i_calloc(1, sizeof *r);
    if (r == NULL) {
        return ckm_i_error_memory(err);
    }
    *r = (ring){.hooks = {begin, end, advance, take_state, give_state, share_state, finish},
                .ranks = ranks,
                .cap_entries = n_gradients,
                .piece = piece_of(most > 0 ? most : 1),
                .factor = (float)(1.0 / (double)ranks->count)};
    lay_out(r);
    r->entries = ckm_i_calloc((size_t)n_gradients, sizeof *r->entries);
    r->buffer = ckm_i_calloc((size_t)(WINDOW * r->piece), sizeof *r->buffer);
    if (r->entries == NULL || r->buffer == NULL) {
        ckm_i_exchange_free(&r->hooks);
        return ckm_i_error_memory(err);
    }
    *out = &r->hooks;
    return CKM_OK;
}

void ckm_i_exchange_free(ckm_i_exchange *x)
{
    ring *r = (ring *)x;
    if (r != NULL) {
        free(r->entries);
        free(r->buffer);
        free(r);
    }
}
