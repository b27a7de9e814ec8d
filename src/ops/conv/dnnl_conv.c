// SPDX-License-Identifier: Apache-2.0
// Convolutions and transposed convolutions on oneDNN: forward, backward data, backward weights.
//
// Weights are always reordered into the format the primitive prefers, which costs little compared with the convolution.
// Channels-last images are not reordered: oneDNN's kernels for them are as fast as those for its blocked
// formats. For channels-first images they are not, except where the convolution is one matrix product, so those are
// reordered into blocked formats and back (want_blocked). Backward data on channels-last images is a forward
// convolution with turned weights where that is faster (prepare_turned).
#include <string.h>

#include "base/error.h"
#include "run/cpu/dnnl_support.h"
#include "run/cpu/ref_window.h"

// Weights from this size on are not copied if that can be avoided.
enum { LARGE_WEIGHT_BYTES = 1 << 25 };

// Images up to this width are not reordered for backward passes on processors with AVX2 only: measured on widths of 7 and 14, where
// that is a little faster, and of 28 and more, where a turned convolution is faster by a fifth.
enum { NARROW = 16 };

// oneDNN counts in int, positions and distances in bytes. Windows that reach or step farther are not for it.
enum { FARTHEST = 1 << 16 };

// A convolution in the terms of its forward run.
typedef struct conv {
    ckm_i_dnnl_conv plain;
    int32_t n;  // spatial axes
    int64_t groups;
    const ckm_i_graph_tensor *src, *weight, *dst;
    bool bias;
    int64_t kernel[CKM_MAX_RANK];
} conv;

// Operand order: forward x, weight, [bias] -> y; backward data dy, weight -> dx; backward weights dy, x -> dweight.
static void find_operands(const ckm_i_op_view *v, conv *c)
{
    const ckm_i_graph_tensor *out = ckm_i_dnnl_output(v, 0);
    switch (c->plain.direction) {
    case CKM_I_DNNL_FORWARD:
        c->src = v->in[0];
        c->weight = v->in[1];
        c->dst = out;
        c->bias = ckm_i_dnnl_has_input(v, 2);
        break;
    case CKM_I_DNNL_BACKWARD_DATA:
        c->src = out;
        c->weight = v->in[1];
        c->dst = v->in[0];
        break;
    case CKM_I_DNNL_BACKWARD_WEIGHTS:
        c->src = v->in[1];
        c->weight = out;
        c->dst = v->in[0];
        break;
    }
}

// oneDNN's weight dimensions are [G], O/G, I/G, k...; ours lie in memory as src/graph/README.md says.
static ckm_i_dnnl_tensor describe_weight(const ckm_i_op_view *v, conv *c, int64_t in, int64_t out)
{
    int64_t in_group = in / c->groups;
    int64_t out_group = out / c->groups;
    bool last = v->graph->layout == CKM_CHANNELS_LAST;
    const int64_t *kernel = &c->weight->shape.dims[last ? 0 : 2];
    int64_t taps = 1;
    int64_t dims[CKM_MAX_RANK + 1] = {c->groups, out_group, in_group};
    int64_t strides[CKM_MAX_RANK + 1];
    for (int32_t i = c->n; i-- > 0;) {
        dims[3 + i] = kernel[i];
        c->kernel[i] = kernel[i];
        // Steps between kernel elements, for channels last still to be multiplied by the matrix under each.
        strides[3 + i] = taps;
        taps *= kernel[i];
    }
    if (last && !c->plain.transposed) {  // k..., I/G, O
        strides[0] = out_group;
        strides[1] = 1;
        strides[2] = out;
    } else if (last) {  // k..., O/G, I
        strides[0] = in_group;
        strides[1] = in;
        strides[2] = 1;
    } else if (!c->plain.transposed) {  // O, I/G, k...
        strides[0] = out_group * in_group * taps;
        strides[1] = in_group * taps;
        strides[2] = taps;
    } else {  // I, O/G, k...
        strides[0] = in_group * out_group * taps;
        strides[1] = taps;
        strides[2] = out_group * taps;
    }
    for (int32_t i = 0; last && i < c->n; i++) {
        strides[3 + i] *= c->plain.transposed ? out_group * in : in_group * out;
    }
    int32_t skip = c->groups == 1 ? 1 : 0;
    return ckm_i_dnnl_plain(3 + c->n - skip, dims + skip, strides + skip);
}

// Padding behind the last element as oneDNN counts it: what the last window needs, and not negative unless a
// transposed convolution's output has been made larger. False when this is not for oneDNN.
static bool read_window(const ckm_i_op_view *v, conv *c)
{
    const ckm_shape *inner = c->plain.transposed ? &c->dst->shape : &c->src->shape;
    const ckm_shape *outer = c->plain.transposed ? &c->src->shape : &c->dst->shape;
    ckm_i_ref_window w = ckm_i_ref_window_read(v->graph, v->op, inner, outer, c->kernel);
    bool near = true;
    for (int32_t i = 0; i < c->n; i++) {
        int64_t extent = (w.kernel[i] - 1) * w.dilation[i] + 1;
        int64_t end = (w.out[i] - 1) * w.stride[i] + extent - w.in[i] - w.begin[i];
        c->plain.strides[i] = w.stride[i];
        c->plain.dilates[i] = w.dilation[i] - 1;
        c->plain.begin[i] = w.begin[i];
        c->plain.end[i] = end < 0 && !c->plain.transposed ? 0 : end;
        near = near && extent <= FARTHEST && w.stride[i] <= FARTHEST && w.begin[i] <= FARTHEST && end <= FARTHEST &&
               (end >= -FARTHEST || !c->plain.transposed);
    }
    return near;
}

static void describe_operands(const ckm_i_op_view *v, conv *c)
{
    c->plain.src = ckm_i_dnnl_image(v->graph, &c->src->shape);
    c->plain.dst = ckm_i_dnnl_image(v->graph, &c->dst->shape);
    int64_t in = c->plain.src.dims[1];
    int64_t out = c->plain.dst.dims[1];
    c->plain.weight = describe_weight(v, c, in, out);
    if (c->bias) {
        c->plain.bias = ckm_i_dnnl_plain(1, &out, NULL);
    }
}

// False when this is not for oneDNN.
static bool read_conv(const ckm_i_op_view *v, conv *c)
{
    find_operands(v, c);
    c->n = c->src->shape.rank - 2;
    c->groups = ckm_i_op_attr_int(v->op, "groups", 0, 1);
    if (!ckm_i_dnnl_floats(v) || c->n < 1 || c->n > 3) {
        return false;
    }
    describe_operands(v, c);
    return read_window(v, c);
}

static int64_t weight_bytes(const conv *c)
{
    int64_t bytes = (int64_t)sizeof(float);
    for (int i = 0; i < c->plain.weight.rank; i++) {
        bytes *= c->plain.weight.dims[i];
    }
    return bytes;
}

// Whether channels-first images are worth two copies.
static bool want_blocked(const ckm_i_op_view *v, const conv *c)
{
    if (v->graph->layout == CKM_CHANNELS_LAST) {
        return false;
    }
    for (int32_t i = 0; i < c->n; i++) {
        if (c->kernel[i] != 1 || c->plain.strides[i] != 1 || c->plain.begin[i] != 0 || c->plain.end[i] != 0) {
            return true;
        }
    }
    return c->groups != 1;
}

// The primitive descriptor for these formats; *out is NULL when oneDNN has none.
static ckm_status find_primitive(const ckm_i_cpu *cpu, const ckm_i_dnnl_conv *c, dnnl_primitive_desc_t *out,
                                 ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_desc_t forward = NULL;
    *out = NULL;
    CKM_I_TRY(ckm_i_dnnl_asked(ckm_i_guard_conv(&forward, cpu->engine, c, NULL), err));
    if (c->direction == CKM_I_DNNL_FORWARD || forward == NULL) {
        *out = forward;
        return CKM_OK;
    }
    CKM_I_TRY(ckm_i_dnnl_asked(ckm_i_guard_conv(out, cpu->engine, c, forward), err));

cleanup:
    ckm_i_dnnl_description_free(forward);
    return status;
}

static ckm_status choose_formats(const ckm_i_cpu *cpu, const conv *c, bool blocked, dnnl_primitive_desc_t *out,
                                 ckm_error *err)
{
    ckm_i_dnnl_conv chosen = c->plain;
    chosen.weight = ckm_i_dnnl_any(&c->plain.weight);
    if (blocked) {
        chosen.src = ckm_i_dnnl_any(&c->plain.src);
        chosen.dst = ckm_i_dnnl_any(&c->plain.dst);
    }
    CKM_I_CHECK(find_primitive(cpu, &chosen, out, err));
    // oneDNN's plain loops are made to be read and not to be run.
    if (*out != NULL && (ckm_i_dnnl_allocates(*out) || ckm_i_dnnl_is(*out, "ref"))) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    return CKM_OK;
}

static ckm_status build(const conv *c, const_dnnl_primitive_desc_t pd, ckm_i_dnnl_sequence *sequence, ckm_error *err)
{
    ckm_i_dnnl_arg src = {.arg = DNNL_ARG_SRC, .plain = &c->plain.src};
    ckm_i_dnnl_arg weight = {.arg = DNNL_ARG_WEIGHTS, .plain = &c->plain.weight};
    ckm_i_dnnl_arg dst = {.arg = DNNL_ARG_DIFF_DST, .plain = &c->plain.dst};
    ckm_i_dnnl_arg bias = {.arg = DNNL_ARG_BIAS, .place = CKM_I_DNNL_IN(2), .plain = &c->plain.bias};
    dnnl_query_t want_src = dnnl_query_src_md;
    dnnl_query_t want_weight = dnnl_query_weights_md;
    dnnl_query_t want_dst = dnnl_query_diff_dst_md;
    switch (c->plain.direction) {
    case CKM_I_DNNL_FORWARD:
        dst.arg = DNNL_ARG_DST;
        want_dst = dnnl_query_dst_md;
        src.place = CKM_I_DNNL_IN(0);
        weight.place = CKM_I_DNNL_IN(1);
        dst.place = CKM_I_DNNL_OUT(0);
        break;
    case CKM_I_DNNL_BACKWARD_DATA:
        src.arg = DNNL_ARG_DIFF_SRC;
        want_src = dnnl_query_diff_src_md;
        dst.place = CKM_I_DNNL_IN(0);
        weight.place = CKM_I_DNNL_IN(1);
        src.place = CKM_I_DNNL_OUT(0);
        break;
    case CKM_I_DNNL_BACKWARD_WEIGHTS:
        weight.arg = DNNL_ARG_DIFF_WEIGHTS;
        want_weight = dnnl_query_diff_weights_md;
        dst.place = CKM_I_DNNL_IN(0);
        src.place = CKM_I_DNNL_IN(1);
        weight.place = CKM_I_DNNL_OUT(0);
        break;
    }
    src.wanted = ckm_i_guard_format(pd, want_src);
    weight.wanted = ckm_i_guard_format(pd, want_weight);
    dst.wanted = ckm_i_guard_format(pd, want_dst);
    ckm_i_dnnl_arg args[] = {src, weight, dst, bias};
    return ckm_i_dnnl_sequence_add(sequence, pd, args, c->bias ? 4 : 3, err);
}

// ---- backward data as a forward convolution of dy, the weights turned by 180 degrees and their channels exchanged

// False when there is no such convolution.
static bool turn(const ckm_i_op_view *v, const conv *c, conv *turned)
{
    ckm_i_dnnl_tensor weight = c->plain.weight;
    for (int i = 0; i < 2; i++) {
        weight.dims[i] = c->plain.weight.dims[1 - i];
        weight.strides[i] = c->plain.weight.strides[1 - i];
    }
    *turned = (conv){.n = c->n, .groups = 1};
    turned->plain = (ckm_i_dnnl_conv){
        .direction = CKM_I_DNNL_FORWARD, .src = c->plain.dst, .weight = weight, .dst = c->plain.src};
    bool is_one = c->plain.direction == CKM_I_DNNL_BACKWARD_DATA && !c->plain.transposed && c->groups == 1 &&
                  v->graph->layout == CKM_CHANNELS_LAST && weight_bytes(c) < LARGE_WEIGHT_BYTES;
    for (int32_t i = 0; i < c->n; i++) {
        int64_t reach = (c->kernel[i] - 1) * (c->plain.dilates[i] + 1);
        turned->kernel[i] = c->kernel[i];
        turned->plain.strides[i] = 1;
        turned->plain.dilates[i] = c->plain.dilates[i];
        turned->plain.begin[i] = reach - c->plain.begin[i];
        turned->plain.end[i] = reach - c->plain.end[i];
        is_one = is_one && c->plain.strides[i] == 1 && turned->plain.begin[i] >= 0 && turned->plain.end[i] >= 0;
    }
    return is_one;
}

// Appends reorders that write the weights into the format `wanted`, tap by tap: the last becomes the first.
static ckm_status turn_weights(const conv *c, const ckm_i_dnnl_format *wanted, ckm_i_dnnl_sequence *sequence,
                               ckm_i_dnnl_place place, ckm_error *err)
{
    const ckm_i_dnnl_tensor *plain = &c->plain.weight;
    int64_t taps = 1;
    for (int32_t i = 0; i < c->n; i++) {
        taps *= c->kernel[i];
    }
    for (int64_t tap = 0; tap < taps; tap++) {
        dnnl_dims_t size = {plain->dims[0], plain->dims[1]};
        dnnl_dims_t from_at = {0};
        dnnl_dims_t to_at = {0};
        int64_t rest = tap;
        for (int32_t i = c->n; i-- > 0;) {
            size[2 + i] = 1;
            from_at[2 + i] = rest % c->kernel[i];
            to_at[2 + i] = c->kernel[i] - 1 - from_at[2 + i];
            rest /= c->kernel[i];
        }
        ckm_i_dnnl_block from = {.plain = plain, .size = size, .at = from_at};
        ckm_i_dnnl_block to = {.wanted = wanted, .size = size, .at = to_at};
        CKM_I_CHECK(ckm_i_dnnl_sequence_reorder(sequence, from, CKM_I_DNNL_IN(1), to, place, err));
    }
    return CKM_OK;
}

// oneDNN's forward convolutions on channels-last images multiply small matrices ("brgconv"), which is half as fast
// again as what it has for backward data; those for AVX2 are faster on wide images. Leaves `kernel` alone when there is
// none, and where channels would be padded: turning tap by tap would not write what is added.
static ckm_status prepare_turned(const ckm_i_cpu *cpu, const ckm_i_op_view *v, const conv *c, ckm_i_kernel *kernel,
                                 ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_desc_t pd = NULL;
    ckm_i_dnnl_sequence *sequence = NULL;
    conv turned;
    ckm_i_dnnl_place place;
    if (!turn(v, c, &turned)) {
        return CKM_OK;
    }
    CKM_I_TRY(choose_formats(cpu, &turned, false, &pd, err));
    bool wide = turned.plain.dst.dims[turned.plain.dst.rank - 1] > NARROW;
    if (pd == NULL || !(ckm_i_dnnl_is(pd, "brgconv") || (wide && ckm_i_dnnl_is(pd, "jit:avx2")))) {
        goto cleanup;
    }
    const ckm_i_dnnl_format *wanted = ckm_i_guard_format(pd, dnnl_query_weights_md);
    int64_t bytes = (int64_t)ckm_i_guard_format_bytes(wanted);
    if (bytes != weight_bytes(c)) {
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_dnnl_sequence_create(cpu, &sequence, err));
    CKM_I_TRY(ckm_i_dnnl_sequence_room(sequence, bytes, &place, err));
    CKM_I_TRY(turn_weights(&turned, wanted, sequence, place, err));
    ckm_i_dnnl_arg args[] = {
        {.arg = DNNL_ARG_SRC, .place = CKM_I_DNNL_IN(0), .plain = &turned.plain.src},
        {.arg = DNNL_ARG_WEIGHTS, .place = place, .wanted = wanted},
        {.arg = DNNL_ARG_DST, .place = CKM_I_DNNL_OUT(0), .plain = &turned.plain.dst},
    };
    CKM_I_TRY(ckm_i_dnnl_sequence_add(sequence, pd, args, 3, err));
    ckm_i_dnnl_sequence_finish(sequence, kernel);
    sequence = NULL;

cleanup:
    ckm_i_dnnl_sequence_free(sequence);
    ckm_i_dnnl_description_free(pd);
    return status;
}

static ckm_status prepare(const ckm_i_cpu *cpu, const ckm_i_op_view *v, conv *c, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_desc_t pd = NULL;
    ckm_i_dnnl_sequence *sequence = NULL;
    if (!read_conv(v, c)) {
        return CKM_OK;
    }
    CKM_I_TRY(prepare_turned(cpu, v, c, kernel, err));
    if (kernel->run != NULL) {
        return CKM_OK;
    }
    if (weight_bytes(c) >= LARGE_WEIGHT_BYTES) {
        return CKM_OK;  // too large to be copied into another format
    }
    bool blocked = want_blocked(v, c);
    for (int attempt = 0; attempt < 2 && pd == NULL; attempt++) {
        CKM_I_TRY(choose_formats(cpu, c, attempt == 0 ? blocked : !blocked, &pd, err));
    }
    if (pd == NULL) {
        goto cleanup;  // not for oneDNN
    }
    CKM_I_TRY(ckm_i_dnnl_sequence_create(cpu, &sequence, err));
    CKM_I_TRY(build(c, pd, sequence, err));
    ckm_i_dnnl_sequence_finish(sequence, kernel);
    sequence = NULL;

cleanup:
    ckm_i_dnnl_sequence_free(sequence);
    ckm_i_dnnl_description_free(pd);
    return status;
}

#define PREPARE(name, which, is_transposed)                                                                    \
    static ckm_status name(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err) \
    {                                                                                                          \
        conv c = {.plain = {.direction = (which), .transposed = (is_transposed)}};                             \
        return prepare(cpu, v, &c, kernel, err);                                                               \
    }
PREPARE(prepare_forward, CKM_I_DNNL_FORWARD, false)
PREPARE(prepare_backward_data, CKM_I_DNNL_BACKWARD_DATA, false)
PREPARE(prepare_backward_weights, CKM_I_DNNL_BACKWARD_WEIGHTS, false)
PREPARE(prepare_transpose_forward, CKM_I_DNNL_FORWARD, true)
PREPARE(prepare_transpose_backward_data, CKM_I_DNNL_BACKWARD_DATA, true)
PREPARE(prepare_transpose_backward_weights, CKM_I_DNNL_BACKWARD_WEIGHTS, true)
#undef PREPARE

const ckm_i_cpu_row ckm_i_cpu_conv[] = {
    {CKM_I_OP_conv, prepare_forward},
    {CKM_I_OP_conv_backward_data, prepare_backward_data},
    {CKM_I_OP_conv_backward_weights, prepare_backward_weights},
    {CKM_I_OP_conv_transpose, prepare_transpose_forward},
    {CKM_I_OP_conv_transpose_backward_data, prepare_transpose_backward_data},
    {CKM_I_OP_conv_transpose_backward_weights, prepare_transpose_backward_weights},
    {0},
};
