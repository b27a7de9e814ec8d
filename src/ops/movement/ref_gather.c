// SPDX-License-Identifier: Apache-2.0
// Reading and writing at positions that are data: gather, scatter and their gradients. Negative positions count
// from the end; what lies outside is an error.
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

static ckm_status read_position(const ckm_i_ref_op *r, int32_t input, int64_t i, int64_t size, int64_t *out,
                                ckm_error *err)
{
    const ckm_i_graph_tensor *t = ckm_i_ref_in(r, input);
    int64_t given = ckm_i_ref_load_int(ckm_i_ref_input(r, input), t->dtype, i);
    if (given < -size || given >= size) {
        return ckm_i_ref_error(r, err, CKM_ERR_FORMAT, "\"%.200s\" holds %lld; the axis has %lld elements", t->name,
                               (long long)given, (long long)size);
    }
    *out = given < 0 ? given + size : given;
    return CKM_OK;
}

// What is done with one piece of n elements: `whole` is the tensor that positions point into.
typedef void (*piece_fn)(char *part, char *whole, int64_t n, int64_t size);

static void take(char *part, char *whole, int64_t n, int64_t size)
{
    memcpy(part, whole, (size_t)(n * size));
}

static void put(char *part, char *whole, int64_t n, int64_t size)
{
    memcpy(whole, part, (size_t)(n * size));
}

static void clear(char *part, char *whole, int64_t n, int64_t size)
{
    (void)part;
    memset(whole, 0, (size_t)(n * size));
}

static void accumulate(char *part, char *whole, int64_t n, int64_t size)
{
    (void)size;
    const float *from = (const float *)(const void *)part;
    float *to = (float *)(void *)whole;
    for (int64_t i = 0; i < n; i++) {
        to[i] += from[i];
    }
}

// A call: the shape that positions point into, its data, the data that goes with the positions.
typedef struct access {
    const ckm_shape *shape;
    char *whole, *part;  // part may be NULL
    int64_t size;        // bytes of an element
    int32_t positions;   // input
    piece_fn piece;
} access;

// ---- along one axis

static ckm_status by_axis(const ckm_i_ref_op *r, const access *a, ckm_error *err)
{
    int32_t axis = ckm_i_ref_axis(r, "axis", 0, a->shape->rank);
    int64_t outer = ckm_i_ref_span(a->shape, 0, axis);
    int64_t inner = ckm_i_ref_span(a->shape, axis + 1, a->shape->rank);
    int64_t count = ckm_i_elements(&ckm_i_ref_in(r, a->positions)->shape);
    for (int64_t i = 0; i < outer; i++) {
        for (int64_t p = 0; p < count; p++) {
            int64_t at;
            CKM_I_CHECK(read_position(r, a->positions, p, a->shape->dims[axis], &at, err));
            a->piece(a->part + (i * count + p) * inner * a->size,
                     a->whole + (i * a->shape->dims[axis] + at) * inner * a->size, inner, a->size);
        }
    }
    return CKM_OK;
}

// ---- one position an element

static ckm_status by_element(const ckm_i_ref_op *r, const access *a, ckm_error *err)
{
    const ckm_shape *positions = &ckm_i_ref_in(r, a->positions)->shape;
    int32_t axis = ckm_i_ref_axis(r, "axis", 0, a->shape->rank);
    int64_t strides[CKM_MAX_RANK] = {0};
    ckm_i_ref_strides(a->shape, strides);
    int64_t stride = strides[axis];
    strides[axis] = 0;
    ckm_i_ref_walk w = ckm_i_ref_walk_over(positions);
    ckm_i_ref_walk_add(&w, positions);
    ckm_i_ref_walk_add_strides(&w, strides, 0);
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            int64_t p = w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0);
            int64_t to = w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1);
            int64_t at;
            CKM_I_CHECK(read_position(r, a->positions, p, a->shape->dims[axis], &at, err));
            a->piece(a->part != NULL ? a->part + p * a->size : NULL, a->whole + (to + at * stride) * a->size, 1,
                     a->size);
        }
    }
    return CKM_OK;
}

// ---- positions of several axes: the last axis of the positions indexes axes of the data

static ckm_status by_tuple(const ckm_i_ref_op *r, const access *a, ckm_error *err)
{
    const ckm_shape *positions = &ckm_i_ref_in(r, a->positions)->shape;
    int32_t batch_dims = (int32_t)ckm_i_op_attr_int(r->op, "batch_dims", 0, 0);
    int64_t depth = positions->dims[positions->rank - 1];
    int32_t used = batch_dims + (int32_t)depth;
    int64_t batches = ckm_i_ref_span(a->shape, 0, batch_dims);
    int64_t per_batch = ckm_i_ref_span(positions, batch_dims, positions->rank - 1);
    int64_t inner = ckm_i_ref_span(a->shape, used, a->shape->rank);
    for (int64_t i = 0; i < batches * per_batch; i++) {
        int64_t to = i / per_batch;
        for (int64_t d = 0; d < depth; d++) {
            int64_t at;
            int64_t size = a->shape->dims[batch_dims + d];
            CKM_I_CHECK(read_position(r, a->positions, i * depth + d, size, &at, err));
            to = to * size + at;
        }
        a->piece(a->part != NULL ? a->part + i * inner * a->size : NULL, a->whole + to * inner * a->size, inner,
                 a->size);
    }
    return CKM_OK;
}

// ---- kernels

typedef ckm_status (*access_fn)(const ckm_i_ref_op *r, const access *a, ckm_error *err);

static char *bytes_of(const void *pointer)
{
    union {
        const void *given;
        char *bytes;  // written only where it is an output
    } u = {.given = pointer};
    return u.bytes;
}

// inputs data, positions
static ckm_status gather(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, access_fn run,
                         ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    access a = {.shape = &ckm_i_ref_in(&r, 0)->shape,
                .whole = bytes_of(ckm_i_ref_input(&r, 0)),
                .part = ckm_i_ref_output(&r, 0),
                .size = ckm_i_dtype_bytes(ckm_i_ref_out(&r, 0)->dtype),
                .positions = 1,
                .piece = take};
    return run(&r, &a, err);
}

// inputs dy, positions
static ckm_status gather_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, access_fn run,
                                  ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    access a = {.shape = &ckm_i_ref_out(&r, 0)->shape,
                .whole = ckm_i_ref_output(&r, 0),
                .part = bytes_of(ckm_i_ref_input(&r, 0)),
                .size = (int64_t)sizeof(float),
                .positions = 1,
                .piece = accumulate};
    if (ckm_i_ref_out(&r, 0)->dtype != CKM_F32) {
        return ckm_i_ref_error(&r, err, CKM_ERR_UNSUPPORTED, "only single precision (float32) is supported");
    }
    memset(a.whole, 0, (size_t)(ckm_i_elements(a.shape) * a.size));
    return run(&r, &a, err);
}

// inputs data, positions, updates; or, when `updates` is false, dy and positions
static ckm_status scatter(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, access_fn run, bool updates,
                          ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    access a = {.shape = &ckm_i_ref_out(&r, 0)->shape,
                .whole = ckm_i_ref_output(&r, 0),
                .part = updates ? bytes_of(ckm_i_ref_input(&r, 2)) : NULL,
                .size = ckm_i_dtype_bytes(ckm_i_ref_out(&r, 0)->dtype),
                .positions = 1,
                .piece = updates ? put : clear};
    memmove(a.whole, ckm_i_ref_input(&r, 0), (size_t)(ckm_i_elements(a.shape) * a.size));
    return run(&r, &a, err);
}

#define KERNEL(name, expression)                                                                                   \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        return (expression);                                                                                       \
    }

KERNEL(gather, gather(step, op, call, by_axis, err))
KERNEL(gather_elements, gather(step, op, call, by_element, err))
KERNEL(gather_nd, gather(step, op, call, by_tuple, err))
KERNEL(gather_backward, gather_backward(step, op, call, by_axis, err))
KERNEL(gather_elements_backward, gather_backward(step, op, call, by_element, err))
KERNEL(gather_nd_backward, gather_backward(step, op, call, by_tuple, err))
KERNEL(scatter_elements, scatter(step, op, call, by_element, true, err))
KERNEL(scatter_nd, scatter(step, op, call, by_tuple, true, err))
KERNEL(scatter_elements_backward, scatter(step, op, call, by_element, false, err))
KERNEL(scatter_nd_backward, scatter(step, op, call, by_tuple, false, err))

#define ROW(name)                         \
    {                                     \
        CKM_I_OP_##name, NULL, run_##name \
    }

const ckm_i_reference_kernel ckm_i_ref_kernels_gather[] = {
    ROW(gather),
    ROW(gather_elements),
    ROW(gather_nd),
    ROW(gather_backward),
    ROW(gather_elements_backward),
    ROW(gather_nd_backward),
    ROW(scatter_elements),
    ROW(scatter_nd),
    ROW(scatter_elements_backward),
    ROW(scatter_nd_backward),
    {0},
};
