// SPDX-License-Identifier: Apache-2.0
// Calls of what runs: programs, sessions, profiles, data, training.
#include "api_calls.h"

#include <stdio.h>
#include <stdlib.h>

static ckm_status solve_plain(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    (void)budget_bytes;
    return ckm_schedule_baseline(user, out, err);
}

void api_visit_run(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    ckm_program *program = NULL;
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_run_fit fit = {0};
    int64_t bytes = 0;
    STATUS(ckm_program_create, 4, 0, ckm_program_create(P(0, w->training), P(1, &kernels), P(2, &program), P(3, err)))
    DONE(ckm_program_free, 1, ckm_program_free(NULL))
    VALUE(ckm_program_backend, 1, strcmp(ckm_program_backend(P(0, w->program)), NULLED(0) ? "" : "reference") == 0)
    VALUE(ckm_program_get_memory, 1, (ckm_program_get_memory(P(0, w->program)).margin_bytes > 0) == !NULLED(0))
    VALUE(ckm_run_get_memory, 0,
          ckm_run_get_memory(true).anonymous_bytes != 0 && ckm_run_get_memory(false).resident_bytes != 0)
    VALUE(ckm_program_free_bytes, 1, (ckm_program_free_bytes(P(0, w->program)) == -1) == NULLED(0))
    ckm_second_memory second;
    VALUE(ckm_program_second_memory_bytes, 1, ckm_program_second_memory_bytes(P(0, w->program)) == 0)
    TRIES(ckm_program_measure_second_memory, 3, 0,
          ckm_program_measure_second_memory(P(0, w->program), P(1, &second), P(2, err)))
    VALUE(ckm_program_threads, 1, ckm_program_threads(P(0, w->program)) == (NULLED(0) ? 0 : 1))
    STATUS(ckm_run_plan_under_budget, 5, 0,
           ckm_run_plan_under_budget(P(0, w->step_df), INT64_C(1) << 40, 0, P(1, &packing), P(2, solve_plain),
                                     w->step_df, P(3, &fit), P(4, err)))
    DONE(ckm_run_fit_dispose, 1, ckm_run_fit_dispose(P(0, &fit)))
    STATUS(ckm_run_region_bytes, 4, 0,
           ckm_run_region_bytes(P(0, w->step_df), P(1, w->step_plan), P(2, &bytes), P(3, err)))
}

void api_visit_session(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_session *made = NULL;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_step_result step;
    ckm_compare_result compared;
    ckm_timing timing;
    ckm_timing_options rounds = CKM_TIMING_OPTIONS_INIT;
    rounds.rounds = 1;
    ckm_compare_options steps = CKM_COMPARE_OPTIONS_INIT;
    steps.steps = 1;
    ckm_session_side first = {w->step_schedule, w->step_plan};
    ckm_session_side second = first;
    STATUS(ckm_session_create, 7, 0,
           ckm_session_create(P(0, w->program), P(1, w->step_df), P(2, w->step_schedule), P(3, w->step_plan),
                              P(4, &options), P(5, &made), P(6, err)))
    DONE(ckm_session_free, 1, ckm_session_free(NULL))
    VALUE(ckm_session_get_memory, 1, (ckm_session_get_memory(P(0, w->session)).region_bytes > 0) == !NULLED(0))
    VALUE(ckm_session_get_transfers, 1, ckm_session_get_transfers(P(0, w->session)).moves_out == 0)
    VALUE(ckm_session_tensor_count, 1, (ckm_session_tensor_count(P(0, w->session)) > 0) == !NULLED(0))
    VALUE(ckm_session_get_tensor, 1, (ckm_session_get_tensor(P(0, w->session), 0).name[0] != '\0') == !NULLED(0))
    VALUE(ckm_session_get_tensor, 1, ckm_session_get_tensor(P(0, w->session), -1).bytes == 0)
    VALUE(ckm_session_find_tensor, 2, ckm_session_find_tensor(P(0, w->session), P(1, "no such thing")) == -1)
    VALUE(ckm_session_labels, 1, (ckm_session_labels(P(0, w->session)) == -1) == NULLED(0))
    VALUE(ckm_session_loss, 1, (ckm_session_loss(P(0, w->session)) == -1) == NULLED(0))
    VALUE(ckm_session_correct, 1, (ckm_session_correct(P(0, w->session)) == -1) == NULLED(0))
    STATUS(ckm_session_initialize, 2, 0, ckm_session_initialize(P(0, w->session), 1, P(1, err)))
    STATUS(ckm_session_fill, 2, 0, ckm_session_fill(P(0, w->session), 1, 0, P(1, err)))
    float element = 0;
    STATUS(ckm_session_read, 3, 0, ckm_session_read(P(0, w->session), 0, 0, sizeof element, P(1, &element), P(2, err)))
    STATUS(ckm_session_write, 3, 0,
           ckm_session_write(P(0, w->session), 0, 0, sizeof element, P(1, &element), P(2, err)))
    STATUS(ckm_session_step, 3, 0, ckm_session_step(P(0, w->session), 0, 0.1, P(1, &step), P(2, err)))
    STATUS(ckm_session_compare, 7, 0,
           ckm_session_compare(P(0, w->program), P(1, w->step_df), P(2, &first), P(3, &second), P(4, &steps),
                               P(5, &compared), P(6, err)))
    STATUS(ckm_session_time, 7, 0,
           ckm_session_time(P(0, w->program), P(1, w->step_df), P(2, &first), P(3, &second), P(4, &rounds),
                            P(5, &timing), P(6, err)))
    ckm_session_side no_schedule = {NULL, w->step_plan};
    ckm_session_side no_plan = {w->step_schedule, NULL};
    VALUE(ckm_session_compare, 1,
          ckm_session_compare(w->program, w->step_df, &first, &no_schedule, &steps, &compared, P(0, err)) ==
              CKM_ERR_ARGUMENT)
    VALUE(ckm_session_time, 1,
          ckm_session_time(w->program, w->step_df, &no_plan, &second, &rounds, &timing, P(0, err)) == CKM_ERR_ARGUMENT)
}

void api_visit_profile(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_profile *made = NULL;
    ckm_profile_options options = {sizeof options, 0, 1, 1.0, NULL, NULL, NULL};
    ckm_profile_info info;
    char path[4096];
    ckm_profile *profiles[2] = {w->profile, w->profile};
    ckm_profile *absent[2] = {w->profile, NULL};
    double error = 0;
    STATUS(ckm_profile_measure, 7, 0,
           ckm_profile_measure(P(0, w->program), P(1, w->step_df), P(2, w->step_schedule), P(3, w->step_plan),
                               P(4, &options), P(5, &made), P(6, err)))
    DONE(ckm_profile_free, 1, ckm_profile_free(NULL))
    VALUE(ckm_profile_get_info, 1, (ckm_profile_get_info(P(0, w->profile)) == NULL) == NULLED(0))
    VALUE(ckm_profile_op_count, 1, (ckm_profile_op_count(P(0, w->profile)) == 0) == NULLED(0))
    VALUE(ckm_profile_get_op, 1, (ckm_profile_get_op(P(0, w->profile), 0).name == NULL) == NULLED(0))
    VALUE(ckm_profile_get_op, 1, ckm_profile_get_op(P(0, w->profile), -1).name == NULL)
    char words[CKM_PROFILE_WORDS];
    DONE(ckm_profile_explain_unsteady, 2,
         ckm_profile_explain_unsteady(P(0, ckm_profile_get_info(w->profile)), P(1, words), sizeof words))
    TRIES(ckm_profile_fit, 3, 0, ckm_profile_fit(P(0, profiles), 2, P(1, &error), P(2, err)))
    TRIES(ckm_profile_fit, 1, 0, ckm_profile_fit(absent, 2, &error, P(0, err)))
    const ckm_second_memory link = {"disk", -1, 1000, 2000, 3};
    STATUS(ckm_profile_set_link, 3, 0, ckm_profile_set_link(P(0, w->profile), P(1, &link), P(2, err)))
    STATUS(ckm_profile_write, 3, 0, ckm_profile_write(P(0, w->profile), P(1, "out.json"), P(2, err)))
    STATUS(ckm_profile_read_info, 3, 0, ckm_profile_read_info(P(0, "profile.json"), P(1, &info), P(2, err)))
    TRIES(ckm_profile_cache_path, 3, 0, ckm_profile_cache_path(P(0, w->program), P(1, path), sizeof path, P(2, err)))
}

void api_visit_data(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_data *data = NULL;
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    static char image[1 << 16];
    static char labels[1 << 12];
    void *inputs[1] = {image};
    int64_t classes = 0;
    options.batch = 2;
    options.n_inputs = w->fields.n_inputs;
    options.inputs = w->fields.inputs;
    options.labels = w->fields.labels;
    options.synthetic_samples = 8;
    if (!api_prepares(v, "ckm_data_open", ckm_data_open("synthetic", &options, &data, &v->error))) {
        return;
    }
    VALUE(ckm_data_format_count, 0, ckm_data_format_count() > 0)
    VALUE(ckm_data_format_name, 0, ckm_data_format_name(-1) == NULL)
    VALUE(ckm_data_format_summary, 0, ckm_data_format_summary(-1) == NULL)
    DONE(ckm_data_close, 1, ckm_data_close(NULL))
    VALUE(ckm_data_get_facts, 1, ckm_data_get_facts(P(0, data)).samples == (NULLED(0) ? 0 : 8))
    VALUE(ckm_data_left_out, 1, ckm_data_left_out(P(0, data)) == 0)
    VALUE(ckm_data_class_name, 1, ckm_data_class_name(P(0, data), -1) == NULL)
    STATUS(ckm_data_count_classes, 3, 0, ckm_data_count_classes(P(0, "synthetic"), P(1, &classes), P(2, err)))
    STATUS(ckm_data_count_tokens, 3, 0, ckm_data_count_tokens(P(0, "synthetic"), P(1, &classes), P(2, err)))
    ckm_data_token_notes notes;
    STATUS(ckm_data_read_token_notes, 3, 0, ckm_data_read_token_notes(P(0, "nonesuch.npy"), P(1, &notes), P(2, err)))
    TRIES(ckm_data_read_tokens, 3, 0, ckm_data_read_tokens(P(0, "nonesuch.npy"), NULL, 0, P(1, &classes), P(2, err)))
    char folder[64];
    VALUE(ckm_data_find_validation, 2, !ckm_data_find_validation(P(0, "nonesuch"), P(1, folder), sizeof folder))
    STATUS(ckm_data_fetch, 4, 0, ckm_data_fetch(P(0, data), 0, P(1, inputs), P(2, labels), P(3, err)))
    TRIES(ckm_train_fetch, 3, 0, ckm_train_fetch(P(0, w->session), P(1, data), 0, P(2, err)))
    ckm_train_options steps = CKM_TRAIN_OPTIONS_INIT;
    steps.last_step = 1;
    ckm_train_result result;
    STATUS(ckm_train_run, 5, 0, ckm_train_run(P(0, w->session), P(1, data), P(2, &steps), P(3, &result), P(4, err)))
    ckm_data_close(data);
    data = NULL;
    STATUS(ckm_data_open, 4, 0, ckm_data_open(P(0, "synthetic"), P(1, &options), P(2, &data), P(3, err)))
    options.inputs = NULL;
    TRIES(ckm_data_open, 1, 0, ckm_data_open("synthetic", &options, &data, P(0, err)))
}

void api_visit_train(api_visitor *v, ckm_error *err)
{
    api_world *w = v->w;
    ckm_rate_schedule rate = CKM_RATE_SCHEDULE_INIT;
    ckm_train_fields fields;
    ckm_train_place place = {.step = 1, .network = "test"};
    int32_t n = 0;
    VALUE(ckm_rate_at, 1, (ckm_rate_at(P(0, &rate), 0) > 0) == !NULLED(0))
    VALUE(ckm_ranks_agree, 2, ckm_ranks_agree(P(0, NULL), CKM_OK, P(1, err)) == CKM_OK)
    STATUS(ckm_train_describe_data, 3, 0, ckm_train_describe_data(P(0, w->training), P(1, &fields), P(2, err)))
    STATUS(ckm_train_save, 4, 0, ckm_train_save(P(0, w->session), P(1, "out.st"), P(2, &place), P(3, err)))
    STATUS(ckm_train_export, 3, 0, ckm_train_export(P(0, w->session), P(1, "out.st"), P(2, err)))
    STATUS(ckm_train_load, 4, 0, ckm_train_load(P(0, w->session), P(1, "run.st"), P(2, &place), P(3, err)))
    STATUS(ckm_train_read_place, 3, 0, ckm_train_read_place(P(0, "run.st"), P(1, &place), P(2, err)))
    char text[8];
    bool found = false;
    STATUS(ckm_train_read_note, 5, 0,
           ckm_train_read_note(P(0, "run.st"), P(1, "format"), P(2, text), sizeof text, P(3, &found), P(4, err)))
    char **names = NULL;
    int64_t n_names = 0;
    STATUS(ckm_train_read_class_names, 4, 0,
           ckm_train_read_class_names(P(0, "run.st"), P(1, &names), P(2, &n_names), P(3, err)))
    DONE(ckm_train_free_class_names, 1, ckm_train_free_class_names(NULL, 0))
    STATUS(ckm_train_load_weights, 4, 0, ckm_train_load_weights(P(0, w->session), P(1, "run.st"), P(2, &n), P(3, err)))
    VALUE(ckm_train_is_optimizer_state, 1, !ckm_train_is_optimizer_state(P(0, w->session), -1))
}
