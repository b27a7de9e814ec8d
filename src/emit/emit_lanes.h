// SPDX-License-Identifier: Apache-2.0
// The training graph, or a network, as a picture of blocks.
#ifndef CKM_SRC_EMIT_EMIT_LANES_H
#define CKM_SRC_EMIT_EMIT_LANES_H

#include <checkmate/emit.h>

// `facts` may be NULL: colours are then by kind.
ckm_status ckm_i_lanes_draw(const ckm_dataflow *df, const ckm_emit_facts *facts, const char *path,
                            ckm_error *err) CKM_NODISCARD;

// What a picture of a network says of a layer.
#define CKM_I_LANES_TEXT 128
typedef struct ckm_i_lanes_layer {
    const char *kind;  // "conv"
    char shape[CKM_I_LANES_TEXT];
    bool is_input, has_parameters;
} ckm_i_lanes_layer;

// A network: a graph of forward operators, `layers` says what each is.
ckm_status ckm_i_lanes_draw_network(const ckm_dataflow *df, const ckm_i_lanes_layer *layers, const char *path,
                                    ckm_error *err) CKM_NODISCARD;

#endif
