// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix products. A tile's sums stay in registers from the first product to the last; what it reads lies in
// the caches, packed by the caller. Every lane of every column is summed by itself and in order, so the result does not
// depend on how a product is cut into tiles, but for where sums are cut.
#include "run/cpu/cpu_tile.h"

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

// Lanes are addressed from every third one, which takes a third of the registers.
#define UNROLL _Pragma("GCC unroll 16")
#define TILE(name, target, vector, width, n, LOAD, STORE, SPREAD, ADD_PRODUCT, ADD, ZERO) \
    target static void name##_##n(const ckm_i_cpu_tile *t)                                \
    {                                                                                     \
        vector s[n][2];                                                                   \
        const float *b = t->b;                                                            \
        const int64_t lane = t->lane;                                                     \
        const int64_t step = t->step;                                                     \
        const int64_t b_step = t->b_step;                                                 \
        UNROLL for (int i = 0; i < (n); i++)                                              \
        {                                                                                 \
            s[i][0] = ZERO;                                                               \
            s[i][1] = ZERO;                                                               \
            __builtin_prefetch(t->c + i * t->c_step, 1);                                  \
            __builtin_prefetch(t->c + i * t->c_step + 2 * (width)-1, 1);                  \
        }                                                                                 \
        for (int64_t g = 0; g < t->groups; g++) {                                         \
            for (int64_t r = 0; r < t->rows; r++) {                                       \
                const float *a[((n) + 2) / 3];                                            \
                UNROLL for (int i = 0; i < (n); i += 3)                                   \
                {                                                                         \
                    a[i / 3] = t->a + g * t->group_step + r * t->row_step + i * lane;     \
                }                                                                         \
                for (int64_t k = 0; k < t->depth; k++) {                                  \
                    const vector b0 = LOAD(b);                                            \
                    const vector b1 = LOAD(b + (width));                                  \
                    UNROLL for (int i = 0; i < (n); i++)                                  \
                    {                                                                     \
                        const vector x = SPREAD(a[i / 3][i % 3 * lane]);                  \
                        s[i][0] = ADD_PRODUCT(x, b0, s[i][0]);                            \
                        s[i][1] = ADD_PRODUCT(x, b1, s[i][1]);                            \
                    }                                                                     \
                    UNROLL for (int i = 0; i < (n); i += 3)                               \
                    {                                                                     \
                        a[i / 3] += step;                                                 \
                    }                                                                     \
                    b += b_step;                                                          \
                }                                                                         \
            }                                                                             \
        }                                                                                 \
        UNROLL for (int i = 0; i < (n); i++)                                              \
        {                                                                                 \
            float *c = t->c + i * t->c_step;                                              \
            if (t->start != NULL) {                                                       \
                const float *start = t->start + i * t->start_step;                        \
                s[i][0] = ADD(s[i][0], LOAD(start));                                      \
                s[i][1] = ADD(s[i][1], LOAD(start + (width)));                            \
            }                                                                             \
            STORE(c, s[i][0]);                                                            \
            STORE(c + (width), s[i][1]);                                                  \
        }                                                                                 \
    }

#define UP_TO_6(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define UP_TO_12(X) UP_TO_6(X) X(7) X(8) X(9) X(10) X(11) X(12)

#ifdef __x86_64__

#define PRODUCT_SSE(x, y, sum) _mm_add_ps(_mm_mul_ps(x, y), sum)
#define PRODUCT_AVX(x, y, sum) _mm256_add_ps(_mm256_mul_ps(x, y), sum)
#define SSE(n)                                                                                          \
    TILE(tile_basic, , __m128, 4, n, _mm_loadu_ps, _mm_storeu_ps, _mm_set1_ps, PRODUCT_SSE, _mm_add_ps, \
         _mm_setzero_ps())
#define AVX(n)                                                                                                      \
    TILE(tile_avx, __attribute__((target("avx"))), __m256, 8, n, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, \
         PRODUCT_AVX, _mm256_add_ps, _mm256_setzero_ps())
#define AVX2(n)                                                                                           \
    TILE(tile_avx2, __attribute__((target("avx2,fma"))), __m256, 8, n, _mm256_loadu_ps, _mm256_storeu_ps, \
         _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_setzero_ps())
#define AVX512(n)                                                                                           \
    TILE(tile_avx512, __attribute__((target("avx512f"))), __m512, 16, n, _mm512_loadu_ps, _mm512_storeu_ps, \
         _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_setzero_ps())
UP_TO_6(SSE)
UP_TO_6(AVX)
UP_TO_6(AVX2)
UP_TO_12(AVX512)

#else

// Vectors of four as the compiler makes them for any processor.
typedef float four __attribute__((vector_size(16)));

static inline four load_four(const float *from)
{
    four value;
    memcpy(&value, from, sizeof value);
    return value;
}

static inline void store_four(float *to, four value)
{
    memcpy(to, &value, sizeof value);
}

#define SPREAD_FOUR(x) ((four){(x), (x), (x), (x)})
#define PRODUCT_FOUR(x, y, sum) ((x) * (y) + (sum))
#define ADD_FOUR(x, y) ((x) + (y))
#define FOUR(n) \
    TILE(tile_basic, , four, 4, n, load_four, store_four, SPREAD_FOUR, PRODUCT_FOUR, ADD_FOUR, SPREAD_FOUR(0.0F))
UP_TO_6(FOUR)

#endif

#define ENTRY_BASIC(n) tile_basic_##n,
static void (*const basic_run[])(const ckm_i_cpu_tile *) = {NULL, UP_TO_6(ENTRY_BASIC)};
static const ckm_i_cpu_tiles basic = {.lanes = 6, .columns = 8, .depth = 256, .run = basic_run};

#ifdef __x86_64__
#define ENTRY_AVX(n) tile_avx_##n,
#define ENTRY_AVX2(n) tile_avx2_##n,
#define ENTRY_AVX512(n) tile_avx512_##n,
static void (*const avx_run[])(const ckm_i_cpu_tile *) = {NULL, UP_TO_6(ENTRY_AVX)};
static void (*const avx2_run[])(const ckm_i_cpu_tile *) = {NULL, UP_TO_6(ENTRY_AVX2)};
static void (*const avx512_run[])(const ckm_i_cpu_tile *) = {NULL, UP_TO_12(ENTRY_AVX512)};
static const ckm_i_cpu_tiles avx = {.lanes = 6, .columns = 16, .depth = 384, .run = avx_run};
static const ckm_i_cpu_tiles avx2 = {.lanes = 6, .columns = 16, .depth = 384, .run = avx2_run};
static const ckm_i_cpu_tiles avx512 = {.lanes = 12, .columns = 32, .depth = 256, .run = avx512_run};
#endif

const ckm_i_cpu_tiles *ckm_i_cpu_tiles_best(void)
{
#ifdef __x86_64__
    // A set includes another when it has all of its bits.
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core) {
        return &avx512;
    }
    if ((isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2) {
        return &avx2;
    }
    if ((isa & dnnl_cpu_isa_avx) == dnnl_cpu_isa_avx) {
        return &avx;
    }
#endif
    return &basic;
}

void ckm_i_cpu_tile_compute(const ckm_i_cpu_tiles *tiles, const ckm_i_cpu_tile *tile, int64_t n, int64_t m)
{
    if (m == tiles->columns) {
        tiles->run[n](tile);
        return;
    }
    float whole[CKM_I_CPU_TILE_MAX_LANES * CKM_I_CPU_TILE_MAX_COLUMNS];
    ckm_i_cpu_tile edge = *tile;
    edge.c = whole;
    edge.c_step = tiles->columns;
    edge.start = NULL;
    tiles->run[n](&edge);
    for (int64_t i = 0; i < n; i++) {
        const float *sum = whole + i * tiles->columns;
        float *c = tile->c + i * tile->c_step;
        if (tile->start == NULL) {
            memcpy(c, sum, (size_t)m * sizeof *c);
            continue;
        }
        const float *start = tile->start + i * tile->start_step;
        for (int64_t j = 0; j < m; j++) {
            c[j] = sum[j] + start[j];
        }
    }
}

int64_t ckm_i_cpu_tile_lanes(const ckm_i_cpu_tiles *tiles, int64_t n)
{
    int64_t parts = (n + tiles->lanes - 1) / tiles->lanes;
    return parts == 0 ? 1 : (n + parts - 1) / parts;
}

// Four numbers of each of four lanes.
static inline void transpose_four(const float *from, int64_t lane, float *to, int64_t width)
{
#ifdef __x86_64__
    __m128 x0 = _mm_loadu_ps(from);
    __m128 x1 = _mm_loadu_ps(from + lane);
    __m128 x2 = _mm_loadu_ps(from + 2 * lane);
    __m128 x3 = _mm_loadu_ps(from + 3 * lane);
    _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
    _mm_storeu_ps(to, x0);
    _mm_storeu_ps(to + width, x1);
    _mm_storeu_ps(to + 2 * width, x2);
    _mm_storeu_ps(to + 3 * width, x3);
#else
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 4; i++) {
            to[k * width + i] = from[i * lane + k];
        }
    }
#endif
}

// One panel of n lanes, each of which lies in one piece.
static void pack_across(const float *from, int64_t lane, int64_t depth, int64_t n, int64_t width, float *to)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        int64_t k = 0;
        for (; k + 4 <= depth; k += 4) {
            transpose_four(from + i * lane + k, lane, to + k * width + i, width);
        }
        for (; k < depth; k++) {
            for (int64_t j = i; j < i + 4; j++) {
                to[k * width + j] = from[j * lane + k];
            }
        }
    }
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t j = i; j < n; j++) {
            to[k * width + j] = from[j * lane + k];
        }
    }
}

enum { AHEAD = 24 };
// Some panels of lanes that lie side by side, together, so that what is read is read in order. Copies are of `whole`
// numbers, a size that the compiler knows where this is called: what is too much, at most one row of the panel, belongs
// to the next row, is there to be read, and is overwritten by its own copy. The last row is copied exactly.
static inline void copy_panels(const float *from, int64_t step, int64_t depth, int64_t panels, int64_t width,
                               size_t whole, float *to)
{
    for (int64_t k = 0; k + 1 < depth; k++) {
        for (int64_t i = 0; i < panels * width; i += 16) {
            __builtin_prefetch(from + (k + AHEAD) * step + i);
        }
        for (int64_t p = 0; p < panels; p++) {
            memcpy(to + (p * depth + k) * width, from + k * step + p * width, whole * sizeof *to);
        }
    }
    for (int64_t p = 0; p < panels; p++) {
        memcpy(to + ((p + 1) * depth - 1) * width, from + (depth - 1) * step + p * width, (size_t)width * sizeof *to);
    }
}

static void pack_panels(const float *from, int64_t step, int64_t depth, int64_t panels, int64_t width, float *to)
{
    int64_t whole = (width + 7) / 8 * 8;
    if (step < whole || whole > 2 * width) {
        whole = width;
    }
    switch (whole) {
    case 1:
        copy_panels(from, step, depth, panels, width, 1, to);
        break;
    case 2:
        copy_panels(from, step, depth, panels, width, 2, to);
        break;
    case 3:
        copy_panels(from, step, depth, panels, width, 3, to);
        break;
    case 8:
        copy_panels(from, step, depth, panels, width, 8, to);
        break;
    case 16:
        copy_panels(from, step, depth, panels, width, 16, to);
        break;
    case 32:
        copy_panels(from, step, depth, panels, width, 32, to);
        break;
    default:
        copy_panels(from, step, depth, panels, width, (size_t)width, to);
        break;
    }
}

// One panel of n lanes side by side, and zeros.
static void pack_edge(const float *from, int64_t step, int64_t depth, int64_t n, int64_t width, float *to)
{
    for (int64_t k = 0; k < depth; k++) {
        for (int64_t i = 0; i < n; i++) {
            to[k * width + i] = from[k * step + i];
        }
    }
}

void ckm_i_cpu_pack(const float *from, int64_t step, int64_t lane, int64_t depth, int64_t n, int64_t width, float *to)
{
    enum { TOGETHER = 16 };
    int64_t panels = n / width;
    int64_t rest = n % width;
    if (depth == 0) {  // there is no last row
        return;
    }
    if (lane == 1 && step == width && n == width) {
        memcpy(to, from, (size_t)(depth * width) * sizeof *to);
        return;
    }
    for (int64_t p = 0; lane == 1 && p < panels; p += TOGETHER) {
        pack_panels(from + p * width, step, depth, p + TOGETHER < panels ? TOGETHER : panels - p, width,
                    to + p * width * depth);
    }
    for (int64_t p = 0; lane != 1 && p < panels; p++) {
        pack_across(from + p * width * lane, lane, depth, width, width, to + p * width * depth);
    }
    if (rest == 0) {
        return;
    }
    from += panels * width * lane;
    to += panels * width * depth;
    if (lane == 1) {
        pack_edge(from, step, depth, rest, width, to);
    } else {
        pack_across(from, lane, depth, rest, width, to);
    }
    for (int64_t k = 0; k < depth; k++) {
        memset(to + k * width + rest, 0, (size_t)(width - rest) * sizeof *to);
    }
}
