// SPDX-License-Identifier: Apache-2.0
// Shared parts of the solving commands.
#include "cli/cli_solve.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_values.h"

const cli_option cli_limit_options[CLI_N_LIMIT_OPTIONS] = {
    {"gap", 0, CLI_FRACTION, offsetof(cli_limit_settings, gap), "G",
     "Stop when the cost is proven to be within this fraction of the optimum, such as 0.01 or 1%.", "0.0001", 0, 0,
     NULL},
    {"threads", 'j', CLI_INTEGER, offsetof(cli_limit_settings, threads), "N",
     "Number of threads, for strategies that can use more than one.", "one per processor", 1, 1024, NULL},
    {"seed", 0, CLI_INTEGER, offsetof(cli_limit_settings, seed), "N", "Seed for randomised strategies.", "1", 0,
     INT64_MAX, NULL},
    {"verbose", 'v', CLI_FLAG, offsetof(cli_limit_settings, verbose), NULL,
     "Report progress on standard error even when it is not a terminal.", NULL, 0, 0, NULL},
};

int cli_processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}

// A signal handler can only speak through globals.
static volatile sig_atomic_t stop_requested;  // the signal
static volatile sig_atomic_t stop_trains;     // what is to be stopped is training
static volatile sig_atomic_t stop_grace_seconds = 10;
static void (*volatile stop_handler)(int);

static void say(const char *note)
{
    ssize_t written = write(STDERR_FILENO, note, strlen(note));
    (void)written;
}

// The default action ends the program, once the handler returns.
static void end_by(int signal_number)
{
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// When the alarm that a request to stop has set rings. 0: no such alarm is set.
static _Atomic int64_t alarm_ns;

static void set_alarm(void)
{
    alarm_ns = monotonic_ns() + (int64_t)stop_grace_seconds * 1000000000;
    alarm((unsigned)stop_grace_seconds);
}

// The grace period is over: the process ends, even in the middle of a computation. An alarm from elsewhere, before that one
// is due, asks to stop like other signals.
static void handle_alarm(int signal_number)
{
    enum { ROUNDING_NS = 500000000 };
    if (alarm_ns == 0 || monotonic_ns() < alarm_ns - ROUNDING_NS) {
        stop_handler(signal_number);
        return;
    }
    say("checkmate: could not stop in time; quitting\n");
    end_by((int)stop_requested);
}

// One press of a key, or one 'timeout', may send several signals, in any order and to several threads at once: those within
// a second of the last that counted are one with it. Then one says what the next will lose.
static void handle_stop(int signal_number)
{
    enum { TOGETHER_NS = 1000000000 };
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    static int64_t last;
    static bool warned;
    if (atomic_flag_test_and_set(&busy)) {
        return;
    }
    int kept_errno = errno;
    int64_t now = monotonic_ns();
    bool together = now - last < TOGETHER_NS;
    if (stop_requested == 0) {
        stop_requested = signal_number;
        last = now;
        set_alarm();
        if (isatty(STDERR_FILENO)) {
            say(stop_trains != 0 ? "\ncheckmate: stopping after this step\n"
                                 : "\ncheckmate: stopping with the best found so far\n");
        }
    } else if (!together && !warned) {
        warned = true;
        last = now;
        say(stop_trains != 0
                ? "\ncheckmate: still stopping; another signal quits at once and loses what is not saved yet\n"
                : "\ncheckmate: still stopping; another signal quits at once and loses the best found so far\n");
    } else if (!together) {
        end_by(signal_number);
    }
    errno = kept_errno;
    atomic_flag_clear(&busy);
}

void cli_stop_grace(double seconds)
{
    double whole = ceil(seconds);
    stop_grace_seconds = whole < 1 ? 1 : whole > 86400 ? 86400 : (sig_atomic_t)whole;
    if (stop_requested != 0) {
        set_alarm();
    }
}

void cli_stop_is_for_training(void)
{
    stop_trains = 1;
}

static void handle_end(int signal_number)
{
    say("\ncheckmate: interrupted; nothing was written\n");
    end_by(signal_number);
}

static void install(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct sigaction overdue = {.sa_handler = handle_alarm};
    sigset_t these;
    sigemptyset(&these);
    sigaddset(&these, SIGALRM);
    sigaddset(&these, SIGINT);
    sigaddset(&these, SIGTERM);
    action.sa_mask = these;
    overdue.sa_mask = these;
    stop_handler = handler;
    sigaction(SIGALRM, &overdue, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    // Who started the program may have had them blocked.
    sigprocmask(SIG_UNBLOCK, &these, NULL);
}

void cli_stop_install(void)
{
    install(handle_stop);
}

void cli_stop_at_once(void)
{
    install(handle_end);
}

bool cli_stop_requested(void *user)
{
    (void)user;
    return stop_requested != 0;
}

cli_progress cli_progress_start(const cli_limit_settings *settings, const char *label, const ckm_dataflow *df)
{
    return (cli_progress){
        .enabled = settings->verbose || isatty(STDERR_FILENO),
        .label = label,
        .unit = df != NULL ? ckm_dataflow_cost_unit(df) : CKM_COST_FLOPS,
        .baseline_cost = df != NULL ? ckm_dataflow_total_cost(df) : 0,
        .last_seconds = -1,
        .last_cost = -1,
        .last_bound = NAN,
    };
}

void cli_progress_line(const ckm_progress *progress, void *user)
{
    cli_progress *p = user;
    char cost[32];
    char overhead[32];
    char bound[32];
    char gap[32];
    bool changed = progress->incumbent_cost != p->last_cost ||
                   (!isnan(progress->bound_cost) && !(progress->bound_cost == p->last_bound));
    if (p->keeps_course && changed) {
        cli_course_note(p, progress->seconds, progress->incumbent_cost, progress->bound_cost);
    }
    // Improvements can come by the thousand: ten lines a second are enough to watch.
    if (!p->enabled || !changed || (p->last_seconds >= 0 && progress->seconds - p->last_seconds < 0.1)) {
        return;
    }
    p->last_seconds = progress->seconds;
    p->last_cost = progress->incumbent_cost;
    p->last_bound = progress->bound_cost;
    double incumbent = progress->incumbent_cost < 0 ? NAN : (double)progress->incumbent_cost;
    double extra = cli_overhead(progress->incumbent_cost, p->baseline_cost);
    if (cli_width(stderr) < 80) {
        fprintf(stderr, "%s%7.1f s%s  %-13s bound %-13s gap %s\n", cli_style(stderr, CLI_DIM), progress->seconds,
                cli_style(stderr, CLI_PLAIN), cli_show_cost(incumbent, p->unit, cost, sizeof cost),
                cli_show_cost(progress->bound_cost, p->unit, bound, sizeof bound),
                cli_show_percent(progress->gap, gap, sizeof gap));
        return;
    }
    fprintf(stderr, "%s%7.1f s%s  %-13s %s%-8s bound %-13s gap %-8s %s\n", cli_style(stderr, CLI_DIM),
            progress->seconds, cli_style(stderr, CLI_PLAIN), cli_show_cost(incumbent, p->unit, cost, sizeof cost),
            isnan(incumbent) ? " " : "+", cli_show_percent(extra, overhead, sizeof overhead),
            cli_show_cost(progress->bound_cost, p->unit, bound, sizeof bound),
            cli_show_percent(progress->gap, gap, sizeof gap), progress->source != NULL ? progress->source : p->label);
}

void cli_log_line(ckm_log_level level, const char *line, void *user)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    cli_progress *p = user;
    if (level <= CKM_LOG_WARN) {
        if (strncmp(p->last_warning, line, sizeof p->last_warning - 1) == 0) {
            return;
        }
        snprintf(p->last_warning, sizeof p->last_warning, "%s", line);
    }
    if (level <= (p->verbose ? CKM_LOG_INFO : CKM_LOG_WARN)) {
        cli_line(stderr, 2, "%s%s: %s%s\n", cli_style(stderr, CLI_DIM), names[level], cli_text(line),
                 cli_style(stderr, CLI_PLAIN));
    }
}

ckm_solve_options cli_solve_options(const cli_limit_settings *settings, const char *strategy, cli_progress *progress)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.strategy = strategy;
    options.time_limit_seconds = cli_exactly(settings->time_limit_seconds);
    options.gap = cli_exactly(settings->gap);
    options.threads = settings->threads > 0 ? (int)settings->threads : cli_processors();
    options.seed = (uint64_t)settings->seed;
    options.stop = cli_stop_requested;
    options.progress = cli_progress_line;
    options.log = cli_log_line;
    progress->verbose = settings->verbose;
    options.user = progress;
    return options;
}

int cli_check_strategy(const cli_command *command, const char *name)
{
    const char *names[128];
    int n = 0;
    char suggestion[128];
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        if (strcmp(ckm_solve_strategy_name(i), name) == 0) {
            return -1;
        }
        if (n < CLI_COUNT(names)) {
            names[n++] = ckm_solve_strategy_name(i);
        }
    }
    return cli_usage_error(command, "unknown strategy '%s'; 'checkmate strategies' lists them%s", name,
                           cli_did_you_mean(name, names, n, "", suggestion, sizeof suggestion));
}

const char *cli_status_text(ckm_solve_status status)
{
    static const char *const names[] = {"optimal", "feasible", "infeasible", "unknown"};
    return names[status];
}

const char *cli_outcome_text(const ckm_solve_result *result, double time_limit_seconds)
{
    static const double most_of_it = 0.9;
    if (result->status != CKM_SOLVE_UNKNOWN) {
        return cli_status_text(result->status);
    }
    bool cut_short = cli_stop_requested(NULL) ||
                     (time_limit_seconds > 0 && result->seconds >= most_of_it * time_limit_seconds);
    return cut_short ? "none found in time" : "does not fit";
}

const char *cli_covers_text(ckm_bound_class covers)
{
    static const char *const names[] = {NULL, "any", "order", "frontier"};
    return names[covers];
}

int cli_exit_of(ckm_solve_status status, bool has_schedule)
{
    if (has_schedule) {
        return CLI_DONE;
    }
    return status == CKM_SOLVE_INFEASIBLE ? CLI_INFEASIBLE : CLI_NONE_FOUND;
}

// Schedules whose cost no number holds are none that strategies can give.
static void add_cost_limit(const ckm_solve_result *result, char *buf, size_t size)
{
    const double most = 9223372036854775808.0;
    size_t used = strlen(buf);
    if (result->bound_cost >= most) {
        snprintf(buf + used, size - used,
                 "; proven: what fits%s costs more than 63 bits hold: give costs in a larger unit",
                 result->bound_covers == CKM_BOUND_ANY ? "" : " and keeps the graph's order");
    } else if (result->baseline_cost > INT64_MAX / 2) {
        snprintf(buf + used, size - used,
                 "; schedules whose cost 63 bits do not hold were left out: give costs in a larger unit");
    }
}

const char *cli_least_text(const ckm_solve_result *result, char *buf, size_t size)
{
    char text[64];
    int64_t bytes = result->least_peak_bytes;
    cli_show_bytes(bytes, text, sizeof text);
    if (bytes < 0) {
        buf[0] = '\0';
    } else if (bytes <= result->budget_bytes) {
        snprintf(buf, size, "; another strategy found a schedule at %s (%lld bytes), which fits", text,
                 (long long)bytes);
    } else if (bytes < result->baseline_peak_bytes) {
        snprintf(buf, size, "; a schedule at %s (%lld bytes) was found", text, (long long)bytes);
    } else {
        snprintf(buf, size, "; none below the run without rematerialization, %s (%lld bytes), was found", text,
                 (long long)bytes);
    }
    add_cost_limit(result, buf, size);
    return buf;
}
