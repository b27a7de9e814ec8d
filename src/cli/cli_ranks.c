// SPDX-License-Identifier: Apache-2.0
// checkmate train in several processes: which rank prints, and how all end with the same status.
#define _GNU_SOURCE  // memfd_create
#include "cli/cli_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAST_WORDS = 2048 };  // bytes

static int kept_back = -1;       // holds what this rank has printed
static int standard_error = -1;  // where it would have gone

// Whole numbers in the environment, from 0; -1: there is none.
static int read_variable(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    long value = text != NULL && text[0] >= '0' && text[0] <= '9' ? strtol(text, &end, 10) : -1;
    return end != NULL && *end == '\0' && value <= INT32_MAX ? (int)value : -1;
}

int cli_ranks_launched(void)
{
    // Open MPI's mpirun; MPICH's and Intel's; Slurm's srun with PMIx, whose SLURM_ variables alone say nothing: a batch
    // script has them too.
    int n = read_variable("OMPI_COMM_WORLD_SIZE");
    n = n >= 0 ? n : read_variable("PMI_SIZE");
    n = n >= 0 || getenv("PMIX_RANK") == NULL ? n : read_variable("SLURM_STEP_NUM_TASKS");
    return n > 1 ? n : 1;
}

int cli_ranks_launched_as(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    for (int i = 0; i < CLI_COUNT(names); i++) {
        int rank = read_variable(names[i]);
        if (rank >= 0) {
            return rank;
        }
    }
    return 0;
}

void cli_ranks_hush(void)
{
    if (cli_ranks_launched() == 1 || cli_ranks_launched_as() == 0) {
        return;
    }
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    standard_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    kept_back = memfd_create("standard error", MFD_CLOEXEC);
    if (nowhere >= 0) {
        (void)dup2(nowhere, STDOUT_FILENO);
        (void)dup2(kept_back >= 0 ? kept_back : nowhere, STDERR_FILENO);
        close(nowhere);
    }
}

void cli_ranks_cry(const ckm_error *err)
{
    if (standard_error >= 0) {
        (void)dup2(standard_error, STDERR_FILENO);
        cli_failf("rank %d: %s%s%s", cli_ranks_launched_as(), err->file, err->file[0] != '\0' ? ": " : "",
                  err->message);
    } else {
        (void)cli_fail(err);
    }
}

// The last line that was kept back, without the program's name.
static void last_words(char text[LAST_WORDS])
{
    static const char name[] = "checkmate";
    off_t end = kept_back >= 0 ? lseek(kept_back, 0, SEEK_END) : 0;
    off_t from = end > LAST_WORDS - 1 ? end - (LAST_WORDS - 1) : 0;
    ssize_t n = end > 0 ? pread(kept_back, text, LAST_WORDS - 1, from) : 0;
    while (n > 0 && text[n - 1] == '\n') {
        n--;
    }
    text[n > 0 ? n : 0] = '\0';
    const char *line = strrchr(text, '\n');
    line = line != NULL ? line + 1 : text;
    const char *colon = strncmp(line, name, sizeof name - 1) == 0 ? strstr(line, ": ") : NULL;
    const char *words = colon != NULL ? colon + 2 : line;
    memmove(text, words, strlen(words) + 1);
}

int cli_ranks_open(const ckm_ranks **out)
{
    ckm_error err = CKM_ERROR_INIT;
    *out = NULL;
    if (cli_ranks_launched() == 1) {
        return -1;
    }
    return cli_transport_open(out, &err) == CKM_OK ? -1 : cli_fail(&err);
}

int cli_ranks_settle(const ckm_ranks *ranks, int outcome)
{
    ckm_error err = CKM_ERROR_INIT;
    bool good = outcome < 0 || outcome == CLI_DONE;
    if (ranks == NULL) {
        return outcome;
    }
    ckm_status status = CKM_OK;
    if (!good) {
        char line[LAST_WORDS];
        last_words(line);
        status = cli_error(&err, CKM_ERR_ARGUMENT, NULL, "%s", line);
        err.line = outcome;  // travels with the error
    }
    status = ckm_ranks_agree(ranks, status, &err);
    if (status == CKM_OK) {
        return outcome;
    }
    if (good) {
        (void)cli_failf("%s", err.message);
    }
    return err.line > 0 ? (int)err.line : CLI_FAILED;
}

static bool await(const ckm_ranks *ranks, ckm_status begun)
{
    bool done = false;
    while (begun == CKM_OK && !done) {
        begun = ranks->test(ranks->user, 0, &done, NULL);
        (void)sched_yield();
    }
    return begun == CKM_OK;
}

int64_t cli_ranks_most(const ckm_ranks *ranks, int64_t value)
{
    int64_t most = value;
    if (ranks == NULL) {
        return value;
    }
    if (ranks->rank != 0) {
        return await(ranks, ranks->send(ranks->user, 0, 0, 0, &value, sizeof value, NULL)) ? value : -1;
    }
    for (int32_t r = 1; r < ranks->count; r++) {
        int64_t other = -1;
        if (!await(ranks, ranks->receive(ranks->user, 0, r, 0, &other, sizeof other, NULL))) {
            return -1;
        }
        most = other > most ? other : most;
    }
    return most;
}

int cli_ranks_close(const ckm_ranks *ranks, int outcome)
{
    if (ranks != NULL) {
        fflush(stderr);
        cli_transport_close();
    }
    return outcome;
}
