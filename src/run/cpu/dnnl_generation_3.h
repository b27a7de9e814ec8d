// SPDX-License-Identifier: Apache-2.0
// oneDNN 3: a memory descriptor is an object on the heap, and a primitive descriptor is made in one call. C++, for
// dnnl_guard.cpp alone.
#ifndef CKM_SRC_RUN_CPU_DNNL_GENERATION_3_H
#define CKM_SRC_RUN_CPU_DNNL_GENERATION_3_H

#include "run/cpu/dnnl_guard.h"

namespace ckm_i_generation
{

using Borrowed = const_dnnl_memory_desc_t;

inline Borrowed borrowed(const ckm_i_dnnl_format *format)
{
    return reinterpret_cast<Borrowed>(format);
}

class Description
{
  public:
    Description() = default;
    Description(const Description &) = delete;
    Description &operator=(const Description &) = delete;
    ~Description()
    {
        if (desc_ != nullptr) {
            dnnl_memory_desc_destroy(desc_);
        }
    }

    dnnl_status_t describe(const ckm_i_dnnl_tensor &t)
    {
        return t.any ? dnnl_memory_desc_create_with_tag(&desc_, t.rank, t.dims, dnnl_f32, dnnl_format_tag_any)
                     : dnnl_memory_desc_create_with_strides(&desc_, t.rank, t.dims, dnnl_f32, t.strides);
    }
    dnnl_status_t describe_part(Borrowed whole, const dnnl_dim_t *size, const dnnl_dim_t *at)
    {
        return dnnl_memory_desc_create_submemory(&desc_, whole, size, at);
    }
    Borrowed get() const
    {
        return desc_;
    }

  private:
    dnnl_memory_desc_t desc_ = nullptr;
};

// Scales of this generation are read from memory when the primitive runs; a number known now is a function of the result.
inline dnnl_status_t set_scale(dnnl_primitive_attr_t attributes, float factor)
{
    dnnl_post_ops_t ops = nullptr;
    dnnl_status_t status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success) {
        status = dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_linear, factor, 0.0F);
    }
    if (status == dnnl_success) {
        status = dnnl_primitive_attr_set_post_ops(attributes, ops);
    }
    if (ops != nullptr) {
        dnnl_post_ops_destroy(ops);
    }
    return status;
}

// What it does not accept, oneDNN does not have.
inline dnnl_status_t answer(dnnl_status_t made)
{
    return made == dnnl_invalid_arguments ? dnnl_unimplemented : made;
}

inline dnnl_status_t make_conv(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_conv &c, Borrowed src,
                               Borrowed weight, Borrowed bias, Borrowed dst, const_dnnl_primitive_desc_t hint,
                               const_dnnl_primitive_attr_t attributes)
{
    dnnl_alg_kind_t direct = c.transposed ? dnnl_deconvolution_direct : dnnl_convolution_direct;
    if (hint == nullptr) {
        auto *create = c.transposed ? dnnl_deconvolution_forward_primitive_desc_create
                                    : dnnl_convolution_forward_primitive_desc_create;
        return answer(create(pd, engine, dnnl_forward_training, direct, src, weight, bias, dst, c.strides, c.dilates,
                             c.begin, c.end, attributes));
    }
    if (c.direction == CKM_I_DNNL_BACKWARD_DATA) {
        auto *create = c.transposed ? dnnl_deconvolution_backward_data_primitive_desc_create
                                    : dnnl_convolution_backward_data_primitive_desc_create;
        return answer(
            create(pd, engine, direct, src, weight, dst, c.strides, c.dilates, c.begin, c.end, hint, attributes));
    }
    auto *create = c.transposed ? dnnl_deconvolution_backward_weights_primitive_desc_create
                                : dnnl_convolution_backward_weights_primitive_desc_create;
    return answer(
        create(pd, engine, direct, src, weight, nullptr, dst, c.strides, c.dilates, c.begin, c.end, hint, attributes));
}

inline dnnl_status_t make_eltwise(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map &map,
                                  Borrowed plain, const_dnnl_primitive_desc_t hint,
                                  const_dnnl_primitive_attr_t attributes)
{
    return answer(hint == nullptr
                      ? dnnl_eltwise_forward_primitive_desc_create(pd, engine, dnnl_forward_training, map.algorithm,
                                                                   plain, plain, map.alpha, 0.0F, attributes)
                      : dnnl_eltwise_backward_primitive_desc_create(pd, engine, map.algorithm, plain, plain, plain,
                                                                    map.alpha, 0.0F, hint, attributes));
}

inline dnnl_status_t make_softmax(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map &map,
                                  Borrowed plain, const_dnnl_primitive_desc_t hint,
                                  const_dnnl_primitive_attr_t attributes)
{
    return answer(hint == nullptr
                      ? dnnl_softmax_forward_primitive_desc_create(pd, engine, dnnl_forward_training, map.algorithm,
                                                                   plain, plain, map.axis, attributes)
                      : dnnl_softmax_backward_primitive_desc_create(pd, engine, map.algorithm, plain, plain, plain,
                                                                    map.axis, hint, attributes));
}

inline dnnl_status_t make_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, Borrowed a, Borrowed b,
                                  Borrowed bias, Borrowed c, const_dnnl_primitive_attr_t attributes)
{
    return answer(dnnl_matmul_primitive_desc_create(pd, engine, a, b, bias, c, attributes));
}

}  // namespace ckm_i_generation

#endif
