// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the ONNX reader. The first two bytes choose batch and input shape, the rest is the file.
#include <stdlib.h>

#include <checkmate/import.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    if (size < 2) {
        return 0;
    }
    options.batch = data[0] % 5;
    options.input_rank = data[1] % 4;
    for (int32_t i = 0; i < options.input_rank; i++) {
        options.input_dims[i] = 1 + data[1] / 4 % 16;
    }
    ckm_status status = ckm_import_onnx_memory(data + 2, size - 2, &options, &graph, &err);
    if ((status == CKM_OK) != (graph != NULL) || (status != CKM_OK && (err.message[0] == '\0' || err.code != status))) {
        abort();
    }
    if (graph != NULL) {
        for (int32_t i = 0; i < ckm_graph_op_count(graph); i++) {
            ckm_graph_op_info op = ckm_graph_get_op(graph, i);
            for (int32_t k = 0; k < op.n_outputs; k++) {
                ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, op.outputs[k]);
                if (tensor.producer != i || tensor.shape.rank < 0 || tensor.shape.rank > CKM_MAX_RANK) {
                    abort();
                }
            }
        }
        ckm_graph_free(graph);
    }
    return 0;
}
