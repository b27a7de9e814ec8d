// SPDX-License-Identifier: Apache-2.0
// From the reduced message to values and nodes: unpacking, versions, names.
#include "import/onnx_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// Memory of unpacked messages, counted, so that no file can take more than the bound.
typedef struct unpack_memory {
    size_t left;
    bool exhausted;
} unpack_memory;

static const size_t unpack_limit_bytes = (size_t)1 << 30;

static void *unpack_alloc(void *user, size_t size)
{
    unpack_memory *memory = user;
    void *pointer = size <= memory->left ? ckm_i_malloc(size, 1) : NULL;
    if (pointer == NULL) {
        memory->exhausted = true;
        return NULL;
    }
    memory->left -= size;
    return pointer;
}

static void unpack_free(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

static ckm_status unpack(ckm_i_onnx_source *source, CkmOnnx__Model **out, ckm_error *err)
{
    uint8_t *reduced = NULL;
    size_t size = 0;
    CKM_I_CHECK(ckm_i_onnx_skim(source, &reduced, &size, err));
    unpack_memory memory = {.left = unpack_limit_bytes};
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &memory};
    CkmOnnx__Model *model = ckm_onnx__model__unpack(&allocator, size, reduced);
    free(reduced);
    if (model == NULL) {
        return memory.exhausted ? ckm_i_error_memory(err)
                                : ckm_i_error(err, CKM_ERR_FORMAT, "not a readable ONNX model");
    }
    *out = model;
    return CKM_OK;
}

static void unpack_release(CkmOnnx__Model *model)
{
    if (model != NULL) {
        unpack_memory memory = {0};
        ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &memory};
        ckm_onnx__model__free_unpacked(model, &allocator);
    }
}

static bool standard_domain(const char *domain)
{
    return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static ckm_status read_opset(ckm_i_onnx_model *model, ckm_error *err)
{
    model->opset = -1;
    for (size_t i = 0; i < model->proto->n_opset_import; i++) {
        const CkmOnnx__OperatorSetId *import = model->proto->opset_import[i];
        for (size_t k = 0; k < i; k++) {
            const char *other = model->proto->opset_import[k]->domain;
            if (strcmp(import->domain, other) == 0 || (standard_domain(import->domain) && standard_domain(other))) {
                return ckm_i_error(err, CKM_ERR_FORMAT,
                                   "the ONNX model imports two opsets of the domain \"%.60s\" (%lld and %lld)",
                                   standard_domain(import->domain) ? "ai.onnx" : import->domain,
                                   (long long)model->proto->opset_import[k]->version, (long long)import->version);
            }
        }
        if (standard_domain(import->domain)) {
            model->opset = import->version;
        }
    }
    if (model->opset < 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "the ONNX model does not say which opset it uses (opset_import)");
    }
    if (model->opset < CKM_I_ONNX_OPSET_MIN || model->opset > CKM_I_ONNX_OPSET_MAX) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "the ONNX model uses opset %lld; opsets %d to %d are supported (export it again with one "
                           "of them)",
                           (long long)model->opset, CKM_I_ONNX_OPSET_MIN, CKM_I_ONNX_OPSET_MAX);
    }
    return CKM_OK;
}

// One name and the value it stands for, for look-up by binary search.
typedef struct name_entry {
    const char *name;
    int32_t value;
} name_entry;

static int compare_names(const void *a, const void *b)
{
    const name_entry *x = a;
    const name_entry *y = b;
    int order = strcmp(x->name, y->name);
    // Among equal names the input comes first, then the initializer that gives it its values.
    return order != 0 ? order : (x->value > y->value) - (x->value < y->value);
}

static int32_t find_value(const name_entry *names, int32_t n, const char *name)
{
    int32_t low = 0;
    int32_t high = n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (strcmp(names[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && strcmp(names[low].name, name) == 0 ? names[low].value : -1;
}

static void add_value(ckm_i_onnx_model *model, const ckm_i_onnx_value *value)
{
    ckm_i_onnx_value *v = &model->values[model->n_values++];
    *v = *value;
    v->transposed_of = -1;
    v->tensor = -1;
    v->scratch = -1;
}

// Counts values and pool slots, and allocates.
static ckm_status allocate(ckm_i_onnx_model *model, name_entry **names, ckm_error *err)
{
    const CkmOnnx__Graph *graph = model->proto->graph;
    size_t values = graph->n_input + graph->n_initializer;
    size_t slots = 0;
    for (size_t i = 0; i < graph->n_node; i++) {
        values += graph->node[i]->n_output;
        slots += graph->node[i]->n_input + graph->node[i]->n_output;
    }
    if (values > INT32_MAX || slots > INT32_MAX || graph->n_node > INT32_MAX || graph->n_output > INT32_MAX) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "the ONNX model has too many values");
    }
    model->values = ckm_i_calloc(values, sizeof *model->values);
    model->nodes = ckm_i_calloc(graph->n_node, sizeof *model->nodes);
    model->outputs = ckm_i_calloc(graph->n_output, sizeof *model->outputs);
    model->pool = ckm_i_calloc(slots, sizeof *model->pool);
    *names = ckm_i_calloc(values, sizeof **names);
    if (model->values == NULL || model->nodes == NULL || model->outputs == NULL || model->pool == NULL ||
        *names == NULL) {
        return ckm_i_error_memory(err);
    }
    return CKM_OK;
}

// The rules of PyTorch's exporter that do so: FuseBatchNormIntoConv, ...IntoConvTranspose, ...IntoGemm.
static bool holds_norm(const CkmOnnx__Node *node)
{
    static const char rule[] = "FuseBatchNorm";
    for (size_t k = 0; k < node->n_metadata_props; k++) {
        const ProtobufCBinaryData *names = &node->metadata_props[k]->value;
        for (size_t i = 0; i + sizeof rule <= names->len + 1; i++) {
            if (memcmp(names->data + i, rule, sizeof rule - 1) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void collect_values(ckm_i_onnx_model *model)
{
    const CkmOnnx__Graph *graph = model->proto->graph;
    for (size_t i = 0; i < graph->n_input; i++) {
        add_value(model,
                  &(ckm_i_onnx_value){
                      .name = graph->input[i]->name, .origin = CKM_I_ONNX_INPUT, .node = -1, .info = graph->input[i]});
    }
    for (size_t i = 0; i < graph->n_initializer; i++) {
        add_value(model, &(ckm_i_onnx_value){.name = graph->initializer[i]->name,
                                             .origin = CKM_I_ONNX_INITIALIZER,
                                             .node = -1,
                                             .initializer = graph->initializer[i]});
    }
    int32_t *pool = model->pool;
    for (size_t i = 0; i < graph->n_node; i++) {
        const CkmOnnx__Node *proto = graph->node[i];
        ckm_i_onnx_node *node = &model->nodes[model->n_nodes];
        node->proto = proto;
        node->op_type = proto->op_type;
        node->standard = standard_domain(proto->domain);
        node->holds_norm = holds_norm(proto);
        node->label = proto->name[0] != '\0' ? proto->name : proto->n_output > 0 ? proto->output[0] : proto->op_type;
        node->n_in = (int32_t)proto->n_input;
        node->n_out = (int32_t)proto->n_output;
        node->in = pool;
        node->out = pool + proto->n_input;
        pool += proto->n_input + proto->n_output;
        for (size_t k = 0; k < proto->n_output; k++) {
            node->out[k] = -1;
            if (proto->output[k][0] != '\0') {
                node->out[k] = model->n_values;
                add_value(model, &(ckm_i_onnx_value){
                                     .name = proto->output[k], .origin = CKM_I_ONNX_COMPUTED, .node = model->n_nodes});
            }
        }
        model->n_nodes++;
    }
}

// Sorts the names. An input with an initializer of its name is that initializer, as files before IR
// version 4 have it; any other repetition is an error.
static ckm_status index_names(ckm_i_onnx_model *model, name_entry *names, ckm_error *err)
{
    int32_t n = model->n_values;
    for (int32_t i = 0; i < n; i++) {
        names[i] = (name_entry){model->values[i].name, i};
    }
    qsort(names, (size_t)n, sizeof *names, compare_names);
    for (int32_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1].name, names[i].name) != 0) {
            continue;
        }
        ckm_i_onnx_value *first = &model->values[names[i - 1].value];
        const ckm_i_onnx_value *second = &model->values[names[i].value];
        if (first->origin != CKM_I_ONNX_INPUT || second->origin != CKM_I_ONNX_INITIALIZER) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "two values of the ONNX model are called \"%.200s\"",
                               names[i].name);
        }
        first->origin = CKM_I_ONNX_INITIALIZER;
        first->initializer = second->initializer;
    }
    return CKM_OK;
}

static ckm_status resolve_node(ckm_i_onnx_model *model, int32_t index, const name_entry *names, ckm_error *err)
{
    ckm_i_onnx_node *node = &model->nodes[index];
    for (int32_t k = 0; k < node->n_in; k++) {
        const char *name = node->proto->input[k];
        node->in[k] = name[0] == '\0' ? -1 : find_value(names, model->n_values, name);
        if (name[0] != '\0' && node->in[k] < 0) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "node \"%.200s\" (%.60s) reads \"%.200s\", which nothing produces",
                               node->label, node->op_type, name);
        }
        if (node->in[k] >= 0 && model->values[node->in[k]].node >= index) {
            return ckm_i_error(err, CKM_ERR_FORMAT,
                               "node \"%.200s\" (%.60s) reads \"%.200s\" before it is computed: the nodes are not in "
                               "topological order, or form a cycle",
                               node->label, node->op_type, name);
        }
    }
    return CKM_OK;
}

static ckm_status resolve(ckm_i_onnx_model *model, const name_entry *names, ckm_error *err)
{
    const CkmOnnx__Graph *graph = model->proto->graph;
    for (int32_t i = 0; i < model->n_nodes; i++) {
        CKM_I_CHECK(resolve_node(model, i, names, err));
    }
    for (size_t i = 0; i < graph->n_output; i++) {
        int32_t value = find_value(names, model->n_values, graph->output[i]->name);
        if (value < 0) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "no node produces output \"%.200s\" of the ONNX model",
                               graph->output[i]->name);
        }
        model->outputs[model->n_outputs++] = value;
        model->values[value].needed = true;
    }
    if (model->n_outputs == 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "the ONNX model has no outputs");
    }
    return CKM_OK;
}

static bool is_text(const ProtobufCBinaryData *data, const char *text)
{
    return data->len == strlen(text) && memcmp(data->data, text, data->len) == 0;
}

// PyTorch's exporter notes of each initializer whether it was a parameter of the module or a buffer.
static void read_notes(ckm_i_onnx_model *model, const name_entry *names)
{
    const CkmOnnx__Graph *graph = model->proto->graph;
    for (size_t i = 0; i < graph->n_value_info; i++) {
        const CkmOnnx__Note *note = graph->value_info[i];
        for (size_t k = 0; k < note->n_metadata_props; k++) {
            const CkmOnnx__Pair *pair = note->metadata_props[k];
            int32_t value = is_text(&pair->key, "pkg.torch.export.graph_signature.InputSpec.kind") &&
                                    (is_text(&pair->value, "BUFFER") || is_text(&pair->value, "CONSTANT_TENSOR"))
                                ? find_value(names, model->n_values, note->name)
                                : -1;
            if (value >= 0) {
                model->values[value].buffer = model->values[value].origin == CKM_I_ONNX_INITIALIZER;
            }
        }
    }
}

// Nodes are in topological order: one pass backwards finds what the outputs depend on.
static void mark_needed(ckm_i_onnx_model *model)
{
    for (int32_t i = model->n_nodes - 1; i >= 0; i--) {
        ckm_i_onnx_node *node = &model->nodes[i];
        for (int32_t k = 0; k < node->n_out; k++) {
            node->needed = node->needed || (node->out[k] >= 0 && model->values[node->out[k]].needed);
        }
        for (int32_t k = 0; node->needed && k < node->n_in; k++) {
            if (node->in[k] >= 0) {
                model->values[node->in[k]].needed = true;
            }
        }
    }
}

ckm_status ckm_i_onnx_model_read(ckm_i_onnx_source *source, ckm_i_onnx_model **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    name_entry *names = NULL;
    ckm_i_onnx_model *model = ckm_i_calloc(1, sizeof *model);
    if (model == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(unpack(source, &model->proto, err));
    if (model->proto->graph == NULL) {
        status = ckm_i_error(err, CKM_ERR_FORMAT, "not an ONNX model: it holds no graph");
        goto cleanup;
    }
    CKM_I_TRY(read_opset(model, err));
    CKM_I_TRY(allocate(model, &names, err));
    collect_values(model);
    CKM_I_TRY(index_names(model, names, err));
    read_notes(model, names);
    CKM_I_TRY(resolve(model, names, err));
    mark_needed(model);
    *out = model;
    model = NULL;
cleanup:
    free(names);
    ckm_i_onnx_model_free(model);
    return status;
}

void ckm_i_onnx_model_free(ckm_i_onnx_model *model)
{
    if (model == NULL) {
        return;
    }
    for (int32_t i = 0; i < model->n_values; i++) {
        free(model->values[i].data);
    }
    free(model->values);
    free(model->nodes);
    free(model->outputs);
    free(model->pool);
    unpack_release(model->proto);
    free(model);
}

const CkmOnnx__Attribute *ckm_i_onnx_attr(const ckm_i_onnx_node *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        if (strcmp(node->proto->attribute[i]->name, name) == 0) {
            return node->proto->attribute[i];
        }
    }
    return NULL;
}

int64_t ckm_i_onnx_attr_int(const ckm_i_onnx_node *node, const char *name, int64_t fallback)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, name);
    return attr != NULL ? attr->i : fallback;
}

double ckm_i_onnx_attr_real(const ckm_i_onnx_node *node, const char *name, double fallback)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, name);
    return attr != NULL ? (double)attr->f : fallback;
}

const char *ckm_i_onnx_attr_text(const ckm_i_onnx_node *node, const char *name, const char *fallback, char *buf,
                                 size_t size)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, name);
    if (attr == NULL || attr->s.len == 0) {
        snprintf(buf, size, "%s", fallback);
    } else {
        snprintf(buf, size, "%.*s", (int)(attr->s.len < size ? attr->s.len : size - 1), (const char *)attr->s.data);
    }
    return buf;
}
