// SPDX-License-Identifier: Apache-2.0
// A process forked early that forks a child for every program it is sent. Forking is safe only without threads, and
// searches have threads: concurrent proofs run in children of this process. It has no threads, does
// nothing but wait, and ends with the process that started it.
#define _GNU_SOURCE  // memfd_create
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifndef __linux__
#include <fcntl.h>
#include <stdio.h>
#endif

#include "base/alloc.h"
#include "base/error.h"
#include "milp/milp_shared.h"

// Polling interval: of the helper for its child, and of the caller for the helper.
enum { LOOK_MILLISECONDS = 1 };
static const long nap_nanoseconds = 200000L;

typedef enum word { RUN, SIGNAL, END } word;

// Messages of the socket: a program to run is in the shared file.
typedef struct message {
    word what;
    int number;    // SIGNAL
    size_t bytes;  // RUN: of the file
} message;

// The file: the answer and room for values, then this and what belongs to it.
typedef struct order {
    ckm_i_milp_options options;  // with pointers that the child replaces by its own
    size_t n_values, n_start, request_bytes;
    // n_start doubles, then the request
} order;

struct ckm_i_milp_helper {
    pid_t process;  // 0: has ended
    int socket, file;
    ckm_i_milp_shared *shared;  // of the program under way, NULL
    size_t bytes;
};

static size_t order_at(size_t n_values)
{
    return sizeof(ckm_i_milp_shared) + n_values * sizeof(double);
}

static order *order_of(ckm_i_milp_shared *shared, size_t n_values)
{
    return (order *)(void *)((char *)shared + order_at(n_values));
}

// ---- In the helper

typedef struct server {
    int socket, file;
    ckm_i_milp_build_fn *build;
    const void *context;
    pid_t child;  // 0: none
    ckm_i_milp_shared *shared;
    size_t bytes;
} server;

static _Noreturn void run(const server *s)
{
    // The place of the order follows from the number of values, which is stored first.
    size_t n_values = (size_t)s->shared->values[0];
    const order *o = order_of(s->shared, n_values);
    const double *start = (const double *)(const void *)(o + 1);
    ckm_i_milp_options options = o->options;
    options.start = o->n_start > 0 ? start : NULL;
    options.stop = NULL;  // the other side asks
    options.helper = NULL;
    ckm_i_milp *m = s->build(s->context, start + o->n_start, o->request_bytes, &options.context);
    if (m == NULL || (size_t)m->n_cols + (size_t)m->n_rows != n_values) {
        _exit(1);
    }
    ckm_i_milp_run_child(m, &options, s->shared);
}

static void forget_child(server *s)
{
    if (s->shared != NULL) {
        atomic_store(&s->shared->ended, true);
        munmap(s->shared, s->bytes);
    }
    s->shared = NULL;
    s->child = 0;
}

static void wait_for_child(server *s, int how)
{
    if (s->child != 0 && waitpid(s->child, NULL, how) != 0) {
        forget_child(s);
    }
}

static void take_order(server *s, size_t bytes)
{
    wait_for_child(s, 0);  // the last one has answered, and is exiting
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
    if (shared == MAP_FAILED) {
        _exit(1);  // which the other side sees
    }
    s->shared = shared;
    s->bytes = bytes;
    pid_t parent = getpid();
    s->child = fork();
    if (s->child == 0) {
        ckm_i_milp_settle_child(parent);
        run(s);
    }
    if (s->child < 0) {
        forget_child(s);
    }
}

static _Noreturn void serve(server *s)
{
    for (;;) {
        struct pollfd ready = {.fd = s->socket, .events = POLLIN};
        message m = {.what = END};
        int n = poll(&ready, 1, s->child != 0 ? LOOK_MILLISECONDS : -1);
        wait_for_child(s, WNOHANG);
        if (n <= 0) {
            continue;
        }
        if (recv(s->socket, &m, sizeof m, MSG_WAITALL) != (ssize_t)sizeof m || m.what == END) {
            if (s->child != 0) {
                kill(s->child, SIGKILL);
                wait_for_child(s, 0);
            }
            _exit(0);
        }
        if (m.what == RUN) {
            take_order(s, m.bytes);
        } else if (s->child != 0) {
            kill(s->child, m.number);
        }
    }
}

// ---- The caller's side

static int shared_file(void)
{
#ifdef __linux__
    return memfd_create("checkmate", MFD_CLOEXEC);
#else
    char name[64];
    snprintf(name, sizeof name, "/checkmate-%ld", (long)getpid());
    int file = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    shm_unlink(name);
    return file;
#endif
}

ckm_status ckm_i_milp_helper_start(ckm_i_milp_build_fn *build, const void *context, ckm_i_milp_helper **out,
                                   ckm_error *err)
{
    int sockets[2];
    ckm_i_milp_helper *helper = ckm_i_calloc(1, sizeof *helper);
    if (helper == NULL) {
        return ckm_i_error_memory(err);
    }
    helper->file = shared_file();
    if (helper->file < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        ckm_status status = ckm_i_error(err, CKM_ERR_IO, "cannot start a process for the engine: %s", strerror(errno));
        if (helper->file >= 0) {
            close(helper->file);
        }
        free(helper);
        return status;
    }
    helper->socket = sockets[0];
    pid_t parent = getpid();
    helper->process = fork();
    if (helper->process == 0) {
        close(sockets[0]);
        ckm_i_milp_settle_child(parent);
        server s = {.socket = sockets[1], .file = helper->file, .build = build, .context = context};
        serve(&s);
    }
    int problem = errno;
    close(sockets[1]);
    if (helper->process < 0) {
        helper->process = 0;
        ckm_i_milp_helper_end(helper);
        return ckm_i_error(err, CKM_ERR_IO, "cannot start a process for the engine: %s", strerror(problem));
    }
    *out = helper;
    return CKM_OK;
}

// Whether the child has ended, or the helper has and with it the child.
static bool is_gone(ckm_i_milp_helper *helper)
{
    if (helper->process != 0 && waitpid(helper->process, NULL, WNOHANG) == helper->process) {
        helper->process = 0;
    }
    return helper->process == 0 || atomic_load(&helper->shared->ended);
}

static void tell(ckm_i_milp_helper *helper, message m)
{
    if (helper->process != 0 && send(helper->socket, &m, sizeof m, MSG_NOSIGNAL) != (ssize_t)sizeof m) {
        kill(helper->process, SIGKILL);  // it cannot be spoken to any more
    }
}

void ckm_i_milp_helper_end(ckm_i_milp_helper *helper)
{
    if (helper == NULL) {
        return;
    }
    tell(helper, (message){.what = END});
    while (helper->process != 0 && waitpid(helper->process, NULL, 0) < 0 && errno == EINTR) {
    }
    helper->process = 0;
    ckm_i_milp_helper_release(helper);
    close(helper->socket);
    close(helper->file);
    free(helper);
}

int ckm_i_milp_helper_begin(ckm_i_milp_helper *helper, const ckm_i_milp *m, const ckm_i_milp_options *options,
                            ckm_i_milp_shared **shared)
{
    size_t n_values = (size_t)m->n_cols + (size_t)m->n_rows;
    size_t n_start = options->start != NULL ? (size_t)m->n_cols : 0;
    size_t bytes = order_at(n_values) + sizeof(order) + n_start * sizeof(double) + options->request_bytes;
    if (helper->process == 0 || helper->shared != NULL) {
        return helper->process == 0 ? ECHILD : EBUSY;
    }
    // Truncate first, so that new bytes are zero. No other process has the file mapped any more.
    if (ftruncate(helper->file, 0) != 0 || ftruncate(helper->file, (off_t)bytes) != 0) {
        return errno;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, helper->file, 0);
    if (memory == MAP_FAILED) {
        return errno;
    }
    helper->shared = memory;
    helper->bytes = bytes;
    helper->shared->answer.proven = -INFINITY;
    helper->shared->answer.has_line = 0;
    helper->shared->values[0] = (double)n_values;
    order *o = order_of(helper->shared, n_values);
    *o = (order){*options, n_values, n_start, options->request_bytes};
    double *start = (double *)(void *)(o + 1);
    if (n_start > 0) {
        memcpy(start, options->start, n_start * sizeof *start);
    }
    if (options->request_bytes > 0) {
        memcpy(start + n_start, options->request, options->request_bytes);
    }
    tell(helper, (message){.what = RUN, .bytes = bytes});
    *shared = helper->shared;
    return 0;
}

bool ckm_i_milp_helper_is_done(ckm_i_milp_helper *helper)
{
    return atomic_load(&helper->shared->complete) || is_gone(helper);
}

void ckm_i_milp_helper_signal(ckm_i_milp_helper *helper, int number)
{
    tell(helper, (message){.what = SIGNAL, .number = number});
}

void ckm_i_milp_helper_release(ckm_i_milp_helper *helper)
{
    if (helper->shared == NULL) {
        return;
    }
    // Until the child is gone, which is when it has answered or was killed, the file is its own.
    while (!is_gone(helper)) {
        struct timespec nap = {.tv_nsec = nap_nanoseconds};
        nanosleep(&nap, NULL);
    }
    munmap(helper->shared, helper->bytes);
    helper->shared = NULL;
}
