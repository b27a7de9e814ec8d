// SPDX-License-Identifier: Apache-2.0
// The matrices: allocation, completion, totals.
#include "schedule/stages.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"

ckm_status ckm_i_stages_create(const ckm_dataflow *df, ckm_i_stages **out, ckm_error *err)
{
    ckm_i_stages *st = ckm_i_calloc(1, sizeof *st);
    if (st == NULL) {
        return ckm_i_error_memory(err);
    }
    st->df = df;
    st->n_ops = df->n_ops;
    st->n_tensors = df->n_tensors;
    st->s_words = ckm_i_bits_words(df->n_tensors);
    st->r_words = ckm_i_bits_words(df->n_ops);
    st->s = ckm_i_calloc(((size_t)df->n_ops + 1) * st->s_words, sizeof *st->s);
    st->r = ckm_i_calloc((size_t)df->n_ops * st->r_words, sizeof *st->r);
    if (st->s == NULL || st->r == NULL) {
        ckm_i_stages_free(st);
        return ckm_i_error_memory(err);
    }
    *out = st;
    return CKM_OK;
}

void ckm_i_stages_free(ckm_i_stages *st)
{
    if (st != NULL) {
        free(st->s);
        free(st->r);
        free(st);
    }
}

ckm_status ckm_i_stages_copy(const ckm_i_stages *from, ckm_i_stages *to, ckm_error *err)
{
    if (from->df != to->df) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "stages of another graph");
    }
    memcpy(to->s, from->s, ((size_t)from->n_ops + 1) * from->s_words * sizeof *from->s);
    memcpy(to->r, from->r, (size_t)from->n_ops * from->r_words * sizeof *from->r);
    return CKM_OK;
}

// Drops meaningless bits: tensors that are always live, and tensors not produced by stage t - 1.
static void mask_row(const ckm_dataflow *df, int32_t t, uint64_t *row, size_t words)
{
    for (size_t w = 0; w < words; w++) {
        uint64_t bits = row[w];
        while (bits != 0) {
            int32_t x = (int32_t)(w * 64) + __builtin_ctzll(bits);
            bits &= bits - 1;
            if (x >= df->n_tensors || df->tensors[x].pinned || df->tensors[x].producer >= t) {
                row[w] &= ~(UINT64_C(1) << (x & 63));
            }
        }
    }
}

ckm_status ckm_i_stages_complete(ckm_i_stages *st, ckm_error *err)
{
    const ckm_dataflow *df = st->df;
    ckm_i_walk *walk = NULL;
    CKM_I_CHECK(ckm_i_walk_create(df, &walk, err));
    for (int32_t t = 0; t <= st->n_ops; t++) {
        mask_row(df, t, ckm_i_stages_s(st, t), st->s_words);
    }
    uint64_t *last = ckm_i_stages_s(st, st->n_ops);
    memset(last, 0, st->s_words * sizeof *last);
    for (int32_t i = 0; i < df->n_results; i++) {
        if (!df->tensors[df->results[i]].pinned) {
            ckm_i_bits_set(last, df->results[i]);
        }
    }
    // Backwards, so that what a stage must be handed is known before the stage that hands it over.
    for (int32_t t = st->n_ops - 1; t >= 0; t--) {
        uint64_t *s_t = ckm_i_stages_s(st, t);
        const uint64_t *s_next = ckm_i_stages_s(st, t + 1);
        ckm_i_walk_close(walk, t, s_t, s_next, ckm_i_stages_r(st, t));
        ckm_i_walk_trim(walk, t, s_t, s_next, ckm_i_stages_r(st, t));
    }
    ckm_i_walk_free(walk);
    return CKM_OK;
}

int64_t ckm_i_stages_cost(const ckm_i_stages *st)
{
    int64_t cost = 0;
    for (int32_t t = 0; t < st->n_ops; t++) {
        const uint64_t *r = ckm_i_stages_r(st, t);
        for (size_t w = 0; w < st->r_words; w++) {
            for (uint64_t bits = r[w]; bits != 0; bits &= bits - 1) {
                int32_t v = (int32_t)(w * 64) + __builtin_ctzll(bits);
                if (!ckm_i_add(cost, st->df->ops[v].cost, &cost)) {
                    return INT64_MAX;
                }
            }
        }
    }
    return cost;
}

ckm_status ckm_i_stages_peak(const ckm_i_stages *st, int64_t *peak_bytes, ckm_error *err)
{
    ckm_i_walk *walk = NULL;
    CKM_I_CHECK(ckm_i_walk_create(st->df, &walk, err));
    int64_t peak = 0;
    for (int32_t t = 0; t < st->n_ops; t++) {
        const uint64_t *s_t = ckm_i_stages_s(st, t);
        int64_t bytes = ckm_i_walk_peak(walk, t, ckm_i_walk_held(walk, s_t), s_t, ckm_i_stages_s(st, t + 1),
                                        ckm_i_stages_r(st, t));
        peak = bytes > peak ? bytes : peak;
    }
    ckm_i_walk_free(walk);
    *peak_bytes = peak;
    return CKM_OK;
}
