// SPDX-License-Identifier: Apache-2.0
// Costs of operators: by a model, or times measured on this machine and cached for the next run.
#define _GNU_SOURCE  // memfd_create
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "cost/cost_models.h"
#include "trainer/trainer.h"

ckm_status ckm_i_trainer_apply_costs(ckm_trainer *t, const ckm_cost_model *model, ckm_error *err)
{
    ckm_dataflow *df = NULL;
    ckm_schedule *baseline = NULL;
    ckm_profile_info info = {0};
    ckm_status status = CKM_OK;
    if (model->kind == CKM_COST_MODEL_PROFILE) {
        CKM_I_TRY(ckm_profile_read_info(model->profile_path, &info, err));
    }
    CKM_I_TRY(ckm_i_cost_apply(t->training, model, t->second.name != NULL ? &t->second : NULL, &df, err));
    CKM_I_TRY(ckm_schedule_baseline(df, &baseline, err));
    ckm_schedule_free(t->baseline);
    ckm_dataflow_free(t->df);
    t->df = df;
    t->baseline = baseline;
    t->pretends = model->kind == CKM_COST_MODEL_FLOPS;
    t->step_overhead_ns = info.step_ns > info.predicted_ns && info.predicted_ns > 0 ? info.step_ns - info.predicted_ns
                                                                                    : 0;
    df = NULL;
    baseline = NULL;
cleanup:
    ckm_schedule_free(baseline);
    ckm_dataflow_free(df);
    return status;
}

double ckm_i_trainer_seconds(const ckm_trainer *t, int64_t cost)
{
    return ckm_dataflow_cost_unit(t->df) == CKM_COST_NS && !t->pretends
               ? ((double)cost + (double)t->step_overhead_ns) * 1e-9
               : (double)NAN;
}

// Without a budget there is no trade-off, so nothing is measured.
static bool fits_as_it_is(const ckm_trainer *t)
{
    return t->whole_bytes <= t->budget_bytes;
}

static void note_unsteady(const ckm_trainer *t, const ckm_profile_info *info)
{
    char why[CKM_PROFILE_WORDS];
    ckm_profile_explain_unsteady(info, why, sizeof why);
    ckm_i_trainer_note(t, CKM_LOG_WARN, "%s: this run uses these times, and the next one measures again", why);
}

static ckm_status fill(ckm_session *session, int64_t step, void *user, ckm_error *err)
{
    const ckm_trainer *t = user;
    return ckm_train_fetch(session, t->data, step, err);
}

static ckm_status apply_profile(ckm_trainer *t, const char *path, ckm_error *err)
{
    ckm_cost_model model = CKM_COST_MODEL_INIT;
    model.kind = CKM_COST_MODEL_PROFILE;
    model.profile_path = path;
    return ckm_i_trainer_apply_costs(t, &model, err);
}

// Uses a profile through a file in memory, so that a full or read-only disk does not matter.
static ckm_status apply_unkept(ckm_trainer *t, const ckm_profile *profile, ckm_error *err)
{
    char path[64];
    int fd = memfd_create("profile", MFD_CLOEXEC);
    if (fd < 0) {
        return ckm_i_error_memory(err);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_profile_write(profile, path, err));
    CKM_I_TRY(apply_profile(t, path, err));
cleanup:
    close(fd);
    return status;
}

// Measures the operators by the schedule at hand, and keeps the profile in `path`; where that is NULL or cannot be written, for the
// reason in `why`, it is used all the same.
static ckm_status measure(ckm_trainer *t, const char *path, ckm_error *why, ckm_error *err)
{
    ckm_profile_options options = CKM_PROFILE_OPTIONS_INIT;
    ckm_profile *profile = NULL;
    options.steps = 11;
    options.time_limit_seconds = 10;
    options.stop = ckm_i_trainer_stops;
    options.fill = fill;
    options.user = t;
    ckm_i_trainer_note(t, CKM_LOG_INFO, "measuring operators; the times are kept in %s",
                       path != NULL ? path : "memory");
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_profile_measure(t->program, t->df, t->fit.schedule, t->fit.plan, &options, &profile, err));
    CKM_I_TRY(ckm_i_trainer_go_on(t, err));
    bool kept = path != NULL && ckm_profile_write(profile, path, why) == CKM_OK;
    if (!ckm_profile_get_info(profile)->steady) {
        note_unsteady(t, ckm_profile_get_info(profile));
    }
    if (kept) {
        CKM_I_TRY(apply_profile(t, path, err));
    } else {
        ckm_i_trainer_note(t, CKM_LOG_WARN, "the times measured cannot be kept for the next run: %s%s%s", why->file,
                           why->file[0] != '\0' ? ": " : "", why->message);
        CKM_I_TRY(apply_unkept(t, profile, err));
    }
cleanup:
    ckm_profile_free(profile);
    return status;
}

// Falls back on multiply-accumulates, with a note, where nothing can be measured.
ckm_status ckm_i_trainer_measure_costs(ckm_trainer *t, ckm_error *err)
{
    char path[4096];
    ckm_error why = CKM_ERROR_INIT;
    ckm_profile_info kept;
    if (fits_as_it_is(t) && !t->options.measure_always) {
        return CKM_OK;
    }
    ckm_status status = ckm_profile_cache_path(t->program, path, sizeof path, &why);
    // Times from a busy machine are marked as such, and not used by other runs.
    if (status == CKM_OK && access(path, R_OK) == 0 && ckm_profile_read_info(path, &kept, NULL) == CKM_OK &&
        kept.steady && apply_profile(t, path, &why) == CKM_OK) {
        return CKM_OK;
    }
    // The measured times hardly depend on the quality of the schedule.
    CKM_I_CHECK(ckm_i_trainer_fit(t, true, err));
    if (t->fit.schedule == NULL) {
        return CKM_OK;
    }
    ckm_error failure = CKM_ERROR_INIT;
    status = measure(t, status == CKM_OK ? path : NULL, &why, &failure);
    CKM_I_CHECK(ckm_i_trainer_go_on(t, err));
    if (status != CKM_OK) {
        ckm_i_trainer_note(t, CKM_LOG_WARN,
                           "operators could not be measured, so their multiply-accumulates are used as costs: "
                           "%s%s%s",
                           failure.file, failure.file[0] != '\0' ? ": " : "", failure.message);
    }
    return CKM_OK;
}
