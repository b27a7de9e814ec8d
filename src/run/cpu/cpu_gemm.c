// SPDX-License-Identifier: Apache-2.0
// Matrix products by blocks, after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM
// TOMS 2008: a block of b, BLOCK_K by BLOCK_N, is packed into slivers as wide as a tile and stays in the second-level
// cache while rows of a pass over it. Rows of a whose elements lie side by side are read where they lie; others are
// packed, too. Every thread works on rows or on columns of its own and packs what it needs into its own part of the
// workspace, so that threads never wait for each other.
#include "run/cpu/cpu_gemm.h"

#include <string.h>

#include "run/cpu/cpu_gemm_tile.h"
#include "run/cpu/cpu_threads.h"

enum { BLOCK_K = 256, BLOCK_N = 256, BLOCK_M = 72 };
// What the tile of any level divides or is at most: columns up to 32, rows up to 8.
enum { MOST_COLUMNS = 32, MOST_ROWS = 8 };
// Multiplications below which another thread does not pay.
enum { LEAST_WORK = 1 << 16 };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceiling(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static bool reads_rows(const ckm_i_gemm *g)
{
    return g->a.pack == NULL && (g->a.column == 1 || g->k == 1);
}

// Floats of one thread's blocks.
static int64_t b_floats(const ckm_i_gemm *g)
{
    return least(g->k, BLOCK_K) * least(ceiling(g->n, MOST_COLUMNS) * MOST_COLUMNS, BLOCK_N);
}

static int64_t a_floats(const ckm_i_gemm *g)
{
    return reads_rows(g) ? 0 : least(g->k, BLOCK_K) * least(g->m + MOST_ROWS, BLOCK_M);
}

static int64_t thread_floats(const ckm_i_gemm *g)
{
    return ceiling(a_floats(g) + b_floats(g), 16) * 16;
}

static int64_t batch_count(const ckm_i_gemm *g)
{
    int64_t n = 1;
    for (int32_t i = 0; i < g->n_axes; i++) {
        n *= g->axes[i];
    }
    return n;
}

// Threads that have enough to do.
static int64_t useful_threads(const ckm_i_gemm *g, int threads)
{
    double work = (double)batch_count(g) * (double)g->m * (double)g->n * (double)(g->k > 0 ? g->k : 1);
    double most = 1.0 + work / LEAST_WORK;
    return most < threads ? (int64_t)most : threads;
}

int64_t ckm_i_gemm_workspace(const ckm_i_gemm *g, int threads)
{
    return useful_threads(g, threads) * thread_floats(g) * (int64_t)sizeof(float);
}

typedef struct job {
    const ckm_i_gemm *g;
    ckm_i_gemm_level level;
    bool by_rows;
    int64_t parts;
    float *workspace;
} job;

// What one thread does at a time: these rows and columns of one batch.
typedef struct block {
    const job *job;
    int64_t batch, row_begin, row_end, column_begin, column_end;
    const float *a, *b;  // of the batch
    float *c;
    float *a_panel, *b_panel;
} block;

// ---- packing

typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));

// Four elements of four rows turned, so that they lie as four rows of four.
static void turn(const float *from, int64_t across, float *to, int64_t width)
{
    quad a = *(const quad *)from;
    quad b = *(const quad *)(from + across);
    quad c = *(const quad *)(from + 2 * across);
    quad d = *(const quad *)(from + 3 * across);
    quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(quad *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(quad *)(to + width) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(quad *)(to + 2 * width) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(quad *)(to + 3 * width) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// One sliver of elements that lie along k one after the other, `across` apart from one of `count` to the next.
static void pack_along(const float *from, int64_t across, int64_t count, int64_t depth, int64_t width, float *panel)
{
    int64_t turned_depth = depth / 4 * 4;
    int64_t turned_count = count / 4 * 4;
    for (int64_t k = 0; k < turned_depth; k += 4) {
        for (int64_t i = 0; i < turned_count; i += 4) {
            turn(from + i * across + k, across, panel + k * width + i, width);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = i < turned_count ? turned_depth : 0; k < depth; k++) {
            panel[k * width + i] = from[i * across + k];
        }
    }
}

// A sliver's width is one of a few, and a copy of a size known beforehand is a few instructions.
static void copy_run(float *to, const float *from, int64_t width)
{
    switch (width) {
    case 4:
        memcpy(to, from, 4 * sizeof *to);
        break;
    case 6:
        memcpy(to, from, 6 * sizeof *to);
        break;
    case 8:
        memcpy(to, from, 8 * sizeof *to);
        break;
    case 16:
        memcpy(to, from, 16 * sizeof *to);
        break;
    default:
        memcpy(to, from, (size_t)width * sizeof *to);
        break;
    }
}

// Elements in memory into slivers of `width`, one behind the other: `across` apart from one of `count` to the next,
// `along` apart along k.
static void pack_plain(const float *from, int64_t across, int64_t along, int64_t count, int64_t depth, int64_t width,
                       float *panels)
{
    int64_t whole = count / width * width;
    if (whole < count) {
        memset(panels + whole * depth, 0, (size_t)(depth * width) * sizeof *panels);
    }
    if (across == 1) {
        // Along rows of memory, every sliver getting its part.
        for (int64_t k = 0; k < depth; k++) {
            const float *row = from + k * along;
            float *to = panels + k * width;
            for (int64_t i = 0; i < whole; i += width) {
                copy_run(to + i * depth, row + i, width);
            }
            for (int64_t i = whole; i < count; i++) {
                to[whole * depth + i - whole] = row[i];
            }
        }
        return;
    }
    for (int64_t i = 0; i < count; i += width) {
        const float *first = from + i * across;
        float *panel = panels + i * depth;
        int64_t here = least(width, count - i);
        if (along == 1) {
            pack_along(first, across, here, depth, width, panel);
            continue;
        }
        for (int64_t k = 0; k < depth; k++) {
            for (int64_t x = 0; x < here; x++) {
                panel[k * width + x] = first[x * across + k * along];
            }
        }
    }
}

// Slivers of an operand that `pack` makes.
static void pack_made(const block *t, const ckm_i_gemm_operand *x, int64_t first, int64_t count, int64_t k0,
                      int64_t depth, int64_t width, float *panels)
{
    for (int64_t i = 0; i < count; i += width) {
        x->pack(x->context, t->batch, first + i, least(width, count - i), k0, depth, width, panels + i * depth);
    }
}

static void pack_b(const block *t, int64_t k0, int64_t depth, int64_t first, int64_t count, float *panels)
{
    const ckm_i_gemm_operand *b = &t->job->g->b;
    int64_t width = t->job->level.columns;
    if (b->pack != NULL) {
        pack_made(t, b, first, count, k0, depth, width, panels);
    } else {
        pack_plain(t->b + k0 * b->row + first * b->column, b->column, b->row, count, depth, width, panels);
    }
}

static void pack_a(const block *t, int64_t k0, int64_t depth, int64_t first, int64_t count)
{
    const ckm_i_gemm_operand *a = &t->job->g->a;
    int64_t width = t->job->level.rows;
    if (a->pack != NULL) {
        pack_made(t, a, first, count, k0, depth, width, t->a_panel);
    } else {
        pack_plain(t->a + k0 * a->column + first * a->row, a->row, a->column, count, depth, width, t->a_panel);
    }
}

// ---- tiles

// Rows [first, first + count) times the block of b at hand, which has `columns` columns from `column` on.
static void multiply_rows(const block *t, int64_t first, int64_t count, int64_t k0, int64_t depth, int64_t column,
                          int64_t columns, bool direct)
{
    const ckm_i_gemm *g = t->job->g;
    const ckm_i_gemm_level *level = &t->job->level;
    bool rows_in_place = reads_rows(g);
    ckm_i_gemm_tile tile = {.depth = depth, .ldc = g->ldc, .alpha = g->alpha, .add = k0 > 0};
    for (int64_t j = 0; j < columns; j += level->columns) {
        tile.columns = least(level->columns, columns - j);
        bool whole = direct && tile.columns == level->columns;
        tile.b = whole ? t->b + k0 * g->b.row + column + j : t->b_panel + (direct ? 0 : j * depth);
        tile.b_step = whole ? g->b.row : level->columns;
        tile.bias = g->bias != NULL && k0 == 0 ? g->bias + column + j : NULL;
        for (int64_t i = 0; i < count; i += level->rows) {
            tile.rows = least(level->rows, count - i);
            tile.a = rows_in_place ? t->a + (first + i) * g->a.row + k0 : t->a_panel + i * depth;
            tile.a_step = rows_in_place ? g->a.row : 0;
            if (rows_in_place && tile.rows == 1) {
                tile.a_step = 1;  // not packed, however far apart rows would be
            }
            tile.c = t->c + (first + i) * g->ldc + column + j;
            level->run(&tile);
        }
    }
}

// All of k for the columns of one block.
static void multiply_columns(const block *t, int64_t column, int64_t columns)
{
    const ckm_i_gemm *g = t->job->g;
    int64_t width = t->job->level.columns;
    // Few rows do not pay for packing: b is read where it lies, but for a last sliver that is not whole.
    bool direct = g->b.pack == NULL && g->b.column == 1 && t->row_end - t->row_begin <= t->job->level.rows;
    for (int64_t k0 = 0; k0 < g->k; k0 += BLOCK_K) {
        int64_t depth = least(BLOCK_K, g->k - k0);
        if (!direct) {
            pack_b(t, k0, depth, column, columns, t->b_panel);
        } else if (columns % width != 0) {
            pack_b(t, k0, depth, column + columns / width * width, columns % width, t->b_panel);
        }
        for (int64_t i = t->row_begin; i < t->row_end; i += BLOCK_M) {
            int64_t rows = least(BLOCK_M, t->row_end - i);
            if (!reads_rows(g)) {
                pack_a(t, k0, depth, i, rows);
            }
            multiply_rows(t, i, rows, k0, depth, column, columns, direct);
        }
    }
}

static void run_block(const block *t)
{
    int64_t n_block = BLOCK_N / t->job->level.columns * t->job->level.columns;
    for (int64_t j = t->column_begin; j < t->column_end; j += n_block) {
        multiply_columns(t, j, least(n_block, t->column_end - j));
    }
}

// ---- threads

static void set_batch(block *t)
{
    const ckm_i_gemm *g = t->job->g;
    int64_t rest = t->batch;
    t->a = g->a.data;
    t->b = g->b.data;
    t->c = g->c;
    for (int32_t i = g->n_axes; i-- > 0;) {
        int64_t at = rest % g->axes[i];
        rest /= g->axes[i];
        t->a = t->a != NULL ? t->a + at * g->a.batch_steps[i] : NULL;
        t->b = t->b != NULL ? t->b + at * g->b.batch_steps[i] : NULL;
        t->c += at * g->c_batch_steps[i];
    }
}

// Tiles of all batches are numbered through, along rows or along columns; a thread has as many as another.
static void run_part(void *context, int64_t part, int64_t end)
{
    const job *j = context;
    const ckm_i_gemm *g = j->g;
    for (; part < end; part++) {
        int64_t size = j->by_rows ? j->level.rows : j->level.columns;
        int64_t length = j->by_rows ? g->m : g->n;
        int64_t tiles = ceiling(length, size);
        int64_t from = tiles * batch_count(g) * part / j->parts;
        int64_t to = tiles * batch_count(g) * (part + 1) / j->parts;
        block t = {.job = j, .row_end = g->m, .column_end = g->n};
        t.b_panel = j->workspace + part * thread_floats(g);
        t.a_panel = t.b_panel + b_floats(g);
        while (from < to) {
            int64_t stop = least(to, (from / tiles + 1) * tiles);
            int64_t first = from % tiles * size;
            int64_t last = least(length, (from % tiles + stop - from) * size);
            t.batch = from / tiles;
            set_batch(&t);
            if (j->by_rows) {
                t.row_begin = first;
                t.row_end = last;
            } else {
                t.column_begin = first;
                t.column_end = last;
            }
            run_block(&t);
            from = stop;
        }
    }
}

// Whether to share out rows rather than columns: packing what is not shared out is done by every thread again. An
// element packed counts as much as 16 multiplications.
static bool share_rows(const ckm_i_gemm *g, const ckm_i_gemm_level *level, int64_t parts)
{
    double batches = (double)batch_count(g);
    double row_tiles = batches * (double)ceiling(g->m, level->rows) / (double)parts;
    double column_tiles = batches * (double)ceiling(g->n, level->columns) / (double)parts;
    double m = (double)ceiling((int64_t)(row_tiles * 4), 4) * (double)level->rows;
    double n = (double)ceiling((int64_t)(column_tiles * 4), 4) * (double)level->columns;
    double share = batches < (double)parts ? batches : (double)parts;
    double rows_cost = m * (double)g->n / 16 + (double)g->n * batches / share;
    double columns_cost = n * (double)g->m / 16 + (double)g->m * batches / share;
    return rows_cost <= columns_cost;
}

static void clear(const ckm_i_gemm *g)
{
    block t = {.job = &(job){.g = g}};
    for (t.batch = 0; t.batch < batch_count(g); t.batch++) {
        set_batch(&t);
        for (int64_t i = 0; i < g->m; i++) {
            for (int64_t j = 0; j < g->n; j++) {
                t.c[i * g->ldc + j] = g->bias != NULL ? g->bias[j] : 0.0F;
            }
        }
    }
}

void ckm_i_gemm_run(const ckm_i_gemm *g, int threads, void *workspace)
{
    if (g->k == 0) {
        clear(g);
        return;
    }
    job j = {.g = g, .level = ckm_i_gemm_level_here(), .workspace = workspace};
    j.parts = useful_threads(g, threads);
    j.by_rows = share_rows(g, &j.level, j.parts);
    ckm_i_cpu_parallel(threads, j.parts, 1, run_part, &j);
}
