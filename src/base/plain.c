// SPDX-License-Identifier: Apache-2.0
// The locale of the thread, changed for a while.
#include "base/plain.h"

#include "base/error.h"

ckm_status ckm_i_plain_begin(ckm_i_plain *p, ckm_error *err)
{
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0) {
        return ckm_i_error_memory(err);
    }
    p->plain = plain;
    p->before = uselocale(plain);
    return CKM_OK;
}

void ckm_i_plain_end(ckm_i_plain *p)
{
    uselocale(p->before);
    freelocale(p->plain);
}
