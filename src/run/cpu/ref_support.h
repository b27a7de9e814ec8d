// SPDX-License-Identifier: Apache-2.0
// What reference kernels share: access to an operator's shapes and pointers, sums whose order is fixed, and the
// loop over broadcast or permuted operands.
#ifndef CKM_SRC_RUN_CPU_REF_SUPPORT_H
#define CKM_SRC_RUN_CPU_REF_SUPPORT_H

#include "base/error.h"
#include "run/backend/backend.h"

// One operator as its kernel sees it.
typedef struct ckm_i_ref_op {
    const ckm_graph *graph;
    const ckm_i_graph_op *op;
    const ckm_i_kernel_call *call;
} ckm_i_ref_op;

ckm_i_ref_op ckm_i_ref_open(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call);

// Shape, type and data of input or output i. Absent ones: no shape (rank 0), NULL.
const ckm_i_graph_tensor *ckm_i_ref_in(const ckm_i_ref_op *r, int32_t i);
const ckm_i_graph_tensor *ckm_i_ref_out(const ckm_i_ref_op *r, int32_t i);
const void *ckm_i_ref_input(const ckm_i_ref_op *r, int32_t i);
void *ckm_i_ref_output(const ckm_i_ref_op *r, int32_t i);
// Inputs that a kernel changes in place: running statistics, parameters, optimizer state.
void *ckm_i_ref_state(const ckm_i_ref_op *r, int32_t i);

// Product of dims[first] to dims[last - 1].
int64_t ckm_i_ref_span(const ckm_shape *shape, int32_t first, int32_t last);
// Attribute `key`, an axis that may count from the end, in [0, rank).
int32_t ckm_i_ref_axis(const ckm_i_ref_op *r, const char *key, int64_t fallback, int32_t rank);

// Fails with: operator "name" (kind): <message>.
ckm_status ckm_i_ref_error(const ckm_i_ref_op *r, ckm_error *err, ckm_status code, const char *format, ...)
    CKM_PRINTF(4, 5);
#define ckm_i_ref_error(r, err, code, ...) ckm_i_error_known(ckm_i_ref_error(r, err, code, __VA_ARGS__), code)

// CKM_ERR_UNSUPPORTED unless every present input and output from `first` on is single precision.
ckm_status ckm_i_ref_check_floats(const ckm_i_ref_op *r, ckm_error *err) CKM_NODISCARD;

// Element `i` of any numeric type as a double, and back (rounded and clamped for integers; 0 or 1 for booleans).
double ckm_i_ref_load(const void *data, ckm_dtype dtype, int64_t i);
void ckm_i_ref_store(void *data, ckm_dtype dtype, int64_t i, double value);
int64_t ckm_i_ref_load_int(const void *data, ckm_dtype dtype, int64_t i);

// Sums in double precision over 8 interleaved lanes: the order depends on n alone.
double ckm_i_ref_sum(const float *x, int64_t n);
double ckm_i_ref_dot(const float *x, const float *y, int64_t n);

// Up to 17 operands walked together over one shape. Strides count elements; 0 repeats, negative runs backwards.
#define CKM_I_REF_MAX_OPERANDS 17
typedef struct ckm_i_ref_walk {
    int32_t n, rank;  // operands, dimensions
    int64_t dims[CKM_MAX_RANK];
    int64_t strides[CKM_I_REF_MAX_OPERANDS][CKM_MAX_RANK];
    int64_t offsets[CKM_I_REF_MAX_OPERANDS];  // of the current row
    int64_t at[CKM_MAX_RANK];
    int64_t rows_left;
} ckm_i_ref_walk;

// Strides of a dense tensor of this shape.
void ckm_i_ref_strides(const ckm_shape *shape, int64_t *strides);
// A walk over `shape` without operands yet.
ckm_i_ref_walk ckm_i_ref_walk_over(const ckm_shape *shape);
// Adds an operand of `shape`, broadcast to the walk's shape.
void ckm_i_ref_walk_add(ckm_i_ref_walk *w, const ckm_shape *shape);
// Adds an operand with its own strides and first offset.
void ckm_i_ref_walk_add_strides(ckm_i_ref_walk *w, const int64_t *strides, int64_t offset);
// Joins dimensions that all operands walk as one and starts. Rows are the last dimension:
//     for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) { ... }
// Within a row, element j of operand k is at offsets[k] + j * ckm_i_ref_row_stride(&w, k).
bool ckm_i_ref_walk_start(ckm_i_ref_walk *w);
bool ckm_i_ref_walk_next(ckm_i_ref_walk *w);
static inline int64_t ckm_i_ref_row_length(const ckm_i_ref_walk *w)
{
    return w->dims[w->rank - 1];
}
static inline int64_t ckm_i_ref_row_stride(const ckm_i_ref_walk *w, int32_t k)
{
    return w->strides[k][w->rank - 1];
}

// Copies elements of `size` bytes from operand 1 to operand 0 of the walk.
void ckm_i_ref_walk_copy(ckm_i_ref_walk *w, void *to, const void *from, int64_t size);

// out[j] = sum over the axes that `out_shape` lacks or has as 1 of x, of `shape` (a broadcast undone).
// Sums run in double precision, in the order of the elements.
void ckm_i_ref_sum_to(const ckm_shape *shape, const float *x, const ckm_shape *out_shape, float *out);

// y[.., c, ..] += bias[c], c along `axis`; and the sums of dy over all other axes.
void ckm_i_ref_add_bias(const ckm_shape *shape, int32_t axis, const float *bias, float *y);
void ckm_i_ref_sum_bias(const ckm_shape *shape, int32_t axis, const float *dy, float *dbias);

#endif
