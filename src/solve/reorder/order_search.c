// SPDX-License-Identifier: Apache-2.0
// Topological orders with little memory: list scheduling, then annealing with incremental evaluation.
//
// What is live after a set of operators has run once each depends on the set alone, not on the order within it:
// a tensor is live when its producer is in the set and it is a result or has a user outside. Moving an operator
// from position p to q therefore changes the bytes only between p and q, and a move is judged by walking that
// window.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "solve/reorder/reorder.h"

enum {
    moves_per_check = 256,
    greedy_width = 256  // ready operators looked at for one place
};

typedef struct order_search {
    const ckm_dataflow *df;
    int32_t n;
    int32_t *order, *pos;
    int64_t *before, *during;  // by position: bytes live before it, and while it runs
    int32_t *next;             // per tensor: the next one on its storage, from the owner on; -1 ends
    // A walk over a window: what was touched is marked with the walk's stamp.
    int64_t stamp;
    int64_t *tensor_stamp, *storage_stamp, *read_stamp;
    int32_t *left;   // users that have not run yet
    int32_t *count;  // per storage: live tensors
    int64_t reads;
    int32_t (*pairs)[2], (*chosen)[2];
    int32_t *try_order;
    int64_t *try_before, *try_during;
    int64_t target_bytes;
    double excess;   // sum of bytes over the target
    uint64_t round;  // which temperature is next
    ckm_i_rng rng;
} order_search;

static void free_search(order_search *os)
{
    free(os->order);
    free(os->pos);
    free(os->before);
    free(os->during);
    free(os->next);
    free(os->tensor_stamp);
    free(os->storage_stamp);
    free(os->read_stamp);
    free(os->left);
    free(os->count);
    free(os->pairs);
    free(os->chosen);
    free(os->try_order);
    free(os->try_before);
    free(os->try_during);
}

static ckm_status init_search(order_search *os, const ckm_dataflow *df, uint64_t seed, ckm_error *err)
{
    size_t n = (size_t)df->n_ops;
    size_t m = (size_t)df->n_tensors;
    size_t most_pairs = ckm_i_most_pairs(df);
    *os = (order_search){.df = df, .n = df->n_ops, .round = seed, .rng = {seed}};
    os->order = ckm_i_calloc(n, sizeof *os->order);
    os->pos = ckm_i_calloc(n, sizeof *os->pos);
    os->before = ckm_i_calloc(n + 1, sizeof *os->before);
    os->during = ckm_i_calloc(n, sizeof *os->during);
    os->next = ckm_i_malloc(m, sizeof *os->next);
    os->tensor_stamp = ckm_i_calloc(m, sizeof *os->tensor_stamp);
    os->storage_stamp = ckm_i_calloc(m, sizeof *os->storage_stamp);
    os->read_stamp = ckm_i_calloc(m, sizeof *os->read_stamp);
    os->left = ckm_i_calloc(m, sizeof *os->left);
    os->count = ckm_i_calloc(m, sizeof *os->count);
    os->pairs = ckm_i_calloc(most_pairs, sizeof *os->pairs);
    os->chosen = ckm_i_calloc(most_pairs, sizeof *os->chosen);
    os->try_order = ckm_i_calloc(n, sizeof *os->try_order);
    os->try_before = ckm_i_calloc(n + 1, sizeof *os->try_before);
    os->try_during = ckm_i_calloc(n, sizeof *os->try_during);
    if (os->order == NULL || os->pos == NULL || os->before == NULL || os->during == NULL || os->next == NULL ||
        os->tensor_stamp == NULL || os->storage_stamp == NULL || os->read_stamp == NULL || os->left == NULL ||
        os->count == NULL || os->pairs == NULL || os->chosen == NULL || os->try_order == NULL ||
        os->try_before == NULL || os->try_during == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        os->next[x] = -1;
    }
    for (int32_t x = df->n_tensors - 1; x >= 0; x--) {
        int32_t owner = df->tensors[x].alias_of;
        if (owner >= 0) {
            os->next[x] = os->next[owner];
            os->next[owner] = x;
        }
    }
    return CKM_OK;
}

// Users of x at or after position `from`, in the order as it was before the move.
static int32_t users_left(const order_search *os, int32_t x, int32_t from)
{
    const ckm_i_dataflow_tensor *tensor = &os->df->tensors[x];
    int32_t n = 0;
    for (int32_t u = 0; u < tensor->n_users; u++) {
        n += os->pos[tensor->users[u]] >= from;
    }
    return n;
}

static void touch(order_search *os, int32_t x, int32_t from)
{
    if (os->tensor_stamp[x] != os->stamp) {
        os->tensor_stamp[x] = os->stamp;
        os->left[x] = users_left(os, x, from);
    }
}

// Live tensors on x's storage when the walk began, kept up to date from then on.
static void touch_storage(order_search *os, int32_t x, int32_t from)
{
    int32_t storage = os->df->tensors[x].storage;
    if (os->storage_stamp[storage] == os->stamp) {
        return;
    }
    os->storage_stamp[storage] = os->stamp;
    os->count[storage] = 0;
    for (int32_t y = storage; y >= 0; y = os->next[y]) {
        const ckm_i_dataflow_tensor *tensor = &os->df->tensors[y];
        touch(os, y, from);
        bool made = tensor->producer < 0 || os->pos[tensor->producer] < from;
        os->count[storage] += made && (tensor->is_result || tensor->pinned || os->left[y] > 0);
    }
}

// Pairs of v that may be used now, those that save the most first in `chosen`; gives the bytes they save.
static int64_t choose_pairs(order_search *os, int32_t v, int32_t *n_chosen)
{
    const ckm_dataflow *df = os->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        int32_t in = op->inplace[k][0];
        int32_t out = op->inplace[k][1];
        int32_t from = df->tensors[in].storage;
        bool fits = os->left[in] == 1 && !df->tensors[in].is_result && !df->tensors[in].pinned &&
                    os->count[from] == 1 && !df->tensors[out].pinned && df->tensors[out].alias_of < 0 &&
                    os->count[out] == 0 && df->tensors[out].bytes <= df->tensors[from].bytes;
        for (int32_t o = 0; fits && o < op->n_outputs; o++) {
            fits = df->tensors[op->outputs[o]].storage != from;
        }
        if (fits) {
            os->pairs[n][0] = in;
            os->pairs[n][1] = out;
            n++;
        }
    }
    return n > 0 ? ckm_i_inplace_best(df, (const int32_t(*)[2])os->pairs, n, os->chosen, n_chosen) : 0;
}

static int64_t drop(order_search *os, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &os->df->tensors[x];
    if (tensor->pinned || --os->count[tensor->storage] > 0) {
        return 0;
    }
    return os->df->tensors[tensor->storage].bytes;
}

// Runs v in a walk that began at position `from` with `live` bytes; *during takes the bytes meanwhile, the
// bytes live afterwards are returned.
static int64_t run_op(order_search *os, int32_t v, int32_t from, int64_t live, int64_t *during)
{
    const ckm_dataflow *df = os->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n_chosen = 0;
    int64_t saved = 0;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        touch_storage(os, op->inputs[i], from);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        touch_storage(os, op->outputs[i], from);
    }
    if (op->n_inplace > 0) {
        saved = choose_pairs(os, v, &n_chosen);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *y = &df->tensors[op->outputs[i]];
        live += !y->pinned && os->count[y->storage]++ == 0 ? df->tensors[y->storage].bytes : 0;
    }
    *during = live + op->workspace_bytes - saved;
    os->reads++;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t x = op->inputs[i];
        if (os->read_stamp[x] != os->reads) {  // an operand may be named twice
            os->read_stamp[x] = os->reads;
            live -= --os->left[x] == 0 && !df->tensors[x].is_result ? drop(os, x) : 0;
        }
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t y = op->outputs[i];
        live -= os->left[y] == 0 && !df->tensors[y].is_result ? drop(os, y) : 0;
    }
    return live;
}

static double over(const order_search *os, int64_t bytes)
{
    return bytes > os->target_bytes ? (double)(bytes - os->target_bytes) : 0.0;
}

static int64_t peak_of(const order_search *os)
{
    int64_t peak = 0;
    for (int32_t p = 0; p < os->n; p++) {
        peak = os->during[p] > peak ? os->during[p] : peak;
    }
    return peak;
}

static void set_target(order_search *os, int64_t target_bytes)
{
    os->target_bytes = target_bytes;
    os->excess = 0.0;
    for (int32_t p = 0; p < os->n; p++) {
        os->excess += over(os, os->during[p]);
    }
}

// Takes over an order and evaluates it whole.
static ckm_status load(order_search *os, const int32_t *order, ckm_error *err)
{
    const ckm_dataflow *df = os->df;
    for (int32_t v = 0; v < os->n; v++) {
        os->pos[v] = -1;
    }
    for (int32_t p = 0; p < os->n; p++) {
        int32_t v = order[p];
        bool good = v >= 0 && v < os->n && os->pos[v] < 0;
        for (int32_t i = 0; good && i < df->ops[v].n_inputs; i++) {
            int32_t producer = df->tensors[df->ops[v].inputs[i]].producer;
            good = producer < 0 || os->pos[producer] >= 0;
        }
        if (!good) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "the order is not topological at position %d", (int)p);
        }
        os->order[p] = v;
        os->pos[v] = p;
    }
    os->stamp++;
    os->before[0] = df->resident_bytes;
    for (int32_t p = 0; p < os->n; p++) {
        os->before[p + 1] = run_op(os, os->order[p], 0, os->before[p], &os->during[p]);
    }
    return CKM_OK;
}

// The positions v may move to: after its operands' producers and before its outputs' users.
static void window_of(const order_search *os, int32_t v, int32_t *low, int32_t *high)
{
    const ckm_dataflow *df = os->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    *low = 0;
    *high = os->n - 1;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t producer = df->tensors[op->inputs[i]].producer;
        if (producer >= 0 && os->pos[producer] >= *low) {
            *low = os->pos[producer] + 1;
        }
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *y = &df->tensors[op->outputs[i]];
        for (int32_t u = 0; u < y->n_users; u++) {
            *high = os->pos[y->users[u]] <= *high ? os->pos[y->users[u]] - 1 : *high;
        }
    }
}

// Moves the operator at position p to q and keeps that by Metropolis.
static void try_move(order_search *os, int32_t p, int32_t q, double temperature)
{
    int32_t first = p < q ? p : q;
    int32_t last = p < q ? q : p;
    int32_t v = os->order[p];
    size_t length = (size_t)last - (size_t)first + 1;
    if (p < q) {
        memcpy(os->try_order + first, os->order + p + 1, (length - 1) * sizeof *os->order);
    } else {
        memcpy(os->try_order + first + 1, os->order + q, (length - 1) * sizeof *os->order);
    }
    os->try_order[q] = v;
    os->stamp++;
    int64_t live = os->before[first];
    double change = 0.0;
    // A worse order is accepted up to here; drawn before the walk so that the walk can end early.
    double limit = temperature > 0.0 ? -temperature * log(1.0 - ckm_i_rng_unit(&os->rng)) : 0.0;
    double gain = 0.0;
    for (int32_t i = first; i <= last; i++) {
        gain += over(os, os->during[i]);
    }
    for (int32_t i = first; i <= last; i++) {
        os->try_before[i] = live;
        live = run_op(os, os->try_order[i], first, live, &os->try_during[i]);
        change += over(os, os->try_during[i]);
        if (change - gain > limit) {
            return;
        }
    }
    memcpy(os->order + first, os->try_order + first, length * sizeof *os->order);
    memcpy(os->before + first, os->try_before + first, length * sizeof *os->before);
    memcpy(os->during + first, os->try_during + first, length * sizeof *os->during);
    for (int32_t i = first; i <= last; i++) {
        os->pos[os->order[i]] = i;
    }
    os->excess += change - gain;
}

static void random_move(order_search *os, double temperature)
{
    int32_t p = (int32_t)ckm_i_rng_below(&os->rng, (uint32_t)os->n);
    int32_t low = 0;
    int32_t high = 0;
    window_of(os, os->order[p], &low, &high);
    if (low == high) {
        return;
    }
    // Half of the moves are short: they are cheap and most often accepted. The rest go anywhere or all the way.
    uint32_t dice = ckm_i_rng_below(&os->rng, 8);
    if (dice < 4) {
        int32_t reach = 1 + (int32_t)ckm_i_rng_below(&os->rng, 8);
        low = p - low > reach ? p - reach : low;
        high = high - p > reach ? p + reach : high;
    }
    int32_t q = low + (int32_t)ckm_i_rng_below(&os->rng, (uint32_t)(high - low + 1));
    if (dice >= 5) {
        q = dice == 5 ? low : high;
    }
    if (q != p) {
        try_move(os, p, q, temperature);
    }
}

static double mean_bytes(const ckm_dataflow *df)
{
    double sum = 1.0;
    int32_t n = 1;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].alias_of < 0 && !df->tensors[x].pinned) {
            sum += (double)df->tensors[x].bytes;
            n++;
        }
    }
    return sum / n;
}

// Start temperatures in mean tensor sizes. A move changes the bytes at every position it passes, so crossing from
// one arrangement of a large graph to another takes a multiple; which one differs between graphs.
static const double heat[] = {100.0, 30.0, 10.0};
enum { n_heat = sizeof heat / sizeof heat[0] };

// One round towards the target from the current order; the best order goes to `best`. True when the target is
// met.
static bool anneal(order_search *os, const ckm_i_order_options *options, double seconds, int64_t moves, int32_t *best,
                   double *best_excess)
{
    double cold = mean_bytes(os->df) * 1e-3;
    double hot = mean_bytes(os->df) * (options->heat > 0.0 ? options->heat : heat[os->round++ % n_heat]);
    double start = ckm_i_clock_seconds();
    for (int64_t done = 0;; done += moves_per_check) {
        if (os->excess < *best_excess) {
            *best_excess = os->excess;
            memcpy(best, os->order, (size_t)os->n * sizeof *best);
        }
        double progress = moves > 0 ? (double)done / (double)moves : (ckm_i_clock_seconds() - start) / seconds;
        if (*best_excess < 0.5 || progress >= 1.0 || (options->stop != NULL && options->stop(options->user))) {
            return *best_excess < 0.5;
        }
        double temperature = hot * pow(cold / hot, progress);
        for (int i = 0; i < moves_per_check && os->excess >= 0.5; i++) {
            random_move(os, temperature);
        }
        set_target(os, os->target_bytes);  // sums of differences drift
    }
}

ckm_status ckm_i_order_peak(const ckm_dataflow *df, const int32_t *order, int64_t *peak_bytes, ckm_error *err)
{
    order_search os;
    ckm_status status = CKM_OK;
    CKM_I_TRY(init_search(&os, df, 0, err));
    CKM_I_TRY(load(&os, order, err));
    *peak_bytes = peak_of(&os);
cleanup:
    free_search(&os);
    return status;
}

ckm_status ckm_i_order_anneal(const ckm_dataflow *df, const ckm_i_order_options *options, int32_t *order,
                              int64_t *peak_bytes, ckm_error *err)
{
    order_search os;
    ckm_status status = CKM_OK;
    double best_excess = INFINITY;
    CKM_I_TRY(init_search(&os, df, options->seed, err));
    CKM_I_TRY(load(&os, order, err));
    set_target(&os, options->target_bytes);
    anneal(&os, options, fmax(options->seconds, 1e-9), options->moves, order, &best_excess);
    CKM_I_TRY(load(&os, order, err));
    *peak_bytes = peak_of(&os);
cleanup:
    free_search(&os);
    return status;
}

ckm_status ckm_i_order_lower_peak(const ckm_dataflow *df, const ckm_i_order_options *options, int32_t *order,
                                  int64_t *peak_bytes, ckm_error *err)
{
    // Each round asks for a lower peak than the last: first for a large step, and for half of it after a miss.
    enum { rounds = 12 };
    order_search os;
    ckm_status status = CKM_OK;
    int32_t *best = ckm_i_malloc((size_t)df->n_ops, sizeof *best);
    double start = ckm_i_clock_seconds();
    CKM_I_TRY(init_search(&os, df, options->seed, err));
    if (best == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(load(&os, order, err));
    int64_t lowest = peak_of(&os);
    int64_t goal = options->target_bytes > df->floor_bytes ? options->target_bytes : df->floor_bytes;
    double step = 1.0;
    for (int round = 0; round < rounds && lowest > goal; round++) {
        double left = options->seconds - (ckm_i_clock_seconds() - start);
        if ((options->moves <= 0 && left <= 0.0) || (options->stop != NULL && options->stop(options->user))) {
            break;
        }
        int64_t target = lowest - (int64_t)ceil((double)(lowest - goal) * step);
        double best_excess = INFINITY;
        set_target(&os, target);
        bool met = anneal(&os, options, fmax(left / (rounds - round), 1e-9),
                          options->moves > 0 ? options->moves / rounds + 1 : 0, best, &best_excess);
        CKM_I_TRY(load(&os, best, err));
        int64_t peak = peak_of(&os);
        if (peak < lowest) {
            lowest = peak;
            memcpy(order, best, (size_t)df->n_ops * sizeof *order);
        }
        step = met ? fmin(step * 2.0, 1.0) : step * 0.5;
    }
    *peak_bytes = lowest;
cleanup:
    free_search(&os);
    free(best);
    return status;
}

// Bytes that running v now would add for good, with part of an operand's bytes taken off for each of its reads.
static double appeal(const ckm_dataflow *df, const int32_t *left, int32_t v)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    double bytes = 0.0;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *y = &df->tensors[op->outputs[i]];
        bool stays = !y->pinned && y->alias_of < 0 && (y->n_users > 0 || y->is_result);
        bytes += stays ? (double)y->bytes : 0.0;
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        const ckm_i_dataflow_tensor *x = &df->tensors[op->inputs[i]];
        bytes -= x->pinned || x->is_result ? 0.0 : (double)df->tensors[x->storage].bytes / left[op->inputs[i]];
    }
    return bytes;
}

ckm_status ckm_i_order_greedy(const ckm_dataflow *df, double noise, uint64_t seed, int32_t *order, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int32_t n_ready = 0;
    double blur = noise * mean_bytes(df);
    ckm_i_rng rng = {seed};
    int32_t *waiting = ckm_i_calloc((size_t)df->n_ops, sizeof *waiting);  // operands, repetitions included
    int32_t *ready = ckm_i_malloc((size_t)df->n_ops, sizeof *ready);
    int32_t *left = ckm_i_malloc((size_t)df->n_tensors, sizeof *left);
    if (waiting == NULL || ready == NULL || left == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        left[x] = df->tensors[x].n_users;
        for (int32_t u = 0; u < left[x] && df->tensors[x].producer >= 0; u++) {
            waiting[df->tensors[x].users[u]]++;
        }
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        if (waiting[v] == 0) {
            ready[n_ready++] = v;
        }
    }
    for (int32_t p = 0; p < df->n_ops; p++) {
        int32_t best = 0;
        double best_appeal = INFINITY;
        int32_t begin = n_ready > greedy_width ? (int32_t)ckm_i_rng_below(&rng, (uint32_t)n_ready) : 0;
        for (int32_t i = 0; i < n_ready && i < greedy_width; i++) {
            int32_t at = (begin + i) % n_ready;
            double bytes = appeal(df, left, ready[at]) + blur * ckm_i_rng_unit(&rng);
            if (bytes < best_appeal) {
                best_appeal = bytes;
                best = at;
            }
        }
        int32_t v = ready[best];
        ready[best] = ready[--n_ready];
        order[p] = v;
        const ckm_i_dataflow_op *op = &df->ops[v];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            left[op->inputs[i]] -= left[op->inputs[i]] > 1;  // stays a divisor
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            const ckm_i_dataflow_tensor *y = &df->tensors[op->outputs[i]];
            for (int32_t u = 0; u < y->n_users; u++) {
                if (--waiting[y->users[u]] == 0) {
                    ready[n_ready++] = y->users[u];
                }
            }
        }
    }
cleanup:
    free(waiting);
    free(ready);
    free(left);
    return status;
}
