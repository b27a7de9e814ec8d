// SPDX-License-Identifier: Apache-2.0
// The second memory of a processor: a file of a fixed size, made before the first step and without a name, so that nothing of it
// stays behind however the process ends. Two threads, one each way, copy between it and the arena. Where the file system allows
// it they go around the page cache (O_DIRECT), by way of an aligned buffer each. What is read back is compared with a checksum of
// what was written.
#define _GNU_SOURCE  // O_DIRECT, mkostemp
#include "run/backend/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fingerprint.h"

// Of what goes around the page cache, addresses, places and sizes are multiples of BLOCK; CHUNK at a time.
enum { BLOCK = 4096, CHUNK = 256 << 10, STACK_BYTES = 128 << 10 };
enum { OUT, IN, N_WAYS };

typedef enum trouble_kind { NO_TROUBLE, WRITE_FAILED, READ_FAILED, WRITE_ENDED, READ_ENDED, DAMAGED } trouble_kind;

typedef struct slot_state {
    uint64_t checksum;  // of what was written
    bool under_way;
} slot_state;

typedef struct way {
    struct file_transfers *all;
    bool started;
    pthread_t thread;
    ckm_i_transfer *queue;  // a ring with room for all slots
    int32_t first, n;
    char *buffer;
} way;

typedef struct file_transfers {
    ckm_i_transfers functions;
    int fd;
    char *folder;
    int32_t n_slots;
    slot_state *slots;
    way ways[N_WAYS];
    char *buffers;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    bool ends;
    trouble_kind trouble;  // the first; nothing is copied after it
    int reason;            // errno of it
} file_transfers;

// Of all pieces, each as it comes.
static uint64_t checksum(uint64_t sum, const char *at, int64_t bytes)
{
    return (sum ^ ckm_i_fingerprint(at, bytes)) * UINT64_C(0x9e3779b97f4a7c15);
}

// All bytes, in as many pieces as the system needs. With O_DIRECT a piece begins at a block.
static trouble_kind move_all(const file_transfers *t, char *address, int64_t bytes, int64_t at, bool out, int *reason)
{
    for (int64_t done = 0; done < bytes;) {
        size_t left = (size_t)(bytes - done);
        ssize_t n = out ? pwrite(t->fd, address + done, left, at + done)
                        : pread(t->fd, address + done, left, at + done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            *reason = errno;
            return out ? WRITE_FAILED : READ_FAILED;
        }
        int64_t whole = t->functions.direct && (size_t)n < left ? n - n % BLOCK : n;
        if (whole == 0) {
            return out ? WRITE_ENDED : READ_ENDED;
        }
        done += whole;
    }
    return NO_TROUBLE;
}

// One piece of a transfer; updates the checksum *sum.
static trouble_kind move_piece(const way *w, char *address, int64_t bytes, int64_t at, bool out, uint64_t *sum,
                               int *reason)
{
    const file_transfers *t = w->all;
    bool direct = t->functions.direct;
    int64_t padded = direct ? (bytes + BLOCK - 1) / BLOCK * BLOCK : bytes;
    char *from = direct ? w->buffer : address;
    if (out) {
        if (direct) {
            memcpy(w->buffer, address, (size_t)bytes);
            memset(w->buffer + bytes, 0, (size_t)(padded - bytes));
        }
        *sum = checksum(*sum, from, bytes);
        return move_all(t, from, padded, at, out, reason);
    }
    trouble_kind what = move_all(t, from, padded, at, out, reason);
    *sum = what == NO_TROUBLE ? checksum(*sum, from, bytes) : 0;
    if (what == NO_TROUBLE && direct) {
        memcpy(address, w->buffer, (size_t)bytes);
    }
    return what;
}

static void note(file_transfers *t, trouble_kind what, int reason)
{
    if (t->trouble == NO_TROUBLE) {
        t->trouble = what;
        t->reason = reason;
    }
}

// The slot is this transfer's alone until it is no longer under way.
static void move(way *w, const ckm_i_transfer *what, bool out)
{
    file_transfers *t = w->all;
    trouble_kind trouble = NO_TROUBLE;
    int reason = 0;
    uint64_t sum = UINT64_C(0x243f6a8885a308d3);
    for (int64_t at = 0; at < what->bytes && trouble == NO_TROUBLE; at += CHUNK) {
        int64_t bytes = what->bytes - at < CHUNK ? what->bytes - at : CHUNK;
        trouble = move_piece(w, what->address + at, bytes, what->at + at, out, &sum, &reason);
    }
    if (trouble == NO_TROUBLE && out) {
        t->slots[what->slot].checksum = sum;
    } else if (trouble == NO_TROUBLE && t->slots[what->slot].checksum != sum) {
        trouble = DAMAGED;
    }
    pthread_mutex_lock(&t->lock);
    note(t, trouble, reason);
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *user)
{
    way *w = user;
    file_transfers *t = w->all;
    bool out = w == &t->ways[OUT];
    pthread_mutex_lock(&t->lock);
    for (;;) {
        while (w->n == 0 && !t->ends) {
            pthread_cond_wait(&t->work, &t->lock);
        }
        if (w->n == 0) {
            break;
        }
        ckm_i_transfer what = w->queue[w->first];
        w->first = (w->first + 1) % t->n_slots;
        w->n--;
        bool spoilt = t->trouble != NO_TROUBLE;
        pthread_mutex_unlock(&t->lock);
        if (!spoilt) {
            move(w, &what, out);
        }
        pthread_mutex_lock(&t->lock);
        t->slots[what.slot].under_way = false;
        pthread_cond_broadcast(&t->done);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

// What went wrong, and what to do about it. The lock is held.
static ckm_status check_trouble(const file_transfers *t, ckm_error *err)
{
    static const char go_on[] = "then resume from the state that was saved last";
    const char *why = strerror(t->reason);
    switch (t->trouble) {
    case WRITE_FAILED:
        return ckm_i_error_at(err, CKM_ERR_IO, t->folder, 0, -1,
                              "writing what is moved out failed: %s; mend that or name another folder, %s", why, go_on);
    case READ_FAILED:
        return ckm_i_error_at(err, CKM_ERR_IO, t->folder, 0, -1,
                              "reading back what was moved out failed: %s; mend that or name another folder, %s", why,
                              go_on);
    case WRITE_ENDED:
        return ckm_i_error_at(err, CKM_ERR_IO, t->folder, 0, -1,
                              "what is moved out was written in part only; name another folder, %s", go_on);
    case READ_ENDED:
        return ckm_i_error_at(err, CKM_ERR_IO, t->folder, 0, -1,
                              "what was moved out could be read back in part only; name another folder, %s", go_on);
    case DAMAGED:
        return ckm_i_error_at(
            err, CKM_ERR_IO, t->folder, 0, -1,
            "what was read back is not what was moved out, their checksums differ: the disk or the way "
            "to it damages data; name another folder, %s",
            go_on);
    case NO_TROUBLE:
        break;
    }
    return CKM_OK;
}

static ckm_status begin(ckm_i_transfers *transfers, const ckm_i_transfer *what, bool out, ckm_error *err)
{
    file_transfers *t = (file_transfers *)transfers;
    way *w = &t->ways[out ? OUT : IN];
    if (!w->started) {
        move(w, what, out);
        return check_trouble(t, err);
    }
    pthread_mutex_lock(&t->lock);
    ckm_status status = check_trouble(t, err);
    if (status == CKM_OK) {
        t->slots[what->slot].under_way = true;
        w->queue[(w->first + w->n++) % t->n_slots] = *what;
        pthread_cond_broadcast(&t->work);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

static ckm_status wait_for(ckm_i_transfers *transfers, int32_t slot, ckm_error *err)
{
    file_transfers *t = (file_transfers *)transfers;
    pthread_mutex_lock(&t->lock);
    while (t->slots[slot].under_way) {
        pthread_cond_wait(&t->done, &t->lock);
    }
    ckm_status status = check_trouble(t, err);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static void settle(ckm_i_transfers *transfers)
{
    file_transfers *t = (file_transfers *)transfers;
    pthread_mutex_lock(&t->lock);
    for (int32_t i = 0; i < t->n_slots; i++) {
        while (t->slots[i].under_way) {
            pthread_cond_wait(&t->done, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
}

static void close_file(ckm_i_transfers *transfers)
{
    file_transfers *t = (file_transfers *)transfers;
    pthread_mutex_lock(&t->lock);
    t->ends = true;
    pthread_cond_broadcast(&t->work);
    pthread_mutex_unlock(&t->lock);
    for (int k = 0; k < N_WAYS; k++) {
        if (t->ways[k].started) {
            pthread_join(t->ways[k].thread, NULL);
        }
        free(t->ways[k].queue);
    }
    pthread_cond_destroy(&t->work);
    pthread_cond_destroy(&t->done);
    pthread_mutex_destroy(&t->lock);
    if (t->fd >= 0) {
        close(t->fd);
    }
    if (t->buffers != NULL) {
        (void)munmap(t->buffers, (size_t)N_WAYS * CHUNK);
    }
    free(t->slots);
    free(t->folder);
    free(t);
}

// A file that loses its name at once: it is gone when the process is.
static ckm_status make_file(file_transfers *t, ckm_error *err)
{
    static const char name[] = "/.checkmate-moved-XXXXXX";
    size_t size = strlen(t->folder) + sizeof name;
    char *path = ckm_i_malloc(size, 1);
    if (path == NULL) {
        return ckm_i_error_memory(err);
    }
    snprintf(path, size, "%s%s", t->folder, name);
    t->fd = mkostemp(path, O_CLOEXEC);
    int reason = errno;
    if (t->fd >= 0) {
        (void)unlink(path);
    }
    free(path);
    return t->fd >= 0
               ? CKM_OK
               : ckm_i_error_at(err, CKM_ERR_IO, t->folder, 0, -1,
                                "cannot make a file for what is moved out: %s; name a folder that exists and may "
                                "be written to",
                                strerror(reason));
}

static ckm_status preallocate(const file_transfers *t, int64_t bytes, ckm_error *err)
{
    int reason;
    do {
        reason = bytes > 0 ? posix_fallocate(t->fd, 0, bytes) : 0;
    } while (reason == EINTR);
    return reason == 0 ? CKM_OK
                       : ckm_i_error_at(err, CKM_ERR_IO, t->folder, 0, -1,
                                        "%lld bytes for what is moved out cannot be had: %s; free as many, or name "
                                        "another folder",
                                        (long long)bytes, strerror(reason));
}

// Bypasses the page cache if a block can be written and read that way. File systems may refuse at any of three calls.
static void choose_direct(file_transfers *t, int64_t bytes)
{
    char *block = t->ways[OUT].buffer;
    int flags = fcntl(t->fd, F_GETFL);
    if (bytes < BLOCK || flags < 0 || fcntl(t->fd, F_SETFL, flags | O_DIRECT) != 0) {
        return;
    }
    memset(block, 0, BLOCK);
    t->functions.direct = pwrite(t->fd, block, BLOCK, 0) == BLOCK && pread(t->fd, block, BLOCK, 0) == BLOCK;
    if (!t->functions.direct) {
        (void)fcntl(t->fd, F_SETFL, flags);
    }
}

// Without its thread, a direction copies synchronously.
static void start_threads(file_transfers *t)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    // Signals are the main thread's: one that ends training must not land here.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->functions.concurrent = true;
    for (int k = 0; k < N_WAYS; k++) {
        way *w = &t->ways[k];
        w->started = pthread_create(&w->thread, &attributes, work, w) == 0;
        t->functions.concurrent = t->functions.concurrent && w->started;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

static ckm_status make_room(file_transfers *t, ckm_error *err)
{
    bool complete = t->folder != NULL && t->slots != NULL;
    t->buffers = mmap(NULL, (size_t)N_WAYS * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->buffers == MAP_FAILED) {
        t->buffers = NULL;
    }
    for (int k = 0; k < N_WAYS; k++) {
        way *w = &t->ways[k];
        w->all = t;
        w->queue = ckm_i_malloc((size_t)t->n_slots, sizeof *w->queue);
        w->buffer = t->buffers != NULL ? t->buffers + (size_t)k * CHUNK : NULL;
        complete = complete && w->queue != NULL && w->buffer != NULL;
    }
    return complete ? CKM_OK : ckm_i_error_memory(err);
}

static ckm_status open_file(ckm_i_backend *backend, const char *where, int64_t bytes, int32_t n_slots,
                            ckm_i_transfers **out, ckm_error *err)
{
    (void)backend;
    struct statfs system;
    ckm_status status = CKM_OK;
    file_transfers *t = ckm_i_calloc(1, sizeof *t);
    if (t == NULL) {
        return ckm_i_error_memory(err);
    }
    t->functions = (ckm_i_transfers){.begin = begin, .wait = wait_for, .settle = settle, .close = close_file};
    t->fd = -1;
    t->n_slots = n_slots > 0 ? n_slots : 1;
    t->folder = ckm_i_strdup(where);
    t->slots = ckm_i_calloc((size_t)t->n_slots, sizeof *t->slots);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->work, NULL);
    pthread_cond_init(&t->done, NULL);
    CKM_I_TRY(make_room(t, err));
    CKM_I_TRY(make_file(t, err));
    CKM_I_TRY(preallocate(t, bytes, err));
    choose_direct(t, bytes);
    t->functions.in_memory = fstatfs(t->fd, &system) == 0 &&
                             (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
    start_threads(t);
    *out = &t->functions;
    t = NULL;
cleanup:
    if (t != NULL) {
        close_file(&t->functions);
    }
    return status;
}

const ckm_i_second_memory ckm_i_second_memory_file = {
    .base_bytes = N_WAYS * (CHUNK + STACK_BYTES),
    .slot_bytes = (int64_t)sizeof(slot_state) + N_WAYS * (int64_t)sizeof(ckm_i_transfer),
    .alignment = BLOCK,
    .open = open_file,
};
