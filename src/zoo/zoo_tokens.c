// SPDX-License-Identifier: Apache-2.0
// The layers of networks that work on sequences.
#include "zoo/zoo_tokens.h"

#include <math.h>

static ckm_shape vector(int64_t n)
{
    return (ckm_shape){1, {n}};
}

ckm_i_layer ckm_i_zoo_project(ckm_i_zoo *z, ckm_i_layer x, ckm_i_projection p)
{
    const char *layer = ckm_i_zoo_layer_name(z, "dense", p.name);
    ckm_shape kernel = {2, {ckm_i_zoo_channels(z, x), p.units}};
    ckm_i_attr transposed = ckm_i_attr_ints("transposed", &(int64_t){1}, 1);
    int32_t inputs[3] = {x, p.tied, -1};
    if (p.tied <= 0) {
        inputs[1] = ckm_i_zoo_parameter(z, layer, "kernel", CKM_ROLE_PARAMETER, kernel);
    }
    if (!p.no_bias) {
        inputs[2] = ckm_i_zoo_parameter(z, layer, "bias", CKM_ROLE_PARAMETER, vector(p.units));
    }
    return ckm_i_zoo_add(z, "dense", layer, inputs, p.no_bias ? 2 : 3, &transposed, p.tied > 0 ? 1 : 0);
}

ckm_i_layer ckm_i_zoo_embed(ckm_i_zoo *z, int32_t tokens, const char *name, int64_t rows, int64_t width, int32_t *table)
{
    const char *layer = ckm_i_zoo_layer_name(z, "embedding", name);
    int32_t inputs[2] = {-1, tokens};
    inputs[0] = ckm_i_zoo_parameter(z, layer, "embeddings", CKM_ROLE_PARAMETER, (ckm_shape){2, {rows, width}});
    *table = inputs[0];
    return ckm_i_zoo_add(z, "gather", layer, inputs, 2, NULL, 0);
}

ckm_i_layer ckm_i_zoo_add_positions(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t rows)
{
    int64_t used = ckm_i_zoo_width(z, x);
    int64_t width = ckm_i_zoo_channels(z, x);
    rows = used > rows ? used : rows;
    const char *layer = ckm_i_zoo_layer_name(z, "embedding", name);
    int32_t table = ckm_i_zoo_parameter(z, layer, "embeddings", CKM_ROLE_PARAMETER, (ckm_shape){2, {rows, width}});
    if (used < rows) {
        table = ckm_i_zoo_head_of(z, table, ckm_i_zoo_name(z, "%s/used", name), 2, (const int64_t[]){used, width});
    }
    return ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/add", name), x, table);
}

// x, scale, [bias], one number each on the last axis.
static ckm_i_layer normalize(ckm_i_zoo *z, ckm_i_layer x, const char *kind, const char *name, bool bias,
                             const ckm_i_attr *attrs, int32_t n_attrs)
{
    const char *layer = ckm_i_zoo_layer_name(z, kind, name);
    ckm_shape each = vector(ckm_i_zoo_channels(z, x));
    int32_t inputs[3] = {x, -1, -1};
    inputs[1] = ckm_i_zoo_parameter(z, layer, "scale", CKM_ROLE_PARAMETER, each);
    if (bias) {
        inputs[2] = ckm_i_zoo_parameter(z, layer, "bias", CKM_ROLE_PARAMETER, each);
    }
    return ckm_i_zoo_add(z, kind, layer, inputs, bias ? 3 : 2, attrs, n_attrs);
}

ckm_i_layer ckm_i_zoo_layer_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, double epsilon)
{
    ckm_i_attr attr = ckm_i_attr_real("epsilon", epsilon);
    return normalize(z, x, "layer_norm", name, true, &attr, 1);
}

ckm_i_layer ckm_i_zoo_rms_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, double epsilon)
{
    ckm_i_attr attr = ckm_i_attr_real("epsilon", epsilon);
    return normalize(z, x, "rms_norm", name, false, &attr, 1);
}

ckm_i_layer ckm_i_zoo_group_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t groups, double epsilon)
{
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("groups", &groups, 1), ckm_i_attr_real("epsilon", epsilon)};
    return normalize(z, x, "group_norm", name, true, attrs, 2);
}

ckm_i_layer ckm_i_zoo_gelu(ckm_i_zoo *z, ckm_i_layer x, const char *name, bool approximate)
{
    ckm_i_attr attr = ckm_i_attr_word("approximate", approximate ? "tanh" : "none");
    return ckm_i_zoo_add(z, "gelu", ckm_i_zoo_layer_name(z, "gelu", name), &x, 1, &attr, 1);
}

ckm_i_layer ckm_i_zoo_add_two(ckm_i_zoo *z, const char *name, ckm_i_layer a, ckm_i_layer b)
{
    return ckm_i_zoo_add_layers(z, name, (const ckm_i_layer[]){a, b}, 2);
}

ckm_i_layer ckm_i_zoo_multiply(ckm_i_zoo *z, const char *name, ckm_i_layer a, ckm_i_layer b)
{
    return ckm_i_zoo_add(z, "mul", ckm_i_zoo_layer_name(z, "multiply", name), (const int32_t[]){a, b}, 2, NULL, 0);
}

ckm_i_layer ckm_i_zoo_view(ckm_i_zoo *z, ckm_i_layer x, const char *name, int32_t rank, const int64_t *dims)
{
    ckm_i_attr attr = ckm_i_attr_ints("shape", dims, rank);
    return ckm_i_zoo_add(z, "reshape", ckm_i_zoo_layer_name(z, "reshape", name), &x, 1, &attr, 1);
}

ckm_i_layer ckm_i_zoo_transpose(ckm_i_zoo *z, ckm_i_layer x, const char *name, int32_t rank, const int64_t *order)
{
    ckm_i_attr attr = ckm_i_attr_ints("perm", order, rank);
    return ckm_i_zoo_add(z, "transpose", ckm_i_zoo_layer_name(z, "permute", name), &x, 1, &attr, 1);
}

void ckm_i_zoo_split_last(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_layer *parts, int32_t n)
{
    ckm_i_attr axis = ckm_i_attr_ints("axis", &(int64_t){-1}, 1);
    ckm_i_zoo_add_split(z, "split", ckm_i_zoo_layer_name(z, "split", name), x, &axis, 1, parts, n);
}

ckm_i_layer ckm_i_zoo_head_of(ckm_i_zoo *z, ckm_i_layer x, const char *name, int32_t rank, const int64_t *sizes)
{
    static const int64_t zeros[CKM_MAX_RANK] = {0};
    static const int64_t ones[CKM_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    ckm_i_attr attrs[3] = {ckm_i_attr_ints("starts", zeros, rank), ckm_i_attr_ints("steps", ones, rank),
                           ckm_i_attr_ints("sizes", sizes, rank)};
    return ckm_i_zoo_add(z, "slice", ckm_i_zoo_layer_name(z, "slice", name), &x, 1, attrs, 3);
}

// Samples, positions, heads * per -> samples, heads, positions, per.
static ckm_i_layer heads_first(ckm_i_zoo *z, ckm_i_layer x, const char *block, char which, int64_t heads, int64_t per)
{
    x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/%c_heads", block, which), 4, (const int64_t[]){0, 0, heads, per});
    return ckm_i_zoo_transpose(z, x, ckm_i_zoo_name(z, "%s/%c_by_head", block, which), 4,
                               (const int64_t[]){0, 2, 1, 3});
}

static ckm_i_layer rotate(ckm_i_zoo *z, ckm_i_layer x, const char *name, double base)
{
    ckm_i_attr attr = ckm_i_attr_real("base", base);
    return base > 0.0 ? ckm_i_zoo_add(z, "rotary", ckm_i_zoo_layer_name(z, "rotary", name), &x, 1, &attr, 1) : x;
}

static ckm_i_layer product(ckm_i_zoo *z, const char *name, ckm_i_layer a, ckm_i_layer b, bool transposed)
{
    ckm_i_attr attr = ckm_i_attr_ints("trans_b", &(int64_t){1}, 1);
    return ckm_i_zoo_add(z, "matmul", ckm_i_zoo_layer_name(z, "matmul", name), (const int32_t[]){a, b}, 2, &attr,
                         transposed ? 1 : 0);
}

static ckm_i_layer probabilities(ckm_i_zoo *z, ckm_i_layer scores, const ckm_i_attention *a)
{
    ckm_i_attr causal = ckm_i_attr_word("mask", "causal");
    const char *layer = ckm_i_zoo_layer_name(z, "softmax", ckm_i_zoo_name(z, "%s/probabilities", a->block));
    if (a->windows != NULL) {
        return ckm_i_zoo_add(z, "masked_softmax", layer, &scores, 1, a->windows, a->n_windows);
    }
    return ckm_i_zoo_add(z, a->causal ? "masked_softmax" : "softmax", layer, &scores, 1, &causal, a->causal ? 1 : 0);
}

// The scale is q's: a tensor of positions, not of pairs. Where several heads of q share one of k, they are rows of the
// same product, so that neither k nor its gradient is ever repeated.
ckm_i_layer ckm_i_zoo_attend(ckm_i_zoo *z, const ckm_i_layer qkv[3], ckm_i_attention a)
{
    int64_t heads = a.heads;
    int64_t kv_heads = a.kv_heads > 0 ? a.kv_heads : heads;
    int64_t width = ckm_i_zoo_channels(z, qkv[0]);
    int64_t positions = ckm_i_zoo_width(z, qkv[0]);
    int64_t per = width / heads;
    int64_t shared = heads / kv_heads;
    ckm_i_layer q = heads_first(z, qkv[0], a.block, 'q', heads, per);
    ckm_i_layer k = heads_first(z, qkv[1], a.block, 'k', kv_heads, per);
    ckm_i_layer v = heads_first(z, qkv[2], a.block, 'v', kv_heads, per);
    q = rotate(z, q, ckm_i_zoo_name(z, "%s/q_rotary", a.block), a.rotary_base);
    k = rotate(z, k, ckm_i_zoo_name(z, "%s/k_rotary", a.block), a.rotary_base);
    ckm_i_attr alpha = ckm_i_attr_real("alpha", 1.0 / sqrt((double)per));
    q = ckm_i_zoo_add(z, "scale", ckm_i_zoo_layer_name(z, "scale", ckm_i_zoo_name(z, "%s/q_scale", a.block)), &q, 1,
                      &alpha, 1);
    if (shared > 1) {
        q = ckm_i_zoo_view(z, q, ckm_i_zoo_name(z, "%s/q_groups", a.block), 4,
                           (const int64_t[]){0, kv_heads, shared * positions, per});
    }
    ckm_i_layer x = product(z, ckm_i_zoo_name(z, "%s/scores", a.block), q, k, true);
    if (shared > 1) {
        x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/scores_by_head", a.block), 4,
                           (const int64_t[]){0, heads, positions, positions});
    }
    if (a.bias != NULL) {
        x = ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/scores_bias", a.block), x, *a.bias);
    }
    x = probabilities(z, x, &a);
    if (a.dropout > 0.0) {
        x = ckm_i_zoo_dropout(z, x, ckm_i_zoo_name(z, "%s/probabilities_dropout", a.block), a.dropout);
    }
    if (shared > 1) {
        x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/probabilities_groups", a.block), 4,
                           (const int64_t[]){0, kv_heads, shared * positions, positions});
    }
    x = product(z, ckm_i_zoo_name(z, "%s/values", a.block), x, v, false);
    if (shared > 1) {
        x = ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/values_by_head", a.block), 4,
                           (const int64_t[]){0, heads, positions, per});
    }
    x = ckm_i_zoo_transpose(z, x, ckm_i_zoo_name(z, "%s/by_position", a.block), 4, (const int64_t[]){0, 2, 1, 3});
    return ckm_i_zoo_view(z, x, ckm_i_zoo_name(z, "%s/joined", a.block), 3, (const int64_t[]){0, 0, width});
}
