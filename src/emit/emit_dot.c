// SPDX-License-Identifier: Apache-2.0
// The language of graphviz: quoting, the look, legends, and running dot.
#include "emit/emit_dot.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/plain.h"
#include "emit/emit_run.h"

void ckm_i_dot_quote(FILE *to, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', to);
            fputc(*c, to);
        } else if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            fputc(' ', to);
        } else {
            fputc(*c, to);
        }
    }
}

void ckm_i_dot_html(FILE *to, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '<' || *c == '>' || *c == '&') {
            fputs(*c == '<' ? "&lt;" : *c == '>' ? "&gt;" : "&amp;", to);
        } else {
            fputc((unsigned char)*c < 0x20 || *c == 0x7f ? ' ' : *c, to);
        }
    }
}

void ckm_i_dot_begin(FILE *to, const char *name)
{
    fputs("digraph \"", to);
    ckm_i_dot_quote(to, name);
    fputs("\" {\n"
          "  graph [rankdir=TB, nodesep=0.16, ranksep=0.22, fontname=\"Helvetica\", fontsize=12, labeljust=l];\n"
          "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=10, margin=\"0.09,0.04\", "
          "height=0.3, penwidth=0.6, color=\"#666666\"];\n"
          "  edge [color=\"#888888\", arrowsize=0.5, penwidth=0.8];\n",
          to);
}

void ckm_i_dot_put_legend(FILE *to, const char *title, const ckm_i_dot_legend *rows, int n)
{
    // Where a row is wider than the others, graphviz widens all columns alike: most of them are empty, so that the squares
    // stay squares.
    enum { EMPTY = 20 };
    fprintf(to,
            "  labelloc=t;\n  label=<<table border=\"0\" cellspacing=\"0\"><tr><td align=\"left\" colspan=\"%d\"><b>",
            EMPTY + 1);
    ckm_i_dot_html(to, title);
    fputs("</b></td></tr><tr><td align=\"left\"><table border=\"0\" cellspacing=\"4\" cellpadding=\"0\"><tr>", to);
    for (int i = 0; i < n; i++) {
        fprintf(to,
                "<td bgcolor=\"%s\" width=\"16\" border=\"1\" color=\"#666666\"></td><td align=\"left\"> %s   </td>",
                rows[i].color, rows[i].text);
    }
    fputs("</tr></table></td>", to);
    for (int i = 0; i < EMPTY; i++) {
        fputs("<td></td>", to);
    }
    fputs("</tr></table>>;\n", to);
}

ckm_status ckm_i_dot_draw(ckm_i_dot_put_fn put, const void *what, const char *path, ckm_error *err)
{
    static const char *const format_arguments[] = {"-Tsvg", "-Tpdf", "-Tpng"};
    ckm_i_figure_format format;
    CKM_I_CHECK(ckm_i_figure_format_of(path, &format, err));
    FILE *script = tmpfile();
    if (script == NULL) {
        return ckm_i_error(err, CKM_ERR_IO, "cannot create a temporary file: %s", strerror(errno));
    }
    ckm_i_plain plain;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_plain_begin(&plain, err));
    put(script, what);
    ckm_i_plain_end(&plain);
    const char *const argv[] = {"dot", "-Kneato", "-n2", format_arguments[format], NULL};
    status = ckm_i_emit_run(argv, script, path, "graphviz", err);
cleanup:
    fclose(script);
    return status;
}
