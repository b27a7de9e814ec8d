// SPDX-License-Identifier: Apache-2.0
// What lives on past v and is not touched by it waits in memory or is made again. Where not all of it fits, what is
// cheapest per byte goes, the last part of it in proportion (Dantzig's bound of the knapsack). Neither operands that are
// missing as well nor operators with several outputs are looked at, so it is an estimate. Storages have places in the
// order of their cost per byte, in Fenwick trees of bytes and costs; they enter and leave them as v goes on.
#include "solve/bounds/stage_prices.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/core/structure.h"

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

ckm_status ckm_i_stage_prices(const ckm_dataflow *df, int64_t budget_bytes, double *prices, ckm_error *err)
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
    for (int32_t v = 0; v < df->n_ops; v++) {
        put_touched(&p, v, false);
        double room = (double)(budget_bytes - df->resident_bytes - ckm_i_working_set(df, v));
        double excess = all_bytes(&p) - room;
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
