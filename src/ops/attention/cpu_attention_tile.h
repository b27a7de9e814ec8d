// SPDX-License-Identifier: Apache-2.0
// Products of small matrices that lie in a core's cache, without additional memory.
#ifndef CKM_SRC_OPS_ATTENTION_CPU_ATTENTION_TILE_H
#define CKM_SRC_OPS_ATTENTION_CPU_ATTENTION_TILE_H

#include <stdbool.h>
#include <stdint.h>

// The right operand is stored in panels of 16 columns: panel t holds, row by row, columns t * 16 to t * 16 + 15,
// with zeros where there are none.
#define CKM_I_ATTENTION_PANEL 16

static inline int64_t ckm_i_cpu_attention_panels(int64_t columns)
{
    return (columns + CKM_I_ATTENTION_PANEL - 1) / CKM_I_ATTENTION_PANEL;
}

// c = a b, or c += a b. a is rows by inner, element (i, p) at a[i * a_row + p * a_column]; panels of b are
// `panel_stride` apart; c has rows `c_row` apart and 16 columns a panel.
typedef struct ckm_i_cpu_attention_product {
    int64_t rows, inner, panels;
    const float *a;
    int64_t a_row, a_column;
    const float *b;
    int64_t panel_stride;
    float *c;
    int64_t c_row;
    bool add;
} ckm_i_cpu_attention_product;

typedef void ckm_i_cpu_attention_multiply(const ckm_i_cpu_attention_product *p);

// One function an instruction set, from the plainest on; NULL past the last that this processor has.
ckm_i_cpu_attention_multiply *ckm_i_cpu_attention_multiply_at(int level);
// The best of the processor's that oneDNN may use, too: DNNL_MAX_CPU_ISA caps both alike.
ckm_i_cpu_attention_multiply *ckm_i_cpu_attention_multiply_best(void);

// Rows of a matrix, `from_row` apart, as panels with `rows` rows each; panels are rows * 16 apart.
void ckm_i_cpu_attention_pack(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to);
// The same of the transpose: `rows` rows of the matrix become columns of the panels, which have `columns` rows.
void ckm_i_cpu_attention_pack_transposed(const float *from, int64_t from_row, int64_t rows, int64_t columns, float *to);

#endif
