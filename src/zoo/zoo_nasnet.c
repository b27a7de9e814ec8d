// SPDX-License-Identifier: Apache-2.0
// NASNet-A (Zoph et al. 2017), the large and the mobile network, as in Keras.
#include <stdio.h>

#include "zoo/zoo_networks.h"

// A cell: its two inputs (the previous cell's output and the one before), its width, its name's ending.
typedef struct cell {
    ckm_i_zoo *z;
    ckm_i_layer input, earlier;
    int64_t filters;
    const char *id;
} cell;

static const char *name_of(const cell *c, const char *what)
{
    return ckm_i_zoo_name(c->z, "%s_%s", what, c->id);
}

static ckm_i_layer norm(const cell *c, ckm_i_layer x, const char *what)
{
    return ckm_i_zoo_batch_norm(c->z, x, (ckm_i_batch_norm){.name = name_of(c, what)});
}

static ckm_i_layer relu(const cell *c, ckm_i_layer x)
{
    return ckm_i_zoo_activation(c->z, x, NULL, "relu");
}

static ckm_i_layer pointwise(const cell *c, ckm_i_layer x, const char *what, int64_t filters)
{
    ckm_i_conv conv = {.name = name_of(c, what), .filters = filters, .padding = "same", .no_bias = true};
    return ckm_i_zoo_conv(c->z, x, conv);
}

// What a window of this size with a stride of 2 needs to give half the size, rounded up.
static ckm_i_border half_size_border(const cell *c, ckm_i_layer x, int64_t kernel)
{
    int64_t rim = kernel / 2;
    return (ckm_i_border){.top = rim - 1 + ckm_i_zoo_height(c->z, x) % 2,
                          .bottom = rim,
                          .left = rim - 1 + ckm_i_zoo_width(c->z, x) % 2,
                          .right = rim};
}

// ReLU, separable convolution, normalization, twice; the stride is in the first.
static ckm_i_layer separable(const cell *c, ckm_i_layer x, int64_t kernel, int64_t stride, const char *what)
{
    static const char *const parts[2] = {"separable_conv_1", "separable_conv_2"};
    for (int i = 0; i < 2; i++) {
        bool strided = i == 0 && stride > 1;
        x = relu(c, x);
        if (strided) {
            const char *name = ckm_i_zoo_name(c->z, "%s_pad_%s_%s", parts[i], what, c->id);
            x = ckm_i_zoo_zero_padding(c->z, x, name, half_size_border(c, x, kernel));
        }
        ckm_i_conv conv = {
            .filters = c->filters, .kernel = {kernel}, .strides = {i == 0 ? stride : 1}, .no_bias = true};
        conv.padding = strided ? "valid" : "same";
        conv.name = ckm_i_zoo_name(c->z, "%s_%s_%s", parts[i], what, c->id);
        x = ckm_i_zoo_separable_conv(c->z, x, conv);
        const char *name = ckm_i_zoo_name(c->z, "%s_bn_%s_%s", parts[i], what, c->id);
        x = ckm_i_zoo_batch_norm(c->z, x, (ckm_i_batch_norm){.name = name});
    }
    return x;
}

static ckm_i_layer average(const cell *c, ckm_i_layer x, const char *what, int64_t stride)
{
    ckm_i_pool p = {.name = name_of(c, what), .size = {3}, .strides = {stride}};
    p.padding = stride > 1 ? "valid" : "same";
    return ckm_i_zoo_average_pool(c->z, x, p);
}

static ckm_i_layer maximum(const cell *c, ckm_i_layer x, const char *what)
{
    return ckm_i_zoo_max_pool(c->z, x, (ckm_i_pool){.name = name_of(c, what), .size = {3}, .strides = {2}});
}

static ckm_i_layer add(const cell *c, ckm_i_layer a, ckm_i_layer b, const char *what)
{
    const char *name = what != NULL ? name_of(c, what) : NULL;
    return ckm_i_zoo_add_layers(c->z, name, (const ckm_i_layer[]){a, b}, 2);
}

// One of the two paths that halve the earlier output; they sample it one position apart.
static ckm_i_layer half_path(const cell *c, ckm_i_layer x, const char *pool, const char *conv)
{
    ckm_i_pool p = {.name = name_of(c, pool), .size = {1}, .strides = {2}};
    return pointwise(c, ckm_i_zoo_average_pool(c->z, x, p), conv, c->filters / 2);
}

// Brings the earlier output to the size and the width of this cell.
static ckm_i_layer adjust(const cell *c)
{
    ckm_i_zoo *z = c->z;
    ckm_i_layer p = c->earlier;
    if (p == c->input) {
        return p;
    }
    if (ckm_i_zoo_height(z, p) != ckm_i_zoo_height(z, c->input)) {
        p = ckm_i_zoo_activation(z, p, name_of(c, "adjust_relu_1"), "relu");
        ckm_i_layer here = half_path(c, p, "adjust_avg_pool_1", "adjust_conv_1");
        ckm_i_layer there = ckm_i_zoo_zero_padding(z, p, NULL, (ckm_i_border){.bottom = 1, .right = 1});
        there = ckm_i_zoo_cropping(z, there, NULL, (ckm_i_border){.top = 1, .left = 1});
        there = half_path(c, there, "adjust_avg_pool_2", "adjust_conv_2");
        return norm(c, ckm_i_zoo_concat(z, NULL, (const ckm_i_layer[]){here, there}, 2), "adjust_bn");
    }
    if (ckm_i_zoo_channels(z, p) != c->filters) {
        return norm(c, pointwise(c, relu(c, p), "adjust_conv_projection", c->filters), "adjust_bn");
    }
    return p;
}

static ckm_i_layer normal(ckm_i_zoo *z, ckm_i_layer input, ckm_i_layer earlier, int64_t filters, const char *id)
{
    cell c = {z, input, earlier, filters, id};
    ckm_i_layer p = adjust(&c);
    ckm_i_layer h = norm(&c, pointwise(&c, relu(&c, input), "normal_conv_1", filters), "normal_bn_1");
    ckm_i_layer left = separable(&c, h, 5, 1, "normal_left1");
    ckm_i_layer x1 = add(&c, left, separable(&c, p, 3, 1, "normal_right1"), "normal_add_1");
    left = separable(&c, p, 5, 1, "normal_left2");
    ckm_i_layer x2 = add(&c, left, separable(&c, p, 3, 1, "normal_right2"), "normal_add_2");
    ckm_i_layer x3 = add(&c, average(&c, h, "normal_left3", 1), p, "normal_add_3");
    left = average(&c, p, "normal_left4", 1);
    ckm_i_layer x4 = add(&c, left, average(&c, p, "normal_right4", 1), "normal_add_4");
    ckm_i_layer x5 = add(&c, separable(&c, h, 3, 1, "normal_left5"), h, "normal_add_5");
    return ckm_i_zoo_concat(z, name_of(&c, "normal_concat"), (const ckm_i_layer[]){p, x1, x2, x3, x4, x5}, 6);
}

static ckm_i_layer reduction(ckm_i_zoo *z, ckm_i_layer input, ckm_i_layer earlier, int64_t filters, const char *id)
{
    cell c = {z, input, earlier, filters, id};
    ckm_i_layer p = adjust(&c);
    ckm_i_layer h = norm(&c, pointwise(&c, relu(&c, input), "reduction_conv_1", filters), "reduction_bn_1");
    ckm_i_layer padded = ckm_i_zoo_zero_padding(z, h, name_of(&c, "reduction_pad_1"), half_size_border(&c, h, 3));
    ckm_i_layer left = separable(&c, h, 5, 2, "reduction_left1");
    ckm_i_layer x1 = add(&c, left, separable(&c, p, 7, 2, "reduction_right1"), "reduction_add_1");
    left = maximum(&c, padded, "reduction_left2");
    ckm_i_layer x2 = add(&c, left, separable(&c, p, 7, 2, "reduction_right2"), "reduction_add_2");
    left = average(&c, padded, "reduction_left3", 2);
    ckm_i_layer x3 = add(&c, left, separable(&c, p, 5, 2, "reduction_right3"), "reduction_add3");
    ckm_i_layer x4 = add(&c, x2, average(&c, x1, "reduction_left4", 1), NULL);
    left = separable(&c, x1, 3, 1, "reduction_left4");
    ckm_i_layer x5 = add(&c, left, maximum(&c, padded, "reduction_right5"), "reduction_add4");
    return ckm_i_zoo_concat(z, name_of(&c, "reduction_concat"), (const ckm_i_layer[]){x2, x3, x4, x5}, 4);
}

ckm_i_layer ckm_i_zoo_nasnet(ckm_i_zoo *z, int32_t large)
{
    const int cells = large ? 6 : 4;
    int64_t filters = large ? 168 : 44;
    ckm_i_layer x = ckm_i_zoo_conv(
        z, CKM_I_ZOO_INPUT,
        (ckm_i_conv){.name = "stem_conv1", .filters = large ? 96 : 32, .kernel = {3}, .strides = {2}, .no_bias = true});
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = "stem_bn1"});
    ckm_i_layer stem = x;
    ckm_i_layer earlier = reduction(z, x, x, filters / 4, "stem_1");
    x = reduction(z, earlier, stem, filters / 2, "stem_2");
    for (int stage = 0; stage < 3; stage++) {
        char id[16];
        if (stage > 0) {
            filters *= 2;
            snprintf(id, sizeof id, "reduce_%d", stage * cells);
            ckm_i_layer before = x;
            x = reduction(z, x, earlier, filters, id);
            // The large network's next cell looks past the reduction's input.
            earlier = large ? earlier : before;
        }
        for (int i = 0; i < cells; i++) {
            snprintf(id, sizeof id, "%d", stage * cells + i + (stage > 0 ? 1 : 0));
            ckm_i_layer before = x;
            x = normal(z, x, earlier, filters, id);
            earlier = before;
        }
    }
    x = ckm_i_zoo_activation(z, x, NULL, "relu");
    x = ckm_i_zoo_global_average_pool(z, x, NULL);
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}
