// SPDX-License-Identifier: Apache-2.0
// Rules that bring operators into normal form: attributes written out, kinds that others can express replaced.
#include <string.h>

#include "autodiff/lower.h"
#include "base/error.h"

static const ckm_shape *input_shape(const ckm_i_lower *l)
{
    return &l->view.in[0]->shape;
}

static const ckm_shape *output_shape(const ckm_i_lower *l)
{
    return &l->view.graph->tensors[l->op->outputs[0]].shape;
}

// The network may count an axis from the end.
static int64_t axis_of(const ckm_i_lower *l, int64_t fallback)
{
    int64_t axis = ckm_i_op_attr_int(l->op, "axis", 0, fallback);
    return axis < 0 ? axis + input_shape(l)->rank : axis;
}

static void put_axis(ckm_i_lower *l, int64_t fallback)
{
    ckm_i_attrs_put_int(&l->attrs, "axis", axis_of(l, fallback));
}

ckm_status ckm_i_lower_last_axis(ckm_i_lower *l, ckm_error *err)
{
    put_axis(l, -1);
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_first_axis(ckm_i_lower *l, ckm_error *err)
{
    put_axis(l, 0);
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_dense(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put_int(&l->attrs, "transposed", ckm_i_op_attr_int(l->op, "transposed", 0, 0));
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_product(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put_int(&l->attrs, "trans_a", ckm_i_op_attr_int(l->op, "trans_a", 0, 0));
    ckm_i_attrs_put_int(&l->attrs, "trans_b", ckm_i_op_attr_int(l->op, "trans_b", 0, 0));
    return ckm_i_lower_copy(l, err);
}

static ckm_status identity(ckm_i_lower *l, ckm_error *err)
{
    l->kind = "identity";
    l->attrs.n = 0;
    return ckm_i_lower_emit(l, l->inputs, 1, 1, err);
}

// By the running statistics.
static ckm_status batch_norm_apply(ckm_i_lower *l, ckm_error *err)
{
    if (l->n_inputs < 5 || l->inputs[3] < 0 || l->inputs[4] < 0) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "operator \"%.200s\" (batch_norm) has no running mean and variance to predict by",
                           l->op->name);
    }
    ckm_i_attrs_remove(&l->attrs, "momentum");
    l->kind = "batch_norm_apply";
    return ckm_i_lower_emit(l, l->inputs, 5, 1, err);
}

// Training form: the network's further outputs, updated statistics, are written in place.
ckm_status ckm_i_lower_batch_norm(ckm_i_lower *l, ckm_error *err)
{
    int32_t outputs[3];
    put_axis(l, ckm_i_channel_axis(l->view.graph, input_shape(l)->rank));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("epsilon", ckm_i_op_attr_double(l->op, "epsilon", 1e-3)));
    if (l->step->predicts && (l->step->evaluates || ckm_i_op_attr_int(l->op, "training", 0, 0) == 0)) {
        ckm_i_attrs_remove(&l->attrs, "training");
        return batch_norm_apply(l, err);
    }
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("momentum", ckm_i_op_attr_double(l->op, "momentum", 0.99)));
    ckm_i_attrs_remove(&l->attrs, "training");
    CKM_I_CHECK(ckm_i_step_add(l->step,
                               &(ckm_i_step_op){.kind = "batch_norm_train",
                                                .name = l->op->name,
                                                .inputs = {l->inputs, l->n_inputs},
                                                .attrs = &l->attrs,
                                                .n_outputs = 3},
                               outputs, err));
    l->outputs[0] = outputs[0];
    return CKM_OK;
}

// Whether input i is absent or the same for all that is normalized.
static bool is_row(const ckm_i_lower *l, int32_t i, int64_t axis)
{
    const ckm_shape *x = input_shape(l);
    const ckm_shape *s = i < l->n_inputs && l->inputs[i] >= 0 ? &l->view.in[i]->shape : &(ckm_shape){0};
    bool same = true;
    for (int32_t k = 0; k < s->rank - x->rank + axis; k++) {
        same = same && s->dims[k] == 1;
    }
    return same;
}

// y takes the operand, whose shape broadcasts, if there is one.
static ckm_status apply(ckm_i_lower *l, const char *kind, const char *suffix, int32_t i, int32_t *y, ckm_error *err)
{
    ckm_i_attrs none = {0};
    if (i >= l->n_inputs || l->inputs[i] < 0) {
        return CKM_OK;
    }
    int32_t operands[2] = {*y, l->inputs[i]};
    return ckm_i_step_add(l->step,
                          &(ckm_i_step_op){.kind = kind,
                                           .name = l->op->name,
                                           .suffix = suffix,
                                           .inputs = {operands, 2},
                                           .attrs = &none,
                                           .n_outputs = 1},
                          y, err);
}

// The statistics are kept for the backward pass. A scale or bias with axes that are not normalized is an operator of its
// own.
ckm_status ckm_i_lower_layer_norm(ckm_i_lower *l, ckm_error *err)
{
    int32_t outputs[3];
    put_axis(l, -1);
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("epsilon", ckm_i_op_attr_double(l->op, "epsilon", 1e-5)));
    int64_t axis = axis_of(l, -1);
    if (!is_row(l, 1, axis) || !is_row(l, 2, axis)) {
        CKM_I_CHECK(ckm_i_step_add(l->step,
                                   &(ckm_i_step_op){.kind = "layer_norm",
                                                    .name = l->op->name,
                                                    .inputs = {l->inputs, 1},
                                                    .attrs = &l->attrs,
                                                    .n_outputs = 3},
                                   outputs, err));
        CKM_I_CHECK(apply(l, "mul", ":scale", 1, &outputs[0], err));
        CKM_I_CHECK(apply(l, "add", ":bias", 2, &outputs[0], err));
        memcpy(l->outputs, outputs, (size_t)l->n_outputs * sizeof *outputs);
        return CKM_OK;
    }
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, 3, err);
}

ckm_status ckm_i_lower_group_norm(ckm_i_lower *l, ckm_error *err)
{
    int32_t rank = input_shape(l)->rank;
    int64_t channels = input_shape(l)->dims[ckm_i_channel_axis(l->view.graph, rank)];
    ckm_i_attrs_put_int(&l->attrs, "groups", ckm_i_op_attr_int(l->op, "groups", 0, channels));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("epsilon", ckm_i_op_attr_double(l->op, "epsilon", 1e-5)));
    l->kind = "group_norm";
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, 3, err);
}

ckm_status ckm_i_lower_rms_norm(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("epsilon", ckm_i_op_attr_double(l->op, "epsilon", 1e-6)));
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, 2, err);
}

ckm_status ckm_i_lower_rotary(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("base", ckm_i_op_attr_double(l->op, "base", 10000.0)));
    ckm_i_attrs_put_int(&l->attrs, "inverse", ckm_i_op_attr_int(l->op, "inverse", 0, 0));
    return ckm_i_lower_copy(l, err);
}

// Borders of the spatial axes as pads of all axes.
ckm_status ckm_i_lower_border(ckm_i_lower *l, ckm_error *err)
{
    int32_t rank = input_shape(l)->rank;
    int32_t n = rank - 2;
    int32_t first = ckm_i_spatial_axis(l->view.graph);
    int64_t sign = l->op->op_class->id == CKM_I_OP_cropping ? -1 : 1;
    int64_t pads[2 * CKM_MAX_RANK] = {0};
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        pads[first + i] = sign * ckm_i_op_attr_int(l->op, "pads", i, 0);
        pads[first + i + rank] = sign * ckm_i_op_attr_int(l->op, "pads", i + n, 0);
        any = any || pads[first + i] != 0 || pads[first + i + rank] != 0;
    }
    if (!any) {
        return identity(l, err);
    }
    l->attrs.n = 0;
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("pads", pads, 2 * rank));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_word("mode", "constant"));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("value", 0.0));
    l->kind = "pad";
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_pad(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_word("mode", ckm_i_op_attr_text(l->op, "mode", "constant")));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("value", ckm_i_op_attr_double(l->op, "value", 0.0)));
    return ckm_i_lower_copy(l, err);
}

static ckm_status resample(ckm_i_lower *l, const char *mode, const char *coordinates, const char *rounding,
                           ckm_error *err)
{
    if (ckm_i_shapes_equal(input_shape(l), output_shape(l))) {
        return identity(l, err);
    }
    double cubic = ckm_i_op_attr_double(l->op, "cubic_a", -0.75);
    l->attrs.n = 0;
    ckm_i_attrs_put_shape(&l->attrs, "size", output_shape(l));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_word("mode", mode));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_word("coordinates", coordinates));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_word("rounding", rounding));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("cubic_a", cubic));
    l->kind = "resize";
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_up_sampling(ckm_i_lower *l, ckm_error *err)
{
    bool nearest = strcmp(ckm_i_op_attr_text(l->op, "mode", "nearest"), "nearest") == 0;
    return resample(l, nearest ? "nearest" : "linear", "asymmetric", "floor", err);
}

ckm_status ckm_i_lower_interp(ckm_i_lower *l, ckm_error *err)
{
    return resample(l, "linear", "align_corners", "floor", err);
}

ckm_status ckm_i_lower_resize(ckm_i_lower *l, ckm_error *err)
{
    const char *mode = ckm_i_op_attr_text(l->op, "mode", "nearest");
    const char *coordinates = ckm_i_op_attr_text(l->op, "coordinates", "half_pixel");
    return resample(l, mode, coordinates, ckm_i_op_attr_text(l->op, "rounding", "round_prefer_floor"), err);
}

// Functions that the zoo's networks give by name.
ckm_status ckm_i_lower_lambda(ckm_i_lower *l, ckm_error *err)
{
    const char *text = ckm_i_op_attr_text(l->op, "text", "");
    if (strncmp(text, "resize_images(", 14) == 0) {
        return resample(l, strstr(text, "bilinear") != NULL ? "linear" : "nearest", "asymmetric", "floor", err);
    }
    if (strcmp(text, "slice") == 0) {
        int64_t starts[CKM_MAX_RANK] = {0};
        int64_t steps[CKM_MAX_RANK];
        for (int32_t i = 0; i < CKM_MAX_RANK; i++) {
            steps[i] = 1;
        }
        l->kind = "slice";
        l->attrs.n = 0;
        ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("starts", starts, input_shape(l)->rank));
        ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("steps", steps, input_shape(l)->rank));
        ckm_i_attrs_put_shape(&l->attrs, "sizes", output_shape(l));
        return ckm_i_lower_copy(l, err);
    }
    return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                       "operator \"%.200s\" (lambda) does \"%.60s\", which no operator computes", l->op->name, text);
}

ckm_status ckm_i_lower_dropout(ckm_i_lower *l, ckm_error *err)
{
    double rate = ckm_i_op_attr_double(l->op, "rate", 0.5);
    if (l->step->predicts && !l->step->evaluates && ckm_i_op_attr_int(l->op, "training", 0, 0) != 0) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "operator \"%.200s\" (dropout) is in training mode, so its result is random: export the "
                           "network in evaluation mode",
                           l->op->name);
    }
    if (rate <= 0.0 || l->step->predicts) {
        return identity(l, err);
    }
    l->attrs.n = 0;
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("rate", rate));
    ckm_i_attrs_put_int(&l->attrs, "key", l->step->graph->n_ops);
    return ckm_i_lower_emit(l, l->inputs, 1, 1, err);
}

// The number that each row keeps is there for the backward pass.
ckm_status ckm_i_lower_attention(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put_int(&l->attrs, "key", l->step->graph->n_ops);
    if (l->step->predicts) {
        ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("rate", 0.0));
    }
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, 2, err);
}

ckm_status ckm_i_lower_clip(ckm_i_lower *l, ckm_error *err)
{
    bool limited = ckm_i_op_attr(l->op, "min") != NULL || ckm_i_op_attr(l->op, "max") != NULL || l->n_inputs > 1;
    return limited ? ckm_i_lower_copy(l, err) : identity(l, err);
}

ckm_status ckm_i_lower_cast(ckm_i_lower *l, ckm_error *err)
{
    ckm_dtype from = l->view.in[0]->dtype;
    return (ckm_dtype)ckm_i_op_attr_int(l->op, "dtype", 0, (int64_t)from) == from ? identity(l, err)
                                                                                  : ckm_i_lower_copy(l, err);
}

// Kernels take this many operands; more are joined one after the other, which gives the same bits in the same order.
enum { MOST_OPERANDS = 16 };

// Replaces all but the last operands by what `kind` makes of them, until MOST_OPERANDS are left.
static ckm_status join_first(ckm_i_lower *l, const char *kind, ckm_error *err)
{
    int32_t *left = l->inputs;
    for (; l->n_inputs > MOST_OPERANDS; l->n_inputs -= MOST_OPERANDS - 1) {
        int32_t joined;
        CKM_I_CHECK(ckm_i_step_add(
            l->step,
            &(ckm_i_step_op){
                .kind = kind, .name = l->op->name, .suffix = ":part", .inputs = {left, MOST_OPERANDS}, .n_outputs = 1},
            &joined, err));
        left += MOST_OPERANDS - 1;
        left[0] = joined;
    }
    memmove(l->inputs, left, (size_t)l->n_inputs * sizeof *left);
    return CKM_OK;
}

ckm_status ckm_i_lower_wide(ckm_i_lower *l, ckm_error *err)
{
    CKM_I_CHECK(join_first(l, l->kind, err));
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_sum(ckm_i_lower *l, ckm_error *err)
{
    if (l->n_inputs == 1) {
        return identity(l, err);
    }
    l->kind = "add";
    return ckm_i_lower_wide(l, err);
}

ckm_status ckm_i_lower_mean(ckm_i_lower *l, ckm_error *err)
{
    int32_t total;
    double n = (double)l->n_inputs;
    if (l->n_inputs == 1) {
        return identity(l, err);
    }
    CKM_I_CHECK(join_first(l, "add", err));
    CKM_I_CHECK(ckm_i_step_add(
        l->step,
        &(ckm_i_step_op){
            .kind = "add", .name = l->op->name, .suffix = ":sum", .inputs = {l->inputs, l->n_inputs}, .n_outputs = 1},
        &total, err));
    l->kind = "scale";
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_real("alpha", 1.0 / n));
    return ckm_i_lower_emit(l, &total, 1, 1, err);
}

ckm_status ckm_i_lower_concat(ckm_i_lower *l, ckm_error *err)
{
    int32_t rank = input_shape(l)->rank;
    put_axis(l, rank >= 2 ? ckm_i_channel_axis(l->view.graph, rank) : 0);
    return ckm_i_lower_copy(l, err);
}

// Axes written out, ascending as they come; all of them when the network names none.
ckm_status ckm_i_lower_reduce(ckm_i_lower *l, ckm_error *err)
{
    const ckm_i_attr *given = ckm_i_op_attr(l->op, "axes");
    int64_t axes[CKM_MAX_RANK];
    int32_t rank = input_shape(l)->rank;
    int32_t n = given != NULL ? given->n : rank;
    for (int32_t i = 0; i < n; i++) {
        axes[i] = given == NULL ? i : given->ints[i] < 0 ? given->ints[i] + rank : given->ints[i];
    }
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("axes", axes, n));
    ckm_i_attrs_put_int(&l->attrs, "keepdims", ckm_i_op_attr_int(l->op, "keepdims", 0, 1));
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_top_k(ckm_i_lower *l, ckm_error *err)
{
    put_axis(l, -1);
    return ckm_i_lower_emit(l, l->inputs, 1, 2, err);
}

ckm_status ckm_i_lower_transpose(ckm_i_lower *l, ckm_error *err)
{
    int64_t perm[CKM_MAX_RANK];
    int32_t rank = input_shape(l)->rank;
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = ckm_i_op_attr_int(l->op, "perm", i, rank - 1 - i);
    }
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("perm", perm, rank));
    return ckm_i_lower_copy(l, err);
}

// Reshapes to the shape that came out.
ckm_status ckm_i_lower_reshape(ckm_i_lower *l, ckm_error *err)
{
    l->kind = "reshape";
    l->attrs.n = 0;
    ckm_i_attrs_put_shape(&l->attrs, "shape", output_shape(l));
    return ckm_i_lower_emit(l, l->inputs, 1, 1, err);
}

// "dcr" and "crd": the order of what depth holds.
ckm_status ckm_i_lower_blocks(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_word("mode", ckm_i_op_attr_text(l->op, "mode", "dcr")));
    return ckm_i_lower_copy(l, err);
}

ckm_status ckm_i_lower_cumulative_sum(ckm_i_lower *l, ckm_error *err)
{
    put_axis(l, 0);
    ckm_i_attrs_put_int(&l->attrs, "exclusive", ckm_i_op_attr_int(l->op, "exclusive", 0, 0));
    ckm_i_attrs_put_int(&l->attrs, "reverse", ckm_i_op_attr_int(l->op, "reverse", 0, 0));
    return ckm_i_lower_copy(l, err);
}
