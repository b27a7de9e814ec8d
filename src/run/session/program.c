// SPDX-License-Identifier: Apache-2.0
// Preparing the kernels of a step graph.
#include "run/session/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"

// The C library grows its heap by 128 KiB and more at a time, and every thread may have a page or two in use that it had
// not when its stack was measured.
enum { ROUNDING_BYTES = 256 << 10 };
enum { MARGIN_BYTES = 256 << 10, MARGIN_THREAD_BYTES = 32 << 10 };
// If the system does not report the memory in use: more than was measured anywhere (docs/TRAINING.md).
enum { ESTIMATE_KERNEL_BYTES = 32 << 10, ESTIMATE_THREAD_BYTES = 256 << 10 };

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

// An operator's kernel, and the workspace that it asks for.
static ckm_status prepare_one(ckm_program *p, int32_t v, ckm_error *err)
{
    int64_t workspace = 0;
    CKM_I_CHECK(p->backend->prepare(p->backend, p->training->step, v, &p->kernels[v], &workspace, err));
    // As all buffers, rounded up: then peaks that solvers see are those of memory.
    if (!ckm_i_round_up(workspace, CKM_I_ALIGNMENT, &workspace)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "a kernel's workspace does not fit 63 bits");
    }
    return ckm_i_training_set_workspace(p->training, v, workspace, err);
}

static ckm_status prepare_all(ckm_program *p, ckm_stop_fn stop, void *user, ckm_error *err)
{
    missing m = {0, 0, ""};
    for (int32_t v = 0; v < p->n_ops; v++) {
        ckm_error problem = CKM_ERROR_INIT;
        if (stop != NULL && stop(user)) {
            return ckm_i_error(err, CKM_ERR_STOPPED, "stopped while kernels were prepared");
        }
        if (ckm_i_program_is_view(p->training, v)) {
            continue;
        }
        ckm_status status = prepare_one(p, v, &problem);
        if (status == CKM_ERR_UNSUPPORTED) {
            note_missing(&m, &problem);
            continue;
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

// Growth from `before` to `after`, or the estimate when one of them is not known. Rounded up, so that a percentage of
// all that is taken does not differ by a page from one run to the next.
static int64_t grown(int64_t before, int64_t after, int64_t estimate)
{
    if (before < 0 || after < 0) {
        return estimate;
    }
    return after > before ? (after - before + ROUNDING_BYTES - 1) / ROUNDING_BYTES * ROUNDING_BYTES : 0;
}

// Prepares kernels and threads and measures the memory that they take.
static ckm_status prepare(ckm_program *p, ckm_stop_fn stop, void *user, ckm_error *err)
{
    int threads = p->backend->threads;
    // So that kernels do not reuse memory freed earlier, and memory freed meanwhile is not counted.
    ckm_i_process_give_back();
    int64_t before = ckm_run_get_memory(true).anonymous_bytes;
    CKM_I_CHECK(prepare_all(p, stop, user, err));
    ckm_i_process_give_back();
    int64_t prepared = ckm_run_get_memory(true).anonymous_bytes;
    if (p->backend->start != NULL) {
        p->backend->start(p->backend);
    }
    int64_t started = ckm_run_get_memory(true).anonymous_bytes;
    p->memory = (ckm_program_memory){
        .kernel_bytes = grown(before, prepared, (int64_t)p->n_ops * ESTIMATE_KERNEL_BYTES),
        .thread_bytes = grown(prepared, started, (int64_t)threads * ESTIMATE_THREAD_BYTES),
        // Where the system uses huge pages by default, the heap and the buffers outside it may each begin one.
        .margin_bytes = MARGIN_BYTES + (int64_t)threads * MARGIN_THREAD_BYTES + 2 * ckm_i_process_huge_page_bytes(),
        .measured = before >= 0 && prepared >= 0 && started >= 0,
    };
    return CKM_OK;
}

ckm_program_memory ckm_program_get_memory(const ckm_program *program)
{
    return program != NULL ? program->memory : (ckm_program_memory){0};
}

static ckm_status create_on(ckm_training *training, ckm_i_backend *backend, ckm_stop_fn stop, void *user,
                            ckm_program **out, ckm_error *err)
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
    CKM_I_TRY(prepare(p, stop, user, err));
    *out = p;
    p = NULL;
cleanup:
    ckm_program_free(p);
    return status;
}

ckm_status ckm_i_program_create_on(ckm_training *training, ckm_i_backend *backend, ckm_program **out, ckm_error *err)
{
    return create_on(training, backend, NULL, NULL, out, err);
}

ckm_status ckm_program_create(ckm_training *training, const ckm_program_options *options, ckm_program **out,
                              ckm_error *err)
{
    return ckm_i_program_create(training, options, NULL, NULL, out, err);
}

ckm_status ckm_i_program_create(ckm_training *training, const ckm_program_options *options, ckm_stop_fn stop,
                                void *user, ckm_program **out, ckm_error *err)
{
    CKM_I_NEED(training, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_i_backend *backend = NULL;
    ckm_program_options o = CKM_PROGRAM_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_program_options, &o, backend, options, err));
    o.threads = (int)ckm_i_usual_count(o.threads, 1);
    if (o.threads < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "threads: %d, but at least one is needed", o.threads);
    }
    CKM_I_CHECK(ckm_i_backend_create(o.backend != NULL ? o.backend : "cpu", o.threads, &backend, err));
    ckm_program *program = NULL;
    CKM_I_CHECK(create_on(training, backend, stop, user, &program, err));
    program->second_memory = o.second_memory != NULL ? ckm_i_strdup(o.second_memory) : NULL;
    if (o.second_memory != NULL && program->second_memory == NULL) {
        ckm_program_free(program);
        return ckm_i_error_memory(err);
    }
    *out = program;
    return CKM_OK;
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
    free(program->second_memory);
    free(program);
}

const char *ckm_program_backend(const ckm_program *program)
{
    return program != NULL ? program->backend->name : "";
}

int64_t ckm_program_free_bytes(const ckm_program *program)
{
    return program != NULL ? program->backend->memory->free_bytes(program->backend) : -1;
}

int ckm_program_threads(const ckm_program *program)
{
    return program != NULL ? program->backend->threads : 0;
}
