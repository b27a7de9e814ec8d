// SPDX-License-Identifier: Apache-2.0
// Matrix products of two computed operands: batched and broadcast, and the two-dimensional form with a bias.
#include "base/checked.h"
#include "base/error.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

// Rows, inner and columns of a product, after the transpositions that the attributes ask for.
typedef struct product {
    int64_t rows, inner, inner_b, columns;
} product;

static ckm_status read_product(const ckm_i_op_view *v, const ckm_shape *a, const ckm_shape *b, product *p,
                               ckm_error *err)
{
    int64_t trans_a;
    int64_t trans_b;
    CKM_I_CHECK(ckm_i_op_int(v, "trans_a", 0, 1, 0, &trans_a, err));
    CKM_I_CHECK(ckm_i_op_int(v, "trans_b", 0, 1, 0, &trans_b, err));
    int64_t a0 = a->dims[a->rank - 2];
    int64_t a1 = a->dims[a->rank - 1];
    int64_t b0 = b->dims[b->rank - 2];
    int64_t b1 = b->dims[b->rank - 1];
    *p = (product){trans_a ? a1 : a0, trans_a ? a0 : a1, trans_b ? b1 : b0, trans_b ? b0 : b1};
    if (p->inner != p->inner_b) {
        char ta[256];
        char tb[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "matrices of shape %s%s and %s%s cannot be multiplied",
                              ckm_i_shape_text(a, ta, sizeof ta), trans_a ? " (transposed)" : "",
                              ckm_i_shape_text(b, tb, sizeof tb), trans_b ? " (transposed)" : "");
    }
    return CKM_OK;
}

// A vector takes part as a row (left) or a column (right) and loses that dimension in the result.
static ckm_status infer_matmul(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    for (int32_t i = 0; i < 2; i++) {
        CKM_I_CHECK(ckm_i_op_check_rank(v, i, 1, CKM_MAX_RANK - 1, err));
    }
    ckm_shape a = v->in[0]->shape;
    ckm_shape b = v->in[1]->shape;
    bool row = a.rank == 1;
    bool column = b.rank == 1;
    if (row) {
        a = (ckm_shape){2, {1, a.dims[0]}};
    }
    if (column) {
        b = (ckm_shape){2, {b.dims[0], 1}};
    }
    product p;
    CKM_I_CHECK(read_product(v, &a, &b, &p, err));
    a.rank -= 2;
    b.rank -= 2;
    ckm_shape out;
    CKM_I_CHECK(ckm_i_op_broadcast(v, &a, &b, &out, err));
    if (!row) {
        out.dims[out.rank++] = p.rows;
    }
    if (!column) {
        out.dims[out.rank++] = p.columns;
    }
    out_shapes[0] = out;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status infer_gemm(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    for (int32_t i = 0; i < 2; i++) {
        CKM_I_CHECK(ckm_i_op_check_rank(v, i, 2, 2, err));
    }
    product p;
    CKM_I_CHECK(read_product(v, &v->in[0]->shape, &v->in[1]->shape, &p, err));
    ckm_shape out = {2, {p.rows, p.columns}};
    if (v->op->n_inputs > 2 && v->in[2] != NULL) {
        ckm_shape with_bias;
        CKM_I_CHECK(ckm_i_op_broadcast(v, &out, &v->in[2]->shape, &with_bias, err));
        if (with_bias.rank != 2 || with_bias.dims[0] != out.dims[0] || with_bias.dims[1] != out.dims[1]) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the bias has more elements than the product");
        }
    }
    out_shapes[0] = out;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// The inner dimension per output element.
static ckm_status count_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    const ckm_shape *a = &v->in[0]->shape;
    bool transposed = a->rank > 1 && ckm_i_op_attr_int(v->op, "trans_a", 0, 0) != 0;
    return ckm_i_op_macs_per_output(v, a->dims[a->rank - (transposed ? 2 : 1)], macs, err);
}

const ckm_i_op_class ckm_i_ops_matmul[] = {
    {CKM_I_OP(matmul, 2, 2, 1, infer_matmul, count_macs), CKM_I_OP_TRAITS(PRODUCT, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .every = CKM_I_INIT_GLOROT}, .lower = ckm_i_lower_product,
     CKM_I_OP_LEARNS(ckm_i_grad_of_matmul)},
    {CKM_I_OP(gemm, 2, 3, 1, infer_gemm, count_macs), CKM_I_OP_TRAITS(PRODUCT, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_FACTOR, .of[0] = CKM_I_INIT_GLOROT, .of[1] = CKM_I_INIT_GLOROT},
     .lower = ckm_i_lower_product, CKM_I_OP_LEARNS(ckm_i_grad_of_gemm)},
    {0},
};
