// SPDX-License-Identifier: Apache-2.0
// The second memory of a training run: a folder, and its speeds, given or measured.
#include "base/error.h"
#include "run/session/program.h"
#include "trainer/trainer.h"

static ckm_status check(const ckm_trainer *t, ckm_error *err)
{
    const ckm_trainer_options *o = &t->options;
    if (o->out_bytes_per_second < 0 || o->in_bytes_per_second < 0 || o->transfer_latency_ns < 0 ||
        o->offload_bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "speeds, latency and bytes of a second memory cannot be negative");
    }
    if (t->ranks != NULL) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "several processes cannot move tensors to a second memory yet: leave out `offload`");
    }
    if (o->costs == CKM_TRAINER_COSTS_MODEL && t->cost_model.kind == CKM_COST_MODEL_FLOPS) {
        return ckm_i_error(
            err, CKM_ERR_ARGUMENT,
            "what moving costs is time, so that of operators must be, too: measured, of a profile, or by a "
            "device; multiply-accumulates are none");
    }
    return CKM_OK;
}

ckm_status ckm_i_trainer_find_second_memory(ckm_trainer *t, ckm_error *err)
{
    const ckm_trainer_options *o = &t->options;
    if (t->kernels.second_memory == NULL) {
        return CKM_OK;
    }
    CKM_I_CHECK(check(t, err));
    ckm_second_memory found = {.name = t->kernels.second_memory, .bytes = -1};
    bool given = o->out_bytes_per_second > 0 && o->in_bytes_per_second > 0 && o->transfer_latency_ns > 0;
    if (given) {
        CKM_I_CHECK(ckm_i_program_try_second_memory(t->program, err));
    } else {
        CKM_I_CHECK(ckm_program_measure_second_memory(t->program, &found, err));
        found.name = t->kernels.second_memory;
    }
    found.out_bytes_per_second = o->out_bytes_per_second > 0 ? o->out_bytes_per_second : found.out_bytes_per_second;
    found.in_bytes_per_second = o->in_bytes_per_second > 0 ? o->in_bytes_per_second : found.in_bytes_per_second;
    found.latency_ns = o->transfer_latency_ns > 0 ? o->transfer_latency_ns : found.latency_ns;
    found.bytes = o->offload_bytes > 0 ? o->offload_bytes : -1;
    ckm_i_trainer_note(t, CKM_LOG_INFO, "second memory %s: %.0f MB/s out, %.0f MB/s in, latency %.0f us%s", found.name,
                       (double)found.out_bytes_per_second * 1e-6, (double)found.in_bytes_per_second * 1e-6,
                       (double)found.latency_ns * 1e-3, given ? "" : ", measured where not given");
    t->second = found;
    return ckm_i_trainer_go_on(t, err);
}

bool ckm_trainer_get_second_memory(const ckm_trainer *t, ckm_second_memory *out)
{
    bool there = t != NULL && t->second.name != NULL;
    if (there && out != NULL) {
        *out = t->second;
    }
    return there;
}
