// SPDX-License-Identifier: Apache-2.0
#include "kernel_script.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/backend/backend_list.h"
#include "run/cpu/cpu_backend.h"

enum { GUARD = 256, MAX_OPERANDS = 16 };

static void *allocate(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(memory);
    return memory;
}

// ---- reading

static void parse_shape(const char *text, ckm_shape *shape, ckm_dtype *dtype, kernel_script *s, int32_t tensor)
{
    *shape = (ckm_shape){0};
    *dtype = CKM_F32;
    const char *at = text;
    while (*at != '\0' && *at != ':') {
        char *end;
        shape->dims[shape->rank++] = strtoll(at, &end, 10);
        at = *end == 'x' ? end + 1 : end;
    }
    if (*at == ':' && at[1] == '+') {
        s->fill[tensor].kind = KERNEL_FILL_POSITIVE;
    } else if (*at == ':' && at[1] == 'i') {
        s->fill[tensor].kind = KERNEL_FILL_LABELS;
        s->fill[tensor].limit = strtoll(at + 2, NULL, 10);
        *dtype = CKM_I32;
    } else if (*at == ':' && at[1] == 'b') {
        s->fill[tensor].kind = KERNEL_FILL_BOOLEANS;
        *dtype = CKM_BOOL;
    }
}

static ckm_i_attr parse_attribute(char *key, char *value)
{
    if (strchr("0123456789-+", value[0]) == NULL) {
        return ckm_i_attr_word(key, value);
    }
    if (strpbrk(value, ".e") != NULL) {
        return ckm_i_attr_real(key, strtod(value, NULL));
    }
    int64_t values[CKM_I_ATTR_MAX];
    int32_t n = 0;
    for (char *at = value; *at != '\0' && n < CKM_I_ATTR_MAX;) {
        char *end;
        values[n++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return ckm_i_attr_ints(key, values, n);
}

static void parse_pairs(kernel_script *s, int32_t op, const char *value)
{
    for (const char *at = value; *at != '\0';) {
        char *end;
        int32_t n = s->n_pairs[op]++;
        s->pairs[op][n][0] = (int32_t)strtol(at, &end, 10);
        s->pairs[op][n][1] = (int32_t)strtol(end + 1, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
}

static void parse_operator(kernel_script *s, char *kind, char **rest, const char *text)
{
    int32_t inputs[MAX_OPERANDS];
    int32_t outputs[MAX_OPERANDS];
    ckm_i_attr attrs[16];
    int32_t n_inputs = 0;
    int32_t n_outputs = 1;
    int32_t n_attrs = 0;
    char *word;
    while ((word = strtok_r(NULL, " ", rest)) != NULL) {
        char *equals = strchr(word, '=');
        if (word[0] == '>') {
            word = strtok_r(NULL, " ", rest);
            assert_non_null(word);
            n_outputs = (int32_t)strtol(word, NULL, 10);
        } else if (equals != NULL) {
            *equals = '\0';
            if (strcmp(word, "inplace") == 0) {
                parse_pairs(s, s->graph->n_ops, equals + 1);
            } else {
                attrs[n_attrs++] = parse_attribute(word, equals + 1);
            }
        } else {
            inputs[n_inputs++] = word[0] == '-' ? -1 : (int32_t)strtol(word, NULL, 10);
        }
    }
    ckm_error err = CKM_ERROR_INIT;
    ckm_status status = ckm_i_graph_add_op(s->graph,
                                           &(ckm_i_new_op){.kind = kind,
                                                           .name = "tested",
                                                           .inputs = {inputs, n_inputs},
                                                           .attrs = {attrs, n_attrs},
                                                           .n_outputs = n_outputs},
                                           outputs, &err);
    if (status != CKM_OK) {
        fail_msg("%s: %s", text, err.message);
    }
}

void kernel_script_read(kernel_script *s, const char *text, ckm_layout layout)
{
    memset(s, 0, sizeof *s);
    s->text = malloc(strlen(text) + 1);
    assert_non_null(s->text);
    memcpy(s->text, text, strlen(text) + 1);
    assert_int_equal(ckm_i_graph_create("script", layout, 1, &s->graph, NULL), CKM_OK);
    char *statements;
    for (char *statement = strtok_r(s->text, ";", &statements); statement != NULL;
         statement = strtok_r(NULL, ";", &statements)) {
        char *rest;
        char *word = strtok_r(statement, " ", &rest);
        assert_non_null(word);
        if (strcmp(word, "in") != 0) {
            parse_operator(s, word, &rest, text);
            continue;
        }
        ckm_shape shape;
        ckm_dtype dtype;
        int32_t tensor = s->graph->n_tensors;
        char *given = strtok_r(NULL, " ", &rest);
        parse_shape(given != NULL ? given : "", &shape, &dtype, s, tensor);
        assert_int_equal(ckm_i_graph_add_tensor(s->graph, "operand", CKM_ROLE_PARAMETER, dtype, &shape, &tensor, NULL),
                         CKM_OK);
    }
    assert_true(s->graph->n_ops > 0 && s->graph->n_ops <= KERNEL_SCRIPT_OPS);
}

void kernel_script_free(kernel_script *s)
{
    ckm_graph_free(s->graph);
    free(s->text);
}

// ---- data

static size_t bytes_of(const kernel_script *s, int32_t tensor)
{
    const ckm_i_graph_tensor *t = &s->graph->tensors[tensor];
    int64_t elements = 0;
    assert_int_equal(ckm_i_shape_elements(&t->shape, &elements, NULL), CKM_OK);
    return (size_t)(elements * ckm_i_dtype_bytes(t->dtype));
}

// A number from the tensor and the element, spread over [0, 1).
static double spread(int32_t tensor, int64_t i)
{
    uint64_t x = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)tensor * UINT64_C(0xd1b54a32d192ed03) + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static void *fill(const kernel_script *s, int32_t tensor, kernel_range range)
{
    size_t bytes = bytes_of(s, tensor);
    void *data = allocate(bytes);
    bool booleans = s->fill[tensor].kind == KERNEL_FILL_BOOLEANS;
    for (size_t i = 0; booleans && i < bytes; i++) {
        ((uint8_t *)data)[i] = spread(tensor, (int64_t)i) < 0.7;
    }
    for (size_t i = 0; !booleans && i < bytes / 4; i++) {
        double u = spread(tensor, (int64_t)i);
        bool positive = s->fill[tensor].kind == KERNEL_FILL_POSITIVE;
        if (s->fill[tensor].kind == KERNEL_FILL_LABELS) {
            ((int32_t *)data)[i] = (int32_t)(u * (double)(s->fill[tensor].limit + 1)) - 1;
        } else {
            float unit = (float)(positive ? 0.5 + u : 2.0 * u - 1.0);
            ((float *)data)[i] = kernel_range_number(s->graph, range, tensor, (int64_t)i, (int64_t)bytes / 4, positive,
                                                     unit);
        }
    }
    return data;
}

// ---- one run

typedef struct buffers {
    void *inputs[MAX_OPERANDS];
    void *outputs[MAX_OPERANDS];  // each followed by a guard
    unsigned char *workspace;
    size_t workspace_bytes;
} buffers;

// in_place: input pairs[pair][0] and output pairs[pair][1] share; -1: none.
static void make_buffers(const kernel_script *s, int32_t op, void *const *values, int64_t workspace, int poison,
                         int32_t pair, buffers *b)
{
    const ckm_i_graph_op *o = &s->graph->ops[op];
    memset(b, 0, sizeof *b);
    for (int32_t i = 0; i < o->n_inputs; i++) {
        if (o->inputs[i] >= 0) {
            size_t bytes = bytes_of(s, o->inputs[i]);
            b->inputs[i] = allocate(bytes + GUARD);
            memcpy(b->inputs[i], values[o->inputs[i]], bytes);
            memset((unsigned char *)b->inputs[i] + bytes, poison, GUARD);
        }
    }
    for (int32_t i = 0; i < o->n_outputs; i++) {
        size_t bytes = bytes_of(s, o->outputs[i]);
        if (pair >= 0 && s->pairs[op][pair][1] == i) {
            b->outputs[i] = b->inputs[s->pairs[op][pair][0]];
            continue;
        }
        b->outputs[i] = allocate(bytes + GUARD);
        memset(b->outputs[i], poison, bytes + GUARD);
    }
    b->workspace_bytes = (size_t)workspace;
    b->workspace = allocate(b->workspace_bytes + GUARD);
    memset(b->workspace, poison, b->workspace_bytes + GUARD);
}

static void free_buffers(const kernel_script *s, int32_t op, buffers *b)
{
    const ckm_i_graph_op *o = &s->graph->ops[op];
    for (int32_t i = 0; i < o->n_outputs; i++) {
        bool shared = false;
        for (int32_t k = 0; k < o->n_inputs; k++) {
            shared = shared || b->inputs[k] == b->outputs[i];
        }
        if (!shared) {
            free(b->outputs[i]);
        }
    }
    for (int32_t i = 0; i < o->n_inputs; i++) {
        free(b->inputs[i]);
    }
    free(b->workspace);
}

static void check_guard(const void *data, size_t bytes, int poison, const char *what, const char *text)
{
    const unsigned char *guard = (const unsigned char *)data + bytes;
    for (int i = 0; i < GUARD; i++) {
        if (guard[i] != (unsigned char)poison) {
            fail_msg("%s: byte %d behind %s was written", text, i, what);
        }
    }
}

static void run(ckm_i_backend *backend, ckm_i_kernel *kernel, int32_t op, const buffers *b, const char *text)
{
    const void *inputs[MAX_OPERANDS];
    void *outputs[MAX_OPERANDS];
    memcpy(inputs, b->inputs, sizeof inputs);
    memcpy(outputs, b->outputs, sizeof outputs);
    ckm_i_kernel_call call = {.inputs = inputs,
                              .outputs = outputs,
                              .workspace = b->workspace,
                              .seed = 7,
                              .step = 3,
                              .op = op,
                              .first = true,
                              .learning_rate = 0.125};
    ckm_error err = CKM_ERROR_INIT;
    if (backend->run(backend, kernel, &call, &err) != CKM_OK) {
        fail_msg("%s: %s", text, err.message);
    }
}

// ---- comparisons

static bool same_number(float got, float wanted, double tolerance)
{
    if (isnan(wanted) || isnan(got)) {
        return isnan(wanted) && isnan(got);
    }
    return got == wanted && (tolerance > 0.0 || signbit(got) == signbit(wanted));
}

size_t kernel_script_first_difference(const float *got, const float *wanted, size_t n, const kernel_tolerance *t)
{
    double largest = t->floor;
    for (size_t k = 0; k < n; k++) {
        bool larger = isfinite(wanted[k]) && fabs((double)wanted[k]) > largest;
        largest = larger ? fabs((double)wanted[k]) : largest;
    }
    for (size_t k = 0; k < n; k++) {
        double size = t->each ? fmax(t->floor, fabs((double)wanted[k])) : largest;
        if (!same_number(got[k], wanted[k], t->part) &&
            !(isfinite(wanted[k]) && t->part > 0.0 && fabs((double)got[k] - (double)wanted[k]) <= t->part * size)) {
            return k;
        }
    }
    return n;
}

static void compare_floats(const float *got, const float *wanted, size_t n, const kernel_tolerance *t, const char *what,
                           int32_t i, const char *text)
{
    size_t k = kernel_script_first_difference(got, wanted, n, t);
    if (k < n) {
        fail_msg("%s: %s %d, element %zu of %zu: %.9g, reference %.9g", text, what, (int)i, k, n, (double)got[k],
                 (double)wanted[k]);
    }
}

static bool same_bytes(const void *a, const void *b, size_t n)
{
    return a != NULL && b != NULL && memcmp(a, b, n) == 0;
}

static void compare_tensor(const kernel_script *s, int32_t tensor, const void *got, const void *wanted,
                           const kernel_tolerance *t, const char *what, int32_t i, const char *text)
{
    size_t bytes = bytes_of(s, tensor);
    if (s->graph->tensors[tensor].dtype == CKM_F32) {
        compare_floats(got, wanted, bytes / sizeof(float), t, what, i, text);
    } else if (!same_bytes(got, wanted, bytes)) {
        fail_msg("%s: %s %d differs from the reference's", text, what, (int)i);
    }
}

static void check_same_bits(const kernel_script *s, int32_t op, const buffers *a, const buffers *b, int32_t pair,
                            const char *how, const char *text)
{
    const ckm_i_graph_op *o = &s->graph->ops[op];
    for (int32_t i = 0; i < o->n_outputs; i++) {
        if (!same_bytes(a->outputs[i], b->outputs[i], bytes_of(s, o->outputs[i]))) {
            fail_msg("%s: output %d differs %s", text, (int)i, how);
        }
    }
    for (int32_t i = 0; i < o->n_inputs; i++) {
        bool shared = pair >= 0 && s->pairs[op][pair][0] == i;
        if (o->inputs[i] >= 0 && !shared && !same_bytes(a->inputs[i], b->inputs[i], bytes_of(s, o->inputs[i]))) {
            fail_msg("%s: input %d is changed otherwise %s", text, (int)i, how);
        }
    }
}

static void check_guards(const kernel_script *s, int32_t op, const buffers *b, int poison, const char *text)
{
    const ckm_i_graph_op *o = &s->graph->ops[op];
    for (int32_t i = 0; i < o->n_outputs; i++) {
        check_guard(b->outputs[i], bytes_of(s, o->outputs[i]), poison, "an output", text);
    }
    for (int32_t i = 0; i < o->n_inputs; i++) {
        if (o->inputs[i] >= 0) {
            check_guard(b->inputs[i], bytes_of(s, o->inputs[i]), poison, "an input", text);
        }
    }
    check_guard(b->workspace, b->workspace_bytes, poison, "the workspace", text);
}

static ckm_i_kernel *prepare(ckm_i_backend *backend, const kernel_script *s, int32_t op, int64_t *workspace,
                             const char *text)
{
    ckm_i_kernel *kernel = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (backend->prepare(backend, s->graph, op, &kernel, workspace, &err) != CKM_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return kernel;
}

// Compares operator `op`; its outputs by the reference go to `values`.
static void check_operator(const kernel_script *s, int32_t op, ckm_i_backend *cpu, ckm_i_backend *reference,
                           void **values, const kernel_tolerance *t, const char *text)
{
    const ckm_i_graph_op *o = &s->graph->ops[op];
    int64_t workspace;
    int64_t reference_workspace;
    ckm_i_kernel *kernel = prepare(cpu, s, op, &workspace, text);
    ckm_i_kernel *wanted_kernel = prepare(reference, s, op, &reference_workspace, text);
    buffers wanted;
    buffers first;
    make_buffers(s, op, values, reference_workspace, 0xff, -1, &wanted);
    run(reference, wanted_kernel, op, &wanted, text);
    make_buffers(s, op, values, workspace, 0xff, -1, &first);
    run(cpu, kernel, op, &first, text);
    check_guards(s, op, &first, 0xff, text);
    for (int32_t i = 0; i < o->n_outputs; i++) {
        compare_tensor(s, o->outputs[i], first.outputs[i], wanted.outputs[i], t, "output", i, text);
    }
    for (int32_t i = 0; i < o->n_inputs; i++) {
        if (o->inputs[i] >= 0) {
            compare_tensor(s, o->inputs[i], first.inputs[i], wanted.inputs[i], t, "input", i, text);
        }
    }
    for (int32_t pair = -1; pair < s->n_pairs[op]; pair++) {
        buffers again;
        make_buffers(s, op, values, workspace, 0x3c, pair, &again);
        run(cpu, kernel, op, &again, text);
        check_guards(s, op, &again, 0x3c, text);
        check_same_bits(s, op, &first, &again, pair, pair < 0 ? "when computed again" : "in place", text);
        free_buffers(s, op, &again);
    }
    for (int32_t i = 0; i < o->n_outputs; i++) {
        values[o->outputs[i]] = wanted.outputs[i];
        wanted.outputs[i] = NULL;
    }
    free_buffers(s, op, &first);
    free_buffers(s, op, &wanted);
    cpu->free_kernel(cpu, kernel);
    reference->free_kernel(reference, wanted_kernel);
}

// Compares all operators on inputs in a range.
static void check_range(const kernel_script *s, kernel_range range, ckm_i_backend *cpu, ckm_i_backend *reference,
                        double tolerance, const char *script)
{
    void *values[KERNEL_SCRIPT_TENSORS] = {NULL};
    char text[2048];
    snprintf(text, sizeof text, "%s, %s", script, kernel_range_name(range));
    bool each = kernel_range_is_each(range);
    double floor = each ? kernel_ranges_floor(s->graph) : range == KERNEL_RANGE_SMALL ? 0.0 : 1e-3;
    const kernel_tolerance t = {.part = tolerance, .each = each, .floor = floor};
    for (int32_t i = 0; i < s->graph->n_tensors; i++) {
        values[i] = s->graph->tensors[i].producer < 0 ? fill(s, i, range) : NULL;
    }
    for (int32_t op = 0; op < s->graph->n_ops; op++) {
        check_operator(s, op, cpu, reference, values, &t, text);
    }
    for (int32_t i = 0; i < s->graph->n_tensors; i++) {
        free(values[i]);
    }
}

// Multiply-accumulates of a script up to which it is tried on all ranges: larger ones are about how work is divided.
enum { MANY_MACS = 200000 };

static bool is_large(const ckm_graph *g)
{
    int64_t sum = 0;
    for (int32_t op = 0; op < g->n_ops; op++) {
        ckm_i_op_view view;
        int64_t macs = 0;
        assert_int_equal(ckm_i_op_view_init(g, op, &view, NULL), CKM_OK);
        if (g->ops[op].op_class->macs != NULL) {
            assert_int_equal(g->ops[op].op_class->macs(&view, &macs, NULL), CKM_OK);
        }
        sum += macs;
    }
    return sum > MANY_MACS;
}

void kernel_script_check(const char *text, ckm_layout layout, int threads, double tolerance)
{
    kernel_script s;
    ckm_i_backend *cpu = NULL;
    ckm_i_backend *reference = NULL;
    kernel_script_read(&s, text, layout);
    assert_int_equal(ckm_i_backend_cpu_create(threads, &cpu, NULL), CKM_OK);
    assert_int_equal(ckm_i_backend_reference_create(1, &reference, NULL), CKM_OK);
    bool spans = threads == KERNEL_SCRIPT_SPANS && !is_large(s.graph);
    for (int range = KERNEL_RANGE_UNIT; range < (spans ? KERNEL_RANGE_COUNT : 1); range++) {
        if (kernel_ranges_apply(s.graph, (kernel_range)range)) {
            check_range(&s, (kernel_range)range, cpu, reference, tolerance, text);
        }
    }
    reference->destroy(reference);
    cpu->destroy(cpu);
    kernel_script_free(&s);
}

bool kernel_script_is_own(const char *text, ckm_layout layout)
{
    kernel_script s;
    ckm_i_backend *cpu = NULL;
    int64_t workspace;
    kernel_script_read(&s, text, layout);
    assert_int_equal(ckm_i_backend_cpu_create(1, &cpu, NULL), CKM_OK);
    ckm_i_kernel *kernel = prepare(cpu, &s, s.graph->n_ops - 1, &workspace, text);
    bool own = kernel->reference == NULL;
    cpu->free_kernel(cpu, kernel);
    cpu->destroy(cpu);
    kernel_script_free(&s);
    return own;
}
