// SPDX-License-Identifier: Apache-2.0
// What ONNX attributes and constant inputs become: every attribute of the operator made, its inputs and its number of
// outputs, with the defaults that the ONNX operator documents for the opset; and what is refused because no kernel does it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "onnx_builder.h"

typedef struct attribute_case {
    int opset;
    const char *op_type, *x, *inputs, *leaves, *attributes;
    const char *wanted;  // kind(inputs) key=values ...
} attribute_case;

static const attribute_case cases[] = {
    {9, "Conv", "1,3,9,9", "x,w", "w=4,3,3,3", "", "conv(x,w) groups=1"},
    {13, "Conv", "1,4,9,9", "x,w,b", "w=4,2,3,2;b=4",
     "l:kernel_shape=3,2;l:strides=2,3;l:dilations=2,1;l:pads=1,2,3,4;i:group=2",
     "conv(x,w,b) kernel=3,2 strides=2,3 dilation=2,1 padding=1,2,3,4 groups=2"},
    {13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=SAME_UPPER", "conv(x,w) padding=same_upper groups=1"},
    {13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=SAME_LOWER;l:pads=1,1,1,1",
     "conv(x,w) padding=same_lower groups=1"},
    {13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=VALID;l:pads=1,1,1,1", "conv(x,w) groups=1"},
    {11, "ConvTranspose", "1,4,5,5", "x,w", "w=4,2,3,3", "l:strides=2,2;l:pads=1,1,1,1;l:output_padding=1,1",
     "conv_transpose(x,w) strides=2,2 padding=1,1,1,1 output_padding=1,1 groups=1"},
    {11, "ConvTranspose", "1,4,5,5", "x,w", "w=4,2,3,3", "l:strides=2,2;l:output_shape=10,10",
     "conv_transpose(x,w) strides=2,2 output_size=10,10 groups=1"},
    {10, "MaxPool", "1,2,7,7", "x", "", "l:kernel_shape=3,2;l:strides=2,1;ceil_mode=1",
     "max_pool(x) kernel=3,2 strides=2,1 ceil_mode=1"},
    {9, "MaxPool", "1,2,7,7", "x", "", "l:kernel_shape=2,2", "max_pool(x) kernel=2,2 ceil_mode=0"},
    {11, "AveragePool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;l:pads=1,1,1,1",
     "average_pool(x) kernel=3,3 padding=1,1,1,1 ceil_mode=0 count_include_pad=0"},
    {11, "AveragePool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;l:pads=1,1,1,1;count_include_pad=1",
     "average_pool(x) kernel=3,3 padding=1,1,1,1 ceil_mode=0 count_include_pad=1"},
    {9, "LpPool", "1,2,7,7", "x", "", "l:kernel_shape=3,3", "lp_pool(x) kernel=3,3 ceil_mode=0 p=2"},
    {9, "LpPool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;i:p=3", "lp_pool(x) kernel=3,3 ceil_mode=0 p=3"},
    {9, "GlobalAveragePool", "2,3,5,6", "x", "", "", "global_average_pool(x) keepdims=1"},
    {9, "GlobalLpPool", "2,3,5", "x", "", "", "lp_pool(x) kernel=5 p=2"},
    {9, "GlobalLpPool", "2,3,5,6", "x", "", "i:p=1", "lp_pool(x) kernel=5,6 p=1"},
    {9, "BatchNormalization", "2,3,4,4", "x,s,b,m,v", "s=3;b=3;m=3;v=3", "",
     "batch_norm(x,s,b,m,v) epsilon=1e-05 momentum=0.9 training=0"},
    {14, "BatchNormalization", "2,3,4,4", "x,s,b,m,v", "s=3;b=3;m=3;v=3", "r:epsilon=0.25;r:momentum=0.5",
     "batch_norm(x,s,b,m,v) epsilon=0.25 momentum=0.5 training=0"},
    {14, "BatchNormalization", "2,3,4,4", "x,s,b,m,v", "s=3;b=3;m=3;v=3", "training_mode=1",
     "batch_norm(x,s,b,m,v) epsilon=1e-05 momentum=0.9 training=1"},
    {17, "LayerNormalization", "2,5,8", "x,s,b", "s=8;b=8", "", "layer_norm(x,s,b) epsilon=1e-05 axis=-1"},
    {17, "LayerNormalization", "2,5,8", "x,s", "s=5,8", "axis=1;r:epsilon=0.25", "layer_norm(x,s) epsilon=0.25 axis=1"},
    {9, "InstanceNormalization", "2,3,4", "x,s,b", "s=3;b=3", "r:epsilon=0.25", "instance_norm(x,s,b) epsilon=0.25"},
    {18, "GroupNormalization", "2,6,4", "x,s,b", "s=2;b=2", "num_groups=2", "group_norm(x,s,b) epsilon=1e-05 groups=2"},
    {9, "LRN", "1,4,2,2", "x", "", "size=3", "local_response_norm(x) size=3 alpha=0.0001 beta=0.75 bias=1"},
    {9, "LRN", "1,4,2,2", "x", "", "size=3;r:alpha=0.5;r:beta=0.25;r:bias=2",
     "local_response_norm(x) size=3 alpha=0.5 beta=0.25 bias=2"},
    {9, "LpNormalization", "1,4,2,2", "x", "", "", "lp_norm(x) axis=-1 p=2"},
    {9, "LpNormalization", "1,4,2,2", "x", "", "axis=1;p=1", "lp_norm(x) axis=1 p=1"},
    {9, "Gemm", "2,6", "x,w,b", "w=6,5;b=5", "", "dense(x,w,b) transposed=0"},
    {11, "Gemm", "2,6", "x,w", "w=5,6", "transB=1", "dense(x,w) transposed=1"},
    {11, "Gemm", "2,6", "x,w", "w=6,5", "r:beta=2", "dense(x,w) transposed=0"},
    {11, "Gemm", "6,2", "x,w", "w=6,5", "transA=1", "gemm(x,w) trans_a=1 trans_b=0"},
    {11, "Gemm", "2,6", "x,w,b", "w=6,5;b=2,1", "", "gemm(x,w,b) trans_a=0 trans_b=0"},
    {11, "Gemm", "2,5", "x,w,b", "w=5,5;b=1", "", "gemm(x,w,b) trans_a=0 trans_b=0"},
    {11, "Gemm", "2,6", "x,w,b", "w=6,5;f:b=1,2,3,4,5", "", "dense(x,w,b) transposed=0"},
    {11, "Gemm", "5,6", "x,w,b", "w=6,5;b=5,1", "", "gemm(x,w,b) trans_a=0 trans_b=0"},
    {9, "MatMul", "2,7,6", "x,w", "w=6,5", "", "dense(x,w) transposed=0"},
    {9, "MatMul", "5,5", "x,x", "", "", "matmul(x,x) trans_b=0"},
    {9, "MatMul", "6", "x,w", "w=6,5", "", "matmul(x,w) trans_b=0"},
    {9, "MatMul", "2,1,7,6", "x,y2", "d:y2=3,6,5", "", "matmul(x,y2) trans_b=0"},
    {12, "Einsum", "2,3,5", "x", "", "w:equation= abc -> ca", "einsum(x) equation=abc->ca"},
    {20, "Gelu", "2,3", "x", "", "", "gelu(x)"},
    {20, "Gelu", "2,3", "x", "", "w:approximate=tanh", "gelu(x) approximate=tanh"},
    {9, "PRelu", "2,3,4", "x,s", "s=3,1", "", "prelu(x,s)"},
    {13, "Softmax", "2,3,4", "x", "", "", "softmax(x) axis=-1"},
    {13, "Softmax", "2,3,4", "x", "", "axis=1", "softmax(x) axis=1"},
    {12, "Softmax", "2,3", "x", "", "", "softmax(x) axis=1"},
    {12, "Softmax", "2,3,1,1", "x", "", "", "softmax(x) axis=1"},
    {12, "Softmax", "2,1,1,4", "x", "", "", "softmax(x) axis=3"},
    {12, "LogSoftmax", "2,3,4", "x", "", "axis=-1", "log_softmax(x) axis=2"},
    {12, "Softmax", "1,1,4", "x", "", "axis=0", "softmax(x) axis=2"},
    {12, "Softmax", "2,3,1", "x", "", "axis=2", "softmax(x) axis=2"},
    {9, "Clip", "2,3", "x", "", "r:min=-2;r:max=6", "clip(x) min=-2 max=6"},
    {11, "Clip", "2,3", "x,lo,hi", "f:lo=-2;f:hi=6", "", "clip(x) min=-2 max=6"},
    {11, "Clip", "2,3", "x,,hi", "f:hi=6", "", "clip(x) max=6"},
    {11, "Clip", "2,3", "x,lo", "d:lo=", "", "clip(x,lo)"},
    {11, "Clip", "2,3", "x,,hi", "d:hi=", "", "clip(x,,hi)"},
    {9, "Dropout", "2,3", "x", "", "", "dropout(x) rate=0.5"},
    {9, "Dropout", "2,3", "x", "", "r:ratio=0.25", "dropout(x) rate=0.25"},
    {12, "Dropout", "2,3", "x,r", "f:r=0.25", "", "dropout(x) rate=0.25"},
    {13, "Dropout", "2,3", "x", "", "", "dropout(x) rate=0.5"},
    {13, "CumSum", "2,9", "x,k", "i:k=1", "exclusive=0;reverse=0", "cumulative_sum(x) axis=1 exclusive=0 reverse=0"},
    {11, "Pad", "2,3", "x,p", "i:p=0,1,0,2", "", "pad(x) pads=0,1,0,2 mode=constant value=0"},
    {14, "BatchNormalization", "2,3,4,4", "x,s,b,m,v", "s=3;b=3;m=3;v=3", "training_mode=0",
     "batch_norm(x,s,b,m,v) epsilon=1e-05 momentum=0.9 training=0"},
    {9, "Squeeze", "2,1,3,1", "x", "", "l:axes=1", "reshape(x) shape=2,3,1"},
    {9, "Cast", "2,3", "x", "", "to=10", "cast(x) dtype=1"},
    {9, "Cast", "2,3", "x", "", "to=6", "cast(x) dtype=7"},
    {9, "ReduceMean", "2,3,4", "x", "", "", "reduce_mean(x) keepdims=1"},
    {9, "ReduceMean", "2,3,4", "x", "", "l:axes=1,-1;keepdims=0", "reduce_mean(x) keepdims=0 axes=1,2"},
    {13, "ReduceSum", "2,3,4", "x,a", "i:a=-2", "", "reduce_sum(x) keepdims=1 axes=1"},
    {18, "ReduceMean", "2,3,4", "x", "", "noop_with_empty_axes=1", "reduce_mean(x) keepdims=1 axes="},
    {9, "ArgMax", "2,3,4", "x", "", "", "arg_max(x) keepdims=1 axes=0"},
    {9, "ArgMin", "2,3,4", "x", "", "axis=-1;keepdims=0", "arg_min(x) keepdims=0 axes=-1"},
    {9, "TopK", "2,9", "x", "", "k=4", "top_k(x) axis=-1 k=4"},
    {24, "TopK", "2,9", "x,k", "i:k=4", "sorted=0", "top_k(x) axis=-1 k=4"},
    {13, "Mod", "2,3", "x,y2", "d:y2=2,3", "fmod=1", "mod(x,y2)"},
    {28, "Mod", "2,3", "x,y2", "d:y2=2,3", "fmod=1", "mod(x,y2)"},
    {28, "SpaceToDepth", "1,2,4,4", "x", "", "blocksize=2;w:mode=DCR", "space_to_depth(x) block=2 mode=dcr"},
    {11, "TopK", "2,9", "x,k", "i:k=4", "", "top_k(x) axis=-1 k=4"},
    {11, "TopK", "9,2", "x,k", "i:k=4", "axis=0;largest=1", "top_k(x) axis=0 k=4"},
    {11, "CumSum", "2,9", "x,k", "i:k=1", "", "cumulative_sum(x) axis=1 exclusive=0 reverse=0"},
    {11, "CumSum", "2,9", "x,k", "i:k=0", "exclusive=1", "cumulative_sum(x) axis=0 exclusive=1 reverse=0"},
    {11, "CumSum", "2,9", "x,k", "i:k=-1", "reverse=1", "cumulative_sum(x) axis=-1 exclusive=0 reverse=1"},
    {9, "Flatten", "2,3,4", "x", "", "", "flatten(x) axis=1"},
    {9, "Flatten", "2,3,4", "x", "", "axis=-1", "flatten(x) axis=-1"},
    {9, "Reshape", "2,3,4", "x,s", "i:s=0,-1", "", "reshape(x) shape=2,12"},
    {9, "Transpose", "2,3,4", "x", "", "", "transpose(x) perm=2,1,0"},
    {9, "Transpose", "2,3,4", "x", "", "l:perm=1,2,0", "transpose(x) perm=1,2,0"},
    {9, "Unsqueeze", "2,3", "x", "", "l:axes=1,3", "reshape(x) shape=2,1,3,1"},
    {13, "Squeeze", "2,1,3,1", "x,a", "i:a=-1", "", "reshape(x) shape=2,1,3"},
    {9, "Expand", "2,1,4", "x,s", "i:s=3,1", "", "expand(x) shape=2,3,4"},
    {9, "Concat", "2,3,4", "x,y2", "d:y2=2,5,4", "axis=1", "concat(x,y2) axis=1"},
    {9, "Slice", "2,8,4", "x", "", "l:starts=1,0;l:ends=-1,2;l:axes=1,2",
     "slice(x) starts=0,1,0 steps=1,1,1 sizes=2,6,2"},
    {10, "Slice", "2,8,4", "x,s,e,a,t", "i:s=-1;i:e=-100;i:a=1;i:t=-3", "",
     "slice(x) starts=0,7,0 steps=1,-3,1 sizes=2,3,4"},
    {9, "Split", "2,8", "x", "", "axis=1;l:split=8", "split(x) axis=1"},
    {9, "Gather", "2,5,4", "x,i", "i:i=0,2,2", "", "gather(x,i) axis=0"},
    {9, "Gather", "2,5,4", "x,i", "i:i=0,2,2", "axis=1", "gather(x,i) axis=1"},
    {12, "GatherND", "2,3,4", "x,i", "i:i=1", "", "gather_nd(x,i) batch_dims=0"},
    {9, "Tile", "2,3", "x,s", "i:s=1,4", "", "tile(x) repeats=1,4"},
    {9, "Pad", "2,3", "x", "", "l:pads=0,1,2,3", "pad(x) pads=0,1,2,3 mode=constant value=0"},
    {9, "Pad", "2,3", "x", "", "l:pads=0,1,2,3;r:value=1.5", "pad(x) pads=0,1,2,3 mode=constant value=1.5"},
    {11, "Pad", "2,3", "x,p", "i:p=0,1,0,2", "w:mode=reflect", "pad(x) pads=0,1,0,2 mode=reflect value=0"},
    {11, "Pad", "2,3", "x,p,v", "i:p=0,1,0,2;f:v=2.5", "", "pad(x) pads=0,1,0,2 mode=constant value=2.5"},
    {18, "Pad", "2,3,4", "x,p,,a", "i:p=1,2;i:a=-1", "", "pad(x) pads=0,0,1,0,0,2 mode=constant value=0"},
    {9, "DepthToSpace", "2,8,3,3", "x", "", "blocksize=2", "depth_to_space(x) block=2 mode=dcr"},
    {11, "DepthToSpace", "2,8,3,3", "x", "", "blocksize=2;w:mode=CRD", "depth_to_space(x) block=2 mode=crd"},
    {9, "SpaceToDepth", "2,2,6,6", "x", "", "blocksize=2", "space_to_depth(x) block=2 mode=dcr"},
    {14, "Trilu", "2,5,5", "x", "", "", "triangle(x) upper=1 k=0"},
    {14, "Trilu", "2,5,5", "x,k", "i:k=-2", "upper=0", "triangle(x) upper=0 k=-2"},
    {9, "Upsample", "1,2,3,4", "x,s", "f:s=1,1,2,2.5", "",
     "resize(x) size=1,2,6,10 mode=nearest coordinates=asymmetric rounding=floor cubic_a=-0.75"},
    {10, "Resize", "1,2,3,3", "x,s", "f:s=1,1,2,2", "w:mode=linear",
     "resize(x) size=1,2,6,6 mode=linear coordinates=asymmetric rounding=floor cubic_a=-0.75"},
    {11, "Resize", "1,2,3,3", "x,,s", "f:s=1,1,2,2", "",
     "resize(x) size=1,2,6,6 mode=nearest coordinates=half_pixel rounding=round_prefer_floor cubic_a=-0.75"},
    {13, "Resize", "1,2,3,3", "x,,,s", "i:s=1,2,9,5", "w:mode=cubic;r:cubic_coeff_a=-0.5",
     "resize(x) size=1,2,9,5 mode=cubic coordinates=half_pixel rounding=round_prefer_floor cubic_a=-0.5"},
    {18, "Resize", "1,2,3,3", "x,,,s", "i:s=5,9",
     "l:axes=3,2;w:coordinate_transformation_mode=align_corners;w:nearest_mode=ceil",
     "resize(x) size=1,2,9,5 mode=nearest coordinates=align_corners rounding=ceil cubic_a=-0.75"},
};

// A message that a refusal has in it.
static const struct {
    attribute_case c;
    const char *why;
} refused[] = {
    {{11, "Gemm", "2,6", "x,w,b", "w=6,5;b=5", "r:alpha=0.5", NULL}, "alpha and beta other than 1"},
    {{11, "Gemm", "2,6", "x,w,b", "w=6,5;b=5", "r:beta=2", NULL}, "alpha and beta other than 1"},
    {{11, "Gemm", "6,2", "x,w", "w=6,5", "transA=1;r:alpha=0.5", NULL}, "alpha and beta other than 1"},
    {{11, "Gemm", "2,3,6", "x,w", "w=6,5", "", NULL}, "must have 2 dimensions"},
    {{18, "GroupNormalization", "2,6,4", "x,s,b", "s=1;b=1", "", NULL}, "lacks its attribute num_groups"},
    {{12, "Einsum", "2,3,5", "x", "",
      "w:equation=abc->"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      NULL},
     "is too long"},
    {{11, "TopK", "2,9", "x,k", "i:k=4", "largest=0", NULL}, "largest is supported only where it is 1"},
    {{12, "ArgMax", "2,3", "x", "", "axis=1;select_last_index=1", NULL}, "select_last_index"},
    {{12, "ArgMin", "2,3", "x", "", "axis=1;select_last_index=1", NULL}, "select_last_index"},
    {{18, "Resize", "1,2,3,3", "x,,s", "f:s=1,1,2,2", "antialias=1;w:mode=linear", NULL}, "antialias"},
    {{18, "Resize", "1,2,3,3", "x,,s", "f:s=1,1,2,2", "exclude_outside=1;w:mode=cubic", NULL}, "exclude_outside"},
    {{18, "Resize", "1,2,3,3", "x,,s", "f:s=1,1,2,2", "w:coordinate_transformation_mode=tf_crop_and_resize", NULL},
     "cropping"},
    {{18, "Resize", "1,2,3,3", "x,,,s", "i:s=1,2,9,5", "w:keep_aspect_ratio_policy=not_larger", NULL},
     "keep_aspect_ratio_policy is supported only where it is stretch"},
    {{12, "Softmax", "2,3,4", "x", "", "", NULL}, "more than one of them has several elements"},
    {{12, "LogSoftmax", "2,3,4", "x", "", "axis=0", NULL}, "more than one of them has several elements"},
    {{11, "ScatterND", "5", "x,i,u", "i:i=1;f:u=1", "w:reduction=add", NULL}, "reduction is not supported in opset 11"},
    {{16, "ScatterND", "5", "x,i,u", "i:i=1;f:u=1", "w:reduction=add", NULL},
     "reduction is supported only where it is none"},
    {{11, "Resize", "1,2,3,3", "x,,s", "f:s=1,1,1.3,2", "w:mode=linear", NULL},
     "axis 2 a size that is not whole (3.9)"},
    {{9, "TopK", "2,9", "x", "", "", NULL}, "lacks its attribute k"},
    {{13, "Relu", "2,3", "x", "", "r:alpha=0.5", NULL}, "its attribute alpha is not supported in opset 13"},
    {{13, "Add", "2,3", "x,x", "", "axis=1", NULL}, "its attribute axis is not supported in opset 13"},
    {{13, "Squeeze", "2,1,3,1", "x", "", "l:axes=1", NULL}, "its attribute axes is not supported in opset 13"},
    {{13, "Clip", "2,3", "x", "", "r:min=-2;r:max=6", NULL}, "its attribute min is not supported in opset 13"},
    {{13, "AveragePool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;l:dilations=2,2", NULL},
     "dilations is not supported in opset 13"},
    {{17, "LayerNormalization", "2,5,8", "x,s,b", "s=8;b=8", "stash_type=10", NULL},
     "stash_type is supported only where it is 1"},
    {{11, "MaxPool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;storage_order=1", NULL},
     "storage_order is supported only where it is 0"},
    {{9, "LeakyRelu", "2,3", "x", "", "i:alpha=1", NULL}, "its attribute alpha is of another type"},
    {{9, "Gelu", "2,3", "x", "", "", NULL}, "opset 9 has no such operator: it came with opset 20"},
    {{13, "Mod", "2,3", "x,y2", "d:y2=2,3", "", NULL}, "fmod must be 1 for real numbers"},
    {{28, "Mod", "2,3", "x,y2", "d:y2=2,3", "fmod=0", NULL}, "fmod must be 1 for real numbers"},
    {{28, "SpaceToDepth", "1,2,4,4", "x", "", "blocksize=2;w:mode=CRD", NULL}, "supported only where it is DCR"},
    {{27, "SpaceToDepth", "1,2,4,4", "x", "", "blocksize=2;w:mode=DCR", NULL}, "mode is not supported in opset 27"},
    {{13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=SAME", NULL}, "auto_pad is \"SAME\""},
    {{11, "Clip", "2,3", "x,lo", "f:lo=0,1", "", NULL}, "min must be one number"},
    {{11, "TopK", "2,9", "x,k", "i:k=4,4", "", NULL}, "k must be one number"},
    {{11, "CumSum", "2,9", "x,k", "d:k=1", "", NULL}, "must be"},
    {{14, "Trilu", "2,5,5", "x,k", "d:k=1", "", NULL}, "must be"},
    {{13, "Dropout", "2,3", "x,r", "d:r=1", "", NULL}, "must be a constant"},
    {{11, "Pad", "2,3", "x,p,v", "i:p=0,1,0,2;d:v=1", "", NULL}, "must be a constant"},
    {{9, "GlobalLpPool", "2,3", "x", "", "", NULL}, "no spatial dimensions"},
    {{9, "Pad", "2,3,4", "x", "", "l:pads=1,1", NULL}, "2 pads for 3 axes"},
    {{9, "Upsample", "1,2,3,3", "x,s", "f:s=1,1,0.1,2", "", NULL}, "gives axis 2 no size"},
    {{11, "Resize", "1,2,3,3", "x,,s", "f:s=1,1", "", NULL}, "neither one scale nor one size for each of 4 axes"},
};

static void add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t size, const char *format, ...)
{
    va_list arguments;
    size_t used = strlen(text);
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

static ckm_graph *import_case(const attribute_case *c, ckm_error *err)
{
    onnx_builder *b = ob_create(c->opset);
    ob_input(b, "x", OB_FLOAT, c->x);
    ob_leaves(b, c->leaves);
    ob_node(b, c->op_type, c->inputs, "y");
    ob_attributes(b, c->attributes);
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, err);
    ob_free(b);
    return g;
}

static void describe(const ckm_graph *g, char *text, size_t size)
{
    const ckm_i_graph_op *op = &g->ops[0];
    text[0] = '\0';
    add(text, size, "%s(", op->op_class->kind);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        add(text, size, "%s%s", i > 0 ? "," : "", op->inputs[i] < 0 ? "" : g->tensors[op->inputs[i]].name);
    }
    add(text, size, ")");
    for (int32_t i = 0; i < op->n_attrs; i++) {
        const ckm_i_attr *a = &op->attrs[i];
        add(text, size, " %s=", a->key);
        for (int32_t k = 0; a->type == CKM_I_ATTR_INTS && k < a->n; k++) {
            add(text, size, "%s%lld", k > 0 ? "," : "", (long long)a->ints[k]);
        }
        if (a->type == CKM_I_ATTR_REAL) {
            add(text, size, "%.6g", a->real);
        } else if (a->type == CKM_I_ATTR_WORD) {
            add(text, size, "%s", a->word);
        }
    }
}

static void every_attribute_arrives(void **state)
{
    (void)state;
    bool bad = false;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[600];
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = import_case(&cases[i], &err);
        if (g != NULL) {
            describe(g, text, sizeof text);
        } else {
            text[0] = '\0';
            add(text, sizeof text, "%s", err.message);
        }
        if (strcmp(text, cases[i].wanted) != 0) {
            print_error("case %zu, %s of opset %d: %s\n", i, cases[i].op_type, cases[i].opset, text);
            bad = true;
        }
        ckm_graph_free(g);
    }
    assert_false(bad);
}

static void what_no_kernel_does_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = import_case(&refused[i].c, &err);
        if (g != NULL || strstr(err.message, refused[i].why) == NULL) {
            fail_msg("case %zu, %s of opset %d: %s", i, refused[i].c.op_type, refused[i].c.opset,
                     g != NULL ? "is accepted" : err.message);
        }
        ckm_graph_free(g);
    }
}

// Parts of one size need no list of sizes, so that there may be any number of them.
static void many_parts_are_equal(void **state)
{
    (void)state;
    enum { PARTS = CKM_I_ATTR_MAX + 1 };
    for (int uneven = 0; uneven < 2; uneven++) {
        char parts[12 * PARTS] = "y";
        char sizes[12 * PARTS] = "l:split=1";
        char shape[32] = "";
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(9);
        for (int i = 1; i < PARTS; i++) {
            add(parts, sizeof parts, ",y%d", i);
            add(sizes, sizeof sizes, ",%d", i == 1 ? 1 + uneven : 1);
        }
        add(shape, sizeof shape, "%d", PARTS + uneven);
        ob_input(b, "x", OB_FLOAT, shape);
        ob_node(b, "Split", "x", parts);
        ob_attributes(b, sizes);
        ob_output(b, "y");
        ckm_graph *g = ob_import(b, NULL, &err);
        assert_int_equal(g != NULL, uneven == 0);
        assert_true(uneven == 0 || strstr(err.message, "parts of different size") != NULL);
        ckm_graph_free(g);
        ob_free(b);
    }
}

// Two opsets of one domain are ambiguous; those of different domains are fine.
static void one_opset_a_domain(void **state)
{
    (void)state;
    static const char *const domains[] = {"", "ai.onnx", "com.example"};
    for (int i = 0; i < 3; i++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(13);
        ob_input(b, "x", OB_FLOAT, "2,3");
        ob_node(b, "Relu", "x", "y");
        ob_output(b, "y");
        CkmOnnx__Model *model = ob_model(b);
        CkmOnnx__OperatorSetId second = CKM_ONNX__OPERATOR_SET_ID__INIT;
        CkmOnnx__OperatorSetId *both[2] = {model->opset_import[0], &second};
        CkmOnnx__OperatorSetId **before = model->opset_import;
        second.domain = (char *)(size_t)domains[i];
        second.version = 11;
        model->opset_import = both;
        model->n_opset_import = 2;
        ckm_graph *g = ob_import(b, NULL, &err);
        model->opset_import = before;
        model->n_opset_import = 1;
        assert_true((g != NULL) == (i == 2));
        if (g == NULL && strstr(err.message, "imports two opsets of the domain \"ai.onnx\" (13 and 11)") == NULL) {
            fail_msg("%s", err.message);
        }
        ckm_graph_free(g);
        ob_free(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_attribute_arrives),
        cmocka_unit_test(what_no_kernel_does_is_refused),
        cmocka_unit_test(many_parts_are_equal),
        cmocka_unit_test(one_opset_a_domain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
