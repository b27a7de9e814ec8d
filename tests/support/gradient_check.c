// SPDX-License-Identifier: Apache-2.0
#include "gradient_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/training.h"
#include "kernel_script.h"
#include "run/backend/backend_list.h"

enum { MAX_VALUES = 128, MAX_OPS = 64, MAX_OPERANDS = 16, GUARD = 64, MAX_PROBES = 24 };

typedef struct bench {
    const gradient_case *c;
    kernel_script script;
    ckm_training *training;
    ckm_i_backend *backend;
    ckm_i_kernel *kernels[MAX_OPS];
    int64_t workspaces[MAX_OPS];
    void *values[MAX_VALUES];
} bench;

static size_t bytes_of(const bench *b, int32_t tensor)
{
    const ckm_i_graph_tensor *t = &b->training->step->tensors[tensor];
    int64_t elements = 0;
    assert_int_equal(ckm_i_shape_elements(&t->shape, &elements, NULL), CKM_OK);
    return (size_t)(elements * ckm_i_dtype_bytes(t->dtype));
}

static unsigned char *allocate(size_t bytes, int content)
{
    size_t room = (bytes + GUARD + 63) / 64 * 64;
    unsigned char *memory = aligned_alloc(64, room);
    assert_non_null(memory);
    memset(memory, content, room);
    return memory;
}

static void check_guard(const bench *b, const unsigned char *memory, size_t bytes, int content, const char *what,
                        int32_t op)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (memory[bytes + i] != (unsigned char)content) {
            fail_msg("%s: %s: byte %zu behind %s was written", b->c->script, b->training->ops[op].name, i, what);
        }
    }
}

// ---- data

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

// n numbers in (-1, 1) in mixed order, 2/n apart from each other and at least 0.3/n from 0.
static double spaced(int64_t i, int64_t n, int32_t salt)
{
    int64_t stride = n * 618 / 1000 + 1 + salt % 3;
    while (common_divisor(stride, n) != 1) {
        stride++;
    }
    int64_t place = (i * stride + salt) % n;
    return (2.0 * (double)place + 1.3 + 0.1 * (salt % 4)) / (double)n - 1.0;
}

static void fill(bench *b, int32_t tensor, int32_t original)
{
    const ckm_i_graph_tensor *t = &b->training->step->tensors[tensor];
    int64_t n = (int64_t)bytes_of(b, tensor) / ckm_i_dtype_bytes(t->dtype);
    double scale = b->c->scale > 0.0 ? b->c->scale : 1.0;
    for (int64_t i = 0; i < n; i++) {
        double x = spaced(i, n, tensor);
        if (t->dtype == CKM_BOOL) {
            ((uint8_t *)b->values[tensor])[i] = (i * 7 + tensor) % 3 != 0;
        } else if (t->dtype == CKM_I32) {
            int64_t limit = original >= 0 ? b->script.fill[original].limit : 3;
            ((int32_t *)b->values[tensor])[i] = (int32_t)((i * 7 + tensor) % (limit + 1)) - 1;
        } else if (original >= 0 && b->script.fill[original].kind == KERNEL_FILL_POSITIVE) {
            ((float *)b->values[tensor])[i] = (float)(1.0 + 0.5 * x);
        } else {
            ((float *)b->values[tensor])[i] = (float)(scale * x);
        }
    }
}

// The script's tensor that the step's leaf stands for, or -1: they are named "t<index>".
static int32_t original_of(const bench *b, int32_t tensor)
{
    const char *name = b->training->step->tensors[tensor].name;
    if (name[0] != 't' || name[1] < '0' || name[1] > '9') {
        return -1;
    }
    return (int32_t)strtol(name + 1, NULL, 10);
}

// ---- setting up

static void rename_leaves(kernel_script *s)
{
    for (int32_t i = 0; i < s->graph->n_tensors; i++) {
        ckm_i_graph_tensor *t = &s->graph->tensors[i];
        if (t->producer >= 0) {
            continue;
        }
        free(t->name);
        t->name = malloc(16);
        assert_non_null(t->name);
        snprintf(t->name, 16, "t%d", (int)i);
        t->role = t->dtype == CKM_F32 ? CKM_ROLE_PARAMETER : CKM_ROLE_CONSTANT;
    }
}

static void open_bench(bench *b, const gradient_case *c, ckm_layout layout)
{
    memset(b, 0, sizeof *b);
    b->c = c;
    kernel_script_read(&b->script, c->script, layout);
    rename_leaves(&b->script);
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    options.loss = c->loss;
    options.optimizer.kind = CKM_OPTIMIZER_SGD;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_autodiff_op_graph(b->script.graph, &options, &b->training, &err) != CKM_OK) {
        fail_msg("%s: %s", c->script, err.message);
    }
    assert_true(b->training->n_values <= MAX_VALUES && b->training->n_ops <= MAX_OPS);
    assert_int_equal(ckm_i_backend_reference_create(1, &b->backend, NULL), CKM_OK);
    for (int32_t v = 0; v < b->training->n_ops; v++) {
        if (b->backend->prepare(b->backend, b->training->step, v, &b->kernels[v], &b->workspaces[v], &err) != CKM_OK) {
            fail_msg("%s: %s", c->script, err.message);
        }
    }
    for (int32_t i = 0; i < b->training->n_values; i++) {
        int32_t base = b->training->values[i].alias_of;
        b->values[i] = base >= 0 ? b->values[base] : allocate(bytes_of(b, i), 0xff);
        if (b->training->step->tensors[i].producer < 0) {
            fill(b, i, original_of(b, i));
        }
    }
}

static void close_bench(bench *b)
{
    for (int32_t v = 0; v < b->training->n_ops; v++) {
        b->backend->free_kernel(b->backend, b->kernels[v]);
    }
    for (int32_t i = 0; i < b->training->n_values; i++) {
        if (b->training->values[i].alias_of < 0) {
            free(b->values[i]);
        }
    }
    b->backend->destroy(b->backend);
    ckm_training_free(b->training);
    kernel_script_free(&b->script);
}

// ---- running

static void run_op(bench *b, int32_t v, void *const *values, int content, bool first)
{
    const ckm_i_graph_op *op = &b->training->step->ops[v];
    const void *inputs[MAX_OPERANDS] = {NULL};
    void *outputs[MAX_OPERANDS] = {NULL};
    assert_true(op->n_inputs <= MAX_OPERANDS && op->n_outputs <= MAX_OPERANDS);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        inputs[i] = op->inputs[i] >= 0 ? values[op->inputs[i]] : NULL;
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        outputs[i] = values[op->outputs[i]];
    }
    unsigned char *workspace = allocate((size_t)b->workspaces[v], content);
    ckm_i_kernel_call call = {.inputs = inputs,
                              .outputs = outputs,
                              .workspace = b->workspaces[v] > 0 ? workspace : NULL,
                              .seed = 11,
                              .step = 5,
                              .op = v,
                              .first = first,
                              .learning_rate = 0.5};
    ckm_error err = CKM_ERROR_INIT;
    if (b->backend->run(b->backend, b->kernels[v], &call, &err) != CKM_OK) {
        fail_msg("%s: %s", b->c->script, err.message);
    }
    check_guard(b, workspace, (size_t)b->workspaces[v], content, "the workspace", v);
    for (int32_t i = 0; i < op->n_outputs; i++) {
        check_guard(b, outputs[i], bytes_of(b, op->outputs[i]), 0xff, "an output", v);
    }
    free(workspace);
}

static void run_phase(bench *b, ckm_i_phase last, bool first)
{
    for (int32_t v = 0; v < b->training->n_ops; v++) {
        if (b->training->ops[v].phase <= last) {
            run_op(b, v, b->values, first ? 0xff : 0x2b, first);
        }
    }
}

// The loss of the values as they are: in double precision where it is a mean of squares.
static double loss_of(bench *b)
{
    run_phase(b, CKM_I_LOSS, false);
    const ckm_graph *step = b->training->step;
    const ckm_i_graph_op *op = &step->ops[step->tensors[b->training->loss].producer];
    if (b->c->loss != CKM_LOSS_MSE) {
        return (double)((const float *)b->values[b->training->loss])[0];
    }
    const float *prediction = b->values[op->inputs[0]];
    const float *target = b->values[op->inputs[1]];
    size_t n = bytes_of(b, op->inputs[0]) / sizeof *prediction;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double distance = (double)prediction[i] - (double)target[i];
        sum += distance * distance;
    }
    return sum / (double)n;
}

// ---- the checks

static void check_gradient(bench *b, int32_t parameter, int32_t gradient_value)
{
    size_t n = bytes_of(b, parameter) / sizeof(float);
    float *x = b->values[parameter];
    float *gradient = malloc(n * sizeof *gradient);
    assert_non_null(gradient);
    memcpy(gradient, b->values[gradient_value], n * sizeof *gradient);
    double step = b->c->step > 0.0 ? b->c->step : 1e-3;
    double tolerance = b->c->tolerance > 0.0 ? b->c->tolerance : 2e-3;
    double largest = 1e-3;
    for (size_t i = 0; i < n; i++) {
        largest = fabs((double)gradient[i]) > largest ? fabs((double)gradient[i]) : largest;
    }
    size_t stride = n > MAX_PROBES ? n / MAX_PROBES + (n / MAX_PROBES % 2 == 0) : 1;
    for (size_t i = 0; i < n; i += stride) {
        float kept = x[i];
        x[i] = (float)((double)kept + step);
        double up = (double)x[i];
        double above = loss_of(b);
        x[i] = (float)((double)kept - step);
        double down = (double)x[i];
        double below = loss_of(b);
        x[i] = kept;
        double wanted = (above - below) / (up - down);
        if (!(fabs((double)gradient[i] - wanted) <= tolerance * largest)) {
            fail_msg("%s: gradient of %s, element %zu of %zu: %.9g, by differences %.9g (largest %.3g)", b->c->script,
                     b->training->step->tensors[parameter].name, i, n, (double)gradient[i], wanted, largest);
        }
    }
    (void)loss_of(b);  // everything as it was
    free(gradient);
}

// Computes operator v once more into fresh buffers and compares; `pair` >= 0: that in-place pair shares a buffer.
static void check_again(bench *b, int32_t v, int32_t pair)
{
    const ckm_i_graph_op *op = &b->training->step->ops[v];
    void *values[MAX_VALUES];
    memcpy(values, b->values, sizeof values);
    for (int32_t i = 0; i < op->n_outputs; i++) {
        values[op->outputs[i]] = allocate(bytes_of(b, op->outputs[i]), 0xff);
    }
    if (pair >= 0) {
        int32_t in = b->training->ops[v].inplace[pair][0];
        int32_t out = b->training->ops[v].inplace[pair][1];
        assert_int_equal(bytes_of(b, in), bytes_of(b, out));
        memcpy(values[out], b->values[in], bytes_of(b, in));
        values[in] = values[out];
    }
    run_op(b, v, values, 0x3c, false);
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t out = op->outputs[i];
        if (memcmp(values[out], b->values[out], bytes_of(b, out)) != 0) {
            fail_msg("%s: %s: output %d differs %s", b->c->script, b->training->ops[v].name, (int)i,
                     pair < 0 ? "when computed again" : "in place");
        }
        free(values[out]);
    }
}

void gradient_check(const gradient_case *c, ckm_layout layout)
{
    bench b;
    int32_t checked = 0;
    open_bench(&b, c, layout);
    run_phase(&b, CKM_I_BACKWARD, true);
    for (int32_t v = 0; v < b.training->n_ops; v++) {
        if (b.training->ops[v].phase == CKM_I_UPDATE) {
            continue;
        }
        for (int32_t pair = -1; pair < b.training->ops[v].n_inplace; pair++) {
            check_again(&b, v, pair);
        }
    }
    for (int32_t v = 0; v < b.training->n_ops; v++) {
        const ckm_i_graph_op *op = &b.training->step->ops[v];
        if (b.training->ops[v].phase == CKM_I_UPDATE) {
            check_gradient(&b, op->inputs[0], op->inputs[1]);
            checked++;
        }
    }
    if (checked == 0) {
        fail_msg("%s: no parameter has a gradient", c->script);
    }
    close_bench(&b);
}
