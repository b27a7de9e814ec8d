// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/stage_cuts.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

// Stretches into which the range of places to try is divided; in each the operators with most to hold are tried.
enum { n_stretches = 8 };

// Whether nothing reads the storage of x after operator v.
static bool ends_at(const ckm_dataflow *df, int32_t x, int32_t v)
{
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    return tensor->storage == x && !tensor->is_result && tensor->n_users > 0 && tensor->users[tensor->n_users - 1] == v;
}

// Bytes that live while each operator runs when nothing is recomputed, and those without what in-place pairs save.
static void find_live(const ckm_dataflow *df, int64_t *live, int64_t *net)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (tensor->pinned || tensor->producer < 0 || tensor->storage != x) {
            continue;
        }
        int32_t last = tensor->is_result ? df->n_ops - 1 : tensor->producer;
        if (tensor->n_users > 0 && tensor->users[tensor->n_users - 1] > last) {
            last = tensor->users[tensor->n_users - 1];
        }
        live[tensor->producer] += tensor->bytes;
        live[last + 1] -= tensor->bytes;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        live[v + 1] += live[v];  // the last entry is not used
        net[v] = live[v] + df->ops[v].workspace_bytes;
        for (int32_t i = 0; i < df->ops[v].n_inplace; i++) {
            const int32_t *pair = df->ops[v].inplace[i];
            net[v] -= ends_at(df, pair[0], v) ? df->tensors[pair[1]].bytes : 0;
        }
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        live[v] += df->ops[v].workspace_bytes;
    }
}

ckm_status ckm_i_stage_cuts_init(const ckm_dataflow *df, int32_t first, ckm_i_stage_cuts *out, ckm_error *err)
{
    size_t n = (size_t)df->n_ops;
    ckm_i_stage_cuts c = {.n_ops = df->n_ops, .first = first, .best = -1, .from = first, .to = df->n_ops};
    c.live[0] = ckm_i_calloc(n + 1, sizeof *c.live[0]);
    c.live[1] = ckm_i_calloc(n + 1, sizeof *c.live[1]);
    c.score = ckm_i_malloc(n, sizeof *c.score);
    c.next = ckm_i_malloc((size_t)2 * n_stretches, sizeof *c.next);
    if (c.live[0] == NULL || c.live[1] == NULL || c.score == NULL || c.next == NULL) {
        ckm_i_stage_cuts_dispose(&c);
        return ckm_i_error_memory(err);
    }
    find_live(df, c.live[0], c.live[1]);
    for (int32_t v = 0; v < df->n_ops; v++) {
        c.score[v] = -INFINITY;
    }
    *out = c;
    return CKM_OK;
}

void ckm_i_stage_cuts_dispose(ckm_i_stage_cuts *cuts)
{
    free(cuts->live[0]);
    free(cuts->live[1]);
    free(cuts->score);
    free(cuts->next);
}

// The operator from `from` on, before `to`, with most to hold.
static int32_t fullest(const int64_t *live, int32_t from, int32_t to)
{
    int32_t best = from;
    for (int32_t v = from + 1; v < to; v++) {
        best = live[v] > live[best] ? v : best;
    }
    return best;
}

static void add_place(ckm_i_stage_cuts *c, int32_t v)
{
    bool known = c->score[v] > -INFINITY;
    for (int32_t i = 0; i < c->n_next; i++) {
        known = known || c->next[i] == v;
    }
    if (!known) {
        c->next[c->n_next++] = v;
    }
}

int32_t ckm_i_stage_cuts_next(ckm_i_stage_cuts *c)
{
    while (c->at == c->n_next && c->from < c->to) {
        if (c->best < 0 && c->n_next > 0) {
            c->from = c->to;  // nothing tried gave a bound
        }
        int64_t range = c->to - c->from;
        int64_t n = range < n_stretches ? range : n_stretches;
        c->n_next = 0;
        c->at = 0;
        // A second time it is about the surroundings of the best, as far as its neighbours.
        if (c->best >= 0) {
            int32_t reach = (int32_t)(range / n_stretches);
            c->from = c->best - reach > c->from ? c->best - reach : c->from;
            c->to = reach == 0 ? c->from : c->best + reach + 1 < c->to ? c->best + reach + 1 : c->to;
            range = c->to - c->from;
            n = range < n_stretches ? range : n_stretches;
        }
        for (int64_t k = 0; k < n; k++) {
            int32_t from = c->from + (int32_t)(range * k / n);
            int32_t to = c->from + (int32_t)(range * (k + 1) / n);
            add_place(c, fullest(c->live[0], from, to));
            add_place(c, fullest(c->live[1], from, to));
        }
    }
    return c->at < c->n_next ? c->next[c->at++] : -1;
}

void ckm_i_stage_cuts_score(ckm_i_stage_cuts *c, int32_t cut, double bound)
{
    c->score[cut] = bound;
    if (bound > -INFINITY && (c->best < 0 || bound > c->score[c->best])) {
        c->best = cut;
    }
}

int32_t ckm_i_stage_cuts_choose(const ckm_i_stage_cuts *c, int32_t n_cuts, int32_t *out)
{
    int64_t range = c->n_ops - c->first;
    int64_t n = n_cuts < range ? n_cuts : range;
    for (int64_t k = 0; k < n; k++) {
        int32_t from = c->first + (int32_t)(range * k / n);
        int32_t to = c->first + (int32_t)(range * (k + 1) / n);
        out[k] = fullest(c->live[0], from, to);
        for (int32_t v = from; v < to; v++) {
            out[k] = c->score[v] > c->score[out[k]] ? v : out[k];
        }
    }
    return (int32_t)n;
}
