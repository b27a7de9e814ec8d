// SPDX-License-Identifier: Apache-2.0
// Sessions that move tensors when any allocation may fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "moving_step.h"
#include "scratch.h"

static ckm_status run(void *user, ckm_error *err)
{
    moving_step *m = user;
    ckm_session *session = NULL;
    ckm_step_result result;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_status status = ckm_session_create(m->step.program, m->df, m->schedule, m->plan, &options, &session, err);
    assert_true((status == CKM_OK) == (session != NULL));
    if (status == CKM_OK) {
        status = ckm_session_step(session, 0, 0.01, &result, err);
    }
    ckm_session_free(session);
    return status;
}

static ckm_status plan(void *user, ckm_error *err)
{
    moving_step *m = user;
    ckm_plan *made = NULL;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_status status = ckm_plan_create(m->df, m->schedule, &options, &made, err);
    assert_true((status == CKM_OK) == (made != NULL));
    ckm_plan_free(made);
    return status;
}

static ckm_status measure(void *user, ckm_error *err)
{
    moving_step *m = user;
    ckm_second_memory found = {.bytes = -7};
    ckm_status status = ckm_program_measure_second_memory(m->step.program, &found, err);
    assert_true((status == CKM_OK) == (found.bytes == -1));
    return status;
}

static void every_allocation_may_fail(void **state)
{
    const scratch *s = *state;
    moving_step m = moving_step_of("linear1", 4, s->folder);
    assert_true(ckm_schedule_transfer_count(m.schedule) > 0);
    assert_true(alloc_sweep(run, &m) > 15);
    assert_true(alloc_sweep(plan, &m) > 15);
    assert_true(alloc_sweep(measure, &m) > 4);
    assert_int_equal(count_files(s->folder), 0);
    moving_step_dispose(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
