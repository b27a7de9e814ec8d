// SPDX-License-Identifier: Apache-2.0
// Collective operations outside a step's operators. Rank 0 is the hub: messages are few and small.
#include "run/ranks/ranks.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/error.h"

enum { CONTROL_SLOT = 0 };

void ckm_i_ranks_pause(int64_t *waited)
{
    enum { EAGER = 200, LEAST_NS = 20000, MOST_NS = 1000000 };
    ++*waited;
    if (*waited < EAGER) {
        (void)sched_yield();
        return;
    }
    int64_t ns = LEAST_NS + (*waited - EAGER) * 1000;
    const struct timespec pause = {0, (long)(ns < MOST_NS ? ns : MOST_NS)};
    (void)nanosleep(&pause, NULL);
}

static ckm_status await(const ckm_ranks *ranks, ckm_error *err)
{
    int64_t waited = 0;
    for (;;) {
        bool done = false;
        CKM_I_CHECK(ranks->test(ranks->user, CONTROL_SLOT, &done, err));
        if (done) {
            return CKM_OK;
        }
        ckm_i_ranks_pause(&waited);
    }
}

static ckm_status send(const ckm_ranks *ranks, int32_t to, const void *data, int64_t bytes, ckm_error *err)
{
    CKM_I_CHECK(ranks->send(ranks->user, CONTROL_SLOT, to, CKM_I_CHANNEL_CONTROL, data, bytes, err));
    return await(ranks, err);
}

static ckm_status receive(const ckm_ranks *ranks, int32_t from, void *data, int64_t bytes, ckm_error *err)
{
    CKM_I_CHECK(ranks->receive(ranks->user, CONTROL_SLOT, from, CKM_I_CHANNEL_CONTROL, data, bytes, err));
    return await(ranks, err);
}

ckm_status ckm_i_ranks_broadcast(const ckm_ranks *ranks, void *data, int64_t bytes, ckm_error *err)
{
    enum { PIECE = 1 << 20 };
    for (int64_t at = 0; at < bytes; at += PIECE) {
        int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
        if (ranks->rank != 0) {
            CKM_I_CHECK(receive(ranks, 0, (char *)data + at, n, err));
        }
        for (int32_t r = 1; ranks->rank == 0 && r < ranks->count; r++) {
            CKM_I_CHECK(send(ranks, r, (const char *)data + at, n, err));
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_ranks_gather(const ckm_ranks *ranks, const void *mine, int64_t bytes, void *all, ckm_error *err)
{
    if (ranks->rank != 0) {
        CKM_I_CHECK(send(ranks, 0, mine, bytes, err));
    } else {
        memcpy(all, mine, (size_t)bytes);
        for (int32_t r = 1; r < ranks->count; r++) {
            CKM_I_CHECK(receive(ranks, r, (char *)all + r * bytes, bytes, err));
        }
    }
    return ckm_i_ranks_broadcast(ranks, all, ranks->count * bytes, err);
}

ckm_status ckm_i_ranks_most(const ckm_ranks *ranks, int64_t *value, ckm_error *err)
{
    int64_t *all = ckm_i_calloc((size_t)ranks->count, sizeof *all);
    if (all == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_ranks_gather(ranks, value, sizeof *value, all, err));
    for (int32_t r = 0; r < ranks->count; r++) {
        *value = all[r] > *value ? all[r] : *value;
    }
cleanup:
    free(all);
    return status;
}

ckm_status ckm_i_ranks_same(const ckm_ranks *ranks, uint64_t value, const char *what, ckm_error *err)
{
    uint64_t *all = ckm_i_calloc((size_t)ranks->count, sizeof *all);
    if (all == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_ranks_gather(ranks, &value, sizeof value, all, err));
    for (int32_t r = 1; r < ranks->count; r++) {
        if (all[r] != all[0]) {
            status = ckm_i_error(err, CKM_ERR_ARGUMENT,
                                 "rank %d %s than rank 0: start all with the same program, files and options", (int)r,
                                 what);
            break;
        }
    }
cleanup:
    free(all);
    return status;
}

// Gives all ranks the error of the first rank that failed.
static ckm_status spread(const ckm_ranks *ranks, int32_t failed, ckm_error *said, ckm_error *err)
{
    if (failed != 0 && ranks->rank == failed) {
        CKM_I_CHECK(send(ranks, 0, said, sizeof *said, err));
    } else if (failed != 0 && ranks->rank == 0) {
        CKM_I_CHECK(receive(ranks, failed, said, sizeof *said, err));
    }
    CKM_I_CHECK(ckm_i_ranks_broadcast(ranks, said, sizeof *said, err));
    if (failed != 0) {
        char prefix[24];
        int n = snprintf(prefix, sizeof prefix, "rank %d: ", (int)failed);
        memmove(said->message + n, said->message, sizeof said->message - (size_t)n);
        memcpy(said->message, prefix, (size_t)n);
        said->message[sizeof said->message - 1] = '\0';
    }
    return CKM_OK;
}

ckm_status ckm_ranks_agree(const ckm_ranks *ranks, ckm_status mine, ckm_error *err)
{
    if (ranks == NULL || ranks->count < 2) {
        return mine;
    }
    int32_t *all = ckm_i_calloc((size_t)ranks->count, sizeof *all);
    ckm_error *said = ckm_i_calloc(1, sizeof *said);
    int32_t own = (int32_t)mine;
    int32_t failed = -1;
    ckm_status status = CKM_OK;
    if (all == NULL || said == NULL) {  // the others cannot learn of it
        status = ckm_i_error_memory(err);
        ranks->abort(ranks->user, err);
        goto cleanup;
    }
    if (mine != CKM_OK && err != NULL) {
        *said = *err;
    }
    CKM_I_TRY(ckm_i_ranks_gather(ranks, &own, sizeof own, all, err));
    for (int32_t r = ranks->count - 1; r >= 0; r--) {
        failed = all[r] != (int32_t)CKM_OK ? r : failed;
    }
    if (failed >= 0) {
        CKM_I_TRY(spread(ranks, failed, said, err));
        status = (ckm_status)all[failed];
        said->code = status;
        if (err != NULL) {
            *err = *said;
        }
    }
cleanup:
    free(all);
    free(said);
    return status;
}
