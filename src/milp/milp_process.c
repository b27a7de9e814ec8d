// SPDX-License-Identifier: Apache-2.0
// Runs an engine in a child process and waits for its answer, a limit or a stop. The answer comes back in
// memory shared with the child.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "milp/milp.h"

// How long an engine that was asked to stop may take to hand over what it has.
static const double grace_seconds = 1.5;

typedef struct shared_answer {
    volatile sig_atomic_t complete;
    ckm_i_milp_answer answer;
    double values[];  // x, then row duals
} shared_answer;

// CBC does not look for a solution of a program without integer columns, and gives no bound.
static bool has_integers(const ckm_i_milp *m)
{
    for (int32_t j = 0; j < m->n_cols; j++) {
        if (m->integer[j]) {
            return true;
        }
    }
    return false;
}

static _Noreturn void run_child(const ckm_i_milp *m, const ckm_i_milp_options *options, shared_answer *shared)
{
    // A group of its own: a terminal's Ctrl-C reaches the parent, which decides what to do with it.
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
    double *x = shared->values;
    if (options->relax || !has_integers(m)) {
        ckm_i_milp_run_clp(m, options, &shared->answer, x, x + m->n_cols);
    } else {
        ckm_i_milp_run_cbc(m, options, &shared->answer, x);
    }
    shared->complete = 1;
    _exit(0);
}

static void pause_briefly(double elapsed)
{
    // Short at first so that small programs answer at once, then gentle.
    long ns = elapsed < 0.05 ? 200000L : 5000000L;
    struct timespec nap = {.tv_sec = 0, .tv_nsec = ns};
    nanosleep(&nap, NULL);
}

// Waits until the child has ended. Beyond the limit it is asked to stop, beyond the grace it is killed.
static void wait_for(pid_t child, const ckm_i_milp_options *options)
{
    double start = ckm_i_clock_seconds();
    double asked = INFINITY;
    for (;;) {
        int how;
        pid_t ended = waitpid(child, &how, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR)) {
            return;
        }
        double now = ckm_i_clock_seconds();
        bool stop = options->stop != NULL && options->stop(options->user);
        if (isinf(asked) && (stop || now - start > options->seconds + 0.25)) {
            kill(child, SIGINT);
            asked = now;
        } else if (now - asked > grace_seconds) {
            kill(child, SIGKILL);
        }
        pause_briefly(now - start);
    }
}

static ckm_status take_answer(const ckm_i_milp *m, const shared_answer *shared, ckm_i_milp_result *result,
                              ckm_error *err)
{
    ckm_i_milp_result found = {.status = CKM_I_MILP_STOPPED, .objective = NAN, .bound = -INFINITY};
    if (shared->complete) {
        const ckm_i_milp_answer *answer = &shared->answer;
        found.status = (ckm_i_milp_status)answer->status;
        found.bound = answer->bound;
        memcpy(found.detail, answer->detail, sizeof found.detail);
        found.detail[sizeof found.detail - 1] = '\0';
        if (answer->has_x) {
            found.objective = answer->objective;
            found.x = ckm_i_memdup(shared->values, (size_t)m->n_cols, sizeof *found.x);
        }
        if (answer->has_dual) {
            found.row_dual = ckm_i_memdup(shared->values + m->n_cols, (size_t)m->n_rows, sizeof *found.row_dual);
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

// A program without columns: the engines have no opinion on it.
static ckm_status solve_empty(const ckm_i_milp *m, ckm_i_milp_result *result, ckm_error *err)
{
    ckm_i_milp_result found = {.status = CKM_I_MILP_OPTIMAL, .objective = 0.0, .bound = 0.0};
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
        found.bound = -INFINITY;
    }
    strcpy(found.detail, "nothing to decide");
    *result = found;
    return CKM_OK;
}

ckm_status ckm_i_milp_solve(const ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_result *result,
                            ckm_error *err)
{
    ckm_status status = ckm_i_milp_check(m, err);
    if (status != CKM_OK) {
        return status;
    }
    if (m->n_cols == 0) {
        return solve_empty(m, result, err);
    }
    size_t values = (size_t)m->n_cols + (size_t)m->n_rows;
    size_t bytes = sizeof(shared_answer) + values * sizeof(double);
    shared_answer *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return ckm_i_error_memory(err);
    }
    pid_t child = fork();
    if (child == 0) {
        run_child(m, options, shared);
    }
    if (child < 0) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL, "cannot start a process for the LP/MIP engine: %s",
                             strerror(errno));
    } else {
        wait_for(child, options);
        status = take_answer(m, shared, result, err);
    }
    munmap(shared, bytes);
    return status;
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
