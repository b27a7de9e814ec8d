// SPDX-License-Identifier: Apache-2.0
// Calls of what plans: graphs, schedules, solvers, figures, networks, costs.
#include "api_calls.h"

#include <stdio.h>
#include <stdlib.h>

void api_visit_base(api_visitor *v)
{
    FILE *nowhere = fopen("/dev/null", "w");
    VALUE(ckm_status_name, 0, ckm_status_name((ckm_status)99) != NULL && ckm_status_name((ckm_status)-1) != NULL)
    VALUE(ckm_version, 0, strcmp(ckm_version(), CKM_VERSION_STRING) == 0)
    VALUE(ckm_host_free_bytes, 0, ckm_host_free_bytes() >= -1)
    VALUE(ckm_struct_size, 1, ckm_struct_size(P(0, "ckm_step")) == (NULLED(0) ? 0 : sizeof(ckm_step)))
    STATUS(ckm_file_replace, 3, 0, ckm_file_replace(P(0, "out.txt"), P(1, "text"), 4, P(2, &v->error)))
    STATUS(ckm_file_check_output, 2, 0, ckm_file_check_output(P(0, "out.txt"), P(1, &v->error)))
    DONE(ckm_json_write_text, 2, ckm_json_write_text(P(0, nowhere), P(1, "text")))
    DONE(ckm_json_write_number, 1, ckm_json_write_number(P(0, nowhere), 0.5))
    if (nowhere != NULL) {
        fclose(nowhere);
    }
}

void api_visit_dataflow(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_dataflow *made = NULL;
    const int32_t zero = 0;
    int32_t index = 0;
    ckm_dataflow_tensor tensor = {.name = "x", .bytes = 1, .alias_of = -1};
    ckm_dataflow_op op = {.name = "o", .n_outputs = 1, .outputs = &zero};
    STATUS(ckm_dataflow_create, 3, 1, ckm_dataflow_create(P(0, "g"), CKM_COST_NS, 0, P(1, &made), P(2, err)))
    DONE(ckm_dataflow_free, 1, ckm_dataflow_free(NULL))
    STATUS(ckm_dataflow_add_tensor, 4, 4,
           ckm_dataflow_add_tensor(P(0, w->open_df), P(1, &tensor), P(2, &index), P(3, err)))
    STATUS(ckm_dataflow_add_op, 4, 4, ckm_dataflow_add_op(P(0, w->open_df), P(1, &op), P(2, &index), P(3, err)))
    op.outputs = NULL;
    TRIES(ckm_dataflow_add_op, 1, 0, ckm_dataflow_add_op(w->open_df, &op, NULL, P(0, err)))
    STATUS(ckm_dataflow_add_result, 2, 0, ckm_dataflow_add_result(P(0, w->open_df), 0, P(1, err)))
    ckm_second_memory second = {.bytes = -1, .out_bytes_per_second = 1, .in_bytes_per_second = 1};
    STATUS(ckm_dataflow_set_second_memory, 3, 0,
           ckm_dataflow_set_second_memory(P(0, w->open_df), P(1, &second), P(2, err)))
    TRIES(ckm_dataflow_finish, 2, 0, ckm_dataflow_finish(P(0, w->open_df), P(1, err)))
    VALUE(ckm_dataflow_name, 1, strcmp(ckm_dataflow_name(P(0, w->df)), NULLED(0) ? "" : "five") == 0)
    VALUE(ckm_dataflow_cost_unit, 1, ckm_dataflow_cost_unit(P(0, w->df)) == CKM_COST_FLOPS)
    VALUE(ckm_dataflow_fixed_bytes, 1, ckm_dataflow_fixed_bytes(P(0, w->df)) == 0)
    VALUE(ckm_dataflow_op_count, 1, ckm_dataflow_op_count(P(0, w->df)) == (NULLED(0) ? 0 : 5))
    VALUE(ckm_dataflow_tensor_count, 1, ckm_dataflow_tensor_count(P(0, w->df)) == (NULLED(0) ? 0 : 6))
    VALUE(ckm_dataflow_result_count, 1, ckm_dataflow_result_count(P(0, w->df)) == (NULLED(0) ? 0 : 1))
    VALUE(ckm_dataflow_get_op, 1, ckm_dataflow_get_op(P(0, w->df), 0).cost == (NULLED(0) ? 0 : 10))
    VALUE(ckm_dataflow_get_op, 1, ckm_dataflow_get_op(P(0, w->df), 5).n_inputs == 0)
    VALUE(ckm_dataflow_get_tensor, 1, ckm_dataflow_get_tensor(P(0, w->df), 0).bytes == (NULLED(0) ? 0 : 4))
    VALUE(ckm_dataflow_get_tensor, 1, ckm_dataflow_get_tensor(P(0, w->df), -1).name[0] == '\0')
    VALUE(ckm_dataflow_get_result, 1, ckm_dataflow_get_result(P(0, w->df), 0) == (NULLED(0) ? -1 : 5))
    VALUE(ckm_dataflow_get_result, 1, ckm_dataflow_get_result(P(0, w->df), 1) == -1)
    VALUE(ckm_dataflow_producer, 1, ckm_dataflow_producer(P(0, w->df), 1) == (NULLED(0) ? -1 : 0))
    VALUE(ckm_dataflow_producer, 1, ckm_dataflow_producer(P(0, w->df), 1000000) == -1)
    VALUE(ckm_dataflow_edge_count, 1, ckm_dataflow_edge_count(P(0, w->df)) == (NULLED(0) ? 0 : 7))
    VALUE(ckm_dataflow_total_cost, 1, ckm_dataflow_total_cost(P(0, w->df)) == (NULLED(0) ? 0 : 61))
    VALUE(ckm_dataflow_memory_floor, 1, (ckm_dataflow_memory_floor(P(0, w->df)) > 0) == !NULLED(0))
    VALUE(ckm_dataflow_standing_bytes, 1, (ckm_dataflow_standing_bytes(P(0, w->df)) > 0) == !NULLED(0))
    TRIES(ckm_dataflow_set_second_memory, 1, 0, ckm_dataflow_set_second_memory(w->df, &second, P(0, err)))
    VALUE(ckm_dataflow_get_second_memory, 2, !ckm_dataflow_get_second_memory(P(0, w->df), P(1, &second)))
    STATUS(ckm_dataflow_read, 3, 0, ckm_dataflow_read(P(0, "graph.json"), P(1, &made), P(2, err)))
    STATUS(ckm_dataflow_parse, 4, 2,
           ckm_dataflow_parse(P(0, api_graph_text), api_graph_size, P(1, "text"), P(2, &made), P(3, err)))
    TRIES(ckm_dataflow_parse, 2, 1, ckm_dataflow_parse("{", 1, P(0, "text"), &made, P(1, err)))
    STATUS(ckm_dataflow_write, 3, 0, ckm_dataflow_write(P(0, w->df), P(1, "out.json"), P(2, err)))
}

void api_visit_schedule(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_schedule *made = NULL;
    ckm_simulation facts;
    ckm_verdict verdict;
    int64_t timeline[64];
    ckm_step step = {.kind = CKM_STEP_COMPUTE, .index = 0};
    ckm_schedule_info info = {.graph = "five"};
    const char *text = "{\"format\": \"checkmate-schedule\", \"version\": 1, \"steps\": [[\"compute\", 0]]}";
    STATUS(ckm_schedule_create, 2, 0, ckm_schedule_create(P(0, &made), P(1, err)))
    DONE(ckm_schedule_free, 1, ckm_schedule_free(NULL))
    STATUS(ckm_schedule_append, 3, 0, ckm_schedule_append(P(0, w->schedule), P(1, &step), P(2, err)))
    step.n_inplace = 1;
    TRIES(ckm_schedule_append, 1, 0, ckm_schedule_append(w->schedule, &step, P(0, err)))
    VALUE(ckm_schedule_step_count, 1, (ckm_schedule_step_count(P(0, w->schedule)) >= 5) == !NULLED(0))
    VALUE(ckm_schedule_transfer_count, 1, ckm_schedule_transfer_count(P(0, w->schedule)) == 0)
    VALUE(ckm_schedule_get_step, 1, ckm_schedule_get_step(P(0, w->schedule), 0).index == (NULLED(0) ? -1 : 0))
    VALUE(ckm_schedule_get_step, 1, ckm_schedule_get_step(P(0, w->schedule), -5).index == -1)
    VALUE(ckm_schedule_get_info, 1, (ckm_schedule_get_info(P(0, w->schedule)) == NULL) == NULLED(0))
    DONE(ckm_schedule_set_info, 2, ckm_schedule_set_info(P(0, w->schedule), P(1, &info)))
    STATUS(ckm_schedule_baseline, 3, 0, ckm_schedule_baseline(P(0, w->df), P(1, &made), P(2, err)))
    TRIES(ckm_schedule_baseline, 1, 0, ckm_schedule_baseline(w->open_df, &made, P(0, err)))
    STATUS(ckm_schedule_simulate, 5, 4,
           ckm_schedule_simulate(P(0, w->df), P(1, w->schedule), P(2, timeline), P(3, &facts), P(4, err)))
    STATUS(ckm_schedule_verify, 4, 0,
           ckm_schedule_verify(P(0, w->df), P(1, w->schedule), -1, P(2, &verdict), P(3, err)))
    TRIES(ckm_schedule_verify, 1, 0, ckm_schedule_verify(w->open_df, w->schedule, -1, &verdict, P(0, err)))
    STATUS(ckm_schedule_read, 3, 0, ckm_schedule_read(P(0, "schedule.json"), P(1, &made), P(2, err)))
    TRIES(ckm_schedule_parse, 4, 2, ckm_schedule_parse(P(0, text), strlen(text), P(1, "text"), P(2, &made), P(3, err)))
    STATUS(ckm_schedule_write, 3, 0, ckm_schedule_write(P(0, w->schedule), P(1, "out.json"), P(2, err)))
}

static ckm_status build_five(int64_t batch, void *user, ckm_dataflow **out, ckm_error *err)
{
    (void)batch;
    (void)user;
    return ckm_dataflow_parse(api_graph_text, api_graph_size, "text", out, err);
}

void api_visit_solve(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result = {0};
    ckm_min_budget_result least = {0};
    ckm_max_batch_options batches = CKM_MAX_BATCH_OPTIONS_INIT;
    ckm_max_batch_result largest = {0};
    int64_t floor_bytes = 0;
    options.budget_bytes = 30;
    options.time_limit_seconds = 2;
    batches.memory_bytes = 20;  // no batch fits: the graph does not grow with it
    batches.solve = &options;
    STATUS(ckm_solve, 4, 0, ckm_solve(P(0, w->df), P(1, &options), P(2, &result), P(3, err)))
    TRIES(ckm_solve, 1, 0, ckm_solve(w->open_df, &options, &result, P(0, err)))
    STATUS(ckm_solve_frontier, 5, 0,
           ckm_solve_frontier(P(0, w->df), P(1, &options), P(2, &options.budget_bytes), 1, P(3, &result), P(4, err)))
    DONE(ckm_solve_result_dispose, 1, ckm_solve_result_dispose(P(0, &result)))
    VALUE(ckm_solve_strategy_count, 0, ckm_solve_strategy_count() > 0)
    VALUE(ckm_solve_strategy_name, 0, ckm_solve_strategy_name(-1) == NULL && ckm_solve_strategy_name(1000) == NULL)
    VALUE(ckm_solve_strategy_summary, 0, ckm_solve_strategy_summary(-1) == NULL)
    VALUE(ckm_solve_strategy_has, 0, !ckm_solve_strategy_has(-1, CKM_STRATEGY_PUBLISHED))
    VALUE(ckm_solve_component_count, 0, ckm_solve_component_count() > 0)
    VALUE(ckm_solve_component_name, 0, ckm_solve_component_name(-1) == NULL && ckm_solve_component_name(1000) == NULL)
    VALUE(ckm_solve_component_summary, 0, ckm_solve_component_summary(-1) == NULL)
    VALUE(ckm_solve_component_kind, 0, ckm_solve_component_kind(-1) == CKM_COMPONENT_REDUCES)
    STATUS(ckm_min_budget, 4, 0, ckm_min_budget(P(0, w->df), P(1, &options), NULL, P(2, &least), P(3, err)))
    TRIES(ckm_min_budget, 1, 0, ckm_min_budget(w->open_df, &options, NULL, &least, P(0, err)))
    DONE(ckm_min_budget_result_dispose, 1, ckm_min_budget_result_dispose(P(0, &least)))
    STATUS(ckm_min_budget_floor, 3, 0, ckm_min_budget_floor(P(0, w->df), P(1, &floor_bytes), P(2, err)))
    TRIES(ckm_min_budget_floor, 1, 0, ckm_min_budget_floor(w->open_df, &floor_bytes, P(0, err)))
    STATUS(ckm_max_batch, 4, 0, ckm_max_batch(P(0, &batches), P(1, build_five), P(2, &largest), P(3, err)))
    DONE(ckm_max_batch_result_dispose, 1, ckm_max_batch_result_dispose(P(0, &largest)))
}

void api_visit_plan(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_plan *made = NULL;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_plan_verdict verdict;
    int32_t inputs[8];
    int32_t outputs[8];
    int32_t workspace = 0;
    STATUS(ckm_plan_create, 5, 0,
           ckm_plan_create(P(0, w->df), P(1, w->schedule), P(2, &options), P(3, &made), P(4, err)))
    TRIES(ckm_plan_create, 1, 0, ckm_plan_create(w->open_df, w->schedule, &options, &made, P(0, err)))
    DONE(ckm_plan_free, 1, ckm_plan_free(NULL))
    VALUE(ckm_plan_get_info, 1, (ckm_plan_get_info(P(0, w->plan)) == NULL) == NULLED(0))
    VALUE(ckm_plan_instance_count, 1, (ckm_plan_instance_count(P(0, w->plan)) == 0) == NULLED(0))
    VALUE(ckm_plan_get_instance, 1, (ckm_plan_get_instance(P(0, w->plan), 0).op == -1) == NULLED(0))
    VALUE(ckm_plan_get_instance, 1, ckm_plan_get_instance(P(0, w->plan), 100000).op == -1)
    DONE(ckm_plan_get_step, 4, ckm_plan_get_step(P(0, w->plan), 0, P(1, inputs), P(2, outputs), P(3, &workspace)))
    DONE(ckm_plan_get_step, 1, ckm_plan_get_step(P(0, w->plan), -1, inputs, outputs, &workspace))
    STATUS(ckm_plan_verify, 5, 0,
           ckm_plan_verify(P(0, w->df), P(1, w->schedule), P(2, w->plan), 64, P(3, &verdict), P(4, err)))
    STATUS(ckm_plan_write, 4, 0, ckm_plan_write(P(0, w->df), P(1, w->plan), P(2, "out.json"), P(3, err)))
}

void api_visit_emit(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_emit_facts *made = NULL;
    ckm_emit_times *times = NULL;
    const ckm_emit_way way = {"another", NULL, 1, 1};
    const ckm_emit_recipe recipe = {"title", "code", NULL};
    const ckm_emit_words words = {.n_ways = 1, .n_recipes = 1, .ways = &way, .recipes = &recipe};
    const ckm_emit_words wordless = {.n_ways = 1};
    const ckm_emit_sweep_row sweep_rows[1] = {{1000, 0.5, 0.1, CKM_BOUND_ANY}};
    const ckm_emit_sweep_curve sweep_curve = {"curve", true, 1, sweep_rows};
    const ckm_emit_sweep_curve rowless = {"curve", true, 1, NULL};
    const ckm_emit_sweep_curve nameless = {NULL, true, 1, sweep_rows};
    const ckm_emit_progress points[2] = {{1, 0.5, 0.1}, {2, 0.4, 0.2}};
    STATUS(ckm_emit_facts_create, 4, 0, ckm_emit_facts_create(P(0, w->df), P(1, w->schedule), P(2, &made), P(3, err)))
    TRIES(ckm_emit_facts_create, 1, 0, ckm_emit_facts_create(w->open_df, w->schedule, &made, P(0, err)))
    DONE(ckm_emit_facts_free, 1, ckm_emit_facts_free(NULL))
    STATUS(ckm_emit_times_create, 3, 0, ckm_emit_times_create(P(0, w->facts), P(1, &times), P(2, err)))
    ckm_emit_times_free(times);
    DONE(ckm_emit_times_free, 1, ckm_emit_times_free(NULL))
    VALUE(ckm_emit_class_name, 0, ckm_emit_class_name((ckm_emit_class)99)[0] == '\0')
    VALUE(ckm_emit_figure_count, 0, ckm_emit_figure_count() > 0)
    VALUE(ckm_emit_figure_name, 0, ckm_emit_figure_name(-1) == NULL && ckm_emit_figure_name(99) == NULL)
    VALUE(ckm_emit_figure_summary, 0, ckm_emit_figure_summary(-1) == NULL)
    TRIES(ckm_emit_figure, 4, 0, ckm_emit_figure(P(0, w->facts), P(1, "memory"), P(2, "out.svg"), P(3, err)))
    STATUS(ckm_emit_page, 5, 2 | 4,
           ckm_emit_page(P(0, w->facts), P(1, "g.json"), P(2, "s.json"), P(3, "out.html"), P(4, err)))
    STATUS(ckm_emit_page_with, 4, 2, ckm_emit_page_with(P(0, w->facts), P(1, &words), P(2, "out.html"), P(3, err)))
    TRIES(ckm_emit_page_with, 1, 0, ckm_emit_page_with(w->facts, &wordless, "out.html", P(0, err)))
    STATUS(ckm_emit_dot, 3, 0, ckm_emit_dot(P(0, w->df), P(1, "out.dot"), P(2, err)))
    TRIES(ckm_emit_graph_figure, 3, 0, ckm_emit_graph_figure(P(0, w->df), P(1, "out.svg"), P(2, err)))
    TRIES(ckm_emit_network_figure, 3, 0, ckm_emit_network_figure(P(0, w->graph), P(1, "out.svg"), P(2, err)))
    TRIES(ckm_emit_training_figure, 3, 0, ckm_emit_training_figure(P(0, "log.jsonl"), P(1, "out.svg"), P(2, err)))
    TRIES(ckm_emit_sweep_figure, 4, 0,
          ckm_emit_sweep_figure(P(0, "title"), P(1, &sweep_curve), 1, P(2, "out.svg"), P(3, err)))
    TRIES(ckm_emit_sweep_figure, 1, 0, ckm_emit_sweep_figure("title", &rowless, 1, "out.svg", P(0, err)))
    TRIES(ckm_emit_sweep_figure, 1, 0, ckm_emit_sweep_figure("title", &nameless, 1, "out.svg", P(0, err)))
    TRIES(ckm_emit_course_figure, 4, 0,
          ckm_emit_course_figure(P(0, "title"), P(1, points), 2, CKM_BOUND_ANY, P(2, "out.svg"), P(3, err)))
    TRIES(ckm_emit_progress_figure, 4, 0,
          ckm_emit_progress_figure(P(0, "title"), P(1, points), 2, P(2, "out.svg"), P(3, err)))
}

void api_visit_graph(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_graph *made = NULL;
    ckm_training *derived = NULL;
    ckm_zoo_size size = CKM_ZOO_SIZE_INIT;
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    const int64_t shape[3] = {8, 8, 3};
    DONE(ckm_graph_free, 1, ckm_graph_free(NULL))
    DONE(ckm_training_free, 1, ckm_training_free(NULL))
    VALUE(ckm_graph_name, 1, strcmp(ckm_graph_name(P(0, w->graph)), NULLED(0) ? "" : "test") == 0)
    VALUE(ckm_graph_layout, 1, ckm_graph_layout(P(0, w->graph)) == CKM_CHANNELS_LAST)
    VALUE(ckm_graph_batch, 1, ckm_graph_batch(P(0, w->graph)) == (NULLED(0) ? 0 : 2))
    VALUE(ckm_graph_task, 1, ckm_graph_task(P(0, w->graph)) == CKM_TASK_CLASSES)
    VALUE(ckm_graph_op_count, 1, (ckm_graph_op_count(P(0, w->graph)) > 0) == !NULLED(0))
    VALUE(ckm_graph_tensor_count, 1, (ckm_graph_tensor_count(P(0, w->graph)) > 0) == !NULLED(0))
    VALUE(ckm_graph_get_op, 1, (ckm_graph_get_op(P(0, w->graph), 0).name[0] != '\0') == !NULLED(0))
    VALUE(ckm_graph_get_op, 1, ckm_graph_get_op(P(0, w->graph), -1).kind[0] == '\0')
    VALUE(ckm_graph_get_tensor, 1, (ckm_graph_get_tensor(P(0, w->graph), 0).name[0] != '\0') == !NULLED(0))
    VALUE(ckm_graph_get_tensor, 1, ckm_graph_get_tensor(P(0, w->graph), 100000).producer == -1)
    VALUE(ckm_graph_element_count, 1, (ckm_graph_element_count(P(0, w->graph), CKM_ROLE_PARAMETER) > 0) == !NULLED(0))
    VALUE(ckm_zoo_count, 0, ckm_zoo_count() > 0)
    VALUE(ckm_zoo_name, 0, ckm_zoo_name(-1) == NULL && ckm_zoo_name(100000) == NULL)
    VALUE(ckm_zoo_group, 0, ckm_zoo_group(-1) == NULL && ckm_zoo_group(100000) == NULL)
    VALUE(ckm_zoo_classes, 1, ckm_zoo_classes(P(0, "VGG16")) == (NULLED(0) ? 0 : 1000))
    VALUE(ckm_zoo_vocabulary, 1, ckm_zoo_vocabulary(P(0, "GPT2")) == (NULLED(0) ? 0 : 50257))
    STATUS(ckm_zoo_build, 4, 2, ckm_zoo_build(P(0, "test"), 2, P(1, shape), P(2, &made), P(3, err)))
    STATUS(ckm_zoo_build_sized, 4, 0, ckm_zoo_build_sized(P(0, "test"), 2, P(1, &size), P(2, &made), P(3, err)))
    STATUS(ckm_autodiff_layer_graph, 3, 0, ckm_autodiff_layer_graph(P(0, w->graph), P(1, &derived), P(2, err)))
    STATUS(ckm_autodiff_op_graph, 4, 2,
           ckm_autodiff_op_graph(P(0, w->graph), P(1, &options), P(2, &derived), P(3, err)))
}

void api_visit_import(api_visitor *v, ckm_error *err)
{
    ckm_graph *made = NULL;
    ckm_import_values *values = NULL;
    ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
    ckm_shape shape = {1, {1}};
    float number[4096];
    bool found = false;
    char data[65536];
    FILE *file = fopen("model.onnx", "rb");
    size_t size = file != NULL ? fread(data, 1, sizeof data, file) : 0;
    const ckm_export_tensor nothing = {NULL, CKM_F32, {1, {1}}, NULL};
    if (file != NULL) {
        fclose(file);
    }
    STATUS(ckm_import_file, 4, 2, ckm_import_file(P(0, "model.onnx"), P(1, &options), P(2, &made), P(3, err)))
    STATUS(ckm_import_onnx_memory, 4, 2,
           ckm_import_onnx_memory(P(0, data), size, P(1, &options), P(2, &made), P(3, err)))
    STATUS(ckm_import_values_open, 4, 2,
           ckm_import_values_open(P(0, "model.onnx"), P(1, &options), P(2, &values), P(3, err)))
    if (!api_prepares(v, "ckm_import_values_open", ckm_import_values_open("model.onnx", NULL, &values, &v->error))) {
        return;
    }
    DONE(ckm_import_values_close, 1, ckm_import_values_close(NULL))
    STATUS(ckm_import_values_read, 6, 0,
           ckm_import_values_read(P(0, values), P(1, "none"), CKM_F32, P(2, &shape), P(3, number), P(4, &found),
                                  P(5, err)))
    STATUS(ckm_export_onnx, 3, 0, ckm_export_onnx(P(0, "model.onnx"), P(1, "out.onnx"), NULL, 0, P(2, err)))
    TRIES(ckm_export_onnx, 2, 0, ckm_export_onnx("model.onnx", "out.onnx", P(0, &nothing), 1, P(1, err)))
    ckm_import_values_close(values);
}

void api_visit_cost(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_device device = *ckm_device_at(0);
    ckm_dataflow *made = NULL;
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    const ckm_cost_model by_profile = {sizeof by_profile, CKM_COST_MODEL_PROFILE, NULL, NULL};
    const ckm_cost_model by_device = {sizeof by_device, CKM_COST_MODEL_DEVICE, NULL, NULL};
    const ckm_training *steps[1] = {w->training};
    const ckm_training *no_steps[1] = {NULL};
    int64_t times[256];
    const int64_t *measured[1] = {times};
    for (int i = 0; i < 256; i++) {
        times[i] = 1000;
    }
    VALUE(ckm_device_count, 0, ckm_device_count() > 0)
    VALUE(ckm_device_at, 0, ckm_device_at(-1) == NULL && ckm_device_at(10000) == NULL)
    VALUE(ckm_device_find, 1, (ckm_device_find(P(0, device.name)) == NULL) == NULLED(0))
    const ckm_device_product *product = ckm_device_product_find(device.name);
    const ckm_device_kernels kernels = {CKM_DEVICE_MATRIX, CKM_DEVICE_FLOAT32, 1, 1, 1};
    double time_ns = 0;
    VALUE(ckm_device_product_find, 1, (ckm_device_product_find(P(0, device.name)) == NULL) == NULLED(0))
    ckm_device_link link;
    VALUE(ckm_device_link_count, 0, ckm_device_link_count() > 0)
    VALUE(ckm_device_link_at, 0, ckm_device_link_at(-1) == NULL && ckm_device_link_at(10000) == NULL)
    VALUE(ckm_device_link_find, 1, (ckm_device_link_find(P(0, "PCIe4")) == NULL) == NULLED(0))
    TRIES(ckm_device_link_read, 3, 0, ckm_device_link_read(P(0, "device.json"), P(1, &link), P(2, err)))
    STATUS(ckm_device_time, 5, 2,
           ckm_device_time(P(0, &device), P(1, product), P(2, &kernels), P(3, &time_ns), P(4, err)))
    STATUS(ckm_device_write, 3, 0, ckm_device_write(P(0, &device), P(1, "out.json"), P(2, err)))
    STATUS(ckm_device_read, 3, 0, ckm_device_read(P(0, "device.json"), P(1, &device), P(2, err)))
    TRIES(ckm_device_fit, 4, 0, ckm_device_fit(P(0, steps), P(1, measured), 1, P(2, &device), P(3, err)))
    TRIES(ckm_device_fit, 1, 0, ckm_device_fit(no_steps, measured, 1, &device, P(0, err)))
    STATUS(ckm_cost_apply, 4, 0, ckm_cost_apply(P(0, w->training), P(1, &model), P(2, &made), P(3, err)))
    TRIES(ckm_cost_apply, 1, 0, ckm_cost_apply(w->training, &by_profile, &made, P(0, err)))
    TRIES(ckm_cost_apply, 1, 0, ckm_cost_apply(w->training, &by_device, &made, P(0, err)))
}
