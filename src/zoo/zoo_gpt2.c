// SPDX-License-Identifier: Apache-2.0
// GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3 and table 2) as its
// published src/model.py has it: normalization before each part of a layer, learned positions for 1024 tokens, gelu by
// the tangent, the embedding's weight again as the output's, no dropout. A longer sequence makes the table of positions
// longer; a shorter one uses its beginning. Parameters have the names of transformers' GPT2LMHeadModel, too, whose layers have their
// weights in, out.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

static const double epsilon = 1e-5;

// Block "h3" is "transformer.h.3" there.
static void know(ckm_i_zoo *z, const char *block, const char *part)
{
    ckm_i_zoo_known_as(z, "transformer.h.%s.%s", block + 1, part);
    ckm_i_zoo_known_unturned(z);
}

static ckm_i_layer attention(ckm_i_zoo *z, ckm_i_layer x, const char *block, int64_t width, int64_t heads)
{
    char name[48];
    ckm_i_layer qkv[3];
    snprintf(name, sizeof name, "%s/attn", block);
    know(z, block, "ln_1");
    x = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "%s/ln_1", block), epsilon);
    know(z, block, "attn.c_attn");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/qkv", name), .units = 3 * width});
    ckm_i_zoo_split_last(z, x, ckm_i_zoo_name(z, "%s/split", name), qkv, 3);
    x = ckm_i_zoo_attend(z, qkv, (ckm_i_attention){.block = name, .heads = heads, .causal = true});
    know(z, block, "attn.c_proj");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/proj", name), .units = width});
}

static ckm_i_layer feed_forward(ckm_i_zoo *z, ckm_i_layer x, const char *block, int64_t width)
{
    know(z, block, "ln_2");
    x = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "%s/ln_2", block), epsilon);
    know(z, block, "mlp.c_fc");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/mlp/fc", block), .units = 4 * width});
    x = ckm_i_zoo_gelu(z, x, ckm_i_zoo_name(z, "%s/mlp/gelu", block), true);
    know(z, block, "mlp.c_proj");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/mlp/proj", block), .units = width});
}

ckm_i_layer ckm_i_zoo_gpt2(ckm_i_zoo *z, int32_t unused)
{
    enum { POSITIONS = 1024 };
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    int32_t table;
    (void)unused;
    ckm_i_zoo_set_task(z, CKM_TASK_NEXT_TOKEN);
    ckm_i_zoo_known_as(z, "transformer.wte");
    ckm_i_layer x = ckm_i_zoo_embed(z, CKM_I_ZOO_INPUT, "wte", s->vocabulary, s->model_width, &table);
    ckm_i_zoo_also_known_as(z, table, "lm_head.weight");
    ckm_i_zoo_known_as(z, "transformer.wpe");
    x = ckm_i_zoo_add_positions(z, x, "wpe", POSITIONS);
    for (int64_t i = 0; i < s->depth; i++) {
        char block[32];
        snprintf(block, sizeof block, "h%lld", (long long)i);
        ckm_i_layer mixed = attention(z, x, block, s->model_width, s->heads);
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/attn/add", block), x, mixed);
        ckm_i_layer fed = feed_forward(z, x, block, s->model_width);
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/mlp/add", block), x, fed);
    }
    ckm_i_zoo_known_as(z, "transformer.ln_f");
    x = ckm_i_zoo_layer_norm(z, x, "ln_f", epsilon);
    return ckm_i_zoo_project(
        z, x, (ckm_i_projection){.name = "logits", .units = s->vocabulary, .no_bias = true, .tied = table});
}
