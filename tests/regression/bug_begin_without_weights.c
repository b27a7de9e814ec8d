// SPDX-License-Identifier: Apache-2.0
// A trainer whose weights could not be read kept its session: the next call trained from other parameters than those asked
// for, and beginning again was refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

static void nothing_trains_without_its_weights(void **state)
{
    const ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 16};
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    ckm_trainer *trainer = NULL;
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    ckm_error err = CKM_ERROR_INIT;
    (void)state;
    assert_int_equal(ckm_network_create("small", 4, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 1, (const int64_t[]){8});
    assert_int_equal(ckm_network_finish(net, ckm_network_dense(net, x, NULL, 3, NULL), &graph, NULL), CKM_OK);
    ckm_network_free(net);
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    options.weights = "there is no such file.safetensors";
    course.last_step = 1;
    assert_int_equal(ckm_trainer_plan(graph, &options, &trainer, NULL), CKM_OK);
    for (int attempt = 0; attempt < 2; attempt++) {
        assert_int_equal(ckm_trainer_begin(trainer, &err), CKM_ERR_IO);
        assert_string_equal(err.file, options.weights);
        assert_null(ckm_trainer_session(trainer));
    }
    assert_int_equal(ckm_trainer_run(trainer, &course, &result, &err), CKM_ERR_ARGUMENT);
    ckm_trainer_close(trainer);
    ckm_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_trains_without_its_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
