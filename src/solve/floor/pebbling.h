// SPDX-License-Identifier: Apache-2.0
// The reverse pebble game: how little memory any schedule can do with (docs/THEORY.md).
//
// A state is a set X of tensors that all are in memory at one moment. Of those, look at the ones computed last, by
// operator v. While v ran, the rest of X was in memory, and so were v's operands and outputs: going back to before v is
// a move, from X to (X \ outputs of v) + operands of v. The least peak of any schedule that gets X into memory is
// therefore the least, over sequences of moves from X to the empty set, of the largest memory met on the way.
#ifndef CKM_SRC_SOLVE_FLOOR_PEBBLING_H
#define CKM_SRC_SOLVE_FLOOR_PEBBLING_H

#include "dataflow/dataflow.h"

// One set of tensors met, with what is known of the peak that it takes.
typedef struct ckm_i_pebbling_state {
    int64_t at;  // its slots, ascending, in the arena
    int32_t n;
    int64_t low_bytes;   // proven: no schedule gets there with less
    int64_t high_bytes;  // enough, where every operator may run again; INT64_MAX: nothing known
    // How: by going back over operator `via` to state `to`. via < 0: all but the members of `to`, of none where that is
    // negative, are computed one by one, from nothing, while the rest is held.
    int32_t via, to;
} ckm_i_pebbling_state;

// A state whose moves are being tried one after the other.
typedef struct ckm_i_pebbling_frame {
    int32_t from, state, to;  // the state met, what is left of it after dropping, where the move tried last leads
    int32_t n_moves, next;
    int64_t first_move;
    int64_t key_bytes;  // least that a move refused so far would have needed
    bool forced;        // the only move, to a state that needs no more than this one
} ckm_i_pebbling_frame;

typedef struct ckm_i_pebbling_move {
    int32_t op;
    int64_t peak_bytes, after_bytes;
} ckm_i_pebbling_move;

// What an operator that makes members of the set at hand takes in addition to them, and where those members are.
typedef struct ckm_i_pebbling_group {
    int64_t extra_bytes;
    int32_t first, end;
} ckm_i_pebbling_group;

typedef struct ckm_i_pebbling {
    const ckm_dataflow *df;
    // Tensors that operators make, by producer: operator v makes slots first_slot[v] ... first_slot[v + 1] - 1.
    int32_t n_slots;
    int32_t *slot_of, *tensor_of, *op_of, *first_slot;
    // What must be in memory while an operator runs, in addition to its outputs: its operands, and what else is known.
    int32_t *needs_at, *needs;
    bool *shares_storage;  // by tensor: with another tensor, or it is a graph input's
    uint64_t *ancestors;   // by operator: a bit per operator, itself included. NULL: every operator may run again
    uint64_t *runs_once;   // a bit per operator
    int64_t *low_bytes;    // by operator: no schedule computes it with less, proven
    int64_t *high_bytes;   // and what is believed to be enough
    // The set at hand.
    bool *is_in;                                   // by slot
    int32_t *tensors_in;                           // by storage
    int64_t bytes;                                 // on storages that are not always in memory
    int32_t *removed, *added, n_removed, n_added;  // the last move, for undoing it
    bool *pair_is_open;
    int32_t (*pairs)[2];  // those that the last move may use
    int32_t n_pairs;
    // States, a hash table of them, and work done, in slots looked at.
    ckm_i_pebbling_state *states;
    int32_t n_states, cap_states;
    int32_t *arena;
    int64_t n_arena, cap_arena;
    int32_t *table;
    int64_t table_size;
    int64_t work;
    bool small_first;  // the order in which moves are tried
    int32_t *slots, *child;
    ckm_i_pebbling_group *groups;
    ckm_i_pebbling_frame *frames;
    int64_t n_frames, cap_frames;
    ckm_i_pebbling_move *moves;
    int64_t n_moves, cap_moves;
} ckm_i_pebbling;

// O(operators + edges), and with operators that run only once O(operators * edges).
ckm_status ckm_i_pebbling_init(ckm_i_pebbling *p, const ckm_dataflow *df, ckm_error *err) CKM_NODISCARD;
// The same where every operator may run again: what is found to be enough has a game to show for it.
ckm_status ckm_i_pebbling_init_again(ckm_i_pebbling *p, const ckm_dataflow *df, ckm_error *err) CKM_NODISCARD;
void ckm_i_pebbling_dispose(ckm_i_pebbling *p);

// What must be in memory while v runs, in addition to its outputs: slots, ascending and each once, to `out`, which has room for
// v's operands and all slots; returns their number. Of what operators made that run only once and that v depends on, that
// includes the results, and at its first run what is still to be read by something that depends on v.
int32_t ckm_i_pebbling_needs(const ckm_i_pebbling *p, int32_t v, bool first_run, int32_t *out);

// Whether an operator that runs only once must run for u and for v; only where there are ancestors.
bool ckm_i_pebbling_shares_single_run(const ckm_i_pebbling *p, int32_t u, int32_t v);

// The set at hand, empty at first.
void ckm_i_pebbling_add(ckm_i_pebbling *p, int32_t slot);
void ckm_i_pebbling_remove(ckm_i_pebbling *p, int32_t slot);
// Goes back to before operator v: the set at hand becomes what had to be in memory then. `slots` names the set's members.
// Returns the memory in use while v ran, everything included; INT64_MAX when v cannot have run then. Undone by ..._undo.
int64_t ckm_i_pebbling_go_back(ckm_i_pebbling *p, int32_t v, const int32_t *slots, int32_t n);
// Memory in use while v runs with its needs in the set at hand, whatever may be overwritten overwritten.
int64_t ckm_i_pebbling_peak_at(ckm_i_pebbling *p, int32_t v);
void ckm_i_pebbling_undo(ckm_i_pebbling *p);
// After go_back from the members `slots`: the new members, ascending, to `out`; returns their number.
int32_t ckm_i_pebbling_members(const ckm_i_pebbling *p, const int32_t *slots, int32_t n, int32_t *out);

// The state of a set of slots, ascending.
ckm_status ckm_i_pebbling_intern(ckm_i_pebbling *p, const int32_t *slots, int32_t n, int32_t *state,
                                 ckm_error *err) CKM_NODISCARD;

// Takes note that a state fits a budget, and how, where that is better than what is known.
void ckm_i_pebbling_note(ckm_i_pebbling *p, int32_t state, int64_t budget_bytes, int32_t via, int32_t to);

// Drops from the set at hand, `slots`, whatever can be computed last, from nothing, while the rest is held. Returns how many slots
// are left.
int32_t ckm_i_pebbling_drop(ckm_i_pebbling *p, int32_t *slots, int32_t n, int64_t budget_bytes);

// What a set takes, at least: the most, over its parts, of the least that a part's last operator takes while the rest of
// the part is held. `slots` ascending; the set at hand is empty. O(n log n).
int64_t ckm_i_pebbling_held(ckm_i_pebbling *p, const int32_t *slots, int32_t n);

typedef enum ckm_i_pebbling_answer {
    CKM_I_PEBBLING_FITS,
    CKM_I_PEBBLING_REFUTED,
    CKM_I_PEBBLING_OPEN
} ckm_i_pebbling_answer;

// Whether some schedule gets a state's set into memory within `budget_bytes`, by depth-first search over moves.
// REFUTED is a proof, *key_bytes then the least budget that is not refuted; FITS is an indication; OPEN: `limit` more
// units of work did not suffice.
ckm_status ckm_i_pebbling_decide(ckm_i_pebbling *p, int32_t state, int64_t budget_bytes, int64_t limit,
                                 ckm_i_pebbling_answer *answer, int64_t *key_bytes, ckm_error *err) CKM_NODISCARD;

#endif
