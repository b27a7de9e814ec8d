// SPDX-License-Identifier: Apache-2.0
// Joining tensors along an axis and taking them apart.
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Copies `width` bytes of every row; rows are a pitch apart.
static void copy_rows(char *to, int64_t to_pitch, const char *from, int64_t from_pitch, int64_t width, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        memcpy(to + i * to_pitch, from + i * from_pitch, (size_t)width);
    }
}

// Bytes of a tensor from the axis on.
static int64_t width_of(const ckm_i_graph_tensor *t, int32_t axis)
{
    return ckm_i_ref_span(&t->shape, axis, t->shape.rank) * ckm_i_dtype_bytes(t->dtype);
}

// attribute axis (default: the channels)
static ckm_status concat(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_i_graph_tensor *out = ckm_i_ref_out(&r, 0);
    int32_t rank = out->shape.rank;
    int32_t axis = ckm_i_ref_axis(&r, "axis", rank >= 2 ? ckm_i_channel_axis(step, rank) : 0, rank);
    int64_t pitch = width_of(out, axis);
    int64_t rows = ckm_i_ref_span(&out->shape, 0, axis);
    char *to = ckm_i_ref_output(&r, 0);
    for (int32_t i = 0; i < r.op->n_inputs; i++) {
        int64_t width = width_of(ckm_i_ref_in(&r, i), axis);
        copy_rows(to, pitch, ckm_i_ref_input(&r, i), width, width, rows);
        to += width;
    }
    return CKM_OK;
}

// attribute axis (0)
static ckm_status split(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_i_graph_tensor *in = ckm_i_ref_in(&r, 0);
    int32_t axis = ckm_i_ref_axis(&r, "axis", 0, in->shape.rank);
    int64_t pitch = width_of(in, axis);
    int64_t rows = ckm_i_ref_span(&in->shape, 0, axis);
    const char *from = ckm_i_ref_input(&r, 0);
    for (int32_t i = 0; i < r.op->n_outputs; i++) {
        int64_t width = width_of(ckm_i_ref_out(&r, i), axis);
        if (ckm_i_ref_output(&r, i) != NULL) {
            copy_rows(ckm_i_ref_output(&r, i), width, from, pitch, width, rows);
        }
        from += width;
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_merge[] = {
    {CKM_I_OP_concat, NULL, concat},
    {CKM_I_OP_split, NULL, split},
    {0},
};
