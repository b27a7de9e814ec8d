// SPDX-License-Identifier: Apache-2.0
// layered_graph N SEED: a random layered graph of N operators in checkmate-graph JSON on standard output, of the kind
// that papers on orders and rematerialization use (Gagrani et al., NeurIPS 2022; Bartan et al., ICML 2023). Operators lie
// on a line in each of their layers and read those of the layer before that are next to them; one edge in eight skips
// layers. Layers, edges, sizes, costs and how far the order strays from the layers are like those of the published graphs.
// The same arguments give the same graph everywhere: all arithmetic is in integers.
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { max_ops = 5000, max_layers = 200 };

typedef struct graph {
    int32_t n, n_layers;
    int32_t first[max_layers + 1];  // of each layer: its first operator
    int32_t layer[max_ops];
    bool *reads;  // [v * n + p]: v reads what p makes
    uint64_t random;
} graph;

// SplitMix64.
static uint64_t draw(graph *g)
{
    uint64_t z = (g->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int32_t below(graph *g, int32_t n)
{
    return (int32_t)((draw(g) >> 32) * (uint64_t)n >> 32);
}

// log2(n) in thousandths, between powers of two on a line.
static int64_t thousandths_of_log2(int64_t n)
{
    int64_t bits = 0;
    while (n >> (bits + 1) > 0) {
        bits++;
    }
    return 1000 * bits + 1000 * (n - ((int64_t)1 << bits)) / ((int64_t)1 << bits);
}

// A source, layers of uneven width, a sink.
static void lay_out(graph *g)
{
    int64_t inner = (int64_t)g->n - 2;
    int64_t weights[max_layers];
    int64_t sum = 0;
    int32_t n_layers = (int32_t)((5200 * thousandths_of_log2(g->n) / 1000 - 14600) / 1000);
    g->n_layers = n_layers + 2;
    for (int32_t i = 0; i < n_layers; i++) {
        weights[i] = 30 + below(g, 160);
        sum += weights[i];
    }
    int64_t until = 0;
    g->first[0] = 0;
    g->first[1] = 1;
    for (int32_t i = 0; i < n_layers; i++) {
        until += weights[i];
        int32_t end = 1 + (int32_t)(until * inner / sum);
        g->first[i + 2] = end > g->first[i + 1] ? end : g->first[i + 1] + 1;
    }
    g->first[g->n_layers] = g->n;
    for (int32_t i = 0; i < g->n_layers; i++) {
        for (int32_t v = g->first[i]; v < g->first[i + 1]; v++) {
            g->layer[v] = i;
        }
    }
}

static int32_t width(const graph *g, int32_t layer)
{
    return g->first[layer + 1] - g->first[layer];
}

// Place of an operator on the line of its layer, in 2^20 parts.
static int64_t place(const graph *g, int32_t v)
{
    int32_t layer = g->layer[v];
    return ((2 * (int64_t)(v - g->first[layer]) + 1) << 19) / width(g, layer);
}

static int64_t distance(const graph *g, int32_t v, int32_t p)
{
    int64_t d = place(g, v) - place(g, p);
    return d < 0 ? -d : d;
}

// Edges between neighbouring layers that are no longer than `reach`; returns their number.
static int64_t count_short(const graph *g, int64_t reach)
{
    int64_t count = 0;
    for (int32_t v = g->first[1]; v < g->n; v++) {
        for (int32_t p = g->first[g->layer[v] - 1]; p < g->first[g->layer[v]]; p++) {
            count += distance(g, v, p) <= reach;
        }
    }
    return count;
}

static int32_t nearest(const graph *g, int32_t v, int32_t layer)
{
    int32_t best = g->first[layer];
    for (int32_t p = best; p < g->first[layer + 1]; p++) {
        best = distance(g, v, p) < distance(g, v, best) ? p : best;
    }
    return best;
}

static void connect(graph *g)
{
    size_t n = (size_t)g->n;
    int64_t edges = g->n * (1060 * thousandths_of_log2(g->n) / 1000 - 4700) / 1000;
    int64_t low = 0;
    int64_t high = (int64_t)1 << 20;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (count_short(g, middle) < edges * 7 / 8) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (int32_t v = 1; v < g->n; v++) {
        int32_t layer = g->layer[v] - 1;
        g->reads[(size_t)v * n + (size_t)nearest(g, v, layer)] = true;
        for (int32_t p = g->first[layer]; p < g->first[layer + 1]; p++) {
            bool short_enough = distance(g, v, p) <= low;
            g->reads[(size_t)v * n + (size_t)p] |= short_enough;
        }
    }
    // What nothing reads yet is read by its neighbour.
    for (int32_t p = 0; p < g->n - 1; p++) {
        int32_t v = nearest(g, p, g->layer[p] + 1);
        g->reads[(size_t)v * n + (size_t)p] = true;
    }
    for (int64_t i = 0; i < edges / 8; i++) {
        int32_t v = 1;
        int32_t p = 0;
        while (g->layer[v] - g->layer[p] < 2 || p == 0) {
            v = below(g, g->n);
            p = below(g, g->n);
        }
        g->reads[(size_t)v * n + (size_t)p] = true;
    }
}

// A topological order that goes through the layers with some delay: of the operators that are ready the one with the
// smallest key, layers and a draw.
static void put_in_order(graph *g, int32_t *order)
{
    enum { stray = 6 };
    int32_t key[max_ops];
    bool done[max_ops] = {false};
    for (int32_t v = 0; v < g->n; v++) {
        key[v] = 1000 * g->layer[v] + below(g, 1000 * stray);
    }
    for (int32_t i = 0; i < g->n; i++) {
        int32_t best = -1;
        for (int32_t v = 0; v < g->n; v++) {
            bool ready = !done[v] && (best < 0 || key[v] < key[best]);
            for (int32_t p = 0; p < v && ready; p++) {
                ready = done[p] || !g->reads[(size_t)v * (size_t)g->n + (size_t)p];
            }
            best = ready ? v : best;
        }
        done[best] = true;
        order[i] = best;
    }
}

// Sizes of three kinds, each spread as the sum of three draws.
static int32_t size(graph *g)
{
    static const int32_t means[] = {80, 160, 320};
    int32_t mean = means[below(g, 3)];
    int32_t tens = mean / 8 + (below(g, mean) + below(g, mean) + below(g, mean)) * 7 / 12;
    return 10 * (tens > 2 ? tens : 2);
}

static void print(graph *g, const int32_t *order, uint64_t seed)
{
    int32_t at[max_ops];
    printf("{\"format\": \"checkmate-graph\", \"version\": 1, \"name\": \"layered-%" PRId32 "-%" PRIu64 "\",\n", g->n,
           seed);
    printf(" \"tensors\": [");
    for (int32_t i = 0; i < g->n; i++) {
        at[order[i]] = i;
        printf("%s\n  {\"bytes\": %" PRId32 "}", i > 0 ? "," : "", size(g));
    }
    printf("],\n \"ops\": [");
    for (int32_t i = 0; i < g->n; i++) {
        int32_t cost = i == 0 || i == g->n - 1 ? 0 : below(g, 1000);
        printf("%s\n  {\"cost\": %" PRId32 ", \"inputs\": [", i > 0 ? "," : "", cost);
        const char *separator = "";
        for (int32_t p = 0; p < g->n; p++) {
            if (g->reads[(size_t)order[i] * (size_t)g->n + (size_t)p]) {
                printf("%s%" PRId32, separator, at[p]);
                separator = ", ";
            }
        }
        printf("], \"outputs\": [%" PRId32 "]}", i);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    static graph g;
    static int32_t order[max_ops];
    char *end = NULL;
    char *seed_end = NULL;
    long n = argc == 3 ? strtol(argv[1], &end, 10) : 0;
    uint64_t seed = argc == 3 ? strtoull(argv[2], &seed_end, 10) : 0;
    if (argc != 3 || *end != '\0' || *seed_end != '\0' || n < 100 || n > max_ops) {
        fprintf(stderr, "usage: layered_graph OPERATORS SEED (100 to %d operators)\n", max_ops);
        return 2;
    }
    g.n = (int32_t)n;
    g.random = seed;
    g.reads = calloc((size_t)n * (size_t)n, sizeof *g.reads);
    if (g.reads == NULL) {
        fprintf(stderr, "layered_graph: out of memory\n");
        return 1;
    }
    lay_out(&g);
    connect(&g);
    put_in_order(&g, order);
    print(&g, order, seed);
    free(g.reads);
    return ferror(stdout) != 0;
}
