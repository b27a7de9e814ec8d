// SPDX-License-Identifier: Apache-2.0
// Values of weights and constants in ONNX files, and files written with new ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"
#include "onnx_builder.h"

typedef struct fixture {
    char folder[64], path[128], other[128];
    ckm_error err;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    data_files_folder(f.folder, sizeof f.folder);
    snprintf(f.path, sizeof f.path, "%s/model.onnx", f.folder);
    snprintf(f.other, sizeof f.other, "%s/other.onnx", f.folder);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    data_files_remove(f->folder);
    return 0;
}

static void write_model(const fixture *f, onnx_builder *b)
{
    uint8_t *data = NULL;
    size_t size = 0;
    ob_pack(b, &data, &size);
    data_files_write(f->folder, "model.onnx", data, size);
    free(data);
    ob_free(b);
}

// y = x·w + c, then times a number: a weight, a bias and a constant.
static onnx_builder *affine(void)
{
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "2,3");
    ob_floats(b, "w", "1,2,3,4,5,6");
    CkmOnnx__TensorProto *w = ob_model(b)->graph->initializer[0];
    static int64_t dims[] = {3, 2};
    w->n_dims = 2;
    w->dims = dims;
    ob_floats(b, "c", "-1,0.5");
    ob_ints(b, "axes", "1");
    ob_node(b, "Gemm", "x,w,c", "g");
    ob_node(b, "Unsqueeze", "g,axes", "u");
    ob_output(b, "u");
    return b;
}

static ckm_import_values *open_values(fixture *f, const char *path)
{
    ckm_import_values *values = NULL;
    if (ckm_import_values_open(path, NULL, &values, &f->err) != CKM_OK) {
        fail_msg("%s: %s", f->err.file, f->err.message);
    }
    return values;
}

static const ckm_shape w_shape = {2, {3, 2}};
static const ckm_shape c_shape = {1, {2}};

static void expect_floats(fixture *f, ckm_import_values *values, const char *name, const ckm_shape *shape,
                          const float *wanted, size_t n)
{
    float got[16] = {0};
    bool found = false;
    if (ckm_import_values_read(values, name, CKM_F32, shape, got, &found, &f->err) != CKM_OK) {
        fail_msg("%s: %s", f->err.file, f->err.message);
    }
    assert_true(found);
    assert_memory_equal(got, wanted, n * sizeof *wanted);
}

static void weights_are_read(void **state)
{
    fixture *f = *state;
    const float w[] = {1, 2, 3, 4, 5, 6};
    const float c[] = {-1, 0.5F};
    float got[6];
    bool found = true;
    write_model(f, affine());
    ckm_import_values *values = open_values(f, f->path);
    expect_floats(f, values, "w", &w_shape, w, 6);
    expect_floats(f, values, "c", &c_shape, c, 2);
    assert_int_equal(ckm_import_values_read(values, "nothing", CKM_F32, &c_shape, got, &found, &f->err), CKM_OK);
    assert_false(found);
    assert_int_equal(ckm_import_values_read(values, "w", CKM_F32, &c_shape, got, &found, &f->err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_import_values_read(values, "w", CKM_I32, &w_shape, got, &found, &f->err), CKM_ERR_ARGUMENT);
    ckm_import_values_close(values);
}

// More than the importer keeps: read from the file, in raw form and as a list of floats.
static void large_weights(void **state)
{
    fixture *f = *state;
    enum { N = 3000 };
    const ckm_shape shape = {2, {3, 1000}};
    float *wanted = malloc(N * sizeof *wanted);
    float *got = malloc(N * sizeof *got);
    assert_non_null(wanted);
    assert_non_null(got);
    for (int i = 0; i < N; i++) {
        wanted[i] = (float)i / 7;
    }
    for (int form = 0; form < 3; form++) {
        onnx_builder *b = ob_create(17);
        ob_input(b, "x", OB_FLOAT, "2,3");
        CkmOnnx__TensorProto *w = ob_weight(b, "w", "3,1000");
        if (form == 0) {
            w->raw_data.data = (uint8_t *)wanted;
            w->raw_data.len = N * sizeof *wanted;
        } else {
            w->n_float_data = form == 1 ? N : N - 1;
            w->float_data = wanted;
        }
        ob_node(b, "MatMul", "x,w", "y");
        ob_output(b, "y");
        write_model(f, b);
        ckm_import_values *values = open_values(f, f->path);
        bool found = false;
        ckm_status status = ckm_import_values_read(values, "w", CKM_F32, &shape, got, &found, &f->err);
        if (form == 2) {
            assert_int_equal(status, CKM_ERR_FORMAT);
            assert_non_null(strstr(f->err.message, "holds 2999 values where its shape asks for 3000"));
        } else {
            assert_int_equal(status, CKM_OK);
            assert_true(found);
            assert_memory_equal(got, wanted, N * sizeof *wanted);
        }
        ckm_import_values_close(values);
    }
    free(wanted);
    free(got);
}

// A pair of external_data as it stands in a file: its length, key (field 1), value (field 2).
static ProtobufCMessageUnknownField external_pair(uint8_t *room, const char *key, const char *value)
{
    size_t n = strlen(key);
    size_t m = strlen(value);
    room[0] = (uint8_t)(4 + n + m);
    room[1] = 0x0a;
    room[2] = (uint8_t)n;
    memcpy(room + 3, key, n);
    room[3 + n] = 0x12;
    room[4 + n] = (uint8_t)m;
    memcpy(room + 5 + n, value, m);
    return (ProtobufCMessageUnknownField){13, PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, 5 + n + m, room};
}

// Values in another file: read from their place in it; refused outside the model's folder, or when they are cut off.
static void external_values(void **state)
{
    fixture *f = *state;
    const float w[] = {9, 9, 1, 2, 3, 4, 5, 6};
    static const struct {
        const char *location, *offset;
        ckm_status status;
        const char *why;
    } cases[] = {
        {"weights.bin", "8", CKM_OK, ""},
        {"weights.bin", "12", CKM_ERR_FORMAT, "ends before"},
        {"weights.bin", "-1", CKM_ERR_FORMAT, "offset"},
        {"missing.bin", "8", CKM_ERR_IO, "cannot open"},
        {"../weights.bin", "8", CKM_ERR_FORMAT, "not a file below"},
        {"/etc/hostname", "8", CKM_ERR_FORMAT, "not a file below"},
        {"a/../../weights.bin", "8", CKM_ERR_FORMAT, "not a file below"},
    };
    data_files_write(f->folder, "weights.bin", w, sizeof w);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t room[3][64];
        ProtobufCMessageUnknownField pairs[3] = {
            external_pair(room[0], "location", cases[i].location),
            external_pair(room[1], "offset", cases[i].offset),
            external_pair(room[2], "length", "24"),
        };
        onnx_builder *b = ob_create(17);
        ob_input(b, "x", OB_FLOAT, "2,3");
        CkmOnnx__TensorProto *tensor = ob_external(b, "w", "3,2");
        tensor->base.n_unknown_fields = 3;
        tensor->base.unknown_fields = pairs;
        ob_node(b, "MatMul", "x,w", "y");
        ob_output(b, "y");
        write_model(f, b);
        ckm_import_values *values = open_values(f, f->path);
        if (cases[i].status == CKM_OK) {
            expect_floats(f, values, "w", &w_shape, w + 2, 6);
        } else {
            float got[6];
            bool found = false;
            assert_int_equal(ckm_import_values_read(values, "w", CKM_F32, &w_shape, got, &found, &f->err),
                             cases[i].status);
            if (strstr(f->err.message, cases[i].why) == NULL) {
                fail_msg("case %d: %s", (int)i, f->err.message);
            }
        }
        ckm_import_values_close(values);
    }
}

// Exported without weights: nothing is found, and that is no error.
static void no_weights(void **state)
{
    fixture *f = *state;
    float got[6];
    bool found = true;
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "2,3");
    ob_input(b, "w", OB_FLOAT, "3,2");
    ob_node(b, "MatMul", "x,w", "y");
    ob_output(b, "y");
    write_model(f, b);
    ckm_import_values *values = open_values(f, f->path);
    assert_int_equal(ckm_import_values_read(values, "w", CKM_F32, &w_shape, got, &found, &f->err), CKM_OK);
    assert_false(found);
    ckm_import_values_close(values);
}

// The copy has the new values, for what had some and for what had none, and everything else is as before.
static void exported_values_come_back(void **state)
{
    fixture *f = *state;
    const float w[] = {10, 20, 30, 40, 50, 60};
    const float c[] = {7, 8};
    const ckm_export_tensor tensors[] = {{"w", CKM_F32, {2, {3, 2}}, w}, {"c", CKM_F32, {1, {2}}, c}};
    ckm_graph *before = NULL;
    ckm_graph *after = NULL;
    write_model(f, affine());
    assert_int_equal(ckm_export_onnx(f->path, f->other, tensors, 2, &f->err), CKM_OK);
    ckm_import_values *values = open_values(f, f->other);
    expect_floats(f, values, "w", &w_shape, w, 6);
    expect_floats(f, values, "c", &c_shape, c, 2);
    ckm_import_values_close(values);
    assert_int_equal(ckm_import_file(f->path, NULL, &before, &f->err), CKM_OK);
    assert_int_equal(ckm_import_file(f->other, NULL, &after, &f->err), CKM_OK);
    assert_int_equal(ckm_graph_op_count(before), ckm_graph_op_count(after));
    assert_int_equal(ckm_graph_element_count(before, CKM_ROLE_PARAMETER),
                     ckm_graph_element_count(after, CKM_ROLE_PARAMETER));
    ckm_graph_free(before);
    ckm_graph_free(after);
    // Again, from the copy: nothing is doubled.
    assert_int_equal(ckm_export_onnx(f->other, f->path, tensors, 2, &f->err), CKM_OK);
    values = open_values(f, f->path);
    expect_floats(f, values, "w", &w_shape, w, 6);
    ckm_import_values_close(values);
}

// x·w times k, then plus c, then plus k again: a weight, and a Constant node, have their values in another file.
static onnx_builder *with_another_file(uint8_t room[5][64], ProtobufCMessageUnknownField pairs[5], const char *location)
{
    onnx_builder *b = ob_create(17);
    pairs[0] = external_pair(room[0], "location", location);
    pairs[1] = external_pair(room[1], "offset", "8");
    pairs[2] = external_pair(room[2], "length", "24");
    pairs[3] = external_pair(room[3], "location", location);
    pairs[4] = external_pair(room[4], "offset", "32");
    ob_input(b, "x", OB_FLOAT, "2,3");
    CkmOnnx__TensorProto *w = ob_external(b, "w", "3,2");
    w->base.n_unknown_fields = 3;
    w->base.unknown_fields = pairs;
    ob_floats(b, "c", "-1,0.5");
    CkmOnnx__TensorProto *k = ob_detached_ints(b, "0,0");
    k->n_int64_data = 0;
    k->data_type = OB_FLOAT;
    k->data_location = 1;
    k->base.n_unknown_fields = 2;
    k->base.unknown_fields = pairs + 3;
    ob_node(b, "Constant", "", "k");
    ob_tensor(b, "value", k);
    ob_node(b, "MatMul", "x,w", "a");
    ob_node(b, "Mul", "a,k", "b");
    ob_node(b, "Add", "b,c", "y");
    ob_output(b, "y");
    return b;
}

// The copy stands in another folder and needs no file but itself.
static void the_copy_needs_no_other_file(void **state)
{
    fixture *f = *state;
    static const float data[] = {9, 9, 1, 2, 3, 4, 5, 6, 7, 8};
    const float c[] = {70, 80};
    const float w[] = {10, 20, 30, 40, 50, 60};
    const ckm_export_tensor tensors[] = {{"c", CKM_F32, {1, {2}}, c}, {"w", CKM_F32, {2, {3, 2}}, w}};
    uint8_t room[5][64];
    ProtobufCMessageUnknownField pairs[5];
    char moved[64];
    char path[128];
    data_files_folder(moved, sizeof moved);
    snprintf(path, sizeof path, "%s/moved.onnx", moved);
    data_files_write(f->folder, "weights.bin", data, sizeof data);
    write_model(f, with_another_file(room, pairs, "weights.bin"));
    for (int32_t n = 1; n <= 2; n++) {  // the weight with its old values, with new ones
        assert_int_equal(ckm_export_onnx(f->path, path, tensors, n, &f->err), CKM_OK);
        ckm_import_values *values = open_values(f, path);
        expect_floats(f, values, "w", &w_shape, n == 1 ? data + 2 : w, 6);
        expect_floats(f, values, "c", &c_shape, c, 2);
        expect_floats(f, values, "k", &c_shape, data + 8, 2);
        ckm_import_values_close(values);
        ckm_graph *before = NULL;
        ckm_graph *after = NULL;
        assert_int_equal(ckm_import_file(f->path, NULL, &before, &f->err), CKM_OK);
        assert_int_equal(ckm_import_file(path, NULL, &after, &f->err), CKM_OK);
        assert_int_equal(ckm_graph_op_count(before), ckm_graph_op_count(after));
        ckm_graph_free(before);
        ckm_graph_free(after);
    }
    data_files_remove(moved);
    // Where the values are not to be had there is no copy.
    write_model(f, with_another_file(room, pairs, "missing.bin"));
    assert_int_equal(ckm_export_onnx(f->path, f->other, tensors, 2, &f->err), CKM_ERR_IO);
    assert_non_null(strstr(f->err.message, "cannot open"));
    write_model(f, with_another_file(room, pairs, "../weights.bin"));
    assert_int_equal(ckm_export_onnx(f->path, f->other, tensors, 2, &f->err), CKM_ERR_FORMAT);
    data_files_write(f->folder, "weights.bin", data, 36);
    write_model(f, with_another_file(room, pairs, "weights.bin"));
    assert_int_equal(ckm_export_onnx(f->path, f->other, tensors, 2, &f->err), CKM_ERR_FORMAT);
    assert_non_null(strstr(f->err.message, "ends before"));
    assert_null(fopen(f->other, "rb"));
}

static void weights_given_to_inputs(void **state)
{
    fixture *f = *state;
    const float w[] = {1, -2, 3, -4, 5, -6};
    const ckm_export_tensor tensor = {"w", CKM_F32, {2, {3, 2}}, w};
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "2,3");
    ob_input(b, "w", OB_FLOAT, "3,2");
    ob_node(b, "MatMul", "x,w", "y");
    ob_output(b, "y");
    write_model(f, b);
    assert_int_equal(ckm_export_onnx(f->path, f->other, &tensor, 1, &f->err), CKM_OK);
    ckm_import_values *values = open_values(f, f->other);
    expect_floats(f, values, "w", &w_shape, w, 6);
    ckm_import_values_close(values);
    // A full disk is an error that leaves nothing behind.
    assert_int_equal(ckm_export_onnx(f->path, "/dev/full", &tensor, 1, &f->err), CKM_ERR_IO);
    assert_int_equal(ckm_export_onnx("/nowhere", f->other, &tensor, 1, &f->err), CKM_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(weights_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(external_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_weights, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exported_values_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_copy_needs_no_other_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(weights_given_to_inputs, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
