// SPDX-License-Identifier: Apache-2.0
// A back end made for tests of sessions: its kernels mix the words of their operands into their outputs, scribble over
// their workspace, and move a state at the first computation in a step only. Whatever is bound to the wrong address,
// overwritten too early or counted twice shows in the numbers.
#ifndef CKM_TESTS_SUPPORT_FAKE_BACKEND_H
#define CKM_TESTS_SUPPORT_FAKE_BACKEND_H

#include "run/backend/backend.h"

enum { FAKE_WORDS = 100, FAKE_WORKSPACE = 200 };  // 32-bit words of every tensor; bytes that some kernels ask for
enum { FAKE_PIECE = 60000, FAKE_PIECES = 200 };   // FAKE_PIECE: in the heap, not mapped by itself

typedef struct fake {
    int32_t kernels_held;
    int64_t runs, fail_at;    // fail_at: the run that fails; -1: none
    int32_t flawed;           // operator whose recomputations give other bits; -1: none
    const char *unsupported;  // kind without a kernel, or NULL
    size_t kernel_bytes;      // that every kernel keeps in addition
    int dropped;  // pieces of FAKE_PIECE bytes that are taken and freed again while the first kernel is made
} fake;

// `f` outlives it. Fails the running test where it is misused: a kernel that is never freed, a workspace out of line.
ckm_i_backend *fake_backend(fake *f);

// Takes and frees n pieces, at most FAKE_PIECES, below what it returns, which the caller frees: so that the C library keeps them.
void *fake_drop(int n, size_t kept_bytes);

#endif
