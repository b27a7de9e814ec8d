// SPDX-License-Identifier: Apache-2.0
// What the stage relaxation is branched on. How often a schedule computes an operator again is a whole number, and so is how
// often it computes those of a class again, which cost the same and write as much: networks of equal blocks have large ones,
// and what a relaxation spreads over the blocks, no single operator shows. Between the class and its operators are its
// halves in the graph's order, and theirs.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/bounds/stage_model.h"

// Operators that cost less than this share of everything decide little.
static const double least_share = 1e-5;

typedef struct member {
    int64_t cost, bytes;
    int32_t op;
} member;

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
    return one->op < other->op ? -1 : one->op > other->op;
}

static bool has_columns(const ckm_i_stage_model *model, int32_t v)
{
    for (int32_t k = -1; k < model->n_cuts; k++) {
        if (ckm_i_stage_r(model, k)[v] >= 0) {
            return true;
        }
    }
    return false;
}

static void add_row(ckm_i_stage_model *model, const member *members, int32_t n)
{
    ckm_i_milp_add_row(&model->milp, -INFINITY, INFINITY);
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = -1; k < model->n_cuts; k++) {
            int32_t col = ckm_i_stage_r(model, k)[members[i].op];
            if (col >= 0) {
                ckm_i_milp_put(&model->milp, col, 1.0);
            }
        }
    }
    model->n_whole++;
}

static void add_rows(ckm_i_stage_model *model, const member *members, int32_t n)
{
    add_row(model, members, n);
    if (n > 1) {
        add_rows(model, members, n / 2);
        add_rows(model, members + n / 2, n - n / 2);
    }
}

ckm_status ckm_i_stage_add_whole(ckm_i_stage_model *model, ckm_error *err)
{
    const ckm_dataflow *df = model->df;
    member *members = ckm_i_malloc((size_t)df->n_ops, sizeof *members);
    if (members == NULL) {
        return ckm_i_error_memory(err);
    }
    int32_t n = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        if ((double)df->ops[v].cost > least_share * (double)df->total_cost && has_columns(model, v)) {
            members[n++] = (member){df->ops[v].cost, bytes_written(df, v), v};
        }
    }
    qsort(members, (size_t)n, sizeof *members, by_class);
    model->first_whole = model->milp.n_rows;
    model->n_whole = 0;
    int32_t end = 0;
    for (int32_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && members[end].cost == members[i].cost && members[end].bytes == members[i].bytes;) {
            end++;
        }
        add_rows(model, members + i, end - i);
    }
    free(members);
    return ckm_i_milp_check(&model->milp, err);
}
