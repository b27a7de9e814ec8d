// SPDX-License-Identifier: Apache-2.0
// Convolutions, pooling, normalization.
#include "onnx_generator_parts.h"

// ---- layers

enum { OG_MOST_ELEMENTS = 100000 };  // of what a window makes

typedef struct window {
    int32_t n;
    int64_t kernel[3], extent[3], out[3];
    char attributes[OG_TEXT];
} window;

// Padding of an axis: up to what the window reaches over for pooling, of which no window may lie outside, and more for
// convolutions. It makes up for what the axis lacks.
static void make_pads(og_generator *g, int64_t size, int64_t extent, bool pool, int64_t *begin, int64_t *end)
{
    int64_t most = pool ? extent - 1 : extent + 2;
    uint32_t choices = (uint32_t)(most < 6 ? most : 6) + 1;
    *begin = og_chance(g, 2) ? og_pick(g, choices) : og_pick(g, choices) % 2;
    *end = og_chance(g, 2) ? og_pick(g, choices) : og_pick(g, choices) % 2;
    int64_t missing = extent - size - *begin - *end;
    if (missing > 0) {
        int64_t first = og_chance(g, 3) ? missing / 2 : og_chance(g, 2) ? missing : 0;
        *begin += first;
        *end += missing - first;
    }
}

// A window over the spatial axes of x, and what comes out. Most are small; some of those with padding of their own are
// large, step far, and, for convolutions, reach as far as a window may.
static void make_window(og_generator *g, const ckm_shape *x, bool pool, bool kernel_written, window *w)
{
    static const char *const autos[] = {"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"};
    int64_t strides[3];
    int64_t dilations[3];
    int64_t pads[6] = {0};
    char text[OG_TEXT];
    const char *mode = og_chance(g, 3) ? autos[og_pick(g, 4)] : NULL;
    bool padded = mode == NULL || strcmp(mode, "NOTSET") == 0;
    bool same = mode != NULL && strncmp(mode, "SAME", 4) == 0;
    // Old pooling knows neither.
    bool dilated = og_chance(g, 3) && !same && (!pool || g->opset >= 19);
    bool ceiling = pool && g->opset >= 19 && !same && og_chance(g, 3);
    w->n = x->rank - 2;
    for (int32_t i = 0; i < w->n; i++) {
        int64_t size = x->dims[i + 2];
        w->kernel[i] = 1 + og_pick(g, og_chance(g, 6) ? 7 : 3);
        strides[i] = 1 + og_pick(g, og_chance(g, 6) ? 7 : 2);
        dilations[i] = dilated ? 1 + og_pick(g, og_chance(g, 3) ? 9 : 2) : 1;
        if (pool && dilations[i] > size) {  // its windows could lie around the image
            dilations[i] = size;
        }
        if (dilated && padded && !pool && og_chance(g, 6)) {
            w->kernel[i] = 2;
            dilations[i] = (INT64_C(2) << og_pick(g, 30)) - 1;
        }
        w->extent[i] = (w->kernel[i] - 1) * dilations[i] + 1;
        if (padded) {
            make_pads(g, size, w->extent[i], pool, &pads[i], &pads[i + w->n]);
        } else if (w->extent[i] > size) {
            w->kernel[i] = w->extent[i] = 1;
        }
        int64_t room = size + pads[i] + pads[i + w->n] - w->extent[i];
        w->out[i] = same ? (size + strides[i] - 1) / strides[i] : room / strides[i] + 1;
        if (ceiling) {
            w->out[i] = (room + strides[i] - 1) / strides[i] + 1;
            w->out[i] -= (w->out[i] - 1) * strides[i] >= size + pads[i];
        }
    }
    og_format(w->attributes, "l:strides=%s", og_join(text, ",", strides, w->n));
    if (kernel_written) {
        og_format(w->attributes + strlen(w->attributes), ";l:kernel_shape=%s", og_join(text, ",", w->kernel, w->n));
    }
    if (dilated) {
        og_format(w->attributes + strlen(w->attributes), ";l:dilations=%s", og_join(text, ",", dilations, w->n));
    }
    if (padded) {
        og_format(w->attributes + strlen(w->attributes), ";l:pads=%s", og_join(text, ",", pads, 2 * w->n));
    }
    if (mode != NULL) {
        og_format(w->attributes + strlen(w->attributes), ";w:auto_pad=%s", mode);
    }
    if (ceiling) {
        strcat(w->attributes, ";ceil_mode=1");
    }
}

void og_gen_conv(og_generator *g)
{
    char text[OG_TEXT];
    char kernel[16];
    char bias[16];
    window w;
    const og_value *x = og_choose(g, 'f', 3, 5);
    if (x == NULL) {
        return;
    }
    make_window(g, &x->shape, false, og_chance(g, 2), &w);
    int64_t groups = x->shape.dims[1] % 2 == 0 && og_chance(g, 2) ? 2 : 1;
    ckm_shape out = x->shape;
    out.dims[1] = groups * (1 + og_pick(g, 4));
    ckm_shape filter = {x->shape.rank, {out.dims[1], x->shape.dims[1] / groups}};
    for (int32_t i = 0; i < w.n; i++) {
        filter.dims[i + 2] = w.kernel[i];
        out.dims[i + 2] = w.out[i];
    }
    if (og_elements(&out) > OG_MOST_ELEMENTS) {
        return;
    }
    if (groups > 1) {
        strcat(w.attributes, ";group=2");
    }
    og_weight(g, &filter, kernel);
    og_weight(g, &(ckm_shape){1, {out.dims[1]}}, bias);
    og_node(g, "Conv", og_three(g, text, x->name, kernel, bias), w.attributes, 'f', &out);
}

void og_gen_conv_transpose(og_generator *g)
{
    char text[OG_TEXT];
    char attributes[OG_TEXT];
    char kernel[16];
    int64_t strides[3];
    int64_t dilations[3];
    int64_t pads[6];
    int64_t sizes[3];
    int64_t extra[3];
    const og_value *x = og_choose(g, 'f', 3, 5);
    if (x == NULL) {
        return;
    }
    int32_t n = x->shape.rank - 2;
    int64_t groups = x->shape.dims[1] % 2 == 0 && og_chance(g, 3) ? 2 : 1;
    ckm_shape filter = {x->shape.rank, {x->shape.dims[1], 1 + og_pick(g, 3)}};
    ckm_shape out = x->shape;
    out.dims[1] = filter.dims[1] * groups;
    bool sized = og_chance(g, 2);  // the padding follows from the size
    for (int32_t i = 0; i < n; i++) {
        filter.dims[i + 2] = 1 + og_pick(g, 3);
        strides[i] = 1 + og_pick(g, og_chance(g, 6) ? 7 : 2);
        dilations[i] = 1 + og_pick(g, og_chance(g, 6) ? 9 : 2);
        extra[i] = og_pick(g, (uint32_t)strides[i]);
        int64_t extent = (filter.dims[i + 2] - 1) * dilations[i] + 1;
        int64_t whole = strides[i] * (x->shape.dims[i + 2] - 1) + extra[i] + extent;
        for (int side = 0; side < 2; side++) {
            int64_t pad = sized ? 0 : og_pick(g, 4);
            pads[i + side * n] = pad < whole ? pad : 0;
            whole -= pads[i + side * n];
        }
        // Larger than the windows reach, or less than they do.
        sizes[i] = whole + og_pick(g, og_chance(g, 4) ? 60 : 2);
        sizes[i] = og_chance(g, 4) ? 1 + og_pick(g, (uint32_t)whole) : sizes[i];
        out.dims[i + 2] = sized ? sizes[i] : whole;
    }
    if (og_elements(&out) > OG_MOST_ELEMENTS) {
        return;
    }
    og_weight(g, &filter, kernel);
    og_format(attributes, "l:strides=%s", og_join(text, ",", strides, n));
    og_format(attributes + strlen(attributes), ";group=%d", (int)groups);
    og_format(attributes + strlen(attributes), ";l:dilations=%s", og_join(text, ",", dilations, n));
    if (sized) {
        og_format(attributes + strlen(attributes), ";l:output_shape=%s", og_join(text, ",", sizes, n));
    } else {
        og_format(attributes + strlen(attributes), ";l:output_padding=%s", og_join(text, ",", extra, n));
        og_format(attributes + strlen(attributes), ";l:pads=%s", og_join(text, ",", pads, 2 * n));
    }
    og_node(g, "ConvTranspose", og_format(text, "%s,%s", x->name, kernel), attributes, 'f', &out);
}

void og_gen_pool(og_generator *g)
{
    static const char *const ops[] = {"MaxPool", "AveragePool", "LpPool"};
    window w;
    uint32_t which = og_pick(g, 3);
    const og_value *x = og_choose(g, 'f', 3, 5);
    if (x == NULL) {
        return;
    }
    make_window(g, &x->shape, true, true, &w);
    ckm_shape out = x->shape;
    for (int32_t i = 0; i < w.n; i++) {
        out.dims[i + 2] = w.out[i];
    }
    if (og_chance(g, 2)) {
        strcat(w.attributes, which == 1 ? ";count_include_pad=1" : which == 2 ? ";p=1" : "");
    }
    g->extra_outputs = which == 0 && og_chance(g, 4) ? 1 : 0;  // the positions
    og_node(g, ops[which], x->name, w.attributes, 'f', &out);
}

void og_gen_global_pool(og_generator *g)
{
    static const char *const ops[] = {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"};
    uint32_t which = og_pick(g, 3);
    const og_value *x = og_choose(g, 'f', 3, 5);
    if (x == NULL) {
        return;
    }
    ckm_shape out = x->shape;
    for (int32_t i = 2; i < out.rank; i++) {
        out.dims[i] = 1;
    }
    og_node(g, ops[which], x->name, which == 2 && og_chance(g, 2) ? "p=3" : "", 'f', &out);
}

void og_gen_norm(og_generator *g)
{
    char text[OG_TEXT];
    char leaves[4][16];
    uint32_t which = og_pick(g, 5);
    const og_value *x = og_choose(g, 'f', which == 1 ? 2 : 3, 5);
    if (x == NULL) {
        return;
    }
    ckm_shape shape = x->shape;
    ckm_shape channels = {1, {shape.dims[1]}};
    int32_t axis = (int32_t)og_pick(g, (uint32_t)shape.rank - 1) + 1;
    ckm_shape last = {shape.rank - axis, {0}};
    memcpy(last.dims, shape.dims + axis, (size_t)last.rank * sizeof last.dims[0]);
    for (int i = 0; i < 4; i++) {
        og_weight(g, which == 1 ? &last : &channels, leaves[i]);
    }
    switch (which) {
    case 0:
        og_format(text, "%s,%s,%s,%s,%s", x->name, leaves[0], leaves[1], leaves[2], leaves[3]);
        og_node(g, "BatchNormalization", text,
                g->opset >= 14 && og_chance(g, 2) ? "training_mode=1;r:momentum=0.8" : "r:epsilon=0.001", 'f', &shape);
        break;
    case 1:
        if (g->opset >= 17) {
            char attributes[64];
            og_three(g, text, x->name, leaves[0], leaves[1]);
            g->extra_outputs = og_chance(g, 3) ? 2 : 0;
            snprintf(attributes, sizeof attributes, "axis=%d;r:epsilon=0.001",
                     (int)(og_chance(g, 2) ? axis : axis - shape.rank));
            og_node(g, "LayerNormalization", text, attributes, 'f', &shape);
        }
        break;
    case 2:
        og_format(text, "%s,%s,%s", x->name, leaves[0], leaves[1]);
        og_node(g, "InstanceNormalization", text, "r:epsilon=0.001", 'f', &shape);
        break;
    case 3:
        if (g->opset >= 18) {
            char attributes[64];
            int64_t groups = shape.dims[1] % 2 == 0 ? 2 : 1;
            char scale[16];
            char shift[16];
            og_weight(g, &(ckm_shape){1, {g->opset >= 21 ? shape.dims[1] : groups}}, scale);
            og_weight(g, &(ckm_shape){1, {groups}}, shift);
            snprintf(attributes, sizeof attributes, "num_groups=%d", (int)groups);
            og_node(g, "GroupNormalization", og_format(text, "%s,%s,%s", x->name, scale, shift), attributes, 'f',
                    &shape);
        }
        break;
    default:
        og_node(g, "LRN", x->name, og_chance(g, 2) ? "size=3" : "size=2;r:alpha=0.001;r:beta=0.5;r:bias=2", 'f',
                &shape);
    }
}

void og_gen_prelu(og_generator *g)
{
    char text[OG_TEXT];
    char slope[16];
    const og_value *x = og_choose(g, 'f', 2, CKM_MAX_RANK);
    if (x != NULL) {
        ckm_shape shape = x->shape;
        ckm_shape one = {shape.rank - 1, {shape.dims[1]}};
        for (int32_t i = 1; i < one.rank; i++) {
            one.dims[i] = 1;
        }
        og_weight(g, &one, slope);
        og_node(g, "PRelu", og_format(text, "%s,%s", x->name, slope), "", 'f', &shape);
    }
}
