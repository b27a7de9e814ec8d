// SPDX-License-Identifier: Apache-2.0
// Attention in tiles: no more of the scores is held than a tile of queries by keys a thread. An item of the work is a
// number of queries of one head; it goes through the keys block by block, k' and v of a block packed once for all of
// its queries. Items and the order within them follow from shapes, so that results do not depend on the threads.
#include "ops/attention/cpu_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_threads.h"
#include "ops/attention/ref_attention.h"
#include "ops/training/ref_dropout.h"

enum {
    PANEL = CKM_I_ATTENTION_PANEL,
    TILE_QUERIES = CKM_I_ATTENTION_TILE_QUERIES,
    TILE_KEYS = CKM_I_ATTENTION_TILE_KEYS
};

// Queries of an item: more where there are many heads, so that blocks of keys are packed less often.
enum { MANY_HEADS = 16, QUERIES_OF_MANY = 256 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t padded(int64_t n)
{
    return ckm_i_cpu_attention_panels(n) * PANEL;
}

// ---- forward

// A thread's memory, and the item that it works on.
typedef struct worker {
    const ckm_i_cpu_attention_call *c;
    float *keys, *values, *scores, *sums, *best, *total, *kept;
    int64_t batch, head, query, queries;  // of the item
} worker;

static int64_t forward_scratch(const ckm_i_cpu_attention_plan *p)
{
    int64_t rows = p->queries_of_item;
    return p->tile_keys * (p->f.size + p->value_room + 1) + p->tile_queries * p->score_row + rows * p->value_room +
           2 * padded(rows);
}

static worker worker_of(const ckm_i_cpu_attention_call *c, int64_t thread)
{
    const ckm_i_cpu_attention_plan *p = c->p;
    worker w = {.c = c, .keys = c->scratch + thread * p->scratch};
    w.values = w.keys + p->tile_keys * p->f.size;
    w.scores = w.values + p->tile_keys * p->value_room;
    w.sums = w.scores + p->tile_queries * p->score_row;
    w.best = w.sums + p->queries_of_item * p->value_room;
    w.total = w.best + padded(p->queries_of_item);
    w.kept = w.total + padded(p->queries_of_item);
    return w;
}

// Adds what a block of keys gives to the sums of the item's queries.
static void add_keys(const worker *w, int64_t key, int64_t keys)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    const ckm_i_attention_form *f = &p->f;
    int64_t kv_head = w->head / (f->heads / f->kv_heads);
    ckm_i_cpu_attention_pack_transposed(w->c->k + ckm_i_cpu_attention_at(&f->k, w->batch, kv_head, key), f->k.position,
                                        keys, f->size, w->keys);
    ckm_i_cpu_attention_pack(w->c->v + ckm_i_cpu_attention_at(&f->v, w->batch, kv_head, key), f->v.position, keys,
                             f->value_size, w->values);
    for (int64_t from = 0; from < w->queries; from += p->tile_queries) {
        int64_t rows = least(p->tile_queries, w->queries - from);
        int64_t query = w->query + from;
        if (ckm_i_cpu_attention_seen(f, query + rows, key, keys) == 0) {
            continue;
        }
        ckm_i_cpu_attention_product scores = {.rows = rows,
                                              .inner = f->size,
                                              .panels = ckm_i_cpu_attention_panels(keys),
                                              .a = w->c->q + ckm_i_cpu_attention_at(&f->q, w->batch, w->head, query),
                                              .a_row = f->q.position,
                                              .a_column = 1,
                                              .b = w->keys,
                                              .panel_stride = f->size * PANEL,
                                              .c = w->scores,
                                              .c_row = p->score_row};
        ckm_i_cpu_attention_tile tile = {.c = w->c,
                                         .batch = w->batch,
                                         .head = w->head,
                                         .query = query,
                                         .rows = rows,
                                         .key = key,
                                         .keys = keys,
                                         .scores = w->scores,
                                         .kept = w->kept,
                                         .best = w->best + from,
                                         .sum = w->total + from,
                                         .y = w->sums + from * p->value_room,
                                         .begins = key == 0};
        ckm_i_cpu_attention_product values = {.rows = rows,
                                              .inner = keys,
                                              .panels = ckm_i_cpu_attention_panels(f->value_size),
                                              .a = w->scores,
                                              .a_row = p->score_row,
                                              .a_column = 1,
                                              .b = w->values,
                                              .panel_stride = keys * PANEL,
                                              .c = tile.y,
                                              .c_row = p->value_room,
                                              .add = key > 0};
        p->multiply(&scores);
        ckm_i_cpu_attention_forward_rows(&tile);
        p->multiply(&values);
    }
}

// Divides by the sums of exponentials. A row that has seen nothing gives zeros.
static void write_rows(const worker *w)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    const ckm_i_attention_form *f = &p->f;
    float *lse = w->c->lse + (w->batch * f->heads + w->head) * f->queries + w->query;
    for (int64_t row = 0; row < w->queries; row++) {
        float *y = w->c->y + ckm_i_cpu_attention_at(&f->y, w->batch, w->head, w->query + row);
        const float *sums = w->sums + row * p->value_room;
        float factor = w->total[row] == 0.0F ? 0.0F : 1.0F / w->total[row];
        for (int64_t d = 0; d < f->value_size; d++) {
            y[d] = sums[d] * factor;
        }
        if (w->c->lse != NULL) {
            lse[row] = w->total[row] == 0.0F ? INFINITY : w->best[row] + logf(w->total[row]);
        }
    }
}

static void forward_item(worker *w, int64_t item)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    const ckm_i_attention_form *f = &p->f;
    w->batch = item / (f->heads * p->chunks);
    w->head = item / p->chunks % f->heads;
    w->query = item % p->chunks * p->queries_of_item;
    w->queries = least(p->queries_of_item, f->queries - w->query);
    for (int64_t key = 0; key < f->keys; key += TILE_KEYS) {
        int64_t keys = least(TILE_KEYS, f->keys - key);
        if (ckm_i_cpu_attention_seen(f, w->query + w->queries, key, keys) > 0) {
            add_keys(w, key, keys);
        }
    }
    write_rows(w);
}

static void forward_part(void *context, int64_t begin, int64_t end)
{
    const ckm_i_cpu_attention_call *c = context;
    for (int64_t thread = begin; thread < end; thread++) {
        worker w = worker_of(c, thread);
        int64_t last = c->p->items * (thread + 1) / c->p->threads;
        for (int64_t item = c->p->items * thread / c->p->threads; item < last; item++) {
            forward_item(&w, item);
        }
    }
}

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    ckm_i_cpu_attention_call c = ckm_i_cpu_attention_open(kernel, call, 0);
    c.y = call->outputs[0];
    c.lse = kernel->step->ops[kernel->op].n_outputs > 1 ? call->outputs[1] : NULL;
    c.scratch = call->workspace;
    ckm_i_cpu_parallel(cpu->threads, c.p->threads, 1, forward_part, &c);
    return CKM_OK;
}

// ---- preparing

// Which part of a rolled map a position belongs to, for the four kinds of windows: at the far end of either axis, of
// both, of none.
static ckm_status make_parts(ckm_i_cpu_attention_plan *p, ckm_error *err)
{
    const ckm_i_attention_form *f = &p->f;
    if (f->hides != CKM_I_ATTENTION_WINDOWS || (f->shift[0] == 0 && f->shift[1] == 0)) {
        return CKM_OK;
    }
    ckm_i_ref_map map = {{f->grid[0], f->grid[1]}, {f->window[0], f->window[1]}, {f->shift[0], f->shift[1]}};
    int64_t down = f->grid[0] / f->window[0];
    int64_t across = f->grid[1] / f->window[1];
    p->parts = ckm_i_malloc(4 * (size_t)f->keys, sizeof *p->parts);
    if (p->parts == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int kind = 0; kind < 4; kind++) {
        // Where there is one window along an axis it is at the end; the other kinds are not asked for.
        int64_t window = (kind / 2 != 0 ? down - 1 : 0) * across + (kind % 2 != 0 ? across - 1 : 0);
        for (int64_t k = 0; k < f->keys; k++) {
            p->parts[kind * f->keys + k] = (float)ckm_i_ref_map_part(&map, window, k);
        }
    }
    return CKM_OK;
}

static void dispose(void *data)
{
    ckm_i_cpu_attention_plan *p = data;
    free(p->parts);
    free(p);
}

static ckm_status create(const ckm_i_op_view *v, int32_t first, ckm_i_kernel *kernel, ckm_i_cpu_attention_plan **out,
                         ckm_error *err)
{
    ckm_i_cpu_attention_plan *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->data = p;
    kernel->dispose = dispose;
    CKM_I_CHECK(ckm_i_attention_read(v, first, &p->f, err));
    CKM_I_CHECK(make_parts(p, err));
    p->multiply = ckm_i_cpu_attention_multiply_best();
    p->tile_queries = least(TILE_QUERIES, p->f.queries);
    p->tile_keys = padded(least(TILE_KEYS, p->f.keys));
    p->score_row = p->tile_keys + PANEL;
    p->size_room = padded(p->f.size);
    p->value_room = padded(p->f.value_size);
    *out = p;
    return CKM_OK;
}

// Whether heads are so large that the size of a tile would overflow.
static bool too_long(const ckm_i_op_view *v, int32_t first)
{
    return v->in[first + CKM_I_ATTENTION_K]->shape.dims[3] > INT32_MAX ||
           v->in[first + CKM_I_ATTENTION_V]->shape.dims[3] > INT32_MAX;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_i_cpu_attention_plan *p;
    if (too_long(v, 0)) {
        return CKM_OK;
    }
    CKM_I_CHECK(create(v, 0, kernel, &p, err));
    int64_t heads = p->f.batch * p->f.heads;
    p->queries_of_item = least(p->f.queries, heads < MANY_HEADS ? TILE_QUERIES : QUERIES_OF_MANY);
    p->chunks = (p->f.queries + p->queries_of_item - 1) / p->queries_of_item;
    p->items = heads * p->chunks;
    p->threads = least(cpu->threads, p->items);
    p->scratch = padded(forward_scratch(p));
    kernel->workspace_bytes = p->threads * p->scratch * (int64_t)sizeof(float);
    kernel->run = run_forward;
    return CKM_OK;
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_i_cpu_attention_plan *p;
    int64_t partial_floats;
    if (too_long(v, CKM_I_ATTENTION_GRADIENTS)) {
        return CKM_OK;
    }
    CKM_I_CHECK(create(v, CKM_I_ATTENTION_GRADIENTS, kernel, &p, err));
    ckm_i_cpu_attention_plan_backward(p, cpu->threads, v->op->n_outputs > CKM_I_ATTENTION_BIAS, &partial_floats);
    kernel->workspace_bytes = (p->threads * p->scratch + partial_floats) * (int64_t)sizeof(float);
    kernel->run = ckm_i_cpu_attention_run_backward;
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_attention[] = {
    {CKM_I_OP_attention, prepare_forward},
    {CKM_I_OP_attention_backward, prepare_backward},
    {0},
};
