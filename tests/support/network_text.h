// SPDX-License-Identifier: Apache-2.0
// Small networks as text: operators separated by '|', each a kind, its operands and its attributes.
//   x            what the operator before gave; at the start data plus a parameter of the same shape
//   y            data plus parameter, again
//   p3x4 f3x4 i3x4 s3x4   a parameter; data of reals; data of integers; state, all of that shape
//   key=same     a word; key=1,2 integers; key=0.5 a real number; key=+0.5 too
// An operator is named after its kind. Of a split, x is the middle part.
#ifndef CKM_TESTS_NETWORK_TEXT_H
#define CKM_TESTS_NETWORK_TEXT_H

#include "graph/graph.h"

typedef struct network_text {
    ckm_graph *g;    // the caller frees it
    char text[512];  // keys of attributes point into it
    int n_leaves;
} network_text;

// `shape_text` is the data's, such as "2x3x4". Fails the test when the library refuses the network.
void network_text_read(network_text *out, ckm_layout layout, const char *shape_text, const char *text);

#endif
