// SPDX-License-Identifier: Apache-2.0
// Processes connected by MPI. Only this file knows of it.
#include "cli/cli_ranks.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

// Messages of the size of most, for the first contact.
enum { FIRST_BYTES = 128 << 10, FIRST_ROUNDS = 4 };

typedef struct transport {
    ckm_ranks ranks;
    MPI_Request requests[CKM_RANKS_SLOTS];
} transport;

static ckm_status check(int code, const char *what, ckm_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    ckm_error unwanted;
    if (code == MPI_SUCCESS) {
        return CKM_OK;
    }
    (void)MPI_Error_string(code, text, &length);
    return cli_error(err != NULL ? err : &unwanted, CKM_ERR_IO, NULL, "MPI: %s: %s", what, text);
}

static ckm_status check_size(int64_t bytes, ckm_error *err)
{
    ckm_error unwanted;
    return bytes <= INT_MAX ? CKM_OK
                            : cli_error(err != NULL ? err : &unwanted, CKM_ERR_OVERFLOW, NULL,
                                        "a message of %lld bytes is too long for MPI", (long long)bytes);
}

static ckm_status send(void *user, int32_t slot, int32_t to, int32_t channel, const void *data, int64_t bytes,
                       ckm_error *err)
{
    transport *t = user;
    ckm_status status = check_size(bytes, err);
    return status != CKM_OK
               ? status
               : check(MPI_Isend(data, (int)bytes, MPI_BYTE, to, channel, MPI_COMM_WORLD, &t->requests[slot]),
                       "sending", err);
}

static ckm_status receive(void *user, int32_t slot, int32_t from, int32_t channel, void *data, int64_t bytes,
                          ckm_error *err)
{
    transport *t = user;
    ckm_status status = check_size(bytes, err);
    return status != CKM_OK
               ? status
               : check(MPI_Irecv(data, (int)bytes, MPI_BYTE, from, channel, MPI_COMM_WORLD, &t->requests[slot]),
                       "receiving", err);
}

static ckm_status test(void *user, int32_t slot, bool *done, ckm_error *err)
{
    transport *t = user;
    int flag = 0;
    int code = MPI_Test(&t->requests[slot], &flag, MPI_STATUS_IGNORE);
    *done = flag != 0;
    return check(code, "waiting for another rank", err);
}

static void end_all(void *user, const ckm_error *err)
{
    (void)user;
    cli_ranks_cry(err);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, CLI_FAILED);
}

// Connections are made at the first message: now, so that their memory is known.
static ckm_status meet_neighbours(const ckm_ranks *ranks, ckm_error *err)
{
    int after = (ranks->rank + 1) % ranks->count;
    int before = (ranks->rank + ranks->count - 1) % ranks->count;
    char *room = calloc(2, FIRST_BYTES);
    ckm_status status = CKM_OK;
    if (room == NULL) {
        return cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
    }
    for (int i = 0; i < FIRST_ROUNDS && status == CKM_OK; i++) {
        status = check(MPI_Sendrecv(room, FIRST_BYTES, MPI_BYTE, after, 0, room + FIRST_BYTES, FIRST_BYTES, MPI_BYTE,
                                    before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                       "the first message", err);
    }
    free(room);
    return status != CKM_OK ? status : check(MPI_Barrier(MPI_COMM_WORLD), "the first message", err);
}

static ckm_status find_place(ckm_ranks *ranks, ckm_error *err)
{
    int provided = 0;
    int rank = 0;
    int count = 0;
    int local = 1;
    MPI_Comm machine = MPI_COMM_NULL;
    ckm_status status = check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "beginning", err);
    if (status != CKM_OK) {
        return status;
    }
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    code = code == MPI_SUCCESS ? MPI_Comm_size(MPI_COMM_WORLD, &count) : code;
    code = code == MPI_SUCCESS ? MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine)
                               : code;
    code = code == MPI_SUCCESS ? MPI_Comm_size(machine, &local) : code;
    if (machine != MPI_COMM_NULL) {
        (void)MPI_Comm_free(&machine);
    }
    ranks->rank = rank;
    ranks->count = count;
    ranks->local = local;
    return check(code, "finding the other processes", err);
}

ckm_status cli_transport_open(const ckm_ranks **out, ckm_error *err)
{
    static transport t;
    int64_t before = ckm_run_get_memory(true).anonymous_bytes;
    *out = NULL;
    t.ranks = (ckm_ranks){.user = &t, .send = send, .receive = receive, .test = test, .abort = end_all};
    for (int i = 0; i < CKM_RANKS_SLOTS; i++) {
        t.requests[i] = MPI_REQUEST_NULL;
    }
    ckm_status status = find_place(&t.ranks, err);
    if (status == CKM_OK) {
        status = meet_neighbours(&t.ranks, err);
    }
    if (status == CKM_OK && t.ranks.count != cli_ranks_launched()) {
        status = cli_error(
            err, CKM_ERR_UNSUPPORTED, NULL,
            "was started as %d processes, but MPI finds %d: start it with the mpirun of the MPI that it was "
            "built with",
            cli_ranks_launched(), (int)t.ranks.count);
    }
    int64_t grown = ckm_run_get_memory(true).anonymous_bytes - before;
    t.ranks.bytes = before >= 0 && grown > 0 ? grown : 0;
    *out = status == CKM_OK ? &t.ranks : NULL;
    return status;
}

void cli_transport_close(void)
{
    (void)MPI_Finalize();
}
