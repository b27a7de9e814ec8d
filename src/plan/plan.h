// SPDX-License-Identifier: Apache-2.0
// Memory plans, internal view: instances, what the steps are bound to, and the buffers the packer moves about.
#ifndef CKM_SRC_PLAN_PLAN_H
#define CKM_SRC_PLAN_PLAN_H

#include <checkmate/plan.h>

// Where a step's bindings start in the pool: inputs, outputs, then one for the workspace.
typedef struct ckm_i_plan_step {
    int64_t at;
    int32_t n_inputs, n_outputs;
} ckm_i_plan_step;

struct ckm_plan {
    ckm_plan_info info;
    int32_t n_instances, cap_instances;
    ckm_plan_instance *instances;  // in the order in which they are allocated
    int32_t n_buffers;
    int64_t n_steps;
    ckm_i_plan_step *steps;
    int64_t n_bindings;
    int32_t *bindings;
};

// Live ranges: fills instances (without offsets), steps and bindings of a zeroed plan from a legal schedule.
ckm_status ckm_i_plan_ranges(const ckm_dataflow *df, const ckm_schedule *s, ckm_plan *plan,
                             ckm_error *err) CKM_NODISCARD;

// From step `from` on a buffer takes `bytes`; a buffer never grows.
typedef struct ckm_i_plan_part {
    int64_t from, bytes;
} ckm_i_plan_part;

// A buffer to place: in use in steps first..last, `bytes` at its largest (that is, at first).
typedef struct ckm_i_plan_buffer {
    int64_t first, last, bytes, offset;
    int32_t part_at, n_parts;  // parts after the first; none when the size stays the same
} ckm_i_plan_buffer;

typedef struct ckm_i_plan_packing {
    int32_t n;
    ckm_i_plan_buffer *buffers;
    ckm_i_plan_part *parts;
    int64_t bound_bytes, arena_bytes;
    const char *method;
    int64_t iterations;
} ckm_i_plan_packing;

// Packs: sets every buffer's offset, arena_bytes, method and iterations. All sizes are multiples of the alignment
// and so are all offsets.
ckm_status ckm_i_plan_pack(ckm_i_plan_packing *p, const ckm_plan_options *options, ckm_error *err) CKM_NODISCARD;

#endif
