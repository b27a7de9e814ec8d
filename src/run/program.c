// SPDX-License-Identifier: Apache-2.0
// Preparing the kernels of a step graph.
#include "run/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { ALIGNMENT = 64 };

bool ckm_i_program_is_view(const ckm_training *training, int32_t op)
{
    const ckm_i_training_op *o = &training->ops[op];
    for (int32_t k = 0; k < o->n_outputs; k++) {
        if (training->values[o->outputs[k]].alias_of < 0) {
            return false;
        }
    }
    return o->n_outputs > 0;
}

static ckm_status check_training(const ckm_training *training, ckm_error *err)
{
    const ckm_graph *step = training->step;
    if (step == NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "\"%.200s\" is a layer-level training graph, which cannot be run: make an op-level one",
                           training->name);
    }
    if (step->n_ops != training->n_ops || step->n_tensors != training->n_values) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "training graph and step graph of \"%.200s\" differ in size",
                           training->name);
    }
    return CKM_OK;
}

// Notes an operator without a kernel: the first few messages in full, all of them counted.
typedef struct missing {
    int32_t n, n_listed;
    char list[3000];
} missing;

static void note_missing(missing *m, const ckm_error *problem)
{
    size_t used = strlen(m->list);
    int n = snprintf(m->list + used, sizeof m->list - used, "%s%.400s", used > 0 ? "; " : "", problem->message);
    if (n < 0 || (size_t)n >= sizeof m->list - used) {
        m->list[used] = '\0';
    } else {
        m->n_listed++;
    }
    m->n++;
}

static ckm_status prepare_all(ckm_program *p, ckm_error *err)
{
    missing m = {0, 0, ""};
    for (int32_t v = 0; v < p->n_ops; v++) {
        ckm_error problem = CKM_ERROR_INIT;
        int64_t workspace = 0;
        if (ckm_i_program_is_view(p->training, v)) {
            continue;
        }
        ckm_status status = p->backend->prepare(p->backend, p->training->step, v, &p->kernels[v], &workspace, &problem);
        if (status == CKM_ERR_UNSUPPORTED) {
            note_missing(&m, &problem);
            continue;
        }
        if (status == CKM_OK) {
            // As all buffers, rounded up: then peaks that solvers see are those of memory.
            workspace += (ALIGNMENT - workspace % ALIGNMENT) % ALIGNMENT;
            status = ckm_i_training_set_workspace(p->training, v, workspace, &problem);
        }
        if (status != CKM_OK) {
            if (err != NULL) {
                *err = problem;
            }
            return status;
        }
    }
    if (m.n > m.n_listed) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "%s; and %d more", m.list, (int)(m.n - m.n_listed));
    }
    return m.n > 0 ? ckm_i_error(err, CKM_ERR_UNSUPPORTED, "%s", m.list) : CKM_OK;
}

ckm_status ckm_i_program_create_on(ckm_training *training, ckm_i_backend *backend, ckm_program **out, ckm_error *err)
{
    ckm_status status;
    ckm_program *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        ckm_i_backend_destroy(backend);
        return ckm_i_error_memory(err);
    }
    p->training = training;
    p->backend = backend;
    CKM_I_TRY(check_training(training, err));
    p->kernels = ckm_i_calloc((size_t)training->n_ops, sizeof *p->kernels);
    if (p->kernels == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    p->n_ops = training->n_ops;
    CKM_I_TRY(prepare_all(p, err));
    *out = p;
    p = NULL;
cleanup:
    ckm_program_free(p);
    return status;
}

ckm_status ckm_program_create(ckm_training *training, const ckm_program_options *options, ckm_program **out,
                              ckm_error *err)
{
    CKM_I_NEED(training, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_i_backend *backend = NULL;
    if (options->threads < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "threads: %d, but at least one is needed", options->threads);
    }
    ckm_status status = ckm_i_backend_create(options->backend != NULL ? options->backend : "cpu", options->threads,
                                             &backend, err);
    return status == CKM_OK ? ckm_i_program_create_on(training, backend, out, err) : status;
}

void ckm_program_free(ckm_program *program)
{
    if (program == NULL) {
        return;
    }
    for (int32_t v = 0; program->kernels != NULL && v < program->n_ops; v++) {
        if (program->kernels[v] != NULL) {
            program->backend->free_kernel(program->backend, program->kernels[v]);
        }
    }
    free(program->kernels);
    ckm_i_backend_destroy(program->backend);
    free(program);
}

const char *ckm_program_backend(const ckm_program *program)
{
    return program != NULL ? program->backend->name : "";
}

int ckm_program_threads(const ckm_program *program)
{
    return program != NULL ? program->backend->threads : 0;
}
