// SPDX-License-Identifier: Apache-2.0
#include "kernel_ranges.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    EVERY = 1 << KERNEL_RANGE_EVERY,
    SCORES = 1 << KERNEL_RANGE_SCORES,
    TIES = 1 << KERNEL_RANGE_TIES,
    LARGE = 1 << KERNEL_RANGE_LARGE,
    SMALL = 1 << KERNEL_RANGE_SMALL,
    HOLES = 1 << KERNEL_RANGE_HOLES,
    NANS = 1 << KERNEL_RANGE_NANS,
    SUMS = TIES | LARGE | SMALL | HOLES
};

// Kinds that their record's word would give other ranges. `floor`: see kernel_ranges_floor. `holes`: the operands that have
// infinities and NaN in HOLES and NANS, a bit each; 0: the first.
static const struct {
    ckm_i_op_kind kind;
    unsigned ranges;
    double floor;
    unsigned holes;
} rows[] = {
    // sums, and what is divided by them
    {CKM_I_OP_batch_norm_train, TIES | LARGE | SMALL | NANS, 0.0, 0},
    // not in dy, which meets padding: whether 0 times NaN is added there is the kernel's business
    {CKM_I_OP_conv_backward_weights, SUMS, 0.0, 2},
    {CKM_I_OP_attention, TIES | SMALL, 0.0, 0},
    {CKM_I_OP_attention_backward, TIES | SMALL, 0.0, 0},
    {CKM_I_OP_gelu, EVERY | TIES, 1.0, 0},
    {CKM_I_OP_gelu_backward, EVERY | TIES, 1.0, 0},
    {CKM_I_OP_layer_norm, SUMS, 0.0, 0},
    {CKM_I_OP_layer_norm_backward, SUMS, 0.0, 0},
    {CKM_I_OP_global_average_pool, SUMS, 0.0, 0},
    {CKM_I_OP_average_pool, SUMS, 0.0, 0},
    {CKM_I_OP_average_pool_backward, SUMS, 0.0, 0},
    {CKM_I_OP_bias_grad, SUMS, 0.0, 0},
    {CKM_I_OP_sum_to, SUMS, 0.0, 0},
    {CKM_I_OP_reduce_sum, SUMS, 0.0, 0},
    {CKM_I_OP_reduce_mean, SUMS, 0.0, 0},
    {CKM_I_OP_update_sgd, SUMS, 0.0, 2},
    {CKM_I_OP_update_adam, SUMS, 0.0, 2},
    {CKM_I_OP_update_adamw, SUMS, 0.0, 2},
    // lines that are normalized: what is far below the largest is 0
    {CKM_I_OP_softmax, SCORES | TIES | LARGE | SMALL | HOLES, 1.0, 0},
    {CKM_I_OP_log_softmax, SCORES | TIES | LARGE | SMALL | HOLES, 1.0, 0},
    {CKM_I_OP_softmax_backward, SCORES | TIES | SMALL | NANS, 1.0, 0},
    {CKM_I_OP_log_softmax_backward, SCORES | TIES | SMALL | NANS, 1.0, 0},
    {CKM_I_OP_softmax_cross_entropy, SCORES | TIES | LARGE | SMALL | HOLES, 1.0, 0},
    {CKM_I_OP_softmax_cross_entropy_backward, SCORES | TIES | LARGE | SMALL | HOLES, 1.0, 0},
};

const char *kernel_range_name(kernel_range range)
{
    static const char *const names[KERNEL_RANGE_COUNT] = {
        "ordinary numbers", "every number",       "scores", "ties", "large numbers",
        "small numbers",    "infinities and NaN", "NaN"};
    return names[range];
}

static int row_of(ckm_i_op_kind kind)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].kind == kind) {
            return (int)i;
        }
    }
    return -1;
}

static unsigned ranges_of(const ckm_i_graph_op *op)
{
    int row = row_of(op->op_class->id);
    if (row >= 0) {
        return rows[row].ranges;
    }
    return op->op_class->work == CKM_I_WORK_ELEMENTS ? EVERY | TIES : SUMS;
}

bool kernel_ranges_apply(const ckm_graph *script, kernel_range range)
{
    for (int32_t i = 0; range != KERNEL_RANGE_UNIT && i < script->n_ops; i++) {
        if ((ranges_of(&script->ops[i]) >> range & 1U) == 0) {
            return false;
        }
    }
    return true;
}

bool kernel_range_is_each(kernel_range range)
{
    return range == KERNEL_RANGE_EVERY || range == KERNEL_RANGE_SCORES;
}

double kernel_ranges_floor(const ckm_graph *script)
{
    double floor = 1.0;
    for (int32_t i = 0; i < script->n_ops; i++) {
        int row = row_of(script->ops[i].op_class->id);
        floor = fmin(floor, row >= 0 ? rows[row].floor : 1e-3);
    }
    return floor;
}

// ---- numbers

// Where functions change: with their neighbours.
static const float breaks[] = {0.5F, 1.0F, 2.0F, 2.5F, 3.0F, 4.0F, 6.0F, 8.0F, 20.0F};
// Where exponentials, their products and squares leave the range of floats, and between.
static const float others[] = {
    0.0F,   1e-45F, 1e-40F, FLT_MIN, 1e-30F, 1e-10F,  1e-4F, 0.1F,  0.75F, 1.5F,    5.0F,     5.5F,  7.0F,
    9.0F,   10.0F,  12.0F,  16.0F,   30.0F,  50.0F,   87.0F, 87.5F, 88.0F, 88.6F,   88.8F,    89.0F, 100.0F,
    103.0F, 104.0F, 200.0F, 1e4F,    1e10F,  1.8e19F, 2e19F, 1e20F, 3e38F, FLT_MAX, INFINITY,
};

static int put_break(float at, float *points, int n)
{
    const float sides[2] = {at, -at};
    for (int i = 0; i < 2; i++) {
        points[n++] = sides[i];
        points[n++] = nextafterf(sides[i], INFINITY);
        points[n++] = nextafterf(sides[i], -INFINITY);
    }
    return n;
}

int kernel_range_points(const ckm_i_graph_op *op, float *points)
{
    int n = 0;
    for (int32_t i = 0; i < op->n_attrs; i++) {
        if (op->attrs[i].type == CKM_I_ATTR_REAL) {
            n = put_break((float)op->attrs[i].real, points, n);
        }
    }
    for (size_t i = 0; i < sizeof breaks / sizeof breaks[0]; i++) {
        n = put_break(breaks[i], points, n);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        points[n++] = others[i];
        points[n++] = -others[i];
    }
    points[n++] = NAN;
    return n;
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

// The gradient that comes from above: finite or NaN, of either sign, also 0.
static float gradient(uint64_t drawn, float unit)
{
    static const float special[] = {0.0F, -0.0F, 4.0F, -4.0F, 1e-30F, NAN, -1.0F, 1.0F};
    return drawn % 3 == 0 ? special[drawn / 3 % 8] : unit;
}

// Every point in turn, with ordinary numbers of all magnitudes between them.
static float every(const ckm_i_graph_op *op, int32_t tensor, int64_t i, int64_t n, uint64_t drawn, float unit)
{
    float points[KERNEL_RANGE_POINTS];
    int64_t count = kernel_range_points(op, points);
    // Tensors that hold fewer numbers than there are points begin elsewhere, so that they do not all hold the same.
    int64_t at = (i + tensor * 61 + (n < count ? n * 13 : 0)) % (count + 24);
    return at < count ? points[at] : ldexpf(unit, (int)(drawn % 12) - 4);
}

static float score(uint64_t drawn, float unit)
{
    static const float special[] = {250.0F, 250.0F, -INFINITY, -3e38F, 249.0F, -1e4F, 250.0F, 0.0F};
    return drawn % 4 == 0 ? special[drawn / 4 % 8] : 200.0F * unit;
}

static float with_holes(int64_t i, int64_t n, bool infinite, float unit)
{
    if (i == n / 2 || i == n - 1) {
        return NAN;
    }
    return infinite && i == n / 5 ? INFINITY : infinite && i == n * 4 / 5 ? -INFINITY : unit;
}

// The first operator that reads the tensor, and as which operand.
static const ckm_i_graph_op *reader_of(const ckm_graph *script, int32_t tensor, int32_t *operand)
{
    for (int32_t v = 0; v < script->n_ops; v++) {
        for (int32_t k = 0; k < script->ops[v].n_inputs; k++) {
            if (script->ops[v].inputs[k] == tensor) {
                *operand = k;
                return &script->ops[v];
            }
        }
    }
    return NULL;
}

// Losses begin the way back: no gradient comes from above.
static bool is_from_above(const ckm_i_graph_op *op, int32_t operand)
{
    ckm_i_op_kind kind = op->op_class->id;
    return operand == 0 && strstr(op->op_class->kind, "_backward") != NULL &&
           kind != CKM_I_OP_softmax_cross_entropy_backward && kind != CKM_I_OP_mse_backward;
}

float kernel_range_number(const ckm_graph *script, kernel_range range, int32_t tensor, int64_t i, int64_t n,
                          bool positive, float unit)
{
    static const float ties[] = {-1.0F, 0.5F, -0.0F, 0.0F, 0.5F, 1.0F, -0.5F, 1.0F, 1e-40F, -1.0F};
    int32_t operand = 0;
    const ckm_i_graph_op *op = reader_of(script, tensor, &operand);
    if (op == NULL || range == KERNEL_RANGE_UNIT) {
        return unit;
    }
    int row = row_of(op->op_class->id);
    unsigned holes = row >= 0 && rows[row].holes != 0 ? rows[row].holes : 1U;
    uint64_t drawn = mixed((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) +
                           (uint64_t)(tensor + 1) * UINT64_C(0xda942042e4dd58b5));
    bool from_above = is_from_above(op, operand);
    float number = unit;
    switch (range) {
    case KERNEL_RANGE_EVERY:
        number = from_above ? gradient(drawn, unit) : every(op, tensor, i, n, drawn, unit);
        break;
    case KERNEL_RANGE_SCORES:
        number = from_above ? gradient(drawn, unit) : score(drawn, unit);
        break;
    case KERNEL_RANGE_TIES:
        number = ties[drawn % 10];
        break;
    case KERNEL_RANGE_LARGE:
        number = ldexpf(unit, (int)(drawn % 13));
        break;
    case KERNEL_RANGE_SMALL:
        number = unit * 0x1p-20F;
        break;
    case KERNEL_RANGE_HOLES:
    case KERNEL_RANGE_NANS:
        number = (holes >> operand & 1U) != 0 ? with_holes(i, n, range == KERNEL_RANGE_HOLES, unit) : unit;
        break;
    case KERNEL_RANGE_UNIT:
    case KERNEL_RANGE_COUNT:
        break;
    }
    if (!positive || isnan(number)) {
        return number;
    }
    // Statistics and the like are in range; what may be any number greater than 0 is that.
    return range == KERNEL_RANGE_EVERY ? (number != 0.0F ? fabsf(number) : unit) : unit;
}
