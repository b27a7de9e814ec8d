// SPDX-License-Identifier: Apache-2.0
// BERT with its head for masked tokens (Devlin et al. 2019, "BERT", sections 3 and 3.1, appendix A.1 and A.2), the
// uncased English networks of the published modeling.py: normalization after each part, dropout 0.1, learned positions
// for 512 tokens, the embedding's weight again in the head. The pooler and the next-sentence head, which masked tokens
// do not need, are left out. Texts fill the sequence: there is no padding to mask. Parameters have the names of
// transformers' BertForMaskedLM, too.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

static const double epsilon = 1e-12;
static const double rate = 0.1;

// Block "layer3" is "bert.encoder.layer.3" there.
static void know(ckm_i_zoo *z, const char *block, const char *part)
{
    ckm_i_zoo_known_as(z, "bert.encoder.layer.%s.%s", block + sizeof "layer" - 1, part);
}

static ckm_i_layer attention(ckm_i_zoo *z, ckm_i_layer x, const char *block, int64_t width, int64_t heads)
{
    static const char *const words[3] = {"query", "key", "value"};
    char name[48];
    ckm_i_layer qkv[3];
    snprintf(name, sizeof name, "%s/attention", block);
    for (int i = 0; i < 3; i++) {
        char part[48];
        snprintf(part, sizeof part, "attention.self.%s", words[i]);
        know(z, block, part);
        qkv[i] = ckm_i_zoo_project(
            z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/%s", name, words[i]), .units = width});
    }
    x = ckm_i_zoo_attend(z, qkv, (ckm_i_attention){.block = name, .heads = heads, .dropout = rate});
    know(z, block, "attention.output.dense");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/output", name), .units = width});
}

static ckm_i_layer feed_forward(ckm_i_zoo *z, ckm_i_layer x, const char *block, int64_t width)
{
    know(z, block, "intermediate.dense");
    x = ckm_i_zoo_project(z, x,
                          (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/intermediate", block), .units = 4 * width});
    x = ckm_i_zoo_gelu(z, x, ckm_i_zoo_name(z, "%s/gelu", block), false);
    know(z, block, "output.dense");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/output", block), .units = width});
}

// The part's result, dropped out, is added to what it was given, and that is normalized.
static ckm_i_layer close_part(ckm_i_zoo *z, ckm_i_layer given, ckm_i_layer result, const char *part,
                              const char *known_as)
{
    result = ckm_i_zoo_dropout(z, result, ckm_i_zoo_name(z, "%s/dropout", part), rate);
    result = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/add", part), given, result);
    ckm_i_zoo_known_as(z, "bert.encoder.layer.%s", known_as);
    return ckm_i_zoo_layer_norm(z, result, ckm_i_zoo_name(z, "%s/norm", part), epsilon);
}

ckm_i_layer ckm_i_zoo_bert(ckm_i_zoo *z, int32_t unused)
{
    enum { POSITIONS = 512, SEGMENTS = 2 };
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    int64_t width = s->model_width;
    int32_t table;
    int32_t other;
    (void)unused;
    ckm_i_zoo_set_task(z, CKM_TASK_MASKED_TOKEN);
    int32_t segments = ckm_i_zoo_input(z, "segments", CKM_I32,
                                       (ckm_shape){2, {ckm_i_zoo_batch(z), s->sequence_length}});
    ckm_i_zoo_known_as(z, "bert.embeddings.word_embeddings");
    ckm_i_layer x = ckm_i_zoo_embed(z, CKM_I_ZOO_INPUT, "embeddings/word", s->vocabulary, width, &table);
    ckm_i_zoo_also_known_as(z, table, "cls.predictions.decoder.weight");
    ckm_i_zoo_known_as(z, "bert.embeddings.position_embeddings");
    x = ckm_i_zoo_add_positions(z, x, "embeddings/position", POSITIONS);
    ckm_i_zoo_known_as(z, "bert.embeddings.token_type_embeddings");
    ckm_i_layer segment = ckm_i_zoo_embed(z, segments, "embeddings/segment", SEGMENTS, width, &other);
    x = ckm_i_zoo_add_two(z, "embeddings/add", x, segment);
    ckm_i_zoo_known_as(z, "bert.embeddings.LayerNorm");
    x = ckm_i_zoo_layer_norm(z, x, "embeddings/norm", epsilon);
    x = ckm_i_zoo_dropout(z, x, "embeddings/dropout", rate);
    for (int64_t i = 0; i < s->depth; i++) {
        char block[32];
        char part[64];
        char known[64];
        snprintf(block, sizeof block, "layer%lld", (long long)i);
        snprintf(part, sizeof part, "%s/attention/output", block);
        snprintf(known, sizeof known, "%lld.attention.output.LayerNorm", (long long)i);
        x = close_part(z, x, attention(z, x, block, width, s->heads), part, known);
        snprintf(part, sizeof part, "%s/output", block);
        snprintf(known, sizeof known, "%lld.output.LayerNorm", (long long)i);
        x = close_part(z, x, feed_forward(z, x, block, width), part, known);
    }
    ckm_i_zoo_known_as(z, "cls.predictions.transform.dense");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "head/transform", .units = width});
    x = ckm_i_zoo_gelu(z, x, "head/gelu", false);
    ckm_i_zoo_known_as(z, "cls.predictions.transform.LayerNorm");
    x = ckm_i_zoo_layer_norm(z, x, "head/norm", epsilon);
    ckm_i_zoo_known_as(z, "cls.predictions");
    x = ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "head/logits", .units = s->vocabulary, .tied = table});
    ckm_i_zoo_also_known_as(z, ckm_i_zoo_find_parameter(z, "head/logits/bias"), "cls.predictions.decoder.bias");
    return x;
}
