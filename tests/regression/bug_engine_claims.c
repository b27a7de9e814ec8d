// SPDX-License-Identifier: Apache-2.0
// "No schedule fits" was reported together with a schedule that did, because CBC had reported the integer program as infeasible: on a
// busy machine it could run out of time before it had solved a relaxation, and take that for a refutation. This program is
// linked to a CBC that makes every false claim it can: there is no solution, and a bound above any cost. Nothing may come
// of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <coin/Cbc_C_Interface.h>
#include <math.h>

#include "layer_graph.h"
#include "solve/bounds/window_run.h"
#include "solve/core/solve_options.h"
#include "solve/ilp/ilp.h"

// ---- An engine that is wrong about everything.

static int a_model, n_solved;

Cbc_Model *Cbc_newModel(void)
{
    return &a_model;
}

void Cbc_loadProblem(Cbc_Model *model, const int cols, const int rows, const CoinBigIndex *start, const int *index,
                     const double *value, const double *lower, const double *upper, const double *obj,
                     const double *row_lower, const double *row_upper)
{
    (void)model, (void)cols, (void)rows, (void)start, (void)index, (void)value, (void)lower, (void)upper, (void)obj;
    (void)row_lower, (void)row_upper;
}

void Cbc_setInteger(Cbc_Model *model, int col)
{
    (void)model, (void)col;
}

void Cbc_setLogLevel(Cbc_Model *model, int level)
{
    (void)model, (void)level;
}

void Cbc_setParameter(Cbc_Model *model, const char *name, const char *value)
{
    (void)model, (void)name, (void)value;
}

void Cbc_setMIPStartI(Cbc_Model *model, int count, const int *columns, const double *values)
{
    (void)model, (void)count, (void)columns, (void)values;
}

int Cbc_solve(Cbc_Model *model)
{
    (void)model;
    n_solved++;
    return 0;
}

int Cbc_status(Cbc_Model *model)
{
    (void)model;
    return 0;
}

int Cbc_secondaryStatus(Cbc_Model *model)
{
    (void)model;
    return 1;
}

int Cbc_getNodeCount(Cbc_Model *model)
{
    (void)model;
    return 0;
}

int Cbc_isProvenInfeasible(Cbc_Model *model)
{
    (void)model;
    return 1;
}

int Cbc_isProvenOptimal(Cbc_Model *model)
{
    (void)model;
    return 1;
}

double Cbc_getBestPossibleObjValue(Cbc_Model *model)
{
    (void)model;
    return 1e30;
}

double Cbc_getObjValue(Cbc_Model *model)
{
    (void)model;
    return 1e30;
}

double *Cbc_bestSolution(Cbc_Model *model)
{
    (void)model;
    return NULL;
}

// ---- What is made of it.

// A chain of eight layers in a little less than it takes without recomputing anything: schedules fit.
enum { layers = 8, budget = 9 };

static ckm_i_solver begin(const ckm_dataflow *df, const ckm_solve_options *options)
{
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, options, budget);
    solver.deadline_seconds = solver.start_seconds + 60.0;
    ckm_i_solver_bound(&solver, (double)df->total_cost, CKM_BOUND_ANY, "sum");
    return solver;
}

static int64_t optimum(const ckm_dataflow *df)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget;
    options.time_limit_seconds = 60.0;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    int64_t cost = result.cost;
    ckm_solve_result_dispose(&result);
    return cost;
}

static void nothing_false_is_concluded(const ckm_i_solver *solver)
{
    assert_false(solver->infeasible);
    assert_true(solver->bound_cost <= (double)optimum(solver->df));
}

static void a_stage_program_is_not_infeasible_because_an_engine_says_so(void **state)
{
    (void)state;
    static const int32_t cuts[] = {2, 4, 6};
    ckm_dataflow *df = layer_graph_unit_chain(layers);
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_solver solver = begin(df, &options);
    ckm_i_window_problem problem = {df, solver.budget_bytes, false};
    ckm_i_window_options program = {.problem = &problem, .cuts = cuts, .n_cuts = 3, .integer = true, .seconds = 60.0};
    ckm_i_window_run *run = NULL;
    ckm_i_window_found found = {0};
    assert_int_equal(ckm_i_window_run_start(&solver, &program, &run, NULL), CKM_OK);
    assert_int_equal(ckm_i_window_run_finish(&solver, run, &found, NULL), CKM_OK);
    nothing_false_is_concluded(&solver);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void the_papers_program_is_not_infeasible_because_an_engine_says_so(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(layers);
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_solver solver = begin(df, &options);
    assert_int_equal(ckm_i_ilp_run(&solver, 60.0, NULL), CKM_OK);
    nothing_false_is_concluded(&solver);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void whole_runs_say_nothing_false(void **state)
{
    (void)state;
    static const char *const strategies[] = {"auto", "ilp"};
    ckm_dataflow *df = layer_graph_unit_chain(layers);
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.strategy = strategies[i];
        options.budget_bytes = budget;
        options.time_limit_seconds = 60.0;
        assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
        assert_true(result.schedule != NULL && result.cost == optimum(df) && result.bound_cost <= (double)result.cost);
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_program_is_not_infeasible_because_an_engine_says_so),
        cmocka_unit_test(the_papers_program_is_not_infeasible_because_an_engine_says_so),
        cmocka_unit_test(whole_runs_say_nothing_false),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
