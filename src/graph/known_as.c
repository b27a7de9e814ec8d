// SPDX-License-Identifier: Apache-2.0
#include "graph/known_as.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_i_graph_know(ckm_graph *g, int32_t tensor, const ckm_i_known_as *as, ckm_error *err)
{
    ckm_i_graph_tensor *t = &g->tensors[tensor];
    if (t->known_as == NULL) {
        t->known_as = ckm_i_malloc(1, sizeof *t->known_as);
    }
    if (t->known_as == NULL) {
        return ckm_i_error_memory(err);
    }
    *t->known_as = *as;
    return CKM_OK;
}

static bool is_kept(const ckm_i_graph_tensor *t)
{
    return t->role == CKM_ROLE_PARAMETER || t->role == CKM_ROLE_STATE;
}

const ckm_i_known_as *ckm_i_graph_find_known(const ckm_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].known_as != NULL && strcmp(g->tensors[i].name, name) == 0) {
            return g->tensors[i].known_as;
        }
    }
    return NULL;
}

bool ckm_i_graph_is_known(const ckm_graph *g)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->n_tensors; i++) {
        if (is_kept(&g->tensors[i]) && g->tensors[i].known_as == NULL) {
            return false;
        }
        n += is_kept(&g->tensors[i]);
    }
    return n > 0;
}

ckm_i_known_walk ckm_i_known_begin(const ckm_i_known_as *as, int64_t element)
{
    ckm_i_known_walk w = {.rank = as->view.rank};
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t stride = 1;
    for (int32_t i = w.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= as->view.dims[i];
    }
    for (int32_t i = w.rank - 1; i >= 0; i--) {
        w.dims[i] = as->view.dims[as->perm[i]];
        w.steps[i] = strides[as->perm[i]];
        w.at[i] = element % w.dims[i];
        element /= w.dims[i];
        w.offset += w.at[i] * w.steps[i];
    }
    return w;
}

void ckm_i_known_next(ckm_i_known_walk *w)
{
    for (int32_t i = w->rank - 1; i >= 0; i--) {
        w->offset += w->steps[i];
        if (++w->at[i] < w->dims[i]) {
            return;
        }
        w->offset -= w->at[i] * w->steps[i];
        w->at[i] = 0;
    }
}

int64_t ckm_i_known_row(const ckm_i_known_as *as, int64_t i)
{
    int64_t height = as->window[0];
    int64_t width = as->window[1];
    int64_t query = i / (height * width);
    int64_t key = i % (height * width);
    int64_t down = query / width - key / width + height - 1;
    int64_t right = query % width - key % width + width - 1;
    return down * (2 * width - 1) + right;
}
