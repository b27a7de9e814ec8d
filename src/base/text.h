// SPDX-License-Identifier: Apache-2.0
// Names and messages as UTF-8: cutting, cleaning, and writing them as JSON strings.
#ifndef CKM_SRC_BASE_TEXT_H
#define CKM_SRC_BASE_TEXT_H

#include <stddef.h>
#include <stdio.h>

// Bytes of the well-formed UTF-8 sequence at `at` (1 to 4), or 0 when there is none or the text ends.
size_t ckm_i_text_utf8(const char *at);
// Copies as much of `from` as fits `room` bytes, zero included, without cutting a sequence in two.
void ckm_i_text_copy(char *to, size_t room, const char *from);
// Makes one printable line of `text`: control characters become spaces, malformed bytes question marks.
void ckm_i_text_clean(char *text);
// Writes `text` as a JSON string, quotes included. Malformed bytes are written as U+FFFD.
void ckm_i_text_write_json(FILE *stream, const char *text);
// Writes a number so that reading it gives the same value, in as few digits as that takes and whatever the
// locale's decimal point; null when it is not finite.
void ckm_i_text_write_number(FILE *stream, double number);

#endif
