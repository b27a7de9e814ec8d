// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE  // setenv
#include "point_locale.h"

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

// LC_NUMERIC of the C library of GNU on processors that put the low byte first: offsets of decimal point, separator of
// thousands, grouping, both again as wide characters, character set; then these.
enum { N_PARTS = 6, HEAD = 2 + N_PARTS, ROOM = 96 };

static size_t make_numeric(const char *point, unsigned char *to)
{
    const uint32_t wide[2] = {point[1] == '\0' ? (uint32_t)(unsigned char)point[0] : 0x66b, '.'};
    const struct {
        const void *bytes;
        size_t size;
    } parts[N_PARTS] = {{point, strlen(point) + 1}, {".", 2}, {"\3\3", 3}, {&wide[0], 4}, {&wide[1], 4}, {"UTF-8", 6}};
    uint32_t head[HEAD] = {0x20031114, N_PARTS};
    size_t at = sizeof head;
    for (int i = 0; i < N_PARTS; i++) {
        at = parts[i].size == 4 ? (at + 3) / 4 * 4 : at;
        head[2 + i] = (uint32_t)at;
        assert_true(at + parts[i].size <= ROOM);
        memcpy(to + at, parts[i].bytes, parts[i].size);
        at += parts[i].size;
    }
    memcpy(to, head, sizeof head);
    return at;
}

bool point_locale(const char *folder, const char *point)
{
    char path[512];
    char half[8];
    char expected[8];
    char name[16];
    unsigned char numeric[ROOM] = {0};
    size_t size = make_numeric(point, numeric);
    snprintf(name, sizeof name, "point%d", (int)strlen(point));
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/LC_NUMERIC", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(numeric, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("LOCPATH", folder, 1), 0);
    if (setlocale(LC_NUMERIC, name) == NULL) {
        return false;
    }
    snprintf(half, sizeof half, "%.1f", 0.5);
    snprintf(expected, sizeof expected, "0%s5", point);
    return strcmp(half, expected) == 0;
}
