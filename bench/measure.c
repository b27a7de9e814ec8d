// SPDX-License-Identifier: Apache-2.0
// Runs a command and says what it took. Standard output goes to one file; standard error, line by line and
// with the seconds since the start before each, to another. On its own standard output one line:
//     seconds exit-status peak-kilobytes processor-seconds
// The peak is that of the largest process of the command, its children included (getrusage).
//
//     measure OUT ERR COMMAND [ARGUMENT...]
#define _DEFAULT_SOURCE  // ru_maxrss
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    perror(what);
    exit(125);
}

static void run_child(char **command, const char *out, int err)
{
    int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) {
        perror(out);
        _exit(125);
    }
    close(fd);
    close(err);
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

// Copies lines until the command and everything it started have closed the pipe.
static void stamp_lines(int fd, FILE *to, double start)
{
    FILE *from = fdopen(fd, "r");
    if (from == NULL) {
        fail("fdopen");
    }
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, from) > 0) {
        fprintf(to, "%.3f %s", now() - start, line);
    }
    free(line);
    fclose(from);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: measure OUT ERR COMMAND [ARGUMENT...]\n");
        return 125;
    }
    int pipe_fd[2];
    FILE *err = fopen(argv[2], "w");
    if (err == NULL) {
        fail(argv[2]);
    }
    if (pipe(pipe_fd) != 0) {
        fail("pipe");
    }
    double start = now();
    pid_t child = fork();
    if (child < 0) {
        fail("fork");
    }
    if (child == 0) {
        close(pipe_fd[0]);
        run_child(argv + 3, argv[1], pipe_fd[1]);
    }
    close(pipe_fd[1]);
    stamp_lines(pipe_fd[0], err, start);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            fail("waitpid");
        }
    }
    double seconds = now() - start;
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    fclose(err);
    double worked = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    printf("%.3f %d %ld %.3f\n", seconds, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
           usage.ru_maxrss, worked);
    return 0;
}
