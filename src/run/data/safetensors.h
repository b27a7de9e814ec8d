// SPDX-License-Identifier: Apache-2.0
// The safetensors format: eight bytes of header size, a JSON header that gives every tensor's type, shape and place,
// then the tensors' bytes without gaps.
#ifndef CKM_SRC_RUN_DATA_SAFETENSORS_H
#define CKM_SRC_RUN_DATA_SAFETENSORS_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

typedef struct ckm_i_safetensor {
    const char *name;
    ckm_dtype dtype;
    ckm_shape shape;
    int64_t bytes;
    const void *data;  // for writing; NULL: the writer's source has it
    int64_t at;        // in the file, when read
    int32_t id;        // for the source
} ckm_i_safetensor;

// Copies bytes of a tensor that is to be written, for those whose `data` is NULL.
typedef ckm_status (*ckm_i_safetensors_source)(void *user, const ckm_i_safetensor *tensor, int64_t at, int64_t bytes,
                                               void *out, ckm_error *err);

typedef struct ckm_i_safetensors_pair {
    const char *key, *value;
} ckm_i_safetensors_pair;

// Writes a file, replacing an older one only when everything has reached the disk. Names must be unique.
ckm_status ckm_i_safetensors_write(const char *path, const ckm_i_safetensor *tensors, int32_t n_tensors,
                                   const ckm_i_safetensors_pair *metadata, int32_t n_metadata,
                                   ckm_i_safetensors_source source, void *user, ckm_error *err) CKM_NODISCARD;

typedef struct ckm_i_safetensors ckm_i_safetensors;

// Opens a file and checks its header: every tensor within the file, no gap, no overlap, sizes that match shapes.
ckm_status ckm_i_safetensors_open(const char *path, ckm_i_safetensors **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_safetensors_close(ckm_i_safetensors *file);
int32_t ckm_i_safetensors_count(const ckm_i_safetensors *file);
// They are in the order of their names.
const ckm_i_safetensor *ckm_i_safetensors_at(const ckm_i_safetensors *file, int32_t i);
// NULL when there is none of that name.
const ckm_i_safetensor *ckm_i_safetensors_find(const ckm_i_safetensors *file, const char *name);
// A value of the metadata, or NULL.
const char *ckm_i_safetensors_metadata(const ckm_i_safetensors *file, const char *key);
// All texts of the metadata, in any order.
void ckm_i_safetensors_each_pair(const ckm_i_safetensors *file,
                                 void (*take)(void *user, const char *key, const char *value), void *user);
// Reads a tensor's bytes.
ckm_status ckm_i_safetensors_read(const ckm_i_safetensors *file, const ckm_i_safetensor *tensor, void *out,
                                  ckm_error *err) CKM_NODISCARD;
// Reads `bytes` of them, from byte `at` on.
ckm_status ckm_i_safetensors_read_part(const ckm_i_safetensors *file, const ckm_i_safetensor *tensor, int64_t at,
                                       int64_t bytes, void *out, ckm_error *err) CKM_NODISCARD;

#endif
