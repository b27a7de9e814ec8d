// SPDX-License-Identifier: Apache-2.0
// Your own networks, defined layer by layer as in Keras.
//
//     ckm_network_create("digits", 32, &net, &err);
//     ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, (int64_t[]){28, 28, 1});
//     x = ckm_network_conv(net, x, (ckm_conv_layer){.filters = 16, .kernel = {3}, .activation = "relu"});
//     x = ckm_network_dense(net, ckm_network_flatten(net, x, NULL), NULL, 10, NULL);
//     ckm_network_finish(net, x, &graph, &err);
//     ckm_network_free(net);
//
// Every function adds a layer after others and returns it. Errors stick: after the first failure every call does nothing
// and returns -1, and ckm_network_finish reports what failed in which layer, "layer 3 (dense)" being the third that was added after
// the inputs, so a network can be defined without a check after each layer. If the name is NULL, one is made from the kind of layer
// and a number. Images are height, width, channels (channels last).
#ifndef CHECKMATE_NETWORK_H
#define CHECKMATE_NETWORK_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_network ckm_network;  // under construction
typedef int32_t ckm_layer;               // -1: a failure

CKM_API ckm_status ckm_network_create(const char *name, int64_t batch, ckm_network **out, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_network_free(ckm_network *net);
// What the network is trained for, and by that its loss; CKM_TASK_CLASSES unless set.
CKM_API void ckm_network_set_task(ckm_network *net, ckm_task task);
// An input: `dims` are those of one sample. Real images or vectors (CKM_F32), or tokens (CKM_I32), of which a sample has
// dims[0]. Several are possible.
CKM_API ckm_layer ckm_network_input(ckm_network *net, const char *name, ckm_dtype dtype, int32_t rank,
                                    const int64_t *dims);
// Shape of a layer, the batch first; rank 0 after a failure.
CKM_API ckm_shape ckm_network_shape(const ckm_network *net, ckm_layer x);
// The network whose output is `output`: the scores of the classes, without a softmax, which is part of the loss. Layers that it does
// not need are dropped. `net` can no longer be used, but still has to be freed. Errors: CKM_ERR_ARGUMENT with the first layer that could not
// be added and why; CKM_ERR_OVERFLOW; CKM_ERR_MEMORY. O(layers).
CKM_API ckm_status ckm_network_finish(ckm_network *net, ckm_layer output, ckm_graph **out,
                                      ckm_error *err) CKM_NODISCARD;

// Layers. Members left 0 or NULL are defaults, those of Keras; a pair whose second member is 0 is square. Activations are
// "linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "swish" or "silu", "mish", "sigmoid",
// "hard_sigmoid", "hard_swish", "tanh", "softplus", "softsign" and "softmax".

typedef struct ckm_conv_layer {
    const char *name;
    int64_t filters;
    int64_t kernel[2], strides[2], dilation[2];
    const char *padding;     // "valid" (default) or "same"
    const char *activation;  // "linear" (default) or another of the above
    bool no_bias;
} ckm_conv_layer;
CKM_API ckm_layer ckm_network_conv(ckm_network *net, ckm_layer x, ckm_conv_layer c);
CKM_API ckm_layer ckm_network_conv_transpose(ckm_network *net, ckm_layer x, ckm_conv_layer c);
// One filter a channel; c.filters is not used.
CKM_API ckm_layer ckm_network_depthwise_conv(ckm_network *net, ckm_layer x, ckm_conv_layer c);

typedef struct ckm_pool_layer {
    const char *name;
    int64_t size[2], strides[2];  // strides: the size
    const char *padding;
} ckm_pool_layer;
CKM_API ckm_layer ckm_network_max_pool(ckm_network *net, ckm_layer x, ckm_pool_layer p);
CKM_API ckm_layer ckm_network_average_pool(ckm_network *net, ckm_layer x, ckm_pool_layer p);
CKM_API ckm_layer ckm_network_global_average_pool(ckm_network *net, ckm_layer x, const char *name);

typedef struct ckm_batch_norm_layer {
    const char *name;
    double epsilon;   // 0.001
    double momentum;  // 0.99
    bool no_scale;
} ckm_batch_norm_layer;
CKM_API ckm_layer ckm_network_batch_norm(ckm_network *net, ckm_layer x, ckm_batch_norm_layer b);
// Over the last axis; an epsilon of 0 is 1e-5.
CKM_API ckm_layer ckm_network_layer_norm(ckm_network *net, ckm_layer x, const char *name, double epsilon);
CKM_API ckm_layer ckm_network_rms_norm(ckm_network *net, ckm_layer x, const char *name, double epsilon);

// A matrix on the last axis. `activation` may be NULL: "linear".
CKM_API ckm_layer ckm_network_dense(ckm_network *net, ckm_layer x, const char *name, int64_t units,
                                    const char *activation);
// `function`: one of the activations above. "linear" adds no layer.
CKM_API ckm_layer ckm_network_activation(ckm_network *net, ckm_layer x, const char *name, const char *function);
CKM_API ckm_layer ckm_network_dropout(ckm_network *net, ckm_layer x, const char *name, double rate);
CKM_API ckm_layer ckm_network_add(ckm_network *net, const char *name, const ckm_layer *x, int32_t n);
CKM_API ckm_layer ckm_network_multiply(ckm_network *net, const char *name, ckm_layer a, ckm_layer b);
CKM_API ckm_layer ckm_network_concat(ckm_network *net, const char *name, const ckm_layer *x, int32_t n);
CKM_API ckm_layer ckm_network_flatten(ckm_network *net, ckm_layer x, const char *name);
// `dims` without the batch; -1 is what is left.
CKM_API ckm_layer ckm_network_reshape(ckm_network *net, ckm_layer x, const char *name, int32_t rank,
                                      const int64_t *dims);

// Sequences: batch, positions, width.

// Row t of a learned table of `rows` for every token t.
CKM_API ckm_layer ckm_network_embed(ckm_network *net, ckm_layer tokens, const char *name, int64_t rows, int64_t width);
// x plus a learned row for each of its positions.
CKM_API ckm_layer ckm_network_add_positions(ckm_network *net, ckm_layer x, const char *name);

typedef struct ckm_attention_layer {
    const char *name;
    int64_t heads;
    int64_t kv_heads;    // of k and v, each for a group of q's (Ainslie et al. 2023, section 2.2); 0: as heads
    bool causal;         // a position sees itself and those before it
    double rotary_base;  // of rotary positions (Su et al. 2021, section 3.2), 10000 say; 0: none
    double dropout;      // of the probabilities
} ckm_attention_layer;
// Attention (Vaswani et al. 2017, section 3.2): the heads' numbers stand one after the other on the last axis, whose length
// they divide. The result is as q.
CKM_API ckm_layer ckm_network_attention(ckm_network *net, ckm_layer q, ckm_layer k, ckm_layer v, ckm_attention_layer a);

#ifdef __cplusplus
}
#endif
#endif
