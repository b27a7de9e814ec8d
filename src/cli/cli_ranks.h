// SPDX-License-Identifier: Apache-2.0
// checkmate train in several processes: what the program does about them. What connects them is behind cli_transport_*:
// MPI (cli_ranks_mpi.c), or nothing (cli_ranks_none.c). Another transport would be another such file.
#ifndef CKM_SRC_CLI_CLI_RANKS_H
#define CKM_SRC_CLI_CLI_RANKS_H

#include "cli/cli.h"

// How many processes a launcher such as mpirun has started this program as, and which of them this is; 1 and 0 without one.
int cli_ranks_launched(void);
int cli_ranks_launched_as(void);
// Only rank 0 prints: the output of the others is kept back, and rank 0 prints its last line if only they fail.
void cli_ranks_hush(void);
// Writes to where standard error was.
void cli_ranks_cry(const ckm_error *err);

// Joins the others; *out is NULL without any. Gives -1 to continue, or an exit status after having said why.
int cli_ranks_open(const ckm_ranks **out);
// After something that each rank did by itself: its outcome, or where that is good (-1 or CLI_DONE), the first bad one of
// the others, which rank 0 then reports. Every rank has to call it.
int cli_ranks_settle(const ckm_ranks *ranks, int outcome);
// The largest of all ranks' values, on rank 0; elsewhere the value. -1 when it cannot be had.
int64_t cli_ranks_most(const ckm_ranks *ranks, int64_t value);
// Leaves the group of ranks; gives `outcome`.
int cli_ranks_close(const ckm_ranks *ranks, int outcome);

ckm_status cli_transport_open(const ckm_ranks **out, ckm_error *err) CKM_NODISCARD;
void cli_transport_close(void);

#endif
