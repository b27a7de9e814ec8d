// SPDX-License-Identifier: Apache-2.0
// The public builder of networks: the zoo's builder with checks of everything that callers pass.
#include <checkmate/network.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "zoo/zoo_builder.h"
#include "zoo/zoo_tokens.h"

enum { LONGEST_NAME = 40 };

ckm_status ckm_network_create(const char *name, int64_t batch, ckm_network **out, ckm_error *err)
{
    CKM_I_NEED(name, err);
    CKM_I_NEED(out, err);
    return ckm_i_zoo_create_empty(name, batch, out, err);
}

void ckm_network_free(ckm_network *net)
{
    ckm_i_zoo_free(net);
}

void ckm_network_set_task(ckm_network *net, ckm_task task)
{
    if (net != NULL) {
        ckm_i_zoo_set_task(net, task);
    }
}

static bool is_layer(const ckm_network *net, ckm_layer x)
{
    const ckm_graph *g = ckm_i_zoo_draft(net);
    return x >= 0 && x < g->n_tensors &&
           (g->tensors[x].role == CKM_ROLE_INPUT || g->tensors[x].role == CKM_ROLE_ACTIVATION);
}

ckm_shape ckm_network_shape(const ckm_network *net, ckm_layer x)
{
    bool known = net != NULL && is_layer(net, x);
    return known ? ckm_i_zoo_draft(net)->tensors[x].shape : (ckm_shape){0, {0}};
}

// The caller's names must be unique: weights are found by name.
static bool name_is_good(ckm_network *net, const char *name)
{
    const ckm_graph *g = ckm_i_zoo_draft(net);
    if (name == NULL) {
        return true;
    }
    if (name[0] == '\0' || strlen(name) > LONGEST_NAME) {
        ckm_i_zoo_fail(net, "\"%.60s\": a name has 1 to %d characters, or is NULL", name, LONGEST_NAME);
        return false;
    }
    // Files keep names as UTF-8: others would not be found there again.
    for (const char *at = name; *at != '\0'; at += ckm_i_text_utf8(at)) {
        if (ckm_i_text_utf8(at) == 0) {
            ckm_i_zoo_fail(net, "\"%s\": a name has to be UTF-8", name);
            return false;
        }
    }
    for (int32_t i = 0; i < g->n_ops; i++) {
        if (strcmp(g->ops[i].name, name) == 0) {
            ckm_i_zoo_fail(net, "there are two layers called \"%s\"", name);
            return false;
        }
    }
    for (int32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].role == CKM_ROLE_INPUT && strcmp(g->tensors[i].name, name) == 0) {
            ckm_i_zoo_fail(net, "there are an input and a layer called \"%s\"", name);
            return false;
        }
    }
    return true;
}

// Whether a layer can be added after all of x, which must have rank `rank` unless that is 0.
static bool all_begin(ckm_network *net, const ckm_layer *x, int32_t n, int32_t rank, const char *name, const char *what)
{
    if (net == NULL || ckm_i_zoo_failed(net)) {
        return false;
    }
    ckm_i_zoo_begin_layer(net, what, name);
    if (x == NULL || n < 1) {
        ckm_i_zoo_fail(net, "no operands");
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        if (!is_layer(net, x[i])) {
            ckm_i_zoo_fail(net, "operand %d is not a layer of this network", (int)x[i]);
            return false;
        }
        int32_t has = ckm_i_zoo_draft(net)->tensors[x[i]].shape.rank;
        if (rank != 0 && has != rank) {
            ckm_i_zoo_fail(net, "its operand has %d dimensions, the batch included; it takes %d", (int)has, (int)rank);
            return false;
        }
    }
    return name_is_good(net, name);
}

static bool begins(ckm_network *net, ckm_layer x, int32_t rank, const char *name, const char *what)
{
    return all_begin(net, &x, 1, rank, name, what);
}

ckm_layer ckm_network_input(ckm_network *net, const char *name, ckm_dtype dtype, int32_t rank, const int64_t *dims)
{
    ckm_shape shape = {.rank = rank + 1};
    if (net == NULL || ckm_i_zoo_failed(net)) {
        return -1;
    }
    ckm_i_zoo_begin_layer(net, NULL, name);
    if (name == NULL || !name_is_good(net, name)) {
        return name == NULL ? ckm_i_zoo_fail(net, "an input needs a name") : -1;
    }
    if (dims == NULL || rank < 1 || rank >= CKM_MAX_RANK || (dtype != CKM_F32 && dtype != CKM_I32)) {
        return ckm_i_zoo_fail(net, "input %s: takes 1 to %d dimensions, of reals (f32) or tokens (i32)", name,
                              CKM_MAX_RANK - 1);
    }
    shape.dims[0] = ckm_i_zoo_batch(net);
    memcpy(shape.dims + 1, dims, (size_t)rank * sizeof *dims);
    return ckm_i_zoo_input(net, name, dtype, shape);
}

ckm_status ckm_network_finish(ckm_network *net, ckm_layer output, ckm_graph **out, ckm_error *err)
{
    CKM_I_NEED_NAMED(net, "network", err);
    CKM_I_NEED(out, err);
    const ckm_graph *g = ckm_i_zoo_draft(net);
    if (!ckm_i_zoo_failed(net) && g->n_tensors == 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: it has no input", g->name);
    }
    if (!ckm_i_zoo_failed(net) && (!is_layer(net, output) || g->tensors[output].producer < 0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: its output, %d, is not a layer", g->name, (int)output);
    }
    return ckm_i_zoo_finish(net, output, out, err);
}

// ---- Layers

static bool is_small(const int64_t pair[2])
{
    return pair[0] >= 0 && pair[1] >= 0 && pair[0] <= INT32_MAX && pair[1] <= INT32_MAX;
}

// Whether there is such a function, by the name that operators have for it from then on. NULL is none.
static bool know_activation(ckm_network *net, const char **function)
{
    static const char *const known[] = {"linear",  "relu", "relu6",    "leaky_relu", "elu",       "selu",
                                        "celu",    "gelu", "swish",    "mish",       "sigmoid",   "hard_sigmoid",
                                        "softmax", "tanh", "softplus", "softsign",   "hard_swish"};
    if (*function == NULL) {
        return true;
    }
    if (strcmp(*function, "silu") == 0) {
        *function = "swish";
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(*function, known[i]) == 0) {
            return true;
        }
    }
    ckm_i_zoo_fail(net, "there is no activation called \"%.60s\"", *function);
    return false;
}

static bool conv_begins(ckm_network *net, ckm_layer x, ckm_conv_layer *c, const char *what)
{
    if (!begins(net, x, 4, c->name, what) || !know_activation(net, &c->activation)) {
        return false;
    }
    if (!is_small(c->kernel) || !is_small(c->strides) || !is_small(c->dilation)) {
        ckm_i_zoo_fail(net, "kernel, strides and dilation cannot be negative");
        return false;
    }
    return true;
}

ckm_layer ckm_network_conv(ckm_network *net, ckm_layer x, ckm_conv_layer c)
{
    return conv_begins(net, x, &c, "conv") ? ckm_i_zoo_conv(net, x, c) : -1;
}

ckm_layer ckm_network_conv_transpose(ckm_network *net, ckm_layer x, ckm_conv_layer c)
{
    return conv_begins(net, x, &c, "conv_transpose") ? ckm_i_zoo_conv_transpose(net, x, c) : -1;
}

ckm_layer ckm_network_depthwise_conv(ckm_network *net, ckm_layer x, ckm_conv_layer c)
{
    return conv_begins(net, x, &c, "depthwise_conv") ? ckm_i_zoo_depthwise_conv(net, x, c) : -1;
}

static bool pool_begins(ckm_network *net, ckm_layer x, const ckm_pool_layer *p, const char *what)
{
    if (!begins(net, x, 4, p->name, what)) {
        return false;
    }
    if (!is_small(p->size) || !is_small(p->strides) || p->size[0] == 0) {
        ckm_i_zoo_fail(net, "it needs a size, and neither size nor strides can be negative");
        return false;
    }
    return true;
}

ckm_layer ckm_network_max_pool(ckm_network *net, ckm_layer x, ckm_pool_layer p)
{
    return pool_begins(net, x, &p, "max_pool") ? ckm_i_zoo_max_pool(net, x, p) : -1;
}

ckm_layer ckm_network_average_pool(ckm_network *net, ckm_layer x, ckm_pool_layer p)
{
    return pool_begins(net, x, &p, "average_pool") ? ckm_i_zoo_average_pool(net, x, p) : -1;
}

ckm_layer ckm_network_global_average_pool(ckm_network *net, ckm_layer x, const char *name)
{
    return begins(net, x, 4, name, "global_average_pool") ? ckm_i_zoo_global_average_pool(net, x, name) : -1;
}

static bool norm_begins(ckm_network *net, ckm_layer x, const char *name, double epsilon, double momentum,
                        const char *what)
{
    if (!begins(net, x, 0, name, what)) {
        return false;
    }
    if (!(epsilon >= 0.0) || isinf(epsilon) || !(momentum >= 0.0 && momentum <= 1.0)) {
        ckm_i_zoo_fail(net, "epsilon cannot be negative or infinite, and momentum is from 0 to 1");
        return false;
    }
    return true;
}

ckm_layer ckm_network_batch_norm(ckm_network *net, ckm_layer x, ckm_batch_norm_layer b)
{
    bool good = norm_begins(net, x, b.name, b.epsilon, b.momentum, "batch_norm");
    b.momentum = b.momentum > 0.0 ? b.momentum : 0.99;
    return good ? ckm_i_zoo_batch_norm(net, x, b) : -1;
}

static double epsilon_or_default(double epsilon)
{
    return epsilon > 0.0 ? epsilon : 1e-5;
}

ckm_layer ckm_network_layer_norm(ckm_network *net, ckm_layer x, const char *name, double epsilon)
{
    bool good = norm_begins(net, x, name, epsilon, 0.0, "layer_norm");
    return good ? ckm_i_zoo_layer_norm(net, x, name, epsilon_or_default(epsilon)) : -1;
}

ckm_layer ckm_network_rms_norm(ckm_network *net, ckm_layer x, const char *name, double epsilon)
{
    bool good = norm_begins(net, x, name, epsilon, 0.0, "rms_norm");
    return good ? ckm_i_zoo_rms_norm(net, x, name, epsilon_or_default(epsilon)) : -1;
}

ckm_layer ckm_network_dense(ckm_network *net, ckm_layer x, const char *name, int64_t units, const char *activation)
{
    return begins(net, x, 0, name, "dense") && know_activation(net, &activation)
               ? ckm_i_zoo_dense(net, x, name, units, activation)
               : -1;
}

ckm_layer ckm_network_activation(ckm_network *net, ckm_layer x, const char *name, const char *function)
{
    if (!begins(net, x, 0, name, "activation")) {
        return -1;
    }
    if (function == NULL) {
        return ckm_i_zoo_fail(net, "it needs the name of a function");
    }
    if (!know_activation(net, &function)) {
        return -1;
    }
    return strcmp(function, "linear") == 0 ? x : ckm_i_zoo_activation(net, x, name, function);
}

ckm_layer ckm_network_dropout(ckm_network *net, ckm_layer x, const char *name, double rate)
{
    return begins(net, x, 0, name, "dropout") ? ckm_i_zoo_dropout(net, x, name, rate) : -1;
}

ckm_layer ckm_network_add(ckm_network *net, const char *name, const ckm_layer *x, int32_t n)
{
    return all_begin(net, x, n, 0, name, "add") ? ckm_i_zoo_add_layers(net, name, x, n) : -1;
}

ckm_layer ckm_network_multiply(ckm_network *net, const char *name, ckm_layer a, ckm_layer b)
{
    return all_begin(net, (const ckm_layer[]){a, b}, 2, 0, name, "multiply") ? ckm_i_zoo_multiply(net, name, a, b) : -1;
}

ckm_layer ckm_network_concat(ckm_network *net, const char *name, const ckm_layer *x, int32_t n)
{
    return all_begin(net, x, n, 0, name, "concat") ? ckm_i_zoo_concat(net, name, x, n) : -1;
}

ckm_layer ckm_network_flatten(ckm_network *net, ckm_layer x, const char *name)
{
    return begins(net, x, 0, name, "flatten") ? ckm_i_zoo_flatten(net, x, name) : -1;
}

ckm_layer ckm_network_reshape(ckm_network *net, ckm_layer x, const char *name, int32_t rank, const int64_t *dims)
{
    if (!begins(net, x, 0, name, "reshape")) {
        return -1;
    }
    if (dims == NULL || rank < 1 || rank >= CKM_MAX_RANK) {
        return ckm_i_zoo_fail(net, "takes 1 to %d dimensions", CKM_MAX_RANK - 1);
    }
    return ckm_i_zoo_reshape(net, x, name, dims, rank);
}

ckm_layer ckm_network_embed(ckm_network *net, ckm_layer tokens, const char *name, int64_t rows, int64_t width)
{
    int32_t table = -1;
    if (!begins(net, tokens, 0, name, "embed")) {
        return -1;
    }
    if (ckm_i_zoo_draft(net)->tensors[tokens].dtype != CKM_I32) {
        return ckm_i_zoo_fail(net, "its operand holds no tokens");
    }
    return ckm_i_zoo_embed(net, tokens, name, rows, width, &table);
}

// Names of parts are made from the layer's, so it has one.
static const char *name_or_number(ckm_network *net, const char *class_name, const char *name, char *buf, size_t size)
{
    snprintf(buf, size, "%s", ckm_i_zoo_layer_name(net, class_name, name));
    return buf;
}

ckm_layer ckm_network_add_positions(ckm_network *net, ckm_layer x, const char *name)
{
    char own[64];
    if (!begins(net, x, 3, name, "add_positions")) {
        return -1;
    }
    return ckm_i_zoo_add_positions(net, x, name_or_number(net, "positions", name, own, sizeof own), 1);
}

ckm_layer ckm_network_attention(ckm_network *net, ckm_layer q, ckm_layer k, ckm_layer v, ckm_attention_layer a)
{
    char own[64];
    const ckm_layer qkv[3] = {q, k, v};
    int64_t kv_heads = a.kv_heads != 0 ? a.kv_heads : a.heads;
    if (!all_begin(net, qkv, 3, 3, a.name, "attention")) {
        return -1;
    }
    if (a.heads < 1 || kv_heads < 1 || a.heads % kv_heads != 0 || ckm_i_zoo_channels(net, q) % a.heads != 0) {
        return ckm_i_zoo_fail(net,
                              "%lld heads of %lld numbers, %lld of k and v: the first must divide the second, "
                              "and the third the first",
                              (long long)a.heads, (long long)ckm_i_zoo_channels(net, q), (long long)kv_heads);
    }
    return ckm_i_zoo_attend(net, qkv,
                            (ckm_i_attention){.block = name_or_number(net, "attention", a.name, own, sizeof own),
                                              .heads = a.heads,
                                              .kv_heads = kv_heads,
                                              .causal = a.causal,
                                              .rotary_base = a.rotary_base,
                                              .dropout = a.dropout});
}
