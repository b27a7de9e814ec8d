// SPDX-License-Identifier: Apache-2.0
// Cover cuts. The memory row of a cut says sum of a_j x_j <= b for binary x. A set C whose sizes exceed b cannot be held
// as a whole: sum over C of x_j <= |C| - 1. With mu_h the sum of the h largest sizes of C, anything else of at least mu_h
// takes the place of h members, so it can stand in the row with coefficient h (Balas 1975):
//   sum over C of x_j + sum over others of h_j x_j <= |C| - 1,  mu_{h_j} <= a_j.
// The relaxation holds a half of each of many large tensors; these rows say that only a few of them fit.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/bounds/sepa.h"

// The violation worth a row, and the ways in which a row is searched for a cover.
static const double min_violation = 0.02;
enum { n_ways = 3 };

// What a cover must exceed the room by, in units of which the largest tensor has 10^4 at most: far above the rounding
// errors of all sums here, so that those need no margins of their own.
static const double margin = 1e-6;

typedef struct item {
    int32_t col;
    bool in_cover;
    double size, value, key;
} item;

static int by_key(const void *a, const void *b)
{
    const item *p = a;
    const item *q = b;
    return p->key != q->key ? (p->key < q->key ? -1 : 1) : p->col - q->col;
}

static int by_size(const void *a, const void *b)
{
    const item *p = a;
    const item *q = b;
    return p->size != q->size ? (p->size > q->size ? -1 : 1) : p->col - q->col;
}

// Free items of the row; what is always there is taken off the room.
static int32_t collect(const ckm_i_milp *m, int32_t row, const double *x, item *items, double *room)
{
    int64_t end = row + 1 < m->n_rows ? m->row_start[row + 1] : m->n_entries;
    int32_t n = 0;
    *room = m->row_upper[row];
    for (int64_t e = m->row_start[row]; e < end; e++) {
        int32_t col = m->entry_col[e];
        if (m->lower[col] == 1.0) {
            *room -= m->entry_value[e];
        } else {
            items[n++] = (item){.col = col, .size = m->entry_value[e], .value = fmin(fmax(x[col], 0.0), 1.0)};
        }
    }
    return n;
}

// A minimal cover among the first items by key; returns its number of members, 0 for none. Items end up in order of size.
static int32_t find_cover(item *items, int32_t n, double room, int way)
{
    for (int32_t i = 0; i < n; i++) {
        double missing = 1.0 - items[i].value;
        items[i].in_cover = false;
        items[i].key = way == 0 ? missing : way == 1 ? missing / items[i].size : -items[i].value * items[i].size;
    }
    qsort(items, (size_t)n, sizeof *items, by_key);
    double sum = 0.0;
    int32_t members = 0;
    while (members < n && sum <= room + margin) {
        items[members].in_cover = true;
        sum += items[members++].size;
    }
    if (sum <= room + margin) {
        return 0;
    }
    // Members that are least there leave as long as the rest still exceeds the room.
    int32_t left = members;
    for (int32_t i = members - 1; i >= 0; i--) {
        if (sum - items[i].size > room + margin) {
            items[i].in_cover = false;
            sum -= items[i].size;
            left--;
        }
    }
    qsort(items, (size_t)n, sizeof *items, by_size);
    return left;
}

static void lift(item *items, int32_t n, int32_t members, ckm_i_milp *m, double *mu)
{
    // mu[h]: sum of the h largest of the cover.
    int32_t h = 0;
    mu[0] = 0.0;
    double activity = 0.0;
    for (int32_t i = 0; i < n; i++) {
        if (items[i].in_cover) {
            mu[h + 1] = mu[h] + items[i].size;
            h++;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        double coefficient = 1.0;
        if (!items[i].in_cover) {
            while (h > 0 && mu[h] > items[i].size) {
                h--;  // sizes fall, and so does h
            }
            coefficient = h;
        }
        items[i].key = coefficient;
        activity += coefficient * items[i].value;
    }
    if (activity < (double)(members - 1) + min_violation) {
        return;
    }
    int32_t row = ckm_i_milp_add_row(m, -INFINITY, (double)(members - 1));
    ckm_i_milp_set_slope(m, row, NAN);  // with more memory they may fit together
    for (int32_t i = 0; i < n; i++) {
        if (items[i].key > 0.0) {
            ckm_i_milp_put(m, items[i].col, items[i].key);
        }
    }
}

void ckm_i_sepa_covers(const void *context, const double *x, ckm_i_milp *m)
{
    const ckm_i_window_model *model = context;
    size_t n = (size_t)model->df->n_tensors;
    item *items = ckm_i_malloc(n, sizeof *items);
    double *mu = ckm_i_malloc(n + 1, sizeof *mu);
    for (int32_t k = 0; k < model->n_cuts && items != NULL && mu != NULL; k++) {
        double room;
        int32_t n_items = collect(m, model->memory_row[k], x, items, &room);
        for (int way = 0; way < n_ways; way++) {
            int32_t members = find_cover(items, n_items, room, way);
            if (members > 0) {
                lift(items, n_items, members, m, mu);
            }
        }
    }
    free(items);
    free(mu);
}
