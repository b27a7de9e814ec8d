// SPDX-License-Identifier: Apache-2.0
// Numbers in files are written and read with a point, in any locale of the program that the library is part of.
#ifndef CKM_SRC_BASE_PLAIN_H
#define CKM_SRC_BASE_PLAIN_H

#include <checkmate/base.h>
#include <locale.h>

// Between the two, printf and strtod of this thread have numbers as in C. Every begin that succeeded needs its end.
typedef struct ckm_i_plain {
    locale_t plain, before;
} ckm_i_plain;
ckm_status ckm_i_plain_begin(ckm_i_plain *p, ckm_error *err) CKM_NODISCARD;
void ckm_i_plain_end(ckm_i_plain *p);

#endif
