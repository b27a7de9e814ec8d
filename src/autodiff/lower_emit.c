// SPDX-License-Identifier: Apache-2.0
// What every rule ends with: an operator in normal form.
#include "autodiff/lower.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_i_lower_emit(ckm_i_lower *l, const int32_t *inputs, int32_t n_inputs, int32_t n_outputs, ckm_error *err)
{
    int32_t *outputs = ckm_i_calloc((size_t)n_outputs, sizeof *outputs);
    if (outputs == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_step_add(l->step,
                             &(ckm_i_step_op){.kind = l->kind,
                                              .name = l->op->name,
                                              .inputs = {inputs, n_inputs},
                                              .attrs = &l->attrs,
                                              .n_outputs = n_outputs},
                             outputs, err));
    for (int32_t i = 0; i < n_outputs && i < l->n_outputs; i++) {
        l->outputs[i] = outputs[i];
    }
cleanup:
    free(outputs);
    return status;
}

ckm_status ckm_i_lower_copy(ckm_i_lower *l, ckm_error *err)
{
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, l->n_outputs, err);
}
