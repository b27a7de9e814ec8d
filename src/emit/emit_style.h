// SPDX-License-Identifier: Apache-2.0
// How figures look: colours, sizes as text, names cut to a length, and the beginning of every gnuplot script.
#ifndef CKM_SRC_EMIT_EMIT_STYLE_H
#define CKM_SRC_EMIT_EMIT_STYLE_H

#include <checkmate/emit.h>
#include <stdio.h>

#include "emit/emit_run.h"

// The colours of Okabe and Ito ("Color Universal Design", 2008), black being text and the line of the baseline.
#define CKM_I_ORANGE "#e69f00"
#define CKM_I_SKY "#56b4e9"
#define CKM_I_GREEN "#009e73"
#define CKM_I_YELLOW "#f0e442"
#define CKM_I_BLUE "#0072b2"
#define CKM_I_VERMILION "#d55e00"
#define CKM_I_PURPLE "#cc79a7"

const char *ckm_i_style_color(ckm_emit_class what);

// "3.21 MB", in powers of 1000; "12.3 GMACs", "4.5 ms"; "1.23 %", with more digits where it is small.
#define CKM_I_STYLE_TEXT 32
const char *ckm_i_style_bytes(int64_t bytes, char text[CKM_I_STYLE_TEXT]);
const char *ckm_i_style_cost(int64_t cost, ckm_cost_unit unit, char text[CKM_I_STYLE_TEXT]);
const char *ckm_i_style_percent(double fraction, char text[CKM_I_STYLE_TEXT]);

// What follows "no schedule" where a bound says what none can do: "", " in the graph's order", ...
const char *ckm_i_style_covers(ckm_bound_class covers);

// The unit in which an axis up to `most` bytes is labelled, and how many bytes that is.
const char *ckm_i_style_axis_unit(int64_t most, double *bytes);

// Copies a name, cutting it in the middle to at most `length` characters (one of them an ellipsis), control characters
// replaced by spaces. `text` has room for 4 * length + 4 bytes. Returns text.
const char *ckm_i_style_short(const char *name, int length, char *text);

// A gnuplot string: everything is literal but the quote itself.
void ckm_i_style_quote(FILE *to, const char *text);
// The same in bold, for `enhanced` text. (A font called "Helvetica:Bold" is none that a browser has.)
void ckm_i_style_quote_bold(FILE *to, const char *text, int size);
// Terminal, fonts, borders, line types. `width` and `height` are pixels of an SVG; other formats follow.
void ckm_i_style_begin(FILE *to, ckm_i_figure_format format, int width, int height);
// A line of text at a place of the page, 0,0 being its lower left corner. `how`: "left", "right" or "center", then
// anything else gnuplot's `set label` takes.
void ckm_i_style_label(FILE *to, double x, double y, const char *text, const char *how);
// A line of bold text that begins at a place of the page.
void ckm_i_style_heading(FILE *to, double x, double y, const char *text, int size);
// A small square of a colour at a place of the page, to go before a text.
void ckm_i_style_swatch(FILE *to, double x, double y, const char *color);
// The figure's title, top left, and a second, smaller line under it.
void ckm_i_style_title(FILE *to, const char *title, const char *subtitle);

// Runs gnuplot over what `put` writes.
typedef void (*ckm_i_put_fn)(FILE *to, const void *what, ckm_i_figure_format format);
ckm_status ckm_i_style_gnuplot(ckm_i_put_fn put, const void *what, const char *path, ckm_error *err) CKM_NODISCARD;

#endif
