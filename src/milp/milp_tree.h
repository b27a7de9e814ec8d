// SPDX-License-Identifier: Apache-2.0
// Branch and bound: the interface between milp_clp.c, which solves the relaxation, and milp_tree.c. Inside the child.
#ifndef CKM_SRC_MILP_MILP_TREE_H
#define CKM_SRC_MILP_MILP_TREE_H

#include <coin/Clp_C_Interface.h>

#include "milp/milp.h"

// Raises answer->proven as far as time goes, until it is options->enough; in a relaxation, also until branching gains little.
// When this returns, Clp has the solution of a node with the least bound, where the bound is loose. Returns how many
// nodes were solved.
int32_t ckm_i_milp_branch(Clp_Simplex *clp, ckm_i_milp *m, const ckm_i_milp_options *options, double deadline_seconds,
                          ckm_i_milp_answer *answer);

// Appends the rows of m from `first` on to Clp's model, which has those before. False without memory.
bool ckm_i_milp_append_rows(Clp_Simplex *clp, const ckm_i_milp *m, int32_t first);

#endif
