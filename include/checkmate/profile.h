// SPDX-License-Identifier: Apache-2.0
// Measuring what the operators of a training step cost on the machine at hand.
#ifndef CHECKMATE_PROFILE_H
#define CHECKMATE_PROFILE_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/plan.h>
#include <checkmate/run.h>
#include <checkmate/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_profile ckm_profile;

typedef struct ckm_profile_options {
    size_t size;                // set by CKM_PROFILE_OPTIONS_INIT
    int32_t warmup_steps;       // run but not measured; 0: 2; CKM_NONE: none
    int32_t steps;              // measured and counted; up to four times as many are run to find them; 0: 15
    double time_limit_seconds;  // no further step is begun after it, but for the first three; 0: 60; CKM_NONE: no limit
    ckm_stop_fn stop;           // may be NULL; ends the step under way: CKM_ERR_STOPPED where it is the first
    ckm_session_fill_fn fill;   // called before every step; NULL: made-up data, the same in every step
    void *user;                 // passed to both
} ckm_profile_options;
#define CKM_PROFILE_OPTIONS_INIT CKM_SIZED(ckm_profile_options)

// One operator, over all its computations. Nothing was computed where `runs` is 0 (views): it costs nothing.
typedef struct ckm_profile_op {
    const char *name;
    int64_t median_ns, p10_ns, p90_ns, runs;
    double fixed_ns, per_sample_ns;  // linear in the batch, from ckm_profile_fit; NaN without
} ckm_profile_op;

typedef struct ckm_profile_info {
    char platform[128];  // name of the processor
    char backend[32];
    char graph[128];
    int threads;
    int64_t batch, steps;
    int64_t steps_left_out;  // took over 1.2 times as long as the fastest: something else ran on the machine
    int64_t step_ns;         // median of whole steps
    int64_t predicted_ns;    // the schedule measured, by the medians of its operators
    bool steady;             // the machine was quiet; otherwise measure again
} ckm_profile_info;

// Runs steps by the schedule, on made-up data or those that `fill` brings (reading them takes its share of the machine in
// training, and so it should here), without letting updates move anything (learning rate 0), and times every
// operator in its place in the step, so that as much of its operands is in the caches as in training. Takes
// the memory of a session with that plan. Errors: those of ckm_session_create and the back end.
CKM_API ckm_status ckm_profile_measure(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                                       const ckm_plan *plan, const ckm_profile_options *options, ckm_profile **out,
                                       ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_profile_free(ckm_profile *profile);
CKM_API const ckm_profile_info *ckm_profile_get_info(const ckm_profile *profile);
CKM_API int32_t ckm_profile_op_count(const ckm_profile *profile);
CKM_API ckm_profile_op ckm_profile_get_op(const ckm_profile *profile, int32_t i);

// What disturbed an unsteady measurement, as text for a warning: "the machine was busy with other things while the
// operators were measured (3 of 11 steps were held up; a step takes 12 % longer than its operators)". "" where it was
// steady. CKM_PROFILE_WORDS bytes are enough.
enum { CKM_PROFILE_WORDS = 256 };
CKM_API void ckm_profile_explain_unsteady(const ckm_profile_info *info, char *text, size_t room);

// Fits every operator's median as fixed_ns + batch * per_sample_ns over profiles of one network at different
// batches, by least squares with both at least 0, relative to the size of the medians; into `profiles[0]`.
// `*median_error`: the median over operators of the largest relative error, weighted by time. CKM_ERR_ARGUMENT when
// the profiles have other operators or fewer than two batches.
CKM_API ckm_status ckm_profile_fit(ckm_profile *const *profiles, int32_t n, double *median_error,
                                   ckm_error *err) CKM_NODISCARD;

// Speeds of a second memory, as ckm_program_measure_second_memory found them, to be written with the profile.
CKM_API ckm_status ckm_profile_set_link(ckm_profile *profile, const ckm_second_memory *link,
                                        ckm_error *err) CKM_NODISCARD;

// Writes checkmate-profile JSON, version 1 (docs/FORMATS.md), atomically; "-" is standard output. A fit adds
// "fixed_ns" and "per_sample_ns" to the operators, with which costs can be had for other batches.
CKM_API ckm_status ckm_profile_write(const ckm_profile *profile, const char *path, ckm_error *err) CKM_NODISCARD;

// Reads a profile's facts; what an older or foreign file does not say is 0 or "", and `steady` then true. What a step
// takes in addition to its operators is step_ns - predicted_ns. Errors: CKM_ERR_IO, CKM_ERR_FORMAT.
CKM_API ckm_status ckm_profile_read_info(const char *path, ckm_profile_info *out, ckm_error *err) CKM_NODISCARD;

// Where the profile of this program on this machine is kept: a file in $XDG_CACHE_HOME/checkmate (or
// $HOME/.cache/checkmate), whose name depends on processor, back end, threads and everything that shapes the step
// graph, the batch among it, and on the environment's settings of OpenMP and oneDNN. Makes the folder. Errors: CKM_ERR_IO, CKM_ERR_ARGUMENT when neither variable is set.
CKM_API ckm_status ckm_profile_cache_path(const ckm_program *program, char *path, size_t room,
                                          ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
