// SPDX-License-Identifier: Apache-2.0
// Rounding cuts. A row that says that something is within the budget is sum of a_j x_j <= b for binary x, with whole bytes a_j
// and b. Take 1 - x_j for some of the x_j, so that the point has all near 0, and let the row be sum of a_j y_j <= b. With any
// g > 0, and f(a) the rest of a divided by g,
//   sum of F(a_j) y_j  <=  F(b) = floor(b / g),   F(a) = floor(a / g) + max(0, f(a) - f(b)) / (g - f(b)):
// F is superadditive and does not fall, F(0) = 0, and the y_j are whole numbers (Gomory 1960; Marchand and Wolsey 2001).
// Where sizes are multiples of a few, the relaxation fills the budget with a part of a tensor in one way or another; one
// such row forbids it of all tensors at once, where cover cuts would have to name every set of them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "solve/bounds/sepa.h"

// The violation worth a row, per length of its coefficients; values of columns that count as whole; divisors tried: this many
// sizes of what is there in part, each whole, halved, and so on.
static const double min_depth = 1e-3, whole = 1e-4;
enum { max_sizes = 6, n_halvings = 3 };

// Whole bytes up to here are exact in a row's units, and sums of them in 64 bits.
static const double most_bytes = 1e14;

// What coefficients are lowered by and the side is raised by, relative: far above errors of rounding.
static const double margin = 1e-11;

typedef struct item {
    int32_t col;
    bool turned;    // y is 1 - x
    int64_t bytes;  // coefficient of y
    double value;   // of y
} item;

typedef struct rounder {
    ckm_i_milp *m;
    const double *x;
    double byte_scale;
    item *items;
    int32_t n_items;
    int64_t side;
    int64_t sizes[max_sizes];
    int n_sizes;
} rounder;

static int64_t floor_div(int64_t a, int64_t g)
{
    int64_t q = a / g;
    return a % g < 0 ? q - 1 : q;
}

static double rounded(int64_t bytes, int64_t side, int64_t g)
{
    int64_t q = floor_div(bytes, g);
    int64_t rest = bytes - q * g;
    int64_t most = side - floor_div(side, g) * g;
    return rest > most ? (double)q + (double)(rest - most) / (double)(g - most) : (double)q;
}

// Sizes that are there in part, each once.
static void note_size(rounder *r, const item *it)
{
    int64_t bytes = it->bytes < 0 ? -it->bytes : it->bytes;
    if (it->value < whole || bytes == 0 || r->n_sizes == max_sizes) {
        return;
    }
    for (int i = 0; i < r->n_sizes; i++) {
        if (r->sizes[i] == bytes) {
            return;
        }
    }
    r->sizes[r->n_sizes++] = bytes;
}

static int64_t row_end(const ckm_i_milp *m, int32_t row)
{
    return row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
}

static size_t longest_row(const ckm_i_milp *m)
{
    int64_t most = 1;
    for (int32_t row = 0; row < m->n_rows; row++) {
        int64_t n = row_end(m, row) - m->row_start[row];
        most = n > most ? n : most;
    }
    return (size_t)most;
}

// The row in whole bytes, columns near 1 turned round. False where it is too large for that.
static bool read_row(rounder *r, int32_t row)
{
    const ckm_i_milp *m = r->m;
    int64_t end = row_end(m, row);
    double sum = fabs(m->row_upper[row]);
    for (int64_t e = m->row_start[row]; e < end; e++) {
        sum += fabs(m->entry_value[e]);
    }
    r->n_items = 0;
    r->n_sizes = 0;
    if (!(sum * r->byte_scale < most_bytes)) {
        return false;
    }
    r->side = llround(m->row_upper[row] * r->byte_scale);
    for (int64_t e = m->row_start[row]; e < end; e++) {
        int32_t col = m->entry_col[e];
        int64_t bytes = llround(m->entry_value[e] * r->byte_scale);
        double value = fmin(fmax(r->x[col], 0.0), 1.0);
        bool turned = value > 0.5;
        item it = {
            .col = col, .turned = turned, .bytes = turned ? -bytes : bytes, .value = turned ? 1.0 - value : value};
        r->side -= turned ? bytes : 0;
        r->items[r->n_items++] = it;
        note_size(r, &it);
    }
    return true;
}

// How far the point is beyond the row for g.
static double depth(const rounder *r, int64_t g)
{
    double left = -(double)floor_div(r->side, g);
    double square = 0.0;
    for (int32_t i = 0; i < r->n_items; i++) {
        double coefficient = rounded(r->items[i].bytes, r->side, g);
        left += coefficient * r->items[i].value;
        square += coefficient * coefficient;
    }
    return square > 0.0 ? left / sqrt(square) : 0.0;
}

static void add_row(const rounder *r, int64_t g)
{
    double side = (double)floor_div(r->side, g);
    double magnitude = fabs(side);
    int32_t row = ckm_i_milp_add_row(r->m, -INFINITY, 0.0);
    // With more memory F rises, nowhere faster than this; with less the row still holds.
    ckm_i_milp_set_slope(r->m, row, -1.0 / (double)(g - (r->side - floor_div(r->side, g) * g)));
    for (int32_t i = 0; i < r->n_items; i++) {
        double coefficient = rounded(r->items[i].bytes, r->side, g);
        coefficient -= fabs(coefficient) * margin;
        if (coefficient == 0.0) {
            continue;
        }
        ckm_i_milp_put(r->m, r->items[i].col, r->items[i].turned ? -coefficient : coefficient);
        side -= r->items[i].turned ? coefficient : 0.0;
        magnitude += fabs(coefficient);
    }
    if (!r->m->failed) {
        r->m->row_upper[row] = side + magnitude * margin;
    }
}

static void cut_row(rounder *r, int32_t row)
{
    int64_t best = 0;
    double deepest = min_depth;
    if (!read_row(r, row)) {
        return;
    }
    for (int i = 0; i < r->n_sizes; i++) {
        for (int h = 0; h <= n_halvings; h++) {
            int64_t g = r->sizes[i] >> h;
            double by = g > 0 ? depth(r, g) : 0.0;
            if (by > deepest) {
                deepest = by;
                best = g;
            }
        }
    }
    if (best > 0) {
        add_row(r, best);
    }
}

void ckm_i_sepa_roundings(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_window_model *model = context;
    rounder r = {.m = m, .x = x, .byte_scale = model->byte_scale};
    r.items = ckm_i_malloc(longest_row(m), sizeof *r.items);
    int32_t n = m->n_rows;
    for (int32_t row = 0; row < n && r.items != NULL && !m->failed; row++) {
        if (m->row_slope[row] > 0.0) {  // the budget is on its right side
            cut_row(&r, row);
        }
    }
    free(r.items);
}
