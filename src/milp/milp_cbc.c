// SPDX-License-Identifier: Apache-2.0
// Solutions of mixed-integer programs by CBC. Runs inside the child process of milp_process.c; on SIGINT CBC's own handler
// ends the tree search, and the best solution so far is returned. CBC's claims about bounds, optimality and
// infeasibility are unverified and only logged.
#include <coin/Cbc_C_Interface.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milp/milp.h"

static void set_number(Cbc_Model *cbc, const char *name, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.12g", value);
    Cbc_setParameter(cbc, name, text);
}

static void set_start(Cbc_Model *cbc, const ckm_i_milp *m, const double *start)
{
    int *index = malloc((size_t)m->n_cols * sizeof *index);
    double *value = malloc((size_t)m->n_cols * sizeof *value);
    if (index != NULL && value != NULL) {
        int n = 0;
        for (int32_t j = 0; j < m->n_cols; j++) {
            if (m->integer[j]) {
                index[n] = j;
                value[n] = start[j];
                n++;
            }
        }
        Cbc_setMIPStartI(cbc, n, index, value);
    }
    free(index);
    free(value);
}

// What every row is widened by, relative to its largest coefficient and to its side, each a hundred times what CBC's
// tolerances come to.
static const double least_width = 1e-3, coefficient_width = 1e-7, side_width = 1e-8;

// Up to here integers are exact for an engine: values that differ do so by far more than a tolerance.
static const double small_integer = 1000.0;

static bool is_small_integer(double value)
{
    return fabs(value) <= small_integer && value == floor(value);
}

static double width_of(const ckm_i_milp *m, int32_t row)
{
    int64_t end = row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
    double side = fmax(isfinite(m->row_lower[row]) ? fabs(m->row_lower[row]) : 0.0,
                       isfinite(m->row_upper[row]) ? fabs(m->row_upper[row]) : 0.0);
    double largest = 0.0;
    bool exact = side == floor(side);
    for (int64_t e = m->row_start[row]; e < end; e++) {
        largest = fmax(largest, fabs(m->entry_value[e]));
        exact = exact && is_small_integer(m->entry_value[e]);
    }
    return exact ? 0.0 : fmax(least_width, fmax(coefficient_width * largest, side_width * side));
}

// Sides of the rows, with room for the engine's errors: first all lower ones, then all upper ones. NULL without memory.
static double *make_sides(const ckm_i_milp *m, bool widen)
{
    double *sides = malloc(2 * (size_t)m->n_rows * sizeof *sides + 1);
    for (int32_t i = 0; sides != NULL && i < m->n_rows; i++) {
        double width = widen ? width_of(m, i) : 0.0;
        sides[i] = m->row_lower[i] - width;
        sides[m->n_rows + i] = m->row_upper[i] + width;
    }
    return sides;
}

void ckm_i_milp_run_cbc(const ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x)
{
    ckm_i_milp_columns columns;
    double *sides = make_sides(m, options->widen_rows);
    if (sides == NULL || !ckm_i_milp_by_columns(m, &columns)) {
        strcpy(answer->detail, "out of memory");
        free(sides);
        return;
    }
    Cbc_Model *cbc = Cbc_newModel();
    Cbc_loadProblem(cbc, m->n_cols, m->n_rows, columns.start, columns.row, columns.value, m->lower, m->upper, m->obj,
                    sides, sides + m->n_rows);
    for (int32_t j = 0; j < m->n_cols; j++) {
        if (m->integer[j]) {
            Cbc_setInteger(cbc, j);
        }
    }
    Cbc_setLogLevel(cbc, 0);
    Cbc_setParameter(cbc, "timeMode", "elapsed");  // the default counts CPU seconds
    if (isfinite(options->seconds)) {
        set_number(cbc, "sec", options->seconds);
    }
    set_number(cbc, "ratioGap", 0.0);
    set_number(cbc, "allowableGap", options->gap);
    if (options->threads > 1) {
        set_number(cbc, "threads", options->threads);
    }
    if (options->pump_passes > 0) {
        set_number(cbc, "passFeasibilityPump", options->pump_passes);
    }
    if (options->start != NULL) {
        set_start(cbc, m, options->start);
    }
    if (isfinite(options->cutoff)) {
        set_number(cbc, "cutoff", options->cutoff);
    }
    Cbc_solve(cbc);
    const double *solution = Cbc_bestSolution(cbc);
    snprintf(answer->detail, sizeof answer->detail, "CBC status %d, secondary %d, %d nodes", Cbc_status(cbc),
             Cbc_secondaryStatus(cbc), Cbc_getNodeCount(cbc));
    if (solution != NULL) {
        answer->objective = Cbc_getObjValue(cbc);
        memcpy(x, solution, (size_t)m->n_cols * sizeof *x);
        answer->has_x = 1;
    }
}
