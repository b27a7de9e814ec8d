// SPDX-License-Identifier: Apache-2.0
// Snapshots and the pool of the best of them.
#include "solve/search/search_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"

ckm_status ckm_i_snapshot_take(const ckm_i_spans *from, int32_t n_tensors, int64_t cost, double excess,
                               ckm_i_snapshot *out, ckm_error *err)
{
    int64_t n_spans = 0;
    for (int32_t x = 0; x < n_tensors; x++) {
        n_spans += from[x].n;
    }
    ckm_i_snapshot snapshot = {.cost = cost, .excess = excess, .n_tensors = n_tensors};
    snapshot.first = ckm_i_malloc((size_t)n_tensors + 1, sizeof *snapshot.first);
    snapshot.spans = ckm_i_malloc((size_t)n_spans, sizeof *snapshot.spans);
    if (n_spans > INT32_MAX || snapshot.first == NULL || snapshot.spans == NULL) {
        ckm_i_snapshot_dispose(&snapshot);
        return ckm_i_error_memory(err);
    }
    int32_t n = 0;
    for (int32_t x = 0; x < n_tensors; x++) {
        snapshot.first[x] = n;
        for (int32_t i = 0; i < from[x].n; i++) {
            ckm_i_span span = from[x].at[i];
            ckm_i_rng mix = {.state = ((uint64_t)(uint32_t)span.first << 32) + (uint32_t)span.last};
            mix.state ^= (uint64_t)(uint32_t)x * UINT64_C(0x9e3779b97f4a7c15);
            snapshot.hash ^= ckm_i_rng_next(&mix);
            snapshot.spans[n++] = span;
        }
    }
    snapshot.first[n_tensors] = n;
    *out = snapshot;
    return CKM_OK;
}

void ckm_i_snapshot_dispose(ckm_i_snapshot *snapshot)
{
    free(snapshot->first);
    free(snapshot->spans);
    *snapshot = (ckm_i_snapshot){0};
}

bool ckm_i_snapshot_better(const ckm_i_snapshot *a, const ckm_i_snapshot *b)
{
    double over_a = a->excess > 0.5 ? a->excess : 0.0;
    double over_b = b->excess > 0.5 ? b->excess : 0.0;
    return over_a < over_b || (over_a == over_b && a->cost < b->cost);
}

ckm_status ckm_i_snapshot_load(const ckm_i_snapshot *snapshot, ckm_i_search *s, ckm_error *err)
{
    ckm_i_spans *views = ckm_i_calloc((size_t)snapshot->n_tensors, sizeof *views);
    if (views == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < snapshot->n_tensors; x++) {
        views[x].n = snapshot->first[x + 1] - snapshot->first[x];
        views[x].at = snapshot->spans + snapshot->first[x];
    }
    ckm_status status = ckm_i_search_take(s, views, err);
    free(views);
    return status;
}

static bool same(const ckm_i_snapshot *a, const ckm_i_snapshot *b)
{
    return a->hash == b->hash && a->cost == b->cost && a->first[a->n_tensors] == b->first[b->n_tensors];
}

bool ckm_i_pool_add(ckm_i_pool *pool, ckm_i_snapshot *snapshot)
{
    int32_t place = pool->n;
    bool known = false;
    for (int32_t i = pool->n - 1; i >= 0; i--) {
        known = known || same(&pool->at[i], snapshot);
        place = ckm_i_snapshot_better(snapshot, &pool->at[i]) ? i : place;
    }
    if (known || place == CKM_I_POOL_SIZE) {
        ckm_i_snapshot_dispose(snapshot);
        return false;
    }
    if (pool->n == CKM_I_POOL_SIZE) {
        ckm_i_snapshot_dispose(&pool->at[--pool->n]);
    }
    memmove(pool->at + place + 1, pool->at + place, (size_t)(pool->n - place) * sizeof *pool->at);
    pool->at[place] = *snapshot;
    pool->n++;
    *snapshot = (ckm_i_snapshot){0};
    return true;
}

void ckm_i_pool_dispose(ckm_i_pool *pool)
{
    for (int32_t i = 0; i < pool->n; i++) {
        ckm_i_snapshot_dispose(&pool->at[i]);
    }
    pool->n = 0;
}
