// SPDX-License-Identifier: Apache-2.0
// What our own threaded loops share: a check of element types, the three-axis view of a tensor around one axis, and
// versions of a hot loop for several instruction sets.
#ifndef CKM_SRC_RUN_CPU_CPU_SUPPORT_H
#define CKM_SRC_RUN_CPU_CPU_SUPPORT_H

#include "run/cpu/cpu_backend.h"
#include "run/cpu/cpu_threads.h"

// A function marked so is compiled for several instruction sets, and the processor's best is chosen when the program
// starts. Sums keep the order in which they are written, so the versions agree but for fused multiply-adds.
// Sanitizers run before the choice can be made. Names of such functions must differ from file to file, static as they
// are: clang 14 gives the function that chooses external linkage.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CKM_I_CPU_NO_CLONES
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CKM_I_CPU_NO_CLONES
#endif
#endif
#if defined(CKM_I_CPU_ONE_LEVEL)  // tests, of what the best one hides
#define CKM_I_CPU_CLONES __attribute__((target(CKM_I_CPU_ONE_LEVEL)))
#elif defined(__x86_64__) && defined(__linux__) && !defined(CKM_I_CPU_NO_CLONES)
#define CKM_I_CPU_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CKM_I_CPU_CLONES
#endif

// Before a loop whose iterations do not depend on each other, so that it is vectorized although pointers may be equal
// (element i of the output over element i of an input). Sums are never left to it.
#define CKM_I_CPU_SIMD _Pragma("omp simd")

// Elements a thread should at least have, so that starting it pays.
#define CKM_I_CPU_GRAIN INT64_C(8192)

// A tensor seen around one axis: outer x axis x inner.
typedef struct ckm_i_cpu_around {
    int64_t outer, axis, inner;
} ckm_i_cpu_around;

static inline ckm_i_cpu_around ckm_i_cpu_view_around(const ckm_shape *shape, int64_t axis)
{
    ckm_i_cpu_around a = {.outer = 1, .axis = 1, .inner = 1};
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i < axis) {
            a.outer *= shape->dims[i];
        } else if (i == axis) {
            a.axis = shape->dims[i];
        } else {
            a.inner *= shape->dims[i];
        }
    }
    return a;
}

// Every present input is single precision; for kinds of at most 64 inputs.
static inline bool ckm_i_cpu_floats(const ckm_i_op_view *v)
{
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        if (v->in[i] != NULL && v->in[i]->dtype != CKM_F32) {
            return false;
        }
    }
    return true;
}

#endif
