// SPDX-License-Identifier: Apache-2.0
// Validation of a dataflow graph and everything derived from it: storages, producers, users, totals, floor.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "dataflow/dataflow.h"

static ckm_status resolve_aliases(ckm_dataflow *df, ckm_error *err)
{
    int64_t total = df->fixed_bytes;
    for (int32_t i = 0; i < df->n_tensors; i++) {
        ckm_i_dataflow_tensor *x = &df->tensors[i];
        if (x->alias_of < -1 || x->alias_of >= df->n_tensors) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "tensors[%d] (%s): alias_of %d is not a tensor", i, x->name,
                               x->alias_of);
        }
        if (x->alias_of == i || (x->alias_of >= 0 && df->tensors[x->alias_of].alias_of >= 0)) {
            return ckm_i_error(err, CKM_ERR_FORMAT,
                               "tensors[%d] (%s): alias_of %d must name the storage's owner, which is not a view", i,
                               x->name, x->alias_of);
        }
        x->storage = x->alias_of >= 0 ? x->alias_of : i;
        if (x->alias_of < 0 && !ckm_i_add(total, x->bytes, &total)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "tensors[%d] (%s): the sum of all bytes exceeds 63 bits", i,
                               x->name);
        }
    }
    return CKM_OK;
}

static ckm_status check_index(const ckm_dataflow *df, int32_t v, const char *member, int32_t i, int32_t tensor,
                              ckm_error *err)
{
    if (tensor < 0 || tensor >= df->n_tensors) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "ops[%d] (%s): %s[%d] is %d; tensors go from 0 to %d", v,
                           df->ops[v].name, member, i, tensor, df->n_tensors - 1);
    }
    return CKM_OK;
}

static ckm_status resolve_producers(ckm_dataflow *df, ckm_error *err)
{
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        for (int32_t i = 0; i < op->n_outputs; i++) {
            CKM_I_CHECK(check_index(df, v, "outputs", i, op->outputs[i], err));
            ckm_i_dataflow_tensor *x = &df->tensors[op->outputs[i]];
            if (x->producer >= 0) {
                return ckm_i_error(err, CKM_ERR_FORMAT,
                                   "tensors[%d] (%s) has two producers: ops[%d] (%s) and ops[%d] (%s)", op->outputs[i],
                                   x->name, x->producer, df->ops[x->producer].name, v, op->name);
            }
            x->producer = v;
        }
    }
    return CKM_OK;
}

static ckm_status check_inputs(const ckm_dataflow *df, ckm_error *err)
{
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            CKM_I_CHECK(check_index(df, v, "inputs", i, op->inputs[i], err));
            int32_t producer = df->tensors[op->inputs[i]].producer;
            if (producer >= v) {
                return ckm_i_error(
                    err, CKM_ERR_FORMAT,
                    "ops[%d] (%s) reads tensors[%d] (%s), which ops[%d] (%s) produces later: the order is "
                    "not topological, or there is a cycle",
                    v, op->name, op->inputs[i], df->tensors[op->inputs[i]].name, producer, df->ops[producer].name);
            }
        }
    }
    for (int32_t i = 0; i < df->n_results; i++) {
        if (df->results[i] < 0 || df->results[i] >= df->n_tensors) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "results[%d] is %d; tensors go from 0 to %d", i, df->results[i],
                               df->n_tensors - 1);
        }
    }
    return CKM_OK;
}

static bool contains(const int32_t *items, int32_t n, int32_t wanted)
{
    for (int32_t i = 0; i < n; i++) {
        if (items[i] == wanted) {
            return true;
        }
    }
    return false;
}

static ckm_status check_inplace(const ckm_dataflow *df, ckm_error *err)
{
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        for (int32_t i = 0; i < op->n_inplace; i++) {
            int32_t in = op->inplace[i][0];
            int32_t out = op->inplace[i][1];
            if (!contains(op->inputs, op->n_inputs, in)) {
                return ckm_i_error(err, CKM_ERR_FORMAT,
                                   "ops[%d] (%s): inplace[%d] names %d, which is not one of its inputs", v, op->name, i,
                                   in);
            }
            if (!contains(op->outputs, op->n_outputs, out)) {
                return ckm_i_error(err, CKM_ERR_FORMAT,
                                   "ops[%d] (%s): inplace[%d] names %d, which is not one of its outputs", v, op->name,
                                   i, out);
            }
        }
    }
    return CKM_OK;
}

// Users of each tensor, ascending and without repetition: two passes over the inputs.
static ckm_status index_users(ckm_dataflow *df, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int64_t total = 0;
    int32_t *last = ckm_i_malloc((size_t)df->n_tensors, sizeof *last);
    int64_t *begin = ckm_i_calloc((size_t)df->n_tensors + 1, sizeof *begin);
    if (last == NULL || begin == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < df->n_tensors; i++) {
            last[i] = -1;
            df->tensors[i].n_users = 0;
        }
        for (int32_t v = 0; v < df->n_ops; v++) {
            for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
                int32_t x = df->ops[v].inputs[i];
                if (last[x] == v) {
                    continue;
                }
                last[x] = v;
                if (pass == 1) {
                    df->users_pool[begin[x] + df->tensors[x].n_users] = v;
                }
                df->tensors[x].n_users++;
            }
        }
        if (pass == 1) {
            break;
        }
        for (int32_t i = 0; i < df->n_tensors; i++) {
            begin[i] = total;
            total += df->tensors[i].n_users;
        }
        df->users_pool = ckm_i_malloc((size_t)total, sizeof *df->users_pool);
        if (df->users_pool == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
    }
    for (int32_t i = 0; i < df->n_tensors; i++) {
        df->tensors[i].users = df->users_pool + begin[i];
    }
cleanup:
    free(last);
    free(begin);
    return status;
}

// Distinct pairs of a producer and a consumer.
static ckm_status count_edges(ckm_dataflow *df, ckm_error *err)
{
    int32_t *last = ckm_i_malloc((size_t)df->n_ops, sizeof *last);
    int64_t edges = 0;
    if (last == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        last[v] = -1;
        for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
            int32_t producer = df->tensors[df->ops[v].inputs[i]].producer;
            if (producer >= 0 && last[producer] != v) {
                last[producer] = v;
                edges++;
            }
        }
    }
    df->n_edges = edges;
    free(last);
    return CKM_OK;
}

static ckm_status sum_costs(ckm_dataflow *df, ckm_error *err)
{
    int64_t cost = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        // The largest number represents costs that do not fit.
        if (!ckm_i_add(cost, df->ops[v].cost, &cost) || cost == INT64_MAX) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW,
                               "ops[%d] (%s): the sum of all costs exceeds 63 bits; give costs in a larger unit", v,
                               df->ops[v].name);
        }
    }
    df->total_cost = cost;
    return CKM_OK;
}

static void pin_inputs(ckm_dataflow *df)
{
    df->resident_bytes = df->fixed_bytes;
    // `pinned` of the owner collects whether any tensor of the storage is an input.
    for (int32_t i = 0; i < df->n_tensors; i++) {
        if (df->tensors[i].producer < 0) {
            df->tensors[df->tensors[i].storage].pinned = true;
        }
    }
    for (int32_t i = 0; i < df->n_tensors; i++) {
        ckm_i_dataflow_tensor *x = &df->tensors[i];
        x->pinned = df->tensors[x->storage].pinned;
        if (x->alias_of < 0 && x->pinned) {
            df->resident_bytes += x->bytes;
        }
    }
    for (int32_t i = 0; i < df->n_results; i++) {
        df->tensors[df->results[i]].is_result = true;
    }
}

// In-place pairs of operator v that its own operands allow: the input's storage is not pinned and holds no
// other operand or output, and the output owns its storage, is no larger, and shares it with no operand.
static int32_t plausible_pairs(const ckm_dataflow *df, int32_t v, int32_t (*pairs)[2])
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n = 0;
    for (int32_t p = 0; p < op->n_inplace; p++) {
        const ckm_i_dataflow_tensor *in = &df->tensors[op->inplace[p][0]];
        const ckm_i_dataflow_tensor *out = &df->tensors[op->inplace[p][1]];
        bool ok = !in->pinned && out->alias_of < 0 && !out->pinned && out->bytes <= df->tensors[in->storage].bytes;
        for (int32_t i = 0; ok && i < op->n_inputs; i++) {
            int32_t other = op->inputs[i];
            ok = other == op->inplace[p][0] || df->tensors[other].storage != in->storage;
            ok = ok && df->tensors[other].storage != out->storage;
        }
        for (int32_t i = 0; ok && i < op->n_outputs; i++) {
            int32_t other = op->outputs[i];
            ok = df->tensors[other].storage != in->storage;
        }
        if (ok) {
            pairs[n][0] = op->inplace[p][0];
            pairs[n][1] = op->inplace[p][1];
            n++;
        }
    }
    return n;
}

static ckm_status compute_floor(ckm_dataflow *df, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int32_t *seen = ckm_i_malloc((size_t)df->n_tensors, sizeof *seen);
    int32_t(*pairs)[2] = ckm_i_malloc(ckm_i_most_pairs(df), sizeof *pairs);
    if (seen == NULL || pairs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < df->n_tensors; i++) {
        seen[i] = -1;
    }
    df->floor_bytes = df->resident_bytes;
    for (int32_t v = 0; v <= df->n_ops; v++) {
        bool end = v == df->n_ops;
        int64_t bytes = df->resident_bytes;
        const int32_t *lists[2] = {end ? df->results : df->ops[v].inputs, end ? NULL : df->ops[v].outputs};
        int32_t counts[2] = {end ? df->n_results : df->ops[v].n_inputs, end ? 0 : df->ops[v].n_outputs};
        for (int side = 0; side < 2; side++) {
            for (int32_t i = 0; i < counts[side]; i++) {
                int32_t s = df->tensors[lists[side][i]].storage;
                if (seen[s] != v && !df->tensors[s].pinned) {
                    seen[s] = v;
                    bytes += df->tensors[s].bytes;
                }
            }
        }
        if (end) {
            df->standing_bytes = bytes;
        } else {
            int32_t n = plausible_pairs(df, v, pairs);
            bytes -= ckm_i_inplace_best(df, (const int32_t(*)[2])pairs, n, NULL, NULL);
            if (!ckm_i_add(bytes, df->ops[v].workspace_bytes, &bytes)) {
                status = ckm_i_error(err, CKM_ERR_OVERFLOW, "ops[%d] (%s): its memory exceeds 63 bits", v,
                                     df->ops[v].name);
                goto cleanup;
            }
        }
        df->floor_bytes = bytes > df->floor_bytes ? bytes : df->floor_bytes;
    }
cleanup:
    free(seen);
    free(pairs);
    return status;
}

// The sum of everything that can ever be live at once must fit as well, workspace included, so that no
// later addition of bytes can overflow.
static ckm_status check_total_bytes(const ckm_dataflow *df, ckm_error *err)
{
    int64_t total = df->fixed_bytes;
    int64_t workspace = 0;
    for (int32_t i = 0; i < df->n_tensors; i++) {
        total += df->tensors[i].alias_of < 0 ? df->tensors[i].bytes : 0;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        workspace = df->ops[v].workspace_bytes > workspace ? df->ops[v].workspace_bytes : workspace;
    }
    if (!ckm_i_add(total, workspace, &total)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "the sum of all bytes and the largest workspace exceeds 63 bits");
    }
    return CKM_OK;
}

ckm_status ckm_dataflow_finish(ckm_dataflow *df, ckm_error *err)
{
    CKM_I_NEED(df, err);
    if (df->finished) {
        return CKM_OK;
    }
    if (df->n_ops == 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "the graph has no operators");
    }
    for (int32_t i = 0; i < df->n_tensors; i++) {  // a failed earlier call may have left marks
        df->tensors[i].producer = -1;
        df->tensors[i].pinned = false;
        df->tensors[i].is_result = false;
    }
    free(df->users_pool);
    df->users_pool = NULL;
    CKM_I_CHECK(resolve_aliases(df, err));
    CKM_I_CHECK(resolve_producers(df, err));
    CKM_I_CHECK(check_inputs(df, err));
    CKM_I_CHECK(check_inplace(df, err));
    CKM_I_CHECK(ckm_i_dataflow_check_second(df, err));
    CKM_I_CHECK(sum_costs(df, err));
    CKM_I_CHECK(check_total_bytes(df, err));
    CKM_I_CHECK(index_users(df, err));
    CKM_I_CHECK(count_edges(df, err));
    pin_inputs(df);
    CKM_I_CHECK(compute_floor(df, err));
    df->finished = true;
    return CKM_OK;
}

// Exhaustive matching over pairs[i..n), each tensor once.
static int64_t match(const ckm_dataflow *df, const int32_t (*pairs)[2], int32_t n, int32_t i, uint32_t used,
                     uint32_t *best)
{
    if (i == n) {
        *best = used;
        return 0;
    }
    int64_t without = match(df, pairs, n, i + 1, used, best);
    for (int32_t k = 0; k < i; k++) {
        if ((used >> k & 1U) && (pairs[k][0] == pairs[i][0] || pairs[k][1] == pairs[i][1])) {
            return without;
        }
    }
    uint32_t with_best = 0;
    int64_t with = df->tensors[pairs[i][1]].bytes + match(df, pairs, n, i + 1, used | UINT32_C(1) << i, &with_best);
    if (with > without) {
        *best = with_best;
        return with;
    }
    return without;
}

static bool names_output_before(const int32_t (*pairs)[2], int32_t at)
{
    for (int32_t k = 0; k < at; k++) {
        if (pairs[k][1] == pairs[at][1]) {
            return true;
        }
    }
    return false;
}

// Largest output first, each tensor once. With nowhere to note what was chosen an upper bound: every output is saved.
static int64_t match_greedy(const ckm_dataflow *df, const int32_t (*pairs)[2], int32_t n, int32_t (*chosen)[2],
                            int32_t *n_chosen)
{
    int64_t saved = 0;
    int32_t count = 0;
    int64_t previous = INT64_MAX;
    int32_t previous_at = -1;
    for (;;) {
        // Next pair in order of (bytes descending, position ascending).
        int32_t at = -1;
        for (int32_t i = 0; i < n; i++) {
            int64_t bytes = df->tensors[pairs[i][1]].bytes;
            bool after = bytes < previous || (bytes == previous && i > previous_at);
            if (after && (at < 0 || bytes > df->tensors[pairs[at][1]].bytes)) {
                at = i;
            }
        }
        if (at < 0) {
            break;
        }
        previous = df->tensors[pairs[at][1]].bytes;
        previous_at = at;
        bool free_pair = chosen != NULL || !names_output_before(pairs, at);
        for (int32_t k = 0; chosen != NULL && k < count; k++) {
            free_pair = free_pair && chosen[k][0] != pairs[at][0] && chosen[k][1] != pairs[at][1];
        }
        if (free_pair) {
            if (chosen != NULL) {
                chosen[count][0] = pairs[at][0];
                chosen[count][1] = pairs[at][1];
            }
            count++;
            saved += previous;
        }
    }
    if (n_chosen != NULL) {
        *n_chosen = count;
    }
    return saved;
}

ckm_status ckm_i_dataflow_check_finished(const ckm_dataflow *df, ckm_error *err)
{
    if (!df->finished) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the graph is not finished: call ckm_dataflow_finish first");
    }
    return CKM_OK;
}

void ckm_i_dataflow_members(const ckm_dataflow *df, int32_t *members_at, int32_t *members)
{
    for (int32_t x = 0; x <= df->n_tensors; x++) {
        members_at[x] = 0;
    }
    for (int32_t y = 0; y < df->n_tensors; y++) {
        members_at[df->tensors[y].storage]++;
    }
    for (int32_t x = 1; x <= df->n_tensors; x++) {
        members_at[x] += members_at[x - 1];
    }
    // Each range is filled from its end, so that its end becomes its beginning.
    for (int32_t y = df->n_tensors - 1; y >= 0; y--) {
        members[--members_at[df->tensors[y].storage]] = y;
    }
}

size_t ckm_i_most_pairs(const ckm_dataflow *df)
{
    int32_t most = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        most = df->ops[v].n_inplace > most ? df->ops[v].n_inplace : most;
    }
    return (size_t)most;
}

int64_t ckm_i_inplace_best(const ckm_dataflow *df, const int32_t (*pairs)[2], int32_t n, int32_t (*chosen)[2],
                           int32_t *n_chosen)
{
    if (n > 16) {
        // Without a list of what was chosen, every pair counts: an upper bound on the saving, which is what
        // the memory floor needs.
        return match_greedy(df, pairs, n, chosen, n_chosen);
    }
    uint32_t best = 0;
    int64_t saved = match(df, pairs, n, 0, 0, &best);
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        if (best >> i & 1U) {
            if (chosen != NULL) {
                chosen[count][0] = pairs[i][0];
                chosen[count][1] = pairs[i][1];
            }
            count++;
        }
    }
    if (n_chosen != NULL) {
        *n_chosen = count;
    }
    return saved;
}
