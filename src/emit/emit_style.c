// SPDX-License-Identifier: Apache-2.0
// The look that all figures share.
#include "emit/emit_style.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/plain.h"
#include "base/text.h"

const char *ckm_i_style_color(ckm_emit_class what)
{
    static const char *const colors[CKM_EMIT_N_CLASSES] = {
        "#9a9a9a", "#c9c9c9", CKM_I_BLUE, CKM_I_SKY, CKM_I_ORANGE, CKM_I_GREEN, CKM_I_PURPLE,
    };
    return colors[what];
}

// Divides by 1000 up to `last` times and gives how often.
static int scale(double *value, int last)
{
    int step = 0;
    while (fabs(*value) >= 999.5 && step < last) {
        *value /= 1000;
        step++;
    }
    return step;
}

// Three digits that count, and no more than the number has.
static int digits(double value, int step)
{
    if (step == 0) {
        return 0;
    }
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

const char *ckm_i_style_bytes(int64_t bytes, char text[CKM_I_STYLE_TEXT])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    int step = scale(&value, 6);
    snprintf(text, CKM_I_STYLE_TEXT, "%.*f %s", digits(value, step), value, units[step]);
    return text;
}

const char *ckm_i_style_cost(int64_t cost, ckm_cost_unit unit, char text[CKM_I_STYLE_TEXT])
{
    static const char *const macs[] = {"MACs", "kMACs", "MMACs", "GMACs", "TMACs", "PMACs", "EMACs"};
    static const char *const times[] = {"ns", "us", "ms", "s"};
    double value = (double)cost;
    int start = unit == CKM_COST_US ? 1 : 0;
    int step = start + scale(&value, unit == CKM_COST_FLOPS ? 6 : 3 - start);
    snprintf(text, CKM_I_STYLE_TEXT, "%.*f %s", digits(value, step - start), value,
             unit == CKM_COST_FLOPS ? macs[step] : times[step]);
    return text;
}

const char *ckm_i_style_percent(double fraction, char text[CKM_I_STYLE_TEXT])
{
    double percent = 100 * fraction;
    int places = percent == 0 || fabs(percent) >= 10 ? 1 : fabs(percent) >= 0.1 ? 2 : 4;
    snprintf(text, CKM_I_STYLE_TEXT, "%.*f %%", places, percent);
    return text;
}

const char *ckm_i_style_covers(ckm_bound_class covers)
{
    switch (covers) {
    case CKM_BOUND_ANY:
        return "";
    case CKM_BOUND_ORDER:
        return " in the graph's order";
    case CKM_BOUND_FRONTIER:
        return " that advances by stages";
    default:
        return " of the class that the strategy's bound covers";
    }
}

const char *ckm_i_style_axis_unit(int64_t most, double *bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)most;
    int step = scale(&value, 6);
    *bytes = pow(1000, step);
    return units[step];
}

const char *ckm_i_style_short(const char *name, int length, char *text)
{
    // Where every character begins; malformed bytes count as characters of their own.
    int n = 0;
    for (const char *at = name; *at != '\0'; n++) {
        size_t size = ckm_i_text_utf8(at);
        at += size > 0 ? size : 1;
    }
    int head = n <= length ? n : (length - 1) / 2;
    int tail = n <= length ? 0 : length - 1 - head;
    char *to = text;
    int i = 0;
    for (const char *at = name; *at != '\0'; i++) {
        size_t size = ckm_i_text_utf8(at);
        if (i == head) {
            memcpy(to, "\xe2\x80\xa6", 3);  // an ellipsis
            to += 3;
        }
        if (i < head || i >= n - tail) {
            if (size == 0 || (unsigned char)*at < 0x20 || *at == 0x7f) {
                *to++ = size == 0 ? '?' : ' ';
            } else {
                memcpy(to, at, size);
                to += size;
            }
        }
        at += size > 0 ? size : 1;
    }
    *to = '\0';
    return text;
}

void ckm_i_style_quote(FILE *to, const char *text)
{
    fputc('\'', to);
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++) {
        if (*c == '\'') {
            fputc('\'', to);
        }
        fputc((unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c, to);
    }
    fputc('\'', to);
}

void ckm_i_style_quote_bold(FILE *to, const char *text, int size)
{
    // Bold is an escape of enhanced text, in which some characters mean something: those are escaped.
    fprintf(to, "'{/:Bold=%d ", size);
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++) {
        if (strchr("\\{}_^@&~", *c) != NULL) {
            fputc('\\', to);
        }
        if (*c == '\'') {
            fputc('\'', to);
        }
        fputc((unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c, to);
    }
    fputs("}'", to);
}

void ckm_i_style_begin(FILE *to, ckm_i_figure_format format, int width, int height)
{
    static const char *const line_colors[] = {CKM_I_BLUE,   CKM_I_VERMILION, CKM_I_GREEN, CKM_I_ORANGE,
                                              CKM_I_PURPLE, CKM_I_SKY,       "#000000",   CKM_I_YELLOW};
    if (format == CKM_I_FIGURE_SVG) {
        fprintf(to, "set terminal svg size %d,%d dynamic enhanced font 'Helvetica,13' background rgb 'white'\n", width,
                height);
    } else if (format == CKM_I_FIGURE_PDF) {
        fprintf(to,
                "set terminal pdfcairo size %.1fcm,%.1fcm enhanced font 'Helvetica,13' fontscale 0.65 linewidth 0.7\n",
                width / 50.0, height / 50.0);
    } else {
        fprintf(to, "set terminal pngcairo size %d,%d enhanced font 'Helvetica,13' fontscale 1.35 linewidth 1.5\n",
                3 * width / 2, 3 * height / 2);
    }
    fputs("set encoding utf8\nset border 3 lc rgb '#555555'\nset tics nomirror out scale 0.6 tc rgb '#333333'\n"
          "set grid lt 1 lw 0.6 lc rgb '#e4e4e4'\nset style fill solid 1.0 noborder\n"
          "set style textbox opaque fc rgb 'white' noborder margins 0.3, 0.1\n",
          to);
    for (int i = 0; i < 8; i++) {
        fprintf(to, "set linetype %d lc rgb '%s'\n", i + 1, line_colors[i]);
    }
    fputs("set linetype cycle 8\n", to);
}

void ckm_i_style_label(FILE *to, double x, double y, const char *text, const char *how)
{
    fputs("set label ", to);
    ckm_i_style_quote(to, text);
    fprintf(to, " at screen %.4f, screen %.4f noenhanced front %s\n", x, y, how);
}

void ckm_i_style_heading(FILE *to, double x, double y, const char *text, int size)
{
    fputs("set label ", to);
    ckm_i_style_quote_bold(to, text, size);
    fprintf(to, " at screen %.4f, screen %.4f left enhanced front\n", x, y);
}

void ckm_i_style_swatch(FILE *to, double x, double y, const char *color)
{
    fprintf(to,
            "set object rectangle center screen %.4f, screen %.4f size screen 0.013, screen 0.022 fc rgb '%s' "
            "fs solid noborder front\n",
            x, y, color);
}

void ckm_i_style_title(FILE *to, const char *title, const char *subtitle)
{
    char text[4 * 96 + 4];
    ckm_i_style_heading(to, 0.02, 0.955, ckm_i_style_short(title, 96, text), 15);
    if (subtitle != NULL) {
        ckm_i_style_label(to, 0.02, 0.905, subtitle, "left tc rgb '#555555'");
    }
}

ckm_status ckm_i_style_gnuplot(ckm_i_put_fn put, const void *what, const char *path, ckm_error *err)
{
    ckm_i_figure_format format;
    CKM_I_CHECK(ckm_i_figure_format_of(path, &format, err));
    FILE *script = tmpfile();
    if (script == NULL) {
        return ckm_i_error(err, CKM_ERR_IO, "cannot create a temporary file: %s", strerror(errno));
    }
    ckm_i_plain plain;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_plain_begin(&plain, err));
    put(script, what, format);
    ckm_i_plain_end(&plain);
    // The script comes through standard input, "-": a named file would need a name.
    const char *argv[] = {"gnuplot", "-", NULL};
    status = ckm_i_emit_run(argv, script, path, "gnuplot-nox", err);
cleanup:
    fclose(script);
    return status;
}
