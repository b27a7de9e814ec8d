// SPDX-License-Identifier: Apache-2.0
// Output of training: one line that changes on a terminal, plain lines elsewhere, a log of JSON lines, and
// the summary at the end.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli_train.h"

// Seconds between lines where there is no terminal, and between changes of the line where there is one.
static const double plain_interval = 10.0;
static const double live_interval = 0.1;

double cli_train_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t cli_train_address_space(void)
{
    // Not through stdio, which allocates: this works when memory is exhausted, too.
    char line[256];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, line, sizeof line - 1) : -1;
    if (file >= 0) {
        close(file);
    }
    if (n <= 0) {
        return -1;
    }
    line[n] = '\0';
    long long pages = strtoll(line, NULL, 10);
    return pages > 0 ? (int64_t)pages * sysconf(_SC_PAGESIZE) : -1;
}

// A log grows line by line while it is read, so it is the one file that is not replaced as a whole. Opening it does not
// wait for a pipe's reader.
static FILE *open_log(const char *path, bool append)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_APPEND | (append ? 0 : O_TRUNC),
                  0666);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    FILE *log = flags >= 0 && fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(fd, "w") : NULL;
    if (log == NULL && fd >= 0) {
        int reason = errno;
        close(fd);
        errno = reason;
    }
    return log;
}

// Removes an incomplete last record, left by a killed run or a full disk, so that the next one does not continue its line.
static void drop_torn_record(const char *path, int fd)
{
    static const char begin[] = "{\"step\": ";
    char tail[1024];
    struct stat facts;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0) {
        return;
    }
    off_t from = facts.st_size > (off_t)sizeof tail ? facts.st_size - (off_t)sizeof tail : 0;
    int in = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    ssize_t n = in >= 0 ? pread(in, tail, sizeof tail, from) : -1;
    if (in >= 0) {
        close(in);
    }
    ssize_t line = n;
    while (line > 0 && tail[line - 1] != '\n') {
        line--;
    }
    if (n <= 0 || line == n) {
        return;
    }
    size_t torn = (size_t)(n - line);
    size_t same = torn < sizeof begin - 1 ? torn : sizeof begin - 1;
    bool ours = (line > 0 || from == 0) && memcmp(tail + line, begin, same) == 0;
    if (!ours || ftruncate(fd, from + line) != 0) {
        ssize_t written = write(fd, "\n", 1);
        (void)written;
    }
}

ckm_status cli_train_report_open(train_report *report, const train_setup *setup, ckm_error *err)
{
    const train_settings *s = setup->settings;
    *report = (train_report){.setup = setup,
                             .log_path = s->log,
                             .live = isatty(STDERR_FILENO) == 1 && !s->verbose,
                             .began = cli_train_clock(),
                             .last_line = cli_train_clock(),
                             .exceeded_step = -1};
    if (s->log != NULL) {
        // A resumed run appends to its log.
        report->log = open_log(s->log, ckm_trainer_get_info(setup->trainer).resumed);
        if (report->log != NULL) {
            drop_torn_record(s->log, fileno(report->log));
        }
        if (report->log == NULL) {
            return cli_error(err, CKM_ERR_IO, s->log, "cannot open for writing: %s",
                             errno == ENXIO ? "it is a pipe, and nothing reads it" : strerror(errno));
        }
    }
    return CKM_OK;
}

static void flush_log(train_report *report)
{
    if (report->log == NULL || (fflush(report->log) == 0 && !ferror(report->log))) {
        return;
    }
    if (!report->log_failed) {
        report->log_failed = true;
        cli_failf("%s: cannot write the log: %s; training continues", report->log_path, strerror(errno));
    }
    clearerr(report->log);
    drop_torn_record(report->log_path, fileno(report->log));
}

ckm_status cli_train_report_close(train_report *report, ckm_error *err)
{
    if (report->line_open) {
        fputc('\n', stderr);
        report->line_open = false;
    }
    bool failed = report->log_failed;
    if (report->log != NULL && fclose(report->log) != 0) {
        failed = true;
    }
    report->log = NULL;
    return failed ? cli_error(err, CKM_ERR_IO, report->log_path, "the log is not complete: it could not be written")
                  : CKM_OK;
}

static void memory_line(const char *name, int64_t bytes, const char *note)
{
    char text[64];
    bool narrow = cli_width(stderr) < 80;
    cli_line(stderr, 4, narrow ? "  %-24s %12s  %s\n" : "  %-28s %12s  %s\n", name,
             cli_show_bytes(bytes, text, sizeof text), note);
}

// The number of classes of the data, their names, and the network's number of classes if that differs.
static void print_classes(const train_setup *t, int64_t classes)
{
    enum { MOST_NAMES = 12 };
    ckm_data *data = ckm_trainer_data(t->trainer);
    ckm_session *session = ckm_trainer_session(t->trainer);
    int64_t limit = ckm_session_get_tensor(session, ckm_session_labels(session)).limit;
    if (classes == 0) {
        return;
    }
    cli_line(stderr, 10, ", %lld class%s", (long long)classes, classes == 1 ? "" : "es");
    for (int64_t i = 0; classes <= MOST_NAMES && i < classes && ckm_data_class_name(data, i) != NULL; i++) {
        cli_line(stderr, 10, "%s%s", i == 0 ? " (" : ", ", cli_text(ckm_data_class_name(data, i)));
    }
    cli_line(stderr, 10, "%s", classes <= MOST_NAMES && ckm_data_class_name(data, 0) != NULL ? ")" : "");
    if (limit > 0 && limit != classes) {
        cli_line(stderr, 10, "; the network has %lld", (long long)limit);
    }
}

// Mean time that a step of this run waited for transfers.
static double transfer_wait(const ckm_session_transfers *moved, const ckm_train_result *r)
{
    return r->steps > 0 ? moved->waited_seconds / (double)r->steps : 0.0;
}

// What a step moves: every batch of it does.
static ckm_session_transfers moved_in_a_step(const train_setup *t)
{
    ckm_session_transfers moved = ckm_session_get_transfers(ckm_trainer_session(t->trainer));
    int64_t batches = cli_train_step_batches(t);
    moved.out_bytes *= batches;
    moved.in_bytes *= batches;
    moved.moves_out *= batches;
    moved.moves_in *= batches;
    return moved;
}

// Where tensors are moved to, how fast that is, and what a step moves.
static void print_offload(const train_setup *t)
{
    ckm_session_transfers moved = moved_in_a_step(t);
    ckm_second_memory second;
    char out[64];
    char in[64];
    char file[64];
    if (!ckm_trainer_get_second_memory(t->trainer, &second)) {
        return;
    }
    cli_line(stderr, 10, "offload   %s: %s/s out, %s/s in, latency %.0f us\n", cli_text(second.name),
             cli_show_bytes(second.out_bytes_per_second, out, sizeof out),
             cli_show_bytes(second.in_bytes_per_second, in, sizeof in), (double)second.latency_ns * 1e-3);
    if (moved.moves_out == 0) {
        cli_line(stderr, 10, "          nothing is moved\n");
        return;
    }
    cli_line(stderr, 10, "          a step moves %s out (%lld) and %s in (%lld); a file of %s%s%s\n",
             cli_show_bytes(moved.out_bytes, out, sizeof out), (long long)moved.moves_out,
             cli_show_bytes(moved.in_bytes, in, sizeof in), (long long)moved.moves_in,
             cli_show_bytes(moved.file_bytes, file, sizeof file),
             moved.direct ? "" : ", through the system's page cache (no O_DIRECT there)",
             moved.concurrent ? "" : "; operators wait for it, as threads for it could not be started");
    if (moved.in_memory) {
        cli_warnf("%s is in memory itself: what is moved there takes as much as it frees", cli_text(second.name));
    }
}

void cli_train_report_plan(const train_report *report)
{
    const train_setup *t = report->setup;
    const ckm_program *program = ckm_trainer_program(t->trainer);
    ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
    ckm_session_memory m = ckm_session_get_memory(ckm_trainer_session(t->trainer));
    ckm_data_facts data = ckm_data_get_facts(ckm_trainer_data(t->trainer));
    ckm_program_memory own = ckm_program_get_memory(program);
    ckm_trainer_validation validation = ckm_trainer_get_validation(t->trainer);
    char text[64];
    char other[64];
    if (t->settings->quiet) {
        return;
    }
    cli_line(stderr, 10, "network   %s, batch %lld, %d operators a step on %s with %d thread%s; parameters %s\n",
             cli_text(ckm_graph_name(t->graph)), (long long)info.place.batch,
             (int)ckm_dataflow_op_count(ckm_trainer_dataflow(t->trainer)), ckm_program_backend(program),
             ckm_program_threads(program), ckm_program_threads(program) == 1 ? "" : "s",
             cli_text(info.parameters_from));
    if (cli_train_step_batches(t) > 1) {
        cli_line(stderr, 10, "step      %lld batches, %s\n", (long long)cli_train_step_batches(t),
                 t->ranks != NULL ? "one in each process" : "one after the other");
    }
    cli_line(stderr, 10, "data      %s: %lld samples, %lld batches an epoch", data.format, (long long)data.samples,
             (long long)data.batches);
    print_classes(t, data.classes);
    if (validation.there) {
        cli_line(stderr, 10, "; validation on %lld samples%s%s", (long long)validation.samples,
                 t->validation[0] != '\0' ? " of " : "", cli_text(t->validation));
    }
    if (t->settings->augment != NULL && strcmp(t->settings->augment, "none") != 0) {
        cli_line(stderr, 10, "; augmented: %s", t->settings->augment);
    }
    if (!data.reads_ahead) {
        cli_line(stderr, 10, ", none read ahead (the thread for it could not be started)");
    }
    cli_line(stderr, 10, "\n");
    cli_line(stderr, 10, "schedule  %s; %s more %s than without rematerialization, which would take %s\n",
             info.strategy, cli_show_percent(cli_overhead(info.cost, info.baseline_cost), text, sizeof text),
             t->settings->offload != NULL ? "time" : "compute",
             cli_show_bytes(info.baseline_bytes, other, sizeof other));
    print_offload(t);
    cli_line(stderr, 10, "memory\n");
    memory_line("parameters", m.parameter_bytes, "");
    memory_line("optimizer state", m.optimizer_bytes, "");
    memory_line("running statistics", m.state_bytes, "");
    memory_line("constants", m.constant_bytes, "");
    memory_line("input batch and labels", m.data_bytes, "");
    snprintf(other, sizeof other, "of which workspace %s", cli_show_bytes(m.workspace_bytes, text, sizeof text));
    memory_line("arena", m.arena_bytes, other);
    memory_line("rounding to pages", m.padding_bytes, "");
    memory_line("data read ahead", data.bytes, "");
    memory_line("tables", m.table_bytes, "");
    memory_line("kernels and threads", own.kernel_bytes + own.thread_bytes, own.measured ? "measured" : "estimated");
    memory_line("margin", own.margin_bytes, "");
    if (validation.there) {
        memory_line("validation", validation.bytes, "kernels, tables, data read ahead; it runs in the arena");
    }
    if (t->settings->offload != NULL) {
        memory_line("second memory", ckm_program_second_memory_bytes(program), "buffers and threads for it");
    }
    if (t->ranks != NULL) {
        int64_t others = info.outside_bytes - validation.bytes - data.bytes - m.table_bytes - own.kernel_bytes -
                         own.thread_bytes - own.margin_bytes;
        memory_line("exchange with other ranks", others, "MPI, buffers");
    }
    memory_line("total", info.used_bytes, "");
    memory_line("budget", info.budget_bytes, "");
}

// Of a text a loss says how likely its tokens are: the perplexity is e to its power and, where the bytes of a token are known, bits
// per byte are the loss by log 2 and by them. NaN for anything else.
static bool reads_text(const train_report *report, bool *of_bytes)
{
    const char *format = ckm_data_get_facts(ckm_trainer_data(report->setup->trainer)).format;
    bool bytes = strcmp(format, "text") == 0;
    *of_bytes = bytes || report->setup->bytes_per_token > 0;
    return (bytes || strcmp(format, "tokens") == 0) && report->setup->settings->loss != CLI_TRAIN_MSE;
}

static double perplexity(const train_report *report, double loss)
{
    bool of_bytes = false;
    return reads_text(report, &of_bytes) ? exp(loss) : (double)NAN;
}

static double bits_per_byte(const train_report *report, double loss)
{
    bool of_bytes = false;
    if (!reads_text(report, &of_bytes) || !of_bytes) {
        return (double)NAN;
    }
    double bytes = report->setup->bytes_per_token > 0 ? report->setup->bytes_per_token : 1;
    return loss / log(2.0) / bytes;
}

// "perplexity 5.1, 2.35 bits a byte", or "" where samples are no text.
static const char *show_text_loss(const train_report *report, double loss, char *buf, size_t size)
{
    double bits = bits_per_byte(report, loss);
    int n = isnan(perplexity(report, loss)) ? 0 : snprintf(buf, size, "perplexity %.2f", perplexity(report, loss));
    buf[n > 0 ? n : 0] = '\0';
    if (!isnan(bits) && n > 0 && (size_t)n < size) {
        snprintf(buf + n, size - (size_t)n, ", %.3f bits a byte", bits);
    }
    return buf;
}

static void show_time(double seconds, char *buf, size_t size)
{
    long long whole = seconds > 0 ? (long long)(seconds + 0.5) : 0;
    if (whole >= 3600) {
        snprintf(buf, size, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    } else {
        snprintf(buf, size, "%lld:%02lld", whole / 60, whole % 60);
    }
}

static void print_progress(const train_report *report, const ckm_train_progress *p)
{
    ckm_trainer_info info = ckm_trainer_get_info(report->setup->trainer);
    char left[32];
    char accuracy[32];
    char used[64];
    char budget[64];
    char text[96];
    show_text_loss(report, p->mean_loss, text, sizeof text);
    show_time(p->seconds_left, left, sizeof left);
    if (cli_width(stderr) < 80) {
        // What changes from step to step, on one line, which the next is written over.
        char line[160];
        snprintf(line, sizeof line, "step %lld/%lld  loss %.5g  %s  %s left", (long long)p->step + 1,
                 (long long)p->last_step, p->loss, cli_show_bytes(info.used_bytes, used, sizeof used), left);
        fprintf(stderr, "%.*s", cli_width(stderr) - 1, line);
        return;
    }
    fprintf(stderr,
            "step %lld/%lld  epoch %lld (%lld/%lld)  loss %.5f (mean %.5f)  %s%saccuracy %s  %.1f samples/s  "
            "memory %s of %s  %s left",
            (long long)p->step + 1, (long long)p->last_step, (long long)p->epoch + 1, (long long)p->epoch_step + 1,
            (long long)p->epoch_steps, p->loss, p->mean_loss, text, text[0] != '\0' ? "  " : "",
            cli_show_percent(p->accuracy, accuracy, sizeof accuracy), p->samples_per_second,
            cli_show_bytes(info.used_bytes, used, sizeof used),
            cli_show_bytes(info.budget_bytes, budget, sizeof budget), left);
}

static void log_real(FILE *log, const char *key, double value)
{
    fprintf(log, ", \"%s\": ", key);
    ckm_json_write_number(log, value);
}

static void log_text_loss(const train_report *report, FILE *log, const char *prefix, double loss)
{
    char key[64];
    bool of_bytes = false;
    if (!reads_text(report, &of_bytes)) {
        return;
    }
    snprintf(key, sizeof key, "%sperplexity", prefix);
    log_real(log, key, perplexity(report, loss));
    if (of_bytes) {
        snprintf(key, sizeof key, "%sbits_per_byte", prefix);
        log_real(log, key, bits_per_byte(report, loss));
    }
}

static void log_step(train_report *report, const ckm_train_progress *p)
{
    FILE *log = report->log;
    fprintf(log, "{\"step\": %lld, \"epoch\": %lld", (long long)p->step, (long long)p->epoch);
    log_real(log, "loss", p->loss);
    log_real(log, "mean_loss", p->mean_loss);
    log_real(log, "accuracy", p->accuracy);
    log_text_loss(report, log, "", p->mean_loss);
    log_real(log, "learning_rate", p->learning_rate);
    log_real(log, "step_seconds", p->step_seconds);
    log_real(log, "wait_seconds", p->wait_seconds);
    log_real(log, "samples_per_second", p->samples_per_second);
    fputs("}\n", log);
    flush_log(report);
}

// What kernels, threads and the connection of ranks were measured to take before the meter was started; estimates do not count.
static int64_t kernel_bytes(const train_setup *t)
{
    ckm_program_memory own = ckm_program_get_memory(ckm_trainer_program(t->trainer));
    return (own.measured ? own.kernel_bytes + own.thread_bytes : 0) +
           ckm_trainer_get_validation(t->trainer).kernel_bytes + (t->ranks != NULL ? t->ranks->bytes : 0);
}

// What planning left in the process's memory: the network, its graphs, the schedule. Reported because the budget excludes it.
static int64_t planning_bytes(const train_report *report)
{
    int64_t before = report->meter.anonymous_before;
    int64_t start = report->setup->at_start.anonymous_bytes;
    int64_t kept = before - start - kernel_bytes(report->setup);  // what kernels take is rounded up
    return before < 0 || start < 0 ? -1 : kept > 0 ? kept : 0;
}

// The budget holds by construction. If a step exceeds it all the same, for example because a library allocates, that is reported.
static void check_budget(train_report *report, int64_t step)
{
    const train_setup *t = report->setup;
    ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
    // Kernels, threads and ranks allocated before the meter was started.
    int64_t left = info.budget_bytes - kernel_bytes(t);
    cli_train_meter_look(&report->meter);
    if (report->exceeded_step >= 0 || !cli_train_meter_exceeds(&report->meter, left, t->settings->kernels.threads)) {
        return;
    }
    char grown[64];
    char budget[64];
    report->exceeded_step = step;
    report->exceeded_bytes = cli_train_meter_anonymous(&report->meter) + kernel_bytes(t);
    report->exceeded = t->settings->on_excess == 0;
    if (!report->exceeded) {
        cli_warnf("step %lld: memory grew by %s, more than the budget of %s; training continues", (long long)step,
                  cli_show_bytes(report->exceeded_bytes, grown, sizeof grown),
                  cli_show_bytes(info.budget_bytes, budget, sizeof budget));
    }
}

void cli_train_report_step(const ckm_train_progress *p, void *user)
{
    train_report *report = user;
    double now = cli_train_clock();
    bool last = p->step + 1 == p->last_step;
    bool epoch_ends = p->epoch_step + 1 == p->epoch_steps;
    check_budget(report, p->step);
    report->longest_step = fmax(report->longest_step, p->step_seconds + p->wait_seconds);
    if (!cli_stop_requested(NULL)) {
        cli_stop_grace(60 + 10 * report->longest_step);
    }
    if (report->log != NULL) {
        log_step(report, p);
    }
    if (report->setup->settings->quiet) {
        return;
    }
    if (report->live) {
        if (last || epoch_ends || now - report->last_live >= live_interval) {
            fputs("\r\033[K", stderr);
            print_progress(report, p);
            report->line_open = true;
            report->last_live = now;
            if (epoch_ends || last) {
                fputc('\n', stderr);
                report->line_open = false;
            }
            fflush(stderr);
        }
    } else if (last || epoch_ends || now - report->last_line >= plain_interval) {
        print_progress(report, p);
        fputc('\n', stderr);
        report->last_line = now;
    }
}

void cli_train_report_validation(const ckm_train_validation *v, void *user)
{
    train_report *report = user;
    char accuracy[32];
    char text[96];
    show_text_loss(report, v->loss, text, sizeof text);
    report->last = *v;
    report->best = v->best ? *v : report->best;
    if (report->log != NULL) {
        fprintf(report->log, "{\"step\": %lld, \"epoch\": %lld, \"samples\": %lld", (long long)v->step - 1,
                (long long)v->epoch, (long long)v->samples);
        log_real(report->log, "validation_loss", v->loss);
        log_real(report->log, "validation_accuracy", v->accuracy);
        log_text_loss(report, report->log, "validation_", v->loss);
        log_real(report->log, "validation_seconds", v->seconds);
        fprintf(report->log, ", \"best\": %s}\n", v->best ? "true" : "false");
        flush_log(report);
    }
    check_budget(report, v->step - 1);
    if (report->setup->settings->quiet) {
        return;
    }
    if (report->line_open) {
        fputc('\n', stderr);
        report->line_open = false;
    }
    cli_line(stderr, 2, "epoch %lld  validation  loss %.5f  %s%saccuracy %s  (%lld samples in %.1f s)%s\n",
             (long long)v->epoch + 1, v->loss, text, text[0] != '\0' ? "  " : "",
             isnan(v->accuracy) ? "-" : cli_show_percent(v->accuracy, accuracy, sizeof accuracy), (long long)v->samples,
             v->seconds, v->best ? "  best so far" : "");
}

void cli_train_report_event(ckm_train_event event, const char *path, int64_t step, const ckm_error *why, void *user)
{
    train_report *report = user;
    if (report->line_open) {
        fputc('\n', stderr);
        report->line_open = false;
    }
    if (event == CKM_TRAIN_SAVED) {
        if (report->setup->settings->verbose) {
            fprintf(stderr, "saved %s after %lld steps\n", cli_text(path), (long long)step);
        }
    } else {
        cli_warnf("step %lld: could not save %s: %s; the old file is unchanged", (long long)step, path, why->message);
    }
}

// Of the whole process, from its start to its largest while it trained.
static int64_t process_growth(const train_report *report)
{
    int64_t before = report->meter.anonymous_before;
    int64_t start = report->setup->at_start.anonymous_bytes;
    int64_t grown = report->anonymous_most;
    return before < 0 || start < 0 || grown < 0 ? -1 : grown + before - start;
}

// Nothing where there is no --offload.
static void print_offload_json(const train_setup *t, const ckm_train_result *r, cli_json *json)
{
    ckm_session_transfers moved = moved_in_a_step(t);
    ckm_second_memory second;
    if (!ckm_trainer_get_second_memory(t->trainer, &second)) {
        return;
    }
    cli_json_open(json, "second_memory");
    cli_json_text(json, "name", second.name);
    cli_json_size(json, "bytes", second.bytes);
    cli_json_size(json, "out_bytes_per_second", second.out_bytes_per_second);
    cli_json_size(json, "in_bytes_per_second", second.in_bytes_per_second);
    cli_json_size(json, "latency_ns", second.latency_ns);
    cli_json_close(json);
    cli_json_size(json, "moved_out_bytes", moved.out_bytes);
    cli_json_size(json, "moved_in_bytes", moved.in_bytes);
    cli_json_size(json, "moves_out", moved.moves_out);
    cli_json_size(json, "moves_in", moved.moves_in);
    cli_json_size(json, "offload_file_bytes", moved.file_bytes);
    cli_json_real(json, "transfer_wait_seconds", transfer_wait(&moved, r));
    cli_json_bool(json, "offload_direct", moved.direct);
}

static void print_result_json(const train_report *report, const ckm_train_result *r)
{
    const train_setup *t = report->setup;
    ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
    ckm_session_memory m = ckm_session_get_memory(ckm_trainer_session(t->trainer));
    cli_json json;
    cli_json_begin(&json);
    cli_json_text(&json, "status", r->stopped ? "stopped" : "done");
    cli_json_size(&json, "steps", r->steps);
    cli_json_size(&json, "next_step", r->next_step);
    cli_json_size(&json, "saved_step", r->saved_step);
    cli_json_real(&json, "first_loss", r->first_loss);
    cli_json_real(&json, "last_loss", r->last_loss);
    cli_json_real(&json, "mean_loss", r->mean_loss);
    cli_json_real(&json, "accuracy", r->accuracy);
    cli_json_real(&json, "perplexity", perplexity(report, r->mean_loss));
    cli_json_real(&json, "bits_per_byte", bits_per_byte(report, r->mean_loss));
    bool validated = report->last.samples > 0;
    cli_json_real(&json, "validation_loss", validated ? report->last.loss : (double)NAN);
    cli_json_real(&json, "validation_accuracy", validated ? report->last.accuracy : (double)NAN);
    cli_json_real(&json, "validation_perplexity", validated ? perplexity(report, report->last.loss) : (double)NAN);
    cli_json_real(&json, "validation_bits_per_byte",
                  validated ? bits_per_byte(report, report->last.loss) : (double)NAN);
    cli_json_real(&json, "best_validation_loss", report->best.samples > 0 ? report->best.loss : (double)NAN);
    cli_json_size(&json, "best_step", report->best.samples > 0 ? report->best.step : -1);
    cli_json_real(&json, "seconds", r->seconds);
    cli_json_real(&json, "step_seconds", r->median_step_seconds);
    cli_json_real(&json, "step_predicted_seconds", info.step_seconds);
    cli_json_real(&json, "overhead", cli_overhead(info.cost, info.baseline_cost));
    cli_json_size(&json, "budget_bytes", info.budget_bytes);
    cli_json_size(&json, "used_bytes", info.used_bytes);
    cli_json_size(&json, "region_bytes", m.region_bytes);
    cli_json_size(&json, "arena_bytes", m.arena_bytes);
    cli_json_size(&json, "outside_bytes", info.outside_bytes);
    cli_json_size(&json, "kernel_bytes", kernel_bytes(t));
    cli_json_size(&json, "anonymous_growth_bytes", report->anonymous_most);
    cli_json_size(&json, "resident_growth_bytes", cli_train_meter_resident(&report->meter));
    cli_json_size(&json, "planning_bytes", planning_bytes(report));
    cli_json_size(&json, "process_growth_bytes", process_growth(report));
    cli_json_size(&json, "baseline_bytes", info.baseline_bytes);
    cli_json_text(&json, "strategy", info.strategy);
    print_offload_json(t, r, &json);
    cli_json_size(&json, "pictures_left_out", ckm_data_left_out(ckm_trainer_data(t->trainer)));
    cli_json_text(&json, "augment", t->settings->augment != NULL ? t->settings->augment : "none");
    cli_json_size(&json, "step_batches", cli_train_step_batches(t));
    cli_json_size(&json, "ranks", t->ranks != NULL ? t->ranks->count : 1);
    cli_json_end(&json);
}

int cli_train_report_result(train_report *report, const ckm_train_result *r)
{
    const train_setup *t = report->setup;
    ckm_trainer_info info = ckm_trainer_get_info(t->trainer);
    char text[64];
    char other[64];
    char third[64];
    report->anonymous_most = cli_ranks_most(t->ranks, cli_train_meter_anonymous(&report->meter));
    int64_t process = process_growth(report);
    if (t->settings->json) {
        print_result_json(report, r);
        return cli_finish_output();
    }
    cli_line(stdout, 23, "%-22s %lld%s\n", "steps", (long long)r->steps, r->stopped ? " (stopped)" : "");
    cli_line(stdout, 23, "%-22s %.6f to %.6f, mean of the last epoch %.6f\n", "loss", r->first_loss, r->last_loss,
             r->mean_loss);
    if (show_text_loss(report, r->mean_loss, text, sizeof text)[0] != '\0') {
        cli_line(stdout, 23, "%-22s %s, mean of the last epoch\n", "text", text);
    }
    if (!isnan(r->accuracy)) {
        cli_line(stdout, 23, "%-22s %s in the last epoch\n", "accuracy",
                 cli_show_percent(r->accuracy, text, sizeof text));
    }
    if (report->last.samples > 0) {
        show_text_loss(report, report->last.loss, other, sizeof other);
        cli_line(stdout, 23, "%-22s loss %.6f, %s%saccuracy %s, on %lld samples that were not trained on\n",
                 "validation", report->last.loss, other, other[0] != '\0' ? ", " : "",
                 isnan(report->last.accuracy) ? "-" : cli_show_percent(report->last.accuracy, text, sizeof text),
                 (long long)report->last.samples);
    }
    if (ckm_data_left_out(ckm_trainer_data(t->trainer)) > 0) {
        cli_line(stdout, 23, "%-22s %lld, which cannot be read\n", "pictures left out",
                 (long long)ckm_data_left_out(ckm_trainer_data(t->trainer)));
    }
    double predicted = info.step_seconds;
    cli_line(stdout, 23, "%-22s %.1f ms (median)", "step", r->median_step_seconds * 1e3);
    if (!isnan(predicted)) {
        cli_line(stdout, 23, ", %.1f ms predicted", predicted * 1e3);
    }
    cli_line(stdout, 23, "; %.1f samples/s over all\n",
             r->seconds > 0 ? (double)(r->steps * info.place.batch * cli_train_step_batches(t)) / r->seconds : 0.0);
    cli_line(stdout, 23, "%-22s %s of %s; without rematerialization %s\n", "memory",
             cli_show_bytes(info.used_bytes, text, sizeof text), cli_show_bytes(info.budget_bytes, other, sizeof other),
             cli_show_bytes(info.baseline_bytes, third, sizeof third));
    if (process >= 0) {
        cli_line(stdout, 23, "%-22s %s since the program started", "memory grew by",
                 cli_show_bytes(process, text, sizeof text));
        if (planning_bytes(report) > 0) {
            cli_line(stdout, 23, "; of it not in the budget: %s that planning keeps",
                     cli_show_bytes(planning_bytes(report), other, sizeof other));
        }
        cli_line(stdout, 23, "\n");
    }
    if (t->settings->offload != NULL) {
        ckm_session_transfers moved = moved_in_a_step(t);
        cli_line(stdout, 23, "%-22s %s out and %s in a step, for which it waits %.3f s\n", "moved",
                 cli_show_bytes(moved.out_bytes, text, sizeof text),
                 cli_show_bytes(moved.in_bytes, other, sizeof other), transfer_wait(&moved, r));
    }
    cli_line(stdout, 23, "%-22s %s predicted\n", "overhead",
             cli_show_percent(cli_overhead(info.cost, info.baseline_cost), text, sizeof text));
    if (t->settings->save_best != NULL && report->best.samples > 0) {
        cli_line(stdout, 23, "%-22s %s, after %lld steps: loss %.6f\n", "best", cli_text(t->settings->save_best),
                 (long long)report->best.step, report->best.loss);
    }
    if (r->saved_step >= 0) {
        cli_line(stdout, 23, "%-22s %s, after %lld steps\n", "saved", cli_text(t->settings->save),
                 (long long)r->saved_step);
    }
    return cli_finish_output();
}
