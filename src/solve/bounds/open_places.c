// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/cut_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/core/structure.h"

// Steps that may go into looking at operators; where all of them take more, only some are looked at.
static const double most_steps = 3e8;

// What has to be held at a cut in any order, or computed again.
typedef struct item {
    double bytes, cost;
} item;

static int by_price(const void *a, const void *b)
{
    const item *p = a;
    const item *q = b;
    double left = p->cost * q->bytes;
    double right = q->cost * p->bytes;
    return left < right ? -1 : left > right;
}

static void touch(const ckm_dataflow *df, int32_t v, bool *storages, bool to)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        storages[df->tensors[i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs]].storage] = to;
    }
}

static bool is_read_after(const ckm_dataflow *df, const ckm_i_open_reach *reach, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    bool read = tensor->is_result;
    for (int32_t i = 0; i < tensor->n_users && !read; i++) {
        read = reach->after[tensor->users[i]];
    }
    return read;
}

// What is made before the cut in any order and read after it, on storages that its operator does not touch. `touched` has
// those that are counted, until the next call.
static int32_t collect(const ckm_dataflow *df, const ckm_i_open_reach *reach, int32_t cut, item *items, bool *touched)
{
    int32_t n = 0;
    memset(touched, 0, (size_t)df->n_tensors * sizeof *touched);
    touch(df, cut, touched, true);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int32_t p = tensor->producer;
        if (tensor->pinned || p < 0 || !reach->before[p] || touched[tensor->storage] || !is_read_after(df, reach, x)) {
            continue;
        }
        double cost = df->ops[p].recomputable ? (double)df->ops[p].cost : INFINITY;
        double bytes = (double)df->tensors[tensor->storage].bytes;
        touched[tensor->storage] = true;
        if (bytes > 0.0) {
            items[n++] = (item){bytes, cost};
        }
    }
    return n;
}

// The cheapest part of it that has to be computed again for the rest to fit; by how much all fits, less than zero, in parts
// of the room.
static double promise_of(const ckm_dataflow *df, int32_t cut, int64_t room, item *items, int32_t n)
{
    double over = -(double)(room - ckm_i_working_set(df, cut));
    for (int32_t i = 0; i < n; i++) {
        over += items[i].bytes;
    }
    if (over <= 0.0) {
        return over / fmax((double)room, 1.0);
    }
    double cost = 0.0;
    qsort(items, (size_t)n, sizeof *items, by_price);
    for (int32_t i = 0; i < n && over > 0.0; i++) {
        cost += items[i].cost * fmin(1.0, over / items[i].bytes);
        over -= items[i].bytes;
    }
    return over > 0.0 ? INFINITY : cost;
}

static void find_promises(ckm_i_open_places *p, int64_t budget_bytes, item *items, bool *touched)
{
    const ckm_dataflow *df = p->df;
    double steps = (double)df->n_ops * ((double)df->n_edges + 20.0 * (double)df->n_tensors);
    int32_t stride = 1 + (int32_t)(steps / most_steps);
    for (int32_t v = 0; v < df->n_ops; v++) {
        p->promise[v] = -INFINITY;
        if (v % stride == stride / 2) {
            ckm_i_open_find_reach(df, v, &p->reach);
            int32_t n = collect(df, &p->reach, v, items, touched);
            p->promise[v] = promise_of(df, v, budget_bytes - df->resident_bytes, items, n);
        }
    }
}

ckm_status ckm_i_open_places_init(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_open_places *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)df->n_ops;
    ckm_i_open_places p = {.df = df, .best = -1};
    item *items = ckm_i_malloc((size_t)df->n_tensors, sizeof *items);
    bool *touched = ckm_i_malloc((size_t)df->n_tensors, sizeof *touched);
    p.promise = ckm_i_malloc(n, sizeof *p.promise);
    p.score = ckm_i_malloc(n, sizeof *p.score);
    p.fits = ckm_i_malloc(n, sizeof *p.fits);
    p.reach.before = ckm_i_malloc(n, sizeof *p.reach.before);
    p.reach.after = ckm_i_malloc(n, sizeof *p.reach.after);
    if (items == NULL || touched == NULL || p.promise == NULL || p.score == NULL || p.fits == NULL ||
        p.reach.before == NULL || p.reach.after == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        p.score[v] = -INFINITY;
    }
    find_promises(&p, budget_bytes, items, touched);
    *out = p;
    p = (ckm_i_open_places){0};
cleanup:
    free(items);
    free(touched);
    ckm_i_open_places_dispose(&p);
    return status;
}

void ckm_i_open_places_dispose(ckm_i_open_places *p)
{
    free(p->promise);
    free(p->score);
    free(p->fits);
    free(p->reach.before);
    free(p->reach.after);
}

static void consider(const ckm_i_open_places *p, int32_t v, int32_t *best)
{
    bool open = v >= 0 && p->score[v] == -INFINITY && p->promise[v] > -INFINITY;
    if (open && (*best < 0 || p->promise[v] > p->promise[*best])) {
        *best = v;
    }
}

int32_t ckm_i_open_places_next(const ckm_i_open_places *p)
{
    const ckm_dataflow *df = p->df;
    int32_t next = -1;
    if (p->best >= 0 && p->n_tried % 2 == 1) {
        const ckm_i_dataflow_op *op = &df->ops[p->best];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            consider(p, df->tensors[op->inputs[i]].producer, &next);
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            const ckm_i_dataflow_tensor *x = &df->tensors[op->outputs[i]];
            for (int32_t u = 0; u < x->n_users; u++) {
                consider(p, x->users[u], &next);
            }
        }
    }
    for (int32_t v = 0; next < 0 && v < df->n_ops; v++) {
        consider(p, v, &next);
        if (next >= 0) {
            for (int32_t u = v + 1; u < df->n_ops; u++) {
                consider(p, u, &next);
            }
            break;
        }
    }
    return next;
}

void ckm_i_open_places_score(ckm_i_open_places *p, int32_t cut, double bound)
{
    p->n_tried++;
    p->score[cut] = fmax(bound, -1e300);
    if (bound > -INFINITY && (p->best < 0 || bound > p->score[p->best])) {
        p->best = cut;
    }
}

// Leaves in `fits` what can be on a chain with the cut.
static void keep_comparable(ckm_i_open_places *p, int32_t cut)
{
    ckm_i_open_find_reach(p->df, cut, &p->reach);
    for (int32_t v = 0; v < p->df->n_ops; v++) {
        p->fits[v] = p->fits[v] && (p->reach.before[v] || p->reach.after[v]);
    }
}

// How much a further cut after v is worth in addition to the n there are: its promise times how far it is from the next one.
static double worth(const ckm_i_open_places *p, int32_t v, const int32_t *cuts, int32_t n)
{
    int32_t nearest = p->df->n_ops;
    for (int32_t i = 0; i < n; i++) {
        int32_t distance = abs(v - cuts[i]);
        nearest = distance < nearest ? distance : nearest;
    }
    double promise = fmin(p->promise[v], 1e300);
    return (promise > 0.0 ? promise : 1e-9 * (1.0 + fmax(promise, -1.0))) * nearest;
}

static int ascending(const void *a, const void *b)
{
    int32_t p = *(const int32_t *)a;
    int32_t q = *(const int32_t *)b;
    return p < q ? -1 : p > q;
}

int32_t ckm_i_open_places_chain(ckm_i_open_places *p, int32_t n_cuts, int32_t *out)
{
    int32_t n = 0;
    memset(p->fits, true, (size_t)p->df->n_ops * sizeof *p->fits);
    for (int32_t next = p->best; next >= 0 && n < n_cuts;) {
        out[n++] = next;
        keep_comparable(p, next);
        next = -1;
        double most = 0.0;
        for (int32_t v = 0; v < p->df->n_ops; v++) {
            double here = p->fits[v] ? worth(p, v, out, n) : 0.0;
            if (here > most) {
                most = here;
                next = v;
            }
        }
    }
    qsort(out, (size_t)n, sizeof *out, ascending);
    return n;
}
