// SPDX-License-Identifier: Apache-2.0
// Curves as pictures: overhead over budget, and whatever else is one quantity over another.
#include <checkmate/emit.h>

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "emit/emit_style.h"

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
static void put_limit(FILE *to, const ckm_emit_plot *plot, double limit)
{
    if (isfinite(limit) && plot->y_min != plot->y_max) {
        fprintf(to, "%.12g", limit);
    } else {
        fputc('*', to);
    }
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    const ckm_emit_plot *plot = what;
    ckm_i_style_begin(to, format, 900, 560);
    fputs("set title ", to);
    ckm_i_style_quote_bold(to, plot->title, 15);
    fputs("\nset xlabel ", to);
    ckm_i_style_quote(to, plot->x_label);
    fputs(" noenhanced\nset ylabel ", to);
    ckm_i_style_quote(to, plot->y_label);
    fputs(" noenhanced\nset key outside right top Left reverse noenhanced\nset clip two\n"
          "set offsets graph 0.02, graph 0.02, graph 0.03, 0\nset yrange [",
          to);
    put_limit(to, plot, plot->y_min);
    fputc(':', to);
    put_limit(to, plot, plot->y_max);
    fputs("]\n", to);
    put_data(to, plot);
    const char *separator = "plot ";
    for (int32_t c = 0; c < plot->n_curves; c++) {
        if (curve_has_points(&plot->curves[c])) {
            // A colour and a shape each: lines that run together are still told apart.
            fprintf(to, "%s$curve%d using 1:2 with linespoints lw 2 pt %d ps 0.7 title ", separator, (int)c,
                    4 + (int)(c % 10));
            ckm_i_style_quote(to, plot->curves[c].label);
            separator = ", ";
        }
    }
    fputs("\n", to);
}

ckm_status ckm_emit_plot_figure(const ckm_emit_plot *plot, const char *path, ckm_error *err)
{
    CKM_I_NEED(plot, err);
    CKM_I_NEED(path, err);
    for (int32_t c = 0; c < plot->n_curves; c++) {
        CKM_I_NEED(plot->curves, err);
        if (plot->curves[c].n > 0) {
            CKM_I_NEED_NAMED(plot->curves[c].x, "x of a curve", err);
            CKM_I_NEED_NAMED(plot->curves[c].y, "y of a curve", err);
        }
    }
    bool any = false;
    for (int32_t c = 0; c < plot->n_curves; c++) {
        any = any || curve_has_points(&plot->curves[c]);
    }
    if (!any) {
        ckm_i_figure_format format;
        CKM_I_CHECK(ckm_i_figure_format_of(path, &format, err));
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "nothing to draw: no curve has a point");
    }
    return ckm_i_style_gnuplot(put_script, plot, path, err);
}
