// SPDX-License-Identifier: Apache-2.0
// The reference networks exported from torchvision in training form, without weights: parameter counts,
// states and output shapes. Skips, and says so, where the files are not at hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

static const struct {
    const char *name;
    int64_t parameters;
    int32_t ops;
} references[] = {
    // Operators: the nodes of the file without its constants.
    {"resnet18", 11689512, 69}, {"resnet50", 25557032, 175},   {"mobilenet_v2", 3504872, 153},
    {"vgg16", 138357544, 40},   {"densenet121", 7978856, 434}, {"squeezenet1_1", 1235496, 66},
};
enum { N_REFERENCES = sizeof references / sizeof references[0] };

static const char *reference_path(size_t i, char *buf, size_t size)
{
    const char *folder = getenv("CKM_SHARED_DATA_DIR");
#ifdef CKM_SHARED_DATA_DIR
    folder = folder != NULL ? folder : CKM_SHARED_DATA_DIR;
#endif
    snprintf(buf, size, "%s/onnx/%s.onnx", folder != NULL ? folder : "../shared/data", references[i].name);
    return buf;
}

static void skip_without_data(void)
{
    char path[1024];
    if (access(reference_path(0, path, sizeof path), R_OK) != 0) {
        print_message("SKIPPED: %s is not there\n", path);
        skip();
    }
}

static void parameters_are_counted_right(void **state)
{
    (void)state;
    skip_without_data();
    for (size_t i = 0; i < N_REFERENCES; i++) {
        for (int64_t batch = 1; batch <= 32; batch += 31) {
            char path[1024];
            ckm_error err = CKM_ERROR_INIT;
            ckm_graph *g = NULL;
            ckm_import_options options = {.size = sizeof options, .batch = batch};
            if (ckm_import_file(reference_path(i, path, sizeof path), &options, &g, &err) != CKM_OK) {
                fail_msg("%s: %s", path, err.message);
            }
            assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_PARAMETER), references[i].parameters);
            assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_INPUT), batch * 3 * 224 * 224);
            assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_CONSTANT), 0);
            assert_int_equal(ckm_graph_op_count(g), references[i].ops);
            ckm_graph_op_info last = ckm_graph_get_op(g, references[i].ops - 1);
            ckm_graph_tensor_info result = ckm_graph_get_tensor(g, last.outputs[0]);
            assert_int_equal(result.shape.rank, 2);
            assert_int_equal(result.shape.dims[0], batch);
            assert_int_equal(result.shape.dims[1], 1000);
            ckm_graph_free(g);
        }
    }
}

// n operators give 2n+1; cost and bytes are proportional to the batch.
static void layer_graphs_scale_with_the_batch(void **state)
{
    (void)state;
    skip_without_data();
    for (size_t i = 0; i < N_REFERENCES; i++) {
        int64_t costs[2];
        for (int k = 0; k < 2; k++) {
            char path[1024];
            ckm_error err = CKM_ERROR_INIT;
            ckm_graph *g = NULL;
            ckm_training *training = NULL;
            ckm_dataflow *df = NULL;
            ckm_import_options options = {.size = sizeof options, .batch = k == 0 ? 1 : 7};
            ckm_cost_model model = CKM_COST_MODEL_INIT;
            assert_int_equal(ckm_import_file(reference_path(i, path, sizeof path), &options, &g, &err), CKM_OK);
            assert_int_equal(ckm_autodiff_layer_graph(g, &training, &err), CKM_OK);
            assert_int_equal(ckm_cost_apply(training, &model, &df, &err), CKM_OK);
            assert_int_equal(ckm_dataflow_op_count(df), 2 * references[i].ops + 1);
            costs[k] = ckm_dataflow_total_cost(df);
            ckm_dataflow_free(df);
            ckm_training_free(training);
            ckm_graph_free(g);
        }
        assert_true(costs[0] > 0);
        assert_int_equal(costs[1], 7 * costs[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_counted_right),
        cmocka_unit_test(layer_graphs_scale_with_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
