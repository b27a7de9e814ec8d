// SPDX-License-Identifier: Apache-2.0
// Packing by skyline: see packer.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/packer.h"

// The skyline is `height` over steps first..last.
typedef struct valley {
    int64_t first, last, height;
} valley;

typedef struct skyline {
    ckm_i_packer *k;
    int32_t n;
    int32_t *by_start;  // buffers in order of their first step
    bool *placed;       // by position in by_start
    double *priority;   // by position
    int32_t n_valleys;
    valley *valleys;
    int32_t *order;
    int64_t last_step;
} skyline;

// Sorting by a key that is an int64_t.
typedef struct keyed {
    int64_t key;
    int32_t buffer;
} keyed;

static int by_key(const void *left, const void *right)
{
    const keyed *a = left;
    const keyed *b = right;
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static void sort_by(keyed *keys, int32_t n, int32_t *order)
{
    if (n > 0) {
        qsort(keys, (size_t)n, sizeof *keys, by_key);
    }
    for (int32_t i = 0; i < n; i++) {
        order[i] = keys[i].buffer;
    }
}

// The unplaced buffer of the highest priority that lives within the valley: a position, or -1.
static int32_t choose(const skyline *s, const valley *v)
{
    const ckm_i_plan_buffer *buffers = s->k->p->buffers;
    int32_t low = 0;
    int32_t high = s->n;
    int32_t best = -1;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (buffers[s->by_start[middle]].first < v->first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < s->n && buffers[s->by_start[low]].first <= v->last; low++) {
        if (!s->placed[low] && buffers[s->by_start[low]].last <= v->last &&
            (best < 0 || s->priority[low] > s->priority[best])) {
            best = low;
        }
    }
    return best;
}

// Puts `n` valleys in the place of `gone` of them at `at`.
static void replace(skyline *s, int32_t at, int32_t gone, const valley *with, int32_t n)
{
    memmove(s->valleys + at + n, s->valleys + at + gone, (size_t)(s->n_valleys - at - gone) * sizeof *s->valleys);
    memcpy(s->valleys + at, with, (size_t)n * sizeof *with);
    s->n_valleys += n - gone;
}

// Places a buffer on the floor of a valley, which falls into up to three.
static void fill(skyline *s, int32_t at, int32_t position)
{
    const ckm_i_plan_buffer *b = &s->k->p->buffers[s->by_start[position]];
    valley old = s->valleys[at];
    valley parts[3];
    int32_t n = 0;
    if (b->first > old.first) {
        parts[n++] = (valley){old.first, b->first - 1, old.height};
    }
    parts[n++] = (valley){b->first, b->last, old.height + b->bytes};
    if (b->last < old.last) {
        parts[n++] = (valley){b->last + 1, old.last, old.height};
    }
    replace(s, at, 1, parts, n);
    s->placed[position] = true;
    s->k->offsets[s->by_start[position]] = old.height;
}

// Nothing fits into the valley: it becomes part of its lower neighbour, or of both when they are level.
static void raise(skyline *s, int32_t at)
{
    valley merged = s->valleys[at];
    bool has_left = at > 0;
    bool has_right = at + 1 < s->n_valleys;
    int64_t left = has_left ? s->valleys[at - 1].height : INT64_MAX;
    int64_t right = has_right ? s->valleys[at + 1].height : INT64_MAX;
    merged.height = left < right ? left : right;
    bool with_left = has_left && left == merged.height;
    bool with_right = has_right && right == merged.height;
    merged.first = with_left ? s->valleys[at - 1].first : merged.first;
    merged.last = with_right ? s->valleys[at + 1].last : merged.last;
    replace(s, with_left ? at - 1 : at, 1 + with_left + with_right, &merged, 1);
}

static void run(skyline *s)
{
    int32_t left = s->n;
    s->n_valleys = 1;
    s->valleys[0] = (valley){0, s->last_step, 0};
    for (int32_t i = 0; i < s->n; i++) {
        s->placed[i] = false;
    }
    while (left > 0) {
        int32_t lowest = 0;
        for (int32_t i = 1; i < s->n_valleys; i++) {
            lowest = s->valleys[i].height < s->valleys[lowest].height ? i : lowest;
        }
        int32_t position = choose(s, &s->valleys[lowest]);
        if (position >= 0) {
            fill(s, lowest, position);
            left--;
        } else {
            raise(s, lowest);
        }
    }
}

static void set_priorities(skyline *s, int64_t attempt, ckm_i_rng *rng)
{
    static const double powers[][2] = {{1.0, 0.0}, {0.0, 1.0}, {1.0, 1.0}, {1.0, 0.5}, {0.5, 1.0}};
    enum { N_POWERS = sizeof powers / sizeof powers[0] };
    bool fixed = attempt < N_POWERS;
    const double *power = powers[fixed ? (uint32_t)attempt : ckm_i_rng_below(rng, N_POWERS)];
    double noise = fixed ? 0.0 : 0.2 + 1.5 * ckm_i_rng_unit(rng);
    for (int32_t i = 0; i < s->n; i++) {
        const ckm_i_plan_buffer *b = &s->k->p->buffers[s->by_start[i]];
        s->priority[i] = power[0] * log((double)(b->last - b->first + 2)) + power[1] * log((double)b->bytes + 1.0) +
                         noise * ckm_i_rng_unit(rng);
    }
}

ckm_status ckm_i_pack_skyline(ckm_i_packer *k, int64_t attempts, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)k->p->n;
    skyline s = {.k = k, .n = k->p->n};
    ckm_i_rng rng = {k->options->seed};
    keyed *keys = ckm_i_malloc(n, sizeof *keys);
    s.by_start = ckm_i_malloc(n, sizeof *s.by_start);
    s.placed = ckm_i_malloc(n, sizeof *s.placed);
    s.priority = ckm_i_malloc(n, sizeof *s.priority);
    s.valleys = ckm_i_malloc(2 * n + 3, sizeof *s.valleys);
    s.order = ckm_i_malloc(n, sizeof *s.order);
    if (keys == NULL || s.by_start == NULL || s.placed == NULL || s.priority == NULL || s.valleys == NULL ||
        s.order == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t b = 0; b < s.n; b++) {
        keys[b] = (keyed){k->p->buffers[b].first, b};
        s.last_step = k->p->buffers[b].last > s.last_step ? k->p->buffers[b].last : s.last_step;
    }
    sort_by(keys, s.n, s.by_start);
    for (int64_t attempt = 0; attempt < attempts && !ckm_i_pack_is_over(k); attempt++) {
        set_priorities(&s, attempt, &rng);
        run(&s);
        for (int32_t b = 0; b < s.n; b++) {
            keys[b] = (keyed){k->offsets[b], b};
        }
        sort_by(keys, s.n, s.order);
        int64_t arena = ckm_i_pack_in_order(k, s.order, s.n, CKM_I_FIRST_FIT, k->best_arena);
        if (arena >= 0) {
            ckm_i_pack_keep(k, arena, attempt < 5 ? "skyline" : "skyline, random priorities");
        }
        k->p->iterations++;
    }
cleanup:
    free(keys);
    free(s.by_start);
    free(s.placed);
    free(s.priority);
    free(s.valleys);
    free(s.order);
    return status;
}
