// SPDX-License-Identifier: Apache-2.0
// Filling in ckm_error. Every function here accepts err == NULL and returns the code it was given, so that
// `return ckm_i_error(err, CKM_ERR_FORMAT, "...")` is the usual way to fail.
#ifndef CKM_SRC_BASE_ERROR_H
#define CKM_SRC_BASE_ERROR_H

#include <checkmate/base.h>

ckm_status ckm_i_error(ckm_error *err, ckm_status code, const char *format, ...) CKM_PRINTF(3, 4);
// The same with a place in a file: line (1-based, 0 unknown) and byte (0-based, -1 unknown).
ckm_status ckm_i_error_at(ckm_error *err, ckm_status code, const char *file, int64_t line, int64_t byte,
                          const char *format, ...) CKM_PRINTF(6, 7);
// The compiler cannot see that these return the code they are given. With this hint, it and static analysis know
// that such a path fails, and do not expect outputs to be set on it.
static inline ckm_status ckm_i_error_known(ckm_status returned, ckm_status code)
{
    (void)returned;
    return code;
}
#define ckm_i_error(err, code, ...) ckm_i_error_known(ckm_i_error(err, code, __VA_ARGS__), code)
#define ckm_i_error_at(err, code, ...) ckm_i_error_known(ckm_i_error_at(err, code, __VA_ARGS__), code)

// "out of memory".
ckm_status ckm_i_error_memory(ckm_error *err);
#define ckm_i_error_memory(err) ckm_i_error_known(ckm_i_error_memory(err), CKM_ERR_MEMORY)
// Adds the file name to an error that was raised without one. Returns status.
ckm_status ckm_i_error_in_file(ckm_error *err, ckm_status status, const char *file);

// "<function>: <argument> is NULL".
ckm_status ckm_i_error_null(ckm_error *err, const char *function, const char *argument);
#define ckm_i_error_null(err, function, argument) \
    ckm_i_error_known(ckm_i_error_null(err, function, argument), CKM_ERR_ARGUMENT)

// Public functions refuse NULL where they need something: returns CKM_ERR_ARGUMENT. `name` is what the header calls the
// argument, where that is not what it is called here.
#define CKM_I_NEED_NAMED(argument, name, err)               \
    do {                                                    \
        if ((argument) == NULL) {                           \
            return ckm_i_error_null((err), __func__, name); \
        }                                                   \
    } while (0)
#define CKM_I_NEED(argument, err) CKM_I_NEED_NAMED(argument, #argument, err)

// if (status != OK) goto cleanup, for functions with a `status` variable and a `cleanup:` label.
#define CKM_I_TRY(expression)   \
    do {                        \
        status = (expression);  \
        if (status != CKM_OK) { \
            goto cleanup;       \
        }                       \
    } while (0)

// return when the expression is not CKM_OK, for functions that own nothing.
#define CKM_I_CHECK(expression)               \
    do {                                      \
        ckm_status try_status = (expression); \
        if (try_status != CKM_OK) {           \
            return try_status;                \
        }                                     \
    } while (0)

#endif
