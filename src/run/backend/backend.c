// SPDX-License-Identifier: Apache-2.0
// Back ends by name.
#include "run/backend/backend_list.h"

#include <string.h>

#include "base/error.h"

typedef struct backend_row {
    const char *name;
    ckm_status (*create)(int threads, ckm_i_backend **out, ckm_error *err);
} backend_row;

#ifdef CKM_BACKEND_WRAP
// Wraps the requested back end in another one (tests/far), which owns `inner` from then on, also when this fails.
ckm_status CKM_BACKEND_WRAP(ckm_i_backend *inner, ckm_i_backend **out, ckm_error *err);
#endif

static ckm_status create(const backend_row *row, int threads, ckm_i_backend **out, ckm_error *err)
{
    ckm_i_backend *backend = NULL;
    CKM_I_CHECK(row->create(threads, &backend, err));
#ifdef CKM_BACKEND_WRAP
    return CKM_BACKEND_WRAP(backend, out, err);
#else
    *out = backend;
    return CKM_OK;
#endif
}

#define ROW(name) {#name, ckm_i_backend_##name##_create},
static const backend_row backends[] = {CKM_I_BACKENDS(ROW)};
#undef ROW

#define NAME(name) ", " #name
#define NAMES CKM_I_BACKENDS(NAME)

ckm_status ckm_i_backend_create(const char *name, int threads, ckm_i_backend **out, ckm_error *err)
{
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        if (strcmp(backends[i].name, name) == 0) {
            return create(&backends[i], threads, out, err);
        }
    }
    return ckm_i_error(err, CKM_ERR_NOT_FOUND, "back end \"%.100s\" is not known (known: %s)", name, &NAMES[2]);
}

void ckm_i_backend_destroy(ckm_i_backend *backend)
{
    if (backend != NULL) {
        backend->destroy(backend);
    }
}
