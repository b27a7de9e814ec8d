// SPDX-License-Identifier: Apache-2.0
// Training in several processes at once: what the trainer needs of the transport that connects them. The library has
// none itself; the program has one over MPI (src/cli/cli_ranks_mpi.c), and docs/DISTRIBUTED.md says what training does with it.
#ifndef CHECKMATE_RANKS_H
#define CHECKMATE_RANKS_H

#include <checkmate/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CKM_RANKS_SLOTS = 17,    // transfers that may be under way at once, numbered from 0
    CKM_RANKS_CHANNELS = 4,  // from 0; what is sent to one rank on one channel arrives in that order
    CKM_RANKS_MOST = 65535   // ranks
};

// The processes of a job. All functions are called by one thread at a time. Frozen.
typedef struct ckm_ranks {
    int32_t rank, count;  // this one, from 0, and how many there are
    int32_t local;        // how many of them share this machine's memory, this one among them
    int64_t bytes;        // anonymous memory that the transport has taken, to be counted within the budget
    void *user;           // passed to the functions
    // Begin a transfer of `bytes` bytes; the memory must not change until it is done. Never wait for the other side.
    ckm_status (*send)(void *user, int32_t slot, int32_t to, int32_t channel, const void *data, int64_t bytes,
                       ckm_error *err);
    ckm_status (*receive)(void *user, int32_t slot, int32_t from, int32_t channel, void *data, int64_t bytes,
                          ckm_error *err);
    // Whether the transfer in this slot is done, which frees the slot. Never waits.
    ckm_status (*test)(void *user, int32_t slot, bool *done, ckm_error *err);
    // Ends all processes because of an error that the others cannot learn of in order, as in the middle of a step. When it
    // returns, the call that met the error fails with it.
    void (*abort)(void *user, const ckm_error *err);
} ckm_ranks;

// The same outcome for all: CKM_OK where `mine` is CKM_OK on every rank; else the status and error of the first rank that
// failed, with "rank N: " before the message unless it is rank 0. Every rank has to call it. `ranks` may be NULL: `mine`.
CKM_API ckm_status ckm_ranks_agree(const ckm_ranks *ranks, ckm_status mine, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
