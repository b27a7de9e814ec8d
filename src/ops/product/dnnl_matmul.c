// SPDX-License-Identifier: Apache-2.0
// Matrix products: dense and its weight gradient, gemm, matmul. Operands are taken as they lie, transposed ones by
// their strides: a product reads its weights once, so copying them into another format first would cost as much as it
// saves, and as much memory again. On oneDNN where that does not allocate, else on cpu_product.h.
#include <string.h>

#include "base/error.h"
#include "ops/product/cpu_product.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/dnnl_support.h"

static ckm_status build(const ckm_i_cpu *cpu, const ckm_i_cpu_product *p, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_status status = CKM_OK;
    dnnl_primitive_desc_t pd = NULL;
    ckm_i_dnnl_sequence *sequence = NULL;
    ckm_i_dnnl_product product = {.a = ckm_i_dnnl_plain(p->rank, p->a_dims, p->a_strides),
                                  .b = ckm_i_dnnl_plain(p->rank, p->b_dims, p->b_strides),
                                  .c = ckm_i_dnnl_plain(p->rank, p->c_dims, NULL),
                                  .alpha = p->alpha};
    if (p->bias_input >= 0) {
        product.bias = ckm_i_dnnl_plain(p->rank, p->bias_dims, NULL);
    }
    CKM_I_TRY(ckm_i_dnnl_asked(ckm_i_guard_product(&pd, cpu->engine, &product), err));
    if (pd == NULL || ckm_i_dnnl_allocates(pd)) {
        CKM_I_TRY(ckm_i_cpu_product_prepare(cpu, p, kernel, err));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_dnnl_sequence_create(cpu, &sequence, err));
    const ckm_i_dnnl_arg args[] = {
        {.arg = DNNL_ARG_SRC, .place = CKM_I_DNNL_IN(p->a_input), .plain = &product.a},
        {.arg = DNNL_ARG_WEIGHTS, .place = CKM_I_DNNL_IN(p->b_input), .plain = &product.b},
        {.arg = DNNL_ARG_DST, .place = CKM_I_DNNL_OUT(0), .plain = &product.c},
        {.arg = DNNL_ARG_BIAS, .place = CKM_I_DNNL_IN(p->bias_input), .plain = &product.bias},
    };
    CKM_I_TRY(ckm_i_dnnl_sequence_add(sequence, pd, args, p->bias_input >= 0 ? 4 : 3, err));
    ckm_i_dnnl_sequence_finish(sequence, kernel);
    sequence = NULL;

cleanup:
    ckm_i_dnnl_sequence_free(sequence);
    ckm_i_dnnl_description_free(pd);
    return status;
}

// A two-dimensional operand stored rows x columns, or columns x rows when `transposed`.
static void set_matrix(int64_t rows, int64_t columns, bool transposed, int64_t *dims, int64_t *strides)
{
    dims[0] = rows;
    dims[1] = columns;
    strides[0] = transposed ? 1 : columns;
    strides[1] = transposed ? rows : 1;
}

// Input 0 (rows x inner) times input 1 (inner x columns), each stored transposed or not.
static ckm_i_cpu_product product_of(int64_t rows, int64_t inner, int64_t columns, bool transposed_a, bool transposed_b)
{
    ckm_i_cpu_product p = {.rank = 2,
                           .a_input = 0,
                           .b_input = 1,
                           .bias_input = -1,
                           .alpha = 1,
                           .c_dims = {rows, columns},
                           .bias_dims = {1, columns}};
    set_matrix(rows, inner, transposed_a, p.a_dims, p.a_strides);
    set_matrix(inner, columns, transposed_b, p.b_dims, p.b_strides);
    return p;
}

// ---- dense: the last axis of x times the weight

static ckm_status prepare_dense(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    if (!ckm_i_dnnl_floats(v)) {
        return CKM_OK;
    }
    const ckm_shape *x = &v->in[0]->shape;
    const ckm_shape *y = &ckm_i_dnnl_output(v, 0)->shape;
    int64_t in = x->dims[x->rank - 1];
    int64_t out = y->dims[y->rank - 1];
    bool transposed = ckm_i_op_attr_int(v->op, "transposed", 0, 0) != 0;
    ckm_i_cpu_product p = product_of(ckm_i_elements(x) / in, in, out, false, transposed);
    p.bias_input = ckm_i_dnnl_has_input(v, 2) ? 2 : -1;
    return build(cpu, &p, kernel, err);
}

// dweight = x' dy, or dy' x when the weight is stored O,I.
static ckm_status prepare_dense_weights(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                        ckm_error *err)
{
    if (!ckm_i_dnnl_floats(v)) {
        return CKM_OK;
    }
    const ckm_shape *dy = &v->in[0]->shape;
    const ckm_shape *x = &v->in[1]->shape;
    int64_t in = x->dims[x->rank - 1];
    int64_t out = dy->dims[dy->rank - 1];
    int64_t rows = ckm_i_elements(x) / in;
    bool transposed = ckm_i_op_attr_int(v->op, "transposed", 0, 0) != 0;
    ckm_i_cpu_product p = product_of(transposed ? out : in, rows, transposed ? in : out, true, false);
    p.a_input = transposed ? 0 : 1;
    p.b_input = transposed ? 1 : 0;
    return build(cpu, &p, kernel, err);
}

// ---- convolutions that read one element a window, channels last: dense layers over all positions

static bool is_pointwise(const ckm_i_op_view *v, const ckm_shape *x, const ckm_shape *y, const ckm_shape *weight)
{
    bool one = v->graph->layout == CKM_CHANNELS_LAST && ckm_i_dnnl_floats(v) && x->rank == y->rank &&
               ckm_i_op_attr_int(v->op, "groups", 0, 1) == 1;
    for (int32_t i = 0; one && i < x->rank - 2; i++) {
        // Equal sizes and a kernel of 1 leave no room for strides or padding, unless the size is 1.
        one = weight->dims[i] == 1 && x->dims[1 + i] == y->dims[1 + i] &&
              ckm_i_op_attr_int(v->op, "strides", i, 1) == 1;
    }
    return one;
}

// y = x weight + bias
static ckm_status prepare_pointwise(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    bool taken = is_pointwise(v, &v->in[0]->shape, &ckm_i_dnnl_output(v, 0)->shape, &v->in[1]->shape);
    return taken ? prepare_dense(cpu, v, kernel, err) : CKM_OK;
}

// dx = dy weight'
static ckm_status prepare_pointwise_data(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                         ckm_error *err)
{
    const ckm_shape *dy = &v->in[0]->shape;
    const ckm_shape *dx = &ckm_i_dnnl_output(v, 0)->shape;
    if (!is_pointwise(v, dx, dy, &v->in[1]->shape)) {
        return CKM_OK;
    }
    int64_t out = dy->dims[dy->rank - 1];
    ckm_i_cpu_product p = product_of(ckm_i_elements(dy) / out, out, dx->dims[dx->rank - 1], false, true);
    return build(cpu, &p, kernel, err);
}

// dweight = x' dy
static ckm_status prepare_pointwise_weights(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                            ckm_error *err)
{
    bool taken = is_pointwise(v, &v->in[1]->shape, &v->in[0]->shape, &ckm_i_dnnl_output(v, 0)->shape);
    return taken ? prepare_dense_weights(cpu, v, kernel, err) : CKM_OK;
}

// ---- gemm: two dimensions; a bias that repeats along the rows

static ckm_status prepare_gemm(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    bool bias = ckm_i_dnnl_has_input(v, 2);
    if (!ckm_i_dnnl_floats(v) || v->in[0]->shape.rank != 2 || v->in[1]->shape.rank != 2) {
        return CKM_OK;
    }
    bool trans_a = ckm_i_op_attr_int(v->op, "trans_a", 0, 0) != 0;
    bool trans_b = ckm_i_op_attr_int(v->op, "trans_b", 0, 0) != 0;
    const ckm_shape *a = &v->in[0]->shape;
    const ckm_shape *b = &v->in[1]->shape;
    int64_t rows = a->dims[trans_a ? 1 : 0];
    int64_t inner = a->dims[trans_a ? 0 : 1];
    int64_t columns = b->dims[trans_b ? 0 : 1];
    ckm_i_cpu_product p = product_of(rows, inner, columns, trans_a, trans_b);
    p.alpha = (float)ckm_i_op_attr_double(v->op, "alpha", 1.0);
    p.bias_input = bias ? 2 : -1;
    if (bias) {
        const ckm_shape *c = &v->in[2]->shape;
        bool row = c->rank > 0 && c->dims[c->rank - 1] == columns && ckm_i_elements(c) == columns;
        if (!row || p.alpha != 1.0F || ckm_i_op_attr_double(v->op, "beta", 1.0) != 1.0) {
            return CKM_OK;
        }
    }
    return build(cpu, &p, kernel, err);
}

// ---- matmul: batches broadcast

// Dimensions and strides of an operand with leading axes of 1 up to `rank`, the last two swapped if transposed.
static void set_batched(const ckm_shape *shape, int32_t rank, bool transposed, int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t i = rank; i-- > 0;) {
        int32_t own = i - (rank - shape->rank);
        dims[i] = own >= 0 ? shape->dims[own] : 1;
        strides[i] = stride;
        stride *= dims[i];
    }
    if (transposed) {
        int64_t size = dims[rank - 1];
        dims[rank - 1] = dims[rank - 2];
        dims[rank - 2] = size;
        int64_t step = strides[rank - 1];
        strides[rank - 1] = strides[rank - 2];
        strides[rank - 2] = step;
    }
}

static ckm_status prepare_matmul(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    if (!ckm_i_dnnl_floats(v) || v->in[0]->shape.rank < 2 || v->in[1]->shape.rank < 2) {
        return CKM_OK;
    }
    const ckm_shape *a = &v->in[0]->shape;
    const ckm_shape *b = &v->in[1]->shape;
    const ckm_shape *c = &v->graph->tensors[v->op->outputs[0]].shape;
    bool trans_a = ckm_i_op_attr_int(v->op, "trans_a", 0, 0) != 0;
    ckm_i_cpu_product p = {.rank = c->rank, .a_input = 0, .b_input = 1, .bias_input = -1, .alpha = 1};
    set_batched(a, c->rank, trans_a, p.a_dims, p.a_strides);
    set_batched(b, c->rank, ckm_i_op_attr_int(v->op, "trans_b", 0, 0) != 0, p.b_dims, p.b_strides);
    memcpy(p.c_dims, c->dims, sizeof p.c_dims);
    int64_t b_batches = ckm_i_elements(b) / (b->dims[b->rank - 1] * b->dims[b->rank - 2]);
    if (b_batches == 1 && !trans_a && c->rank > 2 &&
        ckm_i_elements(a) / a->dims[a->rank - 1] * p.c_dims[c->rank - 1] == ckm_i_elements(c)) {
        // One matrix for all batches: one product with many rows.
        int64_t inner = a->dims[a->rank - 1];
        int64_t b_dims[2] = {p.b_dims[c->rank - 2], p.b_dims[c->rank - 1]};
        int64_t b_strides[2] = {p.b_strides[c->rank - 2], p.b_strides[c->rank - 1]};
        p.rank = 2;
        set_matrix(ckm_i_elements(a) / inner, inner, false, p.a_dims, p.a_strides);
        memcpy(p.b_dims, b_dims, sizeof b_dims);
        memcpy(p.b_strides, b_strides, sizeof b_strides);
        p.c_dims[0] = p.a_dims[0];
        p.c_dims[1] = b_dims[1];
    }
    return build(cpu, &p, kernel, err);
}

const ckm_i_cpu_row ckm_i_cpu_matmul[] = {
    {CKM_I_OP_dense, prepare_dense},
    {CKM_I_OP_dense_backward_weights, prepare_dense_weights},
    {CKM_I_OP_gemm, prepare_gemm},
    {CKM_I_OP_matmul, prepare_matmul},
    {CKM_I_OP_conv, prepare_pointwise},
    {CKM_I_OP_conv_backward_data, prepare_pointwise_data},
    {CKM_I_OP_conv_backward_weights, prepare_pointwise_weights},
    {0},
};
