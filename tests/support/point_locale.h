// SPDX-License-Identifier: Apache-2.0
// A locale in which half is 0,5 or has another decimal point, of however many bytes: machines have few locales, so this one comes
// with the tests.
#ifndef CKM_TESTS_POINT_LOCALE_H
#define CKM_TESTS_POINT_LOCALE_H

#include <stdbool.h>

#define POINT_COMMA ","
#define POINT_PASHTO "\xd9\xab"  // U+066B, that of ps_AF: two bytes

// Makes the locale in the folder, an absolute path, and sets LC_NUMERIC to it; false where the C library does not take it.
bool point_locale(const char *folder, const char *point);

#endif
