// SPDX-License-Identifier: Apache-2.0
// The dynamic programs for chains against brute force: all legal schedules of small chains with a backward pass are
// searched, recomputed gradients included. The bound is never above the optimum, and on chains of uniform size bound,
// schedule and optimum are the same for every budget, whatever the operators cost.
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_random.h"
#include "solve/chain/chain.h"

enum { MAX_LAYERS = 5, MAX_OPS = 2 * MAX_LAYERS + 1, MAX_READS = 4 };

// Which earlier values the backward operator of layer k reads in addition to the gradient.
typedef enum pattern { OUTPUT_AND_NEXT, OUTPUT, INPUT, INPUT_AND_OUTPUT, NOTHING_SOMETIMES, N_PATTERNS } pattern;

typedef struct chain {
    int32_t n_ops;  // layers, loss, layers backwards; operator v puts out tensor v
    int64_t cost[MAX_OPS], bytes[MAX_OPS], workspace[MAX_OPS];
    int32_t n_reads[MAX_OPS], reads[MAX_OPS][MAX_READS];
} chain;

static void read_value(chain *c, int32_t v, int32_t x)
{
    for (int32_t i = 0; i < c->n_reads[v]; i++) {
        if (c->reads[v][i] == x) {
            return;
        }
    }
    c->reads[v][c->n_reads[v]++] = x;
}

static chain make_chain(int32_t layers, pattern which, ckm_i_rng *rng)
{
    chain c = {.n_ops = 2 * layers + 1};
    for (int32_t v = 0; v < c.n_ops; v++) {
        c.cost[v] = c.bytes[v] = 1;
        if (v > 0) {
            read_value(&c, v, v - 1);
        }
        int32_t k = 2 * layers - v;  // the layer of a backward operator
        if (v <= layers) {
            continue;
        }
        bool some = which != NOTHING_SOMETIMES || ckm_i_rng_below(rng, 2) == 0;
        if (some && which != INPUT) {
            read_value(&c, v, k);
        }
        if (which == OUTPUT_AND_NEXT && k + 1 < layers) {
            read_value(&c, v, k + 1);
        }
        if ((which == INPUT || which == INPUT_AND_OUTPUT) && k > 0) {
            read_value(&c, v, k - 1);
        }
    }
    return c;
}

static ckm_dataflow *build(const chain *c)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < c->n_ops; v++) {
        ckm_dataflow_tensor tensor = {.bytes = c->bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {
            .kind = v < c->n_ops / 2    ? CKM_OP_FORWARD
                    : v == c->n_ops / 2 ? CKM_OP_LOSS
                                        : CKM_OP_BACKWARD,
            .cost = c->cost[v],
            .workspace_bytes = c->workspace[v],
            .inputs = c->reads[v],
            .n_inputs = c->n_reads[v],
            .outputs = &v,
            .n_outputs = 1,
        };
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, c->n_ops - 1, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

static int64_t bytes_of(const chain *c, uint32_t live)
{
    int64_t bytes = 0;
    for (int32_t v = 0; v < c->n_ops; v++) {
        bytes += (live >> v & 1) != 0 ? c->bytes[v] : 0;
    }
    return bytes;
}

static uint32_t operands(const chain *c, int32_t v)
{
    uint32_t set = 0;
    for (int32_t i = 0; i < c->n_reads[v]; i++) {
        set |= UINT32_C(1) << c->reads[v][i];
    }
    return set;
}

// Least cost over all sequences of computations and frees, -1 when none ends: label correcting over the sets of live
// tensors. That the result has been computed implies that everything has.
static int64_t optimum(const chain *c, int64_t budget)
{
    uint32_t n_states = UINT32_C(1) << c->n_ops;
    int64_t *least = malloc(n_states * sizeof *least);
    uint32_t *queue = malloc(n_states * sizeof *queue);
    unsigned char *queued = calloc(n_states, 1);
    assert_true(least != NULL && queue != NULL && queued != NULL);
    for (uint32_t s = 0; s < n_states; s++) {
        least[s] = INT64_MAX;
    }
    uint32_t head = 0;
    uint32_t count = 1;
    least[0] = 0;
    queue[0] = 0;
    while (count > 0) {
        uint32_t s = queue[head];
        head = (head + 1) % n_states;
        count--;
        queued[s] = 0;
        for (int32_t v = 0; v < c->n_ops; v++) {
            uint32_t bit = UINT32_C(1) << v;
            uint32_t next = s & ~bit;
            int64_t cost = least[s];
            if ((s & bit) == 0) {
                next = s | bit;
                cost += c->cost[v];
                if ((operands(c, v) & ~s) != 0 || bytes_of(c, next) + c->workspace[v] > budget) {
                    continue;
                }
            }
            if (cost < least[next]) {
                least[next] = cost;
                if (!queued[next]) {
                    queued[next] = 1;
                    queue[(head + count) % n_states] = next;
                    count++;
                }
            }
        }
    }
    int64_t found = least[UINT32_C(1) << (c->n_ops - 1)];
    free(least);
    free(queue);
    free(queued);
    return found == INT64_MAX ? -1 : found;
}

static void describe(const chain *c)
{
    for (int32_t v = 0; v < c->n_ops; v++) {
        print_message("  op %d: cost %lld, bytes %lld, workspace %lld, reads", (int)v, (long long)c->cost[v],
                      (long long)c->bytes[v], (long long)c->workspace[v]);
        for (int32_t i = 0; i < c->n_reads[v]; i++) {
            print_message(" %d", (int)c->reads[v][i]);
        }
        print_message("\n");
    }
}

// How often the bound was the optimum.
typedef struct tally {
    int64_t budgets, bound_is_exact, schedule_is_exact;
} tally;

// Everything that strategy chain says about one chain at every budget from below the floor to the peak.
static void check(const chain *c, tally *t)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = build(c);
    ckm_i_spine spine;
    assert_int_equal(ckm_i_spine_find(df, &spine, &err), CKM_OK);
    int64_t all = bytes_of(c, (UINT32_C(1) << c->n_ops) - 1);
    int64_t before = INT64_MAX;
    for (int64_t budget = ckm_dataflow_memory_floor(df) - 1; budget <= all; budget++) {
        int64_t least = optimum(c, budget);
        int64_t bound = 0;
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        assert_int_equal(ckm_i_chain_bound(df, &spine, budget, CKM_I_CHAIN_WORK, &bound, &err), CKM_OK);
        // With no time there are few levels of memory: a weaker bound, never a wrong one.
        int64_t hasty = 0;
        assert_int_equal(ckm_i_chain_bound(df, &spine, budget, 0, &hasty, &err), CKM_OK);
        assert_true(hasty <= bound && hasty >= df->total_cost);
        options.budget_bytes = budget;
        options.strategy = "chain";
        assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_OK);
        bool wrong = (least >= 0 && bound > least) || (result.schedule != NULL && result.cost < least) ||
                     (result.schedule != NULL && least < 0) || (result.status == CKM_SOLVE_INFEASIBLE && least >= 0) ||
                     (result.status == CKM_SOLVE_OPTIMAL && (double)result.cost > (double)least * 1.0001) ||
                     bound > before;
        if (wrong) {
            describe(c);
            fail_msg("budget %lld: optimum %lld, bound %lld, schedule %lld", (long long)budget, (long long)least,
                     (long long)bound, (long long)result.cost);
        }
        before = bound;
        t->budgets += least >= 0;
        t->bound_is_exact += least >= 0 && bound == least;
        t->schedule_is_exact += least >= 0 && result.cost == least;
        ckm_solve_result_dispose(&result);
    }
    ckm_i_spine_dispose(&spine);
    ckm_dataflow_free(df);
}

// One size for all values, any costs: bound = schedule = optimum.
static void uniform_sizes(void **state)
{
    (void)state;
    ckm_i_rng rng = {0};
    tally t = {0, 0, 0};
    rng.state = 1;
    for (int64_t i = 0; i < oracle_scaled(60); i++) {
        int32_t layers = 1 + (int32_t)ckm_i_rng_below(&rng, MAX_LAYERS);
        chain c = make_chain(layers, OUTPUT_AND_NEXT, &rng);
        int64_t size = 1 + (int64_t)ckm_i_rng_below(&rng, 2);
        for (int32_t v = 0; v < c.n_ops; v++) {
            c.cost[v] = i == 0 ? 1 : (int64_t)ckm_i_rng_below(&rng, 8);
            c.bytes[v] = size;
        }
        check(&c, &t);
    }
    assert_true(t.budgets > 0);
    assert_int_equal(t.bound_is_exact, t.budgets);
    assert_int_equal(t.schedule_is_exact, t.budgets);
}

// Any sizes, workspace, and ways to read: never a wrong claim, and often a sharp one.
static void any_chain(void **state)
{
    (void)state;
    ckm_i_rng rng = {0};
    tally t = {0, 0, 0};
    rng.state = 2;
    for (int64_t i = 0; i < oracle_scaled(120); i++) {
        int32_t layers = 1 + (int32_t)ckm_i_rng_below(&rng, MAX_LAYERS);
        chain c = make_chain(layers, (pattern)ckm_i_rng_below(&rng, N_PATTERNS), &rng);
        bool roomy = ckm_i_rng_below(&rng, 2) == 0;
        for (int32_t v = 0; v < c.n_ops; v++) {
            c.cost[v] = (int64_t)ckm_i_rng_below(&rng, 6);
            c.bytes[v] = (int64_t)ckm_i_rng_below(&rng, 4);
            c.workspace[v] = roomy ? 0 : (int64_t)ckm_i_rng_below(&rng, 3);
        }
        check(&c, &t);
    }
    print_message("any chain: %lld budgets, bound exact at %lld, schedule at %lld\n", (long long)t.budgets,
                  (long long)t.bound_is_exact, (long long)t.schedule_is_exact);
    assert_true(t.bound_is_exact > t.budgets / 2);
    assert_true(t.schedule_is_exact > t.budgets / 2);
}

// Costs beyond what doubles count exactly: rounded, never upwards.
static void huge_costs(void **state)
{
    (void)state;
    ckm_i_rng rng = {0};
    tally t = {0, 0, 0};
    rng.state = 3;
    for (int64_t i = 0; i < oracle_scaled(20); i++) {
        chain c = make_chain(4, OUTPUT_AND_NEXT, &rng);
        for (int32_t v = 0; v < c.n_ops; v++) {
            c.cost[v] = INT64_C(300000000000000000) + (int64_t)ckm_i_rng_below(&rng, 1000);
            c.cost[v] /= i % 2 == 0 ? 1 : 300;
        }
        check(&c, &t);
    }
    assert_true(t.budgets > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_sizes),
        cmocka_unit_test(any_chain),
        cmocka_unit_test(huge_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
