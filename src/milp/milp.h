// SPDX-License-Identifier: Apache-2.0
// Linear and mixed-integer programs: a sparse row-wise builder, and engines behind one interface.
//
// minimise obj . x   subject to   row_lower <= A x <= row_upper,  lower <= x <= upper,  some x integer
//
// Engines run in a child process (milp_process.c): what they print, leak, or abort on stays there, and
// they can be stopped at any moment.
#ifndef CKM_SRC_MILP_MILP_H
#define CKM_SRC_MILP_MILP_H

#include <checkmate/base.h>
#include <math.h>

typedef struct ckm_i_milp {
    int32_t n_cols, cap_cols, n_rows, cap_rows;
    int64_t n_entries, cap_entries;
    double *obj, *lower, *upper;  // per column
    bool *integer;
    double *row_lower, *row_upper;  // per row; -INFINITY and INFINITY where open
    double *row_slope;              // by how much row_upper grows with a parameter (ckm_i_milp_line); 0 to begin with
    int64_t *row_start;             // first entry of each row; entries of the last row end at n_entries
    int32_t *entry_col;
    double *entry_value;
    bool failed;  // an allocation failed; reported by ckm_i_milp_check
} ckm_i_milp;

void ckm_i_milp_init(ckm_i_milp *m);
void ckm_i_milp_dispose(ckm_i_milp *m);
// Builders do not report failure one by one: CKM_ERR_MEMORY comes from the check at the end.
int32_t ckm_i_milp_add_col(ckm_i_milp *m, double obj, double lower, double upper, bool integer);
int32_t ckm_i_milp_add_row(ckm_i_milp *m, double row_lower, double row_upper);
// The row's upper side is that of parameter 0 and grows by this much with it. Less than 0: it stays up to 0, and grows by
// as much as that is below 0 from there on. NAN: it stays, and the row holds only up to 0.
void ckm_i_milp_set_slope(ckm_i_milp *m, int32_t row, double slope);
// Adds an entry to the last row. A column may appear in it several times; entries are summed.
void ckm_i_milp_put(ckm_i_milp *m, int32_t col, double value);
ckm_status ckm_i_milp_check(const ckm_i_milp *m, ckm_error *err) CKM_NODISCARD;

// What our own arithmetic shows (ckm_i_milp_safe_bound). An engine's verdict on its own answer is ignored.
typedef enum ckm_i_milp_status {
    CKM_I_MILP_OPTIMAL,     // integer: proven within the gap asked for and 1e-7. A relaxation: solved; see `proven`
    CKM_I_MILP_FEASIBLE,    // a solution, stopped before the proof
    CKM_I_MILP_INFEASIBLE,  // proven
    CKM_I_MILP_STOPPED      // nothing found and nothing refuted within the limits, or the engine failed
} ckm_i_milp_status;

typedef struct ckm_i_milp_helper ckm_i_milp_helper;

typedef struct ckm_i_milp_options {
    bool relax;      // drop integrality: the LP relaxation
    double seconds;  // wall time; INFINITY for none
    double gap;      // absolute, in the objective, for integer programs
    double cutoff;   // only solutions with a smaller objective matter; INFINITY for none
    int threads;
    bool solution_only;  // of an integer program: nothing is to be proven beyond the relaxation
    // Rows of large or uneven numbers are widened beyond the engine's tolerances, so that no solution that satisfies them
    // exactly is missed. A solution found may then exceed them by that much; it is cut off by rows of small integers, and the
    // search begins anew, as far as time goes.
    bool widen_rows;
    int pump_passes;      // of CBC's feasibility pump; 0: as many as it does by itself
    const double *start;  // a feasible point to start from, or NULL
    // Separator of cutting planes, or NULL: given a solution of the relaxation, appends rows to `m` that it violates and every
    // valid solution satisfies. Called in the child until it adds none; rows that bind stay for the tree search.
    void (*separate)(const void *context, const double *x, ckm_i_milp *m);
    const void *context;
    // Rows whose activity is a whole number in every solution that counts, all columns of each with the same objective. Where
    // cutting planes close little of what lies between `known`, a bound, and `enough`, the relaxation's bound is raised by
    // branching on them (milp_tree.c); integer programs branch on them as well. n_whole 0: none.
    int32_t first_whole, n_whole;
    double known;
    double enough;     // nothing is to be proven beyond this; INFINITY: as much as there is
    int patience;      // rounds of cutting planes, after which cutting ends if together they gained little; 0: five
    ckm_stop_fn stop;  // may be NULL
    void *user;
    ckm_i_milp_helper *helper;  // runs the engine, and makes the program itself from the request; NULL: a child does
    const void *request;
    size_t request_bytes;
} ckm_i_milp_options;

// What multipliers prove for other values of the parameter (below).
typedef struct ckm_i_milp_line {
    double down, down_slope;  // for d <= 0: down - down_slope * d
    double up, up_slope;      // for d >= 0: up - up_slope * d; up is -INFINITY where nothing is proven
} ckm_i_milp_line;

typedef struct ckm_i_milp_result {
    ckm_i_milp_status status;
    double objective;  // of `x`; NAN without one
    double
        proven;  // lower bound on the optimum from multipliers, safe (ckm_i_milp_safe_bound), those of every leaf where
                 // a tree was searched; -INFINITY: none, INFINITY: proven infeasible in the same way
    bool has_line;
    ckm_i_milp_line line;  // of the multipliers behind `proven`
    double *x;             // n_cols, or NULL
    double *row_dual;      // n_rows, LP without cutting planes only, or NULL
    bool missing;          // no process could be started for the engine
    char detail[128];      // what the engine said, for logs
} ckm_i_milp_result;

// LP by Clp (dual simplex); integer programs: solutions by CBC, proofs by our own tree search over Clp. CKM_OK for every status, and also when no process can be
// started (CKM_I_MILP_STOPPED, `missing`, `detail` says why); errors are for memory. `m` is as it was afterwards: rows are
// appended in the child.
ckm_status ckm_i_milp_solve(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_result *result,
                            ckm_error *err) CKM_NODISCARD;
// The same, asynchronously. Start copies what it needs; poll returns at once whether the engine has ended, and
// enforces its time limit; finish waits for it, returns the answer and releases the job; abandon ends it.
typedef struct ckm_i_milp_job ckm_i_milp_job;
ckm_status ckm_i_milp_start(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_job **job,
                            ckm_error *err) CKM_NODISCARD;
bool ckm_i_milp_poll(ckm_i_milp_job *job);
ckm_status ckm_i_milp_finish(ckm_i_milp_job *job, ckm_i_milp_result *result, ckm_error *err) CKM_NODISCARD;
void ckm_i_milp_abandon(ckm_i_milp_job *job);
// What a running job has proven so far, as `proven` of its result.
double ckm_i_milp_proven(const ckm_i_milp_job *job);
void ckm_i_milp_result_dispose(ckm_i_milp_result *result);

// A process for engines, to be started while the caller has no threads at work: forks later on come from it. It runs one
// program at a time, whose rows it makes itself, in a separate child: `build` is called there with the context as it
// was at the start and a copy of the request; it gives the same program that ckm_i_milp_start() is called with, with what
// `separate` is to have as context, or NULL where memory runs out. CKM_ERR_IO where no process can be had. End (NULL is
// fine) ends what is under way, whose job is to be abandoned before.
typedef ckm_i_milp *ckm_i_milp_build_fn(const void *context, const void *request, size_t request_bytes,
                                        const void **separate_context);
ckm_status ckm_i_milp_helper_start(ckm_i_milp_build_fn *build, const void *context, ckm_i_milp_helper **out,
                                   ckm_error *err) CKM_NODISCARD;
void ckm_i_milp_helper_end(ckm_i_milp_helper *helper);

// A lower bound on the LP's optimum from any vector of row multipliers, right or wrong, by weak duality:
// sum of y_i times the row bound its sign calls for plus sum of min(d_j l_j, d_j u_j) over columns with
// d = obj - A'y (Neumaier and Shcherbina 2004). Rounding errors are bounded and subtracted, so the result is
// a proof, not an estimate. Columns must have finite bounds where d_j is not zero; else -INFINITY.
double ckm_i_milp_safe_bound(const ckm_i_milp *m, const double *row_dual);

// The same for every value of the parameter: weak duality again, with other sides. False where it proves nothing at 0.
bool ckm_i_milp_line_of(const ckm_i_milp *m, const double *row_dual, ckm_i_milp_line *out);

// Whether the multipliers, right or wrong, prove that no x satisfies the rows: the same bound with a zero objective
// comes out positive (Farkas).
bool ckm_i_milp_proves_infeasible(const ckm_i_milp *m, const double *row_dual);
// Whether a single row does: it cannot be satisfied within the columns' bounds.
bool ckm_i_milp_a_row_proves_infeasible(const ckm_i_milp *m);
// The same as the first for an engine's ray with either sign, as conventions differ; its sign may change. NULL proves nothing.
bool ckm_i_milp_ray_proves_infeasible(const ckm_i_milp *m, double *ray);

// Engines, run inside the child; `x` and `row_dual` have room for all.
typedef struct ckm_i_milp_answer {
    int32_t status;  // ckm_i_milp_status
    int32_t has_x, has_dual, has_line;
    ckm_i_milp_line line;
    double objective;
    _Atomic double proven;  // read by the parent at any time
    char detail[128];
} ckm_i_milp_answer;
void ckm_i_milp_run_clp(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x,
                        double *row_dual);
// The tree search; raises answer->proven.
void ckm_i_milp_run_tree(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer);
// A solution, if one is found; status and bound are left alone.
void ckm_i_milp_run_cbc(const ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x);

// Appends rows that every solution with columns at 0 and 1 satisfies and x does not, where x exceeds a row's upper side by
// however little. Returns how many; 0 also where memory runs out.
int32_t ckm_i_milp_cut_off(ckm_i_milp *m, const double *x);

// Drops the rows from `first` on whose flag in keep[row - first] is not set.
void ckm_i_milp_keep_rows(ckm_i_milp *m, int32_t first, const bool *keep);

// The matrix by columns, as both engines want it. Freed with free() each.
typedef struct ckm_i_milp_columns {
    int *start, *row;
    double *value;
} ckm_i_milp_columns;
bool ckm_i_milp_by_columns(const ckm_i_milp *m, ckm_i_milp_columns *out);

#endif
