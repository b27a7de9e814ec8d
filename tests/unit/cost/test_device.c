// SPDX-License-Identifier: Apache-2.0
// Device models: times worked out by hand, what depends on what, files, and fitting a device to the times of another.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/zoo.h>
#include <unistd.h>

// One multiply-accumulate and one byte a nanosecond; no launches.
static const ckm_device plain = {
    .name = "plain",
    .macs_per_s = 1e9,
    .matrix_macs_per_s = 1e9,
    .bytes_per_s = 1e9,
    .efficiency = {1, 1, 1, 1},
};

static ckm_status times_of(const char *network, int64_t batch, bool layers, const ckm_device *device,
                           ckm_dataflow **out, ckm_error *err)
{
    ckm_graph *graph = NULL;
    ckm_training *training = NULL;
    ckm_cost_model model = {sizeof model, CKM_COST_MODEL_DEVICE, NULL, device};
    assert_int_equal(ckm_zoo_build(network, batch, NULL, &graph, err), CKM_OK);
    assert_int_equal(layers ? ckm_autodiff_layer_graph(graph, &training, err)
                            : ckm_autodiff_op_graph(graph, NULL, &training, err),
                     CKM_OK);
    ckm_status status = ckm_cost_apply(training, &model, out, err);
    ckm_training_free(training);
    ckm_graph_free(graph);
    return status;
}

static ckm_dataflow *graph_of(const char *network, int64_t batch, bool layers, const ckm_device *device)
{
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (times_of(network, batch, layers, device, &df, &err) != CKM_OK) {
        fail_msg("%s on %s: %s", network, device->name, err.message);
    }
    assert_int_equal(ckm_dataflow_cost_unit(df), CKM_COST_NS);
    return df;
}

static int32_t find(const ckm_dataflow *df, const char *name)
{
    for (int32_t i = 0; i < ckm_dataflow_op_count(df); i++) {
        if (strcmp(ckm_dataflow_get_op(df, i).name, name) == 0) {
            return i;
        }
    }
    fail_msg("no operator %s", name);
    return -1;
}

static int64_t cost_of(const ckm_dataflow *df, const char *name)
{
    return ckm_dataflow_get_op(df, find(df, name)).cost;
}

// linear1: 222x222x64 outputs of 27 products behind a 224x224x3 input, a global pooling, 64x1000 products.
static void by_hand(void **state)
{
    (void)state;
    const int64_t out = INT64_C(222) * 222 * 64;
    const int64_t in = 224 * 224 * 3;
    const int64_t weights = 27 * 64;
    ckm_dataflow *df = graph_of("linear1", 2, true, &plain);
    // Arithmetic takes longer than traffic; backward is two kernels of the same kind.
    assert_int_equal(cost_of(df, "conv0"), 2 * out * 27);
    assert_int_equal(cost_of(df, "conv0_grad"), 2 * 2 * out * 27);
    assert_int_equal(cost_of(df, "flatten"), 2 * 4 * (out + 64));  // a pooling: it reads and writes
    ckm_dataflow_free(df);

    // Arithmetic a hundred times as fast: now traffic decides.
    ckm_device fast = plain;
    fast.matrix_macs_per_s = 1e11;
    fast.launch_ns = 7;
    df = graph_of("linear1", 2, true, &fast);
    int64_t traffic = 4 * (2 * in + weights + 2 * out);
    assert_int_equal(cost_of(df, "conv0"), traffic + 7);
    assert_int_equal(cost_of(df, "conv0_grad"), 2 * (traffic + 7));
    fast.efficiency[CKM_DEVICE_STREAM] = 0.5;
    ckm_dataflow *slow = graph_of("linear1", 2, true, &fast);
    assert_int_equal(cost_of(slow, "conv0") - 7, 2 * (cost_of(df, "conv0") - 7));
    ckm_dataflow_free(slow);
    ckm_dataflow_free(df);

    // An activation inside a layer reads and writes the output once more, in a kernel of its own: 222x222x128 outputs.
    ckm_device launches = plain;
    launches.launch_ns = 1000;
    launches.matrix_macs_per_s = launches.bytes_per_s = 1e18;
    df = graph_of("test", 1, true, &launches);
    assert_int_equal(cost_of(df, "conv1"), 2000);
    ckm_dataflow_free(df);
    launches.launch_ns = 0;
    launches.bytes_per_s = 1e9;
    df = graph_of("test", 1, true, &launches);
    int64_t output = INT64_C(4) * 222 * 222 * 128;
    assert_int_equal(cost_of(df, "addc1c2"), 3 * output);
    int64_t in_conv = INT64_C(4) * 222 * 222 * 64;
    assert_true(cost_of(df, "conv1") >= in_conv + output + 2 * output);
    assert_true(cost_of(df, "conv1") < in_conv + output + 2 * output + 400000);  // and the weights
    ckm_dataflow_free(df);
}

// What the rate of one class changes, and what it does not.
static void classes(void **state)
{
    (void)state;
    static const struct {
        ckm_device_class changed;
        const char *slower, *same;  // operators of MobileNet: depthwise and pointwise; and of VGG16: conv and dense
        const char *network;
    } cases[] = {
        {CKM_DEVICE_GROUPED, "conv_dw_3", "conv_pw_3", "MobileNet"},
        {CKM_DEVICE_MATRIX, "conv_pw_3", "conv_dw_3", "MobileNet"},
        {CKM_DEVICE_CONV3, "block2_conv2", "fc1", "VGG16"},
        {CKM_DEVICE_MATRIX, "fc1", "block2_conv2", "VGG16"},
    };
    ckm_device bound = plain;  // by arithmetic, all of it
    bound.bytes_per_s = 1e18;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_device slow = bound;
        slow.efficiency[cases[i].changed] = 0.25;
        for (int layers = 0; layers < 2; layers++) {
            ckm_dataflow *before = graph_of(cases[i].network, 1, layers == 1, &bound);
            ckm_dataflow *after = graph_of(cases[i].network, 1, layers == 1, &slow);
            int64_t was = cost_of(before, cases[i].slower);
            assert_true(was > 0);
            if (llabs(cost_of(after, cases[i].slower) - 4 * was) > 4) {
                fail_msg("%s: %lld from %lld", cases[i].slower, (long long)cost_of(after, cases[i].slower),
                         (long long)was);
            }
            assert_int_equal(cost_of(after, cases[i].same), cost_of(before, cases[i].same));
            ckm_dataflow_free(before);
            ckm_dataflow_free(after);
        }
    }
}

// Every device, both levels: views are free, nothing else is, and more samples take longer.
static void built_in(void **state)
{
    (void)state;
    assert_true(ckm_device_count() >= 7);
    assert_null(ckm_device_find("no such device"));
    assert_null(ckm_device_at(ckm_device_count()));
    assert_null(ckm_device_at(-1));
    for (int32_t i = 0; i < ckm_device_count(); i++) {
        const ckm_device *device = ckm_device_at(i);
        assert_ptr_equal(ckm_device_find(device->name), device);
        assert_true(strlen(device->what) > 0 && strlen(device->source) > 0);
        for (int layers = 0; layers < 2; layers++) {
            ckm_dataflow *one = graph_of("VGG16", 1, layers == 1, device);
            ckm_dataflow *many = graph_of("VGG16", 64, layers == 1, device);
            assert_int_equal(cost_of(one, "flatten"), 0);
            assert_true(cost_of(one, "block1_conv1") > 0);
            assert_true(ckm_dataflow_total_cost(many) > 8 * ckm_dataflow_total_cost(one));
            ckm_dataflow_free(one);
            ckm_dataflow_free(many);
        }
    }
    assert_ptr_equal(ckm_device_find("v100"), ckm_device_find("V100"));
}

static void refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_device bad = plain;
    bad.efficiency[CKM_DEVICE_GROUPED] = 0;
    assert_int_equal(times_of("linear0", 1, true, &bad, &df, &err), CKM_ERR_ARGUMENT);
    bad = plain;
    bad.bytes_per_s = -1;
    assert_int_equal(times_of("linear0", 1, true, &bad, &df, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(times_of("linear0", 1, true, NULL, &df, &err), CKM_ERR_ARGUMENT);
    bad = plain;
    bad.bytes_per_s = 1e-12;
    assert_int_equal(times_of("linear0", 1, true, &bad, &df, &err), CKM_ERR_OVERFLOW);
    assert_null(df);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void files(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    char path[] = "/tmp/ckm-test-device-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    const ckm_device *known = ckm_device_find("A100");
    ckm_device copy;
    assert_int_equal(ckm_device_write(known, path, &err), CKM_OK);
    assert_int_equal(ckm_device_read(path, &copy, &err), CKM_OK);
    assert_string_equal(copy.name, known->name);
    assert_string_equal(copy.what, known->what);
    assert_string_equal(copy.source, known->source);
    ckm_dataflow *a = graph_of("MobileNet", 4, false, known);
    ckm_dataflow *b = graph_of("MobileNet", 4, false, &copy);
    for (int32_t i = 0; i < ckm_dataflow_op_count(a); i++) {
        assert_int_equal(ckm_dataflow_get_op(a, i).cost, ckm_dataflow_get_op(b, i).cost);
    }
    ckm_dataflow_free(a);
    ckm_dataflow_free(b);
    // Rates come back as they were, and a name that is not UTF-8 is no error.
    ckm_device odd = *known;
    odd.macs_per_s = 1e12 / 3;
    odd.name[0] = (char)0xff;
    odd.name[1] = '\0';
    assert_int_equal(ckm_device_write(&odd, path, &err), CKM_OK);
    assert_int_equal(ckm_device_read(path, &copy, &err), CKM_OK);
    assert_string_equal(copy.name, "\xef\xbf\xbd");
    assert_true(copy.macs_per_s == odd.macs_per_s);

#define HEADER "{\"format\": \"checkmate-device\", \"version\": 1, "
#define RATES "\"macs_per_s\": 1, \"matrix_macs_per_s\": 1, \"bytes_per_s\": 1, \"launch_ns\": 0, "
    static const struct {
        const char *text, *word;
    } bad[] = {
        {"{\"format\": \"checkmate-graph\", \"version\": 1}", "checkmate-device"},
        {HEADER "\"macs_per_s\": 0}", "macs_per_s must be a number above 0"},
        {HEADER "\"macs_per_s\": \"fast\"}", "macs_per_s must be a number"},
        {HEADER "\"name\": \"01234567890123456789012345678901\"}", "name has more than 31 bytes"},
        {HEADER RATES "\"efficiency\": {\"conv3\": 1, \"matrix\": 1, \"grouped\": 1}}", "stream must be a number"},
        {HEADER RATES "\"efficiency\": 3}", "conv3 must be a number"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text(path, bad[i].text);
        memset(&copy, 77, sizeof copy);
        ckm_device before = copy;
        assert_int_equal(ckm_device_read(path, &copy, &err), CKM_ERR_FORMAT);
        if (strstr(err.message, bad[i].word) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", err.message, bad[i].word);
        }
        assert_memory_equal(&copy, &before, sizeof copy);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ckm_device_read(path, &copy, &err), CKM_ERR_IO);
}

// A device that is fitted to the times of another predicts about the same times, on a network it has not seen too.
static void fitting(void **state)
{
    (void)state;
    static const char *const names[] = {"ResNet50", "MobileNet"};
    const ckm_device *known = ckm_device_find("V100");
    ckm_graph *graphs[2] = {NULL, NULL};
    ckm_training *steps[2] = {NULL, NULL};
    int64_t *ns[2] = {NULL, NULL};
    ckm_error err = CKM_ERROR_INIT;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ckm_zoo_build(names[i], 32, NULL, &graphs[i], &err), CKM_OK);
        assert_int_equal(ckm_autodiff_op_graph(graphs[i], NULL, &steps[i], &err), CKM_OK);
        ckm_dataflow *df = graph_of(names[i], 32, false, known);
        ns[i] = malloc((size_t)ckm_dataflow_op_count(df) * sizeof *ns[i]);
        assert_non_null(ns[i]);
        for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
            ns[i][v] = ckm_dataflow_get_op(df, v).cost;
        }
        ckm_dataflow_free(df);
    }
    ckm_device fitted;
    assert_int_equal(ckm_device_fit((const ckm_training *const *)steps, (const int64_t *const *)ns, 2, &fitted, &err),
                     CKM_OK);
    static const char *const judged[] = {"ResNet50", "MobileNet", "VGG16", "InceptionV3"};
    for (size_t i = 0; i < sizeof judged / sizeof judged[0]; i++) {
        ckm_dataflow *a = graph_of(judged[i], 32, false, known);
        ckm_dataflow *b = graph_of(judged[i], 32, false, &fitted);
        double ratio = (double)ckm_dataflow_total_cost(b) / (double)ckm_dataflow_total_cost(a);
        if (ratio < 0.7 || ratio > 1.4) {
            fail_msg("%s takes %g of what it took on the device that was fitted to", judged[i], ratio);
        }
        ckm_dataflow_free(a);
        ckm_dataflow_free(b);
    }
    // Nothing to tell rates from.
    assert_int_equal(ckm_device_fit(NULL, NULL, 0, &fitted, &err), CKM_ERR_ARGUMENT);
    for (int i = 0; i < 2; i++) {
        free(ns[i]);
        ckm_training_free(steps[i]);
        ckm_graph_free(graphs[i]);
    }
}

static double time_of(const ckm_device *device, const ckm_device_product *product, ckm_device_kernels kernels)
{
    double ns = -1;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_device_time(device, product, &kernels, &ns, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return ns;
}

// Kernels that are in no training graph, by hand: the rate of their class and precision, the longer of arithmetic and
// traffic, and the launches.
static void kernels(void **state)
{
    (void)state;
    ckm_device device = plain;
    device.macs_per_s = 5e8;
    device.launch_ns = 10;
    device.efficiency[CKM_DEVICE_MATRIX] = 0.5;
    device.efficiency[CKM_DEVICE_STREAM] = 0.25;
    const ckm_device_product product = {.float16_macs_per_s = 8e9, .half_efficiency = 0.25};
    static const ckm_device_precision single = CKM_DEVICE_FLOAT32;
    static const ckm_device_precision half = CKM_DEVICE_FLOAT16;
    assert_float_equal(time_of(&device, NULL, (ckm_device_kernels){CKM_DEVICE_MATRIX, single, 1000, 100, 2}), 2020, 0);
    assert_float_equal(time_of(&device, NULL, (ckm_device_kernels){CKM_DEVICE_MATRIX, single, 100, 100, 1}), 410, 0);
    assert_float_equal(time_of(&device, NULL, (ckm_device_kernels){CKM_DEVICE_STREAM, single, 9999, 100, 1}), 410, 0);
    assert_float_equal(time_of(&device, NULL, (ckm_device_kernels){CKM_DEVICE_MATRIX, half, 1000, 0, 0}), 2000, 0);
    assert_float_equal(time_of(&device, &product, (ckm_device_kernels){CKM_DEVICE_MATRIX, half, 1000, 0, 0}), 500, 0);
    assert_float_equal(time_of(&device, &product, (ckm_device_kernels){CKM_DEVICE_CONV3, half, 1000, 0, 0}), 500, 0);
    assert_float_equal(time_of(&device, &product, (ckm_device_kernels){CKM_DEVICE_MATRIX, single, 1000, 0, 0}), 2000,
                       0);
    assert_float_equal(time_of(&device, &product, (ckm_device_kernels){CKM_DEVICE_GROUPED, half, 1000, 0, 0}), 2000, 0);
    // It has no units for bfloat16.
    const ckm_device_kernels other = {CKM_DEVICE_MATRIX, CKM_DEVICE_BFLOAT16, 1000, 0, 0};
    assert_float_equal(time_of(&device, &product, other), 2000, 0);

    ckm_error err = CKM_ERROR_INIT;
    double ns = 7;
    ckm_device_kernels bad = {CKM_DEVICE_MATRIX, single, -1, 0, 0};
    assert_int_equal(ckm_device_time(&device, NULL, &bad, &ns, &err), CKM_ERR_ARGUMENT);
    bad = (ckm_device_kernels){CKM_DEVICE_CLASSES, single, 1, 0, 0};
    assert_int_equal(ckm_device_time(&device, NULL, &bad, &ns, &err), CKM_ERR_ARGUMENT);
    device.bytes_per_s = 0;
    bad = (ckm_device_kernels){CKM_DEVICE_MATRIX, single, 1, 0, 0};
    assert_int_equal(ckm_device_time(&device, NULL, &bad, &ns, &err), CKM_ERR_ARGUMENT);
    assert_float_equal(ns, 7, 0);
}

// Each device has a product, and no half precision that is slower than float32 on the same units.
static void products(void **state)
{
    (void)state;
    for (int32_t i = 0; i < ckm_device_count(); i++) {
        const ckm_device *device = ckm_device_at(i);
        const ckm_device_product *product = ckm_device_product_find(device->name);
        if (product == NULL) {
            fail_msg("%s has no product", device->name);
        }
        assert_true(product->memory_bytes >= 0 && product->memory_bytes < INT64_C(1) << 40);
        assert_true(product->half_efficiency > 0 && product->half_efficiency <= 1);
        assert_true(product->float16_macs_per_s == 0 || product->float16_macs_per_s >= device->matrix_macs_per_s);
        assert_true(product->bfloat16_macs_per_s == 0 || product->bfloat16_macs_per_s == product->float16_macs_per_s);
        assert_int_equal(strncmp(device->what, product->what, strlen(product->what)), 0);
    }
    assert_ptr_equal(ckm_device_product_find("h100"), ckm_device_product_find("H100"));
    assert_null(ckm_device_product_find("no such device"));
    assert_true(ckm_device_product_find("H100")->memory_bytes == INT64_C(80000000000));
}

// Links by name, of devices, and of files of both kinds.
static void links(void **state)
{
    (void)state;
    for (int32_t i = 0; i < ckm_device_link_count(); i++) {
        const ckm_device_link *link = ckm_device_link_at(i);
        assert_true(link->out_bytes_per_second > 0 && link->in_bytes_per_second > 0 && link->latency_ns >= 0);
        assert_true(link->source[0] != '\0' && link->what[0] != '\0');
        assert_ptr_equal(ckm_device_link_find(link->name), link);
    }
    assert_null(ckm_device_link_at(-1));
    assert_null(ckm_device_link_find("no such link"));
    assert_null(ckm_device_link_find(NULL));
    assert_ptr_equal(ckm_device_link_find("a100"), ckm_device_link_find("PCIE4"));
    assert_ptr_equal(ckm_device_link_find("H100"), ckm_device_link_find("PCIe5"));
    assert_int_equal(ckm_device_link_find("PCIe4")->out_bytes_per_second, INT64_C(25206400000));
    static const struct {
        const char *text;
        ckm_status status;
        const char *message;
    } cases[] = {
        {"{\"format\": \"checkmate-device\", \"version\": 1, \"link\": {\"name\": \"x\", \"out_bytes_per_second\": 5, "
         "\"in_bytes_per_second\": 6}}",
         CKM_OK, ""},
        {"{\"format\": \"checkmate-profile\", \"version\": 1, \"link\": {\"out_bytes_per_second\": 5, "
         "\"in_bytes_per_second\": 6, \"latency_ns\": 7}}",
         CKM_OK, ""},
        {"{\"format\": \"checkmate-device\", \"version\": 1}", CKM_ERR_NOT_FOUND, "has no \"link\""},
        {"{\"format\": \"checkmate-device\", \"version\": 1, \"link\": 5}", CKM_ERR_FORMAT, "must be an object"},
        {"{\"format\": \"checkmate-device\", \"version\": 1, \"link\": {\"out_bytes_per_second\": 0, "
         "\"in_bytes_per_second\": 6}}",
         CKM_ERR_FORMAT, "out_bytes_per_second"},
        {"{\"format\": \"checkmate-graph\", \"version\": 1}", CKM_ERR_FORMAT, "checkmate-device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_device_link link = {.latency_ns = -1};
        ckm_error err = CKM_ERROR_INIT;
        FILE *to = fopen("test_device_link.json", "w");
        assert_non_null(to);
        fputs(cases[i].text, to);
        fclose(to);
        assert_int_equal(ckm_device_link_read("test_device_link.json", &link, &err), cases[i].status);
        if (cases[i].status == CKM_OK) {
            assert_int_equal(link.out_bytes_per_second, 5);
            assert_int_equal(link.in_bytes_per_second, 6);
            assert_int_equal(link.latency_ns, i == 0 ? 0 : 7);
        } else {
            assert_non_null(strstr(err.message, cases[i].message));
            assert_int_equal(link.latency_ns, -1);
        }
    }
    remove("test_device_link.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand), cmocka_unit_test(classes),  cmocka_unit_test(built_in),
        cmocka_unit_test(refused), cmocka_unit_test(files),    cmocka_unit_test(fitting),
        cmocka_unit_test(kernels), cmocka_unit_test(products), cmocka_unit_test(links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
