// SPDX-License-Identifier: Apache-2.0
// Mixed-integer programs by CBC. Runs inside the child process of milp_process.c; on SIGINT CBC's own
// handler ends the tree search, and the best solution and bound so far are handed over.
#include <coin/Cbc_C_Interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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

void ckm_i_milp_run_cbc(const ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x)
{
    answer->status = CKM_I_MILP_STOPPED;
    answer->bound = -INFINITY;
    ckm_i_milp_columns columns;
    if (!ckm_i_milp_by_columns(m, &columns)) {
        strcpy(answer->detail, "out of memory");
        return;
    }
    Cbc_Model *cbc = Cbc_newModel();
    Cbc_loadProblem(cbc, m->n_cols, m->n_rows, columns.start, columns.row, columns.value, m->lower, m->upper, m->obj,
                    m->row_lower, m->row_upper);
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
    double began = ckm_i_clock_seconds();
    Cbc_solve(cbc);
    // A CBC that ran out of time can call a relaxation infeasible that it did not get to solve, and with that the
    // program: its claims count only when it ended by itself.
    bool in_time = ckm_i_clock_seconds() - began < options->seconds;
    const double *solution = Cbc_bestSolution(cbc);
    snprintf(answer->detail, sizeof answer->detail, "CBC status %d, secondary %d, %d nodes", Cbc_status(cbc),
             Cbc_secondaryStatus(cbc), Cbc_getNodeCount(cbc));
    if (Cbc_isProvenInfeasible(cbc) && in_time) {
        answer->status = CKM_I_MILP_INFEASIBLE;
    } else if (solution != NULL) {
        answer->status = Cbc_isProvenOptimal(cbc) && in_time ? CKM_I_MILP_OPTIMAL : CKM_I_MILP_FEASIBLE;
        answer->objective = Cbc_getObjValue(cbc);
        memcpy(x, solution, (size_t)m->n_cols * sizeof *x);
        answer->has_x = 1;
    }
    double bound = Cbc_getBestPossibleObjValue(cbc);
    // Secondary status 1: with the start's cost as a limit not even the relaxation has a solution. That proves
    // the start optimal, and the bound CBC reports is an older, weaker one.
    if (answer->status == CKM_I_MILP_OPTIMAL && Cbc_secondaryStatus(cbc) == 1) {
        bound = fmax(bound, answer->objective - options->gap);
    }
    if (!Cbc_isProvenInfeasible(cbc) && bound > -1e40 && bound < 1e40) {
        answer->bound = bound;
    }
}
