// SPDX-License-Identifier: Apache-2.0
// Ascending order for qsort.
#ifndef CKM_SRC_BASE_COMPARE_H
#define CKM_SRC_BASE_COMPARE_H

#include <stdint.h>

static inline int ckm_i_compare_int32(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static inline int ckm_i_compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
