// SPDX-License-Identifier: Apache-2.0
// Where the stage relaxation cuts schedules (window_model.h). Bounds depend on it a great deal, and no rule says where the
// best place is: a program with a single cut takes hundredths of a second, so places are tried.
#ifndef CKM_SRC_SOLVE_BOUNDS_CUT_POINTS_H
#define CKM_SRC_SOLVE_BOUNDS_CUT_POINTS_H

#include "dataflow/dataflow.h"
#include "solve/bounds/window_model.h"

typedef struct ckm_i_cut_points {
    int32_t n_ops, first;  // cuts come after operators from `first` on
    int64_t *live;         // per operator, when nothing is recomputed: bytes that live
    double *price;         // per operator: an estimate of what a cut there proves (ckm_i_cut_prices)
    double *score;         // per operator: the bound with a single cut there, -INFINITY when it was not tried
    int32_t best;          // the operator with the largest score, -1
    int32_t from, to;      // where the next places to try are
    int32_t *next;         // places to try
    int32_t n_next, at;
    int32_t *current;   // cuts of the ladder's next relaxation, ascending
    int32_t n_current;  // 0: not begun
    int32_t *rank;      // per operator: when it came among them, 1 for the first
    int32_t last_rank;  // of the latest
    bool *left;         // per operator: was among them, and its memory row had room to spare
    int32_t stretches;  // each of which has been given a cut where the point asked for none
} ckm_i_cut_points;

ckm_status ckm_i_cut_points_init(const ckm_dataflow *df, int64_t budget_bytes, int32_t first, ckm_i_cut_points *out,
                                 ckm_error *err) CKM_NODISCARD;
void ckm_i_cut_points_dispose(ckm_i_cut_points *cuts);

// The next place to try, -1 when there is none: first all over the range, then closer and closer around the best.
int32_t ckm_i_cut_points_next(ckm_i_cut_points *cuts);
// What a single cut there gave.
void ckm_i_cut_points_score(ckm_i_cut_points *cuts, int32_t cut, double bound);

// At most n_cuts cuts, ascending, evenly spread: after the best operator of each stretch that was tried, else after the
// one with most to hold. Written to `out` (room for n_cuts); returns their number.
int32_t ckm_i_cut_points_choose(const ckm_i_cut_points *cuts, int32_t n_cuts, int32_t *out);

// A ladder of relaxations, each with cuts where the point of the one before asks for them. Begin with the best single cut
// where so few are wanted that they would not find it, else with n_cuts evenly spread. Refine takes what the relaxation on
// the current cuts gave (window_model.h): cuts with room to spare go, once each; new ones come after the operators with the
// largest excess; where there is none, into stretches without a cut, of which there are twice as many each time. False
// when there is no place left for a cut.
void ckm_i_cut_points_begin(ckm_i_cut_points *cuts, int32_t n_cuts);
bool ckm_i_cut_points_refine(ckm_i_cut_points *cuts, double *excess, const double *slack);

// At most n_cuts of the current cuts, those that came first, ascending. Returns their number. O(n_current²).
int32_t ckm_i_cut_points_earliest(const ckm_i_cut_points *cuts, int32_t n_cuts, int32_t *out);

// An estimate of what a single cut proves, for every place at once: prices[v] (room for every operator) is the least cost at which as
// much of what lives on past v as does not fit with v's working set can be made again, each storage by its operator alone. With a second
// memory, less what the links can take out before and back after.
// O((operators + edges) log operators).
ckm_status ckm_i_cut_prices(const ckm_dataflow *df, int64_t budget_bytes, double *prices, ckm_error *err) CKM_NODISCARD;

// Where the open relaxation cuts schedules (window_model.h).

typedef struct ckm_i_open_places {
    const ckm_dataflow *df;
    double *promise;  // per operator: an estimate of what a cut after it proves; below zero: by how much that is missed
    double *score;    // per operator: what one has proven, -INFINITY: not tried
    int32_t best;     // the operator with the largest score, -1
    int32_t n_tried;
    ckm_i_open_reach reach;
    bool *fits;  // per operator: room for a chain's choices
} ckm_i_open_places;

ckm_status ckm_i_open_places_init(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_open_places *out,
                                  ckm_error *err) CKM_NODISCARD;
void ckm_i_open_places_dispose(ckm_i_open_places *places);

// The next operator to try, -1 when there is none: by turns of all that are left and of the neighbours of the best.
int32_t ckm_i_open_places_next(const ckm_i_open_places *places);
void ckm_i_open_places_score(ckm_i_open_places *places, int32_t cut, double bound);

// A chain of at most n_cuts operators around the best, ascending, far apart and of good promise. Returns their number; a
// longer chain has all of a shorter one.
int32_t ckm_i_open_places_chain(ckm_i_open_places *places, int32_t n_cuts, int32_t *out);

#endif
