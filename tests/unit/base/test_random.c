// SPDX-License-Identifier: Apache-2.0
// The generator against published values, and bitsets, and the clock.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bitset.h"
#include "base/clock.h"
#include "base/rng.h"

// First outputs of SplitMix64 for seed 1234567, as its authors' reference program prints them.
static void matches_the_reference_sequence(void **state)
{
    (void)state;
    const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                 UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                 UINT64_C(16408922859458223821)};
    ckm_i_rng rng = {1234567};
    for (size_t i = 0; i < 5; i++) {
        assert_true(ckm_i_rng_next(&rng) == expected[i]);
    }
}

static void below_stays_below_and_reaches_everything(void **state)
{
    (void)state;
    ckm_i_rng rng = {42};
    int64_t counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint32_t value = ckm_i_rng_below(&rng, 7);
        assert_true(value < 7);
        counts[value]++;
    }
    for (size_t i = 0; i < 7; i++) {
        assert_in_range(counts[i], 9500, 10500);  // five standard deviations
    }
    for (int i = 0; i < 100; i++) {
        assert_int_equal(ckm_i_rng_below(&rng, 1), 0);
    }
}

static void unit_is_in_its_interval(void **state)
{
    (void)state;
    ckm_i_rng rng = {7};
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double value = ckm_i_rng_unit(&rng);
        assert_true(value >= 0.0 && value < 1.0);
        sum += value;
    }
    assert_true(sum > 49500 && sum < 50500);
}

static void bits_are_independent(void **state)
{
    (void)state;
    uint64_t bits[3] = {0};
    assert_int_equal(ckm_i_bits_words(0), 0);
    assert_int_equal(ckm_i_bits_words(64), 1);
    assert_int_equal(ckm_i_bits_words(65), 2);
    const int64_t places[] = {0, 63, 64, 127, 128, 150};
    for (size_t i = 0; i < 6; i++) {
        ckm_i_bits_set(bits, places[i]);
    }
    int64_t found = 0;
    for (int64_t i = 0; i < 192; i++) {
        found += ckm_i_bits_get(bits, i) ? 1 : 0;
    }
    assert_int_equal(found, 6);
    ckm_i_bits_clear(bits, 64);
    assert_false(ckm_i_bits_get(bits, 64));
    assert_true(ckm_i_bits_get(bits, 63));
    assert_true(ckm_i_bits_get(bits, 127));
}

static void clock_never_goes_back(void **state)
{
    (void)state;
    double last = ckm_i_clock_seconds();
    for (int i = 0; i < 1000; i++) {
        double now = ckm_i_clock_seconds();
        assert_true(now >= last);
        last = now;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference_sequence), cmocka_unit_test(below_stays_below_and_reaches_everything),
        cmocka_unit_test(unit_is_in_its_interval),        cmocka_unit_test(bits_are_independent),
        cmocka_unit_test(clock_never_goes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
