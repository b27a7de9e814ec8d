// SPDX-License-Identifier: Apache-2.0
// The formats: what comes out of sound files, and what is said of the others.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"
#include "run/data/data.h"

static int set_up(void **state)
{
    static data_fixture f;
    return data_fixture_open(state, &f, (ckm_shape){3, {2, 2, 1}}, 2, 3);
}

static void near(float a, double b)
{
    if (!(a - b < 1e-5 && b - a < 1e-5)) {
        fail_msg("%g where %g was expected", (double)a, b);
    }
}

static const uint8_t four_pixels[] = {0, 51, 102, 255, 255, 204, 153, 0};

static void write_idx(const data_fixture *f, uint8_t label)
{
    const uint32_t image_dims[] = {2, 2, 2};
    const uint32_t label_dims[] = {2};
    const uint8_t labels[] = {2, label};
    data_files_idx(f->folder, "train-images-idx3-ubyte", 3, image_dims, four_pixels);
    data_files_idx(f->folder, "train-labels-idx1-ubyte", 1, label_dims, labels);
}

static void idx_values(void **state)
{
    data_fixture *f = *state;
    float images[8];
    int32_t labels[2];
    write_idx(f, 1);
    data_fixture_read(f, images, labels);
    for (int i = 0; i < 8; i++) {
        near(images[i], four_pixels[i] / 255.0);
    }
    assert_int_equal(labels[0], 2);
    assert_int_equal(labels[1], 1);
    f->options.scaling = CKM_SCALING_SYMMETRIC;
    data_fixture_read(f, images, labels);
    for (int i = 0; i < 8; i++) {
        near(images[i], four_pixels[i] / 127.5 - 1);
    }
    // One vector a sample.
    f->inputs[0].shape = (ckm_shape){1, {4}};
    data_fixture_read(f, images, labels);
    near(images[1], 51 / 127.5 - 1);
    // In colours, each as bright as the grey, by ImageNet's figures.
    f->inputs[0].shape = (ckm_shape){3, {3, 2, 2}};
    f->options.layout = CKM_CHANNELS_FIRST;
    f->options.scaling = CKM_SCALING_IMAGENET;
    f->options.resize = true;
    float colours[24];
    data_fixture_read(f, colours, labels);
    near(colours[0 * 4 + 1], (0.2 - 0.485) / 0.229);
    near(colours[1 * 4 + 1], (0.2 - 0.456) / 0.224);
    near(colours[2 * 4 + 1], (0.2 - 0.406) / 0.225);
}

static void idx_refused(void **state)
{
    data_fixture *f = *state;
    const uint32_t three[] = {3};
    const uint8_t labels[] = {0, 0, 0};
    write_idx(f, 3);
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "train-labels-idx1-ubyte", "sample 1: label 3 is out of range");
    data_files_idx(f->folder, "train-labels-idx1-ubyte", 1, three, labels);
    data_fixture_refused(f, CKM_ERR_FORMAT, "train-labels-idx1-ubyte", "3 labels for the 2 images");
    write_idx(f, 1);
    f->inputs[0].shape = (ckm_shape){3, {8, 8, 3}};
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "train-images-idx3-ubyte",
                         "2x2x1 (height, width, channels), but the network takes 8x8x3");
    f->inputs[0].shape = (ckm_shape){3, {2, 2, 1}};
    data_files_write(f->folder, "train-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\2\1\2\3", 19);
    data_fixture_refused(f, CKM_ERR_FORMAT, "train-images-idx3-ubyte", "holds 3 bytes of data, but its header says 8");
    data_files_write(f->folder, "train-images-idx3-ubyte", "\0\0\x0d\x03", 4);
    data_fixture_refused(f, CKM_ERR_UNSUPPORTED, "train-images-idx3-ubyte", "0x0d");
    data_files_write(f->folder, "train-images-idx3-ubyte", "PNG!", 4);
    data_fixture_refused(f, CKM_ERR_FORMAT, "train-images-idx3-ubyte", "is not an IDX file");
    data_files_write(f->folder, "train-images-idx3-ubyte",
                     "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
    data_fixture_refused(f, CKM_ERR_FORMAT, "train-images-idx3-ubyte", "impossible");
    write_idx(f, 1);
    f->options.labels.shape = (ckm_shape){1, {4}};
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "", "a class for every position");
    f->options.labels.shape.rank = 0;
    f->inputs[0].dtype = CKM_I64;
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "", "one for each input");
}

static void idx_compressed(void **state)
{
    data_fixture *f = *state;
    data_files_write(f->folder, "train-images-idx3-ubyte.gz", "\x1f\x8b", 2);
    data_fixture_refused(f, CKM_ERR_UNSUPPORTED, "", "gunzip");
}

// A label that goes bad between opening and reading is an error of that step, not of the program.
static void changed_meanwhile(void **state)
{
    data_fixture *f = *state;
    ckm_data *data = NULL;
    float images[8];
    int32_t labels[2];
    void *inputs[] = {images};
    write_idx(f, 1);
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
    write_idx(f, 77);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "label 77"));
    write_idx(f, 1);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_OK);
    ckm_data_close(data);
}

static void cifar(void **state)
{
    data_fixture *f = *state;
    enum { RECORD = 3073, N = 3 };
    uint8_t *records = calloc(N, RECORD + 1);
    float *images = calloc(2 * 3072, sizeof *images);
    int32_t labels[2];
    assert_non_null(records);
    assert_non_null(images);
    for (int i = 0; i < N; i++) {
        records[i * RECORD] = (uint8_t)i;
        for (int e = 0; e < 3072; e++) {
            records[i * RECORD + 1 + e] = (uint8_t)(e / 1024 * 50 + e % 32 + i);
        }
    }
    data_files_write(f->folder, "data_batch_1.bin", records, RECORD);
    data_files_write(f->folder, "data_batch_2.bin", records + RECORD, 2 * RECORD);
    f->inputs[0].shape = (ckm_shape){3, {32, 32, 3}};
    f->options.labels.limit = 10;
    data_fixture_read(f, images, labels);
    assert_int_equal(labels[0], 0);
    assert_int_equal(labels[1], 1);
    near(images[3072 + (5 * 32 + 7) * 3 + 2], (2 * 50 + 7 + 1) / 255.0);
    f->options.labels.limit = 9;
    data_fixture_refused(f, CKM_ERR_ARGUMENT, f->folder, "holds 10 classes, but the network has only 9");
    f->options.labels.limit = 10;
    records[RECORD] = 10;
    data_files_write(f->folder, "data_batch_2.bin", records + RECORD, 2 * RECORD);
    data_fixture_refused(f, CKM_ERR_FORMAT, "data_batch_2.bin", "sample 0: label 10 is out of range");
    data_files_write(f->folder, "data_batch_2.bin", records, RECORD + 1);
    data_fixture_refused(f, CKM_ERR_FORMAT, "data_batch_2.bin", "not a whole number of records");
    free(records);
    free(images);
}

static void cifar_100(void **state)
{
    data_fixture *f = *state;
    enum { RECORD = 3074 };
    uint8_t *records = calloc(2, RECORD);
    float *images = calloc(2 * 3072, sizeof *images);
    int32_t labels[2];
    assert_non_null(records);
    assert_non_null(images);
    records[0] = 3;
    records[1] = 42;
    records[RECORD + 1] = 99;
    data_files_write(f->folder, "train.bin", records, 2 * RECORD);
    f->inputs[0].shape = (ckm_shape){3, {32, 32, 3}};
    f->options.labels.limit = 100;
    data_fixture_read(f, images, labels);
    assert_int_equal(labels[0], 42);
    assert_int_equal(labels[1], 99);
    free(records);
    free(images);
}

static void npy_reals(void **state)
{
    data_fixture *f = *state;
    const float x[] = {1, 2, 3, 4, -5, 6.5F, 7, 8};
    const int64_t y[] = {2, -1};
    float images[8];
    int32_t labels[2];
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 2, 2, 1)", x, sizeof x);
    data_files_npy(f->folder, "y.npy", "<i8", "(2,)", y, sizeof y);
    data_fixture_read(f, images, labels);
    assert_memory_equal(images, x, sizeof x);
    assert_int_equal(labels[0], 2);
    assert_int_equal(labels[1], -1);
    // Targets instead of classes.
    const double targets[] = {0.5, -1.25, 3, 4};
    float wanted[4];
    f->options.labels = (ckm_data_field){"target", CKM_F32, {1, {2}}, 0};
    data_files_npy(f->folder, "y.npy", "<f8", "(2, 2)", targets, sizeof targets);
    data_fixture_read(f, images, (int32_t *)(void *)wanted);
    near(wanted[1], -1.25);
    near(wanted[3], 4);
}

static void npy_pixels(void **state)
{
    data_fixture *f = *state;
    uint8_t x[2 * 2 * 2 * 3];
    const uint8_t y[] = {0, 1};
    float images[24];
    int32_t labels[2];
    for (int i = 0; i < 24; i++) {
        x[i] = (uint8_t)(10 * i);
    }
    data_files_npy(f->folder, "x.npy", "|u1", "(2, 2, 2, 3)", x, sizeof x);
    data_files_npy(f->folder, "y.npy", "|u1", "(2, 1)", y, sizeof y);
    f->inputs[0].shape = (ckm_shape){3, {2, 2, 3}};
    data_fixture_read(f, images, labels);
    for (int i = 0; i < 24; i++) {
        near(images[i], x[i] / 255.0);
    }
    // The same for a network with the channels first; then stored channels first.
    f->inputs[0].shape = (ckm_shape){3, {3, 2, 2}};
    f->options.layout = CKM_CHANNELS_FIRST;
    data_fixture_read(f, images, labels);
    near(images[12 + 2 * 4 + 3], x[12 + 3 * 3 + 2] / 255.0);
    data_files_npy(f->folder, "x.npy", "|u1", "(2, 3, 2, 2)", x, sizeof x);
    data_fixture_read(f, images, labels);
    for (int i = 0; i < 24; i++) {
        near(images[i], x[i] / 255.0);
    }
}

static void npy_several_inputs(void **state)
{
    data_fixture *f = *state;
    const int32_t ids[] = {1, 2, 3, 4};
    const int64_t mask[] = {0, 1, 1, 0};
    const int32_t y[] = {1, 2};
    int64_t a[4];
    int64_t b[4];
    int32_t labels[2];
    void *inputs[] = {a, b};
    ckm_data *data = NULL;
    data_files_npy(f->folder, "input_ids.npy", "<i4", "(2, 2)", ids, sizeof ids);
    data_files_npy(f->folder, "mask.npy", "<i8", "(2, 2)", mask, sizeof mask);
    data_files_npy(f->folder, "y.npy", "<i4", "(2,)", y, sizeof y);
    f->inputs[0] = (ckm_data_field){"input_ids", CKM_I64, {1, {2}}, 5};
    f->inputs[1] = (ckm_data_field){"mask", CKM_I64, {1, {2}}, 0};
    f->options.n_inputs = 2;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_OK);
    assert_int_equal(a[3], 4);
    assert_int_equal(b[2], 1);
    ckm_data_close(data);
    f->inputs[0].limit = 4;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, labels, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "value 4 is out of range"));
    ckm_data_close(data);
}

static void npy_refused(void **state)
{
    data_fixture *f = *state;
    const float x[8] = {0};
    const int64_t y[] = {0, 3};
    data_files_npy(f->folder, "y.npy", "<i8", "(2,)", y, sizeof y);
    data_fixture_refused(f, CKM_ERR_IO, "x.npy", "cannot open");
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 2, 2, 1)", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "y.npy", "sample 1: label 3 is out of range");
    data_files_npy(f->folder, "y.npy", "<i8", "(2,)", x, 16);
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 4, 1)", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "x.npy", "a sample has shape 4x1, but \"x\" of the network takes 2x2x1");
    data_files_npy(f->folder, "x.npy", "<f4", "(1, 2, 2, 2)", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "holds 1 samples, but \"y.npy\" holds 2");
    data_files_npy(f->folder, "x.npy", "<c8", "(2, 2, 2, 1)", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_UNSUPPORTED, "x.npy", "'<c8' is not supported");
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 2, 2, 1)", x, sizeof x - 4);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "its size does not match its shape");
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 9223372036854775807, 9)", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "too large");
    data_files_npy(f->folder, "x.npy", "<f4", "(2, two)", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "not a list");
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 2", x, sizeof x);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "not a list");
    data_files_npy(f->folder, "x.npy", "<f4", "()", x, 4);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "no samples");
    data_files_write(f->folder, "x.npy", "\x93NUMPY\x01\x00\xff\xff", 10);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "not a readable .npy file");
    data_files_write(f->folder, "x.npy", "", 0);
    data_fixture_refused(f, CKM_ERR_FORMAT, "x.npy", "not a readable .npy file");
    data_files_npy(f->folder, "x.npy", "<f4", "(2, 2, 2, 1)", x, sizeof x);
    data_files_npy(f->folder, "y.npy", "<f4", "(2,)", x, 8);
    data_fixture_refused(f, CKM_ERR_ARGUMENT, "y.npy", "labels are classes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(idx_values, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(idx_refused, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(idx_compressed, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(changed_meanwhile, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(cifar, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(cifar_100, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(npy_reals, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(npy_pixels, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(npy_several_inputs, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(npy_refused, set_up, data_fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
