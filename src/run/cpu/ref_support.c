// SPDX-License-Identifier: Apache-2.0
// What reference kernels share: operators, element types, sums.
#include "run/cpu/ref_support.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ckm_i_ref_op ckm_i_ref_open(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call)
{
    return (ckm_i_ref_op){.graph = step, .op = &step->ops[op], .call = call};
}

const ckm_i_graph_tensor *ckm_i_ref_in(const ckm_i_ref_op *r, int32_t i)
{
    return i < r->op->n_inputs && r->op->inputs[i] >= 0 ? &r->graph->tensors[r->op->inputs[i]] : NULL;
}

const ckm_i_graph_tensor *ckm_i_ref_out(const ckm_i_ref_op *r, int32_t i)
{
    return i < r->op->n_outputs && r->op->outputs[i] >= 0 ? &r->graph->tensors[r->op->outputs[i]] : NULL;
}

const void *ckm_i_ref_input(const ckm_i_ref_op *r, int32_t i)
{
    return i < r->op->n_inputs && r->op->inputs[i] >= 0 ? r->call->inputs[i] : NULL;
}

void *ckm_i_ref_output(const ckm_i_ref_op *r, int32_t i)
{
    return i < r->op->n_outputs ? r->call->outputs[i] : NULL;
}

void *ckm_i_ref_state(const ckm_i_ref_op *r, int32_t i)
{
    // The session hands every input as const; these are the ones it declares modified in place.
    union {
        const void *given;
        void *modified;
    } pointer = {.given = ckm_i_ref_input(r, i)};
    return pointer.modified;
}

int64_t ckm_i_ref_span(const ckm_shape *shape, int32_t first, int32_t last)
{
    int64_t product = 1;
    for (int32_t i = first; i < last; i++) {
        product *= shape->dims[i];
    }
    return product;
}

int32_t ckm_i_ref_axis(const ckm_i_ref_op *r, const char *key, int64_t fallback, int32_t rank)
{
    int64_t axis = ckm_i_op_attr_int(r->op, key, 0, fallback);
    return (int32_t)(axis < 0 ? axis + rank : axis);
}

// In parentheses: the function, not the macro around it.
ckm_status(ckm_i_ref_error)(const ckm_i_ref_op *r, ckm_error *err, ckm_status code, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ckm_i_error(err, code, "operator \"%.200s\" (%s): %s", r->op->name, r->op->op_class->kind, message);
}

ckm_status ckm_i_ref_check_floats(const ckm_i_ref_op *r, ckm_error *err)
{
    for (int32_t i = 0; i < r->op->n_inputs + r->op->n_outputs; i++) {
        const ckm_i_graph_tensor *t = i < r->op->n_inputs ? ckm_i_ref_in(r, i) : ckm_i_ref_out(r, i - r->op->n_inputs);
        if (t != NULL && t->dtype != CKM_F32) {
            return ckm_i_ref_error(r, err, CKM_ERR_UNSUPPORTED, "\"%.200s\" is not single precision (float32)",
                                   t->name);
        }
    }
    return CKM_OK;
}

double ckm_i_ref_load(const void *data, ckm_dtype dtype, int64_t i)
{
    switch (dtype) {
    case CKM_F32:
        return (double)((const float *)data)[i];
    case CKM_F64:
        return ((const double *)data)[i];
    case CKM_I8:
        return (double)((const int8_t *)data)[i];
    case CKM_U8:
    case CKM_BOOL:
        return (double)((const uint8_t *)data)[i];
    case CKM_I16:
        return (double)((const int16_t *)data)[i];
    case CKM_I32:
        return (double)((const int32_t *)data)[i];
    case CKM_I64:
        return (double)((const int64_t *)data)[i];
    case CKM_F16:
    case CKM_BF16:
        break;
    }
    return (double)NAN;
}

int64_t ckm_i_ref_load_int(const void *data, ckm_dtype dtype, int64_t i)
{
    if (dtype == CKM_I64) {
        return ((const int64_t *)data)[i];
    }
    double value = ckm_i_ref_load(data, dtype, i);
    return value > -9e18 && value < 9e18 ? (int64_t)value : INT64_MIN;  // also what is not a number
}

static int64_t clamp(double value, double low, double high)
{
    return (int64_t)(value >= low ? (value <= high ? value : high) : low);
}

void ckm_i_ref_store(void *data, ckm_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case CKM_F32:
        ((float *)data)[i] = (float)value;
        return;
    case CKM_F64:
        ((double *)data)[i] = value;
        return;
    case CKM_I8:
        ((int8_t *)data)[i] = (int8_t)clamp(value, INT8_MIN, INT8_MAX);
        return;
    case CKM_U8:
        ((uint8_t *)data)[i] = (uint8_t)clamp(value, 0, UINT8_MAX);
        return;
    case CKM_BOOL:
        ((uint8_t *)data)[i] = value != 0.0;
        return;
    case CKM_I16:
        ((int16_t *)data)[i] = (int16_t)clamp(value, INT16_MIN, INT16_MAX);
        return;
    case CKM_I32:
        ((int32_t *)data)[i] = (int32_t)clamp(value, INT32_MIN, INT32_MAX);
        return;
    case CKM_I64:
        ((int64_t *)data)[i] = clamp(value, -0x1p62, 0x1p62);
        return;
    case CKM_F16:
    case CKM_BF16:
        return;
    }
}

enum { LANES = 8 };

static double add_lanes(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

double ckm_i_ref_sum(const float *x, int64_t n)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lane[j] += (double)x[i + j];
        }
    }
    double sum = add_lanes(lane);
    for (; i < n; i++) {
        sum += (double)x[i];
    }
    return sum;
}

double ckm_i_ref_dot(const float *x, const float *y, int64_t n)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lane[j] += (double)x[i + j] * (double)y[i + j];
        }
    }
    double sum = add_lanes(lane);
    for (; i < n; i++) {
        sum += (double)x[i] * (double)y[i];
    }
    return sum;
}
