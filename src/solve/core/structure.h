// SPDX-License-Identifier: Apache-2.0
// Facts about a dataflow graph that several solvers need.
#ifndef CKM_SRC_SOLVE_CORE_STRUCTURE_H
#define CKM_SRC_SOLVE_CORE_STRUCTURE_H

#include "dataflow/dataflow.h"

// Greatest common divisor; of (0, b) it is b.
int64_t ckm_i_gcd(int64_t a, int64_t b);

// last_need[v]: the largest operator that can be reached from v, v itself included, or n_ops when that leads
// to a result. No stage after it has any use for v. O(edges).
void ckm_i_last_need(const ckm_dataflow *df, int32_t *last_need);

// The least bytes that operator v has in memory when it runs, beside the resident ones: the storages it touches and
// its workspace, less what in-place pairs can save at best. O(operands^2).
int64_t ckm_i_working_set(const ckm_dataflow *df, int32_t v);

#endif
