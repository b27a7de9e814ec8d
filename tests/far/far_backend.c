// SPDX-License-Identifier: Apache-2.0
// A back end that behaves like a device, around one that does not: its memory gives the host no access but inside of its
// own calls, and its work is done late, when it is waited for. Code that looks at a session's memory directly gets
// SIGSEGV, and code that reads results too early gets old ones. Linked into tests and a program of the tests' own in front of
// the library, whose back ends it wraps (CKM_BACKEND_WRAP of src/run/backend/backend.c).
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "run/backend/backend.h"

// Copies that wait are the host's memory, which tests look at: few of them at a time.
enum { MOST_REGIONS = 8, MOST_COPIED = 64 << 10 };

typedef enum work_kind { WORK_RUN, WORK_COPY_IN, WORK_CLEAR, WORK_MARK } work_kind;

typedef struct work {
    work_kind kind;
    ckm_i_kernel *kernel;
    ckm_i_kernel_call call;
    char *to;
    void *copy;
    int64_t bytes;
    int64_t *nanoseconds;
} work;

typedef struct region {
    char *address;
    size_t bytes;
} region;

typedef struct far {
    ckm_i_backend *inner;
    region regions[MOST_REGIONS];
    work *queue;
    int64_t n, cap;
    int64_t copied;  // bytes that wait in the queue
} far;

// Tests only: what cannot go on ends.
static void need(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "far back end: %s\n", what);
        abort();
    }
}

static void let_in(const far *f, bool open)
{
    for (int i = 0; i < MOST_REGIONS; i++) {
        if (f->regions[i].address != NULL) {
            int protection = open ? PROT_READ | PROT_WRITE : PROT_NONE;
            need(mprotect(f->regions[i].address, f->regions[i].bytes, protection) == 0, "mprotect failed");
        }
    }
}

static ckm_status out_of_memory(ckm_error *err)
{
    if (err != NULL) {
        *err = (ckm_error)CKM_ERROR_INIT;
        err->code = CKM_ERR_MEMORY;
        snprintf(err->message, sizeof err->message, "out of memory");
    }
    return CKM_ERR_MEMORY;
}

static ckm_status ask_for(far *f, const work *w, ckm_error *err)
{
    if (f->n == f->cap) {
        int64_t cap = f->cap > 0 ? 2 * f->cap : 64;
        work *queue = realloc(f->queue, (size_t)cap * sizeof *queue);
        if (queue == NULL) {
            return out_of_memory(err);
        }
        f->queue = queue;
        f->cap = cap;
    }
    f->queue[f->n++] = *w;
    return CKM_OK;
}

static ckm_status do_one(far *f, const work *w, ckm_error *err)
{
    ckm_i_backend *inner = f->inner;
    switch (w->kind) {
    case WORK_RUN:
        return inner->run(inner, w->kernel, &w->call, err);
    case WORK_COPY_IN:
        memcpy(w->to, w->copy, (size_t)w->bytes);
        return CKM_OK;
    case WORK_CLEAR:
        memset(w->to, 0, (size_t)w->bytes);
        return CKM_OK;
    case WORK_MARK:
        return inner->memory->mark(inner, w->nanoseconds, err);
    }
    return CKM_OK;
}

// With access to the memory.
static ckm_status do_all(far *f, ckm_error *err)
{
    ckm_status status = CKM_OK;
    for (int64_t i = 0; i < f->n; i++) {
        // What comes after a failure is not done.
        if (status == CKM_OK) {
            status = do_one(f, &f->queue[i], err);
        }
        free(f->queue[i].copy);
    }
    f->n = 0;
    f->copied = 0;
    return status;
}

static ckm_status synchronize(ckm_i_backend *backend, ckm_error *err)
{
    far *f = backend->state;
    if (f->n == 0) {
        return CKM_OK;
    }
    let_in(f, true);
    ckm_status status = do_all(f, err);
    let_in(f, false);
    return status;
}

static ckm_status allocate(ckm_i_backend *backend, int64_t bytes, bool touch, char **out, ckm_error *err)
{
    far *f = backend->state;
    char *address = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int i = 0;
    if (address == MAP_FAILED) {
        out_of_memory(err);
        if (err != NULL) {
            snprintf(err->message, sizeof err->message,
                     "%lld bytes for parameters, data and arena cannot be allocated: far memory", (long long)bytes);
        }
        return CKM_ERR_MEMORY;
    }
#ifdef MADV_HUGEPAGE
    (void)madvise(address, (size_t)bytes, MADV_HUGEPAGE);  // less to do for mprotect
#endif
    if (touch) {
        memset(address, 0, (size_t)bytes);
    }
    while (i < MOST_REGIONS && f->regions[i].address != NULL) {
        i++;
    }
    need(i < MOST_REGIONS, "too many regions");
    f->regions[i] = (region){address, (size_t)bytes};
    let_in(f, false);
    *out = address;
    return CKM_OK;
}

static void release(ckm_i_backend *backend, char *address, int64_t bytes)
{
    far *f = backend->state;
    ckm_status status = synchronize(backend, NULL);
    (void)status;
    for (int i = 0; i < MOST_REGIONS; i++) {
        if (f->regions[i].address == address) {
            need(f->regions[i].bytes == (size_t)bytes, "released with another size");
            need(munmap(address, (size_t)bytes) == 0, "munmap failed");
            f->regions[i].address = NULL;
            return;
        }
    }
    need(false, "released what was not allocated");
}

static ckm_status copy_in(ckm_i_backend *backend, char *to, const void *from, int64_t bytes, ckm_error *err)
{
    far *f = backend->state;
    if (f->copied + bytes > MOST_COPIED) {
        ckm_status status = synchronize(backend, err);
        if (status != CKM_OK) {
            return status;
        }
    }
    void *copy = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (copy == NULL) {
        return out_of_memory(err);
    }
    f->copied += bytes;
    memcpy(copy, from, (size_t)bytes);
    work w = {.kind = WORK_COPY_IN, .to = to, .copy = copy, .bytes = bytes};
    ckm_status status = ask_for(f, &w, err);
    if (status != CKM_OK) {
        free(copy);
    }
    return status;
}

static ckm_status copy_out(ckm_i_backend *backend, void *to, const char *from, int64_t bytes, ckm_error *err)
{
    far *f = backend->state;
    let_in(f, true);
    ckm_status status = do_all(f, err);
    if (status == CKM_OK) {
        memcpy(to, from, (size_t)bytes);
    }
    let_in(f, false);
    return status;
}

static ckm_status clear(ckm_i_backend *backend, char *to, int64_t bytes, ckm_error *err)
{
    work w = {.kind = WORK_CLEAR, .to = to, .bytes = bytes};
    return ask_for(backend->state, &w, err);
}

static ckm_status mark(ckm_i_backend *backend, int64_t *nanoseconds, ckm_error *err)
{
    work w = {.kind = WORK_MARK, .nanoseconds = nanoseconds};
    return ask_for(backend->state, &w, err);
}

static int64_t free_bytes(ckm_i_backend *backend)
{
    const far *f = backend->state;
    return f->inner->memory->free_bytes(f->inner);
}

static const ckm_i_memory far_memory = {
    .host = false,
    .alignment = 64,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .clear = clear,
    .synchronize = synchronize,
    .mark = mark,
    .free_bytes = free_bytes,
};

static ckm_status prepare(ckm_i_backend *backend, const ckm_graph *step, int32_t op, ckm_i_kernel **out,
                          int64_t *workspace_bytes, ckm_error *err)
{
    ckm_i_backend *inner = ((far *)backend->state)->inner;
    return inner->prepare(inner, step, op, out, workspace_bytes, err);
}

static ckm_status run(ckm_i_backend *backend, ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err)
{
    work w = {.kind = WORK_RUN, .kernel = kernel, .call = *call};
    return ask_for(backend->state, &w, err);
}

static void start(ckm_i_backend *backend)
{
    ckm_i_backend *inner = ((far *)backend->state)->inner;
    if (inner->start != NULL) {
        inner->start(inner);
    }
}

static void free_kernel(ckm_i_backend *backend, ckm_i_kernel *kernel)
{
    ckm_i_backend *inner = ((far *)backend->state)->inner;
    inner->free_kernel(inner, kernel);
}

static void destroy(ckm_i_backend *backend)
{
    far *f = backend->state;
    f->inner->destroy(f->inner);
    free(f->queue);
    free(f);
    free(backend);
}

ckm_status ckm_test_far_wrap(ckm_i_backend *inner, ckm_i_backend **out, ckm_error *err);

ckm_status ckm_test_far_wrap(ckm_i_backend *inner, ckm_i_backend **out, ckm_error *err)
{
    ckm_i_backend *backend = calloc(1, sizeof *backend);
    far *f = calloc(1, sizeof *f);
    if (backend == NULL || f == NULL) {
        free(backend);
        free(f);
        inner->destroy(inner);
        return out_of_memory(err);
    }
    f->inner = inner;
    *backend = (ckm_i_backend){.name = inner->name,
                               .threads = inner->threads,
                               .state = f,
                               .memory = &far_memory,
                               .prepare = prepare,
                               .run = run,
                               .start = start,
                               .free_kernel = free_kernel,
                               .destroy = destroy};
    *out = backend;
    return CKM_OK;
}
