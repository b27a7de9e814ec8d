// SPDX-License-Identifier: Apache-2.0
// PNG through libpng. libpng reports errors by longjmp; everything that has to survive one lives in `job`.
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "run/data/image_file.h"

// What libpng and zlib allocate for themselves, rounded up.
enum { LIBRARY_BYTES = 96 * 1024 };

typedef struct png_job {
    const char *path;
    FILE *file;
    png_structp png;
    png_infop info;
    uint8_t *rows;  // one row, or the whole image when it is interlaced
    ckm_i_pixels *sink;
    float *out;
    int64_t width, height, bytes;
    int32_t channels;
    int passes;
    char why[160];
} png_job;

static void on_error(png_structp png, png_const_charp message)
{
    png_job *job = png_get_error_ptr(png);
    snprintf(job->why, sizeof job->why, "%s", message);
    longjmp(png_jmpbuf(png), 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

// Everything as 8-bit grey, colours, or colours and opacity.
static void read_header(png_job *job)
{
    png_init_io(job->png, job->file);
    // Texts and profiles would be kept, megabytes of them.
    static const png_byte ignored[] = "eXIf\0hIST\0iCCP\0iTXt\0pCAL\0sCAL\0sPLT\0tEXt\0tIME\0zTXt";
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, ignored, (int)(sizeof ignored / 5));
    png_set_user_limits(job->png, CKM_I_IMAGE_MAX_SIDE, CKM_I_IMAGE_MAX_SIDE);
    png_read_info(job->png, job->info);
    png_set_expand(job->png);
    png_set_scale_16(job->png);
    bool opacity = job->sink != NULL && job->sink->channels == 4;
    if (opacity) {
        png_set_gray_to_rgb(job->png);
        png_set_filler(job->png, 255, PNG_FILLER_AFTER);
    } else {
        png_set_strip_alpha(job->png);
    }
    job->passes = png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    job->width = (int64_t)png_get_image_width(job->png, job->info);
    job->height = (int64_t)png_get_image_height(job->png, job->info);
    job->channels = png_get_channels(job->png, job->info);
    // Before it is known what for, as many channels as there can be.
    int64_t row_bytes = job->sink != NULL ? (int64_t)png_get_rowbytes(job->png, job->info) : 4 * job->width;
    job->bytes = LIBRARY_BYTES + 3 * row_bytes + (job->passes > 1 ? job->height * row_bytes : row_bytes);
}

static void read_rows(png_job *job)
{
    size_t row_bytes = png_get_rowbytes(job->png, job->info);
    size_t held = job->passes > 1 ? (size_t)job->height : 1;
    job->rows = ckm_i_calloc(held, row_bytes);
    if (job->rows == NULL) {
        png_error(job->png, "out of memory");
    }
    ckm_i_pixels_begin(job->sink, job->height, job->width, job->channels, job->out);
    for (int pass = 0; pass < job->passes; pass++) {
        for (int64_t y = 0; y < job->height; y++) {
            uint8_t *row = job->rows + (job->passes > 1 ? (size_t)y * row_bytes : 0);
            png_read_row(job->png, row, NULL);
            if (pass == job->passes - 1) {
                ckm_i_pixels_row(job->sink, row);
            }
        }
    }
    png_read_end(job->png, NULL);
    ckm_i_pixels_end(job->sink);
}

// True on success. No variable of this frame changes after setjmp.
static bool guarded(png_job *job)
{
    if (setjmp(png_jmpbuf(job->png)) != 0) {
        return false;
    }
    read_header(job);
    if (job->sink != NULL) {
        read_rows(job);
    }
    return true;
}

ckm_status ckm_i_image_png(const char *path, ckm_i_pixels *sink, float *out, int64_t *bytes, ckm_error *err)
{
    png_job job = {.path = path, .sink = sink, .out = out};
    CKM_I_CHECK(ckm_i_file_open_stream(path, &job.file, err));
    ckm_status status = CKM_OK;
    job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
    job.info = job.png != NULL ? png_create_info_struct(job.png) : NULL;
    if (job.info == NULL) {
        status = ckm_i_error_memory(err);
    } else if (!guarded(&job)) {
        status = ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1, "is not a valid PNG image: %s", job.why);
    } else {
        *bytes = job.bytes;
    }
    png_destroy_read_struct(&job.png, &job.info, NULL);
    free(job.rows);
    fclose(job.file);
    return status;
}
