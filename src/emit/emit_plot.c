// SPDX-License-Identifier: Apache-2.0
// Curves as pictures, through gnuplot.
#include <checkmate/emit.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "emit/emit_run.h"

// Inside single quotes gnuplot reads everything literally but the quote itself, which is doubled.
static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++) {
        if (*c == '\'') {
            fputc('\'', to);
        }
        fputc((unsigned char)*c < 0x20 ? ' ' : *c, to);
    }
    fputc('\'', to);
}

static bool point_is_finite(const ckm_emit_curve *curve, int32_t i)
{
    return isfinite(curve->x[i]) && isfinite(curve->y[i]);
}

static bool curve_has_points(const ckm_emit_curve *curve)
{
    for (int32_t i = 0; i < curve->n; i++) {
        if (point_is_finite(curve, i)) {
            return true;
        }
    }
    return false;
}

static void put_data(FILE *to, const ckm_emit_plot *plot)
{
    for (int32_t c = 0; c < plot->n_curves; c++) {
        const ckm_emit_curve *curve = &plot->curves[c];
        if (!curve_has_points(curve)) {
            continue;
        }
        fprintf(to, "$curve%d << END_OF_CURVE\n", (int)c);
        for (int32_t i = 0; i < curve->n; i++) {
            if (point_is_finite(curve, i)) {
                fprintf(to, "%.12g %.12g\n", curve->x[i], curve->y[i]);
            } else {
                fputs("\n", to);  // an empty line interrupts the line
            }
        }
        fputs("END_OF_CURVE\n", to);
    }
}

// An end of the y axis; '*' lets gnuplot choose.
static void put_limit(FILE *to, double limit)
{
    if (isfinite(limit)) {
        fprintf(to, "%.12g", limit);
    } else {
        fputc('*', to);
    }
}

static void put_script(FILE *to, const ckm_emit_plot *plot, ckm_i_figure_format format)
{
    static const char *const terminals[] = {
        "svg size 900,560 dynamic enhanced font 'Helvetica,13' background rgb 'white'",
        "pdfcairo size 18cm,11cm enhanced font 'Helvetica,11'",
        "pngcairo size 1350,840 enhanced font 'Helvetica,16'",
    };
    fprintf(to, "set terminal %s\nset encoding utf8\n", terminals[format]);
    fputs("set title ", to);
    put_quoted(to, plot->title);
    fputs(" noenhanced\nset xlabel ", to);
    put_quoted(to, plot->x_label);
    fputs(" noenhanced\nset ylabel ", to);
    put_quoted(to, plot->y_label);
    fputs(" noenhanced\nset grid lt 1 lw 1 lc rgb '#e4e4e4'\nset key outside right top Left reverse noenhanced\n"
          "set border 3\nset tics nomirror\nset clip two\nset offsets graph 0.02, graph 0.02, graph 0.03, 0\nset "
          "yrange [",
          to);
    put_limit(to, plot->y_min);
    fputc(':', to);
    put_limit(to, plot->y_max);
    fputs("]\n", to);
    put_data(to, plot);
    const char *separator = "plot ";
    for (int32_t c = 0; c < plot->n_curves; c++) {
        if (curve_has_points(&plot->curves[c])) {
            fprintf(to, "%s$curve%d using 1:2 with linespoints lw 2 pt 7 ps 0.6 title ", separator, (int)c);
            put_quoted(to, plot->curves[c].label);
            separator = ", ";
        }
    }
    fputs("\n", to);
}

ckm_status ckm_emit_plot_figure(const ckm_emit_plot *plot, const char *path, ckm_error *err)
{
    ckm_i_figure_format format;
    ckm_status status = ckm_i_figure_format_of(path, &format, err);
    if (status != CKM_OK) {
        return status;
    }
    bool any = false;
    for (int32_t c = 0; c < plot->n_curves; c++) {
        any = any || curve_has_points(&plot->curves[c]);
    }
    if (!any) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "nothing to draw: no curve has a point");
    }
    FILE *script = tmpfile();
    if (script == NULL) {
        return ckm_i_error(err, CKM_ERR_IO, "cannot create a temporary file: %s", strerror(errno));
    }
    put_script(script, plot, format);
    // The script comes through standard input, "-": a named file would need a name.
    const char *argv[] = {"gnuplot", "-", NULL};
    status = ckm_i_emit_run(argv, script, path, "gnuplot-nox", err);
    fclose(script);
    return status;
}
