// SPDX-License-Identifier: Apache-2.0
// The region: persistent tensors one after the other, then the arena, rounded up to whole pages; one mapping. The
// C library's allocator is not involved, so nothing is added to what was counted and nothing stays behind.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS, madvise
#include "run/session_region.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"

static bool round_up(int64_t bytes, int64_t to, int64_t *out)
{
    if (!ckm_i_add(bytes, to - 1, out)) {
        return false;
    }
    *out -= *out % to;
    return true;
}

ckm_status ckm_i_region_lay_out(const ckm_dataflow *df, int64_t *offsets, int64_t *end, ckm_error *err)
{
    int64_t at = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int64_t bytes;
        if (offsets != NULL) {
            offsets[x] = -1;
        }
        if (!tensor->pinned || tensor->storage != x) {
            continue;
        }
        if (offsets != NULL) {
            offsets[x] = at;
        }
        if (!round_up(tensor->bytes, CKM_I_SESSION_ALIGNMENT, &bytes) || !ckm_i_add(at, bytes, &at)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "bytes of parameters and inputs exceed 63 bits");
        }
    }
    *end = at;
    return CKM_OK;
}

int64_t ckm_i_region_page_bytes(void)
{
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? page : 4096;
}

ckm_status ckm_run_region_bytes(const ckm_dataflow *df, const ckm_plan *plan, int64_t *out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(plan, err);
    CKM_I_NEED(out, err);
    int64_t bytes;
    ckm_status status = ckm_i_region_lay_out(df, NULL, &bytes, err);
    if (status != CKM_OK) {
        return status;
    }
    if (!ckm_i_add(bytes, ckm_plan_get_info(plan)->arena_bytes, &bytes) ||
        !round_up(bytes, ckm_i_region_page_bytes(), &bytes)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "bytes of parameters, inputs and arena exceed 63 bits");
    }
    *out = bytes;
    return CKM_OK;
}

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

ckm_status ckm_i_region_map(int64_t bytes, bool prefault, char **out, ckm_error *err)
{
    if (bytes == 0) {
        *out = NULL;
        return CKM_OK;
    }
    char *region = map_aligned((size_t)bytes);
    if (region == MAP_FAILED) {
        return ckm_i_error(err, CKM_ERR_MEMORY, "%lld bytes for parameters, data and arena cannot be allocated: %s",
                           (long long)bytes, strerror(errno));
    }
#ifdef MADV_HUGEPAGE
    // Fewer misses of the translation cache, and times that do not depend on which small pages the system hands out. A
    // huge page lies wholly inside the region, so the resident set is no larger. It is a hint: refusing it is no error.
    (void)madvise(region, (size_t)bytes, MADV_HUGEPAGE);
#endif
    if (prefault) {
        int64_t page = ckm_i_region_page_bytes();
        volatile char *touch = region;
        for (int64_t at = 0; at < bytes; at += page) {
            touch[at] = 0;
        }
    }
    *out = region;
    return CKM_OK;
}

void ckm_i_region_unmap(char *region, int64_t bytes)
{
    if (region != NULL) {
        (void)munmap(region, (size_t)bytes);
    }
}
