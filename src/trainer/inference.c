// SPDX-License-Identifier: Apache-2.0
// Running a network forward: a trainer that derives the forward pass alone, and its input and output values.
#include <checkmate/inference.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "trainer/inference.h"

static ckm_status read_options(ckm_inference *f, const ckm_inference_options *given, ckm_trainer_options *o,
                               ckm_error *err)
{
    ckm_inference_options *own = &f->options;
    *own = (ckm_inference_options)CKM_INFERENCE_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_inference_options, own, weights, given, err));
    *o = (ckm_trainer_options)CKM_TRAINER_OPTIONS_INIT;
    o->budget_bytes = own->budget_bytes;
    o->budget_fraction = own->budget_fraction;
    o->activations_fraction = own->activations_fraction;
    o->kernels = own->kernels;
    o->solve = own->solve;
    o->cost_model = own->cost_model;
    o->costs = CKM_TRAINER_COSTS_MODEL;
    o->model = own->model;
    o->importing = own->importing;
    o->weights = own->weights;
    o->note = own->note;
    own->kernels = NULL;
    own->solve = NULL;
    own->cost_model = NULL;
    own->importing = NULL;
    return CKM_OK;
}

ckm_status ckm_inference_plan(const ckm_graph *graph, const ckm_inference_options *options, ckm_inference **out,
                              ckm_error *err)
{
    CKM_I_NEED(graph, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_status status;
    ckm_trainer_options o;
    ckm_inference *f = ckm_i_calloc(1, sizeof *f);
    if (f == NULL) {
        return ckm_i_error_memory(err);
    }
    f->graph = graph;
    CKM_I_TRY(read_options(f, options, &o, err));
    if (f->options.reading_bytes < 0) {
        status = ckm_i_error(err, CKM_ERR_ARGUMENT, "`reading_bytes` cannot be negative");
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_trainer_plan(graph, &o, &f->options, &f->trainer, err));
    *out = f;
    f = NULL;
cleanup:
    ckm_inference_close(f);
    return status;
}

ckm_status ckm_inference_begin(ckm_inference *f, ckm_error *err)
{
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_CHECK(ckm_trainer_begin(f->trainer, err));
    f->session = ckm_trainer_session(f->trainer);
    f->n_inputs = 0;
    f->n_leaves = 0;
    for (int32_t i = 0; i < ckm_session_tensor_count(f->session); i++) {
        ckm_tensor_role role = ckm_session_get_tensor(f->session, i).role;
        f->n_inputs += role == CKM_ROLE_INPUT;
        f->n_leaves += role != CKM_ROLE_ACTIVATION;
    }
    return CKM_OK;
}

ckm_status ckm_inference_open(const ckm_graph *graph, const ckm_inference_options *options, ckm_inference **out,
                              ckm_error *err)
{
    ckm_inference *f = NULL;
    CKM_I_NEED(out, err);
    CKM_I_CHECK(ckm_inference_plan(graph, options, &f, err));
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_inference_begin(f, err));
    *out = f;
    f = NULL;
cleanup:
    ckm_inference_close(f);
    return status;
}

void ckm_inference_close(ckm_inference *f)
{
    if (f != NULL) {
        ckm_trainer_close(f->trainer);
        free(f);
    }
}

ckm_inference_info ckm_inference_get_info(const ckm_inference *f)
{
    if (f == NULL) {
        return (ckm_inference_info){.strategy = "", .parameters_from = ""};
    }
    ckm_trainer_info t = ckm_trainer_get_info(f->trainer);
    ckm_session_memory m = ckm_session_get_memory(f->session);
    return (ckm_inference_info){
        .fits = t.fits,
        .proven = t.proven,
        .budget_bytes = t.budget_bytes,
        .used_bytes = t.used_bytes,
        .region_bytes = m.region_bytes,
        .arena_bytes = m.arena_bytes,
        .outside_bytes = t.outside_bytes,
        .baseline_bytes = t.baseline_bytes,
        .floor_bytes = t.floor_bytes,
        .least_bytes = t.least_bytes,
        .cost = t.cost,
        .baseline_cost = t.baseline_cost,
        .strategy = t.strategy,
        .parameters_from = t.parameters_from,
    };
}

int32_t ckm_inference_input_count(const ckm_inference *f)
{
    return f != NULL ? f->n_inputs : 0;
}

ckm_session_tensor ckm_inference_input(const ckm_inference *f, int32_t i)
{
    for (int32_t k = 0; f != NULL && i >= 0 && k < f->n_leaves; k++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(f->session, k);
        if (tensor.role == CKM_ROLE_INPUT && i-- == 0) {
            return tensor;
        }
    }
    return (ckm_session_tensor){.name = ""};
}

int32_t ckm_inference_output_count(const ckm_inference *f)
{
    return f != NULL && f->session != NULL ? ckm_session_tensor_count(f->session) - f->n_leaves : 0;
}

ckm_session_tensor ckm_inference_output(const ckm_inference *f, int32_t i)
{
    if (i < 0 || i >= ckm_inference_output_count(f)) {
        return (ckm_session_tensor){.name = ""};
    }
    ckm_session_tensor tensor = ckm_session_get_tensor(f->session, f->n_leaves + i);
    if (f->graph->n_outputs > 0) {
        tensor.name = f->graph->outputs[i].name;
    }
    return tensor;
}

const ckm_program *ckm_inference_program(const ckm_inference *f)
{
    return f != NULL ? ckm_trainer_program(f->trainer) : NULL;
}

// ---- values

const char *ckm_i_inference_type_name(ckm_dtype dtype)
{
    static const char *const names[] = {
        [CKM_F32] = "float32", [CKM_F16] = "float16", [CKM_BF16] = "bfloat16", [CKM_F64] = "float64",
        [CKM_I8] = "int8",     [CKM_U8] = "uint8",    [CKM_I16] = "int16",     [CKM_I32] = "int32",
        [CKM_I64] = "int64",   [CKM_BOOL] = "bool",
    };
    bool known = (size_t)dtype < sizeof names / sizeof names[0];
    return known ? names[dtype] : "an unknown type";
}

// "x (float32 8x3x32x32), mask (...)" of the inputs. Returns buf.
static const char *list_inputs(const ckm_inference *f, char *buf, size_t size)
{
    char shape[160];
    size_t used = 0;
    buf[0] = '\0';
    for (int32_t i = 0; i < f->n_inputs && used < size; i++) {
        ckm_session_tensor t = ckm_inference_input(f, i);
        int n = snprintf(buf + used, size - used, "%s%.100s (%s %s)", i > 0 ? ", " : "", t.name,
                         ckm_i_inference_type_name(t.dtype), ckm_i_shape_text(&t.shape, shape, sizeof shape));
        used += n > 0 ? (size_t)n : 0;
    }
    return buf;
}

ckm_status ckm_i_inference_find(const ckm_inference *f, const char *name, int32_t *tensor, ckm_error *err)
{
    char inputs[1500];
    CKM_I_NEED_NAMED(f->session, "session", err);
    for (int32_t i = 0; i < f->n_leaves; i++) {
        if (strcmp(ckm_session_get_tensor(f->session, i).name, name) == 0) {
            *tensor = i;
            return CKM_OK;
        }
    }
    return ckm_i_error(err, CKM_ERR_NOT_FOUND, "the network has no input called \"%.200s\"; it takes %s", name,
                       list_inputs(f, inputs, sizeof inputs));
}

ckm_status ckm_i_inference_accepts(const ckm_session_tensor *wanted, ckm_dtype dtype, const ckm_shape *shape,
                                   const char *path, ckm_error *err)
{
    char have[160];
    char want[160];
    if (dtype == wanted->dtype && ckm_i_shapes_equal(shape, &wanted->shape)) {
        return CKM_OK;
    }
    return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1, "\"%.200s\" takes %s %s, and this is %s %s", wanted->name,
                          ckm_i_inference_type_name(wanted->dtype), ckm_i_shape_text(&wanted->shape, want, sizeof want),
                          ckm_i_inference_type_name(dtype), ckm_i_shape_text(shape, have, sizeof have));
}

// Kernels rely on positions being within their tables.
ckm_status ckm_i_inference_check(const ckm_session_tensor *tensor, const void *data, int64_t bytes, const char *path,
                                 ckm_error *err)
{
    int64_t size = ckm_i_dtype_bytes(tensor->dtype);
    for (int64_t i = 0; tensor->limit > 0 && i < bytes / size; i++) {
        int64_t value = tensor->dtype == CKM_I64   ? ((const int64_t *)data)[i]
                        : tensor->dtype == CKM_I32 ? ((const int32_t *)data)[i]
                                                   : 0;
        if (value < -tensor->limit || value >= tensor->limit) {
            return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                  "\"%.200s\" holds the position %lld, and there are %lld", tensor->name,
                                  (long long)value, (long long)tensor->limit);
        }
    }
    return CKM_OK;
}

ckm_status ckm_inference_set(ckm_inference *f, const char *name, ckm_dtype dtype, const ckm_shape *shape,
                             const void *data, ckm_error *err)
{
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED(name, err);
    CKM_I_NEED(shape, err);
    CKM_I_NEED(data, err);
    int32_t i;
    CKM_I_CHECK(ckm_i_inference_find(f, name, &i, err));
    ckm_session_tensor tensor = ckm_session_get_tensor(f->session, i);
    CKM_I_CHECK(ckm_i_inference_accepts(&tensor, dtype, shape, NULL, err));
    CKM_I_CHECK(ckm_i_inference_check(&tensor, data, tensor.bytes, NULL, err));
    CKM_I_CHECK(ckm_session_write(f->session, i, 0, tensor.bytes, data, err));
    f->trainer->valued[i] = true;
    return CKM_OK;
}

ckm_status ckm_i_inference_check_values(const ckm_inference *f, bool inputs_too, ckm_error *err)
{
    for (int32_t i = 0; i < f->n_leaves; i++) {
        ckm_session_tensor t = ckm_session_get_tensor(f->session, i);
        char shape[160];
        if (f->trainer->valued[i] || t.bytes == 0 || (t.role == CKM_ROLE_INPUT && !inputs_too)) {
            continue;
        }
        ckm_i_shape_text(&t.shape, shape, sizeof shape);
        const char *type = ckm_i_inference_type_name(t.dtype);
        if (t.role == CKM_ROLE_INPUT) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "input \"%.200s\" (%s %s) has no value: give one", t.name, type,
                               shape);
        }
        return ckm_i_error(
            err, CKM_ERR_ARGUMENT,
            "%s \"%.200s\" (%s %s) has no value: neither the model's file nor a file of weights holds it",
            t.role == CKM_ROLE_PARAMETER ? "parameter"
            : t.role == CKM_ROLE_STATE   ? "running statistic"
                                         : "constant",
            t.name, type, shape);
    }
    return CKM_OK;
}

ckm_status ckm_inference_run(ckm_inference *f, double *seconds, ckm_error *err)
{
    ckm_step_result result;
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED_NAMED(f->session, "session", err);
    CKM_I_CHECK(ckm_i_inference_check_values(f, true, err));
    CKM_I_CHECK(ckm_session_step(f->session, 0, 0.0, &result, err));
    f->ran = true;
    if (seconds != NULL) {
        *seconds = result.seconds;
    }
    return CKM_OK;
}

ckm_status ckm_i_inference_output_at(const ckm_inference *f, int32_t i, int32_t *tensor, ckm_error *err)
{
    if (!f->ran) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "there is no output before the network has run");
    }
    if (i < 0 || i >= ckm_inference_output_count(f)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "output %d: the network has %d", (int)i,
                           (int)ckm_inference_output_count(f));
    }
    *tensor = f->n_leaves + i;
    return CKM_OK;
}

ckm_status ckm_inference_get(const ckm_inference *f, int32_t i, void *out, int64_t bytes, ckm_error *err)
{
    int32_t tensor;
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(ckm_i_inference_output_at(f, i, &tensor, err));
    ckm_session_tensor t = ckm_inference_output(f, i);
    if (bytes != t.bytes) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "output \"%.200s\" has %lld bytes, not %lld", t.name,
                           (long long)t.bytes, (long long)bytes);
    }
    return ckm_session_read(f->session, tensor, 0, bytes, out, err);
}
