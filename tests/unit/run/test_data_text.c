// SPDX-License-Identifier: Apache-2.0
// Texts: windows of bytes and of tokens, the token after each as its label, and what cannot be.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"
#include "run/data/data.h"

enum { WINDOW = 4, BATCH = 2 };

static int set_up(void **state)
{
    static data_fixture f;
    int failed = data_fixture_open(state, &f, (ckm_shape){1, {WINDOW}}, BATCH, 256);
    f.inputs[0].dtype = CKM_I32;
    f.inputs[0].limit = 256;
    f.options.labels.shape = (ckm_shape){1, {WINDOW}};
    f.options.task = CKM_TASK_NEXT_TOKEN;
    f.options.keep_order = true;
    return failed;
}

// Windows of all batches, one after the other, each as its tokens and then its labels.
static void read_text(data_fixture *f, const char *path, const char *expected)
{
    ckm_data *data = NULL;
    char text[256];
    size_t used = 0;
    if (ckm_data_open(path, &f->options, &data, &f->err) != CKM_OK) {
        fail_msg("%s: %s", f->err.file, f->err.message);
    }
    ckm_data_facts facts = ckm_data_get_facts(data);
    for (int64_t b = 0; b < facts.batches; b++) {
        int32_t tokens[BATCH * WINDOW];
        int32_t labels[BATCH * WINDOW];
        void *inputs[] = {tokens};
        assert_int_equal(ckm_data_fetch(data, b, inputs, labels, &f->err), CKM_OK);
        for (int i = 0; i < BATCH; i++) {
            for (int k = 0; k < WINDOW; k++) {
                text[used++] = (char)tokens[i * WINDOW + k];
            }
            text[used++] = '>';
            for (int k = 0; k < WINDOW; k++) {
                text[used++] = (char)labels[i * WINDOW + k];
            }
            text[used++] = ' ';
        }
    }
    text[used] = '\0';
    assert_string_equal(text, expected);
    ckm_data_close(data);
}

// Where the windows of a text of 256 different bytes begin, in the order of the text; each is followed by its labels.
static void window_starts(data_fixture *f, const ckm_i_data_share *share, int64_t epoch, int n, int starts[])
{
    char path[128];
    char text[256];
    ckm_data *data = NULL;
    for (int i = 0; i < 256; i++) {
        text[i] = (char)i;
    }
    snprintf(path, sizeof path, "%s/book", f->folder);
    data_files_write(f->folder, "book", text, sizeof text);
    assert_int_equal(ckm_i_data_open_share(path, NULL, &f->options, share, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_get_facts(data).samples, n);
    bool seen[256] = {false};
    int64_t batches = ckm_data_get_facts(data).batches;
    for (int64_t b = 0; b < batches; b++) {
        int32_t tokens[BATCH * WINDOW];
        int32_t labels[BATCH * WINDOW];
        void *inputs[] = {tokens};
        assert_int_equal(ckm_data_fetch(data, epoch * batches + b, inputs, labels, &f->err), CKM_OK);
        for (int i = 0; i < BATCH && labels[i * WINDOW] >= 0; i++) {
            assert_int_equal(labels[i * WINDOW], tokens[i * WINDOW] + 1);
            assert_int_equal(labels[i * WINDOW + WINDOW - 1], tokens[i * WINDOW] + WINDOW);
            seen[tokens[i * WINDOW]] = true;
        }
    }
    ckm_data_close(data);
    int found = 0;
    for (int i = 0; i < 256; i++) {
        if (seen[i]) {
            starts[found++] = i;
        }
    }
    for (; found < n; found++) {
        starts[found] = -1;  // of the rest smaller than a batch
    }
}

// Windows begin elsewhere in every epoch but the first, and never reach into the part that is held back.
static void windows_move(void **state)
{
    enum { ALL = 63, HELD = 16 };
    data_fixture *f = *state;
    int starts[ALL];
    int shifts[WINDOW] = {0};
    f->options.keep_order = false;
    window_starts(f, &(ckm_i_data_share){0}, 0, ALL, starts);
    assert_int_equal(starts[5] % WINDOW, 0);
    for (int64_t epoch = 1; epoch < 24; epoch++) {
        window_starts(f, &(ckm_i_data_share){0}, epoch, ALL, starts);
        shifts[starts[5] % WINDOW]++;
        for (int i = 1; i < ALL && starts[i] >= 0; i++) {
            assert_true(starts[i] % WINDOW == starts[5] % WINDOW || starts[i] == 255 - WINDOW);
        }
    }
    for (int i = 0; i < WINDOW; i++) {
        assert_true(shifts[i] > 0);
    }
    // A quarter held back is the end of the text, in every epoch the same.
    const ckm_i_data_share held = {.fraction = 0.25, .validates = true};
    const ckm_i_data_share learnt = {.fraction = 0.25};
    for (int64_t epoch = 0; epoch < 6; epoch++) {
        window_starts(f, &held, epoch, HELD, starts);
        for (int i = 0; i < HELD; i++) {
            assert_int_equal(starts[i], (ALL - HELD + i) * WINDOW);
        }
        window_starts(f, &learnt, epoch, ALL - HELD, starts);
        for (int i = 0; i < ALL - HELD; i++) {
            assert_true(starts[i] <= (ALL - HELD - 1) * WINDOW);
        }
    }
    // In the order of the text they stay.
    f->options.keep_order = true;
    window_starts(f, &(ckm_i_data_share){0}, 3, ALL, starts);
    for (int i = 0; i < ALL - 1; i++) {
        assert_int_equal(starts[i], i * WINDOW);
    }
}

static void bytes_of_a_file(void **state)
{
    data_fixture *f = *state;
    char path[128];
    int64_t tokens = 0;
    snprintf(path, sizeof path, "%s/book", f->folder);
    data_files_write(f->folder, "book", "abcdefghijkl", 12);  // 11 have a token after them: two windows
    read_text(f, path, "abcd>bcde efgh>fghi ");
    assert_int_equal(ckm_data_count_tokens(path, &tokens, NULL), CKM_OK);
    assert_int_equal(tokens, 256);
    // One byte more than the last window takes is enough, and not one less.
    data_files_write(f->folder, "book", "abcdefghi", 9);
    read_text(f, path, "abcd>bcde efgh>fghi ");
    data_files_write(f->folder, "book", "abcdefgh", 8);
    ckm_data *data = NULL;
    assert_int_equal(ckm_data_open(path, &f->options, &data, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "holds 1 samples, which is less than one batch of 2"));
    data_files_write(f->folder, "book", "abcd", 4);
    assert_int_equal(ckm_data_open(path, &f->options, &data, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "holds 4 tokens; a window of 4 and the token after it"));
}

static void files_of_a_folder(void **state)
{
    data_fixture *f = *state;
    data_files_write(f->folder, "2.txt", "XY", 2);
    data_files_write(f->folder, "3.TXT", "", 0);
    data_files_write(f->folder, "4.txt", "lmnopqrstuvw", 12);
    data_files_write(f->folder, "1.txt", "abc", 3);
    data_files_write(f->folder, "0.log", "no", 2);
    read_text(f, f->folder, "abcX>bcXY Ylmn>lmno opqr>pqrs stuv>tuvw ");
}

static void tokens_of_an_array(void **state)
{
    data_fixture *f = *state;
    char path[128];
    const uint16_t stored[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 300};
    int64_t tokens = 0;
    snprintf(path, sizeof path, "%s/tokens.npy", f->folder);
    data_files_npy(f->folder, "tokens.npy", "<u2", "(9,)", stored, sizeof stored);
    assert_int_equal(ckm_data_count_tokens(path, &tokens, NULL), CKM_OK);
    assert_int_equal(tokens, 301);
    f->inputs[0].limit = f->options.labels.limit = 301;
    read_text(f, path, "abcd>bcde efgh>fgh, ");  // 300 - 256 is a comma's code
    // Too large for the network.
    f->inputs[0].limit = f->options.labels.limit = 300;
    ckm_data *data = NULL;
    int32_t room[2][BATCH * WINDOW];
    void *inputs[] = {room[0]};
    assert_int_equal(ckm_data_open(path, &f->options, &data, &f->err), CKM_OK);
    assert_int_equal(ckm_data_fetch(data, 0, inputs, room[1], &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "token 8 is 300, which is out of range: the network takes 0 to 299"));
    ckm_data_close(data);
    data_files_npy(f->folder, "tokens.npy", "<u2", "(3, 3)", stored, sizeof stored);
    assert_int_equal(ckm_data_open(path, &f->options, &data, &f->err), CKM_ERR_FORMAT);
    assert_non_null(strstr(f->err.message, "an array of integers with one axis"));
}

static void other_networks(void **state)
{
    data_fixture *f = *state;
    ckm_data *data = NULL;
    int64_t tokens = 7;
    data_files_write(f->folder, "a.txt", "abcdefghijkl", 12);
    f->options.task = CKM_TASK_MASKED_TOKEN;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "predicts hidden tokens"));
    f->options.task = CKM_TASK_CLASSES;
    f->inputs[0].dtype = CKM_F32;
    assert_int_equal(ckm_data_open(f->folder, &f->options, &data, &f->err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(f->err.message, "reads no tokens"));
    assert_int_equal(ckm_data_count_tokens("synthetic", &tokens, NULL), CKM_OK);
    assert_int_equal(tokens, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(windows_move, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(bytes_of_a_file, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(files_of_a_folder, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(tokens_of_an_array, set_up, data_fixture_close),
        cmocka_unit_test_setup_teardown(other_networks, set_up, data_fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
