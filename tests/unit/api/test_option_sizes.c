// SPDX-License-Identifier: Apache-2.0
// Every function that takes a structure of options, called by programs of other versions: newer ones, whose structure is
// longer, older ones, whose structure is that of the first version, and such as never set the size. The structure lies before
// memory that cannot be read, so that reading more than it has is a fault. One byte less than the first version is none.
// tests/house/test_option_sizes.sh says when a structure or a function is missing.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "api_calls.h"
#include "scratch.h"

static api_world w;

static ckm_status autodiff_op_graph(const void *options, ckm_error *err)
{
    ckm_training *made = NULL;
    ckm_status status = ckm_autodiff_op_graph(w.graph, options, &made, err);
    ckm_training_free(made);
    return status;
}

static ckm_status cost_apply(const void *options, ckm_error *err)
{
    ckm_dataflow *made = NULL;
    ckm_status status = ckm_cost_apply(w.training, options, &made, err);
    ckm_dataflow_free(made);
    return status;
}

static ckm_status data_open(const void *options, ckm_error *err)
{
    ckm_data *made = NULL;
    ckm_status status = ckm_data_open("synthetic", options, &made, err);
    ckm_data_close(made);
    return status;
}

static ckm_status read_nothing(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err)
{
    (void)user;
    (void)sample;
    (void)inputs;
    (void)labels;
    (void)err;
    return CKM_OK;
}

static ckm_status data_open_source(const void *options, ckm_error *err)
{
    const ckm_data_source source = {.samples = 8, .read = read_nothing};
    ckm_data *made = NULL;
    ckm_status status = ckm_data_open_source(&source, options, &made, err);
    ckm_data_close(made);
    return status;
}

static ckm_status import_file(const void *options, ckm_error *err)
{
    ckm_graph *made = NULL;
    ckm_status status = ckm_import_file("model.onnx", options, &made, err);
    ckm_graph_free(made);
    return status;
}

static ckm_status import_onnx_memory(const void *options, ckm_error *err)
{
    static char data[65536];
    ckm_graph *made = NULL;
    FILE *file = fopen("model.onnx", "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    ckm_status status = ckm_import_onnx_memory(data, size, options, &made, err);
    ckm_graph_free(made);
    return status;
}

static ckm_status import_values_open(const void *options, ckm_error *err)
{
    ckm_import_values *made = NULL;
    ckm_status status = ckm_import_values_open("model.onnx", options, &made, err);
    ckm_import_values_close(made);
    return status;
}

static ckm_status build_five(int64_t batch, void *user, ckm_dataflow **out, ckm_error *err)
{
    (void)batch;
    (void)user;
    return ckm_dataflow_parse(api_graph_text, api_graph_size, "text", out, err);
}

static ckm_status max_batch(const void *options, ckm_error *err)
{
    ckm_max_batch_result result = {0};
    ckm_status status = ckm_max_batch(options, build_five, &result, err);
    ckm_max_batch_result_dispose(&result);
    return status;
}

static ckm_status max_batch_solve(const void *options, ckm_error *err)
{
    ckm_max_batch_options outer = CKM_MAX_BATCH_OPTIONS_INIT;
    outer.memory_bytes = 20;
    outer.solve = options;
    return max_batch(&outer, err);
}

static ckm_status min_budget(const void *options, ckm_error *err)
{
    ckm_min_budget_result result = {0};
    ckm_status status = ckm_min_budget(w.df, options, NULL, &result, err);
    ckm_min_budget_result_dispose(&result);
    return status;
}

static ckm_status solve(const void *options, ckm_error *err)
{
    ckm_solve_result result = {0};
    ckm_status status = ckm_solve(w.df, options, &result, err);
    ckm_solve_result_dispose(&result);
    return status;
}

static ckm_status trainer_fit(const void *options, ckm_error *err)
{
    ckm_run_fit fit = {0};
    ckm_status status = ckm_trainer_fit(w.step_df, INT64_C(1) << 40, 0, options, &fit, NULL, err);
    ckm_run_fit_dispose(&fit);
    return status;
}

static ckm_status plan_create(const void *options, ckm_error *err)
{
    ckm_plan *made = NULL;
    ckm_status status = ckm_plan_create(w.df, w.schedule, options, &made, err);
    ckm_plan_free(made);
    return status;
}

static ckm_status solve_frontier(const void *options, ckm_error *err)
{
    const int64_t budget = 20;
    ckm_solve_result result = {0};
    ckm_status status = ckm_solve_frontier(w.df, options, &budget, 1, &result, err);
    ckm_solve_result_dispose(&result);
    return status;
}

static ckm_status solve_plain(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    (void)budget_bytes;
    return ckm_schedule_baseline(user, out, err);
}

static ckm_status run_plan_under_budget(const void *options, ckm_error *err)
{
    ckm_run_fit fit = {0};
    ckm_status status = ckm_run_plan_under_budget(w.step_df, INT64_C(1) << 40, 0, options, solve_plain, w.step_df, &fit,
                                                  err);
    ckm_run_fit_dispose(&fit);
    return status;
}

static ckm_status profile_measure(const void *options, ckm_error *err)
{
    ckm_profile *made = NULL;
    ckm_status status = ckm_profile_measure(w.program, w.step_df, w.step_schedule, w.step_plan, options, &made, err);
    ckm_profile_free(made);
    return status;
}

static ckm_status program_create(const void *options, ckm_error *err)
{
    ckm_program *made = NULL;
    ckm_status status = ckm_program_create(w.training, options, &made, err);
    ckm_program_free(made);
    return status;
}

static ckm_status session_create(const void *options, ckm_error *err)
{
    ckm_session *made = NULL;
    ckm_status status = ckm_session_create(w.program, w.step_df, w.step_schedule, w.step_plan, options, &made, err);
    ckm_session_free(made);
    return status;
}

static ckm_status session_compare(const void *options, ckm_error *err)
{
    const ckm_session_side side = {w.step_schedule, w.step_plan};
    ckm_compare_result result;
    return ckm_session_compare(w.program, w.step_df, &side, &side, options, &result, err);
}

static ckm_status session_time(const void *options, ckm_error *err)
{
    const ckm_session_side side = {w.step_schedule, w.step_plan};
    ckm_timing timing;
    return ckm_session_time(w.program, w.step_df, &side, &side, options, &timing, err);
}

static ckm_data_options small_data(void)
{
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    options.batch = 2;
    options.n_inputs = w.fields.n_inputs;
    options.inputs = w.fields.inputs;
    options.labels = w.fields.labels;
    options.synthetic_samples = 8;
    return options;
}

static ckm_status train_run(const void *options, ckm_error *err)
{
    const ckm_data_options reading = small_data();
    ckm_data *data = NULL;
    ckm_train_result result;
    assert_int_equal(ckm_data_open("synthetic", &reading, &data, err), CKM_OK);
    ckm_status status = ckm_train_run(w.session, data, options, &result, err);
    ckm_data_close(data);
    return status;
}

static ckm_status train_run_rate(const void *options, ckm_error *err)
{
    ckm_train_options outer = CKM_TRAIN_OPTIONS_INIT;
    outer.last_step = 1;
    outer.rate = options;
    return train_run(&outer, err);
}

// A status that stands for what it gives: 0 where the schedule cannot be read.
static ckm_status rate_at(const void *options, ckm_error *err)
{
    ckm_status status = train_run_rate(options, err);
    assert_true((ckm_rate_at(options, 0) > 0) == (status == CKM_OK));
    return status;
}

static ckm_trainer_options small_trainer(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .threads = 1, .backend = "reference"};
    static const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 8};
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    return options;
}

static ckm_status trainer_open(const void *options, ckm_error *err)
{
    ckm_trainer *made = NULL;
    ckm_status status = ckm_trainer_open(w.graph, options, &made, err);
    ckm_trainer_close(made);
    return status;
}

static ckm_status trainer_plan(const void *options, ckm_error *err)
{
    ckm_trainer *made = NULL;
    ckm_status status = ckm_trainer_plan(w.graph, options, &made, err);
    ckm_trainer_close(made);
    return status;
}

static ckm_status trainer_run(const void *options, ckm_error *err)
{
    const ckm_trainer_options how = small_trainer();
    ckm_trainer *trainer = NULL;
    ckm_train_result result;
    assert_int_equal(ckm_trainer_open(w.graph, &how, &trainer, err), CKM_OK);
    ckm_status status = ckm_trainer_run(trainer, options, &result, err);
    ckm_trainer_close(trainer);
    return status;
}

static ckm_status inference_plan(const void *options, ckm_error *err)
{
    ckm_inference *made = NULL;
    ckm_status status = ckm_inference_plan(w.graph, options, &made, err);
    ckm_inference_close(made);
    return status;
}

static ckm_status inference_open(const void *options, ckm_error *err)
{
    ckm_inference *made = NULL;
    ckm_status status = ckm_inference_open(w.graph, options, &made, err);
    ckm_inference_close(made);
    return status;
}

static ckm_inference_options small_inference(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .threads = 1, .backend = "reference"};
    ckm_inference_options options = CKM_INFERENCE_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.kernels = &kernels;
    return options;
}

// Options of a part within those of the inference.
#define INFERENCE_PART(part)                                              \
    static ckm_status inference_##part(const void *given, ckm_error *err) \
    {                                                                     \
        ckm_inference_options outer = small_inference();                  \
        outer.part = given;                                               \
        return inference_plan(&outer, err);                               \
    }
INFERENCE_PART(kernels)
INFERENCE_PART(solve)
INFERENCE_PART(cost_model)
INFERENCE_PART(importing)

// Options of a part within those of the trainer.
#define TRAINER_PART(part)                                              \
    static ckm_status trainer_##part(const void *given, ckm_error *err) \
    {                                                                   \
        ckm_trainer_options outer = small_trainer();                    \
        outer.part = given;                                             \
        return trainer_plan(&outer, err);                               \
    }
TRAINER_PART(step)
TRAINER_PART(kernels)
TRAINER_PART(solve)
TRAINER_PART(cost_model)
TRAINER_PART(reading)
TRAINER_PART(importing)
TRAINER_PART(rate)

static ckm_status zoo_build_sized(const void *options, ckm_error *err)
{
    ckm_graph *made = NULL;
    ckm_status status = ckm_zoo_build_sized("test", 2, options, &made, err);
    ckm_graph_free(made);
    return status;
}

enum { TAIL = 16 };

// Options that end where memory ends, as long as `size` says and the rest zero. `at` says where they are.
typedef struct edge {
    char *map;
    size_t page;
} edge;

static char *put(const edge *e, const void *options, size_t bytes, size_t size)
{
    char *at = e->map + e->page - size;
    memset(e->map, 0x5a, e->page);
    memset(at, 0, size);
    memcpy(at, options, bytes < size ? bytes : size);
    memcpy(at, &size, sizeof size);
    return at;
}

typedef struct row {
    const char *function, *type, *macro;
    ckm_status (*call)(const void *options, ckm_error *err);
    const void *options;
    size_t bytes;
    size_t first;  // bytes of its first version
} row;

// Structures that have grown since.
static size_t first_size(const char *type, size_t size)
{
    return strcmp(type, "ckm_trainer_options") == 0     ? offsetof(ckm_trainer_options, accumulate)
           : strcmp(type, "ckm_solve_options") == 0     ? offsetof(ckm_solve_options, without)
           : strcmp(type, "ckm_inference_options") == 0 ? offsetof(ckm_inference_options, activations_fraction)
           : strcmp(type, "ckm_zoo_size") == 0          ? offsetof(ckm_zoo_size, classes)
           : strcmp(type, "ckm_data_options") == 0      ? offsetof(ckm_data_options, crop)
           : strcmp(type, "ckm_program_options") == 0   ? offsetof(ckm_program_options, second_memory)
           : strcmp(type, "ckm_train_options") == 0     ? offsetof(ckm_train_options, validated)
                                                        : size;
}

static int refused(const row *r, const char *what, const void *options, const char *words)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_status status = r->call(options, &err);
    if (status == CKM_ERR_ARGUMENT && strstr(err.message, r->type) != NULL && strstr(err.message, words) != NULL) {
        return 0;
    }
    printf("%s, %s, %s: %s: %s\n", r->function, r->type, what, ckm_status_name(status), err.message);
    return 1;
}

static int accepted(const row *r, const char *what, const void *options)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_status status = r->call(options, &err);
    if (status == CKM_OK) {
        return 0;
    }
    printf("%s, %s, %s: %s: %s\n", r->function, r->type, what, ckm_status_name(status), err.message);
    return 1;
}

static int check(const edge *e, const row *r)
{
    char begin[64];
    size_t size = r->bytes;
    snprintf(begin, sizeof begin, "begin with %s", r->macro);
    int bad = accepted(r, "as it is", put(e, r->options, size, size));
    bad += accepted(r, "of a newer program", put(e, r->options, size, size + TAIL));
    for (size_t i = 0; i < TAIL; i += TAIL - 1) {
        char *at = put(e, r->options, size, size + TAIL);
        at[size + i] = 1;
        bad += refused(r, "of a newer program that sets what is not known", at, "link the newer library");
    }
    bad += accepted(r, "of the first version", put(e, r->options, r->first, r->first));
    bad += refused(r, "one byte less", put(e, r->options, r->first, r->first - 1), begin);
    char *at = put(e, r->options, size, size);
    memset(at, 0, sizeof size);
    bad += refused(r, "size 0", at, begin);
    memset(at, 0xff, sizeof size);
    bad += refused(r, "no size at all", at, begin);
    return bad;
}

static void every_function_reads_sizes(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    scratch_stay stay;
    ckm_error err = CKM_ERROR_INIT;
    int bad = 0;
    (void)state;
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0);
    scratch_enter(&stay);
    if (api_set_up(&w, &err) != CKM_OK) {
        fail_msg("cannot set up: %s", err.message);
    }

    const ckm_autodiff_options step = CKM_AUTODIFF_OPTIONS_INIT;
    const ckm_cost_model flops = CKM_COST_MODEL_INIT;
    const ckm_data_options data = small_data();
    const ckm_import_options importing = CKM_IMPORT_OPTIONS_INIT;
    ckm_max_batch_options batches = CKM_MAX_BATCH_OPTIONS_INIT;
    ckm_solve_options solving = CKM_SOLVE_OPTIONS_INIT;
    const ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_profile_options profiling = CKM_PROFILE_OPTIONS_INIT;
    const ckm_program_options kernels = {.size = sizeof kernels, .threads = 1, .backend = "reference"};
    const ckm_session_options session = CKM_SESSION_OPTIONS_INIT;
    ckm_compare_options comparing = CKM_COMPARE_OPTIONS_INIT;
    ckm_timing_options timing = CKM_TIMING_OPTIONS_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    const ckm_rate_schedule rate = CKM_RATE_SCHEDULE_INIT;
    const ckm_trainer_options training = small_trainer();
    const ckm_inference_options forward = small_inference();
    const ckm_zoo_size zoo = CKM_ZOO_SIZE_INIT;
    batches.memory_bytes = 20;  // no batch fits: the graph does not grow with it
    solving.budget_bytes = 30;
    solving.time_limit_seconds = 2;
    profiling.warmup_steps = CKM_NONE;
    profiling.steps = 1;
    comparing.steps = 1;
    timing.rounds = 1;
    course.last_step = 1;

#define ROW(function, type, macro, options)                                                           \
    {                                                                                                 \
#function, #type, #macro, function, &(options), sizeof(type), first_size(#type, sizeof(type)) \
    }
    const row rows[] = {
        ROW(autodiff_op_graph, ckm_autodiff_options, CKM_AUTODIFF_OPTIONS_INIT, step),
        ROW(cost_apply, ckm_cost_model, CKM_COST_MODEL_INIT, flops),
        ROW(data_open, ckm_data_options, CKM_DATA_OPTIONS_INIT, data),
        ROW(data_open_source, ckm_data_options, CKM_DATA_OPTIONS_INIT, data),
        ROW(import_file, ckm_import_options, CKM_IMPORT_OPTIONS_INIT, importing),
        ROW(import_onnx_memory, ckm_import_options, CKM_IMPORT_OPTIONS_INIT, importing),
        ROW(import_values_open, ckm_import_options, CKM_IMPORT_OPTIONS_INIT, importing),
        ROW(max_batch, ckm_max_batch_options, CKM_MAX_BATCH_OPTIONS_INIT, batches),
        ROW(max_batch_solve, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(min_budget, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(solve, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(solve_frontier, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(trainer_fit, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(plan_create, ckm_plan_options, CKM_PLAN_OPTIONS_INIT, packing),
        ROW(run_plan_under_budget, ckm_plan_options, CKM_PLAN_OPTIONS_INIT, packing),
        ROW(profile_measure, ckm_profile_options, CKM_PROFILE_OPTIONS_INIT, profiling),
        ROW(program_create, ckm_program_options, CKM_PROGRAM_OPTIONS_INIT, kernels),
        ROW(session_create, ckm_session_options, CKM_SESSION_OPTIONS_INIT, session),
        ROW(session_compare, ckm_compare_options, CKM_COMPARE_OPTIONS_INIT, comparing),
        ROW(session_time, ckm_timing_options, CKM_TIMING_OPTIONS_INIT, timing),
        ROW(train_run, ckm_train_options, CKM_TRAIN_OPTIONS_INIT, course),
        ROW(train_run_rate, ckm_rate_schedule, CKM_RATE_SCHEDULE_INIT, rate),
        ROW(rate_at, ckm_rate_schedule, CKM_RATE_SCHEDULE_INIT, rate),
        ROW(inference_open, ckm_inference_options, CKM_INFERENCE_OPTIONS_INIT, forward),
        ROW(inference_plan, ckm_inference_options, CKM_INFERENCE_OPTIONS_INIT, forward),
        ROW(inference_kernels, ckm_program_options, CKM_PROGRAM_OPTIONS_INIT, kernels),
        ROW(inference_solve, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(inference_cost_model, ckm_cost_model, CKM_COST_MODEL_INIT, flops),
        ROW(inference_importing, ckm_import_options, CKM_IMPORT_OPTIONS_INIT, importing),
        ROW(trainer_open, ckm_trainer_options, CKM_TRAINER_OPTIONS_INIT, training),
        ROW(trainer_plan, ckm_trainer_options, CKM_TRAINER_OPTIONS_INIT, training),
        ROW(trainer_run, ckm_train_options, CKM_TRAIN_OPTIONS_INIT, course),
        ROW(trainer_step, ckm_autodiff_options, CKM_AUTODIFF_OPTIONS_INIT, step),
        ROW(trainer_kernels, ckm_program_options, CKM_PROGRAM_OPTIONS_INIT, kernels),
        ROW(trainer_solve, ckm_solve_options, CKM_SOLVE_OPTIONS_INIT, solving),
        ROW(trainer_cost_model, ckm_cost_model, CKM_COST_MODEL_INIT, flops),
        ROW(trainer_reading, ckm_data_options, CKM_DATA_OPTIONS_INIT, data),
        ROW(trainer_importing, ckm_import_options, CKM_IMPORT_OPTIONS_INIT, importing),
        ROW(trainer_rate, ckm_rate_schedule, CKM_RATE_SCHEDULE_INIT, rate),
        ROW(zoo_build_sized, ckm_zoo_size, CKM_ZOO_SIZE_INIT, zoo),
    };
    const edge e = {map, page};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bad += check(&e, &rows[i]);
    }
    api_tear_down(&w);
    assert_int_equal(munmap(map, 2 * page), 0);
    scratch_leave(&stay);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_reads_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
