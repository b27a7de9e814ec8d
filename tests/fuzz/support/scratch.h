// SPDX-License-Identifier: Apache-2.0
// Files for readers that want a path: one folder of this process, made at the first call and removed at the end.
#ifndef CKM_TESTS_FUZZ_SCRATCH_H
#define CKM_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

// The folder's path, without a slash behind it.
const char *scratch_folder(void);
// Writes (or replaces) a file, whose name may hold one folder: "a/0.png". Returns its path, good until the next call.
const char *scratch_put(const char *name, const uint8_t *data, size_t size);
const char *scratch_path(const char *name);
// Removes a file, and its folder when that is empty then.
void scratch_drop(const char *name);

#endif
