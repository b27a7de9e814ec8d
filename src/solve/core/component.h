// SPDX-License-Identifier: Apache-2.0
// The components that a solve is made of: each can be left out, and what each takes and finds is counted. A component is
// a const ckm_i_component in the file that does its work, and a line in core/component_registry.h.
#ifndef CKM_SRC_SOLVE_CORE_COMPONENT_H
#define CKM_SRC_SOLVE_CORE_COMPONENT_H

#include <checkmate/solve.h>

typedef struct ckm_i_solver ckm_i_solver;

typedef struct ckm_i_component {
    const char *name;
    ckm_component_kind kind;
    const char *summary;  // one line for a person
    // What `auto` calls by itself, in the order of the list, before chains, proofs and search: its work, as long as it takes or until
    // the solver should stop; whether it is worth a call (NULL: always); and its slice, a share of the time left. Where `run` is
    // NULL, a strategy calls it by name.
    ckm_status (*run)(ckm_i_solver *solver, ckm_error *err);
    bool (*applies)(const ckm_i_solver *solver);
    double share;
} ckm_i_component;

// How deep turns nest at most.
enum { CKM_I_MOST_TURNS = 8 };

// What the components of one solve have done. Solvers of reduced, permuted or smaller problems within it share it.
typedef struct ckm_i_accounts {
    const ckm_i_solver *owner;  // whose incumbent and bound count
    ckm_component_use use[CKM_MOST_COMPONENTS];
    bool left_out[CKM_MOST_COMPONENTS];
    int32_t turns[CKM_I_MOST_TURNS];  // whose turn it is, innermost last
    int32_t n_turns;
    double since_seconds;         // the last change of turns
    int32_t found_by, proven_by;  // the incumbent, the bound or the proof that nothing fits; -1: none of them
} ckm_i_accounts;

// `without` as in ckm_solve_options. CKM_ERR_NOT_FOUND for a name that is none.
ckm_status ckm_i_accounts_init(ckm_i_accounts *accounts, const char *without, const ckm_i_solver *owner,
                               ckm_error *err) CKM_NODISCARD;
// The table, found_by and proven_by.
void ckm_i_accounts_report(const ckm_i_accounts *accounts, ckm_solve_result *result);

// Begins a turn of the component, during which what is handed in is its own, until ckm_i_component_end(). False where it is left
// out: then there is no turn to end. Turns nest, and the time of an inner one is no part of the outer one's.
// A solver without accounts leaves nothing out.
bool ckm_i_component_begin(const ckm_i_solver *solver, const ckm_i_component *component) CKM_NODISCARD;
void ckm_i_component_end(const ckm_i_solver *solver);
// A turn of `work`; nothing where it is left out.
ckm_status ckm_i_component_run(ckm_i_solver *solver, const ckm_i_component *component,
                               ckm_status (*work)(ckm_i_solver *solver, ckm_error *err), ckm_error *err) CKM_NODISCARD;
// A turn for each of those that `auto` calls by itself.
ckm_status ckm_i_components_run(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;
bool ckm_i_component_is_left_out(const ckm_i_solver *solver, const ckm_i_component *component);
// For concurrent work: a turn that is a part of a call, and the time of a call that passed concurrently.
void ckm_i_component_resume(const ckm_i_solver *solver, const ckm_i_component *component);
void ckm_i_component_count(const ckm_i_solver *solver, const ckm_i_component *component, double seconds);

// Called by the solver whose result it is: a cheaper schedule (before_cost -1 for the first), a better bound, a proof
// that nothing fits (gained 0).
void ckm_i_accounts_found(const ckm_i_solver *solver, int64_t before_cost, int64_t cost);
void ckm_i_accounts_proven(const ckm_i_solver *solver, double gained);

#endif
