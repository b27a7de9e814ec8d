// SPDX-License-Identifier: Apache-2.0
// Models changed as models: unpacked, one or a few parts replaced, packed again.
#include "mutate.h"

#include <stdlib.h>
#include <string.h>

#include "onnx_generator.h"

enum { WIDE = 200 };

static const char *const op_types[] = {"Add",
                                       "Sub",
                                       "Mul",
                                       "Div",
                                       "Pow",
                                       "Mod",
                                       "Min",
                                       "Max",
                                       "Sum",
                                       "Mean",
                                       "Equal",
                                       "Less",
                                       "And",
                                       "Or",
                                       "Not",
                                       "Where",
                                       "Neg",
                                       "Abs",
                                       "Sign",
                                       "Floor",
                                       "Sqrt",
                                       "Cast",
                                       "CastLike",
                                       "ReduceSum",
                                       "ReduceProd",
                                       "ReduceMax",
                                       "ArgMax",
                                       "TopK",
                                       "CumSum",
                                       "Identity",
                                       "Reshape",
                                       "Squeeze",
                                       "Unsqueeze",
                                       "Flatten",
                                       "Expand",
                                       "Transpose",
                                       "Slice",
                                       "Split",
                                       "Concat",
                                       "Gather",
                                       "GatherND",
                                       "GatherElements",
                                       "ScatterND",
                                       "Tile",
                                       "Pad",
                                       "DepthToSpace",
                                       "SpaceToDepth",
                                       "Trilu",
                                       "Resize",
                                       "Upsample",
                                       "Conv",
                                       "ConvTranspose",
                                       "MaxPool",
                                       "AveragePool",
                                       "LpPool",
                                       "GlobalAveragePool",
                                       "GlobalLpPool",
                                       "BatchNormalization",
                                       "LayerNormalization",
                                       "GroupNormalization",
                                       "LRN",
                                       "Gemm",
                                       "MatMul",
                                       "Einsum",
                                       "PRelu",
                                       "Clip",
                                       "Dropout",
                                       "Softmax",
                                       "Constant",
                                       "ConstantOfShape",
                                       "Shape",
                                       "Size",
                                       "Range",
                                       "NonZero",
                                       "Relu",
                                       "If",
                                       "NoSuch"};
static const char *const attribute_names[] = {"axis",         "axes",
                                              "perm",         "pads",
                                              "strides",      "dilations",
                                              "kernel_shape", "group",
                                              "auto_pad",     "mode",
                                              "value",        "keepdims",
                                              "to",           "split",
                                              "starts",       "ends",
                                              "blocksize",    "epsilon",
                                              "alpha",        "min",
                                              "max",          "p",
                                              "size",         "num_groups",
                                              "output_shape", "output_padding",
                                              "ceil_mode",    "batch_dims",
                                              "equation",     "start",
                                              "end",          "transA",
                                              "value_int",    "value_ints",
                                              "value_float",  "value_floats",
                                              "allowzero",    "upper"};
static const char *const texts[] = {"",
                                    "SAME_UPPER",
                                    "SAME_LOWER",
                                    "VALID",
                                    "NOTSET",
                                    "linear",
                                    "cubic",
                                    "nearest",
                                    "reflect",
                                    "edge",
                                    "wrap",
                                    "CRD",
                                    "tanh",
                                    "tf_crop_and_resize",
                                    "align_corners",
                                    "floor",
                                    "abc->ca",
                                    "ab,bc->ac",
                                    "...ij->...ji",
                                    "aa->a",
                                    "a,b->",
                                    "equation->that,is->far,too->long,to->fit,into->any,buffer->of,the->importer"};
#define ANY_OF(list, state) (list)[mutate_pick(state, sizeof(list) / sizeof(list)[0])]

static void *checked(void *pointer)
{
    if (pointer == NULL) {
        abort();
    }
    return pointer;
}

// protobuf-c frees neither its own empty text nor anything that it did not allocate.
static void set_text(char **text, const char *to)
{
    if (*text != NULL && *text != (char *)(uintptr_t)protobuf_c_empty_string) {
        free(*text);
    }
    *text = checked(strdup(to));
}

static void set_bytes(ProtobufCBinaryData *bytes, const void *to, size_t n)
{
    free(bytes->data);
    bytes->data = checked(malloc(n + 1));
    memcpy(bytes->data, to, n);
    bytes->len = n;
}

static void change_ints(int64_t **list, size_t *n, uint64_t *state)
{
    size_t at = mutate_pick(state, (uint32_t)*n + 1);
    switch (*n > 0 ? mutate_pick(state, 4) : 3) {
    case 0:
        memmove(*list + at % *n, *list + at % *n + 1, (*n - at % *n - 1) * sizeof **list);
        (*n)--;
        break;
    case 1:
    case 2:
        (*list)[at % *n] = mutate_integer(state);
        break;
    default: {
        size_t more = mutate_pick(state, 6) == 0 ? 20 : 1;
        *list = checked(realloc(*list, (*n + more) * sizeof **list));
        for (size_t i = 0; i < more; i++) {
            (*list)[(*n)++] = mutate_integer(state);
        }
    }
    }
}

static void change_tensor(CkmOnnx__TensorProto *t, uint64_t *state)
{
    switch (mutate_pick(state, 6)) {
    case 0:
        change_ints(&t->dims, &t->n_dims, state);
        break;
    case 1:
        t->data_type = (int32_t)mutate_pick(state, 20);
        break;
    case 2:
        change_ints(&t->int64_data, &t->n_int64_data, state);
        break;
    case 3:
        t->data_location = (int32_t)mutate_pick(state, 3);
        break;
    case 4: {  // values in raw form, as many as there are dimensions to fill
        uint8_t raw[64];
        for (size_t i = 0; i < sizeof raw; i++) {
            raw[i] = (uint8_t)mutate_pick(state, 256);
        }
        set_bytes(&t->raw_data, raw, mutate_pick(state, sizeof raw + 1));
        break;
    }
    default: {
        static const int types[] = {1, 2, 3, 5, 6, 7, 9, 10, 11, 16};
        static const size_t sizes[] = {4, 1, 1, 2, 4, 8, 1, 2, 8, 2};
        uint32_t k = mutate_pick(state, 10);
        uint8_t raw[32];
        for (size_t i = 0; i < sizeof raw; i++) {
            raw[i] = (uint8_t)mutate_pick(state, mutate_pick(state, 2) ? 256 : 3);
        }
        size_t n = mutate_pick(state, 5);
        t->data_type = types[k];
        t->n_int64_data = t->n_float_data = t->n_int32_data = 0;
        t->dims = checked(realloc(t->dims, sizeof *t->dims));
        t->dims[0] = (int64_t)n;
        t->n_dims = 1;
        set_bytes(&t->raw_data, raw, n * sizes[k] > sizeof raw ? sizeof raw : n * sizes[k]);
    }
    }
}

static void change_attribute(CkmOnnx__Attribute *a, uint64_t *state)
{
    static const float reals[] = {0.0F, -1.0F, 0.5F, 1e38F, 1e-40F, 3.0F};
    switch (mutate_pick(state, 7)) {
    case 0:
        set_text(&a->name, ANY_OF(attribute_names, state));
        break;
    case 1:
        a->f = ANY_OF(reals, state);
        break;
    case 2: {
        const char *text = ANY_OF(texts, state);
        set_bytes(&a->s, text, strlen(text));
        break;
    }
    case 3:
    case 4:
        a->i = mutate_integer(state);
        break;
    case 5:
        if (a->t != NULL) {
            change_tensor(a->t, state);
            break;
        }
        // fall through
    default:
        change_ints(&a->ints, &a->n_ints, state);
    }
}

// A name that stands for something in the graph, or for nothing.
static const char *any_name(const CkmOnnx__Graph *g, uint64_t *state)
{
    switch (mutate_pick(state, 4)) {
    case 0:
        if (g->n_initializer > 0) {
            return g->initializer[mutate_pick(state, (uint32_t)g->n_initializer)]->name;
        }
        // fall through
    case 1:
        if (g->n_input > 0) {
            return g->input[mutate_pick(state, (uint32_t)g->n_input)]->name;
        }
        // fall through
    case 2:
        if (g->n_node > 0) {
            const CkmOnnx__Node *node = g->node[mutate_pick(state, (uint32_t)g->n_node)];
            if (node->n_output > 0) {
                return node->output[mutate_pick(state, (uint32_t)node->n_output)];
            }
        }
        // fall through
    default:
        return mutate_pick(state, 2) ? "" : "nothing";
    }
}

static void change_names(const CkmOnnx__Graph *g, char ***list, size_t *n, uint64_t *state)
{
    size_t at = mutate_pick(state, (uint32_t)*n + 1);
    const char *name = any_name(g, state);
    if (*n > 0 && mutate_pick(state, 3) == 0) {
        if ((*list)[at % *n] != (char *)(uintptr_t)protobuf_c_empty_string) {
            free((*list)[at % *n]);
        }
        memmove(*list + at % *n, *list + at % *n + 1, (*n - at % *n - 1) * sizeof **list);
        (*n)--;
        return;
    }
    if (*n > 0 && mutate_pick(state, 2) == 0) {
        char *copy = checked(strdup(name));
        set_text(&(*list)[at % *n], copy);
        free(copy);
        return;
    }
    size_t more = mutate_pick(state, 6) == 0 ? 1 + mutate_pick(state, WIDE) : 1;
    *list = checked(realloc(*list, (*n + more) * sizeof **list));
    for (size_t i = 0; i < more; i++) {
        (*list)[*n + i] = checked(strdup(name));
    }
    *n += more;
}

static void change_node(CkmOnnx__Graph *g, CkmOnnx__Node *node, uint64_t *state)
{
    switch (mutate_pick(state, 6)) {
    case 0:
        set_text(&node->op_type, ANY_OF(op_types, state));
        break;
    case 1:
    case 2:
        change_names(g, &node->input, &node->n_input, state);
        break;
    case 3:
        change_names(g, &node->output, &node->n_output, state);
        break;
    default:
        if (node->n_attribute > 0 && mutate_pick(state, 8) != 0) {
            change_attribute(node->attribute[mutate_pick(state, (uint32_t)node->n_attribute)], state);
        } else {
            CkmOnnx__Attribute *fresh = checked(malloc(sizeof *fresh));
            ckm_onnx__attribute__init(fresh);
            fresh->name = checked(strdup(ANY_OF(attribute_names, state)));
            change_attribute(fresh, state);
            node->attribute = checked(realloc(node->attribute, (node->n_attribute + 1) * sizeof *node->attribute));
            node->attribute[node->n_attribute++] = fresh;
        }
    }
}

static void change_value_info(CkmOnnx__ValueInfo *info, uint64_t *state)
{
    if (info->type == NULL || info->type->tensor_type == NULL || info->type->tensor_type->shape == NULL) {
        return;
    }
    CkmOnnx__TensorType *type = info->type->tensor_type;
    if (mutate_pick(state, 4) == 0) {
        type->elem_type = (int32_t)mutate_pick(state, 18);
    } else if (type->shape->n_dim > 0) {
        CkmOnnx__ShapeDimension *dim = type->shape->dim[mutate_pick(state, (uint32_t)type->shape->n_dim)];
        if (dim->value_case != CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_PARAM) {
            dim->value_case = CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = mutate_integer(state);
        }
    }
}

static void change_graph(CkmOnnx__Graph *g, uint64_t *state)
{
    switch (mutate_pick(state, 10)) {
    case 0:
        if (g->n_initializer > 0) {
            change_tensor(g->initializer[mutate_pick(state, (uint32_t)g->n_initializer)], state);
        }
        break;
    case 1:
        if (g->n_input > 0) {
            change_value_info(g->input[mutate_pick(state, (uint32_t)g->n_input)], state);
        }
        break;
    case 2:
        if (g->n_output > 0) {
            char *name = checked(strdup(any_name(g, state)));
            set_text(&g->output[mutate_pick(state, (uint32_t)g->n_output)]->name, name);
            free(name);
        }
        break;
    case 3:
        if (g->n_node > 1) {
            size_t at = mutate_pick(state, (uint32_t)g->n_node);
            ckm_onnx__node__free_unpacked(g->node[at], NULL);
            memmove(g->node + at, g->node + at + 1, (g->n_node - at - 1) * sizeof *g->node);
            g->n_node--;
        }
        break;
    default:
        if (g->n_node > 0) {
            change_node(g, g->node[mutate_pick(state, (uint32_t)g->n_node)], state);
        }
    }
}

// Writes the model behind the prefix when it fits; false otherwise.
static bool put(const CkmOnnx__Model *model, uint8_t *data, size_t *size, size_t max_size, size_t prefix)
{
    size_t n = ckm_onnx__model__get_packed_size(model);
    if (n + prefix > max_size) {
        return false;
    }
    *size = prefix + ckm_onnx__model__pack(model, data + prefix);
    return true;
}

static bool make_up(uint8_t *data, size_t *size, size_t max_size, size_t prefix, uint64_t *state)
{
    // What the input holds decides, with some bytes changed.
    uint8_t bytes[64];
    size_t n = *size < sizeof bytes ? *size : sizeof bytes;
    memcpy(bytes, data + (*size - n), n);
    for (int i = 0; i < 8 && n > 0; i++) {
        bytes[mutate_pick(state, (uint32_t)n)] = (uint8_t)mutate_pick(state, 256);
    }
    onnx_builder *b = og_generate(bytes, n, NULL, NULL);
    for (size_t i = 0; i < prefix && prefix <= max_size; i++) {
        data[i] = mutate_pick(state, 2) ? 0 : (uint8_t)mutate_pick(state, 256);
    }
    bool fits = put(ob_model(b), data, size, max_size, prefix);
    ob_free(b);
    return fits;
}

static bool change(uint8_t *data, size_t *size, size_t max_size, size_t prefix, uint64_t *state)
{
    CkmOnnx__Model *model = *size > prefix ? ckm_onnx__model__unpack(NULL, *size - prefix, data + prefix) : NULL;
    if (model == NULL || model->graph == NULL) {
        ckm_onnx__model__free_unpacked(model, NULL);
        return false;
    }
    for (uint32_t k = 1 + mutate_pick(state, 3); k > 0; k--) {
        if (mutate_pick(state, 40) == 0 && model->n_opset_import > 0) {
            model->opset_import[0]->version = 8 + mutate_pick(state, 14);
        } else {
            change_graph(model->graph, state);
        }
    }
    bool fits = put(model, data, size, max_size, prefix);
    ckm_onnx__model__free_unpacked(model, NULL);
    return fits;
}

size_t mutate_onnx(uint8_t *data, size_t size, size_t max_size, size_t prefix, unsigned seed)
{
    uint64_t state = seed;
    uint32_t how = mutate_pick(&state, 16);
    bool done = how == 0   ? make_up(data, &size, max_size, prefix, &state)
                : how < 12 ? change(data, &size, max_size, prefix, &state)
                           : false;
    return done ? size : LLVMFuzzerMutate(data, size, max_size);
}
