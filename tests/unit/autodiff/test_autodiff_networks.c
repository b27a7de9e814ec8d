// SPDX-License-Identifier: Apache-2.0
// Every network of the zoo, and the reference ONNX files where they are, as an operator-level training graph: what holds
// for all of them, and that the run without rematerialization is a legal schedule.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/import.h>
#include <checkmate/schedule.h>
#include <checkmate/zoo.h>

#include "graph/training.h"

#ifndef CKM_SHARED_DATA_DIR
#define CKM_SHARED_DATA_DIR "../shared/data"
#endif

static int32_t update_of(const ckm_training *t, int32_t parameter)
{
    for (int32_t v = 0; v < t->n_ops; v++) {
        if (t->ops[v].phase == CKM_I_UPDATE && t->ops[v].inputs[0] == parameter) {
            return v;
        }
    }
    return -1;
}

// Every parameter is updated once, behind all its readers, from a gradient of its own shape.
static void check_updates(const char *name, const ckm_training *t)
{
    for (int32_t i = 0; i < t->n_values; i++) {
        if (t->step->tensors[i].role != CKM_ROLE_PARAMETER) {
            continue;
        }
        int32_t update = update_of(t, i);
        if (update < 0) {
            fail_msg("%s: parameter %s is never updated", name, t->values[i].name);
        }
        assert_int_equal(t->values[t->ops[update].inputs[1]].bytes, t->values[i].bytes);
        for (int32_t v = update + 1; v < t->n_ops; v++) {
            for (int32_t k = 0; k < t->ops[v].n_inputs; k++) {
                if (t->ops[v].inputs[k] == i) {
                    fail_msg("%s: %s reads %s after its update", name, t->ops[v].name, t->values[i].name);
                }
            }
        }
    }
}

// Every computed value has a reader, but for results and statistics on the side.
static void check_no_waste(const char *name, const ckm_training *t)
{
    bool *used = calloc((size_t)t->n_values, sizeof *used);
    assert_non_null(used);
    for (int32_t v = 0; v < t->n_ops; v++) {
        for (int32_t k = 0; k < t->ops[v].n_inputs; k++) {
            used[t->ops[v].inputs[k]] = true;
        }
    }
    for (int32_t i = 0; i < t->n_results; i++) {
        used[t->results[i]] = true;
    }
    for (int32_t v = 0; v < t->n_ops; v++) {
        if (t->ops[v].n_outputs > 0 && !used[t->ops[v].outputs[0]] && strstr(t->ops[v].name, ":grad_x") == NULL) {
            fail_msg("%s: nothing reads %s", name, t->ops[v].name);
        }
    }
    free(used);
}

static void check_dataflow(const char *name, const ckm_training *t)
{
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_schedule *baseline = NULL;
    ckm_simulation facts;
    ckm_verdict verdict;
    if (ckm_cost_apply(t, &model, &df, &err) != CKM_OK || ckm_schedule_baseline(df, &baseline, &err) != CKM_OK ||
        ckm_schedule_simulate(df, baseline, NULL, &facts, &err) != CKM_OK ||
        ckm_schedule_verify(df, baseline, facts.peak_bytes, &verdict, &err) != CKM_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    if (!verdict.ok) {
        fail_msg("%s: %s", name, verdict.why);
    }
    assert_true(facts.peak_bytes >= ckm_dataflow_memory_floor(df));
    assert_int_equal(facts.cost, ckm_dataflow_total_cost(df));
    ckm_schedule_free(baseline);
    ckm_dataflow_free(df);
}

static void check_network(const char *name, const ckm_graph *g)
{
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_autodiff_op_graph(g, &options, &t, &err) != CKM_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    int32_t n = t->n_ops;
    check_no_waste(name, t);
    check_dataflow(name, t);
    ckm_training_free(t);
    options.optimizer.kind = CKM_OPTIMIZER_ADAMW;
    for (int fused = 0; fused < 2; fused++) {
        options.late_updates = fused == 0;
        if (ckm_autodiff_op_graph(g, &options, &t, &err) != CKM_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        assert_true(t->n_ops > n);
        check_updates(name, t);
        check_dataflow(name, t);
        ckm_training_free(t);
    }
}

static void the_zoo(void **state)
{
    (void)state;
    assert_true(ckm_zoo_count() >= 40);
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        // Chains of one to 31 layers of the same kind: three of them are enough.
        const char *name = ckm_zoo_name(i);
        if (strncmp(name, "linear", 6) == 0 && strcmp(name, "linear0") != 0 && strcmp(name, "linear3") != 0 &&
            strcmp(name, "linear31") != 0) {
            continue;
        }
        ckm_graph *g = NULL;
        ckm_error err = CKM_ERROR_INIT;
        if (ckm_zoo_build(name, 1, NULL, &g, &err) != CKM_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        check_network(name, g);
        ckm_graph_free(g);
    }
}

static void the_reference_files(void **state)
{
    (void)state;
    static const char *const names[] = {"densenet121", "mobilenet_v2",  "resnet18",
                                        "resnet50",    "squeezenet1_1", "vgg16"};
    const char *folder = getenv("CKM_SHARED_DATA_DIR");
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[4096];
        ckm_graph *g = NULL;
        ckm_error err = CKM_ERROR_INIT;
        snprintf(path, sizeof path, "%s/onnx/%s.onnx", folder != NULL ? folder : CKM_SHARED_DATA_DIR, names[i]);
        if (access(path, R_OK) != 0) {
            print_message("SKIP: %s is not there\n", path);
            continue;
        }
        ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
        if (ckm_import_file(path, &options, &g, &err) != CKM_OK) {
            fail_msg("%s: %s", path, err.message);
        }
        check_network(names[i], g);
        ckm_graph_free(g);
        n++;
    }
    if (n == 0) {
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_zoo),
        cmocka_unit_test(the_reference_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
