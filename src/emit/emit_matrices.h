// SPDX-License-Identifier: Apache-2.0
// R and S of any schedule, frontier-advancing or not, as few numbers.
#ifndef CKM_SRC_EMIT_EMIT_MATRICES_H
#define CKM_SRC_EMIT_EMIT_MATRICES_H

#include <checkmate/emit.h>

// A run of ones in a column of S: rows first..last.
typedef struct ckm_i_held {
    int32_t column, first, last;
    ckm_emit_class what;
} ckm_i_held;

typedef struct ckm_i_matrices {
    int32_t n;        // stages, and operators
    int32_t *column;  // by operator: its place in the order of first computations
    int32_t *stage;   // by moment; R has a one in row stage[m], column column[op of m]
    int32_t n_held;
    ckm_i_held *held;
} ckm_i_matrices;

ckm_status ckm_i_matrices_create(const ckm_emit_facts *facts, ckm_i_matrices *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_matrices_dispose(ckm_i_matrices *m);

#endif
