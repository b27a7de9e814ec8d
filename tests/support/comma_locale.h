// SPDX-License-Identifier: Apache-2.0
// A locale in which half is 0,5: machines have few locales, so this one comes with the tests.
#ifndef CKM_TESTS_COMMA_LOCALE_H
#define CKM_TESTS_COMMA_LOCALE_H

#include <stdbool.h>

// Makes the locale in the folder, an absolute path, and sets LC_NUMERIC to it; false where the C library does not take it.
bool comma_locale(const char *folder);

#endif
