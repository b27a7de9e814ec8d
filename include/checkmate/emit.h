// SPDX-License-Identifier: Apache-2.0
// Figures: dataflow graphs through graphviz, curves through gnuplot. Both are run as programs; when one
// is missing the call fails with CKM_ERR_UNSUPPORTED and says which package to install.
//
// The figure's format follows the file name: .svg, .pdf or .png.
#ifndef CHECKMATE_EMIT_H
#define CHECKMATE_EMIT_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>

#ifdef __cplusplus
extern "C" {
#endif

// Writes the graph in DOT, graphviz' language; "-" is standard output. One node an operator, coloured by
// kind, one edge for every tensor handed from one operator to another; inputs are drawn as plain text.
CKM_API ckm_status ckm_emit_dot(const ckm_dataflow *df, const char *path, ckm_error *err) CKM_NODISCARD;

// Draws the graph with `dot`.
CKM_API ckm_status ckm_emit_graph_figure(const ckm_dataflow *df, const char *path, ckm_error *err) CKM_NODISCARD;

// One curve: n points, drawn in the order given. A point whose x or y is NaN interrupts the line.
typedef struct ckm_emit_curve {
    const char *label;
    int32_t n;
    const double *x, *y;
} ckm_emit_curve;

typedef struct ckm_emit_plot {
    const char *title, *x_label, *y_label;
    double y_min, y_max;  // what of the y axis is shown; NaN: as much as the points need
    int32_t n_curves;
    const ckm_emit_curve *curves;
} ckm_emit_plot;

// Draws curves with `gnuplot`. CKM_ERR_ARGUMENT when no curve has a finite point.
CKM_API ckm_status ckm_emit_plot_figure(const ckm_emit_plot *plot, const char *path, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
