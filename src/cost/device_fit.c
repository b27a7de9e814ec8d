// SPDX-License-Identifier: Apache-2.0
// A device from measured times of operators. Every class gets the rate that its operators reached as a whole, what is
// mostly launch set aside; the rates of matrix products and of memory stand for the peaks, so that efficiencies are relative
// to them.
#include <string.h>

#include "base/error.h"
#include "cost/device_work.h"

typedef struct totals {
    double work[CKM_DEVICE_CLASSES], ns[CKM_DEVICE_CLASSES];  // multiply-accumulates; bytes for STREAM
    double least_ns;                                          // of an operator that does something
} totals;

// Operators that take less than this are mostly launch; rates taken from them mean little.
static const double short_ns = 20e3;

static void add(totals *t, const ckm_i_device_work *work, double ns)
{
    if (work->launches <= 0 || ns <= 0) {
        return;
    }
    if (t->least_ns == 0 || ns < t->least_ns) {
        t->least_ns = ns;
    }
    double amount = work->arithmetic == CKM_DEVICE_STREAM ? work->bytes : work->macs;
    ckm_device_class c = work->arithmetic;
    if (ns < short_ns || amount <= 0) {
        return;
    }
    t->work[c] += amount;
    t->ns[c] += ns;
}

static ckm_status add_step(totals *t, const ckm_training *step, const int64_t *measured_ns, ckm_error *err)
{
    for (int32_t i = 0; i < step->n_ops; i++) {
        ckm_i_device_work work;
        CKM_I_CHECK(ckm_i_device_work_of(step, i, &work, err));
        add(t, &work, (double)measured_ns[i]);
    }
    return CKM_OK;
}

// Work a nanosecond; 0 when nothing was measured.
static double rate(const totals *t, ckm_device_class c)
{
    return t->ns[c] > 0 ? t->work[c] / t->ns[c] : 0;
}

ckm_status ckm_device_fit(const ckm_training *const *steps, const int64_t *const *measured_ns, int32_t n,
                          ckm_device *out, ckm_error *err)
{
    CKM_I_NEED(steps, err);
    CKM_I_NEED(measured_ns, err);
    CKM_I_NEED(out, err);
    totals t;
    memset(&t, 0, sizeof t);
    for (int32_t i = 0; i < n; i++) {
        CKM_I_NEED_NAMED(steps[i], "one of the steps", err);
        CKM_I_NEED_NAMED(measured_ns[i], "one of the lists of times", err);
        CKM_I_CHECK(add_step(&t, steps[i], measured_ns[i], err));
    }
    double matrix = rate(&t, CKM_DEVICE_MATRIX);
    double memory = rate(&t, CKM_DEVICE_STREAM);
    if (!(matrix > 0) || !(memory > 0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "the operators measured are too few or too small to tell the rates of the device");
    }
    double conv3 = rate(&t, CKM_DEVICE_CONV3);
    double grouped = rate(&t, CKM_DEVICE_GROUPED);
    ckm_device d = {.name = ""};
    d.macs_per_s = d.matrix_macs_per_s = 1e9 * matrix;
    d.bytes_per_s = 1e9 * memory;
    d.launch_ns = t.least_ns;
    d.efficiency[CKM_DEVICE_CONV3] = conv3 > 0 ? conv3 / matrix : 1;
    d.efficiency[CKM_DEVICE_MATRIX] = 1;
    d.efficiency[CKM_DEVICE_GROUPED] = grouped > 0 ? grouped / matrix : 1;
    d.efficiency[CKM_DEVICE_STREAM] = 1;
    *out = d;
    return CKM_OK;
}
