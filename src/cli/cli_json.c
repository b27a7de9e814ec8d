// SPDX-License-Identifier: Apache-2.0
// Writing one flat JSON object.
#include "cli/cli_values.h"

#include <math.h>
#include <stdlib.h>

// Length of the valid UTF-8 sequence at c, or 0.
static int utf8_length(const unsigned char *c)
{
    static const struct {
        unsigned char mask, lead;
        int length;
        unsigned least;
    } forms[] = {{0x80, 0x00, 1, 0}, {0xe0, 0xc0, 2, 0x80}, {0xf0, 0xe0, 3, 0x800}, {0xf8, 0xf0, 4, 0x10000}};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        if ((c[0] & forms[f].mask) != forms[f].lead) {
            continue;
        }
        unsigned point = c[0] & (unsigned char)~forms[f].mask;
        for (int i = 1; i < forms[f].length; i++) {
            if ((c[i] & 0xc0) != 0x80) {
                return 0;
            }
            point = point << 6 | (c[i] & 0x3fU);
        }
        bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
        return point < forms[f].least || point > 0x10ffff || is_surrogate ? 0 : forms[f].length;
    }
    return 0;
}

static void print_string(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        int length = utf8_length(c);
        if (length == 0) {
            fputs("\\ufffd", stdout);  // a name cut in the middle of a character, say
            length = 1;
        } else if (*c == '"' || *c == '\\') {
            printf("\\%c", *c);
        } else if (*c < 0x20) {
            printf("\\u%04x", *c);
        } else {
            fwrite(c, 1, (size_t)length, stdout);
        }
        c += length;
    }
    putchar('"');
}

static void print_key(cli_json *json, const char *key)
{
    printf("%s\"%s\": ", json->n_members > 0 ? ", " : "", key);
    json->n_members++;
}

void cli_print_real(FILE *to, double value)
{
    char text[40];
    if (!isfinite(value)) {
        fputs("null", to);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    fputs(text, to);
}

void cli_json_begin(cli_json *json)
{
    json->n_members = 0;
    putchar('{');
}

void cli_json_text(cli_json *json, const char *key, const char *value)
{
    print_key(json, key);
    if (value == NULL) {
        fputs("null", stdout);
    } else {
        print_string(value);
    }
}

void cli_json_size(cli_json *json, const char *key, int64_t value)
{
    print_key(json, key);
    if (value < 0) {
        fputs("null", stdout);
    } else {
        printf("%lld", (long long)value);
    }
}

void cli_json_real(cli_json *json, const char *key, double value)
{
    print_key(json, key);
    cli_print_real(stdout, value);
}

void cli_json_bool(cli_json *json, const char *key, bool value)
{
    print_key(json, key);
    fputs(value ? "true" : "false", stdout);
}

void cli_json_end(cli_json *json)
{
    (void)json;
    fputs("}\n", stdout);
}
