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

// A solution that only satisfies the widened rows is none: it is cut off, and the search begins anew. The bound of the last
// search that ended is that of the answer.
static void search_tree(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_answer *answer, double *x)
{
    double end = ckm_i_clock_seconds() + options->seconds;
    double bound = -INFINITY;
    ckm_i_milp_options rest = *options;
    for (int searches = 1;; searches++) {
        ckm_i_milp_run_cbc(m, &rest, answer, x);
        answer->bound = fmax(answer->bound, bound);
        if (!options->widen_rows || !answer->has_x || ckm_i_milp_cut_off(m, x) == 0) {
            return;
        }
        bound = answer->bound;
        rest.seconds = end - ckm_i_clock_seconds();
        if (searches == most_searches || rest.seconds <= 0.0) {
            return;
        }
        answer->has_x = 0;
    }
}

// The relaxation with its cutting planes first, then the tree search on what binds, in the time that is left.
static void run_engines(ckm_i_milp *m, const ckm_i_milp_options *options, ckm_i_milp_shared *shared)
{
    double *x = shared->values;
    ckm_i_milp_options rest = *options;
    bool integer = !options->relax && has_integers(m);
    if (integer && options->separate != NULL) {
        double start = ckm_i_clock_seconds();
        rest.seconds = options->seconds * cut_share;
        ckm_i_milp_run_clp(m, &rest, &shared->answer, x, x + m->n_cols);
        rest.seconds = options->seconds - (ckm_i_clock_seconds() - start);
        shared->answer.has_x = 0;
        shared->answer.has_dual = 0;
        if (shared->answer.proven >= options->enough || shared->answer.proven == INFINITY) {
            return;
        }
    }
    if (integer) {
        search_tree(m, &rest, &shared->answer, x);
    } else {
        ckm_i_milp_run_clp(m, &rest, &shared->answer, x, x + m->n_cols);
    }
}

void ckm_i_milp_settle_child(void)
{
    // A group of its own: a terminal's Ctrl-C reaches the parent, which decides what to do with it.
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    // Handlers are the parent's. Those of faults, such as Python's faulthandler, would say that the parent had crashed.
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
