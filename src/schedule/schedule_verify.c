// SPDX-License-Identifier: Apache-2.0
// The verifier: reads the rules a second time, and differently. It knows the graph only through its public
// accessors, follows for every tensor the steps from which and until which it exists, and derives memory
// afterwards: the steps at which a storage is occupied are the union of its tensors' intervals, and the bytes
// at a step are a prefix sum over all storages' beginnings and ends. It shares no code with the simulator or
// with any solver, on purpose; keep it so.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "schedule/schedule_verifier.h"

static const char *name_of_op(const ckm_i_verifier *vf, int32_t v)
{
    const char *name = ckm_dataflow_get_op(vf->df, v).name;
    return name != NULL ? name : "";
}

// Which tensors share a storage, and which are inputs, from the operators' and tensors' own statements.
static ckm_status read_graph(ckm_i_verifier *vf, ckm_error *err)
{
    size_t n = (size_t)vf->n_tensors;
    vf->owner = ckm_i_malloc(n, sizeof *vf->owner);
    vf->is_input = ckm_i_malloc(n, sizeof *vf->is_input);
    vf->members_at = ckm_i_calloc(n + 1, sizeof *vf->members_at);
    vf->members = ckm_i_malloc(n, sizeof *vf->members);
    vf->since = ckm_i_malloc(n, sizeof *vf->since);
    vf->times_computed = ckm_i_calloc((size_t)vf->n_ops, sizeof *vf->times_computed);
    if (vf->owner == NULL || vf->is_input == NULL || vf->members_at == NULL || vf->members == NULL ||
        vf->since == NULL || vf->times_computed == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < vf->n_tensors; x++) {
        int32_t base = ckm_dataflow_get_tensor(vf->df, x).alias_of;
        vf->owner[x] = base >= 0 ? base : x;
        vf->is_input[x] = true;
        vf->members_at[vf->owner[x] + 1]++;
    }
    for (int32_t v = 0; v < vf->n_ops; v++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(vf->df, v);
        for (int32_t k = 0; k < op.n_outputs; k++) {
            vf->is_input[op.outputs[k]] = false;
        }
    }
    for (int32_t x = 0; x < vf->n_tensors; x++) {
        vf->members_at[x + 1] += vf->members_at[x];
        vf->since[x] = vf->is_input[x] ? 0 : ABSENT;
    }
    // Filling from the back leaves members_at[owner] at the start of the owner's range.
    for (int32_t x = vf->n_tensors - 1; x >= 0; x--) {
        vf->members[--vf->members_at[vf->owner[x] + 1]] = x;
    }
    for (int32_t x = 0; x < vf->n_tensors; x++) {
        vf->members_at[x] = vf->members_at[x + 1];
    }
    vf->members_at[vf->n_tensors] = vf->n_tensors;
    return ckm_i_verify_links_start(vf, err);
}

// Whether a tensor of `storage` other than `except` exists now.
static bool other_member_alive(const ckm_i_verifier *vf, int32_t storage, int32_t except)
{
    for (int32_t k = vf->members_at[storage]; k < vf->members_at[storage + 1]; k++) {
        if (vf->members[k] != except && vf->since[vf->members[k]] != ABSENT) {
            return true;
        }
    }
    return false;
}

// Tensor x stops existing; its memory is occupied for the last time in step `last`.
static ckm_status end_tensor(ckm_i_verifier *vf, int32_t x, int64_t last, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_verify_occupy(vf, vf->owner[x], vf->since[x], last, err));
    vf->since[x] = ABSENT;
    return CKM_OK;
}

static bool pair_is_declared(const ckm_dataflow_op *op, int32_t input, int32_t output)
{
    for (int32_t k = 0; k < op->n_inplace; k++) {
        if (op->inplace[k][0] == input && op->inplace[k][1] == output) {
            return true;
        }
    }
    return false;
}

// What is wrong with in-place pair number k of a compute step, on the state before it; NULL when nothing is.
static const char *pair_problem(const ckm_i_verifier *vf, const ckm_step *step, const ckm_dataflow_op *op, int32_t k)
{
    int32_t i = step->inplace[k][0];
    int32_t j = step->inplace[k][1];
    for (int32_t earlier = 0; earlier < k; earlier++) {
        if (step->inplace[earlier][0] == i || step->inplace[earlier][1] == j) {
            return "a tensor appears in two pairs";
        }
    }
    if (vf->since[i] == ABSENT) {
        return "the input does not exist then";
    }
    for (int32_t m = vf->members_at[vf->owner[i]]; m < vf->members_at[vf->owner[i] + 1]; m++) {
        if (vf->is_input[vf->members[m]]) {
            return "the input's memory is a graph input's";
        }
    }
    if (other_member_alive(vf, vf->owner[i], i)) {
        return "the input's memory is still used by another tensor";
    }
    if (ckm_dataflow_get_tensor(vf->df, j).alias_of >= 0) {
        return "the output is a view and has no memory of its own";
    }
    if (vf->since[j] != ABSENT || other_member_alive(vf, j, j)) {
        return "the output's memory already exists";
    }
    if (ckm_dataflow_get_tensor(vf->df, j).bytes > ckm_dataflow_get_tensor(vf->df, vf->owner[i]).bytes) {
        return "the output is larger than the memory it takes over";
    }
    for (int32_t o = 0; o < op->n_outputs; o++) {
        if (vf->owner[op->outputs[o]] == vf->owner[i]) {
            return "an output of the operator is a view of the memory taken over";
        }
    }
    if (!ckm_i_verify_at_rest(vf, vf->owner[i])) {
        return "a transfer of the input's memory is under way";
    }
    return NULL;
}

static bool pairs_are_legal(const ckm_i_verifier *vf, int64_t at, const ckm_step *step, const ckm_dataflow_op *op)
{
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t i = step->inplace[k][0];
        int32_t j = step->inplace[k][1];
        if (!pair_is_declared(op, i, j)) {
            return ckm_i_verify_complain(
                vf, "step %lld: operator \"%.60s\" (%d) does not declare the in-place pair [%d, %d]", (long long)at,
                name_of_op(vf, step->index), (int)step->index, (int)i, (int)j);
        }
        const char *problem = pair_problem(vf, step, op, k);
        if (problem != NULL) {
            return ckm_i_verify_complain(
                vf, "step %lld: operator \"%.60s\" (%d), in-place pair of \"%.60s\" (%d) and \"%.60s\" (%d): %s",
                (long long)at, name_of_op(vf, step->index), (int)step->index, ckm_i_verify_name(vf, i), (int)i,
                ckm_i_verify_name(vf, j), (int)j, problem);
        }
    }
    return true;
}

static bool compute_is_legal(const ckm_i_verifier *vf, int64_t at, const ckm_step *step)
{
    int32_t v = step->index;
    if (v < 0 || v >= vf->n_ops) {
        return ckm_i_verify_complain(vf, "step %lld: there is no operator %d, the graph has %d", (long long)at, (int)v,
                                     (int)vf->n_ops);
    }
    ckm_dataflow_op op = ckm_dataflow_get_op(vf->df, v);
    if (op.run_once && vf->times_computed[v] > 0) {
        return ckm_i_verify_complain(vf, "step %lld: operator \"%.60s\" (%d) is computed again but is not recomputable",
                                     (long long)at, name_of_op(vf, v), (int)v);
    }
    for (int32_t k = 0; k < op.n_inputs; k++) {
        if (vf->since[op.inputs[k]] == ABSENT) {
            return ckm_i_verify_complain(
                vf, "step %lld: operator \"%.60s\" (%d) reads tensor \"%.60s\" (%d), which does not exist then",
                (long long)at, name_of_op(vf, v), (int)v, ckm_i_verify_name(vf, op.inputs[k]), (int)op.inputs[k]);
        }
    }
    for (int32_t k = 0; k < op.n_outputs; k++) {
        if (!ckm_i_verify_at_rest(vf, vf->owner[op.outputs[k]])) {
            return ckm_i_verify_complain(
                vf, "step %lld: operator \"%.60s\" (%d) writes tensor \"%.60s\" (%d), of which a transfer is under way",
                (long long)at, name_of_op(vf, v), (int)v, ckm_i_verify_name(vf, op.outputs[k]), (int)op.outputs[k]);
        }
    }
    return pairs_are_legal(vf, at, step, &op);
}

// Does a legal compute step to the tensors' lives.
static ckm_status follow_compute(ckm_i_verifier *vf, int64_t at, const ckm_step *step, ckm_error *err)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(vf->df, step->index);
    for (int32_t k = 0; k < op.n_outputs; k++) {
        int32_t x = op.outputs[k];
        bool taken_over = false;  // its storage is the paired input's until the step is over
        for (int32_t p = 0; p < step->n_inplace; p++) {
            taken_over = taken_over || step->inplace[p][1] == vf->owner[x];
        }
        if (vf->since[x] == ABSENT) {
            vf->since[x] = taken_over ? at + 1 : at;
        }
    }
    for (int32_t p = 0; p < step->n_inplace; p++) {
        CKM_I_CHECK(end_tensor(vf, step->inplace[p][0], at, err));
    }
    vf->times_computed[step->index]++;
    return CKM_OK;
}

static bool free_is_legal(const ckm_i_verifier *vf, int64_t at, int32_t x)
{
    if (x < 0 || x >= vf->n_tensors) {
        return ckm_i_verify_complain(vf, "step %lld: there is no tensor %d to free, the graph has %d", (long long)at,
                                     (int)x, (int)vf->n_tensors);
    }
    if (vf->is_input[x]) {
        return ckm_i_verify_complain(vf, "step %lld: tensor \"%.60s\" (%d) is freed but is an input of the graph",
                                     (long long)at, ckm_i_verify_name(vf, x), (int)x);
    }
    if (vf->since[x] == ABSENT) {
        return ckm_i_verify_complain(vf, "step %lld: tensor \"%.60s\" (%d) is freed but does not exist then",
                                     (long long)at, ckm_i_verify_name(vf, x), (int)x);
    }
    if (!ckm_i_verify_at_rest(vf, vf->owner[x]) && !other_member_alive(vf, vf->owner[x], x)) {
        return ckm_i_verify_complain(vf,
                                     "step %lld: tensor \"%.60s\" (%d) is freed while a transfer of it is under way",
                                     (long long)at, ckm_i_verify_name(vf, x), (int)x);
    }
    return true;
}

static bool end_is_legal(const ckm_i_verifier *vf)
{
    for (int32_t v = 0; v < vf->n_ops; v++) {
        if (vf->times_computed[v] == 0) {
            return ckm_i_verify_complain(vf, "end, after %lld steps: operator \"%.60s\" (%d) has not been computed",
                                         (long long)vf->n_steps, name_of_op(vf, v), (int)v);
        }
    }
    for (int32_t k = 0; k < ckm_dataflow_result_count(vf->df); k++) {
        int32_t x = ckm_dataflow_get_result(vf->df, k);
        if (vf->since[x] == ABSENT) {
            return ckm_i_verify_complain(vf, "end, after %lld steps: result \"%.60s\" (%d) does not exist",
                                         (long long)vf->n_steps, ckm_i_verify_name(vf, x), (int)x);
        }
    }
    for (int32_t x = 0; x < vf->n_tensors; x++) {
        if (!ckm_i_verify_at_rest(vf, x)) {
            return ckm_i_verify_complain(
                vf, "end, after %lld steps: a transfer of tensor \"%.60s\" (%d) was not waited for",
                (long long)vf->n_steps, ckm_i_verify_name(vf, x), (int)x);
        }
    }
    return true;
}

// Goes through the steps. *legal says whether all rules hold; when not, vf->why says which does not.
static ckm_status follow_steps(ckm_i_verifier *vf, bool *legal, ckm_error *err)
{
    *legal = true;
    for (int64_t at = 0; at < vf->n_steps && *legal; at++) {
        ckm_step step = ckm_schedule_get_step(vf->s, at);
        if (step.kind == CKM_STEP_COMPUTE) {
            *legal = compute_is_legal(vf, at, &step);
            CKM_I_CHECK(*legal ? follow_compute(vf, at, &step, err) : CKM_OK);
        } else if (step.kind == CKM_STEP_FREE) {
            *legal = free_is_legal(vf, at, step.index);
            CKM_I_CHECK(*legal ? end_tensor(vf, step.index, at - 1, err) : CKM_OK);
        } else {
            *legal = ckm_i_verify_transfer_is_legal(vf, at, &step);
            CKM_I_CHECK(*legal ? ckm_i_verify_follow_transfer(vf, at, &step, err) : CKM_OK);
        }
    }
    if (!*legal) {
        return CKM_OK;
    }
    *legal = end_is_legal(vf);
    for (int32_t x = 0; x < vf->n_tensors; x++) {
        if (vf->since[x] != ABSENT) {
            CKM_I_CHECK(end_tensor(vf, x, vf->n_steps - 1, err));
        }
    }
    return CKM_OK;
}

static int by_storage_then_first(const void *left, const void *right)
{
    const ckm_i_interval *a = left;
    const ckm_i_interval *b = right;
    if (a->storage != b->storage) {
        return a->storage < b->storage ? -1 : 1;
    }
    return a->first < b->first ? -1 : a->first > b->first;
}

// Turns intervals into bytes_at: a storage's bytes at every step at least one of its intervals covers.
static bool add_up_storages(ckm_i_verifier *vf)
{
    if (vf->n_intervals > 0) {
        qsort(vf->intervals, (size_t)vf->n_intervals, sizeof *vf->intervals, by_storage_then_first);
    }
    for (int64_t k = 0; k < vf->n_intervals;) {
        ckm_i_interval merged = vf->intervals[k++];
        while (k < vf->n_intervals && vf->intervals[k].storage == merged.storage &&
               vf->intervals[k].first <= merged.last + 1) {
            merged.last = vf->intervals[k].last > merged.last ? vf->intervals[k].last : merged.last;
            k++;
        }
        int64_t bytes = ckm_dataflow_get_tensor(vf->df, merged.storage).bytes;
        if (__builtin_add_overflow(vf->bytes_at[merged.first], bytes, &vf->bytes_at[merged.first]) ||
            __builtin_sub_overflow(vf->bytes_at[merged.last + 1], bytes, &vf->bytes_at[merged.last + 1])) {
            return ckm_i_verify_complain(vf, "bytes of storages exceed 63 bits");
        }
    }
    for (int64_t at = 1; at < vf->n_steps; at++) {
        if (__builtin_add_overflow(vf->bytes_at[at], vf->bytes_at[at - 1], &vf->bytes_at[at])) {
            return ckm_i_verify_complain(vf, "step %lld: bytes of storages exceed 63 bits", (long long)at);
        }
    }
    return true;
}

static bool weigh(ckm_i_verifier *vf, int64_t *cost, int64_t *peak)
{
    int64_t fixed = ckm_dataflow_fixed_bytes(vf->df);
    int64_t total_cost = 0;
    int64_t largest = 0;
    if (!add_up_storages(vf)) {
        return false;
    }
    for (int64_t at = 0; at < vf->n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(vf->s, at);
        if (step.kind == CKM_STEP_IN) {  // what comes back takes its memory from here on
            int64_t bytes;
            if (__builtin_add_overflow(vf->bytes_at[at], fixed, &bytes)) {
                return ckm_i_verify_complain(vf, "step %lld: bytes in use exceed 63 bits", (long long)at);
            }
            largest = bytes > largest ? bytes : largest;
        }
        if (step.kind != CKM_STEP_COMPUTE) {
            continue;
        }
        ckm_dataflow_op op = ckm_dataflow_get_op(vf->df, step.index);
        int64_t bytes;
        if (__builtin_add_overflow(vf->bytes_at[at], fixed, &bytes) ||
            __builtin_add_overflow(bytes, op.workspace_bytes, &bytes)) {
            return ckm_i_verify_complain(vf, "step %lld: operator \"%.60s\" (%d): bytes in use exceed 63 bits",
                                         (long long)at, name_of_op(vf, step.index), (int)step.index);
        }
        if (__builtin_add_overflow(total_cost, op.cost, &total_cost)) {
            return ckm_i_verify_complain(vf, "step %lld: operator \"%.60s\" (%d): the cost exceeds 63 bits",
                                         (long long)at, name_of_op(vf, step.index), (int)step.index);
        }
        largest = bytes > largest ? bytes : largest;
    }
    *cost = total_cost;
    *peak = largest;
    return vf->links.travels == NULL || ckm_i_verify_makespan(vf, cost);
}

ckm_status ckm_schedule_verify(const ckm_dataflow *df, const ckm_schedule *s, int64_t budget_bytes, ckm_verdict *out,
                               ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(out, err);
    ckm_status status = CKM_OK;
    ckm_verdict verdict = {.ok = false, .cost = -1, .peak_bytes = -1, .second_peak_bytes = -1, .why = ""};
    ckm_i_verifier vf = {.df = df,
                         .s = s,
                         .n_ops = ckm_dataflow_op_count(df),
                         .n_tensors = ckm_dataflow_tensor_count(df),
                         .n_steps = ckm_schedule_step_count(s),
                         .why = verdict.why};
    bool legal = false;

    CKM_I_TRY(read_graph(&vf, err));
    CKM_I_TRY(follow_steps(&vf, &legal, err));
    if (legal) {
        vf.bytes_at = ckm_i_calloc((size_t)vf.n_steps + 1, sizeof *vf.bytes_at);
        if (vf.bytes_at == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        legal = weigh(&vf, &verdict.cost, &verdict.peak_bytes);
        verdict.second_peak_bytes = 0;
        if (legal && vf.links.travels != NULL) {
            memset(vf.bytes_at, 0, ((size_t)vf.n_steps + 1) * sizeof *vf.bytes_at);
            legal = ckm_i_verify_copies(&vf, vf.bytes_at, &verdict.second_peak_bytes);
        }
        if (!legal) {
            verdict.cost = verdict.peak_bytes = verdict.second_peak_bytes = -1;
        }
    }
    verdict.ok = legal;
    if (legal && budget_bytes >= 0 && verdict.peak_bytes > budget_bytes) {
        verdict.ok = ckm_i_verify_complain(&vf, "the peak of %lld bytes exceeds the budget of %lld bytes by %lld",
                                           (long long)verdict.peak_bytes, (long long)budget_bytes,
                                           (long long)(verdict.peak_bytes - budget_bytes));
    }
    *out = verdict;
cleanup:
    free(vf.owner);
    free(vf.is_input);
    free(vf.members_at);
    free(vf.members);
    free(vf.since);
    free(vf.times_computed);
    free(vf.intervals);
    free(vf.bytes_at);
    ckm_i_verify_links_dispose(&vf);
    return status;
}
