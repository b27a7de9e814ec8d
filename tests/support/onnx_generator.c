// SPDX-License-Identifier: Apache-2.0
#include "onnx_generator_parts.h"

// ---- the whole

static void (*const templates[])(og_generator *g) = {
    og_gen_unary,      og_gen_unary,   og_gen_unary,   og_gen_binary,      og_gen_binary,         og_gen_variadic,
    og_gen_comparison, og_gen_logic,   og_gen_logic,   og_gen_cast,        og_gen_clip,           og_gen_dropout,
    og_gen_conv,       og_gen_conv,    og_gen_pool,    og_gen_global_pool, og_gen_norm,           og_gen_norm,
    og_gen_prelu,      og_gen_gemm,    og_gen_matmul,  og_gen_einsum,      og_gen_reduce,         og_gen_reduce,
    og_gen_select,     og_gen_reshape, og_gen_reshape, og_gen_slice,       og_gen_split_concat,   og_gen_gather,
    og_gen_repeat,     og_gen_pad,     og_gen_blocks,  og_gen_triangle,    og_gen_conv_transpose, og_gen_resize,
    og_gen_shape,      og_gen_shape,
};

static void add_input(og_generator *g, const char *name, const ckm_shape *shape, bool symbolic)
{
    char text[OG_TEXT];
    char full[OG_TEXT + 8];
    og_join(text, ",", shape->dims + 1, shape->rank - 1);
    if (symbolic) {
        snprintf(full, sizeof full, "n%s%s", shape->rank > 1 ? "," : "", text);
    } else {
        snprintf(full, sizeof full, "%s", og_join(text, ",", shape->dims, shape->rank));
    }
    ob_input(g->b, name, OB_FLOAT, full);
    og_add_value(g, name, 'f', shape);
}

// One sum of the means of all reals that nothing has read yet.
static void join_all(og_generator *g)
{
    char all[OG_TEXT] = "";
    char mean[16];
    for (int i = 0; i < g->n_values; i++) {
        og_value *v = &g->values[i];
        if (!v->used && v->type == 'f' && v->shape.rank > 0) {
            v->used = true;
            og_fresh_name(g, 'm', mean);
            ob_node(g->b, "ReduceMean", v->name, mean);
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", all[0] != '\0' ? "," : "", mean);
        }
    }
    if (all[0] != '\0') {
        char total[16];
        og_fresh_name(g, 'm', total);
        ob_node(g->b, "Sum", all, total);
        ob_node(g->b, "Flatten", total, "v_all");
        og_add_value(g, "v_all", 'f', &(ckm_shape){2, {1, 1}});
    }
}

onnx_builder *og_generate(const uint8_t *bytes, size_t n, onnx_expected *expected, int *n_expected)
{
    og_generator g = {.bytes = bytes, .n_bytes = n, .expected = expected, .n_expected = n_expected};
    g.opset = 9 + (int)og_pick(&g, 20);
    g.b = ob_create(g.opset);
    if (n_expected != NULL) {
        *n_expected = 0;
    }
    bool symbolic = og_chance(&g, 3);
    int64_t batch = symbolic ? 1 : 1 + (int64_t)og_pick(&g, 3);
    int64_t side = 5 + (int64_t)og_pick(&g, 4);
    add_input(&g, "x", &(ckm_shape){4, {batch, 2 + 2 * (int64_t)og_pick(&g, 2), side, side + (int64_t)og_pick(&g, 2)}},
              symbolic);
    add_input(&g, "rows", &(ckm_shape){2, {batch, 6}}, symbolic);
    add_input(&g, "sequence", &(ckm_shape){3, {batch, 4, 6}}, symbolic);
    if (og_chance(&g, 4)) {
        add_input(&g, "volume", &(ckm_shape){5, {batch, 2, 4, 5, 4}}, symbolic);
    }
    ob_node(g.b, "Relu", "x", "first");  // so that something depends on the data, whatever follows
    ob_output(g.b, "first");
    uint32_t nodes = og_chance(&g, 12) ? 60 + og_pick(&g, 200) : 2 + og_pick(&g, 24);
    for (uint32_t i = 0; i < nodes; i++) {
        templates[og_pick(&g, sizeof templates / sizeof templates[0])](&g);
    }
    if (og_chance(&g, 2)) {
        join_all(&g);
    }
    // The last operator has something to learn, and there always is one. What nothing has read is an output.
    char text[OG_TEXT];
    char scale[16];
    og_value *x = og_choose(&g, 'f', 1, CKM_MAX_RANK);
    ckm_shape shape = x->shape;
    og_weight(&g, &(ckm_shape){1, {shape.dims[shape.rank - 1]}}, scale);
    og_node(&g, "Mul", og_format(text, "%s,%s", x->name, scale), "", 'f', &shape);
    for (int i = 0; i < g.n_values; i++) {
        if (!g.values[i].used && g.values[i].name[0] == 'v' && g.values[i].name[1] >= '0' &&
            g.values[i].name[1] <= '9') {
            ob_output(g.b, g.values[i].name);
        }
    }
    return g.b;
}
