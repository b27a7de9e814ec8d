// SPDX-License-Identifier: Apache-2.0
// Preloaded into training: the disk under the second memory's file, as CKM_DISK says. 'full' has no room for it, 'write' and 'read'
// fail, 'end-write' and 'end-read' stop short, 'damage' gives back other bytes, 'pieces' takes and gives 4096 bytes at a time,
// 'cached' knows no O_DIRECT, 'slow' takes CKM_DISK_MICROSECONDS for each call. CKM_DISK_AFTER calls each way are let pass first.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_llong writes, reads;

// Is it the file of a second memory? It has no name any more, but the system still tells it.
static int is_moved(int fd)
{
    char link[64];
    char path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    return strstr(path, "/.checkmate-moved-") != NULL;
}

static int does(const char *what, long long call)
{
    const char *given = getenv("CKM_DISK");
    const char *after = getenv("CKM_DISK_AFTER");
    return given != NULL && strcmp(given, what) == 0 && call >= (after != NULL ? atoll(after) : 0);
}

static void delay(long long call)
{
    const char *time = getenv("CKM_DISK_MICROSECONDS");
    if (does("slow", call) && time != NULL) {
        usleep((useconds_t)atoi(time));
    }
}

static size_t at_once(size_t bytes, long long call)
{
    return does("pieces", call) && bytes > 4096 ? 4096 : bytes;
}

// O_DIRECT is refused where nothing else is asked for, too.
static int refuses(int fd)
{
    return does("cached", 0) && ((int)syscall(SYS_fcntl, fd, F_GETFL) & O_DIRECT) != 0;
}

static ssize_t fail(int reason)
{
    errno = reason;
    return -1;
}

int posix_fallocate(int fd, off_t at, off_t bytes)
{
    if (is_moved(fd) && does("full", 0)) {
        return ENOSPC;
    }
    return syscall(SYS_fallocate, fd, 0, at, bytes) == 0 ? 0 : errno;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    if (is_moved(fd)) {
        long long call = atomic_fetch_add(&writes, 1);
        delay(call);
        if (does("write", call) || refuses(fd)) {
            return fail(refuses(fd) ? EINVAL : EIO);
        }
        if (does("no-space", call)) {
            return fail(ENOSPC);
        }
        if (does("end-write", call)) {
            return 0;
        }
        bytes = at_once(bytes, call);
    }
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}

ssize_t pread(int fd, void *data, size_t bytes, off_t at)
{
    long long call = 0;
    if (is_moved(fd)) {
        call = atomic_fetch_add(&reads, 1);
        delay(call);
        if (does("read", call)) {
            return fail(EIO);
        }
        if (does("end-read", call)) {
            return 0;
        }
        bytes = at_once(bytes, call);
    }
    ssize_t n = syscall(SYS_pread64, fd, data, bytes, at);
    if (n > 0 && is_moved(fd) && does("damage", call)) {
        ((char *)data)[n / 2] ^= 4;
    }
    return n;
}

int posix_fallocate64(int fd, off64_t at, off64_t bytes)
{
    return posix_fallocate(fd, at, bytes);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at)
{
    return pwrite(fd, data, bytes, at);
}

ssize_t pread64(int fd, void *data, size_t bytes, off64_t at)
{
    return pread(fd, data, bytes, at);
}
