// SPDX-License-Identifier: Apache-2.0
// Which candidates become checkpoints: the two rules of Chen et al. 2016 (arXiv 1604.06174, section 4).
#include "base/checked.h"
#include "solve/checkpoints/checkpoints.h"

static int32_t square_root(int32_t n)
{
    int32_t root = 0;
    while ((int64_t)(root + 1) * (root + 1) <= n) {
        root++;
    }
    return root;
}

void ckm_i_checkpoints_sqrt(const ckm_i_positions *candidates, ckm_i_positions *out)
{
    int32_t stride = square_root(candidates->n);
    out->n = 0;
    for (int32_t i = stride - 1; stride > 0 && i < candidates->n; i += stride) {
        out->at[out->n++] = candidates->at[i];
    }
}

void ckm_i_checkpoints_greedy(const ckm_i_forward *fw, const ckm_i_positions *candidates, int64_t limit_bytes,
                              ckm_i_positions *out)
{
    int64_t sum = 0;
    int32_t next = 0;
    out->n = 0;
    for (int32_t p = 0; p < fw->n; p++) {
        sum += ckm_i_forward_bytes(fw, p);
        if (next < candidates->n && candidates->at[next] == p) {
            next++;
            if (sum > limit_bytes) {
                out->at[out->n++] = p;
                sum = 0;
            }
        }
    }
}

int64_t ckm_i_checkpoints_greedy_limit(int64_t base_bytes, int32_t k)
{
    int64_t whole;
    if (!ckm_i_mul(base_bytes / 20, k, &whole) || !ckm_i_add(whole, base_bytes % 20 * k / 20, &whole)) {
        return INT64_MAX;
    }
    return whole;
}
