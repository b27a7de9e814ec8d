// SPDX-License-Identifier: Apache-2.0
// Solutions that satisfy the widened rows of milp_cbc.c but not the rows themselves, and rows of small integers that cut
// them off.
#include <float.h>
#include <stdlib.h>

#include "milp/milp.h"

static const double integral = 1e-6;

// A column at its end of a row that pushes the row up: at 1 with a positive coefficient, at 0 with a negative one.
typedef struct member {
    int32_t col;
    bool up;
    double size;
} member;

static int by_size(const void *a, const void *b)
{
    const member *p = a;
    const member *q = b;
    return p->size != q->size ? (p->size < q->size ? -1 : 1) : p->col - q->col;
}

// The members of the row at x, and by how much they exceed its upper side for any values of the other columns. 0 where they do
// not, or where x is fractional. Coefficients and sides that are no whole numbers of units are rounded: what that may
// amount to comes off.
static int32_t collect(const ckm_i_milp *m, int32_t row, const double *x, member *members, double *excess)
{
    int64_t end = row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
    int32_t n = 0;
    double sum = -m->row_upper[row];
    double terms = fabs(m->row_upper[row]);
    for (int64_t e = m->row_start[row]; e < end; e++) {
        int32_t col = m->entry_col[e];
        double value = m->entry_value[e];
        double at = round(x[col]);
        if (fabs(x[col] - at) > integral || at < 0.0 || at > 1.0) {
            return 0;
        }
        sum += value * at;
        terms += fabs(value);
        if ((value > 0.0) == (at == 1.0)) {
            members[n++] = (member){.col = col, .up = at == 1.0, .size = fabs(value)};
        }
    }
    *excess = sum - 4.0 * DBL_EPSILON * terms;
    return *excess > 0.0 ? n : 0;
}

// The members cannot all keep their values. The smaller ones are dropped as long as the rest still exceeds the side: fewer
// members cut off more.
static void append_cover(ckm_i_milp *m, member *members, int32_t n, double excess)
{
    qsort(members, (size_t)n, sizeof *members, by_size);
    int32_t row = ckm_i_milp_add_row(m, -INFINITY, 0.0);
    double side = -1.0;
    for (int32_t i = 0; i < n; i++) {
        if (members[i].size < excess) {
            excess -= members[i].size;
            continue;
        }
        ckm_i_milp_put(m, members[i].col, members[i].up ? 1.0 : -1.0);
        side += members[i].up ? 1.0 : 0.0;
    }
    if (!m->failed) {
        m->row_upper[row] = side;
    }
}

int32_t ckm_i_milp_cut_off(ckm_i_milp *m, const double *x)
{
    int32_t before = m->n_rows;
    member *members = malloc((size_t)m->n_cols * 2 * sizeof *members);
    size_t room = (size_t)m->n_cols * 2;
    for (int32_t row = 0; row < before && members != NULL && !m->failed; row++) {
        int64_t end = row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
        double excess = 0.0;
        bool bounded = isfinite(m->row_upper[row]) && (size_t)(end - m->row_start[row]) <= room;
        int32_t n = bounded ? collect(m, row, x, members, &excess) : 0;
        if (n > 0) {
            append_cover(m, members, n, excess);
        }
    }
    free(members);
    return m->failed ? 0 : m->n_rows - before;
}
