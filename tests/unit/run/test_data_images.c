// SPDX-License-Identifier: Apache-2.0
// Folders of images: decoding, resizing, damage.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "data_files.h"
#include "run/data/data.h"
#include "run/data/data_pixels.h"

enum { SIDE = 16, PIXELS = SIDE * SIDE };

// A picture with smooth colours, so that JPEG keeps it.
static void paint(uint8_t *pixels, int width, int height, int channels, int tint)
{
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            for (int c = 0; c < channels; c++) {
                pixels[(y * width + x) * channels + c] = (uint8_t)(x * 8 + y * 4 + c * tint);
            }
        }
    }
}

static int set_up(void **state)
{
    static data_fixture f;
    return data_fixture_open(state, &f, (ckm_shape){3, {SIDE, SIDE, 3}}, 3, 2);
}

static void close_to(const float *a, const uint8_t *b, int n, double tolerance)
{
    for (int i = 0; i < n; i++) {
        double difference = a[i] * 255.0 - b[i];
        if (difference > tolerance || difference < -tolerance) {
            fail_msg("value %d: %g, expected %d", i, a[i] * 255.0, b[i]);
        }
    }
}

static void formats_and_order(void **state)
{
    data_fixture *f = *state;
    uint8_t pixels[PIXELS * 3];
    float images[3 * PIXELS * 3];
    int32_t labels[3];
    paint(pixels, SIDE, SIDE, 3, 20);
    data_files_png(f->folder, "cats/b.png", SIDE, SIDE, 3, 0, pixels);
    data_files_png(f->folder, "cats/c.PNG", SIDE, SIDE, 3, 1, pixels);
    data_files_jpeg(f->folder, "dogs/a.jpeg", SIDE, SIDE, 3, 0, pixels);
    data_files_write(f->folder, "cats/notes.txt", "x", 1);
    data_files_write(f->folder, "README", "x", 1);
    data_fixture_read(f, images, labels);
    assert_int_equal(labels[0], 0);
    assert_int_equal(labels[1], 0);
    assert_int_equal(labels[2], 1);
    close_to(images, pixels, PIXELS * 3, 0.01);
    close_to(images + PIXELS * 3, pixels, PIXELS * 3, 0.01);
    close_to(images + 2 * PIXELS * 3, pixels, PIXELS * 3, 12);
    ckm_data *data = NULL;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
    assert_string_equal(ckm_data_get_facts(data).format, "images");
    assert_string_equal(ckm_data_class_name(data, 1), "dogs");
    assert_null(ckm_data_class_name(data, 2));
    ckm_data_close(data);
}

static void colours_and_opacity(void **state)
{
    data_fixture *f = *state;
    uint8_t grey[PIXELS];
    uint8_t opaque[PIXELS * 4];
    float images[3 * PIXELS * 3];
    int32_t labels[3];
    paint(grey, SIDE, SIDE, 1, 0);
    for (int i = 0; i < PIXELS; i++) {
        memset(opaque + (ptrdiff_t)i * 4, grey[i], 3);
        opaque[i * 4 + 3] = 255;
    }
    // Below a folder "train", as many data sets have it.
    data_files_png(f->folder, "train/a/1.png", SIDE, SIDE, 1, 0, grey);
    data_files_png(f->folder, "train/a/2.png", SIDE, SIDE, 4, 0, opaque);
    data_files_jpeg(f->folder, "train/b/3.jpg", SIDE, SIDE, 1, 1, grey);
    data_files_png(f->folder, "test/a/1.png", SIDE, SIDE, 1, 0, grey);
    data_fixture_read(f, images, labels);
    for (int image = 0; image < 3; image++) {
        for (int i = 0; i < PIXELS * 3; i++) {
            double difference = images[image * PIXELS * 3 + i] * 255.0 - grey[i / 3];
            assert_true(difference < 12 && difference > -12);
        }
    }
    // To one channel.
    f->inputs[0].shape.dims[2] = 1;
    data_fixture_read(f, images, labels);
    close_to(images, grey, PIXELS, 0.01);
    close_to(images + PIXELS, grey, PIXELS, 0.01);
}

// Through the sink: halving averages with the triangle's weights, doubling puts the quarters between.
static void resizing(void **state)
{
    data_fixture *f = *state;
    ckm_i_pixels sink;
    const uint8_t row[] = {0, 100, 200, 40};
    float out[8];
    f->inputs[0].shape = (ckm_shape){3, {1, 8, 1}};
    assert_int_equal(ckm_i_pixels_init(&sink, &f->options, 0, 0, 0, NULL), CKM_OK);
    ckm_i_pixels_begin(&sink, 1, 4, 1, out);
    ckm_i_pixels_row(&sink, row);
    ckm_i_pixels_end(&sink);
    const double doubled[] = {0, 25, 75, 125, 175, 160, 80, 40};
    for (int i = 0; i < 8; i++) {
        assert_true(out[i] * 255.0 - doubled[i] < 1e-3 && doubled[i] - out[i] * 255.0 < 1e-3);
    }
    ckm_i_pixels_dispose(&sink);
    f->inputs[0].shape = (ckm_shape){3, {2, 1, 1}};
    assert_int_equal(ckm_i_pixels_init(&sink, &f->options, 0, 0, 0, NULL), CKM_OK);
    ckm_i_pixels_begin(&sink, 4, 1, 1, out);
    for (int i = 0; i < 4; i++) {
        ckm_i_pixels_row(&sink, row + i);
    }
    ckm_i_pixels_end(&sink);
    // Centre 0.5, half base 2: weights 3/4, 3/4, 1/4 for rows 0, 1, 2.
    assert_true(out[0] * 255.0 - (75 + 50) / 1.75 < 1e-3 && (75 + 50) / 1.75 - out[0] * 255.0 < 1e-3);
    ckm_i_pixels_dispose(&sink);
}

// Whatever the sizes, a uniform picture stays uniform: no row or column loses weight.
static void resizing_keeps_weight(void **state)
{
    data_fixture *f = *state;
    static const int sizes[] = {1, 2, 3, 5, 7, 16, 31, 64};
    uint8_t row[64];
    float out[64 * 64];
    memset(row, 255, sizeof row);
    for (size_t a = 0; a < sizeof sizes / sizeof sizes[0]; a++) {
        for (size_t b = 0; b < sizeof sizes / sizeof sizes[0]; b++) {
            ckm_i_pixels sink;
            f->inputs[0].shape = (ckm_shape){3, {sizes[a], sizes[b], 1}};
            assert_int_equal(ckm_i_pixels_init(&sink, &f->options, 0, 0, 0, NULL), CKM_OK);
            ckm_i_pixels_begin(&sink, sizes[b], sizes[a], 1, out);
            for (int y = 0; y < sizes[b]; y++) {
                ckm_i_pixels_row(&sink, row);
            }
            ckm_i_pixels_end(&sink);
            for (int i = 0; i < sizes[a] * sizes[b]; i++) {
                assert_true(out[i] > 0.9999F && out[i] < 1.0001F);
            }
            ckm_i_pixels_dispose(&sink);
        }
    }
}

// Large JPEGs, shrunk by the decoder first, still look the same.
static void shrinking(void **state)
{
    data_fixture *f = *state;
    enum { LARGE = 128 };
    uint8_t *large = calloc(LARGE * LARGE * 3, 1);
    float images[3 * PIXELS * 3];
    int32_t labels[3];
    assert_non_null(large);
    for (int y = 0; y < LARGE; y++) {
        for (int x = 0; x < LARGE; x++) {
            memset(large + ((ptrdiff_t)y * LARGE + x) * 3, x < LARGE / 2 ? 30 : 220, 3);
        }
    }
    data_files_jpeg(f->folder, "a/1.jpg", LARGE, LARGE, 3, 0, large);
    data_files_jpeg(f->folder, "a/2.jpg", LARGE, LARGE, 3, 1, large);
    data_files_png(f->folder, "b/3.png", LARGE, LARGE, 3, 1, large);
    data_fixture_read(f, images, labels);
    for (int i = 0; i < 3 * PIXELS; i++) {
        int x = i % SIDE;
        double wanted = x < SIDE / 2 ? 30 : 220;
        double difference = images[i * 3] * 255.0 - wanted;
        assert_true(x == SIDE / 2 - 1 || x == SIDE / 2 || (difference < 4 && difference > -4));
    }
    free(large);
}

static size_t slurp(const data_fixture *f, const char *name, uint8_t *to, size_t room)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(to, 1, room, file);
    fclose(file);
    return n;
}

static void damage(void **state)
{
    data_fixture *f = *state;
    uint8_t pixels[PIXELS * 3];
    uint8_t file[8192];
    float images[3 * PIXELS * 3];
    int32_t labels[3];
    void *inputs[] = {images};
    static const char *const names[] = {"b/bad.png", "b/bad.jpg"};
    paint(pixels, SIDE, SIDE, 3, 20);
    data_files_png(f->folder, "a/1.png", SIDE, SIDE, 3, 0, pixels);
    data_files_png(f->folder, "a/2.png", SIDE, SIDE, 3, 0, pixels);
    data_files_png(f->folder, "sound.png", SIDE, SIDE, 3, 0, pixels);
    data_files_jpeg(f->folder, "sound.jpg", SIDE, SIDE, 3, 0, pixels);
    for (int k = 0; k < 2; k++) {
        char path[256];
        size_t n = slurp(f, k == 0 ? "sound.png" : "sound.jpg", file, sizeof file);
        // No image at all, and a header only: found when opening.
        data_files_write(f->folder, names[k], "not an image", 12);
        data_fixture_refused(f, CKM_ERR_FORMAT, names[k], "is not a valid");
        data_files_write(f->folder, names[k], file, 10);
        data_fixture_refused(f, CKM_ERR_FORMAT, names[k], "is not a valid");
        // Cut off in the middle: found when it is read, naming it.
        data_files_write(f->folder, names[k], file, n - 40);
        ckm_data *data = NULL;
        assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
        assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_ERR_FORMAT);
        assert_non_null(strstr(f->err.file, names[k]));
        assert_non_null(strstr(f->err.message, "is not a valid"));
        ckm_data_close(data);
        snprintf(path, sizeof path, "%s/%s", f->folder, names[k]);
        remove(path);
    }
}

static void take_note(ckm_log_level level, const char *line, void *user)
{
    char *notes = user;
    assert_int_equal(level, CKM_LOG_WARN);
    strcat(strcat(notes, line), "\n");
}

// Pictures of one tint each: which one stands at a place of a batch.
static int tint_at(const float *images, int i)
{
    return (int)(images[(ptrdiff_t)i * PIXELS * 3 + 1] * 255.0F + 0.5F);
}

static void damaged_are_left_out(void **state)
{
    data_fixture *f = *state;
    uint8_t pixels[PIXELS * 3];
    uint8_t file[8192];
    float images[4 * PIXELS * 3];
    int32_t labels[4];
    char notes[4096] = "";
    void *inputs[] = {images};
    ckm_data *data = NULL;
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d.png", i < 3 ? "a" : "b", i);
        paint(pixels, SIDE, SIDE, 3, 10 + i);
        data_files_png(f->folder, name, SIDE, SIDE, 3, 0, pixels);
    }
    size_t n = slurp(f, "a/1.png", file, sizeof file);
    data_files_write(f->folder, "a/1.png", file, n - 40);  // found when it is read
    data_files_write(f->folder, "b/4.png", file, 10);      // found when it is opened
    f->options.batch = 4;
    f->options.skip_damaged = true;
    f->options.note = take_note;
    f->options.user = notes;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_get_facts(data).samples, 5);
    assert_int_equal(ckm_data_left_out(data), 1);
    assert_non_null(strstr(notes, "b/4.png: left out: is not a valid PNG"));
    assert_null(strstr(notes, "a/1.png"));
    // The next takes its place, in every epoch, and it is said once.
    for (int step = 0; step < 3; step++) {
        assert_int_equal(ckm_data_fetch(data, step, inputs, labels, &f->err), CKM_OK);
        assert_int_equal(tint_at(images, 0), 10);
        assert_int_equal(tint_at(images, 1), 12);
        assert_int_equal(tint_at(images, 2), 12);
        assert_int_equal(tint_at(images, 3), 13);
        assert_int_equal(labels[2], 0);
        assert_int_equal(labels[3], 1);
        assert_int_equal(ckm_data_left_out(data), 2);
    }
    const char *said = strstr(notes, "a/1.png: left out: ");
    assert_non_null(said);
    assert_null(strstr(said + 1, "a/1.png"));
    ckm_data_close(data);
    // For validation its place stays empty: no other counts twice.
    const ckm_i_data_share share = {.validates = true};
    assert_int_equal(ckm_i_data_open_share(f->folder, NULL, &f->options, &share, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_OK);
    assert_int_equal(labels[0], 0);
    assert_int_equal(labels[1], -1);
    assert_int_equal(labels[2], 0);
    ckm_data_close(data);
    // With none that can be read there is nothing to go on with.
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d.png", i < 3 ? "a" : "b", i);
        data_files_write(f->folder, name, file, n - 40);
    }
    f->options.batch = 2;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_ERR_FORMAT);
    assert_non_null(strstr(f->err.message, "none of the 6 samples can be read"));
    ckm_data_close(data);
}

static void wrong_folders(void **state)
{
    data_fixture *f = *state;
    uint8_t pixels[PIXELS * 3] = {0};
    char path[256];
    data_files_png(f->folder, "a/1.png", SIDE, SIDE, 3, 0, pixels);
    data_files_png(f->folder, "b/1.png", SIDE, SIDE, 3, 0, pixels);
    data_files_png(f->folder, "c/1.png", SIDE, SIDE, 3, 0, pixels);
    data_fixture_refused(f, CKM_ERR_ARGUMENT, f->folder, "has 3 class folders, but the network has only 2 classes");
    f->options.labels.limit = 4;
    snprintf(path, sizeof path, "%s/d", f->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    // A folder without images is no class.
    int64_t classes = 0;
    assert_int_equal(ckm_data_count_classes(f->folder, &classes, NULL), CKM_OK);
    assert_int_equal(classes, 3);
    ckm_data *d = NULL;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &d, &f->err), CKM_OK);
    assert_int_equal(ckm_data_get_facts(d).classes, 3);
    assert_string_equal(ckm_data_class_name(d, 2), "c");
    assert_null(ckm_data_class_name(d, 3));
    ckm_data_close(d);
    f->inputs[0].shape = (ckm_shape){1, {100}};
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "", "it must have height, width");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(formats_and_order, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(colours_and_opacity, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(resizing, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(resizing_keeps_weight, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(shrinking, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(damage, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(damaged_are_left_out, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(wrong_folders, set_up, data_fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
