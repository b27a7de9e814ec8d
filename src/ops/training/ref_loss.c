// SPDX-License-Identifier: Apache-2.0
// Losses: softmax cross-entropy over one axis with integer labels, mean squared error.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Lines of logits along the axis of classes, one label each; label (i, j) belongs to line i * inner + j.
typedef struct lines {
    int64_t outer, classes, inner;
    int64_t counted;  // labels that are not ignored
} lines;

static ckm_status read_lines(const ckm_i_ref_op *r, lines *l, ckm_error *err)
{
    const ckm_i_graph_tensor *logits = ckm_i_ref_in(r, 0);
    const ckm_shape *shape = &logits->shape;
    const ckm_i_graph_tensor *given = ckm_i_ref_in(r, 1);
    const int32_t *labels = ckm_i_ref_input(r, 1);
    int32_t axis = ckm_i_ref_axis(r, "axis", -1, shape->rank);
    *l = (lines){ckm_i_ref_span(shape, 0, axis), shape->dims[axis], ckm_i_ref_span(shape, axis + 1, shape->rank), 0};
    if (logits->dtype != CKM_F32) {
        return ckm_i_ref_error(r, err, CKM_ERR_UNSUPPORTED, "\"%.200s\" is not single precision (float32)",
                               logits->name);
    }
    if (given->dtype != CKM_I32) {
        return ckm_i_ref_error(r, err, CKM_ERR_UNSUPPORTED, "\"%.200s\" must be int32", given->name);
    }
    for (int64_t i = 0; i < l->outer * l->inner; i++) {
        if (labels[i] < -1 || labels[i] >= l->classes) {
            return ckm_i_ref_error(r, err, CKM_ERR_FORMAT,
                                   "label %d at position %lld of the batch; it must be from 0 to %lld, or -1 to be "
                                   "ignored",
                                   (int)labels[i], (long long)i, (long long)l->classes - 1);
        }
        l->counted += labels[i] >= 0;
    }
    return CKM_OK;
}

// Largest element, the first of equals, and ln of the sum of exponentials.
static void measure(const float *x, int64_t n, int64_t stride, int64_t *place, double *log_sum)
{
    int64_t best = 0;
    double sum = 0.0;
    for (int64_t k = 1; k < n; k++) {
        best = x[k * stride] > x[best * stride] ? k : best;
    }
    float top = x[best * stride];
    for (int64_t k = 0; k < n; k++) {
        sum += (double)expf(x[k * stride] - top);
    }
    *place = best;
    *log_sum = (double)top + log(sum);
}

// inputs logits, labels; outputs loss, correct
static ckm_status softmax_cross_entropy(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                        ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    lines l;
    CKM_I_CHECK(read_lines(&r, &l, err));
    const float *logits = ckm_i_ref_input(&r, 0);
    const int32_t *labels = ckm_i_ref_input(&r, 1);
    float *loss = ckm_i_ref_output(&r, 0);
    int32_t *correct = ckm_i_ref_output(&r, 1);
    double sum = 0.0;
    int32_t hits = 0;
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        const float *x = logits + line / l.inner * l.classes * l.inner + line % l.inner;
        int64_t place;
        double log_sum;
        if (labels[line] >= 0) {
            measure(x, l.classes, l.inner, &place, &log_sum);
            sum += log_sum - (double)x[labels[line] * l.inner];
            hits += place == labels[line];
        }
    }
    if (loss != NULL) {
        *loss = l.counted > 0 ? (float)(sum / (double)l.counted) : 0.0F;
    }
    if (correct != NULL) {
        *correct = hits;
    }
    return CKM_OK;
}

// inputs logits, labels
static ckm_status softmax_cross_entropy_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                                 ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    lines l;
    CKM_I_CHECK(read_lines(&r, &l, err));
    const float *logits = ckm_i_ref_input(&r, 0);
    const int32_t *labels = ckm_i_ref_input(&r, 1);
    float *dlogits = ckm_i_ref_output(&r, 0);
    for (int64_t line = 0; line < l.outer * l.inner; line++) {
        int64_t at = line / l.inner * l.classes * l.inner + line % l.inner;
        const float *x = logits + at;
        float *dx = dlogits + at;
        int64_t place;
        double log_sum;
        measure(x, l.classes, l.inner, &place, &log_sum);
        double factor = labels[line] >= 0 ? 1.0 / (double)l.counted : 0.0;
        for (int64_t k = 0; k < l.classes; k++) {
            double probability = exp((double)x[k * l.inner] - log_sum);
            dx[k * l.inner] = (float)(factor * (probability - (k == labels[line] ? 1.0 : 0.0)));
        }
        for (int64_t k = 0; labels[line] < 0 && k < l.classes; k++) {
            dx[k * l.inner] = 0.0F;
        }
    }
    return CKM_OK;
}

// inputs prediction, target
static ckm_status mse(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    const float *prediction = ckm_i_ref_input(&r, 0);
    const float *target = ckm_i_ref_input(&r, 1);
    float *loss = ckm_i_ref_output(&r, 0);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        double distance = (double)prediction[i] - (double)target[i];
        sum += distance * distance;
    }
    if (loss != NULL) {
        *loss = (float)(sum / (double)n);
    }
    return CKM_OK;
}

// inputs prediction, target
static ckm_status mse_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    const float *prediction = ckm_i_ref_input(&r, 0);
    const float *target = ckm_i_ref_input(&r, 1);
    float *out = ckm_i_ref_output(&r, 0);
    for (int64_t i = 0; i < n; i++) {
        out[i] = (float)(2.0 / (double)n * ((double)prediction[i] - (double)target[i]));
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_loss[] = {
    {CKM_I_OP_softmax_cross_entropy, NULL, softmax_cross_entropy},
    {CKM_I_OP_softmax_cross_entropy_backward, NULL, softmax_cross_entropy_backward},
    {CKM_I_OP_mse, NULL, mse},
    {CKM_I_OP_mse_backward, NULL, mse_backward},
    {0},
};
