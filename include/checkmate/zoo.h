// SPDX-License-Identifier: Apache-2.0
// The zoo: networks by name, as in Keras and in the Checkmate paper. Channels last.
#ifndef CHECKMATE_ZOO_H
#define CHECKMATE_ZOO_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

CKM_API int32_t ckm_zoo_count(void);
CKM_API const char *ckm_zoo_name(int32_t i);

// Builds network `name` for `batch` samples. `input_shape` is {height, width, channels}, or NULL for the
// network's default. Errors: CKM_ERR_NOT_FOUND; CKM_ERR_ARGUMENT when the architecture does not allow the
// input shape (the message names the layer); CKM_ERR_OVERFLOW.
CKM_API ckm_status ckm_zoo_build(const char *name, int64_t batch, const int64_t input_shape[3], ckm_graph **out,
                                 ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
