// SPDX-License-Identifier: Apache-2.0
// oneDNN: engine, errors, tensors as it sees them.
#include "run/cpu/dnnl_support.h"

#include <stdlib.h>
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
    // oneDNN 3 prints its errors on standard output unless told not to; here they are returned.
    if (getenv("ONEDNN_VERBOSE") == NULL && getenv("DNNL_VERBOSE") == NULL) {
        (void)dnnl_set_verbose(0);
    }
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

ckm_status ckm_i_dnnl_asked(dnnl_status_t result, ckm_error *err)
{
    bool answered = result == dnnl_success || result == dnnl_unimplemented;
    return answered ? CKM_OK : ckm_i_dnnl_error(err, result, "primitive descriptor");
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

ckm_i_dnnl_tensor ckm_i_dnnl_plain(int32_t rank, const int64_t *dims, const int64_t *strides)
{
    ckm_i_dnnl_tensor made = {.rank = rank};
    int64_t dense = 1;
    for (int32_t i = rank; i-- > 0;) {
        made.dims[i] = dims[i];
        made.strides[i] = strides != NULL ? strides[i] : dense;
        dense *= dims[i];
    }
    return made;
}

ckm_i_dnnl_tensor ckm_i_dnnl_any(const ckm_i_dnnl_tensor *plain)
{
    ckm_i_dnnl_tensor made = *plain;
    made.any = true;
    return made;
}

ckm_i_dnnl_tensor ckm_i_dnnl_image(const ckm_graph *graph, const ckm_shape *shape)
{
    bool last = graph->layout == CKM_CHANNELS_LAST;
    ckm_i_dnnl_tensor made = {.rank = shape->rank};
    int64_t stride = 1;
    for (int32_t i = made.rank; i-- > 0;) {
        // Where axis i of the tensor stands among N, C, spatial...
        int32_t to = !last || i == 0 ? i : (i == made.rank - 1 ? 1 : i + 1);
        made.dims[to] = shape->dims[i];
        made.strides[to] = stride;
        stride *= shape->dims[i];
    }
    return made;
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
