// SPDX-License-Identifier: Apache-2.0
// InceptionV3 (Szegedy et al. 2015) as in Keras.
#include "zoo/zoo_networks.h"

static const char *const same = "same";

// Convolution, normalization without a scale, ReLU. `c` gives filters and what is not default.
static ckm_i_layer unit(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c)
{
    c.no_bias = true;
    x = ckm_i_zoo_conv(z, x, c);
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.no_scale = true});
    return ckm_i_zoo_activation(z, x, NULL, "relu");
}

static ckm_i_layer conv(ckm_i_zoo *z, ckm_i_layer x, int64_t filters, int64_t height, int64_t width)
{
    return unit(z, x, (ckm_i_conv){.filters = filters, .kernel = {height, width}, .padding = same});
}

static ckm_i_layer halve(ckm_i_zoo *z, ckm_i_layer x, int64_t filters)
{
    return unit(z, x, (ckm_i_conv){.filters = filters, .kernel = {3}, .strides = {2}});
}

static ckm_i_layer max_pool(ckm_i_zoo *z, ckm_i_layer x)
{
    return ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.size = {3}, .strides = {2}});
}

static ckm_i_layer average_then_conv(ckm_i_zoo *z, ckm_i_layer x, int64_t filters)
{
    x = ckm_i_zoo_average_pool(z, x, (ckm_i_pool){.size = {3}, .strides = {1}, .padding = same});
    return conv(z, x, filters, 1, 1);
}

static ckm_i_layer stem(ckm_i_zoo *z)
{
    ckm_i_layer x = halve(z, CKM_I_ZOO_INPUT, 32);
    x = unit(z, x, (ckm_i_conv){.filters = 32, .kernel = {3}});
    x = conv(z, x, 64, 3, 3);
    x = max_pool(z, x);
    x = unit(z, x, (ckm_i_conv){.filters = 80});
    x = unit(z, x, (ckm_i_conv){.filters = 192, .kernel = {3}});
    return max_pool(z, x);
}

// 35 x 35: 1x1, 5x5, two 3x3, pooling.
static ckm_i_layer block_a(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t pooled)
{
    ckm_i_layer one = conv(z, x, 64, 1, 1);
    ckm_i_layer five = conv(z, conv(z, x, 48, 1, 1), 64, 5, 5);
    ckm_i_layer three = conv(z, conv(z, conv(z, x, 64, 1, 1), 96, 3, 3), 96, 3, 3);
    ckm_i_layer pool = average_then_conv(z, x, pooled);
    return ckm_i_zoo_concat(z, name, (const ckm_i_layer[]){one, five, three, pool}, 4);
}

// 35 to 17.
static ckm_i_layer reduce_a(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    ckm_i_layer three = halve(z, x, 384);
    ckm_i_layer twice = halve(z, conv(z, conv(z, x, 64, 1, 1), 96, 3, 3), 96);
    ckm_i_layer pool = max_pool(z, x);
    return ckm_i_zoo_concat(z, name, (const ckm_i_layer[]){three, twice, pool}, 3);
}

// 17 x 17: 7x7 as 1x7 and 7x1, once and twice.
static ckm_i_layer block_b(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t c)
{
    ckm_i_layer one = conv(z, x, 192, 1, 1);
    ckm_i_layer seven = conv(z, conv(z, conv(z, x, c, 1, 1), c, 1, 7), 192, 7, 1);
    ckm_i_layer twice = conv(z, conv(z, conv(z, x, c, 1, 1), c, 7, 1), c, 1, 7);
    twice = conv(z, conv(z, twice, c, 7, 1), 192, 1, 7);
    ckm_i_layer pool = average_then_conv(z, x, 192);
    return ckm_i_zoo_concat(z, name, (const ckm_i_layer[]){one, seven, twice, pool}, 4);
}

// 17 to 8.
static ckm_i_layer reduce_b(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    ckm_i_layer three = halve(z, conv(z, x, 192, 1, 1), 320);
    ckm_i_layer seven = halve(z, conv(z, conv(z, conv(z, x, 192, 1, 1), 192, 1, 7), 192, 7, 1), 192);
    ckm_i_layer pool = max_pool(z, x);
    return ckm_i_zoo_concat(z, name, (const ckm_i_layer[]){three, seven, pool}, 3);
}

// 1x3 and 3x1 side by side.
static ckm_i_layer fan(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    ckm_i_layer flat = conv(z, x, 384, 1, 3);
    ckm_i_layer tall = conv(z, x, 384, 3, 1);
    return ckm_i_zoo_concat(z, name, (const ckm_i_layer[]){flat, tall}, 2);
}

// 8 x 8.
static ckm_i_layer block_c(ckm_i_zoo *z, ckm_i_layer x, const char *name, const char *fan_name)
{
    ckm_i_layer one = conv(z, x, 320, 1, 1);
    ckm_i_layer three = fan(z, conv(z, x, 384, 1, 1), fan_name);
    ckm_i_layer twice = fan(z, conv(z, conv(z, x, 448, 1, 1), 384, 3, 3), NULL);
    ckm_i_layer pool = average_then_conv(z, x, 192);
    return ckm_i_zoo_concat(z, name, (const ckm_i_layer[]){one, three, twice, pool}, 4);
}

ckm_i_layer ckm_i_zoo_inception(ckm_i_zoo *z, int32_t unused)
{
    (void)unused;
    ckm_i_layer x = stem(z);
    x = block_a(z, x, "mixed0", 32);
    x = block_a(z, x, "mixed1", 64);
    x = block_a(z, x, "mixed2", 64);
    x = reduce_a(z, x, "mixed3");
    x = block_b(z, x, "mixed4", 128);
    x = block_b(z, x, "mixed5", 160);
    x = block_b(z, x, "mixed6", 160);
    x = block_b(z, x, "mixed7", 192);
    x = reduce_b(z, x, "mixed8");
    x = block_c(z, x, "mixed9", "mixed9_0");
    x = block_c(z, x, "mixed10", "mixed9_1");
    x = ckm_i_zoo_global_average_pool(z, x, "avg_pool");
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}
