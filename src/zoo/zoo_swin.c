// SPDX-License-Identifier: Apache-2.0
// Swin (Liu et al. 2021, "Swin Transformer", section 3 and figure 3): windows of 7 x 7, every second block shifted by 3,
// relative position bias, without stochastic depth. Maps that windows do not tile are padded with zeros, as in the
// published code; windows are not shifted where one covers the map. Stages have the proportion 1 : 1 : 3 : 1 of blocks,
// or of the larger variants 1 : 1 : 9 : 1. Parameters have torchvision's names, too.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

enum { WINDOW = 7 };
static const double epsilon = 1e-5;

// A feature map and how it is cut: `grid` is its height and width after padding.
typedef struct map {
    int64_t height, width, channels, heads;
    int64_t grid[2], shift[2];
} map;

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static map map_of(const ckm_i_zoo *z, ckm_i_layer x, int64_t heads, bool shifted)
{
    map m = {.height = ckm_i_zoo_height(z, x),
             .width = ckm_i_zoo_width(z, x),
             .channels = ckm_i_zoo_channels(z, x),
             .heads = heads};
    m.grid[0] = round_up(m.height, WINDOW);
    m.grid[1] = round_up(m.width, WINDOW);
    for (int i = 0; i < 2; i++) {
        m.shift[i] = shifted && m.grid[i] > WINDOW ? WINDOW / 2 : 0;
    }
    return m;
}

static ckm_i_layer roll(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t down, int64_t right)
{
    ckm_i_attr shifts = ckm_i_attr_ints("shifts", (const int64_t[]){0, down, right, 0}, 4);
    return ckm_i_zoo_add(z, "roll", ckm_i_zoo_layer_name(z, "roll", name), &x, 1, &shifts, 1);
}

// N, height, width, C -> N * windows, 49, C; and back.
static ckm_i_layer cut(ckm_i_zoo *z, ckm_i_layer x, const char *name, const map *m)
{
    if (m->grid[0] != m->height || m->grid[1] != m->width) {
        x = ckm_i_zoo_zero_padding(z, x, ckm_i_zoo_name(z, "%s/pad", name),
                                   (ckm_i_border){0, m->grid[0] - m->height, 0, m->grid[1] - m->width});
    }
    if (m->shift[0] > 0 || m->shift[1] > 0) {
        x = roll(z, x, ckm_i_zoo_name(z, "%s/shift", name), -m->shift[0], -m->shift[1]);
    }
    x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/tiles", name), 6,
                       (const int64_t[]){0, m->grid[0] / WINDOW, WINDOW, m->grid[1] / WINDOW, WINDOW, m->channels});
    x = ckm_i_zoo_transpose(z, x, ckm_i_zoo_name(z, "%s/by_window", name), 6, (const int64_t[]){0, 1, 3, 2, 4, 5});
    return ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/windows", name), 3,
                          (const int64_t[]){-1, (int64_t)WINDOW * WINDOW, m->channels});
}

static ckm_i_layer join(ckm_i_zoo *z, ckm_i_layer x, const char *name, const map *m)
{
    x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/windows_out", name), 6,
                       (const int64_t[]){-1, m->grid[0] / WINDOW, m->grid[1] / WINDOW, WINDOW, WINDOW, m->channels});
    x = ckm_i_zoo_transpose(z, x, ckm_i_zoo_name(z, "%s/by_row", name), 6, (const int64_t[]){0, 1, 3, 2, 4, 5});
    x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/map", name), 4,
                       (const int64_t[]){-1, m->grid[0], m->grid[1], m->channels});
    if (m->shift[0] > 0 || m->shift[1] > 0) {
        x = roll(z, x, ckm_i_zoo_name(z, "%s/unshift", name), m->shift[0], m->shift[1]);
    }
    if (m->grid[0] != m->height || m->grid[1] != m->width) {
        x = ckm_i_zoo_cropping(z, x, ckm_i_zoo_name(z, "%s/crop", name),
                               (ckm_i_border){0, m->grid[0] - m->height, 0, m->grid[1] - m->width});
    }
    return x;
}

static ckm_i_layer window_attention(ckm_i_zoo *z, ckm_i_layer x, const char *name, const map *m, const char *known_as)
{
    char known[96];
    static const int64_t window[2] = {WINDOW, WINDOW};
    ckm_i_attr attrs[4] = {ckm_i_attr_word("mask", "windows"), ckm_i_attr_ints("grid", m->grid, 2),
                           ckm_i_attr_ints("window", window, 2), ckm_i_attr_ints("shift", m->shift, 2)};
    bool shifted = m->shift[0] > 0 || m->shift[1] > 0;
    ckm_i_layer qkv[3];
    ckm_i_zoo_known_as(z, "%s.attn.qkv", known_as);
    x = ckm_i_zoo_project(z, x,
                          (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/qkv", name), .units = 3 * m->channels});
    ckm_i_zoo_split_last(z, x, ckm_i_zoo_name(z, "%s/split", name), qkv, 3);
    int32_t table = ckm_i_zoo_parameter(z, name, "relative_position_bias", CKM_ROLE_PARAMETER,
                                        (ckm_shape){2, {(2 * WINDOW - 1) * (2 * WINDOW - 1), m->heads}});
    snprintf(known, sizeof known, "%s.attn.relative_position_bias_table", known_as);
    ckm_i_zoo_parameter_known_as(z, table, known, NULL);
    snprintf(known, sizeof known, "%s.attn.relative_position_index", known_as);
    ckm_i_zoo_known_with_index(z, table, known, window);
    const char *layer = ckm_i_zoo_layer_name(z, "window_bias", ckm_i_zoo_name(z, "%s/bias", name));
    ckm_i_layer bias = ckm_i_zoo_add(z, "window_bias", layer, &table, 1, &attrs[2], 1);
    x = ckm_i_zoo_attend(
        z, qkv,
        (ckm_i_attention){
            .block = name, .heads = m->heads, .bias = &bias, .windows = shifted ? attrs : NULL, .n_windows = 4});
    ckm_i_zoo_known_as(z, "%s.attn.proj", known_as);
    return ckm_i_zoo_project(z, x,
                             (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/proj", name), .units = m->channels});
}

// `known_as` is the block there: "features.1.0".
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t heads, bool shifted,
                         const char *known_as)
{
    char part[48];
    map m = map_of(z, x, heads, shifted);
    snprintf(part, sizeof part, "%s/attn", name);
    ckm_i_zoo_known_as(z, "%s.norm1", known_as);
    ckm_i_layer y = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "%s/norm1", name), epsilon);
    y = cut(z, y, part, &m);
    y = window_attention(z, y, part, &m, known_as);
    y = join(z, y, part, &m);
    x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/attn/add", name), x, y);
    ckm_i_zoo_known_as(z, "%s.norm2", known_as);
    y = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "%s/norm2", name), epsilon);
    ckm_i_zoo_known_as(z, "%s.mlp.0", known_as);
    y = ckm_i_zoo_project(z, y,
                          (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/mlp/fc1", name), .units = 4 * m.channels});
    y = ckm_i_zoo_gelu(z, y, ckm_i_zoo_name(z, "%s/mlp/gelu", name), false);
    ckm_i_zoo_known_as(z, "%s.mlp.3", known_as);
    y = ckm_i_zoo_project(z, y, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/mlp/fc2", name), .units = m.channels});
    return ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/mlp/add", name), x, y);
}

// Patch merging: 2 x 2 neighbours as one position of four times the channels, columns before rows as published, brought
// down to twice the channels.
static ckm_i_layer merge(ckm_i_zoo *z, ckm_i_layer x, int stage)
{
    int64_t height = ckm_i_zoo_height(z, x);
    int64_t width = ckm_i_zoo_width(z, x);
    int64_t channels = ckm_i_zoo_channels(z, x);
    if (height % 2 != 0 || width % 2 != 0) {
        x = ckm_i_zoo_zero_padding(z, x, ckm_i_zoo_name(z, "merge%d/pad", stage),
                                   (ckm_i_border){0, height % 2, 0, width % 2});
        height += height % 2;
        width += width % 2;
    }
    x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "merge%d/tiles", stage), 6,
                       (const int64_t[]){0, height / 2, 2, width / 2, 2, channels});
    x = ckm_i_zoo_transpose(z, x, ckm_i_zoo_name(z, "merge%d/by_tile", stage), 6, (const int64_t[]){0, 1, 3, 4, 2, 5});
    x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "merge%d/joined", stage), 4,
                       (const int64_t[]){0, height / 2, width / 2, 4 * channels});
    ckm_i_zoo_known_as(z, "features.%d.norm", 2 * stage);
    x = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "merge%d/norm", stage), epsilon);
    ckm_i_zoo_known_as(z, "features.%d.reduction", 2 * stage);
    return ckm_i_zoo_project(
        z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "merge%d", stage), .units = 2 * channels, .no_bias = true});
}

ckm_i_layer ckm_i_zoo_swin(ckm_i_zoo *z, int32_t third)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    if (s->depth % (third + 3) != 0) {
        return ckm_i_zoo_fail(z, "a depth of %lld does not divide into stages of 1 : 1 : %d : 1", (long long)s->depth,
                              (int)third);
    }
    int64_t heads = s->heads;
    ckm_i_zoo_known_as(z, "features.0.0");
    ckm_i_layer x = ckm_i_zoo_conv(
        z, CKM_I_ZOO_INPUT,
        (ckm_i_conv){.name = "patch_embed", .filters = s->model_width, .kernel = {4}, .strides = {4}});
    ckm_i_zoo_known_as(z, "features.0.2");
    x = ckm_i_zoo_layer_norm(z, x, "patch_embed/norm", epsilon);
    for (int stage = 0; stage < 4; stage++, heads *= 2) {
        x = stage > 0 ? merge(z, x, stage) : x;
        int64_t blocks = s->depth / (third + 3) * (stage == 2 ? third : 1);
        for (int64_t i = 0; i < blocks; i++) {
            char name[40];
            char known[40];
            snprintf(name, sizeof name, "stage%d/block%lld", stage, (long long)i);
            snprintf(known, sizeof known, "features.%d.%lld", 2 * stage + 1, (long long)i);
            x = block(z, x, name, heads, i % 2 == 1, known);
        }
    }
    ckm_i_zoo_known_as(z, "norm");
    x = ckm_i_zoo_layer_norm(z, x, "norm", epsilon);
    x = ckm_i_zoo_global_average_pool(z, x, "pool");
    ckm_i_zoo_known_as(z, "head");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "head", .units = ckm_i_zoo_classes(z)});
}
