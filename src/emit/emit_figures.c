// SPDX-License-Identifier: Apache-2.0
// The table of the figures that show a schedule, and what several of them need.
#include "emit/emit_figures.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "emit/emit_style.h"

// A new figure: its file, its line in emit_figures.h, its row.
static const struct {
    const char *name, *summary;
    ckm_status (*draw)(const ckm_emit_facts *facts, const char *path, ckm_error *err);
} figures[] = {
    {"memory", "memory in use over the step, what it is made of, and without rematerialization", ckm_i_figure_memory},
    {"arena", "where in one block of memory everything lies, and for how long", ckm_i_figure_arena},
    {"matrices", "the paper's R and S: what every stage computes, and what is held into it", ckm_i_figure_matrices},
    {"transfers", "the step over time: operators, copies to the second memory and back, and what waits for which",
     ckm_i_figure_transfers},
    {"graph", "the training graph, coloured by what is kept and what is computed again", ckm_i_figure_graph},
};
enum { N_FIGURES = sizeof figures / sizeof figures[0] };

int32_t ckm_emit_figure_count(void)
{
    return N_FIGURES;
}

const char *ckm_emit_figure_name(int32_t i)
{
    return i >= 0 && i < N_FIGURES ? figures[i].name : NULL;
}

const char *ckm_emit_figure_summary(int32_t i)
{
    return i >= 0 && i < N_FIGURES ? figures[i].summary : NULL;
}

ckm_status ckm_emit_figure(const ckm_emit_facts *facts, const char *name, const char *path, ckm_error *err)
{
    CKM_I_NEED(facts, err);
    CKM_I_NEED(name, err);
    CKM_I_NEED(path, err);
    for (int32_t i = 0; i < N_FIGURES; i++) {
        if (strcmp(figures[i].name, name) == 0) {
            return figures[i].draw(facts, path, err);
        }
    }
    return ckm_i_error(err, CKM_ERR_NOT_FOUND, "there is no figure '%s'", name);
}
