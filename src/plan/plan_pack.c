// SPDX-License-Identifier: Apache-2.0
// Packing: buffers with a life in time and a size get offsets. One pass puts the buffers of an order, one after
// the other, at the lowest offset (first fit) or into the tightest gap (best fit) that those already placed leave
// free during its life. Several orders are tried; then a local search moves the buffers that stick out at the top
// forward in the order and packs again.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "plan/plan.h"

typedef enum fit { FIRST_FIT, BEST_FIT } fit;

// A placed buffer, as the scan for gaps needs it; kept in order of offset.
typedef struct placed {
    int64_t offset, top, first, last;
    int32_t buffer;
} placed;

// How good a packing is: the arena, then how much sticks out above the lower bound, summed over buffers.
typedef struct quality {
    int64_t arena;
    double excess;
} quality;

typedef struct packer {
    ckm_i_plan_packing *p;
    int32_t n_placed;
    placed *placed;
    int64_t *offsets;       // of the current attempt, by buffer
    int64_t *best_offsets;  // of the best so far
    int64_t best_arena;
    int64_t goal;  // good enough
} packer;

// Bytes of a buffer at a step of its life.
static int64_t bytes_at(const ckm_i_plan_packing *p, const ckm_i_plan_buffer *b, int64_t step)
{
    int64_t bytes = b->bytes;
    for (int32_t k = 0; k < b->n_parts && p->parts[b->part_at + k].from <= step; k++) {
        bytes = p->parts[b->part_at + k].bytes;
    }
    return bytes;
}

// Sizes only shrink, so two buffers are nearest each other at the first step that both live in.
static int64_t top_for(const packer *k, const placed *q, const ckm_i_plan_buffer *b)
{
    const ckm_i_plan_buffer *other = &k->p->buffers[q->buffer];
    if (other->n_parts == 0 || b->first <= q->first) {
        return q->top;
    }
    return q->offset + bytes_at(k->p, other, b->first);
}

static int64_t find_place(const packer *k, const ckm_i_plan_buffer *b, fit how)
{
    int64_t below = 0;      // everything placed so far in the scan ends here or lower
    int64_t tightest = -1;  // size of the best gap
    int64_t offset = 0;
    for (int32_t i = 0; i < k->n_placed; i++) {
        const placed *q = &k->placed[i];
        if (q->last < b->first || q->first > b->last) {
            continue;
        }
        int64_t gap = q->offset - below;
        if (gap >= b->bytes) {
            if (how == FIRST_FIT) {
                return below;
            }
            if (tightest < 0 || gap < tightest) {
                tightest = gap;
                offset = below;
            }
        }
        int64_t top = top_for(k, q, b);
        below = top > below ? top : below;
    }
    return tightest >= 0 ? offset : below;
}

// For a buffer that shrinks: those that come later in its life may reach below its top. Raises the offset until no
// placed buffer is in the way.
static int64_t find_place_shrinking(const packer *k, const ckm_i_plan_buffer *b)
{
    int64_t offset = 0;
    bool raised;
    do {
        raised = false;
        for (int32_t i = 0; i < k->n_placed; i++) {
            const placed *q = &k->placed[i];
            if (q->last < b->first || q->first > b->last) {
                continue;
            }
            int64_t need = bytes_at(k->p, b, q->first > b->first ? q->first : b->first);
            int64_t top = top_for(k, q, b);
            if (offset < top && offset + need > q->offset) {
                offset = top;
                raised = true;
            }
        }
    } while (raised);
    return offset;
}

static void insert(packer *k, int32_t buffer, int64_t offset)
{
    const ckm_i_plan_buffer *b = &k->p->buffers[buffer];
    int32_t low = 0;
    int32_t high = k->n_placed;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (k->placed[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(k->placed + low + 1, k->placed + low, (size_t)(k->n_placed - low) * sizeof *k->placed);
    k->placed[low] = (placed){offset, offset + b->bytes, b->first, b->last, buffer};
    k->n_placed++;
    k->offsets[buffer] = offset;
}

// One pass. False, early, when the arena would be larger than `limit`.
static bool pack_in_order(packer *k, const int32_t *order, fit how, int64_t limit, quality *out)
{
    quality q = {0, 0.0};
    k->n_placed = 0;
    for (int32_t i = 0; i < k->p->n; i++) {
        const ckm_i_plan_buffer *b = &k->p->buffers[order[i]];
        int64_t offset = b->n_parts > 0 ? find_place_shrinking(k, b) : find_place(k, b, how);
        int64_t top = offset + b->bytes;
        if (top > limit) {
            return false;
        }
        q.arena = top > q.arena ? top : q.arena;
        q.excess += top > k->p->bound_bytes ? (double)(top - k->p->bound_bytes) : 0.0;
        insert(k, order[i], offset);
    }
    *out = q;
    return true;
}

static void keep_if_best(packer *k, int64_t arena, const char *method)
{
    if (arena < k->best_arena) {
        k->best_arena = arena;
        memcpy(k->best_offsets, k->offsets, (size_t)k->p->n * sizeof *k->offsets);
        k->p->method = method;
    }
}

// Orders: larger keys first, the second key where the first is equal, then the buffer's number.
typedef struct sort_key {
    double first, second;
    int32_t buffer;
} sort_key;

static int by_keys(const void *left, const void *right)
{
    const sort_key *a = left;
    const sort_key *b = right;
    if (a->first != b->first) {
        return a->first > b->first ? -1 : 1;
    }
    if (a->second != b->second) {
        return a->second > b->second ? -1 : 1;
    }
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

typedef enum ordering { BY_SIZE, BY_LIFE, BY_AREA, BY_START, BY_END, N_ORDERINGS } ordering;

static void sort_buffers(const ckm_i_plan_packing *p, ordering which, sort_key *keys, int32_t *order)
{
    for (int32_t i = 0; i < p->n; i++) {
        const ckm_i_plan_buffer *b = &p->buffers[i];
        double bytes = (double)b->bytes;
        double life = (double)(b->last - b->first + 1);
        double first = 0.0;
        double second = bytes;
        switch (which) {
        case BY_SIZE:
            first = bytes;
            second = life;
            break;
        case BY_LIFE:
            first = life;
            break;
        case BY_AREA:
            first = bytes * life;
            break;
        case BY_START:
            first = -(double)b->first;
            second = life;
            break;
        case BY_END:
            first = (double)b->last;
            second = life;
            break;
        case N_ORDERINGS:
            break;
        }
        keys[i] = (sort_key){first, second, i};
    }
    if (p->n > 0) {
        qsort(keys, (size_t)p->n, sizeof *keys, by_keys);
    }
    for (int32_t i = 0; i < p->n; i++) {
        order[i] = keys[i].buffer;
    }
}

static const struct {
    ordering which;
    fit how;
    const char *method, *improved;
} constructions[] = {
    {BY_SIZE, FIRST_FIT, "by size, first fit", "by size, first fit, improved"},
    {BY_SIZE, BEST_FIT, "by size, best fit", "by size, best fit, improved"},
    {BY_LIFE, FIRST_FIT, "by life, first fit", "by life, first fit, improved"},
    {BY_LIFE, BEST_FIT, "by life, best fit", "by life, best fit, improved"},
    {BY_AREA, FIRST_FIT, "by size and life, first fit", "by size and life, first fit, improved"},
    {BY_AREA, BEST_FIT, "by size and life, best fit", "by size and life, best fit, improved"},
    {BY_START, FIRST_FIT, "by start, first fit", "by start, first fit, improved"},
    {BY_START, BEST_FIT, "by start, best fit", "by start, best fit, improved"},
    {BY_END, FIRST_FIT, "by end, first fit", "by end, first fit, improved"},
    {BY_END, BEST_FIT, "by end, best fit", "by end, best fit, improved"},
};
enum { N_CONSTRUCTIONS = sizeof constructions / sizeof constructions[0] };

static bool better_or_equal(const quality *a, const quality *b)
{
    return a->arena < b->arena || (a->arena == b->arena && a->excess <= b->excess);
}

// Moves the buffer at `from` to position `to` of the order, shifting those between.
static void move(int32_t *order, int32_t from, int32_t to)
{
    int32_t buffer = order[from];
    if (to < from) {
        memmove(order + to + 1, order + to, (size_t)(from - to) * sizeof *order);
    } else {
        memmove(order + from, order + from + 1, (size_t)(to - from) * sizeof *order);
    }
    order[to] = buffer;
}

// Positions in the order of the buffers that reach above `line`, `offsets` being their packing.
static int32_t find_blamed(const ckm_i_plan_packing *p, const int32_t *order, const int64_t *offsets, int64_t line,
                           int32_t *blamed)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n; i++) {
        if (offsets[order[i]] + p->buffers[order[i]].bytes > line) {
            blamed[n++] = i;
        }
    }
    return n;
}

typedef struct search {
    ckm_i_rng rng;
    int32_t *order, *blamed;
    int64_t *offsets;  // of `order` as accepted
    quality now;
} search;

// One attempt: a buffer that sticks out goes to the front half of what was before it, or just before some buffer.
static void improve_once(packer *k, search *s, fit how, const char *method)
{
    const ckm_i_plan_packing *p = k->p;
    bool topmost = ckm_i_rng_below(&s->rng, 2) == 0;
    int32_t n = find_blamed(p, s->order, s->offsets, topmost ? s->now.arena - 1 : p->bound_bytes, s->blamed);
    int32_t from = s->blamed[ckm_i_rng_below(&s->rng, (uint32_t)n)];
    int32_t to = (int32_t)ckm_i_rng_below(&s->rng, (uint32_t)from + 1);
    if (ckm_i_rng_below(&s->rng, 3) == 0) {
        // Something else gets out of its way.
        int32_t other = (int32_t)ckm_i_rng_below(&s->rng, (uint32_t)p->n);
        to = (int32_t)ckm_i_rng_below(&s->rng, (uint32_t)p->n);
        from = other;
    }
    if (from == to) {
        return;
    }
    quality q;
    move(s->order, from, to);
    bool packed = pack_in_order(k, s->order, how, s->now.arena, &q);
    if (!packed || !better_or_equal(&q, &s->now)) {
        move(s->order, to, from);
        return;
    }
    s->now = q;
    memcpy(s->offsets, k->offsets, (size_t)p->n * sizeof *s->offsets);
    keep_if_best(k, q.arena, method);
}

static ckm_status improve(packer *k, int32_t construction, sort_key *keys, const ckm_plan_options *options,
                          int64_t iterations, double deadline, ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_i_plan_packing *p = k->p;
    fit how = constructions[construction].how;
    search s = {.rng = {options->seed + (uint64_t)construction}};
    s.order = ckm_i_malloc((size_t)p->n, sizeof *s.order);
    s.blamed = ckm_i_malloc((size_t)p->n, sizeof *s.blamed);
    s.offsets = ckm_i_malloc((size_t)p->n, sizeof *s.offsets);
    if (s.order == NULL || s.blamed == NULL || s.offsets == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    sort_buffers(p, constructions[construction].which, keys, s.order);
    (void)pack_in_order(k, s.order, how, INT64_MAX, &s.now);
    memcpy(s.offsets, k->offsets, (size_t)p->n * sizeof *s.offsets);
    for (int64_t i = 0; i < iterations && k->best_arena > k->goal && s.now.arena > p->bound_bytes; i++) {
        if ((options->stop != NULL && options->stop(options->user)) ||
            (deadline > 0.0 && ckm_i_clock_seconds() > deadline)) {
            break;
        }
        improve_once(k, &s, how, constructions[construction].improved);
        k->p->iterations++;
    }
cleanup:
    free(s.order);
    free(s.blamed);
    free(s.offsets);
    return status;
}

// Enough attempts for about a second of scanning, however many buffers there are.
static int64_t default_iterations(int32_t n)
{
    int64_t per_pass = (int64_t)n * n / 4 + n + 1;
    int64_t iterations = INT64_C(600000000) / per_pass;
    return iterations < 20 ? 20 : iterations > 20000 ? 20000 : iterations;
}

// The constructions, best first.
static void rank(const int64_t *arenas, int32_t *ranked)
{
    for (int32_t c = 0; c < N_CONSTRUCTIONS; c++) {
        int32_t at = c;
        for (; at > 0 && arenas[ranked[at - 1]] > arenas[c]; at--) {
            ranked[at] = ranked[at - 1];
        }
        ranked[at] = c;
    }
}

static ckm_status construct_and_improve(packer *k, int32_t *order, sort_key *keys, const ckm_plan_options *options,
                                        ckm_error *err)
{
    const ckm_i_plan_packing *p = k->p;
    double deadline = options->time_limit_seconds > 0.0 ? ckm_i_clock_seconds() + options->time_limit_seconds : 0.0;
    int64_t iterations = options->iteration_limit > 0 ? options->iteration_limit : default_iterations(p->n);
    int64_t arenas[N_CONSTRUCTIONS];
    int32_t ranked[N_CONSTRUCTIONS];
    for (int32_t c = 0; c < N_CONSTRUCTIONS; c++) {
        quality q;
        if (c % 2 == 0) {
            sort_buffers(p, constructions[c].which, keys, order);
        }
        (void)pack_in_order(k, order, constructions[c].how, INT64_MAX, &q);
        arenas[c] = q.arena;
        keep_if_best(k, q.arena, constructions[c].method);
        if (k->best_arena <= k->goal) {
            return CKM_OK;
        }
    }
    rank(arenas, ranked);
    // The best construction gets half of the attempts, the next two a quarter each.
    for (int32_t i = 0; i < 3; i++) {
        ckm_status status = improve(k, ranked[i], keys, options, i == 0 ? (iterations + 1) / 2 : iterations / 4,
                                    deadline, err);
        if (status != CKM_OK) {
            return status;
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_plan_pack(ckm_i_plan_packing *p, const ckm_plan_options *options, ckm_error *err)
{
    ckm_status status;
    size_t n = (size_t)p->n;
    packer k = {.p = p, .best_arena = INT64_MAX, .goal = p->bound_bytes};
    int32_t *order = ckm_i_malloc(n, sizeof *order);
    sort_key *keys = ckm_i_malloc(n, sizeof *keys);
    k.placed = ckm_i_malloc(n, sizeof *k.placed);
    k.offsets = ckm_i_malloc(n, sizeof *k.offsets);
    k.best_offsets = ckm_i_malloc(n, sizeof *k.best_offsets);
    if (order == NULL || keys == NULL || k.placed == NULL || k.offsets == NULL || k.best_offsets == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    if (options->target_bytes > k.goal) {
        k.goal = options->target_bytes;
    }
    CKM_I_TRY(construct_and_improve(&k, order, keys, options, err));
    for (int32_t b = 0; b < p->n; b++) {
        p->buffers[b].offset = k.best_offsets[b];
    }
    p->arena_bytes = k.best_arena;
cleanup:
    free(order);
    free(keys);
    free(k.placed);
    free(k.offsets);
    free(k.best_offsets);
    return status;
}
