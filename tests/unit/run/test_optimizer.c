// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <checkmate/train.h>

static void near(double a, double b)
{
    if (!(a - b < 1e-12 && b - a < 1e-12)) {
        fail_msg("%.17g where %.17g was expected", a, b);
    }
}

static void constant(void **state)
{
    (void)state;
    ckm_rate_schedule s = CKM_RATE_SCHEDULE_INIT;
    s.rate = 0.5;
    near(ckm_rate_at(&s, 0), 0.5);
    near(ckm_rate_at(&s, 1000000), 0.5);
}

// Rises in equal strides and reaches the rate with the last step of the warm-up; never zero.
static void warmup(void **state)
{
    (void)state;
    ckm_rate_schedule s = CKM_RATE_SCHEDULE_INIT;
    s.rate = 1;
    s.warmup_steps = 4;
    near(ckm_rate_at(&s, 0), 0.25);
    near(ckm_rate_at(&s, 1), 0.5);
    near(ckm_rate_at(&s, 3), 1);
    near(ckm_rate_at(&s, 4), 1);
}

static void steps(void **state)
{
    (void)state;
    ckm_rate_schedule s = {sizeof s, CKM_RATE_STEP, 1, 0, 10, 0.1, 0, 0};
    near(ckm_rate_at(&s, 9), 1);
    near(ckm_rate_at(&s, 10), 0.1);
    near(ckm_rate_at(&s, 29), 0.01);
    s.every = 0;
    near(ckm_rate_at(&s, 29), 1);
}

static void falling(void **state)
{
    (void)state;
    ckm_rate_schedule s = {sizeof s, CKM_RATE_LINEAR, 1.2, 20, 0, 0, 120, 0.2};
    near(ckm_rate_at(&s, 20), 1.2);
    near(ckm_rate_at(&s, 70), 0.7);
    near(ckm_rate_at(&s, 120), 0.2);
    near(ckm_rate_at(&s, 5000), 0.2);
    s.kind = CKM_RATE_COSINE;
    near(ckm_rate_at(&s, 20), 1.2);
    near(ckm_rate_at(&s, 70), 0.7);
    near(ckm_rate_at(&s, 20 + 25), 0.2 + 0.5 * (1 + 0.70710678118654752440));
    near(ckm_rate_at(&s, 120), 0.2);
    s.steps = 20;  // nothing left after the warm-up
    near(ckm_rate_at(&s, 20), 0.2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant),
        cmocka_unit_test(warmup),
        cmocka_unit_test(steps),
        cmocka_unit_test(falling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
