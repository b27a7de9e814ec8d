// SPDX-License-Identifier: Apache-2.0
// Several processes that train together: they have the same step, begin with the same parameters, and follow one schedule.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "graph/training.h"
#include "run/ranks/ranks.h"
#include "run/session/session.h"
#include "trainer/trainer.h"

static uint64_t add_to_hash(uint64_t hash, const void *data, size_t bytes)
{
    return (hash ^ ckm_i_fingerprint(data, (int64_t)bytes)) * UINT64_C(0x9e3779b97f4a7c15);
}

// A fingerprint of everything that must be equal for the ranks' steps to be parts of one step.
static uint64_t fingerprint(const ckm_trainer *t)
{
    const ckm_training *training = t->training;
    const ckm_data_facts facts = ckm_data_get_facts(t->data);
    const int64_t numbers[] = {(int64_t)t->place.seed, t->place.batch, t->place.step,   facts.samples,
                               facts.batches,          facts.classes,  training->n_ops, t->options.budget_bytes};
    uint64_t hash = add_to_hash(0, numbers, sizeof numbers);
    hash = add_to_hash(hash, &t->options.budget_fraction, sizeof t->options.budget_fraction);
    hash = add_to_hash(hash, &t->options.activations_fraction, sizeof t->options.activations_fraction);
    hash = add_to_hash(hash, t->place.network, strlen(t->place.network));
    hash = add_to_hash(hash, t->place.optimizer, strlen(t->place.optimizer));
    for (int32_t v = 0; v < training->n_ops; v++) {
        hash = add_to_hash(hash, training->ops[v].name, strlen(training->ops[v].name));
        hash = add_to_hash(hash, &training->ops[v].workspace_bytes, sizeof training->ops[v].workspace_bytes);
    }
    for (int32_t x = 0; x < training->n_values; x++) {
        hash = add_to_hash(hash, &training->values[x].bytes, sizeof training->values[x].bytes);
    }
    return hash;
}

ckm_status ckm_i_trainer_meet(ckm_trainer *t, ckm_status built, ckm_error *err)
{
    CKM_I_CHECK(ckm_ranks_agree(t->ranks, built, err));
    if (t->ranks == NULL) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_ranks_same(t->ranks, fingerprint(t), "has another network, data or budget", err));
    int64_t most = ckm_i_trainer_outside_fixed(t);
    CKM_I_CHECK(ckm_i_ranks_most(t->ranks, &most, err));
    t->outside_fixed_most = most;
    return CKM_OK;
}

ckm_status ckm_i_trainer_compare_parameters(const ckm_trainer *t, ckm_error *err)
{
    uint64_t hash = 0;
    if (t->ranks == NULL) {
        return CKM_OK;
    }
    for (int32_t i = 0; i < ckm_session_tensor_count(t->session); i++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(t->session, i);
        if (tensor.role == CKM_ROLE_PARAMETER || tensor.role == CKM_ROLE_STATE || tensor.role == CKM_ROLE_CONSTANT) {
            hash = add_to_hash(hash, ckm_i_session_host(t->session, i), (size_t)tensor.bytes);
        }
    }
    return ckm_i_ranks_same(t->ranks, hash, "begins with other parameters", err);
}

// ---- one schedule for all: for each step its kind, its index, how many pairs it uses in place, and these

static int64_t count_numbers(const ckm_schedule *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        n += 3 + 2 * (int64_t)ckm_schedule_get_step(s, i).n_inplace;
    }
    return n;
}

static void write_numbers(const ckm_schedule *s, int32_t *to)
{
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        *to++ = (int32_t)step.kind;
        *to++ = step.index;
        *to++ = step.n_inplace;
        for (int32_t k = 0; k < step.n_inplace; k++) {
            *to++ = step.inplace[k][0];
            *to++ = step.inplace[k][1];
        }
    }
}

static ckm_status read_numbers(const int32_t *from, int64_t n, ckm_schedule *s, ckm_error *err)
{
    for (int64_t at = 0; at < n;) {
        int32_t n_pairs = from[at + 2];
        ckm_step step = {(ckm_step_kind)from[at], from[at + 1], n_pairs, (const int32_t(*)[2])(from + at + 3)};
        CKM_I_CHECK(ckm_schedule_append(s, &step, err));
        at += 3 + 2 * (int64_t)n_pairs;
    }
    return CKM_OK;
}

typedef struct given {
    const ckm_trainer *t;
    const int32_t *numbers;
    int64_t n;
    bool taken;
    int64_t cost;
} given;

// Rank 0's schedule, verified here. If it does not fit here the first time, nothing fits.
static ckm_status take(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    given *g = user;
    ckm_schedule *s = NULL;
    ckm_verdict verdict;
    ckm_status status = CKM_OK;
    if (g->taken) {
        return CKM_OK;
    }
    g->taken = true;
    CKM_I_TRY(ckm_schedule_create(&s, err));
    CKM_I_TRY(read_numbers(g->numbers, g->n, s, err));
    CKM_I_TRY(ckm_schedule_verify(g->t->df, s, budget_bytes, &verdict, err));
    if (!verdict.ok) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL, "the schedule of rank 0 does not do here: %s", verdict.why);
        goto cleanup;
    }
    g->cost = verdict.cost;
    *out = s;
    s = NULL;
cleanup:
    ckm_schedule_free(s);
    return status;
}

static ckm_status fit_given(ckm_trainer *t, const int32_t *numbers, int64_t n, ckm_error *err)
{
    given g = {.t = t, .numbers = numbers, .n = n};
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    ckm_run_fit_dispose(&t->fit);
    CKM_I_CHECK(ckm_run_plan_under_budget(t->df, t->budget_bytes, t->outside_bytes, &packing, take, &g, &t->fit, err));
    if (t->fit.schedule == NULL) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "the schedule of rank 0 cannot be packed into %lld bytes here",
                           (long long)(t->budget_bytes - t->outside_bytes));
    }
    ckm_solve_result_dispose(&t->solved);
    t->solved = (ckm_solve_result){.cost = g.cost, .strategy = "rank 0's"};
    return CKM_OK;
}

ckm_status ckm_i_trainer_fit_together(ckm_trainer *t, ckm_error *err)
{
    const ckm_ranks *ranks = t->ranks;
    if (ranks == NULL) {
        return ckm_i_trainer_fit(t, false, err);
    }
    int64_t n = 0;
    int32_t *numbers = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_ranks_agree(ranks, ranks->rank == 0 ? ckm_i_trainer_fit(t, false, err) : CKM_OK, err));
    if (ranks->rank == 0 && t->fit.schedule != NULL) {
        n = count_numbers(t->fit.schedule);
    }
    CKM_I_TRY(ckm_i_ranks_broadcast(ranks, &n, sizeof n, err));
    numbers = ckm_i_malloc((size_t)n, sizeof *numbers);
    CKM_I_TRY(ckm_ranks_agree(ranks, numbers != NULL ? CKM_OK : ckm_i_error_memory(err), err));
    if (n == 0 || numbers == NULL) {  // nothing was found; without memory, all have left above
        ckm_run_fit_dispose(&t->fit);
        goto cleanup;
    }
    if (ranks->rank == 0) {
        write_numbers(t->fit.schedule, numbers);
    }
    CKM_I_TRY(ckm_i_ranks_broadcast(ranks, numbers, n * (int64_t)sizeof *numbers, err));
    CKM_I_TRY(ckm_ranks_agree(ranks, ranks->rank == 0 ? CKM_OK : fit_given(t, numbers, n, err), err));
cleanup:
    free(numbers);
    return status;
}
