// SPDX-License-Identifier: Apache-2.0
// The figures of a schedule: one file each, one row each in the table of emit_figures.c.
#ifndef CKM_SRC_EMIT_EMIT_FIGURES_H
#define CKM_SRC_EMIT_EMIT_FIGURES_H

#include <checkmate/emit.h>

ckm_status ckm_i_figure_memory(const ckm_emit_facts *facts, const char *path, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_figure_arena(const ckm_emit_facts *facts, const char *path, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_figure_matrices(const ckm_emit_facts *facts, const char *path, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_figure_transfers(const ckm_emit_facts *facts, const char *path, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_figure_graph(const ckm_emit_facts *facts, const char *path, ckm_error *err) CKM_NODISCARD;

// "VGG16, batch 64", or the name alone where the batch is not known.
#define CKM_I_FIGURE_NAME 320
const char *ckm_i_figure_name(const ckm_emit_facts *facts, char *text, size_t size);

// "peak 3.9 GB of 4.0 GB, 9.7 GB without rematerialization; 0.4 % more computation": the second line of titles.
const char *ckm_i_figure_subtitle(const ckm_emit_facts *facts, char *text, size_t size);

// Lives that are in memory at a moment, inputs excepted, largest first: writes at most `room` positions in
// facts->lives and gives how many there are in all.
int32_t ckm_i_figure_live(const ckm_emit_facts *facts, int64_t moment, int32_t *lives, int32_t room);

// An operator, with the part of the model that it belongs to: "layers.3.mlp: addmm_12".
const char *ckm_i_figure_op_name(const ckm_dataflow *df, int32_t op, char *text, size_t size);

// The name of what occupies a life, with the part of the model that makes it, or "workspace of <operator>"; in `text`.
const char *ckm_i_figure_life_name(const ckm_emit_facts *facts, const ckm_emit_life *life, char *text, size_t size);

#endif
