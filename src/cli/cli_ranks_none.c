// SPDX-License-Identifier: Apache-2.0
// A program that was built without MPI (-DCKM_MPI=OFF): it does not join other processes, and says so rather than train
// several times over and into the same files.
#include "cli/cli_ranks.h"

ckm_status cli_transport_open(const ckm_ranks **out, ckm_error *err)
{
    *out = NULL;
    return cli_error(
        err, CKM_ERR_UNSUPPORTED, NULL,
        "was started as %d processes, but this program was built without MPI: build it with -DCKM_MPI=ON, or "
        "start it once",
        cli_ranks_launched());
}

void cli_transport_close(void)
{
}
