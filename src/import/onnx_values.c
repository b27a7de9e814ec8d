// SPDX-License-Identifier: Apache-2.0
// Values of the tensors of an ONNX file, read one by one. The file is converted a second time, without keeping the
// network: that gives the constants that were computed from others, and what every tensor is.
#include <checkmate/import.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "import/onnx_convert.h"
#include "import/onnx_external.h"
#include "import/onnx_wire.h"

// A value that has become a tensor of the network.
typedef struct named_value {
    const char *name;
    int32_t value;
} named_value;

struct ckm_import_values {
    char *path;
    ckm_i_onnx_source source;
    bool open;
    ckm_i_onnx_convert convert;
    named_value *named;  // sorted by name, then by value
    int32_t n_named;
    ckm_i_wire_tensors tensors;
};

void ckm_import_values_close(ckm_import_values *v)
{
    if (v == NULL) {
        return;
    }
    ckm_graph_free(v->convert.graph);
    ckm_graph_free(v->convert.scratch);
    ckm_i_onnx_model_free(v->convert.model);
    ckm_i_wire_tensors_dispose(&v->tensors);
    free(v->named);
    if (v->open) {
        ckm_i_onnx_source_close(&v->source);
    }
    free(v->path);
    free(v);
}

static int compare_named(const void *a, const void *b)
{
    const named_value *x = a;
    const named_value *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->value > y->value) - (x->value < y->value);
}

static ckm_status index_values(ckm_import_values *v, ckm_error *err)
{
    const ckm_i_onnx_model *model = v->convert.model;
    v->named = ckm_i_calloc((size_t)model->n_values, sizeof *v->named);
    if (v->named == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < model->n_values; i++) {
        if (model->values[i].tensor >= 0 && model->values[i].typed) {
            v->named[v->n_named++] = (named_value){model->values[i].name, i};
        }
    }
    if (v->n_named > 0) {
        qsort(v->named, (size_t)v->n_named, sizeof *v->named, compare_named);
    }
    return CKM_OK;
}

ckm_status ckm_import_values_open(const char *path, const ckm_import_options *options, ckm_import_values **out,
                                  ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    ckm_import_options o = CKM_IMPORT_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_import_options, &o, input_dims, options, err));
    ckm_import_values *v = ckm_i_calloc(1, sizeof *v);
    if (v == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    v->path = ckm_i_strdup(path);
    if (v->path == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_onnx_source_open(&v->source, path, err));
    v->open = true;
    v->convert.options = &o;
    CKM_I_TRY(ckm_i_onnx_model_read(&v->source, &v->convert.model, err));
    CKM_I_TRY(ckm_i_onnx_convert_model(&v->convert, err));
    v->convert.options = NULL;
    CKM_I_TRY(index_values(v, err));
    CKM_I_TRY(ckm_i_wire_list(&v->source, &v->tensors, err));
    *out = v;
    v = NULL;
cleanup:
    ckm_import_values_close(v);
    return ckm_i_error_in_file(err, status, path);
}

// One tensor's data, however they are stored.
typedef struct reading {
    ckm_import_values *v;
    const char *name;
    ckm_dtype dtype;
    int64_t elements, bytes;  // wanted
    uint8_t *out;
    int64_t done;  // elements so far
    bool external;
    ckm_i_onnx_external where;
} reading;

static ckm_status too_many(const reading *r, ckm_error *err)
{
    return ckm_i_error(err, CKM_ERR_FORMAT, "tensor \"%.200s\" holds more values than its %lld elements", r->name,
                       (long long)r->elements);
}

// One element that is stored as a separate number.
static ckm_status put(reading *r, uint64_t value, ckm_error *err)
{
    int64_t size = ckm_i_dtype_bytes(r->dtype);
    if (r->done == r->elements) {
        return too_many(r, err);
    }
    for (int64_t i = 0; i < size; i++) {
        r->out[r->done * size + i] = (uint8_t)(value >> (8 * i));
    }
    r->done++;
    return CKM_OK;
}

// Bytes that are the elements, without conversion.
static ckm_status copy(reading *r, const ckm_i_wire_field *field, ckm_error *err)
{
    int64_t size = ckm_i_dtype_bytes(r->dtype);
    if (field->bytes % size != 0 || field->bytes / size > r->elements - r->done) {
        return too_many(r, err);
    }
    ckm_status status = field->bytes > 0 ? ckm_i_onnx_source_read(&r->v->source, field->at, field->bytes,
                                                                  r->out + r->done * size, err)
                                         : CKM_OK;
    r->done += field->bytes / size;
    return status;
}

// Numbers in the list made for their type: packed or one by one.
static ckm_status read_list(reading *r, const ckm_i_wire_field *field, ckm_error *err)
{
    ckm_i_wire_field one = *field;
    if (field->number == 4 || field->number == 10) {  // reals: bytes in either form
        return copy(r, field, err);
    }
    if (field->type == CKM_I_WIRE_VARINT) {
        return put(r, one.value, err);
    }
    int64_t at = field->at;
    while (at < field->at + field->bytes) {
        uint64_t value;
        CKM_I_CHECK(ckm_i_wire_varint(&r->v->source, &at, field->at + field->bytes, NULL, &value, err));
        CKM_I_CHECK(put(r, value, err));
    }
    return CKM_OK;
}

// The list that the format uses for a type.
static uint32_t list_of(ckm_dtype dtype)
{
    return dtype == CKM_F32 ? 4 : dtype == CKM_F64 ? 10 : dtype == CKM_I64 ? 7 : 5;
}

static ckm_status read_external(reading *r, ckm_error *err)
{
    ckm_i_onnx_source source;
    CKM_I_CHECK(ckm_i_onnx_external_open(&r->where, r->v->path, r->name, r->bytes, &source, err));
    ckm_status status = ckm_i_onnx_source_read(&source, r->where.offset, r->bytes, r->out, err);
    ckm_i_onnx_source_close(&source);
    r->done = r->elements;
    return ckm_i_error_in_file(err, status, r->where.path);
}

static ckm_status read_tensor(reading *r, const ckm_i_wire_tensor *place, bool *found, ckm_error *err)
{
    int64_t at = place->at;
    int64_t end = place->at + place->bytes;
    while (at < end) {
        ckm_i_wire_field field;
        ckm_dtype dtype;
        CKM_I_CHECK(ckm_i_wire_next(&r->v->source, &at, end, NULL, &field, err));
        if (field.number == 2 && (!ckm_i_onnx_dtype((int64_t)field.value, &dtype) || dtype != r->dtype)) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "tensor \"%.200s\" is stored with another element type", r->name);
        }
        if (field.number == 9 && field.type == CKM_I_WIRE_BYTES) {
            CKM_I_CHECK(copy(r, &field, err));
        } else if (field.number == list_of(r->dtype)) {
            CKM_I_CHECK(read_list(r, &field, err));
        } else if (field.number == 13 && field.type == CKM_I_WIRE_BYTES) {
            CKM_I_CHECK(ckm_i_onnx_external_pair(&r->v->source, &field, r->name, &r->where, err));
        } else if (field.number == 14) {
            r->external = field.value == 1;
        }
    }
    if (r->external) {
        CKM_I_CHECK(read_external(r, err));
    }
    // No values: they were left out when the file was written.
    *found = r->done > 0 || r->elements == 0;
    if (*found && r->done != r->elements) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "tensor \"%.200s\" holds %lld values where its shape asks for %lld",
                           r->name, (long long)r->done, (long long)r->elements);
    }
    return CKM_OK;
}

// Constants that conversion knows: small ones and those computed from them.
static void store_known(const reading *r, const ckm_i_onnx_scalar *data)
{
    int64_t size = ckm_i_dtype_bytes(r->dtype);
    for (int64_t i = 0; i < r->elements; i++) {
        if (r->dtype == CKM_F32) {
            ((float *)(void *)r->out)[i] = (float)data[i].r;
        } else if (r->dtype == CKM_F64) {
            ((double *)(void *)r->out)[i] = data[i].r;
        } else {
            for (int64_t b = 0; b < size; b++) {
                r->out[i * size + b] = (uint8_t)((uint64_t)data[i].i >> (8 * b));
            }
        }
    }
}

// All elements of a ConstantOfShape that conversion did not hold are that of its attribute; 0 without one.
static ckm_status store_uniform(const reading *r, const ckm_i_onnx_node *node, bool *known, ckm_error *err)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, "value");
    ckm_i_onnx_scalar *fill = NULL;
    reading one = *r;
    one.elements = 1;
    memset(r->out, 0, (size_t)r->bytes);
    if (attr != NULL && attr->t != NULL) {
        CKM_I_CHECK(ckm_i_onnx_tensor_data(attr->t, r->name, &fill, err));
        *known = fill != NULL;
    }
    int64_t size = ckm_i_dtype_bytes(r->dtype);
    for (int64_t i = 0; fill != NULL && i < r->elements; i++) {
        one.out = r->out + i * size;
        store_known(&one, fill);
    }
    free(fill);
    return CKM_OK;
}

// The last value of that name, or NULL.
static const ckm_i_onnx_value *find_value(const ckm_import_values *v, const char *name)
{
    int32_t low = 0;
    int32_t high = v->n_named;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (strcmp(v->named[middle].name, name) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 && strcmp(v->named[low - 1].name, name) == 0 ? &v->convert.model->values[v->named[low - 1].value]
                                                                : NULL;
}

ckm_status ckm_import_values_read(ckm_import_values *v, const char *name, ckm_dtype dtype, const ckm_shape *shape,
                                  void *out, bool *found, ckm_error *err)
{
    CKM_I_NEED_NAMED(v, "values", err);
    CKM_I_NEED(name, err);
    CKM_I_NEED(shape, err);
    CKM_I_NEED(out, err);
    CKM_I_NEED(found, err);
    reading r = {.v = v, .name = name, .dtype = dtype, .out = out, .where = CKM_I_ONNX_EXTERNAL_INIT};
    const ckm_i_onnx_value *value = find_value(v, name);
    const ckm_i_wire_tensor *place = ckm_i_wire_find(&v->tensors, name);
    bool same = value != NULL && value->dtype == dtype && value->shape.rank == shape->rank;
    bool known = false;
    if (value == NULL) {
        *found = false;
        return CKM_OK;
    }
    for (int32_t d = 0; same && d < shape->rank; d++) {
        same = value->shape.dims[d] == shape->dims[d];
    }
    if (!same) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, v->path, 0, -1,
                              "tensor \"%.200s\" has another type or shape in the file", name);
    }
    CKM_I_CHECK(ckm_i_error_in_file(err, ckm_i_shape_elements(shape, &r.elements, err), v->path));
    r.bytes = r.elements * ckm_i_dtype_bytes(dtype);
    bool reals_fit = dtype == CKM_F32 || dtype == CKM_F64 || !ckm_i_onnx_dtype_is_real(dtype);
    if (value->data != NULL && reals_fit) {
        store_known(&r, value->data);
        known = true;
    } else if (reals_fit && value->node >= 0 &&
               strcmp(v->convert.model->nodes[value->node].op_type, "ConstantOfShape") == 0) {
        known = true;
        CKM_I_CHECK(
            ckm_i_error_in_file(err, store_uniform(&r, &v->convert.model->nodes[value->node], &known, err), v->path));
    } else if (place != NULL) {
        CKM_I_CHECK(ckm_i_error_in_file(err, read_tensor(&r, place, &known, err), v->path));
    }
    *found = known;
    return CKM_OK;
}
