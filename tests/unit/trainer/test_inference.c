// SPDX-License-Identifier: Apache-2.0
// Networks run forward: values worked out by hand, the same bits under any budget, files, and what is refused.
#define _DEFAULT_SOURCE  // mkdtemp
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

#include "data_files.h"
#include "onnx_builder.h"

static ckm_inference_options plain_options(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "cpu", .threads = 1};
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.kernels = &kernels;
    return options;
}

static ckm_inference *open_it(const ckm_graph *graph, const ckm_inference_options *options)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_inference *f = NULL;
    if (ckm_inference_open(graph, options, &f, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    return f;
}

static void set(ckm_inference *f, const char *name, ckm_shape shape, const float *values)
{
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_inference_set(f, name, CKM_F32, &shape, values, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
}

static void run(ckm_inference *f)
{
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_inference_run(f, NULL, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
}

static void gives(const ckm_inference *f, int32_t output, int n, const double *wanted)
{
    float values[16];
    assert_int_equal(ckm_inference_get(f, output, values, n * (int64_t)sizeof *values, NULL), CKM_OK);
    for (int i = 0; i < n; i++) {
        if (!(fabs((double)values[i] - wanted[i]) < 1e-6)) {
            fail_msg("element %d of output %d is %.8g, expected %.8g", i, (int)output, (double)values[i], wanted[i]);
        }
    }
}

// Batch normalization by running statistics, dropout, and a softmax that a training step leaves to its loss. The values in
// between are an output as well, and so is the input as it is.
static ckm_graph *hand_made(bool training)
{
    onnx_builder *b = ob_create(17);
    ckm_error err = CKM_ERROR_INIT;
    ob_input(b, "x", OB_FLOAT, "n,2");
    ob_leaves(b, "scale=2;bias=2;mean=2;variance=2;w=2,2;f:ratio=0.5");
    ob_node(b, "BatchNormalization", "x,scale,bias,mean,variance", "normal");
    ob_attributes(b, training ? "i:training_mode=1;r:epsilon=0" : "r:epsilon=0");
    ob_node(b, "Dropout", "normal,ratio", "dropped");
    ob_node(b, "MatMul", "dropped,w", "scores");
    ob_node(b, "Softmax", "scores", "y");
    ob_output(b, "y");
    ob_output(b, "scores");
    ob_output(b, "x");
    ob_output(b, "scores");
    const ckm_import_options options = {.size = sizeof options, .batch = 2};
    ckm_graph *graph = ob_import(b, &options, &err);
    if (graph == NULL) {
        fail_msg("%s", err.message);
    }
    ob_free(b);
    return graph;
}

static void set_all(ckm_inference *f)
{
    const ckm_shape two = {1, {2}};
    const ckm_shape square = {2, {2, 2}};
    set(f, "scale", two, (const float[]){2, 3});
    set(f, "bias", two, (const float[]){0, 1});
    set(f, "mean", two, (const float[]){1, 2});
    set(f, "variance", two, (const float[]){4, 9});
    set(f, "w", square, (const float[]){1, 0, 0, 1});
    set(f, "x", square, (const float[]){1, 2, 3, 5});
}

static void a_network_predicts(void **state)
{
    (void)state;
    ckm_graph *graph = hand_made(false);
    ckm_inference_options options = plain_options();
    ckm_inference *f = open_it(graph, &options);
    assert_int_equal(ckm_inference_input_count(f), 1);
    assert_string_equal(ckm_inference_input(f, 0).name, "x");
    assert_int_equal(ckm_inference_output_count(f), 4);
    assert_string_equal(ckm_inference_output(f, 1).name, "scores");
    set_all(f);
    for (int times = 0; times < 2; times++) {  // nothing that a run reads is changed by it
        run(f);
        gives(f, 1, 4, (const double[]){0, 1, 2, 4});
        gives(f, 3, 4, (const double[]){0, 1, 2, 4});
        gives(f, 2, 4, (const double[]){1, 2, 3, 5});
        double low = 1 / (1 + exp(1));
        double lower = 1 / (1 + exp(2));
        gives(f, 0, 4, (const double[]){low, 1 - low, lower, 1 - lower});
    }
    ckm_inference_close(f);
    ckm_graph_free(graph);
}

// Where the file says training, the batch's own statistics count: mean 2 and 3.5, deviation 1 and 1.5.
static void training_mode_is_kept(void **state)
{
    (void)state;
    ckm_graph *graph = hand_made(true);
    ckm_inference_options options = plain_options();
    ckm_inference *f = open_it(graph, &options);
    set_all(f);
    run(f);
    gives(f, 1, 4, (const double[]){-2, -2, 2, 4});
    ckm_inference_close(f);
    // Unless it is to run as in evaluation: by the running statistics, as where the file does not say training.
    options.evaluates = true;
    f = open_it(graph, &options);
    set_all(f);
    run(f);
    gives(f, 1, 4, (const double[]){0, 1, 2, 4});
    ckm_inference_close(f);
    ckm_graph_free(graph);
}

// Four wide tensors that are read again late and could be computed from narrow ones: a small budget does.
enum { WIDE_BATCH = 16 };
static ckm_graph *wide_network(void)
{
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("wide", WIDE_BATCH, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (const int64_t[]){32, 32, 2});
    ckm_layer first = ckm_network_activation(net, x, NULL, "tanh");
    ckm_layer skips[4];
    ckm_layer y = first;
    for (int i = 0; i < 4; i++) {
        skips[i] = ckm_network_conv(net, y, (ckm_conv_layer){.filters = 16, .kernel = {1}});
        y = ckm_network_conv(net, skips[i], (ckm_conv_layer){.filters = 2, .kernel = {3}, .padding = "same"});
    }
    for (int i = 3; i >= 0; i--) {
        y = ckm_network_conv(net, y, (ckm_conv_layer){.filters = 16, .kernel = {1}});
        y = ckm_network_add(net, NULL, (ckm_layer[]){y, skips[i]}, 2);
        y = ckm_network_conv(net, y, (ckm_conv_layer){.filters = 2, .kernel = {1}});
    }
    assert_int_equal(ckm_network_finish(net, y, &graph, NULL), CKM_OK);
    ckm_network_free(net);
    return graph;
}

static void predict(const ckm_graph *graph, const ckm_inference_options *options, ckm_inference_info *info, float *y,
                    int64_t bytes)
{
    static float values[4 * 32 * 32 * 16];
    ckm_inference *f = open_it(graph, options);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        values[i] = (float)((int)(i * 7919 % 2001) - 1000) / 1000.0F;
    }
    for (int32_t i = 0; i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, i);
        if (t.role != CKM_ROLE_ACTIVATION) {
            assert_int_equal(ckm_inference_set(f, t.name, t.dtype, &t.shape, values, NULL), CKM_OK);
        }
    }
    run(f);
    assert_int_equal(ckm_inference_get(f, 0, y, bytes, NULL), CKM_OK);
    *info = ckm_inference_get_info(f);
    ckm_inference_close(f);
}

static void a_budget_changes_no_bit(void **state)
{
    static float first[WIDE_BATCH * 32 * 32 * 2];
    static float second[WIDE_BATCH * 32 * 32 * 2];
    (void)state;
    ckm_graph *graph = wide_network();
    ckm_inference_options options = plain_options();
    ckm_inference_info whole;
    ckm_inference_info less;
    predict(graph, &options, &whole, first, sizeof first);
    assert_true(whole.used_bytes <= whole.baseline_bytes + whole.baseline_bytes / 10);
    options.budget_bytes = 0;
    options.budget_fraction = 0.8;  // bytes outside the region differ from one plan to the next, by far less
    predict(graph, &options, &less, second, sizeof second);
    assert_true(less.used_bytes <= less.budget_bytes);
    assert_true(less.cost > whole.cost);
    assert_memory_equal(first, second, sizeof first);
    options.budget_bytes = 1000;
    ckm_inference *none = NULL;
    assert_int_equal(ckm_inference_plan(graph, &options, &none, NULL), CKM_OK);
    assert_false(ckm_inference_get_info(none).fits);
    assert_true(ckm_inference_get_info(none).proven);
    assert_int_equal(ckm_inference_begin(none, NULL), CKM_ERR_ARGUMENT);
    ckm_inference_close(none);
    ckm_graph_free(graph);
}

static void says(ckm_status code, ckm_status wanted, const ckm_error *err, const char *text)
{
    assert_int_equal(code, wanted);
    if (strstr(err->message, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err->message, text);
    }
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    const ckm_shape two = {1, {2}};
    const ckm_shape square = {2, {2, 2}};
    const float values[4] = {0};
    float y[4];
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = hand_made(false);
    ckm_inference_options options = plain_options();
    ckm_inference *f = open_it(graph, &options);
    says(ckm_inference_run(f, NULL, &err), CKM_ERR_ARGUMENT, &err, "input \"x\" (float32 2x2) has no value");
    says(ckm_inference_get(f, 0, y, sizeof y, &err), CKM_ERR_ARGUMENT, &err, "before the network has run");
    set(f, "x", square, values);
    says(ckm_inference_run(f, NULL, &err), CKM_ERR_ARGUMENT, &err, "has no value: neither the model's file");
    says(ckm_inference_set(f, "z", CKM_F32, &square, values, &err), CKM_ERR_NOT_FOUND, &err,
         "no input called \"z\"; it takes x (float32 2x2)");
    says(ckm_inference_set(f, "x", CKM_F32, &two, values, &err), CKM_ERR_ARGUMENT, &err,
         "\"x\" takes float32 2x2, and this is float32 2");
    says(ckm_inference_set(f, "x", CKM_F64, &square, values, &err), CKM_ERR_ARGUMENT, &err, "this is float64 2x2");
    set_all(f);
    run(f);
    says(ckm_inference_get(f, 0, y, 4, &err), CKM_ERR_ARGUMENT, &err, "has 16 bytes, not 4");
    says(ckm_inference_get(f, 4, y, 4, &err), CKM_ERR_ARGUMENT, &err, "the network has 4");
    ckm_inference_close(f);
    ckm_graph_free(graph);
}

// An embedding's positions reach no kernel unless they are in its table.
static void positions_are_checked(void **state)
{
    (void)state;
    const ckm_shape four = {2, {1, 4}};
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(17);
    ob_input(b, "ids", OB_INT64, "1,4");
    ob_leaves(b, "table=10,2");
    ob_node(b, "Gather", "table,ids", "y");
    ob_output(b, "y");
    ckm_graph *graph = ob_import(b, NULL, &err);
    assert_non_null(graph);
    ckm_inference_options options = plain_options();
    ckm_inference *f = open_it(graph, &options);
    says(ckm_inference_set(f, "ids", CKM_I64, &four, (const int64_t[]){0, 9, 10, 1}, &err), CKM_ERR_ARGUMENT, &err,
         "holds the position 10, and there are 10");
    assert_int_equal(ckm_inference_set(f, "ids", CKM_I64, &four, (const int64_t[]){0, 9, -10, -1}, &err), CKM_OK);
    ckm_inference_close(f);
    ckm_graph_free(graph);
    ob_free(b);
}

// Positions are counted from a mask that is data.
static void integers_are_summed_up(void **state)
{
    (void)state;
    static const struct {
        int32_t type;
        int exclusive, reverse;
        double wanted[6];
    } cases[] = {
        {OB_INT64, 0, 0, {1, 1, 3, -2, -2, 3}},
        {OB_INT32, 1, 0, {0, 1, 1, 0, -2, -2}},
        {OB_INT64, 0, 1, {3, 2, 2, 3, 5, 5}},
        {OB_INT32, 1, 1, {2, 2, 0, 5, 5, 0}},
    };
    const ckm_shape shape = {2, {2, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        float y[6];
        bool wide = cases[i].type == OB_INT64;
        onnx_builder *b = ob_create(17);
        ob_input(b, "x", cases[i].type, "2,3");
        ob_leaves(b, "i:axis=1");
        ob_node(b, "CumSum", "x,axis", "c");
        ob_int(b, "exclusive", cases[i].exclusive);
        ob_int(b, "reverse", cases[i].reverse);
        ob_node(b, "Cast", "c", "y");
        ob_int(b, "to", OB_FLOAT);
        ob_output(b, "y");
        ckm_graph *graph = ob_import(b, NULL, &err);
        assert_non_null(graph);
        ckm_inference_options options = plain_options();
        ckm_inference *f = open_it(graph, &options);
        assert_int_equal(ckm_inference_set(f, "x", wide ? CKM_I64 : CKM_I32, &shape,
                                           wide ? (const void *)(const int64_t[]){1, 0, 2, -2, 0, 5}
                                                : (const void *)(const int32_t[]){1, 0, 2, -2, 0, 5},
                                           &err),
                         CKM_OK);
        assert_int_equal(ckm_inference_run(f, NULL, &err), CKM_OK);
        assert_int_equal(ckm_inference_get(f, 0, y, sizeof y, &err), CKM_OK);
        for (int k = 0; k < 6; k++) {
            assert_true(fabs((double)y[k] - cases[i].wanted[k]) < 1e-9);
        }
        ckm_inference_close(f);
        ckm_graph_free(graph);
        ob_free(b);
    }
}

// A mask of more than 4 KiB, made of constants: the file has its values, the network computes with them.
static void large_constants_have_their_values(void **state)
{
    enum { ROWS = 2, COLUMNS = 3000 };
    static float x[ROWS * COLUMNS];
    static float y[ROWS * COLUMNS];
    (void)state;
    char folder[64];
    char path[128];
    uint8_t *packed;
    size_t size;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    CkmOnnx__TensorProto *half = ob_floats(b, "half", "0.5");
    ob_input(b, "x", OB_FLOAT, "2,3000");
    ob_leaves(b, "i:shape=2,3000;i:to=3000,2;f:limit=0.4;f:no=-1");
    ob_node(b, "ConstantOfShape", "shape", "halves");
    ob_tensor(b, "value", half);
    ob_node(b, "Reshape", "halves,to", "turned");
    ob_node(b, "Transpose", "turned", "back");
    ob_node(b, "Mul", "back,back", "quarters");
    ob_node(b, "Less", "quarters,limit", "mask");
    ob_node(b, "Where", "mask,x,no", "seen");
    ob_node(b, "Add", "seen,quarters", "y");
    ob_output(b, "y");
    ob_pack(b, &packed, &size);
    data_files_folder(folder, sizeof folder);
    data_files_write(folder, "m.onnx", packed, size);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_import_file(path, NULL, &graph, &err), CKM_OK);
    ckm_inference_options options = plain_options();
    options.model = path;
    ckm_inference *f = open_it(graph, &options);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)i;
    }
    set(f, "x", (ckm_shape){2, {ROWS, COLUMNS}}, x);
    run(f);
    assert_int_equal(ckm_inference_get(f, 0, y, sizeof y, NULL), CKM_OK);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(y[i] == x[i] + 0.25F);
    }
    ckm_inference_close(f);
    ckm_graph_free(graph);
    data_files_remove(folder);
    free(packed);
    ob_free(b);
}

static void files_are_read_and_written(void **state)
{
    (void)state;
    char folder[64];
    char in[128];
    char out[128];
    char none[128];
    ckm_dtype dtype;
    ckm_shape shape;
    ckm_error err = CKM_ERROR_INIT;
    data_files_folder(folder, sizeof folder);
    snprintf(in, sizeof in, "%s/x.npy", folder);
    snprintf(out, sizeof out, "%s/y.npy", folder);
    snprintf(none, sizeof none, "%s/missing/y.npy", folder);
    data_files_npy(folder, "x.npy", "<f4", "(2, 2)", (const float[]){3, 5, 1, 2}, 16);
    ckm_graph *graph = hand_made(false);
    ckm_inference_options options = plain_options();
    ckm_inference *f = open_it(graph, &options);
    set_all(f);
    assert_int_equal(ckm_inference_read_npy(f, "x", in, &err), CKM_OK);
    run(f);
    const ckm_inference_file bad[2] = {{1, out}, {0, none}};
    says(ckm_inference_write_npy(f, bad, 2, &err), CKM_ERR_IO, &err, "cannot open for writing");
    assert_int_equal(access(out, F_OK), -1);  // one that fails leaves the others alone
    assert_int_equal(ckm_inference_write_npy(f, &bad[0], 1, &err), CKM_OK);
    assert_int_equal(ckm_npy_describe(out, &dtype, &shape, &err), CKM_OK);
    assert_int_equal(dtype, CKM_F32);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dims[0], 2);
    assert_int_equal(shape.dims[1], 2);
    // What was written can be read as an input, and gives what was computed: scores 2, 4, 0, 1, now normalized again.
    assert_int_equal(ckm_inference_read_npy(f, "x", out, &err), CKM_OK);
    run(f);
    gives(f, 2, 4, (const double[]){2, 4, 0, 1});
    data_files_npy(folder, "x.npy", "<f8", "(2, 2)", (const double[]){3, 5, 1, 2}, 32);
    says(ckm_inference_read_npy(f, "x", in, &err), CKM_ERR_ARGUMENT, &err, "and this is float64 2x2");
    ckm_inference_close(f);
    ckm_graph_free(graph);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_predicts),         cmocka_unit_test(training_mode_is_kept),
        cmocka_unit_test(a_budget_changes_no_bit),    cmocka_unit_test(what_is_missing_is_named),
        cmocka_unit_test(positions_are_checked),      cmocka_unit_test(large_constants_have_their_values),
        cmocka_unit_test(files_are_read_and_written), cmocka_unit_test(integers_are_summed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
