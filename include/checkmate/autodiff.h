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

#ifdef __cplusplus
}
#endif
#endif
