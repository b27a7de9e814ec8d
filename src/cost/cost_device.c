// SPDX-License-Identifier: Apache-2.0
// Nanoseconds that a device is modelled to take: the roofline of device_work.c, operator by operator.
#include <float.h>

#include "base/error.h"
#include "cost/cost_models.h"
#include "cost/device_work.h"

static ckm_status check_device(const ckm_device *device, ckm_error *err)
{
    if (device == NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the device cost model needs a device");
    }
    bool good = device->macs_per_s > 0 && device->matrix_macs_per_s > 0 && device->bytes_per_s > 0 &&
                device->launch_ns >= 0;
    for (int i = 0; i < CKM_DEVICE_CLASSES; i++) {
        good = good && device->efficiency[i] > 0;
    }
    return good ? CKM_OK
                : ckm_i_error(err, CKM_ERR_ARGUMENT,
                              "device \"%.31s\": rates and efficiencies must be positive, the launch not negative",
                              device->name);
}

// Counts that are finite and not negative.
static bool countable(const ckm_device_kernels *kernels)
{
    const double counts[] = {kernels->macs, kernels->bytes, kernels->launches};
    bool good = true;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        good = good && counts[i] >= 0 && counts[i] <= DBL_MAX;
    }
    return good;
}

// The device whose matrix units are those of a half precision.
static ckm_device in_half(const ckm_device *device, const ckm_device_product *product, ckm_device_precision precision)
{
    ckm_device half = *device;
    double peak = precision == CKM_DEVICE_FLOAT16    ? product->float16_macs_per_s
                  : precision == CKM_DEVICE_BFLOAT16 ? product->bfloat16_macs_per_s
                                                     : 0;
    if (peak > 0) {
        half.matrix_macs_per_s = peak;
        half.efficiency[CKM_DEVICE_MATRIX] = half.efficiency[CKM_DEVICE_CONV3] = product->half_efficiency;
    }
    return half;
}

ckm_status ckm_device_time(const ckm_device *device, const ckm_device_product *product,
                           const ckm_device_kernels *kernels, double *time_ns, ckm_error *err)
{
    if (device == NULL || kernels == NULL || time_ns == NULL) {
        return ckm_i_error_null(err, __func__, device == NULL ? "device" : kernels == NULL ? "kernels" : "time_ns");
    }
    ckm_device used = product != NULL ? in_half(device, product, kernels->precision) : *device;
    CKM_I_CHECK(check_device(&used, err));
    if (!countable(kernels) || kernels->arithmetic < 0 || kernels->arithmetic >= CKM_DEVICE_CLASSES) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "ckm_device_time: counts must be finite and not negative, the class one that there is");
    }
    const ckm_i_device_work work = {kernels->arithmetic, kernels->macs, kernels->bytes, 0, kernels->launches};
    *time_ns = ckm_i_device_time(&used, &work);
    return CKM_OK;
}

ckm_status ckm_i_cost_device(const ckm_training *training, const ckm_device *device, int64_t *costs, ckm_error *err)
{
    CKM_I_CHECK(check_device(device, err));
    for (int32_t i = 0; i < training->n_ops; i++) {
        ckm_i_device_work work;
        CKM_I_CHECK(ckm_i_device_work_of(training, i, &work, err));
        double ns = ckm_i_device_time(device, &work);
        if (!(ns < 9e18)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "operator \"%.200s\": its time on \"%.31s\" does not fit 63 bits",
                               training->ops[i].name, device->name);
        }
        costs[i] = (int64_t)(ns + 0.5);
    }
    return CKM_OK;
}
