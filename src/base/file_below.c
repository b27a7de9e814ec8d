// SPDX-License-Identifier: Apache-2.0
// The kernel keeps a path below a folder itself since Linux 5.6. Older ones do not know the call, and sandboxes that do
// not either answer EPERM; then the path is walked here, one component at a time, each opened from the one before, so that
// nothing that changes meanwhile can lead out.
#define _GNU_SOURCE  // O_PATH
#include "base/file_below.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef SYS_openat2
#include <linux/openat2.h>
#endif

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, MOST_LINKS = 40, MOST_FOLDERS = 64 };

// -1 with errno ENOSYS where there is no such call.
static int open_by_kernel(int folder, const char *path)
{
#ifdef SYS_openat2
    struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    for (int attempt = 0;; attempt++) {
        int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
        // EAGAIN: something was renamed during the walk, so that the kernel could not be sure.
        if (fd >= 0 || attempt == 100 || (errno != EAGAIN && errno != EINTR)) {
            return fd;
        }
    }
#else
    (void)folder;
    (void)path;
    errno = ENOSYS;
    return -1;
#endif
}

typedef struct walk {
    int folders[MOST_FOLDERS];  // open; the first is the caller's
    int depth;                  // of the current one
    int links;                  // followed so far
    char rest[PATH_MAX];        // what is still to be walked
} walk;

// Takes the first component off the rest. False at the end.
static bool next_component(walk *w, char *component)
{
    size_t skip = strspn(w->rest, "/");
    size_t n = strcspn(w->rest + skip, "/");
    if (n == 0) {
        return false;
    }
    memcpy(component, w->rest + skip, n);
    component[n] = '\0';
    memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
    return true;
}

// Puts what a link says before the rest. 0, or errno.
static int follow_link(walk *w, int link)
{
    char text[PATH_MAX];
    ssize_t n = readlinkat(link, "", text, sizeof text - 1);
    if (n <= 0 || ++w->links > MOST_LINKS) {
        return n < 0 ? errno : n == 0 ? ENOENT : ELOOP;
    }
    text[n] = '\0';
    size_t rest = strlen(w->rest);
    if (text[0] == '/') {
        return EXDEV;
    }
    if ((size_t)n + 1 + rest + 1 > sizeof w->rest) {
        return ENAMETOOLONG;
    }
    memmove(w->rest + n + 1, w->rest, rest + 1);
    memcpy(w->rest, text, (size_t)n);
    w->rest[n] = '/';
    return 0;
}

// Goes one component on. *found is the file once it is reached. 0, or errno.
static int step(walk *w, const char *component, int *found)
{
    struct stat facts;
    bool last = strspn(w->rest, "/") == strlen(w->rest);
    if (strcmp(component, ".") == 0) {
        return 0;
    }
    if (strcmp(component, "..") == 0) {
        if (w->depth == 0) {
            return EXDEV;
        }
        close(w->folders[w->depth--]);
        return 0;
    }
    int fd = openat(w->folders[w->depth], component, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int reason = fstat(fd, &facts) == 0 ? 0 : errno;
    if (reason == 0 && S_ISLNK(facts.st_mode)) {
        reason = follow_link(w, fd);
    } else if (reason == 0 && S_ISDIR(facts.st_mode) && !last) {
        if (w->depth + 1 < MOST_FOLDERS) {
            w->folders[++w->depth] = fd;
            return 0;
        }
        reason = ENAMETOOLONG;
    } else if (reason == 0 && !last) {
        reason = ENOTDIR;
    } else if (reason == 0) {
        // A link put in its place since is not followed: ELOOP.
        *found = openat(w->folders[w->depth], component, OPEN_FLAGS | O_NOFOLLOW);
        reason = *found >= 0 ? 0 : errno;
    }
    close(fd);
    return reason;
}

static int open_by_walk(int folder, const char *path)
{
    char component[PATH_MAX];
    int found = -1;
    int reason = 0;
    walk w = {.folders = {folder}};
    if (path[0] == '/' || strlen(path) >= sizeof w.rest) {
        errno = path[0] == '/' ? EXDEV : ENAMETOOLONG;
        return -1;
    }
    memcpy(w.rest, path, strlen(path) + 1);
    while (reason == 0 && found < 0 && next_component(&w, component)) {
        reason = step(&w, component, &found);
    }
    while (w.depth > 0) {
        close(w.folders[w.depth--]);
    }
    if (found < 0) {
        errno = reason != 0 ? reason : EISDIR;  // the path ended in a folder
    }
    return found;
}

int ckm_i_below_open(int folder, const char *path, ckm_i_below how)
{
    if (how == CKM_I_BELOW_KERNEL) {
        int fd = open_by_kernel(folder, path);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) {
            return fd;
        }
    }
    return open_by_walk(folder, path);
}
