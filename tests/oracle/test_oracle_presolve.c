// SPDX-License-Identifier: Apache-2.0
// Presolve against brute force: the reduced problem has the same optimum, and schedules mapped in either direction are
// legal, as cheap and within the budget.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "schedule/schedule_order.h"
#include "solve/presolve/presolve.h"

// What was reduced, so that a test in which nothing happens fails.
typedef struct tally {
    int64_t problems, small, dead, views, merged, units, optima, mapped_back, mapped_forward, better;
} tally;

// The reduced graph as brute force wants it. False when it is too wide for that.
static bool to_oracle(const ckm_dataflow *df, oracle_graph *g)
{
    *g = (oracle_graph){.fixed_bytes = df->fixed_bytes};
    g->n_tensors = df->n_tensors;
    g->n_ops = df->n_ops;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        g->tensors[x] = (oracle_tensor){.bytes = df->tensors[x].bytes, .alias_of = df->tensors[x].alias_of};
        if (df->tensors[x].is_result) {
            g->results[g->n_results++] = x;
        }
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *from = &df->ops[v];
        oracle_op *op = &g->ops[v];
        op->cost = from->cost;
        op->workspace_bytes = from->workspace_bytes;
        op->recomputable = from->recomputable;
        op->n_inputs = from->n_inputs;
        op->n_outputs = from->n_outputs;
        op->n_pairs = from->n_inplace;
        if (op->n_inputs > ORACLE_MAX_OPERANDS || op->n_outputs > ORACLE_MAX_OPERANDS) {
            return false;
        }
        if (op->n_inputs > 0) {
            memcpy(op->inputs, from->inputs, (size_t)op->n_inputs * sizeof *op->inputs);
        }
        if (op->n_outputs > 0) {
            memcpy(op->outputs, from->outputs, (size_t)op->n_outputs * sizeof *op->outputs);
        }
        if (op->n_pairs > 0) {
            memcpy(op->pairs, from->inplace, (size_t)op->n_pairs * sizeof *op->pairs);
        }
    }
    return true;
}

static void complain(const oracle_graph *g, const oracle_graph *reduced, int64_t budget, const ckm_i_presolve *p,
                     const ckm_schedule *s, const char *what, int64_t is, int64_t expected)
{
    fail_msg("budget %lld, reduced to %lld in units of %lld: %s: %lld, expected %lld\n%s\nreduced\n%s",
             (long long)budget, (long long)p->budget_bytes, (long long)p->unit_bytes, what, (long long)is,
             (long long)expected, oracle_describe(g, s), oracle_describe(reduced, NULL));
}

static bool at_most(int64_t a, int64_t b)
{
    return b < 0 || (a >= 0 && a <= b);
}

// Optima, -1 for infeasible.
static void compare_optima(const oracle_graph *g, const oracle_graph *reduced, int64_t budget, const ckm_i_presolve *p,
                           tally *t)
{
    int64_t order = oracle_optimum(g, ORACLE_ORDER, budget);
    int64_t any = oracle_optimum(g, ORACLE_ANY, budget);
    int64_t order_reduced = oracle_optimum(reduced, ORACLE_ORDER, p->budget_bytes);
    int64_t any_reduced = oracle_optimum(reduced, ORACLE_ANY, p->budget_bytes);
    t->optima++;
    t->better += order_reduced != order;
    if (!at_most(order_reduced, order)) {
        complain(g, reduced, budget, p, NULL, "optimum of those that keep the order", order_reduced, order);
    }
    if (!at_most(any_reduced, any)) {
        complain(g, reduced, budget, p, NULL, "optimum of all", any_reduced, any);
    }
    // A view may be made before its place in the order; nothing else may gain.
    if (p->n_views == 0 && order_reduced != order) {
        complain(g, reduced, budget, p, NULL, "optimum of those that keep the order is another", order_reduced, order);
    }
    if (!at_most(any, order_reduced)) {
        complain(g, reduced, budget, p, NULL, "optimum of those that keep the order is too good", order_reduced, any);
    }
    if (p->n_views + p->n_merged == 0) {
        int64_t frontier = oracle_optimum(g, ORACLE_FRONTIER, budget);
        int64_t frontier_reduced = oracle_optimum(reduced, ORACLE_FRONTIER, p->budget_bytes);
        if (frontier != frontier_reduced) {
            complain(g, reduced, budget, p, NULL, "optimum by stages", frontier_reduced, frontier);
        }
    }
}

// Every operator for the first time in order, in between some of them again. Producers come first, so it is legal.
static ckm_schedule *random_sequence(ckm_i_rng *rng, const ckm_dataflow *df)
{
    int32_t order[4 * ORACLE_MAX_OPS];
    int32_t n = 0;
    ckm_schedule *s = NULL;
    for (int32_t v = 0; v < df->n_ops; v++) {
        for (uint32_t again = ckm_i_rng_below(rng, 3); again > 0 && v > 0; again--) {
            int32_t u = (int32_t)ckm_i_rng_below(rng, (uint32_t)v);
            if (df->ops[u].recomputable) {
                order[n++] = u;
            }
        }
        order[n++] = v;
    }
    assert_int_equal(ckm_i_schedule_from_order(df, order, n, &s, NULL), CKM_OK);
    return s;
}

// In direction `back` or forward. The budget is what a random schedule needs, or little more, so that it matters.
static void check_mapping(ckm_i_rng *rng, const oracle_graph *g, const oracle_graph *reduced, int64_t budget,
                          const ckm_i_presolve *p, bool back, tally *t)
{
    const ckm_dataflow *from = back ? p->reduced : p->original;
    const ckm_dataflow *to = back ? p->original : p->reduced;
    int64_t from_budget = back ? p->budget_bytes : budget;
    int64_t to_budget = back ? budget : p->budget_bytes;
    ckm_schedule *s = random_sequence(rng, from);
    ckm_schedule *mapped = NULL;
    ckm_simulation facts;
    ckm_verdict verdict;
    assert_int_equal(ckm_schedule_simulate(from, s, NULL, &facts, NULL), CKM_OK);
    ckm_status status = back ? ckm_i_presolve_map_back(p, s, &mapped, NULL)
                             : ckm_i_presolve_map_forward(p, s, &mapped, NULL);
    assert_int_equal(status, CKM_OK);
    assert_int_equal(ckm_schedule_verify(to, mapped, -1, &verdict, NULL), CKM_OK);
    if (!verdict.ok || !oracle_replay(back ? g : reduced, mapped, NULL, NULL, NULL)) {
        printf("%s\n%s\n", verdict.why, oracle_describe(back ? reduced : g, s));
        complain(g, reduced, budget, p, back ? mapped : NULL, back ? "mapped back, illegal" : "mapped on, illegal", 0,
                 0);
    }
    if (verdict.cost > facts.cost) {
        complain(g, reduced, budget, p, back ? mapped : NULL, "cost", verdict.cost, facts.cost);
    }
    if (facts.peak_bytes <= from_budget) {
        *(back ? &t->mapped_back : &t->mapped_forward) += 1;
        if (verdict.peak_bytes > to_budget) {
            printf("%s\n", oracle_describe(back ? reduced : g, s));
            complain(g, reduced, budget, p, back ? mapped : NULL, back ? "peak, back" : "peak, on", verdict.peak_bytes,
                     to_budget);
        }
    }
    ckm_schedule_free(s);
    ckm_schedule_free(mapped);
}

static void count(const ckm_i_presolve *p, tally *t)
{
    t->problems++;
    t->small += p->n_small;
    t->dead += p->n_dead;
    t->views += p->n_views;
    t->merged += p->n_merged;
    t->units += p->unit_bytes > 1;
}

static void check(ckm_i_rng *rng, const oracle_graph *g, const ckm_dataflow *df, int64_t budget,
                  ckm_i_presolve_level level, tally *t)
{
    ckm_i_presolve *p = NULL;
    oracle_graph reduced;
    assert_int_equal(ckm_i_presolve_create(df, budget, level, &p, NULL), CKM_OK);
    if (p == NULL) {
        return;
    }
    count(p, t);
    assert_true(p->reduced->total_cost == df->total_cost);
    if (to_oracle(p->reduced, &reduced)) {
        compare_optima(g, &reduced, budget, p, t);
        for (int k = 0; k < 4; k++) {
            check_mapping(rng, g, &reduced, budget, p, true, t);
            check_mapping(rng, g, &reduced, budget, p, false, t);
        }
    }
    ckm_i_presolve_free(p);
}

// Chains of cheap operators in place, views and sinks are what presolve looks for: make them common. Sizes that differ
// by much are needed for small ones not to matter.
static void make_reducible(ckm_i_rng *rng, oracle_graph *g)
{
    bool two_scales = ckm_i_rng_below(rng, 2) == 0;
    int64_t unit = 7 + (int64_t)ckm_i_rng_below(rng, 30);
    for (int32_t x = 0; two_scales && x < g->n_tensors; x++) {
        if (ckm_i_rng_below(rng, 3) > 0) {
            g->tensors[x].bytes = unit * (1 + (int64_t)ckm_i_rng_below(rng, 3));
        }
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        oracle_op *op = &g->ops[v];
        bool view = op->n_outputs == 1 && op->n_inputs > 0 && g->tensors[op->outputs[0]].alias_of >= 0;
        if (view && ckm_i_rng_below(rng, 2) == 0) {
            op->cost = 0;
            op->workspace_bytes = 0;
            op->n_inputs = 1;
        }
        if (!view && op->n_inputs > 0 && op->n_outputs == 1 && ckm_i_rng_below(rng, 2) == 0) {
            int32_t x = op->inputs[0];
            int32_t y = op->outputs[0];
            op->workspace_bytes = 0;
            op->n_inputs = 1 + (ckm_i_rng_below(rng, 3) == 0 && op->n_inputs > 1);
            op->n_pairs = 0;
            if (g->tensors[y].alias_of < 0 && g->tensors[x].alias_of < 0 && ckm_i_rng_below(rng, 4) > 0) {
                g->tensors[y].bytes = ckm_i_rng_below(rng, 3) > 0 ? g->tensors[x].bytes : g->tensors[y].bytes;
                op->pairs[0][0] = x;
                op->pairs[0][1] = y;
                op->n_pairs = 1;
            }
        }
    }
}

static void same_optimum(void **state)
{
    ckm_i_presolve_level level = *(const ckm_i_presolve_level *)*state;
    ckm_i_rng rng = {.state = 91};
    tally t = {0};
    int64_t rounds = oracle_scaled(4000);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 7, 8, &g);
        if (round % 4 != 0) {
            make_reducible(&rng, &g);
        }
        ckm_dataflow *df = oracle_build(&g);
        int64_t floor = df->floor_bytes;
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        for (int k = 0; k < 3; k++) {
            int64_t above = (int64_t)ckm_i_rng_below(&rng, (uint32_t)(high - floor) + 2U);
            check(&rng, &g, df, floor + (k == 0 ? above / 4 : above), level, &t);
        }
        ckm_dataflow_free(df);
    }
    printf("%lld problems, %lld compared (%lld better): %lld small, %lld dead, %lld views, %lld merged, %lld units; "
           "%lld and %lld schedules mapped within the budget\n",
           (long long)t.problems, (long long)t.optima, (long long)t.better, (long long)t.small, (long long)t.dead,
           (long long)t.views, (long long)t.merged, (long long)t.units, (long long)t.mapped_back,
           (long long)t.mapped_forward);
    assert_true(t.problems > rounds && t.optima * 10 > t.problems * 9);
    assert_true(t.small * 10 > rounds && t.dead * 10 > rounds && t.units * 10 > rounds);
    assert_true(t.mapped_back > rounds && t.mapped_forward > rounds);
    if (level == CKM_I_PRESOLVE_OPERATORS) {
        assert_true(t.views * 10 > rounds && t.merged * 10 > rounds);
    }
}

int main(void)
{
    static ckm_i_presolve_level levels[] = {CKM_I_PRESOLVE_TENSORS, CKM_I_PRESOLVE_OPERATORS};
    const struct CMUnitTest tests[] = {
        {"tensors", same_optimum, NULL, NULL, &levels[0]},
        {"tensors and operators", same_optimum, NULL, NULL, &levels[1]},
    };
    return cmocka_run_group_tests_name("presolve", tests, NULL, NULL);
}
