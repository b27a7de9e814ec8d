// SPDX-License-Identifier: Apache-2.0
// jansson's parser, with exhausted memory told apart from bad syntax.
#ifndef CKM_SRC_BASE_JSON_LOAD_H
#define CKM_SRC_BASE_JSON_LOAD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

// The value that the text holds, or NULL: *exhausted says whether memory ran out, else *problem is jansson's.
// Members that appear twice are an error.
json_t *ckm_i_json_load(const char *text, size_t size_bytes, json_error_t *problem, bool *exhausted);

#endif
