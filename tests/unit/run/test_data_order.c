// SPDX-License-Identifier: Apache-2.0
// Order of samples, batches, reading ahead, and the synthetic data.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"
#include "run/data/data.h"

enum { HEIGHT = 4, WIDTH = 3, IMAGE = HEIGHT * WIDTH, SAMPLES = 23 };

static void shuffle_is_a_permutation(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 1000, 4097};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        int64_t n = sizes[k];
        char *seen = calloc((size_t)n, 1);
        assert_non_null(seen);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = ckm_i_data_shuffle(i, n, 42, 3);
            assert_true(at >= 0 && at < n);
            assert_int_equal(seen[at], 0);
            seen[at] = 1;
        }
        free(seen);
    }
}

// Orders of other epochs and seeds have few places in common, and neighbours do not stay together.
static void shuffle_mixes(void **state)
{
    (void)state;
    enum { N = 1000 };
    int fixed = 0;
    int same_epoch = 0;
    int same_seed = 0;
    int neighbours = 0;
    for (int64_t i = 0; i < N; i++) {
        int64_t at = ckm_i_data_shuffle(i, N, 1, 0);
        fixed += at == i;
        same_epoch += at == ckm_i_data_shuffle(i, N, 1, 1);
        same_seed += at == ckm_i_data_shuffle(i, N, 2, 0);
        neighbours += i > 0 && llabs(at - ckm_i_data_shuffle(i - 1, N, 1, 0)) == 1;
    }
    assert_in_range(fixed, 0, 12);
    assert_in_range(same_epoch, 0, 12);
    assert_in_range(same_seed, 0, 12);
    assert_in_range(neighbours, 0, 16);
}

// Every pixel of sample i is i; its label is i % 10.
static int set_up(void **state)
{
    static data_fixture f;
    static const uint32_t image_dims[] = {SAMPLES, HEIGHT, WIDTH};
    static const uint32_t label_dims[] = {SAMPLES};
    uint8_t pixels[SAMPLES * IMAGE];
    uint8_t labels[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        memset(pixels + (ptrdiff_t)i * IMAGE, i, IMAGE);
        labels[i] = (uint8_t)(i % 10);
    }
    data_fixture_open(state, &f, (ckm_shape){3, {HEIGHT, WIDTH, 1}}, 5, 10);
    f.options.keep_order = false;
    data_files_idx(f.folder, "train-images-idx3-ubyte", 3, image_dims, pixels);
    data_files_idx(f.folder, "train-labels-idx1-ubyte", 1, label_dims, labels);
    return 0;
}

static ckm_data *open_data(const data_fixture *f)
{
    ckm_data *data = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_data_open(f->folder, &f->options, &data, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    return data;
}

static void fetch(ckm_data *data, int64_t step, float *images, int32_t *labels)
{
    void *inputs[] = {images};
    assert_int_equal(ckm_data_fetch(data, step, inputs, labels, NULL), CKM_OK);
}

static int sample_of(const float *image)
{
    return (int)(image[0] * 255.0F + 0.5F);
}

// An epoch shows no sample twice, image and label belong together, the rest is left for another epoch.
static void epoch_shows_each_sample_once(void **state)
{
    data_fixture *f = *state;
    float images[5 * IMAGE];
    int32_t labels[5];
    int seen_ever[SAMPLES] = {0};
    ckm_data *data = open_data(f);
    ckm_data_facts facts = ckm_data_get_facts(data);
    assert_string_equal(facts.format, "idx");
    assert_int_equal(facts.samples, SAMPLES);
    assert_int_equal(facts.batches, 4);
    assert_int_equal(facts.classes, 10);
    assert_true(facts.bytes >= 5 * (IMAGE * 4 + 4));
    for (int epoch = 0; epoch < 30; epoch++) {
        int seen[SAMPLES] = {0};
        for (int b = 0; b < 4; b++) {
            fetch(data, epoch * 4 + b, images, labels);
            for (int i = 0; i < 5; i++) {
                int sample = sample_of(images + (ptrdiff_t)i * IMAGE);
                assert_in_range(sample, 0, SAMPLES - 1);
                assert_int_equal(labels[i], sample % 10);
                assert_int_equal(seen[sample]++, 0);
                seen_ever[sample]++;
            }
        }
    }
    for (int i = 0; i < SAMPLES; i++) {
        assert_true(seen_ever[i] > 0);
    }
    ckm_data_close(data);
}

// A step's batch is the same whatever was fetched before, and in another process.
static void any_step_at_any_time(void **state)
{
    data_fixture *f = *state;
    float images[5 * IMAGE];
    float again[5 * IMAGE];
    int32_t labels[5];
    ckm_data *data = open_data(f);
    fetch(data, 7, images, labels);
    fetch(data, 8, again, labels);
    fetch(data, 2, again, labels);
    fetch(data, 7, again, labels);
    assert_memory_equal(images, again, sizeof images);
    ckm_data_close(data);
    data = open_data(f);
    for (int step = 0; step <= 7; step++) {
        fetch(data, step, again, labels);
    }
    assert_memory_equal(images, again, sizeof images);
    ckm_data_close(data);
    f->options.seed = 9;
    data = open_data(f);
    fetch(data, 7, again, labels);
    assert_memory_not_equal(images, again, sizeof images);
    ckm_data_close(data);
}

static void kept_order(void **state)
{
    data_fixture *f = *state;
    float images[5 * IMAGE];
    int32_t labels[5];
    f->options.keep_order = true;
    ckm_data *data = open_data(f);
    for (int step = 0; step < 8; step++) {
        fetch(data, step, images, labels);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(sample_of(images + (ptrdiff_t)i * IMAGE), step % 4 * 5 + i);
        }
    }
    ckm_data_close(data);
}

static void batch_larger_than_the_data(void **state)
{
    data_fixture *f = *state;
    ckm_data *data = NULL;
    ckm_error err = CKM_ERROR_INIT;
    f->options.batch = SAMPLES + 1;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &err), CKM_ERR_ARGUMENT);
    assert_null(data);
    assert_non_null(strstr(err.message, "less than one batch of 24"));
}

// Samples of a class are nearer to the mean of their class than to the others': there is something to learn.
static void synthetic_can_be_learnt(void **state)
{
    (void)state;
    enum { CLASSES = 4, N = 200, SIZE = 8 * 8 * 3 };
    ckm_data_field input = {"x", CKM_F32, {3, {8, 8, 3}}, 0};
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    options.batch = N;
    options.n_inputs = 1;
    options.inputs = &input;
    options.labels.limit = CLASSES;
    ckm_data *data = NULL;
    assert_int_equal(ckm_data_open("synthetic", &options, &data, NULL), CKM_OK);
    assert_int_equal(ckm_data_get_facts(data).classes, CLASSES);
    float *images = calloc(N * SIZE, sizeof *images);
    double *means = calloc(CLASSES * SIZE, sizeof *means);
    int32_t *labels = calloc(N, sizeof *labels);
    int counts[CLASSES] = {0};
    assert_non_null(images);
    assert_non_null(means);
    assert_non_null(labels);
    fetch(data, 0, images, labels);
    for (int i = 0; i < N; i++) {
        counts[labels[i]]++;
        for (int e = 0; e < SIZE; e++) {
            means[labels[i] * SIZE + e] += images[i * SIZE + e];
        }
    }
    int right = 0;
    for (int i = 0; i < N; i++) {
        int best = -1;
        double best_distance = 1e300;
        for (int c = 0; c < CLASSES; c++) {
            double distance = 0;
            assert_true(counts[c] > 20);
            for (int e = 0; e < SIZE; e++) {
                double d = images[i * SIZE + e] - means[c * SIZE + e] / counts[c];
                distance += d * d;
            }
            best = distance < best_distance ? c : best;
            best_distance = distance < best_distance ? distance : best_distance;
        }
        right += best == labels[i];
    }
    assert_true(right > N * 95 / 100);
    ckm_data_close(data);
    free(images);
    free(means);
    free(labels);
}

// Class maps, tokens, targets: everything a network may ask for is there and in range.
static void synthetic_fields(void **state)
{
    (void)state;
    ckm_data_field inputs[] = {{"tokens", CKM_I64, {1, {16}}, 50}, {"image", CKM_F32, {2, {4, 4}}, 0}};
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    options.batch = 8;
    options.n_inputs = 2;
    options.inputs = inputs;
    options.labels = (ckm_data_field){"labels", CKM_I32, {1, {16}}, 3};
    ckm_data *data = NULL;
    int64_t tokens[8 * 16];
    float image[8 * 16];
    int32_t labels[8 * 16];
    void *to[] = {tokens, image};
    assert_int_equal(ckm_data_open("synthetic", &options, &data, NULL), CKM_OK);
    assert_int_equal(ckm_data_fetch(data, 0, to, labels, NULL), CKM_OK);
    for (int i = 0; i < 8 * 16; i++) {
        assert_in_range(tokens[i], 0, 49);
        assert_in_range(labels[i], 0, 2);
        assert_true(image[i] > -10 && image[i] < 10);
    }
    ckm_data_close(data);
}

static void no_data(void **state)
{
    (void)state;
    char folder[64];
    ckm_data_field input = {"x", CKM_F32, {3, {8, 8, 3}}, 0};
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    options.n_inputs = 1;
    options.inputs = &input;
    ckm_data *data = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_data_open("/nowhere", &options, &data, &err), CKM_ERR_IO);
    assert_int_equal(ckm_data_open("/dev/null", &options, &data, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "is not a folder"));
    data_files_folder(folder, sizeof folder);
    assert_int_equal(ckm_data_open(folder, &options, &data, &err), CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "x.npy and y.npy"));
    assert_string_equal(err.file, folder);
    assert_null(data);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(shuffle_mixes),
        cmocka_unit_test_setup_teardown(epoch_shows_each_sample_once, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(any_step_at_any_time, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(kept_order, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(batch_larger_than_the_data, set_up, data_fixture_close),
        cmocka_unit_test(synthetic_can_be_learnt),
        cmocka_unit_test(synthetic_fields),
        cmocka_unit_test(no_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
