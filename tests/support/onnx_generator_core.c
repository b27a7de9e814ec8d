// SPDX-License-Identifier: Apache-2.0
#include "onnx_generator_parts.h"

#include <stdarg.h>

// ---- choices

uint32_t og_pick(og_generator *g, uint32_t n)
{
    if (g->at < g->n_bytes) {
        uint8_t byte = g->bytes[g->at++];
        g->state = g->state * UINT64_C(6364136223846793005) + byte + 1;
        return byte % n;
    }
    g->state = g->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(g->state >> 33) % n;
}

bool og_chance(og_generator *g, uint32_t in)
{
    return og_pick(g, in) == 0;
}

// A value of that type and at least that rank, or NULL. It counts as used.
og_value *og_choose(og_generator *g, char type, int32_t min_rank, int32_t max_rank)
{
    uint32_t first = og_pick(g, (uint32_t)g->n_values);
    // Half of the time one of the last: networks are deep.
    if (og_chance(g, 2)) {
        first = (uint32_t)g->n_values - 1;
    }
    for (int k = 0; k < g->n_values; k++) {
        og_value *v = &g->values[((int)first - k + g->n_values) % g->n_values];
        if (v->type == type && v->shape.rank >= min_rank && v->shape.rank <= max_rank) {
            v->used = true;
            return v;
        }
    }
    return NULL;
}

// ---- texts

const char *og_join(char *text, const char *separator, const int64_t *items, int32_t n)
{
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, OG_TEXT - used, "%s%lld", i > 0 ? separator : "", (long long)items[i]);
    }
    return text;
}

void og_fresh_name(og_generator *g, char prefix, char *name)
{
    snprintf(name, 16, "%c%d", prefix, g->n_names++);
}

int64_t og_elements(const ckm_shape *shape)
{
    int64_t n = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        n *= shape->dims[i];
    }
    return n;
}

// ---- leaves; names go to `name`

void og_weight(og_generator *g, const ckm_shape *shape, char *name)
{
    char text[OG_TEXT];
    og_fresh_name(g, 'w', name);
    og_join(text, ",", shape->dims, shape->rank);
    if (og_chance(g, 8)) {
        ob_external(g->b, name, text);
    } else {
        ob_weight(g->b, name, text);
    }
}

// A constant list of integers: an initializer, or a node in one of its forms.
void og_int_list(og_generator *g, const int64_t *items, int32_t n, char *name)
{
    char text[OG_TEXT];
    og_fresh_name(g, 'c', name);
    og_join(text, ",", items, n);
    switch (n > 0 ? og_pick(g, 4) : 0) {
    case 0:
        ob_node(g->b, "Constant", "", name);
        ob_tensor(g->b, "value", ob_detached_ints(g->b, text));
        break;
    case 1:
        if (g->opset < 12) {
            ob_ints(g->b, name, text);
            break;
        }
        ob_node(g->b, "Constant", "", name);
        ob_list(g->b, "value_ints", text);
        break;
    default:
        ob_ints(g->b, name, text);
    }
}

void og_number(og_generator *g, double x, char *name)
{
    char text[40];
    og_fresh_name(g, 'c', name);
    snprintf(text, sizeof text, "%g", x);
    if (og_chance(g, 3) && g->opset >= 12) {
        ob_node(g->b, "Constant", "", name);
        ob_real(g->b, "value_float", (float)x);
    } else {
        ob_floats(g->b, name, text);
    }
}

void og_integer(og_generator *g, int64_t x, char *name)
{
    og_fresh_name(g, 'c', name);
    if (g->opset < 12) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)x);
        CkmOnnx__TensorProto *tensor = ob_detached_ints(g->b, text);
        tensor->n_dims = 0;
        ob_node(g->b, "Constant", "", name);
        ob_tensor(g->b, "value", tensor);
        return;
    }
    ob_node(g->b, "Constant", "", name);
    ob_int(g->b, "value_int", x);
}

// ---- nodes

og_value *og_add_value(og_generator *g, const char *name, char type, const ckm_shape *shape)
{
    int at = g->n_values < OG_VALUES ? g->n_values++ : 1 + (int)og_pick(g, OG_VALUES - 1);
    og_value *v = &g->values[at];
    *v = (og_value){.type = type, .shape = *shape};
    snprintf(v->name, sizeof v->name, "%s", name);
    return v;
}

// Adds a node whose first output is `type` of `shape`; `inputs` and `attributes` as the builder wants them.
void og_node(og_generator *g, const char *op, const char *inputs, const char *attributes, char type,
             const ckm_shape *shape)
{
    char name[16];
    char outputs[64];
    og_fresh_name(g, 'v', name);
    snprintf(outputs, sizeof outputs, "%s", name);
    for (; g->extra_outputs > 0; g->extra_outputs--) {
        size_t used = strlen(outputs);
        snprintf(outputs + used, sizeof outputs - used, ",e%d", g->n_names++);
    }
    ob_node(g->b, op, inputs, outputs);
    ob_attributes(g->b, attributes);
    og_add_value(g, name, type, shape);
    if (g->n_expected != NULL && *g->n_expected < OG_MOST_NODES) {
        onnx_expected *e = &g->expected[(*g->n_expected)++];
        snprintf(e->name, sizeof e->name, "%s", name);
        e->shape = *shape;
    }
}

const char *og_format(char *text, const char *pattern, ...)
{
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, OG_TEXT, pattern, args);
    va_end(args);
    return text;
}

const char *og_three(og_generator *g, char *text, const char *a, const char *b, const char *c)
{
    bool all = og_chance(g, 2);
    return og_format(text, "%s,%s%s%s", a, b, all ? "," : "", all ? c : "");
}

// A list that is an attribute up to `last_attribute` and an input after: appended to inputs or attributes.
void og_setting(og_generator *g, const char *key, int last_attribute, const int64_t *items, int32_t n, char *inputs,
                char *attributes)
{
    char text[OG_TEXT];
    if (g->opset <= last_attribute) {
        size_t used = strlen(attributes);
        snprintf(attributes + used, OG_TEXT - used, "%sl:%s=%s", used > 0 ? ";" : "", key,
                 og_join(text, ",", items, n));
    } else {
        char name[16];
        og_int_list(g, items, n, name);
        size_t used = strlen(inputs);
        snprintf(inputs + used, OG_TEXT - used, ",%s", name);
    }
}

// A second operand that broadcasts against x: a value of its shape, a weight of some last axes, or a number.
void og_operand(og_generator *g, const og_value *x, char *name)
{
    ckm_shape shape = {0};
    for (int k = 0; k < g->n_values && og_chance(g, 2); k++) {
        og_value *v = &g->values[og_pick(g, (uint32_t)g->n_values)];
        if (v->type == x->type && v->shape.rank == x->shape.rank &&
            memcmp(v->shape.dims, x->shape.dims, (size_t)v->shape.rank * sizeof v->shape.dims[0]) == 0) {
            v->used = true;
            strcpy(name, v->name);
            return;
        }
    }
    if (og_chance(g, 4)) {
        og_number(g, 0.5 + og_pick(g, 4), name);
        return;
    }
    shape.rank = (int32_t)og_pick(g, (uint32_t)x->shape.rank) + 1;
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = og_chance(g, 4) ? 1 : x->shape.dims[x->shape.rank - shape.rank + i];
    }
    og_weight(g, &shape, name);
}
