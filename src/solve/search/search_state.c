// SPDX-License-Identifier: Apache-2.0
// The search state: spans, what follows from them, and the journal.
#include "solve/search/search_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

bool ckm_i_ints_push(ckm_i_ints *list, int32_t value)
{
    if (list->n == list->cap && !CKM_I_GROW(list->at, list->n, list->cap)) {
        return false;
    }
    list->at[list->n++] = value;
    return true;
}

// The place of the first entry that is at least `value`.
static int32_t place_of(const ckm_i_ints *list, int32_t value)
{
    int32_t low = 0;
    int32_t high = list->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (list->at[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool ckm_i_ints_insert(ckm_i_ints *list, int32_t value)
{
    int32_t place = place_of(list, value);
    if (place < list->n && list->at[place] == value) {
        return true;
    }
    if (!ckm_i_ints_push(list, value)) {
        return false;
    }
    memmove(list->at + place + 1, list->at + place, (size_t)(list->n - 1 - place) * sizeof *list->at);
    list->at[place] = value;
    return true;
}

void ckm_i_ints_remove(ckm_i_ints *list, int32_t value)
{
    int32_t place = place_of(list, value);
    if (place < list->n && list->at[place] == value) {
        list->n--;
        memmove(list->at + place, list->at + place + 1, (size_t)(list->n - place) * sizeof *list->at);
    }
}

// The first span that ends at t or later.
int32_t ckm_i_span_place(const ckm_i_spans *spans, int32_t t)
{
    int32_t low = 0;
    int32_t high = spans->n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (spans->at[middle].last < t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool ckm_i_search_holds(const ckm_i_search *s, int32_t x, int32_t t)
{
    const ckm_i_spans *spans = &s->held[x];
    int32_t i = spans->n > 4 ? ckm_i_span_place(spans, t) : 0;
    while (i < spans->n && spans->at[i].last < t) {
        i++;
    }
    return i < spans->n && spans->at[i].first <= t;
}

// Lets out the stages first..last, all within one span.
static bool cut(ckm_i_spans *spans, int32_t first, int32_t last)
{
    int32_t i = ckm_i_span_place(spans, first);
    ckm_i_span old = spans->at[i];
    if (old.first < first && old.last > last) {
        if (spans->n == spans->cap && !CKM_I_GROW(spans->at, spans->n, spans->cap)) {
            return false;
        }
        memmove(spans->at + i + 1, spans->at + i, (size_t)(spans->n - i) * sizeof *spans->at);
        spans->n++;
        spans->at[i].last = first - 1;
        spans->at[i + 1].first = last + 1;
    } else if (old.first < first) {
        spans->at[i].last = first - 1;
    } else if (old.last > last) {
        spans->at[i].first = last + 1;
    } else {
        spans->n--;
        memmove(spans->at + i, spans->at + i + 1, (size_t)(spans->n - i) * sizeof *spans->at);
    }
    return true;
}

// Takes in the stages first..last, none of which is held, and joins neighbours.
static bool join(ckm_i_spans *spans, int32_t first, int32_t last)
{
    int32_t i = ckm_i_span_place(spans, first);
    bool before = i > 0 && spans->at[i - 1].last == first - 1;
    bool after = i < spans->n && spans->at[i].first == last + 1;
    if (before && after) {
        spans->at[i - 1].last = spans->at[i].last;
        spans->n--;
        memmove(spans->at + i, spans->at + i + 1, (size_t)(spans->n - i) * sizeof *spans->at);
    } else if (before) {
        spans->at[i - 1].last = last;
    } else if (after) {
        spans->at[i].first = first;
    } else {
        if (spans->n == spans->cap && !CKM_I_GROW(spans->at, spans->n, spans->cap)) {
            return false;
        }
        memmove(spans->at + i + 1, spans->at + i, (size_t)(spans->n - i) * sizeof *spans->at);
        spans->n++;
        spans->at[i] = (ckm_i_span){first, last};
    }
    return true;
}

int32_t ckm_i_search_event_before(const ckm_i_search *s, int32_t x, int32_t t)
{
    const ckm_i_dataflow_tensor *tensor = &s->df->tensors[x];
    int32_t best = -1;
    for (int32_t u = -1; u < tensor->n_users; u++) {
        int32_t v = u < 0 ? tensor->producer : tensor->users[u];
        if (v >= t) {
            break;
        }
        const ckm_i_ints *again = &s->again[v];
        int32_t place = place_of(again, t);
        int32_t stage = place > 0 ? again->at[place - 1] : v;
        best = stage > best ? stage : best;
    }
    return best;
}

int32_t ckm_i_search_event_from(const ckm_i_search *s, int32_t x, int32_t t)
{
    const ckm_i_dataflow_tensor *tensor = &s->df->tensors[x];
    int32_t none = INT32_MAX;
    int32_t best = tensor->is_result && t < s->df->n_ops ? s->df->n_ops - 1 : none;
    for (int32_t u = -1; u < tensor->n_users; u++) {
        int32_t v = u < 0 ? tensor->producer : tensor->users[u];
        if (v >= t) {
            best = v < best ? v : best;
            break;
        }
        const ckm_i_ints *again = &s->again[v];
        int32_t place = place_of(again, t);
        if (place < again->n && again->at[place] < best) {
            best = again->at[place];
        }
    }
    return best == none ? -1 : best;
}

static void mark_dirty(ckm_i_search *s, int32_t t)
{
    if (s->settled && t >= 0 && t < s->current && !ckm_i_ints_insert(&s->dirty, t)) {
        s->failed = true;
    }
}

// Changes the bytes that stages first..last begin with by those of x, where it is alone on its storage.
static void shift_peaks(ckm_i_search *s, int32_t x, int32_t first, int32_t last, int64_t bytes)
{
    last = last < s->df->n_ops ? last : s->df->n_ops - 1;  // the row after the last stage has no peak of its own
    if (bytes == 0) {
        return;
    }
    if (s->sibling[x] == x) {
        s->excess += first <= last ? ckm_i_profile_add(&s->peaks, first, last, bytes) : 0.0;
        return;
    }
    for (int32_t t = first; t <= last;) {
        int32_t end = last;
        bool alone = true;
        for (int32_t y = s->sibling[x]; y != x; y = s->sibling[y]) {
            const ckm_i_spans *spans = &s->held[y];
            int32_t i = ckm_i_span_place(spans, t);
            if (i < spans->n && spans->at[i].first <= t) {
                end = alone || spans->at[i].last > end ? spans->at[i].last : end;
                alone = false;
            } else if (i < spans->n && alone && spans->at[i].first - 1 < end) {
                end = spans->at[i].first - 1;
            }
        }
        end = end < last ? end : last;
        s->excess += alone ? ckm_i_profile_add(&s->peaks, t, end, bytes) : 0.0;
        t = end + 1;
    }
}

static void toggle_start(ckm_i_search *s, int32_t t, int32_t x, bool starts)
{
    if (!starts) {
        ckm_i_ints_remove(&s->starts[t], x);
    } else if (!ckm_i_ints_insert(&s->starts[t], x)) {
        s->failed = true;
    }
}

// Flips x over first..last: spans, starts and the bytes that stages begin with. Nothing else.
void ckm_i_search_turn(ckm_i_search *s, int32_t x, int32_t first, int32_t last)
{
    bool held = ckm_i_search_holds(s, x, first);
    int64_t bytes = s->df->tensors[s->df->tensors[x].storage].bytes;
    if (!(held ? cut(&s->held[x], first, last) : join(&s->held[x], first, last))) {
        s->failed = true;
        return;
    }
    if (!s->differs_mark[x]) {
        s->differs_mark[x] = true;
        s->differs.at[s->differs.n++] = x;  // has room for all
    }
    if (!ckm_i_search_holds(s, x, first - 1)) {
        toggle_start(s, first - 1, x, !held);
    }
    if (last < s->df->n_ops && ckm_i_search_holds(s, x, last + 1)) {
        toggle_start(s, last, x, held);
    }
    shift_peaks(s, x, first, last, held ? -bytes : bytes);
}

void ckm_i_search_flip(ckm_i_search *s, int32_t x, int32_t first, int32_t last)
{
    if (s->failed) {
        return;  // spans, journal and stages may not agree any more
    }
    if (s->n_journal == s->cap_journal && !CKM_I_GROW(s->journal, s->n_journal, s->cap_journal)) {
        s->failed = true;
        return;
    }
    s->journal[s->n_journal++] = (ckm_i_search_entry){.x = x, .first = first, .last = last};
    ckm_i_search_turn(s, x, first, last);
    mark_dirty(s, first - 1);
    mark_dirty(s, last);
    if (s->settled) {
        // Where something on the same storage is used meanwhile, whether x is there makes a difference.
        for (int32_t y = s->sibling[x]; y != x; y = s->sibling[y]) {
            int32_t t = ckm_i_search_event_from(s, y, first);
            while (t >= 0 && t < last) {
                mark_dirty(s, t);
                t = ckm_i_search_event_from(s, y, t + 1);
            }
        }
    }
}

// Replaces the operators that stage t runs on top of its own. False when memory is exhausted.
bool ckm_i_search_set_extra(ckm_i_search *s, int32_t t, const int32_t *ops, int32_t n)
{
    ckm_i_ints *extra = &s->extra[t];
    int32_t i = 0;
    int32_t k = 0;
    while (i < extra->n || k < n) {
        if (k == n || (i < extra->n && extra->at[i] < ops[k])) {
            s->total_cost -= s->df->ops[extra->at[i]].cost;
            ckm_i_ints_remove(&s->again[extra->at[i++]], t);
        } else if (i == extra->n || ops[k] < extra->at[i]) {
            if (!ckm_i_ints_insert(&s->again[ops[k]], t)) {
                s->failed = true;
                return false;
            }
            s->total_cost += s->df->ops[ops[k++]].cost;
        } else {
            i++;
            k++;
        }
    }
    extra->n = 0;
    for (k = 0; k < n; k++) {
        if (!ckm_i_ints_push(extra, ops[k])) {
            s->failed = true;
            return false;
        }
    }
    return true;
}

void ckm_i_search_set_above(ckm_i_search *s, int32_t t, int64_t above)
{
    if (above != s->above[t]) {
        s->excess += ckm_i_profile_add(&s->peaks, t, t, above - s->above[t]);
        s->above[t] = above;
    }
}

void ckm_i_search_undo(ckm_i_search *s, const ckm_i_search_point *point)
{
    if (s->failed) {
        return;
    }
    while (s->n_journal > point->n_journal) {
        const ckm_i_search_entry *entry = &s->journal[--s->n_journal];
        if (entry->x >= 0) {
            ckm_i_search_turn(s, entry->x, entry->first, entry->last);
            continue;
        }
        if (entry->n_ops >= 0) {
            s->n_old_ops -= entry->n_ops;
            const int32_t *ops = entry->n_ops > 0 ? s->old_ops + s->n_old_ops : NULL;
            ckm_i_search_set_extra(s, entry->first, ops, entry->n_ops);
        }
        ckm_i_search_set_above(s, entry->first, entry->above);
    }
    s->total_cost = point->total_cost;
    s->excess = point->excess;
    s->dirty.n = 0;
}

bool ckm_i_spans_copy(const ckm_i_spans *from, ckm_i_spans *to)
{
    while (to->cap < from->n) {
        if (!CKM_I_GROW(to->at, to->cap, to->cap)) {
            return false;
        }
    }
    if (from->n > 0) {
        memcpy(to->at, from->at, (size_t)from->n * sizeof *to->at);
    }
    to->n = from->n;
    return true;
}

void ckm_i_search_keep(ckm_i_search *s)
{
    for (int32_t i = 0; i < s->differs.n; i++) {
        int32_t x = s->differs.at[i];
        s->failed = !ckm_i_spans_copy(&s->held[x], &s->kept[x]) || s->failed;
        s->differs_mark[x] = false;
    }
    s->differs.n = 0;
}
