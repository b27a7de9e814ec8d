// SPDX-License-Identifier: Apache-2.0
// How long threads of OpenMP wait for each other by spinning. GNU's runtime lets them spin for milliseconds: nothing
// gained here, where the next loop is there within microseconds, and on a machine that has other work to do the core
// is taken from the very thread that is waited for. A thousand rounds, some microseconds, cost nothing measurable when
// the machine is quiet and are as good as none when it is not (bench/pytorch/README.md has the times).
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

// The runtime reads its environment while the program is being loaded, before main: so the program starts once more.
// Whoever has set one of the variables has decided. When anything fails, training is only slower beside other work.
void cli_spin_briefly(char **argv)
{
    static const char spin_count[] = "GOMP_SPINCOUNT";
    if (getenv("OMP_WAIT_POLICY") == NULL && getenv(spin_count) == NULL && setenv(spin_count, "1000", 1) == 0) {
        (void)execv("/proc/self/exe", argv);
    }
}
