// SPDX-License-Identifier: Apache-2.0
// Child processes for figures. Input and output are files, not pipes, so that neither side can block the
// other and a child that dies early cannot raise SIGPIPE here.
#define _GNU_SOURCE  // pipe2
#include "emit/emit_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

ckm_status ckm_i_figure_format_of(const char *path, ckm_i_figure_format *format, ckm_error *err)
{
    static const struct {
        const char *suffix;
        ckm_i_figure_format format;
    } known[] = {{".svg", CKM_I_FIGURE_SVG}, {".pdf", CKM_I_FIGURE_PDF}, {".png", CKM_I_FIGURE_PNG}};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (length > 4 && ckm_i_text_same(path + length - 4, known[i].suffix)) {
            *format = known[i].format;
            return CKM_OK;
        }
    }
    return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1, "a figure's file name must end in .svg, .pdf or .png");
}

// What the child does between fork and exec. It does not outlive this program, whatever ends that, and does not inherit that
// SIGPIPE is ignored. What went wrong goes to `report`, which exec closes.
static void become(const char *const *argv, const int *streams, int report, pid_t parent)
{
    // The interface takes pointers to non-const for historical reasons; the strings are not changed.
    union {
        const char *const *given;
        char *const *wanted;
    } arguments = {argv};
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    signal(SIGPIPE, SIG_DFL);
    bool ready = getppid() == parent;
    for (int fd = 0; fd < 3 && ready; fd++) {
        ready = dup2(streams[fd], fd) == fd;
    }
    if (ready) {
        execvp(argv[0], arguments.wanted);
    }
    int problem = errno;
    ssize_t written = write(report, &problem, sizeof problem);
    (void)written;
    _exit(127);
}

// Starts the child with the three files as its standard streams: 0, or what went wrong.
static int start(const char *const *argv, int input, int output, int complaints, pid_t *child)
{
    // Above the standard streams, where none of them overwrites another.
    const int streams[] = {input, output, complaints};
    int ends[2];
    int problem = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    pid_t parent = getpid();
    pid_t made = fork();
    if (made == 0) {
        become(argv, streams, ends[1], parent);
    }
    problem = made < 0 ? errno : 0;
    close(ends[1]);
    ssize_t n = 0;
    while (made > 0 && (n = read(ends[0], &problem, sizeof problem)) < 0 && errno == EINTR) {
    }
    close(ends[0]);
    if (made > 0 && n > 0) {
        while (waitpid(made, NULL, 0) < 0 && errno == EINTR) {
        }
        return problem;
    }
    *child = made;
    return problem;
}

// Waits for the child and turns a failure into an error.
static ckm_status finish(pid_t child, const char *program, FILE *complaints, ckm_error *err)
{
    int outcome = 0;
    while (waitpid(child, &outcome, 0) < 0) {
        if (errno != EINTR) {
            return ckm_i_error(err, CKM_ERR_IO, "cannot wait for '%s': %s", program, strerror(errno));
        }
    }
    if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0) {
        return CKM_OK;
    }
    char line[256] = "";
    rewind(complaints);
    while (fgets(line, sizeof line, complaints) != NULL && strspn(line, " \t\r\n^") == strlen(line)) {
        // Skip empty lines and gnuplot's pointer to the offending column.
    }
    line[strcspn(line, "\r\n")] = '\0';
    if (WIFSIGNALED(outcome)) {
        return ckm_i_error(err, CKM_ERR_IO, "'%s' was ended by signal %d", program, WTERMSIG(outcome));
    }
    return ckm_i_error(err, CKM_ERR_IO, "'%s' failed with exit status %d%s%s", program, WEXITSTATUS(outcome),
                       line[0] != '\0' ? ": " : "", line);
}

// Programs that draw do not notice a full disk: a figure that lacks its end was cut.
static ckm_status check_end(FILE *figure, ckm_i_figure_format format, const char *path, const char *program,
                            ckm_error *err)
{
    static const char *const ends[] = {"</svg>", "%%EOF", "IEND"};
    char tail[64];
    size_t length = strlen(ends[format]);
    size_t n = 0;
    if (fseek(figure, 0, SEEK_END) == 0) {
        long size = ftell(figure);
        long from = size < (long)sizeof tail ? 0 : size - (long)sizeof tail;
        n = size > 0 && fseek(figure, from, SEEK_SET) == 0 ? fread(tail, 1, sizeof tail, figure) : 0;
    }
    for (size_t i = 0; i + length <= n; i++) {
        if (memcmp(tail + i, ends[format], length) == 0) {
            return CKM_OK;
        }
    }
    return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1,
                          "'%s' wrote a figure without an end; is the disk of temporary files full?", program);
}

static ckm_status copy(FILE *from, FILE *to, const char *path, ckm_error *err)
{
    char block[1 << 14];
    size_t n;
    rewind(from);
    while ((n = fread(block, 1, sizeof block, from)) > 0) {
        if (fwrite(block, 1, n, to) != n) {
            return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot write: %s", strerror(errno));
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_emit_run(const char *const *argv, FILE *script, const char *path, const char *package, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_writer writer = {0};
    ckm_i_figure_format format;
    FILE *figure = NULL;
    CKM_I_CHECK(ckm_i_figure_format_of(path, &format, err));
    FILE *complaints = tmpfile();
    if (complaints == NULL || (figure = tmpfile()) == NULL) {
        status = ckm_i_error(err, CKM_ERR_IO, "cannot create a temporary file: %s", strerror(errno));
        goto cleanup;
    }
    if (ferror(script) != 0 || fflush(script) != 0 || fseek(script, 0, SEEK_SET) != 0) {
        status = ckm_i_error(err, CKM_ERR_IO, "cannot write a temporary file: %s", strerror(errno));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_writer_open(&writer, path, err));
    pid_t child = -1;
    int problem = start(argv, fileno(script), fileno(figure), fileno(complaints), &child);
    if (problem == ENOENT) {
        status = ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                             "drawing needs the program '%s', which is not installed (Debian package: %s)", argv[0],
                             package);
        goto cleanup;
    }
    if (problem != 0) {
        status = ckm_i_error(err, CKM_ERR_IO, "cannot run '%s': %s", argv[0], strerror(problem));
        goto cleanup;
    }
    CKM_I_TRY(finish(child, argv[0], complaints, err));
    CKM_I_TRY(check_end(figure, format, path, argv[0], err));
    CKM_I_TRY(copy(figure, writer.stream, path, err));
    status = ckm_i_writer_commit(&writer, err);
cleanup:
    ckm_i_writer_abort(&writer);
    if (figure != NULL) {
        fclose(figure);
    }
    if (complaints != NULL) {
        fclose(complaints);
    }
    return status;
}
