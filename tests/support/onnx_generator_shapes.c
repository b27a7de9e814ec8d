// SPDX-License-Identifier: Apache-2.0
// Arithmetic on shapes: steps that give the list back that they were given, so that the result is known.
#include "onnx_generator_parts.h"

// ---- shape arithmetic: steps that give the list back that they were given

static void step(og_generator *g, const char *op, const char *inputs, const char *attributes, char *name)
{
    char fresh[16];  // `inputs` may be `name`
    og_fresh_name(g, 's', fresh);
    ob_node(g->b, op, inputs, fresh);
    ob_attributes(g->b, attributes);
    strcpy(name, fresh);
}

// There and back over a list of n integers called `name`.
static void shape_step(og_generator *g, char *name, const ckm_shape *shape)
{
    char text[OG_TEXT];
    char a[16];
    char b[16];
    char c[16];
    static const int64_t zero = 0;
    static const int64_t three = 3;
    static const int64_t large = 1000000;
    int64_t n = shape->rank;
    switch (og_pick(g, 16)) {
    case 0:
        og_int_list(g, &three, 1, a);
        step(g, "Add", og_format(text, "%s,%s", name, a), "", b);
        step(g, "Sub", og_format(text, "%s,%s", b, a), "", name);
        break;
    case 1:
        og_int_list(g, &three, 1, a);
        step(g, "Mul", og_format(text, "%s,%s", a, name), "", b);
        step(g, "Div", og_format(text, "%s,%s", b, a), "", name);
        break;
    case 2:
        step(g, "Neg", name, "", a);
        step(g, "Abs", a, "", name);
        break;
    case 3:
        og_int_list(g, &large, 1, a);
        step(g, g->opset < 10 || og_chance(g, 2) ? "Min" : "Mod", og_format(text, "%s,%s", name, a), "", name);
        break;
    case 4:
        og_int_list(g, &zero, 1, a);
        step(g, "Max", og_format(text, "%s,%s", name, a), "", name);
        break;
    case 5: {  // by way of reals
        static const char *const reals[] = {"Floor", "Ceil", "Round", "Identity"};
        step(g, "Cast", name, "to=1", a);
        step(g, reals[og_pick(g, 4)], a, "", b);
        if (og_chance(g, 2)) {
            step(g, "Mul", og_format(text, "%s,%s", b, b), "", c);
            step(g, "Sqrt", c, "", b);
        } else {
            step(g, "Log", b, "", c);
            step(g, "Exp", c, "", b);
            step(g, "Reciprocal", b, "", c);
            step(g, "Reciprocal", c, "", b);
            step(g, "Round", b, "", b);
        }
        step(g, "Cast", b, "to=7", name);
        break;
    }
    case 6: {
        static const char *const truths[] = {"Equal", "LessOrEqual", "GreaterOrEqual"};
        step(g, truths[og_pick(g, 3)], og_format(text, "%s,%s", name, name), "", a);
        if (og_chance(g, 2)) {
            step(g, "Not", a, "", b);
            step(g, "Not", b, "", a);
        }
        if (og_chance(g, 2)) {
            step(g, og_chance(g, 2) ? "And" : "Or", og_format(text, "%s,%s", a, a), "", a);
        }
        step(g, "Neg", name, "", b);
        step(g, "Where", og_format(text, "%s,%s,%s", a, name, b), "", name);
        break;
    }
    case 7:
        og_format(text, "%s", name);
        a[0] = '\0';
        if (g->opset >= 13) {
            og_int_list(g, &zero, 1, a);
            step(g, "Unsqueeze", og_format(text, "%s,%s", name, a), "", b);
            step(g, "Squeeze", og_format(text, "%s,%s", b, a), "", name);
        } else {
            step(g, "Unsqueeze", name, "l:axes=0", b);
            step(g, "Squeeze", b, "l:axes=0", name);
        }
        break;
    case 8: {
        int64_t two[2] = {n, 1};
        og_int_list(g, two, 2, a);
        step(g, "Reshape", og_format(text, "%s,%s", name, a), "", b);
        step(g, "Transpose", b, "", c);
        step(g, "Flatten", c, "axis=0", b);
        og_int_list(g, &n, 1, a);
        step(g, "Reshape", og_format(text, "%s,%s", b, a), "", name);
        break;
    }
    case 9: {
        static const int64_t ends = INT64_MAX;
        if (g->opset >= 10) {
            og_int_list(g, &zero, 1, a);
            og_int_list(g, &ends, 1, b);
            step(g, "Slice", og_format(text, "%s,%s,%s", name, a, b), "", name);
        } else {
            step(g, "Slice", name, "l:starts=0;l:ends=100", name);
        }
        break;
    }
    case 10: {  // one by one, and joined again
        char all[OG_TEXT] = "";
        for (int64_t i = 0; i < n; i++) {
            og_int_list(g, &i, 1, a);
            step(g, "Gather", og_format(text, "%s,%s", name, a), "axis=0", b);
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? "," : "", b);
        }
        step(g, "Concat", all, "axis=0", name);
        break;
    }
    case 11:
        if (n >= 2) {
            char outputs[OG_TEXT];
            int64_t sizes[2] = {1, n - 1};
            char inputs[OG_TEXT];
            char attributes[OG_TEXT] = "axis=0";
            og_fresh_name(g, 's', a);
            og_fresh_name(g, 's', b);
            og_format(inputs, "%s", name);
            og_setting(g, "split", 12, sizes, 2, inputs, attributes);
            ob_node(g->b, "Split", inputs, og_format(outputs, "%s,%s", a, b));
            ob_attributes(g->b, attributes);
            step(g, "Concat", og_format(text, "%s,%s", a, b), "axis=0", name);
        }
        break;
    case 12:
        og_int_list(g, &n, 1, a);
        step(g, "Expand", og_format(text, "%s,%s", name, a), "", name);
        break;
    case 13: {  // positions of ones are a range
        og_int_list(g, &n, 1, a);
        step(g, "ConstantOfShape", a, "", b);
        int64_t one = 1;
        char value_name[16];
        og_int_list(g, &one, 1, value_name);
        CkmOnnx__TensorProto *fill = ob_detached_ints(g->b, "1");
        step(g, "ConstantOfShape", a, "", b);
        ob_tensor(g->b, "value", fill);
        step(g, "NonZero", b, "", c);
        if (g->opset >= 13) {
            og_int_list(g, &zero, 1, a);
            step(g, "Squeeze", og_format(text, "%s,%s", c, a), "", b);
        } else {
            step(g, "Squeeze", c, "l:axes=0", b);
        }
        step(g, "Gather", og_format(text, "%s,%s", name, b), "", name);
        break;
    }
    case 14: {
        og_integer(g, 0, a);
        og_integer(g, n, b);
        og_integer(g, 1, c);
        step(g, "Range", og_format(text, "%s,%s,%s", a, b, c), "", a);
        step(g, "Gather", og_format(text, "%s,%s", name, a), "", name);
        break;
    }
    default: {  // times the sign, plus nothing
        step(g, "Sign", name, "", a);
        step(g, "Mul", og_format(text, "%s,%s", name, a), "", name);
    }
    }
}

// x reshaped to what its own shape comes to after some arithmetic, or made of it.
void og_gen_shape(og_generator *g)
{
    char text[OG_TEXT];
    char name[16];
    char other[16];
    const og_value *x = og_choose(g, 'f', 1, CKM_MAX_RANK);
    if (x == NULL) {
        return;
    }
    ckm_shape shape = x->shape;
    step(g, "Shape", x->name, g->opset >= 15 && og_chance(g, 3) ? "start=0" : "", name);
    for (uint32_t n = og_pick(g, 5); n > 0; n--) {
        shape_step(g, name, &shape);
    }
    switch (og_pick(g, 4)) {
    case 0:
        step(g, "ConstantOfShape", name, "", other);
        og_node(g, "Add", og_format(text, "%s,%s", x->name, other), "", 'f', &shape);
        break;
    case 1:
        og_node(g, "Expand", og_format(text, "%s,%s", x->name, name), "", 'f', &shape);
        break;
    case 2: {  // to one axis of all elements, by Size or a product
        int64_t one = 1;
        char list[16];
        if (og_chance(g, 2)) {
            step(g, "Size", x->name, "", other);
        } else {
            step(g, og_chance(g, 2) ? "ReduceProd" : "ReduceMax", name, "keepdims=0", other);
            if (og_chance(g, 2)) {
                step(g, "ReduceProd", name, "keepdims=0", other);
            } else {
                step(g, "Size", x->name, "", other);
            }
        }
        og_int_list(g, &one, 1, list);
        step(g, "Reshape", og_format(text, "%s,%s", other, list), "", other);
        og_node(g, "Reshape", og_format(text, "%s,%s", x->name, other), "", 'f',
                &(ckm_shape){1, {og_elements(&shape)}});
        break;
    }
    default:
        og_node(g, "Reshape", og_format(text, "%s,%s", x->name, name), "", 'f', &shape);
    }
}
