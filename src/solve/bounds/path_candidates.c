// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/path_candidates.h"

#include <stdlib.h>

#include "base/alloc.h"

static int by_place(const void *a, const void *b)
{
    const ckm_i_path_candidate *p = a;
    const ckm_i_path_candidate *q = b;
    return p->i != q->i ? p->i - q->i : p->j != q->j ? p->j - q->j : p->v - q->v;
}

static int by_score(const void *a, const void *b)
{
    const ckm_i_path_candidate *p = a;
    const ckm_i_path_candidate *q = b;
    return p->score != q->score ? (p->score < q->score ? 1 : -1) : by_place(a, b);
}

static void keep_best(ckm_i_path_candidates *c)
{
    if (c->n > 0) {
        qsort(c->found, (size_t)c->n, sizeof *c->found, by_score);
    }
    c->n = c->n < c->most ? c->n : c->most;
}

bool ckm_i_path_add(ckm_i_path_candidates *c, ckm_i_path_candidate candidate)
{
    if (c->n >= 32 * c->most) {
        keep_best(c);
    }
    if (!CKM_I_GROW(c->found, c->n, c->cap)) {
        return false;
    }
    c->found[c->n++] = candidate;
    return true;
}

void ckm_i_path_settle(ckm_i_path_candidates *c)
{
    keep_best(c);
    if (c->n > 0) {
        qsort(c->found, (size_t)c->n, sizeof *c->found, by_place);
    }
}
