// SPDX-License-Identifier: Apache-2.0
// Layer-level training graphs made from a few numbers: layers in order, edges between them, then what the
// Checkmate paper makes of them (a loss, one backward operator a layer in reverse order).
#ifndef CKM_TESTS_LAYER_GRAPH_H
#define CKM_TESTS_LAYER_GRAPH_H

#include <checkmate/dataflow.h>

typedef struct layer_spec {
    int64_t cost, bytes;  // forward; backward costs twice as much and holds as much
    int32_t n_operands;
    int32_t operands[4];  // earlier layers; the network's input is left out
} layer_spec;

// Fails the test when the library refuses the graph. `with_kinds`: operators have their kinds; otherwise all are forward.
ckm_dataflow *layer_graph_build(const layer_spec *layers, int32_t n, int64_t fixed_bytes, int64_t loss_bytes,
                                bool with_kinds);

// A chain of n layers; every operator, loss and backward included, costs 1 and puts out 1 byte.
ckm_dataflow *layer_graph_unit_chain(int32_t n);

// linear8 and VGG19 at batch 1 with the costs and sizes of the paper's accounting.
ckm_dataflow *layer_graph_linear8(void);
ckm_dataflow *layer_graph_vgg19(void);

#endif
