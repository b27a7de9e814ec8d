// SPDX-License-Identifier: Apache-2.0
// The verifier's reading of transfers. Steps are followed for what is where; the time is worked out afterwards, in a second pass over
// the steps that keeps three clocks, and so is what the copies take, as intervals of steps. Shares no code with the simulator.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "schedule/schedule_verifier.h"

#define ABSENT INT64_C(-1)

ckm_status ckm_i_verify_links_start(ckm_i_verifier *vf, ckm_error *err)
{
    ckm_i_verify_links *links = &vf->links;
    size_t n = (size_t)vf->n_tensors;
    if (ckm_schedule_transfer_count(vf->s) == 0) {
        return CKM_OK;
    }
    links->out_at = ckm_i_malloc(n, sizeof *links->out_at);
    links->out_over = ckm_i_malloc(n, sizeof *links->out_over);
    links->in_at = ckm_i_malloc(n, sizeof *links->in_at);
    links->last_back = ckm_i_malloc(n, sizeof *links->last_back);
    links->travels = ckm_i_calloc(n, sizeof *links->travels);
    links->ends = ckm_i_malloc(n, sizeof *links->ends);
    if (links->out_at == NULL || links->out_over == NULL || links->in_at == NULL || links->last_back == NULL ||
        links->travels == NULL || links->ends == NULL) {
        return ckm_i_error_memory(err);
    }
    for (size_t x = 0; x < n; x++) {
        links->ends[x] = 0;
        links->out_at[x] = links->out_over[x] = links->in_at[x] = links->last_back[x] = ABSENT;
    }
    return CKM_OK;
}

void ckm_i_verify_links_dispose(ckm_i_verifier *vf)
{
    free(vf->links.out_at);
    free(vf->links.out_over);
    free(vf->links.in_at);
    free(vf->links.last_back);
    free(vf->links.travels);
    free(vf->links.ends);
}

static bool is_loaded(const ckm_i_verifier *vf, int32_t x)
{
    int32_t producer = ckm_dataflow_producer(vf->df, x);
    return producer >= 0 && ckm_dataflow_get_op(vf->df, producer).kind == CKM_OP_LOAD;
}

static bool on_its_way_out(const ckm_i_verify_links *links, int32_t x)
{
    return links->out_at[x] != ABSENT && links->out_over[x] == ABSENT;
}

bool ckm_i_verify_at_rest(const ckm_i_verifier *vf, int32_t storage)
{
    return vf->links.travels == NULL || (!on_its_way_out(&vf->links, storage) && vf->links.in_at[storage] == ABSENT);
}

static bool storage_exists(const ckm_i_verifier *vf, int32_t x)
{
    for (int32_t k = vf->members_at[x]; k < vf->members_at[x + 1]; k++) {
        if (vf->since[vf->members[k]] != ABSENT) {
            return true;
        }
    }
    return false;
}

// Why the graph allows no transfer of x at all; NULL: it does.
static const char *immovable(const ckm_i_verifier *vf, int32_t x)
{
    if (!ckm_dataflow_get_second_memory(vf->df, NULL)) {
        return "the graph has no second memory";
    }
    if (vf->owner[x] != x) {
        return "it is a view; its storage's owner is what moves";
    }
    for (int32_t k = vf->members_at[x]; k < vf->members_at[x + 1]; k++) {
        if (vf->is_input[vf->members[k]]) {
            return "its memory is a graph input's";
        }
    }
    return NULL;
}

bool ckm_i_verify_transfer_is_legal(const ckm_i_verifier *vf, int64_t at, const ckm_step *step)
{
    const ckm_i_verify_links *links = &vf->links;
    int32_t x = step->index;
    if (x < 0 || x >= vf->n_tensors) {
        return ckm_i_verify_complain(vf, "step %lld: there is no tensor %d to move, the graph has %d", (long long)at,
                                     (int)x, (int)vf->n_tensors);
    }
    const char *why = immovable(vf, x);
    if (why == NULL && step->kind == CKM_STEP_OUT) {
        why = is_loaded(vf, x)             ? "it is moved out though it can be loaded"
              : links->out_at[x] != ABSENT ? "it is moved out a second time"
              : !storage_exists(vf, x)     ? "it is moved out but does not exist then"
                                           : NULL;
    } else if (why == NULL && step->kind == CKM_STEP_IN) {
        why = !is_loaded(vf, x) && links->out_over[x] == ABSENT ? "it is moved back but was never moved out"
              : links->in_at[x] != ABSENT                       ? "it is moved back while it is on its way back"
              : storage_exists(vf, x)                           ? "it is moved back while it exists"
                                                                : NULL;
    } else if (why == NULL && step->kind == CKM_STEP_WAIT_OUT) {
        why = on_its_way_out(links, x) ? NULL : "it is waited for, but is not on its way out";
    } else if (why == NULL) {
        why = links->in_at[x] != ABSENT ? NULL : "it is waited for, but is not on its way back";
    }
    return why == NULL || ckm_i_verify_complain(vf, "step %lld: tensor \"%.60s\" (%d): %s", (long long)at,
                                                ckm_i_verify_name(vf, x), (int)x, why);
}

ckm_status ckm_i_verify_follow_transfer(ckm_i_verifier *vf, int64_t at, const ckm_step *step, ckm_error *err)
{
    ckm_i_verify_links *links = &vf->links;
    int32_t x = step->index;
    if (step->kind == CKM_STEP_OUT) {
        links->out_at[x] = at;
        for (int32_t k = vf->members_at[x]; k < vf->members_at[x + 1]; k++) {
            links->travels[vf->members[k]] = vf->since[vf->members[k]] != ABSENT;
        }
    } else if (step->kind == CKM_STEP_WAIT_OUT) {
        links->out_over[x] = at;
    } else if (step->kind == CKM_STEP_IN) {
        links->in_at[x] = at;
    } else {
        CKM_I_CHECK(ckm_i_verify_occupy(vf, x, links->in_at[x], at, err));
        links->in_at[x] = ABSENT;
        links->last_back[x] = at;
        bool loaded = is_loaded(vf, x);
        for (int32_t k = vf->members_at[x]; k < vf->members_at[x + 1]; k++) {
            int32_t y = vf->members[k];
            if (links->travels[y] || (loaded && y == x)) {
                vf->since[y] = at;
            }
        }
        if (loaded) {
            vf->times_computed[ckm_dataflow_producer(vf->df, x)]++;
        }
    }
    return CKM_OK;
}

// ceil(a / b) of whole numbers that are not negative.
static ckm_i_wide quotient_up(ckm_i_wide a, ckm_i_wide b)
{
    return a / b + (a % b != 0);
}

// What the transfer takes, in the graph's unit. At most 2^63 * 10^9 + 2^63, which 128 bits hold.
static ckm_i_wide duration(const ckm_i_verifier *vf, int32_t x, bool out)
{
    ckm_second_memory second = {.out_bytes_per_second = 1, .in_bytes_per_second = 1};
    ckm_dataflow_get_second_memory(vf->df, &second);
    int64_t bytes = ckm_dataflow_get_tensor(vf->df, x).bytes;
    if (is_loaded(vf, x)) {
        int64_t read = ckm_dataflow_get_op(vf->df, ckm_dataflow_producer(vf->df, x)).load_bytes;
        bytes = read != 0 ? read : bytes;
    }
    ckm_i_wide ns = quotient_up((ckm_i_wide)bytes * 1000000000,
                                out ? second.out_bytes_per_second : second.in_bytes_per_second);
    ns += second.latency_ns;
    return ckm_dataflow_cost_unit(vf->df) == CKM_COST_US ? quotient_up(ns, 1000) : ns;
}

static ckm_i_wide later(ckm_i_wide a, ckm_i_wide b)
{
    return a > b ? a : b;
}

// A storage has at most one transfer under way, so that a wait finds its own end.
bool ckm_i_verify_makespan(const ckm_i_verifier *vf, int64_t *cost)
{
    ckm_i_wide now = 0, out_link = 0, in_link = 0;
    ckm_i_wide *ends = vf->links.ends;
    for (int64_t at = 0; at < vf->n_steps && now <= INT64_MAX; at++) {
        ckm_step step = ckm_schedule_get_step(vf->s, at);
        switch (step.kind) {
        case CKM_STEP_COMPUTE:
            now += ckm_dataflow_get_op(vf->df, step.index).cost;
            break;
        case CKM_STEP_OUT:
            ends[step.index] = out_link = later(now, out_link) + duration(vf, step.index, true);
            break;
        case CKM_STEP_IN:
            ends[step.index] = in_link = later(now, in_link) + duration(vf, step.index, false);
            break;
        case CKM_STEP_WAIT_OUT:
        case CKM_STEP_WAIT_IN:
            now = later(now, ends[step.index]);
            break;
        case CKM_STEP_FREE:
            break;
        }
    }
    if (now > INT64_MAX) {
        return ckm_i_verify_complain(vf, "the time that the steps take exceeds 63 bits");
    }
    *cost = (int64_t)now;
    return true;
}

bool ckm_i_verify_copies(const ckm_i_verifier *vf, int64_t *bytes_at, int64_t *peak)
{
    ckm_second_memory second = {.bytes = -1};
    ckm_dataflow_get_second_memory(vf->df, &second);
    for (int32_t x = 0; x < vf->n_tensors; x++) {
        if (vf->links.out_at[x] == ABSENT) {
            continue;
        }
        // From the step that moves it out until it has come back for the last time, or to the end.
        int64_t last = vf->links.last_back[x] != ABSENT ? vf->links.last_back[x] - 1 : vf->n_steps - 1;
        int64_t bytes = ckm_dataflow_get_tensor(vf->df, x).bytes;
        if (__builtin_add_overflow(bytes_at[vf->links.out_at[x]], bytes, &bytes_at[vf->links.out_at[x]]) ||
            __builtin_sub_overflow(bytes_at[last + 1], bytes, &bytes_at[last + 1])) {
            return ckm_i_verify_complain(vf, "bytes of copies exceed 63 bits");
        }
    }
    int64_t held = 0;
    *peak = 0;
    for (int64_t at = 0; at < vf->n_steps; at++) {
        if (__builtin_add_overflow(held, bytes_at[at], &held)) {
            return ckm_i_verify_complain(vf, "step %lld: bytes of copies exceed 63 bits", (long long)at);
        }
        *peak = held > *peak ? held : *peak;
        if (second.bytes >= 0 && held > second.bytes) {
            return ckm_i_verify_complain(vf, "step %lld: copies of %lld bytes exceed the second memory's %lld",
                                         (long long)at, (long long)held, (long long)second.bytes);
        }
    }
    return true;
}
