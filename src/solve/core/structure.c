// SPDX-License-Identifier: Apache-2.0
#include "solve/core/structure.h"

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

// Whether tensor i of operator v's inputs and outputs, in this order, shares its storage with an earlier one.
static bool is_repeated(const ckm_dataflow *df, const ckm_i_dataflow_op *op, int32_t i)
{
    int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
    for (int32_t k = 0; k < i; k++) {
        int32_t y = k < op->n_inputs ? op->inputs[k] : op->outputs[k - op->n_inputs];
        if (df->tensors[x].storage == df->tensors[y].storage) {
            return true;
        }
    }
    return false;
}

int64_t ckm_i_working_set(const ckm_dataflow *df, int32_t v)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    int64_t bytes = op->workspace_bytes;
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        const ckm_i_dataflow_tensor *storage = &df->tensors[df->tensors[x].storage];
        bytes += storage->pinned || is_repeated(df, op, i) ? 0 : storage->bytes;
    }
    bytes -= ckm_i_inplace_best(df, (const int32_t(*)[2])op->inplace, op->n_inplace, NULL, NULL);
    return bytes > 0 ? bytes : 0;
}
