// SPDX-License-Identifier: Apache-2.0
// Small random dataflow graphs in a form of their own, so that the brute force below them depends on nothing
// it is meant to check; and random schedules for them, legal and broken.
#ifndef CKM_TESTS_ORACLE_RANDOM_H
#define CKM_TESTS_ORACLE_RANDOM_H

#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>

#include "base/rng.h"

enum { ORACLE_MAX_OPS = 8, ORACLE_MAX_TENSORS = 16, ORACLE_MAX_PRODUCED = 10, ORACLE_MAX_OPERANDS = 4 };

typedef struct oracle_tensor {
    int64_t bytes;
    int32_t alias_of;
} oracle_tensor;

typedef struct oracle_op {
    int64_t cost, workspace_bytes;
    bool recomputable;
    bool loads;  // without inputs, one output: can always be read again
    int32_t n_inputs, n_outputs, n_pairs;
    int32_t inputs[ORACLE_MAX_OPERANDS], outputs[ORACLE_MAX_OPERANDS], pairs[ORACLE_MAX_OPERANDS][2];
} oracle_op;

typedef struct oracle_graph {
    int64_t fixed_bytes;
    int32_t n_tensors, n_ops, n_results;
    oracle_tensor tensors[ORACLE_MAX_TENSORS];
    oracle_op ops[ORACLE_MAX_OPS];
    int32_t results[ORACLE_MAX_TENSORS];
} oracle_graph;

// A graph of min_ops..max_ops operators with at most max_produced tensors that operators produce. Which
// features it has (several outputs, views, in-place pairs, workspace, non-recomputable operators, inputs,
// results, zero sizes and costs) is drawn per graph, so that each also occurs without the others.
void oracle_random_graph(ckm_i_rng *rng, int32_t min_ops, int32_t max_ops, int32_t max_produced, oracle_graph *out);

// Makes sizes of such a graph differ by next to nothing: each becomes that many times a power of two and up to two bytes
// more or less, workspaces and fixed bytes too; costs become large and uneven.
void oracle_near_ties(ckm_i_rng *rng, oracle_graph *g);

// The same graph through the public interface; fails the test when that refuses it.
ckm_dataflow *oracle_build(const oracle_graph *g);
// The same with a second memory; costs are nanoseconds. `second` may be NULL.
ckm_dataflow *oracle_build_with(const oracle_graph *g, const ckm_second_memory *second);

// The graph and a schedule as text, for messages; the caller frees it. `s` may be NULL.
char *oracle_describe(const oracle_graph *g, const ckm_schedule *s);

// A legal schedule: random computations, recomputations, frees and in-place pairs. The caller frees it.
ckm_schedule *oracle_random_schedule(ckm_i_rng *rng, const oracle_graph *g);

// A copy with one to three random changes: steps dropped, repeated, swapped, other indices (some out of
// range), pairs added, dropped or changed. Often illegal, sometimes not.
ckm_schedule *oracle_corrupt_schedule(ckm_i_rng *rng, const oracle_graph *g, const ckm_schedule *s);

// Number of repetitions scaled by the environment variable CKM_ORACLE_SCALE, at least 1.
int64_t oracle_scaled(int64_t count);

#endif
