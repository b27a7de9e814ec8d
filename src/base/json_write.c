// SPDX-License-Identifier: Apache-2.0
// Writing the leaves of JSON.
#include <checkmate/base.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void ckm_json_write_text(FILE *stream, const char *text)
{
    if (stream == NULL) {
        return;
    }
    if (text == NULL) {
        fputs("null", stream);
        return;
    }
    putc('"', stream);
    while (*text != '\0') {
        size_t n = ckm_i_text_utf8(text);
        if (n == 0) {
            fputs("\\ufffd", stream);
            text++;
        } else if (n > 1) {
            fwrite(text, 1, n, stream);
            text += n;
        } else {
            if (*text == '"' || *text == '\\') {
                putc('\\', stream);
                putc(*text, stream);
            } else if ((unsigned char)*text < 0x20 || *text == 0x7f) {
                fprintf(stream, "\\u%04x", (unsigned)*text);
            } else {
                putc(*text, stream);
            }
            text++;
        }
    }
    putc('"', stream);
}

void ckm_json_write_number(FILE *stream, double number)
{
    char digits[64];
    if (stream == NULL) {
        return;
    }
    if (!isfinite(number)) {
        fputs("null", stream);
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, number);
        if (strtod(digits, NULL) == number) {
            break;
        }
    }
    ckm_i_text_point(digits);
    fputs(digits, stream);
}
