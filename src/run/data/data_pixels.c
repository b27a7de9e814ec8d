// SPDX-License-Identifier: Apache-2.0
// Streaming resize and scaling of images.
#include "run/data/data_pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "graph/graph.h"

static ckm_status target_shape(ckm_i_pixels *p, const ckm_data_options *options, int64_t height, int64_t width,
                               int32_t channels, ckm_error *err)
{
    const ckm_data_field *field = &options->inputs[0];
    const ckm_shape *shape = &field->shape;
    char text[128];
    int64_t wanted = 0;
    p->channels_last = options->layout == CKM_CHANNELS_LAST;
    if (shape->rank == 3) {
        p->height = shape->dims[p->channels_last ? 0 : 1];
        p->width = shape->dims[p->channels_last ? 1 : 2];
        wanted = shape->dims[p->channels_last ? 2 : 0];
    } else if (shape->rank == 2) {
        p->height = shape->dims[0];
        p->width = shape->dims[1];
        wanted = 1;
    } else if (height > 0 && ckm_i_data_elements(field) == height * width * channels) {
        p->height = height;
        p->width = width;
        p->channels_last = true;
        wanted = channels;
    }
    if (wanted != 1 && wanted != 3 && wanted != 4) {
        return ckm_i_error(
            err, CKM_ERR_ARGUMENT,
            "the data are images, but the network's input \"%.100s\" is %s: it must have height, width and 1, 3 or 4 "
            "channels",
            field->name, ckm_i_shape_text(shape, text, sizeof text));
    }
    p->channels = (int32_t)wanted;
    return CKM_OK;
}

ckm_status ckm_i_pixels_init(ckm_i_pixels *p, const ckm_data_options *options, int64_t height, int64_t width,
                             int32_t channels, ckm_error *err)
{
    *p = (ckm_i_pixels){.scaling = options->scaling, .flip = options->flip, .crop = options->crop};
    CKM_I_CHECK(target_shape(p, options, height, width, channels, err));
    size_t row_elements = (size_t)p->width * (size_t)p->channels;
    p->row = ckm_i_calloc(row_elements, sizeof *p->row);
    p->column_sums = ckm_i_calloc((size_t)p->width, sizeof *p->column_sums);
    p->row_sums = ckm_i_calloc((size_t)p->height, sizeof *p->row_sums);
    p->bytes = (int64_t)((row_elements + (size_t)p->width + (size_t)p->height) * sizeof *p->row);
    if (p->row == NULL || p->column_sums == NULL || p->row_sums == NULL) {
        ckm_i_pixels_dispose(p);
        return ckm_i_error_memory(err);
    }
    return CKM_OK;
}

void ckm_i_pixels_dispose(ckm_i_pixels *p)
{
    free(p->row);
    free(p->column_sums);
    free(p->row_sums);
    *p = (ckm_i_pixels){0};
}

bool ckm_i_pixels_fits(const ckm_i_pixels *p, int64_t height, int64_t width, int32_t channels)
{
    return p->height == height && p->width == width && p->channels == channels;
}

// The triangle around output position `o`: its centre in the source and half its base.
typedef struct triangle {
    double centre, support;
    int64_t from, to;  // source positions with a weight, both included
} triangle;

static triangle triangle_at(int64_t o, int64_t source, int64_t target)
{
    double step = (double)source / (double)target;
    triangle t = {.centre = ((double)o + 0.5) * step - 0.5, .support = step > 1.0 ? step : 1.0};
    t.from = (int64_t)floor(t.centre - t.support) + 1;
    t.to = (int64_t)ceil(t.centre + t.support) - 1;
    t.from = t.from < 0 ? 0 : t.from;
    t.to = t.to > source - 1 ? source - 1 : t.to;
    return t;
}

static float weight(const triangle *t, int64_t at)
{
    double w = 1.0 - fabs((double)at - t->centre) / t->support;
    return w > 0.0 ? (float)w : 0.0F;
}

static void sum_weights(float *sums, int64_t source, int64_t target)
{
    for (int64_t o = 0; o < target; o++) {
        triangle t = triangle_at(o, source, target);
        sums[o] = 0.0F;
        for (int64_t at = t.from; at <= t.to; at++) {
            sums[o] += weight(&t, at);
        }
    }
}

// The largest part in the middle that is not too wide and not too high.
static void crop_middle(ckm_i_pixels *p, int64_t height, int64_t width)
{
    if (3 * width > 4 * height) {
        p->source_width = (4 * height + 1) / 3;
    } else if (4 * width < 3 * height) {
        p->source_height = (4 * width + 1) / 3;
    }
    p->top = (height - p->source_height) / 2;
    p->left = (width - p->source_width) / 2;
}

// A random share of the area in a random shape (Szegedy et al. 2015, section 6), as torchvision's RandomResizedCrop draws it: some
// attempts to find one that is within the image, then the middle.
static void crop_by_chance(ckm_i_pixels *p, ckm_i_rng *rng, int64_t height, int64_t width)
{
    enum { ATTEMPTS = 10 };
    const double widest = 4.0 / 3.0;
    for (int i = 0; i < ATTEMPTS; i++) {
        double area = (double)(height * width) * (p->crop + (1.0 - p->crop) * ckm_i_rng_unit(rng));
        double shape = exp(log(widest) * (2.0 * ckm_i_rng_unit(rng) - 1.0));
        int64_t w = (int64_t)(sqrt(area * shape) + 0.5);
        int64_t h = (int64_t)(sqrt(area / shape) + 0.5);
        if (w >= 1 && w <= width && h >= 1 && h <= height) {
            p->source_width = w;
            p->source_height = h;
            p->top = ckm_i_rng_below(rng, (uint32_t)(height - h + 1));
            p->left = ckm_i_rng_below(rng, (uint32_t)(width - w + 1));
            return;
        }
    }
    crop_middle(p, height, width);
}

static void augment(ckm_i_pixels *p, int64_t height, int64_t width)
{
    ckm_i_rng rng = {p->draw};
    bool turned = ckm_i_rng_next(&rng) >> 63 != 0;  // drawn in any case, so that the part does not depend on it
    p->mirrored = p->draw != 0 && p->flip && turned;
    p->top = p->left = 0;
    if (p->draw != 0 && p->crop > 0) {
        crop_by_chance(p, &rng, height, width);
    }
}

void ckm_i_pixels_begin(ckm_i_pixels *p, int64_t height, int64_t width, int32_t channels, float *out)
{
    p->source_height = height;
    p->source_width = width;
    augment(p, height, width);
    height = p->source_height;
    width = p->source_width;
    p->source_channels = channels;
    p->next_row = -p->top;
    p->out = out;
    memset(out, 0, (size_t)(p->height * p->width * p->channels) * sizeof *out);
    sum_weights(p->column_sums, width, p->width);
    sum_weights(p->row_sums, height, p->height);
}

// A pixel in the colours of the result: grey spread to colours, colours weighed to grey (ITU-R BT.601), no or
// full opacity left out or filled in.
static void recolour(const uint8_t *pixel, int32_t from, float *out, int32_t to)
{
    if (from == to) {
        for (int32_t c = 0; c < to; c++) {
            out[c] = pixel[c];
        }
    } else if (to == 1) {
        out[0] = from < 3 ? (float)pixel[0]
                          : 0.299F * (float)pixel[0] + 0.587F * (float)pixel[1] + 0.114F * (float)pixel[2];
    } else {
        for (int32_t c = 0; c < 3; c++) {
            out[c] = pixel[from < 3 ? 0 : c];
        }
        if (to == 4) {
            out[3] = 255.0F;
        }
    }
}

// Brings the row to the width of the result.
static void shrink_row(ckm_i_pixels *p, const uint8_t *row)
{
    for (int64_t x = 0; x < p->width; x++) {
        float *sum = p->row + x * p->channels;
        float pixel[4] = {0};
        if (p->source_width == p->width) {
            recolour(row + x * p->source_channels, p->source_channels, sum, p->channels);
            continue;
        }
        triangle t = triangle_at(x, p->source_width, p->width);
        memset(sum, 0, (size_t)p->channels * sizeof *sum);
        for (int64_t at = t.from; at <= t.to; at++) {
            float w = weight(&t, at) / p->column_sums[x];
            recolour(row + at * p->source_channels, p->source_channels, pixel, p->channels);
            for (int32_t c = 0; c < p->channels; c++) {
                sum[c] += w * pixel[c];
            }
        }
    }
}

static void add_row(ckm_i_pixels *p, int64_t y, float w)
{
    int64_t plane = p->height * p->width;
    for (int64_t x = 0; x < p->width; x++) {
        const float *pixel = p->row + x * p->channels;
        int64_t at = y * p->width + (p->mirrored ? p->width - 1 - x : x);
        for (int32_t c = 0; c < p->channels; c++) {
            p->out[p->channels_last ? at * p->channels + c : c * plane + at] += w * pixel[c];
        }
    }
}

void ckm_i_pixels_row(ckm_i_pixels *p, const uint8_t *row)
{
    int64_t source_row = p->next_row++;
    if (source_row < 0 || source_row >= p->source_height) {
        return;
    }
    shrink_row(p, row + p->left * p->source_channels);
    if (p->source_height == p->height) {
        add_row(p, source_row, 1.0F);
        return;
    }
    // The rows of the result whose triangle holds this row stand together.
    double step = (double)p->source_height / (double)p->height;
    double support = step > 1.0 ? step : 1.0;
    int64_t from = (int64_t)floor(((double)source_row - support + 0.5) / step - 0.5);
    int64_t to = (int64_t)ceil(((double)source_row + support + 0.5) / step - 0.5);
    from = from < 0 ? 0 : from;
    to = to > p->height - 1 ? p->height - 1 : to;
    for (int64_t y = from; y <= to; y++) {
        triangle t = triangle_at(y, p->source_height, p->height);
        if (source_row >= t.from && source_row <= t.to) {
            add_row(p, y, weight(&t, source_row) / p->row_sums[y]);
        }
    }
}

void ckm_i_pixels_end(ckm_i_pixels *p)
{
    // Mean and deviation by colour; ImageNet's are those that torchvision's networks were trained with.
    static const float means[3][4] = {
        {0.5F, 0.5F, 0.5F, 0.5F}, {0.0F, 0.0F, 0.0F, 0.0F}, {0.485F, 0.456F, 0.406F, 0.0F}};
    static const float deviations[3][4] = {
        {0.5F, 0.5F, 0.5F, 0.5F}, {1.0F, 1.0F, 1.0F, 1.0F}, {0.229F, 0.224F, 0.225F, 1.0F}};
    int64_t plane = p->height * p->width;
    for (int32_t c = 0; c < p->channels; c++) {
        float mean = means[p->scaling][c];
        float scale = 1.0F / deviations[p->scaling][c];
        for (int64_t at = 0; at < plane; at++) {
            float *value = &p->out[p->channels_last ? at * p->channels + c : c * plane + at];
            *value = (*value / 255.0F - mean) * scale;
        }
    }
}
