// SPDX-License-Identifier: Apache-2.0
// Bounds carried from budget to budget, and how bounds are rounded: figures by hand.
#include "solve/core/bound_lines.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "solve/core/solver.h"

// 50 and 3 a unit of 10 bytes below 100 bytes; 47 and 2 a unit less above.
static const ckm_i_bound_line slanted = {
    .at_bytes = 100, .unit_bytes = 10, .down = 50.0, .down_slope = 3.0, .up = 47.0, .up_slope = 2.0, .cost_gcd = 1};

static double for_budget(const ckm_i_bound_line *lines, int32_t n, int64_t budget_bytes)
{
    ckm_i_bound_lines all = {0};
    for (int32_t i = 0; i < n; i++) {
        ckm_i_bound_lines_add(&all, &lines[i]);
    }
    double bound = ckm_i_bound_lines_for(&all, budget_bytes);
    ckm_i_bound_lines_dispose(&all);
    assert_int_equal(all.n, 0);
    return bound;
}

// Less memory counts in whole units rounded down, more memory in whole units rounded up: both make the bound smaller.
static void units_round_to_the_safe_side(void **state)
{
    (void)state;
    static const struct {
        int64_t budget_bytes;
        double bound;
    } rows[] = {{100, 50}, {99, 50},  {91, 50},  {90, 53},  {81, 53},  {80, 56},  {0, 80},
                {101, 45}, {109, 45}, {110, 45}, {111, 43}, {120, 43}, {121, 41}, {200, 27}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double bound = for_budget(&slanted, 1, rows[i].budget_bytes);
        if (fabs(bound - rows[i].bound) > 1e-6) {
            fail_msg("%lld bytes: %f, not %f", (long long)rows[i].budget_bytes, bound, rows[i].bound);
        }
    }
}

static void the_largest_counts(void **state)
{
    (void)state;
    ckm_i_bound_line lines[2] = {slanted,
                                 {.at_bytes = 200, .unit_bytes = 1, .down = 30.0, .up = -INFINITY, .cost_gcd = 7}};
    assert_true(isnan(for_budget(lines, 0, 100)));
    assert_true(for_budget(lines, 2, 100) > 49.9);
    assert_true(for_budget(lines, 2, 200) == 35.0);              // 30 rounded up to a multiple of 7, above 27
    assert_true(fabs(for_budget(lines, 2, 201) - 25.0) < 1e-6);  // nothing is proven above 200 by the second
    assert_true(isnan(for_budget(&lines[1], 1, 201)));
}

static void rounding_up_to_multiples(void **state)
{
    (void)state;
    static const struct {
        double bound;
        int64_t gcd;
        double rounded;
    } exact[] = {{10.2, 5, 15.0},
                 {10.0, 5, 10.0},
                 {10.00002, 5, 15.0},
                 {0.5, 1, 1.0},
                 {-3.5, 1, -3.0},
                 {0.0, 4, 0.0},
                 {6.9999, 1, 7.0},
                 {7.1, 1, 8.0},
                 {1.0, 3, 3.0},
                 {3.0000001, 3, 3.0000001 - 3e-9},
                 {8999999999999001.0, 1000, 9e15 - 9e6}};
    for (size_t i = 0; i < sizeof exact / sizeof exact[0]; i++) {
        double got = ckm_i_cost_round_up(exact[i].bound, exact[i].gcd);
        if (fabs(got - exact[i].rounded) > 1e-14 * fabs(exact[i].rounded)) {
            fail_msg("%.17g in multiples of %d: %.17g, not %.17g", exact[i].bound, (int)exact[i].gcd, got,
                     exact[i].rounded);
        }
    }
    // Above what doubles count exactly it stays what it is, less the allowance.
    assert_true(ckm_i_cost_round_up(9.5e15, 1000000000) < 9.5e15);
}

// A bound that rounding errors push over the cost it is about, by less than 1e-9 of it, stays below.
static void rounding_errors_prove_nothing(void **state)
{
    (void)state;
    for (int64_t gcd = 1; gcd <= 1000; gcd *= 10) {
        for (int64_t cost = gcd; cost < gcd * 1000000; cost = cost * 3 / gcd * gcd + gcd) {
            assert_true(ckm_i_cost_round_up((double)cost * (1.0 + 0.9e-9), gcd) <= (double)cost);
            assert_true(ckm_i_cost_round_up((double)cost * (1.0 - 0.9e-9), gcd) <= (double)cost);
            assert_true(ckm_i_cost_round_up((double)cost - 0.5 * (double)gcd, gcd) == (double)cost);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_round_to_the_safe_side),
        cmocka_unit_test(the_largest_counts),
        cmocka_unit_test(rounding_up_to_multiples),
        cmocka_unit_test(rounding_errors_prove_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
