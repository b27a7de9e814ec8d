// SPDX-License-Identifier: Apache-2.0
// A dataflow graph that is being reduced. Tensors and operators keep their numbers; what has gone is marked.
#ifndef CKM_SRC_SOLVE_PRESOLVE_PRESOLVE_GRAPH_H
#define CKM_SRC_SOLVE_PRESOLVE_PRESOLVE_GRAPH_H

#include "solve/presolve/presolve.h"

typedef struct ckm_i_lean_tensor {
    int32_t storage, n_users;
    bool gone, is_result;
    // Of the storage that has this number: bytes, tensors on it that have not gone, the one that owns it.
    int64_t bytes;
    int32_t n_members, owner;
} ckm_i_lean_tensor;

typedef struct ckm_i_lean_op {
    int64_t cost, workspace_bytes;
    bool recomputable, gone;
    int32_t n_inputs, n_outputs, n_inplace;
    int32_t *inputs, *outputs;  // without those that have gone, each once
    int32_t (*inplace)[2];      // without those that can never be used
} ckm_i_lean_op;

typedef struct ckm_i_lean {
    const ckm_dataflow *df;
    int64_t room;  // the budget less what is always in use
    ckm_i_lean_tensor *tensors;
    ckm_i_lean_op *ops;
    int32_t *pool;       // behind the lists of the operators
    int32_t *listed;     // per tensor: the number of the list being copied that has it, from 1 on
    ckm_i_presolve *to;  // the maps
} ckm_i_lean;

bool ckm_i_lean_contains(const int32_t *items, int32_t n, int32_t wanted);
// Counts users and members of storages anew, and finds an owner for storages whose owner has gone.
void ckm_i_lean_count(ckm_i_lean *l);
// Takes tensors that are marked as gone out of the operators' lists, and counts.
void ckm_i_lean_sweep(ckm_i_lean *l);

// Tensors so small that all of them together make no difference to what fits the budget go.
ckm_status ckm_i_lean_drop_small(ckm_i_lean *l, ckm_error *err) CKM_NODISCARD;
// Outputs that are never read become workspace.
void ckm_i_lean_drop_dead(ckm_i_lean *l);
// Views that cost nothing go: who reads them reads what they are views of.
ckm_status ckm_i_lean_drop_views(ckm_i_lean *l, ckm_error *err) CKM_NODISCARD;
// Operators that may as well run right after the one before them become part of it.
void ckm_i_lean_merge(ckm_i_lean *l);

// Greatest common divisor of all sizes that are left; 1 if there are none.
int64_t ckm_i_lean_unit(const ckm_i_lean *l);
// The reduced graph in that unit; fills the maps.
ckm_status ckm_i_lean_build(ckm_i_lean *l, int64_t unit_bytes, ckm_error *err) CKM_NODISCARD;

#endif
