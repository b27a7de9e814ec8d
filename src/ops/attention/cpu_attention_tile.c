// SPDX-License-Identifier: Apache-2.0
// A block of c stays in registers while a's numbers, one at a time, are multiplied with rows of b: 8 rows by 32 columns
// where there are 32 registers of 16 numbers, 6 by 16 where there are 16 of 8, 2 by 16 of 4. This file is compiled with
// multiplications and additions contracted where the processor can (cmake/CheckmateLibrary.cmake).
#include "ops/attention/cpu_attention_tile.h"

#include <oneapi/dnnl/dnnl.h>
#include <string.h>

#define PANEL CKM_I_ATTENTION_PANEL

// As wide as a register: wider ones are split by way of memory.
typedef float lanes4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float lanes8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float lanes16 __attribute__((vector_size(64), aligned(4), may_alias));

#define ALWAYS static inline __attribute__((always_inline))

// `rows` of at most 8 and `wide` of at most 4 vectors are constants where this is called; panels follow each other.
#define BLOCK(lanes)                                                                                                \
    ALWAYS void block_##lanes(const int rows, const int wide, const ckm_i_cpu_attention_product *p, const float *a, \
                              const float *b, float *c)                                                             \
    {                                                                                                               \
        typedef lanes vector;                                                                                       \
        enum { WIDTH = sizeof(vector) / sizeof(float), SPLIT = PANEL / WIDTH };                                     \
        vector sum[8][4];                                                                                           \
        const int64_t inner = p->inner;                                                                             \
        const int64_t a_row = p->a_row;                                                                             \
        const int64_t a_column = p->a_column;                                                                       \
        const int64_t stride = p->panel_stride;                                                                     \
        for (int i = 0; i < rows; i++) {                                                                            \
            for (int j = 0; j < wide; j++) {                                                                        \
                sum[i][j] = (vector){0};                                                                            \
            }                                                                                                       \
        }                                                                                                           \
        for (int64_t k = 0; k < inner; k++) {                                                                       \
            vector right[4];                                                                                        \
            for (int j = 0; j < wide; j++) {                                                                        \
                right[j] = *(const vector *)(b + j / SPLIT * stride + k * PANEL + j % SPLIT * WIDTH);               \
            }                                                                                                       \
            for (int i = 0; i < rows; i++) {                                                                        \
                const float left = a[i * a_row + k * a_column];                                                     \
                for (int j = 0; j < wide; j++) {                                                                    \
                    sum[i][j] += left * right[j];                                                                   \
                }                                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
        for (int i = 0; i < rows; i++) {                                                                            \
            for (int j = 0; j < wide; j++) {                                                                        \
                vector *out = (vector *)(c + i * p->c_row + j * WIDTH);                                             \
                if (p->add) {                                                                                       \
                    sum[i][j] += *out;                                                                              \
                }                                                                                                   \
                *out = sum[i][j];                                                                                   \
            }                                                                                                       \
        }                                                                                                           \
    }

BLOCK(lanes4)
BLOCK(lanes8)
BLOCK(lanes16)

ALWAYS void block(const int width, const int rows, const int panels, const ckm_i_cpu_attention_product *p,
                  const float *a, const float *b, float *c)
{
    if (width == 4) {
        block_lanes4(rows, 4 * panels, p, a, b, c);
    } else if (width == 8) {
        block_lanes8(rows, 2 * panels, p, a, b, c);
    } else {
        block_lanes16(rows, panels, p, a, b, c);
    }
}

// All rows of one or two panels: as many at once as there are registers for, then the rest.
ALWAYS void column(const int width, const int rows, const int panels, const ckm_i_cpu_attention_product *p,
                   int64_t panel)
{
    const float *b = p->b + panel * p->panel_stride;
    float *c = p->c + panel * PANEL;
    int64_t i = 0;
    for (; i + rows <= p->rows; i += rows) {
        block(width, rows, panels, p, p->a + i * p->a_row, b, c + i * p->c_row);
    }
    if (rows > 4 && i + 4 <= p->rows) {
        block(width, 4, panels, p, p->a + i * p->a_row, b, c + i * p->c_row);
        i += 4;
    }
    for (; rows > 2 && i + 2 <= p->rows; i += 2) {
        block(width, 2, panels, p, p->a + i * p->a_row, b, c + i * p->c_row);
    }
    for (; i < p->rows; i++) {
        block(width, 1, panels, p, p->a + i * p->a_row, b, c + i * p->c_row);
    }
}

ALWAYS void multiply(const int width, const int rows, const int panels, const ckm_i_cpu_attention_product *p)
{
    int64_t panel = 0;
    for (; panel + panels <= p->panels; panel += panels) {
        column(width, rows, panels, p, panel);
    }
    for (; panel < p->panels; panel++) {
        column(width, rows, 1, p, panel);
    }
}

static void multiply_plain(const ckm_i_cpu_attention_product *p)
{
    multiply(4, 2, 1, p);
}

#if defined(__x86_64__)
__attribute__((target("avx"))) static void multiply_avx(const ckm_i_cpu_attention_product *p)
{
    multiply(8, 6, 1, p);
}

__attribute__((target("avx2,fma"))) static void multiply_avx2(const ckm_i_cpu_attention_product *p)
{
    multiply(8, 6, 1, p);
}

__attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,fma"))) static void
multiply_avx512(const ckm_i_cpu_attention_product *p)
{
    multiply(16, 8, 2, p);
}
#endif

ckm_i_cpu_attention_multiply *ckm_i_cpu_attention_multiply_at(int level)
{
#if defined(__x86_64__)
    if (level == 1) {
        return __builtin_cpu_supports("avx") ? multiply_avx : NULL;
    }
    if (level == 2) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? multiply_avx2 : NULL;
    }
    if (level == 3) {
        bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
        return has ? multiply_avx512 : NULL;
    }
#endif
    return level == 0 ? multiply_plain : NULL;
}

ckm_i_cpu_attention_multiply *ckm_i_cpu_attention_multiply_best(void)
{
    unsigned allowed = (unsigned)dnnl_get_effective_cpu_isa();
    const unsigned needed[] = {0, dnnl_cpu_isa_avx, dnnl_cpu_isa_avx2, dnnl_cpu_isa_avx512_core};
    ckm_i_cpu_attention_multiply *best = multiply_plain;
    for (int level = 1; level < 4; level++) {
        ckm_i_cpu_attention_multiply *next = ckm_i_cpu_attention_multiply_at(level);
        if (next == NULL || (allowed & needed[level]) != needed[level]) {
            break;
        }
        best = next;
    }
    return best;
}

// A part of a panel as wide as that: zeros behind it.
static void pack_narrow(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < PANEL; k++) {
            to[i * PANEL + k] = k < columns ? from[i * from_row + k] : 0.0F;
        }
    }
}

void ckm_i_cpu_attention_pack(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to)
{
    int64_t first = 0;
    for (; first + PANEL <= columns; first += PANEL, to += rows * PANEL) {
        for (int64_t i = 0; i < rows; i++) {
            memcpy(to + i * PANEL, from + i * from_row + first, PANEL * sizeof *to);
        }
    }
    if (first < columns) {
        pack_narrow(from + first, from_row, rows, columns - first, to);
    }
}

// Four rows and four columns, in registers.
ALWAYS void transpose4(const float *from, int64_t from_row, float *to)
{
    lanes4 a = *(const lanes4 *)from;
    lanes4 b = *(const lanes4 *)(from + from_row);
    lanes4 c = *(const lanes4 *)(from + 2 * from_row);
    lanes4 d = *(const lanes4 *)(from + 3 * from_row);
    lanes4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    lanes4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    lanes4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    lanes4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(lanes4 *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(lanes4 *)(to + PANEL) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(lanes4 *)(to + 2 * PANEL) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(lanes4 *)(to + 3 * PANEL) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

static void transpose_panel(const float *from, int64_t from_row, int64_t columns, float *to)
{
    int64_t k = 0;
    for (; k + 4 <= columns; k += 4) {
        for (int64_t i = 0; i < PANEL; i += 4) {
            transpose4(from + i * from_row + k, from_row, to + k * PANEL + i);
        }
    }
    for (; k < columns; k++) {
        for (int64_t i = 0; i < PANEL; i++) {
            to[k * PANEL + i] = from[i * from_row + k];
        }
    }
}

void ckm_i_cpu_attention_pack_transposed(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to)
{
    int64_t first = 0;
    for (; first + PANEL <= rows; first += PANEL, to += columns * PANEL) {
        transpose_panel(from + first * from_row, from_row, columns, to);
    }
    if (first < rows) {
        memset(to, 0, (size_t)(columns * PANEL) * sizeof *to);
        for (int64_t i = first; i < rows; i++) {
            for (int64_t k = 0; k < columns; k++) {
                to[k * PANEL + i - first] = from[i * from_row + k];
            }
        }
    }
}
