// SPDX-License-Identifier: Apache-2.0
// Validation: loss and accuracy on samples that are not trained on. A forward pass with its own schedule runs between steps, in
// the region of training: parameters, statistics and the batch's buffers are those of training, and its arena is training's, which
// is empty then.
#include "trainer/trainer_validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autodiff/step.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "run/data/data.h"
#include "run/session/session.h"
#include "run/session/session_region.h"

struct ckm_i_validation {
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_schedule *baseline;  // without rematerialization
    ckm_data *data;
    ckm_run_fit fit;
    ckm_session *session;
};

static ckm_status open_samples(ckm_trainer *t, ckm_i_validation *v, ckm_error *err)
{
    const ckm_trainer_options *o = &t->options;
    ckm_data_options options;
    ckm_train_fields fields;
    CKM_I_CHECK(ckm_i_trainer_data_options(t, v->training, &fields, &options, err));
    ckm_i_data_share share = ckm_i_trainer_share(t, true);
    const char *path = o->validate != NULL ? o->validate : o->data != NULL ? o->data : "synthetic";
    bool caller = o->source != NULL && o->validate == NULL;
    return ckm_i_data_open_share(caller ? NULL : path, caller ? o->source : NULL, &options, &share, &v->data, err);
}

// Tables of a schedule that computes some operators twice: a guess, which beginning checks.
static int64_t table_bytes(const ckm_i_validation *v)
{
    return 2 * ckm_i_session_table_bytes(v->program, v->baseline);
}

static int64_t kernel_bytes(const ckm_i_validation *v)
{
    ckm_program_memory m = ckm_program_get_memory(v->program);
    return m.kernel_bytes + m.thread_bytes;
}

ckm_status ckm_i_trainer_build_validation(ckm_trainer *t, ckm_error *err)
{
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_i_validation *v = ckm_i_calloc(1, sizeof *v);
    t->validation = v;
    if (v == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_i_autodiff_validation_graph(t->graph, t->step.loss, &v->training, err));
    CKM_I_CHECK(ckm_i_program_create(v->training, &t->kernels, ckm_i_trainer_stops, t, &v->program, err));
    CKM_I_CHECK(ckm_cost_apply(v->training, &flops, &v->df, err));
    CKM_I_CHECK(ckm_schedule_baseline(v->df, &v->baseline, err));
    CKM_I_CHECK(open_samples(t, v, err));
    t->validation_bytes = kernel_bytes(v) + table_bytes(v) + ckm_data_get_facts(v->data).bytes;
    return CKM_OK;
}

void ckm_i_trainer_close_validation(ckm_i_validation *v)
{
    if (v == NULL) {
        return;
    }
    ckm_session_free(v->session);
    ckm_run_fit_dispose(&v->fit);
    ckm_data_close(v->data);
    ckm_schedule_free(v->baseline);
    ckm_dataflow_free(v->df);
    ckm_program_free(v->program);
    ckm_training_free(v->training);
    free(v);
}

// The forward pass within the arena that training has, and the persistent part of the region.
ckm_status ckm_i_trainer_fit_validation(ckm_trainer *t, ckm_error *err)
{
    ckm_i_validation *v = t->validation;
    int64_t persistent = 0;
    if (v == NULL || t->fit.plan == NULL) {
        return CKM_OK;
    }
    int64_t arena = 0;
    int64_t page = ckm_i_region_page_bytes();
    CKM_I_CHECK(ckm_i_region_lay_out(t->df, NULL, &persistent, err));
    // The region's last page belongs to it as well.
    CKM_I_CHECK(ckm_run_region_bytes(t->df, t->fit.plan, &arena, err));
    arena -= persistent;
    CKM_I_CHECK(ckm_i_region_lay_out(v->df, NULL, &persistent, err));
    // A fit is sought in whole pages: what fits the next page may be within the arena, what fits the one before it is.
    for (int64_t more = page - 1; more >= 0; more -= page - 1) {
        ckm_solve_options solve = t->solve;
        ckm_run_fit_dispose(&v->fit);
        CKM_I_CHECK(ckm_trainer_fit(v->df, (persistent + arena + more) / page * page, 0, &solve, &v->fit, NULL, err));
        CKM_I_CHECK(ckm_i_trainer_go_on(t, err));
        if (v->fit.plan != NULL && ckm_plan_get_info(v->fit.plan)->arena_bytes <= arena) {
            return CKM_OK;
        }
    }
    return ckm_i_error(
        err, CKM_ERR_ARGUMENT,
        "no schedule was found by which validation runs in the %lld bytes that training's activations have: "
        "give a larger budget, or train without validation",
        (long long)arena);
}

ckm_status ckm_i_trainer_begin_validation(ckm_trainer *t, ckm_error *err)
{
    ckm_i_validation *v = t->validation;
    if (v == NULL) {
        return CKM_OK;
    }
    ckm_session_free(v->session);
    v->session = NULL;
    CKM_I_CHECK(
        ckm_i_session_create_within(v->program, v->df, v->fit.schedule, v->fit.plan, t->session, &v->session, err));
    int64_t tables = ckm_session_get_memory(v->session).table_bytes;
    return tables <= table_bytes(v)
               ? CKM_OK
               : ckm_i_error(
                     err, CKM_ERR_ARGUMENT,
                     "the tables of validation take %lld bytes, more than the %lld set aside: give a larger budget, "
                     "or train without validation",
                     (long long)tables, (long long)table_bytes(v));
}

// ---- judging

// Labels of the batch at hand that are not -1; where they are reals, all of them.
static ckm_status count_labels(const ckm_session *session, int64_t *out, ckm_error *err)
{
    int32_t piece[1024];
    int32_t labels = ckm_session_labels(session);
    ckm_session_tensor t = ckm_session_get_tensor(session, labels);
    int64_t n = 0;
    for (int64_t at = 0; t.dtype == CKM_I32 && at < t.bytes; at += (int64_t)sizeof piece) {
        int64_t bytes = t.bytes - at < (int64_t)sizeof piece ? t.bytes - at : (int64_t)sizeof piece;
        CKM_I_CHECK(ckm_session_read(session, labels, at, bytes, piece, err));
        for (int64_t i = 0; i < bytes / (int64_t)sizeof *piece; i++) {
            n += piece[i] >= 0;
        }
    }
    *out = t.dtype == CKM_I32 ? n : t.bytes / (int64_t)sizeof(float);
    return CKM_OK;
}

ckm_status ckm_i_trainer_validate(void *trainer, ckm_stop_fn stop, void *user, ckm_train_validation *out, bool *done,
                                  ckm_error *err)
{
    const ckm_trainer *t = trainer;
    ckm_i_validation *v = t->validation;
    ckm_data_facts facts = ckm_data_get_facts(v->data);
    double began = ckm_i_clock_seconds();
    double loss = 0;
    int64_t correct = 0;
    int64_t judged = 0;
    bool counts = true;
    *done = false;
    for (int64_t batch = 0; batch < facts.batches; batch++) {
        ckm_step_result one;
        int64_t labelled = 0;
        if (stop != NULL && stop(user)) {
            return CKM_OK;
        }
        CKM_I_CHECK(ckm_train_fetch(v->session, v->data, batch, err));
        CKM_I_CHECK(count_labels(v->session, &labelled, err));
        CKM_I_CHECK(ckm_session_step(v->session, 0, 0.0, &one, err));
        // The loss of a batch is the mean of what is labelled in it.
        loss += labelled > 0 ? one.loss * (double)labelled : 0.0;
        correct += one.correct;
        counts = counts && one.correct >= 0;
        judged += labelled;
    }
    out->samples = facts.samples;
    out->judged = judged;
    out->correct = counts ? correct : -1;
    out->loss = judged > 0 ? loss / (double)judged : (double)NAN;
    out->accuracy = counts && judged > 0 ? (double)correct / (double)judged : (double)NAN;
    out->seconds = ckm_i_clock_seconds() - began;
    *done = true;
    return CKM_OK;
}

ckm_trainer_validation ckm_trainer_get_validation(const ckm_trainer *t)
{
    if (t == NULL || t->validation == NULL) {
        return (ckm_trainer_validation){0};
    }
    const ckm_i_validation *v = t->validation;
    return (ckm_trainer_validation){.there = true,
                                    .samples = ckm_data_get_facts(v->data).samples,
                                    .bytes = t->validation_bytes,
                                    .kernel_bytes = ckm_program_get_memory(v->program).measured ? kernel_bytes(v) : 0};
}
