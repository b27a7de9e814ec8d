// SPDX-License-Identifier: Apache-2.0
// Two schedules of the same step, compared bit for bit. One session exists at a time, so that comparing takes no more
// memory than the larger of the two: the outputs of the first are kept as fingerprints.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/options.h"
#include "base/text.h"
#include "run/session/session.h"

// The record of one session: per step the outputs of every operator and the loss, and all tensors at the end.
typedef struct record {
    int64_t steps;
    int32_t n_ops, n_tensors;
    uint64_t *outputs;  // by step and operator
    double *losses;
    uint64_t *tensors;
    int64_t recomputations;
    char why[512];  // a recomputation that differed
} record;

typedef struct comparison {
    ckm_program *program;
    const ckm_dataflow *df;
    ckm_compare_options options;
} comparison;

static ckm_status record_create(const comparison *c, record *r, ckm_error *err)
{
    r->steps = c->options.steps;
    r->n_ops = c->program->n_ops;
    r->n_tensors = c->program->training->n_values;
    r->outputs = ckm_i_calloc((size_t)(r->steps * r->n_ops), sizeof *r->outputs);
    r->losses = ckm_i_calloc((size_t)r->steps, sizeof *r->losses);
    r->tensors = ckm_i_calloc((size_t)r->n_tensors, sizeof *r->tensors);
    return r->outputs != NULL && r->losses != NULL && r->tensors != NULL ? CKM_OK : ckm_i_error_memory(err);
}

static void record_dispose(record *r)
{
    free(r->outputs);
    free(r->losses);
    free(r->tensors);
}

static const char *op_name(const comparison *c, int32_t op)
{
    return c->program->training->ops[op].name;
}

static ckm_status run_and_record(const comparison *c, const ckm_session_side *side, record *r, ckm_error *err)
{
    const ckm_compare_options *o = &c->options;
    ckm_status status;
    ckm_session *session = NULL;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    options.seed = o->seed;
    options.trace = true;
    CKM_I_TRY(ckm_session_create(c->program, c->df, side->schedule, side->plan, &options, &session, err));
    for (int64_t step = 0; step < o->steps; step++) {
        ckm_step_result result;
        if (o->fill != NULL) {
            CKM_I_TRY(o->fill(session, step, o->user, err));
        } else {
            CKM_I_TRY(ckm_session_fill(session, 1, step, err));
        }
        CKM_I_TRY(ckm_session_step(session, step, o->learning_rate, &result, err));
        r->losses[step] = result.loss;
        for (int32_t v = 0; v < r->n_ops; v++) {
            r->outputs[step * r->n_ops + v] = session->trace[v].fingerprint;
        }
        if (result.mismatches > 0 && r->why[0] == '\0') {
            snprintf(r->why, sizeof r->why,
                     "step %lld: recomputing operator \"%.200s\" gave different bits than "
                     "before",
                     (long long)step, op_name(c, session->first_mismatch));
        }
    }
    for (int64_t i = 0; i < session->n_calls; i++) {
        r->recomputations += !session->calls[i].call.first;
    }
    for (int32_t i = 0; i < session->n_tensors; i++) {
        const ckm_session_tensor *tensor = &session->tensors[i];
        const void *values = NULL;
        CKM_I_TRY(ckm_i_session_look(session, session->addresses[i], tensor->bytes, &values, err));
        r->tensors[session->values[i]] = ckm_i_fingerprint(values, tensor->bytes);
    }
cleanup:
    ckm_session_free(session);
    return status;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static bool differs(const comparison *c, const record *a, const record *b, char *why, size_t room)
{
    if (a->why[0] != '\0' || b->why[0] != '\0') {
        snprintf(why, room, "%s", a->why[0] != '\0' ? a->why : b->why);
        return true;
    }
    for (int64_t step = 0; step < c->options.steps; step++) {
        for (int32_t v = 0; v < a->n_ops; v++) {
            if (a->outputs[step * a->n_ops + v] != b->outputs[step * a->n_ops + v]) {
                snprintf(why, room, "step %lld: operator \"%.200s\" gave different bits", (long long)step,
                         op_name(c, v));
                return true;
            }
        }
        if (bits_of(a->losses[step]) != bits_of(b->losses[step])) {
            snprintf(why, room, "step %lld: the losses are %.9g and %.9g", (long long)step, a->losses[step],
                     b->losses[step]);
            return true;
        }
    }
    for (int32_t x = 0; x < a->n_tensors; x++) {
        if (a->tensors[x] != b->tensors[x]) {
            snprintf(why, room, "after %lld steps: \"%.200s\" has different bits", (long long)c->options.steps,
                     c->program->training->values[x].name);
            return true;
        }
    }
    return false;
}

ckm_status ckm_session_compare(ckm_program *program, const ckm_dataflow *df, const ckm_session_side *first,
                               const ckm_session_side *second, const ckm_compare_options *options,
                               ckm_compare_result *out, ckm_error *err)
{
    CKM_I_NEED(program, err);
    CKM_I_NEED(df, err);
    CKM_I_NEED(first, err);
    CKM_I_NEED_NAMED(first->schedule, "first->schedule", err);
    CKM_I_NEED_NAMED(first->plan, "first->plan", err);
    CKM_I_NEED(second, err);
    CKM_I_NEED_NAMED(second->schedule, "second->schedule", err);
    CKM_I_NEED_NAMED(second->plan, "second->plan", err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    comparison c = {program, df, CKM_COMPARE_OPTIONS_INIT};
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_compare_options, &c.options, user, options, err));
    c.options.steps = ckm_i_usual_count(c.options.steps, 3);
    c.options.learning_rate = ckm_i_usual(c.options.learning_rate, 0.01);
    int64_t steps = c.options.steps;
    record a = {0};
    record b = {0};
    ckm_compare_result result = {.steps = steps, .why = ""};
    ckm_status status;
    if (steps < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "comparing takes at least one step, not %lld", (long long)steps);
    }
    CKM_I_TRY(record_create(&c, &a, err));
    CKM_I_TRY(record_create(&c, &b, err));
    CKM_I_TRY(run_and_record(&c, first, &a, err));
    CKM_I_TRY(run_and_record(&c, second, &b, err));
    result.equal = !differs(&c, &a, &b, result.why, sizeof result.why);
    ckm_i_text_clean(result.why);
    for (int32_t v = 0; v < program->n_ops; v++) {
        result.operators += program->kernels[v] != NULL;
    }
    result.recomputations = b.recomputations;
    result.first_loss = a.losses[0];
    result.last_loss = a.losses[steps - 1];
    *out = result;
cleanup:
    record_dispose(&a);
    record_dispose(&b);
    return status;
}
