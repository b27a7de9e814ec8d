// SPDX-License-Identifier: Apache-2.0
// Training with two threads in a child of a process that had trained with two never answered: the child waited for OpenMP's threads,
// which fork does not copy.
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

static ckm_status train(int threads, ckm_error *err)
{
    ckm_graph *graph = NULL;
    ckm_trainer *trainer = NULL;
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    ckm_train_result result;
    kernels.threads = threads;
    options.kernels = &kernels;
    options.budget_bytes = INT64_C(1) << 40;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    course.last_step = 1;
    ckm_status status = ckm_zoo_build("linear2", 2, (const int64_t[]){32, 32, 3}, &graph, err);
    if (status == CKM_OK) {
        status = ckm_trainer_open(graph, &options, &trainer, err);
    }
    if (status == CKM_OK) {
        status = ckm_trainer_run(trainer, &course, &result, err);
    }
    ckm_trainer_close(trainer);
    ckm_graph_free(graph);
    return status;
}

static void *train_in_a_thread(void *user)
{
    ckm_error err = CKM_ERROR_INIT;
    *(ckm_status *)user = train(2, &err);
    return NULL;
}

// 0, or which of the expectations does not hold.
static int in_the_child(void)
{
    ckm_error err = CKM_ERROR_INIT;
    pthread_t thread;
    ckm_status status = CKM_ERR_INTERNAL;
    if (train(2, &err) != CKM_ERR_UNSUPPORTED || strstr(err.message, "forked") == NULL) {
        return 1;
    }
    if (train(1, &err) != CKM_OK) {
        return 2;
    }
    if (pthread_create(&thread, NULL, train_in_a_thread, &status) != 0) {
        return 3;
    }
    pthread_join(thread, NULL);
    return status == CKM_OK ? 0 : 4;
}

static void a_child_has_an_answer(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    int ended = 0;
    assert_int_equal(train(2, &err), CKM_OK);
    pid_t child = fork();
    if (child == 0) {
        alarm(100);
        _exit(in_the_child());
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
    assert_int_equal(train(2, &err), CKM_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_has_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
