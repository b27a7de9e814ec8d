// SPDX-License-Identifier: Apache-2.0
// A small language for writing networks down as one would with Keras: every function adds a layer behind
// others and returns it. Layers may be added in any order that has operands first; ckm_i_zoo_finish drops
// those the output does not need and puts the rest into the order of the layer list.
//
// Errors stick: after the first failure every call does nothing and returns -1, so that a network is written
// without a check after each layer and ckm_i_zoo_finish reports what went wrong.
#ifndef CKM_SRC_ZOO_ZOO_BUILDER_H
#define CKM_SRC_ZOO_ZOO_BUILDER_H

#include <checkmate/network.h>
#include <checkmate/zoo.h>

#include "graph/graph.h"

typedef ckm_network ckm_i_zoo;

// A layer: the tensor it computes in the draft. The network's input is CKM_I_ZOO_INPUT.
typedef ckm_layer ckm_i_layer;
#define CKM_I_ZOO_INPUT 0

// The input is `size`'s image, or where it has a sequence length that many tokens, of type int32.
ckm_status ckm_i_zoo_create(const char *network, int64_t batch, const ckm_zoo_size *size, ckm_i_zoo **out,
                            ckm_error *err) CKM_NODISCARD;
// Without an input; the first one has to come before the first layer.
ckm_status ckm_i_zoo_create_empty(const char *network, int64_t batch, ckm_i_zoo **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_zoo_free(ckm_i_zoo *z);
// Errors from here on are of the next layer of a network of the caller's own, a `what` with that name or without one (NULL, ""),
// and say which it is. A `what` of NULL is an input, which is not counted.
void ckm_i_zoo_begin_layer(ckm_i_zoo *z, const char *what, const char *name);
// What has been added so far.
const ckm_graph *ckm_i_zoo_draft(const ckm_i_zoo *z);
bool ckm_i_zoo_failed(const ckm_i_zoo *z);
// The finished network with `output` as its last layer; `z` is spent but still has to be freed.
ckm_status ckm_i_zoo_finish(ckm_i_zoo *z, ckm_i_layer output, ckm_graph **out, ckm_error *err) CKM_NODISCARD;

// A name made as by printf, good until the next call: for the `name` of the layer being added.
const char *ckm_i_zoo_name(ckm_i_zoo *z, const char *format, ...) CKM_PRINTF(2, 3);
// Stops the building with an error.
ckm_i_layer ckm_i_zoo_fail(ckm_i_zoo *z, const char *format, ...) CKM_PRINTF(2, 3);

int64_t ckm_i_zoo_batch(const ckm_i_zoo *z);
const ckm_zoo_size *ckm_i_zoo_size(const ckm_i_zoo *z);
// The number of classes of a classifier or segmenter.
int64_t ckm_i_zoo_classes(const ckm_i_zoo *z);
// What the network is trained for; CKM_TASK_CLASSES unless set.
void ckm_i_zoo_set_task(ckm_i_zoo *z, ckm_task task);
// Another input of the network; `shape` with the batch.
int32_t ckm_i_zoo_input(ckm_i_zoo *z, const char *name, ckm_dtype dtype, ckm_shape shape);

int64_t ckm_i_zoo_height(const ckm_i_zoo *z, ckm_i_layer x);
int64_t ckm_i_zoo_width(const ckm_i_zoo *z, ckm_i_layer x);
int64_t ckm_i_zoo_channels(const ckm_i_zoo *z, ckm_i_layer x);

// What the parameters of the next layer are called in PyTorch, made as by printf: "layer1.0.conv1" makes "layer1.0.conv1.weight" of a
// kernel, which is turned to O,I,k… there; a name that ends in '_' has no point behind it. Only for networks that are PyTorch's (or
// torchvision's, or transformers') in every layer: files of weights are then written and read by these names (docs/TRAINING.md).
void ckm_i_zoo_known_as(ckm_i_zoo *z, const char *format, ...) CKM_PRINTF(2, 3);
// Of the next layer, which has one parameter: that is its whole name, and the parameter has an axis of one sample before its own.
void ckm_i_zoo_known_for_all_samples(ckm_i_zoo *z);
// Of the next layer: its kernel is I,O there, too.
void ckm_i_zoo_known_unturned(ckm_i_zoo *z);
// Of the next layer, a dense one: its operand is a map of that shape, and is flattened with the channels first there.
void ckm_i_zoo_known_flattened(ckm_i_zoo *z, int64_t height, int64_t width, int64_t channels);
// The same of one parameter by its whole name; `shape` NULL: the same shape.
void ckm_i_zoo_parameter_known_as(ckm_i_zoo *z, int32_t parameter, const char *name, const ckm_shape *shape);
// Of such a parameter that is a table of relative positions in windows: the other library also has a list of positions of that name.
void ckm_i_zoo_known_with_index(ckm_i_zoo *z, int32_t parameter, const char *name, const int64_t window[2]);
// The parameter of that name; -1 where there is none.
int32_t ckm_i_zoo_find_parameter(const ckm_i_zoo *z, const char *name);
// A parameter that is known already has this name, too.
void ckm_i_zoo_also_known_as(ckm_i_zoo *z, int32_t parameter, const char *name);

// The two steps every layer consists of; the functions below are written with them. A name of NULL is made
// from `class_name` and a number: conv2d, conv2d_1, ...
const char *ckm_i_zoo_layer_name(ckm_i_zoo *z, const char *class_name, const char *name);
int32_t ckm_i_zoo_parameter(ckm_i_zoo *z, const char *layer, const char *what, ckm_tensor_role role, ckm_shape shape);
ckm_i_layer ckm_i_zoo_add(ckm_i_zoo *z, const char *kind, const char *layer, const int32_t *inputs, int32_t n_inputs,
                          const ckm_i_attr *attrs, int32_t n_attrs);

// The same with several outputs.
void ckm_i_zoo_add_split(ckm_i_zoo *z, const char *kind, const char *layer, ckm_i_layer x, const ckm_i_attr *attrs,
                         int32_t n_attrs, ckm_i_layer *outputs, int32_t n_outputs);

// ---- Layers. Defaults are those of Keras; a pair whose second member is 0 is square.

typedef ckm_conv_layer ckm_i_conv;

ckm_i_layer ckm_i_zoo_conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c);
ckm_i_layer ckm_i_zoo_conv_transpose(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c);
ckm_i_layer ckm_i_zoo_separable_conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c);
// One filter a channel; c.filters is not used.
ckm_i_layer ckm_i_zoo_depthwise_conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c);
ckm_i_layer ckm_i_zoo_dense(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t units, const char *activation);

typedef ckm_batch_norm_layer ckm_i_batch_norm;
ckm_i_layer ckm_i_zoo_batch_norm(ckm_i_zoo *z, ckm_i_layer x, ckm_i_batch_norm b);

// "relu", "relu6", "softmax", ...: any kind of activation operator; relu6 is relu with a maximum of 6.
ckm_i_layer ckm_i_zoo_activation(ckm_i_zoo *z, ckm_i_layer x, const char *name, const char *function);
ckm_i_layer ckm_i_zoo_relu(ckm_i_zoo *z, ckm_i_layer x, const char *name, double max_value);

ckm_i_layer ckm_i_zoo_add_layers(ckm_i_zoo *z, const char *name, const ckm_i_layer *x, int32_t n);
ckm_i_layer ckm_i_zoo_concat(ckm_i_zoo *z, const char *name, const ckm_i_layer *x, int32_t n);

typedef ckm_pool_layer ckm_i_pool;
ckm_i_layer ckm_i_zoo_max_pool(ckm_i_zoo *z, ckm_i_layer x, ckm_i_pool p);
ckm_i_layer ckm_i_zoo_average_pool(ckm_i_zoo *z, ckm_i_layer x, ckm_i_pool p);
ckm_i_layer ckm_i_zoo_global_average_pool(ckm_i_zoo *z, ckm_i_layer x, const char *name);

typedef struct ckm_i_border {
    int64_t top, bottom, left, right;
} ckm_i_border;
ckm_i_layer ckm_i_zoo_zero_padding(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_border b);
ckm_i_layer ckm_i_zoo_cropping(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_border b);
ckm_i_layer ckm_i_zoo_up_sampling(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t factor);
ckm_i_layer ckm_i_zoo_interp(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t height, int64_t width);

ckm_i_layer ckm_i_zoo_dropout(ckm_i_zoo *z, ckm_i_layer x, const char *name, double rate);
ckm_i_layer ckm_i_zoo_flatten(ckm_i_zoo *z, ckm_i_layer x, const char *name);
// `dims` without the batch.
ckm_i_layer ckm_i_zoo_reshape(ckm_i_zoo *z, ckm_i_layer x, const char *name, const int64_t *dims, int32_t n);
ckm_i_layer ckm_i_zoo_lambda(ckm_i_zoo *z, ckm_i_layer x, const char *name, const char *text, const int64_t dims[3]);

#endif
