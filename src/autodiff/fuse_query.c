// SPDX-License-Identifier: Apache-2.0
// What patterns ask of the network.
#include "autodiff/fuse.h"

const ckm_i_graph_op *ckm_i_fuse_producer(const ckm_i_fuse *f, int32_t tensor)
{
    int32_t producer = tensor >= 0 ? f->graph->tensors[tensor].producer : -1;
    const ckm_i_graph_op *op = producer >= 0 ? &f->graph->ops[producer] : NULL;
    return op != NULL && op->outputs[0] == tensor ? op : NULL;
}

int32_t ckm_i_fuse_only_reader(const ckm_i_fuse *f, int32_t tensor)
{
    return f->n_readers[tensor] == 1 ? f->reader[tensor] : -1;
}

bool ckm_i_fuse_number(const ckm_i_fuse *f, int32_t tensor, double *value)
{
    if (tensor < 0 || !f->graph->tensors[tensor].known) {
        return false;
    }
    *value = f->graph->tensors[tensor].value;
    return true;
}

bool ckm_i_fuse_scaled(const ckm_i_fuse *f, const ckm_i_graph_op *op, int32_t *x, double *factor)
{
    if (ckm_i_fuse_is(op, CKM_I_OP_scale)) {
        *x = op->inputs[0];
        *factor = ckm_i_op_attr_double(op, "alpha", 1.0);
        return true;
    }
    bool mul = ckm_i_fuse_is(op, CKM_I_OP_mul);
    double value = 0.0;
    int32_t from = 0;
    if (!mul && !ckm_i_fuse_is(op, CKM_I_OP_div)) {
        return false;
    }
    if (!ckm_i_fuse_number(f, op->inputs[1], &value)) {
        from = 1;
        if (!mul || !ckm_i_fuse_number(f, op->inputs[0], &value)) {
            return false;
        }
    }
    const ckm_i_graph_tensor *t = f->graph->tensors;
    if (op->inputs[from] < 0 || !ckm_i_shapes_equal(&t[op->inputs[from]].shape, &t[op->outputs[0]].shape) ||
        (!mul && value == 0.0)) {
        return false;
    }
    *x = op->inputs[from];
    *factor = mul ? value : 1.0 / value;
    return true;
}

bool ckm_i_fuse_other(const ckm_i_graph_op *op, ckm_i_op_kind kind, int32_t tensor, int32_t *other)
{
    if (!ckm_i_fuse_is(op, kind) || op->n_inputs != 2 || (op->inputs[0] != tensor && op->inputs[1] != tensor)) {
        return false;
    }
    *other = op->inputs[op->inputs[0] == tensor ? 1 : 0];
    return *other >= 0;
}
