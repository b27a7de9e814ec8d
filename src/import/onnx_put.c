// SPDX-License-Identifier: Apache-2.0
#include "import/onnx_put.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "graph/graph.h"

// The first that has Gelu, and the version of the format that belongs to it.
enum { OPSET = 20, IR_VERSION = 9 };

// Numbers of fields and of attributes' types in onnx.proto.
enum { MODEL_IR = 1, MODEL_PRODUCER = 2, MODEL_VERSION = 3, MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_NOTE = 14 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTRIBUTE = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_DATA = 9 };

typedef struct initializer {
    const char *name;
    ckm_export_tensor from;
    int64_t perm[CKM_MAX_RANK];
} initializer;

struct ckm_i_onnx_put {
    ckm_status status;
    ckm_i_bytes node, attribute;  // being made
    ckm_i_bytes graph, notes;
    initializer *tensors;
    int32_t n_tensors, cap_tensors;
    void **owned;  // names and constants
    int32_t n_owned, cap_owned;
};

ckm_status ckm_i_onnx_put_create(ckm_i_onnx_put **out, ckm_error *err)
{
    *out = ckm_i_calloc(1, sizeof(**out));
    return *out != NULL ? CKM_OK : ckm_i_error_memory(err);
}

void ckm_i_onnx_put_free(ckm_i_onnx_put *put)
{
    if (put == NULL) {
        return;
    }
    for (int32_t i = 0; i < put->n_owned; i++) {
        free(put->owned[i]);
    }
    free(put->owned);
    free(put->tensors);
    ckm_i_bytes_free(&put->node);
    ckm_i_bytes_free(&put->attribute);
    ckm_i_bytes_free(&put->graph);
    ckm_i_bytes_free(&put->notes);
    free(put);
}

// Room for one more of `n` items of that size, or NULL.
static void *grow(ckm_i_onnx_put *put, void *items, int32_t n, int32_t *cap, size_t size)
{
    if (n < *cap) {
        return items;
    }
    int32_t wanted = *cap > 0 ? 2 * *cap : 64;
    void *more = ckm_i_calloc((size_t)wanted, size);
    if (more == NULL) {
        put->status = CKM_ERR_MEMORY;
        return NULL;
    }
    if (n > 0) {
        memcpy(more, items, (size_t)n * size);
    }
    free(items);
    *cap = wanted;
    return more;
}

// Bytes that live as long as the model, or NULL.
static void *keep(ckm_i_onnx_put *put, const void *bytes, size_t n)
{
    if (put->status != CKM_OK) {
        return NULL;
    }
    void **owned = grow(put, put->owned, put->n_owned, &put->cap_owned, sizeof *owned);
    void *copy = owned != NULL ? ckm_i_malloc(n > 0 ? n : 1, 1) : NULL;
    put->owned = owned != NULL ? owned : put->owned;
    if (copy == NULL) {
        put->status = CKM_ERR_MEMORY;
        return NULL;
    }
    memcpy(copy, bytes, n);
    put->owned[put->n_owned++] = copy;
    return copy;
}

const char *ckm_i_onnx_put_name(ckm_i_onnx_put *put, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = keep(put, text, strlen(text) + 1);
    return name != NULL ? name : "";
}

// ---- nodes

void ckm_i_onnx_put_begin(ckm_i_onnx_put *put, const char *op_type, const char *const *inputs,
                          const char *const *outputs)
{
    put->node.n = 0;
    for (int32_t i = 0; inputs[i] != NULL; i++) {
        ckm_i_bytes_text(&put->node, NODE_INPUT, inputs[i]);
    }
    for (int32_t i = 0; outputs[i] != NULL; i++) {
        ckm_i_bytes_text(&put->node, NODE_OUTPUT, outputs[i]);
    }
    ckm_i_bytes_text(&put->node, NODE_NAME, outputs[0]);
    ckm_i_bytes_text(&put->node, NODE_TYPE, op_type);
}

void ckm_i_onnx_put_end(ckm_i_onnx_put *put)
{
    ckm_i_bytes_message(&put->graph, GRAPH_NODE, &put->node);
}

static void end_attribute(ckm_i_onnx_put *put, const char *key, int type)
{
    ckm_i_bytes_text(&put->attribute, ATTR_NAME, key);
    ckm_i_bytes_int(&put->attribute, ATTR_TYPE, type);
    ckm_i_bytes_message(&put->node, NODE_ATTRIBUTE, &put->attribute);
}

void ckm_i_onnx_put_int(ckm_i_onnx_put *put, const char *key, int64_t value)
{
    ckm_i_bytes_int(&put->attribute, ATTR_I, value);
    end_attribute(put, key, TYPE_INT);
}

void ckm_i_onnx_put_ints(ckm_i_onnx_put *put, const char *key, const int64_t *values, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        ckm_i_bytes_int(&put->attribute, ATTR_INTS, values[i]);
    }
    end_attribute(put, key, TYPE_INTS);
}

void ckm_i_onnx_put_real(ckm_i_onnx_put *put, const char *key, double value)
{
    ckm_i_bytes_float(&put->attribute, ATTR_F, (float)value);
    end_attribute(put, key, TYPE_FLOAT);
}

void ckm_i_onnx_put_word(ckm_i_onnx_put *put, const char *key, const char *value)
{
    ckm_i_bytes_text(&put->attribute, ATTR_S, value);
    end_attribute(put, key, TYPE_STRING);
}

// ---- initializers

void ckm_i_onnx_put_tensor(ckm_i_onnx_put *put, const char *name, const ckm_export_tensor *t, const int64_t *perm)
{
    if (put->status != CKM_OK) {
        return;
    }
    initializer *list = grow(put, put->tensors, put->n_tensors, &put->cap_tensors, sizeof *list);
    if (list == NULL) {
        return;
    }
    put->tensors = list;
    initializer *to = &list[put->n_tensors++];
    *to = (initializer){.name = name, .from = *t};
    for (int32_t i = 0; i < t->shape.rank; i++) {
        to->perm[i] = perm != NULL ? perm[i] : i;
    }
}

bool ckm_i_onnx_put_has(const ckm_i_onnx_put *put, const char *name)
{
    for (int32_t i = 0; i < put->n_tensors; i++) {
        if (strcmp(put->tensors[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static const char *put_constant(ckm_i_onnx_put *put, const char *name, ckm_dtype dtype, const void *values,
                                ckm_shape shape)
{
    size_t bytes = (size_t)(ckm_i_elements(&shape) * ckm_i_dtype_bytes(dtype));
    ckm_export_tensor t = {name, dtype, shape, keep(put, values, bytes)};
    ckm_i_onnx_put_tensor(put, name, &t, NULL);
    return name;
}

const char *ckm_i_onnx_put_floats(ckm_i_onnx_put *put, const char *name, const float *values, ckm_shape shape)
{
    return put_constant(put, name, CKM_F32, values, shape);
}

const char *ckm_i_onnx_put_longs(ckm_i_onnx_put *put, const char *name, const int64_t *values, ckm_shape shape)
{
    return put_constant(put, name, CKM_I64, values, shape);
}

// ---- the model's inputs, outputs, texts

static int64_t type_number(ckm_dtype dtype)
{
    return dtype == CKM_F32 ? CKM_I_ONNX_FLOAT : dtype == CKM_I32 ? CKM_I_ONNX_INT32 : CKM_I_ONNX_INT64;
}

void ckm_i_onnx_put_value(ckm_i_onnx_put *put, bool input, const char *name, ckm_dtype dtype, ckm_shape shape)
{
    ckm_i_bytes dims = {0};
    ckm_i_bytes dim = {0};
    ckm_i_bytes tensor = {0};
    ckm_i_bytes type = {0};
    ckm_i_bytes value = {0};
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0) {
            ckm_i_bytes_text(&dim, 2, "batch");
        } else {
            ckm_i_bytes_int(&dim, 1, shape.dims[i]);
        }
        ckm_i_bytes_message(&dims, 1, &dim);
    }
    ckm_i_bytes_int(&tensor, 1, type_number(dtype));
    ckm_i_bytes_message(&tensor, 2, &dims);
    ckm_i_bytes_message(&type, 1, &tensor);
    ckm_i_bytes_text(&value, 1, name);
    ckm_i_bytes_message(&value, 2, &type);
    ckm_i_bytes_message(&put->graph, input ? GRAPH_INPUT : GRAPH_OUTPUT, &value);
    ckm_i_bytes_free(&dims);
    ckm_i_bytes_free(&dim);
    ckm_i_bytes_free(&tensor);
    ckm_i_bytes_free(&type);
    ckm_i_bytes_free(&value);
}

void ckm_i_onnx_put_note(ckm_i_onnx_put *put, const char *key, const char *value)
{
    ckm_i_bytes entry = {0};
    ckm_i_bytes_text(&entry, 1, key);
    ckm_i_bytes_text(&entry, 2, value);
    ckm_i_bytes_message(&put->notes, MODEL_NOTE, &entry);
    ckm_i_bytes_free(&entry);
}

// ---- the file

static int64_t data_bytes(const initializer *t)
{
    return ckm_i_elements(&t->from.shape) * ckm_i_dtype_bytes(t->from.dtype);
}

// A tensor message but for the values, which come last.
static void put_head(const initializer *t, ckm_i_bytes *to)
{
    for (int32_t i = 0; i < t->from.shape.rank; i++) {
        ckm_i_bytes_int(to, TENSOR_DIMS, t->from.shape.dims[t->perm[i]]);
    }
    ckm_i_bytes_int(to, TENSOR_TYPE, type_number(t->from.dtype));
    ckm_i_bytes_text(to, TENSOR_NAME, t->name);
    ckm_i_bytes_head(to, TENSOR_DATA, data_bytes(t));
}

static bool is_permuted(const initializer *t)
{
    for (int32_t i = 0; i < t->from.shape.rank; i++) {
        if (t->perm[i] != i) {
            return true;
        }
    }
    return false;
}

// The elements in the order of the permuted axes.
static void write_permuted(const initializer *t, FILE *to)
{
    const ckm_shape *shape = &t->from.shape;
    size_t size = (size_t)ckm_i_dtype_bytes(t->from.dtype);
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t step[CKM_MAX_RANK] = {0};
    int64_t dims[CKM_MAX_RANK] = {0};
    int64_t at[CKM_MAX_RANK] = {0};
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        step[i] = strides[t->perm[i]];
        dims[i] = shape->dims[t->perm[i]];
    }
    const char *from = t->from.data;
    char piece[4096];
    size_t used = 0;
    int64_t offset = 0;
    for (int64_t k = 0; k < stride; k++) {
        memcpy(piece + used, from + (size_t)offset * size, size);
        used += size;
        if (used + size > sizeof piece || k + 1 == stride) {
            fwrite(piece, 1, used, to);  // checked at the commit
            used = 0;
        }
        for (int32_t i = shape->rank - 1; i >= 0; i--) {
            offset += step[i];
            if (++at[i] < dims[i]) {
                break;
            }
            offset -= at[i] * step[i];
            at[i] = 0;
        }
    }
}

static void write_bytes(const ckm_i_bytes *b, FILE *to)
{
    if (b->n > 0) {
        fwrite(b->data, 1, b->n, to);
    }
}

// The graph's bytes, tensors included. They fit 63 bits: what has them is in memory.
static int64_t graph_bytes(const ckm_i_onnx_put *put, ckm_i_bytes *scratch)
{
    int64_t bytes = (int64_t)put->graph.n;
    for (int32_t i = 0; i < put->n_tensors; i++) {
        scratch->n = 0;
        put_head(&put->tensors[i], scratch);
        int64_t message = (int64_t)scratch->n + data_bytes(&put->tensors[i]);
        scratch->n = 0;
        ckm_i_bytes_head(scratch, GRAPH_INITIALIZER, message);
        bytes += (int64_t)scratch->n + message;
    }
    scratch->n = 0;
    return bytes;
}

static void write_tensors(const ckm_i_onnx_put *put, ckm_i_bytes *scratch, FILE *to)
{
    ckm_i_bytes head = {0};
    for (int32_t i = 0; i < put->n_tensors; i++) {
        const initializer *t = &put->tensors[i];
        scratch->n = 0;
        put_head(t, scratch);
        head.n = 0;
        ckm_i_bytes_head(&head, GRAPH_INITIALIZER, (int64_t)scratch->n + data_bytes(t));
        write_bytes(&head, to);
        write_bytes(scratch, to);
        if (is_permuted(t)) {
            write_permuted(t, to);
        } else {
            fwrite(t->from.data, 1, (size_t)data_bytes(t), to);
        }
        scratch->failed = scratch->failed || head.failed;
    }
    ckm_i_bytes_free(&head);
}

static void put_model_head(int64_t bytes, ckm_i_bytes *to)
{
    ckm_i_bytes opset = {0};
    ckm_i_bytes_int(to, MODEL_IR, IR_VERSION);
    ckm_i_bytes_text(to, MODEL_PRODUCER, "checkmate");
    ckm_i_bytes_text(to, MODEL_VERSION, ckm_version());
    ckm_i_bytes_text(&opset, 1, "");
    ckm_i_bytes_int(&opset, 2, OPSET);
    ckm_i_bytes_message(to, MODEL_OPSET, &opset);
    ckm_i_bytes_head(to, MODEL_GRAPH, bytes);
    ckm_i_bytes_free(&opset);
}

ckm_status ckm_i_onnx_put_write(ckm_i_onnx_put *put, const char *graph, const char *path, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_writer writer = {0};
    ckm_i_bytes scratch = {0};
    ckm_i_bytes_text(&put->graph, GRAPH_NAME, graph);
    int64_t bytes = graph_bytes(put, &scratch);
    put_model_head(bytes, &scratch);
    if (put->status != CKM_OK || put->node.failed || put->attribute.failed || put->graph.failed || put->notes.failed ||
        scratch.failed) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    if (bytes + (int64_t)scratch.n + (int64_t)put->notes.n > CKM_I_ONNX_MOST_BYTES) {
        status = ckm_i_error_at(
            err, CKM_ERR_UNSUPPORTED, path, 0, -1,
            "with its weights the model is larger than the 2 GiB that an ONNX file may have; export "
            "to safetensors instead");
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_writer_open(&writer, path, err));
    write_bytes(&scratch, writer.stream);
    write_bytes(&put->graph, writer.stream);
    write_tensors(put, &scratch, writer.stream);
    write_bytes(&put->notes, writer.stream);
    if (scratch.failed) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_writer_commit(&writer, err));
cleanup:
    ckm_i_writer_abort(&writer);
    ckm_i_bytes_free(&scratch);
    return status;
}
