// SPDX-License-Identifier: Apache-2.0
// Linked with loops compiled for one level of the processor: a machine that has less skips the test.
#include <stdio.h>
#include <stdlib.h>

#ifdef CKM_I_CPU_ONE_LEVEL
__attribute__((constructor)) static void guard(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) {
        puts("SKIP: this processor has less than " CKM_I_CPU_ONE_LEVEL);
        exit(77);
    }
}
#endif
