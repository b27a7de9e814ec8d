// SPDX-License-Identifier: Apache-2.0
// Transfers: what a session asks of a second memory, to which storages are moved while operators run. One back end's memory has one
// kind of second memory; another device is another file with these functions.
#ifndef CKM_SRC_RUN_BACKEND_TRANSFERS_H
#define CKM_SRC_RUN_BACKEND_TRANSFERS_H

#include "run/backend/backend.h"

// Where a back end's work is done late, a transfer has its place in the order in which work is asked for: it copies what the kernels
// asked for before it have made, and those asked for after its wait see what came back.

// A copy of one storage. A slot belongs to one storage: at most one transfer of it is under way.
typedef struct ckm_i_transfer {
    int32_t slot;
    char *address;      // in the back end's memory
    int64_t at, bytes;  // its place in the second memory, at a multiple of its alignment
} ckm_i_transfer;

typedef struct ckm_i_transfers ckm_i_transfers;
struct ckm_i_transfers {
    bool direct;      // bypasses the system's page cache
    bool concurrent;  // runs in threads while operators run
    bool in_memory;   // the folder lies in memory itself, so that nothing is saved
    // Begins to copy out to the second memory, or back, after what was begun before the same way. What is at the address must
    // stay until it has been waited for, `what` need not. Errors: those of transfers that failed before.
    ckm_status (*begin)(ckm_i_transfers *t, const ckm_i_transfer *what, bool out, ckm_error *err);
    // Returns when the slot's transfer is done, however long that takes. Errors: what failed in this one or any before it.
    ckm_status (*wait)(ckm_i_transfers *t, int32_t slot, ckm_error *err);
    // Returns when nothing is under way any more, whether it failed or not.
    void (*settle)(ckm_i_transfers *t);
    void (*close)(ckm_i_transfers *t);
};

typedef struct ckm_i_second_memory {
    int64_t base_bytes, slot_bytes;  // what an open one takes of the first memory, and for each slot
    int64_t alignment;               // of places
    // `where` names it: of a file its folder. `bytes` are there before this returns. Errors: CKM_ERR_IO where they cannot be had,
    // CKM_ERR_MEMORY.
    ckm_status (*open)(ckm_i_backend *backend, const char *where, int64_t bytes, int32_t n_slots, ckm_i_transfers **out,
                       ckm_error *err);
} ckm_i_second_memory;

// A file in a folder, for back ends that compute where the host does (transfers_file.c).
extern const ckm_i_second_memory ckm_i_second_memory_file;

#endif
