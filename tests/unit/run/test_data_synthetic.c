// SPDX-License-Identifier: Apache-2.0
// Data made up for a task: labels say of the inputs what the task says they do.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/data.h>

enum { BATCH = 16, LENGTH = 40, VOCABULARY = 50, SIDE = 8, PIXELS = SIDE * SIDE };

static const ckm_data_field tokens_field = {"tokens", CKM_I32, {1, {LENGTH}}, VOCABULARY};
static const ckm_data_field labels_field = {"labels", CKM_I32, {1, {LENGTH}}, VOCABULARY};

static ckm_data *open_data(const ckm_data_field *inputs, int32_t n, ckm_data_field labels, ckm_task task)
{
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    ckm_data *data = NULL;
    ckm_error err = CKM_ERROR_INIT;
    options.batch = BATCH;
    options.n_inputs = n;
    options.inputs = inputs;
    options.labels = labels;
    options.task = task;
    if (ckm_data_open("synthetic", &options, &data, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return data;
}

// Every label but the last is the token after; what follows a token is mostly always the same.
static void test_next_token(void **state)
{
    (void)state;
    static int32_t tokens[BATCH][LENGTH];
    static int32_t labels[BATCH][LENGTH];
    static int follows[VOCABULARY][VOCABULARY];
    ckm_data *data = open_data(&tokens_field, 1, labels_field, CKM_TASK_NEXT_TOKEN);
    int total = 0;
    int usual = 0;
    memset(follows, 0, sizeof follows);
    for (int64_t step = 0; step < 8; step++) {
        assert_int_equal(ckm_data_fetch(data, step, (void *const[]){tokens}, labels, NULL), CKM_OK);
        for (int i = 0; i < BATCH; i++) {
            for (int k = 0; k < LENGTH; k++) {
                assert_in_range(tokens[i][k], 0, VOCABULARY - 1);
                assert_in_range(labels[i][k], 0, VOCABULARY - 1);
                assert_true(k + 1 == LENGTH || labels[i][k] == tokens[i][k + 1]);
                follows[tokens[i][k]][labels[i][k]]++;
                total++;
            }
        }
    }
    for (int a = 0; a < VOCABULARY; a++) {
        int most = 0;
        for (int b = 0; b < VOCABULARY; b++) {
            most = follows[a][b] > most ? follows[a][b] : most;
        }
        usual += most;
    }
    // Seven in eight, and a few by chance.
    assert_in_range(100 * usual / total, 84, 93);
    ckm_data_close(data);
}

// What is hidden is what the labels ask for; the rest is there to be read.
static void test_masked_token(void **state)
{
    (void)state;
    static int32_t tokens[BATCH][LENGTH];
    static int32_t segments[BATCH][LENGTH];
    static int32_t labels[BATCH][LENGTH];
    const ckm_data_field inputs[2] = {tokens_field, {"segments", CKM_I32, {1, {LENGTH}}, 2}};
    ckm_data *data = open_data(inputs, 2, labels_field, CKM_TASK_MASKED_TOKEN);
    int hidden = 0;
    for (int64_t step = 0; step < 8; step++) {
        assert_int_equal(ckm_data_fetch(data, step, (void *const[]){tokens, segments}, labels, NULL), CKM_OK);
        for (int i = 0; i < BATCH; i++) {
            int of_sample = 0;
            for (int k = 0; k < LENGTH; k++) {
                assert_in_range(segments[i][k], 0, 1);
                assert_true(labels[i][k] >= -1 && labels[i][k] < VOCABULARY);
                assert_true(labels[i][k] < 0 || tokens[i][k] == VOCABULARY - 1);
                of_sample += labels[i][k] >= 0;
            }
            assert_true(of_sample >= 1);
            hidden += of_sample;
        }
    }
    assert_in_range(100 * hidden / (8 * BATCH * LENGTH), 12, 21);
    ckm_data_close(data);
}

// The image is what is left of it plus the target, a unit normal, weighted by the time.
static void test_denoise(void **state)
{
    (void)state;
    static float image[BATCH][PIXELS];
    static float time[BATCH];
    static float noise[BATCH][PIXELS];
    const ckm_data_field inputs[2] = {{"input", CKM_F32, {3, {SIDE, SIDE, 1}}, 0}, {"time", CKM_F32, {0, {0}}, 0}};
    const ckm_data_field target = {"target", CKM_F32, {3, {SIDE, SIDE, 1}}, 0};
    ckm_data *data = open_data(inputs, 2, target, CKM_TASK_DENOISE);
    double sum = 0.0;
    double squares = 0.0;
    int n = 0;
    for (int64_t step = 0; step < 8; step++) {
        assert_int_equal(ckm_data_fetch(data, step, (void *const[]){image, time}, noise, NULL), CKM_OK);
        for (int i = 0; i < BATCH; i++) {
            double kept = 1.0;
            assert_true(time[i] >= 0.0F && time[i] < 1000.0F);
            for (int t = 0; t <= (int)time[i]; t++) {
                kept *= 1.0 - (1e-4 + (0.02 - 1e-4) * t / 999.0);
            }
            for (int p = 0; p < PIXELS; p++) {
                // Waves along three axes and a little noise: never beyond 2.
                double clean = (double)image[i][p] - sqrt(1.0 - kept) * (double)noise[i][p];
                assert_true(fabs(clean) <= 2.01 * sqrt(kept) + 1e-5);
                sum += (double)noise[i][p];
                squares += (double)noise[i][p] * (double)noise[i][p];
                n++;
            }
        }
    }
    assert_true(fabs(sum / n) < 0.05);
    assert_true(fabs(squares / n - 1.0) < 0.1);
    ckm_data_close(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_token),
        cmocka_unit_test(test_masked_token),
        cmocka_unit_test(test_denoise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
