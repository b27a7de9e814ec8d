// SPDX-License-Identifier: Apache-2.0
// How fast a program's second memory is, measured by transfers as sessions make them.
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"
#include "run/backend/transfers.h"
#include "run/session/program.h"

#include <math.h>
#include <stdlib.h>

// Pieces of a size that tensors have, and small ones for the latency of a transfer.
enum { N_PIECES = 16, PIECE_BYTES = 2 << 20, N_SMALL = 9, SMALL_BYTES = 4096 };
static const double least_seconds = 0.3;

typedef struct probe {
    ckm_i_transfers *transfers;
    char *data;
} probe;

static ckm_status move_all(const probe *p, int32_t n, int64_t bytes, bool out, ckm_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        const ckm_i_transfer what = {i, p->data, (int64_t)i * PIECE_BYTES, bytes};
        CKM_I_CHECK(p->transfers->begin(p->transfers, &what, out, err));
    }
    for (int32_t i = 0; i < n; i++) {
        CKM_I_CHECK(p->transfers->wait(p->transfers, i, err));
    }
    return CKM_OK;
}

// Bytes a second over at least `least_seconds`.
static ckm_status measure_speed(const probe *p, bool out, int64_t *speed, ckm_error *err)
{
    double start = ckm_i_clock_seconds();
    double took = 0.0;
    double moved = 0.0;
    while (took < least_seconds) {
        CKM_I_CHECK(move_all(p, N_PIECES, PIECE_BYTES, out, err));
        moved += (double)N_PIECES * PIECE_BYTES;
        took = ckm_i_clock_seconds() - start;
    }
    *speed = (int64_t)fmax(moved / took, 1.0);
    return CKM_OK;
}

// The median of a few small ones there and back, each waited for.
static ckm_status measure_latency(const probe *p, int64_t *latency_ns, ckm_error *err)
{
    double took[2 * N_SMALL];
    for (int i = 0; i < 2 * N_SMALL; i++) {
        double start = ckm_i_clock_seconds();
        CKM_I_CHECK(move_all(p, 1, SMALL_BYTES, i % 2 == 0, err));
        took[i] = ckm_i_clock_seconds() - start;
    }
    qsort(took, sizeof took / sizeof took[0], sizeof took[0], ckm_i_compare_double);
    *latency_ns = (int64_t)(took[N_SMALL] * 1e9);
    return CKM_OK;
}

// Of no pattern that a file system could store in less.
static ckm_status fill(ckm_program *program, char *data, ckm_error *err)
{
    const ckm_i_memory *memory = program->backend->memory;
    uint64_t words[512];
    uint64_t state = 1;
    for (int64_t at = 0; at < PIECE_BYTES; at += (int64_t)sizeof words) {
        for (size_t k = 0; k < sizeof words / sizeof words[0]; k++) {
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            words[k] = state ^ state >> 29;
        }
        CKM_I_CHECK(memory->copy_in(program->backend, data + at, words, (int64_t)sizeof words, err));
    }
    return CKM_OK;
}

int64_t ckm_program_second_memory_bytes(const ckm_program *program)
{
    bool there = program != NULL && program->second_memory != NULL && program->backend->memory->second != NULL;
    return there ? program->backend->memory->second->base_bytes : 0;
}

static ckm_status check_there(const ckm_program *program, ckm_error *err)
{
    return ckm_program_second_memory_bytes(program) > 0
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_UNSUPPORTED, "back end \"%.60s\" has no second memory to move tensors to",
                             program->backend->name);
}

ckm_status ckm_i_program_try_second_memory(ckm_program *program, ckm_error *err)
{
    ckm_i_transfers *transfers = NULL;
    CKM_I_CHECK(check_there(program, err));
    CKM_I_CHECK(program->backend->memory->second->open(program->backend, program->second_memory, SMALL_BYTES, 1,
                                                       &transfers, err));
    transfers->close(transfers);
    return CKM_OK;
}

ckm_status ckm_program_measure_second_memory(ckm_program *program, ckm_second_memory *out, ckm_error *err)
{
    CKM_I_NEED(program, err);
    CKM_I_NEED(out, err);
    ckm_i_backend *backend = program->backend;
    ckm_status status = CKM_OK;
    probe p = {NULL, NULL};
    ckm_second_memory found = {.name = program->second_memory, .bytes = -1};
    if (program->second_memory == NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the program has no second memory to measure");
    }
    CKM_I_CHECK(check_there(program, err));
    CKM_I_TRY(backend->memory->allocate(backend, PIECE_BYTES, true, &p.data, err));
    CKM_I_TRY(fill(program, p.data, err));
    CKM_I_TRY(backend->memory->second->open(backend, program->second_memory, (int64_t)N_PIECES * PIECE_BYTES, N_PIECES,
                                            &p.transfers, err));
    CKM_I_TRY(measure_speed(&p, true, &found.out_bytes_per_second, err));
    CKM_I_TRY(measure_speed(&p, false, &found.in_bytes_per_second, err));
    CKM_I_TRY(measure_latency(&p, &found.latency_ns, err));
    *out = found;
cleanup:
    if (p.transfers != NULL) {
        p.transfers->close(p.transfers);
    }
    if (p.data != NULL) {
        backend->memory->release(backend, p.data, PIECE_BYTES);
    }
    return status;
}
