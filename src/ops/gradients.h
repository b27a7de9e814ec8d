// SPDX-License-Identifier: Apache-2.0
// Gradient rules in separate files, grad_<family>.c, for the records in other files of the folder. A rule in the same file
// as its record is not declared here.
#ifndef CKM_SRC_OPS_GRADIENTS_H
#define CKM_SRC_OPS_GRADIENTS_H

#include "autodiff/grad_rules.h"

// arithmetic
ckm_i_grad_rule ckm_i_grad_of_add, ckm_i_grad_of_sub, ckm_i_grad_of_mul, ckm_i_grad_of_div, ckm_i_grad_of_pow,
    ckm_i_grad_of_mod, ckm_i_grad_of_minimum, ckm_i_grad_of_maximum, ckm_i_grad_of_where, ckm_i_grad_of_cast;
// attention
ckm_i_grad_rule ckm_i_grad_of_attention, ckm_i_grad_of_masked_softmax, ckm_i_grad_of_rotary, ckm_i_grad_of_roll,
    ckm_i_grad_of_window_bias;
// conv, product
ckm_i_grad_rule ckm_i_grad_of_conv, ckm_i_grad_of_dense, ckm_i_grad_of_matmul, ckm_i_grad_of_gemm, ckm_i_grad_of_einsum;
// norm
ckm_i_grad_rule ckm_i_grad_of_batch_norm, ckm_i_grad_of_layer_norm, ckm_i_grad_of_group_norm, ckm_i_grad_of_rms_norm,
    ckm_i_grad_of_local_response_norm, ckm_i_grad_of_lp_norm;
// pool
ckm_i_grad_rule ckm_i_grad_of_max_pool, ckm_i_grad_of_average_pool, ckm_i_grad_of_lp_pool,
    ckm_i_grad_of_global_average_pool, ckm_i_grad_of_global_max_pool, ckm_i_grad_of_resize;
// movement
ckm_i_grad_rule ckm_i_grad_of_identity, ckm_i_grad_of_reshape, ckm_i_grad_of_transpose, ckm_i_grad_of_concat,
    ckm_i_grad_of_split, ckm_i_grad_of_slice, ckm_i_grad_of_pad, ckm_i_grad_of_tile, ckm_i_grad_of_gather,
    ckm_i_grad_of_gather_elements, ckm_i_grad_of_gather_nd, ckm_i_grad_of_top_k, ckm_i_grad_of_scatter_nd,
    ckm_i_grad_of_scatter_elements, ckm_i_grad_of_depth_to_space, ckm_i_grad_of_space_to_depth,
    ckm_i_grad_of_cumulative_sum;
// reduce
ckm_i_grad_rule ckm_i_grad_of_reduce_sum, ckm_i_grad_of_reduce_mean, ckm_i_grad_of_reduce_with_output,
    ckm_i_grad_of_reduce_without_output;

#endif
