// SPDX-License-Identifier: Apache-2.0
// Networks: tensors with shapes, operators with attributes. Built by the zoo (checkmate/zoo.h) or an
// importer (checkmate/import.h), read-only afterwards.
#ifndef CHECKMATE_GRAPH_H
#define CHECKMATE_GRAPH_H

#include <checkmate/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CKM_MAX_RANK 8

typedef enum ckm_dtype {
    CKM_F32,
    CKM_F16,
    CKM_BF16,
    CKM_F64,
    CKM_I8,
    CKM_U8,
    CKM_I16,
    CKM_I32,
    CKM_I64,
    CKM_BOOL
} ckm_dtype;

// Order of an image tensor's axes: N,H,W,C (the zoo, as in Keras) or N,C,H,W (ONNX).
typedef enum ckm_layout { CKM_CHANNELS_LAST, CKM_CHANNELS_FIRST } ckm_layout;

typedef enum ckm_tensor_role {
    CKM_ROLE_INPUT,       // fed anew every step
    CKM_ROLE_ACTIVATION,  // computed by an operator
    CKM_ROLE_PARAMETER,   // trainable
    CKM_ROLE_STATE,       // kept across steps but not trained: batch-norm running statistics
    CKM_ROLE_CONSTANT     // fixed; not counted among parameters
} ckm_tensor_role;

// What a network is trained for: what its labels mean, and by that the loss.
typedef enum ckm_task {
    CKM_TASK_CLASSES,       // a class for every sample or position
    CKM_TASK_NEXT_TOKEN,    // for every position of a text the token that follows
    CKM_TASK_MASKED_TOKEN,  // the tokens that were hidden from the input; no label elsewhere
    CKM_TASK_DENOISE        // the noise that was added to the input; mean squared error
} ckm_task;

typedef struct ckm_graph ckm_graph;

// A training graph: what one step runs, at some granularity (checkmate/autodiff.h makes it,
// checkmate/cost.h turns it into a dataflow graph). It borrows the network it was made from.
typedef struct ckm_training ckm_training;

typedef struct ckm_shape {
    int32_t rank;                // 0 for a scalar
    int64_t dims[CKM_MAX_RANK];  // dims[0] is the batch for inputs and activations
} ckm_shape;

typedef struct ckm_graph_tensor_info {
    const char *name;
    ckm_tensor_role role;
    ckm_dtype dtype;
    ckm_shape shape;
    int32_t producer;  // operator, or -1
} ckm_graph_tensor_info;

typedef struct ckm_graph_op_info {
    const char *name;
    const char *kind;  // "conv", "batch_norm", ...
    int32_t n_inputs, n_outputs;
    const int32_t *inputs, *outputs;  // tensor indices; -1 for an absent optional input
} ckm_graph_op_info;

CKM_API void ckm_graph_free(ckm_graph *graph);
CKM_API const char *ckm_graph_name(const ckm_graph *graph);
CKM_API ckm_layout ckm_graph_layout(const ckm_graph *graph);
CKM_API int64_t ckm_graph_batch(const ckm_graph *graph);
CKM_API ckm_task ckm_graph_task(const ckm_graph *graph);  // CKM_TASK_CLASSES for imported networks
CKM_API int32_t ckm_graph_op_count(const ckm_graph *graph);
CKM_API int32_t ckm_graph_tensor_count(const ckm_graph *graph);
CKM_API ckm_graph_op_info ckm_graph_get_op(const ckm_graph *graph, int32_t op);
CKM_API ckm_graph_tensor_info ckm_graph_get_tensor(const ckm_graph *graph, int32_t tensor);
// Elements in all tensors of the given role (CKM_ROLE_PARAMETER: the trainable parameters).
CKM_API int64_t ckm_graph_element_count(const ckm_graph *graph, ckm_tensor_role role);

CKM_API void ckm_training_free(ckm_training *training);

#ifdef __cplusplus
}
#endif
#endif
