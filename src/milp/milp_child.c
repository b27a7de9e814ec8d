// SPDX-License-Identifier: Apache-2.0
// The child's side: an engine runs, its answer goes to shared memory, and the process ends.
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/clock.h"
#include "milp/milp_shared.h"

// Share of the time that cutting planes may take before the tree search begins.
static const double cut_share = 0.3;

// Tree searches one after the other, each with the last one's solution cut off.
enum { most_searches = 100 };

// Share of the time left for the search for a solution before the tree search; it ends early if the engine considers itself done.
static const double solution_share = 0.5;

// The most by which a safe bound is below the objective that it proves, relative to it.
static const double proof_tolerance = 1e-7;

// CBC does not look for a solution of a program without integer columns.
static bool has_integers(const ckm_i_milp *m)
{
    for (int32_t j = 0; j < m->n_cols; j++) {
        if (m->integer[j]) {
            return true;
        }
    }
    return false;
}

// A solution that satisfies only the widened rows is invalid: it is cut off, and the search begins anew.
static void search_solution(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x)
{
    double end = ckm_i_clock_seconds() + options->seconds;
    ckm_i_milp_options rest = *options;
    for (int searches = 1;; searches++) {
        ckm_i_milp_run_cbc(m, &rest, answer, x);
        if (!options->widen_rows || !answer->has_x || ckm_i_milp_cut_off(m, x) == 0) {
            return;
        }
        rest.seconds = end - ckm_i_clock_seconds();
        if (searches == most_searches || rest.seconds <= 0.0) {
            return;
        }
        answer->has_x = 0;
    }
}

// A solution by CBC, which makes the tree smaller, and what is proven by the tree. The status says what is proven, too.
static void solve_integer(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x)
{
    double end = ckm_i_clock_seconds() + options->seconds;
    ckm_i_milp_options rest = *options;
    rest.seconds = options->solution_only ? options->seconds : solution_share * options->seconds;
    search_solution(m, &rest, answer, x);
    rest.seconds = end - ckm_i_clock_seconds();
    if (answer->has_x) {
        rest.enough = fmin(rest.enough, answer->objective - options->gap);
    }
    if (!options->solution_only && answer->proven < rest.enough && rest.seconds > 0.0) {
        ckm_i_milp_run_tree(m, &rest, answer);
    }
    if (answer->has_x) {
        bool proven = answer->proven >= answer->objective - options->gap - proof_tolerance * fabs(answer->objective);
        answer->status = proven ? CKM_I_MILP_OPTIMAL : CKM_I_MILP_FEASIBLE;
    } else {
        answer->status = answer->proven == INFINITY ? CKM_I_MILP_INFEASIBLE : CKM_I_MILP_STOPPED;
    }
}

// The relaxation with its cutting planes first, then the integer program on what binds, in the time that is left.
static void run_engines(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_shared *shared)
{
    double *x = shared->values;
    ckm_i_milp_answer *answer = &shared->answer;
    if (options->relax || !has_integers(m)) {
        ckm_i_milp_run_clp(m, options, answer, x, x + m->n_cols);
        return;
    }
    double end = ckm_i_clock_seconds() + options->seconds;
    ckm_i_milp_options rest = *options;
    if (options->separate != NULL) {
        rest.seconds = options->seconds * cut_share;
        rest.relax = true;
        rest.n_whole = 0;
        ckm_i_milp_run_clp(m, &rest, answer, x, x + m->n_cols);
        answer->has_x = 0;
        answer->has_dual = 0;
        answer->status = answer->proven == INFINITY ? CKM_I_MILP_INFEASIBLE : CKM_I_MILP_STOPPED;
        if (answer->proven >= options->enough || answer->proven == INFINITY) {
            return;
        }
        rest = *options;
        rest.seconds = end - ckm_i_clock_seconds();
    }
    solve_integer(m, &rest, answer, x);
}

void ckm_i_milp_settle_child(pid_t parent)
{
    // A separate process group: a terminal's Ctrl-C reaches only the parent, which decides what to do with it.
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) {
        _exit(1);
    }
    // Signal handlers are inherited. Those for faults, such as Python's faulthandler, would report that the parent crashed.
    static const int ours[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        signal(ours[i], SIG_DFL);
    }
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        dup2(nowhere, STDERR_FILENO);
    }
}

_Noreturn void ckm_i_milp_run_child(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_shared *shared)
{
    run_engines(m, options, shared);
    atomic_store(&shared->complete, true);
    _exit(0);
}
