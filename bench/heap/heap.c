// SPDX-License-Identifier: Apache-2.0
// Counts what a program takes from the C library's heap: loaded before it (LD_PRELOAD), prints one line to the file
// descriptor that CKM_HEAP_FD names when the program ends: calls, bytes asked for in all of them, and the largest sum
// alive at one time. glibc only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

// What glibc's own functions are called; looking them up would allocate.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static atomic_llong calls, bytes, now, most;

static void *took(void *p)
{
    if (p != NULL) {
        long long size = (long long)malloc_usable_size(p);
        atomic_fetch_add(&calls, 1);
        atomic_fetch_add(&bytes, size);
        long long sum = atomic_fetch_add(&now, size) + size;
        long long before = atomic_load(&most);
        while (sum > before && !atomic_compare_exchange_weak(&most, &before, sum)) {
        }
    }
    return p;
}

static void gives(void *p)
{
    if (p != NULL) {
        atomic_fetch_sub(&now, (long long)malloc_usable_size(p));
    }
}

void *malloc(size_t size)
{
    return took(__libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    return took(__libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
    gives(old);
    return took(__libc_realloc(old, size));
}

void *memalign(size_t alignment, size_t size)
{
    return took(__libc_memalign(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return took(__libc_memalign(alignment, size));
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *p = took(__libc_memalign(alignment, size));
    if (p == NULL) {
        return ENOMEM;
    }
    *out = p;
    return 0;
}

void free(void *p)
{
    gives(p);
    __libc_free(p);
}

__attribute__((destructor)) static void report(void)
{
    const char *fd = getenv("CKM_HEAP_FD");
    if (fd != NULL) {
        dprintf(atoi(fd), "%lld %lld %lld\n", atomic_load(&calls), atomic_load(&bytes), atomic_load(&most));
    }
}
