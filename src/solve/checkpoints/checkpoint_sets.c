// SPDX-License-Identifier: Apache-2.0
// Which candidates become checkpoints: the two rules of Chen et al. 2016 (arXiv 1604.06174, section 4).
#include "base/checked.h"
#include "base/error.h"
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

// From a set of checkpoints to the matrices S and R, exactly as the Checkmate paper's artifact builds them.

void ckm_i_checkpoints_hold(ckm_i_holds *holds, int32_t v, int32_t from, int32_t to)
{
    const ckm_i_dataflow_op *op = &holds->df->ops[v];
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (holds->df->tensors[op->outputs[i]].n_users > 0) {
            ckm_i_holds_add(holds, op->outputs[i], from, to);
        }
    }
}

void ckm_i_checkpoints_hold_results(ckm_i_holds *holds)
{
    for (int32_t i = 0; i < holds->df->n_results; i++) {
        int32_t x = holds->df->results[i];
        if (holds->df->tensors[x].producer >= 0) {
            ckm_i_holds_add(holds, x, 0, holds->df->n_ops - 1);
        }
    }
}

void ckm_i_checkpoints_hold_while_used(ckm_i_holds *holds, int32_t v)
{
    const ckm_i_dataflow_op *op = &holds->df->ops[v];
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *tensor = &holds->df->tensors[op->outputs[i]];
        if (tensor->n_users > 0) {
            ckm_i_holds_add(holds, op->outputs[i], v + 1, tensor->users[tensor->n_users - 1]);
        }
    }
}

// Every operand is held when its user's stage begins.
static void hold_operands(ckm_i_holds *holds)
{
    const ckm_dataflow *df = holds->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        for (int32_t k = 0; k < tensor->n_users && tensor->producer >= 0; k++) {
            ckm_i_holds_add(holds, x, tensor->users[k], tensor->users[k]);
        }
    }
}

// Positions [first, last] between two checkpoints, `last` being one or, after the last checkpoint, n.
static void hold_segment(const ckm_i_forward *fw, int32_t first, int32_t last, ckm_i_holds *holds)
{
    bool at_turn = last == fw->n;
    int32_t forward_end = at_turn ? fw->turn : fw->ops[last];
    int32_t unwind_start = ckm_i_forward_first_stage(fw, last);
    int32_t from = at_turn || last == 0 ? 0 : ckm_i_forward_first_stage(fw, last - 1);
    int32_t unwind_end = ckm_i_forward_last_stage(fw, first);
    for (int32_t p = first; p < last; p++) {
        ckm_i_checkpoints_hold(holds, fw->ops[p], 0, forward_end);
        ckm_i_checkpoints_hold(holds, fw->ops[p], unwind_start + 1, unwind_end + 1);
    }
    // Gradients stay until the segment is unwound; those of the checkpoint itself only while they are used.
    for (int32_t v = from; v <= unwind_end; v++) {
        if (fw->position[v] < 0 && fw->layer[v] >= first && (fw->layer[v] < last || at_turn)) {
            ckm_i_checkpoints_hold(holds, v, v + 1, unwind_end + 1);
        }
    }
}

// R in closed form for S as it is; outputs of operators that run once are added to S where they are needed.
static ckm_status close_rows(ckm_i_stages *stages, ckm_error *err)
{
    ckm_i_walk *walk = NULL;
    CKM_I_CHECK(ckm_i_walk_create(stages->df, &walk, err));
    for (int32_t i = 0; i < stages->df->n_results; i++) {
        int32_t x = stages->df->results[i];
        if (!stages->df->tensors[x].pinned) {
            ckm_i_bits_set(ckm_i_stages_s(stages, stages->n_ops), x);
        }
    }
    for (int32_t t = stages->n_ops - 1; t >= 0; t--) {
        ckm_i_walk_close(walk, t, ckm_i_stages_s(stages, t), ckm_i_stages_s(stages, t + 1), ckm_i_stages_r(stages, t));
    }
    ckm_i_walk_free(walk);
    return CKM_OK;
}

// On the paper's layer-level graphs S stays as published, bits that nothing uses included: its figures count them.
// On any other graph they would only waste memory.
static ckm_status finish(ckm_i_stages *stages, ckm_error *err)
{
    return ckm_i_checkpoints_is_mirrored(stages->df) ? close_rows(stages, err) : ckm_i_stages_complete(stages, err);
}

void ckm_i_checkpoints_hold_set(const ckm_i_forward *fw, const ckm_i_positions *checkpoints, ckm_i_holds *holds)
{
    int32_t first = 0;
    for (int32_t i = 0; i < checkpoints->n; i++) {
        int32_t p = checkpoints->at[i];
        ckm_i_checkpoints_hold(holds, fw->ops[p], 0, holds->df->n_ops);
        hold_segment(fw, first, p, holds);
        first = p + 1;
    }
    hold_segment(fw, first, fw->n, holds);
    for (int32_t v = 0; v < holds->df->n_ops; v++) {
        if (fw->position[v] < 0) {
            ckm_i_checkpoints_hold_while_used(holds, v);
        }
    }
    hold_operands(holds);
    ckm_i_checkpoints_hold_results(holds);
}

ckm_status ckm_i_checkpoints_stages(const ckm_i_forward *fw, const ckm_i_positions *checkpoints, ckm_i_stages *stages,
                                    ckm_error *err)
{
    ckm_i_holds holds = {.df = fw->df, .stages = stages};
    ckm_i_checkpoints_hold_set(fw, checkpoints, &holds);
    return finish(stages, err);
}

void ckm_i_checkpoints_hold_last(ckm_i_holds *holds)
{
    for (int32_t v = 0; v < holds->df->n_ops; v++) {
        ckm_i_checkpoints_hold(holds, v, v + 1, v + 1);
    }
    ckm_i_checkpoints_hold_results(holds);
}

ckm_status ckm_i_checkpoints_last_stages(const ckm_dataflow *df, ckm_i_stages *stages, ckm_error *err)
{
    ckm_i_holds holds = {.df = df, .stages = stages};
    ckm_i_checkpoints_hold_last(&holds);
    return finish(stages, err);
}

ckm_status ckm_i_checkpoints_offer_set(ckm_i_solver *solver, const ckm_i_forward *fw,
                                       const ckm_i_positions *checkpoints, ckm_i_stages *stages, const char *source,
                                       int64_t *peak_bytes, ckm_error *err)
{
    ckm_i_holds holds = {.df = fw->df, .stages = stages};
    ckm_status status = CKM_OK;
    ckm_i_checkpoints_hold_set(fw, checkpoints, &holds);
    if (stages != NULL) {
        CKM_I_TRY(finish(stages, err));
    }
    CKM_I_TRY(ckm_i_holds_offer(solver, &holds, source, peak_bytes, err));
cleanup:
    ckm_i_holds_dispose(&holds);
    return status;
}
