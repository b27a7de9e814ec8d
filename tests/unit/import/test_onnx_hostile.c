// SPDX-License-Identifier: Apache-2.0
// ONNX files that are broken, truncated or made to hurt: one clear error each, never a crash.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/import.h>

#include "onnx_builder.h"

static onnx_builder *small_model(int64_t opset)
{
    onnx_builder *b = ob_create(opset);
    ob_input(b, "x", OB_FLOAT, "n,2,4,4");
    ob_leaves(b, "w=3,2,1,1;i:rows=0,-1;f:half=0.5");
    ob_node(b, "Conv", "x,w", "c");
    ob_list(b, "pads", "0,0,0,0");
    ob_node(b, "Mul", "c,half", "m");
    ob_node(b, "Reshape", "m,rows", "y");
    ob_output(b, "y");
    return b;
}

static void expect_error(onnx_builder *b, ckm_status code, const char *fragment)
{
    ckm_error err = CKM_ERROR_INIT;
    assert_null(ob_import(b, NULL, &err));
    ob_free(b);
    if (err.code != code || strstr(err.message, fragment) == NULL) {
        fail_msg("expected \"%s\" (%d), got %d: %s", fragment, (int)code, (int)err.code, err.message);
    }
}

static void expect_bytes(const void *data, size_t size, ckm_status code, const char *fragment, int64_t byte)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    assert_int_equal(ckm_import_onnx_memory(data, size, NULL, &g, &err), code);
    assert_null(g);
    if (strstr(err.message, fragment) == NULL || err.byte != byte) {
        fail_msg("expected \"%s\" at byte %lld, got: %s at %lld", fragment, (long long)byte, err.message,
                 (long long)err.byte);
    }
}

// Every prefix fails, or, cut between two fields of the model, may still be one; it never crashes.
static void truncation_at_every_byte(void **state)
{
    (void)state;
    uint8_t *data;
    size_t size;
    onnx_builder *b = small_model(13);
    ob_pack(b, &data, &size);
    ob_free(b);
    ckm_graph *g = NULL;
    assert_int_equal(ckm_import_onnx_memory(data, size, NULL, &g, NULL), CKM_OK);
    ckm_graph_free(g);
    for (size_t n = 0; n < size; n++) {
        ckm_error err = CKM_ERROR_INIT;
        uint8_t *exact = malloc(n + (n == 0));  // so that a read behind the end is seen
        assert_non_null(exact);
        memcpy(exact, data, n);
        g = NULL;
        ckm_status status = ckm_import_onnx_memory(exact, n, NULL, &g, &err);
        assert_int_not_equal(status, CKM_OK);  // the last field of the model is the opset it needs
        assert_int_equal(status, err.code);
        assert_int_not_equal(err.message[0], 0);
        free(exact);
    }
    free(data);
}

static void flipped_bits_and_bytes(void **state)
{
    (void)state;
    uint8_t *data;
    size_t size;
    onnx_builder *b = small_model(13);
    ob_pack(b, &data, &size);
    ob_free(b);
    for (size_t i = 0; i < size * 8 + size; i++) {
        size_t at = i < size * 8 ? i / 8 : i - size * 8;
        uint8_t kept = data[at];
        data[at] = (uint8_t)(i < size * 8 ? kept ^ 1U << i % 8 : 0xFFU);
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = NULL;
        ckm_status status = ckm_import_onnx_memory(data, size, NULL, &g, &err);
        assert_true((status == CKM_OK) == (g != NULL));
        assert_true(status == CKM_OK || err.message[0] != '\0');
        ckm_graph_free(g);
        data[at] = kept;
    }
    free(data);
}

static void wire_errors_name_the_byte(void **state)
{
    (void)state;
    expect_bytes("", 0, CKM_ERR_FORMAT, "empty", 0);
    expect_bytes("\x08", 1, CKM_ERR_FORMAT, "truncated number", 1);
    expect_bytes("\x08\x08\x00\x01", 4, CKM_ERR_FORMAT, "impossible field number", 2);
    expect_bytes("\x08\x08\x0b", 3, CKM_ERR_FORMAT, "unknown field type", 2);
    expect_bytes("\x3a\x7f", 2, CKM_ERR_FORMAT, "reaches beyond the end", 0);
    expect_bytes("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, CKM_ERR_FORMAT, "longer than 64 bits", 1);
    // A length of 2^63: no allocation of that size is tried.
    expect_bytes("\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, CKM_ERR_FORMAT, "reaches beyond the end", 0);
    expect_bytes("\x3a\x00\x3a\x00", 4, CKM_ERR_FORMAT, "occurs twice", 2);
    expect_bytes("\x38\x01", 2, CKM_ERR_FORMAT, "wrong type in", 0);
    // graph { name: "a\0b" }
    expect_bytes("\x3a\x05\x12\x03\x61\x00\x62", 7, CKM_ERR_FORMAT, "zero byte", 4);
    expect_bytes("this is a text file, not a model", 32, CKM_ERR_FORMAT, "not a readable ONNX model", 0);
}

// Sub-graphs inside attributes are not entered, however deep they nest.
static void deep_nesting_costs_nothing(void **state)
{
    (void)state;
    enum { DEPTH = 20000 };
    uint8_t *data = malloc(DEPTH * 24 + 64);
    size_t at = DEPTH * 24 + 64;
    size_t end = at;
    assert_non_null(data);
    // Written from the inside out: graph{node{attribute{g: graph{...}}}}.
    for (int i = 0; i < DEPTH; i++) {
        static const uint8_t keys[] = {0x32, 0x2a, 0x0a};  // attribute.g, node.attribute, graph.node
        for (size_t k = 0; k < 3; k++) {
            size_t length = end - at;
            uint8_t varint[10];
            size_t n = 0;
            do {
                varint[n++] = (uint8_t)(length > 127 ? (length & 127) | 128 : length);
                length >>= 7;
            } while (length > 0);
            at -= n;
            memcpy(data + at, varint, n);
            data[--at] = keys[k];
        }
    }
    size_t length = end - at;
    uint8_t head[12] = {0x3a};
    size_t n = 1;
    do {
        head[n++] = (uint8_t)(length > 127 ? (length & 127) | 128 : length);
        length >>= 7;
    } while (length > 0);
    at -= n;
    memcpy(data + at, head, n);
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    assert_int_equal(ckm_import_onnx_memory(data + at, end - at, NULL, &g, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "opset"));
    free(data);
}

static void versions_out_of_range(void **state)
{
    (void)state;
    expect_error(small_model(8), CKM_ERR_UNSUPPORTED, "opset 8; opsets 9 to 28");
    expect_error(small_model(29), CKM_ERR_UNSUPPORTED, "opset 29; opsets 9 to 28");
    onnx_builder *b = small_model(13);
    ob_model(b)->n_opset_import = 0;
    expect_error(b, CKM_ERR_FORMAT, "opset_import");
}

static void graphs_that_do_not_hold_together(void **state)
{
    (void)state;
    onnx_builder *b = small_model(13);
    ob_node(b, "Relu", "y", "c");
    expect_error(b, CKM_ERR_FORMAT, "\"c\"");
    b = small_model(13);
    ob_node(b, "Relu", "nowhere", "z");
    expect_error(b, CKM_ERR_FORMAT, "\"nowhere\", which nothing produces");
    b = small_model(13);
    ob_output(b, "missing");
    expect_error(b, CKM_ERR_FORMAT, "\"missing\"");
    b = small_model(13);
    ob_model(b)->graph->n_output = 0;
    expect_error(b, CKM_ERR_FORMAT, "no outputs");
    b = small_model(13);
    ob_node(b, "Relu", "loop2", "loop1");
    ob_node(b, "Relu", "loop1", "loop2");
    expect_error(b, CKM_ERR_FORMAT, "cycle");
    b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2");
    ob_output(b, "x");
    expect_error(b, CKM_ERR_FORMAT, "computes nothing");
    b = ob_create(13);
    expect_error(b, CKM_ERR_FORMAT, "no outputs");
}

static void tensors_with_impossible_sizes(void **state)
{
    (void)state;
    onnx_builder *b = small_model(13);
    ob_model(b)->graph->initializer[0]->dims[0] = -3;
    expect_error(b, CKM_ERR_FORMAT, "negative");
    b = small_model(13);
    ob_model(b)->graph->initializer[0]->dims[0] = INT64_MAX / 2;
    expect_error(b, CKM_ERR_OVERFLOW, "\"w\"");
    b = small_model(13);
    ob_model(b)->graph->initializer[1]->dims[0] = 3;  // rows: two elements
    expect_error(b, CKM_ERR_FORMAT, "holds 2 elements where its shape asks for 3");
    b = small_model(13);
    ob_model(b)->graph->initializer[2]->raw_data.len = 3;
    expect_error(b, CKM_ERR_FORMAT, "holds 3 bytes where its shape asks for 4");
    b = small_model(13);
    ob_model(b)->graph->initializer[0]->data_type = 8;
    expect_error(b, CKM_ERR_UNSUPPORTED, "element type");
    b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "4611686018427387904,4611686018427387904");
    ob_node(b, "Relu", "x", "y");
    ob_output(b, "y");
    expect_error(b, CKM_ERR_OVERFLOW, "63 bits");
    b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "1,1,1,1,1,1,1,1,1");
    ob_node(b, "Relu", "x", "y");
    ob_output(b, "y");
    expect_error(b, CKM_ERR_UNSUPPORTED, "dimensions");
    b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,4");
    ob_leaves(b, "i:s=4611686018427387904,4");
    ob_node(b, "Expand", "x,s", "y");
    ob_output(b, "y");
    expect_error(b, CKM_ERR_FORMAT, "y_node");
    b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "1,4");
    ob_leaves(b, "i:s=4611686018427387904,4");
    ob_node(b, "Expand", "x,s", "y");
    ob_output(b, "y");
    expect_error(b, CKM_ERR_OVERFLOW, "63 bits");
}

static void unsupported_operators_are_listed_together(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,4");
    ob_node(b, "Loop", "x", "a");
    ob_node(b, "Scan", "a,x", "c");
    ob_node(b, "Loop", "c", "d");
    ob_node(b, "FusedThing", "d", "e")->domain = (char *)(uintptr_t) "com.example";
    ob_node(b, "Relu", "e", "y");
    ob_node(b, "If", "x", "unused");  // nothing needs it
    ob_output(b, "y");
    assert_null(ob_import(b, NULL, &err));
    assert_int_equal(err.code, CKM_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "operators that are not supported: Loop (a_node, d_node); Scan (c_node); "
                                     "com.example.FusedThing (e_node)");
    ob_free(b);
}

static void operators_used_wrongly(void **state)
{
    (void)state;
    static const struct {
        const char *op_type, *inputs, *leaves, *attributes, *message;
    } wrong[] = {
        {"Conv", "x,w", "w=3,5,1,1", "", "y_node"},
        {"Conv", "x", "", "", "y_node"},
        {"Conv", "x,w", "w=3,4,1,1", "w:auto_pad=SIDEWAYS", "auto_pad"},
        {"MatMul", "x,w", "w=7,3", "", "y_node"},
        {"Concat", "x,w", "w=2,4,5,5", "axis=9", "axis holds 9"},
        {"Transpose", "x", "", "l:perm=0,0,1,2", "permutation"},
        {"Squeeze", "x,a", "i:a=1", "", "cannot be squeezed"},
        {"Unsqueeze", "x,a", "i:a=1,1", "", "twice"},
        {"Slice", "x,s,e", "i:s=0,0;i:e=1", "", "do not fit together"},
        {"Slice", "x,s,s,s,z", "i:s=1;i:z=0", "", "step is 0"},
        {"Split", "x,s", "i:s=1,1", "axis=1", "2 sizes for 1 outputs"},
        {"Split", "x,s", "i:s=3", "axis=1", "do not add up"},
        {"Pad", "x,p", "i:p=1,2", "", "pads"},
        {"Resize", "x,,s", "f:s=2,2", "", "neither"},
        {"Resize", "x,,s", "f:s=1,1,0,1", "", "no size"},
        {"Reshape", "x,s", "i:s=-1,-1", "", "reshaped"},
        {"Reshape", "x,s", "i:s=-2", "", "-2"},
        {"Gather", "x,i", "i:i=0", "axis=4", "axis 4"},
        {"ReduceMean", "x", "", "l:axes=0,0", "y_node"},
        {"Slice", "x,s,e", "i:s=9;i:e=9", "", "y_node"},
        {"Einsum", "x", "", "w:equation=abc->a", "does not fit"},
        {"Einsum", "x,w", "w=3,5", "w:equation=abcd,bd->a", "does not fit"},
        {"Einsum", "x", "", "w:equation=abcd->e", "not made of"},
        {"Einsum", "x", "", "w:equation=abcd,a->a", "y_node"},
        {"Einsum", "x", "", "w:equation=a...->a", "y_node"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(13);
        ob_input(b, "x", OB_FLOAT, "2,4,5,5");
        ob_leaves(b, wrong[i].leaves);
        ob_node(b, wrong[i].op_type, wrong[i].inputs, "y");
        ob_attributes(b, wrong[i].attributes);
        ob_output(b, "y");
        assert_null(ob_import(b, NULL, &err));
        if (strstr(err.message, wrong[i].message) == NULL || strstr(err.message, "y_node") == NULL) {
            fail_msg("case %zu, %s: %s", i, wrong[i].op_type, err.message);
        }
        ob_free(b);
    }
}

static void files_that_cannot_be_read(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    assert_int_equal(ckm_import_file("/no/such/model.onnx", NULL, &g, &err), CKM_ERR_IO);
    assert_string_equal(err.file, "/no/such/model.onnx");
    assert_int_equal(ckm_import_file("/tmp", NULL, &g, &err), CKM_ERR_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(ckm_import_file("/dev/null", NULL, &g, &err), CKM_ERR_IO);
    assert_int_equal(ckm_import_file(NULL, NULL, &g, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_import_onnx_memory(NULL, 5, NULL, &g, &err), CKM_ERR_ARGUMENT);

    char path[] = "/tmp/checkmate-import-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ckm_import_file(path, NULL, &g, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "known format"));
    assert_string_equal(err.file, path);
    assert_int_equal(unlink(path), 0);
    assert_null(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncation_at_every_byte),      cmocka_unit_test(flipped_bits_and_bytes),
        cmocka_unit_test(wire_errors_name_the_byte),     cmocka_unit_test(deep_nesting_costs_nothing),
        cmocka_unit_test(versions_out_of_range),         cmocka_unit_test(graphs_that_do_not_hold_together),
        cmocka_unit_test(tensors_with_impossible_sizes), cmocka_unit_test(unsupported_operators_are_listed_together),
        cmocka_unit_test(operators_used_wrongly),        cmocka_unit_test(files_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
