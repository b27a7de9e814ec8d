// SPDX-License-Identifier: Apache-2.0
// Parts of the page that the build packs into the library (cmake/CheckmateAssets.cmake): its own, from page/, and the
// JavaScript libraries it uses, from the system's packages.
#ifndef CKM_SRC_EMIT_EMIT_ASSETS_H
#define CKM_SRC_EMIT_EMIT_ASSETS_H

#include <stddef.h>

typedef struct ckm_i_asset {
    const char *name;  // of the marker in page.html that it replaces; the page itself is "page"
    const unsigned char *data;
    size_t size;
} ckm_i_asset;

extern const ckm_i_asset ckm_i_assets[];
extern const size_t ckm_i_n_assets;

#endif
