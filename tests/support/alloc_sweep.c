// SPDX-License-Identifier: Apache-2.0
// The linker's --wrap sends malloc and its like here; see alloc_sweep.h. A leak is what LeakSanitizer finds
// in the sanitizer build; the count kept here finds it in any build.
#include "alloc_sweep.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *pointer, size_t size);
void __real_free(void *pointer);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *pointer, size_t size);
void __wrap_free(void *pointer);

// State of the sweep in progress: this file is the test's allocator, of which there is one, for all threads.
static struct {
    _Atomic bool active;
    _Atomic int64_t until_failure;  // allocations left before the one that fails; negative afterwards
    _Atomic bool failed;
    _Atomic int64_t held;  // allocations minus releases while active
} sweep;

static bool must_fail(void)
{
    if (!sweep.active || sweep.until_failure-- != 0) {
        return false;
    }
    sweep.failed = true;
    errno = ENOMEM;  // as malloc does
    return true;
}

static void *count_held(void *pointer)
{
    if (sweep.active && pointer != NULL) {
        sweep.held++;
    }
    return pointer;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : count_held(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : count_held(__real_calloc(count, size));
}

void *__wrap_realloc(void *pointer, size_t size)
{
    if (must_fail()) {
        return NULL;
    }
    void *moved = __real_realloc(pointer, size);
    return pointer == NULL ? count_held(moved) : moved;
}

void __wrap_free(void *pointer)
{
    if (sweep.active && pointer != NULL) {
        sweep.held--;
    }
    __real_free(pointer);
}

static int64_t run(alloc_sweep_fn code, void *user, bool tolerant)
{
    const int64_t most = 1000000;
    for (int64_t n = 0; n < most; n++) {
        ckm_error err = CKM_ERROR_INIT;
        sweep.until_failure = n;
        sweep.failed = false;
        sweep.held = 0;
        sweep.active = true;
        ckm_status status = code(user, &err);
        sweep.active = false;
        if (sweep.held > 0) {  // negative: a block that libc allocated was released
            fail_msg("with allocation %lld failing, %lld blocks are still held", (long long)n, (long long)sweep.held);
        }
        if (!sweep.failed) {
            if (status != CKM_OK) {
                fail_msg("fails without a failing allocation: %s", err.message);
            }
            assert_true(n > 0);
            return n;
        }
        if (tolerant) {
            continue;
        }
        if (status == CKM_OK) {
            fail_msg("allocation %lld failed, and the code reports success", (long long)n);
        }
        if (status != CKM_ERR_MEMORY) {
            fail_msg("allocation %lld failed, and the code reports \"%s\": %s", (long long)n, ckm_status_name(status),
                     err.message);
        }
    }
    fail_msg("still failing after %lld allocations", (long long)most);
    return most;
}

int64_t alloc_sweep(alloc_sweep_fn code, void *user)
{
    return run(code, user, false);
}

int64_t alloc_sweep_tolerant(alloc_sweep_fn code, void *user)
{
    return run(code, user, true);
}

static void *jansson_malloc(size_t size)
{
    return malloc(size);
}

static void jansson_free(void *pointer)
{
    free(pointer);
}

void alloc_sweep_jansson(void)
{
    json_set_alloc_funcs(jansson_malloc, jansson_free);
}
