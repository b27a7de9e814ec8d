// SPDX-License-Identifier: Apache-2.0
// oneDNN: engine, errors, memory descriptors.
#include "run/cpu/dnnl_support.h"

#include <string.h>

#include "base/error.h"

ckm_status ckm_i_dnnl_code(dnnl_status_t status)
{
    switch (status) {
    case dnnl_success:
        return CKM_OK;
    case dnnl_out_of_memory:
        return CKM_ERR_MEMORY;
    case dnnl_unimplemented:
        return CKM_ERR_UNSUPPORTED;
    default:
        return CKM_ERR_INTERNAL;
    }
}

// In parentheses: the function, not the macro around it.
ckm_status(ckm_i_dnnl_error)(ckm_error *err, dnnl_status_t status, const char *what)
{
    static const char *const names[] = {"success",        "out of memory", "invalid arguments", "unimplemented",
                                        "iterator ended", "runtime error", "not required"};
    size_t n = sizeof names / sizeof names[0];
    const char *name = (size_t)status < n ? names[(size_t)status] : "unknown status";
    return ckm_i_error(err, ckm_i_dnnl_code(status), "oneDNN: %s: %s", what, name);
}

ckm_status ckm_i_dnnl_open(ckm_i_cpu *cpu, ckm_error *err)
{
    ckm_status status = CKM_OK;
    CKM_I_DNNL_TRY(ckm_i_guard_engine_create(&cpu->engine), "engine");
    CKM_I_DNNL_TRY(ckm_i_guard_stream_create(&cpu->stream, cpu->engine), "stream");
    return CKM_OK;

cleanup:
    ckm_i_dnnl_close(cpu);
    return status;
}

void ckm_i_dnnl_close(ckm_i_cpu *cpu)
{
    if (cpu->stream != NULL) {
        dnnl_stream_destroy(cpu->stream);
    }
    if (cpu->engine != NULL) {
        dnnl_engine_destroy(cpu->engine);
    }
    cpu->stream = NULL;
    cpu->engine = NULL;
}

ckm_status ckm_i_dnnl_attributes(dnnl_primitive_attr_t *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_attr_t attributes = NULL;
    CKM_I_DNNL_TRY(ckm_i_guard_attr_create(&attributes), "attributes");
    CKM_I_DNNL_TRY(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), "attributes");
    *out = attributes;
    return CKM_OK;

cleanup:
    if (attributes != NULL) {
        dnnl_primitive_attr_destroy(attributes);
    }
    return status;
}

ckm_status ckm_i_dnnl_describe(const ckm_i_cpu *cpu, const_dnnl_op_desc_t desc, const_dnnl_primitive_desc_t hint,
                               dnnl_primitive_desc_t *out, ckm_error *err)
{
    dnnl_primitive_attr_t attributes = NULL;
    CKM_I_CHECK(ckm_i_dnnl_attributes(&attributes, err));
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t result = ckm_i_guard_primitive_desc_create(&pd, desc, attributes, cpu->engine, hint);
    dnnl_primitive_attr_destroy(attributes);
    if (result != dnnl_success && result != dnnl_unimplemented) {
        return ckm_i_dnnl_error(err, result, "primitive descriptor");
    }
    *out = result == dnnl_success ? pd : NULL;
    return CKM_OK;
}

void ckm_i_dnnl_description_free(dnnl_primitive_desc_t pd)
{
    if (pd != NULL) {
        dnnl_primitive_desc_destroy(pd);
    }
}

bool ckm_i_dnnl_is(const_dnnl_primitive_desc_t pd, const char *name)
{
    const char *text = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &text) == dnnl_success &&
           strstr(text, name) != NULL;
}

bool ckm_i_dnnl_allocates(const_dnnl_primitive_desc_t pd)
{
    return ckm_i_dnnl_is(pd, "gemm");
}

ckm_status ckm_i_dnnl_plain(int32_t rank, const int64_t *dims, const int64_t *strides, dnnl_memory_desc_t *out,
                            ckm_error *err)
{
    dnnl_dims_t own_dims = {0};
    dnnl_dims_t own_strides = {0};
    int64_t dense = 1;
    for (int32_t i = rank; i-- > 0;) {
        own_dims[i] = dims[i];
        own_strides[i] = strides != NULL ? strides[i] : dense;
        dense *= dims[i];
    }
    dnnl_memory_desc_t made;
    dnnl_status_t result = dnnl_memory_desc_init_by_strides(&made, rank, own_dims, dnnl_f32, own_strides);
    if (result != dnnl_success) {
        return ckm_i_dnnl_error(err, result, "memory descriptor");
    }
    *out = made;
    return CKM_OK;
}

ckm_status ckm_i_dnnl_any(const dnnl_memory_desc_t *plain, dnnl_memory_desc_t *out, ckm_error *err)
{
    dnnl_memory_desc_t made;
    dnnl_status_t result = dnnl_memory_desc_init_by_tag(&made, plain->ndims, plain->dims, dnnl_f32,
                                                        dnnl_format_tag_any);
    if (result != dnnl_success) {
        return ckm_i_dnnl_error(err, result, "memory descriptor");
    }
    *out = made;
    return CKM_OK;
}

ckm_status ckm_i_dnnl_image(const ckm_graph *graph, const ckm_shape *shape, dnnl_memory_desc_t *out, ckm_error *err)
{
    bool last = graph->layout == CKM_CHANNELS_LAST;
    int32_t rank = shape->rank;
    int64_t dims[CKM_MAX_RANK];
    int64_t strides[CKM_MAX_RANK];
    int64_t stride = 1;
    for (int32_t i = rank; i-- > 0;) {
        // Where axis i of the tensor stands among N, C, spatial...
        int32_t to = !last || i == 0 ? i : (i == rank - 1 ? 1 : i + 1);
        dims[to] = shape->dims[i];
        strides[to] = stride;
        stride *= shape->dims[i];
    }
    return ckm_i_dnnl_plain(rank, dims, strides, out, err);
}

const dnnl_memory_desc_t *ckm_i_dnnl_wanted(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

static bool is_filled_float(const ckm_i_graph_tensor *t)
{
    if (t->dtype != CKM_F32) {
        return false;
    }
    for (int32_t i = 0; i < t->shape.rank; i++) {
        if (t->shape.dims[i] < 1) {
            return false;
        }
    }
    return true;
}

bool ckm_i_dnnl_floats(const ckm_i_op_view *v)
{
    const ckm_i_graph_op *op = v->op;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i] >= 0 && !is_filled_float(&v->graph->tensors[op->inputs[i]])) {
            return false;
        }
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (op->outputs[i] >= 0 && !is_filled_float(&v->graph->tensors[op->outputs[i]])) {
            return false;
        }
    }
    return true;
}

const ckm_i_graph_tensor *ckm_i_dnnl_output(const ckm_i_op_view *v, int32_t i)
{
    return i < v->op->n_outputs && v->op->outputs[i] >= 0 ? &v->graph->tensors[v->op->outputs[i]] : NULL;
}

bool ckm_i_dnnl_has_input(const ckm_i_op_view *v, int32_t i)
{
    return i < v->op->n_inputs && v->op->inputs[i] >= 0;
}
