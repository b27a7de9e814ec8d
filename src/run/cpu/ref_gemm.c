// SPDX-License-Identifier: Apache-2.0
// Matrix product: panels of b packed on the stack, tiles of c kept in registers.
#include "run/cpu/ref_gemm.h"

#include <string.h>

enum { TILE_M = 4, TILE_N = 8, PANEL_N = 16, BLOCK_K = 256 };

// b[k0 .. k0 + depth)[j0 .. j0 + width) as rows of PANEL_N, filled up with zeros.
static void pack_panel(ckm_i_ref_matrix b, int64_t depth, int64_t width, float *panel)
{
    if (width < PANEL_N) {
        memset(panel, 0, (size_t)(depth * PANEL_N) * sizeof *panel);
    }
    if (b.column == 1) {
        for (int64_t k = 0; k < depth; k++) {
            memcpy(panel + k * PANEL_N, b.data + k * b.row, (size_t)width * sizeof *panel);
        }
        return;
    }
    for (int64_t j = 0; j < width; j++) {
        const float *from = b.data + j * b.column;
        for (int64_t k = 0; k < depth; k++) {
            panel[k * PANEL_N + j] = from[k * b.row];
        }
    }
}

static void add_tile(const float sum[TILE_M][TILE_N], int64_t rows, int64_t width, float *c, int64_t ldc, bool add)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < width; j++) {
            c[i * ldc + j] = add ? c[i * ldc + j] + sum[i][j] : sum[i][j];
        }
    }
}

// sum += x b. The loop stays one: unrolled, as gcc -O3 would, it is vectorized a quarter as well.
static inline void add_row(float *sum, float x, const float *b)
{
#pragma GCC unroll 1
    for (int j = 0; j < TILE_N; j++) {
        sum[j] += x * b[j];
    }
}

// Four rows of a by eight columns of the panel.
static void tile_of_four(ckm_i_ref_matrix a, const float *panel, int64_t depth, float sum[TILE_M][TILE_N])
{
    float s0[TILE_N] = {0};
    float s1[TILE_N] = {0};
    float s2[TILE_N] = {0};
    float s3[TILE_N] = {0};
    const float *a0 = a.data;
    const float *a1 = a0 + a.row;
    const float *a2 = a1 + a.row;
    const float *a3 = a2 + a.row;
    for (int64_t k = 0; k < depth; k++) {
        const float *b = panel + k * PANEL_N;
        float x0 = a0[k * a.column];
        float x1 = a1[k * a.column];
        float x2 = a2[k * a.column];
        float x3 = a3[k * a.column];
        add_row(s0, x0, b);
        add_row(s1, x1, b);
        add_row(s2, x2, b);
        add_row(s3, x3, b);
    }
    memcpy(sum[0], s0, sizeof s0);
    memcpy(sum[1], s1, sizeof s1);
    memcpy(sum[2], s2, sizeof s2);
    memcpy(sum[3], s3, sizeof s3);
}

static void tile_of_few(ckm_i_ref_matrix a, int64_t rows, const float *panel, int64_t depth, float sum[TILE_M][TILE_N])
{
    for (int64_t i = 0; i < rows; i++) {
        float s[TILE_N] = {0};
        for (int64_t k = 0; k < depth; k++) {
            float x = a.data[i * a.row + k * a.column];
            add_row(s, x, panel + k * PANEL_N);
        }
        memcpy(sum[i], s, sizeof s);
    }
}

void ckm_i_ref_gemm(int64_t m, int64_t n, int64_t k, ckm_i_ref_matrix a, ckm_i_ref_matrix b, float *c, int64_t ldc,
                    bool accumulate)
{
    float panel[BLOCK_K * PANEL_N];
    float sum[TILE_M][TILE_N];
    if (k == 0 && !accumulate) {
        for (int64_t i = 0; i < m; i++) {
            memset(c + i * ldc, 0, (size_t)n * sizeof *c);
        }
    }
    for (int64_t j = 0; j < n; j += PANEL_N) {
        int64_t width = n - j < PANEL_N ? n - j : PANEL_N;
        for (int64_t p = 0; p < k; p += BLOCK_K) {
            int64_t depth = k - p < BLOCK_K ? k - p : BLOCK_K;
            bool add = accumulate || p > 0;
            pack_panel((ckm_i_ref_matrix){b.data + p * b.row + j * b.column, b.row, b.column}, depth, width, panel);
            for (int64_t i = 0; i < m; i += TILE_M) {
                int64_t rows = m - i < TILE_M ? m - i : TILE_M;
                ckm_i_ref_matrix part = {a.data + i * a.row + p * a.column, a.row, a.column};
                for (int64_t t = 0; t < width; t += TILE_N) {
                    int64_t columns = width - t < TILE_N ? width - t : TILE_N;
                    if (rows == TILE_M) {
                        tile_of_four(part, panel + t, depth, sum);
                    } else {
                        tile_of_few(part, rows, panel + t, depth, sum);
                    }
                    add_tile((const float(*)[TILE_N])sum, rows, columns, c + i * ldc + j + t, ldc, add);
                }
            }
        }
    }
}
