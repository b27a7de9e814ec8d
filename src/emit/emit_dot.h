// SPDX-License-Identifier: Apache-2.0
// DOT text: what the drawings of graphs share.
#ifndef CKM_SRC_EMIT_EMIT_DOT_H
#define CKM_SRC_EMIT_EMIT_DOT_H

#include <checkmate/base.h>
#include <stdio.h>

// A string inside double quotes; names come from files and may hold anything.
void ckm_i_dot_quote(FILE *to, const char *text);
// Text inside an HTML-like label.
void ckm_i_dot_html(FILE *to, const char *text);
// "digraph "<name>" {" and how nodes and edges look.
void ckm_i_dot_begin(FILE *to, const char *name);
// A title and a legend over the graph: coloured squares with texts, n of them, which must hold nothing that HTML would read.
typedef struct ckm_i_dot_legend {
    const char *color, *text;
} ckm_i_dot_legend;
void ckm_i_dot_put_legend(FILE *to, const char *title, const ckm_i_dot_legend *rows, int n);

// Runs graphviz over what `put` writes: a script in which every node and edge has a place, "pos".
typedef void (*ckm_i_dot_put_fn)(FILE *to, const void *what);
ckm_status ckm_i_dot_draw(ckm_i_dot_put_fn put, const void *what, const char *path, ckm_error *err) CKM_NODISCARD;

#endif
