// SPDX-License-Identifier: Apache-2.0
// Operator times as lines over the batch.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/train/profile.h"

static ckm_status check(ckm_profile *const *profiles, int32_t n, ckm_error *err)
{
    bool batches_differ = false;
    for (int32_t i = 1; i < n; i++) {
        batches_differ = batches_differ || profiles[i]->info.batch != profiles[0]->info.batch;
        if (profiles[i]->n_ops != profiles[0]->n_ops) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "the profiles have %d and %d operators", (int)profiles[0]->n_ops,
                               (int)profiles[i]->n_ops);
        }
        for (int32_t v = 0; v < profiles[0]->n_ops; v++) {
            if (strcmp(profiles[i]->ops[v].name, profiles[0]->ops[v].name) != 0) {
                return ckm_i_error(err, CKM_ERR_ARGUMENT,
                                   "operator %d is \"%.100s\" in one profile, \"%.100s\" in another", (int)v,
                                   profiles[0]->ops[v].name, profiles[i]->ops[v].name);
            }
        }
    }
    return batches_differ ? CKM_OK
                          : ckm_i_error(err, CKM_ERR_ARGUMENT, "fitting a line needs profiles of at least two batches");
}

typedef struct line {
    double fixed, slope;
} line;

static double sum_of_squares(ckm_profile *const *profiles, int32_t n, int32_t v, line l)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        double y = (double)profiles[i]->ops[v].median_ns;
        double e = (l.fixed + l.slope * (double)profiles[i]->info.batch - y) / (y > 1.0 ? y : 1.0);
        sum += e * e;
    }
    return sum;
}

// Weighted least squares; where that makes one of the two negative, the better of the fits with one of them 0.
static line fit_op(ckm_profile *const *profiles, int32_t n, int32_t v)
{
    double w = 0.0;
    double wx = 0.0;
    double wy = 0.0;
    double wxx = 0.0;
    double wxy = 0.0;
    for (int32_t i = 0; i < n; i++) {
        double x = (double)profiles[i]->info.batch;
        double y = (double)profiles[i]->ops[v].median_ns;
        double weight = 1.0 / ((y > 1.0 ? y : 1.0) * (y > 1.0 ? y : 1.0));
        w += weight;
        wx += weight * x;
        wy += weight * y;
        wxx += weight * x * x;
        wxy += weight * x * y;
    }
    double determinant = w * wxx - wx * wx;
    line both = {(wxx * wy - wx * wxy) / determinant, (w * wxy - wx * wy) / determinant};
    line constant = {wy / w, 0.0};
    line proportional = {0.0, wxy / wxx};
    if (both.fixed >= 0.0 && both.slope >= 0.0) {
        return both;
    }
    return sum_of_squares(profiles, n, v, constant) < sum_of_squares(profiles, n, v, proportional) ? constant
                                                                                                   : proportional;
}

typedef struct weighted {
    double error, weight;
} weighted;

static int by_error(const void *left, const void *right)
{
    const weighted *a = left;
    const weighted *b = right;
    return a->error < b->error ? -1 : a->error > b->error;
}

static double weighted_median(weighted *list, int32_t n)
{
    double total = 0.0;
    double sum = 0.0;
    if (n > 0) {
        qsort(list, (size_t)n, sizeof *list, by_error);
    }
    for (int32_t i = 0; i < n; i++) {
        total += list[i].weight;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += list[i].weight;
        if (2.0 * sum >= total) {
            return list[i].error;
        }
    }
    return 0.0;
}

ckm_status ckm_profile_fit(ckm_profile *const *profiles, int32_t n, double *median_error, ckm_error *err)
{
    CKM_I_NEED(profiles, err);
    CKM_I_NEED(median_error, err);
    for (int32_t i = 0; i < n; i++) {
        CKM_I_NEED_NAMED(profiles[i], "one of the profiles", err);
    }
    CKM_I_CHECK(check(profiles, n, err));
    ckm_profile *p = profiles[0];
    weighted *errors = ckm_i_malloc((size_t)p->n_ops, sizeof *errors);
    if (errors == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < p->n_ops; v++) {
        line l = fit_op(profiles, n, v);
        errors[v] = (weighted){0.0, (double)p->ops[v].median_ns};
        for (int32_t i = 0; i < n; i++) {
            double y = (double)profiles[i]->ops[v].median_ns;
            double e = y > 0.0 ? fabs((l.fixed + l.slope * (double)profiles[i]->info.batch) / y - 1.0) : 0.0;
            errors[v].error = e > errors[v].error ? e : errors[v].error;
        }
        p->ops[v].fixed_ns = l.fixed;
        p->ops[v].per_sample_ns = l.slope;
    }
    *median_error = weighted_median(errors, p->n_ops);
    free(errors);
    return CKM_OK;
}
