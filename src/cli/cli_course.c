// SPDX-License-Identifier: Apache-2.0
// The course of a solve: every improvement it reported, kept for a figure.
#include <math.h>
#include <stdlib.h>

#include "cli/cli_solve.h"
#include "cli/cli_values.h"

void cli_course_note(cli_progress *p, double seconds, int64_t cost, double bound_cost)
{
    if (p->course_status != CKM_OK) {
        return;
    }
    if (p->n_points == p->cap_points) {
        int32_t cap = p->cap_points < 64 ? 64 : 2 * p->cap_points;
        ckm_emit_progress *more = realloc(p->points, (size_t)cap * sizeof *more);
        if (more == NULL) {
            p->course_status = CKM_ERR_MEMORY;  // a callback cannot fail; drawing will
            return;
        }
        p->points = more;
        p->cap_points = cap;
    }
    double whole = p->baseline_cost > 0 ? (double)p->baseline_cost : 1;
    p->points[p->n_points++] = (ckm_emit_progress){seconds, cost < 0 ? NAN : (double)cost / whole - 1,
                                                   fmax(bound_cost / whole - 1, 0)};
    if (isnan(bound_cost)) {
        p->points[p->n_points - 1].bound = NAN;  // fmax takes NaN for absent
    }
}

ckm_status cli_course_draw(cli_progress *p, const char *title, const ckm_solve_result *result, const char *path,
                           ckm_error *err)
{
    cli_course_note(p, result->seconds, result->cost, result->bound_cost);
    if (p->course_status != CKM_OK) {
        return cli_error(err, p->course_status, NULL, "out of memory");
    }
    return ckm_emit_course_figure(title, p->points, p->n_points, result->bound_covers, path, err);
}

void cli_course_dispose(cli_progress *p)
{
    free(p->points);
    p->points = NULL;
    p->n_points = p->cap_points = 0;
}
