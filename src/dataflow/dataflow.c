// SPDX-License-Identifier: Apache-2.0
// The dataflow graph: builder and accessors. Validation is in dataflow_finish.c.
#include "dataflow/dataflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_dataflow_create(const char *name, ckm_cost_unit unit, int64_t fixed_bytes, ckm_dataflow **out,
                               ckm_error *err)
{
    CKM_I_NEED(out, err);
    if (fixed_bytes < 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "fixed_bytes is %lld; it must not be negative", (long long)fixed_bytes);
    }
    ckm_dataflow *df = ckm_i_calloc(1, sizeof *df);
    if (df == NULL) {
        return ckm_i_error_memory(err);
    }
    df->name = ckm_i_strdup(name != NULL ? name : "");
    df->memo = ckm_i_calloc(1, sizeof *df->memo);
    if (df->name == NULL || df->memo == NULL) {
        ckm_dataflow_free(df);
        return ckm_i_error_memory(err);
    }
    atomic_init(&df->memo->floor_bytes, -1);
    df->cost_unit = unit;
    df->fixed_bytes = fixed_bytes;
    *out = df;
    return CKM_OK;
}

static void free_op(ckm_i_dataflow_op *op)
{
    free(op->name);
    free(op->module);
    free(op->source);
    free(op->inputs);
    free(op->outputs);
    free(op->inplace);
}

void ckm_dataflow_free(ckm_dataflow *df)
{
    if (df == NULL) {
        return;
    }
    for (int32_t i = 0; i < df->n_tensors; i++) {
        free(df->tensors[i].name);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        free_op(&df->ops[v]);
    }
    free(df->tensors);
    free(df->ops);
    free(df->results);
    free(df->users_pool);
    free(df->memo);
    free(df->second_name);
    free(df->name);
    free(df);
}

// A copy of `name`, or "<prefix><index>" when there is none.
static char *name_or_default(const char *name, const char *prefix, int32_t index)
{
    char fallback[24];
    if (name == NULL) {
        snprintf(fallback, sizeof fallback, "%s%d", prefix, index);
        name = fallback;
    }
    return ckm_i_strdup(name);
}

static ckm_status check_open(const ckm_dataflow *df, ckm_error *err)
{
    if (df->finished) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the graph is finished; nothing can be added");
    }
    return CKM_OK;
}

ckm_status ckm_dataflow_add_tensor(ckm_dataflow *df, const ckm_dataflow_tensor *tensor, int32_t *index, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(tensor, err);
    CKM_I_CHECK(check_open(df, err));
    if (tensor->bytes < 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "tensors[%d]: bytes is %lld; it must not be negative", df->n_tensors,
                           (long long)tensor->bytes);
    }
    if (!tensor->is_view && tensor->alias_of != 0 && tensor->alias_of != -1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "tensors[%d]: alias_of is %d, but is_view is not set", df->n_tensors,
                           (int)tensor->alias_of);
    }
    if (tensor->is_view && tensor->alias_of < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "tensors[%d]: is_view is set, but alias_of %d is not a tensor",
                           df->n_tensors, (int)tensor->alias_of);
    }
    if (df->n_tensors == INT32_MAX / 4 || !CKM_I_GROW(df->tensors, df->n_tensors, df->cap_tensors)) {
        return ckm_i_error_memory(err);
    }
    char *name = name_or_default(tensor->name, "t", df->n_tensors);
    if (name == NULL) {
        return ckm_i_error_memory(err);
    }
    df->tensors[df->n_tensors] = (ckm_i_dataflow_tensor){
        .name = name, .bytes = tensor->bytes, .alias_of = tensor->is_view ? tensor->alias_of : -1, .producer = -1};
    if (index != NULL) {
        *index = df->n_tensors;
    }
    df->n_tensors++;
    return CKM_OK;
}

ckm_status ckm_dataflow_add_op(ckm_dataflow *df, const ckm_dataflow_op *op, int32_t *index, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(op, err);
    CKM_I_CHECK(check_open(df, err));
    if (op->cost < 0 || op->workspace_bytes < 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "ops[%d]: %s is %lld; it must not be negative", df->n_ops,
                           op->cost < 0 ? "cost" : "workspace_bytes",
                           (long long)(op->cost < 0 ? op->cost : op->workspace_bytes));
    }
    if (op->n_inputs < 0 || op->n_outputs < 0 || op->n_inplace < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "ops[%d]: a negative number of operands", df->n_ops);
    }
    if ((op->n_inputs > 0 && op->inputs == NULL) || (op->n_outputs > 0 && op->outputs == NULL) ||
        (op->n_inplace > 0 && op->inplace == NULL)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "ops[%d]: a list of operands is NULL", df->n_ops);
    }
    if (df->n_ops == INT32_MAX / 4 || !CKM_I_GROW(df->ops, df->n_ops, df->cap_ops)) {
        return ckm_i_error_memory(err);
    }
    if (op->load_bytes < 0 || (op->load_bytes > 0 && op->kind != CKM_OP_LOAD)) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "ops[%d]: load_bytes is %lld; %s", df->n_ops, (long long)op->load_bytes,
                           op->load_bytes < 0 ? "it must not be negative" : "only operators of kind load have it");
    }
    ckm_i_dataflow_op copy = {
        .name = name_or_default(op->name, "op", df->n_ops),
        .module = ckm_i_strdup(op->module != NULL ? op->module : ""),
        .source = ckm_i_strdup(op->source != NULL ? op->source : ""),
        .kind = op->kind,
        .cost = op->cost,
        .workspace_bytes = op->workspace_bytes,
        .load_bytes = op->load_bytes,
        .recomputable = !op->run_once,
        .n_inputs = op->n_inputs,
        .n_outputs = op->n_outputs,
        .n_inplace = op->n_inplace,
        .inputs = ckm_i_memdup(op->inputs, (size_t)op->n_inputs, sizeof *op->inputs),
        .outputs = ckm_i_memdup(op->outputs, (size_t)op->n_outputs, sizeof *op->outputs),
        .inplace = ckm_i_memdup(op->inplace, (size_t)op->n_inplace, sizeof *op->inplace),
    };
    if (copy.name == NULL || copy.module == NULL || copy.source == NULL || copy.inputs == NULL ||
        copy.outputs == NULL || copy.inplace == NULL) {
        free_op(&copy);
        return ckm_i_error_memory(err);
    }
    df->ops[df->n_ops] = copy;
    if (index != NULL) {
        *index = df->n_ops;
    }
    df->n_ops++;
    return CKM_OK;
}

ckm_status ckm_dataflow_add_result(ckm_dataflow *df, int32_t tensor, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_CHECK(check_open(df, err));
    if (!CKM_I_GROW(df->results, df->n_results, df->cap_results)) {
        return ckm_i_error_memory(err);
    }
    df->results[df->n_results++] = tensor;
    return CKM_OK;
}

const char *ckm_dataflow_name(const ckm_dataflow *df)
{
    return df != NULL ? df->name : "";
}

ckm_cost_unit ckm_dataflow_cost_unit(const ckm_dataflow *df)
{
    return df != NULL ? df->cost_unit : CKM_COST_FLOPS;
}

int64_t ckm_dataflow_fixed_bytes(const ckm_dataflow *df)
{
    return df != NULL ? df->fixed_bytes : 0;
}

int32_t ckm_dataflow_op_count(const ckm_dataflow *df)
{
    return df != NULL ? df->n_ops : 0;
}

int32_t ckm_dataflow_tensor_count(const ckm_dataflow *df)
{
    return df != NULL ? df->n_tensors : 0;
}

int32_t ckm_dataflow_result_count(const ckm_dataflow *df)
{
    return df != NULL ? df->n_results : 0;
}

ckm_dataflow_op ckm_dataflow_get_op(const ckm_dataflow *df, int32_t op)
{
    if (df == NULL || op < 0 || op >= df->n_ops) {
        return (ckm_dataflow_op){.name = "", .module = "", .source = ""};
    }
    const ckm_i_dataflow_op *o = &df->ops[op];
    return (ckm_dataflow_op){
        .name = o->name,
        .module = o->module,
        .source = o->source,
        .kind = o->kind,
        .cost = o->cost,
        .workspace_bytes = o->workspace_bytes,
        .load_bytes = o->load_bytes,
        .run_once = !o->recomputable,
        .n_inputs = o->n_inputs,
        .n_outputs = o->n_outputs,
        .n_inplace = o->n_inplace,
        .inputs = o->inputs,
        .outputs = o->outputs,
        .inplace = (const int32_t(*)[2])o->inplace,
    };
}

ckm_dataflow_tensor ckm_dataflow_get_tensor(const ckm_dataflow *df, int32_t tensor)
{
    if (df == NULL || tensor < 0 || tensor >= df->n_tensors) {
        return (ckm_dataflow_tensor){.name = "", .alias_of = -1};
    }
    const ckm_i_dataflow_tensor *x = &df->tensors[tensor];
    return (ckm_dataflow_tensor){
        .name = x->name, .bytes = x->bytes, .alias_of = x->alias_of, .is_view = x->alias_of >= 0};
}

int32_t ckm_dataflow_get_result(const ckm_dataflow *df, int32_t i)
{
    return df != NULL && i >= 0 && i < df->n_results ? df->results[i] : -1;
}

int32_t ckm_dataflow_producer(const ckm_dataflow *df, int32_t tensor)
{
    return df != NULL && tensor >= 0 && tensor < df->n_tensors ? df->tensors[tensor].producer : -1;
}

int64_t ckm_dataflow_total_cost(const ckm_dataflow *df)
{
    return df != NULL ? df->total_cost : 0;
}

int64_t ckm_dataflow_memory_floor(const ckm_dataflow *df)
{
    return df != NULL ? df->floor_bytes : 0;
}

int64_t ckm_dataflow_standing_bytes(const ckm_dataflow *df)
{
    return df != NULL ? df->standing_bytes : 0;
}

int64_t ckm_dataflow_edge_count(const ckm_dataflow *df)
{
    return df != NULL ? df->n_edges : 0;
}
