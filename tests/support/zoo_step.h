// SPDX-License-Identifier: Apache-2.0
// A network of the zoo ready to train: derived, with kernels and costs, planned without rematerialization.
#ifndef CKM_TESTS_ZOO_STEP_H
#define CKM_TESTS_ZOO_STEP_H

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/run.h>

typedef struct zoo_step {
    ckm_graph *graph;
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_schedule *schedule;
    ckm_plan *plan;
} zoo_step;

// Images are side x side x 3.
zoo_step zoo_step_of(const char *network, int64_t batch, int64_t side, const ckm_autodiff_options *derivation,
                     const ckm_program_options *kernels);
void zoo_step_dispose(zoo_step *s);
// Some schedule within a budget, for ckm_run_plan_under_budget; `user` is the dataflow graph.
ckm_status zoo_step_solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err);

// Fails the test with the error's message unless the status is CKM_OK.
void good(ckm_status status, const ckm_error *err);

#endif
