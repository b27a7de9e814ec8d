// SPDX-License-Identifier: Apache-2.0
// Snapshots, the pool of the best of them, and crossing two.
#include "solve/search/search_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "solve/core/component_registry.h"

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

// Crossing a state with another by windows of the tensors in which they differ.

typedef struct crossing {
    ckm_i_search *s;
    const ckm_i_snapshot *other;
    ckm_i_ints tensors;   // that differed at the beginning, by producer
    ckm_i_spans changes;  // of one tensor
    bool improved;
    bool (*stop)(void *user);
    void *user;
} crossing;

// Stages over which the state holds x and the other does not, or the other way round.
static bool find_changes(crossing *c, int32_t x)
{
    const ckm_i_spans *ours = &c->s->held[x];
    const ckm_i_span *theirs = c->other->spans + c->other->first[x];
    int32_t n_theirs = c->other->first[x + 1] - c->other->first[x];
    int32_t i = 0;
    int32_t k = 0;
    int32_t at = 0;  // stages before have been compared
    c->changes.n = 0;
    while (i < ours->n || k < n_theirs) {
        // Where what is held by the one or the other changes next.
        int32_t next_ours = i == ours->n             ? INT32_MAX
                            : ours->at[i].first > at ? ours->at[i].first
                                                     : ours->at[i].last + 1;
        int32_t next_theirs = k == n_theirs ? INT32_MAX : theirs[k].first > at ? theirs[k].first : theirs[k].last + 1;
        int32_t next = next_ours < next_theirs ? next_ours : next_theirs;
        bool in_ours = i < ours->n && ours->at[i].first <= at;
        bool in_theirs = k < n_theirs && theirs[k].first <= at;
        if (in_ours != in_theirs) {
            if (c->changes.n == c->changes.cap && !CKM_I_GROW(c->changes.at, c->changes.n, c->changes.cap)) {
                return false;
            }
            c->changes.at[c->changes.n++] = (ckm_i_span){at, next - 1};
        }
        at = next;
        i += i < ours->n && ours->at[i].last < at;
        k += k < n_theirs && theirs[k].last < at;
    }
    return true;
}

static bool better(const ckm_i_search *s, const ckm_i_search_point *than)
{
    double excess = s->excess > 0.5 ? s->excess : 0.0;
    double excess_before = than->excess > 0.5 ? than->excess : 0.0;
    return excess < excess_before || (excess == excess_before && s->total_cost < than->total_cost);
}

// Flips x over first..last, piece by piece: a flip concerns the stages at its ends, and those in which x is used until
// now are concerned too.
static void change(ckm_i_search *s, int32_t x, int32_t first, int32_t last)
{
    while (first <= last) {
        int32_t event = ckm_i_search_event_from(s, x, first);
        int32_t end = event >= 0 && event < last ? event : last;
        ckm_i_search_flip(s, x, first, end);
        first = end + 1;
    }
}

// The last stage up to t that reads x; -1: none.
static int32_t last_read(const ckm_i_search *s, int32_t x, int32_t t)
{
    const ckm_i_dataflow_tensor *tensor = &s->df->tensors[x];
    int32_t best = -1;
    for (int32_t u = 0; u < tensor->n_users && tensor->users[u] <= t; u++) {
        const ckm_i_ints *again = &s->again[tensor->users[u]];
        int32_t i = again->n - 1;
        while (i >= 0 && again->at[i] > t) {
            i--;
        }
        int32_t stage = i >= 0 ? again->at[i] : tensor->users[u];
        best = stage > best ? stage : best;
    }
    return best;
}

// Settles, and lets go of what is held in vain because an operator that reads it runs in the other state only.
static bool settle(crossing *c, int32_t from, int32_t to)
{
    ckm_i_search *s = c->s;
    bool changed = true;
    while (changed) {
        if (!ckm_i_search_settle(s)) {
            return false;
        }
        changed = false;
        for (int32_t i = from; i < to; i++) {
            int32_t x = c->tensors.at[i];
            for (int32_t k = s->held[x].n - 1; k >= 0; k--) {
                ckm_i_span span = s->held[x].at[k];
                int32_t read = span.last == s->df->n_ops ? span.last : last_read(s, x, span.last);
                if (read < span.last) {
                    change(s, x, read + 1 > span.first ? read + 1 : span.first, span.last);
                    changed = true;
                }
            }
        }
    }
    return !s->failed;
}

// Holds tensors[from..to) as the other does where that is better. False when memory ran out.
static bool try_window(crossing *c, int32_t from, int32_t to)
{
    ckm_i_search *s = c->s;
    if (c->stop != NULL && c->stop(c->user)) {
        return true;
    }
    ckm_i_search_point point = ckm_i_search_now(s);
    s->most_cost = INT64_MAX;
    for (int32_t i = from; i < to; i++) {
        if (!find_changes(c, c->tensors.at[i])) {
            return false;
        }
        for (int32_t k = 0; k < c->changes.n; k++) {
            change(s, c->tensors.at[i], c->changes.at[k].first, c->changes.at[k].last);
        }
    }
    bool nothing = s->n_journal == point.n_journal;
    if (!nothing && settle(c, from, to) && better(s, &point)) {
        ckm_i_search_commit(s);
        c->improved = true;
        return !s->failed;
    }
    ckm_i_search_undo(s, &point);
    if (nothing || s->failed || to - from <= 1) {
        return !s->failed;
    }
    int32_t middle = from + (to - from) / 2;
    return try_window(c, from, middle) && try_window(c, middle, to);
}

const ckm_i_component ckm_i_component_crossing = {
    .name = "crossing",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "what other states of search hold otherwise, tried tensors by tensors",
};

ckm_status ckm_i_cross(ckm_i_search *s, const ckm_i_snapshot *other, bool (*stop)(void *user), void *user,
                       bool *improved, ckm_error *err)
{
    const ckm_dataflow *df = s->df;
    crossing c = {.s = s, .other = other, .stop = stop, .user = user};
    bool ok = true;
    for (int32_t v = 0; v < df->n_ops && ok; v++) {
        for (int32_t i = 0; i < df->ops[v].n_outputs && ok; i++) {
            int32_t x = df->ops[v].outputs[i];
            ok = find_changes(&c, x) && (c.changes.n == 0 || ckm_i_ints_push(&c.tensors, x));
        }
    }
    ok = ok && (c.tensors.n == 0 || try_window(&c, 0, c.tensors.n));
    s->excess = ckm_i_profile_excess(&s->peaks);
    free(c.tensors.at);
    free(c.changes.at);
    if (!ok) {
        return ckm_i_error_memory(err);
    }
    *improved = c.improved;
    return CKM_OK;
}
