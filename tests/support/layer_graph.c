// SPDX-License-Identifier: Apache-2.0
#include "layer_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void check(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static void add(ckm_dataflow *df, ckm_op_kind kind, int64_t cost, int64_t bytes, const int32_t *inputs,
                int32_t n_inputs)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow_tensor tensor = {.bytes = bytes, .alias_of = -1};
    int32_t output = -1;
    check(ckm_dataflow_add_tensor(df, &tensor, &output, &err), &err);
    ckm_dataflow_op op = {
        .kind = kind, .cost = cost, .n_inputs = n_inputs, .n_outputs = 1, .inputs = inputs, .outputs = &output};
    check(ckm_dataflow_add_op(df, &op, NULL, &err), &err);
}

static bool feeds(const layer_spec *layer, int32_t operand)
{
    for (int32_t i = 0; i < layer->n_operands; i++) {
        if (layer->operands[i] == operand) {
            return true;
        }
    }
    return false;
}

// Operator v makes tensor v, so operands are operator numbers.
static void add_backward(ckm_dataflow *df, const layer_spec *layers, int32_t n, int32_t j, ckm_op_kind kind,
                         int64_t cost)
{
    int32_t inputs[64];
    int32_t n_inputs = 0;
    inputs[n_inputs++] = j;
    for (int32_t k = j + 1; k < n; k++) {
        if (feeds(&layers[k], j)) {
            assert_true(n_inputs + 2 <= 64);
            inputs[n_inputs++] = k;
            inputs[n_inputs++] = 2 * n - k;
        }
    }
    if (j == n - 1) {
        inputs[n_inputs++] = n;
    }
    add(df, kind, cost, layers[j].bytes, inputs, n_inputs);
}

static ckm_dataflow *build(const layer_spec *layers, int32_t n, int64_t fixed_bytes, int64_t loss_bytes,
                           int64_t loss_cost, int64_t backward_factor, bool with_kinds)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    check(ckm_dataflow_create("layers", CKM_COST_FLOPS, fixed_bytes, &df, &err), &err);
    for (int32_t j = 0; j < n; j++) {
        add(df, CKM_OP_FORWARD, layers[j].cost, layers[j].bytes, layers[j].operands, layers[j].n_operands);
    }
    int32_t last = n - 1;
    add(df, with_kinds ? CKM_OP_LOSS : CKM_OP_FORWARD, loss_cost, loss_bytes, &last, 1);
    for (int32_t j = n - 1; j >= 0; j--) {
        add_backward(df, layers, n, j, with_kinds ? CKM_OP_BACKWARD : CKM_OP_FORWARD, backward_factor * layers[j].cost);
    }
    check(ckm_dataflow_finish(df, &err), &err);
    return df;
}

ckm_dataflow *layer_graph_build(const layer_spec *layers, int32_t n, int64_t fixed_bytes, int64_t loss_bytes,
                                bool with_kinds)
{
    return build(layers, n, fixed_bytes, loss_bytes, 0, 2, with_kinds);
}

ckm_dataflow *layer_graph_unit_chain(int32_t n)
{
    layer_spec layers[256] = {0};
    assert_in_range(n, 1, 256);
    for (int32_t j = 0; j < n; j++) {
        layers[j] = (layer_spec){.cost = 1, .bytes = 1, .n_operands = j > 0, .operands = {j - 1}};
    }
    return build(layers, n, 0, 1, 1, 1, true);
}

// A layer of a chain: output height and width, channels, and multiply-accumulates per output element.
typedef struct chain_layer {
    int32_t side, channels, macs;
} chain_layer;

static ckm_dataflow *build_chain(const chain_layer *chain, int32_t n, int64_t fixed_bytes)
{
    layer_spec layers[32] = {0};
    assert_in_range(n, 1, 32);
    for (int32_t j = 0; j < n; j++) {
        int64_t elements = (int64_t)chain[j].side * chain[j].side * chain[j].channels;
        layers[j] = (layer_spec){
            .cost = elements * chain[j].macs, .bytes = 4 * elements, .n_operands = j > 0, .operands = {j - 1}};
    }
    return layer_graph_build(layers, n, fixed_bytes, 4, true);
}

ckm_dataflow *layer_graph_linear8(void)
{
    // Eight 3x3 convolutions without padding, global average pooling, a dense layer.
    chain_layer chain[10];
    for (int32_t j = 0; j < 8; j++) {
        chain[j] = (chain_layer){222 - 2 * j, 64, j == 0 ? 27 : 576};
    }
    chain[8] = (chain_layer){1, 64, 0};
    chain[9] = (chain_layer){1, 1000, 64};
    return build_chain(chain, 10, INT64_C(8) * 324776);
}

ckm_dataflow *layer_graph_vgg19(void)
{
    static const chain_layer chain[25] = {
        {224, 64, 27}, {224, 64, 576},  {112, 64, 0},     {112, 128, 576}, {112, 128, 1152},
        {56, 128, 0},  {56, 256, 1152}, {56, 256, 2304},  {56, 256, 2304}, {56, 256, 2304},
        {28, 256, 0},  {28, 512, 2304}, {28, 512, 4608},  {28, 512, 4608}, {28, 512, 4608},
        {14, 512, 0},  {14, 512, 4608}, {14, 512, 4608},  {14, 512, 4608}, {14, 512, 4608},
        {7, 512, 0},   {1, 25088, 0},   {1, 4096, 25088}, {1, 4096, 4096}, {1, 1000, 4096},
    };
    return build_chain(chain, 25, INT64_C(8) * 143667240);
}
