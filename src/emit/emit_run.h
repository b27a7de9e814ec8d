// SPDX-License-Identifier: Apache-2.0
// Running the programs that draw: a script in, a figure file out. No shell is involved.
#ifndef CKM_SRC_EMIT_EMIT_RUN_H
#define CKM_SRC_EMIT_EMIT_RUN_H

#include <checkmate/base.h>
#include <stdio.h>

typedef enum ckm_i_figure_format { CKM_I_FIGURE_SVG, CKM_I_FIGURE_PDF, CKM_I_FIGURE_PNG } ckm_i_figure_format;

// The format that a figure's file name asks for. CKM_ERR_ARGUMENT when it is none of the three.
ckm_status ckm_i_figure_format_of(const char *path, ckm_i_figure_format *format, ckm_error *err) CKM_NODISCARD;

// Runs argv[0], found on PATH, with `script` (read from its beginning) as standard input and the new
// contents of `path` as standard output; `path` is replaced only when the program succeeds and the figure
// has its end. `package` is
// what to install when the program is missing (CKM_ERR_UNSUPPORTED). When the program fails, the error
// (CKM_ERR_IO) carries its first line of complaint.
ckm_status ckm_i_emit_run(const char *const *argv, FILE *script, const char *path, const char *package,
                          ckm_error *err) CKM_NODISCARD;

#endif
