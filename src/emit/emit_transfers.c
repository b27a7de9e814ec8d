// SPDX-License-Identifier: Apache-2.0
// Figure "transfers": the step over time in three lanes, operators, copies to the second memory and copies back, and where computation
// stands still for which copy.
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "emit/emit_figures.h"
#include "emit/emit_style.h"

// Where the lanes lie, from the top; more arrows or names than these cannot be told apart.
enum { IN_LANE = 0, OUT_LANE = 1, COMPUTE_LANE = 2, ARROWS = 24, NAMES = 40 };
static const double half_height = 0.32;

typedef struct picture {
    const ckm_emit_facts *f;
    const ckm_emit_times *t;
    double unit;  // cost units in one of the axis
} picture;

static void put_box(FILE *to, const picture *p, int lane, int64_t begin, int64_t end)
{
    double left = (double)begin / p->unit;
    double right = (double)end / p->unit;
    fprintf(to, "%.8g %d %.8g %.8g %.2f %.2f\n", (left + right) / 2, lane, left, right, lane - half_height,
            lane + half_height);
}

// Stretches of computation that is first, or is repeated; neighbours are one. Gives how many there are.
static int64_t put_computation(FILE *to, const picture *p, bool again)
{
    int64_t n = 0;
    fprintf(to, "$%s << END_OF_DATA\n", again ? "again" : "first");
    for (int64_t m = 0; m < p->f->n_moments;) {
        bool is_again = p->f->moments[m].execution > 0;
        int64_t begin = p->t->begin[m];
        int64_t end = begin;
        for (; m < p->f->n_moments && (p->f->moments[m].execution > 0) == is_again && p->t->begin[m] == end; m++) {
            end += ckm_dataflow_get_op(p->f->df, p->f->moments[m].op).cost;
        }
        if (is_again == again && end > begin) {
            put_box(to, p, COMPUTE_LANE, begin, end);
            n++;
        }
    }
    if (n == 0) {
        fputs("NaN NaN NaN NaN NaN NaN\n", to);
    }
    fputs("END_OF_DATA\n", to);
    return n;
}

static void put_transfers(FILE *to, const picture *p, bool out)
{
    bool any = false;
    fprintf(to, "$%s << END_OF_DATA\n", out ? "out" : "in");
    for (int64_t i = 0; i < p->t->n_transfers; i++) {
        const ckm_emit_transfer *x = &p->t->transfers[i];
        if (x->out == out && x->end > x->begin) {
            put_box(to, p, out ? OUT_LANE : IN_LANE, x->begin, x->end);
            any = true;
        }
    }
    fputs(any ? "END_OF_DATA\n" : "NaN NaN NaN NaN NaN NaN\nEND_OF_DATA\n", to);
}

static void put_stalls(FILE *to, const picture *p)
{
    bool any = false;
    fputs("$stalls << END_OF_DATA\n", to);
    for (int64_t i = 0; i < p->t->n_transfers; i++) {
        const ckm_emit_transfer *x = &p->t->transfers[i];
        if (x->stall > 0) {
            put_box(to, p, COMPUTE_LANE, x->end - x->stall, x->end);
            any = true;
        }
    }
    fputs(any ? "END_OF_DATA\n" : "NaN NaN NaN NaN NaN NaN\nEND_OF_DATA\n", to);
}

// From the copies that computation stands still for longest, to where it goes on.
static void put_arrows(FILE *to, const picture *p)
{
    int64_t least = 0;
    int64_t n = 0;
    // The least of the longest: they are few, and halving finds it as well as sorting would.
    for (int64_t low = 0, high = p->t->total; low < high;) {
        least = low + (high - low) / 2;
        n = 0;
        for (int64_t i = 0; i < p->t->n_transfers; i++) {
            n += p->t->transfers[i].stall > least;
        }
        if (n > ARROWS) {
            low = least + 1;
        } else {
            high = least;
        }
        least = high;
    }
    for (int64_t i = 0; i < p->t->n_transfers; i++) {
        const ckm_emit_transfer *x = &p->t->transfers[i];
        if (x->stall > least) {
            fprintf(to,
                    "set arrow from first %.8g, first %.2f to first %.8g, first %.2f size screen 0.006,20 filled lw "
                    "0.9 lc rgb '%s' front\n",
                    (double)x->end / p->unit, (x->out ? OUT_LANE : IN_LANE) + half_height, (double)x->end / p->unit,
                    COMPUTE_LANE - half_height, CKM_I_VERMILION);
        }
    }
}

// Names of copies, where there is room.
static void put_names(FILE *to, const picture *p)
{
    int named = 0;
    for (int64_t i = 0; i < p->t->n_transfers && named < NAMES; i++) {
        const ckm_emit_transfer *x = &p->t->transfers[i];
        int letters = (int)((double)(x->end - x->begin) / (double)p->t->total * 130.0);
        char cut[4 * 40 + 4];
        if (letters >= 8) {
            fputs("set label ", to);
            ckm_i_style_quote(to, ckm_i_style_short(ckm_dataflow_get_tensor(p->f->df, x->tensor).name,
                                                    letters > 40 ? 40 : letters, cut));
            fprintf(to, " at first %.8g, first %d center noenhanced front font ',10'\n",
                    ((double)x->begin + (double)x->end) / 2 / p->unit, x->out ? OUT_LANE : IN_LANE);
            named++;
        }
    }
}

static const char *axis_unit(const picture *p, double *unit)
{
    static const struct {
        double ns;
        const char *name;
    } times[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    ckm_cost_unit cost = ckm_dataflow_cost_unit(p->f->df);
    double in_ns = cost == CKM_COST_US ? 1e3 : 1;
    *unit = 1;
    if (cost == CKM_COST_FLOPS) {
        return "multiply-accumulates";
    }
    size_t i = 0;
    while (i + 1 < sizeof times / sizeof times[0] && (double)p->t->total * in_ns < times[i].ns) {
        i++;
    }
    *unit = times[i].ns / in_ns;
    return times[i].name;
}

static void put_script(FILE *to, const void *what, ckm_i_figure_format format)
{
    picture p = *(const picture *)what;
    const ckm_emit_times *t = p.t;
    ckm_cost_unit cost = ckm_dataflow_cost_unit(p.f->df);
    char name[CKM_I_FIGURE_NAME];
    char text[400];
    char subtitle[400];
    char total[CKM_I_STYLE_TEXT];
    char still[CKM_I_STYLE_TEXT];
    char out[CKM_I_STYLE_TEXT];
    char in[CKM_I_STYLE_TEXT];
    const char *unit_name = axis_unit(&p, &p.unit);
    ckm_i_style_begin(to, format, 1040, 420);
    snprintf(text, sizeof text, "%s: one training step, and the transfers during it",
             ckm_i_figure_name(p.f, name, sizeof name));
    snprintf(subtitle, sizeof subtitle, "%s, of which computation stands still for %s; %s out, %s back",
             ckm_i_style_cost(t->total, cost, total), ckm_i_style_cost(t->stalled, cost, still),
             ckm_i_style_bytes(t->out_bytes, out), ckm_i_style_bytes(t->in_bytes, in));
    ckm_i_style_title(to, text, t->n_transfers > 0 ? subtitle : "nothing is moved");
    fputs("set lmargin at screen 0.09\nset rmargin at screen 0.985\nset tmargin at screen 0.74\nset bmargin at screen "
          "0.16\nset key at screen 0.985, screen 0.82 right top horizontal Left reverse samplen 1 width 1 font ',12'\n"
          "unset grid\n",
          to);
    fprintf(to,
            "set xlabel 'time (%s)'\nset xrange [0:%.8g]\nset yrange [-0.5:2.5]\nset ytics ('compute' %d, 'out' %d, "
            "'back' %d) nomirror\nset style fill solid 1.0 noborder\n",
            unit_name, t->total > 0 ? (double)t->total / p.unit : 1.0, COMPUTE_LANE, OUT_LANE, IN_LANE);
    put_arrows(to, &p);
    put_names(to, &p);
    (void)put_computation(to, &p, false);
    bool again = put_computation(to, &p, true) > 0;
    put_transfers(to, &p, true);
    put_transfers(to, &p, false);
    put_stalls(to, &p);
    fprintf(to, "plot $first using 1:2:3:4:5:6 with boxxyerror fc rgb '%s' title 'computed'", CKM_I_BLUE);
    if (again) {
        fprintf(to, ", $again using 1:2:3:4:5:6 with boxxyerror fc rgb '%s' title 'computed again'", CKM_I_ORANGE);
    }
    if (t->stalled > 0) {
        fprintf(to,
                ", $stalls using 1:2:3:4:5:6 with boxxyerror fc rgb '%s' fs transparent solid 0.35 title 'waits for a "
                "copy'",
                CKM_I_VERMILION);
    }
    fprintf(
        to,
        ", $out using 1:2:3:4:5:6 with boxxyerror lw 0.3 fc rgb '%s' fs solid 1.0 border rgb '#ffffff' title 'to the "
        "second memory'"
        ", $in using 1:2:3:4:5:6 with boxxyerror lw 0.3 fc rgb '%s' fs solid 1.0 border rgb '#ffffff' title 'back'\n",
        CKM_I_SKY, CKM_I_YELLOW);
}

ckm_status ckm_i_figure_transfers(const ckm_emit_facts *facts, const char *path, ckm_error *err)
{
    ckm_emit_times *times = NULL;
    CKM_I_CHECK(ckm_emit_times_create(facts, &times, err));
    picture p = {facts, times, 1};
    ckm_status status = ckm_i_style_gnuplot(put_script, &p, path, err);
    ckm_emit_times_free(times);
    return status;
}
