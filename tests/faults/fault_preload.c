// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program under test by fault_sweep: counts its allocations, maps, forks and threads, makes the one
// that the driver names fail, and runs the program as often as the driver likes. See fault_state.h.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "fault_state.h"

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

// Whose call it is. A library that works for others (libc, libstdc++) does not say: its caller does.
typedef enum module_kind { MODULE_PROGRAM, MODULE_SERVANT, MODULE_SKIPPED } module_kind;

typedef struct module {
    uintptr_t begin, end, base;
    module_kind kind;
    char name[FAULT_MAX_NAME];
} module;

enum { MAX_MODULES = 96, MAX_DEPTH = 64 };
static const char *const servants[] = {"libc.so",    "libstdc++.so", "libgcc_s.so",   "libm.so",
                                       "libgomp.so", "ld-linux",     "fault_preload", "linux-vdso"};

// One process, one state: this object is the program's allocator.
static fault_state *state;
static _Atomic bool armed;
static bool in_child;
static _Atomic int64_t counts[FAULT_KINDS];
static module modules[MAX_MODULES];
static int n_modules;
static __thread bool busy;  // in the midst of this file's own work

static pid_t (*real_fork)(void);
static int (*real_thread)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                          char *const *, char *const *);
static void *(*real_map)(void *, size_t, int, int, int, off_t);

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static module_kind kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof servants / sizeof servants[0]; i++) {
        if (begins_with(name, servants[i])) {
            return MODULE_SERVANT;
        }
    }
    for (const char *skip = state->skip; *skip != '\0';) {
        size_t length = strcspn(skip, ",");
        if (length > 0 && strncmp(name, skip, length) == 0) {
            return MODULE_SKIPPED;
        }
        skip += length + (skip[length] == ',');
    }
    return MODULE_PROGRAM;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    (void)user;
    if (n_modules == MAX_MODULES) {
        return 1;
    }
    module *m = &modules[n_modules++];
    m->base = info->dlpi_addr;
    m->begin = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD) {
            uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
            m->begin = begin < m->begin ? begin : m->begin;
            m->end = begin + segment->p_memsz > m->end ? begin + segment->p_memsz : m->end;
        }
    }
    const char *slash = strrchr(info->dlpi_name, '/');
    strncpy(m->name, slash != NULL ? slash + 1 : info->dlpi_name, sizeof m->name - 1);
    m->kind = kind_of(m->name);
    return 0;
}

static const module *module_at(uintptr_t address)
{
    for (int i = 0; i < n_modules; i++) {
        if (address >= modules[i].begin && address < modules[i].end) {
            return &modules[i];
        }
    }
    return NULL;
}

typedef struct stack {
    uintptr_t frames[MAX_DEPTH];
    int n;
} stack;

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *user)
{
    stack *s = user;
    if (s->n == MAX_DEPTH) {
        return _URC_END_OF_STACK;
    }
    s->frames[s->n++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

// A call out of a skipped library does not count, through whatever other libraries it goes.
static bool is_skipped(uintptr_t caller)
{
    const module *direct = module_at(caller);
    if (direct != NULL && direct->kind != MODULE_SERVANT) {
        return direct->kind == MODULE_SKIPPED;
    }
    stack s = {.n = 0};
    _Unwind_Backtrace(note_frame, &s);
    for (int i = 0; i < s.n; i++) {
        const module *m = module_at(s.frames[i]);
        if (m != NULL && m->kind != MODULE_SERVANT) {
            return m->kind == MODULE_SKIPPED;
        }
    }
    return false;
}

static void note_failure(void)
{
    stack s = {.n = 0};
    if (atomic_exchange(&state->fired, true)) {
        return;
    }
    _Unwind_Backtrace(note_frame, &s);
    int n = 0;
    for (int i = 0; i < s.n && n < FAULT_MAX_FRAMES; i++) {
        const module *m = module_at(s.frames[i]);
        if (m == NULL || begins_with(m->name, "fault_preload")) {
            continue;
        }
        memcpy(state->frames[n].module, m->name, sizeof m->name);
        state->frames[n++].offset = s.frames[i] - m->base;
    }
    state->n_frames = n;
}

// Threads other than the first.
static int64_t threads_alive(void)
{
    struct stat facts;
    return stat("/proc/self/task", &facts) == 0 ? (int64_t)facts.st_nlink - 3 : 0;
}

static bool must_fail(int kind, const void *caller)
{
    if (!armed || busy) {
        return false;
    }
    busy = true;
    bool fails = false;
    if (!is_skipped((uintptr_t)caller)) {
        int scope = in_child ? FAULT_CHILD : FAULT_PARENT;
        int64_t n = counts[kind]++;
        int64_t most = state->counted[kind][scope];
        while (n + 1 > most && !atomic_compare_exchange_weak(&state->counted[kind][scope], &most, n + 1)) {
        }
        fails = kind == state->kind && scope == state->scope && state->at >= 0 &&
                (state->alive ? threads_alive() >= state->at : n == state->at || (state->from_then && n > state->at));
        if (fails) {
            note_failure();
        }
    }
    busy = false;
    return fails;
}

#define FAILS(kind) must_fail(kind, __builtin_return_address(0))

void *malloc(size_t size)
{
    if (FAILS(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    if (FAILS(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size)
{
    if (size > 0 && FAILS(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(pointer, size);
}

void *reallocarray(void *pointer, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || (bytes > 0 && FAILS(FAULT_ALLOC))) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(pointer, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *block = FAILS(FAULT_ALLOC) ? NULL : __libc_memalign(alignment, size);
    if (block == NULL) {
        return ENOMEM;
    }
    *out = block;
    return 0;
}

void *memalign(size_t alignment, size_t size)
{
    if (FAILS(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    if (FAILS(FAULT_ALLOC)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(alignment, size);
}

// Looks the next definition of a function up. dlsym gives a pointer to data, which C does not turn into one to code.
static void look_up(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (FAILS(FAULT_MAP)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (real_map == NULL) {
        look_up("mmap", &real_map);
    }
    return real_map(address, length, protection, flags, fd, offset);
}

pid_t fork(void)
{
    if (FAILS(FAULT_FORK)) {
        errno = EAGAIN;
        return -1;
    }
    if (real_fork == NULL) {
        look_up("fork", &real_fork);
    }
    return real_fork();
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    if (FAILS(FAULT_FORK)) {
        return EAGAIN;
    }
    if (real_spawnp == NULL) {
        look_up("posix_spawnp", &real_spawnp);
    }
    return real_spawnp(pid, file, actions, attributes, argv, envp);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (FAILS(FAULT_THREAD)) {
        return EAGAIN;
    }
    if (real_thread == NULL) {
        look_up("pthread_create", &real_thread);
    }
    return real_thread(thread, attributes, start, argument);
}

static void forked(void)
{
    in_child = true;
    for (int i = 0; i < FAULT_KINDS; i++) {
        counts[i] = 0;
    }
}

static void put_in_place(int fd, int wanted)
{
    if (dup2(fd, wanted) != wanted) {
        _exit(125);
    }
}

// Runs the program once for every byte that the driver sends. Returns in each copy of the process that is to run it.
static void serve(void)
{
    for (;;) {
        char order;
        if (read(state->control_fd, &order, 1) != 1) {
            _exit(0);
        }
        int32_t child = real_fork();
        if (child == 0) {
            in_child = false;
            put_in_place(state->out_fd, STDOUT_FILENO);
            put_in_place(state->err_fd, STDERR_FILENO);
            close(state->out_fd);
            close(state->err_fd);
            close(state->control_fd);
            close(state->reply_fd);
            armed = true;
            return;
        }
        int32_t outcome = 0;
        if (child < 0 || write(state->reply_fd, &child, sizeof child) != (ssize_t)sizeof child ||
            waitpid(child, &outcome, 0) != child ||
            write(state->reply_fd, &outcome, sizeof outcome) != (ssize_t)sizeof outcome) {
            _exit(125);
        }
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv(FAULT_STATE_VARIABLE);
    if (path == NULL) {
        return;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        _exit(125);
    }
    look_up("mmap", &real_map);
    look_up("fork", &real_fork);
    look_up("posix_spawnp", &real_spawnp);
    look_up("pthread_create", &real_thread);
    state = real_map(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (state == MAP_FAILED) {
        _exit(125);
    }
    unsetenv(FAULT_STATE_VARIABLE);
    unsetenv("LD_PRELOAD");
    dl_iterate_phdr(note_module, NULL);
    pthread_atfork(NULL, NULL, forked);
    serve();
}
