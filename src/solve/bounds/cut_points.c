// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/cut_points.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/core/structure.h"

// Stretches into which the range of places to try is divided; in each the one with most to hold and the one where holding
// what does not fit is dearest are tried.
enum { n_stretches = 8 };

// So few evenly spread cuts are no better a start than the best single one, with more where they are asked for.
enum { few_cuts = 4 };

// Refining adds this many cuts at a time, or one for each that is there if that is more: where the excess is at least this
// share of the largest, this share of the memory, and so far from each other, in parts of the range. They do not come right
// next to a cut that is there; two operators on, a narrow peak may need one. A cut goes when this share of the memory is left
// there.
enum { added_cuts = 3, apart = 40, adjacent = 1 };
static const double excess_share = 0.3, least_excess = 1e-3, spare = 0.1;

// Bytes that live while each operator runs when nothing is recomputed; a storage lives while any tensor on it is used.
static bool find_live(const ckm_dataflow *df, int64_t *live)
{
    int32_t *last = ckm_i_malloc((size_t)df->n_tensors, sizeof *last);
    if (last == NULL) {
        return false;
    }
    ckm_i_last_use(df, last);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (!tensor->pinned && tensor->producer >= 0 && tensor->storage == x) {
            int32_t end = last[x] < tensor->producer ? tensor->producer : last[x] < df->n_ops ? last[x] : df->n_ops - 1;
            live[tensor->producer] += tensor->bytes;
            live[end + 1] -= tensor->bytes;
        }
    }
    free(last);
    for (int32_t v = 0; v < df->n_ops; v++) {
        live[v + 1] += live[v];  // the last entry is not used
        live[v] += df->ops[v].workspace_bytes;
    }
    return true;
}

ckm_status ckm_i_cut_points_init(const ckm_dataflow *df, int64_t budget_bytes, int32_t first, ckm_i_cut_points *out,
                                 ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)df->n_ops;
    ckm_i_cut_points c = {.n_ops = df->n_ops, .first = first, .best = -1, .from = first, .to = df->n_ops};
    c.live = ckm_i_calloc(n + 1, sizeof *c.live);
    c.price = ckm_i_malloc(n, sizeof *c.price);
    c.score = ckm_i_malloc(n, sizeof *c.score);
    c.next = ckm_i_malloc((size_t)2 * n_stretches, sizeof *c.next);
    c.current = ckm_i_malloc(n, sizeof *c.current);
    c.left = ckm_i_calloc(n, sizeof *c.left);
    c.rank = ckm_i_calloc(n, sizeof *c.rank);
    if (c.live == NULL || c.price == NULL || c.score == NULL || c.next == NULL || c.current == NULL || c.left == NULL ||
        c.rank == NULL || !find_live(df, c.live)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_cut_prices(df, budget_bytes, c.price, err));
    for (int32_t v = 0; v < df->n_ops; v++) {
        c.score[v] = -INFINITY;
    }
    *out = c;
    c = (ckm_i_cut_points){0};
cleanup:
    ckm_i_cut_points_dispose(&c);
    return status;
}

void ckm_i_cut_points_dispose(ckm_i_cut_points *cuts)
{
    free(cuts->live);
    free(cuts->price);
    free(cuts->score);
    free(cuts->next);
    free(cuts->current);
    free(cuts->left);
    free(cuts->rank);
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

// The one with the highest price; where all are free, the fullest.
static int32_t dearest(const ckm_i_cut_points *c, int32_t from, int32_t to)
{
    int32_t best = from;
    for (int32_t v = from + 1; v < to; v++) {
        best = c->price[v] > c->price[best] ? v : best;
    }
    return c->price[best] > 0.0 ? best : fullest(c->live, from, to);
}

static void add_place(ckm_i_cut_points *c, int32_t v)
{
    bool known = c->score[v] > -INFINITY;
    for (int32_t i = 0; i < c->n_next; i++) {
        known = known || c->next[i] == v;
    }
    if (known) {
        return;
    }
    // The dearest first: time may not allow for all.
    int32_t at = c->n_next++;
    for (; at > 0 && c->price[c->next[at - 1]] < c->price[v]; at--) {
        c->next[at] = c->next[at - 1];
    }
    c->next[at] = v;
}

int32_t ckm_i_cut_points_next(ckm_i_cut_points *c)
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
            add_place(c, dearest(c, from, to));
            add_place(c, fullest(c->live, from, to));
        }
    }
    return c->at < c->n_next ? c->next[c->at++] : -1;
}

void ckm_i_cut_points_score(ckm_i_cut_points *c, int32_t cut, double bound)
{
    c->score[cut] = bound;
    if (bound > -INFINITY && (c->best < 0 || bound > c->score[c->best])) {
        c->best = cut;
    }
}

// The best place for a cut in a stretch: the best that was tried there, else the dearest.
static int32_t place_in(const ckm_i_cut_points *c, int32_t from, int32_t to)
{
    int32_t place = dearest(c, from, to);
    for (int32_t v = from; v < to; v++) {
        place = c->score[v] > c->score[place] ? v : place;
    }
    return place;
}

int32_t ckm_i_cut_points_choose(const ckm_i_cut_points *c, int32_t n_cuts, int32_t *out)
{
    int64_t range = c->n_ops - c->first;
    int64_t n = n_cuts < range ? n_cuts : range;
    for (int64_t k = 0; k < n; k++) {
        int32_t from = c->first + (int32_t)(range * k / n);
        int32_t to = c->first + (int32_t)(range * (k + 1) / n);
        out[k] = place_in(c, from, to);
    }
    return (int32_t)n;
}

void ckm_i_cut_points_begin(ckm_i_cut_points *c, int32_t n_cuts)
{
    if (n_cuts <= few_cuts && c->best >= 0) {
        c->current[0] = c->best;
        c->n_current = 1;
    } else {
        c->n_current = ckm_i_cut_points_choose(c, n_cuts, c->current);
    }
    for (int32_t k = 0; k < c->n_current; k++) {
        c->rank[c->current[k]] = ++c->last_rank;
    }
    c->stretches = n_cuts <= few_cuts ? few_cuts / 2 : n_cuts;
}

static void insert(ckm_i_cut_points *c, int32_t v)
{
    int32_t at = c->n_current++;
    c->rank[v] = ++c->last_rank;
    for (; at > 0 && c->current[at - 1] > v; at--) {
        c->current[at] = c->current[at - 1];
    }
    c->current[at] = v;
}

static void drop_spare(ckm_i_cut_points *c, const double *slack)
{
    int32_t n = 0;
    for (int32_t k = 0; k < c->n_current; k++) {
        int32_t v = c->current[k];
        if (slack[k] > spare && !c->left[v]) {
            c->left[v] = true;
        } else {
            c->current[n++] = v;
        }
    }
    c->n_current = n;
}

// No other cut comes into the surroundings of one.
static void clear(const ckm_i_cut_points *c, double *excess, int32_t v, int32_t reach)
{
    for (int32_t u = v > reach ? v - reach : 0; u <= v + reach && u < c->n_ops; u++) {
        excess[u] = -INFINITY;
    }
}

// Returns how many cuts have come.
static int32_t add_excessive(ckm_i_cut_points *c, double *excess)
{
    int32_t most = c->n_current > added_cuts ? c->n_current : added_cuts;
    int32_t n = 0;
    double largest = 0.0;
    for (int32_t k = 0; k < c->n_current; k++) {
        clear(c, excess, c->current[k], adjacent);
    }
    for (; n < most; n++) {
        int32_t v = c->first;
        for (int32_t u = c->first; u < c->n_ops; u++) {
            v = excess[u] > excess[v] ? u : v;
        }
        if (excess[v] < least_excess || excess[v] < excess_share * largest) {
            break;
        }
        largest = fmax(largest, excess[v]);
        insert(c, v);
        clear(c, excess, v, (c->n_ops - c->first) / apart + 1);
    }
    return n;
}

// A cut for every stretch that has none. Returns how many have come.
static int32_t fill_stretches(ckm_i_cut_points *c)
{
    int64_t range = c->n_ops - c->first;
    int32_t n = 0;
    int32_t k = 0;
    for (int64_t i = 0; i < c->stretches; i++) {
        int32_t from = c->first + (int32_t)(range * i / c->stretches);
        int32_t to = c->first + (int32_t)(range * (i + 1) / c->stretches);
        bool has = from == to;
        for (; k < c->n_current && c->current[k] < to; k++) {
            has = has || c->current[k] >= from;
        }
        int32_t place = has ? -1 : place_in(c, from, to);
        if (place >= 0 && !c->left[place]) {
            insert(c, place);
            k++;
            n++;
        }
    }
    return n;
}

bool ckm_i_cut_points_refine(ckm_i_cut_points *c, double *excess, const double *slack)
{
    drop_spare(c, slack);
    int32_t n = add_excessive(c, excess);
    while (n == 0 && c->stretches < c->n_ops - c->first) {
        c->stretches *= 2;
        n = fill_stretches(c);
    }
    return n > 0;
}

int32_t ckm_i_cut_points_earliest(const ckm_i_cut_points *c, int32_t n_cuts, int32_t *out)
{
    int32_t n = 0;
    for (int32_t k = 0; k < c->n_current; k++) {
        int32_t before = 0;
        for (int32_t i = 0; i < c->n_current; i++) {
            before += c->rank[c->current[i]] < c->rank[c->current[k]];
        }
        if (before < n_cuts) {
            out[n++] = c->current[k];
        }
    }
    return n;
}

// What lives on past v and is not touched by it waits in memory or is made again. Where not all of it fits, what is
// cheapest per byte goes, the last part of it in proportion (Dantzig's bound of the knapsack). Neither operands that are
// missing as well nor operators with several outputs are looked at, so it is an estimate. Storages have places in the
// order of their cost per byte, in Fenwick trees of bytes and costs; they enter and leave them as v goes on.

typedef struct storage {
    int32_t tensor, last;  // the tensor that owns it, the last operator that reads it
    int64_t bytes;
    double cost, per_byte;  // of making it again
} storage;

typedef struct pricer {
    const ckm_dataflow *df;
    storage *at;  // by place
    int32_t n;
    int32_t *place;        // by tensor that owns a storage; -1: not followed
    bool *in;              // by place
    double *bytes, *cost;  // the trees, from 1
} pricer;

static int by_price(const void *a, const void *b)
{
    const storage *p = a;
    const storage *q = b;
    return p->per_byte != q->per_byte ? (p->per_byte < q->per_byte ? -1 : 1) : p->tensor - q->tensor;
}

// Storages with bytes that an operator makes and that are needed again.
static void list_storages(pricer *p)
{
    const ckm_dataflow *df = p->df;
    ckm_i_last_use(df, p->place);  // until the places are known
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int32_t last = p->place[x];
        p->place[x] = -1;
        if (tensor->storage == x && !tensor->pinned && tensor->producer >= 0 && tensor->bytes > 0) {
            const ckm_i_dataflow_op *op = &df->ops[tensor->producer];
            double cost = op->recomputable ? (double)op->cost : (double)df->total_cost;
            p->at[p->n++] = (storage){x, last, tensor->bytes, cost, cost / (double)tensor->bytes};
        }
    }
    if (p->n > 1) {
        qsort(p->at, (size_t)p->n, sizeof *p->at, by_price);
    }
    for (int32_t i = 0; i < p->n; i++) {
        p->place[p->at[i].tensor] = i;
    }
}

static void put(pricer *p, int32_t place, bool in)
{
    if (p->in[place] == in) {
        return;
    }
    p->in[place] = in;
    double sign = in ? 1.0 : -1.0;
    for (int32_t i = place + 1; i <= p->n; i += i & -i) {
        p->bytes[i] += sign * (double)p->at[place].bytes;
        p->cost[i] += sign * p->at[place].cost;
    }
}

// All storages that v touches: in where they live on past it, or out.
static void put_touched(pricer *p, int32_t v, bool in)
{
    const ckm_i_dataflow_op *op = &p->df->ops[v];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        int32_t place = p->place[p->df->tensors[x].storage];
        if (place >= 0) {
            put(p, place, in && p->at[place].last > v);
        }
    }
}

// The least cost of making `excess` bytes again of what is in the trees.
static double cheapest(const pricer *p, double excess)
{
    int32_t i = 0;
    double cost = 0.0;
    int32_t step = 1;
    while (step <= p->n / 2) {
        step *= 2;
    }
    for (; step > 0; step /= 2) {
        if (i + step <= p->n && p->bytes[i + step] < excess) {
            i += step;
            excess -= p->bytes[i];
            cost += p->cost[i];
        }
    }
    return i < p->n ? cost + excess * p->at[i].per_byte : cost;
}

static double all_bytes(const pricer *p)
{
    double bytes = 0.0;
    for (int32_t i = p->n; i > 0; i -= i & -i) {
        bytes += p->bytes[i];
    }
    return bytes;
}

// Bytes that the links can take out in so much time and back in the rest.
static double moved_bytes(const ckm_dataflow *df, double passed)
{
    double per_second = df->cost_unit == CKM_COST_US ? 1e6 : 1e9;
    return df->second_name == NULL ? 0.0
                                   : fmin((double)df->second.out_bytes_per_second * passed,
                                          (double)df->second.in_bytes_per_second * ((double)df->total_cost - passed)) /
                                         per_second;
}

ckm_status ckm_i_cut_prices(const ckm_dataflow *df, int64_t budget_bytes, double *prices, ckm_error *err)
{
    size_t n = (size_t)df->n_tensors;
    pricer p = {
        .df = df,
        .at = ckm_i_malloc(n, sizeof *p.at),
        .place = ckm_i_malloc(n, sizeof *p.place),
        .in = ckm_i_calloc(n, sizeof *p.in),
        .bytes = ckm_i_calloc(n + 1, sizeof *p.bytes),
        .cost = ckm_i_calloc(n + 1, sizeof *p.cost),
    };
    ckm_status status = CKM_OK;
    if (p.at == NULL || p.place == NULL || p.in == NULL || p.bytes == NULL || p.cost == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    list_storages(&p);
    double passed = 0.0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        passed += (double)df->ops[v].cost;
        put_touched(&p, v, false);
        double room = (double)(budget_bytes - df->resident_bytes - ckm_i_working_set(df, v));
        double excess = all_bytes(&p) - room - moved_bytes(df, passed);
        prices[v] = excess > 0.0 ? cheapest(&p, excess) : 0.0;
        put_touched(&p, v, true);
    }
cleanup:
    free(p.at);
    free(p.place);
    free(p.in);
    free(p.bytes);
    free(p.cost);
    return status;
}
