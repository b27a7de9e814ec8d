// SPDX-License-Identifier: Apache-2.0
// The transfers of a session: which begin or are waited for before which call, and their second memory.
#ifndef CKM_SRC_RUN_SESSION_SESSION_MOVES_H
#define CKM_SRC_RUN_SESSION_SESSION_MOVES_H

#include "run/backend/transfers.h"
#include "run/session/session.h"

// A step of the schedule that begins a transfer or waits for one.
struct ckm_i_move {
    int64_t before;  // the call that it precedes; n_calls: it is behind the last
    ckm_step_kind kind;
    ckm_i_transfer what;
    int64_t cost_ns;      // of a beginning, as planned: what the link takes
    int64_t begun_by;     // of a wait: the move that it waits for
    double ends;          // of a beginning: when it is over, for ckm_i_session_makespan
    int64_t nanoseconds;  // that the last step stood still in it
};

// Binds the transfers of a schedule to the session's arena, places their copies, and opens the second memory; nothing where the
// schedule has no transfers. Errors: CKM_ERR_ARGUMENT where
// the program has no second memory, CKM_ERR_UNSUPPORTED where its back end has none; those of opening it.
ckm_status ckm_i_session_bind_moves(ckm_session *session, const ckm_dataflow *df, const ckm_schedule *s,
                                    const ckm_plan *plan, ckm_error *err) CKM_NODISCARD;
void ckm_i_session_free_moves(ckm_session *session);
// Bytes of the tables of these transfers, the second memory's slots included.
int64_t ckm_i_session_move_bytes(const ckm_program *program, const ckm_schedule *s);
// Runs the transfers from *at on that precede this call.
ckm_status ckm_i_session_run_moves(ckm_session *session, int64_t *at, int64_t call, ckm_error *err) CKM_NODISCARD;
// After an error: waits for transfers under way, so that nothing is written later.
void ckm_i_session_settle_moves(ckm_session *session);
// What a step takes whose calls take so long, by operator; the transfers at the speeds that were planned with.
double ckm_i_session_makespan(ckm_session *session, const double *seconds_by_op);

#endif
