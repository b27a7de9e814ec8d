// SPDX-License-Identifier: Apache-2.0
// Convolutions on oneDNN against the reference kernels.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_script.h"

typedef struct geometry {
    int64_t n, in, h, w, out, kh, kw, stride, dilation, top, left, bottom, right, groups;
} geometry;

static const geometry geometries[] = {
    // plain, odd sizes, 1 x 1
    {2, 3, 9, 7, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 16, 8, 8, 32, 1, 1, 1, 1, 0, 0, 0, 0, 1},
    {3, 5, 6, 11, 7, 3, 5, 1, 1, 0, 0, 0, 0, 1},
    {2, 16, 12, 12, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    // strides, with and without elements that no window reads
    {2, 3, 15, 15, 16, 7, 7, 2, 1, 3, 3, 3, 3, 1},
    {2, 8, 8, 8, 8, 3, 3, 2, 1, 0, 0, 0, 0, 1},
    {2, 16, 9, 9, 32, 1, 1, 2, 1, 0, 0, 0, 0, 1},
    // asymmetric padding, as "same" gives
    {2, 4, 8, 8, 6, 3, 3, 2, 1, 0, 0, 1, 1, 1},
    {1, 17, 10, 9, 19, 2, 4, 1, 1, 0, 1, 1, 2, 1},
    // dilation
    {2, 8, 13, 13, 8, 3, 3, 1, 2, 2, 2, 2, 2, 1},
    {1, 16, 17, 17, 16, 3, 3, 1, 4, 4, 4, 4, 4, 1},
    // groups and depthwise, also with a multiplier
    {2, 12, 7, 7, 18, 3, 3, 1, 1, 1, 1, 1, 1, 3},
    {2, 32, 8, 8, 32, 3, 3, 2, 1, 1, 1, 1, 1, 32},
    {2, 19, 9, 9, 19, 3, 3, 1, 1, 1, 1, 1, 1, 19},
    {1, 8, 6, 6, 24, 3, 3, 1, 1, 1, 1, 1, 1, 8},
    {2, 16, 6, 6, 16, 5, 5, 1, 1, 2, 2, 2, 2, 16},
    // blocks of several channels, enough to be divided among threads
    {2, 64, 14, 14, 64, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 96, 5, 5, 160, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    // the same with windows that are not symmetric, so that turned weights show; more padding than a window reaches
    {2, 64, 9, 11, 32, 2, 4, 1, 1, 0, 1, 1, 2, 1},
    {1, 32, 12, 10, 64, 3, 5, 1, 2, 1, 4, 3, 0, 1},
    {1, 32, 6, 6, 32, 2, 2, 1, 1, 2, 2, 2, 2, 1},
    // weight gradients: blocks of rows, of images, the last one smaller; windows of one element that are apart
    {1, 15, 30, 40, 37, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {21, 13, 6, 6, 35, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {2, 3, 41, 45, 33, 3, 3, 2, 1, 0, 0, 1, 1, 1},
    {2, 14, 21, 50, 20, 1, 1, 3, 1, 0, 0, 0, 0, 1},
    {2, 14, 11, 12, 20, 1, 3, 2, 1, 2, 0, 1, 1, 1},
    {1, 64, 5, 40, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    // windows that read nothing but padding; panels of one to three lanes that are apart, in whole cache lines
    {2, 16, 1, 1, 8, 1, 1, 3, 1, 0, 1, 0, 1, 1},
    {1, 1, 25, 32, 8, 1, 1, 8, 1, 0, 0, 0, 0, 1},
    {1, 2, 25, 32, 8, 1, 1, 8, 1, 0, 0, 0, 0, 1},
    {16, 3, 25, 32, 8, 1, 1, 8, 1, 0, 0, 0, 0, 1},
    // windows that reach beyond the image: far, too far for oneDNN, as far as they may
    {1, 20, 3, 3, 8, 2, 2, 1, 100, 0, 0, 100, 100, 1},
    {1, 20, 2, 3, 8, 2, 2, 1, 70000, 70000, 1, 0, 69999, 1},
    {1, 20, 1, 1, 8, 2, 2, 1, 1073741823, 0, 0, 1073741823, 1073741823, 1},
    {2, 5, 4, 3, 8, 2, 2, 1073741823, 1073741823, 1073741823, 5, 1, 1073741823, 1},
};

enum { TEXT = 1024 };

static int64_t output_size(int64_t in, int64_t k, const geometry *g, int64_t pads)
{
    return (in + pads - ((k - 1) * g->dilation + 1)) / g->stride + 1;
}

static void write_image(char *text, int64_t n, int64_t c, int64_t h, int64_t w, bool last, char by)
{
    if (last) {
        snprintf(text, TEXT, "%lld%c%lld%c%lld%c%lld", (long long)n, by, (long long)h, by, (long long)w, by,
                 (long long)c);
    } else {
        snprintf(text, TEXT, "%lld%c%lld%c%lld%c%lld", (long long)n, by, (long long)c, by, (long long)h, by,
                 (long long)w);
    }
}

// Channels last: kh, kw, first, second; channels first: second, first, kh, kw.
static void write_weight(char *text, const geometry *g, int64_t first, int64_t second, bool last, char by)
{
    int64_t dims[4] = {g->kh, g->kw, first, second};
    if (!last) {
        dims[0] = second;
        dims[1] = first;
        dims[2] = g->kh;
        dims[3] = g->kw;
    }
    snprintf(text, TEXT, "%lld%c%lld%c%lld%c%lld", (long long)dims[0], by, (long long)dims[1], by, (long long)dims[2],
             by, (long long)dims[3]);
}

static void write_window(char *text, const geometry *g)
{
    snprintf(text, TEXT,
             "kernel=%lld,%lld strides=%lld,%lld dilation=%lld,%lld padding=%lld,%lld,%lld,%lld groups=%lld",
             (long long)g->kh, (long long)g->kw, (long long)g->stride, (long long)g->stride, (long long)g->dilation,
             (long long)g->dilation, (long long)g->top, (long long)g->left, (long long)g->bottom, (long long)g->right,
             (long long)g->groups);
}

static void check_all(const char *script, bool last)
{
    ckm_layout layout = last ? CKM_CHANNELS_LAST : CKM_CHANNELS_FIRST;
    assert_true(kernel_script_is_own(script, layout));
    for (int threads = 1; threads <= 2; threads++) {
        kernel_script_check(script, layout, threads, 1e-5);
    }
}

static void check_conv(const geometry *g, bool last)
{
    char x[TEXT], y[TEXT], weight[TEXT], window[TEXT], x_list[TEXT], weight_list[TEXT], script[8 * TEXT];
    int64_t oh = output_size(g->h, g->kh, g, g->top + g->bottom);
    int64_t ow = output_size(g->w, g->kw, g, g->left + g->right);
    write_image(x, g->n, g->in, g->h, g->w, last, 'x');
    write_image(x_list, g->n, g->in, g->h, g->w, last, ',');
    write_image(y, g->n, g->out, oh, ow, last, 'x');
    write_weight(weight, g, g->in / g->groups, g->out, last, 'x');
    write_weight(weight_list, g, g->in / g->groups, g->out, last, ',');
    write_window(window, g);
    snprintf(script, sizeof script, "in %s;in %s;in %lld;conv 0 1 2 > 1 %s", x, weight, (long long)g->out, window);
    check_all(script, last);
    snprintf(script, sizeof script, "in %s;in %s;conv 0 1 > 1 %s", x, weight, window);
    check_all(script, last);
    snprintf(script, sizeof script, "in %s;in %s;conv_backward_data 0 1 > 1 %s input_shape=%s", y, weight, window,
             x_list);
    check_all(script, last);
    snprintf(script, sizeof script, "in %s;in %s;conv_backward_weights 0 1 > 1 %s weight_shape=%s", y, x, window,
             weight_list);
    check_all(script, last);
}

static void test_conv(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof geometries / sizeof geometries[0]; i++) {
        check_conv(&geometries[i], true);
        check_conv(&geometries[i], false);
    }
}

// Here g.h and g.w are the sizes of the operator's input, and `extra` makes its output larger.
static void check_transpose(const geometry *g, int64_t extra, bool last)
{
    char x[TEXT], y[TEXT], weight[TEXT], window[TEXT], x_list[TEXT], weight_list[TEXT], script[8 * TEXT];
    int64_t oh = (g->h - 1) * g->stride + (g->kh - 1) * g->dilation + 1 - g->top - g->bottom + extra;
    int64_t ow = (g->w - 1) * g->stride + (g->kw - 1) * g->dilation + 1 - g->left - g->right + extra;
    write_image(x, g->n, g->in, g->h, g->w, last, 'x');
    write_image(x_list, g->n, g->in, g->h, g->w, last, ',');
    write_image(y, g->n, g->out, oh, ow, last, 'x');
    write_weight(weight, g, g->out / g->groups, g->in, last, 'x');
    write_weight(weight_list, g, g->out / g->groups, g->in, last, ',');
    write_window(window, g);
    snprintf(window + strlen(window), TEXT - strlen(window), " output_size=%lld,%lld", (long long)oh, (long long)ow);
    snprintf(script, sizeof script, "in %s;in %s;in %lld;conv_transpose 0 1 2 > 1 %s", x, weight, (long long)g->out,
             window);
    check_all(script, last);
    snprintf(script, sizeof script, "in %s;in %s;conv_transpose_backward_data 0 1 > 1 %s input_shape=%s", y, weight,
             window, x_list);
    check_all(script, last);
    snprintf(script, sizeof script, "in %s;in %s;conv_transpose_backward_weights 0 1 > 1 %s weight_shape=%s", y, x,
             window, weight_list);
    check_all(script, last);
}

static void test_conv_transpose(void **state)
{
    (void)state;
    static const struct {
        geometry g;
        int64_t extra;
    } cases[] = {
        {{2, 8, 5, 5, 12, 2, 2, 2, 1, 0, 0, 0, 0, 1}, 0},
        {{1, 6, 4, 7, 5, 4, 4, 2, 1, 1, 1, 1, 1, 1}, 0},
        {{2, 16, 6, 6, 16, 3, 3, 2, 1, 1, 1, 1, 1, 1}, 1},
        {{2, 8, 5, 5, 8, 3, 3, 1, 1, 1, 1, 1, 1, 2}, 0},
        {{1, 21, 3, 3, 21, 16, 16, 8, 1, 4, 4, 4, 4, 1}, 0},
        // much larger than the windows reach
        {{1, 16, 5, 5, 16, 2, 2, 2, 1, 0, 0, 0, 0, 1}, 40},
        {{2, 8, 3, 4, 8, 3, 3, 1, 1, 1, 1, 1, 1, 1}, 17},
        {{1, 8, 3, 3, 8, 1, 1, 3, 1, 0, 0, 0, 0, 2}, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check_transpose(&cases[i].g, cases[i].extra, true);
        check_transpose(&cases[i].g, cases[i].extra, false);
    }
}

// One and three spatial axes.
static void test_other_ranks(void **state)
{
    (void)state;
    check_all("in 2x9x4;in 3x4x8;in 8;conv 0 1 2 > 1 strides=2 dilation=1 padding=1,1 groups=1", true);
    check_all("in 2x4x9;in 8x4x3;in 8;conv 0 1 2 > 1 strides=2 dilation=1 padding=1,1 groups=1", false);
    check_all("in 1x4x5x6x3;in 2x3x3x3x8;conv 0 1 > 1 strides=1,1,2 dilation=1,1,1 padding=0,1,1,1,1,1 groups=1", true);
    check_all("in 1x3x4x5x6;in 8x3x2x3x3;conv 0 1 > 1 strides=1,1,2 dilation=1,1,1 padding=0,1,1,1,1,1 groups=1",
              false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv),
        cmocka_unit_test(test_conv_transpose),
        cmocka_unit_test(test_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
