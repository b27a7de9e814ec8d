// SPDX-License-Identifier: Apache-2.0
// The one list of operators: every kind there is, by the name that networks, messages and files give it, and the tables that
// hold records and kernels. Code identifies an operator by comparing `op->op_class->id` with CKM_I_OP_<kind>; names
// are read once, when an operator is added.
#ifndef CKM_SRC_GRAPH_OP_KINDS_H
#define CKM_SRC_GRAPH_OP_KINDS_H

// One entry a kind, in the lines of the table that holds its record; the order does not matter.
// clang-format off
#define CKM_I_OP_KINDS(X) \
    X(shrink) X(shrink_backward) \
    /* conv */ \
    X(conv) X(conv_transpose) X(separable_conv) \
    /* dense */ \
    X(dense) \
    /* norm */ \
    X(batch_norm) \
    /* activation */ \
    X(relu) X(leaky_relu) X(elu) X(selu) X(celu) X(sigmoid) X(hard_sigmoid) X(tanh) X(softplus) X(softsign) \
    X(gelu) X(swish) X(hard_swish) X(mish) X(thresholded_relu) X(softmax) X(log_softmax) X(prelu) X(clip) \
    /* merge */ \
    X(add) X(concat) \
    /* pool */ \
    X(max_pool) X(average_pool) X(lp_pool) X(global_average_pool) X(global_max_pool) \
    /* border */ \
    X(zero_padding) X(cropping) \
    /* resize */ \
    X(up_sampling) X(interp) X(resize) \
    /* basic */ \
    X(dropout) X(flatten) X(reshape) X(identity) X(lambda) \
    /* elementwise */ \
    X(sub) X(mul) X(div) X(pow) X(mod) X(minimum) X(maximum) X(sum) X(mean) X(equal) X(less) X(less_or_equal) \
    X(greater) X(greater_or_equal) X(and) X(or) X(xor) X(sqrt) X(erf) X(neg) X(exp) X(log) X(abs) X(reciprocal) \
    X(floor) X(ceil) X(round) X(sign) X(sin) X(cos) X(tan) X(atan) X(not) X(is_nan) X(where) X(cast) \
    /* matmul */ \
    X(matmul) X(gemm) \
    /* einsum */ \
    X(einsum) \
    /* reduce */ \
    X(reduce_mean) X(reduce_sum) X(reduce_max) X(reduce_min) X(reduce_prod) X(reduce_l1) X(reduce_l2) \
    X(reduce_sum_square) X(reduce_log_sum) X(reduce_log_sum_exp) X(arg_max) X(arg_min) X(top_k) \
    /* layer_norm */ \
    X(layer_norm) X(group_norm) X(instance_norm) X(local_response_norm) X(lp_norm) \
    /* movement */ \
    X(transpose) X(slice) X(split) X(pad) X(expand) X(tile) X(gather) X(gather_elements) X(gather_nd) \
    X(scatter_nd) X(scatter_elements) X(depth_to_space) X(space_to_depth) X(triangle) X(cumulative_sum) \
    /* attention */ \
    X(attention) X(attention_backward) \
    /* masked_softmax */ \
    X(masked_softmax) \
    /* rms_norm */ \
    X(rms_norm) X(rms_norm_backward) \
    /* roll */ \
    X(roll) \
    /* rotary */ \
    X(rotary) \
    /* time_embedding */ \
    X(time_embedding) \
    /* window_bias */ \
    X(window_bias) X(window_bias_backward) \
    /* grad_conv */ \
    X(conv_backward_data) X(conv_backward_weights) X(conv_transpose_backward_data) \
    X(conv_transpose_backward_weights) X(dense_backward_weights) X(bias_grad) X(sum_to) \
    /* grad_norm */ \
    X(batch_norm_train) X(batch_norm_apply) X(batch_norm_backward) X(layer_norm_backward) X(group_norm_backward) \
    X(local_response_norm_backward) X(lp_norm_backward) \
    /* grad_pool */ \
    X(max_pool_train) X(max_pool_backward) X(average_pool_backward) X(lp_pool_backward) X(resize_backward) \
    /* grad_elementwise */ \
    X(scale) X(relu_backward) X(leaky_relu_backward) X(thresholded_relu_backward) X(elu_backward) \
    X(selu_backward) X(celu_backward) X(sigmoid_backward) X(hard_sigmoid_backward) X(tanh_backward) \
    X(softplus_backward) X(softsign_backward) X(sqrt_backward) X(reciprocal_backward) X(tan_backward) \
    X(gelu_backward) X(swish_backward) X(hard_swish_backward) X(mish_backward) X(erf_backward) X(abs_backward) \
    X(sin_backward) X(cos_backward) X(atan_backward) X(softmax_backward) X(log_softmax_backward) \
    X(clip_backward) X(prelu_backward) X(prelu_backward_slope) X(div_backward_b) X(pow_backward_a) \
    X(pow_backward_b) X(select_backward) X(extreme_backward) \
    /* grad_movement */ \
    X(reduce_max_backward) X(reduce_min_backward) X(reduce_prod_backward) X(reduce_l2_backward) \
    X(reduce_log_sum_exp_backward) X(reduce_l1_backward) X(reduce_sum_square_backward) \
    X(reduce_log_sum_backward) X(pad_backward) X(slice_backward) X(tile_backward) X(gather_backward) \
    X(gather_elements_backward) X(gather_nd_backward) X(scatter_nd_backward) X(scatter_elements_backward) \
    /* loss */ \
    X(softmax_cross_entropy) X(softmax_cross_entropy_backward) X(mse) X(mse_backward) \
    /* update */ \
    X(update_sgd) X(update_adam) X(update_adamw) \
    /* exchange */ \
    X(gradient_sum) X(gradient_send) X(gradient_receive)

// Tables of records, src/ops/<family>/op_<group>.c; the order does not matter.
#define CKM_I_OP_GROUPS(X) \
    X(shrink) \
    X(conv) X(dense) X(norm) X(activation) X(merge) X(pool) X(border) X(resize) X(basic) X(elementwise) \
    X(matmul) X(einsum) X(reduce) X(layer_norm) X(movement) X(attention) X(masked_softmax) X(rms_norm) X(roll) \
    X(rotary) X(time_embedding) X(window_bias) X(grad_conv) X(grad_norm) X(grad_pool) X(grad_movement) X(loss) \
    X(update) X(exchange)

// Tables of reference kernels, ckm_i_ref_kernels_<group>; the order does not matter.
#define CKM_I_REF_GROUPS(X) \
    X(shrink) \
    X(activation) X(attention) X(conv) X(dense) X(dropout) X(elementwise) X(elementwise_grad) X(gather) \
    X(layer_norm) X(loss) X(masked_softmax) X(matmul) X(merge) X(movement) X(norm) X(pool) X(reduce) X(resize) \
    X(rms_norm) X(roll) X(rotary) X(select) X(softmax) X(time_embedding) X(update) X(window_bias) \
    X(exchange)

// Tables of kernels of the "cpu" back end, ckm_i_cpu_<group>, in the order in which they are asked.
#define CKM_I_CPU_GROUPS(X) \
    X(shrink) \
    X(matmul) X(conv_weights) X(conv) X(implicit_conv) X(batch_norm) X(elementwise) X(broadcast) X(softmax) X(eltwise) \
    X(max_pool) X(reduce) X(layer_norm) X(update) X(loss) X(average_pool) X(movement) X(attention)
// clang-format on

typedef enum ckm_i_op_kind {
    CKM_I_OP_NO_KIND,
#define CKM_I_OP_KIND_ENUM(kind) CKM_I_OP_##kind,
    CKM_I_OP_KINDS(CKM_I_OP_KIND_ENUM)
#undef CKM_I_OP_KIND_ENUM
        CKM_I_OP_KIND_COUNT
} ckm_i_op_kind;

#endif
