// SPDX-License-Identifier: Apache-2.0
// Where the stage relaxation cuts schedules (stage_model.h). Bounds depend on it a great deal, and no rule says where the
// best place is: a program with a single cut takes hundredths of a second, so places are tried.
#ifndef CKM_SRC_SOLVE_BOUNDS_STAGE_CUTS_H
#define CKM_SRC_SOLVE_BOUNDS_STAGE_CUTS_H

#include "dataflow/dataflow.h"

typedef struct ckm_i_stage_cuts {
    int32_t n_ops, first;  // cuts come after operators from `first` on
    int64_t *live;         // per operator, when nothing is recomputed: bytes that live
    double *price;         // per operator: an estimate of what a cut there proves (stage_prices.h)
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
} ckm_i_stage_cuts;

ckm_status ckm_i_stage_cuts_init(const ckm_dataflow *df, int64_t budget_bytes, int32_t first, ckm_i_stage_cuts *out,
                                 ckm_error *err) CKM_NODISCARD;
void ckm_i_stage_cuts_dispose(ckm_i_stage_cuts *cuts);

// The next place to try, -1 when there is none: first all over the range, then closer and closer around the best.
int32_t ckm_i_stage_cuts_next(ckm_i_stage_cuts *cuts);
// What a single cut there gave.
void ckm_i_stage_cuts_score(ckm_i_stage_cuts *cuts, int32_t cut, double bound);

// At most n_cuts cuts, ascending, evenly spread: after the best operator of each stretch that was tried, else after the
// one with most to hold. Written to `out` (room for n_cuts); returns their number.
int32_t ckm_i_stage_cuts_choose(const ckm_i_stage_cuts *cuts, int32_t n_cuts, int32_t *out);

// A ladder of relaxations, each with cuts where the point of the one before asks for them. Begin with the best single cut
// where so few are wanted that they would not find it, else with n_cuts evenly spread. Refine takes what the relaxation on
// the current cuts gave (stage_excess.h): cuts with room to spare go, once each; new ones come after the operators with the
// largest excess; where there is none, into stretches without a cut, of which there are twice as many each time. False
// when there is no place left for a cut.
void ckm_i_stage_cuts_begin(ckm_i_stage_cuts *cuts, int32_t n_cuts);
bool ckm_i_stage_cuts_refine(ckm_i_stage_cuts *cuts, double *excess, const double *slack);

// At most n_cuts of the current cuts, those that came first, ascending. Returns their number. O(n_current²).
int32_t ckm_i_stage_cuts_earliest(const ckm_i_stage_cuts *cuts, int32_t n_cuts, int32_t *out);

#endif
