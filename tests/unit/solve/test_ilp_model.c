// SPDX-License-Identifier: Apache-2.0
// From matrices to columns and back, and what an objective says of the cost.
#include "solve/core/solve_options.h"
#include "solve/ilp/ilp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "oracle_random.h"
#include "solve/core/structure.h"

static ckm_i_ilp *model_of(const ckm_dataflow *df, int64_t budget_bytes, ckm_formulation formulation)
{
    ckm_i_ilp *ilp = NULL;
    assert_int_equal(ckm_i_ilp_build(df, budget_bytes, formulation, 1000000, NULL, NULL, &ilp, NULL), CKM_OK);
    return ilp;
}

// Rows of operators' and of tensors' columns, half of each table.
static void size_of_the_tables(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);  // 9 operators, 9 tensors
    ckm_i_ilp *ilp = NULL;
    assert_false(ckm_i_ilp_is_too_large(df, 90));
    assert_true(ckm_i_ilp_is_too_large(df, 89));
    assert_int_equal(ckm_i_ilp_build(df, 5, CKM_FORMULATION_FRONTIER, 10, NULL, NULL, &ilp, NULL), CKM_ERR_UNSUPPORTED);
    assert_null(ilp);
    ckm_dataflow_free(df);
}

static void an_objective_says_what_the_cost_is(void **state)
{
    (void)state;
    // Costs 6, 10, and twice that backward: multiples of 2, 48 in all, counted in twos.
    static const layer_spec layers[] = {{.cost = 6, .bytes = 1}, {.cost = 10, .bytes = 1, .n_operands = 1}};
    static const struct {
        double objective, frontier, unpartitioned;
    } rows[] = {{0.0, 48, 0}, {1.0, 50, 2}, {1.2, 52, 4}, {2.0, 52, 4}, {24.0, 96, 48}, {24.5, 98, 50}};
    ckm_dataflow *df = layer_graph_build(layers, 2, 0, 1, true);
    for (int f = 0; f < 2; f++) {
        ckm_i_ilp *ilp = model_of(df, 100, f == 0 ? CKM_FORMULATION_FRONTIER : CKM_FORMULATION_UNPARTITIONED);
        assert_true(ilp->cost_scale == 2.0);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            double wanted = f == 0 ? rows[i].frontier : rows[i].unpartitioned;
            assert_true(fabs(ckm_i_ilp_cost_bound(ilp, rows[i].objective) - wanted) <= 1e-9 * wanted);
        }
        ckm_i_ilp_free(ilp);
    }
    ckm_dataflow_free(df);
}

static ckm_i_stages *random_stages(ckm_i_rng *rng, const ckm_dataflow *df)
{
    ckm_i_stages *stages = NULL;
    uint32_t percent = ckm_i_rng_below(rng, 101);
    assert_int_equal(ckm_i_stages_create(df, &stages, NULL), CKM_OK);
    for (int32_t t = 1; t < df->n_ops; t++) {
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (ckm_i_rng_below(rng, 100) < percent) {
                ckm_i_bits_set(ckm_i_stages_s(stages, t), x);
            }
        }
    }
    assert_int_equal(ckm_i_stages_complete(stages, NULL), CKM_OK);
    return stages;
}

static void expect_same_s(const ckm_i_stages *a, const ckm_i_stages *b)
{
    for (int32_t t = 0; t < a->n_ops; t++) {
        for (int32_t x = 0; x < a->n_tensors; x++) {
            assert_int_equal(ckm_i_bits_get(ckm_i_stages_s(a, t), x), ckm_i_bits_get(ckm_i_stages_s(b, t), x));
        }
    }
}

static void expect_binary(const ckm_i_ilp *ilp, int32_t col, double cost)
{
    assert_true(ilp->milp.integer[col] && ilp->milp.lower[col] == 0.0 && ilp->milp.upper[col] == 1.0);
    assert_true(fabs(ilp->milp.obj[col] * ilp->cost_scale - cost) < 1e-6);
}

// A binary column for everything that a stage may compute again or hold, and constants for the rest: an operator's first computation
// is its own stage's, what runs once does not run again, and nothing is of use that no operator from the stage on depends on.
static void columns_are_what_a_stage_may_do(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 8};
    for (int round = 0; round < 300; round++) {
        oracle_graph g;
        int32_t need[ORACLE_MAX_OPS];
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_ilp *ilp = model_of(df, INT64_MAX / 4, CKM_FORMULATION_FRONTIER);
        ckm_i_last_need(df, need);
        for (int32_t t = 0; t < df->n_ops; t++) {
            for (int32_t v = 0; v < df->n_ops; v++) {
                int32_t col = ilp->r_col[t * df->n_ops + v];
                bool again = v < t && df->ops[v].recomputable && need[v] >= t;
                assert_int_equal(col >= 0, again);
                assert_true(again || col == (v == t ? CKM_I_ILP_ONE : CKM_I_ILP_ZERO));
                if (again) {
                    expect_binary(ilp, col, (double)df->ops[v].cost);
                }
            }
        }
        for (int32_t t = 0; t <= df->n_ops; t++) {
            for (int32_t x = 0; x < df->n_tensors; x++) {
                const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
                int32_t col = ilp->s_col[t * df->n_tensors + x];
                bool there = !tensor->pinned && tensor->producer >= 0 && tensor->producer < t;
                bool held = there && t < df->n_ops && (tensor->n_users > 0 || tensor->is_result) &&
                            need[tensor->producer] >= t;
                assert_int_equal(col >= 0, held);
                assert_true(held ||
                            col == (there && t == df->n_ops && tensor->is_result ? CKM_I_ILP_ONE : CKM_I_ILP_ZERO));
                if (held) {
                    expect_binary(ilp, col, 0.0);
                }
            }
        }
        ckm_i_ilp_free(ilp);
        ckm_dataflow_free(df);
    }
}

// A start has the cost of its matrices, keeps every bound of a column, and comes back as it was; also by chance, where each value is
// 0 or 1 but for what an engine's rounding leaves.
static void there_and_back(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 9};
    for (int round = 0; round < 200; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_stages *stages = random_stages(&rng, df);
        ckm_i_stages *back = random_stages(&rng, df);
        ckm_i_ilp *ilp = model_of(df, INT64_MAX / 4, CKM_FORMULATION_FRONTIER);
        double *x = malloc(((size_t)ilp->milp.n_cols + 1) * sizeof *x);
        assert_non_null(x);
        memset(x, 0x7f, ((size_t)ilp->milp.n_cols + 1) * sizeof *x);
        ckm_i_ilp_start(ilp, stages, x);
        double cost = (double)df->total_cost;
        for (int32_t j = 0; j < ilp->milp.n_cols; j++) {
            assert_true(x[j] == 0.0 || x[j] == 1.0);
            cost += x[j] * ilp->milp.obj[j] * ilp->cost_scale;
        }
        assert_true(fabs(cost - (double)ckm_i_stages_cost(stages)) < 1e-6);
        ckm_i_ilp_take(ilp, x, 0.5, back);
        expect_same_s(stages, back);
        ckm_i_ilp_take(ilp, x, 1.0, back);
        for (int32_t t = 0; t < df->n_ops; t++) {
            for (int32_t i = 0; i < df->n_tensors; i++) {
                assert_false(ckm_i_bits_get(ckm_i_stages_s(back, t), i));
            }
        }
        for (int32_t j = 0; j < ilp->milp.n_cols; j++) {
            x[j] = x[j] == 1.0 ? 1.0 - 5e-7 : 5e-7;
        }
        ckm_i_rng unused = {.state = 3};
        ckm_i_ilp_sample(ilp, x, &unused, back);
        expect_same_s(stages, back);
        assert_int_equal(unused.state, 3);
        free(x);
        ckm_i_ilp_free(ilp);
        ckm_i_stages_free(stages);
        ckm_i_stages_free(back);
        ckm_dataflow_free(df);
    }
}

// Each bit with its own probability: a fifth of them in all is held, within four standard deviations.
static void samples_follow_the_values(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(30);
    ckm_i_ilp *ilp = model_of(df, 1000, CKM_FORMULATION_FRONTIER);
    ckm_i_stages *stages = NULL;
    ckm_i_rng rng = {.state = 4};
    double *x = malloc((size_t)ilp->milp.n_cols * sizeof *x);
    int64_t n_held = 0;
    int64_t n = 0;
    assert_non_null(x);
    assert_int_equal(ckm_i_stages_create(df, &stages, NULL), CKM_OK);
    for (int32_t j = 0; j < ilp->milp.n_cols; j++) {
        x[j] = 0.2;
    }
    ckm_i_ilp_sample(ilp, x, &rng, stages);
    for (int32_t t = 0; t <= df->n_ops; t++) {
        for (int32_t i = 0; i < df->n_tensors; i++) {
            n += ilp->s_col[(int64_t)t * df->n_tensors + i] >= 0;
            n_held += ckm_i_bits_get(ckm_i_stages_s(stages, t), i);
        }
    }
    assert_true(n > 500 && fabs((double)n_held - 0.2 * (double)n) < 4.0 * sqrt(0.16 * (double)n));
    double *thresholds = NULL;
    int32_t n_thresholds = 0;
    assert_int_equal(ckm_i_ilp_thresholds(ilp, x, &thresholds, &n_thresholds, NULL), CKM_OK);
    assert_int_equal(n_thresholds, 2);
    assert_true(thresholds[0] == 0.5 && thresholds[1] == 0.1);
    free(thresholds);
    free(x);
    ckm_i_stages_free(stages);
    ckm_i_ilp_free(ilp);
    ckm_dataflow_free(df);
}

// Whether the rows about runs alone hold, where operator v runs in stage t as bit 3 * t + v says.
static bool rows_hold(const ckm_i_ilp *ilp, uint32_t runs)
{
    bool hold = true;
    for (int32_t i = 0; i < ilp->milp.n_rows; i++) {
        int64_t end = i + 1 < ilp->milp.n_rows ? ilp->milp.row_start[i + 1] : ilp->milp.n_entries;
        double sum = 0.0;
        bool of_runs = true;
        for (int64_t k = ilp->milp.row_start[i]; k < end; k++) {
            int32_t bit = 0;
            while (bit < 9 && ilp->r_col[bit] != ilp->milp.entry_col[k]) {
                bit++;
            }
            of_runs = of_runs && bit < 9;
            sum += of_runs && (runs >> bit & 1U) != 0 ? ilp->milp.entry_value[k] : 0.0;
        }
        hold = hold && (!of_runs || (sum >= ilp->milp.row_lower[i] - 1e-9 && sum <= ilp->milp.row_upper[i] + 1e-9));
    }
    return hold;
}

// Stages without a partition: everything runs, what may run once does so once, and a view of the network's input, which is always in
// memory, is read only once it has been made. Nothing is held when stage 0 begins. All 512 ways to run three operators in three stages.
static void runs_without_a_partition(void **state)
{
    (void)state;
    ckm_dataflow *df = NULL;
    static const ckm_dataflow_tensor tensors[] = {{.bytes = 4, .alias_of = -1},
                                                  {.alias_of = 0, .is_view = true},
                                                  {.bytes = 2, .alias_of = -1},
                                                  {.bytes = 1, .alias_of = -1}};
    assert_int_equal(ckm_dataflow_create("view", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    for (int32_t x = 0; x < 4; x++) {
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[x], NULL, NULL), CKM_OK);
    }
    for (int32_t v = 0; v < 3; v++) {
        int32_t out = v + 1;
        ckm_dataflow_op op = {
            .cost = 1, .run_once = v == 2, .n_inputs = 1, .inputs = &v, .n_outputs = 1, .outputs = &out};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, 3, NULL), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    ckm_i_ilp *ilp = model_of(df, 1000, CKM_FORMULATION_UNPARTITIONED);
    for (uint32_t runs = 0; runs < 512; runs++) {
        uint32_t of[3];  // of an operator: the stages it runs in
        for (uint32_t v = 0; v < 3; v++) {
            of[v] = (runs >> v & 1U) | (runs >> (3 + v) & 1U) << 1 | (runs >> (6 + v) & 1U) << 2;
        }
        bool once = of[2] == 1 || of[2] == 2 || of[2] == 4;
        bool made = of[0] != 0 && (of[1] & ((of[0] & -of[0]) - 1U)) == 0;
        bool fresh = (of[2] & 1U) == 0 || (of[1] & 1U) != 0;
        assert_int_equal(rows_hold(ilp, runs), of[0] != 0 && of[1] != 0 && once && made && fresh);
    }
    ckm_i_ilp_free(ilp);
    ckm_dataflow_free(df);
}

static void count_warnings(ckm_log_level level, const char *line, void *user)
{
    (void)line;
    *(int *)user += level == CKM_LOG_WARN;
}

// Whatever the engine says and however long it had: where something fits, that nothing does is not claimed.
static void what_is_proven_is_true(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    for (int64_t budget = 3; budget <= 5; budget++) {
        int n_warnings = 0;
        ckm_solve_options options = ckm_i_solve_options_usual();
        ckm_i_solver solver;
        options.log = count_warnings;
        options.user = &n_warnings;
        ckm_i_solver_init(&solver, df, &options, budget);
        assert_int_equal(ckm_i_ilp_run(&solver, INFINITY, NULL), CKM_OK);
        assert_int_equal(solver.infeasible, budget == 3);
        assert_true(budget != 3 || solver.infeasible_covers == CKM_BOUND_FRONTIER);
        assert_int_equal(solver.best_schedule != NULL, budget > 3);
        assert_true(budget == 3 || solver.best_cost == (budget == 4 ? 38 : 24));
        assert_int_equal(n_warnings, 0);
        ckm_i_solver_dispose(&solver);
    }
    ckm_dataflow_free(df);
}

// With a limit on the cost the program knows nothing of dearer schedules, so that nothing above the limit is proven of all.
static void a_limit_on_the_cost_limits_the_bound(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);  // at 5 bytes the optimum is 24
    for (int64_t limit = 20; limit <= 28; limit += 2) {
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = 5;
        options.strategy = "ilp";
        options.cost_limit = limit;
        assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
        assert_int_equal(result.status == CKM_SOLVE_INFEASIBLE, limit < 24);
        assert_int_equal(result.schedule != NULL, limit >= 24);
        assert_true(result.bound_cost <= 24.0 && result.bound_cost <= (double)limit + 1.0);
        assert_true(result.cost < 0 || result.cost <= limit);
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_of_the_tables),
        cmocka_unit_test(an_objective_says_what_the_cost_is),
        cmocka_unit_test(columns_are_what_a_stage_may_do),
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(samples_follow_the_values),
        cmocka_unit_test(runs_without_a_partition),
        cmocka_unit_test(what_is_proven_is_true),
        cmocka_unit_test(a_limit_on_the_cost_limits_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
