// SPDX-License-Identifier: Apache-2.0
// Shapes of the data inputs: symbolic dimensions, another batch than the file's, another input shape.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/onnx_convert.h"

enum { MAX_SYMBOLS = 32 };

// Values of dimension names met so far.
typedef struct symbols {
    int32_t n;
    struct {
        const char *name;
        int64_t value;
    } bound[MAX_SYMBOLS];
} symbols;

static void bind(symbols *known, const CkmOnnx__ShapeDimension *dim, int64_t value)
{
    if (dim->value_case == CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_PARAM && dim->dim_param[0] != '\0' &&
        known->n < MAX_SYMBOLS) {
        known->bound[known->n].name = dim->dim_param;
        known->bound[known->n++].value = value;
    }
}

static int64_t look_up(const symbols *known, const CkmOnnx__ShapeDimension *dim)
{
    for (int32_t i = 0; dim->value_case == CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_PARAM && i < known->n; i++) {
        if (strcmp(known->bound[i].name, dim->dim_param) == 0) {
            return known->bound[i].value;
        }
    }
    return 0;
}

// The dimension's value in the file; 0 when it is symbolic.
static int64_t fixed_value(const CkmOnnx__ShapeDimension *dim)
{
    return dim->value_case == CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_VALUE ? dim->dim_value : 0;
}

// The given shape without batch may be channels last where the file's is channels first: when the file
// fixes the number of channels and the given shape has it in the last place only, it is turned.
static void given_dims(const ckm_import_options *options, const CkmOnnx__TensorShape *shape, int64_t *dims)
{
    int32_t n = options->input_rank;
    for (int32_t i = 0; i < n; i++) {
        dims[i] = options->input_dims[i];
    }
    int64_t channels = shape != NULL && shape->n_dim == (size_t)n + 1 && n >= 2 ? fixed_value(shape->dim[1]) : 0;
    if (channels > 0 && dims[0] != channels && dims[n - 1] == channels) {
        memmove(dims + 1, dims, (size_t)(n - 1) * sizeof *dims);
        dims[0] = channels;
    }
}

static ckm_status check_options(const ckm_import_options *options, ckm_error *err)
{
    if (options->batch < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the batch is %lld; it must be at least 1",
                           (long long)options->batch);
    }
    if (options->input_rank < 0 || options->input_rank > CKM_MAX_RANK - 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the input shape has %d dimensions; 1 to %d are possible",
                           (int)options->input_rank, CKM_MAX_RANK - 1);
    }
    for (int32_t i = 0; i < options->input_rank; i++) {
        if (options->input_dims[i] < 1) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "the input shape holds %lld; dimensions are at least 1",
                               (long long)options->input_dims[i]);
        }
    }
    return CKM_OK;
}

static ckm_status input_error(const ckm_i_onnx_value *value, ckm_error *err, const char *what)
{
    return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "input \"%.200s\" of the ONNX model %s", value->name, what);
}

// The first dimension of an input. The first input decides the batch; another input follows it when its
// dimension has no value, the same name, or the same value in the file.
static int64_t batch_dim(ckm_i_onnx_convert *c, const CkmOnnx__ShapeDimension *dim, bool first, const symbols *known)
{
    int64_t fixed = fixed_value(dim);
    if (first) {
        c->file_batch = fixed;
        c->batch = c->options->batch > 0 ? c->options->batch : fixed > 0 ? fixed : 1;
        return c->batch;
    }
    if (fixed > 0) {
        return fixed == c->file_batch ? c->batch : fixed;
    }
    int64_t bound = look_up(known, dim);
    return bound > 0 ? bound : c->batch;
}

static ckm_status type_input(ckm_i_onnx_convert *c, ckm_i_onnx_value *value, bool first, symbols *known, ckm_error *err)
{
    const CkmOnnx__TypeProto *type = value->info->type;
    if (type == NULL || type->tensor_type == NULL) {
        return input_error(value, err, "is not a tensor");
    }
    const CkmOnnx__TensorShape *shape = type->tensor_type->shape;
    int64_t given[CKM_MAX_RANK];
    bool override = first && c->options->input_rank > 0;
    if (!ckm_i_onnx_dtype(type->tensor_type->elem_type, &value->dtype)) {
        return input_error(value, err, "has an element type that is not supported");
    }
    if (shape == NULL && !override) {
        return input_error(value, err, "has no shape in the file; give the input shape");
    }
    if (shape != NULL && shape->n_dim > CKM_MAX_RANK) {
        return input_error(value, err, "has more dimensions than are supported");
    }
    if (override) {
        given_dims(c->options, shape, given);
        if (shape != NULL && shape->n_dim != (size_t)c->options->input_rank + 1) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT,
                               "input \"%.200s\" has %zu dimensions without the batch; the input shape given has %d",
                               value->name, shape->n_dim > 0 ? shape->n_dim - 1 : 0, (int)c->options->input_rank);
        }
    }
    static const CkmOnnx__ShapeDimension unknown = CKM_ONNX__SHAPE_DIMENSION__INIT;
    int32_t rank = shape != NULL ? (int32_t)shape->n_dim : c->options->input_rank + 1;
    for (int32_t i = 0; i < rank; i++) {
        const CkmOnnx__ShapeDimension *dim = shape != NULL ? shape->dim[i] : &unknown;
        if (fixed_value(dim) < 0) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "input \"%.200s\": dimension %d is negative (%lld)", value->name,
                               (int)i, (long long)fixed_value(dim));
        }
        int64_t size = i == 0                 ? batch_dim(c, dim, first, known)
                       : override             ? given[i - 1]
                       : fixed_value(dim) > 0 ? fixed_value(dim)
                                              : look_up(known, dim);
        if (size == 0) {
            bool named = dim->value_case == CKM_ONNX__SHAPE_DIMENSION__VALUE_DIM_PARAM;
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                               "input \"%.200s\": dimension %d%s%.60s%s has no value in the file; %s", value->name,
                               (int)i, named ? " (\"" : "", named ? dim->dim_param : "", named ? "\")" : "",
                               first ? "give the input shape" : "export the model with a fixed size for it");
        }
        bind(known, dim, size);
        value->shape.dims[i] = size;
    }
    value->shape.rank = rank;
    value->typed = true;
    c->reshaped = override ? value : c->reshaped;
    return CKM_OK;
}

// A parameter that is a graph input: its shape is fixed (ckm_i_onnx_assign_roles sees to that).
static ckm_status type_parameter(ckm_i_onnx_value *value, ckm_error *err)
{
    const CkmOnnx__TensorType *type = value->info->type->tensor_type;
    ckm_shape shape = {0};
    if (type->shape->n_dim > CKM_MAX_RANK) {
        return input_error(value, err, "has more dimensions than are supported");
    }
    for (size_t i = 0; i < type->shape->n_dim; i++) {
        shape.dims[shape.rank++] = fixed_value(type->shape->dim[i]);
    }
    (void)ckm_i_onnx_dtype(type->elem_type, &value->dtype);
    value->shape = shape;
    value->typed = true;
    return CKM_OK;
}

ckm_status ckm_i_onnx_type_inputs(ckm_i_onnx_convert *c, ckm_error *err)
{
    symbols known = {0};
    bool first = true;
    CKM_I_CHECK(check_options(c->options, err));
    c->batch = c->options->batch > 0 ? c->options->batch : 1;
    c->file_batch = 0;
    for (int32_t i = 0; i < c->model->n_values; i++) {
        ckm_i_onnx_value *value = &c->model->values[i];
        if (value->origin != CKM_I_ONNX_INPUT || !value->needed) {
            continue;
        }
        if (value->role == CKM_ROLE_INPUT) {
            CKM_I_CHECK(type_input(c, value, first, &known, err));
            first = false;
        } else {
            CKM_I_CHECK(type_parameter(value, err));
        }
    }
    if (first) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "the outputs of the ONNX model depend on no input");
    }
    return CKM_OK;
}
