// SPDX-License-Identifier: Apache-2.0
// The data fields of a training graph, and copying batches into a session.
#include <checkmate/train.h>

#include "base/error.h"
#include "run/data/data.h"
#include "run/session/session.h"

// A batch is copied sample by sample: the first axis must count them.
static ckm_status check_batch(const ckm_graph *step, int32_t value, const char *what, ckm_error *err)
{
    const ckm_i_graph_tensor *tensor = &step->tensors[value];
    if (tensor->shape.rank < 1 || tensor->shape.dims[0] != step->batch) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "%s \"%.200s\" does not have the batch of %lld as its first dimension, so samples cannot be "
                           "put into it",
                           what, tensor->name, (long long)step->batch);
    }
    return CKM_OK;
}

static ckm_data_field field_of(const ckm_graph *step, int32_t value)
{
    const ckm_i_graph_tensor *tensor = &step->tensors[value];
    ckm_data_field field = {tensor->name, tensor->dtype, {0, {0}}, 0};
    // The first axis counts samples.
    for (int32_t i = 1; i < tensor->shape.rank; i++) {
        field.shape.dims[field.shape.rank++] = tensor->shape.dims[i];
    }
    if (tensor->dtype != CKM_F32) {
        field.limit = ckm_i_session_value_limit(step, value);
    }
    return field;
}

ckm_status ckm_train_describe_data(const ckm_training *training, ckm_train_fields *out, ckm_error *err)
{
    CKM_I_NEED(training, err);
    CKM_I_NEED(out, err);
    ckm_train_fields fields = {0};
    const ckm_graph *step = training->step;
    if (step == NULL || training->labels < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "this training graph has no operator-level loss to train with");
    }
    // They have the shape of the network's output, or of its positions.
    CKM_I_CHECK(check_batch(step, training->labels, "what training compares the network's output with,", err));
    fields.labels = field_of(step, training->labels);
    for (int32_t x = 0; x < step->n_tensors; x++) {
        if (step->tensors[x].role != CKM_ROLE_INPUT || x == training->labels) {
            continue;
        }
        CKM_I_CHECK(check_batch(step, x, "input", err));
        if (fields.n_inputs == CKM_DATA_MAX_INPUTS) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "the network has more than %d data inputs",
                               CKM_DATA_MAX_INPUTS);
        }
        fields.inputs[fields.n_inputs++] = field_of(step, x);
    }
    *out = fields;
    return CKM_OK;
}

// Where the fields of a batch go: positions of the session's tensors.
typedef struct session_batch {
    ckm_session *session;
    int32_t inputs[CKM_DATA_MAX_INPUTS], labels;
} session_batch;

static ckm_status take(void *user, int32_t field, const void *values, int64_t bytes, ckm_error *err)
{
    const session_batch *to = user;
    return ckm_session_write(to->session, field >= 0 ? to->inputs[field] : to->labels, 0, bytes, values, err);
}

ckm_status ckm_train_fetch(ckm_session *session, ckm_data *data, int64_t step, ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(data, err);
    session_batch to = {.session = session, .labels = ckm_session_labels(session)};
    int32_t n = 0;
    for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
        if (ckm_session_get_tensor(session, i).role == CKM_ROLE_INPUT && i != to.labels && n < CKM_DATA_MAX_INPUTS) {
            to.inputs[n++] = i;
        }
    }
    if (to.labels < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the session has no labels to fill");
    }
    for (; n < CKM_DATA_MAX_INPUTS; n++) {
        to.inputs[n] = -1;
    }
    return ckm_i_data_fetch_to(data, step, take, &to, err);
}
