// SPDX-License-Identifier: Apache-2.0
// The layers of networks that work on sequences, written with the builder's two steps. Every layer has a name: that of
// a block and a word. Sequences are samples, positions, numbers.
#ifndef CKM_SRC_ZOO_ZOO_TOKENS_H
#define CKM_SRC_ZOO_ZOO_TOKENS_H

#include "zoo/zoo_builder.h"

// A matrix on the last axis.
typedef struct ckm_i_projection {
    const char *name;
    int64_t units;
    bool no_bias;
    int32_t tied;  // a weight of another layer, units x inputs, when > 0
} ckm_i_projection;
ckm_i_layer ckm_i_zoo_project(ckm_i_zoo *z, ckm_i_layer x, ckm_i_projection p);

// Row t of a table for every token t; *table is the weight, for tying.
ckm_i_layer ckm_i_zoo_embed(ckm_i_zoo *z, int32_t tokens, const char *name, int64_t rows, int64_t width,
                            int32_t *table);
// x plus one learned row for each of its positions. The table has at least `rows`; the first ones are used.
ckm_i_layer ckm_i_zoo_add_positions(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t rows);

ckm_i_layer ckm_i_zoo_layer_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, double epsilon);
ckm_i_layer ckm_i_zoo_rms_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, double epsilon);
ckm_i_layer ckm_i_zoo_group_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t groups, double epsilon);
// By the tangent's approximation or exactly (Hendrycks and Gimpel 2016, section 2).
ckm_i_layer ckm_i_zoo_gelu(ckm_i_zoo *z, ckm_i_layer x, const char *name, bool approximate);
ckm_i_layer ckm_i_zoo_add_two(ckm_i_zoo *z, const char *name, ckm_i_layer a, ckm_i_layer b);
ckm_i_layer ckm_i_zoo_multiply(ckm_i_zoo *z, const char *name, ckm_i_layer a, ckm_i_layer b);

// All dimensions, the first one too: 0 keeps one, -1 is what is left. And an order of the axes.
ckm_i_layer ckm_i_zoo_view(ckm_i_zoo *z, ckm_i_layer x, const char *name, int32_t rank, const int64_t *dims);
ckm_i_layer ckm_i_zoo_transpose(ckm_i_zoo *z, ckm_i_layer x, const char *name, int32_t rank, const int64_t *order);
// Equal parts of the last axis.
void ckm_i_zoo_split_last(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_layer *parts, int32_t n);
// `sizes` elements from the beginning of every axis.
ckm_i_layer ckm_i_zoo_head_of(ckm_i_zoo *z, ckm_i_layer x, const char *name, int32_t rank, const int64_t *sizes);

// Attention (Vaswani et al. 2017, section 3.2) of q, k, v: the heads' numbers one after the other on the last axis.
// k and v may have fewer heads, each for a group of q's (Ainslie et al. 2023, "GQA", section 2.2). The result is as q.
typedef struct ckm_i_attention {
    const char *block;
    int64_t heads, kv_heads;  // kv_heads 0: as heads
    bool causal;
    double rotary_base;         // 0: no rotary positions
    double dropout;             // of the probabilities
    const ckm_i_layer *bias;    // added to the scores, or NULL
    const ckm_i_attr *windows;  // attributes of a masked softmax over windows, or NULL
    int32_t n_windows;
} ckm_i_attention;
ckm_i_layer ckm_i_zoo_attend(ckm_i_zoo *z, const ckm_i_layer qkv[3], ckm_i_attention a);

#endif
