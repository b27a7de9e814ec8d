// SPDX-License-Identifier: Apache-2.0
// Open relaxations (open_model.h) of growing size, one after the other in a child process: first single cuts, to find a good
// place, then chains of cuts around the best of them.
#ifndef CKM_SRC_SOLVE_BOUNDS_OPEN_PROVER_H
#define CKM_SRC_SOLVE_BOUNDS_OPEN_PROVER_H

#include "solve/core/solver.h"

typedef struct ckm_i_open_prover ckm_i_open_prover;

// Proves for `solver` what holds for every schedule of the graph within the budget: those of the solver, or those of a
// reduced problem whose bounds carry over to all schedules of it. Both are kept. With `beside`, a process is started that
// all of it runs in, so that nothing is forked later on, when the caller may have threads; where there is none to be had,
// that is logged, and there is nothing to do.
ckm_status ckm_i_open_prover_create(ckm_i_solver *solver, const ckm_dataflow *df, int64_t budget_bytes, bool beside,
                                    ckm_i_open_prover **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_open_prover_free(ckm_i_open_prover *prover);

// Goes on without waiting: hands in what is new and starts what is next, but nothing that would go on beyond that time on
// ckm_i_clock_seconds. Cheap where it is asked again at once. False when nothing is left to do.
bool ckm_i_open_prover_go_on(ckm_i_open_prover *prover, double end_seconds);
// The same, waiting, until that time, or nothing is left to do, or the solver should stop.
void ckm_i_open_prover_run(ckm_i_open_prover *prover, double end_seconds);
bool ckm_i_open_prover_has_ended(const ckm_i_open_prover *prover);
// What went wrong, if anything.
ckm_status ckm_i_open_prover_report(const ckm_i_open_prover *prover, ckm_error *err) CKM_NODISCARD;

#endif
