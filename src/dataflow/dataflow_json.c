// SPDX-License-Identifier: Apache-2.0
// Reading and writing checkmate-graph JSON, versions 1 and 2.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "dataflow/dataflow.h"

#define FORMAT_NAME "checkmate-graph"
#define MAX_FILE_BYTES (INT64_C(1) << 31)

static const char *const unit_names[] = {[CKM_COST_FLOPS] = "flops", [CKM_COST_NS] = "ns", [CKM_COST_US] = "us"};
static const char *const kind_names[] = {[CKM_OP_FORWARD] = "forward",
                                         [CKM_OP_LOSS] = "loss",
                                         [CKM_OP_BACKWARD] = "backward",
                                         [CKM_OP_UPDATE] = "update",
                                         [CKM_OP_LOAD] = "load"};
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

// Index arrays of the operator being read; they grow to the largest.
typedef struct index_list {
    int32_t *items;
    int32_t n, cap;
} index_list;

typedef struct reader {
    ckm_dataflow *df;
    int64_t n_tensors;
    int version;
    index_list inputs, outputs, inplace;  // inplace: pairs, flattened
    ckm_error *err;
} reader;

// An optional member whose value is one of `names`.
static ckm_status get_word(const json_t *object, const ckm_i_json_place *place, const char *key,
                           const char *const *names, int n_names, int *out, ckm_error *err)
{
    const char *word = NULL;
    CKM_I_CHECK(ckm_i_json_get_text(object, place, key, false, &word, err));
    if (word == NULL) {
        return CKM_OK;
    }
    char known[128] = "";
    for (int i = 0; i < n_names; i++) {
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return CKM_OK;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s\"%s\"", i > 0 ? ", " : "", names[i]);
    }
    ckm_i_json_place here = ckm_i_json_member(place, key);
    return ckm_i_json_error(err, &here, "\"%.60s\" is not one of %s", word, known);
}

// A tensor index; `place` is the array that holds it.
static ckm_status read_index(const reader *r, const json_t *value, const ckm_i_json_place *place, size_t i,
                             int32_t *out)
{
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < r->n_tensors) {
        *out = (int32_t)json_integer_value(value);
        return CKM_OK;
    }
    ckm_i_json_place here = ckm_i_json_element(place, i);
    if (!json_is_integer(value)) {
        return ckm_i_json_error(r->err, &here, "must be an integer, the index of a tensor");
    }
    return ckm_i_json_error(r->err, &here, "there is no tensor %lld; the file has %lld, counted from 0",
                            (long long)json_integer_value(value), (long long)r->n_tensors);
}

static ckm_status push(index_list *list, int32_t item, ckm_error *err)
{
    if (!CKM_I_GROW(list->items, list->n, list->cap)) {
        return ckm_i_error_memory(err);
    }
    list->items[list->n++] = item;
    return CKM_OK;
}

// Member `key` of an operator, an array of tensor indices, into `list`.
static ckm_status read_indices(reader *r, const json_t *op, const ckm_i_json_place *place, const char *key,
                               index_list *list)
{
    const json_t *array = NULL;
    CKM_I_CHECK(ckm_i_json_get_array(op, place, key, true, &array, r->err));
    ckm_i_json_place here = ckm_i_json_member(place, key);
    list->n = 0;
    for (size_t i = 0; i < json_array_size(array); i++) {
        int32_t index = 0;
        CKM_I_CHECK(read_index(r, json_array_get(array, i), &here, i, &index));
        CKM_I_CHECK(push(list, index, r->err));
    }
    return CKM_OK;
}

static ckm_status read_inplace(reader *r, const json_t *op, const ckm_i_json_place *place)
{
    const json_t *array = NULL;
    r->inplace.n = 0;
    CKM_I_CHECK(ckm_i_json_get_array(op, place, "inplace", false, &array, r->err));
    if (array == NULL) {
        return CKM_OK;
    }
    ckm_i_json_place list_place = ckm_i_json_member(place, "inplace");
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *pair = json_array_get(array, i);
        ckm_i_json_place here = ckm_i_json_element(&list_place, i);
        if (!json_is_array(pair) || json_array_size(pair) != 2) {
            return ckm_i_json_error(r->err, &here, "must be a pair [input, output] of tensor indices");
        }
        for (size_t side = 0; side < 2; side++) {
            int32_t index = 0;
            CKM_I_CHECK(read_index(r, json_array_get(pair, side), &here, side, &index));
            CKM_I_CHECK(push(&r->inplace, index, r->err));
        }
    }
    return CKM_OK;
}

static const char *const graph_members[] = {"format",  "version", "name",    "cost_unit",    "fixed_bytes",
                                            "tensors", "ops",     "results", "second_memory"};
static const char *const memory_members[] = {"name",       "bytes",      "out_bytes_per_second", "in_bytes_per_second",
                                             "latency_ns", "nj_per_byte"};
static const char *const tensor_members[] = {"name", "bytes", "alias_of"};
static const char *const op_members[] = {"name",       "kind",         "cost",   "workspace_bytes",
                                         "load_bytes", "recomputable", "inputs", "outputs",
                                         "inplace",    "module",       "source"};

static ckm_status read_tensor(reader *r, const json_t *value, const ckm_i_json_place *place)
{
    ckm_status status = CKM_OK;
    ckm_dataflow_tensor tensor = {.name = NULL};
    if (!json_is_object(value)) {
        return ckm_i_json_error(r->err, place, "must be an object with a member \"bytes\"");
    }
    CKM_I_TRY(ckm_i_json_check_names(value, place, tensor_members, COUNT_OF(tensor_members), r->err));
    CKM_I_TRY(ckm_i_json_get_text(value, place, "name", false, &tensor.name, r->err));
    CKM_I_TRY(ckm_i_json_get_int(value, place, "bytes", true, 0, INT64_MAX, &tensor.bytes, r->err));
    const json_t *owner = json_object_get(value, "alias_of");
    if (owner != NULL) {
        int64_t index = -1;
        ckm_i_json_place here = ckm_i_json_member(place, "alias_of");
        CKM_I_TRY(ckm_i_json_int(owner, &here, 0, r->n_tensors - 1, &index, r->err));
        tensor.alias_of = (int32_t)index;
        tensor.is_view = true;
    }
    CKM_I_TRY(ckm_dataflow_add_tensor(r->df, &tensor, NULL, r->err));
cleanup:
    return status;
}

static ckm_status read_op(reader *r, const json_t *value, const ckm_i_json_place *place)
{
    ckm_status status = CKM_OK;
    ckm_dataflow_op op = {.kind = CKM_OP_FORWARD};
    bool recomputable = true;
    int kind = CKM_OP_FORWARD;
    if (!json_is_object(value)) {
        return ckm_i_json_error(r->err, place, "must be an object with members \"cost\", \"inputs\" and \"outputs\"");
    }
    CKM_I_TRY(ckm_i_json_check_names(value, place, op_members, COUNT_OF(op_members), r->err));
    CKM_I_TRY(ckm_i_json_get_text(value, place, "name", false, &op.name, r->err));
    CKM_I_TRY(ckm_i_json_get_text(value, place, "module", false, &op.module, r->err));
    CKM_I_TRY(ckm_i_json_get_text(value, place, "source", false, &op.source, r->err));
    CKM_I_TRY(get_word(value, place, "kind", kind_names, COUNT_OF(kind_names), &kind, r->err));
    CKM_I_TRY(ckm_i_json_get_int(value, place, "cost", true, 0, INT64_MAX, &op.cost, r->err));
    CKM_I_TRY(ckm_i_json_get_int(value, place, "workspace_bytes", false, 0, INT64_MAX, &op.workspace_bytes, r->err));
    CKM_I_TRY(ckm_i_json_get_bool(value, place, "recomputable", &recomputable, r->err));
    op.run_once = !recomputable;
    if (kind == CKM_OP_LOAD && r->version < 2) {
        ckm_i_json_place here = ckm_i_json_member(place, "kind");
        return ckm_i_json_error(r->err, &here, "\"load\" is of version 2: say \"version\": 2");
    }
    if (kind == CKM_OP_LOAD) {
        CKM_I_TRY(ckm_i_json_get_int(value, place, "load_bytes", false, 1, INT64_MAX, &op.load_bytes, r->err));
    }
    CKM_I_TRY(read_indices(r, value, place, "inputs", &r->inputs));
    CKM_I_TRY(read_indices(r, value, place, "outputs", &r->outputs));
    CKM_I_TRY(read_inplace(r, value, place));
    op.kind = (ckm_op_kind)kind;
    op.n_inputs = r->inputs.n;
    op.inputs = r->inputs.items;
    op.n_outputs = r->outputs.n;
    op.outputs = r->outputs.items;
    op.n_inplace = r->inplace.n / 2;
    op.inplace = (const int32_t(*)[2])(const void *)r->inplace.items;
    CKM_I_TRY(ckm_dataflow_add_op(r->df, &op, NULL, r->err));
cleanup:
    return status;
}

// A memory's size: null and absent are no limit.
static ckm_status read_second_memory(reader *r, const json_t *root, const ckm_i_json_place *top)
{
    const json_t *value = json_object_get(root, "second_memory");
    ckm_i_json_place here = ckm_i_json_member(top, "second_memory");
    ckm_second_memory memory = {.bytes = -1};
    if (value == NULL || json_is_null(value)) {
        return CKM_OK;
    }
    if (r->version < 2) {
        return ckm_i_json_error(r->err, &here, "is of version 2: say \"version\": 2");
    }
    if (!json_is_object(value)) {
        return ckm_i_json_error(r->err, &here,
                                "must be an object with \"out_bytes_per_second\" and \"in_bytes_per_second\"");
    }
    CKM_I_CHECK(ckm_i_json_check_names(value, &here, memory_members, COUNT_OF(memory_members), r->err));
    const json_t *bytes = json_object_get(value, "bytes");
    CKM_I_CHECK(ckm_i_json_get_text(value, &here, "name", false, &memory.name, r->err));
    if (bytes != NULL && !json_is_null(bytes)) {
        CKM_I_CHECK(ckm_i_json_get_int(value, &here, "bytes", true, 0, INT64_MAX, &memory.bytes, r->err));
    }
    CKM_I_CHECK(ckm_i_json_get_int(value, &here, "out_bytes_per_second", true, 1, INT64_MAX,
                                   &memory.out_bytes_per_second, r->err));
    CKM_I_CHECK(ckm_i_json_get_int(value, &here, "in_bytes_per_second", true, 1, INT64_MAX, &memory.in_bytes_per_second,
                                   r->err));
    CKM_I_CHECK(ckm_i_json_get_int(value, &here, "latency_ns", false, 0, INT64_MAX, &memory.latency_ns, r->err));
    return ckm_dataflow_set_second_memory(r->df, &memory, r->err);
}

static ckm_status read_results(reader *r, const json_t *root, const ckm_i_json_place *top)
{
    const json_t *results = NULL;
    CKM_I_CHECK(ckm_i_json_get_array(root, top, "results", false, &results, r->err));
    ckm_i_json_place here = ckm_i_json_member(top, "results");
    for (size_t i = 0; i < json_array_size(results); i++) {
        int32_t index = 0;
        CKM_I_CHECK(read_index(r, json_array_get(results, i), &here, i, &index));
        CKM_I_CHECK(ckm_dataflow_add_result(r->df, index, r->err));
    }
    return CKM_OK;
}

static ckm_status read_graph(const json_t *root, const char *file, ckm_dataflow **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    reader r = {.err = err};
    ckm_i_json_place top = ckm_i_json_root(file);
    const char *name = NULL;
    const json_t *tensors = NULL;
    const json_t *ops = NULL;
    int64_t fixed_bytes = 0;
    int unit = CKM_COST_FLOPS;

    CKM_I_TRY(ckm_i_json_check_versions(root, file, FORMAT_NAME, 2, &r.version, err));
    CKM_I_TRY(ckm_i_json_check_names(root, &top, graph_members, COUNT_OF(graph_members), err));
    CKM_I_TRY(ckm_i_json_get_text(root, &top, "name", false, &name, err));
    CKM_I_TRY(get_word(root, &top, "cost_unit", unit_names, COUNT_OF(unit_names), &unit, err));
    CKM_I_TRY(ckm_i_json_get_int(root, &top, "fixed_bytes", false, 0, INT64_MAX, &fixed_bytes, err));
    CKM_I_TRY(ckm_i_json_get_array(root, &top, "tensors", true, &tensors, err));
    CKM_I_TRY(ckm_i_json_get_array(root, &top, "ops", true, &ops, err));
    CKM_I_TRY(ckm_dataflow_create(name, (ckm_cost_unit)unit, fixed_bytes, &r.df, err));
    r.n_tensors = (int64_t)json_array_size(tensors);
    ckm_i_json_place here = ckm_i_json_member(&top, "tensors");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        ckm_i_json_place element = ckm_i_json_element(&here, i);
        CKM_I_TRY(read_tensor(&r, json_array_get(tensors, i), &element));
    }
    here = ckm_i_json_member(&top, "ops");
    for (size_t i = 0; i < json_array_size(ops); i++) {
        ckm_i_json_place element = ckm_i_json_element(&here, i);
        CKM_I_TRY(read_op(&r, json_array_get(ops, i), &element));
    }
    CKM_I_TRY(read_second_memory(&r, root, &top));
    CKM_I_TRY(read_results(&r, root, &top));
    CKM_I_TRY(ckm_dataflow_finish(r.df, err));
    *out = r.df;
    r.df = NULL;
cleanup:
    ckm_dataflow_free(r.df);
    free(r.inputs.items);
    free(r.outputs.items);
    free(r.inplace.items);
    return ckm_i_error_in_file(err, status, file);
}

ckm_status ckm_dataflow_parse(const char *text, size_t size_bytes, const char *file_for_errors, ckm_dataflow **out,
                              ckm_error *err)
{
    CKM_I_NEED(text, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    CKM_I_CHECK(ckm_i_json_parse(text, size_bytes, file_for_errors, &root, err));
    ckm_status status = read_graph(root, file_for_errors, out, err);
    json_decref(root);
    return status;
}

ckm_status ckm_dataflow_read(const char *path, ckm_dataflow **out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    CKM_I_CHECK(ckm_i_json_read(path, MAX_FILE_BYTES, &root, err));
    ckm_status status = read_graph(root, path, out, err);
    json_decref(root);
    return status;
}

static void write_indices(FILE *to, const char *key, const int32_t *items, int32_t n)
{
    fprintf(to, ", \"%s\": [", key);
    for (int32_t i = 0; i < n; i++) {
        fprintf(to, "%s%d", i > 0 ? ", " : "", (int)items[i]);
    }
    putc(']', to);
}

// A text for people, where there is one.
static void write_place(FILE *to, const char *key, const char *text)
{
    if (text[0] != '\0') {
        fprintf(to, ", \"%s\": ", key);
        ckm_json_write_text(to, text);
    }
}

static void write_op(FILE *to, const ckm_i_dataflow_op *op)
{
    fputs("{\"name\": ", to);
    ckm_json_write_text(to, op->name);
    fprintf(to, ", \"kind\": \"%s\", \"cost\": %lld", kind_names[op->kind], (long long)op->cost);
    if (op->workspace_bytes != 0) {
        fprintf(to, ", \"workspace_bytes\": %lld", (long long)op->workspace_bytes);
    }
    if (op->load_bytes != 0) {
        fprintf(to, ", \"load_bytes\": %lld", (long long)op->load_bytes);
    }
    if (!op->recomputable) {
        fputs(", \"recomputable\": false", to);
    }
    write_indices(to, "inputs", op->inputs, op->n_inputs);
    write_indices(to, "outputs", op->outputs, op->n_outputs);
    for (int32_t i = 0; i < op->n_inplace; i++) {
        fprintf(to, "%s[%d, %d]", i > 0 ? ", " : ", \"inplace\": [", (int)op->inplace[i][0], (int)op->inplace[i][1]);
    }
    fputs(op->n_inplace > 0 ? "]" : "", to);
    write_place(to, "module", op->module);
    write_place(to, "source", op->source);
    putc('}', to);
}

static void write_second_memory(FILE *to, const ckm_second_memory *memory)
{
    fputs(", \"second_memory\": {\"name\": ", to);
    ckm_json_write_text(to, memory->name);
    if (memory->bytes >= 0) {
        fprintf(to, ", \"bytes\": %lld", (long long)memory->bytes);
    }
    fprintf(to, ",\n  \"out_bytes_per_second\": %lld, \"in_bytes_per_second\": %lld, \"latency_ns\": %lld}",
            (long long)memory->out_bytes_per_second, (long long)memory->in_bytes_per_second,
            (long long)memory->latency_ns);
}

// The oldest version that has all of the graph.
static int version_of(const ckm_dataflow *df)
{
    bool second = df->second_name != NULL;
    for (int32_t v = 0; !second && v < df->n_ops; v++) {
        second = df->ops[v].kind == CKM_OP_LOAD;
    }
    return second ? 2 : 1;
}

static void write_graph(FILE *to, const ckm_dataflow *df)
{
    fprintf(to, "{\"format\": \"" FORMAT_NAME "\", \"version\": %d, \"name\": ", version_of(df));
    ckm_json_write_text(to, df->name);
    fprintf(to, ",\n \"cost_unit\": \"%s\", \"fixed_bytes\": %lld", unit_names[df->cost_unit],
            (long long)df->fixed_bytes);
    if (df->second_name != NULL) {
        write_second_memory(to, &df->second);
    }
    fputs(",\n \"tensors\": [", to);
    for (int32_t i = 0; i < df->n_tensors; i++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[i];
        fputs(i > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ", to);
        ckm_json_write_text(to, tensor->name);
        fprintf(to, ", \"bytes\": %lld", (long long)tensor->bytes);
        if (tensor->alias_of >= 0) {
            fprintf(to, ", \"alias_of\": %d", (int)tensor->alias_of);
        }
        putc('}', to);
    }
    fputs("],\n \"ops\": [", to);
    for (int32_t v = 0; v < df->n_ops; v++) {
        fputs(v > 0 ? ",\n  " : "\n  ", to);
        write_op(to, &df->ops[v]);
    }
    fputs("],\n \"results\": [", to);
    for (int32_t i = 0; i < df->n_results; i++) {
        fprintf(to, "%s%d", i > 0 ? ", " : "", (int)df->results[i]);
    }
    fputs("]}\n", to);
}

ckm_status ckm_dataflow_write(const ckm_dataflow *df, const char *path, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(path, err);
    ckm_i_writer writer;
    CKM_I_CHECK(ckm_i_writer_open(&writer, path, err));
    write_graph(writer.stream, df);
    return ckm_i_writer_commit(&writer, err);
}
