// SPDX-License-Identifier: Apache-2.0
#include "network_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ckm_shape read_shape(const char *text)
{
    ckm_shape shape = {0};
    for (char *at = (char *)(uintptr_t)text; *at != '\0'; at += *at == 'x') {
        shape.dims[shape.rank++] = strtoll(at, &at, 10);
    }
    return shape;
}

static int32_t leaf(network_text *r, char type, const char *shape_text)
{
    char name[16];
    ckm_shape shape = read_shape(shape_text);
    ckm_tensor_role role = type == 'p' ? CKM_ROLE_PARAMETER : type == 's' ? CKM_ROLE_STATE : CKM_ROLE_INPUT;
    int32_t tensor = -1;
    snprintf(name, sizeof name, "%c%d", type, r->n_leaves++);
    assert_int_equal(ckm_i_graph_add_tensor(r->g, name, role, type == 'i' ? CKM_I64 : CKM_F32, &shape, &tensor, NULL),
                     CKM_OK);
    return tensor;
}

static ckm_i_attr read_attr(char *word)
{
    char *value = strchr(word, '=');
    *value++ = '\0';
    if (strcspn(value, "0123456789+-") != 0) {
        return ckm_i_attr_word(word, value);
    }
    if (strchr(value, '.') != NULL) {
        return ckm_i_attr_real(word, strtod(value, NULL));
    }
    int64_t ints[CKM_I_ATTR_MAX];
    int32_t n = 0;
    for (char *at = value; *at != '\0'; at += *at == ',') {
        ints[n++] = strtoll(at, &at, 10);
    }
    return ckm_i_attr_ints(word, ints, n);
}

// One operator; `x` and `y` as in the text.
static int32_t read_op(network_text *r, char *text, int32_t x, int32_t y)
{
    enum { ROOM = 8, INPUTS = 24 };
    int32_t inputs[INPUTS];
    int32_t outputs[ROOM] = {-1};
    ckm_i_attr attrs[ROOM];
    int32_t n_inputs = 0;
    int32_t n_attrs = 0;
    int32_t n_outputs = 1;
    char *save = NULL;
    char *kind = strtok_r(text, " ", &save);
    for (char *word = strtok_r(NULL, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        if (strchr(word, '=') != NULL) {
            attrs[n_attrs++] = read_attr(word);
        } else {
            inputs[n_inputs++] = strcmp(word, "x") == 0 ? x : strcmp(word, "y") == 0 ? y : leaf(r, word[0], word + 1);
        }
    }
    for (int32_t i = 0; i < n_attrs && strcmp(kind, "split") == 0; i++) {
        n_outputs = strcmp(attrs[i].key, "sizes") == 0 ? attrs[i].n : n_outputs;
    }
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_i_graph_add_op(r->g,
                           &(ckm_i_new_op){.kind = kind,
                                           .name = kind,
                                           .inputs = {inputs, n_inputs},
                                           .attrs = {attrs, n_attrs},
                                           .n_outputs = n_outputs},
                           outputs, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return outputs[n_outputs > 1 ? 1 : 0];  // of a split the middle part
}

void network_text_read(network_text *out, ckm_layout layout, const char *shape_text, const char *text)
{
    *out = (network_text){0};
    assert_true(strlen(text) < sizeof out->text);
    snprintf(out->text, sizeof out->text, "%s", text);
    ckm_shape shape = read_shape(shape_text);
    assert_int_equal(ckm_i_graph_create("case", layout, shape.dims[0], &out->g, NULL), CKM_OK);
    int32_t operands[2] = {leaf(out, 'f', shape_text), leaf(out, 'p', shape_text)};
    int32_t x = -1;
    assert_int_equal(
        ckm_i_graph_add_op(
            out->g, &(ckm_i_new_op){.kind = "add", .name = "start", .inputs = {operands, 2}, .n_outputs = 1}, &x, NULL),
        CKM_OK);
    int32_t y = x;
    char *save = NULL;
    for (char *op = strtok_r(out->text, "|", &save); op != NULL; op = strtok_r(NULL, "|", &save)) {
        x = read_op(out, op, x, y);
    }
}
