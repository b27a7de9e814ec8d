// SPDX-License-Identifier: Apache-2.0
// Gradients of layers with weights and of matrix products. The weights' gradient comes before the data's: its
// operand, the layer's input, may then be dead before the larger gradient is allocated.
#include <stdio.h>
#include <string.h>

#include "ops/gradients.h"

enum { X = 0, WEIGHT = 1, BIAS = 2 };

// The bias. `axis` is the channels' in dy; a convolution's bias has one element for each, in any shape, a dense
// layer's may be any shape that broadcasting repeats.
static ckm_status give_bias(ckm_i_grad *g, int32_t axis, bool dense, ckm_error *err)
{
    if (!ckm_i_grad_wants(g, BIAS)) {
        return CKM_OK;
    }
    ckm_shape bias = ckm_i_step_shape(g->step, ckm_i_grad_in(g, BIAS));
    ckm_shape dy = ckm_i_step_shape(g->step, g->dy);
    int32_t sum = g->dy;
    if (!dense || (bias.rank == 1 && bias.dims[0] == dy.dims[axis])) {
        ckm_i_attrs attrs = {0};
        ckm_i_attrs_put_int(&attrs, "axis", axis);
        CKM_I_CHECK(ckm_i_grad_emit(g, "bias_grad", "bias", &g->dy, 1, &attrs, &sum, err));
        CKM_I_CHECK(ckm_i_grad_reshape(g, "bias", sum, &bias, &sum, err));
    }
    return ckm_i_grad_give(g, BIAS, "bias", sum, err);
}

ckm_status ckm_i_grad_of_conv(ckm_i_grad *g, ckm_error *err)
{
    char kind[64];
    ckm_shape dy = ckm_i_step_shape(g->step, g->dy);
    bool last = g->step->graph->layout == CKM_CHANNELS_LAST;
    CKM_I_CHECK(give_bias(g, last ? dy.rank - 1 : 1, false, err));
    if (ckm_i_grad_wants(g, WEIGHT)) {
        int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, X)};
        ckm_shape weight = ckm_i_step_shape(g->step, ckm_i_grad_in(g, WEIGHT));
        ckm_i_attrs attrs = ckm_i_grad_attrs(g);
        ckm_i_attrs_put_shape(&attrs, "weight_shape", &weight);
        int32_t out;
        snprintf(kind, sizeof kind, "%s_backward_weights", g->forward.op_class->kind);
        CKM_I_CHECK(ckm_i_grad_emit(g, kind, "weight", inputs, 2, &attrs, &out, err));
        CKM_I_CHECK(ckm_i_grad_give(g, WEIGHT, "weight", out, err));
    }
    if (ckm_i_grad_wants(g, X)) {
        int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, WEIGHT)};
        ckm_shape x = ckm_i_step_shape(g->step, ckm_i_grad_in(g, X));
        ckm_i_attrs attrs = ckm_i_grad_attrs(g);
        ckm_i_attrs_put_shape(&attrs, "input_shape", &x);
        int32_t out;
        snprintf(kind, sizeof kind, "%s_backward_data", g->forward.op_class->kind);
        CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, 2, &attrs, &out, err));
        CKM_I_CHECK(ckm_i_grad_give(g, X, "x", out, err));
    }
    return CKM_OK;
}

// dx = dy Wᵀ is a dense layer with the weight the other way round.
ckm_status ckm_i_grad_of_dense(ckm_i_grad *g, ckm_error *err)
{
    int64_t transposed = ckm_i_op_attr_int(&g->forward, "transposed", 0, 0);
    ckm_i_attrs attrs = {0};
    int32_t out;
    CKM_I_CHECK(give_bias(g, ckm_i_step_shape(g->step, g->dy).rank - 1, true, err));
    if (ckm_i_grad_wants(g, WEIGHT)) {
        int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, X)};
        ckm_i_attrs_put_int(&attrs, "transposed", transposed);
        CKM_I_CHECK(ckm_i_grad_emit(g, "dense_backward_weights", "weight", inputs, 2, &attrs, &out, err));
        CKM_I_CHECK(ckm_i_grad_give(g, WEIGHT, "weight", out, err));
    }
    if (ckm_i_grad_wants(g, X)) {
        int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, WEIGHT)};
        ckm_i_attrs_put_int(&attrs, "transposed", !transposed);
        CKM_I_CHECK(ckm_i_grad_emit(g, "dense", "x", inputs, 2, &attrs, &out, err));
        CKM_I_CHECK(ckm_i_grad_give(g, X, "x", out, err));
    }
    return CKM_OK;
}

// One product of a backward pass: a, b with their transpositions, as `matmul` or `gemm`.
static ckm_status multiply(ckm_i_grad *g, const char *what, int32_t a, int64_t trans_a, int32_t b, int64_t trans_b,
                           int32_t *out, ckm_error *err)
{
    int32_t inputs[2] = {a, b};
    bool gemm = g->forward.op_class->id == CKM_I_OP_gemm;
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_int(&attrs, "trans_a", trans_a);
    ckm_i_attrs_put_int(&attrs, "trans_b", trans_b);
    if (gemm) {
        ckm_i_attrs_put(&attrs, ckm_i_attr_real("alpha", ckm_i_op_attr_double(&g->forward, "alpha", 1.0)));
        ckm_i_attrs_put(&attrs, ckm_i_attr_real("beta", 0.0));
    }
    return ckm_i_grad_emit(g, gemm ? "gemm" : "matmul", what, inputs, 2, &attrs, out, err);
}

// The gradients of y = op(A) op(B), operands of at least two dimensions.
static ckm_status products(ckm_i_grad *g, int32_t a, int32_t b, int32_t dy, int32_t *da, int32_t *db, ckm_error *err)
{
    int64_t ta = ckm_i_op_attr_int(&g->forward, "trans_a", 0, 0);
    int64_t tb = ckm_i_op_attr_int(&g->forward, "trans_b", 0, 0);
    if (db != NULL) {
        CKM_I_CHECK(tb ? multiply(g, "b", dy, 1, a, ta, db, err) : multiply(g, "b", a, !ta, dy, 0, db, err));
    }
    if (da != NULL) {
        CKM_I_CHECK(ta ? multiply(g, "a", b, tb, dy, 1, da, err) : multiply(g, "a", dy, 0, b, !tb, da, err));
    }
    return CKM_OK;
}

// A vector takes part as a matrix of one row (left) or one column (right).
ckm_status ckm_i_grad_of_matmul(ckm_i_grad *g, ckm_error *err)
{
    int32_t operands[2] = {ckm_i_grad_in(g, 0), ckm_i_grad_in(g, 1)};
    ckm_shape given[2] = {ckm_i_step_shape(g->step, operands[0]), ckm_i_step_shape(g->step, operands[1])};
    ckm_shape dy_shape = ckm_i_step_shape(g->step, g->dy);
    int32_t dy = g->dy;
    if (given[1].rank == 1) {
        ckm_shape column = {2, {given[1].dims[0], 1}};
        CKM_I_CHECK(ckm_i_grad_reshape(g, "b_view", operands[1], &column, &operands[1], err));
        dy_shape.dims[dy_shape.rank++] = 1;
    }
    if (given[0].rank == 1) {
        ckm_shape row = {2, {1, given[0].dims[0]}};
        CKM_I_CHECK(ckm_i_grad_reshape(g, "a_view", operands[0], &row, &operands[0], err));
        dy_shape.dims[dy_shape.rank] = dy_shape.dims[dy_shape.rank - 1];
        dy_shape.dims[dy_shape.rank - 1] = 1;
        dy_shape.rank++;
    }
    CKM_I_CHECK(ckm_i_grad_reshape(g, "y_view", dy, &dy_shape, &dy, err));
    int32_t gradients[2];
    bool wants[2] = {ckm_i_grad_wants(g, 0), ckm_i_grad_wants(g, 1)};
    CKM_I_CHECK(products(g, operands[0], operands[1], dy, wants[0] ? &gradients[0] : NULL,
                         wants[1] ? &gradients[1] : NULL, err));
    for (int32_t i = 1; i >= 0; i--) {
        const char *what = i == 0 ? "a" : "b";
        if (wants[i]) {
            ckm_shape matrix = ckm_i_step_shape(g->step, operands[i]);
            CKM_I_CHECK(ckm_i_grad_sum_to(g, what, gradients[i], &matrix, &gradients[i], err));
            CKM_I_CHECK(ckm_i_grad_reshape(g, what, gradients[i], &given[i], &gradients[i], err));
            CKM_I_CHECK(ckm_i_grad_give(g, i, what, gradients[i], err));
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_grad_of_gemm(ckm_i_grad *g, ckm_error *err)
{
    int32_t da;
    int32_t db;
    bool wants_a = ckm_i_grad_wants(g, 0);
    bool wants_b = ckm_i_grad_wants(g, 1);
    if (ckm_i_grad_wants(g, BIAS)) {
        ckm_shape shape = ckm_i_step_shape(g->step, ckm_i_grad_in(g, BIAS));
        int32_t dc = g->dy;
        CKM_I_CHECK(ckm_i_grad_sum_to(g, "c", dc, &shape, &dc, err));
        CKM_I_CHECK(ckm_i_grad_scale(g, "c", dc, ckm_i_op_attr_double(&g->forward, "beta", 1.0), &dc, err));
        CKM_I_CHECK(ckm_i_grad_give(g, BIAS, "c", dc, err));
    }
    CKM_I_CHECK(
        products(g, ckm_i_grad_in(g, 0), ckm_i_grad_in(g, 1), g->dy, wants_a ? &da : NULL, wants_b ? &db : NULL, err));
    if (wants_b) {
        CKM_I_CHECK(ckm_i_grad_give(g, 1, "b", db, err));
    }
    return wants_a ? ckm_i_grad_give(g, 0, "a", da, err) : CKM_OK;
}

// ---- einsum: "bhid,bhjd->bhij" has the gradient "bhij,bhjd->bhid" with respect to its first operand

enum { LETTERS_ROOM = 32 };  // an equation is a word attribute

typedef struct equation {
    char operand[8][LETTERS_ROOM];
    char result[LETTERS_ROOM];
} equation;

static void read_equation(const ckm_i_grad *g, equation *e)
{
    const char *at = ckm_i_op_attr_text(&g->forward, "equation", "");
    for (int32_t i = 0; i < g->forward.n_inputs && i < 8; i++) {
        size_t n = strcspn(at, ",-");
        snprintf(e->operand[i], sizeof e->operand[i], "%.*s", (int)n, at);
        at += n + (at[n] == ',');
    }
    at = strstr(at, "->");
    snprintf(e->result, sizeof e->result, "%s", at != NULL ? at + 2 : "");
}

static ckm_status einsum_operand(ckm_i_grad *g, const equation *e, int32_t i, ckm_error *err)
{
    char text[16 * LETTERS_ROOM];
    char found[LETTERS_ROOM] = "";  // letters of the operand that the rest of the equation gives
    ckm_shape kept = ckm_i_step_shape(g->step, ckm_i_grad_in(g, i));
    ckm_shape full = kept;
    int32_t inputs[8] = {g->dy};
    int32_t n_inputs = 1;
    int used = snprintf(text, sizeof text, "%s", e->result);
    for (int32_t k = 0; k < g->forward.n_inputs; k++) {
        if (k != i) {
            used += snprintf(text + used, sizeof text - (size_t)used, ",%s", e->operand[k]);
            inputs[n_inputs++] = ckm_i_grad_in(g, k);
        }
    }
    size_t n_found = 0;
    for (int32_t axis = 0; axis < kept.rank; axis++) {
        char letter = e->operand[i][axis];
        if (strchr(e->operand[i], letter) != &e->operand[i][axis]) {
            return ckm_i_grad_unsupported(g, "operand that names a letter twice", err);
        }
        if (strchr(text, letter) != NULL) {
            found[n_found++] = letter;
        } else {
            kept.dims[axis] = 1;  // summed over on its own: its gradient repeats
        }
    }
    found[n_found] = '\0';
    snprintf(text + used, sizeof text - (size_t)used, "->%s", found);
    if (strlen(text) >= LETTERS_ROOM) {
        return ckm_i_grad_unsupported(g, "operands: the equation is too long", err);
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put(&attrs, ckm_i_attr_word("equation", text));
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "einsum", "operand", inputs, n_inputs, &attrs, &out, err));
    if (n_found == (size_t)kept.rank) {
        return ckm_i_grad_give(g, i, "operand", out, err);
    }
    CKM_I_CHECK(ckm_i_grad_reshape(g, "operand", out, &kept, &out, err));
    CKM_I_CHECK(ckm_i_grad_expand(g, "operand", out, &full, &out, err));
    return ckm_i_grad_give(g, i, "operand", out, err);
}

ckm_status ckm_i_grad_of_einsum(ckm_i_grad *g, ckm_error *err)
{
    equation e = {0};
    read_equation(g, &e);
    for (int32_t i = 0; i < g->forward.n_inputs; i++) {
        if (ckm_i_grad_wants(g, i)) {
            CKM_I_CHECK(einsum_operand(g, &e, i, err));
        }
    }
    return CKM_OK;
}
