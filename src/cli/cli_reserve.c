// SPDX-License-Identifier: Apache-2.0
// A reserve for aligned memory. oneDNN builds its objects in memory from posix_memalign without checking whether it failed,
// so in this program that function falls back on some reserved pages. They hold what is built before our next allocation,
// whose failure is an error as usual: objects of oneDNN 2 take some kilobytes, those of oneDNN 3 up to 120. Another allocator
// may stand before the C library's (LD_PRELOAD): it is asked first. Only the program does this; a library must not replace
// functions of a program that uses it.
#define _GNU_SOURCE  // RTLD_NEXT
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Sanitizers have their own allocators.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define NO_RESERVE
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define NO_RESERVE
#endif
#endif

#ifndef NO_RESERVE
enum { PAGE_BYTES = 4096, RESERVE_BYTES = 1024 * PAGE_BYTES };

// Not in use, and so no memory, until it is written to.
static _Alignas(PAGE_BYTES) unsigned char reserve[RESERVE_BYTES];
static atomic_size_t used;

typedef int align_fn(void **, size_t, size_t);
typedef void free_fn(void *);
static _Atomic(align_fn *) next_align;
static _Atomic(free_fn *) next_free;
void __libc_free(void *block);

// POSIX has functions looked up as objects.
typedef union symbol {
    void *object;
    align_fn *align;
    free_fn *release;
} symbol;

__attribute__((constructor)) static void look_up(void)
{
    symbol align = {.object = dlsym(RTLD_NEXT, "posix_memalign")};
    symbol release = {.object = dlsym(RTLD_NEXT, "free")};
    atomic_store(&next_align, align.align);
    atomic_store(&next_free, release.release);
}

// Blocks are not used again. One on whole pages has them to itself, since code may be written to it and sealed.
static void *take(size_t alignment, size_t size)
{
    size_t from = atomic_load(&used);
    size_t begin;
    size_t end;
    do {
        size_t rounding = alignment < 64 ? 64 : alignment;
        begin = (from + rounding - 1) / rounding * rounding;
        size_t room = alignment >= PAGE_BYTES ? (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES : size;
        if (alignment > PAGE_BYTES || size > RESERVE_BYTES || begin > RESERVE_BYTES || room > RESERVE_BYTES - begin) {
            return NULL;
        }
        end = begin + room;
    } while (!atomic_compare_exchange_weak(&used, &from, end));
    return reserve + begin;
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    align_fn *next = atomic_load(&next_align);
    int failed = next != NULL ? next(out, alignment, size) : ENOMEM;
    if (failed != ENOMEM) {
        return failed;
    }
    void *block = take(alignment, size);
    if (block != NULL) {
        *out = block;
    }
    return block != NULL ? 0 : ENOMEM;
}

void free(void *block)
{
    free_fn *next = atomic_load(&next_free);
    uintptr_t at = (uintptr_t)block;
    if (at >= (uintptr_t)reserve && at < (uintptr_t)reserve + RESERVE_BYTES) {
        return;
    }
    if (next != NULL) {
        next(block);
    } else {
        __libc_free(block);  // while the program is loaded
    }
}
#endif
