// SPDX-License-Identifier: Apache-2.0
// Matrix products with memory of the caller's, against sums in double precision: tiles, blocks and slivers that are not
// whole, transposed operands, batches that repeat, operands that are made while they are packed, any number of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/cpu/cpu_gemm.h"

enum { GUARD = 64 };

typedef struct shape {
    int64_t m, n, k;
    bool a_turned, b_turned, biased;
    float alpha;
} shape;

static float *numbers(int64_t n, uint32_t seed)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0F;
    }
    return x;
}

// A workspace of exactly the size asked for, between guards.
typedef struct workspace {
    unsigned char *memory, *begin;
    int64_t bytes;
} workspace;

static workspace open_workspace(const ckm_i_gemm_plan *plan, unsigned char filling)
{
    workspace w = {.bytes = ckm_i_gemm_workspace_bytes(plan)};
    w.memory = malloc((size_t)w.bytes + 3 * GUARD);
    assert_non_null(w.memory);
    memset(w.memory, filling, (size_t)w.bytes + 3 * GUARD);
    w.begin = w.memory + GUARD + (GUARD - (uintptr_t)w.memory % GUARD) % GUARD;
    memset(w.begin - GUARD, 0x5a, GUARD);
    memset(w.begin + w.bytes, 0x5a, GUARD);
    return w;
}

static void close_workspace(workspace *w)
{
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(w->begin[i - GUARD], 0x5a);
        assert_int_equal(w->begin[w->bytes + i], 0x5a);
    }
    free(w->memory);
}

static void run(const ckm_i_gemm *g, const ckm_i_gemm_data *data, int threads, unsigned char filling)
{
    ckm_i_gemm_plan plan = ckm_i_gemm_make_plan(g, threads);
    workspace w = open_workspace(&plan, filling);
    ckm_i_gemm_run(&plan, data, threads, w.begin);
    close_workspace(&w);
}

static void check_shape(const shape *s)
{
    float *a = numbers(s->m * s->k, 1);
    float *b = numbers(s->k * s->n, 2);
    float *bias = numbers(s->n, 3);
    int64_t ldc = s->n + 3;
    float *c = numbers(s->m * ldc, 4);
    float *again = numbers(s->m * ldc, 4);
    ckm_i_gemm g = {.m = s->m, .n = s->n, .k = s->k, .ldc = ldc, .alpha = s->alpha};
    ckm_i_gemm_data data = {.a = a, .b = b, .c = c, .bias = s->biased ? bias : NULL};
    g.a = (ckm_i_gemm_operand){.row = s->a_turned ? 1 : s->k, .column = s->a_turned ? s->m : 1};
    g.b = (ckm_i_gemm_operand){.row = s->b_turned ? 1 : s->n, .column = s->b_turned ? s->k : 1};
    run(&g, &data, 1, 0xff);
    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0;
            double size = 1;
            for (int64_t k = 0; k < s->k; k++) {
                double term = (double)a[i * g.a.row + k * g.a.column] * (double)b[k * g.b.row + j * g.b.column];
                sum += term;
                size += fabs(term);
            }
            sum = sum * (double)s->alpha + (s->biased ? (double)bias[j] : 0.0);
            if (!(fabs(sum - (double)c[i * ldc + j]) <= 2e-6 * size)) {
                fail_msg("%lld x %lld x %lld at (%lld, %lld): %g, not %g", (long long)s->m, (long long)s->n,
                         (long long)s->k, (long long)i, (long long)j, (double)c[i * ldc + j], sum);
            }
        }
    }
    // Any number of threads and any content of the workspace: the same bits; between rows nothing is written.
    for (int threads = 2; threads <= 9; threads += 7) {
        memset(again, 0x7f, (size_t)(s->m * s->n) * sizeof *again);
        for (int64_t i = 0; i < s->m; i++) {
            memcpy(again + i * ldc + s->n, c + i * ldc + s->n, 3 * sizeof *again);
        }
        data.c = again;
        run(&g, &data, threads, 0x11);
        assert_memory_equal(c, again, (size_t)(s->m * ldc) * sizeof *c);
    }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(again);
}

static void test_shapes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 5, 6, 7, 8, 16, 33, 73, 260};
    static const int64_t depths[] = {1, 3, 256, 300};
    enum { N = sizeof sizes / sizeof sizes[0], DEPTHS = sizeof depths / sizeof depths[0] };
    for (int m = 0; m < N; m++) {
        for (int n = 0; n < N; n++) {
            int way = m * N + n;
            shape s = {sizes[m],     sizes[n],     depths[way % DEPTHS],       way % 2 == 1,
                       way % 3 == 1, way % 5 == 0, way % 7 == 0 ? -0.5F : 1.0F};
            check_shape(&s);
            s.a_turned = !s.a_turned;
            s.b_turned = !s.b_turned;
            check_shape(&s);
        }
    }
}

static void test_no_depth(void **state)
{
    (void)state;
    float bias[2] = {3, 4};
    float c[4] = {9, 9, 9, 9};
    ckm_i_gemm g = {.m = 2, .n = 2, .k = 0, .ldc = 2, .alpha = 1};
    g.b.column = 1;
    ckm_i_gemm_data data = {.c = c, .bias = bias};
    run(&g, &data, 2, 0);
    assert_true(c[0] == 3 && c[1] == 4 && c[2] == 3 && c[3] == 4);
    data.bias = NULL;
    run(&g, &data, 2, 0);
    assert_true(c[0] == 0 && c[1] == 0 && c[2] == 0 && c[3] == 0);
}

// 3 x 2 batches of 7 x 5 times 5 x 9; a repeats along the first axis, b along the second.
static void test_batches(void **state)
{
    (void)state;
    enum { M = 7, N = 9, K = 5 };
    float *a = numbers(2 * M * K, 5);
    float *b = numbers(3 * K * N, 6);
    float c[6][M][N];
    ckm_i_gemm g = {.m = M, .n = N, .k = K, .ldc = N, .alpha = 1, .n_axes = 2, .axes = {3, 2}};
    g.a = (ckm_i_gemm_operand){.row = K, .column = 1, .batch_steps = {0, M * K}};
    g.b = (ckm_i_gemm_operand){.row = N, .column = 1, .batch_steps = {K * N, 0}};
    g.c_batch_steps[0] = 2 * M * N;
    g.c_batch_steps[1] = M * N;
    for (int threads = 1; threads <= 3; threads++) {
        memset(c, 0x7f, sizeof c);
        run(&g, &(ckm_i_gemm_data){.a = a, .b = b, .c = &c[0][0][0]}, threads, 0x22);
        for (int t = 0; t < 6; t++) {
            for (int i = 0; i < M; i++) {
                for (int j = 0; j < N; j++) {
                    double sum = 0;
                    for (int k = 0; k < K; k++) {
                        sum += (double)a[t % 2 * M * K + i * K + k] * (double)b[t / 2 * K * N + k * N + j];
                    }
                    assert_true(fabs(sum - (double)c[t][i][j]) < 1e-5);
                }
            }
        }
    }
    free(a);
    free(b);
}

// Element (i, k) is i + 100 k + 10000 batch: nothing of it is in memory.
static void make_numbers(const void *context, int64_t batch, int64_t first, int64_t count, int64_t k0, int64_t depth,
                         int64_t width, float *panel)
{
    assert_int_equal(*(const int *)context, 1);
    assert_true(count >= 1 && count <= width);
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t i = 0; i < width; i++) {
            panel[k * width + i] = i < count ? (float)((first + i) + 100 * (k0 + k) + 10000 * batch) : 0.0F;
        }
    }
}

static void test_made_operands(void **state)
{
    (void)state;
    enum { M = 75, N = 35, K = 3 };
    float c[2][M][N];
    // As many as fit a float exactly, so that any order gives the same sum.
    ckm_i_gemm g = {.m = M, .n = N, .k = K, .ldc = N, .alpha = 1, .n_axes = 1, .axes = {2}, .c_batch_steps = {M * N}};
    g.a.pack = make_numbers;
    g.b.pack = make_numbers;
    static const int context = 1;
    for (int threads = 1; threads <= 4; threads += 3) {
        memset(c, 0x7f, sizeof c);
        run(&g, &(ckm_i_gemm_data){.context = &context, .c = &c[0][0][0]}, threads, 0x33);
        for (int t = 0; t < 2; t++) {
            for (int i = 0; i < M; i++) {
                for (int j = 0; j < N; j++) {
                    double sum = 0;
                    for (int k = 0; k < K; k++) {
                        sum += (double)(i + 100 * k + 10000 * t) * (double)(j + 100 * k + 10000 * t);
                    }
                    assert_true(fabs(sum - (double)c[t][i][j]) <= 1e-6 * sum);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_no_depth),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_made_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
