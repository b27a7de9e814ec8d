// SPDX-License-Identifier: Apache-2.0
// The trainer: budgets in every form, going on bit for bit, data of the caller's own, and what cannot be.
#define _DEFAULT_SOURCE  // mkdtemp
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

enum { BATCH = 8, SIDE = 32, CLASSES = 3 };

static ckm_graph *small_network(void)
{
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("small", BATCH, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (const int64_t[]){SIDE, SIDE, 2});
    for (int i = 0; i < 4; i++) {
        x = ckm_network_conv(net, x, (ckm_conv_layer){.filters = 16, .kernel = {3}, .padding = "same"});
        x = ckm_network_activation(net, x, NULL, "tanh");
    }
    x = ckm_network_dense(net, ckm_network_flatten(net, x, NULL), NULL, CLASSES, NULL);
    assert_int_equal(ckm_network_finish(net, x, &graph, NULL), CKM_OK);
    ckm_network_free(net);
    return graph;
}

static ckm_trainer_options plain_options(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "cpu", .threads = 1};
    static const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 64};
    static ckm_autodiff_options step = CKM_AUTODIFF_OPTIONS_INIT;
    step.optimizer.kind = CKM_OPTIMIZER_ADAM;
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    options.step = &step;
    return options;
}

static ckm_trainer *open_it(const ckm_graph *graph, const ckm_trainer_options *options)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_trainer *trainer = NULL;
    if (ckm_trainer_open(graph, options, &trainer, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    return trainer;
}

// Trains to `last_step`, and gives the last loss.
static double train_to(ckm_trainer *trainer, int64_t last_step)
{
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    course.last_step = last_step;
    ckm_train_result result;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_trainer_run(trainer, &course, &result, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return result.last_loss;
}

static void a_budget_is_kept_and_changes_no_bit(void **state)
{
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    (void)state;
    ckm_trainer *without = open_it(graph, &options);
    ckm_trainer_info whole = ckm_trainer_get_info(without);
    assert_true(whole.fits);
    assert_int_equal(whole.cost, whole.baseline_cost);
    assert_true(isnan(whole.step_seconds));
    options.budget_fraction = 0.9;
    options.budget_bytes = 0;
    ckm_trainer *within = open_it(graph, &options);
    ckm_trainer_info info = ckm_trainer_get_info(within);
    assert_true(info.used_bytes <= info.budget_bytes);
    assert_true(info.budget_bytes < info.baseline_bytes);
    assert_true(info.cost > info.baseline_cost);
    double expected = train_to(without, 5);
    assert_true(expected == train_to(within, 5));
    assert_int_equal(ckm_trainer_get_info(within).place.step, 5);
    ckm_trainer_close(without);
    ckm_trainer_close(within);
    ckm_graph_free(graph);
}

static void both_ways_agree(void **state)
{
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    ckm_trainer *trainer = NULL;
    ckm_compare_result compared;
    ckm_timing timing;
    ckm_trainer_sizes sizes;
    (void)state;
    options.budget_bytes = 0;
    options.budget_fraction = 0.9;
    assert_int_equal(ckm_trainer_plan(graph, &options, &trainer, NULL), CKM_OK);
    assert_null(ckm_trainer_session(trainer));
    assert_int_equal(ckm_trainer_check(trainer, 2, 0.01, &compared, NULL), CKM_OK);
    assert_true(compared.equal);
    assert_true(compared.recomputations > 0);
    assert_int_equal(ckm_trainer_time(trainer, 1, &timing, NULL), CKM_OK);
    assert_true(timing.ratio > 0);
    assert_int_equal(ckm_trainer_get_sizes(trainer, &sizes, NULL), CKM_OK);
    assert_true(sizes.region_bytes < sizes.baseline_region_bytes);
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    assert_int_equal(ckm_trainer_begin(trainer, NULL), CKM_OK);
    course.last_step = -1;
    assert_int_equal(ckm_trainer_run(trainer, &course, &result, NULL), CKM_ERR_ARGUMENT);
    ckm_trainer_close(trainer);
    ckm_graph_free(graph);
}

static void what_does_not_fit_is_a_result(void **state)
{
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    ckm_trainer *trainer = NULL;
    ckm_error err = CKM_ERROR_INIT;
    (void)state;
    options.budget_bytes = 1000;
    assert_int_equal(ckm_trainer_plan(graph, &options, &trainer, &err), CKM_OK);
    ckm_trainer_info info = ckm_trainer_get_info(trainer);
    assert_false(info.fits);
    assert_true(info.proven);
    assert_true(info.floor_bytes > 1000);
    int64_t floor_bytes = 0;  // without the tables, whose size is a guess
    assert_int_equal(ckm_min_budget_floor(ckm_trainer_dataflow(trainer), &floor_bytes, NULL), CKM_OK);
    assert_true(info.floor_bytes > floor_bytes && info.floor_bytes < floor_bytes + info.outside_bytes);
    assert_int_equal(ckm_trainer_begin(trainer, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "proven to be needed"));
    ckm_trainer_close(trainer);
    trainer = NULL;
    assert_int_equal(ckm_trainer_open(graph, &options, &trainer, &err), CKM_ERR_ARGUMENT);
    assert_null(trainer);
    ckm_graph_free(graph);
}

static void training_goes_on_bit_for_bit(void **state)
{
    char folder[] = "/tmp/ckm_trainer_XXXXXX";
    char path[64];
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    ckm_error err = CKM_ERROR_INIT;
    ckm_trainer *refused = NULL;
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.safetensors", folder);
    options.seed = 7;
    ckm_trainer *whole = open_it(graph, &options);
    double expected = train_to(whole, 11);
    ckm_trainer_close(whole);

    ckm_trainer *half = open_it(graph, &options);
    train_to(half, 4);
    train_to(half, 6);  // in two parts of one trainer
    assert_int_equal(ckm_trainer_save(half, path, NULL), CKM_OK);
    ckm_trainer_close(half);
    options.resume = path;
    options.seed = 0;
    ckm_trainer *rest = open_it(graph, &options);
    assert_true(ckm_trainer_get_info(rest).resumed);
    assert_int_equal(ckm_trainer_get_info(rest).place.step, 6);
    assert_true(expected == train_to(rest, 11));
    ckm_train_options behind = CKM_TRAIN_OPTIONS_INIT;
    behind.last_step = 11;
    ckm_train_result result;
    assert_int_equal(ckm_trainer_run(rest, &behind, &result, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "already holds 11 steps"));
    ckm_trainer_close(rest);

    options.seed = 8;
    assert_int_equal(ckm_trainer_plan(graph, &options, &refused, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "seed 7, not 8"));
    options.seed = 0;
    ckm_autodiff_options other = *options.step;
    other.optimizer.beta1 = 0.8;
    options.step = &other;
    assert_int_equal(ckm_trainer_plan(graph, &options, &refused, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "same optimizer"));
    ckm_graph_free(graph);
    assert_int_equal(remove(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

// Class of a sample, and an image that shows it.
typedef struct own_data {
    int64_t calls;
    int32_t shift;  // added to every class
    bool fails;
} own_data;

static ckm_status read_own(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    own_data *own = user;
    float *image = inputs[0];
    own->calls++;
    if (own->fails && sample == 3) {
        snprintf(err->message, sizeof err->message, "sample 3 is gone");
        err->code = CKM_ERR_IO;
        return CKM_ERR_IO;
    }
    for (int i = 0; i < SIDE * SIDE * 2; i++) {
        image[i] = i % CLASSES == sample % CLASSES ? 1.0F : 0.0F;
    }
    *(int32_t *)labels = (int32_t)(sample % CLASSES) + own->shift;
    return CKM_OK;
}

static void samples_of_the_callers_own_are_learnt(void **state)
{
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    own_data own = {0};
    ckm_data_source source = {
        .samples = 4 * BATCH + 3, .classes = CLASSES, .bytes = 5000, .read = read_own, .user = &own};
    (void)state;
    options.source = &source;
    ckm_trainer *trainer = open_it(graph, &options);
    assert_int_equal(ckm_data_get_facts(ckm_trainer_data(trainer)).batches, 4);
    assert_true(ckm_data_get_facts(ckm_trainer_data(trainer)).bytes >= 5000);
    double first = train_to(trainer, 1);
    double last = train_to(trainer, 40);
    assert_true(last < first / 10);
    assert_true(own.calls >= (int64_t)40 * BATCH);
    ckm_trainer_close(trainer);
    ckm_graph_free(graph);
}

static void bad_samples_are_errors(void **state)
{
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    (void)state;
    course.last_step = 8;
    for (int i = 0; i < 2; i++) {
        ckm_error err = CKM_ERROR_INIT;
        own_data own = {.shift = i == 0 ? 1 : 0, .fails = i == 1};
        ckm_data_source source = {.samples = 4 * BATCH, .read = read_own, .user = &own};
        options.source = &source;
        ckm_trainer *trainer = open_it(graph, &options);
        assert_int_equal(ckm_trainer_run(trainer, &course, &result, &err), i == 0 ? CKM_ERR_ARGUMENT : CKM_ERR_IO);
        assert_non_null(strstr(err.message, i == 0 ? "out of range: the network takes 0 to 2" : "sample 3 is gone"));
        ckm_trainer_close(trainer);
    }
    ckm_graph_free(graph);
}

static void options_that_cannot_be_are_refused(void **state)
{
    ckm_graph *graph = small_network();
    ckm_data_source source = {.samples = BATCH, .read = read_own};
    (void)state;
    for (int i = 0; i < 8; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_trainer *trainer = NULL;
        ckm_trainer_options o = plain_options();
        o.size = i == 0 ? 0 : o.size;
        o.budget_bytes = i == 1 ? -1 : o.budget_bytes;
        o.budget_fraction = i == 2 ? -0.5 : i == 3 ? (double)INFINITY : 0;
        o.data = i == 4 ? "synthetic" : NULL;
        o.source = i == 4 || i == 5 ? &source : NULL;
        source.samples = i == 5 ? BATCH - 1 : BATCH;
        o.weights = i == 6 ? "a" : NULL;
        o.resume = i == 6 ? "b" : NULL;
        ckm_program_options kernels = *o.kernels;
        kernels.backend = i == 7 ? "abacus" : kernels.backend;
        o.kernels = &kernels;
        ckm_status status = ckm_trainer_open(graph, &o, &trainer, &err);
        if (status == CKM_OK || status == CKM_ERR_INTERNAL || err.message[0] == '\0') {
            fail_msg("case %d: %s: %s", i, ckm_status_name(status), err.message);
        }
        assert_null(trainer);
    }
    ckm_graph_free(graph);
}

// A pointer that must not be NULL inside of a source.
// Layers of `width`, so that rounding, packing and tables are a large part of little.
static ckm_graph *perceptron(int layers, int64_t width, int64_t batch)
{
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("perceptron", batch, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "vector", CKM_F32, 1, (const int64_t[]){width});
    for (int i = 0; i < layers; i++) {
        x = ckm_network_dense(net, x, NULL, width + 8 * (i % 3), "relu");
    }
    x = ckm_network_dense(net, x, NULL, CLASSES, NULL);
    assert_int_equal(ckm_network_finish(net, x, &graph, NULL), CKM_OK);
    ckm_network_free(net);
    return graph;
}

static void all_of_what_keeping_everything_takes_is_enough(void **state)
{
    (void)state;
    static const ckm_autodiff_options at_the_end = CKM_AUTODIFF_OPTIONS_INIT;
    for (int i = 0; i < 24; i++) {
        ckm_graph *graph = perceptron(2 + i % 5, 16 << (i % 4), 1 + 5 * (i % 3));
        ckm_trainer_options options = plain_options();
        ckm_autodiff_options step = *options.step;
        options.budget_bytes = 0;
        options.budget_fraction = 1.0;
        step.late_updates = i % 2 != 0;
        step.optimizer = i % 3 == 0 ? at_the_end.optimizer : step.optimizer;
        options.step = &step;
        ckm_trainer *trainer = open_it(graph, &options);
        ckm_trainer_info info = ckm_trainer_get_info(trainer);
        assert_int_equal(info.cost, info.baseline_cost);
        assert_int_equal(info.budget_bytes, info.baseline_bytes);
        assert_int_equal(info.used_bytes, info.baseline_bytes);
        ckm_trainer_close(trainer);
        ckm_graph_free(graph);
    }
}

// Half of what the peak has beyond parameters, inputs and results is taken off; all of it asks for no rematerialization.
static void a_share_of_activations(void **state)
{
    (void)state;
    ckm_graph *graph = perceptron(5, 16, 64);
    ckm_trainer_options options = plain_options();
    options.budget_bytes = 0;
    for (int i = 0; i < 2; i++) {
        options.activations_fraction = i == 0 ? 1.0 : 0.5;
        ckm_trainer *trainer = NULL;
        assert_int_equal(ckm_trainer_plan(graph, &options, &trainer, NULL), CKM_OK);
        ckm_trainer_info info = ckm_trainer_get_info(trainer);
        const ckm_dataflow *df = ckm_trainer_dataflow(trainer);
        ckm_schedule *baseline = NULL;
        ckm_simulation kept;
        assert_int_equal(ckm_schedule_baseline(df, &baseline, NULL), CKM_OK);
        assert_int_equal(ckm_schedule_simulate(df, baseline, NULL, &kept, NULL), CKM_OK);
        int64_t activations = kept.peak_bytes - ckm_dataflow_standing_bytes(df);
        int64_t off = info.baseline_bytes - info.budget_bytes;
        assert_true(activations > 0 && 2 * off >= i * (activations - 1) && 2 * off <= i * (activations + 1));
        ckm_schedule_free(baseline);
        ckm_trainer_close(trainer);
    }
    options.activations_fraction = 60;
    ckm_error err = CKM_ERROR_INIT;
    ckm_trainer *trainer = NULL;
    assert_int_equal(ckm_trainer_plan(graph, &options, &trainer, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "`activations_fraction` is 60"));
    ckm_graph_free(graph);
}

typedef struct patience {
    int64_t asked, most;
} patience;

static bool runs_out(void *user)
{
    patience *p = user;
    return ++p->asked > p->most;
}

// Parameters of a large network take seconds. One that was stopped while they were set can begin anew.
static void a_beginning_can_be_stopped(void **state)
{
    (void)state;
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    ckm_solve_options solve = CKM_SOLVE_OPTIONS_INIT;
    patience p = {.most = INT64_MAX};
    ckm_trainer *trainer = NULL;
    ckm_error err = CKM_ERROR_INIT;
    solve.stop = runs_out;
    solve.user = &p;
    options.solve = &solve;
    assert_int_equal(ckm_trainer_plan(graph, &options, &trainer, &err), CKM_OK);
    p.most = p.asked;
    assert_int_equal(ckm_trainer_begin(trainer, &err), CKM_ERR_STOPPED);
    assert_null(ckm_trainer_session(trainer));
    p.most = INT64_MAX;
    assert_int_equal(ckm_trainer_begin(trainer, &err), CKM_OK);
    ckm_trainer_close(trainer);
    ckm_graph_free(graph);
}

// Wherever it is asked: while kernels are prepared, while packing, measuring and searching.
static void a_stopped_opening_has_a_status_of_its_own(void **state)
{
    (void)state;
    char cache[] = "/tmp/ckm_trainer_XXXXXX";
    assert_non_null(mkdtemp(cache));
    assert_int_equal(setenv("XDG_CACHE_HOME", cache, 1), 0);
    ckm_graph *graph = small_network();
    for (int64_t most = 0; most < 4000; most = 2 * most + 1) {
        ckm_trainer_options options = plain_options();
        ckm_solve_options solve = CKM_SOLVE_OPTIONS_INIT;
        patience p = {.most = most};
        ckm_trainer *trainer = NULL;
        ckm_error err = CKM_ERROR_INIT;
        options.budget_bytes = 0;
        options.budget_fraction = 0.8;
        options.costs = CKM_TRAINER_COSTS_MEASURED;
        solve.stop = runs_out;
        solve.user = &p;
        options.solve = &solve;
        ckm_status status = ckm_trainer_open(graph, &options, &trainer, &err);
        assert_int_equal(status, p.asked > most ? CKM_ERR_STOPPED : CKM_OK);
        assert_true(status == CKM_OK || trainer == NULL);
        assert_true(most > 0 || status == CKM_ERR_STOPPED);
        ckm_trainer_close(trainer);
    }
    ckm_graph_free(graph);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", cache);
    assert_int_equal(system(command), 0);
    unsetenv("XDG_CACHE_HOME");
}

static void a_source_needs_a_reader(void **state)
{
    ckm_graph *graph = small_network();
    ckm_trainer_options options = plain_options();
    ckm_data_source source = {.samples = BATCH};
    ckm_trainer *trainer = NULL;
    ckm_error err = CKM_ERROR_INIT;
    (void)state;
    options.source = &source;
    assert_int_equal(ckm_trainer_open(graph, &options, &trainer, &err), CKM_ERR_ARGUMENT);
    ckm_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_is_kept_and_changes_no_bit),
        cmocka_unit_test(both_ways_agree),
        cmocka_unit_test(what_does_not_fit_is_a_result),
        cmocka_unit_test(training_goes_on_bit_for_bit),
        cmocka_unit_test(samples_of_the_callers_own_are_learnt),
        cmocka_unit_test(bad_samples_are_errors),
        cmocka_unit_test(options_that_cannot_be_are_refused),
        cmocka_unit_test(a_source_needs_a_reader),
        cmocka_unit_test(all_of_what_keeping_everything_takes_is_enough),
        cmocka_unit_test(a_share_of_activations),
        cmocka_unit_test(a_beginning_can_be_stopped),
        cmocka_unit_test(a_stopped_opening_has_a_status_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
