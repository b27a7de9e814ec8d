// SPDX-License-Identifier: Apache-2.0
// Wire-level reduction of an ONNX model. One table a message says which fields are kept; the nesting of
// those tables bounds the recursion, since sub-graphs inside attributes are not among them.
#include "import/onnx_skim.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/onnx_wire.h"

typedef enum {
    KEEP_NUMBER,  // an integer
    KEEP_FLOAT,
    KEEP_TEXT,    // a string: without zero bytes, so that it survives as a C string
    KEEP_BLOB,    // bytes
    KEEP_INTS,    // repeated integers, packed or not
    KEEP_FLOATS,  // repeated floats, packed or not
    VALUES_INTS,  // values of a tensor: kept when all of them together are few
    VALUES_FLOATS,
    VALUES_DOUBLES,
    VALUES_BLOB,
    ONE,      // a message, at most once
    MANY,     // a repeated message
    REWRITES  // of pairs, those that say what the exporter has rewritten: others hold the trace of a stack at every node
} field_rule;

typedef struct message_table message_table;

typedef struct field_row {
    uint32_t number;
    field_rule rule;
    const char *name;
    const message_table *message;
} field_row;

struct message_table {
    const char *name;
    bool holds_values;  // a tensor
    uint32_t n_rows;
    const field_row *rows;
};

#define TABLE(table, label, tensor, ...)                   \
    static const field_row table##_rows[] = {__VA_ARGS__}; \
    static const message_table table = {label, tensor, sizeof table##_rows / sizeof table##_rows[0], table##_rows}

TABLE(opset_table, "opset import", false, {1, KEEP_TEXT, "domain", NULL}, {2, KEEP_NUMBER, "version", NULL});
TABLE(tensor_table, "tensor", true, {1, KEEP_INTS, "dims", NULL}, {2, KEEP_NUMBER, "data_type", NULL},
      {4, VALUES_FLOATS, "float_data", NULL}, {5, VALUES_INTS, "int32_data", NULL},
      {7, VALUES_INTS, "int64_data", NULL}, {8, KEEP_TEXT, "name", NULL}, {9, VALUES_BLOB, "raw_data", NULL},
      {10, VALUES_DOUBLES, "double_data", NULL}, {11, VALUES_INTS, "uint64_data", NULL},
      {14, KEEP_NUMBER, "data_location", NULL});
TABLE(dim_table, "dimension", false, {1, KEEP_NUMBER, "dim_value", NULL}, {2, KEEP_TEXT, "dim_param", NULL});
TABLE(shape_table, "shape", false, {1, MANY, "dim", &dim_table});
TABLE(tensor_type_table, "tensor type", false, {1, KEEP_NUMBER, "elem_type", NULL}, {2, ONE, "shape", &shape_table});
TABLE(type_table, "type", false, {1, ONE, "tensor_type", &tensor_type_table});
TABLE(value_table, "value info", false, {1, KEEP_TEXT, "name", NULL}, {2, ONE, "type", &type_table});
TABLE(pair_table, "metadata", false, {1, KEEP_BLOB, "key", NULL}, {2, KEEP_BLOB, "value", NULL});
TABLE(note_table, "value info", false, {1, KEEP_TEXT, "name", NULL}, {4, MANY, "metadata_props", &pair_table});
TABLE(attribute_table, "attribute", false, {1, KEEP_TEXT, "name", NULL}, {2, KEEP_FLOAT, "f", NULL},
      {3, KEEP_NUMBER, "i", NULL}, {4, KEEP_BLOB, "s", NULL}, {5, ONE, "t", &tensor_table},
      {7, KEEP_FLOATS, "floats", NULL}, {8, KEEP_INTS, "ints", NULL}, {20, KEEP_NUMBER, "type", NULL});
TABLE(node_table, "node", false, {1, KEEP_TEXT, "input", NULL}, {2, KEEP_TEXT, "output", NULL},
      {3, KEEP_TEXT, "name", NULL}, {4, KEEP_TEXT, "op_type", NULL}, {5, MANY, "attribute", &attribute_table},
      {7, KEEP_TEXT, "domain", NULL}, {9, REWRITES, "metadata_props", &pair_table});
TABLE(graph_table, "graph", false, {1, MANY, "node", &node_table}, {2, KEEP_TEXT, "name", NULL},
      {5, MANY, "initializer", &tensor_table}, {11, MANY, "input", &value_table}, {12, MANY, "output", &value_table},
      {13, MANY, "value_info", &note_table});
TABLE(model_table, "model", false, {1, KEEP_NUMBER, "ir_version", NULL}, {2, KEEP_TEXT, "producer_name", NULL},
      {7, ONE, "graph", &graph_table}, {8, MANY, "opset_import", &opset_table});

// Real networks are far below these limits, which bound the memory that a hostile file can take.
static const size_t max_output_bytes = (size_t)256 << 20;
static const int64_t max_messages = 4 << 20;
enum { LENGTH_BYTES = 5 };  // a length that is filled in later, as a padded varint

typedef struct skimmer {
    ckm_i_onnx_source *source;
    uint8_t *out;
    size_t n_out, cap_out;
    int64_t n_messages;
    ckm_error *err;
} skimmer;

static ckm_status broken(skimmer *s, int64_t at, const char *what, const char *where)
{
    return ckm_i_wire_broken(at, what, where, s->err);
}

static ckm_status reserve(skimmer *s, size_t extra, int64_t at)
{
    if (extra > max_output_bytes - s->n_out) {
        return ckm_i_error_at(s->err, CKM_ERR_UNSUPPORTED, NULL, 0, at,
                              "the model without its weights is larger than %zu bytes", max_output_bytes);
    }
    if (s->n_out + extra > s->cap_out) {
        size_t wanted = s->cap_out + s->cap_out / 2 + 4096;
        wanted = wanted < s->n_out + extra ? s->n_out + extra : wanted;
        uint8_t *grown = ckm_i_realloc(s->out, wanted, 1);
        if (grown == NULL) {
            return ckm_i_error_memory(s->err);
        }
        s->out = grown;
        s->cap_out = wanted;
    }
    return CKM_OK;
}

// Copies [from, to) of the source.
static ckm_status copy(skimmer *s, int64_t from, int64_t to)
{
    size_t n = (size_t)(to - from);
    CKM_I_CHECK(reserve(s, n, from));
    if (n > 0) {
        CKM_I_CHECK(ckm_i_onnx_source_read(s->source, from, to - from, s->out + s->n_out, s->err));
    }
    s->n_out += n;
    return CKM_OK;
}

static void put_varint(skimmer *s, uint64_t value)
{
    while (value >= 0x80) {
        s->out[s->n_out++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    s->out[s->n_out++] = (uint8_t)value;
}

static bool is_values(field_rule rule)
{
    return rule == VALUES_INTS || rule == VALUES_FLOATS || rule == VALUES_DOUBLES || rule == VALUES_BLOB;
}

// Does a field of this wire type fit the rule?
static bool type_fits(field_rule rule, const ckm_i_wire_field *field)
{
    switch (rule) {
    case KEEP_NUMBER:
        return field->type == CKM_I_WIRE_VARINT;
    case KEEP_FLOAT:
        return field->type == CKM_I_WIRE_32;
    case KEEP_INTS:
    case VALUES_INTS:
        return field->type == CKM_I_WIRE_VARINT || field->type == CKM_I_WIRE_BYTES;
    case KEEP_FLOATS:
    case VALUES_FLOATS:
        return field->type == CKM_I_WIRE_32 || (field->type == CKM_I_WIRE_BYTES && field->bytes % 4 == 0);
    case VALUES_DOUBLES:
        return field->type == CKM_I_WIRE_64 || (field->type == CKM_I_WIRE_BYTES && field->bytes % 8 == 0);
    default:
        return field->type == CKM_I_WIRE_BYTES;
    }
}

// Packed integers have to be whole varints.
static ckm_status check_packed(skimmer *s, const ckm_i_wire_field *field, const char *where)
{
    int64_t at = field->at;
    int64_t end = field->at + field->bytes;
    while (at < end) {
        uint64_t value;
        CKM_I_CHECK(ckm_i_wire_varint(s->source, &at, end, where, &value, s->err));
    }
    return CKM_OK;
}

static ckm_status copy_checked(skimmer *s, const field_row *row, const ckm_i_wire_field *field, int64_t end,
                               const char *where)
{
    if ((row->rule == KEEP_INTS || row->rule == VALUES_INTS) && field->type == CKM_I_WIRE_BYTES) {
        CKM_I_CHECK(check_packed(s, field, where));
    }
    size_t before = s->n_out;
    CKM_I_CHECK(copy(s, field->start, end));
    if (row->rule == KEEP_TEXT) {
        size_t text = before + (size_t)(field->at - field->start);
        if (memchr(s->out + text, 0, (size_t)field->bytes) != NULL) {
            return broken(s, field->at, "a text with a zero byte", where);
        }
    }
    return CKM_OK;
}

// Bytes of all values of the tensor in [at, end).
static ckm_status count_values(skimmer *s, const message_table *table, int64_t at, int64_t end, int64_t *total)
{
    *total = 0;
    while (at < end) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(s->source, &at, end, table->name, &field, s->err));
        for (uint32_t i = 0; i < table->n_rows; i++) {
            if (table->rows[i].number == field.number && is_values(table->rows[i].rule)) {
                *total += field.bytes;
            }
        }
    }
    return CKM_OK;
}

static ckm_status skim_message(skimmer *s, const message_table *table, int64_t at, int64_t end);

static ckm_status skim_child(skimmer *s, const field_row *row, const ckm_i_wire_field *field)
{
    CKM_I_CHECK(reserve(s, 16, field->start));
    put_varint(s, (uint64_t)field->number << 3 | CKM_I_WIRE_BYTES);
    size_t length_at = s->n_out;
    s->n_out += LENGTH_BYTES;
    CKM_I_CHECK(skim_message(s, row->message, field->at, field->at + field->bytes));
    size_t length = s->n_out - length_at - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        s->out[length_at + (size_t)i] = (uint8_t)((length >> (7 * i) & 0x7F) | (i < LENGTH_BYTES - 1 ? 0x80U : 0U));
    }
    return CKM_OK;
}

// Does the pair have the key under which PyTorch's exporter notes the rules by which a node was rewritten?
static ckm_status is_rewrite(skimmer *s, const ckm_i_wire_field *pair, bool *yes)
{
    static const char wanted[] = CKM_I_ONNX_REWRITES;
    char key[sizeof wanted];
    int64_t end = pair->at + pair->bytes;
    *yes = false;
    for (int64_t at = pair->at; at < end;) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(s->source, &at, end, pair_table.name, &field, s->err));
        if (field.number == 1 && field.type == CKM_I_WIRE_BYTES && field.bytes == (int64_t)sizeof wanted - 1) {
            CKM_I_CHECK(ckm_i_onnx_source_read(s->source, field.at, field.bytes, (uint8_t *)key, s->err));
            *yes = memcmp(key, wanted, sizeof wanted - 1) == 0;
        }
    }
    return CKM_OK;
}

static ckm_status skim_field(skimmer *s, const message_table *table, const ckm_i_wire_field *field, int64_t end,
                             bool drop_values, uint32_t *seen)
{
    const field_row *row = NULL;
    uint32_t i = 0;
    while (i < table->n_rows && table->rows[i].number != field->number) {
        i++;
    }
    if (i == table->n_rows) {
        return CKM_OK;
    }
    row = &table->rows[i];
    if (!type_fits(row->rule, field)) {
        return broken(s, field->start, "a field of the wrong type", table->name);
    }
    if (row->rule == ONE && (*seen >> i & 1U) != 0) {
        return broken(s, field->start, "a field that may occur once but occurs twice", table->name);
    }
    *seen |= 1U << i;
    if (row->rule == REWRITES) {
        bool kept;
        CKM_I_CHECK(is_rewrite(s, field, &kept));
        if (!kept) {
            return CKM_OK;
        }
    }
    if (row->message != NULL) {
        return skim_child(s, row, field);
    }
    return drop_values && is_values(row->rule) ? CKM_OK : copy_checked(s, row, field, end, table->name);
}

static ckm_status skim_message(skimmer *s, const message_table *table, int64_t at, int64_t end)
{
    uint32_t seen = 0;
    int64_t value_bytes = 0;
    if (++s->n_messages > max_messages) {
        return ckm_i_error_at(s->err, CKM_ERR_UNSUPPORTED, NULL, 0, at, "more than %lld messages in the model",
                              (long long)max_messages);
    }
    if (table->holds_values) {
        CKM_I_CHECK(count_values(s, table, at, end, &value_bytes));
    }
    bool drop_values = value_bytes > CKM_I_ONNX_KEEP_BYTES;
    while (at < end) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(s->source, &at, end, table->name, &field, s->err));
        CKM_I_CHECK(skim_field(s, table, &field, at, drop_values, &seen));
    }
    if (drop_values) {
        CKM_I_CHECK(reserve(s, 24, at));
        put_varint(s, UINT64_C(500000) << 3 | CKM_I_WIRE_VARINT);
        put_varint(s, (uint64_t)value_bytes);
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_skim(ckm_i_onnx_source *source, uint8_t **out, size_t *size_bytes, ckm_error *err)
{
    skimmer s = {.source = source, .err = err};
    if (source->size_bytes == 0) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, NULL, 0, 0, "not a readable ONNX model: the file is empty");
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(skim_message(&s, &model_table, 0, source->size_bytes));
    CKM_I_TRY(reserve(&s, 1, 0));  // never hand out NULL
    *out = s.out;
    *size_bytes = s.n_out;
    s.out = NULL;
cleanup:
    free(s.out);
    return status;
}
