// SPDX-License-Identifier: Apache-2.0
#include "run/cpu/cpu_gemm_tile.h"

#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

#define TILE_NAME(x) plain_##x
#define TILE_TARGET
#define TILE_LANES 4
#define TILE_ROWS 4
#define TILE_MADD(a, b, c) ((a) * (b) + (c))
#include "run/cpu/cpu_gemm_tile.inc"

#if defined(__x86_64__)
#include <immintrin.h>

#define TILE_NAME(x) avx2_##x
#define TILE_TARGET __attribute__((target("avx2,fma")))
#define TILE_LANES 8
#define TILE_ROWS 6
#define TILE_MADD(a, b, c) ((VECTOR)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "run/cpu/cpu_gemm_tile.inc"

#define TILE_NAME(x) avx512_##x
#define TILE_TARGET __attribute__((target("avx512f")))
#define TILE_LANES 16
#define TILE_ROWS 8
#define TILE_MADD(a, b, c) ((VECTOR)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "run/cpu/cpu_gemm_tile.inc"
#endif

ckm_i_gemm_level ckm_i_gemm_level_here(void)
{
#if defined(__x86_64__)
    // Levels of oneDNN's are bits that include those below.
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa();
    if ((isa & (unsigned)dnnl_cpu_isa_avx512_core) == (unsigned)dnnl_cpu_isa_avx512_core) {
        return (ckm_i_gemm_level){8, 32, avx512_run_tile};
    }
    if ((isa & (unsigned)dnnl_cpu_isa_avx2) == (unsigned)dnnl_cpu_isa_avx2) {
        return (ckm_i_gemm_level){6, 16, avx2_run_tile};
    }
#endif
    return (ckm_i_gemm_level){4, 8, plain_run_tile};
}
