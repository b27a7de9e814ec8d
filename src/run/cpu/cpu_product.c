// SPDX-License-Identifier: Apache-2.0
// Matrix products of our own, for processors on which oneDNN's take memory from the heap while they run, and are
// slower.
//
// c is divided among threads into rectangles, so threads share nothing. In its rectangle a thread goes through blocks
// of columns and of the sum; for each it packs that block of b, and of a where a lies transposed, into its part of the
// workspace, and adds up tiles (cpu_tile.h).
#include "run/cpu/cpu_product.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_threads.h"
#include "run/cpu/cpu_tile.h"

// What is packed of b and a at a time, in numbers: b stays in the second cache. Rows of a that are ALIASED apart fall on
// each other in the first cache.
enum { B_NUMBERS = 3 << 15, A_NUMBERS = 1 << 15, ALIASED = 1024, IN_PLACE_DEPTH = 8 };

typedef struct matrix {
    int64_t row, column;  // strides
} matrix;

typedef struct plan {
    ckm_i_cpu_product p;
    const ckm_i_cpu_tiles *tiles;
    int64_t batches, rows, inner, columns;
    matrix a, b;
    bool pack_a, b_in_place;
    int64_t lanes, depth;                 // of a tile and of a block of the sum
    int64_t block_rows, block_columns;    // of c, at a time; multiples of lanes and of the tiles' columns
    int64_t b_room, a_room;               // of one thread, in numbers
    int64_t by_batch, by_row, by_column;  // parts
} plan;

typedef struct job {
    const plan *plan;
    const float *a, *b, *bias;
    float *c, *workspace;
} job;

typedef struct range {
    int64_t begin, end;
} range;

static int64_t at_most(int64_t x, int64_t limit)
{
    return x < limit ? x : limit;
}

static int64_t divide_up(int64_t x, int64_t by)
{
    return (x + by - 1) / by;
}

// Part `i` of `parts` of n, in whole units.
static range part_of(int64_t n, int64_t unit, int64_t parts, int64_t i)
{
    int64_t units = divide_up(n, unit);
    return (range){at_most(units * i / parts * unit, n), at_most(units * (i + 1) / parts * unit, n)};
}

// ---- one rectangle of one batch

typedef struct block {
    range rows, columns, inner;
    float *packed_a, *packed_b;
} block;

static void pack_b(const job *j, const float *b, const block *k)
{
    const plan *p = j->plan;
    int64_t width = p->tiles->columns;
    int64_t depth = k->inner.end - k->inner.begin;
    // Of columns that are read in place only those of an incomplete tile are packed.
    int64_t first = p->b_in_place ? k->columns.end / width * width : k->columns.begin;
    if (first >= k->columns.end) {
        return;
    }
    float *to = k->packed_b + (first - k->columns.begin) * depth;
    ckm_i_cpu_pack(b + k->inner.begin * p->b.row + first * p->b.column, p->b.row, p->b.column, depth,
                   k->columns.end - first, width, to);
    int64_t numbers = divide_up(k->columns.end - first, width) * width * depth;
    for (int64_t i = 0; p->p.alpha != 1.0F && i < numbers; i++) {
        to[i] *= p->p.alpha;
    }
}

static void pack_a(const job *j, const float *a, const block *k)
{
    const plan *p = j->plan;
    ckm_i_cpu_pack(a + k->rows.begin * p->a.row + k->inner.begin * p->a.column, p->a.column, p->a.row,
                   k->inner.end - k->inner.begin, k->rows.end - k->rows.begin, p->lanes, k->packed_a);
}

// Fetches a share of the next lanes of a into the cache while these are computed.
static void fetch_ahead(const plan *p, const float *a, int64_t lanes, int64_t begin, int64_t end)
{
    for (int64_t i = 0; i < lanes; i++) {
        for (int64_t k = begin; k < end; k += 16) {
            __builtin_prefetch(a + i * p->a.row + k);
        }
    }
}

static void compute_block(const job *j, const float *a, const float *b, float *c, const block *k)
{
    const plan *p = j->plan;
    int64_t width = p->tiles->columns;
    int64_t depth = k->inner.end - k->inner.begin;
    int64_t panels = divide_up(k->columns.end - k->columns.begin, width);
    for (int64_t m = k->rows.begin; m < k->rows.end; m += p->lanes) {
        int64_t next = at_most(p->lanes, k->rows.end - m - p->lanes);
        ckm_i_cpu_tile t = {.groups = 1, .rows = 1, .depth = depth, .c_step = p->columns};
        t.a = p->pack_a ? k->packed_a + (m - k->rows.begin) * depth : a + m * p->a.row + k->inner.begin;
        t.step = p->pack_a ? p->lanes : 1;
        t.lane = p->pack_a ? 1 : p->a.row;
        for (int64_t n = k->columns.begin; n < k->columns.end; n += width) {
            int64_t panel = (n - k->columns.begin) / width;
            bool in_place = p->b_in_place && n + width <= k->columns.end;
            if (!p->pack_a && next > 0) {
                fetch_ahead(p, t.a + p->lanes * p->a.row, next, depth * panel / panels, depth * (panel + 1) / panels);
            }
            t.b = in_place ? b + k->inner.begin * p->b.row + n : k->packed_b + panel * width * depth;
            t.b_step = in_place ? p->b.row : width;
            t.c = c + m * p->columns + n;
            t.start = t.c;
            t.start_step = p->columns;
            if (k->inner.begin == 0) {
                t.start = j->bias != NULL ? j->bias + n : NULL;
                t.start_step = 0;
            }
            ckm_i_cpu_tile_compute(p->tiles, &t, at_most(p->lanes, k->rows.end - m),
                                   at_most(width, k->columns.end - n));
        }
    }
}

static void compute_rectangle(const job *j, const float *a, const float *b, float *c, range rows, range columns,
                              float *room)
{
    const plan *p = j->plan;
    block k = {.packed_b = room, .packed_a = room + p->b_room};
    for (int64_t n = columns.begin; n < columns.end; n += p->block_columns) {
        k.columns = (range){n, at_most(n + p->block_columns, columns.end)};
        for (int64_t i = 0; i < p->inner; i += p->depth) {
            k.inner = (range){i, at_most(i + p->depth, p->inner)};
            pack_b(j, b, &k);
            for (int64_t m = rows.begin; m < rows.end; m += p->block_rows) {
                k.rows = (range){m, at_most(m + p->block_rows, rows.end)};
                if (p->pack_a) {
                    pack_a(j, a, &k);
                }
                compute_block(j, a, b, c, &k);
            }
        }
    }
}

// Where batch `index` of c finds its matrix: an operand with 1 element on an axis stays.
static int64_t batch_offset(const ckm_i_cpu_product *p, const int64_t *dims, const int64_t *strides, int64_t index)
{
    int64_t offset = 0;
    for (int32_t i = p->rank - 2; i-- > 0;) {
        if (dims[i] > 1) {
            offset += index % p->c_dims[i] * strides[i];
        }
        index /= p->c_dims[i];
    }
    return offset;
}

static void run_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const plan *p = j->plan;
    for (int64_t part = begin; part < end; part++) {
        int64_t column = part % p->by_column;
        int64_t row = part / p->by_column % p->by_row;
        range batches = part_of(p->batches, 1, p->by_batch, part / p->by_column / p->by_row);
        range rows = part_of(p->rows, p->lanes, p->by_row, row);
        range columns = part_of(p->columns, p->tiles->columns, p->by_column, column);
        for (int64_t i = batches.begin; i < batches.end; i++) {
            compute_rectangle(j, j->a + batch_offset(&p->p, p->p.a_dims, p->p.a_strides, i),
                              j->b + batch_offset(&p->p, p->p.b_dims, p->p.b_strides, i),
                              j->c + i * p->rows * p->columns, rows, columns,
                              j->workspace + part * (p->b_room + p->a_room));
        }
    }
}

static ckm_status run_product(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const plan *p = kernel->data;
    job j = {.plan = p,
             .a = call->inputs[p->p.a_input],
             .b = call->inputs[p->p.b_input],
             .bias = p->p.bias_input >= 0 ? call->inputs[p->p.bias_input] : NULL,
             .c = call->outputs[0],
             .workspace = call->workspace};
    ckm_i_cpu_parallel(cpu->threads, p->by_batch * p->by_row * p->by_column, 1, run_part, &j);
    return CKM_OK;
}

// ---- the plan

// About how long the busiest thread takes, in products of whole vectors: its tiles, and what it packs.
static double cost_of(const plan *p, int64_t by_batch, int64_t by_row, int64_t by_column)
{
    double batches = (double)divide_up(p->batches, by_batch);
    double rows = (double)(divide_up(divide_up(p->rows, p->lanes), by_row) * p->lanes);
    double columns = (double)(divide_up(divide_up(p->columns, p->tiles->columns), by_column) * p->tiles->columns);
    double vector = (double)p->tiles->columns / 2;
    double packing = columns * (p->b.column == 1 ? 2.0 / vector : 1.5);
    packing += p->pack_a ? rows * (p->a.row == 1 ? 2.0 / vector : 1.5) : 0.0;
    return batches * (double)p->inner * (rows * columns / vector + packing);
}

static void divide_work(plan *p, int64_t threads)
{
    double best = cost_of(p, 1, 1, 1);
    for (int64_t batch = 1; batch <= threads; batch++) {
        for (int64_t row = 1; batch * row <= threads; row++) {
            for (int64_t column = 1; batch * row * column <= threads; column++) {
                double cost = cost_of(p, batch, row, column);
                // A part more must pay.
                if (cost < 0.99 * best) {
                    best = cost;
                    p->by_batch = batch;
                    p->by_row = row;
                    p->by_column = column;
                }
            }
        }
    }
}

static void make_plan(plan *p, const ckm_i_cpu_product *product, int64_t threads)
{
    int32_t r = product->rank;
    p->p = *product;
    p->tiles = ckm_i_cpu_tiles_best();
    p->batches = 1;
    for (int32_t i = 0; i < r - 2; i++) {
        p->batches *= product->c_dims[i];
    }
    p->rows = product->c_dims[r - 2];
    p->columns = product->c_dims[r - 1];
    p->inner = product->a_dims[r - 1];
    p->a = (matrix){product->a_strides[r - 2], product->a_strides[r - 1]};
    p->b = (matrix){product->b_strides[r - 2], product->b_strides[r - 1]};
    p->lanes = ckm_i_cpu_tile_lanes(p->tiles, p->rows);
    p->pack_a = p->a.column != 1 || (p->lanes > 8 && p->a.row % ALIASED == 0);
    p->depth = divide_up(p->inner, divide_up(p->inner, p->tiles->depth));
    int64_t width = p->tiles->columns;
    // What is read once is not packed: then a few rows of b at a time are read side by side.
    p->b_in_place = p->rows <= p->tiles->lanes && p->b.column == 1 && p->p.alpha == 1.0F;
    if (p->b_in_place) {
        p->depth = at_most(p->inner, IN_PLACE_DEPTH);
    }
    p->block_columns = at_most(B_NUMBERS / p->depth / width, divide_up(p->columns, width)) * width;
    p->block_rows = at_most(A_NUMBERS / p->depth / p->lanes, divide_up(p->rows, p->lanes)) * p->lanes;
    p->by_batch = p->by_row = p->by_column = 1;
    divide_work(p, threads);
    p->b_room = p->block_columns * p->depth;
    p->a_room = p->pack_a ? (p->block_rows * p->depth + 15) / 16 * 16 : 0;
}

ckm_status ckm_i_cpu_product_prepare(const ckm_i_cpu *cpu, const ckm_i_cpu_product *product, ckm_i_kernel *kernel,
                                     ckm_error *err)
{
    plan *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    make_plan(p, product, cpu->threads);
    kernel->data = p;
    kernel->dispose = free;
    kernel->run = run_product;
    kernel->workspace_bytes = p->by_batch * p->by_row * p->by_column * (p->b_room + p->a_room) * (int64_t)sizeof(float);
    return CKM_OK;
}
