// SPDX-License-Identifier: Apache-2.0
// The zoo: networks by name, those of Keras and of the Checkmate paper and today's. Channels last.
#ifndef CHECKMATE_ZOO_H
#define CHECKMATE_ZOO_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

CKM_API int32_t ckm_zoo_count(void);
CKM_API const char *ckm_zoo_name(int32_t i);
// What network i belongs to: "Image classification", "Language", ... Networks of a group stand together.
CKM_API const char *ckm_zoo_group(int32_t i);
// The number of classes of network `name` as published; 0: it is no classifier or segmenter, or there is no such network.
CKM_API int64_t ckm_zoo_classes(const char *name);

// Tokens that network `name` knows as published; 0: it reads no text, or there is no such network.
CKM_API int64_t ckm_zoo_vocabulary(const char *name);

// The size of a network. 0 means: as published. What a network has no such number of must stay 0.
typedef struct ckm_zoo_size {
    size_t size;                      // of this structure; set by CKM_ZOO_SIZE_INIT
    int64_t height, width, channels;  // of the input image; all three or none
    int64_t sequence_length;          // tokens of a text
    int64_t model_width;              // numbers a token has between layers; channels of the first stage
    int64_t depth;                    // layers or blocks
    int64_t heads;                    // of attention; in a network of stages those of the first
    int64_t vocabulary;               // different tokens
    int64_t classes;                  // of a classifier or segmenter
} ckm_zoo_size;
#define CKM_ZOO_SIZE_INIT CKM_SIZED(ckm_zoo_size)

// Builds network `name` for `batch` samples. No memory is taken for weights. `input_shape` is {height, width,
// channels}, or NULL for the network's default. Errors: CKM_ERR_NOT_FOUND; CKM_ERR_ARGUMENT when the architecture does
// not allow the input shape (the message names the layer); CKM_ERR_OVERFLOW.
CKM_API ckm_status ckm_zoo_build(const char *name, int64_t batch, const int64_t input_shape[3], ckm_graph **out,
                                 ckm_error *err) CKM_NODISCARD;

// The same with every size to choose. CKM_ERR_ARGUMENT also when a size is given that the network does not have.
CKM_API ckm_status ckm_zoo_build_sized(const char *name, int64_t batch, const ckm_zoo_size *size, ckm_graph **out,
                                       ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
