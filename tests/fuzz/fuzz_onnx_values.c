// SPDX-License-Identifier: Apache-2.0
// Fuzz target: weights of ONNX files, and the copy of a file with new weights. The input is the file; next to it is one
// with external data.
#include <stdlib.h>
#include <string.h>

#include "import/import.h"

#include "support/mutate.h"
#include "support/scratch.h"

enum { MOST_BYTES = 1 << 20, MOST_TENSORS = 64, EXTERNAL_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static int64_t bytes_of(const ckm_graph_tensor_info *t)
{
    static const int64_t sizes[] = {[CKM_F32] = 4, [CKM_F16] = 2, [CKM_BF16] = 2, [CKM_F64] = 8, [CKM_I8] = 1,
                                    [CKM_U8] = 1,  [CKM_I16] = 2, [CKM_I32] = 4,  [CKM_I64] = 8, [CKM_BOOL] = 1};
    int64_t bytes = sizes[t->dtype];
    for (int32_t i = 0; i < t->shape.rank; i++) {
        if (t->shape.dims[i] > MOST_BYTES || (bytes *= t->shape.dims[i]) > MOST_BYTES) {
            return -1;
        }
    }
    return bytes;
}

static void read_all(const char *path, const ckm_graph *graph)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_import_values *values = NULL;
    ckm_export_tensor tensors[MOST_TENSORS];
    int32_t n = 0;
    ckm_status status = ckm_import_values_open(path, NULL, &values, &err);
    require((status == CKM_OK) == (values != NULL));
    for (int32_t i = 0; values != NULL && i < ckm_graph_tensor_count(graph); i++) {
        ckm_graph_tensor_info t = ckm_graph_get_tensor(graph, i);
        int64_t bytes = t.producer < 0 ? bytes_of(&t) : -1;
        bool found = false;
        if (bytes < 0) {
            continue;
        }
        void *out = malloc((size_t)bytes + 1);
        require(out != NULL);
        memset(out, 0, (size_t)bytes + 1);
        status = ckm_import_values_read(values, t.name, t.dtype, &t.shape, out, &found, &err);
        require(status == CKM_OK || err.message[0] != '\0');
        if (t.dtype == CKM_F32 && n < MOST_TENSORS) {
            tensors[n++] = (ckm_export_tensor){t.name, t.dtype, t.shape, out};
        } else {
            free(out);
        }
    }
    ckm_import_values_close(values);
    char target[192];
    strcpy(target, scratch_path("copy.onnx"));
    for (int evaluating = 0; evaluating < 2; evaluating++) {
        status = ckm_i_export_onnx(path, target, tensors, n, evaluating == 1, NULL, 0, &err);
        require(status == CKM_OK || err.message[0] != '\0');
    }
    scratch_drop("copy.onnx");
    for (int32_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)tensors[i].data);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t external[EXTERNAL_BYTES];
    char path[192];
    ckm_graph *graph = NULL;
    scratch_put("weights.bin", external, sizeof external);
    strcpy(path, scratch_put("model.onnx", data, size));
    if (ckm_import_file(path, NULL, &graph, NULL) == CKM_OK) {
        read_all(path, graph);
    }
    ckm_graph_free(graph);
    scratch_drop("model.onnx");
    scratch_drop("weights.bin");
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_onnx(data, size, max_size, 0, seed);
}
