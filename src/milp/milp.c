// SPDX-License-Identifier: Apache-2.0
// The model builder and the safe dual bound.
#include "milp/milp.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

void ckm_i_milp_init(ckm_i_milp *m)
{
    *m = (ckm_i_milp){0};
}

void ckm_i_milp_dispose(ckm_i_milp *m)
{
    free(m->obj);
    free(m->lower);
    free(m->upper);
    free(m->integer);
    free(m->row_lower);
    free(m->row_upper);
    free(m->row_slope);
    free(m->row_start);
    free(m->entry_col);
    free(m->entry_value);
    ckm_i_milp_init(m);
}

// Grows several arrays that share one capacity.
static bool grow_columns(ckm_i_milp *m)
{
    int32_t caps[4] = {m->cap_cols, m->cap_cols, m->cap_cols, m->cap_cols};
    bool ok = CKM_I_GROW(m->obj, m->n_cols, caps[0]);
    ok = ok && CKM_I_GROW(m->lower, m->n_cols, caps[1]);
    ok = ok && CKM_I_GROW(m->upper, m->n_cols, caps[2]);
    ok = ok && CKM_I_GROW(m->integer, m->n_cols, caps[3]);
    if (ok) {
        m->cap_cols = caps[0];
    }
    return ok;
}

static bool grow_rows(ckm_i_milp *m)
{
    int32_t caps[4] = {m->cap_rows, m->cap_rows, m->cap_rows, m->cap_rows};
    bool ok = CKM_I_GROW(m->row_lower, m->n_rows, caps[0]);
    ok = ok && CKM_I_GROW(m->row_upper, m->n_rows, caps[1]);
    ok = ok && CKM_I_GROW(m->row_start, m->n_rows, caps[2]);
    ok = ok && CKM_I_GROW(m->row_slope, m->n_rows, caps[3]);
    if (ok) {
        m->cap_rows = caps[0];
    }
    return ok;
}

static bool grow_entries(ckm_i_milp *m)
{
    int64_t caps[2] = {m->cap_entries, m->cap_entries};
    bool ok = m->n_entries < INT32_MAX - 1 && CKM_I_GROW(m->entry_col, m->n_entries, caps[0]);
    ok = ok && CKM_I_GROW(m->entry_value, m->n_entries, caps[1]);
    if (ok) {
        m->cap_entries = caps[0];
    }
    return ok;
}

int32_t ckm_i_milp_add_col(ckm_i_milp *m, double obj, double lower, double upper, bool integer)
{
    if (m->failed || !grow_columns(m)) {
        m->failed = true;
        return 0;
    }
    m->obj[m->n_cols] = obj;
    m->lower[m->n_cols] = lower;
    m->upper[m->n_cols] = upper;
    m->integer[m->n_cols] = integer;
    return m->n_cols++;
}

int32_t ckm_i_milp_add_row(ckm_i_milp *m, double row_lower, double row_upper)
{
    if (m->failed || !grow_rows(m)) {
        m->failed = true;
        return 0;
    }
    m->row_lower[m->n_rows] = row_lower;
    m->row_upper[m->n_rows] = row_upper;
    m->row_slope[m->n_rows] = 0.0;
    m->row_start[m->n_rows] = m->n_entries;
    return m->n_rows++;
}

void ckm_i_milp_set_slope(ckm_i_milp *m, int32_t row, double slope)
{
    if (!m->failed) {
        m->row_slope[row] = slope;
    }
}

void ckm_i_milp_put(ckm_i_milp *m, int32_t col, double value)
{
    if (m->failed) {
        return;
    }
    for (int64_t e = m->n_entries - 1; e >= m->row_start[m->n_rows - 1] && e >= m->n_entries - 8; e--) {
        if (m->entry_col[e] == col) {  // nearly always the case when a column repeats
            m->entry_value[e] += value;
            return;
        }
    }
    if (!grow_entries(m)) {
        m->failed = true;
        return;
    }
    m->entry_col[m->n_entries] = col;
    m->entry_value[m->n_entries] = value;
    m->n_entries++;
}

ckm_status ckm_i_milp_check(const ckm_i_milp *m, ckm_error *err)
{
    return m->failed ? ckm_i_error_memory(err) : CKM_OK;
}

static int64_t row_end(const ckm_i_milp *m, int32_t row)
{
    return row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
}

void ckm_i_milp_keep_rows(ckm_i_milp *m, int32_t first, const bool *keep)
{
    if (first >= m->n_rows) {
        return;
    }
    int32_t rows = first;
    int64_t entries = m->row_start[first];
    for (int32_t i = first; i < m->n_rows; i++) {
        int64_t from = m->row_start[i];
        int64_t n = row_end(m, i) - from;
        if (!keep[i - first]) {
            continue;
        }
        memmove(m->entry_col + entries, m->entry_col + from, (size_t)n * sizeof *m->entry_col);
        memmove(m->entry_value + entries, m->entry_value + from, (size_t)n * sizeof *m->entry_value);
        m->row_lower[rows] = m->row_lower[i];
        m->row_upper[rows] = m->row_upper[i];
        m->row_slope[rows] = m->row_slope[i];
        m->row_start[rows] = entries;
        entries += n;
        rows++;
    }
    m->n_rows = rows;
    m->n_entries = entries;
}

bool ckm_i_milp_by_columns(const ckm_i_milp *m, ckm_i_milp_columns *out)
{
    int *start = ckm_i_calloc((size_t)m->n_cols + 1, sizeof *start);
    int *row = ckm_i_malloc((size_t)m->n_entries, sizeof *row);
    double *value = ckm_i_malloc((size_t)m->n_entries, sizeof *value);
    int *last = ckm_i_malloc((size_t)m->n_cols, sizeof *last);  // last entry written per column
    if (start == NULL || row == NULL || value == NULL || last == NULL) {
        free(start);
        free(row);
        free(value);
        free(last);
        return false;
    }
    for (int64_t e = 0; e < m->n_entries; e++) {
        start[m->entry_col[e] + 1]++;
    }
    for (int32_t j = 0; j < m->n_cols; j++) {
        start[j + 1] += start[j];
        last[j] = start[j] - 1;
    }
    for (int32_t i = 0; i < m->n_rows; i++) {
        for (int64_t e = m->row_start[i]; e < row_end(m, i); e++) {
            int32_t j = m->entry_col[e];
            if (last[j] >= start[j] && row[last[j]] == i) {
                value[last[j]] += m->entry_value[e];
            } else {
                last[j]++;
                row[last[j]] = i;
                value[last[j]] = m->entry_value[e];
            }
        }
    }
    // Repeated entries left holes at the end of columns: close them.
    int at = 0;
    for (int32_t j = 0; j < m->n_cols; j++) {
        int from = start[j];
        int to = last[j];
        start[j] = at;
        for (int e = from; e <= to; e++) {
            row[at] = row[e];
            value[at] = value[e];
            at++;
        }
    }
    start[m->n_cols] = at;
    free(last);
    *out = (ckm_i_milp_columns){.start = start, .row = row, .value = value};
    return true;
}

// The bound for `weight` times the objective.
static double safe_bound(const ckm_i_milp *m, const double *row_dual, double weight)
{
    double *reduced = ckm_i_malloc((size_t)m->n_cols, sizeof *reduced);
    double *error = ckm_i_malloc((size_t)m->n_cols, sizeof *error);
    int32_t *terms = ckm_i_calloc((size_t)m->n_cols, sizeof *terms);
    double bound = -INFINITY;
    if (reduced == NULL || error == NULL || terms == NULL) {
        goto cleanup;
    }
    for (int32_t j = 0; j < m->n_cols; j++) {
        reduced[j] = m->obj[j] * weight;
        error[j] = fabs(reduced[j]);
    }
    // `magnitude` collects the sum of absolute values of all terms; with n additions the rounding error of
    // the sum is below n * eps * magnitude.
    double sum = 0.0;
    double magnitude = 0.0;
    for (int32_t i = 0; i < m->n_rows; i++) {
        double y = row_dual[i];
        double side = y > 0.0 ? m->row_lower[i] : m->row_upper[i];
        if (y == 0.0 || !isfinite(y) || !isfinite(side)) {
            continue;  // any multiplier is valid, zero included
        }
        sum += y * side;
        magnitude += fabs(y * side);
        for (int64_t e = m->row_start[i]; e < row_end(m, i); e++) {
            double term = y * m->entry_value[e];
            reduced[m->entry_col[e]] -= term;
            error[m->entry_col[e]] += fabs(term);
            terms[m->entry_col[e]]++;
        }
    }
    // A column's reduced cost is known up to its own rounding error, that of each coefficient, product and addition: take
    // the worse end.
    for (int32_t j = 0; j < m->n_cols; j++) {
        double slack = error[j] * DBL_EPSILON * (double)(terms[j] + 8);
        double low = reduced[j] - slack;
        double high = reduced[j] + slack;
        double at_lower = m->lower[j] >= 0.0 ? low * m->lower[j] : high * m->lower[j];
        double at_upper = m->upper[j] >= 0.0 ? low * m->upper[j] : high * m->upper[j];
        double term = at_lower < at_upper ? at_lower : at_upper;
        if (!isfinite(term)) {
            goto cleanup;
        }
        sum += term;
        magnitude += fabs(term);
    }
    bound = sum - magnitude * DBL_EPSILON * (double)(m->n_cols + m->n_rows + 16);
cleanup:
    free(reduced);
    free(error);
    free(terms);
    return bound;
}

double ckm_i_milp_safe_bound(const ckm_i_milp *m, const double *row_dual)
{
    return safe_bound(m, row_dual, 1.0);
}

// Sum of slopes times multipliers that rest on an upper side, below or above parameter 0. Its terms have one sign, so that
// few parts in 1e9 cover rounding.
static double sum_of_slopes(const ckm_i_milp *m, const double *row_dual, bool above)
{
    double sum = 0.0;
    for (int32_t i = 0; i < m->n_rows; i++) {
        double slope = m->row_slope[i] < 0.0 && above ? -m->row_slope[i] : m->row_slope[i];
        if (row_dual[i] < 0.0 && isfinite(row_dual[i]) && slope > 0.0 && isfinite(m->row_upper[i])) {
            sum -= row_dual[i] * slope;
        }
    }
    return sum;
}

// The bound without the rows that do not hold above 0.
static double bound_above(const ckm_i_milp *m, const double *row_dual, double bound)
{
    bool some = false;
    for (int32_t i = 0; i < m->n_rows; i++) {
        some = some || (isnan(m->row_slope[i]) && row_dual[i] != 0.0);
    }
    double *y = some ? ckm_i_malloc((size_t)m->n_rows, sizeof *y) : NULL;
    if (y == NULL) {
        return some ? -INFINITY : bound;
    }
    for (int32_t i = 0; i < m->n_rows; i++) {
        y[i] = isnan(m->row_slope[i]) ? 0.0 : row_dual[i];
    }
    bound = safe_bound(m, y, 1.0);
    free(y);
    return bound;
}

bool ckm_i_milp_line_of(const ckm_i_milp *m, const double *row_dual, ckm_i_milp_line *out)
{
    const double margin = 4e-9;
    double bound = safe_bound(m, row_dual, 1.0);
    *out = (ckm_i_milp_line){
        .down = bound,
        .down_slope = sum_of_slopes(m, row_dual, false) * (1.0 - margin),
        .up = bound_above(m, row_dual, bound),
        .up_slope = sum_of_slopes(m, row_dual, true) * (1.0 + margin),
    };
    return bound > -INFINITY && m->n_rows < 1 << 22;
}

bool ckm_i_milp_proves_infeasible(const ckm_i_milp *m, const double *row_dual)
{
    return safe_bound(m, row_dual, 0.0) > 0.0;
}

// The least activity of the row, or of its negative, less what rounding may amount to.
static double least_activity(const ckm_i_milp *m, int32_t row, double sign)
{
    double sum = 0.0;
    double magnitude = 0.0;
    for (int64_t e = m->row_start[row]; e < row_end(m, row); e++) {
        double value = sign * m->entry_value[e];
        double term = value * (value > 0.0 ? m->lower : m->upper)[m->entry_col[e]];
        sum += term;
        magnitude += fabs(term);
    }
    return sum - magnitude * DBL_EPSILON * (double)(row_end(m, row) - m->row_start[row] + 8);
}

bool ckm_i_milp_a_row_proves_infeasible(const ckm_i_milp *m)
{
    for (int32_t i = 0; i < m->n_rows; i++) {
        double margin = 4.0 * DBL_EPSILON;
        if ((isfinite(m->row_upper[i]) &&
             least_activity(m, i, 1.0) > m->row_upper[i] + margin * fabs(m->row_upper[i])) ||
            (isfinite(m->row_lower[i]) &&
             least_activity(m, i, -1.0) > margin * fabs(m->row_lower[i]) - m->row_lower[i])) {
            return true;
        }
    }
    return false;
}

bool ckm_i_milp_ray_proves_infeasible(const ckm_i_milp *m, double *ray)
{
    if (ray == NULL) {
        return false;
    }
    bool proven = ckm_i_milp_proves_infeasible(m, ray);
    for (int32_t i = 0; i < m->n_rows; i++) {
        ray[i] = -ray[i];
    }
    return proven || ckm_i_milp_proves_infeasible(m, ray);
}
