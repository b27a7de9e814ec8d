// SPDX-License-Identifier: Apache-2.0
// lp-bound: the relaxation of the paper's program gives bounds and no schedules, and bounds that say more than the sum of all costs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "strategy_check.h"

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("lp-bound", 80, strategy_gives_no_schedule);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("lp-bound", false);
}

static void proves_more_than_the_sum(void **state)
{
    (void)state;
    strategy_check_bound("lp-bound", CKM_BOUND_FRONTIER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(proves_more_than_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
