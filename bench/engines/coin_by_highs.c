// SPDX-License-Identifier: Apache-2.0
// The parts of Clp's and CBC's C interfaces that src/milp calls, answered by HiGHS: linked in their place, the library runs with the
// other engine and is otherwise the same. Bases are kept over rows that come and go, as Clp does by itself. One file, because
// HiGHS's header has definitions in it.
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <interfaces/highs_c_api.h>

typedef void Clp_Simplex;

// Statuses as Clp numbers them.
enum { clp_free, clp_basic, clp_at_upper, clp_at_lower, clp_fixed };

typedef struct model {
    void *highs;
    int n_cols, n_rows, cap_rows;
    double *col_lower, *col_upper, *row_lower, *row_upper;  // the caller writes to these
    double *x, *reduced, *activity, *dual, *ray;            // reduced costs are not asked for
    unsigned char *status;                                  // of columns, then of rows
    bool has_status, has_ray, written;
    double seconds;
    int iterations, limit;
    double objective;
    int verdict;
} model;

static void *take(void *old, size_t n, size_t size)
{
    void *p = realloc(old, (n + 1) * size);
    if (p == NULL) {
        abort();
    }
    return p;
}

static void room_for_rows(model *m, int n)
{
    if (n > m->cap_rows) {
        size_t cap = 2 * (size_t)n;
        m->row_lower = take(m->row_lower, cap, sizeof(double));
        m->row_upper = take(m->row_upper, cap, sizeof(double));
        m->activity = take(m->activity, cap, sizeof(double));
        m->dual = take(m->dual, cap, sizeof(double));
        m->ray = take(m->ray, cap, sizeof(double));
        m->status = take(m->status, cap + (size_t)m->n_cols, 1);
        m->cap_rows = (int)cap;
    }
}

Clp_Simplex *Clp_newModel(void)
{
    model *m = calloc(1, sizeof *m);
    if (m == NULL || (m->highs = Highs_create()) == NULL) {
        abort();
    }
    m->seconds = INFINITY;
    m->limit = 0x7fffffff;
    Highs_setBoolOptionValue(m->highs, "output_flag", 0);
    Highs_setStringOptionValue(m->highs, "solver", "simplex");
    Highs_setStringOptionValue(m->highs, "parallel", "off");
    Highs_setIntOptionValue(m->highs, "threads", 1);
    Highs_setIntOptionValue(m->highs, "simplex_strategy", 1);
    // What is fastest on these programs: no presolve, and Devex prices, which cost nothing to begin anew.
    Highs_setStringOptionValue(m->highs, "presolve", "off");
    Highs_setIntOptionValue(m->highs, "simplex_dual_edge_weight_strategy", 1);
    return m;
}

void Clp_setLogLevel(Clp_Simplex *clp, int level)
{
    (void)clp;
    (void)level;
}

void Clp_setPerturbation(Clp_Simplex *clp, int value)
{
    (void)clp;  // HiGHS perturbs by itself
    (void)value;
}

void Clp_setMaximumSeconds(Clp_Simplex *clp, double seconds)
{
    ((model *)clp)->seconds = seconds;
}

void Clp_setMaximumIterations(Clp_Simplex *clp, int n)
{
    ((model *)clp)->limit = n;
}

void Clp_setNumberIterations(Clp_Simplex *clp, int n)
{
    ((model *)clp)->iterations = n;
}

void Clp_loadProblem(Clp_Simplex *clp, int n_cols, int n_rows, const int *start, const int *index, const double *value,
                     const double *col_lower, const double *col_upper, const double *obj, const double *row_lower,
                     const double *row_upper)
{
    model *m = clp;
    size_t n = (size_t)n_cols;
    m->n_cols = n_cols;
    m->n_rows = n_rows;
    m->col_lower = take(NULL, n, sizeof(double));
    m->col_upper = take(NULL, n, sizeof(double));
    m->x = take(NULL, n, sizeof(double));
    m->reduced = take(NULL, n, sizeof(double));
    room_for_rows(m, n_rows + 1);
    memcpy(m->col_lower, col_lower, n * sizeof(double));
    memcpy(m->col_upper, col_upper, n * sizeof(double));
    memcpy(m->row_lower, row_lower, (size_t)n_rows * sizeof(double));
    memcpy(m->row_upper, row_upper, (size_t)n_rows * sizeof(double));
    Highs_passLp(m->highs, n_cols, n_rows, start[n_cols], kHighsMatrixFormatColwise, kHighsObjSenseMinimize, 0.0, obj,
                 col_lower, col_upper, row_lower, row_upper, start, index, value);
}

static HighsInt to_highs(unsigned char status)
{
    switch (status & 7) {
    case clp_basic:
        return kHighsBasisStatusBasic;
    case clp_at_upper:
        return kHighsBasisStatusUpper;
    case clp_free:
        return kHighsBasisStatusZero;
    default:
        return kHighsBasisStatusLower;
    }
}

static unsigned char from_highs(HighsInt status)
{
    return status == kHighsBasisStatusBasic   ? clp_basic
           : status == kHighsBasisStatusUpper ? clp_at_upper
           : status == kHighsBasisStatusZero  ? clp_free
                                              : clp_at_lower;
}

static void put_basis(model *m)
{
    size_t n = (size_t)m->n_cols + (size_t)m->n_rows;
    HighsInt *status = take(NULL, n, sizeof *status);
    for (size_t i = 0; i < n; i++) {
        status[i] = to_highs(m->status[i]);
    }
    Highs_setBasis(m->highs, status, status + m->n_cols);
    free(status);
}

static void get_basis(model *m)
{
    size_t n = (size_t)m->n_cols + (size_t)m->n_rows;
    HighsInt *status = take(NULL, n, sizeof *status);
    HighsInt valid = 0;
    Highs_getIntInfoValue(m->highs, "basis_validity", &valid);
    m->has_status = valid != 0 && Highs_getBasis(m->highs, status, status + m->n_cols) != kHighsStatusError;
    for (size_t i = 0; m->has_status && i < n; i++) {
        m->status[i] = from_highs(status[i]);
    }
    free(status);
}

static int run(model *m)
{
    if (isfinite(m->seconds)) {
        // HiGHS's clock goes on from run to run.
        Highs_setDoubleOptionValue(m->highs, "time_limit", Highs_getRunTime(m->highs) + m->seconds);
    }
    Highs_setIntOptionValue(m->highs, "simplex_iteration_limit", m->limit);
    Highs_run(m->highs);
    HighsInt n = 0;
    Highs_getIntInfoValue(m->highs, "simplex_iteration_count", &n);
    m->iterations += n > 0 ? n : 0;
    Highs_getSolution(m->highs, m->x, m->reduced, m->activity, m->dual);
    m->objective = Highs_getObjectiveValue(m->highs);
    get_basis(m);
    m->has_ray = false;
    switch (Highs_getModelStatus(m->highs)) {
    case kHighsModelStatusOptimal:
        m->verdict = 0;
        break;
    case kHighsModelStatusInfeasible: {
        HighsInt has = 0;
        Highs_getDualRay(m->highs, &has, m->ray);
        m->has_ray = has != 0;
        m->verdict = 1;
        break;
    }
    case kHighsModelStatusUnbounded:
    case kHighsModelStatusUnboundedOrInfeasible:
        m->verdict = 2;
        break;
    case kHighsModelStatusTimeLimit:
    case kHighsModelStatusIterationLimit:
        m->verdict = 3;
        break;
    default:
        m->verdict = 4;
    }
    return m->verdict;
}

// What the caller has written since.
static void put_sides(model *m)
{
    size_t n = (size_t)(m->n_cols > m->n_rows ? m->n_cols : m->n_rows);
    HighsInt *set = take(NULL, n, sizeof *set);
    for (size_t i = 0; i < n; i++) {
        set[i] = (HighsInt)i;
    }
    Highs_changeRowsBoundsBySet(m->highs, m->n_rows, set, m->row_lower, m->row_upper);
    Highs_changeColsBoundsBySet(m->highs, m->n_cols, set, m->col_lower, m->col_upper);
    free(set);
}

int Clp_initialDualSolve(Clp_Simplex *clp)
{
    return run(clp);
}

int Clp_dual(Clp_Simplex *clp, int values_pass)
{
    (void)values_pass;
    model *m = clp;
    if (m->written) {
        put_sides(m);
    }
    return run(m);
}

int Clp_status(Clp_Simplex *clp)
{
    return ((model *)clp)->verdict;
}

int Clp_numberIterations(Clp_Simplex *clp)
{
    return ((model *)clp)->iterations;
}

double Clp_objectiveValue(Clp_Simplex *clp)
{
    return ((model *)clp)->objective;
}

const double *Clp_getRowActivity(Clp_Simplex *clp)
{
    return ((model *)clp)->activity;
}

int Clp_getRowStatus(Clp_Simplex *clp, int row)
{
    model *m = clp;
    return m->has_status ? m->status[m->n_cols + row] : clp_basic;
}

double *Clp_dualRowSolution(Clp_Simplex *clp)
{
    return ((model *)clp)->dual;
}

const double *Clp_getColSolution(Clp_Simplex *clp)
{
    return ((model *)clp)->x;
}

// The caller frees it, as with Clp.
double *Clp_infeasibilityRay(Clp_Simplex *clp)
{
    model *m = clp;
    if (!m->has_ray) {
        return NULL;
    }
    double *ray = take(NULL, (size_t)m->n_rows, sizeof *ray);
    memcpy(ray, m->ray, (size_t)m->n_rows * sizeof *ray);
    return ray;
}

unsigned char *Clp_statusArray(Clp_Simplex *clp)
{
    return ((model *)clp)->status;
}

void Clp_copyinStatus(Clp_Simplex *clp, const unsigned char *status)
{
    model *m = clp;
    memcpy(m->status, status, (size_t)m->n_cols + (size_t)m->n_rows);
    m->has_status = true;
    put_basis(m);
}

double *Clp_rowLower(Clp_Simplex *clp)
{
    ((model *)clp)->written = true;
    return ((model *)clp)->row_lower;
}

double *Clp_rowUpper(Clp_Simplex *clp)
{
    ((model *)clp)->written = true;
    return ((model *)clp)->row_upper;
}

double *Clp_columnLower(Clp_Simplex *clp)
{
    ((model *)clp)->written = true;
    return ((model *)clp)->col_lower;
}

double *Clp_columnUpper(Clp_Simplex *clp)
{
    ((model *)clp)->written = true;
    return ((model *)clp)->col_upper;
}

void Clp_addRows(Clp_Simplex *clp, int n, const double *lower, const double *upper, const int *start, const int *index,
                 const double *value)
{
    model *m = clp;
    room_for_rows(m, m->n_rows + n);
    Highs_addRows(m->highs, n, lower, upper, start[n], start, index, value);
    memcpy(m->row_lower + m->n_rows, lower, (size_t)n * sizeof(double));
    memcpy(m->row_upper + m->n_rows, upper, (size_t)n * sizeof(double));
    memset(m->status + m->n_cols + m->n_rows, clp_basic, (size_t)n);
    m->n_rows += n;  // HiGHS makes them basic by itself
}

void Clp_deleteRows(Clp_Simplex *clp, int n, const int *which)
{
    model *m = clp;
    Highs_deleteRowsBySet(m->highs, n, which);
    int at = 0;
    int kept = 0;
    for (int i = 0; i < m->n_rows; i++) {
        if (at < n && which[at] == i) {
            at++;
            continue;
        }
        m->row_lower[kept] = m->row_lower[i];
        m->row_upper[kept] = m->row_upper[i];
        m->activity[kept] = m->activity[i];
        m->dual[kept] = m->dual[i];
        m->status[m->n_cols + kept] = m->status[m->n_cols + i];
        kept++;
    }
    m->n_rows = kept;
    if (m->has_status) {
        put_basis(m);
    }
}

// CBC.
typedef struct Cbc_Model {
    void *highs;
    int n_cols;
    HighsInt *integrality;
    double *x, *obj, *start;
    double cutoff;
    bool found;
} Cbc_Model;

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void look(int type, const char *message, const HighsCallbackDataOut *out, HighsCallbackDataIn *in, void *user)
{
    (void)type;
    (void)message;
    (void)out;
    (void)user;
    in->user_interrupt = interrupted;
}

Cbc_Model *Cbc_newModel(void)
{
    Cbc_Model *m = calloc(1, sizeof *m);
    if (m == NULL || (m->highs = Highs_create()) == NULL) {
        abort();
    }
    m->cutoff = INFINITY;
    Highs_setBoolOptionValue(m->highs, "output_flag", 0);
    Highs_setStringOptionValue(m->highs, "parallel", "off");
    Highs_setIntOptionValue(m->highs, "threads", 1);
    Highs_setCallback(m->highs, look, NULL);
    Highs_startCallback(m->highs, kHighsCallbackMipInterrupt);
    Highs_startCallback(m->highs, kHighsCallbackSimplexInterrupt);
    signal(SIGINT, on_interrupt);
    return m;
}

void Cbc_loadProblem(Cbc_Model *m, int n_cols, int n_rows, const int *start, const int *index, const double *value,
                     const double *lower, const double *upper, const double *obj, const double *row_lower,
                     const double *row_upper)
{
    m->n_cols = n_cols;
    m->integrality = calloc((size_t)n_cols + 1, sizeof *m->integrality);
    m->x = calloc((size_t)n_cols + 1, sizeof *m->x);
    m->obj = calloc((size_t)n_cols + 1, sizeof *m->obj);
    if (m->integrality == NULL || m->x == NULL || m->obj == NULL) {
        abort();
    }
    memcpy(m->obj, obj, (size_t)n_cols * sizeof *obj);
    Highs_passMip(m->highs, n_cols, n_rows, start[n_cols], kHighsMatrixFormatColwise, kHighsObjSenseMinimize, 0.0, obj,
                  lower, upper, row_lower, row_upper, start, index, value, m->integrality);
}

void Cbc_setInteger(Cbc_Model *m, int col)
{
    Highs_changeColIntegrality(m->highs, col, kHighsVarTypeInteger);
}

void Cbc_setLogLevel(Cbc_Model *m, int level)
{
    (void)m;
    (void)level;
}

void Cbc_setParameter(Cbc_Model *m, const char *name, const char *value)
{
    double number = atof(value);
    if (strcmp(name, "sec") == 0) {
        Highs_setDoubleOptionValue(m->highs, "time_limit", number);
    } else if (strcmp(name, "ratioGap") == 0) {
        Highs_setDoubleOptionValue(m->highs, "mip_rel_gap", number);
    } else if (strcmp(name, "allowableGap") == 0) {
        Highs_setDoubleOptionValue(m->highs, "mip_abs_gap", number);
    } else if (strcmp(name, "cutoff") == 0) {
        m->cutoff = number;
    } else if (strcmp(name, "threads") == 0) {
        Highs_setIntOptionValue(m->highs, "threads", (HighsInt)number);
        Highs_setStringOptionValue(m->highs, "parallel", "choose");
    }  // the rest is of CBC's own heuristics and clocks
}

void Cbc_setMIPStartI(Cbc_Model *m, int n, const int index[], const double value[])
{
    Highs_setSparseSolution(m->highs, n, index, value);
}

int Cbc_solve(Cbc_Model *m)
{
    if (isfinite(m->cutoff)) {
        HighsInt *index = calloc((size_t)m->n_cols + 1, sizeof *index);
        double *value = calloc((size_t)m->n_cols + 1, sizeof *value);
        if (index == NULL || value == NULL) {
            abort();
        }
        HighsInt n = 0;
        for (int j = 0; j < m->n_cols; j++) {
            if (m->obj[j] != 0.0) {
                index[n] = j;
                value[n++] = m->obj[j];
            }
        }
        Highs_addRow(m->highs, -INFINITY, m->cutoff, n, index, value);
        free(index);
        free(value);
    }
    Highs_run(m->highs);
    double objective = Highs_getObjectiveValue(m->highs);
    HighsInt status = 0;
    Highs_getIntInfoValue(m->highs, "primal_solution_status", &status);
    m->found = status == kHighsSolutionStatusFeasible && isfinite(objective);
    if (m->found) {
        Highs_getSolution(m->highs, m->x, NULL, NULL, NULL);
    }
    return 0;
}

const double *Cbc_bestSolution(Cbc_Model *m)
{
    return m->found ? m->x : NULL;
}

double Cbc_getObjValue(Cbc_Model *m)
{
    return Highs_getObjectiveValue(m->highs);
}

int Cbc_status(Cbc_Model *m)
{
    return (int)Highs_getModelStatus(m->highs);
}

int Cbc_secondaryStatus(Cbc_Model *m)
{
    (void)m;
    return 0;
}

int Cbc_getNodeCount(Cbc_Model *m)
{
    int64_t n = 0;
    Highs_getInt64InfoValue(m->highs, "mip_node_count", &n);
    return (int)n;
}
