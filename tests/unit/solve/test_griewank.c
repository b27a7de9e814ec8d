// SPDX-License-Identifier: Apache-2.0
// Binomial checkpointing: on unit chains the cost must be the optimum of Griewank & Walther for every number
// of slots, by their closed form and by a recursion that tries every split.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "solve/checkpoints/checkpoints.h"

enum { MOST = 72 };

// least[d][s]: steps forward to deliver d states above a stored one, last first, with s free slots.
static int64_t least[MOST + 1][MOST + 1];

static void fill_least(void)
{
    for (int32_t d = 0; d <= MOST; d++) {
        for (int32_t s = 0; s <= MOST; s++) {
            least[d][s] = (int64_t)d * (d + 1) / 2;
            for (int32_t k = 1; s > 0 && k <= d; k++) {
                int64_t steps = k + least[d - k][s - 1] + least[k - 1][s];
                least[d][s] = steps < least[d][s] ? steps : least[d][s];
            }
        }
    }
}

static int64_t binomial(int64_t n, int64_t k)
{
    int64_t value = 1;
    for (int64_t i = 1; i <= k; i++) {
        value = value * (n - k + i) / i;
    }
    return value;
}

// t(l, s) of the paper: l steps, s slots of which the first holds the initial state.
static int64_t closed_form(int64_t l, int64_t s)
{
    int64_t r = 0;
    while (binomial(s + r, s) < l) {
        r++;
    }
    return r * l - (r > 0 ? binomial(s + r, s + 1) : 0);
}

static void expect_slots(const ckm_dataflow *df, const ckm_i_griewank *gw, int32_t n, int32_t slots)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *stages = NULL;
    int64_t peak = 0;
    assert_int_equal(ckm_i_stages_create(df, &stages, &err), CKM_OK);
    assert_int_equal(ckm_i_griewank_stages(gw, slots, stages, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_complete(stages, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_peak(stages, &peak, &err), CKM_OK);
    int64_t forward = ckm_i_stages_cost(stages) - (n + 1);
    if (forward != least[n][slots] || forward != closed_form(n + 1, slots + 1)) {
        fail_msg("%d layers, %d slots: %lld steps forward; least %lld, closed form %lld", n, slots, (long long)forward,
                 (long long)least[n][slots], (long long)closed_form(n + 1, slots + 1));
    }
    // The layer being unwound, its consumer, that one's gradient and the new one come on top of the slots.
    if (peak > slots + 4) {
        fail_msg("%d layers, %d slots: peak %lld", n, slots, (long long)peak);
    }
    ckm_i_stages_free(stages);
}

static void unit_chains_are_optimal_for_every_slot_number(void **state)
{
    (void)state;
    fill_least();
    for (int32_t n = 1; n <= MOST; n += n < 24 ? 1 : 12) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = layer_graph_unit_chain(n);
        ckm_i_forward *fw = NULL;
        ckm_i_griewank *gw = NULL;
        assert_int_equal(ckm_i_forward_create(df, &fw, &err), CKM_OK);
        assert_int_equal(ckm_i_griewank_create(fw, &gw, &err), CKM_OK);
        assert_int_equal(ckm_i_griewank_states(gw), n);
        for (int32_t slots = 0; slots <= n; slots++) {
            expect_slots(df, gw, n, slots);
        }
        ckm_i_griewank_free(gw);
        ckm_i_forward_free(fw);
        ckm_dataflow_free(df);
    }
}

// Blocks of two parallel layers between articulation points: with every state stored, states are computed
// once, and the inside of a block is run once more for its own unwinding.
static void blocks_are_the_steps_of_branching_graphs(void **state)
{
    (void)state;
    enum { BLOCKS = 9, N = 4 * BLOCKS };
    layer_spec layers[N];
    for (int32_t b = 0; b < BLOCKS; b++) {
        int32_t at = 4 * b;
        layers[at] = (layer_spec){.cost = 0, .bytes = 1, .n_operands = b > 0, .operands = {at - 1}};
        layers[at + 1] = (layer_spec){.cost = 10, .bytes = 1, .n_operands = 1, .operands = {at}};
        layers[at + 2] = (layer_spec){.cost = 10, .bytes = 1, .n_operands = 1, .operands = {at}};
        layers[at + 3] = (layer_spec){.cost = 1, .bytes = 1, .n_operands = 2, .operands = {at + 1, at + 2}};
    }
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = layer_graph_build(layers, N, 0, 1, true);
    ckm_i_forward *fw = NULL;
    ckm_i_griewank *gw = NULL;
    ckm_i_stages *stages = NULL;
    assert_int_equal(ckm_i_forward_create(df, &fw, &err), CKM_OK);
    assert_int_equal(ckm_i_griewank_create(fw, &gw, &err), CKM_OK);
    assert_int_equal(ckm_i_griewank_states(gw), 2 * BLOCKS);
    assert_int_equal(ckm_i_stages_create(df, &stages, &err), CKM_OK);
    assert_int_equal(ckm_i_griewank_stages(gw, 2 * BLOCKS, stages, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_complete(stages, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_cost(stages), ckm_dataflow_total_cost(df) + INT64_C(20) * BLOCKS);
    ckm_i_stages_free(stages);
    ckm_i_griewank_free(gw);
    ckm_i_forward_free(fw);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unit_chains_are_optimal_for_every_slot_number),
        cmocka_unit_test(blocks_are_the_steps_of_branching_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
