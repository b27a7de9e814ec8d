// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al. 2023, "LLaMA", section 2.2, and "Llama 2", section 2.2; Dubey et al. 2024, "The Llama 3 Herd of
// Models", section 3.2 and table 3; Zhang et al. 2024, "TinyLlama", section 2.2): normalization by the root mean square
// before each part, rotary positions, keys and values shared by groups of heads, SwiGLU (Shazeer 2020, "GLU Variants
// Improve Transformer", section 2), no biases. Llama 3's stretched frequencies for texts longer than 8192 tokens are
// left out: they change angles, not sizes. Parameters have the names of transformers' LlamaForCausalLM, too. At another width the feed-forward part keeps its proportion.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

// What is not a size: of the published networks, and by proportion of those made from them.
typedef struct variant {
    int64_t width, hidden;    // of the feed-forward part
    int64_t heads, kv_heads;  // of queries; of keys and values
    double rotary_base, epsilon;
    bool tied;  // the output's weight is the embedding's
} variant;

static const variant variants[] = {
    [CKM_I_LLAMA_TINY] = {2048, 5632, 32, 4, 1e4, 1e-5, false},
    [CKM_I_LLAMA_2_7B] = {4096, 11008, 32, 32, 1e4, 1e-5, false},
    [CKM_I_LLAMA_3_8B] = {4096, 14336, 32, 8, 5e5, 1e-5, false},
    [CKM_I_LLAMA_3_1B] = {2048, 8192, 32, 8, 5e5, 1e-5, true},
    [CKM_I_LLAMA_3_3B] = {3072, 8192, 24, 8, 5e5, 1e-5, true},
};

// Heads of keys: in the published proportion, as many as divide the heads.
static int64_t kv_heads_of(const variant *v, int64_t heads)
{
    int64_t kv = heads * v->kv_heads / v->heads;
    kv = kv > 1 ? kv : 1;
    while (heads % kv != 0) {
        kv--;
    }
    return kv;
}

// Rounded up to a multiple of 8, as matrix units like it.
static int64_t hidden_of(const variant *v, int64_t width)
{
    return (width * v->hidden / v->width + 7) / 8 * 8;
}

// Block "layer3" is "model.layers.3" there.
static void know(ckm_i_zoo *z, const char *block, const char *part)
{
    ckm_i_zoo_known_as(z, "model.layers.%s.%s", block + sizeof "layer" - 1, part);
}

static ckm_i_layer project(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t units)
{
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = name, .units = units, .no_bias = true});
}

static ckm_i_layer attention(ckm_i_zoo *z, ckm_i_layer x, const char *block, const variant *v)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    int64_t kv_heads = kv_heads_of(v, s->heads);
    int64_t kv_width = s->model_width / s->heads * kv_heads;
    char name[48];
    snprintf(name, sizeof name, "%s/attention", block);
    know(z, block, "input_layernorm");
    x = ckm_i_zoo_rms_norm(z, x, ckm_i_zoo_name(z, "%s/norm", name), v->epsilon);
    ckm_i_layer qkv[3];
    know(z, block, "self_attn.q_proj");
    qkv[0] = project(z, x, ckm_i_zoo_name(z, "%s/wq", name), s->model_width);
    know(z, block, "self_attn.k_proj");
    qkv[1] = project(z, x, ckm_i_zoo_name(z, "%s/wk", name), kv_width);
    know(z, block, "self_attn.v_proj");
    qkv[2] = project(z, x, ckm_i_zoo_name(z, "%s/wv", name), kv_width);
    x = ckm_i_zoo_attend(
        z, qkv,
        (ckm_i_attention){
            .block = name, .heads = s->heads, .kv_heads = kv_heads, .causal = true, .rotary_base = v->rotary_base});
    know(z, block, "self_attn.o_proj");
    return project(z, x, ckm_i_zoo_name(z, "%s/wo", name), s->model_width);
}

// SwiGLU: w2 (swish(w1 x) * w3 x). The swish and the product are separate operators; a schedule under a budget
// computes the swish again where a fused kernel would.
static ckm_i_layer feed_forward(ckm_i_zoo *z, ckm_i_layer x, const char *block, const variant *v)
{
    int64_t width = ckm_i_zoo_size(z)->model_width;
    int64_t hidden = hidden_of(v, width);
    know(z, block, "post_attention_layernorm");
    x = ckm_i_zoo_rms_norm(z, x, ckm_i_zoo_name(z, "%s/feed_forward/norm", block), v->epsilon);
    know(z, block, "mlp.gate_proj");
    ckm_i_layer gate = project(z, x, ckm_i_zoo_name(z, "%s/feed_forward/w1", block), hidden);
    know(z, block, "mlp.up_proj");
    ckm_i_layer up = project(z, x, ckm_i_zoo_name(z, "%s/feed_forward/w3", block), hidden);
    gate = ckm_i_zoo_activation(z, gate, ckm_i_zoo_name(z, "%s/feed_forward/swish", block), "swish");
    x = ckm_i_zoo_multiply(z, ckm_i_zoo_name(z, "%s/feed_forward/gated", block), gate, up);
    know(z, block, "mlp.down_proj");
    return project(z, x, ckm_i_zoo_name(z, "%s/feed_forward/w2", block), width);
}

ckm_i_layer ckm_i_zoo_llama(ckm_i_zoo *z, int32_t which)
{
    const variant *v = &variants[which];
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    int32_t table;
    ckm_i_zoo_set_task(z, CKM_TASK_NEXT_TOKEN);
    ckm_i_zoo_known_as(z, "model.embed_tokens");
    ckm_i_layer x = ckm_i_zoo_embed(z, CKM_I_ZOO_INPUT, "embedding", s->vocabulary, s->model_width, &table);
    if (v->tied) {
        ckm_i_zoo_also_known_as(z, table, "lm_head.weight");
    }
    for (int64_t i = 0; i < s->depth; i++) {
        char block[32];
        snprintf(block, sizeof block, "layer%lld", (long long)i);
        ckm_i_layer mixed = attention(z, x, block, v);
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/attention/add", block), x, mixed);
        ckm_i_layer fed = feed_forward(z, x, block, v);
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/feed_forward/add", block), x, fed);
    }
    ckm_i_zoo_known_as(z, "model.norm");
    x = ckm_i_zoo_rms_norm(z, x, "norm", v->epsilon);
    ckm_i_zoo_known_as(z, "lm_head");
    return ckm_i_zoo_project(
        z, x,
        (ckm_i_projection){.name = "logits", .units = s->vocabulary, .no_bias = true, .tied = v->tied ? table : 0});
}
