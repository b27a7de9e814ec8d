// SPDX-License-Identifier: Apache-2.0
// Operators whose numbers depend on many: softmax, normalizations, pooling, losses. The reference kernel and the fast one
// against formulas in double precision, forward and backward, on numbers of every magnitude, ties, zeros of either sign,
// infinities and NaN.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "formula_check.h"

// Large structures, once.
static formula_wanted results[FORMULA_RESULTS];
static formula_operands given;
static float x[FORMULA_MOST], dy[FORMULA_MOST], y[FORMULA_MOST], means[FORMULA_MOST], inverse[FORMULA_MOST],
    gamma_of[FORMULA_MOST], beta_of[FORMULA_MOST];

static void forget(void)
{
    memset(results, 0, sizeof results);
    memset(&given, 0, sizeof given);
}

// ---- softmax and its logarithm

typedef struct line {
    int at, n, step;
} line;

static double top_of(line l)
{
    double top = (double)x[l.at];
    for (int k = 0; k < l.n; k++) {
        double value = (double)x[l.at + k * l.step];
        top = isnan(value) || value > top ? value : top;
        if (isnan(top)) {
            break;
        }
    }
    return top;
}

static double sum_of_exponentials(line l, double top)
{
    double sum = 0.0;
    for (int k = 0; k < l.n; k++) {
        sum += exp((double)x[l.at + k * l.step] - top);
    }
    return sum;
}

static void softmax_line(line l)
{
    double top = top_of(l);
    double sum = sum_of_exponentials(l, top);
    double sum_slope = 0.0;
    double sum_size = 0.0;
    double sum_dy = 0.0;
    double sum_dy_size = 0.0;
    for (int k = 0; k < l.n; k++) {
        int i = l.at + k * l.step;
        double below = (double)x[i] - top;
        double value = exp(below) / sum;
        y[i] = (float)value;
        // The argument of the exponential is rounded.
        formula_want(&results[0], i, value, isinf(below) ? value : value * (1.0 + fabs(below)));
        formula_want(&results[1], i, below - log(sum), fabs(below) + log(sum) + 1.0);
        sum_slope += (double)dy[i] * (double)y[i];
        sum_size += fabs((double)dy[i] * (double)y[i]);
        sum_dy += (double)dy[i];
        sum_dy_size += fabs((double)dy[i]);
    }
    for (int k = 0; k < l.n; k++) {
        int i = l.at + k * l.step;
        double p = (double)y[i];
        formula_want(&results[2], i, p * ((double)dy[i] - sum_slope), p * (fabs((double)dy[i]) + sum_size));
        means[i] = (float)results[1].value[i];
        // The slope of the logarithm, from the output as a float.
        double e = exp((double)means[i]);
        inverse[i] = (float)((double)dy[i] - e * sum_dy);
        beta_of[i] = (float)(fabs((double)dy[i]) + e * (1.0 + fmin(fabs((double)means[i]), 100.0)) * sum_dy_size);
    }
}

static void softmax(void **state)
{
    (void)state;
    static const struct {
        const char *shape;
        int outer, n, inner, axis;
    } cases[] = {{"5x37", 5, 37, 1, 1}, {"4x1", 4, 1, 1, 1},        {"3x7x5", 3, 7, 5, 1},
                 {"9x16", 9, 16, 1, 1}, {"2x33x4x3", 2, 33, 12, 1}, {"1x1500", 1, 1500, 1, 1}};
    static const formula_range ranges[] = {UNIT,    WIDE,  ZEROS,     SUBNORMAL, TIES,
                                           SHIFTED, LARGE, HUGE_ONES, HIDDEN,    HOLES};
    // Exponentials far below the largest may be 0.
    const double lost = 1e-37;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
            char script[128];
            int count = cases[c].outer * cases[c].n * cases[c].inner;
            forget();
            formula_fill(x, count, ranges[r], c);
            formula_fill(dy, count, UNIT, 100 + c);
            for (int o = 0; o < cases[c].outer; o++) {
                for (int i = 0; i < cases[c].inner; i++) {
                    softmax_line((line){o * cases[c].n * cases[c].inner + i, cases[c].n, cases[c].inner});
                }
            }
            given.in[0] = x;
            snprintf(script, sizeof script, "in %s;softmax 0 axis=%d", cases[c].shape, cases[c].axis);
            formula_check(script, CKM_CHANNELS_LAST, ranges[r], &given, &results[0], 1, lost);
            snprintf(script, sizeof script, "in %s;log_softmax 0 axis=%d", cases[c].shape, cases[c].axis);
            formula_check(script, CKM_CHANNELS_LAST, ranges[r], &given, &results[1], 1, lost);
            given.in[0] = dy;
            given.in[1] = y;
            snprintf(script, sizeof script, "in %s;in %s;softmax_backward 0 1 axis=%d", cases[c].shape, cases[c].shape,
                     cases[c].axis);
            formula_check(script, CKM_CHANNELS_LAST, ranges[r], &given, &results[2], 1, lost);
            for (int i = 0; i < count; i++) {
                formula_want(&results[0], i, (double)inverse[i], (double)beta_of[i]);
                if (isnan(means[i])) {
                    formula_want_no_number(&results[0], i);  // oneDNN's exponential of NaN is infinite
                }
            }
            given.in[1] = means;
            snprintf(script, sizeof script, "in %s;in %s;log_softmax_backward 0 1 axis=%d", cases[c].shape,
                     cases[c].shape, cases[c].axis);
            formula_check(script, CKM_CHANNELS_LAST, ranges[r], &given, &results[0], 1, lost);
        }
    }
}

// ---- normalizations: statistics over groups of elements, a scale and a bias for every channel

typedef struct norm {
    const char *kind, *shape, *attributes, *statistics;
    ckm_layout layout;
    int samples, positions, channels;
    int groups;  // of channels, in every sample; 0: statistics are those of channels, over samples and positions

} norm;

static int channel_of(const norm *c, int i)
{
    return c->layout == CKM_CHANNELS_LAST ? i % c->channels : i / c->positions % c->channels;
}

static int statistic_of(const norm *c, int i)
{
    int channel = channel_of(c, i);
    return c->groups == 0 ? channel
                          : i / (c->positions * c->channels) * c->groups + channel / (c->channels / c->groups);
}

static void norm_forward(const norm *c, double epsilon)
{
    int n = c->samples * c->positions * c->channels;
    int n_statistics = c->groups == 0 ? c->channels : c->samples * c->groups;
    double per = (double)n / n_statistics;
    for (int s = 0; s < n_statistics; s++) {
        double sum = 0.0;
        double magnitudes = 0.0;
        double squares = 0.0;
        double most = 0.0;
        for (int i = 0; i < n; i++) {
            sum += statistic_of(c, i) == s ? (double)x[i] : 0.0;
            magnitudes += statistic_of(c, i) == s ? fabs((double)x[i]) : 0.0;
            most = statistic_of(c, i) == s ? fmax(most, fabs((double)x[i])) : most;
        }
        double mean = sum / per;
        for (int i = 0; i < n; i++) {
            squares += statistic_of(c, i) == s ? ((double)x[i] - mean) * ((double)x[i] - mean) : 0.0;
        }
        double variance = squares / per;
        double inverse_deviation = 1.0 / sqrt(variance + epsilon);
        // A mean rounded to a float moves the variance by the square of the error.
        double rounded = most * 6e-8 * inverse_deviation;
        double slack = 1.0 + rounded * rounded / 4e-6;
        formula_want(&results[1], s, mean, magnitudes / per);
        if (isinf(mean)) {
            formula_want_no_number(&results[1], s);
        }
        formula_want(&results[2], s, inverse_deviation, inverse_deviation * slack);
        for (int i = 0; i < n; i++) {
            if (statistic_of(c, i) == s) {
                double g = (double)gamma_of[channel_of(c, i)];
                double b = (double)beta_of[channel_of(c, i)];
                double value = ((double)x[i] - mean) * inverse_deviation;
                formula_want(&results[0], i, value * g + b,
                             (fabs((double)x[i]) + magnitudes / per + fabs((double)x[i] - mean) * slack) *
                                     inverse_deviation * fabs(g) +
                                 fabs(b));
            }
        }
        means[s] = (float)mean;
        inverse[s] = (float)inverse_deviation;
    }
}

static void norm_backward(const norm *c)
{
    int n = c->samples * c->positions * c->channels;
    int n_statistics = c->groups == 0 ? c->channels : c->samples * c->groups;
    double per = (double)n / n_statistics;
    static double scaled[FORMULA_MOST], sums[FORMULA_MOST][4];
    memset(sums, 0, sizeof sums);
    memset(&results[1], 0, 2 * sizeof results[1]);
    for (int i = 0; i < n; i++) {
        int s = statistic_of(c, i);
        int channel = channel_of(c, i);
        double deviation = (double)inverse[s];
        double normal = ((double)x[i] - (double)means[s]) * deviation;
        double size = (fabs((double)x[i]) + fabs((double)means[s])) * deviation;
        scaled[i] = (double)dy[i] * (double)gamma_of[channel];
        sums[s][0] += scaled[i];
        sums[s][1] += fabs(scaled[i]);
        sums[s][2] += scaled[i] * normal;
        sums[s][3] += fabs(scaled[i]) * size;
        formula_want(&results[1], channel, results[1].value[channel] + (double)dy[i] * normal,
                     results[1].size[channel] + fabs((double)dy[i]) * size);
        formula_want(&results[2], channel, results[2].value[channel] + (double)dy[i],
                     results[2].size[channel] + fabs((double)dy[i]));
    }
    for (int i = 0; i < n; i++) {
        const double *sum = sums[statistic_of(c, i)];
        double deviation = (double)inverse[statistic_of(c, i)];
        double mean = (double)means[statistic_of(c, i)];
        double normal = ((double)x[i] - mean) * deviation;
        double size = (fabs((double)x[i]) + fabs(mean)) * deviation;
        formula_want(&results[0], i, deviation * (scaled[i] - sum[0] / per - normal * sum[2] / per),
                     deviation * (fabs(scaled[i]) + sum[1] / per + size * sum[3] / per));
    }
}

static void check_norm(const norm *c, formula_range r, bool with_scale)
{
    char script[320];
    int n = c->samples * c->positions * c->channels;
    bool is_batch = c->groups == 0;
    forget();
    formula_fill(x, n, r, 1);
    formula_fill(dy, n, UNIT, 2);
    for (int k = 0; k < c->channels; k++) {
        gamma_of[k] = with_scale ? 1.0F + formula_number(UNIT, 3, k) : 1.0F;
        beta_of[k] = with_scale ? formula_number(UNIT, 4, k) : 0.0F;
    }
    norm_forward(c, 1e-3);
    given.in[0] = x;
    given.in[1] = with_scale ? gamma_of : NULL;
    given.in[2] = with_scale ? beta_of : NULL;
    char parameters[64] = "";
    if (with_scale) {
        snprintf(parameters, sizeof parameters, "in %d;in %d;", c->channels, c->channels);
    }
    snprintf(script, sizeof script, "in %s;%s%s%s 0 %s%s > 3 %s%s", c->shape, parameters, c->kind,
             is_batch ? "_train" : "", with_scale ? "1 2" : "- -", is_batch ? " - -" : "", c->attributes,
             is_batch ? " momentum=0.9" : "");
    formula_check(script, c->layout, r, &given, results, 3, 0.0);
    if (r == LARGE) {
        return;  // backward has squares of 1 / deviation in floats, which are 0 here
    }
    norm_backward(c);
    given = (formula_operands){.in = {dy, x, with_scale ? gamma_of : NULL, means, inverse}};
    snprintf(parameters, sizeof parameters, "in %d;", c->channels);
    snprintf(script, sizeof script, "in %s;in %s;%sin %s;in %s;%s_backward 0 1 %s > 3 %s%s", c->shape, c->shape,
             with_scale ? parameters : "", c->statistics, c->statistics, c->kind, with_scale ? "2 3 4" : "- 2 3",
             c->attributes, is_batch ? " momentum=0.9" : "");
    formula_check(script, c->layout, r, &given, results, 3, 0.0);
}

static void norms(void **state)
{
    (void)state;
    static const norm cases[] = {
        {"layer_norm", "5x37", "axis=1 epsilon=1e-3", "5x1", CKM_CHANNELS_LAST, 5, 1, 37, 1},
        {"layer_norm", "3x128", "axis=1 epsilon=1e-3", "3x1", CKM_CHANNELS_LAST, 3, 1, 128, 1},
        {"layer_norm", "4x1", "axis=1 epsilon=1e-3", "4x1", CKM_CHANNELS_LAST, 4, 1, 1, 1},
        {"group_norm", "2x3x4x6", "groups=3 epsilon=1e-3", "2x3", CKM_CHANNELS_LAST, 2, 12, 6, 3},
        {"group_norm", "2x6x3x4", "groups=2 epsilon=1e-3", "2x2", CKM_CHANNELS_FIRST, 2, 12, 6, 2},
        {"group_norm", "2x6x3x4", "groups=6 epsilon=1e-3", "2x6", CKM_CHANNELS_FIRST, 2, 12, 6, 6},
        {"batch_norm", "2x5x7x6", "axis=3 epsilon=1e-3", "6", CKM_CHANNELS_LAST, 2, 35, 6, 0},
        {"batch_norm", "2x6x5x7", "axis=1 epsilon=1e-3", "6", CKM_CHANNELS_FIRST, 2, 35, 6, 0},
        {"batch_norm", "9x5", "axis=1 epsilon=1e-3", "5", CKM_CHANNELS_LAST, 9, 1, 5, 0},
    };
    static const formula_range ranges[] = {UNIT, WIDE, ZEROS, SUBNORMAL, TIES, SHIFTED, BIG, LARGE, HOLES};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
            check_norm(&cases[c], ranges[r], true);
            check_norm(&cases[c], ranges[r], false);
        }
    }
}

// ---- pooling in two dimensions

typedef struct pool {
    const char *shape, *shape_out, *window;
    ckm_layout layout;
    int samples, channels, in[2], out[2], kernel[2], stride[2], dilation[2], begin[2], end[2];
    bool counts_padding;
} pool;

static int place(const pool *p, const int size[2], int sample, int channel, int row, int column)
{
    return p->layout == CKM_CHANNELS_LAST ? ((sample * size[0] + row) * size[1] + column) * p->channels + channel
                                          : ((sample * p->channels + channel) * size[0] + row) * size[1] + column;
}

typedef struct window {
    int n, size;  // elements; with the padding that counts
    int at[64];
    int tap[64];
} window;

static window window_at(const pool *p, int sample, int channel, int row, int column)
{
    window w = {0};
    for (int a = 0; a < p->kernel[0]; a++) {
        for (int b = 0; b < p->kernel[1]; b++) {
            int i = row * p->stride[0] + a * p->dilation[0] - p->begin[0];
            int j = column * p->stride[1] + b * p->dilation[1] - p->begin[1];
            bool inside = i >= 0 && i < p->in[0] && j >= 0 && j < p->in[1];
            bool padding = i < p->in[0] + p->end[0] && j < p->in[1] + p->end[1];
            w.size += inside || (p->counts_padding && padding) ? 1 : 0;
            if (inside) {
                w.at[w.n] = place(p, p->in, sample, channel, i, j);
                w.tap[w.n++] = a * p->kernel[1] + b;
            }
        }
    }
    return w;
}

static void check_pool(const pool *p, formula_range r)
{
    char script[320];
    static unsigned char taps[FORMULA_MOST];
    static unsigned char found[FORMULA_RESULTS * FORMULA_MOST];
    int n = p->samples * p->channels * p->in[0] * p->in[1];
    int n_out = p->samples * p->channels * p->out[0] * p->out[1];
    static formula_wanted most, most_slope, mean, mean_slope;
    forget();
    most = most_slope = mean = mean_slope = results[0];
    formula_fill(x, n, r, 5);
    formula_fill(dy, n_out, r, 6);
    for (int i = 0; i < n; i++) {
        formula_want(&most_slope, i, 0.0, 0.0);
        formula_want(&mean_slope, i, 0.0, 0.0);
    }
    for (int k = 0; k < n_out; k++) {
        int column = p->layout == CKM_CHANNELS_LAST ? k / p->channels % p->out[1] : k % p->out[1];
        int row = p->layout == CKM_CHANNELS_LAST ? k / p->channels / p->out[1] % p->out[0] : k / p->out[1] % p->out[0];
        int sample = k / (p->channels * p->out[0] * p->out[1]);
        int channel = p->layout == CKM_CHANNELS_LAST ? k % p->channels : k / (p->out[0] * p->out[1]) % p->channels;
        window w = window_at(p, sample, channel, row, column);
        double sum = 0.0;
        double size = 0.0;
        int best = 0;
        for (int i = 0; i < w.n; i++) {
            double value = (double)x[w.at[i]];
            sum += value;
            size += fabs(value);
            // NaN counts as the largest.
            best = value > (double)x[w.at[best]] || isnan(value) ? i : best;
            int to = w.at[i];
            formula_want(&mean_slope, to, mean_slope.value[to] + (double)dy[k] / w.size,
                         mean_slope.size[to] + fabs((double)dy[k]) / w.size);
        }
        formula_want(&mean, k, sum / w.size, size / w.size);
        formula_want(&most, k, (double)x[w.at[best]], 0.0);
        taps[k] = (unsigned char)w.tap[best];
        int to = w.at[best];
        formula_want(&most_slope, to, most_slope.value[to] + (double)dy[k], most_slope.size[to] + fabs((double)dy[k]));
    }
    given.in[0] = x;
    snprintf(script, sizeof script, "in %s;average_pool 0 %s count_include_pad=%d", p->shape, p->window,
             p->counts_padding);
    formula_check(script, p->layout, r, &given, &mean, 1, 0.0);
    snprintf(script, sizeof script, "in %s;max_pool_train 0 > 2 %s", p->shape, p->window);
    static const char *const backends[] = {"reference", "cpu"};
    for (int b = 0; b < 2; b++) {
        formula_run(backends[b], script, p->layout, &given);
        formula_compare(script, given.out[0], &most, 0.0);
        memcpy(found, given.out[1], (size_t)n_out);
        for (int k = 0; k < n_out; k++) {
            if (found[k] != taps[k]) {
                fail_msg("%s on %s, %s numbers: offset %d is %d, not %d", script, backends[b], formula_range_name(r), k,
                         found[k], taps[k]);
            }
        }
    }
    char input[64];
    snprintf(input, sizeof input, "%s", p->shape);
    for (char *c = input; *c != '\0'; c++) {
        *c = *c == 'x' ? ',' : *c;
    }
    given.in[0] = dy;
    snprintf(script, sizeof script, "in %s;average_pool_backward 0 %s count_include_pad=%d input_shape=%s",
             p->shape_out, p->window, p->counts_padding, input);
    formula_check(script, p->layout, r, &given, &mean_slope, 1, 0.0);
    given.in[1] = taps;
    snprintf(script, sizeof script, "in %s;max_pool_train 0 > 2 %s;in %s;max_pool_backward 3 2 %s input_shape=%s",
             p->shape, p->window, p->shape_out, p->window, input);
    formula_check(script, p->layout, r, &given, &most_slope, 1, 0.0);
}

static void pools(void **state)
{
    (void)state;
    static const pool cases[] = {
        {"2x9x7x5",
         "2x5x4x5",
         "kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1",
         CKM_CHANNELS_LAST,
         2,
         5,
         {9, 7},
         {5, 4},
         {3, 3},
         {2, 2},
         {1, 1},
         {1, 1},
         {1, 1},
         false},
        {"2x5x9x7",
         "2x5x9x4",
         "kernel=3,2 strides=1,2 dilation=1,1 padding=1,0,1,1",
         CKM_CHANNELS_FIRST,
         2,
         5,
         {9, 7},
         {9, 4},
         {3, 2},
         {1, 2},
         {1, 1},
         {1, 0},
         {1, 1},
         true},
        {"1x8x8x20",
         "1x4x4x20",
         "kernel=2,2 strides=2,2 dilation=1,1 padding=0,0,0,0",
         CKM_CHANNELS_LAST,
         1,
         20,
         {8, 8},
         {4, 4},
         {2, 2},
         {2, 2},
         {1, 1},
         {0, 0},
         {0, 0},
         true},
        {"1x3x9x33",
         "1x3x5x17",
         "kernel=3,3 strides=2,2 dilation=1,1 padding=1,1,1,1",
         CKM_CHANNELS_FIRST,
         1,
         3,
         {9, 33},
         {5, 17},
         {3, 3},
         {2, 2},
         {1, 1},
         {1, 1},
         {1, 1},
         false},
    };
    static const formula_range ranges[] = {UNIT, WIDE, ZEROS, SUBNORMAL, TIES, SHIFTED, LARGE, HIDDEN, HOLES};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
            check_pool(&cases[c], ranges[r]);
        }
    }
}

// ---- losses

static void cross_entropy(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *labels;
        int outer, classes, inner, axis;
    } cases[] = {{"5x37", "5", 5, 37, 1, 1}, {"40x10", "40", 40, 10, 1, 1}, {"2x5x7x9", "2x7x9", 2, 5, 63, 1}};
    static const formula_range ranges[] = {UNIT, WIDE, ZEROS, SUBNORMAL, TIES, SHIFTED, LARGE, HIDDEN, HOLES};
    static int32_t labels[FORMULA_MOST];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
            char script[200];
            int n_lines = cases[c].outer * cases[c].inner;
            int counted = 0;
            int32_t hits = 0;
            double sum = 0.0;
            double size = 0.0;
            forget();
            formula_fill(x, n_lines * cases[c].classes, ranges[r], 7 + c);
            for (int i = 0; i < n_lines; i++) {
                labels[i] = (int32_t)(formula_mixed((uint64_t)i + 99) % (uint64_t)(cases[c].classes + 1)) - 1;
                counted += labels[i] >= 0 ? 1 : 0;
            }
            for (int i = 0; i < n_lines; i++) {
                line l = {i / cases[c].inner * cases[c].classes * cases[c].inner + i % cases[c].inner, cases[c].classes,
                          cases[c].inner};
                double top = top_of(l);
                double exponentials = sum_of_exponentials(l, top);
                int largest = 0;
                for (int k = 0; k < l.n; k++) {
                    int at = l.at + k * l.step;
                    double p = exp((double)x[at] - top) / exponentials;
                    double below = fmin(fabs((double)x[at] - top), 200.0);
                    largest = x[at] > x[l.at + largest * l.step] ? k : largest;
                    if (labels[i] < 0) {
                        formula_want(&results[2], at, 0.0, 0.0);
                    } else {
                        formula_want(&results[2], at, (p - (k == labels[i] ? 1.0 : 0.0)) / counted,
                                     (p * (1.0 + below) + 1.0) / counted);
                    }
                }
                if (labels[i] >= 0) {
                    double below = (double)x[l.at + labels[i] * l.step] - top;
                    sum += log(exponentials) - below;
                    size += log(exponentials) + fabs(below) + 1.0;
                    // A line with NaN has no largest element.
                    hits += isnan(top) ? 0 : largest == labels[i];
                }
            }
            formula_want(&results[0], 0, sum / counted, size / counted);
            given.in[0] = x;
            given.in[1] = labels;
            snprintf(script, sizeof script, "in %s;in %s:i%d;softmax_cross_entropy 0 1 > 2 axis=%d", cases[c].shape,
                     cases[c].labels, cases[c].classes, cases[c].axis);
            formula_check(script, CKM_CHANNELS_LAST, ranges[r], &given, results, 1, 0.0);
            int32_t found;
            memcpy(&found, given.out[1], sizeof found);
            assert_true(ranges[r] == HOLES || found == hits);
            snprintf(script, sizeof script, "in %s;in %s:i%d;softmax_cross_entropy_backward 0 1 axis=%d",
                     cases[c].shape, cases[c].labels, cases[c].classes, cases[c].axis);
            formula_check(script, CKM_CHANNELS_LAST, ranges[r], &given, &results[2], 1, 1e-37);
        }
    }
}

static void squares(void **state)
{
    (void)state;
    static const int sizes[] = {1, 7, 33, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (formula_range r = UNIT; r < N_RANGES; r++) {
            char script[64];
            int n = sizes[s];
            double sum = 0.0;
            forget();
            formula_fill(x, n, r, 8);
            formula_fill(dy, n, r == HIDDEN ? UNIT : r, 9);
            for (int i = 0; i < n; i++) {
                double distance = (double)x[i] - (double)dy[i];
                sum += distance * distance;
                formula_want(&results[1], i, 2.0 * distance / n, 2.0 * fabs(distance) / n);
            }
            formula_want(&results[0], 0, sum / n, sum / n);
            given.in[0] = x;
            given.in[1] = dy;
            snprintf(script, sizeof script, "in %d;in %d;mse 0 1", n, n);
            formula_check(script, CKM_CHANNELS_LAST, r, &given, results, 1, 0.0);
            snprintf(script, sizeof script, "in %d;in %d;mse_backward 0 1", n, n);
            formula_check(script, CKM_CHANNELS_LAST, r, &given, &results[1], 1, 0.0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax),       cmocka_unit_test(norms),   cmocka_unit_test(pools),
        cmocka_unit_test(cross_entropy), cmocka_unit_test(squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
