// SPDX-License-Identifier: Apache-2.0
// From a network to what one training step runs.
#ifndef CHECKMATE_AUTODIFF_H
#define CHECKMATE_AUTODIFF_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

// The layer-level training graph of the Checkmate paper (Jain et al. 2020, section 3 and its artifact):
// n operators of the network give 2n+1 operators: the layers, the loss, one backward operator a layer in
// reverse order. For a layer L with operand p (not a network input): L reads p; bwd(p) reads bwd(L) and L;
// bwd(L) reads L; the loss reads the last layer and bwd(last) the loss. Fixed bytes are two copies of all
// parameters, trained or not. `graph` must outlive `*out`.
CKM_API ckm_status ckm_autodiff_layer_graph(const ckm_graph *graph, ckm_training **out, ckm_error *err) CKM_NODISCARD;

// What the step minimizes.
typedef enum ckm_loss_kind {
    CKM_LOSS_OF_TASK,                // whichever of the others the network's task asks for
    CKM_LOSS_SOFTMAX_CROSS_ENTROPY,  // int32 labels, one for a sample or for a position; -1 is ignored
    CKM_LOSS_MSE                     // mean squared error against a float target of the output's shape
} ckm_loss_kind;

typedef enum ckm_optimizer_kind {
    CKM_OPTIMIZER_NONE,  // no updates: the gradients of all parameters are results of the step
    CKM_OPTIMIZER_SGD,
    CKM_OPTIMIZER_ADAM,
    CKM_OPTIMIZER_ADAMW
} ckm_optimizer_kind;

// The learning rate is not here: it changes from step to step. Frozen: what another optimizer needs becomes a member of
// ckm_autodiff_options.
typedef struct ckm_optimizer {
    ckm_optimizer_kind kind;
    double momentum;               // SGD; 0 keeps no state
    bool nesterov;                 // SGD with momentum
    double beta1, beta2, epsilon;  // Adam, AdamW; 0: 0.9, 0.999, 1e-8. CKM_NONE: a beta of 0
    double weight_decay;
} ckm_optimizer;

typedef struct ckm_autodiff_options {
    size_t size;  // set by CKM_AUTODIFF_OPTIONS_INIT
    ckm_loss_kind loss;
    // Keep weight gradients, and update all parameters when the last one is complete. Otherwise each is applied as soon as it is
    // complete, and need not be kept.
    bool late_updates;
    ckm_optimizer optimizer;
} ckm_autodiff_options;
#define CKM_AUTODIFF_OPTIONS_INIT CKM_SIZED(ckm_autodiff_options)

// The operator-level training graph: forward operators, the loss, and for every gradient that a parameter
// needs a separate operator with its true operands (a convolution's gradient with respect to its data reads
// no activation), sums of gradients written out, reshapes as views, in-place pairs, and, with an optimizer, one
// update a parameter. Operators that the loss does not depend on are left out; the loss is that of the last
// output of the network that nothing reads. A final softmax is part of the cross-entropy loss. Kinds, operands
// and attributes: src/autodiff/OPERATORS.md. `options` may be NULL: the loss of the task, no optimizer.
// Errors: CKM_ERR_UNSUPPORTED names every operator that needs a gradient and has no rule for it. `graph` must
// outlive `*out`.
CKM_API ckm_status ckm_autodiff_op_graph(const ckm_graph *graph, const ckm_autodiff_options *options,
                                         ckm_training **out, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
