// SPDX-License-Identifier: Apache-2.0
// checkmate explain: a schedule on a page of text.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/cli_planned.h"
#include "cli/cli_values.h"

enum {
    NUMBER = 64,
    KEPT_LISTED = 4,
    AGAIN_LISTED = 4,
    LIVE_LISTED = 6,
    WAITS_LISTED = 6,
    CHART_WIDTH = 68,  // at most
    CHART_LABEL = 12,  // before it
    CHART_HEIGHT = 7,
    NAME_WIDTH = 34,
    NARROW_NAME = 24
};

typedef struct explain_settings {
    cli_model_settings model;
    bool json;
} explain_settings;

static const explain_settings defaults = {CLI_MODEL_DEFAULTS, false};

static const cli_option options[] = {
    {"json", 0, CLI_FLAG, offsetof(explain_settings, json), NULL, "Print all of it as one JSON object.", NULL, 0, 0,
     NULL},
};

static void heading(const char *text)
{
    printf("\n%s%s%s", cli_style(stdout, CLI_BOLD), text, cli_style(stdout, CLI_PLAIN));
}

// A name of any length in a column, on one line; what is too long is cut in the middle.
static const char *fitted(const char *name, int width, char *buf, size_t size)
{
    name = cli_text(name);
    int length = (int)strlen(name);
    if (length <= width) {
        snprintf(buf, size, "%s", name);
    } else {
        int tail = (width - 2) / 2;
        snprintf(buf, size, "%.*s..%s", width - 2 - tail, name, name + length - tail);
    }
    return buf;
}

// A name, behind the part of the model that an operator belongs to, in a column.
static const char *fitted_with_module(const ckm_emit_facts *f, int32_t op, const char *name, int width, char *buf,
                                      size_t size)
{
    char text[512];
    const char *module = ckm_dataflow_get_op(f->df, op).module;
    snprintf(text, sizeof text, "%s%s%s", module, module[0] != '\0' ? ": " : "", name);
    return fitted(text, width, buf, size);
}

static const char *fitted_op(const ckm_emit_facts *f, int32_t op, int width, char *buf, size_t size)
{
    return fitted_with_module(f, op, ckm_dataflow_get_op(f->df, op).name, width, buf, size);
}

static void print_summary(const ckm_emit_facts *f)
{
    const ckm_schedule_info *info = ckm_schedule_get_info(f->schedule);
    ckm_cost_unit unit = ckm_dataflow_cost_unit(f->df);
    char a[NUMBER];
    char b[NUMBER];
    char c[NUMBER];
    cli_line(stdout, 9, "%s%s%s, %d operators%s%s%s\n", cli_style(stdout, CLI_BOLD), cli_text(ckm_dataflow_name(f->df)),
             cli_style(stdout, CLI_PLAIN), (int)ckm_dataflow_op_count(f->df),
             info->strategy[0] != '\0' ? ", schedule by " : "", cli_text(info->strategy),
             info->optimal ? ", optimal" : "");
    double share = f->baseline_peak_bytes > 0 ? (double)f->peak_bytes / (double)f->baseline_peak_bytes : 1;
    double overhead = cli_overhead(f->cost, f->baseline_cost);
    cli_line(stdout, 9, "memory   %s, %s of the %s without rematerialization\n",
             cli_show_bytes(f->peak_bytes, a, sizeof a), cli_show_percent(share, b, sizeof b),
             cli_show_bytes(f->baseline_peak_bytes, c, sizeof c));
    cli_line(stdout, 9, "%s  %s more: %s on top of %s\n",
             ckm_schedule_transfer_count(f->schedule) > 0 ? "time   " : "compute",
             cli_show_percent(overhead, a, sizeof a),
             cli_show_cost((double)(f->cost - f->baseline_cost), unit, b, sizeof b),
             cli_show_cost((double)f->baseline_cost, unit, c, sizeof c));
}

// ---- the chart ----

// What column of the chart shows: the fullest moment in it.
static int64_t fullest_in(const ckm_emit_facts *f, int column, int width)
{
    int64_t first = f->n_moments * column / width;
    int64_t last = f->n_moments * (column + 1) / width;
    int64_t best = first;
    for (int64_t m = first; m < last; m++) {
        best = f->moments[m].bytes > f->moments[best].bytes ? m : best;
    }
    return best;
}

// What stands at a height of a column: kept, computed again, or anything else.
static char mark_of(const ckm_emit_moment *m, double height)
{
    static const char marks[CKM_EMIT_N_CLASSES] = {'.', '.', '#', ':', 'o', '+', '+'};
    double sum = 0;
    for (int c = 0; c < CKM_EMIT_N_CLASSES; c++) {
        sum += (double)m->class_bytes[c];
        if (height < sum) {
            return marks[c];
        }
    }
    return ' ';
}

static void print_chart(const ckm_emit_facts *f)
{
    int room = cli_width(stdout) - CHART_LABEL;
    int width = room < CHART_WIDTH ? (room > 1 ? room : 1) : CHART_WIDTH;
    width = f->n_moments < width ? (int)f->n_moments : width;
    int64_t top = f->budget_bytes >= f->peak_bytes && f->budget_bytes / 2 < f->peak_bytes ? f->budget_bytes
                                                                                          : f->peak_bytes;
    char text[NUMBER];
    heading("Memory over the step");
    cli_line(stdout, 2,
             "\n  # kept for backward  o computed again  : freed before backward\n"
             "  + gradients, workspace  . there all the time\n");
    for (int row = CHART_HEIGHT - 1; row >= 0; row--) {
        char line[CHART_WIDTH + 1];
        for (int c = 0; c < width; c++) {
            line[c] = mark_of(&f->moments[fullest_in(f, c, width)],
                              ((double)row + 0.5) / (double)CHART_HEIGHT * (double)top);
        }
        line[width] = '\0';
        int used = width;
        while (used > 0 && line[used - 1] == ' ') {
            line[--used] = '\0';
        }
        const char *label = row == CHART_HEIGHT - 1 ? cli_show_bytes(top, text, sizeof text) : "";
        printf("%*s |%s\n", CHART_LABEL - 2, label, line);
    }
}

// ---- what is kept ----

static int by_bytes(const void *a, const void *b)
{
    const ckm_emit_life *left = *(const ckm_emit_life *const *)a;
    const ckm_emit_life *right = *(const ckm_emit_life *const *)b;
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? 1 : -1;
    }
    return (left > right) - (left < right);
}

// Lives that `wanted` accepts, largest first, into `lives`, which has room for all.
static int32_t select_lives(const ckm_emit_facts *f, bool (*wanted)(const ckm_emit_facts *, const ckm_emit_life *),
                            const ckm_emit_life **lives)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->n_lives; i++) {
        if (wanted(f, &f->lives[i])) {
            lives[n++] = &f->lives[i];
        }
    }
    if (n > 1) {
        qsort(lives, (size_t)n, sizeof *lives, by_bytes);
    }
    return n;
}

static bool is_kept(const ckm_emit_facts *f, const ckm_emit_life *life)
{
    // What was kept in a second memory was not here all the time.
    return life->what == CKM_EMIT_KEPT && f->moments[life->first].op == life->op;
}

static bool is_live_at_peak(const ckm_emit_facts *f, const ckm_emit_life *life)
{
    int64_t first = life->first + (life->handed_over ? 1 : 0);
    return first <= f->peak_moment && life->last >= f->peak_moment && life->bytes > 0;
}

static const char *life_name(const ckm_emit_facts *f, const ckm_emit_life *life)
{
    return life->tensor >= 0 ? ckm_dataflow_get_tensor(f->df, life->tensor).name : "workspace";
}

static void print_lives(const ckm_emit_facts *f, const ckm_emit_life **lives, int32_t n, int listed, bool with_class)
{
    char size[NUMBER];
    char name[NUMBER];
    int64_t rest = 0;
    for (int32_t i = 0; i < n; i++) {
        if (i < listed) {
            cli_line(stdout, 12, "%10s  %-*s%s\n", cli_show_bytes(lives[i]->bytes, size, sizeof size),
                     with_class ? cli_width(stdout) < 80 ? NARROW_NAME : NAME_WIDTH : 0,
                     fitted_with_module(f, lives[i]->op, life_name(f, lives[i]),
                                        cli_width(stdout) < 80 ? NARROW_NAME : NAME_WIDTH, name, sizeof name),
                     with_class ? ckm_emit_class_name(lives[i]->what) : "");
        } else {
            rest += lives[i]->bytes;
        }
    }
    if (n > listed) {
        printf("%10s  in %d more\n", cli_show_bytes(rest, size, sizeof size), (int)n - listed);
    }
}

static void print_kept(const ckm_emit_facts *f, const ckm_emit_life **lives)
{
    int64_t sum = 0;
    char text[NUMBER];
    if (f->turn_moment < 0) {
        return;
    }
    int32_t n = select_lives(f, is_kept, lives);
    for (int32_t i = 0; i < n; i++) {
        sum += lives[i]->bytes;
    }
    heading("Kept");
    printf(" from forward to backward: %s in %d tensors\n", cli_show_bytes(sum, text, sizeof text), (int)n);
    print_lives(f, lives, n, KEPT_LISTED, false);
}

// ---- what is computed again ----

typedef struct again {
    const ckm_emit_facts *f;
    const ckm_emit_recompute *worst;  // of its recomputations the one that held would have meant most memory
    int32_t op;
} again;

static int by_extra_cost(const void *a, const void *b)
{
    const again *left = a;
    const again *right = b;
    const ckm_emit_op_fact *x = &left->f->ops[left->op];
    const ckm_emit_op_fact *y = &right->f->ops[right->op];
    if (x->extra_cost != y->extra_cost) {
        return x->extra_cost < y->extra_cost ? 1 : -1;
    }
    if (x->freed_bytes != y->freed_bytes) {
        return x->freed_bytes < y->freed_bytes ? 1 : -1;
    }
    return (left->op > right->op) - (left->op < right->op);
}

static void print_why(const ckm_emit_facts *f, const ckm_emit_recompute *r)
{
    char name[NUMBER];
    char size[NUMBER];
    char text[8 * NUMBER];
    int used = 0;
    if (r->for_op >= 0) {
        used = snprintf(text, sizeof text, "for %s", fitted_op(f, r->for_op, NAME_WIDTH, name, sizeof name));
    } else {
        used = snprintf(text, sizeof text, "read by nothing afterwards");
    }
    if (r->fullest >= 0) {
        bool over = f->budget_bytes >= 0 && r->held_bytes > f->budget_bytes;
        fitted_op(f, f->moments[r->fullest].op, NAME_WIDTH, name, sizeof name);
        cli_show_bytes(over ? r->held_bytes - f->budget_bytes : r->held_bytes, size, sizeof size);
        if (over) {
            snprintf(text + used, sizeof text - (size_t)used, "; held, %s would exceed the budget by %s", name, size);
        } else {
            snprintf(text + used, sizeof text - (size_t)used, "; held, %s would reach %s%s", name, size,
                     f->budget_bytes >= 0 ? ", which fits" : "");
        }
    }
    printf("%12s", "");
    cli_print_wrapped(stdout, text, 12, 12);
}

// `list` has room for every operator.
static void print_again(const ckm_emit_facts *f, again *list)
{
    int32_t n_ops = ckm_dataflow_op_count(f->df);
    char text[NUMBER];
    heading("Computed again");
    if (f->n_recomputes == 0) {
        printf(": nothing\n");
        return;
    }
    for (int32_t v = 0; v < n_ops; v++) {
        list[v] = (again){f, NULL, v};
    }
    for (int32_t i = 0; i < f->n_recomputes; i++) {
        const ckm_emit_recompute *r = &f->recomputes[i];
        const ckm_emit_recompute **worst = &list[r->op].worst;
        *worst = *worst == NULL || r->held_bytes > (*worst)->held_bytes ? r : *worst;
    }
    int32_t n = 0;
    int64_t extra = 0;
    for (int32_t v = 0; v < n_ops; v++) {
        extra += f->ops[v].extra_cost;
        if (list[v].worst != NULL) {
            list[n++] = list[v];
        }
    }
    qsort(list, (size_t)n, sizeof *list, by_extra_cost);
    char all[3 * NUMBER];
    snprintf(all, sizeof all, "%d operators, %d times, for %s of the computation", (int)n, (int)f->n_recomputes,
             cli_show_percent(cli_overhead(f->baseline_cost + extra, f->baseline_cost), text, sizeof text));
    putchar(':');
    cli_print_wrapped(stdout, all, 15, 2);
    for (int32_t i = 0; i < n && i < AGAIN_LISTED; i++) {
        char name[NUMBER];
        double share = f->baseline_cost > 0 ? (double)f->ops[list[i].op].extra_cost / (double)f->baseline_cost : 0;
        printf("%10s  %s\n", cli_show_percent(share, text, sizeof text),
               fitted_op(f, list[i].op, NAME_WIDTH, name, sizeof name));
        print_why(f, list[i].worst);
    }
    if (n > AGAIN_LISTED) {
        double rest = 0;
        for (int32_t i = AGAIN_LISTED; i < n; i++) {
            rest += (double)f->ops[list[i].op].extra_cost;
        }
        printf("%10s  in %d more\n",
               cli_show_percent(f->baseline_cost > 0 ? rest / (double)f->baseline_cost : 0, text, sizeof text),
               (int)n - AGAIN_LISTED);
    }
}

// ---- what is moved ----

// Transfers in the order of how long computation stands still for them.
static int by_stall(const void *a, const void *b)
{
    const ckm_emit_transfer *left = *(const ckm_emit_transfer *const *)a;
    const ckm_emit_transfer *right = *(const ckm_emit_transfer *const *)b;
    if (left->stall != right->stall) {
        return left->stall < right->stall ? 1 : -1;
    }
    return (left > right) - (left < right);
}

static void print_wait(const ckm_emit_facts *f, const ckm_emit_transfer *x)
{
    ckm_cost_unit unit = ckm_dataflow_cost_unit(f->df);
    char text[NUMBER];
    char queued[NUMBER];
    char name[NUMBER];
    char why[8 * NUMBER];
    int used = 0;
    printf("%10s  for %s\n", cli_show_cost((double)x->stall, unit, text, sizeof text),
           fitted_with_module(f, ckm_dataflow_producer(f->df, x->tensor),
                              ckm_dataflow_get_tensor(f->df, x->tensor).name, NAME_WIDTH, name, sizeof name));
    if (x->moment >= f->n_moments) {
        used = snprintf(why, sizeof why, "the end");
    } else if (x->out) {
        used = snprintf(why, sizeof why, "room for %s",
                        fitted_op(f, f->moments[x->moment].op, NAME_WIDTH, name, sizeof name));
    } else {
        used = snprintf(why, sizeof why, "%s", fitted_op(f, f->moments[x->moment].op, NAME_WIDTH, name, sizeof name));
    }
    used += snprintf(why + used, sizeof why - (size_t)used, " waits until it is %s, which takes %s",
                     x->out ? "out" : "back", cli_show_cost((double)(x->end - x->begin), unit, text, sizeof text));
    if (x->begin > x->issued) {
        snprintf(why + used, sizeof why - (size_t)used, " and begins %s late: the link is busy with others",
                 cli_show_cost((double)(x->begin - x->issued), unit, queued, sizeof queued));
    }
    printf("%12s", "");
    cli_print_wrapped(stdout, why, 12, 12);
}

// `list` has room for every transfer.
static void print_moved(const ckm_emit_facts *f, const ckm_emit_times *t, const ckm_emit_transfer **list)
{
    ckm_cost_unit unit = ckm_dataflow_cost_unit(f->df);
    char a[NUMBER];
    char b[NUMBER];
    char c[NUMBER];
    char d[NUMBER];
    char all[8 * NUMBER];
    if (t->n_transfers == 0) {
        return;
    }
    int64_t n_out = 0;
    int64_t n_waits = 0;
    for (int64_t i = 0; i < t->n_transfers; i++) {
        n_out += t->transfers[i].out;
        if (t->transfers[i].stall > 0) {
            list[n_waits++] = &t->transfers[i];
        }
    }
    qsort(list, (size_t)n_waits, sizeof *list, by_stall);
    heading("Moved");
    double total = t->total > 0 ? (double)t->total : 1;
    snprintf(all, sizeof all, "%s out in %lld copies, %s back in %lld; the links are busy for %s and %s of the step",
             cli_show_bytes(t->out_bytes, a, sizeof a), (long long)n_out, cli_show_bytes(t->in_bytes, b, sizeof b),
             (long long)(t->n_transfers - n_out), cli_show_percent((double)t->out_time / total, c, sizeof c),
             cli_show_percent((double)t->in_time / total, d, sizeof d));
    putchar(':');
    cli_print_wrapped(stdout, all, 6, 2);
    cli_line(stdout, 2, "  computation stands still for %s, %s of the step%s\n",
             cli_show_cost((double)t->stalled, unit, a, sizeof a),
             cli_show_percent((double)t->stalled / total, b, sizeof b), n_waits > 0 ? ":" : "");
    int64_t rest = 0;
    for (int64_t i = 0; i < n_waits; i++) {
        if (i < WAITS_LISTED) {
            print_wait(f, list[i]);
        } else {
            rest += list[i]->stall;
        }
    }
    if (n_waits > WAITS_LISTED) {
        printf("%10s  for %lld more\n", cli_show_cost((double)rest, unit, a, sizeof a),
               (long long)n_waits - WAITS_LISTED);
    }
}

// ---- the peak ----

static void print_peak(const ckm_emit_facts *f, const ckm_emit_life **lives)
{
    const ckm_emit_moment *peak = &f->moments[f->peak_moment];
    char text[NUMBER];
    char name[NUMBER];
    int32_t n = select_lives(f, is_live_at_peak, lives);
    heading("Peak");
    char where[8 * NUMBER];
    int used = snprintf(where, sizeof where, "of %s in %s%s, operator %lld of %lld to run",
                        cli_show_bytes(peak->bytes, text, sizeof text),
                        fitted_op(f, peak->op, NAME_WIDTH, name, sizeof name), peak->execution > 0 ? " (again)" : "",
                        (long long)f->peak_moment + 1, (long long)f->n_moments);
    if (f->budget_bytes >= 0) {
        snprintf(where + used, sizeof where - (size_t)used, "; budget %s",
                 cli_show_bytes(f->budget_bytes, text, sizeof text));
    }
    cli_print_wrapped(stdout, where, 4, 2);
    if (f->fixed_bytes + f->input_bytes > 0) {
        cli_line(stdout, 12, "%10s  that stay all the time: fixed bytes, inputs, parameters\n",
                 cli_show_bytes(f->fixed_bytes + f->input_bytes, text, sizeof text));
    }
    print_lives(f, lives, n, LIVE_LISTED, true);
}

// ---- the same as one object ----

static void print_json_lives(cli_json *json, const char *key, const ckm_emit_facts *f, const ckm_emit_life **lives,
                             int32_t n)
{
    cli_json_list(json, key);
    for (int32_t i = 0; i < n; i++) {
        cli_json_item(json);
        cli_json_text(json, "name", life_name(f, lives[i]));
        cli_json_text(json, "operator", ckm_dataflow_get_op(f->df, lives[i]->op).name);
        cli_json_text(json, "module", ckm_dataflow_get_op(f->df, lives[i]->op).module);
        cli_json_size(json, "bytes", lives[i]->bytes);
        cli_json_text(json, "class", ckm_emit_class_name(lives[i]->what));
        cli_json_close(json);
    }
    cli_json_list_close(json);
}

static void print_json_again(cli_json *json, const ckm_emit_facts *f)
{
    cli_json_list(json, "recomputed");
    for (int32_t i = 0; i < f->n_recomputes; i++) {
        const ckm_emit_recompute *r = &f->recomputes[i];
        cli_json_item(json);
        cli_json_text(json, "operator", ckm_dataflow_get_op(f->df, r->op).name);
        cli_json_text(json, "module", ckm_dataflow_get_op(f->df, r->op).module);
        cli_json_size(json, "cost", ckm_dataflow_get_op(f->df, r->op).cost);
        cli_json_size(json, "freed_bytes", r->freed_bytes);
        cli_json_text(json, "for", r->for_op >= 0 ? ckm_dataflow_get_op(f->df, r->for_op).name : NULL);
        cli_json_size(json, "held_bytes", r->fullest >= 0 ? r->held_bytes : -1);
        cli_json_close(json);
    }
    cli_json_list_close(json);
}

// Nothing where nothing is moved.
static void print_json_moved(cli_json *json, const ckm_emit_facts *f, const ckm_emit_times *t)
{
    if (t->n_transfers == 0) {
        return;
    }
    cli_json_size(json, "moved_out_bytes", t->out_bytes);
    cli_json_size(json, "moved_in_bytes", t->in_bytes);
    cli_json_size(json, "out_busy", t->out_time);
    cli_json_size(json, "in_busy", t->in_time);
    cli_json_size(json, "stalled", t->stalled);
    cli_json_list(json, "transfers");
    for (int64_t i = 0; i < t->n_transfers; i++) {
        const ckm_emit_transfer *x = &t->transfers[i];
        cli_json_item(json);
        cli_json_text(json, "tensor", ckm_dataflow_get_tensor(f->df, x->tensor).name);
        cli_json_text(json, "way", x->out ? "out" : "in");
        cli_json_size(json, "bytes", x->bytes);
        cli_json_size(json, "issued", x->issued);
        cli_json_size(json, "begin", x->begin);
        cli_json_size(json, "end", x->end);
        cli_json_size(json, "stall", x->stall);
        cli_json_text(json, "before",
                      x->moment < f->n_moments ? ckm_dataflow_get_op(f->df, f->moments[x->moment].op).name : NULL);
        cli_json_close(json);
    }
    cli_json_list_close(json);
}

static void print_json(const ckm_emit_facts *f, const ckm_emit_times *t, const ckm_emit_life **lives)
{
    static const char *const units[] = {"flops", "ns", "us"};
    const ckm_schedule_info *info = ckm_schedule_get_info(f->schedule);
    const ckm_emit_moment *peak = &f->moments[f->peak_moment];
    cli_json json;
    cli_json_begin(&json);
    cli_json_text(&json, "network", ckm_dataflow_name(f->df));
    cli_json_size(&json, "operators", ckm_dataflow_op_count(f->df));
    cli_json_text(&json, "strategy", info->strategy[0] != '\0' ? info->strategy : NULL);
    cli_json_bool(&json, "optimal", info->optimal);
    cli_json_size(&json, "budget_bytes", f->budget_bytes);
    cli_json_size(&json, "peak_bytes", f->peak_bytes);
    cli_json_size(&json, "baseline_peak_bytes", f->baseline_peak_bytes);
    cli_json_size(&json, "cost", f->cost);
    cli_json_size(&json, "baseline_cost", f->baseline_cost);
    cli_json_text(&json, "cost_unit", units[ckm_dataflow_cost_unit(f->df)]);
    cli_json_real(&json, "overhead", cli_overhead(f->cost, f->baseline_cost));
    cli_json_text(&json, "peak_operator", ckm_dataflow_get_op(f->df, peak->op).name);
    cli_json_size(&json, "standing_bytes", f->fixed_bytes + f->input_bytes);
    print_json_lives(&json, "kept", f, lives, f->turn_moment >= 0 ? select_lives(f, is_kept, lives) : 0);
    print_json_again(&json, f);
    print_json_moved(&json, f, t);
    print_json_lives(&json, "live_at_peak", f, lives, select_lives(f, is_live_at_peak, lives));
    cli_json_end(&json);
}

// Nothing is printed before everything that the page needs is there.
static int print_page(const ckm_emit_facts *f, bool as_json)
{
    const ckm_emit_life **lives = malloc((size_t)(f->n_lives > 0 ? f->n_lives : 1) * sizeof *lives);
    again *list = calloc((size_t)ckm_dataflow_op_count(f->df), sizeof *list);
    ckm_error err = CKM_ERROR_INIT;
    ckm_emit_times *times = NULL;
    const ckm_emit_transfer **waits = malloc((size_t)(ckm_schedule_transfer_count(f->schedule) + 1) * sizeof *waits);
    int outcome = CLI_DONE;
    if (lives == NULL || list == NULL || waits == NULL) {
        outcome = cli_failf("out of memory");
    } else if (ckm_emit_times_create(f, &times, &err) != CKM_OK) {
        outcome = cli_fail(&err);
    } else if (as_json) {
        print_json(f, times, lives);
        outcome = cli_finish_output();
    } else {
        print_summary(f);
        print_chart(f);
        print_kept(f, lives);
        print_again(f, list);
        print_moved(f, times, waits);
        print_peak(f, lives);
        outcome = cli_finish_output();
    }
    ckm_emit_times_free(times);
    free(waits);
    free(lives);
    free(list);
    return outcome;
}

static int run(const cli_command *command, const void *settings, char **arguments, int n_arguments)
{
    const explain_settings *s = settings;
    cli_planned planned;
    int outcome = cli_planned_load(command, &s->model, arguments, n_arguments, &planned);
    if (outcome < 0) {
        outcome = print_page(planned.facts, s->json);
    }
    cli_planned_dispose(&planned);
    return outcome;
}

static const cli_group groups[] = {
    {"Output", options, CLI_COUNT(options), 0},
    CLI_MODEL_GROUPS(offsetof(explain_settings, model)),
};
static const char *const argument_names[] = {"the schedule file"};

const cli_command cli_command_explain = {
    .name = "explain",
    .summary = "Explain on a page of text what a schedule does.",
    .usage = "[MODEL] schedule.json [--json] [options]",
    .description =
        "Shows what is kept from the forward to the backward pass, what is recomputed, for what, and why it could "
        "not be kept, where the peak is, and what is in memory then. 'checkmate report' shows the same as a "
        "page.\n\nMODEL is what the schedule was made for: a graph file, or a network with the same options. Without "
        "MODEL, the graph is the first .json file in the schedule's folder, in order of names, that the schedule "
        "fits.\n\nOf a schedule that moves tensors to a second memory it says what that takes, and which operator "
        "stands still for "
        "which copy.\n\n\"held, X would exceed the budget by B\" means: if this result had stayed in memory instead of "
        "being computed again, with all else the same, operator X would need B more than the budget.",
    .examples = "checkmate solve graph.json --budget 50% -o schedule.json\n"
                "checkmate explain schedule.json\n"
                "checkmate explain ResNet50 --batch 64 schedule.json\n",
    .groups = groups,
    .n_groups = CLI_COUNT(groups),
    .min_arguments = 1,
    .max_arguments = 2,
    .argument_names = argument_names,
    .defaults = &defaults,
    .settings_size = sizeof defaults,
    .run = run,
};
