// SPDX-License-Identifier: Apache-2.0
#include "api_calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"

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

// An ONNX model of one convolution: input x of 2x3x8x8, weight w of 4x3x3x3 without values.
static const unsigned char model_bytes[] = {
    0x08, 0x08, 0x12, 0x04, 0x74, 0x65, 0x73, 0x74, 0x3a, 0x4d, 0x0a, 0x17, 0x0a, 0x01, 0x78, 0x0a, 0x01, 0x77, 0x12,
    0x01, 0x79, 0x1a, 0x06, 0x79, 0x5f, 0x6e, 0x6f, 0x64, 0x65, 0x22, 0x04, 0x43, 0x6f, 0x6e, 0x76, 0x12, 0x03, 0x6e,
    0x65, 0x74, 0x2a, 0x0b, 0x0a, 0x04, 0x04, 0x03, 0x03, 0x03, 0x10, 0x01, 0x42, 0x01, 0x77, 0x5a, 0x1b, 0x0a, 0x01,
    0x78, 0x12, 0x16, 0x0a, 0x14, 0x08, 0x01, 0x12, 0x10, 0x0a, 0x02, 0x08, 0x02, 0x0a, 0x02, 0x08, 0x03, 0x0a, 0x02,
    0x08, 0x08, 0x0a, 0x02, 0x08, 0x08, 0x62, 0x03, 0x0a, 0x01, 0x79, 0x42, 0x02, 0x10, 0x0d,
};

// Keeps the first call that failed where all are made.
static void settle(api_visitor *v)
{
    bool fails = v->gives_status && v->status != CKM_OK && !v->any_status;
    if (v->failed == NULL && (fails || !v->right)) {
        v->failed = v->name;
        v->failed_status = fails ? v->status : CKM_OK;
        v->failed_error = v->error;
    }
}

bool api_enter(api_visitor *v, const char *name, int n_pointers)
{
    if (v->seen != NULL) {
        v->seen(name, v->user);
    }
    if (v->wanted == API_EVERY) {
        settle(v);
    } else if (v->at++ != v->wanted) {
        return false;
    }
    v->name = name;
    v->n_pointers = n_pointers;
    v->optional = 0;
    v->any_status = false;
    v->gives_status = false;
    v->status = CKM_OK;
    v->error = (ckm_error)CKM_ERROR_INIT;
    v->right = true;
    return true;
}

bool api_prepares(api_visitor *v, const char *name, ckm_status status)
{
    if (status != CKM_OK && v->failed == NULL) {
        v->failed = name;
        v->failed_status = status;
        v->failed_error = v->error;
    }
    return status == CKM_OK || v->seen != NULL;  // a list has all of them
}

void api_visit(api_visitor *v)
{
    v->at = 0;
    v->right = true;
    api_visit_base(v);
    api_visit_dataflow(v, &v->error);
    api_visit_schedule(v, &v->error);
    api_visit_solve(v, &v->error);
    api_visit_plan(v, &v->error);
    api_visit_emit(v, &v->error);
    api_visit_graph(v, &v->error);
    api_visit_import(v, &v->error);
    api_visit_cost(v, &v->error);
    api_visit_run(v, &v->error);
    api_visit_session(v, &v->error);
    api_visit_profile(v, &v->error);
    api_visit_data(v, &v->error);
    api_visit_train(v, &v->error);
    api_visit_network(v, &v->error);
    api_visit_trainer(v, &v->error);
    settle(v);
}

static ckm_status write_model(const char *path, ckm_error *err)
{
    ckm_i_writer w;
    CKM_I_CHECK(ckm_i_writer_open(&w, path, err));
    fwrite(model_bytes, 1, sizeof model_bytes, w.stream);
    return ckm_i_writer_commit(&w, err);
}

static ckm_status set_up_run(api_world *w, ckm_error *err)
{
    const int64_t shape[3] = {8, 8, 3};
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_session_options session = CKM_SESSION_OPTIONS_INIT;
    ckm_profile_options few = {sizeof few, 0, 1, 1.0, NULL, NULL, NULL};
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_train_place place = {.step = 1, .network = "test"};
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    CKM_I_CHECK(ckm_zoo_build("test", 2, shape, &w->graph, err));
    CKM_I_CHECK(ckm_autodiff_op_graph(w->graph, &derivation, &w->training, err));
    CKM_I_CHECK(ckm_program_create(w->training, &kernels, &w->program, err));
    CKM_I_CHECK(ckm_cost_apply(w->training, &flops, &w->step_df, err));
    CKM_I_CHECK(ckm_schedule_baseline(w->step_df, &w->step_schedule, err));
    CKM_I_CHECK(ckm_plan_create(w->step_df, w->step_schedule, &packing, &w->step_plan, err));
    CKM_I_CHECK(ckm_session_create(w->program, w->step_df, w->step_schedule, w->step_plan, &session, &w->session, err));
    CKM_I_CHECK(ckm_profile_measure(w->program, w->step_df, w->step_schedule, w->step_plan, &few, &w->profile, err));
    CKM_I_CHECK(ckm_train_describe_data(w->training, &w->fields, err));
    CKM_I_CHECK(ckm_train_save(w->session, "run.st", &place, err));
    CKM_I_CHECK(ckm_profile_write(w->profile, "profile.json", err));
    return CKM_OK;
}

ckm_status api_set_up(api_world *w, ckm_error *err)
{
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    const ckm_dataflow_tensor tensor = {.name = "x", .bytes = 8, .alias_of = -1};
    CKM_I_CHECK(ckm_dataflow_parse(api_graph_text, api_graph_size, "text", &w->df, err));
    CKM_I_CHECK(ckm_dataflow_create("open", CKM_COST_NS, 0, &w->open_df, err));
    CKM_I_CHECK(ckm_dataflow_add_tensor(w->open_df, &tensor, NULL, err));
    CKM_I_CHECK(ckm_schedule_baseline(w->df, &w->schedule, err));
    CKM_I_CHECK(ckm_plan_create(w->df, w->schedule, &packing, &w->plan, err));
    CKM_I_CHECK(ckm_schedule_baseline(w->df, &w->drawn, err));  // the other one is appended to
    CKM_I_CHECK(ckm_emit_facts_create(w->df, w->drawn, &w->facts, err));
    CKM_I_CHECK(ckm_dataflow_write(w->df, "graph.json", err));
    CKM_I_CHECK(ckm_schedule_write(w->schedule, "schedule.json", err));
    CKM_I_CHECK(ckm_device_write(ckm_device_at(0), "device.json", err));
    CKM_I_CHECK(write_model("model.onnx", err));
    return set_up_run(w, err);
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
    ckm_schedule_free(w->drawn);
    ckm_plan_free(w->plan);
    ckm_schedule_free(w->schedule);
    ckm_dataflow_free(w->df);
    ckm_dataflow_free(w->open_df);
}
