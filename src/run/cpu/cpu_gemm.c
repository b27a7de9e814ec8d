// SPDX-License-Identifier: Apache-2.0
// Matrix products of our own.
//
// c is divided among threads into rectangles, so threads share nothing. In its rectangle a thread goes through blocks
// of columns and of the sum; for each it packs that block of b, and of a where a lies transposed, into its part of the
// workspace, and adds up tiles (cpu_tile.h). After Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", ACM TOMS 2008.
#include "run/cpu/cpu_gemm.h"

#include <stddef.h>

#include "run/cpu/cpu_blocks.h"
#include "run/cpu/cpu_threads.h"

// What is packed of b and a at a time, in numbers: b stays in the second cache. Rows of a that are ALIASED apart fall on
// each other in the first cache.
enum { B_NUMBERS = 3 << 15, A_NUMBERS = 1 << 15, ALIASED = 1024, IN_PLACE_DEPTH = 8 };

typedef ckm_i_gemm_plan plan;

typedef struct job {
    const plan *plan;
    const ckm_i_gemm_data *data;
    float *workspace;
} job;

// ---- one rectangle of one batch

typedef struct block {
    int64_t batch;
    const float *a, *b;
    float *c;
    ckm_i_range rows, columns, inner;
    float *packed_a, *packed_b;
} block;

// Panels of `width` rows or columns, for the block of the sum at hand.
static void pack(const job *j, const block *k, const ckm_i_gemm_operand *x, ckm_i_range which, int64_t width, float *to)
{
    int64_t depth = k->inner.end - k->inner.begin;
    bool is_a = x == &j->plan->g.a;
    if (x->pack == NULL) {
        const float *from = is_a ? k->a : k->b;
        int64_t across = is_a ? x->row : x->column;
        int64_t along = is_a ? x->column : x->row;
        ckm_i_cpu_pack(from + which.begin * across + k->inner.begin * along, along, across, depth,
                       which.end - which.begin, width, to);
        return;
    }
    for (int64_t i = which.begin; i < which.end; i += width) {
        x->pack(j->data->context, k->batch, i, ckm_i_at_most(width, which.end - i), k->inner.begin, depth, width,
                to + (i - which.begin) * depth);
    }
}

static void pack_b(const job *j, const block *k)
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
    pack(j, k, &p->g.b, (ckm_i_range){first, k->columns.end}, width, to);
    int64_t numbers = ckm_i_divide_up(k->columns.end - first, width) * width * depth;
    for (int64_t i = 0; p->g.alpha != 1.0F && i < numbers; i++) {
        to[i] *= p->g.alpha;
    }
}

// Fetches a share of the next lanes of a into the cache while these are computed.
static void fetch_ahead(const plan *p, const float *a, int64_t lanes, int64_t begin, int64_t end)
{
    for (int64_t i = 0; i < lanes; i++) {
        for (int64_t k = begin; k < end; k += 16) {
            __builtin_prefetch(a + i * p->g.a.row + k);
        }
    }
}

static void compute_block(const job *j, const block *k)
{
    const plan *p = j->plan;
    int64_t width = p->tiles->columns;
    int64_t depth = k->inner.end - k->inner.begin;
    int64_t panels = ckm_i_divide_up(k->columns.end - k->columns.begin, width);
    for (int64_t m = k->rows.begin; m < k->rows.end; m += p->lanes) {
        int64_t next = ckm_i_at_most(p->lanes, k->rows.end - m - p->lanes);
        ckm_i_cpu_tile t = {.groups = 1, .rows = 1, .depth = depth, .c_step = p->g.ldc};
        t.a = p->pack_a ? k->packed_a + (m - k->rows.begin) * depth : k->a + m * p->g.a.row + k->inner.begin;
        t.step = p->pack_a ? p->lanes : 1;
        t.lane = p->pack_a ? 1 : p->g.a.row;
        for (int64_t n = k->columns.begin; n < k->columns.end; n += width) {
            int64_t panel = (n - k->columns.begin) / width;
            bool in_place = p->b_in_place && n + width <= k->columns.end;
            if (!p->pack_a && next > 0) {
                fetch_ahead(p, t.a + p->lanes * p->g.a.row, next, depth * panel / panels, depth * (panel + 1) / panels);
            }
            t.b = in_place ? k->b + k->inner.begin * p->g.b.row + n : k->packed_b + panel * width * depth;
            t.b_step = in_place ? p->g.b.row : width;
            t.c = k->c + m * p->g.ldc + n;
            t.start = t.c;
            t.start_step = p->g.ldc;
            if (k->inner.begin == 0) {
                t.start = j->data->bias != NULL ? j->data->bias + n : NULL;
                t.start_step = 0;
            }
            ckm_i_cpu_tile_compute(p->tiles, &t, ckm_i_at_most(p->lanes, k->rows.end - m),
                                   ckm_i_at_most(width, k->columns.end - n));
        }
    }
}

static void compute_rectangle(const job *j, block *k, ckm_i_range rows, ckm_i_range columns)
{
    const plan *p = j->plan;
    for (int64_t n = columns.begin; n < columns.end; n += p->block_columns) {
        k->columns = (ckm_i_range){n, ckm_i_at_most(n + p->block_columns, columns.end)};
        for (int64_t i = 0; i < p->g.k; i += p->depth) {
            k->inner = (ckm_i_range){i, ckm_i_at_most(i + p->depth, p->g.k)};
            pack_b(j, k);
            for (int64_t m = rows.begin; m < rows.end; m += p->block_rows) {
                k->rows = (ckm_i_range){m, ckm_i_at_most(m + p->block_rows, rows.end)};
                if (p->pack_a) {
                    pack(j, k, &p->g.a, k->rows, p->lanes, k->packed_a);
                }
                compute_block(j, k);
            }
        }
    }
}

// Where this batch finds its matrices.
static void set_batch(const job *j, block *k, int64_t index)
{
    const ckm_i_gemm *g = &j->plan->g;
    k->batch = index;
    k->a = j->data->a;
    k->b = j->data->b;
    k->c = j->data->c;
    for (int32_t i = g->n_axes; i-- > 0;) {
        int64_t at = index % g->axes[i];
        index /= g->axes[i];
        k->a = g->a.pack == NULL ? k->a + at * g->a.batch_steps[i] : NULL;
        k->b = g->b.pack == NULL ? k->b + at * g->b.batch_steps[i] : NULL;
        k->c += at * g->c_batch_steps[i];
    }
}

static void run_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const plan *p = j->plan;
    for (int64_t part = begin; part < end; part++) {
        int64_t column = part % p->by_column;
        int64_t row = part / p->by_column % p->by_row;
        ckm_i_range batches = ckm_i_part_of(p->batches, 1, p->by_batch, part / p->by_column / p->by_row);
        ckm_i_range rows = ckm_i_part_of(p->g.m, p->lanes, p->by_row, row);
        ckm_i_range columns = ckm_i_part_of(p->g.n, p->tiles->columns, p->by_column, column);
        block k = {.packed_b = j->workspace + part * (p->b_room + p->a_room)};
        k.packed_a = k.packed_b + p->b_room;
        for (int64_t i = batches.begin; i < batches.end; i++) {
            set_batch(j, &k, i);
            compute_rectangle(j, &k, rows, columns);
        }
    }
}

// What a sum of no products is.
static void fill(const job *j)
{
    const ckm_i_gemm *g = &j->plan->g;
    block k = {0};
    for (int64_t i = 0; i < j->plan->batches; i++) {
        set_batch(j, &k, i);
        for (int64_t m = 0; m < g->m; m++) {
            for (int64_t n = 0; n < g->n; n++) {
                k.c[m * g->ldc + n] = j->data->bias != NULL ? j->data->bias[n] : 0.0F;
            }
        }
    }
}

void ckm_i_gemm_run(const ckm_i_gemm_plan *p, const ckm_i_gemm_data *data, int threads, void *workspace)
{
    job j = {.plan = p, .data = data, .workspace = workspace};
    if (p->g.k == 0) {
        fill(&j);
        return;
    }
    ckm_i_cpu_parallel(threads, p->by_batch * p->by_row * p->by_column, 1, run_part, &j);
}

// ---- the plan

// About how long the busiest thread takes, in products of whole vectors: its tiles, and what it packs.
static double cost_of(const plan *p, int64_t by_batch, int64_t by_row, int64_t by_column)
{
    double batches = (double)ckm_i_divide_up(p->batches, by_batch);
    double rows = (double)(ckm_i_divide_up(ckm_i_divide_up(p->g.m, p->lanes), by_row) * p->lanes);
    double columns = (double)(ckm_i_divide_up(ckm_i_divide_up(p->g.n, p->tiles->columns), by_column) *
                              p->tiles->columns);
    double vector = (double)p->tiles->columns / 2;
    double packing = columns * (p->g.b.column == 1 ? 2.0 / vector : 1.5);
    packing += p->pack_a ? rows * (p->g.a.row == 1 ? 2.0 / vector : 1.5) : 0.0;
    return batches * (double)p->g.k * (rows * columns / vector + packing);
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

ckm_i_gemm_plan ckm_i_gemm_make_plan(const ckm_i_gemm *g, int threads)
{
    plan p = {.g = *g, .tiles = ckm_i_cpu_tiles_best(), .batches = 1};
    int64_t width = p.tiles->columns;
    for (int32_t i = 0; i < g->n_axes; i++) {
        p.batches *= g->axes[i];
    }
    p.lanes = ckm_i_cpu_tile_lanes(p.tiles, g->m);
    p.pack_a = g->a.pack != NULL || g->a.column != 1 || (p.lanes > 8 && g->a.row % ALIASED == 0);
    p.depth = g->k > 0 ? ckm_i_divide_up(g->k, ckm_i_divide_up(g->k, p.tiles->depth)) : 1;
    // What is read once is not packed: then a few rows of b at a time are read side by side.
    p.b_in_place = g->b.pack == NULL && g->m <= p.tiles->lanes && g->b.column == 1 && g->alpha == 1.0F;
    if (p.b_in_place) {
        p.depth = ckm_i_at_most(p.depth, IN_PLACE_DEPTH);
    }
    p.block_columns = ckm_i_at_most(B_NUMBERS / p.depth / width, ckm_i_divide_up(g->n, width)) * width;
    p.block_rows = ckm_i_at_most(A_NUMBERS / p.depth / p.lanes, ckm_i_divide_up(g->m, p.lanes)) * p.lanes;
    p.by_batch = p.by_row = p.by_column = 1;
    divide_work(&p, threads);
    p.b_room = p.block_columns * p.depth;
    p.a_room = p.pack_a ? (p.block_rows * p.depth + 15) / 16 * 16 : 0;
    return p;
}

int64_t ckm_i_gemm_workspace_bytes(const ckm_i_gemm_plan *p)
{
    return p->by_batch * p->by_row * p->by_column * (p->b_room + p->a_room) * (int64_t)sizeof(float);
}
