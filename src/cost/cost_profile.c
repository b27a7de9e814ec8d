// SPDX-License-Identifier: Apache-2.0
// Measured costs: a checkmate-profile file, version 1, joined with the training graph by operator name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cost/cost_models.h"

#define MAX_PROFILE_BYTES (INT64_C(256) << 20)

static bool has_line(const json_t *op)
{
    return json_is_number(json_object_get(op, "fixed_ns")) && json_is_number(json_object_get(op, "per_sample_ns"));
}

// A profile at another batch is good when its operators have lines over the batch.
static ckm_status check_batch(const json_t *ops, const char *file, int64_t batch, int64_t measured_batch,
                              ckm_error *err)
{
    bool good = batch == measured_batch || json_array_size(ops) > 0;
    for (size_t i = 0; good && batch != measured_batch && i < json_array_size(ops); i++) {
        good = has_line(json_array_get(ops, i));
    }
    return good ? CKM_OK
                : ckm_i_error_at(err, CKM_ERR_ARGUMENT, file, 0, -1,
                                 "batch: measured with %lld samples, but the network has a batch of %lld; profile it "
                                 "again with that batch, or fit it over several",
                                 (long long)measured_batch, (long long)batch);
}

// Time at `batch` samples from the line that profiling at several batches has fitted.
static ckm_status read_line(const json_t *op, const ckm_i_json_place *place, int64_t batch, int64_t *ns, ckm_error *err)
{
    const json_t *fixed = json_object_get(op, "fixed_ns");
    const json_t *slope = json_object_get(op, "per_sample_ns");
    double time = json_number_value(fixed) + json_number_value(slope) * (double)batch;
    if (!(time >= 0.0) || time > 9e18) {
        return ckm_i_json_error(err, place, "fixed_ns and per_sample_ns give no time for a batch of %lld",
                                (long long)batch);
    }
    *ns = (int64_t)(time + 0.5);
    return CKM_OK;
}

// {name: nanoseconds} at `batch` samples. Names are unique in a profile.
static ckm_status index_ops(const json_t *ops, const ckm_i_json_place *root, int64_t batch, int64_t measured_batch,
                            json_t *by_name, ckm_error *err)
{
    ckm_i_json_place list = ckm_i_json_member(root, "ops");
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        ckm_i_json_place place = ckm_i_json_element(&list, i);
        const char *name = NULL;
        int64_t median_ns = 0;
        if (!json_is_object(op)) {
            return ckm_i_json_error(err, &place, "must be an object");
        }
        CKM_I_CHECK(ckm_i_json_get_text(op, &place, "name", true, &name, err));
        CKM_I_CHECK(ckm_i_json_get_int(op, &place, "median_ns", true, 0, INT64_MAX, &median_ns, err));
        if (batch != measured_batch) {
            CKM_I_CHECK(read_line(op, &place, batch, &median_ns, err));
        }
        if (json_object_get(by_name, name) != NULL) {
            return ckm_i_json_error(err, &place, "operator \"%.100s\" appears twice", name);
        }
        if (json_object_set_new(by_name, name, json_integer((json_int_t)median_ns)) != 0) {
            return ckm_i_error_memory(err);
        }
    }
    return CKM_OK;
}

static ckm_status read_profile(const char *path, int64_t batch, json_t *by_name, ckm_error *err)
{
    json_t *root = NULL;
    const json_t *ops = NULL;
    ckm_status status;
    ckm_i_json_place place = ckm_i_json_root(path);
    int64_t measured_batch = batch;
    CKM_I_TRY(ckm_i_json_read(path, MAX_PROFILE_BYTES, &root, err));
    CKM_I_TRY(ckm_i_json_check_header(root, path, "checkmate-profile", err));
    CKM_I_TRY(ckm_i_json_get_int(root, &place, "batch", false, 1, INT64_MAX, &measured_batch, err));
    CKM_I_TRY(ckm_i_json_get_array(root, &place, "ops", true, &ops, err));
    CKM_I_TRY(check_batch(ops, path, batch, measured_batch, err));
    CKM_I_TRY(index_ops(ops, &place, batch, measured_batch, by_name, err));
cleanup:
    json_decref(root);
    return status;
}

// Appends to a list of names for a message; false once it is full.
static bool list_name(char *list, size_t room, const char *name)
{
    size_t used = strlen(list);
    int wanted = snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "", name);
    if (wanted < 0 || (size_t)wanted >= room - used) {
        list[used] = '\0';
        return false;
    }
    return true;
}

ckm_status ckm_i_cost_profile(const ckm_training *training, const char *path, int64_t *costs, ckm_error *err)
{
    if (path == NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the profile cost model needs the path of a profile");
    }
    json_t *by_name = json_object();
    if (by_name == NULL) {
        return ckm_i_error_memory(err);
    }
    char missing[3500] = "";
    int32_t n_missing = 0;
    int32_t n_listed = 0;
    ckm_status status;
    CKM_I_TRY(read_profile(path, training->graph->batch, by_name, err));
    for (int32_t i = 0; i < training->n_ops; i++) {
        const ckm_i_training_op *op = &training->ops[i];
        const json_t *cost = json_object_get(by_name, op->name);
        costs[i] = cost != NULL ? (int64_t)json_integer_value(cost) : 0;
        // Profilers do not see the loss of this model as a separate operator: without an entry it is free.
        if (cost == NULL && op->phase != CKM_I_LOSS) {
            if (n_listed == n_missing && list_name(missing, sizeof missing, op->name)) {
                n_listed++;
            }
            n_missing++;
        }
    }
    if (n_missing > n_listed) {
        status = ckm_i_error_at(err, CKM_ERR_NOT_FOUND, path, 0, -1,
                                "ops: %d operators of \"%.100s\" are missing: %s and %d more", (int)n_missing,
                                training->name, missing, (int)(n_missing - n_listed));
    } else if (n_missing > 0) {
        status = ckm_i_error_at(err, CKM_ERR_NOT_FOUND, path, 0, -1, "ops: %d operators of \"%.100s\" are missing: %s",
                                (int)n_missing, training->name, missing);
    }
cleanup:
    json_decref(by_name);
    return status;
}
