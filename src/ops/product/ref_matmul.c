// SPDX-License-Identifier: Apache-2.0
// Products of two computed operands: batched matmul, gemm, and Einstein sums. Their gradients are products too.
#include <string.h>

#include "run/cpu/ref_gemm.h"
#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// An operand as batches of matrices; a vector is a row (left) or a column (right).
typedef struct operand {
    ckm_shape batch;
    int64_t size;  // of one matrix
    int64_t rows, columns;
    ckm_i_ref_matrix matrix;
} operand;

static operand read_operand(const ckm_i_ref_op *r, int32_t i, const char *transposed)
{
    const ckm_shape *shape = &ckm_i_ref_in(r, i)->shape;
    operand o = {.batch = *shape, .matrix = {.data = ckm_i_ref_input(r, i)}};
    if (shape->rank == 1) {
        o.batch.rank = 0;
        o.rows = i == 0 ? 1 : shape->dims[0];
        o.columns = i == 0 ? shape->dims[0] : 1;
    } else {
        o.batch.rank -= 2;
        o.rows = shape->dims[shape->rank - 2];
        o.columns = shape->dims[shape->rank - 1];
    }
    o.size = o.rows * o.columns;
    o.matrix.row = o.columns;
    o.matrix.column = 1;
    if (ckm_i_op_attr_int(r->op, transposed, 0, 0) != 0 && shape->rank > 1) {
        int64_t rows = o.rows;
        o.rows = o.columns;
        o.columns = rows;
        o.matrix.column = o.matrix.row;
        o.matrix.row = 1;
    }
    return o;
}

// inputs a, b; attributes trans_a, trans_b
static ckm_status matmul(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    operand a = read_operand(&r, 0, "trans_a");
    operand b = read_operand(&r, 1, "trans_b");
    float *y = ckm_i_ref_output(&r, 0);
    const ckm_shape *out = &ckm_i_ref_out(&r, 0)->shape;
    ckm_shape batch = *out;
    batch.rank = a.batch.rank > b.batch.rank ? a.batch.rank : b.batch.rank;
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&batch);
    ckm_i_ref_walk_add(&w, &a.batch);
    ckm_i_ref_walk_add(&w, &b.batch);
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            ckm_i_ref_matrix ma = a.matrix;
            ckm_i_ref_matrix mb = b.matrix;
            ma.data += (w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0)) * a.size;
            mb.data += (w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1)) * b.size;
            ckm_i_ref_gemm(a.rows, b.columns, a.columns, ma, mb, y, b.columns, false);
            y += a.rows * b.columns;
        }
    }
    return CKM_OK;
}

// inputs a, b, [c]; attributes trans_a, trans_b, alpha, beta
static ckm_status gemm(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    operand a = read_operand(&r, 0, "trans_a");
    operand b = read_operand(&r, 1, "trans_b");
    float alpha = (float)ckm_i_op_attr_double(r.op, "alpha", 1.0);
    float beta = (float)ckm_i_op_attr_double(r.op, "beta", 1.0);
    float *y = ckm_i_ref_output(&r, 0);
    ckm_i_ref_gemm(a.rows, b.columns, a.columns, a.matrix, b.matrix, y, b.columns, false);
    for (int64_t i = 0; alpha != 1.0F && i < a.rows * b.columns; i++) {
        y[i] *= alpha;
    }
    const float *c = ckm_i_ref_input(&r, 2);
    if (c == NULL) {
        return CKM_OK;
    }
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&ckm_i_ref_out(&r, 0)->shape);
    ckm_i_ref_walk_add(&w, &ckm_i_ref_out(&r, 0)->shape);
    ckm_i_ref_walk_add(&w, &ckm_i_ref_in(&r, 2)->shape);
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        int64_t stride = ckm_i_ref_row_stride(&w, 1);
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            y[w.offsets[0] + j] += beta * c[w.offsets[1] + j * stride];
        }
    }
    return CKM_OK;
}

// ---- einsum

enum { MAX_TERMS = 8, MAX_LETTERS = 32 };

typedef struct einsum_plan {
    int32_t n_terms, n_letters, n_free;  // letters of the result come first
    char letters[MAX_LETTERS];
    int64_t sizes[MAX_LETTERS];
    int64_t strides[MAX_TERMS][MAX_LETTERS];
    const float *terms[MAX_TERMS];
} einsum_plan;

static int32_t find_letter(einsum_plan *p, char letter)
{
    for (int32_t i = 0; i < p->n_letters; i++) {
        if (p->letters[i] == letter) {
            return i;
        }
    }
    p->letters[p->n_letters] = letter;
    p->sizes[p->n_letters] = 1;
    return p->n_letters++;
}

static void plan_einsum(const ckm_i_ref_op *r, einsum_plan *p)
{
    const char *at = ckm_i_op_attr_text(r->op, "equation", "->");
    const char *arrow = strstr(at, "->");
    for (const char *result = arrow + 2; *result != '\0'; result++) {
        (void)find_letter(p, *result);
    }
    p->n_free = p->n_letters;
    p->n_terms = r->op->n_inputs;
    for (int32_t i = 0; i < p->n_terms; i++, at++) {
        const ckm_shape *shape = &ckm_i_ref_in(r, i)->shape;
        int64_t strides[CKM_MAX_RANK] = {0};
        ckm_i_ref_strides(shape, strides);
        p->terms[i] = ckm_i_ref_input(r, i);
        for (int32_t axis = 0; axis < shape->rank; axis++, at++) {
            int32_t letter = find_letter(p, *at);
            if (shape->dims[axis] > 1) {
                p->sizes[letter] = shape->dims[axis];
                p->strides[i][letter] += strides[axis];
            }
        }
    }
}

// Moves to the next combination of letters [first, last); false after the last one.
static bool advance(const einsum_plan *p, int32_t first, int32_t last, int64_t *at, int64_t *offsets)
{
    for (int32_t l = last - 1; l >= first; l--) {
        bool wraps = ++at[l] == p->sizes[l];
        for (int32_t i = 0; i < p->n_terms; i++) {
            offsets[i] += wraps ? -p->strides[i][l] * (p->sizes[l] - 1) : p->strides[i][l];
        }
        if (!wraps) {
            return true;
        }
        at[l] = 0;
    }
    return false;
}

// Every combination of the letters one by one.
static void sum_combinations(const einsum_plan *p, float *y)
{
    int64_t at[MAX_LETTERS] = {0};
    int64_t offsets[MAX_TERMS] = {0};
    do {
        double sum = 0.0;
        do {
            double product = 1.0;
            for (int32_t i = 0; i < p->n_terms; i++) {
                product *= (double)p->terms[i][offsets[i]];
            }
            sum += product;
        } while (advance(p, p->n_free, p->n_letters, at, offsets));
        *y++ = (float)sum;
    } while (advance(p, 0, p->n_free, at, offsets));
}

// Two terms as matrix products: one letter of each of these kinds is the product's, the rest are loops around it.
typedef struct einsum_product {
    int32_t rows, columns, inner;  // letters, -1: none
} einsum_product;

enum { IN_FIRST = 1, IN_SECOND = 2, IN_RESULT = 4 };

static int letter_use(const einsum_plan *p, int32_t letter)
{
    return (p->strides[0][letter] != 0 ? IN_FIRST : 0) | (p->strides[1][letter] != 0 ? IN_SECOND : 0) |
           (letter < p->n_free ? IN_RESULT : 0);
}

// The largest letter of this use.
static int32_t largest_letter(const einsum_plan *p, int use)
{
    int32_t best = -1;
    for (int32_t l = 0; l < p->n_letters; l++) {
        if (letter_use(p, l) == use && (best < 0 || p->sizes[l] > p->sizes[best])) {
            best = l;
        }
    }
    return best;
}

// The last letter of the result becomes the columns: it must be in only one of the terms, which then is the
// second one.
static bool find_product(einsum_plan *p, einsum_product *m)
{
    if (p->n_terms != 2 || p->n_free == 0) {
        return false;
    }
    m->columns = p->n_free - 1;
    if (letter_use(p, m->columns) == (IN_FIRST | IN_RESULT)) {
        const float *term = p->terms[0];
        p->terms[0] = p->terms[1];
        p->terms[1] = term;
        for (int32_t l = 0; l < p->n_letters; l++) {
            int64_t stride = p->strides[0][l];
            p->strides[0][l] = p->strides[1][l];
            p->strides[1][l] = stride;
        }
    }
    m->rows = largest_letter(p, IN_FIRST | IN_RESULT);
    m->inner = largest_letter(p, IN_FIRST | IN_SECOND);
    return letter_use(p, m->columns) == (IN_SECOND | IN_RESULT);
}

// Size of a letter, and its stride in a term; the letter is no loop any more.
static int64_t take_letter(einsum_plan *p, int32_t letter)
{
    int64_t size = letter < 0 ? 1 : p->sizes[letter];
    if (letter >= 0) {
        p->sizes[letter] = 1;
    }
    return size;
}

static int64_t stride_of(const einsum_plan *p, int32_t term, int32_t letter)
{
    return letter < 0 ? 0 : p->strides[term][letter];
}

static void sum_products(einsum_plan *p, const einsum_product *m, float *y)
{
    int64_t at[MAX_LETTERS] = {0};
    int64_t offsets[MAX_TERMS] = {0};
    int64_t stride = 1;
    for (int32_t l = p->n_free - 1; l >= 0; l--) {  // the result takes part as a third term
        p->strides[2][l] = stride;
        stride *= p->sizes[l];
    }
    p->n_terms = 3;
    int64_t rows = take_letter(p, m->rows);
    int64_t columns = take_letter(p, m->columns);
    int64_t inner = take_letter(p, m->inner);
    do {
        bool accumulate = false;
        do {
            ckm_i_ref_matrix a = {p->terms[0] + offsets[0], stride_of(p, 0, m->rows), stride_of(p, 0, m->inner)};
            ckm_i_ref_matrix b = {p->terms[1] + offsets[1], stride_of(p, 1, m->inner), stride_of(p, 1, m->columns)};
            ckm_i_ref_gemm(rows, columns, inner, a, b, y + offsets[2], stride_of(p, 2, m->rows), accumulate);
            accumulate = true;
        } while (advance(p, p->n_free, p->n_letters, at, offsets));
    } while (advance(p, 0, p->n_free, at, offsets));
}

// inputs: up to 8 terms; attribute equation
static ckm_status einsum(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    einsum_plan p = {0};
    einsum_product m;
    plan_einsum(&r, &p);
    if (find_product(&p, &m)) {
        sum_products(&p, &m, ckm_i_ref_output(&r, 0));
    } else {
        sum_combinations(&p, ckm_i_ref_output(&r, 0));
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_matmul[] = {
    {CKM_I_OP_matmul, NULL, matmul},
    {CKM_I_OP_gemm, NULL, gemm},
    {CKM_I_OP_einsum, NULL, einsum},
    {0},
};
