// SPDX-License-Identifier: Apache-2.0
// Values for a new run: parameters and states by the operator that uses them, and made-up data. Every number is a
// function of seed, tensor and element, computed with operations that all machines round alike.
#include <math.h>
#include <string.h>

#include "run/session.h"

// A well-mixed 64-bit number for each key (the output function of SplitMix64).
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t key_of(uint64_t seed, const char *name)
{
    return mix(ckm_i_session_fingerprint(name, (int64_t)strlen(name)) ^ mix(seed + UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t draw(uint64_t key, int64_t element)
{
    return mix(key + (uint64_t)(element + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

// Uniform in [-limit, limit), on a grid of 2^24 steps so that single precision holds it exactly before scaling.
static void fill_uniform(float *to, int64_t n, uint64_t key, float limit)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = ((float)(draw(key, i) >> 40) * 0x1p-23F - 1.0F) * limit;
    }
}

static void fill_constant(float *to, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] = value;
    }
}

// How a parameter or state is initialised, by the operator that reads it and its place among the operands.
typedef enum rule { RULE_ZERO, RULE_ONE, RULE_QUARTER, RULE_HE, RULE_GLOROT, RULE_SMALL, RULE_POSITIONS } rule;

typedef struct use {
    const char *kind;
    int32_t operand;  // -1: any
    rule rule;
} use;

static const use uses[] = {
    {"conv", 1, RULE_HE},
    {"conv_transpose", 1, RULE_GLOROT},
    {"dense", 1, RULE_GLOROT},
    {"gemm", 0, RULE_GLOROT},
    {"gemm", 1, RULE_GLOROT},
    {"matmul", -1, RULE_GLOROT},
    {"einsum", -1, RULE_GLOROT},
    {"gather", 0, RULE_SMALL},
    {"batch_norm_train", 1, RULE_ONE},
    {"batch_norm_train", 4, RULE_ONE},
    {"layer_norm", 1, RULE_ONE},
    {"group_norm", 1, RULE_ONE},
    {"rms_norm", 1, RULE_ONE},
    {"window_bias", 0, RULE_SMALL},
    {"mul", -1, RULE_ONE},
    {"div", 1, RULE_ONE},
    {"prelu", 1, RULE_QUARTER},
    {"add", -1, RULE_POSITIONS},
    {"concat", -1, RULE_POSITIONS},
};

// The rule of the first operator that has one for this operand; views are followed.
static rule rule_of(const ckm_training *t, int32_t value, int32_t *op_index)
{
    const ckm_graph *step = t->step;
    for (int32_t v = 0; v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            int32_t x = op->inputs[k];
            if (x < 0 || (x != value && t->values[x].alias_of != value)) {
                continue;
            }
            for (size_t u = 0; u < sizeof uses / sizeof uses[0]; u++) {
                if (strcmp(uses[u].kind, op->op_class->kind) == 0 && (uses[u].operand < 0 || uses[u].operand == k)) {
                    *op_index = v;
                    return uses[u].rule;
                }
            }
        }
    }
    return RULE_ZERO;
}

// Inputs and outputs that one element of a weight's result takes part in. Weights are k…,I,O with channels last, O,I,k…
// with channels first; a transposed convolution has I and O the other way round.
static void fans(const ckm_graph *step, const ckm_i_graph_op *op, const ckm_shape *shape, double *in, double *out)
{
    const char *kind = op->op_class->kind;
    double elements = (double)ckm_i_elements(shape);
    int32_t i = shape->rank >= 2 ? shape->rank - 2 : 0;
    int32_t o = shape->rank >= 1 ? shape->rank - 1 : 0;
    bool is_conv = strcmp(kind, "conv") == 0 || strcmp(kind, "conv_transpose") == 0;
    bool swapped = strcmp(kind, "conv_transpose") == 0;
    if (is_conv && step->layout == CKM_CHANNELS_FIRST) {
        i = 1;
        o = 0;
    } else if (strcmp(kind, "dense") == 0) {
        swapped = ckm_i_op_attr_int(op, "transposed", 0, 0) != 0;
    } else if (strcmp(kind, "gemm") == 0) {
        swapped = ckm_i_op_attr_int(op, "trans_b", 0, 0) != 0;
    }
    if (shape->rank < 2) {
        *in = elements;
        *out = 1.0;
        return;
    }
    double n_in = (double)shape->dims[swapped ? o : i];
    double n_out = (double)shape->dims[swapped ? i : o];
    double window = is_conv ? elements / (n_in * n_out) : 1.0;
    double groups = is_conv ? (double)ckm_i_op_attr_int(op, "groups", 0, 1) : 1.0;
    // I is per group already; O is per group in a transposed convolution, whose I is not.
    *in = window * (swapped && is_conv ? n_in / groups : n_in);
    *out = window * (swapped && is_conv ? n_out : n_out / groups);
}

static int32_t long_axes(const ckm_shape *shape)
{
    int32_t n = 0;
    for (int32_t a = 0; a < shape->rank; a++) {
        n += shape->dims[a] > 1;
    }
    return n;
}

static void initialize_tensor(const ckm_session *session, int32_t i, uint64_t seed)
{
    const ckm_session_tensor *tensor = &session->tensors[i];
    const ckm_training *t = session->program->training;
    int32_t op = -1;
    double in = 1.0;
    double out = 1.0;
    memset(tensor->data, 0, (size_t)tensor->bytes);
    rule how = rule_of(t, session->values[i], &op);
    if (tensor->dtype != CKM_F32 || how == RULE_ZERO) {
        return;
    }
    float *data = tensor->data;
    int64_t n = ckm_i_elements(&tensor->shape);
    uint64_t key = key_of(seed, tensor->name);
    // A uniform number in [-a, a) has variance a² / 3.
    const float small = (float)(0.02 * sqrt(3.0));
    fans(t->step, &t->step->ops[op], &tensor->shape, &in, &out);
    switch (how) {
    case RULE_ONE:
        fill_constant(data, n, 1.0F);
        break;
    case RULE_QUARTER:
        fill_constant(data, n, 0.25F);
        break;
    case RULE_HE:
        fill_uniform(data, n, key, (float)sqrt(6.0 / in));
        break;
    case RULE_GLOROT:
        fill_uniform(data, n, key, (float)sqrt(6.0 / (in + out)));
        break;
    case RULE_SMALL:
        fill_uniform(data, n, key, small);
        break;
    case RULE_POSITIONS:
        if (long_axes(&tensor->shape) > 1) {
            fill_uniform(data, n, key, small);
        }
        break;
    case RULE_ZERO:
        break;
    }
}

void ckm_session_initialize(ckm_session *session, uint64_t seed)
{
    if (session == NULL) {
        return;
    }
    for (int32_t i = 0; i < session->n_tensors; i++) {
        ckm_tensor_role role = session->tensors[i].role;
        if (role == CKM_ROLE_PARAMETER || role == CKM_ROLE_STATE) {
            initialize_tensor(session, i, seed);
        }
    }
    session->seed = seed;
}

static void fill_integers(const ckm_session_tensor *tensor, uint64_t key)
{
    int64_t n = ckm_i_elements(&tensor->shape);
    uint64_t limit = tensor->limit > 0 ? (uint64_t)tensor->limit : 2;
    for (int64_t i = 0; i < n; i++) {
        uint64_t value = (draw(key, i) >> 33) % limit;
        switch (tensor->dtype) {
        case CKM_I64:
            ((int64_t *)tensor->data)[i] = (int64_t)value;
            break;
        case CKM_I32:
            ((int32_t *)tensor->data)[i] = (int32_t)value;
            break;
        case CKM_I16:
            ((int16_t *)tensor->data)[i] = (int16_t)(value & 0x7fff);
            break;
        case CKM_U8:
        case CKM_I8:
            ((uint8_t *)tensor->data)[i] = (uint8_t)(value & 0x7f);
            break;
        case CKM_BOOL:
            ((uint8_t *)tensor->data)[i] = (uint8_t)(value & 1);
            break;
        default:
            break;
        }
    }
}

void ckm_session_fill(ckm_session *session, uint64_t seed, int64_t step)
{
    for (int32_t i = 0; session != NULL && i < session->n_tensors; i++) {
        const ckm_session_tensor *tensor = &session->tensors[i];
        if (tensor->role != CKM_ROLE_INPUT) {
            continue;
        }
        uint64_t key = mix(key_of(seed, tensor->name) + (uint64_t)step);
        if (tensor->dtype == CKM_F32) {
            fill_uniform(tensor->data, ckm_i_elements(&tensor->shape), key, 1.0F);
        } else {
            fill_integers(tensor, key);
        }
    }
}
