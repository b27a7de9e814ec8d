// SPDX-License-Identifier: Apache-2.0
// What a program that only plans (-DCKM_RUN=OFF) says where another runs networks.
#include "cli/cli_costs.h"

ckm_status cli_device_measure(int threads, ckm_device *out, ckm_error *err)
{
    (void)threads;
    (void)out;
    return cli_error(err, CKM_ERR_UNSUPPORTED, NULL,
                     "this program only plans and cannot measure this machine: build it with -DCKM_RUN=ON, or copy a "
                     "device file here and use --costs device:FILE");
}
