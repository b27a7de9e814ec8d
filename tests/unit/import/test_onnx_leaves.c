// SPDX-License-Identifier: Apache-2.0
// Parameters, states, constants and data among the leaves of an ONNX graph; batch and input shape.
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

static ckm_graph *must_import(onnx_builder *b, const ckm_import_options *options)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = ob_import(b, options, &err);
    if (g == NULL) {
        fail_msg("%s", err.message);
    }
    ob_free(b);
    return g;
}

static void must_fail(onnx_builder *b, const ckm_import_options *options, ckm_status code, const char *fragment)
{
    ckm_error err = CKM_ERROR_INIT;
    assert_null(ob_import(b, options, &err));
    ob_free(b);
    if (err.code != code || strstr(err.message, fragment) == NULL) {
        fail_msg("expected \"%s\" (%d), got %d: %s", fragment, (int)code, (int)err.code, err.message);
    }
}

static int64_t count(const ckm_graph *g, ckm_tensor_role role)
{
    return ckm_graph_element_count(g, role);
}

// conv (8x3x3x3 + 8), batch norm (8 + 8, running 8 + 8), gemm (8x10 + 10): 330 parameters, 16 states.
// How the leaves come is what differs.
typedef enum { AS_INITIALIZERS, AS_EXTERNAL, AS_INPUTS, AS_BOTH } leaf_form;

static void add_leaf(onnx_builder *b, leaf_form form, const char *name, const char *shape)
{
    switch (form) {
    case AS_INITIALIZERS:
        ob_weight(b, name, shape);
        break;
    case AS_EXTERNAL:
        ob_external(b, name, shape);
        break;
    case AS_INPUTS:
        ob_input(b, name, OB_FLOAT, shape);
        break;
    default:
        ob_weight(b, name, shape);
        ob_input(b, name, OB_FLOAT, shape);
    }
}

static onnx_builder *small_network(leaf_form form)
{
    onnx_builder *b = ob_create(14);
    ob_input(b, "image", OB_FLOAT, "batch,3,8,8");
    add_leaf(b, form, "cw", "8,3,3,3");
    add_leaf(b, form, "cb", "8");
    add_leaf(b, form, "scale", "8");
    add_leaf(b, form, "shift", "8");
    add_leaf(b, form, "mean", "8");
    add_leaf(b, form, "var", "8");
    add_leaf(b, form, "fw", "10,8");
    add_leaf(b, form, "fb", "10");
    ob_node(b, "Conv", "image,cw,cb", "c");
    ob_node(b, "BatchNormalization", "c,scale,shift,mean,var", "n,rm,rv");
    ob_int(b, "training_mode", 1);
    ob_node(b, "Relu", "n", "r");
    ob_node(b, "GlobalAveragePool", "r", "p");
    ob_node(b, "Flatten", "p", "f");
    ob_node(b, "Gemm", "f,fw,fb", "y");
    ob_int(b, "transB", 1);
    ob_output(b, "y");
    return b;
}

static void parameters_are_found_in_every_form(void **state)
{
    (void)state;
    for (int form = AS_INITIALIZERS; form <= AS_BOTH; form++) {
        ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
        options.batch = 4;
        ckm_graph *g = must_import(small_network((leaf_form)form), &options);
        assert_int_equal(count(g, CKM_ROLE_PARAMETER), 216 + 8 + 16 + 80 + 10);
        assert_int_equal(count(g, CKM_ROLE_STATE), 16);
        assert_int_equal(count(g, CKM_ROLE_INPUT), 4 * 192);
        assert_int_equal(count(g, CKM_ROLE_CONSTANT), 0);
        assert_int_equal(ckm_graph_op_count(g), 6);
        assert_int_equal(ckm_graph_batch(g), 4);
        assert_int_equal(ckm_graph_layout(g), CKM_CHANNELS_FIRST);
        assert_int_equal(ckm_i_op_attr_int(&g->ops[1], "training", 0, 0), 1);
        ckm_graph_free(g);
    }
}

static void tied_weights_count_once(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(14);
    ob_input(b, "ids", OB_INT64, "2,7");
    ob_leaves(b, "table=50,16");
    ob_node(b, "Gather", "table,ids", "e");
    ob_node(b, "Transpose", "table", "t");
    ob_list(b, "perm", "1,0");
    ob_node(b, "MatMul", "e,t", "y");
    ob_output(b, "y");
    ckm_graph *g = must_import(b, NULL);
    assert_int_equal(count(g, CKM_ROLE_PARAMETER), 800);
    // The transpose is how the product reads the table, not an operator.
    assert_int_equal(ckm_graph_op_count(g), 2);
    assert_int_equal(ckm_i_op_attr_int(&g->ops[1], "transposed", 0, 0), 1);
    assert_int_equal(g->tensors[g->ops[1].outputs[0]].shape.dims[2], 50);
    ckm_graph_free(g);

    b = ob_create(14);
    ob_input(b, "x", OB_FLOAT, "2,3,4,4");
    ob_leaves(b, "w=3,3,1,1");
    ob_node(b, "Identity", "w", "same");
    ob_node(b, "Conv", "x,w", "a");
    ob_node(b, "Conv", "a,same", "y");
    ob_output(b, "y");
    g = must_import(b, NULL);
    assert_int_equal(count(g, CKM_ROLE_PARAMETER), 9);
    assert_int_equal(ckm_graph_op_count(g), 2);
    ckm_graph_free(g);
}

static void constants_are_not_parameters(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(14);
    ob_input(b, "x", OB_FLOAT, "2,3,4,4");
    // Normalization of the image, a scalar factor, an added position: only the last is learned.
    ob_leaves(b, "mean=1,3,1,1;f:half=0.5;position=3,4,4;unused=99;i:where=0,2");
    ob_node(b, "Sub", "x,mean", "a");
    ob_node(b, "Mul", "a,half", "c");
    ob_node(b, "Add", "c,position", "d");
    ob_node(b, "Gather", "d,where", "y");
    ob_int(b, "axis", 1);
    ob_output(b, "y");
    ckm_graph *g = must_import(b, NULL);
    assert_int_equal(count(g, CKM_ROLE_PARAMETER), 48);
    assert_int_equal(count(g, CKM_ROLE_CONSTANT), 3 + 1 + 2);
    ckm_graph_free(g);
}

// A normalization without scale and shift has ones and zeros of the exporter's own making.
static void filled_in_scales_are_not_parameters(void **state)
{
    (void)state;
    for (int learned = 0; learned < 2; learned++) {
        onnx_builder *b = ob_create(14);
        ob_input(b, "x", OB_FLOAT, "2,2,5");
        ob_floats(b, learned ? "norm.weight" : "/norm/Constant_output_0", "1,1");
        ob_floats(b, learned ? "norm.bias" : "/norm/Constant_1_output_0", "0,0");
        ob_node(b, "InstanceNormalization",
                learned ? "x,norm.weight,norm.bias" : "x,/norm/Constant_output_0,/norm/Constant_1_output_0", "y");
        ob_output(b, "y");
        ckm_graph *g = must_import(b, NULL);
        assert_int_equal(count(g, CKM_ROLE_PARAMETER), learned ? 4 : 0);
        ckm_graph_free(g);
    }
}

// Without weights a class token and a position embedding are inputs like the image: before the first known
// weight, with another first dimension, or by name.
static void parameters_without_a_weight_slot_are_found(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(14);
    ob_input(b, "image", OB_FLOAT, "8,3,4,4");
    ob_input(b, "token", OB_FLOAT, "1,1,6");
    ob_input(b, "mask", OB_FLOAT, "8,16,6");
    ob_input(b, "w", OB_FLOAT, "6,3,1,1");
    ob_input(b, "position", OB_FLOAT, "17,6");
    ob_leaves(b, "i:rows=0,6,-1;i:size=8,1,6");
    ob_node(b, "Conv", "image,w", "c");
    ob_node(b, "Reshape", "c,rows", "r");
    ob_node(b, "Transpose", "r", "t");
    ob_list(b, "perm", "0,2,1");
    ob_node(b, "Mul", "t,mask", "m");
    ob_node(b, "Expand", "token,size", "e");
    ob_node(b, "Concat", "e,m", "j");
    ob_int(b, "axis", 1);
    ob_node(b, "Add", "j,position", "y");
    ob_output(b, "y");
    ckm_graph *g = must_import(b, NULL);
    assert_int_equal(count(g, CKM_ROLE_PARAMETER), 18 + 6 + 17 * 6);
    assert_int_equal(count(g, CKM_ROLE_INPUT), 8 * 48 + 8 * 96);
    ckm_graph_free(g);
}

static void batch_replaces_symbolic_and_fixed_dimensions(void **state)
{
    (void)state;
    static const char *const shapes[] = {"n,3,8,8", "?,3,8,8", "2,3,8,8"};
    for (size_t i = 0; i < 3; i++) {
        for (int64_t batch = 0; batch < 6; batch += 5) {
            onnx_builder *b = ob_create(14);
            ob_input(b, "x", OB_FLOAT, shapes[i]);
            ob_leaves(b, "i:rows=0,-1;i:baked=2,192");
            ob_node(b, "Reshape", i == 2 ? "x,baked" : "x,rows", "y");
            ob_output(b, "y");
            ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
            options.batch = batch;
            int64_t expected = batch > 0 ? batch : i == 2 ? 2 : 1;
            ckm_graph *g = must_import(b, &options);
            assert_int_equal(ckm_graph_batch(g), expected);
            assert_int_equal(g->tensors[g->ops[0].outputs[0]].shape.dims[0], expected);
            assert_int_equal(g->tensors[g->ops[0].outputs[0]].shape.dims[1], 192);
            ckm_graph_free(g);
        }
    }
}

// Attention written for batch 2: heads merged into the batch, the batch in the middle, rows merged.
static void baked_reshapes_follow_the_batch(void **state)
{
    (void)state;
    static const struct {
        const char *in, *target;
        ckm_shape expected;
    } reshapes[] = {
        {"2,6,4", "2,6,2,2", {4, {5, 6, 2, 2}}}, {"2,6,4", "12,4", {2, {30, 4}}},     {"2,6,4", "2,-1", {2, {5, 24}}},
        {"2,6,4", "-1,4", {2, {30, 4}}},         {"2,6,4", "4,3,4", {3, {10, 3, 4}}},
    };
    for (size_t i = 0; i < sizeof reshapes / sizeof reshapes[0]; i++) {
        onnx_builder *b = ob_create(14);
        ob_input(b, "x", OB_FLOAT, reshapes[i].in);
        ob_ints(b, "s", reshapes[i].target);
        ob_node(b, "Reshape", "x,s", "y");
        ob_output(b, "y");
        ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
        options.batch = 5;
        ckm_graph *g = must_import(b, &options);
        const ckm_shape *shape = &g->tensors[g->ops[0].outputs[0]].shape;
        assert_int_equal(shape->rank, reshapes[i].expected.rank);
        for (int32_t d = 0; d < shape->rank; d++) {
            assert_int_equal(shape->dims[d], reshapes[i].expected.dims[d]);
        }
        ckm_graph_free(g);
    }
    onnx_builder *b = ob_create(14);
    ob_input(b, "x", OB_FLOAT, "2,6");
    ob_leaves(b, "i:s=3,4");
    ob_node(b, "Reshape", "x,s", "y");
    ob_output(b, "y");
    ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
    options.batch = 5;
    must_fail(b, &options, CKM_ERR_FORMAT, "exported for a batch of 2");
}

static onnx_builder *relu_of(const char *shape)
{
    onnx_builder *b = ob_create(14);
    ob_input(b, "x", OB_FLOAT, shape);
    ob_node(b, "Relu", "x", "y");
    ob_output(b, "y");
    return b;
}

static void input_shape_can_be_given(void **state)
{
    (void)state;
    ckm_import_options options = {.size = sizeof options, .batch = 2, .input_rank = 3, .input_dims = {32, 48, 3}};
    ckm_graph *g = must_import(relu_of("n,3,h,w"), &options);  // height, width, channels: turned
    assert_int_equal(g->tensors[0].shape.dims[1], 3);
    assert_int_equal(g->tensors[0].shape.dims[2], 32);
    assert_int_equal(g->tensors[0].shape.dims[3], 48);
    ckm_graph_free(g);
    options.input_dims[0] = 3;
    options.input_dims[1] = 32;
    options.input_dims[2] = 48;
    g = must_import(relu_of("n,3,h,w"), &options);  // as in the file
    assert_int_equal(g->tensors[0].shape.dims[1], 3);
    assert_int_equal(g->tensors[0].shape.dims[3], 48);
    ckm_graph_free(g);
    must_fail(relu_of("n,5"), &options, CKM_ERR_ARGUMENT, "input shape");
    must_fail(relu_of("n,3,height,8"), NULL, CKM_ERR_UNSUPPORTED, "dimension 2 (\"height\")");
    must_fail(relu_of("n,3,?,8"), NULL, CKM_ERR_UNSUPPORTED, "input shape");
    must_fail(relu_of("n,-3"), NULL, CKM_ERR_FORMAT, "negative");
    options.input_dims[1] = 0;
    must_fail(relu_of("n,3,h,w"), &options, CKM_ERR_ARGUMENT, "at least 1");
}

// Dimensions with one name have one value: a second input follows the first.
static void names_bind_across_inputs(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(14);
    ob_input(b, "x", OB_FLOAT, "n,seq,4");
    ob_input(b, "m", OB_FLOAT, "n,seq,1");
    ob_node(b, "Mul", "x,m", "y");
    ob_output(b, "y");
    ckm_import_options options = {.size = sizeof options, .batch = 3, .input_rank = 2, .input_dims = {9, 4}};
    ckm_graph *g = must_import(b, &options);
    assert_int_equal(g->tensors[1].shape.dims[0], 3);
    assert_int_equal(g->tensors[1].shape.dims[1], 9);
    ckm_graph_free(g);
}

// PyTorch's exporter notes what was a buffer of the module: statistics stay what they are, all else is constant.
static void buffers_are_not_trained(void **state)
{
    (void)state;
    static const char key[] = "pkg.torch.export.graph_signature.InputSpec.kind";
    static const struct {
        const char *key, *value;
        ckm_tensor_role added;
    } notes[] = {
        {key, "BUFFER", CKM_ROLE_CONSTANT},
        {key, "CONSTANT_TENSOR", CKM_ROLE_CONSTANT},
        {key, "PARAMETER", CKM_ROLE_PARAMETER},
        {"pkg.torch.export.graph_signature.InputSpec.persistent", "BUFFER", CKM_ROLE_PARAMETER},
    };
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++) {
        onnx_builder *b = ob_create(18);
        ob_input(b, "x", OB_FLOAT, "2,3");
        ob_leaves(b, "f:added=1,2,3;f:kernel=1,2,3;f:rope.inv_freq=1,2,3;f:s=1,2,3;f:t=1,2,3;f:m=1,2,3;f:v=1,2,3");
        ob_note(b, "added", notes[i].key, notes[i].value);
        ob_note(b, "m", notes[i].key, notes[i].value);
        ob_note(b, "x", notes[i].key, notes[i].value);
        ob_note(b, "unknown", notes[i].key, notes[i].value);
        ob_node(b, "Add", "x,added", "a");
        ob_node(b, "Mul", "a,kernel", "k");
        ob_node(b, "Mul", "k,rope.inv_freq", "r");
        ob_node(b, "BatchNormalization", "r,s,t,m,v", "y");
        ob_output(b, "y");
        ckm_graph *g = must_import(b, NULL);
        for (int32_t t = 0; t < g->n_tensors; t++) {
            const char *name = g->tensors[t].name;
            ckm_tensor_role role = strcmp(name, "added") == 0                              ? notes[i].added
                                   : strcmp(name, "m") == 0                                ? CKM_ROLE_STATE
                                   : strcmp(name, "kernel") == 0 || strcmp(name, "s") == 0 ? CKM_ROLE_PARAMETER
                                   : strcmp(name, "rope.inv_freq") == 0                    ? CKM_ROLE_CONSTANT
                                   : strcmp(name, "x") == 0                                ? CKM_ROLE_INPUT
                                                                                           : g->tensors[t].role;
            if (g->tensors[t].role != role) {
                fail_msg("%s: %s has role %d", notes[i].value, name, (int)g->tensors[t].role);
            }
        }
        ckm_graph_free(g);
    }
}

// Group normalization as the older exporter writes it: fillers for the normalization itself, then scale and shift, which it has
// computed from the module's. In a fresh network these are ones and zeros as well, and they are trained all the same.
static void computed_scales_are_trained(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "2,2,8");
    ob_leaves(b,
              "f:onnx::InstanceNormalization_5=1,1;f:onnx::InstanceNormalization_6=0,0;f:onnx::Mul_7=1,1,1,1,1,1,1,1;"
              "f:onnx::Add_8=0,0,0,0,0,0,0,0;f:/g/Constant_output_0=1,1,1,1,1,1,1,1");
    ob_node(b, "InstanceNormalization", "x,onnx::InstanceNormalization_5,onnx::InstanceNormalization_6", "n");
    ob_node(b, "Mul", "n,onnx::Mul_7", "m");
    ob_node(b, "Add", "m,onnx::Add_8", "a");
    ob_node(b, "Mul", "a,/g/Constant_output_0", "y");
    ob_output(b, "y");
    ckm_graph *g = must_import(b, NULL);
    assert_int_equal(count(g, CKM_ROLE_PARAMETER), 16);
    ckm_graph_free(g);
}

// Height, width and channels in another order: the error shows what became of them.
static void a_given_shape_is_shown_where_it_does_not_fit(void **state)
{
    (void)state;
    ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
    options.input_rank = 3;
    options.input_dims[0] = 64;
    options.input_dims[1] = 3;
    options.input_dims[2] = 64;
    onnx_builder *b = ob_create(13);
    ob_input(b, "image", OB_FLOAT, "2,3,32,32");
    ob_leaves(b, "w=4,3,3,3");
    ob_node(b, "Conv", "image,w", "y");
    ob_output(b, "y");
    must_fail(b, &options, CKM_ERR_FORMAT,
              "do not fit a weight of 4x3x3x3 (by the input shape given, \"image\" is 2x64x3x64)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_found_in_every_form),
        cmocka_unit_test(tied_weights_count_once),
        cmocka_unit_test(constants_are_not_parameters),
        cmocka_unit_test(filled_in_scales_are_not_parameters),
        cmocka_unit_test(parameters_without_a_weight_slot_are_found),
        cmocka_unit_test(batch_replaces_symbolic_and_fixed_dimensions),
        cmocka_unit_test(baked_reshapes_follow_the_batch),
        cmocka_unit_test(input_shape_can_be_given),
        cmocka_unit_test(names_bind_across_inputs),
        cmocka_unit_test(buffers_are_not_trained),
        cmocka_unit_test(computed_scales_are_trained),
        cmocka_unit_test(a_given_shape_is_shown_where_it_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
