// SPDX-License-Identifier: Apache-2.0
// LP relaxations by Clp's dual simplex, and the loop of cutting planes around it. Runs inside the child process of
// milp_process.c.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "milp/milp_tree.h"

// Cutting continues while `patient_rounds` rounds (or options->patience) together close at least this
// share of the gap to `enough`, or of the bound where that is not known.
enum { patient_rounds = 5 };
static const double worthwhile = 0.01;

// Branching begins when they have closed less than this share of the gap.
static const double branching_share = 0.05;

// Share of the time left that branching may take; later steps have other means.
static const double branching_time = 0.2;

// From `large_rows` rows on, costs are perturbed while Clp solves, and restored in the end: networks of equal blocks have many
// equal costs, on which the dual simplex stalls. Smaller programs take little time without this.
enum { large_rows = 8000, perturb = 50 };

// A row binds up to this slack.
static const double purge_slack = 1e-7;

// Drops slack rows from `first` on before the next round: the basis stays valid without them, and each would
// cost time in every later iteration. Clp's model and m keep the same rows.
static void purge(Clp_Simplex *clp, ckm_i_milp *m, int32_t first)
{
    enum { basic = 1 };
    size_t n = (size_t)(m->n_rows - first);
    bool *keep = malloc(n * sizeof *keep + 1);
    int *which = malloc(n * sizeof *which + 1);
    const double *activity = Clp_getRowActivity(clp);
    int dropped = 0;
    for (int32_t i = first; keep != NULL && which != NULL && i < m->n_rows; i++) {
        double slack = fmin(activity[i] - m->row_lower[i], m->row_upper[i] - activity[i]);
        keep[i - first] = Clp_getRowStatus(clp, i) != basic || slack <= purge_slack;
        if (!keep[i - first]) {
            which[dropped++] = i;
        }
    }
    if (dropped > 0) {
        Clp_deleteRows(clp, dropped, which);
        ckm_i_milp_keep_rows(m, first, keep);
    }
    free(keep);
    free(which);
}

// Rows of cutting planes that do not bind any more only slow the engine down.
static void drop_slack_rows(ckm_i_milp *m, const double *row_dual, int32_t first)
{
    bool *keep = malloc((size_t)(m->n_rows - first) * sizeof *keep + 1);
    if (keep == NULL) {
        return;
    }
    for (int32_t i = first; i < m->n_rows; i++) {
        keep[i - first] = fabs(row_dual[i]) > 1e-9;
    }
    ckm_i_milp_keep_rows(m, first, keep);
    free(keep);
}

// The bound that Clp's current multipliers or its ray prove.
static double proven_at(Clp_Simplex *clp, const ckm_i_milp *m)
{
    if (Clp_status(clp) == 1 && !ckm_i_milp_ray_proves_infeasible(m, Clp_infeasibilityRay(clp))) {
        Clp_dual(clp, 0);  // there is no ray where Clp's presolve has found the contradiction
    }
    int status = Clp_status(clp);
    if (status == 1 &&
        (ckm_i_milp_ray_proves_infeasible(m, Clp_infeasibilityRay(clp)) || ckm_i_milp_a_row_proves_infeasible(m))) {
        return INFINITY;
    }
    return status == 0 || status == 3 ? ckm_i_milp_safe_bound(m, Clp_dualRowSolution(clp)) : -INFINITY;
}

// Solves, lets the caller cut the solution off, and solves again from the current basis. Every round's multipliers
// give a separate bound.
static int cut_and_solve(Clp_Simplex *clp, ckm_i_milp *m, const ckm_i_milp_options *options, double deadline,
                         ckm_i_milp_answer *answer)
{
    int patience = options->patience > 0 ? options->patience : patient_rounds;
    double before_rounds = -INFINITY;  // the bound `patience` rounds ago
    int32_t own_rows = m->n_rows;
    Clp_initialDualSolve(clp);
    for (int rounds = 0;; rounds++) {
        double proven = proven_at(clp, m);
        int status = Clp_status(clp);
        if (isfinite(proven) && proven > answer->proven) {
            answer->has_line = ckm_i_milp_line_of(m, Clp_dualRowSolution(clp), &answer->line);
        }
        answer->proven = fmax(answer->proven, proven);
        snprintf(answer->detail, sizeof answer->detail, "Clp status %d after %d iterations, %d rows, %d rounds", status,
                 Clp_numberIterations(clp), m->n_rows, rounds);
        double left = deadline - ckm_i_clock_seconds();
        if (status != 0 || options->separate == NULL || proven >= options->enough || left <= 0.0) {
            return status;
        }
        if (rounds % patience == 0) {
            double open = isfinite(options->enough) ? options->enough - before_rounds : fabs(proven);
            if (rounds > 0 && proven - before_rounds <= worthwhile * open) {
                return status;
            }
            before_rounds = proven;
        }
        purge(clp, m, own_rows);
        int32_t before = m->n_rows;
        options->separate(options->context, Clp_getColSolution(clp), m);
        if (m->failed || m->n_rows == before || !ckm_i_milp_append_rows(clp, m, before)) {
            return status;
        }
        if (isfinite(left)) {
            Clp_setMaximumSeconds(clp, left);
        }
        Clp_dual(clp, 0);
    }
}

// Whether it is time to branch.
static bool gains_little(const ckm_i_milp_options *options, double proven)
{
    return options->n_whole > 0 && proven < options->enough &&
           proven - options->known < branching_share * (options->enough - options->known);
}

// Clp's model of m, with this time limit. NULL without memory.
static Clp_Simplex *load(const ckm_i_milp *m, double seconds, ckm_i_milp_answer *answer)
{
    ckm_i_milp_columns columns;
    if (!ckm_i_milp_by_columns(m, &columns)) {
        strcpy(answer->detail, "out of memory");
        return NULL;
    }
    Clp_Simplex *clp = Clp_newModel();
    Clp_setLogLevel(clp, 0);
    Clp_loadProblem(clp, m->n_cols, m->n_rows, columns.start, columns.row, columns.value, m->lower, m->upper, m->obj,
                    m->row_lower, m->row_upper);
    if (m->n_rows >= large_rows) {
        Clp_setPerturbation(clp, perturb);
    }
    if (isfinite(seconds)) {
        Clp_setMaximumSeconds(clp, seconds);
    }
    return clp;
}

void ckm_i_milp_run_tree(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer)
{
    double deadline = ckm_i_clock_seconds() + options->seconds;
    Clp_Simplex *clp = load(m, options->seconds, answer);
    if (clp == NULL) {
        return;
    }
    Clp_initialDualSolve(clp);
    int32_t solved = ckm_i_milp_branch(clp, m, options, deadline, answer);
    size_t length = strlen(answer->detail);
    snprintf(answer->detail + length, sizeof answer->detail - length, ", %d nodes", solved);
}

void ckm_i_milp_run_clp(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x,
                        double *row_dual)
{
    answer->status = CKM_I_MILP_STOPPED;
    int32_t own_rows = m->n_rows;
    Clp_Simplex *clp = load(m, options->seconds, answer);
    if (clp == NULL) {
        return;
    }
    double deadline = ckm_i_clock_seconds() + options->seconds;
    int status = cut_and_solve(clp, m, options, deadline, answer);
    bool branched = status == 0 && gains_little(options, answer->proven);
    if (branched) {
        double now = ckm_i_clock_seconds();
        int32_t solved = ckm_i_milp_branch(clp, m, options, now + branching_time * (deadline - now), answer);
        size_t length = strlen(answer->detail);
        snprintf(answer->detail + length, sizeof answer->detail - length, ", %d nodes", solved);
        status = Clp_status(clp);
        if (status != 0 && answer->proven < INFINITY) {
            return;
        }
    }
    if ((status == 0 || status == 3) && m->n_rows == own_rows && !branched) {
        memcpy(row_dual, Clp_dualRowSolution(clp), (size_t)m->n_rows * sizeof *row_dual);
        answer->has_dual = 1;
    }
    if (answer->proven == INFINITY) {
        answer->status = CKM_I_MILP_INFEASIBLE;
    } else if (status == 0) {
        answer->status = CKM_I_MILP_OPTIMAL;
        answer->objective = Clp_objectiveValue(clp);
        memcpy(x, Clp_getColSolution(clp), (size_t)m->n_cols * sizeof *x);
        answer->has_x = 1;
    }
    if (m->n_rows > own_rows && (status == 0 || status == 3)) {
        drop_slack_rows(m, Clp_dualRowSolution(clp), own_rows);
    }
    // The process ends here or continues with the tree search: nothing is worth freeing.
}
