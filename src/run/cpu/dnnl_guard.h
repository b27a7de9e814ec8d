// SPDX-License-Identifier: Apache-2.0
// What is asked of oneDNN, the same for its generations 2 (from 2.6 on) and 3, whose C interfaces differ where descriptors are
// made. oneDNN lets C++ exceptions out of its C interface, which would end a C program; behind these functions they are a
// status like any other.
#ifndef CKM_SRC_RUN_CPU_DNNL_GUARD_H
#define CKM_SRC_RUN_CPU_DNNL_GUARD_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// A tensor in single precision. Strides count elements.
typedef struct ckm_i_dnnl_tensor {
    int rank;
    bool any;  // for a primitive that is described: in a format of its choice; strides are not read
    dnnl_dims_t dims, strides;
} ckm_i_dnnl_tensor;

// A format that a primitive has chosen for an argument. It belongs to the primitive's descriptor.
typedef struct ckm_i_dnnl_format ckm_i_dnnl_format;

// What lies at a place: a tensor in the format that a primitive wants, or as it is when that is NULL; of it, a part of this
// size that begins at this position, or all of it when both are NULL.
typedef struct ckm_i_dnnl_block {
    const ckm_i_dnnl_format *wanted;
    const ckm_i_dnnl_tensor *plain;
    const dnnl_dim_t *size, *at;
} ckm_i_dnnl_block;

// A convolution in the terms of its forward run: its tensors and windows, n spatial axes.
typedef enum ckm_i_dnnl_direction {
    CKM_I_DNNL_FORWARD,
    CKM_I_DNNL_BACKWARD_DATA,
    CKM_I_DNNL_BACKWARD_WEIGHTS
} ckm_i_dnnl_direction;
typedef struct ckm_i_dnnl_conv {
    ckm_i_dnnl_direction direction;
    bool transposed;
    ckm_i_dnnl_tensor src, weight, dst;
    ckm_i_dnnl_tensor bias;  // rank 0: none
    dnnl_dims_t strides, dilates, begin, end;
} ckm_i_dnnl_conv;

// alpha times the product, to which bias is added.
typedef struct ckm_i_dnnl_product {
    ckm_i_dnnl_tensor a, b, c;
    ckm_i_dnnl_tensor bias;  // rank 0: none
    float alpha;
} ckm_i_dnnl_product;

// An element-wise function or a softmax: all of its tensors lie as `plain` does.
typedef struct ckm_i_dnnl_map {
    dnnl_alg_kind_t algorithm;
    float alpha;  // of a function
    int axis;     // of a softmax
    ckm_i_dnnl_tensor plain;
} ckm_i_dnnl_map;

// Besides oneDNN's own statuses these functions return dnnl_out_of_memory when memory cannot be had, dnnl_runtime_error for
// any other exception. Those that create something first make sure that the system still gives as much memory as creating
// takes, since not all of oneDNN looks at what an allocation returned.
dnnl_status_t ckm_i_guard_engine_create(dnnl_engine_t *engine);
dnnl_status_t ckm_i_guard_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine);

// Primitive descriptors whose scratchpad is in the caller's hands. dnnl_unimplemented: oneDNN has no such primitive, or does
// not accept these shapes. `hint`: the descriptor of the forward run makes that of the backward run; NULL makes the forward
// one, in whatever direction `conv` goes.
dnnl_status_t ckm_i_guard_conv(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_conv *conv,
                               const_dnnl_primitive_desc_t hint);
dnnl_status_t ckm_i_guard_eltwise(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map *map,
                                  const_dnnl_primitive_desc_t hint);
dnnl_status_t ckm_i_guard_softmax(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map *map,
                                  const_dnnl_primitive_desc_t hint);
dnnl_status_t ckm_i_guard_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_product *product);
dnnl_status_t ckm_i_guard_reorder(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_block *from,
                                  const ckm_i_dnnl_block *to);

// The format that a primitive wants for an argument, NULL if it has no such argument, and its size.
const ckm_i_dnnl_format *ckm_i_guard_format(const_dnnl_primitive_desc_t pd, dnnl_query_t what);
size_t ckm_i_guard_format_bytes(const ckm_i_dnnl_format *format);
// Whether a tensor that lies as `plain` already is in this format.
dnnl_status_t ckm_i_guard_format_is(const ckm_i_dnnl_format *format, const ckm_i_dnnl_tensor *plain, bool *same);

dnnl_status_t ckm_i_guard_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd);
dnnl_status_t ckm_i_guard_memory_create(dnnl_memory_t *memory, dnnl_engine_t engine, const ckm_i_dnnl_block *block);
dnnl_status_t ckm_i_guard_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n_args,
                                  const dnnl_exec_arg_t *args);

#ifdef __cplusplus
}
#endif
#endif
