// SPDX-License-Identifier: Apache-2.0
// The "cpu" back end, internal view: what a kernel is and what a group of kernels provides. Groups, in
// src/ops/<family>/: dnnl_<group>.c (on oneDNN) and cpu_<group>.c (own threaded loops). Kinds that no group takes run on the
// reference kernels.
#ifndef CKM_SRC_RUN_CPU_CPU_BACKEND_H
#define CKM_SRC_RUN_CPU_CPU_BACKEND_H

#include "run/backend/backend.h"
#include "run/cpu/cpu_waiting.h"
#include "run/cpu/ref_registry.h"

typedef struct ckm_i_cpu {
    struct dnnl_engine *engine;
    struct dnnl_stream *stream;
    int threads;
    ckm_i_cpu_waiting waiting;  // of its threads for each other
} ckm_i_cpu;

struct ckm_i_kernel {
    const ckm_graph *step;
    int32_t op;
    int64_t workspace_bytes;
    const ckm_i_reference_kernel *reference;  // or NULL and the following
    ckm_status (*run)(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err);
    void (*dispose)(void *data);  // frees `data`; NULL: nothing to free
    void *data;
};

// A group's row. `prepare` fills in run, data, dispose and workspace_bytes, or leaves `run` NULL when these shapes,
// types or attributes are not for it. What it left in the kernel is disposed of by the caller, on failure too.
typedef struct ckm_i_cpu_row {
    ckm_i_op_kind kind;
    ckm_status (*prepare)(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err);
} ckm_i_cpu_row;

// Tables ckm_i_cpu_<group>, each ended by a row without a kind, in the order of CKM_I_CPU_GROUPS (graph/op_kinds.h). The first
// row that takes an operator has it.
#define CKM_I_CPU_GROUP_DECLARE(group) extern const ckm_i_cpu_row ckm_i_cpu_##group[];
CKM_I_CPU_GROUPS(CKM_I_CPU_GROUP_DECLARE)
#undef CKM_I_CPU_GROUP_DECLARE

#endif
