// SPDX-License-Identifier: Apache-2.0
#include "zoo_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <checkmate/solve.h>
#include <checkmate/zoo.h>

void good(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

zoo_step zoo_step_of(const char *network, int64_t batch, int64_t side, const ckm_autodiff_options *derivation,
                     const ckm_program_options *kernels)
{
    zoo_step s = {0};
    ckm_error err = CKM_ERROR_INIT;
    const int64_t shape[3] = {side, side, 3};
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_plan_options planning = CKM_PLAN_OPTIONS_INIT;
    good(ckm_zoo_build(network, batch, shape, &s.graph, &err), &err);
    good(ckm_autodiff_op_graph(s.graph, derivation, &s.training, &err), &err);
    good(ckm_program_create(s.training, kernels, &s.program, &err), &err);
    good(ckm_cost_apply(s.training, &flops, &s.df, &err), &err);
    good(ckm_schedule_baseline(s.df, &s.schedule, &err), &err);
    good(ckm_plan_create(s.df, s.schedule, &planning, &s.plan, &err), &err);
    return s;
}

void zoo_step_dispose(zoo_step *s)
{
    ckm_plan_free(s->plan);
    ckm_schedule_free(s->schedule);
    ckm_dataflow_free(s->df);
    ckm_program_free(s->program);
    ckm_training_free(s->training);
    ckm_graph_free(s->graph);
}

ckm_status zoo_step_solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 10.0;
    options.gap = 0.3;
    ckm_status status = ckm_solve(user, &options, &result, err);
    if (status == CKM_OK) {
        *out = result.schedule;
        result.schedule = NULL;
        ckm_solve_result_dispose(&result);
    }
    return status;
}
