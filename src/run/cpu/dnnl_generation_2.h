// SPDX-License-Identifier: Apache-2.0
// oneDNN 2, from 2.6 on: a memory descriptor is a structure of the caller's; an operation is described first, and its primitive
// descriptor made from that. C++, for dnnl_guard.cpp alone.
#ifndef CKM_SRC_RUN_CPU_DNNL_GENERATION_2_H
#define CKM_SRC_RUN_CPU_DNNL_GENERATION_2_H

#include "run/cpu/dnnl_guard.h"

namespace ckm_i_generation
{

using Borrowed = const dnnl_memory_desc_t *;

inline Borrowed borrowed(const ckm_i_dnnl_format *format)
{
    return reinterpret_cast<Borrowed>(format);
}

class Description
{
  public:
    dnnl_status_t describe(const ckm_i_dnnl_tensor &t)
    {
        return t.any ? dnnl_memory_desc_init_by_tag(&desc_, t.rank, t.dims, dnnl_f32, dnnl_format_tag_any)
                     : dnnl_memory_desc_init_by_strides(&desc_, t.rank, t.dims, dnnl_f32, t.strides);
    }
    dnnl_status_t describe_part(Borrowed whole, const dnnl_dim_t *size, const dnnl_dim_t *at)
    {
        return dnnl_memory_desc_init_submemory(&desc_, whole, size, at);
    }
    Borrowed get() const
    {
        return &desc_;
    }

  private:
    dnnl_memory_desc_t desc_ = {};
};

inline dnnl_status_t set_scale(dnnl_primitive_attr_t attributes, float factor)
{
    return dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &factor);
}

// What cannot be described, oneDNN does not have.
inline dnnl_status_t make(dnnl_status_t described, dnnl_primitive_desc_t *pd, const_dnnl_op_desc_t desc,
                          dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                          const_dnnl_primitive_desc_t hint)
{
    return described == dnnl_success ? dnnl_primitive_desc_create(pd, desc, attributes, engine, hint)
                                     : dnnl_unimplemented;
}

inline dnnl_status_t make_conv(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_conv &c, Borrowed src,
                               Borrowed weight, Borrowed bias, Borrowed dst, const_dnnl_primitive_desc_t hint,
                               const_dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t desc;
    dnnl_status_t described;
    dnnl_alg_kind_t direct = c.transposed ? dnnl_deconvolution_direct : dnnl_convolution_direct;
    if (hint == nullptr) {
        auto *describe = c.transposed ? dnnl_dilated_deconvolution_forward_desc_init
                                      : dnnl_dilated_convolution_forward_desc_init;
        described = describe(&desc, dnnl_forward_training, direct, src, weight, bias, dst, c.strides, c.dilates,
                             c.begin, c.end);
    } else if (c.direction == CKM_I_DNNL_BACKWARD_DATA) {
        auto *describe = c.transposed ? dnnl_dilated_deconvolution_backward_data_desc_init
                                      : dnnl_dilated_convolution_backward_data_desc_init;
        described = describe(&desc, direct, src, weight, dst, c.strides, c.dilates, c.begin, c.end);
    } else {
        auto *describe = c.transposed ? dnnl_dilated_deconvolution_backward_weights_desc_init
                                      : dnnl_dilated_convolution_backward_weights_desc_init;
        described = describe(&desc, direct, src, weight, nullptr, dst, c.strides, c.dilates, c.begin, c.end);
    }
    return make(described, pd, &desc, engine, attributes, hint);
}

inline dnnl_status_t make_eltwise(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map &map,
                                  Borrowed plain, const_dnnl_primitive_desc_t hint,
                                  const_dnnl_primitive_attr_t attributes)
{
    dnnl_eltwise_desc_t desc;
    dnnl_status_t described = hint == nullptr ? dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_training,
                                                                               map.algorithm, plain, map.alpha, 0.0F)
                                              : dnnl_eltwise_backward_desc_init(&desc, map.algorithm, plain, plain,
                                                                                map.alpha, 0.0F);
    return make(described, pd, &desc, engine, attributes, hint);
}

inline dnnl_status_t make_softmax(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, const ckm_i_dnnl_map &map,
                                  Borrowed plain, const_dnnl_primitive_desc_t hint,
                                  const_dnnl_primitive_attr_t attributes)
{
    dnnl_softmax_v2_desc_t desc;
    dnnl_status_t described = hint == nullptr ? dnnl_softmax_v2_forward_desc_init(&desc, dnnl_forward_training,
                                                                                  map.algorithm, plain, plain, map.axis)
                                              : dnnl_softmax_v2_backward_desc_init(&desc, map.algorithm, plain, plain,
                                                                                   plain, map.axis);
    return make(described, pd, &desc, engine, attributes, hint);
}

inline dnnl_status_t make_product(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, Borrowed a, Borrowed b,
                                  Borrowed bias, Borrowed c, const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t desc;
    dnnl_status_t described = dnnl_matmul_desc_init(&desc, a, b, bias, c);
    return make(described, pd, &desc, engine, attributes, nullptr);
}

}  // namespace ckm_i_generation

#endif
