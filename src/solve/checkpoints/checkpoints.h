// SPDX-License-Identifier: Apache-2.0
// What the checkpointing heuristics share: the forward part of a graph as a chain, the operators that may be
// checkpointed, and the matrices that a set of checkpoints stands for. docs/BASELINES.md describes them.
#ifndef CKM_SRC_SOLVE_CHECKPOINTS_CHECKPOINTS_H
#define CKM_SRC_SOLVE_CHECKPOINTS_CHECKPOINTS_H

#include "solve/core/solver.h"

// What a strategy wants to hold from stage to stage: as rows of bits where the graph is small, and as a list of spans
// where matrices, which take memory and time in the square of the operators, would not do. What is computed again follows.

// Matrices of graphs of more operators than this are not made.
#define CKM_I_MATRIX_MAX_OPS 8192

typedef struct ckm_i_hold {
    int32_t tensor, first, last;  // rows of S
} ckm_i_hold;

typedef struct ckm_i_holds {
    const ckm_dataflow *df;
    ckm_i_stages *stages;  // the bits go here; NULL: spans go to the list
    int64_t n, cap;
    ckm_i_hold *at;
    bool failed;    // memory ran out
    bool too_many;  // more spans than a schedule worth having has: the rest is not listed
} ckm_i_holds;

// Holds tensor x in rows first..last, those of them in which that is possible.
void ckm_i_holds_add(ckm_i_holds *holds, int32_t x, int32_t first, int32_t last);
// Empties the list and frees it. The stages are the caller's.
void ckm_i_holds_dispose(ckm_i_holds *holds);

// The schedule of what the list says: in every stage what it newly holds and its own operator need, each tensor freed
// after its last use. *out is NULL where it would compute more than eight times as many operators as there are, or `stop`
// said so. O(spans log spans + computations + edges).
ckm_status ckm_i_holds_schedule(ckm_i_holds *holds, ckm_stop_fn stop, void *user, ckm_schedule **out,
                                ckm_error *err) CKM_NODISCARD;

// Hands in what is held: the matrices as they are (ckm_i_solver_offer would drop what is held in vain), R in them already;
// or the schedule of the list. *peak_bytes (may be NULL): -1 where there is none.
ckm_status ckm_i_holds_offer(ckm_i_solver *solver, ckm_i_holds *holds, const char *source, int64_t *peak_bytes,
                             ckm_error *err) CKM_NODISCARD;

// The forward part of a graph, seen as a chain of `n` positions in first-execution order, and for every
// other operator the position that it belongs to when the chain is unwound.
//
// Forward are the operators of kind forward before the first of kind backward. In a graph that names no
// other kind they are the first half of a layer-level training graph when it has that shape (2n + 1
// operators, operator 2n - j reading operator j), and otherwise all operators.
typedef struct ckm_i_forward {
    const ckm_dataflow *df;
    int32_t n;
    int32_t *ops;       // position -> operator, ascending
    int32_t *position;  // operator -> position, or -1
    // Of operators that are not forward: n before the unwinding starts (losses), then never increasing. A
    // backward operator belongs to the earliest forward operator it reads; in the layer-level training graph
    // that is its layer.
    int32_t *layer;
    int32_t *first_stage, *last_stage;  // per position, and the turn: the answers of the functions below
    int32_t turn;                       // stage after the last forward operator's; n_ops when there is none
    bool unwinds;                       // something other than the forward part follows
} ckm_i_forward;

ckm_status ckm_i_forward_create(const ckm_dataflow *df, ckm_i_forward **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_forward_free(ckm_i_forward *fw);
// First stage that unwinds position p or an earlier one (n_ops: none does), and last stage that unwinds
// position p or a later one (-1: none). p == n: the turn itself.
int32_t ckm_i_forward_first_stage(const ckm_i_forward *fw, int32_t p);
int32_t ckm_i_forward_last_stage(const ckm_i_forward *fw, int32_t p);
// Bytes of the storage that a forward operator's outputs add.
int64_t ckm_i_forward_bytes(const ckm_i_forward *fw, int32_t p);

// A set of positions, ascending.
typedef struct ckm_i_positions {
    int32_t n;
    int32_t *at;  // room for all positions
} ckm_i_positions;

ckm_status ckm_i_positions_create(const ckm_i_forward *fw, ckm_i_positions *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_positions_dispose(ckm_i_positions *set);

typedef enum ckm_i_candidates {
    CKM_I_CANDIDATES_ALL,          // forward operators with an edge to another one
    CKM_I_CANDIDATES_ARTICULATION  // articulation points of the undirected forward graph between source and sink
} ckm_i_candidates;
ckm_status ckm_i_candidates_find(const ckm_i_forward *fw, ckm_i_candidates which, ckm_i_positions *out,
                                 ckm_error *err) CKM_NODISCARD;

// Chen et al. 2016: every floor(sqrt(n))-th candidate; or, walking forward and adding up bytes, every
// candidate at which the sum since the last checkpoint passes the limit. `out` has been created.
void ckm_i_checkpoints_sqrt(const ckm_i_positions *candidates, ckm_i_positions *out);
void ckm_i_checkpoints_greedy(const ckm_i_forward *fw, const ckm_i_positions *candidates, int64_t limit_bytes,
                              ckm_i_positions *out);

// Segment limit number k of the greedy sweep: k/20 of `base_bytes`, rounded down; k < CKM_I_GREEDY_LIMITS.
#define CKM_I_GREEDY_LIMITS 60
int64_t ckm_i_checkpoints_greedy_limit(int64_t base_bytes, int32_t k);

// The matrices of the Checkmate artifact for a set of checkpoints, S as it stands there, R in closed form.
// Bits of S that nothing uses are kept, since the artifact pays for them; ckm_i_stages_complete on the
// result drops them, which never costs more and often needs less memory. They are dropped here already when
// nothing follows the forward part: no such graph is in the paper. `stages` has an empty S.
ckm_status ckm_i_checkpoints_stages(const ckm_i_forward *fw, const ckm_i_positions *checkpoints, ckm_i_stages *stages,
                                    ckm_error *err) CKM_NODISCARD;
// The same for the strategy that keeps nothing but the operator computed last.
ckm_status ckm_i_checkpoints_last_stages(const ckm_dataflow *df, ckm_i_stages *stages, ckm_error *err) CKM_NODISCARD;

// What is held for either, without R; and the first of them closed and handed in, by way of zeroed `stages` or, where that
// is NULL, as spans, of which what nothing uses is dropped. *peak_bytes (may be NULL): -1 where there is no schedule.
void ckm_i_checkpoints_hold_set(const ckm_i_forward *fw, const ckm_i_positions *checkpoints, ckm_i_holds *holds);
void ckm_i_checkpoints_hold_last(ckm_i_holds *holds);
ckm_status ckm_i_checkpoints_offer_set(ckm_i_solver *solver, const ckm_i_forward *fw,
                                       const ckm_i_positions *checkpoints, ckm_i_stages *stages, const char *source,
                                       int64_t *peak_bytes, ckm_error *err) CKM_NODISCARD;

// Building blocks of such matrices, for zeroed ones: hold what operator v puts out in rows [from, to], those
// of them in which that is possible; hold what the graph returns; hold what `v` puts out until it was used.
void ckm_i_checkpoints_hold(ckm_i_holds *holds, int32_t v, int32_t from, int32_t to);
void ckm_i_checkpoints_hold_results(ckm_i_holds *holds);
void ckm_i_checkpoints_hold_while_used(ckm_i_holds *holds, int32_t v);

// Griewank & Walther 2000 on the chain of articulation points, with `slots` checkpoints in addition to the inputs and
// the part of the chain being unwound. S only: offer or complete the result. Each slot number gives the least
// number of recomputations on a chain whose operators cost the same.
typedef struct ckm_i_griewank ckm_i_griewank;
ckm_status ckm_i_griewank_create(const ckm_i_forward *fw, ckm_i_griewank **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_griewank_free(ckm_i_griewank *gw);
// States that can be checkpointed; more slots than that change nothing.
int32_t ckm_i_griewank_states(const ckm_i_griewank *gw);
ckm_status ckm_i_griewank_hold(const ckm_i_griewank *gw, int32_t slots, ckm_i_holds *holds,
                               ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_griewank_stages(const ckm_i_griewank *gw, int32_t slots, ckm_i_stages *stages,
                                 ckm_error *err) CKM_NODISCARD;

// Whether the graph has the shape of the paper's layer-level training graph: n layers, the loss, n backward operators.
bool ckm_i_checkpoints_is_mirrored(const ckm_dataflow *df);

#endif
