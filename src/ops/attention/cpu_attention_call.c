// SPDX-License-Identifier: Apache-2.0
// What the forward and the backward pass share: operands, and which keys a query sees.
#include "ops/attention/cpu_attention.h"
#include "ops/attention/ref_attention.h"
#include "ops/training/ref_dropout.h"

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t ckm_i_cpu_attention_seen(const ckm_i_attention_form *f, int64_t query_end, int64_t key, int64_t keys)
{
    if (f->hides != CKM_I_ATTENTION_CAUSAL) {
        return keys;
    }
    int64_t seen = query_end + f->keys - f->queries - key;
    return seen < 0 ? 0 : least(seen, keys);
}

ckm_i_cpu_attention_call ckm_i_cpu_attention_open(const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                                                  int32_t first)
{
    const ckm_i_cpu_attention_plan *p = kernel->data;
    const ckm_i_attention_form *f = &p->f;
    return (ckm_i_cpu_attention_call){
        .p = p,
        .q = call->inputs[first + CKM_I_ATTENTION_Q],
        .k = call->inputs[first + CKM_I_ATTENTION_K],
        .v = call->inputs[first + CKM_I_ATTENTION_V],
        .bias = f->bias.present ? call->inputs[first + CKM_I_ATTENTION_BIAS] : NULL,
        .mask = f->mask.present ? call->inputs[first + CKM_I_ATTENTION_MASK] : NULL,
        .stream = ckm_i_ref_dropout_stream(call->seed, call->batch, f->key),
        .threshold = ckm_i_ref_dropout_threshold(f->rate),
        .keep = f->rate < 1.0 ? (float)(1.0 / (1.0 - f->rate)) : 0.0F,
    };
}
