// SPDX-License-Identifier: Apache-2.0
// Sinusoids of a number (Vaswani et al. 2017, section 3.5, on time steps as in Ho et al. 2020, "Denoising Diffusion
// Probabilistic Models", appendix B): N -> N, dim with sines of t * period^(-i / (dim / 2 - 1)) in the first half and
// cosines in the second. Time steps are data: there is no gradient.
#include "graph/op_registry.h"
#include "graph/op_support.h"

static ckm_status infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t dim;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, 1, err));
    CKM_I_CHECK(ckm_i_op_int(v, "dim", 4, INT32_MAX, 0, &dim, err));
    if (dim < 4 || dim % 2 != 0) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "dim is %lld; it must be even and at least 4", (long long)dim);
    }
    if (!(ckm_i_op_attr_double(v->op, "period", 10000.0) > 0.0)) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the period must be positive");
    }
    shapes[0] = (ckm_shape){2, {v->in[0]->shape.dims[0], dim}};
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_time_embedding[] = {
    {CKM_I_OP(time_embedding, 1, 1, 1, infer, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS_NOTHING},
    {0},
};
