// SPDX-License-Identifier: Apache-2.0
// Facts of schedules: counted by hand on a small one, held against simpler readings on random ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include <checkmate/emit.h>

#include "emit/emit_matrices.h"
#include "emit/emit_maximum.h"
#include "oracle_random.h"

static void test_maximum(void **state)
{
    (void)state;
    int64_t values[37];
    ckm_i_maximum m;
    ckm_error err;
    for (int i = 0; i < 37; i++) {
        values[i] = (i * 29 + 7) % 13;
    }
    for (int n = 1; n <= 37; n++) {
        assert_int_equal(ckm_i_maximum_init(&m, values, n, &err), CKM_OK);
        for (int first = 0; first < n; first++) {
            int best = first;
            for (int last = first; last < n; last++) {
                best = values[last] > values[best] ? last : best;
                assert_int_equal(ckm_i_maximum_at(&m, first, last), best);
            }
        }
        ckm_i_maximum_dispose(&m);
    }
}

static int32_t add_tensor(ckm_dataflow *df, const char *name, int64_t bytes)
{
    ckm_dataflow_tensor tensor = {.name = name, .bytes = bytes};
    int32_t index;
    ckm_error err;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_OK);
    return index;
}

static void add_op(ckm_dataflow *df, const char *name, ckm_op_kind kind, int64_t cost, int32_t a, int32_t b,
                   int32_t out)
{
    int32_t inputs[2] = {a, b};
    ckm_error err;
    ckm_dataflow_op op = {.name = name,
                          .kind = kind,
                          .cost = cost,
                          .n_inputs = b >= 0 ? 2 : 1,
                          .n_outputs = 1,
                          .inputs = inputs,
                          .outputs = &out};
    if (kind == CKM_OP_LOSS) {
        op.workspace_bytes = 3;
    }
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
}

static void compute(ckm_schedule *s, int32_t op)
{
    ckm_step step = {CKM_STEP_COMPUTE, op, 0, NULL};
    ckm_error err;
    assert_int_equal(ckm_schedule_append(s, &step, &err), CKM_OK);
}

static void release(ckm_schedule *s, int32_t tensor)
{
    ckm_step step = {CKM_STEP_FREE, tensor, 0, NULL};
    ckm_error err;
    assert_int_equal(ckm_schedule_append(s, &step, &err), CKM_OK);
}

// x (100, input) -> a (10) -> b (20) -> loss (1, workspace 3) -> gb (20) -> ga (10), which also reads a; fixed 1000.
// a is freed after b and computed again for ga.
static void test_by_hand(void **state)
{
    (void)state;
    ckm_dataflow *df = NULL;
    ckm_schedule *s = NULL;
    ckm_emit_facts *f = NULL;
    ckm_error err;
    assert_int_equal(ckm_dataflow_create("g", CKM_COST_FLOPS, 1000, &df, &err), CKM_OK);
    int32_t x = add_tensor(df, "x", 100);
    int32_t a = add_tensor(df, "a", 10);
    int32_t b = add_tensor(df, "b", 20);
    int32_t loss = add_tensor(df, "loss", 1);
    int32_t gb = add_tensor(df, "gb", 20);
    int32_t ga = add_tensor(df, "ga", 10);
    add_op(df, "a", CKM_OP_FORWARD, 7, x, -1, a);
    add_op(df, "b", CKM_OP_FORWARD, 5, a, -1, b);
    add_op(df, "loss", CKM_OP_LOSS, 1, b, -1, loss);
    add_op(df, "gb", CKM_OP_BACKWARD, 2, loss, b, gb);
    add_op(df, "ga", CKM_OP_BACKWARD, 3, gb, a, ga);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_schedule_create(&s, &err), CKM_OK);
    compute(s, 0);
    compute(s, 1);
    release(s, a);
    compute(s, 2);
    compute(s, 3);
    release(s, loss);
    release(s, b);
    compute(s, 0);
    compute(s, 4);
    assert_int_equal(ckm_emit_facts_create(df, s, &f, &err), CKM_OK);

    assert_int_equal(f->n_moments, 6);
    static const int64_t bytes[] = {1110, 1130, 1124, 1141, 1130, 1140};
    static const int32_t ops[] = {0, 1, 2, 3, 0, 4};
    for (int m = 0; m < 6; m++) {
        assert_int_equal(f->moments[m].bytes, bytes[m]);
        assert_int_equal(f->moments[m].op, ops[m]);
        assert_int_equal(f->moments[m].execution, m == 4 ? 1 : 0);
        assert_int_equal(f->moments[m].class_bytes[CKM_EMIT_FIXED], 1000);
        assert_int_equal(f->moments[m].class_bytes[CKM_EMIT_INPUT], 100);
    }
    assert_int_equal(f->moments[2].class_bytes[CKM_EMIT_WORKSPACE], 3);
    assert_int_equal(f->moments[3].class_bytes[CKM_EMIT_KEPT], 21);  // b and the loss
    assert_int_equal(f->moments[3].class_bytes[CKM_EMIT_GRADIENT], 20);
    assert_int_equal(f->moments[1].class_bytes[CKM_EMIT_PASSING], 10);
    assert_int_equal(f->moments[4].class_bytes[CKM_EMIT_RECOMPUTED], 10);
    assert_int_equal(f->peak_moment, 3);
    assert_int_equal(f->turn_moment, 3);
    assert_int_equal(f->cost, 25);
    assert_int_equal(f->baseline_cost, 18);
    assert_int_equal(f->baseline_peak_bytes, 1151);
    assert_int_equal(f->baseline_peak_op, 3);

    assert_int_equal(f->n_recomputes, 1);
    assert_int_equal(f->n_recomputed_ops, 1);
    const ckm_emit_recompute *r = &f->recomputes[0];
    assert_int_equal(r->op, 0);
    assert_int_equal(r->moment, 4);
    assert_int_equal(r->tensor, a);
    assert_int_equal(r->freed_bytes, 10);
    assert_int_equal(r->gone_first, 2);
    assert_int_equal(r->gone_last, 3);
    assert_int_equal(r->fullest, 3);
    assert_int_equal(r->held_bytes, 1151);
    assert_int_equal(r->for_op, 4);
    assert_int_equal(r->for_moment, 5);
    assert_int_equal(f->ops[0].executions, 2);
    assert_int_equal(f->ops[0].extra_cost, 7);
    assert_int_equal(f->ops[0].what, CKM_EMIT_RECOMPUTED);
    assert_int_equal(f->ops[1].what, CKM_EMIT_KEPT);
    assert_int_equal(f->ops[4].what, CKM_EMIT_GRADIENT);

    // Stages 0..4; a runs in stages 0 and 4; b is held into stages 2 and 3.
    ckm_i_matrices m;
    assert_int_equal(ckm_i_matrices_create(f, &m, &err), CKM_OK);
    assert_int_equal(m.stage[4], 4);
    assert_int_equal(m.stage[5], 4);
    bool found = false;
    for (int32_t i = 0; i < m.n_held; i++) {
        if (m.held[i].column == 1) {
            assert_int_equal(m.held[i].first, 2);
            assert_int_equal(m.held[i].last, 3);
            found = true;
        }
        assert_true(m.held[i].column != 0 || m.held[i].last <= 1);
    }
    assert_true(found);
    ckm_i_matrices_dispose(&m);
    ckm_emit_facts_free(f);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

// The schedule without its free of tensor t between two steps; NULL when there is none.
static ckm_schedule *hold(const ckm_schedule *s, int32_t t, int64_t after, int64_t before)
{
    ckm_schedule *copy = NULL;
    ckm_error err;
    bool dropped = false;
    assert_int_equal(ckm_schedule_create(&copy, &err), CKM_OK);
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        if (i > after && i < before && step.kind == CKM_STEP_FREE && step.index == t) {
            dropped = true;
        } else {
            assert_int_equal(ckm_schedule_append(copy, &step, &err), CKM_OK);
        }
    }
    if (!dropped) {
        ckm_schedule_free(copy);
        return NULL;
    }
    return copy;
}

static bool has_views(const ckm_dataflow *df, int32_t t)
{
    for (int32_t i = 0; i < ckm_dataflow_tensor_count(df); i++) {
        if (ckm_dataflow_get_tensor(df, i).alias_of == t) {
            return true;
        }
    }
    return false;
}

// What a recomputation is said to have avoided is what a schedule that holds the tensor instead would need.
static int check_held(const ckm_dataflow *df, const ckm_schedule *s, const ckm_emit_facts *f,
                      const ckm_emit_recompute *r)
{
    ckm_error err;
    ckm_simulation simulation;
    if (r->fullest < 0 || has_views(df, r->tensor)) {
        return 0;
    }
    int64_t end = f->moments[r->gone_first].step;
    ckm_schedule *held = hold(s, r->tensor, f->moments[r->gone_first - 1].step, end);
    if (held == NULL) {
        return 0;  // another took its place
    }
    int64_t *timeline = calloc((size_t)ckm_schedule_step_count(held), sizeof *timeline);
    assert_non_null(timeline);
    int checked = 0;
    if (ckm_schedule_simulate(df, held, timeline, &simulation, &err) == CKM_OK) {
        assert_int_equal(timeline[f->moments[r->fullest].step - 1], r->held_bytes);
        for (int64_t m = r->gone_first; m <= r->gone_last; m++) {
            assert_true(timeline[f->moments[m].step - 1] <= r->held_bytes);
        }
        checked = 1;
    }
    free(timeline);
    ckm_schedule_free(held);
    return checked;
}

static void check_reader(const ckm_dataflow *df, const ckm_emit_facts *f, const ckm_emit_recompute *r)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(df, r->op);
    bool open[ORACLE_MAX_OPERANDS] = {true, true, true, true};
    for (int64_t m = r->moment + 1; m < f->n_moments; m++) {
        ckm_dataflow_op other = ckm_dataflow_get_op(df, f->moments[m].op);
        for (int32_t i = 0; i < other.n_inputs; i++) {
            for (int32_t k = 0; k < op.n_outputs; k++) {
                if (open[k] && other.inputs[i] == op.outputs[k]) {
                    assert_int_equal(r->for_moment, m);
                    assert_int_equal(r->for_op, f->moments[m].op);
                    return;
                }
            }
        }
        for (int32_t k = 0; k < op.n_outputs; k++) {
            open[k] = open[k] && ckm_dataflow_producer(df, op.outputs[k]) != f->moments[m].op;
        }
    }
    assert_int_equal(r->for_op, -1);
}

static void test_random(void **state)
{
    (void)state;
    ckm_i_rng rng = {11};
    int64_t held = 0;
    int64_t again = 0;
    int64_t n = oracle_scaled(3000);
    for (int64_t i = 0; i < n; i++) {
        oracle_graph g;
        ckm_error err = CKM_ERROR_INIT;
        ckm_emit_facts *f = NULL;
        oracle_random_graph(&rng, 2, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_schedule *s = oracle_random_schedule(&rng, &g);
        if (ckm_emit_facts_create(df, s, &f, &err) != CKM_OK) {
            fail_msg("%s", err.message);  // among others: the classes do not add up to what the simulator counts
        }
        int64_t extra = 0;
        for (int32_t v = 0; v < g.n_ops; v++) {
            extra += f->ops[v].extra_cost;
        }
        assert_int_equal(f->cost - f->baseline_cost, extra);
        assert_int_equal(f->moments[f->peak_moment].bytes, f->peak_bytes);
        for (int32_t k = 0; k < f->n_recomputes; k++) {
            held += check_held(df, s, f, &f->recomputes[k]);
            check_reader(df, f, &f->recomputes[k]);
            again++;
        }
        ckm_emit_facts_free(f);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(again > n);
    assert_true(held > n / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maximum),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
