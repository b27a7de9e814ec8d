// SPDX-License-Identifier: Apache-2.0
// Status codes, errors, logging and cancellation: what every other header builds on.
//
// Conventions, valid for the whole library:
//  - A function that can fail returns ckm_status; CKM_OK is zero. On failure its outputs are untouched
//    and, when `err` is not NULL, *err says what failed and where.
//  - `T **out` is owned by the caller and released by the type's _free function; _free(NULL) is fine.
//    A returned const pointer is borrowed from its parent and lives as long as it does.
//  - A required pointer must not be NULL: CKM_ERR_ARGUMENT names it. Functions that return a value and no status
//    return a neutral one for NULL and for a position out of range: 0, -1 where they document -1, false, "" for a
//    name, else NULL, or a structure of these. `err` and `user` may always be NULL; other pointers where it says so.
//    Arrays must be as long as documented, and objects alive: that cannot be checked.
//  - "infeasible", "time limit" and the like are results, never errors.
//  - The library keeps no mutable globals, never prints, never exits; it logs through a callback.
//  - Objects are not synchronised: share them between threads only for reading.
//  - Structures whose first member is `size` are options: the caller fills them, and they may grow. Begin with their _INIT macro,
//    then set members: `ckm_plan_options options = CKM_PLAN_OPTIONS_INIT; options.seed = 7;`. The macro sets the size and nothing
//    else: a member left 0 (NULL, false) means its default, which its comment names. Where 0 is a choice, and not the default,
//    CKM_NONE asks for it: no limit, a gap of 0. A seed of 0 is a seed like any other. Options are read at the call and not
//    kept. Shorter ones, of a program compiled with older headers, have defaults for the rest; longer ones, of a program
//    compiled with newer headers, are taken if the rest is zero. CKM_ERR_ARGUMENT otherwise, and for a size of 0.
//  - All other structures are frozen. In those that a caller fills, members left 0 are the ordinary case; where they cannot be,
//    the structure says so.
//
// What a release may change. With the same soname (before 1.0 the same minor version, later the same major version):
// new functions; new members at the end of structures that begin with `size`, without padding before or behind them, 0
// meaning what was done before; new enumerators at the end of enumerations that the caller chooses from; texts of errors
// and summaries. Only with a new soname: everything else, such as members of a structure that the library fills or
// returns or that is passed by value, an argument, the number of an enumerator, an enumerator that a function returns.
#ifndef CHECKMATE_BASE_H
#define CHECKMATE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define CKM_API __attribute__((visibility("default")))
#define CKM_NODISCARD __attribute__((warn_unused_result))
#define CKM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define CKM_API
#define CKM_NODISCARD
#define CKM_PRINTF(fmt, args)
#endif

// What options begin with, used by their _INIT macros.
#ifdef __cplusplus
template <typename T> inline T ckm_sized()
{
    T options = T();
    options.size = sizeof(T);
    return options;
}
#define CKM_SIZED(type) ckm_sized<type>()
#else
// clang-format off
#define CKM_SIZED(type) { .size = sizeof(type) }
// clang-format on
#endif

// In options: 0, or no limit, where 0 stands for a default that is something else.
#define CKM_NONE (-1)

#ifdef __cplusplus
extern "C" {
#endif

#define CKM_VERSION_MAJOR 0
#define CKM_VERSION_MINOR 1
#define CKM_VERSION_PATCH 0
#define CKM_VERSION_STRING "0.1.0"

typedef enum ckm_status {
    CKM_OK = 0,
    CKM_ERR_ARGUMENT = 1,     // a call's arguments are unusable
    CKM_ERR_MEMORY = 2,       // allocation failed
    CKM_ERR_IO = 3,           // a file could not be read or written
    CKM_ERR_FORMAT = 4,       // a file or object breaks its format: syntax, type, index, cycle, negative size
    CKM_ERR_OVERFLOW = 5,     // sizes or costs do not fit 63 bits
    CKM_ERR_UNSUPPORTED = 6,  // well-formed, but beyond what this library does
    CKM_ERR_NOT_FOUND = 7,    // an unknown name
    CKM_ERR_INTERNAL = 8,     // a bug, or an engine that failed; the message says which
    CKM_ERR_STOPPED = 9       // the caller's `stop` ended a call that has no result yet
} ckm_status;

// Where and why a call failed. The caller holds it; initialise with CKM_ERROR_INIT or leave it as is,
// every failing call sets all members. `message` is one line without a trailing newline.
typedef struct ckm_error {
    ckm_status code;
    int64_t line;    // 1-based line in `file`, or 0
    int64_t byte;    // 0-based position in `file`, or -1
    char file[256];  // path as the caller gave it, or ""
    char message[4096];
} ckm_error;

// clang-format off
#define CKM_ERROR_INIT \
    { CKM_OK, 0, -1, "", "" }
// clang-format on

typedef enum ckm_log_level { CKM_LOG_ERROR, CKM_LOG_WARN, CKM_LOG_INFO, CKM_LOG_DEBUG } ckm_log_level;

// Receives one line without a newline. May be called from the thread that called the library only.
typedef void (*ckm_log_fn)(ckm_log_level level, const char *line, void *user);

// Polled by long calls; returning true ends them with the best result so far. Must be cheap.
typedef bool (*ckm_stop_fn)(void *user);

// Short name of a status, such as "out of memory". Never NULL.
CKM_API const char *ckm_status_name(ckm_status status);

// Replaces the file atomically, as every function of the library that writes a file does: at any moment there is either the
// old one or the new one, and permissions stay. Symbolic links are written through; devices, pipes, "-" (standard output) and
// /dev/fd/N are written directly. Errors: CKM_ERR_IO, CKM_ERR_MEMORY.
CKM_API ckm_status ckm_file_replace(const char *path, const void *data, size_t size_bytes,
                                    ckm_error *err) CKM_NODISCARD;

// Whether ckm_file_replace could start writing now: to fail before a long computation rather than after it.
CKM_API ckm_status ckm_file_check_output(const char *path, ckm_error *err) CKM_NODISCARD;

// How the library writes strings and numbers into JSON, for programs whose own output goes with its. A string with its
// quotes; bytes that are not UTF-8 become U+FFFD, and NULL becomes null. A number in as few digits as read back as the same
// one, with a point in any locale; null when it is not finite. The caller checks the stream for errors (ferror).
CKM_API void ckm_json_write_text(FILE *stream, const char *text);
CKM_API void ckm_json_write_number(FILE *stream, double number);

// Version of the library that is running, "major.minor.patch".
CKM_API const char *ckm_version(void);
// Bytes of memory available without swapping, within the limit of the process's control group; -1: not known.
CKM_API int64_t ckm_host_free_bytes(void);

// sizeof of a structure of the planning interface, such as "ckm_step", in the library that is running: for callers that repeat the
// structures in another language. 0 for a name that is none of base.h, cost.h, dataflow.h, emit.h, max_batch.h, min_budget.h,
// schedule.h and solve.h.
CKM_API size_t ckm_struct_size(const char *name);

#ifdef __cplusplus
}
#endif
#endif
