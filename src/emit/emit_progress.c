// SPDX-License-Identifier: Apache-2.0
// How a solve went: the best schedule and the bound, closing in on each other; and what the bound covers.
#include <checkmate/emit.h>

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "emit/emit_style.h"

typedef struct course {
    const char *title;
    const ckm_emit_progress *points;
    int32_t n;
    ckm_bound_class covers;
} course;

static double value_of(const ckm_emit_progress *point, bool bound)
{
    return bound ? point->bound : point->overhead;
}

// One curve of steps, drawn on to the end of the solve. Gives its last value, NaN without any.
static double put_curve(FILE *to, const course *c, bool bound)
{
    double last = NAN;
    for (int32_t i = 0; i < c->n; i++) {
        double value = value_of(&c->points[i], bound);
        if (isfinite(value)) {
            if (isnan(last)) {
                fprintf(to, "$%s << END_OF_CURVE\n", bound ? "bound" : "best");
            }
            last = value;
        }
        if (!isnan(last)) {
            fprintf(to, "%.6g %.8g\n", c->points[i].seconds, 100 * last);
        }
    }
    if (!isnan(last)) {
        fputs("END_OF_CURVE\n", to);
    }
    return last;
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    const course *c = what;
    char number[CKM_I_STYLE_TEXT];
    char text[256];
    double end = c->points[c->n - 1].seconds;
    ckm_i_style_begin(to, format, 900, 500);
    snprintf(text, sizeof text, "%s: the best schedule and the bound over the time of the solve", c->title);
    ckm_i_style_title(to, text, NULL);
    fprintf(to,
            "set lmargin at screen 0.095\nset rmargin at screen 0.975\nset tmargin at screen 0.80\nset bmargin at "
            "screen 0.12\nset key at screen 0.02, screen 0.925 left top vertical Left reverse samplen 2.5 noenhanced\n"
            "set xlabel 'seconds'\nset ylabel 'overhead (%% of the cost without rematerialization)'\nset yrange [0:*]\n"
            "set offsets 0, 0, graph 0.06, 0\n");
    if (isfinite(end) && end > 0) {
        fprintf(to, "set xrange [0:%.6g]\n", end);
    }
    double best = put_curve(to, c, false);
    double bound = put_curve(to, c, true);
    const char *separator = "plot ";
    if (!isnan(best)) {
        fprintf(to, "%s$best using 1:2 with steps lw 2.2 lc rgb '%s' title 'best schedule: %s at the end'", separator,
                CKM_I_BLUE, ckm_i_style_percent(best, number));
        separator = ", ";
    }
    if (!isnan(bound)) {
        snprintf(text, sizeof text, "proven bound: %s at the end; no schedule%s costs less",
                 ckm_i_style_percent(bound, number), ckm_i_style_covers(c->covers));
        fprintf(to, "%s$bound using 1:2 with steps lw 2.2 dt (6,3) lc rgb '%s' title ", separator, CKM_I_VERMILION);
        ckm_i_style_quote(to, text);
    }
    fputc('\n', to);
}

ckm_status ckm_emit_course_figure(const char *title, const ckm_emit_progress *points, int32_t n, ckm_bound_class covers,
                                  const char *path, ckm_error *err)
{
    CKM_I_NEED(title, err);
    CKM_I_NEED(points, err);
    CKM_I_NEED(path, err);
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        any = any || isfinite(points[i].overhead) || isfinite(points[i].bound);
    }
    if (!any) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "nothing to draw: the solve reported neither a schedule nor a bound");
    }
    course c = {title, points, n, covers};
    return ckm_i_style_gnuplot(put_script, &c, path, err);
}

ckm_status ckm_emit_progress_figure(const char *title, const ckm_emit_progress *points, int32_t n, const char *path,
                                    ckm_error *err)
{
    return ckm_emit_course_figure(title, points, n, CKM_BOUND_NONE, path, err);
}
