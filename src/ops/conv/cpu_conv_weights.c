// SPDX-License-Identifier: Apache-2.0
// Weight gradients of convolutions in two dimensions, without groups. dweight is, for every tap, a product of x' and dy
// summed over all positions. What oneDNN has for it before AVX-512 is slow on channels-last images, and for others
// it wants copies of both in its own format.
//
// Threads divide dweight by its channels, so each sum is one thread's and does not depend on their number. A thread
// goes through the positions in blocks of whole output rows: it packs its channels of x, with the padding around, and of
// dy into its part of the workspace, and adds a tile (cpu_tile.h) for every tap and every panel of channels of both.
// With few channels of x, the taps of a row of the window are lanes of one tile: they lie side by side, too.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "run/cpu/cpu_blocks.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/cpu_tile.h"
#include "run/cpu/ref_window.h"

enum { HEIGHT, WIDTH };

// What is turned over at a time fits the first cache.
enum { TURN_CHANNELS = 16, TURN_NUMBERS = 144 };

// Weights from this size on are not copied: 32 MiB, as in dnnl_conv.c.
enum { LARGE_NUMBERS = 1 << 23 };

// Packed, x is larger by its padding. From this multiple of the size of all operands on, nearly all of it is padding.
enum { MOST_TIMES = 8 };

enum { LINE_NUMBERS = 16 };

// Weights that stay in a cache while blocks are added up, and the part of x that is packed at a time next to them.
enum { CACHED_WEIGHTS = 1 << 16, CACHED_IMAGES = 1 << 17 };

typedef struct plan {
    ckm_i_ref_window w;
    const ckm_i_cpu_tiles *tiles;
    bool fused;                 // taps of a row are lanes
    int64_t lanes;              // of a tile; channels of a panel of x unless fused
    int64_t panel;              // channels of a panel of x
    int64_t images, rows;       // of a block
    int64_t skip[2];            // rows and columns of x from one that is packed to the next
    int64_t x_rows, x_columns;  // that are packed, with padding, for the rows of one image
    int64_t by_in, by_out;      // parts
    int64_t x_room, dy_room;    // of one thread, in numbers
    // Tiles make dweight as taps x in x out. Channels first, where it is out x in x taps: room for all of it where sums take
    // several blocks, else for what one panel gives, in each thread.
    int64_t whole, turn_room;
} plan;

typedef struct job {
    const plan *plan;
    const float *dy, *x;
    float *dweight, *workspace;
} job;

typedef struct block {
    ckm_i_range in, out;  // channels
    int64_t image, images;
    int64_t row, rows;  // of the output
    float *x, *dy;      // packed
    float *turn;
} block;

// Where tiles go: taps x in x out, of these channels.
typedef struct target {
    float *at;
    ckm_i_range in, out;
} target;

// ---- packing

// One row of x with its padding into one panel: `n` channels from `channel` on.
static void pack_x_row(const job *j, int64_t image, int64_t row, int64_t channel, int64_t n, float *to)
{
    const plan *p = j->plan;
    const ckm_i_ref_window *w = &p->w;
    int64_t before = ckm_i_at_most(w->begin[WIDTH], p->x_columns);
    int64_t inside = ckm_i_at_most(ckm_i_divide_up(w->in[WIDTH], p->skip[WIDTH]), p->x_columns - before);
    if (row < 0 || row >= w->in[HEIGHT]) {
        memset(to, 0, (size_t)(p->x_columns * p->panel) * sizeof *to);
        return;
    }
    memset(to, 0, (size_t)(before * p->panel) * sizeof *to);
    if (w->channels_last) {
        const float *from = j->x + ((image * w->in[HEIGHT] + row) * w->in[WIDTH]) * w->in_channels + channel;
        ckm_i_cpu_pack(from, w->in_channels * p->skip[WIDTH], 1, inside, n, p->panel, to + before * p->panel);
    } else {
        const float *from = j->x + ((image * w->in_channels + channel) * w->in[HEIGHT] + row) * w->in[WIDTH];
        ckm_i_cpu_pack(from, 1, w->in_size, inside, n, p->panel, to + before * p->panel);
    }
    int64_t filled = before + inside;
    memset(to + filled * p->panel, 0, (size_t)((p->x_columns - filled) * p->panel) * sizeof *to);
}

static void pack_x(const job *j, const block *k)
{
    const plan *p = j->plan;
    const ckm_i_ref_window *w = &p->w;
    float *to = k->x;
    for (int64_t c = k->in.begin; c < k->in.end; c += p->panel) {
        for (int64_t i = 0; i < k->images; i++) {
            for (int64_t r = 0; r < p->x_rows; r++) {
                pack_x_row(j, k->image + i, k->row * w->stride[HEIGHT] - w->begin[HEIGHT] + r * p->skip[HEIGHT], c,
                           ckm_i_at_most(p->panel, k->in.end - c), to);
                to += p->x_columns * p->panel;
            }
        }
    }
}

static void pack_dy(const job *j, const block *k)
{
    const plan *p = j->plan;
    const ckm_i_ref_window *w = &p->w;
    int64_t width = p->tiles->columns;
    int64_t n = k->rows * w->out[WIDTH];
    int64_t first = k->row * w->out[WIDTH];
    if (w->channels_last) {
        // Images follow each other; of more than one all rows are taken.
        const float *from = j->dy + (k->image * w->out_size + first) * w->out_channels + k->out.begin;
        ckm_i_cpu_pack(from, w->out_channels, 1, k->images * n, k->out.end - k->out.begin, width, k->dy);
        return;
    }
    float *to = k->dy;
    for (int64_t c = k->out.begin; c < k->out.end; c += width) {
        for (int64_t i = 0; i < k->images; i++) {
            const float *from = j->dy + ((k->image + i) * w->out_channels + c) * w->out_size + first;
            ckm_i_cpu_pack(from, 1, w->out_size, n, ckm_i_at_most(width, k->out.end - c), width, to);
            to += n * width;
        }
    }
}

// ---- products

// The lanes from `lane` on of one tap, or of a row of taps, and one panel of dy.
static void compute_tile(const job *j, const block *k, const float *x, int64_t tap, int64_t lane, int64_t n,
                         int64_t out, const target *to)
{
    const plan *p = j->plan;
    const ckm_i_ref_window *w = &p->w;
    int64_t width = p->tiles->columns;
    int64_t step = to->out.end - to->out.begin;
    float *c = to->at + (tap * (to->in.end - to->in.begin) + lane - to->in.begin) * step + out - to->out.begin;
    bool first = k->image == 0 && k->row == 0;
    ckm_i_cpu_tile t = {
        .groups = k->images,
        .rows = k->rows,
        .depth = w->out[WIDTH],
        .a = x,
        .group_step = p->x_rows * p->x_columns * p->panel,
        .row_step = w->stride[HEIGHT] / p->skip[HEIGHT] * p->x_columns * p->panel,
        .step = w->stride[WIDTH] / p->skip[WIDTH] * p->panel,
        .lane = 1,
        .b = k->dy + (out - k->out.begin) * k->images * k->rows * w->out[WIDTH],
        .b_step = width,
        .c = c,
        .c_step = step,
        .start = first ? NULL : c,
        .start_step = step,
    };
    ckm_i_cpu_tile_compute(p->tiles, &t, n, ckm_i_at_most(width, k->out.end - out));
}

static void compute_taps(const job *j, const block *k, const float *x, int64_t in, int64_t out, const target *to)
{
    const plan *p = j->plan;
    const ckm_i_ref_window *w = &p->w;
    for (int64_t h = 0; h < w->kernel[HEIGHT]; h++) {
        const float *row = x + h * w->dilation[HEIGHT] * p->x_columns * p->panel;
        if (p->fused) {
            int64_t all = w->kernel[WIDTH] * w->in_channels;
            for (int64_t lane = 0; lane < all; lane += p->lanes) {
                compute_tile(j, k, row + lane, h * w->kernel[WIDTH], lane, ckm_i_at_most(p->lanes, all - lane), out,
                             to);
            }
            continue;
        }
        for (int64_t v = 0; v < w->kernel[WIDTH]; v++) {
            compute_tile(j, k, row + v * w->dilation[WIDTH] * p->panel, h * w->kernel[WIDTH] + v, in,
                         ckm_i_at_most(p->panel, k->in.end - in), out, to);
        }
    }
}

// taps x in x out into out x in x taps, for the output channels of `out`: some at a time, and of each as much as fits a
// buffer.
static void turn_over(const job *j, const target *from, ckm_i_range out)
{
    const ckm_i_ref_window *w = &j->plan->w;
    float turned[TURN_CHANNELS][TURN_NUMBERS];
    int64_t ins = from->in.end - from->in.begin;
    int64_t step = from->out.end - from->out.begin;
    for (int64_t o = out.begin; o < out.end; o += TURN_CHANNELS) {
        int64_t n = ckm_i_at_most(TURN_CHANNELS, out.end - o);
        float *to = j->dweight + (o * w->in_channels + from->in.begin) * w->taps;
        for (int64_t first = 0; first < ins * w->taps; first += TURN_NUMBERS) {
            int64_t count = ckm_i_at_most(TURN_NUMBERS, ins * w->taps - first);
            for (int64_t k = 0; k < count; k++) {
                int64_t in = (first + k) / w->taps;
                int64_t tap = (first + k) % w->taps;
                const float *numbers = from->at + (tap * ins + in) * step + o - from->out.begin;
                for (int64_t i = 0; i < n; i++) {
                    turned[i][k] = numbers[i];
                }
            }
            for (int64_t i = 0; i < n; i++) {
                memcpy(to + i * w->in_channels * w->taps + first, turned[i], (size_t)count * sizeof **turned);
            }
        }
    }
}

static target whole_target(const job *j)
{
    const ckm_i_ref_window *w = &j->plan->w;
    return (target){.at = j->plan->whole > 0 ? j->workspace : j->dweight, {0, w->in_channels}, {0, w->out_channels}};
}

static void turn_whole(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    target whole = whole_target(j);
    turn_over(j, &whole, (ckm_i_range){begin, end});
}

static void compute_block(const job *j, const block *k)
{
    const plan *p = j->plan;
    int64_t panel_numbers = k->images * p->x_rows * p->x_columns * p->panel;
    pack_x(j, k);
    pack_dy(j, k);
    for (int64_t out = k->out.begin; out < k->out.end; out += p->tiles->columns) {
        for (int64_t in = k->in.begin; in < k->in.end; in += p->panel) {
            target to = whole_target(j);
            if (p->turn_room > 0) {
                to = (target){.at = k->turn,
                              .in = {in, ckm_i_at_most(in + p->panel, k->in.end)},
                              .out = {out, ckm_i_at_most(out + p->tiles->columns, k->out.end)}};
            }
            compute_taps(j, k, k->x + (in - k->in.begin) / p->panel * panel_numbers, in, out, &to);
            if (p->turn_room > 0) {
                turn_over(j, &to, to.out);
            }
        }
    }
}

static int64_t part_room(const plan *p)
{
    return p->x_room + p->dy_room + p->turn_room;
}

static bool workspace_of(const plan *p, int64_t *bytes)
{
    int64_t numbers;
    return ckm_i_add(p->x_room, p->dy_room, &numbers) && ckm_i_add(numbers, p->turn_room, &numbers) &&
           ckm_i_mul(numbers, p->by_in * p->by_out, &numbers) && ckm_i_add(numbers, p->whole, &numbers) &&
           ckm_i_mul(numbers, (int64_t)sizeof(float), bytes);
}

static void run_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const plan *p = j->plan;
    const ckm_i_ref_window *w = &p->w;
    for (int64_t part = begin; part < end; part++) {
        float *room = j->workspace + p->whole + part * part_room(p);
        block k = {.in = ckm_i_part_of(w->in_channels, p->panel, p->by_in, part / p->by_out),
                   .out = ckm_i_part_of(w->out_channels, p->tiles->columns, p->by_out, part % p->by_out),
                   .dy = room,
                   .x = room + p->dy_room,
                   .turn = room + p->dy_room + p->x_room};
        for (k.image = 0; k.image < w->batch; k.image += p->images) {
            k.images = ckm_i_at_most(p->images, w->batch - k.image);
            for (k.row = 0; k.row < w->out[HEIGHT]; k.row += p->rows) {
                k.rows = ckm_i_at_most(p->rows, w->out[HEIGHT] - k.row);
                compute_block(j, &k);
            }
        }
    }
}

static ckm_status run_weights(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const plan *p = kernel->data;
    job j = {.plan = p,
             .dy = call->inputs[0],
             .x = call->inputs[1],
             .dweight = call->outputs[0],
             .workspace = call->workspace};
    ckm_i_cpu_parallel(cpu->threads, p->by_in * p->by_out, 1, run_part, &j);
    if (p->whole > 0) {
        ckm_i_cpu_parallel(cpu->threads, p->w.out_channels, TURN_CHANNELS, turn_whole, &j);
    }
    return CKM_OK;
}

// ---- the plan

// About what the busiest thread does: tiles, and packing, which is a fraction of a tile's work.
static int64_t cost_of(const plan *p, int64_t by_in, int64_t by_out)
{
    int64_t in = ckm_i_divide_up(ckm_i_divide_up(p->w.in_channels, p->panel), by_in) * p->panel;
    int64_t out = ckm_i_divide_up(ckm_i_divide_up(p->w.out_channels, p->tiles->columns), by_out) * p->tiles->columns;
    return in * out * p->w.taps + 4 * (in + out);
}

static void divide_work(plan *p, int64_t threads)
{
    p->by_in = p->by_out = 1;
    int64_t best = cost_of(p, 1, 1);
    for (int64_t in = 1; in <= threads && !(p->fused && in > 1); in++) {
        for (int64_t out = 1; in * out <= threads; out++) {
            int64_t cost = cost_of(p, in, out);
            if (cost < best) {
                best = cost;
                p->by_in = in;
                p->by_out = out;
            }
        }
    }
}

// A product of sizes in whole cache lines; false when it does not fit.
static bool room_of(const int64_t *sizes, int32_t n, int64_t *room)
{
    int64_t numbers = 1;
    bool fits = true;
    for (int32_t i = 0; i < n; i++) {
        fits = fits && ckm_i_mul(numbers, sizes[i], &numbers);
    }
    fits = fits && ckm_i_add(numbers, LINE_NUMBERS - 1, &numbers);
    *room = numbers / LINE_NUMBERS * LINE_NUMBERS;
    return fits;
}

// False when the window reaches so far beyond the images that packing them with their padding is no way to go.
static bool make_rooms(plan *p)
{
    const ckm_i_ref_window *w = &p->w;
    int64_t in = ckm_i_divide_up(ckm_i_divide_up(w->in_channels, p->panel), p->by_in) * p->panel;
    int64_t out = ckm_i_divide_up(ckm_i_divide_up(w->out_channels, p->tiles->columns), p->by_out) * p->tiles->columns;
    int64_t weights = w->taps * w->in_channels * w->out_channels;
    int64_t operands = w->batch * w->in_size * w->in_channels + w->batch * w->out_size * w->out_channels + weights;
    bool one_block = p->images == w->batch && p->rows == w->out[HEIGHT];
    p->turn_room = p->whole = 0;
    return room_of((int64_t[]){p->images, p->x_rows, p->x_columns, in}, 4, &p->x_room) &&
           room_of((int64_t[]){p->images, p->rows, w->out[WIDTH], out}, 4, &p->dy_room) &&
           (w->channels_last || !one_block ||
            room_of((int64_t[]){w->taps, p->panel, p->tiles->columns}, 3, &p->turn_room)) &&
           (w->channels_last || one_block || room_of(&weights, 1, &p->whole)) && p->x_room / MOST_TIMES <= operands;
}

static int64_t rows_of_x(const plan *p, int64_t rows)
{
    const ckm_i_ref_window *w = &p->w;
    return (rows - 1) * w->stride[HEIGHT] / p->skip[HEIGHT] + (w->kernel[HEIGHT] - 1) * w->dilation[HEIGHT] + 1;
}

// Whole images in a block. Adding up two blocks costs more than sums twice as long where the weights do not fit a cache;
// where they do, blocks can be small and take less memory.
static int64_t choose_images(const plan *p)
{
    const ckm_i_ref_window *w = &p->w;
    int64_t weights = w->taps * w->in_channels * w->out_channels;
    int64_t images = ckm_i_at_most(w->batch, p->tiles->depth / w->out_size + 1);
    int64_t numbers;
    if (!room_of((int64_t[]){rows_of_x(p, w->out[HEIGHT]), p->x_columns, w->in_channels}, 3, &numbers)) {
        return 1;
    }
    if (weights <= CACHED_WEIGHTS) {
        return numbers <= CACHED_IMAGES ? ckm_i_at_most(images, CACHED_IMAGES / numbers) : 1;
    }
    bool short_sums = w->batch * w->out_size <= 2 * (int64_t)p->tiles->depth;
    return short_sums && numbers <= weights / w->batch ? w->batch : images;
}

static void make_plan(plan *p, int64_t threads)
{
    const ckm_i_ref_window *w = &p->w;
    p->tiles = ckm_i_cpu_tiles_best();
    p->fused = w->in_channels < p->tiles->lanes && w->dilation[WIDTH] == 1;
    p->lanes = ckm_i_cpu_tile_lanes(p->tiles, p->fused ? w->kernel[WIDTH] * w->in_channels : w->in_channels);
    p->panel = p->fused ? w->in_channels : p->lanes;
    // With windows of one element and a larger stride most of x is not read. Columns of channels-first images
    // can only be packed side by side.
    p->skip[HEIGHT] = w->kernel[HEIGHT] == 1 ? w->stride[HEIGHT] : 1;
    p->skip[WIDTH] = w->kernel[WIDTH] == 1 && w->begin[WIDTH] == 0 && w->channels_last ? w->stride[WIDTH] : 1;
    p->x_columns = (w->out[WIDTH] - 1) * w->stride[WIDTH] / p->skip[WIDTH] +
                   (w->kernel[WIDTH] - 1) * w->dilation[WIDTH] + 1;
    // As many positions as a sum should have.
    p->rows = ckm_i_at_most(w->out[HEIGHT], p->tiles->depth / w->out[WIDTH] + 1);
    p->images = p->rows < w->out[HEIGHT] ? 1 : choose_images(p);
    p->x_rows = rows_of_x(p, p->rows);
    divide_work(p, threads);
}

// Reads the window; false when this is not for us.
static bool read_window(const ckm_i_op_view *v, ckm_i_ref_window *w)
{
    const ckm_i_graph_tensor *out = v->op->outputs[0] >= 0 ? &v->graph->tensors[v->op->outputs[0]] : NULL;
    if (out == NULL || out->dtype != CKM_F32 || !ckm_i_cpu_floats(v) || v->in[1]->shape.rank != 4 ||
        ckm_i_elements(&v->in[0]->shape) == 0 || ckm_i_elements(&v->in[1]->shape) == 0 ||
        ckm_i_op_attr_int(v->op, "groups", 0, 1) != 1) {
        return false;
    }
    bool last = v->graph->layout == CKM_CHANNELS_LAST;
    *w = ckm_i_ref_window_read(v->graph, v->op, &v->in[1]->shape, &v->in[0]->shape, &out->shape.dims[last ? 0 : 2]);
    // Channels first takes a second dweight, which large layers should not have to pay for.
    bool affordable = last || ckm_i_elements(&out->shape) < LARGE_NUMBERS;
    return affordable && w->begin[HEIGHT] >= 0 && w->begin[WIDTH] >= 0;
}

static ckm_status prepare(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_i_ref_window w;
    if (!read_window(v, &w)) {
        return CKM_OK;
    }
    plan *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    p->w = w;
    kernel->data = p;
    kernel->dispose = free;
    make_plan(p, cpu->threads);
    if (make_rooms(p) && workspace_of(p, &kernel->workspace_bytes)) {
        kernel->run = run_weights;
    }
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_conv_weights[] = {
    {CKM_I_OP_conv_backward_weights, prepare},
    {0},
};
