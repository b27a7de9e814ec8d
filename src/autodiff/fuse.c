// SPDX-License-Identifier: Apache-2.0
#include "autodiff/fuse.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

static ckm_i_fuse_pattern *const patterns[] = {ckm_i_fuse_attention, ckm_i_fuse_gelu, ckm_i_fuse_gelu_tanh,
                                               ckm_i_fuse_swish};

static void count_readers(ckm_i_fuse *f, const int32_t *outputs, int32_t n_outputs)
{
    for (int32_t op = 0; op < f->graph->n_ops; op++) {
        const ckm_i_graph_op *o = &f->graph->ops[op];
        for (int32_t i = 0; f->live[op] && i < o->n_inputs; i++) {
            if (o->inputs[i] >= 0) {
                f->n_readers[o->inputs[i]]++;
                f->reader[o->inputs[i]] = op;
            }
        }
    }
    for (int32_t i = 0; i < n_outputs; i++) {
        f->n_readers[outputs[i]] += 2;  // the loss or the caller: never the only reader of a pattern
    }
}

// The first pattern that begins at the operator. Operators that two patterns would replace are not changed.
static ckm_status add_pattern(ckm_i_fuse *f, int32_t op, ckm_error *err)
{
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        ckm_i_fused found = {0};
        if (!patterns[i](f, op, &found) || f->item_of[found.root] >= 0) {
            continue;
        }
        if (!CKM_I_GROW(f->items, f->n, f->cap)) {
            return ckm_i_error_memory(err);
        }
        f->item_of[found.root] = f->n;
        f->items[f->n++] = found;
        break;
    }
    return CKM_OK;
}

ckm_status ckm_i_fuse_init(ckm_i_fuse *f, const ckm_graph *graph, const bool *live, const int32_t *outputs,
                           int32_t n_outputs, ckm_error *err)
{
    *f = (ckm_i_fuse){.graph = graph, .live = live};
    f->n_readers = ckm_i_calloc((size_t)graph->n_tensors, sizeof *f->n_readers);
    f->reader = ckm_i_calloc((size_t)graph->n_tensors, sizeof *f->reader);
    f->item_of = ckm_i_malloc((size_t)graph->n_ops, sizeof *f->item_of);
    if (f->n_readers == NULL || f->reader == NULL || f->item_of == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t op = 0; op < graph->n_ops; op++) {
        f->item_of[op] = -1;
    }
    count_readers(f, outputs, n_outputs);
    for (int32_t op = 0; op < graph->n_ops; op++) {
        if (live[op]) {
            CKM_I_CHECK(add_pattern(f, op, err));
        }
    }
    return CKM_OK;
}

void ckm_i_fuse_dispose(ckm_i_fuse *f)
{
    free(f->n_readers);
    free(f->reader);
    free(f->items);
    free(f->item_of);
    *f = (ckm_i_fuse){0};
}
