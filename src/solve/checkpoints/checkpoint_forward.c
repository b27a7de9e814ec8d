// SPDX-License-Identifier: Apache-2.0
// The forward part of a graph as a chain, and which position each backward operator unwinds.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

// Whether some operand of v is produced by `producer`.
static bool reads(const ckm_dataflow *df, int32_t v, int32_t producer)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t i = 0; i < op->n_inputs; i++) {
        if (df->tensors[op->inputs[i]].producer == producer) {
            return true;
        }
    }
    return false;
}

// Whether the graph has the shape of a layer-level training graph: layers, loss, layers backwards.
bool ckm_i_checkpoints_is_mirrored(const ckm_dataflow *df)
{
    if (df->n_ops < 3 || df->n_ops % 2 == 0) {
        return false;
    }
    int32_t n = df->n_ops / 2;
    for (int32_t j = 0; j < n; j++) {
        if (!reads(df, 2 * n - j, j)) {
            return false;
        }
    }
    return reads(df, n, n - 1) && reads(df, n + 1, n);
}

// First operator that belongs to the unwinding: n_ops when none does. `*untold` says that kinds are not given.
static int32_t find_unwinding(const ckm_dataflow *df, bool *untold)
{
    *untold = true;
    for (int32_t v = 0; v < df->n_ops; v++) {
        *untold = *untold && df->ops[v].kind == CKM_OP_FORWARD;
    }
    if (*untold) {
        return ckm_i_checkpoints_is_mirrored(df) ? df->n_ops / 2 + 1 : df->n_ops;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        if (df->ops[v].kind == CKM_OP_BACKWARD) {
            return v;
        }
    }
    return df->n_ops;
}

static void number_forward(ckm_i_forward *fw, int32_t unwinding, bool untold)
{
    const ckm_dataflow *df = fw->df;
    int32_t end = untold && unwinding < df->n_ops ? unwinding - 1 : unwinding;
    for (int32_t v = 0; v < df->n_ops; v++) {
        fw->position[v] = -1;
        if (v < end && df->ops[v].kind == CKM_OP_FORWARD) {
            fw->position[v] = fw->n;
            fw->ops[fw->n++] = v;
        }
    }
    fw->turn = fw->n > 0 ? fw->ops[fw->n - 1] + 1 : 0;
    fw->unwinds = fw->n < df->n_ops;
}

// Position of the earliest forward operator that v reads; -1 for none.
static int32_t earliest_operand(const ckm_i_forward *fw, int32_t v)
{
    const ckm_i_dataflow_op *op = &fw->df->ops[v];
    int32_t earliest = -1;
    for (int32_t i = 0; i < op->n_inputs && op->kind != CKM_OP_UPDATE; i++) {
        int32_t producer = fw->df->tensors[op->inputs[i]].producer;
        int32_t p = producer >= 0 ? fw->position[producer] : -1;
        if (p >= 0 && (earliest < 0 || p < earliest)) {
            earliest = p;
        }
    }
    return earliest;
}

// An operator without forward operands goes with the next that has some, and one that reaches further back
// than a later one goes with that later one: positions are unwound in one sweep.
static void number_layers(ckm_i_forward *fw, int32_t unwinding)
{
    int32_t latest = 0;
    for (int32_t v = fw->df->n_ops - 1; v >= 0; v--) {
        if (fw->position[v] >= 0) {
            fw->layer[v] = fw->position[v];
        } else if (v < unwinding) {
            fw->layer[v] = fw->n;
        } else {
            int32_t p = earliest_operand(fw, v);
            latest = p > latest ? p : latest;
            fw->layer[v] = latest;
        }
    }
}

// Layers never increase from stage to stage.
static void find_stages(ckm_i_forward *fw)
{
    int32_t n_ops = fw->df->n_ops;
    for (int32_t p = 0; p <= fw->n; p++) {
        fw->first_stage[p] = n_ops;
        fw->last_stage[p] = -1;
    }
    for (int32_t v = n_ops - 1; v >= 0; v--) {
        if (fw->position[v] < 0) {
            int32_t p = fw->layer[v];
            fw->first_stage[p] = v;
            fw->last_stage[p] = fw->last_stage[p] < 0 ? v : fw->last_stage[p];
        }
    }
    for (int32_t p = 1; p <= fw->n; p++) {
        fw->first_stage[p] = fw->first_stage[p - 1] < fw->first_stage[p] ? fw->first_stage[p - 1] : fw->first_stage[p];
    }
    for (int32_t p = fw->n - 1; p >= 0; p--) {
        fw->last_stage[p] = fw->last_stage[p + 1] > fw->last_stage[p] ? fw->last_stage[p + 1] : fw->last_stage[p];
    }
}

ckm_status ckm_i_forward_create(const ckm_dataflow *df, ckm_i_forward **out, ckm_error *err)
{
    size_t n = (size_t)df->n_ops;
    ckm_i_forward *fw = ckm_i_calloc(1, sizeof *fw);
    if (fw == NULL) {
        return ckm_i_error_memory(err);
    }
    fw->df = df;
    fw->ops = ckm_i_calloc(n, sizeof *fw->ops);
    fw->position = ckm_i_calloc(n, sizeof *fw->position);
    fw->layer = ckm_i_calloc(n, sizeof *fw->layer);
    fw->first_stage = ckm_i_malloc(n + 1, sizeof *fw->first_stage);
    fw->last_stage = ckm_i_malloc(n + 1, sizeof *fw->last_stage);
    if (fw->ops == NULL || fw->position == NULL || fw->layer == NULL || fw->first_stage == NULL ||
        fw->last_stage == NULL) {
        ckm_i_forward_free(fw);
        return ckm_i_error_memory(err);
    }
    bool untold = false;
    int32_t unwinding = find_unwinding(df, &untold);
    number_forward(fw, unwinding, untold);
    number_layers(fw, unwinding);
    find_stages(fw);
    *out = fw;
    return CKM_OK;
}

void ckm_i_forward_free(ckm_i_forward *fw)
{
    if (fw != NULL) {
        free(fw->ops);
        free(fw->position);
        free(fw->layer);
        free(fw->first_stage);
        free(fw->last_stage);
        free(fw);
    }
}

int32_t ckm_i_forward_first_stage(const ckm_i_forward *fw, int32_t p)
{
    // Before the first position there is none.
    return p >= fw->n ? fw->turn : p < 0 ? fw->df->n_ops : fw->first_stage[p];
}

int32_t ckm_i_forward_last_stage(const ckm_i_forward *fw, int32_t p)
{
    return fw->last_stage[p > 0 ? p : 0];
}

int64_t ckm_i_forward_bytes(const ckm_i_forward *fw, int32_t p)
{
    const ckm_i_dataflow_op *op = &fw->df->ops[fw->ops[p]];
    int64_t bytes = 0;  // no overflow: the graph's total fits
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *tensor = &fw->df->tensors[op->outputs[i]];
        bytes += tensor->alias_of < 0 ? tensor->bytes : 0;
    }
    return bytes;
}
