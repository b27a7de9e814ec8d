// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg-turbo. The library reports errors by longjmp; everything that has to survive one lives in
// `job`. Damage that the library would paper over (it only warns of it) is an error here.
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// libjpeg's header needs stdio's types to have been declared.
#include <jpeglib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "run/data/image_file.h"

// What the library allocates for any image, rounded up; and per pixel of width.
enum { LIBRARY_BYTES = 128 * 1024, BYTES_A_COLUMN = 256 };

typedef struct jpeg_job {
    struct jpeg_error_mgr errors;  // first: the library hands out a pointer to it
    jmp_buf back;
    struct jpeg_decompress_struct jpeg;
    FILE *file;
    uint8_t *row;
    ckm_i_pixels *sink;
    float *out;
    int64_t bytes;
    char why[JMSG_LENGTH_MAX];
} jpeg_job;

static void on_error(j_common_ptr common)
{
    jpeg_job *job = (jpeg_job *)(void *)common->err;
    common->err->format_message(common, job->why);
    longjmp(job->back, 1);
}

// Level -1 is corrupt data, 0 and above is chatter.
static void on_message(j_common_ptr common, int level)
{
    if (level < 0) {
        on_error(common);
    }
}

static void be_silent(j_common_ptr common)
{
    (void)common;
}

static void read_header(jpeg_job *job)
{
    jpeg_create_decompress(&job->jpeg);
    jpeg_stdio_src(&job->jpeg, job->file);
    (void)jpeg_read_header(&job->jpeg, TRUE);
    if (job->jpeg.image_width > CKM_I_IMAGE_MAX_SIDE || job->jpeg.image_height > CKM_I_IMAGE_MAX_SIDE) {
        snprintf(job->why, sizeof job->why, "%ux%u pixels are too many; at most %d per side are supported",
                 job->jpeg.image_width, job->jpeg.image_height, CKM_I_IMAGE_MAX_SIDE);
        longjmp(job->back, 1);
    }
    job->bytes = LIBRARY_BYTES + (int64_t)job->jpeg.image_width * BYTES_A_COLUMN;
    if (jpeg_has_multiple_scans(&job->jpeg)) {
        // A progressive image is held as coefficients, two bytes each, blocks rounded up.
        int64_t blocks = ((int64_t)job->jpeg.image_width / 8 + 4) * ((int64_t)job->jpeg.image_height / 8 + 4);
        job->bytes += blocks * 64 * 2 * job->jpeg.num_components;
    }
}

// Large images are first shrunk by the decoder, which skips coefficients, as far as they stay at least as large as
// the result in both directions.
static void choose_scale(jpeg_job *job)
{
    job->jpeg.scale_num = 1;
    job->jpeg.scale_denom = 1;
    for (unsigned by = 2; by <= 8; by *= 2) {
        if ((int64_t)(job->jpeg.image_width / by) >= job->sink->width &&
            (int64_t)(job->jpeg.image_height / by) >= job->sink->height) {
            job->jpeg.scale_denom = by;
        }
    }
}

static void read_rows(jpeg_job *job)
{
    bool grey = job->jpeg.jpeg_color_space == JCS_GRAYSCALE || job->sink->channels == 1;
    job->jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    job->jpeg.dct_method = JDCT_ISLOW;
    choose_scale(job);
    (void)jpeg_start_decompress(&job->jpeg);
    int32_t channels = job->jpeg.output_components;
    job->row = ckm_i_calloc(job->jpeg.output_width, (size_t)channels);
    if (job->row == NULL) {
        snprintf(job->why, sizeof job->why, "out of memory");
        longjmp(job->back, 1);
    }
    ckm_i_pixels_begin(job->sink, job->jpeg.output_height, job->jpeg.output_width, channels, job->out);
    while (job->jpeg.output_scanline < job->jpeg.output_height) {
        JSAMPROW row = job->row;
        (void)jpeg_read_scanlines(&job->jpeg, &row, 1);
        ckm_i_pixels_row(job->sink, job->row);
    }
    (void)jpeg_finish_decompress(&job->jpeg);
    ckm_i_pixels_end(job->sink);
}

// True on success. No variable of this frame changes after setjmp.
static bool guarded(jpeg_job *job)
{
    if (setjmp(job->back) != 0) {
        return false;
    }
    read_header(job);
    if (job->sink != NULL) {
        read_rows(job);
    }
    return true;
}

ckm_status ckm_i_image_jpeg(const char *path, ckm_i_pixels *sink, float *out, int64_t *bytes, ckm_error *err)
{
    ckm_status status;
    jpeg_job *job = ckm_i_calloc(1, sizeof *job);
    if (job == NULL) {
        return ckm_i_error_memory(err);
    }
    status = ckm_i_file_open_stream(path, &job->file, err);
    if (status != CKM_OK) {
        free(job);
        return status;
    }
    job->sink = sink;
    job->out = out;
    job->jpeg.err = jpeg_std_error(&job->errors);
    job->errors.error_exit = on_error;
    job->errors.emit_message = on_message;
    job->errors.output_message = be_silent;
    if (guarded(job)) {
        *bytes = job->bytes;
    } else {
        status = ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1, "is not a valid JPEG image: %s", job->why);
    }
    jpeg_destroy_decompress(&job->jpeg);
    free(job->row);
    fclose(job->file);
    free(job);
    return status;
}
