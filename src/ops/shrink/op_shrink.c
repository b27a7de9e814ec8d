// SPDX-License-Identifier: Apache-2.0
// Shrinkage, as ONNX has it: soft with equal limits and bias, hard without a bias.
//
// shrink: x -> y of x's shape; attributes lambd (real, 0.5), bias (real, 0): y = x + bias where x < -lambd, x - bias where
// x > lambd, else 0.
// shrink_backward: dy, x -> dx: dy where y is not the constant, else 0. y does not tell: with a bias it can be 0 anywhere.
#include "autodiff/grad_rules.h"
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

const ckm_i_op_class ckm_i_ops_shrink[] = {
    {CKM_I_OP(shrink, 1, 1, 1, ckm_i_op_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     CKM_I_OP_LEARNS(ckm_i_grad_reads_input), .onnx = {"Shrink", 9, {"bias", "lambd"}}},
    {CKM_I_OP(shrink_backward, 2, 2, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, BOTH), CKM_I_OP_BEHIND_LOSS},
    {0},
};
