// SPDX-License-Identifier: Apache-2.0
#include "autodiff/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

void ckm_i_attrs_copy(ckm_i_attrs *attrs, const ckm_i_graph_op *op)
{
    attrs->n = 0;
    for (int32_t i = 0; i < op->n_attrs; i++) {
        ckm_i_attrs_put(attrs, op->attrs[i]);
    }
}

void ckm_i_attrs_put(ckm_i_attrs *attrs, ckm_i_attr attr)
{
    for (int32_t i = 0; i < attrs->n; i++) {
        if (strcmp(attrs->items[i].key, attr.key) == 0) {
            attrs->items[i] = attr;
            return;
        }
    }
    if (attrs->n < CKM_I_ATTRS_ROOM) {  // no kind has as many
        attrs->items[attrs->n++] = attr;
    }
}

void ckm_i_attrs_put_int(ckm_i_attrs *attrs, const char *key, int64_t value)
{
    ckm_i_attrs_put(attrs, ckm_i_attr_ints(key, &value, 1));
}

void ckm_i_attrs_put_shape(ckm_i_attrs *attrs, const char *key, const ckm_shape *shape)
{
    ckm_i_attrs_put(attrs, ckm_i_attr_ints(key, shape->dims, shape->rank));
}

void ckm_i_attrs_remove(ckm_i_attrs *attrs, const char *key)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < attrs->n; i++) {
        if (strcmp(attrs->items[i].key, key) != 0) {
            attrs->items[kept++] = attrs->items[i];
        }
    }
    attrs->n = kept;
}

ckm_status ckm_i_step_init(ckm_i_step *s, const ckm_graph *network, ckm_error *err)
{
    *s = (ckm_i_step){.network = network, .output = -1, .class_axis = -1, .loss = -1, .correct = -1, .labels = -1};
    return ckm_i_graph_create(network->name, network->layout, network->batch, &s->graph, err);
}

void ckm_i_step_dispose(ckm_i_step *s)
{
    ckm_graph_free(s->graph);
    free(s->marks);
    free(s->names);
    free(s->results);
    free(s->gradients);
    free(s->wanted);
    *s = (ckm_i_step){0};
}

// ---- names: a hash table of the operators there are

static uint32_t hash(const char *text)
{
    uint32_t h = 2166136261U;  // FNV-1a
    for (; *text != '\0'; text++) {
        h = (h ^ (unsigned char)*text) * 16777619U;
    }
    return h;
}

// The place of `name`, or the empty one where it belongs.
static uint32_t place_of(const ckm_i_step *s, const char *name)
{
    uint32_t mask = (uint32_t)s->name_room - 1;
    uint32_t at = hash(name) & mask;
    while (s->names[at].op >= 0 && strcmp(s->graph->ops[s->names[at].op].name, name) != 0) {
        at = (at + 1) & mask;
    }
    return at;
}

// Room for one more at a load of at most a half.
static bool grow_names(ckm_i_step *s)
{
    if (s->name_room > 0 && s->graph->n_ops < s->name_room / 2) {
        return true;
    }
    int32_t old_room = s->name_room;
    int32_t room = old_room > 0 ? 2 * old_room : 256;
    ckm_i_step_name *old = s->names;
    ckm_i_step_name *names = ckm_i_malloc((size_t)room, sizeof *names);
    if (names == NULL) {
        return false;
    }
    for (int32_t i = 0; i < room; i++) {
        names[i] = (ckm_i_step_name){-1, 2};
    }
    s->names = names;
    s->name_room = room;
    for (int32_t i = 0; i < old_room; i++) {
        if (old[i].op >= 0) {
            s->names[place_of(s, s->graph->ops[old[i].op].name)] = old[i];
        }
    }
    free(old);
    return true;
}

// `name` and `suffix` in one string, with a number behind them when that is taken. The caller frees it.
static char *unique_name(ckm_i_step *s, const char *name, const char *suffix)
{
    size_t room = strlen(name) + strlen(suffix) + 16;
    char *result = ckm_i_malloc(room, 1);
    if (result == NULL) {
        return NULL;
    }
    snprintf(result, room, "%s%s", name, suffix);
    // Numbers are given in order and never freed: the search continues where the last one ended.
    ckm_i_step_name *plain = &s->names[place_of(s, result)];
    if (plain->op >= 0) {
        do {
            snprintf(result, room, "%s%s#%d", name, suffix, (int)plain->next++);
        } while (s->names[place_of(s, result)].op >= 0);
    }
    return result;
}

ckm_status ckm_i_step_add(ckm_i_step *s, const ckm_i_step_op *op, int32_t *outputs, ckm_error *err)
{
    static const ckm_i_attrs none = {0};
    const ckm_i_attrs *attrs = op->attrs != NULL ? op->attrs : &none;
    if (!grow_names(s) || !CKM_I_GROW(s->marks, s->n_marks, s->cap_marks)) {
        return ckm_i_error_memory(err);
    }
    char *full = unique_name(s, op->name, op->suffix != NULL ? op->suffix : "");
    if (full == NULL) {
        return ckm_i_error_memory(err);
    }
    const ckm_i_new_op new_op = {.kind = op->kind,
                                 .name = full,
                                 .inputs = op->inputs,
                                 .attrs = {attrs->items, attrs->n},
                                 .n_outputs = op->n_outputs};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_graph_add_op(s->graph, &new_op, outputs, err));
    s->names[place_of(s, full)].op = s->graph->n_ops - 1;
    s->marks[s->n_marks++] = s->now;
cleanup:
    free(full);
    return status;
}

bool ckm_i_dtype_is_float(ckm_dtype dtype)
{
    return dtype == CKM_F32 || dtype == CKM_F16 || dtype == CKM_BF16 || dtype == CKM_F64;
}
