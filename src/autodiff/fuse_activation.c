// SPDX-License-Identifier: Apache-2.0
// Activations that exporters write with elementary functions. Written so, gelu keeps three tensors of x's size for the
// backward pass, swish two; as one operator each keeps x.
#include <math.h>

#include "autodiff/fuse.h"

// Numbers in files are rounded to single precision, or worse.
static bool is_about(double value, double wanted)
{
    return fabs(value - wanted) <= 1e-4 * fabs(wanted);
}

// x itself, or `factor` times it.
static bool is_multiple(const ckm_i_fuse *f, int32_t tensor, int32_t x, double *factor)
{
    int32_t of;
    *factor = 1.0;
    if (tensor == x) {
        return true;
    }
    const ckm_i_graph_op *op = ckm_i_fuse_producer(f, tensor);
    return op != NULL && ckm_i_fuse_scaled(f, op, &of, factor) && of == x;
}

// From `gate` on: x * (gate + 1) / 2, whichever is multiplied first. The last of these operators.
static bool follow_gate(const ckm_i_fuse *f, int32_t gate, int32_t x, int32_t *root)
{
    double value;
    double factor = 1.0;
    bool has_x = false;
    int32_t other;
    int32_t reader = ckm_i_fuse_only_reader(f, gate);
    if (reader < 0 || !ckm_i_fuse_other(&f->graph->ops[reader], CKM_I_OP_add, gate, &other) ||
        !ckm_i_fuse_number(f, other, &value) || !is_about(value, 1.0)) {
        return false;
    }
    for (int32_t steps = 0; steps < 2; steps++) {  // by x and a half, or by half of x at once
        int32_t tensor = f->graph->ops[reader].outputs[0];
        reader = ckm_i_fuse_only_reader(f, tensor);
        if (reader < 0) {
            return false;
        }
        const ckm_i_graph_op *op = &f->graph->ops[reader];
        int32_t scaled;
        if (ckm_i_fuse_scaled(f, op, &scaled, &value) && scaled == tensor) {
            factor *= value;
        } else if (!has_x && ckm_i_fuse_other(op, CKM_I_OP_mul, tensor, &other) && is_multiple(f, other, x, &value)) {
            factor *= value;
            has_x = true;
        } else {
            return false;
        }
        if (has_x && is_about(factor, 0.5)) {
            *root = reader;
            const ckm_i_graph_tensor *t = f->graph->tensors;
            return ckm_i_shapes_equal(&t[x].shape, &t[op->outputs[0]].shape);
        }
    }
    return false;
}

static bool finish(const ckm_i_fuse *f, int32_t root, const char *kind, int32_t x, ckm_i_fused *out)
{
    const ckm_i_graph_tensor *t = &f->graph->tensors[x];
    *out = (ckm_i_fused){
        .root = root, .named = root, .kind = kind, .n_inputs = 1, .n_outputs = 1, .inputs = {x}, .shapes = {t->shape}};
    return t->dtype == CKM_F32;
}

// x (1 + erf(x / sqrt 2)) / 2 (Hendrycks and Gimpel 2016, "Gaussian Error Linear Units", section 2)
bool ckm_i_fuse_gelu(const ckm_i_fuse *f, int32_t op, ckm_i_fused *out)
{
    const ckm_i_graph_op *erf_op = &f->graph->ops[op];
    const ckm_i_graph_op *inside = ckm_i_fuse_is(erf_op, CKM_I_OP_erf) ? ckm_i_fuse_producer(f, erf_op->inputs[0])
                                                                       : NULL;
    int32_t x;
    int32_t root;
    double factor;
    if (inside == NULL || !ckm_i_fuse_scaled(f, inside, &x, &factor) || !is_about(factor, sqrt(0.5)) ||
        !follow_gate(f, erf_op->outputs[0], x, &root) || !finish(f, root, "gelu", x, out)) {
        return false;
    }
    ckm_i_attrs_put(&out->attrs, ckm_i_attr_word("approximate", "none"));
    return true;
}

// The third power, by an exponent or by products.
static bool is_cube(const ckm_i_fuse *f, int32_t tensor, int32_t x)
{
    const ckm_i_graph_op *op = ckm_i_fuse_producer(f, tensor);
    double exponent;
    int32_t square;
    int32_t other;
    if (ckm_i_fuse_is(op, CKM_I_OP_pow)) {
        return op->inputs[0] == x && ckm_i_fuse_number(f, op->inputs[1], &exponent) && exponent == 3.0;
    }
    if (op == NULL || !ckm_i_fuse_other(op, CKM_I_OP_mul, x, &square)) {
        return false;
    }
    op = ckm_i_fuse_producer(f, square);
    if (ckm_i_fuse_is(op, CKM_I_OP_pow)) {
        return op->inputs[0] == x && ckm_i_fuse_number(f, op->inputs[1], &exponent) && exponent == 2.0;
    }
    return op != NULL && ckm_i_fuse_other(op, CKM_I_OP_mul, x, &other) && other == x;
}

// Is `tensor` x + 0.044715 x^3?
static bool is_inner(const ckm_i_fuse *f, int32_t tensor, int32_t *x)
{
    const ckm_i_graph_op *sum = ckm_i_fuse_producer(f, tensor);
    if (!ckm_i_fuse_is(sum, CKM_I_OP_add) || sum->n_inputs != 2) {
        return false;
    }
    for (int32_t i = 0; i < 2; i++) {
        const ckm_i_graph_op *term = ckm_i_fuse_producer(f, sum->inputs[1 - i]);
        int32_t cube;
        double factor;
        if (sum->inputs[i] >= 0 && term != NULL && ckm_i_fuse_scaled(f, term, &cube, &factor) &&
            is_about(factor, 0.044715) && is_cube(f, cube, sum->inputs[i])) {
            *x = sum->inputs[i];
            return true;
        }
    }
    return false;
}

// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
bool ckm_i_fuse_gelu_tanh(const ckm_i_fuse *f, int32_t op, ckm_i_fused *out)
{
    const double inside = 0.79788456080286535588;
    const ckm_i_graph_op *tanh_op = &f->graph->ops[op];
    const ckm_i_graph_op *scaled = ckm_i_fuse_is(tanh_op, CKM_I_OP_tanh) ? ckm_i_fuse_producer(f, tanh_op->inputs[0])
                                                                         : NULL;
    int32_t sum;
    int32_t x;
    int32_t root;
    double factor;
    if (scaled == NULL || !ckm_i_fuse_scaled(f, scaled, &sum, &factor) || !is_about(factor, inside) ||
        !is_inner(f, sum, &x) || !follow_gate(f, tanh_op->outputs[0], x, &root) || !finish(f, root, "gelu", x, out)) {
        return false;
    }
    ckm_i_attrs_put(&out->attrs, ckm_i_attr_word("approximate", "tanh"));
    return true;
}

// x sigmoid(x) (Hendrycks and Gimpel 2016, section 2)
bool ckm_i_fuse_swish(const ckm_i_fuse *f, int32_t op, ckm_i_fused *out)
{
    const ckm_i_graph_op *gate = &f->graph->ops[op];
    int32_t other;
    if (!ckm_i_fuse_is(gate, CKM_I_OP_sigmoid)) {
        return false;
    }
    int32_t reader = ckm_i_fuse_only_reader(f, gate->outputs[0]);
    if (reader < 0 || !ckm_i_fuse_other(&f->graph->ops[reader], CKM_I_OP_mul, gate->outputs[0], &other) ||
        other != gate->inputs[0] || !finish(f, reader, "swish", other, out)) {
        return false;
    }
    ckm_i_attrs_put(&out->attrs, ckm_i_attr_real("alpha", 1.0));
    return true;
}
