// SPDX-License-Identifier: Apache-2.0
// Whole-file reading, and writing that leaves either the old file or the complete new one.
#ifndef CKM_SRC_BASE_FILE_H
#define CKM_SRC_BASE_FILE_H

#include <checkmate/base.h>
#include <stdio.h>

// How a path is kept below the folder: by the kernel where it can (openat2), or always by our own walk.
typedef enum ckm_i_below { CKM_I_BELOW_KERNEL, CKM_I_BELOW_WALK } ckm_i_below;

// Opens a regular file for reading, positioned at its start. Anything else, such as a pipe without a writer,
// is CKM_ERR_IO at once: opening never waits. The caller closes *fd.
ckm_status ckm_i_file_open(const char *path, int *fd, int64_t *size_bytes, ckm_error *err) CKM_NODISCARD;
// The same below an open folder (AT_FDCWD: the current one): a relative path that does not leave it, not by "..", and
// not by a symbolic link on the way or at the end. Links within the folder are followed. `shown` is for errors. Returns
// CKM_ERR_ARGUMENT, with no error set, when the path leads out.
ckm_status ckm_i_file_open_below(int folder, const char *path, const char *shown, ckm_i_below how, int *fd,
                                 int64_t *size_bytes, ckm_error *err) CKM_NODISCARD;
// The same as ckm_i_file_open as a stream.
ckm_status ckm_i_file_open_stream(const char *path, FILE **out, ckm_error *err) CKM_NODISCARD;

// Reads a whole file ("-" and "/dev/stdin": standard input) into *data, with a zero byte after its end. A pipe is read
// when something is in it or writes to it. The caller frees *data with free(). Fails with CKM_ERR_IO, or
// CKM_ERR_UNSUPPORTED beyond max_bytes.
ckm_status ckm_i_file_read(const char *path, int64_t max_bytes, char **data, size_t *size_bytes,
                           ckm_error *err) CKM_NODISCARD;

// A file being written. It is made under another name in the same folder and takes the place of `path` on commit, after
// its bytes have reached the disk, so that there is the old file or the new one at any moment:
//  - the old file's permissions stay, and its owner where the system allows that; a file that the user may not write
//    is not replaced; a new one gets what the umask leaves;
//  - a symbolic link is written through: what it leads to is replaced, and the link stays;
//  - what a killed process left behind is removed by the next one that writes the same file. Processes that write it at
//    the same time do not disturb each other, and the last one to commit wins;
//  - what is no regular file (/dev/null, a pipe) is written directly, and so are "-", /dev/stdout, /dev/stderr and
//    /dev/fd/N, which name streams that are open. A pipe without a reader is an error at once.
typedef struct ckm_i_writer {
    FILE *stream;
    char *path;         // as given, for messages
    char *name;         // within `folder`; this and the next are NULL when writing directly
    char *temporary;    // within `folder`
    int folder;         // open
    bool folder_syncs;  // `folder` can be synced: the user may read it
    bool replaces;      // there is an old file
    bool is_stdout;
    unsigned mode, uid, gid;  // of the file once it is there; the latter two when it replaces one
} ckm_i_writer;

ckm_status ckm_i_writer_open(ckm_i_writer *w, const char *path, ckm_error *err) CKM_NODISCARD;
// Flushes, checks every earlier write, syncs, renames, syncs the folder. On failure the temporary file is removed.
ckm_status ckm_i_writer_commit(ckm_i_writer *w, ckm_error *err) CKM_NODISCARD;
// Drops what was written. Harmless after a commit or on a zeroed writer.
void ckm_i_writer_abort(ckm_i_writer *w);

#endif
