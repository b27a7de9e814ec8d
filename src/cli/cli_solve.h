// SPDX-License-Identifier: Apache-2.0
// What the commands that solve have in common: limits, Ctrl-C, progress, names of outcomes.
#ifndef CKM_SRC_CLI_CLI_SOLVE_H
#define CKM_SRC_CLI_CLI_SOLVE_H

#include "cli/cli.h"

typedef struct cli_limit_settings {
    double time_limit_seconds;
    double gap;
    int64_t threads, seed;
    bool verbose;
} cli_limit_settings;
#define CLI_LIMIT_DEFAULTS(seconds)  \
    {                                \
        (seconds), 1e-4, 0, 1, false \
    }

// --gap, --threads, --seed and --verbose over a cli_limit_settings. --time-limit means something else in
// every command, so each has its own.
enum { CLI_N_LIMIT_OPTIONS = 4 };
extern const cli_option cli_limit_options[CLI_N_LIMIT_OPTIONS];

// Processors of this machine, at least 1.
int cli_processors(void);

// Ctrl-C (and SIGTERM) from now on ask solves to end with their best. A second later another one warns of what would be lost, and
// a second after that one more ends the program; so does the first when the program is still there after a grace of ten
// seconds.
void cli_stop_install(void);
// Instead: the first signal ends the program, which says that nothing was written. For commands that write at their end only.
void cli_stop_at_once(void);
// Another grace, from now on; from this moment when the program has been asked to stop already.
void cli_stop_grace(double seconds);
bool cli_stop_requested(void *user);
// From now on the note that the first signal prints speaks of training.
void cli_stop_is_for_training(void);

// Progress lines on standard error: when that is a terminal, or when asked for.
typedef struct cli_progress {
    bool enabled;
    const char *label;  // what is being solved
    ckm_cost_unit unit;
    int64_t baseline_cost;
    double last_seconds;  // when the last line was printed
    int64_t last_cost;
    double last_bound;
    bool verbose, quiet;
    char last_warning[160];  // so that none is printed again and again
    // The course, when it is to be drawn (cli_course.c).
    bool keeps_course;
    ckm_status course_status;
    int32_t n_points, cap_points;
    ckm_emit_progress *points;
} cli_progress;
cli_progress cli_progress_start(const cli_limit_settings *settings, const char *label, const ckm_dataflow *df);
void cli_progress_line(const ckm_progress *progress, void *user);
// With keeps_course set, lines are noted as well, and drawn with the result as the last of them.
void cli_course_note(cli_progress *p, double seconds, int64_t cost, double bound_cost);
ckm_status cli_course_draw(cli_progress *p, const char *title, const ckm_solve_result *result, const char *path,
                           ckm_error *err) CKM_NODISCARD;
void cli_course_dispose(cli_progress *p);
void cli_log_line(ckm_log_level level, const char *line, void *user);

// Options for one solve by these settings, with stop, progress and, when asked for, log connected.
ckm_solve_options cli_solve_options(const cli_limit_settings *settings, const char *strategy, cli_progress *progress);

// Wrong strategy names are wrong usage: reports them and gives the exit status, else -1.
int cli_check_strategy(const cli_command *command, const char *name);

const char *cli_status_text(ckm_solve_status status);  // "optimal", ...
// For people: where there is no schedule and no proof, whether the strategy ended by itself or ran out of time.
const char *cli_outcome_text(const ckm_solve_result *result, double time_limit_seconds);
const char *cli_covers_text(ckm_bound_class covers);  // "order", ...; NULL for none
int cli_exit_of(ckm_solve_status status, bool has_schedule);

// "; a schedule at 2.52 MB (2519340 bytes) was found": what is known to fit where nothing fits the budget; empty where nothing was
// looked for. Writes to buf and returns it.
const char *cli_least_text(const ckm_solve_result *result, char *buf, size_t size);

#endif
