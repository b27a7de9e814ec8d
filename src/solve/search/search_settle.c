// SPDX-License-Identifier: Apache-2.0
// Bringing stages back to order after a move: what they run, what they hold in vain, what they peak at.
#include <string.h>

#include "base/alloc.h"
#include "solve/search/search_state.h"

// Lets go of x, which stage t began with, when nothing in it reads x and the next stage does not hold it.
static void drop_if_idle(ckm_i_search *s, int32_t t, int32_t x)
{
    const ckm_i_search_mark *mark = &s->marks[x];
    if ((mark->stamp == s->stamp && mark->last_use >= 0) || !ckm_i_search_holds(s, x, t) ||
        ckm_i_search_holds(s, x, t + 1)) {
        return;
    }
    int32_t first = t;
    if (s->settled) {
        int32_t begin = s->held[x].at[ckm_i_span_place(&s->held[x], t)].first;
        first = ckm_i_search_event_before(s, x, t) + 1;
        first = begin > first ? begin : first;
    }
    ckm_i_search_flip(s, x, first, t);
}

// Writes stage t to the journal, with the operators it runs when they are about to change.
static bool record_stage(ckm_i_search *s, int32_t t, bool changes)
{
    const ckm_i_ints *extra = &s->extra[t];
    if (s->n_journal == s->cap_journal && !CKM_I_GROW(s->journal, s->n_journal, s->cap_journal)) {
        return false;
    }
    for (int32_t i = 0; i < extra->n && changes; i++) {
        if (s->n_old_ops == s->cap_old_ops && !CKM_I_GROW(s->old_ops, s->n_old_ops, s->cap_old_ops)) {
            return false;
        }
        s->old_ops[s->n_old_ops++] = extra->at[i];
    }
    s->journal[s->n_journal++] = (ckm_i_search_entry){
        .x = -1, .first = t, .n_ops = changes ? extra->n : -1, .above = s->above[t]};
    return true;
}

static bool settle_stage(ckm_i_search *s, int32_t t)
{
    const ckm_dataflow *df = s->df;
    if (!ckm_i_search_close_stage(s, t)) {
        return false;
    }
    int32_t n = s->ops.n - 1;
    const ckm_i_ints *extra = &s->extra[t];
    bool changes = n != extra->n || (n > 0 && memcmp(s->ops.at, extra->at, (size_t)n * sizeof *s->ops.at) != 0);
    if (!record_stage(s, t, changes)) {
        s->failed = true;
        return false;
    }
    // Operands and outputs of what the stage ran until now are all that can be held in vain.
    for (int32_t i = 0; i < extra->n; i++) {
        const ckm_i_dataflow_op *op = &df->ops[extra->at[i]];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            drop_if_idle(s, t, op->inputs[k]);
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            drop_if_idle(s, t, op->outputs[k]);
        }
    }
    if (s->failed || (changes && !ckm_i_search_set_extra(s, t, s->ops.at, n))) {
        return false;
    }
    ckm_i_search_set_above(s, t, ckm_i_search_walk_stage(s, t, NULL, NULL, NULL));
    return !s->failed;
}

bool ckm_i_search_settle(ckm_i_search *s)
{
    bool ok = !s->failed;
    while (ok && s->dirty.n > 0) {
        s->current = s->dirty.at[--s->dirty.n];
        ok = settle_stage(s, s->current);
    }
    s->current = s->df->n_ops;
    s->dirty.n = 0;
    return ok;
}
