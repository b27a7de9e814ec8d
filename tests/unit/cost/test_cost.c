// SPDX-License-Identifier: Apache-2.0
// Costs: the paper's multiply-accumulates on whole networks, profiles, and what they refuse.
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

typedef struct network {
    ckm_graph *graph;
    ckm_training *training;
} network;

static network open_network(const char *name, int64_t batch, const int64_t *shape)
{
    network n = {NULL, NULL};
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_zoo_build(name, batch, shape, &n.graph, &err) != CKM_OK ||
        ckm_autodiff_layer_graph(n.graph, &n.training, &err) != CKM_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    return n;
}

static void close_network(network *n)
{
    ckm_training_free(n->training);
    ckm_graph_free(n->graph);
}

static ckm_dataflow *flops(const char *name, int64_t batch)
{
    network n = open_network(name, batch, NULL);
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_cost_apply(n.training, &model, &df, &err) != CKM_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    close_network(&n);  // a dataflow graph stands alone
    return df;
}

static int64_t total_bytes(const ckm_dataflow *df)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < ckm_dataflow_tensor_count(df); i++) {
        sum += ckm_dataflow_get_tensor(df, i).bytes;
    }
    return sum;
}

// Costs of the original implementation at one sample; operators, edges and fixed bytes follow from the
// layers and parameters (3 edges between layers for each of the network's, one a layer, two at the loss).
static void whole_networks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t ops;
        int64_t edges, cost, fixed;
    } known[] = {
        {"linear8", 21, 3 * 9 + 10 + 2, 35720765184, 8 * 324776},
        {"linear31", 67, 3 * 32 + 33 + 2, 122285104896, 8 * INT64_C(1172648)},
        {"VGG19", 51, 3 * 24 + 25 + 2, 58896187392, 8 * INT64_C(143667240)},
        {"MobileNet", 185, 3 * 91 + 92 + 2, 1781864376, 8 * INT64_C(4253864)},
        {"InceptionV3", 625, 3 * 346 + 312 + 2, 17274160608, 8 * INT64_C(23851784)},
        {"vgg_unet", 71, 3 * 37 + 35 + 2, 283242495744, 8 * INT64_C(12332755)},
        {"ResNet50", 353, 3 * 191 + 176 + 2, 11761327104, 8 * INT64_C(25636712)},
        {"fcn_8_vgg", 73, 3 * 37 + 36 + 2, 10275337746048 / 32, 8 * INT64_C(134456985)},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ckm_dataflow *one = flops(known[i].name, 1);
        assert_string_equal(ckm_dataflow_name(one), known[i].name);
        assert_int_equal(ckm_dataflow_cost_unit(one), CKM_COST_FLOPS);
        assert_int_equal(ckm_dataflow_op_count(one), known[i].ops);
        assert_int_equal(ckm_dataflow_tensor_count(one), known[i].ops);
        assert_int_equal(ckm_dataflow_edge_count(one), known[i].edges);
        assert_int_equal(ckm_dataflow_total_cost(one), known[i].cost);
        assert_int_equal(ckm_dataflow_fixed_bytes(one), known[i].fixed);
        ckm_dataflow *many = flops(known[i].name, 32);
        assert_int_equal(ckm_dataflow_total_cost(many), 32 * known[i].cost);
        assert_int_equal(total_bytes(many), 32 * total_bytes(one));
        assert_int_equal(ckm_dataflow_fixed_bytes(many), known[i].fixed);
        ckm_dataflow_free(one);
        ckm_dataflow_free(many);
    }
}

// linear1: a convolution of 222x222x64 outputs of 27 products, a free pooling, 64x1000 products.
static void operator_by_operator(void **state)
{
    (void)state;
    const int64_t conv = INT64_C(222) * 222 * 64 * 27;
    const int64_t costs[] = {2 * conv, 0, 2 * 64000, 0, 4 * 64000, 0, 4 * conv};
    static const ckm_op_kind kinds[] = {CKM_OP_FORWARD,  CKM_OP_FORWARD,  CKM_OP_FORWARD, CKM_OP_LOSS,
                                        CKM_OP_BACKWARD, CKM_OP_BACKWARD, CKM_OP_BACKWARD};
    ckm_dataflow *df = flops("linear1", 2);
    assert_int_equal(ckm_dataflow_op_count(df), 7);
    for (int32_t i = 0; i < 7; i++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(df, i);
        assert_int_equal(op.cost, costs[i]);
        assert_int_equal(op.kind, kinds[i]);
        assert_false(op.run_once);
        assert_int_equal(op.workspace_bytes, 0);
        assert_int_equal(op.n_inplace, 0);
    }
    assert_string_equal(ckm_dataflow_get_op(df, 6).name, "conv0_grad");
    assert_int_equal(ckm_dataflow_get_tensor(df, 3).bytes, 8);
    assert_int_equal(ckm_dataflow_get_tensor(df, 0).bytes, 2 * 4 * 222 * 222 * 64);
    ckm_dataflow_free(df);
}

static void costs_beyond_63_bits(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    ckm_dataflow *df = NULL;
    // 5.9e10 multiply-accumulates a sample: every operator fits, their sum does not.
    network n = open_network("VGG19", INT64_C(200000000), NULL);
    assert_int_equal(ckm_cost_apply(n.training, &model, &df, &err), CKM_ERR_OVERFLOW);
    assert_non_null(strstr(err.message, "operator \"block"));
    assert_null(df);
    close_network(&n);
    // One operator alone does not fit.
    n = open_network("VGG19", INT64_C(20000000000), NULL);
    assert_int_equal(ckm_cost_apply(n.training, &model, &df, &err), CKM_ERR_OVERFLOW);
    assert_non_null(strstr(err.message, "operator \"block"));
    close_network(&n);
    n = open_network("linear0", 1, NULL);
    model.kind = (ckm_cost_kind)17;
    assert_int_equal(ckm_cost_apply(n.training, &model, &df, &err), CKM_ERR_ARGUMENT);
    close_network(&n);
}

// ---- Profiles, on linear1 at batch 2: conv0, flatten, predictions, loss and three gradients

#define HEADER "\"format\": \"checkmate-profile\", \"version\": 1"
#define OP(name, ns) "{\"name\": \"" name "\", \"median_ns\": " ns "}"

static ckm_status apply_profile(const char *text, ckm_dataflow **df, ckm_error *err)
{
    char path[] = "/tmp/ckm-test-profile-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    network n = open_network("linear1", 2, NULL);
    ckm_cost_model model = {sizeof model, CKM_COST_MODEL_PROFILE, path, NULL};
    ckm_status status = ckm_cost_apply(n.training, &model, df, err);
    close_network(&n);
    assert_int_equal(unlink(path), 0);
    if (status != CKM_OK) {
        assert_string_equal(err->file, path);
    }
    return status;
}

static void profiles_give_nanoseconds_by_name(void **state)
{
    (void)state;
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    // Order does not matter, others are ignored, the loss may be absent.
    const char *text = "{" HEADER ", \"batch\": 2, \"platform\": \"p\", \"ops\": [" OP("other", "1") ", " OP(
        "conv0_grad", "700") ", " OP("flatten_grad",
                                     "60") ", " OP("predictions_grad",
                                                   "5") ", " OP("predictions",
                                                                "300") ", " OP("flatten", "20") ", " OP("conv0",
                                                                                                        "1000") "]}";
    static const int64_t costs[] = {1000, 20, 300, 0, 5, 60, 700};
    assert_int_equal(apply_profile(text, &df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_cost_unit(df), CKM_COST_NS);
    for (int32_t i = 0; i < 7; i++) {
        assert_int_equal(ckm_dataflow_get_op(df, i).cost, costs[i]);
    }
    ckm_dataflow_free(df);
}

#define LINE(name, fixed, slope) \
    "{\"name\": \"" name "\", \"median_ns\": 9, \"fixed_ns\": " fixed ", \"per_sample_ns\": " slope "}"

static void lines_give_other_batches(void **state)
{
    (void)state;
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    const char *text = "{" HEADER ", \"batch\": 8, \"ops\": [" LINE("conv0", "10", "2.5") ", " LINE(
        "flatten", "0", "0") ", " LINE("predictions", "7.4",
                                       "0") ", " LINE("predictions_grad", "0",
                                                      "3") ", " LINE("flatten_grad", "1",
                                                                     "1") ", " LINE("conv0_grad", "100", "50.25") "]}";
    static const int64_t costs[] = {15, 0, 7, 0, 6, 3, 201};
    assert_int_equal(apply_profile(text, &df, &err), CKM_OK);
    for (int32_t i = 0; i < 7; i++) {
        assert_int_equal(ckm_dataflow_get_op(df, i).cost, costs[i]);
    }
    ckm_dataflow_free(df);
}

static void bad_profiles_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ckm_status status;
        const char *word;
    } bad[] = {
        {"", CKM_ERR_FORMAT, "not valid JSON"},
        {"{" HEADER ", \"ops\": [", CKM_ERR_FORMAT, "not valid JSON"},
        {"[]", CKM_ERR_FORMAT, "checkmate-profile"},
        {"{\"format\": \"checkmate-graph\", \"version\": 1, \"ops\": []}", CKM_ERR_FORMAT,
         "expected \"checkmate-profile\""},
        {"{\"format\": \"checkmate-profile\", \"version\": 2, \"ops\": []}", CKM_ERR_FORMAT, "version is 2"},
        {"{" HEADER "}", CKM_ERR_FORMAT, "\"ops\" is missing"},
        {"{" HEADER ", \"ops\": {}}", CKM_ERR_FORMAT, "must be an array"},
        {"{" HEADER ", \"ops\": [3]}", CKM_ERR_FORMAT, "ops[0]: must be an object"},
        {"{" HEADER ", \"ops\": [{\"median_ns\": 3}]}", CKM_ERR_FORMAT, "\"name\" is missing"},
        {"{" HEADER ", \"ops\": [{\"name\": \"a\"}]}", CKM_ERR_FORMAT, "\"median_ns\" is missing"},
        {"{" HEADER ", \"ops\": [" OP("a", "-1") "]}", CKM_ERR_FORMAT, "ops[0].median_ns: -1 is out of range"},
        {"{" HEADER ", \"ops\": [" OP("a", "1.5") "]}", CKM_ERR_FORMAT, "must be an integer"},
        {"{" HEADER ", \"ops\": [" OP("a", "1") ", " OP("a", "2") "]}", CKM_ERR_FORMAT,
         "ops[1]: operator \"a\" appears twice"},
        {"{" HEADER ", \"batch\": 3, \"ops\": []}", CKM_ERR_ARGUMENT, "measured with 3 samples"},
        {"{" HEADER ", \"batch\": 3, \"ops\": [" LINE("conv0", "1", "1") ", " OP("flatten", "1") "]}", CKM_ERR_ARGUMENT,
         "measured with 3 samples"},
        {"{" HEADER ", \"batch\": 3, \"ops\": [" LINE("conv0", "-9", "1") "]}", CKM_ERR_FORMAT, "give no time"},
        {"{" HEADER ", \"batch\": 0, \"ops\": []}", CKM_ERR_FORMAT, "batch: 0 is out of range"},
        {"{" HEADER ", \"ops\": [" OP("conv0", "1") ", " OP("flatten", "1") "]}", CKM_ERR_NOT_FOUND,
         "4 operators of \"linear1\" are missing: predictions, predictions_grad, flatten_grad, conv0_grad"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = NULL;
        assert_int_equal(apply_profile(bad[i].text, &df, &err), bad[i].status);
        if (strstr(err.message, bad[i].word) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", err.message, bad[i].word);
        }
        assert_null(df);
    }
}

static void profiles_that_are_not_there(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    network n = open_network("ResNet50", 1, NULL);
    ckm_cost_model model = {sizeof model, CKM_COST_MODEL_PROFILE, NULL, NULL};
    assert_int_equal(ckm_cost_apply(n.training, &model, &df, &err), CKM_ERR_ARGUMENT);
    model.profile_path = "/nonexistent/profile.json";
    assert_int_equal(ckm_cost_apply(n.training, &model, &df, &err), CKM_ERR_IO);
    assert_string_equal(err.file, "/nonexistent/profile.json");

    // More names than a message holds: as many as fit, and how many more.
    char path[] = "/tmp/ckm-test-profile-XXXXXX";
    int fd = mkstemp(path);
    const char text[] = "{" HEADER ", \"ops\": []}";
    assert_int_equal(write(fd, text, sizeof text - 1), (int)sizeof text - 1);
    assert_int_equal(close(fd), 0);
    model.profile_path = path;
    assert_int_equal(ckm_cost_apply(n.training, &model, &df, &err), CKM_ERR_NOT_FOUND);
    assert_int_equal(unlink(path), 0);
    assert_non_null(strstr(err.message, "352 operators of \"ResNet50\" are missing: conv1_pad, conv1_conv, "));
    const char *rest = strstr(err.message, " and ");
    assert_non_null(rest);
    int listed = 1;
    for (const char *c = err.message; c < rest; c++) {
        listed += *c == ',';
    }
    assert_int_equal(listed + (int)strtol(rest + 5, NULL, 10), 352);
    close_network(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_networks),
        cmocka_unit_test(operator_by_operator),
        cmocka_unit_test(costs_beyond_63_bits),
        cmocka_unit_test(profiles_give_nanoseconds_by_name),
        cmocka_unit_test(lines_give_other_batches),
        cmocka_unit_test(bad_profiles_are_refused),
        cmocka_unit_test(profiles_that_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
