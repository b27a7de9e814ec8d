// SPDX-License-Identifier: Apache-2.0
// Prices of cuts: worked out by hand, and on random graphs by sorting what lives at every place anew.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_random.h"
#include "solve/bounds/cut_points.h"
#include "solve/core/structure.h"

// Three tensors of 4, 2 and 1 bytes at costs of 8, 2 and 5, all read by a fourth operator, one after the other.
static void by_hand(void **state)
{
    (void)state;
    const int64_t bytes[] = {4, 2, 1, 1};
    const int64_t costs[] = {8, 2, 5, 1};
    const int32_t reads[] = {0, 1, 2};
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("three", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    for (int32_t v = 0; v < 4; v++) {
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        int32_t made = -1;
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &made, NULL), CKM_OK);
        ckm_dataflow_op op = {
            .cost = costs[v], .inputs = reads, .n_inputs = v == 3 ? 3 : 0, .outputs = &made, .n_outputs = 1};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    double prices[4];
    // While the third runs, six bytes are held in addition to its own. The second's cost 1 a byte, the first's 2.
    assert_int_equal(ckm_i_cut_prices(df, 6, prices, NULL), CKM_OK);
    assert_true(prices[0] == 0.0 && prices[1] == 0.0 && prices[2] == 1.0 && prices[3] == 0.0);
    assert_int_equal(ckm_i_cut_prices(df, 3, prices, NULL), CKM_OK);
    assert_true(prices[0] == 0.0 && prices[1] == 6.0 && prices[2] == 6.0);
    assert_int_equal(ckm_i_cut_prices(df, 100, prices, NULL), CKM_OK);
    assert_true(prices[0] == 0.0 && prices[1] == 0.0 && prices[2] == 0.0 && prices[3] == 0.0);
    ckm_dataflow_free(df);
}

static bool touches(const ckm_dataflow *df, int32_t v, int32_t storage)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        if (df->tensors[x].storage == storage) {
            return true;
        }
    }
    return false;
}

// Whether something on the storage has been made before v.
static bool is_there(const ckm_dataflow *df, int32_t storage, int32_t v)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].storage == storage && df->tensors[x].producer >= 0 && df->tensors[x].producer < v) {
            return true;
        }
    }
    return false;
}

static double cost_of(const ckm_dataflow *df, int32_t x)
{
    const ckm_i_dataflow_op *op = &df->ops[df->tensors[x].producer];
    return op->recomputable ? (double)op->cost : (double)df->total_cost;
}

// The same by its definition: the cheapest per byte of what waits goes, again and again.
static double plainly(const ckm_dataflow *df, int64_t budget, int32_t v)
{
    double room = (double)(budget - df->resident_bytes - ckm_i_working_set(df, v));
    bool *waits = calloc((size_t)df->n_tensors, sizeof *waits);
    assert_non_null(waits);
    double excess = -room;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        const ckm_i_dataflow_tensor *owner = &df->tensors[tensor->storage];
        bool later = tensor->is_result || (tensor->n_users > 0 && tensor->users[tensor->n_users - 1] > v);
        if (later && owner->producer >= 0 && !owner->pinned && is_there(df, tensor->storage, v) &&
            !touches(df, v, tensor->storage) && !waits[tensor->storage]) {
            waits[tensor->storage] = true;
            excess += (double)owner->bytes;
        }
    }
    double price = 0.0;
    while (excess > 0.0) {
        int32_t best = -1;
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (waits[x] && df->tensors[x].bytes > 0 &&
                (best < 0 ||
                 cost_of(df, x) * (double)df->tensors[best].bytes < cost_of(df, best) * (double)df->tensors[x].bytes)) {
                best = x;
            }
        }
        if (best < 0) {
            break;
        }
        double bytes = fmin((double)df->tensors[best].bytes, excess);
        price += bytes * cost_of(df, best) / (double)df->tensors[best].bytes;
        excess -= bytes;
        waits[best] = false;
    }
    free(waits);
    return price;
}

static void as_defined(void **state)
{
    (void)state;
    ckm_i_rng rng = {18};
    int above = 0;
    for (int i = 0; i < 4000; i++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        double *prices = malloc((size_t)df->n_ops * sizeof *prices);
        assert_non_null(prices);
        for (int64_t budget = df->floor_bytes; budget < df->floor_bytes + 40; budget += 7) {
            assert_int_equal(ckm_i_cut_prices(df, budget, prices, NULL), CKM_OK);
            for (int32_t v = 0; v < df->n_ops; v++) {
                double expected = plainly(df, budget, v);
                assert_true(fabs(prices[v] - expected) <= 1e-9 * (1.0 + expected));
                above += expected > 0.0;
            }
        }
        free(prices);
        ckm_dataflow_free(df);
    }
    assert_true(above > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(as_defined)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
