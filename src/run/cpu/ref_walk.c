// SPDX-License-Identifier: Apache-2.0
// Walking several operands together over one shape: broadcasting, permuting, slicing, and sums over axes.
#include <string.h>

#include "run/cpu/ref_support.h"

void ckm_i_ref_strides(const ckm_shape *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
}

ckm_i_ref_walk ckm_i_ref_walk_over(const ckm_shape *shape)
{
    ckm_i_ref_walk w = {.rank = shape->rank};
    memcpy(w.dims, shape->dims, sizeof w.dims);
    if (w.rank == 0) {  // a scalar is a row of one element
        w.rank = 1;
        w.dims[0] = 1;
    }
    return w;
}

void ckm_i_ref_walk_add_strides(ckm_i_ref_walk *w, const int64_t *strides, int64_t offset)
{
    memcpy(w->strides[w->n], strides, (size_t)w->rank * sizeof *strides);
    w->offsets[w->n] = offset;
    w->n++;
}

void ckm_i_ref_walk_add(ckm_i_ref_walk *w, const ckm_shape *shape)
{
    int64_t own[CKM_MAX_RANK] = {0};
    int64_t strides[CKM_MAX_RANK] = {0};
    ckm_i_ref_strides(shape, own);
    for (int32_t i = 1; i <= shape->rank && i <= w->rank; i++) {
        strides[w->rank - i] = shape->dims[shape->rank - i] == 1 ? 0 : own[shape->rank - i];
    }
    ckm_i_ref_walk_add_strides(w, strides, 0);
}

// Can dimensions i and i + 1 be walked as one?
static bool joins(const ckm_i_ref_walk *w, int32_t i)
{
    for (int32_t k = 0; k < w->n; k++) {
        if (w->strides[k][i] != w->strides[k][i + 1] * w->dims[i + 1]) {
            return false;
        }
    }
    return true;
}

static void drop(ckm_i_ref_walk *w, int32_t i)
{
    for (int32_t d = i; d + 1 < w->rank; d++) {
        w->dims[d] = w->dims[d + 1];
        for (int32_t k = 0; k < w->n; k++) {
            w->strides[k][d] = w->strides[k][d + 1];
        }
    }
    w->rank--;
}

bool ckm_i_ref_walk_start(ckm_i_ref_walk *w)
{
    w->rows_left = 1;
    for (int32_t i = 0; i < w->rank; i++) {
        if (w->dims[i] == 0) {
            return false;
        }
    }
    for (int32_t i = w->rank - 1; i >= 0 && w->rank > 1; i--) {
        if (w->dims[i] == 1) {
            drop(w, i);
        }
    }
    for (int32_t i = w->rank - 2; i >= 0; i--) {
        if (joins(w, i)) {
            w->dims[i + 1] *= w->dims[i];
            drop(w, i);
        }
    }
    for (int32_t i = 0; i + 1 < w->rank; i++) {
        w->rows_left *= w->dims[i];
    }
    memset(w->at, 0, sizeof w->at);
    return true;
}

bool ckm_i_ref_walk_next(ckm_i_ref_walk *w)
{
    if (--w->rows_left <= 0) {
        return false;
    }
    int32_t i = w->rank - 2;
    while (w->at[i] + 1 == w->dims[i]) {
        for (int32_t k = 0; k < w->n; k++) {
            w->offsets[k] -= w->strides[k][i] * w->at[i];
        }
        w->at[i--] = 0;
    }
    w->at[i]++;
    for (int32_t k = 0; k < w->n; k++) {
        w->offsets[k] += w->strides[k][i];
    }
    return true;
}

// n elements of `size` bytes, strides in elements. Called with constant sizes, the copy is one move.
static inline void copy_row(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n, size_t size)
{
    for (int64_t j = 0; j < n; j++) {
        memcpy(to + j * to_stride * (int64_t)size, from + j * from_stride * (int64_t)size, size);
    }
}

void ckm_i_ref_walk_copy(ckm_i_ref_walk *w, void *to, const void *from, int64_t size)
{
    for (bool more = ckm_i_ref_walk_start(w); more; more = ckm_i_ref_walk_next(w)) {
        int64_t n = ckm_i_ref_row_length(w);
        int64_t sa = ckm_i_ref_row_stride(w, 0);
        int64_t sb = ckm_i_ref_row_stride(w, 1);
        char *a = (char *)to + w->offsets[0] * size;
        const char *b = (const char *)from + w->offsets[1] * size;
        if (sa == 1 && sb == 1) {
            memcpy(a, b, (size_t)(n * size));
        } else if (size == 4) {
            copy_row(a, sa, b, sb, n, 4);
        } else if (size == 8) {
            copy_row(a, sa, b, sb, n, 8);
        } else {
            copy_row(a, sa, b, sb, n, (size_t)size);
        }
    }
}

enum { SUM_BLOCK = 256 };

// Sums rows [0, reduced...) of `block` neighbouring elements. The walk has one operand, the reduced axes.
static void sum_block(ckm_i_ref_walk inner, const float *x, int64_t block, float *out)
{
    double sum[SUM_BLOCK] = {0};
    for (bool more = ckm_i_ref_walk_start(&inner); more; more = ckm_i_ref_walk_next(&inner)) {
        int64_t n = ckm_i_ref_row_length(&inner);
        int64_t stride = ckm_i_ref_row_stride(&inner, 0);
        for (int64_t i = 0; i < n; i++) {
            const float *row = x + inner.offsets[0] + i * stride;
            for (int64_t j = 0; j < block; j++) {
                sum[j] += (double)row[j];
            }
        }
    }
    for (int64_t j = 0; j < block; j++) {
        out[j] = (float)sum[j];
    }
}

static double sum_rows(ckm_i_ref_walk inner, const float *x)
{
    double sum = 0.0;
    for (bool more = ckm_i_ref_walk_start(&inner); more; more = ckm_i_ref_walk_next(&inner)) {
        int64_t n = ckm_i_ref_row_length(&inner);
        int64_t stride = ckm_i_ref_row_stride(&inner, 0);
        const float *row = x + inner.offsets[0];
        if (stride == 1) {
            sum += ckm_i_ref_sum(row, n);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            sum += (double)row[i * stride];
        }
    }
    return sum;
}

void ckm_i_ref_sum_to(const ckm_shape *shape, const float *x, const ckm_shape *out_shape, float *out)
{
    // Axes that stay and axes that are summed, each as a walk over x.
    ckm_shape kept = {0};
    ckm_shape summed = {0};
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t kept_strides[CKM_MAX_RANK] = {0};
    int64_t summed_strides[CKM_MAX_RANK] = {0};
    ckm_i_ref_strides(shape, strides);
    for (int32_t i = 0; i < shape->rank; i++) {
        int32_t own = i - (shape->rank - out_shape->rank);
        bool stays = own >= 0 && out_shape->dims[own] == shape->dims[i];
        if (stays) {
            kept_strides[kept.rank] = strides[i];
            kept.dims[kept.rank++] = shape->dims[i];
        } else {
            summed_strides[summed.rank] = strides[i];
            summed.dims[summed.rank++] = shape->dims[i];
        }
    }
    ckm_i_ref_walk outer = ckm_i_ref_walk_over(&kept);
    ckm_i_ref_walk inner = ckm_i_ref_walk_over(&summed);
    ckm_i_ref_walk_add_strides(&outer, kept_strides, 0);
    ckm_i_ref_walk_add_strides(&inner, summed_strides, 0);
    for (bool more = ckm_i_ref_walk_start(&outer); more; more = ckm_i_ref_walk_next(&outer)) {
        int64_t n = ckm_i_ref_row_length(&outer);
        int64_t stride = ckm_i_ref_row_stride(&outer, 0);
        const float *base = x + outer.offsets[0];
        if (stride == 1 && n > 1) {
            for (int64_t j = 0; j < n; j += SUM_BLOCK) {
                sum_block(inner, base + j, n - j < SUM_BLOCK ? n - j : SUM_BLOCK, out + j);
            }
        } else {
            for (int64_t j = 0; j < n; j++) {
                out[j] = (float)sum_rows(inner, base + j * stride);
            }
        }
        out += n;
    }
}

void ckm_i_ref_add_bias(const ckm_shape *shape, int32_t axis, const float *bias, float *y)
{
    int64_t outer = ckm_i_ref_span(shape, 0, axis);
    int64_t channels = shape->dims[axis];
    int64_t inner = ckm_i_ref_span(shape, axis + 1, shape->rank);
    for (int64_t i = 0; i < outer; i++) {
        for (int64_t c = 0; c < channels && inner == 1; c++) {
            y[c] += bias[c];
        }
        for (int64_t c = 0; c < channels && inner > 1; c++) {
            for (int64_t j = 0; j < inner; j++) {
                y[c * inner + j] += bias[c];
            }
        }
        y += channels * inner;
    }
}

void ckm_i_ref_sum_bias(const ckm_shape *shape, int32_t axis, const float *dy, float *dbias)
{
    ckm_shape kept = {.rank = shape->rank};
    for (int32_t i = 0; i < shape->rank; i++) {
        kept.dims[i] = i == axis ? shape->dims[i] : 1;
    }
    ckm_i_ref_sum_to(shape, dy, &kept, dbias);
}
