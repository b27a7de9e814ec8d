// SPDX-License-Identifier: Apache-2.0
// What fuzz targets of training data share: opening the scratch folder and reading some batches.
#ifndef CKM_TESTS_FUZZ_DATA_READ_H
#define CKM_TESTS_FUZZ_DATA_READ_H

#include <checkmate/data.h>

// A cursor over the bytes of an input; 0 behind its end.
typedef struct data_bytes {
    const uint8_t *at, *end;
} data_bytes;
uint8_t data_byte(data_bytes *b);

// Options for networks that take one image of 4x4 in one of several forms, from one byte.
void data_image_options(uint8_t choice, ckm_data_field *image, ckm_data_options *options);

// Opens the scratch folder and reads as many batches as it has, three at most. Whatever happens has a message, and labels
// that the network does not have never get through.
void data_open_and_read(const ckm_data_options *options);

#endif
