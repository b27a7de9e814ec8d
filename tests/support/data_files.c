// SPDX-License-Identifier: Apache-2.0
#include "data_files.h"

#include <dirent.h>
#include <png.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jpeglib.h>

void data_files_folder(char *path, size_t room)
{
    snprintf(path, room, "/tmp/ckm-test-data-XXXXXX");
    assert_non_null(mkdtemp(path));
}

void data_files_remove(const char *path)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        unlink(path);
        return;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char inside[512];
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
            data_files_remove(inside);
        }
    }
    closedir(dir);
    rmdir(path);
}

// Opens <folder>/<name>, making folders in between.
static FILE *create(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    return file;
}

void data_files_write(const char *folder, const char *name, const void *data, size_t size)
{
    FILE *file = create(folder, name);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void data_files_idx(const char *folder, const char *name, int rank, const uint32_t *dims, const uint8_t *data)
{
    FILE *file = create(folder, name);
    size_t elements = 1;
    uint8_t start[4] = {0, 0, 8, (uint8_t)rank};
    assert_int_equal(fwrite(start, 1, 4, file), 4);
    for (int i = 0; i < rank; i++) {
        uint8_t dim[4] = {(uint8_t)(dims[i] >> 24), (uint8_t)(dims[i] >> 16), (uint8_t)(dims[i] >> 8),
                          (uint8_t)dims[i]};
        assert_int_equal(fwrite(dim, 1, 4, file), 4);
        elements *= dims[i];
    }
    assert_int_equal(fwrite(data, 1, elements, file), elements);
    assert_int_equal(fclose(file), 0);
}

void data_files_npy(const char *folder, const char *name, const char *descr, const char *shape, const void *data,
                    size_t size)
{
    FILE *file = create(folder, name);
    char text[256];
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape);
    uint8_t length[2] = {(uint8_t)n, (uint8_t)(n >> 8)};
    assert_int_equal(fwrite("\x93NUMPY\x01\x00", 1, 8, file), 8);
    assert_int_equal(fwrite(length, 1, 2, file), 2);
    assert_int_equal(fwrite(text, 1, (size_t)n, file), n);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void data_files_png(const char *folder, const char *name, int width, int height, int channels, int interlaced,
                    const uint8_t *pixels)
{
    static const int colours[] = {0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGB_ALPHA};
    FILE *file = create(folder, name);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_bytep *rows = calloc((size_t)height, sizeof *rows);
    assert_non_null(rows);
    for (int y = 0; y < height; y++) {
        rows[y] = (png_bytep)(uintptr_t)(pixels + (ptrdiff_t)y * width * channels);
    }
    png_init_io(png, file);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, 8, colours[channels],
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    png_write_image(png, rows);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    free(rows);
    assert_int_equal(fclose(file), 0);
}

void data_files_jpeg(const char *folder, const char *name, int width, int height, int channels, int progressive,
                     const uint8_t *pixels)
{
    FILE *file = create(folder, name);
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    if (progressive) {
        jpeg_simple_progression(&jpeg);
    }
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < height; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (ptrdiff_t)y * width * channels);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    assert_int_equal(fclose(file), 0);
}

int data_fixture_open(void **state, data_fixture *f, ckm_shape shape, int64_t batch, int64_t limit)
{
    data_files_folder(f->folder, sizeof f->folder);
    f->inputs[0] = (ckm_data_field){"x", CKM_F32, shape, 0};
    f->options = (ckm_data_options)CKM_DATA_OPTIONS_INIT;
    f->options.batch = batch;
    f->options.n_inputs = 1;
    f->options.inputs = f->inputs;
    f->options.labels.limit = limit;
    f->options.scaling = CKM_SCALING_UNIT;
    f->options.keep_order = true;
    *state = f;
    return 0;
}

int data_fixture_close(void **state)
{
    data_fixture *f = *state;
    data_files_remove(f->folder);
    return 0;
}

void data_fixture_read(data_fixture *f, float *images, int32_t *labels)
{
    ckm_data *data = NULL;
    void *inputs[] = {images};
    if (ckm_data_open(f->folder, &f->options, &data, &f->err) != CKM_OK ||
        ckm_data_fetch(data, 0, inputs, labels, &f->err) != CKM_OK) {
        fail_msg("%s: %s", f->err.file, f->err.message);
    }
    ckm_data_close(data);
}

void data_fixture_refused(data_fixture *f, ckm_status code, const char *file, const char *text)
{
    ckm_data *data = NULL;
    ckm_status status = ckm_data_open(f->folder, &f->options, &data, &f->err);
    assert_null(data);
    assert_int_equal(status, code);
    size_t n = strlen(f->err.file);
    if (strstr(f->err.message, text) == NULL || n < strlen(file) || strcmp(f->err.file + n - strlen(file), file) != 0) {
        fail_msg("got %s: %s; expected %s: %s", f->err.file, f->err.message, file, text);
    }
}
