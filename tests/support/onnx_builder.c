// SPDX-License-Identifier: Apache-2.0
#include "onnx_builder.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Everything a builder allocates hangs off one list and goes with it.
typedef struct block {
    struct block *next;
    max_align_t data[];
} block;

struct onnx_builder {
    block *blocks;
    CkmOnnx__Model *model;
    CkmOnnx__Node *node;  // the last one
};

static void *take(onnx_builder *b, size_t size)
{
    block *fresh = calloc(1, sizeof *fresh + size);
    if (fresh == NULL) {
        fprintf(stderr, "out of memory in a test\n");
        abort();
    }
    fresh->next = b->blocks;
    b->blocks = fresh;
    return fresh->data;
}

static char *copy(onnx_builder *b, const char *text, size_t n)
{
    char *result = take(b, n + 1);
    memcpy(result, text, n);
    return result;
}

static char *text_of(onnx_builder *b, const char *text)
{
    return copy(b, text, strlen(text));
}

// A list of pointers one longer; the old one stays with the builder.
static void *append(onnx_builder *b, void *items, size_t *n, void *item)
{
    void **grown = take(b, (*n + 1) * sizeof *grown);
    if (items != NULL) {
        memcpy(grown, items, *n * sizeof *grown);
    }
    grown[(*n)++] = item;
    return grown;
}

// The k-th comma-separated word of a text, or NULL.
static char *word_at(onnx_builder *b, const char *text, int k)
{
    if (text[0] == '\0') {
        return NULL;
    }
    for (; k > 0; k--) {
        text = strchr(text, ',');
        if (text == NULL) {
            return NULL;
        }
        text++;
    }
    return copy(b, text, strcspn(text, ","));
}

onnx_builder *ob_create(int64_t opset)
{
    onnx_builder *b = calloc(1, sizeof *b);
    if (b == NULL) {
        abort();
    }
    CkmOnnx__OperatorSetId *import = take(b, sizeof *import);
    b->model = take(b, sizeof *b->model);
    ckm_onnx__model__init(b->model);
    b->model->ir_version = 8;
    b->model->producer_name = text_of(b, "test");
    ckm_onnx__operator_set_id__init(import);
    import->version = opset;
    b->model->opset_import = append(b, NULL, &b->model->n_opset_import, import);
    b->model->graph = take(b, sizeof *b->model->graph);
    ckm_onnx__graph__init(b->model->graph);
    b->model->graph->name = text_of(b, "net");
    return b;
}

void ob_free(onnx_builder *b)
{
    while (b->blocks != NULL) {
        block *next = b->blocks->next;
        free(b->blocks);
        b->blocks = next;
    }
    free(b);
}

CkmOnnx__Model *ob_model(onnx_builder *b)
{
    return b->model;
}

static CkmOnnx__ValueInfo *value_info(onnx_builder *b, const char *name, int32_t type, const char *shape)
{
    CkmOnnx__ValueInfo *info = take(b, sizeof *info);
    ckm_onnx__value_info__init(info);
    info->name = text_of(b, name);
    if (shape == NULL) {
        return info;
    }
    info->type = take(b, sizeof *info->type);
    ckm_onnx__type_proto__init(info->type);
    info->type->tensor_type = take(b, sizeof *info->type->tensor_type);
    ckm_onnx__tensor_type__init(info->type->tensor_type);
    info->type->tensor_type->elem_type = type;
    CkmOnnx__TensorShape *message = take(b, sizeof *message);
    ckm_onnx__tensor_shape__init(message);
    info->type->tensor_type->shape = message;
    char *word;
    for (int k = 0; (word = word_at(b, shape, k)) != NULL; k++) {
        CkmOnnx__ShapeDimension *dim = take(b, sizeof *dim);
        ckm_onnx__shape_dimension__init(dim);
        char *end;
        long long value = strtoll(word, &end, 10);
        if (end != word) {
            dim->value_case = CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_VALUE;
            dim->dim_value = value;
        } else if (strcmp(word, "?") != 0) {
            dim->value_case = CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_PARAM;
            dim->dim_param = word;
        }
        message->dim = append(b, message->dim, &message->n_dim, dim);
    }
    return info;
}

void ob_input(onnx_builder *b, const char *name, int32_t type, const char *shape)
{
    CkmOnnx__Graph *graph = b->model->graph;
    graph->input = append(b, graph->input, &graph->n_input, value_info(b, name, type, shape));
}

void ob_output(onnx_builder *b, const char *name)
{
    CkmOnnx__Graph *graph = b->model->graph;
    graph->output = append(b, graph->output, &graph->n_output, value_info(b, name, 0, NULL));
}

void ob_note(onnx_builder *b, const char *name, const char *key, const char *value)
{
    CkmOnnx__Graph *graph = b->model->graph;
    CkmOnnx__Note *note = take(b, sizeof *note);
    CkmOnnx__Pair *pair = take(b, sizeof *pair);
    ckm_onnx__note__init(note);
    ckm_onnx__pair__init(pair);
    note->name = text_of(b, name);
    pair->key = (ProtobufCBinaryData){strlen(key), (uint8_t *)text_of(b, key)};
    pair->value = (ProtobufCBinaryData){strlen(value), (uint8_t *)text_of(b, value)};
    note->metadata_props = append(b, NULL, &note->n_metadata_props, pair);
    graph->value_info = append(b, graph->value_info, &graph->n_value_info, note);
}

static size_t read_ints(onnx_builder *b, const char *values, int64_t **out)
{
    size_t n = 0;
    char *word;
    *out = take(b, (strlen(values) + 1) * sizeof **out);
    while ((word = word_at(b, values, (int)n)) != NULL) {
        (*out)[n++] = strtoll(word, NULL, 10);
    }
    return n;
}

static CkmOnnx__TensorProto *tensor(onnx_builder *b, const char *name, int32_t type)
{
    CkmOnnx__TensorProto *t = take(b, sizeof *t);
    ckm_onnx__tensor_proto__init(t);
    t->name = text_of(b, name);
    t->data_type = type;
    return t;
}

static CkmOnnx__TensorProto *add_initializer(onnx_builder *b, CkmOnnx__TensorProto *t)
{
    CkmOnnx__Graph *graph = b->model->graph;
    graph->initializer = append(b, graph->initializer, &graph->n_initializer, t);
    return t;
}

CkmOnnx__TensorProto *ob_weight(onnx_builder *b, const char *name, const char *shape)
{
    CkmOnnx__TensorProto *t = add_initializer(b, tensor(b, name, OB_FLOAT));
    t->n_dims = read_ints(b, shape, &t->dims);
    return t;
}

CkmOnnx__TensorProto *ob_external(onnx_builder *b, const char *name, const char *shape)
{
    CkmOnnx__TensorProto *t = ob_weight(b, name, shape);
    t->data_location = 1;
    return t;
}

CkmOnnx__TensorProto *ob_detached_ints(onnx_builder *b, const char *values)
{
    CkmOnnx__TensorProto *t = tensor(b, "", OB_INT64);
    t->n_int64_data = read_ints(b, values, &t->int64_data);
    t->n_dims = 1;
    t->dims = take(b, sizeof *t->dims);
    t->dims[0] = (int64_t)t->n_int64_data;
    return t;
}

CkmOnnx__TensorProto *ob_ints(onnx_builder *b, const char *name, const char *values)
{
    CkmOnnx__TensorProto *t = add_initializer(b, ob_detached_ints(b, values));
    t->name = text_of(b, name);
    return t;
}

CkmOnnx__TensorProto *ob_floats(onnx_builder *b, const char *name, const char *values)
{
    CkmOnnx__TensorProto *t = add_initializer(b, tensor(b, name, OB_FLOAT));
    char *word;
    size_t n = 0;
    t->raw_data.data = take(b, (strlen(values) + 1) * sizeof(float));
    while ((word = word_at(b, values, (int)n)) != NULL) {
        float value = strtof(word, NULL);
        memcpy(t->raw_data.data + n++ * sizeof value, &value, sizeof value);  // little-endian hosts only
    }
    t->raw_data.len = n * sizeof(float);
    t->n_dims = 1;
    t->dims = take(b, sizeof *t->dims);
    t->dims[0] = (int64_t)n;
    return t;
}

CkmOnnx__Node *ob_node(onnx_builder *b, const char *op_type, const char *inputs, const char *outputs)
{
    CkmOnnx__Node *node = take(b, sizeof *node);
    char *word;
    ckm_onnx__node__init(node);
    node->op_type = text_of(b, op_type);
    for (int k = 0; (word = word_at(b, inputs, k)) != NULL; k++) {
        node->input = append(b, node->input, &node->n_input, word);
    }
    for (int k = 0; (word = word_at(b, outputs, k)) != NULL; k++) {
        node->output = append(b, node->output, &node->n_output, word);
    }
    node->name = take(b, strlen(outputs) + 6);
    sprintf(node->name, "%.*s_node", (int)strcspn(outputs, ","), outputs);
    b->model->graph->node = append(b, b->model->graph->node, &b->model->graph->n_node, node);
    b->node = node;
    return node;
}

static CkmOnnx__Attribute *attribute(onnx_builder *b, const char *name, int32_t type)
{
    CkmOnnx__Attribute *a = take(b, sizeof *a);
    ckm_onnx__attribute__init(a);
    a->name = text_of(b, name);
    a->type = type;
    b->node->attribute = append(b, b->node->attribute, &b->node->n_attribute, a);
    return a;
}

void ob_int(onnx_builder *b, const char *name, int64_t value)
{
    attribute(b, name, 2)->i = value;
}

void ob_list(onnx_builder *b, const char *name, const char *values)
{
    CkmOnnx__Attribute *a = attribute(b, name, 7);
    a->n_ints = read_ints(b, values, &a->ints);
}

void ob_real(onnx_builder *b, const char *name, float value)
{
    attribute(b, name, 1)->f = value;
}

void ob_word(onnx_builder *b, const char *name, const char *value)
{
    CkmOnnx__Attribute *a = attribute(b, name, 3);
    a->s.len = strlen(value);
    a->s.data = (uint8_t *)text_of(b, value);
}

void ob_tensor(onnx_builder *b, const char *name, CkmOnnx__TensorProto *t)
{
    attribute(b, name, 4)->t = t;
}

void ob_pack(const onnx_builder *b, uint8_t **data, size_t *size_bytes)
{
    size_t size = ckm_onnx__model__get_packed_size(b->model);
    *data = malloc(size + 1);
    if (*data == NULL) {
        abort();
    }
    *size_bytes = ckm_onnx__model__pack(b->model, *data);
}

// Splits "kind:name=value;..." and hands each part on. Without a kind it is `plain`.
static void each_part(onnx_builder *b, const char *parts, char plain,
                      void (*use)(onnx_builder *b, char kind, const char *name, const char *value))
{
    while (parts[0] != '\0') {
        size_t length = strcspn(parts, ";");
        const char *part = copy(b, parts, length);
        char kind = part[0] != '\0' && part[1] == ':' ? part[0] : plain;
        const char *name = part + (part[0] != '\0' && part[1] == ':' ? 2 : 0);
        size_t n = strcspn(name, "=");
        use(b, kind, copy(b, name, n), name[n] == '=' ? name + n + 1 : "");
        parts += length + (parts[length] == ';');
    }
}

static void use_leaf(onnx_builder *b, char kind, const char *name, const char *value)
{
    switch (kind) {
    case 'i':
        ob_ints(b, name, value);
        break;
    case 'f':
        ob_floats(b, name, value);
        break;
    case 'd':
        ob_input(b, name, OB_FLOAT, value);
        break;
    default:
        ob_weight(b, name, value);
    }
}

static void use_attribute(onnx_builder *b, char kind, const char *name, const char *value)
{
    switch (kind) {
    case 'l':
        ob_list(b, name, value);
        break;
    case 'r':
        ob_real(b, name, strtof(value, NULL));
        break;
    case 'w':
        ob_word(b, name, value);
        break;
    default:
        ob_int(b, name, strtoll(value, NULL, 10));
    }
}

void ob_leaves(onnx_builder *b, const char *leaves)
{
    each_part(b, leaves, 'w', use_leaf);
}

void ob_attributes(onnx_builder *b, const char *attributes)
{
    each_part(b, attributes, 'i', use_attribute);
}

ckm_graph *ob_import(const onnx_builder *b, const ckm_import_options *options, ckm_error *err)
{
    uint8_t *data;
    size_t size;
    ckm_graph *graph = NULL;
    ob_pack(b, &data, &size);
    ckm_status status = ckm_import_onnx_memory(data, size, options, &graph, err);
    free(data);
    if (status != CKM_OK && graph != NULL) {
        fprintf(stderr, "a failed import touched its output\n");
        abort();
    }
    return graph;
}
