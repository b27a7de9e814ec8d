// SPDX-License-Identifier: Apache-2.0
// Products of two tensors, for processors on which oneDNN's take memory from the heap while they run, and are slower.
#include "ops/product/cpu_product.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_gemm.h"

typedef struct bound_product {
    ckm_i_gemm_plan plan;
    int32_t a_input, b_input, bias_input;
} bound_product;

static ckm_status run_product(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const bound_product *p = kernel->data;
    ckm_i_gemm_data data = {.a = call->inputs[p->a_input],
                            .b = call->inputs[p->b_input],
                            .c = call->outputs[0],
                            .bias = p->bias_input >= 0 ? call->inputs[p->bias_input] : NULL};
    ckm_i_gemm_run(&p->plan, &data, cpu->threads, call->workspace);
    return CKM_OK;
}

static ckm_i_gemm_operand operand_of(int32_t rank, const int64_t *dims, const int64_t *strides)
{
    ckm_i_gemm_operand x = {.row = strides[rank - 2], .column = strides[rank - 1]};
    for (int32_t i = 0; i < rank - 2; i++) {
        x.batch_steps[i] = dims[i] > 1 ? strides[i] : 0;
    }
    return x;
}

ckm_status ckm_i_cpu_product_prepare(const ckm_i_cpu *cpu, const ckm_i_cpu_product *product, ckm_i_kernel *kernel,
                                     ckm_error *err)
{
    int32_t rank = product->rank;
    bound_product *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_i_gemm g = {.m = product->c_dims[rank - 2],
                    .n = product->c_dims[rank - 1],
                    .k = product->a_dims[rank - 1],
                    .a = operand_of(rank, product->a_dims, product->a_strides),
                    .b = operand_of(rank, product->b_dims, product->b_strides),
                    .ldc = product->c_dims[rank - 1],
                    .n_axes = rank - 2,
                    .alpha = product->alpha};
    int64_t step = g.m * g.n;
    for (int32_t i = g.n_axes; i-- > 0;) {
        g.axes[i] = product->c_dims[i];
        g.c_batch_steps[i] = step;
        step *= g.axes[i];
    }
    p->plan = ckm_i_gemm_make_plan(&g, cpu->threads);
    p->a_input = product->a_input;
    p->b_input = product->b_input;
    p->bias_input = product->bias_input;
    kernel->data = p;
    kernel->dispose = free;
    kernel->run = run_product;
    kernel->workspace_bytes = ckm_i_gemm_workspace_bytes(&p->plan);
    return CKM_OK;
}
