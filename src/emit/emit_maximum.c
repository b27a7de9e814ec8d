// SPDX-License-Identifier: Apache-2.0
// Range maximum by a table of powers of two.
#include "emit/emit_maximum.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

static int64_t larger(const ckm_i_maximum *m, int64_t a, int64_t b)
{
    if (m->values[a] == m->values[b]) {
        return a < b ? a : b;
    }
    return m->values[a] > m->values[b] ? a : b;
}

ckm_status ckm_i_maximum_init(ckm_i_maximum *m, const int64_t *values, int64_t n, ckm_error *err)
{
    int levels = 1;
    while (((int64_t)1 << levels) <= n) {
        levels++;
    }
    int64_t *at = ckm_i_malloc((size_t)n, (size_t)levels * sizeof *at);
    if (at == NULL) {
        return ckm_i_error_memory(err);
    }
    *m = (ckm_i_maximum){values, n, levels, at};
    for (int64_t i = 0; i < n; i++) {
        at[i] = i;
    }
    for (int k = 1; k < levels; k++) {
        int64_t half = (int64_t)1 << (k - 1);
        for (int64_t i = 0; i + 2 * half <= n; i++) {
            at[k * n + i] = larger(m, at[(k - 1) * n + i], at[(k - 1) * n + i + half]);
        }
    }
    return CKM_OK;
}

void ckm_i_maximum_dispose(ckm_i_maximum *m)
{
    free(m->at);
    *m = (ckm_i_maximum){0};
}

int64_t ckm_i_maximum_at(const ckm_i_maximum *m, int64_t first, int64_t last)
{
    int k = 0;
    while (((int64_t)2 << k) <= last - first + 1) {
        k++;
    }
    return larger(m, m->at[k * m->n + first], m->at[k * m->n + last + 1 - ((int64_t)1 << k)]);
}
