// SPDX-License-Identifier: Apache-2.0
// Packing by annealing: see packer.h.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "plan/packer.h"

enum { BETWEEN_TRIES = 50 };

typedef struct annealing {
    ckm_i_packer *k;
    ckm_i_rng rng;
    int32_t n_large;  // the first n_large of the order are searched, the rest follows by size
    int32_t *order;
    int64_t arena;   // of the large ones
    int64_t lowest;  // of those at which the small ones have been tried
    int64_t since;   // attempts since then
} annealing;

typedef struct ranked {
    int64_t key, then;  // ascending
    int32_t buffer;
} ranked;

static int by_rank(const void *left, const void *right)
{
    const ranked *a = left;
    const ranked *b = right;
    if (a->key != b->key) {
        return a->key < b->key ? -1 : 1;
    }
    if (a->then != b->then) {
        return a->then < b->then ? -1 : 1;
    }
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

// By size, largest first; of those the first n_large by their offset in the best packing.
static void start_order(annealing *a, ranked *list)
{
    const ckm_i_plan_packing *p = a->k->p;
    for (int32_t b = 0; b < p->n; b++) {
        list[b] = (ranked){-p->buffers[b].bytes, p->buffers[b].first - p->buffers[b].last, b};
    }
    qsort(list, (size_t)p->n, sizeof *list, by_rank);
    for (int32_t i = 0; i < a->n_large; i++) {
        list[i].key = a->k->best_offsets[list[i].buffer];
    }
    qsort(list, (size_t)a->n_large, sizeof *list, by_rank);
    for (int32_t i = 0; i < p->n; i++) {
        a->order[i] = list[i].buffer;
    }
}

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

// A buffer at the top of the arena: a position, or any when none is.
static int32_t topmost(annealing *a)
{
    const ckm_i_plan_packing *p = a->k->p;
    int32_t n = 0;
    int32_t chosen = (int32_t)ckm_i_rng_below(&a->rng, (uint32_t)a->n_large);
    for (int32_t i = 0; i < a->n_large; i++) {
        int32_t b = a->order[i];
        if (a->k->offsets[b] + p->buffers[b].bytes >= a->arena && ckm_i_rng_below(&a->rng, (uint32_t)++n) == 0) {
            chosen = i;
        }
    }
    return chosen;
}

static void attempt(annealing *a, double temperature)
{
    ckm_i_packer *k = a->k;
    int32_t from = (int32_t)ckm_i_rng_below(&a->rng, (uint32_t)a->n_large);
    int32_t to = (int32_t)ckm_i_rng_below(&a->rng, (uint32_t)a->n_large);
    if (ckm_i_rng_below(&a->rng, 2) == 0) {
        from = topmost(a);
        to = from > 0 ? (int32_t)ckm_i_rng_below(&a->rng, (uint32_t)from) : to;
    }
    if (from == to) {
        return;
    }
    move(a->order, from, to);
    // How much worse it may be is drawn first, so that packing can end as soon as it is.
    double slack = -temperature * log(1.0 - ckm_i_rng_unit(&a->rng));
    int64_t arena = ckm_i_pack_in_order(k, a->order, a->n_large, CKM_I_FIRST_FIT, a->arena + (int64_t)slack);
    if (arena < 0) {
        move(a->order, to, from);
        return;
    }
    a->arena = arena;
    if (arena < k->best_arena && (arena < a->lowest || a->since >= BETWEEN_TRIES)) {
        int64_t whole = arena;
        if (a->n_large < k->p->n) {
            whole = ckm_i_pack_in_order(k, a->order, k->p->n, CKM_I_FIRST_FIT, k->best_arena);
        }
        if (whole >= 0) {
            ckm_i_pack_keep(k, whole, "annealed");
        }
        a->lowest = arena < a->lowest ? arena : a->lowest;
        a->since = 0;
    }
    a->since++;
}

ckm_status ckm_i_pack_anneal(ckm_i_packer *k, int32_t most, double heat, int64_t attempts, ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_i_plan_packing *p = k->p;
    annealing a = {.k = k, .rng = {k->options->seed + 1}, .n_large = p->n < most ? p->n : most, .lowest = INT64_MAX};
    if (p->n < 2 || ckm_i_pack_is_over(k)) {
        return CKM_OK;
    }
    ranked *list = ckm_i_malloc((size_t)p->n, sizeof *list);
    a.order = ckm_i_malloc((size_t)p->n, sizeof *a.order);
    if (list == NULL || a.order == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    start_order(&a, list);
    a.arena = ckm_i_pack_in_order(k, a.order, a.n_large, CKM_I_FIRST_FIT, INT64_MAX);
    double hot = heat * (double)p->bound_bytes;
    for (int64_t i = 0; i < attempts && !ckm_i_pack_is_over(k); i++) {
        attempt(&a, hot * pow(1e-3, (double)i / (double)attempts));
        k->p->iterations++;
    }
cleanup:
    free(list);
    free(a.order);
    return status;
}
