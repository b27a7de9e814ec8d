// SPDX-License-Identifier: Apache-2.0
// Training saved by a program whose locale has another decimal point than that of the program that goes on: the optimizer
// was described in the file by the locale's numbers, so it seemed to be another one. Where the point has two bytes, as in ps_AF,
// reading any file with a real number ended the process.
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

#include "point_locale.h"
#include "scratch.h"

static ckm_graph *small_network(void)
{
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("small", 4, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 1, (const int64_t[]){8});
    x = ckm_network_dense(net, x, NULL, 3, NULL);
    assert_int_equal(ckm_network_finish(net, x, &graph, NULL), CKM_OK);
    ckm_network_free(net);
    return graph;
}

static void train_to(const ckm_graph *graph, const char *resume, int64_t step, const char *path)
{
    const ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 16};
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    ckm_trainer *trainer = NULL;
    ckm_error err = CKM_ERROR_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    options.resume = resume;
    course.last_step = step;
    if (ckm_trainer_open(graph, &options, &trainer, &err) != CKM_OK ||
        ckm_trainer_run(trainer, &course, &result, &err) != CKM_OK || ckm_trainer_save(trainer, path, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    ckm_trainer_close(trainer);
}

static void training_goes_on_in_another_locale(void **state)
{
    const char *path = "state";
    scratch_stay stay;
    ckm_graph *graph = small_network();
    (void)state;
    scratch_enter(&stay);
    train_to(graph, NULL, 1, path);
    static const char *const points[] = {POINT_COMMA, POINT_PASHTO};
    int64_t step = 1;
    bool there = true;
    for (size_t i = 0; i < sizeof points / sizeof points[0] && there; i++) {
        there = point_locale(stay.folder, points[i]);
        if (there) {
            train_to(graph, path, ++step, path);
            assert_non_null(setlocale(LC_NUMERIC, "C"));
            train_to(graph, path, ++step, path);
        }
    }
    ckm_graph_free(graph);
    scratch_leave(&stay);
    if (!there) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(training_goes_on_in_another_locale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
