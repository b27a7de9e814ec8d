// SPDX-License-Identifier: Apache-2.0
// A search that begins with a schedule: random ones of every class, on graphs small and large enough for presolve to take
// operators away. What comes out is legal, fits, and costs no more.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <checkmate/solve.h>

#include "oracle_random.h"
#include "schedule/schedule_order.h"
#include "solve/core/solver.h"

enum { GRAPHS = 1000, MOST_PARTS = 40 };

// Random graphs side by side, as one; schedules of each, interleaved at random, are one of all. Operators keep the order
// within their part; over all, they rarely do.
typedef struct mixture {
    oracle_graph parts[MOST_PARTS];
    int32_t first_op[MOST_PARTS + 1], first_tensor[MOST_PARTS + 1];
    int32_t n_parts;
} mixture;

static void draw(ckm_i_rng *rng, int32_t n_parts, mixture *m)
{
    m->n_parts = n_parts;
    m->first_op[0] = m->first_tensor[0] = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        oracle_graph *g = &m->parts[i];
        oracle_random_graph(rng, 3, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, g);
        m->first_op[i + 1] = m->first_op[i] + g->n_ops;
        m->first_tensor[i + 1] = m->first_tensor[i] + g->n_tensors;
    }
}

static void shift(int32_t *to, const int32_t *from, int32_t n, int32_t by)
{
    for (int32_t i = 0; i < n; i++) {
        to[i] = from[i] + by;
    }
}

static void add_part(ckm_dataflow *df, const oracle_graph *g, int32_t first)
{
    for (int32_t x = 0; x < g->n_tensors; x++) {
        ckm_dataflow_tensor tensor = {
            .bytes = g->tensors[x].bytes,
            .alias_of = g->tensors[x].alias_of < 0 ? -1 : g->tensors[x].alias_of + first,
            .is_view = g->tensors[x].alias_of >= 0,
        };
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, NULL), CKM_OK);
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        oracle_op op = g->ops[v];
        shift(op.inputs, op.inputs, op.n_inputs, first);
        shift(op.outputs, op.outputs, op.n_outputs, first);
        shift(&op.pairs[0][0], &op.pairs[0][0], 2 * op.n_pairs, first);
        ckm_dataflow_op made = {
            .kind = CKM_OP_FORWARD,
            .cost = op.cost,
            .workspace_bytes = op.workspace_bytes,
            .run_once = !op.recomputable,
            .n_inputs = op.n_inputs,
            .n_outputs = op.n_outputs,
            .n_inplace = op.n_pairs,
            .inputs = op.inputs,
            .outputs = op.outputs,
            .inplace = (const int32_t(*)[2])op.pairs,
        };
        assert_int_equal(ckm_dataflow_add_op(df, &made, NULL, NULL), CKM_OK);
    }
    for (int32_t i = 0; i < g->n_results; i++) {
        assert_int_equal(ckm_dataflow_add_result(df, g->results[i] + first, NULL), CKM_OK);
    }
}

static ckm_dataflow *build(const mixture *m)
{
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("mixture", CKM_COST_FLOPS, 3, &df, NULL), CKM_OK);
    for (int32_t i = 0; i < m->n_parts; i++) {
        add_part(df, &m->parts[i], m->first_tensor[i]);
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    return df;
}

static ckm_schedule *interleaved(ckm_i_rng *rng, const mixture *m)
{
    ckm_schedule *own[MOST_PARTS];
    int64_t at[MOST_PARTS] = {0};
    int32_t left[MOST_PARTS];
    int32_t n_left = m->n_parts;
    ckm_schedule *s = NULL;
    assert_int_equal(ckm_schedule_create(&s, NULL), CKM_OK);
    for (int32_t i = 0; i < m->n_parts; i++) {
        own[i] = oracle_random_schedule(rng, &m->parts[i]);
        left[i] = i;
    }
    while (n_left > 0) {
        int32_t k = (int32_t)ckm_i_rng_below(rng, (uint32_t)n_left);
        int32_t i = left[k];
        if (at[i] == ckm_schedule_step_count(own[i])) {
            left[k] = left[--n_left];
            continue;
        }
        ckm_step step = ckm_schedule_get_step(own[i], at[i]++);
        int32_t pairs[ORACLE_MAX_OPERANDS][2];
        step.index += step.kind == CKM_STEP_COMPUTE ? m->first_op[i] : m->first_tensor[i];
        if (step.n_inplace > 0) {
            shift(&pairs[0][0], &step.inplace[0][0], 2 * step.n_inplace, m->first_tensor[i]);
            step.inplace = (const int32_t(*)[2])pairs;
        }
        assert_int_equal(ckm_schedule_append(s, &step, NULL), CKM_OK);
    }
    for (int32_t i = 0; i < m->n_parts; i++) {
        ckm_schedule_free(own[i]);
    }
    return s;
}

static void check(const ckm_dataflow *df, const ckm_schedule *start, int64_t budget_bytes, int64_t cost)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_verdict verdict;
    ckm_solve_result result;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 0.02;
    options.start = start;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    assert_non_null(result.schedule);
    assert_int_equal(ckm_schedule_verify(df, result.schedule, budget_bytes, &verdict, NULL), CKM_OK);
    assert_true(verdict.ok);
    assert_true(result.cost <= cost);
    ckm_solve_result_dispose(&result);
}

static void random_starts(void **state)
{
    (void)state;
    int64_t large = 0;
    int64_t any = 0;
    for (int64_t i = 0; i < oracle_scaled(GRAPHS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 7};
        mixture m;
        draw(&rng, i % 2 == 0 ? MOST_PARTS : 4, &m);
        ckm_dataflow *df = build(&m);
        ckm_schedule *start = interleaved(&rng, &m);
        ckm_simulation own;
        assert_int_equal(ckm_schedule_simulate(df, start, NULL, &own, NULL), CKM_OK);
        large += ckm_dataflow_op_count(df) > CKM_I_ILP_MAX_OPS;
        any += ckm_i_schedule_class(df, start) == CKM_BOUND_ANY;
        check(df, start, own.peak_bytes, own.cost);
        ckm_schedule_free(start);
        ckm_dataflow_free(df);
    }
    assert_true(large > oracle_scaled(GRAPHS) / 4);
    assert_true(any > oracle_scaled(GRAPHS) / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_starts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
