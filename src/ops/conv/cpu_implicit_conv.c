// SPDX-License-Identifier: Apache-2.0
// Convolutions as matrix products whose operands are gathered from the images while they are packed ("implicit GEMM"):
// no matrix of patches is ever written, so all the memory this takes is the product's blocks. For what oneDNN has no
// kernel that does not allocate: most backward passes on processors without AVX2, some with, and layers
// whose weights are too large to be copied into another format.
//
// The depth of a product goes over taps, and within a tap over channels; the products of each map are, in the
// layout's order of memory,
//                   channels last                                channels first, for every sample
//     forward       y(position, out) = x(position, tap in) w       y(out, position) = w x(tap in, position)
//     to data       dx(position, in) = dy(position, tap out) w'    dx(in, position) = w' dy(tap out, position)
//     to weights    dw(tap in, out) = x(position, tap in)' dy      dw(out, in tap) = dy x(position, in tap)
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_gemm.h"
#include "run/cpu/cpu_support.h"
#include "ops/conv/ref_conv_core.h"

enum { AXES = 3, MOST_WIDTH = 32 };

typedef struct conv {
    ckm_i_conv_map map;
    const ckm_i_conv_role *role;
    bool channels_last;
    int64_t groups, batch;
    int64_t in_channels, out_channels, in_group, out_group;
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], begin[AXES];
    int64_t in_size, out_size, taps;
    int32_t bias_input;  // -1: none
    ckm_i_gemm_plan product;
} conv;

// What the packing functions see.
typedef struct operands {
    const conv *c;
    const float *image;  // that windows are gathered from
    const float *other;  // weights, or dy
} operands;

// ---- positions

typedef struct position {
    int64_t sample, at[AXES];
} position;

static position position_of(const int64_t *size, int64_t index)
{
    position p = {0};
    for (int i = AXES; i-- > 0;) {
        p.at[i] = index % size[i];
        index /= size[i];
    }
    p.sample = index;
    return p;
}

static void advance(const int64_t *size, position *p)
{
    for (int i = AXES; i-- > 0;) {
        if (++p->at[i] < size[i]) {
            return;
        }
        p->at[i] = 0;
    }
    p->sample++;
}

static void tap_of(const conv *c, int64_t index, int64_t *tap)
{
    position p = position_of(c->kernel, index);
    memcpy(tap, p.at, sizeof p.at);
}

// Where tap `tap` of the window at `at` reads, within a sample; -1 in the padding.
static int64_t read_by(const conv *c, const int64_t *at, const int64_t *tap)
{
    int64_t index = 0;
    for (int i = 0; i < AXES; i++) {
        int64_t x = at[i] * c->stride[i] + tap[i] * c->dilation[i] - c->begin[i];
        if (x < 0 || x >= c->in[i]) {
            return -1;
        }
        index = index * c->in[i] + x;
    }
    return index;
}

// The window whose tap `tap` reads position `at`; -1 when there is none.
static int64_t reader_of(const conv *c, const int64_t *at, const int64_t *tap)
{
    int64_t index = 0;
    for (int i = 0; i < AXES; i++) {
        int64_t x = at[i] + c->begin[i] - tap[i] * c->dilation[i];
        if (x < 0 || x % c->stride[i] != 0 || x / c->stride[i] >= c->out[i]) {
            return -1;
        }
        index = index * c->out[i] + x / c->stride[i];
    }
    return index;
}

// What a product over positions gathers from: forward the input, to data dy.
typedef struct gathered {
    const int64_t *positions;  // that the rows or columns of the product are
    int64_t size;              // of a sample of the image
    int64_t channels, group;   // of the image
    bool inverse;
} gathered;

static gathered gather_for(const conv *c)
{
    return c->map == CKM_I_CONV_TO_DATA ? (gathered){c->in, c->out_size, c->out_channels, c->out_group, true}
                                        : (gathered){c->out, c->in_size, c->in_channels, c->in_group, false};
}

static int64_t find(const conv *c, const gathered *g, const position *p, const int64_t *tap)
{
    return g->inverse ? reader_of(c, p->at, tap) : read_by(c, p->at, tap);
}

// ---- channels last

// Rows of a are positions: (tap, channel) of their windows.
static void pack_windows_last(const void *context, int64_t group, int64_t first, int64_t count, int64_t k0,
                              int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    gathered g = gather_for(c);
    position at[MOST_WIDTH];
    at[0] = position_of(g.positions, first);
    for (int64_t i = 1; i < count; i++) {
        at[i] = at[i - 1];
        advance(g.positions, &at[i]);
    }
    for (int64_t k = 0; k < depth;) {
        int64_t tap[AXES];
        int64_t channel = (k0 + k) % g.group;
        int64_t run = g.group - channel < depth - k ? g.group - channel : depth - k;
        tap_of(c, (k0 + k) / g.group, tap);
        for (int64_t i = 0; i < width; i++) {
            int64_t index = i < count ? find(c, &g, &at[i], tap) : -1;
            float *to = panel + k * width + i;
            if (index < 0) {
                for (int64_t x = 0; x < run; x++) {
                    to[x * width] = 0.0F;
                }
                continue;
            }
            const float *from = o->image + (at[i].sample * g.size + index) * g.channels + group * g.group + channel;
            for (int64_t x = 0; x < run; x++) {
                to[x * width] = from[x];
            }
        }
        k += run;
    }
}

// b(tap out, in) = w[tap][in][out]
static void pack_turned_weights_last(const void *context, int64_t group, int64_t first, int64_t count, int64_t k0,
                                     int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    for (int64_t k = 0; k < depth;) {
        int64_t tap = (k0 + k) / c->out_group;
        int64_t out = (k0 + k) % c->out_group;
        int64_t run = c->out_group - out < depth - k ? c->out_group - out : depth - k;
        for (int64_t i = 0; i < width; i++) {
            const float *from = o->other + (tap * c->in_group + first + i) * c->out_channels + group * c->out_group +
                                out;
            for (int64_t x = 0; x < run; x++) {
                panel[(k + x) * width + i] = i < count ? from[x] : 0.0F;
            }
        }
        k += run;
    }
}

// a(tap in, position): what each position reads, tap by tap.
static void pack_turned_windows_last(const void *context, int64_t group, int64_t first, int64_t count, int64_t k0,
                                     int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    memset(panel, 0, (size_t)(depth * width) * sizeof *panel);
    for (int64_t i = 0; i < count;) {
        int64_t tap[AXES];
        int64_t channel = (first + i) % c->in_group;
        int64_t run = c->in_group - channel < count - i ? c->in_group - channel : count - i;
        tap_of(c, (first + i) / c->in_group, tap);
        position at = position_of(c->out, k0);
        for (int64_t k = 0; k < depth; k++) {
            int64_t index = read_by(c, at.at, tap);
            if (index >= 0) {
                const float *from = o->image + (at.sample * c->in_size + index) * c->in_channels + group * c->in_group +
                                    channel;
                for (int64_t x = 0; x < run; x++) {
                    panel[k * width + i + x] = from[x];
                }
            }
            advance(c->out, &at);
        }
        i += run;
    }
}

// ---- channels first: batches are samples, then groups

static const float *channel_first(const float *image, int64_t sample, int64_t channels, int64_t channel, int64_t size)
{
    return image + (sample * channels + channel) * size;
}

// Columns of b are positions: (tap, channel) of their windows.
static void pack_windows_first(const void *context, int64_t batch, int64_t first, int64_t count, int64_t k0,
                               int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    gathered g = gather_for(c);
    int64_t sample = batch / c->groups;
    int64_t group = batch % c->groups;
    for (int64_t k = 0; k < depth;) {
        int64_t tap[AXES];
        int64_t index[MOST_WIDTH];
        int64_t channel = (k0 + k) % g.group;
        int64_t run = g.group - channel < depth - k ? g.group - channel : depth - k;
        position at = position_of(g.positions, first);
        tap_of(c, (k0 + k) / g.group, tap);
        for (int64_t j = 0; j < width; j++) {
            index[j] = j < count ? find(c, &g, &at, tap) : -1;
            advance(g.positions, &at);
        }
        for (int64_t x = 0; x < run; x++, k++) {
            const float *from = channel_first(o->image, sample, g.channels, group * g.group + channel + x, g.size);
            for (int64_t j = 0; j < width; j++) {
                panel[k * width + j] = index[j] >= 0 ? from[index[j]] : 0.0F;
            }
        }
    }
}

// Rows of a are output channels (forward) or input channels (to data); w[out][in][tap].
static void pack_weights_first(const void *context, int64_t batch, int64_t first, int64_t count, int64_t k0,
                               int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    bool to_data = c->map == CKM_I_CONV_TO_DATA;
    int64_t channels = to_data ? c->out_group : c->in_group;
    const float *w = o->other + batch % c->groups * c->out_group * c->in_group * c->taps;
    for (int64_t k = 0; k < depth; k++) {
        int64_t tap = (k0 + k) / channels;
        int64_t channel = (k0 + k) % channels;
        for (int64_t i = 0; i < width; i++) {
            int64_t out = to_data ? channel : first + i;
            int64_t in = to_data ? first + i : channel;
            panel[k * width + i] = i < count ? w[(out * c->in_group + in) * c->taps + tap] : 0.0F;
        }
    }
}

// a(out, position) = dy, over the positions of all samples
static void pack_gradient_first(const void *context, int64_t group, int64_t first, int64_t count, int64_t k0,
                                int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    for (int64_t i = 0; i < width; i++) {
        for (int64_t k = 0; k < depth; k++) {
            int64_t sample = (k0 + k) / c->out_size;
            const float *from = channel_first(o->other, sample, c->out_channels, group * c->out_group + first + i,
                                              c->out_size);
            panel[k * width + i] = i < count ? from[(k0 + k) % c->out_size] : 0.0F;
        }
    }
}

// b(position, in tap): what each position reads
static void pack_turned_windows_first(const void *context, int64_t group, int64_t first, int64_t count, int64_t k0,
                                      int64_t depth, int64_t width, float *panel)
{
    const operands *o = context;
    const conv *c = o->c;
    for (int64_t j = 0; j < width; j++) {
        int64_t tap[AXES];
        int64_t in = group * c->in_group + (j < count ? (first + j) / c->taps : 0);
        position at = position_of(c->out, k0);
        tap_of(c, (first + j) % c->taps, tap);
        for (int64_t k = 0; k < depth; k++) {
            int64_t index = j < count ? read_by(c, at.at, tap) : -1;
            const float *from = channel_first(o->image, at.sample, c->in_channels, in, c->in_size);
            panel[k * width + j] = index >= 0 ? from[index] : 0.0F;
            advance(c->out, &at);
        }
    }
}

// ---- the product of each map

static void describe_last(conv *c, ckm_i_gemm *g)
{
    switch (c->map) {
    case CKM_I_CONV_FORWARD:
        *g = (ckm_i_gemm){.m = c->batch * c->out_size, .n = c->out_group, .k = c->taps * c->in_group};
        g->a.pack = pack_windows_last;
        g->b = (ckm_i_gemm_operand){.row = c->out_channels, .column = 1, .batch_steps = {c->out_group}};
        g->ldc = c->out_channels;
        g->c_batch_steps[0] = c->out_group;
        break;
    case CKM_I_CONV_TO_DATA:
        *g = (ckm_i_gemm){.m = c->batch * c->in_size, .n = c->in_group, .k = c->taps * c->out_group};
        g->a.pack = pack_windows_last;
        g->b.pack = pack_turned_weights_last;
        g->ldc = c->in_channels;
        g->c_batch_steps[0] = c->in_group;
        break;
    case CKM_I_CONV_TO_WEIGHTS:
        *g = (ckm_i_gemm){.m = c->taps * c->in_group, .n = c->out_group, .k = c->batch * c->out_size};
        g->a.pack = pack_turned_windows_last;
        g->b = (ckm_i_gemm_operand){.row = c->out_channels, .column = 1, .batch_steps = {c->out_group}};
        g->ldc = c->out_channels;
        g->c_batch_steps[0] = c->out_group;
        break;
    }
    g->n_axes = 1;
    g->axes[0] = c->groups;
}

static void describe_first(conv *c, ckm_i_gemm *g)
{
    bool to_data = c->map == CKM_I_CONV_TO_DATA;
    if (c->map == CKM_I_CONV_TO_WEIGHTS) {
        *g = (ckm_i_gemm){.m = c->out_group, .n = c->in_group * c->taps, .k = c->batch * c->out_size};
        g->a.pack = pack_gradient_first;
        g->b.pack = pack_turned_windows_first;
        g->ldc = g->n;
        g->n_axes = 1;
        g->axes[0] = c->groups;
        g->c_batch_steps[0] = g->m * g->n;
        return;
    }
    *g = (ckm_i_gemm){.m = to_data ? c->in_group : c->out_group,
                      .n = to_data ? c->in_size : c->out_size,
                      .k = (to_data ? c->out_group : c->in_group) * c->taps};
    g->a.pack = pack_weights_first;
    g->b.pack = pack_windows_first;
    g->ldc = g->n;
    g->n_axes = 2;
    g->axes[0] = c->batch;
    g->axes[1] = c->groups;
    g->c_batch_steps[0] = (to_data ? c->in_channels : c->out_channels) * g->n;
    g->c_batch_steps[1] = g->m * g->n;
}

// ---- the kernel

static const float *input(const ckm_i_kernel_call *call, ckm_i_conv_port at)
{
    return call->inputs[at.index];
}

static ckm_status run_conv(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                           ckm_error *err)
{
    (void)err;
    const conv *c = kernel->data;
    operands o = {.c = c};
    ckm_i_gemm_data data = {0};
    switch (c->map) {
    case CKM_I_CONV_FORWARD:
        o.image = input(call, c->role->large);
        o.other = input(call, c->role->weight);
        break;
    case CKM_I_CONV_TO_DATA:
        o.image = input(call, c->role->small);
        o.other = input(call, c->role->weight);
        break;
    case CKM_I_CONV_TO_WEIGHTS:
        o.image = input(call, c->role->large);
        o.other = input(call, c->role->small);
        break;
    }
    data.context = &o;
    data.b = o.other;
    data.c = call->outputs[0];
    const float *bias = c->bias_input >= 0 ? call->inputs[c->bias_input] : NULL;
    bool by_column = c->channels_last && c->groups == 1;
    data.bias = by_column ? bias : NULL;
    ckm_i_gemm_run(&c->product, &data, cpu->threads, call->workspace);
    if (bias != NULL && !by_column) {
        const ckm_shape *shape = &kernel->step->tensors[kernel->step->ops[kernel->op].outputs[0]].shape;
        ckm_i_ref_add_bias(shape, c->channels_last ? shape->rank - 1 : 1, bias, call->outputs[0]);
    }
    return CKM_OK;
}

static void set_geometry(const ckm_i_ref_conv *from, conv *c)
{
    const ckm_i_ref_window *w = &from->window;
    c->channels_last = w->channels_last;
    c->groups = from->groups;
    c->batch = w->batch;
    c->in_channels = w->in_channels;
    c->out_channels = w->out_channels;
    c->in_group = w->in_channels / c->groups;
    c->out_group = w->out_channels / c->groups;
    c->in_size = w->in_size;
    c->out_size = w->out_size;
    c->taps = w->taps;
    for (int i = 0; i < AXES; i++) {
        // Axes that are not there come first and have one position.
        int32_t own = i - (AXES - w->n);
        bool there = own >= 0;
        c->in[i] = there ? w->in[own] : 1;
        c->out[i] = there ? w->out[own] : 1;
        c->kernel[i] = there ? w->kernel[own] : 1;
        c->stride[i] = there ? w->stride[own] : 1;
        c->dilation[i] = there ? w->dilation[own] : 1;
        c->begin[i] = there ? w->begin[own] : 0;
    }
}

static ckm_status prepare_conv(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    const ckm_i_conv_role *role = ckm_i_conv_role_of(v->op);
    ckm_i_ref_conv read = ckm_i_conv_read_as(v->graph, v->op, role);
    if (!ckm_i_cpu_floats(v) || read.window.n < 1 || read.window.n > AXES) {
        return CKM_OK;
    }
    conv *c = ckm_i_calloc(1, sizeof *c);
    if (c == NULL) {
        return ckm_i_error_memory(err);
    }
    c->map = role->map;
    c->role = role;
    set_geometry(&read, c);
    bool biased = role->kind == CKM_I_OP_conv || role->kind == CKM_I_OP_conv_transpose;
    c->bias_input = biased && v->op->n_inputs > 2 && v->op->inputs[2] >= 0 ? 2 : -1;
    ckm_i_gemm g;
    if (c->channels_last) {
        describe_last(c, &g);
    } else {
        describe_first(c, &g);
    }
    g.alpha = 1.0F;
    c->product = ckm_i_gemm_make_plan(&g, cpu->threads);
    kernel->run = run_conv;
    kernel->data = c;
    kernel->dispose = free;
    kernel->workspace_bytes = ckm_i_gemm_workspace_bytes(&c->product);
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_implicit_conv[] = {
    {CKM_I_OP_conv, prepare_conv},
    {CKM_I_OP_conv_backward_data, prepare_conv},
    {CKM_I_OP_conv_backward_weights, prepare_conv},
    {CKM_I_OP_conv_transpose, prepare_conv},
    {CKM_I_OP_conv_transpose_backward_data, prepare_conv},
    {CKM_I_OP_conv_transpose_backward_weights, prepare_conv},
    {0},
};
