// SPDX-License-Identifier: Apache-2.0
// What the tests of kernels take for alike: an infinite number must not excuse the finite ones.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel_script.h"

enum { N = 3 };

static void test_comparison(void **state)
{
    (void)state;
    static const struct {
        float got[N], wanted[N];
        size_t first;
    } cases[] = {
        {{1, 2, 100}, {1, 2, 100}, N},           {{1, 2.5F, 100}, {1, 2, 100}, N},
        {{1, 4, 100}, {1, 2, 100}, 1},           {{1, INFINITY, -INFINITY}, {1, INFINITY, -INFINITY}, N},
        {{7, INFINITY, 2}, {1, INFINITY, 2}, 0}, {{1, -INFINITY, 2}, {1, INFINITY, 2}, 1},
        {{1, 3e38F, 2}, {1, INFINITY, 2}, 1},    {{1, INFINITY, 2}, {1, 2, 2}, 1},
        {{1, NAN, 2}, {1, NAN, 2}, N},           {{1, NAN, 2}, {1, 2, 2}, 1},
        {{1, NAN, 2}, {1, INFINITY, 2}, 1},      {{1, 2, 2}, {1, 2, NAN}, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t first = kernel_script_first_difference(cases[i].got, cases[i].wanted, N,
                                                      &(kernel_tolerance){.part = 0.01, .floor = 1e-3});
        if (first != cases[i].first) {
            fail_msg("case %zu: %zu, not %zu", i, first, cases[i].first);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comparison)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
