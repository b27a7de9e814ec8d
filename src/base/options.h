// SPDX-License-Identifier: Apache-2.0
// Reading structures of options, which begin with their size: a program may have been compiled with the headers of an
// older or a newer library (checkmate/base.h says what may be added). Public functions read them at the entry; everything
// behind works on the library's own copy.
#ifndef CKM_SRC_BASE_OPTIONS_H
#define CKM_SRC_BASE_OPTIONS_H

#include <checkmate/base.h>

// Copies `given` over `own`, which holds the defaults; NULL leaves them all. What is shorter than `own_size` leaves the
// defaults of the members it lacks. Bytes that are beyond `own_size` must be zero. CKM_ERR_ARGUMENT when they are not, and
// for a size less than `least_size` or beyond all reason; `own` is then untouched. `name` is that of the structure.
ckm_status ckm_i_options_read(void *own, size_t own_size, size_t least_size, const void *given, const char *name,
                              ckm_error *err) CKM_NODISCARD;

// The same for an `own` of that type. `last` is the last member that the first version of the structure had.
#define CKM_I_OPTIONS_READ(type, own, last, given, err)                                           \
    ckm_i_options_read((type *){(own)}, sizeof(type), offsetof(type, last) + sizeof((own)->last), \
                       (const type *){(given)}, #type, (err))

#endif
