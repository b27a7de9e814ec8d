// SPDX-License-Identifier: Apache-2.0
// Figure "arena": every buffer as a rectangle, time to the right and addresses upwards.
#include <stdio.h>
#include <string.h>

#include "emit/emit_figures.h"
#include "emit/emit_style.h"

enum { NAMED = 40 };

static bool is_drawn(const ckm_emit_life *life, ckm_emit_class what)
{
    return life->what == what && life->bytes > 0 && life->first + (life->handed_over ? 1 : 0) <= life->last;
}

// Rectangles of one class: centre, then edges.
static int64_t put_rectangles(FILE *to, const ckm_emit_facts *f, ckm_emit_class what, double unit)
{
    int64_t n = 0;
    for (int32_t i = 0; i < f->n_lives; i++) {
        const ckm_emit_life *life = &f->lives[i];
        if (!is_drawn(life, what)) {
            continue;
        }
        if (n++ == 0) {
            fprintf(to, "$class%d << END_OF_DATA\n", (int)what);
        }
        double left = (double)life->first + (life->handed_over ? 1 : 0);
        double right = (double)life->last + 1;
        double low = (double)life->offset / unit;
        double high = (double)(life->offset + life->bytes) / unit;
        fprintf(to, "%.1f %.8g %.1f %.1f %.8g %.8g\n", (left + right) / 2, (low + high) / 2, left, right, low, high);
    }
    if (n > 0) {
        fputs("END_OF_DATA\n", to);
    }
    return n;
}

// Names inside the rectangles that have room for them.
static void put_names(FILE *to, const ckm_emit_facts *f, double unit)
{
    int named = 0;
    for (int32_t i = 0; i < f->n_lives && named < NAMED; i++) {
        const ckm_emit_life *life = &f->lives[i];
        double wide = (double)(life->last - life->first + 1) / (double)f->n_moments;
        double high = (double)life->bytes / (double)f->arena.arena_bytes;
        int letters = (int)(wide * 92);
        char text[256];
        char cut[4 * 92 + 4];
        const char *name = ckm_i_figure_life_name(f, life, text, sizeof text);
        // A name cut down to a few letters tells nothing.
        if (!is_drawn(life, life->what) || high < 0.028 || (letters < 10 && letters < (int)strlen(name))) {
            continue;
        }
        bool dark = life->what == CKM_EMIT_KEPT || life->what == CKM_EMIT_GRADIENT;
        fputs("set label ", to);
        ckm_i_style_quote(to, ckm_i_style_short(name, letters > 40 ? 40 : letters, cut));
        fprintf(to, " at first %.2f, first %.8g center noenhanced front font ',10' tc rgb '%s'\n",
                ((double)life->first + (double)life->last + 1) / 2,
                ((double)life->offset + (double)life->bytes / 2) / unit, dark ? "#ffffff" : "#000000");
        named++;
    }
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    const ckm_emit_facts *f = what;
    char text[400];
    char name[CKM_I_FIGURE_NAME];
    char size[CKM_I_STYLE_TEXT];
    char resident[CKM_I_STYLE_TEXT];
    char spread[CKM_I_STYLE_TEXT];
    double unit;
    const char *unit_name = ckm_i_style_axis_unit(f->arena.arena_bytes, &unit);
    double top = (double)f->arena.arena_bytes / unit;
    ckm_i_style_begin(to, format, 1040, 620);
    snprintf(text, sizeof text, "%s: the arena", ckm_i_figure_name(f, name, sizeof name));
    char subtitle[256];
    snprintf(subtitle, sizeof subtitle, "one block of %s, %s%s; %s that stay all the time lie outside",
             ckm_i_style_bytes(f->arena.arena_bytes, size),
             f->arena.fragmentation > 0 ? ckm_i_style_percent(f->arena.fragmentation, spread) : "",
             f->arena.fragmentation > 0 ? " more than is ever in use in it" : "all of it in use at the fullest moment",
             ckm_i_style_bytes(f->arena.resident_bytes, resident));
    ckm_i_style_title(to, text, subtitle);
    fputs("set lmargin at screen 0.075\nset rmargin at screen 0.985\nset tmargin at screen 0.80\nset bmargin at screen "
          "0.11\nset key at screen 0.985, screen 0.855 right top horizontal Left reverse samplen 1 width 1 font ',12'\n"
          "unset grid\n",
          to);
    fprintf(to, "set xlabel 'operators run'\nset ylabel 'address (%s)'\nset xrange [0:%lld]\nset yrange [0:%.8g]\n",
            unit_name, (long long)f->n_moments, top > 0 ? top : 1);
    if (f->turn_moment >= 0) {
        fprintf(to,
                "set arrow from first %lld, graph 0 to first %lld, graph 1 nohead lw 0.8 dt (2,4) lc rgb '#000000' "
                "front\n",
                (long long)f->turn_moment, (long long)f->turn_moment);
    }
    // Thin white edges tell neighbours apart; where there are thousands they would be all one sees.
    fprintf(to, "set style fill solid 1.0 %s\n", f->n_lives <= 700 ? "border rgb '#ffffff'" : "noborder");
    put_names(to, f, unit);
    int64_t n[CKM_EMIT_N_CLASSES];
    for (int c = CKM_EMIT_KEPT; c < CKM_EMIT_N_CLASSES; c++) {
        n[c] = put_rectangles(to, f, (ckm_emit_class)c, unit);
    }
    const char *separator = "plot ";
    for (int c = CKM_EMIT_KEPT; c < CKM_EMIT_N_CLASSES; c++) {
        if (n[c] > 0) {
            fprintf(to, "%s$class%d using 1:2:3:4:5:6 with boxxyerror lw 0.3 fc rgb '%s' title '%s'", separator, c,
                    ckm_i_style_color((ckm_emit_class)c), ckm_emit_class_name((ckm_emit_class)c));
            separator = ", ";
        }
    }
    if (strcmp(separator, "plot ") == 0) {
        fputs("plot NaN notitle", to);
    }
    fputc('\n', to);
}

ckm_status ckm_i_figure_arena(const ckm_emit_facts *facts, const char *path, ckm_error *err)
{
    return ckm_i_style_gnuplot(put_script, facts, path, err);
}
