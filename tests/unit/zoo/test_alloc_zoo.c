// SPDX-License-Identifier: Apache-2.0
// Every allocation on the way from a network's name to its dataflow graph fails in turn.
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

#include "alloc_sweep.h"

typedef struct sweep {
    const char *name;
    ckm_cost_model model;
} sweep;

static ckm_status name_to_dataflow(void *user, ckm_error *err)
{
    const sweep *s = user;
    ckm_graph *graph = NULL;
    ckm_training *training = NULL;
    ckm_dataflow *df = NULL;
    ckm_status status = ckm_zoo_build(s->name, 2, NULL, &graph, err);
    assert_true((status == CKM_OK) == (graph != NULL));
    if (status == CKM_OK) {
        status = ckm_autodiff_layer_graph(graph, &training, err);
        assert_true((status == CKM_OK) == (training != NULL));
    }
    if (status == CKM_OK) {
        status = ckm_cost_apply(training, &s->model, &df, err);
        assert_true((status == CKM_OK) == (df != NULL));
    }
    ckm_dataflow_free(df);
    ckm_training_free(training);
    ckm_graph_free(graph);
    return status;
}

static void networks(void **state)
{
    (void)state;
    sweep small = {"test", CKM_COST_MODEL_INIT};
    sweep padded = {"vgg_unet", CKM_COST_MODEL_INIT};
    assert_true(alloc_sweep(name_to_dataflow, &small) > 50);
    assert_true(alloc_sweep(name_to_dataflow, &padded) > 300);
}

static void profiles(void **state)
{
    (void)state;
    static const char text[] =
        "{\"format\": \"checkmate-profile\", \"version\": 1, \"ops\": ["
        "{\"name\": \"flatten\", \"median_ns\": 1}, {\"name\": \"predictions\", \"median_ns\": 2},"
        "{\"name\": \"predictions_grad\", \"median_ns\": 3}, {\"name\": \"flatten_grad\", \"median_ns\": 4}]}";
    char path[] = "/tmp/ckm-test-alloc-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, sizeof text - 1), (int)sizeof text - 1);
    assert_int_equal(close(fd), 0);
    sweep s = {"linear0", {sizeof s.model, CKM_COST_MODEL_PROFILE, path, NULL}};
    alloc_sweep_jansson();
    assert_true(alloc_sweep(name_to_dataflow, &s) > 30);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks),
        cmocka_unit_test(profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
