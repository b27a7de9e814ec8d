// SPDX-License-Identifier: Apache-2.0
// Three kinds: a tensor that is held for long is made again before it is read, with as much of what that needs as chance
// will have it; a run is left out; some runs next to each other go elsewhere. While something exceeds the budget, every other
// tensor is one that is held there.
#include "solve/runs/runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bitset.h"
#include "base/error.h"

// Shares of the kinds, in percent; what remains goes elsewhere.
enum { again_share = 40, out_share = 35 };

// How likely an operand that is not held is made again, too, rather than held.
static const double deep[] = {0.0, 0.3, 0.6, 0.85, 1.0, 1.0};

enum { most_drawn = 4, most_tries = 40, longest_block = 24, recent = 8 };

// A stretch has this many runs, times a power of two up to 2^6.
enum { shortest_stretch = 8, stretch_lengths = 7 };

ckm_status ckm_i_runs_mover_init(ckm_i_runs_mover *m, ckm_i_runs *q, uint64_t seed, ckm_error *err)
{
    *m = (ckm_i_runs_mover){.q = q, .rng = {seed}};
    m->op_stamp = ckm_i_calloc((size_t)q->df->n_ops, sizeof *m->op_stamp);
    m->held = ckm_i_malloc((size_t)q->df->n_tensors, sizeof *m->held);
    if (m->op_stamp == NULL || m->held == NULL) {
        ckm_i_runs_mover_dispose(m);
        return ckm_i_error_memory(err);
    }
    return CKM_OK;
}

void ckm_i_runs_mover_dispose(ckm_i_runs_mover *m)
{
    free(m->op_stamp);
    free(m->held);
    *m = (ckm_i_runs_mover){0};
}

static int32_t below(ckm_i_runs_mover *m, int32_t n)
{
    return (int32_t)ckm_i_rng_below(&m->rng, (uint32_t)n);
}

static bool can_run_again(const ckm_i_runs *q, int32_t x)
{
    int32_t v = q->df->tensors[x].producer;
    return v >= 0 && q->df->ops[v].recomputable && !q->df->tensors[x].pinned;
}

// Whether a change may let go of x where it is held.
static bool may_be_dropped(const ckm_i_runs_mover *m, int32_t x)
{
    return can_run_again(m->q, x) && !(m->keeps_results && m->q->df->tensors[x].is_result);
}

// Marks what makes or reads x.
static void mark_touching(ckm_i_runs_mover *m, int32_t x)
{
    const ckm_i_dataflow_tensor *t = &m->q->df->tensors[x];
    m->stamp++;
    m->op_stamp[t->producer] = m->stamp;
    for (int32_t k = 0; k < t->n_users; k++) {
        m->op_stamp[t->users[k]] = m->stamp;
    }
}

// The last marked run before a place, -1; the first from it on, n.
static int32_t marked_before(const ckm_i_runs_mover *m, int32_t at)
{
    int32_t i = at - 1;
    while (i >= 0 && m->op_stamp[m->q->at.op[i]] != m->stamp) {
        i--;
    }
    return i;
}

static int32_t marked_from(const ckm_i_runs_mover *m, int32_t at)
{
    int32_t i = at;
    while (i < m->q->n && m->op_stamp[m->q->at.op[i]] != m->stamp) {
        i++;
    }
    return i;
}

// What runs for x to be made at a place, in an order in which it can: operand by operand, one after the other. False where
// there is no room, or something would run again that must not.
static bool add_chain(ckm_i_runs_mover *m, int32_t v, int32_t at, double depth)
{
    ckm_i_runs *q = m->q;
    const ckm_i_dataflow_op *op = &q->df->ops[v];
    const uint64_t *row = ckm_i_runs_row(q, at);
    const uint64_t *before = ckm_i_runs_row(q, at > recent ? at - below(m, recent) : at);
    m->op_stamp[v] = m->stamp;
    int32_t turn = op->n_inputs > 0 ? below(m, op->n_inputs) : 0;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t x = op->inputs[(i + turn) % op->n_inputs];
        int32_t u = q->df->tensors[x].producer;
        if (u < 0 || m->op_stamp[u] == m->stamp) {
            continue;
        }
        bool made = q->first_at[u] < at;
        if (made && (!can_run_again(q, x) || ckm_i_bits_get(row, x) || ckm_i_bits_get(before, x) ||
                     ckm_i_rng_unit(&m->rng) >= depth)) {
            continue;
        }
        if (!q->df->ops[u].recomputable || !add_chain(m, u, at, depth)) {
            return false;
        }
    }
    if (q->n_chain == CKM_I_RUNS_MAX_CHAIN) {
        return false;
    }
    q->chain[q->n_chain++] = v;
    return true;
}

static int by_operator(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool make_again(ckm_i_runs_mover *m, int32_t x, int32_t after, int32_t reader, bool far)
{
    ckm_i_runs *q = m->q;
    int32_t v = q->df->tensors[x].producer;
    q->chain_at = below(m, 4) == 0 ? after + 1 + below(m, reader - after) : reader;
    if (q->first_at[v] >= q->chain_at) {
        return false;
    }
    m->stamp++;
    if (!add_chain(m, v, q->chain_at, far ? 1.0 : deep[below(m, (int32_t)(sizeof deep / sizeof deep[0]))])) {
        return false;
    }
    if (!far && below(m, 2) == 0) {
        qsort(q->chain, (size_t)q->n_chain, sizeof *q->chain, by_operator);
    }
    return true;
}

// A place where the budget is exceeded, or -1.
static int32_t draw_excess(ckm_i_runs_mover *m)
{
    const ckm_i_runs *q = m->q;
    int32_t begin = below(m, q->n);
    for (int32_t k = 0; k < q->n && q->excess > 0; k++) {
        int32_t i = begin + k < q->n ? begin + k : begin + k - q->n;
        if (q->at.used[i] > q->budget_bytes) {
            return i;
        }
    }
    return -1;
}

// One of the tensors held across a place, the largest of a few.
static int32_t draw_held(ckm_i_runs_mover *m, int32_t at)
{
    const ckm_i_runs *q = m->q;
    const ckm_i_dataflow_op *op = &q->df->ops[q->at.op[at]];
    const uint64_t *row = ckm_i_runs_row(q, at);
    const uint64_t *next = ckm_i_runs_row(q, at + 1);
    int32_t n = 0;
    for (int32_t w = 0; w < q->words; w++) {
        for (uint64_t bits = row[w] & next[w]; bits != 0; bits &= bits - 1) {
            int32_t x = w * 64 + __builtin_ctzll(bits);
            bool stays = !may_be_dropped(m, x);
            for (int32_t i = 0; i < op->n_inputs && !stays; i++) {
                stays = op->inputs[i] == x;
            }
            m->held[n] = x;
            n += !stays;
        }
    }
    int32_t best = -1;
    int64_t most = -1;
    for (int32_t k = 1 + below(m, most_drawn); k > 0 && n > 0; k--) {
        int32_t x = m->held[below(m, n)];
        int64_t bytes = q->df->tensors[q->df->tensors[x].storage].bytes;
        best = bytes > most ? x : best;
        most = bytes > most ? bytes : most;
    }
    return best;
}

static bool draw_again_at(ckm_i_runs_mover *m, int32_t at, bool far)
{
    int32_t x = draw_held(m, at);
    if (x < 0) {
        return false;
    }
    mark_touching(m, x);
    return make_again(m, x, at, marked_from(m, at + 1), far);
}

// A reading of something that has been held for long, of a few the one with most bytes and runs in between.
static bool draw_again(ckm_i_runs_mover *m)
{
    const ckm_i_runs *q = m->q;
    int32_t best = -1;
    int32_t after = 0;
    int32_t reader = 0;
    double most = -1.0;
    for (int32_t k = 1 + below(m, most_drawn); k > 0; k--) {
        int32_t at = below(m, q->n);
        const ckm_i_dataflow_op *op = &q->df->ops[q->at.op[at]];
        int32_t x = op->n_inputs > 0 ? op->inputs[below(m, op->n_inputs)] : -1;
        if (x < 0 || !may_be_dropped(m, x)) {
            continue;
        }
        mark_touching(m, x);
        int32_t since = marked_before(m, at);
        double worth = (double)q->df->tensors[q->df->tensors[x].storage].bytes * (at - since);
        if (since < at - 1 && worth > most) {
            most = worth;
            best = x;
            after = since;
            reader = at;
        }
    }
    return best >= 0 && make_again(m, best, after, reader, false);
}

// A run that is not the first of its operator, or -1.
static int32_t draw_later(ckm_i_runs_mover *m)
{
    const ckm_i_runs *q = m->q;
    for (int32_t k = 0; k < most_tries; k++) {
        int32_t i = below(m, q->n);
        if (q->first_at[q->at.op[i]] != i) {
            return i;
        }
    }
    return -1;
}

static bool draw_out(ckm_i_runs_mover *m)
{
    ckm_i_runs *q = m->q;
    int32_t at = draw_later(m);
    if (at >= 0) {
        q->dropped[q->n_dropped++] = at;
    }
    return at >= 0;
}

// Where the first of what an operator makes is read, from a place on.
static int32_t first_reader(ckm_i_runs_mover *m, int32_t v, int32_t from)
{
    const ckm_i_runs *q = m->q;
    const ckm_i_dataflow_op *op = &q->df->ops[v];
    m->stamp++;
    for (int32_t k = 0; k < op->n_outputs; k++) {
        const ckm_i_dataflow_tensor *t = &q->df->tensors[op->outputs[k]];
        for (int32_t u = 0; u < t->n_users; u++) {
            m->op_stamp[t->users[u]] = m->stamp;
        }
    }
    return marked_from(m, from);
}

static int32_t draw_place(ckm_i_runs_mover *m, int32_t begin, int32_t end)
{
    int32_t reader = first_reader(m, m->q->at.op[end - 1], end);
    switch (below(m, 4)) {
    case 0:
        return reader;
    case 1:
        return end + below(m, reader - end + 1);
    case 2:
        return begin - 1 - below(m, recent);
    default:
        return below(m, begin + 1);
    }
}

// Whether all that an operator reads has been made by some run before a place, or is by one of those from `begin` on.
static bool finds_operands(const ckm_i_runs *q, int32_t v, int32_t to, int32_t begin)
{
    const ckm_i_dataflow_op *op = &q->df->ops[v];
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t u = q->df->tensors[op->inputs[i]].producer;
        if (u >= 0 && q->first_at[u] >= to && q->first_at[u] < begin) {
            return false;
        }
    }
    return true;
}

// Whether runs begin ... end - 1 may go before another place. Some of them may make what others read.
static bool may_go(ckm_i_runs_mover *m, int32_t begin, int32_t end, int32_t to)
{
    const ckm_i_runs *q = m->q;
    for (int32_t i = begin; i < end; i++) {
        int32_t v = q->at.op[i];
        bool first = q->first_at[v] == i;
        if (q->keeps_order && (first || q->first_at[v] >= to)) {
            return false;
        }
        if (to < begin ? !finds_operands(q, v, to, begin) : first && first_reader(m, v, end) < to) {
            return false;
        }
    }
    return true;
}

// Some runs next to each other go elsewhere. Where the order is to be kept, none is a first one.
static bool draw_elsewhere(ckm_i_runs_mover *m)
{
    ckm_i_runs *q = m->q;
    int32_t begin = q->keeps_order ? draw_later(m) : below(m, q->n);
    if (begin < 0) {
        return false;
    }
    int32_t length = below(m, 2) == 0 ? 1 : 1 + below(m, longest_block);
    int32_t end = begin + 1;
    while (end < q->n && end - begin < length && (!q->keeps_order || q->first_at[q->at.op[end]] != end)) {
        end++;
    }
    int32_t to = draw_place(m, begin, end);
    if (to < 0 || (to >= begin && to <= end) || !may_go(m, begin, end, to)) {
        return false;
    }
    for (int32_t i = begin; i < end; i++) {
        q->dropped[q->n_dropped++] = i;
        q->chain[q->n_chain++] = q->at.op[i];
    }
    q->chain_at = to;
    return true;
}

// Now and then another run is left out as well.
static void leave_out_another(ckm_i_runs_mover *m)
{
    ckm_i_runs *q = m->q;
    int32_t at = draw_later(m);
    int32_t k = q->n_dropped;
    for (int32_t i = 0; i < q->n_dropped; i++) {
        if (q->dropped[i] == at) {
            return;
        }
    }
    if (at < 0 || q->n_dropped == CKM_I_RUNS_MAX_DROPPED) {
        return;
    }
    for (; k > 0 && q->dropped[k - 1] > at; k--) {
        q->dropped[k] = q->dropped[k - 1];
    }
    q->dropped[k] = at;
    q->n_dropped++;
}

bool ckm_i_runs_draw_far(ckm_i_runs_mover *m)
{
    int32_t at = below(m, 3) > 0 ? draw_excess(m) : -1;
    ckm_i_runs_clear_change(m->q);
    return at >= 0 ? draw_again_at(m, at, below(m, 3) > 0) : ckm_i_runs_draw(m);
}

bool ckm_i_runs_draw_stretch(ckm_i_runs_mover *m)
{
    ckm_i_runs *q = m->q;
    ckm_i_runs_clear_change(q);
    int32_t begin = draw_later(m);
    int32_t length = shortest_stretch << below(m, stretch_lengths);
    for (int32_t i = begin; begin >= 0 && i < q->n && i - begin < length; i++) {
        if (q->first_at[q->at.op[i]] != i && q->n_dropped < CKM_I_RUNS_MAX_DROPPED) {
            q->dropped[q->n_dropped++] = i;
        }
    }
    return begin >= 0;
}

bool ckm_i_runs_draw(ckm_i_runs_mover *m)
{
    int32_t kind = below(m, 100);
    bool drawn;
    ckm_i_runs_clear_change(m->q);
    if (kind < again_share) {
        int32_t at = below(m, 2) == 0 ? draw_excess(m) : -1;
        drawn = at >= 0 ? draw_again_at(m, at, false) : draw_again(m);
    } else if (kind < again_share + out_share) {
        drawn = draw_out(m);
    } else {
        drawn = draw_elsewhere(m);
    }
    if (drawn && below(m, 8) == 0) {
        leave_out_another(m);
    }
    return drawn;
}
