// SPDX-License-Identifier: Apache-2.0
// Attention as one operator (Dao et al. 2022, "FlashAttention", section 3.1): y = dropout(softmax(scale q k' + bias)) v
// without a tensor of scores or probabilities. Of a row of probabilities one number is kept, the logarithm of the sum
// of its exponentials; the gradient computes the probabilities again from q, k and that number.
//
// q: batch, heads, queries, size. k, v: batch, kv_heads, keys, size; heads / kv_heads consecutive heads share one of k and v.
// Attribute `by_position` says of q, k, v and y which have positions before heads, as projections write them.
// `mask` is that of masked_softmax. bias and the mask tensor are broadcast to batch, heads, queries, keys.
#include "graph/op_attention.h"

#include <string.h>

#include "base/checked.h"
#include "graph/op_grad_support.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "ops/gradients.h"

enum { BATCH, HEAD, POSITION, SIZE, AXES };

// A tensor's sizes in the order batch, heads, positions, numbers.
typedef struct operand {
    int64_t dims[AXES];
    ckm_i_attention_strides strides;
} operand;

static operand operand_of(const ckm_shape *shape, bool by_position)
{
    const int64_t *d = shape->dims;
    int64_t heads = by_position ? d[2] : d[1];
    int64_t positions = by_position ? d[1] : d[2];
    operand o = {.dims = {d[0], heads, positions, d[3]},
                 .strides = {.batch = heads * positions * d[3],
                             .head = by_position ? d[3] : positions * d[3],
                             .position = by_position ? heads * d[3] : d[3]}};
    return o;
}

static ckm_status refuse(const ckm_i_op_view *v, int32_t input, const char *what, ckm_error *err)
{
    char text[256];
    return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its %s of shape %s does not fit the other operands", what,
                          ckm_i_shape_text(&v->in[input]->shape, text, sizeof text));
}

// A tensor that repeats along axes that it lacks or has as 1.
static ckm_status read_spread(const ckm_i_op_view *v, int32_t input, const char *what, ckm_dtype dtype,
                              const int64_t full[AXES], ckm_i_attention_spread *out, ckm_error *err)
{
    *out = (ckm_i_attention_spread){0};
    if (input >= v->op->n_inputs || v->in[input] == NULL) {
        return CKM_OK;
    }
    const ckm_shape *shape = &v->in[input]->shape;
    if (shape->rank > AXES || v->in[input]->dtype != dtype) {
        return refuse(v, input, what, err);
    }
    int64_t stride = 1;
    out->present = true;
    for (int32_t i = AXES - 1; i >= 0; i--) {
        int32_t own = i - (AXES - shape->rank);
        out->dims[i] = own >= 0 ? shape->dims[own] : 1;
        if (out->dims[i] != 1 && out->dims[i] != full[i]) {
            return refuse(v, input, what, err);
        }
        out->strides[i] = out->dims[i] == 1 ? 0 : stride;
        stride *= out->dims[i];
    }
    return CKM_OK;
}

static ckm_status read_windows(const ckm_i_op_view *v, ckm_i_attention_form *f, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_list(v, "grid", 2, 1, INT32_MAX, 0, f->grid, err));
    CKM_I_CHECK(ckm_i_op_list(v, "window", 2, 1, INT16_MAX, 0, f->window, err));
    CKM_I_CHECK(ckm_i_op_list(v, "shift", 2, 0, INT16_MAX, 0, f->shift, err));
    for (int i = 0; i < 2; i++) {
        if (f->grid[i] < 1 || f->window[i] < 1 || f->grid[i] % f->window[i] != 0 || f->shift[i] >= f->window[i]) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                                  "windows of %lld, shifted by %lld, do not divide an axis of %lld",
                                  (long long)f->window[i], (long long)f->shift[i], (long long)f->grid[i]);
        }
    }
    int64_t windows = f->grid[0] / f->window[0] * (f->grid[1] / f->window[1]);
    int64_t positions = f->window[0] * f->window[1];
    if (f->batch % windows != 0 || f->queries != positions || f->keys != positions) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                              "q and k are not those of %lld windows of %lld positions an image", (long long)windows,
                              (long long)positions);
    }
    return CKM_OK;
}

static ckm_status read_mask(const ckm_i_op_view *v, ckm_i_attention_form *f, ckm_error *err)
{
    const char *mask = ckm_i_op_attr_text(v->op, "mask", "none");
    if (strcmp(mask, "causal") == 0) {
        f->hides = CKM_I_ATTENTION_CAUSAL;
        if (f->queries > f->keys) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%lld queries but only %lld keys: the first would see none",
                                  (long long)f->queries, (long long)f->keys);
        }
        return CKM_OK;
    }
    if (strcmp(mask, "windows") == 0) {
        f->hides = CKM_I_ATTENTION_WINDOWS;
        return read_windows(v, f, err);
    }
    return strcmp(mask, "none") == 0
               ? CKM_OK
               : ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the mask is \"%s\"; it must be none, causal or windows", mask);
}

static ckm_status read_rest(const ckm_i_op_view *v, int32_t first, ckm_i_attention_form *f, ckm_error *err)
{
    const int64_t full[AXES] = {f->batch, f->heads, f->queries, f->keys};
    const ckm_shape scores = {AXES, {f->batch, f->heads, f->queries, f->keys}};
    int64_t elements;
    CKM_I_CHECK(ckm_i_op_elements(v, &scores, &elements, err));  // dropout numbers them
    CKM_I_CHECK(read_spread(v, first + CKM_I_ATTENTION_BIAS, "bias", CKM_F32, full, &f->bias, err));
    CKM_I_CHECK(read_spread(v, first + CKM_I_ATTENTION_MASK, "mask", CKM_BOOL, full, &f->mask, err));
    CKM_I_CHECK(read_mask(v, f, err));
    int64_t hides;
    CKM_I_CHECK(ckm_i_op_int(v, "mask_hides", 0, 1, 0, &hides, err));
    f->mask_hides = hides != 0;
    f->scale = ckm_i_op_attr_double(v->op, "scale", 1.0);
    f->fill = ckm_i_op_attr_double(v->op, "fill", 0.0);
    f->rate = ckm_i_op_attr_double(v->op, "rate", 0.0);
    f->key = ckm_i_op_attr_int(v->op, "key", 0, 0);
    if (!(f->rate >= 0.0 && f->rate <= 1.0)) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its dropout rate is %g; it must be from 0 to 1", f->rate);
    }
    return CKM_OK;
}

ckm_status ckm_i_attention_read(const ckm_i_op_view *v, int32_t first, ckm_i_attention_form *out, ckm_error *err)
{
    static const char *const names[3] = {"q", "k", "v"};
    int64_t by_position[4];
    operand o[3];
    CKM_I_CHECK(ckm_i_op_list(v, "by_position", 4, 0, 1, 0, by_position, err));
    for (int32_t i = 0; i < 3; i++) {
        CKM_I_CHECK(ckm_i_op_check_rank(v, first + i, AXES, AXES, err));
        o[i] = operand_of(&v->in[first + i]->shape, by_position[i] != 0);
        if (v->in[first + i]->dtype != CKM_F32) {
            return ckm_i_op_error(v, err, CKM_ERR_UNSUPPORTED, "its %s must be float32", names[i]);
        }
    }
    const int64_t *q = o[0].dims;
    const int64_t *k = o[1].dims;
    const int64_t *value = o[2].dims;
    if (k[BATCH] != q[BATCH] || k[SIZE] != q[SIZE] || k[HEAD] < 1 || k[POSITION] < 1 || k[SIZE] < 1 ||
        q[HEAD] % k[HEAD] != 0) {
        return refuse(v, first + CKM_I_ATTENTION_K, "k", err);
    }
    if (value[BATCH] != k[BATCH] || value[HEAD] != k[HEAD] || value[POSITION] != k[POSITION]) {
        return refuse(v, first + CKM_I_ATTENTION_V, "v", err);
    }
    ckm_shape y = {AXES, {q[BATCH], q[HEAD], q[POSITION], value[SIZE]}};
    if (by_position[3] != 0) {
        y = (ckm_shape){AXES, {q[BATCH], q[POSITION], q[HEAD], value[SIZE]}};
    }
    ckm_i_attention_form f = {.batch = q[BATCH],
                              .heads = q[HEAD],
                              .kv_heads = k[HEAD],
                              .queries = q[POSITION],
                              .keys = k[POSITION],
                              .size = q[SIZE],
                              .value_size = value[SIZE],
                              .q = o[0].strides,
                              .k = o[1].strides,
                              .v = o[2].strides,
                              .y = operand_of(&y, by_position[3] != 0).strides};
    CKM_I_CHECK(read_rest(v, first, &f, err));
    *out = f;
    return CKM_OK;
}

// Shapes of y and of the kept numbers, one a row of scores.
static ckm_status result_shapes(const ckm_i_op_view *v, const ckm_i_attention_form *f, ckm_shape *y, ckm_shape *rows,
                                ckm_error *err)
{
    int64_t by_position[4];
    CKM_I_CHECK(ckm_i_op_list(v, "by_position", 4, 0, 1, 0, by_position, err));
    bool swapped = by_position[3] != 0;
    *y = (ckm_shape){AXES, {f->batch, swapped ? f->queries : f->heads, swapped ? f->heads : f->queries, f->value_size}};
    *rows = (ckm_shape){3, {f->batch, f->heads, f->queries}};
    return CKM_OK;
}

// q, k, v, [bias], [mask] -> y, lse
static ckm_status forward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_i_attention_form f;
    ckm_shape results[2];
    CKM_I_CHECK(ckm_i_attention_read(v, 0, &f, err));
    CKM_I_CHECK(result_shapes(v, &f, &results[0], &results[1], err));
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        shapes[i] = results[i];
        dtypes[i] = CKM_F32;
    }
    return CKM_OK;
}

// dy, y, lse, q, k, v, [bias], [mask] -> dq, dk, dv, [dbias]
static ckm_status backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_i_attention_form f;
    ckm_shape y;
    ckm_shape rows;
    CKM_I_CHECK(ckm_i_attention_read(v, CKM_I_ATTENTION_GRADIENTS, &f, err));
    CKM_I_CHECK(result_shapes(v, &f, &y, &rows, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 0, &y, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &y, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 2, &rows, err));
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        if (i == CKM_I_ATTENTION_BIAS && !f.bias.present) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "there is no bias to give a gradient");
        }
        shapes[i] = v->in[CKM_I_ATTENTION_GRADIENTS + i]->shape;
        dtypes[i] = CKM_F32;
    }
    return CKM_OK;
}

// For every query and key that see each other `sizes` times the size and `values` times value_size and one more for each
// of `rest`; `per_row` for every row of scores.
static ckm_status count(const ckm_i_op_view *v, const ckm_i_attention_form *f, int64_t sizes, int64_t values,
                        int64_t rest, int64_t per_row, int64_t *macs, ckm_error *err)
{
    int64_t pairs = 0;
    int64_t rows = 0;
    int64_t per_pair = 0;
    int64_t of_values = 0;
    bool fits = ckm_i_mul(f->queries, f->keys, &pairs) && ckm_i_mul(sizes, f->size, &per_pair) &&
                ckm_i_mul(values, f->value_size, &of_values) && ckm_i_add(per_pair, of_values, &per_pair) &&
                ckm_i_add(per_pair, rest, &per_pair);
    if (f->hides == CKM_I_ATTENTION_CAUSAL) {
        pairs -= f->queries * (f->queries - 1) / 2;  // query q sees all but the last queries - 1 - q
    }
    fits = fits && ckm_i_mul(pairs, per_pair, &pairs) && ckm_i_mul(f->queries, per_row, &rows) &&
           ckm_i_add(pairs, rows, &pairs) && ckm_i_mul(pairs, f->batch * f->heads, &pairs);
    if (!fits) {
        return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
    }
    *macs = pairs;
    return CKM_OK;
}

// A score, a softmax's one and a share in y for every pair.
static ckm_status forward_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    ckm_i_attention_form f;
    CKM_I_CHECK(ckm_i_attention_read(v, 0, &f, err));
    return count(v, &f, 1, 1, 1, 0, macs, err);
}

// Scores and probabilities again, their gradients, and shares in dq, dk and dv for every pair; dy y' for every row.
static ckm_status backward_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    ckm_i_attention_form f;
    CKM_I_CHECK(ckm_i_attention_read(v, CKM_I_ATTENTION_GRADIENTS, &f, err));
    return count(v, &f, 3, 2, 2, f.value_size, macs, err);
}

const ckm_i_op_class ckm_i_ops_attention[] = {
    {CKM_I_OP(attention, 3, CKM_I_ATTENTION_OPERANDS, 2, forward_infer, forward_macs), CKM_I_OP_PLAIN(PRODUCT, NONE),
     .lower = ckm_i_lower_attention, CKM_I_OP_LEARNS(ckm_i_grad_of_attention)},
    {CKM_I_OP(attention_backward, CKM_I_ATTENTION_GRADIENTS + 3, CKM_I_ATTENTION_GRADIENTS + CKM_I_ATTENTION_OPERANDS,
              4, backward_infer, backward_macs),
     CKM_I_OP_PLAIN(PRODUCT, NONE), CKM_I_OP_BEHIND_LOSS},
    {0},
};
