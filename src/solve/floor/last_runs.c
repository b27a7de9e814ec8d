// SPDX-License-Identifier: Apache-2.0
// Let H be a set of operators, and h the one that runs last of all runs of members of H, in any schedule. No member runs after that.
// So what is in memory then separates everything that members of H make from the results: each path of tensors from an output of a
// member to a result has one of them on it. While h runs, memory has all of that and what h takes alone, so no less than the latter and
// the least such separator, in which what h itself reads and makes is free: a minimum cut. The floor is the least of this over h.
// If H loses members, the cuts only become smaller: so the best H within a bound to be shown is found by taking out, again and again,
// the members for which it does not hold. What remains, if anything, proves it.
#include "solve/floor/memory_floor.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// A bound is looked for to within this share of what is known, and from so much above it.
enum { PRECISION = 1000 };

typedef struct arc {
    int32_t to, next;  // the arc against it is the one with the last bit flipped
    int64_t left;
} arc;

// Nodes: two for each holder, in and out; then operators; then the source and the sink.
typedef struct net {
    ckm_i_pebbling *p;
    const ckm_dataflow *df;
    int32_t *holder_of;  // by tensor: itself, or the storage where all others on it are views of the same bytes
    bool *is_holder, *is_view_only;
    arc *arcs;
    int32_t n_arcs, n_nodes, source, sink;
    int32_t *first, *level, *next, *queue;
    int64_t *alone;    // by operator: what it takes alone, everything included; 0: never a member
    int64_t *carried;  // by storage: of the largest flow where nothing is free
    bool *in, *is_free;
    int64_t work;
} net;

static int32_t node_in(int32_t holder)
{
    return 2 * holder;
}

static int32_t node_out(int32_t holder)
{
    return 2 * holder + 1;
}

static int32_t node_of_op(const net *f, int32_t v)
{
    return 2 * f->df->n_tensors + v;
}

// Whether what makes a tensor reads its storage, and nothing else, and makes nothing else.
static bool only_views(const ckm_dataflow *df, const ckm_i_dataflow_tensor *t)
{
    const ckm_i_dataflow_op *op = t->producer >= 0 ? &df->ops[t->producer] : NULL;
    bool only = op != NULL && op->n_inputs > 0 && op->n_outputs == 1;
    for (int32_t i = 0; only && i < op->n_inputs; i++) {
        only = df->tensors[op->inputs[i]].storage == t->storage;
    }
    return only;
}

// A schedule that has one tensor of a storage of which all others are views can have all of them.
static void find_holders(net *f)
{
    const ckm_dataflow *df = f->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        f->is_view_only[x] = true;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[x];
        if (t->alias_of >= 0 && !only_views(df, t)) {
            f->is_view_only[t->storage] = false;
        }
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        f->holder_of[x] = f->is_view_only[df->tensors[x].storage] ? df->tensors[x].storage : x;
        f->is_holder[f->holder_of[x]] = true;
    }
}

static bool is_view(const net *f, int32_t v)
{
    const ckm_i_dataflow_op *op = &f->df->ops[v];
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (f->holder_of[op->outputs[i]] != op->outputs[i]) {
            return true;
        }
    }
    return false;
}

// Of a storage that is no single holder, its owner stands for the bytes: no set of tensors on it is counted for more than there is.
static int64_t bytes_of(const net *f, int32_t holder)
{
    const ckm_i_dataflow_tensor *t = &f->df->tensors[holder];
    return t->alias_of >= 0 || t->pinned ? 0 : t->bytes;
}

static void add_arc(net *f, int32_t from, int32_t to)
{
    f->arcs[f->n_arcs] = (arc){to, f->first[from], 0};
    f->first[from] = f->n_arcs++;
    f->arcs[f->n_arcs] = (arc){from, f->first[to], 0};
    f->first[to] = f->n_arcs++;
}

// Arcs in a fixed order: holders' own, sources', sinks', reads and writes.
static void connect(net *f)
{
    const ckm_dataflow *df = f->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        add_arc(f, node_in(x), node_out(x));
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        add_arc(f, f->source, node_in(f->holder_of[x]));
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        add_arc(f, node_out(f->holder_of[x]), f->sink);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            add_arc(f, node_out(f->holder_of[op->inputs[i]]), node_of_op(f, v));
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            add_arc(f, node_of_op(f, v), node_in(f->holder_of[op->outputs[i]]));
        }
    }
}

static void set_arc(net *f, int32_t k, int64_t capacity)
{
    f->arcs[2 * k].left = capacity;
    f->arcs[2 * k + 1].left = 0;
}

// For the set at hand, with the storages of h for free where h >= 0.
static void set_capacities(net *f)
{
    const ckm_dataflow *df = f->df;
    int32_t n = df->n_tensors;
    for (int32_t x = 0; x < n; x++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[x];
        bool holds = f->is_holder[x] && !f->is_free[t->storage];
        set_arc(f, x, holds ? bytes_of(f, x) : 0);
        set_arc(f, n + x, t->producer >= 0 && f->in[t->producer] ? INT64_MAX / 4 : 0);
        set_arc(f, 2 * n + x, t->is_result ? INT64_MAX / 4 : 0);
    }
    int32_t k = 3 * n;
    for (int32_t v = 0; v < df->n_ops; v++) {
        // Paths through a member begin again behind it.
        int64_t capacity = f->in[v] ? 0 : INT64_MAX / 4;
        for (int32_t i = 0; i < df->ops[v].n_inputs + df->ops[v].n_outputs; i++) {
            set_arc(f, k++, capacity);
        }
    }
    f->work += k;
}

static bool find_levels(net *f)
{
    int32_t n = 0;
    memset(f->level, 0xff, (size_t)f->n_nodes * sizeof *f->level);
    f->level[f->source] = 0;
    f->queue[n++] = f->source;
    for (int32_t i = 0; i < n && f->level[f->sink] < 0; i++) {
        int32_t u = f->queue[i];
        for (int32_t a = f->first[u]; a >= 0; a = f->arcs[a].next) {
            f->work++;
            if (f->arcs[a].left > 0 && f->level[f->arcs[a].to] < 0) {
                f->level[f->arcs[a].to] = f->level[u] + 1;
                f->queue[n++] = f->arcs[a].to;
            }
        }
    }
    memcpy(f->next, f->first, (size_t)f->n_nodes * sizeof *f->next);
    return f->level[f->sink] >= 0;
}

// One path along ascending levels; `queue` holds its arcs. Returns what it carries: 0 where there is none left.
static int64_t push(net *f)
{
    int32_t n = 0;
    int32_t u = f->source;
    while (u != f->sink) {
        int32_t a = f->next[u];
        while (a >= 0 && !(f->arcs[a].left > 0 && f->level[f->arcs[a].to] == f->level[u] + 1)) {
            a = f->arcs[a].next;
            f->work++;
        }
        f->next[u] = a;
        if (a >= 0) {
            f->queue[n++] = a;
            u = f->arcs[a].to;
        } else if (n == 0) {
            return 0;
        } else {
            u = f->arcs[f->queue[--n] ^ 1].to;
            f->next[u] = f->arcs[f->next[u]].next;
        }
    }
    int64_t most = INT64_MAX;
    for (int32_t i = 0; i < n; i++) {
        most = f->arcs[f->queue[i]].left < most ? f->arcs[f->queue[i]].left : most;
    }
    for (int32_t i = 0; i < n; i++) {
        f->arcs[f->queue[i]].left -= most;
        f->arcs[f->queue[i] ^ 1].left += most;
    }
    f->work += n;
    return most;
}

// The least separator of what the set at hand makes from the results (E. A. Dinic 1970); at least `enough` where it is more than that.
static int64_t separate(net *f, int64_t enough)
{
    int64_t total = 0;
    set_capacities(f);
    while (total < enough && find_levels(f)) {
        for (int64_t more = push(f); more > 0; more = push(f)) {
            total += more;
        }
    }
    return total;
}

// Of operator v: the storages that it takes by itself are free, or not again. Returns what they carried.
static int64_t set_free(net *f, int32_t v, bool is_free)
{
    const ckm_i_dataflow_op *op = &f->df->ops[v];
    const ckm_i_pebbling *p = f->p;
    int64_t carried = 0;
    int32_t n_needs = p->needs_at[v + 1] - p->needs_at[v];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs + n_needs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i]
                    : i < op->n_inputs + op->n_outputs
                        ? op->outputs[i - op->n_inputs]
                        : p->tensor_of[p->needs[p->needs_at[v] + i - op->n_inputs - op->n_outputs]];
        int32_t s = f->df->tensors[x].storage;
        if (f->is_free[s] != is_free) {
            f->is_free[s] = is_free;
            carried += f->carried[s];
        }
    }
    return carried;
}

static void note_carried(net *f)
{
    const ckm_dataflow *df = f->df;
    memset(f->carried, 0, (size_t)df->n_tensors * sizeof *f->carried);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        f->carried[df->tensors[x].storage] += f->arcs[2 * x + 1].left;
    }
}

// Takes out of the set at hand the members for which even a separator with nothing for free is too small. Returns the bytes of that of
// what is left.
static int64_t take_out_plain(net *f, int64_t bytes)
{
    for (;;) {
        bool changed = false;
        int64_t all = separate(f, INT64_MAX);
        for (int32_t v = 0; v < f->df->n_ops; v++) {
            if (f->in[v] && f->alone[v] + all < bytes) {
                f->in[v] = false;
                changed = true;
            }
        }
        if (!changed) {
            note_carried(f);
            return all;
        }
    }
}

// What a member takes if it runs last, at least; exact where that is less than `bytes`. `all`: the separator with nothing for free, of
// which no more is saved than what went through what is free now.
static int64_t least_of(net *f, int32_t v, int64_t all, int64_t bytes)
{
    int64_t least = f->alone[v] + all - set_free(f, v, true);
    if (least < bytes) {
        least = f->alone[v] + separate(f, bytes - f->alone[v]);
    }
    (void)set_free(f, v, false);
    return least;
}

// Takes out of the set at hand whatever may run last within less than `bytes`. *least: what the rest takes at least, INT64_MAX where
// there is none; false where the work did not suffice.
static bool take_out(net *f, int64_t bytes, int64_t work_end, int64_t *least)
{
    for (bool changed = true; changed;) {
        changed = false;
        *least = INT64_MAX;
        int64_t all = take_out_plain(f, bytes);
        for (int32_t v = 0; v < f->df->n_ops; v++) {
            if (!f->in[v]) {
                continue;
            }
            int64_t takes = least_of(f, v, all, bytes);
            if (takes < bytes) {
                f->in[v] = false;
                changed = true;
            }
            *least = takes < *least ? takes : *least;
            if (f->work > work_end) {
                return false;
            }
        }
    }
    return true;
}

static ckm_status create(net *f, ckm_error *err)
{
    const ckm_dataflow *df = f->df;
    int64_t n_arcs = 3 * (int64_t)df->n_tensors;
    for (int32_t v = 0; v < df->n_ops; v++) {
        n_arcs += df->ops[v].n_inputs + df->ops[v].n_outputs;
    }
    size_t tensors = (size_t)df->n_tensors;
    size_t ops = (size_t)df->n_ops;
    f->n_nodes = 2 * df->n_tensors + df->n_ops + 2;
    f->source = f->n_nodes - 2;
    f->sink = f->n_nodes - 1;
    f->holder_of = ckm_i_malloc(tensors, sizeof *f->holder_of);
    f->is_holder = ckm_i_calloc(tensors, sizeof *f->is_holder);
    f->is_view_only = ckm_i_malloc(tensors, sizeof *f->is_view_only);
    f->is_free = ckm_i_calloc(tensors, sizeof *f->is_free);
    f->alone = ckm_i_calloc(ops, sizeof *f->alone);
    f->carried = ckm_i_calloc(tensors, sizeof *f->carried);
    f->in = ckm_i_calloc(ops, sizeof *f->in);
    f->arcs = ckm_i_malloc(2 * (size_t)n_arcs, sizeof *f->arcs);
    f->first = ckm_i_malloc((size_t)f->n_nodes, sizeof *f->first);
    f->level = ckm_i_malloc((size_t)f->n_nodes, sizeof *f->level);
    f->next = ckm_i_malloc((size_t)f->n_nodes, sizeof *f->next);
    f->queue = ckm_i_malloc((size_t)f->n_nodes, sizeof *f->queue);
    if (f->holder_of == NULL || f->is_holder == NULL || f->is_view_only == NULL || f->is_free == NULL ||
        f->alone == NULL || f->carried == NULL || f->in == NULL || f->arcs == NULL || f->first == NULL ||
        f->level == NULL || f->next == NULL || f->queue == NULL) {
        return ckm_i_error_memory(err);
    }
    memset(f->first, 0xff, (size_t)f->n_nodes * sizeof *f->first);
    find_holders(f);
    connect(f);
    return CKM_OK;
}

static void dispose(net *f)
{
    void *all[] = {f->holder_of, f->is_holder, f->is_view_only, f->is_free, f->alone, f->carried,
                   f->in,        f->arcs,      f->first,        f->level,   f->next,  f->queue};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

static void measure_alone(net *f)
{
    for (int32_t v = 0; v < f->df->n_ops; v++) {
        if (!is_view(f, v)) {
            f->alone[v] = ckm_i_pebbling_go_back(f->p, v, NULL, 0);
            ckm_i_pebbling_undo(f->p);
        }
    }
}

ckm_status ckm_i_last_runs(ckm_i_pebbling *p, int64_t work, int64_t *floor_bytes, ckm_error *err)
{
    net f = {.p = p, .df = p->df};
    ckm_status status = CKM_OK;
    CKM_I_TRY(create(&f, err));
    measure_alone(&f);
    int64_t high = INT64_MAX;  // no set shows so much
    for (int64_t at = *floor_bytes + 1; at < high && f.work < work;) {
        for (int32_t v = 0; v < f.df->n_ops; v++) {
            f.in[v] = f.alone[v] > 0;
        }
        int64_t least = INT64_MAX;
        bool ended = take_out(&f, at, work, &least);
        if (ended && least < INT64_MAX) {
            *floor_bytes = least;
        } else {
            high = at;
        }
        if (high == INT64_MAX) {
            at = *floor_bytes + *floor_bytes / 8 + 1;
        } else if (high - *floor_bytes > *floor_bytes / PRECISION + 1) {
            at = *floor_bytes + (high - *floor_bytes) / 2;
        } else {
            break;
        }
    }
cleanup:
    dispose(&f);
    return status;
}
