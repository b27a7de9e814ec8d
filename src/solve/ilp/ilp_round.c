// SPDX-License-Identifier: Apache-2.0
#include "solve/ilp/ilp.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_i_ilp_relax_to_round(ckm_i_ilp *ilp, const ckm_i_milp_options *limits, ckm_i_milp_result *result,
                                    ckm_error *err)
{
    static const double share = 1e-5;  // of the mean cost
    const ckm_dataflow *df = ilp->df;
    size_t n_cols = (size_t)ilp->milp.n_cols;
    double *costs = ckm_i_malloc(n_cols, sizeof *costs);
    if (costs == NULL) {
        return ckm_i_error_memory(err);
    }
    memcpy(costs, ilp->milp.obj, n_cols * sizeof *costs);
    for (int64_t i = 0; i < (int64_t)df->n_ops * df->n_ops; i++) {
        if (ilp->r_col[i] >= 0) {
            ilp->milp.obj[ilp->r_col[i]] += share * (double)df->total_cost / df->n_ops / ilp->cost_scale;
        }
    }
    ckm_status status = ckm_i_milp_solve(&ilp->milp, limits, result, err);
    memcpy(ilp->milp.obj, costs, n_cols * sizeof *costs);
    free(costs);
    return status;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x < y) - (x > y);
}

ckm_status ckm_i_ilp_thresholds(const ckm_i_ilp *ilp, const double *x, double **out, int32_t *n, ckm_error *err)
{
    size_t n_bits = ((size_t)ilp->df->n_ops + 1) * (size_t)ilp->df->n_tensors;
    double *values = ckm_i_malloc(n_bits + 1, sizeof *values);
    double *thresholds = ckm_i_malloc(n_bits + 1, sizeof *thresholds);
    if (values == NULL || thresholds == NULL) {
        free(values);
        free(thresholds);
        return ckm_i_error_memory(err);
    }
    size_t n_values = 0;
    for (size_t i = 0; i < n_bits; i++) {
        if (ilp->s_col[i] >= 0 && x[ilp->s_col[i]] > CKM_I_ILP_SAME_VALUE) {
            values[n_values++] = x[ilp->s_col[i]];
        }
    }
    qsort(values, n_values, sizeof *values, descending);
    values[n_values] = 0.0;
    int32_t found = 0;
    thresholds[found++] = 0.5;
    for (size_t i = 0; i < n_values; i++) {
        if (values[i] - values[i + 1] > CKM_I_ILP_SAME_VALUE) {
            thresholds[found++] = 0.5 * (values[i] + values[i + 1]);
        }
    }
    free(values);
    *out = thresholds;
    *n = found;
    return CKM_OK;
}

void ckm_i_ilp_sample(const ckm_i_ilp *ilp, const double *x, ckm_i_rng *rng, ckm_i_stages *stages)
{
    int32_t n = stages->n_ops;
    memset(stages->s, 0, ((size_t)n + 1) * stages->s_words * sizeof *stages->s);
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t i = 0; i < stages->n_tensors; i++) {
            int32_t col = ilp->s_col[(int64_t)t * stages->n_tensors + i];
            if (col < 0) {
                continue;
            }
            bool held = x[col] > 1.0 - CKM_I_ILP_SAME_VALUE;
            if (!held && x[col] > CKM_I_ILP_SAME_VALUE) {
                held = ckm_i_rng_unit(rng) < x[col];
            }
            if (held) {
                ckm_i_bits_set(ckm_i_stages_s(stages, t), i);
            }
        }
    }
}
