// SPDX-License-Identifier: Apache-2.0
// Pictures as inputs of a network that runs forward: decoded, resized and scaled as training reads them.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/data/data_pixels.h"
#include "run/data/image_file.h"
#include "trainer/inference.h"

bool ckm_picture_is_read(const char *name)
{
    return name != NULL && ckm_i_image_kind_of(name) != CKM_I_IMAGE_NONE;
}

ckm_status ckm_picture_bytes(const char *path, int64_t *bytes, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(bytes, err);
    return ckm_i_image_memory(path, ckm_i_image_kind_of(path), bytes, err);
}

// Input i, if a picture can be put into it, as what one sample is.
static ckm_status find_field(const ckm_inference *f, const char *name, int64_t sample, int32_t *input,
                             ckm_data_field *field, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_inference_find(f, name, input, err));
    ckm_session_tensor t = ckm_session_get_tensor(f->session, *input);
    if (t.role != CKM_ROLE_INPUT || t.dtype != CKM_F32 || t.shape.rank != 4) {
        char shape[160];
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "\"%.200s\" is %s %s: pictures go into an input of float32 with height, width and channels",
                           name, ckm_i_inference_type_name(t.dtype), ckm_i_shape_text(&t.shape, shape, sizeof shape));
    }
    if (sample < 0 || sample >= t.shape.dims[0]) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "sample %lld: the batch has %lld", (long long)sample,
                           (long long)t.shape.dims[0]);
    }
    *field = (ckm_data_field){t.name, t.dtype, {3, {t.shape.dims[1], t.shape.dims[2], t.shape.dims[3]}}, 0};
    return CKM_OK;
}

ckm_status ckm_inference_read_picture(ckm_inference *f, const char *name, int64_t sample, const char *path,
                                      ckm_data_scaling scaling, ckm_error *err)
{
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED(name, err);
    CKM_I_NEED(path, err);
    int32_t input = -1;
    float *values = NULL;
    ckm_data_field field;
    ckm_i_pixels sink = {0};
    ckm_data_options reading = CKM_DATA_OPTIONS_INIT;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(find_field(f, name, sample, &input, &field, err));
    reading.n_inputs = 1;
    reading.inputs = &field;
    reading.layout = ckm_graph_layout(f->graph);
    reading.scaling = scaling;
    CKM_I_CHECK(ckm_i_pixels_init(&sink, &reading, 0, 0, 0, err));
    int64_t bytes = ckm_session_get_tensor(f->session, input).bytes / f->graph->batch;
    values = ckm_i_malloc((size_t)bytes, 1);
    if (values == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_image_decode(path, ckm_i_image_kind_of(path), &sink, values, err));
    CKM_I_TRY(ckm_session_write(f->session, input, sample * bytes, bytes, values, err));
    f->trainer->valued[input] = true;
cleanup:
    free(values);
    ckm_i_pixels_dispose(&sink);
    return status;
}
