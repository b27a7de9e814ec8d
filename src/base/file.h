// SPDX-License-Identifier: Apache-2.0
// Whole-file reading, and writing that leaves either the old file or the complete new one.
#ifndef CKM_SRC_BASE_FILE_H
#define CKM_SRC_BASE_FILE_H

#include <checkmate/base.h>
#include <stdio.h>

// Reads a whole file ("-": standard input) into *data, with a zero byte after its end. The caller frees
// it with free(). Fails with CKM_ERR_IO, or CKM_ERR_UNSUPPORTED beyond max_bytes.
ckm_status ckm_i_file_read(const char *path, int64_t max_bytes, char **data, size_t *size_bytes,
                           ckm_error *err) CKM_NODISCARD;

// A file being written: to "<path>.tmp.<pid>" in the same folder, renamed over `path` on commit after
// its bytes have reached the disk. "-" and files that are not regular (/dev/full) are written directly.
typedef struct ckm_i_writer {
    FILE *stream;
    char *path, *temporary;  // temporary is NULL when writing directly
} ckm_i_writer;

ckm_status ckm_i_writer_open(ckm_i_writer *w, const char *path, ckm_error *err) CKM_NODISCARD;
// Flushes, checks every earlier write, syncs, renames. On failure the temporary file is removed.
ckm_status ckm_i_writer_commit(ckm_i_writer *w, ckm_error *err) CKM_NODISCARD;
// Drops what was written. Harmless after a commit or on a zeroed writer.
void ckm_i_writer_abort(ckm_i_writer *w);

#endif
