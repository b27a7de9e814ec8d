// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Here the functions themselves are meant.
#undef ckm_i_error
#undef ckm_i_error_at
#undef ckm_i_error_memory
#undef ckm_i_error_null

static CKM_PRINTF(6, 0) ckm_status fill(ckm_error *err, ckm_status code, const char *file, int64_t line, int64_t byte,
                                        const char *format, va_list args)
{
    if (err == NULL) {
        return code;
    }
    char message[sizeof err->message];  // the arguments may point into *err
    vsnprintf(message, sizeof message, format, args);
    for (char *c = message; *c != '\0'; c++) {
        if (*c == '\n' || *c == '\r') {
            *c = ' ';
        }
    }
    char path[sizeof err->file];
    snprintf(path, sizeof path, "%s", file != NULL ? file : "");
    err->code = code;
    err->line = line;
    err->byte = byte;
    memcpy(err->file, path, sizeof path);
    memcpy(err->message, message, sizeof message);
    return code;
}

ckm_status ckm_i_error(ckm_error *err, ckm_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, NULL, 0, -1, format, args);
    va_end(args);
    return code;
}

ckm_status ckm_i_error_at(ckm_error *err, ckm_status code, const char *file, int64_t line, int64_t byte,
                          const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, file, line, byte, format, args);
    va_end(args);
    return code;
}

ckm_status ckm_i_error_memory(ckm_error *err)
{
    return ckm_i_error(err, CKM_ERR_MEMORY, "out of memory");
}

ckm_status ckm_i_error_null(ckm_error *err, const char *function, const char *argument)
{
    return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: %s is NULL", function, argument);
}

ckm_status ckm_i_error_in_file(ckm_error *err, ckm_status status, const char *file)
{
    if (status != CKM_OK && err != NULL && err->file[0] == '\0' && file != NULL) {
        snprintf(err->file, sizeof err->file, "%s", file);
    }
    return status;
}

const char *ckm_status_name(ckm_status status)
{
    static const char *const names[] = {
        "ok",       "bad argument", "out of memory", "input/output error", "bad format",
        "overflow", "unsupported",  "not found",     "internal error",     "stopped",
    };
    size_t i = (size_t)status;
    return i < sizeof names / sizeof names[0] ? names[i] : "unknown status";
}

const char *ckm_version(void)
{
    return CKM_VERSION_STRING;
}
