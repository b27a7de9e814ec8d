// SPDX-License-Identifier: Apache-2.0
// Inference, internal view: what its files share.
#ifndef CKM_SRC_TRAINER_INFERENCE_H
#define CKM_SRC_TRAINER_INFERENCE_H

#include <checkmate/inference.h>

#include "graph/graph.h"
#include "trainer/trainer.h"

struct ckm_inference {
    ckm_inference_options options;  // its pointers to options are NULL
    const ckm_graph *graph;
    ckm_trainer *trainer;  // of the forward pass
    ckm_session *session;  // the trainer's, once it has begun: leaves first, then the outputs
    int32_t n_inputs, n_leaves;
    bool ran;
};

// As NumPy calls it: "float32".
const char *ckm_i_inference_type_name(ckm_dtype dtype);
// The leaf of that name, as a tensor of the session.
ckm_status ckm_i_inference_find(const ckm_inference *f, const char *name, int32_t *tensor,
                                ckm_error *err) CKM_NODISCARD;
// CKM_ERR_ARGUMENT unless type and shape are the tensor's. `path` (may be NULL) is where the values come from.
ckm_status ckm_i_inference_accepts(const ckm_session_tensor *wanted, ckm_dtype dtype, const ckm_shape *shape,
                                   const char *path, ckm_error *err) CKM_NODISCARD;
// The same for values that no kernel may see: positions outside a table.
ckm_status ckm_i_inference_check(const ckm_session_tensor *tensor, const void *data, int64_t bytes, const char *path,
                                 ckm_error *err) CKM_NODISCARD;
// Nothing is made up: an error names what has no value.
ckm_status ckm_i_inference_check_values(const ckm_inference *f, bool inputs_too, ckm_error *err) CKM_NODISCARD;
// Output i as a tensor of the session; there is one after a run.
ckm_status ckm_i_inference_output_at(const ckm_inference *f, int32_t i, int32_t *tensor, ckm_error *err) CKM_NODISCARD;

#endif
