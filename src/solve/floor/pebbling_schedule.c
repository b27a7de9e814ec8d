// SPDX-License-Identifier: Apache-2.0
// From the empty set back to the results: at each state the move of the latest operator from which the rest still fits.
// Late operators first means that what is at hand is used up before anything is computed again.
#include "solve/floor/pebbling_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// A decision on the way first takes at most this much work for each slot of the state; where no move was found to lead
// on, all are tried again with RETRY_GROWTH times as much, so often.
enum { WORK_PER_SLOT = 16, RETRIES = 3, RETRY_GROWTH = 16 };

// Steps, the last one first: `frees` and `pairs` are the ends of a step's share of the two lists.
typedef struct taken_step {
    int32_t op;
    int64_t frees_end, pairs_end;
} taken_step;

typedef struct walk {
    ckm_i_pebbling *p;
    int64_t budget_bytes, work_end;
    bool (*stop)(void *context);
    void *context;
    bool *has_run;          // by operator
    int64_t *failed_bytes;  // by operator: the state's bytes when going back over it last led nowhere
    int32_t *slots, n;
    int32_t *next, n_next;
    taken_step *steps;
    int64_t n_steps, cap_steps;
    int32_t *frees;
    int64_t n_frees, cap_frees;
    int32_t (*pairs)[2];
    int64_t n_pairs, cap_pairs;
    int32_t (*chosen)[2];
} walk;

static bool is_stopped(const walk *w)
{
    return w->p->work > w->work_end || (w->stop != NULL && w->stop(w->context));
}

static bool add_free(walk *w, int32_t tensor)
{
    if (!CKM_I_GROW(w->frees, w->n_frees, w->cap_frees)) {
        return false;
    }
    w->frees[w->n_frees++] = tensor;
    return true;
}

static bool is_given_away(const int32_t (*pairs)[2], int32_t n, int32_t tensor)
{
    for (int32_t i = 0; i < n; i++) {
        if (pairs[i][0] == tensor) {
            return true;
        }
    }
    return false;
}

// Writes the step of the game's last move down: what v overwrites, and what is freed after it because nothing needs it.
static bool record(walk *w, int32_t v)
{
    const ckm_i_pebbling *p = w->p;
    const ckm_i_dataflow_op *op = &p->df->ops[v];
    int32_t n_chosen = 0;
    (void)ckm_i_inplace_best(p->df, (const int32_t(*)[2])p->pairs, p->n_pairs, w->chosen, &n_chosen);
    for (int32_t i = 0; i < n_chosen; i++) {
        if (!CKM_I_GROW(w->pairs, w->n_pairs, w->cap_pairs)) {
            return false;
        }
        memcpy(w->pairs[w->n_pairs++], w->chosen[i], sizeof w->chosen[i]);
    }
    for (int32_t i = 0; i < p->n_added; i++) {
        int32_t x = p->tensor_of[p->added[i]];
        if (!is_given_away((const int32_t(*)[2])w->chosen, n_chosen, x) && !add_free(w, x)) {
            return false;
        }
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        bool kept = false;
        for (int32_t k = 0; k < p->n_removed; k++) {
            kept = kept || p->tensor_of[p->removed[k]] == op->outputs[i];
        }
        if (!kept && !add_free(w, op->outputs[i])) {
            return false;
        }
    }
    if (!CKM_I_GROW(w->steps, w->n_steps, w->cap_steps)) {
        return false;
    }
    w->steps[w->n_steps++] = (taken_step){v, w->n_frees, w->n_pairs};
    w->has_run[v] = true;
    return true;
}

static void load(walk *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        ckm_i_pebbling_add(w->p, w->slots[i]);
    }
}

static void unload(walk *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        ckm_i_pebbling_remove(w->p, w->slots[i]);
    }
}

// Tries to go back over v. *taken: that leads on, and w->slots is what had to be in memory then.
static ckm_status try_op(walk *w, int32_t v, int64_t limit, bool *taken, ckm_error *err)
{
    ckm_i_pebbling *p = w->p;
    int32_t state = -1;
    int64_t key = 0;
    ckm_i_pebbling_answer answer = CKM_I_PEBBLING_OPEN;
    ckm_status status = CKM_OK;
    *taken = false;
    load(w);
    int64_t bytes = p->bytes;
    int64_t peak = ckm_i_pebbling_go_back(p, v, w->slots, w->n);
    w->n_next = ckm_i_pebbling_members(p, w->slots, w->n, w->next);
    ckm_i_pebbling_undo(p);
    unload(w);
    p->work += w->n;
    if (peak > w->budget_bytes) {
        return CKM_OK;
    }
    CKM_I_TRY(ckm_i_pebbling_intern(p, w->next, w->n_next, &state, err));
    CKM_I_TRY(ckm_i_pebbling_decide(p, state, w->budget_bytes, limit, &answer, &key, err));
    if (answer != CKM_I_PEBBLING_FITS) {
        w->failed_bytes[v] = bytes;
        return CKM_OK;
    }
    w->failed_bytes[v] = INT64_MAX;
    load(w);
    (void)ckm_i_pebbling_go_back(p, v, w->slots, w->n);
    bool done = record(w, v);
    ckm_i_pebbling_undo(p);
    unload(w);
    if (!done) {
        return ckm_i_error_memory(err);
    }
    int32_t *old = w->slots;
    w->slots = w->next;
    w->n = w->n_next;
    w->next = old;
    *taken = true;
cleanup:
    return status;
}

// One move from w->slots, of the latest operator possible. What failed lately is only tried again once the state has
// become an eighth smaller, or when nothing else works.
static ckm_status take_move(walk *w, bool *taken, ckm_error *err)
{
    const ckm_i_pebbling *p = w->p;
    load(w);
    int64_t bytes = p->bytes;
    unload(w);
    int64_t limit = (int64_t)WORK_PER_SLOT * (w->n + WORK_PER_SLOT);
    for (int retry = 0; retry <= RETRIES; retry++, limit *= RETRY_GROWTH) {
        for (int32_t i = w->n; i > 0;) {
            int32_t v = p->op_of[w->slots[i - 1]];
            while (i > 0 && p->op_of[w->slots[i - 1]] == v) {
                i--;
            }
            if (retry > 0 || bytes <= w->failed_bytes[v] - w->failed_bytes[v] / 8) {
                CKM_I_CHECK(try_op(w, v, limit, taken, err));
            }
            if (*taken || is_stopped(w)) {
                return CKM_OK;
            }
        }
    }
    return CKM_OK;
}

// Back from w->slots to nothing. *arrived: it got there.
static ckm_status go_to_nothing(walk *w, bool *arrived, ckm_error *err)
{
    *arrived = true;
    while (*arrived && w->n > 0) {
        bool taken = false;
        CKM_I_CHECK(take_move(w, &taken, err));
        *arrived = taken && !is_stopped(w);
    }
    return CKM_OK;
}

// The results at the end; then, before that, whatever has not been run for them, the late ones last.
static ckm_status play(walk *w, bool *found, ckm_error *err)
{
    const ckm_i_pebbling *p = w->p;
    const ckm_dataflow *df = p->df;
    w->n = 0;
    for (int32_t s = 0; s < p->n_slots; s++) {
        if (df->tensors[p->tensor_of[s]].is_result) {
            w->slots[w->n++] = s;
        }
    }
    CKM_I_CHECK(go_to_nothing(w, found, err));
    for (int32_t v = df->n_ops - 1; v >= 0 && *found; v--) {
        if (!w->has_run[v]) {
            w->n = 0;
            CKM_I_CHECK(try_op(w, v, w->work_end - p->work, found, err));
            if (*found) {
                CKM_I_CHECK(go_to_nothing(w, found, err));
            }
        }
    }
    return CKM_OK;
}

static ckm_status write_out(const walk *w, ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *s = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_create(&s, err));
    for (int64_t k = w->n_steps - 1; k >= 0; k--) {
        int64_t frees_at = k > 0 ? w->steps[k - 1].frees_end : 0;
        int64_t pairs_at = k > 0 ? w->steps[k - 1].pairs_end : 0;
        ckm_step compute = {
            .kind = CKM_STEP_COMPUTE,
            .index = w->steps[k].op,
            .n_inplace = (int32_t)(w->steps[k].pairs_end - pairs_at),
            .inplace = (const int32_t(*)[2])(w->pairs + pairs_at),
        };
        CKM_I_TRY(ckm_schedule_append(s, &compute, err));
        for (int64_t i = frees_at; i < w->steps[k].frees_end; i++) {
            ckm_step step = {.kind = CKM_STEP_FREE, .index = w->frees[i]};
            CKM_I_TRY(ckm_schedule_append(s, &step, err));
        }
    }
    *out = s;
    s = NULL;
cleanup:
    ckm_schedule_free(s);
    return status;
}

ckm_status ckm_i_pebbling_schedule(ckm_i_pebbling *p, int64_t budget_bytes, int64_t work, bool (*stop)(void *context),
                                   void *context, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool found = false;
    *out = NULL;
    walk w = {
        .p = p,
        .budget_bytes = budget_bytes,
        .work_end = p->work + work,
        .stop = stop,
        .context = context,
        .has_run = ckm_i_calloc((size_t)p->df->n_ops, sizeof *w.has_run),
        .failed_bytes = ckm_i_malloc((size_t)p->df->n_ops, sizeof *w.failed_bytes),
        .slots = ckm_i_malloc((size_t)p->n_slots, sizeof *w.slots),
        .next = ckm_i_malloc((size_t)p->n_slots, sizeof *w.next),
        .chosen = ckm_i_malloc(ckm_i_most_pairs(p->df), sizeof *w.chosen),
    };
    if (w.has_run == NULL || w.failed_bytes == NULL || w.slots == NULL || w.next == NULL || w.chosen == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t v = 0; v < p->df->n_ops; v++) {
        w.failed_bytes[v] = INT64_MAX;
    }
    CKM_I_TRY(play(&w, &found, err));
    if (found) {
        CKM_I_TRY(write_out(&w, out, err));
    }
cleanup:
    free(w.has_run);
    free(w.failed_bytes);
    free(w.slots);
    free(w.next);
    free(w.steps);
    free(w.frees);
    free(w.pairs);
    free(w.chosen);
    return status;
}
