// SPDX-License-Identifier: Apache-2.0
// The "cpu" back end: finds a kernel for an operator among the groups, else the reference kernel, and runs it with
// the back end's number of threads.
//
// Threads: oneDNN settles the division of work when a primitive is created and expects the same number of threads
// when it runs. Both happen between ckm_i_cpu_set_threads calls, which change the calling thread's setting only, so
// the host program's own use of OpenMP is left alone. The division of work, and with it every rounding, depends on
// the thread count and the shapes, never on timing.
#include "run/cpu/cpu_backend.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/backend/backend_list.h"
#include "run/backend/host_memory.h"
#include "run/cpu/cpu_threads.h"
#include "run/cpu/dnnl_support.h"

static const ckm_i_cpu_row *const groups[] = {
#define GROUP(name) ckm_i_cpu_##name,
    CKM_I_CPU_GROUPS(GROUP)
#undef GROUP
};

static void dispose_kernel(ckm_i_kernel *kernel)
{
    if (kernel->dispose != NULL) {
        kernel->dispose(kernel->data);
    }
    kernel->dispose = NULL;
    kernel->data = NULL;
    kernel->run = NULL;
    kernel->workspace_bytes = 0;
}

static ckm_status prepare_from_groups(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                      ckm_error *err)
{
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const ckm_i_cpu_row *row = groups[g]; row->kind != CKM_I_OP_NO_KIND; row++) {
            if (row->kind != v->op->op_class->id) {
                continue;
            }
            CKM_I_CHECK(row->prepare(cpu, v, kernel, err));
            if (kernel->run != NULL) {
                return CKM_OK;
            }
            dispose_kernel(kernel);
        }
    }
    return CKM_OK;
}

static ckm_status prepare_reference(const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    kernel->reference = ckm_i_reference_find(v->op->op_class->id);
    if (kernel->reference == NULL) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "operator \"%s\" (%s): no kernel for this kind of operator",
                           v->op->name, v->op->op_class->kind);
    }
    if (kernel->reference->workspace != NULL) {
        kernel->workspace_bytes = kernel->reference->workspace(v, v->graph);
    }
    return CKM_OK;
}

static void cpu_free_kernel(ckm_i_backend *backend, ckm_i_kernel *kernel)
{
    (void)backend;
    if (kernel != NULL) {
        dispose_kernel(kernel);
        free(kernel);
    }
}

static ckm_status cpu_prepare(ckm_i_backend *backend, const ckm_graph *step, int32_t op, ckm_i_kernel **out,
                              int64_t *workspace_bytes, ckm_error *err)
{
    const ckm_i_cpu *cpu = backend->state;
    ckm_i_op_view view;
    CKM_I_CHECK(ckm_i_op_view_init(step, op, &view, err));
    ckm_i_kernel *kernel = ckm_i_calloc(1, sizeof *kernel);
    if (kernel == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->step = step;
    kernel->op = op;
    int before = ckm_i_cpu_set_threads(cpu->threads);
    ckm_status status = prepare_from_groups(cpu, &view, kernel, err);
    ckm_i_cpu_set_threads(before);
    CKM_I_TRY(status);
    if (kernel->run == NULL) {
        CKM_I_TRY(prepare_reference(&view, kernel, err));
    }
    *out = kernel;
    *workspace_bytes = kernel->workspace_bytes;
    kernel = NULL;
cleanup:
    cpu_free_kernel(backend, kernel);
    return status;
}

static ckm_status cpu_run(ckm_i_backend *backend, ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err)
{
    if (kernel->reference != NULL) {
        return kernel->reference->run(kernel->step, kernel->op, call, err);
    }
    ckm_i_cpu *cpu = backend->state;
    CKM_I_CHECK(ckm_i_cpu_may_have_team(cpu->threads, err));
    ckm_i_cpu_waiting_look(&cpu->waiting);
    int before = ckm_i_cpu_set_threads(cpu->threads);
    ckm_status status = kernel->run(cpu, kernel, call, err);
    ckm_i_cpu_set_threads(before);
    return status;
}

// Kernels keep large data in the workspace.
enum { STACK_BYTES = 64 << 10 };

static void touch_stack(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)begin;
    (void)end;
    volatile char stack[STACK_BYTES];
    for (size_t at = 0; at < sizeof stack; at += 1024) {
        stack[at] = 0;
    }
}

static void cpu_start(ckm_i_backend *backend)
{
    ckm_i_cpu *cpu = backend->state;
    ckm_i_cpu_waiting_begin(&cpu->waiting, cpu->threads);
    int before = ckm_i_cpu_set_threads(backend->threads);
    ckm_i_cpu_parallel(backend->threads, backend->threads, 1, touch_stack, NULL);
    ckm_i_cpu_set_threads(before);
}

static void cpu_destroy(ckm_i_backend *backend)
{
    if (backend != NULL) {
        ckm_i_cpu *cpu = backend->state;
        ckm_i_cpu_waiting_end(&cpu->waiting);
        ckm_i_dnnl_close(cpu);
        free(cpu);
        free(backend);
    }
}

ckm_status ckm_i_backend_cpu_create(int threads, ckm_i_backend **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_backend *backend = ckm_i_calloc(1, sizeof *backend);
    ckm_i_cpu *cpu = ckm_i_calloc(1, sizeof *cpu);
    if (backend == NULL || cpu == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_cpu_may_have_team(threads, err));
    CKM_I_TRY(ckm_i_cpu_available_threads(threads, &cpu->threads, err));
    CKM_I_TRY(ckm_i_dnnl_open(cpu, err));
    *backend = (ckm_i_backend){.name = "cpu",
                               .threads = cpu->threads,
                               .memory = &ckm_i_host_memory,
                               .state = cpu,
                               .prepare = cpu_prepare,
                               .run = cpu_run,
                               .start = cpu_start,
                               .free_kernel = cpu_free_kernel,
                               .destroy = cpu_destroy};
    *out = backend;
    return CKM_OK;

cleanup:
    free(cpu);
    free(backend);
    return status;
}
