// SPDX-License-Identifier: Apache-2.0
// What a schedule does, as facts, as figures and as a page for the browser.
//
// Graphs are drawn by graphviz, everything else by gnuplot. Both are run as programs; when one is missing the call
// fails with CKM_ERR_UNSUPPORTED and says which package to install. A figure's format follows its file name: .svg,
// .pdf or .png. Colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart.
// Files are replaced as a whole or left alone.
#ifndef CHECKMATE_EMIT_H
#define CHECKMATE_EMIT_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/graph.h>
#include <checkmate/plan.h>
#include <checkmate/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- facts ----------------------------------------------------------------------------------------------------

// What occupies memory. Fixed bytes and inputs are there all the time. Of what forward operators (and the loss)
// produce, KEPT is what is still held from its first computation when the first backward operator runs, PASSING what
// is not, RECOMPUTED what has been computed again. GRADIENT is what backward and update operators produce.
// What was kept in a second memory is KEPT when it is read back (`read_back` of ckm_emit_times tells).
typedef enum ckm_emit_class {
    CKM_EMIT_FIXED,
    CKM_EMIT_INPUT,
    CKM_EMIT_KEPT,
    CKM_EMIT_PASSING,
    CKM_EMIT_RECOMPUTED,
    CKM_EMIT_GRADIENT,
    CKM_EMIT_WORKSPACE
} ckm_emit_class;
enum { CKM_EMIT_N_CLASSES = 7 };
CKM_API const char *ckm_emit_class_name(ckm_emit_class what);  // "kept for backward", ...

// A moment: one compute step. Moments are numbered from 0 in the order of the schedule, other steps not counted. The peak of a
// schedule with transfers may be at a step that begins to read something back, between two moments.
typedef struct ckm_emit_moment {
    int64_t step;                             // position in the schedule
    int32_t op;                               // what runs
    int32_t execution;                        // how often it has run before: 0 is the first time
    int64_t bytes;                            // in use meanwhile
    int64_t class_bytes[CKM_EMIT_N_CLASSES];  // of what; adds up to `bytes`
} ckm_emit_moment;

// One stay of a storage in memory, or the workspace of one moment, and where in the arena it lies (checkmate/plan.h).
typedef struct ckm_emit_life {
    int32_t tensor;  // owner of the storage; -1 for a workspace
    int32_t op;      // what allocates it, or made what is read back
    ckm_emit_class what;
    int64_t first, last;  // moments, both included
    int64_t bytes, offset;
    bool handed_over;  // took over another's storage at `first`, where that one counts and this one does not
} ckm_emit_life;

// One computation of an operator that has run before, and what it was good for.
typedef struct ckm_emit_recompute {
    int32_t op;
    int64_t moment;
    // The largest storage that comes back; -1 when everything it computes was there still.
    int32_t tensor;
    int64_t freed_bytes;            // bytes of all storages that come back
    int64_t gone_first, gone_last;  // moments without it; gone_last < gone_first when there are none
    int64_t fullest;                // the one of them in which most memory is in use, -1 when there are none
    int64_t held_bytes;             // what would be in use then, had the tensor been held and all else stayed the same
    int32_t for_op;                 // the next operator to read what came back, -1 when none does
    int64_t for_moment;
} ckm_emit_recompute;

typedef struct ckm_emit_op_fact {
    int32_t executions;
    int64_t extra_cost;   // of all executions but the first
    int64_t freed_bytes;  // most that one recomputation brought back
    ckm_emit_class what;  // GRADIENT; else RECOMPUTED when it runs again, else KEPT when an output is, else PASSING
} ckm_emit_op_fact;

typedef struct ckm_emit_facts {
    const ckm_dataflow *df;  // borrowed
    const ckm_schedule *schedule;
    int64_t cost, baseline_cost;  // the baseline: without rematerialization
    int64_t peak_bytes, baseline_peak_bytes;
    int64_t budget_bytes;  // as the schedule states; -1 when it does not
    int64_t fixed_bytes, input_bytes;
    int64_t n_moments, peak_moment;
    int64_t turn_moment;  // of the first backward operator, -1 without one
    int64_t baseline_peak_op;
    ckm_emit_moment *moments;
    int64_t *baseline_bytes;  // in use while operator i runs without rematerialization
    int32_t n_lives, n_recomputes, n_recomputed_ops;
    ckm_emit_life *lives;            // in the order in which they begin
    ckm_emit_recompute *recomputes;  // in the order of their moments
    ckm_emit_op_fact *ops;           // by operator
    ckm_plan_info arena;
    int64_t
        batch;  // samples of the step's batch, for the titles of figures and the page: set it where it is known; 0: it is not
} ckm_emit_facts;

// Gathers the facts of a legal schedule, laying it out in an arena on the way. `df` and `s` must outlive them
// unchanged.
// O(steps * log steps + operands) in addition to ckm_plan_create. Errors: those of ckm_schedule_simulate and
// ckm_plan_create.
CKM_API ckm_status ckm_emit_facts_create(const ckm_dataflow *df, const ckm_schedule *s, ckm_emit_facts **out,
                                         ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_emit_facts_free(ckm_emit_facts *facts);

// One copy to the second memory, or back. Times are in the graph's unit of cost, from the beginning of the step.
typedef struct ckm_emit_transfer {
    int32_t tensor;  // owner of the storage
    bool out;        // to the second memory
    uint8_t reserved[3];
    int64_t bytes;       // that go over the link
    int64_t issued;      // when the step is reached that begins it: the link may be busy
    int64_t begin, end;  // on the link
    int64_t stall;       // how long computation stands still at the wait for it
    int64_t moment;      // the first to run after that wait; n_moments: none does
} ckm_emit_transfer;

// When what happens: computation and, at the same time, the two links.
typedef struct ckm_emit_times {
    bool *read_back;               // by life of the facts: it came back from the second memory
    int64_t total;                 // of the step: its cost
    int64_t n_transfers;           // 0 of a schedule that moves nothing
    int64_t *begin;                // by moment; it ends at that plus the operator's cost
    ckm_emit_transfer *transfers;  // in the order of their beginnings in the schedule
    int64_t out_bytes, in_bytes;
    int64_t out_time, in_time;  // that the links are busy
    int64_t stalled;            // that computation stands still
} ckm_emit_times;

// Follows the schedule of `facts` through time. O(steps). Errors: memory, a schedule that was changed after its facts were gathered.
CKM_API ckm_status ckm_emit_times_create(const ckm_emit_facts *facts, ckm_emit_times **out,
                                         ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_emit_times_free(ckm_emit_times *times);

// ---- figures and the page -------------------------------------------------------------------------------------

// The figures of a schedule. `summary` is one line for a person.
CKM_API int32_t ckm_emit_figure_count(void);
CKM_API const char *ckm_emit_figure_name(int32_t i);
CKM_API const char *ckm_emit_figure_summary(int32_t i);
// Draws the figure of that name; CKM_ERR_NOT_FOUND when there is none.
CKM_API ckm_status ckm_emit_figure(const ckm_emit_facts *facts, const char *name, const char *path,
                                   ckm_error *err) CKM_NODISCARD;

// Writes one self-contained HTML file with everything there is to see of a schedule; it loads nothing from anywhere.
// `graph_file` and `schedule_file`, which may be NULL, are what its instructions call the two. "-" is standard output.
CKM_API ckm_status ckm_emit_page(const ckm_emit_facts *facts, const char *graph_file, const char *schedule_file,
                                 const char *path, ckm_error *err) CKM_NODISCARD;

// A way to run the same training step, for a table on the page.
typedef struct ckm_emit_way {
    const char *name, *note;  // `note` may be NULL
    int64_t peak_bytes, cost;
} ckm_emit_way;

// Text that runs without changes: a command, a few lines of a program.
typedef struct ckm_emit_recipe {
    const char *title, *code, *note;  // `note` may be NULL
} ckm_emit_recipe;

// Content of a page that its schedule does not have. Everything may be NULL or none.
typedef struct ckm_emit_words {
    const char *graph_file, *schedule_file;  // what command lines call the two
    const char *chosen;                      // what the schedule is called among the ways
    int32_t n_ways, n_recipes;
    const ckm_emit_way *ways;        // others to compare it with: keeping everything, checkpoints by hand
    const ckm_emit_recipe *recipes;  // how to use it; none: command lines, and C
} ckm_emit_words;

// ckm_emit_page with words of the caller's own; `words` may be NULL.
CKM_API ckm_status ckm_emit_page_with(const ckm_emit_facts *facts, const ckm_emit_words *words, const char *path,
                                      ckm_error *err) CKM_NODISCARD;

// ---- graphs ---------------------------------------------------------------------------------------------------

// Writes the graph in DOT, graphviz' language; "-" is standard output. One node an operator, coloured by
// kind, one edge for every tensor passed from one operator to another; inputs are drawn as plain text.
CKM_API ckm_status ckm_emit_dot(const ckm_dataflow *df, const char *path, ckm_error *err) CKM_NODISCARD;

// Draws the graph with `dot` on a page: a row for every block of the network, or for every operator of a small one; forward
// downwards on the left, backward upwards on the right.
CKM_API ckm_status ckm_emit_graph_figure(const ckm_dataflow *df, const char *path, ckm_error *err) CKM_NODISCARD;

// Draws a network, its operators with their shapes, with `dot`.
CKM_API ckm_status ckm_emit_network_figure(const ckm_graph *graph, const char *path, ckm_error *err) CKM_NODISCARD;

// ---- curves ---------------------------------------------------------------------------------------------------

// Draws how training went with `gnuplot`, from the log that `checkmate train --log` writes
// (docs/FORMATS.md): the loss of steps and of whole epochs, that of validation, and the accuracy where there is
// one. A log may still be growing, and where it says a step twice, after a run that went on, the later line counts.
// CKM_ERR_FORMAT where it is no such log, CKM_ERR_ARGUMENT when it has no loss.
CKM_API ckm_status ckm_emit_training_figure(const char *log, const char *path, ckm_error *err) CKM_NODISCARD;

// A strategy's result at one budget: the overhead of its schedule and its bound, as fractions of the cost without
// rematerialization, NaN for none; and which schedules the bound covers.
typedef struct ckm_emit_sweep_row {
    int64_t budget_bytes;
    double overhead, bound;
    ckm_bound_class covers;
} ckm_emit_sweep_row;

typedef struct ckm_emit_sweep_curve {
    const char *label;
    bool is_main;  // drawn thick, on top of the others
    int32_t n;
    const ckm_emit_sweep_row *rows;  // budgets ascending
} ckm_emit_sweep_curve;

// Draws overhead over budget with `gnuplot`, and for every class of schedules the highest bound that covers it, where it
// says more than that of a wider class. CKM_ERR_ARGUMENT when no curve has a schedule.
CKM_API ckm_status ckm_emit_sweep_figure(const char *title, const ckm_emit_sweep_curve *curves, int32_t n,
                                         const char *path, ckm_error *err) CKM_NODISCARD;

// What a solve knew at one time: the overhead of its best schedule and the bound, as fractions of the cost without
// rematerialization; NaN where there is none yet.
typedef struct ckm_emit_progress {
    double seconds, overhead, bound;
} ckm_emit_progress;

// Draws how a solve went, `n` points in the order of time; `covers` says which schedules the bound speaks of.
// CKM_ERR_ARGUMENT when none has an overhead or a bound.
CKM_API ckm_status ckm_emit_course_figure(const char *title, const ckm_emit_progress *points, int32_t n,
                                          ckm_bound_class covers, const char *path, ckm_error *err) CKM_NODISCARD;
// The same for a bound of which only the strategy knows what it covers: the figure then says no more than that.
CKM_API ckm_status ckm_emit_progress_figure(const char *title, const ckm_emit_progress *points, int32_t n,
                                            const char *path, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
