// SPDX-License-Identifier: Apache-2.0
// Hand over a graph of your own and get a schedule: a chain of eight layers and their gradients, in which
// every operator costs 1 and every tensor has 1 byte, under a budget of 6 bytes.
#include <checkmate/checkmate.h>

#include <stdio.h>

enum { LAYERS = 8, OPS = 2 * LAYERS + 1 };

// Operator i makes tensor i. Layer i reads layer i-1; the gradient of layer i is operator 2n-i, which reads
// the gradient after it, its layer's output and its layer's input.
static ckm_status build_chain(ckm_dataflow **out, ckm_error *err)
{
    ckm_dataflow *df = NULL;
    ckm_status status = ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, err);
    for (int32_t i = 0; i < OPS && status == CKM_OK; i++) {
        const ckm_dataflow_tensor tensor = {.bytes = 1};
        status = ckm_dataflow_add_tensor(df, &tensor, NULL, err);
    }
    for (int32_t i = 0; i < OPS && status == CKM_OK; i++) {
        const int32_t layer = OPS - 1 - i;  // of a gradient
        const int32_t forward[] = {i - 1};
        const int32_t backward[] = {i - 1, layer, layer - 1};
        const ckm_dataflow_op op = {
            .kind = i < LAYERS    ? CKM_OP_FORWARD
                    : i == LAYERS ? CKM_OP_LOSS
                                  : CKM_OP_BACKWARD,
            .cost = 1,
            .n_inputs = i == 0        ? 0
                        : i <= LAYERS ? 1
                        : layer == 0  ? 2
                                      : 3,
            .inputs = i <= LAYERS ? forward : backward,
            .n_outputs = 1,
            .outputs = &i,
        };
        status = ckm_dataflow_add_op(df, &op, NULL, err);
    }
    if (status == CKM_OK) {
        status = ckm_dataflow_finish(df, err);
    }
    if (status != CKM_OK) {
        ckm_dataflow_free(df);
        return status;
    }
    *out = df;
    return CKM_OK;
}

int main(void)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_solve_result result;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = 6;
    options.time_limit_seconds = 30;

    if (build_chain(&df, &err) != CKM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fprintf(stderr, "%s\n", err.message);
        ckm_dataflow_free(df);
        return 1;
    }
    if (result.schedule != NULL) {
        printf("cost %lld instead of %lld, peak %lld bytes\n", (long long)result.cost, (long long)result.baseline_cost,
               (long long)result.peak_bytes);
        for (int64_t i = 0; i < ckm_schedule_step_count(result.schedule); i++) {
            const ckm_step step = ckm_schedule_get_step(result.schedule, i);
            printf("%s %d\n", step.kind == CKM_STEP_COMPUTE ? "compute" : "free", (int)step.index);
        }
    } else {
        printf("no schedule found\n");
    }
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
    return 0;
}
