// SPDX-License-Identifier: Apache-2.0
// Window models solved to their end, with all cutting planes.
#ifndef CKM_TESTS_ORACLE_WINDOW_H
#define CKM_TESTS_ORACLE_WINDOW_H

#include "solve/bounds/window_model.h"

// What the relaxation, or the integer program, proves of the cost; the test fails if the engine does. The caller disposes of *result.
double oracle_solve_window(ckm_i_window_model *model, bool integer, ckm_i_milp_result *result);

#endif
