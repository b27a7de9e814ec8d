// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <string.h>

#include "base/error.h"

// No structure of options is larger; a larger value is not a size.
enum { MOST_BYTES = 4096 };

// "ckm_plan_options": "CKM_PLAN_OPTIONS".
static void upper(const char *name, char *out, size_t room)
{
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < room; n++) {
        out[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 'a' + 'A' : name[n]);
    }
    out[n] = '\0';
}

ckm_status ckm_i_options_read(void *own, size_t own_size, size_t least_size, const void *given, const char *name,
                              ckm_error *err)
{
    size_t size;
    char macro[64];
    if (given == NULL) {
        return CKM_OK;
    }
    memcpy(&size, given, sizeof size);
    if (size < least_size || size > MOST_BYTES) {
        upper(name, macro, sizeof macro);
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s.size is %zu, which no version has: begin with %s_INIT", name,
                           size, macro);
    }
    const unsigned char *bytes = given;
    for (size_t i = own_size; i < size; i++) {
        if (bytes[i] != 0) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT,
                               "%s has a member set (byte %zu) that checkmate %s does not know: link the newer library "
                               "whose headers the program was compiled with",
                               name, i, CKM_VERSION_STRING);
        }
    }
    memcpy(own, given, size < own_size ? size : own_size);
    memcpy(own, &own_size, sizeof own_size);
    return CKM_OK;
}
