// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdbool.h>
#include <string.h>

size_t ckm_i_text_utf8(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    if (c[0] == 0) {
        return 0;
    }
    if (c[0] < 0x80) {
        return 1;
    }
    size_t n = c[0] >= 0xf0 ? 4 : c[0] >= 0xe0 ? 3 : 2;
    if (c[0] < 0xc2 || c[0] > 0xf4) {
        return 0;
    }
    for (size_t k = 1; k < n; k++) {
        if ((c[k] & 0xc0) != 0x80) {
            return 0;
        }
    }
    // Overlong forms, surrogates, and what lies beyond U+10FFFF.
    bool malformed = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
                     (c[0] == 0xf4 && c[1] > 0x8f);
    return malformed ? 0 : n;
}

void ckm_i_text_copy(char *to, size_t room, const char *from)
{
    size_t n = strlen(from);
    if (n >= room) {
        n = room - 1;
        while (n > 0 && ((unsigned char)from[n] & 0xc0) == 0x80) {
            n--;
        }
    }
    memmove(to, from, n);
    to[n] = '\0';
}

void ckm_i_text_clean(char *text)
{
    while (*text != '\0') {
        size_t n = ckm_i_text_utf8(text);
        if (n == 0) {
            *text++ = '?';
        } else if (n == 1) {
            if ((unsigned char)*text < 0x20 || *text == 0x7f) {
                *text = ' ';
            }
            text++;
        } else {
            text += n;
        }
    }
}

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool ckm_i_text_same(const char *a, const char *b)
{
    while (*a != '\0' && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

void ckm_i_text_point(char *number)
{
    char *to = number;
    bool in_point = false;
    for (const char *from = number; *from != '\0'; from++) {
        bool is_digit = strchr("0123456789+-e", *from) != NULL;
        if (is_digit || !in_point) {
            *to++ = (char)(is_digit ? *from : '.');
        }
        in_point = !is_digit;
    }
    *to = '\0';
}
