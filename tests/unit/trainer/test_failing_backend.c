// SPDX-License-Identifier: Apache-2.0
// A back end whose calls fail, each in turn: in a course of training with everything around it, the failure is what the
// caller is told, and no memory, kernel or back end is left behind.
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

// This file's own copy of the list of back ends takes the place of the library's.
#define CKM_BACKEND_WRAP failing_wrap
#include "run/backend/backend.c"
#include "scratch.h"

typedef struct failing {
    int64_t calls, fail_at;  // of all that can fail; -1: none does
    int regions, kernels, backends;
    const char *what;  // that failed
} failing;
static failing f;

static bool fails(const char *what, ckm_error *err)
{
    if (f.calls++ != f.fail_at) {
        return false;
    }
    f.what = what;
    (void)!ckm_i_error(err, CKM_ERR_IO, "the device fell off the bus in %s", what);
    return true;
}

#define INNER ((ckm_i_backend *)backend->state)
#define FAIL(what)          \
    if (fails(what, err)) { \
        return CKM_ERR_IO;  \
    }

static ckm_status allocate(ckm_i_backend *backend, int64_t bytes, bool touch, char **out, ckm_error *err)
{
    FAIL("allocate")
    CKM_I_CHECK(INNER->memory->allocate(INNER, bytes, touch, out, err));
    f.regions++;
    return CKM_OK;
}

static void release(ckm_i_backend *backend, char *address, int64_t bytes)
{
    f.regions--;
    INNER->memory->release(INNER, address, bytes);
}

static ckm_status copy_in(ckm_i_backend *backend, char *to, const void *from, int64_t bytes, ckm_error *err)
{
    FAIL("copy_in")
    return INNER->memory->copy_in(INNER, to, from, bytes, err);
}

static ckm_status copy_out(ckm_i_backend *backend, void *to, const char *from, int64_t bytes, ckm_error *err)
{
    FAIL("copy_out")
    return INNER->memory->copy_out(INNER, to, from, bytes, err);
}

static ckm_status clear(ckm_i_backend *backend, char *to, int64_t bytes, ckm_error *err)
{
    FAIL("clear")
    return INNER->memory->clear(INNER, to, bytes, err);
}

static ckm_status synchronize(ckm_i_backend *backend, ckm_error *err)
{
    FAIL("synchronize")
    return INNER->memory->synchronize(INNER, err);
}

static ckm_status mark(ckm_i_backend *backend, int64_t *nanoseconds, ckm_error *err)
{
    FAIL("mark")
    return INNER->memory->mark(INNER, nanoseconds, err);
}

static int64_t free_bytes(ckm_i_backend *backend)
{
    return INNER->memory->free_bytes(INNER);
}

static ckm_status prepare(ckm_i_backend *backend, const ckm_graph *step, int32_t op, ckm_i_kernel **out,
                          int64_t *workspace_bytes, ckm_error *err)
{
    FAIL("prepare")
    CKM_I_CHECK(INNER->prepare(INNER, step, op, out, workspace_bytes, err));
    f.kernels++;
    return CKM_OK;
}

static ckm_status run(ckm_i_backend *backend, ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err)
{
    FAIL("run")
    return INNER->run(INNER, kernel, call, err);
}

static void free_kernel(ckm_i_backend *backend, ckm_i_kernel *kernel)
{
    f.kernels -= kernel != NULL;
    INNER->free_kernel(INNER, kernel);
}

static void destroy(ckm_i_backend *backend)
{
    ckm_i_backend_destroy(INNER);
    free(backend);
    f.backends--;
}

ckm_status failing_wrap(ckm_i_backend *inner, ckm_i_backend **out, ckm_error *err)
{
    static const ckm_i_memory memory = {.host = false,
                                        .alignment = 64,
                                        .allocate = allocate,
                                        .release = release,
                                        .copy_in = copy_in,
                                        .copy_out = copy_out,
                                        .clear = clear,
                                        .synchronize = synchronize,
                                        .mark = mark,
                                        .free_bytes = free_bytes};
    ckm_i_backend *backend = calloc(1, sizeof *backend);
    assert_non_null(backend);
    (void)err;
    *backend = *inner;
    backend->state = inner;
    backend->memory = &memory;
    backend->prepare = prepare;
    backend->run = run;
    backend->start = NULL;
    backend->free_kernel = free_kernel;
    backend->destroy = destroy;
    f.backends++;
    *out = backend;
    return CKM_OK;
}

static ckm_graph *small_network(void)
{
    ckm_network *net = NULL;
    ckm_graph *graph = NULL;
    assert_int_equal(ckm_network_create("small", 2, &net, NULL), CKM_OK);
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (const int64_t[]){6, 6, 1});
    x = ckm_network_conv(net, x, (ckm_conv_layer){.filters = 2, .kernel = {3}, .activation = "relu"});
    x = ckm_network_batch_norm(net, x, (ckm_batch_norm_layer){.name = NULL});
    x = ckm_network_dense(net, ckm_network_flatten(net, x, NULL), NULL, 3, NULL);
    assert_int_equal(ckm_network_finish(net, x, &graph, NULL), CKM_OK);
    ckm_network_free(net);
    return graph;
}

static ckm_trainer_options plain_options(void)
{
    static const ckm_program_options kernels = {.size = sizeof kernels, .backend = "reference", .threads = 1};
    static const ckm_data_options reading = {.size = sizeof reading, .synthetic_samples = 8};
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    return options;
}

static ckm_status measure(ckm_trainer *trainer, ckm_error *err)
{
    ckm_profile_options options = CKM_PROFILE_OPTIONS_INIT;
    ckm_profile *profile = NULL;
    ckm_plan *plan = NULL;
    options.warmup_steps = CKM_NONE;
    options.steps = 1;
    const ckm_dataflow *df = ckm_trainer_dataflow(trainer);
    const ckm_schedule *schedule = ckm_trainer_schedule(trainer);
    const ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    CKM_I_CHECK(ckm_plan_create(df, schedule, &packing, &plan, err));
    ckm_status status = ckm_profile_measure((ckm_program *)(uintptr_t)ckm_trainer_program(trainer), df, schedule, plan,
                                            &options, &profile, err);
    ckm_profile_free(profile);
    ckm_plan_free(plan);
    return status;
}

static ckm_status go_on(ckm_trainer *trainer, ckm_error *err)
{
    ckm_compare_result compared;
    ckm_timing timing;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    course.last_step = 2;
    CKM_I_CHECK(measure(trainer, err));
    CKM_I_CHECK(ckm_trainer_check(trainer, 1, 0.01, &compared, err));
    CKM_I_CHECK(ckm_trainer_time(trainer, 1, &timing, err));
    CKM_I_CHECK(ckm_trainer_begin(trainer, err));
    CKM_I_CHECK(ckm_trainer_run(trainer, &course, &result, err));
    CKM_I_CHECK(ckm_trainer_save(trainer, "state", err));
    return ckm_trainer_export(trainer, "weights.safetensors", err);
}

static ckm_status train(const ckm_graph *graph, const char *resume, ckm_error *err)
{
    ckm_trainer_options options = plain_options();
    ckm_trainer *trainer = NULL;
    options.resume = resume;
    CKM_I_CHECK(ckm_trainer_plan(graph, &options, &trainer, err));
    ckm_status status = resume == NULL ? go_on(trainer, err) : ckm_trainer_begin(trainer, err);
    ckm_trainer_close(trainer);
    return status;
}

// Trains once for each call, which fails. How often a measurement repeats depends on the clock, so the last calls may not
// be reached again: such a course must end well.
static int sweep(const ckm_graph *graph, const char *resume)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t reached = 0;
    int bad = 0;
    f = (failing){.fail_at = -1};
    if (train(graph, resume, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    int64_t calls = f.calls;
    assert_true(calls > 10);
    for (int64_t i = 0; i < calls; i++) {
        f = (failing){.fail_at = i};
        err = (ckm_error)CKM_ERROR_INIT;
        ckm_status status = train(graph, resume, &err);
        bool told = f.what == NULL ? status == CKM_OK
                                   : status != CKM_OK && strstr(err.message, "the device fell off the bus") != NULL;
        reached += f.what != NULL;
        if (!told || f.regions != 0 || f.kernels != 0 || f.backends != 0) {
            printf("call %lld of %lld, %s: %s: %s; %d regions, %d kernels, %d back ends are left\n", (long long)i,
                   (long long)calls, f.what != NULL ? f.what : "not reached", ckm_status_name(status), err.message,
                   f.regions, f.kernels, f.backends);
            bad++;
        }
    }
    printf("%lld calls of %lld failed in turn\n", (long long)reached, (long long)calls);
    assert_true(reached > calls / 2);
    return bad;
}

static void every_failure_is_told(void **state)
{
    scratch_stay stay;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = small_network();
    (void)state;
    scratch_enter(&stay);
    int bad = sweep(graph, NULL);
    f = (failing){.fail_at = -1};
    if (train(graph, NULL, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    bad += sweep(graph, "state");
    ckm_graph_free(graph);
    scratch_leave(&stay);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_failure_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
