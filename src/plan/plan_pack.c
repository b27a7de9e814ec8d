// SPDX-License-Identifier: Apache-2.0
// Packing: buffers with a life in time and a size get offsets. Buffers placed in several orders, first fit and best fit;
// then what does not reach the lower bound is improved: skylines, annealing.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "plan/packer.h"

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

typedef enum ordering { BY_SIZE, BY_LIFE, BY_AREA, BY_START, BY_END } ordering;

static void sort_buffers(const ckm_i_plan_packing *p, ordering which, sort_key *keys, int32_t *order)
{
    for (int32_t i = 0; i < p->n; i++) {
        const ckm_i_plan_buffer *b = &p->buffers[i];
        double bytes = (double)b->bytes;
        double life = (double)(b->last - b->first + 1);
        double first = 0.0;
        switch (which) {
        case BY_SIZE:
            first = bytes;
            break;
        case BY_LIFE:
            first = life;
            break;
        case BY_AREA:
            first = bytes * life;
            break;
        case BY_START:
            first = -(double)b->first;
            break;
        case BY_END:
            first = (double)b->last;
            break;
        }
        keys[i] = (sort_key){first, which == BY_LIFE || which == BY_AREA ? bytes : life, i};
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
    ckm_i_fit how;
    const char *method;
} constructions[] = {
    {BY_SIZE, CKM_I_FIRST_FIT, "by size, first fit"},
    {BY_SIZE, CKM_I_BEST_FIT, "by size, best fit"},
    {BY_LIFE, CKM_I_FIRST_FIT, "by life, first fit"},
    {BY_LIFE, CKM_I_BEST_FIT, "by life, best fit"},
    {BY_AREA, CKM_I_FIRST_FIT, "by size and life, first fit"},
    {BY_AREA, CKM_I_BEST_FIT, "by size and life, best fit"},
    {BY_START, CKM_I_FIRST_FIT, "by start, first fit"},
    {BY_START, CKM_I_BEST_FIT, "by start, best fit"},
    {BY_END, CKM_I_FIRST_FIT, "by end, first fit"},
    {BY_END, CKM_I_BEST_FIT, "by end, best fit"},
};
enum { N_CONSTRUCTIONS = sizeof constructions / sizeof constructions[0] };

static void construct(ckm_i_packer *k, int32_t *order, sort_key *keys)
{
    for (int32_t c = 0; c < N_CONSTRUCTIONS && !ckm_i_pack_is_over(k); c++) {
        if (c == 0 || constructions[c].which != constructions[c - 1].which) {
            sort_buffers(k->p, constructions[c].which, keys, order);
        }
        int64_t arena = ckm_i_pack_in_order(k, order, k->p->n, constructions[c].how, INT64_MAX);
        ckm_i_pack_keep(k, arena, constructions[c].method);
    }
}

// Enough attempts for about a second, however many buffers there are.
static int64_t default_attempts(int32_t n)
{
    int64_t per_pass = (int64_t)n * n / 3 + n + 1;
    int64_t attempts = INT64_C(500000000) / per_pass;
    return attempts < 60 ? 60 : attempts > 20000 ? 20000 : attempts;
}

// The largest buffers determine the size; annealing more of them at once takes too long.
enum { MANY = 400 };

static ckm_status search(ckm_i_packer *k, ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_plan_options *options = k->options;
    int64_t attempts = options->iteration_limit > 0 ? options->iteration_limit : default_attempts(k->p->n);
    int32_t *order = ckm_i_malloc((size_t)k->p->n, sizeof *order);
    sort_key *keys = ckm_i_malloc((size_t)k->p->n, sizeof *keys);
    if (order == NULL || keys == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    if (options->time_limit_seconds > 0.0) {
        k->deadline = ckm_i_clock_seconds() + options->time_limit_seconds;
    }
    construct(k, order, keys);
    // Nothing was constructed when time was up before it began.
    if (k->p->method == NULL) {
        sort_buffers(k->p, BY_SIZE, keys, order);
        int64_t arena = ckm_i_pack_in_order(k, order, k->p->n, CKM_I_FIRST_FIT, INT64_MAX);
        ckm_i_pack_keep(k, arena, constructions[0].method);
    }
    CKM_I_TRY(ckm_i_pack_skyline(k, (attempts + 2) / 3, err));
    if (k->p->n > MANY) {
        // With fewer buffers to place, there is time for more attempts.
        double share = (double)k->p->n / (double)MANY;
        int64_t more = (int64_t)((double)(attempts / 3) * share * share);
        CKM_I_TRY(ckm_i_pack_anneal(k, MANY, 0.01, more, err));
        CKM_I_TRY(ckm_i_pack_anneal(k, k->p->n, 0.001, attempts / 3, err));
    } else {
        CKM_I_TRY(ckm_i_pack_anneal(k, k->p->n, 0.01, attempts - attempts / 3, err));
    }
cleanup:
    free(order);
    free(keys);
    return status;
}

ckm_status ckm_i_plan_pack(ckm_i_plan_packing *p, const ckm_plan_options *options, ckm_error *err)
{
    ckm_status status;
    size_t n = (size_t)p->n;
    ckm_i_packer k = {.p = p, .options = options, .best_arena = INT64_MAX, .goal = p->bound_bytes};
    k.placed = ckm_i_malloc(n, sizeof *k.placed);
    k.offsets = ckm_i_malloc(n, sizeof *k.offsets);
    k.best_offsets = ckm_i_malloc(n, sizeof *k.best_offsets);
    if (k.placed == NULL || k.offsets == NULL || k.best_offsets == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    if (options->target_bytes > k.goal) {
        k.goal = options->target_bytes;
    }
    CKM_I_TRY(search(&k, err));
    for (int32_t b = 0; b < p->n; b++) {
        p->buffers[b].offset = k.best_offsets[b];
    }
    p->arena_bytes = k.best_arena;
cleanup:
    free(k.placed);
    free(k.offsets);
    free(k.best_offsets);
    return status;
}
