// SPDX-License-Identifier: Apache-2.0
// From rows of 8-bit pixels to the network's input: size, colours, layout, scaling. Rows stream through, so that an
// image of any size costs no memory but the result.
#ifndef CKM_SRC_RUN_DATA_DATA_PIXELS_H
#define CKM_SRC_RUN_DATA_DATA_PIXELS_H

#include "run/data/data.h"

typedef struct ckm_i_pixels {
    int64_t height, width;  // of the input
    int32_t channels;       // 1, 3 or 4
    bool channels_last;
    ckm_data_scaling scaling;
    bool flip;  // augmentation, as ckm_data_options has it
    double crop;
    uint64_t draw;                  // decides on it; 0: no augmentation
    float *row;                     // one row of the source, brought to `width`
    float *column_sums, *row_sums;  // of weights, a column or row of the result
    int64_t bytes;
    // The image under way, or the part of it that is taken.
    int64_t top, left;
    bool mirrored;
    int64_t source_height, source_width, next_row;
    int32_t source_channels;
    float *out;
} ckm_i_pixels;

// Prepares for images that become input `field` of the network. For inputs without spatial axes (one vector) the
// images must have `height` x `width` x `channels`; 0: such inputs are an error.
ckm_status ckm_i_pixels_init(ckm_i_pixels *p, const ckm_data_options *options, int64_t height, int64_t width,
                             int32_t channels, ckm_error *err) CKM_NODISCARD;
void ckm_i_pixels_dispose(ckm_i_pixels *p);
// Does an image of this size fit without resizing?
bool ckm_i_pixels_fits(const ckm_i_pixels *p, int64_t height, int64_t width, int32_t channels);

// What augmentation takes of the image and whether it is mirrored depend on `draw` and the image's size alone.
// One image: begin, then every row from the top (`channels` bytes a pixel), then end. Bilinear, with the triangle
// widened to the step where the image shrinks, so that every source pixel counts.
void ckm_i_pixels_begin(ckm_i_pixels *p, int64_t height, int64_t width, int32_t channels, float *out);
void ckm_i_pixels_row(ckm_i_pixels *p, const uint8_t *row);
void ckm_i_pixels_end(ckm_i_pixels *p);

#endif
