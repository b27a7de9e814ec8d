// SPDX-License-Identifier: Apache-2.0
// Nanoseconds that a device is modelled to take: the roofline of device_work.c, operator by operator.
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
