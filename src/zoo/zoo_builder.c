// SPDX-License-Identifier: Apache-2.0
// The builder behind every network: a draft graph in the order of writing, and the order of the layer list.
#include "zoo/zoo_builder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/known_as.h"

#define MAX_CLASSES 32

struct ckm_network {
    ckm_zoo_size size;
    ckm_graph *draft;  // every layer in the order of writing; its errors name the layer
    ckm_status status;
    ckm_error error;
    int32_t n_layers;     // begun by callers of network.h
    char place[96];       // the last of them, for errors; "" otherwise
    char name[64];        // behind ckm_i_zoo_name
    char layer_name[64];  // behind ckm_i_zoo_layer_name
    char known_as[96];    // the layer being added, elsewhere; "": not
    bool unturned;        // its kernel there
    bool for_all;         // `known_as` is a parameter there, which has an axis of one sample
    int64_t map[3];       // that was flattened before it: height, width, channels; 0: none
    int32_t n_classes;
    struct {
        const char *class_name;
        int32_t used;  // unnamed layers of this class so far
    } classes[MAX_CLASSES];
};

ckm_status ckm_i_zoo_create_empty(const char *network, int64_t batch, ckm_i_zoo **out, ckm_error *err)
{
    ckm_i_zoo *z = ckm_i_calloc(1, sizeof *z);
    if (z == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_graph_create(network, CKM_CHANNELS_LAST, batch, &z->draft, err));
    *out = z;
    z = NULL;
cleanup:
    ckm_i_zoo_free(z);
    return status;
}

ckm_status ckm_i_zoo_create(const char *network, int64_t batch, const ckm_zoo_size *size, ckm_i_zoo **out,
                            ckm_error *err)
{
    bool text = size->sequence_length > 0;
    ckm_shape image = {.rank = 4, .dims = {batch, size->height, size->width, size->channels}};
    ckm_shape tokens = {.rank = 2, .dims = {batch, size->sequence_length}};
    ckm_i_zoo *z = NULL;
    int32_t input;
    CKM_I_CHECK(ckm_i_zoo_create_empty(network, batch, &z, err));
    z->size = *size;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_graph_add_tensor(z->draft, text ? "tokens" : "input", CKM_ROLE_INPUT, text ? CKM_I32 : CKM_F32,
                                     text ? &tokens : &image, &input, err));
    *out = z;
    z = NULL;
cleanup:
    ckm_i_zoo_free(z);
    return status;
}

void ckm_i_zoo_begin_layer(ckm_i_zoo *z, const char *what, const char *name)
{
    if (what == NULL) {
        z->place[0] = '\0';
        return;
    }
    bool named = name != NULL && name[0] != '\0';
    z->n_layers++;
    snprintf(z->place, sizeof z->place, "layer %d (%s%s%.40s): ", (int)z->n_layers, what, named ? " " : "",
             named ? name : "");
}

const ckm_graph *ckm_i_zoo_draft(const ckm_i_zoo *z)
{
    return z->draft;
}

bool ckm_i_zoo_failed(const ckm_i_zoo *z)
{
    return z->status != CKM_OK;
}

void ckm_i_zoo_free(ckm_i_zoo *z)
{
    if (z != NULL) {
        ckm_graph_free(z->draft);
        free(z);
    }
}

const char *ckm_i_zoo_name(ckm_i_zoo *z, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(z->name, sizeof z->name, format, args);
    va_end(args);
    return z->name;
}

ckm_i_layer ckm_i_zoo_fail(ckm_i_zoo *z, const char *format, ...)
{
    if (z->status == CKM_OK) {
        char message[512];
        va_list args;
        va_start(args, format);
        vsnprintf(message, sizeof message, format, args);
        va_end(args);
        z->status = ckm_i_error(&z->error, CKM_ERR_ARGUMENT, "%s", message);
    }
    return -1;
}

// Dimension `axis` counted from the last, of a layer that may have failed.
static int64_t dimension(const ckm_i_zoo *z, ckm_i_layer x, int32_t from_last)
{
    if (z->status != CKM_OK || x < 0) {
        return 1;
    }
    const ckm_shape *shape = &z->draft->tensors[x].shape;
    return shape->rank > from_last ? shape->dims[shape->rank - 1 - from_last] : 1;
}

int64_t ckm_i_zoo_batch(const ckm_i_zoo *z)
{
    return z->draft->batch;
}

const ckm_zoo_size *ckm_i_zoo_size(const ckm_i_zoo *z)
{
    return &z->size;
}

int64_t ckm_i_zoo_classes(const ckm_i_zoo *z)
{
    return ckm_i_zoo_size(z)->classes;
}

void ckm_i_zoo_set_task(ckm_i_zoo *z, ckm_task task)
{
    z->draft->task = task;
}

int64_t ckm_i_zoo_height(const ckm_i_zoo *z, ckm_i_layer x)
{
    return dimension(z, x, 2);
}

int64_t ckm_i_zoo_width(const ckm_i_zoo *z, ckm_i_layer x)
{
    return dimension(z, x, 1);
}

int64_t ckm_i_zoo_channels(const ckm_i_zoo *z, ckm_i_layer x)
{
    return dimension(z, x, 0);
}

const char *ckm_i_zoo_layer_name(ckm_i_zoo *z, const char *class_name, const char *name)
{
    if (name != NULL) {
        snprintf(z->layer_name, sizeof z->layer_name, "%s", name);
        return z->layer_name;
    }
    int32_t i = 0;
    while (i < z->n_classes && strcmp(z->classes[i].class_name, class_name) != 0) {
        i++;
    }
    if (i == MAX_CLASSES) {
        ckm_i_zoo_fail(z, "more than %d classes of layers", MAX_CLASSES);
        return class_name;
    }
    if (i == z->n_classes) {
        z->classes[z->n_classes++].class_name = class_name;
    }
    int32_t number = z->classes[i].used++;
    if (number == 0) {
        snprintf(z->layer_name, sizeof z->layer_name, "%s", class_name);
    } else {
        snprintf(z->layer_name, sizeof z->layer_name, "%s_%d", class_name, (int)number);
    }
    return z->layer_name;
}

static int32_t add_leaf(ckm_i_zoo *z, const char *name, ckm_tensor_role role, ckm_dtype dtype, const ckm_shape *shape)
{
    if (z->status != CKM_OK) {
        return -1;
    }
    int32_t tensor = -1;
    z->status = ckm_i_graph_add_tensor(z->draft, name, role, dtype, shape, &tensor, &z->error);
    return z->status == CKM_OK ? tensor : -1;
}

int32_t ckm_i_zoo_input(ckm_i_zoo *z, const char *name, ckm_dtype dtype, ckm_shape shape)
{
    return add_leaf(z, name, CKM_ROLE_INPUT, dtype, &shape);
}

// ---- names elsewhere

void ckm_i_zoo_known_as(ckm_i_zoo *z, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(z->known_as, sizeof z->known_as, format, args);
    va_end(args);
}

void ckm_i_zoo_known_for_all_samples(ckm_i_zoo *z)
{
    z->for_all = true;
}

void ckm_i_zoo_known_unturned(ckm_i_zoo *z)
{
    z->unturned = true;
}

void ckm_i_zoo_known_flattened(ckm_i_zoo *z, int64_t height, int64_t width, int64_t channels)
{
    z->map[0] = height;
    z->map[1] = width;
    z->map[2] = channels;
}

static void know(ckm_i_zoo *z, int32_t tensor, const ckm_i_known_as *as)
{
    if (z->status == CKM_OK && tensor >= 0) {
        z->status = ckm_i_graph_know(z->draft, tensor, as, &z->error);
    }
}

// Unchanged, under that name.
static ckm_i_known_as same(const ckm_shape *shape, const char *name)
{
    ckm_i_known_as as = {.view = *shape, .shape = *shape};
    snprintf(as.names[0], sizeof as.names[0], "%s", name);
    for (int32_t i = 0; i < shape->rank; i++) {
        as.perm[i] = i;
    }
    return as;
}

void ckm_i_zoo_parameter_known_as(ckm_i_zoo *z, int32_t parameter, const char *name, const ckm_shape *shape)
{
    if (z->status == CKM_OK) {
        ckm_i_known_as as = same(&z->draft->tensors[parameter].shape, name);
        as.shape = shape != NULL ? *shape : as.shape;
        know(z, parameter, &as);
    }
}

void ckm_i_zoo_known_with_index(ckm_i_zoo *z, int32_t parameter, const char *name, const int64_t window[2])
{
    if (z->status == CKM_OK) {
        ckm_i_known_as as = *z->draft->tensors[parameter].known_as;
        snprintf(as.index, sizeof as.index, "%s", name);
        memcpy(as.window, window, sizeof as.window);
        know(z, parameter, &as);
    }
}

int32_t ckm_i_zoo_find_parameter(const ckm_i_zoo *z, const char *name)
{
    for (int32_t i = 0; i < z->draft->n_tensors; i++) {
        if (z->draft->tensors[i].known_as != NULL && strcmp(z->draft->tensors[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

void ckm_i_zoo_also_known_as(ckm_i_zoo *z, int32_t parameter, const char *name)
{
    if (z->status == CKM_OK && parameter >= 0) {
        ckm_i_known_as as = *z->draft->tensors[parameter].known_as;
        snprintf(as.names[1], sizeof as.names[1], "%s", name);
        know(z, parameter, &as);
    }
}

// Kernels are turned: k, k, in, out to out, in, k, k, and in, out to out, in.
static void turn(const ckm_i_zoo *z, ckm_i_known_as *as)
{
    static const int64_t filter[4] = {3, 2, 0, 1};
    bool flattened = z->map[0] > 0 && as->view.rank == 2;
    if (flattened) {
        as->view = (ckm_shape){4, {z->map[0], z->map[1], z->map[2], as->view.dims[1]}};
    }
    if (as->view.rank == 2) {
        as->perm[0] = 1;
        as->perm[1] = 0;
    } else {
        memcpy(as->perm, filter, sizeof filter);
    }
    for (int32_t i = 0; i < as->view.rank; i++) {
        as->shape.dims[i] = as->view.dims[as->perm[i]];
    }
    if (flattened) {
        as->shape = (ckm_shape){2, {as->view.dims[3], z->map[0] * z->map[1] * z->map[2]}};
    }
}

// Parameter `what` of the layer being added.
static void know_part(ckm_i_zoo *z, int32_t tensor, const char *what, const ckm_shape *shape)
{
    static const char *const words[][2] = {
        {"kernel", "weight"},
        {"gamma", "weight"},
        {"scale", "weight"},
        {"embeddings", "weight"},
        {"beta", "bias"},
        {"moving_mean", "running_mean"},
        {"moving_variance", "running_var"},
    };
    char name[CKM_I_KNOWN_NAME];
    const char *word = what;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        word = strcmp(what, words[i][0]) == 0 ? words[i][1] : word;
    }
    if (z->for_all) {
        ckm_i_known_as whole = same(shape, z->known_as);
        whole.shape.rank = shape->rank + 1;
        memmove(whole.shape.dims + 1, shape->dims, (size_t)shape->rank * sizeof shape->dims[0]);
        whole.shape.dims[0] = 1;
        know(z, tensor, &whole);
        return;
    }
    size_t n = strlen(z->known_as);
    snprintf(name, sizeof name, "%s%s%s", z->known_as, z->known_as[n - 1] == '_' ? "" : ".", word);
    ckm_i_known_as as = same(shape, name);
    if (strcmp(what, "kernel") == 0 && !z->unturned) {
        turn(z, &as);
    }
    know(z, tensor, &as);
}

int32_t ckm_i_zoo_parameter(ckm_i_zoo *z, const char *layer, const char *what, ckm_tensor_role role, ckm_shape shape)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", layer, what);
    int32_t tensor = add_leaf(z, name, role, CKM_F32, &shape);
    if (z->known_as[0] != '\0') {
        know_part(z, tensor, what, &shape);
    }
    return tensor;
}

ckm_i_layer ckm_i_zoo_add(ckm_i_zoo *z, const char *kind, const char *layer, const int32_t *inputs, int32_t n_inputs,
                          const ckm_i_attr *attrs, int32_t n_attrs)
{
    if (z->status != CKM_OK) {
        return -1;
    }
    int32_t output = -1;
    z->known_as[0] = '\0';
    z->unturned = false;
    z->for_all = false;
    z->map[0] = 0;
    z->status = ckm_i_graph_add_op(
        z->draft,
        &(ckm_i_new_op){
            .kind = kind, .name = layer, .inputs = {inputs, n_inputs}, .attrs = {attrs, n_attrs}, .n_outputs = 1},
        &output, &z->error);
    return z->status == CKM_OK ? output : -1;
}

void ckm_i_zoo_add_split(ckm_i_zoo *z, const char *kind, const char *layer, ckm_i_layer x, const ckm_i_attr *attrs,
                         int32_t n_attrs, ckm_i_layer *outputs, int32_t n_outputs)
{
    for (int32_t i = 0; i < n_outputs; i++) {
        outputs[i] = -1;
    }
    if (z->status == CKM_OK) {
        z->status = ckm_i_graph_add_op(
            z->draft,
            &(ckm_i_new_op){
                .kind = kind, .name = layer, .inputs = {&x, 1}, .attrs = {attrs, n_attrs}, .n_outputs = n_outputs},
            outputs, &z->error);
    }
}

// ---- The order of the layer list

// The place of a layer: layers further from the output come first, and among equals those that a depth-first
// walk from the output, operands in order, meets first.
typedef struct place {
    int32_t op, depth, met;  // met is -1 when the output does not need the layer
} place;

// Operators that compute operator `op`'s inputs, in order, each at its input's position; -1 for others.
static int32_t operand(const ckm_graph *g, int32_t op, int32_t i)
{
    int32_t tensor = g->ops[op].inputs[i];
    return tensor >= 0 ? g->tensors[tensor].producer : -1;
}

// Longest path to the output. Operands come before their users in the draft, so one backward pass does.
static void find_depths(const ckm_graph *g, place *places)
{
    for (int32_t op = g->n_ops - 1; op >= 0; op--) {
        if (places[op].met < 0) {
            continue;
        }
        for (int32_t i = 0; i < g->ops[op].n_inputs; i++) {
            int32_t from = operand(g, op, i);
            if (from >= 0 && places[from].depth <= places[op].depth) {
                places[from].depth = places[op].depth + 1;
            }
        }
    }
}

// Numbers the operators a pre-order walk from `output` meets.
static ckm_status walk(const ckm_graph *g, int32_t output, place *places, ckm_error *err)
{
    typedef struct frame {
        int32_t op, next;
    } frame;
    frame *stack = ckm_i_malloc((size_t)g->n_ops, sizeof *stack);
    if (stack == NULL) {
        return ckm_i_error_memory(err);
    }
    int32_t met = 0;
    int32_t depth = 1;
    stack[0] = (frame){.op = output};
    places[output].met = met++;
    while (depth > 0) {
        frame *top = &stack[depth - 1];
        if (top->next == g->ops[top->op].n_inputs) {
            depth--;
            continue;
        }
        int32_t from = operand(g, top->op, top->next++);
        if (from >= 0 && places[from].met < 0) {
            places[from].met = met++;
            stack[depth++] = (frame){.op = from};
        }
    }
    free(stack);
    return CKM_OK;
}

static int by_place(const void *a, const void *b)
{
    const place *x = a;
    const place *y = b;
    if (x->depth != y->depth) {
        return x->depth > y->depth ? -1 : 1;
    }
    return (x->met > y->met) - (x->met < y->met);
}

// Copies operator `op` of the draft with its parameters; `map` takes draft tensors to those of `to`.
static ckm_status copy_op(const ckm_graph *from, int32_t op, ckm_graph *to, int32_t *map, ckm_error *err)
{
    const ckm_i_graph_op *o = &from->ops[op];
    int32_t *inputs = ckm_i_malloc((size_t)o->n_inputs + (size_t)o->n_outputs, sizeof *inputs);
    if (inputs == NULL) {
        return ckm_i_error_memory(err);
    }
    int32_t *outputs = inputs + o->n_inputs;
    ckm_status status = CKM_OK;
    for (int32_t i = 0; i < o->n_inputs; i++) {
        int32_t tensor = o->inputs[i];
        if (tensor >= 0 && map[tensor] < 0) {
            const ckm_i_graph_tensor *t = &from->tensors[tensor];
            CKM_I_TRY(ckm_i_graph_add_tensor(to, t->name, t->role, t->dtype, &t->shape, &map[tensor], err));
            CKM_I_TRY(t->known_as != NULL ? ckm_i_graph_know(to, map[tensor], t->known_as, err) : CKM_OK);
        }
        inputs[i] = tensor >= 0 ? map[tensor] : -1;
    }
    CKM_I_TRY(ckm_i_graph_add_op(to,
                                 &(ckm_i_new_op){.kind = o->op_class->kind,
                                                 .name = o->name,
                                                 .inputs = {inputs, o->n_inputs},
                                                 .attrs = {o->attrs, o->n_attrs},
                                                 .n_outputs = o->n_outputs},
                                 outputs, err));
    for (int32_t i = 0; i < o->n_outputs; i++) {
        map[o->outputs[i]] = outputs[i];
    }
cleanup:
    free(inputs);
    return status;
}

static ckm_status arrange(const ckm_graph *draft, int32_t output, ckm_graph *to, ckm_error *err)
{
    ckm_status status = CKM_OK;
    place *places = ckm_i_calloc((size_t)draft->n_ops, sizeof *places);
    int32_t *map = ckm_i_malloc((size_t)draft->n_tensors, sizeof *map);
    if (places == NULL || map == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < draft->n_ops; i++) {
        places[i] = (place){.op = i, .depth = 0, .met = -1};
    }
    for (int32_t i = 0; i < draft->n_tensors; i++) {
        map[i] = -1;
    }
    const ckm_i_graph_tensor *input = &draft->tensors[CKM_I_ZOO_INPUT];
    CKM_I_TRY(
        ckm_i_graph_add_tensor(to, input->name, input->role, input->dtype, &input->shape, &map[CKM_I_ZOO_INPUT], err));
    CKM_I_TRY(walk(draft, output, places, err));
    find_depths(draft, places);
    qsort(places, (size_t)draft->n_ops, sizeof *places, by_place);
    for (int32_t i = 0; i < draft->n_ops; i++) {
        if (places[i].met >= 0) {
            CKM_I_TRY(copy_op(draft, places[i].op, to, map, err));
        }
    }
cleanup:
    free(map);
    free(places);
    return status;
}

// The first error, with the input that led to it where there is one.
static ckm_status failure(const ckm_i_zoo *z, ckm_error *err)
{
    // What the graph calls a bad format is here an input shape the network cannot take.
    ckm_status code = z->status == CKM_ERR_FORMAT ? CKM_ERR_ARGUMENT : z->status;
    if (z->draft->n_tensors == 0) {
        return ckm_i_error(err, code, "%s: %s%s", z->draft->name, z->place, z->error.message);
    }
    char text[256];
    ckm_shape input = z->draft->tensors[CKM_I_ZOO_INPUT].shape;
    input.rank--;
    memmove(input.dims, input.dims + 1, (size_t)input.rank * sizeof *input.dims);
    return ckm_i_error(err, code, "%s with an input of %s and batch %lld: %s%s", z->draft->name,
                       ckm_i_shape_text(&input, text, sizeof text), (long long)z->draft->batch, z->place,
                       z->error.message);
}

ckm_status ckm_i_zoo_finish(ckm_i_zoo *z, ckm_i_layer output, ckm_graph **out, ckm_error *err)
{
    if (z->status != CKM_OK) {
        return failure(z, err);
    }
    if (output < 0 || output >= z->draft->n_tensors || z->draft->tensors[output].producer < 0) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "%s: its output is not a layer", z->draft->name);
    }
    ckm_graph *graph = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_graph_create(z->draft->name, z->draft->layout, z->draft->batch, &graph, err));
    graph->task = z->draft->task;
    CKM_I_TRY(arrange(z->draft, z->draft->tensors[output].producer, graph, err));
    *out = graph;
    graph = NULL;
cleanup:
    ckm_graph_free(graph);
    return status;
}
