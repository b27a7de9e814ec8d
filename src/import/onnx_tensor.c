// SPDX-License-Identifier: Apache-2.0
// Tensors as ONNX stores them: element types, shapes, and the values of small ones.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "graph/graph.h"
#include "import/onnx_model.h"

// By the number of the type in the format. Unsigned types are read as the signed ones of their size.
static const struct {
    bool known;
    ckm_dtype dtype;
} types[] = {
    [1] = {true, CKM_F32},   [2] = {true, CKM_U8},   [3] = {true, CKM_I8},   [4] = {true, CKM_I16},
    [5] = {true, CKM_I16},   [6] = {true, CKM_I32},  [7] = {true, CKM_I64},  [9] = {true, CKM_BOOL},
    [10] = {true, CKM_F16},  [11] = {true, CKM_F64}, [12] = {true, CKM_I32}, [13] = {true, CKM_I64},
    [16] = {true, CKM_BF16},
};

bool ckm_i_onnx_dtype(int64_t number, ckm_dtype *dtype)
{
    if (number < 0 || number >= (int64_t)(sizeof types / sizeof types[0]) || !types[number].known) {
        return false;
    }
    *dtype = types[number].dtype;
    return true;
}

bool ckm_i_onnx_dtype_is_real(ckm_dtype dtype)
{
    return dtype == CKM_F32 || dtype == CKM_F16 || dtype == CKM_BF16 || dtype == CKM_F64;
}

ckm_status ckm_i_onnx_tensor_type(const CkmOnnx__TensorProto *tensor, const char *name, ckm_dtype *dtype,
                                  ckm_shape *shape, ckm_error *err)
{
    ckm_dtype type;
    ckm_shape result = {0};
    int64_t elements;
    if (!ckm_i_onnx_dtype(tensor->data_type, &type)) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "tensor \"%.200s\" has an element type (%d) that is not supported",
                           name, (int)tensor->data_type);
    }
    if (tensor->n_dims > CKM_MAX_RANK) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "tensor \"%.200s\" has %zu dimensions; up to %d are supported",
                           name, tensor->n_dims, CKM_MAX_RANK);
    }
    for (size_t i = 0; i < tensor->n_dims; i++) {
        if (tensor->dims[i] < 0) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "tensor \"%.200s\": dimension %zu is negative (%lld)", name, i,
                               (long long)tensor->dims[i]);
        }
        result.dims[result.rank++] = tensor->dims[i];
    }
    if (ckm_i_shape_elements(&result, &elements, NULL) != CKM_OK ||
        !ckm_i_mul(elements, ckm_i_dtype_bytes(type), &elements)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "tensor \"%.200s\": its size does not fit 63 bits", name);
    }
    *dtype = type;
    *shape = result;
    return CKM_OK;
}

static double half_value(uint32_t bits)
{
    int exponent = (int)(bits >> 10 & 0x1F);
    double fraction = (double)(bits & 0x3FF);
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction == 0.0 ? (double)INFINITY : (double)NAN)
                                    : ldexp(fraction + 1024.0, exponent - 25);
    return (bits & 0x8000) != 0 ? -value : value;
}

static double bfloat_value(uint32_t bits)
{
    uint32_t wide = bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

// One little-endian element of raw data.
static ckm_i_onnx_scalar raw_element(ckm_dtype dtype, const uint8_t *at)
{
    uint64_t bits = 0;
    int64_t bytes = ckm_i_dtype_bytes(dtype);
    for (int64_t i = 0; i < bytes; i++) {
        bits |= (uint64_t)at[i] << (8 * i);
    }
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    switch (dtype) {
    case CKM_F32:
        memcpy(&f, &low, sizeof f);
        return (ckm_i_onnx_scalar){.r = (double)f};
    case CKM_F64:
        memcpy(&d, &bits, sizeof d);
        return (ckm_i_onnx_scalar){.r = d};
    case CKM_F16:
        return (ckm_i_onnx_scalar){.r = half_value(low)};
    case CKM_BF16:
        return (ckm_i_onnx_scalar){.r = bfloat_value(low)};
    case CKM_I8:
        return (ckm_i_onnx_scalar){.i = (int8_t)low};
    case CKM_I16:
        return (ckm_i_onnx_scalar){.i = (int16_t)low};
    case CKM_I32:
        return (ckm_i_onnx_scalar){.i = (int32_t)low};
    case CKM_BOOL:
        return (ckm_i_onnx_scalar){.i = low != 0};
    case CKM_U8:
    case CKM_I64:
    default:
        return (ckm_i_onnx_scalar){.i = (int64_t)bits};
    }
}

// One element of the typed lists; which list it is depends on the type.
static ckm_i_onnx_scalar listed_element(const CkmOnnx__TensorProto *t, ckm_dtype dtype, size_t i)
{
    if (dtype == CKM_F16) {
        return (ckm_i_onnx_scalar){.r = half_value((uint32_t)t->int32_data[i])};
    }
    if (dtype == CKM_BF16) {
        return (ckm_i_onnx_scalar){.r = bfloat_value((uint32_t)t->int32_data[i])};
    }
    if (dtype == CKM_F32) {
        return (ckm_i_onnx_scalar){.r = (double)t->float_data[i]};
    }
    if (dtype == CKM_F64) {
        return (ckm_i_onnx_scalar){.r = t->double_data[i]};
    }
    if (t->n_uint64_data > i) {
        return (ckm_i_onnx_scalar){.i = (int64_t)t->uint64_data[i]};
    }
    return (ckm_i_onnx_scalar){.i = dtype == CKM_I64 ? t->int64_data[i] : t->int32_data[i]};
}

static size_t listed_count(const CkmOnnx__TensorProto *t, ckm_dtype dtype)
{
    switch (dtype) {
    case CKM_F32:
        return t->n_float_data;
    case CKM_F64:
        return t->n_double_data;
    case CKM_I64:
        return t->n_int64_data > 0 ? t->n_int64_data : t->n_uint64_data;
    case CKM_I32:
        return t->n_int32_data > 0 ? t->n_int32_data : t->n_uint64_data;
    default:
        return t->n_int32_data;
    }
}

ckm_status ckm_i_onnx_tensor_data(const CkmOnnx__TensorProto *tensor, const char *name, ckm_i_onnx_scalar **data,
                                  ckm_error *err)
{
    ckm_dtype dtype;
    ckm_shape shape;
    int64_t elements;
    CKM_I_CHECK(ckm_i_onnx_tensor_type(tensor, name, &dtype, &shape, err));
    CKM_I_CHECK(ckm_i_shape_elements(&shape, &elements, err));
    *data = NULL;
    if (tensor->data_location == 1 || tensor->skimmed_bytes > 0) {
        return CKM_OK;
    }
    bool raw = tensor->raw_data.len > 0;
    size_t listed = listed_count(tensor, dtype);
    if (!raw && listed == 0 && elements > 0) {
        return CKM_OK;  // exported without values
    }
    int64_t have = raw ? (int64_t)tensor->raw_data.len : (int64_t)listed;
    int64_t want = raw ? elements * ckm_i_dtype_bytes(dtype) : elements;
    if (have != want) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "tensor \"%.200s\" holds %lld %s where its shape asks for %lld", name,
                           (long long)have, raw ? "bytes" : "elements", (long long)want);
    }
    ckm_i_onnx_scalar *result = ckm_i_malloc((size_t)elements, sizeof *result);
    if (result == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < elements; i++) {
        result[i] = raw ? raw_element(dtype, tensor->raw_data.data + i * ckm_i_dtype_bytes(dtype))
                        : listed_element(tensor, dtype, (size_t)i);
    }
    *data = result;
    return CKM_OK;
}
