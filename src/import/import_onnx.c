// SPDX-License-Identifier: Apache-2.0
// The ONNX reader: skim the file (onnx_skim.c), resolve names (onnx_model.c), find the parameters
// (onnx_roles.c), then walk the nodes, folding constants (onnx_fold.c) and converting the rest
// (onnx_convert.c and the onnx_rows_*.c tables).
#include <stdlib.h>

#include "base/error.h"
#include "base/options.h"
#include "import/import.h"
#include "import/onnx_convert.h"

static ckm_status read_source(ckm_i_onnx_source *source, const ckm_import_options *options, ckm_graph **out,
                              ckm_error *err)
{
    ckm_i_onnx_convert c = {.options = options};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_onnx_model_read(source, &c.model, err));
    CKM_I_TRY(ckm_i_onnx_convert_model(&c, err));
    *out = c.graph;
    c.graph = NULL;
cleanup:
    ckm_graph_free(c.graph);
    ckm_graph_free(c.scratch);
    ckm_i_onnx_model_free(c.model);
    return status;
}

static ckm_status read_onnx(const char *path, const ckm_import_options *options, ckm_graph **out, ckm_error *err)
{
    ckm_i_onnx_source source;
    CKM_I_CHECK(ckm_i_onnx_source_open(&source, path, err));
    ckm_status status = read_source(&source, options, out, err);
    ckm_i_onnx_source_close(&source);
    return status;
}

ckm_status ckm_import_onnx_memory(const void *data, size_t size_bytes, const ckm_import_options *options,
                                  ckm_graph **out, ckm_error *err)
{
    CKM_I_NEED(data, err);
    CKM_I_NEED(out, err);
    ckm_import_options o = CKM_IMPORT_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_import_options, &o, input_dims, options, err));
    ckm_i_onnx_source source;
    ckm_i_onnx_source_memory(&source, data, size_bytes);
    return read_source(&source, &o, out, err);
}

// A serialized model starts with its IR version, a small number: field 1, then 1 to 127.
static bool looks_like_onnx(const uint8_t *start, size_t size_bytes)
{
    return size_bytes > 2 && start[0] == 0x08 && start[1] > 0 && start[1] < 0x80;
}

const ckm_i_importer ckm_i_importer_onnx = {"ONNX", ".onnx", looks_like_onnx, read_onnx};
