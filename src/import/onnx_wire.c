// SPDX-License-Identifier: Apache-2.0
#include "import/onnx_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// Longer names of tensors are not looked at.
enum { NAME_ROOM = 4096 };

ckm_status ckm_i_wire_broken(int64_t at, const char *what, const char *where, ckm_error *err)
{
    return ckm_i_error_at(err, CKM_ERR_FORMAT, NULL, 0, at, "not a readable ONNX model: %s%s%s", what,
                          where != NULL ? " in the " : "", where != NULL ? where : "");
}

ckm_status ckm_i_wire_varint(ckm_i_onnx_source *source, int64_t *at, int64_t end, const char *where, uint64_t *value,
                             ckm_error *err)
{
    uint64_t result = 0;
    int64_t start = *at;
    for (int i = 0; i < 10; i++) {
        uint8_t byte;
        if (*at >= end) {
            return ckm_i_wire_broken(start, "truncated number", where, err);
        }
        CKM_I_CHECK(ckm_i_onnx_source_read(source, *at, 1, &byte, err));
        (*at)++;
        if (i == 9 && byte > 1) {
            break;
        }
        result |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            *value = result;
            return CKM_OK;
        }
    }
    return ckm_i_wire_broken(start, "number longer than 64 bits", where, err);
}

ckm_status ckm_i_wire_next(ckm_i_onnx_source *source, int64_t *at, int64_t end, const char *where,
                           ckm_i_wire_field *field, ckm_error *err)
{
    uint64_t key = 0;
    uint64_t length = 0;
    field->start = *at;
    field->value = 0;
    CKM_I_CHECK(ckm_i_wire_varint(source, at, end, where, &key, err));
    if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF) {
        return ckm_i_wire_broken(field->start, "impossible field number", where, err);
    }
    field->number = (uint32_t)(key >> 3);
    field->type = (int)(key & 7);
    field->at = *at;
    switch (field->type) {
    case CKM_I_WIRE_VARINT:
        CKM_I_CHECK(ckm_i_wire_varint(source, at, end, where, &field->value, err));
        field->bytes = *at - field->at;
        return CKM_OK;
    case CKM_I_WIRE_64:
        length = 8;
        break;
    case CKM_I_WIRE_32:
        length = 4;
        break;
    case CKM_I_WIRE_BYTES:
        CKM_I_CHECK(ckm_i_wire_varint(source, at, end, where, &length, err));
        field->at = *at;
        break;
    default:
        return ckm_i_wire_broken(field->start, "unknown field type", where, err);
    }
    if (length > (uint64_t)(end - *at)) {
        return ckm_i_wire_broken(field->start, "a field that reaches beyond the end", where, err);
    }
    field->bytes = (int64_t)length;
    *at += field->bytes;
    return CKM_OK;
}

ckm_status ckm_i_wire_text(ckm_i_onnx_source *source, const ckm_i_wire_field *field, char *out, size_t room,
                           ckm_error *err)
{
    if (field->type != CKM_I_WIRE_BYTES || field->bytes >= (int64_t)room) {
        return ckm_i_wire_broken(field->start, "a text that is too long", NULL, err);
    }
    CKM_I_CHECK(ckm_i_onnx_source_read(source, field->at, field->bytes, (uint8_t *)out, err));
    out[field->bytes] = '\0';
    // A NUL would end the text here but not in other readers, which would see another name or file.
    return strlen(out) == (size_t)field->bytes ? CKM_OK
                                               : ckm_i_wire_broken(field->start, "a text with a NUL byte", NULL, err);
}

// The first field `number` of the message; *found says whether there is one.
static ckm_status first_field(ckm_i_onnx_source *source, int64_t at, int64_t end, uint32_t number,
                              ckm_i_wire_field *field, bool *found, ckm_error *err)
{
    *found = false;
    while (at < end) {
        CKM_I_CHECK(ckm_i_wire_next(source, &at, end, NULL, field, err));
        if (field->number == number) {
            *found = true;
            return CKM_OK;
        }
    }
    return CKM_OK;
}

static ckm_status add_tensor(ckm_i_wire_tensors *list, const char *name, const ckm_i_wire_field *tensor,
                             const ckm_i_wire_field *whole, ckm_error *err)
{
    char *copy = ckm_i_strdup(name);
    if (copy == NULL || !CKM_I_GROW(list->items, list->n, list->cap)) {
        free(copy);
        return ckm_i_error_memory(err);
    }
    list->items[list->n++] = (ckm_i_wire_tensor){copy, tensor->at, tensor->bytes, whole->start,
                                                 whole->at + whole->bytes};
    return CKM_OK;
}

// A tensor's name is its field 8.
static ckm_status add_initializer(ckm_i_onnx_source *source, ckm_i_wire_tensors *list, const ckm_i_wire_field *field,
                                  ckm_error *err)
{
    char name[NAME_ROOM];
    ckm_i_wire_field text;
    bool named = false;
    CKM_I_CHECK(first_field(source, field->at, field->at + field->bytes, 8, &text, &named, err));
    if (!named) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_wire_text(source, &text, name, sizeof name, err));
    return add_tensor(list, name, field, field, err);
}

// A node of type Constant: its output (field 2), its operator (field 4), the tensor (field 5) of its attribute.
static ckm_status add_constant(ckm_i_onnx_source *source, ckm_i_wire_tensors *list, const ckm_i_wire_field *node,
                               ckm_error *err)
{
    char type[16] = "";
    char name[NAME_ROOM];
    ckm_i_wire_field text;
    ckm_i_wire_field attribute;
    ckm_i_wire_field tensor;
    bool found = false;
    int64_t end = node->at + node->bytes;
    CKM_I_CHECK(first_field(source, node->at, end, 4, &text, &found, err));
    if (!found || text.bytes != 8) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_wire_text(source, &text, type, sizeof type, err));
    if (strcmp(type, "Constant") != 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(first_field(source, node->at, end, 2, &text, &found, err));
    if (!found) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_wire_text(source, &text, name, sizeof name, err));
    CKM_I_CHECK(first_field(source, node->at, end, 5, &attribute, &found, err));
    if (!found) {
        return CKM_OK;
    }
    CKM_I_CHECK(first_field(source, attribute.at, attribute.at + attribute.bytes, 5, &tensor, &found, err));
    return found ? add_tensor(list, name, &tensor, node, err) : CKM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ckm_i_wire_tensor *)a)->name, ((const ckm_i_wire_tensor *)b)->name);
}

ckm_status ckm_i_wire_list(ckm_i_onnx_source *source, ckm_i_wire_tensors *out, ckm_error *err)
{
    ckm_i_wire_tensors list = {0};
    ckm_i_wire_field graph;
    bool found = false;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(first_field(source, 0, source->size_bytes, 7, &graph, &found, err));
    if (!found || graph.type != CKM_I_WIRE_BYTES) {
        return ckm_i_wire_broken(0, "it has no graph", NULL, err);
    }
    list.graph_start = graph.start;
    list.graph_at = graph.at;
    list.graph_bytes = graph.bytes;
    int64_t at = graph.at;
    while (at < graph.at + graph.bytes) {
        ckm_i_wire_field field;
        CKM_I_TRY(ckm_i_wire_next(source, &at, graph.at + graph.bytes, NULL, &field, err));
        if (field.type == CKM_I_WIRE_BYTES && field.number == 5) {
            CKM_I_TRY(add_initializer(source, &list, &field, err));
        } else if (field.type == CKM_I_WIRE_BYTES && field.number == 1) {
            CKM_I_TRY(add_constant(source, &list, &field, err));
        }
    }
    if (list.n > 0) {
        qsort(list.items, (size_t)list.n, sizeof *list.items, by_name);
    }
    *out = list;
    list = (ckm_i_wire_tensors){0};
cleanup:
    ckm_i_wire_tensors_dispose(&list);
    return status;
}

void ckm_i_wire_tensors_dispose(ckm_i_wire_tensors *tensors)
{
    for (int32_t i = 0; i < tensors->n; i++) {
        free(tensors->items[i].name);
    }
    free(tensors->items);
    *tensors = (ckm_i_wire_tensors){0};
}

const ckm_i_wire_tensor *ckm_i_wire_find(const ckm_i_wire_tensors *tensors, const char *name)
{
    int32_t low = 0;
    int32_t high = tensors->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(tensors->items[middle].name, name);
        if (order == 0) {
            return &tensors->items[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return NULL;
}
