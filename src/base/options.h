// SPDX-License-Identifier: Apache-2.0
// Reading structures of options, which begin with their size: a program may have been compiled with the headers of an
// older or a newer library (checkmate/base.h says what may be added). Public functions read them at the entry; everything
// behind works on the library's own copy.
#ifndef CKM_SRC_BASE_OPTIONS_H
#define CKM_SRC_BASE_OPTIONS_H

#include <checkmate/base.h>

// Copies `given` over `own`, which its _INIT macro has filled; NULL leaves it so. What is shorter than `own_size` leaves the
// members it lacks at 0. Bytes that are beyond `own_size` must be zero. CKM_ERR_ARGUMENT when they are not, and
// for a size less than `least_size` or beyond all reason; `own` is then untouched. `name` is that of the structure.
ckm_status ckm_i_options_read(void *own, size_t own_size, size_t least_size, const void *given, const char *name,
                              ckm_error *err) CKM_NODISCARD;

// The same for an `own` of that type. `last` is the last member that the first version of the structure had.
#define CKM_I_OPTIONS_READ(type, own, last, given, err)                                           \
    ckm_i_options_read((type *){(own)}, sizeof(type), offsetof(type, last) + sizeof((own)->last), \
                       (const type *){(given)}, #type, (err))

// A number whose 0 means `usual` and whose CKM_NONE means 0. What it gives is not to be read again: a 0 would become `usual`.
static inline double ckm_i_usual(double given, double usual)
{
    return given == 0.0 ? usual : given == CKM_NONE ? 0.0 : given;
}

// A number whose 0 means `usual` and that cannot otherwise be 0.
static inline int64_t ckm_i_usual_count(int64_t given, int64_t usual)
{
    return given == 0 ? usual : given;
}

#endif
