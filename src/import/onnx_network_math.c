// SPDX-License-Identifier: Apache-2.0
// Activations and attention as nodes of an ONNX model.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/onnx_network.h"

// ---- activations

static const char *fused(const ckm_i_onnx_network *n)
{
    return ckm_i_op_attr_text(n->op, "activation", "linear");
}

const char *ckm_i_onnx_before_activation(ckm_i_onnx_network *n)
{
    return strcmp(fused(n), "linear") == 0 ? n->name : ckm_i_onnx_part(n, "linear");
}

static void put_softmax(ckm_i_onnx_network *n, const char *x, int64_t axis, const char *out)
{
    ckm_i_onnx_put_begin(n->put, "Softmax", (const char *[]){x, NULL}, (const char *[]){out, NULL});
    ckm_i_onnx_put_int(n->put, "axis", axis);
    ckm_i_onnx_put_end(n->put);
}

static void put_swish(ckm_i_onnx_network *n, const char *x, double alpha, const char *out)
{
    const char *inner = x;
    if (alpha < 1.0 || alpha > 1.0) {
        inner = ckm_i_onnx_one(n, "Mul", x, ckm_i_onnx_number(n, "alpha", alpha), ckm_i_onnx_part(n, "stretched"));
    }
    const char *gate = ckm_i_onnx_one(n, "Sigmoid", inner, NULL, ckm_i_onnx_part(n, "sigmoid"));
    ckm_i_onnx_one(n, "Mul", x, gate, out);
}

static void put_gelu(ckm_i_onnx_network *n, const char *x, const char *approximate, const char *out)
{
    ckm_i_onnx_put_begin(n->put, "Gelu", (const char *[]){x, NULL}, (const char *[]){out, NULL});
    ckm_i_onnx_put_word(n->put, "approximate", approximate);
    ckm_i_onnx_put_end(n->put);
}

// A kind that ONNX has, too, with those of its attributes that this operator sets.
static ckm_status put_same(ckm_i_onnx_network *n, const ckm_i_op_class *c, const char *x, const char *out,
                           ckm_error *err)
{
    if (c == NULL || c->onnx.op_type == NULL) {
        return ckm_i_onnx_refuse(n, "there is no such activation in ONNX", err);
    }
    ckm_i_onnx_put_begin(n->put, c->onnx.op_type, (const char *[]){x, NULL}, (const char *[]){out, NULL});
    for (int32_t i = 0; i < CKM_I_ONNX_REALS && c->onnx.reals[i] != NULL; i++) {
        const ckm_i_attr *attr = ckm_i_op_attr(n->op, c->onnx.reals[i]);
        if (attr != NULL && c == n->op->op_class) {
            ckm_i_onnx_put_real(n->put, attr->key, attr->real);
        }
    }
    ckm_i_onnx_put_end(n->put);
    return CKM_OK;
}

ckm_status ckm_i_onnx_activate(ckm_i_onnx_network *n, ckm_i_onnx_form form, const char *x, ckm_error *err)
{
    const char *name = fused(n);
    if (strcmp(name, "softmax") == 0) {
        put_softmax(n, x, form == CKM_I_ONNX_FIRST ? 1 : -1, n->name);
    } else if (strcmp(name, "swish") == 0) {
        put_swish(n, x, 1.0, n->name);
    } else if (strcmp(name, "gelu") == 0) {
        put_gelu(n, x, "none", n->name);
    } else if (strcmp(name, "linear") != 0) {
        CKM_I_CHECK(put_same(n, ckm_i_op_class_find(name), x, n->name, err));
    }
    ckm_i_onnx_out(n, 0, form, n->name);
    return CKM_OK;
}

// The operand in the form that is there, for what works on each element alone; the result has the same.
static const char *element_operand(ckm_i_onnx_network *n)
{
    ckm_i_onnx_form form = ckm_i_onnx_form_of(n, 0);
    ckm_i_onnx_out(n, 0, form, n->name);
    return ckm_i_onnx_in(n, 0, form);
}

ckm_status ckm_i_onnx_put_unary(ckm_i_onnx_network *n, ckm_error *err)
{
    return put_same(n, n->op->op_class, element_operand(n), n->name, err);
}

ckm_status ckm_i_onnx_put_relu(ckm_i_onnx_network *n, ckm_error *err)
{
    double most = ckm_i_op_attr_double(n->op, "max_value", 0.0);
    double slope = ckm_i_op_attr_double(n->op, "negative_slope", 0.0);
    double threshold = ckm_i_op_attr_double(n->op, "threshold", 0.0);
    if (slope < 0.0 || slope > 0.0 || threshold < 0.0 || threshold > 0.0) {
        return ckm_i_onnx_refuse(n, "it has a slope or a threshold", err);
    }
    if (ckm_i_op_attr(n->op, "max_value") == NULL) {
        return ckm_i_onnx_put_unary(n, err);
    }
    const char *x = element_operand(n);
    const char *low = ckm_i_onnx_number(n, "min", 0.0);
    const char *high = ckm_i_onnx_number(n, "max", most);
    ckm_i_onnx_put_begin(n->put, "Clip", (const char *[]){x, low, high, NULL}, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_end(n->put);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_softmax(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    put_softmax(n, ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN), ckm_i_op_attr_int(n->op, "axis", 0, -1), n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_gelu(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    put_gelu(n, element_operand(n), ckm_i_op_attr_text(n->op, "approximate", "none"), n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_swish(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    put_swish(n, element_operand(n), ckm_i_op_attr_double(n->op, "alpha", 1.0), n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_scale(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    const char *x = element_operand(n);
    ckm_i_onnx_one(n, "Mul", x, ckm_i_onnx_number(n, "alpha", ckm_i_op_attr_double(n->op, "alpha", 1.0)), n->name);
    return CKM_OK;
}

// ---- products

static bool is_leaf(const ckm_i_onnx_network *n, int32_t i)
{
    return n->graph->tensors[n->op->inputs[i]].producer < 0;
}

// Maps stay with their channels first where all operands are maps, and one has them so.
static ckm_i_onnx_form common_form(const ckm_i_onnx_network *n)
{
    bool first = false;
    for (int32_t i = 0; i < n->op->n_inputs; i++) {
        if (is_leaf(n, i) || ckm_i_onnx_in_shape(n, i)->rank != 4) {
            return CKM_I_ONNX_PLAIN;
        }
        first = first || ckm_i_onnx_form_of(n, i) == CKM_I_ONNX_FIRST;
    }
    return first ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
}

ckm_status ckm_i_onnx_put_elementwise(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    const char *op_type = n->op->op_class->id == CKM_I_OP_mul ? "Mul" : "Add";
    ckm_i_onnx_form form = common_form(n);
    const char *sum = ckm_i_onnx_in(n, 0, form);
    for (int32_t i = 1; i < n->op->n_inputs; i++) {
        bool last = i + 1 == n->op->n_inputs;
        const char *out = last ? n->name : ckm_i_onnx_put_name(n->put, "%s/%d", n->name, (int)i);
        sum = ckm_i_onnx_one(n, op_type, sum, ckm_i_onnx_in(n, i, form), out);
    }
    ckm_i_onnx_out(n, 0, form, n->name);
    return CKM_OK;
}

// Operand i with its last two axes exchanged, if `swapped`.
static const char *factor(ckm_i_onnx_network *n, int32_t i, bool swapped, const char *part)
{
    int32_t rank = ckm_i_onnx_in_shape(n, i)->rank;
    int64_t perm[CKM_MAX_RANK];
    const char *x = ckm_i_onnx_in(n, i, CKM_I_ONNX_PLAIN);
    if (!swapped) {
        return x;
    }
    for (int32_t k = 0; k < rank; k++) {
        perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    }
    const char *out = ckm_i_onnx_part(n, part);
    ckm_i_onnx_put_begin(n->put, "Transpose", (const char *[]){x, NULL}, (const char *[]){out, NULL});
    ckm_i_onnx_put_ints(n->put, "perm", perm, rank);
    ckm_i_onnx_put_end(n->put);
    return out;
}

ckm_status ckm_i_onnx_put_matmul(ckm_i_onnx_network *n, ckm_error *err)
{
    bool a_turned = ckm_i_op_attr_int(n->op, "trans_a", 0, 0) != 0;
    bool b_turned = ckm_i_op_attr_int(n->op, "trans_b", 0, 0) != 0;
    if ((a_turned && ckm_i_onnx_in_shape(n, 0)->rank < 2) || (b_turned && ckm_i_onnx_in_shape(n, 1)->rank < 2)) {
        return ckm_i_onnx_refuse(n, "it turns a vector", err);
    }
    const char *a = factor(n, 0, a_turned, "a");
    ckm_i_onnx_one(n, "MatMul", a, factor(n, 1, b_turned, "b"), n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// ---- attention

// A list of integers that is made once for all operators that need it.
static const char *shared_list(ckm_i_onnx_network *n, const char *name, const int64_t *values, ckm_shape shape)
{
    return ckm_i_onnx_put_has(n->put, name) ? name : ckm_i_onnx_put_longs(n->put, name, values, shape);
}

// Scores where the mask says so, the least number elsewhere, whose exponential is 0.
static void put_masked(ckm_i_onnx_network *n, const char *mask, const char *scores, const char *out)
{
    const char *masked = ckm_i_onnx_part(n, "masked");
    const char *least = ckm_i_onnx_number(n, "least", -(double)FLT_MAX);
    ckm_i_onnx_put_begin(n->put, "Where", (const char *[]){mask, scores, least, NULL}, (const char *[]){masked, NULL});
    ckm_i_onnx_put_end(n->put);
    put_softmax(n, masked, -1, out);
}

// Query q sees keys up to q + keys - queries.
static ckm_status put_causal(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    int64_t queries = shape->dims[shape->rank - 2];
    int64_t keys = shape->dims[shape->rank - 1];
    int64_t most = queries > keys ? queries : keys;
    int64_t *values = ckm_i_malloc((size_t)most, sizeof *values);
    if (values == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < keys; i++) {
        values[i] = i;
    }
    const char *k = shared_list(n, ckm_i_onnx_put_name(n->put, "keys/%lld", (long long)keys), values,
                                (ckm_shape){2, {1, keys}});
    for (int64_t i = 0; i < queries; i++) {
        values[i] = i + keys - queries;
    }
    const char *q = shared_list(n,
                                ckm_i_onnx_put_name(n->put, "queries/%lld/%lld", (long long)queries, (long long)keys),
                                values, (ckm_shape){2, {queries, 1}});
    free(values);
    const char *mask = ckm_i_onnx_one(n, "GreaterOrEqual", q, k, ckm_i_onnx_part(n, "mask"));
    put_masked(n, mask, ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN), n->name);
    return CKM_OK;
}

// Which of the parts that rolling brought together a position of a window belongs to, as in src/ops/attention/ref_attention.h.
static int64_t part_of(const int64_t grid[2], const int64_t window[2], const int64_t shift[2], int64_t w,
                       int64_t position)
{
    int64_t across = grid[1] / window[1];
    int64_t at[2] = {w / across * window[0] + position / window[1], w % across * window[1] + position % window[1]};
    int64_t part = 0;
    for (int i = 0; i < 2; i++) {
        part = 2 * part + (shift[i] > 0 && at[i] >= grid[i] - shift[i] ? 1 : 0);
    }
    return part;
}

// Positions see each other where their parts are the same: for that, the images' windows are a separate axis.
static ckm_status put_windows(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    int64_t heads = shape->dims[1];
    int64_t positions = shape->dims[2];
    int64_t grid[2];
    int64_t window[2];
    int64_t shift[2];
    for (int32_t i = 0; i < 2; i++) {
        grid[i] = ckm_i_op_attr_int(n->op, "grid", i, 1);
        window[i] = ckm_i_op_attr_int(n->op, "window", i, 1);
        shift[i] = ckm_i_op_attr_int(n->op, "shift", i, 0);
    }
    int64_t windows = grid[0] / window[0] * (grid[1] / window[1]);
    int64_t *parts = ckm_i_malloc((size_t)(windows * positions), sizeof *parts);
    if (parts == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < windows * positions; i++) {
        parts[i] = part_of(grid, window, shift, i / positions, i % positions);
    }
    char key[160];
    snprintf(key, sizeof key, "windows/%lldx%lld/%lldx%lld/%lldx%lld", (long long)grid[0], (long long)grid[1],
             (long long)window[0], (long long)window[1], (long long)shift[0], (long long)shift[1]);
    const char *q = shared_list(n, ckm_i_onnx_put_name(n->put, "%s/queries", key), parts,
                                (ckm_shape){4, {windows, 1, positions, 1}});
    const char *k = shared_list(n, ckm_i_onnx_put_name(n->put, "%s/keys", key), parts,
                                (ckm_shape){4, {windows, 1, 1, positions}});
    free(parts);
    const char *mask = ckm_i_onnx_one(n, "Equal", q, k, ckm_i_onnx_part(n, "mask"));
    const int64_t apart[5] = {-1, windows, heads, positions, positions};
    const int64_t joined[4] = {-1, heads, positions, positions};
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    x = ckm_i_onnx_one(n, "Reshape", x, ckm_i_onnx_long_list(n, "apart_shape", apart, 5), ckm_i_onnx_part(n, "apart"));
    const char *seen = ckm_i_onnx_part(n, "seen");
    put_masked(n, mask, x, seen);
    ckm_i_onnx_one(n, "Reshape", seen, ckm_i_onnx_long_list(n, "shape", joined, 4), n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_masked_softmax(ckm_i_onnx_network *n, ckm_error *err)
{
    bool causal = strcmp(ckm_i_op_attr_text(n->op, "mask", ""), "causal") == 0;
    CKM_I_CHECK(causal ? put_causal(n, err) : put_windows(n, err));
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// Both halves of every row turned by the angle of its position: x * cos + (-b, a) * sin.
ckm_status ckm_i_onnx_put_rotary(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    int64_t positions = shape->dims[shape->rank - 2];
    int64_t size = shape->dims[shape->rank - 1];
    int64_t half = size / 2;
    double base = ckm_i_op_attr_double(n->op, "base", 10000.0);
    double sign = ckm_i_op_attr_int(n->op, "inverse", 0, 0) != 0 ? -1.0 : 1.0;
    char key[2][96];
    static const char *const functions[2] = {"cosines", "sines"};
    for (int f = 0; f < 2; f++) {
        snprintf(key[f], sizeof key[f], "rotary/%s/%lldx%lld/%.17g/%d", functions[f], (long long)positions,
                 (long long)size, base, (int)sign);
    }
    const char *tables[2] = {ckm_i_onnx_put_name(n->put, "%s", key[0]), ckm_i_onnx_put_name(n->put, "%s", key[1])};
    float *values = ckm_i_malloc((size_t)(positions * size), sizeof *values);
    if (values == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int f = 0; f < 2 && !ckm_i_onnx_put_has(n->put, tables[f]); f++) {
        for (int64_t i = 0; i < positions * size; i++) {
            double angle = (double)(i / size) * pow(base, -(double)(i % half) / (double)half);
            values[i] = (float)(f == 0 ? cos(angle) : sign * sin(angle));
        }
        ckm_i_onnx_put_floats(n->put, tables[f], values, (ckm_shape){2, {positions, size}});
    }
    free(values);
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *a = ckm_i_onnx_part(n, "a");
    const char *b = ckm_i_onnx_part(n, "b");
    const char *sizes = ckm_i_onnx_long_list(n, "halves", (const int64_t[]){half, half}, 2);
    ckm_i_onnx_put_begin(n->put, "Split", (const char *[]){x, sizes, NULL}, (const char *[]){a, b, NULL});
    ckm_i_onnx_put_int(n->put, "axis", shape->rank - 1);
    ckm_i_onnx_put_end(n->put);
    const char *minus = ckm_i_onnx_one(n, "Neg", b, NULL, ckm_i_onnx_part(n, "minus_b"));
    const char *turned = ckm_i_onnx_part(n, "turned");
    ckm_i_onnx_put_begin(n->put, "Concat", (const char *[]){minus, a, NULL}, (const char *[]){turned, NULL});
    ckm_i_onnx_put_int(n->put, "axis", shape->rank - 1);
    ckm_i_onnx_put_end(n->put);
    const char *straight = ckm_i_onnx_one(n, "Mul", x, tables[0], ckm_i_onnx_part(n, "straight"));
    const char *across = ckm_i_onnx_one(n, "Mul", turned, tables[1], ckm_i_onnx_part(n, "across"));
    ckm_i_onnx_one(n, "Add", straight, across, n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// The row of the table for each pair of positions of a window, then heads in front.
ckm_status ckm_i_onnx_put_window_bias(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_out_shape(n, 0);
    int64_t positions = shape->dims[1];
    int64_t height = ckm_i_op_attr_int(n->op, "window", 0, 1);
    int64_t width = ckm_i_op_attr_int(n->op, "window", 1, 1);
    int64_t *rows = ckm_i_malloc((size_t)(positions * positions), sizeof *rows);
    if (rows == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < positions * positions; i++) {
        int64_t query = i / positions;
        int64_t key = i % positions;
        int64_t down = query / width - key / width + height - 1;
        int64_t right = query % width - key % width + width - 1;
        rows[i] = down * (2 * width - 1) + right;
    }
    const char *index = shared_list(
        n, ckm_i_onnx_put_name(n->put, "offsets/%lldx%lld", (long long)height, (long long)width), rows,
        (ckm_shape){2, {positions, positions}});
    free(rows);
    const char *table = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *pairs = ckm_i_onnx_one(n, "Gather", table, index, ckm_i_onnx_part(n, "pairs"));
    ckm_i_onnx_put_begin(n->put, "Transpose", (const char *[]){pairs, NULL}, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_ints(n->put, "perm", (const int64_t[]){2, 0, 1}, 3);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_time_embedding(ckm_i_onnx_network *n, ckm_error *err)
{
    int64_t half = ckm_i_onnx_out_shape(n, 0)->dims[1] / 2;
    double period = ckm_i_op_attr_double(n->op, "period", 10000.0);
    float *values = ckm_i_malloc((size_t)half + 1, sizeof *values);
    if (values == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < half; i++) {
        values[i] = (float)pow(period, -(double)i / (double)(half - 1));
    }
    const char *frequencies = ckm_i_onnx_put_floats(n->put, ckm_i_onnx_part(n, "frequencies"), values,
                                                    (ckm_shape){2, {1, half}});
    free(values);
    const char *t = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *axis = ckm_i_onnx_long_list(n, "axis", &(const int64_t){1}, 1);
    t = ckm_i_onnx_one(n, "Unsqueeze", t, axis, ckm_i_onnx_part(n, "column"));
    const char *angles = ckm_i_onnx_one(n, "Mul", t, frequencies, ckm_i_onnx_part(n, "angles"));
    const char *sines = ckm_i_onnx_one(n, "Sin", angles, NULL, ckm_i_onnx_part(n, "sines"));
    const char *cosines = ckm_i_onnx_one(n, "Cos", angles, NULL, ckm_i_onnx_part(n, "cosines"));
    ckm_i_onnx_put_begin(n->put, "Concat", (const char *[]){sines, cosines, NULL}, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_int(n->put, "axis", 1);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}
