// SPDX-License-Identifier: Apache-2.0
#include "fake_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/backend/host_memory.h"

struct ckm_i_kernel {
    const ckm_graph *step;
    int32_t op;
    void *kept;
};

void *fake_drop(int n, size_t kept_bytes)
{
    void *pieces[FAKE_PIECES] = {NULL};
    assert_true(n <= FAKE_PIECES);
    for (int i = 0; i < n; i++) {
        pieces[i] = malloc(FAKE_PIECE);
        assert_non_null(pieces[i]);
        memset(pieces[i], 1, FAKE_PIECE);
    }
    void *kept = malloc(kept_bytes + 1);
    assert_non_null(kept);
    memset(kept, 1, kept_bytes + 1);
    for (int i = 0; i < n; i++) {
        free(pieces[i]);
    }
    return kept;
}

static ckm_status fake_prepare(ckm_i_backend *backend, const ckm_graph *step, int32_t op, ckm_i_kernel **out,
                               int64_t *workspace_bytes, ckm_error *err)
{
    fake *f = backend->state;
    if (f->unsupported != NULL && strcmp(step->ops[op].op_class->kind, f->unsupported) == 0) {
        *err = (ckm_error)CKM_ERROR_INIT;
        err->code = CKM_ERR_UNSUPPORTED;
        snprintf(err->message, sizeof err->message, "no kernel for \"%s\"", step->ops[op].name);
        return CKM_ERR_UNSUPPORTED;
    }
    ckm_i_kernel *kernel = malloc(sizeof *kernel);
    assert_non_null(kernel);
    *kernel = (ckm_i_kernel){step, op, fake_drop(op == 0 ? f->dropped : 0, f->kernel_bytes)};
    *workspace_bytes = op % 3 == 0 ? FAKE_WORKSPACE : 0;
    f->kernels_held++;
    *out = kernel;
    return CKM_OK;
}

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t z = (a ^ b) * 2654435761U;
    return z ^ (z >> 15);
}

static ckm_status fake_run(ckm_i_backend *backend, ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err)
{
    fake *f = backend->state;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    assert_int_equal(call->op, kernel->op);
    if (f->runs++ == f->fail_at) {
        *err = (ckm_error)CKM_ERROR_INIT;
        snprintf(err->message, sizeof err->message, "failed on purpose");
        return CKM_ERR_INTERNAL;
    }
    if (kernel->op % 3 == 0) {
        assert_int_equal((uintptr_t)call->workspace % 64, 0);
        memset(call->workspace, (int)(f->runs & 0xff), FAKE_WORKSPACE);
    }
    if (strcmp(op->op_class->kind, "update_sgd") == 0) {
        uint32_t *parameter = (uint32_t *)(uintptr_t)call->inputs[0];
        const uint32_t *gradient = call->inputs[1];
        for (int w = 0; w < FAKE_WORDS; w++) {
            parameter[w] = mix(parameter[w], gradient[w]) + (uint32_t)call->step;
        }
        return CKM_OK;
    }
    for (int w = 0; w < FAKE_WORDS; w++) {
        uint32_t value = mix((uint32_t)kernel->op, (uint32_t)call->step);
        for (int32_t k = 0; k < op->n_inputs; k++) {
            value = mix(value + (uint32_t)k, ((const uint32_t *)call->inputs[k])[w]);
        }
        if (kernel->op == f->flawed && !call->first) {
            value ^= 1;
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            ((uint32_t *)call->outputs[k])[w] = value + (uint32_t)k;
        }
    }
    return CKM_OK;
}

static void fake_free_kernel(ckm_i_backend *backend, ckm_i_kernel *kernel)
{
    ((fake *)backend->state)->kernels_held--;
    free(kernel->kept);
    free(kernel);
}

static void fake_destroy(ckm_i_backend *backend)
{
    assert_int_equal(((fake *)backend->state)->kernels_held, 0);
    free(backend);
}

ckm_i_backend *fake_backend(fake *f)
{
    ckm_i_backend *backend = malloc(sizeof *backend);
    assert_non_null(backend);
    *backend = (ckm_i_backend){.name = "fake",
                               .threads = 1,
                               .state = f,
                               .memory = &ckm_i_host_memory,
                               .prepare = fake_prepare,
                               .run = fake_run,
                               .free_kernel = fake_free_kernel,
                               .destroy = fake_destroy};
    return backend;
}
