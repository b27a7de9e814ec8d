// SPDX-License-Identifier: Apache-2.0
// The second memory of a dataflow graph, and the operators that load.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "dataflow/dataflow.h"

static const int64_t ns_per_second = INT64_C(1000000000), ns_per_us = 1000;

ckm_status ckm_dataflow_set_second_memory(ckm_dataflow *df, const ckm_second_memory *memory, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(memory, err);
    if (df->finished) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the graph is finished; a second memory cannot be added");
    }
    if (memory->bytes < -1) {
        return ckm_i_error(err, CKM_ERR_FORMAT,
                           "second_memory.bytes is %lld; it must be at least 0, or -1 for no limit",
                           (long long)memory->bytes);
    }
    if (memory->out_bytes_per_second < 1 || memory->in_bytes_per_second < 1) {
        bool out = memory->out_bytes_per_second < 1;
        return ckm_i_error(err, CKM_ERR_FORMAT, "second_memory.%s is %lld; it must be at least 1",
                           out ? "out_bytes_per_second" : "in_bytes_per_second",
                           (long long)(out ? memory->out_bytes_per_second : memory->in_bytes_per_second));
    }
    if (memory->latency_ns < 0) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "second_memory.latency_ns is %lld; it must not be negative",
                           (long long)memory->latency_ns);
    }
    char *name = ckm_i_strdup(memory->name != NULL ? memory->name : "host");
    if (name == NULL) {
        return ckm_i_error_memory(err);
    }
    free(df->second_name);
    df->second_name = name;
    df->second = *memory;
    df->second.name = name;
    return CKM_OK;
}

bool ckm_dataflow_get_second_memory(const ckm_dataflow *df, ckm_second_memory *out)
{
    if (df == NULL || df->second_name == NULL) {
        return false;
    }
    if (out != NULL) {
        *out = df->second;
    }
    return true;
}

bool ckm_i_transfer_cost(const ckm_dataflow *df, int64_t bytes, bool out, int64_t *cost)
{
    ckm_i_wide per_second = out ? df->second.out_bytes_per_second : df->second.in_bytes_per_second;
    ckm_i_wide ns = ((ckm_i_wide)bytes * ns_per_second + per_second - 1) / per_second + df->second.latency_ns;
    ckm_i_wide units = df->cost_unit == CKM_COST_US ? (ns + ns_per_us - 1) / ns_per_us : ns;
    if (units > INT64_MAX) {
        return false;
    }
    *cost = (int64_t)units;
    return true;
}

int64_t ckm_i_bytes_in(const ckm_dataflow *df, int32_t tensor)
{
    int32_t producer = df->tensors[tensor].producer;
    int64_t read = producer >= 0 ? df->ops[producer].load_bytes : 0;
    return read > 0 ? read : df->tensors[tensor].bytes;
}

static ckm_status check_load(const ckm_dataflow *df, int32_t v, ckm_error *err)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    const char *why = NULL;
    if (op->n_inputs != 0) {
        why = "a load reads no tensors";
    } else if (op->n_outputs != 1 || df->tensors[op->outputs[0]].alias_of >= 0) {
        why = "a load has one output, with its own storage";
    } else if (!op->recomputable) {
        why = "a load can always be repeated: recomputable must not be false";
    }
    return why == NULL ? CKM_OK : ckm_i_error(err, CKM_ERR_FORMAT, "ops[%d] (%s): %s", (int)v, op->name, why);
}

ckm_status ckm_i_dataflow_check_second(const ckm_dataflow *df, ckm_error *err)
{
    if (df->second_name != NULL && df->cost_unit != CKM_COST_NS && df->cost_unit != CKM_COST_US) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "second_memory: costs must be times: cost_unit \"ns\" or \"us\"");
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        CKM_I_CHECK(df->ops[v].kind == CKM_OP_LOAD ? check_load(df, v, err) : CKM_OK);
    }
    return CKM_OK;
}
