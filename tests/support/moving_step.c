// SPDX-License-Identifier: Apache-2.0
#include "moving_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dataflow/dataflow.h"

// Where storage x has its longest pause in a schedule without rematerialization: the steps before and after it.
typedef struct pause {
    int64_t after, before;
} pause;

static bool touches(const ckm_dataflow *df, const ckm_step *step, int32_t x)
{
    const ckm_i_dataflow_op *op = &df->ops[step->index];
    bool found = false;
    for (int32_t k = 0; k < op->n_inputs; k++) {
        found |= df->tensors[op->inputs[k]].storage == x;
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        found |= df->tensors[op->outputs[k]].storage == x;
    }
    return found;
}

// Storages without views that rest for some steps between two operators.
static pause find_pause(const ckm_dataflow *df, const ckm_schedule *s, int32_t x)
{
    pause longest = {-1, -1};
    int64_t last = -1;
    for (int32_t y = 0; y < df->n_tensors; y++) {
        if (df->tensors[x].pinned || df->tensors[x].storage != x || (y != x && df->tensors[y].storage == x)) {
            return longest;
        }
    }
    for (int64_t at = 0; at < ckm_schedule_step_count(s); at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        if (step.kind != CKM_STEP_COMPUTE || !touches(df, &step, x)) {
            continue;
        }
        if (last >= 0 && at - last > 2 && at - last > longest.before - longest.after) {
            longest = (pause){last, at};
        }
        last = at;
    }
    return longest;
}

static void append(ckm_schedule *s, ckm_step_kind kind, int32_t index)
{
    ckm_error err = CKM_ERROR_INIT;
    good(ckm_schedule_append(s, &(ckm_step){.kind = kind, .index = index}, &err), &err);
}

// The same, where all that can is moved out in its longest pause: begun, then waited for one step later, both ways.
static ckm_schedule *moving(const ckm_dataflow *df, const ckm_schedule *plain)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    pause *pauses = calloc((size_t)df->n_tensors, sizeof *pauses);
    assert_non_null(pauses);
    good(ckm_schedule_create(&s, &err), &err);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        pauses[x] = find_pause(df, plain, x);
    }
    for (int64_t at = 0; at < ckm_schedule_step_count(plain); at++) {
        ckm_step step = ckm_schedule_get_step(plain, at);
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (pauses[x].before == at) {
                append(s, CKM_STEP_IN, x);
            }
        }
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (pauses[x].before == at) {
                append(s, CKM_STEP_WAIT_IN, x);
            }
        }
        good(ckm_schedule_append(s, &step, &err), &err);
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (pauses[x].after == at) {
                append(s, CKM_STEP_OUT, x);
            }
        }
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (pauses[x].after + 1 == at && pauses[x].after >= 0) {
                append(s, CKM_STEP_WAIT_OUT, x);
                append(s, CKM_STEP_FREE, x);
            }
        }
    }
    free(pauses);
    return s;
}

// The same graph, with a second memory.
static ckm_dataflow *with_second_memory(const ckm_dataflow *df)
{
    static const ckm_second_memory memory = {"disk", -1, 1000000000, 1000000000, 1000};
    ckm_dataflow *to = NULL;
    ckm_error err = CKM_ERROR_INIT;
    good(ckm_dataflow_create(ckm_dataflow_name(df), CKM_COST_NS, ckm_dataflow_fixed_bytes(df), &to, &err), &err);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, x);
        good(ckm_dataflow_add_tensor(to, &tensor, NULL, &err), &err);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
        good(ckm_dataflow_add_op(to, &op, NULL, &err), &err);
    }
    for (int32_t i = 0; i < ckm_dataflow_result_count(df); i++) {
        good(ckm_dataflow_add_result(to, ckm_dataflow_get_result(df, i), &err), &err);
    }
    good(ckm_dataflow_set_second_memory(to, &memory, &err), &err);
    good(ckm_dataflow_finish(to, &err), &err);
    return to;
}

moving_step moving_step_of(const char *network, int64_t side, const char *folder)
{
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    kernels.backend = "reference";
    kernels.second_memory = folder;
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    moving_step m = {.step = zoo_step_of(network, 2, side, &derivation, &kernels)};
    m.df = with_second_memory(m.step.df);
    m.schedule = moving(m.df, m.step.schedule);
    good(ckm_plan_create(m.df, m.schedule, &packing, &m.plan, &err), &err);
    return m;
}

void moving_step_dispose(moving_step *m)
{
    ckm_plan_free(m->plan);
    ckm_schedule_free(m->schedule);
    ckm_dataflow_free(m->df);
    zoo_step_dispose(&m->step);
}
