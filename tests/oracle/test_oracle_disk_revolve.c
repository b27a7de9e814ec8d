// SPDX-License-Identifier: Apache-2.0
// Chains with a disk against the published recurrence of H-Revolve with unlimited slots there (Herrmann and Pallez, ACM TOMS 46,
// 2020, section 3.1; Disk-Revolve with repeated reads): the exact search finds the same cost, to the last unit.
//
// L + 1 steps back need the states 0 to L. A state is either kept, made again from the one before, or read from the disk, where it
// was written when it was first made. Copies do not overlap with steps, so writing and reading are costs of operators: one
// graph for each set of states on the disk. The first read stands for the state that the step itself leaves, and is taken off.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "solve/core/solve_options.h"
#include "solve/runs/exact.h"

enum { CHAINS = 300, MOST_STEPS = 8, MOST_SLOTS = 3 };

typedef struct chain {
    int32_t n_steps;  // L, forward; one more backward
    int32_t n_slots;  // states in memory, in addition to the one that is worked on
    int64_t forward, backward, write, read;
} chain;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// Least cost of l steps from a state that is in memory (holds[l][m], m slots, this one included), or that must first be stored
// somewhere (from_disk[l]: it is on the disk, best[l]: it is only being worked on).
static int64_t published_cost(const chain *c)
{
    int64_t holds[MOST_STEPS + 1][MOST_SLOTS + 1];
    int64_t from_disk[MOST_STEPS + 1];
    int64_t best[MOST_STEPS + 1];
    for (int32_t l = 0; l <= c->n_steps; l++) {
        for (int32_t m = 1; m <= c->n_slots; m++) {
            holds[l][m] = (l + 1) * c->backward + (int64_t)l * (l + 1) / 2 * c->forward;
            for (int32_t j = 1; j < l && m > 1; j++) {
                holds[l][m] = smaller(holds[l][m], j * c->forward + holds[l - j][m - 1] + holds[j - 1][m]);
            }
        }
        from_disk[l] = holds[l][c->n_slots];
        for (int32_t j = 1; j < l; j++) {
            from_disk[l] = smaller(from_disk[l], j * c->forward + best[l - j] + c->read + from_disk[j - 1]);
        }
        best[l] = smaller(holds[l][c->n_slots], c->write + from_disk[l]);
    }
    return best[c->n_steps];
}

static int32_t add_tensor(ckm_dataflow *df, int64_t bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow_tensor tensor = {.bytes = bytes, .alias_of = -1};
    int32_t index = -1;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &index, &err), CKM_OK);
    return index;
}

static void add_op(ckm_dataflow *df, int64_t cost, const int32_t *inputs, int32_t n_inputs, int32_t output,
                   bool run_once, bool in_place)
{
    ckm_error err = CKM_ERROR_INIT;
    const int32_t pair[][2] = {{n_inputs > 0 ? inputs[0] : -1, output}};
    ckm_dataflow_op op = {.kind = CKM_OP_FORWARD,
                          .cost = cost,
                          .run_once = run_once,
                          .n_inputs = n_inputs,
                          .n_outputs = 1,
                          .n_inplace = in_place ? 1 : 0,
                          .inputs = inputs,
                          .outputs = &output,
                          .inplace = pair};
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
}

// State 0 is there once: nothing makes it again. `on_disk`: bit i says that state i is written.
static ckm_dataflow *build(const chain *c, uint32_t on_disk)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    int32_t states[MOST_STEPS + 1];
    int32_t gradient = -1;
    assert_int_equal(ckm_dataflow_create("chain", CKM_COST_NS, 0, &df, &err), CKM_OK);
    for (int32_t i = 0; i <= c->n_steps; i++) {
        int64_t cost = i > 0 ? c->forward : 0;
        const int32_t *before = i > 0 ? &states[i - 1] : NULL;
        if ((on_disk >> i & 1) != 0) {
            int32_t token = add_tensor(df, 0);
            add_op(df, cost + c->write, before, i > 0, token, i == 0, false);
            states[i] = add_tensor(df, 1);
            add_op(df, c->read, &token, 1, states[i], false, false);
        } else {
            states[i] = add_tensor(df, 1);
            add_op(df, cost, before, i > 0, states[i], i == 0, i > 0);
        }
    }
    for (int32_t i = c->n_steps; i >= 0; i--) {
        int32_t inputs[] = {states[i], gradient};
        gradient = add_tensor(df, 0);
        add_op(df, c->backward, inputs, i < c->n_steps ? 2 : 1, gradient, false, false);
    }
    assert_int_equal(ckm_dataflow_add_result(df, gradient, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

// -1: proven that nothing fits.
static int64_t exact_cost(const ckm_dataflow *df, int64_t budget_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_exact_result result;
    ckm_i_solver solver;
    options.budget_bytes = budget_bytes;
    ckm_i_solver_init(&solver, df, &options, budget_bytes);
    assert_int_equal(ckm_i_exact_run(&solver, INT64_C(1) << 28, &result, &err), CKM_OK);
    assert_true(result.is_done);
    assert_true(solver.infeasible == (solver.best_schedule == NULL));
    int64_t cost = solver.best_schedule != NULL ? solver.best_cost : -1;
    ckm_i_solver_dispose(&solver);
    return cost;
}

static void costs_are_those_published(void **state)
{
    (void)state;
    int64_t n_with_disk = 0;
    for (int64_t i = 0; i < oracle_scaled(CHAINS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 31};
        chain c = {.n_steps = 1 + (int32_t)ckm_i_rng_below(&rng, MOST_STEPS),
                   .n_slots = 1 + (int32_t)ckm_i_rng_below(&rng, MOST_SLOTS),
                   .forward = 1 + ckm_i_rng_below(&rng, 9),
                   .backward = 1 + ckm_i_rng_below(&rng, 9),
                   .write = 1 + ckm_i_rng_below(&rng, 9),
                   .read = 1 + ckm_i_rng_below(&rng, 9)};
        int64_t best = -1;
        uint32_t which = 0;
        for (uint32_t on_disk = 0; on_disk < 1u << c.n_steps; on_disk++) {
            ckm_dataflow *df = build(&c, on_disk);
            int64_t cost = exact_cost(df, c.n_slots + 1);
            for (int32_t k = 0; cost >= 0 && k < c.n_steps; k++) {
                cost -= (on_disk >> k & 1) != 0 ? c.read : 0;
            }
            if (cost >= 0 && (best < 0 || cost < best)) {
                best = cost;
                which = on_disk;
            }
            ckm_dataflow_free(df);
        }
        n_with_disk += which != 0;
        if (best != published_cost(&c)) {
            fail_msg("%d steps, %d slots, costs %lld %lld %lld %lld: %lld, published %lld", c.n_steps, c.n_slots,
                     (long long)c.forward, (long long)c.backward, (long long)c.write, (long long)c.read,
                     (long long)best, (long long)published_cost(&c));
        }
    }
    printf("%lld chains, %lld with states on the disk\n", (long long)oracle_scaled(CHAINS), (long long)n_with_disk);
    assert_true(n_with_disk > oracle_scaled(CHAINS) / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_are_those_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
