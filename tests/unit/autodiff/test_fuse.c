// SPDX-License-Identifier: Apache-2.0
// Patterns that become one operator: what is found and what is not; the loss and all gradients are those of the
// operators that it stands for, which a reader of something in between keeps apart.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/zoo.h>

#include "graph/training.h"
#include "kernel_script.h"
#include "onnx_builder.h"
#include "run/backend/backend_list.h"

typedef struct constant {
    int32_t tensor;
    double value;
} constant;

typedef struct pattern_case {
    const char *script;     // kinds of the network
    const char *kind;       // of the one operator
    int32_t inside;         // a tensor between the operators
    constant constants[3];  // tensors of one element; ended by a value of 0
    const char *gone;       // a kind that is left when the pattern is not found
} pattern_case;

static const pattern_case cases[] = {
    // As the zoo writes it, heads brought to the front and back.
    {"in 2x5x3x4;in 2x7x3x4;in 2x7x3x6;transpose 0 perm=0,2,1,3;transpose 1 perm=0,2,1,3;transpose 2 perm=0,2,1,3;"
     "scale 3 alpha=0.5;matmul 6 4 trans_b=1;softmax 7;matmul 8 5;transpose 9 perm=0,2,1,3",
     "attention",
     8,
     {{0}},
     "transpose"},
    // As PyTorch's exporter does: k turned at once, the product scaled by a constant.
    {"in 2x5x3x4;in 2x7x3x4;in 2x3x7x6;in 1;transpose 0 perm=0,2,1,3;transpose 1 perm=0,2,3,1;matmul 4 5;div 6 3;"
     "softmax 7;matmul 8 2;transpose 9 perm=0,2,1,3",
     "attention",
     8,
     {{3, 1.7}},
     "transpose"},
    // q and k scaled each, k turned in two steps.
    {"in 2x3x5x4;in 2x7x3x4;in 2x3x7x6;in 1;mul 3 0;transpose 1 perm=0,2,1,3;mul 5 3;transpose 6 perm=0,1,3,2;"
     "matmul 4 7;softmax 8;matmul 9 2",
     "attention",
     9,
     {{3, 0.8}},
     "mul"},
    // Heads that share keys are rows of one product.
    {"in 2x4x3x4;in 2x2x3x4;in 2x2x3x4;reshape 0 shape=2,2,6,4;matmul 3 1 trans_b=1;reshape 4 shape=2,4,3,3;"
     "masked_softmax 5 mask=causal;reshape 6 shape=2,2,6,3;matmul 7 2;reshape 8 shape=2,4,3,4",
     "attention",
     6,
     {{0}},
     "masked_softmax"},
    // Three dimensions, positions in front; two dimensions.
    {"in 5x6x4;in 7x6x4;in 6x7x4;transpose 0 perm=1,0,2;transpose 1 perm=1,2,0;matmul 3 4;softmax 5 axis=2;"
     "matmul 6 2;transpose 7 perm=1,0,2",
     "attention",
     6,
     {{0}},
     "transpose"},
    {"in 5x4;in 7x4;in 7x3;matmul 0 1 trans_b=1;softmax 3;matmul 4 2", "attention", 4, {{0}}, "softmax"},
    // A bias, on either side; windows; a mask and a bias.
    {"in 2x3x5x4;in 2x3x5x4;in 2x3x5x4;in 3x5x5;matmul 0 1 trans_b=1;add 3 4;softmax 5;matmul 6 2",
     "attention",
     6,
     {{0}},
     "add"},
    {"in 2x3x5x4;in 2x3x5x4;in 2x3x5x4;in 2x3x5x5;matmul 0 1 trans_b=1;add 4 3;softmax 5;matmul 6 2",
     "attention",
     6,
     {{0}},
     "add"},
    {"in 12x2x4x3;in 12x2x4x3;in 12x2x4x3;in 9x2;window_bias 3 window=2,2;matmul 0 1 trans_b=1;add 5 4;"
     "masked_softmax 6 mask=windows grid=4,6 window=2,2 shift=1,1;matmul 7 2",
     "attention",
     7,
     {{0}},
     "masked_softmax"},
    {"in 2x3x5x4;in 2x3x7x4;in 2x3x7x4;in 2x1x1x7:b;in 1;in 5x7;in 1;matmul 0 1 trans_b=1;mul 7 6;where 3 8 4;"
     "add 9 5;softmax 10;matmul 11 2",
     "attention",
     11,
     {{4, -2.5}, {6, 0.4}},
     "where"},
    {"in 2x3x5x4;in 2x3x7x4;in 2x3x7x4;in 5x7:b;in 1;matmul 0 1 trans_b=1;where 3 4 5;softmax 6;matmul 7 2",
     "attention",
     7,
     {{4, -1.5}},
     "where"},
    // gelu as PyTorch's exporter writes it, and with a half of x; by the tangent, with a power and with products.
    {"in 3x7;in 1;in 1;in 1;div 0 1;erf 4;add 5 2;mul 0 6;mul 7 3",
     "gelu",
     5,
     {{1, 1.4142135}, {2, 1.0}, {3, 0.5}},
     "erf"},
    {"in 3x7;in 1;in 1;in 1;mul 0 1;erf 4;add 2 5;mul 0 3;mul 7 6",
     "gelu",
     5,
     {{1, 0.70710678}, {2, 1.0}, {3, 0.5}},
     "erf"},
    {"in 3x7;in 1;in 1;in 1;mul 0 0;mul 4 0;scale 5 alpha=0.044715;add 0 6;scale 7 alpha=0.7978845;tanh 8;add 9 1;"
     "mul 0 10;mul 11 2",
     "gelu",
     9,
     {{1, 1.0}, {2, 0.5}},
     "tanh"},
    {"in 3x7:+;in 1;in 1;in 1;pow 0 3;scale 4 alpha=0.044715;add 5 0;scale 6 alpha=0.7978845;tanh 7;add 8 1;"
     "scale 0 alpha=0.5;mul 10 9",
     "gelu",
     8,
     {{1, 1.0}, {3, 3.0}},
     "tanh"},
    {"in 3x7;sigmoid 0;mul 1 0", "swish", 1, {{0}}, "sigmoid"},
};

// What looks like one and is not, for a reason each.
static const pattern_case others[] = {
    // softmax along the queries; the factor behind the bias; keys multiplied by a row of numbers
    {"in 2x5x4;in 2x5x4;in 2x5x4;matmul 0 1 trans_b=1;softmax 3 axis=1;matmul 4 2", "attention", 0, {{0}}, "softmax"},
    {"in 2x5x4;in 2x5x4;in 2x5x4;in 5x5;matmul 0 1 trans_b=1;add 4 3;scale 5 alpha=0.5;softmax 6;matmul 7 2",
     "attention",
     0,
     {{0}},
     "softmax"},
    // v broadcast over samples; the probabilities turned
    {"in 2x5x4;in 2x5x4;in 1x5x4;matmul 0 1 trans_b=1;softmax 3;matmul 4 2", "attention", 0, {{0}}, "softmax"},
    {"in 2x5x4;in 2x5x4;in 2x5x4;matmul 0 1 trans_b=1;softmax 3;matmul 4 2 trans_a=1",
     "attention",
     0,
     {{0}},
     "softmax"},
    // other numbers than gelu's; two inputs; a gate of something else
    {"in 3x7;in 1;in 1;in 1;div 0 1;erf 4;add 5 2;mul 0 6;mul 7 3", "gelu", 0, {{1, 1.5}, {2, 1.0}, {3, 0.5}}, "erf"},
    {"in 3x7;in 1;in 1;in 1;in 3x7;div 0 1;erf 5;add 6 2;mul 4 7;mul 8 3",
     "gelu",
     0,
     {{1, 1.4142135}, {2, 1.0}, {3, 0.5}},
     "erf"},
    {"in 3x7;in 3x7;sigmoid 0;mul 2 1", "swish", 0, {{0}}, "sigmoid"},
};

// ---- a network from a script

static void read_case(const pattern_case *c, kernel_script *s)
{
    kernel_script_read(s, c->script, CKM_CHANNELS_LAST);
    for (int32_t i = 0; i < s->graph->n_tensors; i++) {
        ckm_i_graph_tensor *t = &s->graph->tensors[i];
        if (t->producer < 0) {
            free(t->name);
            t->name = malloc(16);
            assert_non_null(t->name);
            snprintf(t->name, 16, "t%d", (int)i);
            t->role = t->dtype == CKM_F32 ? CKM_ROLE_PARAMETER : CKM_ROLE_CONSTANT;
        }
    }
    for (int i = 0; i < 3; i++) {
        ckm_i_graph_tensor *t = &s->graph->tensors[c->constants[i].tensor];
        if (c->constants[i].value != 0.0) {
            t->role = CKM_ROLE_CONSTANT;
            t->known = true;
            t->value = c->constants[i].value;
        }
    }
}

static int32_t add_op(ckm_graph *g, const char *kind, const int32_t *inputs, int32_t n, const ckm_i_attr *attr)
{
    int32_t out = -1;
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = kind, .name = kind, .inputs = {inputs, n}, .attrs = {attr, attr != NULL}, .n_outputs = 1},
            &out, NULL),
        CKM_OK);
    return out;
}

// Adds 0 times the sum of `tensor` to the output: it has a second reader then, and nothing else changes.
static void read_inside(ckm_graph *g, int32_t tensor)
{
    int32_t output = g->n_tensors - 1;
    const ckm_i_attr none = ckm_i_attr_ints("keepdims", &(int64_t){0}, 1);
    const ckm_i_attr one = ckm_i_attr_ints("shape", &(int64_t){1}, 1);
    const ckm_i_attr zero = ckm_i_attr_real("alpha", 0.0);
    int32_t x = add_op(g, "reduce_sum", &tensor, 1, &none);
    x = add_op(g, "reshape", &x, 1, &one);
    x = add_op(g, "scale", &x, 1, &zero);
    add_op(g, "add", (int32_t[]){output, x}, 2, NULL);
}

static ckm_training *derive(const ckm_graph *g, const char *what)
{
    ckm_training *training = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    options.loss = CKM_LOSS_MSE;
    options.optimizer.kind = CKM_OPTIMIZER_SGD;
    if (ckm_autodiff_op_graph(g, &options, &training, &err) != CKM_OK) {
        fail_msg("%s: %s", what, err.message);
    }
    return training;
}

static int32_t count(const ckm_training *t, const char *kind)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->step->n_ops; i++) {
        n += strcmp(t->step->ops[i].op_class->kind, kind) == 0;
    }
    return n;
}

// ---- running a step with the reference kernels

typedef struct running {
    ckm_training *training;
    void **values;
} running;

static size_t bytes_of(const ckm_i_graph_tensor *t)
{
    return (size_t)(ckm_i_elements(&t->shape) * ckm_i_dtype_bytes(t->dtype));
}

// Leaves have numbers that follow from their names, known constants their value.
static void fill(const pattern_case *c, const ckm_i_graph_tensor *t, void *data)
{
    int32_t own = t->name[0] == 't' && t->name[1] >= '0' && t->name[1] <= '9' ? (int32_t)atoi(t->name + 1) : 99;
    for (int64_t i = 0; i < ckm_i_elements(&t->shape); i++) {
        uint32_t bits = ((uint32_t)i * 31U + (uint32_t)own * 7919U + 1U) * 2654435761U;
        float x = (float)(bits >> 8) / 8388608.0F - 1.0F;
        for (int k = 0; k < 3; k++) {
            if (c->constants[k].tensor == own && c->constants[k].value != 0.0) {
                x = (float)c->constants[k].value;
            }
        }
        if (t->dtype == CKM_BOOL) {
            ((uint8_t *)data)[i] = x < 0.4F;
        } else {
            ((float *)data)[i] = x;
        }
    }
}

static void run(const pattern_case *c, const ckm_graph *g, running *r)
{
    ckm_i_backend *backend;
    assert_int_equal(ckm_i_backend_reference_create(1, &backend, NULL), CKM_OK);
    r->training = derive(g, c->script);
    const ckm_graph *step = r->training->step;
    r->values = calloc((size_t)step->n_tensors, sizeof *r->values);
    assert_non_null(r->values);
    for (int32_t i = 0; i < step->n_tensors; i++) {
        int32_t base = r->training->values[i].alias_of;
        r->values[i] = base >= 0 ? r->values[base] : calloc(1, bytes_of(&step->tensors[i]) + 64);
        assert_non_null(r->values[i]);
        if (step->tensors[i].producer < 0) {
            fill(c, &step->tensors[i], r->values[i]);
        }
    }
    for (int32_t v = 0; v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        const void *inputs[16];
        void *outputs[16];
        ckm_i_kernel *kernel;
        int64_t bytes;
        if (r->training->ops[v].phase == CKM_I_UPDATE) {
            continue;
        }
        for (int32_t i = 0; i < op->n_inputs; i++) {
            inputs[i] = op->inputs[i] >= 0 ? r->values[op->inputs[i]] : NULL;
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            outputs[i] = r->values[op->outputs[i]];
        }
        assert_int_equal(backend->prepare(backend, step, v, &kernel, &bytes, NULL), CKM_OK);
        void *workspace = malloc((size_t)bytes + 64);
        assert_non_null(workspace);
        ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs, .workspace = workspace, .op = v, .first = true};
        assert_int_equal(backend->run(backend, kernel, &call, NULL), CKM_OK);
        backend->free_kernel(backend, kernel);
        free(workspace);
    }
    backend->destroy(backend);
}

static void dispose(running *r)
{
    for (int32_t i = 0; i < r->training->step->n_tensors; i++) {
        if (r->training->values[i].alias_of < 0) {
            free(r->values[i]);
        }
    }
    free(r->values);
    ckm_training_free(r->training);
}

// The gradient of the parameter of that name, NULL when it has none.
static const float *gradient_of(const running *r, const char *name, int64_t *n)
{
    const ckm_graph *step = r->training->step;
    for (int32_t v = 0; v < step->n_ops; v++) {
        const int32_t *in = step->ops[v].inputs;
        if (r->training->ops[v].phase == CKM_I_UPDATE && strcmp(step->tensors[in[0]].name, name) == 0) {
            *n = ckm_i_elements(&step->tensors[in[0]].shape);
            return r->values[in[1]];
        }
    }
    return NULL;
}

static void compare(const pattern_case *c, const ckm_graph *g, const running *one, const running *many)
{
    float a = *(const float *)one->values[one->training->loss];
    float b = *(const float *)many->values[many->training->loss];
    int32_t compared = 0;
    if (!(fabsf(a - b) <= 2e-6F * fabsf(b))) {
        fail_msg("%s: the loss is %.9g, not %.9g", c->script, (double)a, (double)b);
    }
    for (int32_t i = 0; i < g->n_tensors; i++) {
        int64_t n = 0;
        const float *x = g->tensors[i].role == CKM_ROLE_PARAMETER ? gradient_of(one, g->tensors[i].name, &n) : NULL;
        const float *y = x != NULL ? gradient_of(many, g->tensors[i].name, &n) : NULL;
        double largest = 1e-6;
        for (int64_t k = 0; y != NULL && k < n; k++) {
            largest = fmax(largest, fabs((double)y[k]));
        }
        for (int64_t k = 0; y != NULL && k < n; k++) {
            if (!(fabs((double)x[k] - (double)y[k]) <= 2e-5 * largest)) {
                fail_msg("%s: gradient of %s, element %d: %.9g, not %.9g", c->script, g->tensors[i].name, (int)k,
                         (double)x[k], (double)y[k]);
            }
        }
        compared += y != NULL;
    }
    assert_true(compared > 0);
}

static void test_same_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const pattern_case *c = &cases[i];
        kernel_script one;
        kernel_script many;
        running fused;
        running apart;
        read_case(c, &one);
        read_case(c, &many);
        read_inside(many.graph, c->inside);
        run(c, one.graph, &fused);
        run(c, many.graph, &apart);
        if (count(fused.training, c->kind) != 1 || count(fused.training, c->gone) != 0 ||
            count(apart.training, c->kind) != 0) {
            fail_msg("%s: %d operators %s, %d %s; read inside, %d %s", c->script, (int)count(fused.training, c->kind),
                     c->kind, (int)count(fused.training, c->gone), c->gone, (int)count(apart.training, c->kind),
                     c->kind);
        }
        compare(c, one.graph, &fused, &apart);
        dispose(&fused);
        dispose(&apart);
        kernel_script_free(&one);
        kernel_script_free(&many);
    }
}

static void test_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        kernel_script s;
        read_case(&others[i], &s);
        ckm_training *t = derive(s.graph, others[i].script);
        if (count(t, others[i].kind) != 0 || count(t, others[i].gone) != 1) {
            fail_msg("%s: taken for %s", others[i].script, others[i].kind);
        }
        ckm_training_free(t);
        kernel_script_free(&s);
    }
}

// ---- whole networks

static void test_zoo(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t width, depth, heads, length;
        int32_t wanted;
    } networks[] = {
        {"GPT2", 32, 3, 4, 16, 3},        {"TinyLlama-1.1B", 64, 2, 8, 16, 2}, {"Llama-2-7B", 64, 2, 8, 16, 2},
        {"BERT-base", 32, 3, 4, 16, 3},   {"ViT-B16", 32, 3, 4, 0, 3},         {"Swin-T", 32, 12, 2, 0, 12},
        {"DDPM-CIFAR10", 32, 2, 1, 0, 6},
    };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        ckm_zoo_size size = CKM_ZOO_SIZE_INIT;
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = NULL;
        size.model_width = networks[i].width;
        size.depth = networks[i].depth;
        size.heads = networks[i].heads;
        size.sequence_length = networks[i].length;
        if (ckm_zoo_build_sized(networks[i].name, 2, &size, &g, &err) != CKM_OK) {
            fail_msg("%s: %s", networks[i].name, err.message);
        }
        ckm_training *t = NULL;
        assert_int_equal(ckm_autodiff_op_graph(g, NULL, &t, NULL), CKM_OK);
        if (count(t, "attention") != networks[i].wanted || count(t, "attention_backward") != networks[i].wanted ||
            count(t, "softmax") + count(t, "masked_softmax") + count(t, "matmul") != 0) {
            fail_msg("%s: %d of %d attentions are one operator", networks[i].name, (int)count(t, "attention"),
                     (int)networks[i].wanted);
        }
        ckm_training_free(t);
        ckm_graph_free(g);
    }
}

// Constants of files are known by value, whether they are stored or computed.
static void test_onnx(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "2,6,8");
    ob_leaves(b, "wq=8,8;wk=8,8;wv=8,8;f:size=4;f:power=-0.5;f:root=1.4142135;f:one=1;f:half=0.5;i:split=2,6,2,4");
    ob_node(b, "MatMul", "x,wq", "q0");
    ob_node(b, "MatMul", "x,wk", "k0");
    ob_node(b, "MatMul", "x,wv", "v0");
    ob_node(b, "Reshape", "q0,split", "q1");
    ob_node(b, "Reshape", "k0,split", "k1");
    ob_node(b, "Reshape", "v0,split", "v1");
    ob_node(b, "Transpose", "q1", "q");
    ob_attributes(b, "l:perm=0,2,1,3");
    ob_node(b, "Transpose", "k1", "k");
    ob_attributes(b, "l:perm=0,2,3,1");
    ob_node(b, "Transpose", "v1", "v");
    ob_attributes(b, "l:perm=0,2,1,3");
    ob_node(b, "MatMul", "q,k", "s0");
    ob_node(b, "Pow", "size,power", "factor");
    ob_node(b, "Mul", "s0,factor", "s");
    ob_node(b, "Softmax", "s", "p");
    ob_node(b, "MatMul", "p,v", "y0");
    ob_node(b, "Transpose", "y0", "y1");
    ob_attributes(b, "l:perm=0,2,1,3");
    ob_node(b, "Div", "y1,root", "g0");
    ob_node(b, "Erf", "g0", "g1");
    ob_node(b, "Add", "g1,one", "g2");
    ob_node(b, "Mul", "y1,g2", "g3");
    ob_node(b, "Mul", "g3,half", "y");
    ob_output(b, "y");
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = ob_import(b, NULL, &err);
    ob_free(b);
    if (g == NULL) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(g->n_ops, 19);  // the network itself is as the file writes it, but for folded constants
    ckm_training *t = derive(g, "ONNX");
    assert_int_equal(count(t, "attention"), 1);
    assert_int_equal(count(t, "gelu"), 1);
    assert_int_equal(count(t, "softmax") + count(t, "erf") + count(t, "transpose") + count(t, "matmul"), 0);
    for (int32_t i = 0; i < t->step->n_ops; i++) {
        const ckm_i_graph_op *op = &t->step->ops[i];
        if (strcmp(op->op_class->kind, "attention") == 0) {
            assert_true(fabs(ckm_i_op_attr_double(op, "scale", 0.0) - 0.5) < 1e-6);
        }
    }
    ckm_training_free(t);
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_gradients),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_zoo),
        cmocka_unit_test(test_onnx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
