// SPDX-License-Identifier: Apache-2.0
// What the stage relaxation is branched on. How often a schedule computes an operator again is a whole number, and so is how
// often it computes those of a class again, which cost the same and write as much: networks of equal blocks have large ones,
// and what a relaxation spreads over the blocks, no single operator shows. Between the class and its operators are its
// halves in the graph's order, and theirs. In integer programs so is the number of equal tensors that are held at a cut.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/bounds/window_model.h"

// Operators that cost less than this share of everything decide little.
static const double least_share = 1e-5;

// An operator, or the tensor that it makes.
typedef struct member {
    int64_t cost, bytes;
    int32_t id;
} member;

// Appends the columns of a member.
typedef void put_member(ckm_i_window_model *model, int32_t id, int32_t cut);

static int64_t bytes_written(const ckm_dataflow *df, int32_t v)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
        bytes += df->tensors[df->tensors[df->ops[v].outputs[i]].storage].bytes;
    }
    return bytes;
}

static int by_class(const void *a, const void *b)
{
    const member *one = a;
    const member *other = b;
    if (one->cost != other->cost) {
        return one->cost > other->cost ? -1 : 1;
    }
    if (one->bytes != other->bytes) {
        return one->bytes > other->bytes ? -1 : 1;
    }
    return one->id < other->id ? -1 : one->id > other->id;
}

static bool has_columns(const ckm_i_window_model *model, int32_t v)
{
    for (int32_t k = -1; k < model->n_cuts; k++) {
        if (ckm_i_window_r(model, k)[v] >= 0) {
            return true;
        }
    }
    return false;
}

static void put_runs(ckm_i_window_model *model, int32_t v, int32_t cut)
{
    (void)cut;  // of all windows
    for (int32_t k = -1; k < model->n_cuts; k++) {
        int32_t col = ckm_i_window_r(model, k)[v];
        if (col >= 0) {
            ckm_i_milp_put(&model->milp, col, 1.0);
        }
    }
}

static int32_t held_column(const ckm_i_window_model *model, int32_t x, int32_t cut)
{
    return model->s_col[(int64_t)cut * model->df->n_tensors + x];
}

static void put_held(ckm_i_window_model *model, int32_t x, int32_t cut)
{
    ckm_i_milp_put(&model->milp, held_column(model, x, cut), 1.0);
}

// Rows for a class: all of it, its halves, and theirs, down to so few members.
static void add_rows(ckm_i_window_model *model, const member *members, int32_t n, put_member *put, int32_t cut,
                     int32_t least)
{
    ckm_i_milp_add_row(&model->milp, -INFINITY, INFINITY);
    for (int32_t i = 0; i < n; i++) {
        put(model, members[i].id, cut);
    }
    model->n_whole++;
    if (n / 2 >= least) {
        add_rows(model, members, n / 2, put, cut, least);
        add_rows(model, members + n / 2, n - n / 2, put, cut, least);
    }
}

static void add_classes(ckm_i_window_model *model, member *members, int32_t n, put_member *put, int32_t cut,
                        int32_t least)
{
    qsort(members, (size_t)n, sizeof *members, by_class);
    int32_t end = 0;
    for (int32_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && members[end].cost == members[i].cost && members[end].bytes == members[i].bytes;) {
            end++;
        }
        if (end - i >= least) {
            add_rows(model, members + i, end - i, put, cut, least);
        }
    }
}

// Single tensors are columns of their own.
static void add_held(ckm_i_window_model *model, member *members)
{
    enum { pair = 2 };
    const ckm_dataflow *df = model->df;
    for (int32_t k = 0; k < model->n_cuts; k++) {
        int32_t n = 0;
        for (int32_t x = 0; x < df->n_tensors; x++) {
            int32_t maker = df->tensors[x].producer;
            if (maker >= 0 && df->tensors[x].storage == x && held_column(model, x, k) >= 0) {
                members[n++] = (member){df->ops[maker].cost, df->tensors[x].bytes, x};
            }
        }
        add_classes(model, members, n, put_held, k, pair);
    }
}

ckm_status ckm_i_window_add_whole(ckm_i_window_model *model, bool held, ckm_error *err)
{
    const ckm_dataflow *df = model->df;
    size_t most = (size_t)(df->n_ops > df->n_tensors ? df->n_ops : df->n_tensors);
    member *members = ckm_i_malloc(most, sizeof *members);
    if (members == NULL) {
        return ckm_i_error_memory(err);
    }
    int32_t n = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        if ((double)df->ops[v].cost > least_share * (double)df->total_cost && has_columns(model, v)) {
            members[n++] = (member){df->ops[v].cost, bytes_written(df, v), v};
        }
    }
    model->first_whole = model->milp.n_rows;
    model->n_whole = 0;
    add_classes(model, members, n, put_runs, 0, 1);
    if (held) {
        add_held(model, members);
    }
    free(members);
    return ckm_i_milp_check(&model->milp, err);
}
