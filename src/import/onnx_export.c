// SPDX-License-Identifier: Apache-2.0
// A copy of an ONNX file with other weights: all fields are copied as they are but for the initializers (and Constant
// nodes) that are replaced; the new ones come last in the graph.
#include <checkmate/import.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "graph/graph.h"
#include "import/onnx_wire.h"

// Protobuf's limit on a message.
static const int64_t max_bytes = (INT64_C(1) << 31) - 1;

typedef struct exporter {
    ckm_i_onnx_source source;
    ckm_i_wire_tensors old;
    const ckm_export_tensor *tensors;
    int32_t n;
    const ckm_i_wire_tensor **dropped;  // sorted by place
    int32_t n_dropped;
    ckm_i_writer writer;
} exporter;

static int64_t varint_bytes(uint64_t value)
{
    int64_t n = 1;
    while (value >= 0x80) {
        value >>= 7;
        n++;
    }
    return n;
}

static void put_varint(FILE *to, uint64_t value)
{
    while (value >= 0x80) {
        putc((int)(value & 0x7F) | 0x80, to);
        value >>= 7;
    }
    putc((int)value, to);
}

static int64_t data_bytes(const ckm_export_tensor *t)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < t->shape.rank; i++) {
        elements *= t->shape.dims[i];
    }
    return elements * ckm_i_dtype_bytes(t->dtype);
}

// Bytes of the tensor message: dims (1), data_type (2), name (8), raw_data (9).
static int64_t message_bytes(const ckm_export_tensor *t)
{
    int64_t name = (int64_t)strlen(t->name);
    int64_t data = data_bytes(t);
    int64_t bytes = 2 + 1 + varint_bytes((uint64_t)name) + name + 1 + varint_bytes((uint64_t)data) + data;
    for (int32_t i = 0; i < t->shape.rank; i++) {
        bytes += 1 + varint_bytes((uint64_t)t->shape.dims[i]);
    }
    return bytes;
}

static int64_t field_bytes(const ckm_export_tensor *t)
{
    int64_t bytes = message_bytes(t);
    return 1 + varint_bytes((uint64_t)bytes) + bytes;
}

static void put_tensor(FILE *to, const ckm_export_tensor *t)
{
    size_t name = strlen(t->name);
    putc(5 << 3 | CKM_I_WIRE_BYTES, to);
    put_varint(to, (uint64_t)message_bytes(t));
    for (int32_t i = 0; i < t->shape.rank; i++) {
        putc(1 << 3 | CKM_I_WIRE_VARINT, to);
        put_varint(to, (uint64_t)t->shape.dims[i]);
    }
    putc(2 << 3 | CKM_I_WIRE_VARINT, to);
    putc(t->dtype == CKM_F32 ? 1 : t->dtype == CKM_I32 ? 6 : 7, to);
    putc(8 << 3 | CKM_I_WIRE_BYTES, to);
    put_varint(to, name);
    fwrite(t->name, 1, name, to);
    putc(9 << 3 | CKM_I_WIRE_BYTES, to);
    put_varint(to, (uint64_t)data_bytes(t));
    fwrite(t->data, 1, (size_t)data_bytes(t), to);
}

// Copies bytes [at, end) of the old file.
static ckm_status copy(exporter *e, int64_t at, int64_t end, ckm_error *err)
{
    uint8_t chunk[16384];
    while (at < end) {
        int64_t n = end - at < (int64_t)sizeof chunk ? end - at : (int64_t)sizeof chunk;
        ckm_status status = ckm_i_onnx_source_read(&e->source, at, n, chunk, err);
        if (status != CKM_OK) {
            return status;
        }
        fwrite(chunk, 1, (size_t)n, e->writer.stream);
        at += n;
    }
    return CKM_OK;
}

static int by_place(const void *a, const void *b)
{
    const ckm_i_wire_tensor *x = *(const ckm_i_wire_tensor *const *)a;
    const ckm_i_wire_tensor *y = *(const ckm_i_wire_tensor *const *)b;
    return x->field_at < y->field_at ? -1 : x->field_at > y->field_at;
}

static ckm_status prepare(exporter *e, int64_t *graph_bytes, ckm_error *err)
{
    int64_t bytes = e->old.graph_bytes;
    e->dropped = ckm_i_calloc((size_t)e->n, sizeof(*e->dropped));
    if (e->dropped == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < e->n; i++) {
        const ckm_export_tensor *t = &e->tensors[i];
        const ckm_i_wire_tensor *old = ckm_i_wire_find(&e->old, t->name);
        if (t->dtype != CKM_F32 && t->dtype != CKM_I32 && t->dtype != CKM_I64) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "tensor \"%.200s\" has an element type that is not exported",
                               t->name);
        }
        if (old != NULL) {
            e->dropped[e->n_dropped++] = old;
            bytes -= old->field_end - old->field_at;
        }
        bytes += field_bytes(t);
        if (bytes > max_bytes) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                               "with its weights the model is larger than the 2 GiB that an ONNX file may have; export "
                               "to safetensors instead");
        }
    }
    if (e->n_dropped > 0) {
        qsort(e->dropped, (size_t)e->n_dropped, sizeof(*e->dropped), by_place);
    }
    *graph_bytes = bytes;
    return CKM_OK;
}

static ckm_status write_model(exporter *e, int64_t graph_bytes, ckm_error *err)
{
    FILE *to = e->writer.stream;
    int64_t graph_end = e->old.graph_at + e->old.graph_bytes;
    int64_t at = e->old.graph_at;
    ckm_status status = copy(e, 0, e->old.graph_start, err);
    putc(7 << 3 | CKM_I_WIRE_BYTES, to);
    put_varint(to, (uint64_t)graph_bytes);
    for (int32_t i = 0; i < e->n_dropped && status == CKM_OK; i++) {
        status = copy(e, at, e->dropped[i]->field_at, err);
        at = e->dropped[i]->field_end;
    }
    if (status == CKM_OK) {
        status = copy(e, at, graph_end, err);
    }
    for (int32_t i = 0; i < e->n && status == CKM_OK; i++) {
        put_tensor(to, &e->tensors[i]);
    }
    return status == CKM_OK ? copy(e, graph_end, e->source.size_bytes, err) : status;
}

ckm_status ckm_export_onnx(const char *model, const char *path, const ckm_export_tensor *tensors, int32_t n,
                           ckm_error *err)
{
    exporter e = {.tensors = tensors, .n = n};
    int64_t graph_bytes = 0;
    ckm_status status = ckm_i_onnx_source_open(&e.source, model, err);
    if (status != CKM_OK) {
        return status;
    }
    status = ckm_i_error_in_file(err, ckm_i_wire_list(&e.source, &e.old, err), model);
    if (status == CKM_OK) {
        status = prepare(&e, &graph_bytes, err);
    }
    if (status == CKM_OK) {
        status = ckm_i_writer_open(&e.writer, path, err);
        if (status == CKM_OK) {
            status = ckm_i_error_in_file(err, write_model(&e, graph_bytes, err), model);
            if (status == CKM_OK) {
                status = ckm_i_writer_commit(&e.writer, err);
            } else {
                ckm_i_writer_abort(&e.writer);
            }
        }
    }
    free(e.dropped);
    ckm_i_wire_tensors_dispose(&e.old);
    ckm_i_onnx_source_close(&e.source);
    return status;
}
