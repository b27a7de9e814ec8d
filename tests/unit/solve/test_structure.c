// SPDX-License-Identifier: Apache-2.0
// What solvers ask of a graph: scales by hand, the rest by a plain search on random graphs.
#include "solve/core/structure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle_random.h"

static ckm_dataflow *line_of(const int64_t *costs, const int64_t *bytes, int32_t n)
{
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("line", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    for (int32_t v = 0; v < n; v++) {
        int32_t before = v - 1;
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {.cost = costs[v], .n_inputs = v > 0, .inputs = &before, .n_outputs = 1, .outputs = &v};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, NULL), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    return df;
}

static void expect_cost_scale(int64_t a, int64_t b, double scale, int64_t cost_gcd)
{
    ckm_dataflow *df = line_of((const int64_t[]){a, b}, (const int64_t[]){1, 1}, 2);
    int64_t gcd = -1;
    assert_true(ckm_i_cost_scale(df, &gcd) == scale);
    assert_int_equal(gcd, cost_gcd);
    ckm_dataflow_free(df);
}

static void scales(void **state)
{
    (void)state;
    assert_int_equal(ckm_i_gcd(12, 18), 6);
    assert_int_equal(ckm_i_gcd(0, 5), 5);
    assert_int_equal(ckm_i_gcd(7, 0), 7);
    expect_cost_scale(6, 10, 2.0, 2);
    expect_cost_scale(0, 0, 1.0, 1);
    expect_cost_scale(30000000, 10000000, 1e7, 10000000);
    expect_cost_scale(1, 9999999, 1.0, 1);
    expect_cost_scale(1, 19999999, 2.0, 1);
    expect_cost_scale(3, 59999997, 6.0, 3);
    assert_true(ckm_i_row_scale(0) == 1.0);
    assert_true(ckm_i_row_scale(10000) == 1.0);
    assert_true(ckm_i_row_scale(10001) == 2.0);
    assert_true(ckm_i_row_scale(20001) == 4.0);
    static const struct {
        int64_t bytes[2];
        double scale;
    } rows[] = {{{0, 0}, 1.0},     {{6, 9}, 3.0},      {{6, 30000}, 6.0},
                {{6, 60000}, 6.0}, {{6, 60006}, 12.0}, {{40004, 8}, 8.0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ckm_dataflow *df = line_of((const int64_t[]){1, 1}, rows[i].bytes, 2);
        assert_true(ckm_i_byte_scale(df) == rows[i].scale);
        ckm_dataflow_free(df);
    }
}

static int32_t storage_of(const oracle_graph *g, int32_t x)
{
    return g->tensors[x].alias_of >= 0 ? g->tensors[x].alias_of : x;
}

static int32_t producer_of(const oracle_graph *g, int32_t x)
{
    for (int32_t v = 0; v < g->n_ops; v++) {
        for (int32_t i = 0; i < g->ops[v].n_outputs; i++) {
            if (g->ops[v].outputs[i] == x) {
                return v;
            }
        }
    }
    return -1;
}

static bool reads(const oracle_graph *g, int32_t v, int32_t x)
{
    for (int32_t i = 0; i < g->ops[v].n_inputs; i++) {
        if (g->ops[v].inputs[i] == x) {
            return true;
        }
    }
    return false;
}

static bool is_result(const oracle_graph *g, int32_t x)
{
    for (int32_t i = 0; i < g->n_results; i++) {
        if (g->results[i] == x) {
            return true;
        }
    }
    return false;
}

// The largest operator that v leads to, by following every edge.
static int32_t leads_to(const oracle_graph *g, int32_t v)
{
    int32_t last = v;
    for (int32_t i = 0; i < g->ops[v].n_outputs; i++) {
        int32_t x = g->ops[v].outputs[i];
        last = is_result(g, x) ? g->n_ops : last;
        for (int32_t u = v + 1; u < g->n_ops; u++) {
            int32_t end = reads(g, u, x) ? leads_to(g, u) : -1;
            last = end > last ? end : last;
        }
    }
    return last;
}

static int32_t last_use_of(const oracle_graph *g, int32_t storage)
{
    int32_t last = -1;
    for (int32_t x = 0; x < g->n_tensors; x++) {
        for (int32_t v = 0; v < g->n_ops && storage_of(g, x) == storage; v++) {
            last = reads(g, v, x) && v > last ? v : last;
        }
        last = storage_of(g, x) == storage && is_result(g, x) ? g->n_ops : last;
    }
    return last;
}

// Whether the storage holds an input of the network.
static bool is_pinned(const oracle_graph *g, int32_t storage)
{
    for (int32_t x = 0; x < g->n_tensors; x++) {
        if (storage_of(g, x) == storage && producer_of(g, x) < 0) {
            return true;
        }
    }
    return false;
}

static void facts_of_random_graphs(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 41};
    int32_t n_views = 0;
    for (int round = 0; round < 400; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        int32_t need[ORACLE_MAX_OPS];
        int32_t use[ORACLE_MAX_TENSORS];
        int32_t views[ORACLE_MAX_TENSORS];
        bool any = false;
        ckm_i_last_need(df, need);
        ckm_i_last_use(df, use);
        ckm_i_find_views(df, views);
        for (int32_t v = 0; v < g.n_ops; v++) {
            assert_int_equal(need[v], leads_to(&g, v));
        }
        for (int32_t x = 0; x < g.n_tensors; x++) {
            int32_t maker = producer_of(&g, x);
            bool view = false;
            assert_int_equal(use[x], g.tensors[x].alias_of < 0 ? last_use_of(&g, x) : -1);
            for (int32_t i = 0; maker >= 0 && !is_pinned(&g, storage_of(&g, x)) && i < g.ops[maker].n_inputs; i++) {
                view = view || storage_of(&g, g.ops[maker].inputs[i]) == storage_of(&g, x);
            }
            assert_int_equal(views[x] >= 0, view);
            assert_true(!view || (reads(&g, maker, views[x]) && storage_of(&g, views[x]) == storage_of(&g, x)));
            any = any || view;
            n_views += view;
        }
        assert_int_equal(ckm_i_has_views(df), any);
        ckm_dataflow_free(df);
    }
    assert_true(n_views > 50);
}

// Each storage once, inputs of the network not at all, workspace, and pairs off: few operands and many. The last of `n` inputs is the
// first again, and the one before it is the network's.
static void working_sets(void **state)
{
    (void)state;
    enum { MOST = 40 };
    for (int32_t n = 3; n <= MOST; n++) {
        for (int32_t n_pairs = 0; n_pairs < 2; n_pairs++) {
            ckm_dataflow *df = NULL;
            int32_t inputs[MOST];
            int64_t bytes = 1000 + 7;
            assert_int_equal(ckm_dataflow_create("wide", CKM_COST_FLOPS, 500, &df, NULL), CKM_OK);
            for (int32_t i = 0; i < n - 1; i++) {
                int32_t before = i > 0 && i < n - 2 ? i - 1 : -1;
                ckm_dataflow_tensor tensor = {.bytes = 10 + i, .alias_of = -1};
                ckm_dataflow_op op = {
                    .cost = 1, .n_inputs = before >= 0, .inputs = &before, .n_outputs = 1, .outputs = &i};
                assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &inputs[i], NULL), CKM_OK);
                if (i < n - 2) {
                    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
                    bytes += 10 + i;
                }
            }
            inputs[n - 1] = inputs[0];
            int32_t out = n - 1;
            int32_t v = -1;
            const int32_t pair[1][2] = {{inputs[0], out}};
            ckm_dataflow_tensor tensor = {.bytes = 7, .alias_of = -1};
            ckm_dataflow_op op = {.cost = 1,
                                  .workspace_bytes = 1000,
                                  .n_inputs = n,
                                  .inputs = inputs,
                                  .n_outputs = 1,
                                  .outputs = &out,
                                  .n_inplace = n_pairs,
                                  .inplace = pair};
            assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, NULL), CKM_OK);
            assert_int_equal(ckm_dataflow_add_op(df, &op, &v, NULL), CKM_OK);
            assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
            assert_int_equal(ckm_i_working_set(df, v), bytes - (n_pairs > 0 ? 7 : 0));
            ckm_dataflow_free(df);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scales),
        cmocka_unit_test(facts_of_random_graphs),
        cmocka_unit_test(working_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
