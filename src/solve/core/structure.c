// SPDX-License-Identifier: Apache-2.0
#include "solve/core/structure.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/compare.h"

int64_t ckm_i_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

double ckm_i_cost_scale(const ckm_dataflow *df, int64_t *cost_gcd)
{
    int64_t gcd = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        gcd = ckm_i_gcd(df->ops[v].cost, gcd);
    }
    *cost_gcd = gcd > 0 ? gcd : 1;
    double total = (double)(df->total_cost / *cost_gcd);
    return (double)*cost_gcd * (total > 1e7 ? total / 1e7 : 1.0);
}

double ckm_i_row_scale(int64_t largest_units)
{
    double scale = 1.0;
    while ((double)largest_units / scale > 1e4) {
        scale *= 2.0;
    }
    return scale;
}

double ckm_i_byte_scale(const ckm_dataflow *df)
{
    int64_t largest = 1;
    int64_t gcd = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        largest = df->tensors[x].bytes > largest ? df->tensors[x].bytes : largest;
        gcd = ckm_i_gcd(df->tensors[x].bytes, gcd);
    }
    int64_t unit = gcd > 0 ? gcd : 1;
    return (double)unit * ckm_i_row_scale(largest / unit);
}

static int32_t view_of(const ckm_dataflow *df, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    const ckm_i_dataflow_op *op = tensor->producer >= 0 ? &df->ops[tensor->producer] : NULL;
    int32_t found = -1;
    for (int32_t i = 0; op != NULL && !tensor->pinned && i < op->n_inputs; i++) {
        found = df->tensors[op->inputs[i]].storage == tensor->storage ? op->inputs[i] : found;
    }
    return found;
}

void ckm_i_find_views(const ckm_dataflow *df, int32_t *out)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        out[x] = view_of(df, x);
    }
}

bool ckm_i_has_views(const ckm_dataflow *df)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (view_of(df, x) >= 0) {
            return true;
        }
    }
    return false;
}

void ckm_i_last_need(const ckm_dataflow *df, int32_t *last_need)
{
    for (int32_t v = df->n_ops - 1; v >= 0; v--) {
        last_need[v] = v;
        for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
            const ckm_i_dataflow_tensor *x = &df->tensors[df->ops[v].outputs[i]];
            last_need[v] = x->is_result ? df->n_ops : last_need[v];
            for (int32_t u = 0; u < x->n_users; u++) {
                int32_t need = last_need[x->users[u]];
                last_need[v] = need > last_need[v] ? need : last_need[v];
            }
        }
    }
}

void ckm_i_last_use(const ckm_dataflow *df, int32_t *last_use)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        last_use[x] = -1;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int32_t last = tensor->is_result ? df->n_ops : tensor->n_users > 0 ? tensor->users[tensor->n_users - 1] : -1;
        last_use[tensor->storage] = last > last_use[tensor->storage] ? last : last_use[tensor->storage];
    }
}

static int32_t storage_at(const ckm_dataflow *df, const ckm_i_dataflow_op *op, int32_t i)
{
    return df->tensors[i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs]].storage;
}

// Whether tensor i of the operator's inputs and outputs, in this order, shares its storage with an earlier one.
static bool is_repeated(const ckm_dataflow *df, const ckm_i_dataflow_op *op, int32_t i)
{
    for (int32_t k = 0; k < i; k++) {
        if (storage_at(df, op, k) == storage_at(df, op, i)) {
            return true;
        }
    }
    return false;
}

// Bytes of the storages that the operator touches. Sorted where they are many; without the memory for that, compared.
static int64_t touched_bytes(const ckm_dataflow *df, const ckm_i_dataflow_op *op)
{
    enum { few = 32 };
    int32_t n = op->n_inputs + op->n_outputs;
    int64_t bytes = 0;
    int32_t *sorted = n > few ? ckm_i_malloc((size_t)n, sizeof *sorted) : NULL;
    for (int32_t i = 0; i < n && sorted != NULL; i++) {
        sorted[i] = storage_at(df, op, i);
    }
    if (sorted != NULL) {
        qsort(sorted, (size_t)n, sizeof *sorted, ckm_i_compare_int32);
    }
    for (int32_t i = 0; i < n; i++) {
        bool again = sorted != NULL ? i > 0 && sorted[i - 1] == sorted[i] : is_repeated(df, op, i);
        const ckm_i_dataflow_tensor *storage = &df->tensors[sorted != NULL ? sorted[i] : storage_at(df, op, i)];
        bytes += storage->pinned || again ? 0 : storage->bytes;
    }
    free(sorted);
    return bytes;
}

int64_t ckm_i_working_set(const ckm_dataflow *df, int32_t v)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    int64_t bytes = op->workspace_bytes + touched_bytes(df, op);
    bytes -= ckm_i_inplace_best(df, (const int32_t(*)[2])op->inplace, op->n_inplace, NULL, NULL);
    return bytes > 0 ? bytes : 0;
}
