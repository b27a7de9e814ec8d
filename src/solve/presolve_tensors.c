// SPDX-License-Identifier: Apache-2.0
// Reductions of tensors alone. Every schedule stays what it is; only what it has to hold becomes less.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/presolve_graph.h"
#include "solve/structure.h"

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// Whether `small` bytes more or less never decide what fits beside any operator's workspace, if all else comes in
// multiples of `unit`.
static bool cannot_bind(const ckm_i_lean *l, int64_t small, int64_t unit)
{
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        int64_t left = l->room - l->ops[v].workspace_bytes;
        if (left < 0 || left % unit < small) {
            return false;
        }
    }
    return l->room % unit >= small;
}

// The largest size that counts as small, or 0. `sizes` ascending, unit[i] the gcd of sizes[i..n).
static int64_t find_small(const ckm_i_lean *l, const int64_t *sizes, int64_t *unit, int32_t n)
{
    int64_t small = 0;
    int64_t largest = 0;
    int64_t gcd = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
        gcd = ckm_i_gcd(sizes[i], gcd);
        unit[i] = gcd;
    }
    for (int32_t i = 0; i + 1 < n; i++) {
        small += sizes[i];
        if (small >= sizes[i + 1]) {
            // Sums grow and units do not exceed the next size; a jump in the sizes may still come.
            continue;
        }
        if (sizes[i] < sizes[i + 1] && small < unit[i + 1] && cannot_bind(l, small, unit[i + 1])) {
            largest = sizes[i];
        }
    }
    return largest;
}

ckm_status ckm_i_lean_drop_small(ckm_i_lean *l, ckm_error *err)
{
    int32_t n_tensors = l->df->n_tensors;
    ckm_status status = CKM_OK;
    int32_t n = 0;
    int64_t *sizes = ckm_i_malloc((size_t)n_tensors, sizeof *sizes);
    int64_t *unit = ckm_i_malloc((size_t)n_tensors, sizeof *unit);
    if (sizes == NULL || unit == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t x = 0; x < n_tensors; x++) {
        if (l->tensors[x].n_members > 0) {
            sizes[n++] = l->tensors[x].bytes;
        }
    }
    qsort(sizes, (size_t)n, sizeof *sizes, compare);
    int64_t largest = find_small(l, sizes, unit, n);
    for (int32_t x = 0; x < n_tensors; x++) {
        ckm_i_lean_tensor *tensor = &l->tensors[x];
        if (!tensor->gone && l->tensors[tensor->storage].bytes <= largest) {
            tensor->gone = true;
            l->to->n_small++;
        }
    }
    ckm_i_lean_sweep(l);
cleanup:
    free(sizes);
    free(unit);
    return status;
}

// Whether the operator touches x's storage by another tensor as well.
static bool touches_beside(const ckm_i_lean *l, const ckm_i_lean_op *op, int32_t x)
{
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t y = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        if (y != x && l->tensors[y].storage == l->tensors[x].storage) {
            return true;
        }
    }
    return false;
}

static bool is_paired(const ckm_i_lean_op *op, int32_t x)
{
    for (int32_t k = 0; k < op->n_inplace; k++) {
        if (op->inplace[k][1] == x) {
            return true;
        }
    }
    return false;
}

// Whether output x can go: it is there only while its operator runs.
static bool is_dead(const ckm_i_lean *l, const ckm_i_lean_op *op, int32_t x, bool *beside)
{
    const ckm_i_lean_tensor *tensor = &l->tensors[x];
    if (tensor->n_users > 0 || tensor->is_result || is_paired(op, x)) {
        return false;
    }
    *beside = touches_beside(l, op, x);
    return *beside || l->tensors[tensor->storage].n_members == 1;
}

void ckm_i_lean_drop_dead(ckm_i_lean *l)
{
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        ckm_i_lean_op *op = &l->ops[v];
        for (int32_t i = op->n_outputs - 1; i >= 0; i--) {
            int32_t x = op->outputs[i];
            ckm_i_lean_tensor *storage = &l->tensors[l->tensors[x].storage];
            bool beside = false;
            if (!is_dead(l, op, x, &beside)) {
                continue;
            }
            // What the operator touches beside it keeps the storage in memory; else that is the operator's own need.
            op->workspace_bytes += beside ? 0 : storage->bytes;
            op->outputs[i] = op->outputs[--op->n_outputs];
            l->tensors[x].gone = true;
            storage->n_members--;
            l->to->n_dead++;
        }
    }
    ckm_i_lean_count(l);
}
