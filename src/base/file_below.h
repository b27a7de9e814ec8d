// SPDX-License-Identifier: Apache-2.0
// Opening files that must lie below a folder, also with symbolic links.
#ifndef CKM_SRC_BASE_FILE_BELOW_H
#define CKM_SRC_BASE_FILE_BELOW_H

#include "base/file.h"

// Opens what the relative path names, for reading and without waiting. -1 with errno, EXDEV when the path is absolute or
// leads out of the folder.
int ckm_i_below_open(int folder, const char *path, ckm_i_below how);

#endif
