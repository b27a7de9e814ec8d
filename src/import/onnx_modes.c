// SPDX-License-Identifier: Apache-2.0
// Training mode in the file: an attribute of batch normalization, up to opset 13 its outputs past the first, an input of
// dropout. Without them a node is in evaluation mode.
#include "import/onnx_modes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/import.h"

// Fields of a node, of an attribute, of an operator set's version, of a model.
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_TYPE = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_INT = 3 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION = 2, MODEL_OPSET = 8 };
enum { GRAPH_NODE = 1, GRAPH_OUTPUT = 12 };

static const int64_t opset_of_attribute = 14;       // batch normalization says its mode in an attribute from here on
static const int64_t opset_of_dropout_inputs = 12;  // dropout has its mode as an input from here on

static bool is_text(const ckm_i_wire_field *field)
{
    return field->type == CKM_I_WIRE_BYTES;
}

// Does the field hold exactly this text?
static ckm_status holds(ckm_i_onnx_source *source, const ckm_i_wire_field *field, const char *text, bool *same,
                        ckm_error *err)
{
    uint8_t bytes[32];
    size_t n = strlen(text);
    *same = false;
    if (!is_text(field) || field->bytes != (int64_t)n || n > sizeof bytes) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_onnx_source_read(source, field->at, field->bytes, bytes, err));
    *same = memcmp(bytes, text, n) == 0;
    return CKM_OK;
}

static ckm_status is_standard(ckm_i_onnx_source *source, const ckm_i_wire_field *domain, bool *standard, ckm_error *err)
{
    *standard = domain->bytes == 0;
    return *standard ? CKM_OK : holds(source, domain, "ai.onnx", standard, err);
}

// The standard operator set's version; 0 where the file does not say.
static ckm_status find_opset(ckm_i_onnx_source *source, int64_t *opset, ckm_error *err)
{
    *opset = 0;
    for (int64_t at = 0; at < source->size_bytes;) {
        ckm_i_wire_field set;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, source->size_bytes, NULL, &set, err));
        int64_t version = 0;
        bool standard = true;
        for (int64_t in = set.at; set.number == MODEL_OPSET && is_text(&set) && in < set.at + set.bytes;) {
            ckm_i_wire_field field;
            CKM_I_CHECK(ckm_i_wire_next(source, &in, set.at + set.bytes, NULL, &field, err));
            if (field.number == OPSET_DOMAIN) {
                CKM_I_CHECK(is_standard(source, &field, &standard, err));
            } else if (field.number == OPSET_VERSION) {
                version = (int64_t)field.value;
            }
        }
        *opset = standard && version > 0 ? version : *opset;
    }
    return CKM_OK;
}

// Is the attribute training_mode, and on?
static ckm_status read_attribute(ckm_i_onnx_source *source, const ckm_i_wire_field *attribute, bool *is_mode, bool *on,
                                 ckm_error *err)
{
    *is_mode = false;
    *on = false;
    for (int64_t at = attribute->at; is_text(attribute) && at < attribute->at + attribute->bytes;) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, attribute->at + attribute->bytes, NULL, &field, err));
        if (field.number == ATTRIBUTE_NAME) {
            CKM_I_CHECK(holds(source, &field, "training_mode", is_mode, err));
        } else if (field.number == ATTRIBUTE_INT) {
            *on = field.value != 0;
        }
    }
    *on = *on && *is_mode;
    return CKM_OK;
}

ckm_status ckm_i_onnx_mode_keeps(ckm_i_onnx_source *source, ckm_i_onnx_mode_kind kind, const ckm_i_wire_field *field,
                                 ckm_i_onnx_mode_walk *walk, bool *stays, ckm_error *err)
{
    bool norm = kind == CKM_I_ONNX_MODE_NORM;
    *stays = true;
    if (field->number == NODE_INPUT) {
        *stays = norm || walk->n_inputs < 2;
        walk->n_inputs++;
    } else if (field->number == NODE_OUTPUT) {
        *stays = !norm || walk->n_outputs < 1;
        walk->n_outputs++;
    } else if (field->number == NODE_ATTRIBUTE && norm) {
        bool is_mode;
        bool on;
        CKM_I_CHECK(read_attribute(source, field, &is_mode, &on, err));
        *stays = !is_mode;
    }
    return CKM_OK;
}

// What a node's message says about its mode.
typedef struct facts {
    bool norm, dropout, standard, on;
    int32_t n_inputs, n_outputs;
} facts;

static ckm_status look_at(ckm_i_onnx_source *source, const ckm_i_wire_field *node, facts *out, ckm_error *err)
{
    *out = (facts){.standard = true};
    for (int64_t at = node->at; at < node->at + node->bytes;) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, node->at + node->bytes, NULL, &field, err));
        if (field.number == NODE_TYPE) {
            CKM_I_CHECK(holds(source, &field, "BatchNormalization", &out->norm, err));
            CKM_I_CHECK(holds(source, &field, "Dropout", &out->dropout, err));
        } else if (field.number == NODE_DOMAIN) {
            CKM_I_CHECK(is_standard(source, &field, &out->standard, err));
        } else if (field.number == NODE_ATTRIBUTE) {
            bool is_mode;
            bool on;
            CKM_I_CHECK(read_attribute(source, &field, &is_mode, &on, err));
            out->on = out->on || on;
        }
        out->n_inputs += field.number == NODE_INPUT;
        out->n_outputs += field.number == NODE_OUTPUT;
    }
    return CKM_OK;
}

static ckm_status read_name(ckm_i_onnx_source *source, const ckm_i_wire_field *field, char **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    char *name = ckm_i_malloc((size_t)field->bytes + 1, 1);
    if (name == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_i_wire_text(source, field, name, (size_t)field->bytes + 1, err));
    *out = name;
    name = NULL;
cleanup:
    free(name);
    return status;
}

// Counts the outputs that stay, and records the names of the others.
static ckm_status measure(ckm_i_onnx_source *source, ckm_i_onnx_modes *modes, ckm_i_onnx_mode_node *node,
                          ckm_error *err)
{
    ckm_i_onnx_mode_walk walk = {0};
    node->kept = 0;
    for (int64_t at = node->at; at < node->end;) {
        ckm_i_wire_field field;
        bool stays;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, node->end, NULL, &field, err));
        CKM_I_CHECK(ckm_i_onnx_mode_keeps(source, node->kind, &field, &walk, &stays, err));
        node->kept += stays ? at - field.start : 0;
        if (!stays && field.number == NODE_OUTPUT && is_text(&field) && field.bytes > 0) {
            if (!CKM_I_GROW(modes->gone, modes->n_gone, modes->cap_gone)) {
                return ckm_i_error_memory(err);
            }
            CKM_I_CHECK(read_name(source, &field, &modes->gone[modes->n_gone], err));
            modes->n_gone++;
        }
    }
    return CKM_OK;
}

static ckm_status take_node(ckm_i_onnx_source *source, const ckm_i_wire_field *field, int64_t opset,
                            ckm_i_onnx_modes *modes, ckm_error *err)
{
    facts f;
    CKM_I_CHECK(look_at(source, field, &f, err));
    bool norm = f.norm && (f.on || (opset < opset_of_attribute && f.n_outputs > 1));
    bool dropout = f.dropout && opset >= opset_of_dropout_inputs && f.n_inputs > 2;
    if (!f.standard || (!norm && !dropout)) {
        return CKM_OK;
    }
    if (!CKM_I_GROW(modes->items, modes->n, modes->cap)) {
        return ckm_i_error_memory(err);
    }
    ckm_i_onnx_mode_node *node = &modes->items[modes->n++];
    int64_t end = field->at + field->bytes;
    *node = (ckm_i_onnx_mode_node){
        norm ? CKM_I_ONNX_MODE_NORM : CKM_I_ONNX_MODE_DROPOUT, field->start, end, field->at, end, 0};
    return measure(source, modes, node, err);
}

// ---- outputs that go must have no readers

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static ckm_status check_name(ckm_i_onnx_source *source, const ckm_i_onnx_modes *modes, const ckm_i_wire_field *field,
                             ckm_error *err)
{
    char *name = NULL;
    if (!is_text(field) || field->bytes == 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(read_name(source, field, &name, err));
    bool gone = bsearch(&name, modes->gone, (size_t)modes->n_gone, sizeof *modes->gone, by_text) != NULL;
    ckm_status status =
        gone ? ckm_i_error(
                   err, CKM_ERR_UNSUPPORTED,
                   "\"%.200s\" is an output of a batch normalization that training mode alone has, and is read: "
                   "the model cannot be written in evaluation mode. Export the network again in evaluation mode, "
                   "or the trained weights alone, to a name that does not end in .onnx",
                   name)
             : CKM_OK;
    free(name);
    return status;
}

// The names in a message of the graph that read: a node's inputs, the name of an output.
static ckm_status check_readers(ckm_i_onnx_source *source, const ckm_i_onnx_modes *modes,
                                const ckm_i_wire_field *message, ckm_error *err)
{
    for (int64_t at = message->at; at < message->at + message->bytes;) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, message->at + message->bytes, NULL, &field, err));
        if (field.number == NODE_INPUT) {  // a value's name has the same number
            CKM_I_CHECK(check_name(source, modes, &field, err));
        }
    }
    return CKM_OK;
}

static ckm_status find(ckm_i_onnx_source *source, const ckm_i_wire_tensors *tensors, ckm_i_onnx_modes *modes,
                       ckm_error *err)
{
    int64_t opset;
    int64_t end = tensors->graph_at + tensors->graph_bytes;
    CKM_I_CHECK(find_opset(source, &opset, err));
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t at = tensors->graph_at; at < end && (pass == 0 || modes->n_gone > 0);) {
            ckm_i_wire_field field;
            CKM_I_CHECK(ckm_i_wire_next(source, &at, end, NULL, &field, err));
            bool node = field.number == GRAPH_NODE && is_text(&field);
            if (pass == 0 && node) {
                CKM_I_CHECK(take_node(source, &field, opset, modes, err));
            } else if (pass == 1 && (node || (field.number == GRAPH_OUTPUT && is_text(&field)))) {
                CKM_I_CHECK(check_readers(source, modes, &field, err));
            }
        }
        if (modes->n_gone > 0) {
            qsort(modes->gone, (size_t)modes->n_gone, sizeof *modes->gone, by_text);
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_modes_find(ckm_i_onnx_source *source, const ckm_i_wire_tensors *tensors, ckm_i_onnx_modes *out,
                                 ckm_error *err)
{
    ckm_i_onnx_modes modes = {0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(find(source, tensors, &modes, err));
    *out = modes;
    modes = (ckm_i_onnx_modes){0};
cleanup:
    ckm_i_onnx_modes_dispose(&modes);
    return status;
}

void ckm_i_onnx_modes_dispose(ckm_i_onnx_modes *modes)
{
    for (int32_t i = 0; i < modes->n_gone; i++) {
        free(modes->gone[i]);
    }
    free(modes->gone);
    free(modes->items);
    *modes = (ckm_i_onnx_modes){0};
}

ckm_status ckm_i_check_evaluating(const char *model, ckm_error *err)
{
    ckm_i_onnx_source source;
    ckm_i_wire_tensors tensors = {0};
    ckm_i_onnx_modes modes = {0};
    CKM_I_CHECK(ckm_i_onnx_source_open(&source, model, err));
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_error_in_file(err, ckm_i_wire_list(&source, &tensors, err), model));
    CKM_I_TRY(ckm_i_error_in_file(err, ckm_i_onnx_modes_find(&source, &tensors, &modes, err), model));
cleanup:
    ckm_i_onnx_modes_dispose(&modes);
    ckm_i_wire_tensors_dispose(&tensors);
    ckm_i_onnx_source_close(&source);
    return status;
}
