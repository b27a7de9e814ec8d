// SPDX-License-Identifier: Apache-2.0
// Which storages move, at which price: by the room on the links, or by a step from the best choice so far.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/moves/moves_graph.h"
#include "solve/moving_search.h"

static const double prices[] = {0.02, 0.05, 0.1, 0.3, 1.0};

// A try of the search makes a few storages dearer by the first factor, or all of them by one of the others, up to a limit.
static const double dearer = 4.0, factors[] = {0.5, 0.7, 1.4, 2.0}, dearest = 3.0;

static int by_worth(const void *left, const void *right)
{
    const ckm_i_moving_candidate *a = left;
    const ckm_i_moving_candidate *b = right;
    return a->worth != b->worth ? (a->worth > b->worth ? -1 : 1)
                                : (a->storage > b->storage) - (a->storage < b->storage);
}

ckm_status ckm_i_moving_look_at(ckm_i_moving_search *m, ckm_error *err)
{
    const ckm_dataflow *df = m->solver->df;
    ckm_status status = CKM_OK;
    ckm_schedule *plain = NULL;
    int64_t *timeline = NULL;
    ckm_simulation facts;
    int64_t now = 0;
    ckm_i_moves_which(df, m->can);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *own = &df->tensors[x];
        m->rate[x] = m->best[x] = -1.0;
        bool loaded = ckm_i_is_loaded(df, x);
        m->can[x] = m->can[x] &&
                    ckm_i_transfer_cost(df, loaded ? ckm_i_bytes_in(df, x) : own->bytes, !loaded, &m->out_time[x]);
        if (m->can[x]) {
            const ckm_i_dataflow_op *op = &df->ops[own->producer];
            double worth = op->recomputable ? (double)op->cost / fmax((double)m->out_time[x], 1.0) : INFINITY;
            m->order[m->n_order++] = (ckm_i_moving_candidate){worth, x};
        }
    }
    if (m->n_order > 0) {
        qsort(m->order, (size_t)m->n_order, sizeof *m->order, by_worth);
    }
    CKM_I_TRY(ckm_schedule_baseline(df, &plain, err));
    timeline = ckm_i_malloc((size_t)plain->n_steps, sizeof *timeline);
    if (timeline == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_simulate(df, plain, timeline, &facts, err));
    for (int64_t i = 0; i < plain->n_steps; i++) {
        const ckm_i_step *step = &plain->steps[i];
        m->peak_at = i == facts.peak_step ? now : m->peak_at;
        if (step->kind == CKM_STEP_COMPUTE) {
            const ckm_i_dataflow_op *op = &df->ops[step->index];
            now += op->cost;
            for (int32_t k = 0; k < op->n_outputs; k++) {
                m->made_at[op->outputs[k]] = now;
            }
        }
    }
cleanup:
    free(timeline);
    ckm_schedule_free(plain);
    return status;
}

void ckm_i_moving_fill_link(const ckm_i_moving_search *m, double price, double until)
{
    enum { n_parts = 64 };
    double load[n_parts] = {0.0};
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->rate[x] = -1.0;
    }
    for (int32_t i = 0; i < m->n_order; i++) {
        int32_t x = m->order[i].storage;
        double made = (double)m->made_at[x];
        if (ckm_i_is_loaded(m->solver->df, x)) {  // never leaves
            m->rate[x] = price;
            continue;
        }
        if (made >= until) {
            continue;
        }
        int part = (int)(made / until * (double)n_parts);
        double takes = (double)m->out_time[x];
        double after = takes;
        bool fits = true;
        for (int k = n_parts - 1; k >= 0; k--) {
            after += load[k];
            fits = fits && (k > part || after <= until * (double)(n_parts - k) / (double)n_parts);
        }
        if (fits) {
            load[part] += takes;
            m->rate[x] = price;
        }
    }
}

void ckm_i_moving_count_repeats(const ckm_i_moving_search *m)
{
    const ckm_dataflow *df = m->solver->df;
    const ckm_schedule *s = m->solver->best_schedule;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->repeated[x] = m->can[x] && !ckm_i_is_loaded(df, x) ? -df->ops[df->tensors[x].producer].cost : 0;
    }
    for (int64_t i = 0; s != NULL && i < s->n_steps; i++) {
        if (s->steps[i].kind == CKM_STEP_COMPUTE) {
            const ckm_i_dataflow_op *op = &df->ops[s->steps[i].index];
            for (int32_t k = 0; k < op->n_outputs; k++) {
                m->repeated[op->outputs[k]] += m->can[op->outputs[k]] ? op->cost : 0;
            }
        }
    }
}

// What counts for being added: recomputed at such cost for the time of its transfer. 0: not to be added.
static double worth_adding(const ckm_i_moving_search *m, int32_t x)
{
    return m->repeated[x] > 0 && m->best[x] < 0.0 ? (double)m->repeated[x] / fmax((double)m->out_time[x], 1.0) : 0.0;
}

static void add_few(ckm_i_moving_search *m)
{
    double total = 0.0;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        total += worth_adding(m, x);
    }
    uint32_t n = 1 + ckm_i_rng_below(&m->rng, 4);
    double price = prices[ckm_i_rng_below(&m->rng, sizeof prices / sizeof *prices)];
    for (uint32_t i = 0; i < n && total > 0.0; i++) {
        double left = ckm_i_rng_unit(&m->rng) * total;
        for (int32_t x = 0; x < m->solver->df->n_tensors && left >= 0.0; x++) {
            double worth = worth_adding(m, x);
            left -= worth;
            m->rate[x] = worth > 0.0 && left < 0.0 ? price : m->rate[x];
        }
    }
}

// So dear that the search does without them where it can. They stay chosen, so that the best schedule is one of the stand-in's.
static void make_few_dearer(ckm_i_moving_search *m)
{
    int32_t n_chosen = 0;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        n_chosen += m->best[x] >= 0.0;
    }
    uint32_t n = 1 + ckm_i_rng_below(&m->rng, 4);
    for (uint32_t i = 0; i < n && n_chosen > 0; i++) {
        int32_t left = (int32_t)ckm_i_rng_below(&m->rng, (uint32_t)n_chosen);
        for (int32_t x = 0; x < m->solver->df->n_tensors && left >= 0; x++) {
            if (m->best[x] >= 0.0 && left-- == 0) {
                m->rate[x] = fmin(fmax(m->best[x], prices[0]) * dearer, dearest);
            }
        }
    }
}

void ckm_i_moving_change(ckm_i_moving_search *m)
{
    double factor = factors[ckm_i_rng_below(&m->rng, sizeof factors / sizeof *factors)];
    uint32_t what = ckm_i_rng_below(&m->rng, 4);
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->rate[x] = what == 3 && m->best[x] >= 0.0 ? fmin(m->best[x] * factor, dearest) : m->best[x];
    }
    if (what == 0 || what == 2) {
        add_few(m);
    }
    if (what == 1 || what == 2) {
        make_few_dearer(m);
    }
}
