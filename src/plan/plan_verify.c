// SPDX-License-Identifier: Apache-2.0
// The checker of plans. It follows the schedule through public accessors only, takes every claim of the plan at the
// moment it matters (which instance does this operand live in?) and compares it with what the schedule says, then
// sweeps over time with the occupied bytes in order of offset. It shares no code with the planner, on purpose; keep it
// so.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <checkmate/plan.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

// Bytes from..to-1 of the arena in steps begin..end, both included.
typedef struct extent {
    int64_t begin, end, from, to;
    int32_t instance;
} extent;

typedef struct checker {
    const ckm_dataflow *df;
    const ckm_schedule *s;
    const ckm_plan *plan;
    int32_t n_tensors, n_instances, most_operands;
    int64_t n_steps;
    int32_t *owner;             // by tensor
    bool *alive;                // by tensor
    int32_t *alive_in;          // by owner: how many of its tensors are alive, inputs included
    int32_t *lives_at;          // by owner: instance
    bool *seen;                 // by instance
    int64_t *begins;            // by instance: first step in which it occupies its own memory
    bool *away;                 // by tensor: returns when its owner does
    int32_t *inputs, *outputs;  // bindings of a step
    char *why;
} checker;

static bool complain(const checker *c, const char *format, ...) CKM_PRINTF(2, 3);
static bool complain(const checker *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof((ckm_plan_verdict *)0)->why, format, args);
    va_end(args);
    ckm_i_text_clean(c->why);
    return false;
}

static ckm_status read_graph(checker *c, ckm_error *err)
{
    size_t n = (size_t)c->n_tensors;
    int32_t n_ops = ckm_dataflow_op_count(c->df);
    for (int32_t v = 0; v < n_ops; v++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(c->df, v);
        c->most_operands = op.n_inputs > c->most_operands ? op.n_inputs : c->most_operands;
        c->most_operands = op.n_outputs > c->most_operands ? op.n_outputs : c->most_operands;
    }
    c->owner = ckm_i_malloc(n, sizeof *c->owner);
    c->alive = ckm_i_calloc(n, sizeof *c->alive);
    c->alive_in = ckm_i_calloc(n, sizeof *c->alive_in);
    c->lives_at = ckm_i_malloc(n, sizeof *c->lives_at);
    c->seen = ckm_i_calloc((size_t)c->n_instances, sizeof *c->seen);
    c->begins = ckm_i_calloc((size_t)c->n_instances, sizeof *c->begins);
    c->away = ckm_i_calloc(n, sizeof *c->away);
    c->most_operands = c->most_operands > 0 ? c->most_operands : 1;  // a transfer has one
    c->inputs = ckm_i_malloc((size_t)c->most_operands, sizeof *c->inputs);
    c->outputs = ckm_i_malloc((size_t)c->most_operands, sizeof *c->outputs);
    if (c->owner == NULL || c->alive == NULL || c->alive_in == NULL || c->lives_at == NULL || c->seen == NULL ||
        c->begins == NULL || c->away == NULL || c->inputs == NULL || c->outputs == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < c->n_tensors; x++) {
        int32_t base = ckm_dataflow_get_tensor(c->df, x).alias_of;
        c->owner[x] = base >= 0 ? base : x;
        c->lives_at[x] = -1;
    }
    // An input never dies, so its storage is never born and lives in no instance.
    for (int32_t x = 0; x < c->n_tensors; x++) {
        c->alive_in[c->owner[x]] += ckm_dataflow_producer(c->df, x) < 0;
    }
    return CKM_OK;
}

static const char *tensor_name(const checker *c, int32_t x)
{
    return ckm_dataflow_get_tensor(c->df, x).name;
}

// Instance `i` is said to come to life at step `at` by operator v, holding `tensor` (-1: workspace) of `bytes`.
static bool check_birth(checker *c, int64_t at, int32_t i, int32_t v, int32_t tensor, int64_t bytes)
{
    if (i < 0 || i >= c->n_instances) {
        return complain(c, "step %lld: instance %d does not exist, the plan has %d", (long long)at, (int)i,
                        (int)c->n_instances);
    }
    if (c->seen[i]) {
        return complain(c, "step %lld: instance %d is allocated a second time", (long long)at, (int)i);
    }
    c->seen[i] = true;
    ckm_plan_instance instance = ckm_plan_get_instance(c->plan, i);
    if (instance.tensor != tensor || instance.op != v || instance.first != at || instance.bytes != bytes) {
        return complain(c,
                        "step %lld: instance %d should be tensor %d by operator %d from this step with %lld bytes, but "
                        "is tensor %d by operator %d from step %lld with %lld bytes",
                        (long long)at, (int)i, (int)tensor, (int)v, (long long)bytes, (int)instance.tensor,
                        (int)instance.op, (long long)instance.first, (long long)instance.bytes);
    }
    c->begins[i] = at;
    return true;
}

static bool check_death(checker *c, int32_t storage, int64_t last)
{
    int32_t i = c->lives_at[storage];
    c->lives_at[storage] = -1;
    int64_t claimed = ckm_plan_get_instance(c->plan, i).last;
    if (claimed != last) {
        return complain(c, "instance %d of tensor \"%.60s\" (%d) should end at step %lld, but ends at %lld", (int)i,
                        tensor_name(c, storage), (int)storage, (long long)last, (long long)claimed);
    }
    return true;
}

// Where the operand is said to be, against where it is.
static bool check_operand(const checker *c, int64_t at, int32_t x, int32_t said)
{
    int32_t is = c->lives_at[c->owner[x]];
    if (said != is) {
        return complain(c, "step %lld: tensor \"%.60s\" (%d) lives in instance %d, but the step is bound to %d",
                        (long long)at, tensor_name(c, x), (int)x, (int)is, (int)said);
    }
    return true;
}

// An in-place pair: the input's instance ends here and the output's continues at the same place.
static bool check_hand_over(checker *c, int64_t at, const ckm_step *step, const ckm_dataflow_op *op, int32_t k)
{
    int32_t input = step->inplace[k][0];
    int32_t output = step->inplace[k][1];
    int32_t old = c->lives_at[c->owner[input]];
    int32_t new = -1;
    for (int32_t o = 0; o < op->n_outputs; o++) {
        new = op->outputs[o] == output ? c->outputs[o] : new;
    }
    if (!check_birth(c, at, new, step->index, output, ckm_dataflow_get_tensor(c->df, output).bytes) ||
        !check_death(c, c->owner[input], at)) {
        return false;
    }
    ckm_plan_instance before = ckm_plan_get_instance(c->plan, old);
    ckm_plan_instance after = ckm_plan_get_instance(c->plan, new);
    if (before.offset != after.offset || before.buffer != after.buffer || after.bytes > before.bytes) {
        return complain(c, "step %lld: instance %d is handed over in place to instance %d, but is not in its place",
                        (long long)at, (int)old, (int)new);
    }
    c->begins[new] = at + 1;  // until then the memory is the input's
    c->lives_at[output] = new;
    c->alive[input] = false;
    c->alive_in[c->owner[input]] = 0;
    c->alive[output] = true;
    c->alive_in[output] = 1;
    return true;
}

static bool check_compute(checker *c, int64_t at, const ckm_step *step)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(c->df, step->index);
    int32_t workspace = -1;
    ckm_plan_get_step(c->plan, at, c->inputs, c->outputs, &workspace);
    for (int32_t k = 0; k < op.n_inputs; k++) {
        if (!check_operand(c, at, op.inputs[k], c->inputs[k])) {
            return false;
        }
    }
    for (int32_t k = 0; k < step->n_inplace; k++) {
        if (!check_hand_over(c, at, step, &op, k)) {
            return false;
        }
    }
    for (int32_t k = 0; k < op.n_outputs; k++) {
        int32_t x = op.outputs[k];
        int32_t storage = c->owner[x];
        if (!c->alive[x]) {
            c->alive[x] = true;
            if (c->alive_in[storage]++ == 0) {
                int64_t bytes = ckm_dataflow_get_tensor(c->df, storage).bytes;
                if (!check_birth(c, at, c->outputs[k], step->index, storage, bytes)) {
                    return false;
                }
                c->lives_at[storage] = c->outputs[k];
            }
        }
        if (!check_operand(c, at, x, c->outputs[k])) {
            return false;
        }
    }
    if (op.workspace_bytes == 0) {
        return workspace == -1 || complain(c, "step %lld: bound to a workspace it does not need", (long long)at);
    }
    if (!check_birth(c, at, workspace, step->index, -1, op.workspace_bytes)) {
        return false;
    }
    return ckm_plan_get_instance(c->plan, workspace).last == at ||
           complain(c, "instance %d: a workspace lives for one step", (int)workspace);
}

static bool check_free(checker *c, int64_t at, int32_t x)
{
    int32_t storage = c->owner[x];
    c->alive[x] = false;
    return --c->alive_in[storage] > 0 || check_death(c, storage, at - 1);
}

// Whether a load produces tensor x, which can then be moved in without having been moved out.
static bool is_load(const checker *c, int32_t x)
{
    int32_t producer = ckm_dataflow_producer(c->df, x);
    return producer >= 0 && ckm_dataflow_get_op(c->df, producer).kind == CKM_OP_LOAD;
}

// A storage is read while it leaves, and written from the step on that begins to bring it back: it is born there, by no operator.
static bool check_transfer(checker *c, int64_t at, const ckm_step *step)
{
    int32_t x = step->index;
    int32_t workspace = -1;
    if (step->kind == CKM_STEP_WAIT_OUT) {
        return true;
    }
    if (step->kind == CKM_STEP_WAIT_IN) {
        for (int32_t y = 0; y < c->n_tensors; y++) {
            if (c->owner[y] == x && (c->away[y] || is_load(c, y))) {
                c->alive[y] = true;
                c->alive_in[x]++;
            }
        }
        return true;
    }
    ckm_plan_get_step(c->plan, at, c->inputs, c->outputs, &workspace);
    if (workspace != -1) {
        return complain(c, "step %lld: a transfer is bound to a workspace", (long long)at);
    }
    if (step->kind == CKM_STEP_OUT) {
        for (int32_t y = 0; y < c->n_tensors; y++) {
            c->away[y] = c->owner[y] == x ? c->alive[y] : c->away[y];
        }
        return check_operand(c, at, x, c->inputs[0]);
    }
    if (!check_birth(c, at, c->outputs[0], -1, x, ckm_dataflow_get_tensor(c->df, x).bytes)) {
        return false;
    }
    c->lives_at[x] = c->outputs[0];
    return true;
}

static bool check_lives(checker *c)
{
    for (int64_t at = 0; at < c->n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(c->s, at);
        bool good = step.kind == CKM_STEP_COMPUTE ? check_compute(c, at, &step)
                    : step.kind == CKM_STEP_FREE  ? check_free(c, at, step.index)
                                                  : check_transfer(c, at, &step);
        if (!good) {
            return false;
        }
    }
    for (int32_t x = 0; x < c->n_tensors; x++) {
        if (c->lives_at[x] >= 0 && !check_death(c, x, c->n_steps - 1)) {
            return false;
        }
    }
    for (int32_t i = 0; i < c->n_instances; i++) {
        if (!c->seen[i]) {
            return complain(c, "instance %d belongs to nothing the schedule computes", (int)i);
        }
    }
    return true;
}

static bool check_place(const checker *c, int32_t i, int64_t alignment, int64_t *reach)
{
    ckm_plan_instance instance = ckm_plan_get_instance(c->plan, i);
    int64_t arena = ckm_plan_get_info(c->plan)->arena_bytes;
    int64_t end;
    if (instance.offset < 0 || instance.offset % alignment != 0) {
        return complain(c, "instance %d: offset %lld is not a multiple of %lld", (int)i, (long long)instance.offset,
                        (long long)alignment);
    }
    if (__builtin_add_overflow(instance.offset, instance.bytes, &end) || end > arena) {
        return complain(c, "instance %d reaches beyond the arena of %lld bytes", (int)i, (long long)arena);
    }
    *reach = end > *reach ? end : *reach;
    return true;
}

static int by_begin(const void *left, const void *right)
{
    const extent *a = left;
    const extent *b = right;
    return a->begin < b->begin ? -1 : a->begin > b->begin;
}

// Puts `new` among the n extents in use, which are in order of offset. Those that have ended are dropped on the way.
static bool enter(const checker *c, extent *in_use, int32_t *n, const extent *new)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < *n; i++) {
        if (in_use[i].end >= new->begin) {
            in_use[kept++] = in_use[i];
        }
    }
    int32_t at = kept;
    for (; at > 0 && in_use[at - 1].from > new->from; at--) {
        in_use[at] = in_use[at - 1];
    }
    in_use[at] = *new;
    *n = kept + 1;
    const extent *clash = at > 0 && in_use[at - 1].to > new->from       ? &in_use[at - 1]
                          : at + 1 < *n &&new->to > in_use[at + 1].from ? &in_use[at + 1]
                                                                        : NULL;
    return clash == NULL || complain(c, "instances %d and %d are in use together at step %lld and overlap",
                                     (int)clash->instance, (int)new->instance, (long long)new->begin);
}

static ckm_status check_space(checker *c, bool *good, ckm_error *err)
{
    int32_t n = 0;
    int32_t n_in_use = 0;
    extent *extents = ckm_i_malloc((size_t)c->n_instances, sizeof *extents);
    extent *in_use = ckm_i_malloc((size_t)c->n_instances, sizeof *in_use);
    if (extents == NULL || in_use == NULL) {
        free(extents);
        free(in_use);
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < c->n_instances; i++) {
        ckm_plan_instance instance = ckm_plan_get_instance(c->plan, i);
        if (instance.bytes > 0 && c->begins[i] <= instance.last) {
            extents[n++] = (extent){c->begins[i], instance.last, instance.offset, instance.offset + instance.bytes, i};
        }
    }
    if (n > 0) {
        qsort(extents, (size_t)n, sizeof *extents, by_begin);
    }
    for (int32_t i = 0; i < n && *good; i++) {
        *good = enter(c, in_use, &n_in_use, &extents[i]);
    }
    free(extents);
    free(in_use);
    return CKM_OK;
}

ckm_status ckm_plan_verify(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan *plan, int64_t alignment,
                           ckm_plan_verdict *out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(plan, err);
    CKM_I_NEED(out, err);
    ckm_plan_verdict verdict = {.ok = false, .arena_bytes = -1};
    ckm_verdict legal;
    checker c = {.df = df,
                 .s = s,
                 .plan = plan,
                 .n_tensors = ckm_dataflow_tensor_count(df),
                 .n_instances = ckm_plan_instance_count(plan),
                 .n_steps = ckm_schedule_step_count(s),
                 .why = verdict.why};
    bool good = true;
    int64_t reach = 0;
    ckm_status status;
    if (alignment < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "alignment %lld is not positive", (long long)alignment);
    }
    CKM_I_TRY(ckm_schedule_verify(df, s, -1, &legal, err));
    if (!legal.ok) {
        memcpy(verdict.why, legal.why, sizeof verdict.why);
        *out = verdict;
        goto cleanup;
    }
    CKM_I_TRY(read_graph(&c, err));
    good = check_lives(&c);
    for (int32_t i = 0; i < c.n_instances && good; i++) {
        good = check_place(&c, i, alignment, &reach);
    }
    if (good) {
        CKM_I_TRY(check_space(&c, &good, err));
    }
    verdict.ok = good;
    verdict.arena_bytes = good ? reach : -1;
    *out = verdict;
cleanup:
    free(c.owner);
    free(c.alive);
    free(c.alive_in);
    free(c.lives_at);
    free(c.seen);
    free(c.begins);
    free(c.away);
    free(c.inputs);
    free(c.outputs);
    return status;
}
