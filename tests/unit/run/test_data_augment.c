// SPDX-License-Identifier: Apache-2.0
// Augmentation: what a picture becomes, and that only the seed, the epoch and the sample decide it.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"
#include "run/data/data.h"

enum { SIDE = 16, PIXELS = SIDE * SIDE, WIDE = 80, HIGH = 60, SAMPLES = 4, EPOCHS = 40 };
typedef float picture[SIDE][SIDE][3];

// Red grows with the column and green with the row: what comes out says which part it was.
static void paint(uint8_t *pixels, int width, int height, int blue)
{
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            uint8_t *p = pixels + (ptrdiff_t)(y * width + x) * 3;
            p[0] = (uint8_t)(x * 3);
            p[1] = (uint8_t)(y * 4);
            p[2] = (uint8_t)blue;
        }
    }
}

static int set_up(void **state)
{
    static data_fixture f;
    static uint8_t pixels[WIDE * HIGH * 3];
    int failed = data_fixture_open(state, &f, (ckm_shape){3, {SIDE, SIDE, 3}}, SAMPLES, 2);
    for (int i = 0; i < SAMPLES && failed == 0; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d.png", i < 2 ? "a" : "b", i);
        paint(pixels, WIDE, HIGH, 10 * i);
        data_files_png(f.folder, name, WIDE, HIGH, 3, 0, pixels);
    }
    return failed;
}

// One sample at a time, in the folder's order: step e * SAMPLES + i has sample i in epoch e.
static ckm_data *open_singly(data_fixture *f, const ckm_i_data_share *share)
{
    ckm_data *data = NULL;
    f->options.batch = 1;
    assert_int_equal(ckm_i_data_open_share(f->folder, NULL, &f->options, share, &data, &f->err), CKM_OK);
    return data;
}

static void fetch(data_fixture *f, ckm_data *data, int64_t step, picture out)
{
    int32_t label;
    void *const inputs[] = {out};
    assert_int_equal(ckm_data_fetch(data, step, inputs, &label, &f->err), CKM_OK);
}

static void flips_half(void **state)
{
    data_fixture *f = *state;
    picture plain;
    picture got;
    int mirrored = 0;
    ckm_data *data = open_singly(f, &(ckm_i_data_share){0});
    fetch(f, data, 0, plain);
    ckm_data_close(data);
    f->options.flip = true;
    data = open_singly(f, &(ckm_i_data_share){0});
    for (int epoch = 0; epoch < 4 * EPOCHS; epoch++) {
        fetch(f, data, (int64_t)epoch * SAMPLES, got);
        bool turned = got[0][0][0] > got[0][SIDE - 1][0];
        mirrored += turned;
        for (int i = 0; i < PIXELS; i++) {
            int x = i % SIDE;
            int y = i / SIDE;
            assert_memory_equal(got[y][x], plain[y][turned ? SIDE - 1 - x : x], sizeof got[y][x]);
        }
    }
    ckm_data_close(data);
    // 160 fair coins: outside of these limits once in ten thousand times, and the seed is fixed.
    assert_in_range(mirrored, 56, 104);
}

// The part that values growing by `step` a pixel come from: where it begins and how long it is. Rows away from the border.
static void find_part(double first, double last, double step, double *begin, double *length)
{
    const double side = SIDE;
    const double a = 4.0;
    const double b = side - 5.0;
    *length = (last - first) / step / (b - a) * side;
    *begin = first / step - (a + 0.5) / side * *length + 0.5;
}

static void crops_within_limits(void **state)
{
    data_fixture *f = *state;
    picture got;
    const double least = 0.2;
    double smallest = 1;
    double largest = 0;
    double last_left = -1;
    int moved = 0;
    f->options.crop = least;
    f->options.scaling = CKM_SCALING_UNIT;
    ckm_data *data = open_singly(f, &(ckm_i_data_share){0});
    for (int i = 0; i < EPOCHS * SAMPLES; i++) {
        double left = 0;
        double top = 0;
        double width = 0;
        double height = 0;
        fetch(f, data, i, got);
        find_part(got[8][4][0] * 255.0, got[8][SIDE - 5][0] * 255.0, 3, &left, &width);
        find_part(got[4][8][1] * 255.0, got[SIDE - 5][8][1] * 255.0, 4, &top, &height);
        double share = width * height / (WIDE * HIGH);
        assert_true(left > -0.3 && left + width < (double)WIDE + 0.3 && top > -0.3 &&
                    top + height < (double)HIGH + 0.3);
        assert_true(share > least - 0.02 && share < 1.02);
        assert_true(width / height > 0.75 - 0.05 && width / height < 4.0 / 3.0 + 0.05);
        smallest = share < smallest ? share : smallest;
        largest = share > largest ? share : largest;
        moved += fabs(left - last_left) > 0.5;
        last_left = left;
    }
    ckm_data_close(data);
    assert_true(smallest < least + 0.1 && largest > 0.85);
    assert_true(moved > EPOCHS * SAMPLES / 2);
}

// A picture far from the shapes that are wanted: the middle of it, where no attempt is within it.
static void long_pictures(void **state)
{
    data_fixture *f = *state;
    static uint8_t pixels[WIDE * 3 * 3];
    picture got;
    f->options.crop = 1;
    paint(pixels, WIDE, 3, 0);
    for (int i = 0; i < SAMPLES; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d.png", i < 2 ? "a" : "b", i);
        data_files_png(f->folder, name, WIDE, 3, 3, 0, pixels);
    }
    ckm_data *data = open_singly(f, &(ckm_i_data_share){0});
    fetch(f, data, 0, got);
    double left = 0;
    double width = 0;
    // 4 of 80 columns: shrinking does not reach beyond them.
    find_part(got[8][4][0] * 255.0, got[8][SIDE - 5][0] * 255.0, 3, &left, &width);
    assert_true(fabs(width - 4) < 0.05 && fabs(left - 38) < 0.05);
    ckm_data_close(data);
}

// Whatever was read before, and however many are read at a time.
static void only_seed_epoch_and_sample(void **state)
{
    data_fixture *f = *state;
    static picture one[2 * SAMPLES];
    static picture again;
    static picture many[SAMPLES];
    int32_t labels[SAMPLES];
    f->options.flip = true;
    f->options.crop = 0.08;
    ckm_data *data = open_singly(f, &(ckm_i_data_share){0});
    for (int i = 0; i < 2 * SAMPLES; i++) {
        fetch(f, data, i, one[i]);
    }
    for (int i = 2 * SAMPLES - 1; i >= 0; i -= 3) {
        fetch(f, data, i, again);
        assert_memory_equal(one[i], again, sizeof again);
    }
    ckm_data_close(data);
    // Another epoch, another picture; another seed as well.
    assert_memory_not_equal(one[0], one[SAMPLES], sizeof again);
    f->options.batch = SAMPLES;
    for (uint64_t seed = f->options.seed; seed < 3; seed++) {
        f->options.seed = seed;
        assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
        void *const inputs[] = {many};
        assert_int_equal(ckm_data_fetch(data, 1, inputs, labels, &f->err), CKM_OK);
        assert_int_equal(memcmp(many, one + SAMPLES, sizeof many) == 0, seed == 0);
        ckm_data_close(data);
    }
}

static void validation_stays(void **state)
{
    data_fixture *f = *state;
    picture plain;
    picture got;
    const ckm_i_data_share share = {.validates = true};
    ckm_data *data = open_singly(f, &share);
    fetch(f, data, 1, plain);
    ckm_data_close(data);
    f->options.flip = true;
    f->options.crop = 0.08;
    data = open_singly(f, &share);
    for (int epoch = 0; epoch < 8; epoch++) {
        fetch(f, data, (int64_t)epoch * SAMPLES + 1, got);
        assert_memory_equal(got, plain, sizeof got);
    }
    ckm_data_close(data);
}

static void refusals(void **state)
{
    data_fixture *f = *state;
    ckm_data *data = NULL;
    f->options.crop = 1.5;
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "", "`crop` is 1.5");
    f->options.crop = 0;
    f->options.flip = true;
    assert_int_equal(ckm_data_open("synthetic", &f->options, &data, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "cannot be augmented"));
    assert_null(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(flips_half, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(crops_within_limits, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(long_pictures, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(only_seed_epoch_and_sample, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(validation_stays, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(refusals, set_up, data_fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
