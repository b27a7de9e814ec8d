// SPDX-License-Identifier: Apache-2.0
// What local search changes: which tensors are held over which stages (the matrix S, kept as spans of stages
// per tensor), and everything that follows from it: what each stage runs again (R), the cost, the peaks.
//
// The state is always closed and trimmed: R is the least for S, and every span ends in a stage that uses the
// tensor or at the end of the schedule. A change is a set of flips; what they bring about (operators that run
// or need not run any more, operands that are then held in vain) follows by itself, from late stages to early
// ones. Changes are written to a journal and can be taken back in reverse order.
//
// Memory is O(operators + edges + spans + recomputations), a change takes time in proportion to what the
// stages at the ends of its flips compute, and to the number of blocks of stages between them
// (search_profile.h).
#ifndef CKM_SRC_SOLVE_SEARCH_SEARCH_STATE_H
#define CKM_SRC_SOLVE_SEARCH_SEARCH_STATE_H

#include <checkmate/schedule.h>

#include "dataflow/dataflow.h"
#include "schedule/stages.h"
#include "solve/search/search_profile.h"

typedef struct ckm_i_span {
    int32_t first, last;  // stages into which the tensor is held
} ckm_i_span;

typedef struct ckm_i_spans {
    int32_t n, cap;
    ckm_i_span *at;  // ascending, not adjacent
} ckm_i_spans;

typedef struct ckm_i_ints {
    int32_t n, cap;
    int32_t *at;
} ckm_i_ints;

// One entry of the journal: a flip of x over first..last, or (x = -1) stage `first` before it changed.
typedef struct ckm_i_search_entry {
    int32_t x, first, last;
    int32_t n_ops;  // of the stage, on top of `old_ops`; -1: as they are now
    int64_t above;
} ckm_i_search_entry;

// What is known of a tensor while one stage is evaluated.
typedef struct ckm_i_search_mark {
    int64_t stamp;
    int32_t last_use;  // place in the stage of the last operator that reads it; -1
    bool live, stays;  // in memory now; held into the next stage
} ckm_i_search_mark;

typedef struct ckm_i_search {
    const ckm_dataflow *df;
    ckm_i_spans *held;   // per tensor
    ckm_i_ints *again;   // per operator: stages after its own in which it runs, ascending
    ckm_i_ints *extra;   // per stage: operators before its own that it runs, ascending
    ckm_i_ints *starts;  // per stage: tensors held into the next stage but not into this one
    int32_t *sibling;    // per tensor: the next one on its storage, in a ring
    int64_t *above;      // per stage: its peak less what it begins with
    ckm_i_profile peaks;
    int64_t total_cost;
    double excess;      // sum over stages of bytes over the budget
    int64_t most_cost;  // a change that would cost more in total is impossible; INT64_MAX: no limit
    bool failed;        // memory ran out: the state must not be used any more
    bool settled;       // false only while a state is set up: events are not known yet
    int32_t current;    // stage that is being settled; n_ops: none

    // Stages to look at again, ascending, and the journal.
    ckm_i_ints dirty;
    ckm_i_search_entry *journal;
    int64_t n_journal, cap_journal;
    int32_t *old_ops;
    int64_t n_old_ops, cap_old_ops;
    // While a stage is evaluated.
    int64_t stamp;
    ckm_i_search_mark *marks;  // per tensor
    int64_t *op_stamp;         // per operator
    ckm_i_ints ops;            // of the stage, its own last
    int64_t room;              // for costs of operators, up to most_cost
    int32_t (*pairs)[2], (*chosen)[2];

    // The best state met, and the tensors whose spans differ from it.
    ckm_i_spans *kept;
    ckm_i_ints differs;
    bool *differs_mark;
} ckm_i_search;

// Holds everything from its making to its last use. O(operators + edges).
ckm_status ckm_i_search_create(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_search **out,
                               ckm_error *err) CKM_NODISCARD;
void ckm_i_search_free(ckm_i_search *s);
// Replaces the state: by what some spans hold, closed and trimmed, or all where that costs more than 63 bits hold; by holding everything; by what a schedule holds,
// which must compute operators for the first time in the graph's order; by the kept state.
ckm_status ckm_i_search_take(ckm_i_search *s, const ckm_i_spans *from, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_search_hold_all(ckm_i_search *s, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_search_load(ckm_i_search *s, const ckm_schedule *schedule, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_search_restore(ckm_i_search *s, ckm_error *err) CKM_NODISCARD;
// Keeps the state; O(what changed since the last one kept).
void ckm_i_search_keep(ckm_i_search *s);

// The first of the spans that ends at stage t or later.
int32_t ckm_i_span_place(const ckm_i_spans *spans, int32_t t);
bool ckm_i_search_holds(const ckm_i_search *s, int32_t x, int32_t t);
// The last stage before t, or the first from t on, that makes or reads x; for a result also the last stage.
// -1: none.
int32_t ckm_i_search_event_before(const ckm_i_search *s, int32_t x, int32_t t);
int32_t ckm_i_search_event_from(const ckm_i_search *s, int32_t x, int32_t t);

// Changes. `flip` marks the stages at both ends as dirty, `settle` brings everything up to date; false when
// that is impossible or memory ran out, the caller then takes the change back. A flip's stages are all held or
// none is, after the producer's first run and before the last row.
typedef struct ckm_i_search_point {
    int64_t n_journal, total_cost;
    double excess;
} ckm_i_search_point;
static inline ckm_i_search_point ckm_i_search_now(const ckm_i_search *s)
{
    return (ckm_i_search_point){s->n_journal, s->total_cost, s->excess};
}
void ckm_i_search_flip(ckm_i_search *s, int32_t x, int32_t first, int32_t last);
bool ckm_i_search_settle(ckm_i_search *s);
void ckm_i_search_undo(ckm_i_search *s, const ckm_i_search_point *point);
static inline void ckm_i_search_commit(ckm_i_search *s)
{
    s->n_journal = s->n_old_ops = 0;
}

// The state as matrices (S only) or as steps.
void ckm_i_search_to_stages(const ckm_i_search *s, ckm_i_stages *out);
ckm_status ckm_i_search_emit(ckm_i_search *s, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

// Within the module (search_state.c): flips x over first..last without journal or consequences; sets what stage t
// runs on top of its own operator, and its peak less what it begins with.
void ckm_i_search_turn(ckm_i_search *s, int32_t x, int32_t first, int32_t last);
bool ckm_i_search_set_extra(ckm_i_search *s, int32_t t, const int32_t *ops, int32_t n);
void ckm_i_search_set_above(ckm_i_search *s, int32_t t, int64_t above);
bool ckm_i_spans_copy(const ckm_i_spans *from, ckm_i_spans *to);
// Appends first..last, which comes after all that is there, and joins it to the last span where it is adjacent;
// first > last adds nothing. False when memory ran out.
bool ckm_i_spans_append(ckm_i_spans *spans, int32_t first, int32_t last);
// Frees n lists and `spans` itself (NULL is fine).
void ckm_i_spans_free(ckm_i_spans *spans, int32_t n);
// Within the module (search_stage.c): finds what stage t runs into s->ops, with marks for what they touch;
// false when that costs more than s->most_cost allows, or memory ran out. Then its peak less what it begins with; the
// steps are appended to `schedule` unless it is NULL.
bool ckm_i_search_close_stage(ckm_i_search *s, int32_t t);
int64_t ckm_i_search_walk_stage(ckm_i_search *s, int32_t t, ckm_schedule *schedule, ckm_status *status, ckm_error *err);
// Appends, removes; false when memory ran out.
bool ckm_i_ints_push(ckm_i_ints *list, int32_t value);
bool ckm_i_ints_insert(ckm_i_ints *list, int32_t value);
void ckm_i_ints_remove(ckm_i_ints *list, int32_t value);

#endif
