// SPDX-License-Identifier: Apache-2.0
#include "data_read.h"

#include <stdlib.h>
#include <string.h>

#include "scratch.h"

enum { MOST_ELEMENTS = 4096 };

uint8_t data_byte(data_bytes *b)
{
    return b->at < b->end ? *b->at++ : 0;
}

void data_image_options(uint8_t choice, ckm_data_field *image, ckm_data_options *options)
{
    bool first = (choice & 1) != 0;
    int64_t channels = (choice & 2) != 0 ? 1 : 3;
    *image = (ckm_data_field){"image", CKM_F32, {3, {4, 4, channels}}, 0};
    if (first) {
        image->shape = (ckm_shape){3, {channels, 4, 4}};
    }
    *options = (ckm_data_options)CKM_DATA_OPTIONS_INIT;
    options->n_inputs = 1;
    options->inputs = image;
    options->layout = first ? CKM_CHANNELS_FIRST : CKM_CHANNELS_LAST;
    options->scaling = (ckm_data_scaling)((choice >> 2) % 3);
    options->resize = (choice & 16) == 0;
    options->keep_order = (choice & 32) != 0;
    options->labels.limit = (choice & 64) != 0 ? 0 : 10;
}

static void check_labels(const ckm_data_options *o, const void *labels)
{
    int64_t n = o->batch;
    for (int32_t i = 0; i < o->labels.shape.rank; i++) {
        n *= o->labels.shape.dims[i];
    }
    for (int64_t i = 0; o->labels.dtype == CKM_I32 && o->labels.limit > 0 && i < n; i++) {
        int32_t label = ((const int32_t *)labels)[i];
        if (label < -1 || label >= o->labels.limit) {
            abort();
        }
    }
}

void data_open_and_read(const ckm_data_options *options)
{
    static double inputs[2][MOST_ELEMENTS];
    static double labels[MOST_ELEMENTS];
    void *const buffers[2] = {inputs[0], inputs[1]};
    ckm_error err = CKM_ERROR_INIT;
    ckm_data *opened = NULL;
    ckm_status status = ckm_data_open(scratch_folder(), options, &opened, &err);
    if ((status == CKM_OK) != (opened != NULL) || (status != CKM_OK && err.message[0] == '\0')) {
        abort();
    }
    if (opened == NULL) {
        return;
    }
    ckm_data_facts facts = ckm_data_get_facts(opened);
    if (facts.samples < 1 || facts.batches < 1 || facts.classes < 0 || facts.bytes < 0) {
        abort();
    }
    (void)ckm_data_class_name(opened, 0);
    for (int64_t step = 0; step < 3 && step < facts.batches && status == CKM_OK; step++) {
        status = ckm_data_fetch(opened, step, buffers, labels, &err);
        if (status == CKM_OK) {
            check_labels(options, labels);
        } else if (err.message[0] == '\0') {
            abort();
        }
    }
    ckm_data_close(opened);
}
