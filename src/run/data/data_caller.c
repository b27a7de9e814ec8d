// SPDX-License-Identifier: Apache-2.0
// Data: samples of the caller's own.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/data/data.h"

// Rows of tables and classes are looked up without another look at them, so integers out of range never get that far.
static ckm_status check_integers(const ckm_data_field *field, const void *values, bool labels, int64_t sample,
                                 ckm_error *err)
{
    int64_t least = labels ? -1 : 0;
    if (field->limit <= 0 || field->dtype == CKM_F32) {
        return CKM_OK;
    }
    for (int64_t i = 0; i < ckm_i_data_elements(field); i++) {
        int64_t value = field->dtype == CKM_I64 ? ((const int64_t *)values)[i] : ((const int32_t *)values)[i];
        if (value < least || value >= field->limit) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT,
                               "sample %lld: \"%.100s\" is %lld, out of range: the network takes 0 to %lld%s",
                               (long long)sample, field->name, (long long)value, (long long)field->limit - 1,
                               labels ? ", and -1 for none" : "");
        }
    }
    return CKM_OK;
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    const ckm_data_source *caller = source->state;
    const ckm_data_options *o = source->options;
    CKM_I_CHECK(caller->read(caller->user, sample, inputs, labels, err));
    for (int32_t i = 0; i < o->n_inputs; i++) {
        CKM_I_CHECK(check_integers(&o->inputs[i], inputs[i], false, sample, err));
    }
    return check_integers(&o->labels, labels, true, sample, err);
}

static void close_source(ckm_i_data_source *source)
{
    free(source->state);
}

static const ckm_i_data_format format = {
    .name = "caller", .summary = "samples from the caller", .read = read_sample, .close = close_source};

ckm_status ckm_i_data_open_caller(const ckm_data_source *caller, ckm_i_data_source *source, ckm_error *err)
{
    if (caller->read == NULL || caller->samples < 0 || caller->bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a source of data needs `read`, and sizes that are not negative");
    }
    ckm_data_source *copy = ckm_i_malloc(1, sizeof *copy);
    if (copy == NULL) {
        return ckm_i_error_memory(err);
    }
    *copy = *caller;
    source->format = &format;
    source->state = copy;
    source->samples = caller->samples;
    source->classes = caller->classes;
    source->bytes = caller->bytes + (int64_t)sizeof *copy;
    return CKM_OK;
}
