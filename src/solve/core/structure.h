// SPDX-License-Identifier: Apache-2.0
// Facts about a dataflow graph that several solvers need.
#ifndef CKM_SRC_SOLVE_CORE_STRUCTURE_H
#define CKM_SRC_SOLVE_CORE_STRUCTURE_H

#include "dataflow/dataflow.h"

// Greatest common divisor; of (0, b) it is b.
int64_t ckm_i_gcd(int64_t a, int64_t b);

// What a program counts costs in: multiples of their gcd, at least 1, and so that they come to at most 1e7 together. Costs
// that are small integers stay integers, so that an engine rounds bounds up by itself.
double ckm_i_cost_scale(const ckm_dataflow *df, int64_t *cost_gcd);

// What memory rows count in, in units of which the largest size has this many: the smallest power of two that leaves at most
// 1e4. With a power of two sizes stay what they are: sums of them in floating point are those of integers as long as all
// together have fewer than 2^53 units.
double ckm_i_row_scale(int64_t largest_units);

// What memory rows count in, in bytes: multiples of the gcd of all sizes, of which the largest tensor has at most 1e4.
double ckm_i_byte_scale(const ckm_dataflow *df);

// out[x]: what x is a view of, an operand of its operator on the same storage, -1 where there is none. O(edges).
void ckm_i_find_views(const ckm_dataflow *df, int32_t *out);
bool ckm_i_has_views(const ckm_dataflow *df);

// last_need[v]: the largest operator that can be reached from v, v itself included, or n_ops when that leads
// to a result. No stage after it has any use for v. O(edges).
void ckm_i_last_need(const ckm_dataflow *df, int32_t *last_need);

// last_use[x] of a storage x: the last operator that reads a tensor on it, n_ops where one is a result, -1 where none is
// either; -1 of other tensors. O(tensors).
void ckm_i_last_use(const ckm_dataflow *df, int32_t *last_use);

// The least bytes that operator v has in memory when it runs, in addition to the resident ones: the storages it touches and
// its workspace, less what in-place pairs can save at best. O(operands log operands), and what
// ckm_i_inplace_best takes.
int64_t ckm_i_working_set(const ckm_dataflow *df, int32_t v);

#endif
