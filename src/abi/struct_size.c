// SPDX-License-Identifier: Apache-2.0
// The sizes that structures of the planning interface have in this library.
#include <string.h>

#include <checkmate/base.h>
#include <checkmate/cost.h>
#include <checkmate/dataflow.h>
#include <checkmate/emit.h>
#include <checkmate/max_batch.h>
#include <checkmate/min_budget.h>
#include <checkmate/schedule.h>
#include <checkmate/solve.h>

// clang-format off
#define ROW(structure) {#structure, sizeof(structure)}
static const struct {
    const char *name;
    size_t size_bytes;
} sizes[] = {
    ROW(ckm_error),
    ROW(ckm_device),
    ROW(ckm_cost_model),
    ROW(ckm_device_product),
    ROW(ckm_device_link),
    ROW(ckm_device_kernels),
    ROW(ckm_dataflow_tensor),
    ROW(ckm_dataflow_op),
    ROW(ckm_emit_moment),
    ROW(ckm_emit_life),
    ROW(ckm_emit_recompute),
    ROW(ckm_emit_op_fact),
    ROW(ckm_emit_facts),
    ROW(ckm_emit_transfer),
    ROW(ckm_emit_times),
    ROW(ckm_emit_way),
    ROW(ckm_emit_recipe),
    ROW(ckm_emit_words),
    ROW(ckm_emit_sweep_row),
    ROW(ckm_emit_sweep_curve),
    ROW(ckm_emit_progress),
    ROW(ckm_max_batch_options),
    ROW(ckm_max_batch_result),
    ROW(ckm_min_budget_result),
    ROW(ckm_step),
    ROW(ckm_schedule_info),
    ROW(ckm_simulation),
    ROW(ckm_second_memory),
    ROW(ckm_verdict),
    ROW(ckm_progress),
    ROW(ckm_solve_options),
    ROW(ckm_component_use),
    ROW(ckm_solve_result),
};
// clang-format on

size_t ckm_struct_size(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(sizes[i].name, name) == 0) {
            return sizes[i].size_bytes;
        }
    }
    return 0;
}
