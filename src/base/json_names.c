// SPDX-License-Identifier: Apache-2.0
// Unknown members that resemble known ones: typing errors that would otherwise go unnoticed.
#include <string.h>

#include "base/json.h"

enum { LONGEST = 32 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

// Characters to insert, drop or change to turn a into b, ignoring case; LONGEST where one is longer than that.
static int edits(const char *a, const char *b)
{
    int row[LONGEST + 1];
    size_t n = strlen(a);
    size_t m = strlen(b);
    if (n > LONGEST || m > LONGEST) {
        return LONGEST;
    }
    for (size_t j = 0; j <= m; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int least = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
            least = row[j] + 1 < least ? row[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            diagonal = row[j];
            row[j] = least;
        }
    }
    return row[m];
}

// One edit in a short name, two in a longer one, or the beginning of the name: "workspace".
static bool resembles(const char *key, const char *name)
{
    enum { SHORT = 5, LEAST = 4 };
    size_t n = strlen(key);
    return edits(key, name) <= (strlen(name) <= SHORT ? 1 : 2) || (n >= LEAST && strncmp(key, name, n) == 0);
}

static bool is_one_of(const char *key, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(key, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

ckm_status ckm_i_json_check_names(const json_t *object, const ckm_i_json_place *place, const char *const *names, int n,
                                  ckm_error *err)
{
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        for (int i = 0; i < n && !is_one_of(key, names, n); i++) {
            if (resembles(key, names[i])) {
                ckm_i_json_place here = ckm_i_json_member(place, key);
                return ckm_i_json_error(err, &here, "is no member that is read; did you mean \"%s\"?", names[i]);
            }
        }
    }
    return CKM_OK;
}
