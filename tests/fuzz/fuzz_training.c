// SPDX-License-Identifier: Apache-2.0
// Fuzz target: ONNX files as far as training goes. The network that the reader accepts becomes a step, and every kernel
// runs once, on the reference back end or the fast one, with each tensor in a buffer of exactly its size, so that a
// sanitizer sees what goes past one. The first byte chooses back end, optimizer and values, the rest is the file.
#include <stdlib.h>
#include <string.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/import.h>

#include "run/session/program.h"
#include "run/session/session.h"
#include "support/mutate.h"

enum {
    PREFIX = 1,
    MOST_OPS = 300,
    MOST_BYTES = 4 << 20,
    MOST_WORKSPACE = 1 << 26,
    MOST_COST = 2000000,
    ALIGNMENT = 64
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

static void *room(int64_t bytes)
{
    void *pointer = NULL;
    require(posix_memalign(&pointer, ALIGNMENT, bytes > 0 ? (size_t)bytes : 1) == 0);
    memset(pointer, 0, bytes > 0 ? (size_t)bytes : 1);
    return pointer;
}

static int64_t bytes_of(const ckm_i_graph_tensor *t)
{
    return ckm_i_elements(&t->shape) * ckm_i_dtype_bytes(t->dtype);
}

// Reals around 1; integers that mostly are positions and classes, sometimes none.
static void fill(const ckm_i_graph_tensor *t, int64_t limit, uint8_t choice, void *to)
{
    uint64_t state = choice;
    for (int64_t i = 0; i < ckm_i_elements(&t->shape); i++) {
        int64_t number = limit > 0 ? (int64_t)mutate_pick(&state, (uint32_t)(limit < 1000 ? limit : 1000)) : 0;
        number = (choice & 128) != 0 && mutate_pick(&state, 16) == 0 ? mutate_integer(&state) : number;
        if (t->dtype == CKM_F32) {
            ((float *)to)[i] = 0.5F + (float)mutate_pick(&state, 100) / 50.0F;
        } else if (t->dtype == CKM_I32) {
            ((int32_t *)to)[i] = (int32_t)number;
        } else if (t->dtype == CKM_I64) {
            ((int64_t *)to)[i] = number;
        }
    }
}

static ckm_i_backend *backend(bool fast)
{
    static ckm_i_backend *made[2];
    if (made[fast] == NULL) {
        require(ckm_i_backend_create(fast ? "cpu" : "reference", 1, &made[fast], NULL) == CKM_OK);
    }
    return made[fast];
}

// False when the operator cannot run, which has to have a reason.
static bool run_op(ckm_i_backend *b, const ckm_training *training, int32_t v, void *const *buffers)
{
    const ckm_graph *step = training->step;
    const ckm_i_graph_op *op = &step->ops[v];
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_kernel *kernel = NULL;
    int64_t workspace = 0;
    if (ckm_i_program_is_view(training, v)) {
        for (int32_t k = 0; k < op->n_outputs; k++) {
            memcpy(buffers[op->outputs[k]], buffers[op->inputs[0]], (size_t)bytes_of(&step->tensors[op->outputs[k]]));
        }
        return true;
    }
    ckm_status status = b->prepare(b, step, v, &kernel, &workspace, &err);
    require((status == CKM_OK) == (kernel != NULL) && (status == CKM_OK || err.message[0] != '\0'));
    require(status != CKM_OK || workspace >= 0);
    if (status != CKM_OK || workspace > MOST_WORKSPACE) {
        b->free_kernel(b, kernel);
        return false;
    }
    const void **inputs = calloc((size_t)op->n_inputs + 1, sizeof *inputs);
    void **outputs = calloc((size_t)op->n_outputs + 1, sizeof *outputs);
    void *aside = room(workspace);
    require(inputs != NULL && outputs != NULL);
    for (int32_t k = 0; k < op->n_inputs; k++) {
        inputs[k] = op->inputs[k] >= 0 ? buffers[op->inputs[k]] : NULL;
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        outputs[k] = buffers[op->outputs[k]];
    }
    ckm_i_kernel_call call = {.inputs = inputs,
                              .outputs = outputs,
                              .workspace = workspace > 0 ? aside : NULL,
                              .seed = 1,
                              .op = v,
                              .first = true,
                              .learning_rate = 0.01};
    status = b->run(b, kernel, &call, &err);
    require(status == CKM_OK || err.message[0] != '\0');
    b->free_kernel(b, kernel);
    free(aside);
    free(inputs);
    free(outputs);
    return status == CKM_OK;
}

static void run_step(const ckm_training *training, uint8_t choice)
{
    const ckm_graph *step = training->step;
    int64_t total = 0;
    for (int32_t i = 0; i < step->n_tensors; i++) {
        int64_t bytes = bytes_of(&step->tensors[i]);
        if (bytes > MOST_BYTES || (total += bytes) > MOST_BYTES) {
            return;
        }
    }
    void **buffers = calloc((size_t)step->n_tensors + 1, sizeof *buffers);
    require(buffers != NULL);
    for (int32_t i = 0; i < step->n_tensors; i++) {
        buffers[i] = room(bytes_of(&step->tensors[i]));
        if (step->tensors[i].producer < 0) {
            fill(&step->tensors[i], ckm_i_session_value_limit(step, i), choice, buffers[i]);
        }
    }
    bool goes_on = true;
    for (int32_t v = 0; goes_on && v < step->n_ops; v++) {
        goes_on = run_op(backend((choice & 1) != 0), training, v, buffers);
    }
    for (int32_t i = 0; i < step->n_tensors; i++) {
        free(buffers[i]);
    }
    free(buffers);
}

static void train(const ckm_graph *graph, uint8_t choice)
{
    ckm_training *training = NULL;
    ckm_dataflow *df = NULL;
    ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_cost_model costs = CKM_COST_MODEL_INIT;
    options.optimizer.kind = (ckm_optimizer_kind)(choice >> 1 & 3);
    options.optimizer.momentum = (choice & 8) != 0 ? 0.9 : 0.0;
    options.loss = (choice & 16) != 0 ? CKM_LOSS_SOFTMAX_CROSS_ENTROPY : CKM_LOSS_MSE;
    options.late_updates = (choice & 32) == 0;
    if (ckm_autodiff_op_graph(graph, &options, &training, NULL) != CKM_OK) {
        return;
    }
    // Cheap enough to be run.
    if (ckm_cost_apply(training, &costs, &df, NULL) == CKM_OK && ckm_dataflow_total_cost(df) <= MOST_COST) {
        run_step(training, choice);
    }
    ckm_dataflow_free(df);
    ckm_training_free(training);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_graph *graph = NULL;
    if (size < PREFIX || ckm_import_onnx_memory(data + PREFIX, size - PREFIX, NULL, &graph, NULL) != CKM_OK) {
        return 0;
    }
    if (ckm_graph_op_count(graph) <= MOST_OPS) {
        train(graph, data[0]);
    }
    ckm_graph_free(graph);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return mutate_onnx(data, size, max_size, PREFIX, seed);
}
