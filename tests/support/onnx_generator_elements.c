// SPDX-License-Identifier: Apache-2.0
// Nodes that work element by element, and products and reductions.
#include "onnx_generator_parts.h"

#include "graph/op_registry.h"

// ---- element by element

// Every form of attributes of an operator that keeps shape and type and whose record does not say where it comes from.
static const struct {
    const char *op;
    int since;
    const char *attributes[3];
} unary[] = {
    {"Gelu", 20, {"", "w:approximate=tanh", "w:approximate=none"}},
    {"Softmax", 9, {"", "axis=-1", "axis=0"}},
    {"LogSoftmax", 9, {"", "axis=-1", "axis=0"}},
    {"LpNormalization", 9, {"", "axis=0;p=1", "p=2"}},
    {"Sqrt", 9, {""}},
    {"Erf", 9, {""}},
    {"Neg", 9, {""}},
    {"Exp", 9, {""}},
    {"Log", 9, {""}},
    {"Abs", 9, {""}},
    {"Reciprocal", 9, {""}},
    {"Floor", 9, {""}},
    {"Ceil", 9, {""}},
    {"Round", 11, {""}},
    {"Sign", 9, {""}},
    {"Sin", 9, {""}},
    {"Cos", 9, {""}},
    {"Tan", 9, {""}},
    {"Atan", 9, {""}},
    {"Identity", 9, {""}},
};

// Kinds whose record says which ONNX operator they come from.
static uint32_t recorded(const ckm_i_op_class **out)
{
#define TABLE(group) ckm_i_ops_##group,
    static const ckm_i_op_class *const tables[] = {CKM_I_OP_GROUPS(TABLE)};
#undef TABLE
    uint32_t n = 0;
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const ckm_i_op_class *c = tables[t]; c->kind != NULL; c++) {
            if (c->onnx.op_type != NULL && c->max_inputs == 1) {
                out[n++] = c;
            }
        }
    }
    return n;
}

// Without attributes, or with all of them.
static void add_recorded(og_generator *g, const ckm_i_op_class *c, const og_value *x)
{
    char text[OG_TEXT] = "";
    ckm_shape shape = x->shape;
    for (int32_t i = 0; i < CKM_I_ONNX_REALS && c->onnx.reals[i] != NULL && i < 3; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%sr:%s=0.4", i > 0 ? ";" : "", c->onnx.reals[i]);
    }
    og_node(g, c->onnx.op_type, x->name, og_pick(g, 3) == 1 ? text : "", 'f', &shape);
}

void og_gen_unary(og_generator *g)
{
    const ckm_i_op_class *kinds[CKM_I_OP_KIND_COUNT];
    uint32_t n_recorded = recorded(kinds);
    const uint32_t n_listed = sizeof unary / sizeof unary[0];
    uint32_t i = og_pick(g, n_listed + n_recorded);
    const og_value *x = og_choose(g, 'f', 2, CKM_MAX_RANK);
    if (x != NULL && i >= n_listed && kinds[i - n_listed]->onnx.since <= g->opset) {
        add_recorded(g, kinds[i - n_listed], x);
    } else if (x != NULL && i < n_listed && unary[i].since <= g->opset) {
        const char *attributes = unary[i].attributes[og_pick(g, 3)];
        if (g->opset < 13 && strstr(unary[i].op, "Softmax") != NULL) {
            attributes =
                "axis=-1";  // up to then over all dimensions behind the axis, of which one may have several elements
        }
        ckm_shape shape = x->shape;
        og_node(g, unary[i].op, x->name, attributes != NULL ? attributes : "", 'f', &shape);
    }
}

void og_gen_binary(og_generator *g)
{
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Pow", "Mod"};
    char other[16];
    char text[OG_TEXT];
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    const char *op = ops[og_pick(g, 6)];
    if (x != NULL && (strcmp(op, "Mod") != 0 || g->opset >= 10)) {
        ckm_shape shape = x->shape;
        og_operand(g, x, other);
        og_node(g, op, og_format(text, "%s,%s", x->name, other), strcmp(op, "Mod") == 0 ? "fmod=1" : "", 'f', &shape);
    }
}

// From one operand to many.
void og_gen_variadic(og_generator *g)
{
    static const char *const ops[] = {"Sum", "Mean", "Max", "Min"};
    char text[OG_TEXT];
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    if (x != NULL) {
        ckm_shape shape = x->shape;
        int n = og_chance(g, 6) ? (int)og_pick(g, OG_WIDE) + 1 : (int)og_pick(g, 4) + 1;
        size_t used = (size_t)snprintf(text, sizeof text, "%s", x->name);
        char other[16] = "";
        for (int i = 1; i < n; i++) {
            if (i < 8) {
                og_operand(g, x, other);
            }
            used += (size_t)snprintf(text + used, sizeof text - used, ",%s", other);
        }
        og_node(g, ops[og_pick(g, 4)], text, "", 'f', &shape);
    }
}

void og_gen_comparison(og_generator *g)
{
    static const struct {
        const char *op;
        int since;
    } ops[] = {{"Equal", 11}, {"Less", 9}, {"LessOrEqual", 12}, {"Greater", 9}, {"GreaterOrEqual", 12}};
    char other[16];
    char text[OG_TEXT];
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    size_t i = og_pick(g, 5);
    if (x != NULL && ops[i].since <= g->opset) {
        ckm_shape shape = x->shape;
        og_operand(g, x, other);
        og_node(g, ops[i].op, og_format(text, "%s,%s", x->name, other), "", 'b', &shape);
    }
}

void og_gen_logic(og_generator *g)
{
    static const char *const ops[] = {"And", "Or", "Xor", "Not", "Where", "IsNaN"};
    char text[OG_TEXT];
    char a[16];
    char b[16];
    const og_value *x = og_choose(g, 'b', 1, CKM_MAX_RANK);
    const char *op = ops[og_pick(g, 6)];
    if (strcmp(op, "IsNaN") == 0) {
        const og_value *y = og_choose(g, 'f', 1, CKM_MAX_RANK);
        ckm_shape shape = y->shape;
        og_node(g, op, y->name, "", 'b', &shape);
    } else if (x != NULL) {
        ckm_shape shape = x->shape;
        if (strcmp(op, "Not") == 0) {
            og_node(g, op, x->name, "", 'b', &shape);
        } else if (strcmp(op, "Where") == 0) {
            og_value like = {.type = 'f', .shape = shape};
            og_operand(g, &like, a);
            og_operand(g, &like, b);
            og_node(g, op, og_format(text, "%s,%s,%s", x->name, a, b), "", 'f', &shape);
        } else {
            og_node(g, op, og_format(text, "%s,%s", x->name, x->name), "", 'b', &shape);
        }
    }
}

// There and back, so that reals stay.
void og_gen_cast(og_generator *g)
{
    char text[OG_TEXT];
    static const int types[] = {1, 2, 3, 5, 6, 7, 9, 10, 11};
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    ckm_shape shape = x->shape;
    int to = types[og_pick(g, 9)];
    if (g->opset >= 15 && og_chance(g, 3)) {
        og_node(g, "CastLike", og_format(text, "%s,%s", x->name, x->name), "", 'f', &shape);
        return;
    }
    og_node(g, "Cast", x->name, og_format(text, "to=%d", to),
            to == 9   ? 'b'
            : to == 7 ? 'i'
            : to == 1 ? 'f'
                      : 'o',
            &shape);
}

void og_gen_clip(og_generator *g)
{
    char text[OG_TEXT];
    char low[16] = "";
    char high[16] = "";
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    ckm_shape shape = x->shape;
    if (g->opset < 11) {
        static const char *const forms[] = {"", "r:min=0", "r:max=6", "r:min=-1;r:max=1"};
        og_node(g, "Clip", x->name, forms[og_pick(g, 4)], 'f', &shape);
        return;
    }
    if (og_chance(g, 2)) {
        og_number(g, -1, low);
    }
    if (og_chance(g, 2)) {
        og_number(g, 6, high);
    } else if (og_chance(g, 3)) {
        og_weight(g, &(ckm_shape){0}, high);
    }
    og_node(g, "Clip", og_format(text, "%s,%s,%s", x->name, low, high), "", 'f', &shape);
}

void og_gen_dropout(og_generator *g)
{
    char text[OG_TEXT];
    char ratio[16] = "";
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    ckm_shape shape = x->shape;
    g->extra_outputs = og_chance(g, 3) ? 1 : 0;  // the mask
    if (g->opset < 12) {
        og_node(g, "Dropout", x->name, og_chance(g, 2) ? "r:ratio=0.3" : "", 'f', &shape);
        return;
    }
    og_number(g, 0.25, ratio);
    og_node(g, "Dropout", og_chance(g, 2) ? og_format(text, "%s,%s", x->name, ratio) : x->name, "", 'f', &shape);
}

// ---- products

void og_gen_gemm(og_generator *g)
{
    char text[OG_TEXT];
    char matrix[16];
    char bias[16];
    char attributes[OG_TEXT] = "";
    const og_value *x = og_choose(g, 'f', 2, 2);
    if (x == NULL) {
        return;
    }
    bool turn_a = og_chance(g, 3);
    bool turn_b = og_chance(g, 2);
    int64_t inner = x->shape.dims[turn_a ? 0 : 1];
    int64_t columns = 1 + og_pick(g, 6);
    ckm_shape out = {2, {x->shape.dims[turn_a ? 1 : 0], columns}};
    og_weight(g, &(ckm_shape){2, {turn_b ? columns : inner, turn_b ? inner : columns}}, matrix);
    if (og_chance(g, 2)) {
        og_weight(g, &(ckm_shape){1, {columns}}, bias);
    } else {
        og_weight(g, &(ckm_shape){2, {out.dims[0], 1}}, bias);
    }
    og_format(attributes, "transA=%d;transB=%d%s", turn_a, turn_b, og_chance(g, 2) ? ";r:alpha=1;r:beta=1" : "");
    og_node(g, "Gemm", og_three(g, text, x->name, matrix, bias), attributes, 'f', &out);
}

void og_gen_matmul(og_generator *g)
{
    char text[OG_TEXT];
    char matrix[16];
    const og_value *x = og_choose(g, 'f', 2, 5);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    int64_t inner = out.dims[out.rank - 1];
    switch (og_pick(g, 4)) {
    case 0:  // with a vector
        og_weight(g, &(ckm_shape){1, {inner}}, matrix);
        out.rank--;
        break;
    case 1: {  // with a transposed weight
        char before[16];
        og_weight(g, &(ckm_shape){2, {3, inner}}, before);
        og_fresh_name(g, 't', matrix);
        ob_node(g->b, "Transpose", before, matrix);
        ob_list(g->b, "perm", "1,0");
        out.dims[out.rank - 1] = 3;
        break;
    }
    case 2: {  // with itself, turned: scores
        int64_t perm[CKM_MAX_RANK];
        for (int32_t i = 0; i < out.rank; i++) {
            perm[i] = i < out.rank - 2 ? i : out.rank * 2 - 3 - i;
        }
        og_fresh_name(g, 't', matrix);
        ob_node(g->b, "Transpose", x->name, matrix);
        ob_list(g->b, "perm", og_join(text, ",", perm, out.rank));
        out.dims[out.rank - 1] = out.dims[out.rank - 2];
        break;
    }
    default:
        out.dims[out.rank - 1] = 1 + og_pick(g, 6);
        og_weight(g, &(ckm_shape){2, {inner, out.dims[out.rank - 1]}}, matrix);
    }
    og_node(g, "MatMul", og_format(text, "%s,%s", x->name, matrix), "", 'f', &out);
}

void og_gen_einsum(og_generator *g)
{
    char text[OG_TEXT];
    char other[16];
    const og_value *x = og_choose(g, 'f', 3, 3);
    if (x == NULL || g->opset < 12) {
        return;
    }
    const int64_t *d = x->shape.dims;
    switch (og_pick(g, 3)) {
    case 0:
        og_node(g, "Einsum", x->name, "w:equation=abc -> ca", 'f', &(ckm_shape){2, {d[2], d[0]}});
        break;
    case 1:
        og_weight(g, &(ckm_shape){2, {d[2], 5}}, other);
        og_node(g, "Einsum", og_format(text, "%s,%s", x->name, other), "w:equation=abc,cd->abd", 'f',
                &(ckm_shape){3, {d[0], d[1], 5}});
        break;
    default:
        og_node(g, "Einsum", og_format(text, "%s,%s", x->name, x->name), "w:equation=bid,bjd->bij", 'f',
                &(ckm_shape){3, {d[0], d[1], d[1]}});
    }
}

// ---- reductions

void og_gen_reduce(og_generator *g)
{
    static const struct {
        const char *op;
        int last_attribute;  // opset up to which axes are an attribute
    } ops[] = {{"ReduceMean", 17},   {"ReduceSum", 12},      {"ReduceMax", 17}, {"ReduceMin", 17},
               {"ReduceProd", 17},   {"ReduceL1", 17},       {"ReduceL2", 17},  {"ReduceSumSquare", 17},
               {"ReduceLogSum", 17}, {"ReduceLogSumExp", 17}};
    char inputs[OG_TEXT];
    char attributes[OG_TEXT] = "";
    size_t i = og_pick(g, sizeof ops / sizeof ops[0]);
    const og_value *x = og_choose(g, 'f', 2, CKM_MAX_RANK);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    bool keep = og_chance(g, 2);
    og_format(inputs, "%s", x->name);
    og_format(attributes, keep ? "keepdims=1" : "keepdims=0");
    if (og_chance(g, 4) && keep) {  // all of them
        for (int32_t k = 0; k < out.rank; k++) {
            out.dims[k] = 1;
        }
    } else {
        int64_t axis = (int64_t)og_pick(g, (uint32_t)out.rank);
        int64_t written = og_chance(g, 2) ? axis : axis - out.rank;
        og_setting(g, "axes", ops[i].last_attribute, &written, 1, inputs, attributes);
        out.dims[axis] = 1;
        if (!keep) {
            memmove(out.dims + axis, out.dims + axis + 1, (size_t)(out.rank - axis - 1) * sizeof out.dims[0]);
            out.rank--;
        }
    }
    if (!keep && out.rank == x->shape.rank) {
        return;
    }
    og_node(g, ops[i].op, inputs, attributes, 'f', &out);
}

void og_gen_select(og_generator *g)
{
    char text[OG_TEXT];
    char name[16];
    const og_value *x = og_choose(g, 'f', 2, CKM_MAX_RANK);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    int32_t axis = (int32_t)og_pick(g, (uint32_t)out.rank);
    char attributes[64];
    switch (og_pick(g, 4)) {
    case 0:
    case 1:
        out.dims[axis] = 1;
        snprintf(attributes, sizeof attributes, "axis=%d", (int)axis);
        og_node(g, og_chance(g, 2) ? "ArgMax" : "ArgMin", x->name, attributes, 'i', &out);
        break;
    case 2:
        if (g->opset >= 11) {
            int64_t k = 1 + og_pick(g, (uint32_t)out.dims[axis]);
            og_int_list(g, &k, 1, name);
            out.dims[axis] = k;
            g->extra_outputs = 1;
            snprintf(attributes, sizeof attributes, "axis=%d;largest=1", (int)axis);
            og_node(g, "TopK", og_format(text, "%s,%s", x->name, name), attributes, 'f', &out);
        }
        break;
    default:
        if (g->opset >= 11) {
            og_integer(g, axis, name);
            og_node(g, "CumSum", og_format(text, "%s,%s", x->name, name), og_chance(g, 2) ? "reverse=1" : "exclusive=1",
                    'f', &out);
        }
    }
}
