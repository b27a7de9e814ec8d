// SPDX-License-Identifier: Apache-2.0
// The gradient of attention in tiles. An item of the work is one head of k and v, all heads of q that share it, and
// every query: the gradients of k and v are then sums within an item. Where there are few heads, an item takes a part
// of the keys, and the gradient of q is added up from the parts; where the bias has a gradient, an item takes a number of samples,
// and that gradient is added up from the items. All of it follows from shapes, so that results do not depend on the
// threads.
#include <string.h>

#include "ops/attention/cpu_attention.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/cpu_threads.h"

enum { PANEL = CKM_I_ATTENTION_PANEL, TILE_KEYS = CKM_I_ATTENTION_TILE_KEYS };

// Items there should be, if shapes allow it.
enum { FEW_ITEMS = 8, ITEMS_WITH_BIAS = 32 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t scratch_of(const ckm_i_cpu_attention_plan *p)
{
    int64_t keys = p->tile_keys;
    int64_t queries = p->tile_queries;
    return keys * (p->f.size + p->f.value_size + 2 * p->size_room + p->value_room + 1) +
           queries * (2 * p->size_room + p->value_room + 2 * p->score_row);
}

void ckm_i_cpu_attention_plan_backward(ckm_i_cpu_attention_plan *p, int threads, bool bias, int64_t *partial_floats)
{
    const ckm_i_attention_form *f = &p->f;
    const int64_t *d = f->bias.dims;
    int64_t blocks = (f->keys + TILE_KEYS - 1) / TILE_KEYS;
    int64_t units = f->batch * f->kv_heads;
    p->batch_parts = f->batch;
    p->key_parts = 1;
    if (bias && d[0] == 1) {
        p->batch_parts = least(f->batch, (ITEMS_WITH_BIAS + f->kv_heads - 1) / f->kv_heads);
    } else if (!bias && units < FEW_ITEMS && blocks > 1) {
        p->key_parts = least(blocks, (FEW_ITEMS + units - 1) / units);
    }
    p->bias_slot = bias ? d[2] * d[3] : 0;
    bool direct = bias && p->batch_parts == d[0] && d[1] == f->heads;
    p->bias_partials = bias && !direct ? p->batch_parts * f->heads : 0;
    p->items = p->batch_parts * f->kv_heads * p->key_parts;
    p->threads = least(threads, p->items);
    p->scratch = ckm_i_cpu_attention_panels(scratch_of(p)) * PANEL;
    int64_t dq = p->key_parts > 1 ? p->key_parts * f->batch * f->heads * f->queries * f->size : 0;
    *partial_floats = ckm_i_cpu_attention_panels(dq) * PANEL + p->bias_partials * p->bias_slot;
}

// A thread's memory and where it is.
typedef struct worker {
    const ckm_i_cpu_attention_call *c;
    // k', v' and k of a block of keys; the gradients of k and v; q, dy and dq of a tile; scores and their gradient
    float *keys_turned, *values_turned, *keys, *dk, *dv, *q, *dy, *dq, *scores, *gradient, *kept;
    int64_t batch, kv_head, key_part, batch_part;
    int64_t head, key, n_keys;
} worker;

static worker worker_of(const ckm_i_cpu_attention_call *c, int64_t thread)
{
    const ckm_i_cpu_attention_plan *p = c->p;
    worker w = {.c = c, .keys_turned = c->scratch + thread * p->scratch};
    w.values_turned = w.keys_turned + p->tile_keys * p->f.size;
    w.keys = w.values_turned + p->tile_keys * p->f.value_size;
    w.dk = w.keys + p->tile_keys * p->size_room;
    w.dv = w.dk + p->tile_keys * p->size_room;
    w.q = w.dv + p->tile_keys * p->value_room;
    w.dq = w.q + p->tile_queries * p->size_room;
    w.dy = w.dq + p->tile_queries * p->size_room;
    w.scores = w.dy + p->tile_queries * p->value_room;
    w.gradient = w.scores + p->tile_queries * p->score_row;
    w.kept = w.gradient + p->tile_queries * p->score_row;
    return w;
}

// Where the gradient of q is added up: in the output, or in this part's share of the workspace.
static float *dq_at(const worker *w, int64_t head, int64_t query, int64_t *row)
{
    const ckm_i_attention_form *f = &w->c->p->f;
    if (w->c->partial_dq == NULL) {
        *row = f->q.position;
        return w->c->dq != NULL ? w->c->dq + ckm_i_cpu_attention_at(&f->q, w->batch, head, query) : NULL;
    }
    *row = f->size;
    return w->c->partial_dq + (((w->key_part * f->batch + w->batch) * f->heads + head) * f->queries + query) * f->size;
}

static float *bias_gradient_at(const worker *w)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    if (p->bias_slot == 0) {
        return NULL;
    }
    float *base = p->bias_partials > 0 ? w->c->partial_dbias : w->c->dbias;
    return base + (w->batch_part * p->f.heads + w->head) * p->bias_slot;
}

static void multiply_scores(const worker *w, const float *a, const ckm_i_attention_strides *strides, int64_t inner,
                            int64_t query, int64_t n, const float *b, float *c)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    ckm_i_cpu_attention_product product = {.rows = n,
                                           .inner = inner,
                                           .panels = ckm_i_cpu_attention_panels(w->n_keys),
                                           .a = a + ckm_i_cpu_attention_at(strides, w->batch, w->head, query),
                                           .a_row = strides->position,
                                           .a_column = 1,
                                           .b = b,
                                           .panel_stride = inner * PANEL,
                                           .c = c,
                                           .c_row = p->score_row};
    p->multiply(&product);
}

// What a product is written or added to: rows of an output, or of the thread's memory where the output's rows do not
// end with a panel.
typedef struct rows {
    float *data;
    int64_t row, columns;
    float *room;  // `columns` rounded up to panels a row
} rows;

static bool is_whole(const rows *r)
{
    return r->data != NULL && r->columns % PANEL == 0;
}

static void set_target(const rows *r, int64_t room, ckm_i_cpu_attention_product *product)
{
    product->c = is_whole(r) ? r->data : r->room;
    product->c_row = is_whole(r) ? r->row : room;
}

CKM_I_CPU_CLONES static void attention_add(const float *x, int64_t n, float *y)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        y[i] += x[i];
    }
}

// out = scores' b, a row a key, or out += it.
static void multiply_turned(const worker *w, const float *scores, int64_t inner, const float *b, int64_t room,
                            const rows *out, bool add)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    ckm_i_cpu_attention_product product = {.rows = w->n_keys,
                                           .inner = inner,
                                           .panels = room / PANEL,
                                           .a = scores,
                                           .a_row = 1,
                                           .a_column = p->score_row,
                                           .b = b,
                                           .panel_stride = inner * PANEL,
                                           .add = add};
    set_target(out, room, &product);
    p->multiply(&product);
}

static void add_dq(const worker *w, int64_t query, int64_t n)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    rows out = {.columns = p->f.size, .room = w->dq};
    out.data = dq_at(w, w->head, query, &out.row);
    if (out.data == NULL) {
        return;
    }
    ckm_i_cpu_attention_product product = {.rows = n,
                                           .inner = w->n_keys,
                                           .panels = p->size_room / PANEL,
                                           .a = w->gradient,
                                           .a_row = p->score_row,
                                           .a_column = 1,
                                           .b = w->keys,
                                           .panel_stride = w->n_keys * PANEL,
                                           .add = is_whole(&out)};
    set_target(&out, p->size_room, &product);
    p->multiply(&product);
    for (int64_t i = 0; !is_whole(&out) && i < n; i++) {
        attention_add(w->dq + i * p->size_room, p->f.size, out.data + i * out.row);
    }
}

static void add_tile(const worker *w, int64_t query, int64_t n, const rows *dk, const rows *dv, bool begins)
{
    const ckm_i_cpu_attention_call *c = w->c;
    const ckm_i_cpu_attention_plan *p = c->p;
    const ckm_i_attention_form *f = &p->f;
    ckm_i_cpu_attention_tile tile = {.c = c,
                                     .batch = w->batch,
                                     .head = w->head,
                                     .query = query,
                                     .rows = n,
                                     .key = w->key,
                                     .keys = w->n_keys,
                                     .scores = w->scores,
                                     .kept = w->kept,
                                     .gradient = w->gradient,
                                     .bias_gradient = bias_gradient_at(w)};
    ckm_i_cpu_attention_pack(c->q + ckm_i_cpu_attention_at(&f->q, w->batch, w->head, query), f->q.position, n, f->size,
                             w->q);
    ckm_i_cpu_attention_pack(c->dy + ckm_i_cpu_attention_at(&f->y, w->batch, w->head, query), f->y.position, n,
                             f->value_size, w->dy);
    multiply_scores(w, c->q, &f->q, f->size, query, n, w->keys_turned, w->scores);
    multiply_scores(w, c->dy, &f->y, f->value_size, query, n, w->values_turned, w->gradient);
    ckm_i_cpu_attention_backward_rows(&tile);
    multiply_turned(w, w->scores, n, w->dy, p->value_room, dv, !begins);
    multiply_turned(w, w->gradient, n, w->q, p->size_room, dk, !begins);
    add_dq(w, query, n);
}

static void copy_rows(const rows *r, int64_t n, int64_t room)
{
    for (int64_t i = 0; r->data != NULL && !is_whole(r) && i < n; i++) {
        memcpy(r->data + i * r->row, r->room + i * room, (size_t)r->columns * sizeof *r->data);
    }
}

// A block of keys with all queries of the heads that share it.
static void add_keys(worker *w)
{
    const ckm_i_cpu_attention_call *c = w->c;
    const ckm_i_cpu_attention_plan *p = c->p;
    const ckm_i_attention_form *f = &p->f;
    int64_t shared = f->heads / f->kv_heads;
    int64_t k_at = ckm_i_cpu_attention_at(&f->k, w->batch, w->kv_head, w->key);
    int64_t v_at = ckm_i_cpu_attention_at(&f->v, w->batch, w->kv_head, w->key);
    ckm_i_cpu_attention_pack_transposed(c->k + k_at, f->k.position, w->n_keys, f->size, w->keys_turned);
    ckm_i_cpu_attention_pack_transposed(c->v + v_at, f->v.position, w->n_keys, f->value_size, w->values_turned);
    ckm_i_cpu_attention_pack(c->k + k_at, f->k.position, w->n_keys, f->size, w->keys);
    rows dk = {.data = c->dk != NULL ? c->dk + k_at : NULL, .row = f->k.position, .columns = f->size, .room = w->dk};
    rows dv = {
        .data = c->dv != NULL ? c->dv + v_at : NULL, .row = f->v.position, .columns = f->value_size, .room = w->dv};
    bool begins = true;
    for (w->head = w->kv_head * shared; w->head < (w->kv_head + 1) * shared; w->head++) {
        for (int64_t query = 0; query < f->queries; query += p->tile_queries) {
            int64_t n = least(p->tile_queries, f->queries - query);
            if (ckm_i_cpu_attention_seen(f, query + n, w->key, w->n_keys) > 0) {
                add_tile(w, query, n, &dk, &dv, begins);  // the last query sees every key: there is one
                begins = false;
            }
        }
    }
    copy_rows(&dk, w->n_keys, p->size_room);
    copy_rows(&dv, w->n_keys, p->value_room);
}

static void clear_sums(worker *w)
{
    const ckm_i_attention_form *f = &w->c->p->f;
    int64_t shared = f->heads / f->kv_heads;
    for (int64_t head = w->kv_head * shared; head < (w->kv_head + 1) * shared; head++) {
        for (int64_t query = 0; query < f->queries; query++) {
            int64_t row;
            float *dq = dq_at(w, head, query, &row);
            if (dq != NULL) {
                memset(dq, 0, (size_t)f->size * sizeof *dq);
            }
        }
    }
}

static void backward_item(worker *w, int64_t item)
{
    const ckm_i_cpu_attention_plan *p = w->c->p;
    const ckm_i_attention_form *f = &p->f;
    int64_t blocks = (f->keys + TILE_KEYS - 1) / TILE_KEYS;
    w->key_part = item % p->key_parts;
    w->kv_head = item / p->key_parts % f->kv_heads;
    w->batch_part = item / p->key_parts / f->kv_heads;
    int64_t shared = f->heads / f->kv_heads;
    for (w->head = w->kv_head * shared; p->bias_slot > 0 && w->head < (w->kv_head + 1) * shared; w->head++) {
        memset(bias_gradient_at(w), 0, (size_t)p->bias_slot * sizeof(float));
    }
    int64_t last_sample = f->batch * (w->batch_part + 1) / p->batch_parts;
    int64_t last_block = blocks * (w->key_part + 1) / p->key_parts;
    for (w->batch = f->batch * w->batch_part / p->batch_parts; w->batch < last_sample; w->batch++) {
        clear_sums(w);
        for (int64_t block = blocks * w->key_part / p->key_parts; block < last_block; block++) {
            w->key = block * TILE_KEYS;
            w->n_keys = least(TILE_KEYS, f->keys - w->key);
            add_keys(w);
        }
    }
}

static void backward_part(void *context, int64_t begin, int64_t end)
{
    const ckm_i_cpu_attention_call *c = context;
    for (int64_t thread = begin; thread < end; thread++) {
        worker w = worker_of(c, thread);
        int64_t last = c->p->items * (thread + 1) / c->p->threads;
        for (int64_t item = c->p->items * thread / c->p->threads; item < last; item++) {
            backward_item(&w, item);
        }
    }
}

// Rows of q whose gradient is the sum of the parts'.
static void join_dq(void *context, int64_t begin, int64_t end)
{
    const ckm_i_cpu_attention_call *c = context;
    const ckm_i_attention_form *f = &c->p->f;
    int64_t n = f->batch * f->heads * f->queries;
    for (int64_t i = begin; i < end; i++) {
        int64_t batch = i / (f->heads * f->queries);
        float *out = c->dq + ckm_i_cpu_attention_at(&f->q, batch, i / f->queries % f->heads, i % f->queries);
        memcpy(out, c->partial_dq + i * f->size, (size_t)f->size * sizeof *out);
        for (int64_t part = 1; part < c->p->key_parts; part++) {
            attention_add(c->partial_dq + (part * n + i) * f->size, f->size, out);
        }
    }
}

// Sums over samples, and over heads where they share a bias, in their order.
static void join_bias(const ckm_i_cpu_attention_call *c)
{
    const ckm_i_cpu_attention_plan *p = c->p;
    const ckm_i_attention_spread *bias = &p->f.bias;
    memset(c->dbias, 0, (size_t)(bias->dims[0] * bias->dims[1] * p->bias_slot) * sizeof *c->dbias);
    for (int64_t i = 0; i < p->bias_partials; i++) {
        int64_t sample = bias->dims[0] == 1 ? 0 : i / p->f.heads;
        int64_t head = bias->dims[1] == 1 ? 0 : i % p->f.heads;
        attention_add(c->partial_dbias + i * p->bias_slot, p->bias_slot,
                      c->dbias + (sample * bias->dims[1] + head) * p->bias_slot);
    }
}

ckm_status ckm_i_cpu_attention_run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel,
                                            const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_cpu_attention_call c = ckm_i_cpu_attention_open(kernel, call, CKM_I_ATTENTION_GRADIENTS);
    const ckm_i_cpu_attention_plan *p = c.p;
    const ckm_i_attention_form *f = &p->f;
    int64_t n = f->batch * f->heads * f->queries;
    c.dy = call->inputs[0];
    c.y_kept = call->inputs[1];
    c.lse_kept = call->inputs[2];
    c.dq = call->outputs[0];
    c.dk = call->outputs[1];
    c.dv = call->outputs[2];
    c.dbias = p->bias_slot > 0 ? call->outputs[CKM_I_ATTENTION_BIAS] : NULL;
    c.scratch = call->workspace;
    float *partials = c.scratch + p->threads * p->scratch;
    c.partial_dq = p->key_parts > 1 ? partials : NULL;
    c.partial_dbias = partials;  // never with partial_dq: keys are not divided then
    ckm_i_cpu_parallel(cpu->threads, p->threads, 1, backward_part, &c);
    if (c.partial_dq != NULL && c.dq != NULL) {
        ckm_i_cpu_parallel(cpu->threads, n, CKM_I_CPU_GRAIN / f->size + 1, join_dq, &c);
    }
    if (p->bias_partials > 0) {
        join_bias(&c);
    }
    return CKM_OK;
}
