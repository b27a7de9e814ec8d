// SPDX-License-Identifier: Apache-2.0
#include "solve/moves/moves_graph.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

void ckm_i_moves_which(const ckm_dataflow *df, bool *can)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *own = &df->tensors[x];
        can[x] = own->alias_of < 0 && !own->pinned && own->bytes > 0 && own->producer >= 0;
    }
    for (int32_t y = 0; y < df->n_tensors; y++) {
        int32_t storage = df->tensors[y].storage;
        can[storage] = can[storage] && df->tensors[y].producer >= df->tensors[storage].producer;
    }
}

// What is needed while the stand-in is put together.
typedef struct making {
    const int64_t *price;
    ckm_i_moves_graph *m;
    int32_t *copy_of;  // by tensor of the graph: its copy in the stand-in, or -1
    int32_t *inputs, *outputs, (*pairs)[2];
    ckm_error *err;
} making;

static ckm_status add_tensor(const making *k, const ckm_dataflow_tensor *tensor, int32_t stands_for, int32_t *index)
{
    CKM_I_CHECK(ckm_dataflow_add_tensor(k->m->stand_in, tensor, index, k->err));
    k->m->tensor_of[*index] = stands_for;
    return CKM_OK;
}

// Whether x is part of a chosen storage that is made once and read from a copy.
static bool is_copied(const making *k, int32_t x)
{
    int32_t storage = k->m->df->tensors[x].storage;
    return k->price[storage] >= 0 && !ckm_i_is_loaded(k->m->df, storage);
}

// The operator as it is, but for the outputs on chosen storages: their copies, and one token more a storage, which the reads need.
static ckm_status add_made(const making *k, int32_t v, int32_t *tokens, int32_t *n_tokens)
{
    const ckm_dataflow *df = k->m->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n_outputs = 0;
    *n_tokens = 0;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t y = op->outputs[i];
        bool copied = is_copied(k, y) && df->tensors[df->tensors[y].storage].producer == v;
        k->outputs[n_outputs++] = copied ? k->copy_of[y] : y;
        if (copied && df->tensors[y].storage == y) {
            ckm_dataflow_tensor token = {.bytes = 0};
            int32_t index;
            CKM_I_CHECK(add_tensor(k, &token, -1, &index));
            k->outputs[n_outputs++] = index;
            tokens[(*n_tokens)++] = index;
        }
    }
    for (int32_t i = 0; i < op->n_inplace; i++) {
        int32_t out = op->inplace[i][1];
        k->pairs[i][0] = op->inplace[i][0];
        k->pairs[i][1] = k->copy_of[out] >= 0 ? k->copy_of[out] : out;
    }
    ckm_dataflow_op made = {.name = op->name,
                            .kind = op->kind,
                            .cost = op->cost,
                            .workspace_bytes = op->workspace_bytes,
                            .run_once = !op->recomputable,
                            .n_inputs = op->n_inputs,
                            .inputs = op->inputs,
                            .n_outputs = n_outputs,
                            .outputs = k->outputs,
                            .n_inplace = op->n_inplace,
                            .inplace = (const int32_t(*)[2])k->pairs};
    int32_t index;
    CKM_I_CHECK(ckm_dataflow_add_op(k->m->stand_in, &made, &index, k->err));
    k->m->op_of[index] = v;
    k->m->read_of[index] = -1;
    return CKM_OK;
}

// `token`: NULL for what is loaded.
static ckm_status add_read(const making *k, int32_t v, int32_t storage, const int32_t *token)
{
    const ckm_dataflow *df = k->m->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n_outputs = 0;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (df->tensors[op->outputs[i]].storage == storage) {
            k->outputs[n_outputs++] = op->outputs[i];
        }
    }
    ckm_dataflow_op read = {.name = df->tensors[storage].name,
                            .kind = op->kind,
                            .cost = k->price[storage],
                            .n_inputs = token != NULL,
                            .inputs = token,
                            .n_outputs = n_outputs,
                            .outputs = k->outputs};
    int32_t index;
    CKM_I_CHECK(ckm_dataflow_add_op(k->m->stand_in, &read, &index, k->err));
    k->m->op_of[index] = -1;
    k->m->read_of[index] = storage;
    return CKM_OK;
}

static ckm_status add_tensors(const making *k)
{
    const ckm_dataflow *df = k->m->df;
    int32_t index;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        ckm_dataflow_tensor same = ckm_dataflow_get_tensor(df, x);
        CKM_I_CHECK(add_tensor(k, &same, x, &index));
        k->copy_of[x] = -1;
    }
    // Owners first: their views refer to them.
    for (int round = 0; round < 2; round++) {
        for (int32_t x = 0; x < df->n_tensors; x++) {
            int32_t storage = df->tensors[x].storage;
            bool made_with_it = is_copied(k, x) && df->tensors[x].producer == df->tensors[storage].producer;
            if (made_with_it && (round == 0) == (storage == x)) {
                ckm_dataflow_tensor copy = {.bytes = df->tensors[x].bytes};
                if (storage != x) {
                    copy.is_view = true;
                    copy.alias_of = k->copy_of[storage];
                }
                CKM_I_CHECK(add_tensor(k, &copy, x, &k->copy_of[x]));
            }
        }
    }
    return CKM_OK;
}

static ckm_status add_ops(const making *k, int32_t *tokens)
{
    const ckm_dataflow *df = k->m->df;
    for (int32_t v = 0; v < df->n_ops; v++) {
        int32_t n_tokens = 0;
        if (df->ops[v].kind == CKM_OP_LOAD && k->price[df->ops[v].outputs[0]] >= 0) {
            CKM_I_CHECK(add_read(k, v, df->ops[v].outputs[0], NULL));
            continue;
        }
        CKM_I_CHECK(add_made(k, v, tokens, &n_tokens));
        for (int32_t i = 0, at = 0; at < n_tokens; i++) {
            int32_t y = df->ops[v].outputs[i];
            if (is_copied(k, y) && df->tensors[y].storage == y) {
                CKM_I_CHECK(add_read(k, v, y, &tokens[at++]));
            }
        }
    }
    for (int32_t i = 0; i < df->n_results; i++) {
        CKM_I_CHECK(ckm_dataflow_add_result(k->m->stand_in, df->results[i], k->err));
    }
    return ckm_dataflow_finish(k->m->stand_in, k->err);
}

ckm_status ckm_i_moves_graph_make(const ckm_dataflow *df, const int64_t *price, ckm_i_moves_graph *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_moves_graph m = {.df = df};
    making k = {.price = price, .m = &m, .err = err};
    size_t n_tensors = (size_t)df->n_tensors;
    size_t most = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        most = (size_t)df->ops[v].n_outputs > most ? (size_t)df->ops[v].n_outputs : most;
    }
    int32_t *tokens = ckm_i_malloc(most, sizeof *tokens);
    m.op_of = ckm_i_malloc((size_t)df->n_ops + n_tensors, sizeof *m.op_of);
    m.read_of = ckm_i_malloc((size_t)df->n_ops + n_tensors, sizeof *m.read_of);
    m.tensor_of = ckm_i_malloc(3 * n_tensors, sizeof *m.tensor_of);
    k.copy_of = ckm_i_malloc(n_tensors, sizeof *k.copy_of);
    k.outputs = ckm_i_malloc(2 * most, sizeof *k.outputs);
    k.pairs = ckm_i_malloc(ckm_i_most_pairs(df), sizeof *k.pairs);
    if (tokens == NULL || m.op_of == NULL || m.read_of == NULL || m.tensor_of == NULL || k.copy_of == NULL ||
        k.outputs == NULL || k.pairs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_dataflow_create(df->name, df->cost_unit, df->fixed_bytes, &m.stand_in, err));
    CKM_I_TRY(add_tensors(&k));
    CKM_I_TRY(add_ops(&k, tokens));
    *out = m;
    m = (ckm_i_moves_graph){.df = NULL};
cleanup:
    ckm_i_moves_graph_dispose(&m);
    free(tokens);
    free(k.copy_of);
    free(k.outputs);
    free(k.pairs);
    return status;
}

void ckm_i_moves_graph_dispose(ckm_i_moves_graph *m)
{
    ckm_dataflow_free(m->stand_in);
    free(m->op_of);
    free(m->read_of);
    free(m->tensor_of);
}
