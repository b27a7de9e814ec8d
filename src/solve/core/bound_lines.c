// SPDX-License-Identifier: Apache-2.0
#include "solve/core/bound_lines.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/core/solver.h"

void ckm_i_bound_lines_add(ckm_i_bound_lines *lines, const ckm_i_bound_line *line)
{
    if (CKM_I_GROW(lines->at, lines->n, lines->cap)) {
        lines->at[lines->n++] = *line;
    }
}

void ckm_i_bound_lines_dispose(ckm_i_bound_lines *lines)
{
    free(lines->at);
    *lines = (ckm_i_bound_lines){0};
}

// Units are whole: less memory counts as whole units less, rounded down, more memory as whole units more, rounded up.
static double value_at(const ckm_i_bound_line *line, int64_t budget_bytes)
{
    int64_t less = line->at_bytes - budget_bytes;
    if (less >= 0) {
        return line->down + line->down_slope * (double)(less / line->unit_bytes);
    }
    return line->up - line->up_slope * (double)((-less - 1) / line->unit_bytes + 1);
}

double ckm_i_bound_lines_for(const ckm_i_bound_lines *lines, int64_t budget_bytes)
{
    double best = NAN;
    for (int32_t i = 0; i < lines->n; i++) {
        double value = value_at(&lines->at[i], budget_bytes);
        if (isfinite(value)) {
            best = fmax(best, ckm_i_cost_round_up(value, lines->at[i].cost_gcd));
        }
    }
    return best;
}
