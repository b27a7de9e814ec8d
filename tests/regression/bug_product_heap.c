// SPDX-License-Identifier: Apache-2.0
// oneDNN's matrix products for processors without AVX-512 pack their operands into buffers from the heap in every run,
// memory that no budget counted. Here the processor is capped at AVX2 and every aligned allocation is counted while
// products and weight gradients run.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "kernel_script.h"

static atomic_int allocations;

int posix_memalign(void **out, size_t alignment, size_t size);

// oneDNN takes its buffers with this function; the program's own goes before the C library's.
int posix_memalign(void **out, size_t alignment, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    *out = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    return *out == NULL ? ENOMEM : 0;
}

static void *zeros(size_t bytes)
{
    size_t rounded = (bytes + 63) / 64 * 64;
    void *block = aligned_alloc(64, rounded);
    assert_non_null(block);
    memset(block, 0, rounded);
    return block;
}

static void *tensor(const ckm_graph *graph, int32_t t)
{
    return zeros((size_t)ckm_i_elements(&graph->tensors[t].shape) * sizeof(float));
}

// The allocations of one run of the script's only operator, after a first that may set things up.
static int count(const char *text, int threads)
{
    kernel_script s;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_backend *backend = NULL;
    ckm_i_kernel *kernel = NULL;
    int64_t workspace_bytes = 0;
    kernel_script_read(&s, text, CKM_CHANNELS_LAST);
    assert_int_equal(ckm_i_backend_create("cpu", threads, &backend, &err), CKM_OK);
    assert_int_equal(backend->prepare(backend, s.graph, 0, &kernel, &workspace_bytes, &err), CKM_OK);
    const ckm_i_graph_op *op = &s.graph->ops[0];
    void *inputs[4] = {NULL};
    void *outputs[1] = {tensor(s.graph, op->outputs[0])};
    for (int32_t i = 0; i < op->n_inputs; i++) {
        inputs[i] = tensor(s.graph, op->inputs[i]);
    }
    void *workspace = zeros((size_t)workspace_bytes + 64);
    const void *read[4] = {inputs[0], inputs[1], inputs[2], inputs[3]};
    ckm_i_kernel_call call = {.inputs = read, .outputs = outputs, .workspace = workspace};
    assert_int_equal(backend->run(backend, kernel, &call, &err), CKM_OK);
    int before = atomic_load(&allocations);
    assert_int_equal(backend->run(backend, kernel, &call, &err), CKM_OK);
    int n = atomic_load(&allocations) - before;
    free(workspace);
    free(outputs[0]);
    for (int32_t i = 0; i < op->n_inputs; i++) {
        free(inputs[i]);
    }
    backend->free_kernel(backend, kernel);
    ckm_i_backend_destroy(backend);
    kernel_script_free(&s);
    return n;
}

static void test_no_aligned_allocations(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "in 500x300;in 300x200;in 200;gemm 0 1 2",
        "in 500x300;in 200x300;gemm 0 1 trans_b=1",
        "in 2000x64;in 2000x128;dense_backward_weights 0 1 transposed=0",
        "in 6x128x64;in 6x64x128;matmul 0 1",
        "in 2x28x28x32;in 2x28x28x64;conv_backward_weights 0 1 > 1 kernel=3,3 strides=1,1 dilation=1,1 "
        "padding=1,1,1,1 groups=1 weight_shape=3,3,64,32",
        "in 2x28x28x32;in 2x28x28x64;conv_backward_weights 0 1 > 1 kernel=1,1 strides=1,1 dilation=1,1 "
        "padding=0,0,0,0 groups=1 weight_shape=1,1,64,32",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        for (int threads = 1; threads <= 2; threads++) {
            int n = count(scripts[i], threads);
            if (n != 0) {
                fail_msg("%s, %d threads: %d aligned allocations in a run", scripts[i], threads, n);
            }
        }
    }
}

int main(void)
{
    // Before the first call of oneDNN, which reads it once.
    if (setenv("DNNL_MAX_CPU_ISA", "AVX2", 1) != 0) {
        return 1;
    }
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_aligned_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
