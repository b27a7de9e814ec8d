// SPDX-License-Identifier: Apache-2.0
// Every allocation on the way from a network to the dataflow graph of its operators fails in turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/zoo.h>

#include "alloc_sweep.h"

typedef struct sweep {
    ckm_graph *graph;
    ckm_autodiff_options options;
} sweep;

static ckm_status network_to_dataflow(void *user, ckm_error *err)
{
    const sweep *s = user;
    ckm_training *training = NULL;
    ckm_dataflow *df = NULL;
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    ckm_status status = ckm_autodiff_op_graph(s->graph, &s->options, &training, err);
    assert_true((status == CKM_OK) == (training != NULL));
    if (status == CKM_OK) {
        status = ckm_cost_apply(training, &model, &df, err);
        assert_true((status == CKM_OK) == (df != NULL));
    }
    ckm_dataflow_free(df);
    ckm_training_free(training);
    return status;
}

static void networks(void **state)
{
    (void)state;
    sweep s = {NULL, CKM_AUTODIFF_OPTIONS_INIT};
    assert_int_equal(ckm_zoo_build("test", 2, NULL, &s.graph, NULL), CKM_OK);
    assert_true(alloc_sweep(network_to_dataflow, &s) > 200);
    s.options.optimizer.kind = CKM_OPTIMIZER_ADAM;
    assert_true(alloc_sweep(network_to_dataflow, &s) > 250);
    ckm_graph_free(s.graph);
}

// With patterns that become one operator.
static void transformers(void **state)
{
    (void)state;
    sweep s = {NULL, CKM_AUTODIFF_OPTIONS_INIT};
    ckm_zoo_size size = CKM_ZOO_SIZE_INIT;
    size.model_width = 8;
    size.depth = 1;
    size.heads = 2;
    size.sequence_length = 4;
    size.vocabulary = 6;
    assert_int_equal(ckm_zoo_build_sized("TinyLlama-1.1B", 2, &size, &s.graph, NULL), CKM_OK);
    assert_true(alloc_sweep(network_to_dataflow, &s) > 200);
    ckm_graph_free(s.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks),
        cmocka_unit_test(transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
