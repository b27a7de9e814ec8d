// SPDX-License-Identifier: Apache-2.0
// Small data sets on disk, written for tests.
#ifndef CKM_TESTS_DATA_FILES_H
#define CKM_TESTS_DATA_FILES_H

#include <checkmate/data.h>

#include <stddef.h>
#include <stdint.h>

// A fresh folder under /tmp; the text is static to the caller's buffer.
void data_files_folder(char *path, size_t room);
// Removes a folder and everything in it.
void data_files_remove(const char *path);
void data_files_write(const char *folder, const char *name, const void *data, size_t size);

// IDX: `dims` of `rank`, one byte an element.
void data_files_idx(const char *folder, const char *name, int rank, const uint32_t *dims, const uint8_t *data);
// .npy, version 1: `descr` such as "<f4", `shape` such as "(3, 2)".
void data_files_npy(const char *folder, const char *name, const char *descr, const char *shape, const void *data,
                    size_t size);
// PNG or JPEG of width x height x channels (1, 3; PNG also 4) bytes.
void data_files_png(const char *folder, const char *name, int width, int height, int channels, int interlaced,
                    const uint8_t *pixels);
void data_files_jpeg(const char *folder, const char *name, int width, int height, int channels, int progressive,
                     const uint8_t *pixels);

// A folder and how it is read: batches of `batch` in the folder's order, an input "x" of `shape` scaled to [0, 1], labels
// below `limit`.
typedef struct data_fixture {
    char folder[64];
    ckm_data_field inputs[2];
    ckm_data_options options;
    ckm_error err;
} data_fixture;

// Sets *state up; data_fixture_close takes it down again.
int data_fixture_open(void **state, data_fixture *f, ckm_shape shape, int64_t batch, int64_t limit);
int data_fixture_close(void **state);
// Opens, fetches step 0 into images and labels (room for a batch), closes.
void data_fixture_read(data_fixture *f, float *images, int32_t *labels);
// Opening must fail with this code, naming the file (its end) and saying this.
void data_fixture_refused(data_fixture *f, ckm_status code, const char *file, const char *text);

#endif
