// SPDX-License-Identifier: Apache-2.0
// The simulator: one pass over the steps that keeps the number of live tensors in every storage and the
// bytes in use. Everything is updated incrementally, so a step costs its operands and no more.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "dataflow/dataflow.h"
#include "schedule/schedule_simulation.h"

static const char *tensor_name(const ckm_i_simulation_state *sim, int32_t x)
{
    return sim->df->tensors[x].name;
}

static const char *op_name(const ckm_i_simulation_state *sim, int32_t v)
{
    return sim->df->ops[v].name;
}

// What every complaint about a compute step starts with.
#define STEP_FORMAT "step %lld (compute %d \"%.80s\"): "
#define STEP_ARGS(sim, v) (long long)(sim)->step, (int)(v), op_name((sim), (v))

static ckm_status check_tensor(const ckm_i_simulation_state *sim, int32_t v, int32_t x)
{
    if (x < 0 || x >= sim->df->n_tensors) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, STEP_FORMAT "in-place pair names tensor %d of %d",
                           STEP_ARGS(sim, v), (int)x, (int)sim->df->n_tensors);
    }
    return CKM_OK;
}

// Checks the in-place pair (input, output) of operator v against the state before the step.
static ckm_status check_pair(ckm_i_simulation_state *sim, int32_t v, int32_t input, int32_t output)
{
    const ckm_dataflow *df = sim->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    const char *why = NULL;
    if (check_tensor(sim, v, input) != CKM_OK || check_tensor(sim, v, output) != CKM_OK) {
        return CKM_ERR_FORMAT;
    }
    bool declared = false;
    for (int32_t k = 0; !declared && k < op->n_inplace; k++) {
        declared = op->inplace[k][0] == input && op->inplace[k][1] == output;
    }
    const ckm_i_dataflow_tensor *from = &df->tensors[input];
    if (!declared) {
        why = "the operator does not declare it";
    } else if (sim->paired_at[input] == sim->step || sim->paired_at[output] == sim->step) {
        why = "one of its tensors is in an earlier pair of the step";
    } else if (!sim->live[input]) {
        why = "the input is not live";
    } else if (from->pinned) {
        why = "the input's storage belongs to a graph input";
    } else if (sim->tensors_in[from->storage] != 1) {
        why = "another live tensor shares the input's storage";
    } else if (df->tensors[output].alias_of >= 0) {
        why = "the output is a view";
    } else if (sim->live[output]) {
        why = "the output is already live";
    } else if (sim->tensors_in[output] != 0) {
        why = "a live view already holds the output's storage";
    } else if (df->tensors[output].bytes > df->tensors[from->storage].bytes) {
        why = "the output is larger than the input's storage";
    } else {
        why = ckm_i_simulation_busy(sim, from->storage);
    }
    if (why != NULL) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                           STEP_FORMAT "in-place pair of tensors %d \"%.80s\" and %d \"%.80s\": %s", STEP_ARGS(sim, v),
                           (int)input, tensor_name(sim, input), (int)output, tensor_name(sim, output), why);
    }
    sim->paired_at[input] = sim->step;
    sim->paired_at[output] = sim->step;
    sim->taken_at[from->storage] = sim->step;
    return CKM_OK;
}

static ckm_status check_compute(ckm_i_simulation_state *sim, const ckm_step *step)
{
    const ckm_dataflow *df = sim->df;
    int32_t v = step->index;
    if (v < 0 || v >= df->n_ops) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, "step %lld: compute names operator %d of %d", (long long)sim->step,
                           (int)v, (int)df->n_ops);
    }
    const ckm_i_dataflow_op *op = &df->ops[v];
    if (sim->computed[v] && !op->recomputable) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                           STEP_FORMAT "the operator is not recomputable and has been computed already",
                           STEP_ARGS(sim, v));
    }
    for (int32_t k = 0; k < op->n_inputs; k++) {
        int32_t x = op->inputs[k];
        if (!sim->live[x]) {
            return ckm_i_error(sim->err, CKM_ERR_FORMAT, STEP_FORMAT "its input, tensor %d \"%.80s\", is not live",
                               STEP_ARGS(sim, v), (int)x, tensor_name(sim, x));
        }
    }
    for (int32_t k = 0; k < step->n_inplace; k++) {
        CKM_I_CHECK(check_pair(sim, v, step->inplace[k][0], step->inplace[k][1]));
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        int32_t x = op->outputs[k];
        const char *busy = ckm_i_simulation_busy(sim, df->tensors[x].storage);
        if (busy != NULL) {
            return ckm_i_error(sim->err, CKM_ERR_FORMAT, STEP_FORMAT "its output, tensor %d \"%.80s\": %s",
                               STEP_ARGS(sim, v), (int)x, tensor_name(sim, x), busy);
        }
        if (step->n_inplace > 0 && sim->taken_at[df->tensors[x].storage] == sim->step) {
            return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                               STEP_FORMAT
                               "its output, tensor %d \"%.80s\", is a view of storage that an in-place pair "
                               "takes over",
                               STEP_ARGS(sim, v), (int)x, tensor_name(sim, x));
        }
    }
    return CKM_OK;
}

static ckm_status run_compute(ckm_i_simulation_state *sim, const ckm_step *step, int64_t *during)
{
    const ckm_dataflow *df = sim->df;
    CKM_I_CHECK(check_compute(sim, step));
    int32_t v = step->index;
    const ckm_i_dataflow_op *op = &df->ops[v];
    // While the operator runs, a pair is its input's storage; afterwards it is the output's own.
    int64_t shrink = 0;
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t from = df->tensors[step->inplace[k][0]].storage;
        int32_t output = step->inplace[k][1];
        sim->live[step->inplace[k][0]] = false;
        sim->tensors_in[from] = 0;
        sim->live[output] = true;
        sim->tensors_in[output] = 1;
        shrink += df->tensors[from].bytes - df->tensors[output].bytes;
    }
    bool fits = true;
    for (int32_t k = 0; k < op->n_outputs; k++) {
        int32_t x = op->outputs[k];
        int32_t storage = df->tensors[x].storage;
        if (!sim->live[x]) {
            sim->live[x] = true;
            if (sim->tensors_in[storage]++ == 0) {
                fits = fits && ckm_i_add(sim->in_use, df->tensors[storage].bytes, &sim->in_use);
            }
        }
    }
    fits = fits && ckm_i_add(sim->in_use, op->workspace_bytes, during);
    if (!ckm_i_add(sim->cost, op->cost, &sim->cost)) {
        sim->cost = INT64_MAX;
        fits = fits && sim->takes_any_cost;
    }
    if (!fits) {
        return ckm_i_error(sim->err, CKM_ERR_OVERFLOW, STEP_FORMAT "cost or bytes exceed 63 bits", STEP_ARGS(sim, v));
    }
    sim->in_use -= shrink;
    sim->computed[v] = true;
    if (*during > sim->peak) {
        sim->peak = *during;
        sim->peak_step = sim->step;
    }
    return CKM_OK;
}

static ckm_status run_free(ckm_i_simulation_state *sim, int32_t x)
{
    const ckm_dataflow *df = sim->df;
    if (x < 0 || x >= df->n_tensors) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, "step %lld: free names tensor %d of %d", (long long)sim->step,
                           (int)x, (int)df->n_tensors);
    }
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    if (tensor->producer < 0 || !sim->live[x]) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, "step %lld (free %d \"%.80s\"): the tensor is %s",
                           (long long)sim->step, (int)x, tensor->name,
                           tensor->producer < 0 ? "a graph input and never freed" : "not live");
    }
    const char *busy = sim->tensors_in[tensor->storage] == 1 ? ckm_i_simulation_busy(sim, tensor->storage) : NULL;
    if (busy != NULL) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, "step %lld (free %d \"%.80s\"): %s", (long long)sim->step, (int)x,
                           tensor->name, busy);
    }
    sim->live[x] = false;
    if (--sim->tensors_in[tensor->storage] == 0) {
        sim->in_use -= df->tensors[tensor->storage].bytes;
    }
    return CKM_OK;
}

static ckm_status check_end(const ckm_i_simulation_state *sim)
{
    const ckm_dataflow *df = sim->df;
    for (int32_t v = 0; v < df->n_ops; v++) {
        if (!sim->computed[v]) {
            return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                               "after the last step, %lld: operator %d \"%.80s\" was never computed",
                               (long long)sim->s->n_steps - 1, (int)v, op_name(sim, v));
        }
    }
    for (int32_t k = 0; k < df->n_results; k++) {
        int32_t x = df->results[k];
        if (!sim->live[x]) {
            return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                               "after the last step, %lld: result, tensor %d \"%.80s\", is not live",
                               (long long)sim->s->n_steps - 1, (int)x, tensor_name(sim, x));
        }
    }
    return ckm_i_simulation_check_links(sim);
}

// Inputs are live and everything on their storages is counted; nothing else is.
static ckm_status start(ckm_i_simulation_state *sim)
{
    const ckm_dataflow *df = sim->df;
    size_t n = (size_t)df->n_tensors;
    sim->live = ckm_i_calloc(n, sizeof *sim->live);
    sim->tensors_in = ckm_i_calloc(n, sizeof *sim->tensors_in);
    sim->computed = ckm_i_calloc((size_t)df->n_ops, sizeof *sim->computed);
    sim->paired_at = ckm_i_malloc(n, sizeof *sim->paired_at);
    sim->taken_at = ckm_i_malloc(n, sizeof *sim->taken_at);
    if (sim->live == NULL || sim->tensors_in == NULL || sim->computed == NULL || sim->paired_at == NULL ||
        sim->taken_at == NULL) {
        return ckm_i_error_memory(sim->err);
    }
    sim->in_use = df->fixed_bytes;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        sim->paired_at[x] = -1;
        sim->taken_at[x] = -1;
        if (df->tensors[x].producer < 0) {
            int32_t storage = df->tensors[x].storage;
            sim->live[x] = true;
            if (sim->tensors_in[storage]++ == 0 && !ckm_i_add(sim->in_use, df->tensors[storage].bytes, &sim->in_use)) {
                return ckm_i_error(sim->err, CKM_ERR_OVERFLOW, "bytes of the inputs exceed 63 bits");
            }
        }
    }
    return sim->s->n_transfers > 0 ? ckm_i_simulation_start_links(sim) : CKM_OK;
}

static ckm_status simulate(const ckm_dataflow *df, const ckm_schedule *s, bool takes_any_cost, int64_t *timeline_bytes,
                           ckm_simulation *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_simulation_state sim = {.df = df, .s = s, .takes_any_cost = takes_any_cost, .err = err};
    int64_t *timeline = NULL;  // the caller's is filled only when the schedule is legal
    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    if (timeline_bytes != NULL) {
        timeline = ckm_i_malloc((size_t)s->n_steps, sizeof *timeline);
        if (timeline == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
    }
    CKM_I_TRY(start(&sim));
    for (sim.step = 0; sim.step < s->n_steps; sim.step++) {
        ckm_step step = ckm_schedule_get_step(s, sim.step);
        int64_t during = 0;
        if (step.kind == CKM_STEP_COMPUTE) {
            CKM_I_TRY(run_compute(&sim, &step, &during));
        } else {
            CKM_I_TRY(step.kind == CKM_STEP_FREE ? run_free(&sim, step.index) : ckm_i_simulation_transfer(&sim, &step));
            during = sim.in_use;
        }
        if (timeline != NULL) {
            timeline[sim.step] = during;
        }
    }
    CKM_I_TRY(check_end(&sim));
    if (timeline != NULL) {
        memcpy(timeline_bytes, timeline, (size_t)s->n_steps * sizeof *timeline);
    }
    *out = (ckm_simulation){.cost = sim.cost,
                            .peak_bytes = sim.peak,
                            .peak_step = sim.peak_step,
                            .end_bytes = sim.in_use,
                            .second_peak_bytes = sim.links.peak};
cleanup:
    free(timeline);
    free(sim.live);
    free(sim.tensors_in);
    free(sim.computed);
    free(sim.paired_at);
    free(sim.taken_at);
    ckm_i_simulation_end_links(&sim);
    return status;
}

ckm_status ckm_schedule_simulate(const ckm_dataflow *df, const ckm_schedule *s, int64_t *timeline_bytes,
                                 ckm_simulation *out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(out, err);
    return simulate(df, s, false, timeline_bytes, out, err);
}

ckm_status ckm_i_schedule_try(const ckm_dataflow *df, const ckm_schedule *s, int64_t *timeline_bytes,
                              ckm_simulation *out, ckm_error *err)
{
    return simulate(df, s, true, timeline_bytes, out, err);
}
