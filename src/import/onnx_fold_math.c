// SPDX-License-Identifier: Apache-2.0
// Folding of arithmetic on elements. Integers overflow into an error, never silently.
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "import/onnx_fold.h"
#include "import/onnx_geometry.h"

typedef ckm_i_onnx_scalar scalar;

// One function for integers and one for reals; false when the result does not exist or does not fit.
typedef struct binary_rule {
    const char *op_type;
    bool truth;  // the result is boolean
    bool (*integers)(int64_t a, int64_t b, int64_t *out);
    double (*reals)(double a, double b);
} binary_rule;

static bool sub_int(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}

static bool div_int(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return false;
    }
    *out = a / b;
    return true;
}

static bool mod_int(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || b == -1) {
        *out = 0;
        return b != 0;
    }
    int64_t rest = a % b;
    *out = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    return true;
}

static bool pow_int(int64_t a, int64_t b, int64_t *out)
{
    *out = 1;
    bool fits = b >= 0 && b < 64;
    for (int64_t i = 0; fits && i < b; i++) {
        fits = ckm_i_mul(*out, a, out);
    }
    return fits;
}

#define CHOICE(name, expression)                               \
    static bool name##_int(int64_t a, int64_t b, int64_t *out) \
    {                                                          \
        *out = (expression);                                   \
        return true;                                           \
    }                                                          \
    static double name##_real(double a, double b)              \
    {                                                          \
        return (double)(expression);                           \
    }
CHOICE(min, a < b ? a : b)
CHOICE(max, a > b ? a : b)
CHOICE(less, a < b)
CHOICE(less_equal, a <= b)
CHOICE(greater, a > b)
CHOICE(greater_equal, a >= b)
CHOICE(equal, !(a < b) && !(a > b))
CHOICE(both, (a < 0 || a > 0) && (b < 0 || b > 0))
CHOICE(either, (a < 0 || a > 0) || (b < 0 || b > 0))

static double add_real(double a, double b)
{
    return a + b;
}
static double sub_real(double a, double b)
{
    return a - b;
}
static double mul_real(double a, double b)
{
    return a * b;
}
static double div_real(double a, double b)
{
    return a / b;
}

static const binary_rule binaries[] = {
    {"Add", false, ckm_i_add, add_real},
    {"Sub", false, sub_int, sub_real},
    {"Mul", false, ckm_i_mul, mul_real},
    {"Div", false, div_int, div_real},
    {"Mod", false, mod_int, fmod},
    {"Pow", false, pow_int, pow},
    {"Min", false, min_int, min_real},
    {"Max", false, max_int, max_real},
    {"Less", true, less_int, less_real},
    {"LessOrEqual", true, less_equal_int, less_equal_real},
    {"Greater", true, greater_int, greater_real},
    {"GreaterOrEqual", true, greater_equal_int, greater_equal_real},
    {"Equal", true, equal_int, equal_real},
    {"And", true, both_int, both_real},
    {"Or", true, either_int, either_real},
};

// Where element `index` of the broadcast shape lies in an operand.
static int64_t broadcast_at(const ckm_shape *out, const ckm_shape *in, int64_t index)
{
    int64_t at = 0;
    int64_t stride = 1;
    for (int32_t i = 1; i <= in->rank; i++) {
        int64_t size = out->dims[out->rank - i];
        int64_t dim = in->dims[in->rank - i];
        at += dim == 1 ? 0 : index % size * stride;
        stride *= dim;
        index /= size;
    }
    return at;
}

static bool broadcast(const ckm_shape *a, const ckm_shape *b, ckm_shape *out)
{
    ckm_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t i = 1; i <= result.rank; i++) {
        int64_t da = i <= a->rank ? a->dims[a->rank - i] : 1;
        int64_t db = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (da != db && da != 1 && db != 1) {
            return false;
        }
        result.dims[result.rank - i] = da == 1 ? db : da;
    }
    *out = result;
    return true;
}

static ckm_status fold_binary(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                              ckm_error *err)
{
    const ckm_i_onnx_value *a = ckm_i_onnx_input(c, node, 0);
    const ckm_i_onnx_value *b = ckm_i_onnx_input(c, node, 1);
    const binary_rule *rule = binaries;
    while (strcmp(rule->op_type, node->op_type) != 0) {
        rule++;
    }
    if (node->n_in != 2 || b == NULL || ckm_i_onnx_dtype_is_real(a->dtype) != ckm_i_onnx_dtype_is_real(b->dtype)) {
        out->declined = true;
        return CKM_OK;
    }
    if (!broadcast(&a->shape, &b->shape, &out->shape)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "the shapes of its operands do not fit together");
    }
    bool real = ckm_i_onnx_dtype_is_real(a->dtype);
    // Of the two remainders this is the one that kernels have: by the divisor's sign for integers, the dividend's for reals.
    if (strcmp(rule->op_type, "Mod") == 0 && (ckm_i_onnx_attr_int(node, "fmod", 0) != 0) != real) {
        out->declined = true;
        return CKM_OK;
    }
    out->dtype = rule->truth ? CKM_BOOL : a->dtype;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    for (int64_t i = 0; out->data != NULL && i < ckm_i_onnx_fold_count(&out->shape); i++) {
        scalar x = a->data[broadcast_at(&out->shape, &a->shape, i)];
        scalar y = b->data[broadcast_at(&out->shape, &b->shape, i)];
        if (real && rule->truth) {
            out->data[i].i = rule->reals(x.r, y.r) > 0.0;
        } else if (real) {
            out->data[i].r = rule->reals(x.r, y.r);
        } else if (!rule->integers(x.i, y.i, &out->data[i].i)) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_OVERFLOW,
                                         "%lld and %lld: the result does not exist or does not fit", (long long)x.i,
                                         (long long)y.i);
        }
    }
    return CKM_OK;
}

typedef struct unary_rule {
    const char *op_type;
    bool (*integers)(int64_t a, int64_t *out);
    double (*reals)(double a);
} unary_rule;

static bool neg_int(int64_t a, int64_t *out)
{
    return sub_int(0, a, out);
}
static double neg_real(double a)
{
    return -a;
}
static bool abs_int(int64_t a, int64_t *out)
{
    return a < 0 ? sub_int(0, a, out) : ckm_i_add(a, 0, out);
}
static bool sign_int(int64_t a, int64_t *out)
{
    *out = (a > 0) - (a < 0);
    return true;
}
static double sign_real(double a)
{
    return (double)((a > 0.0) - (a < 0.0));
}
static bool not_int(int64_t a, int64_t *out)
{
    *out = a == 0;
    return true;
}
static double reciprocal_real(double a)
{
    return 1.0 / a;
}

static const unary_rule unaries[] = {
    {"Neg", neg_int, neg_real}, {"Abs", abs_int, fabs}, {"Sign", sign_int, sign_real},
    {"Not", not_int, NULL},     {"Floor", NULL, floor}, {"Ceil", NULL, ceil},
    {"Round", NULL, nearbyint}, {"Sqrt", NULL, sqrt},   {"Reciprocal", NULL, reciprocal_real},
    {"Exp", NULL, exp},         {"Log", NULL, log},
};

static ckm_status fold_unary(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                             ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    const unary_rule *rule = unaries;
    while (strcmp(rule->op_type, node->op_type) != 0) {
        rule++;
    }
    bool real = ckm_i_onnx_dtype_is_real(in->dtype);
    if (real ? rule->reals == NULL : rule->integers == NULL) {
        out->declined = true;
        return CKM_OK;
    }
    out->dtype = in->dtype;
    out->shape = in->shape;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    for (int64_t i = 0; out->data != NULL && i < ckm_i_onnx_fold_count(&out->shape); i++) {
        if (real) {
            out->data[i].r = rule->reals(in->data[i].r);
        } else if (!rule->integers(in->data[i].i, &out->data[i].i)) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_OVERFLOW, "the result does not fit 63 bits");
        }
    }
    return CKM_OK;
}

static ckm_status fold_cast(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                            ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    const ckm_i_onnx_value *like = ckm_i_onnx_input(c, node, 1);
    if (like != NULL) {
        out->dtype = like->dtype;
    } else if (!ckm_i_onnx_dtype(ckm_i_onnx_attr_int(node, "to", 0), &out->dtype)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "the element type it casts to is not supported");
    }
    bool from_real = ckm_i_onnx_dtype_is_real(in->dtype);
    bool to_real = ckm_i_onnx_dtype_is_real(out->dtype);
    out->shape = in->shape;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    for (int64_t i = 0; out->data != NULL && i < ckm_i_onnx_fold_count(&out->shape); i++) {
        scalar x = in->data[i];
        if (out->dtype == CKM_BOOL) {
            out->data[i].i = from_real ? x.r < 0.0 || x.r > 0.0 : x.i != 0;
        } else if (from_real == to_real) {
            out->data[i] = x;
        } else if (to_real) {
            out->data[i].r = (double)x.i;
        } else if (x.r > -9.2e18 && x.r < 9.2e18) {
            out->data[i].i = (int64_t)x.r;
        } else {
            out->data[i].i = x.r < 0.0 ? INT64_MIN : INT64_MAX;  // also for what is not a number
        }
    }
    return CKM_OK;
}

static ckm_status fold_where(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                             ckm_error *err)
{
    const ckm_i_onnx_value *condition = ckm_i_onnx_input(c, node, 0);
    const ckm_i_onnx_value *a = ckm_i_onnx_input(c, node, 1);
    const ckm_i_onnx_value *b = ckm_i_onnx_input(c, node, 2);
    if (a == NULL || b == NULL || ckm_i_onnx_dtype_is_real(condition->dtype) || a->dtype != b->dtype) {
        out->declined = true;
        return CKM_OK;
    }
    if (!broadcast(&a->shape, &b->shape, &out->shape) || !broadcast(&out->shape, &condition->shape, &out->shape)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "the shapes of its operands do not fit together");
    }
    out->dtype = a->dtype;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    for (int64_t i = 0; out->data != NULL && i < ckm_i_onnx_fold_count(&out->shape); i++) {
        bool holds = condition->data[broadcast_at(&out->shape, &condition->shape, i)].i != 0;
        const ckm_i_onnx_value *from = holds ? a : b;
        out->data[i] = from->data[broadcast_at(&out->shape, &from->shape, i)];
    }
    return CKM_OK;
}

// Reductions to a single number, as shape arithmetic needs them; others are left to conversion.
static ckm_status fold_reduce(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                              ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    int64_t axes[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_reduced(c, node, in->shape.rank, axes, &n, err));
    int64_t elements = ckm_i_onnx_fold_count(&in->shape);
    if ((n >= 0 && n != in->shape.rank) || elements < 1) {
        out->declined = true;
        return CKM_OK;
    }
    if (ckm_i_onnx_attr_int(node, "keepdims", 1) != 0) {
        out->shape.rank = in->shape.rank;
        for (int32_t i = 0; i < in->shape.rank; i++) {
            out->shape.dims[i] = 1;
        }
    }
    out->dtype = in->dtype;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    const char *op = strcmp(node->op_type, "ReduceProd") == 0  ? "Mul"
                     : strcmp(node->op_type, "ReduceSum") == 0 ? "Add"
                     : strcmp(node->op_type, "ReduceMax") == 0 ? "Max"
                                                               : "Min";
    const binary_rule *rule = binaries;
    while (strcmp(rule->op_type, op) != 0) {
        rule++;
    }
    scalar total = in->data[0];
    for (int64_t i = 1; i < elements; i++) {
        if (ckm_i_onnx_dtype_is_real(in->dtype)) {
            total.r = rule->reals(total.r, in->data[i].r);
        } else if (!rule->integers(total.i, in->data[i].i, &total.i)) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_OVERFLOW, "the result does not fit 63 bits");
        }
    }
    out->data[0] = total;
    return CKM_OK;
}

// Of integers: exporters count what is padded or where documents begin so.
static ckm_status fold_cumulative(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                                  ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    int64_t given[CKM_I_ATTR_MAX] = {0};
    int32_t n;
    int32_t axis;
    int64_t inner = 1;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axis", 1, given, &n, err));
    if (n != 1 || ckm_i_onnx_dtype_is_real(in->dtype)) {
        out->declined = true;
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_onnx_axis(node, given[0], in->shape.rank, &axis, err));
    bool exclusive = ckm_i_onnx_attr_int(node, "exclusive", 0) != 0;
    bool reverse = ckm_i_onnx_attr_int(node, "reverse", 0) != 0;
    for (int32_t i = axis + 1; i < in->shape.rank; i++) {
        inner *= in->shape.dims[i];
    }
    out->dtype = in->dtype;
    out->shape = in->shape;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    int64_t size = in->shape.dims[axis];
    int64_t elements = out->data != NULL ? ckm_i_onnx_fold_count(&out->shape) : 0;
    for (int64_t line = 0; size > 0 && line < elements / size; line++) {
        int64_t first = line / inner * size * inner + line % inner;
        int64_t total = 0;
        for (int64_t k = 0; k < size; k++) {
            int64_t i = first + (reverse ? size - 1 - k : k) * inner;
            int64_t before = total;
            if (!ckm_i_add(total, in->data[i].i, &total)) {
                return ckm_i_onnx_node_error(node, err, CKM_ERR_OVERFLOW, "the result does not fit 63 bits");
            }
            out->data[i].i = exclusive ? before : total;
        }
    }
    return CKM_OK;
}

const ckm_i_onnx_fold_row ckm_i_onnx_fold_math[] = {
    {"Add", fold_binary},
    {"Sub", fold_binary},
    {"Mul", fold_binary},
    {"Div", fold_binary},
    {"Mod", fold_binary},
    {"Pow", fold_binary},
    {"Min", fold_binary},
    {"Max", fold_binary},
    {"Less", fold_binary},
    {"LessOrEqual", fold_binary},
    {"Greater", fold_binary},
    {"GreaterOrEqual", fold_binary},
    {"Equal", fold_binary},
    {"And", fold_binary},
    {"Or", fold_binary},
    {"Neg", fold_unary},
    {"Abs", fold_unary},
    {"Sign", fold_unary},
    {"Not", fold_unary},
    {"Floor", fold_unary},
    {"Ceil", fold_unary},
    {"Round", fold_unary},
    {"Sqrt", fold_unary},
    {"Reciprocal", fold_unary},
    {"Exp", fold_unary},
    {"Log", fold_unary},
    {"Cast", fold_cast},
    {"CastLike", fold_cast},
    {"Where", fold_where},
    {"ReduceProd", fold_reduce},
    {"ReduceSum", fold_reduce},
    {"ReduceMax", fold_reduce},
    {"ReduceMin", fold_reduce},
    {"CumSum", fold_cumulative},
    {NULL, NULL},
};
