// SPDX-License-Identifier: Apache-2.0
// Output shapes and multiply-accumulates of the layer operators, in both layouts, against numbers worked out
// by hand from the definitions of the operators; and what they refuse.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

enum { MAX_IN = 5 };

// One operator on tensors of given shapes. Attribute lists end at the first one without a key.
typedef struct op_case {
    const char *what, *kind;
    ckm_layout layout;
    ckm_shape in[MAX_IN];  // rank 0: absent
    ckm_i_attr attrs[5];
    ckm_shape out;  // rank 0: refused
    int64_t macs;
    const char *word;  // in the message of a refusal
} op_case;

// clang-format off
#define SHAPE(...) { sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ } }
#define INTS(k, ...) { .key = k, .type = CKM_I_ATTR_INTS, .n = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .ints = { __VA_ARGS__ } }
#define WORD(k, value) { .key = k, .type = CKM_I_ATTR_WORD, .n = 1, .word = value }
#define REAL(k, value) { .key = k, .type = CKM_I_ATTR_REAL, .n = 1, .real = value }
#define NHWC CKM_CHANNELS_LAST
#define NCHW CKM_CHANNELS_FIRST

static const op_case cases[] = {
    // conv: floor((in + pads - ((k-1)d+1)) / s) + 1
    {"conv valid", "conv", NHWC, {SHAPE(2, 7, 9, 3), SHAPE(3, 3, 3, 8)}, {{0}}, SHAPE(2, 5, 7, 8), 2 * 5 * 7 * 8 * 27, NULL},
    {"conv same, stride 2", "conv", NHWC, {SHAPE(1, 7, 8, 3), SHAPE(3, 3, 3, 8)},
     {WORD("padding", "same"), INTS("strides", 2, 2)}, SHAPE(1, 4, 4, 8), 16 * 8 * 27, NULL},
    {"conv same_lower", "conv", NCHW, {SHAPE(1, 3, 7, 8), SHAPE(8, 3, 3, 3)},
     {WORD("padding", "same_lower"), INTS("strides", 2, 2)}, SHAPE(1, 8, 4, 4), 16 * 8 * 27, NULL},
    {"conv asymmetric pads", "conv", NCHW, {SHAPE(1, 3, 5, 5), SHAPE(4, 3, 2, 2), SHAPE(4)},
     {INTS("padding", 0, 1, 1, 2), INTS("kernel", 2, 2)}, SHAPE(1, 4, 5, 7), 35 * 4 * 12, NULL},
    {"conv dilated", "conv", NCHW, {SHAPE(1, 1, 9, 9), SHAPE(1, 1, 3, 3)}, {INTS("dilation", 2, 4)}, SHAPE(1, 1, 5, 1), 45, NULL},
    {"conv grouped", "conv", NCHW, {SHAPE(1, 8, 4, 4), SHAPE(6, 4, 1, 1)}, {INTS("groups", 2)}, SHAPE(1, 6, 4, 4), 16 * 6 * 4, NULL},
    {"depthwise", "conv", NHWC, {SHAPE(1, 4, 4, 8), SHAPE(3, 3, 1, 16)}, {INTS("groups", 8)}, SHAPE(1, 2, 2, 16), 4 * 16 * 9, NULL},
    {"conv on one axis", "conv", NHWC, {SHAPE(2, 10, 4), SHAPE(3, 4, 6)}, {{0}}, SHAPE(2, 8, 6), 2 * 8 * 6 * 12, NULL},
    {"conv on three axes", "conv", NCHW, {SHAPE(1, 2, 4, 5, 6), SHAPE(3, 2, 2, 2, 2)}, {{0}}, SHAPE(1, 3, 3, 4, 5), 180 * 16, NULL},
    {"conv rank", "conv", NHWC, {SHAPE(2, 7, 9, 3), SHAPE(3, 3, 3)}, {{0}}, {0}, 0, "input 1 is 3x3x3; it must have 4 dimensions"},
    {"conv no space", "conv", NHWC, {SHAPE(2, 3), SHAPE(3, 8)}, {{0}}, {0}, 0, "3 to 8 dimensions"},
    {"conv channels", "conv", NHWC, {SHAPE(2, 7, 9, 4), SHAPE(3, 3, 3, 8)}, {{0}}, {0}, 0, "4 input channels in 1 groups"},
    {"conv groups", "conv", NHWC, {SHAPE(2, 7, 9, 4), SHAPE(3, 3, 1, 8)}, {INTS("groups", 3)}, {0}, 0, "in 3 groups"},
    {"conv group filters", "conv", NHWC, {SHAPE(2, 7, 9, 4), SHAPE(3, 3, 2, 7)}, {INTS("groups", 2)}, {0}, 0, "in 2 groups"},
    {"conv too small", "conv", NHWC, {SHAPE(1, 2, 9, 3), SHAPE(3, 3, 3, 8)}, {{0}}, {0}, 0, "2 elements with padding are fewer than the window's 3"},
    {"conv kernel", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8)}, {INTS("kernel", 3, 5)}, {0}, 0, "kernel says otherwise"},
    {"conv bias", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8), SHAPE(7)}, {{0}}, {0}, 0, "must hold 8 elements"},
    {"conv stride 0", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8)}, {INTS("strides", 0, 1)}, {0}, 0, "strides holds 0"},
    {"conv strides", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8)}, {INTS("strides", 2)}, {0}, 0, "strides must be 2 integers"},
    {"conv negative pad", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8)}, {INTS("padding", 0, 0, -1, 0)}, {0}, 0, "padding holds -1"},
    {"conv padding word", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8)}, {WORD("padding", "full")}, {0}, 0, "\"full\" is not known"},
    {"conv hostile dilation", "conv", NHWC, {SHAPE(1, 9, 9, 3), SHAPE(3, 3, 3, 8)}, {INTS("dilation", INT64_MAX, 1)}, {0}, 0, "dilation holds"},
    {"conv hostile size", "conv", NHWC, {SHAPE(1, INT64_C(1) << 60, 1, 1), SHAPE(1, 1, 1, 1 << 20)}, {{0}}, {0}, 0, "63 bits"},

    {"conv_transpose hostile size", "conv_transpose", NCHW, {SHAPE(1, 1, INT64_C(1) << 34, 1), SHAPE(1, 1, 1, 1)},
     {INTS("strides", 1 << 29, 1), INTS("output_size", 1, 1)}, {0}, 0, "spatial axis 0: the output is too large"},

    {"response_norm", "local_response_norm", NCHW, {SHAPE(1, 4, 2, 2)}, {INTS("size", 3)}, SHAPE(1, 4, 2, 2), 4 * 16, NULL},
    {"response_norm of nothing", "local_response_norm", NCHW, {SHAPE(1, 4, 2, 2)}, {INTS("size", 0)}, {0}, 0, "size holds 0"},
    {"response_norm hostile", "local_response_norm", NCHW, {SHAPE(1, 4, 2, 2)}, {INTS("size", INT64_MIN)}, {0}, 0, "size holds -9223372036854775808"},
    {"response_norm backward", "local_response_norm_backward", NCHW, {SHAPE(1, 4, 2, 2), SHAPE(1, 4, 2, 2)}, {INTS("size", 0)}, {0}, 0, "size holds 0"},
    {"layer_norm row", "layer_norm", NHWC, {SHAPE(2, 6, 2), SHAPE(1, 1, 2), SHAPE(1)}, {INTS("axis", 2)}, SHAPE(2, 6, 2), 4 * 24, NULL},
    {"layer_norm two axes", "layer_norm", NHWC, {SHAPE(2, 6, 2), SHAPE(1, 6, 1)}, {INTS("axis", -2)}, SHAPE(2, 6, 2), 4 * 24, NULL},
    {"layer_norm backward", "layer_norm_backward", NHWC, {SHAPE(2, 6, 2), SHAPE(2, 6, 2), SHAPE(2, 1, 1), SHAPE(2, 6, 1), SHAPE(2, 6, 1)},
     {INTS("axis", 2)}, {0}, 0, "a scale of shape 2x1x1 is more than one row"},

    // Today's networks.
    {"rms_norm", "rms_norm", NHWC, {SHAPE(2, 3, 8), SHAPE(8)}, {{0}}, SHAPE(2, 3, 8), 4 * 48, NULL},
    {"rms_norm scale", "rms_norm", NHWC, {SHAPE(2, 3, 8), SHAPE(3)}, {{0}}, {0}, 0, "input 1"},
    {"rotary", "rotary", NHWC, {SHAPE(2, 4, 5, 6)}, {REAL("base", 5e5)}, SHAPE(2, 4, 5, 6), 2 * 240, NULL},
    {"rotary odd", "rotary", NHWC, {SHAPE(2, 4, 5, 7)}, {{0}}, {0}, 0, "7 numbers cannot be turned in pairs"},
    {"rotary base", "rotary", NHWC, {SHAPE(2, 4, 5, 6)}, {REAL("base", -1.0)}, {0}, 0, "must be positive"},
    // attention: pairs of queries and keys times size + value_size + 1
    {"attention", "attention", NHWC, {SHAPE(2, 3, 4, 8), SHAPE(2, 3, 5, 8), SHAPE(2, 3, 5, 6)}, {{0}}, SHAPE(2, 3, 4, 6), 120 * 15, NULL},
    {"attention causal, shared keys", "attention", NHWC, {SHAPE(1, 4, 3, 8), SHAPE(1, 2, 5, 8), SHAPE(1, 2, 5, 8)},
     {WORD("mask", "causal")}, SHAPE(1, 4, 3, 8), 4 * 12 * 17, NULL},
    {"attention by position", "attention", NHWC, {SHAPE(2, 4, 3, 8), SHAPE(2, 3, 5, 8), SHAPE(2, 5, 3, 6), SHAPE(3, 1, 5)},
     {INTS("by_position", 1, 0, 1, 1)}, SHAPE(2, 4, 3, 6), 120 * 15, NULL},
    {"attention rank", "attention", NHWC, {SHAPE(3, 4, 8), SHAPE(3, 5, 8), SHAPE(3, 5, 8)}, {{0}}, {0}, 0, "must have 4 dimensions"},
    {"attention groups", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 2, 5, 8), SHAPE(1, 2, 5, 8)}, {{0}}, {0}, 0, "its k of shape 1x2x5x8"},
    {"attention sizes", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 3, 5, 6), SHAPE(1, 3, 5, 6)}, {{0}}, {0}, 0, "its k of shape 1x3x5x6"},
    {"attention values", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 3, 5, 8), SHAPE(1, 3, 6, 8)}, {{0}}, {0}, 0, "its v of shape 1x3x6x8"},
    {"attention bias", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 3, 5, 8), SHAPE(1, 3, 5, 8), SHAPE(4, 4)}, {{0}}, {0}, 0, "its bias of shape 4x4"},
    {"attention mask of numbers", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 3, 5, 8), SHAPE(1, 3, 5, 8), {0}, SHAPE(4, 5)}, {{0}}, {0}, 0, "its mask of shape 4x5"},
    {"attention without keys", "attention", NHWC, {SHAPE(1, 3, 6, 8), SHAPE(1, 3, 5, 8), SHAPE(1, 3, 5, 8)}, {WORD("mask", "causal")}, {0}, 0, "6 queries but only 5 keys"},
    {"attention mask unknown", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 3, 5, 8), SHAPE(1, 3, 5, 8)}, {WORD("mask", "sliding")}, {0}, 0, "\"sliding\""},
    {"attention rate", "attention", NHWC, {SHAPE(1, 3, 4, 8), SHAPE(1, 3, 5, 8), SHAPE(1, 3, 5, 8)}, {REAL("rate", 1.5)}, {0}, 0, "rate is 1.5"},
    {"attention in windows of another size", "attention", NHWC, {SHAPE(4, 3, 4, 8), SHAPE(4, 3, 4, 8), SHAPE(4, 3, 4, 8)},
     {WORD("mask", "windows"), INTS("grid", 6, 6), INTS("window", 3, 3), INTS("shift", 1, 1)}, {0}, 0, "4 windows of 9 positions"},
    {"attention hostile", "attention", NHWC, {SHAPE(1, 1, INT64_C(1) << 33, 1), SHAPE(1, 1, INT64_C(1) << 33, 1), SHAPE(1, 1, INT64_C(1) << 33, 1)},
     {{0}}, {0}, 0, "63 bits"},
    {"causal", "masked_softmax", NHWC, {SHAPE(2, 3, 4, 6)}, {WORD("mask", "causal")}, SHAPE(2, 3, 4, 6), 144, NULL},
    {"causal without keys", "masked_softmax", NHWC, {SHAPE(2, 6, 4)}, {WORD("mask", "causal")}, {0}, 0, "6 queries but only 4 keys"},
    {"mask unknown", "masked_softmax", NHWC, {SHAPE(2, 6, 6)}, {WORD("mask", "sliding")}, {0}, 0, "\"sliding\""},
    {"windows", "masked_softmax", NHWC, {SHAPE(8, 2, 6, 6)},
     {WORD("mask", "windows"), INTS("grid", 4, 6), INTS("window", 2, 3), INTS("shift", 1, 0)}, SHAPE(8, 2, 6, 6), 576, NULL},
    {"windows that do not tile", "masked_softmax", NHWC, {SHAPE(8, 2, 6, 6)},
     {WORD("mask", "windows"), INTS("grid", 4, 7), INTS("window", 2, 3), INTS("shift", 1, 0)}, {0}, 0, "do not divide an axis of 7"},
    {"windows of other scores", "masked_softmax", NHWC, {SHAPE(6, 2, 6, 6)},
     {WORD("mask", "windows"), INTS("grid", 4, 6), INTS("window", 2, 3), INTS("shift", 1, 0)}, {0}, 0, "4 windows of 6 positions"},
    {"windows without a grid", "masked_softmax", NHWC, {SHAPE(8, 2, 6, 6)}, {WORD("mask", "windows")}, {0}, 0, "do not divide"},
    {"roll", "roll", NHWC, {SHAPE(2, 3)}, {INTS("shifts", -1, 7)}, SHAPE(2, 3), 0, NULL},
    {"roll of another rank", "roll", NHWC, {SHAPE(2, 3)}, {INTS("shifts", 1)}, {0}, 0, "shifts must be 2 integers"},
    {"window_bias", "window_bias", NHWC, {SHAPE(15, 4)}, {INTS("window", 2, 3)}, SHAPE(4, 6, 6), 0, NULL},
    {"window_bias of another window", "window_bias", NHWC, {SHAPE(16, 4)}, {INTS("window", 2, 3)}, {0}, 0, "16x4 does not fit"},
    {"window_bias without", "window_bias", NHWC, {SHAPE(15, 4)}, {{0}}, {0}, 0, "must be given"},
    {"time_embedding", "time_embedding", NHWC, {SHAPE(5)}, {INTS("dim", 8)}, SHAPE(5, 8), 40, NULL},
    {"time_embedding odd", "time_embedding", NHWC, {SHAPE(5)}, {INTS("dim", 9)}, {0}, 0, "must be even"},

    // conv_transpose: (in - 1)s + (k-1)d + 1 + output_padding - pads
    {"transpose valid", "conv_transpose", NHWC, {SHAPE(1, 13, 19, 19), SHAPE(4, 4, 19, 19)}, {INTS("strides", 2, 2)},
     SHAPE(1, 28, 40, 19), 28 * 40 * 19 * 19, NULL},
    {"transpose same", "conv_transpose", NHWC, {SHAPE(1, 13, 19, 4), SHAPE(4, 4, 6, 4)}, {INTS("strides", 2, 2), WORD("padding", "same")},
     SHAPE(1, 26, 38, 6), 26 * 38 * 6 * 4, NULL},
    {"transpose pads", "conv_transpose", NCHW, {SHAPE(1, 4, 5, 5), SHAPE(4, 3, 3, 3)},
     {INTS("strides", 2, 2), INTS("padding", 1, 1, 1, 1), INTS("output_padding", 1, 1), INTS("groups", 2)}, SHAPE(1, 6, 10, 10), 600 * 4, NULL},
    {"transpose size", "conv_transpose", NCHW, {SHAPE(1, 4, 5, 5), SHAPE(4, 3, 3, 3)}, {INTS("output_size", 9, 8)}, SHAPE(1, 3, 9, 8), 216 * 4, NULL},
    {"transpose empty", "conv_transpose", NCHW, {SHAPE(1, 4, 1, 1), SHAPE(4, 3, 2, 2)}, {INTS("padding", 1, 1, 1, 1)}, {0}, 0, "would be empty"},
    {"transpose channels", "conv_transpose", NCHW, {SHAPE(1, 5, 1, 1), SHAPE(4, 3, 2, 2)}, {{0}}, {0}, 0, "5 input channels"},

    {"separable", "separable_conv", NHWC, {SHAPE(1, 8, 8, 4), SHAPE(3, 3, 1, 8), SHAPE(1, 1, 8, 16), SHAPE(16)},
     {INTS("strides", 2, 2), WORD("padding", "same")}, SHAPE(1, 4, 4, 16), 16 * 8 * 9 + 16 * 16 * 8, NULL},
    {"separable multiplier", "separable_conv", NHWC, {SHAPE(1, 8, 8, 4), SHAPE(3, 3, 1, 6), SHAPE(1, 1, 6, 16)}, {{0}}, {0}, 0, "4 input channels"},
    {"separable pointwise", "separable_conv", NHWC, {SHAPE(1, 8, 8, 4), SHAPE(3, 3, 1, 4), SHAPE(1, 2, 4, 16)}, {{0}}, {0}, 0, "kernel of 2"},

    {"dense", "dense", NHWC, {SHAPE(3, 20), SHAPE(20, 7), SHAPE(7)}, {{0}}, SHAPE(3, 7), 3 * 140, NULL},
    {"dense on rows", "dense", NHWC, {SHAPE(3, 5, 20), SHAPE(20, 7)}, {{0}}, SHAPE(3, 5, 7), 15 * 140, NULL},
    {"dense transposed", "dense", NCHW, {SHAPE(3, 20), SHAPE(7, 20)}, {INTS("transposed", 1)}, SHAPE(3, 7), 420, NULL},
    {"dense features", "dense", NHWC, {SHAPE(3, 20), SHAPE(7, 20)}, {{0}}, {0}, 0, "20 features do not fit a weight of 7x20"},
    {"dense bias", "dense", NHWC, {SHAPE(1, 20), SHAPE(20, 7), SHAPE(3, 7)}, {{0}}, {0}, 0, "larger than the output"},

    {"batch_norm", "batch_norm", NHWC, {SHAPE(2, 4, 4, 8), SHAPE(8), SHAPE(8), SHAPE(8), SHAPE(8)}, {{0}}, SHAPE(2, 4, 4, 8), 4 * 256, NULL},
    {"batch_norm first", "batch_norm", NCHW, {SHAPE(2, 8, 4, 4), {0}, SHAPE(8)}, {{0}}, SHAPE(2, 8, 4, 4), 4 * 256, NULL},
    {"batch_norm axis", "batch_norm", NHWC, {SHAPE(2, 4, 5, 8), SHAPE(5)}, {INTS("axis", 2)}, SHAPE(2, 4, 5, 8), 4 * 320, NULL},
    {"batch_norm beta", "batch_norm", NHWC, {SHAPE(2, 4, 4, 8), SHAPE(8), SHAPE(4)}, {{0}}, {0}, 0, "beta is 4"},
    {"batch_norm no axis", "batch_norm", NHWC, {SHAPE(2, 4, 4, 8)}, {INTS("axis", 4)}, {0}, 0, "axis 4 does not exist"},

    {"relu", "relu", NHWC, {SHAPE(2, 4, 4, 8)}, {REAL("max_value", 6.0)}, SHAPE(2, 4, 4, 8), 256, NULL},
    {"softmax", "softmax", NHWC, {SHAPE(2, 10)}, {{0}}, SHAPE(2, 10), 20, NULL},
    {"softmax axis", "softmax", NHWC, {SHAPE(2, 10)}, {INTS("axis", -3)}, {0}, 0, "axis -3 does not exist"},
    {"prelu", "prelu", NCHW, {SHAPE(2, 3, 5, 5), SHAPE(3, 1, 1)}, {{0}}, SHAPE(2, 3, 5, 5), 150, NULL},
    {"prelu slope", "prelu", NCHW, {SHAPE(2, 3, 5, 5), SHAPE(4)}, {{0}}, {0}, 0, "do not fit together"},

    {"add", "add", NHWC, {SHAPE(2, 4, 8), SHAPE(2, 4, 8), SHAPE(2, 4, 8)}, {{0}}, SHAPE(2, 4, 8), 192, NULL},
    {"add broadcast", "add", NHWC, {SHAPE(2, 1, 8), SHAPE(4, 1)}, {{0}}, SHAPE(2, 4, 8), 16 + 4, NULL},
    {"add shapes", "add", NHWC, {SHAPE(2, 4, 8), SHAPE(2, 4, 7)}, {{0}}, {0}, 0, "2x4x8 and 2x4x7 do not fit together"},
    {"concat", "concat", NHWC, {SHAPE(2, 4, 4, 8), SHAPE(2, 4, 4, 3)}, {{0}}, SHAPE(2, 4, 4, 11), 0, NULL},
    {"concat first", "concat", NCHW, {SHAPE(2, 4, 4), SHAPE(2, 5, 4)}, {{0}}, SHAPE(2, 9, 4), 0, NULL},
    {"concat axis", "concat", NHWC, {SHAPE(2, 4), SHAPE(3, 4)}, {INTS("axis", -2)}, SHAPE(5, 4), 0, NULL},
    {"concat shapes", "concat", NHWC, {SHAPE(2, 4, 4, 8), SHAPE(2, 4, 5, 8)}, {{0}}, {0}, 0, "cannot be joined at axis 3"},
    {"concat rank", "concat", NHWC, {SHAPE(2, 4), SHAPE(2, 4, 1)}, {{0}}, {0}, 0, "cannot be joined"},

    {"max_pool", "max_pool", NHWC, {SHAPE(2, 7, 8, 3)}, {INTS("kernel", 2, 2), INTS("strides", 2, 2)}, SHAPE(2, 3, 4, 3), 0, NULL},
    {"max_pool ceiling", "max_pool", NCHW, {SHAPE(2, 3, 7, 8)}, {INTS("kernel", 2, 2), INTS("strides", 2, 2), INTS("ceil_mode", 1)},
     SHAPE(2, 3, 4, 4), 0, NULL},
    // A last window that starts in the trailing padding does not count: (5+2-2)/3 rounds up to 2, but 2*3 >= 5+1.
    {"max_pool ceiling in padding", "max_pool", NCHW, {SHAPE(1, 1, 5, 5)},
     {INTS("kernel", 2, 2), INTS("strides", 3, 3), INTS("padding", 1, 1, 1, 1), INTS("ceil_mode", 1)}, SHAPE(1, 1, 2, 2), 0, NULL},
    {"average_pool same", "average_pool", NHWC, {SHAPE(1, 7, 7, 3)}, {INTS("kernel", 3, 3), INTS("strides", 2, 2), WORD("padding", "same")},
     SHAPE(1, 4, 4, 3), 0, NULL},
    {"pool in the padding before", "max_pool", NCHW, {SHAPE(1, 1, 5, 5)},
     {INTS("kernel", 2, 2), INTS("padding", 0, 2, 0, 0)}, {0}, 0, "spatial axis 1: a window lies entirely in the padding"},
    {"pool in the padding after", "average_pool", NHWC, {SHAPE(1, 5, 5, 1)},
     {INTS("kernel", 2, 2), INTS("padding", 0, 0, 2, 0)}, {0}, 0, "spatial axis 0: a window lies entirely in the padding"},
    {"pool across the input", "max_pool", NCHW, {SHAPE(1, 1, 2, 5)},
     {INTS("kernel", 2, 2), INTS("dilation", 3, 1), INTS("padding", 1, 0, 1, 0)}, {0}, 0, "a window lies entirely in the padding"},
    {"pool touches the input", "max_pool", NCHW, {SHAPE(1, 1, 5, 5)},
     {INTS("kernel", 3, 3), INTS("strides", 1, 1), INTS("padding", 2, 2, 2, 2)}, SHAPE(1, 1, 7, 7), 0, NULL},
    {"pool without kernel", "max_pool", NHWC, {SHAPE(2, 7, 8, 3)}, {{0}}, {0}, 0, "kernel is missing"},
    {"pool ceil_mode", "max_pool", NHWC, {SHAPE(2, 7, 8, 3)}, {INTS("kernel", 2, 2), INTS("ceil_mode", 2)}, {0}, 0, "ceil_mode holds 2"},
    // Kernels number the elements of a window; nothing else bounds them.
    {"max_pool elements", "max_pool", NCHW, {SHAPE(1, 1, 1, 1)}, {INTS("kernel", 1 << 23, 1 << 10), INTS("padding", (1 << 23) - 1, 1023, 0, 0)},
     {0}, 0, "more than 1073741823 elements"},
    {"max_pool_train elements", "max_pool_train", NCHW, {SHAPE(1, 1, 1, 1)},
     {INTS("kernel", 1 << 23, 1 << 10), INTS("padding", (1 << 23) - 1, 1023, 0, 0)}, {0}, 0, "more than 1073741823 elements"},
    {"lp_pool elements", "lp_pool", NCHW, {SHAPE(1, 1, 1, 1)}, {INTS("kernel", 1 << 29, 1 << 29), INTS("padding", (1 << 29) - 1, (1 << 29) - 1, 0, 0)},
     {0}, 0, "more than 1073741823 elements"},
    {"average_pool elements", "average_pool", NHWC, {SHAPE(1, 1, 1, 1, 1)},
     {INTS("kernel", 1 << 29, 1 << 29, 1 << 29), INTS("padding", (1 << 29) - 1, (1 << 29) - 1, (1 << 29) - 1, 0, 0, 0)}, {0}, 0,
     "more than 1073741823 elements"},
    {"average_pool_backward elements", "average_pool_backward", NCHW, {SHAPE(1, 1, 1, 1)},
     {INTS("kernel", 1 << 15, 1 << 15), INTS("padding", (1 << 15) - 1, (1 << 15) - 1, 0, 0), INTS("input_shape", 1, 1, 1, 1)}, {0}, 0,
     "more than 1073741823 elements"},
    {"pool of as many elements as can be", "max_pool", NCHW, {SHAPE(1, 1, 1, 1)},
     {INTS("kernel", 1 << 15, (1 << 15) - 1), INTS("padding", (1 << 15) - 1, (1 << 15) - 2, 0, 0)}, SHAPE(1, 1, 1, 1), 0, NULL},
    {"global", "global_average_pool", NHWC, {SHAPE(2, 7, 8, 3)}, {{0}}, SHAPE(2, 3), 0, NULL},
    {"global keepdims", "global_average_pool", NCHW, {SHAPE(2, 3, 7, 8)}, {INTS("keepdims", 1)}, SHAPE(2, 3, 1, 1), 0, NULL},

    {"zero_padding", "zero_padding", NHWC, {SHAPE(1, 4, 5, 3)}, {INTS("pads", 1, 2, 3, 4)}, SHAPE(1, 8, 11, 3), 0, NULL},
    {"cropping", "cropping", NCHW, {SHAPE(1, 3, 4, 5)}, {INTS("pads", 0, 1, 2, 1)}, SHAPE(1, 3, 2, 3), 0, NULL},
    {"cropping all", "cropping", NCHW, {SHAPE(1, 3, 4, 5)}, {INTS("pads", 2, 0, 2, 0)}, {0}, 0, "leaves nothing"},
    {"up_sampling", "up_sampling", NHWC, {SHAPE(1, 4, 5, 3)}, {INTS("size", 2, 3)}, SHAPE(1, 8, 15, 3), 360, NULL},
    {"up_sampling bilinear", "up_sampling", NHWC, {SHAPE(1, 4, 5, 3)}, {INTS("size", 2, 3), WORD("mode", "bilinear")}, SHAPE(1, 8, 15, 3), 1800, NULL},
    {"up_sampling hostile", "up_sampling", NHWC, {SHAPE(1, INT64_C(1) << 40, 1, 1)}, {INTS("size", 1 << 29, 1)}, {0}, 0, "too large"},
    {"interp", "interp", NHWC, {SHAPE(1, 4, 5, 3)}, {INTS("size", 6, 7)}, SHAPE(1, 6, 7, 3), 5 * 126, NULL},
    {"resize", "resize", NCHW, {SHAPE(1, 3, 4, 5)}, {INTS("size", 1, 3, 8, 9), WORD("mode", "linear")}, SHAPE(1, 3, 8, 9), 5 * 216, NULL},
    {"resize rank", "resize", NCHW, {SHAPE(1, 3, 4, 5)}, {INTS("size", 8, 9)}, {0}, 0, "size must be 4 integers"},
    {"resize no size", "resize", NCHW, {SHAPE(1, 3, 4, 5)}, {{0}}, {0}, 0, "size is missing"},

    {"dropout", "dropout", NHWC, {SHAPE(2, 9)}, {REAL("rate", 0.25)}, SHAPE(2, 9), 0, NULL},
    {"dropout rate", "dropout", NHWC, {SHAPE(2, 9)}, {REAL("rate", 1.5)}, {0}, 0, "rate is 1.5"},
    {"flatten", "flatten", NHWC, {SHAPE(2, 3, 4, 5)}, {{0}}, SHAPE(2, 60), 0, NULL},
    {"flatten axis", "flatten", NCHW, {SHAPE(2, 3, 4, 5)}, {INTS("axis", -1)}, SHAPE(24, 5), 0, NULL},
    {"flatten axis 0", "flatten", NCHW, {SHAPE(2, 3)}, {INTS("axis", 0)}, SHAPE(1, 6), 0, NULL},
    {"reshape", "reshape", NHWC, {SHAPE(2, 3, 4, 5)}, {INTS("shape", 0, -1, 5)}, SHAPE(2, 12, 5), 0, NULL},
    {"reshape exact", "reshape", NHWC, {SHAPE(2, 6)}, {INTS("shape", 3, 4)}, SHAPE(3, 4), 0, NULL},
    {"reshape mismatch", "reshape", NHWC, {SHAPE(2, 6)}, {INTS("shape", 5, 2)}, {0}, 0, "2x6 cannot be reshaped to 5x2"},
    {"reshape inferred", "reshape", NHWC, {SHAPE(2, 6)}, {INTS("shape", 5, -1)}, {0}, 0, "cannot be reshaped"},
    {"reshape two unknown", "reshape", NHWC, {SHAPE(2, 6)}, {INTS("shape", -1, -1)}, {0}, 0, "holds -1 at axis 1"},
    {"reshape zero", "reshape", NHWC, {SHAPE(2, 6)}, {INTS("shape", 2, 6, 0)}, {0}, 0, "holds 0 at axis 2"},
    {"reshape hostile", "reshape", NHWC, {SHAPE(2, 6)}, {INTS("shape", INT64_MAX, 3)}, {0}, 0, "63 bits"},
    {"identity", "identity", NHWC, {SHAPE(2, 6)}, {{0}}, SHAPE(2, 6), 0, NULL},
    {"lambda", "lambda", NHWC, {SHAPE(2, 6)}, {INTS("shape", 3, 7), WORD("text", "f")}, SHAPE(2, 3, 7), 0, NULL},
    {"lambda no shape", "lambda", NHWC, {SHAPE(2, 6)}, {{0}}, {0}, 0, "attribute shape must be"},
};
// clang-format on

static void run_case(const op_case *c)
{
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    int32_t inputs[MAX_IN];
    int32_t n_inputs = 0;
    int32_t n_attrs = 0;
    int32_t y = -1;
    assert_int_equal(ckm_i_graph_create("g", c->layout, 1, &g, &err), CKM_OK);
    for (int32_t i = 0; i < MAX_IN; i++) {
        inputs[i] = -1;
        if (c->in[i].rank > 0) {
            n_inputs = i + 1;
            assert_int_equal(ckm_i_graph_add_tensor(g, "in", i == 0 ? CKM_ROLE_INPUT : CKM_ROLE_PARAMETER, CKM_F32,
                                                    &c->in[i], &inputs[i], &err),
                             CKM_OK);
        }
    }
    while (n_attrs < 5 && c->attrs[n_attrs].key != NULL) {
        n_attrs++;
    }
    ckm_status status = ckm_i_graph_add_op(
        g,
        &(ckm_i_new_op){
            .kind = c->kind, .name = "op", .inputs = {inputs, n_inputs}, .attrs = {c->attrs, n_attrs}, .n_outputs = 1},
        &y, &err);
    if (c->out.rank == 0) {
        if (status == CKM_OK || strstr(err.message, c->word) == NULL || strstr(err.message, "\"op\"") == NULL) {
            fail_msg("%s: gives \"%s\", not an error with \"%s\"", c->what, err.message, c->word);
        }
        ckm_graph_free(g);
        return;
    }
    if (status != CKM_OK) {
        fail_msg("%s: %s", c->what, err.message);
    }
    char got[128];
    char want[128];
    ckm_i_shape_text(&g->tensors[y].shape, got, sizeof got);
    ckm_i_shape_text(&c->out, want, sizeof want);
    if (strcmp(got, want) != 0) {
        fail_msg("%s: shape %s, not %s", c->what, got, want);
    }
    ckm_i_op_view view;
    int64_t macs = 0;
    assert_int_equal(ckm_i_op_view_init(g, 0, &view, &err), CKM_OK);
    if (view.op->op_class->macs != NULL) {
        assert_int_equal(view.op->op_class->macs(&view, &macs, &err), CKM_OK);
    }
    if (macs != c->macs) {
        fail_msg("%s: %lld multiply-accumulates, not %lld", c->what, (long long)macs, (long long)c->macs);
    }
    assert_int_equal(ckm_i_op_view_init(g, 1, &view, NULL), CKM_ERR_ARGUMENT);
    ckm_graph_free(g);
}

static void shapes_and_costs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_case(&cases[i]);
    }
}

static void costs_that_overflow_are_errors(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    int32_t in[2];
    int32_t y;
    // 2^30 x 2^28 outputs of 2^10 products each: the tensors fit, the products do not.
    ckm_shape x = SHAPE(INT64_C(1) << 30, 1 << 10);
    ckm_shape w = SHAPE(1 << 10, 1 << 28);
    assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_LAST, 1, &g, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &x, &in[0], &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "w", CKM_ROLE_PARAMETER, CKM_F32, &w, &in[1], &err), CKM_OK);
    assert_int_equal(
        ckm_i_graph_add_op(g, &(ckm_i_new_op){.kind = "dense", .name = "big", .inputs = {in, 2}, .n_outputs = 1}, &y,
                           &err),
        CKM_OK);
    ckm_i_op_view view;
    int64_t macs = -7;
    assert_int_equal(ckm_i_op_view_init(g, 0, &view, &err), CKM_OK);
    assert_int_equal(view.op->op_class->macs(&view, &macs, &err), CKM_ERR_OVERFLOW);
    assert_non_null(strstr(err.message, "\"big\""));
    assert_int_equal(macs, -7);
    ckm_graph_free(g);
}

// Only constants may be empty; an operator on one neither divides by zero nor makes something of nothing.
static void empty_constants_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        ckm_shape in[3];
    } empty[] = {
        {"conv", {SHAPE(1, 4, 4, 0), SHAPE(3, 3, 1, 8)}},
        {"conv", {SHAPE(1, 4, 4, 3), SHAPE(3, 3, 3, 0)}},
        {"conv", {SHAPE(1, 0, 4, 3), SHAPE(3, 3, 3, 8)}},
        {"conv_transpose", {SHAPE(1, 4, 4, 0), SHAPE(3, 3, 8, 1)}},
        {"separable_conv", {SHAPE(1, 4, 4, 0), SHAPE(3, 3, 1, 4), SHAPE(1, 1, 4, 4)}},
        {"dense", {SHAPE(1, 4), SHAPE(4, 0)}},
        {"dense", {SHAPE(1, 0), SHAPE(0, 0)}},
        {"batch_norm", {SHAPE(1, 0), SHAPE(0)}},
        {"global_average_pool", {SHAPE(1, 4, 4, 0)}},
        {"flatten", {SHAPE(1, 0)}},
        {"identity", {SHAPE(0)}},
        {"attention", {SHAPE(1, 1, 2, 3), SHAPE(1, 1, 0, 3), SHAPE(1, 1, 0, 3)}},
    };
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++) {
        ckm_graph *g = NULL;
        ckm_error err = CKM_ERROR_INIT;
        int32_t in[3];
        int32_t n = 0;
        int32_t y;
        assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_LAST, 1, &g, &err), CKM_OK);
        for (; n < 3 && empty[i].in[n].rank > 0; n++) {
            assert_int_equal(ckm_i_graph_add_tensor(g, "c", CKM_ROLE_CONSTANT, CKM_F32, &empty[i].in[n], &in[n], &err),
                             CKM_OK);
        }
        if (ckm_i_graph_add_op(g,
                               &(ckm_i_new_op){.kind = empty[i].kind, .name = "op", .inputs = {in, n}, .n_outputs = 1},
                               &y, &err) != CKM_ERR_FORMAT) {
            fail_msg("case %d, %s: \"%s\"", (int)i, empty[i].kind, err.message);
        }
        ckm_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_costs),
        cmocka_unit_test(empty_constants_are_refused),
        cmocka_unit_test(costs_that_overflow_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
