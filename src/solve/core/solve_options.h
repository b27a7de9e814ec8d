// SPDX-License-Identifier: Apache-2.0
// Options of a solve as the solver uses them: every default filled in. A time limit <= 0 is none, a gap is what it says, and a cost
// limit < 0 is none. They are not to be given to public functions again, which would take a gap of 0 for the default.
#ifndef CKM_SRC_SOLVE_CORE_SOLVE_OPTIONS_H
#define CKM_SRC_SOLVE_CORE_SOLVE_OPTIONS_H

#include <checkmate/solve.h>

// Those of a caller who sets nothing.
ckm_solve_options ckm_i_solve_options_usual(void);

// Reads `given`, which may be NULL, into `own`. `usual_seconds` is the time limit where none is given. Errors: CKM_ERR_ARGUMENT, also
// for a gap that is negative or no number.
ckm_status ckm_i_solve_options_read(const ckm_solve_options *given, double usual_seconds, ckm_solve_options *own,
                                    ckm_error *err) CKM_NODISCARD;

#endif
