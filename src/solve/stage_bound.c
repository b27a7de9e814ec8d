// SPDX-License-Identifier: Apache-2.0
// Stage t of any schedule that keeps the order is what happens between the first computation of t-1 and the
// end of the first computation of t. With r = 1 if v is computed in stage t at all and s = 1 if x is live when
// stage t begins, every such schedule satisfies
//   r[t,v] <= s[t,x] + r[t,p]        x an operand of v made by p: it was there or was made meanwhile
//   s[t+1,x] <= s[t,x] + r[t,p]
//   s[t,x] + r[t,p] >= 1             x an operand of t itself
//   sum of m_x s[t+1,x] over storages t does not touch, plus the working set of t, <= budget
// the last because stage t ends with t: whatever lives on past it lives while it runs. Its cost is at least
// total + sum of c_v r[t,v] over v < t. After the last operator's first computation a schedule may go on: a
// tail, stage n, recomputes what the results need. Nothing else is assumed, so the bound covers them all.
#include "solve/stage_bound.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/structure.h"

// Clp's dual simplex gets through about this many rows within a minute.
static const int64_t practical_rows = 500000;

typedef struct stage_builder {
    const ckm_dataflow *df;
    ckm_i_stage_bound *out;
    ckm_i_milp *m;
    int32_t *r_now;           // per operator: column of r[t,v], -1 where it is zero
    int32_t *s_now, *s_next;  // per tensor: columns of s[t,x] and s[t+1,x], -1 where zero
    int32_t *working;         // per storage: stage whose operator touches it
    int32_t *group_col;       // per storage: column of its presence in s_next, -1
    int32_t *last_need;       // per operator: the last operator that can be reached from it
    double unit, row_scale, cost_scale;
} stage_builder;

// Tensors the relaxation follows: those made before the first stage modelled. Others take no memory in it
// except as operands of the stage's operator.
static bool followed(const stage_builder *b, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    return !tensor->pinned && tensor->producer >= 0 && (tensor->n_users > 0 || tensor->is_result);
}

// Columns of s for the boundary before stage t.
static void add_boundary(stage_builder *b, int32_t t, int32_t *cols)
{
    const ckm_dataflow *df = b->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        cols[x] = -1;
        if (!followed(b, x) || tensor->producer >= t || b->last_need[tensor->producer] < t) {
            continue;
        }
        cols[x] = ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, true);
    }
    memcpy(b->out->s_col + (int64_t)(t - b->out->first_stage) * df->n_tensors, cols,
           (size_t)df->n_tensors * sizeof *cols);
}

// Row: availability of x in the stage (s + r) minus `col` >= at_least. A tensor that is always live needs none.
static void require_available(stage_builder *b, int32_t x, int32_t col, double at_least)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    if (tensor->pinned || tensor->producer < 0) {
        return;
    }
    ckm_i_milp_add_row(b->m, at_least, INFINITY);
    if (b->s_now[x] >= 0) {
        ckm_i_milp_put(b->m, b->s_now[x], 1.0);
    }
    if (b->r_now[tensor->producer] >= 0) {
        ckm_i_milp_put(b->m, b->r_now[tensor->producer], 1.0);
    }
    if (col >= 0) {
        ckm_i_milp_put(b->m, col, -1.0);
    }
}

// The working set of operator t: the bytes of storages it touches, less what in-place pairs can save at
// best. Marks the storages.
static int64_t working_set(stage_builder *b, int32_t t)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[t];
    int64_t bytes = op->workspace_bytes;
    for (int side = 0; side < 2; side++) {
        const int32_t *list = side == 0 ? op->inputs : op->outputs;
        int32_t n = side == 0 ? op->n_inputs : op->n_outputs;
        for (int32_t i = 0; i < n; i++) {
            int32_t storage = df->tensors[list[i]].storage;
            if (b->working[storage] != t && !df->tensors[storage].pinned) {
                b->working[storage] = t;
                bytes += df->tensors[storage].bytes;
            }
        }
    }
    bytes -= ckm_i_inplace_best(df, (const int32_t(*)[2])op->inplace, op->n_inplace, NULL, NULL);
    return bytes > 0 ? bytes : 0;
}

// Presence of every storage at the boundary after stage t: the column of its only tensor, or a maximum.
static void add_groups(stage_builder *b)
{
    const ckm_dataflow *df = b->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b->group_col[x] = -1;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t storage = df->tensors[x].storage;
        if (b->s_next[x] < 0 || df->tensors[storage].bytes == 0) {
            continue;
        }
        if (b->group_col[storage] < 0) {
            b->group_col[storage] = b->s_next[x];
            continue;
        }
        // A second tensor: one more column, at least as large as both.
        int32_t both = ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, false);
        int32_t parts[2] = {b->group_col[storage], b->s_next[x]};
        for (int i = 0; i < 2; i++) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            ckm_i_milp_put(b->m, both, 1.0);
            ckm_i_milp_put(b->m, parts[i], -1.0);
        }
        b->group_col[storage] = both;
    }
}

static void add_memory_row(stage_builder *b, int32_t t, int64_t budget_bytes)
{
    const ckm_dataflow *df = b->df;
    int64_t room = budget_bytes - df->resident_bytes - working_set(b, t);
    add_groups(b);
    ckm_i_milp_add_row(b->m, -INFINITY, (double)room / b->unit / b->row_scale);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (b->group_col[x] >= 0 && b->working[x] != t) {
            ckm_i_milp_put(b->m, b->group_col[x], (double)df->tensors[x].bytes / b->unit / b->row_scale);
        }
    }
}

// Columns of r for stage t, and what each computation in it needs. Operator t itself runs for certain.
static void add_computations(stage_builder *b, int32_t t)
{
    const ckm_dataflow *df = b->df;
    int32_t *swap = b->s_now;
    b->s_now = b->s_next;
    b->s_next = swap;
    for (int32_t v = 0; v < df->n_ops; v++) {
        bool possible = v < t && df->ops[v].recomputable && b->last_need[v] >= t;
        double cost = (double)df->ops[v].cost / b->cost_scale;
        b->r_now[v] = possible ? ckm_i_milp_add_col(b->m, cost, 0.0, 1.0, false) : -1;
    }
    memcpy(b->out->r_col + (int64_t)(t - b->out->first_stage) * df->n_ops, b->r_now,
           (size_t)df->n_ops * sizeof *b->r_now);
    for (int32_t v = 0; v < df->n_ops; v++) {
        for (int32_t i = 0; (b->r_now[v] >= 0 || v == t) && i < df->ops[v].n_inputs; i++) {
            require_available(b, df->ops[v].inputs[i], b->r_now[v], v == t ? 1.0 : 0.0);
        }
    }
}

static void add_stage(stage_builder *b, int32_t t, int64_t budget_bytes)
{
    const ckm_dataflow *df = b->df;
    add_computations(b, t);
    add_boundary(b, t + 1, b->s_next);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (b->s_next[x] >= 0 && df->tensors[x].producer < t) {
            require_available(b, x, b->s_next[x], 0.0);
        }
    }
    add_memory_row(b, t, budget_bytes);
}

static void add_tail(stage_builder *b)
{
    const ckm_dataflow *df = b->df;
    add_computations(b, df->n_ops);
    for (int32_t i = 0; i < df->n_results; i++) {
        require_available(b, df->results[i], -1, 1.0);
    }
}

static void set_scales(stage_builder *b, ckm_i_stage_bound *out)
{
    const ckm_dataflow *df = b->df;
    int64_t largest = 1;
    int64_t bytes_gcd = 0;
    int64_t cost_gcd = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        cost_gcd = ckm_i_gcd(df->ops[v].cost, cost_gcd);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        largest = df->tensors[x].bytes > largest ? df->tensors[x].bytes : largest;
        bytes_gcd = ckm_i_gcd(df->tensors[x].bytes, bytes_gcd);
    }
    out->cost_gcd = cost_gcd > 0 ? cost_gcd : 1;
    double total = (double)(df->total_cost / out->cost_gcd);
    out->cost_scale = (double)out->cost_gcd * (total > 1e7 ? total / 1e7 : 1.0);
    b->cost_scale = out->cost_scale;
    b->unit = (double)(bytes_gcd > 0 ? bytes_gcd : 1);
    b->row_scale = (double)largest / b->unit > 1e4 ? (double)largest / b->unit / 1e4 : 1.0;
}

ckm_status ckm_i_stage_bound_build(const ckm_dataflow *df, int64_t budget_bytes, int32_t first_stage,
                                   ckm_i_stage_bound *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_stage_bound built = {.first_stage = first_stage, .cost_scale = 1.0};
    stage_builder b = {.df = df, .out = &built, .m = &built.milp};
    size_t ops = (size_t)df->n_ops;
    size_t tensors = (size_t)df->n_tensors;
    size_t boundaries = ops + 1 - (size_t)first_stage;
    ckm_i_milp_init(&built.milp);
    built.r_col = ckm_i_malloc(boundaries * ops, sizeof *built.r_col);
    built.s_col = ckm_i_malloc(boundaries * tensors, sizeof *built.s_col);
    b.r_now = ckm_i_malloc(ops, sizeof *b.r_now);
    b.s_now = ckm_i_malloc(tensors, sizeof *b.s_now);
    b.s_next = ckm_i_malloc(tensors, sizeof *b.s_next);
    b.working = ckm_i_malloc(tensors, sizeof *b.working);
    b.group_col = ckm_i_malloc(tensors, sizeof *b.group_col);
    b.last_need = ckm_i_malloc(ops, sizeof *b.last_need);
    if (b.r_now == NULL || b.s_now == NULL || b.s_next == NULL || b.working == NULL || b.group_col == NULL ||
        b.last_need == NULL || built.r_col == NULL || built.s_col == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b.working[x] = -1;
    }
    ckm_i_last_need(df, b.last_need);
    set_scales(&b, &built);
    add_boundary(&b, first_stage, b.s_next);
    for (int32_t t = first_stage; t < df->n_ops; t++) {
        add_stage(&b, t, budget_bytes);
    }
    add_tail(&b);
    CKM_I_TRY(ckm_i_milp_check(&built.milp, err));
    *out = built;
    built = (ckm_i_stage_bound){0};
cleanup:
    ckm_i_stage_bound_dispose(&built);
    free(b.r_now);
    free(b.s_now);
    free(b.s_next);
    free(b.working);
    free(b.group_col);
    free(b.last_need);
    return status;
}

void ckm_i_stage_bound_dispose(ckm_i_stage_bound *bound)
{
    ckm_i_milp_dispose(&bound->milp);
    free(bound->r_col);
    free(bound->s_col);
}

// Rows of the program from a first stage on, about: one per operand and one per operator, in every stage that
// may run it.
static int64_t count_rows(const ckm_dataflow *df, int32_t first_stage)
{
    int64_t rows = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        rows += (int64_t)(df->ops[v].n_inputs + 1) * (df->n_ops - (v > first_stage ? v : first_stage));
    }
    return rows;
}

// From the first backward operator on, where everything retained is live; from the start when the program
// stays small or the graph names no kinds.
static int32_t choose_first_stage(const ckm_dataflow *df)
{
    int64_t rows = count_rows(df, 0);
    if (rows < 30000) {
        return 0;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        if (df->ops[v].kind != CKM_OP_FORWARD) {
            return v;
        }
    }
    return rows < 200000 ? 0 : df->n_ops / 2;
}

bool ckm_i_stage_bound_is_practical(const ckm_dataflow *df)
{
    return count_rows(df, choose_first_stage(df)) <= practical_rows;
}

// The solver's best as a point of the program. It satisfies every row: its rows are what all schedules obey.
static double *make_start(const ckm_i_solver *solver, const ckm_i_stage_bound *bound)
{
    const ckm_dataflow *df = solver->df;
    const ckm_i_stages *best = solver->best_stages;
    double *start = ckm_i_calloc((size_t)bound->milp.n_cols, sizeof *start);
    for (int32_t t = bound->first_stage; start != NULL && t <= df->n_ops; t++) {
        int64_t row = t - bound->first_stage;
        for (int32_t x = 0; x < df->n_tensors; x++) {
            int32_t col = bound->s_col[row * df->n_tensors + x];
            if (col >= 0 && ckm_i_bits_get(ckm_i_stages_s(best, t), x)) {
                start[col] = 1.0;
            }
        }
    }
    return start;
}

// S of a solution; stages before the first one modelled hold everything, and completion drops what is of no
// use.
static ckm_status take_solution(ckm_i_solver *solver, const ckm_i_stage_bound *bound, const double *x, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    ckm_i_stages *stages = NULL;
    ckm_status status = ckm_i_stages_create(df, &stages, err);
    if (status != CKM_OK) {
        return status;
    }
    memset(stages->s, 0xff, (size_t)bound->first_stage * stages->s_words * sizeof *stages->s);
    for (int32_t t = bound->first_stage; t <= df->n_ops; t++) {
        for (int32_t i = 0; i < df->n_tensors; i++) {
            int32_t col = bound->s_col[(int64_t)(t - bound->first_stage) * df->n_tensors + i];
            if (col >= 0 && x[col] >= 0.5) {
                ckm_i_bits_set(ckm_i_stages_s(stages, t), i);
            }
        }
    }
    status = ckm_i_solver_offer(solver, stages, "stage-program", NULL, NULL, err);
    ckm_i_stages_free(stages);
    return status;
}

static ckm_status conclude(ckm_i_solver *solver, const ckm_i_stage_bound *bound, const ckm_i_milp_result *result,
                           bool integer, ckm_error *err)
{
    const char *source = integer ? "stage-program" : "stage-bound";
    ckm_i_solver_log(solver, CKM_LOG_INFO, "%s: %s, %d rows, %d columns", source, result->detail, bound->milp.n_rows,
                     bound->milp.n_cols);
    double objective = -INFINITY;
    if (integer) {
        objective = result->bound;
    } else if (result->row_dual != NULL) {
        objective = ckm_i_milp_safe_bound(&bound->milp, result->row_dual);
    }
    if (result->status == CKM_I_MILP_INFEASIBLE) {
        // The incumbent satisfies every row: only tolerances could say otherwise.
        if (solver->best_schedule == NULL) {
            ckm_i_solver_infeasible(solver, CKM_BOUND_ORDER, source);
        }
    } else if (objective > -INFINITY) {
        double cost = (double)solver->df->total_cost + objective * bound->cost_scale;
        ckm_i_solver_bound(solver, ckm_i_cost_round_up(cost, bound->cost_gcd), CKM_BOUND_ORDER, source);
    }
    return integer && result->x != NULL ? take_solution(solver, bound, result->x, err) : CKM_OK;
}

ckm_status ckm_i_stage_bound_run(ckm_i_solver *solver, bool integer, double seconds, ckm_error *err)
{
    ckm_i_stage_bound bound;
    ckm_i_milp_result result = {0};
    double *start = NULL;
    ckm_status status = ckm_i_stage_bound_build(solver->df, solver->budget_bytes, choose_first_stage(solver->df),
                                                &bound, err);
    if (status != CKM_OK) {
        return status;
    }
    if (integer && solver->best_stages != NULL) {
        start = make_start(solver, &bound);
        if (start == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
    }
    ckm_i_milp_options limits = {
        .relax = !integer,
        .seconds = fmax(fmin(seconds, solver->deadline_seconds - ckm_i_clock_seconds()), 0.01),
        .gap = solver->options->gap * (double)solver->df->total_cost / bound.cost_scale,
        .cutoff = INFINITY,
        .threads = solver->options->threads,
        .start = start,
        .stop = solver->options->stop,
        .user = solver->options->user,
    };
    CKM_I_TRY(ckm_i_milp_solve(&bound.milp, &limits, &result, err));
    CKM_I_TRY(conclude(solver, &bound, &result, integer, err));
cleanup:
    free(start);
    ckm_i_milp_result_dispose(&result);
    ckm_i_stage_bound_dispose(&bound);
    return status;
}
