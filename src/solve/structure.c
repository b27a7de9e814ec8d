// SPDX-License-Identifier: Apache-2.0
#include "solve/structure.h"

int64_t ckm_i_gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
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
