// SPDX-License-Identifier: Apache-2.0
// What OpenMP's runtime reads from the environment while the program is being loaded.
//
// How long its threads wait for each other by spinning: GNU's runtime lets them spin for milliseconds, with nothing
// gained here, where the next loop is there within microseconds, and on a machine that has other work to do the core
// is taken from the very thread that is waited for. A thousand rounds, some microseconds, cost nothing measurable when
// the machine is quiet and are as good as none when it is not (bench/pytorch/README.md has the times).
//
// How large their stacks are: 8 MiB of address space each otherwise, of which kernels use some kilobytes, and which a
// system that hands out huge pages may back with 2 MiB of memory at the first touch.
//
// How large the stacks of other threads are, and how far this one's grows: what the system allows when the program is loaded.
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"

// Sets a variable unless it or the other one is set: then the user has decided.
static bool set_unless_decided(const char *name, const char *other, const char *value)
{
    return getenv(name) == NULL && getenv(other) == NULL && setenv(name, value, 1) == 0;
}

// Kernels need some tens of kilobytes. Where less is allowed and may be raised, it is: then the program starts anew.
static bool raise_stack(void)
{
    const rlim_t least = 256 << 10;
    const rlim_t usual = 8 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= least) {
        return false;
    }
    if (limit.rlim_max < least) {
        exit(cli_failf("a stack of %lld kB is allowed, and kernels need %lld kB: raise the limit ('ulimit -s')",
                       (long long)(limit.rlim_max >> 10), (long long)(least >> 10)));
    }
    limit.rlim_cur = limit.rlim_max < usual ? limit.rlim_max : usual;
    return setrlimit(RLIMIT_STACK, &limit) == 0;
}

// The program restarts so that they are read again. If that fails, training is only slower on a busy machine, and its
// threads take more address space.
void cli_openmp_settle(char **argv)
{
    bool spins = set_unless_decided("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "1000");
    bool stacks = set_unless_decided("OMP_STACKSIZE", "GOMP_STACKSIZE", "512k");
    bool raised = raise_stack();
    if (spins || stacks || raised) {
        (void)execv("/proc/self/exe", argv);
    }
}
