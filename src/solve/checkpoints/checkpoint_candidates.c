// SPDX-License-Identifier: Apache-2.0
// Which forward operators may be checkpointed: all of them, or the articulation points of the forward graph.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

ckm_status ckm_i_positions_create(const ckm_i_forward *fw, ckm_i_positions *out, ckm_error *err)
{
    int32_t *at = ckm_i_calloc((size_t)fw->n, sizeof *at);
    if (at == NULL) {
        ckm_i_error_memory(err);
        return CKM_ERR_MEMORY;
    }
    out->n = 0;
    out->at = at;
    return CKM_OK;
}

void ckm_i_positions_dispose(ckm_i_positions *set)
{
    free(set->at);
    set->at = NULL;
    set->n = 0;
}

// The undirected forward graph in compressed form. Nodes are positions, then a source that stands for the
// inputs and a sink that stands for the loss.
typedef struct forward_graph {
    int32_t n_nodes;
    int64_t n_links;
    int64_t *first;  // n_nodes + 1: where a node's neighbours start
    int32_t *neighbour;
} forward_graph;

static void forward_graph_dispose(forward_graph *g)
{
    free(g->first);
    free(g->neighbour);
}

// Counts a link in a first pass (neighbour == NULL) and stores it in a second.
static void put_link(forward_graph *g, int32_t a, int32_t b)
{
    if (g->neighbour == NULL) {
        g->first[a + 1]++;
        g->first[b + 1]++;
    } else {
        g->neighbour[g->first[a]++] = b;
        g->neighbour[g->first[b]++] = a;
    }
    g->n_links++;
}

// Whether a loss reads something that operator v puts out. `*feeds_forward`: whether a forward operator does.
static bool feeds_loss(const ckm_i_forward *fw, int32_t v, bool *feeds_forward)
{
    const ckm_i_dataflow_op *op = &fw->df->ops[v];
    bool loss = false;
    *feeds_forward = false;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *tensor = &fw->df->tensors[op->outputs[i]];
        for (int32_t k = 0; k < tensor->n_users; k++) {
            int32_t user = tensor->users[k];
            *feeds_forward = *feeds_forward || fw->position[user] >= 0;
            loss = loss || (fw->position[user] < 0 && fw->layer[user] == fw->n);
        }
    }
    return loss;
}

static void put_links(const ckm_i_forward *fw, forward_graph *g)
{
    bool any_loss = false;
    bool feeds_forward;
    for (int32_t p = 0; p < fw->n; p++) {
        any_loss = feeds_loss(fw, fw->ops[p], &feeds_forward) || any_loss;
    }
    for (int32_t p = 0; p < fw->n; p++) {
        const ckm_i_dataflow_op *op = &fw->df->ops[fw->ops[p]];
        bool reads_forward = false;
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t producer = fw->df->tensors[op->inputs[i]].producer;
            if (producer >= 0 && fw->position[producer] >= 0) {
                put_link(g, fw->position[producer], p);
                reads_forward = true;
            }
        }
        if (!reads_forward) {
            put_link(g, fw->n, p);
        }
        bool loss = feeds_loss(fw, fw->ops[p], &feeds_forward);
        if (any_loss ? loss : !feeds_forward) {
            put_link(g, p, fw->n + 1);
        }
    }
}

static ckm_status forward_graph_init(const ckm_i_forward *fw, forward_graph *out, ckm_error *err)
{
    forward_graph g = {.n_nodes = fw->n + 2};
    g.first = ckm_i_calloc((size_t)g.n_nodes + 1, sizeof *g.first);
    if (g.first == NULL) {
        ckm_i_error_memory(err);
        return CKM_ERR_MEMORY;
    }
    put_links(fw, &g);
    int32_t *neighbour = ckm_i_calloc((size_t)g.n_links * 2, sizeof *neighbour);
    if (neighbour == NULL) {
        forward_graph_dispose(&g);
        ckm_i_error_memory(err);
        return CKM_ERR_MEMORY;
    }
    for (int32_t v = 0; v < g.n_nodes; v++) {
        g.first[v + 1] += g.first[v];
    }
    g.neighbour = neighbour;
    put_links(fw, &g);
    // Storing moved every start to the next node's.
    memmove(g.first + 1, g.first, (size_t)g.n_nodes * sizeof *g.first);
    g.first[0] = 0;
    *out = g;
    return CKM_OK;
}

// Articulation points by depth-first search (Hopcroft and Tarjan 1973), iteratively: deep chains are the
// usual case. `work` has room for five numbers a node; is_cut is zeroed.
static void find_cuts(const forward_graph *g, int32_t root, int64_t *work, bool *is_cut)
{
    int64_t *order = work;              // 0: not seen yet
    int64_t *low = order + g->n_nodes;  // earliest node reachable from the subtree by one back link
    int64_t *next = low + g->n_nodes;   // next neighbour to look at
    int64_t *parent = next + g->n_nodes;
    int64_t *stack = parent + g->n_nodes;
    memset(order, 0, (size_t)g->n_nodes * sizeof *order);
    memcpy(next, g->first, (size_t)g->n_nodes * sizeof *next);
    int64_t clock = 0;
    int32_t depth = 0;
    order[root] = low[root] = ++clock;
    parent[root] = -1;
    stack[depth++] = root;
    while (depth > 0) {
        int32_t v = (int32_t)stack[depth - 1];
        if (next[v] < g->first[v + 1]) {
            int32_t w = g->neighbour[next[v]++];
            if (order[w] == 0) {
                order[w] = low[w] = ++clock;
                parent[w] = v;
                stack[depth++] = w;
            } else if (w != parent[v]) {
                low[v] = order[w] < low[v] ? order[w] : low[v];
            }
            continue;
        }
        depth--;
        if (parent[v] >= 0) {
            int32_t p = (int32_t)parent[v];
            low[p] = low[v] < low[p] ? low[v] : low[p];
            is_cut[p] = is_cut[p] || (p != root && low[v] >= order[p]);
        }
    }
}

static ckm_status find_articulation(const ckm_i_forward *fw, ckm_i_positions *out, ckm_error *err)
{
    forward_graph g = {0};
    int64_t *work = NULL;
    bool *is_cut = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(forward_graph_init(fw, &g, err));
    work = ckm_i_calloc((size_t)g.n_nodes * 5, sizeof *work);
    is_cut = ckm_i_calloc((size_t)g.n_nodes, sizeof *is_cut);
    if (work == NULL || is_cut == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    find_cuts(&g, fw->n, work, is_cut);
    for (int32_t p = 0; p < fw->n; p++) {
        if (is_cut[p]) {
            out->at[out->n++] = p;
        }
    }
cleanup:
    forward_graph_dispose(&g);
    free(work);
    free(is_cut);
    return status;
}

static void find_all(const ckm_i_forward *fw, ckm_i_positions *out)
{
    for (int32_t p = 0; p < fw->n; p++) {
        const ckm_i_dataflow_op *op = &fw->df->ops[fw->ops[p]];
        bool linked = false;
        feeds_loss(fw, fw->ops[p], &linked);
        for (int32_t i = 0; i < op->n_inputs && !linked; i++) {
            int32_t producer = fw->df->tensors[op->inputs[i]].producer;
            linked = producer >= 0 && fw->position[producer] >= 0;
        }
        if (linked) {
            out->at[out->n++] = p;
        }
    }
}

ckm_status ckm_i_candidates_find(const ckm_i_forward *fw, ckm_i_candidates which, ckm_i_positions *out, ckm_error *err)
{
    ckm_i_positions found = {0};
    CKM_I_CHECK(ckm_i_positions_create(fw, &found, err));
    ckm_status status = CKM_OK;
    if (which == CKM_I_CANDIDATES_ALL) {
        find_all(fw, &found);
    } else {
        CKM_I_TRY(find_articulation(fw, &found, err));
    }
    *out = found;
    found = (ckm_i_positions){0};
cleanup:
    ckm_i_positions_dispose(&found);
    return status;
}
