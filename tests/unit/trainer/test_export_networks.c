// SPDX-License-Identifier: Apache-2.0
// Networks of every family are written as ONNX files and read again: what comes out is what the network itself predicts, for other
// batches, too. (bench/onnx/zoo.py compares with ONNX Runtime.)
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

#include "scratch.h"

static ckm_inference *open_it(const ckm_graph *graph, const char *model, const ckm_import_options *importing)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    ckm_inference *f = NULL;
    kernels.threads = 2;
    options.budget_bytes = INT64_C(1) << 40;
    options.kernels = &kernels;
    options.model = model;
    options.importing = importing;
    if (ckm_inference_open(graph, &options, &f, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    return f;
}

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) / (double)(UINT64_C(1) << 53);
}

static int64_t elements(const ckm_shape *shape)
{
    int64_t n = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        n *= shape->dims[i];
    }
    return n;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

// Statistics that are none of those that a fresh network has, and weights that keep numbers from growing or vanishing.
static void fill(const char *name, const ckm_shape *shape, float *values)
{
    uint64_t state = 7;
    int64_t fan_in = 1;
    for (const char *c = name; *c != '\0'; c++) {
        state = state * 31 + (uint64_t)(unsigned char)*c;
    }
    for (int32_t i = 0; i + 1 < shape->rank; i++) {
        fan_in *= shape->dims[i];
    }
    bool positive = ends_with(name, "variance") || ends_with(name, "gamma") || ends_with(name, "scale");
    double reach = shape->rank > 1 ? sqrt(4.0 / (double)fan_in) : 0.2;
    for (int64_t i = 0; i < elements(shape); i++) {
        double u = 2.0 * uniform(&state) - 1.0;
        values[i] = (float)(positive ? 1.0 + 0.4 * u : reach * u);
    }
}

static void set_parameters(const ckm_graph *graph, ckm_inference *f)
{
    ckm_error err = CKM_ERROR_INIT;
    for (int32_t i = 0; i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, i);
        if (t.role != CKM_ROLE_PARAMETER && t.role != CKM_ROLE_STATE) {
            continue;
        }
        float *values = malloc((size_t)elements(&t.shape) * sizeof *values);
        assert_non_null(values);
        fill(t.name, &t.shape, values);
        if (ckm_inference_set(f, t.name, CKM_F32, &t.shape, values, &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
        free(values);
    }
}

// Element i of a map with the channels last, in one that has them first; shape is that of the former.
static int64_t planar(const ckm_shape *shape, int64_t i)
{
    if (shape->rank != 4) {
        return i;
    }
    int64_t c = i % shape->dims[3];
    int64_t rest = i / shape->dims[3];
    int64_t map = shape->dims[1] * shape->dims[2];
    return (rest / map * shape->dims[3] + c) * map + rest % map;
}

// The same samples for both; `file` has images with the channels first.
static void set_input(ckm_inference *f, int32_t i, const ckm_session_tensor *t, bool file)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_tensor own = ckm_inference_input(f, i);
    int64_t n = elements(&t->shape);
    uint64_t state = 11 + (uint64_t)i;
    float *values = calloc((size_t)n, sizeof *values);
    int32_t *tokens = calloc((size_t)n, sizeof *tokens);
    assert_true(values != NULL && tokens != NULL);
    for (int64_t k = 0; k < n; k++) {
        double u = uniform(&state);
        tokens[k] = (int32_t)(u * (strcmp(t->name, "segments") == 0 ? 2.0 : 60.0));
        values[file ? planar(&t->shape, k) : k] = (float)(t->shape.rank == 1 ? 900.0 * u : 2.0 * u - 1.0);
    }
    const void *data = t->dtype == CKM_F32 ? (const void *)values : (const void *)tokens;
    assert_string_equal(own.name, t->name);
    if (ckm_inference_set(f, t->name, t->dtype, &own.shape, data, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    free(values);
    free(tokens);
}

static float *run(ckm_inference *f, int64_t *n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_session_tensor y = ckm_inference_output(f, 0);
    float *values = malloc((size_t)y.bytes);
    assert_non_null(values);
    if (ckm_inference_run(f, NULL, &err) != CKM_OK || ckm_inference_get(f, 0, values, y.bytes, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    *n = y.bytes / (int64_t)sizeof *values;
    return values;
}

// The file for `batch` samples: its outputs for the first ones are the network's.
static void predicts_the_same(const char *path, int64_t batch, const ckm_inference *of, const float *wanted, int64_t n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_import_options importing = CKM_IMPORT_OPTIONS_INIT;
    ckm_graph *graph = NULL;
    int64_t have = 0;
    double most = 0;
    double spread = 0;
    importing.batch = batch;
    if (ckm_import_file(path, &importing, &graph, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    ckm_inference *f = open_it(graph, path, &importing);
    assert_int_equal(ckm_inference_input_count(f), ckm_inference_input_count(of));
    for (int32_t i = 0; i < ckm_inference_input_count(of); i++) {
        ckm_session_tensor t = ckm_inference_input(of, i);
        t.shape.dims[0] = batch;
        set_input(f, i, &t, true);
    }
    float *got = run(f, &have);
    ckm_shape shape = ckm_inference_output(of, 0).shape;
    for (int64_t i = 0; i < n; i++) {
        double value = (double)wanted[i];
        double difference = fabs(value - (double)got[planar(&shape, i)]);
        assert_true(isfinite(value));
        most = difference > most ? difference : most;
        spread = fabs(value - (double)wanted[0]) > spread ? fabs(value - (double)wanted[0]) : spread;
    }
    if (!(spread > 0 && most < 1e-4 * spread)) {
        fail_msg("%s: %g apart, of %g", path, most, spread);
    }
    free(got);
    ckm_inference_close(f);
    ckm_graph_free(graph);
}

static void written_and_read(const ckm_graph *graph)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t n = 0;
    ckm_inference *f = open_it(graph, NULL, NULL);
    set_parameters(graph, f);
    for (int32_t i = 0; i < ckm_inference_input_count(f); i++) {
        ckm_session_tensor t = ckm_inference_input(f, i);
        set_input(f, i, &t, false);
    }
    float *wanted = run(f, &n);
    if (ckm_inference_export(f, "network.onnx", &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    int64_t batch = ckm_graph_batch(graph);
    predicts_the_same("network.onnx", batch, f, wanted, n);
    // Samples are independent, so the first of more are the same.
    predicts_the_same("network.onnx", batch + 1, f, wanted, n);
    free(wanted);
    ckm_inference_close(f);
}

static void of_the_zoo(const char *name, const ckm_zoo_size *size)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    if (ckm_zoo_build_sized(name, 2, size, &graph, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    written_and_read(graph);
    ckm_graph_free(graph);
}

#define IMAGE(h, w) .size = sizeof(ckm_zoo_size), .height = (h), .width = (w), .channels = 3
#define TEXT(length) .size = sizeof(ckm_zoo_size), .sequence_length = (length), .vocabulary = 61

static void classifiers(void **state)
{
    (void)state;
    of_the_zoo("MobileNet", &(ckm_zoo_size){IMAGE(32, 32), .classes = 5});
    of_the_zoo("MobileNetV2", &(ckm_zoo_size){IMAGE(33, 36), .classes = 5});
    of_the_zoo("NASNetMobile", &(ckm_zoo_size){IMAGE(32, 32), .classes = 5});
    of_the_zoo("linear3", &(ckm_zoo_size){IMAGE(8, 12), .classes = 5});
}

static void transformers(void **state)
{
    (void)state;
    of_the_zoo("GPT2", &(ckm_zoo_size){TEXT(9), .model_width = 24, .depth = 2, .heads = 3});
    of_the_zoo("Llama-3.2-1B", &(ckm_zoo_size){TEXT(9), .model_width = 64, .depth = 2, .heads = 8});
    of_the_zoo("BERT-base", &(ckm_zoo_size){TEXT(9), .model_width = 24, .depth = 2, .heads = 3});
    of_the_zoo("ViT-B16", &(ckm_zoo_size){IMAGE(32, 48), .model_width = 24, .depth = 2, .heads = 3, .classes = 5});
    of_the_zoo("Swin-T", &(ckm_zoo_size){IMAGE(56, 60), .model_width = 24, .depth = 12, .heads = 3, .classes = 5});
}

static void others(void **state)
{
    (void)state;
    of_the_zoo("unet_mini", &(ckm_zoo_size){IMAGE(16, 32), .classes = 5});
    of_the_zoo("ConvNeXt-T", &(ckm_zoo_size){IMAGE(64, 64), .model_width = 8, .depth = 6, .classes = 5});
    of_the_zoo("DDPM-CIFAR10", &(ckm_zoo_size){IMAGE(16, 24), .model_width = 32, .depth = 1, .heads = 1});
}

// What callers build has layers and activations that the zoo's networks do not have.
static void of_the_callers_own(void **state)
{
    (void)state;
    static const char *const functions[] = {"relu6", "leaky_relu", "elu",      "selu",      "celu",
                                            "gelu",  "silu",       "mish",     "sigmoid",   "hard_sigmoid",
                                            "tanh",  "softplus",   "softsign", "hard_swish"};
    ckm_error err = CKM_ERROR_INIT;
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("own", 2, &net, &err), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (const int64_t[]){6, 7, 3});
    x = ckm_network_conv_transpose(net, x,
                                   (ckm_conv_layer){.filters = 4, .kernel = {3}, .strides = {2}, .activation = "tanh"});
    x = ckm_network_conv_transpose(net, x,
                                   (ckm_conv_layer){.filters = 4, .kernel = {3}, .strides = {2}, .padding = "same"});
    x = ckm_network_average_pool(net, x, (ckm_pool_layer){.size = {3}, .strides = {2}, .padding = "same"});
    x = ckm_network_batch_norm(net, x, (ckm_batch_norm_layer){.name = "bn"});
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        ckm_layer y = ckm_network_activation(net, x, NULL, functions[i]);
        x = ckm_network_add(net, NULL, (const ckm_layer[]){x, y, x}, 3);
        x = ckm_network_layer_norm(net, x, NULL, 0.0);
    }
    x = ckm_network_max_pool(net, x, (ckm_pool_layer){.size = {2}});
    x = ckm_network_flatten(net, x, NULL);
    x = ckm_network_dense(net, x, NULL, 6, "gelu");
    x = ckm_network_dropout(net, x, NULL, 0.5);
    x = ckm_network_dense(net, x, NULL, 3, NULL);
    if (ckm_network_finish(net, x, &graph, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    ckm_network_free(net);
    written_and_read(graph);
    ckm_graph_free(graph);
}

static void what_the_file_says(void **state)
{
    (void)state;
    char text[64];
    bool found = false;
    char **names = NULL;
    int64_t n = -1;
    of_the_zoo("linear1", &(ckm_zoo_size){IMAGE(8, 12), .classes = 5});
    assert_int_equal(ckm_inference_read_note("network.onnx", "input.width", text, sizeof text, &found, NULL), CKM_OK);
    assert_true(found);
    assert_string_equal(text, "12");
    assert_int_equal(ckm_inference_read_note("network.onnx", "output", text, sizeof text, &found, NULL), CKM_OK);
    assert_string_equal(text, "probabilities");
    assert_int_equal(ckm_inference_read_note("network.onnx", "setting.pixels", text, sizeof text, &found, NULL),
                     CKM_OK);
    assert_false(found);
    assert_int_equal(ckm_inference_read_class_names("network.onnx", &names, &n, NULL), CKM_OK);
    assert_true(names == NULL && n == 0);
}

// Nothing is made up, and nothing is written.
static void a_parameter_without_a_value(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    const int64_t shape[3] = {8, 8, 3};
    assert_int_equal(ckm_zoo_build("linear1", 1, shape, &graph, &err), CKM_OK);
    ckm_inference *f = open_it(graph, NULL, NULL);
    assert_int_equal(ckm_inference_export(f, "none.onnx", &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "has no value"));
    assert_int_not_equal(access("none.onnx", F_OK), 0);
    ckm_inference_close(f);
    ckm_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classifiers),
        cmocka_unit_test(transformers),
        cmocka_unit_test(others),
        cmocka_unit_test(of_the_callers_own),
        cmocka_unit_test(what_the_file_says),
        cmocka_unit_test(a_parameter_without_a_value),
    };
    scratch_stay stay;
    scratch_enter(&stay);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_leave(&stay);
    return failed;
}
