// SPDX-License-Identifier: Apache-2.0
// transformer_graph N: the training graph of a decoder-only transformer with about N operators, in
// checkmate-graph JSON on standard output. Batch 8, 1024 tokens, width 1024, 16 heads, float32; one operator per
// gradient, as a framework runs it: gradients of a product's operand and of its weights are separate, and where
// a tensor is used more than once its gradients are added up. Costs are multiply-accumulates, or one per
// element. Parameters, their gradients and the tokens are fixed bytes.
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { batch = 8, tokens = 1024, width = 1024, heads = 16, vocabulary = 32768 };
enum { ops_per_block = 38, ops_outside = 9, max_inputs = 4 };

typedef struct op {
    const char *kind;
    int64_t cost;
    int32_t inputs[max_inputs], n_inputs;
    int64_t bytes;  // of its only output, whose number is the operator's
} op;

typedef struct graph {
    op *ops;
    int32_t n, room;
    const char *kind;  // of the operators added next
} graph;

static const int64_t stream = (int64_t)batch * tokens * width;          // elements of a block's input
static const int64_t hidden = (int64_t)batch * tokens * width * 4;      // elements between the two products
static const int64_t pairs = (int64_t)batch * heads * tokens * tokens;  // elements of the attention matrices

// Adds an operator that reads up to four tensors (-1: none) and returns its output.
static int32_t add(graph *g, int64_t cost, int64_t elements, int32_t a, int32_t b, int32_t c, int32_t d)
{
    if (g->n == g->room) {
        fprintf(stderr, "transformer_graph: more operators than planned\n");
        exit(1);
    }
    op *o = &g->ops[g->n];
    int32_t in[max_inputs] = {a, b, c, d};
    *o = (op){.kind = g->kind, .cost = cost, .bytes = elements * 4};
    for (int i = 0; i < max_inputs; i++) {
        if (in[i] >= 0) {
            o->inputs[o->n_inputs++] = in[i];
        }
    }
    return g->n++;
}

// The tensors of one block that the backward pass reads.
typedef struct block {
    int32_t in, norm1, q, k, v, scores, softmax, mixed, middle, norm2, inner, gelu;
} block;

static int32_t forward(graph *g, block *b, int32_t in)
{
    int64_t square = stream * width;
    int64_t attention = (int64_t)batch * tokens * tokens * width;
    b->in = in;
    b->norm1 = add(g, 4 * stream, stream, in, -1, -1, -1);
    b->q = add(g, square, stream, b->norm1, -1, -1, -1);
    b->k = add(g, square, stream, b->norm1, -1, -1, -1);
    b->v = add(g, square, stream, b->norm1, -1, -1, -1);
    b->scores = add(g, attention, pairs, b->q, b->k, -1, -1);
    b->softmax = add(g, 3 * pairs, pairs, b->scores, -1, -1, -1);
    b->mixed = add(g, attention, stream, b->softmax, b->v, -1, -1);
    int32_t projected = add(g, square, stream, b->mixed, -1, -1, -1);
    b->middle = add(g, stream, stream, in, projected, -1, -1);
    b->norm2 = add(g, 4 * stream, stream, b->middle, -1, -1, -1);
    b->inner = add(g, 4 * square, hidden, b->norm2, -1, -1, -1);
    b->gelu = add(g, hidden, hidden, b->inner, -1, -1, -1);
    int32_t outer = add(g, 4 * square, stream, b->gelu, -1, -1, -1);
    return add(g, stream, stream, b->middle, outer, -1, -1);
}

// Gradient of a product's weights: it goes into fixed bytes and leaves nothing else.
static void weights(graph *g, int64_t cost, int32_t input, int32_t gradient)
{
    add(g, cost, 0, input, gradient, -1, -1);
}

static int32_t backward(graph *g, const block *b, int32_t gradient)
{
    int64_t square = stream * width;
    int64_t attention = (int64_t)batch * tokens * tokens * width;
    weights(g, 4 * square, b->gelu, gradient);
    int32_t d_gelu = add(g, 4 * square, hidden, gradient, -1, -1, -1);
    int32_t d_inner = add(g, 2 * hidden, hidden, b->inner, d_gelu, -1, -1);
    weights(g, 4 * square, b->norm2, d_inner);
    int32_t d_norm2 = add(g, 4 * square, stream, d_inner, -1, -1, -1);
    weights(g, 4 * stream, b->middle, d_norm2);
    int32_t d_branch = add(g, 6 * stream, stream, b->middle, d_norm2, -1, -1);
    int32_t d_middle = add(g, stream, stream, gradient, d_branch, -1, -1);
    weights(g, square, b->mixed, d_middle);
    int32_t d_mixed = add(g, square, stream, d_middle, -1, -1, -1);
    int32_t d_softmax = add(g, attention, pairs, d_mixed, b->v, -1, -1);
    int32_t d_v = add(g, attention, stream, d_mixed, b->softmax, -1, -1);
    int32_t d_scores = add(g, 3 * pairs, pairs, b->softmax, d_softmax, -1, -1);
    int32_t d_q = add(g, attention, stream, d_scores, b->k, -1, -1);
    int32_t d_k = add(g, attention, stream, d_scores, b->q, -1, -1);
    weights(g, square, b->norm1, d_q);
    weights(g, square, b->norm1, d_k);
    weights(g, square, b->norm1, d_v);
    int32_t back_q = add(g, square, stream, d_q, -1, -1, -1);
    int32_t back_k = add(g, square, stream, d_k, -1, -1, -1);
    int32_t back_v = add(g, square, stream, d_v, -1, -1, -1);
    int32_t d_norm1 = add(g, 2 * stream, stream, back_q, back_k, back_v, -1);
    int32_t d_in = add(g, 6 * stream, stream, b->in, d_norm1, -1, -1);
    return add(g, stream, stream, d_middle, d_in, -1, -1);
}

static void print(const graph *g, int32_t blocks)
{
    int64_t parameters = (int64_t)blocks * 12 * width * width + 2 * (int64_t)vocabulary * width;
    printf("{\"format\": \"checkmate-graph\", \"version\": 1, \"name\": \"transformer-%" PRId32 "\",\n", g->n);
    printf(" \"cost_unit\": \"flops\", \"fixed_bytes\": %" PRId64 ",\n \"tensors\": [", parameters * 8);
    for (int32_t i = 0; i < g->n; i++) {
        printf("%s\n  {\"bytes\": %" PRId64 "}", i > 0 ? "," : "", g->ops[i].bytes);
    }
    printf("],\n \"ops\": [");
    for (int32_t i = 0; i < g->n; i++) {
        const op *o = &g->ops[i];
        printf("%s\n  {\"kind\": \"%s\", \"cost\": %" PRId64 ", \"inputs\": [", i > 0 ? "," : "", o->kind, o->cost);
        for (int32_t j = 0; j < o->n_inputs; j++) {
            printf("%s%" PRId32, j > 0 ? ", " : "", o->inputs[j]);
        }
        printf("], \"outputs\": [%" PRId32 "]}", i);
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long wanted = argc == 2 ? strtol(argv[1], &end, 10) : 0;
    if (argc != 2 || *end != '\0' || wanted < ops_outside + ops_per_block || wanted > 1000000) {
        fprintf(stderr, "usage: transformer_graph OPERATORS (47 to 1000000)\n");
        return 2;
    }
    int32_t blocks = (int32_t)((wanted - ops_outside + ops_per_block / 2) / ops_per_block);
    graph g = {.room = blocks * ops_per_block + 2 * ops_outside, .kind = "forward"};
    g.ops = calloc((size_t)g.room, sizeof *g.ops);
    block *b = calloc((size_t)blocks, sizeof *b);
    if (g.ops == NULL || b == NULL) {
        fprintf(stderr, "transformer_graph: out of memory\n");
        return 1;
    }
    int64_t logits = (int64_t)batch * tokens * vocabulary;
    int32_t x = add(&g, stream, stream, -1, -1, -1, -1);  // embedding
    for (int32_t i = 0; i < blocks; i++) {
        x = forward(&g, &b[i], x);
    }
    int32_t last_norm = add(&g, 4 * stream, stream, x, -1, -1, -1);
    int32_t head = add(&g, logits * width, logits, last_norm, -1, -1, -1);
    g.kind = "loss";
    int32_t loss = add(&g, 3 * logits, 1, head, -1, -1, -1);
    g.kind = "backward";
    int32_t d_head = add(&g, logits, logits, head, loss, -1, -1);
    weights(&g, logits * width, last_norm, d_head);
    int32_t d_norm = add(&g, logits * width, stream, d_head, -1, -1, -1);
    int32_t d = add(&g, 6 * stream, stream, x, d_norm, -1, -1);
    for (int32_t i = blocks - 1; i >= 0; i--) {
        d = backward(&g, &b[i], d);
    }
    weights(&g, stream, d, -1);  // of the embedding
    print(&g, blocks);
    free(g.ops);
    free(b);
    return ferror(stdout) != 0;
}
