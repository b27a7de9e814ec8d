// SPDX-License-Identifier: Apache-2.0
// Monotonic wall time.
#ifndef CKM_SRC_BASE_CLOCK_H
#define CKM_SRC_BASE_CLOCK_H

// Seconds since an arbitrary moment; never goes backwards.
double ckm_i_clock_seconds(void);

#endif
