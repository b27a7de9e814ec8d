// SPDX-License-Identifier: Apache-2.0
#include "mutate.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct tree {
    json_t **nodes;  // every value, borrowed
    size_t n, cap;
} tree;

static void collect(tree *t, json_t *value)
{
    size_t i;
    const char *key;
    json_t *child;
    if (t->n == t->cap) {
        t->cap = t->cap * 2 + 64;
        t->nodes = realloc(t->nodes, t->cap * sizeof *t->nodes);
        if (t->nodes == NULL) {
            abort();
        }
    }
    t->nodes[t->n++] = value;
    json_array_foreach(value, i, child)
    {
        collect(t, child);
    }
    json_object_foreach(value, key, child)
    {
        collect(t, child);
    }
}

static json_t *any_value(const tree *t, const char *const *words, uint64_t *state)
{
    static const double reals[] = {0.0, -1.5, 1e308, 5e-324, 0.1, 9.3e18};
    size_t n_words = 0;
    while (words[n_words] != NULL) {
        n_words++;
    }
    switch (mutate_pick(state, 9)) {
    case 0:
    case 1:
    case 2:
        return json_integer((json_int_t)mutate_integer(state));
    case 3:
        return json_real(reals[mutate_pick(state, 6)]);
    case 4:
        return json_string(words[mutate_pick(state, (uint32_t)n_words)]);
    case 5:
        return mutate_pick(state, 2) ? json_null() : json_boolean(mutate_pick(state, 2));
    case 6:
        return mutate_pick(state, 2) ? json_array() : json_object();
    default:
        return json_deep_copy(t->nodes[mutate_pick(state, (uint32_t)t->n)]);
    }
}

static void change_array(const tree *t, json_t *array, const char *const *words, uint64_t *state)
{
    size_t n = json_array_size(array);
    size_t at = mutate_pick(state, (uint32_t)n + 1);
    switch (n > 0 ? mutate_pick(state, 4) : 3) {
    case 0:
        json_array_remove(array, at % n);
        break;
    case 1:  // an element again, often
        for (uint32_t k = mutate_pick(state, 8) == 0 ? 200 : 1; k > 0; k--) {
            json_array_append_new(array, json_deep_copy(json_array_get(array, at % n)));
        }
        break;
    case 2:
        json_array_set_new(array, at % n, any_value(t, words, state));
        break;
    default:
        json_array_insert_new(array, at, any_value(t, words, state));
    }
}

static void change_object(const tree *t, json_t *object, const char *const *words, uint64_t *state)
{
    size_t n_words = 0;
    const char *key = NULL;
    while (words[n_words] != NULL) {
        n_words++;
    }
    if (json_object_size(object) > 0) {
        void *at = json_object_iter(object);
        for (uint32_t k = mutate_pick(state, (uint32_t)json_object_size(object)); k > 0; k--) {
            at = json_object_iter_next(object, at);
        }
        key = json_object_iter_key(at);
    }
    switch (key != NULL ? mutate_pick(state, 4) : 3) {
    case 0:
        json_object_del(object, key);
        break;
    case 1:
        json_object_set(object, words[mutate_pick(state, (uint32_t)n_words)], json_object_get(object, key));
        break;
    case 2:
        json_object_set_new(object, key, any_value(t, words, state));
        break;
    default:
        json_object_set_new(object, words[mutate_pick(state, (uint32_t)n_words)], any_value(t, words, state));
    }
}

bool mutate_json(uint8_t *data, size_t *size, size_t max_size, const char *const *words, uint64_t *state)
{
    tree t = {0};
    json_t *root = json_loadb((const char *)data, *size, 0, NULL);
    if (root == NULL) {
        return false;
    }
    for (uint32_t k = 1 + mutate_pick(state, 3); k > 0; k--) {
        t.n = 0;
        collect(&t, root);
        json_t *at = t.nodes[mutate_pick(state, (uint32_t)t.n)];
        if (json_is_object(at)) {
            change_object(&t, at, words, state);
        } else if (json_is_array(at)) {
            change_array(&t, at, words, state);
        } else if (json_is_integer(at)) {
            // In place, so that it need not be found again.
            json_int_t old = json_integer_value(at);
            uint32_t how = mutate_pick(state, 4);
            json_integer_set(at, how == 0 && old < INT64_MAX   ? old + 1
                                 : how == 1 && old > INT64_MIN ? old - 1
                                                               : (json_int_t)mutate_integer(state));
        } else {
            k++;
            if (mutate_pick(state, 4) == 0) {
                break;
            }
        }
    }
    size_t n = json_dumpb(root, (char *)data, max_size, JSON_COMPACT);
    bool fits = n > 0 && n <= max_size;
    *size = fits ? n : *size;
    free(t.nodes);
    json_decref(root);
    return fits;
}

size_t mutate_json_file(uint8_t *data, size_t size, size_t max_size, const char *const *words, unsigned seed)
{
    uint64_t state = seed;
    uint8_t *copy = malloc(max_size + 1);
    size_t n = size;
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, data, size);
    if (mutate_pick(&state, 4) != 0 && mutate_json(copy, &n, max_size, words, &state)) {
        memcpy(data, copy, n);
    } else {
        n = LLVMFuzzerMutate(data, size, max_size);
    }
    free(copy);
    return n;
}
