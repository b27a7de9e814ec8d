// SPDX-License-Identifier: Apache-2.0
// Overhead over budget for several strategies, with what is proven that none can beat. Most schedules cost a few percent
// and some four times as much, so the overhead's axis is linear near 0 and logarithmic above.
#include <checkmate/emit.h>

#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "emit/emit_style.h"

// Linear up to about this many percent.
static const double linear_percent = 0.5;
// What costs more than this is drawn at the upper edge, with its number.
static const double most_percent = 1000;

typedef struct sweep {
    const char *title;
    const ckm_emit_sweep_curve *curves;
    int32_t n;
    double unit;  // bytes of one on the axis
} sweep;

static bool has_schedules(const ckm_emit_sweep_curve *curve)
{
    for (int32_t i = 0; i < curve->n; i++) {
        if (isfinite(curve->rows[i].overhead)) {
            return true;
        }
    }
    return false;
}

// ---- bounds ----

// A bound for some schedules holds for every narrower class as well: what is proven for `covers` at a budget, in percent,
// the most that any row there says, 0 where none does: no schedule costs less than running everything once.
static double bound_at(const sweep *s, int64_t budget_bytes, ckm_bound_class covers)
{
    double most = 0;
    for (int32_t c = 0; c < s->n; c++) {
        for (int32_t i = 0; i < s->curves[c].n; i++) {
            const ckm_emit_sweep_row *row = &s->curves[c].rows[i];
            // What is proven at a budget is proven at every smaller one.
            if (row->budget_bytes >= budget_bytes && row->covers != CKM_BOUND_NONE && row->covers <= covers &&
                isfinite(row->bound) && 100 * row->bound > most) {
                most = 100 * row->bound;
            }
        }
    }
    return most;
}

// Whether at some budget the bound of one class is above that of another, which is above `least`.
static bool exceeds(const sweep *s, ckm_bound_class narrow, ckm_bound_class wide, double least)
{
    for (int32_t c = 0; c < s->n; c++) {
        for (int32_t i = 0; i < s->curves[c].n; i++) {
            int64_t budget = s->curves[c].rows[i].budget_bytes;
            double wider = bound_at(s, budget, wide);
            if (wider >= least && bound_at(s, budget, narrow) > 1.0001 * wider + 1e-4) {
                return true;
            }
        }
    }
    return false;
}

// The narrowest class that adds something has a line; a wider one has, too, where it says something and something else.
static bool is_drawn(const sweep *s, ckm_bound_class covers)
{
    ckm_bound_class narrowest = CKM_BOUND_FRONTIER;
    while (narrowest > CKM_BOUND_ANY && !exceeds(s, narrowest, (ckm_bound_class)(narrowest - 1), 0)) {
        narrowest--;
    }
    return covers == narrowest || (covers < narrowest && exceeds(s, narrowest, covers, 1e-4));
}

// The curve with the most rows has all budgets.
static const ckm_emit_sweep_curve *longest(const sweep *s)
{
    const ckm_emit_sweep_curve *most = &s->curves[0];
    for (int32_t c = 1; c < s->n; c++) {
        most = s->curves[c].n > most->n ? &s->curves[c] : most;
    }
    return most;
}

static void put_bound(FILE *to, const sweep *s, ckm_bound_class covers)
{
    const ckm_emit_sweep_curve *all = longest(s);
    fprintf(to, "$bound%d << END_OF_CURVE\n", (int)covers);
    for (int32_t i = 0; i < all->n; i++) {
        int64_t budget = all->rows[i].budget_bytes;
        fprintf(to, "%.10g %.8g\n", (double)budget / s->unit, fmin(bound_at(s, budget, covers), most_percent));
    }
    fputs("END_OF_CURVE\n", to);
}

// ---- curves ----

static double percent_of(const ckm_emit_sweep_row *row)
{
    return fmax(100 * row->overhead, 0);
}

static void put_curve(FILE *to, const sweep *s, int32_t c)
{
    const ckm_emit_sweep_curve *curve = &s->curves[c];
    fprintf(to, "$curve%d << END_OF_CURVE\n", (int)c);
    for (int32_t i = 0; i < curve->n; i++) {
        const ckm_emit_sweep_row *row = &curve->rows[i];
        if (isfinite(row->overhead)) {
            fprintf(to, "%.10g %.8g\n", (double)row->budget_bytes / s->unit, fmin(percent_of(row), most_percent));
        } else {
            fputc('\n', to);  // an empty line interrupts the line
        }
    }
    fputs("END_OF_CURVE\n", to);
}

// An arrow and the number where a point lies above the axis.
static void put_beyond(FILE *to, const sweep *s)
{
    for (int32_t c = 0; c < s->n; c++) {
        for (int32_t i = 0; i < s->curves[c].n; i++) {
            const ckm_emit_sweep_row *row = &s->curves[c].rows[i];
            if (isfinite(row->overhead) && percent_of(row) > most_percent) {
                double x = (double)row->budget_bytes / s->unit;
                fprintf(
                    to,
                    "set arrow from first %.10g, first %.6g to first %.10g, graph 1.0 lw 1.2 lc rgb '#333333' front\n"
                    "set label '%.0f %%' at first %.10g, first %.6g left offset 0.8,0 font ',11' front boxed\n",
                    x, most_percent, x, percent_of(row), x, most_percent);
            }
        }
    }
}

static void put_axes(FILE *to, const sweep *s, const char *unit_name)
{
    static const char *const tics[] = {"0", "0.5", "1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"};
    double top = 0.5;
    double low = INFINITY;
    double high = -INFINITY;
    for (int32_t c = 0; c < s->n; c++) {
        for (int32_t i = 0; i < s->curves[c].n; i++) {
            const ckm_emit_sweep_row *row = &s->curves[c].rows[i];
            double x = (double)row->budget_bytes / s->unit;
            low = fmin(low, x);
            high = fmax(high, x);
            top = isfinite(row->overhead) ? fmax(top, percent_of(row)) : top;
            top = row->covers != CKM_BOUND_NONE && isfinite(row->bound) ? fmax(top, 100 * row->bound) : top;
        }
    }
    double margin = high > low ? 0.03 * (high - low) : 0.5 * fabs(high) + 0.5;
    fprintf(to,
            "set nonlinear y via asinh(y / %.3g) inverse %.3g * sinh(y)\nset xrange [%.10g:%.10g]\n"
            "set yrange [%.3g:%.6g]\nset ytics (",
            linear_percent, linear_percent, low - margin, high + margin, -0.1 * linear_percent,
            1.25 * fmin(top, most_percent));
    for (size_t i = 0; i < sizeof tics / sizeof tics[0]; i++) {
        fprintf(to, "%s%s", i > 0 ? ", " : "", tics[i]);
    }
    fprintf(to, ")\nset xlabel 'memory budget (%s)'\nset ylabel 'overhead (%%), logarithmic above 1 %%' offset 1.5,0\n",
            unit_name);
}

// Names the strategies that have no schedule within any of the budgets: a curve that is missing says nothing.
static void put_missing(FILE *to, const sweep *s)
{
    char text[200] = "";
    size_t used = 0;
    for (int32_t c = 0; c < s->n; c++) {
        if (!has_schedules(&s->curves[c]) && used < sizeof text) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                     used > 0 ? ", " : "no schedule within these budgets: ", s->curves[c].label);
        }
    }
    if (used > 0) {
        char cut[4 * 130 + 4];
        ckm_i_style_label(to, 0.02, 0.03, ckm_i_style_short(text, 130, cut), "left tc rgb '#555555' font ',12'");
    }
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    static const char *const colors[] = {CKM_I_ORANGE, CKM_I_SKY, CKM_I_GREEN, CKM_I_PURPLE,
                                         "#000000",    "#8a6d00", "#777777"};
    // Every shape of gnuplot but the filled circle, which is the main curve's; those that differ most first.
    static const int shapes[] = {6, 8, 10, 12, 14, 4, 1, 2, 3, 5, 9, 11, 13, 15};
    static const char *const bound_names[] = {"", "bound: any schedule", "bound: the graph's order",
                                              "bound: by stages"};
    static const char *const dashes[] = {"", "(6,3)", "(3,2)", "(1,2)"};
    enum { N_COLORS = sizeof colors / sizeof colors[0], N_SHAPES = sizeof shapes / sizeof shapes[0] };
    sweep s = *(const sweep *)what;
    char text[256];
    double most = 0;
    for (int32_t c = 0; c < s.n; c++) {
        for (int32_t i = 0; i < s.curves[c].n; i++) {
            most = fmax(most, (double)s.curves[c].rows[i].budget_bytes);
        }
    }
    const char *unit_name = ckm_i_style_axis_unit((int64_t)most, &s.unit);
    ckm_i_style_begin(to, format, 900, 560);
    snprintf(text, sizeof text, "%s: overhead within memory budgets", s.title);
    ckm_i_style_title(to, text,
                      "extra computation of the schedules found; dashed: no schedule of the class named costs less");
    fputs("set lmargin at screen 0.08\nset rmargin at screen 0.74\nset tmargin at screen 0.87\nset bmargin at screen "
          "0.17\nset key at screen 0.755, screen 0.875 left top vertical Left reverse noenhanced samplen 2.5 font "
          "',12'\n",
          to);
    put_axes(to, &s, unit_name);
    put_beyond(to, &s);
    put_missing(to, &s);
    // The line of most interest comes last, on top of the others.
    const char *separator = "plot ";
    for (int32_t c = 0; c < s.n; c++) {
        if (has_schedules(&s.curves[c])) {
            put_curve(to, &s, c);
        }
    }
    for (int covers = CKM_BOUND_ANY; covers <= CKM_BOUND_FRONTIER; covers++) {
        if (is_drawn(&s, (ckm_bound_class)covers)) {
            put_bound(to, &s, (ckm_bound_class)covers);
        }
    }
    for (int main_ones = 0; main_ones < 2; main_ones++) {
        int used = 0;
        for (int32_t c = 0; c < s.n; c++) {
            const ckm_emit_sweep_curve *curve = &s.curves[c];
            used += curve->is_main ? 0 : 1;
            if (curve->is_main != (main_ones == 1) || !has_schedules(curve)) {
                continue;
            }
            // A colour and a shape each: lines that run together are still told apart. A schedule fits every larger
            // budget too; steps claim that and no more.
            const char *color = curve->is_main ? CKM_I_BLUE : colors[(used - 1) % N_COLORS];
            const char *width = curve->is_main ? "2.8" : "1.4";
            int point = curve->is_main ? 7 : shapes[(used - 1) % N_SHAPES];
            fprintf(
                to,
                "%s$curve%d using 1:2 with steps lw %s lc rgb '%s' notitle, $curve%d using 1:2 with points pt %d ps "
                "0.8 lc rgb '%s' notitle, NaN with linespoints lw %s pt %d ps 0.8 lc rgb '%s' title ",
                separator, (int)c, width, color, (int)c, point, color, width, point, color);
            ckm_i_style_quote(to, curve->label);
            separator = ", ";
        }
    }
    for (int covers = CKM_BOUND_ANY; covers <= CKM_BOUND_FRONTIER; covers++) {
        if (is_drawn(&s, (ckm_bound_class)covers)) {
            fprintf(to, "%s$bound%d using 1:2 with fsteps lw 2 dt %s lc rgb '%s' title ", separator, covers,
                    dashes[covers], CKM_I_VERMILION);
            ckm_i_style_quote(to, bound_names[covers]);
        }
    }
    fputc('\n', to);
}

ckm_status ckm_emit_sweep_figure(const char *title, const ckm_emit_sweep_curve *curves, int32_t n, const char *path,
                                 ckm_error *err)
{
    CKM_I_NEED(title, err);
    CKM_I_NEED(path, err);
    bool any = false;
    for (int32_t c = 0; c < n; c++) {
        CKM_I_NEED(curves, err);
        CKM_I_NEED_NAMED(curves[c].label, "label of a curve", err);
        if (curves[c].n > 0) {
            CKM_I_NEED_NAMED(curves[c].rows, "rows of a curve", err);
        }
        any = any || has_schedules(&curves[c]);
    }
    if (!any) {
        ckm_i_figure_format format;
        CKM_I_CHECK(ckm_i_figure_format_of(path, &format, err));
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "nothing to draw: no strategy has a schedule");
    }
    sweep s = {title, curves, n, 1};
    return ckm_i_style_gnuplot(put_script, &s, path, err);
}
