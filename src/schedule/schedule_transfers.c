// SPDX-License-Identifier: Apache-2.0
// Transfers in the simulator: storages that leave for the second memory and come back, one each way at a time while operators run.
// Which bytes are where follows from the order of the steps alone; speeds only decide the time.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "schedule/schedule_simulation.h"

ckm_status ckm_i_simulation_start_links(ckm_i_simulation_state *sim)
{
    const ckm_dataflow *df = sim->df;
    ckm_i_simulation_links *links = &sim->links;
    size_t n = (size_t)df->n_tensors;
    if (df->second_name == NULL) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                           "the schedule moves tensors, but the graph has no second memory to move them to");
    }
    links->leaving = ckm_i_calloc(n, sizeof *links->leaving);
    links->coming = ckm_i_calloc(n, sizeof *links->coming);
    links->stored = ckm_i_calloc(n, sizeof *links->stored);
    links->moved = ckm_i_calloc(n, sizeof *links->moved);
    links->done_at = ckm_i_calloc(n, sizeof *links->done_at);
    links->last_in = ckm_i_malloc(n, sizeof *links->last_in);
    links->members_at = ckm_i_calloc(n + 1, sizeof *links->members_at);
    links->members = ckm_i_malloc(n, sizeof *links->members);
    if (links->leaving == NULL || links->coming == NULL || links->stored == NULL || links->moved == NULL ||
        links->done_at == NULL || links->last_in == NULL || links->members_at == NULL || links->members == NULL) {
        return ckm_i_error_memory(sim->err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        links->last_in[x] = -1;
        links->stored[x] = links->moved[x] = ckm_i_is_loaded(df, x);
    }
    ckm_i_dataflow_members(df, links->members_at, links->members);
    for (int64_t i = 0; i < sim->s->n_steps; i++) {
        int32_t x = sim->s->steps[i].index;
        if (sim->s->steps[i].kind == CKM_STEP_IN && x >= 0 && x < df->n_tensors) {
            links->last_in[x] = i;
        }
    }
    return CKM_OK;
}

void ckm_i_simulation_end_links(ckm_i_simulation_state *sim)
{
    free(sim->links.leaving);
    free(sim->links.coming);
    free(sim->links.stored);
    free(sim->links.moved);
    free(sim->links.done_at);
    free(sim->links.last_in);
    free(sim->links.members_at);
    free(sim->links.members);
}

const char *ckm_i_simulation_busy(const ckm_i_simulation_state *sim, int32_t storage)
{
    if (sim->links.leaving == NULL) {
        return NULL;
    }
    return sim->links.leaving[storage]  ? "its copy to the second memory has not been waited for"
           : sim->links.coming[storage] ? "it is on its way back and has not been waited for"
                                        : NULL;
}

static const char *const names[] = {
    [CKM_STEP_OUT] = "out", [CKM_STEP_IN] = "in", [CKM_STEP_WAIT_OUT] = "wait out", [CKM_STEP_WAIT_IN] = "wait in"};

// What forbids the step; NULL: nothing.
static const char *problem(const ckm_i_simulation_state *sim, ckm_step_kind kind, int32_t x)
{
    const ckm_i_simulation_links *links = &sim->links;
    const ckm_i_dataflow_tensor *tensor = &sim->df->tensors[x];
    if (tensor->alias_of >= 0) {
        return "it is a view: what moves is the storage that it shares, named by its owner";
    }
    if (tensor->pinned) {
        return "its storage belongs to a graph input, which is always there";
    }
    switch (kind) {
    case CKM_STEP_OUT:
        return links->stored[x]          ? "a copy of it is there already"
               : sim->tensors_in[x] == 0 ? "no tensor of its storage is live"
               : links->coming[x]        ? "it is on its way back"
                                         : NULL;
    case CKM_STEP_IN:
        return !links->stored[x]         ? "there is no copy of it"
               : sim->tensors_in[x] != 0 ? "its storage is there already"
               : links->coming[x]        ? "it is on its way back already"
                                         : NULL;
    case CKM_STEP_WAIT_OUT:
        return links->leaving[x] ? NULL : "it is not on its way there";
    default:
        return links->coming[x] ? NULL : "it is not on its way back";
    }
}

// A transfer of `bytes` bytes begins when the link is free, and not before now.
static bool begin(ckm_i_simulation_state *sim, int32_t x, int64_t bytes, bool out)
{
    int64_t *free_at = out ? &sim->links.out_free_at : &sim->links.in_free_at;
    int64_t from = *free_at > sim->cost ? *free_at : sim->cost;
    int64_t takes;
    if (!ckm_i_transfer_cost(sim->df, bytes, out, &takes) || !ckm_i_add(from, takes, free_at)) {
        *free_at = INT64_MAX;
        sim->links.done_at[x] = INT64_MAX;
        return sim->takes_any_cost;
    }
    sim->links.done_at[x] = *free_at;
    return true;
}

// All tensors of x's storage that were live when it was moved out are live again.
static void arrive(ckm_i_simulation_state *sim, int32_t x)
{
    const ckm_dataflow *df = sim->df;
    for (int32_t k = sim->links.members_at[x]; k < sim->links.members_at[x + 1]; k++) {
        int32_t y = sim->links.members[k];
        if (sim->links.moved[y]) {
            sim->live[y] = true;
            sim->tensors_in[x]++;
        }
    }
    if (ckm_i_is_loaded(df, x)) {
        sim->computed[df->tensors[x].producer] = true;
    }
}

static ckm_status leave(ckm_i_simulation_state *sim, int32_t x)
{
    const ckm_dataflow *df = sim->df;
    ckm_i_simulation_links *links = &sim->links;
    int64_t bytes = df->tensors[x].bytes;
    for (int32_t k = links->members_at[x]; k < links->members_at[x + 1]; k++) {
        links->moved[links->members[k]] = sim->live[links->members[k]];
    }
    links->leaving[x] = true;
    links->stored[x] = true;
    if (!begin(sim, x, bytes, true) || !ckm_i_add(links->in_use, bytes, &links->in_use)) {
        return ckm_i_error(sim->err, CKM_ERR_OVERFLOW, "step %lld (out %d \"%.80s\"): times or bytes exceed 63 bits",
                           (long long)sim->step, (int)x, df->tensors[x].name);
    }
    if (df->second.bytes >= 0 && links->in_use > df->second.bytes) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT,
                           "step %lld (out %d \"%.80s\"): copies of %lld bytes in all exceed the second memory's %lld",
                           (long long)sim->step, (int)x, df->tensors[x].name, (long long)links->in_use,
                           (long long)df->second.bytes);
    }
    links->peak = links->in_use > links->peak ? links->in_use : links->peak;
    return CKM_OK;
}

static ckm_status come_back(ckm_i_simulation_state *sim, int32_t x)
{
    const ckm_dataflow *df = sim->df;
    sim->links.coming[x] = true;
    if (!begin(sim, x, ckm_i_bytes_in(df, x), false) || !ckm_i_add(sim->in_use, df->tensors[x].bytes, &sim->in_use)) {
        return ckm_i_error(sim->err, CKM_ERR_OVERFLOW, "step %lld (in %d \"%.80s\"): times or bytes exceed 63 bits",
                           (long long)sim->step, (int)x, df->tensors[x].name);
    }
    if (sim->in_use > sim->peak) {
        sim->peak = sim->in_use;
        sim->peak_step = sim->step;
    }
    return CKM_OK;
}

ckm_status ckm_i_simulation_transfer(ckm_i_simulation_state *sim, const ckm_step *step)
{
    const ckm_dataflow *df = sim->df;
    ckm_i_simulation_links *links = &sim->links;
    int32_t x = step->index;
    if (x < 0 || x >= df->n_tensors) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, "step %lld: %s names tensor %d of %d", (long long)sim->step,
                           names[step->kind], (int)x, (int)df->n_tensors);
    }
    const char *why = problem(sim, step->kind, x);
    if (why != NULL) {
        return ckm_i_error(sim->err, CKM_ERR_FORMAT, "step %lld (%s %d \"%.80s\"): %s", (long long)sim->step,
                           names[step->kind], (int)x, df->tensors[x].name, why);
    }
    switch (step->kind) {
    case CKM_STEP_OUT:
        return leave(sim, x);
    case CKM_STEP_IN:
        return come_back(sim, x);
    default:
        break;
    }
    sim->cost = links->done_at[x] > sim->cost ? links->done_at[x] : sim->cost;
    if (step->kind == CKM_STEP_WAIT_OUT) {
        links->leaving[x] = false;
        return CKM_OK;
    }
    links->coming[x] = false;
    arrive(sim, x);
    // What is loaded has no copy in the second memory.
    if (!ckm_i_is_loaded(df, x) && links->last_in[x] < sim->step && links->last_in[x] >= 0) {
        links->in_use -= df->tensors[x].bytes;
        links->last_in[x] = INT64_MAX;
    }
    return CKM_OK;
}

ckm_status ckm_i_simulation_check_links(const ckm_i_simulation_state *sim)
{
    for (int32_t x = 0; sim->links.leaving != NULL && x < sim->df->n_tensors; x++) {
        const char *busy = ckm_i_simulation_busy(sim, x);
        if (busy != NULL) {
            return ckm_i_error(sim->err, CKM_ERR_FORMAT, "after the last step, %lld: tensor %d \"%.80s\": %s",
                               (long long)sim->s->n_steps - 1, (int)x, sim->df->tensors[x].name, busy);
        }
    }
    return CKM_OK;
}
