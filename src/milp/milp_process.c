// SPDX-License-Identifier: Apache-2.0
// Runs an engine in a child process, or in one of the helper's, and waits for its answer, a limit or a stop. The answer
// comes back in memory shared with the child.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "milp/milp_shared.h"

// How long an engine may take to return its result after it was asked to stop.
static const double grace_seconds = 0.5;

struct ckm_i_milp_job {
    pid_t child;                // 0: has ended, or is the helper's
    ckm_i_milp_helper *helper;  // runs it, NULL: a child of this process does
    int32_t n_cols, n_rows;
    ckm_i_milp_shared *shared;  // NULL: nothing to run, the result is there already
    size_t shared_bytes;
    ckm_i_milp_result empty;
    double start_seconds, asked_seconds, limit_seconds;
    ckm_stop_fn stop;
    void *user;
};

static void pause_briefly(double elapsed)
{
    // Short at first so that small programs answer at once, then longer.
    long ns = elapsed < 0.05 ? 200000L : 5000000L;
    struct timespec nap = {.tv_sec = 0, .tv_nsec = ns};
    nanosleep(&nap, NULL);
}

// Whether the engine's process has ended, as far as one can tell without waiting.
static bool has_ended(ckm_i_milp_job *job)
{
    if (job->helper != NULL) {
        return ckm_i_milp_helper_is_done(job->helper);
    }
    if (job->child == 0) {
        return true;
    }
    int how;
    pid_t ended = waitpid(job->child, &how, WNOHANG);
    if (ended == job->child || (ended < 0 && errno != EINTR)) {
        job->child = 0;
    }
    return job->child == 0;
}

static void send_signal(const ckm_i_milp_job *job, int number)
{
    if (job->helper != NULL) {
        ckm_i_milp_helper_signal(job->helper, number);
    } else {
        kill(job->child, number);
    }
}

bool ckm_i_milp_poll(ckm_i_milp_job *job)
{
    if (has_ended(job)) {
        return true;
    }
    // After the limit it is asked to stop, after the grace period it is killed.
    double now = ckm_i_clock_seconds();
    bool stop = job->stop != NULL && job->stop(job->user);
    if (isinf(job->asked_seconds) && (stop || now - job->start_seconds > job->limit_seconds + 0.25)) {
        send_signal(job, SIGINT);
        job->asked_seconds = now;
    } else if (now - job->asked_seconds > grace_seconds) {
        send_signal(job, SIGKILL);
    }
    return false;
}

double ckm_i_milp_proven(const ckm_i_milp_job *job)
{
    return job->shared != NULL ? job->shared->answer.proven : job->empty.proven;
}

static ckm_status take_answer(const ckm_i_milp_job *job, ckm_i_milp_result *result, ckm_error *err)
{
    const ckm_i_milp_shared *shared = job->shared;
    ckm_i_milp_result found = {.status = CKM_I_MILP_STOPPED, .objective = NAN};
    found.proven = shared->answer.proven;
    if (atomic_load(&shared->complete)) {
        const ckm_i_milp_answer *answer = &shared->answer;
        found.status = (ckm_i_milp_status)answer->status;
        memcpy(found.detail, answer->detail, sizeof found.detail);
        found.detail[sizeof found.detail - 1] = '\0';
        found.has_line = answer->has_line != 0;
        found.line = answer->line;
        if (answer->has_x) {
            found.objective = answer->objective;
            found.x = ckm_i_memdup(shared->values, (size_t)job->n_cols, sizeof *found.x);
        }
        if (answer->has_dual) {
            found.row_dual = ckm_i_memdup(shared->values + job->n_cols, (size_t)job->n_rows, sizeof *found.row_dual);
        }
        if ((answer->has_x && found.x == NULL) || (answer->has_dual && found.row_dual == NULL)) {
            ckm_i_milp_result_dispose(&found);
            return ckm_i_error_memory(err);
        }
    } else {
        strcpy(found.detail, "ended without an answer");
    }
    *result = found;
    return CKM_OK;
}

// A program without columns, which the engines do not accept.
static ckm_status solve_empty(const ckm_i_milp *m, ckm_i_milp_result *result, ckm_error *err)
{
    ckm_i_milp_result found = {.status = CKM_I_MILP_OPTIMAL};
    for (int32_t i = 0; i < m->n_rows; i++) {
        if (m->row_lower[i] > 0.0 || m->row_upper[i] < 0.0) {
            found.status = CKM_I_MILP_INFEASIBLE;
        }
    }
    if (found.status == CKM_I_MILP_OPTIMAL) {
        found.x = ckm_i_calloc(0, sizeof *found.x);
        found.row_dual = ckm_i_calloc((size_t)m->n_rows, sizeof *found.row_dual);
        if (found.x == NULL || found.row_dual == NULL) {
            ckm_i_milp_result_dispose(&found);
            return ckm_i_error_memory(err);
        }
    } else {
        found.objective = NAN;
        found.proven = INFINITY;
    }
    strcpy(found.detail, "nothing to decide");
    *result = found;
    return CKM_OK;
}

static void free_job(ckm_i_milp_job *job)
{
    if (job == NULL) {
        return;
    }
    if (job->helper != NULL) {
        ckm_i_milp_helper_release(job->helper);
    } else if (job->shared != NULL) {
        munmap(job->shared, job->shared_bytes);
    }
    ckm_i_milp_result_dispose(&job->empty);
    free(job);
}

// An engine that cannot be started counts as one that found nothing: the caller continues with what it has.
static void give_up(ckm_i_milp_job *job, int problem)
{
    job->empty = (ckm_i_milp_result){
        .status = CKM_I_MILP_STOPPED, .objective = NAN, .proven = -INFINITY, .missing = true};
    snprintf(job->empty.detail, sizeof job->empty.detail, "cannot start a process for the engine: %s",
             strerror(problem));
}

// In the helper: the same, but for the fork.
static void start_with_helper(const ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_job *job)
{
    int problem = ckm_i_milp_helper_begin(options->helper, m, options, &job->shared);
    if (problem != 0) {
        give_up(job, problem);
    } else {
        job->helper = options->helper;
    }
}

static void start_child(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_job *job)
{
    size_t values = (size_t)m->n_cols + (size_t)m->n_rows;
    job->shared_bytes = sizeof(ckm_i_milp_shared) + values * sizeof(double);
    ckm_i_milp_shared *shared = mmap(NULL, job->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                                     0);
    if (shared == MAP_FAILED) {
        give_up(job, errno);
        return;
    }
    shared->answer.proven = -INFINITY;
    shared->answer.has_line = 0;
    pid_t parent = getpid();
    pid_t child = fork();
    if (child == 0) {
        ckm_i_milp_settle_child(parent);
        ckm_i_milp_run_child(m, options, shared);
    }
    if (child < 0) {
        give_up(job, errno);
        munmap(shared, job->shared_bytes);
        return;
    }
    job->shared = shared;
    job->child = child;
}

ckm_status ckm_i_milp_start(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_job **job, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_milp_check(m, err));
    ckm_status status = CKM_OK;
    ckm_i_milp_job *started = ckm_i_calloc(1, sizeof *started);
    if (started == NULL) {
        return ckm_i_error_memory(err);
    }
    started->n_cols = m->n_cols;
    started->n_rows = m->n_rows;
    started->start_seconds = ckm_i_clock_seconds();
    started->asked_seconds = INFINITY;
    started->limit_seconds = options->seconds;
    started->stop = options->stop;
    started->user = options->user;
    if (m->n_cols == 0) {
        CKM_I_TRY(solve_empty(m, &started->empty, err));
    } else if (options->helper != NULL) {
        start_with_helper(m, options, started);
    } else {
        start_child(m, options, started);
    }
    *job = started;
    started = NULL;
cleanup:
    free_job(started);
    return status;
}

ckm_status ckm_i_milp_finish(ckm_i_milp_job *job, ckm_i_milp_result *result, ckm_error *err)
{
    while (!ckm_i_milp_poll(job)) {
        pause_briefly(ckm_i_clock_seconds() - job->start_seconds);
    }
    ckm_status status = CKM_OK;
    if (job->shared != NULL) {
        status = take_answer(job, result, err);
    } else {
        *result = job->empty;
        job->empty = (ckm_i_milp_result){0};
    }
    free_job(job);
    return status;
}

void ckm_i_milp_abandon(ckm_i_milp_job *job)
{
    if (job == NULL) {
        return;
    }
    if (job->helper != NULL) {
        ckm_i_milp_helper_signal(job->helper, SIGKILL);
    } else if (job->child != 0) {
        kill(job->child, SIGKILL);
        while (waitpid(job->child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    free_job(job);
}

ckm_status ckm_i_milp_solve(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_result *result, ckm_error *err)
{
    ckm_i_milp_job *job = NULL;
    CKM_I_CHECK(ckm_i_milp_start(m, options, &job, err));
    return ckm_i_milp_finish(job, result, err);
}

void ckm_i_milp_result_dispose(ckm_i_milp_result *result)
{
    if (result != NULL) {
        free(result->x);
        free(result->row_dual);
        result->x = NULL;
        result->row_dual = NULL;
    }
}
