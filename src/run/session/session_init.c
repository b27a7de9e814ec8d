// SPDX-License-Identifier: Apache-2.0
// Values for a new run: parameters and states by the operator that uses them, and made-up data. Every number is a
// function of seed, tensor and element, computed with operations that all machines round alike.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/fingerprint.h"
#include "run/session/session.h"

// A well-mixed 64-bit number for each key (the output function of SplitMix64).
static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t key_of(uint64_t seed, const char *name)
{
    return mix(ckm_i_fingerprint(name, (int64_t)strlen(name)) ^ mix(seed + UINT64_C(0x9e3779b97f4a7c15)));
}

static uint64_t draw(uint64_t key, int64_t element)
{
    return mix(key + (uint64_t)(element + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

// Numbers are made on the host and written in pieces.
enum { PIECE = 2048 };

// Element `i` of a tensor: real, or an integer that is brought to the tensor's type.
typedef struct maker {
    uint64_t key;
    float limit;     // uniform in [-limit, limit), on a grid of 2^24 steps so that single precision holds it exactly
                     // before scaling; 0: `constant`
    float constant;  // all are the same
    uint64_t below;  // integers are
    bool asks;       // whether to stop
} maker;

static float real_at(const maker *m, int64_t i)
{
    return m->limit > 0 ? ((float)(draw(m->key, i) >> 40) * 0x1p-23F - 1.0F) * m->limit : m->constant;
}

static void store_integer(void *to, ckm_dtype dtype, int64_t k, uint64_t value)
{
    switch (dtype) {
    case CKM_I64:
        ((int64_t *)to)[k] = (int64_t)value;
        break;
    case CKM_I32:
        ((int32_t *)to)[k] = (int32_t)value;
        break;
    case CKM_I16:
        ((int16_t *)to)[k] = (int16_t)(value & 0x7fff);
        break;
    case CKM_U8:
    case CKM_I8:
        ((uint8_t *)to)[k] = (uint8_t)(value & 0x7f);
        break;
    case CKM_BOOL:
        ((uint8_t *)to)[k] = (uint8_t)(value & 1);
        break;
    default:
        break;
    }
}

static ckm_status go_on(const ckm_session *session, ckm_error *err)
{
    return session->stop != NULL && session->stop(session->stop_user)
               ? ckm_i_error(err, CKM_ERR_STOPPED, "stopped while values were made")
               : CKM_OK;
}

static ckm_status make_values(ckm_session *session, int32_t tensor, const maker *m, ckm_error *err)
{
    int64_t piece[PIECE];
    const ckm_session_tensor *t = &session->tensors[tensor];
    int64_t n = ckm_i_elements(&t->shape);
    int64_t size = ckm_i_dtype_bytes(t->dtype);
    for (int64_t from = 0; from < n; from += PIECE) {
        // Every few milliseconds.
        CKM_I_CHECK(m->asks && from % (PIECE * 256) == 0 ? go_on(session, err) : CKM_OK);
        int64_t count = n - from < PIECE ? n - from : PIECE;
        for (int64_t k = 0; k < count; k++) {
            if (t->dtype == CKM_F32) {
                ((float *)piece)[k] = real_at(m, from + k);
            } else {
                store_integer(piece, t->dtype, k, (draw(m->key, from + k) >> 33) % m->below);
            }
        }
        CKM_I_CHECK(ckm_session_write(session, tensor, from * size, count * size, piece, err));
    }
    return CKM_OK;
}

static ckm_i_init init_of(const ckm_i_op_class *c, int32_t operand)
{
    return operand < CKM_I_INIT_OPERANDS && c->init.of[operand] != CKM_I_INIT_UNSAID ? c->init.of[operand]
                                                                                     : c->init.every;
}

// The rule of the first operator that has one for this operand; views are followed.
static ckm_i_init rule_of(const ckm_training *t, int32_t value, int32_t *op_index)
{
    const ckm_graph *step = t->step;
    for (int32_t v = 0; v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            int32_t x = op->inputs[k];
            if (x < 0 || (x != value && t->values[x].alias_of != value)) {
                continue;
            }
            ckm_i_init rule = init_of(op->op_class, k);
            if (rule != CKM_I_INIT_UNSAID) {
                *op_index = v;
                return rule;
            }
        }
    }
    return CKM_I_INIT_UNSAID;
}

// Inputs and outputs that one element of a weight's result takes part in.
static void fans(const ckm_graph *step, const ckm_i_graph_op *op, const ckm_shape *shape, double *in, double *out)
{
    ckm_i_weight weight = op->op_class->init.weight;
    double elements = (double)ckm_i_elements(shape);
    int32_t i = shape->rank >= 2 ? shape->rank - 2 : 0;
    int32_t o = shape->rank >= 1 ? shape->rank - 1 : 0;
    bool is_filter = weight == CKM_I_WEIGHT_FILTER || weight == CKM_I_WEIGHT_TRANSPOSED_FILTER;
    bool swapped = weight == CKM_I_WEIGHT_TRANSPOSED_FILTER;
    if (is_filter && step->layout == CKM_CHANNELS_FIRST) {
        i = 1;
        o = 0;
    } else if (weight == CKM_I_WEIGHT_MATRIX) {
        swapped = ckm_i_op_attr_int(op, "transposed", 0, 0) != 0;
    } else if (weight == CKM_I_WEIGHT_FACTOR) {
        swapped = ckm_i_op_attr_int(op, "trans_b", 0, 0) != 0;
    }
    if (shape->rank < 2) {
        *in = elements;
        *out = 1.0;
        return;
    }
    double n_in = (double)shape->dims[swapped ? o : i];
    double n_out = (double)shape->dims[swapped ? i : o];
    double window = is_filter ? elements / (n_in * n_out) : 1.0;
    double groups = is_filter ? (double)ckm_i_op_attr_int(op, "groups", 0, 1) : 1.0;
    // I is per group already; O is per group in a transposed convolution, whose I is not.
    *in = window * (swapped && is_filter ? n_in / groups : n_in);
    *out = window * (swapped && is_filter ? n_out : n_out / groups);
}

static int32_t long_axes(const ckm_shape *shape)
{
    int32_t n = 0;
    for (int32_t a = 0; a < shape->rank; a++) {
        n += shape->dims[a] > 1;
    }
    return n;
}

static ckm_status initialize_tensor(ckm_session *session, int32_t i, uint64_t seed, ckm_error *err)
{
    const ckm_session_tensor *tensor = &session->tensors[i];
    const ckm_training *t = session->program->training;
    ckm_i_backend *backend = session->program->backend;
    int32_t op = -1;
    double in = 1.0;
    double out = 1.0;
    ckm_i_init how = rule_of(t, session->values[i], &op);
    if (tensor->dtype != CKM_F32 || how == CKM_I_INIT_UNSAID) {
        return backend->memory->clear(backend, session->addresses[i], tensor->bytes, err);
    }
    maker m = {.key = key_of(seed, tensor->name), .asks = true};
    // A uniform number in [-a, a) has variance a² / 3.
    const float small = (float)(0.02 * sqrt(3.0));
    fans(t->step, &t->step->ops[op], &tensor->shape, &in, &out);
    switch (how) {
    case CKM_I_INIT_ONE:
        m.constant = 1.0F;
        break;
    case CKM_I_INIT_QUARTER:
        m.constant = 0.25F;
        break;
    case CKM_I_INIT_HE:
        m.limit = (float)sqrt(6.0 / in);
        break;
    case CKM_I_INIT_GLOROT:
        m.limit = (float)sqrt(6.0 / (in + out));
        break;
    case CKM_I_INIT_SMALL:
        m.limit = small;
        break;
    case CKM_I_INIT_POSITIONS:
        m.limit = long_axes(&tensor->shape) > 1 ? small : 0.0F;
        break;
    case CKM_I_INIT_UNSAID:
        break;
    }
    return make_values(session, i, &m, err);
}

ckm_status ckm_session_initialize(ckm_session *session, uint64_t seed, ckm_error *err)
{
    CKM_I_NEED(session, err);
    for (int32_t i = 0; i < session->n_tensors; i++) {
        ckm_tensor_role role = session->tensors[i].role;
        if (role == CKM_ROLE_PARAMETER || role == CKM_ROLE_STATE) {
            CKM_I_CHECK(go_on(session, err));
            CKM_I_CHECK(initialize_tensor(session, i, seed, err));
        }
    }
    session->seed = seed;
    return CKM_OK;
}

ckm_status ckm_session_fill(ckm_session *session, uint64_t seed, int64_t step, ckm_error *err)
{
    CKM_I_NEED(session, err);
    for (int32_t i = 0; i < session->n_tensors; i++) {
        const ckm_session_tensor *tensor = &session->tensors[i];
        if (tensor->role != CKM_ROLE_INPUT) {
            continue;
        }
        const maker m = {.key = mix(key_of(seed, tensor->name) + (uint64_t)step),
                         .limit = 1.0F,
                         .below = tensor->limit > 0 ? (uint64_t)tensor->limit : 2};
        CKM_I_CHECK(make_values(session, i, &m, err));
    }
    return CKM_OK;
}
