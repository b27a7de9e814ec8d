// SPDX-License-Identifier: Apache-2.0
// Dinic's maximum flow on two layers: from projects, as far as their profits go, over tools to the sink, as far as their
// prices go. From a project to its tools anything may flow, so all that is left of a tool can come back by what it has
// received.
#include "solve/bounds/single_cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool allocate(ckm_i_closure *c)
{
    size_t projects = (size_t)c->n_projects;
    size_t tools = (size_t)c->n_tools;
    size_t arcs = (size_t)c->n_arcs;
    c->arc_project = ckm_i_malloc(arcs, sizeof *c->arc_project);
    c->tool_start = ckm_i_calloc(tools + 2, sizeof *c->tool_start);
    c->tool_arc = ckm_i_malloc(arcs, sizeof *c->tool_arc);
    c->profit_left = ckm_i_malloc(projects, sizeof *c->profit_left);
    c->price_left = ckm_i_malloc(tools, sizeof *c->price_left);
    c->flow = ckm_i_malloc(arcs, sizeof *c->flow);
    c->level = ckm_i_malloc(projects + tools, sizeof *c->level);
    c->next = ckm_i_malloc(projects + tools, sizeof *c->next);
    c->queue = ckm_i_malloc(projects + tools, sizeof *c->queue);
    c->path = ckm_i_malloc(projects + tools, sizeof *c->path);
    return c->project_start != NULL && c->arc_tool != NULL && c->arc_project != NULL && c->tool_start != NULL &&
           c->tool_arc != NULL && c->profit_left != NULL && c->price_left != NULL && c->flow != NULL &&
           c->level != NULL && c->next != NULL && c->queue != NULL && c->path != NULL;
}

static void turn_round(ckm_i_closure *c)
{
    for (int32_t a = 0; a < c->n_arcs; a++) {
        c->tool_start[c->arc_tool[a] + 2]++;
    }
    for (int32_t x = 2; x < c->n_tools + 2; x++) {
        c->tool_start[x] += c->tool_start[x - 1];
    }
    for (int32_t v = 0; v < c->n_projects; v++) {
        for (int32_t a = c->project_start[v]; a < c->project_start[v + 1]; a++) {
            c->arc_project[a] = v;
            c->tool_arc[c->tool_start[c->arc_tool[a] + 1]++] = a;
        }
    }
}

ckm_status ckm_i_closure_create(int32_t n_projects, int32_t n_tools, const int32_t *project_start,
                                const int32_t *arc_tool, ckm_i_closure **out, ckm_error *err)
{
    ckm_i_closure *c = ckm_i_calloc(1, sizeof *c);
    if (c == NULL) {
        return ckm_i_error_memory(err);
    }
    c->n_projects = n_projects;
    c->n_tools = n_tools;
    c->n_arcs = project_start[n_projects];
    c->project_start = ckm_i_memdup(project_start, (size_t)n_projects + 1, sizeof *project_start);
    c->arc_tool = ckm_i_memdup(arc_tool, (size_t)c->n_arcs, sizeof *arc_tool);
    if (!allocate(c)) {
        ckm_i_closure_free(c);
        return ckm_i_error_memory(err);
    }
    turn_round(c);
    *out = c;
    return CKM_OK;
}

void ckm_i_closure_free(ckm_i_closure *c)
{
    if (c != NULL) {
        free(c->project_start);
        free(c->arc_tool);
        free(c->arc_project);
        free(c->tool_start);
        free(c->tool_arc);
        free(c->profit_left);
        free(c->price_left);
        free(c->flow);
        free(c->level);
        free(c->next);
        free(c->queue);
        free(c->path);
        free(c);
    }
}

// Arcs out of a node; nodes are projects, then tools.
static int32_t first_arc(const ckm_i_closure *c, int32_t node)
{
    return node < c->n_projects ? c->project_start[node] : c->tool_start[node - c->n_projects];
}

static int32_t end_arc(const ckm_i_closure *c, int32_t node)
{
    return node < c->n_projects ? c->project_start[node + 1] : c->tool_start[node - c->n_projects + 1];
}

// Where the i-th arc leads to in what is left of the network, -1 where nothing can go.
static int32_t behind(const ckm_i_closure *c, int32_t node, int32_t i)
{
    if (node < c->n_projects) {
        return c->n_projects + c->arc_tool[i];
    }
    int32_t a = c->tool_arc[i];
    return c->flow[a] > 0 ? c->arc_project[a] : -1;
}

// Steps from the projects with something left to every node, -1 where there is no way. Whether one leads to the sink.
static bool find_levels(ckm_i_closure *c, int64_t *work)
{
    int32_t n = 0;
    bool reached = false;
    for (int32_t node = 0; node < c->n_projects + c->n_tools; node++) {
        bool begins = node < c->n_projects && c->profit_left[node] > 0;
        c->level[node] = begins ? 0 : -1;
        c->next[node] = first_arc(c, node);
        if (begins) {
            c->queue[n++] = node;
        }
    }
    for (int32_t k = 0; k < n; k++) {
        int32_t node = c->queue[k];
        if (node >= c->n_projects && c->price_left[node - c->n_projects] > 0) {
            reached = true;
            continue;
        }
        *work -= end_arc(c, node) - first_arc(c, node);
        for (int32_t i = first_arc(c, node); i < end_arc(c, node); i++) {
            int32_t to = behind(c, node, i);
            if (to >= 0 && c->level[to] < 0) {
                c->level[to] = c->level[node] + 1;
                c->queue[n++] = to;
            }
        }
    }
    return reached;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// What can go along the path of n nodes, and back to where it is used up first: the number of nodes to keep.
static int32_t send(ckm_i_closure *c, int32_t n)
{
    int32_t tool = c->path[n - 1] - c->n_projects;
    int64_t amount = least(c->profit_left[c->path[0]], c->price_left[tool]);
    for (int32_t k = 1; k + 1 < n; k += 2) {
        amount = least(amount, c->flow[c->tool_arc[c->next[c->path[k]]]]);
    }
    c->profit_left[c->path[0]] -= amount;
    c->price_left[tool] -= amount;
    int32_t keep = c->profit_left[c->path[0]] > 0 ? n - (c->price_left[tool] == 0) : 0;
    for (int32_t k = 0; k + 1 < n; k++) {
        bool to_tool = k % 2 == 0;
        int32_t a = to_tool ? c->next[c->path[k]] : c->tool_arc[c->next[c->path[k]]];
        c->flow[a] += to_tool ? amount : -amount;
        if (!to_tool && c->flow[a] == 0 && keep > k + 1) {
            keep = k + 1;
        }
    }
    return keep;
}

// Sends what can be sent along shortest ways from one project. Tools and projects alternate on a path.
static void exhaust(ckm_i_closure *c, int32_t project, int64_t *work)
{
    int32_t n = 0;
    c->path[n++] = project;
    while (n > 0 && *work > 0) {
        int32_t node = c->path[n - 1];
        if (node >= c->n_projects && c->price_left[node - c->n_projects] > 0) {
            n = send(c, n);
            continue;
        }
        bool further = false;
        for (; c->next[node] < end_arc(c, node) && !further; c->next[node] += !further) {
            (*work)--;
            int32_t to = behind(c, node, c->next[node]);
            further = to >= 0 && c->level[to] == c->level[node] + 1;
            if (further) {
                c->path[n++] = to;
            }
        }
        if (!further) {
            n--;
            if (n > 0) {
                c->next[c->path[n - 1]]++;
            }
        }
    }
}

bool ckm_i_closure_solve(ckm_i_closure *c, const int64_t *profit, const int64_t *price, int64_t *work, int64_t *most,
                         bool *chosen)
{
    for (int32_t v = 0; v < c->n_projects; v++) {
        c->profit_left[v] = profit[v] > 0 ? profit[v] : 0;
    }
    memcpy(c->price_left, price, (size_t)c->n_tools * sizeof *price);
    memset(c->flow, 0, (size_t)c->n_arcs * sizeof *c->flow);
    bool open = find_levels(c, work);
    while (open && *work > 0) {
        for (int32_t v = 0; v < c->n_projects; v++) {
            if (c->profit_left[v] > 0) {
                exhaust(c, v, work);
            }
        }
        open = find_levels(c, work);
    }
    *most = 0;
    for (int32_t v = 0; v < c->n_projects; v++) {
        *most += c->profit_left[v];
        chosen[v] = c->level[v] >= 0;
    }
    return !open;
}
