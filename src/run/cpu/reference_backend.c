// SPDX-License-Identifier: Apache-2.0
// The "reference" back end: one thread, plain C.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/backend/backend_list.h"
#include "run/backend/host_memory.h"
#include "run/cpu/ref_registry.h"

struct ckm_i_kernel {
    const ckm_i_reference_kernel *reference;
    const ckm_graph *step;
    int32_t op;
};

// Half precision has no arithmetic here.
static ckm_status check_types(const ckm_graph *step, const ckm_i_graph_op *op, ckm_error *err)
{
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t tensor = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        const ckm_i_graph_tensor *t = tensor >= 0 ? &step->tensors[tensor] : NULL;
        if (t != NULL && (t->dtype == CKM_F16 || t->dtype == CKM_BF16)) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                               "operator \"%.200s\" (%s): \"%.200s\" is of half precision, which no kernel supports",
                               op->name, op->op_class->kind, t->name);
        }
    }
    return CKM_OK;
}

static ckm_status prepare(ckm_i_backend *backend, const ckm_graph *step, int32_t op, ckm_i_kernel **out,
                          int64_t *workspace_bytes, ckm_error *err)
{
    (void)backend;
    ckm_i_op_view view;
    CKM_I_CHECK(ckm_i_op_view_init(step, op, &view, err));
    const ckm_i_reference_kernel *reference = ckm_i_reference_find(view.op->op_class->id);
    if (reference == NULL) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "operator \"%.200s\": there is no kernel for kind %s",
                           view.op->name, view.op->op_class->kind);
    }
    CKM_I_CHECK(check_types(step, view.op, err));
    ckm_i_kernel *kernel = ckm_i_calloc(1, sizeof *kernel);
    if (kernel == NULL) {
        return ckm_i_error_memory(err);
    }
    *kernel = (ckm_i_kernel){.reference = reference, .step = step, .op = op};
    *workspace_bytes = reference->workspace != NULL ? reference->workspace(&view, step) : 0;
    *out = kernel;
    return CKM_OK;
}

static ckm_status run(ckm_i_backend *backend, ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)backend;
    return kernel->reference->run(kernel->step, kernel->op, call, err);
}

static void free_kernel(ckm_i_backend *backend, ckm_i_kernel *kernel)
{
    (void)backend;
    free(kernel);
}

static void destroy(ckm_i_backend *backend)
{
    free(backend);
}

ckm_status ckm_i_backend_reference_create(int threads, ckm_i_backend **out, ckm_error *err)
{
    (void)threads;  // always one: this back end is what others are compared with
    ckm_i_backend *backend = ckm_i_calloc(1, sizeof *backend);
    if (backend == NULL) {
        return ckm_i_error_memory(err);
    }
    *backend = (ckm_i_backend){.name = "reference",
                               .threads = 1,
                               .memory = &ckm_i_host_memory,
                               .prepare = prepare,
                               .run = run,
                               .free_kernel = free_kernel,
                               .destroy = destroy};
    *out = backend;
    return CKM_OK;
}
