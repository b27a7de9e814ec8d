// SPDX-License-Identifier: Apache-2.0
// Figure "matrices": a schedule as the paper's R and S (section 4.2). Stage t ends with the first computation of the
// t-th operator; R[t][v] is whether operator v runs in stage t, S[t][v] whether something it computed is held into t.
#include "emit/emit_matrices.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "emit/emit_figures.h"
#include "emit/emit_style.h"

ckm_status ckm_i_matrices_create(const ckm_emit_facts *f, ckm_i_matrices *out, ckm_error *err)
{
    int32_t n_ops = ckm_dataflow_op_count(f->df);
    ckm_i_matrices m = {.n = n_ops};
    m.column = ckm_i_malloc((size_t)n_ops, sizeof *m.column);
    m.stage = ckm_i_malloc((size_t)f->n_moments, sizeof *m.stage);
    m.held = ckm_i_malloc((size_t)f->n_lives, sizeof *m.held);
    if (m.column == NULL || m.stage == NULL || m.held == NULL) {
        ckm_i_matrices_dispose(&m);
        return ckm_i_error_memory(err);
    }
    int32_t stage = 0;
    for (int64_t i = 0; i < f->n_moments; i++) {
        m.stage[i] = stage;
        if (f->moments[i].execution == 0) {
            m.column[f->moments[i].op] = stage++;
        }
    }
    for (int32_t i = 0; i < f->n_lives; i++) {
        const ckm_emit_life *life = &f->lives[i];
        // Held into the stages after that in which it begins, up to that in which it ends.
        if (life->tensor >= 0 && m.stage[life->first] < m.stage[life->last]) {
            m.held[m.n_held++] = (ckm_i_held){m.column[life->op], m.stage[life->first] + 1, m.stage[life->last],
                                              life->what};
        }
    }
    *out = m;
    return CKM_OK;
}

void ckm_i_matrices_dispose(ckm_i_matrices *m)
{
    free(m->column);
    free(m->stage);
    free(m->held);
    *m = (ckm_i_matrices){0};
}

typedef struct picture {
    const ckm_emit_facts *f;
    const ckm_i_matrices *m;
} picture;

// Cells and runs of cells, never thinner than can be seen.
static void put_cell(FILE *to, const ckm_i_matrices *m, int32_t column, int32_t first, int32_t last)
{
    double least = m->n / 300.0;
    double half = (least > 1 ? least : 1) / 2;
    double x = column + 0.5;
    double middle = (first + last + 1) / 2.0;
    double tall = (last - first + 1) / 2.0;
    fprintf(to, "%.1f %.1f %.2f %.2f %.2f %.2f\n", x, middle, x - half, x + half, middle - (tall > half ? tall : half),
            middle + (tall > half ? tall : half));
}

static void put_r(FILE *to, const picture *p, bool again)
{
    fprintf(to, "$r%d << END_OF_DATA\n", again ? 1 : 0);
    for (int64_t i = 0; i < p->f->n_moments; i++) {
        if ((p->f->moments[i].execution > 0) == again) {
            put_cell(to, p->m, p->m->column[p->f->moments[i].op], p->m->stage[i], p->m->stage[i]);
        }
    }
    fputs("END_OF_DATA\n", to);
}

static void put_s(FILE *to, const picture *p, ckm_emit_class what)
{
    fprintf(to, "$s%d << END_OF_DATA\n", (int)what);
    for (int32_t i = 0; i < p->m->n_held; i++) {
        if (p->m->held[i].what == what) {
            put_cell(to, p->m, p->m->held[i].column, p->m->held[i].first, p->m->held[i].last);
        }
    }
    fputs("END_OF_DATA\n", to);
}

static bool holds(const ckm_i_matrices *m, ckm_emit_class what)
{
    for (int32_t i = 0; i < m->n_held; i++) {
        if (m->held[i].what == what) {
            return true;
        }
    }
    return false;
}

// Where the backward pass begins, in both directions.
static void put_turn(FILE *to, const picture *p)
{
    if (p->f->turn_moment >= 0) {
        int turn = (int)p->m->stage[p->f->turn_moment];
        fprintf(to,
                "set arrow from %d,0 to %d,%d nohead lw 0.7 dt (2,4) lc rgb '#555555'\n"
                "set arrow from 0,%d to %d,%d nohead lw 0.7 dt (2,4) lc rgb '#555555'\n",
                turn, turn, p->m->n, turn, p->m->n, turn);
    }
}

static const char first_color[] = "#333333";
static const char again_color[] = CKM_I_VERMILION;

static void put_entry(FILE *to, double x, double y, const char *color, const char *text)
{
    ckm_i_style_swatch(to, x, y, color);
    ckm_i_style_label(to, x + 0.012, y, text, "left font ',12'");
}

// What each half shows, and to the right of it what its colours mean: two rows of two.
static void put_legends(FILE *to, const picture *p)
{
    ckm_i_style_heading(to, 0.07, 0.838, "R: computed", 13);
    put_entry(to, 0.21, 0.838, first_color, "first time");
    if (p->f->n_recomputes > 0) {
        put_entry(to, 0.33, 0.838, again_color, "again");
    }
    ckm_i_style_heading(to, 0.56, 0.838, "S: held", 13);
    int shown = 0;
    for (int c = CKM_EMIT_KEPT; c <= CKM_EMIT_GRADIENT; c++) {
        if (holds(p->m, (ckm_emit_class)c)) {
            put_entry(to, shown % 2 == 0 ? 0.67 : 0.83, shown < 2 ? 0.855 : 0.820, ckm_i_style_color((ckm_emit_class)c),
                      ckm_emit_class_name((ckm_emit_class)c));
            shown++;
        }
    }
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    const picture *p = what;
    const ckm_emit_facts *f = p->f;
    char text[400];
    char name[CKM_I_FIGURE_NAME];
    ckm_i_style_begin(to, format, 1120, 640);
    snprintf(text, sizeof text, "%s: the schedule as R and S", ckm_i_figure_name(f, name, sizeof name));
    char subtitle[256];
    snprintf(subtitle, sizeof subtitle,
             "row: a stage, which ends when the operator of that number is first computed; column: an operator; "
             "%d are computed again",
             (int)f->n_recomputed_ops);
    put_r(to, p, false);
    put_r(to, p, true);
    for (int c = CKM_EMIT_KEPT; c <= CKM_EMIT_GRADIENT; c++) {
        put_s(to, p, (ckm_emit_class)c);
    }
    fputs("set multiplot\n", to);
    ckm_i_style_title(to, text, subtitle);
    put_legends(to, p);
    fprintf(to, "set xrange [0:%d]\nset yrange [%d:0]\nset xlabel 'operator'\nset border 15\nunset grid\nunset key\n",
            p->m->n, p->m->n);
    put_turn(to, p);
    fputs("set tmargin at screen 0.79\nset bmargin at screen 0.11\nset lmargin at screen 0.07\nset rmargin at screen "
          "0.50\nset ylabel 'stage'\n",
          to);
    fprintf(to, "plot $r0 using 1:2:3:4:5:6 with boxxyerror fc rgb '%s'", first_color);
    if (f->n_recomputes > 0) {
        fprintf(to, ", $r1 using 1:2:3:4:5:6 with boxxyerror fc rgb '%s'", again_color);
    }
    fputs("\nunset label\nunset object\nset lmargin at screen 0.56\nset rmargin at screen 0.97\nunset ylabel\n", to);
    const char *separator = "plot ";
    for (int c = CKM_EMIT_KEPT; c <= CKM_EMIT_GRADIENT; c++) {
        if (holds(p->m, (ckm_emit_class)c)) {
            fprintf(to, "%s$s%d using 1:2:3:4:5:6 with boxxyerror fc rgb '%s'", separator, c,
                    ckm_i_style_color((ckm_emit_class)c));
            separator = ", ";
        }
    }
    fputs(separator[0] == ',' ? "\nunset multiplot\n" : "plot NaN notitle\nunset multiplot\n", to);
}

ckm_status ckm_i_figure_matrices(const ckm_emit_facts *facts, const char *path, ckm_error *err)
{
    ckm_i_matrices m;
    CKM_I_CHECK(ckm_i_matrices_create(facts, &m, err));
    picture p = {facts, &m};
    ckm_status status = ckm_i_style_gnuplot(put_script, &p, path, err);
    ckm_i_matrices_dispose(&m);
    return status;
}
