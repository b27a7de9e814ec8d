// SPDX-License-Identifier: Apache-2.0
// Sessions whose schedule moves tensors to a file and back: bit for bit those whose schedule does not.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/profile.h>

#include "moving_step.h"
#include "quoted.h"
#include "scratch.h"

static void steps_agree_bit_for_bit(void **state)
{
    static const char *const networks[] = {"linear8", "MobileNet"};
    const scratch *s = *state;
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        moving_step m = moving_step_of(networks[i], 32, s->folder);
        ckm_compare_options options = CKM_COMPARE_OPTIONS_INIT;
        ckm_compare_result result;
        ckm_error err = CKM_ERROR_INIT;
        ckm_plan_verdict verdict;
        good(ckm_plan_verify(m.df, m.schedule, m.plan, 64, &verdict, &err), &err);
        assert_string_equal(verdict.why, "");
        // What is away takes nothing.
        assert_true(ckm_schedule_transfer_count(m.schedule) > 20);
        assert_true(ckm_plan_get_info(m.plan)->bound_bytes < ckm_plan_get_info(m.step.plan)->bound_bytes);
        options.steps = 2;
        good(ckm_session_compare(m.step.program, m.df, &(ckm_session_side){m.step.schedule, m.step.plan},
                                 &(ckm_session_side){m.schedule, m.plan}, &options, &result, &err),
             &err);
        assert_string_equal(result.why, "");
        assert_true(result.equal);
        assert_int_equal(count_files(s->folder), 0);
        moving_step_dispose(&m);
    }
}

static void a_session_says_what_it_moves(void **state)
{
    const scratch *s = *state;
    moving_step m = moving_step_of("linear8", 32, s->folder);
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_step_result result;
    good(ckm_session_create(m.step.program, m.df, m.schedule, m.plan, &options, &session, &err), &err);
    ckm_session_transfers moved = ckm_session_get_transfers(session);
    assert_int_equal(moved.moves_out * 2 + moved.moves_in * 2, ckm_schedule_transfer_count(m.schedule));
    assert_int_equal(moved.moves_out, moved.moves_in);
    assert_int_equal(moved.out_bytes, moved.in_bytes);
    assert_true(moved.out_bytes > 0 && moved.file_bytes > 0 && moved.file_bytes % 4096 == 0);
    assert_true(moved.waited_seconds == 0.0);
    good(ckm_session_fill(session, 1, 0, &err), &err);
    good(ckm_session_step(session, 0, 0.01, &result, &err), &err);
    assert_true(ckm_session_get_transfers(session).waited_seconds > 0.0);
    ckm_session_free(session);
    ckm_timing timing;
    ckm_timing_options rounds = CKM_TIMING_OPTIONS_INIT;
    rounds.rounds = 1;
    good(ckm_session_time(m.step.program, m.df, &(ckm_session_side){m.step.schedule, m.step.plan},
                          &(ckm_session_side){m.schedule, m.plan}, &rounds, &timing, &err),
         &err);
    // At least as long as the links are busy: all leave one way at 1 GB/s.
    assert_true(timing.second_predicted_seconds > (double)moved.out_bytes * 1e-9);
    moving_step_dispose(&m);
}

static void without_a_second_memory_it_is_refused(void **state)
{
    (void)state;
    moving_step m = moving_step_of("linear8", 32, NULL);
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_second_memory measured;
    assert_int_equal(ckm_session_create(m.step.program, m.df, m.schedule, m.plan, &options, &session, &err),
                     CKM_ERR_ARGUMENT);
    assert_error(&err, CKM_ERR_ARGUMENT, "the program has none");
    assert_int_equal(ckm_program_measure_second_memory(m.step.program, &measured, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_program_second_memory_bytes(m.step.program), 0);
    moving_step_dispose(&m);
    m = moving_step_of("linear8", 32, "/nowhere/at/all");
    assert_int_equal(ckm_session_create(m.step.program, m.df, m.schedule, m.plan, &options, &session, &err),
                     CKM_ERR_IO);
    assert_error(&err, CKM_ERR_IO, "cannot make a file");
    assert_true(ckm_program_second_memory_bytes(m.step.program) > 0);
    moving_step_dispose(&m);
}

static void speeds_are_measured(void **state)
{
    const scratch *s = *state;
    moving_step m = moving_step_of("linear8", 32, s->folder);
    ckm_error err = CKM_ERROR_INIT;
    ckm_second_memory measured = {0};
    good(ckm_program_measure_second_memory(m.step.program, &measured, &err), &err);
    assert_true(measured.out_bytes_per_second > 0 && measured.in_bytes_per_second > 0 && measured.latency_ns > 0);
    assert_int_equal(measured.bytes, -1);
    assert_string_equal(measured.name, s->folder);
    moving_step_dispose(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_agree_bit_for_bit, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_session_says_what_it_moves, scratch_set_up, scratch_tear_down),
        cmocka_unit_test(without_a_second_memory_it_is_refused),
        cmocka_unit_test_setup_teardown(speeds_are_measured, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
