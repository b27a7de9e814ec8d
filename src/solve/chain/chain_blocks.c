// SPDX-License-Identifier: Apache-2.0
// Cuts the forward part of a graph into blocks and measures them.
#include "solve/chain/chain.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct measurer {
    const ckm_i_forward *fw;
    const ckm_dataflow *df;
    // Per storage: the last position that reads it, and the last operator behind the forward part (-1: none).
    int32_t *last_forward, *last_behind;
    int32_t *block_of;  // position -> block
    int64_t
        *across;  // bytes in addition to the forward part held into stage t, what it needs of unwound blocks included
} measurer;

static bool owns_storage(const ckm_dataflow *df, int32_t x)
{
    return df->tensors[x].storage == x && !df->tensors[x].pinned;
}

static void find_last_uses(measurer *m)
{
    const ckm_dataflow *df = m->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->last_forward[x] = -1;
        m->last_behind[x] = -1;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int32_t s = tensor->storage;
        for (int32_t i = 0; i < tensor->n_users; i++) {
            int32_t p = m->fw->position[tensor->users[i]];
            if (p >= 0) {
                m->last_forward[s] = p > m->last_forward[s] ? p : m->last_forward[s];
            } else if (tensor->users[i] > m->last_behind[s]) {
                m->last_behind[s] = tensor->users[i];
            }
        }
        if (tensor->is_result) {
            m->last_behind[s] = df->n_ops - 1;
        }
    }
}

// The positions that no edge passes by, every `stride`-th of them; returns their number. `out` may be NULL.
static int32_t find_cuts(const measurer *m, int32_t stride, ckm_i_block *out)
{
    const ckm_i_forward *fw = m->fw;
    int32_t n = 0;
    int32_t reach = -1;
    for (int32_t p = 0; p < fw->n; p++) {
        if (reach <= p) {
            if (n % stride == 0 && out != NULL) {
                out[n / stride].start = p;
            }
            n++;
        }
        const ckm_i_dataflow_op *op = &fw->df->ops[fw->ops[p]];
        for (int32_t i = 0; i < op->n_outputs; i++) {
            int32_t last = m->last_forward[fw->df->tensors[op->outputs[i]].storage];
            reach = last > reach ? last : reach;
        }
    }
    return (n + stride - 1) / stride;
}

static void find_stages(measurer *m, ckm_i_blocks *b)
{
    const ckm_i_forward *fw = m->fw;
    for (int32_t k = 0; k < b->n; k++) {
        b->at[k].end = k + 1 < b->n ? b->at[k + 1].start : fw->n;
        b->at[k].first = fw->df->n_ops;
        b->at[k].last = -1;
        b->is_chain = b->is_chain && b->at[k].end == b->at[k].start + 1;
        for (int32_t p = b->at[k].start; p < b->at[k].end; p++) {
            m->block_of[p] = k;
        }
    }
    for (int32_t v = 0; v < fw->df->n_ops; v++) {
        if (fw->position[v] < 0) {
            int32_t k = m->block_of[fw->layer[v] < fw->n ? fw->layer[v] : fw->n - 1];
            b->at[k].first = v < b->at[k].first ? v : b->at[k].first;
            b->at[k].last = v;
            b->top = k > b->top ? k : b->top;
        }
    }
}

// Bytes of op v's own outputs and workspace.
static int64_t made_bytes(const ckm_dataflow *df, int32_t v)
{
    int64_t bytes = df->ops[v].workspace_bytes;
    for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
        int32_t x = df->ops[v].outputs[i];
        bytes += owns_storage(df, x) ? df->tensors[x].bytes : 0;
    }
    return bytes;
}

static void measure_around(measurer *m, ckm_i_blocks *b)
{
    const ckm_dataflow *df = m->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t v = df->tensors[x].producer;
        if (!owns_storage(df, x) || v < 0 || m->last_behind[x] < 0) {
            continue;
        }
        // Something forward counts from the end of its block's unwinding.
        int32_t p = m->fw->position[v];
        int32_t from = p < 0 ? v + 1 : b->at[m->block_of[p]].last + 1;
        if (from <= m->last_behind[x] && from > 0) {
            m->across[from] += df->tensors[x].bytes;
            m->across[m->last_behind[x] + 1] -= df->tensors[x].bytes;
        }
    }
    for (int32_t t = 1; t <= df->n_ops; t++) {
        m->across[t] += m->across[t - 1];
    }
    for (int32_t k = 0; k < b->n; k++) {
        ckm_i_block *block = &b->at[k];
        block->before_bytes = df->resident_bytes + (block->first < df->n_ops ? m->across[block->first] : 0);
        block->around_bytes = block->before_bytes;
        for (int32_t t = block->first; t <= block->last; t++) {
            int64_t bytes = df->resident_bytes + m->across[t] + made_bytes(df, t);
            block->around_bytes = bytes > block->around_bytes ? bytes : block->around_bytes;
        }
    }
}

// Costs, bytes of states and blocks, and the peak on the way through each, by one walk forward.
static ckm_status measure_forward(const measurer *m, ckm_i_blocks *b, ckm_error *err)
{
    const ckm_i_forward *fw = m->fw;
    const ckm_dataflow *df = m->df;
    int64_t *ends = ckm_i_calloc((size_t)fw->n + 1, sizeof *ends);  // bytes whose last use is at a position
    int64_t held = 0;
    int64_t cost = 0;
    if (ends == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t p = 0; p < fw->n; p++) {
        int32_t v = fw->ops[p];
        ckm_i_block *block = &b->at[m->block_of[p]];
        bool is_cut = p == block->start;
        cost += df->ops[v].cost;
        block->inner += is_cut ? 0 : df->ops[v].cost;
        block->reach = is_cut ? cost : block->reach;
        for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
            int32_t x = df->ops[v].outputs[i];
            if (!owns_storage(df, x)) {
                continue;
            }
            block->state_bytes += is_cut ? df->tensors[x].bytes : 0;
            block->whole_bytes += is_cut || m->last_behind[x] >= 0 ? df->tensors[x].bytes : 0;
            held += df->tensors[x].bytes;
            ends[m->last_forward[x] > p ? m->last_forward[x] : p] += df->tensors[x].bytes;
        }
        // On the way into a block one is still on the way through the one before.
        ckm_i_block *passed = is_cut && p > 0 ? block - 1 : block;
        int64_t bytes = held + df->ops[v].workspace_bytes;
        passed->pass_bytes = bytes > passed->pass_bytes ? bytes : passed->pass_bytes;
        held -= ends[p];
    }
    free(ends);
    return CKM_OK;
}

ckm_status ckm_i_blocks_create(const ckm_i_forward *fw, int32_t most, ckm_i_blocks *out, ckm_error *err)
{
    const ckm_dataflow *df = fw->df;
    ckm_i_blocks b = {.fw = fw, .top = -1, .is_chain = true};
    measurer m = {.fw = fw, .df = df};
    ckm_status status = CKM_OK;
    m.last_forward = ckm_i_malloc((size_t)df->n_tensors, sizeof *m.last_forward);
    m.last_behind = ckm_i_malloc((size_t)df->n_tensors, sizeof *m.last_behind);
    m.block_of = ckm_i_calloc((size_t)fw->n, sizeof *m.block_of);
    m.across = ckm_i_calloc((size_t)df->n_ops + 1, sizeof *m.across);
    if (m.last_forward == NULL || m.last_behind == NULL || m.block_of == NULL || m.across == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    find_last_uses(&m);
    int32_t cuts = find_cuts(&m, 1, NULL);
    int32_t stride = (cuts + most - 1) / most;
    stride = stride > 0 ? stride : 1;
    b.n = find_cuts(&m, stride, NULL);
    b.at = ckm_i_calloc((size_t)b.n, sizeof *b.at);
    if (b.at == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    find_cuts(&m, stride, b.at);
    if (b.n > 0) {
        find_stages(&m, &b);
        measure_around(&m, &b);
        CKM_I_TRY(measure_forward(&m, &b, err));
    }
    *out = b;
    b.at = NULL;
cleanup:
    free(b.at);
    free(m.last_forward);
    free(m.last_behind);
    free(m.block_of);
    free(m.across);
    return status;
}

void ckm_i_blocks_dispose(ckm_i_blocks *blocks)
{
    free(blocks->at);
    blocks->at = NULL;
}
