// SPDX-License-Identifier: Apache-2.0
// The promise about memory, tried on the operating system: a process whose address space is limited to what it has
// before training plus the budget and a small constant trains by the schedule, and cannot without rematerialization.
// The resident set grows by the region that was planned and hardly more.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "zoo_step.h"

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#endif
#ifndef ADDRESS_SANITIZER
#define ADDRESS_SANITIZER 0
#endif

// Outside the region: the session's tables, and what the C library takes from the system at a time.
static const int64_t constant_bytes = INT64_C(4) << 20;

// What a child process found out, handed back through a pipe.
typedef struct finding {
    ckm_status status;
    double loss;
    int64_t resident_growth;
    char message[256];
} finding;

typedef struct setting {
    zoo_step step;
    ckm_run_fit tight, loose;  // loose: the step's own schedule and plan
    int64_t budget;
} setting;

static setting set_up(void)
{
    setting s = {0};
    ckm_error err = CKM_ERROR_INIT;
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_plan_options planning = CKM_PLAN_OPTIONS_INIT;
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    s.step = zoo_step_of("unet_mini", 4, 96, &derivation, &kernels);
    s.loose.schedule = s.step.schedule;
    s.loose.plan = s.step.plan;
    good(ckm_run_region_bytes(s.step.df, s.loose.plan, &s.loose.region_bytes, &err), &err);
    s.budget = s.loose.region_bytes * 7 / 10;
    good(ckm_run_plan_under_budget(s.step.df, s.budget, 0, &planning, zoo_step_solve, s.step.df, &s.tight, &err), &err);
    assert_non_null(s.tight.schedule);
    assert_true(s.tight.region_bytes <= s.budget);
    // The limit must tell the two apart.
    assert_true(s.loose.region_bytes > s.budget + constant_bytes);
    return s;
}

static void tear_down(setting *s)
{
    ckm_run_fit_dispose(&s->tight);
    zoo_step_dispose(&s->step);
}

// Pages in /proc/self/statm: 0 is the address space, 1 the resident set.
static int64_t memory_now(int which)
{
    long long pages[2] = {0, 0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%lld %lld", &pages[0], &pages[1]) != 2) {
        pages[which] = 0;
    }
    if (f != NULL) {
        fclose(f);
    }
    return pages[which] * sysconf(_SC_PAGESIZE);
}

static ckm_status train(const setting *s, const ckm_run_fit *fit, finding *found, ckm_error *err)
{
    ckm_session *session = NULL;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    int64_t before = memory_now(1);
    ckm_status status = ckm_session_create(s->step.program, s->step.df, fit->schedule, fit->plan, &options, &session,
                                           err);
    for (int64_t step = 0; status == CKM_OK && step < 2; step++) {
        ckm_step_result result;
        assert_int_equal(ckm_session_fill(session, 1, step, NULL), CKM_OK);
        status = ckm_session_step(session, step, 0.01, &result, err);
        found->loss = status == CKM_OK ? result.loss : 0.0;
    }
    found->resident_growth = memory_now(1) - before;
    ckm_session_free(session);
    return status;
}

// In a process of its own: one run as it likes, so that everything that exists once (threads, code) is there; then,
// when `limited`, one under the limit.
static finding train_apart(const setting *s, const ckm_run_fit *fit, bool limited)
{
    finding found = {.status = CKM_ERR_INTERNAL};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ckm_error err = CKM_ERROR_INIT;
        found.status = train(s, &s->tight, &found, &err);
        if (limited && found.status == CKM_OK) {
            rlim_t bytes = (rlim_t)(memory_now(0) + s->budget + constant_bytes);
            struct rlimit limit = {bytes, bytes};
            found.status = setrlimit(RLIMIT_AS, &limit) == 0 ? train(s, fit, &found, &err) : CKM_ERR_INTERNAL;
        } else if (found.status == CKM_OK) {
            found.status = train(s, fit, &found, &err);
        }
        snprintf(found.message, sizeof found.message, "%.255s", err.message);
        _exit(write(ends[1], &found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &found, sizeof found), sizeof found);
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return found;
}

static void the_address_space_may_be_limited_to_the_budget(void **state)
{
    (void)state;
    if (ADDRESS_SANITIZER) {
        printf("skipped: AddressSanitizer reserves more address space than any limit allows\n");
        skip();
    }
    setting s = set_up();
    finding tight = train_apart(&s, &s.tight, true);
    if (tight.status != CKM_OK) {
        fail_msg("within the budget: %s", tight.message);
    }
    finding loose = train_apart(&s, &s.loose, true);
    assert_int_equal(loose.status, CKM_ERR_MEMORY);
    assert_non_null(strstr(loose.message, "cannot be allocated"));
    finding free_to_grow = train_apart(&s, &s.loose, false);
    assert_int_equal(free_to_grow.status, CKM_OK);
    // With all the memory it likes, the same numbers.
    assert_memory_equal(&free_to_grow.loss, &tight.loss, sizeof tight.loss);
    printf("budget %lld, regions %lld and %lld, growth of the resident set %lld and %lld\n", (long long)s.budget,
           (long long)s.tight.region_bytes, (long long)s.loose.region_bytes, (long long)tight.resident_growth,
           (long long)free_to_grow.resident_growth);
    assert_true(tight.resident_growth <= s.tight.region_bytes + constant_bytes);
    assert_true(tight.resident_growth >= s.tight.region_bytes - constant_bytes);
    assert_true(free_to_grow.resident_growth <= s.loose.region_bytes + constant_bytes);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_space_may_be_limited_to_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
