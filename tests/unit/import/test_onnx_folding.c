// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic: graphs that compute a shape are folded down to the one operator that uses it.
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

// The value "s" that the nodes compute becomes the target of Reshape(x, s), x being 2,3,4,5: what comes out
// tells what was folded. Nodes: "Op inputs outputs attributes", one a line.
static void check_target(const char *leaves, const char *const *nodes, ckm_shape expected)
{
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(15);
    ob_input(b, "x", OB_FLOAT, "2,3,4,5");
    ob_leaves(b, leaves);
    for (; *nodes != NULL; nodes++) {
        char op[32];
        char in[64];
        char out[64];
        char attributes[96] = "";
        assert_true(sscanf(*nodes, "%31s %63s %63s %95s", op, in, out, attributes) >= 3);
        ob_node(b, op, strcmp(in, "-") == 0 ? "" : in, out);
        ob_attributes(b, attributes);
    }
    ob_node(b, "Reshape", "x,s", "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    if (g == NULL) {
        fail_msg("%s", err.message);
        return;
    }
    assert_int_equal(ckm_graph_op_count(g), 1);
    const ckm_shape *shape = &g->tensors[g->ops[0].outputs[0]].shape;
    assert_int_equal(shape->rank, expected.rank);
    for (int32_t i = 0; i < expected.rank; i++) {
        assert_int_equal(shape->dims[i], expected.dims[i]);
    }
    ckm_graph_free(g);
    ob_free(b);
}

#define TARGET(leaves, expected, ...) check_target(leaves, (const char *const[]){__VA_ARGS__, NULL}, expected)
#define SHAPE(...) ((ckm_shape){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static void shapes_are_read_cut_and_joined(void **state)
{
    (void)state;
    TARGET("i:one=1;i:zero=0;i:minus=-1", SHAPE(2, 60), "Shape x a", "Slice a,zero,one b", "Concat b,minus s axis=0");
    TARGET("i:i=1;i:axes=0;i:minus=-1", SHAPE(3, 40), "Shape x a", "Gather a,i b", "Concat b,minus s axis=0");
    TARGET("i:i=3,0", SHAPE(5, 2, 12), "Shape x a", "Gather a,i b", "Constant - m l:value_ints=-1",
           "Concat b,m s axis=0");
    TARGET("i:minus=-1", SHAPE(20, 6), "Shape x a start=2", "ReduceProd a p keepdims=1", "Concat p,minus s axis=0");
    TARGET("i:minus=-1", SHAPE(6, 20), "Shape x a", "Split a h,t axis=0", "ReduceProd h p keepdims=1",
           "Concat p,minus s axis=0");
    TARGET("i:axis=0;i:n=4", SHAPE(120), "Size x n1", "Unsqueeze n1,axis s");
    TARGET("i:s0=5,4,3,2;i:st=3;i:en=-5;i:ax=0;i:step=-1", SHAPE(2, 3, 4, 5), "Slice s0,st,en,ax,step s");
    TARGET("i:a=5,24;i:sh=2,1", SHAPE(5, 24), "Reshape a,sh b", "Transpose b c", "Squeeze c s");
}

static void arithmetic_is_done(void **state)
{
    (void)state;
    TARGET("i:a=6,10;i:b=2", SHAPE(12, 10), "Constant - k l:value_ints=2,1", "Mul a,k s");
    TARGET("i:a=8,6;i:b=2,5", SHAPE(10, 12), "Constant - e l:value_ints=0,1", "Add a,b c", "Add c,e s");
    TARGET("i:a=13,122;i:b=1,2", SHAPE(12, 10), "Sub a,b c", "Constant - d l:value_ints=1,12", "Div c,d s");
    TARGET("i:a=-7;i:b=4;i:t=24", SHAPE(1, 120), "Mod a,b m", "Constant - z l:value_ints=120", "Concat m,z s axis=0");
    TARGET("i:a=3,5;i:b=7,2;i:r=24,0", SHAPE(3, 2, 20), "Min a,b m", "Constant - z l:value_ints=20",
           "Concat m,z s axis=0");
    TARGET("i:a=-120", SHAPE(120), "Neg a s");
    TARGET("i:a=7", SHAPE(3, 40), "Cast a f to=1", "Constant - h r:value_float=2", "Div f,h q", "Floor q fl",
           "Cast fl i to=7", "Constant - m l:value_ints=-1", "Concat i,m s axis=0");
    TARGET("i:a=2,3,4,5", SHAPE(120), "ReduceProd a s keepdims=1");
}

static void choices_and_fills_are_done(void **state)
{
    (void)state;
    // The form that exporters give expand(-1, ...): where(equal(shape, -1), ones, shape).
    TARGET("i:w=-1,120;i:minus=-1;i:len=2", SHAPE(1, 120), "ConstantOfShape len o", "Constant - k l:value_ints=1,1",
           "Equal w,minus e", "Where e,k,w s");
    TARGET("i:t=120;i:two=2", SHAPE(1, 1, 120), "Constant - one l:value_ints=1", "Expand one,two e",
           "Concat e,t s axis=0");
}

static void order_matters_and_is_checked(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,6");
    ob_node(b, "Relu", "later", "y");
    ob_node(b, "Relu", "x", "later");
    ob_output(b, "y");
    assert_null(ob_import(b, NULL, &err));
    assert_int_equal(err.code, CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "topological order"));
    ob_free(b);
}

static void ranges_are_counted(void **state)
{
    (void)state;
    TARGET("i:from=2;i:to=6;i:by=1;i:none=0", SHAPE(2, 3, 4, 5), "Squeeze from a", "Squeeze to b", "Squeeze by c",
           "Range a,b,c s");
    TARGET("i:m=0,1,1,0,1;i:minus=-1;i:add=1,3,26", SHAPE(2, 5, 12), "NonZero m p", "Squeeze p q",
           "Constant - k l:value_ints=1,3,8", "Add q,k s");
}

// Documents that are packed into one row are told apart so.
static void sums_of_integers_run_along_an_axis(void **state)
{
    (void)state;
    TARGET("i:a=2,1,1,1;i:zero=0", SHAPE(2, 3, 4, 5), "CumSum a,zero s");
    TARGET("i:a=1,1,4;i:minus=-1", SHAPE(6, 5, 4), "CumSum a,minus s reverse=1");
    TARGET("i:a=2,3,55,9;i:zero=0;i:f=1,3", SHAPE(2, 60), "CumSum a,zero c exclusive=1", "Gather c,f s");
    TARGET("i:a=2,7,1,13;i:zero=0;i:sh=2,2;i:flat=4;i:f=0,2,3", SHAPE(2, 3, 20), "Reshape a,sh b", "CumSum b,zero c",
           "Reshape c,flat d", "Gather d,f s");
}

// Of the two remainders of integers there is one.
static void the_other_remainder_is_refused(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(15);
        ob_input(b, "x", OB_FLOAT, "2,60");
        ob_leaves(b, "i:a=-8,240;i:b=10,180");
        ob_node(b, "Mod", "a,b", "s");  // 2, 60 by the divisor's sign; -8, 60 by the dividend's
        ob_int(b, "fmod", other);
        ob_node(b, "Reshape", "x,s", "y");
        ob_output(b, "y");
        ckm_graph *g = ob_import(b, NULL, &err);
        assert_true((g == NULL) == (other == 1));
        if (other == 1) {
            assert_non_null(strstr(err.message, "fmod must be 0 for integers"));
        }
        ckm_graph_free(g);
        ob_free(b);
    }
}

// Positions of a long sequence are held as well.
static void long_rows_are_held(void **state)
{
    (void)state;
    static const struct {
        const char *end;
        int64_t held;
    } cases[] = {{"5000", 5000}, {"65536", 65536}, {"65537", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        char leaves[64];
        onnx_builder *b = ob_create(15);
        ob_input(b, "x", OB_FLOAT, "1,2");
        snprintf(leaves, sizeof leaves, "i:zero=0;i:end=%s;i:one=1", cases[i].end);
        ob_leaves(b, leaves);
        ob_node(b, "Squeeze", "zero", "from");
        ob_node(b, "Squeeze", "end", "to");
        ob_node(b, "Squeeze", "one", "by");
        ob_node(b, "Range", "from,to,by", "r");
        ob_node(b, "Gather", "r,end2", "last");
        ob_ints(b, "end2", "-1,-1");
        ob_node(b, "Div", "last,end", "zeros");
        ob_node(b, "Add", "zeros,one", "ones");
        ob_node(b, "Expand", "x,ones", "y");
        ob_output(b, "y");
        ckm_graph *g = ob_import(b, NULL, &err);
        if ((g != NULL) != (cases[i].held > 0)) {
            fail_msg("%s: %s", cases[i].end, err.message);
        }
        ckm_graph_free(g);
        ob_free(b);
    }
}

// A mask: constants too large to hold are known by shape where only that is asked for; what the network reads it computes.
static void large_constants_are_computed_by_the_network(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,100,100");
    ob_leaves(b, "i:len=100,100");
    ob_node(b, "ConstantOfShape", "len", "ones");
    ob_node(b, "Mul", "ones,ones", "more");
    ob_node(b, "Sub", "more,ones", "less");
    ob_node(b, "Shape", "less", "target");
    ob_node(b, "Add", "x,more", "sum");
    ob_node(b, "Mul", "sum,more", "product");
    ob_node(b, "Expand", "product,target", "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    assert_string_equal(err.message, "");
    assert_int_equal(ckm_graph_op_count(g), 4);
    static const char *const kinds[] = {"mul", "add", "mul", "expand"};
    for (int32_t i = 0; i < 4; i++) {
        assert_string_equal(ckm_graph_get_op(g, i).kind, kinds[i]);
    }
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_CONSTANT), 10000);
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_PARAMETER), 0);
    ckm_graph_free(g);
    ob_free(b);
}

static void overflow_and_division_by_zero_are_errors(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"i:a=9223372036854775807;i:b=2", "Mul"},
        {"i:a=9223372036854775807;i:b=2", "Add"},
        {"i:a=7;i:b=0", "Div"},
        {"i:a=7;i:b=0", "Mod"},
        {"i:a=-9223372036854775808;i:b=-1", "Div"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(13);
        ob_input(b, "x", OB_FLOAT, "2,6");
        ob_leaves(b, wrong[i][0]);
        ob_node(b, wrong[i][1], "a,b", "s");
        ob_node(b, "Reshape", "x,s", "y");
        ob_output(b, "y");
        assert_null(ob_import(b, NULL, &err));
        assert_int_equal(err.code, CKM_ERR_OVERFLOW);
        assert_non_null(strstr(err.message, "s_node"));
        ob_free(b);
    }
}

// What depends on the data cannot be a shape; the error says which input is meant.
static void shapes_from_data_are_refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,6");
    ob_input(b, "n", OB_INT64, "2");
    ob_node(b, "Reshape", "x,n", "y");
    ob_output(b, "y");
    assert_null(ob_import(b, NULL, &err));
    assert_int_equal(err.code, CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"n\""));
    ob_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_read_cut_and_joined),
        cmocka_unit_test(arithmetic_is_done),
        cmocka_unit_test(choices_and_fills_are_done),
        cmocka_unit_test(order_matters_and_is_checked),
        cmocka_unit_test(ranges_are_counted),
        cmocka_unit_test(sums_of_integers_run_along_an_axis),
        cmocka_unit_test(the_other_remainder_is_refused),
        cmocka_unit_test(long_rows_are_held),
        cmocka_unit_test(large_constants_are_computed_by_the_network),
        cmocka_unit_test(overflow_and_division_by_zero_are_errors),
        cmocka_unit_test(shapes_from_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
