// SPDX-License-Identifier: Apache-2.0
// A copy of an ONNX file with other weights: all fields are copied unchanged except the initializers (and Constant
// nodes) that are replaced; the new ones come last in the graph. So do those whose values are in other files: the copy
// holds them itself and needs no other file. On request, nodes in training mode are changed to evaluation mode.
#include <checkmate/import.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "graph/graph.h"
#include "import/import.h"
#include "import/onnx_bytes.h"
#include "import/onnx_external.h"
#include "import/onnx_model.h"
#include "import/onnx_modes.h"

// Protobuf's limit on a message.
static const int64_t max_bytes = (INT64_C(1) << 31) - 1;

// A field of the graph that is not copied unchanged.
typedef struct cut {
    int64_t at, end;
    const ckm_i_onnx_mode_node *node;  // what is written instead, in evaluation mode; NULL: nothing
} cut;

typedef struct exporter {
    ckm_i_onnx_source source;
    ckm_i_wire_tensors old;
    const ckm_export_tensor *tensors;
    int32_t n;
    const char *model;
    const ckm_i_export_note *notes;
    int32_t n_notes;
    ckm_i_onnx_modes modes;
    cut *cuts;  // sorted by place
    int32_t n_cuts;
    const ckm_i_wire_tensor **embedded;  // those of the dropped ones that come back with values from other files
    int32_t n_embedded;
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

// A field of that many bytes, key and length included; for field numbers below 16.
static int64_t whole_field(int64_t bytes)
{
    return 1 + varint_bytes((uint64_t)bytes) + bytes;
}

static void put_key(FILE *to, int number, int64_t bytes)
{
    putc(number << 3 | CKM_I_WIRE_BYTES, to);
    put_varint(to, (uint64_t)bytes);
}

// Bytes of the tensor message: dims (1), data_type (2), name (8), raw_data (9).
static int64_t message_bytes(const ckm_export_tensor *t)
{
    int64_t bytes = 2 + whole_field((int64_t)strlen(t->name)) + whole_field(data_bytes(t));
    for (int32_t i = 0; i < t->shape.rank; i++) {
        bytes += 1 + varint_bytes((uint64_t)t->shape.dims[i]);
    }
    return bytes;
}

static void put_tensor(FILE *to, const ckm_export_tensor *t)
{
    size_t name = strlen(t->name);
    put_key(to, 5, message_bytes(t));
    for (int32_t i = 0; i < t->shape.rank; i++) {
        putc(1 << 3 | CKM_I_WIRE_VARINT, to);
        put_varint(to, (uint64_t)t->shape.dims[i]);
    }
    putc(2 << 3 | CKM_I_WIRE_VARINT, to);
    putc(t->dtype == CKM_F32 ? 1 : t->dtype == CKM_I32 ? 6 : 7, to);
    put_key(to, 8, (int64_t)name);
    fwrite(t->name, 1, name, to);
    put_key(to, 9, data_bytes(t));
    fwrite(t->data, 1, (size_t)data_bytes(t), to);
}

// Copies bytes [at, end) of a file.
static ckm_status copy_from(exporter *e, ckm_i_onnx_source *source, int64_t at, int64_t end, ckm_error *err)
{
    uint8_t chunk[16384];
    while (at < end) {
        int64_t n = end - at < (int64_t)sizeof chunk ? end - at : (int64_t)sizeof chunk;
        CKM_I_CHECK(ckm_i_onnx_source_read(source, at, n, chunk, err));
        fwrite(chunk, 1, (size_t)n, e->writer.stream);
        at += n;
    }
    return CKM_OK;
}

static ckm_status copy(exporter *e, int64_t at, int64_t end, ckm_error *err)
{
    return copy_from(e, &e->source, at, end, err);
}

// ---- tensors with values in other files

// What a tensor message says about them.
typedef struct outside {
    bool external;
    int64_t kept;   // bytes of the fields that stay
    int64_t bytes;  // of the values
    ckm_i_onnx_external where;
} outside;

// All fields but the name, which is written anew (a Constant node's tensor has its own), and what says where values are.
static bool field_stays(uint32_t number)
{
    return number != 8 && number != 9 && number != 13 && number != 14;
}

// Multiplies by one dimension, or by those of a packed list.
static ckm_status take_dims(exporter *e, const ckm_i_wire_field *field, int64_t *elements, ckm_error *err)
{
    int64_t at = field->at;
    while (at < field->at + field->bytes) {
        uint64_t value;
        CKM_I_CHECK(ckm_i_wire_varint(&e->source, &at, field->at + field->bytes, NULL, &value, err));
        if (value > INT64_MAX || !ckm_i_mul(*elements, (int64_t)value, elements)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "a tensor's size does not fit 63 bits");
        }
    }
    return CKM_OK;
}

static ckm_status look_outside(exporter *e, const ckm_i_wire_tensor *place, outside *out, ckm_error *err)
{
    ckm_dtype dtype = CKM_F32;
    bool known = false;
    int64_t elements = 1;
    int64_t at = place->at;
    int64_t end = place->at + place->bytes;
    *out = (outside){.where = CKM_I_ONNX_EXTERNAL_INIT};
    while (at < end) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(&e->source, &at, end, NULL, &field, err));
        out->kept += field_stays(field.number) ? at - field.start : 0;
        if (field.number == 1) {
            CKM_I_CHECK(take_dims(e, &field, &elements, err));
        } else if (field.number == 2) {
            known = ckm_i_onnx_dtype((int64_t)field.value, &dtype);
        } else if (field.number == 13 && field.type == CKM_I_WIRE_BYTES) {
            CKM_I_CHECK(ckm_i_onnx_external_pair(&e->source, &field, place->name, &out->where, err));
        } else if (field.number == 14) {
            out->external = field.value == 1;
        }
    }
    if (out->external && !known) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "tensor \"%.200s\" has an element type that is not exported",
                           place->name);
    }
    if (out->external && !ckm_i_mul(elements, ckm_i_dtype_bytes(dtype), &out->bytes)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "tensor \"%.200s\": its size does not fit 63 bits", place->name);
    }
    return CKM_OK;
}

static int64_t embedded_bytes(const ckm_i_wire_tensor *place, const outside *o)
{
    return o->kept + whole_field((int64_t)strlen(place->name)) + whole_field(o->bytes);
}

// The tensor with its values in raw form, as an initializer.
static ckm_status put_embedded(exporter *e, const ckm_i_wire_tensor *place, ckm_error *err)
{
    FILE *to = e->writer.stream;
    outside o;
    ckm_i_onnx_source values;
    CKM_I_CHECK(look_outside(e, place, &o, err));
    CKM_I_CHECK(ckm_i_onnx_external_open(&o.where, e->model, place->name, o.bytes, &values, err));
    ckm_status status = CKM_OK;
    put_key(to, 5, embedded_bytes(place, &o));
    int64_t at = place->at;
    while (at < place->at + place->bytes) {
        ckm_i_wire_field field;
        CKM_I_TRY(ckm_i_wire_next(&e->source, &at, place->at + place->bytes, NULL, &field, err));
        if (field_stays(field.number)) {
            CKM_I_TRY(copy(e, field.start, at, err));
        }
    }
    put_key(to, 8, (int64_t)strlen(place->name));
    fputs(place->name, to);
    put_key(to, 9, o.bytes);
    CKM_I_TRY(
        ckm_i_error_in_file(err, copy_from(e, &values, o.where.offset, o.where.offset + o.bytes, err), o.where.path));
cleanup:
    ckm_i_onnx_source_close(&values);
    return status;
}

// ---- the copy

static int by_place(const void *a, const void *b)
{
    const cut *x = a;
    const cut *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static ckm_status check_size(int64_t bytes, ckm_error *err)
{
    if (bytes <= max_bytes) {
        return CKM_OK;
    }
    return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                       "with its weights the model is larger than the 2 GiB that an ONNX file may have; export "
                       "to safetensors instead");
}

static void drop(exporter *e, const ckm_i_wire_tensor *old, int64_t *bytes)
{
    e->cuts[e->n_cuts++] = (cut){old->field_at, old->field_end, NULL};
    *bytes -= old->field_end - old->field_at;
}

// Adds the new tensors to *bytes, takes off the ones they replace.
static ckm_status replace(exporter *e, bool *replaced, int64_t *bytes, ckm_error *err)
{
    for (int32_t i = 0; i < e->n; i++) {
        const ckm_export_tensor *t = &e->tensors[i];
        const ckm_i_wire_tensor *old = ckm_i_wire_find(&e->old, t->name);
        if (t->dtype != CKM_F32 && t->dtype != CKM_I32 && t->dtype != CKM_I64) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "tensor \"%.200s\" has an element type that is not exported",
                               t->name);
        }
        if (old != NULL) {
            drop(e, old, bytes);
            replaced[old - e->old.items] = true;
        }
        *bytes += whole_field(message_bytes(t));
        CKM_I_CHECK(check_size(*bytes, err));
    }
    return CKM_OK;
}

// The same for tensors that stay, with values in other files.
static ckm_status embed(exporter *e, const bool *replaced, int64_t *bytes, ckm_error *err)
{
    for (int32_t i = 0; i < e->old.n; i++) {
        const ckm_i_wire_tensor *old = &e->old.items[i];
        outside o = {.external = false};
        if (!replaced[i]) {
            CKM_I_CHECK(look_outside(e, old, &o, err));
        }
        if (o.external) {
            CKM_I_CHECK(check_size(o.bytes, err));
            drop(e, old, bytes);
            e->embedded[e->n_embedded++] = old;
            *bytes += whole_field(embedded_bytes(old, &o));
            CKM_I_CHECK(check_size(*bytes, err));
        }
    }
    return CKM_OK;
}

static void turn_to_evaluation(exporter *e, int64_t *bytes)
{
    for (int32_t i = 0; i < e->modes.n; i++) {
        const ckm_i_onnx_mode_node *node = &e->modes.items[i];
        e->cuts[e->n_cuts++] = (cut){node->field_at, node->field_end, node};
        *bytes += whole_field(node->kept) - (node->field_end - node->field_at);
    }
}

static ckm_status prepare(exporter *e, int64_t *graph_bytes, ckm_error *err)
{
    int64_t bytes = e->old.graph_bytes;
    bool *replaced = ckm_i_calloc((size_t)e->old.n + 1, sizeof *replaced);
    e->cuts = ckm_i_calloc((size_t)e->n + (size_t)e->old.n + (size_t)e->modes.n + 1, sizeof(*e->cuts));
    e->embedded = ckm_i_calloc((size_t)e->old.n + 1, sizeof(*e->embedded));
    ckm_status status = CKM_OK;
    if (replaced == NULL || e->cuts == NULL || e->embedded == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(replace(e, replaced, &bytes, err));
    CKM_I_TRY(embed(e, replaced, &bytes, err));
    turn_to_evaluation(e, &bytes);
    if (e->n_cuts > 0) {
        qsort(e->cuts, (size_t)e->n_cuts, sizeof(*e->cuts), by_place);
    }
    *graph_bytes = bytes;
cleanup:
    free(replaced);
    return status;
}

static ckm_status put_evaluating(exporter *e, const ckm_i_onnx_mode_node *node, ckm_error *err)
{
    ckm_i_onnx_mode_walk walk = {0};
    put_key(e->writer.stream, 1, node->kept);
    for (int64_t at = node->at; at < node->end;) {
        ckm_i_wire_field field;
        bool stays;
        CKM_I_CHECK(ckm_i_wire_next(&e->source, &at, node->end, NULL, &field, err));
        CKM_I_CHECK(ckm_i_onnx_mode_keeps(&e->source, node->kind, &field, &walk, &stays, err));
        if (stays) {
            CKM_I_CHECK(copy(e, field.start, at, err));
        }
    }
    return CKM_OK;
}

// Is this field of the model a text that is written anew?
static ckm_status is_replaced_note(exporter *e, const ckm_i_wire_field *field, bool *replaced, ckm_error *err)
{
    *replaced = false;
    for (int64_t at = field->at; field->number == 14 && at < field->at + field->bytes;) {
        ckm_i_wire_field part;
        char key[64];
        CKM_I_CHECK(ckm_i_wire_next(&e->source, &at, field->at + field->bytes, NULL, &part, err));
        if (part.number != 1 || part.type != CKM_I_WIRE_BYTES || part.bytes >= (int64_t)sizeof key) {
            continue;
        }
        CKM_I_CHECK(ckm_i_wire_text(&e->source, &part, key, sizeof key, err));
        for (int32_t i = 0; i < e->n_notes; i++) {
            *replaced = *replaced || strcmp(e->notes[i].key, key) == 0;
        }
    }
    return CKM_OK;
}

// What stands before or behind the graph.
static ckm_status copy_around(exporter *e, int64_t at, int64_t end, ckm_error *err)
{
    while (at < end) {
        ckm_i_wire_field field;
        bool replaced;
        CKM_I_CHECK(ckm_i_wire_next(&e->source, &at, end, NULL, &field, err));
        CKM_I_CHECK(is_replaced_note(e, &field, &replaced, err));
        CKM_I_CHECK(replaced ? CKM_OK : copy(e, field.start, at, err));
    }
    return CKM_OK;
}

static ckm_status write_notes(exporter *e, ckm_error *err)
{
    ckm_i_bytes entry = {0};
    ckm_i_bytes all = {0};
    for (int32_t i = 0; i < e->n_notes; i++) {
        ckm_i_bytes_text(&entry, 1, e->notes[i].key);
        ckm_i_bytes_text(&entry, 2, e->notes[i].value);
        ckm_i_bytes_message(&all, 14, &entry);
    }
    if (all.n > 0) {
        fwrite(all.data, 1, all.n, e->writer.stream);
    }
    bool failed = all.failed;
    ckm_i_bytes_free(&entry);
    ckm_i_bytes_free(&all);
    return failed ? ckm_i_error_memory(err) : CKM_OK;
}

static ckm_status write_model(exporter *e, int64_t graph_bytes, ckm_error *err)
{
    FILE *to = e->writer.stream;
    int64_t graph_end = e->old.graph_at + e->old.graph_bytes;
    int64_t at = e->old.graph_at;
    CKM_I_CHECK(copy_around(e, 0, e->old.graph_start, err));
    put_key(to, 7, graph_bytes);
    for (int32_t i = 0; i < e->n_cuts; i++) {
        CKM_I_CHECK(copy(e, at, e->cuts[i].at, err));
        CKM_I_CHECK(e->cuts[i].node != NULL ? put_evaluating(e, e->cuts[i].node, err) : CKM_OK);
        at = e->cuts[i].end;
    }
    CKM_I_CHECK(copy(e, at, graph_end, err));
    for (int32_t i = 0; i < e->n; i++) {
        put_tensor(to, &e->tensors[i]);
    }
    for (int32_t i = 0; i < e->n_embedded; i++) {
        CKM_I_CHECK(put_embedded(e, e->embedded[i], err));
    }
    CKM_I_CHECK(copy_around(e, graph_end, e->source.size_bytes, err));
    return write_notes(e, err);
}

ckm_status ckm_i_export_onnx(const char *model, const char *path, const ckm_export_tensor *tensors, int32_t n,
                             bool evaluating, const ckm_i_export_note *notes, int32_t n_notes, ckm_error *err)
{
    exporter e = {.tensors = tensors, .n = n, .model = model, .notes = notes, .n_notes = n_notes};
    int64_t graph_bytes = 0;
    CKM_I_CHECK(ckm_i_onnx_source_open(&e.source, model, err));
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_error_in_file(err, ckm_i_wire_list(&e.source, &e.old, err), model));
    if (evaluating) {
        CKM_I_TRY(ckm_i_error_in_file(err, ckm_i_onnx_modes_find(&e.source, &e.old, &e.modes, err), model));
    }
    CKM_I_TRY(prepare(&e, &graph_bytes, err));
    CKM_I_TRY(ckm_i_writer_open(&e.writer, path, err));
    CKM_I_TRY(ckm_i_error_in_file(err, write_model(&e, graph_bytes, err), model));
    CKM_I_TRY(ckm_i_writer_commit(&e.writer, err));
cleanup:
    ckm_i_writer_abort(&e.writer);
    free(e.embedded);
    free(e.cuts);
    ckm_i_onnx_modes_dispose(&e.modes);
    ckm_i_wire_tensors_dispose(&e.old);
    ckm_i_onnx_source_close(&e.source);
    return status;
}

ckm_status ckm_export_onnx(const char *model, const char *path, const ckm_export_tensor *tensors, int32_t n,
                           ckm_error *err)
{
    CKM_I_NEED(model, err);
    CKM_I_NEED(path, err);
    if (n < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%d tensors to export; the number must not be negative", (int)n);
    }
    for (int32_t i = 0; i < n; i++) {
        CKM_I_NEED(tensors, err);
        CKM_I_NEED_NAMED(tensors[i].name, "the name of a tensor", err);
        CKM_I_NEED_NAMED(tensors[i].data, "the data of a tensor", err);
    }
    return ckm_i_export_onnx(model, path, tensors, n, false, NULL, 0, err);
}
