// SPDX-License-Identifier: Apache-2.0
// A point says what part of a tensor is live at the cuts and what part is made again in a window. Between the cuts, a part
// that is live stays as long as the window reads the tensor, a part that is made again comes with the first read, and what
// the next cut holds is there to the end. What is first made in the window is there up to its last read, less what is made
// again after all. What runs again reads its operands when its own outputs are first read.
#include "solve/bounds/window_model.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/core/structure.h"

// Parts of an operator below this do not count as running.
static const double tiny = 1e-6;

typedef struct profile {
    const ckm_i_window_model *model;
    const ckm_dataflow *df;
    const double *x;
    int32_t *first, *last;  // per storage: operators of the window at which something on it is read first and last
    int32_t *seen;          // per storage: the last operator that counted it
    int32_t *last_use;      // per storage: ckm_i_last_use()
    double *change;         // per operator: bytes there more than before
    int32_t k, from, to;    // the window, and its first and last first computations
} profile;

// What part of a storage cut k holds; all of a result at the end.
static double held(const profile *p, int32_t k, int32_t storage)
{
    if (k < 0) {
        return 0.0;
    }
    if (k == p->model->n_cuts) {
        return p->last_use[storage] == p->df->n_ops ? 1.0 : 0.0;
    }
    return ckm_i_window_value(p->x, p->model->s_col[(int64_t)k * p->df->n_tensors + storage]);
}

static double made_again(const profile *p, int32_t v)
{
    return ckm_i_window_value(p->x, ckm_i_window_r(p->model, p->k)[v]);
}

static bool is_followed(const profile *p, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &p->df->tensors[x];
    return tensor->storage == x && !tensor->pinned && tensor->producer >= 0 && tensor->bytes > 0;
}

static void note_read(const profile *p, int32_t tensor, int32_t u)
{
    int32_t storage = p->df->tensors[tensor].storage;
    p->first[storage] = u < p->first[storage] ? u : p->first[storage];
    p->last[storage] = u > p->last[storage] ? u : p->last[storage];
}

static void find_reads(const profile *p)
{
    const ckm_dataflow *df = p->df;
    for (int32_t i = 0; i < df->n_tensors; i++) {
        p->first[i] = df->n_ops;
        p->last[i] = -1;
    }
    for (int32_t u = p->from; u <= p->to; u++) {
        for (int32_t i = 0; i < df->ops[u].n_inputs; i++) {
            note_read(p, df->ops[u].inputs[i], u);
        }
    }
    for (int32_t v = p->from - 1; v >= 0; v--) {
        if (made_again(p, v) < tiny) {
            continue;
        }
        int32_t when = p->to;
        for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
            int32_t read = p->first[df->tensors[df->ops[v].outputs[i]].storage];
            when = read < when ? read : when;
        }
        for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
            note_read(p, df->ops[v].inputs[i], when);
        }
    }
}

// The part of a storage that is there while u of the window first runs, if it does not touch it.
static double presence(const profile *p, int32_t storage, int32_t u)
{
    int32_t maker = p->df->tensors[storage].producer;
    double again = made_again(p, maker);
    double before = held(p, p->k, storage);
    double after = held(p, p->k + 1, storage);
    if (maker >= u) {
        return 0.0;
    }
    if (maker >= p->from) {
        return u < p->last[storage] ? fmax(1.0 - again, after) : after;
    }
    if (p->last[storage] < 0) {
        return fmin(before, after);
    }
    double all = fmin(before + again, 1.0);
    return u < p->first[storage] ? before : u < p->last[storage] ? all : fmin(after, all);
}

// It changes where the storage is made, read first and read last.
static void add_storage(const profile *p, int32_t storage)
{
    int32_t maker = p->df->tensors[storage].producer;
    int32_t at[4] = {maker >= p->from ? maker + 1 : p->from, p->first[storage], p->last[storage], p->to + 1};
    for (int i = 1; i < 3; i++) {
        at[i] = at[i] < at[i - 1] ? at[i - 1] : at[i] > p->to ? p->to + 1 : at[i];
    }
    double bytes = (double)p->df->tensors[storage].bytes;
    for (int i = 0; i < 3; i++) {
        double there = at[i] < at[i + 1] ? bytes * presence(p, storage, at[i]) : 0.0;
        p->change[at[i]] += there;
        p->change[at[i + 1]] -= there;
    }
}

// What is counted as there of what u touches: its working set counts it as well.
static double touched(const profile *p, int32_t u)
{
    const ckm_i_dataflow_op *op = &p->df->ops[u];
    double bytes = 0.0;
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = p->df->tensors[i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs]].storage;
        if (is_followed(p, x) && p->seen[x] != u) {
            bytes += (double)p->df->tensors[x].bytes * presence(p, x, u);
        }
        p->seen[x] = u;
    }
    return bytes;
}

static void add_window(const profile *p, double *excess)
{
    find_reads(p);
    for (int32_t x = 0; x < p->df->n_tensors; x++) {
        if (is_followed(p, x) && p->df->tensors[x].producer <= p->to) {
            add_storage(p, x);
        }
    }
    double sum = 0.0;
    double room = fmax((double)p->model->room_bytes, 1.0);
    for (int32_t u = p->from; u <= p->to; u++) {
        sum += p->change[u];
        double there = sum - touched(p, u) + (double)ckm_i_working_set(p->df, u);
        excess[u] = (there - (double)p->model->room_bytes) / room;
    }
    p->change[p->to + 1] = 0.0;
}

bool ckm_i_cut_excess(const ckm_i_window_model *model, const double *x, double *excess)
{
    const ckm_dataflow *df = model->df;
    size_t n = (size_t)df->n_tensors;
    profile p = {.model = model, .df = df, .x = x};
    p.first = ckm_i_malloc(n, sizeof *p.first);
    p.last = ckm_i_malloc(n, sizeof *p.last);
    p.seen = ckm_i_malloc(n, sizeof *p.seen);
    p.last_use = ckm_i_malloc(n, sizeof *p.last_use);
    p.change = ckm_i_calloc((size_t)df->n_ops + 1, sizeof *p.change);
    bool ok = p.first != NULL && p.last != NULL && p.seen != NULL && p.last_use != NULL && p.change != NULL;
    if (ok) {
        ckm_i_last_use(df, p.last_use);
    }
    for (size_t i = 0; ok && i < n; i++) {
        p.seen[i] = -1;
    }
    for (p.k = -1; ok && p.k < model->n_cuts; p.k++) {
        p.from = p.k >= 0 ? model->cuts[p.k] + 1 : 0;
        p.to = p.k + 1 < model->n_cuts ? model->cuts[p.k + 1] : df->n_ops - 1;
        add_window(&p, excess);
    }
    free(p.first);
    free(p.last);
    free(p.seen);
    free(p.last_use);
    free(p.change);
    return ok;
}

double ckm_i_cut_slack(const ckm_i_window_model *model, const double *x, int32_t k)
{
    const ckm_i_milp *m = &model->milp;
    int32_t row = model->memory_row[k];
    int64_t end = row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
    double left = m->row_upper[row];
    for (int64_t e = m->row_start[row]; e < end; e++) {
        left -= m->entry_value[e] * x[m->entry_col[e]];
    }
    return left * model->byte_scale / fmax((double)model->room_bytes, 1.0);
}
