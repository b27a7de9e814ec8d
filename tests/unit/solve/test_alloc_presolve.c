// SPDX-License-Identifier: Apache-2.0
// Presolve on a graph worked out by hand; and every allocation of it and of its maps fails in turn.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "quoted.h"
#include "solve/presolve/presolve.h"

// a: 100 bytes. view: of a, for free. relu: in place of a normed tensor. The scale of 3 bytes is read late, and all else
// comes in hundreds: at 505 bytes it does not matter.
static const char text[] =
    "'tensors': ["
    "{'name': 'in', 'bytes': 0}, {'name': 'a', 'bytes': 100}, {'name': 'view', 'bytes': 0, 'alias_of': 1},"
    "{'name': 'norm', 'bytes': 100}, {'name': 'relu', 'bytes': 100}, {'name': 'scale', 'bytes': 3},"
    "{'name': 'out', 'bytes': 200}, {'name': 'unread', 'bytes': 100}],"
    "'ops': [{'cost': 5, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [0], 'outputs': [5]},"
    "{'cost': 0, 'inputs': [1], 'outputs': [2]}, {'cost': 2, 'inputs': [2], 'outputs': [3]},"
    "{'cost': 1, 'inputs': [3], 'outputs': [4], 'inplace': [[3, 4]]},"
    "{'cost': 7, 'inputs': [4, 2, 5], 'outputs': [6, 7]}], 'results': [6]";

enum { budget = 505 };

static void reductions(void **state)
{
    (void)state;
    ckm_i_presolve *p = NULL;
    ckm_dataflow *df = quoted_graph_of(text);
    assert_int_equal(ckm_i_presolve_create(df, budget, CKM_I_PRESOLVE_OPERATORS, &p, NULL), CKM_OK);
    assert_non_null(p);
    assert_int_equal(p->n_small, 1);
    assert_int_equal(p->n_views, 1);
    assert_int_equal(p->n_merged, 1);
    assert_int_equal(p->n_dead, 1);
    assert_int_equal(p->unit_bytes, 100);
    assert_int_equal(p->budget_bytes, 5);
    // a; scale's operator, which has nothing left; norm and relu in one; out.
    assert_int_equal(p->reduced->n_ops, 4);
    assert_int_equal(p->reduced->n_tensors, 3);
    assert_int_equal(p->reduced->ops[2].cost, 3);
    assert_int_equal(p->reduced->ops[3].workspace_bytes, 1);
    assert_int_equal(p->reduced->total_cost, df->total_cost);
    ckm_i_presolve_free(p);
    // With 3 bytes less the scale decides whether 500 or 400 bytes fit next to it.
    assert_int_equal(ckm_i_presolve_create(df, budget - 3, CKM_I_PRESOLVE_OPERATORS, &p, NULL), CKM_OK);
    assert_int_equal(p->n_small, 0);
    ckm_i_presolve_free(p);
    // Tensors alone.
    assert_int_equal(ckm_i_presolve_create(df, budget, CKM_I_PRESOLVE_TENSORS, &p, NULL), CKM_OK);
    assert_int_equal(p->reduced->n_ops, df->n_ops);
    assert_int_equal(p->reduced->n_tensors, 5);
    ckm_i_presolve_free(p);
    ckm_dataflow_free(df);
}

// There and back again.
static ckm_status round_trip(void *user, ckm_error *err)
{
    const ckm_dataflow *df = user;
    ckm_i_presolve *p = NULL;
    ckm_schedule *baseline = NULL;
    ckm_schedule *reduced = NULL;
    ckm_schedule *back = NULL;
    ckm_simulation facts;
    ckm_status status = ckm_schedule_baseline(df, &baseline, err);
    if (status == CKM_OK) {
        status = ckm_i_presolve_create(df, budget, CKM_I_PRESOLVE_OPERATORS, &p, err);
    }
    if (status == CKM_OK) {
        status = ckm_i_presolve_map_forward(p, baseline, &reduced, err);
    }
    if (status == CKM_OK) {
        status = ckm_i_presolve_map_back(p, reduced, &back, err);
    }
    if (status == CKM_OK) {
        status = ckm_schedule_simulate(df, back, NULL, &facts, err);
    }
    if (status == CKM_OK) {
        assert_int_equal(facts.cost, 16);
        assert_true(facts.peak_bytes <= budget);
    }
    ckm_i_presolve_free(p);
    ckm_schedule_free(baseline);
    ckm_schedule_free(reduced);
    ckm_schedule_free(back);
    return status;
}

static void allocations(void **state)
{
    (void)state;
    ckm_dataflow *df = quoted_graph_of(text);
    assert_true(alloc_sweep(round_trip, df) > 40);
    ckm_dataflow_free(df);
}

typedef struct witness {
    const ckm_dataflow *original;
    int attended;
    bool was_answered, is_answered;
} witness;

static void attend(void *context)
{
    ((witness *)context)->attended++;
}

// On the original: within the reduced problem's deadline, with what goes on there; a schedule that only the original has.
static ckm_status on_original(ckm_i_solver *given, ckm_error *err)
{
    const witness *w = given->options->user;
    assert_ptr_equal(given->df, w->original);
    assert_true(given->deadline_seconds == 1e17);
    ckm_i_solver_attend(given);
    return ckm_i_solver_offer_plain(given, NULL, err);
}

static ckm_status on_reduced(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_solver *original = ((ckm_i_solver **)solver->background_context)[0];
    witness *w = original->options->user;
    void *context = solver->background_context;
    assert_ptr_not_equal(solver->df, w->original);
    assert_ptr_equal(ckm_i_solver_given_df(solver), w->original);
    w->was_answered = solver->is_answered;
    solver->deadline_seconds = 1e17;
    solver->background = attend;
    solver->background_context = w;
    ckm_status status = ckm_i_solver_run_given(solver, on_original, err);
    solver->background_context = context;
    w->is_answered = solver->is_answered;
    return status;
}

static void work_on_the_original(void **state)
{
    (void)state;
    const ckm_i_strategy strategy = {.name = "test", .run = on_reduced, .wants_reduced = true};
    ckm_dataflow *df = quoted_graph_of(text);
    witness w = {.original = df, .was_answered = true};
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_i_solver solver;
    options.user = &w;
    ckm_i_solver_init(&solver, df, &options, budget);
    ckm_i_solver *itself = &solver;
    solver.background_context = &itself;
    assert_ptr_equal(ckm_i_solver_given_df(&solver), df);
    assert_int_equal(ckm_i_presolve_run(&solver, &strategy, NULL), CKM_OK);
    assert_non_null(solver.best_schedule);
    assert_int_equal(w.attended, 1);
    assert_true(!w.was_answered && w.is_answered);
    assert_true(solver.background == NULL && solver.background_context == &itself && isinf(solver.deadline_seconds));
    // Without presolve, the problem is its own.
    solver.deadline_seconds = 1e17;
    solver.background = attend;
    solver.background_context = &w;
    assert_int_equal(ckm_i_solver_run_given(&solver, on_original, NULL), CKM_OK);
    assert_int_equal(w.attended, 2);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reductions), cmocka_unit_test(allocations),
                                       cmocka_unit_test(work_on_the_original)};
    return cmocka_run_group_tests_name("presolve", tests, NULL, NULL);
}
