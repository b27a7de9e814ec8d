// SPDX-License-Identifier: Apache-2.0
// Failing every allocation of a piece of code in turn. A test in a file tests/unit/<module>/test_alloc_*.c is
// linked with malloc, calloc and realloc wrapped; it hands a function to alloc_sweep(), which runs it once
// with the first allocation failing, once with the second, and so on until a run meets no failure.
//
// Only calls from this project's own code are wrapped; those inside shared libraries are not. For jansson,
// call alloc_sweep_jansson() first, which routes its allocations through the wrapped functions.
#ifndef CKM_TESTS_ALLOC_SWEEP_H
#define CKM_TESTS_ALLOC_SWEEP_H

#include <checkmate/base.h>

// The code under test: must give CKM_ERR_MEMORY when an allocation failed and CKM_OK otherwise, release
// everything in either case, and leave its outputs untouched on failure (which it checks itself).
typedef ckm_status (*alloc_sweep_fn)(void *user, ckm_error *err);

// Runs `code` until it succeeds without an injected failure, failing the cmocka test when a status is not
// as described, when allocations are still held after a run, or when it never ends (a million runs).
// Returns the number of allocations swept over, which is at least 1.
int64_t alloc_sweep(alloc_sweep_fn code, void *user);

// The same, but any status is fine while an allocation fails: for code that can do without one.
int64_t alloc_sweep_tolerant(alloc_sweep_fn code, void *user);

void alloc_sweep_jansson(void);

#endif
