// SPDX-License-Identifier: Apache-2.0
// Finds the reader of a file by its name, or else by its first bytes.
#include "import/import.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "import/onnx_skim.h"

static const ckm_i_importer *const importers[] = {&ckm_i_importer_onnx};
enum { N_IMPORTERS = sizeof importers / sizeof importers[0], START_BYTES = 64 };

static const ckm_i_importer *by_name(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < N_IMPORTERS; i++) {
        size_t n = strlen(importers[i]->extension);
        if (length > n && ckm_i_text_same(path + length - n, importers[i]->extension)) {
            return importers[i];
        }
    }
    return NULL;
}

static ckm_status by_content(const char *path, const ckm_i_importer **out, ckm_error *err)
{
    ckm_i_onnx_source source;
    uint8_t start[START_BYTES];
    CKM_I_CHECK(ckm_i_onnx_source_open(&source, path, err));
    int64_t n = source.size_bytes < START_BYTES ? source.size_bytes : START_BYTES;
    ckm_status status = ckm_i_onnx_source_read(&source, 0, n, start, err);
    ckm_i_onnx_source_close(&source);
    CKM_I_CHECK(ckm_i_error_in_file(err, status, path));
    for (size_t i = 0; i < N_IMPORTERS; i++) {
        if (importers[i]->looks_like(start, (size_t)n)) {
            *out = importers[i];
            return CKM_OK;
        }
    }
    return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1, "is not a network in a known format (ONNX)");
}

ckm_status ckm_import_file(const char *path, const ckm_import_options *options, ckm_graph **out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    ckm_import_options o = CKM_IMPORT_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_import_options, &o, input_dims, options, err));
    const ckm_i_importer *importer = by_name(path);
    if (importer == NULL) {
        CKM_I_CHECK(by_content(path, &importer, err));
    }
    return ckm_i_error_in_file(err, importer->read(path, &o, out, err), path);
}
