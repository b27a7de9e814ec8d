// SPDX-License-Identifier: Apache-2.0
// Reductions over axes, their derivatives, positions of extremes, running sums.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// The groups of elements that are reduced to one: a walk over the groups, and one over a group's members.
typedef struct groups {
    ckm_i_ref_walk outer, inner;
    ckm_shape kept;  // the shape of x with reduced axes as 1
    double size;     // members of a group
} groups;

// `spatial`: the axes of a global pooling; otherwise attribute axes, all when it is absent.
static groups open_groups(const ckm_i_ref_op *r, const ckm_shape *x, bool spatial)
{
    const ckm_i_attr *axes = ckm_i_op_attr(r->op, "axes");
    bool reduced[CKM_MAX_RANK] = {false};
    for (int32_t i = 0; i < x->rank; i++) {
        reduced[i] = spatial ? i != 0 && i != ckm_i_channel_axis(r->graph, x->rank) : axes == NULL;
    }
    for (int32_t i = 0; !spatial && axes != NULL && i < axes->n; i++) {
        reduced[axes->ints[i] < 0 ? axes->ints[i] + x->rank : axes->ints[i]] = true;
    }
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t outer_strides[CKM_MAX_RANK] = {0};
    int64_t inner_strides[CKM_MAX_RANK] = {0};
    ckm_shape outer = {0};
    ckm_shape inner = {0};
    groups g = {.kept = *x, .size = 1.0};
    ckm_i_ref_strides(x, strides);
    for (int32_t i = 0; i < x->rank; i++) {
        if (reduced[i]) {
            inner_strides[inner.rank] = strides[i];
            inner.dims[inner.rank++] = x->dims[i];
            g.kept.dims[i] = 1;
            g.size *= (double)x->dims[i];
        } else {
            outer_strides[outer.rank] = strides[i];
            outer.dims[outer.rank++] = x->dims[i];
        }
    }
    g.outer = ckm_i_ref_walk_over(&outer);
    g.inner = ckm_i_ref_walk_over(&inner);
    ckm_i_ref_walk_add_strides(&g.outer, outer_strides, 0);
    ckm_i_ref_walk_add_strides(&g.inner, inner_strides, 0);
    return g;
}

typedef enum reduction { MAX, MIN, PROD, L1, L2, SUM_SQUARE, LOG_SUM, LOG_SUM_EXP } reduction;

static double extreme_of(ckm_i_ref_walk members, const float *x, double sign)
{
    double best = -(double)INFINITY;
    for (bool more = ckm_i_ref_walk_start(&members); more; more = ckm_i_ref_walk_next(&members)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&members); j++) {
            double value = sign * (double)x[members.offsets[0] + j * ckm_i_ref_row_stride(&members, 0)];
            best = value > best || value != value ? value : best;
        }
    }
    return sign * best;
}

static double add_up(ckm_i_ref_walk members, const float *x, reduction kind, double shift)
{
    double sum = kind == PROD ? 1.0 : 0.0;
    for (bool more = ckm_i_ref_walk_start(&members); more; more = ckm_i_ref_walk_next(&members)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&members); j++) {
            double value = (double)x[members.offsets[0] + j * ckm_i_ref_row_stride(&members, 0)];
            switch (kind) {
            case PROD:
                sum *= value;
                break;
            case L1:
                sum += fabs(value);
                break;
            case LOG_SUM:
                sum += value;
                break;
            case LOG_SUM_EXP:
                sum += exp(value - shift);
                break;
            case L2:
            case SUM_SQUARE:
            case MAX:
            case MIN:
                sum += value * value;
                break;
            }
        }
    }
    return sum;
}

static double reduce_group(const ckm_i_ref_walk *members, const float *x, reduction kind)
{
    if (kind == MAX || kind == MIN) {
        return extreme_of(*members, x, kind == MAX ? 1.0 : -1.0);
    }
    double shift = kind == LOG_SUM_EXP ? extreme_of(*members, x, 1.0) : 0.0;
    shift = isinf(shift) ? 0.0 : shift;  // infinity minus itself is no number
    double sum = add_up(*members, x, kind, shift);
    return kind == L2 ? sqrt(sum) : kind == LOG_SUM || kind == LOG_SUM_EXP ? shift + log(sum) : sum;
}

static ckm_status reduce(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, reduction kind, bool spatial,
                         ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    groups g = open_groups(&r, &ckm_i_ref_in(&r, 0)->shape, spatial);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (bool more = ckm_i_ref_walk_start(&g.outer); more; more = ckm_i_ref_walk_next(&g.outer)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&g.outer); j++) {
            const float *first = x + g.outer.offsets[0] + j * ckm_i_ref_row_stride(&g.outer, 0);
            *y++ = (float)reduce_group(&g.inner, first, kind);
        }
    }
    return CKM_OK;
}

#define REDUCE(name, kind, spatial)                                                                                \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        return reduce(step, op, call, kind, spatial, err);                                                         \
    }

REDUCE(reduce_max, MAX, false)
REDUCE(reduce_min, MIN, false)
REDUCE(reduce_prod, PROD, false)
REDUCE(reduce_l1, L1, false)
REDUCE(reduce_l2, L2, false)
REDUCE(reduce_sum_square, SUM_SQUARE, false)
REDUCE(reduce_log_sum, LOG_SUM, false)
REDUCE(reduce_log_sum_exp, LOG_SUM_EXP, false)
REDUCE(global_max_pool, MAX, true)

// ---- sums and means

static ckm_status sum(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, bool mean, bool spatial,
                      ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    groups g = open_groups(&r, shape, spatial);
    float *y = ckm_i_ref_output(&r, 0);
    ckm_i_ref_sum_to(shape, ckm_i_ref_input(&r, 0), &g.kept, y);
    float factor = (float)(1.0 / g.size);
    for (int64_t i = 0; mean && i < ckm_i_elements(&g.kept); i++) {
        y[i] *= factor;
    }
    return CKM_OK;
}

static ckm_status reduce_sum(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return sum(step, op, call, false, false, err);
}

static ckm_status reduce_mean(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return sum(step, op, call, true, false, err);
}

static ckm_status global_average_pool(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return sum(step, op, call, true, true, err);
}

// input dy; attribute shape, which the output has
static ckm_status sum_to(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_sum_to(&ckm_i_ref_in(&r, 0)->shape, ckm_i_ref_input(&r, 0), &ckm_i_ref_out(&r, 0)->shape,
                     ckm_i_ref_output(&r, 0));
    return CKM_OK;
}

// ---- derivatives

// What the derivative of a group's member needs to know of the group.
typedef struct facts {
    double y, dy, sum;
    double ties, zeros, product;  // members equal to y, members that are 0, product of the others
} facts;

static void study(ckm_i_ref_walk members, const float *x, facts *f)
{
    f->sum = 0.0;
    f->ties = 0.0;
    f->zeros = 0.0;
    f->product = 1.0;
    for (bool more = ckm_i_ref_walk_start(&members); more; more = ckm_i_ref_walk_next(&members)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&members); j++) {
            double value = (double)x[members.offsets[0] + j * ckm_i_ref_row_stride(&members, 0)];
            f->sum += value;
            f->ties += value == f->y;
            f->zeros += value == 0.0;
            f->product *= value == 0.0 ? 1.0 : value;
        }
    }
}

static double derivative(reduction kind, double x, const facts *f)
{
    switch (kind) {
    case MAX:
    case MIN:
        return x == f->y ? f->dy / f->ties : 0.0;
    case PROD:
        if (f->zeros == 0.0) {
            return f->dy * f->product / x;
        }
        return f->zeros == 1.0 && x == 0.0 ? f->dy * f->product : 0.0;
    case L1:
        return x > 0.0 ? f->dy : x < 0.0 ? -f->dy : 0.0;
    case L2:
        return f->y == 0.0 ? 0.0 : f->dy * x / f->y;
    case SUM_SQUARE:
        return 2.0 * f->dy * x;
    case LOG_SUM:
        return f->dy / f->sum;
    case LOG_SUM_EXP:
        return f->dy * exp(x - f->y);
    }
    return 0.0;
}

static void spread(ckm_i_ref_walk members, const float *x, reduction kind, const facts *f, float *dx)
{
    for (bool more = ckm_i_ref_walk_start(&members); more; more = ckm_i_ref_walk_next(&members)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&members); j++) {
            int64_t i = members.offsets[0] + j * ckm_i_ref_row_stride(&members, 0);
            dx[i] = (float)derivative(kind, (double)x[i], f);
        }
    }
}

// inputs dy, x and, for some, y
static ckm_status backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, reduction kind,
                           ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    groups g = open_groups(&r, &ckm_i_ref_in(&r, 1)->shape, false);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *y = ckm_i_ref_input(&r, 2);
    float *dx = ckm_i_ref_output(&r, 0);
    for (bool more = ckm_i_ref_walk_start(&g.outer); more; more = ckm_i_ref_walk_next(&g.outer)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&g.outer); j++) {
            int64_t first = g.outer.offsets[0] + j * ckm_i_ref_row_stride(&g.outer, 0);
            facts f = {.y = y != NULL ? (double)*y++ : 0.0, .dy = (double)*dy++};
            study(g.inner, x + first, &f);
            spread(g.inner, x + first, kind, &f, dx + first);
        }
    }
    return CKM_OK;
}

#define BACKWARD(name, kind)                                                                                       \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        return backward(step, op, call, kind, err);                                                                \
    }

BACKWARD(reduce_max_backward, MAX)
BACKWARD(reduce_min_backward, MIN)
BACKWARD(reduce_prod_backward, PROD)
BACKWARD(reduce_l1_backward, L1)
BACKWARD(reduce_l2_backward, L2)
BACKWARD(reduce_sum_square_backward, SUM_SQUARE)
BACKWARD(reduce_log_sum_backward, LOG_SUM)
BACKWARD(reduce_log_sum_exp_backward, LOG_SUM_EXP)

// ---- positions

// Position of the first extreme, or of the first NaN, among the members, counted in the order of the elements.
static int64_t find_extreme(const ckm_i_ref_op *r, ckm_i_ref_walk members, int64_t first, double sign)
{
    const ckm_i_graph_tensor *x = ckm_i_ref_in(r, 0);
    double best = 0.0;
    int64_t place = -1;
    int64_t at = 0;
    for (bool more = ckm_i_ref_walk_start(&members); more; more = ckm_i_ref_walk_next(&members)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&members); j++, at++) {
            int64_t i = first + members.offsets[0] + j * ckm_i_ref_row_stride(&members, 0);
            double value = sign * ckm_i_ref_load(ckm_i_ref_input(r, 0), x->dtype, i);
            if (place < 0 || value > best || (value != value && best == best)) {  // NaN counts as largest
                best = value;
                place = at;
            }
        }
    }
    return place;
}

static ckm_status position(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, double sign)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    groups g = open_groups(&r, &ckm_i_ref_in(&r, 0)->shape, false);
    int64_t *y = ckm_i_ref_output(&r, 0);
    for (bool more = ckm_i_ref_walk_start(&g.outer); more; more = ckm_i_ref_walk_next(&g.outer)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&g.outer); j++) {
            *y++ = find_extreme(&r, g.inner, g.outer.offsets[0] + j * ckm_i_ref_row_stride(&g.outer, 0), sign);
        }
    }
    return CKM_OK;
}

static ckm_status arg_max(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    return position(step, op, call, 1.0);
}

static ckm_status arg_min(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    return position(step, op, call, -1.0);
}

// Lines along an axis: line l has its first element at l / inner * size * inner + l % inner.
typedef struct lines {
    int64_t count, size, inner;
} lines;

static lines read_lines(const ckm_i_ref_op *r, int64_t fallback)
{
    const ckm_shape *x = &ckm_i_ref_in(r, 0)->shape;
    int32_t axis = ckm_i_ref_axis(r, "axis", fallback, x->rank);
    int64_t inner = ckm_i_ref_span(x, axis + 1, x->rank);
    return (lines){ckm_i_ref_span(x, 0, axis) * inner, x->dims[axis], inner};
}

// outputs values, [positions]; attributes axis, k. The largest first; of equals the one that stands first.
static ckm_status top_k(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    if (ckm_i_ref_in(&r, 0)->dtype != CKM_F32) {
        return ckm_i_ref_error(&r, err, CKM_ERR_UNSUPPORTED, "only single precision (float32) is supported");
    }
    lines l = read_lines(&r, -1);
    int64_t k = ckm_i_op_attr_int(r.op, "k", 0, 1);
    const float *data = ckm_i_ref_input(&r, 0);
    float *values = ckm_i_ref_output(&r, 0);
    int64_t *positions = ckm_i_ref_output(&r, 1);
    for (int64_t line = 0; line < l.count; line++) {
        const float *x = data + line / l.inner * l.size * l.inner + line % l.inner;
        int64_t last = -1;
        for (int64_t i = 0; i < k; i++) {
            int64_t best = -1;
            for (int64_t j = 0; j < l.size; j++) {  // after the last one in the order of (value, position)
                float value = x[j * l.inner];
                bool after = last < 0 || value < x[last * l.inner] || (value == x[last * l.inner] && j > last);
                best = after && (best < 0 || value > x[best * l.inner]) ? j : best;
            }
            best = best < 0 ? 0 : best;  // NaN has no place in the order
            int64_t to = line / l.inner * k * l.inner + i * l.inner + line % l.inner;
            if (values != NULL) {
                values[to] = x[best * l.inner];
            }
            if (positions != NULL) {
                positions[to] = best;
            }
            last = best;
        }
    }
    return CKM_OK;
}

// Of integers: positions, masks. What does not fit the type wraps around, as it does elsewhere.
static void cumulate_integers(const ckm_i_ref_op *r, const lines *l, bool exclusive, bool reverse)
{
    ckm_dtype dtype = ckm_i_ref_in(r, 0)->dtype;
    const void *x = ckm_i_ref_input(r, 0);
    void *y = ckm_i_ref_output(r, 0);
    for (int64_t line = 0; line < l->count; line++) {
        int64_t first = line / l->inner * l->size * l->inner + line % l->inner;
        uint64_t total = 0;
        for (int64_t k = 0; k < l->size; k++) {
            int64_t i = first + (reverse ? l->size - 1 - k : k) * l->inner;
            uint64_t before = total;
            total += (uint64_t)ckm_i_ref_load_int(x, dtype, i);
            uint64_t given = exclusive ? before : total;
            if (dtype == CKM_I64) {
                ((int64_t *)y)[i] = (int64_t)given;
            } else {
                ((int32_t *)y)[i] = (int32_t)(uint32_t)given;
            }
        }
    }
}

// input x; attributes axis, exclusive, reverse
static ckm_status cumulative_sum(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    lines l = read_lines(&r, 0);
    bool exclusive = ckm_i_op_attr_int(r.op, "exclusive", 0, 0) != 0;
    bool reverse = ckm_i_op_attr_int(r.op, "reverse", 0, 0) != 0;
    ckm_dtype dtype = ckm_i_ref_in(&r, 0)->dtype;
    if (dtype == CKM_I64 || dtype == CKM_I32) {
        cumulate_integers(&r, &l, exclusive, reverse);
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t line = 0; line < l.count; line++) {
        int64_t first = line / l.inner * l.size * l.inner + line % l.inner;
        double total = 0.0;
        for (int64_t k = 0; k < l.size; k++) {
            int64_t i = first + (reverse ? l.size - 1 - k : k) * l.inner;
            double before = total;
            total += (double)x[i];
            y[i] = (float)(exclusive ? before : total);
        }
    }
    return CKM_OK;
}

#define ROW(name)                         \
    {                                     \
        CKM_I_OP_##name, NULL, run_##name \
    }

const ckm_i_reference_kernel ckm_i_ref_kernels_reduce[] = {
    {CKM_I_OP_reduce_sum, NULL, reduce_sum},
    {CKM_I_OP_reduce_mean, NULL, reduce_mean},
    {CKM_I_OP_global_average_pool, NULL, global_average_pool},
    {CKM_I_OP_sum_to, NULL, sum_to},
    ROW(reduce_max),
    ROW(reduce_min),
    ROW(reduce_prod),
    ROW(reduce_l1),
    ROW(reduce_l2),
    ROW(reduce_sum_square),
    ROW(reduce_log_sum),
    ROW(reduce_log_sum_exp),
    ROW(global_max_pool),
    ROW(reduce_max_backward),
    ROW(reduce_min_backward),
    ROW(reduce_prod_backward),
    ROW(reduce_l1_backward),
    ROW(reduce_l2_backward),
    ROW(reduce_sum_square_backward),
    ROW(reduce_log_sum_backward),
    ROW(reduce_log_sum_exp_backward),
    {CKM_I_OP_arg_max, NULL, arg_max},
    {CKM_I_OP_arg_min, NULL, arg_min},
    {CKM_I_OP_top_k, NULL, top_k},
    {CKM_I_OP_cumulative_sum, NULL, cumulative_sum},
    {0},
};
