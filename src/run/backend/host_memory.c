// SPDX-License-Identifier: Apache-2.0
// The host's memory: mappings of whole pages. The C library's allocator is not involved, so nothing is added to what was
// counted and nothing stays behind.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS, madvise
#include "run/backend/host_memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/align.h"
#include "base/clock.h"
#include "base/error.h"
#include "run/backend/transfers.h"

// Where the address space allows it, beginning at a multiple of a huge page; MAP_FAILED when not even `bytes` can be had.
static char *map_aligned(size_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *wide = bytes >= huge && bytes < SIZE_MAX - huge ? mmap(NULL, bytes + huge, protection, flags, -1, 0)
                                                          : MAP_FAILED;
    if (wide == MAP_FAILED) {
        return mmap(NULL, bytes, protection, flags, -1, 0);
    }
    size_t before = (huge - (uintptr_t)wide % huge) % huge;
    if (before > 0) {
        (void)munmap(wide, before);
    }
    (void)munmap(wide + before + bytes, huge - before);
    return wide + before;
}

static void touch_pages(char *region, int64_t bytes)
{
    long page = sysconf(_SC_PAGESIZE);
    volatile char *touched = region;
    for (int64_t at = 0; at<bytes; at += page> 0 ? page : 4096) {
        touched[at] = 0;
    }
}

static ckm_status allocate(ckm_i_backend *backend, int64_t bytes, bool touch, char **out, ckm_error *err)
{
    (void)backend;
    char *region = map_aligned((size_t)bytes);
    if (region == MAP_FAILED) {
        return ckm_i_error(err, CKM_ERR_MEMORY, "%lld bytes for parameters, data and arena cannot be allocated: %s",
                           (long long)bytes, strerror(errno));
    }
#ifdef MADV_HUGEPAGE
    // Fewer misses of the translation cache, and times that do not depend on which small pages the system provides. A
    // huge page lies wholly inside the region, so the resident set is no larger. It is a hint: refusing it is no error.
    (void)madvise(region, (size_t)bytes, MADV_HUGEPAGE);
#endif
    if (touch) {
        touch_pages(region, bytes);
    }
    *out = region;
    return CKM_OK;
}

static void release(ckm_i_backend *backend, char *address, int64_t bytes)
{
    (void)backend;
    (void)munmap(address, (size_t)bytes);
}

static ckm_status copy_in(ckm_i_backend *backend, char *to, const void *from, int64_t bytes, ckm_error *err)
{
    (void)backend;
    (void)err;
    memcpy(to, from, (size_t)bytes);
    return CKM_OK;
}

static ckm_status copy_out(ckm_i_backend *backend, void *to, const char *from, int64_t bytes, ckm_error *err)
{
    (void)backend;
    (void)err;
    memcpy(to, from, (size_t)bytes);
    return CKM_OK;
}

static ckm_status clear(ckm_i_backend *backend, char *to, int64_t bytes, ckm_error *err)
{
    (void)backend;
    (void)err;
    memset(to, 0, (size_t)bytes);
    return CKM_OK;
}

static ckm_status synchronize(ckm_i_backend *backend, ckm_error *err)
{
    (void)backend;
    (void)err;
    return CKM_OK;
}

static ckm_status mark(ckm_i_backend *backend, int64_t *nanoseconds, ckm_error *err)
{
    (void)backend;
    (void)err;
    *nanoseconds = (int64_t)(ckm_i_clock_seconds() * 1e9);
    return CKM_OK;
}

static int64_t free_bytes(ckm_i_backend *backend)
{
    (void)backend;
    return ckm_host_free_bytes();
}

const ckm_i_memory ckm_i_host_memory = {
    .host = true,
    .alignment = CKM_I_ALIGNMENT,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .clear = clear,
    .synchronize = synchronize,
    .mark = mark,
    .free_bytes = free_bytes,
    .second = &ckm_i_second_memory_file,
};
