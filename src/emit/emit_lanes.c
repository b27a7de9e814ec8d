// SPDX-License-Identifier: Apache-2.0
// The training graph, or a network alone, on a page: a row for every block, forward on the left and running down, backward on the right and
// running up. What passes over rows runs in lanes next to the boxes. Places are worked out here; graphviz only draws them.
#include "emit/emit_lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "emit/emit_blocks.h"
#include "emit/emit_dot.h"
#include "emit/emit_figures.h"
#include "emit/emit_style.h"

// Without facts, colours are by kind: forward, loss, backward, update. With facts, by what becomes of the outputs.
static const char *const kind_fill[] = {"#cfe5f4", "#f7f1a8", "#cdeade", "#eeeeee", "#e6d7f0"};
static const char *const class_fill[CKM_EMIT_N_CLASSES] = {
    [CKM_EMIT_KEPT] = "#8cc3e6",
    [CKM_EMIT_PASSING] = "#ffffff",
    [CKM_EMIT_RECOMPUTED] = "#f2b84b",
    [CKM_EMIT_GRADIENT] = "#cdeade",
};

static const char layer_input[] = "#cdeade";
static const char layer_with_parameters[] = "#cfe5f4";
static const char layer_without[] = "#ffffff";

// Points of a page.
enum { BOX_HEIGHT = 22, PITCH = 31, LANE = 9, GUTTER = 26, PORT = 6, ROUND = 4 };

// A box, the part of it that its size takes, what stays free at its sides, and the letters that a name may have.
typedef struct widths {
    int box, size, margin, letters;
} widths;
static const widths of_two_columns = {258, 92, 7, 25};
static const widths of_one_column = {440, 200, 11, 34};

// The forward or the backward part of a block.
typedef struct box {
    int32_t n_ops;
    int64_t bytes, cost;
    int32_t kinds[4], classes[CKM_EMIT_N_CLASSES];
    int32_t inputs, with_parameters, last_op;  // of a network
} box;

// What one box hands to another.
typedef struct link {
    int32_t n;               // tensors
    bool is_kept, is_again;  // of the tensors that it consists of, with facts
} link;

enum { FORWARD, BACKWARD, N_SIDES };
// Lanes: left of the forward boxes, between the columns, right of the backward boxes.
enum { LEFT, MIDDLE, RIGHT, N_PLACES };

typedef struct page {
    const ckm_dataflow *df;
    const ckm_emit_facts *facts;      // may be NULL
    const ckm_i_lanes_layer *layers;  // of every operator if this is a network, otherwise NULL
    widths wide;
    ckm_i_emit_blocks blocks;
    box *boxes;            // [block][side]
    link *links;           // [from][to], boxes
    int *lanes[N_PLACES];  // of what a box hands over, then of what it takes: a lane, -1 without one
    int n_lanes[N_PLACES];
} page;

static int side_of(const ckm_dataflow *df, int32_t v)
{
    ckm_op_kind kind = ckm_dataflow_get_op(df, v).kind;
    return kind == CKM_OP_BACKWARD || kind == CKM_OP_UPDATE ? BACKWARD : FORWARD;
}

static int32_t box_of(const page *p, int32_t v)
{
    return N_SIDES * p->blocks.of_op[v] + side_of(p->df, v);
}

static int32_t n_boxes(const page *p)
{
    return N_SIDES * p->blocks.n;
}

static link *link_of(const page *p, int32_t from, int32_t to)
{
    return &p->links[(size_t)from * (size_t)n_boxes(p) + (size_t)to];
}

// ---- what there is to draw ----

static void gather_op(page *p, int32_t v)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(p->df, v);
    int32_t here = box_of(p, v);
    box *b = &p->boxes[here];
    b->n_ops++;
    b->cost += op.cost;  // the sum of all costs is known to fit
    b->kinds[op.kind]++;
    b->last_op = v;
    if (p->layers != NULL) {
        b->inputs += p->layers[v].is_input ? 1 : 0;
        b->with_parameters += p->layers[v].has_parameters ? 1 : 0;
    }
    if (p->facts != NULL) {
        b->classes[p->facts->ops[v].what]++;
    }
    b->bytes += ckm_i_emit_output_bytes(p->df, v);
    for (int32_t i = 0; i < op.n_inputs; i++) {
        int32_t producer = ckm_dataflow_producer(p->df, op.inputs[i]);
        if (producer >= 0 && box_of(p, producer) != here) {
            link *l = link_of(p, box_of(p, producer), here);
            l->n++;
            if (p->facts != NULL) {
                l->is_kept |= p->facts->ops[producer].what == CKM_EMIT_KEPT;
                l->is_again |= p->facts->ops[producer].what == CKM_EMIT_RECOMPUTED;
            }
        }
    }
}

// Which lanes a link runs in; -1 for none: neighbours of one column, or the two boxes of a row.
static int place_of(int32_t from, int32_t to)
{
    int32_t rows = to / N_SIDES - from / N_SIDES;
    if (from % N_SIDES != to % N_SIDES) {
        return rows == 0 ? -1 : MIDDLE;
    }
    if (from % N_SIDES == FORWARD) {
        return rows == 1 ? -1 : LEFT;
    }
    return rows == -1 ? -1 : RIGHT;
}

// How many links of a place a box has, going out or coming in.
static int32_t count_links(const page *p, int place, int32_t at, bool out)
{
    int32_t count = 0;
    for (int32_t other = 0; other < n_boxes(p); other++) {
        int32_t from = out ? at : other;
        int32_t into = out ? other : at;
        count += link_of(p, from, into)->n > 0 && place_of(from, into) == place ? 1 : 0;
    }
    return count;
}

// Links of one place that leave a box share a lane, or those that reach one: whichever there are more of.
static int32_t lane_owner(const page *p, int place, int32_t from, int32_t into)
{
    return count_links(p, place, into, false) > count_links(p, place, from, true) ? n_boxes(p) + into : from;
}

static void assign_lanes(page *p, int place)
{
    enum { MOST = 4 * CKM_I_EMIT_BLOCKS_MOST };
    int32_t n = n_boxes(p);
    int32_t low[MOST] = {0};
    int32_t high[MOST] = {0};
    for (int32_t o = 0; o < 2 * n; o++) {
        p->lanes[place][o] = -1;
        low[o] = high[o] = o % n / N_SIDES;
    }
    for (int32_t from = 0; from < n; from++) {
        for (int32_t into = 0; into < n; into++) {
            if (link_of(p, from, into)->n > 0 && place_of(from, into) == place) {
                int32_t owner = lane_owner(p, place, from, into);
                int32_t other = (owner == from ? into : from) / N_SIDES;
                low[owner] = other < low[owner] ? other : low[owner];
                high[owner] = other > high[owner] ? other : high[owner];
            }
        }
    }
    // Short ones next to the boxes.
    for (int32_t length = 1; length < p->blocks.n; length++) {
        for (int32_t o = 0; o < 2 * n; o++) {
            if (high[o] - low[o] != length) {
                continue;
            }
            int lane = -1;
            bool taken = true;
            while (taken) {
                lane++;
                taken = false;
                for (int32_t other = 0; other < 2 * n; other++) {
                    taken |= p->lanes[place][other] == lane && low[other] < high[o] && low[o] < high[other];
                }
            }
            p->lanes[place][o] = lane;
            p->n_lanes[place] = lane + 1 > p->n_lanes[place] ? lane + 1 : p->n_lanes[place];
        }
    }
}

// ---- places; y grows upwards, as graphviz has it ----

static double middle_width(const page *p)
{
    return 2 * GUTTER + LANE * (p->n_lanes[MIDDLE] > 1 ? p->n_lanes[MIDDLE] - 1 : 0);
}

// The left edge of a box.
static double left_of(const page *p, int32_t b)
{
    return b % N_SIDES == FORWARD ? 0 : p->wide.box + middle_width(p);
}

static double row_y(int32_t b)
{
    return -(double)PITCH * (b / N_SIDES);
}

static double lane_x(const page *p, int place, int lane)
{
    static const double step[N_PLACES] = {-LANE, LANE, LANE};
    const double first[N_PLACES] = {-GUTTER / 2.0, p->wide.box + GUTTER,
                                    2 * p->wide.box + middle_width(p) + (double)GUTTER / 2.0};
    return first[place] + step[place] * lane;
}

// ---- links ----

typedef struct point {
    double x, y;
} point;

static double toward(double from, double to, double by)
{
    return to > from ? from + by : to < from ? from - by : from;
}

static void put_points(FILE *to, point a, point b, point c)
{
    fprintf(to, " %.1f,%.1f %.1f,%.1f %.1f,%.1f", a.x, a.y, b.x, b.y, c.x, c.y);
}

// A path of straight pieces with round corners, as the splines of graphviz; an arrow at its end.
static void put_path(FILE *to, const point *at, int n)
{
    enum { ARROW = 5 };
    point end = {toward(at[n - 1].x, at[n - 2].x, ARROW),
                 at[n - 1].x == at[n - 2].x ? toward(at[n - 1].y, at[n - 2].y, ARROW) : at[n - 1].y};
    fprintf(to, "pos=\"e,%.1f,%.1f %.1f,%.1f", at[n - 1].x, at[n - 1].y, at[0].x, at[0].y);
    point here = at[0];
    for (int i = 1; i < n; i++) {
        point corner = i == n - 1 ? end : at[i];
        if (i < n - 1) {
            point in = {toward(corner.x, here.x, corner.x == here.x ? 0 : ROUND),
                        toward(corner.y, here.y, corner.y == here.y ? 0 : ROUND)};
            point out = {toward(corner.x, at[i + 1].x, corner.x == at[i + 1].x ? 0 : ROUND),
                         toward(corner.y, at[i + 1].y, corner.y == at[i + 1].y ? 0 : ROUND)};
            put_points(to, here, in, in);
            put_points(to, corner, corner, out);
            here = out;
        } else {
            put_points(to, here, corner, corner);
        }
    }
    fputc('"', to);
}

static void put_link(FILE *to, const page *p, int32_t from, int32_t into)
{
    const link *l = link_of(p, from, into);
    bool is_saved = from % N_SIDES == FORWARD && into % N_SIDES == BACKWARD;
    int place = place_of(from, into);
    // Out of the lower half of a box and into the upper one where the way is down; the other way round where it is up.
    double way = into > from ? -1 : 1;
    fprintf(to, "  b%d -> b%d [", (int)from, (int)into);
    if (place < 0 && is_saved) {
        point at[] = {{left_of(p, from) + p->wide.box, row_y(from)}, {left_of(p, into), row_y(into)}};
        put_path(to, at, 2);
    } else if (place < 0) {
        double x = left_of(p, from) + p->wide.box / 2.0;
        point at[] = {{x, row_y(from) + way * (double)BOX_HEIGHT / 2.0},
                      {x, row_y(into) - way * (double)BOX_HEIGHT / 2.0}};
        put_path(to, at, 2);
    } else {
        double x = lane_x(p, place, p->lanes[place][lane_owner(p, place, from, into)]);
        double start = left_of(p, from) + (x > left_of(p, from) ? p->wide.box : 0);
        double stop = left_of(p, into) + (x > left_of(p, into) ? p->wide.box : 0);
        point at[] = {{start, row_y(from) + way * (double)PORT},
                      {x, row_y(from) + way * (double)PORT},
                      {x, row_y(into) - way * (double)PORT},
                      {stop, row_y(into) - way * (double)PORT}};
        put_path(to, at, 4);
    }
    const char *color = "#777777";
    if (is_saved) {
        // What the backward pass reads of the forward pass is what rematerialization is about.
        color = p->facts == NULL ? CKM_I_VERMILION
                : l->is_again    ? ckm_i_style_color(CKM_EMIT_RECOMPUTED)
                : l->is_kept     ? ckm_i_style_color(CKM_EMIT_KEPT)
                                 : color;
    }
    fprintf(to, ", color=\"%s\"%s];\n", color, is_saved ? ", style=dashed" : "");
}

// ---- boxes ----

// The colours of a block's operators, each as wide as its share of them.
static void put_fill(FILE *to, const page *p, const box *b)
{
    if (p->layers != NULL) {
        fprintf(to, "style=filled, fillcolor=\"%s\"",
                b->inputs == b->n_ops    ? layer_input
                : b->with_parameters > 0 ? layer_with_parameters
                                         : layer_without);
        return;
    }
    if (p->facts == NULL) {
        int kind = CKM_OP_FORWARD;
        for (int k = 0; k < 4; k++) {
            kind = b->kinds[k] > b->kinds[kind] ? k : kind;
        }
        fprintf(to, "style=filled, fillcolor=\"%s\"", kind_fill[kind]);
        return;
    }
    static const ckm_emit_class order[] = {CKM_EMIT_KEPT, CKM_EMIT_RECOMPUTED, CKM_EMIT_PASSING, CKM_EMIT_GRADIENT};
    const char *separator = "";
    int32_t left = b->n_ops;
    int colors = 0;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        colors += b->classes[order[i]] > 0 ? 1 : 0;
    }
    fprintf(to, "style=%s, fillcolor=\"", colors > 1 ? "striped" : "filled");
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        int32_t n = b->classes[order[i]];
        if (n > 0) {
            left -= n;
            fprintf(to, "%s%s", separator, class_fill[order[i]]);
            if (colors > 1 && left > 0) {  // the last one takes what is left
                fprintf(to, ";%.4f", (double)n / (double)b->n_ops);
            }
            separator = ":";
        }
    }
    fputc('"', to);
}

static void put_box(FILE *to, const page *p, int32_t at)
{
    const box *b = &p->boxes[at];
    char name[512];
    char cut[4 * 64 + 4];
    char bytes[CKM_I_STYLE_TEXT];
    char cost[CKM_I_STYLE_TEXT];
    if (b->n_ops == 0) {
        return;
    }
    ckm_i_style_bytes(b->bytes, bytes);
    ckm_i_emit_blocks_name(p->df, &p->blocks, at / N_SIDES, name, sizeof name);
    fprintf(to, "  b%d [pos=\"%.1f,%.1f\", ", (int)at, left_of(p, at) + p->wide.box / 2.0, row_y(at));
    put_fill(to, p, b);
    fprintf(to,
            ", label=<<table border=\"0\" cellborder=\"0\" cellspacing=\"0\" cellpadding=\"0\"><tr><td width=\"%d\" "
            "align=\"left\">",
            p->wide.box - 2 * p->wide.margin - p->wide.size);
    ckm_i_dot_html(to, ckm_i_style_short(name, p->wide.letters, cut));
    fprintf(to, "</td><td width=\"%d\" align=\"right\">", p->wide.size);
    if (b->n_ops > 1) {
        fprintf(to, "%d %s, ", (int)b->n_ops, p->layers != NULL ? "layers" : "ops");
    } else if (p->layers != NULL) {
        ckm_i_dot_html(to, p->layers[b->last_op].kind);
        fputs(p->layers[b->last_op].shape[0] != '\0' ? ", " : "", to);
    }
    fprintf(to, "%s</td></tr></table>>, tooltip=\"", p->layers != NULL ? p->layers[b->last_op].shape : bytes);
    ckm_i_dot_quote(to, name);
    if (p->layers != NULL) {
        fputs("\"];\n", to);
        return;
    }
    fprintf(to, "%s: %d operator%s, cost %s, %s of outputs", at % N_SIDES == BACKWARD ? ", backward" : "",
            (int)b->n_ops, b->n_ops == 1 ? "" : "s", ckm_i_style_cost(b->cost, ckm_dataflow_cost_unit(p->df), cost),
            bytes);
    if (p->facts != NULL && b->classes[CKM_EMIT_RECOMPUTED] > 0) {
        fprintf(to, ", %d computed again", (int)b->classes[CKM_EMIT_RECOMPUTED]);
    }
    fputs("\"];\n", to);
}

static void put_heading(FILE *to, const page *p, int side, const char *text)
{
    fprintf(to, "  heading%d [pos=\"%.1f,%.1f\", shape=plaintext, style=\"\", fontcolor=\"#555555\", label=\"%s\"];\n",
            side, left_of(p, side) + p->wide.box / 2.0, (double)PITCH, text);
}

static void put_legend(FILE *to, const page *p)
{
    char title[320];
    char cut[4 * 40 + 4];
    char batch[48] = "";
    if (p->facts != NULL && p->facts->batch > 0) {
        snprintf(batch, sizeof batch, ", batch %lld", (long long)p->facts->batch);
    }
    snprintf(title, sizeof title, "%s%s: %d operators in %d rows, each with the bytes of its outputs",
             ckm_i_style_short(ckm_dataflow_name(p->df), 40, cut), batch, (int)ckm_dataflow_op_count(p->df),
             (int)p->blocks.n);
    if (p->layers != NULL) {
        int32_t inputs = 0;
        for (int32_t b = 0; b < n_boxes(p); b++) {
            inputs += p->boxes[b].inputs;
        }
        snprintf(title, sizeof title, "%s: %d layers in %d rows, each with the shape of its output", cut,
                 (int)(ckm_dataflow_op_count(p->df) - inputs), (int)p->blocks.n);
        const ckm_i_dot_legend rows[] = {
            {layer_input, "input"}, {layer_with_parameters, "with parameters"}, {layer_without, "without"}};
        ckm_i_dot_put_legend(to, title, rows, 3);
    } else if (p->facts != NULL) {
        const ckm_i_dot_legend rows[] = {
            {class_fill[CKM_EMIT_KEPT], "kept for backward"},
            {class_fill[CKM_EMIT_RECOMPUTED], "computed again"},
            {class_fill[CKM_EMIT_PASSING], "freed before backward"},
            {class_fill[CKM_EMIT_GRADIENT], "backward"},
        };
        ckm_i_dot_put_legend(to, title, rows, 4);
    } else {
        const ckm_i_dot_legend rows[] = {
            {kind_fill[CKM_OP_FORWARD], "forward"},
            {kind_fill[CKM_OP_LOSS], "loss"},
            {kind_fill[CKM_OP_BACKWARD], "backward"},
        };
        ckm_i_dot_put_legend(to, title, rows, 3);
    }
}

static void put_page(FILE *to, const void *what)
{
    const page *p = what;
    bool has_backward = false;
    ckm_i_dot_begin(to, ckm_dataflow_name(p->df));
    fprintf(to, "  node [style=filled, width=%.3f, height=%.3f, fixedsize=true, margin=\"0\"];\n", p->wide.box / 72.0,
            (double)BOX_HEIGHT / 72.0);
    put_legend(to, p);
    for (int32_t b = 0; b < n_boxes(p); b++) {
        put_box(to, p, b);
        has_backward = has_backward || (b % N_SIDES == BACKWARD && p->boxes[b].n_ops > 0);
    }
    if (p->layers == NULL) {
        put_heading(to, p, FORWARD, "forward, downwards");
    }
    if (has_backward) {
        put_heading(to, p, BACKWARD, "backward, upwards");
    }
    for (int32_t from = 0; from < n_boxes(p); from++) {
        for (int32_t into = 0; into < n_boxes(p); into++) {
            if (link_of(p, from, into)->n > 0) {
                put_link(to, p, from, into);
            }
        }
    }
    fputs("}\n", to);
}

static ckm_status draw(page *p, const char *path, ckm_error *err)
{
    ckm_status status = CKM_OK;
    CKM_I_CHECK(ckm_i_emit_blocks_create(p->df, &p->blocks, err));
    size_t n = (size_t)n_boxes(p);
    p->boxes = ckm_i_calloc(n, sizeof *p->boxes);
    p->links = ckm_i_calloc(n * n, sizeof *p->links);
    int *lanes = ckm_i_calloc(2 * N_PLACES * n, sizeof *lanes);
    if (p->boxes == NULL || p->links == NULL || lanes == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t v = 0; v < ckm_dataflow_op_count(p->df); v++) {
        gather_op(p, v);
    }
    for (int place = 0; place < N_PLACES; place++) {
        p->lanes[place] = lanes + 2 * (size_t)place * n;
        assign_lanes(p, place);
    }
    CKM_I_TRY(ckm_i_dot_draw(put_page, p, path, err));
cleanup:
    free(lanes);
    free(p->links);
    free(p->boxes);
    ckm_i_emit_blocks_dispose(&p->blocks);
    return status;
}

ckm_status ckm_i_lanes_draw(const ckm_dataflow *df, const ckm_emit_facts *facts, const char *path, ckm_error *err)
{
    page p = {.df = df, .facts = facts, .wide = of_two_columns};
    return draw(&p, path, err);
}

ckm_status ckm_i_lanes_draw_network(const ckm_dataflow *df, const ckm_i_lanes_layer *layers, const char *path,
                                    ckm_error *err)
{
    page p = {.df = df, .layers = layers, .wide = of_one_column};
    return draw(&p, path, err);
}
