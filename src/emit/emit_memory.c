// SPDX-License-Identifier: Apache-2.0
// Figure "memory": bytes in use while each operator runs, stacked by what they are, with the budget, the run without
// rematerialization, and next to it what is live at the peak.
#include <stdio.h>

#include "emit/emit_figures.h"
#include "emit/emit_style.h"

// More columns than this cannot be told apart: neighbours are drawn as one, at the fullest of them.
enum { COLUMNS = 1200, TENSORS_LISTED = 8 };

static int64_t columns_per(int64_t n)
{
    return (n + COLUMNS - 1) / COLUMNS;
}

static void put_stacks(FILE *to, const ckm_emit_facts *f, double unit)
{
    int64_t width = columns_per(f->n_moments);
    fputs("$stacks << END_OF_DATA\n", to);
    for (int64_t m = 0; m < f->n_moments; m += width) {
        const ckm_emit_moment *fullest = &f->moments[m];
        for (int64_t i = m + 1; i < m + width && i < f->n_moments; i++) {
            fullest = f->moments[i].bytes > fullest->bytes ? &f->moments[i] : fullest;
        }
        // Both ends of a column: gnuplot then fills one outline, where its steps would be a shape each.
        for (int end = 0; end < 2; end++) {
            double sum = 0;
            int64_t x = m + end * width;
            fprintf(to, "%lld", (long long)x);
            for (int c = 0; c < CKM_EMIT_N_CLASSES; c++) {
                sum += (double)fullest->class_bytes[c] / unit;
                fprintf(to, " %.6g", sum);
            }
            fputc('\n', to);
        }
    }
    fputs("END_OF_DATA\n", to);
}

static void put_baseline(FILE *to, const ckm_emit_facts *f, double unit)
{
    int64_t n = ckm_dataflow_op_count(f->df);
    int64_t width = columns_per(n);
    int64_t most = 0;
    fputs("$baseline << END_OF_DATA\n", to);
    for (int64_t v = 0; v <= n; v += width) {
        most = v < n ? 0 : most;
        for (int64_t i = v; i < v + width && i < n; i++) {
            most = f->baseline_bytes[i] > most ? f->baseline_bytes[i] : most;
        }
        fprintf(to, "%lld %.6g\n", (long long)v, (double)most / unit);
    }
    fputs("END_OF_DATA\n", to);
}

static void put_row(FILE *to, double y, const char *color, const char *name, const char *value)
{
    char text[4 * 27 + 4];
    if (color != NULL) {
        ckm_i_style_swatch(to, 0.737, y, color);
    }
    ckm_i_style_label(to, color != NULL ? 0.750 : 0.730, y, ckm_i_style_short(name, color != NULL ? 25 : 27, text),
                      "left font ',12'");
    ckm_i_style_label(to, 0.985, y, value, "right font ',12'");
}

static void put_heading(FILE *to, double y, const char *text)
{
    ckm_i_style_heading(to, 0.730, y, text, 13);
}

// The column on the right: what the peak consists of.
static void put_peak(FILE *to, const ckm_emit_facts *f)
{
    const ckm_emit_moment *peak = &f->moments[f->peak_moment];
    char bytes[CKM_I_STYLE_TEXT];
    char name[4 * 24 + 4];
    char label[256];
    char text[256];
    double y = 0.84;
    snprintf(text, sizeof text, "At the peak of %s", ckm_i_style_bytes(peak->bytes, bytes));
    put_heading(to, y, text);
    ckm_i_figure_op_name(f->df, peak->op, label, sizeof label);
    snprintf(text, sizeof text, "in %s%s", ckm_i_style_short(label, 24, name), peak->execution > 0 ? " (again)" : "");
    ckm_i_style_label(to, 0.730, y - 0.040, text, "left tc rgb '#555555' font ',12'");
    y -= 0.088;
    for (int c = CKM_EMIT_N_CLASSES - 1; c >= 0; c--) {
        if (peak->class_bytes[c] > 0) {
            put_row(to, y, ckm_i_style_color((ckm_emit_class)c), ckm_emit_class_name((ckm_emit_class)c),
                    ckm_i_style_bytes(peak->class_bytes[c], bytes));
            y -= 0.040;
        }
    }
    int32_t live[TENSORS_LISTED];
    int32_t n = ckm_i_figure_live(f, f->peak_moment, live, TENSORS_LISTED);
    y -= 0.025;
    put_heading(to, y, "Largest live then");
    for (int32_t i = 0; i < n && i < TENSORS_LISTED && y > 0.14; i++) {
        const ckm_emit_life *life = &f->lives[live[i]];
        y -= 0.040;
        put_row(to, y, ckm_i_style_color(life->what), ckm_i_figure_life_name(f, life, text, sizeof text),
                ckm_i_style_bytes(life->bytes, bytes));
    }
    // Classes that are not there at the peak need their colour explained all the same.
    y -= 0.030;
    for (int c = 0; c < CKM_EMIT_N_CLASSES; c++) {
        bool anywhere = false;
        for (int64_t m = 0; m < f->n_moments && !anywhere; m++) {
            anywhere = f->moments[m].class_bytes[c] > 0;
        }
        if (anywhere && peak->class_bytes[c] == 0) {
            y -= 0.040;
            put_row(to, y, ckm_i_style_color((ckm_emit_class)c), ckm_emit_class_name((ckm_emit_class)c), "-");
        }
    }
}

// Where the budget's label stands, at which it ends: as far to the right as neither the memory in use nor the line without
// rematerialization runs through it, nor the line between the passes. Left of everything: nowhere.
static int64_t free_place(const ckm_emit_facts *f, double top_bytes)
{
    int64_t n_ops = ckm_dataflow_op_count(f->df);
    int64_t wide = f->n_moments / 6 + 1;  // of the label
    double high = (double)f->budget_bytes + 0.06 * top_bytes;
    int64_t clear = 0;
    for (int64_t m = f->n_moments - 1; m >= 0; m--) {
        // A step of the line begins where the one before ends.
        bool crossed = m == f->turn_moment;
        for (int64_t i = m - 1; i <= m && !crossed; i++) {
            if (i >= 0 && i < n_ops) {
                double low = (double)(i > 0 && f->baseline_bytes[i - 1] < f->baseline_bytes[i]
                                          ? f->baseline_bytes[i - 1]
                                          : f->baseline_bytes[i]);
                double most = (double)(i > 0 && f->baseline_bytes[i - 1] > f->baseline_bytes[i]
                                           ? f->baseline_bytes[i - 1]
                                           : f->baseline_bytes[i]);
                crossed = low < high && most > (double)f->budget_bytes;
            }
        }
        clear = crossed || (double)f->moments[m].bytes > (double)f->budget_bytes ? 0 : clear + 1;
        if (clear == wide) {
            return m + wide;
        }
    }
    return -1;
}

// Lines named where they are.
static void put_lines(FILE *to, const ckm_emit_facts *f, double unit, double top)
{
    char bytes[CKM_I_STYLE_TEXT];
    double budget = (double)f->budget_bytes / unit;
    if (f->budget_bytes >= 0 && budget <= top) {
        fprintf(to,
                "set arrow from graph 0, first %.6g to graph 1, first %.6g nohead lw 1.6 dt (8,5) lc rgb '%s' front\n",
                budget, budget, CKM_I_VERMILION);
        int64_t place = free_place(f, top * unit);
        fprintf(to,
                "set label 'budget %s' at first %lld, first %.6g right offset -0.4,0.7 tc rgb '%s' font ',12' front "
                "boxed\n",
                ckm_i_style_bytes(f->budget_bytes, bytes), (long long)(place > 0 ? place : f->n_moments), budget,
                CKM_I_VERMILION);
    }
    // Over its highest point, on the side where there is more room.
    bool left = f->baseline_peak_op < f->n_moments / 2;
    fprintf(to,
            "set label 'without rematerialization %s' at first %lld, first %.6g %s offset %.1f,0.7 font ',12' front\n",
            ckm_i_style_bytes(f->baseline_peak_bytes, bytes), (long long)f->baseline_peak_op,
            (double)f->baseline_peak_bytes / unit, left ? "left" : "right", left ? 0.6 : -0.6);
    if (f->turn_moment >= 0) {
        fprintf(to,
                "set arrow from first %lld, graph 0 to first %lld, graph 1.0 nohead lw 0.8 dt (2,4) lc rgb '#555555' "
                "front\n",
                (long long)f->turn_moment, (long long)f->turn_moment);
        fprintf(to,
                "set label 'backward' at first %lld, graph 1.025 left offset 0.6,0 tc rgb '#555555' font ',12' "
                "front\nset label 'forward' at first %lld, graph 1.025 right offset -0.6,0 tc rgb '#555555' "
                "font ',12' front\n",
                (long long)f->turn_moment, (long long)f->turn_moment);
    }
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    const ckm_emit_facts *f = what;
    char text[400];
    char name[CKM_I_FIGURE_NAME];
    int64_t most = f->peak_bytes > f->baseline_peak_bytes ? f->peak_bytes : f->baseline_peak_bytes;
    // A budget far above everything would press the picture to the ground: it is left out.
    if (f->budget_bytes > most && (double)f->budget_bytes < 1.3 * (double)most) {
        most = f->budget_bytes;
    }
    double unit;
    const char *unit_name = ckm_i_style_axis_unit(most, &unit);
    double top = 1.1 * (double)most / unit;
    ckm_i_style_begin(to, format, 1040, 580);
    snprintf(text, sizeof text, "%s: memory over one training step", ckm_i_figure_name(f, name, sizeof name));
    char subtitle[256];
    ckm_i_style_title(to, text, ckm_i_figure_subtitle(f, subtitle, sizeof subtitle));
    fputs("set lmargin at screen 0.075\nset rmargin at screen 0.705\nset tmargin at screen 0.83\nset bmargin at screen "
          "0.12\nunset key\nunset grid\n",
          to);
    fprintf(to,
            "set xlabel 'operators run'\nset ylabel 'memory in use (%s)' offset 1,0\nset xrange [0:%lld]\nset yrange "
            "[0:%.6g]\n",
            unit_name, (long long)f->n_moments, top > 0 ? top : 1);
    put_lines(to, f, unit, top);
    put_peak(to, f);
    put_stacks(to, f, unit);
    put_baseline(to, f, unit);
    fputs("plot ", to);
    for (int c = CKM_EMIT_N_CLASSES - 1; c >= 0; c--) {
        fprintf(to, "$stacks using 1:%d with filledcurves y1=0 lc rgb '%s', ", c + 2,
                ckm_i_style_color((ckm_emit_class)c));
    }
    fprintf(to,
            "$baseline using 1:2 with steps lw 1.4 lc rgb '#000000', '+' using (%lld + 0.5):(%.6g) every ::0::0 "
            "with points pt 7 ps 0.7 lc rgb '%s'\n",
            (long long)f->peak_moment, (double)f->peak_bytes / unit, CKM_I_VERMILION);
}

ckm_status ckm_i_figure_memory(const ckm_emit_facts *facts, const char *path, ckm_error *err)
{
    return ckm_i_style_gnuplot(put_script, facts, path, err);
}
