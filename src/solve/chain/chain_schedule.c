// SPDX-License-Identifier: Apache-2.0
// The best persistent schedule of a sequence of blocks, by the dynamic program of Beaumont et al. (Optimal
// checkpointing for heterogeneous chains, 2019) over intervals of blocks and bytes in use:
//
//   G(a, b, u) = min { c(a, b) + inner(b) + G(a, b-1, u)
//                      c(a, j) + G(j, b, u + state(j)) + inner(j) + G(a, j-1, u)
//                      c(a, j) + G(j, b, u + whole(j)) + G(a, j-1, u) }      a < j < b
//
// where state a is held, u counts it and everything else held for blocks up to a, and blocks b, b-1, ..., a+1 are to
// be unwound. Its idea of memory is simpler than the exact rules, so the matrices are completed and measured by these,
// and the memory it is told of is corrected until the peak meets the budget. On chains no correction is needed.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/chain/chain.h"
#include "solve/core/structure.h"

enum { MAX_OPS = 3000, MAX_BLOCKS = 200, MAX_LEVELS = 2048, MAX_TRIES = 8 };
static const int64_t max_cells = 8000000;
static const int64_t max_work = 200000000;
static const double none = 1e300;

typedef struct planner {
    const ckm_i_blocks *b;
    int64_t budget_bytes;  // as told to the program
    int64_t step;          // bytes of a level
    int32_t levels;
    double *g;  // as in chain_bound.c; rounded where costs are huge, since no claim rests on it
} planner;

typedef enum way { UNWIND_NOW, KEEP_STATE, KEEP_WHOLE } way;

static double *interval(const planner *p, int32_t a, int32_t b)
{
    int64_t r = a + 1;
    return p->g + (r * (p->b->n + 1) - r * (r - 1) / 2 + (b - a)) * (p->levels + 1);
}

static int64_t reach(const planner *p, int32_t a)
{
    return a < 0 ? 0 : p->b->at[a].reach;
}

static int32_t levels_up(const planner *p, int64_t bytes)
{
    int64_t levels = bytes / p->step + (bytes % p->step != 0);
    return levels <= p->levels ? (int32_t)levels : p->levels + 1;
}

// The last level at which `bytes` more still fit, or -1.
static int32_t room(const planner *p, int64_t bytes)
{
    int64_t left = p->budget_bytes - bytes;
    if (left < 0) {
        return -1;
    }
    return left / p->step < p->levels ? (int32_t)(left / p->step) : p->levels;
}

static int32_t room_to_unwind(const planner *p, int32_t k)
{
    const ckm_i_block *block = &p->b->at[k];
    return block->first <= block->last ? room(p, block->whole_bytes + block->around_bytes) : p->levels;
}

// One way for an interval: what it costs at level u, where that is possible up to *last, is cost + upper[u] + lower[u].
typedef struct option {
    double cost;
    const double *upper, *lower;
    int32_t last, added;  // upper[] is read `added` levels up
} option;

// `pass` is the peak on the way from state a to state j.
static option option_of(const planner *p, int32_t a, int32_t b, int32_t j, way how, int64_t pass)
{
    const ckm_i_block *block = &p->b->at[j];
    option o = {.cost = (double)(reach(p, j) - reach(p, a)), .lower = interval(p, a, j - 1)};
    int32_t swept = room(p, p->b->at[b].before_bytes + pass);
    o.upper = how == UNWIND_NOW ? interval(p, j, j) : interval(p, j, b);
    o.last = how == KEEP_WHOLE && block->first > block->last ? -1 : room_to_unwind(p, j);
    o.last = swept < o.last ? swept : o.last;
    o.cost += how == KEEP_WHOLE || block->first > block->last ? 0 : (double)block->inner;
    if (how != UNWIND_NOW) {
        o.added = levels_up(p, how == KEEP_STATE ? block->state_bytes : block->whole_bytes);
        o.last = p->levels - o.added < o.last ? p->levels - o.added : o.last;
    }
    return o;
}

// Bytes in addition to the state a that the way from there through block j takes.
static int64_t extend_pass(const planner *p, int32_t a, int32_t k, int64_t pass)
{
    const ckm_i_block *block = &p->b->at[k];
    int64_t bytes = block->pass_bytes - (k == a ? block->state_bytes : 0);
    return bytes > pass ? bytes : pass;
}

static void relax(double *restrict out, const double *restrict upper, const double *restrict lower, double cost,
                  int32_t n)
{
    for (int32_t u = 0; u < n; u++) {
        double value = cost + upper[u] + lower[u];
        out[u] = value < out[u] ? value : out[u];
    }
}

static void fill_interval(planner *p, int32_t a, int32_t b)
{
    double *out = interval(p, a, b);
    if (p->b->at[b].first > p->b->at[b].last) {
        const double *below = interval(p, a, b - 1);
        for (int32_t u = 0; u <= p->levels; u++) {
            out[u] = below[u];
        }
        return;
    }
    for (int32_t u = 0; u <= p->levels; u++) {
        out[u] = none;
    }
    int64_t pass = a < 0 ? p->b->at[0].state_bytes : 0;
    for (int32_t j = a + 1; j <= b; j++) {
        pass = j > 0 ? extend_pass(p, a, j - 1, pass) : pass;
        bool has_inside = p->b->at[j].whole_bytes > p->b->at[j].state_bytes || p->b->at[j].inner > 0;
        way from = j == b ? UNWIND_NOW : KEEP_STATE;
        way to = j == b ? UNWIND_NOW : has_inside ? KEEP_WHOLE : KEEP_STATE;
        for (way how = from; how <= to; how++) {
            option o = option_of(p, a, b, j, how, pass);
            relax(out, o.upper + o.added, o.lower, o.cost, o.last + 1);
        }
    }
}

static void fill(planner *p)
{
    for (int32_t a = p->b->n - 1; a >= -1; a--) {
        double *empty = interval(p, a, a);
        for (int32_t u = 0; u <= p->levels; u++) {
            empty[u] = 0;
        }
        for (int32_t b = a + 1; b < p->b->n; b++) {
            fill_interval(p, a, b);
        }
    }
}

// The choice behind the value of an interval.
static void choose(const planner *p, int32_t a, int32_t b, int32_t u, int32_t *j_out, way *how_out, int32_t *added)
{
    double value = interval(p, a, b)[u];
    int64_t pass = a < 0 ? p->b->at[0].state_bytes : 0;
    for (int32_t j = a + 1; j <= b; j++) {
        pass = j > 0 ? extend_pass(p, a, j - 1, pass) : pass;
        for (way how = j == b ? UNWIND_NOW : KEEP_STATE; how <= (j == b ? UNWIND_NOW : KEEP_WHOLE); how++) {
            option o = option_of(p, a, b, j, how, pass);
            if (u <= o.last && o.cost + o.upper[u + o.added] + o.lower[u] <= value) {
                *j_out = j;
                *how_out = how;
                *added = o.added;
                return;
            }
        }
    }
}

static bool is_unwound(const planner *p, int32_t k)
{
    return p->b->at[k].first <= p->b->at[k].last;
}

// Row of S from which something made on the way up to unwind block b is held.
static int32_t row_after(const planner *p, int32_t b)
{
    return b == p->b->top ? 0 : p->b->at[b].first + 1;
}

// Last stage that reads what position p puts out: of the forward part, or behind it.
static int32_t last_reader(const planner *p, int32_t position, bool forward)
{
    const ckm_i_forward *fw = p->b->fw;
    const ckm_i_dataflow_op *op = &fw->df->ops[fw->ops[position]];
    int32_t last = -1;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *x = &fw->df->tensors[op->outputs[i]];
        for (int32_t k = 0; k < x->n_users; k++) {
            if ((fw->position[x->users[k]] >= 0) == forward && x->users[k] > last) {
                last = x->users[k];
            }
        }
    }
    return last;
}

// Block k is there while it is unwound, and what later stages read of it until then.
static void hold_unwound(const planner *p, int32_t k, ckm_i_holds *holds)
{
    if (!is_unwound(p, k)) {
        return;
    }
    for (int32_t q = p->b->at[k].start; q < p->b->at[k].end; q++) {
        ckm_i_checkpoints_hold(holds, p->b->fw->ops[q], row_after(p, k), last_reader(p, q, false));
    }
}

// State j, or all of block j, from the way up to block b until block j is unwound.
static void hold_kept(const planner *p, int32_t j, int32_t b, bool whole, ckm_i_holds *holds)
{
    int32_t next = j;
    while (!is_unwound(p, next)) {
        next++;  // ends at b at the latest
    }
    int32_t until = next == j ? p->b->at[j].first : p->b->at[next].last;
    int32_t end = whole ? p->b->at[j].end : p->b->at[j].start + 1;
    for (int32_t q = p->b->at[j].start; q < end; q++) {
        ckm_i_checkpoints_hold(holds, p->b->fw->ops[q], row_after(p, b), until);
    }
}

// As deep as blocks are kept at a time, at most MAX_BLOCKS.
static void unwind(const planner *p, int32_t a, int32_t b, int32_t u,
                   ckm_i_holds *holds)  // NOLINT(misc-no-recursion)
{
    while (b > a) {
        if (!is_unwound(p, b)) {
            b--;
            continue;
        }
        int32_t j = b;
        way how = UNWIND_NOW;
        int32_t added = 0;
        choose(p, a, b, u, &j, &how, &added);
        if (how != UNWIND_NOW) {
            hold_kept(p, j, b, how == KEEP_WHOLE, holds);
            unwind(p, j, b, u + added, holds);
        }
        hold_unwound(p, j, holds);
        b = j - 1;
    }
}

static void build(const planner *p, ckm_i_holds *holds)
{
    const ckm_i_forward *fw = p->b->fw;
    unwind(p, -1, p->b->n - 1, 0, holds);
    for (int32_t q = 0; q < fw->n; q++) {
        ckm_i_checkpoints_hold(holds, fw->ops[q], 0, last_reader(p, q, true));
    }
    for (int32_t v = 0; v < fw->df->n_ops; v++) {
        if (fw->position[v] < 0) {
            ckm_i_checkpoints_hold_while_used(holds, v);
        }
    }
    ckm_i_checkpoints_hold_results(holds);
}

// Bytes of a level: the common divisor of what can be held where that gives few enough levels.
static void choose_level(planner *p)
{
    int64_t common = 0;
    int64_t least = INT64_MAX;
    for (int32_t k = 0; k < p->b->n; k++) {
        common = ckm_i_gcd(ckm_i_gcd(common, p->b->at[k].state_bytes), p->b->at[k].whole_bytes);
        least = p->b->at[k].before_bytes < least ? p->b->at[k].before_bytes : least;
    }
    int64_t n = p->b->n + 1;
    int64_t fits = max_cells / (n * (n + 1) / 2) - 1;
    int64_t quick = max_work / (n * n * n / 3 + 1);
    int64_t most = fits < quick ? fits : quick;
    most = most < MAX_LEVELS ? most : MAX_LEVELS;
    most = most > 1 ? most : 1;
    int64_t left = p->budget_bytes > least ? p->budget_bytes - least : 0;
    common = common > 0 ? common : 1;
    p->step = left / common > most ? left / most + 1 : common;
    p->levels = (int32_t)(left / p->step);
}

// One schedule, with the program told of `told_bytes`. *peak_bytes: -1 when it has none.
static ckm_status try_memory(ckm_i_solver *solver, const ckm_i_blocks *b, int64_t told_bytes, ckm_i_stages *stages,
                             int64_t *peak_bytes, ckm_error *err)
{
    ckm_status status = CKM_OK;
    planner p = {.b = b, .budget_bytes = told_bytes};
    choose_level(&p);
    int64_t n = b->n;
    *peak_bytes = -1;
    p.g = ckm_i_malloc((size_t)((n + 1) * (n + 2) / 2) * (size_t)(p.levels + 1), sizeof *p.g);
    if (p.g == NULL) {
        return ckm_i_error_memory(err);
    }
    fill(&p);
    if (interval(&p, -1, b->n - 1)[0] < none) {
        ckm_i_holds holds = {.df = solver->df, .stages = stages};
        if (stages != NULL) {
            memset(stages->s, 0, ((size_t)stages->n_ops + 1) * stages->s_words * sizeof *stages->s);
        }
        build(&p, &holds);
        status = stages != NULL ? ckm_i_solver_offer(solver, stages, "chain", NULL, peak_bytes, err)
                                : ckm_i_holds_offer(solver, &holds, "chain", peak_bytes, err);
        ckm_i_holds_dispose(&holds);
    }
    free(p.g);
    return status;
}

// Between `low`, which fits, and `high`, which does not: -1 is unknown.
static int64_t next_memory(int64_t told, int64_t low, int64_t high, int64_t excess)
{
    if (low >= 0 && high >= 0) {
        return low + (high - low) / 2;
    }
    return told - excess - (excess > 0 ? excess / 16 : 0);
}

static ckm_status correct_memory(ckm_i_solver *solver, const ckm_i_blocks *b, ckm_i_stages *stages, ckm_error *err)
{
    int64_t budget = solver->budget_bytes;
    int64_t told = budget;
    int64_t low = -1;
    int64_t high = -1;
    for (int tries = 0; tries < MAX_TRIES && !ckm_i_solver_should_stop(solver); tries++) {
        int64_t peak = -1;
        CKM_I_CHECK(try_memory(solver, b, told, stages, &peak, err));
        if (peak < 0 && low >= 0) {
            break;
        }
        int64_t excess = peak < 0 ? -(budget / 16) : peak - budget;
        if (peak >= 0 && peak > budget) {
            high = told;
        } else if (peak >= 0) {
            low = told;
        }
        if ((peak >= 0 && b->is_chain && excess <= 0) || excess == 0) {
            break;
        }
        int64_t next = next_memory(told, low, high, excess);
        if (next < 0 || (next > told ? next - told : told - next) <= budget / 512) {
            break;
        }
        told = next;
    }
    return CKM_OK;
}

ckm_status ckm_i_chain_schedule(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_forward *fw = NULL;
    ckm_i_blocks blocks = {0};
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_forward_create(solver->df, &fw, err));
    CKM_I_TRY(ckm_i_blocks_create(fw, MAX_BLOCKS, &blocks, err));
    if (blocks.n > 0 && blocks.top >= 0) {
        // Beyond, matrices of S and R grow too large for this to be quick.
        if (solver->df->n_ops <= MAX_OPS) {
            CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
        }
        CKM_I_TRY(correct_memory(solver, &blocks, stages, err));
    }
cleanup:
    ckm_i_blocks_dispose(&blocks);
    ckm_i_forward_free(fw);
    ckm_i_stages_free(stages);
    return status;
}
