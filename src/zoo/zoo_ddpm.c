// SPDX-License-Identifier: Apache-2.0
// The denoising U-Net of Ho et al. 2020 ("Denoising Diffusion Probabilistic Models", section 4 and appendix B): given a
// noisy image and the time step, the noise. Blocks of two convolutions with group normalization and swish, into which
// the time's embedding is added; attention where the map is 16 high and in the middle; every block of the way down is
// joined to one of the way up. For CIFAR-10 four resolutions, dropout 0.1; for 256 x 256 six, no dropout. The depth is
// that of blocks at a resolution, the width the channels of the finest. swish of the time's embedding is computed once,
// not in every block.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

enum { GROUPS = 32, MOST_LEVELS = 6, ATTENTION_HEIGHT = 16, MOST_SKIPS = 256 };
static const double epsilon = 1e-6;

typedef struct variant {
    int levels;
    int64_t widths[MOST_LEVELS];  // of a resolution, as a multiple of the finest's
    double dropout;
} variant;

static const variant variants[] = {
    [CKM_I_DDPM_CIFAR10] = {4, {1, 2, 2, 2}, 0.1},
    [CKM_I_DDPM_256] = {6, {1, 1, 2, 2, 4, 4}, 0.0},
};

// What all parts share.
typedef struct unet {
    ckm_i_zoo *z;
    const variant *v;
    ckm_i_layer time;  // swish of the embedding
    int64_t heads;
} unet;

static ckm_i_layer norm(const unet *u, ckm_i_layer x, const char *name)
{
    return ckm_i_zoo_group_norm(u->z, x, name, GROUPS, epsilon);
}

static ckm_i_layer conv3(const unet *u, ckm_i_layer x, const char *name, int64_t filters, int64_t stride)
{
    return ckm_i_zoo_conv(
        u->z, x, (ckm_i_conv){.name = name, .filters = filters, .kernel = {3}, .strides = {stride}, .padding = "same"});
}

static ckm_i_layer residual(const unet *u, ckm_i_layer x, const char *name, int64_t channels)
{
    ckm_i_zoo *z = u->z;
    ckm_i_layer y = norm(u, x, ckm_i_zoo_name(z, "%s/norm1", name));
    y = ckm_i_zoo_activation(z, y, ckm_i_zoo_name(z, "%s/swish1", name), "swish");
    y = conv3(u, y, ckm_i_zoo_name(z, "%s/conv1", name), channels, 1);
    ckm_i_layer time = ckm_i_zoo_project(
        z, u->time, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/time", name), .units = channels});
    time = ckm_i_zoo_view(z, time, ckm_i_zoo_name(z, "%s/time_map", name), 4, (const int64_t[]){0, 1, 1, channels});
    y = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/add_time", name), y, time);
    y = norm(u, y, ckm_i_zoo_name(z, "%s/norm2", name));
    y = ckm_i_zoo_activation(z, y, ckm_i_zoo_name(z, "%s/swish2", name), "swish");
    if (u->v->dropout > 0.0) {
        y = ckm_i_zoo_dropout(z, y, ckm_i_zoo_name(z, "%s/dropout", name), u->v->dropout);
    }
    y = conv3(u, y, ckm_i_zoo_name(z, "%s/conv2", name), channels, 1);
    if (ckm_i_zoo_channels(z, x) != channels) {
        x = ckm_i_zoo_project(z, x,
                              (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/shortcut", name), .units = channels});
    }
    return ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/add", name), x, y);
}

static ckm_i_layer attention(const unet *u, ckm_i_layer x, const char *name)
{
    static const char *const words[3] = {"q", "k", "v"};
    ckm_i_zoo *z = u->z;
    int64_t channels = ckm_i_zoo_channels(z, x);
    int64_t height = ckm_i_zoo_height(z, x);
    int64_t width = ckm_i_zoo_width(z, x);
    ckm_i_layer qkv[3];
    ckm_i_layer y = norm(u, x, ckm_i_zoo_name(z, "%s/norm", name));
    y = ckm_i_zoo_view(z, y, ckm_i_zoo_name(z, "%s/positions", name), 3, (const int64_t[]){0, -1, channels});
    for (int i = 0; i < 3; i++) {
        qkv[i] = ckm_i_zoo_project(
            z, y, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/%s_proj", name, words[i]), .units = channels});
    }
    y = ckm_i_zoo_attend(z, qkv, (ckm_i_attention){.block = name, .heads = u->heads});
    y = ckm_i_zoo_project(z, y, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/out", name), .units = channels});
    y = ckm_i_zoo_view(z, y, ckm_i_zoo_name(z, "%s/map", name), 4, (const int64_t[]){0, height, width, channels});
    return ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/add", name), x, y);
}

// A block of the way down or up, with attention where the map is of that height.
static ckm_i_layer step(const unet *u, ckm_i_layer x, const char *name, int64_t channels)
{
    char part[80];
    x = residual(u, x, name, channels);
    snprintf(part, sizeof part, "%s/attn", name);
    return ckm_i_zoo_height(u->z, x) == ATTENTION_HEIGHT ? attention(u, x, part) : x;
}

static ckm_i_layer embed_time(ckm_i_zoo *z, int64_t width)
{
    int32_t t = ckm_i_zoo_input(z, "time", CKM_F32, (ckm_shape){1, {ckm_i_zoo_batch(z)}});
    ckm_i_attr dim = ckm_i_attr_ints("dim", &width, 1);
    ckm_i_layer x = ckm_i_zoo_add(z, "time_embedding", "time/sinusoids", &t, 1, &dim, 1);
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "time/dense0", .units = 4 * width});
    x = ckm_i_zoo_activation(z, x, "time/swish0", "swish");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "time/dense1", .units = 4 * width});
    return ckm_i_zoo_activation(z, x, "time/swish1", "swish");
}

static ckm_i_layer go_up(const unet *u, ckm_i_layer x, const ckm_i_layer *skips, int n_skips)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(u->z);
    char name[64];
    for (int level = u->v->levels - 1; level >= 0; level--) {
        int64_t channels = s->model_width * u->v->widths[level];
        for (int64_t i = 0; i <= s->depth; i++) {
            snprintf(name, sizeof name, "up%d/block%lld", level, (long long)i);
            const ckm_i_layer joined[2] = {x, skips[--n_skips]};
            x = ckm_i_zoo_concat(u->z, ckm_i_zoo_name(u->z, "%s/join", name), joined, 2);
            x = step(u, x, name, channels);
        }
        if (level > 0) {
            x = ckm_i_zoo_up_sampling(u->z, x, ckm_i_zoo_name(u->z, "up%d/grow", level), 2);
            x = conv3(u, x, ckm_i_zoo_name(u->z, "up%d/conv", level), channels, 1);
        }
    }
    return x;
}

ckm_i_layer ckm_i_zoo_ddpm(ckm_i_zoo *z, int32_t which)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    unet u = {.z = z, .v = &variants[which], .heads = s->heads};
    ckm_i_layer skips[MOST_SKIPS];
    int n_skips = 0;
    int64_t tile = INT64_C(1) << (u.v->levels - 1);
    char name[64];
    ckm_i_zoo_set_task(z, CKM_TASK_DENOISE);
    if (s->height % tile != 0 || s->width % tile != 0) {
        return ckm_i_zoo_fail(z, "height and width must be multiples of %lld", (long long)tile);
    }
    if (s->depth > MOST_SKIPS / MOST_LEVELS - 2) {
        return ckm_i_zoo_fail(z, "more than %d blocks at a resolution", MOST_SKIPS / MOST_LEVELS - 2);
    }
    u.time = embed_time(z, s->model_width);
    ckm_i_layer x = conv3(&u, CKM_I_ZOO_INPUT, "conv_in", s->model_width, 1);
    skips[n_skips++] = x;
    for (int level = 0; level < u.v->levels; level++) {
        int64_t channels = s->model_width * u.v->widths[level];
        for (int64_t i = 0; i < s->depth; i++) {
            snprintf(name, sizeof name, "down%d/block%lld", level, (long long)i);
            x = step(&u, x, name, channels);
            skips[n_skips++] = x;
        }
        if (level + 1 < u.v->levels) {
            x = conv3(&u, x, ckm_i_zoo_name(z, "down%d/shrink", level), channels, 2);
            skips[n_skips++] = x;
        }
    }
    int64_t channels = ckm_i_zoo_channels(z, x);
    x = residual(&u, x, "mid/block0", channels);
    x = attention(&u, x, "mid/attn");
    x = residual(&u, x, "mid/block1", channels);
    x = go_up(&u, x, skips, n_skips);
    x = norm(&u, x, "norm_out");
    x = ckm_i_zoo_activation(z, x, "swish_out", "swish");
    return conv3(&u, x, "conv_out", s->channels, 1);
}
