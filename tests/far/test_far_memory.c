// SPDX-License-Identifier: Apache-2.0
// That the far back end tells on those who look: reading a session's memory directly is a fault, and what was asked for is
// not done before somebody waits for it.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

#include "run/session/session.h"

static ckm_trainer *begin(ckm_graph **network)
{
    ckm_trainer_options options = CKM_TRAINER_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_data_options reading = CKM_DATA_OPTIONS_INIT;
    kernels.backend = "reference";
    reading.synthetic_samples = 8;
    ckm_trainer *trainer = NULL;
    options.budget_bytes = INT64_C(1) << 30;
    options.costs = CKM_TRAINER_COSTS_MODEL;
    options.kernels = &kernels;
    options.reading = &reading;
    assert_int_equal(ckm_zoo_build("test", 2, (const int64_t[]){8, 8, 3}, network, NULL), CKM_OK);
    assert_int_equal(ckm_trainer_open(*network, &options, &trainer, NULL), CKM_OK);
    return trainer;
}

static void the_host_has_no_access(void **state)
{
    ckm_graph *network = NULL;
    ckm_trainer *trainer = begin(&network);
    ckm_session *session = ckm_trainer_session(trainer);
    int how = 0;
    (void)state;
    assert_null(ckm_i_session_host(session, 0));
    for (int writes = 0; writes < 2; writes++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            const struct rlimit none = {0, 0};
            signal(SIGSEGV, SIG_DFL);
            setrlimit(RLIMIT_CORE, &none);
            volatile char *at = session->addresses[0];
            if (writes) {
                *at = 1;
            }
            _exit(*at);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);
    }
    ckm_trainer_close(trainer);
    ckm_graph_free(network);
}

static void work_is_done_late(void **state)
{
    ckm_graph *network = NULL;
    ckm_trainer *trainer = begin(&network);
    ckm_session *session = ckm_trainer_session(trainer);
    ckm_i_backend *backend = session->program->backend;
    int64_t early = -1;
    int64_t late = -1;
    float one = 1.0F;
    float found = 0.0F;
    (void)state;
    assert_int_equal(backend->memory->mark(backend, &early, NULL), CKM_OK);
    assert_int_equal(ckm_session_write(session, 0, 0, sizeof one, &one, NULL), CKM_OK);
    assert_int_equal(backend->memory->mark(backend, &late, NULL), CKM_OK);
    one = 2.0F;  // the caller's again
    assert_int_equal(early, -1);
    assert_int_equal(late, -1);
    assert_int_equal(ckm_session_read(session, 0, 0, sizeof found, &found, NULL), CKM_OK);
    assert_true(found == 1.0F);
    assert_true(early > 0 && late >= early);
    ckm_trainer_close(trainer);
    ckm_graph_free(network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_has_no_access),
        cmocka_unit_test(work_is_done_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
