// SPDX-License-Identifier: Apache-2.0
// Reading and writing checkmate-schedule JSON, versions 1 and 2.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "schedule/schedule.h"

#define FORMAT_NAME "checkmate-schedule"
#define MAX_FILE_BYTES (INT64_C(1) << 31)

static const char *const class_names[] = {
    [CKM_BOUND_NONE] = NULL, [CKM_BOUND_ANY] = "any", [CKM_BOUND_ORDER] = "order", [CKM_BOUND_FRONTIER] = "frontier"};

// How steps are written, by kind: the first word, and of a wait the last.
static const struct {
    const char *word, *way;
} forms[] = {
    [CKM_STEP_COMPUTE] = {"compute", NULL}, [CKM_STEP_FREE] = {"free", NULL},      [CKM_STEP_OUT] = {"out", NULL},
    [CKM_STEP_IN] = {"in", NULL},           [CKM_STEP_WAIT_OUT] = {"wait", "out"}, [CKM_STEP_WAIT_IN] = {"wait", "in"}};
enum { n_forms = sizeof forms / sizeof forms[0] };

// Pairs of the step being read.
typedef struct pair_list {
    int32_t (*items)[2];
    int32_t n, cap;
} pair_list;

static bool is_absent(const json_t *value)
{
    return value == NULL || json_is_null(value);
}

// An optional byte count or cost; null and absent leave *out alone.
static ckm_status get_amount(const json_t *root, const ckm_i_json_place *top, const char *key, int64_t *out,
                             ckm_error *err)
{
    if (is_absent(json_object_get(root, key))) {
        return CKM_OK;
    }
    return ckm_i_json_get_int(root, top, key, false, 0, INT64_MAX, out, err);
}

// An optional number, integer or not; null and absent leave *out alone.
static ckm_status get_number(const json_t *root, const ckm_i_json_place *top, const char *key, double *out,
                             ckm_error *err)
{
    const json_t *value = json_object_get(root, key);
    if (is_absent(value)) {
        return CKM_OK;
    }
    if (!json_is_number(value) || json_number_value(value) < 0) {
        ckm_i_json_place here = ckm_i_json_member(top, key);
        return ckm_i_json_error(err, &here, "must be a number of at least 0, or null");
    }
    *out = json_number_value(value);
    return CKM_OK;
}

static ckm_status get_class(const json_t *root, const ckm_i_json_place *top, ckm_bound_class *out, ckm_error *err)
{
    const char *word = NULL;
    if (is_absent(json_object_get(root, "bound_covers"))) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_json_get_text(root, top, "bound_covers", false, &word, err));
    for (int i = CKM_BOUND_ANY; i <= CKM_BOUND_FRONTIER; i++) {
        if (strcmp(word, class_names[i]) == 0) {
            *out = (ckm_bound_class)i;
            return CKM_OK;
        }
    }
    ckm_i_json_place here = ckm_i_json_member(top, "bound_covers");
    return ckm_i_json_error(err, &here, "\"%.60s\" is not one of \"any\", \"order\", \"frontier\"", word);
}

static ckm_status get_status(const json_t *root, const ckm_i_json_place *top, bool *optimal, ckm_error *err)
{
    const char *word = NULL;
    CKM_I_CHECK(ckm_i_json_get_text(root, top, "status", false, &word, err));
    if (word == NULL) {
        return CKM_OK;
    }
    if (strcmp(word, "optimal") != 0 && strcmp(word, "feasible") != 0) {
        ckm_i_json_place here = ckm_i_json_member(top, "status");
        return ckm_i_json_error(err, &here, "\"%.60s\" is not one of \"optimal\", \"feasible\"", word);
    }
    *optimal = strcmp(word, "optimal") == 0;
    return CKM_OK;
}

static ckm_status read_info(const json_t *root, const ckm_i_json_place *top, ckm_schedule_info *info, ckm_error *err)
{
    ckm_status status = CKM_OK;
    const char *graph = "";
    const char *strategy = "";
    CKM_I_TRY(ckm_i_json_get_text(root, top, "graph", false, &graph, err));
    CKM_I_TRY(ckm_i_json_get_text(root, top, "strategy", false, &strategy, err));
    CKM_I_TRY(get_amount(root, top, "budget_bytes", &info->budget_bytes, err));
    CKM_I_TRY(get_amount(root, top, "cost", &info->cost, err));
    CKM_I_TRY(get_amount(root, top, "baseline_cost", &info->baseline_cost, err));
    CKM_I_TRY(get_amount(root, top, "peak_bytes", &info->peak_bytes, err));
    CKM_I_TRY(get_number(root, top, "bound_cost", &info->bound_cost, err));
    CKM_I_TRY(get_class(root, top, &info->bound_covers, err));
    CKM_I_TRY(get_status(root, top, &info->optimal, err));
    CKM_I_TRY(get_number(root, top, "seconds", &info->seconds, err));
    ckm_i_text_copy(info->graph, sizeof info->graph, graph);
    ckm_i_text_copy(info->strategy, sizeof info->strategy, strategy);
cleanup:
    return status;
}

// A non-negative index at position i of the array at `place`.
static ckm_status read_index(const json_t *array, const ckm_i_json_place *place, size_t i, int32_t *out, ckm_error *err)
{
    const json_t *value = json_array_get(array, i);
    int64_t index = 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= INT32_MAX) {
        *out = (int32_t)json_integer_value(value);
        return CKM_OK;
    }
    ckm_i_json_place here = ckm_i_json_element(place, i);
    return ckm_i_json_int(value, &here, 0, INT32_MAX, &index, err);
}

static ckm_status read_pairs(const json_t *value, const ckm_i_json_place *place, pair_list *pairs, ckm_error *err)
{
    pairs->n = 0;
    if (!json_is_array(value)) {
        return ckm_i_json_error(err, place, "must be an array of in-place pairs [input, output]");
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *pair = json_array_get(value, i);
        ckm_i_json_place here = ckm_i_json_element(place, i);
        if (!json_is_array(pair) || json_array_size(pair) != 2) {
            return ckm_i_json_error(err, &here, "must be a pair [input, output] of tensor indices");
        }
        if (!CKM_I_GROW(pairs->items, pairs->n, pairs->cap)) {
            return ckm_i_error_memory(err);
        }
        for (size_t side = 0; side < 2; side++) {
            CKM_I_CHECK(read_index(pair, &here, side, &pairs->items[pairs->n][side], err));
        }
        pairs->n++;
    }
    return CKM_OK;
}

// The kind of a step from its first word and, of a wait, its last.
static ckm_status read_kind(const json_t *value, const ckm_i_json_place *place, const char *word, ckm_step_kind *kind,
                            ckm_error *err)
{
    const char *way = json_string_value(json_array_get(value, 2));
    bool known = false;
    for (int i = 0; i < n_forms; i++) {
        bool same = strcmp(word, forms[i].word) == 0;
        if (same && (forms[i].way == NULL || (way != NULL && strcmp(way, forms[i].way) == 0))) {
            *kind = (ckm_step_kind)i;
            return CKM_OK;
        }
        known = known || same;
    }
    if (known) {
        ckm_i_json_place here = ckm_i_json_element(place, 2);
        return ckm_i_json_error(err, &here, "must be \"out\" or \"in\"");
    }
    return ckm_i_json_error(err, place, "\"%.60s\" is none of \"compute\", \"free\", \"out\", \"in\", \"wait\"", word);
}

static ckm_status read_step(const json_t *value, const ckm_i_json_place *place, int version, pair_list *pairs,
                            ckm_schedule *s, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_step step = {.kind = CKM_STEP_COMPUTE};
    size_t size = json_array_size(value);
    const char *word = json_string_value(json_array_get(value, 0));
    if (word == NULL) {
        return ckm_i_json_error(err, place,
                                "must be [\"compute\", operator], [\"compute\", operator, pairs] or "
                                "[\"free\", tensor]");
    }
    CKM_I_CHECK(read_kind(value, place, word, &step.kind, err));
    if (step.kind > CKM_STEP_FREE && version < 2) {
        return ckm_i_json_error(err, place, "\"%s\" is of version 2: say \"version\": 2", word);
    }
    bool compute = step.kind == CKM_STEP_COMPUTE;
    size_t least = forms[step.kind].way != NULL ? 3 : 2;
    if (size < least || size > (compute ? 3 : least)) {
        return ckm_i_json_error(err, place, "a %s step has %s elements, not %zu", word,
                                compute      ? "2 or 3"
                                : least == 3 ? "3"
                                             : "2",
                                size);
    }
    CKM_I_TRY(read_index(value, place, 1, &step.index, err));
    if (compute && size == 3) {
        ckm_i_json_place here = ckm_i_json_element(place, 2);
        CKM_I_TRY(read_pairs(json_array_get(value, 2), &here, pairs, err));
        step.n_inplace = pairs->n;
        step.inplace = (const int32_t(*)[2])pairs->items;
    }
    CKM_I_TRY(ckm_schedule_append(s, &step, err));
cleanup:
    return status;
}

static ckm_status read_schedule(const json_t *root, const char *file, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *s = NULL;
    pair_list pairs = {0};
    const json_t *steps = NULL;
    int version = 1;
    ckm_i_json_place top = ckm_i_json_root(file);

    CKM_I_TRY(ckm_i_json_check_versions(root, file, FORMAT_NAME, 2, &version, err));
    CKM_I_TRY(ckm_schedule_create(&s, err));
    CKM_I_TRY(read_info(root, &top, &s->info, err));
    CKM_I_TRY(ckm_i_json_get_array(root, &top, "steps", true, &steps, err));
    ckm_i_json_place here = ckm_i_json_member(&top, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        ckm_i_json_place element = ckm_i_json_element(&here, i);
        CKM_I_TRY(read_step(json_array_get(steps, i), &element, version, &pairs, s, err));
    }
    *out = s;
    s = NULL;
cleanup:
    ckm_schedule_free(s);
    free(pairs.items);
    return ckm_i_error_in_file(err, status, file);
}

ckm_status ckm_schedule_parse(const char *text, size_t size_bytes, const char *file_for_errors, ckm_schedule **out,
                              ckm_error *err)
{
    CKM_I_NEED(text, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    CKM_I_CHECK(ckm_i_json_parse(text, size_bytes, file_for_errors, &root, err));
    ckm_status status = read_schedule(root, file_for_errors, out, err);
    json_decref(root);
    return status;
}

ckm_status ckm_schedule_read(const char *path, ckm_schedule **out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    CKM_I_CHECK(ckm_i_json_read(path, MAX_FILE_BYTES, &root, err));
    ckm_status status = read_schedule(root, path, out, err);
    json_decref(root);
    return status;
}

// An amount that is unknown when negative.
static void write_amount(FILE *to, const char *key, int64_t amount)
{
    if (amount < 0) {
        fprintf(to, ", \"%s\": null", key);
    } else {
        fprintf(to, ", \"%s\": %lld", key, (long long)amount);
    }
}

static void write_info(FILE *to, const ckm_schedule_info *info, int version)
{
    fprintf(to, "{\"format\": \"" FORMAT_NAME "\", \"version\": %d, \"graph\": ", version);
    ckm_json_write_text(to, info->graph);
    fputs(",\n \"strategy\": ", to);
    ckm_json_write_text(to, info->strategy);
    fprintf(to, ", \"status\": \"%s\", \"seconds\": ", info->optimal ? "optimal" : "feasible");
    ckm_json_write_number(to, info->seconds);
    write_amount(to, "budget_bytes", info->budget_bytes);
    write_amount(to, "peak_bytes", info->peak_bytes);
    write_amount(to, "cost", info->cost);
    write_amount(to, "baseline_cost", info->baseline_cost);
    fputs(",\n \"bound_cost\": ", to);
    ckm_json_write_number(to, info->bound_cost);
    if (info->bound_covers > CKM_BOUND_NONE && info->bound_covers <= CKM_BOUND_FRONTIER) {
        fprintf(to, ", \"bound_covers\": \"%s\"", class_names[info->bound_covers]);
    } else {
        fputs(", \"bound_covers\": null", to);
    }
}

static void write_steps(FILE *to, const ckm_schedule *s)
{
    fputs(",\n \"steps\": [", to);
    for (int64_t i = 0; i < s->n_steps; i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        fprintf(to, "%s\n  [\"%s\", %d", i > 0 ? "," : "", forms[step.kind].word, (int)step.index);
        if (forms[step.kind].way != NULL) {
            fprintf(to, ", \"%s\"", forms[step.kind].way);
        }
        for (int32_t k = 0; k < step.n_inplace; k++) {
            fprintf(to, "%s[%d, %d]", k > 0 ? ", " : ", [", (int)step.inplace[k][0], (int)step.inplace[k][1]);
        }
        fputs(step.n_inplace > 0 ? "]]" : "]", to);
    }
    fputs("]}\n", to);
}

ckm_status ckm_schedule_write(const ckm_schedule *s, const char *path, ckm_error *err)
{
    CKM_I_NEED(s, err);
    CKM_I_NEED(path, err);
    ckm_i_writer writer;
    CKM_I_CHECK(ckm_i_writer_open(&writer, path, err));
    write_info(writer.stream, &s->info, s->n_transfers > 0 ? 2 : 1);
    write_steps(writer.stream, s);
    return ckm_i_writer_commit(&writer, err);
}
