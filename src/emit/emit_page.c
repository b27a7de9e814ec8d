// SPDX-License-Identifier: Apache-2.0
// The page for the browser: page.html with its style, its scripts and the facts as JSON put in their places.
#include <checkmate/emit.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "emit/emit_assets.h"
#include "emit/emit_blocks.h"
#include "emit/emit_figures.h"

typedef struct page {
    FILE *to;
    const ckm_emit_facts *f;
    const ckm_emit_words *words;
    const ckm_emit_times *times;
    ckm_i_emit_blocks blocks;
} page;

// ---- text that may come from anywhere ----

// One character at `at`: writes it through `escape` or as it is, malformed bytes as U+FFFD; gives its length.
static size_t put_character(FILE *to, const char *at, const char *escaped)
{
    size_t size = ckm_i_text_utf8(at);
    if (escaped != NULL) {
        fputs(escaped, to);
    } else if (size == 0) {
        fputs("\xef\xbf\xbd", to);
    } else {
        fwrite(at, 1, size, to);
    }
    return size > 0 ? size : 1;
}

// Inside HTML text.
static void put_html(FILE *to, const char *text)
{
    while (*text != '\0') {
        const char *escaped = NULL;
        switch (*text) {
        case '<':
            escaped = "&lt;";
            break;
        case '>':
            escaped = "&gt;";
            break;
        case '&':
            escaped = "&amp;";
            break;
        case '"':
            escaped = "&quot;";
            break;
        default:
            escaped = (unsigned char)*text < 0x20 ? " " : NULL;
            break;
        }
        text += put_character(to, text, escaped);
    }
}

// A JSON string inside a <script> element: nothing in it can end the element or open a comment.
static void put_string(FILE *to, const char *text)
{
    fputc('"', to);
    while (*text != '\0') {
        char code[8];
        const char *escaped = NULL;
        if (*text == '"' || *text == '\\' || *text == '<' || *text == '>' || *text == '&' ||
            (unsigned char)*text < 0x20 || *text == 0x7f) {
            snprintf(code, sizeof code, "\\u%04x", (unsigned char)*text);
            escaped = code;
        }
        text += put_character(to, text, escaped);
    }
    fputc('"', to);
}

// ---- the facts as JSON; page.js reads the arrays by position ----

static void put_member(FILE *to, const char *name, int64_t value)
{
    fprintf(to, "\"%s\":%lld,\n", name, (long long)value);
}

static void put_text_member(FILE *to, const char *name, const char *text)
{
    fprintf(to, "\"%s\":", name);
    if (text != NULL) {
        put_string(to, text);
    } else {
        fputs("null", to);
    }
    fputs(",\n", to);
}

// name, kind, cost, workspace, executions, extra cost, bytes freed, class, operators it reads from, module, source, block,
// bytes of its outputs
static void put_op(const page *p, int32_t v)
{
    FILE *to = p->to;
    const ckm_emit_facts *f = p->f;
    ckm_dataflow_op op = ckm_dataflow_get_op(f->df, v);
    const ckm_emit_op_fact *fact = &f->ops[v];
    const char *separator = "";
    put_string(to, op.name);
    fprintf(to, ",%d,%lld,%lld,%d,%lld,%lld,%d,[", (int)op.kind, (long long)op.cost, (long long)op.workspace_bytes,
            (int)fact->executions, (long long)fact->extra_cost, (long long)fact->freed_bytes, (int)fact->what);
    for (int32_t i = 0; i < op.n_inputs; i++) {
        int32_t from = ckm_dataflow_producer(f->df, op.inputs[i]);
        bool repeated = from < 0;
        for (int32_t j = 0; j < i && !repeated; j++) {
            repeated = ckm_dataflow_producer(f->df, op.inputs[j]) == from;
        }
        if (!repeated) {
            fprintf(to, "%s%d", separator, (int)from);
            separator = ",";
        }
    }
    fputs("],", to);
    put_string(to, op.module);
    fputc(',', to);
    put_string(to, op.source);
    fprintf(to, ",%d,%lld", (int)p->blocks.of_op[v], (long long)ckm_i_emit_output_bytes(f->df, v));
}

static void put_block(const page *p, int32_t block)
{
    char name[512];
    put_string(p->to, ckm_i_emit_blocks_name(p->f->df, &p->blocks, block, name, sizeof name));
}

static void put_tensor(const page *p, int32_t i)
{
    put_string(p->to, ckm_dataflow_get_tensor(p->f->df, i).name);
}

// operator, execution, bytes
static void put_moment(const page *p, int32_t i)
{
    const ckm_emit_moment *m = &p->f->moments[i];
    fprintf(p->to, "%d,%d,%lld", (int)m->op, (int)m->execution, (long long)m->bytes);
}

static void put_baseline(const page *p, int32_t i)
{
    fprintf(p->to, "%lld", (long long)p->f->baseline_bytes[i]);
}

// tensor, operator, class (one more than there are: read back), first, last, bytes, offset, handed over
static void put_life(const page *p, int32_t i)
{
    const ckm_emit_life *life = &p->f->lives[i];
    fprintf(p->to, "%d,%d,%d,%lld,%lld,%lld,%lld,%d", (int)life->tensor, (int)life->op,
            p->times->read_back[i] ? CKM_EMIT_N_CLASSES : (int)life->what, (long long)life->first,
            (long long)life->last, (long long)life->bytes, (long long)life->offset, life->handed_over ? 1 : 0);
}

// operator, moment, tensor, bytes freed, first and last moment gone, fullest of them, bytes if held, for whom, when
static void put_recompute(const page *p, int32_t i)
{
    const ckm_emit_recompute *r = &p->f->recomputes[i];
    fprintf(p->to, "%d,%lld,%d,%lld,%lld,%lld,%lld,%lld,%d,%lld", (int)r->op, (long long)r->moment, (int)r->tensor,
            (long long)r->freed_bytes, (long long)r->gone_first, (long long)r->gone_last, (long long)r->fullest,
            (long long)r->held_bytes, (int)r->for_op, (long long)r->for_moment);
}

// tensor, out, bytes, issued, begin, end, stall, moment
static void put_transfer(const page *p, int32_t i)
{
    const ckm_emit_transfer *x = &p->times->transfers[i];
    fprintf(p->to, "%d,%d,%lld,%lld,%lld,%lld,%lld,%lld", (int)x->tensor, x->out ? 1 : 0, (long long)x->bytes,
            (long long)x->issued, (long long)x->begin, (long long)x->end, (long long)x->stall, (long long)x->moment);
}

// When each moment begins, where something is moved.
static void put_begin(const page *p, int32_t i)
{
    fprintf(p->to, "%lld", (long long)p->times->begin[i]);
}

// A list of `n` rows, each an array unless it is a single value.
static void put_list(const page *p, const char *name, int64_t n, bool arrays, void (*put)(const page *, int32_t))
{
    FILE *to = p->to;
    fprintf(to, "\"%s\":[", name);
    for (int32_t i = 0; i < n; i++) {
        fputs(i > 0 ? (i % 8 == 0 ? ",\n" : ",") : "", to);
        fputs(arrays ? "[" : "", to);
        put(p, i);
        fputs(arrays ? "]" : "", to);
    }
    fputs("],\n", to);
}

static void put_optional(FILE *to, const char *text)
{
    put_string(to, text != NULL ? text : "");
}

// name, note, peak, cost
static void put_ways(FILE *to, const ckm_emit_words *words)
{
    fputs("\"ways\":[", to);
    for (int32_t i = 0; i < words->n_ways; i++) {
        const ckm_emit_way *way = &words->ways[i];
        fputs(i > 0 ? ",[" : "[", to);
        put_optional(to, way->name);
        fputc(',', to);
        put_optional(to, way->note);
        fprintf(to, ",%lld,%lld]", (long long)way->peak_bytes, (long long)way->cost);
    }
    fputs("],\n", to);
}

// title, code, note
static void put_recipes(FILE *to, const ckm_emit_words *words)
{
    fputs("\"recipes\":[", to);
    for (int32_t i = 0; i < words->n_recipes; i++) {
        const ckm_emit_recipe *recipe = &words->recipes[i];
        fputs(i > 0 ? ",[" : "[", to);
        put_optional(to, recipe->title);
        fputc(',', to);
        put_optional(to, recipe->code);
        fputc(',', to);
        put_optional(to, recipe->note);
        fputc(']', to);
    }
    fputs("],\n", to);
}

static void put_data(const page *p)
{
    static const char *const units[] = {"flops", "ns", "us"};
    static const char *const classes[] = {NULL, "any", "order", "frontier"};
    FILE *to = p->to;
    const ckm_emit_facts *f = p->f;
    const ckm_schedule_info *info = ckm_schedule_get_info(f->schedule);
    fputs("{", to);
    put_text_member(to, "name", ckm_dataflow_name(f->df));
    put_text_member(to, "unit", units[ckm_dataflow_cost_unit(f->df)]);
    put_text_member(to, "graphFile", p->words->graph_file);
    put_text_member(to, "scheduleFile", p->words->schedule_file);
    put_text_member(to, "chosen", p->words->chosen);
    put_ways(to, p->words);
    put_recipes(to, p->words);
    put_text_member(to, "strategy", info->strategy);
    put_text_member(to, "boundCovers", classes[info->bound_covers]);
    fputs("\"bound\":", to);
    ckm_json_write_number(to, info->bound_cost);
    fprintf(to, ",\n\"optimal\":%s,\n", info->optimal ? "true" : "false");
    put_member(to, "cost", f->cost);
    put_member(to, "baselineCost", f->baseline_cost);
    put_member(to, "peak", f->peak_bytes);
    put_member(to, "baselinePeak", f->baseline_peak_bytes);
    put_member(to, "baselinePeakOp", f->baseline_peak_op);
    put_member(to, "budget", f->budget_bytes);
    put_member(to, "fixed", f->fixed_bytes);
    put_member(to, "inputs", f->input_bytes);
    put_member(to, "peakMoment", f->peak_moment);
    put_member(to, "turn", f->turn_moment);
    put_member(to, "arena", f->arena.arena_bytes);
    put_member(to, "arenaBound", f->arena.bound_bytes);
    put_list(p, "ops", ckm_dataflow_op_count(f->df), true, put_op);
    put_list(p, "blocks", p->blocks.n, false, put_block);
    put_list(p, "tensors", ckm_dataflow_tensor_count(f->df), false, put_tensor);
    put_list(p, "moments", f->n_moments, true, put_moment);
    put_list(p, "baseline", ckm_dataflow_op_count(f->df), false, put_baseline);
    put_list(p, "lives", f->n_lives, true, put_life);
    put_list(p, "recomputes", f->n_recomputes, true, put_recompute);
    put_list(p, "transfers", p->times->n_transfers, true, put_transfer);
    put_list(p, "begins", p->times->n_transfers > 0 ? f->n_moments : 0, false, put_begin);
    put_member(to, "stalled", p->times->stalled);
    fputs("\"classes\":[", to);
    for (int c = 0; c < CKM_EMIT_N_CLASSES; c++) {
        put_string(to, ckm_emit_class_name((ckm_emit_class)c));
        fputc(',', to);
    }
    fputs("\"read back\"]}", to);
}

// ---- the page ----

static const ckm_i_asset *find_asset(const char *name, size_t length)
{
    for (size_t i = 0; i < ckm_i_n_assets; i++) {
        if (strlen(ckm_i_assets[i].name) == length && memcmp(ckm_i_assets[i].name, name, length) == 0) {
            return &ckm_i_assets[i];
        }
    }
    return NULL;
}

// What stands in page.html as <!--@name-->.
static ckm_status put_part(const page *p, const char *name, size_t length, ckm_error *err)
{
    const ckm_i_asset *asset = find_asset(name, length);
    if (asset != NULL) {
        fwrite(asset->data, 1, asset->size, p->to);
    } else if (length == 5 && memcmp(name, "title", length) == 0) {
        put_html(p->to, ckm_dataflow_name(p->f->df));
        if (p->f->batch > 0) {
            fprintf(p->to, ", batch %lld", (long long)p->f->batch);
        }
    } else if (length == 4 && memcmp(name, "data", length) == 0) {
        put_data(p);
    } else {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "the page asks for '%.*s', which was not built in", (int)length,
                           name);
    }
    return CKM_OK;
}

static ckm_status put_page(const page *p, ckm_error *err)
{
    static const char open[] = "<!--@";
    static const char close[] = "-->";
    const ckm_i_asset *frame = find_asset("page", 4);
    if (frame == NULL) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "the page was not built in");
    }
    const char *at = (const char *)frame->data;
    const char *end = at + frame->size;  // a zero byte stands there
    while (at < end) {
        const char *marker = strstr(at, open);
        const char *stop = marker != NULL ? strstr(marker, close) : NULL;
        if (stop == NULL) {
            fwrite(at, 1, (size_t)(end - at), p->to);
            break;
        }
        fwrite(at, 1, (size_t)(marker - at), p->to);
        const char *name = marker + sizeof open - 1;
        CKM_I_CHECK(put_part(p, name, (size_t)(stop - name), err));
        at = stop + sizeof close - 1;
    }
    return CKM_OK;
}

ckm_status ckm_emit_page_with(const ckm_emit_facts *facts, const ckm_emit_words *words, const char *path,
                              ckm_error *err)
{
    static const ckm_emit_words none = {0};
    CKM_I_NEED(facts, err);
    CKM_I_NEED(path, err);
    if (words != NULL &&
        ((words->n_ways > 0 && words->ways == NULL) || (words->n_recipes > 0 && words->recipes == NULL))) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a list of words is NULL");
    }
    page p = {.f = facts, .words = words != NULL ? words : &none};
    ckm_emit_times *times = NULL;
    ckm_i_writer writer = {0};
    ckm_status status = CKM_OK;
    CKM_I_CHECK(ckm_i_emit_blocks_create(facts->df, &p.blocks, err));
    CKM_I_TRY(ckm_emit_times_create(facts, &times, err));
    p.times = times;
    CKM_I_TRY(ckm_i_writer_open(&writer, path, err));
    p.to = writer.stream;
    CKM_I_TRY(put_page(&p, err));
    CKM_I_TRY(ckm_i_writer_commit(&writer, err));
cleanup:
    ckm_i_writer_abort(&writer);
    ckm_emit_times_free(times);
    ckm_i_emit_blocks_dispose(&p.blocks);
    return status;
}

ckm_status ckm_emit_page(const ckm_emit_facts *facts, const char *graph_file, const char *schedule_file,
                         const char *path, ckm_error *err)
{
    const ckm_emit_words words = {.graph_file = graph_file, .schedule_file = schedule_file};
    return ckm_emit_page_with(facts, &words, path, err);
}
