// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the ONNX reader, and what training and costs make of the network that it gives. The first two bytes
// choose batch and input shape, the rest is the file.
#include <stdlib.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/import.h>

#include "support/mutate.h"

enum { PREFIX = 2, MOST_OPS = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_tensors(const ckm_graph *graph)
{
    for (int32_t i = 0; i < ckm_graph_op_count(graph); i++) {
        ckm_graph_op_info op = ckm_graph_get_op(graph, i);
        for (int32_t k = 0; k < op.n_outputs; k++) {
            ckm_graph_tensor_info tensor = ckm_graph_get_tensor(graph, op.outputs[k]);
            require(tensor.producer == i && tensor.shape.rank >= 0 && tensor.shape.rank <= CKM_MAX_RANK);
            for (int32_t d = 0; d < tensor.shape.rank; d++) {
                require(tensor.shape.dims[d] >= 1);
            }
        }
        for (int32_t k = 0; k < op.n_inputs; k++) {
            require(op.inputs[k] >= -1 && op.inputs[k] < ckm_graph_tensor_count(graph));
        }
    }
}

// A graph that cannot be trained is an error that says so; one that can has costs, counted and predicted.
static void train(const ckm_graph *graph, bool layer)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_training *training = NULL;
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    options.optimizer.kind = CKM_OPTIMIZER_SGD;
    options.loss = ckm_graph_op_count(graph) % 2 != 0 ? CKM_LOSS_MSE : CKM_LOSS_SOFTMAX_CROSS_ENTROPY;
    ckm_status status = layer ? ckm_autodiff_layer_graph(graph, &training, &err)
                              : ckm_autodiff_op_graph(graph, &options, &training, &err);
    require((status == CKM_OK) == (training != NULL) && status != CKM_ERR_INTERNAL);
    require(status == CKM_OK || (err.message[0] != '\0' && err.code == status));
    for (int device = 0; status == CKM_OK && device < 2; device++) {
        ckm_cost_model model = CKM_COST_MODEL_INIT;
        ckm_dataflow *df = NULL;
        model.kind = device ? CKM_COST_MODEL_DEVICE : CKM_COST_MODEL_FLOPS;
        model.device = ckm_device_at(0);
        ckm_status costed = ckm_cost_apply(training, &model, &df, &err);
        require((costed == CKM_OK) == (df != NULL) && costed != CKM_ERR_INTERNAL);
        ckm_dataflow_free(df);
    }
    ckm_training_free(training);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_import_options options = CKM_IMPORT_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    if (size < PREFIX) {
        return 0;
    }
    options.batch = data[0] % 5;
    options.input_rank = data[1] % 4;
    for (int32_t i = 0; i < options.input_rank; i++) {
        options.input_dims[i] = 1 + data[1] / 4 % 16;
    }
    ckm_status status = ckm_import_onnx_memory(data + PREFIX, size - PREFIX, &options, &graph, &err);
    require((status == CKM_OK) == (graph != NULL) && status != CKM_ERR_INTERNAL);
    require(status == CKM_OK || (err.message[0] != '\0' && err.code == status));
    if (graph != NULL) {
        check_tensors(graph);
        if (ckm_graph_op_count(graph) <= MOST_OPS) {
            train(graph, false);
            train(graph, true);
        }
        ckm_graph_free(graph);
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_onnx(data, size, max_size, PREFIX, seed);
}
