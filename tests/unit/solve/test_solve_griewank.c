// SPDX-License-Identifier: Apache-2.0
// griewank: with s slots a chain costs what Griewank and Walther prove to be the least, t(n + 1, s + 1).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("griewank", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("griewank", true);
}

static int64_t binomial(int64_t n, int64_t k)
{
    int64_t value = 1;
    for (int64_t i = 1; i <= k; i++) {
        value = value * (n - k + i) / i;
    }
    return value;
}

// Steps forward over l states with s slots, the first of which holds the beginning.
static int64_t least_steps(int64_t l, int64_t s)
{
    int64_t r = 0;
    while (binomial(s + r, s) < l) {
        r++;
    }
    return r * l - (r > 0 ? binomial(s + r, s + 1) : 0);
}

// The layer being unwound, its consumer, that one's gradient and the new one come on top of the slots.
static void closed_form_for_every_number_of_slots(void **state)
{
    (void)state;
    for (int32_t n = 2; n <= 40; n += 7) {
        ckm_dataflow *df = layer_graph_unit_chain(n);
        for (int32_t slots = 0; slots < n; slots++) {
            int64_t cost = strategy_cost(df, "griewank", slots + 4);
            assert_true(cost >= 0 && cost - (n + 1) <= least_steps(n + 1, slots + 1));
        }
        assert_int_equal(strategy_cost(df, "griewank", INT64_MAX), 2 * n + 1);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(closed_form_for_every_number_of_slots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
