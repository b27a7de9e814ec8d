// SPDX-License-Identifier: Apache-2.0
// Writing files. A temporary file is locked (flock) as long as its process is writing: one that is there without a lock
// was left behind by a process that was killed. Names of temporary files are numbered, so that what was left behind is
// found again without reading the folder.
#define _GNU_SOURCE  // O_PATH
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"

// How many processes may write one file at the same time; how many links may follow each other.
enum { MOST_WRITERS = 64, MOST_LINKS = 40 };

static ckm_status refuse(const ckm_i_writer *w, int reason, ckm_error *err)
{
    return ckm_i_error_at(err, CKM_ERR_IO, w->path, 0, -1, "cannot open for writing: %s", strerror(reason));
}

// ---- where the output goes

// The open stream that a name stands for, or -1.
static int stream_number(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0) {
        return STDOUT_FILENO;
    }
    if (strcmp(path, "/dev/stderr") == 0) {
        return STDERR_FILENO;
    }
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        size_t n = strlen(folders[i]);
        const char *digits = path + n;
        if (strncmp(path, folders[i], n) == 0 && digits[0] != '\0' && strlen(digits) < 9 &&
            strspn(digits, "0123456789") == strlen(digits)) {
            return (int)strtol(digits, NULL, 10);
        }
    }
    return -1;
}

// What went wrong is in errno; fd may be -1.
static ckm_status close_and_refuse(ckm_i_writer *w, int fd, ckm_error *err)
{
    int reason = errno;
    if (fd >= 0) {
        close(fd);
    }
    return refuse(w, reason, err);
}

// Takes fd over; -1: what went wrong is in errno.
static ckm_status open_descriptor(ckm_i_writer *w, int fd, ckm_error *err)
{
    w->stream = fd >= 0 ? fdopen(fd, "wb") : NULL;
    return w->stream != NULL ? CKM_OK : close_and_refuse(w, fd, err);
}

static ckm_status open_stream(ckm_i_writer *w, int number, ckm_error *err)
{
    if (number == STDOUT_FILENO) {
        w->stream = stdout;
        w->is_stdout = true;
        return CKM_OK;
    }
    return open_descriptor(w, fcntl(number, F_DUPFD_CLOEXEC, 3), err);
}

// The part of the path that names its folder: "", "/" or "a/b/".
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

// In a folder where everybody may put files, as in /tmp, only links of one's own and of the folder's owner are
// followed: the rule of Linux's protected_symlinks, which opening by hand would get around.
static bool may_follow(const char *path, const struct stat *link)
{
    char folder[PATH_MAX];
    struct stat facts;
    size_t n = folder_length(path);
    memcpy(folder, n > 0 ? path : ".", n > 0 ? n : 1);
    folder[n > 0 ? n : 1] = '\0';
    if (stat(folder, &facts) != 0) {
        return false;
    }
    bool shared = (facts.st_mode & S_ISVTX) != 0 && (facts.st_mode & S_IWOTH) != 0;
    return !shared || link->st_uid == geteuid() || link->st_uid == facts.st_uid;
}

// Follows links until `target` names something else; target holds PATH_MAX bytes. *number is the open stream that the
// links lead to, or -1; *mode is 0 when there is nothing yet.
static int follow(char *target, int *number, mode_t *mode)
{
    char next[PATH_MAX];
    struct stat facts;
    *mode = 0;
    for (int links = 0; links <= MOST_LINKS; links++) {
        *number = stream_number(target);
        if (*number >= 0) {
            return 0;
        }
        if (lstat(target, &facts) != 0) {
            return errno == ENOENT ? 0 : errno;
        }
        if (!S_ISLNK(facts.st_mode)) {
            *mode = facts.st_mode;
            return 0;
        }
        if (!may_follow(target, &facts)) {
            return EACCES;
        }
        size_t n = folder_length(target);
        ssize_t length = readlink(target, next, sizeof next - 1);
        if (length <= 0) {
            return length < 0 ? errno : ENOENT;
        }
        next[length] = '\0';
        n = next[0] == '/' ? 0 : n;
        if (n + (size_t)length >= PATH_MAX) {
            return ENAMETOOLONG;
        }
        memcpy(target + n, next, (size_t)length + 1);
    }
    return ELOOP;
}

// A device or a pipe: its file stays.
static ckm_status open_directly(ckm_i_writer *w, const char *target, ckm_error *err)
{
    struct stat facts;
    int fd = open(target, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENXIO && stat(target, &facts) == 0 && S_ISFIFO(facts.st_mode)) {
        return ckm_i_error_at(err, CKM_ERR_IO, w->path, 0, -1, "is a pipe, and nothing reads it");
    }
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        return close_and_refuse(w, fd, err);
    }
    return open_descriptor(w, fd, err);
}

// ---- the temporary file

// Is the name still that of the open file?
static bool still_there(int folder, const char *name, int fd)
{
    struct stat facts;
    struct stat named;
    return fstat(fd, &facts) == 0 && fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           facts.st_dev == named.st_dev && facts.st_ino == named.st_ino && facts.st_nlink == 1;
}

// Removes what a killed process left under this name. Only its writer, or the holder of its lock, moves or removes a
// temporary file: with the lock held the name stays that file's.
static void remove_leftover(int folder, const char *name)
{
    struct stat facts;
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0 && still_there(folder, name, fd)) {
        unlinkat(folder, name, 0);
    }
    close(fd);
}

// Makes and locks a file of that name. -1, with errno EEXIST when it is another's.
static int create(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) {
        return -1;
    }
    // A file system without locks has no leftovers removed either. Another process may have found the new file before it
    // was locked, and taken it for one.
    bool unlocked = flock(fd, LOCK_EX | LOCK_NB) != 0;
    if ((unlocked && errno == EWOULDBLOCK) || !still_there(folder, name, fd)) {
        close(fd);
        errno = EEXIST;
        return -1;
    }
    return fd;
}

// Hidden, and short enough after any name.
static void number_name(const char *name, int number, char *out, size_t room)
{
    snprintf(out, room, ".%.200s.ckm-tmp%d", name, number);
}

static int open_temporary(ckm_i_writer *w)
{
    char name[256];
    int fd = -1;
    int reason = 0;
    for (int number = 0; number < MOST_WRITERS; number++) {
        number_name(w->name, number, name, sizeof name);
        remove_leftover(w->folder, name);
        if (fd >= 0 || (reason != 0 && reason != EEXIST)) {
            continue;
        }
        fd = create(w->folder, name);
        reason = fd < 0 ? errno : 0;
        if (fd >= 0) {
            memcpy(w->temporary, name, sizeof name);
        }
    }
    errno = reason == EEXIST ? EBUSY : reason;
    return fd;
}

static ckm_status open_folder(ckm_i_writer *w, const char *target, ckm_error *err)
{
    char folder[PATH_MAX];
    size_t n = folder_length(target);
    memcpy(folder, n > 0 ? target : ".", n > 0 ? n : 1);
    folder[n > 0 ? n : 1] = '\0';
    w->folder_syncs = true;
    w->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (w->folder < 0 && errno == EACCES) {
        w->folder_syncs = false;
        w->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return w->folder >= 0 ? CKM_OK : refuse(w, errno, err);
}

// The old file's owner and permissions, if there is one and the user may write it.
static int look_at_old(ckm_i_writer *w)
{
    struct stat facts;
    if (fstatat(w->folder, w->name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (faccessat(w->folder, w->name, W_OK, AT_EACCESS) != 0) {
        return errno;
    }
    w->replaces = true;
    w->mode = (unsigned)facts.st_mode & 0777;
    w->uid = facts.st_uid;
    w->gid = facts.st_gid;
    return 0;
}

// No other user may read the file before it is complete. The permissions that the umask (or the folder) would give are kept.
static int make_private(ckm_i_writer *w, int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        return errno;
    }
    if (!w->replaces) {
        w->mode = (unsigned)facts.st_mode & 0777;
    }
    (void)!fchmod(fd, S_IRUSR | S_IWUSR);  // file systems without permissions may refuse
    return 0;
}

static ckm_status open_replacing(ckm_i_writer *w, const char *target, ckm_error *err)
{
    const char *name = target + folder_length(target);
    if (name[0] == '\0') {
        return refuse(w, EISDIR, err);
    }
    if (strlen(name) > NAME_MAX) {
        return refuse(w, ENAMETOOLONG, err);
    }
    CKM_I_CHECK(open_folder(w, target, err));
    w->name = ckm_i_strdup(name);
    w->temporary = ckm_i_calloc(256, 1);
    if (w->name == NULL || w->temporary == NULL) {
        close(w->folder);
        free(w->name);
        free(w->temporary);
        w->name = w->temporary = NULL;
        return ckm_i_error_memory(err);
    }
    int reason = look_at_old(w);
    int fd = reason == 0 ? open_temporary(w) : -1;
    reason = reason == 0 && fd < 0 ? errno : reason;
    reason = reason == 0 ? make_private(w, fd) : reason;
    if (reason == 0) {
        w->stream = fdopen(fd, "wb");
        reason = w->stream == NULL ? errno : 0;
    }
    if (reason != 0 && fd >= 0) {
        unlinkat(w->folder, w->temporary, 0);
        close(fd);
    }
    return reason == 0 ? CKM_OK : refuse(w, reason, err);
}

// With `try_only` what would be written directly is left closed: a pipe's reader would take that for the end.
static ckm_status open_target(ckm_i_writer *w, bool try_only, ckm_error *err)
{
    char target[PATH_MAX];
    int number = -1;
    mode_t mode = 0;
    int reason = strlen(w->path) < sizeof target ? 0 : ENAMETOOLONG;
    if (reason == 0) {
        memcpy(target, w->path, strlen(w->path) + 1);
        reason = target[0] != '\0' ? follow(target, &number, &mode) : ENOENT;
    }
    if (reason == 0 && S_ISDIR(mode)) {
        reason = EISDIR;
    }
    if (reason != 0) {
        return refuse(w, reason, err);
    }
    if (number >= 0) {
        return open_stream(w, number, err);
    }
    if (mode == 0 || S_ISREG(mode)) {
        return open_replacing(w, target, err);
    }
    if (try_only) {
        return faccessat(AT_FDCWD, target, W_OK, AT_EACCESS) == 0 ? CKM_OK : refuse(w, errno, err);
    }
    return open_directly(w, target, err);
}

ckm_status ckm_i_writer_open(ckm_i_writer *w, const char *path, ckm_error *err)
{
    *w = (ckm_i_writer){.path = ckm_i_strdup(path)};
    if (w->path == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = open_target(w, false, err);
    if (status != CKM_OK) {
        ckm_i_writer_abort(w);
    }
    return status;
}

// ---- the end

// Owner and permissions. The owner changes only for those who may give files away; who may not keeps the group at least.
static int settle_permissions(const ckm_i_writer *w, int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0) {
        return errno;
    }
    if (w->replaces && (facts.st_uid != w->uid || facts.st_gid != w->gid) && fchown(fd, w->uid, w->gid) != 0) {
        (void)!fchown(fd, (uid_t)-1, w->gid);
    }
    if (fchmod(fd, w->mode) == 0 || errno == EPERM || errno == EOPNOTSUPP) {
        return 0;
    }
    return errno;
}

// The renaming is safe only when the folder is on the disk, too. Not every file system knows how.
static int sync_folder(const ckm_i_writer *w)
{
    return !w->folder_syncs || fsync(w->folder) == 0 || errno == EINVAL || errno == EROFS || errno == EOPNOTSUPP
               ? 0
               : errno;
}

// Before the file is closed: closing gives up the lock, and the temporary file would look left behind.
static int replace(ckm_i_writer *w)
{
    int fd = fileno(w->stream);
    int reason = settle_permissions(w, fd);
    if (reason == 0 && fsync(fd) != 0) {
        reason = errno;
    }
    if (reason == 0 && renameat(w->folder, w->temporary, w->folder, w->name) != 0) {
        reason = errno;
    }
    if (reason == 0) {
        free(w->temporary);
        w->temporary = NULL;
        reason = sync_folder(w);
    }
    return reason;
}

ckm_status ckm_i_writer_commit(ckm_i_writer *w, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int reason = 0;
    int earlier = errno;  // of a write that failed before: the stream remembers only that one did
    errno = 0;
    if (fflush(w->stream) != 0 || ferror(w->stream) != 0) {
        reason = errno != 0 ? errno : earlier != 0 ? earlier : EIO;
    }
    if (reason == 0 && w->name != NULL) {
        reason = replace(w);
    }
    if (reason == 0 && !w->is_stdout) {
        reason = fclose(w->stream) != 0 ? errno : 0;
        w->stream = NULL;
    }
    if (reason != 0) {
        status = ckm_i_error_at(err, CKM_ERR_IO, w->path, 0, -1, "cannot write: %s", strerror(reason));
    }
    ckm_i_writer_abort(w);
    return status;
}

void ckm_i_writer_abort(ckm_i_writer *w)
{
    if (w->name != NULL) {
        if (w->temporary != NULL && w->stream != NULL) {
            unlinkat(w->folder, w->temporary, 0);
        }
        close(w->folder);
    }
    if (w->stream != NULL && !w->is_stdout) {
        fclose(w->stream);
    }
    free(w->temporary);
    free(w->name);
    free(w->path);
    *w = (ckm_i_writer){0};
}

ckm_status ckm_file_replace(const char *path, const void *data, size_t size_bytes, ckm_error *err)
{
    ckm_i_writer writer = {0};
    if (path == NULL || (data == NULL && size_bytes > 0)) {
        return ckm_i_error_null(err, "ckm_file_replace", path == NULL ? "path" : "data");
    }
    CKM_I_CHECK(ckm_i_writer_open(&writer, path, err));
    if (size_bytes > 0) {
        fwrite(data, 1, size_bytes, writer.stream);
    }
    return ckm_i_writer_commit(&writer, err);
}

ckm_status ckm_file_check_output(const char *path, ckm_error *err)
{
    if (path == NULL) {
        return ckm_i_error_null(err, "ckm_file_check_output", "path");
    }
    ckm_i_writer writer = {.path = ckm_i_strdup(path)};
    ckm_status status = writer.path != NULL ? open_target(&writer, true, err) : ckm_i_error_memory(err);
    ckm_i_writer_abort(&writer);
    return status;
}
