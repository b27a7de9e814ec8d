// SPDX-License-Identifier: Apache-2.0
// Names and messages as UTF-8: cutting and cleaning.
#ifndef CKM_SRC_BASE_TEXT_H
#define CKM_SRC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// Bytes of the well-formed UTF-8 sequence at `at` (1 to 4), or 0 when there is none or the text ends.
size_t ckm_i_text_utf8(const char *at);
// Copies as much of `from` as fits `room` bytes, zero included, without cutting a sequence in two.
void ckm_i_text_copy(char *to, size_t room, const char *from);
// Makes one printable line of `text`: control characters become spaces, malformed bytes question marks.
void ckm_i_text_clean(char *text);

// Equal if the case of the letters a to z is ignored, in any locale: in Turkish "i" and "I" are two letters.
bool ckm_i_text_same(const char *a, const char *b);

// Replaces the locale's decimal point, of any number of bytes, with a point in a number that printf wrote.
void ckm_i_text_point(char *number);

#endif
