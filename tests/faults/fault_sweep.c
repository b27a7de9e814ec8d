// SPDX-License-Identifier: Apache-2.0
// fault_sweep [options] -- PROGRAM ARGUMENTS...
//
// Runs a program once as it is, and then once for every allocation (map, fork, thread) that it made, with that one
// failing. A run must end in one of two ways:
//  - with status 1, one line on standard error that says so, nothing on standard output, and no file left behind;
//  - with the status of the undisturbed run, and the same output and files, figures masked (--mask); where they
//    differ, --check decides.
// Everything else (signals, other statuses, hangs, other messages, wrong output) is named, with who made the call.
//
//   --kind alloc|map|fork|thread   what fails (alloc)        --scope parent|child   in which process (parent)
//   --runs N       at most N runs, evenly spread (0: all)    --from-then            all later calls fail, too
//   --skip NAMES   libraries whose calls are not counted     --at N                 only call N; shows what happened
//   --message ERE  what standard error must match            --mask ERE             taken out before comparing
//   --product FILE what the program writes                   --check COMMAND        run by sh; status 0: right as well
//   --leaves FILE  what a failed run may leave behind, too
//   --begins       output of a failed run may be the beginning of the right one
//   --alive        threads only: call N is any while N threads other than the first are running
//   --accept N     a status that will do, too (-1)
//   --succeeds     status 1 will not do                      --status N             of the undisturbed run (0)
//   --lines N      a failed run may print N lines on standard error (1)
//   --timeout S    for one run (60)                          --seconds S            no new run after so long (0: any)
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault_state.h"

enum { MAX_MASKS = 16, MAX_PRODUCTS = 4, MAX_REPORTS = 25, MAX_ENTRIES = 256 };

static const char *const kinds[FAULT_KINDS] = {"alloc", "map", "fork", "thread"};
static const char *const kind_words[FAULT_KINDS] = {"allocations", "maps", "forks", "threads"};

static struct {
    int kind, scope, status, accept, lines;
    long runs, at, timeout, seconds;
    bool from_then, alive, begins, succeeds;
    const char *skip, *check;
    regex_t message;
    regex_t masks[MAX_MASKS];
    int n_masks;
    const char *products[MAX_PRODUCTS], *leaves[MAX_PRODUCTS];
    int n_products, n_leaves;
    char **argv;
} options = {.timeout = 60, .at = -1, .accept = -1, .skip = "", .lines = 1};

static fault_state *state;
static char state_path[] = "/tmp/ckm_fault_XXXXXX";
static int out_fd, err_fd, to_server, from_server;
static pid_t server;
static char *entries[MAX_ENTRIES];
static int n_entries;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "fault_sweep: %s: %s\n", what, strerror(errno));
    exit(2);
}

typedef struct outcome {
    int how;  // as waitpid gives it
    bool hangs, fired;
    char *out, *err;  // masked
    char *products[MAX_PRODUCTS];
} outcome;

static char *read_fd(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        die("fstat");
    }
    size_t size = (size_t)facts.st_size;
    char *text = calloc(size + 1, 1);
    size_t n = 0;
    while (text != NULL && n < size) {
        ssize_t got = pread(fd, text + n, size - n, (off_t)n);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
    }
    if (text == NULL) {
        die("memory");
    }
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\0') {
            text[i] = '\1';
        }
    }
    return text;
}

// Replaces everything that a mask matches by '#'.
static void mask(char *text)
{
    for (int m = 0; m < options.n_masks; m++) {
        char *from = text;
        char *to = text;
        regmatch_t match;
        while (*from != '\0' && regexec(&options.masks[m], from, 1, &match, from == text ? 0 : REG_NOTBOL) == 0) {
            bool empty = match.rm_eo == match.rm_so;
            size_t kept = (size_t)match.rm_so + (empty && from[match.rm_so] != '\0');
            memmove(to, from, kept);
            to += kept;
            from += empty ? (regoff_t)kept : match.rm_eo;
            if (!empty) {
                *to++ = '#';
            }
        }
        memmove(to, from, strlen(from) + 1);
    }
}

static int new_file(void)
{
    int fd = memfd_create("fault", 0);
    if (fd < 0) {
        die("memfd_create");
    }
    return fd;
}

static void start_server(const char *preload)
{
    int fd = mkstemp(state_path);
    int orders[2];
    int replies[2];
    if (fd < 0 || ftruncate(fd, sizeof *state) != 0 || pipe(orders) != 0 || pipe(replies) != 0) {
        die("setting up");
    }
    state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state == MAP_FAILED) {
        die("mmap");
    }
    close(fd);
    out_fd = new_file();
    err_fd = new_file();
    *state = (fault_state){.control_fd = orders[0], .reply_fd = replies[1], .out_fd = out_fd, .err_fd = err_fd};
    snprintf(state->skip, sizeof state->skip, "%s", options.skip);
    to_server = orders[1];
    from_server = replies[0];
    fflush(stdout);
    server = fork();
    if (server == 0) {
        close(to_server);
        close(from_server);
        int nothing = open("/dev/null", O_RDONLY);
        if (nothing < 0 || dup2(nothing, STDIN_FILENO) != STDIN_FILENO || setenv("LD_PRELOAD", preload, 1) != 0 ||
            setenv(FAULT_STATE_VARIABLE, state_path, 1) != 0) {
            die("setting up");
        }
        execvp(options.argv[0], options.argv);
        die(options.argv[0]);
    }
    close(orders[0]);
    close(replies[1]);
    if (server < 0) {
        die("fork");
    }
}

static bool wait_reply(int32_t *value, long seconds)
{
    struct pollfd ready = {.fd = from_server, .events = POLLIN};
    if (poll(&ready, 1, (int)(seconds * 1000)) <= 0) {
        return false;
    }
    if (read(from_server, value, sizeof *value) != (ssize_t)sizeof *value) {
        fprintf(stderr, "fault_sweep: %s cannot be run with the object preloaded\n", options.argv[0]);
        exit(2);
    }
    return true;
}

static bool known_entry(const char *name)
{
    for (int i = 0; i < options.n_leaves; i++) {
        if (strcmp(options.leaves[i], name) == 0) {
            return true;
        }
    }
    for (int i = 0; i < n_entries; i++) {
        if (strcmp(entries[i], name) == 0) {
            return true;
        }
    }
    return false;
}

// The folder's files that were not there before; removes them when told to. Gives the name of one, or NULL.
static const char *left_behind(bool drop)
{
    static char found[NAME_MAX + 1];
    DIR *here = opendir(".");
    found[0] = '\0';
    for (struct dirent *entry; here != NULL && (entry = readdir(here)) != NULL;) {
        if (!known_entry(entry->d_name)) {
            snprintf(found, sizeof found, "%s", entry->d_name);
            if (drop) {
                unlink(entry->d_name);
            }
        }
    }
    if (here != NULL) {
        closedir(here);
    }
    return found[0] != '\0' ? found : NULL;
}

static void note_entries(void)
{
    DIR *here = opendir(".");
    for (struct dirent *entry; here != NULL && (entry = readdir(here)) != NULL && n_entries < MAX_ENTRIES;) {
        entries[n_entries++] = strdup(entry->d_name);
    }
    if (here != NULL) {
        closedir(here);
    }
}

static outcome run(int64_t at)
{
    outcome o = {0};
    int32_t child = 0;
    int32_t how = 0;
    for (int i = 0; i < options.n_products; i++) {
        unlink(options.products[i]);
    }
    if (ftruncate(out_fd, 0) != 0 || ftruncate(err_fd, 0) != 0) {
        die("ftruncate");
    }
    lseek(out_fd, 0, SEEK_SET);
    lseek(err_fd, 0, SEEK_SET);
    state->kind = options.kind;
    state->scope = options.scope;
    state->at = at;
    state->from_then = options.from_then;
    state->alive = options.alive;
    state->fired = false;
    state->n_frames = 0;
    if (write(to_server, "r", 1) != 1 || !wait_reply(&child, options.timeout)) {
        die("no answer");
    }
    if (!wait_reply(&how, options.timeout)) {
        o.hangs = true;
        kill(child, SIGKILL);
        (void)wait_reply(&how, options.timeout);
    }
    o.how = how;
    o.fired = state->fired;
    o.out = read_fd(out_fd);
    o.err = read_fd(err_fd);
    mask(o.out);
    for (int i = 0; i < options.n_products; i++) {
        int fd = open(options.products[i], O_RDONLY);
        if (fd >= 0) {
            o.products[i] = read_fd(fd);
            mask(o.products[i]);
            close(fd);
        }
    }
    return o;
}

static void dispose(outcome *o)
{
    free(o->out);
    free(o->err);
    for (int i = 0; i < options.n_products; i++) {
        free(o->products[i]);
    }
}

static bool same_output(const outcome *a, const outcome *b)
{
    bool same = strcmp(a->out, b->out) == 0;
    for (int i = 0; i < options.n_products; i++) {
        same = same && (a->products[i] == NULL) == (b->products[i] == NULL) &&
               (a->products[i] == NULL || strcmp(a->products[i], b->products[i]) == 0);
    }
    return same;
}

static bool check_passes(const outcome *o)
{
    if (options.check == NULL) {
        return false;
    }
    FILE *out = fopen("fault_output.txt", "w");
    if (out == NULL || fputs(o->out, out) == EOF || fclose(out) == EOF) {
        die("fault_output.txt");
    }
    bool passes = system(options.check) == 0;
    unlink("fault_output.txt");
    return passes;
}

static int count_lines(const char *text)
{
    int n = 0;
    for (const char *c = text; *c != '\0'; c++) {
        n += *c == '\n';
    }
    return n;
}

// What is wrong with a run; NULL: nothing.
static const char *judge(const outcome *o, const outcome *right)
{
    static char why[300];
    if (o->hangs) {
        return "hangs";
    }
    if (WIFSIGNALED(o->how)) {
        snprintf(why, sizeof why, "ended by signal %d", WTERMSIG(o->how));
        return why;
    }
    int status = WEXITSTATUS(o->how);
    if (status == options.status) {
        return same_output(o, right) || check_passes(o) ? NULL : "says that all is well, and the output differs";
    }
    bool documented = status == options.accept;
    if (!documented && (status != 1 || options.succeeds)) {
        snprintf(why, sizeof why, "exit status %d", status);
        return why;
    }
    if (count_lines(o->err) == 0 || count_lines(o->err) > options.lines) {
        snprintf(why, sizeof why, "%d lines on standard error", count_lines(o->err));
        return why;
    }
    if (documented) {
        return NULL;
    }
    if (regexec(&options.message, o->err, 0, NULL, 0) != 0) {
        return "the message is another";
    }
    if (o->out[0] != '\0' && !(options.begins && strncmp(o->out, right->out, strlen(o->out)) == 0)) {
        return "has failed, and printed something";
    }
    const char *file = left_behind(false);
    if (file != NULL) {
        snprintf(why, sizeof why, "leaves %s behind", file);
        return why;
    }
    return NULL;
}

static void show_frame(const fault_frame *frame)
{
    char command[4200];
    if (frame->module[0] != '\0') {
        printf("        %s+0x%llx\n", frame->module, (unsigned long long)frame->offset);
        return;
    }
    snprintf(command, sizeof command, "addr2line -s -f -e '%s' 0x%llx 2>/dev/null | tr '\\n' ' '", options.argv[0],
             (unsigned long long)frame->offset - 1);
    FILE *names = popen(command, "r");
    char line[256] = "";
    if (names != NULL) {
        if (fgets(line, sizeof line, names) == NULL) {
            line[0] = '\0';
        }
        pclose(names);
    }
    printf("        %s\n", line[0] != '\0' ? line : "(the program)");
}

static void report(int64_t at, const outcome *o, const char *why)
{
    printf("  %s %lld: %s\n", kinds[options.kind], (long long)at, why);
    printf("      standard error: %.2000s%s", o->err, o->err[0] == '\0' ? "(empty)\n" : "");
    if (getenv("CKM_FAULT_OUTPUT") != NULL) {
        printf("      standard output: %.2000s\n", o->out);
    }
    for (int i = 0; i < state->n_frames; i++) {
        show_frame(&state->frames[i]);
    }
}

// Calls of the same origin fail in the same way: one of each is enough.
static bool seen_before(void)
{
    static uint64_t seen[4096];
    static int n_seen;
    uint64_t hash = 1469598103934665603U;
    for (int i = 0; i < state->n_frames; i++) {
        hash = (hash ^ state->frames[i].offset) * 1099511628211U;
    }
    for (int i = 0; i < n_seen; i++) {
        if (seen[i] == hash) {
            return true;
        }
    }
    if (n_seen < 4096) {
        seen[n_seen++] = hash;
    }
    return false;
}

static int find_word(const char *word, const char *const *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(word, words[i]) == 0) {
            return i;
        }
    }
    fprintf(stderr, "fault_sweep: unknown value '%s'\n", word);
    exit(2);
}

static void compile(regex_t *into, const char *pattern)
{
    if (regcomp(into, pattern, REG_EXTENDED | REG_NEWLINE) != 0) {
        fprintf(stderr, "fault_sweep: not a regular expression: %s\n", pattern);
        exit(2);
    }
}

static void parse(int argc, char **argv)
{
    enum {
        KIND = 256,
        SCOPE,
        RUNS,
        FROM,
        SKIP,
        AT,
        MESSAGE,
        MASK,
        PRODUCT,
        ALIVE,
        ACCEPT,
        LEAVES,
        CHECK,
        BEGINS,
        SUCCEEDS,
        STATUS,
        LINES,
        TIMEOUT,
        SECONDS
    };
    static const struct option known[] = {
        {"kind", 1, NULL, KIND},       {"scope", 1, NULL, SCOPE},   {"runs", 1, NULL, RUNS},
        {"from-then", 0, NULL, FROM},  {"skip", 1, NULL, SKIP},     {"at", 1, NULL, AT},
        {"message", 1, NULL, MESSAGE}, {"mask", 1, NULL, MASK},     {"product", 1, NULL, PRODUCT},
        {"leaves", 1, NULL, LEAVES},   {"alive", 0, NULL, ALIVE},   {"accept", 1, NULL, ACCEPT},
        {"check", 1, NULL, CHECK},     {"begins", 0, NULL, BEGINS}, {"succeeds", 0, NULL, SUCCEEDS},
        {"status", 1, NULL, STATUS},   {"lines", 1, NULL, LINES},   {"timeout", 1, NULL, TIMEOUT},
        {"seconds", 1, NULL, SECONDS}, {NULL, 0, NULL, 0},
    };
    static const char *const scopes[] = {"parent", "child"};
    const char *message = "[Oo]ut of memory|Cannot allocate memory";
    for (int c; (c = getopt_long(argc, argv, "+", known, NULL)) != -1;) {
        switch (c) {
        case KIND:
            options.kind = find_word(optarg, kinds, FAULT_KINDS);
            break;
        case SCOPE:
            options.scope = find_word(optarg, scopes, FAULT_SCOPES);
            break;
        case RUNS:
            options.runs = atol(optarg);
            break;
        case FROM:
            options.from_then = true;
            break;
        case SKIP:
            options.skip = optarg;
            break;
        case AT:
            options.at = atol(optarg);
            break;
        case MESSAGE:
            message = optarg;
            break;
        case MASK:
            if (options.n_masks < MAX_MASKS) {
                compile(&options.masks[options.n_masks++], optarg);
            }
            break;
        case PRODUCT:
            if (options.n_products < MAX_PRODUCTS) {
                options.products[options.n_products++] = optarg;
            }
            break;
        case LEAVES:
            if (options.n_leaves < MAX_PRODUCTS) {
                options.leaves[options.n_leaves++] = optarg;
            }
            break;
        case ACCEPT:
            options.accept = atoi(optarg);
            break;
        case ALIVE:
            options.alive = true;
            break;
        case CHECK:
            options.check = optarg;
            break;
        case BEGINS:
            options.begins = true;
            break;
        case SUCCEEDS:
            options.succeeds = true;
            break;
        case STATUS:
            options.status = atoi(optarg);
            break;
        case LINES:
            options.lines = atoi(optarg);
            break;
        case TIMEOUT:
            options.timeout = atol(optarg);
            break;
        case SECONDS:
            options.seconds = atol(optarg);
            break;
        default:
            exit(2);
        }
    }
    compile(&options.message, message);
    options.argv = argv + optind;
    if (optind == argc) {
        fprintf(stderr, "fault_sweep: no program given\n");
        exit(2);
    }
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    const char *preload = getenv("CKM_FAULT_PRELOAD");
    parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (preload == NULL) {
        fprintf(stderr, "fault_sweep: CKM_FAULT_PRELOAD does not name fault_preload.so\n");
        return 2;
    }
    note_entries();
    start_server(preload);
    outcome right = run(-1);
    unlink(state_path);
    double begin = now();
    if (right.hangs || !WIFEXITED(right.how) || WEXITSTATUS(right.how) != options.status) {
        printf("fails undisturbed (status 0x%x): %s\n", (unsigned)right.how, right.err);
        return 1;
    }
    int64_t n = state->counted[options.kind][options.scope];
    int64_t runs = options.runs > 0 && options.runs < n ? options.runs : n;
    // Spread at any moment, so that a sweep that runs out of time has not left out the end.
    int64_t stride = runs * 5 / 8 + 1;
    while (common_divisor(stride, runs) != 1) {
        stride++;
    }
    int64_t done = 0;
    int64_t errors = 0;
    int64_t without = 0;
    int64_t bad = 0;
    int64_t shown = 0;
    for (int64_t i = 0; i < runs; i++) {
        int64_t at = options.at >= 0 ? options.at : (i * stride % runs) * n / runs;
        if (options.seconds > 0 && now() - begin > (double)options.seconds) {
            break;
        }
        left_behind(true);
        outcome o = run(at);
        const char *why = o.fired ? judge(&o, &right) : NULL;
        done++;
        if (!o.fired) {
            // A run by the clock may make fewer calls.
        } else if (why != NULL) {
            bad++;
            if (!seen_before() && shown++ < MAX_REPORTS) {
                report(at, &o, why);
            }
        } else if (WEXITSTATUS(o.how) == options.status) {
            without++;
        } else {
            errors++;
        }
        if (options.at >= 0) {
            report(at, &o, why != NULL ? why : "as it should be");
            dispose(&o);
            break;
        }
        dispose(&o);
    }
    left_behind(true);
    dispose(&right);
    close(to_server);
    waitpid(server, NULL, 0);
    printf("%lld %s, %lld runs in %.1f s: %lld errors, %lld did without, %lld bad\n", (long long)n,
           kind_words[options.kind], (long long)done, now() - begin, (long long)errors, (long long)without,
           (long long)bad);
    // A sweep over nothing proves nothing.
    return bad > 0 || done == 0;
}
