// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/single_cut.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "solve/bounds/window_run.h"
#include "solve/core/structure.h"

// Bytes count in units of which there are less than 2^34, costs in units of which there are less than 2^52, and prices times
// bytes stay below 2^60.
enum { most_byte_bits = 34, cost_bits = 52, product_bits = 60 };

// Prices tried for one budget: the search for the best ends by itself after some ten.
enum { most_prices = 40 };

// The first price is guessed; from there on it grows by this factor until what is held fits.
enum { faster = 8 };

// What one price says: at the best choice for it, this much is computed again and held, and no choice costs less than
// `value` = cost + price * bytes.
typedef struct line {
    int64_t price, value, cost, bytes;
    bool *again;  // per project; NULL: only the value is known
} line;

struct ckm_i_single_cut {
    const ckm_dataflow *df;
    int32_t cut;
    int byte_shift, cost_shift;  // bytes >> byte_shift, costs << cost_shift (>> where below 0)
    int64_t working_bytes;       // of the operator before the cut, and what is always there
    int64_t most_price, most_room;
    int32_t *view_base;  // per tensor: what it is a view of in the end
    int64_t *weight;     // per tensor: in units, 0 where another tensor of its storage counts
    int32_t *tool;       // per tensor: its number as a tool; -1 none, -2: certainly there
    int32_t *project;    // per operator: its number, -1
    int32_t *tool_tensor, *project_op;
    int32_t n_tools, n_projects;
    int64_t certain_weight;  // of what is certainly there, held or made again
    int64_t *cost;           // per project
    int64_t *yield;          // per project: weight of its outputs, which it saves
    int64_t *profit, *price_of;
    ckm_i_closure *closure;
    line *lines;  // by ascending price
    int32_t n_lines, cap_lines;
};

static int bits(int64_t value)
{
    int n = 0;
    for (; value > 0; value >>= 1) {
        n++;
    }
    return n;
}

static bool is_followed(const ckm_i_single_cut *c, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &c->df->tensors[x];
    return !tensor->pinned && tensor->producer >= 0 && tensor->producer <= c->cut;
}

// A view is made of an operand on the same storage, which has a smaller base already: producers ascend.
static void find_bases(ckm_i_single_cut *c)
{
    const ckm_dataflow *df = c->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        c->view_base[x] = x;
    }
    for (int32_t v = 0; v <= c->cut; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        for (int32_t o = 0; o < op->n_outputs; o++) {
            const ckm_i_dataflow_tensor *tensor = &df->tensors[op->outputs[o]];
            for (int32_t i = 0; !tensor->pinned && i < op->n_inputs; i++) {
                if (df->tensors[op->inputs[i]].storage == tensor->storage) {
                    c->view_base[op->outputs[o]] = c->view_base[op->inputs[i]];
                }
            }
        }
    }
}

// Of each storage that the operator before the cut does not touch, one tensor that is no view of another stands for the bytes.
static bool weigh(ckm_i_single_cut *c)
{
    const ckm_dataflow *df = c->df;
    bool *counted = ckm_i_calloc((size_t)df->n_tensors, sizeof *counted);
    if (counted == NULL) {
        return false;
    }
    int64_t total = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        total += df->tensors[x].alias_of < 0 ? df->tensors[x].bytes : 0;
    }
    int more = bits(total) - most_byte_bits;
    c->byte_shift = more > 0 ? more : 0;
    c->most_room = total >> c->byte_shift;  // all of it: more makes no difference
    c->most_price = (int64_t)1 << (product_bits - bits(c->most_room));
    const ckm_i_dataflow_op *op = &df->ops[c->cut];
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        counted[df->tensors[x].storage] = true;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t storage = df->tensors[x].storage;
        if (is_followed(c, x) && c->view_base[x] == x && !counted[storage]) {
            counted[storage] = true;
            c->weight[x] = df->tensors[storage].bytes >> c->byte_shift;
        }
    }
    free(counted);
    return true;
}

// What first computations after the cut read, and results, is held at the cut or made again after it.
static void find_certain(ckm_i_single_cut *c)
{
    const ckm_dataflow *df = c->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int32_t base = c->view_base[x];
        bool read = tensor->is_result || (tensor->n_users > 0 && tensor->users[tensor->n_users - 1] > c->cut);
        if (is_followed(c, x) && read && is_followed(c, base) && c->tool[base] != -2) {
            c->tool[base] = -2;
            c->certain_weight += c->weight[base];
        }
    }
}

static int64_t scaled_cost(const ckm_i_single_cut *c, int64_t cost)
{
    return c->cost_shift >= 0 ? cost << c->cost_shift : cost >> -c->cost_shift;
}

// The tool that operator v needs for operand or output i; -1 where that costs nothing.
static int32_t tool_at(ckm_i_single_cut *c, int32_t v, int32_t i)
{
    const ckm_i_dataflow_op *op = &c->df->ops[v];
    int32_t x = c->view_base[i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs]];
    if (!is_followed(c, x) || c->weight[x] == 0 || c->tool[x] == -2) {
        return -1;
    }
    if (c->tool[x] < 0) {
        c->tool[x] = c->n_tools;
        c->tool_tensor[c->n_tools++] = x;
    }
    return c->tool[x];
}

static ckm_status list_projects(ckm_i_single_cut *c, const int32_t *last_need, ckm_error *err)
{
    const ckm_dataflow *df = c->df;
    ckm_status status = CKM_OK;
    size_t room = 0;
    for (int32_t v = 0; v <= c->cut; v++) {
        room += (size_t)df->ops[v].n_inputs + (size_t)df->ops[v].n_outputs;
    }
    int32_t *start = ckm_i_malloc((size_t)c->cut + 2, sizeof *start);
    int32_t *tools = ckm_i_malloc(room, sizeof *tools);
    int32_t *listed = ckm_i_calloc((size_t)df->n_tensors, sizeof *listed);  // by tool: the last project with it, from 1
    if (start == NULL || tools == NULL || listed == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    int32_t n = 0;
    start[0] = 0;
    for (int32_t v = 0; v <= c->cut; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        int64_t yield = 0;
        for (int32_t i = 0; i < op->n_outputs; i++) {
            int32_t x = op->outputs[i];
            yield += c->view_base[x] == x ? c->weight[x] : 0;
        }
        c->project[v] = -1;
        if (!op->recomputable || last_need[v] <= c->cut || yield == 0) {
            continue;  // what weighs nothing may as well be held
        }
        int32_t p = c->n_projects++;
        c->project[v] = p;
        c->project_op[p] = v;
        c->cost[p] = scaled_cost(c, op->cost);
        c->yield[p] = yield;
        for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
            int32_t tool = tool_at(c, v, i);
            if (tool >= 0 && listed[tool] != p + 1) {
                listed[tool] = p + 1;
                tools[n++] = tool;
            }
        }
        start[p + 1] = n;
    }
    CKM_I_TRY(ckm_i_closure_create(c->n_projects, c->n_tools, start, tools, &c->closure, err));
cleanup:
    free(start);
    free(tools);
    free(listed);
    return status;
}

static bool allocate(ckm_i_single_cut *c)
{
    size_t ops = (size_t)c->df->n_ops;
    size_t tensors = (size_t)c->df->n_tensors;
    c->view_base = ckm_i_malloc(tensors, sizeof *c->view_base);
    c->weight = ckm_i_calloc(tensors, sizeof *c->weight);
    c->tool = ckm_i_malloc(tensors, sizeof *c->tool);
    c->tool_tensor = ckm_i_malloc(tensors, sizeof *c->tool_tensor);
    c->price_of = ckm_i_malloc(tensors, sizeof *c->price_of);
    c->project = ckm_i_malloc(ops, sizeof *c->project);
    c->project_op = ckm_i_malloc(ops, sizeof *c->project_op);
    c->cost = ckm_i_malloc(ops, sizeof *c->cost);
    c->yield = ckm_i_malloc(ops, sizeof *c->yield);
    c->profit = ckm_i_malloc(ops, sizeof *c->profit);
    for (size_t x = 0; c->tool != NULL && x < tensors; x++) {
        c->tool[x] = -1;
    }
    return c->view_base != NULL && c->weight != NULL && c->tool != NULL && c->tool_tensor != NULL &&
           c->price_of != NULL && c->project != NULL && c->project_op != NULL && c->cost != NULL && c->yield != NULL &&
           c->profit != NULL;
}

ckm_status ckm_i_single_cut_create(const ckm_dataflow *df, const int32_t *last_need, int32_t cut,
                                   ckm_i_single_cut **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_single_cut *c = ckm_i_calloc(1, sizeof *c);
    if (c == NULL) {
        return ckm_i_error_memory(err);
    }
    c->df = df;
    c->cut = cut;
    if (!allocate(c)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    c->cost_shift = cost_bits - bits(df->total_cost);
    c->working_bytes = df->resident_bytes + ckm_i_working_set(df, cut);
    find_bases(c);
    if (!weigh(c)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    find_certain(c);
    CKM_I_TRY(list_projects(c, last_need, err));
    *out = c;
    c = NULL;
cleanup:
    ckm_i_single_cut_free(c);
    return status;
}

void ckm_i_single_cut_free(ckm_i_single_cut *c)
{
    if (c == NULL) {
        return;
    }
    for (int32_t i = 0; i < c->n_lines; i++) {
        free(c->lines[i].again);
    }
    free(c->lines);
    ckm_i_closure_free(c->closure);
    free(c->view_base);
    free(c->weight);
    free(c->tool);
    free(c->tool_tensor);
    free(c->price_of);
    free(c->project);
    free(c->project_op);
    free(c->cost);
    free(c->yield);
    free(c->profit);
    free(c);
}

// Marks the tools of the projects that run again; what those and first computations need is there.
static int64_t weight_needed(const ckm_i_single_cut *c, const bool *again, bool *needed)
{
    const ckm_i_closure *flow = c->closure;
    int64_t weight = c->certain_weight;
    for (int32_t p = 0; p < c->n_projects; p++) {
        for (int32_t a = flow->project_start[p]; again[p] && a < flow->project_start[p + 1]; a++) {
            int32_t tool = flow->arc_tool[a];
            if (!needed[tool]) {
                needed[tool] = true;
                weight += c->weight[c->tool_tensor[tool]];
            }
        }
    }
    return weight;
}

// Solves for a price; *work is used up as it goes. NULL where memory runs out.
static line *solve(ckm_i_single_cut *c, int64_t price, int64_t *work)
{
    int32_t cap = c->cap_lines;
    bool *again = ckm_i_calloc((size_t)c->n_projects, sizeof *again);
    bool *needed = ckm_i_calloc((size_t)c->n_tools, sizeof *needed);
    line *found = NULL;
    if (again == NULL || needed == NULL || !CKM_I_GROW(c->lines, c->n_lines, cap)) {
        goto cleanup;
    }
    c->cap_lines = cap;
    int64_t most;
    for (int32_t p = 0; p < c->n_projects; p++) {
        c->profit[p] = price * c->yield[p] - c->cost[p];
    }
    for (int32_t i = 0; i < c->n_tools; i++) {
        c->price_of[i] = price * c->weight[c->tool_tensor[i]];
    }
    bool exact = ckm_i_closure_solve(c->closure, c->profit, c->price_of, work, &most, again);
    line new = {.price = price, .value = price * c->certain_weight - most};
    if (exact) {
        new.bytes = weight_needed(c, again, needed);
        for (int32_t p = 0; p < c->n_projects; p++) {
            new.bytes -= again[p] ? c->yield[p] : 0;
            new.cost += again[p] ? c->cost[p] : 0;
        }
        new.again = again;
        again = NULL;
    }
    int32_t at = c->n_lines++;
    for (; at > 0 && c->lines[at - 1].price > price; at--) {
        c->lines[at] = c->lines[at - 1];
    }
    c->lines[at] = new;
    found = &c->lines[at];
cleanup:
    free(again);
    free(needed);
    return found;
}

// The two solutions on both sides of the best price for a budget, where they are known: `over` holds more than fits, `within`
// does not.
typedef struct bracket {
    line over, within;
    bool has_over, has_within;
} bracket;

static bracket find_bracket(const ckm_i_single_cut *c, int64_t room)
{
    bracket b = {.has_over = false};
    for (int32_t i = 0; i < c->n_lines; i++) {
        const line *at = &c->lines[i];
        if (at->again != NULL && at->bytes > room) {
            b.over = *at;
            b.has_over = true;
        } else if (at->again != NULL && !b.has_within) {
            b.within = *at;
            b.has_within = true;
        }
    }
    return b;
}

// The next price to try; -1 where there is none.
static int64_t next_price(const ckm_i_single_cut *c, const bracket *b)
{
    if (!b->has_over) {
        return b->has_within ? -1 : 0;  // at 0 everything is held
    }
    if (!b->has_within) {
        int64_t guess = ((int64_t)1 << cost_bits) / 64 / (c->certain_weight + 1) + 1;
        int64_t next = b->over.price == 0                       ? guess
                       : b->over.price > c->most_price / faster ? -1
                                                                : b->over.price * faster;
        return next <= c->most_price ? next : -1;
    }
    int64_t price = (b->within.cost - b->over.cost) / (b->over.bytes - b->within.bytes);
    bool inside = price > b->over.price && price < b->within.price;
    return inside ? price : -1;
}

static int64_t best_value(const ckm_i_single_cut *c, int64_t room)
{
    int64_t best = 0;
    for (int32_t i = 0; i < c->n_lines; i++) {
        int64_t value = c->lines[i].value - c->lines[i].price * room;
        best = value > best ? value : best;
    }
    return best;
}

static int64_t room_in(const ckm_i_single_cut *c, int64_t budget_bytes)
{
    int64_t room = budget_bytes > c->working_bytes ? (budget_bytes - c->working_bytes) >> c->byte_shift : 0;
    return room < c->most_room ? room : c->most_room;
}

ckm_status ckm_i_single_cut_bound(ckm_i_single_cut *c, int64_t budget_bytes, int64_t work, int64_t *bound_cost,
                                  ckm_error *err)
{
    int64_t room = room_in(c, budget_bytes);
    bracket b = find_bracket(c, room);
    int64_t price = next_price(c, &b);
    for (int i = 0; i < most_prices && price >= 0 && work > 0; i++) {
        const line *found = solve(c, price, &work);
        bool between = b.has_over && b.has_within;
        if (found == NULL) {
            return ckm_i_error_memory(err);
        }
        // On the lines of both sides: nothing lies below them, and this is the best price.
        if (found->again == NULL || (between && found->value >= b.over.cost + price * b.over.bytes)) {
            break;
        }
        b = find_bracket(c, room);
        price = next_price(c, &b);
    }
    int64_t value = best_value(c, room);
    int64_t more = value;
    if (c->cost_shift > 0) {
        more = value / ((int64_t)1 << c->cost_shift) + (value % ((int64_t)1 << c->cost_shift) != 0);
    } else if (value < INT64_MAX >> (1 - c->cost_shift)) {
        more = value * ((int64_t)1 << -c->cost_shift);
    }
    *bound_cost = more < INT64_MAX - c->df->total_cost ? c->df->total_cost + more : c->df->total_cost;
    return CKM_OK;
}

// Adds `share` of a solution to a point of the relaxation: what is held of each tensor, then how much runs again.
static bool add_point(const ckm_i_single_cut *c, const bool *again, double share, double *x)
{
    const ckm_dataflow *df = c->df;
    bool *needed = ckm_i_calloc((size_t)c->n_tools, sizeof *needed);
    if (needed == NULL) {
        return false;
    }
    (void)weight_needed(c, again, needed);
    for (int32_t i = 0; i < df->n_tensors; i++) {
        int32_t base = c->view_base[i];
        if (!is_followed(c, i) || !is_followed(c, base)) {
            continue;
        }
        int32_t tool = c->tool[base];
        int32_t project = c->project[df->tensors[base].producer];
        bool made = project >= 0 && again[project];
        bool there = tool < 0 || needed[tool];
        x[i] += there && !made ? share : 0.0;
        if (made && base != i) {
            x[df->n_tensors + df->tensors[i].producer] += share;  // the view is made again as well
        }
    }
    for (int32_t p = 0; p < c->n_projects; p++) {
        x[df->n_tensors + c->project_op[p]] += again[p] ? share : 0.0;
    }
    free(needed);
    return true;
}

// A model of one cut that has columns and no rows.
static bool list_columns(const ckm_i_single_cut *c, ckm_i_window_model *model)
{
    const ckm_dataflow *df = c->df;
    model->df = df;
    model->n_cuts = 1;
    model->cuts = ckm_i_memdup(&c->cut, 1, sizeof c->cut);
    model->s_col = ckm_i_malloc((size_t)df->n_tensors, sizeof *model->s_col);
    model->r_col = ckm_i_malloc((size_t)df->n_ops * 2, sizeof *model->r_col);
    if (model->cuts == NULL || model->s_col == NULL || model->r_col == NULL) {
        return false;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        model->s_col[x] = is_followed(c, x) ? x : -1;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        model->r_col[v] = -1;
        model->r_col[df->n_ops + v] = v <= c->cut ? df->n_tensors + v : -1;
    }
    return true;
}

ckm_status ckm_i_single_cut_round(ckm_i_single_cut *c, int64_t budget_bytes, ckm_i_spans **out, ckm_error *err)
{
    const ckm_dataflow *df = c->df;
    int64_t room = room_in(c, budget_bytes);
    bracket b = find_bracket(c, room);
    ckm_i_window_model model = {0};
    double *x = ckm_i_calloc((size_t)df->n_tensors + (size_t)df->n_ops, sizeof *x);
    ckm_status status = CKM_OK;
    double within = b.has_over && b.has_within ? (double)(b.over.bytes - room) / (double)(b.over.bytes - b.within.bytes)
                                               : (b.has_within ? 1.0 : 0.0);
    bool ok = x != NULL && list_columns(c, &model);
    ok = ok && (!b.has_over || within >= 1.0 || add_point(c, b.over.again, 1.0 - within, x));
    ok = ok && (!b.has_within || within <= 0.0 || add_point(c, b.within.again, within, x));
    if (!ok) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_stage_round(&model, x, out, err));
cleanup:
    ckm_i_window_model_dispose(&model);
    free(x);
    return status;
}
