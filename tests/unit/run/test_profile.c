// SPDX-License-Identifier: Apache-2.0
// Profiles: measured on a small network, written, read back as costs, fitted over batches, kept per machine.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/profile.h>

#include "base/alloc.h"
#include "run/train/profile.h"
#include "zoo_step.h"

static zoo_step set_up(int64_t batch)
{
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {.size = sizeof kernels, .threads = 1, .backend = "reference"};
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    return zoo_step_of("linear2", batch, 8, &derivation, &kernels);
}

static ckm_profile *measure(const zoo_step *s, int32_t steps)
{
    ckm_profile *profile = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_profile_options options = CKM_PROFILE_OPTIONS_INIT;
    options.warmup_steps = 1;
    options.steps = steps;
    good(ckm_profile_measure(s->program, s->df, s->schedule, s->plan, &options, &profile, &err), &err);
    return profile;
}

static void every_operator_is_measured(void **state)
{
    (void)state;
    zoo_step s = set_up(2);
    ckm_profile *p = measure(&s, 5);
    const ckm_profile_info *info = ckm_profile_get_info(p);
    int64_t sum = 0;
    assert_int_equal(ckm_profile_op_count(p), ckm_dataflow_op_count(s.df));
    assert_int_equal(info->batch, 2);
    assert_int_equal(info->threads, 1);
    // Steps that something else on the machine held up are not counted.
    assert_true(info->steps >= 1 && info->steps <= 5);
    assert_true(info->steps == 5 || info->steps + info->steps_left_out == 20);
    assert_true(info->step_ns >= info->predicted_ns / 2);
    assert_string_equal(info->backend, "reference");
    assert_true(info->platform[0] != '\0');
    for (int32_t v = 0; v < ckm_profile_op_count(p); v++) {
        ckm_profile_op op = ckm_profile_get_op(p, v);
        assert_string_equal(op.name, ckm_dataflow_get_op(s.df, v).name);
        assert_true(op.runs == info->steps || (op.runs == 0 && op.median_ns == 0));
        assert_true(op.p10_ns <= op.median_ns && op.median_ns <= op.p90_ns);
        assert_true(op.runs == 0 || op.p90_ns > 0);
        assert_true(isnan(op.fixed_ns));
        sum += op.median_ns;
    }
    assert_int_equal(sum, info->predicted_ns);
    assert_true(info->step_ns > 0);
    ckm_profile_free(p);
    ckm_profile_free(NULL);
    zoo_step_dispose(&s);
}

static void an_unsteady_measurement_is_explained(void **state)
{
    (void)state;
    char text[CKM_PROFILE_WORDS] = "old";
    ckm_profile_info info = {.steps = 8, .steps_left_out = 3, .step_ns = 112, .predicted_ns = 100, .steady = true};
    ckm_profile_explain_unsteady(&info, text, sizeof text);
    assert_string_equal(text, "");
    info.steady = false;
    ckm_profile_explain_unsteady(&info, text, sizeof text);
    assert_string_equal(text, "the machine was busy with other things while the operators were measured (3 of 11 steps "
                              "were held up; a step takes 12 % longer than its operators)");
    info.steps = info.steps_left_out = info.step_ns = INT64_MAX / 2;
    info.predicted_ns = 1;
    ckm_profile_explain_unsteady(&info, text, sizeof text);
    assert_non_null(strstr(text, "% longer than its operators)"));
    char small[5];
    ckm_profile_explain_unsteady(&info, small, sizeof small);
    assert_string_equal(small, "the ");
}

static bool stop_at_once(void *user)
{
    (void)user;
    return true;
}

static ckm_status count_steps(ckm_session *session, int64_t step, void *user, ckm_error *err)
{
    ++*(int64_t *)user;
    return ckm_session_fill(session, 1, step, err);
}

static bool stop_in_the_second_step(void *user)
{
    return *(const int64_t *)user == 2;
}

static void measuring_ends_when_told(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_profile *p = NULL;
    zoo_step s = set_up(1);
    ckm_profile_options options = {sizeof options, CKM_NONE, 1000000, 1e-9, NULL, NULL, NULL};
    good(ckm_profile_measure(s.program, s.df, s.schedule, s.plan, &options, &p, &err), &err);
    assert_int_equal(ckm_profile_get_info(p)->steps + ckm_profile_get_info(p)->steps_left_out, 3);
    ckm_profile_free(p);
    // In the middle of the second step: the first is the measurement.
    int64_t begun = 0;
    options.fill = count_steps;
    options.stop = stop_in_the_second_step;
    options.user = &begun;
    good(ckm_profile_measure(s.program, s.df, s.schedule, s.plan, &options, &p, &err), &err);
    assert_int_equal(ckm_profile_get_info(p)->steps, 1);
    ckm_profile_free(p);
    // In the first: there is none.
    options.stop = stop_at_once;
    assert_int_equal(ckm_profile_measure(s.program, s.df, s.schedule, s.plan, &options, &p, &err), CKM_ERR_STOPPED);
    zoo_step_dispose(&s);
}

static void a_profile_is_a_cost_model(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    char path[64];
    ckm_dataflow *df = NULL;
    zoo_step s = set_up(2);
    ckm_profile *p = measure(&s, 3);
    ckm_cost_model costs = {sizeof costs, CKM_COST_MODEL_PROFILE, path, NULL};
    snprintf(path, sizeof path, "/tmp/ckm_profile_%ld.json", (long)getpid());
    good(ckm_profile_write(p, path, &err), &err);
    good(ckm_cost_apply(s.training, &costs, &df, &err), &err);
    assert_int_equal(ckm_dataflow_cost_unit(df), CKM_COST_NS);
    ckm_profile_info read;
    const ckm_profile_info *info = ckm_profile_get_info(p);
    good(ckm_profile_read_info(path, &read, &err), &err);
    assert_int_equal(read.step_ns, info->step_ns);
    assert_int_equal(read.predicted_ns, info->predicted_ns);
    assert_int_equal(read.steps, info->steps);
    assert_int_equal(read.steps_left_out, info->steps_left_out);
    assert_int_equal(read.steady, info->steady);
    assert_int_equal(read.batch, 2);
    assert_string_equal(read.graph, info->graph);
    assert_int_equal(ckm_profile_read_info("/nonexistent.json", &read, &err), CKM_ERR_IO);
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        assert_int_equal(ckm_dataflow_get_op(df, v).cost, ckm_profile_get_op(p, v).median_ns);
    }
    assert_int_equal(ckm_profile_write(p, "/nonexistent/folder/p.json", &err), CKM_ERR_IO);
    remove(path);
    ckm_dataflow_free(df);
    ckm_profile_free(p);
    zoo_step_dispose(&s);
}

// A profile with given medians, to fit lines to.
static ckm_profile *made_up(int64_t batch, const int64_t *medians, int32_t n)
{
    ckm_profile *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->ops = calloc((size_t)n, sizeof *p->ops);
    assert_non_null(p->ops);
    p->names = calloc((size_t)n, sizeof *p->names);
    assert_non_null(p->names);
    p->n_ops = n;
    p->info.batch = batch;
    for (int32_t v = 0; v < n; v++) {
        char name[16];
        snprintf(name, sizeof name, "op%d", (int)v);
        p->names[v] = ckm_i_strdup(name);
        p->ops[v] = (ckm_profile_op){.name = p->names[v], .median_ns = medians[v], .runs = medians[v] > 0};
    }
    return p;
}

static void lines_are_fitted(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    double error = -1.0;
    // 100 + 10 b; 7 b; constant; falling, which no cost does; a view.
    const int64_t at_4[] = {140, 28, 55, 50, 0};
    const int64_t at_8[] = {180, 56, 55, 40, 0};
    const int64_t at_16[] = {260, 112, 55, 30, 0};
    ckm_profile *profiles[] = {made_up(4, at_4, 5), made_up(8, at_8, 5), made_up(16, at_16, 5)};
    good(ckm_profile_fit(profiles, 3, &error, &err), &err);
    const ckm_profile_op *ops = profiles[0]->ops;
    assert_true(fabs(ops[0].fixed_ns - 100.0) < 1e-6 && fabs(ops[0].per_sample_ns - 10.0) < 1e-6);
    assert_true(fabs(ops[1].fixed_ns) < 1e-6 && fabs(ops[1].per_sample_ns - 7.0) < 1e-6);
    assert_true(fabs(ops[2].fixed_ns - 55.0) < 1e-6 && fabs(ops[2].per_sample_ns) < 1e-6);
    assert_true(ops[3].fixed_ns > 30.0 && ops[3].fixed_ns < 50.0 && ops[3].per_sample_ns == 0.0);
    assert_true(ops[4].fixed_ns == 0.0 && ops[4].per_sample_ns == 0.0);
    assert_true(error < 1e-6);
    assert_int_equal(ckm_profile_fit(profiles, 1, &error, &err), CKM_ERR_ARGUMENT);
    profiles[1]->ops[2].name = "another";
    assert_int_equal(ckm_profile_fit(profiles, 3, &error, &err), CKM_ERR_ARGUMENT);
    for (int i = 0; i < 3; i++) {
        ckm_profile_free(profiles[i]);
    }
}

static void cached_profiles_have_names_of_their_own(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    char folder[64];
    char first[512];
    char second[512];
    char third[512];
    snprintf(folder, sizeof folder, "/tmp/ckm_cache_%ld", (long)getpid());
    zoo_step two = set_up(2);
    zoo_step three = set_up(3);
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    good(ckm_profile_cache_path(two.program, first, sizeof first, &err), &err);
    good(ckm_profile_cache_path(three.program, second, sizeof second, &err), &err);
    good(ckm_profile_cache_path(two.program, third, sizeof third, &err), &err);
    assert_string_equal(first, third);
    assert_string_not_equal(first, second);
    assert_int_equal(strncmp(first, folder, strlen(folder)), 0);
    assert_non_null(strstr(first, "/checkmate/linear2-b2-t1-"));
    assert_int_equal(access(folder, F_OK), 0);
    char made[128];
    snprintf(made, sizeof made, "%s/checkmate", folder);
    assert_int_equal(rmdir(made), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(setenv("XDG_CACHE_HOME", "/dev/null/x", 1), 0);
    assert_int_equal(ckm_profile_cache_path(two.program, first, sizeof first, &err), CKM_ERR_IO);
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    assert_int_equal(ckm_profile_cache_path(two.program, first, 20, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(rmdir(made), 0);
    assert_int_equal(rmdir(folder), 0);
    zoo_step_dispose(&two);
    zoo_step_dispose(&three);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_is_measured), cmocka_unit_test(an_unsteady_measurement_is_explained),
        cmocka_unit_test(measuring_ends_when_told),   cmocka_unit_test(a_profile_is_a_cost_model),
        cmocka_unit_test(lines_are_fitted),           cmocka_unit_test(cached_profiles_have_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
