// SPDX-License-Identifier: Apache-2.0
// Decoding PNG and JPEG files row by row.
#ifndef CKM_SRC_RUN_DATA_IMAGE_FILE_H
#define CKM_SRC_RUN_DATA_IMAGE_FILE_H

#include "run/data/data_pixels.h"

// Larger sides are refused.
#define CKM_I_IMAGE_MAX_SIDE 16384

typedef enum ckm_i_image_kind { CKM_I_IMAGE_NONE, CKM_I_IMAGE_PNG, CKM_I_IMAGE_JPEG } ckm_i_image_kind;

// By the ending of a file's name, or of a path to it; none of a hidden one.
ckm_i_image_kind ckm_i_image_kind_of(const char *name);

// A picture of a kind that is not read?
bool ckm_i_image_is_other(const char *name);

// Bytes that decoding the file takes in addition to the result: from its header, which must be valid.
ckm_status ckm_i_image_memory(const char *path, ckm_i_image_kind kind, int64_t *bytes, ckm_error *err) CKM_NODISCARD;

// Decodes the file into `out` through `sink`. A file that is cut off or damaged is CKM_ERR_FORMAT.
ckm_status ckm_i_image_decode(const char *path, ckm_i_image_kind kind, ckm_i_pixels *sink, float *out,
                              ckm_error *err) CKM_NODISCARD;

// The two decoders. `sink` NULL: only read the header and give the memory.
ckm_status ckm_i_image_png(const char *path, ckm_i_pixels *sink, float *out, int64_t *bytes,
                           ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_image_jpeg(const char *path, ckm_i_pixels *sink, float *out, int64_t *bytes,
                            ckm_error *err) CKM_NODISCARD;

#endif
