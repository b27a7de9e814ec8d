// SPDX-License-Identifier: Apache-2.0
#include "oracle_random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_brute.h"

static bool chance(ckm_i_rng *rng, uint32_t percent)
{
    return ckm_i_rng_below(rng, 100) < percent;
}

static int32_t below(ckm_i_rng *rng, int32_t n)
{
    return (int32_t)ckm_i_rng_below(rng, (uint32_t)n);
}

int64_t oracle_scaled(int64_t count)
{
    const char *text = getenv("CKM_ORACLE_SCALE");
    double scale = text != NULL ? strtod(text, NULL) : 1.0;
    double scaled = (double)count * (scale > 0.0 ? scale : 1.0);
    return scaled >= 1.0 ? (int64_t)scaled : 1;
}

// Percentages of the features of one graph.
typedef struct features {
    uint32_t several_outputs, view, inplace, workspace, fixed_once, zero_bytes, zero_cost, odd;
} features;

static uint32_t draw_feature(ckm_i_rng *rng, uint32_t percent)
{
    return chance(rng, 60) ? percent : 0;
}

static int32_t add_tensor(ckm_i_rng *rng, oracle_graph *g, const features *f)
{
    oracle_tensor *tensor = &g->tensors[g->n_tensors];
    tensor->bytes = chance(rng, f->zero_bytes) ? 0 : 1 + below(rng, 6);
    tensor->alias_of = -1;
    return g->n_tensors++;
}

static int32_t owner_of(const oracle_graph *g, int32_t x)
{
    return g->tensors[x].alias_of >= 0 ? g->tensors[x].alias_of : x;
}

static void add_operands(ckm_i_rng *rng, oracle_graph *g, oracle_op *op)
{
    int32_t wanted = g->n_tensors == 0 ? 0 : below(rng, 4);
    if (wanted == 0 && g->n_tensors > 0 && chance(rng, 80)) {
        wanted = 1;
    }
    for (int32_t k = 0; k < wanted; k++) {
        // Mostly recent tensors, so that the graph is deep; now and then the same one twice.
        int32_t reach = chance(rng, 60) && g->n_tensors > 3 ? 3 : g->n_tensors;
        op->inputs[op->n_inputs++] = g->n_tensors - 1 - below(rng, reach);
    }
}

static void add_outputs(ckm_i_rng *rng, oracle_graph *g, oracle_op *op, const features *f, int32_t most)
{
    int32_t wanted = chance(rng, f->several_outputs) ? 2 + below(rng, 2) : 1;
    wanted = chance(rng, f->odd) ? 0 : wanted;
    int32_t before = g->n_tensors;
    for (int32_t k = 0; k < wanted && k < most; k++) {
        int32_t x = add_tensor(rng, g, f);
        op->outputs[op->n_outputs++] = x;
        if (chance(rng, f->view) && x > 0) {
            // Of an operand as a rule, else of anything; or of an output of the same operator.
            int32_t base = op->n_inputs > 0 && chance(rng, 70) ? op->inputs[below(rng, op->n_inputs)] : below(rng, x);
            base = k > 0 && chance(rng, 40) ? before : base;
            bool possible = base < before || chance(rng, 80);
            g->tensors[x].alias_of = possible ? owner_of(g, base) : -1;
        }
    }
}

// An operator that may turn its operand into an output and a view of that output, all in the same memory:
// rules on pairs and views meet here.
static void add_turning_outputs(ckm_i_rng *rng, oracle_graph *g, oracle_op *op, const features *f)
{
    int32_t first = add_tensor(rng, g, f);
    int32_t second = add_tensor(rng, g, f);
    g->tensors[first].bytes = g->tensors[owner_of(g, op->inputs[0])].bytes;
    g->tensors[second].alias_of = first;
    op->outputs[op->n_outputs++] = first;
    op->outputs[op->n_outputs++] = second;
    op->pairs[op->n_pairs][0] = op->inputs[0];
    op->pairs[op->n_pairs][1] = first;
    op->n_pairs++;
}

static void add_pairs(ckm_i_rng *rng, const oracle_graph *g, oracle_op *op, const features *f)
{
    // A few graphs declare every pair they can: a rule that only bites when several things come together must
    // get its chance.
    if (f->inplace > 0 && chance(rng, 30) && op->n_inputs > 0 && op->n_outputs > 0) {
        for (int32_t k = 0; k < op->n_outputs; k++) {
            if (g->tensors[op->outputs[k]].alias_of < 0) {
                op->pairs[op->n_pairs][0] = op->inputs[k % op->n_inputs];
                op->pairs[op->n_pairs][1] = op->outputs[k];
                op->n_pairs++;
            }
        }
        return;
    }
    for (int32_t k = 0; k < 3 && op->n_inputs > 0 && op->n_outputs > 0; k++) {
        int32_t input = op->inputs[below(rng, op->n_inputs)];
        int32_t output = op->outputs[below(rng, op->n_outputs)];
        if (chance(rng, f->inplace) && g->tensors[output].alias_of < 0) {
            op->pairs[op->n_pairs][0] = input;
            op->pairs[op->n_pairs][1] = output;
            op->n_pairs++;
        }
    }
}

// A tensor without views may become a view of one that is made later, or of another input: unusual and legal.
static void add_odd_views(ckm_i_rng *rng, oracle_graph *g, const features *f)
{
    for (int32_t x = 0; x < g->n_tensors; x++) {
        bool usable = g->tensors[x].alias_of < 0 && chance(rng, f->odd);
        for (int32_t y = 0; y < g->n_tensors; y++) {
            usable = usable && g->tensors[y].alias_of != x;
        }
        for (int32_t v = 0; v < g->n_ops; v++) {
            for (int32_t k = 0; k < g->ops[v].n_pairs; k++) {
                usable = usable && g->ops[v].pairs[k][1] != x;
            }
        }
        int32_t base = below(rng, g->n_tensors);
        if (usable && base != x && g->tensors[base].alias_of < 0) {
            g->tensors[x].alias_of = base;
        }
    }
}

static void renumber(int32_t *indices, int32_t n, const int32_t *to)
{
    for (int32_t k = 0; k < n; k++) {
        indices[k] = to[indices[k]];
    }
}

// Tensor numbers carry no meaning; shuffling them makes sure that no code relies on them.
static void shuffle_tensors(ckm_i_rng *rng, oracle_graph *g)
{
    int32_t to[ORACLE_MAX_TENSORS];
    oracle_tensor old[ORACLE_MAX_TENSORS];
    memcpy(old, g->tensors, sizeof old);
    for (int32_t x = 0; x < g->n_tensors; x++) {
        to[x] = x;
    }
    for (int32_t x = g->n_tensors - 1; x > 0; x--) {
        int32_t y = below(rng, x + 1);
        int32_t kept = to[x];
        to[x] = to[y];
        to[y] = kept;
    }
    for (int32_t x = 0; x < g->n_tensors; x++) {
        g->tensors[to[x]].bytes = old[x].bytes;
        g->tensors[to[x]].alias_of = old[x].alias_of >= 0 ? to[old[x].alias_of] : -1;
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        renumber(g->ops[v].inputs, g->ops[v].n_inputs, to);
        renumber(g->ops[v].outputs, g->ops[v].n_outputs, to);
        renumber(&g->ops[v].pairs[0][0], 2 * g->ops[v].n_pairs, to);
    }
    renumber(g->results, g->n_results, to);
}

void oracle_random_graph(ckm_i_rng *rng, int32_t min_ops, int32_t max_ops, int32_t max_produced, oracle_graph *out)
{
    assert_true(min_ops <= max_ops && max_ops <= ORACLE_MAX_OPS && max_produced <= ORACLE_MAX_PRODUCED);
    oracle_graph g = {.fixed_bytes = chance(rng, 50) ? below(rng, 6) : 0};
    features f = {
        .several_outputs = draw_feature(rng, 45),
        .view = draw_feature(rng, 40),
        .inplace = draw_feature(rng, 50),
        .workspace = draw_feature(rng, 40),
        .fixed_once = draw_feature(rng, 20),
        .zero_bytes = draw_feature(rng, 15),
        .zero_cost = draw_feature(rng, 20),
        .odd = chance(rng, 25) ? 10 : 0,
    };
    int32_t n_inputs = chance(rng, 60) ? 1 + below(rng, 2) : 0;
    for (int32_t k = 0; k < n_inputs; k++) {
        add_tensor(rng, &g, &f);
    }
    if (n_inputs == 2 && chance(rng, f.view)) {
        g.tensors[1].alias_of = 0;
    }
    int32_t n_ops = min_ops + below(rng, max_ops - min_ops + 1);
    for (int32_t v = 0; v < n_ops; v++) {
        oracle_op *op = &g.ops[g.n_ops++];
        op->cost = chance(rng, f.zero_cost) ? 0 : 1 + below(rng, 5);
        op->workspace_bytes = chance(rng, f.workspace) ? 1 + below(rng, 5) : 0;
        op->recomputable = !chance(rng, f.fixed_once);
        add_operands(rng, &g, op);
        // Leave room for one output of each operator to come.
        int32_t room = max_produced - (g.n_tensors - n_inputs) - (n_ops - 1 - v);
        if (room >= 2 && op->n_inputs > 0 && f.view > 0 && chance(rng, f.inplace / 2)) {
            add_turning_outputs(rng, &g, op, &f);
        } else {
            add_outputs(rng, &g, op, &f, room);
            add_pairs(rng, &g, op, &f);
        }
    }
    add_odd_views(rng, &g, &f);
    for (int32_t k = below(rng, 3); k > 0 && g.n_tensors > 0; k--) {
        int32_t reach = chance(rng, 60) && g.n_tensors > 2 ? 2 : g.n_tensors;
        g.results[g.n_results++] = g.n_tensors - 1 - below(rng, reach);
    }
    shuffle_tensors(rng, &g);
    *out = g;
}

static int64_t nearly(ckm_i_rng *rng, int64_t times, int64_t unit)
{
    return times > 0 ? times * unit + below(rng, 5) - 2 : 0;
}

void oracle_near_ties(ckm_i_rng *rng, oracle_graph *g)
{
    static const int exponents[] = {20, 26, 30, 30, 30, 33, 40, 46};
    int64_t unit = INT64_C(1) << exponents[below(rng, sizeof exponents / sizeof exponents[0])];
    bool uneven = chance(rng, 50);
    g->fixed_bytes = nearly(rng, g->fixed_bytes, unit);
    for (int32_t x = 0; x < g->n_tensors; x++) {
        g->tensors[x].bytes = nearly(rng, g->tensors[x].bytes, unit);
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        g->ops[v].workspace_bytes = nearly(rng, g->ops[v].workspace_bytes, unit);
        if (uneven && g->ops[v].cost > 0) {
            g->ops[v].cost = g->ops[v].cost * INT64_C(40000000000000) + (int64_t)ckm_i_rng_below(rng, UINT32_MAX);
        }
    }
}

ckm_dataflow *oracle_build(const oracle_graph *g)
{
    return oracle_build_with(g, NULL);
}

ckm_dataflow *oracle_build_with(const oracle_graph *g, const ckm_second_memory *second)
{
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_cost_unit unit = second != NULL ? CKM_COST_NS : CKM_COST_FLOPS;
    if (ckm_dataflow_create("random", unit, g->fixed_bytes, &df, &err) != CKM_OK ||
        (second != NULL && ckm_dataflow_set_second_memory(df, second, &err) != CKM_OK)) {
        fail_msg("%s", err.message);
    }
    for (int32_t x = 0; x < g->n_tensors; x++) {
        ckm_dataflow_tensor tensor = {
            .bytes = g->tensors[x].bytes, .alias_of = g->tensors[x].alias_of, .is_view = g->tensors[x].alias_of >= 0};
        if (ckm_dataflow_add_tensor(df, &tensor, NULL, &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        const oracle_op *own = &g->ops[v];
        ckm_dataflow_op op = {.kind = own->loads ? CKM_OP_LOAD : CKM_OP_FORWARD,
                              .cost = own->cost,
                              .workspace_bytes = own->workspace_bytes,
                              .run_once = !own->recomputable,
                              .n_inputs = own->n_inputs,
                              .n_outputs = own->n_outputs,
                              .n_inplace = own->n_pairs,
                              .inputs = own->inputs,
                              .outputs = own->outputs,
                              .inplace = own->pairs};
        if (ckm_dataflow_add_op(df, &op, NULL, &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
    }
    for (int32_t k = 0; k < g->n_results; k++) {
        if (ckm_dataflow_add_result(df, g->results[k], &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
    }
    if (ckm_dataflow_finish(df, &err) != CKM_OK) {
        fail_msg("a legal graph is refused: %s\n%s", err.message, oracle_describe(g, NULL));
    }
    return df;
}

static void print_list(FILE *to, const char *title, const int32_t *items, int32_t n)
{
    fprintf(to, " %s", title);
    for (int32_t k = 0; k < n; k++) {
        fprintf(to, "%c%d", k > 0 ? ',' : ' ', (int)items[k]);
    }
}

char *oracle_describe(const oracle_graph *g, const ckm_schedule *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to == NULL) {
        return NULL;
    }
    fprintf(to, "fixed %lld\n", (long long)g->fixed_bytes);
    for (int32_t x = 0; x < g->n_tensors; x++) {
        fprintf(to, "tensor %d: %lld bytes, alias of %d\n", (int)x, (long long)g->tensors[x].bytes,
                (int)g->tensors[x].alias_of);
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        const oracle_op *op = &g->ops[v];
        fprintf(to, "op %d: cost %lld, workspace %lld%s,", (int)v, (long long)op->cost, (long long)op->workspace_bytes,
                op->recomputable ? "" : ", once");
        print_list(to, "reads", op->inputs, op->n_inputs);
        print_list(to, "makes", op->outputs, op->n_outputs);
        print_list(to, "pairs", &op->pairs[0][0], 2 * op->n_pairs);
        putc('\n', to);
    }
    print_list(to, "results", g->results, g->n_results);
    putc('\n', to);
    for (int64_t i = 0; s != NULL && i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        fprintf(to, "%lld: %s %d", (long long)i, step.kind == CKM_STEP_COMPUTE ? "compute" : "free", (int)step.index);
        for (int32_t k = 0; k < step.n_inplace; k++) {
            fprintf(to, " [%d,%d]", (int)step.inplace[k][0], (int)step.inplace[k][1]);
        }
        putc('\n', to);
    }
    fclose(to);
    return text;
}

static void append(ckm_schedule *s, ckm_step_kind kind, int32_t index, const int32_t (*pairs)[2], int32_t n_pairs)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_step step = {.kind = kind, .index = index, .n_inplace = n_pairs, .inplace = pairs};
    if (ckm_schedule_append(s, &step, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
}

static ckm_schedule *empty_schedule(void)
{
    ckm_schedule *s = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_schedule_create(&s, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return s;
}

// A random schedule being made.
typedef struct walker {
    ckm_i_rng *rng;
    const oracle_graph *g;
    ckm_schedule *s;
    oracle_set live, inputs;
    uint32_t computed;
} walker;

static bool try_compute(walker *w, int32_t v, bool in_place)
{
    const oracle_op *op = &w->g->ops[v];
    uint32_t subset = in_place ? ckm_i_rng_below(w->rng, UINT32_C(1) << op->n_pairs) : 0;
    int64_t during = 0;
    oracle_set after = 0;
    bool again = ((w->computed >> v) & 1U) != 0;
    if ((again && !op->recomputable) || !oracle_compute(w->g, w->live, v, subset, &during, &after)) {
        return false;
    }
    int32_t pairs[ORACLE_MAX_OPERANDS][2];
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_pairs; k++) {
        if ((subset >> k) & 1U) {
            pairs[n][0] = op->pairs[k][0];
            pairs[n][1] = op->pairs[k][1];
            n++;
        }
    }
    append(w->s, CKM_STEP_COMPUTE, v, (const int32_t(*)[2])pairs, n);
    w->live = after;
    w->computed |= UINT32_C(1) << v;
    return true;
}

// Whether tensor x may be freed so that everything can still be finished: its producer can run again, and so
// can, in turn, whatever makes that producer's operands.
static bool can_come_back(const walker *w, int32_t x)
{
    for (int32_t v = 0; v < w->g->n_ops; v++) {
        const oracle_op *op = &w->g->ops[v];
        for (int32_t k = 0; k < op->n_outputs; k++) {
            if (op->outputs[k] != x) {
                continue;
            }
            bool possible = op->recomputable;
            for (int32_t i = 0; possible && i < op->n_inputs; i++) {
                possible = ((w->inputs >> op->inputs[i]) & 1U) != 0 || can_come_back(w, op->inputs[i]);
            }
            return possible;
        }
    }
    return false;
}

// Computes v, and before it its missing operands. Recomputes only recomputable operators.
static void ensure(walker *w, int32_t v)
{
    const oracle_op *op = &w->g->ops[v];
    for (int32_t k = 0; k < op->n_inputs; k++) {
        for (int32_t u = 0; u < v && ((w->live >> op->inputs[k]) & 1U) == 0; u++) {
            for (int32_t o = 0; o < w->g->ops[u].n_outputs; o++) {
                if (w->g->ops[u].outputs[o] == op->inputs[k]) {
                    ensure(w, u);
                    break;
                }
            }
        }
    }
    if (!try_compute(w, v, false)) {
        fail_msg("the random schedule got stuck at operator %d\n%s", (int)v, oracle_describe(w->g, w->s));
    }
}

ckm_schedule *oracle_random_schedule(ckm_i_rng *rng, const oracle_graph *g)
{
    walker w = {.rng = rng, .g = g, .s = empty_schedule(), .inputs = oracle_inputs(g)};
    w.live = w.inputs;
    int32_t moves = below(rng, 6 * g->n_ops);
    for (int32_t k = 0; k < moves; k++) {
        if (chance(rng, 60)) {
            // In place only operands that can be made again, so that nothing is lost for good.
            int32_t v = below(rng, g->n_ops);
            bool in_place = chance(rng, 70);
            for (int32_t p = 0; p < g->ops[v].n_pairs; p++) {
                in_place = in_place && can_come_back(&w, g->ops[v].pairs[p][0]);
            }
            (void)try_compute(&w, v, in_place);
        } else if (g->n_tensors > 0) {
            int32_t x = below(rng, g->n_tensors);
            if (((w.live & ~w.inputs) >> x & 1U) != 0 && can_come_back(&w, x)) {
                append(w.s, CKM_STEP_FREE, x, NULL, 0);
                w.live &= ~(UINT32_C(1) << x);
            }
        }
    }
    for (int32_t v = 0; v < g->n_ops; v++) {
        if (((w.computed >> v) & 1U) == 0) {
            ensure(&w, v);
        }
    }
    for (int32_t k = 0; k < g->n_results; k++) {
        for (int32_t v = 0; v < g->n_ops && ((w.live >> g->results[k]) & 1U) == 0; v++) {
            for (int32_t o = 0; o < g->ops[v].n_outputs; o++) {
                if (g->ops[v].outputs[o] == g->results[k]) {
                    ensure(&w, v);
                    break;
                }
            }
        }
    }
    return w.s;
}

// A step that the caller may change.
typedef struct loose_step {
    ckm_step_kind kind;
    int32_t index, n_pairs;
    int32_t pairs[ORACLE_MAX_OPERANDS + 1][2];
} loose_step;

static void change_step(ckm_i_rng *rng, const oracle_graph *g, loose_step *step)
{
    switch (below(rng, 5)) {
    case 0:
        step->index = below(rng, g->n_tensors + 2) - 1;
        break;
    case 1:
        step->kind = step->kind == CKM_STEP_COMPUTE ? CKM_STEP_FREE : CKM_STEP_COMPUTE;
        step->n_pairs = 0;
        break;
    case 2:
        step->n_pairs -= step->n_pairs > 0 ? 1 : 0;
        break;
    default:
        if (step->kind == CKM_STEP_COMPUTE && step->n_pairs <= ORACLE_MAX_OPERANDS) {
            int32_t *pair = step->pairs[step->n_pairs++];
            const oracle_op *op = step->index >= 0 && step->index < g->n_ops ? &g->ops[step->index] : NULL;
            bool declared = op != NULL && op->n_pairs > 0 && chance(rng, 80);
            int32_t k = declared ? below(rng, op->n_pairs) : 0;
            pair[0] = declared ? op->pairs[k][0] : below(rng, g->n_tensors + 2) - 1;
            pair[1] = declared ? op->pairs[k][1] : below(rng, g->n_tensors + 2) - 1;
        }
        break;
    }
}

// Uses one more declared pair in a compute step that has any, whether or not that is allowed there.
static bool add_pair_somewhere(ckm_i_rng *rng, const oracle_graph *g, loose_step *steps, int64_t n)
{
    int64_t start = below(rng, (int32_t)n);
    for (int64_t k = 0; k < n; k++) {
        loose_step *step = &steps[(start + k) % n];
        bool usable = step->kind == CKM_STEP_COMPUTE && step->index >= 0 && step->index < g->n_ops &&
                      step->n_pairs <= ORACLE_MAX_OPERANDS && g->ops[step->index].n_pairs > 0;
        if (usable) {
            const oracle_op *op = &g->ops[step->index];
            memcpy(step->pairs[step->n_pairs++], op->pairs[below(rng, op->n_pairs)], sizeof op->pairs[0]);
            return true;
        }
    }
    return false;
}

ckm_schedule *oracle_corrupt_schedule(ckm_i_rng *rng, const oracle_graph *g, const ckm_schedule *s)
{
    int64_t n = ckm_schedule_step_count(s);
    loose_step *steps = calloc((size_t)n + 4, sizeof *steps);
    assert_non_null(steps);
    for (int64_t i = 0; i < n; i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        steps[i].kind = step.kind;
        steps[i].index = step.index;
        steps[i].n_pairs = step.n_inplace;
        if (step.n_inplace > 0) {
            memcpy(steps[i].pairs, step.inplace, (size_t)step.n_inplace * sizeof *step.inplace);
        }
    }
    for (int32_t changes = 1 + below(rng, 3); changes > 0 && n > 0; changes--) {
        int64_t i = below(rng, (int32_t)n);
        int64_t j = below(rng, (int32_t)n);
        if (chance(rng, 30) && add_pair_somewhere(rng, g, steps, n)) {
            continue;
        }
        loose_step kept = steps[i];
        switch (below(rng, 5)) {
        case 0:
            memmove(&steps[i], &steps[i + 1], (size_t)(n - 1 - i) * sizeof *steps);
            n--;
            break;
        case 1:
            memmove(&steps[i + 1], &steps[i], (size_t)(n - i) * sizeof *steps);
            n++;
            break;
        case 2:
            steps[i] = steps[j];
            steps[j] = kept;
            break;
        default:
            change_step(rng, g, &steps[i]);
            break;
        }
    }
    ckm_schedule *changed = empty_schedule();
    for (int64_t i = 0; i < n; i++) {
        append(changed, steps[i].kind, steps[i].index, (const int32_t(*)[2])steps[i].pairs, steps[i].n_pairs);
    }
    free(steps);
    return changed;
}
