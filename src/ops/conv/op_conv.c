// SPDX-License-Identifier: Apache-2.0
// Convolutions: conv, conv_transpose, separable_conv. A depthwise convolution is a conv with as many groups
// as input channels.
#include "base/checked.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_window.h"
#include "ops/gradients.h"

typedef struct conv_facts {
    ckm_i_window window;
    int64_t groups;
    int64_t in_per_group;  // input channels of one filter
    int64_t out_channels;
} conv_facts;

// The weight's axes: positions of the kernel, the input and the output channels.
typedef struct weight_axes {
    int32_t kernel, in, out;
} weight_axes;

static weight_axes axes_of_weight(const ckm_i_op_view *v, int32_t spatial, bool transposed)
{
    weight_axes axes;
    if (v->graph->layout == CKM_CHANNELS_LAST) {
        axes = (weight_axes){.kernel = 0, .in = spatial, .out = spatial + 1};
    } else {
        axes = (weight_axes){.kernel = 2, .in = 1, .out = 0};
    }
    if (transposed) {
        int32_t in = axes.in;
        axes.in = axes.out;
        axes.out = in;
    }
    return axes;
}

static ckm_status check_bias(const ckm_i_op_view *v, int32_t i, int64_t channels, ckm_error *err)
{
    if (i >= v->op->n_inputs || v->in[i] == NULL) {
        return CKM_OK;
    }
    const ckm_shape *bias = &v->in[i]->shape;
    int64_t elements;
    CKM_I_CHECK(ckm_i_op_elements(v, bias, &elements, err));
    if (elements != channels) {
        char text[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the bias is %s; it must hold %lld elements",
                              ckm_i_shape_text(bias, text, sizeof text), (long long)channels);
    }
    return CKM_OK;
}

static ckm_status check_rank_of_weight(const ckm_i_op_view *v, int32_t i, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, CKM_MAX_RANK, err));
    int32_t rank = v->in[0]->shape.rank;
    return ckm_i_op_check_rank(v, i, rank, rank, err);
}

static ckm_status error_channels(const ckm_i_op_view *v, int64_t channels, int64_t groups, const ckm_shape *weight,
                                 ckm_error *err)
{
    char text[256];
    return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%lld input channels in %lld groups do not fit a weight of %s",
                          (long long)channels, (long long)groups, ckm_i_shape_text(weight, text, sizeof text));
}

// ---- conv

static ckm_status conv_read(const ckm_i_op_view *v, conv_facts *c, ckm_error *err)
{
    CKM_I_CHECK(check_rank_of_weight(v, 1, err));
    const ckm_shape *weight = &v->in[1]->shape;
    weight_axes axes = axes_of_weight(v, weight->rank - 2, false);
    CKM_I_CHECK(ckm_i_window_read(v, &weight->dims[axes.kernel], &c->window, err));
    CKM_I_CHECK(ckm_i_op_int(v, "groups", 1, INT64_MAX, 1, &c->groups, err));
    c->in_per_group = weight->dims[axes.in];
    c->out_channels = weight->dims[axes.out];
    if (c->window.channels % c->groups != 0 || c->window.channels / c->groups != c->in_per_group ||
        c->out_channels % c->groups != 0) {
        return error_channels(v, c->window.channels, c->groups, weight, err);
    }
    return check_bias(v, 2, c->out_channels, err);
}

static ckm_status conv_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    conv_facts c;
    CKM_I_CHECK(conv_read(v, &c, err));
    dtypes[0] = v->in[0]->dtype;
    return ckm_i_window_shape(v, &c.window, c.out_channels, false, &shapes[0], err);
}

// Kernel elements times `channels`.
static ckm_status kernel_volume(const ckm_i_op_view *v, const ckm_i_window *w, int64_t channels, int64_t *out,
                                ckm_error *err)
{
    int64_t volume = channels;
    for (int32_t i = 0; i < w->n; i++) {
        if (!ckm_i_mul(volume, w->kernel[i], &volume)) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
        }
    }
    *out = volume;
    return CKM_OK;
}

static ckm_status conv_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    conv_facts c;
    int64_t volume = 0;
    CKM_I_CHECK(conv_read(v, &c, err));
    CKM_I_CHECK(kernel_volume(v, &c.window, c.in_per_group, &volume, err));
    return ckm_i_op_macs_per_output(v, volume, macs, err);
}

// ---- conv_transpose

// `fixed` is the size asked for, or 0. Training works out the padding from the size without any, so that must fit, too.
static ckm_status transpose_axis(const ckm_i_op_view *v, const ckm_i_window *w, int32_t i, int64_t extra, int64_t fixed,
                                 int64_t *out, ckm_error *err)
{
    int64_t size = v->in[0]->shape.dims[w->spatial_axis + i];
    int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t same = 0;
    int64_t unpadded = 0;
    bool fits = ckm_i_mul(size, w->stride[i], &same) && ckm_i_add(same, extent + extra - w->stride[i], &unpadded);
    int64_t result = w->padding == CKM_I_PAD_SAME ? same : unpadded - w->pads[i] - w->pads[w->n + i];
    result = fixed > 0 ? fixed : result;
    if (!fits || result < 1) {
        return ckm_i_op_error(v, err, fits ? CKM_ERR_FORMAT : CKM_ERR_OVERFLOW, "spatial axis %d: the output %s",
                              (int)i, fits ? "would be empty" : "is too large");
    }
    *out = result;
    return CKM_OK;
}

static ckm_status transpose_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(check_rank_of_weight(v, 1, err));
    const ckm_shape *weight = &v->in[1]->shape;
    weight_axes axes = axes_of_weight(v, weight->rank - 2, true);
    ckm_i_window w;
    int64_t groups = 1;
    int64_t extra[CKM_I_MAX_SPATIAL];
    int64_t fixed[CKM_I_MAX_SPATIAL];
    int64_t channels;
    CKM_I_CHECK(ckm_i_window_read(v, &weight->dims[axes.kernel], &w, err));
    CKM_I_CHECK(ckm_i_op_int(v, "groups", 1, INT64_MAX, 1, &groups, err));
    CKM_I_CHECK(ckm_i_op_list(v, "output_padding", w.n, 0, CKM_I_WINDOW_LIMIT, 0, extra, err));
    CKM_I_CHECK(ckm_i_op_list(v, "output_size", w.n, 1, INT64_MAX, 0, fixed, err));
    if (w.channels != weight->dims[axes.in] || w.channels % groups != 0 ||
        !ckm_i_mul(weight->dims[axes.out], groups, &channels)) {
        return error_channels(v, w.channels, groups, weight, err);
    }
    CKM_I_CHECK(check_bias(v, 2, channels, err));
    ckm_shape shape = v->in[0]->shape;
    for (int32_t i = 0; i < w.n; i++) {
        CKM_I_CHECK(transpose_axis(v, &w, i, extra[i], fixed[i], &shape.dims[w.spatial_axis + i], err));
    }
    shape.dims[w.channel_axis] = channels;
    shapes[0] = shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// Input channels per output element: the paper's cost model leaves the kernel size out here.
static ckm_status transpose_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    const ckm_shape *x = &v->in[0]->shape;
    return ckm_i_op_macs_per_output(v, x->dims[ckm_i_channel_axis(v->graph, x->rank)], macs, err);
}

// ---- separable_conv: a depthwise convolution, then a pointwise one

typedef struct separable_facts {
    ckm_i_window window;
    int64_t middle;  // channels between the two
    int64_t out_channels;
    ckm_shape middle_shape;
} separable_facts;

static ckm_status separable_read(const ckm_i_op_view *v, separable_facts *s, ckm_error *err)
{
    CKM_I_CHECK(check_rank_of_weight(v, 1, err));
    CKM_I_CHECK(check_rank_of_weight(v, 2, err));
    const ckm_shape *depthwise = &v->in[1]->shape;
    const ckm_shape *pointwise = &v->in[2]->shape;
    weight_axes axes = axes_of_weight(v, depthwise->rank - 2, false);
    CKM_I_CHECK(ckm_i_window_read(v, &depthwise->dims[axes.kernel], &s->window, err));
    s->middle = depthwise->dims[axes.out];
    s->out_channels = pointwise->dims[axes.out];
    if (depthwise->dims[axes.in] != 1 || s->middle % s->window.channels != 0) {
        return error_channels(v, s->window.channels, s->window.channels, depthwise, err);
    }
    if (pointwise->dims[axes.in] != s->middle) {
        return error_channels(v, s->middle, 1, pointwise, err);
    }
    for (int32_t i = 0; i < s->window.n; i++) {
        if (pointwise->dims[axes.kernel + i] != 1) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the pointwise weight has a kernel of %lld on axis %d, not 1",
                                  (long long)pointwise->dims[axes.kernel + i], (int)i);
        }
    }
    CKM_I_CHECK(check_bias(v, 3, s->out_channels, err));
    return ckm_i_window_shape(v, &s->window, s->middle, false, &s->middle_shape, err);
}

static ckm_status separable_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    separable_facts s;
    CKM_I_CHECK(separable_read(v, &s, err));
    shapes[0] = s.middle_shape;
    shapes[0].dims[s.window.channel_axis] = s.out_channels;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status separable_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    separable_facts s;
    int64_t volume;
    int64_t elements;
    int64_t pointwise;
    CKM_I_CHECK(separable_read(v, &s, err));
    CKM_I_CHECK(kernel_volume(v, &s.window, 1, &volume, err));
    CKM_I_CHECK(ckm_i_op_elements(v, &s.middle_shape, &elements, err));
    CKM_I_CHECK(ckm_i_op_macs_per_output(v, s.middle, &pointwise, err));
    int64_t total;
    if (!ckm_i_mul(elements, volume, &total) || !ckm_i_add(total, pointwise, &total)) {
        return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
    }
    *macs = total;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_conv[] = {
    {CKM_I_OP(conv, 2, 3, 1, conv_infer, conv_macs), CKM_I_OP_TRAITS(CONVOLUTION, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_FILTER, .of[1] = CKM_I_INIT_HE}, .lower = ckm_i_lower_conv,
     CKM_I_OP_LEARNS(ckm_i_grad_of_conv)},
    {CKM_I_OP(conv_transpose, 2, 3, 1, transpose_infer, transpose_macs),
     CKM_I_OP_TRAITS(TRANSPOSED, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_TRANSPOSED_FILTER, .of[1] = CKM_I_INIT_GLOROT},
     .lower = ckm_i_lower_conv_transpose, CKM_I_OP_LEARNS(ckm_i_grad_of_conv)},
    {CKM_I_OP(separable_conv, 3, 4, 1, separable_infer, separable_macs), CKM_I_OP_PLAIN(CONVOLUTION, NONE),
     .lower = ckm_i_lower_separable_conv, CKM_I_OP_REWRITTEN},
    {0},
};
