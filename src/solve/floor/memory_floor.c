// SPDX-License-Identifier: Apache-2.0
// The memory floor by the reverse pebble game: for each operator in order what computing it alone takes, then what the
// results take together. Short searches first; longer ones where a gap is left.
#include "solve/floor/memory_floor.h"

#include <checkmate/min_budget.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dataflow/dataflow.h"

enum {
    FIRST_LIMIT = 20000,  // work for one decision in the first sweep, and how much more in each later one
    LIMIT_GROWTH = 8,
    RESULTS_SHARE = 16,  // the results are one set, but a large one
    MAX_REFUTED = 12,    // from key to key this often, then by bisection
    MAX_DECISIONS = 30,
    MAX_OPEN = 4,
    ARCS = 16  // looked at for a unit of work
};

// One thing to compute last, while others stay: sorted so that what shrinks most comes first.
typedef struct part {
    int64_t alone_bytes, kept_bytes;
} part;

typedef struct finder {
    ckm_i_pebbling *p;
    const ckm_i_memory_floor_options *options;
    int64_t limit;        // for one decision
    int64_t floor_bytes;  // proven so far
    int64_t work_end;
    int32_t *slots;
    part *parts;
} finder;

int64_t ckm_i_memory_floor_work(int64_t most, double time_limit_seconds)
{
    const double units_a_second = 2e6;  // a tenth of what is done in one
    double affordable = time_limit_seconds > 0 ? time_limit_seconds * units_a_second : (double)most;
    return affordable < (double)most ? (int64_t)affordable : most;
}

static bool is_done(const finder *f)
{
    return f->p->work >= f->work_end || f->floor_bytes > f->options->stop_above;
}

static int compare_parts(const void *a, const void *b)
{
    const part *x = a;
    const part *y = b;
    int64_t dx = x->alone_bytes - x->kept_bytes;
    int64_t dy = y->alone_bytes - y->kept_bytes;
    return (dx < dy) - (dx > dy);
}

// What is enough for a set when its members are computed one after the other, each from nothing: the order by
// decreasing alone - kept is the best one (Liu 1987).
static int64_t enough_one_by_one(finder *f, const int32_t *slots, int32_t n)
{
    const ckm_i_pebbling *p = f->p;
    const ckm_dataflow *df = p->df;
    int32_t n_parts = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t v = p->op_of[slots[i]];
        const ckm_i_dataflow_tensor *x = &df->tensors[p->tensor_of[slots[i]]];
        int64_t bytes = x->pinned ? 0 : df->tensors[x->storage].bytes;
        if (i > 0 && p->op_of[slots[i - 1]] == v) {
            f->parts[n_parts - 1].kept_bytes += bytes;
        } else {
            f->parts[n_parts++] = (part){p->high_bytes[v], bytes};
        }
    }
    qsort(f->parts, (size_t)n_parts, sizeof *f->parts, compare_parts);
    int64_t kept = 0;
    int64_t peak = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        int64_t during = kept + f->parts[i].alone_bytes;
        peak = during > peak ? during : peak;
        kept += f->parts[i].kept_bytes;
    }
    return peak;
}

static ckm_status note_one_by_one(finder *f, const int32_t *slots, int32_t n, ckm_error *err)
{
    int32_t state = -1;
    CKM_I_CHECK(ckm_i_pebbling_intern(f->p, slots, n, &state, err));
    ckm_i_pebbling_note(f->p, state, enough_one_by_one(f, slots, n), -1, -1);
    return CKM_OK;
}

// Narrows *low ... *high for a set. Nothing below `from` is tried: what lies there depends on members that are open
// themselves.
static ckm_status narrow(finder *f, const int32_t *slots, int32_t n, int64_t from, int64_t limit, int64_t *low,
                         int64_t *high, ckm_error *err)
{
    ckm_i_pebbling *p = f->p;
    int32_t state = -1;
    int64_t least = *low > from ? *low : from;
    CKM_I_CHECK(ckm_i_pebbling_intern(p, slots, n, &state, err));
    int tries = 0;
    int open = 0;
    while (least < *high && tries < MAX_DECISIONS && open < MAX_OPEN && !is_done(f)) {
        int64_t budget = open > 0 || tries >= MAX_REFUTED ? least + (*high - least) / 2 : least;
        int64_t key = 0;
        ckm_i_pebbling_answer answer = CKM_I_PEBBLING_OPEN;
        CKM_I_CHECK(ckm_i_pebbling_decide(p, state, budget, limit, &answer, &key, err));
        tries++;
        if (answer == CKM_I_PEBBLING_FITS) {
            *high = budget;
        } else if (answer == CKM_I_PEBBLING_REFUTED) {
            *low = key < *high ? key : *high;
            least = *low > least ? *low : least;
        } else {
            least = budget + (*high - budget) / 4 + 1;
            open++;
        }
    }
    return CKM_OK;
}

// Operator v at any of its runs: the same for what others that need its outputs build on.
static ckm_status look_at_op(finder *f, int32_t v, bool again, ckm_error *err)
{
    ckm_i_pebbling *p = f->p;
    int64_t own = ckm_i_pebbling_go_back(p, v, NULL, 0);
    ckm_i_pebbling_undo(p);
    const int32_t *needs = p->needs + p->needs_at[v];
    int32_t n = p->needs_at[v + 1] - p->needs_at[v];
    int64_t low = own > p->low_bytes[v] ? own : p->low_bytes[v];
    int64_t from = own;
    for (int32_t i = 0; i < n; i++) {
        int32_t u = p->op_of[needs[i]];
        low = p->low_bytes[u] > low ? p->low_bytes[u] : low;
        from = p->high_bytes[u] > from ? p->high_bytes[u] : from;
    }
    int64_t high = n > 0 ? enough_one_by_one(f, needs, n) : own;
    high = high > own ? high : own;
    high = again && p->high_bytes[v] < high ? p->high_bytes[v] : high;
    high = high > low ? high : low;
    p->work += n + 1;
    ckm_status status = CKM_OK;
    if (n > 0 && p->ancestors == NULL) {
        CKM_I_CHECK(note_one_by_one(f, needs, n, err));
    }
    // Later sweeps are for what may raise the floor.
    if (low < high && !(again && high <= f->floor_bytes)) {
        from = again && from < f->floor_bytes ? f->floor_bytes : from;
        status = narrow(f, needs, n, from, f->limit, &low, &high, err);
    }
    p->low_bytes[v] = low;
    p->high_bytes[v] = high;
    f->floor_bytes = low > f->floor_bytes ? low : f->floor_bytes;
    return status;
}

// A set that is in memory at one moment, with more than what computing an operator takes.
static ckm_status look_at_set(finder *f, int32_t n, int64_t *high, ckm_error *err)
{
    int64_t low = ckm_i_pebbling_held(f->p, f->slots, n);
    low = low > f->floor_bytes ? low : f->floor_bytes;
    int64_t enough = enough_one_by_one(f, f->slots, n);
    *high = enough < *high ? enough : *high;
    *high = *high > low ? *high : low;
    if (f->p->ancestors == NULL) {
        CKM_I_CHECK(note_one_by_one(f, f->slots, n, err));
    }
    ckm_status status = narrow(f, f->slots, n, low, f->limit * RESULTS_SHARE, &low, high, err);
    f->floor_bytes = low > f->floor_bytes ? low : f->floor_bytes;
    return status;
}

static int32_t collect_results(const finder *f)
{
    const ckm_i_pebbling *p = f->p;
    int32_t n = 0;
    for (int32_t s = 0; s < p->n_slots; s++) {
        if (p->df->tensors[p->tensor_of[s]].is_result) {
            f->slots[n++] = s;
        }
    }
    return n;
}

// First runs of operators below which something runs once: what has been made once and is needed later is there.
static ckm_status look_at_first_runs(finder *f, ckm_error *err)
{
    ckm_i_pebbling *p = f->p;
    for (int32_t v = 0; p->ancestors != NULL && v < p->df->n_ops && !is_done(f); v++) {
        if (!p->df->ops[v].recomputable) {
            continue;  // its only run has been looked at
        }
        int32_t n = ckm_i_pebbling_needs(p, v, true, f->slots);
        if (n == p->needs_at[v + 1] - p->needs_at[v]) {
            continue;
        }
        for (int32_t i = 0; i < n; i++) {
            ckm_i_pebbling_add(p, f->slots[i]);
        }
        int64_t own = ckm_i_pebbling_peak_at(p, v);
        for (int32_t i = 0; i < n; i++) {
            ckm_i_pebbling_remove(p, f->slots[i]);
        }
        f->floor_bytes = own > f->floor_bytes ? own : f->floor_bytes;
        int64_t high = INT64_MAX;
        CKM_I_CHECK(look_at_set(f, n, &high, err));
    }
    return CKM_OK;
}

ckm_status ckm_i_memory_floor_find(ckm_i_pebbling *p, const ckm_i_memory_floor_options *options,
                                   ckm_i_memory_floor_result *out, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    finder f = {.p = p, .options = options, .limit = FIRST_LIMIT, .floor_bytes = df->floor_bytes};
    f.work_end = p->work + options->work;
    ckm_status status = CKM_OK;
    int64_t enough = 0;
    int64_t results = INT64_MAX;
    size_t n = 2 * (size_t)p->n_slots + 1;
    f.slots = ckm_i_malloc(n, sizeof *f.slots);
    f.parts = ckm_i_malloc(n, sizeof *f.parts);
    if (f.slots == NULL || f.parts == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    const int64_t held = ckm_i_pebbling_held(p, f.slots, collect_results(&f));
    f.floor_bytes = held > f.floor_bytes ? held : f.floor_bytes;
    for (bool again = false; !again || !is_done(&f); again = true) {
        enough = 0;
        for (int32_t v = 0; v < df->n_ops; v++) {
            CKM_I_TRY(look_at_op(&f, v, again, err));
            enough = p->high_bytes[v] > enough ? p->high_bytes[v] : enough;
        }
        CKM_I_TRY(look_at_first_runs(&f, err));
        if (!again) {
            CKM_I_TRY(ckm_i_last_runs(p, (int64_t)ARCS * options->work, &f.floor_bytes, err));
        }
        CKM_I_TRY(look_at_set(&f, collect_results(&f), &results, err));
        enough = results > enough ? results : enough;
        if (enough <= f.floor_bytes || f.limit >= options->work) {
            break;
        }
        f.limit *= LIMIT_GROWTH;
    }
    *out = (ckm_i_memory_floor_result){f.floor_bytes, enough > f.floor_bytes ? enough : f.floor_bytes};
cleanup:
    free(f.slots);
    free(f.parts);
    return status;
}

// Whether the members of a set, and operators that need it, are known to fit.
static ckm_status fits_budget(finder *f, const int32_t *slots, int32_t n, int64_t budget_bytes, bool *fits,
                              ckm_error *err)
{
    ckm_i_pebbling *p = f->p;
    int32_t state = -1;
    int64_t key = 0;
    ckm_i_pebbling_answer answer = CKM_I_PEBBLING_OPEN;
    CKM_I_CHECK(note_one_by_one(f, slots, n, err));
    CKM_I_CHECK(ckm_i_pebbling_intern(p, slots, n, &state, err));
    if (p->states[state].high_bytes > budget_bytes) {
        CKM_I_CHECK(ckm_i_pebbling_decide(p, state, budget_bytes, f->work_end - p->work, &answer, &key, err));
    }
    *fits = p->states[state].high_bytes <= budget_bytes;
    return CKM_OK;
}

ckm_status ckm_i_memory_floor_aim(ckm_i_pebbling *p, int64_t budget_bytes, int64_t work, bool *fits, ckm_error *err)
{
    finder f = {.p = p, .work_end = p->work + work};
    ckm_status status = CKM_OK;
    *fits = true;
    f.slots = ckm_i_malloc(2 * (size_t)p->n_slots + 1, sizeof *f.slots);
    f.parts = ckm_i_malloc(2 * (size_t)p->n_slots + 1, sizeof *f.parts);
    if (f.slots == NULL || f.parts == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t v = 0; v < p->df->n_ops && *fits; v++) {
        if (p->high_bytes[v] > budget_bytes) {
            int64_t own = ckm_i_pebbling_go_back(p, v, NULL, 0);
            ckm_i_pebbling_undo(p);
            CKM_I_TRY(fits_budget(&f, p->needs + p->needs_at[v], p->needs_at[v + 1] - p->needs_at[v], budget_bytes,
                                  fits, err));
            *fits = *fits && own <= budget_bytes;
            p->high_bytes[v] = *fits ? budget_bytes : p->high_bytes[v];
        }
    }
    if (*fits) {
        CKM_I_TRY(fits_budget(&f, f.slots, collect_results(&f), budget_bytes, fits, err));
    }
cleanup:
    free(f.slots);
    free(f.parts);
    return status;
}

ckm_status ckm_i_memory_floor(const ckm_dataflow *df, const ckm_i_memory_floor_options *options,
                              ckm_i_memory_floor_result *out, ckm_error *err)
{
    ckm_i_pebbling p;
    if (df->second_name != NULL) {
        // The pebble game is about schedules that move nothing.
        *out = (ckm_i_memory_floor_result){df->floor_bytes, INT64_MAX};
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_pebbling_init(&p, df, err));
    ckm_status status = ckm_i_memory_floor_find(&p, options, out, err);
    ckm_i_pebbling_dispose(&p);
    return status;
}

ckm_status ckm_i_memory_floor_of(const ckm_dataflow *df, int64_t *floor_bytes, ckm_error *err)
{
    static const ckm_i_memory_floor_options options = {CKM_I_MEMORY_FLOOR_BRIEF, INT64_MAX};
    int64_t known = atomic_load(&df->memo->floor_bytes);
    if (known < 0) {
        ckm_i_memory_floor_result found;
        CKM_I_CHECK(ckm_i_memory_floor(df, &options, &found, err));
        known = found.floor_bytes;
        atomic_store(&df->memo->floor_bytes, known);
    }
    *floor_bytes = known;
    return CKM_OK;
}

// The memory floor for those who only want to know it.

ckm_status ckm_min_budget_floor(const ckm_dataflow *df, int64_t *floor_bytes, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(floor_bytes, err);
    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    return ckm_i_memory_floor_of(df, floor_bytes, err);
}
