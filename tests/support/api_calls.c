// SPDX-License-Identifier: Apache-2.0
#include "api_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "onnx_builder.h"

const char api_graph_text[] =
    "{\"format\": \"checkmate-graph\", \"version\": 1, \"name\": \"five\","
    " \"tensors\": [{\"bytes\": 4}, {\"bytes\": 8}, {\"bytes\": 8}, {\"bytes\": 1}, {\"bytes\": 8}, {\"bytes\": 8}],"
    " \"ops\": [{\"cost\": 10, \"inputs\": [0], \"outputs\": [1]},"
    "         {\"cost\": 10, \"inputs\": [1], \"outputs\": [2]},"
    "         {\"cost\": 1, \"inputs\": [2], \"outputs\": [3], \"kind\": \"loss\"},"
    "         {\"cost\": 20, \"inputs\": [1, 2, 3], \"outputs\": [4], \"kind\": \"backward\"},"
    "         {\"cost\": 20, \"inputs\": [0, 1, 4], \"outputs\": [5], \"kind\": \"backward\"}],"
    " \"results\": [5]}";

const size_t api_graph_size = sizeof api_graph_text - 1;

bool api_enter(api_visitor *v, const char *name, int n_pointers)
{
    if (v->seen != NULL) {
        v->seen(name, v->user);
    }
    if (v->at++ != v->wanted) {
        return false;
    }
    v->name = name;
    v->n_pointers = n_pointers;
    v->optional = 0;
    v->any_status = false;
    v->gives_status = false;
    v->status = CKM_OK;
    v->right = true;
    return true;
}

void api_visit(api_visitor *v)
{
    ckm_error error = CKM_ERROR_INIT;
    v->at = 0;
    api_visit_base(v);
    api_visit_dataflow(v, &error);
    api_visit_schedule(v, &error);
    api_visit_solve(v, &error);
    api_visit_plan(v, &error);
    api_visit_emit(v, &error);
    api_visit_graph(v, &error);
    api_visit_import(v, &error);
    api_visit_cost(v, &error);
    api_visit_run(v, &error);
    api_visit_session(v, &error);
    api_visit_profile(v, &error);
    api_visit_data(v, &error);
    api_visit_train(v, &error);
    v->error = error;
}

static void good(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("cannot set up: %s", err->message);
    }
}

static void write_model(const char *path)
{
    uint8_t *data = NULL;
    size_t size = 0;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,3,8,8");
    ob_weight(b, "w", "4,3,3,3");
    ob_node(b, "Conv", "x,w", "y");
    ob_output(b, "y");
    ob_pack(b, &data, &size);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    free(data);
    ob_free(b);
}

static void set_up_run(api_world *w, ckm_error *err)
{
    const int64_t shape[3] = {8, 8, 3};
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {.backend = "reference", .threads = 1};
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_session_options session = CKM_SESSION_OPTIONS_INIT;
    ckm_profile_options few = {0, 1, 1.0, NULL, NULL, NULL};
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_train_place place = {.step = 1, .network = "test"};
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    good(ckm_zoo_build("test", 2, shape, &w->graph, err), err);
    good(ckm_autodiff_op_graph(w->graph, &derivation, &w->training, err), err);
    good(ckm_program_create(w->training, &kernels, &w->program, err), err);
    good(ckm_cost_apply(w->training, &flops, &w->step_df, err), err);
    good(ckm_schedule_baseline(w->step_df, &w->step_schedule, err), err);
    good(ckm_plan_create(w->step_df, w->step_schedule, &packing, &w->step_plan, err), err);
    good(ckm_session_create(w->program, w->step_df, w->step_schedule, w->step_plan, &session, &w->session, err), err);
    good(ckm_profile_measure(w->program, w->step_df, w->step_schedule, w->step_plan, &few, &w->profile, err), err);
    good(ckm_train_describe_data(w->training, &w->fields, err), err);
    good(ckm_train_save(w->session, "run.st", &place, err), err);
    good(ckm_profile_write(w->profile, "profile.json", err), err);
}

void api_set_up(api_world *w)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    const ckm_dataflow_tensor tensor = {.name = "x", .bytes = 8, .alias_of = -1};
    good(ckm_dataflow_parse(api_graph_text, api_graph_size, "text", &w->df, &err), &err);
    good(ckm_dataflow_create("open", CKM_COST_FLOPS, 0, &w->open_df, &err), &err);
    good(ckm_dataflow_add_tensor(w->open_df, &tensor, NULL, &err), &err);
    good(ckm_schedule_baseline(w->df, &w->schedule, &err), &err);
    good(ckm_plan_create(w->df, w->schedule, &packing, &w->plan, &err), &err);
    good(ckm_emit_facts_create(w->df, w->schedule, &w->facts, &err), &err);
    good(ckm_dataflow_write(w->df, "graph.json", &err), &err);
    good(ckm_schedule_write(w->schedule, "schedule.json", &err), &err);
    good(ckm_device_write(ckm_device_at(0), "device.json", &err), &err);
    write_model("model.onnx");
    set_up_run(w, &err);
}

void api_tear_down(api_world *w)
{
    ckm_profile_free(w->profile);
    ckm_session_free(w->session);
    ckm_program_free(w->program);
    ckm_plan_free(w->step_plan);
    ckm_schedule_free(w->step_schedule);
    ckm_dataflow_free(w->step_df);
    ckm_training_free(w->training);
    ckm_graph_free(w->graph);
    ckm_emit_facts_free(w->facts);
    ckm_plan_free(w->plan);
    ckm_schedule_free(w->schedule);
    ckm_dataflow_free(w->df);
    ckm_dataflow_free(w->open_df);
}
