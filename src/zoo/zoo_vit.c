// SPDX-License-Identifier: Apache-2.0
// ViT with patches of 16 x 16 (Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", section 3.1 and table 1), for
// ImageNet, without the hidden layer that pre-training on larger data has in the head, and without dropout. The table
// of positions is as long as the image has patches. Parameters have the names of torchvision's VisionTransformer, too.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

static const double epsilon = 1e-6;

// Block "block3" is "encoder.layers.encoder_layer_3" there.
static void know(ckm_i_zoo *z, const char *block, const char *part)
{
    ckm_i_zoo_known_as(z, "encoder.layers.encoder_layer_%s.%s", block + sizeof "block" - 1, part);
}

static ckm_i_layer attention(ckm_i_zoo *z, ckm_i_layer x, const char *block, int64_t width, int64_t heads)
{
    char name[48];
    ckm_i_layer qkv[3];
    snprintf(name, sizeof name, "%s/attn", block);
    know(z, block, "ln_1");
    x = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "%s/norm1", block), epsilon);
    know(z, block, "self_attention.in_proj_");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/qkv", name), .units = 3 * width});
    ckm_i_zoo_split_last(z, x, ckm_i_zoo_name(z, "%s/split", name), qkv, 3);
    x = ckm_i_zoo_attend(z, qkv, (ckm_i_attention){.block = name, .heads = heads});
    know(z, block, "self_attention.out_proj");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/proj", name), .units = width});
}

static ckm_i_layer feed_forward(ckm_i_zoo *z, ckm_i_layer x, const char *block, int64_t width)
{
    know(z, block, "ln_2");
    x = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "%s/norm2", block), epsilon);
    know(z, block, "mlp.0");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/mlp/fc1", block), .units = 4 * width});
    x = ckm_i_zoo_gelu(z, x, ckm_i_zoo_name(z, "%s/mlp/gelu", block), false);
    know(z, block, "mlp.3");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/mlp/fc2", block), .units = width});
}

// Patches as tokens, a learned one for the class in front of them.
static ckm_i_layer tokens_of(ckm_i_zoo *z, int64_t patch, int64_t width)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    if (s->height % patch != 0 || s->width % patch != 0) {
        return ckm_i_zoo_fail(z, "patches of %lld x %lld do not tile the image", (long long)patch, (long long)patch);
    }
    ckm_i_zoo_known_as(z, "conv_proj");
    ckm_i_layer x = ckm_i_zoo_conv(
        z, CKM_I_ZOO_INPUT,
        (ckm_i_conv){.name = "patch_embed", .filters = width, .kernel = {patch}, .strides = {patch}});
    x = ckm_i_zoo_view(z, x, "patches", 3, (const int64_t[]){0, -1, width});
    int32_t token = ckm_i_zoo_parameter(z, "cls_token", "embedding", CKM_ROLE_PARAMETER, (ckm_shape){3, {1, 1, width}});
    ckm_i_zoo_parameter_known_as(z, token, "class_token", NULL);
    ckm_i_attr shape = ckm_i_attr_ints("shape", (const int64_t[]){ckm_i_zoo_batch(z), 1, width}, 3);
    ckm_i_attr axis = ckm_i_attr_ints("axis", &(int64_t){1}, 1);
    ckm_i_layer first = ckm_i_zoo_add(z, "expand", "cls_token", &token, 1, &shape, 1);
    return ckm_i_zoo_add(z, "concat", "tokens", (const int32_t[]){first, x}, 2, &axis, 1);
}

ckm_i_layer ckm_i_zoo_vit(ckm_i_zoo *z, int32_t patch)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    int64_t width = s->model_width;
    ckm_i_layer x = tokens_of(z, patch, width);
    ckm_i_zoo_known_as(z, "encoder.pos_embedding");
    ckm_i_zoo_known_for_all_samples(z);
    x = ckm_i_zoo_add_positions(z, x, "pos_embed", 1);
    for (int64_t i = 0; i < s->depth; i++) {
        char block[32];
        snprintf(block, sizeof block, "block%lld", (long long)i);
        ckm_i_layer mixed = attention(z, x, block, width, s->heads);
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/attn/add", block), x, mixed);
        ckm_i_layer fed = feed_forward(z, x, block, width);
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/mlp/add", block), x, fed);
    }
    ckm_i_zoo_known_as(z, "encoder.ln");
    x = ckm_i_zoo_layer_norm(z, x, "norm", epsilon);
    x = ckm_i_zoo_head_of(z, x, "class", 3, (const int64_t[]){ckm_i_zoo_batch(z), 1, width});
    x = ckm_i_zoo_view(z, x, "class_row", 2, (const int64_t[]){0, width});
    ckm_i_zoo_known_as(z, "heads.head");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "head", .units = ckm_i_zoo_classes(z)});
}
