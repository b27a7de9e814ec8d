// SPDX-License-Identifier: Apache-2.0
// A training run, internal view: one region of memory, what lives where in it, and the calls of a step.
#ifndef CKM_SRC_RUN_SESSION_SESSION_H
#define CKM_SRC_RUN_SESSION_SESSION_H

#include <checkmate/run.h>

#include "run/session/program.h"

// One compute step, ready to run.
typedef struct ckm_i_bound_call {
    ckm_i_kernel *kernel;
    ckm_i_kernel_call call;  // seed, step and learning rate are filled in when it runs
    bool updates;            // a parameter
    bool moves_states;       // running statistics
} ckm_i_bound_call;

// A traced session's record of one operator's outputs in this step.
typedef struct ckm_i_trace {
    uint64_t fingerprint;
    bool seen;
} ckm_i_trace;

typedef struct ckm_i_move ckm_i_move;  // run/session/session_moves.h
struct ckm_i_transfers;                // run/backend/transfers.h

struct ckm_session {
    ckm_program *program;  // borrowed
    uint64_t seed;
    char *region;      // an address of the back end's
    bool borrows;      // the region, which is another session's
    int64_t arena_at;  // the persistent part is before it
    ckm_session_memory memory;
    int32_t n_tensors;
    ckm_session_tensor *tensors;
    char **addresses;  // of the tensors, on the back end
    int32_t *values;   // by session tensor: the training value
    int32_t labels, loss, correct;
    int64_t n_calls;
    ckm_i_bound_call *calls;
    void **pointers;            // what the calls' inputs and outputs point into
    ckm_i_trace *trace;         // by operator; NULL unless the session traces
    int32_t first_mismatch;     // operator whose recomputation differed first, or -1
    void *trace_room;           // host memory for the largest output; NULL where the host can look itself
    int64_t *call_nanoseconds;  // by call, of the last step; NULL unless the profiler set it
    int64_t *marks;             // by call and one more: when it was done; with call_nanoseconds
    int64_t n_moves;
    ckm_i_move *moves;                  // between the calls: transfers to the second memory and back
    struct ckm_i_transfers *transfers;  // the second memory; NULL: nothing is moved
    ckm_session_transfers transferred;
    ckm_stop_fn stop;  // polled before every call, and while parameters are set: CKM_ERR_STOPPED; NULL: never stops
    void *stop_user;
};

// A session that runs in the region of `host`, between its steps: what lies outside the arena is the host's own, found by name, and
// the arena is the host's. The plan's arena must not be larger than that. Nothing is initialised.
ckm_status ckm_i_session_create_within(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                                       const ckm_plan *plan, const ckm_session *host, ckm_session **out,
                                       ckm_error *err) CKM_NODISCARD;
// ckm_session_create with options that are read already. With `host` in its region, else in a new one. `empty`: parameters and states are left as the region has them, for a
// session that is only to be measured. `stop` (may be NULL) ends it with CKM_ERR_STOPPED while they are set.
typedef struct ckm_i_session_making {
    const ckm_session *host;
    bool empty;
    ckm_stop_fn stop;
    void *user;
} ckm_i_session_making;
ckm_status ckm_i_session_create(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                                const ckm_plan *plan, const ckm_session_options *options,
                                const ckm_i_session_making *making, ckm_session **out, ckm_error *err) CKM_NODISCARD;

// One batch of a training step.
typedef struct ckm_i_step_part {
    int64_t step;         // Adam's correction depends on it
    int64_t batch;        // random numbers depend on it
    int64_t part, parts;  // of the step's batches in this process; parameters are updated after the last
    double learning_rate;
    ckm_i_exchange *exchange;  // with other processes, or NULL
} ckm_i_step_part;
// ckm_session_step for one of several batches of a step.
ckm_status ckm_i_session_step_part(ckm_session *session, const ckm_i_step_part *part, ckm_step_result *out,
                                   ckm_error *err) CKM_NODISCARD;
// Whether the tensor only accumulates within a step; it is not needed afterwards.
bool ckm_i_session_is_sum(const ckm_session *session, int32_t tensor);
// The session's gradients that are exchanged: how many a step has, and elements of the largest.
int32_t ckm_i_session_exchanged(const ckm_program *program, int64_t *most);

// Where the host can look at a tensor itself; NULL: it cannot, and has to read and write it.
void *ckm_i_session_host(const ckm_session *session, int32_t tensor);
// The same bytes on the host: where they are, or in the session's trace_room.
ckm_status ckm_i_session_look(const ckm_session *session, const char *address, int64_t bytes, const void **out,
                              ckm_error *err) CKM_NODISCARD;
// Makes every step record the time of its calls, in call_nanoseconds.
ckm_status ckm_i_session_time_calls(ckm_session *session, ckm_error *err) CKM_NODISCARD;
// Bytes of the tables of a session that runs this schedule: ckm_session_memory.table_bytes.
int64_t ckm_i_session_table_bytes(const ckm_program *program, const ckm_schedule *s);
// Bytes of a step tensor's elements, without rounding.
int64_t ckm_i_session_value_bytes(const ckm_graph *step, int32_t value);
// How many values an integer tensor may hold, from the operators that read it: rows of a table, classes; 0: not known.
int64_t ckm_i_session_value_limit(const ckm_graph *step, int32_t value);

#endif
