// SPDX-License-Identifier: Apache-2.0
// oneDNN's functions that allocate. Its C interface lets C++ exceptions out, which would end a C program; behind these
// functions they are a status like any other.
#ifndef CKM_SRC_RUN_CPU_DNNL_GUARD_H
#define CKM_SRC_RUN_CPU_DNNL_GUARD_H

#include <oneapi/dnnl/dnnl.h>

#ifdef __cplusplus
extern "C" {
#endif

// As the functions without "guard" are, and besides: dnnl_out_of_memory when memory cannot be had, dnnl_runtime_error
// for any other exception. Those that create something first make sure that the system still gives as much memory as
// creating takes, since not all of oneDNN looks at what an allocation returned.
dnnl_status_t ckm_i_guard_engine_create(dnnl_engine_t *engine);
dnnl_status_t ckm_i_guard_stream_create(dnnl_stream_t *stream, dnnl_engine_t engine);
dnnl_status_t ckm_i_guard_attr_create(dnnl_primitive_attr_t *attributes);
dnnl_status_t ckm_i_guard_attr_set_output_scale(dnnl_primitive_attr_t attributes, float scale);
dnnl_status_t ckm_i_guard_primitive_desc_create(dnnl_primitive_desc_t *pd, const_dnnl_op_desc_t desc,
                                                const_dnnl_primitive_attr_t attributes, dnnl_engine_t engine,
                                                const_dnnl_primitive_desc_t hint);
dnnl_status_t ckm_i_guard_reorder_desc_create(dnnl_primitive_desc_t *pd, const dnnl_memory_desc_t *from,
                                              const dnnl_memory_desc_t *to, dnnl_engine_t engine,
                                              const_dnnl_primitive_attr_t attributes);
dnnl_status_t ckm_i_guard_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd);
dnnl_status_t ckm_i_guard_memory_create(dnnl_memory_t *memory, const dnnl_memory_desc_t *desc, dnnl_engine_t engine);
dnnl_status_t ckm_i_guard_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n_args,
                                  const dnnl_exec_arg_t *args);

#ifdef __cplusplus
}
#endif
#endif
