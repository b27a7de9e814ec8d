// SPDX-License-Identifier: Apache-2.0
#include "solve/runs/leave_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"

typedef struct candidate {
    int64_t at;
    double worth;
} candidate;

// Memory in use at every position: additions over ranges, the largest of a range.
typedef struct profile {
    int64_t size;
    int64_t *most, *added;  // by node: of what lies below, the node's own addition included
} profile;

// A run is a computation in the sequence. A tensor is read from a run; where that was left out, from an
// earlier one of the same operator.
typedef struct runs {
    const ckm_dataflow *df;
    const int32_t *order;
    int64_t n;
    bool *in;
    int64_t *instead;     // by run: which holds what it made
    int64_t *before;      // by run: the one of the same operator before it that is in; -1
    int64_t *after;       // and after it; n: none
    int64_t *n_readers;   // by run: readings of its outputs, and results
    int64_t *inputs_at;   // by run: first of its inputs in the two lists
    int64_t *from;        // by input: the run; -1: an input of the graph
    bool *overwritten;    // by input: in its place goes an output
    int64_t *outputs_at;  // by run
    int64_t *last;        // by output: where it is read last; n for a result; -1: nowhere
    bool *last_overwrites;
    int64_t *latest;  // by operator: its latest run so far
    int64_t *gone;    // runs that go with a candidate
    int64_t n_gone;
    candidate *candidates;
    int64_t n_candidates;
    profile memory;
    int64_t *in_use;  // by step of a schedule
} runs;

static void raise(profile *p, int64_t node, int64_t low, int64_t high, int64_t from, int64_t to, int64_t bytes)
{
    if (from >= high || to <= low) {
        return;
    }
    if (from <= low && high <= to) {
        p->most[node] += bytes;
        p->added[node] += bytes;
        return;
    }
    int64_t middle = low + (high - low) / 2;
    raise(p, 2 * node, low, middle, from, to, bytes);
    raise(p, 2 * node + 1, middle, high, from, to, bytes);
    int64_t left = p->most[2 * node];
    int64_t right = p->most[2 * node + 1];
    p->most[node] = (left > right ? left : right) + p->added[node];
}

static int64_t most_in(const profile *p, int64_t node, int64_t low, int64_t high, int64_t from, int64_t to)
{
    if (from >= high || to <= low) {
        return 0;
    }
    if (from <= low && high <= to) {
        return p->most[node];
    }
    int64_t middle = low + (high - low) / 2;
    int64_t left = most_in(p, 2 * node, low, middle, from, to);
    int64_t right = most_in(p, 2 * node + 1, middle, high, from, to);
    return (left > right ? left : right) + p->added[node];
}

static int64_t holder(const runs *q, int64_t r)
{
    while (!q->in[r]) {
        r = q->instead[r];
    }
    return r;
}

// Which run each input is read from, and what is read last where.
static void link_runs(runs *q)
{
    const ckm_dataflow *df = q->df;
    int64_t n_inputs = 0;
    int64_t n_outputs = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        q->latest[v] = -1;
    }
    for (int64_t r = 0; r < q->n; r++) {
        int32_t v = q->order[r];
        const ckm_i_dataflow_op *op = &df->ops[v];
        q->in[r] = true;
        q->inputs_at[r] = n_inputs;
        q->outputs_at[r] = n_outputs;
        q->before[r] = q->latest[v];
        q->after[r] = q->n;
        if (q->latest[v] >= 0) {
            q->after[q->latest[v]] = r;
        }
        q->n_readers[r] = 0;
        for (int32_t i = 0; i < op->n_inputs; i++, n_inputs++) {
            int32_t u = df->tensors[op->inputs[i]].producer;
            int64_t from = u >= 0 ? q->latest[u] : -1;
            q->from[n_inputs] = from;
            for (int32_t k = 0; from >= 0 && k < df->ops[u].n_outputs; k++) {
                if (df->ops[u].outputs[k] == op->inputs[i]) {
                    q->last[q->outputs_at[from] + k] = r;
                    q->last_overwrites[q->outputs_at[from] + k] = q->overwritten[n_inputs];
                }
            }
            if (from >= 0) {
                q->n_readers[from]++;
            }
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            q->last[n_outputs] = -1;
            q->last_overwrites[n_outputs++] = false;
        }
        q->latest[v] = r;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        for (int32_t k = 0; k < df->ops[v].n_outputs; k++) {
            if (df->tensors[df->ops[v].outputs[k]].is_result) {
                q->last[q->outputs_at[q->latest[v]] + k] = q->n;
                q->n_readers[q->latest[v]]++;
            }
        }
    }
}

// Takes r out, and what is not read then; the runs are in q->gone. Returns their cost.
static int64_t take_out(runs *q, int64_t r)
{
    const ckm_dataflow *df = q->df;
    int64_t cost = 0;
    q->n_gone = 0;
    q->gone[q->n_gone++] = r;
    q->in[r] = false;
    for (int64_t g = 0; g < q->n_gone; g++) {
        int64_t at = q->gone[g];
        const ckm_i_dataflow_op *op = &df->ops[q->order[at]];
        cost += op->cost;
        if (q->before[at] >= 0) {
            q->after[q->before[at]] = q->after[at];
        }
        if (q->after[at] < q->n) {
            q->before[q->after[at]] = q->before[at];
        }
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int64_t from = q->from[q->inputs_at[at] + i];
            if (from < 0) {
                continue;
            }
            from = holder(q, from);
            bool first = q->before[from] < 0;  // stays, so that operators run for the first time in the order they did
            if (--q->n_readers[from] == 0 && !first) {
                q->in[from] = false;
                q->instead[from] = from;  // nothing reads it
                q->gone[q->n_gone++] = from;
            }
        }
    }
    return cost;
}

static void put_back(runs *q)
{
    for (int64_t g = q->n_gone - 1; g >= 0; g--) {
        int64_t at = q->gone[g];
        const ckm_i_dataflow_op *op = &q->df->ops[q->order[at]];
        for (int32_t i = op->n_inputs - 1; i >= 0; i--) {
            int64_t from = q->from[q->inputs_at[at] + i];
            if (from >= 0) {
                // Those taken out on the way come back before what read them.
                q->n_readers[holder(q, from)]++;
            }
        }
        q->in[at] = true;
        if (q->before[at] >= 0) {
            q->after[q->before[at]] = at;
        }
        if (q->after[at] < q->n) {
            q->before[q->after[at]] = at;
        }
    }
}

// Since when an output of the run before would be held for this one's readers, if it is read at all; where the last
// reading overwrites it, from there on.
static int64_t held_from(const runs *q, int64_t earlier, int32_t k)
{
    int64_t o = q->outputs_at[earlier] + k;
    int64_t last = q->last[o] < earlier ? earlier : q->last[o];
    return q->last_overwrites[o] ? last : last + 1;
}

static bool hold(runs *q, int64_t r, int64_t earlier, int64_t budget_bytes)
{
    const ckm_i_dataflow_op *op = &q->df->ops[q->order[r]];
    int64_t first = r;
    int64_t bytes = 0;
    for (int32_t k = 0; k < op->n_outputs; k++) {
        const ckm_i_dataflow_tensor *x = &q->df->tensors[op->outputs[k]];
        if (q->last[q->outputs_at[r] + k] >= 0) {
            int64_t from = held_from(q, earlier, k);
            first = from < first ? from : first;
            bytes += x->pinned ? 0 : q->df->tensors[x->storage].bytes;
        }
    }
    if (most_in(&q->memory, 1, 0, q->memory.size, first, r) > budget_bytes - bytes) {
        return false;
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        const ckm_i_dataflow_tensor *x = &q->df->tensors[op->outputs[k]];
        if (q->last[q->outputs_at[r] + k] >= 0) {
            raise(&q->memory, 1, 0, q->memory.size, held_from(q, earlier, k), r,
                  x->pinned ? 0 : q->df->tensors[x->storage].bytes);
        }
    }
    return true;
}

static bool try_run(runs *q, int64_t r, int64_t budget_bytes)
{
    const ckm_i_dataflow_op *op = &q->df->ops[q->order[r]];
    int64_t earlier = q->in[r] ? q->before[r] : -1;
    if (earlier < 0 || !hold(q, r, earlier, budget_bytes)) {
        return false;
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        int64_t o = q->outputs_at[r] + k;
        if (q->last[o] >= 0) {
            q->last[q->outputs_at[earlier] + k] = q->last[o];
            q->last_overwrites[q->outputs_at[earlier] + k] = q->last_overwrites[o];
        }
    }
    q->n_readers[earlier] += q->n_readers[r];
    q->instead[r] = earlier;
    (void)take_out(q, r);
    return true;
}

static int by_worth(const void *a, const void *b)
{
    const candidate *x = a;
    const candidate *y = b;
    if (x->worth != y->worth) {
        return x->worth < y->worth ? 1 : -1;
    }
    return x->at > y->at ? 1 : -1;
}

static void find_candidates(runs *q, double exponent)
{
    q->n_candidates = 0;
    for (int64_t r = 0; r < q->n; r++) {
        const ckm_i_dataflow_op *op = &q->df->ops[q->order[r]];
        int64_t earlier = q->before[r];
        if (earlier < 0) {
            continue;
        }
        double held = 1.0;
        for (int32_t k = 0; k < op->n_outputs; k++) {
            const ckm_i_dataflow_tensor *x = &q->df->tensors[op->outputs[k]];
            if (q->last[q->outputs_at[r] + k] >= 0 && x->alias_of < 0) {
                held += (double)x->bytes * (double)(r - held_from(q, earlier, k) + 1);
            }
        }
        // Its own readers go over to the run before it, which stays; only what it reads itself may go.
        q->instead[r] = earlier;
        q->n_readers[earlier] += q->n_readers[r];
        double saved = (double)take_out(q, r);
        put_back(q);
        q->n_readers[earlier] -= q->n_readers[r];
        q->candidates[q->n_candidates++] = (candidate){r, saved / pow(held, exponent)};
    }
    qsort(q->candidates, (size_t)q->n_candidates, sizeof *q->candidates, by_worth);
}

// Memory in use at every computation of the schedule that the sequence stands for, and what overwrites what in it.
static ckm_status read_schedule(runs *q, const ckm_schedule *s, ckm_error *err)
{
    ckm_simulation figures;
    int64_t r = 0;
    int64_t input = 0;
    CKM_I_CHECK(ckm_i_schedule_try(q->df, s, q->in_use, &figures, err));
    memset(q->memory.most, 0, 2 * (size_t)q->memory.size * sizeof *q->memory.most);
    memset(q->memory.added, 0, 2 * (size_t)q->memory.size * sizeof *q->memory.added);
    for (int64_t i = 0; i < s->n_steps; i++) {
        const ckm_i_step *step = &s->steps[i];
        if (step->kind != CKM_STEP_COMPUTE) {
            continue;
        }
        const ckm_i_dataflow_op *op = &q->df->ops[step->index];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            q->overwritten[input] = false;
            for (int32_t j = 0; j < step->n_inplace; j++) {
                q->overwritten[input] = q->overwritten[input] || s->pairs[step->inplace_at + j][0] == op->inputs[k];
            }
            input++;
        }
        q->memory.most[q->memory.size + r++] = q->in_use[i];
    }
    for (int64_t node = q->memory.size - 1; node > 0; node--) {
        int64_t left = q->memory.most[2 * node];
        int64_t right = q->memory.most[2 * node + 1];
        q->memory.most[node] = left > right ? left : right;
    }
    return CKM_OK;
}

static ckm_status allocate(runs *q, int64_t n, ckm_error *err)
{
    const ckm_dataflow *df = q->df;
    size_t n_runs = (size_t)n;
    size_t inputs = 0;
    size_t outputs = 0;
    for (int64_t r = 0; r < n; r++) {
        inputs += (size_t)df->ops[q->order[r]].n_inputs;
        outputs += (size_t)df->ops[q->order[r]].n_outputs;
    }
    for (q->memory.size = 1; q->memory.size < n; q->memory.size *= 2) {
    }
    q->in = ckm_i_malloc(n_runs, sizeof *q->in);
    q->instead = ckm_i_malloc(n_runs, sizeof *q->instead);
    q->before = ckm_i_malloc(n_runs, sizeof *q->before);
    q->after = ckm_i_malloc(n_runs, sizeof *q->after);
    q->n_readers = ckm_i_malloc(n_runs, sizeof *q->n_readers);
    q->inputs_at = ckm_i_malloc(n_runs, sizeof *q->inputs_at);
    q->outputs_at = ckm_i_malloc(n_runs, sizeof *q->outputs_at);
    q->gone = ckm_i_malloc(n_runs, sizeof *q->gone);
    q->candidates = ckm_i_malloc(n_runs, sizeof *q->candidates);
    q->from = ckm_i_malloc(inputs, sizeof *q->from);
    q->overwritten = ckm_i_malloc(inputs, sizeof *q->overwritten);
    q->last = ckm_i_malloc(outputs, sizeof *q->last);
    q->last_overwrites = ckm_i_malloc(outputs, sizeof *q->last_overwrites);
    q->latest = ckm_i_malloc((size_t)df->n_ops, sizeof *q->latest);
    q->memory.most = ckm_i_malloc(2 * (size_t)q->memory.size, sizeof *q->memory.most);
    q->memory.added = ckm_i_malloc(2 * (size_t)q->memory.size, sizeof *q->memory.added);
    // A step for each computation and a free for each operand at most.
    q->in_use = ckm_i_malloc(n_runs + inputs + outputs, sizeof *q->in_use);
    return q->in == NULL || q->instead == NULL || q->before == NULL || q->after == NULL || q->n_readers == NULL ||
                   q->inputs_at == NULL || q->outputs_at == NULL || q->gone == NULL || q->candidates == NULL ||
                   q->from == NULL || q->overwritten == NULL || q->last == NULL || q->last_overwrites == NULL ||
                   q->latest == NULL || q->memory.most == NULL || q->memory.added == NULL || q->in_use == NULL
               ? ckm_i_error_memory(err)
               : CKM_OK;
}

static void dispose(runs *q)
{
    void *all[] = {q->in,         q->instead, q->before,      q->after,        q->n_readers,      q->inputs_at,
                   q->outputs_at, q->gone,    q->candidates,  q->from,         q->overwritten,    q->last,
                   q->latest,     q->in_use,  q->memory.most, q->memory.added, q->last_overwrites};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
}

// One pass from the sequence that `s` stands for, with this many bytes less. What is left is in q->in. Returns how many runs
// were left out.
static ckm_status pass(runs *q, const ckm_i_leave_out_options *options, const ckm_schedule *s, int64_t spare_bytes,
                       int64_t *n_out, ckm_error *err)
{
    CKM_I_CHECK(read_schedule(q, s, err));
    link_runs(q);
    find_candidates(q, options->exponent);
    *n_out = 0;
    for (int64_t i = 0; i < q->n_candidates; i++) {
        if (try_run(q, q->candidates[i].at, options->budget_bytes - spare_bytes)) {
            *n_out += q->n_gone;
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_leave_out_many(const ckm_dataflow *df, const ckm_i_leave_out_options *options, int32_t *order,
                                int64_t *n, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *s = NULL;
    ckm_schedule *made = NULL;
    ckm_simulation figures;
    runs q = {.df = df, .order = order, .n = *n};
    int64_t n_out = 1;
    int64_t spare = 0;
    int32_t *packed = ckm_i_malloc((size_t)*n, sizeof *packed);
    if (packed == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(allocate(&q, *n, err));
    CKM_I_TRY(ckm_i_schedule_from_order(df, order, *n, &s, err));
    while (n_out > 0 && !options->stop(options->context)) {
        int64_t left = 0;
        CKM_I_TRY(pass(&q, options, s, spare, &n_out, err));
        for (int64_t r = 0; r < q.n; r++) {
            packed[left] = order[r];
            left += q.in[r];
        }
        CKM_I_TRY(ckm_i_schedule_from_order(df, packed, left, &made, err));
        CKM_I_TRY(ckm_i_schedule_try(df, made, NULL, &figures, err));
        if (figures.peak_bytes > options->budget_bytes) {
            // What the profile does not see of overwriting: once more, further from the limit.
            spare += figures.peak_bytes - options->budget_bytes;
            ckm_schedule_free(made);
            made = NULL;
            continue;
        }
        memcpy(order, packed, (size_t)left * sizeof *order);
        q.n = left;
        *n = left;
        ckm_schedule_free(s);
        s = made;
        made = NULL;
    }
cleanup:
    ckm_schedule_free(s);
    ckm_schedule_free(made);
    free(packed);
    dispose(&q);
    return status;
}
