// SPDX-License-Identifier: Apache-2.0
// Steps with and without rematerialization, compared bit for bit, and timed in turns.
#include "base/error.h"
#include "trainer/trainer.h"

// Before every step: the parameters when the first one starts, then the batch.
static ckm_status fill(ckm_session *session, int64_t step, void *user, ckm_error *err)
{
    ckm_trainer *t = user;
    if (step == 0) {
        CKM_I_CHECK(ckm_i_trainer_set_parameters(t, session, err));
    }
    return ckm_train_fetch(session, t->data, step, err);
}

static ckm_status need_a_schedule(const ckm_trainer *t, ckm_error *err)
{
    return t->fit.schedule != NULL
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_ARGUMENT, "no schedule fits the budget, so there is nothing to compare with");
}

static ckm_status need_one_process(const ckm_trainer *t, ckm_error *err)
{
    return t->ranks == NULL ? CKM_OK
                            : ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                                          "steps with and without rematerialization are compared in one process");
}

ckm_status ckm_trainer_check(ckm_trainer *t, int64_t steps, double learning_rate, ckm_compare_result *out,
                             ckm_error *err)
{
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(need_one_process(t, err));
    CKM_I_CHECK(need_a_schedule(t, err));
    ckm_compare_options options = CKM_COMPARE_OPTIONS_INIT;
    options.steps = steps;
    options.learning_rate = learning_rate == 0.0 ? CKM_NONE : learning_rate;
    options.seed = t->place.seed;
    options.fill = fill;
    options.user = t;
    return ckm_session_compare(t->program, t->df, &(ckm_session_side){t->baseline, t->baseline_plan},
                               &(ckm_session_side){t->fit.schedule, t->fit.plan}, &options, out, err);
}

ckm_status ckm_trainer_time(ckm_trainer *t, int64_t rounds, ckm_timing *out, ckm_error *err)
{
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(need_one_process(t, err));
    CKM_I_CHECK(need_a_schedule(t, err));
    ckm_timing_options options = CKM_TIMING_OPTIONS_INIT;
    options.rounds = rounds;
    options.seed = t->place.seed;
    options.fill = fill;
    options.stop = ckm_i_trainer_stops;
    options.user = t;
    return ckm_session_time(t->program, t->df, &(ckm_session_side){t->baseline, t->baseline_plan},
                            &(ckm_session_side){t->fit.schedule, t->fit.plan}, &options, out, err);
}

ckm_status ckm_trainer_get_sizes(ckm_trainer *t, ckm_trainer_sizes *out, ckm_error *err)
{
    ckm_trainer_sizes sizes;
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(need_a_schedule(t, err));
    sizes.arena_bytes = ckm_plan_get_info(t->fit.plan)->arena_bytes;
    sizes.baseline_arena_bytes = ckm_plan_get_info(t->baseline_plan)->arena_bytes;
    CKM_I_CHECK(ckm_run_region_bytes(t->df, t->fit.plan, &sizes.region_bytes, err));
    CKM_I_CHECK(ckm_run_region_bytes(t->df, t->baseline_plan, &sizes.baseline_region_bytes, err));
    *out = sizes;
    return CKM_OK;
}
