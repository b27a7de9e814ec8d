// SPDX-License-Identifier: Apache-2.0
// Packing into panels against the formula that says where each number goes: panels of all widths, whole and not, lanes
// side by side and apart, depths from 0 on. Nothing is written outside of the panels, nor read outside of the source.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>

#include <cmocka.h>

#include "run/cpu/cpu_tile.h"

enum { GUARD = 64 };

static const float untouched = -1.0F;

static float *numbers(int64_t n, bool count)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = count ? (float)(i + 1) : untouched;
    }
    return x;
}

// `gap` more than the least between what is apart.
static void check(int64_t depth, int64_t n, int64_t width, bool side_by_side, int64_t gap)
{
    int64_t step = side_by_side ? n + gap : 1;
    int64_t lane = side_by_side ? 1 : depth + gap;
    int64_t read = depth == 0 ? 0 : (depth - 1) * step + (n - 1) * lane + 1;
    int64_t panels = (n + width - 1) / width;
    float *from = numbers(read, true);
    float *memory = numbers(panels * width * depth + 2 * GUARD, false);
    float *to = memory + GUARD;
    ckm_i_cpu_pack(from, step, lane, depth, n, width, to);
    for (int64_t i = -GUARD; i < panels * width * depth + GUARD; i++) {
        float wanted = untouched;
        if (i >= 0 && i < panels * width * depth) {
            int64_t k = i / width % depth;
            int64_t at = i / (width * depth) * width + i % width;
            wanted = at < n ? from[k * step + at * lane] : 0.0F;
        }
        if (to[i] != wanted) {
            fail_msg("depth %d, %d lanes in panels of %d, step %d, lane %d: %g at %d, not %g", (int)depth, (int)n,
                     (int)width, (int)step, (int)lane, (double)to[i], (int)i, (double)wanted);
        }
    }
    free(from);
    free(memory);
}

static void test_pack(void **state)
{
    (void)state;
    static const int64_t depths[] = {0, 1, 2, 3, 4, 7, 33};
    static const int64_t gaps[] = {0, 1, 9, 40};
    for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++) {
        for (int64_t width = 1; width <= CKM_I_CPU_TILE_MAX_COLUMNS; width++) {
            for (int64_t n = 1; n <= 2 * width + 3; n++) {
                for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
                    check(depths[d], n, width, true, gaps[g]);
                    check(depths[d], n, width, false, gaps[g]);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
