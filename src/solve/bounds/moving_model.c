// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/moving_model.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/bounds/window_model.h"
#include "solve/core/structure.h"

typedef struct builder {
    const ckm_dataflow *df;
    ckm_i_moving_model *out;
    ckm_i_milp *m;
    double longest;
    int32_t *group_col, *last_need;
    int32_t *leaving_col;  // [k * n_tensors + g]
    int32_t *coming_col;   // likewise
    double *out_time, *in_time;
    int32_t *needed;                // by tensor: the last window that needs it
    int32_t *members_at, *members;  // tensors of each storage
} builder;

// Tensors that the program knows: made by operators, and not always there.
static bool is_followed(const ckm_dataflow *df, int32_t x)
{
    return !df->tensors[x].pinned && df->tensors[x].producer >= 0 && !ckm_i_is_loaded(df, df->tensors[x].storage);
}

static bool moves(const ckm_dataflow *df, int32_t g)
{
    return df->tensors[g].alias_of < 0 && is_followed(df, g);
}

int32_t ckm_i_moving_base(const ckm_i_moving_model *model, int32_t x)
{
    while (model->view_of[x] >= 0) {
        x = model->view_of[x];
    }
    return x;
}

static int32_t end_of(const ckm_i_moving_model *model, int32_t k)
{
    return k + 1 < model->n_cuts ? model->cuts[k + 1] : model->df->n_ops - 1;
}

static int32_t cut_of(const ckm_i_moving_model *model, int32_t k)
{
    return k >= 0 ? model->cuts[k] : -1;
}

// The row at `at` of a table with a row of n a cut or window.
static int32_t *row(int32_t *table, int32_t at, int32_t n)
{
    return table + (int64_t)at * n;
}

static void add_again_columns(const builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t *r = row(b->out->r_col, k + 1, df->n_ops);
    int32_t cut = cut_of(b->out, k);
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        bool possible = v <= end_of(b->out, k) && op->recomputable && op->kind != CKM_OP_LOAD &&
                        b->last_need[v] > (v > cut ? v : cut);
        r[v] = possible ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false) : -1;
    }
}

// T[k] >= first computations of the window and all others.
static void add_time(const builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    const int32_t *r = row(b->out->r_col, k + 1, df->n_ops);
    double scale = b->out->cost_scale;
    double first = 0.0;
    for (int32_t v = cut_of(b->out, k) + 1; v <= end_of(b->out, k); v++) {
        first += df->ops[v].kind == CKM_OP_LOAD ? 0.0 : (double)df->ops[v].cost;
    }
    b->out->time_col[k + 1] = ckm_i_milp_add_col(b->m, 1.0, 0.0, b->longest / scale, false);
    ckm_i_milp_add_row(b->m, first / scale * (1.0 - 1e-12), INFINITY);
    ckm_i_milp_put(b->m, b->out->time_col[k + 1], 1.0);
    for (int32_t v = 0; v < df->n_ops; v++) {
        if (r[v] >= 0) {
            ckm_i_milp_put(b->m, r[v], -(double)df->ops[v].cost / scale);
        }
    }
}

// Columns of transfers that end in window k, and of those under way at its cut.
static void add_transfer_columns(const builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t n = df->n_tensors;
    int32_t cut = cut_of(b->out, k);
    for (int32_t g = 0; g < n; g++) {
        bool can = moves(df, g);
        bool made = can && df->tensors[g].producer <= cut;
        row(b->out->out_col, k + 1, n)[g] = can && df->tensors[g].producer <= end_of(b->out, k)
                                                ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false)
                                                : -1;
        if (k >= 0) {
            row(b->out->back_col, k, n)[g] = made ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false) : -1;
            row(b->leaving_col, k, n)[g] = made ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false) : -1;
            row(b->coming_col, k, n)[g] = made ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false) : -1;
        }
    }
}

static void add_cut_columns(const builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t *s = row(b->out->s_col, k, df->n_tensors);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        bool followed = is_followed(df, x) && (tensor->n_users > 0 || tensor->is_result) &&
                        tensor->producer <= b->out->cuts[k] && b->last_need[tensor->producer] > b->out->cuts[k];
        s[x] = followed ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false) : -1;
    }
}

static void put(const builder *b, int32_t col, double value)
{
    if (col >= 0) {
        ckm_i_milp_put(b->m, col, value);
    }
}

// s + r + back - col >= at_least, of a tensor made up to cut k. Where others share its storage, what comes back had left, or its storage was
// there, on its way out, so that the same holds with the storage's presence for s and all that left before for back.
static void add_available(const builder *b, int32_t k, int32_t x, int32_t col, double at_least)
{
    const ckm_dataflow *df = b->df;
    int32_t n = df->n_tensors;
    int32_t g = df->tensors[x].storage;
    int32_t present = row(b->out->present_col, k, n)[g];
    if (!is_followed(df, x)) {
        return;
    }
    for (int which = 0; which < (b->out->n_on[g] > 1 && present >= 0 ? 2 : 1); which++) {
        ckm_i_milp_add_row(b->m, at_least, INFINITY);
        put(b, which == 0 ? row(b->out->s_col, k, n)[x] : present, 1.0);
        put(b, row(b->out->r_col, k + 1, df->n_ops)[df->tensors[x].producer], 1.0);
        put(b, which == 0 ? row(b->out->back_col, k, n)[g] : -1, 1.0);
        for (int32_t j = -1; which == 1 && j < k; j++) {
            put(b, row(b->out->out_col, j + 1, n)[g], 1.0);
        }
        put(b, col, -1.0);
    }
}

// The same for what x is a view of in the end: where a view is, that has been.
static void require_available(const builder *b, int32_t k, int32_t x, int32_t col, double at_least)
{
    int32_t base = ckm_i_moving_base(b->out, x);
    add_available(b, k, x, col, at_least);
    if (base != x) {
        add_available(b, k, base, col, at_least);
    }
}

static void require_once(const builder *b, int32_t k, int32_t x)
{
    if (b->df->tensors[x].producer <= b->out->cuts[k] && b->needed[x] != k) {
        b->needed[x] = k;
        require_available(b, k, x, -1, 1.0);
    }
}

static void add_window(const builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t cut = b->out->cuts[k];
    const int32_t *r = row(b->out->r_col, k + 1, df->n_ops);
    for (int32_t v = 0; v <= cut; v++) {
        for (int32_t i = 0; r[v] >= 0 && i < df->ops[v].n_inputs; i++) {
            require_available(b, k, df->ops[v].inputs[i], r[v], 0.0);
        }
    }
    for (int32_t u = cut + 1; u <= end_of(b->out, k); u++) {
        for (int32_t i = 0; i < df->ops[u].n_inputs; i++) {
            require_once(b, k, df->ops[u].inputs[i]);
        }
    }
    if (k + 1 == b->out->n_cuts) {
        for (int32_t i = 0; i < df->n_results; i++) {
            require_once(b, k, df->results[i]);
        }
        return;
    }
    const int32_t *next = row(b->out->s_col, k + 1, df->n_tensors);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (next[x] >= 0 && df->tensors[x].producer <= cut) {
            require_available(b, k, x, next[x], 0.0);
        }
    }
}

// Presence of a storage at cut k: once, however many tensors are on it. What the operator before the cut touches has no column of its own.
static void put_presence(const builder *b, int32_t k, int32_t g)
{
    const int32_t *s = row(b->out->s_col, k, b->df->n_tensors);
    put(b, b->group_col[g], 1.0);
    for (int32_t i = b->members_at[g]; b->group_col[g] < 0 && i < b->members_at[g + 1]; i++) {
        put(b, s[b->members[i]], 1.0);
    }
}

// What leaves in window k was there at its cut, or something on it is made again in the window. Nothing is said where something on it is
// made there for the first time.
static void add_departure(const builder *b, int32_t k, int32_t g)
{
    const ckm_dataflow *df = b->df;
    const int32_t *r = row(b->out->r_col, k + 1, df->n_ops);
    int32_t end = end_of(b->out, k);
    for (int32_t i = b->members_at[g]; i < b->members_at[g + 1]; i++) {
        int32_t maker = df->tensors[b->members[i]].producer;
        if (maker > b->out->cuts[k] && maker <= end) {
            return;
        }
    }
    ckm_i_milp_add_row(b->m, 0.0, INFINITY);
    put_presence(b, k, g);
    for (int32_t i = b->members_at[g]; i < b->members_at[g + 1]; i++) {
        put(b, r[df->tensors[b->members[i]].producer], 1.0);
    }
    put(b, row(b->out->out_col, k + 1, df->n_tensors)[g], -1.0);
}

// What leaves and comes back at cut k: a way back only of what has left before, and what is under way must end.
static void add_transfer_rows(const builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t n = df->n_tensors;
    for (int32_t g = 0; g < n; g++) {
        int32_t back = row(b->out->back_col, k, n)[g];
        int32_t leaving = row(b->leaving_col, k, n)[g];
        int32_t coming = row(b->coming_col, k, n)[g];
        if (back < 0) {
            continue;
        }
        for (int which = 0; which < 2; which++) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            for (int32_t j = -1; j < k; j++) {
                put(b, row(b->out->out_col, j + 1, n)[g], 1.0);
            }
            // Of several tensors on a storage one may be gone while the storage is on its way out.
            put(b, which == 0 && b->out->n_on[g] > 1 ? leaving : -1, 1.0);
            put(b, which == 0 ? back : coming, -1.0);
        }
        ckm_i_milp_add_row(b->m, 0.0, INFINITY);  // is there while it leaves
        put_presence(b, k, g);
        put(b, leaving, -1.0);
        add_departure(b, k, g);
        for (int which = 0; which < 2; which++) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            for (int32_t j = k; j < b->out->n_cuts; j++) {
                put(b, which == 0 ? row(b->out->out_col, j + 1, n)[g] : row(b->out->back_col, j, n)[g], 1.0);
            }
            put(b, which == 0 ? leaving : coming, -1.0);
        }
    }
}

// What is moved each way between two cuts, apart from what was under way at the first, takes no longer than the windows between them.
static void add_links(const builder *b)
{
    const ckm_dataflow *df = b->df;
    int32_t n = df->n_tensors;
    double scale = b->out->cost_scale;
    for (int32_t j = -1; j < b->out->n_cuts; j++) {
        for (int32_t k = j; k < b->out->n_cuts; k++) {
            for (int which = 0; which < 2; which++) {
                ckm_i_milp_add_row(b->m, 0.0, INFINITY);
                for (int32_t i = j; i <= k; i++) {
                    ckm_i_milp_put(b->m, b->out->time_col[i + 1], 1.0);
                }
                const double *takes = which == 0 ? b->out_time : b->in_time;
                for (int32_t g = 0; g < n; g++) {
                    for (int32_t i = j; i <= k; i++) {
                        int32_t col = which == 0 ? row(b->out->out_col, i + 1, n)[g]
                                      : i >= 0   ? row(b->out->back_col, i, n)[g]
                                                 : -1;
                        put(b, col, -takes[g] / scale);
                    }
                    int32_t *under_way = which == 0 ? b->leaving_col : b->coming_col;
                    put(b, j >= 0 ? row(under_way, j, n)[g] : -1, takes[g] / scale);
                }
            }
        }
    }
}

static void add_memory(const builder *b, int32_t k, int64_t room_bytes)
{
    const ckm_dataflow *df = b->df;
    double byte_scale = ckm_i_byte_scale(df);
    ckm_i_add_cut_memory(b->m, df, b->out->cuts[k], row(b->out->s_col, k, df->n_tensors), b->out->view_of, room_bytes,
                         byte_scale, b->group_col);
    for (int32_t g = 0; g < df->n_tensors; g++) {
        put(b, row(b->coming_col, k, df->n_tensors)[g], (double)df->tensors[g].bytes / byte_scale);
    }
    const int32_t *s = row(b->out->s_col, k, df->n_tensors);
    for (int32_t g = 0; g < df->n_tensors; g++) {  // a storage is there by a tensor on it
        row(b->out->present_col, k, df->n_tensors)[g] = b->group_col[g];
        if (b->group_col[g] >= 0 && b->members_at[g + 1] - b->members_at[g] > 1) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            for (int32_t i = b->members_at[g]; i < b->members_at[g + 1]; i++) {
                put(b, s[b->members[i]], 1.0);
            }
            put(b, b->group_col[g], -1.0);
        }
    }
}

static bool allocate(builder *b, const int32_t *cuts)
{
    ckm_i_moving_model *out = b->out;
    size_t ops = (size_t)b->df->n_ops;
    size_t tensors = (size_t)b->df->n_tensors;
    size_t n = (size_t)out->n_cuts;
    out->cuts = ckm_i_memdup(cuts, n, sizeof *cuts);
    out->s_col = ckm_i_malloc(n * tensors, sizeof *out->s_col);
    out->r_col = ckm_i_malloc((n + 1) * ops, sizeof *out->r_col);
    out->out_col = ckm_i_malloc((n + 1) * tensors, sizeof *out->out_col);
    out->back_col = ckm_i_malloc(n * tensors, sizeof *out->back_col);
    out->present_col = ckm_i_malloc(n * tensors, sizeof *out->present_col);
    b->leaving_col = ckm_i_malloc(n * tensors, sizeof *b->leaving_col);
    out->n_on = ckm_i_calloc(tensors, sizeof *out->n_on);
    out->time_col = ckm_i_malloc(n + 1, sizeof *out->time_col);
    out->view_of = ckm_i_malloc(tensors, sizeof *out->view_of);
    b->group_col = ckm_i_malloc(tensors, sizeof *b->group_col);
    b->last_need = ckm_i_malloc(ops, sizeof *b->last_need);
    b->coming_col = ckm_i_malloc(n * tensors, sizeof *b->coming_col);
    b->out_time = ckm_i_calloc(tensors, sizeof *b->out_time);
    b->in_time = ckm_i_calloc(tensors, sizeof *b->in_time);
    b->needed = ckm_i_malloc(tensors, sizeof *b->needed);
    b->members_at = ckm_i_malloc(tensors + 1, sizeof *b->members_at);
    b->members = ckm_i_malloc(tensors, sizeof *b->members);
    return out->cuts != NULL && out->s_col != NULL && out->r_col != NULL && out->out_col != NULL &&
           out->back_col != NULL && out->time_col != NULL && out->view_of != NULL && b->group_col != NULL &&
           b->last_need != NULL && out->n_on != NULL && out->present_col != NULL && b->leaving_col != NULL &&
           b->coming_col != NULL && b->out_time != NULL && b->in_time != NULL && b->needed != NULL &&
           b->members_at != NULL && b->members != NULL;
}

static void look_up(const builder *b)
{
    const ckm_dataflow *df = b->df;
    ckm_i_find_views(df, b->out->view_of);
    ckm_i_last_need(df, b->last_need);
    ckm_i_dataflow_members(df, b->members_at, b->members);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int64_t out = 0;
        int64_t in = 0;
        b->needed[x] = -1;
        b->out->n_on[df->tensors[x].storage]++;
        // What no number holds is left out: moving it costs nothing here.
        if (moves(df, x) && ckm_i_transfer_cost(df, df->tensors[x].bytes, true, &out) &&
            ckm_i_transfer_cost(df, df->tensors[x].bytes, false, &in)) {
            b->out_time[x] = (double)out;
            b->in_time[x] = (double)in;
        }
    }
}

ckm_status ckm_i_moving_model_build(const ckm_dataflow *df, int64_t budget_bytes, const int32_t *cuts, int32_t n_cuts,
                                    double longest, ckm_i_moving_model *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int64_t cost_gcd;
    ckm_i_moving_model built = {.df = df, .n_cuts = n_cuts, .cost_scale = ckm_i_cost_scale(df, &cost_gcd)};
    builder b = {.df = df, .out = &built, .m = &built.milp, .longest = longest};
    ckm_i_milp_init(&built.milp);
    if (!allocate(&b, cuts)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    look_up(&b);
    for (int32_t k = -1; k < n_cuts; k++) {
        add_again_columns(&b, k);
        add_time(&b, k);
        add_transfer_columns(&b, k);
        if (k >= 0) {
            add_cut_columns(&b, k);
        }
    }
    for (int32_t k = 0; k < n_cuts; k++) {
        add_memory(&b, k, budget_bytes - df->resident_bytes);
        add_window(&b, k);
        add_transfer_rows(&b, k);
    }
    add_links(&b);
    for (int32_t g = 0; g < df->n_tensors; g++) {  // moved out once at most
        ckm_i_milp_add_row(b.m, -INFINITY, 1.0);
        for (int32_t k = -1; k < n_cuts; k++) {
            put(&b, row(built.out_col, k + 1, df->n_tensors)[g], 1.0);
        }
    }
    CKM_I_TRY(ckm_i_milp_check(&built.milp, err));
    *out = built;
    built = (ckm_i_moving_model){0};
cleanup:
    ckm_i_moving_model_dispose(&built);
    free(b.group_col);
    free(b.last_need);
    free(b.leaving_col);
    free(b.coming_col);
    free(b.out_time);
    free(b.in_time);
    free(b.needed);
    free(b.members_at);
    free(b.members);
    return status;
}

void ckm_i_moving_model_dispose(ckm_i_moving_model *model)
{
    ckm_i_milp_dispose(&model->milp);
    free(model->cuts);
    free(model->s_col);
    free(model->r_col);
    free(model->out_col);
    free(model->back_col);
    free(model->present_col);
    free(model->n_on);
    free(model->view_of);
    free(model->time_col);
}
