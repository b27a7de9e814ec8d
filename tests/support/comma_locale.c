// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE  // setenv
#include "comma_locale.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

// LC_NUMERIC of the C library of GNU on processors that put the low byte first: decimal point, separator of thousands,
// grouping, both again as wide characters, character set. Machines have few locales, so this one comes with the test.
static const unsigned char comma[] = {0x14, 0x11, 0x03, 0x20, 6,   0, 0,    0,   0x20, 0,   0,    0, 0x22, 0,
                                      0,    0,    0x24, 0,    0,   0, 0x28, 0,   0,    0,   0x2c, 0, 0,    0,
                                      0x30, 0,    0,    0,    ',', 0, '.',  0,   3,    3,   0,    0, ',',  0,
                                      0,    0,    '.',  0,    0,   0, 'U',  'T', 'F',  '-', '8',  0};

bool comma_locale(const char *folder)
{
    char path[512];
    char half[8];
    snprintf(path, sizeof path, "%s/comma", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/comma/LC_NUMERIC", folder);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(comma, 1, sizeof comma, file), sizeof comma);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("LOCPATH", folder, 1), 0);
    if (setlocale(LC_NUMERIC, "comma") == NULL) {
        return false;
    }
    snprintf(half, sizeof half, "%.1f", 0.5);
    return strcmp(half, "0,5") == 0;
}
