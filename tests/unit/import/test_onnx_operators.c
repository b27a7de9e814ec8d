// SPDX-License-Identifier: Apache-2.0
// Every ONNX operator: what kind it becomes, its output shapes, its multiply-accumulates, in the attribute
// and input forms of the opsets. Expected values are worked out by hand from the ONNX operator rules.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "onnx_builder.h"

// One node that reads data input x and leaves, and writes y (and z where outputs say so).
typedef struct operator_case {
    int opset;
    const char *op_type, *x, *inputs, *leaves, *attributes;
    const char *kind, *shape;  // of the operator: expected kind and shape of its first output
    int64_t macs;
} operator_case;

static const operator_case cases[] = {
    // Convolutions: (in + pads - dilation*(k-1) - 1) / stride + 1.
    {9, "Conv", "2,3,8,8", "x,w", "w=4,3,3,3", "l:strides=2,2;l:pads=1,1,1,1", "conv", "2,4,4,4", 2 * 4 * 16 * 27},
    {20, "Conv", "1,8,9,9", "x,w,b", "w=8,2,3,3;b=8", "i:group=4", "conv", "1,8,7,7", 8 * 49 * 18},
    {13, "Conv", "1,3,10,10", "x,w", "w=4,3,3,3", "l:dilations=2,2", "conv", "1,4,6,6", 4 * 36 * 27},
    {13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=SAME_UPPER;l:strides=2,2", "conv", "1,4,4,4", 4 * 16 * 27},
    {13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=SAME_LOWER", "conv", "1,4,7,7", 4 * 49 * 27},
    {13, "Conv", "1,3,7,7", "x,w", "w=4,3,3,3", "w:auto_pad=VALID", "conv", "1,4,5,5", 4 * 25 * 27},
    {13, "Conv", "1,3,10", "x,w", "w=4,3,3", "l:pads=0,2", "conv", "1,4,10", 4 * 10 * 9},
    {13, "Conv", "1,2,4,5,6", "x,w", "w=3,2,2,2,2", "", "conv", "1,3,3,4,5", 3 * 60 * 16},
    // Transposed: stride*(in-1) + output_padding + dilation*(k-1) + 1 - pads; C per output element.
    {11, "ConvTranspose", "1,4,5,5", "x,w", "w=4,2,3,3", "l:strides=2,2;l:pads=1,1,1,1;l:output_padding=1,1",
     "conv_transpose", "1,2,10,10", 2 * 100 * 4},
    {11, "ConvTranspose", "1,4,5,5", "x,w", "w=4,2,2,2", "l:strides=2,2", "conv_transpose", "1,2,10,10", 2 * 100 * 4},
    // Pooling.
    {9, "MaxPool", "1,2,7,7", "x", "", "l:kernel_shape=2,2;l:strides=2,2", "max_pool", "1,2,3,3", 0},
    {10, "MaxPool", "1,2,7,7", "x", "", "l:kernel_shape=2,2;l:strides=2,2;ceil_mode=1", "max_pool", "1,2,4,4", 0},
    {11, "AveragePool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;l:pads=1,1,1,1", "average_pool", "1,2,7,7", 0},
    {9, "GlobalAveragePool", "2,3,5,6", "x", "", "", "global_average_pool", "2,3,1,1", 0},
    {9, "GlobalMaxPool", "2,3,5", "x", "", "", "global_max_pool", "2,3,1", 0},
    // Normalization: 4 per input element.
    {9, "BatchNormalization", "2,3,4,4", "x,s,b,m,v", "s=3;b=3;m=3;v=3", "", "batch_norm", "2,3,4,4", 4 * 96},
    {14, "BatchNormalization", "2,3,4,4", "x,s,b,m,v", "s=3;b=3;m=3;v=3", "training_mode=1", "batch_norm", "2,3,4,4",
     4 * 96},
    {17, "LayerNormalization", "2,5,8", "x,s,b", "s=8;b=8", "", "layer_norm", "2,5,8", 4 * 80},
    {17, "LayerNormalization", "2,5,8", "x,s", "s=5,8", "axis=1", "layer_norm", "2,5,8", 4 * 80},
    {9, "InstanceNormalization", "2,3,4", "x,s,b", "s=3;b=3", "", "instance_norm", "2,3,4", 4 * 24},
    {18, "GroupNormalization", "2,6,4", "x,s,b", "s=2;b=2", "num_groups=2", "group_norm", "2,6,4", 4 * 48},
    {9, "LpPool", "1,2,7,7", "x", "", "l:kernel_shape=3,3;l:strides=2,2;i:p=3", "lp_pool", "1,2,3,3", 0},
    {9, "GlobalLpPool", "2,3,5,6", "x", "", "i:p=1", "lp_pool", "2,3,1,1", 0},
    {9, "LpNormalization", "1,4,2,2", "x", "", "i:axis=1;i:p=1", "lp_norm", "1,4,2,2", 4 * 16},
    {9, "LRN", "1,4,2,2", "x", "", "size=3", "local_response_norm", "1,4,2,2", 4 * 16},
    // Products.
    {9, "Gemm", "2,6", "x,w,b", "w=6,5;b=5", "", "dense", "2,5", 60},
    {11, "Gemm", "2,6", "x,w", "w=5,6", "transB=1", "dense", "2,5", 60},
    {11, "Gemm", "6,2", "x,w", "w=6,5", "transA=1", "gemm", "2,5", 60},
    {11, "Gemm", "2,6", "x,w,b", "w=6,5;b=2,1", "", "gemm", "2,5", 60},
    {9, "MatMul", "2,7,6", "x,w", "w=6,5", "", "dense", "2,7,5", 2 * 7 * 30},
    {9, "MatMul", "2,1,7,6", "x,y2", "d:y2=3,6,5", "", "matmul", "2,3,7,5", 2 * 3 * 7 * 5 * 6},
    {9, "MatMul", "4,6", "x,y2", "d:y2=6", "", "matmul", "4", 24},
    {12, "Einsum", "2,3,5,4", "x,y2", "d:y2=2,3,6,4", "w:equation=bhid, bhjd -> bhij", "einsum", "2,3,5,6",
     2 * 3 * 5 * 6 * 4},
    {12, "Einsum", "2,3,5", "x", "", "w:equation=abc->ca", "einsum", "5,2", 30},
    // Activations: 1 per element.
    {9, "Relu", "2,3", "x", "", "", "relu", "2,3", 6},
    {9, "LeakyRelu", "2,3", "x", "", "r:alpha=0.1", "leaky_relu", "2,3", 6},
    {9, "Sigmoid", "2,3", "x", "", "", "sigmoid", "2,3", 6},
    {9, "HardSigmoid", "2,3", "x", "", "r:alpha=0.2;r:beta=0.5", "hard_sigmoid", "2,3", 6},
    {14, "HardSwish", "2,3", "x", "", "", "hard_swish", "2,3", 6},
    {9, "Tanh", "2,3", "x", "", "", "tanh", "2,3", 6},
    {20, "Gelu", "2,3", "x", "", "w:approximate=tanh", "gelu", "2,3", 6},
    {9, "Elu", "2,3", "x", "", "", "elu", "2,3", 6},
    {18, "Mish", "2,3", "x", "", "", "mish", "2,3", 6},
    {9, "PRelu", "2,3,4", "x,s", "s=3,1", "", "prelu", "2,3,4", 24},
    {9, "Softmax", "2,3", "x", "", "", "softmax", "2,3", 6},
    {13, "Softmax", "2,3,4", "x", "", "", "softmax", "2,3,4", 24},
    {13, "LogSoftmax", "2,3,4", "x", "", "axis=-1", "log_softmax", "2,3,4", 24},
    {9, "Clip", "2,3", "x", "", "r:min=0;r:max=6", "clip", "2,3", 6},
    {11, "Clip", "2,3", "x,lo,hi", "f:lo=0;f:hi=6", "", "clip", "2,3", 6},
    {11, "Clip", "2,3", "x,,hi", "f:hi=6", "", "clip", "2,3", 6},
    {9, "Dropout", "2,3", "x", "", "r:ratio=0.3", "dropout", "2,3", 0},
    {12, "Dropout", "2,3", "x,r", "f:r=0.3", "", "dropout", "2,3", 0},
    // Element by element: broadcasting; 1 per output element, add 1 per element of every operand.
    {9, "Add", "2,3,4", "x,y2", "d:y2=2,1,4", "", "add", "2,3,4", 24 + 8},
    {9, "Sub", "2,3,4", "x,y2", "d:y2=4", "", "sub", "2,3,4", 24},
    {9, "Mul", "2,1,4", "x,y2", "d:y2=2,3,1", "", "mul", "2,3,4", 24},
    {9, "Div", "2,3", "x,c", "f:c=2", "", "div", "2,3", 6},
    {9, "Pow", "2,3", "x,c", "f:c=2", "", "pow", "2,3", 6},
    {9, "Max", "2,3", "x,y2", "d:y2=2,3", "", "maximum", "2,3", 6},
    {9, "Sum", "2,3", "x,y2", "d:y2=2,3", "", "sum", "2,3", 6},
    {9, "Sqrt", "2,3", "x", "", "", "sqrt", "2,3", 6},
    {9, "Erf", "2,3", "x", "", "", "erf", "2,3", 6},
    {9, "Neg", "2,3", "x", "", "", "neg", "2,3", 6},
    {9, "Exp", "2,3", "x", "", "", "exp", "2,3", 6},
    {9, "Log", "2,3", "x", "", "", "log", "2,3", 6},
    {9, "Reciprocal", "2,3", "x", "", "", "reciprocal", "2,3", 6},
    {11, "Equal", "2,3", "x,y2", "d:y2=3", "", "equal", "2,3", 6},
    {9, "Cast", "2,3", "x", "", "to=10", "cast", "2,3", 0},
    // Reductions: 1 per input element; axes as attribute, then as input.
    {9, "ReduceMean", "2,3,4", "x", "", "l:axes=1,2;keepdims=0", "reduce_mean", "2", 24},
    {18, "ReduceMean", "2,3,4", "x,a", "i:a=-1", "", "reduce_mean", "2,3,1", 24},
    {13, "ReduceSum", "2,3,4", "x,a", "i:a=1", "keepdims=0", "reduce_sum", "2,4", 24},
    {9, "ReduceMax", "2,3,4", "x", "", "", "reduce_max", "1,1,1", 24},
    {18, "ReduceMean", "2,3,4", "x", "", "noop_with_empty_axes=1", "reduce_mean", "2,3,4", 24},
    {9, "ReduceL2", "2,3,4", "x", "", "l:axes=1", "reduce_l2", "2,1,4", 24},
    {9, "ArgMax", "2,3,4", "x", "", "axis=1;keepdims=0", "arg_max", "2,4", 24},
    {11, "TopK", "2,9", "x,k", "i:k=4", "", "top_k", "2,4", 18},
    {11, "CumSum", "2,9", "x,k", "i:k=1", "", "cumulative_sum", "2,9", 18},
    // Rearranging: free.
    {9, "Identity", "2,3", "x", "", "", "identity", "2,3", 0},
    {9, "Flatten", "2,3,4", "x", "", "", "flatten", "2,12", 0},
    {9, "Flatten", "2,3,4", "x", "", "axis=0", "flatten", "1,24", 0},
    {9, "Reshape", "2,3,4", "x,s", "i:s=0,-1", "", "reshape", "2,12", 0},
    {9, "Transpose", "2,3,4", "x", "", "l:perm=0,2,1", "transpose", "2,4,3", 0},
    {9, "Transpose", "2,3,4", "x", "", "", "transpose", "4,3,2", 0},
    {9, "Squeeze", "2,1,3,1", "x", "", "l:axes=1", "reshape", "2,3,1", 0},
    {13, "Squeeze", "2,1,3,1", "x,a", "i:a=-1", "", "reshape", "2,1,3", 0},
    {13, "Squeeze", "2,1,3,1", "x", "", "", "reshape", "2,3", 0},
    {9, "Unsqueeze", "2,3", "x", "", "l:axes=1,3", "reshape", "2,1,3,1", 0},
    {13, "Unsqueeze", "2,3", "x,a", "i:a=-1", "", "reshape", "2,3,1", 0},
    {9, "Concat", "2,3,4", "x,y2", "d:y2=2,5,4", "axis=1", "concat", "2,8,4", 0},
    {9, "Slice", "2,8,4", "x", "", "l:starts=1,0;l:ends=-1,2;l:axes=1,2", "slice", "2,6,2", 0},
    {10, "Slice", "2,8,4", "x,s,e,a,t", "i:s=-1;i:e=-100;i:a=1;i:t=-3", "", "slice", "2,3,4", 0},
    {10, "Slice", "2,8,4", "x,s,e", "i:s=0,2;i:e=9223372036854775807,7", "", "slice", "2,5,4", 0},
    {9, "Pad", "2,3,4,4", "x", "", "l:pads=0,0,1,2,0,0,3,4", "pad", "2,3,8,10", 0},
    {11, "Pad", "2,3,4", "x,p", "i:p=0,0,-1,0,0,2", "w:mode=reflect", "pad", "2,3,5", 0},
    {18, "Pad", "2,3,4", "x,p,,a", "i:p=1,2;i:a=-1", "", "pad", "2,3,7", 0},
    {9, "Gather", "2,5,4", "x,i", "i:i=0,2,2", "axis=1", "gather", "2,3,4", 0},
    {9, "Expand", "2,1,4", "x,s", "i:s=3,1", "", "expand", "2,3,4", 0},
    {9, "Tile", "2,3", "x,s", "i:s=1,4", "", "tile", "2,12", 0},
    {9, "DepthToSpace", "2,8,3,3", "x", "", "blocksize=2", "depth_to_space", "2,2,6,6", 0},
    {9, "SpaceToDepth", "2,2,6,6", "x", "", "blocksize=2", "space_to_depth", "2,8,3,3", 0},
    {14, "Trilu", "2,5,5", "x", "", "upper=0", "triangle", "2,5,5", 0},
    // Resampling: 1 per output element (nearest) or 5.
    {9, "Upsample", "1,2,3,4", "x,s", "f:s=1,1,2,2.5", "", "resize", "1,2,6,10", 120},
    {10, "Resize", "1,2,3,3", "x,s", "f:s=1,1,2,2", "w:mode=linear", "resize", "1,2,6,6", 5 * 72},
    {11, "Resize", "1,2,3,3", "x,,s", "f:s=1,1,2,2", "", "resize", "1,2,6,6", 72},
    {13, "Resize", "1,2,3,3", "x,,,s", "i:s=1,2,9,5", "", "resize", "1,2,9,5", 90},
    {18, "Resize", "1,2,3,3", "x,,,s", "i:s=9,5", "l:axes=2,3", "resize", "1,2,9,5", 90},
};

static const char *shape_text(const ckm_shape *shape, char *buf, size_t size)
{
    buf[0] = '\0';
    for (int32_t i = 0; i < shape->rank; i++) {
        size_t used = strlen(buf);
        snprintf(buf + used, size - used, "%s%lld", i > 0 ? "," : "", (long long)shape->dims[i]);
    }
    return buf;
}

static void every_operator_has_its_shape_and_cost(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const operator_case *t = &cases[i];
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(t->opset);
        ob_input(b, "x", OB_FLOAT, t->x);
        ob_leaves(b, t->leaves);
        ob_node(b, t->op_type, t->inputs, "y");
        ob_attributes(b, t->attributes);
        ob_output(b, "y");
        ckm_graph *g = ob_import(b, NULL, &err);
        ob_free(b);
        if (g == NULL) {
            fail_msg("case %zu, %s of opset %d: %s", i, t->op_type, t->opset, err.message);
            return;
        }
        assert_int_equal(ckm_graph_op_count(g), 1);
        char text[128];
        int64_t macs = 0;
        ckm_i_op_view view;
        assert_int_equal(ckm_i_op_view_init(g, 0, &view, NULL), CKM_OK);
        if (view.op->op_class->macs != NULL) {
            assert_int_equal(view.op->op_class->macs(&view, &macs, NULL), CKM_OK);
        }
        shape_text(&g->tensors[view.op->outputs[0]].shape, text, sizeof text);
        if (strcmp(view.op->op_class->kind, t->kind) != 0 || strcmp(text, t->shape) != 0 || macs != t->macs) {
            fail_msg("case %zu, %s of opset %d: %s of shape %s costing %lld; expected %s, %s, %lld", i, t->op_type,
                     t->opset, view.op->op_class->kind, text, (long long)macs, t->kind, t->shape, (long long)t->macs);
        }
        assert_string_equal(view.op->name, "y_node");
        ckm_graph_free(g);
    }
}

// Split: attribute, input, equal parts, and the uneven last part of opset 18.
static void split_gives_its_parts(void **state)
{
    (void)state;
    static const struct {
        int opset;
        const char *inputs, *leaves, *attributes;
        int64_t sizes[3];
    } splits[] = {
        {9, "x", "", "l:split=1,2,4;axis=1", {1, 2, 4}},
        {13, "x,s", "i:s=4,2,1", "axis=-1", {4, 2, 1}},
        {18, "x", "", "axis=1;num_outputs=3", {3, 3, 1}},
    };
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(splits[i].opset);
        ob_input(b, "x", OB_FLOAT, "2,7");
        ob_leaves(b, splits[i].leaves);
        ob_node(b, "Split", splits[i].inputs, "a,b,c");
        ob_attributes(b, splits[i].attributes);
        ob_output(b, "b");
        ckm_graph *g = ob_import(b, NULL, &err);
        assert_string_equal(err.message, "");
        assert_int_equal(g->ops[0].n_outputs, 3);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(g->tensors[g->ops[0].outputs[k]].shape.dims[1], splits[i].sizes[k]);
        }
        ckm_graph_free(g);
        ob_free(b);
    }
}

// What is taken of a sequence is a slice of what was split.
static void parts_of_sequences_are_slices(void **state)
{
    (void)state;
    static const struct {
        const char *inputs, *leaves, *attributes;
        int64_t at, start, size;
        const char *error;  // in place of the slice
    } parts[] = {
        {"x,s", "i:s=1,2,4", "axis=1", 1, 1, 2, NULL},
        {"x,s", "i:s=4,2,1", "axis=-1", -1, 6, 1, NULL},
        {"x,s", "i:s=3", "axis=1", 0, 0, 3, NULL},
        {"x,s", "i:s=3", "axis=1", 2, 6, 1, NULL},  // one number: in parts of three
        {"x", "", "axis=1", 4, 4, 1, NULL},
        {"x", "", "axis=1;keepdims=0", 4, 0, 0, "keepdims is supported only where it is 1"},
        {"x,s", "i:s=1,2,5", "axis=1", 0, 0, 0, "do not add up to 7"},
        {"x,s", "i:s=0", "axis=1", 0, 0, 0, "parts of 0 elements"},
        {"x,s", "i:s=1,2,4", "axis=1", 3, 0, 0, "part 3 is read of 3"},
        {"x,s", "i:s=1,2,4", "axis=1", -4, 0, 0, "part -4 is read of 3"},
        {"x,s", "f:s=1,2,4", "axis=1", 0, 0, 0, "must be a constant of integers"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        char at[8];
        bool one = strcmp(parts[i].leaves, "i:s=3") == 0 || strcmp(parts[i].leaves, "i:s=0") == 0;
        onnx_builder *b = ob_create(11);
        ob_input(b, "x", OB_FLOAT, "2,7");
        ob_leaves(b, parts[i].leaves);
        if (one) {
            ob_node(b, "Squeeze", "s", "scalar");
        }
        snprintf(at, sizeof at, "%d", (int)parts[i].at);
        ob_ints(b, "at", at);
        ob_node(b, "SplitToSequence", one ? "x,scalar" : parts[i].inputs, "sequence");
        ob_attributes(b, parts[i].attributes);
        ob_node(b, "SequenceAt", "sequence,at", "y");
        ob_output(b, "y");
        ckm_graph *g = ob_import(b, NULL, &err);
        ob_free(b);
        if ((g == NULL) != (parts[i].error != NULL) || (g == NULL && strstr(err.message, parts[i].error) == NULL)) {
            fail_msg("case %zu: %s", i, err.message);
            return;
        }
        if (g != NULL) {
            const ckm_i_graph_op *op = &g->ops[0];
            assert_string_equal(op->op_class->kind, "slice");
            assert_int_equal(ckm_i_op_attr_int(op, "starts", 1, -1), parts[i].start);
            assert_int_equal(g->tensors[op->outputs[0]].shape.dims[0], 2);
            assert_int_equal(g->tensors[op->outputs[0]].shape.dims[1], parts[i].size);
        }
        ckm_graph_free(g);
    }
}

static void a_sequence_is_no_output(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(11);
    ob_input(b, "x", OB_FLOAT, "2,7");
    ob_node(b, "SplitToSequence", "x", "y");
    ob_output(b, "y");
    assert_null(ob_import(b, NULL, &err));
    assert_non_null(strstr(err.message, "a sequence cannot be an output of the model"));
    ob_free(b);
}

// Outputs that nothing reads are left out; those that are read exist.
static void further_outputs_exist_when_they_are_read(void **state)
{
    (void)state;
    for (int used = 0; used < 2; used++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(12);
        ob_input(b, "x", OB_FLOAT, "2,3,8,8");
        ob_node(b, "MaxPool", "x", "y,at");
        ob_list(b, "kernel_shape", "2,2");
        ob_output(b, "y");
        if (used) {
            ob_output(b, "at");
        }
        ckm_graph *g = ob_import(b, NULL, &err);
        assert_non_null(g);
        assert_int_equal(g->ops[0].n_outputs, used ? 2 : 1);
        if (used) {
            assert_int_equal(g->tensors[g->ops[0].outputs[1]].dtype, CKM_I64);
        }
        ckm_graph_free(g);
        ob_free(b);
    }
}

static void attributes_reach_the_operator(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(12);
    ob_input(b, "x", OB_FLOAT, "2,3,1");
    ob_leaves(b, "f:ratio=0.25;f:low=-1");
    ob_node(b, "Dropout", "x,ratio", "d,mask");
    ob_node(b, "Softmax", "d", "s");
    ob_node(b, "Clip", "s,low", "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    assert_non_null(g);
    assert_true(ckm_i_op_attr_double(&g->ops[0], "rate", 0.0) == 0.25);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[1], "axis", 0, 99), 1);  // the default before opset 13
    assert_true(ckm_i_op_attr_double(&g->ops[2], "min", 0.0) == -1.0);
    assert_null(ckm_i_op_attr(&g->ops[2], "max"));
    ckm_graph_free(g);
    ob_free(b);
}

// Which norm, and along which axis.
static void norms_are_the_right_ones(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(12);
    ob_input(b, "x", OB_FLOAT, "2,3,4,6");
    ob_node(b, "LpNormalization", "x", "a");
    ob_attributes(b, "i:axis=1;i:p=1");
    ob_node(b, "LpPool", "a", "b");
    ob_attributes(b, "l:kernel_shape=2,2;i:p=3");
    ob_node(b, "GlobalLpPool", "b", "c");
    ob_output(b, "c");
    ckm_graph *g = ob_import(b, NULL, &err);
    assert_non_null(g);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[0], "axis", 0, 99), 1);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[0], "p", 0, 99), 1);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[1], "p", 0, 99), 3);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[2], "p", 0, 99), 2);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[2], "kernel", 1, 99), 5);
    ckm_graph_free(g);
    ob_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_its_shape_and_cost),
        cmocka_unit_test(split_gives_its_parts),
        cmocka_unit_test(parts_of_sequences_are_slices),
        cmocka_unit_test(a_sequence_is_no_output),
        cmocka_unit_test(further_outputs_exist_when_they_are_read),
        cmocka_unit_test(attributes_reach_the_operator),
        cmocka_unit_test(norms_are_the_right_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
