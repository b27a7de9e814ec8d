// SPDX-License-Identifier: Apache-2.0
// LP relaxations by Clp's dual simplex. Runs inside the child process of milp_process.c.
#include <coin/Clp_C_Interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "milp/milp.h"

void ckm_i_milp_run_clp(const ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x,
                        double *row_dual)
{
    answer->status = CKM_I_MILP_STOPPED;
    answer->bound = -INFINITY;
    ckm_i_milp_columns columns;
    if (!ckm_i_milp_by_columns(m, &columns)) {
        strcpy(answer->detail, "out of memory");
        return;
    }
    Clp_Simplex *clp = Clp_newModel();
    Clp_setLogLevel(clp, 0);
    Clp_loadProblem(clp, m->n_cols, m->n_rows, columns.start, columns.row, columns.value, m->lower, m->upper, m->obj,
                    m->row_lower, m->row_upper);
    if (isfinite(options->seconds)) {
        Clp_setMaximumSeconds(clp, options->seconds);
    }
    Clp_initialDualSolve(clp);
    int status = Clp_status(clp);
    snprintf(answer->detail, sizeof answer->detail, "Clp status %d after %d iterations", status,
             Clp_numberIterations(clp));
    if (status == 0 || status == 3) {
        memcpy(row_dual, Clp_dualRowSolution(clp), (size_t)m->n_rows * sizeof *row_dual);
        answer->has_dual = 1;
    }
    if (status == 0) {
        answer->status = CKM_I_MILP_OPTIMAL;
        answer->objective = Clp_objectiveValue(clp);
        answer->bound = answer->objective;
        memcpy(x, Clp_primalColumnSolution(clp), (size_t)m->n_cols * sizeof *x);
        answer->has_x = 1;
    } else if (status == 1) {
        answer->status = CKM_I_MILP_INFEASIBLE;
    }
    // The process ends here: nothing is worth freeing.
}
