// SPDX-License-Identifier: Apache-2.0
// Errors, suggestions, colours, and the final check that output was written.
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const char *cli_style(FILE *stream, cli_style_name style)
{
    static const char *const codes[] = {"\033[0m", "\033[1m", "\033[2m", "\033[32m", "\033[33m", "\033[31m"};
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    if ((no_color != NULL && no_color[0] != '\0') || (terminal != NULL && strcmp(terminal, "dumb") == 0) ||
        !isatty(fileno(stream))) {
        return "";
    }
    return codes[style];
}

// What a terminal acts on rather than shows: control characters of one byte and of two (U+0080 to U+009F), marks that turn the
// direction of text, separators of lines and paragraphs. Bytes of the character at `c`, and whether it is one of these or none
// at all.
static int look_at(const unsigned char *c, bool *shown)
{
    static const unsigned char least[] = {0, 0, 0x80, 0xa0, 0x90};
    int n = c[0] < 0x80 ? 1 : c[0] >= 0xc2 && c[0] < 0xe0 ? 2 : c[0] >= 0xe0 && c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    *shown = false;
    if (n < 2) {
        *shown = n == 1 && c[0] >= 0x20 && c[0] != 0x7f;
        return 1;
    }
    if (c[0] < 0xc2) {
        return 1;
    }
    for (int i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) {
            return 1;
        }
    }
    if (((c[0] == 0xe0 || c[0] == 0xf0) && c[1] < least[n]) || (c[0] == 0xed && c[1] > 0x9f) ||
        (c[0] == 0xf4 && c[1] > 0x8f)) {
        return 1;
    }
    bool control = c[0] == 0xc2 && c[1] < 0xa0;
    bool mark = c[0] == 0xe2 && ((c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) ||
                                 (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9));
    *shown = !control && !mark;
    return n;
}

static void clean(const char *text, char *out, size_t room)
{
    size_t used = 0;
    while (*text != '\0' && used + 5 < room) {
        bool shown;
        int n = look_at((const unsigned char *)text, &shown);
        if (shown) {
            memcpy(out + used, text, (size_t)n);
            used += (size_t)n;
        } else {
            used += (size_t)snprintf(out + used, room - used, "?");
        }
        text += n;
    }
    out[used] = '\0';
}

const char *cli_text(const char *text)
{
    enum { TEXTS = 8, ROOM = 2048 };
    static char texts[TEXTS][ROOM];
    static int next;
    char *out = texts[next];
    next = (next + 1) % TEXTS;
    clean(text, out, ROOM);
    return out;
}

static void print_clean(const char *format, va_list args) CKM_PRINTF(1, 0);
static void print_clean(const char *format, va_list args)
{
    char text[4096];
    char shown[4096];
    vsnprintf(text, sizeof text, format, args);
    clean(text, shown, sizeof shown);
    fputs(shown, stderr);
}

static void print_prefix(const char *command)
{
    fprintf(stderr, "%scheckmate%s%s:%s ", cli_style(stderr, CLI_BAD), command != NULL ? " " : "",
            command != NULL ? command : "", cli_style(stderr, CLI_PLAIN));
}

int cli_fail(const ckm_error *err)
{
    print_prefix(NULL);
    if (err->file[0] != '\0') {
        fprintf(stderr, "%s: ", cli_text(err->file));
    }
    if (err->line > 0) {
        fprintf(stderr, "line %lld: ", (long long)err->line);
    } else if (err->byte >= 0) {
        fprintf(stderr, "byte %lld: ", (long long)err->byte);
    }
    fprintf(stderr, "%s\n", cli_text(err->message[0] != '\0' ? err->message : ckm_status_name(err->code)));
    return CLI_FAILED;
}

int cli_failf(const char *format, ...)
{
    va_list args;
    print_prefix(NULL);
    va_start(args, format);
    print_clean(format, args);
    va_end(args);
    fputc('\n', stderr);
    return CLI_FAILED;
}

void cli_note(const char *line)
{
    fprintf(stderr, "%s%snote:%s %s\n", isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", cli_style(stderr, CLI_WARN),
            cli_style(stderr, CLI_PLAIN), cli_text(line));
}

void cli_warnf(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char shown[4096];
    clean(text, shown, sizeof shown);
    cli_line(stderr, 2, "%swarning:%s %s", cli_style(stderr, CLI_WARN), cli_style(stderr, CLI_PLAIN), shown);
    cli_line(stderr, 2, "\n");
}

int cli_usage_error(const cli_command *command, const char *format, ...)
{
    va_list args;
    print_prefix(command != NULL ? command->name : NULL);
    va_start(args, format);
    print_clean(format, args);
    va_end(args);
    fprintf(stderr, " (see 'checkmate help%s%s')\n", command != NULL ? " " : "", command != NULL ? command->name : "");
    return CLI_USAGE;
}

ckm_status cli_error(ckm_error *err, ckm_status code, const char *file, const char *format, ...)
{
    va_list args;
    *err = (ckm_error)CKM_ERROR_INIT;
    err->code = code;
    snprintf(err->file, sizeof err->file, "%s", file != NULL ? file : "");
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    return code;
}

enum { WORD_MAX = 48 };

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

// Edits (insert, drop, change, swap neighbours) that turn a into b, case ignored; WORD_MAX when too long.
static int edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a);
    size_t m = strlen(b);
    int rows[3][WORD_MAX + 1] = {{0}};
    if (n > WORD_MAX || m > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = (int)j;
    }
    for (size_t i = 1; i <= n; i++) {
        int *now = rows[i % 3];
        const int *before = rows[(i + 2) % 3];
        const int *earlier = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            now[j] = least(least(before[j] + 1, now[j - 1] + 1), before[j - 1] + (same ? 0 : 1));
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
                now[j] = least(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return rows[n % 3][m];
}

const char *cli_did_you_mean(const char *word, const char *const *names, int n, const char *prefix, char *buf,
                             size_t size)
{
    int best = -1;
    int best_distance = WORD_MAX;
    for (int i = 0; i < n; i++) {
        int distance = edit_distance(word, names[i]);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    int tolerated = least(4, 1 + (int)(strlen(word) / 3));
    // Else one that begins with the whole word: --time for --time-limit.
    for (int i = 0; i < n && best_distance > tolerated && strlen(word) >= 3; i++) {
        if (strncmp(names[i], word, strlen(word)) == 0) {
            best = i;
            best_distance = 0;
        }
    }
    if (best >= 0 && best_distance <= tolerated) {
        snprintf(buf, size, "; did you mean '%s%s'?", prefix, names[best]);
    } else {
        snprintf(buf, size, "%s", "");
    }
    return buf;
}

int cli_finish_output(void)
{
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return cli_failf("cannot write to standard output: %s", errno != 0 ? strerror(errno) : "write error");
    }
    return CLI_DONE;
}
