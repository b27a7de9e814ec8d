// SPDX-License-Identifier: Apache-2.0
// Names of parameters in other libraries: files of weights of the zoo's networks that torchvision or transformers also have are
// written and read with the names and shapes used there.
#ifndef CKM_SRC_GRAPH_KNOWN_AS_H
#define CKM_SRC_GRAPH_KNOWN_AS_H

#include "graph/graph.h"

enum { CKM_I_KNOWN_NAME = 112 };

struct ckm_i_known_as {
    char names[2][CKM_I_KNOWN_NAME];  // the second: of another tensor there that is the same one; "": none
    // The network's tensor, seen with the dimensions of `view`, is the other with its axes in another order: axis i of it is
    // axis perm[i] of `view`. Its dimensions are those of `shape`, which may join axes.
    ckm_shape view, shape;
    int64_t perm[CKM_MAX_RANK];
    // Of a table of relative positions: the other library also has an int64 list with the row of each pair of positions in this
    // window (ckm_i_known_row). 0: none.
    int64_t window[2];
    char index[CKM_I_KNOWN_NAME];
};

// Records (copies) how a tensor of the network is known.
ckm_status ckm_i_graph_know(ckm_graph *g, int32_t tensor, const ckm_i_known_as *as, ckm_error *err) CKM_NODISCARD;
// How the parameter or state of that name is known; NULL: it is not.
const ckm_i_known_as *ckm_i_graph_find_known(const ckm_graph *g, const char *name);
// Are all parameters and states known?
bool ckm_i_graph_is_known(const ckm_graph *g);

// Element i of that list.
int64_t ckm_i_known_row(const ckm_i_known_as *as, int64_t i);

// Where the elements of the other tensor are in the network's, one after the other.
typedef struct ckm_i_known_walk {
    int32_t rank;
    int64_t at[CKM_MAX_RANK], dims[CKM_MAX_RANK], steps[CKM_MAX_RANK];
    int64_t offset;  // of the element at hand
} ckm_i_known_walk;
ckm_i_known_walk ckm_i_known_begin(const ckm_i_known_as *as, int64_t element);
void ckm_i_known_next(ckm_i_known_walk *w);

#endif
