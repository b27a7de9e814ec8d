// SPDX-License-Identifier: Apache-2.0
// What an attention operator computes: sizes, strides, masks, read from its operands and attributes once for shape
// inference, costs and kernels alike.
#ifndef CKM_SRC_GRAPH_OP_ATTENTION_H
#define CKM_SRC_GRAPH_OP_ATTENTION_H

#include "graph/graph.h"

// Operands of the forward operator; the gradient has dy, y and lse in front of them.
enum {
    CKM_I_ATTENTION_Q,
    CKM_I_ATTENTION_K,
    CKM_I_ATTENTION_V,
    CKM_I_ATTENTION_BIAS,
    CKM_I_ATTENTION_MASK,
    CKM_I_ATTENTION_OPERANDS,
    CKM_I_ATTENTION_GRADIENTS = 3
};

typedef enum ckm_i_attention_hides {
    CKM_I_ATTENTION_SEES_ALL,
    CKM_I_ATTENTION_CAUSAL,
    CKM_I_ATTENTION_WINDOWS
} ckm_i_attention_hides;

// Strides count elements. Numbers of a head are neighbours.
typedef struct ckm_i_attention_strides {
    int64_t batch, head, position;
} ckm_i_attention_strides;

// A tensor that is broadcast to batch, heads, queries, keys: its dimensions, and strides that are 0 where it repeats.
typedef struct ckm_i_attention_spread {
    bool present;
    int64_t dims[4], strides[4];
} ckm_i_attention_spread;

typedef struct ckm_i_attention_form {
    int64_t batch, heads, kv_heads, queries, keys;
    int64_t size, value_size;  // numbers of a head of q and k, of v and y
    ckm_i_attention_strides q, k, v, y;
    double scale;
    ckm_i_attention_hides hides;
    int64_t grid[2], window[2], shift[2];  // of windows
    ckm_i_attention_spread bias, mask;
    bool mask_hides;  // the mask's true hides; by default its false does
    double fill;      // the score of what the mask hides
    double rate;      // of dropout
    int64_t key;      // of its random numbers
} ckm_i_attention_form;

// Reads and checks the operator whose q is input `first`.
ckm_status ckm_i_attention_read(const ckm_i_op_view *v, int32_t first, ckm_i_attention_form *out,
                                ckm_error *err) CKM_NODISCARD;

#endif
